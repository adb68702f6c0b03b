/* Running a case of a layer: creates the layer, moves its parameters, runs forward and backward,
 * and collects the results. */
#ifndef LAYERS_RUN_H
#define LAYERS_RUN_H

#include "ops_run.h"
#include "testing.h"

#include "nn/lists/layer_cases.h"

#define LAYERS_TENSORS 32 /* parameters and buffers of a case's layer */

typedef struct layers_setup {
    const dt__layer_case *k;
    dt_dtype real;
    int threads; /* 0: 2 */
    bool training;
    bool checkpointed; /* activation checkpointing: backward runs the layer again */
    bool prepared;     /* with the default preset */
} layers_setup;

/* The layer is child `layer` of a module with one input, which passes the other inputs on. */
typedef struct layers_scene {
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *holder, *layer;
    dt_tensor *in[DT__LAYER_IN];
    int n_in, n_out;
} layers_scene;

typedef struct layers_outcome {
    dt_status status;
    char message[1024];
    ops_values y[DT_MAX_OUT], grad_in[DT__LAYER_IN];
    ops_values state[LAYERS_TENSORS], grad[LAYERS_TENSORS]; /* in the order of visiting */
    int n;                                                  /* of state and grad */
    bool drew;                                              /* forward drew random numbers */
} layers_outcome;

/* How many inputs a case has. */
int layers_inputs(const dt__layer_case *k);

/* Makes layer and inputs in an existing context. The caller closes the scene after an error, too.
 * Values depend on the seed of the context's streams, and are the same in f32 and f64. */
dt_status layers_make(layers_scene *o, const layers_setup *s, dt_ctx *ctx);
void layers_unmake(layers_scene *o); /* all but the context */
/* The same with a context of its own; an error fails the test. */
void layers_open(layers_scene *o, const layers_setup *s);
void layers_close(layers_scene *o);

/* Runs forward through the holder. Sets the outputs, lent by the tape; returns the tape's
 * status. */
dt_status layers_forward(layers_scene *o, dt_tensor **y);
/* The sum of all outputs, each element multiplied by a number that depends on its index: a scalar,
 * lent by the tape. */
dt_tensor *layers_loss(layers_scene *o, dt_tensor *const *y);

void layers_run(const layers_setup *s, layers_outcome *out);
void layers_free(layers_outcome *o);

/* Returns the name of what differs, for a message; NULL where all bits are equal. */
const char *layers_difference(const layers_outcome *a, const layers_outcome *b);

#endif
