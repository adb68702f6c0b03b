/* Makes nodes that replace others before a graph is read. */
#ifndef DT__IO_ONNX_STEPS_H
#define DT__IO_ONNX_STEPS_H

#include "io/onnx/onnx.h"

/* A node with one output. Inputs "" at the end are left out. */
typedef struct dt__onnx_step {
    const char *op;
    const char *const *in;
    size_t n_in;
    const char *out;
} dt__onnx_step;

/* Makes the node, without attributes, with the name of `like`. NOMEM. */
dt_status dt__onnx_step_node(dt__onnx *g, const dt__onnx_node *like, const dt__onnx_step *step,
                             DtOnnx__Node **out);
/* Adds the attribute `axis`, if the file's operator set has it. NOMEM. */
dt_status dt__onnx_step_axis(dt__onnx *g, DtOnnx__Node *n, int axis);
/* "<of>:<letter>": the name of an intermediate value for `of`; NULL: NOMEM. */
char *dt__onnx_value_name(dt__onnx *g, const char *of, char letter);

/* Replaces products of dynamically quantized values (onnx_dynamic.c), in a new g->graph. Errors:
 * NOMEM. */
dt_status dt__onnx_expand_dynamic(dt__onnx *g);

/* A constant string for a node: the fields of protobuf-c are not const, but never written. */
static inline char *dt__onnx_text(const char *constant) { return (char *)(uintptr_t)constant; }

#endif
