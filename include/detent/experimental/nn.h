/* experimental/nn.h: own types of modules, hooks, further layers, families of models, text
 * generation with language models. */
#ifndef DETENT_EXPERIMENTAL_NN_H
#define DETENT_EXPERIMENTAL_NN_H

#include <detent/nn.h>
#include <detent/experimental/detent.h>
#include <detent/experimental/keys.h>
#include <detent/experimental/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How presets and rules of qat.h treat a layer's `weight` and input. */
typedef enum dt_quantizable {
    DT_NOT_QUANTIZED = 0,
    DT_QUANTIZED_BY_PRESET,  /* selected by every preset: multiplies its input with `weight` */
    DT_QUANTIZED_WEIGHT_ONLY /* selected by a rule of a recipe only; its input never: embedding */
} dt_quantizable;

/* The parts of a language model. Its forward maps token ids, i32 [batch, tokens], to logits
 * [batch, tokens, vocab]; these functions give access to its parts. */
typedef struct dt_language {
    /* The final hidden states, after the last norm and before the head: [batch, tokens, width];
     * NULL with the error on t. *extra, unless extra is NULL, becomes the routers' auxiliary loss,
     * a scalar, or NULL where the model has none. */
    dt_tensor *(*hidden)(dt_tape *t, dt_module *m, dt_tensor *ids, dt_tensor **extra);
    dt_module *(*head)(dt_module *m); /* the linear layer from hidden states to logits, lent */
    int64_t (*vocab)(const dt_module *m);
    int64_t (*context)(const dt_module *m); /* the most tokens of one sequence */
    /* If a text has more tokens than this, keys and values of all its tokens differ from those in a
     * shorter text (longrope), so a decoder computes them again. NULL, or 0: never. */
    int64_t (*near_tokens)(const dt_module *m);
} dt_language;

/* Operations fused behind a layer:  y = activation(layer(x) + residual). */
typedef struct dt_epilogue {
    dt_tensor *residual; /* of the shape of the layer's output; NULL: none */
    int activation;      /* DT_ACT_... */
} dt_epilogue;

/* How layers of a type can be fused. Only dt_forward_chain and dt_forward_each use this. A fused op
 * computes the same bits as the modules run one after the other. */
typedef struct dt_fusion {
    /* Forward with an epilogue, one input, one output; NULL: the type takes no epilogue. */
    void (*forward)(dt_tape *t, dt_module *m, dt_tensor *x, const dt_epilogue *epilogue,
                    dt_tensor **y);
    uint32_t activations; /* bit i: the epilogue supports the DT_ACT_... with number i */
    bool residual;        /* the epilogue supports a residual */
    /* y[i] = m[i](x[i]), i < n, without gradients. x[i] is the common input after the input hooks
     * of m[i]. NULL: modules of this type run one after the other. */
    void (*joint)(dt_tape *t, dt_module *const *m, int n, dt_tensor *const *x, dt_tensor **y);
} dt_fusion;

/* A type of module: its functions and properties. Constant; a module's own data is its state. */
typedef struct dt_module_type {
    const char *name; /* "linear" */
    /* Computes n_out outputs from n_in inputs; errors go on the tape. */
    void (*forward)(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out);
    /* Frees what the state points to; NULL: it owns nothing. */
    void (*free_state)(dt_module *m);
    dt_quantizable quantizable;
    bool samples; /* inputs are [N, ...] and quantized with a scale per sample, not per token */
    bool block;   /* a checkpointing unit: dt_recompute makes backward run it again */
    /* forward runs children several times: rounders use the inputs of every call, computed with the
     * prepared weight; false: only those of the first call */
    bool repeats;
    /* The number of groups where `weight` is [in, out / groups, ...] (transposed convolutions).
     * NULL or a result of 0: the rows of `weight` are outputs. */
    int64_t (*transposed_groups)(const dt_module *m);
    const dt_language *language; /* NULL: not a language model */
    const dt_fusion *fusion;     /* NULL: such layers are never fused */
    /* For an activation layer: its DT_ACT_... number, so that an epilogue can replace it; negative
     * if no number has its function. NULL: the type is not an activation. */
    int (*activation)(const dt_module *m);
} dt_module_type;

/* A module of type `type` with `state_bytes` zeroed bytes of state. Errors: NOMEM. */
DT_API dt_status dt_module_create(dt_ctx *ctx, const dt_module_type *type, size_t state_bytes,
                                  dt_module **out);
DT_API void *dt_module_state(dt_module *m);                         /* lent */
DT_API const dt_module_type *dt_module_type_of(const dt_module *m); /* lent */
/* Adds a parameter. Takes over the caller's reference to `x`, also on an error, and makes x a leaf
 * that requires a gradient. If x is NULL, returns the error of the call that failed to create it.
 * Errors: ARG (as above), DTYPE, STATE (x is lent by a tape; is a view that is not contiguous; or
 * is in the tree already, where it remains), NOMEM. */
DT_API dt_status dt_module_add_param(dt_module *m, const char *name, dt_tensor *x);
/* Adds a buffer: a tensor that is saved with the module and not trained. Otherwise as above. */
DT_API dt_status dt_module_add_buffer(dt_module *m, const char *name, dt_tensor *x);
/* Declares that the batch norm `norm` is the only reader of the output of the convolution `layer`:
 * dt_prepare then folds it into the layer's weight. For own composite modules; sequential and
 * family `layers` find such pairs. Errors: ARG (another kind of layer or norm, another number of
 * channels). */
DT_API dt_status dt_module_folds(dt_module *layer, dt_module *norm);
/* Ties two parameters: afterwards `path` and `to` name the same tensor, with one gradient, one
 * optimizer state, and one entry in files, under its first path. Errors: ARG (no such parameter),
 * SHAPE. */
DT_API dt_status dt_module_tie(dt_module *m, const char *path, const char *to);
/* The path under which x is saved: its first in the order of dt_module_visit, and the same pointer
 * that dt_module_visit passes. Lent until the tree changes; NULL if x is not in m. */
DT_API const char *dt_param_path(const dt_module *m, const dt_tensor *x);
/* Called with a module and its path; a status other than DT_OK ends the visit. */
typedef dt_status (*dt_visit_module)(void *user, const char *path, dt_module *m);
/* Called with each tensor of training state that belongs to the parameter at `path`
 * (dt_optimizer_visit, dt_freezer_visit). */
typedef dt_status (*dt_visit_slot)(void *user, const char *slot, const char *path, dt_tensor *x);
/* The same for the modules themselves, m first under "". */
DT_API dt_status dt_module_visit_modules(dt_module *m, dt_visit_module visit, void *user);
/* The same for parameters that require a gradient. */
DT_API int64_t dt_trained_count(dt_module *m);
/* dt_module_load of the state of another module with the same paths. */
DT_API dt_status dt_module_copy_state(dt_module *to, dt_module *from);

/* A module of a chain. */
typedef struct dt_link {
    dt_module *m;
    dt_tensor *residual; /* added to the module's output, of its shape; NULL: none */
} dt_link;

/* Runs modules in sequence: y = link[n-1](... link[0](x)), where link(x) = m(x) + residual.
 * Composite modules run their children with it. The result has the bits of dt_forward and dt_add
 * called one after the other, hooks included; adjacent modules are fused where their types allow.
 * Intermediate results are dropped as soon as the next one exists; x is kept. A module of a chain
 * must therefore return its input or a tensor that it made. The result is lent by the tape; NULL
 * with the error on the tape: ARG (n below 1), SHAPE (a residual), those of dt_forward. */
DT_API dt_tensor *dt_forward_chain(dt_tape *t, const dt_link *link, int64_t n, dt_tensor *x);
/* Runs n modules, 1...DT_MAX_OUT, on the same input: y[i] = m[i](x). The results have the bits of
 * dt_forward of each module; where their type allows and no gradient is recorded, one op computes
 * them all. y[i] are lent by the tape. Returns the tape's status. Errors: ARG (n, NULL), those of
 * dt_forward. */
DT_API dt_status dt_forward_each(dt_tape *t, dt_module *const *m, int n, dt_tensor *x,
                                 dt_tensor **y);

/* Activation checkpointing: with `on`, every block in m (dt_module_type.block: those of resnet, gpt
 * and llama) keeps only its inputs for backward, which runs the block again. This saves memory and
 * costs one more forward pass. Outputs and gradients have the same bits: the second run draws the
 * same random numbers and updates no running statistics or observers. It calls hooks again. Between
 * forward and backward neither parameters nor mode of a block may change (dt_backward fails with
 * STATE), and the module must not be freed. Returns the number of blocks. */
DT_API int64_t dt_recompute(dt_module *m, bool on);

/* ---- hooks ----------------------------------------------------------------------------------- */

/* Where a hook is called. */
typedef enum dt_site {
    DT_SITE_INPUT, /* called with each input of a module before its forward */
    DT_SITE_WEIGHT /* called with the weight that a layer is about to use */
} dt_site;

/* Returns the tensor that the module uses in place of x: x itself, or one lent by the tape; NULL
 * with the error on the tape. */
typedef dt_tensor *(*dt_hook)(void *user, dt_tape *t, dt_module *m, dt_tensor *x);

/* Adds a hook. Hooks run in the order in which they were added. `drop`, unless NULL, frees `user`
 * when the hook is removed. *id, unless id is NULL, identifies the hook for dt_unhook. On an error
 * the caller keeps `user`. Errors: ARG, NOMEM. */
DT_API dt_status dt_hook_add(dt_module *m, dt_site site, dt_hook hook, void *user,
                             void (*drop)(dt_ctx *ctx, void *user), uint64_t *id);
/* Removes a hook. Errors: ARG (no hook of that id), STATE (the module is running). */
DT_API dt_status dt_unhook(dt_module *m, uint64_t id);

/* The weight that a layer computes with: the parameter `weight`, with a folded batch norm or an
 * adapter applied, after the layer's weight hooks; NULL with the error on the tape. A layer's
 * forward reads its weight through this function only. Outside of that forward the error is STATE:
 * a module that used another module's weight would skip the hooks of that module's input, so it
 * must call dt_forward. */
DT_API dt_tensor *dt_module_weight(dt_tape *t, dt_module *m);

/* ---- layers ---------------------------------------------------------------------------------- */

/* The linear layers of `count` experts: dt_grouped_linear with grouped parameters weight [count,
 * out, in] and bias [count, out], both initialized uniform in +-1/sqrt(in). Inputs are x and, for
 * each row, the index of its expert: i32, as dt_routes.index. */
DT_API dt_status dt_grouped_linear_create(dt_ctx *ctx, int64_t count, int64_t in,
                                          int64_t out_features, bool bias, dt_module **out);

/* The router of a mixture of experts, one logit per expert: y = x W^T, weight [experts, in],
 * initialized as a linear layer's. Presets leave it in float; a rule of a recipe may quantize its
 * weight. */
DT_API dt_status dt_router_create(dt_ctx *ctx, int64_t in, int64_t experts, dt_module **out);

typedef struct dt_moe_layer {
    int64_t width, hidden;  /* extent of x and y; of an expert's hidden layer */
    int64_t experts, top_k; /* number of experts; experts per row of x */
    bool normalize;         /* the weights of a row's experts add up to 1 */
    int64_t capacity;       /* the most rows of an expert, as dt_moe_router; 0: no limit */
    bool bias;
} dt_moe_layer;

/* A mixture of experts in place of an mlp: y = sum over the top_k experts e of a row of
 * p_e w_down_e(swiglu(w_gate_e(x), w_up_e(x))), where dt_moe_router chooses the experts and their
 * weights p from the logits of `router`; x and y [..., width]. Children: `router`, and the grouped
 * linear layers `w_gate`, `w_up`, `w_down`. The optional second output is the router's logits,
 * [..., experts]. Errors: ARG (an extent below 1, top_k outside 1...experts); NOMEM; in forward
 * NUMERIC (a logit that is not finite). */
DT_API dt_status dt_moe_create(dt_ctx *ctx, const dt_moe_layer *layer, dt_module **out);
/* dt_conv_transpose2d with weight [in, out/groups, kernel], initialized with
 * n = out/groups * kernel[0] * kernel[1]. */
DT_API dt_status dt_conv_transpose2d_create(dt_ctx *ctx, const dt_conv_layer *layer,
                                            dt_module **out);
/* dt_conv1d with weight [out, in/groups, kernel[0]]. */
DT_API dt_status dt_conv1d_create(dt_ctx *ctx, const dt_conv_layer *layer, dt_module **out);
/* dt_conv_transpose1d with weight [in, out/groups, kernel[0]]. */
DT_API dt_status dt_conv_transpose1d_create(dt_ctx *ctx, const dt_conv_layer *layer,
                                            dt_module **out);
/* A stack of recurrent layers; start from dt_recurrent_defaults(). */
typedef struct dt_recurrent_layer {
    int64_t in, hidden; /* extent of x, and of h in each direction */
    int64_t layers;     /* each layer reads h of the one below; default 1 */
    bool bias;          /* default true */
    bool bidirectional; /* a second direction, backwards in time; its h follows the first one's */
    bool last;          /* y is h after the last step of each direction, in place of all steps */
    double dropout;     /* between layers, in training; default 0 */
    bool reverse;       /* the single direction goes backwards in time */
    bool relu;          /* rnn: relu in place of tanh */
    bool reset_before;  /* gru: the reset gate multiplies h before the product, not after it */
    bool cell;          /* lstm: y has one more step at the end, the final c */
} dt_recurrent_layer;

/* the defaults: one layer, with biases */
DT_API dt_recurrent_layer dt_recurrent_defaults(void);

/* An Elman network, h' = tanh(ih(x) + hh(h)): otherwise as dt_gru_create, with weights of `hidden`
 * rows. */
DT_API dt_status dt_rnn_create(dt_ctx *ctx, const dt_recurrent_layer *layer, dt_module **out);
/* A gated recurrent unit, dt_gru_cell in each time step: x [N, T, in] -> y [N, T, D hidden] or,
 * with `last`, [N, D hidden]; D is 1, bidirectional 2. An optional second input is the initial h,
 * [layers D, N, hidden] (default zeros), an optional second output the final h, likewise. Row i D +
 * d of both is layer i in direction d.
 *
 * The products are linear layers: children layers.i.ih of the input, of all steps at once, and
 * layers.i.hh of h, step by step; ih_reverse and hh_reverse of the second direction. Their weights
 * are [3 hidden, in] and [3 hidden, hidden], biases [3 hidden], all initialized uniform in
 * +-1/sqrt(hidden); PyTorch's weight_ih_l0 is layers.0.ih.weight, its bias_hh_l1_reverse
 * layers.1.hh_reverse.bias. A preset quantizes these products; gates and states are floats.
 *
 * With `reset_before`, as in ONNX without linear_before_reset and Keras without reset_after, n =
 * tanh(ih_n(x) + hn(r h)): hh has [2 hidden, hidden], hn (hn_reverse) [hidden, hidden].
 *
 * Errors: ARG (an extent below 1 or too large, dropout outside 0...1 or with one layer, an option
 * of another kind of layer, or both reverse and bidirectional), NOMEM; in forward SHAPE (of x or a
 * state, or no time step), ARG (the number of inputs or outputs). */
DT_API dt_status dt_gru_create(dt_ctx *ctx, const dt_recurrent_layer *layer, dt_module **out);
/* A long short-term memory, dt_lstm_cell in each time step, with weights of 4 hidden rows;
 * otherwise as above. Initial and final c are the third input and output. */
DT_API dt_status dt_lstm_create(dt_ctx *ctx, const dt_recurrent_layer *layer, dt_module **out);
/* dt_rms_norm over the last dimension; weight [width], initialized to 1. */
DT_API dt_status dt_rms_norm_create(dt_ctx *ctx, int64_t width, double eps, dt_module **out);
/* dt_batch_norm1d, over all dimensions but 1; weight, bias, running_mean, running_var
 * [channels]. */
DT_API dt_status dt_batch_norm1d_create(dt_ctx *ctx, int64_t channels, double momentum, double eps,
                                        dt_module **out);
/* dt_group_norm with `groups` groups of channels; weight and bias [channels], initialized to 1 and
 * 0. */
DT_API dt_status dt_group_norm_create(dt_ctx *ctx, int64_t groups, int64_t channels, double eps,
                                      dt_module **out);
/* Rounds to int8 codes and back: y = rne(clamp(x / scale, -128 - z, 127 - z)) * scale, in f64
 * without rounding; dx = dy where nothing was clamped, else 0. Errors: ARG (a scale that is not a
 * positive normal number up to 2^120, a zero point outside -128 ... 127), NOMEM. */
DT_API dt_status dt_fake_quant_create(dt_ctx *ctx, double scale, int64_t zero_point,
                                      dt_module **out);
/* dt_prelu; weight [channels], or [1] for all channels: its slopes, initialized to `init` (PyTorch:
 * 0.25). Presets and rules never quantize it. ARG if channels is below 1 or init is not finite. */
DT_API dt_status dt_prelu_create(dt_ctx *ctx, int64_t channels, double init, dt_module **out);
/* dt_softmax over dimension `dim`; negative ones count from the end. */
DT_API dt_status dt_softmax_create(dt_ctx *ctx, int64_t dim, dt_module **out);
/* dt_log_softmax over dimension `dim`; negative ones count from the end. */
DT_API dt_status dt_log_softmax_create(dt_ctx *ctx, int64_t dim, dt_module **out);

typedef struct dt_affine_options {
    dt_ints shape;    /* of weight and bias; broadcasts to an example: [channels, 1, 1] */
    bool scale, bias; /* which of them exist */
    bool trained;     /* they are parameters; false: buffers */
    /* A run that initializes weights sets scale and bias to the deviation and the mean of its
     * training targets, so that the previous layers compute numbers near 1; for buffers, with both
     * scale and bias. */
    bool of_targets;
} dt_affine_options;

/* y = x * weight + bias; initialized to 1 and 0. Errors: ARG (neither scale nor bias, an extent
 * below 1, of_targets with parameters or without both scale and bias); in forward SHAPE. */
DT_API dt_status dt_affine_create(dt_ctx *ctx, const dt_affine_options *options, dt_module **out);

typedef struct dt_mix_options {
    int64_t dim;     /* of the input, at least 1; negative ones count from the end */
    int64_t in, out; /* its extent in the input and in the result */
} dt_mix_options;

/* y[..., o, ...] = sum over i of weight[o, i] x[..., i, ...], along dimension `dim`; the weight
 * [out, in] is a buffer. Initialized so that output o is input floor(o in / out). Errors: ARG (an
 * extent below 1); in forward SHAPE. */
DT_API dt_status dt_mix_create(dt_ctx *ctx, const dt_mix_options *options, dt_module **out);
/* dt_avg_pool2d; otherwise as above. */
DT_API dt_status dt_avg_pool2d_create(dt_ctx *ctx, const dt_pool_options *options, dt_module **out);
/* dt_max_pool1d; uses the first number of each option. */
DT_API dt_status dt_max_pool1d_create(dt_ctx *ctx, const dt_pool_options *options, dt_module **out);
/* dt_avg_pool1d; otherwise as above. */
DT_API dt_status dt_avg_pool1d_create(dt_ctx *ctx, const dt_pool_options *options, dt_module **out);
/* dt_adaptive_avg_pool2d; ARG for an extent below 1. */
DT_API dt_status dt_adaptive_avg_pool2d_create(dt_ctx *ctx, int64_t height, int64_t width,
                                               dt_module **out);
/* dt_adaptive_avg_pool1d; ARG for a length below 1. */
DT_API dt_status dt_adaptive_avg_pool1d_create(dt_ctx *ctx, int64_t length, dt_module **out);
/* [N, C, L] to [N, C, 1]. */
DT_API dt_status dt_global_avg_pool1d_create(dt_ctx *ctx, dt_module **out);
/* [N, C, H, W] to [N, C, 1, 1]. */
DT_API dt_status dt_global_avg_pool2d_create(dt_ctx *ctx, dt_module **out);
/* [N, C, H, W] to [N, C, factor H, factor W], or [N, C, L] to [N, C, factor L], each pixel
 * repeated. */
DT_API dt_status dt_upsample_nearest_create(dt_ctx *ctx, int64_t factor, dt_module **out);

typedef struct dt_squeeze_excitation_layer {
    int64_t channels, squeeze; /* of x; between fc1 and fc2 */
    const char *activation;    /* after fc1, by its name in recipes; NULL: "relu" */
    const char *gate;          /* after fc2, likewise; NULL: "sigmoid" */
} dt_squeeze_excitation_layer;

/* y = x gate(fc2(activation(fc1(dt_global_avg_pool2d(x))))) for x [N, channels, H, W]. Children:
 * 1 x 1 convolutions `fc1` [squeeze, channels, 1, 1] and `fc2` [channels, squeeze, 1, 1] with
 * biases, and `activation` and `gate`. Errors: ARG (an extent below 1), CONFIG (the name of an
 * activation), NOMEM. */
DT_API dt_status dt_squeeze_excitation_create(dt_ctx *ctx, const dt_squeeze_excitation_layer *layer,
                                              dt_module **out);
/* The sum of 2...16 inputs, broadcast; run by dt_forward_n. */
DT_API dt_status dt_add_create(dt_ctx *ctx, dt_module **out);
/* The product of 2...16 inputs, broadcast: a gate [N, C, 1, 1] scales channels. */
DT_API dt_status dt_mul_create(dt_ctx *ctx, dt_module **out);
/* The first of two inputs minus the second, broadcast. */
DT_API dt_status dt_sub_create(dt_ctx *ctx, dt_module **out);
/* dt_concat of 2...16 inputs along `dim`. */
DT_API dt_status dt_concat_create(dt_ctx *ctx, int64_t dim, dt_module **out);
/* dt_slice. */
DT_API dt_status dt_slice_create(dt_ctx *ctx, const dt_slice_options *options, dt_module **out);
/* dt_pad. */
DT_API dt_status dt_pad_create(dt_ctx *ctx, const dt_pad_options *options, dt_module **out);
/* [N, ...] to [N, dims]; one of dims may be -1 and is inferred. ARG for too many extents. */
DT_API dt_status dt_reshape_create(dt_ctx *ctx, const dt_ints *dims, dt_module **out);
/* dt_permute; dims begin with 0, the batch, else ARG. */
DT_API dt_status dt_permute_create(dt_ctx *ctx, const dt_ints *dims, dt_module **out);

/* ---- families: whole models from options ----------------------------------------------------- */

/* The keys of dt_mlp_options. */
extern DT_API const dt_key dt_mlp_keys[];

/* The norm behind each convolution. */
typedef enum dt_norm_kind { DT_NORM_NONE, DT_NORM_BATCH, DT_NORM_GROUP } dt_norm_kind;

/* The names of dt_norm_kind, in its order, ended by NULL. */
extern DT_API const char *const dt_norm_names[];

/* Options of all norms of a convolutional network. */
typedef struct dt_norm_options {
    int64_t groups;  /* group norm: number of groups, which must divide the channels */
    double momentum; /* batch norm */
    double eps;
} dt_norm_options;

/* The most blocks of a convolutional network. */
#define DT_MAX_BLOCKS 32

typedef struct dt_cnn_block {
    int64_t out, kernel, stride, padding, groups; /* for the convolution */
    int norm;       /* dt_norm_kind; DT_NORM_NONE: the convolution has a bias */
    int activation; /* index into dt_activation_names */
    int pool;       /* 2 x 2 pooling: 0 none, 1 max, 2 average */
} dt_cnn_block;

typedef struct dt_cnn_options {
    dt_ints image; /* channels, height, width */
    int64_t n_blocks;
    dt_cnn_block blocks[DT_MAX_BLOCKS];
    int head; /* input of the head: 0 all values, flattened; 1 the mean of each channel */
    double dropout;
    int64_t outputs;
    dt_norm_options norms;
} dt_cnn_options;

/* The keys of dt_cnn_options. */
extern DT_API const dt_key dt_cnn_keys[];

/* For each block convolution -> norm -> activation -> pool, then linear `head`: [N, C, H, W] ->
 * [N, outputs]. Paths: blocks.i.conv, blocks.i.norm, head. Errors: ARG where an image becomes
 * smaller than a window. */
DT_API dt_status dt_cnn_create(dt_ctx *ctx, const dt_cnn_options *options, dt_module **out);

typedef struct dt_resnet_options {
    dt_ints image;  /* channels, height, width */
    int64_t depth;  /* 2 + 2 blocks; all stages have as many: with three widths 6 n + 2 */
    dt_ints widths; /* channels of each stage */
    int shortcut;   /* in blocks that change the shape: 0 pad, 1 conv */
    int norm;       /* dt_norm_kind */
    int64_t outputs;
    dt_norm_options norms;
} dt_resnet_options;

/* The keys of dt_resnet_options. */
extern DT_API const dt_key dt_resnet_keys[];

/* A residual network for small images: stem, stages of blocks, mean of each channel, linear
 * `head`: [N, C, H, W] -> [N, outputs]. Every stage but the first begins with stride 2. Paths:
 * stem.conv, stem.norm, blocks.i.conv1, .norm1, .conv2, .norm2, .down.conv, .down.norm, head. */
DT_API dt_status dt_resnet_create(dt_ctx *ctx, const dt_resnet_options *options, dt_module **out);

typedef struct dt_unet_options {
    dt_ints image;   /* channels, height, width */
    dt_ints widths;  /* channels of each level, the first at full size; each halves the size */
    dt_ints up;      /* transposed convolutions: kernel, stride, padding, output padding */
    int norm;        /* dt_norm_kind */
    int activation;  /* index into dt_activation_names */
    int64_t outputs; /* channels of the result */
    dt_norm_options norms;
} dt_unet_options;

/* The keys of dt_unet_options. */
extern DT_API const dt_key dt_unet_keys[];

/* An encoder whose levels are separated by 2 x 2 max pooling, and a decoder of transposed
 * convolutions; at each level the encoder's output is concatenated (skip connection):
 * [N, C, H, W] -> [N, outputs, H, W]. Paths: down.i.conv, down.i.norm, up.i.tconv, up.i.conv,
 * up.i.norm, out. Errors: ARG where the decoder does not restore the sizes of the encoder. */
DT_API dt_status dt_unet_create(dt_ctx *ctx, const dt_unet_options *options, dt_module **out);

typedef struct dt_gpt_options {
    int64_t vocab, context, layers, heads, width;
    int64_t hidden; /* of an mlp; 0: 4 width */
    bool bias;      /* in attention and mlps; the head has none, layer norms have one */
    bool tied;      /* the head uses the token embedding's weight */
    double dropout; /* on embeddings and on the outputs of attention and mlps */
    double eps;
    /* The share of a head's elements that rotary positions (DT_ROTARY_HALF) of base theta rotate,
     * in place of learned positions; 0: positions are learned. */
    double rotated, theta;
    bool parallel; /* x + attention(norm1(x)) + mlp(norm2(x)) (Pythia) */
    bool gelu_erf; /* mlps use exact gelu, not the tanh form */
} dt_gpt_options;

/* The keys of dt_gpt_options. */
extern DT_API const dt_key dt_gpt_keys[];

/* A decoder-only transformer with learned or rotary positions, layer norm and gelu: token ids, i32
 * [batch, tokens], to logits [batch, tokens, vocab]. Paths: tokens, positions (where they are
 * learned), blocks.i.norm1, .attn.q, .k, .v, .out, .norm2, .mlp.up, .down, norm, head; where tied,
 * head.weight is tokens.weight, one parameter. Errors: ARG (heads that do not divide the width, a
 * share of rotated elements that is not even); in forward SHAPE (more tokens than the context). */
DT_API dt_status dt_gpt_create(dt_ctx *ctx, const dt_gpt_options *options, dt_module **out);

typedef struct dt_rope_options {
    int scaling; /* DT_ROPE_... */
    double factor, low_freq_factor, high_freq_factor;
    int64_t original_context;
} dt_rope_options;

/* The rotation of Phi-3's long contexts [Ding et al. 2024, LongRoPE]: frequency j is divided by
 * short_factor[j], in texts of more than original_context tokens by long_factor[j], at each token;
 * cosines and sines are multiplied by the attention factor. */
typedef struct dt_longrope_options {
    bool given; /* false: none */
    int64_t original_context;
    dt_reals short_factor, long_factor; /* half of the head width each */
    /* 0: sqrt(1 + ln(context / original_context) / ln(original_context)), or 1 if the context is
     * not longer */
    double attention_factor;
} dt_longrope_options;

/* A mixture of experts in each block, in place of its mlp. */
typedef struct dt_moe_options {
    bool given;             /* false: none */
    int64_t experts, top_k; /* number of experts, each of size `hidden`; experts per token */
    bool normalize;         /* the weights of a token's experts add up to 1 */
    double balance, z;      /* factors of dt_load_balance_loss, dt_router_z_loss in dt_token_loss */
} dt_moe_options;

/* Differences between blocks and Llama's. */
enum { DT_BLOCK_NORMS_BEFORE, DT_BLOCK_NORMS_AFTER, DT_BLOCK_NORMS_BOTH };
enum { DT_GATE_SILU, DT_GATE_GELU_TANH };
typedef struct dt_block_options {
    bool given;         /* false: blocks are Llama's */
    int norms;          /* DT_BLOCK_NORMS_BEFORE: x + f(norm(x)); _AFTER: x + norm(f(x)) (OLMo 2);
                           _BOTH: x + norm(f(norm(x))) (Gemma 3) */
    bool norm_plus_one; /* norms multiply by 1 + weight (Gemma 3), those of q and k too */
    bool qk_norm_all;   /* norms of q and k are over all heads together (OLMo 2), not over each */
    int activation;     /* the gate of an mlp: DT_GATE_... */
    bool scaled_tokens; /* embeddings are multiplied by sqrt(width) (Gemma 3) */
    double query_width; /* scores are divided by the square root of this; 0: the head width */
    int64_t unrotated;  /* every n-th block has no rotation (SmolLM3); 0: all have one */
    /* a token attends to this many tokens, itself and those before it; 0: to all */
    int64_t window;
    int64_t full_every; /* with `window`: every n-th block has no window; 0: all have one */
    /* base of the rotation in blocks with a window, to which `rope` does not apply (Gemma 3); 0:
     * theta and rope, as in other blocks */
    double local_theta;
    /* the input of an mlp's output layer is multiplied by the Hadamard matrix of this order,
     * divided by its square root, this many adjacent values at a time: a power of two that divides
     * hidden (QuaRot); 0: it is not */
    int64_t hadamard;
} dt_block_options;

typedef struct dt_llama_options {
    int64_t vocab, context, layers, heads, width, hidden;
    int64_t kv_heads;   /* divides heads; 0: equal to heads */
    int64_t head_width; /* 0: width / heads */
    bool tied;          /* the head uses the token embedding's weight */
    bool qkv_bias, out_bias, mlp_bias;
    bool qk_norm; /* rms norm of each head of queries and keys, before the rotation */
    double theta, eps;
    dt_rope_options rope;
    dt_moe_options moe;
    dt_block_options block;
    dt_longrope_options longrope;
} dt_llama_options;

/* The keys of dt_llama_options. */
extern DT_API const dt_key dt_llama_keys[];

/* A decoder-only transformer with rms norm, rotary position embedding (DT_ROTARY_HALF),
 * grouped-query attention and gated mlps; input and output as dt_gpt_create. Hugging Face's paths:
 * model.embed_tokens,
 * model.layers.i.input_layernorm, .self_attn.q_proj, .k_proj, .v_proj, .o_proj, .q_norm, .k_norm,
 * .post_attention_layernorm, .mlp.gate_proj, .up_proj, .down_proj, model.norm, lm_head; with moe,
 * dt_moe_create as .moe.router, .w_gate, .w_up, .w_down in place of .mlp; with norms of outputs
 * .post_attention_layernorm and .post_feedforward_layernorm, and the norm of an mlp's input is then
 * .pre_feedforward_layernorm. Errors: ARG (heads that do not divide, an odd head width, top_k above
 * experts, settings of `block` that exclude each other, longrope beside rope.scaling or with other
 * numbers of factors); in forward SHAPE, as above. */
DT_API dt_status dt_llama_create(dt_ctx *ctx, const dt_llama_options *options, dt_module **out);

typedef struct dt_token_loss_options {
    dt_linear_cross_entropy_options head;
    dt_module *teacher; /* for distillation; in evaluation mode, without gradient; NULL: none */
} dt_token_loss_options;

/* defaults: dt_linear_cross_entropy_defaults(), no teacher */
DT_API dt_token_loss_options dt_token_loss_defaults(void);

/* Results per token, [batch, tokens]; lent by the tape. */
typedef struct dt_token_rows {
    dt_tensor *loss; /* f32: cross entropy; 0 where the label is ignored */
    dt_tensor *best; /* i32: the most likely token; -1 where the label is ignored */
} dt_token_rows;

/* The loss of a language model, a scalar: dt_linear_cross_entropy of the final hidden states, so
 * that the logits never exist as a whole. Hooks of the model and of its head run. ids and labels
 * are i32 [batch, tokens]; labels are already shifted (each is the token after the id at the same
 * position), and labels equal to ignore_index (-100) are ignored. *rows, unless rows is NULL, gets
 * results per token. In training mode the auxiliary loss of the routers is added; with
 * DT_REDUCE_SUM it is multiplied by the number of labels not ignored, so that it weighs the same
 * when a batch is split. Errors: ARG (no language model), SHAPE, those of the model and of the
 * op. */
DT_API dt_tensor *dt_token_loss(dt_tape *t, dt_module *m, dt_tensor *ids, dt_tensor *labels,
                                const dt_token_loss_options *options, dt_token_rows *rows);

/* The shape of one example (without the batch dimension), and the option that sets it. */
typedef struct dt_example {
    const char *key; /* name of the option: "sizes" */
    int item;        /* index into the option, where it is a list; negative: the whole option */
    /* 0: tokens, dims are vocabulary and context; 1: dims[0] values of any shape, unless `exact`;
     * 3: channels, height, width */
    int rank;
    int64_t dims[DT_MAX_RANK];
    bool exact; /* only this shape is accepted, no other with as many values */
} dt_example;

/* The shapes of the inputs and outputs of a model, in the order of dt_forward_n. */
typedef struct dt_model_sides {
    int n_in, n_out;
    const char *in_name[DT_MAX_SHAPES], *out_name[DT_MAX_OUT]; /* lent by the options, or NULL */
    dt_example in[DT_MAX_SHAPES], out[DT_MAX_OUT];
} dt_model_sides;

/* Called for a fault in the options of a model, with the path of the option and what is wrong. */
typedef void (*dt_option_fault)(void *user, const char *path, const char *text);

/* A family in the recipe: `model: {family: NAME, ...}`. */
typedef struct dt_family {
    const char *name;
    const char *text;   /* one sentence */
    const dt_key *keys; /* of its options */
    size_t options_size;
    dt_status (*create)(dt_ctx *ctx, const void *options, dt_module **out);
    /* Sets the shapes of input and output, for options that create accepts; NULL: not known.
     * Errors: NOMEM. */
    dt_status (*shapes)(dt_ctx *ctx, const void *options, dt_example *in, dt_example *out);
    /* Calls `fault` for everything that is wrong in the options and that the keys do not check;
     * NULL: create reports it. Errors: NOMEM. */
    dt_status (*check)(dt_ctx *ctx, const void *options, dt_option_fault fault, void *user);
    /* Like `shapes`, for a model with several inputs or outputs; NULL: it has one of each. */
    dt_status (*sides)(dt_ctx *ctx, const void *options, dt_model_sides *out);
} dt_family;

/* The i-th built-in family; NULL past the last. */
DT_API const dt_family *dt_family_at(int i);
/* Registers an own family for recipes and files that this context reads. It must stay valid until
 * the context is freed. `shapes` may be NULL: then data are not checked against the model before it
 * runs; `options_size` may be 0 for a family without keys. Errors: ARG (no name, keys or create; a
 * name that is taken), NOMEM. */
DT_API dt_status dt_family_register(dt_ctx *ctx, const dt_family *family);

/* ---- text from language models -------------------------------------------------------------- */

/* Generates text with a language model and a key-value cache: each call computes only its new
 * tokens. The model may be float, prepared, converted or frozen. The decoder borrows it until it is
 * freed; other passes may run it meanwhile. */
typedef struct dt_decoder dt_decoder;

/* Makes all attention layers of a language model that runs without a decoder read keys and values
 * as a decoder with this cache keeps them (DT_CACHE_..., f32: unchanged; experimental/ops.h), with
 * straight-through gradients. So a model is trained with the errors of the cache, and its logits
 * have the bits of the decoder's. Files do not store this. Errors: ARG (an unknown cache),
 * UNSUPPORTED (not a language model, or one without such layers). */
DT_API dt_status dt_set_cache(dt_module *m, int cache);

typedef struct dt_decoder_options {
    int64_t capacity; /* the most tokens; 0 (default): the model's context */
    int cache;        /* DT_CACHE_...; default f32 */
} dt_decoder_options;

/* The defaults of dt_decoder_create. */
DT_API dt_decoder_options dt_decoder_defaults(void);

/* An empty decoder; options NULL: the defaults. Puts the model into evaluation mode and runs one
 * token through it, to allocate the cache and the workspace for single tokens; later calls allocate
 * only a few KiB for attention every 512 tokens. Errors: ARG (no language model, a capacity above
 * the context, an unknown cache); those of the model; NOMEM. */
DT_API dt_status dt_decoder_create(dt_module *m, const dt_decoder_options *options,
                                   dt_decoder **out);
/* Frees the decoder. NULL is allowed. */
DT_API void dt_decoder_free(dt_decoder *d);
DT_API int64_t dt_decoder_length(const dt_decoder *d);   /* number of tokens fed */
DT_API int64_t dt_decoder_capacity(const dt_decoder *d); /* the most tokens */
/* Removes all tokens but the first `length`. ARG if the decoder has fewer. */
DT_API dt_status dt_decoder_rewind(dt_decoder *d, int64_t length);
/* Appends n tokens; *logits, f32 [vocab], become the logits after the last of them, lent until the
 * next call. The same tokens in more or fewer calls, or in one pass without a decoder, have logits
 * with the same bits, unless inputs are quantized with one dynamic scale for all tokens of a pass;
 * the bits do not depend on the number of threads, and are the same for the converted and the
 * prepared model. With a cache of codes this holds except for a pass without a decoder, whose keys
 * and values are floats. With longrope, the feed by which a text becomes longer than the original
 * context runs all its tokens again; so does the first feed after a rewind to a shorter text. On an
 * error nothing is appended. Errors: ARG (n below 1, ids outside the vocabulary); STATE (more
 * tokens than the capacity, a model in training mode); NUMERIC (keys or values for codes that are
 * not finite); those of the model. */
DT_API dt_status dt_decoder_feed(dt_decoder *d, const int32_t *ids, int64_t n, dt_tensor **logits);

typedef struct dt_sampling {
    double temperature; /* default 1; 0: always the most likely token */
    int64_t top_k;      /* sample from this many most likely tokens; default 0: all */
    double top_p;       /* then from the fewest tokens whose probabilities sum to this; default 1 */
    uint64_t seed;
} dt_sampling;

/* The defaults of dt_sample. */
DT_API dt_sampling dt_sampling_defaults(void);

/* Draws a token: *id = i with probability p_i = e^(logits_i / temperature) / sum, over the tokens
 * that top_k and top_p keep; of equal logits they keep the lower ids. Draw number k depends only on
 * (seed, k, logits). Errors: NUMERIC (a logit is NaN or +infinity, or all are -infinity), ARG
 * (options, k below 0), SHAPE (logits are not f32 [vocab]), NOMEM. */
DT_API dt_status dt_sample(dt_ctx *ctx, const dt_sampling *options, int64_t k,
                           const dt_tensor *logits, int32_t *id);

#ifdef __cplusplus
}
#endif
#endif
