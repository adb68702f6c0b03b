/* Several outputs: the model's outputs are packed, [N, numbers of all], the targets likewise.
 *     loss = sum over outputs of weight * loss of the output
 * in training the mean over its labels, in evaluations its metric "loss". */
#include "core/tensor.h"
#include "data/joined.h"
#include "nn/lists/graph.h"
#include "train/task/task.h"

#include <detent/ops.h>
#include <stdio.h>
#include <string.h>

/* Where an output and its target begin in packed ones. */
typedef struct place {
    const dt__joined_part *part;
    const dt__task *task;
    int64_t y, width, cell, cells;
} place;

/* SHAPE if the model does not declare its outputs, or has others. */
static dt_status find_places(const dt_dataset *d, const dt_module *m, const dt_tensor *y,
                             place *out)
{
    const dt__joined *j = d->joined;
    const int64_t *numbers = dt__graph_outputs(m);
    int64_t at = 0, cell = 0;
    if (numbers == NULL || dt__module_outputs(m) != j->n_outputs) {
        return dt_fail(y->ctx, DT_ERR_SHAPE,
                       "the data have %d output%s, the model %d; expected a network of family "
                       "layers with as many",
                       j->n_outputs, DT__S(j->n_outputs),
                       numbers == NULL ? 1 : dt__module_outputs(m));
    }
    for (int i = 0; i < j->n_outputs; i++) {
        const dt__joined_part *part = &j->output[i];
        const int64_t k = dt_dataset_outputs(&part->data), cells = dt__array_cells(&part->data);
        if (dt__has_label(&part->data) ? numbers[i] < k : numbers[i] != k) {
            return dt_fail(y->ctx, DT_ERR_SHAPE,
                           "output '%s' of the model has %lld number%s, its targets have %lld",
                           part->name, (long long)numbers[i], DT__S(numbers[i]), (long long)k);
        }
        out[i] = (place){ part, dt__task_of(&part->data), at, numbers[i], cell, cells };
        at += numbers[i];
        cell += cells;
    }
    return DT_OK;
}

dt_status dt__arrange(const dt_module *m, const dt_dataset *d)
{
    dt__joined_order order = { .n_in = 0 };
    const char *missing;
    if (d->joined == NULL || !dt__graph_names(m, &order.n_in, &order.in, &order.out)) return DT_OK;
    order.n_out = dt__module_outputs(m);
    if (dt__joined_arrange(d->joined, &order, &missing)) return DT_OK;
    if (missing != NULL) {
        return dt_fail(d->ctx, DT_ERR_SHAPE,
                       "the model has '%s', but no input or output of the data has this name",
                       missing);
    }
    return dt_fail(d->ctx, DT_ERR_SHAPE,
                   "the model has %d input%s and %d output%s, the data have %d and %d", order.n_in,
                   DT__S(order.n_in), order.n_out, DT__S(order.n_out), d->joined->n_inputs,
                   d->joined->n_outputs);
}

/* Makes a scalar constant. */
static dt_tensor *scalar(dt_ctx *ctx, double value, dt_status *status)
{
    dt_tensor *x;
    *status = dt_tensor_create(ctx, DT_F32, 0, NULL, &x);
    if (*status == DT_OK) *status = dt_fill(x, value);
    return *status == DT_OK ? x : NULL;
}

/* The targets of an output: i32 [N], or f32 [N, k]. */
static dt_status target_of(const dt__pass *p, const place *at, dt_tensor **out)
{
    const bool labels = dt__has_label(&at->part->data);
    const int64_t n = p->target->dims[0], dims[] = { n, at->cells };
    DT__TRY(dt_tensor_create(p->target->ctx, labels ? DT_I32 : DT_F32, labels ? 1 : 2, dims, out));
    const int32_t *from = dt_data(p->target);
    char *to = dt_data_mut(*out);
    if (from == NULL || to == NULL) return dt_error_status(p->target->ctx);
    const size_t bytes = (size_t)at->cells * sizeof *from;
    for (int64_t i = 0; i < n; i++) {
        memcpy(to + (size_t)i * bytes, from + i * p->target->dims[1] + at->cell, bytes);
    }
    return DT_OK;
}

/* weight / labels of an example * the summed loss of output i. */
static dt_tensor *part_loss(const dt__pass *p, int i, const place *at, dt_tensor *y)
{
    dt__pass own = *p;
    const dt_slice_options cut = { .dims = { 1, { 1 } },
                                   .starts = { 1, { at->y } },
                                   .stops = { 1, { at->y + at->width } } };
    dt_status s = target_of(p, at, &own.target);
    own.y = s == DT_OK ? dt_slice(p->t, y, &cut) : NULL;
    own.objective = p->objectives == NULL ? (dt__objective){ 0 } : p->objectives[i];
    own.weight = p->weights == NULL ? NULL : p->weights[i];
    dt_tensor *sum = own.y == NULL ? NULL : dt__loss(at->task, &own);
    dt_tensor *factor = NULL;
    if (sum != NULL) factor = scalar(y->ctx, at->part->weight / (double)at->cells, &s);
    dt_tensor *loss = factor == NULL ? NULL : dt_mul(p->t, sum, factor);
    dt_tensor_free(own.target); /* the tape keeps what it needs */
    dt_tensor_free(factor);
    return loss;
}

static dt_tensor *loss(const dt__pass *p)
{
    place at[DT_MAX_JOINED];
    dt_tensor *sum = NULL, *y = dt__answer(p);
    if (y == NULL) return NULL;
    const dt_status status = find_places(p->d, p->m, y, at);
    if (status != DT_OK) return dt__tape_adopt(p->t, status), NULL;
    for (int i = 0; i < p->d->joined->n_outputs; i++) {
        dt_tensor *part = part_loss(p, i, &at[i], y);
        if (part == NULL) return NULL;
        sum = i == 0 ? part : dt_add(p->t, sum, part);
    }
    return sum;
}

static dt_status add(dt__tally *s, dt_tensor *const *of)
{
    place at[DT_MAX_JOINED];
    const dt_tensor *answer = of[DT__ANSWER], *target = of[DT__ANSWER_TARGET];
    DT__TRY(find_places(s->d, s->m, answer, at));
    const float *y = dt_data(answer);
    const int32_t *cell = dt_data(target);
    if (y == NULL || cell == NULL) return dt_error_status(s->ctx);
    const int64_t n = target->dims[0];
    for (int i = 0; i < s->n_parts; i++) {
        const dt__rows rows = { n, y + at[i].y, answer->count / n, cell + at[i].cell,
                                target->dims[1] };
        if (dt__has_label(&at[i].part->data)) s->part[i].classes = at[i].width;
        DT__TRY(dt__tally_rows(&s->part[i], at[i].width, &rows));
    }
    s->examples += n;
    return DT_OK;
}

static double total(const dt__tally *s)
{
    double sum = 0;
    for (int i = 0; i < s->n_parts; i++) {
        const dt__measure *measure = s->part[i].task->measure;
        int last = 0;
        while (last + 1 < DT__MEASURES && measure[last + 1].value != NULL) last++;
        sum += s->d->joined->output[i].weight * measure[last].value(&s->part[i]);
    }
    return sum;
}

const dt__task dt__task_several = {
    .measure = { { { "loss", "loss", .scale = 1, .decimals = 4 }, total, 0 } },
    .loss = loss,
    .run = dt__run_outputs,
    .add = add,
};

/* A metric, followed by its texts. */
typedef struct named {
    dt_metric metric;
    char name[];
} named;

const dt_metric *dt__metric_of_output(dt_ctx *ctx, const char *output, const dt_metric *metric)
{
    const size_t n = strlen(output) + strlen(metric->name) + 2;
    const size_t m = strlen(output) + strlen(metric->title) + 2;
    named *own = dt__alloc(ctx, sizeof *own + n + m);
    if (own == NULL) return NULL;
    own->metric = *metric;
    own->metric.name = own->name;
    own->metric.title = own->name + n;
    snprintf(own->name, n, "%s.%s", output, metric->name);
    snprintf(own->name + n, m, "%s %s", output, metric->title);
    const dt_metric *known = dt__registered_named(ctx, DT__NAMED_METRICS, own->name);
    if (known == NULL && dt__register(ctx, DT__NAMED_METRICS, own) == DT_OK) return &own->metric;
    dt__release(ctx, own);
    return known;
}
