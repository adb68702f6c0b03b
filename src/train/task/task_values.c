/* Targets that are numbers (regression).  With e = y - target, over all values:
 *     mse = mean of e^2, the loss of evaluations      rmse = sqrt(mse)      mae = mean of |e|
 *     r2  = mean over outputs of 1 - sum of e^2 / sum of (target - mean target)^2; an output whose
 *           targets are all equal counts as 1 if every e is 0, else as 0
 * Training minimizes what train.loss names: mse, mae, or the Huber loss; with a
 * teacher and its weight w, (1-w) times that and w times the same of e = y - the teacher's
 * output. */
#include "train/task/task.h"

#include <detent/experimental/ops.h>
#include <math.h>

enum { SQUARED, ABSOLUTE };

/* Per output: the first target t0, and sums of t - t0, of its square, of e^2. */
enum { FIRST, SUM, SQUARES, ERRORS };

const char *const dt_loss_names[] = {
    [DT__LOSS_MSE] = "mse",           [DT__LOSS_MAE] = "mae",     [DT__LOSS_HUBER] = "huber",
    [DT__LOSS_QUANTILE] = "quantile", [DT__LOSS_FOCAL] = "focal", NULL,
};

static dt_tensor *distance(const dt__pass *p, dt_tensor *y, dt_tensor *target)
{
    if (p->objective.kind == DT__LOSS_MAE) return dt_l1_loss(p->t, y, target, DT_REDUCE_SUM);
    if (p->objective.kind == DT__LOSS_HUBER) {
        return dt_huber_loss(p->t, y, target, p->objective.huber_delta, DT_REDUCE_SUM);
    }
    return dt_mse(p->t, y, target, DT_REDUCE_SUM);
}

static dt_tensor *loss(const dt__pass *p)
{
    dt_tensor *y = dt__answer(p), *part[DT__PARTS] = { NULL };
    part[DT__PART_FIRST] = distance(p, y, p->target);
    if (p->teacher != NULL) part[DT__PART_TAUGHT] = distance(p, y, dt__teach(p));
    return dt__sum_parts(p, part);
}

static void count(dt__tally *s, const float *y, const void *target)
{
    const float *wanted = target;
    for (int64_t i = 0; i < s->places; i++) {
        const double t = (double)wanted[i], e = (double)y[i] - t;
        if (s->region[DT__WANTED][i]++ == 0) s->total[FIRST][i] = t;
        const double shifted = t - s->total[FIRST][i];
        s->total[SUM][i] += shifted;
        s->total[SQUARES][i] += shifted * shifted;
        s->total[ERRORS][i] += e * e;
        s->sum[SQUARED] += e * e;
        s->sum[ABSOLUTE] += fabs(e);
    }
}

static double mse(const dt__tally *s) { return dt__mean_sum(s, SQUARED); }

static double rmse(const dt__tally *s) { return sqrt(mse(s)); }

static double mae(const dt__tally *s) { return dt__mean_sum(s, ABSOLUTE); }

static double r2(const dt__tally *s)
{
    double sum = 0;
    for (int64_t i = 0; i < s->places; i++) {
        const double mean = s->total[SUM][i] / (double)s->examples;
        const double spread = s->total[SQUARES][i] - mean * s->total[SUM][i];
        const double errors = s->total[ERRORS][i];
        sum += spread > 0 ? 1 - errors / spread : isnan(errors) ? errors : errors == 0;
    }
    return sum / (double)s->places;
}

const dt__task dt__task_values = {
    .measure = { { { "r2", "r2", .scale = 1, .decimals = 4, .larger_is_better = true }, r2, 0 },
                 { { "mae", "mae", .scale = 1, .decimals = 4 }, mae, 0 },
                 { { "rmse", "rmse", .scale = 1, .decimals = 4 }, rmse, 0 },
                 { { "mse", "mse", .scale = 1, .decimals = 6 }, mse, 0 } },
    .counts_places = true,
    .loss = loss,
    .run = dt__run_outputs,
    .add = dt__add_outputs,
    .count = count,
};
