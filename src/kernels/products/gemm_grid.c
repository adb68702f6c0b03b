/* The grid of a product: tiles that threads share. A tile packs its rows of a and its columns of b,
 * so packing is cheapest for square tiles. The order of sums does not depend on the grid, so the
 * grid may depend on the number of threads. */
#include "kernels/kernels.h"
#include "kernels/products/bf16.h"

#define SHARE 5e5   /* FLOP per tile, at least: some microseconds, the time to wake a thread */
#define COARSE 16e6 /* FLOP per tile if there are many products */
#define PACKING 8   /* packing an element takes as long as this many multiply-adds */

static int64_t tiles_of(const dt__gemm *g, int threads)
{
    const double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k;
    const double share = g->coarse ? COARSE : SHARE;
    if (g->alone || flops < 2 * share) return 1;
    return flops >= share * threads ? threads : (int64_t)(flops / share);
}

/* Of all grids of at most that many tiles, chooses the one whose largest tile takes the least
 * time. */
dt__gemm_grid dt__gemm_grid_of(const dt__gemm *g, int threads)
{
    dt__gemm_grid best = { .rows = g->m, .columns = g->n, .across = 1, .tiles = 1 };
    if (g->m == 0 || g->n == 0) return best;
    const int64_t tiles = tiles_of(g, threads);
    const int64_t most = g->c_sink != NULL ? DT__GEMM_SUNK : g->n;
    double least = 0;
    for (int64_t parts = 1; parts <= tiles; parts++) {
        const int64_t columns = dt__round_up(dt__ceil_div(g->n, parts), DT__GEMM_PANEL);
        const int64_t rows = dt__ceil_div(g->m, tiles / parts);
        const double cost = (double)(rows + PACKING) * (double)(columns + PACKING);
        if (parts > 1 && cost >= least) continue;
        least = cost;
        best.rows = rows;
        best.columns = dt__min_i64(dt__min_i64(columns, g->n), most);
    }
    best.across = dt__ceil_div(g->n, best.columns);
    best.tiles = best.across * dt__ceil_div(g->m, best.rows);
    return best;
}

/* The stride for rows that begin on cache lines. It avoids powers of two, since such rows would
 * compete for few cache sets. */
int64_t dt__gemm_stride(int64_t columns) { return dt__round_up(columns, 16) + 16; }

bool dt__gemm_unpacked(const dt__gemm *g)
{
    return !g->trans_b && g->b_source == NULL && g->c_sink == NULL;
}

bool dt__gemm_transposes(const dt__gemm *g)
{
    return g->trans_b && !g->trans_a && !g->accumulate && g->a_source == NULL &&
           g->b_source == NULL;
}

/* Terms of bf16 are padded to whole tiles. */
static int64_t whole(int64_t terms) { return dt__round_up(terms, DT__BF16_TILE); }

/* Floats of a block of packed a in bf16: two terms per float, rows and terms of whole tiles. */
static int64_t packed_tiles(const dt__gemm *g)
{
    const int64_t rows = dt__round_up(dt__min_i64(g->m, DT__GEMM_TILE_ROWS), 16);
    return rows * whole(dt__min_i64(g->k, DT__GEMM_TILE_TERMS)) / 2;
}

/* Elements of packed a: a block of rows and terms, or few rows as a whole, padded. */
static int64_t packed_a(const dt__gemm *g, int64_t rows)
{
    const int64_t floats = dt__round_up(rows * whole(dt__min_i64(g->k, DT__GEMM_TERMS)), 16);
    const int64_t block = dt__max_i64(floats, packed_tiles(g));
    const int64_t most = dt__min_i64(rows, DT__GEMM_WHOLE / dt__max_i64(g->k, 1));
    const int64_t few = dt__min_i64(most, DT__GEMM_TRANSPOSED);
    return dt__gemm_transposes(g) && most >= 8 ? dt__max_i64(block, dt__round_up(few, 16) * g->k)
                                               : block;
}

/* Packed strips are written in whole vectors, so there is room for one more vector behind the
 * last. */
dt__gemm_room dt__gemm_room_of(const dt__gemm *g)
{
    const int64_t rows = dt__min_i64(g->m, DT__GEMM_ROWS);
    const int64_t few = dt__min_i64(rows, DT__GEMM_FEW);
    const int64_t depth = whole(dt__min_i64(g->k, DT__GEMM_DEPTH));
    const int64_t terms = dt__ceil_div(g->n, DT__GEMM_PANEL) * depth;
    const int64_t sunk = dt__gemm_stride(dt__min_i64(g->n, DT__GEMM_SUNK));
    const bool filled = g->a_source != NULL || g->b_source != NULL;
    return (dt__gemm_room){
        .a = packed_a(g, rows) + 16,
        .b = dt__min_i64(terms, DT__GEMM_WIDTH * DT__GEMM_DEPTH) * DT__GEMM_PANEL,
        .filled = filled ? DT__GEMM_FILLED : 0,
        .sunk = g->c_sink != NULL      ? rows * sunk
                : dt__gemm_unpacked(g) ? few * sunk
                                       : 0,
    };
}

/* Any of the threads may compute a tile. */
size_t dt__gemm_scratch(const dt__gemm *g, size_t element, int threads)
{
    return dt__gemms_scratch(g, element, dt__gemm_grid_of(g, threads).tiles == 1 ? 1 : threads);
}

size_t dt__gemms_scratch(const dt__gemm *most, size_t element, int threads)
{
    const dt__gemm_room room = dt__gemm_room_of(most);
    return (size_t)(dt__gemm_elements(&room) * threads) * element;
}
