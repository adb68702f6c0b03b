/* Training steps: forward, cross entropy, backward, AdamW; in float, and under QAT with the default
 * preset (int8 activations, int4 weights in groups of 32).
 *
 * A product of forward or backward counts 2 m n k operations, two or three of them for each layer
 * (the first one's input needs no gradient); the float step's share of the limit counts those.
 * `held for backward` is the growth of memory during forward. `convolutions` are those of a float
 * step alone (nets.c). `beside-kernels` is the same step with kernels that do nothing (nothing.c),
 * compared with the step itself. */
#include "bench/account.h"
#include "bench/measure.h"
#include "bench/nets.h"
#include "bench/nothing.h"
#include "core/clock.h"

#include <detent/ops.h>
#include <detent/optim.h>
#include <detent/qat.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FORWARD, BACKWARD, UPDATE, PHASES };
#define MOST_STEPS 4096

static const char *const phase_names[PHASES] = { "forward", "backward", "update" };

typedef struct work {
    const char *name;
    dt_ints sizes; /* for an mlp */
    int64_t batch;
    bool beside;        /* also measure the step without its kernels */
    const dt__net *net; /* NULL: an mlp */
} work;

static const work tasks[] = {
    { "768-256-128-10", { 4, { 768, 256, 128, 10 } }, 64, true, NULL },
    { "768-256-128-10", { 4, { 768, 256, 128, 10 } }, 512, true, NULL },
    { "1024-4096-4096-1024", { 4, { 1024, 4096, 4096, 1024 } }, 256, false, NULL },
    { "cnn", .batch = 128, .net = &dt__net_cnn },
    { "resnet20", .batch = 128, .net = &dt__net_resnet20 },
    { "dscnn", .batch = 128, .net = &dt__net_dscnn },
    { "mobilenet", .batch = 128, .net = &dt__net_mobilenet },
};
static const work quick_task = { "64-32-10", { 3, { 64, 32, 10 } }, 16, true, NULL };

/* A model with everything that a step needs. */
typedef struct subject {
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    dt_optimizer *o;
    dt_tensor *x, *labels;
    size_t held, peak;
    dt__account *account;    /* NULL: none */
    double *seconds[PHASES]; /* per phase, of the latest MOST_STEPS steps */
    int64_t steps;
} subject;

static void note(subject *s, int phase, double seconds)
{
    s->seconds[phase][s->steps % MOST_STEPS] = seconds;
}

static dt_status step(void *user)
{
    subject *s = user;
    const double start = dt__seconds();
    dt__account_phase(s->account, phase_names[FORWARD]);
    dt_tape_reset(s->t);
    dt_zero_grad(s->m);
    const size_t before = dt_memory_of(s->ctx).used;
    dt_tensor *loss = dt_cross_entropy(s->t, dt_forward(s->t, s->m, s->x), s->labels, NULL);
    const double forward = dt__seconds();
    s->held = dt_memory_of(s->ctx).used - before;
    dt__account_phase(s->account, phase_names[BACKWARD]);
    DT__TRY(dt_backward(s->t, loss, NULL));
    const double backward = dt__seconds();
    dt__account_phase(s->account, phase_names[UPDATE]);
    DT__TRY(dt_optimizer_step(s->o, s->t, 1e-3));
    note(s, FORWARD, forward - start);
    note(s, BACKWARD, backward - forward);
    note(s, UPDATE, dt__seconds() - backward);
    dt__account_phase(s->account, NULL);
    s->steps++;
    return DT_OK;
}

/* ---- subjects ------------------------------------------------------------------------------- */

static dt_status make_batch(const work *task, subject *s)
{
    const dt__net *net = task->net;
    const int64_t classes = net != NULL ? net->classes : task->sizes.v[task->sizes.n - 1];
    int64_t dims[4] = { task->batch, task->sizes.v[0] };
    if (net != NULL) memcpy(dims + 1, net->image, sizeof net->image);
    DT__TRY(dt_tensor_create(s->ctx, DT_F32, net != NULL ? 4 : 2, dims, &s->x));
    DT__TRY(dt_fill_uniform(s->x, 0, 1));
    DT__TRY(dt_tensor_create(s->ctx, DT_I32, 1, &task->batch, &s->labels));
    int32_t *label = dt_data_mut(s->labels);
    for (int64_t i = 0; i < task->batch; i++) label[i] = (int32_t)(i * 7 % classes);
    return DT_OK;
}

static dt_status make_model(const work *task, bool qat, subject *s)
{
    const dt_mlp_options mlp = { .sizes = task->sizes, .bias = true };
    DT__TRY(dt_tape_create(s->ctx, &s->t));
    DT__TRY(task->net != NULL ? task->net->create(s->ctx, &s->m)
                              : dt_mlp_create(s->ctx, &mlp, &s->m));
    DT__TRY(dt_optimizer_create(s->m, NULL, &s->o));
    if (qat) DT__TRY(dt_prepare(s->m, NULL));
    dt_train(s->m, true);
    return make_batch(task, s);
}

/* Each subject has its own context, so that its memory can be measured. Two steps warm up; the
 * third measures the peak. */
static dt_status make(dt__bench *b, const work *task, bool qat, subject *s)
{
    for (int i = 0; i < PHASES; i++) {
        s->seconds[i] = dt__alloc_array(b->ctx, MOST_STEPS, sizeof(double));
        if (s->seconds[i] == NULL) return DT_ERR_NOMEM;
    }
    DT__TRY(dt__bench_ctx(b, dt_threads(b->ctx), &s->ctx));
    dt_status status = make_model(task, qat, s);
    for (int i = 0; status == DT_OK && i < 3; i++) {
        dt_memory_reset_peak(s->ctx);
        status = step(s);
    }
    s->peak = dt_memory_of(s->ctx).peak;
    s->steps = 0;
    if (status != DT_OK) dt_fail(b->ctx, status, "%s", dt_error(s->ctx));
    return status;
}

static void free_subject(dt__bench *b, subject *s)
{
    dt__account_free(b, s->account);
    for (int i = 0; i < PHASES; i++) dt__release(b->ctx, s->seconds[i]);
    dt_tensor_free(s->x);
    dt_tensor_free(s->labels);
    dt_optimizer_free(s->o);
    dt_module_free(s->m);
    dt_tape_free(s->t);
    dt_ctx_free(s->ctx);
}

/* The number of operations of all products of a step. */
static double operations(const work *task)
{
    double sum = 0;
    if (task->net != NULL) return dt__net_operations(task->net, task->batch);
    for (int i = 0; i + 1 < task->sizes.n; i++) {
        sum += (i == 0 ? 4.0 : 6.0) * (double)task->batch * (double)task->sizes.v[i] *
               (double)task->sizes.v[i + 1];
    }
    return sum;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Trials; a network has CONVOLUTIONS in place of FLOAT_BESIDE. */
enum { FLOAT, QAT, LIMIT, FLOAT_BESIDE, QAT_BESIDE, TRIALS, CONVOLUTIONS = FLOAT_BESIDE };
static const char *const kinds[TRIALS] = { [FLOAT] = "float",
                                           [QAT] = "qat",
                                           [FLOAT_BESIDE] = "float-beside-kernels",
                                           [QAT_BESIDE] = "qat-beside-kernels" };

static void name_of(dt__bench *b, const work *task, const char *what, char name[DT__BENCH_NAME])
{
    dt__bench_name(b, name, "step/%s/b%lld/%s", task->name, (long long)task->batch, what);
}

/* Reports the float and the QAT step, the latter with its ratio to the former. */
static dt_status report(dt__bench *b, const work *task, const char *what, const char *unit,
                        const dt__quartiles spread[2])
{
    for (int i = FLOAT; i <= QAT; i++) {
        char name[DT__BENCH_NAME], both[64];
        snprintf(both, sizeof both, "%s-%s", kinds[i], what);
        name_of(b, task, both, name);
        dt_bench_row row = { .name = name,
                             .unit = unit,
                             .value = spread[i].median,
                             .low = spread[i].low,
                             .high = spread[i].high,
                             .repetitions = spread[i].n,
                             .share_of_limit = NAN };
        if (i == QAT) {
            row.n_ratios = 1;
            row.ratio_to[0] =
                (dt_bench_ratio){ "float", spread[QAT].median / spread[FLOAT].median };
        }
        DT__TRY(b->row(b->row_user, &row));
    }
    return DT_OK;
}

static dt_status report_all(dt__bench *b, const work *task, subject s[2])
{
    dt__quartiles spread[2];
    for (int phase = 0; phase < PHASES; phase++) {
        for (int i = FLOAT; i <= QAT; i++) {
            const int n = (int)dt__min_i64(s[i].steps, MOST_STEPS);
            for (int k = 0; k < n; k++) s[i].seconds[phase][k] *= 1e3;
            spread[i] = dt__quartiles_of(n, s[i].seconds[phase]);
        }
        DT__TRY(report(b, task, phase_names[phase], "ms", spread));
    }
    for (int held = 0; held < 2; held++) { /* numbers of bytes do not vary */
        for (int i = FLOAT; i <= QAT; i++) {
            const double bytes = (double)(held ? s[i].held : s[i].peak) / 1048576;
            spread[i] = (dt__quartiles){ bytes, bytes, bytes, 1 };
        }
        DT__TRY(report(b, task, held ? "held" : "peak", "MiB", spread));
    }
    return DT_OK;
}

static void fill_trials(dt__bench *b, const work *task, subject *s, dt__trial *t)
{
    for (int i = 0; i < TRIALS; i++) {
        if (i == LIMIT) continue;
        t[i] = (dt__trial){ .unit = "ms",
                            .work = operations(task),
                            .run = step,
                            .subject = &s[i],
                            .ctx = s[i].ctx,
                            .steady = true,
                            .limit = DT__NO_TRIAL };
        name_of(b, task, kinds[i], t[i].name);
    }
    t[FLOAT].limit = LIMIT;
    t[QAT].ratio[0].trial = FLOAT;
    t[QAT].ratio[0].name = "float";
    t[FLOAT_BESIDE].ratio[0].trial = FLOAT;
    t[FLOAT_BESIDE].ratio[0].name = "step";
    t[QAT_BESIDE].ratio[0].trial = QAT;
    t[QAT_BESIDE].ratio[0].name = "step";
    if (task->net == NULL) return;
    name_of(b, task, "float-convolutions", t[CONVOLUTIONS].name);
    t[CONVOLUTIONS].run = dt__convs_run;
    t[CONVOLUTIONS].limit = LIMIT;
}

static dt_status compare(dt__bench *b, const work *task)
{
    subject s[TRIALS] = { { 0 } };
    dt__trial t[TRIALS];
    dt__limit_subject limit;
    dt__convs convs = { 0 };
    const int subjects = task->beside ? TRIALS : FLOAT_BESIDE;
    const int n = task->net != NULL ? CONVOLUTIONS + 1 : subjects;
    dt_status status = DT_OK;
    for (int i = 0; status == DT_OK && i < subjects; i++) {
        if (i == LIMIT) continue;
        status = make(b, task, i == QAT || i == QAT_BESIDE, &s[i]);
        if (i >= FLOAT_BESIDE && status == DT_OK) s[i].ctx->kernels[DT_F32] = &dt__kernels_nothing;
    }
    fill_trials(b, task, s, t);
    if (task->net != NULL) {
        if (status == DT_OK) status = dt__convs_make(b, task->net, task->batch, &convs);
        t[CONVOLUTIONS].subject = &convs;
        t[CONVOLUTIONS].ctx = convs.ctx;
    }
    if (status == DT_OK) status = dt__limit_trial(b, DT__LIMIT_F32, &limit, &t[LIMIT]);
    if (status == DT_OK) status = dt__measure(b, n, t);
    if (status == DT_OK) status = report_all(b, task, s);
    for (int i = 0; i < subjects; i++) free_subject(b, &s[i]);
    dt__convs_free(&convs);
    return status;
}

/* Measures where the time of a step goes: a step with an account, in turn with one without. */
static dt_status explain(dt__bench *b, const work *task, bool qat)
{
    subject plain = { 0 }, watched = { 0 };
    char prefix[64];
    snprintf(prefix, sizeof prefix, "step/%s/b%lld/%s", task->name, (long long)task->batch,
             kinds[qat ? QAT : FLOAT]);
    dt_status status = make(b, task, qat, &plain);
    if (status == DT_OK) status = make(b, task, qat, &watched);
    if (status == DT_OK) {
        status = dt__account_create(b, watched.ctx, watched.t, &watched.account);
    }
    if (status == DT_OK) {
        const dt__trial both[2] = {
            { .run = step, .subject = &plain, .ctx = plain.ctx, .steady = true },
            { .run = step, .subject = &watched, .ctx = watched.ctx, .steady = true }
        };
        status = dt__account_measure(b, watched.account, prefix, both);
    }
    free_subject(b, &plain);
    free_subject(b, &watched);
    return status;
}

static dt_status measure_task(dt__bench *b, const work *task)
{
    DT__TRY(compare(b, task));
    if (!b->options.explain) return DT_OK;
    DT__TRY(explain(b, task, false));
    return explain(b, task, true);
}

dt_status dt__bench_step(dt__bench *b)
{
    if (b->options.quick) return measure_task(b, &quick_task);
    for (int i = 0; i < DT__COUNT_OF(tasks); i++) DT__TRY(measure_task(b, &tasks[i]));
    return DT_OK;
}
