/* Quantization schemes: how a tensor becomes integers (numerics §1).
 *
 * A scheme computes scale and zero point of a block from its values. It is one file,
 * scheme_<name>.c, a line in schemes.inc and a DT_SCHEME_<NAME> in qat.h. scheme.c and quantize.c
 * do the rest for all schemes: blocks, rounding of scales, codes, dequantized values, masks and
 * errors. f32 only. */
#ifndef DT__QAT_SCHEME_H
#define DT__QAT_SCHEME_H

#include <detent/experimental/qat.h>

#include "core/core.h"
#include "kernels/products/panels.h"

/* ---- schemes -------------------------------------------------------------------------------- */

/* A test: a block x, and the scale, zero point and stored signed codes that it must get. */
typedef struct dt__scheme_case {
    const char *name;
    int64_t bits;
    int n;
    float x[8];
    float scale;
    int zero;
    int8_t codes[8];
} dt__scheme_case;

/* The scales that can be stored: normal numbers of the dtype, in least ... most. For activations
 * `least` is 2^-23 where the dtype allows it. */
typedef struct dt__scale_limits {
    int dtype; /* DT_SCALE_... */
    float least, most;
} dt__scale_limits;

/* Scales of blocks that are powers of two: how the exponent follows from a = max |x|. */
typedef struct dt__mx_rule {
    float most;     /* a is divided by it; 0: there is no such rule */
    uint32_t carry; /* added to the bits of the quotient's fraction: DT__MX_... */
    int bits;       /* taken off the exponent */
} dt__mx_rule;

enum {
    DT__MX_DOWN = 0,      /* E = floor(log2 v) of the quotient v */
    DT__MX_UP = 0x7fffff, /* E = ceil(log2 v) */
    DT__MX_NEAR = 1 << 21 /* E = floor(log2 v), one more from 1.75 * 2^E on */
};

typedef struct dt__scheme {
    const char *name;
    const char *text; /* one line for people */
    bool has_zero;    /* a zero point: codes are not `integer` for a weight's panels */
    bool fp16_blocks; /* q4_0: 4 bits, groups of 32, scales always fp16, weights only */
    bool in_groups;   /* q8_0: granularity group and dynamic ranges alone */
    bool never_clips; /* unless a scale is cut to its upper limit */
    bool half_up;     /* of dt__coding */
    bool extremum;    /* likewise */
    bool mean;        /* likewise */
    int bits;         /* the only number of bits; 0: 2 to 8 */
    int group;        /* the only size of groups, and no other granularity; 0: any */
    /* The codes, where they are not all integers of `bits` bits; without a zero point, and of
     * weights alone unless `group` is given. Files hold their places. */
    const dt__levels *levels;
    dt__mx_rule rule; /* scale = 2^(E - bits), in place of `scale` */
    /* The scale of every block, before limits and rounding. NULL: that of dt_quant_spec.of. */
    void (*scale)(int qmin, int qmax, const dt__blocks *b);
    /* The zero points that go with the scales. NULL: 0. */
    void (*zero)(int qmin, int qmax, const dt__blocks *b);
    /* Rounds each scale to one that can be stored, and computes its inverse. NULL: clamps to the
     * limits (to the upper one only with f16) and rounds to nearest. A scheme that does not allow
     * every number of the dtype has its own: powers of two cannot end at f16's 65504. */
    void (*round_scales)(const dt__scale_limits *limits, const dt__blocks *b);
    /* Makes the scales of a tensor's blocks from those that `scale` gave each block alone; then
     * neither limits nor a dtype other than f32 apply. NULL: they are the same. */
    void (*settle)(int64_t n, float *scale);
    /* With `settle`: the scale of a tensor (dt__blocks.global) whose largest magnitude is a. */
    float (*global)(float a);
    const dt__scheme_case *cases; /* ended by a case without a name */
} dt__scheme;

#define DT__SCHEME(name, number) extern const dt__scheme dt__scheme_##name;
#include "qat/schemes/schemes.inc"
#undef DT__SCHEME

enum {
#define DT__SCHEME(name, number) DT__COUNTS_##name,
#include "qat/schemes/schemes.inc"
#undef DT__SCHEME
    DT__SCHEMES /* how many */
};

extern const dt__scheme dt__scheme_own; /* its scales are those of dt_quant_spec.of */
/* Finds the registered scheme of a spec by its name; of no other spec is anything left of one. */
void dt__find_scheme(const dt_ctx *ctx, dt_quant_spec *q);
/* The scheme of a DT_SCHEME_...; NULL for any other number. */
const dt__scheme *dt__scheme_of(int scheme);

/* ---- settings ------------------------------------------------------------------------------- */

/* What a spec is for, as flags. In a model the panels of weights want groups of multiples of 8, and
 * activations have groups with schemes of blocks, and only with them. In a file only granularity
 * group has a group size. */
enum { DT__QUANT_TENSOR = 0, DT__QUANT_MODEL = 1, DT__QUANT_FILE = 2 };

#define DT__FAULT_KEYS 3
#define DT__SHIFT_IS_LEARNED "a shift is for activations with a learned range"

/* What is wrong with a spec. */
typedef struct dt__quant_fault {
    /* the settings that do not go together, as recipes and files name them, most likely mistake
     * first; NULL behind the last */
    const char *keys[DT__FAULT_KEYS];
    char text[120];
} dt__quant_fault;

/* False with the first fault of the spec (spec_check.c). */
bool dt__quant_is_valid(const dt_quant_spec *q, unsigned use, dt__quant_fault *fault);
/* The same as a status: CONFIG, with the fault's text. */
dt_status dt__quant_check(dt_ctx *ctx, const dt_quant_spec *q, unsigned use);

/* The dtype that scales are rounded to: scale_dtype, but DT_SCALE_F16 for q4_0. */
int dt__scale_dtype(const dt_quant_spec *q);

/* The levels of a spec's codes; NULL: every integer from dt__qmin to dt__qmax. */
const dt__levels *dt__levels_of(const dt_quant_spec *q);
/* The float whose bytes the codes are, which are expanded and multiplied in fp32; NULL: codes are
 * integers. */
const dt__small_float *dt__real_of(const dt_quant_spec *q);
/* Range of stored codes: -2^(bits-1) ... 2^(bits-1)-1, also where codes are unsigned, or the
 * levels' ends; of codes that are floats the range of these. */
int dt__qmin(const dt_quant_spec *q);
int dt__qmax(const dt_quant_spec *q);
/* Bits of a code in two's complement: more than q->bits where levels lie further apart. */
int dt__code_bits(const dt_quant_spec *q);
/* Whether 0 is a code. */
bool dt__has_code_zero(const dt_quant_spec *q);

/* Whether the scheme cuts activations into blocks along their last dimension, granularity group. */
bool dt__has_blocks(int scheme);
/* Writes the scale and zero point (NULL: none) of an observed range; of a scheme with `global`
 * *scale is the scale of the tensor. False where one would not be finite. */
bool dt__range_scale(const dt_quant_spec *q, float lo, float hi, float *scale, int8_t *zero);

/* Whether the straight-through gradient is masked: as q->ste says; by default where the range is
 * static or learned, not where it is recomputed each step. */
bool dt__ste_clipped(const dt_quant_spec *q);

/* Whether a scheme's scales can be learned by the formulas of learned.c. */
bool dt__is_learnable(int scheme);

/* Whether blocks have zero points: by the scheme, or because learned codes are unsigned. */
bool dt__has_zero(const dt_quant_spec *q);

/* ---- blocks --------------------------------------------------------------------------------- */

/* A contiguous tensor seen as a matrix whose rows are cut into groups. */
typedef struct dt__cut {
    int64_t rows, columns;
    int64_t group, groups; /* columns of a group (the row's last may be shorter), groups of a row */
    bool whole;            /* one block, one scale for the tensor; then group = columns */
    int64_t experts;       /* tensors of their own, of as many rows each; 0: one */
} dt__cut;

/* Rows are the first dimension and columns the rest (tensor, channel, sample; group of a weight),
 * or columns the last dimension and rows the rest (token; group of an activation). SHAPE where
 * extents are negative or overflow. */
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

/* Where codes go; the caller's memory. */
typedef struct dt__quantized {
    int8_t *codes;   /* [rows][ld], stored signed form; NULL: scales only */
    int64_t ld;      /* at least columns */
    bool biased;     /* codes are in memory as u8, plus 128 */
    float *scale;    /* [rows][groups], or one */
    int8_t *zero;    /* likewise; NULL only where the scheme has no zero point */
    uint8_t *mask;   /* [rows][dt__mask_bytes]: bit k % 8 of byte k / 8 is 0 where element k of the
                      * row was clipped, bits past the row are 1; NULL: not wanted */
    int64_t clipped; /* out: elements whose code was clipped; 0: the mask is full */
    float global;    /* as of dt__blocks: the static range of an activation; else 0 */
    const dt__small_float *real; /* out: what codes are; NULL: integers */
} dt__quantized;

/* Scales, inverses and zero points by the scheme, limited and rounded. False where a scale or a
 * dequantized value would not be finite. */
bool dt__choose_scales(const dt_quant_spec *q, const dt__blocks *b);
/* The same by a scheme that need not be in the list; q->scheme is not read. */
bool dt__scheme_scales(const dt__scheme *scheme, const dt_quant_spec *q, const dt__blocks *b);
/* Rounds scales that were computed from stored ones to q's scale dtype, within its limits. */
void dt__store_scales(const dt_quant_spec *q, int64_t n, float *scale);
/* The spec in the form that kernels take; refers to *q. */
dt__coding dt__coding_of(const dt_quant_spec *q);
/* Whether a code can be clipped. */
bool dt__can_clip(const dt_quant_spec *q);

/* Chooses scales and zero points from x and quantizes it. `name` is the tensor's, for messages.
 * Errors: NUMERIC (an element that is not finite, with its index; a block whose scale or
 * dequantized values are not finite). Then the contents of `out` are undefined. */
dt_status dt__quantize(dt_ctx *ctx, const dt_quant_spec *q, const dt__cut *cut, const float *x,
                       dt__quantized *out, const char *name);

/* Whether panels can be made in one pass: no scale depends on the whole tensor, no zero points. */
bool dt__one_pass(const dt_quant_spec *q);

/* Chooses scales, makes the panels of x [rows][columns] of `layout` and, unless NULL, the mask,
 * all in one pass over x. The number of clipped codes; -1 where dt__quantize would fail. */
int64_t dt__quantize_panels(dt_ctx *ctx, const dt__panel_source *s);

/* The range of all of x, 0 included. The index of the first element that is not finite; -1:
 * none. */
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
