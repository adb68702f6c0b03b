/* experimental/qat.h: own schemes, learned scales, settings of prepared models, adapters. */
#ifndef DETENT_EXPERIMENTAL_QAT_H
#define DETENT_EXPERIMENTAL_QAT_H

#include <detent/qat.h>
#include <detent/experimental/layers.h>
#include <detent/experimental/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- quantization specs ------------------------------------------------------------------- */

/* An own scheme. `scale` sets the scale of each of n blocks from its least and its greatest value,
 * lo[i] <= 0 <= hi[i]; codes are qmin ... qmax, the zero point is 0. It must give the same scales
 * for the same ranges, on any thread; they are then limited, and rounded to the spec's scale_dtype.
 * For weights, and for activations with a static range. */
typedef struct dt_own_scheme {
    const char *name;
    const char *text; /* one sentence */
    void (*scale)(int64_t n, const float *lo, const float *hi, int qmin, int qmax, float *scale);
} dt_own_scheme;

/* Registers a scheme with the context by its name; the context borrows it as long as it and its
 * modules live. Errors: ARG (no name or function, or the name is taken), NOMEM. */
DT_API dt_status dt_scheme_register(dt_ctx *ctx, const dt_own_scheme *scheme);
/* The registered scheme of this name; NULL: none. */
DT_API const dt_own_scheme *dt_scheme_named(const dt_ctx *ctx, const char *name);

/* ---- the FakeQuantTensor ------------------------------------------------------------------- */

/* *out = a learnable scale for x: F32 [1], or one for each row of x with DT_PER_CHANNEL, with the
 * initial value 2 mean|x| / sqrt(qmax). It requires a gradient, has no weight decay, and optimizers
 * keep it positive. `quant` must have the range DT_RANGE_LEARNED. The caller frees the scale, or
 * gives it to a module. Errors: CONFIG (settings), DTYPE, NUMERIC (a value that is not finite),
 * NOMEM. */
DT_API dt_status dt_learned_scale(dt_tensor *x, const dt_quant_spec *quant, dt_tensor **out);

/* dt_fake_quant with a learned scale [LSQ]. Backward masks dx where a code was clipped, and the
 * gradient of `scale` is
 *     ds = sum dy (in range ? rne(v) - v : the bound) / sqrt(n qmax),  v = x / scale,
 * n being the number of elements of x that share a scale. For backward, codes and a residual of one
 * byte per element are kept for an activation, or x itself (DT_SAVED_EXACT). Nothing is kept for a
 * weight: if x or `scale` is written before dt_backward, dt_backward fails with STATE. */
DT_API dt_tensor *dt_fake_quant_learned(dt_tape *t, dt_tensor *x, const dt_quant_spec *quant,
                                        dt_tensor *scale);
DT_API bool dt_is_packed(const dt_tensor *x); /* converted */
/* Turns fake quantization of one parameter on or off. STATE unless it is a FakeQuantTensor. */
DT_API dt_status dt_fake_quant_enable(dt_tensor *x, bool on);

/* ---- prepare and convert --------------------------------------------------------------------- */

enum {
    DT_BACKWARD_FLOAT,
    DT_BACKWARD_INT8,    /* linear layers and experts, except the first and the last layer */
    DT_BACKWARD_INT8_ALL /* the first layer and convolutions, too */
};
enum { DT_ESTIMATOR_STE, DT_ESTIMATOR_EWGS, DT_ESTIMATOR_DSQ, DT_ESTIMATOR_TANH };

/* The keys of a dt_quant_patch for weights; a key that is not given keeps the preset's value. */
extern DT_API const dt_key dt_weight_quant_keys[];
/* The same for activations. */
extern DT_API const dt_key dt_activation_quant_keys[];
/* The same for weights of files without a model: groups of any size, no settings of training. */
extern DT_API const dt_key dt_tensor_quant_keys[];

/* Sets every field of *base for which `patch` has a value. */
DT_API void dt_quant_apply(dt_quant_spec *base, const dt_quant_patch *patch);

/* The keys of dt_qat_options. */
extern DT_API const dt_key dt_qat_keys[];

/* Whether a preset makes networks of integers only. */
DT_API bool dt_is_device_preset(int preset);

/* *rule = the first rule that selects no quantizable module of m, or -1. dt_prepare refuses such a
 * rule; a caller that has the recipe can report its line. */
DT_API dt_status dt_qat_unmatched_rule(dt_module *m, const dt_qat_options *options, int64_t *rule);

/* How layers with a quantized weight compute the gradients of their products from now on,
 * DT_BACKWARD_...: in float, the default, or as products of integers (numerics, "Integer
 * backward"). The forward pass does not change. First and last layer are meant in the order of
 * dt_module_visit_modules among linear layers, convolutions and embeddings, quantized or not; in a
 * graph all layers that compute its outputs count as last. Errors: ARG, STATE (not prepared). */
DT_API dt_status dt_set_backward(dt_module *m, int backward);
/* The slope that backward uses for the rounding of the weights of a prepared model,
 * DT_ESTIMATOR_..., with its strength (numerics, section 3). Activations keep the straight-through
 * gradient. Errors: ARG, STATE (not prepared). */
DT_API dt_status dt_set_estimator(dt_module *m, int estimator, double strength);
DT_API double dt_estimator_strength(int estimator); /* the default strength; 0: it has none */
/* Adds to the gradients of a prepared model those of
 *     L = lambda sum (w - w^)^2        [Nagel et al. 2022]
 * over all elements of quantized weights that lie within their levels, w^ being a constant; this
 * damps weights that oscillate between two codes. For a derived weight (a folded norm, an adapter)
 * its parameters get the gradient. Resets t; call it after dt_backward. Errors: ARG, NUMERIC,
 * NOMEM. */
DT_API dt_status dt_damp(dt_module *m, dt_tape *t, double lambda);
/* Freezing of weights that oscillate between two codes [Nagel et al. 2022, section 4.2]: their
 * state. The model must live longer. */
typedef struct dt_freezer dt_freezer;
typedef struct dt_frozen {
    int64_t weights, frozen; /* elements of weights of at most 4 bits; frozen ones */
} dt_frozen;
/* A freezer for a model, which may be prepared later. The caller frees it. Errors: NOMEM. */
DT_API dt_status dt_freezer_create(dt_module *m, dt_freezer **out);
DT_API void dt_freezer_free(dt_freezer *f); /* may be NULL */
/* After each update, for each weight of at most 4 bits with code q:
 *     o     1 where q changed against the direction of its last change, else 0
 *     f     m o + (1 - m) f,   mean = m q + (1 - m) mean         m: momentum, above 0, at most 1
 * When f exceeds the threshold, the weight is frozen to the level nearest to the mean: whenever an
 * update moves it to another code, its master is set to the value of that level. With a static or
 * learned range its code then never changes; with the mean of magnitudes (ternary, binary) it may
 * change for one update. Other dynamic ranges are refused, since the largest weight would change
 * the codes of all others. Resets t. `out` may be NULL. Errors: ARG, STATE (a frozen model),
 * UNSUPPORTED (such a range, an adapter), NUMERIC, NOMEM. */
DT_API dt_status dt_freezer_step(dt_freezer *f, dt_tape *t, double momentum, double threshold,
                                 dt_frozen *out);
/* Each tensor of the state, for checkpoints: for each weight "frequency" and "mean" (f32), "code"
 * and "turn" (i8), [rows, columns] like its codes; zeros before the first update. May be written.
 * Errors: as for dt_freezer_step. */
DT_API dt_status dt_freezer_visit(dt_freezer *f, dt_visit_slot visit, void *user);
enum { DT_GRADIENTS_FLOAT, DT_GRADIENTS_INT8_DX, DT_GRADIENTS_INT8 };
/* The result of dt_set_backward for a layer: DT_GRADIENTS_... . If its input has no codes
 * (int4-weight), and in transposed convolutions, only dX is a product of integers. */
DT_API int dt_gradients_of(const dt_module *layer);
/* Quantizes the first n layers of a prepared model, in the order of dt_module_visit_modules, and
 * disables fake quantization of the others; a weight shared with a quantized layer is quantized.
 * *layers, unless layers is NULL, is the number of layers. STATE unless prepared; UNSUPPORTED of
 * networks of integers alone. */
DT_API dt_status dt_enable_layers(dt_module *m, int64_t n, int64_t *layers);
/* Freezes observers: static ranges no longer change. STATE unless prepared. */
DT_API dt_status dt_observers_freeze(dt_module *m, bool on);
/* Static ranges of weights are computed again when the weights are next used in training. STATE if
 * there are none. */
DT_API dt_status dt_refresh(dt_module *m);
DT_API bool dt_is_observed(dt_module *m); /* a module has an observer, frozen or not */
/* With `on`, folded batch norms of a prepared model use their running statistics in training, too,
 * and do not update them; without, they use batch statistics. */
DT_API void dt_norms_freeze(dt_module *m, bool on);
/* The number of channels whose norm's weight is 0. They are folded in evaluation, where they are
 * constant, but not in training, which would divide by 0. */
DT_API int64_t dt_unfolded_channels(dt_module *m);

/* ---- adapters ------------------------------------------------------------------------------- */

/* Low-rank adapters [LoRA]: a linear layer with one computes with W + (alpha / rank) B A, where A
 * [rank, in] and B [out, rank] are parameters `lora_a` and `lora_b` of the layer. Under QAT the
 * merged weight is quantized, so the converted weight is the trained one. Beside a packed weight an
 * adapter is a separate product: x^ W^^T + (alpha / rank) (x^ A^T) B^T, with the input x^ that the
 * packed weight multiplies; the weight stays as it is. */
typedef struct dt_lora_options {
    bool given;       /* the recipe has an `adapters` block */
    int64_t rank;     /* at most the smaller extent of each weight */
    double alpha;     /* 0: equal to the rank, so that B A is not scaled */
    dt_strings match; /* globs over paths of linear layers; none: all except `head` and `lm_head` */
    bool train_rest;  /* also train parameters other than adapters and the weights that have one */
} dt_lora_options;

/* The keys of dt_lora_options. */
extern DT_API const dt_key dt_lora_keys[];

/* The defaults: rank 8, alpha 0, all layers but the head, nothing else trained. */
DT_API dt_lora_options dt_lora_defaults(void);

/* Adds adapters to the selected linear layers of m, float, prepared or converted. A is uniform in
 * +-1/sqrt(in) and B is 0, so that outputs do not change. From then on only adapters and learned
 * scales and shifts require a gradient; with `train_rest` all parameters except the weights that
 * have an adapter. `options` NULL means the defaults. All or nothing. Errors: CONFIG (a rank
 * outside its range, a glob that selects nothing, a layer that shares its weight with another),
 * STATE (a layer that already has one, a frozen model), UNSUPPORTED (a packed head, an integer
 * network), NOMEM. */
DT_API dt_status dt_lora_add(dt_module *m, const dt_lora_options *options);

/* Adds every adapter to the weight of its layer, or its master, and removes it. Outputs keep their
 * bits, and every parameter requires a gradient. A packed weight becomes the sum, rounded to
 * nearest by its settings, so outputs change. Errors: STATE (no adapter, a frozen model);
 * UNSUPPORTED (a packed weight with static or learned scales, or an order of columns); NOMEM and
 * NUMERIC, after which some adapters may already be merged. */
DT_API dt_status dt_lora_merge(dt_module *m);

DT_API bool dt_has_lora(dt_module *m); /* any layer has an adapter */

/* Makes a model immutable: writing a parameter or buffer fails with STATE. Several contexts may
 * then run it at once. */
DT_API void dt_freeze(dt_module *m);

#ifdef __cplusplus
}
#endif
#endif
