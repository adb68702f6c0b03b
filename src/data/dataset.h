/* A dataset inside: views on two storages, so that a split shares the bytes. */
#ifndef DT__DATA_DATASET_H
#define DT__DATA_DATASET_H

#include "core/tensor.h"

#include <detent/data.h>

#define DT__MOST_CLASSES 256 /* labels are bytes */

struct dt_dataset {
    dt_ctx *ctx;
    int64_t count, channels, height, width;
    dt_target target;
    int64_t classes;
    int64_t first; /* of the storages' images */
    dt__storage *pixels, *targets;
    dt_reals mean, deviation; /* none: 0 and 1 */
    double noise;
};

/* Takes over the caller's reference of both storages, whatever the result. */
dt_status dt__dataset_wrap(dt_ctx *ctx, const dt_dataset *fields, dt_dataset **out);

/* Storages for the images and targets that the fields describe; both or none. */
dt_status dt__dataset_allocate(dt_ctx *ctx, dt_dataset *fields);

/* Bytes of an image, and of a target. */
static inline int64_t dt__dataset_image_bytes(const dt_dataset *d)
{
    return d->channels * d->height * d->width;
}
static inline int64_t dt__dataset_target_bytes(const dt_dataset *d)
{
    return d->target == DT_TARGET_CLASS  ? 1
           : d->target == DT_TARGET_MASK ? d->height * d->width
                                         : dt__dataset_image_bytes(d);
}

/* Those of image i, unchecked. */
static inline const uint8_t *dt__dataset_image(const dt_dataset *d, int64_t i)
{
    return (const uint8_t *)d->pixels->data + (d->first + i) * dt__dataset_image_bytes(d);
}
static inline const uint8_t *dt__dataset_target(const dt_dataset *d, int64_t i)
{
    return (const uint8_t *)d->targets->data + (d->first + i) * dt__dataset_target_bytes(d);
}

#endif
