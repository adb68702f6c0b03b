/* A linear layer, fused with a residual and an activation.
 *     s = x W^T + b + r      y = f(s)
 *     ds = dy f'(s)          dx = ds W, dW = ds^T x, db = sum of ds, dr = ds
 * x [..., in] is a matrix of rows; W is [out, in]; f is an activation or the identity. Operands
 * with integer codes are multiplied as codes: linear_codes.c. Intermediate sums are rounded as if
 * each step were an op of its own, so the bits are the same. Result 1 is what f keeps for backward:
 * one bit per element (relu), s (gelu, silu, hardswish), or y. */
#include "ops/products/linear_codes.h"
#include "ops/ops_list.h"

#include <string.h>

enum { X, WEIGHT, BIAS, RESIDUAL };

typedef struct options {
    int activation;
} options;

static const options defaults = { DT_ACT_NONE };
static const char *const activations[] = { "none",      "relu",        "gelu", "gelu_tanh",
                                           "tanh",      "sigmoid",     "silu", "relu6",
                                           "hardswish", "hardsigmoid", "elu",  NULL };

static const dt_key keys[] = {
    { "activation", DT_KEY_CHOICE, .offset = offsetof(options, activation), .choices = activations,
      .fallback = "none" },
    { 0 },
};

static int activation_of(const dt_call *c) { return ((const options *)c->options)->activation; }

typedef void unary(int64_t n, const void *x, void *y);
typedef void unary_backward(int64_t n, const void *kept, const void *dy, void *dx);

/* The activation's kernel; NULL for the identity, and for relu, which has its own. */
static unary *function_of(const dt_call *c)
{
    const dt__kernels *k = c->kernels;
    unary *const functions[] = { NULL,         NULL,           k->gelu_erf, k->gelu_tanh,
                                 k->tanh,      k->sigmoid,     k->silu,     k->relu6,
                                 k->hardswish, k->hardsigmoid, k->elu };
    return functions[activation_of(c)];
}

static unary_backward *slope_of(const dt_call *c)
{
    const dt__kernels *k = c->kernels;
    unary_backward *const slopes[] = { NULL,
                                       NULL,
                                       k->gelu_erf_backward,
                                       k->gelu_tanh_backward,
                                       k->tanh_backward,
                                       k->sigmoid_backward,
                                       k->silu_backward,
                                       k->relu6_backward,
                                       k->hardswish_backward,
                                       k->hardsigmoid_backward,
                                       k->elu_backward };
    return slopes[activation_of(c)];
}

static bool keeps_sum(const dt_call *c)
{
    const int activation = activation_of(c);
    return activation == DT_ACT_GELU || activation == DT_ACT_GELU_TANH ||
           activation == DT_ACT_SILU || activation == DT_ACT_HARDSWISH;
}

/* Result 1: what the activation keeps for backward. */
static dt_status make_kept(dt_call *c)
{
    const int activation = activation_of(c);
    if (!c->recording || activation == DT_ACT_NONE) return DT_OK;
    const dt_tensor *y = c->y;
    if (activation == DT_ACT_RELU) {
        const int64_t bits[2] = { dt__rows(y), dt__bit_row(dt__columns(y)) };
        return dt_result(c, 1, DT_U8, 2, bits);
    }
    if (keeps_sum(c)) return dt_result(c, 1, y->dtype, y->rank, y->dims);
    c->n_out = 2;
    return dt__view(c->ctx, y, &c->out[1]);
}

static dt_status check_operands(const dt_call *c)
{
    DT__TRY(dt__want_operands(c, 2, 4));
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i] != NULL) DT__TRY(dt__want_float(c, i));
    }
    DT__TRY(dt__want_rank(c, X, 1, DT_MAX_RANK));
    DT__TRY(dt__want_rank(c, WEIGHT, 2, 2));
    const int activation = activation_of(c);
    if (activation < DT_ACT_NONE || activation > DT_ACT_ELU) {
        return dt_refuse(c, DT_ERR_ARG, "activation is %d; expected %d to %d (DT_ACT_...)",
                         activation, DT_ACT_NONE, DT_ACT_ELU);
    }
    return DT_OK;
}

static dt_status shape(dt_call *c)
{
    DT__TRY(check_operands(c));
    const dt_tensor *x = c->in[X], *w = c->in[WEIGHT];
    if (dt__columns(x) != w->dims[1]) {
        return dt_refuse(c, DT_ERR_SHAPE, "x has %lld features, weight takes %lld",
                         (long long)dt__columns(x), (long long)w->dims[1]);
    }
    int64_t dims[DT_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank - 1] = w->dims[0];
    if (c->in[BIAS] != NULL) DT__TRY(dt__want_dims(c, BIAS, 1, w->dims));
    if (c->in[RESIDUAL] != NULL) DT__TRY(dt__want_dims(c, RESIDUAL, x->rank, dims));
    const dt__linear_part whole = dt__linear_whole(c, X, WEIGHT);
    c->scratch_bytes = dt__linear_forward_scratch(&whole);
    DT__TRY(dt_result(c, 0, x->dtype, x->rank, dims));
    return make_kept(c);
}

/* ---- forward --------------------------------------------------------------------------------- */

static dt__after after_of(const dt_call *c)
{
    dt_tensor *kept = c->recording ? c->out[1] : NULL;
    const bool relu = activation_of(c) == DT_ACT_RELU;
    return (dt__after){ .rows = dt__rows(c->y),
                        .n = dt__columns(c->y),
                        .x = dt__data_mut(kept != NULL && keeps_sum(c) ? kept : c->y),
                        .bias = dt__arg_data(c, BIAS),
                        .residual = dt__arg_data(c, RESIDUAL),
                        .relu = relu,
                        .bits = relu && kept != NULL ? dt__data_mut(kept) : NULL,
                        .function = function_of(c),
                        .y = dt__data_mut(c->y) };
}

static void finish(const dt_call *c, const dt__after *a)
{
    if (a->bias == NULL && a->residual == NULL && !a->relu && a->function == NULL) return;
    c->kernels->after(a);
}

static void forward(const dt_call *c)
{
    const dt__linear_part whole = dt__linear_whole(c, X, WEIGHT);
    dt__after a = after_of(c);
    if (dt__linear_product(&whole, a.bias, a.x)) a.bias = NULL;
    finish(c, &a);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Whether ds needs its own memory, in scratch behind that of the products. */
static bool makes_sum(const dt_call *c)
{
    return activation_of(c) != DT_ACT_NONE && !c->owns_dy && !c->wants[RESIDUAL];
}

static size_t scratch_of_products(const dt_call *c)
{
    const dt__linear_part whole = dt__linear_whole(c, X, WEIGHT);
    return dt__scratch_part(dt__linear_backward_scratch(&whole));
}

static size_t scratch(const dt_call *c)
{
    return scratch_of_products(c) + (makes_sum(c) ? dt__bytes_of(c->y) : 0);
}

static void sum_rows(const dt_call *c, const void *ds, void *db)
{
    c->kernels->sum(&(dt__reduce){ .rank = 2,
                                   .dims = { dt__rows(c->y), dt__columns(c->y) },
                                   .over = { true },
                                   .divisor = 1,
                                   .x = ds,
                                   .y = db });
}

/* ds, and the bias's gradient unless db is NULL. */
static void through_activation(const dt_call *c, const void *dy, void *ds, void *db)
{
    const int64_t n = dt__columns(c->y);
    const dt_tensor *kept = c->out[1];
    if (activation_of(c) == DT_ACT_RELU) {
        /* for a single column the kernel `sum` would use another order */
        const dt__mask_rows m = { .rows = dt__rows(c->y),
                                  .n = n,
                                  .bits = dt__data(kept),
                                  .dy = dy,
                                  .d = ds,
                                  .sum = n > 1 ? db : NULL };
        c->kernels->mask_rows(&m);
        if (n > 1) return;
    } else {
        slope_of(c)(c->y->count, dt__data(kept), dy, ds);
    }
    if (db != NULL) sum_rows(c, ds, db);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    void *db = dx[BIAS] != NULL ? dt__data_mut(dx[BIAS]) : NULL;
    const void *ds = dt__data(dy);
    if (activation_of(c) != DT_ACT_NONE) {
        void *to = dx[RESIDUAL] != NULL ? dt__data_mut(dx[RESIDUAL])
                   : c->owns_dy         ? dt__data_mut((dt_tensor *)(uintptr_t)dy)
                                        : (char *)c->scratch + scratch_of_products(c);
        through_activation(c, ds, to, db);
        ds = to;
    } else {
        if (dx[RESIDUAL] != NULL && dx[RESIDUAL] != dy) dt__copy_tensor(dy, dx[RESIDUAL]);
        if (db != NULL) sum_rows(c, ds, db);
    }
    const dt__linear_part whole = dt__linear_whole(c, X, WEIGHT);
    dt__linear_backward(&whole, ds, dx[X] != NULL ? dt__data_mut(dx[X]) : NULL,
                        dx[WEIGHT] != NULL ? dt__data_mut(dx[WEIGHT]) : NULL);
}

static dt_precision precision(const dt_call *c, int i)
{
    return (void)c, i == X ? DT_BF16 : i == WEIGHT ? DT_ROUNDED : DT_EXACT;
}

/* ---- the op ---------------------------------------------------------------------------------- */

dt_tensor *dt__activated(dt_tape *t, dt_tensor *x, int activation)
{
    typedef dt_tensor *function(dt_tape * t, dt_tensor * x);
    static function *const functions[] = { NULL,         dt_relu,       NULL,    NULL,
                                           dt_tanh,      dt_sigmoid,    dt_silu, dt_relu6,
                                           dt_hardswish, dt_hardsigmoid };
    if (activation == DT_ACT_NONE) return x;
    if (activation == DT_ACT_ELU) return dt_elu(t, x, 1);
    if (activation == DT_ACT_GELU) return dt_gelu(t, x, DT_GELU_ERF);
    if (activation == DT_ACT_GELU_TANH) return dt_gelu(t, x, DT_GELU_TANH);
    return functions[activation](t, x);
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt_tensor *x = in[X], *y, *weight = in[WEIGHT];
    const int64_t row[] = { 1, x->count };
    if (x->rank == 1) x = dt_reshape(t, x, 2, row);
    y = dt_matmul(t, x, dt_transpose(t, weight, 0, 1));
    if (in[X]->rank == 1) y = dt_reshape(t, y, 1, weight->dims);
    if (in[BIAS] != NULL) y = dt_add(t, y, in[BIAS]);
    if (in[RESIDUAL] != NULL) y = dt_add(t, y, in[RESIDUAL]);
    out[0] = dt__activated(t, y, ((const options *)given)->activation);
}

const dt_op dt__op_linear = {
    .name = "linear",
    .text = "y = activation(x W^T + bias + residual)",
    .in_name = { "x", "weight", "bias", "residual" },
    .out_name = { "y", "kept" },
    .role = { DT_CODES, DT_CODES, DT_READ, DT_READ },
    .ungrouped = true,
    .optional = { [BIAS] = true, [RESIDUAL] = true },
    .over_dy = { [RESIDUAL] = true },
    .saves = { .arg = { DT_VALUE, DT_VALUE }, .out = { DT_NOTHING, DT_VALUE } },
    .saves_coded = { .arg = { DT_SAVE_CODES, DT_SAVE_CODES }, .out = { DT_NOTHING, DT_VALUE } },
    DT__OP_OPTIONS(options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .forward_codes = forward,
    .takes_codes = dt__linear_takes_codes,
    .precision = precision,
    .backward = backward,
    .scratch = scratch,
    .lower = lower,
};

dt_tensor *dt_linear_act(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                         const dt_linear_after *after)
{
    const dt_linear_after a = after != NULL ? *after : (dt_linear_after){ DT_ACT_NONE, NULL };
    dt_tensor *in[] = { x, weight, bias, a.residual };
    const int n = a.residual != NULL ? 4 : bias != NULL ? 3 : 2;
    const options with = { a.activation };
    return dt_apply(t, &dt__op_linear, in, n, a.activation == DT_ACT_NONE ? NULL : &with);
}

dt_tensor *dt_linear(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias)
{
    return dt_linear_act(t, x, weight, bias, NULL);
}

#define THEN(activation) DT__WITH(options, activation)

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 2 }, .given = true, .values = { 2, 3 } },
              { { 2, 2 }, .given = true, .values = { 1, 0, -1, 4 } },
              { { 2 }, .given = true, .values = { 0.5, 1 } } },
      .n_y = 2, .y = { 2.5, 11 } },
    { "no bias", .in = { { { 5, 7 } }, { { 4, 7 } } } },
    { "rank 3", .in = { { { 2, 3, 9 } }, { { 5, 9 } }, { { 5 } } } },
    { "rank 1", .in = { { { 6 } }, { { 5, 6 } }, { { 5 } } } },
    { "many rows", .in = { { { 96, 160 } }, { { 140, 160 } }, { { 140 } } }, .rough = true },
    { "no rows", .in = { { { 0, 6 } }, { { 5, 6 } }, { { 5 } } } },
    { "no features", .in = { { { 3, 0 }, 2 }, { { 2, 0 }, 2 }, { { 2 } } } },
    { "features", .in = { { { 2, 3 } }, { { 5, 4 } } }, .fails = DT_ERR_SHAPE,
      .says = "x has 3 features, weight takes 4" },
    { "bias", .in = { { { 2, 3 } }, { { 5, 3 } }, { { 4 } } }, .fails = DT_ERR_SHAPE,
      .says = "bias must be [5]" },
    { "weight's rank", .in = { { { 2, 3 } }, { { 3 } } }, .fails = DT_ERR_SHAPE, .says = "rank" },
    { "integers", .in = { { { 2, 3 }, .dtype = DT_I32 }, { { 5, 3 } } }, .fails = DT_ERR_DTYPE },
    { "relu",
      .in = { { { 1, 2 }, .given = true, .values = { 2, 3 } },
              { { 2, 2 }, .given = true, .values = { 1, 0, -1, -4 } },
              { { 2 }, .given = true, .values = { 0.5, 1 } } },
      .options = THEN(DT_ACT_RELU), .n_y = 2, .y = { 2.5, 0 } },
    { "residual and relu",
      .in = { { { 1, 2 }, .given = true, .values = { 2, 3 } },
              { { 2, 2 }, .given = true, .values = { 1, 0, -1, -4 } },
              { { 2 }, .given = true, .values = { 0.5, 1 } },
              { { 1, 2 }, .given = true, .values = { -4, 14 } } },
      .options = THEN(DT_ACT_RELU), .n_y = 2, .y = { 0, 1 } },
    { "residual", .in = { { { 3, 4 } }, { { 5, 4 } }, { { 5 } }, { { 3, 5 } } } },
    { "residual alone", .in = { { { 3, 4 } }, { { 5, 4 } }, { .absent = true }, { { 3, 5 } } },
      .options = THEN(DT_ACT_GELU) },
    { "relu alone", .in = { { { 5, 7 } }, { { 13, 7 } } }, .options = THEN(DT_ACT_RELU) },
    { "one output", .in = { { { 9, 7 } }, { { 1, 7 } }, { { 1 } } }, .options = THEN(DT_ACT_RELU) },
    { "gelu", .in = { { { 5, 7 } }, { { 4, 7 } }, { { 4 } } }, .options = THEN(DT_ACT_GELU) },
    { "gelu by tanh", .in = { { { 2, 3, 6 } }, { { 5, 6 } }, { { 5 } }, { { 2, 3, 5 } } },
      .options = THEN(DT_ACT_GELU_TANH) },
    { "tanh", .in = { { { 5, 7 } }, { { 4, 7 } }, { { 4 } } }, .options = THEN(DT_ACT_TANH) },
    { "sigmoid", .in = { { { 5, 7 } }, { { 4, 7 } }, { { 4 } }, { { 5, 4 } } },
      .options = THEN(DT_ACT_SIGMOID) },
    { "silu", .in = { { { 5, 7 } }, { { 4, 7 } }, { { 4 } } }, .options = THEN(DT_ACT_SILU) },
    { "relu6", .in = { { { 5, 7 } }, { { 4, 7 } }, { { 4 } } }, .options = THEN(DT_ACT_RELU6) },
    { "hardswish", .in = { { { 5, 7 } }, { { 4, 7 } }, { { 4 } }, { { 5, 4 } } },
      .options = THEN(DT_ACT_HARDSWISH) },
    { "hardsigmoid", .in = { { { 5, 7 } }, { { 4, 7 } }, { { 4 } } },
      .options = THEN(DT_ACT_HARDSIGMOID) },
    { "elu", .in = { { { 5, 7 } }, { { 4, 7 } }, { { 4 } } }, .options = THEN(DT_ACT_ELU) },
    { "many rows and relu",
      .in = { { { 150, 60 } }, { { 140, 60 } }, { { 140 } }, { { 150, 140 } } },
      .options = THEN(DT_ACT_RELU), .rough = true },
    { "no rows and relu", .in = { { { 0, 6 } }, { { 5, 6 } }, { { 5 } } },
      .options = THEN(DT_ACT_RELU) },
    { "no features and gelu", .in = { { { 3, 0 }, 2 }, { { 2, 0 }, 2 }, { { 2 } } },
      .options = THEN(DT_ACT_GELU) },
    { "residual's shape", .in = { { { 2, 3 } }, { { 5, 3 } }, { .absent = true }, { { 2, 3 } } },
      .fails = DT_ERR_SHAPE, .says = "residual must be [2,5]" },
    { "activation", .in = { { { 2, 3 } }, { { 5, 3 } } }, .options = THEN(11), .fails = DT_ERR_ARG,
      .says = "activation is 11" },
};
DT__CASES(linear, cases)
