/* Inference of a converted language model: 512 tokens at once (prefill), and tokens one by one,
 * each after 512 (decode), after none (decode-first; decode-first-f16 with the weights' scales in
 * f16), or after 512 with a cache of codes (decode-int8, decode-int4). A llama of random weights
 * with 12 layers, width 768 and 91 M parameters, by the default preset (int8 activations, int4
 * weights in groups of 32).
 *
 * Prefill is bounded by integer multiply-adds: one per weight and token; for the head one token
 * only. Decode is bounded by reading: every packed weight, and the keys and values of the cache.
 * Attention, norms and embeddings count in neither share. */
#include "bench/measure.h"
#include "core/clock.h"
#include "qat/quantized.h"

#include <detent/experimental/nn.h>

#include <math.h>

#define MOST_RUNS 4096
#define SUCCESSION 16 /* tokens per run */

typedef struct work {
    const char *name;
    dt_llama_options model;
    int64_t tokens;
} work;

#define LLAMA(words, length, depth, n_heads, size, inner)                                          \
    {                                                                                              \
        .vocab = words, .context = length, .layers = depth, .heads = n_heads, .width = size,       \
        .hidden = inner, .theta = 10000, .eps = 1e-5                                               \
    }

static const work big = { "llama-91m", LLAMA(4096, 1024, 12, 12, 768, 2048), 512 };
static const work quick = { "llama-small", LLAMA(64, 32, 2, 2, 64, 96), 16 };

enum { PREFILL, DECODE, FIRST, CODES, PACKED, HALF, KINDS, INT8 = KINDS, READ, TRIALS };
static const char *const kinds[] = { "prefill",     "decode",      "decode-first",
                                     "decode-int8", "decode-int4", "decode-first-f16" };

typedef struct model {
    dt_module *m;
    double weights, bytes; /* weights per token; bytes of their panels */
} model;

typedef struct subject {
    const work *task;
    model of, half;       /* with scales in f32, and in f16 */
    dt_decoder *d[KINDS]; /* decode continues the text that prefill has fed */
    int32_t *ids;
    struct {
        double *seconds; /* per run, of the latest MOST_RUNS */
        int64_t runs;
    } took[KINDS];
} subject;

/* Feeds tokens from ... from + n - 1 in one pass, or SUCCESSION tokens one after the other, each
 * after `from` other tokens: the caches then have the contents that they have while text is
 * generated. */
static dt_status feed(subject *s, int which, int64_t from, int64_t n)
{
    dt_tensor *logits;
    dt_decoder *d = s->d[which == DECODE ? PREFILL : which];
    const int times = n == 1 ? SUCCESSION : 1;
    const double start = dt__seconds();
    for (int i = 0; i < times; i++) {
        DT__TRY(dt_decoder_rewind(d, from));
        DT__TRY(dt_decoder_feed(d, s->ids, n, &logits));
    }
    s->took[which].seconds[s->took[which].runs++ % MOST_RUNS] = (dt__seconds() - start) / times;
    return DT_OK;
}

static dt_status prefill(void *user)
{
    subject *s = user;
    return feed(s, PREFILL, 0, s->task->tokens);
}

static dt_status decode(void *user)
{
    subject *s = user;
    return feed(s, DECODE, s->task->tokens, 1);
}

static dt_status decode_codes(void *user)
{
    subject *s = user;
    return feed(s, CODES, s->task->tokens, 1);
}

static dt_status decode_packed(void *user)
{
    subject *s = user;
    return feed(s, PACKED, s->task->tokens, 1);
}

static dt_status decode_first(void *user)
{
    subject *s = user;
    return feed(s, FIRST, 0, 1);
}

static dt_status decode_half(void *user)
{
    subject *s = user;
    return feed(s, HALF, 0, 1);
}

/* ---- the model ------------------------------------------------------------------------------ */

static dt_status count_weight(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    model *of = user;
    (void)path;
    (void)kind;
    if (!dt_is_packed(x)) return DT_OK;
    of->weights += (double)x->count;
    of->bytes += (double)((const dt__packed *)x->ext)->codes->layout.bytes;
    return DT_OK;
}

static dt_status make_model(dt__bench *b, const work *task, bool half, model *of)
{
    dt_qat_options qat = dt_qat_defaults();
    qat.weight.has_scale_dtype = half;
    qat.weight.quant.scale_dtype = DT_SCALE_F16;
    DT__TRY(dt_llama_create(b->ctx, &task->model, &of->m));
    DT__TRY(dt_prepare(of->m, &qat));
    DT__TRY(dt_convert(of->m, NULL, NULL));
    return dt_module_visit(of->m, count_weight, of);
}

static dt_status make(dt__bench *b, const work *task, subject *s)
{
    *s = (subject){ .task = task };
    for (int i = 0; i < KINDS; i++) {
        s->took[i].seconds = dt__alloc_array(b->ctx, MOST_RUNS, sizeof(double));
        if (s->took[i].seconds == NULL) return DT_ERR_NOMEM;
    }
    s->ids = dt__alloc_array(b->ctx, task->tokens, sizeof *s->ids);
    if (s->ids == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < task->tokens; i++) {
        s->ids[i] = (int32_t)(i * i % 1009 % task->model.vocab);
    }
    DT__TRY(make_model(b, task, false, &s->of));
    DT__TRY(make_model(b, task, true, &s->half));
    dt_decoder_options o = { .capacity = task->tokens + 1 };
    dt_tensor *logits;
    DT__TRY(dt_decoder_create(s->of.m, &o, &s->d[PREFILL]));
    DT__TRY(dt_decoder_create(s->of.m, &o, &s->d[FIRST]));
    DT__TRY(dt_decoder_create(s->half.m, &o, &s->d[HALF]));
    for (int i = CODES; i <= PACKED; i++) {
        o.cache = i == CODES ? DT_CACHE_INT8 : DT_CACHE_INT4;
        DT__TRY(dt_decoder_create(s->of.m, &o, &s->d[i]));
        DT__TRY(dt_decoder_feed(s->d[i], s->ids, task->tokens, &logits));
    }
    return prefill(s);
}

static void free_subject(dt__bench *b, subject *s)
{
    for (int i = 0; i < KINDS; i++) dt_decoder_free(s->d[i]);
    dt_module_free(s->of.m);
    dt_module_free(s->half.m);
    dt__release(b->ctx, s->ids);
    for (int i = 0; i < KINDS; i++) dt__release(b->ctx, s->took[i].seconds);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void name_of(const dt__bench *b, const work *task, int which, const char *what,
                    char name[DT__BENCH_NAME])
{
    dt__bench_name(b, name, "language/%s/%s%s", task->name, kinds[which], what);
}

static dt_status report(dt__bench *b, const subject *s, int which)
{
    char name[DT__BENCH_NAME];
    double *v = s->took[which].seconds;
    const int n = (int)dt__min_i64(s->took[which].runs, MOST_RUNS);
    for (int i = 0; i < n; i++) v[i] = (which == PREFILL ? (double)s->task->tokens : 1) / v[i];
    const dt__quartiles of = dt__quartiles_of(n, v);
    name_of(b, s->task, which, "-tokens", name);
    return b->row(b->row_user, &(dt_bench_row){ .name = name,
                                                .unit = "tokens/s",
                                                .value = of.median,
                                                .low = of.low,
                                                .high = of.high,
                                                .repetitions = of.n,
                                                .share_of_limit = NAN });
}

static void fill_trials(const dt__bench *b, subject *s, dt__trial *t)
{
    const dt_llama_options *m = &s->task->model;
    const double n = (double)s->task->tokens, head = (double)(m->vocab * m->width);
    const double cache = 2 * (double)(m->layers * m->width) * (n + 1); /* bytes of codes */
    const double scales = 2 * (double)(m->layers * m->heads) * (n + 1) * sizeof(float);
    t[PREFILL] = (dt__trial){ .unit = "ms", .run = prefill, .subject = s, .limit = INT8 };
    t[PREFILL].work = (s->of.weights - head) * n + head;
    t[DECODE] = (dt__trial){ .unit = "ms", .run = decode, .subject = s, .limit = READ };
    t[FIRST] = (dt__trial){ .unit = "ms", .run = decode_first, .subject = s, .limit = READ };
    t[CODES] = (dt__trial){ .unit = "ms", .run = decode_codes, .subject = s, .limit = READ };
    t[PACKED] = (dt__trial){ .unit = "ms", .run = decode_packed, .subject = s, .limit = READ };
    t[HALF] = (dt__trial){ .unit = "ms", .run = decode_half, .subject = s, .limit = READ };
    t[HALF].work = SUCCESSION * s->half.bytes;
    t[DECODE].work = SUCCESSION * (s->of.bytes + cache * sizeof(float));
    t[FIRST].work = SUCCESSION * s->of.bytes;
    t[CODES].work = SUCCESSION * (s->of.bytes + cache + scales);
    t[PACKED].work = SUCCESSION * (s->of.bytes + cache / 2 + scales);
    for (int i = PREFILL; i < KINDS; i++) name_of(b, s->task, i, "", t[i].name);
}

static dt_status measure(dt__bench *b, subject *s)
{
    dt__trial t[TRIALS];
    dt__limit_subject limit[2] = { { 0 } };
    fill_trials(b, s, t);
    dt_status status = dt__limit_trial(b, DT__LIMIT_INT8, &limit[0], &t[INT8]);
    if (status == DT_OK) status = dt__limit_trial(b, DT__LIMIT_READ, &limit[1], &t[READ]);
    for (int i = PREFILL; i < KINDS; i++) s->took[i].runs = 0;
    if (status == DT_OK) status = dt__measure(b, TRIALS, t);
    for (int i = 0; i < 2; i++) dt__limit_free(&limit[i]);
    for (int i = PREFILL; i < KINDS && status == DT_OK; i++) status = report(b, s, i);
    return status;
}

dt_status dt__bench_decode(dt__bench *b)
{
    subject s;
    dt_status status = make(b, b->options.quick ? &quick : &big, &s);
    if (status == DT_OK) status = measure(b, &s);
    free_subject(b, &s);
    return status;
}
