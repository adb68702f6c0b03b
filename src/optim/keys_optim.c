/* The keys of `train.optimizer` and `train.schedule` in a recipe. */
#include "core/core.h"

#include <detent/experimental/optim.h>

static const char *const optimizer_names[] = { "sgd", "adam", "adamw", "lion", "own", NULL };
static const char *const decay_names[] = { "matrices", "all", NULL };
static const char *const schedule_names[] = { "constant",   "step",      "linear",
                                              "cosine",     "multistep", "cosine_restarts",
                                              "polynomial", "one_cycle", "warmup_stable_decay",
                                              "plateau",    NULL };

#define BELOW_ONE 0.9999999

#define AT(field) .offset = offsetof(dt_parameter_group, field)

static const dt_key group_keys[] = {
    { "match", DT_KEY_STRING, AT(match), .fallback = "!",
      .text = "glob over paths; * crosses dots" },
    { "rate", DT_KEY_REAL, AT(rate), .most = DT_NO_LIMIT, .fallback = "1",
      .text = "factor on the learning rate" },
    { "weight_decay", DT_KEY_REAL, AT(weight_decay), .most = DT_NO_LIMIT, .fallback = "1",
      .text = "factor on the weight decay" },
    { "frozen", DT_KEY_BOOL, AT(frozen), .fallback = "false",
      .text = "not trained, except ranges that QAT learns" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_optimizer_options, field)

const dt_key dt_optimizer_keys[] = {
    { "name", DT_KEY_CHOICE, AT(name), .choices = optimizer_names, .fallback = "adamw",
      .text = "which optimizer; own: a registered one" },
    { "own", DT_KEY_STRING, AT(own), .text = "own: its name" },
    { "lr", DT_KEY_REAL, AT(lr), .most = DT_NO_LIMIT, .fallback = "1e-3",
      .text = "learning rate before the schedule's factor" },
    { "weight_decay", DT_KEY_REAL, AT(weight_decay), .most = DT_NO_LIMIT, .fallback = "0.01",
      .text = "sgd, adam: times the parameter, added to the gradient; adamw, lion: updates "
              "multiply the parameter by 1 - lr times this" },
    { "decay", DT_KEY_CHOICE, AT(decay), .choices = decay_names, .fallback = "matrices",
      .text = "which parameters decay: those of rank 2 and more, or all" },
    { "momentum", DT_KEY_REAL, AT(momentum), .most = BELOW_ONE, .fallback = "0",
      .text = "sgd: factor of the momentum buffer at each update" },
    { "dampening", DT_KEY_REAL, AT(dampening), .most = 1, .fallback = "0",
      .text = "sgd: share of the gradient that is not added to the momentum buffer" },
    { "nesterov", DT_KEY_BOOL, AT(nesterov), .fallback = "false",
      .text = "sgd: whether the momentum is Nesterov's" },
    { "beta1", DT_KEY_REAL, AT(beta1), .most = BELOW_ONE, .fallback = "0.9",
      .text = "adam, adamw: decay of the mean gradient; lion: its share in the step's sign" },
    { "beta2", DT_KEY_REAL, AT(beta2), .most = BELOW_ONE, .fallback = "0.999",
      .text = "adam, adamw: decay of the mean squared gradient; lion: of the mean gradient" },
    { "eps", DT_KEY_REAL, AT(eps), .least = 1e-30, .most = 1, .fallback = "1e-8",
      .text = "adam, adamw: added to the root of the mean square" },
    { "groups", DT_KEY_LIST, AT(groups), .most = DT_MAX_GROUPS, .keys = group_keys,
      .size = sizeof(dt_parameter_group), .count = offsetof(dt_optimizer_options, n_groups),
      .text = "rates, decays and freezing of parameters; the last match applies" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_schedule, field)

const dt_key dt_schedule_keys[] = {
    { "name", DT_KEY_CHOICE, AT(name), .choices = schedule_names, .fallback = "constant",
      .text = "how the rate moves after the warmup" },
    { "warmup_steps", DT_KEY_INT, AT(warmup_steps), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "updates in which the rate first rises evenly, from lr / warmup_steps to lr" },
    { "total_steps", DT_KEY_INT, AT(total_steps), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "length of the schedule in updates; 0: the run's" },
    { "floor", DT_KEY_REAL, AT(floor), .most = 1, .fallback = "0",
      .text = "lowest rate, as a share of lr, except for constant, step, multistep" },
    { "gamma", DT_KEY_REAL, AT(gamma), .least = 1e-6, .most = 1, .fallback = "0.1",
      .text = "step, multistep, plateau: factor on the rate at each step" },
    { "every", DT_KEY_INT, AT(every), .least = 1, .most = DT_NO_LIMIT, .fallback = "1000",
      .text = "step: updates between two steps; cosine_restarts: updates of the first cycle" },
    { "milestones", DT_KEY_INTS, AT(milestones), .least = 1, .most = DT_NO_LIMIT,
      .text = "multistep: updates at which the rate steps, ascending" },
    { "growth", DT_KEY_INT, AT(growth), .least = 1, .most = 1000, .fallback = "1",
      .text = "cosine_restarts: length of a cycle divided by that of the one before" },
    { "power", DT_KEY_REAL, AT(power), .least = 1e-6, .most = 100, .fallback = "1",
      .text = "polynomial: exponent; 1 is linear" },
    { "rise", DT_KEY_REAL, AT(rise), .least = 0, .most = 1, .fallback = "0.3",
      .text = "one_cycle: share of updates in which the rate rises" },
    { "start", DT_KEY_REAL, AT(start), .most = 1, .fallback = "0.04",
      .text = "one_cycle: the first rate, as a share of lr" },
    { "decay_steps", DT_KEY_INT, AT(decay_steps), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "warmup_stable_decay: updates of the final decay; 0: a tenth" },
    { "patience", DT_KEY_INT, AT(patience), .least = 1, .most = DT_NO_LIMIT, .fallback = "5",
      .text = "plateau: evaluations without improvement before a step" },
    { "least_improvement", DT_KEY_REAL, AT(least_improvement), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "plateau: smallest decrease of the validation loss that is an improvement" },
    { "cooldown", DT_KEY_INT, AT(cooldown), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "plateau: evaluations ignored after a step" },
    { 0 },
};
