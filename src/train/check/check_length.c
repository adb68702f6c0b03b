/* Warns of training settings that cannot take effect in a run of this length. */
#include "optim/optimizer.h"
#include "train/run/run.h"

typedef struct setting {
    const char *path;
    bool acts;
    int64_t value, length;
    const char *of, *so; /* "updates", "the rate never steps" */
} setting;

static int64_t last_of(const dt_ints *list) { return list->n > 0 ? list->v[list->n - 1] : 0; }

/* Whether the rate is 0 for updates at the end. */
static bool ends_early(const dt_schedule *s, int64_t updates)
{
    return dt__schedule_ends(s) && s->floor == 0 && s->total_steps < updates;
}

void dt__say_length(const dt__run *r)
{
    const dt_train_options *o = &r->o->train;
    const dt_schedule *s = &r->stage.schedule;
    const int64_t updates = r->data.steps, after = updates - s->warmup_steps;
    const int64_t epochs = updates / r->data.per_epoch;
    const bool cycles = s->name == DT_STEP || s->name == DT_COSINE_RESTARTS;
    const bool evaluates = r->data.validation != NULL;
    const int64_t times = evaluates ? dt__run_validations(r, updates) : 0;
    const dt_average_options *average = &o->average;
    const dt_spike_options *spikes = &o->spikes;
    const int64_t last = last_of(&s->milestones), patience = o->early_stopping.patience;
    const setting all[] = {
        { "train.schedule.every", !cycles || s->every < after, s->every, after,
          "updates behind the warmup", "the rate never steps" },
        { "train.schedule.milestones", s->name != DT_MULTISTEP || last < updates, last, updates,
          "updates", "the rate does not step there" },
        { "train.schedule.total_steps", !ends_early(s, updates), s->total_steps, updates, "updates",
          "from there on the rate is 0" },
        { "train.average.last", average->name != DT_AVERAGE_EPOCHS || average->last <= epochs,
          average->last, epochs, "epochs", "the mean is that of all" },
        { "train.early_stopping.patience", patience == 0 || patience < times, patience, times,
          "evaluations", "nothing is stopped" },
        { "train.schedule.patience", s->name != DT_PLATEAU || s->patience < times, s->patience,
          times, "evaluations", "the rate never steps" },
        { "train.spikes.window", spikes->policy == DT_SPIKES_IGNORE || spikes->window < updates,
          spikes->window, updates, "updates", "none is a spike" },
    };
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        if (all[i].acts) continue;
        dt__say(r->ctx, "warning: '%s' is %lld, but there are %lld %s: %s", all[i].path,
                (long long)all[i].value, (long long)all[i].length, all[i].of, all[i].so);
    }
}
