/* nn.h: modules: a tree of parameters, buffers and children, addressed by path ("layers.0.weight").
 *
 * A module's forward is a scope of the tape: tensors that it made and did not return are dropped
 * when it returns. Layers name their parameters as PyTorch does (weight, bias, running_mean, ...).
 */
#ifndef DETENT_NN_H
#define DETENT_NN_H

#include <detent/detent.h>
#include <detent/keys.h>
#include <detent/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A family of models (experimental/nn.h). */
typedef struct dt_family dt_family;

/* The shape of one example: without the batch dimension. */
typedef struct dt_shape {
    int rank;
    int64_t dims[DT_MAX_RANK];
} dt_shape;

/* A node of the tree of modules: parameters, buffers, children and hooks. */
typedef struct dt_module dt_module;
/* Frees the module and its children and releases its parameters and buffers. A child is removed
 * from its parent first. NULL is allowed. A module that is running (a hook frees it) is not freed,
 * and a warning is logged. */
DT_API void dt_module_free(dt_module *m);
DT_API dt_ctx *dt_module_ctx(const dt_module *m); /* the context it was made with */

/* Adds a child. Takes ownership of `child`; on an error it is freed. `name` may not be empty,
 * contain a dot, or be taken. If child is NULL, returns the error of the call that failed to create
 * it. Errors: ARG, NOMEM; STATE if the child already has a parent, which then keeps it. */
DT_API dt_status dt_module_add(dt_module *m, const char *name, dt_module *child);

/* The module at `path` ("" is m itself), lent; NULL, with ARG on the context, if there is none. */
DT_API dt_module *dt_module_at(dt_module *m, const char *path);
/* The parameter or buffer at `path`, lent; NULL, with ARG on the context, if there is none. */
DT_API dt_tensor *dt_param(dt_module *m, const char *path);

/* Kinds of entries in a list of tensors. */
typedef enum dt_entry_kind { DT_PARAM, DT_BUFFER } dt_entry_kind;

/* Called for each parameter and buffer in order of registration, depth first; `path` is lent for
 * the call. A tied parameter is visited once per path. A status other than DT_OK ends the visit. */
typedef dt_status (*dt_visit_tensor)(void *user, const char *path, dt_tensor *x,
                                     dt_entry_kind kind);
/* Visits the parameters and buffers of m and of all modules below it. Returns the visitor's
 * status. */
DT_API dt_status dt_module_visit(dt_module *m, dt_visit_tensor visit, void *user);

/* Number of elements of all parameters; a tied one counts once. */
DT_API int64_t dt_param_count(dt_module *m);
/* Sets training mode (dropout is active, batch norm uses batch statistics) or evaluation mode, for
 * m and all modules below it. */
DT_API void dt_train(dt_module *m, bool on);
DT_API bool dt_is_training(const dt_module *m); /* the latest mode of dt_train; true at first */
/* Clears the gradients of all parameters. */
DT_API void dt_zero_grad(dt_module *m);

/* A tensor and its path in a model: an item of a state dict. */
typedef struct dt_named {
    const char *name;
    dt_tensor *x;
} dt_named;

/* Copies n tensors into the parameters and buffers of the same paths (into the master of a
 * FakeQuantTensor). A tied parameter is given under its first path only. All or nothing: names,
 * shapes and dtypes are checked before anything is written. Errors: ARG, listing missing and
 * unknown paths; SHAPE, DTYPE; STATE (a converted or frozen parameter, or one that a tape still
 * needs). */
DT_API dt_status dt_module_load(dt_module *m, const dt_named *from, int64_t n);

/* y = m(x) for a module with one input and one output. The result is lent by the tape; NULL with
 * the error on the tape. A network of family layers with several inputs takes them packed one after
 * the other, x [N, elements of all inputs]; one with several outputs returns y [N, elements of all
 * outputs] likewise. */
DT_API dt_tensor *dt_forward(dt_tape *t, dt_module *m, dt_tensor *x);
/* The same for several inputs and outputs; out[i] are lent by the tape. Returns the tape's status.
 * Errors: ARG (number of inputs or outputs, a NULL input), STATE (a type without forward), those of
 * the ops. */
DT_API dt_status dt_forward_n(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                              dt_tensor **out, int n_out);

/* ---- layers ---------------------------------------------------------------------------------- */

/* y = x W^T + b, weight [out, in], bias [out]; both initialized uniform in +-1/sqrt(in). */
DT_API dt_status dt_linear_create(dt_ctx *ctx, int64_t in, int64_t out_features, bool bias,
                                  dt_module **out);

typedef struct dt_conv_layer {
    int64_t in, out, kernel[2]; /* channels; rows and columns; 1d convolutions use kernel[0] only */
    bool bias;
    dt_conv_options conv; /* start from dt_conv_defaults() */
} dt_conv_layer;

/* dt_conv2d with weight [out, in/groups, kernel], bias [out]; both initialized uniform in
 * +-1/sqrt(n), n = in/groups * kernel[0] * kernel[1]. Errors of all four: ARG (an extent below 1,
 * groups that do not divide in and out, an option outside its range), NOMEM. */
DT_API dt_status dt_conv2d_create(dt_ctx *ctx, const dt_conv_layer *layer, dt_module **out);
/* y = weight[index]; weight [count, width] initialized normal(0, 1). */
DT_API dt_status dt_embedding_create(dt_ctx *ctx, int64_t count, int64_t width, dt_module **out);
/* dt_layer_norm over the last dimension; weight and bias [width], initialized to 1 and 0. */
DT_API dt_status dt_layer_norm_create(dt_ctx *ctx, int64_t width, double eps, dt_module **out);
/* The same for x [N, C, H, W]. */
DT_API dt_status dt_batch_norm2d_create(dt_ctx *ctx, int64_t channels, double momentum, double eps,
                                        dt_module **out);
/* In training each element becomes 0 with probability p, else x / (1 - p); in evaluation y = x. */
DT_API dt_status dt_dropout_create(dt_ctx *ctx, double p, dt_module **out);
/* "relu", "gelu", "gelu_tanh", "tanh", "sigmoid", "identity", "silu", "leaky_relu" (slope 0.01),
 * "relu6", "hardswish", "hardsigmoid", "elu" (alpha 1); CONFIG for another name. */
DT_API dt_status dt_activation_create(dt_ctx *ctx, const char *name, dt_module **out);
/* dt_max_pool2d; options NULL: its defaults. ARG for options that are invalid for every image
 * size. */
DT_API dt_status dt_max_pool2d_create(dt_ctx *ctx, const dt_pool_options *options, dt_module **out);

/* [N, ...] to [N, features]. */
DT_API dt_status dt_flatten_create(dt_ctx *ctx, dt_module **out);
/* Runs its children in the order of dt_module_add, each on the output of the one before. A batch
 * norm behind a convolution is folded into it under QAT (dt_module_folds). */
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

/* The names of the activations, in the order of DT_ACT_..., ended by NULL. */
extern DT_API const char *const dt_activation_names[];

/* linear -> norm -> activation -> dropout for each hidden size, then linear `head`. Inputs of any
 * rank above 1 are flattened to [batch, sizes[0]]. Paths: layers.i, norms.i, head. */
DT_API dt_status dt_mlp_create(dt_ctx *ctx, const dt_mlp_options *options, dt_module **out);
/* The family with this name, one of detent's or a registered one; NULL if there is none. */
DT_API const dt_family *dt_family_named(const dt_ctx *ctx, const char *name);

#ifdef __cplusplus
}
#endif

/* Includes the experimental part, unless the program defines DETENT_STABLE_ONLY. */
#ifndef DETENT_STABLE_ONLY
#include <detent/experimental/nn.h>
#endif
#endif
