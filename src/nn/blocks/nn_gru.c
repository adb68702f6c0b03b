/* Gated recurrent unit [Cho et al. 2014]: src/nn/blocks/recurrent.c with the cell dt_gru_cell. */
#include "nn/lists/layer_cases.h"
#include "nn/blocks/recurrent.h"

const dt_module_type dt__nn_gru = { .name = "gru", .forward = dt__recurrent_forward };

/* Part i of n equal parts of the columns of x. */
static dt_tensor *columns(dt_tape *t, dt_tensor *x, int64_t i, int64_t n, int64_t most)
{
    const int64_t width = x == NULL ? 0 : x->dims[1] / most;
    const dt_slice_options o = { .dims = { 1, { 1 } },
                                 .starts = { 1, { i * width } },
                                 .stops = { 1, { (i + n) * width } } };
    return dt_slice(t, x, &o);
}

/* r, z = sigmoid(gi + gh)      n = tanh(gi_n + hn(r h))      h' = n + z (h - n) */
static dt_tensor *reset_before(dt_tape *t, dt_tensor *gi, dt_tensor *gh, dt_tensor *h,
                               dt_module *hn)
{
    dt_tensor *rz = dt_add(t, columns(t, gi, 0, 2, 3), hn != NULL ? gh : columns(t, gh, 0, 2, 3));
    rz = dt__then(t, rz, dt_sigmoid(t, rz));
    dt_tensor *gn = columns(t, gh, 2, 1, 3);
    if (hn != NULL) {
        dt_tensor *reset = dt_mul(t, columns(t, rz, 0, 1, 2), h);
        gn = dt__then(t, reset, dt_forward(t, hn, reset));
    }
    dt_tensor *n = dt_add(t, columns(t, gi, 2, 1, 3), gn);
    dt__drop_step(t, gn, n);
    n = dt__then(t, n, dt_tanh(t, n));
    dt_tensor *apart = dt_sub(t, h, n);
    dt_tensor *kept = dt__then(t, apart, dt_mul(t, columns(t, rz, 1, 1, 2), apart));
    dt__drop_step(t, rz, kept);
    dt_tensor *next = dt__then(t, kept, dt_add(t, n, kept));
    return dt__then(t, n, next);
}

/* indexed by `reset_before` */
static const dt__cell_kind kinds[] = {
    { "gru", &dt__nn_gru, 3, 1, .step = dt_gru_cell },
    { "gru", &dt__nn_gru, 3, 1, .late = reset_before },
};

dt_status dt_gru_create(dt_ctx *ctx, const dt_recurrent_layer *layer, dt_module **out)
{
    DT__NEED3(ctx, ctx, layer, out);
    return dt__recurrent_create(ctx, &kinds[layer->reset_before], layer, out);
}

static const dt_key layer_keys[] = {
    DT__RECURRENT_KEYS("gru"),
    { "reset_before", DT_KEY_BOOL, DT__RECURRENT_AT(reset_before), .fallback = "false",
      .text = "the reset gate scales h before its product, as in Keras without reset_after" },
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    (void)n_in;
    const dt_recurrent_item *o = options;
    return dt__recurrent_layer_create(ctx, &kinds[o->network.reset_before], options, in, out);
}

DT__LAYER_TYPE(gru, "gated recurrent unit over [time, width]", dt_recurrent_item, layer_keys, 1, 2,
               .create = layer_create);

DT__MAKE_OF(make, dt_gru_create, dt_recurrent_layer, .in = 3, .hidden = 4, .layers = 1,
            .bias = true)
DT__MAKE_OF(make_tiny, dt_gru_create, dt_recurrent_layer, .in = 1, .hidden = 1, .layers = 1,
            .bias = true, .last = true)
DT__MAKE_OF(make_stack, dt_gru_create, dt_recurrent_layer, 3, 5, .layers = 2, .bidirectional = true,
            .bias = true)
DT__MAKE_OF(make_last, dt_gru_create, dt_recurrent_layer, 6, 33, .layers = 2, .bidirectional = true,
            .last = true)
DT__MAKE_OF(make_dropping, dt_gru_create, dt_recurrent_layer, 2, 8, .layers = 3, .bias = true,
            .dropout = 0.25)
DT__MAKE_OF(make_before, dt_gru_create, dt_recurrent_layer, .in = 1, .hidden = 1, .layers = 1,
            .last = true, .reset_before = true)
DT__MAKE_OF(make_both_before, dt_gru_create, dt_recurrent_layer, 3, 5, .layers = 2,
            .bidirectional = true, .bias = true, .reset_before = true)
DT__MAKE(make_twice,
         dt_gru_create(ctx,
                       &(dt_recurrent_layer){ 3, 4, 1, .bidirectional = true, .reverse = true },
                       out))
DT__MAKE(make_no_width, dt_gru_create(ctx, &(dt_recurrent_layer){ .in = 3, .layers = 1 }, out))
DT__MAKE(make_no_layer, dt_gru_create(ctx, &(dt_recurrent_layer){ .in = 3, .hidden = 4 }, out))
DT__MAKE_OF(make_huge, dt_gru_create, dt_recurrent_layer, .in = 3, .hidden = INT64_MAX / 2,
            .layers = 1)
DT__MAKE_OF(make_idle, dt_gru_create, dt_recurrent_layer, .in = 3, .hidden = 4, .layers = 1,
            .dropout = 0.5)

static dt_tensor *plain(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    return dt__recurrent_plain(t, m, in[0], 1, dt_gru_cell);
}

#define OF(layer) layer ".weight " layer ".bias"
#define ONE OF("layers.0.ih") " " OF("layers.0.hh")
#define BOTH(i)                                                                                    \
    OF("layers." i ".ih")                                                                          \
    " " OF("layers." i ".hh") " " OF("layers." i ".ih_reverse") " " OF("layers." i ".hh_reverse")

#define BEFORE(i)                                                                                  \
    OF("layers." i ".ih")                                                                          \
    " " OF("layers." i ".hh") " " OF("layers." i ".hn") " " OF("layers." i ".ih_reverse") " " OF(  \
        "layers." i ".hh_reverse") " " OF("layers." i ".hn_reverse")

static const dt__layer_case cases[] = {
    { "all steps", make, .in = { { { 2, 19, 3 } } }, .state = ONE, .plain = plain,
      .first = { { "layers.0.ih.weight", -0.5, 0.5 },
                 { "layers.0.hh.weight", -0.5, 0.5 },
                 { "layers.0.ih.bias", -0.5, 0.5 } } },
    /* r = z = 1/2, n = tanh(2 x + r (4 h + 1)) = tanh(2) */
    { "one step", make_tiny,
      .in = { { { 1, 1, 1 }, .given = true, .values = { 0.5 } },
              { { 1, 1, 1 }, .given = true, .values = { 0.25 } } },
      .state = ONE,
      .given = { { "layers.0.ih.weight", { 0, 0, 2 } },
                 { "layers.0.ih.bias", { 0, 0, 0 } },
                 { "layers.0.hh.weight", { 0, 0, 4 } },
                 { "layers.0.hh.bias", { 0, 0, 1 } } },
      .n_y = 1, .y = { 0.6070137900379085 } },
    /* r = z = 1/2, n = tanh(2 x + 4 (r h)) = tanh(1.5) */
    { "reset before the product", make_before,
      .in = { { { 1, 1, 1 }, .given = true, .values = { 0.5 } },
              { { 1, 1, 1 }, .given = true, .values = { 0.25 } } },
      .state = "layers.0.ih.weight layers.0.hh.weight layers.0.hn.weight",
      .given = { { "layers.0.ih.weight", { 0, 0, 2 } },
                 { "layers.0.hh.weight", { 0, 0 } },
                 { "layers.0.hn.weight", { 4 } } },
      .n_y = 1, .y = { 0.5775741268224333 } },
    { "reset before, both ways", make_both_before, .in = { { { 2, 4, 3 } } }, .n_out = 2,
      .state = BEFORE("0") " " BEFORE("1") },
    { "two layers, both ways", make_stack, .in = { { { 2, 4, 3 } }, { { 4, 2, 5 } } }, .n_out = 2,
      .state = BOTH("0") " " BOTH("1") },
    { "the last step, no bias", make_last, .in = { { { 3, 17, 6 } } }, .n_out = 2, .rough = true,
      .state = "layers.0.ih.weight layers.0.hh.weight layers.0.ih_reverse.weight "
               "layers.0.hh_reverse.weight layers.1.ih.weight layers.1.hh.weight "
               "layers.1.ih_reverse.weight layers.1.hh_reverse.weight" },
    { "dropout", make_dropping, .in = { { { 2, 3, 2 } } }, .random = true,
      .state = ONE
      " " OF("layers.1.ih") " " OF("layers.1.hh") " " OF("layers.2.ih") " " OF("layers.2.hh") },
    { "no sequence", make, .in = { { { 2, 0, 3 }, 3 } }, .state = ONE, .fails = DT_ERR_SHAPE,
      .says = "at least one time step" },
    { "one vector", make, .in = { { { 2, 3 } } }, .state = ONE, .fails = DT_ERR_SHAPE,
      .says = "module layer (gru): expected [batch, time, width]" },
    { "another width", make, .in = { { { 2, 5, 4 } } }, .state = ONE, .fails = DT_ERR_SHAPE,
      .says = "layers.0.ih" },
    { "another state", make, .in = { { { 2, 5, 3 } }, { { 2, 4 } } }, .state = ONE,
      .fails = DT_ERR_SHAPE, .says = "expected an initial state [1,2,4]" },
    { "states of an lstm", make, .in = { { { 2, 5, 3 } }, { { 1, 2, 4 } }, { { 1, 2, 4 } } },
      .state = ONE, .fails = DT_ERR_ARG, .says = "3 inputs; expected x, or x and all 1" },
    { "outputs of an lstm", make, .in = { { { 2, 5, 3 } } }, .n_out = 3, .state = ONE,
      .fails = DT_ERR_ARG, .says = "3 outputs; there are 2" },
    { "no width", make_no_width, .fails = DT_ERR_ARG, .says = "gru: the hidden width is 0" },
    { "both directions twice", make_twice, .fails = DT_ERR_ARG,
      .says = "gru: reverse: bidirectional has both directions" },
    { "no layer", make_no_layer, .fails = DT_ERR_ARG, .says = "gru: the number of layers is 0" },
    { "too large", make_huge, .fails = DT_ERR_ARG, .says = "too large" },
    { "dropout in one layer", make_idle, .fails = DT_ERR_ARG, .says = "dropout 0.5 has no effect" },
};
DT__LAYER_CASES(gru, cases)
