/* How the parts of an integer product are shared among threads. */
#include "kernels/qgemm.h"

#include <omp.h>

/* Below this many multiply-adds, counting a weight's reading as four, waking threads costs more. */
#define WORTH_SHARING ((int64_t)1 << 20)
#define FEWEST 16 /* rows that are worth unpacking a panel for */

/* Chunks of rows: as few as `most` allows, more where the panels alone keep no thread busy. */
static int64_t chunks_of(const dt__qgemm *g, int64_t most, int threads)
{
    int64_t chunks = dt__ceil_div(g->m, most);
    const int64_t wanted = dt__ceil_div((int64_t)4 * threads, dt__max_i64(1, g->layout->panels));
    if (threads > 1) chunks = dt__max_i64(chunks, dt__min_i64(wanted, g->m / FEWEST));
    return chunks;
}

void dt__qgemm_share(const dt__qgemm *g, int most, void (*part)(const dt__qgemm_part *part))
{
    const dt__panel_layout *l = g->layout;
    const int64_t work = l->rows * l->depth;
    const bool alone = g->alone || work <= WORTH_SHARING / (g->m + 4);
    const int threads = alone ? 1 : omp_get_max_threads();
    const int64_t chunks = dt__max_i64(1, chunks_of(g, most, threads));
    const int64_t rows = dt__round_up(dt__ceil_div(g->m, chunks), 8), parts = chunks * l->panels;
    /* A few rows are a matter of reading: each thread reads one stretch of panels. */
    const int64_t grain = g->m < FEWEST ? dt__max_i64(1, dt__ceil_div(parts, threads)) : 1;
#pragma omp parallel for schedule(dynamic, grain) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < parts; i++) {
        const int64_t panel = i / chunks, m0 = i % chunks * rows, n0 = panel * DT__LANES;
        dt__qgemm_part p = { .g = g, .m0 = m0, .n0 = n0 };
        p.panel = (const uint8_t *)g->panels + (size_t)panel * l->panel_bytes;
        p.rows = (int)dt__min_i64(rows, g->m - m0);
        p.lanes = (int)dt__min_i64(DT__LANES, l->rows - n0);
        if (p.rows > 0) part(&p);
    }
}
