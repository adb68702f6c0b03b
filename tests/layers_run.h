/* Running a case of a layer: the layer made and moved, forward, backward, and what came out. */
#ifndef LAYERS_RUN_H
#define LAYERS_RUN_H

#include "ops_run.h"
#include "testing.h"

#include "nn/layer_cases.h"

#define LAYERS_TENSORS 32 /* parameters and buffers of a case's layer */

typedef struct layers_setup {
    const dt__layer_case *k;
    dt_dtype real;
    int threads; /* 0: 2 */
    bool training;
    bool checkpointed; /* keeps its inputs alone for backward, which runs it again */
    bool prepared;     /* by the default preset */
} layers_setup;

/* The layer as child `layer` of a module with one input, which hands the other inputs on. */
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
    bool drew; /* random numbers: forward has moved some stream */
} layers_outcome;

/* How many inputs a case has. */
int layers_inputs(const dt__layer_case *k);

/* Makes layer and inputs in a context that is there; on an error the scene is to be closed, too.
 * The same values for the same seed of the context's streams and any real. */
dt_status layers_make(layers_scene *o, const layers_setup *s, dt_ctx *ctx);
void layers_unmake(layers_scene *o); /* all but the context */
/* The same with a context of its own; an error fails the test. */
void layers_open(layers_scene *o, const layers_setup *s);
void layers_close(layers_scene *o);

/* Forward through the holder: the outputs, lent; the tape's status. */
dt_status layers_forward(layers_scene *o, dt_tensor **y);
/* The sum of all outputs, each element times a number that depends on its place: a scalar, lent. */
dt_tensor *layers_loss(layers_scene *o, dt_tensor *const *y);

void layers_run(const layers_setup *s, layers_outcome *out);
void layers_free(layers_outcome *o);

/* Name of what differs, for a message; NULL where all is equal, bit for bit. */
const char *layers_difference(const layers_outcome *a, const layers_outcome *b);

#endif
