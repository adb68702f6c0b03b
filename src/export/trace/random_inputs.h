/* Random inputs of a model, and what it loses in a format that keeps activations as floats. */
#ifndef DT__EXPORT_RANDOM_INPUTS_H
#define DT__EXPORT_RANDOM_INPUTS_H

#include "core/core.h"

#include <detent/experimental/export.h>

#define DT__RANDOM_BATCH 3
#define DT__RANDOM_LENGTH 7 /* tokens, at most */

/* A batch for each of the model's inputs: in[DT_MAX_IN], x[DT_MAX_IN]; the caller frees x, also
 * after an error. Numbers of about a normal distribution, or indices. The context's streams stay as
 * they are. Errors: ARG, NOMEM, those of the family. */
dt_status dt__random_inputs(dt_module *m, const dt_model_info *info, dt_trace_input *in, int *n,
                            dt_tensor **x);

/* The outputs of a model in evaluation, without gradients, on a tape that the caller frees. */
dt_status dt__outputs_of(dt_module *m, dt_tensor *const *x, int n_in, dt_tape **tape,
                         dt_tensor **y);

/* Adds the differences of n numbers to *d: those with equal bits, and the largest of the others
 * (infinite where an own one is not finite); *largest: the largest magnitude in `own`. */
void dt__add_difference(const float *other, const float *own, int64_t n, dt_export_difference *d,
                        double *largest);

/* Where inputs of layers have codes, or the model is prepared, notes how far its outputs are from
 * those with floats in their place, which a format writes. `what` begins the line. */
dt_status dt__note_floats(const dt_export_call *e, const char *what);

#endif
