/* Whether data have what a model reads, by its file, beyond shapes and numbers: classes, targets
 * and columns in the places in which its weights learned them, features and rates of signals. */
#include "core/text/json.h"
#include "train/run/run.h"

#include <stdio.h>
#include <string.h>

typedef struct list {
    const char *what; /* one of them */
    int64_t n;
    const char *const *name;
} list;

/* What follows from a difference. */
typedef struct comparison {
    dt_ctx *ctx;
    const char *path;
    dt__reading_use use;
} comparison;

/* The first place that has another name in both; those of one alone are counted elsewhere. */
static dt_status compare_names(const comparison *c, const list *model, const list *data)
{
    char own[DT__SHOWN], theirs[DT__SHOWN];
    int64_t i = 0;
    while (i < model->n && i < data->n && strcmp(model->name[i], data->name[i]) == 0) i++;
    if (i == model->n || i == data->n) return DT_OK;
    dt__shown(data->name[i], theirs);
    dt__shown(model->name[i], own);
    if (c->use != DT__READ_TO_TRAIN) {
        return dt_fail(c->ctx, DT_ERR_FORMAT,
                       "%s: %s %lld of the data is '%s', of the model '%s'%s", c->path, model->what,
                       (long long)i, theirs, own,
                       c->use == DT__READ_TO_RESUME
                           ? "; restore the names, or begin a new run, which may take the weights "
                             "of this one by model.init"
                           : ": the data must have the model's names, in its order");
    }
    dt__say(c->ctx,
            "warning: %s %lld of the data is '%s', but '%s' of %s: its weights were trained on "
            "others, or on another order",
            model->what, (long long)i, theirs, own, c->path);
    return DT_OK;
}

static double highest(const dt_features_options *f)
{
    return f->high_hz > 0 ? f->high_hz : f->rate / 2;
}

static bool same_features(const dt_features_options *a, const dt_features_options *b)
{
    const bool mfcc = a->kind == DT_FEATURES_MFCC;
    return a->kind == b->kind && a->rate == b->rate && a->frame_ms == b->frame_ms &&
           a->step_ms == b->step_ms && a->bins == b->bins &&
           (!mfcc || a->coefficients == b->coefficients) && a->low_hz == b->low_hz &&
           highest(a) == highest(b) && a->floor == b->floor;
}

/* "mfcc of 8000 samples a second, frames of 40 ms every 20, ..." */
static void describe(const dt_features_options *f, char *to, size_t size)
{
    char of[40] = "";
    if (f->kind == DT_FEATURES_MFCC) {
        snprintf(of, sizeof of, "%lld coefficients of ", (long long)f->coefficients);
    }
    snprintf(to, size,
             "%s at %.6g samples a second, frames of %.6g ms every %.6g, %s%lld bins from %.6g to "
             "%.6g Hz, floor %.3g",
             f->kind == DT_FEATURES_MFCC ? "mfcc" : "log_mel", f->rate, f->frame_ms, f->step_ms, of,
             (long long)f->bins, f->low_hz, highest(f), f->floor);
}

static bool tell_apart(const dt_model_data *model, const dt_model_data *data, char *own,
                       char *theirs, size_t size)
{
    if (model->features.kind != DT_FEATURES_NONE && data->features.kind != DT_FEATURES_NONE) {
        if (same_features(&model->features, &data->features)) return false;
        describe(&model->features, own, size);
        describe(&data->features, theirs, size);
        return true;
    }
    if (model->rate == 0 || data->rate == 0 || model->rate == data->rate) return false;
    snprintf(own, size, "recordings of %lld samples a second", (long long)model->rate);
    snprintf(theirs, size, "%lld", (long long)data->rate);
    return true;
}

/* Of one input or output, or of all where the model has one. Labels of evaluations are read as the
 * model's classes. */
static dt_status compare_side(const comparison *c, const dt_model_data *model,
                              const dt_model_data *data)
{
    const bool same =
        model->target != NULL && data->target != NULL && strcmp(model->target, data->target) == 0;
    const bool classes = same && strcmp(model->target, "classes") == 0;
    const char *what = classes ? "class" : "target";
    const list names[] = { { what, model->n_names, model->names },
                           { what, data->n_names, data->names } };
    const list columns[] = { { "column", model->n_columns, model->columns },
                             { "column", data->n_columns, data->columns } };
    char own[200], theirs[200];
    if (same && !(classes && c->use == DT__READ_TO_EVALUATE)) {
        DT__TRY(compare_names(c, &names[0], &names[1]));
    }
    DT__TRY(compare_names(c, &columns[0], &columns[1]));
    if (!tell_apart(model, data, own, theirs, sizeof own)) return DT_OK;
    if (c->use != DT__READ_TO_TRAIN) {
        return dt_fail(c->ctx, DT_ERR_FORMAT, "%s: the model reads %s; the data have %s", c->path,
                       own, theirs);
    }
    dt__say(c->ctx, "warning: %s reads %s; the data have %s", c->path, own, theirs);
    return DT_OK;
}

/* Inputs or outputs of one name. */
static dt_status compare_sides(const comparison *c, int n, const dt_model_data *model, int m,
                               const dt_model_data *data)
{
    for (int i = 0; i < n * m; i++) {
        if (strcmp(model[i / m].name, data[i % m].name) != 0) continue;
        DT__TRY(compare_side(c, &model[i / m], &data[i % m]));
    }
    return DT_OK;
}

dt_status dt__compare_reading(dt_ctx *ctx, const char *path, const dt_model_data *model,
                              const dt_model_data *data, dt__reading_use use)
{
    const comparison c = { ctx, path, use };
    DT__TRY(compare_side(&c, model, data));
    DT__TRY(compare_sides(&c, model->n_inputs, model->inputs, data->n_inputs, data->inputs));
    return compare_sides(&c, model->n_outputs, model->outputs, data->n_outputs, data->outputs);
}
