/* A plugin with a loss and a metric of values. */
#include <detent/experimental/plugin.h>

#include <math.h>

/* The sum of (y - target)^4. */
static dt_tensor *sum(dt_tape *t, dt_tensor *y, dt_tensor *target, void *user)
{
    (void)user;
    dt_tensor *error = dt_sub(t, y, target), *square = dt_mul(t, error, error);
    return dt_sum(t, dt_mul(t, square, square), NULL);
}

static const dt_loss quartic = {
    .name = "quartic", .text = "the fourth power", .target = DT_TARGET_VALUES, .sum = sum
};

static void add(void *state, const float *y, int64_t n, const void *target)
{
    double *most = state;
    for (int64_t i = 0; i < n; i++) {
        *most = fmax(*most, fabs((double)y[i] - ((const float *)target)[i]));
    }
}

static double value(const void *state) { return *(const double *)state; }

static const dt_own_metric worst = {
    .metric = { .name = "worst", .title = "worst", .scale = 1, .decimals = 3 },
    .target = DT_TARGET_VALUES,
    .state_size = sizeof(double),
    .add = add,
    .value = value
};

static dt_status start(dt_ctx *ctx)
{
    const dt_status s = dt_loss_register(ctx, &quartic);
    return s == DT_OK ? dt_metric_register(ctx, &worst) : s;
}

DT_PLUGIN("values", "a loss and a metric", start)
