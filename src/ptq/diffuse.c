/* The loop that GPTQ and Qronos share: each column is rounded, and its error is diffused to the
 * later columns.
 *
 *     q = Q(W[:,j])      e = (W[:,j] - q) / U[j][j]      W[:,j'] -= e U[j][j'],  j' > j
 *
 * The error overwrites its column, so the pending update of columns c0 ... c1 is one matrix
 * product, W[:,c0...c1) -= E[:,from...to) U[from...to)[c0...c1). A block of columns applies all
 * pending updates first. It is then halved recursively: round the first half, update the second
 * half, round it. Refreshed group scales are computed when their group begins. The order of the
 * sums does not depend on the thread. */
#include "kernels/products/dense64.h"
#include "ptq/layer.h"

#define FEW 8 /* spans of at most so many columns are not halved */

typedef struct span {
    int64_t from, to;
} span;

/* Subtracts the errors of columns `done` from columns `to`. */
static void spread(const dt__row_block *s, span done, span to)
{
    const dt__matrix *m = s->m;
    dt__dense_product(&(dt__dense){ .m = to.to - to.from,
                                    .n = s->rows,
                                    .k = done.to - done.from,
                                    .alpha = -1,
                                    .trans_a = true,
                                    .a = m->factor + done.from * m->columns + to.from,
                                    .lda = m->columns,
                                    .b = s->work + done.from * s->rows,
                                    .ldb = s->rows,
                                    .c = s->work + to.from * s->rows,
                                    .ldc = s->rows });
}

/* Rounds column j, where only the errors of columns `from` ... j-1 are pending. */
static void round_one(dt__row_block *s, int64_t from, int64_t j)
{
    const dt__matrix *m = s->m;
    double dequantized[DT__BLOCK_ROWS], *v = s->work + j * s->rows;
    for (int64_t i = from; i < j; i++) {
        const double u = m->factor[i * m->columns + j], *e = s->work + i * s->rows;
        for (int64_t r = 0; r < s->rows; r++) v[r] -= e[r] * u;
    }
    dt__choose(s, j, v, dequantized);
    const double u = m->factor[j * m->columns + j];
    for (int64_t r = 0; r < s->rows; r++) {
        v[r] = (v[r] - dequantized[r]) / u;
        s->square[r] += v[r] * v[r];
    }
}

static void round_span(dt__row_block *s, span all)
{
    if (all.to - all.from <= FEW) {
        for (int64_t j = all.from; j < all.to; j++) round_one(s, all.from, j);
        return;
    }
    const int64_t middle = all.from + (all.to - all.from) / 2;
    round_span(s, (span){ all.from, middle });
    spread(s, (span){ all.from, middle }, (span){ middle, all.to });
    round_span(s, (span){ middle, all.to });
}

static void round_blocks(dt__row_block *s, span all)
{
    const int64_t block = s->m->options->rounding.block;
    for (int64_t j = all.from; j < all.to; j += block) {
        const span now = { j, dt__min_i64(all.to, j + dt__min_i64(block, all.to - j)) };
        spread(s, (span){ all.from, j }, now);
        round_span(s, now);
    }
}

/* Computes the scale of group g from its updated columns. */
static void refresh(dt__row_block *s, int64_t g, span columns)
{
    const dt__matrix *m = s->m;
    float *x = s->scratch;
    for (int64_t r = 0; r < s->rows; r++) {
        const int64_t at = (s->row + r) * m->grid.groups + g;
        const float *w = m->weight + (s->row + r) * m->columns;
        for (int64_t j = columns.from; j < columns.to; j++) {
            const bool kept = m->keep_zeros && w[m->order[j]] == 0;
            x[j - columns.from] = kept ? 0 : (float)s->work[j * s->rows + r];
        }
        const dt__block_scale to = { m->grid.scale + at, m->grid.inverse + at,
                                     m->grid.zero == NULL ? NULL : m->grid.zero + at };
        s->bad |= !dt__observe_block(m->ctx, m->quant, columns.to - columns.from, x, &to);
    }
    s->group = -1;
}

static bool refreshes(const dt__matrix *m)
{
    return m->options->rounding.group_scales == DT_SCALES_REFRESH;
}

size_t dt__diffuse_scratch(const dt__matrix *m, int64_t rows)
{
    (void)rows;
    return refreshes(m) ? (size_t)m->grid.group * sizeof(float) : 0;
}

void dt__diffuse(dt__row_block *s, int64_t first)
{
    const dt__matrix *m = s->m;
    if (!refreshes(m)) {
        round_blocks(s, (span){ first, m->columns });
        return;
    }
    for (int64_t g = 0, j = 0; j < m->columns; j += m->grid.group, g++) {
        const span now = { j, dt__min_i64(j + m->grid.group, m->columns) };
        spread(s, (span){ 0, j }, now);
        refresh(s, g, now);
        round_blocks(s, now);
    }
}
