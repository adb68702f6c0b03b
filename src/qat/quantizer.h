/* Quantizers: ranges that stand, as modules. */
#ifndef DT__QAT_QUANTIZER_H
#define DT__QAT_QUANTIZER_H

#include "kernels/row_map.h"
#include "nn/module.h"

#include <detent/qat.h>

/* The range of a layer's input (its child `input`) or weight (`weight`), where that is static or
 * learned. Being a module, it is saved, resumed and followed by optimizers as all others are. It
 * has no forward: the layer's hook and wrapper refer to it. Lent tensors, experts of the module: */
typedef struct dt__quantizer {
    dt_quant_spec quant;
    dt_tensor *scale;      /* f32 [scales]; a parameter where the range is learned */
    dt_tensor *zero_point; /* i8 [scales]; NULL: the rule has none */
    dt_tensor *shift;      /* f32 [channels], added first: a parameter; NULL: none */
    dt_tensor *lo, *hi;    /* f32 [1]: what was observed; NULL: learned, or converted */
    dt_tensor *values;     /* f32 [samples], of observer percentile; else NULL */
    dt_tensor *count;      /* i64 [1]: values seen; NULL: converted */
} dt__quantizer;

typedef struct dt__quantizer_size {
    int64_t scales;
    int64_t channels; /* of the input; for settings with a shift */
    bool fixed;       /* one of a converted model */
} dt__quantizer_size;

/* A quantizer of so many scales, all 1, that has seen nothing. Errors: NOMEM. */
dt_status dt__quantizer_create(dt_ctx *ctx, const dt_quant_spec *quant,
                               const dt__quantizer_size *size, dt_module **out);
/* How many scales a weight has. */
dt_status dt__quantizer_scales(const dt_tensor *weight, const dt__row_map *map,
                               const dt_quant_spec *quant, int64_t *scales);
/* Its state; NULL for a module of another type, and for NULL. */
dt__quantizer *dt__quantizer_of(dt_module *m);
/* The child of a layer that is a quantizer of this name; NULL where there is none. */
dt_module *dt__quantizer_at(const dt_module *layer, const char *name);
/* Whether scale and zero point follow from values, not from nothing. */
bool dt__quantizer_has_seen(const dt__quantizer *q);
/* The range of a weight begins anew with the weight as it is, learned or of least error; rows are
 * gathered by `map`. Errors: NUMERIC, NOMEM, STATE (a frozen model). */
dt_status dt__quantizer_begin(const dt_tensor *x, const dt__row_map *map,
                              const dt__quantizer *range);
/* What only an observer needs goes: from now on the range is what it is. */
void dt__quantizer_fix(dt_module *m);
/* Whether the tensors hold what a quantizer can have come to; *why says what not. For files. */
bool dt__quantizer_is_sound(const dt__quantizer *q, const char **why);

#endif
