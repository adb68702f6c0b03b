/* Gathers the words of a tile of positions (dt__gathering) in plain C. */
#include "kernels/kernels.h"

#include <string.h>

/* Adds column i of a part to the words of four positions. */
static void gather_column(const dt__gathering *g, const dt__gather_quad *q, const dt__taps *part,
                          int i, uint8_t *bytes)
{
    for (int run = 0, k = 0; run < q->runs; run++) {
        const uint8_t *from = q->from[run] + part->offset + part->at[i];
        for (; k < q->past[run]; k++) bytes[4 * k + i] |= from[k * g->step];
    }
}

/* One word of four positions. */
static void gather_quad(const dt__gathering *g, const dt__gather_quad *q, int64_t word, uint8_t *to)
{
    memset(to, 0, DT__BLOCK);
    for (int32_t k = g->first[word]; k < g->first[word + 1]; k++) {
        for (int i = 0; i < 4; i++) {
            if (g->part[k].at[i] != DT__GATHER_NONE) gather_column(g, q, &g->part[k], i, to);
        }
    }
}

void dt__gather_codes__ref(const dt__gathering *g)
{
    for (int64_t b = 0; b < g->blocks; b++) {
        for (int64_t word = 0; word < g->words; word++) {
            uint8_t *to = g->to + (b * g->words + word) * 4 * DT__BLOCK;
            for (int k = 0; k < 4; k++) gather_quad(g, &g->quad[4 * b + k], word, to + 16 * k);
        }
    }
}
