#include "ptq/rotate/rotate_learn.h"

#include "core/tensor.h"
#include "kernels/products/dense64.h"

#include <math.h>
#include <string.h>

#define MOST_STEPS 200
#define FIRST_TURN 0.2  /* first step: root mean square of the angles of axes, in radians */
#define LEAST_TURN 1e-4 /* stops at a smaller step, */
#define LEAST_GAIN 1e-4 /* or at one that lowers the mean by a smaller fraction */

typedef struct work {
    int64_t rows, n;
    const double *x;
    double *r, *next;  /* [n][n]: the matrix, and that after the step that is tried */
    double *a, *b, *u; /* [n][n] */
    double *y;         /* [rows][n] */
    double *room;      /* scratch memory of dt__inverse_root */
} work;

/* c += alpha op(a) b of matrices of n columns. */
static void multiply(int64_t m, int64_t n, int64_t k, bool trans_a, double alpha, const double *a,
                     const double *b, double *c)
{
    dt__dense_product(&(dt__dense){ .m = m,
                                    .n = n,
                                    .k = k,
                                    .alpha = alpha,
                                    .trans_a = trans_a,
                                    .a = a,
                                    .lda = trans_a ? m : k,
                                    .b = b,
                                    .ldb = n,
                                    .c = c,
                                    .ldc = n });
}

static void clear(double *x, int64_t count) { memset(x, 0, (size_t)count * sizeof *x); }

/* The mean of (x r)^4; y = x r. */
static double mean_of(work *w, const double *r)
{
    const int64_t count = w->rows * w->n;
    double sum = 0;
    clear(w->y, count);
    multiply(w->rows, w->n, w->n, false, 1, w->x, r, w->y);
    for (int64_t i = 0; i < count; i++) sum += w->y[i] * w->y[i] * w->y[i] * w->y[i];
    return sum / (double)count;
}

/* a = B - B^T, from y = x r, which becomes y^3; returns the root of the mean over rows of |a|^2. */
static double find_direction(work *w)
{
    const int64_t n = w->n, count = w->rows * n;
    double sum = 0;
    for (int64_t i = 0; i < count; i++) w->y[i] *= w->y[i] * w->y[i];
    clear(w->u, n * n);
    clear(w->b, n * n);
    multiply(n, n, w->rows, true, 4 / (double)count, w->x, w->y, w->u);
    multiply(n, n, n, true, 1, w->r, w->u, w->b);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            const double d = w->b[i * n + j] - w->b[j * n + i];
            w->a[i * n + j] = d;
            sum += d * d;
        }
    }
    return sqrt(sum / (double)n);
}

static void transpose(int64_t n, const double *x, double *to)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) to[j * n + i] = x[i * n + j];
    }
}

/* next = the orthogonal factor of M = r (I - s A): with U^T U = (M^T M)^-1, next^T = U M^T. Since A
 * is skew, M^T M = I + s^2 A^T A and M^T = (I + s A) r^T. */
static bool try_step(work *w, double s)
{
    const int64_t n = w->n;
    clear(w->next, n * n);
    for (int64_t i = 0; i < n; i++) w->next[i * n + i] = 1;
    multiply(n, n, n, true, s * s, w->a, w->a, w->next);
    const dt__inverse_root root = { .n = n, .h = w->next, .scale = 1, .u = w->u, .room = w->room };
    if (!dt__inverse_root_of(&root)) return false;
    transpose(n, w->r, w->next);
    memcpy(w->b, w->next, (size_t)(n * n) * sizeof *w->b);
    multiply(n, n, n, false, s, w->a, w->next, w->b);
    dt__dense_triangle(
        &(dt__triangle){ .n = n, .columns = n, .u = w->u, .ldu = n, .x = w->b, .ldx = n });
    transpose(n, w->b, w->next);
    return true;
}

static void descend(work *w, double *before, double *after)
{
    double turn = FIRST_TURN, now = mean_of(w, w->r);
    *before = now;
    for (int step = 0; step < MOST_STEPS && turn >= LEAST_TURN; step++) {
        const double size = find_direction(w);
        double then = now;
        bool lower = false;
        while (size > 0 && turn >= LEAST_TURN && !lower) {
            lower = try_step(w, turn / size) && (then = mean_of(w, w->next)) < now;
            turn *= lower ? 1.5 : 0.5;
        }
        if (!lower) break;
        memcpy(w->r, w->next, (size_t)(w->n * w->n) * sizeof *w->r);
        const bool done = now - then < LEAST_GAIN * now;
        now = then;
        if (done) break;
    }
    *after = now;
}

dt_status dt__rotation_learn(dt_ctx *ctx, int64_t rows, int64_t n, const double *x, double *r,
                             double *before, double *after)
{
    work w = { .rows = rows, .n = n, .x = x, .r = r };
    w.next = dt__alloc_array(ctx, n * n, sizeof *w.next);
    w.a = dt__alloc_array(ctx, n * n, sizeof *w.a);
    w.b = dt__alloc_array(ctx, n * n, sizeof *w.b);
    w.u = dt__alloc_array(ctx, n * n, sizeof *w.u);
    w.y = dt__alloc_array(ctx, rows * n, sizeof *w.y);
    w.room = dt__alloc_array(ctx, dt__inverse_root_room(n), sizeof *w.room);
    const bool room = w.next != NULL && w.a != NULL && w.b != NULL && w.u != NULL && w.y != NULL &&
                      w.room != NULL;
    if (room) descend(&w, before, after);
    DT__RELEASE(ctx, w.next, w.a, w.b, w.u, w.y, w.room);
    return room ? DT_OK : DT_ERR_NOMEM;
}
