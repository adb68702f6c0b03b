/* Convolutions of floats whose sums have a stated order: ordered_conv.c. */
#ifndef DT__KERNELS_ORDERED_CONV_H
#define DT__KERNELS_ORDERED_CONV_H

#include "kernels/convolution/conv_geometry.h"

/* Floats of scratch that the work needs: forward alone, to_y of x or to_x of y. */
int64_t dt__ordered_conv_room(const dt__conv_work *w, int threads);
/* Does the work; x is the operand as images. */
void dt__ordered_conv(const struct dt__kernels *kernels, const dt__conv_work *w, const float *x,
                      float *room);

#endif
