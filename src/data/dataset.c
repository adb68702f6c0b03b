/* Labelled grey images in memory. Splitting makes a second view on the same bytes, which nobody
 * writes after creation. */
#include "data/dataset.h"

#include <string.h>

dt_status dt__dataset_wrap(dt_ctx *ctx, const dt_dataset *fields, dt_dataset **out)
{
    dt_dataset *d = dt__alloc(ctx, sizeof *d);
    if (d == NULL) {
        dt__storage_release(fields->pixels);
        dt__storage_release(fields->labels);
        return DT_ERR_NOMEM;
    }
    *d = *fields;
    d->ctx = ctx;
    dt__ctx_retain(ctx);
    *out = d;
    return DT_OK;
}

void dt_dataset_free(dt_dataset *d)
{
    if (d == NULL) return;
    dt_ctx *ctx = d->ctx;
    dt__storage_release(d->pixels);
    dt__storage_release(d->labels);
    dt__release(ctx, d);
    dt__ctx_release(ctx);
}

int64_t dt_dataset_count(const dt_dataset *d) { return d->count; }
int64_t dt_dataset_height(const dt_dataset *d) { return d->height; }
int64_t dt_dataset_width(const dt_dataset *d) { return d->width; }
int64_t dt_dataset_classes(const dt_dataset *d) { return d->classes; }

static bool has(const dt_dataset *d, int64_t i)
{
    if (i >= 0 && i < d->count) return true;
    dt_fail(d->ctx, DT_ERR_ARG, "dataset: image %lld of %lld (counted from 0)", (long long)i,
            (long long)d->count);
    return false;
}

const uint8_t *dt_dataset_image(const dt_dataset *d, int64_t i)
{
    return has(d, i) ? dt__dataset_pixels(d) + i * d->height * d->width : NULL;
}

int dt_dataset_label(const dt_dataset *d, int64_t i)
{
    return has(d, i) ? dt__dataset_labels(d)[i] : -1;
}

static dt_status check_images(dt_ctx *ctx, const dt_images *in, int64_t *pixels)
{
    const int64_t dims[] = { in->count, in->height, in->width };
    if (in->count < 0 || in->height < 1 || in->width < 1 || !dt__product(3, dims, pixels)) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "dataset: %lld images of %lld x %lld pixels: at least 0 of at least 1 x 1 "
                       "wanted",
                       (long long)in->count, (long long)in->height, (long long)in->width);
    }
    if (in->classes < 1 || in->classes > DT__MOST_CLASSES) {
        return dt_fail(ctx, DT_ERR_ARG, "dataset: %lld classes: 1 to %d wanted",
                       (long long)in->classes, DT__MOST_CLASSES);
    }
    for (int64_t i = 0; i < in->count; i++) {
        if (in->labels[i] >= in->classes) {
            return dt_fail(ctx, DT_ERR_ARG, "dataset: label %d of image %lld: below %lld wanted",
                           in->labels[i], (long long)i, (long long)in->classes);
        }
    }
    return DT_OK;
}

dt_status dt_dataset_create(dt_ctx *ctx, const dt_images *in, dt_dataset **out)
{
    *out = NULL;
    int64_t pixels;
    DT__TRY(check_images(ctx, in, &pixels));
    dt_dataset d = {
        .count = in->count, .height = in->height, .width = in->width, .classes = in->classes
    };
    d.pixels = dt__storage_create(ctx, (size_t)pixels);
    if (d.pixels == NULL) return DT_ERR_NOMEM;
    d.labels = dt__storage_create(ctx, (size_t)in->count);
    if (d.labels == NULL) {
        dt__storage_release(d.pixels);
        return DT_ERR_NOMEM;
    }
    if (in->count > 0) {
        memcpy(d.pixels->data, in->pixels, (size_t)pixels);
        memcpy(d.labels->data, in->labels, (size_t)in->count);
    }
    return dt__dataset_wrap(ctx, &d, out);
}

dt_status dt_dataset_split(dt_dataset *d, int64_t count, dt_dataset **out)
{
    *out = NULL;
    if (count < 0 || count > d->count) {
        return dt_fail(d->ctx, DT_ERR_ARG, "dataset: %lld images to split off: 0 to %lld wanted",
                       (long long)count, (long long)d->count);
    }
    dt_dataset last = *d;
    last.count = count;
    last.first = d->first + d->count - count;
    dt__storage_retain(d->pixels);
    dt__storage_retain(d->labels);
    DT__TRY(dt__dataset_wrap(d->ctx, &last, out));
    d->count -= count;
    return DT_OK;
}
