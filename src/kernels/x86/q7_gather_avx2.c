/* Words of bytes that lie apart, with AVX2: four words of eight columns are read as sixteen bytes
 * of each column, and transposed. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/q7_gather.h"
#include "kernels/sets.h"

#define WORDS 4   /* that are gathered together */
#define COLUMNS 8 /* likewise */

/* How the sixteen rows of four words follow each other: all are neighbours; each half of them; each
 * word's; all, with a byte between them; each half of them. */
typedef enum form { ALL, HALVES, QUARTERS, SPACED, SPACED_HALVES, FORMS } form;

DT__INLINE __m128i read_sixteen(const uint8_t *from)
{
    return _mm_loadu_si128((const __m128i *)(const void *)from);
}

DT__INLINE __m128i read_eight(const uint8_t *from)
{
    return _mm_loadl_epi64((const __m128i *)(const void *)from);
}

DT__INLINE __m128i read_four(const uint8_t *from)
{
    int32_t word;
    memcpy(&word, from, sizeof word);
    return _mm_cvtsi32_si128(word);
}

/* Bytes 0, 2, 4 and so on of two vectors. */
DT__INLINE __m128i even_bytes(__m128i a, __m128i b)
{
    const __m128i even = _mm_set1_epi16(255);
    return _mm_packus_epi16(_mm_and_si128(a, even), _mm_and_si128(b, even));
}

/* The sixteen bytes of a column. */
DT__INLINE __m128i read_column(form f, const uint8_t *const *row, int32_t at)
{
    const uint8_t *a = row[0] + at, *c = row[8] + at;
    if (f == ALL) return read_sixteen(a);
    if (f == HALVES) return _mm_unpacklo_epi64(read_eight(a), read_eight(c));
    if (f == SPACED) return even_bytes(read_sixteen(a), read_sixteen(a + 16));
    if (f == SPACED_HALVES) return even_bytes(read_sixteen(a), read_sixteen(c));
    const __m128i low = _mm_unpacklo_epi32(read_four(a), read_four(row[4] + at));
    return _mm_unpacklo_epi64(low, _mm_unpacklo_epi32(read_four(c), read_four(row[12] + at)));
}

DT__INLINE __m256i read_columns(form f, const uint8_t *const *row, const int32_t *offset)
{
    const __m128i low = read_column(f, row, offset[0]), high = read_column(f, row, offset[4]);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

DT__INLINE void store(uint8_t *to, int word, __m256i x)
{
    _mm256_store_si256((__m256i *)(void *)(to + word * DT__Q7_WORD * DT__LANES), x);
}

/* Four words of eight columns; `to` is word 0 of the first. */
DT__INLINE void gather_square(form f, const uint8_t *const *row, const int32_t *offset, uint8_t *to)
{
    const __m256i a = read_columns(f, row, offset), b = read_columns(f, row, offset + 1);
    const __m256i c = read_columns(f, row, offset + 2), d = read_columns(f, row, offset + 3);
    const __m256i ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);
    const __m256i ef = _mm256_unpackhi_epi32(a, b), gh = _mm256_unpackhi_epi32(c, d);
    store(to, 0, _mm256_unpacklo_epi64(ab, cd));
    store(to, 1, _mm256_unpackhi_epi64(ab, cd));
    store(to, 2, _mm256_unpacklo_epi64(ef, gh));
    store(to, 3, _mm256_unpackhi_epi64(ef, gh));
}

DT__INLINE void gather_four(form f, const dt__q7_gathering *g, int64_t w)
{
    const uint8_t *const *row = g->row + w * DT__Q7_WORD;
    for (int64_t j = 0; j + COLUMNS <= g->n; j += COLUMNS) {
        uint8_t *to = g->to + (size_t)(j / DT__LANES) * g->panel_step;
        to += (w * DT__LANES + j % DT__LANES) * DT__Q7_WORD;
        gather_square(f, row, g->offset + j, to);
    }
}

#define GATHER(form)                                                                               \
    static void gather_##form(const dt__q7_gathering *g, int64_t w) { gather_four(form, g, w); }
GATHER(ALL)
GATHER(HALVES)
GATHER(QUARTERS)
GATHER(SPACED)
GATHER(SPACED_HALVES)

static void (*const gather_by[FORMS])(const dt__q7_gathering *,
                                      int64_t) = { gather_ALL, gather_HALVES, gather_QUARTERS,
                                                   gather_SPACED, gather_SPACED_HALVES };

/* How four words lie; FORMS: in no such way. */
static form form_of(const uint8_t *const *row)
{
    const ptrdiff_t apart = dt__q7_apart(row);
    if (apart != 1 && apart != 2) return FORMS;
    for (int i = 1; i < WORDS; i++) {
        if (dt__q7_apart(row + i * DT__Q7_WORD) != apart) return FORMS;
    }
    const bool halves = row[4] - row[0] == 4 * apart && row[12] - row[8] == 4 * apart;
    const bool all = halves && row[8] - row[0] == 8 * apart;
    if (apart == 2) return all ? SPACED : halves ? SPACED_HALVES : FORMS;
    return all ? ALL : halves ? HALVES : QUARTERS;
}

/* Columns that no vector holds, and words that do not lie well, are gathered one word at a time. */
void dt__q7_gather__avx2(const dt__q7_gathering *g)
{
    const int64_t whole = g->n / COLUMNS * COLUMNS;
    int64_t w = 0;
    while (w < g->words) {
        const form f = w + WORDS <= g->words ? form_of(g->row + w * DT__Q7_WORD) : FORMS;
        const int64_t words = f < FORMS ? WORDS : 1, from = f < FORMS ? whole : 0;
        if (f < FORMS) gather_by[f](g, w);
        for (const int64_t end = w + words; w < end; w++) {
            if (from < g->n) dt__q7_gather_word(g, w, from);
        }
    }
}
#endif
