/* Quantizers: static and learned ranges as modules. */
#ifndef DT__QAT_QUANTIZER_H
#define DT__QAT_QUANTIZER_H

#include "kernels/convolution/row_map.h"
#include "nn/module.h"

#include <detent/experimental/qat.h>

/* The static or learned range of a layer's input (its child `input`) or weight (`weight`). As a
 * module it is saved, resumed and trained like all others. It has no forward: the layer's input
 * hook and the FakeQuantTensor refer to it. The tensors are entries of the module, lent. */
typedef struct dt__quantizer {
    dt_quant_spec quant;
    dt_tensor *scale;      /* f32 [scales]; a parameter where the range is learned */
    dt_tensor *zero_point; /* i8 [scales]; NULL: the scheme has none */
    /* f32 [2]: the parameter from which scale and zero point are computed, where a range of scheme
     * device is learned; else NULL. */
    dt_tensor *ends;
    dt_tensor *shift; /* f32 [channels], a parameter that is added to the input first; NULL: none */
    dt_tensor *lo, *hi; /* f32 [1]: the observed range; NULL: learned, or converted */
    dt_tensor *values;  /* f32 [samples]: kept by observer percentile; else NULL */
    dt_tensor *count;   /* i64 [1]: values seen; NULL: converted */
} dt__quantizer;

typedef struct dt__quantizer_size {
    int64_t scales;
    int64_t channels; /* of the input; for learned shifts */
    bool fixed;       /* of a converted model: no observer state */
} dt__quantizer_size;

/* A quantizer with scales of 1 that has seen no values. Errors: NOMEM. */
dt_status dt__quantizer_create(dt_ctx *ctx, const dt_quant_spec *quant,
                               const dt__quantizer_size *size, dt_module **out);
/* The number of scales of a weight. */
dt_status dt__quantizer_scales(const dt_tensor *weight, const dt__row_map *map,
                               const dt_quant_spec *quant, int64_t *scales);
/* The state of a quantizer; NULL for a module of another type, and for NULL. */
dt__quantizer *dt__quantizer_of(dt_module *m);
/* The child of a layer that is a quantizer of this name; NULL: none. */
dt_module *dt__quantizer_at(const dt_module *layer, const char *name);
/* Whether scale and zero point were computed from values. */
bool dt__quantizer_has_seen(const dt__quantizer *q);
/* Computes the range of a weight from its present values: the initial learned scale, or the static
 * range of least error. `map` says where rows are. Errors: NUMERIC, NOMEM, STATE (frozen). */
dt_status dt__quantizer_begin(const dt_tensor *x, const dt__row_map *map,
                              const dt__quantizer *range);
/* Frees the observer's state; the range no longer changes. */
void dt__quantizer_fix(dt_module *m);
/* Whether tensors that were read from a file hold values that a quantizer can have; *why: the
 * fault. */
bool dt__quantizer_is_sound(const dt__quantizer *q, const char **why);

#endif
