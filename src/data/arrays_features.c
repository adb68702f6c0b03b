/* Replaces signals of a dataset by their features, which are computed once and are much smaller
 * than the samples. */
#include "data/arrays.h"

#include <string.h>

#define CHUNK 64 /* signals that are converted at a time */

typedef struct conversion {
    const dt_dataset *d;
    const dt_features_options *options;
    dt_features *features;
    int64_t samples, channels; /* of a signal [samples, channels] */
    int64_t size;              /* numbers of its features */
    float *signal, *split;     /* [samples, channels]; [CHUNK, channels, samples] */
} conversion;

/* Features [channels, frames, width] of examples first ... first + n - 1. 16-bit samples, and those
 * of sound files, are scaled to -1...1. */
static dt_status convert(const conversion *c, int64_t first, int64_t n, float *out)
{
    const dt__array_store *s = c->d->arrays;
    const float full = s->dtype == DT_ARRAY_I16 || s->from_sounds ? 0x1p-15F : 1;
    for (int64_t i = 0; i < n; i++) {
        float *to = c->split + i * c->channels * c->samples;
        dt__array_example(c->d->arrays, c->d->first + first + i, c->signal);
        for (int64_t k = 0; k < c->channels * c->samples; k++) {
            to[k % c->channels * c->samples + k / c->channels] = full * c->signal[k];
        }
    }
    return dt_features_run(c->features, c->split, n * c->channels, c->samples, out);
}

static dt_status copy_recordings(const dt_dataset *d, dt__array_store *s)
{
    if (!dt__dataset_has_windows(d)) return DT_OK;
    s->cut_from = dt__storage_create(s->ctx, (uint64_t)d->count * sizeof(int64_t));
    if (s->cut_from == NULL) return DT_ERR_NOMEM;
    int64_t *to = s->cut_from->data;
    for (int64_t i = 0; i < d->count; i++) to[i] = dt__dataset_recording(d, i);
    return DT_OK;
}

static dt_status copy_targets(const dt_dataset *d, dt__array_store *s)
{
    const size_t each =
        dt__has_label(d) ? sizeof(int32_t) : (size_t)d->arrays->outputs * sizeof(float);
    s->targets = dt__storage_create(s->ctx, (uint64_t)d->count * each);
    if (s->targets == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < d->count; i++) {
        memcpy((char *)s->targets->data + (size_t)i * each, dt__array_target(d, i), each);
    }
    s->outputs = d->arrays->outputs;
    DT__TRY(copy_recordings(d, s));
    return dt__array_store_names(s, (const char *const *)d->arrays->class_name);
}

static dt_status fill_store(conversion *c, dt__array_store *s)
{
    const dt_dataset *d = c->d;
    const int64_t count[] = { d->count, c->size, (int64_t)sizeof(float) };
    int64_t bytes;
    if (!dt__product(3, count, &bytes))
        return dt_fail(d->ctx, DT_ERR_NOMEM, "out of memory for features");
    dt__array_source source = { .storage = dt__storage_create(d->ctx, (uint64_t)bytes) };
    if (source.storage == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt__array_store_keep(s, "features", source));
    DT__TRY(dt__array_store_add(s, DT_ARRAY_F32, source.storage->data, d->count));
    DT__TRY(copy_targets(d, s));
    float *out = source.storage->data;
    for (int64_t i = 0; i < d->count; i += CHUNK) {
        DT__TRY(convert(c, i, dt__min_i64(CHUNK, d->count - i), out + i * c->size));
    }
    return dt__array_store_check(s, 0);
}

/* Replaces the dataset's store by the new one. */
static dt_status replace(dt_dataset *d, conversion *c)
{
    dt__array_store *s = dt__array_store_create(d->ctx);
    if (s == NULL) return DT_ERR_NOMEM;
    s->dtype = DT_ARRAY_F32;
    s->rank = 3;
    s->dims[0] = c->channels;
    s->dims[1] = dt_features_frames(c->features, c->samples);
    s->dims[2] = dt_features_width(c->features);
    s->axis = 2;
    s->rate = d->arrays->rate;
    s->features = *c->options;
    s->samples = c->samples;
    s->row = c->size = s->dims[0] * s->dims[1] * s->dims[2];
    const dt_status status = fill_store(c, s);
    if (status != DT_OK) {
        dt__array_store_release(s);
        return status;
    }
    dt__array_store_release(d->arrays);
    d->arrays = s;
    d->first = 0;
    return DT_OK;
}

static dt_status check(const dt_dataset *d, const conversion *c)
{
    const dt__array_store *s = d->arrays;
    if (s == NULL || s->rank > 2 || d->scaling != NULL) {
        return dt_fail(d->ctx, DT_ERR_ARG,
                       "features: its %s: expected signals [samples] or [samples, channels] that "
                       "are not standardized",
                       d->kind->examples);
    }
    if (dt_features_frames(c->features, c->samples) > 0) return DT_OK;
    return dt_fail(d->ctx, DT_ERR_ARG,
                   "features: signals of %lld sample%s are shorter than a frame",
                   (long long)c->samples, DT__S(c->samples));
}

dt_status dt_dataset_features(dt_dataset *d, const dt_features_options *options)
{
    DT__NEED2(NULL, d, options);
    conversion c = { .d = d, .options = options };
    const dt__array_store *s = d->arrays;
    DT__TRY(dt_features_create(d->ctx, options, &c.features));
    c.channels = s != NULL && s->rank == 2 ? s->dims[1] : 1;
    c.samples = s == NULL ? 0 : s->dims[0];
    dt_status status = check(d, &c);
    if (status == DT_OK) {
        c.signal = dt__alloc_array(d->ctx, c.samples * c.channels, sizeof *c.signal);
        c.split = dt__alloc_array(d->ctx, CHUNK * c.samples * c.channels, sizeof *c.split);
        status = c.signal == NULL || c.split == NULL ? DT_ERR_NOMEM : replace(d, &c);
    }
    DT__RELEASE(d->ctx, c.signal, c.split);
    dt_features_free(c.features);
    return status;
}
