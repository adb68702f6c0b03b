/* train.threshold: chooses thresholds for the final model, converted if it is quantized, by its
 * outputs for the validation data. They are written to the metadata about the data in its file. */
#include "data/dataset.h"
#include "train/run/run.h"
#include "train/task/thresholds.h"

#include <math.h>

static const char *const whats[] = {
    [DT_THRESHOLD_F1] = "f1", [DT_THRESHOLD_BALANCED] = "balanced accuracy"
};

static dt_status refuse(dt__run *r, const char *why)
{
    return dt_recipe_refuse(r->recipe, "train.threshold", "'train.threshold' requires %s", why);
}

dt_status dt__run_check_threshold(dt__run *r)
{
    const dt_target target = dt_dataset_target(r->data.train);
    int64_t width = dt_dataset_outputs(r->data.train);
    if (r->o->train.threshold == DT_THRESHOLD_NONE) return DT_OK;
    if (r->data.train->joined != NULL) return refuse(r, "data of one input and one output");
    if (target != DT_TARGET_CLASS && target != DT_TARGET_BITS) {
        return refuse(r, "data.task: classification or multi_label");
    }
    if (r->data.validation == NULL) return refuse(r, "validation data ('data.validation')");
    DT__TRY(dt__run_width(r, 0, &width));
    if (target == DT_TARGET_CLASS && width != 2) return refuse(r, "a model of two classes");
    return width <= DT_MAX_REALS ? DT_OK : refuse(r, "at most 128 labels");
}

static void say(dt__run *r, const dt__thresholds *t)
{
    const char *what = whats[r->o->train.threshold];
    if (t->first_same >= 0) {
        dt__say(r->ctx,
                "warning: the validation data have one label alone, or outputs are not finite, in "
                "%d of %d cases, the first %lld: its threshold is the probability 0.5",
                t->logit.n - t->chosen, t->logit.n, (long long)t->first_same);
    }
    if (t->chosen == 0) return;
    if (t->logit.n == 1) {
        dt__say(r->ctx, "class 1 is there above a probability of %.4f: %s %.4f in place of %.4f",
                1 / (1 + exp(-t->logit.v[0])), what, t->with, t->without);
    } else {
        dt__say(r->ctx, "thresholds of %d labels: mean %s %.4f in place of %.4f", t->logit.n, what,
                t->with, t->without);
    }
}

static dt_status choose(dt__run *r, const dt_tensor *outputs)
{
    static const dt_reals none = { .n = 0 };
    dt__thresholds t;
    if (!dt__run_writes(r)) return DT_OK;
    DT__TRY(dt__choose_thresholds(r->data.validation, outputs, r->o->train.threshold, &t));
    say(r, &t);
    r->summary->thresholds = t.logit;
    r->summary->with_thresholds = t.with;
    r->summary->without_thresholds = t.without;
    r->data.train->thresholds = t.logit;
    const dt_status s = dt__run_keep_data(r);
    r->data.train->thresholds = none;
    r->stage.state.info.data = r->files.data;
    return s;
}

/* Recomputes the run's results with the thresholds. All ranks evaluate; rank 0, which has the
 * thresholds, computes metrics. */
static dt_status evaluate_decided(dt__run *r)
{
    const dt_evaluation how = { .batch_size = r->o->train.eval_batch_size };
    dt_dataset decided = *r->data.evaluated;
    const dt__evaluation e = {
        .m = r->stage.model, .d = &decided, .options = &how, .cluster = r->ranks.cluster
    };
    decided.thresholds = r->summary->thresholds;
    dt_tape_reset(r->stage.tape);
    return dt__run_time_evaluation(r, &e, &r->summary->decided, NULL);
}

dt_status dt__run_choose_thresholds(dt__run *r)
{
    const dt_evaluation how = { .batch_size = r->o->train.eval_batch_size };
    const dt__evaluation e = { .m = r->stage.model,
                               .d = r->data.validation,
                               .options = &how,
                               .wanted = DT__WANTS_ANSWERS,
                               .cluster = r->ranks.cluster };
    dt_tensor *outputs;
    dt_metrics m;
    if (r->o->train.threshold == DT_THRESHOLD_NONE) return DT_OK;
    dt_tape_reset(r->stage.tape);
    DT__TRY(dt__run_time_evaluation(r, &e, &m, &outputs));
    const dt_status s = choose(r, outputs);
    dt_tensor_free(outputs);
    DT__TRY(dt__cluster_meet(r->ranks.cluster, DT__MEETING, s));
    return evaluate_decided(r);
}
