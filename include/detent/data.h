/* data.h: datasets of arrays with their targets; batches, shuffling, augmentation. Datasets of
 * images, sounds, tables and text are in experimental/data.h. */
#ifndef DETENT_DATA_H
#define DETENT_DATA_H

#include <detent/detent.h>
#include <detent/keys.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A dataset: examples, each with a target. Images in memory, pixels u8 [count, channels, height,
 * width], arrays of numbers of any shape, or sequences of tokens. */
typedef struct dt_dataset dt_dataset;

/* What a model predicts for an example. */
typedef enum dt_target {
    DT_TARGET_CLASS,   /* an image or array has a label in [0, classes) */
    DT_TARGET_IMAGE,   /* an image has another image of its size */
    DT_TARGET_MASK,    /* a class in [0, classes) for each pixel: [height, width] */
    DT_TARGET_TOKENS,  /* tokens: the next token after each token */
    DT_TARGET_VALUES,  /* an array has k numbers (regression) */
    DT_TARGET_BITS,    /* an array has k numbers, each 0 or 1 (multi-label classification) */
    DT_TARGET_ANOMALY, /* an array is its own target; its label is 0 (normal) or 1 (anomalous) */
    DT_TARGET_SEVERAL  /* joined arrays have a target for each of several outputs */
} dt_target;

/* Frees a dataset; no loader may use it any more. NULL is allowed. */
DT_API void dt_dataset_free(dt_dataset *d);

DT_API int64_t dt_dataset_count(const dt_dataset *d); /* number of examples */

/* Writes the shape of an example's x and returns its rank: 3 for images, 1 for tokens. */
DT_API int dt_dataset_input_shape(const dt_dataset *d, int64_t dims[DT_MAX_RANK - 1]);

/* ---- arrays --------------------------------------------------------------------------------- */

/* The type of an array's numbers. */
typedef enum dt_array_dtype {
    DT_ARRAY_F32,
    DT_ARRAY_F64,
    DT_ARRAY_F16, /* IEEE 754 binary16 */
    DT_ARRAY_U8,
    DT_ARRAY_I8,
    DT_ARRAY_U16,
    DT_ARRAY_I16,
    DT_ARRAY_I32,
    DT_ARRAY_I64
} dt_array_dtype;

/* Examples of any shape and their targets, in the caller's memory. */
typedef struct dt_arrays {
    int64_t count;
    int rank;                      /* of an example: 1 ... DT_MAX_RANK-1 */
    int64_t dims[DT_MAX_RANK - 1]; /* its extents, at least 1 */
    /* The dimension that counts channels (dt_dataset_standardize); a negative one counts from the
     * end: -1 for tables [columns] and signals [time, channels], 0 for [channels, height, width] */
    int axis;
    dt_array_dtype x_dtype;
    const void *x;          /* [count, dims...] */
    dt_target target;       /* DT_TARGET_CLASS, DT_TARGET_VALUES or DT_TARGET_BITS */
    dt_array_dtype y_dtype; /* type of labels: integers */
    const void *y;          /* labels [count]; values and bits [count, outputs] */
    int64_t outputs;        /* classes, 0: the largest label + 1; numbers of a target, at least 1 */
    const char *const *names; /* [outputs], names of classes or of a target's numbers; NULL: none */
    /* x is not copied, and must stay unchanged until the dataset and those split from it are freed;
     * false: x is copied */
    bool borrow;
} dt_arrays;

/* A dataset of arrays. A loader converts x to f32. Targets are copied. Errors: ARG (extents,
 * dtypes), FORMAT (NaN or infinity in x or y, a number beyond the range of f32, a label out of
 * range, a bit that is neither 0 nor 1), naming row and column, NOMEM. */
DT_API dt_status dt_dataset_from_arrays(dt_ctx *ctx, const dt_arrays *arrays, dt_dataset **out);

/* Sets how a loader standardizes a number v of an array's channel c, in fp32:
 *     x = (v - mean[c]) / deviation[c]
 * n is 1 (one number for all channels) or the number of channels. Datasets split off later inherit
 * this; zeros that pad an example are standardized like other numbers. Errors: ARG (no arrays,
 * another n, a number that is not finite as f32, a deviation <= 0), NOMEM. */
DT_API dt_status dt_dataset_standardize(dt_dataset *d, int64_t n, const double *mean,
                                        const double *deviation);

/* ---- images --------------------------------------------------------------------------------- */

/* `count` grey digits of 28 x 28 drawn from strokes with random slant, thickness, shift, scale and
 * noise. Image i and its target depend on (seed, i) alone and are the same on every machine.
 * Targets:
 *     labels  the digit, 0 to 9
 *     masks   digit + 1 where strokes cover at least half of the pixel, else 0: 11 classes
 *     images  the image itself, drawn without noise, for dt_dataset_denoise
 * Errors: ARG (count, any other target), NOMEM. */
DT_API dt_status dt_digits_create(dt_ctx *ctx, int64_t count, uint64_t seed, dt_target target,
                                  dt_dataset **out);

/* ---- `data:` of a recipe -------------------------------------------------------------------- */

/* Augmentation. Images: shift, crop, flip, rotation, brightness, contrast, erasing. Signals [time,
 * channels], after standardization: shift or crop along time, scale, jitter, time_mask. Other
 * arrays: scale, jitter. */
typedef struct dt_augment_options {
    /* shift by up to this many pixels or time steps in each direction, padding with 0 */
    int64_t shift;
    /* pad each image by this many zeros, then crop its size at a random position */
    int64_t crop;
    bool flip;         /* mirror each image left to right with probability 1/2 */
    double scale;      /* multiply each example by a number of 1 - scale ... 1 + scale */
    double jitter;     /* add noise of this standard deviation, as dt_dataset_denoise draws it */
    int64_t time_mask; /* set up to this many time steps in a row to 0, all channels at once */
    double rotation;   /* turn images by up to this many degrees each way, at most 180 */
    /* Not with targets that are images; v is a pixel from 0 to 1, u uniform in -1 ... 1, drawn for
     * each image: v + brightness u, and 0.5 + (v - 0.5)(1 + contrast u) */
    double brightness, contrast;
    double erasing; /* probability to blacken a rectangle of up to half of each side */
    /* For images with classes: alpha of a batch's mixture (dt_loader_mixed), at most 2; if both are
     * set, each batch draws one of the two with probability 1/2 */
    double mixup, cutmix;
} dt_augment_options;

/* ---- batches -------------------------------------------------------------------------------- */

/* Batches of a dataset, epoch after epoch. A balanced epoch has as many examples as the dataset,
 * equally many (plus or minus one) of every class that occurs: a class's examples are repeated as
 * often as its share allows, and a random part of them fills the rest. The order of epoch e depends
 * on (seed, e) alone, as do the windows of running text; augmentation and noise of an image depend
 * on (seed, e, position in that order). So a position in the data is two integers. Augmentation
 * that moves an image moves its target image or mask likewise, padding with class 0. */
typedef struct dt_loader dt_loader;

typedef struct dt_loader_options {
    int64_t batch_size;         /* default 64 */
    bool shuffle;               /* default true; false: the dataset's order */
    bool balanced;              /* default false; true: every class equally often in an epoch */
    bool drop_last;             /* default false; true: skip the last batch if it is shorter */
    uint64_t seed;              /* default 0 */
    dt_augment_options augment; /* default none */
    bool prompts; /* default false; true: tokens of prompts are targets, as those of completions */
} dt_loader_options;

/* The defaults of a loader. */
DT_API dt_loader_options dt_loader_defaults(void);

typedef struct dt_position {
    int64_t epoch;
    int64_t batch; /* the next batch within the epoch */
} dt_position;

/* Creates a loader. The dataset must outlive it and must not be split meanwhile. The order takes 8
 * bytes per example. Errors: ARG (an option, a dataset too small for one batch, balanced without
 * shuffle or without classes), NOMEM. */
DT_API dt_status dt_loader_create(const dt_dataset *d, const dt_loader_options *options,
                                  dt_loader **out);

/* Frees a loader and its tensors. NULL is allowed. */
DT_API void dt_loader_free(dt_loader *l);
DT_API int64_t dt_loader_batches(const dt_loader *l);      /* batches in an epoch, at least 1 */
DT_API dt_position dt_loader_position(const dt_loader *l); /* the position of the next batch */

/* Sets the next batch; reads nothing. Errors: ARG if there is no such batch. */
DT_API dt_status dt_loader_seek(dt_loader *l, dt_position position);

/* The next batch: *x f32 [batch, shape of an example], [batch, channels, height, width] for images,
 * or i32 [batch, context] for tokens. *target depends on the type of targets:
 *     labels  i32 [batch]; of anomalies likewise
 *     values  f32 [batch, k]; bits likewise, 0 or 1
 *     images  f32 [batch, channels, height, width], p/255
 *     masks   i32 [batch, height, width]
 *     tokens  i32 [batch, context]: target[t] is the token after x[t]; -100 (ignored) in
 *             prompts and in padding
 * The loader lends both and overwrites them at the next call. After the last batch of an epoch the
 * next epoch begins. Allocates nothing. Errors: STATE (the tensors were frozen). */
DT_API dt_status dt_loader_next(dt_loader *l, dt_tensor **x, dt_tensor **target);

#ifdef __cplusplus
}
#endif

/* Includes the experimental part, unless the program defines DETENT_STABLE_ONLY. */
#ifndef DETENT_STABLE_ONLY
#include <detent/experimental/data.h>
#endif
#endif
