/* linear on codes.
 *
 *     both operands offer codes that an integer product takes    y by numerics §2
 *     few rows of values, and codes of W without zero points     the same
 *     else                                                       y = x^ W^^T + b, fp32
 *     backward                                                   dx = dy W^      dw = dy^T x^
 *
 * Images never exist whole: an operand that is codes is a source of the fp32 product, which expands
 * a block of them just before it reads it. */
#include "ops/linear_codes.h"

static void expand(const void *codes, const dt__patch *block) { dt__codes_expand(codes, block); }

/* One of the three products, and the sources that it points to. */
typedef struct codes_gemm {
    dt__gemm g;
    dt__source a, b;
} codes_gemm;

/* What an operand of `c` is: codes, or a value. */
static const dt__source *source_of(const dt_call *c, int i, dt__source *source)
{
    *source = (dt__source){ expand, c->codes[i] };
    return c->codes[i] != NULL ? source : NULL;
}

/* y [m, n] = x [m, k] W^T, W being [n, k]. */
static void make_forward(const dt_call *c, codes_gemm *p)
{
    const dt_tensor *x = c->arg[0], *w = c->arg[1];
    const int64_t n = w->dims[0], k = w->dims[1];
    p->g = (dt__gemm){ .trans_b = true,
                       .m = dt__rows(x),
                       .n = n,
                       .k = k,
                       .a = dt__data(x),
                       .lda = k,
                       .b = dt__data(w),
                       .ldb = k,
                       .ldc = n };
    p->g.a_source = source_of(c, 0, &p->a);
    p->g.b_source = source_of(c, 1, &p->b);
    p->g.scratch = c->scratch;
}

/* dx [m, k] = dy W */
static void make_backward_x(const dt_call *c, codes_gemm *p)
{
    const dt_tensor *w = c->arg[1];
    const int64_t n = w->dims[0], k = w->dims[1];
    p->g = (dt__gemm){
        .m = dt__rows(c->arg[0]), .n = k, .k = n, .lda = n, .b = dt__data(w), .ldb = k, .ldc = k
    };
    p->g.b_source = source_of(c, 1, &p->b);
    p->g.scratch = c->scratch;
}

/* dw [n, k] = dy^T x */
static void make_backward_w(const dt_call *c, codes_gemm *p)
{
    const dt_tensor *x = c->arg[0], *w = c->arg[1];
    const int64_t n = w->dims[0], k = w->dims[1];
    p->g = (dt__gemm){ .trans_a = true,
                       .m = n,
                       .n = k,
                       .k = dt__rows(x),
                       .lda = n,
                       .b = dt__data(x),
                       .ldb = k,
                       .ldc = k };
    p->g.b_source = source_of(c, 0, &p->b);
    p->g.scratch = c->scratch;
}

static size_t scratch_of(const dt_call *c, const codes_gemm *p)
{
    return dt__gemm_scratch(&p->g, sizeof(float), dt_threads(c->ctx));
}

/* Whether few rows of values meet codes. */
static bool is_few(const dt_call *c)
{
    return c->codes[0] == NULL && dt__codes_multiply_floats(dt__rows(c->arg[0]), c->codes[1]);
}

size_t dt__linear_forward_scratch(const dt_call *c)
{
    const dt__codes *x = c->codes[0], *w = c->codes[1];
    if (!c->coded) return 0;
    if (dt__codes_multiply(x, w)) return dt__codes_product_room(x, w);
    if (is_few(c)) return dt__codes_floats_room(dt__rows(c->arg[0]), w);
    codes_gemm p;
    make_forward(c, &p);
    return scratch_of(c, &p);
}

bool dt__linear_product_codes(const dt_call *c, const float *bias, float *y)
{
    if (dt__codes_multiply(c->codes[0], c->codes[1])) {
        const dt__codes_weight w = { c->codes[1], bias, y };
        dt__codes_product(&(dt__codes_products){ c->codes[0], 1, &w, c->scratch });
        return true;
    }
    if (is_few(c)) {
        const dt_tensor *x = c->arg[0];
        const dt__codes_weight w = { c->codes[1], NULL, y };
        dt__codes_product_floats(
            &(dt__codes_floats){ dt__rows(x), dt__data(x), 1, &w, c->scratch });
        return false;
    }
    codes_gemm p;
    make_forward(c, &p);
    p.g.c = y;
    c->kernels->gemm(&p.g);
    return false;
}

bool dt__linear_joins(const dt_call *a, const dt_call *b)
{
    const dt__codes *w = a->codes[1], *v = b->codes[1];
    const bool integer = dt__codes_multiply(a->codes[0], w) && dt__codes_multiply(b->codes[0], v);
    return (integer || (is_few(a) && is_few(b))) && dt__codes_alike(w, v);
}

static void add_bias(const dt_call *c)
{
    if (c->arg[2] == NULL) return;
    c->kernels->after(&(dt__after){ .rows = dt__rows(c->y),
                                    .n = dt__columns(c->y),
                                    .x = dt__data_mut(c->y),
                                    .bias = dt__data(c->arg[2]),
                                    .y = dt__data_mut(c->y) });
}

void dt__linears_product_codes(const dt_call *calls, int n)
{
    dt__codes_weight w[DT__MOST_WEIGHTS];
    const dt_call *c = &calls[0];
    for (int i = 0; i < n; i++) {
        const dt_tensor *bias = calls[i].arg[2];
        w[i] = (dt__codes_weight){ calls[i].codes[1], bias == NULL ? NULL : dt__data(bias),
                                   dt__data_mut(calls[i].y) };
    }
    if (c->codes[0] != NULL) {
        dt__codes_product(&(dt__codes_products){ c->codes[0], n, w, c->scratch });
        return;
    }
    const dt_tensor *x = c->arg[0];
    dt__codes_product_floats(&(dt__codes_floats){ dt__rows(x), dt__data(x), n, w, c->scratch });
    for (int i = 0; i < n; i++) add_bias(&calls[i]);
}

size_t dt__linear_backward_scratch(const dt_call *c)
{
    codes_gemm p;
    make_backward_x(c, &p);
    const size_t x = c->wants[0] ? scratch_of(c, &p) : 0;
    make_backward_w(c, &p);
    const size_t w = c->wants[1] ? scratch_of(c, &p) : 0;
    return x > w ? x : w;
}

void dt__linear_backward_x(const dt_call *c, const void *dy, void *dx)
{
    codes_gemm p;
    make_backward_x(c, &p);
    p.g.a = dy;
    p.g.c = dx;
    c->kernels->gemm(&p.g);
}

void dt__linear_backward_w(const dt_call *c, const void *dy, void *dw)
{
    codes_gemm p;
    make_backward_w(c, &p);
    p.g.a = dy;
    p.g.c = dw;
    c->kernels->gemm(&p.g);
}
