/* A step of Lion, in place, in one pass (Chen et al. 2023, algorithm 2).
 *     p *= 1 - lr decay;  p -= lr sign(b1 m + (1-b1) g);  m = b2 m + (1-b2) g */
#include "ops/ops_list.h"
#include "ops/update/step.h"

#define AT(field) .offset = offsetof(dt_lion_step_options, field)

static const dt_key keys[] = {
    { "lr", DT_KEY_REAL, AT(lr), .most = DT_NO_LIMIT, .fallback = "1e-4" },
    { "beta1", DT_KEY_REAL, AT(beta1), .most = DT__BELOW_ONE, .fallback = "0.9" },
    { "beta2", DT_KEY_REAL, AT(beta2), .most = DT__BELOW_ONE, .fallback = "0.99" },
    { "weight_decay", DT_KEY_REAL, AT(weight_decay), .most = DT_NO_LIMIT, .fallback = "0" },
    { "grad_factor", DT_KEY_REAL, AT(grad_factor), .most = DT_NO_LIMIT, .fallback = "1" },
    { 0 },
};

static const dt_lion_step_options defaults = {
    .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99, .grad_factor = 1
};

static dt_status shape(dt_call *c)
{
    const dt_lion_step_options *o = c->options;
    DT__TRY(dt__step_shape(c, 3, 3));
    return dt__step_betas(c, o->beta1, o->beta2);
}

static void part(const dt_call *c, const void *step, const dt__part *part)
{
    dt__lion l = *(const dt__lion *)step;
    l.n = part->n;
    l.p = dt__part_of(c, 0, part);
    l.g = dt__part_of(c, 1, part);
    l.m = dt__part_of(c, 2, part);
    c->kernels->lion(&l);
}

static void forward(const dt_call *c)
{
    const dt_lion_step_options *o = c->options;
    const dt__lion step = { .factor = dt__step_factor(o->grad_factor),
                            .beta1 = o->beta1,
                            .beta2 = o->beta2,
                            .shrink = 1 - o->lr * o->weight_decay,
                            .lr = o->lr };
    dt__step_run(c, part, &step);
}

const dt_op dt__op_lion_step_ = {
    .name = "lion_step_",
    .text = "p *= 1 - lr decay; p -= lr sign(b1 m + (1-b1) g); m = b2 m + (1-b2) g",
    .in_name = { "p", "g", "m" },
    .role = { DT_WRITE, DT_READ, DT_WRITE },
    DT__OP_OPTIONS(dt_lion_step_options, defaults, keys),
    .shape = shape,
    .forward = forward,
};

dt_tensor *dt_lion_step_(dt_tape *t, dt_tensor *p, dt_tensor *g, dt_tensor *m,
                         const dt_lion_step_options *options)
{
    return dt_apply(t, &dt__op_lion_step_, DT__CALL_WITH(options, p, g, m));
}

#define WITH(...) DT__WITH(dt_lion_step_options, __VA_ARGS__)

static const dt__case cases[] = {
    { "first",
      .in = { { { 3 }, .given = true, .values = { 1, -2, 3 } },
              { { 3 }, .given = true, .values = { 0.5, -3, 0 } },
              { { 3 }, .given = true, .values = { 0, 0, 0 } } },
      .options = WITH(.lr = 0.125, .beta1 = 0.5, .beta2 = 0.5), .n_y = 3,
      .y = { 0.875, -1.875, 3 } },
    { "momentum decides",
      .in = { { { 2 }, .given = true, .values = { 1, 1 } },
              { { 2 }, .given = true, .values = { 1, 1 } },
              { { 2 }, .given = true, .values = { -0.5, -2 } } },
      .options = WITH(.lr = 0.25, .beta1 = 0.5, .beta2 = 0.5, .weight_decay = 2), .n_y = 2,
      .y = { 0.25, 0.75 } },
    { "later", .in = { { { 3, 5 } }, { { 3, 5 } }, { { 3, 5 } } },
      .options = WITH(.lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1) },
    { "long", .in = { { { 200, 201 } }, { { 200, 201 } }, { { 200, 201 } } } },
    { "empty", .in = { { { 0, 3 } }, { { 0, 3 } }, { { 0, 3 } } } },
    { "shape", .in = { { { 3 } }, { { 4 } }, { { 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "g must be [3]" },
    { "beta", .in = { { { 3 } }, { { 3 } }, { { 3 } } }, .options = WITH(.beta2 = 1),
      .fails = DT_ERR_ARG, .says = "beta2" },
    { "no mean", .in = { { { 3 } }, { { 3 } } }, .fails = DT_ERR_ARG, .says = "expected 3" },
    { "integers", .in = { { { 3 } }, { { 3 }, .dtype = DT_I32 }, { { 3 } } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(lion_step_, cases)
