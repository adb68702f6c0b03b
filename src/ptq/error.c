/* Errors of rounded rows, computed from sums over samples: H = sum Xq Xq^T, G = sum Xq X^T,
 * C = sum X X^T. With D = W - W^:
 *
 *     ||D Xq||^2        = D H D^T
 *     ||W X - W^ Xq||^2 = W C W^T - 2 W^ (G W^T) + W^ H W^^T
 *
 * Where every column's error e was diffused over all later columns, without bounds or kept zeros,
 * D (scale H + damping I) D^T is the sum of e^2.
 *
 * A quadratic form V S V^T with symmetric S is summed over blocks of rows of S, each read up to its
 * last diagonal element. All rows of a block are computed together by matrix products. */
#include "ptq/error.h"

#include "kernels/products/dense64.h"

#include <string.h>

#define BLOCK ((int64_t)128) /* rows of S at a time */

dt_status dt__error_metric_create(const dt__matrix *m, int64_t rows, bool target,
                                  dt__error_metric *y)
{
    const size_t column = (size_t)rows * sizeof(double);
    const bool differ = m->moments->g != NULL;
    if (target || differ) {
        y->target = dt__alloc_array(m->ctx, m->columns, column);
        if (y->target == NULL) return DT_ERR_NOMEM;
    }
    /* the sums of a block, and a block of unpacked rows of C */
    y->room = dt__alloc_array(m->ctx, BLOCK * (rows + (differ ? m->columns : 0)), sizeof(double));
    return y->room == NULL ? DT_ERR_NOMEM : DT_OK;
}

void dt__error_metric_free(dt_ctx *ctx, dt__error_metric *y)
{
    DT__RELEASE(ctx, y->target, y->room);
}

/* n rows of a symmetric matrix from row `first` on: [n][ld], columns up to first + n. */
typedef struct block {
    int64_t first, n;
    const double *s;
    int64_t ld;
} block;

/* out[r] += the part of V S V^T that comes from a block of S and its transpose. */
static void add_form(const dt__row_block *s, const block *b, const dt__error_metric *y, double *out)
{
    const int64_t rows = s->rows;
    double *sum = y->room;
    memset(sum, 0, (size_t)(b->n * rows) * sizeof *sum);
    dt__dense p = { .m = b->n,
                    .n = rows,
                    .k = b->first,
                    .alpha = 2,
                    .a = b->s,
                    .lda = b->ld,
                    .b = s->work,
                    .ldb = rows,
                    .c = sum,
                    .ldc = rows };
    dt__dense_product(&p);
    p.k = b->n;
    p.alpha = 1;
    p.a = b->s + b->first;
    p.b = s->work + b->first * rows;
    dt__dense_product(&p);
    for (int64_t i = 0; i < b->n; i++) {
        const double *v = s->work + (b->first + i) * rows;
        for (int64_t r = 0; r < rows; r++) out[r] += sum[i * rows + r] * v[r];
    }
}

/* out = V H V^T, where V is in s->work. */
static void form(const dt__row_block *s, const dt__error_metric *y, double *out)
{
    const dt__moments *m = s->m->moments;
    memset(out, 0, DT__BLOCK_ROWS * sizeof *out);
    for (int64_t i = 0; i < m->size; i += BLOCK) {
        const block b = { i, dt__min_i64(BLOCK, m->size - i), m->h + i * m->size, m->size };
        add_form(s, &b, y, out);
    }
}

/* out = V C V^T. Blocks on the diagonal need both triangles, and C is packed. */
static void form_of_float(const dt__row_block *s, const dt__error_metric *y, double *out)
{
    const dt__moments *m = s->m->moments;
    double *rows = y->room + BLOCK * s->rows;
    memset(out, 0, DT__BLOCK_ROWS * sizeof *out);
    for (int64_t first = 0; first < m->size; first += BLOCK) {
        const block b = { first, dt__min_i64(BLOCK, m->size - first), rows, m->size };
        for (int64_t i = 0; i < b.n; i++) {
            const int64_t row = first + i;
            memcpy(rows + i * b.ld, m->c + row * (row + 1) / 2, (size_t)(row + 1) * sizeof *rows);
            for (int64_t k = 0; k < i; k++) {
                rows[k * b.ld + row] = rows[i * b.ld + first + k];
            }
        }
        add_form(s, &b, y, out);
    }
}

void dt__error_metric_begin(const dt__row_block *s, dt__error_metric *y)
{
    const dt__moments *m = s->m->moments;
    if (y->target == NULL) return;
    dt__take_weight(s, NULL, true);
    if (m->g != NULL) form_of_float(s, y, y->square);
    memset(y->target, 0, (size_t)(m->size * s->rows) * sizeof *y->target);
    dt__dense_product(&(dt__dense){ .m = m->size,
                                    .n = s->rows,
                                    .k = m->size,
                                    .alpha = 1,
                                    .a = m->g == NULL ? m->h : m->g,
                                    .lda = m->size,
                                    .b = s->work,
                                    .ldb = s->rows,
                                    .c = y->target,
                                    .ldc = s->rows });
}

/* s->work = W^, or with `difference` W - W^, in the original order. */
static void take_codes(dt__row_block *s, const int8_t *codes, bool difference)
{
    double dequantized[DT__BLOCK_ROWS];
    if (difference) dt__take_weight(s, NULL, true);
    for (int64_t c = 0; c < s->m->columns; c++) {
        double *to = s->work + c * s->rows;
        dt__dequantize_column(s, c, codes, dequantized);
        for (int64_t r = 0; r < s->rows; r++)
            to[r] = difference ? to[r] - dequantized[r] : dequantized[r];
    }
}

void dt__error_metric_measure(dt__row_block *s, const int8_t *codes, bool sees_float_inputs,
                              dt__error_metric *y, dt__distance *out)
{
    const bool differ = s->m->moments->g != NULL;
    if (!differ || !sees_float_inputs) {
        take_codes(s, codes, true);
        form(s, y, out->own);
        memcpy(out->error, out->own, sizeof out->error);
    }
    if (!differ) return;
    take_codes(s, codes, false);
    form(s, y, out->error);
    for (int64_t i = 0; i < s->m->columns * s->rows; i += s->rows) {
        for (int64_t r = 0; r < s->rows; r++) {
            out->error[r] -= 2 * s->work[i + r] * y->target[i + r];
        }
    }
    for (int64_t r = 0; r < s->rows; r++) {
        const double square = out->error[r] + y->square[r];
        out->error[r] = square > 0 ? square : 0;
    }
    if (sees_float_inputs) memcpy(out->own, out->error, sizeof out->own);
}

/* Least share of the sum that must remain once damping is subtracted: the difference has an error
 * of about 1e-13 of the sum. */
#define LEFT 1e-3

bool dt__error_metric_sum(dt__row_block *s, const int8_t *codes, dt__distance *out)
{
    const dt__matrix *m = s->m;
    double dequantized[DT__BLOCK_ROWS], damped[DT__BLOCK_ROWS] = { 0 };
    dt__take_weight(s, NULL, false);
    for (int64_t c = 0; c < m->columns; c++) {
        const double *w = s->work + c * s->rows;
        dt__dequantize_column(s, c, codes, dequantized);
        for (int64_t r = 0; r < s->rows; r++) {
            const double d = w[r] - dequantized[r];
            damped[r] += d * d;
        }
    }
    for (int64_t r = 0; r < s->rows; r++) {
        const double left = s->square[r] - m->damping * damped[r];
        if (!(left >= LEFT * s->square[r])) return false;
        out->own[r] = out->error[r] = left / m->scale;
    }
    return true;
}
