/* stochastic.c: a plugin with an optimizer, SGD whose weights stay on a grid by stochastic rounding
 * [Gupta et al. 2015, "Deep learning with limited numerical precision"]:
 *     v = (p - lr g) / grid      p = grid (floor(v) + (u < v - floor(v))),  u uniform in [0, 1)
 * so that the expected value of p is p - lr g, also where the step is smaller than the grid, which
 * rounding to nearest would lose. `eps` is the grid; u is a hash of element, update and value, so
 * that a run has the same bits every time, and after an interruption.
 *
 *     cc -shared -fPIC -O2 -I include examples/plugins/stochastic.c -o stochastic.so
 *     detent train examples/plugins/stochastic.yaml run.plugins=[./stochastic.so] */
#include <detent/experimental/ops.h>
#include <detent/experimental/plugin.h>

#include <math.h>
#include <string.h>

typedef struct step_options {
    double lr, grid;
    int64_t step;
} step_options;

static dt_status shape(dt_call *c)
{
    if (dt_dtype_of(c->in[0]) != DT_F32 || dt_dtype_of(c->in[1]) != DT_F32) {
        return dt_refuse(c, DT_ERR_DTYPE, "parameter and gradient must be f32");
    }
    if (dt_count(c->in[0]) == dt_count(c->in[1])) return DT_OK;
    return dt_refuse(c, DT_ERR_SHAPE, "a gradient of another shape");
}

/* SplitMix64 [Steele et al. 2014] of three numbers, as a number in [0, 1). */
static double uniform(int64_t i, int64_t step, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t z = (uint64_t)i * 0x9e3779b97f4a7c15u + (uint64_t)step * 0xd1b54a32d192ed03u + bits;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static void forward(const dt_call *c)
{
    const step_options *o = c->options;
    const float *g = dt_data(c->arg[1]);
    float *p = dt_data_mut(c->arg[0]);
    for (int64_t i = 0; i < dt_count(c->arg[0]); i++) {
        const double v = (p[i] - o->lr * g[i]) / o->grid, low = floor(v);
        p[i] = (float)(o->grid * (low + (uniform(i, o->step, p[i]) < v - low)));
    }
}

static const dt_op step_op = {
    .name = "stochastic_step_",
    .in_name = { "p", "g" },
    .role = { DT_WRITE, DT_READ },
    .options_size = sizeof(step_options),
    .shape = shape,
    .forward = forward,
};

static void apply(dt_tape *t, const dt_optimizer_options *o, const dt_parameter_update *u)
{
    const step_options step = { u->lr * u->factor, o->eps, u->step };
    dt_tensor *const in[] = { u->p, u->g };
    dt_apply(t, &step_op, in, 2, &step);
}

static const dt_own_optimizer optimizer = {
    .name = "stochastic",
    .text = "SGD with stochastic rounding to multiples of eps",
    .apply = apply,
};

static dt_status start(dt_ctx *ctx) { return dt_optimizer_register(ctx, &optimizer); }

DT_PLUGIN("stochastic", "SGD with stochastic rounding", start)
