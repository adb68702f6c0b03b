/* Elman network [Elman 1990]: src/nn/blocks/recurrent.c with h' = tanh(gi + gh), or relu. */
#include "nn/lists/layer_cases.h"
#include "nn/blocks/recurrent.h"

const dt_module_type dt__nn_rnn = { .name = "rnn", .forward = dt__recurrent_forward };

static dt_tensor *with_tanh(dt_tape *t, dt_tensor *gi, dt_tensor *gh, dt_tensor *h)
{
    (void)h;
    dt_tensor *y = dt_add(t, gi, gh);
    return dt__then(t, y, dt_tanh(t, y));
}

static dt_tensor *with_relu(dt_tape *t, dt_tensor *gi, dt_tensor *gh, dt_tensor *h)
{
    (void)h;
    dt_tensor *y = dt_add(t, gi, gh);
    return dt__then(t, y, dt_relu(t, y));
}

/* indexed by `relu` */
static const dt__cell_kind kinds[] = {
    { "rnn", &dt__nn_rnn, 1, 1, .step = with_tanh },
    { "rnn", &dt__nn_rnn, 1, 1, .step = with_relu },
};

dt_status dt_rnn_create(dt_ctx *ctx, const dt_recurrent_layer *layer, dt_module **out)
{
    DT__NEED3(ctx, ctx, layer, out);
    return dt__recurrent_create(ctx, &kinds[layer->relu], layer, out);
}

static const dt_key layer_keys[] = {
    DT__RECURRENT_KEYS("rnn"),
    { "relu", DT_KEY_BOOL, DT__RECURRENT_AT(relu), .fallback = "false",
      .text = "relu in place of tanh" },
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    (void)n_in;
    const dt_recurrent_item *o = options;
    return dt__recurrent_layer_create(ctx, &kinds[o->network.relu], options, in, out);
}

DT__LAYER_TYPE(rnn, "Elman network over [time, width]", dt_recurrent_item, layer_keys, 1, 2,
               .create = layer_create);

DT__MAKE_OF(make, dt_rnn_create, dt_recurrent_layer, .in = 3, .hidden = 4, .layers = 1,
            .bias = true)
DT__MAKE_OF(make_tiny, dt_rnn_create, dt_recurrent_layer, .in = 1, .hidden = 1, .layers = 1,
            .bias = true, .last = true)
DT__MAKE_OF(make_relu, dt_rnn_create, dt_recurrent_layer, .in = 1, .hidden = 1, .layers = 1,
            .reverse = true, .relu = true)
DT__MAKE_OF(make_stack, dt_rnn_create, dt_recurrent_layer, 3, 5, .layers = 2, .bidirectional = true)
DT__MAKE_OF(make_dropping, dt_rnn_create, dt_recurrent_layer, 2, 8, .layers = 2, .dropout = 0.25)
DT__MAKE(make_no_width, dt_rnn_create(ctx, &(dt_recurrent_layer){ .in = 3, .layers = 1 }, out))
DT__MAKE(make_before,
         dt_rnn_create(ctx, &(dt_recurrent_layer){ 3, 4, 1, .reset_before = true }, out))

#define OF(layer) layer ".weight " layer ".bias"
#define BOTH(i)                                                                                    \
    "layers." i ".ih.weight layers." i ".hh.weight layers." i ".ih_reverse.weight layers." i       \
    ".hh_reverse.weight"

static const dt__layer_case cases[] = {
    { "all steps", make, .in = { { { 2, 19, 3 } } },
      .state = OF("layers.0.ih") " " OF("layers.0.hh"),
      .first = { { "layers.0.ih.weight", -0.5, 0.5 }, { "layers.0.hh.bias", -0.5, 0.5 } } },
    /* tanh(2 x + 4 h + 1) = tanh(3) */
    { "one step", make_tiny,
      .in = { { { 1, 1, 1 }, .given = true, .values = { 0.5 } },
              { { 1, 1, 1 }, .given = true, .values = { 0.25 } } },
      .state = OF("layers.0.ih") " " OF("layers.0.hh"),
      .given = { { "layers.0.ih.weight", { 2 } },
                 { "layers.0.ih.bias", { 0 } },
                 { "layers.0.hh.weight", { 4 } },
                 { "layers.0.hh.bias", { 1 } } },
      .n_y = 1, .y = { 0.9950547536867305 } },
    /* backwards: relu(2 3) = 6, relu(2 -1 + 0.5 6) = 1 */
    { "relu, from the end", make_relu,
      .in = { { { 1, 2, 1 }, .given = true, .values = { -1, 3 } } },
      .state = "layers.0.ih.weight layers.0.hh.weight",
      .given = { { "layers.0.ih.weight", { 2 } }, { "layers.0.hh.weight", { 0.5 } } }, .n_y = 2,
      .y = { 1, 6 } },
    { "two layers, both ways", make_stack, .in = { { { 2, 4, 3 } }, { { 4, 2, 5 } } }, .n_out = 2,
      .state = BOTH("0") " " BOTH("1") },
    { "dropout", make_dropping, .in = { { { 2, 3, 2 } } }, .random = true,
      .state = "layers.0.ih.weight layers.0.hh.weight layers.1.ih.weight layers.1.hh.weight" },
    { "another width", make, .in = { { { 2, 5, 4 } } },
      .state = OF("layers.0.ih") " " OF("layers.0.hh"), .fails = DT_ERR_SHAPE,
      .says = "layers.0.ih" },
    { "no width", make_no_width, .fails = DT_ERR_ARG, .says = "rnn: the hidden width is 0" },
    { "an option of gru", make_before, .fails = DT_ERR_ARG,
      .says = "rnn: reset_before: it is an option of gru" },
};
DT__LAYER_CASES(rnn, cases)
