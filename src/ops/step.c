/* Adam's step, whose two forms differ in where the decay goes (Kingma and Ba 2015; Loshchilov and
 * Hutter 2019), and the checks of all steps. */
#include "ops/step.h"

#include <math.h>

dt_status dt__step_shape(const dt_call *c, int least, int most)
{
    DT__TRY(dt__want_operands(c, least, most));
    for (int i = 0; i < c->n_in; i++) {
        DT__TRY(dt__want_float(c, i));
        DT__TRY(dt__want_dims(c, i, c->in[0]->rank, c->in[0]->dims));
    }
    return DT_OK;
}

#define AT(field) .offset = offsetof(dt_adam_step_options, field)
#define BELOW_ONE 0.9999999

const dt_key dt__adam_keys[] = {
    { "lr", DT_KEY_REAL, AT(lr), .most = DT_NO_LIMIT, .fallback = "1e-3",
      .text = "learning rate of this update" },
    { "beta1", DT_KEY_REAL, AT(beta1), .most = BELOW_ONE, .fallback = "0.9",
      .text = "decay of the mean gradient" },
    { "beta2", DT_KEY_REAL, AT(beta2), .most = BELOW_ONE, .fallback = "0.999",
      .text = "decay of the mean squared gradient" },
    { "eps", DT_KEY_REAL, AT(eps), .most = 1, .fallback = "1e-8",
      .text = "added to the root of the mean square, after bias correction" },
    { "weight_decay", DT_KEY_REAL, AT(weight_decay), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "adam: this times the parameter joins the gradient; adamw: it shrinks the parameter "
              "by lr times this first" },
    { "step", DT_KEY_INT, AT(step), .least = 1, .most = DT_NO_LIMIT, .fallback = "1",
      .text = "number of this update, from 1" },
    { 0 },
};

const dt_adam_step_options dt__adam_defaults = {
    .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .step = 1
};

dt_status dt__adam_shape(dt_call *c)
{
    const dt_adam_step_options *o = c->options;
    DT__TRY(dt__step_shape(c, 4, 4));
    if (o->step < 1) return dt_refuse(c, DT_ERR_ARG, "step is %lld, below 1", (long long)o->step);
    if (!(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1)) {
        return dt_refuse(c, DT_ERR_ARG, "beta1 %g and beta2 %g must be in 0...1, 1 excluded",
                         o->beta1, o->beta2);
    }
    return DT_OK;
}

void dt__adam_run(const dt_call *c, bool decoupled)
{
    const dt_adam_step_options *o = c->options;
    const double n = (double)o->step;
    c->kernels->adam(&(dt__adam){ .n = dt__count(c->arg[0]),
                                  .p = dt__data_mut(c->arg[0]),
                                  .g = dt__data(c->arg[1]),
                                  .m = dt__data_mut(c->arg[2]),
                                  .v = dt__data_mut(c->arg[3]),
                                  .beta1 = o->beta1,
                                  .beta2 = o->beta2,
                                  .eps = o->eps,
                                  .decay = decoupled ? 0 : o->weight_decay,
                                  .shrink = decoupled ? 1 - o->lr * o->weight_decay : 1,
                                  .rate = o->lr / (1 - pow(o->beta1, n)),
                                  .root = sqrt(1 - pow(o->beta2, n)) });
}
