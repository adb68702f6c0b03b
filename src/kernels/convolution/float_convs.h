/* The implementations of float convolutions among which conv_dispatch.c chooses. */
#ifndef DT__KERNELS_FLOAT_CONVS_H
#define DT__KERNELS_FLOAT_CONVS_H

#include "kernels/convolution/conv_geometry.h"

/* ---- sums of a stated order (ordered_conv.c) ------------------------------------------------- */

/* Floats of scratch that the work needs: forward only, computing y from x or x from y. */
int64_t dt__ordered_conv_room(const dt__conv_work *w, int threads);
/* Does the work; x is the operand as images. */
void dt__ordered_conv(const struct dt__kernels *kernels, const dt__conv_work *w, const float *x,
                      float *room);

/* ---- operands rounded to bf16 (bf16_conv.c) -------------------------------------------------- */

/* Whether bf16_conv.c supports the work: no groups, and padded images of at most 2^28 elements. */
bool dt__bf16_conv_takes(const dt__conv_work *w);
/* Bytes of scratch for this number of threads. Only tests which pointers are NULL. */
size_t dt__bf16_conv_scratch(const dt__conv_work *w, int threads);
/* Does the work; x and y are the operands as images, in place of the work's. */
void dt__bf16_conv(const struct dt__kernels *kernels, const dt__conv_work *w, const float *x,
                   const float *y, void *scratch, int threads);

/* ---- oneDNN (onednn.c) ----------------------------------------------------------------------- */

/* oneDNN's primitives are made for one thread and run on slices of the batch in our own parallel
 * loop. The slices depend on the shape alone, so results do not depend on the number of threads. */

/* Bytes of scratch that the work needs; SIZE_MAX if a plain kernel should do it instead. Makes the
 * primitives at the first call and keeps them with the context. NOMEM. */
dt_status dt__onednn_open(dt_ctx *ctx, const dt__conv_work *work, size_t *scratch);
/* Does the work; false if it failed, and results are undefined. */
bool dt__onednn_run(dt_ctx *ctx, const dt__conv_work *work);

#endif
