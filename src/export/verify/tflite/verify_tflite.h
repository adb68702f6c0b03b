/* Compares an exported TFLite file with its model. */
#ifndef DT__EXPORT_VERIFY_TFLITE_H
#define DT__EXPORT_VERIFY_TFLITE_H

#include "core/system/atomic_file.h"

#include "export/trace/trace.h"

/* Inputs and outputs of a model; dimension 0 is the batch. */
typedef struct dt__verify_tensors {
    dt_tensor *const *x, *const *y;
    int n_in, n_out;
    const dt__end_name *name; /* of outputs; NULL: they have none */
} dt__verify_tensors;

/* Whether the bytes are a file of TFLite. */
bool dt__verify_is_tflite(const void *bytes, size_t n);
/* Compares y with the file's results for x, in out[n_out]. Errors: FORMAT, UNSUPPORTED, NOMEM. */
dt_status dt__verify_tflite(dt_ctx *ctx, const char *path, const dt__span *file,
                            const dt__verify_tensors *of, dt_export_difference *out);

#endif
