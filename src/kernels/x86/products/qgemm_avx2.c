/* The integer product with AVX2. Sixteen products of u8 and a nibble fit int16 (16 * 255 * 8 =
 * 32640), so eight vpmaddubsw, of two products per lane, are added before one vpmaddwd by 1 widens
 * them. Codes of 5 to 8 bits are first widened to 16 bits, even and odd ones separately, for
 * vpmaddwd. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/products/qgemm.h"

#include <string.h>

#define SET avx2
#define MOST_ROWS 4
#define COLUMNS(rows) ((rows) == 2 ? 4 : 2)
#define CHAINS(rows) 1
#define EACH_ROWS(X) X(2) X(3) X(4)
#define OUTPUTS 4
#define SEGMENT 4
#define UNPACK_FROM 5
#define NIBBLE_SHIFT 0
#include "kernels/x86/products/qgemm_ymm.inc"

DT__INLINE ints low_nibbles(ints packed) { return signed_nibbles(packed, 0); }
DT__INLINE ints high_nibbles(ints packed) { return signed_nibbles(packed, 1); }

DT__INLINE ints multiply(int form, ints u, ints w)
{
    if (form != DT__BYTES) return _mm256_maddubs_epi16(u, w);
    const ints even = _mm256_madd_epi16(_mm256_and_si256(u, _mm256_set1_epi16(255)),
                                        _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8));
    const ints odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(w, 8));
    return _mm256_add_epi32(even, odd);
}

DT__INLINE_NATIVE ints multiply_add(int form, ints sum, ints u, ints w)
{
    const ints product = multiply(form, u, w);
    sum = form == DT__BYTES ? _mm256_add_epi32(sum, product) : _mm256_add_epi16(sum, product);
    DT__HOLD(sum);
    return sum;
}

DT__INLINE ints subtract(int form, ints a, ints b)
{
    return form == DT__BYTES ? _mm256_sub_epi32(a, b) : _mm256_sub_epi16(a, b);
}

DT__INLINE ints widen(int form, ints sum)
{
    return form == DT__BYTES ? sum : _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}

#include "kernels/x86/products/qgemm_tile.inc"
#include "kernels/x86/qconv_tile.inc"
#endif
