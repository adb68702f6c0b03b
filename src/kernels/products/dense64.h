/* Dense linear algebra in double, by OpenBLAS and LAPACK, row-major. Products run on the calling
 * thread; threads share the inverse root by a grid that depends on the size alone, so its bits do
 * not depend on their number. */
#ifndef DT__KERNELS_DENSE64_H
#define DT__KERNELS_DENSE64_H

#include "core/core.h"

/* c += alpha op(a) b: op(a) [m, k], stored as [k, m] if transposed; b [k, n]. */
typedef struct dt__dense {
    int64_t m, n, k;
    double alpha;
    bool trans_a;
    const double *a;
    int64_t lda;
    const double *b;
    int64_t ldb;
    double *c;
    int64_t ldc;
} dt__dense;

void dt__dense_product(const dt__dense *p);
double dt__dense_dot(int64_t n, const double *x, const double *y);

/* x = u x, or u^T x, in place: x [n][columns]; u [n][n] upper; elements below its diagonal are not
 * read. */
typedef struct dt__triangle {
    int64_t n, columns;
    bool transposed;
    const double *u;
    int64_t ldu;
    double *x;
    int64_t ldx;
} dt__triangle;

void dt__dense_triangle(const dt__triangle *t);

/* U, upper, of U^T U = A^-1, where
 *     A[i][j] = scale h[order[i]][order[j]] + (i = j) add,
 *         a 0 on the diagonal of h as 1 / scale. */
typedef struct dt__inverse_root {
    int64_t n;
    const double *h;      /* [n][n], symmetric */
    const int32_t *order; /* [n], a permutation; NULL: 0 ... n-1 */
    double scale, add;
    double *u;    /* [n][n]; elements below the diagonal are undefined */
    double *room; /* dt__inverse_root_room elements */
} dt__inverse_root;

int64_t dt__inverse_root_room(int64_t n);
/* False if A is not positive definite. */
bool dt__inverse_root_of(const dt__inverse_root *r);

#endif
