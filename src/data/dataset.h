/* A dataset inside: what every kind has, a table of what differs between kinds, and the fields of
 * each. images.c and images_batch.c are one, sequences.c is another. */
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
    /* What a loader keeps for its batches; NULL: nothing. `end` takes what `begin` left, also after
     * an error. */
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
    /* sequences of tokens */
    int64_t context;
    struct dt__token_store *store;
    int64_t begin, length;   /* running text: a stretch of the store */
    dt__storage *pieces;     /* NULL: running text; else examples are `first`... of these */
    dt_tokenizer *tokenizer; /* NULL: nobody knows */
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

/* Their part in a loader (images_batch.c). */
dt_status dt__images_check(const dt_dataset *d, const dt_loader_options *o);
dt_status dt__images_begin(const dt_dataset *d, void **state);
void dt__images_end(dt_ctx *ctx, void *state);
void dt__images_fill(const dt__batch *b);

/* ---- sequences of tokens (sequences.c) ---------------------------------------------------- */

#define DT__NO_LABEL (-100)

extern const dt__data_kind dt__data_sequences;

/* Ids in memory or in a file, shared by counting. */
typedef struct dt__token_store {
    dt_ctx *ctx;
    int refs;
    dt_ids ids;
    dt_tokens *file; /* NULL: in memory */
} dt__token_store;

/* One with a reference, empty. NULL: NOMEM. */
dt__token_store *dt__token_store_create(dt_ctx *ctx);
void dt__token_store_release(dt__token_store *s); /* NULL is allowed */
int64_t dt__token_store_count(const dt__token_store *s);

/* An example with a beginning and an end: tokens begin ... begin + n - 1 of the store, of which
 * those from `first` on, counted from 0, are predicted. */
typedef struct dt__sequence {
    int64_t begin;
    int64_t n, first;
} dt__sequence;

/* Takes over the caller's references of store, pieces and tokenizer, whatever the result. The count
 * of running text follows from its length. */
dt_status dt__sequences_wrap(dt_ctx *ctx, const dt_dataset *fields, dt_dataset **out);

#endif
