/* Gathers the words of a tile of positions (dt__gathering) by byte shuffles with AVX2. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#include <string.h>

#define MOST_BLOCKS 3 /* blocks gathered together, at most: they share the parts of a word */

DT__INLINE __m128i read_sixteen(const uint8_t *from)
{
    return _mm_loadu_si128((const __m128i *)(const void *)from);
}

/* How two neighbouring quads read: APART each its own bytes, PAIRS the same sixteen bytes. */
enum { APART, PAIRS };

DT__INLINE __m256i read_pair(int form, const dt__gather_quad *q, int64_t at)
{
    const __m128i low = read_sixteen(q[0].from[0] + at);
    if (form == PAIRS) return _mm256_broadcastsi128_si256(low);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), read_sixteen(q[1].from[0] + at), 1);
}

/* The shuffle that picks a part's bytes for eight positions: for two quads (APART), or for eight
 * neighbours (PAIRS). */
DT__INLINE __m256i shuffle_of(int form, int64_t step, const dt__taps *part)
{
    const int high = form == PAIRS ? 4 : 0;
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, high, high + 1, high + 2, high + 3);
    int32_t at;
    memcpy(&at, part->at, sizeof at);
    return _mm256_add_epi8(_mm256_set1_epi32(at),
                           _mm256_mullo_epi32(lane, _mm256_set1_epi32((int32_t)step * 0x01010101)));
}

/* Gathers blocks as if each quad were one run. */
DT__INLINE void gather_blocks(const dt__gathering *g, int form, int blocks,
                              const dt__gather_quad *q, uint8_t *to)
{
    const int64_t step = form == PAIRS ? 1 : g->step;
    const int64_t apart = g->words * 4 * DT__BLOCK;
    for (int64_t word = 0; word < g->words; word++, to += 4 * DT__BLOCK) {
        __m256i sum[2 * MOST_BLOCKS];
        DT__UNROLL
        for (int k = 0; k < 2 * blocks; k++) sum[k] = _mm256_setzero_si256();
        for (int32_t i = g->first[word]; i < g->first[word + 1]; i++) {
            const int64_t at = g->part[i].offset;
            const __m256i by = shuffle_of(form, step, &g->part[i]);
            DT__UNROLL
            for (int k = 0; k < 2 * blocks; k++) {
                const __m256i x = read_pair(form, q + 2 * k, at);
                sum[k] = _mm256_or_si256(sum[k], _mm256_shuffle_epi8(x, by));
            }
        }
        DT__UNROLL
        for (int k = 0; k < 2 * blocks; k++) {
            uint8_t *block = to + k / 2 * apart + k % 2 * 32;
            _mm256_store_si256((__m256i *)(void *)block, sum[k]);
        }
    }
}

/* Overwrites the lanes of a quad that belong to `run`, a run after its first. */
static void gather_run(const dt__gathering *g, const dt__gather_quad *q, int run, uint8_t *to)
{
    const __m128i lane = _mm_setr_epi32(0, 1, 2, 3);
    const __m128i inside = _mm_cmpgt_epi32(lane, _mm_set1_epi32(q->past[run - 1] - 1));
    for (int64_t word = 0; word < g->words; word++, to += 4 * DT__BLOCK) {
        __m128i sum = _mm_setzero_si128();
        for (int32_t i = g->first[word]; i < g->first[word + 1]; i++) {
            const __m128i by = _mm256_castsi256_si128(shuffle_of(APART, g->step, &g->part[i]));
            const __m128i x = read_sixteen(q->from[run] + g->part[i].offset);
            sum = _mm_or_si128(sum, _mm_shuffle_epi8(x, by));
        }
        sum = _mm_blendv_epi8(read_sixteen(to), sum, inside);
        _mm_store_si128((__m128i *)(void *)to, sum);
    }
}

static int form_of(const dt__gathering *g, const dt__gather_quad *q)
{
    const bool first = q[1].from[0] == q[0].from[0] + 4, second = q[3].from[0] == q[2].from[0] + 4;
    return g->step == 1 && first && second ? PAIRS : APART;
}

static void gather_apart(const dt__gathering *g, const dt__gather_quad *q, uint8_t *to)
{
    gather_blocks(g, APART, 1, q, to);
}

static void gather_pairs(const dt__gathering *g, const dt__gather_quad *q, uint8_t *to)
{
    gather_blocks(g, PAIRS, 1, q, to);
}

static void gather_many(const dt__gathering *g, const dt__gather_quad *q, uint8_t *to)
{
    gather_blocks(g, PAIRS, MOST_BLOCKS, q, to);
}

void dt__gather_codes__avx2(const dt__gathering *g)
{
    const int64_t block = g->words * 4 * DT__BLOCK;
    for (int64_t b = 0, same; b < g->blocks; b += same) {
        const dt__gather_quad *q = g->quad + 4 * b;
        uint8_t *to = g->to + b * block;
        const int form = form_of(g, q);
        for (same = 1; same < MOST_BLOCKS && b + same < g->blocks; same++) {
            if (form_of(g, q + 4 * same) != PAIRS) break;
        }
        const bool many = form == PAIRS && same == MOST_BLOCKS;
        if (!many) same = 1;
        if (many) gather_many(g, q, to);
        else if (form == PAIRS) gather_pairs(g, q, to);
        else gather_apart(g, q, to);
        for (int k = 0; k < 4 * same; k++) {
            for (int run = 1; run < q[k].runs; run++) {
                gather_run(g, q + k, run, to + k / 4 * block + k % 4 * 16);
            }
        }
    }
}
#endif
