/* Batches of a dataset. Epoch e takes the images in an order of its own: Fisher and Yates's shuffle
 * with the numbers of block e of the seed's stream for shuffling. The image at place k of an epoch
 * is moved by block k of the epoch's stream for augmentation. So nothing depends on what was drawn
 * before, and any batch can be made first.
 *     x = ((float)p / 255 - mean) / deviation      in fp32, in this order
 * comes from a table of 256. One pair of tensors, and a second pair of views for the short last
 * batch, serve for ever: batches allocate nothing. */
#include "data/dataset.h"

#include <math.h>
#include <string.h>

struct dt_loader {
    dt_ctx *ctx;
    const dt_dataset *data;
    dt_loader_options options;
    int64_t batches, last; /* in an epoch; images in the last */
    dt_position next;
    int64_t ordered; /* the epoch that `order` is of; -1: none */
    int64_t *order;  /* NULL where the order is the dataset's */
    float value[256];
    dt_tensor *x[2], *labels[2]; /* whole batches, the last batch where it is shorter */
};

static uint64_t epoch_key(uint64_t seed, dt__purpose purpose, int64_t epoch)
{
    uint32_t word[4];
    dt__philox(dt__stream_of(seed, purpose).key, (uint64_t)epoch, word);
    return (uint64_t)word[0] << 32 | word[1];
}

static void order_epoch(dt_loader *l)
{
    if (l->order == NULL || l->ordered == l->next.epoch) return;
    const int64_t n = l->data->count;
    dt__stream s = { .key = epoch_key(l->options.seed, DT__FOR_SHUFFLE, l->next.epoch) };
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
    return (dt_loader_options){ .batch_size = 64, .shuffle = true, .deviation = 1 };
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
    const float mean = (float)o->mean, deviation = (float)o->deviation;
    if (!isfinite(mean) || !isfinite(deviation) || !(deviation > 0)) {
        return dt_fail(
            d->ctx, DT_ERR_ARG,
            "loader: mean %g and deviation %g: finite numbers, the latter above 0, wanted", o->mean,
            o->deviation);
    }
    const int64_t side = dt__min_i64(d->height, d->width);
    if (o->augment.shift < 0 || (o->augment.shift > 0 && o->augment.shift >= side)) {
        return dt_fail(d->ctx, DT_ERR_ARG,
                       "loader: shift %lld of images of %lld x %lld pixels: 0 to %lld wanted",
                       (long long)o->augment.shift, (long long)d->height, (long long)d->width,
                       (long long)side - 1);
    }
    return DT_OK;
}

static dt_status create_tensors(dt_loader *l)
{
    const dt_dataset *d = l->data;
    const int64_t dims[] = { dt__min_i64(l->options.batch_size, d->count), d->height, d->width };
    DT__TRY(dt_tensor_create(l->ctx, DT_F32, 3, dims, &l->x[0]));
    DT__TRY(dt_tensor_create(l->ctx, DT_I32, 1, dims, &l->labels[0]));
    if (l->last == dims[0]) return DT_OK;
    DT__TRY(dt_tensor_narrow(l->x[0], 0, 0, l->last, &l->x[1]));
    return dt_tensor_narrow(l->labels[0], 0, 0, l->last, &l->labels[1]);
}

static dt_status fill_loader(dt_loader *l)
{
    const dt_loader_options *o = &l->options;
    const int64_t count = l->data->count, size = dt__min_i64(o->batch_size, count);
    const int64_t rest = count % size;
    l->batches = count / size + (rest > 0 && !o->drop_last);
    l->last = rest > 0 && !o->drop_last ? rest : size;
    l->ordered = -1;
    const float mean = (float)o->mean, deviation = (float)o->deviation;
    for (int p = 0; p < 256; p++) l->value[p] = ((float)p / 255.0f - mean) / deviation;
    if (o->shuffle) {
        l->order = dt__alloc_array(l->ctx, count, sizeof *l->order);
        if (l->order == NULL) return DT_ERR_NOMEM;
    }
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
        dt_tensor_free(l->labels[i]);
    }
    dt_ctx *ctx = l->ctx;
    dt__release(ctx, l->order);
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

typedef struct shift {
    int64_t down, right;
} shift;

/* Uniform in -most ... most each way, but for a bias below 2^-32 of the range. */
static shift shift_of(uint64_t key, int64_t place, int64_t most)
{
    if (most == 0) return (shift){ 0, 0 };
    uint32_t word[4];
    dt__philox(key, (uint64_t)place, word);
    const uint64_t range = 2 * (uint64_t)most + 1;
    return (shift){ (int64_t)((word[0] * range) >> 32) - most,
                    (int64_t)((word[1] * range) >> 32) - most };
}

/* x[r][c] = value[image[r - down][c - right]]; pixels from outside are 0. */
static void convert(const dt_loader *l, const uint8_t *image, shift by, float *x)
{
    const int64_t height = l->data->height, width = l->data->width;
    const int64_t first = dt__max_i64(by.right, 0), end = width + dt__min_i64(by.right, 0);
    for (int64_t r = 0; r < height; r++, x += width) {
        const int64_t from = r - by.down;
        if (from < 0 || from >= height) {
            for (int64_t c = 0; c < width; c++) x[c] = l->value[0];
            continue;
        }
        const uint8_t *row = image + from * width - by.right;
        for (int64_t c = 0; c < first; c++) x[c] = l->value[0];
        for (int64_t c = first; c < end; c++) x[c] = l->value[row[c]];
        for (int64_t c = end; c < width; c++) x[c] = l->value[0];
    }
}

dt_status dt_loader_next(dt_loader *l, dt_tensor **x, dt_tensor **labels)
{
    const dt_dataset *d = l->data;
    const int k = l->next.batch == l->batches - 1 && l->x[1] != NULL;
    float *value = dt_data_mut(l->x[k]);
    int32_t *label = dt_data_mut(l->labels[k]);
    if (value == NULL || label == NULL) return dt_error_status(l->ctx);
    order_epoch(l);
    const uint64_t key = epoch_key(l->options.seed, DT__FOR_AUGMENT, l->next.epoch);
    const int64_t pixels = d->height * d->width, n = dt_dim(l->x[k], 0);
    const int64_t first = l->next.batch * dt_dim(l->x[0], 0);
    for (int64_t i = 0; i < n; i++) {
        const int64_t image = l->order == NULL ? first + i : l->order[first + i];
        convert(l, dt__dataset_pixels(d) + image * pixels,
                shift_of(key, first + i, l->options.augment.shift), value + i * pixels);
        label[i] = dt__dataset_labels(d)[image];
    }
    l->next.batch++;
    if (l->next.batch == l->batches) l->next = (dt_position){ l->next.epoch + 1, 0 };
    *x = l->x[k];
    *labels = l->labels[k];
    return DT_OK;
}
