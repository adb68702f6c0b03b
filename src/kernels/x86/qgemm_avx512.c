/* The integer product with AVX-512 VNNI: vpdpbusd adds four products of u8 and s8 to an int32
 * lane. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/qgemm.h"

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

typedef __m512i ints;
typedef __m512 floats;

DT__INLINE ints load(const void *from) { return _mm512_load_si512(from); }
DT__INLINE void store(void *to, ints x) { _mm512_store_si512(to, x); }
DT__INLINE ints add(ints a, ints b) { return _mm512_add_epi32(a, b); }
DT__INLINE ints shift_right(ints x, int by) { return _mm512_srai_epi32(x, (unsigned)by); }
DT__INLINE floats to_floats(ints x) { return _mm512_cvtepi32_ps(x); }
DT__INLINE floats load_floats(const float *from) { return _mm512_load_ps(from); }
DT__INLINE void store_floats(float *to, floats x) { _mm512_store_ps(to, x); }
DT__INLINE floats add_product(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
DT__INLINE ints multiply_low(ints a, ints b) { return _mm512_mullo_epi32(a, b); }
DT__INLINE floats multiply_floats(floats a, floats b) { return _mm512_mul_ps(a, b); }
DT__INLINE floats add_floats(floats a, floats b) { return _mm512_add_ps(a, b); }
DT__INLINE floats all_lanes(float x) { return _mm512_set1_ps(x); }
DT__INLINE void store_anywhere(float *to, floats x) { _mm512_storeu_ps(to, x); }

/* The four bytes at `from` in every lane. */
DT__INLINE ints broadcast(const uint8_t *from)
{
    int32_t word;
    memcpy(&word, from, sizeof word);
    return _mm512_set1_epi32(word);
}

/* Nibbles in the high half of bytes: codes times 16. */
DT__INLINE ints high_nibbles(ints packed)
{
    return _mm512_and_si512(packed, _mm512_set1_epi8((char)0xf0));
}

DT__INLINE ints low_nibbles(ints packed) { return high_nibbles(_mm512_slli_epi16(packed, 4)); }

/* The low (half 0) or high nibble of each byte as a signed byte. */
DT__INLINE ints signed_nibbles(ints packed, int half)
{
    const ints value = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1));
    const ints index = half == 0 ? packed : _mm512_srli_epi16(packed, 4);
    return _mm512_shuffle_epi8(value, _mm512_and_si512(index, _mm512_set1_epi8(15)));
}

/* Vector v of the 32 scales of a piece. */
DT__INLINE floats load_scales(int dtype, const uint8_t *from, int v)
{
    if (dtype == DT__SCALE_F32) return _mm512_load_ps((const float *)(const void *)from + 16 * v);
    const __m256i half = _mm256_load_si256((const __m256i *)(const void *)from + v);
    if (dtype == DT__SCALE_F16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

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

#include "kernels/x86/qgemm_tile.inc"
#include "kernels/x86/qconv_tile.inc"
#endif
