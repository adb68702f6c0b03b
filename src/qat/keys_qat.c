/* The keys of `qat` in a recipe, its presets, and how a patch changes a spec. */
#include "qat/quantized.h"
#include "qat/schemes/scheme.h"

#include <float.h>

static const char *const scheme_names[DT__SCHEMES + 2] = {
#define DT__SCHEME(name, number) [number] = #name,
#include "qat/schemes/schemes.inc"
#undef DT__SCHEME
    [DT_SCHEME_OWN] = "own",
};
_Static_assert((int)DT_SCHEME_OWN == DT__SCHEMES, "own is behind the schemes of the list");
static const char *const granularity_names[] = { "tensor", "channel", "group",
                                                 "token",  "sample",  NULL };
static const char *const scale_names[] = { "f32", "f16", "bf16", NULL };
static const char *const ste_names[] = { "default", "identity", "clipped", NULL };
const char *const dt__preset_names[] = { "int8-dynamic-int4-weight",
                                         "int4-weight",
                                         "int8-dynamic-int8-weight",
                                         "int8-static-int8-weight",
                                         "int4-int4",
                                         "int8-block-int4-weight",
                                         "int8-block-q4_0-weight",
                                         "nvfp4-nvfp4",
                                         "mxfp4-mxfp4",
                                         "mxfp8-mxfp8",
                                         "mxfp8-mxfp4",
                                         "device-int8",
                                         "device-int4",
                                         NULL };
static const char *const range_names[] = { "dynamic", "static", "learned", "fixed", NULL };
static const char *const save_names[] = { "compact", "exact", NULL };
static const char *const observer_names[] = { "minmax", "moving_average", "percentile", "mse",
                                              NULL };
const char *const dt__forward_names[] = { "integer", "simulated", NULL };

#define PATCH(field, flag)                                                                         \
    .offset = offsetof(dt_quant_patch, field), .given = offsetof(dt_quant_patch, flag)

/* Keys of weights and activations, in the order in which they are printed. */
/* clang-format off */
#define QUANTIZE                                                                                   \
    { "quantize", DT_KEY_BOOL, PATCH(quantize, has_quantize),                                      \
      .text = "false: this operand stays float" }
#define SCHEME                                                                                     \
    { "scheme", DT_KEY_CHOICE, PATCH(quant.scheme, has_scheme), .choices = scheme_names,           \
      .was = "rule",                                                                               \
      .text = "how scale and zero point are computed; own: by a registered scheme" },              \
    { "own", DT_KEY_STRING, PATCH(quant.own, has_own), .text = "with scheme own: its name" }
#define BITS                                                                                       \
    { "bits", DT_KEY_INT, PATCH(quant.bits, has_bits), .least = 1, .most = 8,                      \
      .text = "bits of a code; 1 of scheme binary alone" }
#define GRANULARITY(words)                                                                         \
    { "granularity", DT_KEY_CHOICE, PATCH(quant.granularity, has_granularity),                     \
      .choices = granularity_names, .text = words }
#define SCALE_DTYPE                                                                                \
    { "scale_dtype", DT_KEY_CHOICE, PATCH(quant.scale_dtype, has_scale_dtype),                     \
      .choices = scale_names, .text = "what scales are rounded to, in training too" }
#define STE                                                                                        \
    { "ste", DT_KEY_CHOICE, PATCH(quant.ste, has_ste), .choices = ste_names,                       \
      .text = "straight-through gradient: everywhere, or where no code was clipped; "              \
              "default: identity with a dynamic range, else clipped" }
#define UNSIGNED                                                                                   \
    { "unsigned", DT_KEY_BOOL, PATCH(quant.is_unsigned, has_unsigned),                             \
      .text = "codes from 0 on; of scheme asymmetric, and of learned ranges of activations" }
#define RANGE(words)                                                                               \
    { "range", DT_KEY_CHOICE, PATCH(quant.range, has_range), .choices = range_names, .text = words }
/* clang-format on */

const dt_key dt_weight_quant_keys[] = {
    QUANTIZE,
    SCHEME,
    BITS,
    GRANULARITY("weights that share a scale: all (tensor), an output channel's, or groups along "
                "its row"),
    { "group_size", DT_KEY_INT, PATCH(quant.group_size, has_group_size), .least = 8,
      .most = 1 << 30, .multiple = 8, .text = "weights of a group; longer than the row: the row" },
    SCALE_DTYPE,
    STE,
    UNSIGNED,
    RANGE("dynamic: scales of the present weights; static: of least error when QAT begins; "
          "learned: trained, by default with scheme symmetric and granularity channel"),
    { 0 },
};

const dt_key dt_tensor_quant_keys[] = {
    SCHEME,
    BITS,
    GRANULARITY("weights that share a scale: all (tensor), an output channel's, or groups along "
                "its row"),
    { "group_size", DT_KEY_INT, PATCH(quant.group_size, has_group_size), .least = 1,
      .most = 1 << 30, .text = "weights of a group; longer than the row: the row" },
    SCALE_DTYPE,
    UNSIGNED,
    RANGE("dynamic: a scale from the weights' own range; static: the one of least error"),
    { 0 },
};

const dt_key dt_activation_quant_keys[] = {
    QUANTIZE,
    SCHEME,
    BITS,
    GRANULARITY("values that share a scale: all (tensor), a token's (the last dimension), a "
                "sample's, or a group of a token's"),
    { "group_size", DT_KEY_INT, PATCH(quant.group_size, has_group_size), .least = 8,
      .most = 1 << 30, .multiple = 8,
      .text = "granularity group: values of a group; default: as the weight's" },
    SCALE_DTYPE,
    STE,
    UNSIGNED,
    RANGE("dynamic: scales of each input; static: of observed batches; learned: trained; fixed: "
          "`low` "
          "to `high`; all but dynamic have granularity tensor by default"),
    { "low", DT_KEY_REAL, PATCH(quant.low, has_low), .least = -FLT_MAX, .most = 0,
      .text = "fixed range, of presets device-int8 and device-int4: its lower end" },
    { "high", DT_KEY_REAL, PATCH(quant.high, has_high), .least = 0, .most = FLT_MAX,
      .text = "likewise its upper end" },
    { "shift", DT_KEY_BOOL, PATCH(quant.shift, has_shift),
      .text = "learned range: add a learned value per input channel before quantizing" },
    { "save", DT_KEY_CHOICE, PATCH(quant.save, has_save), .choices = save_names,
      .text = "learned range: backward keeps a byte of an element, or (exact) the element" },
    { "observer", DT_KEY_CHOICE, PATCH(quant.observer, has_observer), .choices = observer_names,
      .text = "how a static range is computed from the observed batches" },
    { "percentile", DT_KEY_REAL, PATCH(quant.percentile, has_percentile), .least = 50, .most = 100,
      .text = "share of all values, in percent, in the range of observer percentile" },
    { "samples", DT_KEY_INT, PATCH(quant.samples, has_samples), .least = 1024, .most = 1 << 26,
      .text = "values, drawn from all, that observer percentile keeps" },
    { "averaging", DT_KEY_REAL, PATCH(quant.averaging, has_averaging), .least = 1e-6, .most = 1,
      .text = "weight of a new batch in observers moving_average and mse" },
    { 0 },
};

#define OF_QUANT(field) .offset = offsetof(dt_quant_spec, field)

/* The keys of a whole spec, as in files. They have no texts, which are for recipes. */
const dt_key dt__quant_keys[] = {
    { "scheme", DT_KEY_CHOICE, OF_QUANT(scheme), .choices = scheme_names, .was = "rule" },
    { "bits", DT_KEY_INT, OF_QUANT(bits), .least = 1, .most = 8 },
    { "granularity", DT_KEY_CHOICE, OF_QUANT(granularity), .choices = granularity_names },
    { "group_size", DT_KEY_INT, OF_QUANT(group_size), .most = 1 << 30 },
    { "scale_dtype", DT_KEY_CHOICE, OF_QUANT(scale_dtype), .choices = scale_names },
    { "ste", DT_KEY_CHOICE, OF_QUANT(ste), .choices = ste_names },
    { "unsigned", DT_KEY_BOOL, OF_QUANT(is_unsigned) },
    { "own", DT_KEY_STRING, OF_QUANT(own), .given = offsetof(dt_quant_spec, is_own) },
    { 0 },
};

/* Further keys of a spec with a static or learned range. */
const dt_key dt__range_keys[] = {
    { "range", DT_KEY_CHOICE, OF_QUANT(range), .choices = range_names },
    { "shift", DT_KEY_BOOL, OF_QUANT(shift) },
    { "save", DT_KEY_CHOICE, OF_QUANT(save), .choices = save_names },
    { "observer", DT_KEY_CHOICE, OF_QUANT(observer), .choices = observer_names },
    { "percentile", DT_KEY_REAL, OF_QUANT(percentile), .most = 100 },
    { "samples", DT_KEY_INT, OF_QUANT(samples), .most = 1 << 26 },
    { "averaging", DT_KEY_REAL, OF_QUANT(averaging), .most = 1 },
    { "low", DT_KEY_REAL, OF_QUANT(low), .least = -FLT_MAX, .most = 0 },
    { "high", DT_KEY_REAL, OF_QUANT(high), .most = FLT_MAX },
    { 0 },
};

const dt_key dt__qat_rule_keys[] = {
    { "match", DT_KEY_STRING, .offset = offsetof(dt_qat_rule, match), .fallback = "!",
      .text = "glob over module paths, and all below; * crosses dots" },
    { "skip", DT_KEY_BOOL, .offset = offsetof(dt_qat_rule, skip),
      .given = offsetof(dt_qat_rule, has_skip), .text = "true: these modules stay float" },
    { "weight", DT_KEY_MAP, .offset = offsetof(dt_qat_rule, weight), .keys = dt_weight_quant_keys,
      .text = "changes to the weights' spec" },
    { "activation", DT_KEY_MAP, .offset = offsetof(dt_qat_rule, activation),
      .keys = dt_activation_quant_keys, .text = "changes to the activations' spec" },
    { 0 },
};

#define DT__OF_QAT(field) offsetof(dt_qat_options, field)
const dt_key dt_qat_keys[] = {
#include "qat/keys_qat.inc"
};

dt_quant_spec dt_weight_quant_defaults(void)
{
    return (dt_quant_spec){
        .scheme = DT_SCHEME_SYMMETRIC, .bits = 4, .granularity = DT_PER_GROUP, .group_size = 32
    };
}

dt_quant_spec dt_activation_quant_defaults(void)
{
    return (dt_quant_spec){ .scheme = DT_SCHEME_ASYMMETRIC,
                            .bits = 8,
                            .granularity = DT_PER_TOKEN,
                            .group_size = 32,
                            .activation = true,
                            .percentile = 99.9,
                            .samples = 1 << 18,
                            .averaging = 0.01 };
}

dt_qat_options dt_qat_defaults(void)
{
    return (
        dt_qat_options){ .given = true, .preset = DT_INT8_DYNAMIC_INT4_WEIGHT, .fold_norm = true };
}

/* Sets a learned range and the settings that it requires. */
static void learn(dt_quant_spec *q)
{
    q->range = DT_RANGE_LEARNED;
    if (q->scheme != DT_SCHEME_DEVICE && !dt__is_learnable(q->scheme)) {
        q->scheme = DT_SCHEME_SYMMETRIC;
    }
    q->granularity = q->activation ? DT_PER_TENSOR : DT_PER_CHANNEL;
    q->scale_dtype = DT_SCALE_F32;
}

bool dt_is_device_preset(int preset)
{
    return preset == DT_DEVICE_INT8 || preset == DT_DEVICE_INT4;
}

/* Sets the scheme and the settings that it requires. */
static void take_scheme(dt_quant_spec *base, int scheme)
{
    const dt__scheme *s = dt__scheme_of(scheme);
    base->scheme = scheme;
    if (s->bits != 0) base->bits = s->bits;
    if (s->group == 0) return;
    base->granularity = DT_PER_GROUP;
    base->group_size = s->group;
}

/* Presets of blocks of small floats. */
static const struct {
    int preset, activation, weight;
} block_presets[] = { { DT_NVFP4_NVFP4, DT_SCHEME_NVFP4, DT_SCHEME_NVFP4 },
                      { DT_MXFP4_MXFP4, DT_SCHEME_MXFP4_NEAR, DT_SCHEME_MXFP4_NEAR },
                      { DT_MXFP8_MXFP8, DT_SCHEME_MXFP8_NEAR, DT_SCHEME_MXFP8_NEAR },
                      { DT_MXFP8_MXFP4, DT_SCHEME_MXFP8_NEAR, DT_SCHEME_MXFP4_NEAR } };

static void take_blocks(int preset, dt_quant_spec *weight, dt_quant_spec *activation)
{
    for (int i = 0; i < DT__COUNT_OF(block_presets); i++) {
        if (block_presets[i].preset != preset) continue;
        take_scheme(weight, block_presets[i].weight);
        take_scheme(activation, block_presets[i].activation);
    }
    if (preset == DT_NVFP4_NVFP4) activation->range = DT_RANGE_STATIC;
}

bool dt_qat_preset(int preset, dt_quant_spec *weight, dt_quant_spec *activation)
{
    if (weight == NULL) return false;
    if (activation == NULL) return false;
    *weight = dt_weight_quant_defaults();
    *activation = dt_activation_quant_defaults();
    if (preset == DT_INT8_DYNAMIC_INT8_WEIGHT || preset == DT_INT8_STATIC_INT8_WEIGHT) {
        weight->bits = 8;
        weight->granularity = DT_PER_CHANNEL;
    }
    if (preset == DT_INT8_STATIC_INT8_WEIGHT) {
        activation->range = DT_RANGE_STATIC;
        activation->observer = DT_OBSERVER_MOVING_AVERAGE;
        activation->granularity = DT_PER_TENSOR;
    }
    if (preset == DT_INT4_INT4) {
        learn(weight);
        learn(activation);
        activation->bits = 4;
        activation->shift = true;
    }
    if (preset == DT_INT8_BLOCK_INT4_WEIGHT || preset == DT_INT8_BLOCK_Q4_0_WEIGHT) {
        activation->scheme = DT_SCHEME_Q8_0;
        activation->granularity = DT_PER_GROUP;
    }
    if (preset == DT_INT8_BLOCK_Q4_0_WEIGHT) {
        weight->scheme = DT_SCHEME_Q4_0;
        activation->scale_dtype = DT_SCALE_F16;
    }
    take_blocks(preset, weight, activation);
    if (dt_is_device_preset(preset)) {
        weight->scheme = DT_SCHEME_NARROW;
        weight->bits = preset == DT_DEVICE_INT8 ? 8 : 4;
        weight->granularity = DT_PER_CHANNEL;
        activation->scheme = DT_SCHEME_DEVICE;
        activation->range = DT_RANGE_STATIC;
        activation->observer = DT_OBSERVER_MOVING_AVERAGE;
        activation->granularity = DT_PER_TENSOR;
    }
    return preset != DT_INT4_WEIGHT;
}

/* Sets the range. A static or learned range has granularity tensor by default. */
static void apply_range(dt_quant_spec *base, const dt_quant_patch *patch)
{
    const dt_quant_spec *q = &patch->quant;
    if (patch->has_range) {
        base->range = q->range;
        const bool whole = base->activation && !dt__has_blocks(base->scheme);
        if (whole && q->range != DT_RANGE_DYNAMIC) base->granularity = DT_PER_TENSOR;
        /* a learned range of such blocks is reported as an error, so the scheme is kept */
        const bool blocks = (dt__scheme_of(base->scheme)->group != 0 ||
                             (base->activation && dt__has_blocks(base->scheme))) &&
                            !patch->has_scheme;
        if (q->range != DT_RANGE_LEARNED) base->shift = false;
        else if (!blocks) learn(base);
        if (q->range == DT_RANGE_STATIC && !base->activation) base->observer = DT_OBSERVER_MSE;
    }
    if (patch->has_observer) base->observer = q->observer;
    if (patch->has_percentile) base->percentile = q->percentile;
    if (patch->has_samples) base->samples = q->samples;
    if (patch->has_averaging) base->averaging = q->averaging;
    if (patch->has_shift) base->shift = q->shift;
    if (patch->has_save) base->save = q->save;
    if (patch->has_low) base->low = q->low;
    if (patch->has_high) base->high = q->high;
}

void dt_quant_apply(dt_quant_spec *base, const dt_quant_patch *patch)
{
    if (patch == NULL) return;
    const dt_quant_spec *q = &patch->quant;
    apply_range(base, patch);
    if (patch->has_scheme) take_scheme(base, q->scheme);
    if (patch->has_own) base->own = q->own;
    if (patch->has_own) base->of = q->of;
    if (patch->has_bits) base->bits = q->bits;
    if (patch->has_granularity) base->granularity = q->granularity;
    if (patch->has_group_size) base->group_size = q->group_size;
    if (patch->has_scale_dtype) base->scale_dtype = q->scale_dtype;
    if (patch->has_ste) base->ste = q->ste;
    if (patch->has_unsigned) base->is_unsigned = q->is_unsigned;
}
