/* Gathers the words of a tile of positions (dt__gathering) in plain C. */
#include "kernels/kernels.h"

#include <string.h>

/* One word of four positions. */
static void gather_quad(const dt__gathering *g, const dt__gather_quad *q, int64_t word, uint8_t *to)
{
    uint8_t bytes[DT__BLOCK] = { 0 };
    for (int32_t i = g->first[word]; i < g->first[word + 1]; i++) {
        const uint8_t *shuffle = g->shuffle[g->part[i].shuffle];
        for (int run = 0, k = 0; run < q->runs; run++) {
            const uint8_t *from = q->from[run] + g->part[i].offset;
            for (; k < 4 * q->past[run]; k++) bytes[k] |= shuffle[k] < 16 ? from[shuffle[k]] : 0;
        }
    }
    memcpy(to, bytes, sizeof bytes);
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
