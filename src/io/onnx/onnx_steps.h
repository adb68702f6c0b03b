/* Nodes that take the place of others before a graph is read. */
#ifndef DT__IO_ONNX_STEPS_H
#define DT__IO_ONNX_STEPS_H

#include "io/onnx/onnx.h"

/* A node with one output. The last inputs may be "": they are left out. */
typedef struct dt__onnx_step {
    const char *op;
    const char *const *in;
    size_t n_in;
    const char *out;
} dt__onnx_step;

/* The node, with the name of `like`, without attributes. NOMEM. */
dt_status dt__onnx_step_node(dt__onnx *g, const dt__onnx_node *like, const dt__onnx_step *step,
                             DtOnnx__Node **out);
/* Adds the attribute `axis`, where the file's version of the operators has it. NOMEM. */
dt_status dt__onnx_step_axis(dt__onnx *g, DtOnnx__Node *n, int axis);
/* "<of>:<letter>", a name for a value that a node needs on its way to `of`; NULL: NOMEM. */
char *dt__onnx_value_name(dt__onnx *g, const char *of, char letter);

/* Products of codes whose range is that of each tensor (onnx_dynamic.c): g->graph is then a graph
 * of its own. Errors: NOMEM. */
dt_status dt__onnx_expand_dynamic(dt__onnx *g);

/* A text of a node that a reader makes: protobuf-c's are not const, though nobody writes them. */
static inline char *dt__onnx_text(const char *constant) { return (char *)(uintptr_t)constant; }

#endif
