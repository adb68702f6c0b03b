/* Long short-term memory [Hochreiter and Schmidhuber 1997]: src/nn/blocks/recurrent.c with the cell
 * dt_lstm_cell. */
#include "nn/lists/layer_cases.h"
#include "nn/blocks/recurrent.h"

const dt_module_type dt__nn_lstm = { .name = "lstm", .forward = dt__recurrent_forward };

static const dt__cell_kind kind = { "lstm", &dt__nn_lstm, 4, 2, .step = dt_lstm_cell };

dt_status dt_lstm_create(dt_ctx *ctx, const dt_recurrent_layer *layer, dt_module **out)
{
    DT__NEED3(ctx, ctx, layer, out);
    return dt__recurrent_create(ctx, &kind, layer, out);
}

static const dt_key layer_keys[] = {
    DT__RECURRENT_KEYS("lstm"),
    { "cell", DT_KEY_BOOL, DT__RECURRENT_AT(cell), .fallback = "false",
      .text = "append the final c as one more step" },
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    (void)n_in;
    return dt__recurrent_layer_create(ctx, &kind, options, in, out);
}

DT__LAYER_TYPE(lstm, "long short-term memory over [time, width]", dt_recurrent_item, layer_keys, 1,
               3, .create = layer_create);

DT__MAKE_OF(make, dt_lstm_create, dt_recurrent_layer, .in = 3, .hidden = 4, .layers = 1,
            .bias = true)
DT__MAKE_OF(make_tiny, dt_lstm_create, dt_recurrent_layer, .in = 1, .hidden = 1, .layers = 1,
            .bias = true, .last = true)
DT__MAKE_OF(make_stack, dt_lstm_create, dt_recurrent_layer, 3, 5, .layers = 2,
            .bidirectional = true)
DT__MAKE_OF(make_last, dt_lstm_create, dt_recurrent_layer, 6, 33, .layers = 2, .bias = true,
            .last = true)
DT__MAKE_OF(make_dropping, dt_lstm_create, dt_recurrent_layer, 2, 8, .layers = 2, .bias = true,
            .dropout = 0.25)
DT__MAKE_OF(make_cell, dt_lstm_create, dt_recurrent_layer, 3, 4, .layers = 2, .cell = true)
DT__MAKE(make_last_cell,
         dt_lstm_create(ctx, &(dt_recurrent_layer){ 3, 4, 1, .last = true, .cell = true }, out))
DT__MAKE(make_no_inputs,
         dt_lstm_create(ctx, &(dt_recurrent_layer){ .hidden = 4, .layers = 1 }, out))

static dt_tensor *plain(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    return dt__recurrent_plain(t, m, in[0], 2, dt_lstm_cell);
}

#define OF(layer) layer ".weight " layer ".bias"
#define PLAIN(i) OF("layers." i ".ih") " " OF("layers." i ".hh")
#define BOTH(i)                                                                                    \
    "layers." i ".ih.weight layers." i ".hh.weight layers." i ".ih_reverse.weight layers." i       \
    ".hh_reverse.weight"

static const dt__layer_case cases[] = {
    { "all steps", make, .in = { { { 2, 19, 3 } } }, .state = PLAIN("0"), .plain = plain,
      .first = { { "layers.0.ih.weight", -0.5, 0.5 },
                 { "layers.0.hh.weight", -0.5, 0.5 },
                 { "layers.0.hh.bias", -0.5, 0.5 } } },
    /* i = f = o = 1/2, g = tanh(2 x + 4 h + 1) = tanh(3): c' = c / 2 + g / 2, h' = tanh(c') / 2 */
    { "one step", make_tiny,
      .in = { { { 1, 1, 1 }, .given = true, .values = { 0.5 } },
              { { 1, 1, 1 }, .given = true, .values = { 0.25 } },
              { { 1, 1, 1 }, .given = true, .values = { 0.5 } } },
      .state = PLAIN("0"),
      .given = { { "layers.0.ih.weight", { 0, 0, 2, 0 } },
                 { "layers.0.ih.bias", { 0, 0, 0, 0 } },
                 { "layers.0.hh.weight", { 0, 0, 4, 0 } },
                 { "layers.0.hh.bias", { 0, 0, 1, 0 } } },
      .n_y = 1, .y = { 0.316835751601735 } },
    { "two layers, both ways", make_stack,
      .in = { { { 2, 4, 3 } }, { { 4, 2, 5 } }, { { 4, 2, 5 } } }, .n_out = 3,
      .state = BOTH("0") " " BOTH("1") },
    { "the last step", make_last, .in = { { { 3, 17, 6 } } }, .n_out = 2, .rough = true,
      .state = PLAIN("0") " " PLAIN("1") },
    { "dropout", make_dropping, .in = { { { 2, 3, 2 } } }, .random = true,
      .state = PLAIN("0") " " PLAIN("1") },
    { "c behind all steps", make_cell, .in = { { { 2, 3, 3 } } },
      .state = "layers.0.ih.weight layers.0.hh.weight layers.1.ih.weight layers.1.hh.weight" },
    { "c behind the last step", make_last_cell, .fails = DT_ERR_ARG,
      .says = "lstm: cell: behind all steps, without last" },
    { "another width", make, .in = { { { 2, 5, 4 } } }, .state = PLAIN("0"), .fails = DT_ERR_SHAPE,
      .says = "layers.0.ih" },
    { "h without c", make, .in = { { { 2, 5, 3 } }, { { 1, 2, 4 } } }, .state = PLAIN("0"),
      .fails = DT_ERR_ARG, .says = "2 inputs; expected x, or x and all 2" },
    { "another c", make, .in = { { { 2, 5, 3 } }, { { 1, 2, 4 } }, { { 1, 1, 4 } } },
      .state = PLAIN("0"), .fails = DT_ERR_SHAPE,
      .says = "expected an initial state [1,2,4], not f32[1,1,4]" },
    { "no inputs", make_no_inputs, .fails = DT_ERR_ARG, .says = "lstm: the number of inputs is 0" },
};
DT__LAYER_CASES(lstm, cases)
