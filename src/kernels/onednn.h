/* Convolutions of floats by oneDNN. Its primitives are made for one thread and run on slices of the
 * batch inside our loop, whose cut depends on the shape alone: so do the bits. */
#ifndef DT__KERNELS_ONEDNN_H
#define DT__KERNELS_ONEDNN_H

#include "kernels/conv_geometry.h"

/* Bytes of scratch that the work takes; SIZE_MAX where oneDNN is not for it: a plain kernel shall
 * do it. Makes the primitives at the first time and keeps them with the context. NOMEM. */
dt_status dt__onednn_open(dt_ctx *ctx, const dt__conv_work *work, size_t *scratch);
/* Does the work; false where it could not, and results hold anything. */
bool dt__onednn_run(dt_ctx *ctx, const dt__conv_work *work);

#endif
