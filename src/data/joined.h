/* Internals of joined arrays: what a network with several inputs and outputs reads and is compared
 * with. */
#ifndef DT__DATA_JOINED_H
#define DT__DATA_JOINED_H

#include "data/arrays.h"

/* The arrays of an input or an output. Of the arrays only x, or only the targets, are read. */
typedef struct dt__joined_part {
    char *name;
    int number;      /* its place when it was joined, whatever the order is now */
    dt_dataset data; /* with references of its own to what it holds */
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

/* The examples of a part that belong to d. The result borrows what the part holds. */
dt_dataset dt__joined_view(const dt_dataset *d, const dt__joined_part *part);

/* Brings inputs and outputs into the order of these names: *n_in and *n_out of them, where there
 * are several. False, with *missing the first name that d lacks, and nothing changed; NULL: their
 * numbers differ. */
typedef struct dt__joined_order {
    int n_in, n_out;
    const char *const *in, *const *out;
} dt__joined_order;

bool dt__joined_arrange(dt__joined *j, const dt__joined_order *order, const char **missing);

#endif
