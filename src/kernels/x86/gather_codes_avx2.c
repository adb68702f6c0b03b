/* Gathers rows of codes from pieces of three bytes with AVX2, for kernels with three columns.
 *
 * Eight bytes at each of three pieces contain the pieces of six neighbouring positions (of three if
 * positions are two bytes apart). For each position two shuffles collect its nine bytes, which are
 * stored at once. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#include <string.h>

#define LENGTH 3

/* The nine bytes of position j from a = pieces 0 and 1, b = piece 2. */
DT__INLINE __m128i position_of(__m128i a, __m128i b, int at)
{
    const char p = (char)at;
    const char n = -1;
    const __m128i from_a =
        _mm_setr_epi8(p, (char)(p + 1), (char)(p + 2), (char)(p + 8), (char)(p + 9), (char)(p + 10),
                      n, n, n, n, n, n, n, n, n, n);
    const __m128i from_b =
        _mm_setr_epi8(n, n, n, n, n, n, p, (char)(p + 1), (char)(p + 2), n, n, n, n, n, n, n);
    return _mm_or_si128(_mm_shuffle_epi8(a, from_a), _mm_shuffle_epi8(b, from_b));
}

DT__INLINE __m128i load_eight(const uint8_t *from)
{
    return _mm_loadl_epi64((const __m128i *)(const void *)from);
}

/* `count` rows whose pieces begin `step` bytes apart, count * step <= 6. */
DT__INLINE void gather_block(const dt__gathering *g, int64_t m, int count, int step)
{
    const uint8_t *from = g->from[m];
    uint8_t *to = g->to + m * g->ld;
    const int64_t triples = g->pieces / 3;
    for (int64_t i = 0; i < triples; i++, to += 3 * LENGTH) {
        const int64_t *at = g->offset + 3 * i;
        const __m128i a = _mm_unpacklo_epi64(load_eight(from + at[0]), load_eight(from + at[1]));
        const __m128i b = load_eight(from + at[2]);
        DT__UNROLL
        for (int j = 0; j < count; j++) {
            _mm_storeu_si128((__m128i *)(void *)(to + j * g->ld), position_of(a, b, j * step));
        }
    }
    for (int64_t i = 3 * triples; i < g->pieces; i++, to += LENGTH) {
        for (int j = 0; j < count; j++) memcpy(to + j * g->ld, from + j * step + g->offset[i], 4);
    }
}

/* Whether `count` rows from m on begin `step` bytes apart. */
static bool is_beside(const dt__gathering *g, int64_t m, int count, int step)
{
    bool beside = m + count <= g->rows;
    for (int j = 1; j < count && beside; j++) beside = g->from[m + j] == g->from[m] + j * step;
    return beside;
}

void dt__gather_codes__avx2(const dt__gathering *g)
{
    if (g->length != LENGTH) {
        dt__gather_codes__ref(g);
        return;
    }
    for (int64_t m = 0; m < g->rows;) {
        if (is_beside(g, m, 6, 1)) {
            gather_block(g, m, 6, 1);
            m += 6;
        } else if (is_beside(g, m, 3, 2)) {
            gather_block(g, m, 3, 2);
            m += 3;
        } else if (is_beside(g, m, 2, 1)) {
            gather_block(g, m, 2, 1);
            m += 2;
        } else {
            gather_block(g, m, 1, 1);
            m++;
        }
    }
}
#endif
