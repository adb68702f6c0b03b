/* Collects what dt_graph_inspect says of a file. */
#ifndef DT__IO_GRAPH_INFO_H
#define DT__IO_GRAPH_INFO_H

#include "core/core.h"

#include <detent/experimental/io.h>

typedef struct dt__look {
    dt_ctx *ctx;
    dt_graph_info *info;
    dt_graph_value *value[2]; /* inputs, outputs */
    dt_graph_operator *operator_;
    int64_t room_values[2], room_operators, room_refusals;
} dt__look;

/* Returns a copy, with unprintable bytes replaced, in the memory of the result; NULL: NOMEM. */
const char *dt__look_copy(dt__look *l, const char *text);
/* Adds an input or output. Texts are copied, except `type`. */
dt_status dt__look_value(dt__look *l, bool output, const char *name, const char *type,
                         const char *shape);
/* Counts one node. */
dt_status dt__look_operator(dt__look *l, const char *name, bool known);
dt_status dt__look_refusal(dt__look *l, const char *text);

/* For ONNX (onnx_look.c) and TFLite (lite_look.c): collects everything but the counts of operators,
 * which the caller makes. Errors: IO, FORMAT, NOMEM. */
dt_status dt__onnx_look(dt__look *l, const char *path);
dt_status dt__lite_look(dt__look *l, const char *path);

#endif
