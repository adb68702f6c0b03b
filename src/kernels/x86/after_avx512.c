/* relu, its mask, and the epilogue of a product with AVX-512: the plain bodies with row loops of
 * sixteen floats per vector. Batch norm uses AVX2: with vectors of eight doubles, forward takes 5
 * to 12 % longer and backward 2 to 15 % less (Zen 4). */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#include <math.h>
#include <string.h>

#define REAL float
#define PART (DT__CHUNK / 8)
#define KERNEL(name) dt__##name##__avx512

#include "kernels/x86/bits_zmm.inc"

#include "kernels/plain/plain_after.inc"
#endif
