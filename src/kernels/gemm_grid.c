/* The grid of a product: tiles that threads share, and steps along k if an operand is a source.
 *
 * OpenBLAS copies a tile's rows of a and columns of b into an order of its own, so a grid of `down`
 * by `across` tiles makes it copy m * across + n * down lines of k elements: the grid with the
 * fewest lines is chosen. Filling a source costs as much as copying once more. */
#include "kernels/kernels.h"

#include <limits.h>
#include <math.h>

#define SIDE 64       /* sides of tiles are multiples of it, or the whole extent */
#define MOST_TILES 8  /* of a product in memory */
#define FILLED 139264 /* elements of sources filled per step: 544 KiB of floats, padded 512 x 256 */
#define DEPTH 256     /* of a step at least: sums of k terms pass through c once in a step */
#define SUNK 512      /* largest side of a tile for a sink */

bool dt__gemm_fits_blas(const dt__gemm *g)
{
    const int64_t a_rows = g->trans_a ? g->k : g->m, a_columns = g->trans_a ? g->m : g->k;
    const int64_t b_rows = g->trans_b ? g->n : g->k, b_columns = g->trans_b ? g->k : g->n;
    if (g->k == 0) return false;
    if (dt__max_i64(dt__max_i64(g->m, g->n), g->k) > INT_MAX) return false;
    if (g->a_source == NULL && (g->lda > INT_MAX || (a_rows > 1 && g->lda < a_columns))) {
        return false;
    }
    if (g->b_source == NULL && (g->ldb > INT_MAX || (b_rows > 1 && g->ldb < b_columns))) {
        return false;
    }
    return g->ldc <= INT_MAX && (g->m == 1 || g->ldc >= g->n);
}

/* The number of tiles: two from 1 MFLOP on, four from 4, eight from 16, since synchronizing threads
 * costs more than smaller tiles gain. Among many products a tile is at least 16 MFLOP, so that
 * fewer lines are copied. */
static int64_t tiles_of(const dt__gemm *g)
{
    const double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k;
    int64_t tiles = 1;
    const double first = g->coarse ? 32e6 : 1e6, step = g->coarse ? 2 : 4;
    for (double least = first; tiles < MOST_TILES && flops >= least; least *= step) tiles *= 2;
    return tiles;
}

/* The side of `parts` equal tiles or fewer, limited by `most`. */
static int64_t side_of(int64_t extent, int64_t parts, int64_t most)
{
    const int64_t count = dt__max_i64(parts, dt__ceil_div(extent, most));
    return dt__min_i64(extent, dt__round_up(dt__ceil_div(extent, count), SIDE));
}

/* The grid of `down` by `tiles / down` tiles. Sides of sources are limited so that steps of DEPTH
 * fit; sides of sinks by SUNK. */
static dt__gemm_grid cut(const dt__gemm *g, int64_t tiles, int64_t down)
{
    const bool both = g->a_source != NULL && g->b_source != NULL;
    const int64_t room = (both ? FILLED / 2 : FILLED) / dt__gemm_stride(dt__min_i64(g->k, DEPTH));
    const int64_t most = room / SIDE * SIDE, sunk = g->c_sink != NULL ? SUNK : INT64_MAX;
    dt__gemm_grid out = { .depth = g->k };
    out.rows = side_of(g->m, down, dt__min_i64(sunk, g->a_source != NULL ? most : g->m));
    out.columns = side_of(g->n, tiles / down, dt__min_i64(sunk, g->b_source != NULL ? most : g->n));
    out.across = dt__ceil_div(g->n, out.columns);
    out.tiles = out.across * dt__ceil_div(g->m, out.rows);
    return out;
}

static double area_of(const dt__gemm_grid *grid)
{
    return (double)grid->rows * (double)grid->columns;
}

/* Lines that are copied. */
static double cost_of(const dt__gemm *g, const dt__gemm_grid *grid)
{
    const double a = g->a_source != NULL ? 2 : 1, b = g->b_source != NULL ? 2 : 1;
    const double across = (double)grid->across, down = (double)(grid->tiles / grid->across);
    return a * (double)g->m * across + b * (double)g->n * down;
}

/* The depth of equal steps along k, as large as FILLED allows. */
static int64_t depth_of(const dt__gemm *g, const dt__gemm_grid *grid)
{
    int64_t side = 0; /* FILLED / side is SIDE or more where k is, by `cut` */
    if (g->a_source != NULL) side += dt__gemm_stride(grid->rows);
    if (g->b_source != NULL) side += dt__gemm_stride(grid->columns);
    if (side == 0) return g->k;
    if (g->k * side <= FILLED) return g->k;
    const int64_t steps = dt__ceil_div(g->k, FILLED / side / SIDE * SIDE);
    return dt__min_i64(g->k, dt__round_up(dt__ceil_div(g->k, steps), SIDE));
}

/* Chooses the cheapest grid whose tiles are at most a quarter larger than an equal share, or than
 * the smallest possible tile. Of equally cheap ones the longest rows win, since threads then write
 * fewer shared cache lines. */
dt__gemm_grid dt__gemm_grid_of(const dt__gemm *g)
{
    dt__gemm_grid best = { .rows = g->m, .columns = g->n, .depth = g->k, .across = 1, .tiles = 1 };
    if (g->m == 0 || g->n == 0) return best;
    const int64_t tiles = tiles_of(g);
    double least = INFINITY, cost = INFINITY;
    for (int64_t down = 1; down <= tiles; down *= 2) {
        const dt__gemm_grid grid = cut(g, tiles, down);
        least = fmin(least, area_of(&grid));
    }
    least = fmax(least, (double)g->m * (double)g->n / (double)tiles);
    for (int64_t down = tiles; down >= 1; down /= 2) {
        const dt__gemm_grid grid = cut(g, tiles, down);
        if (area_of(&grid) > 1.25 * least || cost_of(g, &grid) >= cost) continue;
        cost = cost_of(g, &grid);
        best = grid;
    }
    best.depth = depth_of(g, &best);
    return best;
}

/* Rows begin on cache lines; strides that are powers of two are avoided, since rows would compete
 * for few cache sets. */
int64_t dt__gemm_stride(int64_t columns) { return dt__round_up(columns, 16) + 16; }

int64_t dt__gemm_filled(const dt__gemm *g, const dt__gemm_grid *grid)
{
    int64_t count = 0;
    if (g->a_source != NULL) {
        count += g->trans_a ? grid->depth * dt__gemm_stride(grid->rows)
                            : grid->rows * dt__gemm_stride(grid->depth);
    }
    if (g->b_source != NULL) {
        count += g->trans_b ? grid->columns * dt__gemm_stride(grid->depth)
                            : grid->depth * dt__gemm_stride(grid->columns);
    }
    return g->c_sink != NULL ? count + grid->rows * dt__gemm_stride(grid->columns) : count;
}

size_t dt__gemm_scratch(const dt__gemm *g, size_t element, int threads)
{
    const dt__gemm_grid grid = dt__gemm_grid_of(g);
    return (size_t)(dt__gemm_filled(g, &grid) * dt__min_i64(grid.tiles, threads)) * element;
}

/* A step fills at most FILLED elements and the padding of its rows: at most 512 rows of both
 * operands if k has several steps, with at most 31 elements each. */
size_t dt__gemms_scratch(const dt__gemm *most, size_t element, int threads)
{
    const int64_t m = most->m, n = most->n, k = most->k;
    int64_t filled = 0;
    if (most->a_source != NULL) {
        filled += most->trans_a ? k * dt__gemm_stride(m) : m * dt__gemm_stride(k);
    }
    if (most->b_source != NULL) {
        filled += most->trans_b ? n * dt__gemm_stride(k) : k * dt__gemm_stride(n);
    }
    filled = dt__min_i64(filled, FILLED + 31 * 512);
    if (most->c_sink != NULL) {
        filled += dt__min_i64(m, SUNK) * dt__gemm_stride(dt__min_i64(n, SUNK));
    }
    return (size_t)(filled * threads) * element;
}
