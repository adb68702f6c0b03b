/* The keys of `train.optimizer` and `train.schedule` in a recipe. */
#include "core/core.h"

#include <detent/optim.h>

static const char *const optimizer_names[] = { "sgd", "adam", "adamw", NULL };
static const char *const decay_names[] = { "matrices", "all", NULL };
static const char *const schedule_names[] = { "constant", "step", "linear", "cosine", NULL };

#define BELOW_ONE 0.9999999

#define AT(field) .offset = offsetof(dt_optimizer_options, field)

const dt_key dt_optimizer_keys[] = {
    { "name", DT_KEY_CHOICE, AT(name), .choices = optimizer_names, .fallback = "adamw",
      .text = "which optimizer" },
    { "lr", DT_KEY_REAL, AT(lr), .most = DT_NO_LIMIT, .fallback = "1e-3",
      .text = "learning rate before the schedule's factor" },
    { "weight_decay", DT_KEY_REAL, AT(weight_decay), .most = DT_NO_LIMIT, .fallback = "0.01",
      .text = "sgd, adam: this times the parameter joins the gradient; adamw: it shrinks the "
              "parameter by lr times this" },
    { "decay", DT_KEY_CHOICE, AT(decay), .choices = decay_names, .fallback = "matrices",
      .text = "which parameters decay: those of rank 2 and more, or all" },
    { "momentum", DT_KEY_REAL, AT(momentum), .most = BELOW_ONE, .fallback = "0",
      .text = "sgd: share of the last update that stays" },
    { "dampening", DT_KEY_REAL, AT(dampening), .most = 1, .fallback = "0",
      .text = "sgd: share of the gradient that momentum leaves out" },
    { "nesterov", DT_KEY_BOOL, AT(nesterov), .fallback = "false",
      .text = "sgd: look ahead along the momentum" },
    { "beta1", DT_KEY_REAL, AT(beta1), .most = BELOW_ONE, .fallback = "0.9",
      .text = "adam, adamw: decay of the mean gradient" },
    { "beta2", DT_KEY_REAL, AT(beta2), .most = BELOW_ONE, .fallback = "0.999",
      .text = "adam, adamw: decay of the mean squared gradient" },
    { "eps", DT_KEY_REAL, AT(eps), .most = 1, .fallback = "1e-8",
      .text = "adam, adamw: added to the root of the mean square" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_schedule, field)

const dt_key dt_schedule_keys[] = {
    { "name", DT_KEY_CHOICE, AT(name), .choices = schedule_names, .fallback = "constant",
      .text = "how the rate moves after the warmup" },
    { "warmup_steps", DT_KEY_INT, AT(warmup_steps), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "updates over which the rate rises from 0 to lr" },
    { "total_steps", DT_KEY_INT, AT(total_steps), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "updates after which the rate has reached its floor; 0: the run's" },
    { "floor", DT_KEY_REAL, AT(floor), .most = 1, .fallback = "0",
      .text = "linear, cosine: the last rate, as a share of lr" },
    { "gamma", DT_KEY_REAL, AT(gamma), .most = 1, .fallback = "0.1",
      .text = "step: factor of each step" },
    { "every", DT_KEY_INT, AT(every), .least = 1, .most = DT_NO_LIMIT, .fallback = "1000",
      .text = "step: updates between two steps" },
    { 0 },
};
