/* Clamp to an interval, element by element.      y = min(max(x, min), max)
 *     dx = dy where min <= x <= max, else 0: closed at both ends */
#include "autograd/op.h"
#include "ops/ops_list.h"

#include <math.h>

typedef struct options {
    double min, max;
} options;

static const options defaults = { -INFINITY, INFINITY };

static const dt_key keys[] = {
    { "min", DT_KEY_REAL, .offset = offsetof(options, min) },
    { "max", DT_KEY_REAL, .offset = offsetof(options, max) },
    { 0 },
};

static dt_status shape(dt_call *c)
{
    const options *o = c->options;
    if (!(o->min <= o->max)) {
        return dt_refuse(c, DT_ERR_ARG, "min is %g and max %g; expected numbers, min at most max",
                         o->min, o->max);
    }
    return dt__shape_like(c, 0);
}

static void forward(const dt_call *c)
{
    const options *o = c->options;
    c->kernels->clamp(dt__count(c->y), o->min, o->max, dt__data(c->arg[0]), dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const options *o = c->options;
    c->kernels->clamp_backward(dt__count(dy), o->min, o->max, dt__data(c->arg[0]), dt__data(dy),
                               dt__data_mut(dx[0]));
}

const dt_op dt__op_clamp = {
    .name = "clamp",
    .text = "y = min(max(x, min), max); the derivative at a bound is 1",
    .in_name = { "x" },
    .out_name = { "y" },
    .saves = { .arg = { DT_VALUE } },
    DT__OP_OPTIONS(options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .over_dy = { true },
};

dt_tensor *dt_clamp(dt_tape *t, dt_tensor *x, double least, double most)
{
    return dt_apply(t, &dt__op_clamp, DT__CALL_WITH((&(options){ least, most }), x));
}

#define TO(...) DT__WITH(options, __VA_ARGS__)

static const dt__case cases[] = {
    { "both", .in = { { { 4 }, .given = true, .values = { -2, -1, 0.5, 3 } } },
      .options = TO(-1, 2), .n_y = 4, .y = { -1, -1, 0.5, 2 }, .rough = true },
    { "lower", .in = { { { 3, 7 } } }, .options = TO(0.25, INFINITY) },
    { "upper", .in = { { { 3, 7 } } }, .options = TO(-INFINITY, 0.25) },
    { "neither", .in = { { { 3, 7 } } } },
    { "empty", .in = { { { 0, 3 } } }, .options = TO(0, 1) },
    { "no interval", .in = { { { 3 } } }, .options = TO(1, -1), .fails = DT_ERR_ARG,
      .says = "min is 1 and max -1" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(clamp, cases)
