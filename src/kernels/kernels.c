/* What the kernels of all dtypes share: the grid of a product, the strided copy. */
#include "kernels/kernels.h"

#include <limits.h>
#include <string.h>

/* ---- the grid of a product ------------------------------------------------------------------ */

bool dt__gemm_fits_blas(const dt__gemm *g)
{
    const int64_t a_rows = g->trans_a ? g->k : g->m, a_columns = g->trans_a ? g->m : g->k;
    const int64_t b_rows = g->trans_b ? g->n : g->k, b_columns = g->trans_b ? g->k : g->n;
    if (g->k == 0) return false;
    if (dt__max_i64(dt__max_i64(g->m, g->n), g->k) > INT_MAX) return false;
    if (dt__max_i64(dt__max_i64(g->lda, g->ldb), g->ldc) > INT_MAX) return false;
    return (a_rows == 1 || g->lda >= a_columns) && (b_rows == 1 || g->ldb >= b_columns) &&
           (g->m == 1 || g->ldc >= g->n);
}

/* The tile of `down` by `8 / down` tiles, or fewer: sides are multiples of 64, or the whole. */
static dt__gemm_grid cut(int64_t m, int64_t n, int64_t down)
{
    dt__gemm_grid g;
    g.rows = dt__min_i64(m, dt__round_up(dt__ceil_div(m, down), 64));
    g.columns = dt__min_i64(n, dt__round_up(dt__ceil_div(n, 8 / down), 64));
    g.across = dt__ceil_div(n, g.columns);
    g.tiles = g.across * dt__ceil_div(m, g.rows);
    return g;
}

/* Below 4 MFLOP one tile; else about eight: of the cuts whose tile is at most a quarter larger than
 * the smallest one's, the squarest, which reads its operands least often. */
dt__gemm_grid dt__gemm_grid_of(int64_t m, int64_t n, int64_t k)
{
    dt__gemm_grid best = { m, n, 1, 1 };
    if (2.0 * (double)m * (double)n * (double)k < 4e6) return best;
    int64_t least = INT64_MAX, side = INT64_MAX;
    for (int64_t down = 1; down <= 8; down *= 2) {
        const dt__gemm_grid g = cut(m, n, down);
        least = dt__min_i64(least, g.rows * g.columns);
    }
    for (int64_t down = 1; down <= 8; down *= 2) {
        const dt__gemm_grid g = cut(m, n, down);
        if (g.rows * g.columns > least + least / 4 || g.rows + g.columns >= side) continue;
        side = g.rows + g.columns;
        best = g;
    }
    return best;
}

/* ---- the strided copy ----------------------------------------------------------------------- */

/* Drops extents of 1 and merges neighbours that are contiguous in both, so that the inner loop is
 * as long as it can be. */
static dt__copy merged(const dt__copy *c)
{
    dt__copy out = { .rank = 0, .x = c->x, .y = c->y };
    for (int d = 0; d < c->rank; d++) {
        if (c->dims[d] == 1) continue;
        const int last = out.rank - 1;
        if (last >= 0 && out.x_strides[last] == c->x_strides[d] * c->dims[d] &&
            out.y_strides[last] == c->y_strides[d] * c->dims[d]) {
            out.dims[last] *= c->dims[d];
            out.x_strides[last] = c->x_strides[d];
            out.y_strides[last] = c->y_strides[d];
            continue;
        }
        out.dims[out.rank] = c->dims[d];
        out.x_strides[out.rank] = c->x_strides[d];
        out.y_strides[out.rank] = c->y_strides[d];
        out.rank++;
    }
    return out;
}

/* By memcpy of a fixed size: the elements' type is not known here. */
#define COPY_LINE(bytes)                                                                           \
    for (int64_t i = 0; i < l->n; i++) {                                                           \
        memcpy(y + i * l->y_stride * (bytes), x + i * l->x_stride * (bytes), bytes);               \
    }

typedef struct line {
    int64_t n, x_stride, y_stride;
    size_t element;
} line;

static void copy_line(const line *l, const char *x, char *y)
{
    if (l->x_stride == 1 && l->y_stride == 1) {
        memcpy(y, x, (size_t)l->n * l->element);
    } else if (l->element == 8) {
        COPY_LINE(8)
    } else if (l->element == 4) {
        COPY_LINE(4)
    } else if (l->element == 2) {
        COPY_LINE(2)
    } else {
        COPY_LINE(1)
    }
}

void dt__copy_bytes(const dt__copy *copy, size_t element)
{
    for (int d = 0; d < copy->rank; d++) {
        if (copy->dims[d] == 0) return;
    }
    const dt__copy c = merged(copy);
    const int outer = c.rank > 0 ? c.rank - 1 : 0;
    const line l = { c.rank > 0 ? c.dims[outer] : 1, c.rank > 0 ? c.x_strides[outer] : 1,
                     c.rank > 0 ? c.y_strides[outer] : 1, element };
    int64_t lines = 1;
    for (int d = 0; d < outer; d++) lines *= c.dims[d];
#pragma omp parallel for schedule(static) if (lines > 1 && lines * l.n > DT__CHUNK)
    for (int64_t i = 0; i < lines; i++) {
        int64_t rest = i, from = 0, to = 0;
        for (int d = outer - 1; d >= 0; d--) {
            const int64_t index = rest % c.dims[d];
            rest /= c.dims[d];
            from += index * c.x_strides[d];
            to += index * c.y_strides[d];
        }
        const int64_t bytes = (int64_t)element;
        copy_line(&l, (const char *)c.x + from * bytes, (char *)c.y + to * bytes);
    }
}
