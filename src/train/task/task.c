/* The table of tasks, by the targets of a dataset; metrics of a batch. */
#include "train/task/task.h"

#include "core/tensor.h"
#include "data/joined.h"

#include <detent/ops.h>
#include <math.h>
#include <string.h>

static const dt__task *const tasks[] = {
    [DT_TARGET_CLASS] = &dt__task_classes,   [DT_TARGET_IMAGE] = &dt__task_images,
    [DT_TARGET_MASK] = &dt__task_masks,      [DT_TARGET_TOKENS] = &dt__task_tokens,
    [DT_TARGET_VALUES] = &dt__task_values,   [DT_TARGET_BITS] = &dt__task_bits,
    [DT_TARGET_ANOMALY] = &dt__task_anomaly, [DT_TARGET_SEVERAL] = &dt__task_several,
};

const dt__task *dt__task_of(const dt_dataset *d)
{
    return d->quantiles.n > 0 ? &dt__task_quantiles : tasks[dt_dataset_target(d)];
}

/* Number of values in an example's target. */
static int64_t task_places(const dt_dataset *d)
{
    const int64_t pixels = dt_dataset_height(d) * dt_dataset_width(d);
    const int64_t places[] = {
        [DT_TARGET_CLASS] = 1,
        [DT_TARGET_IMAGE] = pixels * dt_dataset_channels(d),
        [DT_TARGET_MASK] = pixels,
        [DT_TARGET_TOKENS] = dt_dataset_context(d),
        [DT_TARGET_VALUES] = dt_dataset_outputs(d),
        [DT_TARGET_BITS] = dt_dataset_outputs(d),
        [DT_TARGET_ANOMALY] = 1,
        [DT_TARGET_SEVERAL] = 0,
    };
    return places[dt_dataset_target(d)];
}

/* ---- losses of parts ------------------------------------------------------------------------- */

dt_tensor *dt__teach(const dt__pass *p)
{
    const bool before = dt_no_grad(p->t, true);
    dt_tensor *y = dt_forward(p->t, p->teacher, p->x);
    dt_no_grad(p->t, before);
    return y;
}

dt_tensor *dt__sum_parts(const dt__pass *p, dt_tensor *const part[DT__PARTS])
{
    if (p->other == NULL && p->teacher == NULL) return part[DT__PART_FIRST];
    dt_tensor *sum = dt_mul(p->t, part[DT__PART_FIRST], p->part[DT__PART_FIRST]);
    if (p->other != NULL) {
        sum = dt_add(p->t, sum, dt_mul(p->t, part[DT__PART_OTHER], p->part[DT__PART_OTHER]));
    }
    if (p->teacher != NULL) {
        sum = dt_add(p->t, sum, dt_mul(p->t, part[DT__PART_TAUGHT], p->part[DT__PART_TAUGHT]));
    }
    return sum;
}

/* ---- metrics -------------------------------------------------------------------------------- */

/* The next metric, from index `i` on, that applies to the data; NULL: none. */
static const dt__measure *next_measure(const dt__tally *s, int *i)
{
    while (*i < DT__MEASURES && s->task->measure[*i].value != NULL) {
        const dt__measure *measure = &s->task->measure[(*i)++];
        if (measure->classes <= s->least_classes && measure->prompted <= s->prompted &&
            measure->windows <= s->windows) {
            return measure;
        }
    }
    return NULL;
}

bool dt__task_measures(dt_target target, const char *name)
{
    for (int i = 0; i < DT__MEASURES && tasks[target]->measure[i].value != NULL; i++) {
        if (strcmp(tasks[target]->measure[i].metric.name, name) == 0) return true;
    }
    return false;
}

/* Adds the metrics of one output, with its name as a prefix (NULL: none), and their values once
 * there are examples. */
static dt_status add_measures(const dt__tally *s, const char *output, dt_metrics *m)
{
    const dt__measure *measure;
    int i = 0;
    while ((measure = next_measure(s, &i)) != NULL) {
        const dt_metric *metric = &measure->metric;
        if (output != NULL) metric = dt__metric_of_output(s->ctx, output, metric);
        if (metric == NULL) return DT_ERR_NOMEM;
        m->metric[m->n] = metric;
        m->value[m->n++] = s->examples > 0 ? measure->value(s) : 0;
    }
    return DT_OK;
}

/* Inserts registered metrics before the loss. */
static void add_own(const dt__tally *s, dt_metrics *m)
{
    const int loss = m->n - 1;
    m->n += s->n_own;
    m->metric[m->n - 1] = m->metric[loss];
    m->value[m->n - 1] = m->value[loss];
    for (int i = 0; i < s->n_own; i++) {
        m->metric[loss + i] = &s->own[i]->metric;
        m->value[loss + i] = s->examples > 0 ? s->own[i]->value(s->state[i]) : 0;
    }
}

dt_status dt__tally_metrics(const dt__tally *s, dt_metrics *m)
{
    *m = (dt_metrics){ .examples = s->examples };
    for (int i = 0; i < s->n_parts; i++) {
        DT__TRY(add_measures(&s->part[i], s->d->joined->output[i].name, m));
    }
    DT__TRY(add_measures(s, NULL, m));
    add_own(s, m);
    m->loss = m->value[m->n - 1];
    return DT_OK;
}

dt_status dt__task_metrics(const dt_dataset *d, const dt_strings *own, const dt_metric **metric,
                           int *n)
{
    dt_metrics m = { 0 };
    dt__tally s;
    dt_status status = dt__tally_open(d->ctx, d, &s);
    if (status == DT_OK) status = dt__tally_add_own(&s, "train.metrics", own);
    if (status == DT_OK) status = dt__tally_metrics(&s, &m);
    dt__tally_close(&s);
    *n = m.n;
    memcpy(metric, m.metric, sizeof m.metric);
    return status;
}

double dt_metric_value(const dt_metrics *m, const char *name)
{
    if (m == NULL) return NAN;
    for (int i = 0; i < m->n; i++) {
        if (strcmp(m->metric[i]->name, name) == 0) return m->value[i];
    }
    return NAN;
}

/* ---- batches -------------------------------------------------------------------------------- */

static dt__tally tally_of(dt_ctx *ctx, const dt_dataset *d)
{
    return (dt__tally){ .ctx = ctx,
                        .task = dt__task_of(d),
                        .least_classes = dt_dataset_classes(d),
                        .places = task_places(d),
                        .prompted = dt_dataset_is_prompted(d) };
}

dt_status dt__tally_open(dt_ctx *ctx, const dt_dataset *d, dt__tally *s)
{
    *s = tally_of(ctx, d);
    s->d = d;
    s->windows = dt__dataset_has_windows(d);
    s->levels = &d->quantiles;
    s->thresholds = &d->thresholds;
    if (dt_dataset_target(d) != DT_TARGET_SEVERAL) return DT_OK;
    const int n = d->joined->n_outputs;
    s->part = dt__alloc_array(ctx, n, sizeof *s->part);
    if (s->part == NULL) return DT_ERR_NOMEM;
    for (s->n_parts = 0; s->n_parts < n; s->n_parts++) {
        const dt_dataset view = dt__joined_view(d, &d->joined->output[s->n_parts]);
        s->part[s->n_parts] = tally_of(ctx, &view);
    }
    return DT_OK;
}

void dt__tally_close(dt__tally *s)
{
    for (int i = 0; i < s->n_parts; i++) dt__tally_close(&s->part[i]);
    for (int i = 0; i < s->n_own; i++) dt__release(s->ctx, s->state[i]);
    DT__RELEASE(s->ctx, s->part, s->region[0], s->total[0], s->scored, s->recording);
    *s = (dt__tally){ .ctx = s->ctx };
}

static bool fits(const dt_tensor *y, int rank, const int64_t *dims)
{
    bool same = y->dtype == DT_F32 && y->rank == rank;
    for (int i = 0; same && i < rank; i++) same = y->dims[i] == dims[i];
    return same;
}

dt_status dt__tally_check(const dt__tally *s, const dt_tensor *y, int rank, const int64_t *dims)
{
    if (fits(y, rank, dims)) return DT_OK;
    char text[160], wanted[160];
    dt_describe(y, text, sizeof text);
    dt__dims_text(rank, dims, wanted, sizeof wanted);
    return dt_fail(s->ctx, DT_ERR_SHAPE, "evaluate: the model gives %s; the targets require f32%s",
                   text, wanted);
}

dt_status dt__tally_reserve(dt__tally *s, int64_t n)
{
    if (n <= s->room - s->n_scored) return DT_OK;
    const int64_t room = dt__max_i64(s->n_scored + n, 2 * s->room);
    dt__scored *grown = dt__alloc_array(s->ctx, room, sizeof *grown);
    if (grown == NULL) return DT_ERR_NOMEM;
    if (s->n_scored > 0) memcpy(grown, s->scored, (size_t)s->n_scored * sizeof *grown);
    dt__release(s->ctx, s->scored);
    s->scored = grown;
    s->room = room;
    return DT_OK;
}

/* Checks that outputs have the targets' shape, for labels with a dimension of classes after the
 * batch. The first batch sets the number of classes, which must cover all labels. */
static dt_status check(dt__tally *s, const dt_tensor *y, const dt_tensor *target)
{
    const int extra = s->task->has_labels ? 1 : 0;
    if (extra > 0 && s->classes == 0) {
        s->classes = dt__max_i64(s->least_classes, y->rank > 1 ? y->dims[1] : 0);
    }
    int64_t dims[DT_MAX_RANK] = { target->dims[0], s->classes };
    for (int i = 1; i < target->rank; i++) dims[i + extra] = target->dims[i];
    if (s->levels != NULL && s->levels->n > 0) dims[1] *= s->levels->n;
    return dt__tally_check(s, y, target->rank + extra, dims);
}

/* Number of counters: classes, or places. */
static int64_t counters_of(const dt__tally *s)
{
    return s->task->counts_places ? s->places : s->classes;
}

/* Allocates counters per class, or counters and sums per place. */
static dt_status make_regions(dt__tally *s)
{
    const int64_t n = counters_of(s);
    if (s->region[0] != NULL || n == 0) return DT_OK;
    s->region[0] = dt__alloc_array(s->ctx, 3 * n, sizeof *s->region[0]);
    if (s->region[0] == NULL) return DT_ERR_NOMEM;
    memset(s->region[0], 0, 3 * (size_t)n * sizeof *s->region[0]);
    for (int i = 1; i < 3; i++) s->region[i] = s->region[0] + i * n;
    if (!s->task->counts_places) return DT_OK;
    s->total[0] = dt__alloc_array(s->ctx, 4 * n, sizeof *s->total[0]);
    if (s->total[0] == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < 4 * n; i++) s->total[0][i] = 0;
    for (int i = 1; i < 4; i++) s->total[i] = s->total[0] + i * n;
    return DT_OK;
}

double dt__mean_sum(const dt__tally *s, int i)
{
    return s->sum[i] / ((double)s->examples * (double)s->places);
}

double dt__mean_overlap(const dt__tally *s)
{
    double sum = 0, n = 0;
    for (int64_t k = 0; k < counters_of(s); k++) {
        const int64_t all = s->region[DT__WANTED][k] + s->region[DT__FOUND][k];
        if (all == 0) continue;
        sum += 2 * (double)s->region[DT__BOTH][k] / (double)all;
        n++;
    }
    return sum / n;
}

dt_status dt__tally_rows(dt__tally *s, int64_t width, const dt__rows *rows)
{
    DT__TRY(make_regions(s));
    if (s->task->scores) DT__TRY(dt__tally_reserve(s, rows->n * s->places));
    for (int64_t i = 0; i < rows->n; i++) {
        const float *y = rows->y + i * rows->y_step;
        const void *target = (const int32_t *)rows->target + i * rows->target_step;
        s->task->count(s, y, target);
        for (int k = 0; k < s->n_own; k++) s->own[k]->add(s->state[k], y, width, target);
    }
    s->examples += rows->n;
    return DT_OK;
}

dt_status dt__tally_batch(dt__tally *s, const dt_tensor *y, const dt_tensor *target)
{
    DT__TRY(check(s, y, target));
    const dt__rows rows = { .n = target->dims[0],
                            .y = dt_data(y),
                            .y_step = y->count / target->dims[0],
                            .target = dt_data(target),
                            .target_step = s->places };
    if (rows.y == NULL || rows.target == NULL) return dt_error_status(s->ctx);
    return dt__tally_rows(s, rows.y_step, &rows);
}

dt_status dt__run_outputs(const dt__pass *p, dt_tensor **of)
{
    of[DT__ANSWER] = dt__answer(p);
    return dt_tape_status(p->t);
}

dt_status dt__add_outputs(dt__tally *s, dt_tensor *const *of)
{
    return dt__tally_batch(s, of[DT__ANSWER], of[DT__ANSWER_TARGET]);
}

void dt__put_speed(dt_metrics *m, const dt_dataset *d, double seconds)
{
    m->seconds = seconds;
    m->samples_per_s = seconds > 0 ? (double)m->examples / seconds : 0;
    m->tokens_per_s = (double)dt_dataset_context(d) * m->samples_per_s;
}
