/* Steps of `data:` after arrays are opened, in this order: check that all numbers are finite,
 * features of signals, means and deviations, labels of normal and anomalous examples.
 *
 * The sums for means are finite only if the rows are: measured rows need no separate check, so the
 * training data are read once. */
#include "data/arrays.h"
#include "data/data_options.h"
#include "data/signals/features.h"
#include "data/tables/column_names.h"

#include <string.h>

/* Puts the name of a key in front of an error that its options caused. */
static dt_status blame(dt_ctx *ctx, const char *key, dt_status status)
{
    if (status != DT_ERR_ARG) return status;
    char words[DT__MESSAGE_SIZE];
    strcpy(words, dt_error(ctx));
    return dt_fail(ctx, DT_ERR_CONFIG, "data.%s: %s", key, words);
}

/* Checks that the numbers of all parts are finite; the first `known` training examples are. Parts
 * that were split off share their store. */
static dt_status check_numbers(dt_dataset **const out[3], int64_t known)
{
    const dt__array_store *first = (*out[0])->arrays;
    DT__TRY(dt__array_store_check(first, known));
    for (int i = 1; i < 3; i++) {
        const dt__array_store *s = *out[i] == NULL ? first : (*out[i])->arrays;
        if (s != first) DT__TRY(dt__array_store_check(s, 0));
    }
    return DT_OK;
}

static dt_status make_features(const dt_data_options *o, dt_dataset **const out[3])
{
    dt_ctx *ctx = (*out[0])->ctx;
    dt_features_options f = o->features;
    const int64_t rate = dt_dataset_rate(*out[0]);
    if (rate > 0) f.rate = (double)rate;
    DT__TRY(dt__features_check(ctx, &f, DT_ERR_CONFIG, "data.features."));
    for (int i = 0; i < 3; i++) {
        if (*out[i] != NULL) DT__TRY(blame(ctx, "features", dt_dataset_features(*out[i], &f)));
    }
    return DT_OK;
}

/* With typed columns only some numbers are measured; the others are not scaled. */
static dt_status measure(const dt_dataset *d, double *mean, double *deviation)
{
    const dt_columns *columns = dt__array_fields(d);
    DT__TRY(dt_dataset_measure(d, mean, deviation));
    if (columns == NULL) return DT_OK;
    const int64_t n = dt_columns_width(columns);
    bool *measured = dt__alloc_array(d->ctx, n, sizeof *measured);
    if (measured == NULL) return DT_ERR_NOMEM;
    dt__columns_measured(columns, measured);
    for (int64_t c = 0; c < n; c++) {
        if (measured[c]) continue;
        mean[c] = 0;
        deviation[c] = 1;
    }
    dt__release(d->ctx, measured);
    return DT_OK;
}

/* `checked`: all numbers are known to be finite. */
static dt_status standardize(const dt_data_options *o, dt_dataset **const out[3], bool checked)
{
    const int64_t channels = dt_dataset_array_channels(*out[0]);
    dt_ctx *ctx = (*out[0])->ctx;
    double *numbers = dt__alloc_array(ctx, 2 * channels, sizeof *numbers);
    if (numbers == NULL) return DT_ERR_NOMEM;
    double *mean = numbers, *deviation = numbers + channels;
    const dt_reals *const given[] = { &o->standard.mean, &o->standard.deviation };
    dt_status status = DT_OK;
    for (int i = 0; i < 2 && given[0]->n > 0 && status == DT_OK; i++) {
        if (given[i]->n != 1 && given[i]->n != channels) {
            status = dt_fail(ctx, DT_ERR_CONFIG,
                             "data.standardize.%s: %d number%s for %lld channel%s; expected one, "
                             "or one for each",
                             i == 0 ? "mean" : "deviation", given[i]->n, DT__S(given[i]->n),
                             (long long)channels, DT__S(channels));
        }
        for (int64_t c = 0; status == DT_OK && c < channels; c++) {
            (i == 0 ? mean : deviation)[c] = given[i]->v[given[i]->n == 1 ? 0 : c];
        }
    }
    /* first refuses numbers that are equal only as f32, which may be why a channel is constant */
    if (status == DT_OK && !checked) status = check_numbers(out, (*out[0])->count);
    if (status == DT_OK && given[0]->n == 0) status = measure(*out[0], mean, deviation);
    for (int i = 0; i < 3 && status == DT_OK; i++) {
        if (*out[i] != NULL) status = dt_dataset_standardize(*out[i], channels, mean, deviation);
    }
    dt__release(ctx, numbers);
    return status;
}

/* An error if there are no normal examples to train on. */
static dt_status check_normal(const dt_dataset *d)
{
    for (int64_t i = 0; i < d->count; i++) {
        if (dt_dataset_label(d, i) == 0) return DT_OK;
    }
    return dt_fail(d->ctx, DT_ERR_CONFIG,
                   "data.normal: no example of data.train is normal; it must name labels that are "
                   "there");
}

dt_status dt__arrays_finish(const dt_data_options *o, dt_dataset **const out[3])
{
    dt_ctx *ctx = (*out[0])->ctx;
    const bool scales = o->standardize || o->standard.given;
    const bool measures = scales && o->standard.mean.n == 0 &&
                          o->features.kind == DT_FEATURES_NONE &&
                          dt__array_is_rows((*out[0])->arrays);
    if (!measures) DT__TRY(check_numbers(out, 0));
    if (o->features.kind != DT_FEATURES_NONE) DT__TRY(make_features(o, out));
    if (scales) DT__TRY(standardize(o, out, !measures));
    for (int i = 0; i < 3 && o->task == DT_DATA_ANOMALY; i++) {
        if (*out[i] != NULL) DT__TRY(blame(ctx, "task", dt_dataset_anomaly(*out[i])));
    }
    if (o->task == DT_DATA_ANOMALY) DT__TRY(check_normal(*out[0]));
    return DT_OK;
}
