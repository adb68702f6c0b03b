/* Quantizing a weight that its layer derives (src/nn/derived_weight.h): one with a folded batch
 * norm (numerics §3) or an adapter. A weight hook quantizes it; the parameters stay plain. */
#ifndef DT__QAT_DERIVED_QUANT_H
#define DT__QAT_DERIVED_QUANT_H

#include "nn/derived_weight.h"
#include "qat/quantized.h"

/* Quantizes the layer's derived weight from now on by the settings of `like`, whose range belongs
 * to the layer. A layer without an adapter then folds its norm. Errors: NOMEM. */
dt_status dt__derive(dt_module *layer, const dt__fq *like);
/* Undoes dt__derive: the norm is separate again, an adapter stays. */
void dt__underive(dt_module *layer);
/* The settings by which a layer's derived weight is quantized; NULL where none is. Lent. */
dt__fq *dt__derived_quant(const dt_module *layer);
/* The settings of the layer's FakeQuantTensor or derived weight; NULL: it has neither. Lent. */
dt__fq *dt__layer_quant(const dt_module *layer);

/* The weight and bias that convert, or merging an adapter, stores in a layer with a derived
 * weight. */
typedef struct dt__derived {
    dt_module *layer;
    dt_tensor *weight, *bias; /* computed by the ops of an evaluation pass; bias NULL: unchanged */
    dt__fq quant;             /* the spec of `weight` and its range, which is */
    dt_tensor *scale, *zero_point; /* these copies; NULL: the range is dynamic */
    bool added;                    /* the layer had no bias before */
} dt__derived;

/* Computes weight and bias; adds a bias to a layer that folds a norm and has none. */
dt_status dt__derived_begin(dt_module *layer, dt__derived *out);
/* With `done`: stores the bias in the layer and removes norm or adapter; the caller stores the
 * weight. Else restores the layer as it was before begin. Frees what begin allocated. */
void dt__derived_end(dt__derived *derived, bool done);

/* Adds the adapters of m to the weights of their layers, whose outputs do not change. `quantized`:
 * also in layers whose derived weight is quantized; the weight itself is then quantized by those
 * settings. Errors: NOMEM, where some may be merged already. */
dt_status dt__merge(dt_module *m, bool quantized);

#endif
