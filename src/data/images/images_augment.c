/* Random changes of images: rotation, brightness, contrast, erasing. In block k + 2^63 of an
 * epoch's key, words 0, 1 and 2 give rotation, brightness and contrast of the image at position k,
 * and word 3 whether a rectangle is erased; block k + 2^62 gives its extents and its corner. The
 * tangent of half the angle is uniform, so that sine and cosine need only arithmetic:
 *     sin a = 2 t / (1 + t^2)      cos a = (1 - t^2) / (1 + t^2)      t = tan(a / 2) */
#include "data/dataset.h"

#include <math.h>

#define MOST_DEGREES 180
#define SECOND_BLOCK ((uint64_t)1 << 63)
#define THIRD_BLOCK ((uint64_t)1 << 62)

static bool changes_colour(const dt_augment_options *a)
{
    return a->brightness != 0 || a->contrast != 0 || a->erasing != 0;
}

bool dt__images_change(const dt_augment_options *a)
{
    return a->rotation != 0 || changes_colour(a);
}

dt_status dt__images_check_changes(const dt_dataset *d, const dt_augment_options *a)
{
    const struct {
        const char *key;
        double value, most;
    } ranges[] = { { "rotation", a->rotation, MOST_DEGREES },
                   { "brightness", a->brightness, 1 },
                   { "contrast", a->contrast, 1 },
                   { "erasing", a->erasing, 1 } };
    for (int i = 0; i < DT__COUNT_OF(ranges); i++) {
        if (ranges[i].value >= 0 && ranges[i].value <= ranges[i].most) continue;
        return dt_fail(d->ctx, DT_ERR_ARG, "loader: augment.%s %g: expected 0 to %g", ranges[i].key,
                       ranges[i].value, ranges[i].most);
    }
    if (d->target != DT_TARGET_IMAGE || !changes_colour(a)) return DT_OK;
    return dt_fail(d->ctx, DT_ERR_ARG,
                   "loader: augment.brightness, contrast and erasing change the image, but not its "
                   "target, which is an image, too");
}

static float both_ways(uint32_t word) { return 2 * dt__unit_f32(word) - 1; }

dt__change dt__change_of(const dt_dataset *d, const dt_augment_options *a, uint64_t key,
                         int64_t place)
{
    /* tan of half of 180 degrees is infinite */
    const double half = fmin(a->rotation, 179.9) * (3.14159265358979 / 360);
    uint32_t word[4], corner[4];
    dt__philox(key, (uint64_t)place | SECOND_BLOCK, word);
    dt__change c = { .turn = (float)tan(half) * both_ways(word[0]) };
    c.gain = 1 + (float)a->contrast * both_ways(word[2]);
    c.offset = 0.5F - 0.5F * c.gain + (float)a->brightness * both_ways(word[1]);
    if (!((double)dt__unit_f32(word[3]) < a->erasing)) return c;
    dt__philox(key, (uint64_t)place | THIRD_BLOCK, corner);
    c.height = 1 + dt__below(corner[0], dt__max_i64(1, d->height / 2));
    c.width = 1 + dt__below(corner[1], dt__max_i64(1, d->width / 2));
    c.top = dt__below(corner[2], d->height - c.height + 1);
    c.left = dt__below(corner[3], d->width - c.width + 1);
    return c;
}

static float pixel_at(const dt_dataset *d, const uint8_t *from, int64_t row, int64_t column)
{
    const bool inside = row >= 0 && row < d->height && column >= 0 && column < d->width;
    return inside ? (float)from[row * d->width + column] : 0;
}

/* The pixel at a fractional position, rounded to a byte. */
static uint8_t between(const dt_dataset *d, const uint8_t *from, float row, float column)
{
    const int64_t r = (int64_t)floorf(row), c = (int64_t)floorf(column);
    const float down = row - (float)r, right = column - (float)c;
    const float above = pixel_at(d, from, r, c) * (1 - right) + pixel_at(d, from, r, c + 1) * right;
    const float under =
        pixel_at(d, from, r + 1, c) * (1 - right) + pixel_at(d, from, r + 1, c + 1) * right;
    return (uint8_t)(above * (1 - down) + under * down + 0.5F);
}

void dt__turn_plane(const dt_dataset *d, const uint8_t *from, float turn, bool smooth, uint8_t *to)
{
    const float scale = 1 / (1 + turn * turn), sine = 2 * turn * scale;
    const float cosine = (1 - turn * turn) * scale;
    const float middle_row = 0.5F * (float)(d->height - 1);
    const float middle_column = 0.5F * (float)(d->width - 1);
    for (int64_t r = 0; r < d->height; r++) {
        for (int64_t c = 0; c < d->width; c++) {
            const float y = (float)r - middle_row, x = (float)c - middle_column;
            const float row = middle_row + cosine * y - sine * x;
            const float column = middle_column + sine * y + cosine * x;
            *to++ = smooth ? between(d, from, row, column)
                           : (uint8_t)pixel_at(d, from, (int64_t)floorf(row + 0.5F),
                                               (int64_t)floorf(column + 0.5F));
        }
    }
}

void dt__change_plane(const dt_dataset *d, const dt__change *c, float mean, float deviation,
                      float *x)
{
    const int64_t size = d->height * d->width;
    if (c->gain != 1 || c->offset != 0) {
        const float offset = (c->gain * mean + c->offset - mean) / deviation;
        for (int64_t k = 0; k < size; k++) x[k] = c->gain * x[k] + offset;
    }
    for (int64_t r = 0; r < c->height; r++) {
        float *row = x + (c->top + r) * d->width + c->left;
        for (int64_t k = 0; k < c->width; k++) row[k] = (0 - mean) / deviation;
    }
}
