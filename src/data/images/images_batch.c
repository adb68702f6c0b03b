/* Batches of images. Block e of the seed's stream for augmentation holds two keys of epoch e:
 *   - block k of the first shifts and flips the image at position k, and its target likewise,
 *   - the second gives the noise of that image, one block per two numbers.
 *     x = ((float)p / 255 - mean) / deviation      in fp32, in this order
 * comes from a table of 256 values per channel. Noise adds (noise / deviation) z; z is the sum of
 * half a block's eight bytes, centred and scaled [Irwin-Hall distribution: nearly normal]. */
#include "data/dataset.h"

#include "core/threads.h"

#include <string.h>

typedef struct tables {
    float *value;     /* [channels][256]: x of a byte */
    float *noise;     /* [channels]: factor of z */
    float white[256]; /* p/255, for target images */
    uint8_t *plane;   /* a channel or mask after augmentation */
    uint8_t *turned;  /* the same after rotation */
} tables;

static dt_status check_movement(const dt_dataset *d, const char *key, int64_t most)
{
    const int64_t side = dt__min_i64(d->height, d->width);
    if (most >= 0 && (most == 0 || most < side)) return DT_OK;
    return dt_fail(d->ctx, DT_ERR_ARG,
                   "loader: %s %lld of images of %lld x %lld pixels: expected 0 to %lld", key,
                   (long long)most, (long long)d->height, (long long)d->width, (long long)side - 1);
}

dt_status dt__images_check(const dt_dataset *d, const dt_loader_options *o)
{
    if (o->augment.scale != 0 || o->augment.jitter != 0 || o->augment.time_mask != 0) {
        return dt_fail(d->ctx, DT_ERR_ARG,
                       "loader: augment.scale, jitter and time_mask are for "
                       "arrays, not for images");
    }
    DT__TRY(dt__images_check_changes(d, &o->augment));
    DT__TRY(dt__images_check_mixture(d, &o->augment));
    DT__TRY(check_movement(d, "shift", o->augment.shift));
    DT__TRY(check_movement(d, "crop", o->augment.crop));
    if (o->augment.shift > 0 && o->augment.crop > 0) {
        return dt_fail(d->ctx, DT_ERR_ARG,
                       "loader: shift and crop are the same movement: expected one of them");
    }
    return DT_OK;
}

static float number_of(const dt_reals *list, int64_t channel, float none)
{
    return list->n == 0 ? none : (float)list->v[list->n == 1 ? 0 : channel];
}

dt_status dt__images_begin(const dt_dataset *d, void **state)
{
    tables *s = *state = dt__alloc_zero(d->ctx, sizeof *s);
    if (s == NULL) return DT_ERR_NOMEM;
    s->value = dt__alloc_array(d->ctx, d->channels, 256 * sizeof *s->value);
    s->noise = dt__alloc_array(d->ctx, d->channels, sizeof *s->noise);
    s->plane = dt__alloc_array(d->ctx, d->height, (size_t)d->width);
    s->turned = dt__alloc_array(d->ctx, d->height, (size_t)d->width);
    if (s->value == NULL || s->noise == NULL || s->plane == NULL || s->turned == NULL) {
        return DT_ERR_NOMEM;
    }
    for (int p = 0; p < 256; p++) s->white[p] = (float)p / 255.0f;
    for (int64_t c = 0; c < d->channels; c++) {
        const float mean = number_of(&d->mean, c, 0), deviation = number_of(&d->deviation, c, 1);
        s->noise[c] = (float)d->noise / deviation;
        for (int p = 0; p < 256; p++) s->value[256 * c + p] = (s->white[p] - mean) / deviation;
    }
    return DT_OK;
}

void dt__images_end(dt_ctx *ctx, void *state)
{
    tables *s = state;
    if (s == NULL) return;
    DT__RELEASE(ctx, s->value, s->noise, s->plane, s->turned, s);
}

/* Geometric augmentation of an image and its target: a flip, then a shift, then a rotation. */
typedef struct move {
    int64_t down, right;
    bool flip;
    float turn; /* as in dt__change */
} move;

static move move_of(const dt_augment_options *o, uint64_t key, int64_t place)
{
    const int64_t most = o->shift + o->crop; /* only one of them is set */
    if (most == 0 && !o->flip) return (move){ 0, 0, false, 0 };
    uint32_t word[4];
    dt__philox(key, (uint64_t)place, word);
    return (move){ dt__random_offset(word[0], most), dt__random_offset(word[1], most),
                   o->flip && word[2] >> 31, 0 };
}

/* to[r][c] = from[r - down][c - right], of the flipped plane if `flip`; 0 outside. */
static const uint8_t *shifted(const dt__batch *b, const uint8_t *from, move by)
{
    if (by.down == 0 && by.right == 0 && !by.flip) return from;
    const tables *s = b->state;
    const int64_t height = b->d->height, width = b->d->width;
    const int64_t first = dt__max_i64(by.right, 0), end = width + dt__min_i64(by.right, 0);
    memset(s->plane, 0, (size_t)(height * width));
    for (int64_t r = dt__max_i64(by.down, 0); r < height + dt__min_i64(by.down, 0); r++) {
        const uint8_t *row = from + (r - by.down) * width;
        uint8_t *to = s->plane + r * width;
        if (!by.flip) {
            memcpy(to + first, row + first - by.right, (size_t)(end - first));
            continue;
        }
        const uint8_t *last = row + width - 1 + by.right;
        for (int64_t c = first; c < end; c++) to[c] = last[-c];
    }
    return s->plane;
}

/* Shifts and rotates a plane; `smooth`: pixels are brightness, not classes. */
static const uint8_t *moved(const dt__batch *b, const uint8_t *from, move by, bool smooth)
{
    const tables *s = b->state;
    const uint8_t *plane = shifted(b, from, by);
    if (by.turn == 0) return plane;
    dt__turn_plane(b->d, plane, by.turn, smooth, s->turned);
    return s->turned;
}

static void put_image(const dt__batch *b, const uint8_t *image, move by, float *x)
{
    const tables *s = b->state;
    const int64_t size = b->d->height * b->d->width;
    for (int64_t c = 0; c < b->d->channels; c++, image += size, x += size) {
        const uint8_t *plane = moved(b, image, by, true);
        const float *value = s->value + 256 * c;
        for (int64_t k = 0; k < size; k++) x[k] = value[plane[k]];
    }
}

DT__EACH(add_noises, i, const dt__batch *b; uint64_t key; const tables *s;
         int64_t channels, size, blocks;)
{
    dt__add_noise(a.key, (uint64_t)((a.b->first * a.channels + i) * a.blocks), a.size,
                  a.s->noise[i % a.channels], (float *)a.b->x + i * a.size);
}

static void add_noises(const dt__batch *b, uint64_t key)
{
    const tables *s = b->state;
    const int64_t channels = b->d->channels, size = b->d->height * b->d->width;
    const int64_t blocks = dt__noise_blocks(size); /* per channel */
    dt__team *const before = dt__threads_enter(b->d->ctx);
    dt__parallel(b->n * channels, 8 * size, add_noises_share,
                 &(add_noises_args){ b, key, s, channels, size, blocks });
    dt__threads_leave(before);
}

/* Copies the target of the batch's image i. */
static void put_target(const dt__batch *b, const uint8_t *from, move by, int64_t i)
{
    const dt_dataset *d = b->d;
    const tables *s = b->state;
    const int64_t size = d->height * d->width;
    if (d->target == DT_TARGET_CLASS) {
        ((int32_t *)b->target)[i] = *from;
    } else if (d->target == DT_TARGET_MASK) {
        const uint8_t *plane = moved(b, from, by, false);
        int32_t *to = (int32_t *)b->target + i * size;
        for (int64_t k = 0; k < size; k++) to[k] = plane[k];
    } else {
        float *to = (float *)b->target + i * dt__dataset_image_bytes(d);
        for (int64_t c = 0; c < d->channels; c++, from += size, to += size) {
            const uint8_t *plane = moved(b, from, by, true);
            for (int64_t k = 0; k < size; k++) to[k] = s->white[plane[k]];
        }
    }
}

static void change_image(const dt__batch *b, const dt__change *c, float *x)
{
    const dt_dataset *d = b->d;
    for (int64_t k = 0; k < d->channels; k++, x += d->height * d->width) {
        dt__change_plane(d, c, number_of(&d->mean, k, 0), number_of(&d->deviation, k, 1), x);
    }
}

void dt__images_fill(const dt__batch *b)
{
    const dt_dataset *d = b->d;
    const dt_augment_options *a = &b->options->augment;
    const dt__epoch_keys key = dt__keys_of_epoch(b->options->seed, DT__FOR_AUGMENT, b->epoch);
    const int64_t bytes = dt__dataset_image_bytes(d);
    const bool changes = dt__images_change(a);
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t image = dt__batch_example(b, i);
        float *x = (float *)b->x + i * bytes;
        move by = move_of(a, key.first, b->first + i);
        dt__change change = { 0 };
        if (changes) change = dt__change_of(d, a, key.first, b->first + i);
        by.turn = change.turn;
        put_image(b, dt__dataset_image(d, image), by, x);
        if (changes) change_image(b, &change, x);
        put_target(b, dt__dataset_target(d, image), by, i);
    }
    if (d->noise > 0) add_noises(b, key.second);
}
