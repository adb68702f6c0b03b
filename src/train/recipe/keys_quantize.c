/* The keys of `quantize` in a recipe. */
#include "io/safetensors/tensors_meta.h"
#include "ptq/keys.h"
#include "train/recipe/recipe.h"

#define AT(field) .offset = offsetof(dt_calibration_options, field)

const dt_key dt__calibration_keys[] = {
    { "samples", DT_KEY_INT, AT(samples), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "most samples to use; 0: all of a calibration file, 512 examples of a model's data" },
    { "batch_size", DT_KEY_INT, AT(batch_size), .most = 1 << 20, .fallback = "0",
      .text = "samples per batch; 0: as many as fit 64 MiB, for a model 32" },
    { "cache_mb", DT_KEY_INT, AT(cache_mb), .most = 1 << 24, .fallback = "1024",
      .text = "model: MiB of activations that are kept between layers" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_tensor_rule, field)
#define GIVEN(field) AT(field), .given = offsetof(dt_tensor_rule, has_##field)
#define MOST_EXTENT 2147483647.0

static const dt_key rule_keys[] = {
    { "match", DT_KEY_STRING, AT(match), .fallback = "!",
      .text = "glob over names of tensors, and all below; * crosses dots" },
    { "skip", DT_KEY_BOOL, GIVEN(skip), .text = "true: these tensors are copied as they are" },
    { "op", DT_KEY_CHOICE, GIVEN(op), .choices = dt__weight_op_names,
      .text = "op of the weight; default: rank 2 linear, rank 4 conv2d, others copied; "
              "grouped_linear: [experts, out, in]" },
    { "stride", DT_KEY_PAIR, GIVEN(stride), .least = 1, .most = MOST_EXTENT,
      .text = "of a convolution; default 1" },
    { "padding", DT_KEY_PAIR, GIVEN(padding), .most = MOST_EXTENT,
      .text = "of a convolution; default 0" },
    { "output_padding", DT_KEY_PAIR, GIVEN(output_padding), .most = MOST_EXTENT,
      .text = "of a transposed convolution; default 0" },
    { "dilation", DT_KEY_PAIR, GIVEN(dilation), .least = 1, .most = MOST_EXTENT,
      .text = "of a convolution; default 1" },
    { "groups", DT_KEY_INT, GIVEN(groups), .least = 1, .most = MOST_EXTENT,
      .text = "of a convolution; default 1" },
    { "rounder", DT_KEY_CHOICE, GIVEN(rounder), .choices = dt__rounder_names,
      .text = "another rounder for these tensors" },
    { "weight", DT_KEY_MAP, AT(weight), .keys = dt_tensor_quant_keys,
      .text = "changes to their scheme" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_quantize_options, field)

const dt_key dt_quantize_keys[] = {
    DT__ROUNDING_OPTIONS_KEYS(offsetof(dt_quantize_options, rounding)),
    { "correct_bias", DT_KEY_BOOL, AT(correct_bias), .fallback = "false",
      .text = "float model: biases correct the change of a layer's mean outputs" },
    { "calibration", DT_KEY_MAP, AT(calibration), .keys = dt__calibration_keys,
      .text = "data for the rounder's statistics" },
    { "weight", DT_KEY_MAP, AT(weight), .keys = dt_tensor_quant_keys,
      .text =
          "for a file of tensors: changes to int4 symmetric in groups of 32; for a model, `qat` "
          "has the specs" },
    { "tensors", DT_KEY_LIST, AT(tensors), .most = DT_MAX_RULES, .keys = rule_keys,
      .size = sizeof(dt_tensor_rule), .count = offsetof(dt_quantize_options, n_tensors),
      .text = "file of tensors: ops and exceptions; the last match wins, key by key" },
    { 0 },
};
