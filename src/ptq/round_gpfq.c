/* GPFQ: chooses the codes column by column; each compensates the error of all earlier columns.
 *
 *     v_t = (sum of s <= t  W0_s G[t][s]  -  sum of s < t  q_s H[t][s]) / H[t][t],    q_t = Q(v_t)
 *
 * with H = sum xq xq^T, G = sum xq x^T, and columns counted in processing order; v_t = 0 where
 * H[t][t] = 0. W0 keeps columns that are dead in Xq: X may be alive there. No inverse, no damping
 * [Lybrand & Saab 2021, in the form of sums].
 *
 * The sums over columns before a block are matrix products with the block's rows of H and G, in
 * processing order. Within a block the same is done for each part; within a part, for each column.
 * */
#include "kernels/products/dense64.h"
#include "ptq/matrix.h"

#include <string.h>

#define BLOCK 128
#define PART 16

/* The buffers of a block of rows, and its current block of columns. */
typedef struct part {
    dt__row_block *s;
    double *less; /* [columns][rows]: -q, in processing order */
    /* [BLOCK][columns]: for h and g, where the processing order is not the columns' own */
    double *room[2];
    int64_t from;        /* the first column of the block */
    const double *h, *g; /* [BLOCK][columns]: the block's rows of H and G, columns up to its end */
    double *sum;         /* [BLOCK][rows]: arguments of a block, complete or partial sums */
} part;

static bool is_permuted(const dt__matrix *m) { return m->options->rounding.order != DT_ORDER_NONE; }

static size_t scratch(const dt__matrix *m, int64_t rows)
{
    const int64_t gathered = is_permuted(m) ? 2 * BLOCK * m->columns : 0;
    return (size_t)(m->columns * rows + gathered + BLOCK * rows) * sizeof(double);
}

static part part_of(dt__row_block *s)
{
    const int64_t columns = s->m->columns;
    part p = { .s = s, .less = s->scratch };
    p.sum = p.less + columns * s->rows;
    p.room[0] = p.sum + BLOCK * s->rows;
    p.room[1] = p.room[0] + BLOCK * columns;
    return p;
}

/* Restores W0 in dead columns, where work has 0. */
static void take_weight(const dt__row_block *s)
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

/* Rows from ... to - 1 of moments, and of these the columns before `to`, both in processing
 * order. */
static const double *rows_of(const dt__matrix *m, const double *moments, int64_t from, int64_t to,
                             double *room)
{
    if (!is_permuted(m)) return moments + from * m->columns;
    double *out = room;
    for (int64_t t = from; t < to; t++, out += m->columns) {
        const double *row = moments + m->order[t] * m->columns;
        for (int64_t k = 0; k < to; k++) out[k] = row[m->order[k]];
    }
    return room;
}

typedef struct span {
    int64_t from, to;
} span;

/* Adds to the sums of columns `to` of the block the product of a's rows with values, over columns
 * `of`. */
static void add_product(const part *p, span to, span of, const double *a, const double *values)
{
    const int64_t rows = p->s->rows, columns = p->s->m->columns, first = to.from - p->from;
    dt__dense_product(&(dt__dense){ .m = to.to - to.from,
                                    .n = rows,
                                    .k = of.to - of.from,
                                    .alpha = 1,
                                    .a = a + first * columns + of.from,
                                    .lda = columns,
                                    .b = values + of.from * rows,
                                    .ldb = rows,
                                    .c = p->sum + first * rows,
                                    .ldc = rows });
}

/* v += sum of coefficient[k] * values[k] over columns `of`. */
static void add_columns(const part *p, span of, const double *coefficient, const double *values,
                        double *v)
{
    for (int64_t k = of.from; k < of.to; k++) {
        const double *x = values + k * p->s->rows;
        for (int64_t r = 0; r < p->s->rows; r++) v[r] += coefficient[k] * x[r];
    }
}

/* Rounds column t, where only the terms of columns `first` ... t are missing from the sums. */
static void round_column(const part *p, int64_t first, int64_t t)
{
    dt__row_block *s = p->s;
    const int64_t rows = s->rows, row = (t - p->from) * s->m->columns;
    const double norm = p->h[row + t];
    double *v = p->sum + (t - p->from) * rows, *less = p->less + t * rows;
    add_columns(p, (span){ first, t + 1 }, p->g + row, s->work, v);
    add_columns(p, (span){ first, t }, p->h + row, p->less, v);
    for (int64_t r = 0; r < rows; r++) v[r] = norm == 0 ? 0 : v[r] / norm;
    dt__choose(s, t, v, less);
    for (int64_t r = 0; r < rows; r++) less[r] = -less[r];
}

static void round_block(part *p, span block)
{
    const dt__matrix *m = p->s->m;
    const dt__moments *x = m->moments;
    p->from = block.from;
    p->h = rows_of(m, x->h, block.from, block.to, p->room[0]);
    p->g = x->g == NULL ? p->h : rows_of(m, x->g, block.from, block.to, p->room[1]);
    memset(p->sum, 0, (size_t)((block.to - block.from) * p->s->rows) * sizeof *p->sum);
    add_product(p, block, (span){ 0, block.from }, p->g, p->s->work);
    add_product(p, block, (span){ 0, block.from }, p->h, p->less);
    for (int64_t j = block.from; j < block.to; j += PART) {
        const span now = { j, dt__min_i64(j + PART, block.to) };
        add_product(p, now, (span){ block.from, j }, p->g, p->s->work);
        add_product(p, now, (span){ block.from, j }, p->h, p->less);
        for (int64_t t = now.from; t < now.to; t++) round_column(p, j, t);
    }
}

static void round_rows(dt__row_block *s)
{
    part p = part_of(s);
    const int64_t columns = s->m->columns;
    take_weight(s);
    for (int64_t from = 0; from < columns; from += BLOCK) {
        round_block(&p, (span){ from, dt__min_i64(from + BLOCK, columns) });
    }
}

const dt__rounder dt__round_gpfq = {
    .reads = DT__READS_DATA,
    .needs_float = true,
    .scratch = scratch,
    .round = round_rows,
};
