/* The load-balance loss of a router over E experts (Fedus et al. 2021; as in Hugging Face's
 * Mixtral).
 *     l = E sum over e of f[e] P[e],   P[e] the mean over rows of p = softmax(logits),
 *     f[e] = (rows that choose e, over all top_k choices) / rows, with count share divided by top_k
 *     dlogits = p (s - sum of p s),   s[e] = E f[e] dl / rows:  no gradient through f
 * f and P are means over the rows of all layers together. */
#include "autograd/op.h"
#include "ops/ops_list.h"

static const char *const counts[] = { "choices", "share", NULL };

#define AT(field) .offset = offsetof(dt_load_balance_options, field)

static const dt_key keys[] = {
    { "top_k", DT_KEY_INT, AT(top_k), .least = 1, .most = DT_NO_LIMIT, .fallback = "2" },
    { "count", DT_KEY_CHOICE, AT(count), .choices = counts, .fallback = "choices" },
    { 0 },
};

static const dt_load_balance_options defaults = { .top_k = 2 };

dt_load_balance_options dt_load_balance_defaults(void) { return defaults; }

static dt_status shape(dt_call *c)
{
    const dt_load_balance_options *o = c->options;
    DT__TRY(dt__want_operands(c, 1, 1));
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(dt__want_rank(c, 0, 2, DT_MAX_RANK));
    const dt_tensor *x = c->in[0];
    const int64_t experts = dt__columns(x);
    if (o->top_k < 1 || o->top_k > experts) {
        return dt_refuse(c, DT_ERR_ARG, "top_k is %lld, outside 1...%lld, the number of experts",
                         (long long)o->top_k, (long long)experts);
    }
    if (o->count != DT_COUNT_CHOICES && o->count != DT_COUNT_SHARE) {
        return dt_refuse(c, DT_ERR_ARG, "count is %d; expected DT_COUNT_CHOICES or DT_COUNT_SHARE",
                         o->count);
    }
    c->scratch_bytes = 3 * (size_t)(dt__router_parts(dt__rows(x)) * experts) * sizeof(double);
    DT__TRY(dt_result(c, 0, x->dtype, 0, NULL));
    return dt_result(c, 1, x->dtype, 1, &experts);
}

/* E f[e] / rows from the count of expert e; 0 if there are no rows. */
static double slope_of(const dt_call *c, double count)
{
    const dt_load_balance_options *o = c->options;
    const double rows = (double)dt__rows(c->arg[0]), experts = (double)dt__columns(c->arg[0]);
    const double f = rows == 0 ? 0 : count / rows;
    return rows == 0 ? 0 : experts * (o->count == DT_COUNT_SHARE ? f / (double)o->top_k : f) / rows;
}

static void forward(const dt_call *c)
{
    const dt_load_balance_options *o = c->options;
    const int64_t experts = dt__columns(c->arg[0]);
    double *part = c->scratch, loss = 0;
    c->kernels->router_load(&(dt__router_load){ .rows = dt__rows(c->arg[0]),
                                                .n = experts,
                                                .top_k = o->top_k,
                                                .x = dt__data(c->arg[0]),
                                                .part = part });
    for (int64_t e = 0; e < experts; e++) {
        const double slope = slope_of(c, part[experts + e]);
        loss += slope * part[e];
        c->kernels->fill(1, slope,
                         (char *)dt__data_mut(c->out[1]) +
                             (size_t)e * dt_dtype_size(c->out[1]->dtype));
    }
    c->kernels->fill(1, loss, dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__router_slope s = { .rows = dt__rows(c->arg[0]),
                                 .n = dt__columns(c->arg[0]),
                                 .x = dt__data(c->arg[0]),
                                 .slope = dt__data(c->out[1]),
                                 .dx = dt__data_mut(dx[0]) };
    c->kernels->router_slope(&s);
    c->kernels->scale(dt__count(dx[0]), dt__scalar(dy), s.dx, s.dx);
}

const dt_op dt__op_load_balance_loss = {
    .name = "load_balance_loss",
    .text =
        "E times the sum over experts e of f[e] P[e]: how often e is chosen, its mean probability",
    .in_name = { "logits" },
    .out_name = { "loss", "slope" },
    .saves = { .arg = { DT_VALUE }, .out = { DT_NOTHING, DT_VALUE } },
    DT__OP_OPTIONS(dt_load_balance_options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_load_balance_loss(dt_tape *t, dt_tensor *logits,
                                const dt_load_balance_options *options)
{
    return dt_apply(t, &dt__op_load_balance_loss, DT__CALL_WITH(options, logits));
}

#define WITH(...) DT__WITH(dt_load_balance_options, __VA_ARGS__)

static const dt__case cases[] = {
    { "even", .in = { { { 2, 2 }, .given = true, .values = { 1, -1, -1, 1 } } },
      .options = WITH(.top_k = 1), .n_y = 1, .y = { 1 } },
    { "one for all", .in = { { { 2, 2 }, .given = true, .values = { 300, 0, 300, 0 } } },
      .options = WITH(.top_k = 1), .n_y = 1, .y = { 2 } },
    { "share of two", .in = { { { 3, 2 }, .given = true, .values = { 1, 2, 3, 4, 6, 5 } } },
      .options = WITH(.top_k = 2, .count = DT_COUNT_SHARE), .n_y = 1, .y = { 1 } },
    { "layers", .in = { { { 2, 5, 4 }, .low = -2, .high = 2 } } },
    { "share", .in = { { { 9, 7 }, .low = -2, .high = 2 } },
      .options = WITH(.top_k = 3, .count = DT_COUNT_SHARE) },
    { "many experts", .in = { { { 5, 1100 } } }, .options = WITH(.top_k = 4), .rough = true },
    { "many rows", .in = { { { 9000, 8 } } }, .rough = true },
    { "no rows", .in = { { { 0, 3 } } }, .n_y = 1, .y = { 0 } },
    { "more than there are", .in = { { { 2, 3 } } }, .options = WITH(.top_k = 4),
      .fails = DT_ERR_ARG, .says = "top_k is 4, outside 1...3, the number of experts" },
    { "another count", .in = { { { 2, 3 } } }, .options = WITH(.top_k = 1, .count = 2),
      .fails = DT_ERR_ARG, .says = "count is 2" },
    { "rank", .in = { { { 3 } } }, .fails = DT_ERR_SHAPE, .says = "rank 1" },
    { "integers", .in = { { { 2, 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(load_balance_loss, cases)
