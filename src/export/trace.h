/* A trace in memory. trace.c records runs of a module, trace_join.c finds which extents are
 * symbolic. */
#ifndef DT__EXPORT_TRACE_H
#define DT__EXPORT_TRACE_H

#include "core/core.h"

#include <detent/export.h>

struct dt_trace {
    dt_ctx *ctx;
    dt_module *m; /* lent */
    dt_trace_value *value;
    int64_t n_values, room_values;
    dt_trace_call *call;
    int64_t n_calls, room_calls;
    int64_t in[DT_MAX_IN], out[DT_MAX_OUT]; /* values */
    int n_in, n_out;
    bool tokens;
    int64_t context;
    char *names; /* of inputs that have none of their own; owned */
};

/* The extents of a run: how many examples, and how many tokens. */
typedef struct dt__trace_size {
    int64_t batch, length;
} dt__trace_size;

/* Records one run; extents are numbers. */
dt_status dt__trace_record(dt_module *m, const dt_trace_options *o, const dt__trace_size *size,
                           dt_trace **out);
/* Makes the extents of `t`, of a run of one example, symbolic by comparison with a run of another
 * size, whose options it takes over. `which` is 0 for another batch, 1 for another length. Errors:
 * UNSUPPORTED, NOMEM. */
dt_status dt__trace_join(dt_trace *t, dt_trace *other, const dt__trace_size *size,
                         const dt__trace_size *other_size, int which);
/* Leaves out what no output depends on, and sets lifetimes. */
dt_status dt__trace_prune(dt_trace *t);

/* The inputs of a model in `in`, of DT_MAX_IN elements, as its graph or its family describes them.
 * Errors: ARG, those of the family. */
dt_status dt__trace_inputs_of(dt_module *m, const dt_model_info *info, dt_trace_input *in, int *n);

/* Frees what a call owns. */
void dt__trace_call_free(dt_ctx *ctx, const dt_trace_call *c);

#endif
