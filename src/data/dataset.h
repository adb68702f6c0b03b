/* A dataset inside: views on two storages, so that a split shares the bytes. */
#ifndef DT__DATA_DATASET_H
#define DT__DATA_DATASET_H

#include "core/tensor.h"

#include <detent/data.h>

#define DT__MOST_CLASSES 256 /* labels are bytes */

struct dt_dataset {
    dt_ctx *ctx;
    int64_t count, height, width, classes;
    int64_t first; /* of the storages' images */
    dt__storage *pixels, *labels;
};

/* Takes over the caller's reference of both storages, whatever the result. */
dt_status dt__dataset_wrap(dt_ctx *ctx, const dt_dataset *fields, dt_dataset **out);

static inline const uint8_t *dt__dataset_pixels(const dt_dataset *d)
{
    return (const uint8_t *)d->pixels->data + d->first * d->height * d->width;
}
static inline const uint8_t *dt__dataset_labels(const dt_dataset *d)
{
    return (const uint8_t *)d->labels->data + d->first;
}

#endif
