/* The update formulas; each is one fused in-place op, documented in ops.h.
 *     sgd       [Polyak 1964; Nesterov 1983, in the form of Sutskever et al. 2013]
 *     adam      [Kingma and Ba 2015, algorithm 1]      decay is added to the gradient
 *     adamw     [Loshchilov and Hutter 2019, algorithm 2]      decay shrinks the parameter
 *     lion      [Chen et al. 2023, algorithm 2]                likewise */
#include "optim/formulas.h"

#include <math.h>

static const char *name_of(const dt_optimizer_options *o)
{
    return o->name == DT_ADAM ? "adam" : o->name == DT_ADAMW ? "adamw" : "lion";
}

static bool below_one(double v) { return v >= 0.0 && v < 1.0; }

static int sgd_states(const dt_optimizer_options *o) { return o->momentum > 0.0 ? 1 : 0; }

static dt_status sgd_check(dt_ctx *ctx, const dt_optimizer_options *o)
{
    if (!below_one(o->momentum) || !(o->dampening >= 0.0 && o->dampening <= 1.0)) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "sgd: momentum %g must be in 0...1 without 1, dampening %g in 0...1",
                       o->momentum, o->dampening);
    }
    if (o->nesterov && (!(o->momentum > 0.0) || o->dampening > 0.0)) {
        return dt_fail(ctx, DT_ERR_ARG, "sgd: nesterov requires a momentum and no dampening");
    }
    return DT_OK;
}

static void sgd_apply(dt_tape *t, const dt_optimizer_options *o, const dt_parameter_update *u)
{
    const dt_sgd_step_options step = {
        .lr = u->lr,
        .momentum = o->momentum,
        .dampening = o->dampening,
        .weight_decay = u->weight_decay,
        .nesterov = o->nesterov,
        .step = u->step,
        .grad_factor = u->factor,
    };
    dt_sgd_step_(t, u->p, u->g, u->state[0], &step);
}

static int adam_states(const dt_optimizer_options *o)
{
    (void)o;
    return 2;
}

static dt_status betas_check(dt_ctx *ctx, const dt_optimizer_options *o, double eps)
{
    /* With eps 0 a gradient of 0 would give the update 0 / 0. */
    const bool fits = eps >= 1e-30 && isfinite(eps);
    if (below_one(o->beta1) && below_one(o->beta2) && fits) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG,
                   "%s: beta1 %g and beta2 %g must be in 0...1 without 1, eps %g at least 1e-30 "
                   "(dt_optimizer_defaults has the usual ones)",
                   name_of(o), o->beta1, o->beta2, eps);
}

static dt_status adam_check(dt_ctx *ctx, const dt_optimizer_options *o)
{
    return betas_check(ctx, o, o->eps);
}

static dt_adam_step_options adam_step(const dt_optimizer_options *o, const dt_parameter_update *u)
{
    return (dt_adam_step_options){ .lr = u->lr,
                                   .beta1 = o->beta1,
                                   .beta2 = o->beta2,
                                   .eps = o->eps,
                                   .weight_decay = u->weight_decay,
                                   .step = u->step,
                                   .grad_factor = u->factor };
}

static void adam_apply(dt_tape *t, const dt_optimizer_options *o, const dt_parameter_update *u)
{
    const dt_adam_step_options step = adam_step(o, u);
    dt_adam_step_(t, u->p, u->g, u->state[0], u->state[1], &step);
}

static void adamw_apply(dt_tape *t, const dt_optimizer_options *o, const dt_parameter_update *u)
{
    const dt_adam_step_options step = adam_step(o, u);
    dt_adamw_step_(t, u->p, u->g, u->state[0], u->state[1], &step);
}

static int lion_states(const dt_optimizer_options *o)
{
    (void)o;
    return 1;
}

static dt_status lion_check(dt_ctx *ctx, const dt_optimizer_options *o)
{
    return betas_check(ctx, o, 1); /* Lion has no eps */
}

static void lion_apply(dt_tape *t, const dt_optimizer_options *o, const dt_parameter_update *u)
{
    const dt_lion_step_options step = { .lr = u->lr,
                                        .beta1 = o->beta1,
                                        .beta2 = o->beta2,
                                        .weight_decay = u->weight_decay,
                                        .grad_factor = u->factor };
    dt_lion_step_(t, u->p, u->g, u->state[0], &step);
}

#define MOMENTS                                                                                    \
    {                                                                                              \
        "exp_avg", "exp_avg_sq"                                                                    \
    }

static const dt__update_formula formulas[DT_OWN_OPTIMIZER] = {
    [DT_SGD] = { "sgd", { "momentum" }, sgd_states, sgd_check, sgd_apply },
    [DT_ADAM] = { "adam", MOMENTS, adam_states, adam_check, adam_apply },
    [DT_ADAMW] = { "adamw", MOMENTS, adam_states, adam_check, adamw_apply },
    [DT_LION] = { "lion", { "exp_avg" }, lion_states, lion_check, lion_apply },
};

const dt_own_optimizer *dt_optimizer_named(const dt_ctx *ctx, const char *name)
{
    if (ctx == NULL || name == NULL) return NULL;
    return dt__registered_named(ctx, DT__OPTIMIZERS, name);
}

dt_status dt_optimizer_register(dt_ctx *ctx, const dt_own_optimizer *optimizer)
{
    DT__NEED2(ctx, ctx, optimizer);
    if (optimizer->name == NULL || *optimizer->name == 0 || optimizer->apply == NULL) {
        return dt_fail(ctx, DT_ERR_ARG, "optimizer: a name and a function must be given");
    }
    if (dt_optimizer_named(ctx, optimizer->name) != NULL) {
        return dt_fail(ctx, DT_ERR_ARG, "optimizer: there is an optimizer '%s' already",
                       optimizer->name);
    }
    return dt__register(ctx, DT__OPTIMIZERS, optimizer);
}

static int no_states(const dt_optimizer_options *o)
{
    (void)o;
    return 0;
}

static int one_state(const dt_optimizer_options *o)
{
    (void)o;
    return 1;
}

static dt_status accept(dt_ctx *ctx, const dt_optimizer_options *o)
{
    (void)ctx;
    (void)o;
    return DT_OK;
}

void dt__update_formula_of(const dt_ctx *ctx, const dt_optimizer_options *o,
                           dt__update_formula *out)
{
    *out = (dt__update_formula){ .name = NULL };
    if (o->name >= 0 && o->name < DT_OWN_OPTIMIZER) *out = formulas[o->name];
    const dt_own_optimizer *own =
        o->name == DT_OWN_OPTIMIZER ? dt_optimizer_named(ctx, o->own) : NULL;
    if (own == NULL) return;
    const int n = (own->state[0] != NULL) + (own->state[0] != NULL && own->state[1] != NULL);
    *out = (dt__update_formula){ .name = own->name,
                                 .state = { own->state[0], own->state[1] },
                                 .states = n == 0   ? no_states
                                           : n == 1 ? one_state
                                                    : adam_states,
                                 .check = accept,
                                 .apply = own->apply };
}
