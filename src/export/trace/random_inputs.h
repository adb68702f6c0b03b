/* Random inputs for a model, and its change in a format that keeps activations as floats. */
#ifndef DT__EXPORT_RANDOM_INPUTS_H
#define DT__EXPORT_RANDOM_INPUTS_H

#include "core/core.h"

#include <detent/experimental/export.h>

#define DT__RANDOM_BATCH 3
#define DT__RANDOM_LENGTH 7 /* tokens at most */

/* Makes a batch for each of the model's inputs: in[DT_MAX_IN], x[DT_MAX_IN]; the caller frees x,
 * also after an error. Numbers are about normally distributed, or indices. The context's random
 * streams do not change. Errors: ARG, NOMEM, those of the family. */
dt_status dt__random_inputs(dt_module *m, const dt_model_info *info, dt_trace_input *in, int *n,
                            dt_tensor **x);

/* Computes a model's outputs in evaluation mode, without gradients, on a tape that the caller
 * frees. */
dt_status dt__outputs_of(dt_module *m, dt_tensor *const *x, int n_in, dt_tape **tape,
                         dt_tensor **y);

/* Adds the comparison of n numbers to *d: how many have equal bits, and the largest difference
 * (infinite if `own` is not finite). *largest: the largest magnitude in `own`. */
void dt__add_difference(const float *other, const float *own, int64_t n, dt_export_difference *d,
                        double *largest);

/* If inputs of layers are quantized, or the model is prepared, notes how far its outputs are from
 * those with floats instead, which the format writes. `what` begins the note. */
dt_status dt__note_floats(const dt_export_call *e, const char *what);

#endif
