/* Quantization whose scales are given, as of a file of another program's integers. */
#ifndef DT__QAT_GIVEN_H
#define DT__QAT_GIVEN_H

#include "nn/module.h"

#include <detent/experimental/qat.h>

/* A static range. Scales are those of blocks, row by row (docs/format.md); `zero` NULL: all 0. */
typedef struct dt__given {
    dt_quant_spec quant;
    int64_t scales;
    const float *scale;
    const int8_t *zero;
} dt__given;

/* What dt_prepare starts from: a static range of a weight or of an activation with these bits, or
 * of an activation one that is computed of each tensor. */
dt_quant_spec dt__given_weight_spec(int bits, bool has_zero);
dt_quant_spec dt__given_input_spec(int bits, bool dynamic);

/* The layer's weight becomes a FakeQuantTensor with this range, which training keeps until
 * dt_refresh; one that is prepared gets it in place of its own. Errors: CONFIG (the spec),
 * FORMAT (scales that are not positive normal numbers, or another number of them), NOMEM. */
dt_status dt__give_weight(dt_module *m, const dt__given *given);
/* The layer's input is quantized by this range, frozen; of a dynamic one the spec alone is read.
 * Errors: as above. */
dt_status dt__give_input(dt_module *m, const dt__given *given);
/* Sets the range of a quantizer, a module: as dt__give_input. */
dt_status dt__give_scales(dt_module *range, const dt__given *given);

#endif
