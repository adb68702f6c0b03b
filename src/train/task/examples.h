/* examples.json of a run, for the report: examples of the evaluated data and the final model's
 * outputs for them, by the kind of targets. */
#ifndef DT__TRAIN_EXAMPLES_H
#define DT__TRAIN_EXAMPLES_H

#include "core/text/json.h"
#include "train/task/task.h"

typedef struct dt__examples {
    dt_ctx *ctx;
    dt__chars *t;
    const dt_dataset *d;
    dt_module *m;      /* computed `y` */
    const float *y;    /* outputs, [examples, each] */
    int64_t n, each;   /* number of examples; numbers per output */
    dt_loader *loader; /* of the data, one example per batch */
    bool no_pictures;  /* x differs from the model's input */
    int64_t samples;   /* number of texts; 0: the default */
} dt__examples;

/* Each appends fields of the object: `"name": value`, without a comma at the end. */
dt_status dt__examples_of_classes(const dt__examples *e);
dt_status dt__examples_of_images(const dt__examples *e);
dt_status dt__examples_of_masks(const dt__examples *e);
dt_status dt__examples_of_values(const dt__examples *e);
dt_status dt__examples_of_tokens(const dt__examples *e);
dt_status dt__examples_of_bits(const dt__examples *e);
dt_status dt__examples_of_anomaly(const dt__examples *e);

/* Each appends an object about example i, with output y[e->each]. */
dt_status dt__put_class_example(const dt__examples *e, int64_t i, const float *y);
dt_status dt__put_image_example(const dt__examples *e, int64_t i, const float *y);
dt_status dt__put_mask_example(const dt__examples *e, int64_t i, const float *y);
/* With the reconstruction, if it is a picture. */
dt_status dt__put_anomaly_example(const dt__examples *e, int64_t i, const float *y);

/* Example i as evaluation sees it, [1, ...], lent until the next call. */
dt_status dt__examples_at(const dt__examples *e, int64_t i, dt_tensor **x, dt_tensor **target);

/* Numbers as a picture: [height][width] of 1 or 3 channels, channels first. */
typedef struct dt__picture {
    int64_t channels, height, width;
    const float *value;
    /* values shown as black and white; equal: the least and the largest value */
    double black, white;
} dt__picture;

/* Appends {"width": ..., "height": ..., "channels": ..., "bytes": "<base64>"}, or null if the shape
 * is not a picture's, or too large. */
void dt__put_picture(dt__chars *t, const dt__picture *p);
/* The picture of an example's x, [1, ...]; null for other shapes. */
void dt__put_shown_input(const dt__examples *e, const dt_tensor *x);
/* Appends the picture of other values with x's shape. */
void dt__put_shown(const dt__examples *e, const dt_tensor *x, const float *value);
/* Appends a JSON string for files that people read (dt_text_json). */
void dt__put_visible(dt__chars *t, const char *text, size_t bytes);
/* Appends the name of a class, else its number, quoted. */
void dt__put_class(const dt__examples *e, int64_t k);

/* The indices of the `wanted` largest costs in descending order: place[wanted]. Returns how many of
 * them are above `least`. */
int64_t dt__largest(const double *cost, int64_t n, double least, int64_t wanted, int64_t *place);

#endif
