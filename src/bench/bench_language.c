/* Training steps of language models: forward with the loss in chunks of tokens, backward, AdamW; in
 * float, and under QAT with the default preset (int8 activations, int4 weights in groups of 32).
 *
 * gpt-128 is the public small recipe for characters (4 layers, 768 tokens a step), gpt-384 has a
 * usual width of heads. A linear layer counts 6 operations per weight and token; attention 14 per
 * element of a head and visible pair of tokens. `attention` is that op alone, of all layers,
 * forward and backward; its ratio to the float step is its share of the step. */
#include "bench/measure.h"
#include "core/clock.h"

#include <detent/experimental/nn.h>
#include <detent/experimental/ops.h>
#include <detent/optim.h>
#include <detent/qat.h>

#include <math.h>

#define MOST_STEPS 4096

typedef struct work {
    const char *name;
    dt_gpt_options model;
    int64_t batch, tokens; /* sequences, and tokens per sequence */
} work;

#define GPT(vocabulary, length, depth, n_heads, size)                                              \
    {                                                                                              \
        .vocab = vocabulary, .context = length, .layers = depth, .heads = n_heads, .width = size,  \
        .bias = true, .tied = true, .eps = 1e-5                                                    \
    }

static const work tasks[] = {
    { "gpt-128", GPT(65, 64, 4, 4, 128), 12, 64 },
    { "gpt-384", GPT(65, 256, 6, 6, 384), 8, 256 },
};
static const work quick_task = { "gpt-16", GPT(20, 8, 2, 2, 16), 2, 8 };

/* A model with everything that a step needs. */
typedef struct subject {
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    dt_optimizer *o;
    dt_tensor *ids, *labels;
    size_t peak;
    double *seconds; /* of the latest MOST_STEPS steps */
    int64_t steps;
} subject;

static dt_status step(void *user)
{
    subject *s = user;
    const double start = dt__seconds();
    dt_tape_reset(s->t);
    dt_zero_grad(s->m);
    dt_tensor *loss = dt_token_loss(s->t, s->m, s->ids, s->labels, NULL, NULL);
    DT__TRY(dt_backward(s->t, loss, NULL));
    DT__TRY(dt_optimizer_step(s->o, s->t, 1e-3));
    s->seconds[s->steps++ % MOST_STEPS] = dt__seconds() - start;
    return DT_OK;
}

static dt_status make_ids(const work *task, subject *s)
{
    const int64_t dims[] = { task->batch, task->tokens };
    DT__TRY(dt_tensor_create(s->ctx, DT_I32, 2, dims, &s->ids));
    DT__TRY(dt_tensor_create(s->ctx, DT_I32, 2, dims, &s->labels));
    int32_t *id = dt_data_mut(s->ids), *label = dt_data_mut(s->labels);
    for (int64_t i = 0; i < dims[0] * dims[1]; i++) {
        id[i] = (int32_t)(i * i % 1009 % task->model.vocab);
        label[i] = (int32_t)((i + 1) * (i + 1) % 1009 % task->model.vocab);
    }
    return DT_OK;
}

/* Each subject has its own context, so that its memory can be measured. Two steps warm up; the
 * third measures the peak. */
static dt_status make(dt__bench *b, const work *task, bool qat, subject *s)
{
    s->seconds = dt__alloc_array(b->ctx, MOST_STEPS, sizeof(double));
    if (s->seconds == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt__bench_ctx(b, dt_threads(b->ctx), &s->ctx));
    dt_status status = dt_tape_create(s->ctx, &s->t);
    if (status == DT_OK) status = dt_gpt_create(s->ctx, &task->model, &s->m);
    if (status == DT_OK) status = dt_optimizer_create(s->m, NULL, &s->o);
    if (status == DT_OK && qat) status = dt_prepare(s->m, NULL);
    if (status == DT_OK) status = make_ids(task, s);
    if (status == DT_OK) dt_train(s->m, true);
    for (int i = 0; status == DT_OK && i < 3; i++) {
        dt_memory_reset_peak(s->ctx);
        status = step(s);
    }
    if (status != DT_OK) return dt_fail(b->ctx, status, "%s", dt_error(s->ctx));
    s->peak = dt_memory_of(s->ctx).peak;
    s->steps = 0;
    return DT_OK;
}

static void free_subject(dt__bench *b, subject *s)
{
    dt__release(b->ctx, s->seconds);
    dt_tensor_free(s->ids);
    dt_tensor_free(s->labels);
    dt_optimizer_free(s->o);
    dt_module_free(s->m);
    dt_tape_free(s->t);
    dt_ctx_free(s->ctx);
}

/* ---- attention alone ------------------------------------------------------------------------ */

typedef struct heads {
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *x[3], *up; /* q, k and v */
    int64_t layers;
} heads;

static dt_status make_heads(dt__bench *b, const work *task, heads *h)
{
    const dt_gpt_options *m = &task->model;
    const int64_t dims[] = { task->batch, task->tokens, m->heads, m->width / m->heads };
    h->layers = m->layers;
    DT__TRY(dt__bench_ctx(b, dt_threads(b->ctx), &h->ctx));
    dt_status status = dt_tape_create(h->ctx, &h->t);
    for (int i = 0; i < 4 && status == DT_OK; i++) {
        dt_tensor **x = i < 3 ? &h->x[i] : &h->up;
        status = dt_tensor_create(h->ctx, DT_F32, 4, dims, x);
        if (status == DT_OK) status = dt_fill_normal(*x, 0, 1);
        if (status == DT_OK && i < 3) status = dt_set_requires_grad(*x, true);
    }
    if (status != DT_OK) dt_fail(b->ctx, status, "%s", dt_error(h->ctx));
    return status;
}

static dt_status attend(void *user)
{
    heads *h = user;
    const dt_attention_operands in = { .q = h->x[0], .k = h->x[1], .v = h->x[2] };
    for (int64_t i = 0; i < h->layers; i++) {
        dt_tape_reset(h->t);
        DT__TRY(dt_backward(h->t, dt_attention(h->t, &in, NULL, NULL), h->up));
    }
    return DT_OK;
}

static void free_heads(heads *h)
{
    for (int i = 0; i < 3; i++) dt_tensor_free(h->x[i]);
    dt_tensor_free(h->up);
    dt_tape_free(h->t);
    dt_ctx_free(h->ctx);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static double attention_operations(const work *task)
{
    const double pairs = (double)task->tokens * (double)(task->tokens + 1) / 2;
    return 14 * (double)(task->batch * task->model.layers * task->model.width) * pairs;
}

static double operations(const work *task)
{
    const dt_gpt_options *m = &task->model;
    const int64_t weights = 12 * m->layers * m->width * m->width + m->vocab * m->width;
    return 6 * (double)(task->batch * task->tokens) * (double)weights + attention_operations(task);
}

enum { FLOAT, QAT, ATTENTION, LIMIT, TRIALS };
static const char *const kinds[] = { "float", "qat", "attention" };

static void name_of(dt__bench *b, const work *task, const char *what, char name[DT__BENCH_NAME])
{
    dt__bench_name(b, name, "language/%s/b%lldx%lld/%s", task->name, (long long)task->batch,
                   (long long)task->tokens, what);
}

static dt_status hand_on(dt__bench *b, const work *task, const char *const what[2],
                         const dt__quartiles *v)
{
    char name[DT__BENCH_NAME];
    name_of(b, task, what[0], name);
    return b->row(b->row_user, &(dt_bench_row){ .name = name,
                                                .unit = what[1],
                                                .value = v->median,
                                                .low = v->low,
                                                .high = v->high,
                                                .repetitions = v->n,
                                                .share_of_limit = NAN });
}

/* Reports tokens per second and peak memory of both steps. */
static dt_status report(dt__bench *b, const work *task, const subject s[2])
{
    static const char *const speed[][2] = { { "float-tokens", "tokens/s" },
                                            { "qat-tokens", "tokens/s" } };
    static const char *const memory[][2] = { { "float-peak", "MiB" }, { "qat-peak", "MiB" } };
    for (int i = FLOAT; i <= QAT; i++) {
        const int n = (int)dt__min_i64(s[i].steps, MOST_STEPS);
        for (int k = 0; k < n; k++) {
            s[i].seconds[k] = (double)(task->batch * task->tokens) / s[i].seconds[k];
        }
        const dt__quartiles spread = dt__quartiles_of(n, s[i].seconds);
        DT__TRY(hand_on(b, task, speed[i], &spread));
    }
    for (int i = FLOAT; i <= QAT; i++) { /* numbers of bytes do not vary */
        const double bytes = (double)s[i].peak / 1048576;
        DT__TRY(hand_on(b, task, memory[i], &(dt__quartiles){ bytes, bytes, bytes, 1 }));
    }
    return DT_OK;
}

static void fill_trials(dt__bench *b, const work *task, subject *s, heads *h, dt__trial *t)
{
    void *const subjects[] = { [FLOAT] = &s[FLOAT], [QAT] = &s[QAT], [ATTENTION] = h };
    dt_ctx *const own[] = { [FLOAT] = s[FLOAT].ctx, [QAT] = s[QAT].ctx, [ATTENTION] = h->ctx };
    for (int i = FLOAT; i <= ATTENTION; i++) {
        t[i] = (dt__trial){ .unit = "ms",
                            .work = i == ATTENTION ? attention_operations(task) : operations(task),
                            .run = i == ATTENTION ? attend : step,
                            .subject = subjects[i],
                            .ctx = own[i],
                            .limit = i == QAT ? DT__NO_TRIAL : LIMIT };
        name_of(b, task, kinds[i], t[i].name);
    }
    for (int i = QAT; i <= ATTENTION; i++) {
        t[i].ratio[0].trial = FLOAT;
        t[i].ratio[0].name = "float";
    }
}

static dt_status compare(dt__bench *b, const work *task)
{
    subject s[2] = { { 0 } };
    heads h = { 0 };
    dt__trial t[TRIALS];
    dt__limit_subject limit;
    dt_status status = make(b, task, false, &s[FLOAT]);
    if (status == DT_OK) status = make(b, task, true, &s[QAT]);
    if (status == DT_OK) status = make_heads(b, task, &h);
    fill_trials(b, task, s, &h, t);
    if (status == DT_OK) status = dt__limit_trial(b, DT__LIMIT_F32, &limit, &t[LIMIT]);
    if (status == DT_OK) status = dt__measure(b, TRIALS, t);
    if (status == DT_OK) status = report(b, task, s);
    for (int i = FLOAT; i <= QAT; i++) free_subject(b, &s[i]);
    free_heads(&h);
    return status;
}

dt_status dt__bench_language(dt__bench *b)
{
    if (b->options.quick) {
        DT__TRY(compare(b, &quick_task));
    } else {
        for (int i = 0; i < DT__COUNT_OF(tasks); i++) DT__TRY(compare(b, &tasks[i]));
    }
    return dt__bench_decode(b);
}
