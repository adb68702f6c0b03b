/* GPFQ: column by column, the code nearest to what makes up for everything so far.
 *
 *     v_t = (sum of s <= t  W0_s G[t][s]  -  sum of s < t  q_s H[t][s]) / H[t][t],    q_t = Q(v_t)
 *
 * with H = sum xq xq^T, G = sum xq x^T, and columns counted in processing order; v_t = 0 where
 * H[t][t] = 0. W0 keeps columns that are dead in Xq: X may be alive there. No inverse, no damping
 * [Lybrand & Saab 2021, in the form of sums].
 *
 * A block of columns at a time takes what came before it by matrix products with the block's rows of
 * H and G, gathered in processing order; within the block columns follow each other. */
#include "kernels/kernels.h"
#include "ptq/matrix.h"

#define BLOCK 64

/* Where a strip's parts lie. */
typedef struct part {
    dt__strip *s;
    double *less;  /* [columns][rows]: -q, in processing order */
    double *h, *g; /* [BLOCK][columns]: rows of a block, columns up to its end */
    double *sum;   /* [BLOCK][rows]: arguments of a block, or what is known of them */
} part;

static size_t scratch(const dt__matrix *m, int64_t rows)
{
    return (size_t)(m->columns * rows + 2 * BLOCK * m->columns + BLOCK * rows) * sizeof(double);
}

static part part_of(dt__strip *s)
{
    const int64_t columns = s->m->columns;
    part p = { .s = s, .less = s->scratch };
    p.h = p.less + columns * s->rows;
    p.g = p.h + BLOCK * columns;
    p.sum = p.g + BLOCK * columns;
    return p;
}

/* W0 as it was: the strip's work has 0 in dead columns. */
static void take_weight(const dt__strip *s)
{
    const dt__matrix *m = s->m;
    for (int64_t j = 0; j < m->columns; j++) {
        const int64_t column = m->order[j];
        if (!m->dead[column]) continue;
        for (int64_t r = 0; r < s->rows; r++) {
            s->work[j * s->rows + r] = (double)m->weight[(s->row + r) * m->columns + column];
        }
    }
}

/* Rows from ... to - 1 of moments, and of these the columns before `to`. */
static void gather(const part *p, const double *moments, int64_t from, int64_t to, double *out)
{
    const dt__matrix *m = p->s->m;
    for (int64_t t = from; t < to; t++, out += m->columns) {
        const double *row = moments + m->order[t] * m->columns;
        for (int64_t k = 0; k < to; k++) out[k] = row[m->order[k]];
    }
}

/* p->sum += the block's first n columns of a, times n columns of values. */
static void add_product(const part *p, int64_t block, int64_t n, const double *a,
                        const double *values)
{
    const dt__gemm g = { .m = block,
                         .n = p->s->rows,
                         .k = n,
                         .a = a,
                         .lda = p->s->m->columns,
                         .b = values,
                         .ldb = p->s->rows,
                         .accumulate = true,
                         .c = p->sum,
                         .ldc = p->s->rows };
    dt__kernels_of(p->s->m->ctx, DT_F64)->gemm(&g);
}

/* v += sum of coefficient[k] * values[k] for from <= k < to. */
static void add_columns(const part *p, int64_t from, int64_t to, const double *coefficient,
                        const double *values, double *v)
{
    for (int64_t k = from; k < to; k++) {
        const double *x = values + k * p->s->rows;
        for (int64_t r = 0; r < p->s->rows; r++) v[r] += coefficient[k] * x[r];
    }
}

/* Column t of the block that begins at `from`. */
static void round_column(const part *p, int64_t from, int64_t t)
{
    dt__strip *s = p->s;
    const int64_t rows = s->rows, row = (t - from) * s->m->columns;
    const double norm = p->h[row + t];
    double *v = p->sum + (t - from) * rows, *less = p->less + t * rows;
    add_columns(p, from, t + 1, p->g + row, s->work, v);
    add_columns(p, from, t, p->h + row, p->less, v);
    for (int64_t r = 0; r < rows; r++) v[r] = norm == 0 ? 0 : v[r] / norm;
    dt__choose(s, t, v, less);
    for (int64_t r = 0; r < rows; r++) less[r] = -less[r];
}

static void round_block(const part *p, int64_t from, int64_t to)
{
    const dt__moments *x = p->s->m->moments;
    gather(p, x->h, from, to, p->h);
    gather(p, x->g == NULL ? x->h : x->g, from, to, p->g);
    for (int64_t i = 0; i < (to - from) * p->s->rows; i++) p->sum[i] = 0;
    add_product(p, to - from, from, p->g, p->s->work);
    add_product(p, to - from, from, p->h, p->less);
    for (int64_t t = from; t < to; t++) round_column(p, from, t);
}

static void round_strip(dt__strip *s)
{
    const part p = part_of(s);
    const int64_t columns = s->m->columns;
    take_weight(s);
    for (int64_t from = 0; from < columns; from += BLOCK) {
        round_block(&p, from, dt__min_i64(from + BLOCK, columns));
    }
}

const dt__rounder dt__round_gpfq = {
    .name = "gpfq",
    .needs_data = true,
    .needs_float = true,
    .scratch = scratch,
    .round = round_strip,
};
