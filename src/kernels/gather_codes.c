/* Gathers rows of codes from pieces (dt__gathering) in plain C: by overlapping words, or by blocks
 * of 8 x 8 bytes if pieces are one byte and rows begin at neighbouring bytes. */
#include "kernels/kernels.h"

#include <string.h>

/* Four rows at a time, in words of `word` bytes; each word overwrites the excess bytes of the one
 * before. */
static inline void gather_words(const dt__gathering *g, int64_t length, size_t word)
{
    int64_t m = 0;
    for (; m + 4 <= g->rows; m += 4) {
        const uint8_t *const *from = g->from + m;
        uint8_t *to = g->to + m * g->ld;
        for (int64_t i = 0; i < g->pieces; i++, to += length) {
            const int64_t at = g->offset[i];
            memcpy(to, from[0] + at, word);
            memcpy(to + g->ld, from[1] + at, word);
            memcpy(to + 2 * g->ld, from[2] + at, word);
            memcpy(to + 3 * g->ld, from[3] + at, word);
        }
    }
    for (; m < g->rows; m++) {
        uint8_t *to = g->to + m * g->ld;
        for (int64_t i = 0; i < g->pieces; i++, to += length) {
            memcpy(to, g->from[m] + g->offset[i], word);
        }
    }
}

static void gather_long(const dt__gathering *g)
{
    for (int64_t m = 0; m < g->rows; m++) {
        uint8_t *to = g->to + m * g->ld;
        for (int64_t i = 0; i < g->pieces; i++, to += g->length) {
            memcpy(to, g->from[m] + g->offset[i], (size_t)g->length);
        }
    }
}

/* Transposes 8 x 8 bytes in eight words: swaps blocks of 1 x 1, then 2 x 2, then 4 x 4. */
static inline void swap_blocks(uint64_t *a, uint64_t *b, int bits, uint64_t low)
{
    const uint64_t t = ((*a >> bits) ^ *b) & low;
    *b ^= t;
    *a ^= t << bits;
}

static inline void transpose_bytes(uint64_t w[8])
{
    for (int i = 0; i < 8; i += 2) swap_blocks(w + i, w + i + 1, 8, 0x00ff00ff00ff00ffu);
    for (int i = 0; i < 4; i++) {
        const int at = i / 2 * 4 + i % 2;
        swap_blocks(w + at, w + at + 2, 16, 0x0000ffff0000ffffu);
    }
    for (int i = 0; i < 4; i++) swap_blocks(w + i, w + i + 4, 32, 0x00000000ffffffffu);
}

/* Eight rows that begin at neighbouring bytes; pieces are single bytes. */
static void gather_block(const dt__gathering *g, int64_t m)
{
    uint8_t *to = g->to + m * g->ld;
    for (int64_t i = 0; i < g->pieces; i += 8) {
        uint64_t w[8] = { 0 };
        const int n = (int)dt__min_i64(8, g->pieces - i);
        for (int k = 0; k < n; k++) memcpy(w + k, g->from[m] + g->offset[i + k], 8);
        transpose_bytes(w);
        for (int k = 0; k < 8; k++) memcpy(to + k * g->ld + i, w + k, 8);
    }
}

#if defined __BYTE_ORDER__ && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define IS_LITTLE_ENDIAN true
#else
#define IS_LITTLE_ENDIAN false
#endif

static void gather_bytes(const dt__gathering *g)
{
    for (int64_t m = 0; m < g->rows;) {
        bool beside = IS_LITTLE_ENDIAN && m + 8 <= g->rows;
        for (int k = 1; k < 8 && beside; k++) beside = g->from[m + k] == g->from[m] + k;
        if (beside) {
            gather_block(g, m);
            m += 8;
            continue;
        }
        uint8_t *to = g->to + m * g->ld;
        for (int64_t i = 0; i < g->pieces; i++) to[i] = g->from[m][g->offset[i]];
        m++;
    }
}

void dt__gather_codes__ref(const dt__gathering *g)
{
    if (g->length == 1) gather_bytes(g);
    else if (g->length == 3) gather_words(g, 3, 4);
    else if (g->length <= 4) gather_words(g, g->length, 4);
    else if (g->length <= 8) gather_words(g, g->length, 8);
    else gather_long(g);
}
