/* Depthwise convolutions of integer codes: groups of one channel and few outputs. */
#ifndef DT__KERNELS_QDEPTHWISE_H
#define DT__KERNELS_QDEPTHWISE_H

#include "kernels/convolution/qconv.h"

/* Whether a problem is depthwise, and a row of its results reads a canvas of bounded size. */
bool dt__qdepthwise_takes(const dt__qconv *q);
/* Bytes of scratch of such a problem; reads only the operands' extents. */
size_t dt__qdepthwise_scratch(const dt__qconv *q);
void dt__qdepthwise_run(const dt__kernels *kernels, const dt__qconv *q);

#endif
