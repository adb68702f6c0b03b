/* qat.h: quantization-aware training: quantization specs, the FakeQuantTensor, prepare, convert.
 *
 * A FakeQuantTensor wraps an fp32 master. Ops that compute read its integer codes or its
 * dequantized values, the optimizer's in-place ops write the master, and gradients are those of the
 * wrapper.
 */
#ifndef DETENT_QAT_H
#define DETENT_QAT_H

#include <detent/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A scheme of a program's own (experimental/qat.h). */
typedef struct dt_own_scheme dt_own_scheme;

/* ---- quantization specs ------------------------------------------------------------------- */

/* Schemes, whose formulas are in docs/numerics.md: how scale and zero point are computed from the
 * values that share them. */
enum {
    DT_SCHEME_SYMMETRIC,
    DT_SCHEME_SYMMETRIC_NO_CLIP,
    DT_SCHEME_ASYMMETRIC,
    DT_SCHEME_Q4_0,
    DT_SCHEME_Q8_0,
    DT_SCHEME_DEVICE, /* activations of integer networks */
    DT_SCHEME_NARROW, /* weights of integer networks */
    /* weights whose codes are not all integers: 2 bits without 0; -1, 0, 1; and -1, 1 */
    DT_SCHEME_HALF_LEVELS,
    DT_SCHEME_TERNARY,
    DT_SCHEME_BINARY,
    DT_SCHEME_POWER_OF_TWO, /* 0 and powers of two, 4 bits */
    /* blocks of 32 with a power of two as scale [OCP MX]: FP4, with the scale rounded down, or up,
     * and FP6 (E2M3) */
    DT_SCHEME_MXFP4,
    DT_SCHEME_MXFP4_UP,
    DT_SCHEME_MXFP6,
    DT_SCHEME_NVFP4, /* FP4 in blocks of 16: E4M3 times a scale of the tensor [NVIDIA] */
    /* such blocks whose codes are floats: FP8 (E4M3, with the scale rounded down, or up; E5M2) and
     * FP6 (E3M2) */
    DT_SCHEME_MXFP8,
    DT_SCHEME_MXFP8_UP,
    DT_SCHEME_MXFP8_E5M2,
    DT_SCHEME_MXFP6_E3M2,
    /* FP4 and FP8 (E4M3) as above, with scales rounded as compressed-tensors rounds them */
    DT_SCHEME_MXFP4_NEAR,
    DT_SCHEME_MXFP8_NEAR,
    DT_SCHEME_OWN /* a registered one (dt_own_scheme) */
};
enum { DT_PER_TENSOR, DT_PER_CHANNEL, DT_PER_GROUP, DT_PER_TOKEN, DT_PER_SAMPLE };
enum { DT_SCALE_F32, DT_SCALE_F16, DT_SCALE_BF16 };
/* The default is identity with a dynamic range, else clipped: 0 where a code was clipped. */
enum { DT_STE_DEFAULT, DT_STE_IDENTITY, DT_STE_CLIPPED };
enum { DT_RANGE_DYNAMIC, DT_RANGE_STATIC, DT_RANGE_LEARNED, DT_RANGE_FIXED };
enum { DT_SAVED_COMPACT, DT_SAVED_EXACT };
enum { DT_OBSERVER_MINMAX, DT_OBSERVER_MOVING_AVERAGE, DT_OBSERVER_PERCENTILE, DT_OBSERVER_MSE };

/* A quantization spec: how a tensor becomes integers. The formulas are in docs/numerics.md. */
typedef struct dt_quant_spec {
    int scheme;         /* DT_SCHEME_... */
    int64_t bits;       /* 2...8 */
    int granularity;    /* DT_PER_... */
    int64_t group_size; /* for DT_PER_GROUP; a positive multiple of 8 in models */
    int scale_dtype;    /* DT_SCALE_... */
    int ste;            /* DT_STE_...: the straight-through gradient */
    bool is_unsigned;   /* codes 0...2^bits-1; asymmetric, and learned ranges of activations */
    /* scales are at least 2^-23; false: at least the smallest normal number of their dtype */
    bool activation;
    /* DT_RANGE_...: dynamic (from the tensor each time), static (activations: observed; weights: of
     * least error), learned, or fixed */
    int range;
    bool shift;   /* learned ranges of activations: a learned number per channel is added first */
    int save;     /* DT_SAVED_...: what backward keeps of an activation with a learned range */
    int observer; /* DT_OBSERVER_...: how a static range is computed from batches */
    double percentile; /* DT_OBSERVER_PERCENTILE: above 50, at most 100 */
    int64_t samples;   /* likewise: number of values kept; of more values a random sample */
    double averaging;  /* moving average: the weight of a new batch, above 0, at most 1 */
    double low, high;  /* DT_RANGE_FIXED, which presets `device-...` use: low <= 0 <= high */
    /* DT_SCHEME_OWN: the scheme's name, by which dt_prepare and files find `of` */
    const char *own;
    const dt_own_scheme *of; /* DT_SCHEME_OWN: the scheme; NULL: none is registered */
    bool is_own;             /* DT_SCHEME_OWN: true if `of` is set */
} dt_quant_spec;

DT_API dt_quant_spec dt_weight_quant_defaults(void);     /* the defaults of weights */
DT_API dt_quant_spec dt_activation_quant_defaults(void); /* the defaults of activations */

/* ---- the FakeQuantTensor ------------------------------------------------------------------- */

/* Wraps x for this pass: ops that multiply integers read its codes, others its dequantized values;
 * backward is straight-through. `enabled` false is the identity. Lent by the tape. f32 only. */
DT_API dt_tensor *dt_fake_quant(dt_tape *t, dt_tensor *x, const dt_quant_spec *quant, bool enabled);

/* The fp32 master of a FakeQuantTensor, to read or to write (new codes are made when they are next
 * read); x itself for a plain tensor; NULL with STATE for a converted one. Lent. */
DT_API dt_tensor *dt_inner(dt_tensor *x);
DT_API bool dt_is_fake_quant(const dt_tensor *x); /* prepared; fake quantization may be disabled */

/* *out = the dequantized values of a FakeQuantTensor or converted parameter, as a new plain tensor
 * that the caller frees. */
DT_API dt_status dt_dequantize(dt_tensor *x, dt_tensor **out);

/* ---- prepare and convert --------------------------------------------------------------------- */

enum {
    /* the default: int8 asymmetric per token, int4 symmetric group 32 */
    DT_INT8_DYNAMIC_INT4_WEIGHT,
    DT_INT4_WEIGHT,              /* activations stay float */
    DT_INT8_DYNAMIC_INT8_WEIGHT, /* int8 symmetric per channel */
    DT_INT8_STATIC_INT8_WEIGHT,  /* the same weights; activations int8 asymmetric, observed */
    /* weights and activations int4, learned: a scale and shifts for the input, a scale per channel
     * of a weight */
    DT_INT4_INT4,
    /* computes like onnxruntime's MatMulNBits: activations int8 q8_0 in blocks, weights int4
     * symmetric with the same blocks as groups */
    DT_INT8_BLOCK_INT4_WEIGHT,
    /* computes like llama.cpp with Q4_0: activations q8_0 in blocks of 32, weights q4_0, with f16
     * scales */
    DT_INT8_BLOCK_Q4_0_WEIGHT,
    /* formats of small floats in blocks that accelerators multiply, activations by weights: nvfp4
     * (with an observed scale of the tensor) by nvfp4; mxfp4_near by mxfp4_near; mxfp8_near by
     * mxfp8_near; mxfp8_near by mxfp4_near. Inputs of convolutions stay float. */
    DT_NVFP4_NVFP4,
    DT_MXFP4_MXFP4,
    DT_MXFP8_MXFP8,
    DT_MXFP8_MXFP4,
    /* networks of integers only, as microcontrollers compute them (device.h): activations between
     * layers are int8 codes; weights are int8 per channel, or int4 where the arithmetic supports
     * it */
    DT_DEVICE_INT8,
    DT_DEVICE_INT4
};
enum { DT_FORWARD_INTEGER, DT_FORWARD_SIMULATED };

/* The most rules of a `qat` block. */
#define DT_MAX_RULES 64

/* Changes that a rule, or the `qat` block itself, makes to a spec: only of keys whose `has_...` is
 * set. */
typedef struct dt_quant_patch {
    dt_quant_spec quant;
    bool has_scheme, has_bits, has_granularity, has_group_size, has_scale_dtype, has_ste,
        has_unsigned, has_range, has_observer, has_percentile, has_samples, has_averaging,
        has_shift, has_save, has_low, has_high, has_own;
    bool quantize, has_quantize; /* false: this operand stays float */
} dt_quant_patch;

/* `match` is a glob over the whole path (`*` crosses dots); it selects a module and all quantizable
 * modules below it. The last matching rule wins, key by key. */
typedef struct dt_qat_rule {
    const char *match;
    bool skip, has_skip;
    dt_quant_patch weight, activation;
} dt_qat_rule;

typedef struct dt_qat_options {
    bool given; /* the recipe has a `qat` block */
    int preset;
    dt_quant_patch weight, activation; /* on top of the preset, for every module */
    bool fold_norm; /* fold batch norms into the convolutions before them; default true */
    int forward;
    /* Settings that no key gives are chosen per layer as the kernels of LiteRT require: a scale per
     * channel for convolutions and for more than 4 bits, scheme narrow for 8 bits, float inputs of
     * transposed convolutions with groups. `qat.target: litert` in a recipe. */
    bool litert;
    dt_qat_rule rules[DT_MAX_RULES];
    int64_t n_rules;
    /* For presets `device-...`: the shapes of an example's inputs, lent during the call. NULL:
     * taken from the model, which must be of family `layers`. */
    const dt_shape *inputs;
    int n_inputs;
} dt_qat_options;

/* The defaults of dt_prepare. */
DT_API dt_qat_options dt_qat_defaults(void);

/* The specs of a preset; false if activations stay float. */
DT_API bool dt_qat_preset(int preset, dt_quant_spec *weight, dt_quant_spec *activation);

/* Turns the weight of every selected module into a FakeQuantTensor, with the same handle, and adds
 * a hook to its input. All or nothing: every rule and shape is checked first. Errors: CONFIG (a
 * rule that matches nothing, a group size, tied weights with two specs), STATE (already
 * prepared). */
DT_API dt_status dt_prepare(dt_module *m, const dt_qat_options *options);

/* Turns fake quantization of a prepared model on or off, weights and activations. */
DT_API dt_status dt_enable(dt_module *m, bool on);
/* Observers of static ranges see the batches on which the model trains with fake quantization
 * enabled. With `on` they see every forward pass, also in evaluation mode or with fake quantization
 * disabled. To calibrate: turn this on and fake quantization off (dt_enable), run batches, and
 * restore both. STATE unless the model has an observer. */
DT_API dt_status dt_observe(dt_module *m, bool on);
/* Whether any weight is a FakeQuantTensor, or any layer quantizes a derived weight. */
DT_API bool dt_is_prepared(dt_module *m);
DT_API bool dt_is_converted(dt_module *m); /* any weight is packed */

/* The codes of a weight as a matrix. A row is an output channel, its columns are all other
 * dimensions. The rows of an op's groups are consecutive: a convolution has `groups` groups, a
 * grouped weight one per expert, any other weight one. */
typedef struct dt_code_rows {
    int8_t *codes;      /* [rows][columns], stored signed form */
    float *scale;       /* [rows][groups] */
    int8_t *zero_point; /* [rows][groups]; NULL: the scheme has none */
    int32_t *group_of; /* [op_groups][columns]: the scale group of each column; NULL: consecutive */
    int64_t op_groups; /* number of op groups in `group_of` */
} dt_code_rows;

/* A rounder chooses the codes of a weight. `master` is the weight: for a transposed convolution a
 * matrix of output rows, for a grouped layer all experts. The buffers of `to` are allocated:
 *     scale, zero_point
 *                are filled in where the range is learned or static, and must not change
 *     group_of   has consecutive groups; the rounder may assign columns to other groups of the same
 *                sizes. NULL if it must not: the granularity is not group, or the range is learned
 *                or static
 * A NULL rounder rounds to nearest. */
typedef struct dt_rounder {
    const char *name;
    dt_status (*round)(void *user, const char *path, const dt_tensor *master,
                       const dt_quant_spec *quant, const dt_code_rows *to);
    void *user;
} dt_rounder;

typedef struct dt_convert_report {
    int64_t converted; /* weights converted */
    int64_t enabled;   /* wrappers that were disabled and had to be enabled first */
    int64_t clipped;   /* elements outside the range of codes */
    int64_t elements;
    int64_t folded;   /* batch norms folded into weight and bias of the layer before them */
    int64_t unfolded; /* channels of these norms that training did not fold: dt_unfolded_channels */
} dt_convert_report;

/* Turns every FakeQuantTensor into packed integers on the same handle and frees its master. Learned
 * scales are kept as they are. With the nearest rounder no bit of any output changes. All or
 * nothing. `report` may be NULL. Errors: STATE (nothing prepared, a master still needed by a tape,
 * a static or learned range that has seen no batch), NUMERIC (NaN in a weight). A tape whose ops
 * saved codes does not need the master, but its dt_backward fails with STATE afterwards. */
DT_API dt_status dt_convert(dt_module *m, const dt_rounder *rounder, dt_convert_report *report);

#ifdef __cplusplus
}
#endif

/* Includes the experimental part, unless the program defines DETENT_STABLE_ONLY. */
#ifndef DETENT_STABLE_ONLY
#include <detent/experimental/qat.h>
#endif
#endif
