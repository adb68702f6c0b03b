/* Squeeze and excitation [Hu et al. 2018]: a gate for each channel, from the means of all channels.
 *     y = x gate(fc2(activation(fc1(global_avg_pool(x)))))
 * fc1 and fc2 are 1 x 1 convolutions with biases, under torchvision's names. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

enum { FC1, ACTIVATION, FC2, GATE, PARTS };

typedef struct squeeze_excitation {
    dt_module *part[PARTS];
} squeeze_excitation;

DT__FORWARD(forward)
{
    const squeeze_excitation *s = dt_module_state(m);
    dt_link links[PARTS];
    for (int i = 0; i < PARTS; i++) links[i] = (dt_link){ s->part[i], NULL };
    dt_tensor *means = dt_global_avg_pool2d(t, x);
    dt_tensor *gate = dt__then(t, means, dt_forward_chain(t, links, PARTS, means));
    return dt__then(t, gate, dt_mul(t, x, gate));
}

const dt_module_type dt__nn_squeeze_excitation = {
    .name = "squeeze_excitation",
    .forward = forward,
};

static dt_status add_conv(dt_module *m, const char *name, const int64_t channels[2],
                          dt_module **lent)
{
    const dt_conv_layer layer = { .in = channels[0],
                                  .out = channels[1],
                                  .kernel = { 1, 1 },
                                  .bias = true,
                                  .conv = dt_conv_defaults() };
    dt_module *part = NULL;
    const dt_status made = dt_conv2d_create(dt_module_ctx(m), &layer, &part);
    return dt__add_made(m, name, made, part, lent);
}

static dt_status add_activation(dt_module *m, const char *name, const char *function,
                                dt_module **lent)
{
    dt_module *part = NULL;
    const dt_status made = dt_activation_create(dt_module_ctx(m), function, &part);
    return dt__add_made(m, name, made, part, lent);
}

static dt_status build(dt_module *m, const dt_squeeze_excitation_layer *l)
{
    dt_module **part = ((squeeze_excitation *)dt_module_state(m))->part;
    const char *activation = l->activation == NULL ? "relu" : l->activation;
    const char *gate = l->gate == NULL ? "sigmoid" : l->gate;
    DT__TRY(add_conv(m, "fc1", (const int64_t[]){ l->channels, l->squeeze }, &part[FC1]));
    DT__TRY(add_activation(m, "activation", activation, &part[ACTIVATION]));
    DT__TRY(add_conv(m, "fc2", (const int64_t[]){ l->squeeze, l->channels }, &part[FC2]));
    return add_activation(m, "gate", gate, &part[GATE]);
}

dt_status dt_squeeze_excitation_create(dt_ctx *ctx, const dt_squeeze_excitation_layer *layer,
                                       dt_module **out)
{
    DT__NEED3(ctx, ctx, layer, out);
    const char *name = dt__nn_squeeze_excitation.name;
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, name, "the number of channels", layer->channels));
    DT__TRY(dt__want_extent(ctx, name, "the number of squeezed channels", layer->squeeze));
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_squeeze_excitation, sizeof(squeeze_excitation), &m));
    return dt__layer_done(build(m, layer), m, out);
}

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("squeeze_excitation", dt_squeeze_excitation_item),
    { "squeeze", DT_KEY_INT, offsetof(dt_squeeze_excitation_item, squeeze), .least = 1,
      .most = 1 << 16, .fallback = "!", .text = "channels between fc1 and fc2" },
    { "activation", DT_KEY_CHOICE, offsetof(dt_squeeze_excitation_item, activation),
      .choices = dt_activation_names, .fallback = "relu", .text = "activation behind fc1" },
    { "gate", DT_KEY_CHOICE, offsetof(dt_squeeze_excitation_item, gate),
      .choices = dt_activation_names, .fallback = "sigmoid", .text = "activation behind fc2" },
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    const dt_squeeze_excitation_item *o = options;
    (void)n_in;
    DT__TRY(dt__want_example_rank(ctx, "squeeze_excitation", in, 3));
    const dt_squeeze_excitation_layer layer = { in->dims[0], o->squeeze,
                                                dt_activation_names[o->activation],
                                                dt_activation_names[o->gate] };
    return dt_squeeze_excitation_create(ctx, &layer, out);
}

DT__LAYER_TYPE(squeeze_excitation,
               "x times a gate for each channel, computed from the means of all",
               dt_squeeze_excitation_item, layer_keys, 1, 1, .create = layer_create);

static const dt_squeeze_excitation_layer usual = { .channels = 4, .squeeze = 3 },
                                         hard = { 4, 2, "hardswish", "hardsigmoid" },
                                         one = { .channels = 1, .squeeze = 1 },
                                         narrow = { .channels = 4 },
                                         other = { 4, 2, "relu", "softmax" };

DT__MAKE(make, dt_squeeze_excitation_create(ctx, &usual, out))
DT__MAKE(make_hard, dt_squeeze_excitation_create(ctx, &hard, out))
DT__MAKE(make_one, dt_squeeze_excitation_create(ctx, &one, out))
DT__MAKE(make_narrow, dt_squeeze_excitation_create(ctx, &narrow, out))
DT__MAKE(make_other, dt_squeeze_excitation_create(ctx, &other, out))

static dt_tensor *conv(dt_tape *t, dt_module *m, const char *const path[2], dt_tensor *x)
{
    const dt_conv_options options = dt_conv_defaults();
    return dt_conv2d(t, x, dt_param(m, path[0]), dt_param(m, path[1]), &options);
}

static dt_tensor *first(dt_tape *t, dt_module *m, dt_tensor *x)
{
    const char *const path[] = { "fc1.weight", "fc1.bias" };
    return conv(t, m, path, dt_global_avg_pool2d(t, x));
}

static dt_tensor *second(dt_tape *t, dt_module *m, dt_tensor *x)
{
    const char *const path[] = { "fc2.weight", "fc2.bias" };
    return conv(t, m, path, x);
}

static dt_tensor *plain(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    dt_tensor *x = second(t, m, dt_relu(t, first(t, m, in[0])));
    return dt_mul(t, in[0], dt_sigmoid(t, x));
}

static dt_tensor *plain_hard(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    dt_tensor *x = second(t, m, dt_hardswish(t, first(t, m, in[0])));
    return dt_mul(t, in[0], dt_hardsigmoid(t, x));
}

#define STATE "fc1.weight fc1.bias fc2.weight fc2.bias"

/* Of one channel with mean 2 and weights 0.5 and 1, the gate is sigmoid(1). */
static const dt__layer_case cases[] = {
    { "values", make_one, .in = { { { 1, 1, 1, 2 }, .given = true, .values = { 1, 3 } } },
      .state = STATE,
      .given = { { "fc1.weight", { 0.5 } },
                 { "fc1.bias", { 0 } },
                 { "fc2.weight", { 1 } },
                 { "fc2.bias", { 0 } } },
      .n_y = 2, .y = { 0.7310585786300049, 2.1931757358900147 } },
    { "several images", make, .in = { { { 2, 4, 5, 3 } } }, .state = STATE, .plain = plain,
      .first = { { "fc1.weight", -0.5, 0.5 }, { "fc2.weight", -0.577350270, 0.577350270 } } },
    { "hard functions", make_hard, .in = { { { 2, 4, 5, 3 } } }, .state = STATE,
      .plain = plain_hard },
    { "no squeezed channels", make_narrow, .fails = DT_ERR_ARG,
      .says = "squeeze_excitation: the number of squeezed channels" },
    { "no such gate", make_other, .fails = DT_ERR_CONFIG, .says = "'softmax' is none of: relu" },
    { "other channels", make, .in = { { { 2, 3, 5, 3 } } }, .state = STATE, .fails = DT_ERR_SHAPE,
      .says = "conv2d" },
    { "no image", make, .in = { { { 2, 4 } } }, .state = STATE, .fails = DT_ERR_SHAPE,
      .says = "global_avg_pool2d" },
};
DT__LAYER_CASES(squeeze_excitation, cases)
