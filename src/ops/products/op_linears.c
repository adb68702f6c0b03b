/* Several linear layers with the same input, without gradients.
 *     y_i = x W_i^T + b_i
 * Each part is a call of linear, with its shape function, forward and bits. Integer products, and
 * those of few rows of floats by codes, run as one product over the panels of all weights, with one
 * parallel region: decoding one token is bound by reading weights and synchronizing threads. */
#include "ops/products/linear_codes.h"
#include "ops/ops_list.h"

enum { X };

static int parts(const dt_call *c) { return (c->n_in - 1) / 2; }
static int weight_of(int part) { return 1 + 2 * part; }

/* Makes part i a call of linear. */
static dt_call part_of(const dt_call *c, int i)
{
    const int from[] = { X, weight_of(i), weight_of(i) + 1 };
    dt_call p = { .ctx = c->ctx,
                  .tape = c->tape,
                  .op = c->op,
                  .kernels = c->kernels,
                  .options = dt__op_linear.defaults,
                  .n_in = DT__COUNT_OF(from),
                  .scratch = c->scratch };
    for (int k = 0; k < p.n_in; k++) {
        p.in[k] = c->in[from[k]];
        p.arg[k] = c->arg[from[k]];
        p.codes[k] = c->codes[from[k]];
        p.coded = p.coded || p.codes[k] != NULL;
    }
    p.out[0] = c->out[i];
    return p;
}

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 3, 1 + 2 * DT_MAX_OUT));
    if (c->n_in % 2 == 0)
        return dt_refuse(c, DT_ERR_ARG,
                         "expected a weight and its bias for each part; the last bias is missing");
    for (int i = 0; i < parts(c); i++) {
        dt_call p = part_of(c, i);
        const dt_status s = dt__op_linear.shape(&p);
        c->out[i] = p.out[0];
        c->n_out = i + 1;
        if (p.scratch_bytes > c->scratch_bytes) c->scratch_bytes = p.scratch_bytes;
        DT__TRY(s);
    }
    return DT_OK;
}

static bool takes_codes(const dt_call *c, int i) { return dt__op_linear.takes_codes(c, i); }

static void forward(const dt_call *c)
{
    for (int i = 0; i < parts(c); i++) {
        const dt_call p = part_of(c, i);
        dt__op_linear.forward(&p);
    }
}

/* Runs part i and all later parts that can join it; marks them in done[]. */
static void run_alike(const dt_call *c, int i, bool done[DT_MAX_OUT])
{
    dt_call same[DT_MAX_OUT];
    int n = 0;
    for (int k = i; k < parts(c); k++) {
        same[n] = part_of(c, k);
        if (done[k] || (n > 0 && !dt__linear_joins(&same[0], &same[n]))) continue;
        done[k] = true;
        n++;
    }
    if (n > 1) {
        dt__linears_product_codes(same, n);
    } else if (same[0].coded) {
        dt__op_linear.forward_codes(same);
    } else {
        dt__op_linear.forward(same);
    }
}

static void forward_codes(const dt_call *c)
{
    bool done[DT_MAX_OUT] = { false };
    for (int i = 0; i < parts(c); i++) {
        if (!done[i]) run_alike(c, i, done);
    }
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    (void)given;
    for (int i = 0; i < DT_MAX_OUT && in[weight_of(i)] != NULL; i++) {
        out[i] = dt_linear(t, in[X], in[weight_of(i)], in[weight_of(i) + 1]);
    }
}

const dt_op dt__op_linears = {
    .name = "linears",
    .text = "y_i = x W_i^T + bias_i",
    .in_name = { "x", "weight", "bias", "weight 1", "bias 1", "weight 2", "bias 2", "weight 3",
                 "bias 3" },
    .out_name = { "y", "y 1", "y 2", "y 3" },
    .role = { DT_CODES, DT_CODES, DT_READ, DT_CODES, DT_READ, DT_CODES, DT_READ, DT_CODES,
              DT_READ },
    .ungrouped = true,
    .optional = { [2] = true, [4] = true, [6] = true, [8] = true },
    .shape = shape,
    .forward = forward,
    .forward_codes = forward_codes,
    .takes_codes = takes_codes,
    .lower = lower,
};

static dt_status check(dt_tape *t, const dt_tensor *x, const dt_linear_part *part, int n)
{
    if (n < 1 || n > DT_MAX_OUT) {
        return dt_tape_fail(t, DT_ERR_ARG, "linears: %d weights given, expected 1...%d", n,
                            DT_MAX_OUT);
    }
    bool wants = x != NULL && dt_requires_grad(x);
    for (int i = 0; i < n; i++) {
        wants = wants || (part[i].weight != NULL && dt_requires_grad(part[i].weight)) ||
                (part[i].bias != NULL && dt_requires_grad(part[i].bias));
    }
    if (t->no_grad || !wants) return DT_OK;
    return dt_tape_fail(t, DT_ERR_STATE, "linears: has no gradient; dt_linear has");
}

dt_status dt_linears(dt_tape *t, dt_tensor *x, const dt_linear_part *part, int n, dt_tensor **y)
{
    if (n > 0) DT__NEED(dt_tape_ctx(t), part);
    DT__NEED(dt_tape_ctx(t), y);
    for (int i = 0; i < n; i++) y[i] = NULL;
    if (t == NULL) return DT_ERR_ARG;
    if (t->status != DT_OK || check(t, x, part, n) != DT_OK) return t->status;
    dt_tensor *in[1 + 2 * DT_MAX_OUT] = { x };
    for (int i = 0; i < n; i++) {
        in[weight_of(i)] = part[i].weight;
        in[weight_of(i) + 1] = part[i].bias;
    }
    return dt_apply_n(t, &dt__op_linears, in, 1 + 2 * n, NULL, y, n);
}

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 2 }, .given = true, .values = { 2, 3 } },
              { { 2, 2 }, .given = true, .values = { 1, 0, -1, 4 } },
              { { 2 }, .given = true, .values = { 0.5, 1 } },
              { { 2, 2 } },
              { { 2 } } },
      .n_y = 2, .y = { 2.5, 11 } },
    { "one", .in = { { { 2, 3, 9 } }, { { 5, 9 } }, { { 5 } } } },
    { "three",
      .in = { { { 5, 7 } },
              { { 4, 7 } },
              { { 4 } },
              { { 6, 7 } },
              { .absent = true },
              { { 1, 7 } },
              { .absent = true } },
      .n_in = 7 },
    { "no rows", .in = { { { 0, 6 } }, { { 5, 6 } }, { { 5 } }, { { 3, 6 } }, { { 3 } } } },
    { "features", .in = { { { 2, 3 } }, { { 5, 4 } }, { { 5 } } }, .fails = DT_ERR_SHAPE,
      .says = "x has 3 features, weight takes 4" },
    { "bias is missing", .in = { { { 2, 3 } }, { { 5, 3 } }, { { 5 } }, { { 5, 3 } } },
      .fails = DT_ERR_ARG, .says = "last bias is missing" },
    { "integers", .in = { { { 2, 3 }, .dtype = DT_I32 }, { { 5, 3 } }, { { 5 } } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(linears, cases)
