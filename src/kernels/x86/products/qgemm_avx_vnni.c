/* The integer product with AVX-VNNI: vpdpbusd adds four products of u8 and s8 to an int32 lane. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/products/qgemm.h"

#include <limits.h>
#include <string.h>

#define SET avx_vnni
#define MOST_ROWS 6
#define COLUMNS(rows) ((rows) == 2 ? 4 : 2)
#define CHAINS(rows) 1
#define EACH_ROWS(X) X(2) X(3) X(4) X(5) X(6)
#define OUTPUTS 4
#define SEGMENT INT_MAX
#define UNPACK_FROM 13
#define NIBBLE_SHIFT 4
#include "kernels/x86/products/qgemm_ymm.inc"

/* Nibbles in the high half of bytes: codes times 16. */
DT__INLINE ints high_nibbles(ints packed)
{
    return _mm256_and_si256(packed, _mm256_set1_epi8((char)0xf0));
}

DT__INLINE ints low_nibbles(ints packed) { return high_nibbles(_mm256_slli_epi16(packed, 4)); }

DT__INLINE_NATIVE ints multiply_add(int form, ints sum, ints u, ints w)
{
    (void)form;
#if defined DETENT_EMULATE
    return _mm256_dpbusd_epi32(sum, u, w);
#elif defined __clang__
    return _mm256_dpbusd_avx_epi32(sum, u, w);
#else
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(u), "xm"(w));
    return sum;
#endif
}

DT__INLINE ints multiply(int form, ints u, ints w)
{
    return multiply_add(form, _mm256_setzero_si256(), u, w);
}

DT__INLINE ints subtract(int form, ints a, ints b)
{
    (void)form;
    return _mm256_sub_epi32(a, b);
}

DT__INLINE ints widen(int form, ints sum)
{
    (void)form;
    return sum;
}

#include "kernels/x86/products/qgemm_tile.inc"
#include "kernels/x86/qconv_tile.inc"
#endif
