/* ptq.h: post-training quantization: codes chosen by calibration data instead of to nearest.
 *
 * A weight is a set of work matrices W [rows][columns], one for each group of the layer (a linear
 * layer has one): rows are output channels, columns run over [in/groups, kernel]. X [columns][n]
 * are the inputs that are multiplied by W. A sample is a row of a linear layer's input, or an
 * output position of a convolution. Xq are the inputs in the model quantized so far.
 * docs/rounding.md has the algorithms.
 */
#ifndef DETENT_PTQ_H
#define DETENT_PTQ_H

#include <detent/ops.h>
#include <detent/qat.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- settings ----------------------------------------------------------------------------- */

enum {
    DT_ROUND_NEAREST, /* no data */
    DT_ROUND_GPTQ,    /* Xq */
    DT_ROUND_GPFQ,    /* X and Xq */
    DT_ROUND_QRONOS,
    DT_ROUND_A2GPTQ, /* the same, for accumulators of so many bits */
    DT_ROUND_A2GPFQ,
    DT_ROUND_A2QRONOS
};
enum { DT_ORDER_NONE, DT_ORDER_WEIGHT, DT_ORDER_GROUP };
enum { DT_MEAN_LIVE, DT_MEAN_ALL };
enum { DT_SCALES_FROZEN, DT_SCALES_REFRESH };
enum { DT_DIFFUSE_CLAMPED, DT_DIFFUSE_ALL };

typedef struct dt_rounding {
    int order;               /* DT_ORDER_...: in which columns are rounded */
    double damping;          /* of GPTQ: added to the diagonal of H, a share of its mean */
    double damping_absolute; /* of GPTQ and Qronos, in place of a share; 0: not given */
    int damping_mean;        /* DT_MEAN_...: over live columns, or all (dead ones as 1) */
    double alpha;            /* of Qronos: damping as a share of the largest eigenvalue */
    int64_t block;           /* columns whose errors reach the rest together */
    int64_t least_rows;      /* an expert with fewer is rounded to nearest; 0: as many as columns */
    bool keep_zeros;         /* where at least 5 % of the weight is 0, zeros stay 0 */
    bool keep_better;        /* a row keeps nearest where that has the smaller error */
    int group_scales;        /* DT_SCALES_...; of DT_PER_GROUP */
} dt_rounding;

/* Limits of a device's accumulators, for the a2 rounders. */
typedef struct dt_accumulator {
    int64_t bits; /* P, 2...32; sums lie in -(2^(P-1)-1) ... 2^(P-1)-1; 0: not given */
    int64_t tile; /* columns of one accumulator, at most a scale group; 0: all that share a scale */
    dt_ints input; /* smallest and largest integer input, first <= 0 <= second; none: 0...255 */
    bool soft_threshold; /* arguments shrink before they are clamped */
    int diffuse;         /* DT_DIFFUSE_...: the error from the clamped argument, or all of it */
} dt_accumulator;

typedef struct dt_rounding_options {
    int rounder; /* DT_ROUND_... */
    dt_rounding rounding;
    dt_accumulator accumulator;
} dt_rounding_options;

/* Nearest. */
DT_API dt_rounding_options dt_rounding_defaults(void);
/* rounder, rounding: {...}, accumulator: {...} */
extern DT_API const dt_key dt_rounding_options_keys[];

/* ---- a weight by itself --------------------------------------------------------------------- */

enum {
    DT_WEIGHT_LINEAR, /* [out, in]; all but the first dimension are columns, whatever the rank */
    DT_WEIGHT_CONV1D,
    DT_WEIGHT_CONV2D,
    DT_WEIGHT_CONV_TRANSPOSE1D,
    DT_WEIGHT_CONV_TRANSPOSE2D,
    DT_WEIGHT_GROUPED_LINEAR /* [experts, out, in]: each expert is a linear weight of its own */
};

/* The op that a weight belongs to: its shape says the rest. */
typedef struct dt_weight_op {
    int kind;             /* DT_WEIGHT_... */
    dt_conv_options conv; /* of the convolutions */
} dt_weight_op;

/* Sums over the inputs of one layer: H = sum Xq Xq^T, and where the float model's inputs differ
 * G = sum Xq X^T and sum X X^T, in double, for each group. */
typedef struct dt_statistics dt_statistics;

/* For a weight of this shape; `differ`: the float model's inputs will be given, too. Takes room for
 * H, and then for G and half a square more, of each group, and some 16 MiB; of a grouped weight all
 * of this for each expert, when its first row comes. It keeps its context. Errors: ARG (op,
 * options), SHAPE, NOMEM. */
DT_API dt_status dt_statistics_create(dt_ctx *ctx, const dt_weight_op *op, int rank,
                                      const int64_t *dims, bool differ, dt_statistics **out);
/* Adds a batch of inputs as the op takes them, f32, dense and contiguous: [..., in] of a linear
 * layer, [N, C, W] or [N, C, H, W]. `x` are the float model's, NULL where `differ` was false. Sums
 * have the same bits on any number of threads, and however the samples were cut into batches.
 * Errors: SHAPE, DTYPE, ARG, NUMERIC (an element that is not finite, with its index); then nothing
 * was added. */
DT_API dt_status dt_statistics_add(dt_statistics *s, const dt_tensor *xq, const dt_tensor *x);
/* The same for a grouped weight, whose experts see the rows that are routed to them
 * (dt_grouped_linear); rows that go nowhere are not looked at. Errors besides: ARG (routes that
 * name no expert). */
DT_API dt_status dt_statistics_add_routed(dt_statistics *s, const dt_tensor *xq, const dt_tensor *x,
                                          const dt_routes *routes);
/* Samples so far: rows of a linear layer's inputs, positions of a convolution's output; of a
 * grouped weight the rows of all experts. */
DT_API int64_t dt_statistics_samples(const dt_statistics *s);
DT_API void dt_statistics_free(dt_statistics *s); /* NULL is allowed */

/* What became of a weight. */
typedef struct dt_round_report {
    const char *method; /* static: the rounder used; "nearest" after a fallback */
    bool fallback;      /* the matrix of some group could not be factored at any damping */
    bool unreached;     /* to nearest, because no calibration batch reached the layer */
    bool untreated;     /* to nearest, because rounders do not know the layer's type */
    int64_t rows, columns, groups; /* of the layer: rows of all groups, columns of one */
    int64_t samples;
    int64_t dead;           /* columns whose inputs are all 0, of all groups */
    int64_t zeros_kept;     /* elements; 0 where too few were zero */
    int64_t kept_nearest;   /* rows where nearest had the smaller error */
    int64_t unseen;         /* experts of a grouped weight with too few rows: to nearest */
    dt_ints unseen_experts; /* the first of them */
    double damping_share;   /* lambda that worked (the largest of the groups') */
    double damping;         /* what was added to the diagonal (likewise) */
    double loss;            /* GPTQ's and Qronos' sum of e^2/2, before rows went back to nearest */
    double error, nearest_error; /* ||W X - W^ Xq||, and that of nearest under the same bounds */
    int64_t changed;             /* codes that differ from nearest's */
    int64_t accumulator_bits;    /* that the worst inputs need within a tile */
    int64_t sum_bits;            /* that the sum of the tiles needs */
    double seconds;
    double prepare_seconds,
        compare_seconds; /* of them: until the first column; errors and nearest */
} dt_round_report;

/* The codes of a weight. */
typedef struct dt_rounded {
    int64_t rows, columns, groups; /* of all groups of the op; of one; of scales in a row */
    int8_t *codes;      /* [rows][columns], stored signed form, in the columns' own order */
    float *scale;       /* [rows][groups] */
    int8_t *zero_point; /* [rows][groups]; NULL: the scheme has none */
    int32_t *group_of; /* of DT_ORDER_GROUP, [op groups][columns]: each column's scale; else NULL */
} dt_rounded;

typedef struct dt_round_work {
    const char *name;                   /* for messages; NULL: "a weight" */
    const dt_tensor *weight;            /* f32, contiguous, as the op has it */
    const dt_weight_op *op;             /* NULL: linear */
    const dt_quant_spec *quant;         /* of weights */
    const dt_rounding_options *options; /* NULL: the defaults */
    dt_statistics *statistics;          /* they are used up; NULL: of DT_ROUND_NEAREST alone */
    /* [rows][groups]: given scales and zero points, as of learned ranges. scale NULL: the scheme
     * computes both; zero_point NULL with a scale: 0. */
    const float *scale;
    const int8_t *zero_point;
} dt_round_work;

/* Rounds one weight. *out is the caller's, for dt_rounded_free. `report` may be NULL. The same
 * codes on any number of threads. Errors: CONFIG (settings, or some that contradict each other),
 * ARG (no statistics for a rounder that wants them), SHAPE, DTYPE, NUMERIC (a weight, scale or sum
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
    int64_t untreated; /* weights whose layer's type no rounder knows (embeddings): to nearest */
    int64_t unseen;    /* experts of grouped weights that too few rows reached */
    int64_t dead, zeros_kept, kept_nearest;
    int64_t accumulator_bits; /* the most of any layer */
    double seconds;
} dt_ptq_report;

/* ---- a model -------------------------------------------------------------------------------- */

/* Calibration data: batches of a model's input, fetched again and again. */
typedef struct dt_calibration {
    int64_t batches;
    /* Lends batch i, always with the same values, until the next call. */
    dt_status (*batch)(void *user, int64_t i, dt_tensor **x);
    void *user;
} dt_calibration;

typedef struct dt_ptq_options {
    dt_rounding_options rounding; /* no accumulator.input: what the codes of each layer's can be */
    size_t cache; /* bytes of activations kept between layers; 0: each layer costs a whole pass */
    /* After each weight: it is packed in the model from here on, the others are still prepared.
     * `path` is the weight's. May be NULL. An error ends dt_ptq with it. */
    dt_status (*done)(void *user, const char *path, const dt_round_report *report);
    void *user;
} dt_ptq_options;

/* Nearest; 1 GiB of activations. */
DT_API dt_ptq_options dt_ptq_defaults(void);

/* Converts a prepared model layer by layer in the order in which they run: each layer's inputs are
 * those of the part quantized so far, and of `reference`, the same model in float, where the
 * rounder looks at both (NULL: it takes the quantized ones for both). Experts see the rows that are
 * routed to them; one with too few rows is rounded to nearest (`unseen`). Weights with a folded
 * norm are rounded folded. A layer that is used several times, or shares its weight, is rounded by
 * the inputs of its first use. Weights whose inputs are not known are rounded to nearest, counted
 * and marked in their report: those of layers that no batch reaches (`unreached`), and of types
 * that no rounder knows (`untreated`). Of both the context's logger hears the layer's path, but not
 * of embeddings. With DT_ROUND_NEAREST nothing runs, `data` may be NULL, and m becomes what
 * dt_convert makes of it. Ranges of inputs that have seen no batch first see all of these, in
 * float.
 *
 * Weights that are packed already stay: after an error, or from a file saved in `done`, a second
 * call goes on, and ends with the same bits as one call alone, whatever `cache` and the number of
 * threads are. Both models run in evaluation mode without gradients and come back in the mode they
 * were in; modules hand on what they make by returning it. `report` may be NULL: totals of the
 * weights that this call has packed. Errors, naming the layer: STATE (not prepared, a weight that a
 * tape needs, a range that no batch has reached), CONFIG (settings that do not suit a layer's
 * scheme), ARG (no batches; a reference without that layer), NUMERIC (inputs that are not finite),
 * those of the model, of `batch` and of `done`, NOMEM. */
DT_API dt_status dt_ptq(dt_module *m, dt_module *reference, const dt_calibration *data,
                        const dt_ptq_options *options, dt_ptq_report *report);

#ifdef __cplusplus
}
#endif
#endif
