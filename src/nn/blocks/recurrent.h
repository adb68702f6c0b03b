/* Recurrent networks: layers that run a cell over the time steps of a sequence, in one or both
 * directions, stacked. rnn, gru and lstm differ in their cells alone. */
#ifndef DT__NN_RECURRENT_H
#define DT__NN_RECURRENT_H

#include "nn/lists/layer_type.h"

typedef struct dt__cell_kind {
    const char *name;
    const dt_module_type *type; /* of the whole network */
    int gates;                  /* products are [N, gates hidden] */
    int states;                 /* a state is [states N, hidden]; its first N rows are h */
    /* The next state from the products with x and with h, and the state. */
    dt_tensor *(*step)(dt_tape *t, dt_tensor *gi, dt_tensor *gh, dt_tensor *state);
    /* In place of `step`: gh lacks the last gate, whose product the step computes by hn from
     * another value. hn NULL: the state is zeros, and gh includes the last gate. */
    dt_tensor *(*late)(dt_tape *t, dt_tensor *gi, dt_tensor *gh, dt_tensor *state, dt_module *hn);
} dt__cell_kind;

/* dt_rnn_create, dt_gru_create, dt_lstm_create. `kind` must live as long as the module. */
dt_status dt__recurrent_create(dt_ctx *ctx, const dt__cell_kind *kind,
                               const dt_recurrent_layer *options, dt_module **out);
/* The forward function of these networks' types. */
void dt__recurrent_forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                           dt_tensor **out, int n_out);

/* ---- in recipes ----------------------------------------------------------------------------- */

#define DT__RECURRENT_AT(field) offsetof(dt_recurrent_item, network.field)

#define DT__RECURRENT_KEYS(kind)                                                                   \
    DT__LAYER_HEAD(kind, dt_recurrent_item),                                                       \
        { "hidden",                                                                                \
          DT_KEY_INT,                                                                              \
          DT__RECURRENT_AT(hidden),                                                                \
          .least = 1,                                                                              \
          .most = 1 << 16,                                                                         \
          .fallback = "!",                                                                         \
          .text = "extent of the hidden state, in each direction" },                               \
        { "layers",    DT_KEY_INT,      DT__RECURRENT_AT(layers),          .least = 1,             \
          .most = 256, .fallback = "1", .text = "number of stacked layers" },                      \
        { "bias", DT_KEY_BOOL, DT__RECURRENT_AT(bias), .fallback = "true",                         \
          .text = "its products have a bias" },                                                    \
        { "bidirectional", DT_KEY_BOOL, DT__RECURRENT_AT(bidirectional), .fallback = "false",      \
          .text = "a second direction, from the last step to the first" },                         \
        { "reverse", DT_KEY_BOOL, DT__RECURRENT_AT(reverse), .fallback = "false",                  \
          .text = "one direction, from the last step to the first" },                              \
        { "last", DT_KEY_BOOL, DT__RECURRENT_AT(last), .fallback = "false",                        \
          .text = "return the last step in place of all" },                                        \
    {                                                                                              \
        "dropout", DT_KEY_REAL, DT__RECURRENT_AT(dropout), .most = 0.9999, .fallback = "0",        \
                                                           .text = "dropout between its layers"    \
    }

/* dt_layer_type.create for these kinds; initial states, if the layer has such inputs, are [batch,
 * layers directions, hidden]. */
dt_status dt__recurrent_layer_create(dt_ctx *ctx, const dt__cell_kind *kind, const void *options,
                                     const dt_shape *in, dt_module **out);

/* For cases: the steps of the example [2, time, 3], from a state of zeros [2 states, 4], by
 * dt_linear and a cell; and y, which joins the first parts of all states. */
dt_tensor *dt__recurrent_plain(dt_tape *t, dt_module *m, dt_tensor *in, int states,
                               dt_tensor *(*cell)(dt_tape *t, dt_tensor *gi, dt_tensor *gh,
                                                  dt_tensor *state));

#endif
