/* Batch norm folding in QAT (numerics §3): the hook that quantizes a derived weight, and its ways into
 * and out of a layer. The arithmetic is in src/nn/fold.c. */
#ifndef DT__QAT_FOLD_H
#define DT__QAT_FOLD_H

#include "nn/fold.h"
#include "qat/quantized.h"

/* Folds the layer's norm, and quantizes the weight that comes of it by the settings of `like`, whose
 * range belongs to the layer. Errors: NOMEM. */
dt_status dt__fold(dt_module *layer, const dt__fq *like);
/* Takes it back. */
void dt__unfold(dt_module *layer);
/* How a layer's derived weight is quantized; NULL where there is none. Lent. */
dt__fq *dt__folded_quant(const dt_module *layer);

/* What convert puts into a folded layer. */
typedef struct dt__folded {
    dt_module *layer;
    dt_tensor *weight, *bias; /* derived, by the ops that the prepared model runs in evaluation */
    bool added;               /* the layer had no bias before */
} dt__folded;

/* Computes both, and gives the layer a bias if it has none. */
dt_status dt__folded_begin(dt_module *layer, dt__folded *out);
/* The bias becomes the layer's, and the norm goes; or nothing has happened. Frees what begin made. */
void dt__folded_end(dt__folded *folded, bool done);

#endif
