/* Linear layers with one grouped weight compared with separate layers on the same rows: forward and
 * backward, in float and under QAT (int8 activations, int4 weights in groups of 32; codes of
 * weights are computed once, those of activations in each run).
 *
 * `together`: rows are sorted by expert, given by offsets. `apart`: rows are in any order, given by
 * an index of two experts per row of x, so that they are gathered and scattered. The separate
 * layers get the rows of each expert as a tensor made before the measurement, without the cost of
 * sorting and gathering. In uneven cases the first expert gets nine tenths of the rows, and every
 * second other one a share of the rest. */
#include "bench/measure.h"
#include "core/clock.h"
#include "qat/quantized.h"

#include <detent/experimental/ops.h>
#include <detent/qat.h>

#include <math.h>

typedef struct work {
    int64_t experts, out, in, rows; /* rows: of y, over all experts */
    bool uneven, apart;
    bool backward;
} work;

static const work tasks[] = {
    { 8, 1024, 384, 2048, false, false, true }, { 8, 1024, 384, 8192, true, false, true },
    { 8, 1024, 384, 2048, false, true, true },  { 64, 512, 384, 2048, false, false, true },
    { 64, 512, 384, 2048, true, false, true },  { 64, 512, 384, 2048, false, true, true },
    { 64, 256, 128, 1536, false, true, true },  { 8, 1024, 384, 2, false, true, false },
    { 64, 512, 384, 64, false, true, false },
};
static const work quick_task = { 4, 32, 32, 64, false, true, true };

typedef struct subject {
    const work *task;
    dt_ctx *ctx;
    bool qat, grouped;
    int64_t n; /* number of products: 1, or one per expert with rows */
    dt_tape **t;
    dt_tensor **x, **w, **y, **dy; /* y: lent */
    dt_routes routes;
    double forward, backward; /* seconds of the latest run */
    size_t peak;
} subject;

static dt_tensor *product(subject *s, int64_t i)
{
    const dt_quant_spec quant = dt_activation_quant_defaults();
    dt_tape *t = s->t[i];
    dt_tensor *x = s->qat ? dt_fake_quant(t, s->x[i], &quant, true) : s->x[i];
    return s->grouped ? dt_grouped_linear(t, x, s->w[i], NULL, &s->routes)
                      : dt_linear(t, x, s->w[i], NULL);
}

/* Each layer has its own tape, so that each can run backward from its own y. */
static dt_status run(void *user)
{
    subject *s = user;
    const double start = dt__seconds();
    for (int64_t i = 0; i < s->n; i++) {
        dt_tape_reset(s->t[i]);
        dt_no_grad(s->t[i], !s->task->backward);
    }
    for (int64_t i = 0; i < s->n; i++) {
        s->y[i] = product(s, i);
        if (s->y[i] == NULL) return dt_tape_status(s->t[i]);
    }
    const double middle = dt__seconds();
    for (int64_t i = 0; i < s->n && s->task->backward; i++) {
        dt_grad_clear(s->x[i]);
        dt_grad_clear(s->w[i]);
        DT__TRY(dt_backward(s->t[i], s->y[i], s->dy[i]));
    }
    s->forward = middle - start;
    s->backward = dt__seconds() - middle;
    return DT_OK;
}

/* ---- subjects ------------------------------------------------------------------------------- */

/* The expert of row i. */
static int64_t expert_of(const work *task, int64_t i)
{
    if (!task->uneven) return i % task->experts;
    const int64_t others = task->experts / 2;
    return i % 10 != 0 || others == 0 ? 0 : 1 + i / 10 % others * 2;
}

static int64_t rows_of(const work *task, int64_t expert)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < task->rows; i++) rows += expert_of(task, i) == expert;
    return rows;
}

static dt_status make_tensor(const subject *s, int rank, const int64_t *dims, dt_tensor **out)
{
    DT__TRY(dt_tensor_create(s->ctx, DT_F32, rank, dims, out));
    DT__TRY(dt_fill_uniform(*out, -1, 1));
    return dt_set_requires_grad(*out, true);
}

static dt_status make_weight(const subject *s, int rank, const int64_t *dims, dt_tensor **out)
{
    dt__fq like = { .quant = dt_weight_quant_defaults() };
    DT__TRY(make_tensor(s, rank, dims, out));
    if (s->grouped) DT__TRY(dt_set_grouped(*out));
    if (s->grouped) like.map = dt__row_map_of_experts(dims[0]);
    return s->qat ? dt__fq_wrap(*out, &like) : DT_OK;
}

static dt_status make_routes(subject *s)
{
    const work *k = s->task;
    const int64_t index[2] = { k->rows / 2, 2 }, offsets = k->experts + 1;
    if (k->apart) {
        DT__TRY(dt_tensor_create(s->ctx, DT_I32, 2, index, &s->routes.index));
        int32_t *v = dt_data_mut(s->routes.index);
        for (int64_t i = 0; i < k->rows; i++) v[i] = (int32_t)expert_of(k, i);
        return DT_OK;
    }
    DT__TRY(dt_tensor_create(s->ctx, DT_I32, 1, &offsets, &s->routes.offsets));
    int32_t *v = dt_data_mut(s->routes.offsets);
    for (int64_t e = 0; e < k->experts; e++) v[e + 1] = v[e] + (int32_t)rows_of(k, e);
    return DT_OK;
}

static dt_status make_grouped(subject *s)
{
    const work *k = s->task;
    const int64_t y[3] = { k->rows / 2, 2, k->out };
    s->n = 1;
    DT__TRY(dt_tape_create(s->ctx, &s->t[0]));
    DT__TRY(make_routes(s));
    DT__TRY(make_weight(s, 3, (int64_t[]){ k->experts, k->out, k->in }, &s->w[0]));
    DT__TRY(make_tensor(s, 2, (int64_t[]){ k->apart ? k->rows / 2 : k->rows, k->in }, &s->x[0]));
    if (k->apart) return make_tensor(s, 3, y, &s->dy[0]);
    return make_tensor(s, 2, (int64_t[]){ k->rows, k->out }, &s->dy[0]);
}

static dt_status make_separate(subject *s)
{
    const work *k = s->task;
    for (int64_t e = 0; e < k->experts; e++) {
        const int64_t rows = rows_of(k, e), i = s->n;
        if (rows == 0) continue;
        s->n++;
        DT__TRY(dt_tape_create(s->ctx, &s->t[i]));
        DT__TRY(make_weight(s, 2, (int64_t[]){ k->out, k->in }, &s->w[i]));
        DT__TRY(make_tensor(s, 2, (int64_t[]){ rows, k->in }, &s->x[i]));
        DT__TRY(make_tensor(s, 2, (int64_t[]){ rows, k->out }, &s->dy[i]));
    }
    return DT_OK;
}

static dt_status make(dt__bench *b, const work *task, subject *s)
{
    s->task = task;
    DT__TRY(dt__bench_ctx(b, dt_threads(b->ctx), &s->ctx));
    dt_tensor ***const lists[] = { &s->x, &s->w, &s->y, &s->dy };
    const size_t bytes = (size_t)task->experts * sizeof(void *);
    dt_status status = DT_OK;
    for (int i = 0; status == DT_OK && i < DT__COUNT_OF(lists); i++) {
        *lists[i] = dt__alloc_zero(s->ctx, bytes);
        if (*lists[i] == NULL) status = DT_ERR_NOMEM;
    }
    s->t = dt__alloc_zero(s->ctx, bytes);
    if (s->t == NULL) status = DT_ERR_NOMEM;
    if (status == DT_OK) status = s->grouped ? make_grouped(s) : make_separate(s);
    for (int i = 0; status == DT_OK && i < 3; i++) {
        dt_memory_reset_peak(s->ctx);
        status = run(s);
    }
    s->peak = dt_memory_of(s->ctx).peak;
    if (status != DT_OK) dt_fail(b->ctx, status, "%s", dt_error(s->ctx));
    return status;
}

static void free_subject(subject *s)
{
    dt_tensor **const lists[] = { s->x, s->w, s->dy };
    for (int i = 0; i < DT__COUNT_OF(lists); i++) {
        for (int64_t k = 0; k < s->n && lists[i] != NULL; k++) dt_tensor_free(lists[i][k]);
        dt__release(s->ctx, lists[i]);
    }
    for (int64_t k = 0; k < s->n && s->t != NULL; k++) dt_tape_free(s->t[k]);
    dt__release(s->ctx, s->t);
    dt__release(s->ctx, s->y);
    dt_tensor_free(s->routes.index);
    dt_tensor_free(s->routes.offsets);
    dt_ctx_free(s->ctx);
}

/* ---- rows ----------------------------------------------------------------------------------- */

enum { FLOAT_GROUPED, FLOAT_SEPARATE, QAT_GROUPED, QAT_SEPARATE, SUBJECTS };
enum { RUN, FORWARD, BACKWARD, PARTS };

static const char *const kinds[] = { "float-grouped", "float-separate", "qat-grouped",
                                     "qat-separate" };
static const char *const parts[] = { "", "-forward", "-backward" };

static void name_of(const dt__bench *b, const work *k, const char *kind, const char *part,
                    char name[DT__BENCH_NAME])
{
    dt__bench_name(b, name, "experts/e%lld/n%lld/k%lld/m%lld/%s-%s/%s%s", (long long)k->experts,
                   (long long)k->out, (long long)k->in, (long long)k->rows,
                   k->uneven ? "uneven" : "even", k->apart ? "apart" : "together", kind, part);
}

static void fill_trials(const dt__bench *b, const work *k, subject *s, dt__trial *t)
{
    for (int i = 0; i < SUBJECTS; i++) {
        for (int part = RUN; part < PARTS; part++) {
            dt__trial *to = &t[i * PARTS + part];
            *to = (dt__trial){ .unit = "ms", .work = 1, .subject = &s[i], .limit = DT__NO_TRIAL };
            to->ctx = s[i].ctx;
            name_of(b, k, kinds[i], parts[part], to->name);
            if (part == RUN) to->run = run;
            else to->elapsed = part == FORWARD ? &s[i].forward : &s[i].backward;
            to->silent = part == BACKWARD && !k->backward;
            int ratios = 0;
            if (i == FLOAT_GROUPED || i == QAT_GROUPED) {
                to->ratio[ratios].trial = (i + 1) * PARTS + part;
                to->ratio[ratios++].name = "separate";
            }
            if (i < QAT_GROUPED || to->silent) continue;
            to->ratio[ratios].trial = (i - QAT_GROUPED) * PARTS + part;
            to->ratio[ratios].name = "float";
        }
    }
}

static dt_status report_peaks(dt__bench *b, const work *k, const subject *s)
{
    for (int i = 0; i < SUBJECTS; i++) {
        char name[DT__BENCH_NAME];
        name_of(b, k, kinds[i], "-peak", name);
        const double mib = (double)s[i].peak / 1048576;
        dt_bench_row row = { .name = name,
                             .unit = "MiB",
                             .value = mib,
                             .low = mib,
                             .high = mib,
                             .repetitions = 1,
                             .share_of_limit = NAN };
        if (i % 2 == 0) row.n_ratios = 1;
        row.ratio_to[0] = (dt_bench_ratio){ "separate", mib * 1048576 / (double)s[i | 1].peak };
        DT__TRY(b->row(b->row_user, &row));
    }
    return DT_OK;
}

static dt_status compare(dt__bench *b, const work *task)
{
    subject s[SUBJECTS] = { { 0 } };
    dt__trial t[SUBJECTS * PARTS];
    dt_status status = DT_OK;
    for (int i = 0; status == DT_OK && i < SUBJECTS; i++) {
        s[i].qat = i >= QAT_GROUPED;
        s[i].grouped = i % 2 == 0;
        status = make(b, task, &s[i]);
    }
    fill_trials(b, task, s, t);
    if (status == DT_OK) status = dt__measure(b, DT__COUNT_OF(t), t);
    if (status == DT_OK) status = report_peaks(b, task, s);
    for (int i = 0; i < SUBJECTS; i++) free_subject(&s[i]);
    return status;
}

dt_status dt__bench_experts(dt__bench *b)
{
    if (b->options.quick) return compare(b, &quick_task);
    for (int i = 0; i < DT__COUNT_OF(tasks); i++) DT__TRY(compare(b, &tasks[i]));
    return DT_OK;
}
