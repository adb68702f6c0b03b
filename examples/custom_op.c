/* custom_op.c: an operator of one's own, softplus with a slope:
 *     y = log(1 + exp(k x)) / k      dx = dy / (1 + exp(-k x))
 * and a check of its gradient by central differences. The exit status says whether they agree. */
#include <detent/experimental/ops.h>

#include <math.h>
#include <stdio.h>

typedef struct softplus_options {
    double slope; /* k */
} softplus_options;

/* The shape rule refuses what does not fit and makes the result. */
static dt_status shape(dt_call *c)
{
    const softplus_options *o = c->options;
    const dt_tensor *x = c->in[0];
    if (dt_dtype_of(x) != DT_F64) return dt_refuse(c, DT_ERR_DTYPE, "x must be f64");
    if (!(o->slope > 0.0))
        return dt_refuse(c, DT_ERR_ARG, "the slope is %g, not above 0", o->slope);
    int64_t dims[DT_MAX_RANK];
    for (int i = 0; i < dt_rank(x); i++) dims[i] = dt_dim(x, i);
    return dt_result(c, 0, DT_F64, dt_rank(x), dims);
}

static void forward(const dt_call *c)
{
    const double k = ((const softplus_options *)c->options)->slope;
    const double *x = dt_data(c->arg[0]);
    double *y = dt_data_mut(c->y);
    for (int64_t i = 0; i < dt_count(c->y); i++) y[i] = log1p(exp(k * x[i])) / k;
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const double k = ((const softplus_options *)c->options)->slope;
    const double *x = dt_data(c->arg[0]), *up = dt_data(dy);
    double *down = dt_data_mut(dx[0]);
    for (int64_t i = 0; i < dt_count(dy); i++) down[i] = up[i] / (1.0 + exp(-k * x[i]));
}

static const softplus_options defaults = { .slope = 1.0 };

/* Backward wants x again, so `saves` says that its value is kept; everything else is freed. */
static const dt_op softplus_op = {
    .name = "softplus",
    .in_name = { "x" },
    .out_name = { "y" },
    .saves = { .arg = { DT_VALUE } },
    .options_size = sizeof(softplus_options),
    .defaults = &defaults,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

static dt_tensor *softplus(dt_tape *t, dt_tensor *x, double slope)
{
    return dt_apply(t, &softplus_op, &x, 1, &(softplus_options){ slope });
}

/* ---- the check ------------------------------------------------------------------------------- */

#define COUNT 6

/* The sum of softplus(x)^2: its upstream gradient differs from element to element. */
static dt_tensor *loss_of(dt_tape *t, dt_tensor *x)
{
    return dt_sum(t, dt_square(t, softplus(t, x, 2.0)), NULL);
}

static double loss_at(dt_tape *t, dt_tensor *x, int i, double value)
{
    ((double *)dt_data_mut(x))[i] = value;
    dt_tape_reset(t);
    const dt_tensor *loss = loss_of(t, x);
    return loss == NULL ? (double)NAN : dt_item(loss);
}

/* The largest difference between the gradient and (f(x+h) - f(x-h)) / 2h. */
static double largest_error(dt_tape *t, dt_tensor *x)
{
    double gradient[COUNT], largest = 0.0;
    if (dt_backward(t, loss_of(t, x), NULL) != DT_OK) return (double)NAN;
    for (int i = 0; i < COUNT; i++) gradient[i] = ((const double *)dt_data(dt_grad(x)))[i];
    for (int i = 0; i < COUNT; i++) {
        const double h = 1e-6, here = ((const double *)dt_data(x))[i];
        const double above = loss_at(t, x, i, here + h), below = loss_at(t, x, i, here - h);
        const double difference = (above - below) / (2.0 * h);
        loss_at(t, x, i, here);
        printf("x = %5.2f: gradient %.9f, difference %.9f\n", here, gradient[i], difference);
        largest = fmax(largest, fabs(gradient[i] - difference));
    }
    return largest;
}

int main(void)
{
    static const double values[COUNT] = { -2.0, -0.5, 0.0, 0.25, 1.0, 3.0 };
    dt_ctx *ctx = NULL;
    dt_tape *t = NULL;
    dt_tensor *x = NULL;
    double error = (double)NAN;
    dt_status s = dt_ctx_create(&ctx, NULL);
    if (s == DT_OK) s = dt_tape_create(ctx, &t);
    if (s == DT_OK) s = dt_tensor_from(ctx, DT_F64, 1, (int64_t[]){ COUNT }, values, &x);
    if (s == DT_OK) s = dt_set_requires_grad(x, true);
    if (s == DT_OK) error = largest_error(t, x);
    if (!(error < 1e-7)) fprintf(stderr, "error %g: %s\n", error, dt_error(ctx));
    dt_tensor_free(x);
    dt_tape_free(t);
    dt_ctx_free(ctx);
    return error < 1e-7 ? 0 : 1;
}
