/* The kernels of AArch64 with dot products: the plain bodies compiled for it, and kernels written
 * for it. */
#if defined DETENT_SIMD && defined __aarch64__
#include "kernels/sets.h"

#define SET neon_dot
#include "kernels/set.inc"

const dt__kernels dt__kernels_neon_dot = {
#include "kernels/plain/set_plain.inc"
#include "kernels/arm/neon_dot.inc"
};
#endif
