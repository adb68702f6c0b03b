/* A graph that was read: its values, each in a slot, and its nodes. */
#ifndef DT__IO_ONNX_INTERPRET_GRAPH_H
#define DT__IO_ONNX_INTERPRET_GRAPH_H

#include "io/onnx/interpret/interpret.h"

#define DT__VERIFY_ABSENT (-1)

typedef struct dt__verify_slot {
    const char *name;
    dt__verify_value value;
    size_t bytes;
    int64_t maker; /* the node; -1: none */
    int64_t last;  /* node that reads it last; INT64_MAX: it stays */
    bool constant; /* an initializer */
    bool input;
    bool outer; /* of a body: a value of the graph around it, lent */
} dt__verify_slot;

typedef struct dt__verify_node {
    const DtOnnx__Node *node;
    const dt__verify_operator *op;
    int64_t *in, *out; /* numbers of slots; DT__VERIFY_ABSENT */
    dt__verify *body;  /* the graph inside of it; NULL: none */
} dt__verify_node;

struct dt__verify {
    dt_ctx *ctx;
    dt__onnx_file file;
    dt__verify *around; /* the graph whose node this is the body of; NULL: none */
    char *path;         /* for messages */
    const DtOnnx__Graph *graph;
    void *blocks; /* slots, steps and lists of them */
    void *scratch;
    dt__verify_slot *slot;
    int64_t n_slots; /* sorted by name */
    dt__verify_node *node;
    const dt__verify_value **in; /* of the node that runs */
    dt__verify_value **out;
    const DtOnnx__ValueInfo **input; /* without those that are initializers */
    int64_t n_inputs;
    size_t bytes; /* of values alive */
    double work;
    dt__verify_limits limits;
    void **arena; /* of a node by itself: memory of its results; else NULL */
};

/* Lists the values and inputs of v->graph; of a body also those around it that its nodes read.
 * Errors: FORMAT, NOMEM. */
dt_status dt__verify_list_slots(dt__verify *v);
/* The slot of a name; DT__VERIFY_ABSENT. */
int64_t dt__verify_find(const dt__verify *v, const char *name);

#endif
