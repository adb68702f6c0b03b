/* A network of modules: each node reads inputs of the network and results of earlier nodes. */
#ifndef DT__NN_GRAPH_H
#define DT__NN_GRAPH_H

#include "nn/module.h"

#include <detent/experimental/layers.h>

/* Numbers of values: input i is i, the result of node i is DT__GRAPH_FIRST + i. */
#define DT__GRAPH_FIRST DT_MAX_IN

typedef struct dt__graph_node {
    dt_module *m; /* a descendant of the graph's module, which owns it */
    int n_in;
    int64_t in[DT_MAX_IN];
    bool same_shapes; /* all inputs have the shape of the result */
} dt__graph_node;

/* The type of a graph inside of another one, which is a unit of activation checkpointing. */
extern const dt_module_type dt__graph_block;

/* An empty graph, of type dt__nn_graph or dt__graph_block. */
dt_status dt__graph_create(dt_ctx *ctx, const dt_module_type *type, dt_module **out);
/* Appends a node. Errors: NOMEM. */
dt_status dt__graph_append(dt_module *graph, const dt__graph_node *node);
/* Ends building: sets the number of inputs and the outputs, 1...DT_MAX_OUT values, and finds what
 * can be fused and which batch norms can be folded. Errors: NOMEM. */
dt_status dt__graph_finish(dt_module *graph, int n_in, const int64_t *out, int n_out);

/* The shapes and names of the inputs and outputs of a whole network. */
typedef struct dt__graph_sides {
    dt_shape in[DT_MAX_SHAPES], out[DT_MAX_OUT];
    const char *in_name[DT_MAX_SHAPES], *out_name[DT_MAX_OUT];
} dt__graph_sides;

/* Keeps the shapes, and copies of the names. NOMEM. */
dt_status dt__graph_set_sides(dt_module *graph, const dt__graph_sides *sides);
/* The names of inputs (n_in of them) and outputs, lent; false if m is not a graph or has none. */
bool dt__graph_names(const dt_module *m, int *n_in, const char *const **in,
                     const char *const **out);
/* The number of elements of each output, lent; NULL if m is not a graph or has no shapes. */
const int64_t *dt__graph_outputs(const dt_module *m);
/* The shapes of the inputs, lent, and their number; 0 if m is not a graph or has no shapes. */
int dt__graph_inputs(const dt_module *m, const dt_shape **shapes);
/* For code that runs a graph with shapes in place of its forward: slices x, all inputs packed, into
 * the inputs; packs outputs. Results are lent; errors are on the tape. */
void dt__graph_unpack(dt_tape *t, const dt_module *m, dt_tensor *x, dt_tensor **in);
dt_tensor *dt__graph_pack(dt_tape *t, const dt_module *m, dt_tensor *const *out);
/* The node that computes output i. Nodes for which `wanted` is false are skipped by following their
 * first inputs. NULL: none, or m is not a graph. */
dt_module *dt__graph_end(const dt_module *m, int i, bool (*wanted)(dt_module *node));
/* The number of results of m: the outputs of a graph, else 1. */
int dt__module_outputs(const dt_module *m);

#endif
