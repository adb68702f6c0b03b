/* Targets that are labels: one an example (classification), or one a pixel (segmentation).
 *     loss     = -log softmax(y)[label], the mean over labels; in training focal times
 *                (1 - softmax(y)[label])^gamma; of mixed examples with the weights of both labels;
 *                with a teacher z and its weight w also
 *                (1-w) loss + w T^2 KL(softmax(z/T) || softmax(y/T))
 *     accuracy = share of labels that no class precedes; top5: at most four do. A class precedes
 *                another if its output is larger, or as large and its index lower. With a
 *                threshold (train.threshold) class 1 of two is found above it, else class 0
 *     macro_f1 = mean over classes of 2 |P and T| / (|P| + |T|): P the examples whose first class
 *                it is, T those with this label. A class without either does not count
 *     dice     = mean over classes of 2 |P and T| / (|P| + |T|): P the pixels where the class was
 *                found, T those that have it, of the whole dataset. A class without either does not
 *                count */
#include "core/tensor.h"
#include "train/task/task.h"

#include <detent/experimental/ops.h>
#include <math.h>

enum { RIGHT, AMONG_FIVE, COST };

static dt_tensor *loss(const dt__pass *p)
{
    dt_cross_entropy_options options = dt_cross_entropy_defaults();
    options.reduction = DT_REDUCE_SUM;
    options.label_smoothing = p->smoothing;
    options.gamma = p->objective.focal_gamma;
    dt_tensor *y = dt__answer(p), *part[DT__PARTS] = { NULL };
    part[DT__PART_FIRST] = dt_weighted_cross_entropy(p->t, y, p->target, p->weight, &options);
    if (p->other != NULL) {
        part[DT__PART_OTHER] = dt_weighted_cross_entropy(p->t, y, p->other, p->weight, &options);
    }
    if (p->teacher != NULL) {
        dt_distill_options distill = dt_distill_defaults();
        distill.reduction = DT_REDUCE_SUM;
        distill.temperature = p->distill->temperature;
        part[DT__PART_TAUGHT] = dt_distill(p->t, y, dt__teach(p), p->target, &distill);
    }
    return dt__sum_parts(p, part);
}

int64_t dt__first_class(const float *y, int64_t classes, int64_t step)
{
    int64_t best = 0;
    for (int64_t k = 1; k < classes; k++) {
        if (y[k * step] > y[best * step]) best = k;
    }
    return best;
}

/* Number of classes that precede the label. NaN precedes every number; a label whose output is NaN
 * comes last. */
static int64_t rank_of(const dt__tally *s, const float *y, int32_t label)
{
    const float own = y[label * s->places];
    int64_t ahead = 0;
    for (int64_t k = 0; k < label; k++) ahead += !(y[k * s->places] < own);
    for (int64_t k = label + 1; k < s->classes; k++) ahead += !(y[k * s->places] <= own);
    return ahead;
}

static double cost_of(const dt__tally *s, const float *y, int32_t label)
{
    double most = (double)y[0], sum = 0;
    for (int64_t k = 1; k < s->classes; k++) {
        const double other = (double)y[k * s->places];
        if (other > most) most = other; /* gcc 12 for AArch64 fails to compile fmax here */
    }
    for (int64_t k = 0; k < s->classes; k++) sum += exp((double)y[k * s->places] - most);
    return log(sum) + most - (double)y[label * s->places];
}

static void count(dt__tally *s, const float *y, const void *target)
{
    const int32_t *labels = target;
    for (int64_t i = 0; i < s->places; i++) {
        const int64_t found = dt__decided_class(s->thresholds, y + i, s->classes, s->places);
        const bool decides = s->thresholds != NULL && s->thresholds->n > 0;
        const int64_t rank = decides && !isnan(y[i + s->places] - y[i])
                                 ? found != labels[i]
                                 : rank_of(s, y + i, labels[i]);
        s->sum[RIGHT] += rank == 0;
        s->sum[AMONG_FIVE] += rank < 5;
        s->sum[COST] += cost_of(s, y + i, labels[i]);
        s->region[DT__WANTED][labels[i]]++;
        s->region[DT__FOUND][found]++;
        s->region[DT__BOTH][labels[i]] += rank == 0;
    }
}

static double accuracy(const dt__tally *s) { return dt__mean_sum(s, RIGHT); }

static double top5(const dt__tally *s) { return dt__mean_sum(s, AMONG_FIVE); }

static double mean_loss(const dt__tally *s) { return dt__mean_sum(s, COST); }

#define PERCENT .unit = "%", .scale = 100, .decimals = 2, .larger_is_better = true
#define LOSS                                                                                       \
    {                                                                                              \
        { "loss", "loss", .scale = 1, .decimals = 4 }, mean_loss, 0                                \
    }

const dt__task dt__task_classes = {
    .has_labels = true,
    .measure = { { { "accuracy", "accuracy", PERCENT }, accuracy, 0 },
                 { { "top5", "top 5", PERCENT }, top5, 6 },
                 { { "macro_f1", "macro f1", PERCENT }, dt__mean_overlap, 0 },
                 LOSS },
    .loss = loss,
    .run = dt__run_outputs,
    .add = dt__add_outputs,
    .count = count,
};

const dt__task dt__task_masks = {
    .has_labels = true,
    .measure = { { { "dice", "dice", PERCENT }, dt__mean_overlap, 0 },
                 { { "pixel_accuracy", "pixels", PERCENT }, accuracy, 0 },
                 LOSS },
    .loss = loss,
    .run = dt__run_outputs,
    .add = dt__add_outputs,
    .count = count,
};
