/* The integer product with AVX-512 VNNI: vpdpbusd adds four products of u8 and s8 to an int32
 * lane. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/products/qgemm.h"

#include <limits.h>
#include <string.h>

#define SET avx512
#define LANES_OF_VECTOR 16
#define MOST_ROWS 8
#define COLUMNS(rows) 2
#define CHAINS(rows) ((rows) == 2 ? 2 : 1)
#define EACH_ROWS(X) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define OUTPUTS 4
#define SEGMENT INT_MAX
#define UNPACK_FROM 16
#define NIBBLE_SHIFT 4

#include "kernels/x86/products/qgemm_zmm.inc"

/* Inline assembly, since gcc 12 copies and spills accumulators around the intrinsic. */
DT__INLINE_NATIVE ints multiply_add(int form, ints sum, ints u, ints w)
{
    (void)form;
#if defined DETENT_EMULATE || defined __clang__
    return _mm512_dpbusd_epi32(sum, u, w);
#else
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(u), "vm"(w));
    return sum;
#endif
}

DT__INLINE ints multiply(int form, ints u, ints w)
{
    return multiply_add(form, _mm512_setzero_si512(), u, w);
}

DT__INLINE ints subtract(int form, ints a, ints b)
{
    (void)form;
    return _mm512_sub_epi32(a, b);
}

DT__INLINE ints widen(int form, ints sum)
{
    (void)form;
    return sum;
}

#include "kernels/x86/products/qgemm_tile.inc"
#include "kernels/x86/qconv_tile.inc"
#endif
