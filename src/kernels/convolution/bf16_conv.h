/* Convolutions of floats rounded to bf16: bf16_conv.c. */
#ifndef DT__KERNELS_BF16_CONV_H
#define DT__KERNELS_BF16_CONV_H

#include "kernels/convolution/conv_geometry.h"

/* Whether the work is computed so: without groups, and with images of at most 2^28 elements when
 * padded. */
bool dt__bf16_conv_takes(const dt__conv_work *w);
/* Bytes of scratch on so many threads. Only reads which pointers are NULL. */
size_t dt__bf16_conv_scratch(const dt__conv_work *w, int threads);
/* Does the work; x and y are the operands as images, in place of the work's. */
void dt__bf16_conv(const struct dt__kernels *kernels, const dt__conv_work *w, const float *x,
                   const float *y, void *scratch, int threads);

#endif
