/* What dt_prepare adds to modules, for convert and for files. */
#ifndef DT__QAT_PREPARE_H
#define DT__QAT_PREPARE_H

#include "kernels/products/panels.h"
#include "qat/quantized.h"
#include "qat/quantizer.h"

/* State of the hook that quantizes a module's input. */
typedef struct dt__input_hook {
    dt_quant_spec quant;
    bool enabled;
    bool simulated;
    dt__quantizer *range; /* of the module's child `input`, lent; NULL: dynamic */
    bool observing;       /* the observer sees every pass, not only training passes */
    bool frozen;          /* the observer sees no pass */
} dt__input_hook;

/* Adds the hook to a module. The hook then owns `hook` (from dt__alloc), but not after an error. */
dt_status dt__hook_input(dt_module *m, dt__input_hook *hook);
/* The hook's state; NULL where the input stays float. Lent. */
dt__input_hook *dt__input_hook_of(const dt_module *m);

void dt__unhook_input(dt_module *m);

/* Turns fake quantization of one layer's weight and of its input on or off, if it has them. */
void dt__layer_enable(dt_module *m, bool weight, bool input);

/* The number of channels of a module's input, from its weight w: that of learned shifts. */
int64_t dt__input_channels(const dt_module *m, const dt_tensor *w);

/* Fails with CONFIG, saying what would be right, where this spec cannot quantize the input of m. */
dt_status dt__check_input_quant(const dt_module *m, const dt_quant_spec *quant);
/* The number of op groups of a module: groups of a convolution, experts of a grouped weight, else
 * 1. */
int64_t dt__op_groups(const dt_module *m);
/* The row map of the module's weight w. Errors: SHAPE. */
dt_status dt__weight_map(const dt_module *m, const dt_tensor *w, dt__row_map *out);

#endif
