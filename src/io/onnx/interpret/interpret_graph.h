/* A graph in memory: its values, each in a slot, and its nodes. */
#ifndef DT__IO_ONNX_INTERPRET_GRAPH_H
#define DT__IO_ONNX_INTERPRET_GRAPH_H

#include "io/onnx/interpret/interpret.h"

#define DT__VERIFY_ABSENT (-1)

typedef struct dt__verify_slot {
    const char *name;
    dt__verify_value value;
    size_t bytes;
    int64_t maker; /* the node that computes it; -1: none */
    int64_t last;  /* the last node that reads it; INT64_MAX: never freed */
    bool constant; /* an initializer */
    bool input;
    bool outer; /* in a body: a value of the outer graph, lent */
} dt__verify_slot;

typedef struct dt__verify_node {
    const DtOnnx__Node *node;
    const dt__verify_operator *op;
    int64_t *in, *out; /* slot indices; DT__VERIFY_ABSENT */
    dt__verify *body;  /* graph in an attribute of the node; NULL: none */
} dt__verify_node;

struct dt__verify {
    dt_ctx *ctx;
    dt__onnx_file file;
    dt__verify *around; /* the outer graph, if this is a body; NULL: none */
    char *path;         /* for messages */
    const DtOnnx__Graph *graph;
    void *blocks; /* slots, steps and lists of them */
    void *scratch;
    dt__verify_slot *slot;
    int64_t n_slots; /* sorted by name */
    dt__verify_node *node;
    const dt__verify_value **in; /* inputs of the running node */
    dt__verify_value **out;
    const DtOnnx__ValueInfo **input; /* graph inputs, without initializers */
    int64_t n_inputs;
    size_t bytes; /* of live values */
    double work;
    dt__verify_limits limits;
    void **arena; /* of a single node: memory of its results; else NULL */
};

/* Lists the values and inputs of v->graph; for a body also the values of the outer graph that its
 * nodes read. Errors: FORMAT, NOMEM. */
dt_status dt__verify_list_slots(dt__verify *v);
/* The slot of a name, or DT__VERIFY_ABSENT. */
int64_t dt__verify_find(const dt__verify *v, const char *name);

#endif
