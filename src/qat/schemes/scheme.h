/* Quantization schemes: how a tensor becomes integers (numerics §1).
 *
 * A scheme computes scale and zero point of a block from its values. It is one file,
 * scheme_<name>.c, a line in schemes.inc and a DT_SCHEME_<NAME> in qat.h. scheme.c and quantize.c
 * have what all schemes share: blocks, rounding of scales, codes, dequantized values, masks and
 * errors. f32 only. */
#ifndef DT__QAT_SCHEME_H
#define DT__QAT_SCHEME_H

#include <detent/experimental/qat.h>

#include "core/core.h"
#include "kernels/products/panels.h"

/* ---- schemes -------------------------------------------------------------------------------- */

/* A test: a block x, and its expected scale, zero point and stored signed codes. */
typedef struct dt__scheme_case {
    const char *name;
    int64_t bits;
    int n;
    float x[8];
    float scale;
    int zero;
    int8_t codes[8];
} dt__scheme_case;

/* The scales that can be stored: normal numbers of the dtype, from least to most. For activations
 * `least` is 2^-23 where the dtype allows it. */
typedef struct dt__scale_limits {
    int dtype; /* DT_SCALE_... */
    float least, most;
} dt__scale_limits;

/* Block scales that are powers of two: how the exponent follows from a = max |x|. */
typedef struct dt__mx_rule {
    float most;     /* v = a / most; 0: scales are not powers of two */
    uint32_t carry; /* added to the bits of the fraction of v: DT__MX_... */
    int bits;       /* subtracted from the exponent E */
} dt__mx_rule;

enum {
    DT__MX_DOWN = 0,      /* E = floor(log2 v) */
    DT__MX_UP = 0x7fffff, /* E = ceil(log2 v) */
    DT__MX_NEAR = 1 << 21 /* E = floor(log2 v), plus 1 if v >= 1.75 * 2^floor(log2 v) */
};

typedef struct dt__scheme {
    const char *name;
    const char *text; /* one line for people */
    bool has_zero;    /* it has zero points: a weight's codes are not `integer` */
    bool fp16_blocks; /* q4_0: 4 bits, groups of 32, scales always fp16, weights only */
    bool in_groups;   /* q8_0: only granularity group and dynamic ranges */
    bool never_clips; /* except where a scale is cut to its upper limit */
    bool half_up;     /* as in dt__coding */
    bool extremum;    /* as in dt__coding */
    bool mean;        /* as in dt__coding */
    int bits;         /* the only number of bits; 0: 2 to 8 */
    int group;        /* the only group size, and granularity group only; 0: any */
    /* The codes, where they are not all integers of `bits` bits. Such a scheme has no zero point
     * and is for weights only, unless `group` is set. Files store the index of a level. */
    const dt__levels *levels;
    dt__mx_rule rule; /* mx schemes: replaces the function `scale` */
    /* Computes the scale of every block, before limits and rounding. NULL: dt_quant_spec.of
     * does. */
    void (*scale)(int qmin, int qmax, const dt__blocks *b);
    /* Computes the zero points from the scales. NULL: all are 0. */
    void (*zero)(int qmin, int qmax, const dt__blocks *b);
    /* Rounds each scale to one that can be stored, and computes its inverse. NULL: clamps to the
     * limits (with f16 only to the upper one) and rounds to nearest. A scheme whose scales are not
     * arbitrary numbers of the dtype has its own: the largest power of two is not f16's limit
     * 65504. */
    void (*round_scales)(const dt__scale_limits *limits, const dt__blocks *b);
    /* Adjusts the scales that `scale` computed for each block alone, where they depend on all
     * blocks of the tensor. Then neither limits nor a dtype other than f32 apply. NULL: they do not
     * depend. */
    void (*settle)(int64_t n, float *scale);
    /* With `settle`: the scale of a tensor (dt__blocks.global) whose largest magnitude is a. */
    float (*global)(float a);
    const dt__scheme_case *cases; /* the last one has no name */
} dt__scheme;

#define DT__SCHEME(name, number) extern const dt__scheme dt__scheme_##name;
#include "qat/schemes/schemes.inc"
#undef DT__SCHEME

enum {
#define DT__SCHEME(name, number) DT__COUNTS_##name,
#include "qat/schemes/schemes.inc"
#undef DT__SCHEME
    DT__SCHEMES /* the number of schemes */
};

extern const dt__scheme dt__scheme_own; /* its scales are computed by dt_quant_spec.of */
/* Sets q->of to the registered scheme that a spec names; clears the fields of registered schemes in
 * all other specs. */
void dt__find_scheme(const dt_ctx *ctx, dt_quant_spec *q);
/* The scheme of a DT_SCHEME_...; NULL for any other number. */
const dt__scheme *dt__scheme_of(int scheme);

/* ---- settings ------------------------------------------------------------------------------- */

/* The use of a spec, as flags. In a model, panels of weights require groups of multiples of 8, and
 * activations have groups with block schemes and only with them. In a file only granularity group
 * has a group size. */
enum { DT__QUANT_TENSOR = 0, DT__QUANT_MODEL = 1, DT__QUANT_FILE = 2 };

#define DT__FAULT_KEYS 3
#define DT__SHIFT_IS_LEARNED "a shift is for activations with a learned range"

/* What is wrong with a spec. */
typedef struct dt__quant_fault {
    /* the settings that exclude each other, as recipes and files name them, most likely mistake
     * first; NULL behind the last */
    const char *keys[DT__FAULT_KEYS];
    char text[120];
} dt__quant_fault;

/* False with the first fault of the spec (spec_check.c). */
bool dt__quant_is_valid(const dt_quant_spec *q, unsigned use, dt__quant_fault *fault);
/* Fails with CONFIG and the fault's text if the spec is not valid. */
dt_status dt__quant_check(dt_ctx *ctx, const dt_quant_spec *q, unsigned use);

/* The dtype that scales are rounded to: scale_dtype, but DT_SCALE_F16 for q4_0. */
int dt__scale_dtype(const dt_quant_spec *q);

/* The levels of a spec's codes; NULL: every integer from dt__qmin to dt__qmax. */
const dt__levels *dt__levels_of(const dt_quant_spec *q);
/* The float format whose bytes the codes are (expanded and multiplied in fp32); NULL: codes are
 * integers. */
const dt__small_float *dt__real_of(const dt_quant_spec *q);
/* The range of stored codes: -2^(bits-1) ... 2^(bits-1)-1, also where codes are unsigned; with
 * levels their ends; of codes that are floats the range of their bytes' values. */
int dt__qmin(const dt_quant_spec *q);
int dt__qmax(const dt_quant_spec *q);
/* Bits of a code in two's complement: more than q->bits where levels lie further apart. */
int dt__code_bits(const dt_quant_spec *q);
/* Whether 0 is a code. */
bool dt__has_code_zero(const dt_quant_spec *q);

/* Whether the scheme cuts activations into blocks along their last dimension (granularity
 * group). */
bool dt__has_blocks(int scheme);
/* Writes the scale and zero point (NULL: none) of an observed range; for a scheme with `global`
 * *scale is the scale of the tensor. False where one would not be finite. */
bool dt__range_scale(const dt_quant_spec *q, float lo, float hi, float *scale, int8_t *zero);

/* Whether the straight-through gradient is masked: as q->ste says; by default where the range is
 * static or learned, not where it is dynamic. */
bool dt__ste_clipped(const dt_quant_spec *q);

/* Whether a scheme's scales can be learned by the formulas of learned.c. */
bool dt__is_learnable(int scheme);

/* Whether blocks have zero points: by the scheme, or because learned codes are unsigned. */
bool dt__has_zero(const dt_quant_spec *q);

/* ---- blocks --------------------------------------------------------------------------------- */

/* A contiguous tensor seen as a matrix whose rows are cut into groups. */
typedef struct dt__cut {
    int64_t rows, columns;
    int64_t group, groups; /* columns of a group (a row's last may be shorter); groups of a row */
    bool whole;            /* the tensor is one block with one scale; then group = columns */
    int64_t experts;       /* number of equal parts of the rows; 0: one */
} dt__cut;

/* Rows are the first dimension and columns the rest (tensor, channel, sample; group of a weight),
 * or columns are the last dimension and rows the rest (token; group of an activation). Errors:
 * SHAPE (extents are negative or overflow). */
dt_status dt__cut_of(dt_ctx *ctx, const dt_quant_spec *q, int rank, const int64_t *dims,
                     dt__cut *out);

/* Number of scales: rows * groups, or 1. */
static inline int64_t dt__cut_blocks(const dt__cut *c)
{
    return c->whole ? 1 : c->rows * c->groups;
}

/* Bytes of a row of a mask. */
static inline int64_t dt__mask_bytes(const dt__cut *c) { return dt__ceil_div(c->columns, 8); }

/* ---- scales, codes, dequantized values ------------------------------------------------------ */

/* Where quantizing writes; buffers of the caller. */
typedef struct dt__quantized {
    int8_t *codes;   /* [rows][ld], stored signed form; NULL: scales only */
    int64_t ld;      /* at least columns */
    bool biased;     /* codes are in memory as u8, plus 128 */
    float *scale;    /* [rows][groups], or one */
    int8_t *zero;    /* likewise; NULL only where the scheme has no zero point */
    uint8_t *mask;   /* [rows][dt__mask_bytes]: bit k % 8 of byte k / 8 is 0 where element k of the
                      * row was clipped, bits past the row are 1; NULL: not wanted */
    int64_t clipped; /* out: elements whose code was clipped; 0: the mask is full */
    float global;    /* in, as in dt__blocks: from an activation's static range; else 0 */
    const dt__small_float *real; /* out: the float format of codes; NULL: integers */
} dt__quantized;

/* Computes scales, inverses and zero points by the scheme, limited and rounded. False where a scale
 * or a dequantized value would not be finite. */
bool dt__choose_scales(const dt_quant_spec *q, const dt__blocks *b);
/* Does so by a given scheme, which need not be in the list; q->scheme is not read. */
bool dt__scheme_scales(const dt__scheme *scheme, const dt_quant_spec *q, const dt__blocks *b);
/* Rounds scales that were computed from stored scales to q's scale dtype, within its limits. */
void dt__store_scales(const dt_quant_spec *q, int64_t n, float *scale);
/* The spec in the form that kernels take; refers to *q. */
dt__coding dt__coding_of(const dt_quant_spec *q);
/* Whether a code can be clipped. */
bool dt__can_clip(const dt_quant_spec *q);

/* Computes scales and zero points from x and quantizes it. `name` is the tensor's, for messages.
 * After an error the contents of `out` are undefined. Errors: NUMERIC (an element that is not
 * finite, with its index; a block whose scale or dequantized values are not finite). */
dt_status dt__quantize(dt_ctx *ctx, const dt_quant_spec *q, const dt__cut *cut, const float *x,
                       dt__quantized *out, const char *name);

/* Whether one pass can make panels: there are no zero points, and no scale depends on the whole
 * tensor. */
bool dt__one_pass(const dt_quant_spec *q);

/* Computes scales, the panels of x [rows][columns] of `layout` and, unless NULL, the mask, in one
 * pass over x. Returns the number of clipped codes; -1 where dt__quantize would fail. */
int64_t dt__quantize_panels(dt_ctx *ctx, const dt__panel_source *s);

/* Computes the range of all of x, 0 included. Returns the index of the first element that is not
 * finite; -1: all are. */
int64_t dt__range_of(dt_ctx *ctx, const dt__cut *cut, const float *x, float *lo, float *hi);

/* dt__quantize with the scales and zero points that are in `out` already. */
dt_status dt__quantize_given(dt_ctx *ctx, const dt_quant_spec *q, const dt__cut *cut,
                             const float *x, dt__quantized *out, const char *name);

/* y = (q - zp) * scale, contiguous. */
void dt__dequantize(dt_ctx *ctx, const dt__cut *cut, const dt__quantized *in, float *y);

/* dx = mask ? dy : 0. */
void dt__pass_gradient(dt_ctx *ctx, const dt__cut *cut, const uint8_t *mask, const float *dy,
                       float *dx);

#endif
