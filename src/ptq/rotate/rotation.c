#include "ptq/rotate/rotation.h"

#include "core/threads.h"
#include "kernels/products/dense64.h"

#include <math.h>
#include <string.h>

/* Element (i, j) of the orthonormal DCT-II of order m: frequency i at position j. */
static double dct(int64_t m, int64_t i, int64_t j)
{
    const double pi = acos(-1.0), size = (double)m;
    return sqrt((i == 0 ? 1 : 2) / size) * cos(pi * (double)((2 * j + 1) * i) / (2 * size));
}

void dt__rotation_draw(int64_t n, dt__stream *stream, double *r)
{
    const int64_t order = n & -n, m = n / order;
    const double scale = 1 / sqrt((double)order);
    for (int64_t i = 0; i < n; i++) {
        const double sign = dt__random_below(stream, 2) == 0 ? scale : -scale;
        for (int64_t j = 0; j < n; j++) {
            const bool odd = __builtin_parityll((uint64_t)(i % order & j % order)) != 0;
            r[i * n + j] = (odd ? -sign : sign) * dct(m, i / order, j / order);
        }
    }
}

#define BLOCK ((int64_t)64) /* rows or columns of a product */

/* Cost of a block for dt__parallel: n times BLOCK elements, n multiply-adds each. */
static int64_t work_of(int64_t n)
{
    return dt__max_i64(1, dt__times_i64(BLOCK * n, n) / DT__FLOAT_PRODUCTS);
}

typedef struct product {
    const dt__part *x;
    const float *gain;
    const double *r;
    double *room; /* two blocks for each thread */
} product;

static void columns_of_block(const product *p, int64_t first, double *from, double *to)
{
    const int64_t n = p->x->columns, rows = dt__min_i64(BLOCK, p->x->rows - first);
    for (int64_t i = 0; i < rows; i++) {
        const float *x = p->x->x + (first + i) * p->x->pitch;
        for (int64_t j = 0; j < n; j++) {
            from[i * n + j] = (double)x[j] * (p->gain == NULL ? 1 : (double)p->gain[j]);
        }
    }
    memset(to, 0, (size_t)(rows * n) * sizeof *to);
    dt__dense_product(&(dt__dense){ .m = rows,
                                    .n = n,
                                    .k = n,
                                    .alpha = 1,
                                    .a = from,
                                    .lda = n,
                                    .b = p->r,
                                    .ldb = n,
                                    .c = to,
                                    .ldc = n });
    for (int64_t i = 0; i < rows; i++) {
        float *x = p->x->x + (first + i) * p->x->pitch;
        for (int64_t j = 0; j < n; j++) x[j] = (float)to[i * n + j];
    }
}

static void rows_of_block(const product *p, int64_t first, double *from, double *to)
{
    const int64_t n = p->x->rows, columns = dt__min_i64(BLOCK, p->x->columns - first);
    for (int64_t i = 0; i < n; i++) {
        const float *x = p->x->x + i * p->x->pitch + first;
        for (int64_t j = 0; j < columns; j++) from[i * columns + j] = (double)x[j];
    }
    memset(to, 0, (size_t)(n * columns) * sizeof *to);
    dt__dense_product(&(dt__dense){ .m = n,
                                    .n = columns,
                                    .k = n,
                                    .alpha = 1,
                                    .trans_a = true,
                                    .a = p->r,
                                    .lda = n,
                                    .b = from,
                                    .ldb = columns,
                                    .c = to,
                                    .ldc = columns });
    for (int64_t i = 0; i < n; i++) {
        float *x = p->x->x + i * p->x->pitch + first;
        for (int64_t j = 0; j < columns; j++) x[j] = (float)to[i * columns + j];
    }
}

#define DT__TURN(side, extent)                                                                     \
    static void side##_share(const void *args, const dt__share *share)                             \
    {                                                                                              \
        const product *p = args;                                                                   \
        const int64_t size = BLOCK * p->x->extent;                                                 \
        double *room = p->room + 2 * size * share->thread;                                         \
        for (int64_t i = share->first; i < share->past; i++) {                                     \
            side##_of_block(p, i *BLOCK, room, room + size);                                       \
        }                                                                                          \
    }
DT__TURN(columns, columns)
DT__TURN(rows, rows)

/* Runs a loop over blocks of BLOCK of `extent` rows or columns; n is the rotation's order. */
static dt_status run(dt_ctx *ctx, int64_t extent, int64_t n, dt__loop *body, product *p)
{
    int64_t room;
    const int64_t dims[] = { dt__threads(), 2 * BLOCK, n };
    if (!dt__product(3, dims, &room)) return dt_fail(ctx, DT_ERR_NOMEM, "rotate: too large");
    p->room = dt__alloc_array(ctx, room, sizeof *p->room);
    if (p->room == NULL) return DT_ERR_NOMEM;
    dt__parallel(dt__ceil_div(extent, BLOCK), work_of(n), body, p);
    dt__release(ctx, p->room);
    return DT_OK;
}

dt_status dt__rotate_columns(dt_ctx *ctx, const dt__part *x, const float *gain, const double *r)
{
    return run(ctx, x->rows, x->columns, columns_share, &(product){ x, gain, r, NULL });
}

dt_status dt__rotate_rows(dt_ctx *ctx, const dt__part *x, const double *r)
{
    return run(ctx, x->columns, x->rows, rows_share, &(product){ x, NULL, r, NULL });
}
