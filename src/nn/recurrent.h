/* Recurrent networks: layers that run a cell over the time steps of a sequence, in one or both
 * directions, stacked. gru and lstm differ in their cells alone. */
#ifndef DT__NN_RECURRENT_H
#define DT__NN_RECURRENT_H

#include "nn/module.h"

typedef struct dt__cell_kind {
    const char *name;
    const dt_module_type *type; /* of the whole network */
    int gates;                  /* products are [N, gates hidden] */
    int states;                 /* a state is [states N, hidden]; its first N rows are h */
    /* The next state from the products with x and with h, and the state. */
    dt_tensor *(*step)(dt_tape *t, dt_tensor *gi, dt_tensor *gh, dt_tensor *state);
} dt__cell_kind;

/* dt_gru_create, dt_lstm_create. `kind` is constant. */
dt_status dt__recurrent_create(dt_ctx *ctx, const dt__cell_kind *kind,
                               const dt_recurrent_layer *options, dt_module **out);
/* forward of such networks' types */
void dt__recurrent_forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                           dt_tensor **out, int n_out);

#endif
