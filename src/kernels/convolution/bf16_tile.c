/* Kernels of bf16 convolutions: bf16_tile.inc, for processors without bf16 instructions. */
#include "kernels/kernels.h"

#define KERNEL(name) dt__##name##__ref
#include "kernels/convolution/bf16_tile.inc"
