/* How costs grow: training steps of a gpt over its width and over its context, of a mixture over
 * its experts, in float and under QAT with the default preset; and epochs of a loader over the
 * number of images.
 *
 * A step is forward, backward and AdamW. It counts 3 multiply-adds per weight that a token uses,
 * and attention 7 per element of a head and visible pair of tokens. */
#include "bench/measure.h"

#include <detent/experimental/data.h>
#include <detent/experimental/nn.h>
#include <detent/ops.h>
#include <detent/optim.h>
#include <detent/qat.h>

#include <math.h>
#include <string.h>

enum { TOKENS = 2048, QUICK_TOKENS = 32, VOCABULARY = 65, PIXELS = 28 * 28, MOST_SIZES = 4 };

typedef struct subject {
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    dt_optimizer *o;
    dt_tensor *x, *labels; /* of tokens; for a mixture the input and the gradient of the output */
    dt_dataset *data;
    dt_loader *loader;
    int64_t items; /* tokens of a step, or number of images */
    double work;   /* multiply-adds per step */
} subject;

typedef struct kind {
    const char *name;
    int64_t size[MOST_SIZES], quick; /* `quick`: the only size with that option */
    dt_status (*make)(subject *s, int64_t size);
    dt_status (*run)(void *s);
    bool trains; /* has weights, and is measured in float and under QAT */
} kind;

static dt_status update(subject *s, dt_tensor *y, const dt_tensor *dy)
{
    DT__TRY(dt_backward(s->t, y, dy));
    return dt_optimizer_step(s->o, s->t, 1e-3);
}

/* ---- a gpt ----------------------------------------------------------------------------------- */

static dt_status step_tokens(void *user)
{
    subject *s = user;
    dt_tape_reset(s->t);
    dt_zero_grad(s->m);
    return update(s, dt_token_loss(s->t, s->m, s->x, s->labels, NULL, NULL), NULL);
}

static dt_status make_gpt(subject *s, int64_t width, int64_t context)
{
    const dt_gpt_options o = { .vocab = VOCABULARY,
                               .context = context,
                               .layers = 2,
                               .heads = dt__max_i64(width / 64, 1),
                               .width = width,
                               .bias = true,
                               .tied = true,
                               .eps = 1e-5 };
    const int64_t dims[] = { s->items / context, context };
    s->work = (double)s->items * (3.0 * (double)(24 * width + VOCABULARY) * (double)width +
                                  7.0 * (double)(context + 1) * (double)width);
    DT__TRY(dt_gpt_create(s->ctx, &o, &s->m));
    DT__TRY(dt_tensor_create(s->ctx, DT_I32, 2, dims, &s->x));
    DT__TRY(dt_tensor_create(s->ctx, DT_I32, 2, dims, &s->labels));
    int32_t *id = dt_data_mut(s->x), *label = dt_data_mut(s->labels);
    for (int64_t i = 0; i < s->items; i++) {
        id[i] = (int32_t)(i * i % 1009 % VOCABULARY);
        label[i] = (int32_t)((i + 1) * (i + 1) % 1009 % VOCABULARY);
    }
    return DT_OK;
}

static dt_status make_width(subject *s, int64_t width)
{
    return make_gpt(s, width, dt__min_i64(s->items, 64));
}

static dt_status make_context(subject *s, int64_t context) { return make_gpt(s, 256, context); }

/* ---- a mixture ------------------------------------------------------------------------------- */

static dt_status step_mixture(void *user)
{
    subject *s = user;
    dt_tape_reset(s->t);
    dt_zero_grad(s->m);
    return update(s, dt_forward(s->t, s->m, s->x), s->labels);
}

static dt_status make_mixture(subject *s, int64_t experts)
{
    const dt_moe_layer l = { .width = 128, .hidden = 176, .experts = experts, .top_k = 2 };
    s->work =
        3.0 * (double)s->items * (double)(l.top_k * 3 * l.width * l.hidden + l.width * experts);
    DT__TRY(dt_moe_create(s->ctx, &l, &s->m));
    const int64_t dims[] = { s->items, l.width };
    DT__TRY(dt_tensor_create(s->ctx, DT_F32, 2, dims, &s->x));
    DT__TRY(dt_tensor_create(s->ctx, DT_F32, 2, dims, &s->labels));
    DT__TRY(dt_fill_normal(s->x, 0, 1));
    return dt_fill_normal(s->labels, 0, 1e-3);
}

/* ---- images ---------------------------------------------------------------------------------- */

static dt_status read_epoch(void *user)
{
    subject *s = user;
    dt_tensor *x, *target;
    for (int64_t i = dt_loader_batches(s->loader); i > 0; i--) {
        DT__TRY(dt_loader_next(s->loader, &x, &target));
    }
    return DT_OK;
}

/* The arrays are freed, since the dataset has a copy. */
static dt_status fill_images(subject *s, int64_t count)
{
    uint8_t *pixels = dt__alloc_array(s->ctx, count, PIXELS);
    uint8_t *targets = dt__alloc_zero(s->ctx, (uint64_t)count);
    const dt_images images = { .count = count,
                               .channels = 1,
                               .height = 28,
                               .width = 28,
                               .target = DT_TARGET_CLASS,
                               .classes = 10,
                               .pixels = pixels,
                               .targets = targets };
    dt_status status = pixels == NULL || targets == NULL ? DT_ERR_NOMEM : DT_OK;
    if (status == DT_OK) memset(pixels, 77, (size_t)count * PIXELS);
    if (status == DT_OK) status = dt_dataset_create(s->ctx, &images, &s->data);
    dt__release(s->ctx, pixels);
    dt__release(s->ctx, targets);
    dt_memory_trim(s->ctx);
    return status;
}

static dt_status make_images(subject *s, int64_t count)
{
    dt_loader_options o = dt_loader_defaults();
    o.augment.shift = 1;
    s->items = count;
    s->work = (double)count * 1e3; /* scaled to millions per second */
    DT__TRY(fill_images(s, count));
    return dt_loader_create(s->data, &o, &s->loader);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const kind kinds[] = {
    { "width", { 128, 256, 512, 1024 }, 16, make_width, step_tokens, true },
    { "context", { 64, 256, 1024, 2048 }, 8, make_context, step_tokens, true },
    { "experts", { 8, 32, 128, 512 }, 4, make_mixture, step_mixture, true },
    { "images", { 1000, 10000, 100000, 1000000 }, 100, make_images, read_epoch, false },
};

enum { FLOAT, QAT, FORMS };

static const char *form_of(const kind *k, int form)
{
    return !k->trains ? "epoch" : form == FLOAT ? "float" : "qat";
}

/* Two runs warm up; the second one measures the peak of memory. */
static dt_status fill_subject(const kind *k, int64_t size, int form, subject *s)
{
    DT__TRY(dt_tape_create(s->ctx, &s->t));
    DT__TRY(k->make(s, size));
    if (k->trains) {
        DT__TRY(dt_optimizer_create(s->m, NULL, &s->o));
        if (form == QAT) DT__TRY(dt_prepare(s->m, NULL));
        dt_train(s->m, true);
    }
    DT__TRY(k->run(s));
    dt_memory_reset_peak(s->ctx);
    return k->run(s);
}

static dt_status make(dt__bench *b, const kind *k, int64_t size, int form, subject *s)
{
    s->items = b->options.quick ? QUICK_TOKENS : TOKENS;
    DT__TRY(dt__bench_ctx(b, dt_threads(b->ctx), &s->ctx));
    const dt_status status = fill_subject(k, size, form, s);
    return status == DT_OK ? DT_OK : dt_fail(b->ctx, status, "%s", dt_error(s->ctx));
}

static void free_subject(subject *s)
{
    dt_loader_free(s->loader);
    dt_dataset_free(s->data);
    dt_tensor_free(s->x);
    dt_tensor_free(s->labels);
    dt_optimizer_free(s->o);
    dt_module_free(s->m);
    dt_tape_free(s->t);
    dt_ctx_free(s->ctx);
}

/* Bytes at the peak, per token or image. */
static dt_status report(dt__bench *b, const kind *k, int64_t size, int form, const subject *s)
{
    const double bytes = (double)dt_memory_of(s->ctx).peak / (double)s->items;
    char name[DT__BENCH_NAME];
    dt__bench_name(b, name, "growth/%s/%lld/%s-bytes", k->name, (long long)size, form_of(k, form));
    return b->row(b->row_user, &(dt_bench_row){ .name = name,
                                                .unit = k->trains ? "B/token" : "B/image",
                                                .value = bytes,
                                                .low = bytes,
                                                .high = bytes,
                                                .repetitions = 1,
                                                .share_of_limit = NAN });
}

static dt_status compare(dt__bench *b, const kind *k, int64_t size)
{
    const int forms = k->trains ? FORMS : 1;
    subject s[FORMS] = { { 0 } };
    dt__trial t[FORMS];
    dt_status status = DT_OK;
    for (int i = 0; i < forms; i++) {
        if (status == DT_OK) status = make(b, k, size, i, &s[i]);
        t[i] = (dt__trial){ .unit = k->trains ? "GMAC/s" : "Mimages/s",
                            .work = s[i].work,
                            .run = k->run,
                            .subject = &s[i],
                            .ctx = s[i].ctx,
                            .limit = DT__NO_TRIAL };
        dt__bench_name(b, t[i].name, "growth/%s/%lld/%s", k->name, (long long)size, form_of(k, i));
    }
    t[forms - 1].ratio[0].trial = FLOAT;
    t[forms - 1].ratio[0].name = forms > 1 ? "float" : NULL;
    if (status == DT_OK) status = dt__measure(b, forms, t);
    for (int i = 0; i < forms && status == DT_OK; i++) status = report(b, k, size, i, &s[i]);
    for (int i = 0; i < forms; i++) free_subject(&s[i]);
    return status;
}

dt_status dt__bench_growth(dt__bench *b)
{
    for (int i = 0; i < DT__COUNT_OF(kinds); i++) {
        const kind *k = &kinds[i];
        for (int n = 0; n < (b->options.quick ? 1 : MOST_SIZES); n++) {
            DT__TRY(compare(b, k, b->options.quick ? k->quick : k->size[n]));
        }
    }
    return DT_OK;
}
