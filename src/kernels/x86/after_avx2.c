/* relu and relu6, their mask, the epilogue of a product, and batch norm with AVX2: the plain bodies
 * with row loops of eight floats per vector. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/norm_rows.h"
#include "kernels/sets.h"

#include <math.h>
#include <string.h>

#define REAL float
#define PART (DT__CHUNK / 8)
#define KERNEL(name) dt__##name##__avx2

#include "kernels/x86/bits_ymm.inc"

#include "kernels/plain/plain_after.inc"
#include "kernels/plain/plain_relu6.inc"

#include "kernels/x86/norm_rows_ymm.inc"
#include "kernels/plain/plain_batch_norm.inc"
#endif
