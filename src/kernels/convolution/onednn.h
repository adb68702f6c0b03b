/* Convolutions of floats by oneDNN. Its primitives are made for one thread and run on slices of the
 * batch in our own parallel loop. The slices depend on the shape alone, so results do not depend on
 * the number of threads. */
#ifndef DT__KERNELS_ONEDNN_H
#define DT__KERNELS_ONEDNN_H

#include "kernels/convolution/conv_geometry.h"

/* Bytes of scratch that the work needs; SIZE_MAX if a plain kernel should do it instead. Makes the
 * primitives at the first call and keeps them with the context. NOMEM. */
dt_status dt__onednn_open(dt_ctx *ctx, const dt__conv_work *work, size_t *scratch);
/* Does the work; false if it failed, and results are undefined. */
bool dt__onednn_run(dt_ctx *ctx, const dt__conv_work *work);

#endif
