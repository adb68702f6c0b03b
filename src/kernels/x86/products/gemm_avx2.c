/* Products of floats with AVX2 and FMA: plain_gemm.inc with tiles of up to 6 x 16. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#define REAL float
#define KERNEL(name) dt__##name##__avx2
#define GEMM_STRIP 6
#define GEMM_FEW 4
#include "kernels/plain/plain_gemm.inc"
#include "kernels/x86/floats_avx2.inc"

#include "kernels/x86/products/gemm_rows.inc"
#include "kernels/x86/products/gemm_columns.inc"

#define TILES UP_TO_8(1) UP_TO_4(2) UP_TO_4(3) TILE(4, 2) TILE(5, 2) TILE(6, 2)
#include "kernels/x86/products/gemm_vectors.inc"

#define TRANSPOSED_ROWS 4
#define TRANSPOSED_MOST 32
#include "kernels/x86/products/gemm_transposed.inc"
#endif
