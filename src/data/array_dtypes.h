/* Dtypes of arrays in memory and in files, and their conversion. */
#ifndef DT__DATA_ARRAY_DTYPES_H
#define DT__DATA_ARRAY_DTYPES_H

#include "core/core.h"

#include <detent/experimental/data.h>

#define DT__ARRAY_DTYPES (DT_ARRAY_I64 + 1)

typedef struct dt__array_dtype {
    const char *name;    /* "f32" */
    const char *in_file; /* in safetensors files: "F32" */
    int bytes;           /* per number */
    bool is_integer;
    /* Converts n numbers. `from` needs no alignment. Numbers beyond the range of f32 become
     * infinities. */
    void (*to_f32)(const uint8_t *from, int64_t n, float *to);
    double (*at)(const uint8_t *from); /* reads one number */
} dt__array_dtype;

/* NULL if there is no such dtype. */
const dt__array_dtype *dt__array_dtype_of(int dtype);

/* The index of the first of n numbers that is NaN or infinite as f32; -1: all are finite. Results
 * do not depend on the number of threads. */
int64_t dt__first_not_finite(const dt_ctx *ctx, int dtype, const uint8_t *from, int64_t n);

#endif
