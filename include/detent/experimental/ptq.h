/* ptq.h: post-training quantization, which chooses codes by calibration data (GPTQ, GPFQ, Qronos).
 *
 * A weight consists of work matrices W [rows][columns], one for each group of the layer (a linear
 * layer has one). Rows are output channels; columns run over [in/groups, kernel]. X [columns][n]
 * are the inputs that are multiplied by W: those of the float model; Xq are those of the model
 * quantized so far. A sample is a row of a linear layer's input, or an output position of a
 * convolution. A column is dead if all of its inputs are 0, else live. docs/rounding.md has the
 * algorithms, the papers and what each setting does. */
#ifndef DETENT_EXPERIMENTAL_PTQ_H
#define DETENT_EXPERIMENTAL_PTQ_H

#include <detent/experimental/ops.h>
#include <detent/experimental/qat.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- settings ----------------------------------------------------------------------------- */

enum {
    DT_ROUND_NEAREST, /* no data */
    DT_ROUND_GPTQ,    /* Xq */
    DT_ROUND_GPFQ,    /* X and Xq */
    DT_ROUND_QRONOS,  /* X and Xq */
    DT_ROUND_A2GPTQ,  /* like Qronos and GPTQ, with bounds for accumulators of P bits */
    DT_ROUND_A2GPFQ,
    DT_ROUND_A2QRONOS
};
enum { DT_ORDER_NONE, DT_ORDER_WEIGHT, DT_ORDER_GROUP };
enum { DT_MEAN_LIVE, DT_MEAN_ALL };
enum { DT_SCALES_FROZEN, DT_SCALES_REFRESH };
enum { DT_DIFFUSE_CLAMPED, DT_DIFFUSE_ALL };

typedef struct dt_rounding {
    int order;               /* DT_ORDER_...: the order in which columns are rounded */
    double damping;          /* GPTQ: this share of H's mean diagonal is added to the diagonal */
    double damping_absolute; /* GPTQ and Qronos: the absolute number to add; 0: not given */
    /* DT_MEAN_...: the mean of H's diagonal over live columns, or over all columns, where dead ones
     * count as 1 */
    int damping_mean;
    double alpha;  /* Qronos: damping as a share of the largest eigenvalue */
    int64_t block; /* columns whose errors are applied to later columns together */
    /* experts with fewer rows are rounded to nearest; 0: as many as columns */
    int64_t least_rows;
    bool keep_zeros;  /* zeros stay 0 if at least 5 % of the weight is 0 */
    bool keep_better; /* rows where nearest has the smaller error are rounded to nearest */
    int group_scales; /* DT_SCALES_..., for DT_PER_GROUP */
} dt_rounding;

/* Limits of a device's accumulators, for the a2 rounders. */
typedef struct dt_accumulator {
    int64_t bits;  /* P, 2...32; sums lie in -(2^(P-1)-1) ... 2^(P-1)-1; 0: not given */
    int64_t tile;  /* columns of one accumulator, at most a scale group; 0: a whole scale group */
    dt_ints input; /* smallest (<= 0) and largest (>= 0) integer input; empty: 0...255 */
    bool soft_threshold; /* values are shrunk before they are clamped to the bound */
    /* DT_DIFFUSE_...: later columns compensate rounding errors, or all errors */
    int diffuse;
} dt_accumulator;

typedef struct dt_rounding_options {
    int rounder; /* DT_ROUND_... */
    dt_rounding rounding;
    dt_accumulator accumulator;
} dt_rounding_options;

/* The default: rounding to nearest. */
DT_API dt_rounding_options dt_rounding_defaults(void);
/* Keys: rounder, rounding: {...}, accumulator: {...} */
extern DT_API const dt_key dt_rounding_options_keys[];

/* ---- one weight ----------------------------------------------------------------------------- */

enum {
    DT_WEIGHT_LINEAR, /* [out, in]; all but the first dimension are columns, whatever the rank */
    DT_WEIGHT_CONV1D,
    DT_WEIGHT_CONV2D,
    DT_WEIGHT_CONV_TRANSPOSE1D,
    DT_WEIGHT_CONV_TRANSPOSE2D,
    DT_WEIGHT_GROUPED_LINEAR /* [experts, out, in]: each expert is a separate linear weight */
};

/* The op that a weight belongs to. */
typedef struct dt_weight_op {
    int kind;             /* DT_WEIGHT_... */
    dt_conv_options conv; /* for convolutions */
} dt_weight_op;

/* Sums over the inputs of one layer, in double, for each group: H = sum Xq Xq^T, and with the float
 * model's inputs also G = sum Xq X^T and C = sum X X^T. */
typedef struct dt_statistics dt_statistics;

/* Creates statistics for a weight of this shape. `differ`: the float model's inputs will be given,
 * too. Allocates H and, with `differ`, G and half of C for each group, and about 16 MiB of buffers;
 * for a grouped weight all of this for each expert, when its first row is added. Retains the
 * context. Errors: ARG (op, options), SHAPE, NOMEM. */
DT_API dt_status dt_statistics_create(dt_ctx *ctx, const dt_weight_op *op, int rank,
                                      const int64_t *dims, bool differ, dt_statistics **out);
/* Adds a batch of inputs in the op's shape, f32, dense and contiguous: [..., in] for linear, [N, C,
 * W] or [N, C, H, W] for convolutions. `x` are the float model's inputs, NULL if `differ` was
 * false. The sums have the same bits for any number of threads and any division into batches.
 * Errors: SHAPE, DTYPE, ARG, NUMERIC (an element that is not finite, with its index); after an
 * error nothing was added. */
DT_API dt_status dt_statistics_add(dt_statistics *s, const dt_tensor *xq, const dt_tensor *x);
/* The same for a grouped weight: adds each row to the experts it is routed to (dt_grouped_linear)
 * and ignores rows without an expert. Further errors: ARG (routes to an expert that does not
 * exist). */
DT_API dt_status dt_statistics_add_routed(dt_statistics *s, const dt_tensor *xq, const dt_tensor *x,
                                          const dt_routes *routes);
/* The number of samples so far: rows of a linear layer's inputs, output positions of a convolution,
 * routed rows of all experts of a grouped weight. */
DT_API int64_t dt_statistics_samples(const dt_statistics *s);
DT_API void dt_statistics_free(dt_statistics *s); /* NULL is allowed */

/* Report on one rounded weight. */
typedef struct dt_round_report {
    const char *method; /* a static string: the rounder used; "nearest" after a fallback */
    bool fallback;      /* the matrix of a group could not be factored at any damping */
    bool unreached;     /* rounded to nearest: no calibration batch reached the layer */
    bool untreated;     /* rounded to nearest: rounders do not support the layer's type */
    int64_t rows, columns, groups; /* of the layer: rows of all groups, columns of one group */
    int64_t samples;
    int64_t dead;           /* columns, over all groups, whose inputs are all 0 */
    int64_t zeros_kept;     /* elements; 0 if too few were zero */
    int64_t kept_nearest;   /* rows where nearest had the smaller error */
    int64_t unseen;         /* experts with too few rows, rounded to nearest */
    dt_ints unseen_experts; /* the first of these experts */
    double damping_share;   /* the lambda used (the largest of all groups) */
    double damping;         /* added to the diagonal (the largest of all groups) */
    double loss;            /* GPTQ and Qronos: sum of e^2/2, before rows are reset to nearest */
    double error, nearest_error; /* ||W X - W^ Xq||; the same for nearest within the bounds */
    int64_t changed;             /* codes that differ from rounding to nearest */
    int64_t accumulator_bits;    /* bits that worst-case inputs need within a tile */
    int64_t sum_bits;            /* bits that the sum of the tiles needs */
    double seconds;
    double prepare_seconds,
        /* parts of `seconds`: preparing the factor; measuring errors, and rounding to nearest */
        compare_seconds;
} dt_round_report;

/* The codes of a weight. */
typedef struct dt_rounded {
    int64_t rows, columns, groups; /* rows of all op groups; columns; scales per row */
    int8_t *codes;                 /* [rows][columns], stored signed form, original column order */
    float *scale;                  /* [rows][groups] */
    int8_t *zero_point;            /* [rows][groups]; NULL: the scheme has none */
    int32_t *group_of; /* DT_ORDER_GROUP: [op groups][columns], each column's scale; else NULL */
} dt_rounded;

typedef struct dt_round_work {
    const char *name;                   /* for messages; NULL: "a weight" */
    const dt_tensor *weight;            /* f32, contiguous, in the op's shape */
    const dt_weight_op *op;             /* NULL: linear */
    const dt_quant_spec *quant;         /* spec of the weight */
    const dt_rounding_options *options; /* NULL: the defaults */
    dt_statistics *statistics;          /* consumed; NULL only for DT_ROUND_NEAREST */
    /* [rows][groups]: given scales and zero points, for example of a learned range. scale NULL: the
     * scheme computes both; zero_point NULL with a scale: zero points are 0. */
    const float *scale;
    const int8_t *zero_point;
} dt_round_work;

/* Rounds one weight. The caller frees *out with dt_rounded_free. `report` may be NULL. The codes do
 * not depend on the number of threads. Errors: CONFIG (invalid or contradictory settings), ARG (the
 * rounder needs statistics and there are none), SHAPE, DTYPE, NUMERIC (a weight, scale or sum
 * that is not finite), STATE (statistics of no sample, or of another shape), NOMEM. */
DT_API dt_status dt_round(dt_ctx *ctx, const dt_round_work *work, dt_rounded **out,
                          dt_round_report *report);
DT_API void dt_rounded_free(dt_ctx *ctx, dt_rounded *r); /* NULL is allowed */

/* ---- many weights --------------------------------------------------------------------------- */

/* Totals over the weights of a model, or of a file. */
typedef struct dt_ptq_report {
    int64_t layers, elements;
    int64_t fallbacks; /* layers whose matrix could not be factored */
    int64_t unreached; /* layers that no calibration batch reached, rounded to nearest */
    int64_t untreated; /* weights of layer types that rounders do not support (embeddings) */
    int64_t unseen;    /* experts of grouped weights that too few rows reached */
    int64_t corrected; /* layers whose bias was corrected */
    int64_t dead, zeros_kept, kept_nearest;
    int64_t accumulator_bits; /* the largest of any layer */
    double seconds;
} dt_ptq_report;

/* ---- a model -------------------------------------------------------------------------------- */

/* Calibration data: batches of a model's input, each fetched several times. */
typedef struct dt_calibration {
    int64_t batches;
    /* Lends batch i, always with the same values, until the next call. */
    dt_status (*batch)(void *user, int64_t i, dt_tensor **x);
    void *user;
} dt_calibration;

typedef struct dt_ptq_options {
    dt_rounding_options rounding; /* accumulator.input empty: each layer's input codes */
    /* To the bias of each layer that a batch reaches, W E[x] - W^ E[x^] is added [Nagel et al.
     * 2019]: E is the mean over all batches, x the layer's input in `reference`, x^ in the model
     * quantized so far, W and W^ the weight before and after rounding. So outputs keep their means.
     * Experts, layers without bias, and layers whose weight was already rounded in another layer
     * are not corrected. */
    bool correct_bias;
    size_t cache; /* bytes of activations cached between layers; 0: each layer costs a full pass */
    /* Called after each weight, which is then packed in the model; later weights are still
     * prepared. `path` is the weight's path. May be NULL. dt_ptq stops at an error of this function
     * and returns it. */
    dt_status (*done)(void *user, const char *path, const dt_round_report *report);
    void *user;
} dt_ptq_options;

/* The default: rounding to nearest; a cache of 1 GiB. */
DT_API dt_ptq_options dt_ptq_defaults(void);

/* Converts a prepared model layer by layer, in execution order. The inputs Xq of a layer come from
 * the model quantized so far. If the rounder needs X too, X comes from `reference`, the same model
 * in float (NULL: X is Xq). An expert's inputs are the rows routed to it; an expert with too few
 * rows is rounded to nearest (`unseen`). Weights with a folded norm are rounded after folding. A
 * layer that is used several times, or shares its weight, is rounded with the inputs of its first
 * use. Weights without known inputs are rounded to nearest and counted: those of layers that no
 * batch reaches (`unreached`) and of types that rounders do not support (`untreated`). The
 * context's logger gets the path of each such layer, embeddings excepted. With DT_ROUND_NEAREST no
 * statistics are collected, without correct_bias `data` may be NULL, and the result is that of
 * dt_convert. Input ranges that have observed no batch are calibrated first, on all batches of
 * `data`, in float.
 *
 * Weights that are already packed are not changed. A second call, after an error or on a model
 * loaded from a file saved in `done`, continues and gives the same bits as a single call, for any
 * `cache` and number of threads. Both models run in evaluation mode without gradients; afterwards
 * their modes are restored. Modules must pass results to others only by returning them. `report`
 * may be NULL; it has the totals of the weights that this call packed. Errors, naming the layer:
 * STATE (not prepared, a weight that a tape needs, a range that no batch has reached), CONFIG
 * (settings that do not suit a layer's scheme), ARG (no batches; a reference without that layer),
 * NUMERIC (inputs that are not finite), those of the model, of `batch` and of `done`, NOMEM. */
DT_API dt_status dt_ptq(dt_module *m, dt_module *reference, const dt_calibration *data,
                        const dt_ptq_options *options, dt_ptq_report *report);

/* ---- rotation ------------------------------------------------------------------------------- */

typedef struct dt_rotate_options {
    uint64_t seed;              /* seed of the random signs */
    const dt_calibration *data; /* ids [batch, tokens], to learn from; NULL: not learned */
    /* block.hadamard of *out: Hadamard matrices before the output layers of its mlps, computed in
     * every pass; 0: none are added */
    int64_t hadamard;
} dt_rotate_options;

/* Makes *out, a float model with the same function as `from` up to rounding, whose residual stream
 * and attention values are rotated by orthogonal matrices, which are folded into its weights. This
 * distributes a channel with large values over all channels, so that few bits lose less accuracy
 * [Ashkboos et al. 2024]. Weights of norms become 1. `from` is a float model of family llama with
 * `options`; it is not changed. *rotated are the options of *out: `from`'s, but not tied, since
 * embedding and head differ. `how` NULL: seed 0. Matrices: diag(signs) (DCT-II x Hadamard), for any
 * width. Errors: UNSUPPORTED (another family; norms after attention and mlp), STATE (prepared,
 * converted, adapters, Hadamard matrices twice), ARG (options that are not the model's; an order
 * that is not a power of two or does not divide hidden, or with moe), those of `data`, NUMERIC (a
 * weight or an activation that is not finite), NOMEM. */
DT_API dt_status dt_rotate(dt_module *from, const dt_llama_options *options,
                           const dt_rotate_options *how, dt_module **out,
                           dt_llama_options *rotated);

#ifdef __cplusplus
}
#endif
#endif
