/* Training steps with gradients as products of integers (train.backward), in turn with the float
 * step and the QAT step whose backward is float. `qat-int8-backward` leaves the first and the last
 * layer in float, `qat-int8-all-backward` the last alone. A row `cosine` has the cosine between all
 * gradients of such a step and those of the float backward, of the same forward pass.
 * `float-bf16-step` and `qat-bf16-backward` use train.float: bf16; the rows with `tiles` use
 * bf16-tiles. With `explain` rows also show where the step's time goes, including what still runs
 * in fp32. */
#include "bench/account.h"
#include "bench/measure.h"
#include "bench/nets.h"

#include <detent/ops.h>
#include <detent/optim.h>
#include <detent/experimental/qat.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct work {
    const char *name;
    int64_t batch;
    dt_ints sizes;      /* an mlp, */
    const dt__net *net; /* or an image network, */
    dt_gpt_options gpt; /* or a language model */
    int64_t tokens;
} work;

#define GPT(length, n)                                                                             \
    {                                                                                              \
        .vocab = 65, .context = length, .layers = (n) / 64 > 2 ? 6 : 4,                            \
        .heads = (n) / 64 > 2 ? 6 : 4, .width = n, .bias = true, .tied = true, .eps = 1e-5         \
    }

static const work tasks[] = {
    { "768-256-128-10", 64, .sizes = { 4, { 768, 256, 128, 10 } } },
    { "768-256-128-10", 512, .sizes = { 4, { 768, 256, 128, 10 } } },
    { "1024-4096-4096-1024", 256, .sizes = { 4, { 1024, 4096, 4096, 1024 } } },
    { "cnn", 128, .net = &dt__net_cnn },
    { "resnet20", 128, .net = &dt__net_resnet20 },
    { "dscnn", 128, .net = &dt__net_dscnn },
    { "mobilenet", 128, .net = &dt__net_mobilenet },
    { "gpt-128", 12, .gpt = GPT(64, 128), .tokens = 64 },
    { "gpt-384", 8, .gpt = GPT(256, 384), .tokens = 256 },
};
static const work quick_task = { "64-32-10", 16, .sizes = { 3, { 64, 32, 10 } } };

enum { FLOAT, QAT, BF16, QAT_BF16, TILES, QAT_TILES, INT8, INT8_ALL, FORMS };
static const char *const forms[FORMS] = {
    "float-step",        "qat-float-backward",    "float-bf16-step",
    "qat-bf16-backward", "float-bf16-tiles-step", "qat-bf16-tiles-backward",
    "qat-int8-backward", "qat-int8-all-backward"
};
static const int products[FORMS] = { [BF16] = DT_PRODUCTS_BF16,
                                     [QAT_BF16] = DT_PRODUCTS_BF16,
                                     [TILES] = DT_PRODUCTS_BF16_TILES,
                                     [QAT_TILES] = DT_PRODUCTS_BF16_TILES };

typedef struct subject {
    const work *task;
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    dt_optimizer *o;
    dt_tensor *x, *labels;
    dt__account *account;
} subject;

static dt_tensor *loss_of(const subject *s)
{
    if (s->task->tokens > 0) return dt_token_loss(s->t, s->m, s->x, s->labels, NULL, NULL);
    return dt_cross_entropy(s->t, dt_forward(s->t, s->m, s->x), s->labels, NULL);
}

static dt_status step(void *user)
{
    subject *s = user;
    dt__account_phase(s->account, "forward");
    dt_tape_reset(s->t);
    dt_zero_grad(s->m);
    dt_tensor *loss = loss_of(s);
    dt__account_phase(s->account, "backward");
    DT__TRY(dt_backward(s->t, loss, NULL));
    dt__account_phase(s->account, "update");
    const dt_status status = dt_optimizer_step(s->o, s->t, 1e-3);
    dt__account_phase(s->account, NULL);
    return status;
}

/* ---- subjects -------------------------------------------------------------------------------- */

static dt_status make_batch(const work *task, subject *s)
{
    const bool tokens = task->tokens > 0;
    int64_t dims[4] = { task->batch, tokens ? task->tokens : task->sizes.v[0] };
    int rank = 2;
    int64_t classes = task->sizes.n > 0 ? task->sizes.v[task->sizes.n - 1] : task->gpt.vocab;
    if (task->net != NULL) {
        memcpy(dims + 1, task->net->image, sizeof task->net->image);
        classes = task->net->classes;
        rank = 4;
    }
    DT__TRY(dt_tensor_create(s->ctx, tokens ? DT_I32 : DT_F32, rank, dims, &s->x));
    DT__TRY(dt_tensor_create(s->ctx, DT_I32, tokens ? 2 : 1, dims, &s->labels));
    int32_t *label = dt_data_mut(s->labels);
    for (int64_t i = 0; i < dt_count(s->labels); i++) label[i] = (int32_t)(i * 7 % classes);
    if (!tokens) return dt_fill_uniform(s->x, 0, 1);
    int32_t *id = dt_data_mut(s->x);
    for (int64_t i = 0; i < dt_count(s->x); i++) id[i] = (int32_t)(i * i % 1009 % classes);
    return DT_OK;
}

static dt_status make_model(const work *task, subject *s)
{
    const dt_mlp_options mlp = { .sizes = task->sizes, .bias = true };
    if (task->tokens > 0) return dt_gpt_create(s->ctx, &task->gpt, &s->m);
    return task->net != NULL ? task->net->create(s->ctx, &s->m)
                             : dt_mlp_create(s->ctx, &mlp, &s->m);
}

static dt_status fill_subject(const work *task, int form, subject *s)
{
    DT__TRY(dt_tape_create(s->ctx, &s->t));
    DT__TRY(make_model(task, s));
    DT__TRY(dt_optimizer_create(s->m, NULL, &s->o));
    if (form != FLOAT && form != BF16 && form != TILES) DT__TRY(dt_prepare(s->m, NULL));
    DT__TRY(dt_set_products(s->ctx, products[form]));
    if (form >= INT8) {
        const int backward = form == INT8 ? DT_BACKWARD_INT8 : DT_BACKWARD_INT8_ALL;
        DT__TRY(dt_set_backward(s->m, backward));
    }
    dt_train(s->m, true);
    DT__TRY(make_batch(task, s));
    for (int i = 0; i < 2; i++) DT__TRY(step(s));
    return DT_OK;
}

static dt_status make(dt__bench *b, const work *task, int form, subject *s)
{
    s->task = task;
    DT__TRY(dt__bench_ctx(b, dt_threads(b->ctx), &s->ctx));
    const dt_status status = fill_subject(task, form, s);
    return status == DT_OK ? DT_OK : dt_fail(b->ctx, status, "%s", dt_error(s->ctx));
}

static void free_subject(dt__bench *b, subject *s)
{
    dt__account_free(b, s->account);
    dt_tensor_free(s->x);
    dt_tensor_free(s->labels);
    dt_optimizer_free(s->o);
    dt_module_free(s->m);
    dt_tape_free(s->t);
    dt_ctx_free(s->ctx);
}

/* ---- the gradients' error -------------------------------------------------------------------- */

/* Sums over all parameters of the products of two copies of a gradient. */
typedef struct compared {
    double ab, aa, bb;
    float **kept; /* from the first pass, by parameter; NULL: this is the first pass */
    int64_t n;
    bool second;
    dt_ctx *ctx;
} compared;

static dt_status visit_gradient(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    compared *c = user;
    (void)path;
    if (kind != DT_PARAM || dt_grad(x) == NULL) return DT_OK;
    const float *g = dt_data(dt_grad(x));
    const int64_t count = dt_count(x), i = c->n++;
    if (!c->second) {
        c->kept[i] = dt__alloc_array(c->ctx, count, sizeof(float));
        if (c->kept[i] == NULL) return DT_ERR_NOMEM;
        memcpy(c->kept[i], g, (size_t)count * sizeof *g);
        return DT_OK;
    }
    for (int64_t k = 0; k < count; k++) {
        c->ab += (double)g[k] * (double)c->kept[i][k];
        c->aa += (double)g[k] * (double)g[k];
        c->bb += (double)c->kept[i][k] * (double)c->kept[i][k];
    }
    return DT_OK;
}

static dt_status gradients(subject *s, int backward, compared *c)
{
    DT__TRY(dt_set_backward(s->m, backward));
    dt_tape_reset(s->t);
    dt_zero_grad(s->m);
    DT__TRY(dt_backward(s->t, loss_of(s), NULL));
    c->n = 0;
    return dt_module_visit(s->m, visit_gradient, c);
}

#define MOST_PARAMETERS 512

/* Runs in evaluation mode, since updated running statistics would change the second forward
 * pass. */
static dt_status report_cosine(dt__bench *b, subject *s, int form)
{
    const int backward = form == INT8 ? DT_BACKWARD_INT8 : DT_BACKWARD_INT8_ALL;
    char name[DT__BENCH_NAME];
    compared c = { .ctx = s->ctx };
    c.kept = dt__alloc_zero(s->ctx, MOST_PARAMETERS * sizeof *c.kept);
    dt_train(s->m, false);
    dt_status status = c.kept == NULL ? DT_ERR_NOMEM : gradients(s, DT_BACKWARD_FLOAT, &c);
    c.second = true;
    if (status == DT_OK) status = gradients(s, backward, &c);
    for (int i = 0; c.kept != NULL && i < MOST_PARAMETERS; i++) dt__release(s->ctx, c.kept[i]);
    dt__release(s->ctx, c.kept);
    dt_train(s->m, true);
    if (status != DT_OK) return dt_fail(b->ctx, status, "%s", dt_error(s->ctx));
    dt__bench_name(b, name, "backward/%s/b%lld/%s/cosine", s->task->name, (long long)s->task->batch,
                   forms[form]);
    const double cosine = c.ab / sqrt(c.aa * c.bb);
    return b->row(b->row_user, &(dt_bench_row){ .name = name,
                                                .unit = "cosine",
                                                .value = cosine,
                                                .low = cosine,
                                                .high = cosine,
                                                .repetitions = 1,
                                                .share_of_limit = NAN });
}

/* ---- rows ------------------------------------------------------------------------------------ */

static dt_status explain(dt__bench *b, const work *task)
{
    subject plain = { 0 }, watched = { 0 };
    char prefix[64];
    snprintf(prefix, sizeof prefix, "backward/%s/b%lld/%s", task->name, (long long)task->batch,
             forms[INT8_ALL]);
    dt_status status = make(b, task, INT8_ALL, &plain);
    if (status == DT_OK) status = make(b, task, INT8_ALL, &watched);
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

static dt_status compare(dt__bench *b, const work *task)
{
    subject s[FORMS] = { { 0 } };
    dt__trial t[FORMS];
    dt_status status = DT_OK;
    for (int i = 0; i < FORMS; i++) {
        if (status == DT_OK) status = make(b, task, i, &s[i]);
        t[i] = (dt__trial){ .unit = "ms", .run = step, .subject = &s[i], .limit = DT__NO_TRIAL };
        t[i].steady = true;
        t[i].ctx = s[i].ctx;
        dt__bench_name(b, t[i].name, "backward/%s/b%lld/%s", task->name, (long long)task->batch,
                       forms[i]);
        t[i].silent = i < BF16;
        if (i < BF16) continue;
        t[i].ratio[0].trial = FLOAT;
        t[i].ratio[0].name = "float";
        t[i].ratio[1].trial = QAT;
        t[i].ratio[1].name = "qat";
    }
    /* Runs before the timed steps, which reduce the loss on the single batch to 0. */
    for (int i = INT8; i < FORMS; i++) {
        if (status == DT_OK) status = report_cosine(b, &s[i], i);
    }
    if (status == DT_OK) status = dt__measure(b, FORMS, t);
    for (int i = 0; i < FORMS; i++) free_subject(b, &s[i]);
    if (status == DT_OK && b->options.explain) status = explain(b, task);
    return status;
}

dt_status dt__bench_backward(dt__bench *b)
{
    if (b->options.quick) return compare(b, &quick_task);
    for (int i = 0; i < DT__COUNT_OF(tasks); i++) DT__TRY(compare(b, &tasks[i]));
    return DT_OK;
}
