/* Random changes of arrays, after they are standardized, so that 0 is the mean. Block e of the
 * seed's stream for augmentation holds two keys of epoch e:
 *   - block k of the first key: word 0 shifts the signal at position k along time, word 1 scales
 *     it, words 2 and 3 are length and beginning of the time steps that are set to 0;
 *   - the second key gives the jitter, for input k of several from block k 2^56 on.
 * So several inputs of an example are shifted, scaled and masked in the same way. */
#include "data/arrays.h"

#include <math.h>
#include <string.h>

static dt_status check_time(const dt_dataset *d, const char *key, int64_t most)
{
    const dt__array_store *s = d->arrays;
    if (most == 0) return DT_OK;
    if (s->rank != 2) {
        return dt_fail(d->ctx, DT_ERR_ARG,
                       "loader: augment.%s is for signals [time, channels], not for arrays of %d "
                       "dimension%s",
                       key, s->rank, s->rank == 1 ? "" : "s");
    }
    if (most > 0 && most < s->dims[0]) return DT_OK;
    return dt_fail(d->ctx, DT_ERR_ARG,
                   "loader: augment.%s %lld of signals of %lld time steps: expected 0 to %lld", key,
                   (long long)most, (long long)s->dims[0], (long long)s->dims[0] - 1);
}

dt_status dt__arrays_check(const dt_dataset *d, const dt_loader_options *o)
{
    const dt_augment_options *a = &o->augment;
    if (a->flip || dt__images_change(a)) {
        return dt_fail(d->ctx, DT_ERR_ARG,
                       "loader: augment.flip, rotation, brightness, contrast and erasing are for "
                       "images, not for arrays");
    }
    DT__TRY(check_time(d, "shift", a->shift));
    DT__TRY(check_time(d, "crop", a->crop));
    DT__TRY(check_time(d, "time_mask", a->time_mask));
    if (a->shift > 0 && a->crop > 0) {
        return dt_fail(d->ctx, DT_ERR_ARG,
                       "loader: shift and crop are the same movement: expected one of them");
    }
    if (a->scale >= 0 && a->scale < 1 && a->jitter >= 0 && isfinite((float)a->jitter)) return DT_OK;
    return dt_fail(d->ctx, DT_ERR_ARG,
                   "loader: augment.scale %g, jitter %g: scale must be below 1, jitter finite, and "
                   "neither negative",
                   a->scale, a->jitter);
}

/* Shifts rows by `by`; the gap is filled with zeros. */
static void shift_rows(int64_t rows, int64_t row, int64_t by, float *x)
{
    const int64_t kept = rows - (by < 0 ? -by : by);
    if (by == 0) return;
    memmove(x + dt__max_i64(by, 0) * row, x + dt__max_i64(-by, 0) * row,
            (size_t)(kept * row) * sizeof *x);
    memset(x + (by > 0 ? 0 : kept * row), 0, (size_t)((rows - kept) * row) * sizeof *x);
}

/* Sets 0 to `most` consecutive rows to 0, at a random position. */
static void mask_rows(int64_t rows, int64_t row, int64_t most, const uint32_t word[2], float *x)
{
    const int64_t n = (int64_t)((word[0] * ((uint64_t)most + 1)) >> 32);
    const int64_t first = (int64_t)((word[1] * (uint64_t)(rows - n + 1)) >> 32);
    memset(x + first * row, 0, (size_t)(n * row) * sizeof *x);
}

void dt__arrays_augment(const dt__batch *b, int64_t i, float *x)
{
    const dt_augment_options *a = &b->options->augment;
    const dt__array_store *s = b->d->arrays;
    /* only one of the two is nonzero */
    const int64_t size = dt__array_size(s), most = a->shift + a->crop;
    if (most == 0 && a->scale == 0 && a->jitter == 0 && a->time_mask == 0) return;
    const dt__epoch_keys key = dt__keys_of_epoch(b->options->seed, DT__FOR_AUGMENT, b->epoch);
    const int64_t place = b->first + i, rows = s->dims[0], row = size / rows;
    uint32_t word[4];
    dt__philox(key.first, (uint64_t)place, word);
    if (most > 0) shift_rows(rows, row, dt__random_offset(word[0], most), x);
    const float factor = 1 + (float)a->scale * (2 * dt__unit_f32(word[1]) - 1);
    for (int64_t k = 0; k < size && a->scale > 0; k++) x[k] *= factor;
    if (a->jitter > 0) {
        const uint64_t first = ((uint64_t)dt__arrays_input(b->state) << 56) +
                               (uint64_t)(place * dt__noise_blocks(size));
        dt__add_noise(key.second, first, size, (float)a->jitter, x);
    }
    if (a->time_mask > 0) mask_rows(rows, row, a->time_mask, word + 2, x);
}
