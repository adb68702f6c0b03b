/* Products of bf16: gemm_bf16.inc, for processors without bf16 instructions. */
#include "kernels/kernels.h"

#define KERNEL(name) dt__##name##_bf16__ref
#define GEMM_BLOCK 2
#include "kernels/products/gemm_bf16.inc"
