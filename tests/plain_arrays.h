/* Arrays of floats in row-major order, and views of them, element by element. */
#ifndef PLAIN_ARRAYS_H
#define PLAIN_ARRAYS_H

#include "core/core.h"

#define PLAIN_MOST 8192

typedef struct plain_array {
    int rank;
    int64_t dims[DT_MAX_RANK], count;
    float v[PLAIN_MOST];
} plain_array;

/* The elements of an f32 tensor of any strides, by these. */
void plain_of(const dt_tensor *x, plain_array *out);

/* a = its elements start, start + step, ... below stop of dimension d. */
void plain_slice(plain_array *a, int d, int64_t start, int64_t stop, int64_t step);

/* New dimension i is old dimension order[i]. */
void plain_permute(plain_array *a, const int64_t *order);

/* The same elements as [dims[0], rest]. */
void plain_flatten(plain_array *a);

/* Puts one to three views behind a network whose result is `a`, [batch, ...]: appends their layers
 * to the YAML text, and does the same to `a`. The last is of kind `last`, below PLAIN_VIEWS. */
#define PLAIN_VIEWS 6
typedef struct plain_text {
    char text[4096];
    int n;             /* layers named so far */
    const char *after; /* appended behind each view; NULL: nothing */
} plain_text;
void plain_views(dt__stream *s, int last, plain_array *a, plain_text *yaml);

/* One view of a kind. */
void plain_view(dt__stream *s, int kind, plain_array *a, plain_text *yaml);

void plain_append(plain_text *t, const char *format, ...) DT_PRINTF(2, 3);

#endif
