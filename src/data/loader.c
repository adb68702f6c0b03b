/* Batches of a dataset. Epoch e takes the images in an order of its own: Fisher and Yates's shuffle
 * with the numbers of block e of the seed's stream for shuffling. Block e of the stream for
 * augmentation holds two more keys of the epoch:
 *   - block k of the first moves the image at place k, and its target likewise,
 *   - the second gives the noise of that image, one block for two of its numbers.
 * So nothing depends on what was drawn before, and any batch can be made first.
 *     x = ((float)p / 255 - mean) / deviation      in fp32, in this order
 * comes from a table of 256 for each channel. Noise adds (noise / deviation) z to it; z is the sum
 * of half a block's eight bytes, centred and scaled [Irwin, Hall: near to normal].
 * One pair of tensors, and a second pair of views for the short last batch, serve for ever: batches
 * allocate nothing. */
#include "data/dataset.h"

#include <math.h>
#include <string.h>

#define DEVIATION_OF_8_BYTES 209.02153f /* sqrt(8 (256^2 - 1) / 12) */

struct dt_loader {
    dt_ctx *ctx;
    const dt_dataset *data;
    dt_loader_options options;
    int64_t batches, last; /* in an epoch; images in the last */
    dt_position next;
    int64_t ordered;             /* the epoch that `order` is of; -1: none */
    int64_t *order;              /* NULL where the order is the dataset's */
    float *value;                /* [channels][256]: x of a byte */
    float *noise;                /* [channels]: what z is multiplied with */
    float white[256];            /* p/255: target images */
    uint8_t *plane;              /* a channel or mask that was moved */
    dt_tensor *x[2], *target[2]; /* whole batches, the last batch where it is shorter */
};

typedef struct keys {
    uint64_t first, second;
} keys;

/* Those that block `epoch` of the stream holds. */
static keys epoch_keys(uint64_t seed, dt__purpose purpose, int64_t epoch)
{
    uint32_t word[4];
    dt__philox(dt__stream_of(seed, purpose).key, (uint64_t)epoch, word);
    return (keys){ (uint64_t)word[0] << 32 | word[1], (uint64_t)word[2] << 32 | word[3] };
}

static void order_epoch(dt_loader *l)
{
    if (l->order == NULL || l->ordered == l->next.epoch) return;
    const int64_t n = l->data->count;
    dt__stream s = { .key = epoch_keys(l->options.seed, DT__FOR_SHUFFLE, l->next.epoch).first };
    for (int64_t i = 0; i < n; i++) l->order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = (int64_t)dt__random_below(&s, (uint64_t)i + 1);
        const int64_t kept = l->order[i];
        l->order[i] = l->order[j];
        l->order[j] = kept;
    }
    l->ordered = l->next.epoch;
}

/* ---- creation ----------------------------------------------------------------------------- */

dt_loader_options dt_loader_defaults(void)
{
    return (dt_loader_options){ .batch_size = 64, .shuffle = true };
}

static dt_status check_movement(const dt_dataset *d, const char *key, int64_t most)
{
    const int64_t side = dt__min_i64(d->height, d->width);
    if (most >= 0 && (most == 0 || most < side)) return DT_OK;
    return dt_fail(d->ctx, DT_ERR_ARG,
                   "loader: %s %lld of images of %lld x %lld pixels: 0 to %lld wanted", key,
                   (long long)most, (long long)d->height, (long long)d->width, (long long)side - 1);
}

static dt_status check_options(const dt_dataset *d, const dt_loader_options *o)
{
    if (o->batch_size < 1) {
        return dt_fail(d->ctx, DT_ERR_ARG, "loader: batch size %lld: at least 1 wanted",
                       (long long)o->batch_size);
    }
    if (d->count < (o->drop_last ? o->batch_size : 1)) {
        return dt_fail(d->ctx, DT_ERR_ARG, "loader: %lld images do not fill one batch of %lld%s",
                       (long long)d->count, (long long)o->batch_size,
                       o->drop_last ? ", and a shorter one is left out" : "");
    }
    DT__TRY(check_movement(d, "shift", o->augment.shift));
    DT__TRY(check_movement(d, "crop", o->augment.crop));
    if (o->augment.shift > 0 && o->augment.crop > 0) {
        return dt_fail(d->ctx, DT_ERR_ARG,
                       "loader: shift and crop are the same movement: one of them wanted");
    }
    return DT_OK;
}

/* Fills dims by what the targets are; returns their number. */
static int target_dims(const dt_dataset *d, int64_t batch, int64_t dims[4])
{
    const bool mask = d->target == DT_TARGET_MASK;
    dims[0] = batch;
    dims[1] = mask ? d->height : d->channels;
    dims[2] = mask ? d->width : d->height;
    dims[3] = d->width;
    return d->target == DT_TARGET_CLASS ? 1 : mask ? 3 : 4;
}

static dt_status create_tensors(dt_loader *l)
{
    const dt_dataset *d = l->data;
    const dt_dtype dtype = d->target == DT_TARGET_IMAGE ? DT_F32 : DT_I32;
    int64_t dims[] = { dt__min_i64(l->options.batch_size, d->count), d->channels, d->height,
                       d->width };
    DT__TRY(dt_tensor_create(l->ctx, DT_F32, 4, dims, &l->x[0]));
    const int rank = target_dims(d, dims[0], dims);
    DT__TRY(dt_tensor_create(l->ctx, dtype, rank, dims, &l->target[0]));
    if (l->last == dims[0]) return DT_OK;
    DT__TRY(dt_tensor_narrow(l->x[0], 0, 0, l->last, &l->x[1]));
    return dt_tensor_narrow(l->target[0], 0, 0, l->last, &l->target[1]);
}

static float number_of(const dt_reals *list, int64_t channel, float none)
{
    return list->n == 0 ? none : (float)list->v[list->n == 1 ? 0 : channel];
}

/* The tables of x and of noise, and room to move a plane. */
static dt_status create_tables(dt_loader *l)
{
    const dt_dataset *d = l->data;
    l->value = dt__alloc_array(l->ctx, d->channels, 256 * sizeof *l->value);
    l->noise = dt__alloc_array(l->ctx, d->channels, sizeof *l->noise);
    l->plane = dt__alloc_array(l->ctx, d->height, (size_t)d->width);
    if (l->value == NULL || l->noise == NULL || l->plane == NULL) return DT_ERR_NOMEM;
    for (int p = 0; p < 256; p++) l->white[p] = (float)p / 255.0f;
    for (int64_t c = 0; c < d->channels; c++) {
        const float mean = number_of(&d->mean, c, 0), deviation = number_of(&d->deviation, c, 1);
        l->noise[c] = (float)d->noise / deviation;
        for (int p = 0; p < 256; p++) l->value[256 * c + p] = (l->white[p] - mean) / deviation;
    }
    return DT_OK;
}

static dt_status fill_loader(dt_loader *l)
{
    const dt_loader_options *o = &l->options;
    const int64_t count = l->data->count, size = dt__min_i64(o->batch_size, count);
    const int64_t rest = count % size;
    l->batches = count / size + (rest > 0 && !o->drop_last);
    l->last = rest > 0 && !o->drop_last ? rest : size;
    l->ordered = -1;
    if (o->shuffle) {
        l->order = dt__alloc_array(l->ctx, count, sizeof *l->order);
        if (l->order == NULL) return DT_ERR_NOMEM;
    }
    DT__TRY(create_tables(l));
    return create_tensors(l);
}

dt_status dt_loader_create(const dt_dataset *d, const dt_loader_options *options, dt_loader **out)
{
    *out = NULL;
    const dt_loader_options o = options == NULL ? dt_loader_defaults() : *options;
    DT__TRY(check_options(d, &o));
    dt_loader *l = dt__alloc_zero(d->ctx, sizeof *l);
    if (l == NULL) return DT_ERR_NOMEM;
    l->ctx = d->ctx;
    l->data = d;
    l->options = o;
    dt__ctx_retain(l->ctx);
    const dt_status status = fill_loader(l);
    if (status == DT_OK) *out = l;
    else dt_loader_free(l);
    return status;
}

void dt_loader_free(dt_loader *l)
{
    if (l == NULL) return;
    for (int i = 0; i < 2; i++) {
        dt_tensor_free(l->x[i]);
        dt_tensor_free(l->target[i]);
    }
    dt_ctx *ctx = l->ctx;
    dt__release(ctx, l->order);
    dt__release(ctx, l->value);
    dt__release(ctx, l->noise);
    dt__release(ctx, l->plane);
    dt__release(ctx, l);
    dt__ctx_release(ctx);
}

/* ---- batches ------------------------------------------------------------------------------ */

int64_t dt_loader_batches(const dt_loader *l) { return l->batches; }
dt_position dt_loader_position(const dt_loader *l) { return l->next; }

dt_status dt_loader_seek(dt_loader *l, dt_position position)
{
    if (position.epoch < 0 || position.epoch == INT64_MAX || position.batch < 0 ||
        position.batch >= l->batches) {
        return dt_fail(
            l->ctx, DT_ERR_ARG,
            "loader: no batch %lld of epoch %lld; epochs count from 0, batches 0 to %lld",
            (long long)position.batch, (long long)position.epoch, (long long)l->batches - 1);
    }
    l->next = position;
    return DT_OK;
}

/* What an image and its target go through: a mirror, then a shift. */
typedef struct move {
    int64_t down, right;
    bool flip;
} move;

/* Uniform in -most ... most, but for a bias below 2^-32 of the range. */
static int64_t offset_of(uint32_t word, int64_t most)
{
    const uint64_t range = 2 * (uint64_t)most + 1;
    return (int64_t)((word * range) >> 32) - most;
}

static move move_of(const dt_augment_options *o, uint64_t key, int64_t place)
{
    const int64_t most = o->shift + o->crop; /* one of them is 0 */
    if (most == 0 && !o->flip) return (move){ 0, 0, false };
    uint32_t word[4];
    dt__philox(key, (uint64_t)place, word);
    return (move){ offset_of(word[0], most), offset_of(word[1], most), o->flip && word[2] >> 31 };
}

/* to[r][c] = from[r - down][c - right], of the mirrored plane where it flips; 0 from outside. */
static const uint8_t *moved(const dt_loader *l, const uint8_t *from, move by)
{
    if (by.down == 0 && by.right == 0 && !by.flip) return from;
    const int64_t height = l->data->height, width = l->data->width;
    const int64_t first = dt__max_i64(by.right, 0), end = width + dt__min_i64(by.right, 0);
    memset(l->plane, 0, (size_t)(height * width));
    for (int64_t r = dt__max_i64(by.down, 0); r < height + dt__min_i64(by.down, 0); r++) {
        const uint8_t *row = from + (r - by.down) * width;
        uint8_t *to = l->plane + r * width;
        if (!by.flip) {
            memcpy(to + first, row + first - by.right, (size_t)(end - first));
            continue;
        }
        const uint8_t *last = row + width - 1 + by.right;
        for (int64_t c = first; c < end; c++) to[c] = last[-c];
    }
    return l->plane;
}

static void put_image(const dt_loader *l, const uint8_t *image, move by, float *x)
{
    const int64_t size = l->data->height * l->data->width;
    for (int64_t c = 0; c < l->data->channels; c++, image += size, x += size) {
        const uint8_t *plane = moved(l, image, by);
        const float *value = l->value + 256 * c;
        for (int64_t k = 0; k < size; k++) x[k] = value[plane[k]];
    }
}

/* The sum of the bytes of two words, which is nearly normal: centred, with deviation 1. */
static inline float draw_noise(uint32_t v, uint32_t w)
{
    const uint32_t ones = 0x00ff00ff;
    const uint32_t pair = (v & ones) + (v >> 8 & ones) + (w & ones) + (w >> 8 & ones);
    return (float)((int32_t)((pair & 65535) + (pair >> 16)) - 4 * 255) * (1 / DEVIATION_OF_8_BYTES);
}

/* To `n` numbers, from block `first` of the key on. */
static void add_noise(uint64_t key, uint64_t first, int64_t n, float scale, float *x)
{
    uint32_t word[4][DT__PHILOX_RUN];
    float z[2 * DT__PHILOX_RUN];
    for (; n > 0; n -= 2 * DT__PHILOX_RUN, x += 2 * DT__PHILOX_RUN, first += DT__PHILOX_RUN) {
        dt__philox_run(key, first, word);
        for (int i = 0; i < DT__PHILOX_RUN; i++) {
            z[i] = draw_noise(word[0][i], word[1][i]);
            z[DT__PHILOX_RUN + i] = draw_noise(word[2][i], word[3][i]);
        }
        const int64_t end = dt__min_i64(n, 2 * DT__PHILOX_RUN);
        for (int64_t i = 0; i < end; i++) x[i] += scale * z[i];
    }
}

/* To the images of a batch, of which the first has the place `place` in its epoch. */
static void add_noises(const dt_loader *l, uint64_t key, int64_t place, int64_t images, float *x)
{
    const int64_t channels = l->data->channels, size = l->data->height * l->data->width;
    const int64_t blocks = dt__round_up(dt__ceil_div(size, 2), DT__PHILOX_RUN); /* of a channel */
    const int before = dt__threads_enter(l->ctx);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < images * channels; i++) {
        add_noise(key, (uint64_t)((place * channels + i) * blocks), size, l->noise[i % channels],
                  x + i * size);
    }
    dt__threads_leave(before);
}

/* The target of the batch's image i. */
static void put_target(const dt_loader *l, const uint8_t *from, move by, void *target, int64_t i)
{
    const dt_dataset *d = l->data;
    const int64_t size = d->height * d->width;
    if (d->target == DT_TARGET_CLASS) {
        ((int32_t *)target)[i] = *from;
    } else if (d->target == DT_TARGET_MASK) {
        const uint8_t *plane = moved(l, from, by);
        int32_t *to = (int32_t *)target + i * size;
        for (int64_t k = 0; k < size; k++) to[k] = plane[k];
    } else {
        float *to = (float *)target + i * dt__dataset_image_bytes(d);
        for (int64_t c = 0; c < d->channels; c++, from += size, to += size) {
            const uint8_t *plane = moved(l, from, by);
            for (int64_t k = 0; k < size; k++) to[k] = l->white[plane[k]];
        }
    }
}

dt_status dt_loader_next(dt_loader *l, dt_tensor **x, dt_tensor **target)
{
    const dt_dataset *d = l->data;
    const int k = l->next.batch == l->batches - 1 && l->x[1] != NULL;
    float *value = dt_data_mut(l->x[k]);
    void *wanted = dt_data_mut(l->target[k]);
    if (value == NULL || wanted == NULL) return dt_error_status(l->ctx);
    order_epoch(l);
    const keys key = epoch_keys(l->options.seed, DT__FOR_AUGMENT, l->next.epoch);
    const int64_t bytes = dt__dataset_image_bytes(d), n = dt_dim(l->x[k], 0);
    const int64_t first = l->next.batch * dt_dim(l->x[0], 0);
    for (int64_t i = 0; i < n; i++, value += bytes) {
        const int64_t image = l->order == NULL ? first + i : l->order[first + i];
        const move by = move_of(&l->options.augment, key.first, first + i);
        put_image(l, dt__dataset_image(d, image), by, value);
        put_target(l, dt__dataset_target(d, image), by, wanted, i);
    }
    if (d->noise > 0) add_noises(l, key.second, first, n, value - n * bytes);
    l->next.batch++;
    if (l->next.batch == l->batches) l->next = (dt_position){ l->next.epoch + 1, 0 };
    *x = l->x[k];
    *target = l->target[k];
    return DT_OK;
}
