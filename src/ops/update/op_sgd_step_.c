/* A step of gradient descent with momentum, in place, in one pass.
 *     g += decay p;  buffer = momentum buffer + (1-dampening) g, at step 1: g
 *     p -= lr (nesterov ? g + momentum buffer : buffer)
 * Without a buffer there is no momentum: p -= lr g. */
#include "ops/ops_list.h"
#include "ops/update/step.h"

#define AT(field) .offset = offsetof(dt_sgd_step_options, field)

static const dt_key keys[] = {
    { "lr", DT_KEY_REAL, AT(lr), .most = DT_NO_LIMIT, .fallback = "1e-3" },
    { "momentum", DT_KEY_REAL, AT(momentum), .most = 1, .fallback = "0" },
    { "dampening", DT_KEY_REAL, AT(dampening), .most = 1, .fallback = "0" },
    { "weight_decay", DT_KEY_REAL, AT(weight_decay), .most = DT_NO_LIMIT, .fallback = "0" },
    { "nesterov", DT_KEY_BOOL, AT(nesterov), .fallback = "false" },
    { "step", DT_KEY_INT, AT(step), .least = 1, .most = DT_NO_LIMIT, .fallback = "1" },
    { "grad_factor", DT_KEY_REAL, AT(grad_factor), .most = DT_NO_LIMIT, .fallback = "1" },
    { 0 },
};

static const dt_sgd_step_options defaults = { .lr = 1e-3, .step = 1, .grad_factor = 1 };

static dt_status shape(dt_call *c)
{
    const dt_sgd_step_options *o = c->options;
    DT__TRY(dt__step_shape(c, 2, 3));
    if (o->step < 1) return dt_refuse(c, DT_ERR_ARG, "step is %lld, below 1", (long long)o->step);
    if (c->n_in == 2 && o->momentum != 0) {
        return dt_refuse(c, DT_ERR_ARG, "momentum %g requires a buffer", o->momentum);
    }
    return DT_OK;
}

static void part(const dt_call *c, const void *step, const dt__part *part)
{
    dt__sgd s = *(const dt__sgd *)step;
    s.n = part->n;
    s.p = dt__part_of(c, 0, part);
    s.g = dt__part_of(c, 1, part);
    s.buffer = c->n_in == 3 ? dt__part_of(c, 2, part) : NULL;
    c->kernels->sgd(&s);
}

static void forward(const dt_call *c)
{
    const dt_sgd_step_options *o = c->options;
    const dt__sgd step = { .factor = dt__step_factor(o->grad_factor),
                           .lr = o->lr,
                           .momentum = o->momentum,
                           .dampening = o->dampening,
                           .decay = o->weight_decay,
                           .nesterov = o->nesterov,
                           .first = o->step == 1 };
    dt__step_run(c, part, &step);
}

const dt_op dt__op_sgd_step_ = {
    .name = "sgd_step_",
    .text = "g += decay p; buffer = momentum buffer + (1-dampening) g; p -= lr buffer",
    .in_name = { "p", "g", "buffer" },
    .role = { DT_WRITE, DT_READ, DT_WRITE },
    DT__OP_OPTIONS(dt_sgd_step_options, defaults, keys),
    .shape = shape,
    .forward = forward,
};

dt_tensor *dt_sgd_step_(dt_tape *t, dt_tensor *p, dt_tensor *g, dt_tensor *buffer,
                        const dt_sgd_step_options *options)
{
    return dt_apply(t, &dt__op_sgd_step_, (dt_tensor *[]){ p, g, buffer }, buffer != NULL ? 3 : 2,
                    options);
}

#define WITH(...) DT__WITH(dt_sgd_step_options, __VA_ARGS__)
#define P DT__GIVEN(DT__LIST(2), 1, -2)
#define G DT__GIVEN(DT__LIST(2), 0.5, -3)
#define BUFFER DT__GIVEN(DT__LIST(2), 4, 8)

static const dt__case cases[] = {
    { "plain", .in = { P, G }, .options = WITH(.lr = 0.5, .weight_decay = 1, .step = 3), .n_y = 2,
      .y = { 0.25, 0.5 } },
    { "first", .in = { P, G, BUFFER },
      .options = WITH(.lr = 0.5, .momentum = 0.5, .dampening = 0.9, .step = 1), .n_y = 2,
      .y = { 0.75, -0.5 } },
    { "later", .in = { P, G, BUFFER },
      .options = WITH(.lr = 0.5, .momentum = 0.5, .dampening = 0.5, .step = 2), .n_y = 2,
      .y = { -0.125, -3.25 } },
    { "nesterov", .in = { P, G, BUFFER },
      .options = WITH(.lr = 0.5, .momentum = 0.5, .nesterov = true, .step = 2), .n_y = 2,
      .y = { 0.125, -0.75 } },
    { "random", .in = { { { 3, 7 } }, { { 3, 7 } }, { { 3, 7 } } },
      .options = WITH(.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .step = 5) },
    { "long", .in = { { { 200, 201 } }, { { 200, 201 } }, { { 200, 201 } } } },
    { "empty", .in = { { { 0, 3 } }, { { 0, 3 } } } },
    { "shape", .in = { { { 3 } }, { { 4 } } }, .fails = DT_ERR_SHAPE, .says = "g must be [3]" },
    { "no buffer", .in = { P, G }, .options = WITH(.momentum = 0.5, .step = 1), .fails = DT_ERR_ARG,
      .says = "requires a buffer" },
    { "step", .in = { P, G }, .options = WITH(.step = 0), .fails = DT_ERR_ARG,
      .says = "step is 0" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 }, { { 3 } } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(sgd_step_, cases)
