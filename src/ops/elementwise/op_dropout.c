/* Dropout (Srivastava 2014).      y = x / (1-p) with probability 1-p, else 0      dx likewise Word
 * k of the dropout stream, counted from the call's first word, decides element k. Backward
 * generates the same words again, so no mask is kept. */
#include "autograd/op.h"
#include "ops/ops_list.h"

typedef struct options {
    double p;
} options;

static const options defaults = { 0.5 };

static const dt_key keys[] = {
    { "p", DT_KEY_REAL, .offset = offsetof(options, p), .most = 1, .fallback = "0.5" },
    { 0 },
};

/* state[0] and state[1]: key and counter of the words */
static dt_status shape(dt_call *c)
{
    const options *o = c->options;
    if (!(o->p >= 0 && o->p <= 1)) return dt_refuse(c, DT_ERR_ARG, "p is %g, outside 0...1", o->p);
    DT__TRY(dt__shape_like(c, 0));
    const uint64_t blocks = (uint64_t)dt__ceil_div(c->y->count, 4);
    uint64_t key;
    const uint64_t counter = dt__tape_draw(c->tape, DT__FOR_DROPOUT, blocks, &key);
    c->state[0] = (int64_t)key;
    c->state[1] = (int64_t)counter;
    return DT_OK;
}

static dt__drop drop_of(const dt_call *c)
{
    const double p = ((const options *)c->options)->p;
    return (dt__drop){ .key = (uint64_t)c->state[0],
                       .counter = (uint64_t)c->state[1],
                       .threshold = (uint64_t)(p * 0x1p32),
                       .scale = p == 1 ? 0 : 1 / (1 - p) };
}

static void forward(const dt_call *c)
{
    const dt__drop d = drop_of(c);
    c->kernels->drop(dt__count(c->y), &d, dt__data(c->arg[0]), dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__drop d = drop_of(c);
    c->kernels->drop(dt__count(dy), &d, dt__data(dy), dt__data_mut(dx[0]));
}

const dt_op dt__op_dropout = {
    .name = "dropout",
    .text = "y = x / (1-p) with probability 1-p, else 0",
    .random = true,
    .in_name = { "x" },
    .out_name = { "y" },
    DT__OP_OPTIONS(options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .over_dy = { true },
};

dt_tensor *dt_dropout(dt_tape *t, dt_tensor *x, double p)
{
    return dt_apply(t, &dt__op_dropout, DT__CALL_WITH(&(options){ p }, x));
}

#define RATE(p) DT__WITH(options, p)

static const dt__case cases[] = {
    { "half", .in = { { { 5, 7 } } } },
    { "some", .in = { { { 3, 4, 5 } } }, .options = RATE(0.1) },
    { "none", .in = { { { 3 }, .given = true, .values = { 1, -2, 3 } } }, .options = RATE(0),
      .n_y = 3, .y = { 1, -2, 3 } },
    { "all", .in = { { { 3 } } }, .options = RATE(1), .n_y = 3, .y = { 0, 0, 0 } },
    { "long", .in = { { { 40003 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } } } },
    { "rate", .in = { { { 3 } } }, .options = RATE(1.5), .fails = DT_ERR_ARG, .says = "p is 1.5" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(dropout, cases)
