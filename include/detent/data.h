/* data.h: datasets of labelled images, batches, shuffling, augmentation.
 */
#ifndef DETENT_DATA_H
#define DETENT_DATA_H

#include <detent/detent.h>
#include <detent/keys.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grey images in memory: pixels u8 [count, height, width], labels in [0, classes). */
typedef struct dt_dataset dt_dataset;

DT_API void dt_dataset_free(dt_dataset *d); /* NULL is allowed */
DT_API int64_t dt_dataset_count(const dt_dataset *d);   /* images */
DT_API int64_t dt_dataset_height(const dt_dataset *d);  /* of an image, in pixels */
DT_API int64_t dt_dataset_width(const dt_dataset *d);   /* of an image, in pixels */
DT_API int64_t dt_dataset_classes(const dt_dataset *d); /* largest label + 1, or as declared */
/* Image i, lent: height * width bytes. */
DT_API const uint8_t *dt_dataset_image(const dt_dataset *d, int64_t i);
DT_API int dt_dataset_label(const dt_dataset *d, int64_t i); /* of image i */

/* Reads IDX files, plain or gzip: images u8 of rank 3, labels u8 of rank 1. `classes` 0: found from
 * the labels; else a label outside is an error. Errors, naming the file and what would be right:
 * IO, FORMAT (magic, type, truncation, trailing bytes, counts that differ, labels). */
DT_API dt_status dt_idx_read(dt_ctx *ctx, const char *images, const char *labels, int64_t classes,
                             dt_dataset **out);
/* Writes a dataset as two IDX files, gzip where the name ends in .gz; atomically. */
DT_API dt_status dt_idx_write(const dt_dataset *d, const char *images, const char *labels);

/* `count` grey digits of 28 x 28 drawn from strokes with random slant, thickness, shift, scale and
 * noise; image i depends on (seed, i) alone. */
DT_API dt_status dt_digits_create(dt_ctx *ctx, int64_t count, uint64_t seed, dt_dataset **out);

/* Splits off the last `count` images: *out gets them, `d` keeps the others. */
DT_API dt_status dt_dataset_split(dt_dataset *d, int64_t count, dt_dataset **out);

typedef struct dt_augment_options {
    int64_t shift; /* each image moves by up to so many pixels each way, zeros come in */
} dt_augment_options;

/* `data:` of a recipe. */
typedef struct dt_data_options {
    int format; /* 0 idx, 1 digits */
    const char *dir;
    dt_strings train, test; /* idx: images, labels */
    double validation;      /* share of the training images split off at the end */
    int64_t train_count;    /* digits: images to draw; idx: 0 all, else the first so many */
    int64_t test_count;
    int64_t seed;           /* digits */
    double mean, deviation; /* a pixel becomes (p/255 - mean) / deviation */
    dt_augment_options augment;
} dt_data_options;

extern DT_API const dt_key dt_data_keys[];

/* Opens what the options name. *validation and *test may come back NULL where there is none. */
DT_API dt_status dt_data_open(dt_ctx *ctx, const dt_data_options *options, dt_dataset **train,
                              dt_dataset **validation, dt_dataset **test);

/* Batches of a dataset. The order of epoch e and every augmentation depend on (seed, e, position)
 * alone, so a position in the data is two integers. */
typedef struct dt_loader dt_loader;

typedef struct dt_loader_options {
    int64_t batch_size;
    bool shuffle;
    bool drop_last; /* leave a short last batch out */
    uint64_t seed;
    double mean, deviation;
    dt_augment_options augment;
} dt_loader_options;

typedef struct dt_position {
    int64_t epoch;
    int64_t batch; /* within the epoch: the next one */
} dt_position;

/* The dataset must outlive the loader. Errors: ARG (batch size, an empty dataset), NOMEM. */
DT_API dt_status dt_loader_create(const dt_dataset *d, const dt_loader_options *options,
                                  dt_loader **out);
DT_API void dt_loader_free(dt_loader *l); /* NULL is allowed */
DT_API int64_t dt_loader_batches(const dt_loader *l); /* in an epoch */
DT_API dt_position dt_loader_position(const dt_loader *l); /* of the next batch */
/* ARG where no such batch exists. */
DT_API dt_status dt_loader_seek(dt_loader *l, dt_position position);
/* The next batch: *x f32 [batch, height, width], *labels i32 [batch], both lent by the loader until
 * the next call. After the last batch of an epoch the next epoch begins. */
DT_API dt_status dt_loader_next(dt_loader *l, dt_tensor **x, dt_tensor **labels);

#ifdef __cplusplus
}
#endif
#endif
