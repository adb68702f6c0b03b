/* The inverse root of a positive definite matrix: U^T U = A^-1, U upper.
 *
 * With J the reversal of rows, J A J = L L^T (Cholesky) gives A = M M^T, M = J L J upper, and U =
 * M^-1 = J L^-1 J. So one factorization and one triangular inverse suffice, and A^-1 is never
 * computed; J X J has the elements of X in reverse order of memory.
 *
 * Both work in place on tiles of TILE x TILE. With k < j < i:
 *     L[i][j] = (A[i][j] - sum over k of L[i][k] L[j][k]^T) L[j][j]^-T
 *     X[i][j] = -X[i][i] (sum over k from j to i-1 of L[i][k] X[k][j]),     X = L^-1
 * A sum is one product of fixed extents, whichever thread computes it, so its bits are fixed. */
#include "kernels/products/dense64.h"

#include "core/threads.h"
#include "kernels/products/blas_library.h"

#include <math.h>
#include <string.h>

#define TILE ((int64_t)192)

void dt__dense_product(const dt__dense *p)
{
    if (p->m == 0 || p->n == 0 || p->k == 0) return;
    dt__blas.cblas_dgemm(CblasRowMajor, p->trans_a ? CblasTrans : CblasNoTrans, CblasNoTrans,
                         (int)p->m, (int)p->n, (int)p->k, p->alpha, p->a, (int)p->lda, p->b,
                         (int)p->ldb, 1, p->c, (int)p->ldc);
}

double dt__dense_dot(int64_t n, const double *x, const double *y)
{
    return dt__blas.cblas_ddot((int)n, x, 1, y, 1);
}

void dt__dense_triangle(const dt__triangle *t)
{
    if (t->n == 0 || t->columns == 0) return;
    dt__blas.cblas_dtrmm(CblasRowMajor, CblasLeft, CblasUpper,
                         t->transposed ? CblasTrans : CblasNoTrans, CblasNonUnit, (int)t->n,
                         (int)t->columns, 1, t->u, (int)t->ldu, t->x, (int)t->ldx);
}

/* The tiles of a matrix: tile (i, j) begins at row and column i, j times TILE. */
typedef struct tiles {
    int64_t n, count;
    double *x;
} tiles;

static double *at(const tiles *t, int64_t i, int64_t j) { return t->x + (i * t->n + j) * TILE; }

static int side(const tiles *t, int64_t i) { return (int)dt__min_i64(TILE, t->n - i * TILE); }

typedef struct gather_args {
    const dt__inverse_root *r;
    int64_t last;
} gather_args;

static void gather_share(const void *args, const dt__share *share)
{
    const gather_args *of = args;
    const dt__inverse_root *r = of->r;
    const int64_t last = of->last;
    for (int64_t i = share->first; i < share->past; i++) {
        const int64_t row = r->order == NULL ? last - i : r->order[last - i];
        const double *h = r->h + row * r->n;
        double *to = r->u + i * r->n;
        for (int64_t j = 0; j < i; j++) {
            to[j] = r->scale * h[r->order == NULL ? last - j : r->order[last - j]];
        }
        to[i] = (h[row] == 0 ? 1 : r->scale * h[row]) + r->add;
        const int64_t end = dt__min_i64(dt__round_up(i + 1, TILE), r->n);
        memset(to + i + 1, 0, (size_t)(end - i - 1) * sizeof *to);
    }
}

/* The lower triangle of J A J; other elements of its tiles are 0. */
static void gather(const dt__inverse_root *r)
{
    const int64_t last = r->n - 1;
    const gather_args args = { r, last };
    dt__parallel(r->n, r->n, gather_share, &args);
}

static bool factor_diagonal(const tiles *t, int64_t j)
{
    const int n = side(t, j), ld = (int)t->n;
    double *x = at(t, j, j);
    int info = 0;
    dt__blas.dpotrf_("U", &n, x, &ld, &info);
    for (int64_t i = 0; i < n; i++) {
        if (info != 0 || !isfinite(x[i * t->n + i])) return false;
        memset(x + i * t->n + i + 1, 0, (size_t)(n - i - 1) * sizeof *x);
    }
    return true;
}

typedef struct factor_args {
    const tiles *t;
    int ld, columns, before;
    int64_t j;
} factor_args;

static void factor_share(const void *args, const dt__share *share)
{
    const factor_args *of = args;
    const tiles *t = of->t;
    const int ld = of->ld, columns = of->columns, before = of->before;
    const int64_t j = of->j;
    for (int64_t k = share->first; k < share->past; k++) {
        const int64_t i = j + k;
        dt__blas.cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, side(t, i), columns, before,
                             -1, at(t, i, 0), ld, at(t, j, 0), ld, 1, at(t, i, j), ld);
    }
}

typedef struct solve_args {
    const tiles *t;
    int ld, columns;
    int64_t j;
} solve_args;

static void solve_share(const void *args, const dt__share *share)
{
    const solve_args *of = args;
    const tiles *t = of->t;
    const int ld = of->ld, columns = of->columns;
    const int64_t j = of->j;
    for (int64_t k = share->first; k < share->past; k++) {
        const int64_t i = j + 1 + k;
        dt__blas.cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit,
                             side(t, i), columns, 1, at(t, j, j), ld, at(t, i, j), ld);
    }
}

/* Computes L in place of A. */
static bool factor(const tiles *t)
{
    const int ld = (int)t->n;
    for (int64_t j = 0; j < t->count; j++) {
        const int columns = side(t, j), before = (int)(j * TILE);
        const factor_args args = { t, ld, columns, before, j };
        dt__parallel(j == 0 ? 0 : t->count - j, DT__WORTH_A_THREAD, factor_share, &args);
        if (!factor_diagonal(t, j)) return false;
        const solve_args solving = { t, ld, columns, j };
        dt__parallel(t->count - j - 1, DT__WORTH_A_THREAD, solve_share, &solving);
    }
    return true;
}

typedef struct invert_args {
    const tiles *t;
    double *room, *diagonal;
    int ld, rows;
    int64_t i, before;
} invert_args;

static void invert_share(const void *args, const dt__share *share)
{
    const invert_args *of = args;
    const tiles *t = of->t;
    double *room = of->room, *diagonal = of->diagonal;
    const int ld = of->ld, rows = of->rows;
    const int64_t i = of->i, before = of->before;
    for (int64_t j = share->first; j < share->past; j++) {
        const int columns = side(t, j);
        dt__blas.cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, columns,
                             (int)(before - j * TILE), -1, room + j * TILE, (int)before,
                             at(t, j, j), ld, 0, at(t, i, j), ld);
        dt__blas.cblas_dtrmm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, rows,
                             columns, 1, diagonal, ld, at(t, i, j), ld);
    }
}

/* Computes L^-1 in place of L; `room` holds a row of tiles. */
static void invert(const tiles *t, double *room)
{
    const int ld = (int)t->n;
    for (int64_t i = 0; i < t->count; i++) {
        const int rows = side(t, i);
        const int64_t before = i * TILE;
        double *diagonal = at(t, i, i);
        int info; /* 0, since no diagonal element is 0 */
        for (int64_t row = 0; row < rows; row++) {
            memcpy(room + row * before, at(t, i, 0) + row * t->n, (size_t)before * sizeof *room);
        }
        dt__blas.dtrtri_("U", "N", &rows, diagonal, &ld, &info);
        const invert_args args = { t, room, diagonal, ld, rows, i, before };
        dt__parallel(i, DT__WORTH_A_THREAD, invert_share, &args);
    }
}

typedef struct reverse_args {
    int64_t n;
    double *x;
} reverse_args;

static void reverse_share(const void *args, const dt__share *share)
{
    const reverse_args *of = args;
    const int64_t n = of->n;
    double *x = of->x;
    for (int64_t i = share->first; i < share->past; i++) {
        const double kept = x[i];
        x[i] = x[n - 1 - i];
        x[n - 1 - i] = kept;
    }
}

static void reverse(int64_t n, double *x)
{
    const reverse_args args = { n, x };
    dt__parallel(n / 2, 2, reverse_share, &args);
}

int64_t dt__inverse_root_room(int64_t n) { return TILE * n; }

bool dt__inverse_root_of(const dt__inverse_root *r)
{
    const tiles t = { r->n, dt__ceil_div(r->n, TILE), r->u };
    gather(r);
    if (!factor(&t)) return false;
    invert(&t, r->room);
    reverse(r->n * r->n, r->u);
    return true;
}
