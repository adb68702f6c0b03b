/* The factor by which a folded batch norm multiplies a weight.      factor = weight / sqrt(var +
 * eps)      per channel With `keep`, a factor that is 0 (or has no finite reciprocal) becomes 1 and
 * the weight gets no gradient there, so that one can divide by the factor. */
#include "ops/elementwise/binary.h"
#include "ops/ops_list.h"

static const dt_fold_factor_options defaults = { .eps = 1e-5 };

#define AT(field) .offset = offsetof(dt_fold_factor_options, field)

static const dt_key keys[] = {
    { "eps", DT_KEY_REAL, AT(eps), .most = 1, .fallback = "1e-5" },
    { "keep", DT_KEY_BOOL, AT(keep), .fallback = "false" },
    { 0 },
};

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 2, 2));
    for (int i = 0; i < 2; i++) DT__TRY(dt__want_float(c, i));
    DT__TRY(dt__want_rank(c, 0, 1, 1));
    DT__TRY(dt__want_dims(c, 1, 1, c->in[0]->dims));
    const dt_fold_factor_options *o = c->options;
    if (!(o->eps >= 0)) return dt_refuse(c, DT_ERR_ARG, "eps is %g, below 0", o->eps);
    DT__TRY(dt__shape_like(c, 0));
    return dt_result(c, 1, c->y->dtype, 1, c->y->dims);
}

static void forward(const dt_call *c)
{
    const dt_fold_factor_options *o = c->options;
    const dt__fold_factors f = { .n = dt__count(c->y),
                                 .eps = o->eps,
                                 .keep = o->keep,
                                 .weight = dt__data(c->arg[0]),
                                 .var = dt__data(c->arg[1]),
                                 .factor = dt__data_mut(c->y),
                                 .slope = dt__data_mut(c->out[1]) };
    c->kernels->fold_factor(&f);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    dt__zip_run(c->kernels->mul, dy, c->out[1], dy, dt__data_mut(dx[0]));
}

const dt_op dt__op_fold_factor = {
    .name = "fold_factor",
    .text = "factor = weight / sqrt(var + eps)",
    .in_name = { "weight", "var" },
    .out_name = { "factor", "slope" },
    .undifferentiable = { false, true },
    .saves = { .out = { DT_NOTHING, DT_VALUE } },
    DT__OP_OPTIONS(dt_fold_factor_options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_fold_factor(dt_tape *t, dt_tensor *weight, dt_tensor *var,
                          const dt_fold_factor_options *options)
{
    return dt_apply(t, &dt__op_fold_factor, DT__CALL_WITH(options, weight, var));
}

#define KEEP DT__WITH(dt_fold_factor_options, 0, true)

static const dt__case cases[] = {
    { "values",
      .in = { { { 3 }, .given = true, .values = { 2, 0, -3 } },
              { { 3 }, .given = true, .values = { 4, 1, 0.25 } } },
      .options = &(const dt_fold_factor_options){ 0, false }, .n_y = 3, .y = { 1, 0, -6 } },
    { "kept",
      .in = { { { 3 }, .given = true, .values = { 2, 0, -3 } },
              { { 3 }, .given = true, .values = { 4, 1, 0.25 } } },
      .options = KEEP, .n_y = 3, .y = { 1, 1, -6 }, .rough = true },
    { "random", .in = { { { 37 } }, { { 37 }, .low = 0.5, .high = 2 } } },
    { "empty", .in = { { { 0 }, 1 }, { { 0 }, 1 } } },
    { "channels", .in = { { { 3 } }, { { 2 } } }, .fails = DT_ERR_SHAPE,
      .says = "var must be [3]" },
    { "eps", .in = { { { 3 } }, { { 3 } } },
      .options = &(const dt_fold_factor_options){ -1, false }, .fails = DT_ERR_ARG,
      .says = "eps is -1" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 }, { { 3 } } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(fold_factor, cases)
