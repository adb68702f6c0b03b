/* Qronos: rounds the exact minimizer of the first column, updates all later columns once by least
 * squares, then runs GPTQ's loop over them.
 *
 * With H = sum xq xq^T / n, G = sum xq x^T / n and columns in processing order,
 *
 *     v_0 = (W0 G[0]^T - sum of k > 0  W_k H[0][k]) / H[0][0],    q_0 = Q(v_0)
 *     V   = argmin ||W0 X - q_0 Xq_0 - V Xq_rest||^2 / n + lambda ||V - W||^2
 *         = (W0 G_rest^T + lambda W_rest - q_0 H[0][rest]) (H_rest + lambda I)^-1
 *
 * W is W0 with dead columns 0; v_0 = 0 where H[0][0] = 0. lambda = alpha sigma, where sigma is the
 * largest eigenvalue of H by STEPS power steps from ones, or an absolute number. With U^T U = (H +
 * lambda I)^-1 and U upper, U without its first row and column is the factor of (H_rest + lambda
 * I)^-1, so that one factor serves V, by two triangular products, and the loop [Zhang et al.
 * 2025]. */
#include "kernels/products/dense64.h"
#include "core/threads.h"
#include "ptq/matrix.h"

#include <math.h>
#include <string.h>

#define STEPS 30

static double dot(int64_t n, const double *x, const double *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

DT__EACH(multiply, i, const dt__moments *m; const double *x; double *y;)
{
    a.y[i] = dt__dense_dot(a.m->size, a.m->h + i * a.m->size, a.x);
}

/* y = H x. One thread sums each row, so the bits do not depend on the number of threads. */
static void multiply(const dt__moments *m, const double *x, double *y)
{
    dt__parallel(m->size, m->size, multiply_share, &(multiply_args){ m, x, y });
}

/* The largest eigenvalue of the sums, as a Rayleigh quotient. `x`, `y` [size]. */
static double largest_eigenvalue(const dt__moments *m, double *x, double *y)
{
    for (int64_t i = 0; i < m->size; i++) x[i] = 1 / sqrt((double)m->size);
    for (int step = 0; step < STEPS; step++) {
        multiply(m, x, y);
        const double length = sqrt(dot(m->size, y, y));
        if (length == 0) return 0;
        for (int64_t i = 0; i < m->size; i++) x[i] = y[i] / length;
    }
    multiply(m, x, y);
    return dot(m->size, x, y);
}

static dt_status find_damping(dt__matrix *m)
{
    const dt_rounding *r = &m->options->rounding;
    m->damping = r->damping_absolute;
    if (m->damping > 0) return DT_OK;
    double *room = dt__alloc_array(m->ctx, m->columns, 2 * sizeof *room);
    if (room == NULL) return DT_ERR_NOMEM;
    dt__team *const threads = dt__threads_enter(m->ctx);
    const double sigma = largest_eigenvalue(m->moments, room, room + m->columns);
    dt__threads_leave(threads);
    dt__release(m->ctx, room);
    m->damping_share = r->alpha;
    m->damping = r->alpha * sigma / (double)m->moments->n;
    return DT_OK;
}

static dt_status prepare(dt__matrix *m)
{
    DT__TRY(find_damping(m));
    const double share = m->damping_share, damping = m->damping;
    for (double times = 1; times <= 100; times *= 10) {
        m->damping_share = times * share;
        m->damping = times * damping;
        DT__TRY(dt__make_factor(m, 1 / (double)m->moments->n, m->damping));
        if (m->factor != NULL) return DT_OK;
        if (share == 0 || damping == 0) break; /* absolute damping is not increased */
    }
    m->damping_share = m->damping = 0;
    m->fallback = true;
    return DT_OK;
}

/* Scratch memory for q_0, in bytes. */
static size_t scratch(const dt__matrix *m, int64_t rows)
{
    (void)m;
    return (size_t)rows * sizeof(double);
}

/* Computes v_0, with all other columns at W, and rounds it to q_0. */
static void round_first(dt__row_block *s, double *dequantized)
{
    const dt__matrix *m = s->m;
    const int64_t rows = s->rows, first = m->order[0];
    const double *h = m->moments->h + first * m->columns, norm = h[first];
    double *v = s->work;
    memcpy(v, s->target + first * rows, (size_t)rows * sizeof *v);
    for (int64_t j = 1; j < m->columns; j++) {
        const double *w = s->work + j * rows, factor = h[m->order[j]];
        for (int64_t r = 0; r < rows; r++) v[r] -= factor * w[r];
    }
    for (int64_t r = 0; r < rows; r++) v[r] = norm == 0 ? 0 : v[r] / norm;
    dt__choose(s, 0, v, dequantized);
}

/* Replaces W by V in all columns but the first. */
static void solve(dt__row_block *s, const double *dequantized)
{
    const dt__matrix *m = s->m;
    const int64_t rows = s->rows, rest = m->columns - 1;
    const double *h = m->moments->h + m->order[0] * m->columns;
    const double share = 1 / (double)m->moments->n;
    for (int64_t j = 1; j <= rest; j++) {
        const int64_t column = m->order[j];
        const double *target = s->target + column * rows, first = h[column];
        double *w = s->work + j * rows;
        for (int64_t r = 0; r < rows; r++) {
            w[r] = share * (target[r] - first * dequantized[r]) + m->damping * w[r];
        }
    }
    dt__triangle t = { .n = rest,
                       .columns = rows,
                       .u = m->factor + m->columns + 1,
                       .ldu = m->columns,
                       .x = s->work + rows,
                       .ldx = rows };
    dt__dense_triangle(&t);
    t.transposed = true;
    dt__dense_triangle(&t);
}

static void round_rows(dt__row_block *s)
{
    double *dequantized = s->scratch;
    if (s->m->columns == 0) return;
    round_first(s, dequantized);
    solve(s, dequantized);
    dt__diffuse(s, 1);
}

const dt__rounder dt__round_qronos = {
    .reads = DT__READS_DATA | DT__READS_DAMPING_ABSOLUTE | DT__READS_ALPHA | DT__READS_BLOCK,
    .needs_float = true,
    .scratch = scratch,
    .prepare = prepare,
    .round = round_rows,
};
