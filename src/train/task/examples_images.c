/* Examples whose targets are images or masks: the worst, median and best ones, with the model's
 * input, output and target. */
#include "core/tensor.h"
#include "train/task/examples.h"

#include <math.h>
#include <stdlib.h>

#define SHOWN 6

typedef struct rated {
    double error;
    int64_t i;
} rated;

static int compare(const void *a, const void *b)
{
    const rated *p = a, *q = b;
    if (p->error != q->error) return p->error > q->error ? -1 : 1;
    return p->i < q->i ? -1 : p->i > q->i;
}

static void put_picture(const dt__examples *e, const char *name, const dt__picture *p)
{
    DT__PUT_ALL(e->t, ", \"", name, "\": ");
    dt__put_picture(e->t, p);
}

typedef struct showing {
    const dt__examples *e;
    int64_t channels, height, width; /* of a target */
    double (*error)(const struct showing *s, const float *y, const void *target);
    dt_status (*put)(const struct showing *s, const float *y, const void *target);
} showing;

static double squared_error(const showing *s, const float *y, const void *target)
{
    const float *wanted = target;
    double sum = 0;
    for (int64_t i = 0; i < s->e->each; i++) {
        sum += ((double)y[i] - (double)wanted[i]) * ((double)y[i] - (double)wanted[i]);
    }
    return sum / (double)s->e->each;
}

static dt_status put_images(const showing *s, const float *y, const void *target)
{
    dt__picture p = { s->channels, s->height, s->width, y, 0, 1 };
    put_picture(s->e, "output", &p);
    p.value = target;
    put_picture(s->e, "target", &p);
    return DT_OK;
}

/* Share of pixels whose class is wrong. */
static double wrong_pixels(const showing *s, const float *y, const void *target)
{
    const int32_t *label = target;
    const int64_t pixels = s->height * s->width;
    int64_t wrong = 0;
    for (int64_t i = 0; i < pixels; i++) {
        wrong += dt__first_class(y + i, s->channels, pixels) != label[i];
    }
    return (double)wrong / (double)pixels;
}

/* Shows classes as shades of grey. */
static dt_status put_masks(const showing *s, const float *y, const void *target)
{
    const int64_t pixels = s->height * s->width;
    float *shade = dt__alloc_array(s->e->ctx, 2 * pixels, sizeof *shade);
    if (shade == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < pixels; i++) {
        shade[i] = (float)dt__first_class(y + i, s->channels, pixels);
        shade[pixels + i] = (float)((const int32_t *)target)[i];
    }
    const double most = (double)dt__max_i64(s->channels - 1, 1);
    dt__picture p = { 1, s->height, s->width, shade, 0, most };
    put_picture(s->e, "output", &p);
    p.value = shade + pixels;
    put_picture(s->e, "target", &p);
    dt__release(s->e->ctx, shade);
    return DT_OK;
}

static dt_status rate(const showing *s, rated *all)
{
    dt_tensor *x, *target;
    for (int64_t i = 0; i < s->e->n; i++) {
        DT__TRY(dt__examples_at(s->e, i, &x, &target));
        all[i] = (rated){ s->error(s, s->e->y + i * s->e->each, dt_data(target)), i };
    }
    qsort(all, (size_t)s->e->n, sizeof *all, compare);
    return DT_OK;
}

static dt_status put_one(const showing *s, int64_t i, const float *y)
{
    const dt__examples *e = s->e;
    dt_tensor *x, *target;
    DT__TRY(dt__examples_at(e, i, &x, &target));
    const double error = s->error(s, y, dt_data(target));
    dt__put_text(e->t, "{\"index\": ");
    DT__PUT_ALL(e->t, i, ", \"error\": ");
    if (isfinite(error)) dt__put_real(e->t, error);
    else dt__put_text(e->t, "null");
    dt__put_text(e->t, ", \"input\": ");
    dt__put_shown_input(e, x);
    DT__TRY(s->put(s, y, dt_data(target)));
    dt__put_text(e->t, "}");
    return DT_OK;
}

/* Index of shown example k: a third each from both ends of the sorted errors, the rest from the
 * middle. */
static int64_t place_of(int64_t k, int64_t n)
{
    if (n <= SHOWN) return k;
    if (k < SHOWN / 3) return k;
    if (k >= SHOWN - SHOWN / 3) return n - SHOWN + k;
    return n / 2 + k - SHOWN / 2;
}

static dt_status show(const showing *s)
{
    const dt__examples *e = s->e;
    rated *all = dt__alloc_array(e->ctx, e->n, sizeof *all);
    dt_status status = all == NULL ? DT_ERR_NOMEM : rate(s, all);
    dt__put_text(e->t, "\"shown\": [");
    for (int64_t k = 0; k < SHOWN && k < e->n && status == DT_OK; k++) {
        dt__put_text(e->t, k > 0 ? ",\n  " : "\n  ");
        const int64_t i = all[place_of(k, e->n)].i;
        status = put_one(s, i, e->y + i * e->each);
    }
    dt__put_text(e->t, "]");
    dt__release(e->ctx, all);
    return status;
}

static showing images_of(const dt__examples *e)
{
    return (showing){ .e = e,
                      .channels = dt_dataset_channels(e->d),
                      .height = dt_dataset_height(e->d),
                      .width = dt_dataset_width(e->d),
                      .error = squared_error,
                      .put = put_images };
}

static showing masks_of(const dt__examples *e)
{
    const int64_t height = dt_dataset_height(e->d), width = dt_dataset_width(e->d);
    return (showing){ .e = e,
                      .channels = e->each / dt__max_i64(height * width, 1),
                      .height = height,
                      .width = width,
                      .error = wrong_pixels,
                      .put = put_masks };
}

dt_status dt__examples_of_images(const dt__examples *e)
{
    const showing s = images_of(e);
    return show(&s);
}

dt_status dt__examples_of_masks(const dt__examples *e)
{
    const showing s = masks_of(e);
    return show(&s);
}

dt_status dt__put_image_example(const dt__examples *e, int64_t i, const float *y)
{
    const showing s = images_of(e);
    return put_one(&s, i, y);
}

dt_status dt__put_mask_example(const dt__examples *e, int64_t i, const float *y)
{
    const showing s = masks_of(e);
    return put_one(&s, i, y);
}
