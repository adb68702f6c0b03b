/* Products of gradients with AVX-512 VNNI. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#define Q7_NAME(name) dt__##name##__avx512
#include "kernels/gradients/q7_loops.inc"

#define LANES_OF_VECTOR 16
#define MOST_ROWS 12
#define COLUMNS(rows) 2
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)

typedef __m512i ints;
typedef __m512 floats;

DT__INLINE ints load(const void *from) { return _mm512_load_si512(from); }
DT__INLINE ints load_ints(const int32_t *from) { return _mm512_loadu_si512(from); }
DT__INLINE ints subtract(ints a, ints b) { return _mm512_sub_epi32(a, b); }
DT__INLINE ints set_int(int32_t x) { return _mm512_set1_epi32(x); }
DT__INLINE floats set_float(float x) { return _mm512_set1_ps(x); }
DT__INLINE floats to_floats(ints x) { return _mm512_cvtepi32_ps(x); }
DT__INLINE floats load_any(const float *from) { return _mm512_loadu_ps(from); }
DT__INLINE void store_any(float *to, floats x) { _mm512_storeu_ps(to, x); }
DT__INLINE floats multiply_floats(floats a, floats b) { return _mm512_mul_ps(a, b); }
DT__INLINE floats add_product(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }

/* The four bytes at `from` in every lane. */
DT__INLINE ints broadcast(const uint8_t *from)
{
    int32_t word;
    memcpy(&word, from, sizeof word);
    return _mm512_set1_epi32(word);
}

/* Inline assembly, since gcc 12 copies and spills accumulators around the intrinsic. */
DT__INLINE_NATIVE ints add_words(ints sum, ints u, ints a)
{
#if defined DETENT_EMULATE || defined __clang__
    return _mm512_dpbusd_epi32(sum, u, a);
#else
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(u), "v"(a));
    return sum;
#endif
}

#include "kernels/x86/products/q7_tile.inc"
#include "kernels/x86/products/q7_taps_tile.inc"

void dt__q7_gemm__avx512(const dt__q7_product *p) { multiply(p); }
void dt__q7_taps__avx512(const dt__q7_taps *t) { multiply_taps(t); }
#endif
