/* Internals of joined arrays, the data of networks with several inputs or outputs. */
#ifndef DT__DATA_JOINED_H
#define DT__DATA_JOINED_H

#include "data/arrays.h"

/* The arrays of an input or an output. Only x, or only the targets, are read. */
typedef struct dt__joined_part {
    char *name;
    int number;      /* its index when it was joined, whatever the order is now */
    dt_dataset data; /* holds references to its arrays */
    /* of an output, as in dt_joined_output */
    double weight, huber_delta;
    char *loss;
    dt_reals class_weights;
} dt__joined_part;

/* The parts of a dataset and of all datasets split from it, reference-counted. */
typedef struct dt__joined {
    dt_ctx *ctx;
    int refs;
    int n_inputs, n_outputs;
    dt__joined_part input[DT_MAX_SHAPES], output[DT_MAX_JOINED];
} dt__joined;

/* The examples of a part that belong to d. The result borrows from the part. */
dt_dataset dt__joined_view(const dt_dataset *d, const dt__joined_part *part);

/* Reorders inputs and outputs by these names, *n_in and *n_out of them, if there are several.
 * False, with nothing changed: d lacks the name *missing (NULL: the numbers differ). */
typedef struct dt__joined_order {
    int n_in, n_out;
    const char *const *in, *const *out;
} dt__joined_order;

bool dt__joined_arrange(dt__joined *j, const dt__joined_order *order, const char **missing);

#endif
