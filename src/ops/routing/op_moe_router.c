/* Top-k routing. `index` has the top_k largest of p = softmax(logits) over the experts of a row.
 *     weights[i] = p[index[i]]; normalized: divided by the row's sum of them
 *     dlogits = p (d - sum of p d) with d = dweights at the chosen experts, else 0
 *     normalized: the same with weights in place of p, and 0 for experts that are not chosen
 * The index has no gradient. A logit that is not finite is NUMERIC, since choosing an expert by NaN
 * would hide that training diverged.
 *     Lepikhin et al. 2020 (capacity), Jiang et al. 2024 (Mixtral). */
#include "autograd/op.h"
#include "ops/ops_list.h"

#include <math.h>

#define AT(field) .offset = offsetof(dt_moe_router_options, field)

static const dt_key keys[] = {
    { "top_k", DT_KEY_INT, AT(top_k), .least = 1, .most = DT_NO_LIMIT, .fallback = "2" },
    { "normalize", DT_KEY_BOOL, AT(normalize), .fallback = "true" },
    { "capacity", DT_KEY_INT, AT(capacity), .most = DT_NO_LIMIT, .fallback = "0" },
    { 0 },
};

static const dt_moe_router_options defaults = { .top_k = 2, .normalize = true };

dt_moe_router_options dt_moe_router_defaults(void) { return defaults; }

static dt_status check_options(const dt_call *c)
{
    const dt_moe_router_options *o = c->options;
    const int64_t experts = dt__columns(c->in[0]);
    if (o->top_k < 1 || o->top_k > experts) {
        return dt_refuse(c, DT_ERR_ARG, "top_k is %lld, outside 1...%lld, the number of experts",
                         (long long)o->top_k, (long long)experts);
    }
    if (o->capacity < 0) {
        return dt_refuse(c, DT_ERR_ARG, "capacity is %lld, below 0", (long long)o->capacity);
    }
    return DT_OK;
}

static dt_status check_logits(const dt_call *c)
{
    const int64_t experts = dt__columns(c->in[0]);
    int64_t bad = -1;
    if (c->tape->shapes_only) return DT_OK;
    c->kernels->first_nonfinite(dt__count(c->arg[0]), dt__data(c->arg[0]), &bad);
    if (bad < 0) return DT_OK;
    return dt_refuse(c, DT_ERR_NUMERIC, "the logit of expert %lld in row %lld is not finite",
                     (long long)(bad % experts), (long long)(bad / experts));
}

static dt_status shape(dt_call *c)
{
    const dt_moe_router_options *o = c->options;
    DT__TRY(dt__want_operands(c, 1, 1));
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(dt__want_rank(c, 0, 1, DT_MAX_RANK));
    DT__TRY(check_options(c));
    DT__TRY(check_logits(c));
    const int64_t dims[2] = { dt__rows(c->in[0]), o->top_k };
    c->scratch_bytes = o->capacity > 0 ? (size_t)dt__columns(c->in[0]) * sizeof(int64_t) : 0;
    DT__TRY(dt_result(c, 0, c->in[0]->dtype, 2, dims));
    return dt_result(c, 1, DT_I32, 2, dims);
}

static dt__router problem(const dt_call *c)
{
    const dt_moe_router_options *o = c->options;
    return (dt__router){ .rows = dt__rows(c->arg[0]),
                         .n = dt__columns(c->arg[0]),
                         .top_k = o->top_k,
                         .normalize = o->normalize,
                         .x = dt__data(c->arg[0]),
                         .weights = dt__data_mut(c->out[0]) };
}

/* Accepts all first choices in row order, then all second choices, and so on; the index of a choice
 * whose expert is full becomes -1. */
static void drop(const dt__router *r, int64_t capacity, int64_t *taken)
{
    for (int64_t e = 0; e < r->n; e++) taken[e] = 0;
    for (int64_t i = 0; i < r->top_k; i++) {
        for (int64_t row = 0; row < r->rows; row++) {
            int32_t *expert = &r->index[row * r->top_k + i];
            if (taken[*expert] == capacity) *expert = -1;
            else taken[*expert]++;
        }
    }
}

static void forward(const dt_call *c)
{
    const dt_moe_router_options *o = c->options;
    dt__router r = problem(c);
    r.index = dt__data_mut(c->out[1]);
    c->kernels->moe_router(&r);
    if (o->capacity > 0) drop(&r, o->capacity, c->scratch);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__router r = problem(c);
    c->kernels->moe_router_backward(&r, dt__data(dy), dt__data_mut(dx[0]));
}

const dt_op dt__op_moe_router = {
    .name = "moe_router",
    .text = "the top_k largest of softmax(logits) over the experts, and their indices",
    .in_name = { "logits" },
    .out_name = { "weights", "index" },
    .saves = { .arg = { DT_VALUE }, .out = { DT_VALUE } },
    DT__OP_OPTIONS(dt_moe_router_options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_moe_router(dt_tape *t, dt_tensor *logits, const dt_moe_router_options *options,
                         dt_tensor **index)
{
    dt_tensor *out[2] = { NULL };
    dt_apply_n(t, &dt__op_moe_router, DT__CALL_WITH(options, logits), out, 2);
    if (index != NULL) *index = out[1];
    return out[0];
}

#define WITH(...) DT__WITH(dt_moe_router_options, __VA_ARGS__)

static const dt__case cases[] = {
    { "values", .in = { { { 2, 3 }, .given = true, .values = { 0, 2, 1, -1, -1, 3 } } },
      .options = WITH(.top_k = 2), .n_y = 4,
      .y = { 0.6652409557748219, 0.24472847105479767, 0.9646631559719039, 0.01766842201404805 },
      .rough = true },
    { "ties go to the lower", .in = { { { 4 }, .given = true, .values = { 5, 5, 5, 5 } } },
      .options = WITH(.top_k = 3, .normalize = true), .n_y = 3,
      .y = { 0.3333333333333333, 0.3333333333333333, 0.3333333333333333 }, .rough = true },
    { "far apart", .in = { { { 2, 2 }, .given = true, .values = { 0, -300, 1000, -1000 } } },
      .options = WITH(.top_k = 2, .normalize = true), .n_y = 4, .y = { 1, 0, 1, 0 },
      .rough = true },
    { "normalized", .in = { { { 2, 5, 7 }, .low = -3, .high = 3 } },
      .options = WITH(.top_k = 3, .normalize = true) },
    { "as they are", .in = { { { 9, 8 }, .low = -3, .high = 3 } }, .options = WITH(.top_k = 2) },
    { "one", .in = { { { 6, 4 }, .low = -3, .high = 3 } }, .options = WITH(.top_k = 1) },
    { "all", .in = { { { 6, 4 } } }, .options = WITH(.top_k = 4) },
    { "capacity", .in = { { { 7, 3 } } },
      .options = WITH(.top_k = 2, .normalize = true, .capacity = 3) },
    { "many experts", .in = { { { 5, 1100 }, .low = -3, .high = 3 } }, .options = WITH(.top_k = 4),
      .rough = true },
    { "many rows", .in = { { { 9000, 8 } } }, .options = WITH(.top_k = 2), .rough = true },
    { "no rows", .in = { { { 0, 3 } } } },
    { "more than there are", .in = { { { 2, 3 } } }, .options = WITH(.top_k = 4),
      .fails = DT_ERR_ARG, .says = "top_k is 4, outside 1...3, the number of experts" },
    { "none", .in = { { { 2, 3 } } }, .options = WITH(.top_k = 0), .fails = DT_ERR_ARG,
      .says = "top_k is 0" },
    { "negative capacity", .in = { { { 2, 3 } } }, .options = WITH(.top_k = 1, .capacity = -1),
      .fails = DT_ERR_ARG, .says = "capacity is -1" },
    { "not a number", .in = { { { 2, 3 }, .given = true, .values = { 1, 2, 3, 4, DT__NAN, 6 } } },
      .fails = DT_ERR_NUMERIC, .says = "the logit of expert 1 in row 1 is not finite" },
    { "infinite", .in = { { { 2 }, .given = true, .values = { 1, INFINITY } } },
      .fails = DT_ERR_NUMERIC, .says = "expert 1 in row 0" },
    { "integers", .in = { { { 2, 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
    { "a scalar", .in = { { .r = DT__SCALAR } }, .fails = DT_ERR_SHAPE, .says = "rank 0" },
};
DT__CASES(moe_router, cases)
