/* Quantization with given scales, as read from a quantized model of another program. */
#ifndef DT__QAT_GIVEN_H
#define DT__QAT_GIVEN_H

#include "nn/module.h"

#include <detent/experimental/qat.h>

/* A static range. Scales are in the order of blocks, row by row (docs/format.md); `zero` NULL: all
 * 0. */
typedef struct dt__given {
    dt_quant_spec quant;
    int64_t scales;
    const float *scale;
    const int8_t *zero;
} dt__given;

/* The specs that dt_prepare starts from: of a weight with a static range, and of an activation with
 * a static range or, with `dynamic`, a range that each tensor gives. */
dt_quant_spec dt__given_weight_spec(int bits, bool has_zero);
dt_quant_spec dt__given_input_spec(int bits, bool dynamic);

/* Makes the layer's weight a FakeQuantTensor with this range, which training keeps until
 * dt_refresh; replaces the range of a prepared weight. Errors: CONFIG (the spec), FORMAT (scales
 * that are not positive normal numbers, or too few or too many), NOMEM. */
dt_status dt__give_weight(dt_module *m, const dt__given *given);
/* Quantizes the layer's input by this range, which is frozen; if it is dynamic, only the spec is
 * used. Errors: as above. */
dt_status dt__give_input(dt_module *m, const dt__given *given);
/* Sets the range of the quantizer `range`, a module. Errors: as above. */
dt_status dt__give_scales(dt_module *range, const dt__given *given);

#endif
