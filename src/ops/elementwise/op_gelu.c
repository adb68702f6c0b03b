/* The Gaussian error linear unit, element by element (Hendrycks and Gimpel 2016).
 *     erf:   y = x (1 + erf(x / sqrt 2)) / 2
 *     tanh:  y = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 */
#include "autograd/op.h"
#include "ops/ops_list.h"

typedef struct options {
    int approximate;
} options;

static const options defaults = { DT_GELU_ERF };
static const char *const forms[] = { "none", "tanh", NULL };

static const dt_key keys[] = {
    { "approximate", DT_KEY_CHOICE, .offset = offsetof(options, approximate), .choices = forms,
      .fallback = "none" },
    { 0 },
};

static bool by_tanh(const dt_call *c)
{
    return ((const options *)c->options)->approximate == DT_GELU_TANH;
}

static dt_status shape(dt_call *c)
{
    const options *o = c->options;
    if (o->approximate != DT_GELU_ERF && o->approximate != DT_GELU_TANH) {
        return dt_refuse(c, DT_ERR_ARG, "approximate is %d; expected DT_GELU_ERF or DT_GELU_TANH",
                         o->approximate);
    }
    return dt__shape_like(c, 0);
}

static void forward(const dt_call *c)
{
    const void *x = dt__data(c->arg[0]);
    if (by_tanh(c)) c->kernels->gelu_tanh(dt__count(c->y), x, dt__data_mut(c->y));
    else c->kernels->gelu_erf(dt__count(c->y), x, dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const void *x = dt__data(c->arg[0]), *up = dt__data(dy);
    if (by_tanh(c)) c->kernels->gelu_tanh_backward(dt__count(dy), x, up, dt__data_mut(dx[0]));
    else c->kernels->gelu_erf_backward(dt__count(dy), x, up, dt__data_mut(dx[0]));
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt_tensor *x = in[0];
    if (((const options *)given)->approximate == DT_GELU_ERF) {
        dt_tensor *erf = dt_erf(t, dt_mul(t, x, dt_number(t, x, 0.70710678118654752440)));
        dt_tensor *y = dt_mul(t, x, dt_add(t, erf, dt_number(t, x, 1)));
        out[0] = dt_mul(t, y, dt_number(t, x, 0.5));
        return;
    }
    dt_tensor *cube = dt_mul(t, dt_mul(t, dt_mul(t, x, dt_number(t, x, 0.044715)), x), x);
    dt_tensor *u = dt_mul(t, dt_add(t, x, cube), dt_number(t, x, 1.59576912160573071176));
    out[0] = dt_mul(t, x, dt_sigmoid(t, u));
}

const dt_op dt__op_gelu = {
    .name = "gelu",
    .text = "y = x (1 + erf(x / sqrt 2)) / 2, or the same by tanh",
    .in_name = { "x" },
    .out_name = { "y" },
    .saves = { .arg = { DT_VALUE } },
    DT__OP_OPTIONS(options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .over_dy = { true },
    .lower = lower,
};

dt_tensor *dt_gelu(dt_tape *t, dt_tensor *x, int approximate)
{
    return dt_apply(t, &dt__op_gelu, DT__CALL_WITH(&(options){ approximate }, x));
}

#define FORM(form) DT__WITH(options, form)

static const dt__case cases[] = {
    { "erf", .in = { { { 3 }, .given = true, .values = { -1, 0, 2 } } }, .n_y = 3,
      .y = { -0.15865525393145707, 0, 1.9544997361036416 } },
    { "tanh", .in = { { { 3 }, .given = true, .values = { -1, 0, 2 } } },
      .options = FORM(DT_GELU_TANH), .n_y = 3,
      .y = { -0.15880800939172324, 0, 1.954597694087775 } },
    { "far out", .in = { { { 4 }, .given = true, .values = { -60, -9, 9, 60 } } }, .n_y = 4,
      .y = { 0, 0, 9, 60 } },
    { "far out by tanh", .in = { { { 4 }, .given = true, .values = { -60, -9, 9, 60 } } },
      .options = FORM(DT_GELU_TANH), .n_y = 4, .y = { 0, 0, 9, 60 } },
    { "random", .in = { { { 2, 3, 4 }, .low = -3, .high = 3 } } },
    { "random by tanh", .in = { { { 2, 3, 4 }, .low = -3, .high = 3 } },
      .options = FORM(DT_GELU_TANH) },
    { "empty", .in = { { { 0, 3 } } } },
    { "form", .in = { { { 3 } } }, .options = FORM(2), .fails = DT_ERR_ARG,
      .says = "approximate is 2" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(gelu, cases)
