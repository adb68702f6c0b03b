/* linear on codes.
 *
 *     both operands offer codes that an integer product takes    y by numerics §2
 *     else                                                       y = x^ W^^T + b, fp32
 *     backward                                                   dx = dy W^      dw = dy^T x^
 *
 * Images never exist whole: a tile of at most 512 KiB of codes is expanded into scratch just before
 * the product that reads it. An operand without codes is one tile, in place. */
#include "ops/linear_codes.h"

typedef struct dt__sides {
    int64_t m, n, k;
    const dt__codes *x, *w;        /* NULL: a value */
    const void *x_value, *w_value; /* [m, k], [n, k] */
    dt_dtype dtype;
} sides;

static sides sides_of(const dt_call *c)
{
    const dt_tensor *x = c->arg[0], *w = c->arg[1];
    return (sides){ .m = dt__rows(x),
                    .n = w->dims[0],
                    .k = w->dims[1],
                    .x = c->codes[0],
                    .w = c->codes[1],
                    .x_value = dt__data(x),
                    .w_value = dt__data(w),
                    .dtype = x->dtype };
}

static size_t floats(int64_t a, int64_t b) { return (size_t)(a * b) * sizeof(float); }

/* ---- forward: tiles of whole rows of x and of W ---------------------------------------------- */

static int64_t rows_of_tile(const dt__codes *codes, int64_t rows, int64_t k)
{
    return codes == NULL ? rows : dt__min_i64(rows, dt__tile_extent(k));
}

size_t dt__linear_forward_scratch(const dt_call *c)
{
    const sides s = sides_of(c);
    if (!c->coded || dt__codes_multiply(s.x, s.w)) return 0;
    size_t bytes = 0;
    if (s.x != NULL) bytes += floats(rows_of_tile(s.x, s.m, s.k), s.k);
    if (s.w != NULL) bytes += floats(rows_of_tile(s.w, s.n, s.k), s.k);
    return bytes;
}

/* Rows r0 ... r1-1 of an operand: in place, or expanded into `scratch`. */
static const float *rows(const dt__codes *codes, const void *value, const dt__image_tile *tile)
{
    if (codes == NULL) return (const float *)value + tile->r0 * tile->ldy;
    dt__codes_expand(codes, tile);
    return tile->y;
}

static void forward_expanded(const dt_call *c, const sides *s, float *y)
{
    const int64_t step_m = dt__max_i64(1, rows_of_tile(s->x, s->m, s->k));
    const int64_t step_n = dt__max_i64(1, rows_of_tile(s->w, s->n, s->k));
    float *x_scratch = c->scratch;
    float *w_scratch = x_scratch + (s->x != NULL ? step_m * s->k : 0);
    for (int64_t m = 0; m < s->m; m += step_m) {
        const int64_t m1 = dt__min_i64(s->m, m + step_m);
        const float *x =
            rows(s->x, s->x_value, &(dt__image_tile){ m, m1, 0, s->k, x_scratch, s->k });
        for (int64_t n = 0; n < s->n; n += step_n) {
            const int64_t n1 = dt__min_i64(s->n, n + step_n);
            const float *w =
                rows(s->w, s->w_value, &(dt__image_tile){ n, n1, 0, s->k, w_scratch, s->k });
            c->kernels->gemm(&(dt__gemm){ .trans_b = true,
                                          .m = m1 - m,
                                          .n = n1 - n,
                                          .k = s->k,
                                          .a = x,
                                          .lda = s->k,
                                          .b = w,
                                          .ldb = s->k,
                                          .c = y + m * s->n + n,
                                          .ldc = s->n });
        }
    }
}

bool dt__linear_product_codes(const dt_call *c, const float *bias, float *y)
{
    const sides s = sides_of(c);
    const bool integer = dt__codes_multiply(s.x, s.w);
    if (integer) dt__codes_product(s.x, s.w, bias, y);
    else forward_expanded(c, &s, y);
    return integer;
}

/* ---- backward: tiles of columns, along k ----------------------------------------------------- */

static int64_t columns_of_tile(int64_t other, int64_t k)
{
    return dt__max_i64(1, dt__min_i64(k, dt__tile_extent(other)));
}

size_t dt__linear_backward_scratch(const dt_call *c)
{
    const sides s = sides_of(c);
    const size_t w = s.w != NULL && c->wants[0] ? floats(columns_of_tile(s.n, s.k), s.n) : 0;
    const size_t x = s.x != NULL && c->wants[1] ? floats(columns_of_tile(s.m, s.k), s.m) : 0;
    return w > x ? w : x;
}

typedef struct dt__side {
    const dt__codes *codes;
    const void *value;
    int64_t rows;
} side;

/* out[:, k] = op(dy) side[:, k]: the product along the rows of one side, whose columns are k. */
static void backward(const dt_call *c, const sides *s, const side *b, dt__gemm g)
{
    if (b->codes == NULL) {
        g.n = s->k;
        g.b = b->value;
        g.ldb = s->k;
        c->kernels->gemm(&g);
        return;
    }
    const int64_t step = columns_of_tile(b->rows, s->k);
    float *out = g.c;
    for (int64_t k = 0; k < s->k; k += step) {
        g.n = dt__min_i64(step, s->k - k);
        dt__codes_expand(b->codes, &(dt__image_tile){ 0, b->rows, k, k + g.n, c->scratch, g.n });
        g.b = c->scratch;
        g.ldb = g.n;
        g.c = out + k;
        c->kernels->gemm(&g);
    }
}

void dt__linear_backward_x(const dt_call *c, const void *dy, void *dx)
{
    const sides s = sides_of(c);
    backward(c, &s, &(side){ s.w, s.w_value, s.n },
             (dt__gemm){ .m = s.m, .k = s.n, .a = dy, .lda = s.n, .c = dx, .ldc = s.k });
}

void dt__linear_backward_w(const dt_call *c, const void *dy, void *dw)
{
    const sides s = sides_of(c);
    backward(c, &s, &(side){ s.x, s.x_value, s.m },
             (dt__gemm){
                 .trans_a = true, .m = s.n, .k = s.m, .a = dy, .lda = s.n, .c = dw, .ldc = s.k });
}
