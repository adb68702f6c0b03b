/* A weight with a low-rank adapter.   [Hu et al. 2022, LoRA]
 *     y = W + s B A      dW = dy      dA = s B^T dy, dB = s dy A^T      s = alpha / rank
 * W [out, in], A [rank, in], B [out, rank]. Only A and B are kept for backward. */
#include "autograd/op.h"
#include "ops/ops_list.h"
#include "ops/products/lora_options.h"

enum { WEIGHT, A, B };

const dt_lora_weight_options dt__lora_defaults = { .alpha = 1 };

const dt_key dt__lora_weight_keys[] = {
    { "alpha", DT_KEY_REAL, .offset = offsetof(dt_lora_weight_options, alpha),
      .least = -DT_NO_LIMIT, .most = DT_NO_LIMIT, .fallback = "1" },
    { 0 },
};

/* y += (s B) A; the operands are set when it runs. */
static dt__gemm forward_product(const dt_tensor *a, const dt_tensor *b)
{
    const int64_t rank = a->dims[0], in = a->dims[1];
    return (dt__gemm){
        .m = b->dims[0], .n = in, .k = rank, .lda = rank, .ldb = in, .accumulate = true, .ldc = in
    };
}

/* dA = B^T dy */
static dt__gemm product_a(const dt_tensor *a, const dt_tensor *b)
{
    const int64_t rank = a->dims[0], in = a->dims[1];
    return (dt__gemm){
        .trans_a = true, .m = rank, .n = in, .k = b->dims[0], .lda = rank, .ldb = in, .ldc = in
    };
}

/* dB = dy A^T */
static dt__gemm product_b(const dt_tensor *a, const dt_tensor *b)
{
    const int64_t rank = a->dims[0], in = a->dims[1];
    return (dt__gemm){
        .trans_b = true, .m = b->dims[0], .n = rank, .k = in, .lda = in, .ldb = in, .ldc = rank
    };
}

static size_t scratch_of(const dt_call *c, dt__gemm g)
{
    const dt_tensor *b = c->arg[B];
    return dt__gemm_scratch(&g, dt_dtype_size(b->dtype), dt_threads(c->ctx));
}

/* Bytes of s B, in front of the product's scratch. */
static size_t scaled_bytes(const dt_call *c) { return dt__scratch_part(dt__bytes_of(c->arg[B])); }

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 3, 3));
    for (int i = 0; i < c->n_in; i++) {
        DT__TRY(dt__want_float(c, i));
        DT__TRY(dt__want_rank(c, i, 2, 2));
    }
    const dt_tensor *w = c->in[WEIGHT];
    const int64_t rank = c->in[A]->dims[0];
    DT__TRY(dt__want_dims(c, A, 2, (const int64_t[]){ rank, w->dims[1] }));
    DT__TRY(dt__want_dims(c, B, 2, (const int64_t[]){ w->dims[0], rank }));
    if (rank < 1) return dt_refuse(c, DT_ERR_SHAPE, "lora_a has no rows; a rank of 1 is the least");
    c->scratch_bytes = scaled_bytes(c) + scratch_of(c, forward_product(c->arg[A], c->arg[B]));
    return dt__shape_like(c, WEIGHT);
}

static size_t backward_scratch(const dt_call *c)
{
    const size_t a = scratch_of(c, product_a(c->arg[A], c->arg[B]));
    const size_t b = scratch_of(c, product_b(c->arg[A], c->arg[B]));
    return a > b ? a : b;
}

static double scale_of(const dt_call *c)
{
    return ((const dt_lora_weight_options *)c->options)->alpha / (double)c->in[A]->dims[0];
}

static void forward(const dt_call *c)
{
    const dt_tensor *a = c->arg[A], *b = c->arg[B];
    c->kernels->scale(b->count, scale_of(c), dt__data(b), c->scratch);
    dt__copy_tensor(c->arg[WEIGHT], c->y);
    dt__gemm g = forward_product(a, b);
    g.a = c->scratch;
    g.b = dt__data(a);
    g.c = dt__data_mut(c->y);
    g.scratch = (char *)c->scratch + scaled_bytes(c);
    c->kernels->gemm(&g);
}

static void backward_a(const dt_call *c, const dt_tensor *dy, dt_tensor *da)
{
    dt__gemm g = product_a(da, c->arg[B]);
    g.a = dt__data(c->arg[B]);
    g.b = dt__data(dy);
    g.c = dt__data_mut(da);
    g.scratch = c->scratch;
    c->kernels->gemm(&g);
    c->kernels->scale(da->count, scale_of(c), dt__data(da), dt__data_mut(da));
}

static void backward_b(const dt_call *c, const dt_tensor *dy, dt_tensor *db)
{
    dt__gemm g = product_b(c->arg[A], db);
    g.a = dt__data(dy);
    g.b = dt__data(c->arg[A]);
    g.c = dt__data_mut(db);
    g.scratch = c->scratch;
    c->kernels->gemm(&g);
    c->kernels->scale(db->count, scale_of(c), dt__data(db), dt__data_mut(db));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    if (dx[A] != NULL) backward_a(c, dy, dx[A]);
    if (dx[B] != NULL) backward_b(c, dy, dx[B]);
    if (dx[WEIGHT] != NULL && dx[WEIGHT] != dy) dt__copy_tensor(dy, dx[WEIGHT]);
}

const dt_op dt__op_lora = {
    .name = "lora",
    .text = "y = weight + alpha / rank lora_b lora_a",
    .in_name = { "weight", "lora_a", "lora_b" },
    .out_name = { "y" },
    .over_dy = { [WEIGHT] = true },
    .saves = { .arg = { [A] = DT_VALUE, [B] = DT_VALUE } },
    DT__OP_OPTIONS(dt_lora_weight_options, dt__lora_defaults, dt__lora_weight_keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .scratch = backward_scratch,
};

dt_tensor *dt_lora(dt_tape *t, dt_tensor *weight, dt_tensor *a, dt_tensor *b, double alpha)
{
    return dt_apply(t, &dt__op_lora,
                    DT__CALL_WITH(&(dt_lora_weight_options){ alpha }, weight, a, b));
}

#define ALPHA(alpha) DT__WITH(dt_lora_weight_options, alpha)

static const dt__case cases[] = {
    { "values",
      .in = { { { 2, 3 }, .given = true, .values = { 1, 2, 3, 4, 5, 6 } },
              { { 2, 3 }, .given = true, .values = { 1, 0, -1, 0, 2, 0 } },
              { { 2, 2 }, .given = true, .values = { 1, 0.5, -2, 0 } } },
      .options = ALPHA(4), .n_y = 6, .y = { 3, 4, 1, 0, 5, 10 } },
    { "random", .in = { { { 7, 5 } }, { { 3, 5 } }, { { 7, 3 } } }, .options = ALPHA(8) },
    { "rank 1", .in = { { { 4, 6 } }, { { 1, 6 } }, { { 4, 1 } } } },
    { "rank above the sides", .in = { { { 2, 3 } }, { { 5, 3 } }, { { 2, 5 } } } },
    { "large", .in = { { { 150, 130 } }, { { 16, 130 } }, { { 150, 16 } } }, .rough = true },
    { "no outputs", .in = { { { 0, 3 } }, { { 2, 3 } }, { { 0, 2 } } } },
    { "no inputs", .in = { { { 3, 0 }, 2 }, { { 2, 0 }, 2 }, { { 3, 2 } } } },
    { "no rank", .in = { { { 2, 3 } }, { { 0, 3 } }, { { 2, 0 }, 2 } }, .fails = DT_ERR_SHAPE,
      .says = "a rank of 1" },
    { "columns of A", .in = { { { 2, 3 } }, { { 1, 4 } }, { { 2, 1 } } }, .fails = DT_ERR_SHAPE,
      .says = "lora_a must be [1,3]" },
    { "columns of B", .in = { { { 2, 3 } }, { { 1, 3 } }, { { 2, 2 } } }, .fails = DT_ERR_SHAPE,
      .says = "lora_b must be [2,1]" },
    { "rank of the weight", .in = { { { 3 } }, { { 1, 3 } }, { { 3, 1 } } }, .fails = DT_ERR_SHAPE,
      .says = "rank 1" },
    { "integers", .in = { { { 2, 3 }, .dtype = DT_I32 }, { { 1, 3 } }, { { 2, 1 } } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(lora, cases)
