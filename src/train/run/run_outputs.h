/* The outputs of a run's model, one by one. */
#ifndef DT__TRAIN_RUN_OUTPUTS_H
#define DT__TRAIN_RUN_OUTPUTS_H

#include "data/joined.h"
#include "train/run/run.h"

/* One of several outputs: its examples and targets, and the model's numbers for it. */
typedef struct dt__run_output {
    const char *name; /* NULL: the data have only one output */
    dt_dataset d;     /* a view */
    dt_tensor *y;     /* [examples, numbers] */
} dt__run_output;

/* Output i of the packed outputs y for the evaluated data; out->y NULL: there is no output i. Close
 * it in any case. SHAPE, NOMEM. */
dt_status dt__run_output_open(dt__run *r, int i, dt_tensor *y, dt__run_output *out);
void dt__run_output_close(dt__run_output *o);

#endif
