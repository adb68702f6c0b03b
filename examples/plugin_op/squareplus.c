/* squareplus.c: a plugin: a shared object with an op that detent lacks, squareplus [Barron 2021],
 *     y = (x + sqrt(x^2 + b)) / 2      dx = dy (1 + x / sqrt(x^2 + b)) / 2
 * a module type that runs it, and a family of networks with it. host.c loads it into a context. */
#include <detent/experimental/nn.h>
#include <detent/experimental/ops.h>

#include <math.h>
#include <stdio.h>

/* ---- the op ---------------------------------------------------------------------------------- */

typedef struct squareplus_options {
    double b;
} squareplus_options;

static dt_status shape(dt_call *c)
{
    int64_t dims[DT_MAX_RANK];
    const dt_tensor *x = c->in[0];
    if (dt_dtype_of(x) != DT_F32) return dt_refuse(c, DT_ERR_DTYPE, "x must be f32");
    for (int i = 0; i < dt_rank(x); i++) dims[i] = dt_dim(x, i);
    return dt_result(c, 0, DT_F32, dt_rank(x), dims);
}

static void forward(const dt_call *c)
{
    const float b = (float)((const squareplus_options *)c->options)->b, *x = dt_data(c->arg[0]);
    float *y = dt_data_mut(c->y);
    for (int64_t i = 0; i < dt_count(c->y); i++) y[i] = (x[i] + sqrtf(x[i] * x[i] + b)) / 2;
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const float b = (float)((const squareplus_options *)c->options)->b;
    const float *x = dt_data(c->arg[0]), *up = dt_data(dy);
    float *down = dt_data_mut(dx[0]);
    for (int64_t i = 0; i < dt_count(dy); i++)
        down[i] = up[i] * (1 + x[i] / sqrtf(x[i] * x[i] + b)) / 2;
}

static const squareplus_options defaults = { .b = 4.0 };

static const dt_op squareplus = {
    .name = "squareplus",
    .in_name = { "x" },
    .out_name = { "y" },
    .saves = { .arg = { DT_VALUE } },
    .options_size = sizeof(squareplus_options),
    .defaults = &defaults,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

/* ---- the module and the family --------------------------------------------------------------- */

static void run(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                int n_out)
{
    (void)m;
    (void)n_in;
    (void)n_out;
    out[0] = dt_apply(t, &squareplus, in, 1, &defaults);
}

static const dt_module_type squareplus_type = { .name = "squareplus", .forward = run };

typedef struct network_options {
    int64_t width;
} network_options;

static const dt_key keys[] = {
    { "width", DT_KEY_INT, offsetof(network_options, width), .least = 1, .most = 4096,
      .fallback = "64", .text = "extent of the hidden layers" },
    { 0 },
};

/* flatten, linear, squareplus, linear, squareplus, linear */
static dt_status create(dt_ctx *ctx, const void *options, dt_module **out)
{
    const int64_t w = ((const network_options *)options)->width;
    const int64_t extent[][2] = { { 784, w }, { w, w }, { w, 10 } };
    dt_module *m, *part = NULL;
    char name[8];
    dt_status s = dt_sequential_create(ctx, &m);
    for (int i = 0; i < 6 && s == DT_OK; i++) {
        snprintf(name, sizeof name, "%d", i);
        s = i == 0       ? dt_flatten_create(ctx, &part)
            : i % 2 == 1 ? dt_linear_create(ctx, extent[i / 2][0], extent[i / 2][1], true, &part)
                         : dt_module_create(ctx, &squareplus_type, 0, &part);
        if (s == DT_OK) s = dt_module_add(m, name, part);
    }
    if (s != DT_OK) dt_module_free(m);
    *out = s == DT_OK ? m : NULL;
    return s;
}

static const dt_family family = {
    .name = "squareplus",
    .text = "linear layers with squareplus between them",
    .keys = keys,
    .options_size = sizeof(network_options),
    .create = create,
};

/* What host.c looks for. */
DT_API dt_status detent_plugin(dt_ctx *ctx);

dt_status detent_plugin(dt_ctx *ctx) { return dt_family_register(ctx, &family); }
