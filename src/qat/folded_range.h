/* Static and learned ranges of weights behind a folded norm (numerics §3). */
#ifndef DT__QAT_FOLDED_RANGE_H
#define DT__QAT_FOLDED_RANGE_H

#include "nn/module.h"
#include "qat/quantized.h"
#include "qat/quantizer.h"

/* Whether the range of a layer's derived weight, quantized by `fq`, belongs to the layer's own
 * weight. */
bool dt__range_is_own(const dt_module *layer, const dt__fq *fq);
/* A copy of `fq` with scales and zero points of the folded weight W' at the layer's present fold
 * factor, computed by ops of t. Other settings are unchanged. Errors are the tape's. */
dt__fq dt__range_folded(dt_tape *t, const dt_module *layer, const dt__fq *fq);
/* Converts a range of W' to one of W, in place. A fold factor of 0 counts as 1. */
void dt__range_unfold(const dt_module *layer, const dt__fq *fq);
/* Initializes the range of `fq` from the values of W'. Errors: as dt__quantizer_begin. */
dt_status dt__range_begin(const dt_module *layer, const dt_tensor *derived, const dt__fq *fq);

#endif
