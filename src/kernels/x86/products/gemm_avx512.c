/* Products of floats with AVX-512: plain_gemm.inc with tiles of up to 14 x 32. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#define REAL float
#define KERNEL(name) dt__##name##__avx512
#define GEMM_STRIP 14
#define GEMM_FEW DT__GEMM_FEW
#include "kernels/plain/plain_gemm.inc"
#include "kernels/x86/floats_avx512.inc"

#include "kernels/x86/products/gemm_rows.inc"
#include "kernels/x86/products/gemm_columns.inc"

#define FEW UP_TO_8(1) UP_TO_8(2) UP_TO_8(3) UP_TO_4(4) UP_TO_4(5) UP_TO_4(6)
#define MANY TILE(7, 2) TILE(8, 2) TILE(9, 2) TILE(10, 2) TILE(11, 2) TILE(12, 2)
#define TILES FEW MANY TILE(13, 2) TILE(14, 2)
#include "kernels/x86/products/gemm_vectors.inc"

#define TRANSPOSED_ROWS 8
#define TRANSPOSED_MOST DT__GEMM_TRANSPOSED
#include "kernels/x86/products/gemm_transposed.inc"
#endif
