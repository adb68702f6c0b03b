/* Products of bf16 in the order of matrix tiles: gemm_bf16.inc, for processors without matrix
 * tiles. */
#include "kernels/kernels.h"

#define KERNEL(name) dt__##name##_tiles__ref
#define GEMM_BLOCK DT__BF16_TILE
#include "kernels/products/gemm_bf16.inc"
