/* Whether data have the numbers that a model reads: mean and deviation of its file against those of
 * the dataset. What differs is said, since a model that is given other numbers answers wrongly
 * without an error. */
#include "core/text/json.h"
#include "io/model/model.h"
#include "train/run/run.h"

#include <math.h>
#include <stdio.h>

static dt_status collect(void *user, const char *text, size_t bytes)
{
    dt__chars *t = user;
    dt__put(t, text, bytes);
    return t->failed ? DT_ERR_NOMEM : DT_OK;
}

static bool is_near(double a, double b) { return fabs(a - b) <= 1e-6 * (fabs(a) + fabs(b)); }

/* (v - 0) / 1 where nothing is known; one number stands for all channels. */
static double number(const dt_model_data *d, const double *v, int64_t channel, double fallback)
{
    return d->channels == 0 ? fallback : v[d->channels == 1 ? 0 : channel];
}

static bool scale_alike(const dt_model_data *a, const dt_model_data *b)
{
    const int64_t n = a->channels > b->channels ? a->channels : b->channels;
    if (a->channels > 1 && b->channels > 1 && a->channels != b->channels) return false;
    for (int64_t c = 0; c < n; c++) {
        if (!is_near(number(a, a->mean, c, 0), number(b, b->mean, c, 0)) ||
            !is_near(number(a, a->deviation, c, 1), number(b, b->deviation, c, 1))) {
            return false;
        }
    }
    return true;
}

/* Whether numbers are given as they are, which is what data without a mean and deviation do. */
static bool is_plain(const dt_model_data *d)
{
    for (int64_t c = 0; c < d->channels; c++) {
        if (d->mean[c] != 0 || d->deviation[c] != 1) return false;
    }
    return true;
}

/* "numbers with mean 0.485, 0.456, ..., deviation 0.229, ..." */
static void describe(const dt_model_data *d, char *to, size_t size)
{
    const double *const list[] = { d->mean, d->deviation };
    size_t used = 0;
    const int64_t n_channels = is_plain(d) ? 0 : d->channels;
    if (n_channels == 0)
        snprintf(to, size, "%s", d->pixels ? "pixels p as v = p/255" : "numbers as they are");
    for (int i = 0; i < 2 && n_channels > 0; i++) {
        for (int64_t c = 0; c < d->channels && c < 4 && used + 1 < size; c++) {
            const int n = snprintf(to + used, size - used, "%s%s%.6g%s",
                                   c > 0   ? ", "
                                   : i > 0 ? ", "
                                           : "",
                                   c > 0   ? ""
                                   : i > 0 ? "deviation "
                                           : "numbers with mean ",
                                   list[i][c], c == 3 && d->channels > 4 ? ", ..." : "");
            used += n < 0 ? 0 : (size_t)n;
        }
    }
}

static void compare(dt_ctx *ctx, const char *path, const dt_model_data *model,
                    const dt_model_data *data, bool trains)
{
    char own[200], theirs[200];
    if (model->n_inputs > 1 || data->n_inputs > 1) return;
    if (data->pixels && !model->pixels && model->channels == 0) {
        if (!is_plain(data)) return;
        dt__say(ctx,
                "%s does not say what numbers it reads: pixels p are given to it as v = p/255, by "
                "data.mean 0 and data.deviation 1",
                path);
        return;
    }
    if (scale_alike(model, data) || (!trains && is_plain(data))) return;
    if (!trains && !data->pixels && !model->pixels) {
        dt__say(ctx,
                is_plain(model) ? "data.standardize: %s reads numbers as they are"
                                : "data.standardize: the mean and deviation of %s are used",
                path);
        return;
    }
    describe(model, own, sizeof own);
    describe(data, theirs, sizeof theirs);
    dt__say(ctx, "%s reads %s; the recipe gives it %s%s", path, own, theirs,
            trains ? "" : ", in whose place the model's are used");
}

dt_status dt__say_scaling(dt_ctx *ctx, const char *path, const char *text, const dt_dataset *d,
                          bool trains)
{
    dt__chars t = { .ctx = ctx };
    dt_model_data model = { .target = NULL }, data = { .target = NULL };
    dt_status s = dt_model_data_text(d, collect, &t);
    if (s == DT_OK && t.used > 0 && dt__chars_text(&t) == NULL) s = DT_ERR_NOMEM;
    const bool tokens = t.used == 0 || dt_dataset_target(d) == DT_TARGET_TOKENS;
    if (s == DT_OK && !tokens) s = dt_model_data_parse(ctx, t.bytes, "the data", &data);
    if (s == DT_OK && !tokens && text != NULL) s = dt_model_data_parse(ctx, text, path, &model);
    if (s == DT_OK && !tokens) compare(ctx, path, &model, &data, trains);
    if (s == DT_OK && !tokens)
        s = dt__compare_reading(ctx, path, &model, &data,
                                trains ? DT__READ_TO_TRAIN : DT__READ_TO_EVALUATE);
    dt_model_data_free(ctx, &model);
    dt_model_data_free(ctx, &data);
    dt__release(ctx, t.bytes);
    return s;
}

dt_status dt__give_scaling(dt_ctx *ctx, const char *path, const char *text, dt_dataset *d)
{
    char why[DT__MESSAGE_SIZE];
    dt_model_data model;
    if (text == NULL) return DT_OK;
    DT__TRY(dt__say_scaling(ctx, path, text, d, false));
    DT__TRY(dt_model_data_parse(ctx, text, path, &model));
    const dt_status s = dt_model_data_standardize(&model, d);
    dt_model_data_free(ctx, &model);
    if (s != DT_ERR_ARG) return s;
    snprintf(why, sizeof why, "%s", dt_error(ctx));
    return dt_fail(ctx, DT_ERR_FORMAT,
                   "%s: mean and deviation of the model do not fit the data: %s", path, why);
}
