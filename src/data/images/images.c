/* Images and their targets in memory, a kind of dataset. A split is a second view of the same
 * bytes, which are not written after creation. */
#include "data/dataset.h"

#include <math.h>
#include <string.h>

static void sides(const dt_dataset *d, dt__side *x, dt__side *target)
{
    *x = (dt__side){ DT_F32, 3, { d->channels, d->height, d->width } };
    *target = *x;
    if (d->target == DT_TARGET_CLASS) *target = (dt__side){ DT_I32, 0, { 0 } };
    if (d->target == DT_TARGET_MASK) *target = (dt__side){ DT_I32, 2, { d->height, d->width } };
}

static int64_t labels(const dt__batch *b, int64_t example)
{
    (void)example; /* all examples have the same number */
    return dt__dataset_target_bytes(b->d);
}

static int label_of(const dt_dataset *d, int64_t example)
{
    return *dt__dataset_target(d, example);
}

static void split(dt_dataset *d, dt_dataset *last, int64_t count)
{
    d->count -= count;
    last->count = count;
    last->first += d->count;
    dt__storage_retain(d->pixels);
    dt__storage_retain(d->targets);
    if (d->class_names != NULL) dt__storage_retain(d->class_names);
}

static void drop(dt_dataset *d)
{
    dt__storage_release(d->pixels);
    dt__storage_release(d->targets);
    dt__storage_release(d->class_names);
}

const dt__data_kind dt__data_images = {
    .examples = "images",
    .check = dt__images_check,
    .sides = sides,
    .begin = dt__images_begin,
    .end = dt__images_end,
    .fill = dt__images_fill,
    .labels = labels,
    .split = split,
    .drop = drop,
    .label = label_of,
};

dt_status dt__images_wrap(dt_ctx *ctx, const dt_dataset *fields, dt_dataset **out)
{
    dt_dataset d = *fields;
    d.kind = &dt__data_images;
    return dt__dataset_make(ctx, &d, out);
}

dt_status dt__images_allocate(dt_ctx *ctx, dt_dataset *d)
{
    d->pixels = dt__storage_create(ctx, (uint64_t)(d->count * dt__dataset_image_bytes(d)));
    if (d->pixels == NULL) return DT_ERR_NOMEM;
    d->targets = dt__storage_create(ctx, (uint64_t)(d->count * dt__dataset_target_bytes(d)));
    if (d->targets != NULL) return DT_OK;
    dt__storage_release(d->pixels);
    d->pixels = NULL;
    return DT_ERR_NOMEM;
}

int64_t dt_dataset_channels(const dt_dataset *d) { return d == NULL ? 0 : d->channels; }
int64_t dt_dataset_height(const dt_dataset *d) { return d == NULL ? 0 : d->height; }
int64_t dt_dataset_width(const dt_dataset *d) { return d == NULL ? 0 : d->width; }

static dt_status check_kind(const dt_dataset *d)
{
    if (d->kind == &dt__data_images) return DT_OK;
    return dt_fail(d->ctx, DT_ERR_ARG, "dataset: it has %s, not images", d->kind->examples);
}

static bool has(const dt_dataset *d, int64_t i)
{
    if (check_kind(d) != DT_OK) return false;
    if (i >= 0 && i < d->count) return true;
    dt_fail(d->ctx, DT_ERR_ARG, "dataset: image %lld of %lld (counted from 0)", (long long)i,
            (long long)d->count);
    return false;
}

const uint8_t *dt_dataset_image(const dt_dataset *d, int64_t i)
{
    if (d == NULL) return NULL;
    return has(d, i) ? dt__dataset_image(d, i) : NULL;
}

const uint8_t *dt_dataset_target_image(const dt_dataset *d, int64_t i)
{
    if (d == NULL) return NULL;
    if (!has(d, i)) return NULL;
    if (d->target != DT_TARGET_CLASS) return dt__dataset_target(d, i);
    dt_fail(d->ctx, DT_ERR_ARG, "dataset: its targets are labels, not images or masks");
    return NULL;
}

static dt_status check_classes(dt_ctx *ctx, const dt_images *in, int64_t each)
{
    if (in->classes < 1 || in->classes > DT__MOST_CLASSES) {
        return dt_fail(ctx, DT_ERR_ARG, "dataset: %lld classes: expected 1 to %d",
                       (long long)in->classes, DT__MOST_CLASSES);
    }
    for (int64_t i = 0; i < in->count * each; i++) {
        if (in->targets[i] >= in->classes) {
            return dt_fail(ctx, DT_ERR_ARG, "dataset: label %d of image %lld: expected below %lld",
                           in->targets[i], (long long)(i / each), (long long)in->classes);
        }
    }
    return DT_OK;
}

static dt_status check_images(dt_ctx *ctx, const dt_images *in)
{
    const int64_t dims[] = { in->count, in->channels, in->height, in->width };
    int64_t pixels;
    if (in->count < 0 || in->channels < 1 || in->height < 1 || in->width < 1 ||
        !dt__product(4, dims, &pixels)) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "dataset: %lld images of %lld channels of %lld x %lld pixels: expected at "
                       "least 0 of at least 1 of 1 x 1",
                       (long long)in->count, (long long)in->channels, (long long)in->height,
                       (long long)in->width);
    }
    if (in->target == DT_TARGET_IMAGE) return DT_OK;
    if (in->target == DT_TARGET_CLASS) return check_classes(ctx, in, 1);
    if (in->target == DT_TARGET_MASK) return check_classes(ctx, in, in->height * in->width);
    return dt_fail(ctx, DT_ERR_ARG, "dataset: targets of kind %d: expected labels, images or masks",
                   (int)in->target);
}

dt_status dt_dataset_create(dt_ctx *ctx, const dt_images *in, dt_dataset **out)
{
    DT__NEED3(ctx, ctx, in, out);
    *out = NULL;
    DT__TRY(check_images(ctx, in));
    dt_dataset d = { .count = in->count,
                     .channels = in->channels,
                     .height = in->height,
                     .width = in->width,
                     .target = in->target,
                     .classes = in->target == DT_TARGET_IMAGE ? 0 : in->classes };
    DT__TRY(dt__images_allocate(ctx, &d));
    if (in->count > 0) {
        memcpy(d.pixels->data, in->pixels, d.pixels->bytes);
        memcpy(d.targets->data, in->targets, d.targets->bytes);
    }
    return dt__images_wrap(ctx, &d, out);
}

static dt_status check_numbers(const dt_dataset *d, const char *what, const dt_reals *list,
                               bool above_0)
{
    if (list->n != 1 && list->n != d->channels) {
        return dt_fail(
            d->ctx, DT_ERR_ARG,
            "%s: %d number%s for images of %lld channel%s: expected one for all or one for each",
            what, list->n, DT__S(list->n), (long long)d->channels, d->channels == 1 ? "" : "s");
    }
    for (int i = 0; i < list->n; i++) {
        const float value = (float)list->v[i];
        if (isfinite(value) && (!above_0 || value > 0)) continue;
        return dt_fail(d->ctx, DT_ERR_ARG, "%s: %g: expected a finite number%s", what, list->v[i],
                       above_0 ? " above 0" : "");
    }
    return DT_OK;
}

dt_status dt_dataset_normalize(dt_dataset *d, const dt_reals *mean, const dt_reals *deviation)
{
    DT__NEED2(NULL, d, mean);
    DT__TRY(check_kind(d));
    DT__TRY(check_numbers(d, "mean", mean, false));
    DT__TRY(check_numbers(d, "deviation", deviation, true));
    d->mean = *mean;
    d->deviation = *deviation;
    return DT_OK;
}

dt_status dt_dataset_denoise(dt_dataset *d, double noise)
{
    DT__NEED(NULL, d);
    if (!(noise >= 0) || !isfinite((float)noise)) {
        return dt_fail(d->ctx, DT_ERR_ARG, "noise: %g: expected a finite number from 0 on", noise);
    }
    DT__TRY(check_kind(d));
    dt__storage_release(d->targets);
    dt__storage_retain(d->pixels);
    d->targets = d->pixels;
    d->target = DT_TARGET_IMAGE;
    d->classes = 0;
    dt__storage_release(d->class_names);
    d->class_names = NULL;
    d->noise = noise;
    return DT_OK;
}
