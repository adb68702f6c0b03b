/* Macros for tables of keys and for kinds of family `layers`. */
#ifndef DT__NN_LAYER_TYPE_H
#define DT__NN_LAYER_TYPE_H

#include "nn/module.h"

#include <detent/experimental/layers.h>

/* The first two keys of every kind: its name, and its inputs. */
#define DT__LAYER_HEAD(kind, options)                                                              \
    { kind, DT_KEY_STRING, offsetof(options, head.name), .text = "name of the layer" },            \
    {                                                                                              \
        "from", DT_KEY_STRINGS, offsetof(options, head.from),                                      \
            .fallback = "[]", .text = "layers or inputs to read; none: the layer before"           \
    }

/* Keys of a layer that works along one dimension (dt_dim_layer). */
#define DT__DIM_KEYS(kind)                                                                         \
    DT__LAYER_HEAD(kind, dt_dim_layer),                                                            \
    {                                                                                              \
        "dim", DT_KEY_INT, offsetof(dt_dim_layer, dim),                                            \
            .least = -DT_MAX_RANK, .most = DT_MAX_RANK - 1, .fallback = "-1",                      \
            .text = "dimension; 0 is the batch, 1 the channels, -1 the last"                       \
    }

/* Keys of a norm after a layer, or of a norm layer. */
#define DT__LAYER_GROUPS(options, field)                                                           \
    {                                                                                              \
        "norm_groups", DT_KEY_INT, offsetof(options, field.groups),                                \
            .least = 1, .most = 1 << 16, .fallback = "4",                                          \
            .text = "group norm: number of groups of channels"                                     \
    }
#define DT__LAYER_MOMENTUM(options, field)                                                         \
    {                                                                                              \
        "momentum", DT_KEY_REAL, offsetof(options, field.momentum),                                \
            .most = 1, .fallback = "0.1",                                                          \
            .text = "batch norm: weight of a batch in the running statistics"                      \
    }
#define DT__LAYER_EPS(options, field)                                                              \
    {                                                                                              \
        "eps", DT_KEY_REAL, offsetof(options, field.eps), .most = 1, .fallback = "1e-5",           \
                                                          .text = "norm: added to the variance"    \
    }

/* Keys of dt_layer_after, and of the bias, whose default depends on them. */
#define DT__LAYER_AFTER(options)                                                                   \
    { "bias", DT_KEY_BOOL, offsetof(options, bias), .given = offsetof(options, has_bias),          \
      .text = "it has a bias; default: unless a norm follows" },                                   \
        { "norm",                                                                                  \
          DT_KEY_CHOICE,                                                                           \
          offsetof(options, after.norm),                                                           \
          .choices = dt_layer_norm_names,                                                          \
          .fallback = "none",                                                                      \
          .text = "normalization behind it" },                                                     \
        { "activation",                                                                            \
          DT_KEY_CHOICE,                                                                           \
          offsetof(options, after.activation),                                                     \
          .choices = dt_activation_names,                                                          \
          .fallback = "identity",                                                                  \
          .text = "activation behind it" },                                                        \
        DT__LAYER_GROUPS(options, after.norms), DT__LAYER_MOMENTUM(options, after.norms),          \
        DT__LAYER_EPS(options, after.norms)

/* Begins the forward (dt_module_type) of a layer with one input, x, and one output; the body that
 * follows returns the output. */
#define DT__FORWARD(name)                                                                          \
    static dt_tensor *output_of(dt_tape *t, dt_module *m, dt_tensor *x);                           \
    static void name(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,    \
                     int n_out)                                                                    \
    {                                                                                              \
        (void)n_in;                                                                                \
        (void)n_out;                                                                               \
        out[0] = output_of(t, m, in[0]);                                                           \
    }                                                                                              \
    static dt_tensor *output_of(dt_tape *t, dt_module *m, dt_tensor *x)

/* Defines `forward` of a layer with one input, by one expression of t, m and x. */
#define DT__LAYER_FORWARD(y)                                                                       \
    DT__FORWARD(forward)                                                                           \
    {                                                                                              \
        (void)m;                                                                                   \
        return y;                                                                                  \
    }

/* Defines `layer_create` (dt_layer_type.create), by one expression of ctx, the options o of type
 * `options`, the shape `in` of the first input's example, and out. */
#define DT__LAYER_CREATE(options, call)                                                            \
    static dt_status layer_create(dt_ctx *ctx, const void *given, const dt_shape *in, int n_in,    \
                                  dt_module **out)                                                 \
    {                                                                                              \
        const options *o = given;                                                                  \
        (void)o;                                                                                   \
        (void)in;                                                                                  \
        (void)n_in;                                                                                \
        return call;                                                                               \
    }

/* Defines dt__layer_<kind>; `...` are further fields. */
#define DT__LAYER_TYPE(kind, about, options, key_table, least, most, ...)                          \
    extern const dt_layer_type dt__layer_##kind;                                                   \
    const dt_layer_type dt__layer_##kind = {                                                       \
        .item = { #kind, about, key_table, sizeof(options) },                                      \
        .least_in = least,                                                                         \
        .most_in = most,                                                                           \
        __VA_ARGS__,                                                                               \
    }

/* Whether a layer with these options has a bias. */
static inline bool dt__layer_bias(bool has_bias, bool bias, const dt_layer_after *after)
{
    return has_bias ? bias : after->norm == 0;
}

/* ARG unless an input has `rank` dimensions besides the batch. */
dt_status dt__want_example_rank(dt_ctx *ctx, const char *kind, const dt_shape *in, int rank);

/* `repeat`, the only kind that is not a dt_layer_type (src/nn/families/family_layers.c). */
extern const dt_item_kind dt__repeat_kind;
/* The kinds of activations, which nn_activation.c makes from its list; NULL past the last. */
const dt_layer_type *dt__activation_layer_at(int i);

#endif
