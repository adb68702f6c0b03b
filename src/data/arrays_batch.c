/* Batches of arrays: examples are converted to f32 and standardized on all threads.
 *     x = (v - mean[c]) / deviation[c]      in fp32, in this order */
#include "data/arrays.h"

#include "core/threads.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TILE 1024 /* length of the repeated tables, if channels are the last dimension */

/* State of a loader: means to subtract, deviations to divide by. If channels are the last
 * dimension, both tables repeat them, so that loops are long. */
typedef struct scaler {
    dt__array_channels shape;
    int64_t period;          /* length of each table */
    float *mean, *deviation; /* NULL: not standardized */
    bool reads_ahead;        /* the next batch may have to be read from disk */
    int input;               /* dt__arrays_set_input */
} scaler;

static size_t mapped_bytes(const dt__array_source *s)
{
    return s->storage == NULL ? s->map_bytes : s->storage->mapped;
}

void dt__arrays_at_random(const dt__array_store *s)
{
    for (int64_t i = 0; i < s->n_sources; i++) {
        const dt__storage *x = s->source[i].storage;
        if (x != NULL && x->mapped > 0) posix_madvise(x->data, x->mapped, POSIX_MADV_RANDOM);
    }
}

/* Whether the mapped files exceed memory: opening a dataset reads all of it, so smaller files are
 * in memory. */
static bool is_large(const dt__array_store *s)
{
    double mapped = 0;
    for (int64_t i = 0; i < s->n_sources; i++) mapped += (double)mapped_bytes(&s->source[i]);
    return mapped > 0.5 * (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

dt_status dt__arrays_begin(const dt_dataset *d, void **state)
{
    scaler *s = *state = dt__alloc_zero(d->ctx, sizeof *s);
    if (s == NULL) return DT_ERR_NOMEM;
    s->shape = dt__array_channels_of(d->arrays);
    s->reads_ahead = is_large(d->arrays);
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
    DT__RELEASE(ctx, s->mean, s->deviation, s);
}

void dt__arrays_set_input(void *state, int input) { ((scaler *)state)->input = input; }

int dt__arrays_input(const void *state) { return ((const scaler *)state)->input; }

/* Standardizes n numbers with tables of n numbers. */
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

void dt__arrays_put(const dt__batch *b, int64_t i, float *x)
{
    dt__array_example(b->d->arrays, b->d->first + dt__batch_example(b, i), x);
    scale(b->state, x);
    dt__arrays_augment(b, i, x);
}

static void put_example(const dt__batch *b, int64_t i)
{
    const dt_dataset *d = b->d;
    const size_t target = (size_t)dt__array_cells(d) * sizeof(float);
    dt__arrays_put(b, i, (float *)b->x + i * dt__array_size(d->arrays));
    memcpy((uint8_t *)b->target + (size_t)i * target, dt__array_target(d, dt__batch_example(b, i)),
           target);
}

DT__LOOP(arrays_fill_share, dt__batch, b, i) { put_example(b, i); }

void dt__arrays_fill(const dt__batch *b)
{
    dt__team *const before = dt__threads_enter(b->d->ctx);
    dt__parallel(b->n, dt__ceil_div(dt__array_size(b->d->arrays), 8), arrays_fill_share, b);
    dt__threads_leave(before);
}

/* Asks the system to read the examples of a batch from large mapped files. The call returns at
 * once; the disk works during the forward and backward pass. Consecutive examples are requested
 * together. */
void dt__arrays_expect(const dt__batch *b)
{
    const dt__array_store *s = b->d->arrays;
    const scaler *state = b->state;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (!state->reads_ahead) return;
    uintptr_t begin = 0, end = 0;
    for (int64_t i = 0; i < b->n; i++) {
        const dt__array_place place = dt__array_place_of(s, b->d->first + dt__batch_example(b, i));
        if (mapped_bytes(place.source) == 0) continue; /* in memory */
        const uintptr_t from = (uintptr_t)place.begin / page * page;
        const uintptr_t to = (uintptr_t)place.begin + (uintptr_t)place.bytes;
        if (from >= begin && from <= end) {
            end = to > end ? to : end;
            continue;
        }
        if (end > begin) posix_madvise((void *)begin, end - begin, POSIX_MADV_WILLNEED);
        begin = from;
        end = to;
    }
    if (end > begin) posix_madvise((void *)begin, end - begin, POSIX_MADV_WILLNEED);
}
