/* The gradient of a low-rank adapter without the gradient of the merged weight.
 *     y = y0, a view, where y0 = x W'^T + b was computed with the constant W' = W + s B A
 *     dy0 = dy      dA = s (dy B)^T x      dB = s dy^T (x A^T)      s = alpha / rank
 * and x gets no gradient here, since y0 passes it on. With dW' = dy^T x, dA and dB are s B^T dW'
 * and s dW' A^T, computed in rows * rank * (in + out) products each in place of rows * in * out:
 * dW' [out, in] is never computed. x is the value that was multiplied: for codes, the dequantized
 * value. */
#include "ops/ops_list.h"
#include "ops/products/linear_codes.h"
#include "ops/products/lora_options.h"
#include "ops/shape/view.h"

enum { Y, X, A, B };

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 4, 4));
    for (int i = 0; i < c->n_in; i++) DT__TRY(dt__want_float(c, i));
    for (int i = Y; i <= X; i++) DT__TRY(dt__want_rank(c, i, 1, DT_MAX_RANK));
    for (int i = A; i <= B; i++) DT__TRY(dt__want_rank(c, i, 2, 2));
    const dt_tensor *y = c->in[Y], *x = c->in[X];
    const int64_t rank = c->in[A]->dims[0];
    if (rank < 1) return dt_refuse(c, DT_ERR_SHAPE, "lora_a has no rows; a rank of 1 is the least");
    if (dt__rows(x) != dt__rows(y)) {
        return dt_refuse(c, DT_ERR_SHAPE, "x has %lld rows, y0 %lld", (long long)dt__rows(x),
                         (long long)dt__rows(y));
    }
    DT__TRY(dt__want_dims(c, A, 2, (const int64_t[]){ rank, dt__columns(x) }));
    DT__TRY(dt__want_dims(c, B, 2, (const int64_t[]){ dt__columns(y), rank }));
    return dt__reshaped(c, y->rank, y->dims);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* [rows, rank] = dy B */
static dt__gemm product_dy(const dt_call *c)
{
    const int64_t rank = c->arg[A]->dims[0], out = dt__columns(c->y);
    return (
        dt__gemm){ .m = dt__rows(c->y), .n = rank, .k = out, .lda = out, .ldb = rank, .ldc = rank };
}

/* dB [out, rank] = dy^T (s x A^T) */
static dt__gemm product_b(const dt_call *c)
{
    const int64_t rank = c->arg[A]->dims[0], out = dt__columns(c->y);
    return (dt__gemm){ .trans_a = true,
                       .m = out,
                       .n = rank,
                       .k = dt__rows(c->y),
                       .lda = out,
                       .ldb = rank,
                       .ldc = rank };
}

/* Bytes of [rows, rank], the first part of scratch; the scratch of a product follows. */
static size_t narrow_bytes(const dt_call *c)
{
    const int64_t count = dt__rows(c->y) * c->arg[A]->dims[0];
    return dt__scratch_part((size_t)count * dt_dtype_size(c->arg[A]->dtype));
}

static size_t scratch(const dt_call *c)
{
    const dt__linear_part p = dt__linear_whole(c, X, A);
    const size_t element = dt_dtype_size(c->arg[A]->dtype);
    const dt__gemm dy = product_dy(c), b = product_b(c);
    const size_t rooms[] = { dt__linear_forward_scratch(&p), dt__linear_backward_scratch(&p),
                             dt__gemm_scratch(&dy, element, dt_threads(c->ctx)),
                             dt__gemm_scratch(&b, element, dt_threads(c->ctx)) };
    size_t most = 0;
    for (int i = 0; i < DT__COUNT_OF(rooms); i++) most = rooms[i] > most ? rooms[i] : most;
    return narrow_bytes(c) + most;
}

static void scale_narrow(const dt_call *c, void *narrow)
{
    const int64_t rank = c->arg[A]->dims[0];
    const double alpha = ((const dt_lora_weight_options *)c->options)->alpha;
    c->kernels->scale(dt__rows(c->y) * rank, alpha / (double)rank, narrow, narrow);
}

/* The same call with the second part of its scratch, for products. */
static dt_call behind_narrow(const dt_call *c)
{
    dt_call inner = *c;
    inner.scratch = (char *)c->scratch + narrow_bytes(c);
    return inner;
}

static void backward_a(const dt_call *c, const dt_tensor *dy, dt_tensor *da)
{
    const dt_call inner = behind_narrow(c);
    const dt__linear_part p = dt__linear_whole(&inner, X, A);
    dt__gemm g = product_dy(c);
    g.a = dt__data(dy);
    g.b = dt__data(c->arg[B]);
    g.c = c->scratch;
    g.scratch = inner.scratch;
    dt__multiply(c, &g);
    scale_narrow(c, c->scratch);
    dt__linear_backward(&p, c->scratch, NULL, dt__data_mut(da));
}

static void backward_b(const dt_call *c, const dt_tensor *dy, dt_tensor *db)
{
    const dt_call inner = behind_narrow(c);
    const dt__linear_part p = dt__linear_whole(&inner, X, A);
    dt__gemm g = product_b(c);
    dt__linear_product(&p, NULL, c->scratch);
    scale_narrow(c, c->scratch);
    g.a = dt__data(dy);
    g.b = c->scratch;
    g.c = dt__data_mut(db);
    g.scratch = inner.scratch;
    dt__multiply(c, &g);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    if (dx[A] != NULL) backward_a(c, dy, dx[A]);
    if (dx[B] != NULL) backward_b(c, dy, dx[B]);
    if (dx[Y] != NULL && dx[Y] != dy) dt__copy_tensor(dy, dx[Y]);
}

/* y0 + p - const(p) for the adapter's product p: the subtracted constant has no gradient. */
static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    const double alpha = ((const dt_lora_weight_options *)given)->alpha;
    dt_tensor *x = dt_detach(t, in[X]), *p = dt_linear(t, x, in[A], NULL);
    if (p != NULL) p = dt_mul(t, p, dt_number(t, p, alpha / (double)in[A]->dims[0]));
    p = dt_linear(t, p, in[B], NULL);
    out[0] = dt_add(t, in[Y], dt_sub(t, p, dt_detach(t, p)));
}

/* ---- the op ---------------------------------------------------------------------------------- */

const dt_op dt__op_lora_gradient = {
    .name = "lora_gradient",
    .text = "y = y0; in backward lora_a and lora_b get the gradients that they have in "
            "y0 = x (W + alpha / rank lora_b lora_a)^T",
    .in_name = { "y0", "x", "lora_a", "lora_b" },
    .out_name = { "y" },
    .role = { DT_READ, DT_CODES, DT_READ, DT_READ },
    .undifferentiable = { [X] = true },
    .ungrouped = true,
    .over_dy = { [Y] = true },
    .saves = { .arg = { DT_NOTHING, DT_VALUE, DT_VALUE, DT_VALUE } },
    .saves_coded = { .arg = { DT_NOTHING, DT_SAVE_CODES, DT_VALUE, DT_VALUE } },
    DT__OP_OPTIONS(dt_lora_weight_options, dt__lora_defaults, dt__lora_weight_keys),
    .shape = shape,
    .forward = dt__reshaped_forward,
    .forward_codes = dt__reshaped_forward,
    .takes_codes = dt__linear_takes_codes,
    .backward = backward,
    .scratch = scratch,
    .lower = lower,
};

dt_tensor *dt_lora_gradient(dt_tape *t, dt_tensor *y, dt_tensor *x, dt_tensor *a, dt_tensor *b,
                            double alpha)
{
    return dt_apply(t, &dt__op_lora_gradient,
                    DT__CALL_WITH(&(dt_lora_weight_options){ alpha }, y, x, a, b));
}

#define ALPHA(alpha) DT__WITH(dt_lora_weight_options, alpha)

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 2 }, .given = true, .values = { 3, 4 } },
              { { 1, 3 } },
              { { 2, 3 } },
              { { 2, 2 } } },
      .options = ALPHA(4), .n_y = 2, .y = { 3, 4 }, .by_lower = true },
    { "rank 3", .in = { { { 2, 5, 7 } }, { { 2, 5, 9 } }, { { 3, 9 } }, { { 7, 3 } } },
      .by_lower = true },
    { "one row", .in = { { { 7 } }, { { 9 } }, { { 1, 9 } }, { { 7, 1 } } }, .by_lower = true },
    { "large", .in = { { { 150, 140 } }, { { 150, 130 } }, { { 16, 130 } }, { { 140, 16 } } },
      .by_lower = true },
    { "no rows", .in = { { { 0, 4 } }, { { 0, 3 } }, { { 2, 3 } }, { { 4, 2 } } },
      .by_lower = true },
    { "no rank", .in = { { { 2, 4 } }, { { 2, 3 } }, { { 0, 3 } }, { { 4, 0 }, 2 } },
      .fails = DT_ERR_SHAPE, .says = "a rank of 1" },
    { "rows", .in = { { { 3, 4 } }, { { 2, 3 } }, { { 2, 3 } }, { { 4, 2 } } },
      .fails = DT_ERR_SHAPE, .says = "x has 2 rows, y0 3" },
    { "columns of A", .in = { { { 2, 4 } }, { { 2, 3 } }, { { 2, 5 } }, { { 4, 2 } } },
      .fails = DT_ERR_SHAPE, .says = "lora_a must be [2,3]" },
    { "columns of B", .in = { { { 2, 4 } }, { { 2, 3 } }, { { 2, 3 } }, { { 5, 2 } } },
      .fails = DT_ERR_SHAPE, .says = "lora_b must be [4,2]" },
    { "integers", .in = { { { 2, 4 } }, { { 2, 3 }, .dtype = DT_I32 }, { { 2, 3 } }, { { 4, 2 } } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(lora_gradient, cases)
