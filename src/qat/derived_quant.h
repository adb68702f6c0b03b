/* Quantizing a weight that its layer derives (src/nn/derived_weight.h): a folded batch norm's
 * (numerics §3), or one with an adapter. A weight hook does it, while the parameters stay plain;
 * the ways into and out of a layer. */
#ifndef DT__QAT_DERIVED_QUANT_H
#define DT__QAT_DERIVED_QUANT_H

#include "nn/derived_weight.h"
#include "qat/quantized.h"

/* Quantizes the weight that the layer derives by the settings of `like`, whose range belongs to the
 * layer; without an adapter, that is what folding its norm gives. Errors: NOMEM. */
dt_status dt__derive(dt_module *layer, const dt__fq *like);
/* Takes it back: the norm is apart again, an adapter stays. */
void dt__underive(dt_module *layer);
/* How a layer's derived weight is quantized; NULL where it is not. Lent. */
dt__fq *dt__derived_quant(const dt_module *layer);

/* What convert and merging put into such a layer. */
typedef struct dt__derived {
    dt_module *layer;
    dt_tensor *weight,
        *bias;  /* by the ops that the model runs in evaluation; bias NULL: as it is */
    bool added; /* the layer had no bias before */
} dt__derived;

/* Computes both, and gives a layer that folds a bias if it has none. */
dt_status dt__derived_begin(dt_module *layer, dt__derived *out);
/* The bias becomes the layer's, and norm or adapter go: whose weight is `weight` from then on, is
 * the caller's to see to. Or nothing has happened. Frees what begin made. */
void dt__derived_end(dt__derived *derived, bool done);

/* Puts the adapters of m into the weights of their layers, which compute what they did;
 * `quantized`: also where a hook quantizes what the layer derives, whose settings the weight then
 * has itself. Errors: NOMEM, where some may be merged already. */
dt_status dt__merge(dt_module *m, bool quantized);

#endif
