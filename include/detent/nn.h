/* nn.h: modules: a tree of parameters, buffers and children, addressed by path ("layers.0.weight").
 *
 * A module's forward is a scope of the tape: what it made and did not return is dropped when it
 * returns. Layers hold their parameters under PyTorch's names (weight, bias, running_mean, ...).
 */
#ifndef DETENT_NN_H
#define DETENT_NN_H

#include <detent/detent.h>
#include <detent/keys.h>
#include <detent/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dt_module dt_module;

/* How presets and rules of qat.h treat a layer's `weight` and input. */
typedef enum dt_quantizable {
    DT_NOT_QUANTIZED = 0,
    DT_QUANTIZED_BY_PRESET,  /* selected by every preset: multiplies its input with `weight` */
    DT_QUANTIZED_WEIGHT_ONLY /* by a rule only, and never its input: embedding */
} dt_quantizable;

/* What a language model is beside a module that makes logits [batch, tokens, vocab] of token ids,
 * i32 [batch, tokens]. */
typedef struct dt_language {
    /* What the head takes: [batch, tokens, width], behind the last norm; NULL with the error on t.
     * *extra, unless extra is NULL, is a loss beside that of the labels, a scalar (what its routers
     * lose); NULL where there is none. */
    dt_tensor *(*hidden)(dt_tape *t, dt_module *m, dt_tensor *ids, dt_tensor **extra);
    dt_module *(*head)(dt_module *m); /* the linear layer that makes logits of it, lent */
    int64_t (*vocab)(const dt_module *m);
    int64_t (*context)(const dt_module *m); /* tokens at most */
} dt_language;

/* What may follow a layer in the same op:  y = activation(layer(x) + residual). */
typedef struct dt_epilogue {
    dt_tensor *residual; /* like the layer's output; NULL: none */
    int activation;      /* DT_ACT_... */
} dt_epilogue;

/* How layers of a type can be fused. dt_forward_chain and dt_forward_each read it; a layer's
 * forward never asks. A fused op has the bits of the modules run one after the other. */
typedef struct dt_fusion {
    /* The forward of one input and one output with an epilogue; NULL: none can follow. */
    void (*forward)(dt_tape *t, dt_module *m, dt_tensor *x, const dt_epilogue *epilogue,
                    dt_tensor **y);
    uint32_t activations; /* bit i: DT_ACT_ number i can be in the epilogue */
    bool residual;        /* a residual can be */
    /* y[i] = m[i](x[i]), i < n, where x[i] is one input after the hooks of m[i], in a pass that
     * records nothing; NULL: modules of this type run one after the other. */
    void (*joint)(dt_tape *t, dt_module *const *m, int n, dt_tensor *const *x, dt_tensor **y);
} dt_fusion;

/* What a kind of layer is: a table entry, no state. */
typedef struct dt_module_type {
    const char *name; /* "linear" */
    /* Computes n_out outputs from n_in inputs; on an error leaves it on the tape. */
    void (*forward)(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out);
    /* Frees what `state` holds beyond its own block; NULL: nothing. */
    void (*free_state)(dt_module *m);
    dt_quantizable quantizable;
    bool samples; /* inputs are [N, ...] and quantized with a scale per sample, not per token */
    bool block;   /* dt_recompute concerns it: a part of a model that is worth running twice */
    /* For a weight [in, out / groups, ...], as transposed convolutions have it, the number of
     * groups; NULL, or 0: the rows of `weight` are outputs. */
    int64_t (*transposed_groups)(const dt_module *m);
    const dt_language *language; /* NULL: no language model */
    const dt_fusion *fusion;     /* NULL: such layers are never fused */
    /* Of an activation: its DT_ACT_..., which an epilogue may have in its place; below 0: none.
     * NULL: no activation. */
    int (*activation)(const dt_module *m);
} dt_module_type;

/* A module of type `type` with `state_bytes` zeroed bytes of state. Errors: NOMEM. */
DT_API dt_status dt_module_create(dt_ctx *ctx, const dt_module_type *type, size_t state_bytes,
                                  dt_module **out);
/* Frees the module, its children, and its hold on parameters and buffers; a child leaves its parent
 * first. NULL is allowed. */
DT_API void dt_module_free(dt_module *m);
DT_API void *dt_module_state(dt_module *m);                         /* lent */
DT_API const dt_module_type *dt_module_type_of(const dt_module *m); /* lent */
DT_API dt_ctx *dt_module_ctx(const dt_module *m); /* the context it was made with */

/* Takes ownership of `child`, also on an error, where it is freed. `name` may not be empty, hold a
 * dot, or be taken. NULL child: the error of the call that made it is returned. Errors: ARG, NOMEM;
 * STATE where the child is in a tree already, which keeps it. */
DT_API dt_status dt_module_add(dt_module *m, const char *name, dt_module *child);
/* Takes over the caller's reference on `x`, also on an error, and makes it a leaf that requires a
 * gradient. NULL x: the error of the call that made it. Errors: ARG (as above), DTYPE, STATE (lent
 * by a tape), NOMEM. */
DT_API dt_status dt_module_add_param(dt_module *m, const char *name, dt_tensor *x);
/* The same for a tensor that is saved with the module and not trained. */
DT_API dt_status dt_module_add_buffer(dt_module *m, const char *name, dt_tensor *x);
/* Makes the parameter at `path` of `m` the same handle as the parameter at `to`: one gradient, one
 * optimizer state, one file entry under its first path. Errors: ARG (no such parameter), SHAPE. */
DT_API dt_status dt_module_tie(dt_module *m, const char *path, const char *to);

/* The module at `path` ("" is m itself), lent; NULL, with ARG on the context, where there is
 * none. */
DT_API dt_module *dt_module_at(dt_module *m, const char *path);
/* The parameter or buffer at `path`, lent; NULL with ARG where there is none. */
DT_API dt_tensor *dt_param(dt_module *m, const char *path);
/* The first path of a parameter or buffer in order of visiting: the one it is saved under, and the
 * very pointer that dt_module_visit hands out. Lent until the tree changes; NULL where x is not
 * m's. */
DT_API const char *dt_param_path(const dt_module *m, const dt_tensor *x);

typedef enum dt_entry_kind { DT_PARAM, DT_BUFFER } dt_entry_kind;

/* Called for each parameter and buffer in order of registration, depth first; `path` is lent for
 * the call. A tied parameter comes once for every path. A status other than DT_OK stops the
 * walk. */
typedef dt_status (*dt_visit_tensor)(void *user, const char *path, dt_tensor *x,
                                     dt_entry_kind kind);
/* Visits the parameters and buffers of m and of all modules below it. Returns the visitor's
 * status. */
DT_API dt_status dt_module_visit(dt_module *m, dt_visit_tensor visit, void *user);
/* The same for the modules themselves, m first under "". */
typedef dt_status (*dt_visit_module)(void *user, const char *path, dt_module *m);
DT_API dt_status dt_module_visit_modules(dt_module *m, dt_visit_module visit, void *user);

/* Number of elements of all parameters; a tied one counts once. */
DT_API int64_t dt_param_count(dt_module *m);
/* The same of those that require a gradient: what training changes. */
DT_API int64_t dt_trained_count(dt_module *m);
/* Training mode (dropout drops, batch norm uses the batch) or evaluation, for m and all below. */
DT_API void dt_train(dt_module *m, bool on);
DT_API bool dt_is_training(const dt_module *m); /* what dt_train set last; true at first */
/* Marks every gradient empty. */
DT_API void dt_zero_grad(dt_module *m);

/* A tensor and its name in a state. */
typedef struct dt_named {
    const char *name;
    dt_tensor *x;
} dt_named;

/* Copies n tensors into the parameters and buffers of these paths; for a wrapper into its master. A
 * tied parameter wants its first path alone. All or nothing: every name, shape and dtype is checked
 * first. Errors: ARG, naming what is missing and what is not of this model; SHAPE, DTYPE; STATE (a
 * converted or frozen parameter, one that a tape still needs). */
DT_API dt_status dt_module_load(dt_module *m, const dt_named *from, int64_t n);
/* The same from the state of another module with the same paths. */
DT_API dt_status dt_module_copy_state(dt_module *to, dt_module *from);

/* Runs the module; the result is lent by the tape, or NULL with the error on the tape. One input
 * and one output: */
DT_API dt_tensor *dt_forward(dt_tape *t, dt_module *m, dt_tensor *x);
/* The one form behind it. Every out survives the module's scope. Returns the tape's status. Errors:
 * ARG (numbers of inputs and outputs, a NULL among them), STATE (a type without forward), those of
 * the ops. */
DT_API dt_status dt_forward_n(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                              dt_tensor **out, int n_out);

/* A module of a chain. */
typedef struct dt_link {
    dt_module *m;
    dt_tensor *residual; /* added to its output; NULL: nothing is */
} dt_link;

/* y = link[n-1](... link[0](x)), each link(x) = m(x) + residual: the bits of dt_forward and dt_add
 * one after the other, hooks included, in fewer ops where the modules' types can be fused. Results
 * between are dropped as soon as the next one is there; x stays. The way for a composite module to
 * run its parts. Lent by the tape; NULL with the error on it: ARG (n below 1), those of
 * dt_forward. */
DT_API dt_tensor *dt_forward_chain(dt_tape *t, const dt_link *link, int64_t n, dt_tensor *x);
/* y[i] = m[i](x) for the n modules, 1...DT_MAX_OUT, that read the same input: the bits of
 * dt_forward of each, as one op where their type can be fused and the tape records nothing. Every
 * y[i] is lent by the tape. Returns the tape's status. Errors: ARG (n), those of dt_forward. */
DT_API dt_status dt_forward_each(dt_tape *t, dt_module *const *m, int n, dt_tensor *x,
                                 dt_tensor **y);

/* With `on`, every block in m (dt_module_type.block: those of resnet, gpt and llama) keeps nothing
 * but its inputs for backward, which runs it again: less memory for one more forward pass. Outputs
 * and gradients have the same bits; nothing is drawn, observed or averaged twice. In the second run
 * hooks are called again, and the block must compute what it did, so between forward and backward
 * neither its parameters nor its mode may change: STATE in dt_backward. The module must live until
 * then. Returns the number of blocks. */
DT_API int64_t dt_recompute(dt_module *m, bool on);

/* ---- hooks ----------------------------------------------------------------------------------- */

typedef enum dt_site {
    DT_SITE_INPUT, /* called with each input of a module before its forward */
    DT_SITE_WEIGHT /* called with the weight that a layer is about to use */
} dt_site;

/* Returns what the module shall use in place of x (x itself, or a tensor lent by the tape); NULL
 * with the error on the tape. */
typedef dt_tensor *(*dt_hook)(void *user, dt_tape *t, dt_module *m, dt_tensor *x);

/* Hooks run in the order in which they were added. `drop` (or NULL) frees `user` with the hook.
 * *id names the hook for dt_unhook (NULL: nobody asks). On an error `user` stays the caller's.
 * Errors: ARG, NOMEM. */
DT_API dt_status dt_hook_add(dt_module *m, dt_site site, dt_hook hook, void *user,
                             void (*drop)(dt_ctx *ctx, void *user), uint64_t *id);
/* Removes a hook. ARG where there is none of that id, STATE while the module runs. */
DT_API dt_status dt_unhook(dt_module *m, uint64_t id);

/* The weight a layer computes with: the parameter `weight`, or what the layer derives from it (a
 * norm folded in, an adapter), after its `weight` hooks; NULL with the error on the tape. For the
 * forward of the layer itself, which does not read `weight` in another way. STATE elsewhere: a
 * module that computes with the weight of another one would pass by the hooks of its input; it
 * calls dt_forward. */
DT_API dt_tensor *dt_module_weight(dt_tape *t, dt_module *m);

/* ---- layers ---------------------------------------------------------------------------------- */

/* y = x W^T + b, weight [out, in], bias [out]; both drawn uniform in +-1/sqrt(in). */
DT_API dt_status dt_linear_create(dt_ctx *ctx, int64_t in, int64_t out_features, bool bias,
                                  dt_module **out);
/* Linear layers of `count` experts, of which each row takes one: dt_grouped_linear with grouped
 * parameters weight [count, out, in] and bias [count, out], both drawn uniform in +-1/sqrt(in).
 * Inputs are x and the index of experts, i32, as dt_routes has it. */
DT_API dt_status dt_grouped_linear_create(dt_ctx *ctx, int64_t count, int64_t in,
                                          int64_t out_features, bool bias, dt_module **out);

/* A logit an expert: y = x W^T, weight [experts, in], drawn as a linear layer's. Presets leave it
 * in float, a rule may quantize its weight. */
DT_API dt_status dt_router_create(dt_ctx *ctx, int64_t in, int64_t experts, dt_module **out);

typedef struct dt_moe_layer {
    int64_t width, hidden;  /* of x and y; inside an expert */
    int64_t experts, top_k; /* that there are; that each row of x takes */
    bool normalize;         /* the weights of a row's experts add up to 1 */
    int64_t capacity;       /* the most rows that an expert takes, as dt_moe_router; 0: all */
    bool bias;
} dt_moe_layer;

/* A mixture of experts in place of an mlp: y = sum over the top_k experts e of a row that `router`
 * chooses of p_e w_down_e(swiglu(w_gate_e(x), w_up_e(x))), p by dt_moe_router; x and y [...,
 * width]. Children: `router`, and `w_gate`, `w_up`, `w_down`, grouped linear layers. A second
 * output, where asked for, are the router's logits, [..., experts]. Errors: ARG (an extent below 1,
 * top_k outside 1...experts); NOMEM; running it: NUMERIC (a logit that is not finite). */
DT_API dt_status dt_moe_create(dt_ctx *ctx, const dt_moe_layer *layer, dt_module **out);

typedef struct dt_conv_layer {
    int64_t in, out, kernel[2]; /* channels; rows and columns, of signals kernel[0] alone */
    bool bias;
    dt_conv_options conv; /* start from dt_conv_defaults() */
} dt_conv_layer;

/* dt_conv2d with weight [out, in/groups, kernel], bias [out]; both drawn uniform in +-1/sqrt(n), n
 * = in/groups * kernel[0] * kernel[1]. Errors of all four: ARG (an extent below 1, groups that do
 * not divide in and out, an option outside its range), NOMEM. */
DT_API dt_status dt_conv2d_create(dt_ctx *ctx, const dt_conv_layer *layer, dt_module **out);
/* dt_conv_transpose2d with weight [in, out/groups, kernel], drawn with n = out/groups * kernel[0] *
 * kernel[1]. */
DT_API dt_status dt_conv_transpose2d_create(dt_ctx *ctx, const dt_conv_layer *layer,
                                            dt_module **out);
/* dt_conv1d with weight [out, in/groups, kernel[0]]. */
DT_API dt_status dt_conv1d_create(dt_ctx *ctx, const dt_conv_layer *layer, dt_module **out);
/* dt_conv_transpose1d with weight [in, out/groups, kernel[0]]. */
DT_API dt_status dt_conv_transpose1d_create(dt_ctx *ctx, const dt_conv_layer *layer,
                                            dt_module **out);
/* y = table[index]; weight [count, width] drawn normal(0, 1). */
DT_API dt_status dt_embedding_create(dt_ctx *ctx, int64_t count, int64_t width, dt_module **out);
/* Over the last dimension; weight 1 and bias 0 of [width]. */
DT_API dt_status dt_layer_norm_create(dt_ctx *ctx, int64_t width, double eps, dt_module **out);
/* dt_rms_norm over the last dimension; weight 1 of [width]. */
DT_API dt_status dt_rms_norm_create(dt_ctx *ctx, int64_t width, double eps, dt_module **out);
/* Over all but dimension 1; weight, bias, running_mean, running_var of [channels]. */
DT_API dt_status dt_batch_norm1d_create(dt_ctx *ctx, int64_t channels, double momentum, double eps,
                                        dt_module **out);
/* The same of [N, C, H, W]. */
DT_API dt_status dt_batch_norm2d_create(dt_ctx *ctx, int64_t channels, double momentum, double eps,
                                        dt_module **out);
/* Over each of `groups` groups of channels of each image; weight 1 and bias 0 of [channels]. */
DT_API dt_status dt_group_norm_create(dt_ctx *ctx, int64_t groups, int64_t channels, double eps,
                                      dt_module **out);
/* In training each element is 0 with probability p, else x / (1 - p). */
DT_API dt_status dt_dropout_create(dt_ctx *ctx, double p, dt_module **out);
/* "relu", "gelu", "gelu_tanh", "tanh", "sigmoid", "identity", "silu", "leaky_relu" (slope 0.01);
 * CONFIG for another name. */
DT_API dt_status dt_activation_create(dt_ctx *ctx, const char *name, dt_module **out);
/* dt_max_pool2d; NULL: its defaults. ARG for an option that no image suits. */
DT_API dt_status dt_max_pool2d_create(dt_ctx *ctx, const dt_pool_options *options, dt_module **out);
/* dt_avg_pool2d, alike. */
DT_API dt_status dt_avg_pool2d_create(dt_ctx *ctx, const dt_pool_options *options, dt_module **out);
/* [N, C, H, W] to [N, C, 1, 1]. */
DT_API dt_status dt_global_avg_pool2d_create(dt_ctx *ctx, dt_module **out);
/* [N, C, H, W] to [N, C, factor H, factor W], each pixel repeated. */
DT_API dt_status dt_upsample_nearest_create(dt_ctx *ctx, int64_t factor, dt_module **out);
/* [N, ...] to [N, features]. */
DT_API dt_status dt_flatten_create(dt_ctx *ctx, dt_module **out);
/* Children in order of dt_module_add, each fed with the one before. */
DT_API dt_status dt_sequential_create(dt_ctx *ctx, dt_module **out);

/* ---- families: whole models from options ----------------------------------------------------- */

typedef struct dt_mlp_options {
    dt_ints sizes;  /* input, hidden ..., output: at least two */
    int activation; /* index into dt_activation_names */
    int norm;       /* 0 none, 1 batch, 2 layer */
    double dropout;
    bool bias;       /* of hidden layers; the head always has one */
    double momentum; /* of batch norm */
    double eps;
} dt_mlp_options;

extern DT_API const char *const dt_activation_names[];
extern DT_API const dt_key dt_mlp_keys[];

/* linear -> norm -> activation -> dropout for each hidden size, then linear `head`. Inputs of any
 * rank above 1 are flattened to [batch, sizes[0]]. Paths: layers.i, norms.i, head. */
DT_API dt_status dt_mlp_create(dt_ctx *ctx, const dt_mlp_options *options, dt_module **out);

typedef enum dt_norm_kind { DT_NORM_NONE, DT_NORM_BATCH, DT_NORM_GROUP } dt_norm_kind;

extern DT_API const char *const dt_norm_names[];

/* Of all norms of a convolutional network. */
typedef struct dt_norm_options {
    int64_t groups;  /* of group norm, which the channels must be a multiple of */
    double momentum; /* of batch norm */
    double eps;
} dt_norm_options;

#define DT_MAX_BLOCKS 32

typedef struct dt_cnn_block {
    int64_t out, kernel, stride, padding, groups; /* of the convolution */
    int norm;       /* dt_norm_kind; DT_NORM_NONE: the convolution has a bias */
    int activation; /* index into dt_activation_names */
    int pool;       /* of 2 x 2 pixels: 0 none, 1 max, 2 average */
} dt_cnn_block;

typedef struct dt_cnn_options {
    dt_ints image; /* channels, height, width */
    int64_t n_blocks;
    dt_cnn_block blocks[DT_MAX_BLOCKS];
    int head; /* what it takes: 0 every value, 1 the mean of each channel */
    double dropout;
    int64_t outputs;
    dt_norm_options norms;
} dt_cnn_options;

extern DT_API const dt_key dt_cnn_keys[];

/* For each block convolution -> norm -> activation -> pool, then linear `head`: [N, C, H, W] ->
 * [N, outputs]. Paths: blocks.i.conv, blocks.i.norm, head. Errors: ARG where an image ends smaller
 * than a window. */
DT_API dt_status dt_cnn_create(dt_ctx *ctx, const dt_cnn_options *options, dt_module **out);

typedef struct dt_resnet_options {
    dt_ints image;  /* channels, height, width */
    int64_t depth;  /* 2 + twice as many as there are blocks: with three widths 6 n + 2 */
    dt_ints widths; /* channels of each stage */
    int shortcut;   /* where a block changes the shape: 0 pad, 1 conv */
    int norm;       /* dt_norm_kind */
    int64_t outputs;
    dt_norm_options norms;
} dt_resnet_options;

extern DT_API const dt_key dt_resnet_keys[];

/* The residual networks for small images: stem, stages of blocks, mean of each channel, linear
 * `head`: [N, C, H, W] -> [N, outputs]. Every stage but the first begins with stride 2. Paths:
 * stem.conv, stem.norm, blocks.i.conv1, .norm1, .conv2, .norm2, .down.conv, .down.norm, head. */
DT_API dt_status dt_resnet_create(dt_ctx *ctx, const dt_resnet_options *options, dt_module **out);

typedef struct dt_unet_options {
    dt_ints image;   /* channels, height, width */
    dt_ints widths;  /* channels of each level, the first at full size; each halves the size */
    dt_ints up;      /* of the transposed convolutions: kernel, stride, padding, output padding */
    int norm;        /* dt_norm_kind */
    int activation;  /* index into dt_activation_names */
    int64_t outputs; /* channels of the result */
    dt_norm_options norms;
} dt_unet_options;

extern DT_API const dt_key dt_unet_keys[];

/* Down through the levels with 2 x 2 max pooling between, up again by transposed convolutions, at
 * each level beside what came down: [N, C, H, W] -> [N, outputs, H, W]. Paths: down.i.conv,
 * down.i.norm, up.i.tconv, up.i.conv, up.i.norm, out. Errors: ARG where sizes do not come back. */
DT_API dt_status dt_unet_create(dt_ctx *ctx, const dt_unet_options *options, dt_module **out);

typedef struct dt_gpt_options {
    int64_t vocab, context, layers, heads, width;
    int64_t hidden; /* of an mlp; 0: 4 width */
    bool bias;      /* of attention and mlps; the head has none, layer norms have one */
    bool tied;      /* the head computes with the table of tokens */
    double dropout; /* of embeddings, and of what attention and mlps add */
    double eps;
} dt_gpt_options;

extern DT_API const dt_key dt_gpt_keys[];

/* A decoder-only transformer with learned positions, layer norm and gelu_tanh: token ids, i32
 * [batch, tokens], to logits [batch, tokens, vocab]. Paths: tokens, positions, blocks.i.norm1,
 * .attn.q, .k, .v, .out, .norm2, .mlp.up, .down, norm, head; where tied, head.weight is
 * tokens.weight, one parameter. Errors: ARG (heads that do not divide the width); running it: SHAPE
 * (more tokens than the context). */
DT_API dt_status dt_gpt_create(dt_ctx *ctx, const dt_gpt_options *options, dt_module **out);

typedef struct dt_rope_options {
    int scaling; /* DT_ROPE_... */
    double factor, low_freq_factor, high_freq_factor;
    int64_t original_context;
} dt_rope_options;

/* A mixture of experts in each block, in place of its mlp. */
typedef struct dt_moe_options {
    bool given;             /* false: none */
    int64_t experts, top_k; /* of which each is as wide inside as `hidden` says */
    bool normalize;         /* the weights of a token's experts add up to 1 */
    double balance, z;      /* factors of dt_load_balance_loss, dt_router_z_loss in dt_token_loss */
} dt_moe_options;

typedef struct dt_llama_options {
    int64_t vocab, context, layers, heads, width, hidden;
    int64_t kv_heads;   /* 0: as many as heads, which they divide */
    int64_t head_width; /* 0: width / heads */
    bool tied;          /* the head computes with the table of tokens */
    bool qkv_bias, out_bias, mlp_bias;
    bool qk_norm; /* rms norm of each head of queries and keys, before the rotation */
    double theta, eps;
    dt_rope_options rope;
    dt_moe_options moe;
} dt_llama_options;

extern DT_API const dt_key dt_llama_keys[];

/* A decoder-only transformer with rms norm, rotated queries and keys (DT_ROTARY_HALF), grouped
 * queries and gated mlps; in and out as dt_gpt_create. Paths as Hugging Face's: model.embed_tokens,
 * model.layers.i.input_layernorm, .self_attn.q_proj, .k_proj, .v_proj, .o_proj, .q_norm, .k_norm,
 * .post_attention_layernorm, .mlp.gate_proj, .up_proj, .down_proj, model.norm, lm_head; with moe,
 * dt_moe_create as .moe.router, .w_gate, .w_up, .w_down in place of .mlp. Errors: ARG (heads that
 * do not divide, an odd head width, more experts a token than there are); running it: SHAPE, as
 * above. */
DT_API dt_status dt_llama_create(dt_ctx *ctx, const dt_llama_options *options, dt_module **out);

typedef struct dt_token_loss_options {
    dt_linear_cross_entropy_options head;
    dt_module
        *teacher; /* of distillation, which runs in evaluation and gets no gradient; NULL: none */
} dt_token_loss_options;

/* dt_linear_cross_entropy_defaults(), no teacher */
DT_API dt_token_loss_options dt_token_loss_defaults(void);

/* Of each token, [batch, tokens]; lent by the tape. */
typedef struct dt_token_rows {
    dt_tensor *loss; /* f32: its cross entropy; 0 where the label does not count */
    dt_tensor *best; /* i32: the likeliest token; -1 there */
} dt_token_rows;

/* The loss of a language model, a scalar: dt_linear_cross_entropy of what its head takes, so that
 * the logits never exist as a whole; with the hooks of the model and of its head. ids and labels
 * i32 [batch, tokens]: a label is the token after the id in its place, and those equal to
 * ignore_index (-100) do not count. rows NULL: nobody asks. Errors: ARG (no language model), SHAPE,
 * those of the model and of the op. In training mode what the routers of a mixture of experts lose
 * is added; beside a sum it is multiplied by the labels that count, so that parts of a batch add up
 * by them. */
DT_API dt_tensor *dt_token_loss(dt_tape *t, dt_module *m, dt_tensor *ids, dt_tensor *labels,
                                const dt_token_loss_options *options, dt_token_rows *rows);

/* The shape of one example, and the option that sets it. */
typedef struct dt_example {
    const char *key; /* "sizes" */
    int item;        /* of a list; below 0: the whole */
    int rank;        /* 0: tokens, vocabulary and context; 1: so many values of whatever shape;
                      * 3: channels, height, width */
    int64_t dims[3];
} dt_example;

/* A family in the recipe: `model: {family: NAME, ...}`. */
typedef struct dt_family {
    const char *name;
    const char *text;   /* one sentence */
    const dt_key *keys; /* of its options */
    size_t options_size;
    dt_status (*create)(dt_ctx *ctx, const void *options, dt_module **out);
    /* What goes in and what comes out, of options with which create succeeds. */
    void (*shapes)(const void *options, dt_example *in, dt_example *out);
} dt_family;

/* The i-th family; NULL past the last. */
DT_API const dt_family *dt_family_at(int i);

/* ---- text from language models -------------------------------------------------------------- */

/* What a language model has read so far: the keys and values of its tokens, so that one more token
 * costs one token. The model may be float, prepared, converted or frozen, and is lent until the
 * decoder is freed; other passes may run it meanwhile. */
typedef struct dt_decoder dt_decoder;

/* A decoder for `capacity` tokens (0: the model's context), at first none. The model is put into
 * evaluation mode, and one token runs through it: the cache and what feeding single tokens takes
 * are allocated here, but for a few KiB of attention's each 512 tokens. Errors: ARG (no language
 * model, a capacity above the context); those of the model; NOMEM. */
DT_API dt_status dt_decoder_create(dt_module *m, int64_t capacity, dt_decoder **out);
/* Frees the decoder. NULL is allowed. */
DT_API void dt_decoder_free(dt_decoder *d);
DT_API int64_t dt_decoder_length(const dt_decoder *d);   /* tokens that were fed */
DT_API int64_t dt_decoder_capacity(const dt_decoder *d); /* tokens that fit */
/* Forgets all tokens but the first `length`. ARG where so many are not there. */
DT_API dt_status dt_decoder_rewind(dt_decoder *d, int64_t length);
/* Appends n tokens; *logits, f32 [vocab], are those after the last of them, lent until the next
 * call. In how many calls tokens are fed changes no more than rounding does (where a model's inputs
 * have one dynamic scale for all tokens of a pass: more); equal calls give equal bits on any number
 * of threads, and a converted model those of the prepared one. On an error nothing was appended.
 * Errors: ARG (n below 1, ids outside the vocabulary); STATE (more tokens than fit, a model in
 * training mode); those of the model. */
DT_API dt_status dt_decoder_feed(dt_decoder *d, const int32_t *ids, int64_t n, dt_tensor **logits);

typedef struct dt_sampling {
    double temperature; /* default 1; 0: the most likely token, always */
    int64_t top_k;      /* only so many of the most likely; default 0: all */
    double top_p;       /* of those the fewest that have this share; default 1 */
    uint64_t seed;
} dt_sampling;

/* The defaults of dt_sample. */
DT_API dt_sampling dt_sampling_defaults(void);

/* Draws a token: *id = i with p_i = e^(logits_i / temperature) / sum, over what top_k and top_p
 * leave. Of equal logits the lower id is the more likely. Draw number k depends on (seed, k,
 * logits) alone. Errors: NUMERIC (a logit is NaN or +infinity, or all are -infinity), ARG (options,
 * k below 0), SHAPE (logits are f32 [vocab]), NOMEM. */
DT_API dt_status dt_sample(dt_ctx *ctx, const dt_sampling *options, int64_t k,
                           const dt_tensor *logits, int32_t *id);

#ifdef __cplusplus
}
#endif
#endif
