/* Activations: a function of each element, chosen by name. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

#include <string.h>

static dt_tensor *gelu(dt_tape *t, dt_tensor *x) { return dt_gelu(t, x, DT_GELU_ERF); }

static dt_tensor *gelu_tanh(dt_tape *t, dt_tensor *x) { return dt_gelu(t, x, DT_GELU_TANH); }

static dt_tensor *leaky_relu(dt_tape *t, dt_tensor *x) { return dt_leaky_relu(t, x, 0.01); }

static dt_tensor *elu(dt_tape *t, dt_tensor *x) { return dt_elu(t, x, 1); }

static dt_tensor *identity(dt_tape *t, dt_tensor *x)
{
    (void)t;
    return x;
}

typedef dt_tensor *(*function)(dt_tape *t, dt_tensor *x);

/* no epilogue can compute the function */
#define ALONE (-1)

/* Every activation: its name in recipes, its op, and its number in an epilogue. New ones are added
 * at the end, since options contain indices. */
#define ACTIVATIONS(A)                                                                             \
    A(relu, dt_relu, DT_ACT_RELU)                                                                  \
    A(gelu, gelu, DT_ACT_GELU)                                                                     \
    A(gelu_tanh, gelu_tanh, DT_ACT_GELU_TANH)                                                      \
    A(tanh, dt_tanh, DT_ACT_TANH)                                                                  \
    A(sigmoid, dt_sigmoid, DT_ACT_SIGMOID)                                                         \
    A(identity, identity, DT_ACT_NONE)                                                             \
    A(silu, dt_silu, DT_ACT_SILU)                                                                  \
    A(leaky_relu, leaky_relu, ALONE)                                                               \
    A(relu6, dt_relu6, DT_ACT_RELU6)                                                               \
    A(hardswish, dt_hardswish, DT_ACT_HARDSWISH)                                                   \
    A(hardsigmoid, dt_hardsigmoid, DT_ACT_HARDSIGMOID)                                             \
    A(elu, elu, DT_ACT_ELU)

typedef struct activation {
    function apply;
    int epilogue; /* DT_ACT_..., or ALONE */
} activation;

#define NAME(name, apply, after) #name,
#define FUNCTION(name, apply, after) { apply, after },
#define SHOWN(name, apply, after) " " #name

const char *const dt_activation_names[] = { ACTIVATIONS(NAME) NULL };
static const activation activations[] = { ACTIVATIONS(FUNCTION) };

DT__FORWARD(forward)
{
    const activation *s = dt_module_state(m);
    return s->apply(t, x);
}

static int epilogue(const dt_module *m) { return ((const activation *)m->state)->epilogue; }

const dt_module_type dt__nn_activation = {
    .name = "activation",
    .forward = forward,
    .activation = epilogue,
};

dt_status dt_activation_create(dt_ctx *ctx, const char *name, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    int i = 0;
    while (name != NULL && dt_activation_names[i] != NULL &&
           strcmp(dt_activation_names[i], name) != 0) {
        i++;
    }
    if (name == NULL || dt_activation_names[i] == NULL) {
        return dt_fail(ctx, DT_ERR_CONFIG, "activation: '%s' is none of:" ACTIVATIONS(SHOWN),
                       name == NULL ? "(NULL)" : name);
    }
    DT__TRY(dt_module_create(ctx, &dt__nn_activation, sizeof(activation), out));
    *(activation *)dt_module_state(*out) = activations[i];
    return DT_OK;
}

#define LAYER(name, apply, after)                                                                  \
    static const dt_key name##_keys[] = { DT__LAYER_HEAD(#name, dt_plain_layer), { 0 } };          \
    static dt_status layer_##name(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,  \
                                  dt_module **out)                                                 \
    {                                                                                              \
        (void)options;                                                                             \
        (void)in;                                                                                  \
        (void)n_in;                                                                                \
        return dt_activation_create(ctx, #name, out);                                              \
    }
ACTIVATIONS(LAYER)

#define LAYER_TYPE(name, apply, after)                                                             \
    { .item = { #name, "activation " #name, name##_keys, sizeof(dt_plain_layer) },                 \
      .least_in = 1,                                                                               \
      .most_in = 1,                                                                                \
      .create = layer_##name },
static const dt_layer_type layer_types[] = { ACTIVATIONS(LAYER_TYPE) };

const dt_layer_type *dt__activation_layer_at(int i)
{
    return i >= 0 && i < DT__COUNT_OF(layer_types) ? &layer_types[i] : NULL;
}

#define MAKE(name, apply, after)                                                                   \
    static dt_status make_##name(dt_ctx *ctx, dt_module **out)                                     \
    {                                                                                              \
        return dt_activation_create(ctx, #name, out);                                              \
    }
ACTIVATIONS(MAKE)

DT__MAKE(make_swish, dt_activation_create(ctx, "swish", out))
DT__MAKE(make_nameless, dt_activation_create(ctx, NULL, out))

#define OF(function, ...)                                                                          \
    {                                                                                              \
#function, make_##function,                                                                \
            .in = { { { 3 }, .given = true, .values = { -1, 0.5, 2 } } }, .n_y = 3,                \
                             .y = {                                                                \
                                 __VA_ARGS__ }                                                     \
    }

static const dt__layer_case cases[] = {
    OF(relu, 0.0, 0.5, 2),
    OF(gelu, -0.15865525393145707, 0.34573123063700656, 1.9544997361036416),
    OF(gelu_tanh, -0.15880800939172324, 0.34571400982514394, 1.954597694087775),
    OF(tanh, -0.7615941559557649, 0.46211715726000974, 0.9640275800758169),
    OF(sigmoid, 0.2689414213699951, 0.6224593312018546, 0.8807970779778823),
    OF(identity, -1.0, 0.5, 2.0),
    OF(silu, -0.2689414213699951, 0.3112296656009273, 1.7615941559557646),
    OF(leaky_relu, -0.01, 0.5, 2.0),
    OF(relu6, 0.0, 0.5, 2.0),
    OF(hardswish, -0.33333333333333333, 0.29166666666666667, 1.6666666666666667),
    OF(hardsigmoid, 0.33333333333333333, 0.58333333333333333, 0.83333333333333333),
    OF(elu, -0.63212055882855768, 0.5, 2.0),
    { "no such name", make_swish, .fails = DT_ERR_CONFIG, .says = "'swish' is none of: relu" },
    { "no name", make_nameless, .fails = DT_ERR_CONFIG, .says = "(NULL)" },
};
_Static_assert(DT__COUNT_OF(cases) == DT__COUNT_OF(activations) + 2, "each activation has a case");
DT__LAYER_CASES(activation, cases)
