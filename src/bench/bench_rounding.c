/* Rounding with calibration data: statistics, GPTQ, GPFQ and Qronos of a linear layer, 4096 x 4096,
 * and of a convolution, 1024 x 1024 x 3 x 3, to 4 bits in groups of 128 columns.
 *
 * With R rows, K columns and n samples these operations count:
 *
 *     sums          n K^2 for H; where the float model's inputs differ, 4 n K^2 for H, G and C
 *     prepare       2/3 K^3: a Cholesky factor and a triangular inverse
 *     columns       R K^2; GPFQ 2 R K^2; Qronos 3 R K^2, two triangles among them
 *     comparison    R K^2: the error of nearest; with G and C 5 R K^2, errors of both and G W^T
 *
 * All else is overhead. Runs take seconds: each is made once, unless repetitions are requested. */
#include "bench/measure.h"
#include "core/clock.h"
#include "core/tensor.h"

#include <detent/experimental/ptq.h>

#include <math.h>

typedef struct layer {
    const char *name;
    dt_weight_op op;
    int rank;
    int64_t dims[4], x[4];
    int64_t columns, samples;
} layer;

#define CONV                                                                                       \
    {                                                                                              \
        .stride = { 1, 1 }, .padding = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1                 \
    }

static const layer layers[] = {
    { "4096x4096", { .kind = DT_WEIGHT_LINEAR }, 2, { 4096, 4096 }, { 2048, 4096 }, 4096, 2048 },
    { "1024x1024x3x3",
      { DT_WEIGHT_CONV2D, CONV },
      4,
      { 1024, 1024, 3, 3 },
      { 8, 1024, 16, 16 },
      9216,
      2048 },
};
static const layer quick_layers[] = {
    { "96x64", { .kind = DT_WEIGHT_LINEAR }, 2, { 96, 64 }, { 80, 64 }, 64, 80 },
    { "12x8x3x3", { DT_WEIGHT_CONV2D, CONV }, 4, { 12, 8, 3, 3 }, { 2, 8, 5, 5 }, 72, 50 },
};

/* A rounder, and its number of operations divided by R K^2; `factor`: it computes the inverse
 * root. */
typedef struct method {
    const char *name;
    int rounder;
    bool differ, factor;
    double columns, comparison;
} method;

static const method methods[] = {
    { "gptq", DT_ROUND_GPTQ, false, true, 1, 1 },
    { "gpfq", DT_ROUND_GPFQ, true, false, 2, 5 },
    { "qronos", DT_ROUND_QRONOS, true, true, 3, 5 },
};

typedef struct subject {
    dt__bench *b;
    const layer *l;
    const method *method;
    dt_tensor *w, *x, *xq;
    double sums; /* seconds of the last run's statistics */
    double columns;
    dt_round_report report;
} subject;

/* Computes statistics, then rounds the weight. */
static dt_status run(void *user)
{
    subject *s = user;
    dt_statistics *sums;
    dt_rounded *out;
    dt_quant_spec quant = dt_weight_quant_defaults();
    dt_rounding_options options = dt_rounding_defaults();
    quant.group_size = s->b->options.quick ? 16 : 128;
    options.rounder = s->method->rounder;
    const double start = dt__seconds();
    DT__TRY(dt_statistics_create(s->b->ctx, &s->l->op, s->l->rank, s->l->dims, s->method->differ,
                                 &sums));
    dt_status status = dt_statistics_add(sums, s->xq, s->method->differ ? s->x : NULL);
    s->sums = dt__seconds() - start;
    const dt_round_work work = {
        .weight = s->w, .op = &s->l->op, .quant = &quant, .options = &options, .statistics = sums
    };
    if (status == DT_OK) status = dt_round(s->b->ctx, &work, &out, &s->report);
    if (status == DT_OK) dt_rounded_free(s->b->ctx, out);
    dt_statistics_free(sums);
    s->columns = s->report.seconds - s->report.prepare_seconds - s->report.compare_seconds;
    return status;
}

/* ---- subjects ------------------------------------------------------------------------------- */

static dt_status random_tensor(dt__bench *b, int rank, const int64_t *dims, dt_tensor **out)
{
    DT__TRY(dt_tensor_create(b->ctx, DT_F32, rank, dims, out));
    return dt_fill_uniform(*out, -1, 1);
}

/* xq is x rounded to multiples of 1/64. */
static dt_status make(dt__bench *b, const layer *l, subject *s)
{
    *s = (subject){ .b = b, .l = l };
    DT__TRY(random_tensor(b, l->rank, l->dims, &s->w));
    DT__TRY(random_tensor(b, l->rank, l->x, &s->x));
    DT__TRY(dt_tensor_create(b->ctx, DT_F32, l->rank, l->x, &s->xq));
    const float *x = dt__values(s->x);
    float *xq = dt__values_mut(s->xq);
    for (int64_t i = 0; i < s->x->count; i++) xq[i] = rintf(64 * x[i]) / 64;
    return DT_OK;
}

static void free_subject(subject *s)
{
    dt_tensor_free(s->w);
    dt_tensor_free(s->x);
    dt_tensor_free(s->xq);
}

/* ---- rows ----------------------------------------------------------------------------------- */

enum { LIMIT, RUN, ROUNDING, SUMS, PREPARE, COLUMNS, COMPARISON, TRIALS };

/* A trial for a part of a run, whose seconds are taken from the run's report. */
static dt__trial part_of(const subject *s, const char *what, double operations,
                         const double *seconds)
{
    dt__trial t = { .unit = "ms", .work = operations, .elapsed = seconds, .limit = LIMIT };
    dt__bench_name(s->b, t.name, "rounding/%s/%s%s", s->l->name, s->method->name, what);
    return t;
}

static void fill_trials(subject *s, dt__trial *t)
{
    const method *w = s->method;
    const double k = (double)s->l->columns, square = k * k;
    const double rows = (double)s->w->count / k, n = (double)s->l->samples;
    const double factor = w->factor ? 2.0 / 3 * k * square : 0;
    const double columns = w->columns * rows * square, errors = w->comparison * rows * square;
    t[RUN] = (dt__trial){ .silent = true, .unit = "ms", .run = run, .subject = s };
    t[RUN].slow = true;
    t[RUN].limit = DT__NO_TRIAL;
    t[ROUNDING] = part_of(s, "", factor + columns + errors, &s->report.seconds);
    t[SUMS] = part_of(s, "-sums", (w->differ ? 4 : 1) * n * square, &s->sums);
    t[PREPARE] = part_of(s, "-prepare", factor, &s->report.prepare_seconds);
    t[PREPARE].silent = !w->factor;
    t[COLUMNS] = part_of(s, "-columns", columns, &s->columns);
    t[COMPARISON] = part_of(s, "-comparison", errors, &s->report.compare_seconds);
}

static dt_status memory_row(const subject *s, size_t bytes)
{
    char name[DT__BENCH_NAME];
    dt__bench_name(s->b, name, "rounding/%s/%s-memory", s->l->name, s->method->name);
    const double squares = (double)bytes / (8 * (double)s->l->columns * (double)s->l->columns);
    dt_bench_row row = { .name = name,
                         .unit = "MiB",
                         .value = (double)bytes / (1 << 20),
                         .repetitions = 1,
                         .share_of_limit = NAN,
                         .ratio_to = { { "square", squares } },
                         .n_ratios = 1 };
    row.low = row.high = row.value;
    return s->b->row(s->b->row_user, &row);
}

static dt_status measure(subject *s)
{
    dt__bench *b = s->b;
    dt__trial trials[TRIALS];
    dt__limit_subject limit;
    DT__TRY(dt__limit_trial(b, DT__LIMIT_F64, &limit, &trials[LIMIT]));
    fill_trials(s, trials);
    dt_memory_reset_peak(b->ctx);
    const size_t before = dt_memory_of(b->ctx).used;
    const dt_status status = dt__measure(b, TRIALS, trials);
    dt__limit_free(&limit);
    DT__TRY(status);
    return memory_row(s, dt_memory_of(b->ctx).peak - before);
}

/* Skips the convolution with one thread, which takes minutes. */
static bool is_wanted(const dt__bench *b, int index)
{
    return b->options.quick || index == 0 || dt_threads(b->ctx) == dt_threads(b->user);
}

dt_status dt__bench_rounding(dt__bench *b)
{
    dt_status status = DT_OK;
    for (int i = 0; status == DT_OK && i < DT__COUNT_OF(layers); i++) {
        subject s;
        if (!is_wanted(b, i)) continue;
        status = make(b, b->options.quick ? &quick_layers[i] : &layers[i], &s);
        for (int w = 0; status == DT_OK && w < DT__COUNT_OF(methods); w++) {
            s.method = &methods[w];
            status = measure(&s);
            dt_memory_trim(b->ctx);
        }
        free_subject(&s);
    }
    return status;
}
