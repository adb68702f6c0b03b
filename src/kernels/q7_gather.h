/* Words of a dt__q7_gathering, one at a time. */
#ifndef DT__KERNELS_Q7_GATHER_H
#define DT__KERNELS_Q7_GATHER_H

#include "core/core.h"
#include "kernels/q7.h"

/* Bytes from each row of a word to the next; 0: they differ. */
static inline ptrdiff_t dt__q7_apart(const uint8_t *const *row)
{
    const ptrdiff_t a = row[1] - row[0], b = row[2] - row[1], c = row[3] - row[2];
    return a == b && b == c ? a : 0;
}

/* Columns first ... past - 1 of a panel; to is column 0 of the panel. */
static inline void dt__q7_gather_near(int64_t first, int64_t past, const uint8_t *row,
                                      const int32_t *offset, uint8_t *to)
{
    for (int64_t j = first; j < past; j++) {
        memcpy(to + j * DT__Q7_WORD, row + offset[j], DT__Q7_WORD);
    }
}

static inline void dt__q7_gather_far(int64_t first, int64_t past, const uint8_t *const *row,
                                     const int32_t *offset, uint8_t *to)
{
    const uint8_t *a = row[0], *b = row[1], *c = row[2], *d = row[3];
    for (int64_t j = first; j < past; j++) {
        const int32_t at = offset[j];
        const uint8_t word[DT__Q7_WORD] = { a[at], b[at], c[at], d[at] };
        memcpy(to + j * DT__Q7_WORD, word, sizeof word);
    }
}

/* Word w of columns `first` and up, a multiple of 32 or within the last panel. */
static inline void dt__q7_gather_word(const dt__q7_gathering *g, int64_t w, int64_t first)
{
    const uint8_t *const *row = g->row + w * DT__Q7_WORD;
    const bool near = dt__q7_apart(row) == 1;
    int64_t panel = first / DT__LANES, from = first % DT__LANES;
    for (int64_t j = panel * DT__LANES; j < g->n; j += DT__LANES, panel++, from = 0) {
        const int64_t past = dt__min_i64(DT__LANES, g->n - j);
        uint8_t *to = g->to + (size_t)panel * g->panel_step + w * DT__Q7_WORD * DT__LANES;
        if (near) dt__q7_gather_near(from, past, row[0], g->offset + j, to);
        else dt__q7_gather_far(from, past, row, g->offset + j, to);
    }
}

#endif
