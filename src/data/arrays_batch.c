/* Batches of arrays: examples are converted to f32 and standardized on all threads.
 *     x = (v - mean[c]) / deviation[c]      in fp32, in this order */
#include "data/arrays.h"

#include <string.h>

#define TILE 1024 /* numbers of a table for channels that are the last dimension */

/* Of a loader: numbers to subtract and to divide by. Where channels are the last dimension, both
 * repeat them, so that long runs are computed at once. */
typedef struct scaler {
    dt__array_channels shape;
    int64_t period;          /* numbers of a table */
    float *mean, *deviation; /* NULL: nothing to do */
} scaler;

dt_status dt__arrays_begin(const dt_dataset *d, void **state)
{
    scaler *s = *state = dt__alloc_zero(d->ctx, sizeof *s);
    if (s == NULL) return DT_ERR_NOMEM;
    s->shape = dt__array_channels_of(d->arrays);
    if (d->scaling == NULL) return DT_OK;
    const int64_t channels = s->shape.channels;
    const double *mean = d->scaling->data, *deviation = mean + channels;
    s->period = s->shape.inner > 1 ? channels : channels * dt__ceil_div(TILE, channels);
    s->mean = dt__alloc_array(d->ctx, s->period, sizeof *s->mean);
    s->deviation = dt__alloc_array(d->ctx, s->period, sizeof *s->deviation);
    if (s->mean == NULL || s->deviation == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < s->period; i++) {
        s->mean[i] = (float)mean[i % channels];
        s->deviation[i] = (float)deviation[i % channels];
    }
    return DT_OK;
}

void dt__arrays_end(dt_ctx *ctx, void *state)
{
    scaler *s = state;
    if (s == NULL) return;
    dt__release(ctx, s->mean);
    dt__release(ctx, s->deviation);
    dt__release(ctx, s);
}

/* Standardizes n numbers by tables of n numbers. */
static void scale_run(int64_t n, const float *mean, const float *deviation, float *x)
{
    for (int64_t i = 0; i < n; i++) x[i] = (x[i] - mean[i]) / deviation[i];
}

static void scale(const scaler *s, float *x)
{
    const int64_t inner = s->shape.inner, n = s->shape.outer * s->shape.channels;
    if (s->mean == NULL) return;
    if (inner == 1) {
        for (int64_t i = 0; i < n; i += s->period) {
            scale_run(dt__min_i64(s->period, n - i), s->mean, s->deviation, x + i);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++, x += inner) {
        const float mean = s->mean[i % s->period], deviation = s->deviation[i % s->period];
        for (int64_t k = 0; k < inner; k++) x[k] = (x[k] - mean) / deviation;
    }
}

static void put_example(const dt__batch *b, int64_t i)
{
    const dt_dataset *d = b->d;
    const int64_t example = dt__batch_example(b, i);
    const size_t target =
        d->target == DT_TARGET_CLASS ? sizeof(int32_t) : (size_t)d->arrays->outputs * sizeof(float);
    float *x = (float *)b->x + i * dt__array_size(d->arrays);
    dt__array_example(d->arrays, d->first + example, x);
    scale(b->state, x);
    memcpy((uint8_t *)b->target + (size_t)i * target, dt__array_target(d, example), target);
}

void dt__arrays_fill(const dt__batch *b)
{
    const int before = dt__threads_enter(b->d->ctx);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < b->n; i++) put_example(b, i);
    dt__threads_leave(before);
}
