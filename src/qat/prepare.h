/* What prepare leaves on modules, for convert and for files. */
#ifndef DT__QAT_PREPARE_H
#define DT__QAT_PREPARE_H

#include "kernels/panels.h"
#include "qat/quantized.h"
#include "qat/quantizer.h"

/* The state of the hook that quantizes a module's input. */
typedef struct dt__input_hook {
    dt_quant_spec quant;
    bool enabled;
    bool simulated;
    dt__quantizer *range; /* of the module's child `input`, lent; NULL: dynamic */
    bool observing;       /* every pass is observed, not only those that train */
    bool frozen;          /* none is */
} dt__input_hook;

/* Adds the hook, which then owns `hook` (from dt__alloc); on an error the caller still does. */
dt_status dt__hook_input(dt_module *m, dt__input_hook *hook);
/* The module's, NULL where its input stays float. Lent. */
dt__input_hook *dt__input_hook_of(const dt_module *m);

void dt__unhook_input(dt_module *m);

/* Channels of a module's input, by its weight w: shifts that it can learn. */
int64_t dt__input_channels(const dt_module *m, const dt_tensor *w);

/* Whether such a module's input can be quantized so. CONFIG, saying what would be right. */
dt_status dt__check_input_quant(const dt_module *m, const dt_quant_spec *quant);
/* Groups of the op that its weight belongs to. */
int64_t dt__op_groups(const dt_module *m);
/* The row map of its weight w. SHAPE where there is none. */
dt_status dt__weight_map(const dt_module *m, const dt_tensor *w, dt__row_map *out);

#endif
