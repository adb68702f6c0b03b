/* layers.h: networks as lists of layers: family `layers` of a recipe, and the same from C.
 *
 * A list holds items (keys.h): each has a kind, such as "conv2d", and the options of that kind. A
 * layer reads the layer before it, or those that `from` names; the extents of its input are
 * inferred. The layer's name is the path of its module, so files, rules and messages use it. */
#ifndef DETENT_EXPERIMENTAL_LAYERS_H
#define DETENT_EXPERIMENTAL_LAYERS_H

#include <detent/experimental/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first field of the options of every kind but `repeat`. */
typedef struct dt_layer_head {
    const char *name; /* dots create modules: "block.0.conv"; NULL or "": kind and index */
    dt_strings from;  /* names of layers and inputs; none: the previous layer */
} dt_layer_head;

/* A norm and an activation after a layer. If either is given, the layer `stem` consists of the
 * modules stem.conv (or stem.linear), stem.norm and stem.activation. */
typedef struct dt_layer_after {
    int norm;              /* index into dt_layer_norm_names: none, batch, group, layer */
    dt_norm_options norms; /* of that norm */
    int activation;        /* index into dt_activation_names */
} dt_layer_after;

/* The names of the norms, in this order, ended by NULL. */
extern DT_API const char *const dt_layer_norm_names[];

/* A kind of layer. */
typedef struct dt_layer_type {
    dt_item_kind item;     /* its name, options and keys */
    int least_in, most_in; /* least and most number of inputs */
    /* Creates the module for inputs of these shapes. Errors: ARG or SHAPE if they do not fit,
     * NOMEM. */
    dt_status (*create)(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                        dt_module **out);
    size_t after;     /* offset of a dt_layer_after in the options; 0: none */
    const char *part; /* with `after`: the name of the layer's module in a unit: "conv" */
} dt_layer_type;

/* The i-th kind of layer, including `repeat`; NULL past the last. Every kind except `repeat` is the
 * `item` of a dt_layer_type. */
DT_API const dt_item_kind *dt_layer_kind_at(int i);
/* The kind with this name; NULL if there is none. */
DT_API const dt_item_kind *dt_layer_kind(const char *name);
/* Registers a kind of layer for recipes and files of this context, by its `item`, whose options
 * must begin with a dt_layer_head like those of the kinds below. It must stay valid until the
 * context is freed. Errors: ARG (no name, keys or create; a name that is taken), NOMEM. */
DT_API dt_status dt_layer_register(dt_ctx *ctx, const dt_layer_type *type);
/* A kind by its name, one of detent's or a registered one; NULL if there is none. */
DT_API const dt_item_kind *dt_layer_kind_in(const dt_ctx *ctx, const char *name);
/* Sets the options of a kind to its defaults. Errors: NOMEM. */
DT_API dt_status dt_layer_defaults(dt_ctx *ctx, const dt_item_kind *kind, void *options);

/* ---- options of the kinds -------------------------------------------------------------------- */

typedef struct dt_plain_layer { /* activations, flatten, global pools, add, sub, mul, identity */
    dt_layer_head head;
} dt_plain_layer;

typedef struct dt_linear_layer {
    dt_layer_head head;
    int64_t out;
    bool bias, has_bias; /* has_bias false: a bias unless a norm follows */
    dt_layer_after after;
} dt_linear_layer;

typedef struct dt_conv_item { /* the four convolutions; 1d ones use [0] only */
    dt_layer_head head;
    int64_t out, kernel[2], stride[2], padding[2], dilation[2], output_padding[2], groups;
    bool bias, has_bias; /* as above */
    dt_layer_after after;
} dt_conv_item;

typedef struct dt_recurrent_item { /* rnn, gru, lstm */
    dt_layer_head head;
    dt_recurrent_layer network; /* `in` is set from the input */
} dt_recurrent_item;

typedef struct dt_norm_layer { /* batch_norm1d, batch_norm2d, group_norm, layer_norm, rms_norm */
    dt_layer_head head;
    dt_norm_options norms;
} dt_norm_layer;

typedef struct dt_dropout_layer {
    dt_layer_head head;
    double p;
} dt_dropout_layer;

typedef struct dt_fake_quant_layer {
    dt_layer_head head;
    double scale;
    int64_t zero_point;
} dt_fake_quant_layer;

typedef struct dt_pool_layer {
    dt_layer_head head;
    dt_pool_options pool;
} dt_pool_layer;

typedef struct dt_size_layer { /* adaptive pools; 1d ones use [0] only */
    dt_layer_head head;
    int64_t size[2];
} dt_size_layer;

/* Rows of a table (dt_embedding_create). */
typedef struct dt_embedding_layer {
    dt_layer_head head;
    int64_t count, width;
} dt_embedding_layer;

typedef struct dt_affine_layer {
    dt_layer_head head;
    dt_affine_options affine;
} dt_affine_layer;

/* Shapes of constants in place of operands: the first, second, third. They have no batch dimension;
 * n 0: the operand is an input. Inputs fill the remaining operands in their order. */
typedef struct dt_operands {
    dt_ints first, second, third;
    bool trained; /* parameters; if not, buffers */
} dt_operands;

typedef struct dt_operands_layer { /* div, maximum, minimum, greater, equal, where, matmul */
    dt_layer_head head;
    dt_operands operands;
    bool equal; /* greater: the result is 1 also where both are equal */
} dt_operands_layer;

typedef struct dt_reduce_layer { /* sum, mean, amax, amin, prod, l2_norm, logsumexp */
    dt_layer_head head;
    dt_reduce_options reduce; /* its dims must not include the batch */
} dt_reduce_layer;

typedef struct dt_clamp_layer {
    dt_layer_head head;
    double min, max;
    bool has_min, has_max;
} dt_clamp_layer;

typedef struct dt_pow_layer {
    dt_layer_head head;
    double exponent;
} dt_pow_layer;

typedef struct dt_dim_layer { /* softmax, log_softmax */
    dt_layer_head head;
    int64_t dim; /* 0 is the batch, as in PyTorch */
} dt_dim_layer;

typedef struct dt_prelu_layer {
    dt_layer_head head;
    bool shared; /* one slope for all channels */
    double init;
} dt_prelu_layer;

typedef struct dt_squeeze_excitation_item {
    dt_layer_head head;
    int64_t squeeze;
    int activation, gate; /* indices into dt_activation_names */
} dt_squeeze_excitation_item;

typedef struct dt_upsample_layer {
    dt_layer_head head;
    int64_t factor;
} dt_upsample_layer;

typedef struct dt_concat_layer {
    dt_layer_head head;
    int64_t dim; /* 0 is the batch, as in PyTorch */
} dt_concat_layer;

typedef struct dt_mix_layer {
    dt_layer_head head;
    int64_t dim, out; /* dim 0 is the batch */
} dt_mix_layer;

typedef struct dt_slice_layer {
    dt_layer_head head;
    int64_t dim, start, stop, step; /* stop 0: up to the end */
} dt_slice_layer;

typedef struct dt_dims_layer {
    dt_layer_head head;
    dt_ints dims; /* reshape: of an example, one extent may be -1; permute: with the batch */
} dt_dims_layer;

typedef struct dt_pad_layer {
    dt_layer_head head;
    dt_pad_options pad;
} dt_pad_layer;

/* Repeats `layers`: the modules are NAME.0, NAME.1, ... Each repetition reads the result of the
 * previous one. Inside, `input` is what the repetition reads; names of the same repetition take
 * precedence over outer ones. */
typedef struct dt_repeat_layers {
    int64_t times;
    const char *name;
    dt_strings from; /* inputs of the first repetition */
    dt_item_list layers;
} dt_repeat_layers;

/* ---- the family ------------------------------------------------------------------------------ */

typedef struct dt_layers_options {
    dt_shapes input; /* shapes of an example; several inputs have names, which `from` can use */
    dt_item_list layers;
    dt_strings output; /* names of the layers whose results are outputs; none: the last */
} dt_layers_options;

/* The keys of dt_layers_options. */
extern DT_API const dt_key dt_layers_keys[];

/* The network of a list: inputs [N, shape], outputs [N, ...], at most DT_MAX_OUT. The options are
 * only read during the call. A batch norm that is the only reader of a convolution is folded under
 * QAT, as in the other families; each repetition is a unit of activation checkpointing. Errors:
 * ARG, with the path of the first wrong option ("layers.3.from.0: ..."); NOMEM. */
DT_API dt_status dt_layers_create(dt_ctx *ctx, const dt_layers_options *options, dt_module **out);

/* Checks a list without drawing weights, and calls `fault` for everything that is wrong in it.
 * Returns OK even then. Errors: NOMEM. */
DT_API dt_status dt_layers_check(dt_ctx *ctx, const dt_layers_options *options,
                                 dt_option_fault fault, void *user);

#ifdef __cplusplus
}
#endif
#endif
