/* A dataset inside: what every kind has, a table of what differs between kinds, and the fields of each.
 * images.c and images_batch.c are a kind. */
#ifndef DT__DATA_DATASET_H
#define DT__DATA_DATASET_H

#include "core/tensor.h"

#include <detent/data.h>

#define DT__MOST_CLASSES 256 /* of images: their labels are bytes */

/* One side of an example: what a batch has behind its first dimension. */
typedef struct dt__side {
    dt_dtype dtype;
    int rank;
    int64_t dims[DT_MAX_RANK - 1];
} dt__side;

/* A stretch of an epoch that becomes a batch. */
typedef struct dt__batch {
    const dt_dataset *d;
    const dt_loader_options *options;
    void *state; /* of `begin` */
    int64_t epoch;
    int64_t first, n;     /* places in it */
    const int64_t *order; /* the example at each place; NULL: the place's own number */
    void *x, *target;     /* contiguous */
} dt__batch;

static inline int64_t dt__batch_example(const dt__batch *b, int64_t i)
{
    return b->order == NULL ? b->first + i : b->order[b->first + i];
}

/* What a kind of data is. Order, places in an epoch and tensors are the loader's. */
typedef struct dt__data_kind {
    const char *examples; /* what they are called: "images" */
    /* Examples of a shuffled epoch; NULL: as many as in order. */
    int64_t (*shuffled)(const dt_dataset *d);
    /* ARG where it cannot follow a loader's options. */
    dt_status (*check)(const dt_dataset *d, const dt_loader_options *o);
    void (*sides)(const dt_dataset *d, dt__side *x, dt__side *target);
    /* What a loader keeps for its batches; NULL: nothing. `end` takes what `begin` left, also after an
     * error. */
    dt_status (*begin)(const dt_dataset *d, void **state);
    void (*end)(dt_ctx *ctx, void *state);
    void (*fill)(const dt__batch *b);
    int64_t (*labels)(const dt_dataset *d, int64_t example); /* values of a target that count */
    /* Cuts d->count down by the last `count` examples, which `last`, a copy of d, becomes. */
    void (*split)(dt_dataset *d, dt_dataset *last, int64_t count);
    void (*drop)(dt_dataset *d); /* gives up its part of what is shared */
} dt__data_kind;

struct dt_dataset {
    dt_ctx *ctx;
    const dt__data_kind *kind;
    int64_t count; /* examples, in order */
    dt_target target;
    int64_t classes;
    /* images: views on two storages, so that a split shares the bytes */
    int64_t channels, height, width;
    int64_t first; /* of the storages' images */
    dt__storage *pixels, *targets;
    dt_reals mean, deviation; /* none: 0 and 1 */
    double noise;
};

/* Takes over what the fields hold, whatever the result. */
dt_status dt__dataset_make(dt_ctx *ctx, const dt_dataset *fields, dt_dataset **out);

/* Examples of an epoch. */
int64_t dt__dataset_epoch(const dt_dataset *d, bool shuffled);

/* Two keys that block `epoch` of a seed's stream holds. */
typedef struct dt__epoch_keys {
    uint64_t first, second;
} dt__epoch_keys;

dt__epoch_keys dt__keys_of_epoch(uint64_t seed, dt__purpose purpose, int64_t epoch);

/* ---- images ------------------------------------------------------------------------------- */

extern const dt__data_kind dt__data_images;

/* A dataset of images: takes over the caller's reference of both storages, whatever the result. */
dt_status dt__images_wrap(dt_ctx *ctx, const dt_dataset *fields, dt_dataset **out);

/* Storages for the images and targets that the fields describe; both or none. */
dt_status dt__images_allocate(dt_ctx *ctx, dt_dataset *fields);

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

/* The kind's part in a loader (images_batch.c). */
dt_status dt__images_check(const dt_dataset *d, const dt_loader_options *o);
dt_status dt__images_begin(const dt_dataset *d, void **state);
void dt__images_end(dt_ctx *ctx, void *state);
void dt__images_fill(const dt__batch *b);

#endif
