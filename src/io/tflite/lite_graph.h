/* A TFLite model in memory: lite_read.c reads it, lite.c runs it. */
#ifndef DT__IO_LITE_GRAPH_H
#define DT__IO_LITE_GRAPH_H

#include "io/tflite/flat_read.h"
#include "io/tflite/lite.h"

struct dt__vlite {
    dt_ctx *ctx;
    const char *path;
    dt__vflat f;
    void *blocks;
    size_t used;
    dt__vlite_tensor *tensor;
    int64_t tensors;
    dt__vlite_op *op;
    int64_t ops;
    int in[DT_MAX_IN], out[DT_MAX_OUT], ins, outs;
    double work;
    dt__vlite_limits most;
    bool resized;                  /* extents of results are computed from the inputs */
    const dt__vlite_tensor *sized; /* the running operator's result whose extents were computed */
};

/* The operator with a code; NULL: unsupported. */
const dt__vlite_operator *dt__vlite_operator_of(int64_t code);
/* Allocates a tensor's values. */
dt_status dt__vlite_allocate(dt__vlite *v, dt__vlite_tensor *t);
/* FORMAT: "<path>: damaged, or not a TFLite model: <what> <i>" */
dt_status dt__vlite_broken(const dt__vlite *v, const char *what, int64_t i);
/* Reads v->f. */
dt_status dt__vlite_read(dt__vlite *v);

#endif
