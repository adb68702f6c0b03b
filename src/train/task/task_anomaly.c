/* Anomalies: the model reconstructs its input, and the error tells normal examples (label 0) from
 * anomalous ones (label 1).
 *     error of an example = mean over its values of (y - x)^2
 *     mse = mean error of the normal examples, the loss: anomalous ones have no part in training
 *     auc = share of pairs of an anomalous and a normal example in which the anomalous one has the
 *           larger error (train/task/ranking.h); not a number without both
 *     recording_auc = the same of recordings that were cut into windows, by the mean of their
 *           errors */
#include "core/tensor.h"
#include "data/dataset.h"
#include "train/task/task.h"

#include <detent/ops.h>

enum { ERROR };

/* 1 for each normal example, 0 for the others, to be multiplied by x; NULL with *status if that
 * fails, or if all are normal. */
static dt_tensor *mask_of(const dt__pass *p, dt_status *status)
{
    const int32_t *label = dt_data(p->target);
    dt_tensor *mask = NULL;
    int64_t dims[DT_MAX_RANK] = { p->x->dims[0] }, n = 0;
    for (int i = 1; i < p->x->rank; i++) dims[i] = 1;
    *status = label == NULL ? dt_error_status(p->x->ctx) : DT_OK;
    for (int64_t i = 0; *status == DT_OK && i < dims[0]; i++) n += label[i] == 0;
    if (*status != DT_OK || n == dims[0]) return NULL;
    *status = dt_tensor_create(p->x->ctx, DT_F32, p->x->rank, dims, &mask);
    if (*status != DT_OK) return NULL;
    float *to = dt_data_mut(mask);
    for (int64_t i = 0; i < dims[0]; i++) to[i] = label[i] == 0;
    return mask;
}

/* The model's output in the shape of its input, which a model of rank 1 flattens. */
static dt_tensor *reconstruct(const dt__pass *p)
{
    dt_tensor *y = dt_forward(p->t, p->m, p->x);
    if (y == NULL || y->count != p->x->count || y->rank == p->x->rank) return y;
    return dt_reshape(p->t, y, p->x->rank, p->x->dims);
}

static dt_tensor *loss(const dt__pass *p)
{
    dt_status status;
    dt_tensor *y = reconstruct(p), *x = p->x, *mask = mask_of(p, &status);
    if (status != DT_OK) return NULL;
    if (mask != NULL) {
        y = dt_mul(p->t, y, mask);
        x = dt_mul(p->t, x, mask);
    }
    dt_tensor_free(mask); /* the tape keeps what it needs */
    return dt_mse(p->t, y, x, DT_REDUCE_SUM);
}

static double error_of(const float *y, const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double e = (double)y[i] - (double)x[i];
        sum += e * e;
    }
    return sum / (double)n;
}

static dt_status run(const dt__pass *p, dt_tensor **of)
{
    of[DT__ANSWER] = reconstruct(p);
    of[DT__ANSWER_INPUT] = p->x;
    return dt_tape_status(p->t);
}

/* Adds a window's error to its recording; a recording begins when its index changes. */
static dt_status add_window(dt__tally *s, int64_t example, double error, bool anomalous)
{
    const int64_t r = dt__dataset_recording(s->d, example);
    if (s->n_recordings == 0 || r != s->last) {
        DT__TRY(DT__RESERVE(s->ctx, s->recording, s->n_recordings, s->recordings_room));
        s->recording[s->n_recordings++] = (dt__scored){ 0, 0, anomalous };
        s->last = r;
        s->last_windows = 0;
        s->last_sum = 0;
    }
    s->last_sum += error;
    s->recording[s->n_recordings - 1].score = s->last_sum / (double)++s->last_windows;
    return DT_OK;
}

static dt_status add(dt__tally *s, dt_tensor *const *of)
{
    const dt_tensor *answer = of[DT__ANSWER], *input = of[DT__ANSWER_INPUT];
    const int64_t n = input->dims[0], each = input->count / n;
    DT__TRY(dt__tally_check(s, answer, input->rank, input->dims));
    DT__TRY(dt__tally_reserve(s, n));
    const float *y = dt_data(answer), *x = dt_data(input);
    const int32_t *label = dt_data(of[DT__ANSWER_TARGET]);
    if (y == NULL || x == NULL || label == NULL) return dt_error_status(s->ctx);
    for (int64_t i = 0; i < n; i++) {
        const double error = error_of(y + i * each, x + i * each, each);
        if (label[i] == 0) s->sum[ERROR] += error;
        s->labels += label[i] == 0;
        s->scored[s->n_scored++] = (dt__scored){ error, 0, label[i] != 0 };
        if (s->windows) DT__TRY(add_window(s, s->examples + i, error, label[i] != 0));
    }
    s->examples += n;
    return DT_OK;
}

static double mse(const dt__tally *s) { return s->sum[ERROR] / (double)s->labels; }

static double auc(const dt__tally *s)
{
    dt__rank(s->scored, s->n_scored);
    return dt__area_under_roc(s->scored, s->n_scored);
}

static double recording_auc(const dt__tally *s)
{
    dt__rank(s->recording, s->n_recordings);
    return dt__area_under_roc(s->recording, s->n_recordings);
}

const dt__task dt__task_anomaly = {
    .measure = { { { "recording_auc", "auc (rec.)", .scale = 1, .decimals = 4,
                     .larger_is_better = true },
                   recording_auc,
                   .windows = true },
                 { { "auc", "auc", .scale = 1, .decimals = 4, .larger_is_better = true }, auc, 0 },
                 { { "mse", "mse", .scale = 1, .decimals = 6 }, mse, 0 } },
    .loss = loss,
    .run = run,
    .add = add,
};
