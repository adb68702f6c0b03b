/* experimental/ops.h: the definition of an operator, and operators beyond those of ops.h, with the
 * same errors. */
#ifndef DETENT_EXPERIMENTAL_OPS_H
#define DETENT_EXPERIMENTAL_OPS_H

#include <detent/ops.h>
#include <detent/experimental/detent.h>
#include <detent/experimental/keys.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the definition of an operator ----------------------------------------------------------- */

/* The most operands of an op. */
#define DT_MAX_IN 16
/* The most results of an op. */
#define DT_MAX_OUT 4

/* How an op uses an operand: for a FakeQuantTensor this selects codes, dequantized values or the
 * fp32 master. */
typedef enum dt_role {
    DT_READ = 0, /* reads the value; the dequantized value of a FakeQuantTensor */
    DT_CODES,    /* reads integer codes and scales if the operand has them, else the value */
    DT_WRITE,    /* writes the tensor in place; the master of a FakeQuantTensor */
    DT_RAW       /* reads the tensor; the master of a FakeQuantTensor */
} dt_role;

/* What is kept of an operand or result for backward; everything else is freed after forward. */
typedef enum dt_save {
    DT_NOTHING = 0,
    DT_VALUE,
    DT_SAVE_CODES /* codes if forward used codes, else the value */
} dt_save;

/* How backward reads the value of an operand that it saved. */
typedef enum dt_precision {
    DT_EXACT = 0,
    DT_ROUNDED, /* only as a factor of products that round it to bf16: it may be held as bf16 */
    DT_BF16     /* the same, and where it is held as bf16, backward reads c->halves[i] */
} dt_precision;

typedef struct dt_saves {
    dt_save arg[DT_MAX_IN];
    union {
        dt_save y; /* = out[0] */
        dt_save out[DT_MAX_OUT];
    };
} dt_saves;

typedef struct dt_op dt_op;

/* One call of an op, in forward and again in backward. */
typedef struct dt_call {
    dt_ctx *ctx;
    dt_tape *tape;
    const dt_op *op;
    const struct dt__kernels *kernels; /* of the float operands' dtype; internal */
    const void *options;               /* never NULL if op->options_size > 0 */
    int n_in, n_out;
    dt_tensor *in[DT_MAX_IN];  /* the handles as given */
    dt_tensor *arg[DT_MAX_IN]; /* what to read or write: dense; contiguous unless op->strided */
    struct dt__codes *codes[DT_MAX_IN]; /* of CODES operands in forward_codes; internal */
    const uint16_t *halves[DT_MAX_IN];  /* of DT_BF16 operands in backward, else NULL; internal */
    union {
        dt_tensor *y; /* = out[0] */
        dt_tensor *out[DT_MAX_OUT];
    };
    bool wants[DT_MAX_IN]; /* operands that need a gradient; equal in forward and backward */
    bool recording;        /* an operand needs a gradient, and the tape records */
    bool coded;            /* forward_codes was used */
    int products;          /* DT_PRODUCTS_... for floats */
    bool owns_dy;          /* in backward: dy has no other reader and may be overwritten */
    int64_t state[4];      /* numbers that shape or forward store for backward */
    size_t scratch_bytes;  /* scratch of forward, set by shape; for backward see op->scratch */
    void *scratch;
} dt_call;

struct dt_op {
    const char *name;
    const char *text; /* one sentence or formula, for messages and docs */
    const char *in_name[DT_MAX_IN];
    const char *out_name[DT_MAX_OUT];
    dt_role role[DT_MAX_IN];
    bool random;                      /* draws random numbers from the tape's streams */
    bool strided;                     /* forward and backward accept operands with any strides */
    bool undifferentiable[DT_MAX_IN]; /* operands that never get a gradient */
    bool ungrouped;                   /* refuses grouped operands, since it would mix experts */
    bool optional[DT_MAX_IN];         /* operand i may be NULL; then in[i] and arg[i] are NULL */
    bool over_dy[DT_MAX_IN]; /* dx[i] may share dy's memory: backward reads each element of dy
                                 before it writes that element of dx[i], and never after */
    /* backward adds to dx[i], which contains the operand's gradient so far or zeros: for operands
     * of which each call reads a part */
    bool adds[DT_MAX_IN];
    dt_saves saves;       /* after forward */
    dt_saves saves_coded; /* after forward_codes */
    size_t options_size;
    const void *defaults; /* options used if the caller gives NULL */
    const dt_key *keys;   /* describes the options */
    /* How backward reads the value of operand i, under these c->products. NULL: DT_EXACT. */
    dt_precision (*precision)(const dt_call *c, int i);
    /* Whether WRITE operands are written with these options; if not they are RAW. NULL: always. */
    bool (*writes)(const void *options);
    /* Checks the operands (dt_refuse reports errors) and makes the results with dt_result. */
    dt_status (*shape)(dt_call *c);
    void (*forward)(const dt_call *c);
    void (*forward_codes)(const dt_call *c); /* or NULL */
    /* Whether forward_codes can use the codes of operand i, given how they are divided into rows.
     * If not, the op gets the dequantized value. NULL: it can. Internal. */
    bool (*takes_codes)(const dt_call *c, int i);
    /* Writes, or with `adds` adds to, every dx[i] that is not NULL; `dy` is the gradient of y.
     * NULL: the op is in-place or not differentiable. */
    void (*backward)(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);
    size_t (*scratch)(const dt_call *c); /* bytes of workspace for backward; NULL: none */
    /* The op in evaluation as calls of other ops: sets out[0] to the result, and further elements
     * to further results that a model may read. An operand that is not given is NULL. Errors stay
     * on the tape. A call without such an equivalent, for example one that writes statistics,
     * leaves out[0] unchanged. A `lower` that uses its own op is STATE. Formats without such an
     * operator export these calls, and tests compare them with forward and backward. NULL: the op
     * is a primitive. */
    void (*lower)(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out);
};

/* Runs `op` on n_in operands. Returns its first result, lent by the tape; NULL with the error on
 * the tape. */
DT_API dt_tensor *dt_apply(dt_tape *t, const dt_op *op, dt_tensor *const *in, int n_in,
                           const void *options);

/* The same for an op with several results: out gets the first n_out of them, NULL if there are
 * fewer. Only the first has a gradient. Returns the tape's status. */
DT_API dt_status dt_apply_n(dt_tape *t, const dt_op *op, dt_tensor *const *in, int n_in,
                            const void *options, dt_tensor **out, int n_out);

/* For `lower`: a tensor of rank 0 with this value, in the dtype of `like`, lent by the tape. NULL
 * if `like` is NULL, or on NOMEM. */
DT_API dt_tensor *dt_number(dt_tape *t, const dt_tensor *like, double value);

/* For ops with `strided`: element [0, ..., 0] of an operand; its other elements are dt_stride
 * apart. NULL as for dt_data. */
DT_API const void *dt_strided_data(const dt_tensor *x);

/* The same, for writing: increments the storage's version. */
DT_API void *dt_strided_data_mut(dt_tensor *x);

/* For shape functions: makes result `i`, a new uninitialized tensor lent by the tape. */
DT_API dt_status dt_result(dt_call *c, int i, dt_dtype dtype, int rank, const int64_t *dims);

/* For shape functions: refuses the call with a message, to which the op's name and the operands'
 * shapes are added. Returns `status`. */
DT_API dt_status dt_refuse(const dt_call *c, dt_status status, const char *format, ...)
    DT_PRINTF(3, 4);

/* ---- elementwise ----------------------------------------------------------------------------- */

/* y = a where a >= b, else b; a and b broadcast, NaN passes. Where they are equal a gets the
 * gradient. */
DT_API dt_tensor *dt_maximum(dt_tape *t, dt_tensor *a, dt_tensor *b);
/* y = 1 where a > b, or with `equal` a >= b, else 0; a and b broadcast. The derivative is 0. */
DT_API dt_tensor *dt_greater(dt_tape *t, dt_tensor *a, dt_tensor *b, bool equal);

DT_API dt_tensor *dt_abs(dt_tape *t, dt_tensor *x); /* y = |x|; the derivative at 0 is 0 */
DT_API dt_tensor *dt_erf(dt_tape *t, dt_tensor *x); /* y = 2/sqrt(pi) times the integral of
                                                     * e^-s^2 from 0 to x */

/* y = a where cond > 0, else b; NaN is not above 0. The three broadcast; cond is floats or DT_U8,
 * and has no gradient. A value that is not chosen affects neither y nor a gradient. */
DT_API dt_tensor *dt_where(dt_tape *t, dt_tensor *cond, dt_tensor *a, dt_tensor *b);

/* y = gate / (1 + e^-gate) * up; both of one shape. */
DT_API dt_tensor *dt_swiglu(dt_tape *t, dt_tensor *gate, dt_tensor *up);

/* y = x where x > 0, else slope x; the derivative at 0 is the slope. Keeps one bit per element for
 * backward. */
DT_API dt_tensor *dt_leaky_relu(dt_tape *t, dt_tensor *x, double slope);

/* y = min(max(x, 0), 6); the derivative at 0 and 6 is 0. Keeps one bit per element for backward. */
DT_API dt_tensor *dt_relu6(dt_tape *t, dt_tensor *x);

/* y = min(max(x + 3, 0), 6) / 6; the derivative at -3 and 3 is 0. Keeps y for backward. */
DT_API dt_tensor *dt_hardsigmoid(dt_tape *t, dt_tensor *x);

/* y = x min(max(x + 3, 0), 6) / 6; the derivative at -3 is 0 and at 3 is 1. */
DT_API dt_tensor *dt_hardswish(dt_tape *t, dt_tensor *x);

/* y = x where x > 0, else alpha (e^x - 1); the derivative at 0 is alpha. Keeps y for backward. ARG
 * if alpha is below 0 or not finite. */
DT_API dt_tensor *dt_elu(dt_tape *t, dt_tensor *x, double alpha);

/* y = x where x > 0, else slope[c] x, for x [N, C, ...] and slope [C]; slope [1] is for all
 * channels and for x of any rank. The derivative at 0 is the slope. */
DT_API dt_tensor *dt_prelu(dt_tape *t, dt_tensor *x, dt_tensor *slope);

/* y = min(max(x, least), most); -INFINITY and INFINITY mean no bound. The derivative at a bound is
 * 1. ARG if least > most or a bound is NaN. */
DT_API dt_tensor *dt_clamp(dt_tape *t, dt_tensor *x, double least, double most);

/* ---- products -------------------------------------------------------------------------------- */

/* Activations that can be fused behind a product: dt_relu, dt_gelu in both forms, dt_tanh,
 * dt_sigmoid, dt_silu, dt_relu6, dt_hardswish, dt_hardsigmoid, dt_elu with alpha 1. */
enum {
    DT_ACT_NONE,
    DT_ACT_RELU,
    DT_ACT_GELU,
    DT_ACT_GELU_TANH,
    DT_ACT_TANH,
    DT_ACT_SIGMOID,
    DT_ACT_SILU,
    DT_ACT_RELU6,
    DT_ACT_HARDSWISH,
    DT_ACT_HARDSIGMOID,
    DT_ACT_ELU
};

typedef struct dt_linear_after {
    int activation;      /* DT_ACT_... */
    dt_tensor *residual; /* of y's shape, or NULL */
} dt_linear_after;

/* y = activation(x W^T + bias + residual), in fewer passes over memory than dt_linear, dt_add and
 * the activation one after the other, and with the same bits, forward and backward. For backward it
 * keeps what the activation would: one bit per element for relu, its operand for gelu, silu and
 * hardswish, y for the others. after NULL: dt_linear. */
DT_API dt_tensor *dt_linear_act(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                                const dt_linear_after *after);

typedef struct dt_linear_part {
    dt_tensor *weight, *bias; /* [out, in]; [out] or NULL */
} dt_linear_part;

/* y[i] = dt_linear(x, part[i]), with the same bits, for 1...DT_MAX_OUT weights and one x. Products
 * of integer codes share one parallel region, which saves time for few rows of x (queries, keys and
 * values; gate and up). Not differentiable: STATE if the tape records and an operand requires a
 * gradient. */
DT_API dt_status dt_linears(dt_tape *t, dt_tensor *x, const dt_linear_part *part, int n,
                            dt_tensor **y);

/* The expert by whose weight each row is multiplied; exactly one of the two is given. */
typedef struct dt_routes {
    /* i32 or i64 [N + 1], ascending from 0, at most the rows of x: expert e computes rows
     * offsets[e] to offsets[e + 1] - 1; rows from offsets[N] on are padding */
    dt_tensor *offsets;
    /* i32 or i64, the expert of each row, -1 for padding. Either [rows of x, k], where each row of
     * x is multiplied by k experts, or any shape with as many elements as x has rows */
    dt_tensor *index;
} dt_routes;

/* y[r] = x[r] W[e(r)]^T + bias[e(r)], where e(r) is the expert of row r: x [..., in], weight
 * [N, out, in], bias [N, out] or NULL; y [..., out], or [rows, k, out] with an index [rows, k].
 * For padding y and the gradient of x are 0; an expert without rows gets a gradient of exactly 0. y
 * has the bits of dt_linear on each expert's rows if offsets are given or if both operands are
 * codes; with an index a product of floats may sum in another order. If x is quantized, padding is
 * quantized, too, and must be finite. ARG if offsets or index are wrong. */
DT_API dt_tensor *dt_grouped_linear(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                                    const dt_routes *routes);

typedef struct dt_lora_weight_options {
    double alpha; /* default 1 */
} dt_lora_weight_options;

/* A weight with a low-rank adapter: y = weight + alpha / rank lora_b lora_a; weight [out, in],
 * lora_a [rank, in], lora_b [out, rank], rank at least 1; y [out, in]. Keeps only lora_a and lora_b
 * for backward. */
DT_API dt_tensor *dt_lora(dt_tape *t, dt_tensor *weight, dt_tensor *lora_a, dt_tensor *lora_b,
                          double alpha);

/* y0, as a view: computes an adapter's gradient without the gradient of the merged weight. y0 [...,
 * out] = x (W + alpha / rank lora_b lora_a)^T + bias was computed with the merged weight (or its
 * quantized value, if the gradient passes straight through) as a constant. In backward lora_a and
 * lora_b get the gradients that dt_lora would give them, in 4 rows rank (in + out) products in
 * place of rows in out, and y0 gets dy. x [..., in] gets no gradient here. Keeps x (its codes, if
 * it has them), lora_a and lora_b. */
DT_API dt_tensor *dt_lora_gradient(dt_tape *t, dt_tensor *y0, dt_tensor *x, dt_tensor *lora_a,
                                   dt_tensor *lora_b, double alpha);

/* The transposed convolution, adjoint of dt_conv2d: y[n, o, i stride - padding + k dilation, ...]
 * += x[n,c,i,j] weight[c,o,k,l], and the bias; x [N, in, H, W], weight [in, out/groups, kh, kw]; y
 * [N, out, H', W'], H' = (H - 1) stride - 2 padding + dilation (kh - 1) + output_padding + 1.
 * output_padding must be less than the greater of stride and dilation. */
DT_API dt_tensor *dt_conv_transpose2d(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                                      const dt_conv_options *options);

/* dt_conv2d in one dimension: x [N, in, L], weight [out, in/groups, k]. */
DT_API dt_tensor *dt_conv1d(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                            const dt_conv_options *options);

/* dt_conv_transpose2d in one dimension: x [N, in, L], weight [in, out/groups, k]. */
DT_API dt_tensor *dt_conv_transpose1d(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                                      const dt_conv_options *options);

/* ---- reductions ------------------------------------------------------------------------------ */

/* The largest element along `dim`, whose extent is at least 1; NaN counts as the largest. Of equal
 * elements the first gets the gradient. *index, unless index is NULL, is its position along `dim`:
 * i32, of y's shape. */
DT_API dt_tensor *dt_max(dt_tape *t, dt_tensor *x, int64_t dim, bool keepdim, dt_tensor **index);

/* ---- losses ---------------------------------------------------------------------------------- */

/* dt_cross_entropy with a weight [C] of x's dtype for each class, as in PyTorch: the sum over rows
 * of (1-s) weight[label] (-log p[label]) + s mean over classes of weight (-log p), which the mean
 * divides by the sum of weight[label] over the rows not ignored (unless that is 0). weight gets no
 * gradient; ARG naming the first weight that is negative or not finite. NULL: dt_cross_entropy. */
DT_API dt_tensor *dt_weighted_cross_entropy(dt_tape *t, dt_tensor *x, dt_tensor *labels,
                                            dt_tensor *weight,
                                            const dt_cross_entropy_options *options);

/* A head, its labels, and the head of a teacher, which gets no gradient. */
typedef struct dt_head_operands {
    dt_tensor *x;                                         /* [..., C] */
    dt_tensor *weight;                                    /* [V, C] */
    dt_tensor *bias;                                      /* [V], or NULL */
    dt_tensor *labels;                                    /* [...], i32 or i64 */
    dt_tensor *teacher_x, *teacher_weight, *teacher_bias; /* its C may differ; all NULL: none */
} dt_head_operands;

typedef struct dt_linear_cross_entropy_options {
    int reduction;          /* DT_REDUCE_...; the mean divides by the rows not ignored */
    int64_t ignore_index;   /* rows of this label are ignored; default -100; 0 is class 0 */
    double label_smoothing; /* s, 0...1 */
    double distill;         /* d, the share of the distillation loss, 0...1; default 0 */
    double temperature;     /* T, above 0; default 1 */
} dt_linear_cross_entropy_options;

/* defaults: reduction mean, ignore_index -100, no smoothing, no distillation */
DT_API dt_linear_cross_entropy_options dt_linear_cross_entropy_defaults(void);

/* The mean or sum, over the rows not ignored, of (1-d) dt_cross_entropy(dt_linear(x, weight, bias),
 * labels) + d T^2 KL(p || q), where p is the softmax of the teacher's logits / T and q that of the
 * model's logits / T. Logits are never stored as a whole: a few MiB at a time are computed in
 * forward, and again in backward. Integer codes are multiplied as in dt_linear. *row_loss [...],
 * unless row_loss is NULL, is the cross entropy of each row (without distillation), 0 where the
 * label is ignored. *row_best, i32 [...], is the index of the row's largest logit (the first of
 * equal ones), -1 where the label is ignored. If all rows are ignored, loss and gradients are 0.
 * ARG naming the first label outside 0...V-1; ARG if d > 0 and there is no teacher. */
DT_API dt_tensor *dt_linear_cross_entropy(dt_tape *t, const dt_head_operands *in,
                                          const dt_linear_cross_entropy_options *options,
                                          dt_tensor **row_loss, dt_tensor **row_best);

typedef struct dt_distill_options {
    int reduction;        /* DT_REDUCE_...; the mean divides by the rows not ignored */
    int64_t ignore_index; /* rows of this label are ignored; default -100; 0 is class 0 */
    double temperature;   /* T, above 0; default 1 */
} dt_distill_options;

/* defaults: reduction mean, ignore_index -100, temperature 1 */
DT_API dt_distill_options dt_distill_defaults(void);

/* Sum or mean over rows of T^2 sum of p (log p - log q), p = softmax(teacher / T) and
 * q = softmax(student / T); both [..., C], labels i32 or i64 [...]. The teacher gets no gradient.
 * If all rows are ignored, loss and gradient are 0. */
DT_API dt_tensor *dt_distill(dt_tape *t, dt_tensor *student, dt_tensor *teacher, dt_tensor *labels,
                             const dt_distill_options *options);

/* The mean or sum of |x - target| over all elements, a scalar. Its gradient is 0 where x =
 * target. */
DT_API dt_tensor *dt_l1_loss(dt_tape *t, dt_tensor *x, dt_tensor *target, int reduction);

/* The mean or sum over all elements, e = x - target, of e^2 / 2 where |e| <= delta, else
 * delta (|e| - delta / 2); a scalar. ARG unless delta is above 0 and finite. */
DT_API dt_tensor *dt_huber_loss(dt_tape *t, dt_tensor *x, dt_tensor *target, double delta,
                                int reduction);

/* The mean or sum over all elements of the binary cross entropy of logits x and targets t,
 *     (1 - t) x + (1 + (w - 1) t) log(1 + exp(-x))
 * a scalar. pos_weight w, the weights of positive targets, is [k], where k is the last extent of x;
 * NULL: 1. Neither targets (0 to 1, not checked) nor pos_weight get a gradient. */
DT_API dt_tensor *dt_bce_with_logits(dt_tape *t, dt_tensor *x, dt_tensor *target,
                                     dt_tensor *pos_weight, int reduction);

/* ---- shapes: results share the operand's storage where possible ------------------------------ */

/* Dimension i of y is dimension dims[i] of x, for i below the rank of x: a view. */
DT_API dt_tensor *dt_permute(dt_tape *t, dt_tensor *x, const int64_t *dims);

enum { DT_PAD_CONSTANT, DT_PAD_REFLECT, DT_PAD_REPLICATE, DT_PAD_CIRCULAR };

typedef struct dt_pad_options {
    dt_ints pads; /* before and after in the last dimension, then in the one before it, and so on */
    int mode;     /* DT_PAD_... */
    double value; /* of mode constant */
} dt_pad_options;

/* x with elements added before and after it, as in torch.nn.functional.pad. Constant: `value`.
 * Reflect: x mirrored at its first and last element, which are not repeated (pads less than the
 * extent). Replicate: the first or last element. Circular: x repeated (pads up to the extent). */
DT_API dt_tensor *dt_pad(dt_tape *t, dt_tensor *x, const dt_pad_options *options);

/* ---- layers ---------------------------------------------------------------------------------- */

/* y = x / sqrt(mean of x^2 + eps) * weight over the last dimension C of x; weight [C], or NULL for
 * 1. eps is in 0...1. */
DT_API dt_tensor *dt_rms_norm(dt_tape *t, dt_tensor *x, dt_tensor *weight, double eps);

typedef struct dt_batch_norm_options {
    bool training;   /* default true */
    double momentum; /* default 0.1 */
    double eps;      /* default 1e-5 */
    int activation;  /* DT_ACT_NONE (the default), DT_ACT_RELU or DT_ACT_RELU6 */
} dt_batch_norm_options;

/* defaults: training, momentum 0.1, eps 1e-5, no activation */
DT_API dt_batch_norm_options dt_batch_norm_defaults(void);

/* The operands of a batch norm besides x: all [C], the residual of x's shape. */
typedef struct dt_batch_norm_operands {
    dt_tensor *weight, *bias; /* NULL: 1, 0 */
    dt_tensor *running_mean, *running_var;
    dt_tensor *residual; /* NULL: none */
    dt_tensor *factor;   /* NULL: 1 */
} dt_batch_norm_operands;

/* y = activation((z - mean) / sqrt(var + eps) * weight + bias + residual) with z = x / factor, per
 * channel of x [N, C] or [N, C, L]. Training uses the batch's mean and biased variance of z and
 * updates running_mean and running_var in place: running = (1-momentum) running + momentum batch,
 * with the unbiased variance; SHAPE if a channel has a single value. Evaluation uses the running
 * values and writes nothing. Residual and activation have the bits of dt_add and dt_relu or
 * dt_relu6 called afterwards, in fewer passes over memory; one bit per element is kept for
 * backward. The factor takes no extra pass over memory. */
DT_API dt_tensor *dt_batch_norm1d(dt_tape *t, dt_tensor *x, const dt_batch_norm_operands *operands,
                                  const dt_batch_norm_options *options);
/* The same for x [N, C, H, W]. */
DT_API dt_tensor *dt_batch_norm2d(dt_tape *t, dt_tensor *x, const dt_batch_norm_operands *operands,
                                  const dt_batch_norm_options *options);

typedef struct dt_group_norm_options {
    int64_t groups; /* number of groups of neighbouring channels; divides C; default 1 */
    double eps;     /* default 1e-5 */
} dt_group_norm_options;

/* y = (x - mean) / sqrt(var + eps) * weight + bias, mean and biased variance over each sample and
 * group of channels of x [N, C, ...]; weight and bias are [C] and may be NULL. ARG if groups do not
 * divide the channels. */
DT_API dt_tensor *dt_group_norm(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                                const dt_group_norm_options *options);

typedef struct dt_fold_factor_options {
    double eps; /* default 1e-5 */
    bool keep;  /* y = 1 without gradient where weight is 0; default false */
} dt_fold_factor_options;

/* y = weight / sqrt(var + eps), both [C]: the factor of a batch norm that is folded into the weight
 * of the layer before it. var gets no gradient. */
DT_API dt_tensor *dt_fold_factor(dt_tape *t, dt_tensor *weight, dt_tensor *var,
                                 const dt_fold_factor_options *options);

/* ---- recurrent cells ------------------------------------------------------------------------- */

/* One time step of a gated recurrent unit, as PyTorch's GRUCell [Cho et al. 2014]:
 *     r, z = sigmoid(gi + gh)      n = tanh(gi_n + r gh_n)      h' = (1 - z) n + z h
 * gi = x W_ih^T + b_ih and gh = h W_hh^T + b_hh are [N, 3 hidden]: columns of r, of z, of n. h and
 * the result are [N, hidden]. Keeps 4 numbers per element, and h, for backward. */
DT_API dt_tensor *dt_gru_cell(dt_tape *t, dt_tensor *gi, dt_tensor *gh, dt_tensor *h);

/* One time step of a long short-term memory, as PyTorch's LSTMCell [Hochreiter and Schmidhuber
 * 1997; Gers et al. 2000]:
 *     i, f, o = sigmoid(gi + gh)   g = tanh(gi_g + gh_g)   c' = f c + i g   h' = o tanh(c')
 * gi and gh are [N, 4 hidden]: columns of i, of f, of g, of o. The state and the result are [2 N,
 * hidden]: N rows of h, then N rows of c; dt_slice separates them. The state's h is not read. Keeps
 * 5 numbers per element, and the state, for backward. */
DT_API dt_tensor *dt_lstm_cell(dt_tape *t, dt_tensor *gi, dt_tensor *gh, dt_tensor *state);

/* ---- mixtures of experts --------------------------------------------------------------------- */

typedef struct dt_moe_router_options {
    int64_t top_k;    /* experts per row; default 2 */
    bool normalize;   /* divide a row's weights by their sum; default true */
    int64_t capacity; /* the most rows of an expert; 0 (default): no limit (dropless) */
} dt_moe_router_options;

/* defaults: top_k 2, normalized, dropless */
DT_API dt_moe_router_options dt_moe_router_defaults(void);

/* Chooses the experts of each row: the top_k largest of p = softmax(logits) over all E experts, in
 * descending order (equal ones by ascending expert). logits [..., E]. Returns the weights p of the
 * chosen experts, [rows, top_k]; *index, unless index is NULL, their numbers, i32 [rows, top_k].
 * With a capacity, experts accept all first choices in row order, then all second choices, and so
 * on; a choice that a full expert drops is -1 in the index and keeps its weight. ARG if top_k is
 * not in 1...E; NUMERIC naming row and expert if a logit is not finite. The index has no
 * gradient. */
DT_API dt_tensor *dt_moe_router(dt_tape *t, dt_tensor *logits, const dt_moe_router_options *options,
                                dt_tensor **index);

/* z[r] = sum over i of weights[r, i] y[r, i]: the weighted sum of the outputs of a row's experts;
 * y [rows, k, C] or [rows * k, C], weights [rows, k]; z [rows, C]. */
DT_API dt_tensor *dt_moe_combine(dt_tape *t, dt_tensor *y, dt_tensor *weights);

enum { DT_COUNT_CHOICES, DT_COUNT_SHARE };

typedef struct dt_load_balance_options {
    int64_t top_k; /* experts per row; default 2 */
    int count;     /* DT_COUNT_CHOICES (default) or DT_COUNT_SHARE */
} dt_load_balance_options;

/* defaults: top_k 2, choices */
DT_API dt_load_balance_options dt_load_balance_defaults(void);

/* The load-balance loss, a scalar: E sum over e of f[e] P[e]. P[e] is the mean over rows of
 * softmax(logits); f[e] is the number of the rows' top_k choices that fall on e, divided by the
 * number of rows, or with DT_COUNT_SHARE by the number of choices. So uniform routing has the loss
 * top_k, or 1 with DT_COUNT_SHARE. logits [rows, E], or [layers, rows, E] with the rows of all
 * layers together. f has no gradient. 0 if there are no rows. */
DT_API dt_tensor *dt_load_balance_loss(dt_tape *t, dt_tensor *logits,
                                       const dt_load_balance_options *options);

/* The router z-loss, a scalar: the mean over rows of (log of the sum of exp(logits))^2; logits
 * [..., E]. 0 if there are no rows. */
DT_API dt_tensor *dt_router_z_loss(dt_tape *t, dt_tensor *logits);

/* ---- attention ------------------------------------------------------------------------------ */

enum { DT_ROTARY_HALF, DT_ROTARY_INTERLEAVED };
enum { DT_ROPE_PLAIN, DT_ROPE_LINEAR, DT_ROPE_LLAMA3, DT_ROPE_LONGROPE };

typedef struct dt_rotary_options {
    int pairing;        /* DT_ROTARY_...: pair j is (j, j + rotary_dim/2), or (2j, 2j + 1) */
    int64_t rotary_dim; /* number of a head's elements that are rotated, even; 0 (default): all */
    double theta;       /* default 10000 */
    int scaling;        /* DT_ROPE_...; default plain */
    double factor;      /* linear and llama3; default 1 */
    double low_freq_factor, high_freq_factor; /* llama3; default 1, 4 */
    int64_t original_context;                 /* llama3 and longrope; default 8192 */
    dt_reals divisors;                        /* longrope: one per pair */
    double amplitude;                         /* longrope: factor of rotated elements; default 1 */
} dt_rotary_options;

/* defaults: halves, all of a head, theta 10000, plain */
DT_API dt_rotary_options dt_rotary_defaults(void);

/* Rotary position embedding: rotates pair j of each head by the angle position[b, t] f_j, (u, v) ->
 * (u cos - v sin, u sin + v cos), f_j = theta^(-2j / rotary_dim); elements from rotary_dim on are
 * copied. x [B, T, H, D], any strides; position i32 [B, T], or [T] for all sequences. Scaling
 * `linear` divides f_j by the factor. `llama3` divides f_j by the factor if the wavelength 2 pi /
 * f_j is above original_context / low_freq_factor, leaves it if the wavelength is below
 * original_context / high_freq_factor, and interpolates between. `longrope` divides f_j by
 * divisors[j] and multiplies rotated elements by the amplitude; original_context is the length of
 * text beyond which a model uses other divisors, and does not change the result. */
DT_API dt_tensor *dt_rotary(dt_tape *t, dt_tensor *x, dt_tensor *position,
                            const dt_rotary_options *options);

/* The operands. Views with any strides are read without a copy. */
typedef struct dt_attention_operands {
    dt_tensor *q;        /* [B, Tq, Hq, D] */
    dt_tensor *k, *v;    /* [B, Tk, Hkv, D]; Hkv divides Hq */
    dt_tensor *key_mask; /* u8 or bool [B, Tk]: 1 where queries attend to a key; NULL: all */
    /* i32 [B, Tk]: a query attends only to keys with its own number; -1 is padding; NULL: one
     * document. Tq <= Tk */
    dt_tensor *document;
    /* Given: k and v are codes with these scales, [B, Tk, Hkv], of q's dtype; without masks and
     * gradients. They are i8, or u8 [B, Tk, Hkv, (D + 1) / 2]: byte i contains code i in its lower
     * 4 bits, and code i + (D + 1) / 2. A row of D elements is then H (code * scale) / O, where H
     * of 1 and -1 is applied to each O adjacent elements, O the largest power of two that divides
     * D. NULL: k and v are floats. */
    dt_tensor *k_scale, *v_scale;
} dt_attention_operands;

/* How keys and values are kept: as floats, or as codes with one scale for each token and head:
 * int8, scale = max |x| / 127, code = rne(x / scale), in about a quarter of the memory; or of 4
 * bits, in an eighth, of rows times a Hadamard matrix, which spreads outliers, and by which queries
 * and results are multiplied as well (QuaRot, Ashkboos et al. 2024; docs/numerics.md §2). */
enum { DT_CACHE_F32, DT_CACHE_INT8, DT_CACHE_INT4, DT_CACHES };
extern DT_API const char *const dt_cache_names[]; /* "f32", "int8", "int4", NULL */

typedef struct dt_attention_options {
    bool causal;  /* query r has position r + Tk - Tq and attends to keys up to it; default true */
    double scale; /* 0 (default): 1 / sqrt(D) */
    /* with `causal`: a query at position p attends to the keys p - window + 1 ... p; 0 (default):
     * no limit */
    int64_t window;
    /* DT_CACHE_...: k and v, floats, are quantized as in such a cache; their gradients are those of
     * the dequantized values (straight-through). Default f32: unchanged */
    int cache;
} dt_attention_options;

/* defaults: causal, scale 0, no window */
DT_API dt_attention_options dt_attention_defaults(void);

/* y[b, r, h] = sum over the keys s that query r attends to of p_s v[b, s, g], p = softmax(scale
 * q[b, r, h] . k[b, s, g]), g = h / (Hq / Hkv); y [B, Tq, Hq, D]. *lse [B, Tq, Hq], unless lse is
 * NULL, is the log of the sum of exp(score). Keeps q, k, v, y and lse for backward. A query that
 * attends to no key: y 0, lse -inf. With scales, scores are scale (q . k) k_scale and probabilities
 * are multiplied by v_scale: dequantized values are not computed. Errors with them: ARG (masks,
 * options->cache), STATE (q requires a gradient). options->cache also excludes masks; y has the
 * bits of a call with these codes and scales, which are computed in f32, and rows of k and v that
 * are not finite count as NaN. A score of NaN or +inf makes y and lse of its query NaN: so does a
 * key that is NaN for every query that attends to it. Scores that are all -inf count as no key. An
 * element of v that is NaN makes that of y NaN for every query that attends to it; one that is not
 * finite may make it NaN for other queries, too: at most 3 before the first that attends to it and
 * 66 after the last; with `document` any of its batch entry. */
DT_API dt_tensor *dt_attention(dt_tape *t, const dt_attention_operands *operands,
                               const dt_attention_options *options, dt_tensor **lse);

/* ---- planes of images [N, C, H, W], lines of signals [N, C, L] ------------------------------- */

/* dt_max_pool2d for windows of lines, x [N, C, L]; y [N, C, windows]. */
DT_API dt_tensor *dt_max_pool1d(dt_tape *t, dt_tensor *x, const dt_pool_options *options,
                                dt_tensor **index);
/* dt_avg_pool2d for windows of lines. */
DT_API dt_tensor *dt_avg_pool1d(dt_tape *t, dt_tensor *x, const dt_pool_options *options);
/* The mean of each plane, [N, C, 1, 1]. */
DT_API dt_tensor *dt_global_avg_pool2d(dt_tape *t, dt_tensor *x);
/* The mean of each line, [N, C, 1]. */
DT_API dt_tensor *dt_global_avg_pool1d(dt_tape *t, dt_tensor *x);
/* y [N, C, height, width]: each element is the mean of a bin of pixels; that of (i, j) has rows
 * floor(i H / height) ... ceil((i + 1) H / height) - 1 and columns likewise. Bins may overlap. */
DT_API dt_tensor *dt_adaptive_avg_pool2d(dt_tape *t, dt_tensor *x, int64_t height, int64_t width);
/* dt_adaptive_avg_pool2d of lines. */
DT_API dt_tensor *dt_adaptive_avg_pool1d(dt_tape *t, dt_tensor *x, int64_t length);

/* y [N, C, height, width]: pixel (i, j) is x's pixel (floor(i H / height), floor(j W / width)). */
DT_API dt_tensor *dt_upsample_nearest(dt_tape *t, dt_tensor *x, int64_t height, int64_t width);
/* y [N, C, length]: element i is x's element floor(i L / length). */
DT_API dt_tensor *dt_upsample_nearest1d(dt_tape *t, dt_tensor *x, int64_t length);

/* ---- in place: not recorded, return the tensor that they wrote ------------------------------- */

/* In-place ops: STATE if a recorded op still needs the value of x. x keeps its dtype and shape; for
 * a FakeQuantTensor the master is written. */

/* x = from, which broadcasts to x. Also for integers with equal dtypes. */
DT_API dt_tensor *dt_copy_(dt_tape *t, dt_tensor *x, dt_tensor *from);
/* x = 0, for any dtype. */
DT_API dt_tensor *dt_zero_(dt_tape *t, dt_tensor *x);
/* x = x + factor * other; `other` broadcasts to x, and NULL means 1. */
DT_API dt_tensor *dt_add_(dt_tape *t, dt_tensor *x, dt_tensor *other, double factor);
/* x = x * factor * other; `other` broadcasts to x, and NULL means 1. */
DT_API dt_tensor *dt_mul_(dt_tape *t, dt_tensor *x, dt_tensor *other, double factor);
/* x = x + weight (to - x), with equal shapes; if `to` is a FakeQuantTensor its master is read. */
DT_API dt_tensor *dt_lerp_(dt_tape *t, dt_tensor *x, dt_tensor *to, double weight);

typedef struct dt_sgd_step_options {
    double lr, momentum, dampening, weight_decay;
    bool nesterov;
    int64_t step;       /* 1 for the first update: then buffer = g */
    double grad_factor; /* g is multiplied by it; 0 counts as 1 */
} dt_sgd_step_options;

/* g = grad_factor g + weight_decay p;  buffer = momentum buffer + (1-dampening) g, or g at step 1;
 * p -= lr (nesterov ? g + momentum buffer : buffer).  All of one shape; `buffer` may be NULL if
 * momentum is 0: then p -= lr g. The tensor g is not written. */
DT_API dt_tensor *dt_sgd_step_(dt_tape *t, dt_tensor *p, dt_tensor *g, dt_tensor *buffer,
                               const dt_sgd_step_options *options);

typedef struct dt_adam_step_options {
    double lr, beta1, beta2, eps, weight_decay;
    int64_t step;       /* n, 1 for the first update */
    double grad_factor; /* g is multiplied by it; 0 counts as 1 */
} dt_adam_step_options;

/* g = grad_factor g + weight_decay p;  m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g^2;
 * p -= lr (m / (1-beta1^n)) / (sqrt(v / (1-beta2^n)) + eps).  All of one shape. */
DT_API dt_tensor *dt_adam_step_(dt_tape *t, dt_tensor *p, dt_tensor *g, dt_tensor *m, dt_tensor *v,
                                const dt_adam_step_options *options);

/* p *= 1 - lr weight_decay first; then as Adam without decay. */
DT_API dt_tensor *dt_adamw_step_(dt_tape *t, dt_tensor *p, dt_tensor *g, dt_tensor *m, dt_tensor *v,
                                 const dt_adam_step_options *options);

typedef struct dt_lion_step_options {
    double lr, beta1, beta2, weight_decay;
    double grad_factor; /* g is multiplied by it; 0 counts as 1 */
} dt_lion_step_options;

/* g = grad_factor g;  p = p (1 - lr weight_decay) - lr sign(beta1 m + (1-beta1) g), sign(0) = 0;
 * m = beta2 m + (1-beta2) g.  All of one shape. */
DT_API dt_tensor *dt_lion_step_(dt_tape *t, dt_tensor *p, dt_tensor *g, dt_tensor *m,
                                const dt_lion_step_options *options);

#ifdef __cplusplus
}
#endif
#endif
