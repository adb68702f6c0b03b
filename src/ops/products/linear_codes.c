/* The products of linear.
 *
 *     both operands have codes for an integer product          y by numerics §2
 *     values, and codes of W without zero points, where        the same
 *         rows are few or the tape has no gradients
 *     else                                                     y = x^ W^^T + b, fp32
 *     backward                                                 dx = dy W^      dw = dy^T x^
 *
 * x^ and W^ are the dequantized values. They are never stored as a whole: codes are a source of the
 * fp32 product, which dequantizes a block just before multiplying it. */
#include "ops/products/linear_codes.h"

#include "core/text/half.h"
#include "ops/products/back_codes.h"

dt__linear_part dt__linear_whole(const dt_call *c, int x, int weight)
{
    return (dt__linear_part){ c, x, weight, 0, dt__rows(c->arg[x]), 0, c->arg[weight]->dims[0] };
}

/* An operand from row `row` on: a value, codes, or a value that is held as bf16. */
typedef struct operand {
    const void *data;
    dt__source source;
    const dt__codes *codes;
    const uint16_t *halves;
    int64_t row, columns;
} operand;

static void expand(const void *from, const dt__patch *block)
{
    const operand *o = from;
    dt__patch there = *block;
    there.r0 += o->row;
    there.r1 += o->row;
    dt__codes_expand(o->codes, &there);
}

static void widen(const void *from, const dt__patch *block)
{
    const operand *o = from;
    for (int64_t r = block->r0; r < block->r1; r++) {
        const uint16_t *x = o->halves + (o->row + r) * o->columns;
        float *y = (float *)block->y + (r - block->r0) * block->ldy - block->c0;
        for (int64_t k = block->c0; k < block->c1; k++) y[k] = dt__bf16_to_f32(x[k]);
    }
}

static void open_operand(const dt__linear_part *p, int i, int64_t row, operand *o)
{
    const dt_tensor *x = p->c->arg[i];
    *o = (operand){ .codes = p->c->codes[i], .halves = p->c->halves[i], .row = row };
    o->columns = dt__columns(x);
    o->source = (dt__source){ o->codes != NULL ? expand : widen, o };
    if (o->codes != NULL || o->halves != NULL) return;
    const char *data = dt__data(x);
    o->data = data == NULL ? NULL : data + (size_t)(row * dt__columns(x)) * dt_dtype_size(x->dtype);
}

static const dt__source *source_of(const operand *o)
{
    return o->codes != NULL || o->halves != NULL ? &o->source : NULL;
}

/* The arguments of a product, and the operands that they point to. */
typedef struct product {
    dt__gemm g;
    operand x, w;
} product;

static int64_t depth_of(const dt__linear_part *p) { return p->c->arg[p->weight]->dims[1]; }

static void open_product(const dt__linear_part *p, product *to)
{
    open_operand(p, p->x, p->m0, &to->x);
    open_operand(p, p->weight, p->n0, &to->w);
}

/* y [m, n] = x [m, k] W^T, W being [n, k]. */
static void make_forward(const dt__linear_part *p, product *to)
{
    const int64_t n = p->n1 - p->n0, k = depth_of(p);
    open_product(p, to);
    to->g = (dt__gemm){ .trans_b = true,
                        .m = p->m1 - p->m0,
                        .n = n,
                        .k = k,
                        .a = to->x.data,
                        .lda = k,
                        .b = to->w.data,
                        .ldb = k,
                        .ldc = n,
                        .a_source = source_of(&to->x),
                        .b_source = source_of(&to->w),
                        .scratch = p->c->scratch };
}

/* dx [m, k] = dy W */
static void make_backward_x(const dt__linear_part *p, product *to)
{
    const int64_t n = p->n1 - p->n0, k = depth_of(p);
    open_product(p, to);
    to->g = (dt__gemm){ .m = p->m1 - p->m0,
                        .n = k,
                        .k = n,
                        .lda = n,
                        .b = to->w.data,
                        .ldb = k,
                        .accumulate = p->n0 > 0,
                        .ldc = k,
                        .b_source = source_of(&to->w),
                        .scratch = p->c->scratch };
}

/* dw [n, k] = dy^T x */
static void make_backward_w(const dt__linear_part *p, product *to)
{
    const int64_t n = p->n1 - p->n0, k = depth_of(p);
    open_product(p, to);
    to->g = (dt__gemm){ .trans_a = true,
                        .m = n,
                        .n = k,
                        .k = p->m1 - p->m0,
                        .lda = n,
                        .b = to->x.data,
                        .ldb = k,
                        .accumulate = p->m0 > 0,
                        .ldc = k,
                        .b_source = source_of(&to->x),
                        .scratch = p->c->scratch };
}

static size_t scratch_of(const dt__linear_part *p, const product *of)
{
    const size_t element = dt_dtype_size(p->c->arg[p->weight]->dtype);
    return dt__gemm_scratch(&of->g, element, dt_threads(p->c->ctx));
}

/* Whether x is floats with few rows, which are multiplied by the weight's codes. */
static bool is_few(const dt__linear_part *p)
{
    const dt_call *c = p->c;
    const int64_t rows = c->tape->no_grad ? 1 : dt__rows(c->arg[p->x]);
    return c->codes[p->x] == NULL && dt__codes_multiply_floats(rows, c->codes[p->weight]);
}

size_t dt__linear_forward_scratch(const dt__linear_part *p)
{
    const dt__codes *x = p->c->codes[p->x], *w = p->c->codes[p->weight];
    if (dt__codes_multiply(x, w)) return dt__codes_product_room(x, w);
    if (is_few(p)) return dt__codes_floats_room(p->m1 - p->m0, w);
    product forward;
    make_forward(p, &forward);
    return scratch_of(p, &forward);
}

bool dt__linear_product(const dt__linear_part *p, const void *bias, void *y)
{
    const dt__codes *x = p->c->codes[p->x], *w = p->c->codes[p->weight];
    void *room = p->c->scratch;
    if (dt__codes_multiply(x, w)) {
        const dt__codes_weight to = { w, bias, y, p->n0, p->n1 };
        dt__codes_product(&(dt__codes_products){ x, 1, &to, room, p->m0, p->m1 });
        return true;
    }
    product forward;
    make_forward(p, &forward);
    if (is_few(p)) {
        const dt__codes_weight to = { w, NULL, y, p->n0, p->n1 };
        dt__codes_product_floats(
            &(dt__codes_floats){ p->m1 - p->m0, forward.x.data, 1, &to, room });
        return false;
    }
    forward.g.c = y;
    dt__multiply(p->c, &forward.g);
    return false;
}

bool dt__linear_joins(const dt_call *a, const dt_call *b)
{
    const dt__codes *w = a->codes[1], *v = b->codes[1];
    const bool integer = dt__codes_multiply(a->codes[0], w) && dt__codes_multiply(b->codes[0], v);
    const dt__linear_part p = dt__linear_whole(a, 0, 1), q = dt__linear_whole(b, 0, 1);
    return (integer || (is_few(&p) && is_few(&q))) && dt__codes_alike(w, v);
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
        w[i] = (dt__codes_weight){ .w = calls[i].codes[1],
                                   .bias = bias == NULL ? NULL : dt__data(bias),
                                   .y = dt__data_mut(calls[i].y) };
    }
    if (c->codes[0] != NULL) {
        dt__codes_product(
            &(dt__codes_products){ .x = c->codes[0], .n = n, .weight = w, .room = c->scratch });
        return;
    }
    const dt_tensor *x = c->arg[0];
    dt__codes_product_floats(&(dt__codes_floats){ dt__rows(x), dt__data(x), n, w, c->scratch });
    for (int i = 0; i < n; i++) add_bias(&calls[i]);
}

/* ---- backward -------------------------------------------------------------------------------- */

static size_t float_scratch(const dt__linear_part *p, bool x, bool w)
{
    product of;
    make_backward_x(p, &of);
    const size_t of_x = x ? scratch_of(p, &of) : 0;
    make_backward_w(p, &of);
    const size_t of_w = w ? scratch_of(p, &of) : 0;
    return of_x > of_w ? of_x : of_w;
}

/* Row `row` of an operand's gradient. */
static void *row_of(const dt__linear_part *p, void *d, int64_t row)
{
    const size_t element = dt_dtype_size(p->c->arg[p->weight]->dtype);
    return (char *)d + (size_t)(row * depth_of(p)) * element;
}

static void backward_x(const dt__linear_part *p, const void *dy, void *dx)
{
    product of;
    make_backward_x(p, &of);
    of.g.a = dy;
    of.g.c = row_of(p, dx, p->m0);
    dt__multiply(p->c, &of.g);
}

static void backward_w(const dt__linear_part *p, const void *dy, void *dw)
{
    product of;
    make_backward_w(p, &of);
    of.g.a = dy;
    of.g.c = row_of(p, dw, p->n0);
    dt__multiply(p->c, &of.g);
}

/* Computes those of dx and dw (either may be NULL) that are integer products, for outputs n ... n +
 * count - 1 of the part. */
typedef struct integers {
    dt__q7_layer layer;
    dt__back_weight w;
    dt__back_rows x;
} integers;

static void open_integers(const dt__linear_part *p, int64_t n, float *dx, float *dw, integers *to)
{
    const dt__codes *x = p->c->codes[p->x], *w = p->c->codes[p->weight];
    const int64_t all = p->n1 - p->n0, k = depth_of(p);
    to->layer = (dt__q7_layer){ .m = p->m1 - p->m0,
                                .n = dt__min_i64(all - n, DT__Q7_DEPTH),
                                .k = k,
                                .ldy = all,
                                .dx = dt__back_x(w) ? dx : NULL,
                                .add_x = p->n0 + n > 0,
                                .add_w = p->m0 > 0,
                                .threads = dt_threads(p->c->ctx),
                                .scratch = p->c->scratch };
    dt__back_open_weight(w, p->n0 + n, &to->w, &to->layer);
    if (dw == NULL || !dt__back_w(x, w)) return;
    to->layer.dw = dw;
    dt__back_open(x, p->m0, &to->x, &to->layer);
}

size_t dt__linear_backward_scratch(const dt__linear_part *p)
{
    float any = 0;
    integers of;
    const bool x = p->c->wants[p->x], w = p->c->wants[p->weight];
    open_integers(p, 0, x ? &any : NULL, w ? &any : NULL, &of);
    const dt__q7_layer *l = &of.layer;
    const size_t floats = float_scratch(p, x && l->dx == NULL, w && l->dw == NULL);
    const size_t bytes = l->dx == NULL && l->dw == NULL ? 0 : dt__q7_scratch(l);
    return bytes > floats ? bytes : floats;
}

void dt__linear_backward(const dt__linear_part *p, const void *dy, void *dx, void *dw)
{
    const dt__codes *x = p->c->codes[p->x], *w = p->c->codes[p->weight];
    if (dx != NULL && !dt__back_x(w)) backward_x(p, dy, dx);
    if (dw != NULL && !dt__back_w(x, w)) backward_w(p, dy, dw);
    float *to_x = dx != NULL && dt__back_x(w) ? row_of(p, dx, p->m0) : NULL;
    float *to_w = dw != NULL && dt__back_w(x, w) ? row_of(p, dw, p->n0) : NULL;
    if (to_x == NULL && to_w == NULL) return;
    for (int64_t n = 0; n == 0 || n < p->n1 - p->n0; n += DT__Q7_DEPTH) {
        integers of;
        open_integers(p, n, to_x, to_w != NULL ? to_w + n * depth_of(p) : NULL, &of);
        of.layer.dy = (const float *)dy + n;
        dt__q7_run(p->c->kernels, &of.layer);
    }
}

/* Whether rows of codes are rows of the matrix: per-tensor quantization divides x [a, b, in] into a
 * rows of b * in elements. All rows of a weight must have the same order of columns. */
bool dt__linear_takes_codes(const dt_call *c, int i)
{
    const dt__codes *codes = c->codes[i];
    const bool one = codes->order == NULL || codes->layout.order_rows == codes->rows;
    return one && codes->columns == dt__columns(c->in[i]);
}
