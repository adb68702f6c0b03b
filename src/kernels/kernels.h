/* The tables of kernels: loops over raw pointers and strides. Kernels neither allocate nor report
 * errors; the caller has checked all operands. Every kernel gives the same bits on any number of
 * threads, which it takes from the calling thread's team (core/threads.h).
 *
 * kernels.inc lists all kernels. It generates the struct of function pointers, the prototypes of
 * the plain C kernels (dt__<name>__ref_f32, dt__<name>__ref_f64; dt__<name>__ref if f32 only), and
 * the two plain tables. Plain bodies are written once for both dtypes in plain_<family>.inc, which
 * plain_f32.c and plain_f64.c include with their own REAL.
 *
 * Each instruction set has its own table for f32 (sets.h). Its file compiles the plain bodies again
 * with the set's instructions: the same operations in the same order give the same bits. Kernels
 * written by hand are in x86/<family>_<set>.c and replace the compiled ones in the table. */
#ifndef DT__KERNELS_KERNELS_H
#define DT__KERNELS_KERNELS_H

#include "core/threads.h"
#include "kernels/attention_args.h"
#include "kernels/convolution/bf16_tile.h"
#include "kernels/products/quantize_rows.h"
#include "kernels/convolution/conv_geometry.h"
#include "kernels/products/gemm.h"
#include "kernels/loops.h"
#include "kernels/moe.h"
#include "kernels/products/panels.h"
#include "kernels/planes.h"
#include "kernels/gradients/q7.h"
#include "kernels/products/requantize.h"
#include "kernels/cells.h"

/* The epilogue of a product: x = x + bias + residual, in that order, then y = max(x, 0) or
 * function(x). */
typedef struct dt__after {
    int64_t rows, n;
    void *x;              /* [rows][n]: the product */
    const void *bias;     /* [n], or NULL */
    const void *residual; /* [rows][n], or NULL */
    bool relu;
    uint8_t *bits; /* [rows][dt__bit_row(n)]: relu's mask, as in the kernel `relu`; or NULL */
    void (*function)(int64_t n, const void *x, void *y); /* a kernel of the table, or NULL */
    void *y; /* x itself, or other memory if x is kept as the function's operand */
} dt__after;

/* Bytes of a row of n bits. */
static inline int64_t dt__bit_row(int64_t n) { return dt__ceil_div(n, 8); }

/* d = dy where the bit is set, else 0; sum[j], unless NULL, is the sum of d's column j, rows
 * ascending. d may be dy. */
typedef struct dt__mask_rows {
    int64_t rows, n;
    const uint8_t *bits; /* [rows][dt__bit_row(n)] */
    const void *dy;
    void *d, *sum;
} dt__mask_rows;

/* y[i...] = x[i...] for every index below dims. Strides are in elements, of any sign; 0 in x
 * broadcasts. Different indices of y must be different elements. */
typedef struct dt__copy {
    int rank;
    int64_t dims[DT_MAX_RANK];
    const void *x;
    int64_t x_strides[DT_MAX_RANK];
    void *y;
    int64_t y_strides[DT_MAX_RANK];
} dt__copy;

/* y[j][i] = x[i][j] for i < rows, j < columns. */
typedef struct dt__transpose {
    int64_t rows, columns;
    const float *x; /* [rows][ldx] */
    int64_t ldx;
    float *y; /* [columns][ldy] */
    int64_t ldy;
} dt__transpose;

/* Up to four columns of a position's row: column i is at offset + at[i]. The columns of four
 * neighbouring positions, `step` bytes apart (of eight positions with a step of 1), lie within 16
 * bytes, which vector kernels read at once. */
typedef struct dt__taps {
    int32_t offset;
    uint8_t at[4]; /* at most DT__TAPS_NEAR(step) */
} dt__taps;
#define DT__TAPS_READ 16
#define DT__TAPS_STEP 4 /* largest step */
#define DT__TAPS_NEAR(step) (DT__TAPS_READ - 1 - ((step) == 1 ? 7 : 3 * (step)))

/* Codes of a tile of positions for a product (im2col). Four columns of a position's row are a word;
 * positions lie side by side in blocks of 16: to[block][word][position][4].
 *
 * Four neighbouring positions are a quad. A word of a quad is the OR of its parts: byte i of
 * position k's word is at from + offset + at[i] + k step, or 0 if at[i] is DT__GATHER_NONE. Where a
 * row of the image ends inside of a quad, it consists of several runs of lanes; from[r] is the
 * address of run r minus the distance of its first lane from lane 0. Up to DT__GATHER_READ bytes
 * before and behind a row's codes are read. */
#define DT__GATHER_READ 64
#define DT__GATHER_NONE 0x80
#define DT__BLOCK 16 /* positions */

typedef struct dt__gather_quad {
    int runs;
    int past[4];            /* the first lane behind each run */
    const uint8_t *from[4]; /* one per run */
} dt__gather_quad;

typedef struct dt__gathering {
    int64_t words, blocks;
    int64_t step;         /* 0: each lane is a run */
    const int32_t *first; /* [words + 1]: the first part of each word */
    const dt__taps *part;
    const dt__gather_quad *quad; /* [blocks][4] */
    uint8_t *to;
} dt__gathering;

/* A convolution's product of a tile of positions (numerics §2): for each output o and position m
 *     acc = -(zu[m] ksum[o]);  per piece   acc = fmaf((float)s, scale[o], acc)
 *     s = the sum of u w over the piece's words + absent[o] zu[m];   y = sx[m] acc + bias[o]
 * `absent`, or NULL, is the sum of the codes whose columns the words leave out, since these columns
 * read the code of zero. Outputs lie in octets, the last one filled up with zeros. */
#define DT__OCTET 8

typedef struct dt__qtile {
    bool nibbles; /* codes of at most 4 bits */
    int64_t positions, outputs, words, pieces;
    const int32_t *length; /* words of each piece */
    const uint8_t *u;      /* [blocks][words][DT__BLOCK][4], aligned to 64 */
    const uint8_t *w;      /* signed codes [octets][words][DT__OCTET][4] */
    /* The same codes by output, for sets that multiply rows: [octets][DT__OCTET][row bytes], where
     * each piece is padded with zeros to a multiple of `fill` words, 8 or 16. Up to `fill` words
     * behind u may then be read. NULL: not given. */
    const uint8_t *rows;
    int64_t row;
    int fill;
    const float *scale;     /* [octets][pieces][DT__OCTET] */
    const int32_t *absent;  /* likewise */
    const float *ksum;      /* [octets][DT__OCTET] */
    const float *bias;      /* [outputs], or NULL */
    const float *sx, *zu_f; /* [blocks][DT__BLOCK], aligned to 64 */
    const int32_t *zu;
    float *y;      /* [outputs][ldy] */
    int32_t *sums; /* in place of y: s of a single piece; NULL: y */
    int64_t ldy;
} dt__qtile;

/* A line of outputs of a depthwise convolution, by numerics §2. A word is up to four taps of a
 * group of scales, and tap k of position i reads u[i step + offset + at[k]]. Results up to the next
 * multiple of DT__DEPTHWISE_ROUND are written. */
#define DT__DEPTHWISE_ROUND 32

typedef struct dt__qdepthwise {
    int64_t n, step, groups; /* groups of scales */
    const int32_t *length;   /* words of each group, of at most DT__PIECE taps */
    const dt__taps *word;
    const int8_t (*codes)[4]; /* the codes of each word; 0 for absent taps */
    const uint8_t *u;
    const float *scale;
    float ksum, zu, sx;
    const float *bias; /* a single value, or NULL */
    float *y;
} dt__qdepthwise;

/* Backward of silu(gate) up, n elements: dgate and dup may each be NULL or dy. */
typedef struct dt__swiglu_backward {
    int64_t n;
    const void *gate, *up, *dy;
    void *dgate, *dup;
} dt__swiglu_backward;

/* x as [outer][channels][inner], and a slope for each channel. */
typedef struct dt__prelu {
    dt__lines lines;
    const void *x, *slope;
} dt__prelu;

/* Dropout: word i of a random stream decides on element i. */
typedef struct dt__drop {
    uint64_t key, counter, threshold; /* of 2^32 */
    double scale;
} dt__drop;

/* Cross entropy over `lines`; a row is one (outer, inner). Backward needs two numbers of a row: the
 * largest logit m, and the sum of exp(x - m). */
typedef struct dt__cross_entropy {
    dt__lines lines;
    const void *x;
    const void *labels; /* i32, or i64 where wide */
    bool wide;
    int64_t ignore;
    double smoothing;
    double gamma;       /* of the focal loss, where smoothing is 0 */
    const void *weight; /* [classes]; NULL: 1 */
    void *row;          /* [rows][2] */
    double *loss;       /* [rows]; forward only */
} dt__cross_entropy;

/* A loss that is a sum over n elements of x and its target, divided by `divisor` (forward only). */
typedef struct dt__pointwise {
    int64_t n;
    const void *x, *target;
    double delta;       /* huber_loss */
    const void *weight; /* bce_with_logits: [columns], the weights of positive targets; NULL: 1 */
    int64_t columns;
    double divisor;
} dt__pointwise;

/* The online softmax of a row: the largest logit m so far, the sum of exp(x - m), and the sum of
 * x. */
typedef struct dt__online {
    double most, total, sum;
} dt__online;

/* The state of a row in dt__logits: of its logits, and of a teacher's. */
typedef struct dt__logits_row {
    dt__online x, teacher;
    int64_t best;  /* index of the first largest logit */
    double chosen; /* the label's logit */
    double soft;   /* sum of exp((x - most) / T) */
    double cross;  /* sum of exp((t - most of t) / T) (t - x) */
} dt__logits_row;

/* Losses from rows of logits x, a block of classes at a time: cross entropy, and distillation from
 * a teacher's logits t (Hinton et al. 2015). With p = softmax(t / T) and q = softmax(x / T)
 *     l = (1 - share) cross entropy + share T^2 sum of p (log p - log q)
 * Forward is called for the blocks of a row in ascending order and finishes the row with the last.
 * Blocks but the last have a multiple of DT__LOGITS classes. */
#define DT__LOGITS 512

typedef struct dt__logits {
    int64_t rows, n;        /* rows and columns of this block */
    int64_t first, classes; /* the block's first class; number of classes */
    void *x;                /* [rows][n]; backward writes the gradient there */
    const void *teacher;    /* [rows][n], or NULL: share is 0 */
    const void *labels;     /* i32, or i64 where wide */
    bool wide;
    int64_t ignore;
    double smoothing, share, temperature;
    dt__logits_row *row; /* forward: [rows] */
    void *kept;          /* for backward: [rows][DT__LOGITS_KEPT] */
    double *loss;        /* forward: [rows] */
    /* forward: the cross entropy without the teacher's term, [rows]; or NULL */
    void *entropy;
    int32_t *best; /* forward: [rows], -1 if the label is ignored; or NULL */
} dt__logits;

/* What forward keeps of a row: the largest logit m, the sums of exp(x - m) and of exp((x - m) / T);
 * then the first and third of these for the teacher's logits. */
#define DT__LOGITS_KEPT 5

/* Rows sorted by expert: those of expert e are row[start[e]] ... row[start[e + 1] - 1], or, if row
 * is NULL, rows start[e] ... start[e + 1] - 1. */
typedef struct dt__rows_by_expert {
    int64_t experts, n; /* n: elements of a row */
    const int64_t *start, *row;
} dt__rows_by_expert;

/* Row i of y [rows][n] is the sum of rows row[i * parts] ... row[i * parts + parts - 1] of x, in
 * that order; negative row numbers add nothing. */
typedef struct dt__row_sums {
    int64_t rows, parts, n;
    const int64_t *row;
} dt__row_sums;

typedef struct dt__gather {
    int64_t count, n; /* count of indices; elements of a row */
    const void *index;
    dt_dtype type; /* type of the indices: i32, i64, or floats that are whole numbers */
} dt__gather;

static inline int64_t dt__gather_at(const dt__gather *g, int64_t i)
{
    switch (g->type) {
    case DT_I64: return ((const int64_t *)g->index)[i];
    case DT_F32: return (int64_t)((const float *)g->index)[i];
    case DT_F64: return (int64_t)((const double *)g->index)[i];
    default: return ((const int32_t *)g->index)[i];
    }
}

/* y = (x - mean) rstd weight + bias over rows of n; stats [rows][2] holds mean and rstd. weight and
 * bias may be NULL. In backward d is { dx, dweight, dbias }, each of which may be NULL. */
typedef struct dt__layer_norm {
    int64_t rows, n;
    double eps;
    const void *x, *weight, *bias;
    void *y;
    double *stats;
} dt__layer_norm;

/* y = x r weight over rows of n, r = 1 / sqrt(mean of x^2 + eps), which rstd [rows] holds. weight
 * may be NULL. In backward d is { dx, dweight }, each of which may be NULL. */
typedef struct dt__rms_norm {
    int64_t rows, n;
    double eps;
    const void *x, *weight;
    void *y;
    double *rstd;
} dt__rms_norm;

/* y = (x / factor - mean) rstd weight + bias [+ residual; relu, relu6] per channel, of lines.outer
 * x lines.n channels x lines.inner. stats [3][channels]: mean and biased variance of x / factor,
 * and rstd = 1 / sqrt(variance + eps): of the batch in training, else from `mean` and `var`.
 * weight, bias, factor and residual may be NULL. In backward d is { dx, dweight, dbias, dresidual,
 * dfactor }, each of which may be NULL; dx or dresidual may be dy. */
/* With a batch in shards, each shard first computes its sums; the caller adds them up
 * (autograd/tape.h). */
typedef enum dt__norm_stage { DT__NORM_WHOLE, DT__NORM_SUMS, DT__NORM_APPLY } dt__norm_stage;

typedef struct dt__batch_norm {
    dt__lines lines;
    double eps;
    bool training, relu, relu6; /* at most one activation */
    const void *x, *weight, *bias, *factor;
    const void *mean, *var; /* statistics for evaluation */
    const void *residual;   /* like x */
    void *y;
    double *stats;
    double *room; /* dt__batch_norm_room elements */
    /* the activation's mask, dt__bit_row bytes for each row of inner elements, or of channels if
     * inner is 1; NULL in forward if it is not needed */
    uint8_t *bits;
    /* The stage, in training. DT__NORM_SUMS only writes `own` (in backward also dweight, dbias,
     * dfactor): for each channel the mean and the sum of (x - mean)^2, in backward the sums of g
     * and of g (x - mean factor). DT__NORM_APPLY continues with those of all shards, `all`,
     * [2][channels] like `own`. */
    dt__norm_stage stage;
    double *own;
    const double *all;
    double all_count; /* values of a channel */
} dt__batch_norm;

#define DT__BATCH_NORM_PARTS 16 /* parts of x, each with its own sums */

static inline int64_t dt__batch_norm_room(const dt__lines *l)
{
    return l->inner == 1 ? 0 : (2 * DT__BATCH_NORM_PARTS + 4) * l->n;
}

/* y = (x - mean) rstd weight + bias over each of outer x groups rows of channels x inner; weight
 * and bias, per channel of all groups, may be NULL; stats [rows][2] holds mean and rstd. In
 * backward d is { dx, dweight, dbias }, each of which may be NULL; dx may be dy; `room` has
 * [rows][channels][2]. */
typedef struct dt__group_norm {
    int64_t outer, groups, channels, inner; /* channels: of a group */
    double eps;
    const void *x, *weight, *bias;
    void *y;
    double *stats, *room;
} dt__group_norm;

/* factor = weight / sqrt(var + eps), slope = 1 / sqrt(var + eps); with `keep`, factor 1 and slope 0
 * where the factor is below the smallest normal float. */
typedef struct dt__fold_factors {
    int64_t n;
    double eps;
    bool keep;
    const void *weight, *var;
    void *factor, *slope;
} dt__fold_factors;

typedef struct dt__sgd {
    int64_t n;
    void *p;
    const void *g;
    void *buffer;  /* NULL without momentum */
    double factor; /* multiplies g */
    double lr, momentum, dampening, decay;
    bool nesterov, first; /* first: buffer is set, not read */
} dt__sgd;

/* p = p * shrink; g' = factor g + decay p; m, v follow g'; p -= rate m / (sqrt(v) + eps). With b =
 * sqrt(1 - beta2^n) this is Adam's update if `eps` is b times Adam's and `rate` is b lr / (1 -
 * beta1^n): it takes one division per element instead of two. */
typedef struct dt__adam {
    int64_t n;
    void *p;
    const void *g;
    void *m, *v;
    double factor, beta1, beta2, eps, decay, shrink, rate;
} dt__adam;

/* g' = factor g; p = p * shrink - lr sign(beta1 m + (1-beta1) g'); m = beta2 m + (1-beta2) g' */
typedef struct dt__lion {
    int64_t n;
    void *p;
    const void *g;
    void *m;
    double factor, beta1, beta2, shrink, lr;
} dt__lion;

/* A part of a tensor whose elements share a learned scale. */
typedef struct dt__learn {
    int64_t n;
    const void *scale;        /* one element */
    int qmin, qmax;           /* range of codes; unsigned ones begin at 0 */
    bool all;                 /* dx = dy for clipped elements too */
    const dt__levels *levels; /* the codes; NULL: all of qmin ... qmax */
    const void *x, *dy;
    void *dx; /* may be dy */
    double *sum;
} dt__learn;

enum { DT__BELOW = -128, DT__ABOVE = 127 }; /* residuals of clipped elements */

typedef struct dt__kernels {
#define DT__KERNEL(name, arguments) void(*name) arguments;
#define DT__KERNEL_F32(name, result, arguments) result(*name) arguments;
#include "kernels/kernels.inc"
#undef DT__KERNEL
#undef DT__KERNEL_F32
    bool vectors; /* a vector set, not plain C: convolutions of floats may go to oneDNN */
    bool rows;    /* qd8_tile multiplies the rows of a weight, if `rows` is given */
} dt__kernels;

#define DT__KERNEL(name, arguments)                                                                \
    void dt__##name##__ref_f32 arguments;                                                          \
    void dt__##name##__ref_f64 arguments;
#define DT__KERNEL_F32(name, result, arguments) result dt__##name##__ref arguments;
#include "kernels/kernels.inc"
#undef DT__KERNEL
#undef DT__KERNEL_F32

extern const dt__kernels dt__kernels_ref_f32, dt__kernels_ref_f64;

/* Sets ctx->kernels[DT_F32] and [DT_F64] to the best tables that the processor supports and
 * ctx->cpu_mask allows. */
dt_status dt__kernels_open(dt_ctx *ctx);

static inline const dt__kernels *dt__kernels_of(const dt_ctx *ctx, dt_dtype dtype)
{
    return ctx->kernels[dtype == DT_F64];
}

/* Returns the same copy without dimensions of extent 1, and with neighbouring dimensions merged
 * where x and y are contiguous across them, so that the inner loop is as long as possible. */
dt__copy dt__copy_merged(const dt__copy *c);
/* dt__copy for elements of any size: 1, 2, 4 or 8 bytes. */
void dt__copy_bytes(const dt__copy *c, size_t element);

/* Chunks of a loop, which threads share. They depend on the count alone, so partial sums do not
 * depend on the number of threads. Chunk i holds the elements from i * DT__CHUNK to the lesser of
 * that + DT__CHUNK and n. */
#define DT__CHUNK ((int64_t)16384)

#endif
