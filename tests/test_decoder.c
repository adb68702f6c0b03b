/* The decoder: its logits have the bits of one pass over the whole text, for random models of both
 * families in every form; its limits, its allocations, and its errors. */
#include "random_nets.h"
#include "testing.h"

#include "kernels/sets.h"
#include "nn/cache/cache.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_ctx *ctx;

static void setup(void) { ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK); }
static void teardown(void) { dt_ctx_free(ctx); }

static void refused(dt_status got, dt_status want, const char *says)
{
    ck_assert_msg(got == want && strstr(dt_error(ctx), says) != NULL, "%s: %s", dt_status_name(got),
                  dt_error(ctx));
}

/* ---- models --------------------------------------------------------------------------------- */

typedef enum form { PLAIN, PREPARED, CONVERTED, FROZEN, FORMS } form;

static void change_form(const random_net *d, dt_module *m, form f)
{
    if (f >= PREPARED) {
        TEST_EACH(dt_prepare(m, &d->qat) == DT_OK, "network %llu: %s", (unsigned long long)d->seed,
                  dt_error(ctx));
        random_net_observe(ctx, d, m);
    }
    if (f >= CONVERTED) TEST_OK(ctx, dt_convert(m, NULL, NULL));
    if (f >= FROZEN) dt_freeze(m);
}

/* Makes a network from seed, family and form, for texts of at least `least` tokens; *ids gets a
 * text that fills its context, which the caller frees. */
static dt_module *model_of(uint64_t seed, form f, int64_t least, random_net *d, int32_t **ids)
{
    *d = random_net_of_family(seed, seed % 2 == 0 ? "gpt" : "llama");
    int64_t *context = seed % 2 == 0 ? &d->options.gpt.context : &d->options.llama.context;
    dt_seed(ctx, seed);
    if (least > *context) *context = least;
    dt_module *m = random_net_create(ctx, d);
    change_form(d, m, f);
    d->tokens = dt__max_i64(d->tokens, least);
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    *ids = malloc((size_t)d->tokens * sizeof **ids);
    for (int64_t i = 0; i < d->tokens; i++) {
        (*ids)[i] = (int32_t)dt__random_below(&s, (uint64_t)d->vocab);
    }
    return m;
}

/* Logits of all n tokens by one pass without a cache, [n][vocab], malloc'ed. */
static float *pass(dt_module *m, const int32_t *ids, int64_t n)
{
    dt_tape *t;
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I32, 2, (const int64_t[]){ 1, n }, ids, &x));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    dt_train(m, false);
    dt_tensor *y = dt_forward(t, m, x);
    TEST_EACH(y != NULL, "%s", dt_error(ctx));
    const size_t bytes = (size_t)dt_count(y) * sizeof(float);
    float *logits = malloc(bytes);
    memcpy(logits, dt_data(y), bytes);
    dt_tape_free(t);
    dt_tensor_free(x);
    return logits;
}

/* Feeds n tokens, `part` at a time, and returns the logits, which are lent. */
static const float *feed(dt_decoder *d, const int32_t *ids, int64_t n, int64_t part)
{
    dt_tensor *logits = NULL;
    for (int64_t i = 0; i < n; i += part) {
        TEST_OK(ctx, dt_decoder_feed(d, ids + i, dt__min_i64(part, n - i), &logits));
    }
    return dt_data(logits);
}

/* ---- logits --------------------------------------------------------------------------------- */

/* Feeds the text in pieces, and compares logits behind each piece with those of one pass. */
static void check_pieces(const random_net *d, dt_module *m, const int32_t *ids, int cache,
                         const char *what)
{
    dt_decoder *decoder;
    if (cache != DT_CACHE_F32) TEST_OK(ctx, dt_set_cache(m, cache));
    float *want = pass(m, ids, d->tokens);
    const int64_t pieces[] = { 1, 3, 61, d->tokens };
    const size_t row = (size_t)d->vocab * sizeof *want;
    TEST_OK(ctx, dt_decoder_create(m, &(dt_decoder_options){ .cache = cache }, &decoder));
    for (int i = 0; i < DT__COUNT_OF(pieces); i++) {
        TEST_OK(ctx, dt_decoder_rewind(decoder, 0));
        for (int64_t at = 0, n; at < d->tokens; at += n) {
            n = dt__min_i64(pieces[i], d->tokens - at);
            const float *got = feed(decoder, ids + at, n, n);
            TEST_EACH(memcmp(got, want + (at + n - 1) * d->vocab, row) == 0,
                      "network %llu, %s, %lld at a time: behind token %lld",
                      (unsigned long long)d->seed, what, (long long)pieces[i],
                      (long long)(at + n - 1));
        }
    }
    dt_decoder_free(decoder);
    free(want);
}

/* Runs in a context whose threads and kernels follow from the seed. */
static void check_in_context(uint64_t seed, form f, int64_t least, int cache)
{
    static const int threads[] = { 1, 2, 3, 16 };
    const dt__kernel_set *set = dt__kernel_set_at((int)(seed / 3 % DT__MOST_SETS));
    if (set == NULL || !dt__kernel_set_runs(set)) return;
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads[seed / 2 % 4];
    o.cpu_mask = set->needs;
    dt_ctx *outer = ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, &o));
    random_net d;
    int32_t *ids;
    char what[64];
    dt_module *m = model_of(seed, f, least, &d, &ids);
    snprintf(what, sizeof what, "form %d, %s, %d threads", (int)f, set->name, o.threads);
    check_pieces(&d, m, ids, cache, what);
    dt_module_free(m);
    free(ids);
    dt_ctx_free(ctx);
    ctx = outer;
}

START_TEST(logits_have_the_bits_of_one_pass)
{
    const int64_t n = test_networks((test_draws){ .usual = 60, .quick = 24, .sanitized = 6 });
    for (uint64_t seed = 0; seed < (uint64_t)n; seed++) {
        for (form f = PLAIN; f < FORMS; f++) check_in_context(seed, f, 1, DT_CACHE_F32);
    }
}
END_TEST

/* Texts that end around the ends of tiles and parts of keys. */
START_TEST(long_texts_have_the_bits_of_one_pass)
{
    const int64_t tokens[] = { 63, 64, 65, 81, 130, 511, 512, 513, 577, 1030 };
    const int64_t n = test_networks((test_draws){ .usual = 20, .quick = 8, .sanitized = 2 });
    for (uint64_t seed = 0; seed < (uint64_t)n; seed++) {
        check_in_context(200 + seed, seed % 3 == 0 ? PLAIN : CONVERTED,
                         tokens[seed % DT__COUNT_OF(tokens)], DT_CACHE_F32);
    }
}
END_TEST

typedef struct way {
    int threads, cache;
    const dt__kernel_set *set; /* NULL: the best */
} way;

/* Logits after every single token and after the rest at once, malloc'ed. */
static float *all_logits(uint64_t seed, form f, const way *how, size_t *bytes)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = how->threads;
    if (how->set != NULL) o.cpu_mask = how->set->needs;
    dt_ctx *outer = ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, &o));
    random_net d;
    int32_t *ids;
    dt_decoder *decoder;
    dt_module *m = model_of(seed, f, 1, &d, &ids);
    const size_t row = (size_t)d.vocab * sizeof(float);
    *bytes = row * (size_t)(d.tokens + 1);
    char *to = malloc(*bytes);
    TEST_OK(ctx, dt_decoder_create(m, &(dt_decoder_options){ .cache = how->cache }, &decoder));
    for (int64_t i = 0; i < d.tokens; i++) {
        memcpy(to + row * (size_t)i, feed(decoder, ids + i, 1, 1), row);
    }
    TEST_OK(ctx, dt_decoder_rewind(decoder, d.tokens / 2));
    const int64_t rest = d.tokens - d.tokens / 2;
    memcpy(to + row * (size_t)d.tokens, feed(decoder, ids + d.tokens / 2, rest, rest), row);
    dt_decoder_free(decoder);
    dt_module_free(m);
    free(ids);
    dt_ctx_free(ctx);
    ctx = outer;
    return (float *)(void *)to;
}

START_TEST(converted_models_give_the_bits_of_prepared_ones)
{
    const int64_t n = test_networks((test_draws){ .usual = 40, .quick = 16, .sanitized = 5 });
    for (uint64_t seed = 100; seed < 100 + (uint64_t)n; seed++) {
        size_t bytes, same;
        float *want = all_logits(seed, PREPARED, &(way){ .threads = 1 }, &bytes);
        for (form f = CONVERTED; f < FORMS; f++) {
            float *got = all_logits(seed, f, &(way){ .threads = 1 + (int)f % 3 }, &same);
            TEST_EACH(bytes == same && memcmp(got, want, bytes) == 0, "network %llu, form %d",
                      (unsigned long long)seed, (int)f);
            free(got);
        }
        free(want);
    }
}
END_TEST

/* ---- caches of codes; _i is DT_CACHE_INT8 or DT_CACHE_INT4 ---------------------------------- */

START_TEST(codes_have_one_result)
{
    int others = 0; /* coarse activations behind attention may hide what the cache rounds */
    for (uint64_t seed = 300; seed < 312; seed++) {
        const form f = seed % 3 == 0 ? PLAIN : CONVERTED;
        way how = { .threads = 1, .cache = _i, .set = dt__kernel_set_at(0) };
        size_t bytes, same;
        float *want = all_logits(seed, f, &how, &bytes);
        for (int i = 1; i < DT__MOST_SETS; i++) {
            how = (way){ 1 + i % 3, _i, dt__kernel_set_at(i) };
            if (how.set == NULL || !dt__kernel_set_runs(how.set)) continue;
            float *got = all_logits(seed, f, &how, &same);
            TEST_EACH(same == bytes && memcmp(got, want, bytes) == 0, "network %llu, %s",
                      (unsigned long long)seed, how.set->name);
            free(got);
        }
        float *other = all_logits(seed, f, &(way){ .threads = 1 }, &same);
        others += memcmp(other, want, bytes) != 0;
        free(other);
        free(want);
    }
    ck_assert_int_ge(others, 8);
}
END_TEST

/* dt_set_cache: a pass without a decoder has the bits of one with that cache. */
START_TEST(a_pass_reads_what_the_cache_keeps)
{
    const int64_t tokens[] = { 1, 65, 130, 513 };
    const int64_t n = test_networks((test_draws){ .usual = 24, .quick = 12, .sanitized = 4 });
    for (uint64_t seed = 0; seed < (uint64_t)n; seed++) {
        check_in_context(340 + seed, (form)(seed % FORMS), tokens[seed / 2 % 4], _i);
    }
}
END_TEST

START_TEST(what_has_no_cache_is_refused)
{
    random_net d;
    int32_t *ids;
    dt_module *linear, *m = model_of(340, PLAIN, 1, &d, &ids);
    TEST_OK(ctx, dt_linear_create(ctx, 3, 2, true, &linear));
    refused(dt_set_cache(linear, DT_CACHE_INT8), DT_ERR_UNSUPPORTED,
            "a linear has no cache of keys and values");
    refused(dt_set_cache(m, DT_CACHES), DT_ERR_ARG, "cache is 3; it must be 0...2");
    float *want = pass(m, ids, d.tokens);
    for (int cache = DT_CACHE_INT8; cache >= DT_CACHE_F32; cache--) {
        TEST_OK(ctx, dt_set_cache(m, cache));
        float *got = pass(m, ids, d.tokens);
        const size_t bytes = (size_t)(d.tokens * d.vocab) * sizeof *got;
        ck_assert_int_eq(memcmp(got, want, bytes) == 0, cache == DT_CACHE_F32);
        free(got);
    }
    free(want);
    free(ids);
    dt_module_free(m);
    dt_module_free(linear);
}
END_TEST

/* Likewise at the ends of tiles and parts of keys: a token alone and among others. */
START_TEST(codes_take_any_pieces)
{
    const int64_t tokens[] = { 63, 81, 513, 577 }, pieces[] = { 61, 577 };
    for (int i = 0; i < DT__COUNT_OF(tokens); i++) {
        random_net d;
        int32_t *ids;
        dt_decoder *one, *more;
        dt_module *m = model_of(320 + (uint64_t)i, PLAIN, tokens[i], &d, &ids);
        const dt_decoder_options o = { .cache = _i };
        const size_t bytes = (size_t)d.vocab * sizeof(float);
        TEST_OK(ctx, dt_decoder_create(m, &o, &one));
        TEST_OK(ctx, dt_decoder_create(m, &o, &more));
        const float *want = feed(one, ids, tokens[i], 1);
        for (int k = 0; k < DT__COUNT_OF(pieces); k++) {
            TEST_OK(ctx, dt_decoder_rewind(more, 0));
            const float *got = feed(more, ids, tokens[i], pieces[k]);
            TEST_EACH(memcmp(got, want, bytes) == 0, "%lld tokens, %lld at a time",
                      (long long)tokens[i], (long long)pieces[k]);
        }
        dt_decoder_free(one);
        dt_decoder_free(more);
        dt_module_free(m);
        free(ids);
    }
}
END_TEST

/* Keys and values of a text, [1][TOKENS][HEADS][WIDE], and the expected row in the cache. */
enum { TOKENS = 70, HEADS = 2, WIDE = 300, ROWS = TOKENS * HEADS };

static float plain_codes(const float *x, int8_t *codes)
{
    float most = 0;
    for (int i = 0; i < WIDE; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    const float scale = most / 127 < 0x1p-23f ? 0x1p-23f : most / 127, inverse = 1 / scale;
    for (int i = 0; i < WIDE; i++) codes[i] = (int8_t)nearbyintf(x[i] * inverse);
    return scale;
}

/* H x of Sylvester's matrix: H a + H b and H a - H b of the halves. */
static void plain_hadamard(int n, float *x)
{
    if (n == 1) return;
    plain_hadamard(n / 2, x);
    plain_hadamard(n / 2, x + n / 2);
    for (int i = 0; i < n / 2; i++) {
        const float a = x[i], b = x[i + n / 2];
        x[i] = a + b;
        x[i + n / 2] = a - b;
    }
}

/* 4 divides WIDE and 8 does not. */
static float plain_packed_codes(const float *row, int8_t *codes)
{
    float x[WIDE], most = 0;
    memcpy(x, row, sizeof x);
    for (int i = 0; i < WIDE; i += 4) plain_hadamard(4, x + i);
    for (int i = 0; i < WIDE; i++) {
        if (fabsf(x[i]) > fabsf(most) || (x[i] == -most && x[i] < 0)) most = x[i];
    }
    const float extent = fabsf(most) / 8 < 0x1p-23f ? 0x1p-23f : fabsf(most) / 8;
    const float scale = most > 0 ? -extent : extent, inverse = 1 / scale;
    for (int i = 0; i < WIDE; i++) {
        const float code = nearbyintf(x[i] * inverse);
        codes[i] = (int8_t)(code > 7 ? 7 : code);
    }
    return scale;
}

/* Element i of a row of codes, `step` elements apart. */
static int code_at(const int8_t *row, int i, int64_t step, bool packed)
{
    if (!packed) return row[i * step];
    const int byte = (uint8_t)row[i % (WIDE / 2) * step], code = i < WIDE / 2 ? byte : byte / 16;
    return (code + 8) % 16 - 8;
}

static void check_codes(const float *x, const dt_tensor *codes, const dt_tensor *scale, bool packed)
{
    for (int row = 0; row < ROWS; row++) {
        int8_t want[WIDE];
        const float s = (packed ? plain_packed_codes : plain_codes)(x + row * WIDE, want);
        const int64_t token = row / HEADS, head = row % HEADS;
        const float *has_scale =
            (const float *)dt__data(scale) + token * scale->strides[1] + head * scale->strides[2];
        TEST_EACH(*has_scale == s, "row %d: scale %a, not %a", row, (double)*has_scale, (double)s);
        const int8_t *has =
            (const int8_t *)dt__data(codes) + token * codes->strides[1] + head * codes->strides[2];
        for (int i = 0; i < WIDE; i++) {
            const int code = code_at(has, i, codes->strides[3], packed);
            TEST_EACH(code == want[i], "row %d, element %d: %d, not %d", row, i, code, want[i]);
        }
    }
}

/* Rows of all sizes: zeros, tiny and large ones, ties. */
static void draw_rows(uint64_t seed, float *x)
{
    static const float sizes[] = { 1, 0, 1e-30f, 1e-6f, 1e30f, 127 };
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    for (int i = 0; i < ROWS * WIDE; i++) {
        const float unit = (float)dt__random_below(&s, 2001) / 1000 - 1;
        x[i] = sizes[i / WIDE % DT__COUNT_OF(sizes)] * unit;
    }
}

static dt_tensor *tokens_of(dt_tape *t, const float *x, int64_t first, int64_t n)
{
    dt_tensor *out;
    const int64_t dims[] = { 1, n, HEADS, WIDE };
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 4, dims, x + first * HEADS * WIDE, &out));
    TEST_OK(ctx, dt__tape_lend(t, out));
    return out;
}

START_TEST(a_cache_holds_the_codes_of_the_formula)
{
    static float x[2][ROWS * WIDE];
    static const int64_t pieces[] = { 1, 9, 60 };
    const dt_module m = { .path = "m" };
    const bool packed = _i == DT_CACHE_INT4;
    dt__cache cache = { .capacity = TOKENS, .kind = _i };
    dt_tape *t;
    dt_attention_operands kv = { NULL };
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    t->cache = &cache;
    for (int i = 0; i < 2; i++) draw_rows(7 + (uint64_t)i, x[i]);
    for (int i = 0; i < DT__COUNT_OF(pieces); i++, cache.at = 0) {
        kv.k = tokens_of(t, x[0], cache.length, pieces[i]);
        kv.v = tokens_of(t, x[1], cache.length, pieces[i]);
        TEST_OK(ctx, dt__cache_join(t, &m, &kv));
        cache.length += pieces[i];
    }
    check_codes(x[0], kv.k, kv.k_scale, packed);
    check_codes(x[1], kv.v, kv.v_scale, packed);
    cache.length = 0;
    x[1][5 * WIDE + 3] = NAN;
    kv.k = tokens_of(t, x[0], 0, 4);
    kv.v = tokens_of(t, x[1], 0, 4);
    refused(dt__cache_join(t, &m, &kv), DT_ERR_NUMERIC, "a value of token 2 is not finite");
    dt_tape_free(t);
    dt__cache_free(ctx, &cache);
}
END_TEST

/* ---- limits --------------------------------------------------------------------------------- */

/* Small models of a fixed shape. */
static dt_llama_options small_options(int64_t context)
{
    return (dt_llama_options){ .vocab = 40,
                               .context = context,
                               .layers = 2,
                               .heads = 4,
                               .kv_heads = 2,
                               .width = 32,
                               .hidden = 48,
                               .theta = 10000,
                               .eps = 1e-5 };
}

static dt_module *llama_of(dt_ctx *c, const dt_llama_options *o)
{
    dt_module *m = NULL;
    return dt_llama_create(c, o, &m) == DT_OK ? m : NULL;
}

static dt_module *small_llama(dt_ctx *c, int64_t context)
{
    const dt_llama_options o = small_options(context);
    return llama_of(c, &o);
}

/* With a window in both layers, or in the first alone. */
static dt_module *windowed_llama(dt_ctx *c, int64_t context, int64_t window, int64_t full_every)
{
    dt_llama_options o = small_options(context);
    o.block = (dt_block_options){ .given = true, .window = window, .full_every = full_every };
    return llama_of(c, &o);
}

/* With other keys in texts of more than `near` tokens. */
static dt_module *long_llama(dt_ctx *c, int64_t context, int64_t near)
{
    dt_llama_options o = small_options(context);
    o.longrope = (dt_longrope_options){ .given = true,
                                        .original_context = near,
                                        .short_factor = { 4, { 1, 1.1, 1.5, 2 } },
                                        .long_factor = { 4, { 1, 2.5, 9, 30 } } };
    return llama_of(c, &o);
}

START_TEST(mistakes_are_refused)
{
    dt_module *m = small_llama(ctx, 8), *mlp;
    dt_decoder *d;
    dt_tensor *logits;
    const int32_t ids[] = { 1, 2, 3, 4, 40, -1 };
    refused(dt_decoder_create(m, &(dt_decoder_options){ .capacity = 9 }, &d), DT_ERR_ARG,
            "a capacity of 9; the model's context is 8");
    refused(dt_decoder_create(m, &(dt_decoder_options){ .capacity = -1 }, &d), DT_ERR_ARG,
            "a capacity of -1");
    ck_assert_int_eq(dt_linear_create(ctx, 3, 3, true, &mlp), DT_OK);
    refused(dt_decoder_create(m, &(dt_decoder_options){ .cache = DT_CACHES }, &d), DT_ERR_ARG,
            "cache is 3; it must be 0...2");
    refused(dt_decoder_create(mlp, NULL, &d), DT_ERR_ARG, "a linear is not a language model");
    ck_assert_int_eq(dt_decoder_create(m, &(dt_decoder_options){ .capacity = 5 }, &d), DT_OK);
    ck_assert_int_eq(dt_decoder_capacity(d), 5);
    refused(dt_decoder_feed(d, ids, 0, &logits), DT_ERR_ARG, "no token");
    ck_assert_ptr_null(logits);
    refused(dt_decoder_feed(d, ids, 5, &logits), DT_ERR_ARG, "token 4 is 40; ids lie in 0...39");
    refused(dt_decoder_feed(d, ids + 5, 1, &logits), DT_ERR_ARG, "token 0 is -1");
    ck_assert_int_eq(dt_decoder_feed(d, ids, 3, &logits), DT_OK);
    refused(dt_decoder_feed(d, ids, 3, &logits), DT_ERR_STATE,
            "it has 3 tokens and is fed 3 more; its capacity is 5");
    ck_assert_int_eq(dt_decoder_length(d), 3);
    refused(dt_decoder_rewind(d, 4), DT_ERR_ARG, "it has 3 tokens, not 4");
    refused(dt_decoder_rewind(d, -1), DT_ERR_ARG, "not -1");
    dt_train(m, true);
    refused(dt_decoder_feed(d, ids, 1, &logits), DT_ERR_STATE, "training mode");
    dt_train(m, false);
    ck_assert_int_eq(dt_decoder_feed(d, ids, 2, &logits), DT_OK);
    refused(dt_decoder_feed(d, ids, 1, &logits), DT_ERR_STATE, "it has 5 tokens and is fed 1 more");
    dt_decoder_free(d);
    dt_decoder_free(NULL);
    dt_module_free(mlp);
    dt_module_free(m);
}
END_TEST

/* Tokens that were rewound have no influence. */
START_TEST(rewound_tokens_are_forgotten)
{
    dt_module *m = small_llama(ctx, 16);
    dt_decoder *d;
    const int32_t first[] = { 5, 6, 7, 8, 9, 10 }, second[] = { 5, 6, 30, 31 };
    ck_assert_int_eq(dt_decoder_create(m, NULL, &d), DT_OK);
    float want[40];
    memcpy(want, feed(d, second, 4, 2), sizeof want);
    ck_assert_int_eq(dt_decoder_rewind(d, 0), DT_OK);
    feed(d, first, 6, 2);
    ck_assert_int_eq(dt_decoder_rewind(d, 2), DT_OK);
    ck_assert_mem_eq(feed(d, second + 2, 2, 2), want, sizeof want);
    dt_decoder_free(d);
    dt_module_free(m);
}
END_TEST

/* More than one pass holds. */
START_TEST(long_texts_are_cut_into_passes)
{
    dt_module *m = small_llama(ctx, 1200);
    int32_t ids[1200];
    for (int i = 0; i < 1200; i++) ids[i] = i * 7 % 40;
    dt_decoder *d;
    ck_assert_int_eq(dt_decoder_create(m, NULL, &d), DT_OK);
    float *want = pass(m, ids, 1200);
    ck_assert_mem_eq(feed(d, ids, 1200, 1200), want + 1199 * 40, 40 * sizeof *want);
    ck_assert_int_eq(dt_decoder_length(d), 1200);
    free(want);
    dt_decoder_free(d);
    dt_module_free(m);
}
END_TEST

/* ---- windows -------------------------------------------------------------------------------- */

#define TEXT 600
#define ROW (40 * sizeof(float))

static void draw_text(uint64_t seed, int32_t *ids)
{
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    for (int i = 0; i < TEXT; i++) ids[i] = (int32_t)dt__random_below(&s, 40);
}

/* Logits behind n tokens, fed `part` at a time. */
static void logits_behind(dt_module *m, int cache, const int32_t *ids, const int64_t n[2],
                          float *to)
{
    dt_decoder *d;
    TEST_OK(ctx, dt_decoder_create(m, &(dt_decoder_options){ .cache = cache }, &d));
    memcpy(to, feed(d, ids, n[0], n[1]), ROW);
    dt_decoder_free(d);
}

/* One of so many lengths is tried; other windows have other lengths. */
static const test_draws length_steps = { .usual = 1, .sanitized = 4 };

/* A text fed in any pieces has one result; in floats it is that of one pass. */
START_TEST(windows_take_any_pieces)
{
    static const struct {
        int64_t window, full_every;
    } kinds[] = { { 1, 0 }, { 7, 0 }, { 64, 0 }, { 70, 2 }, { 513, 0 } };
    static const int64_t lengths[] = { 6, 65, 140, 530, TEXT };
    int32_t ids[TEXT];
    float got[40], want[40];
    draw_text((uint64_t)_i, ids);
    dt_module *m = windowed_llama(ctx, TEXT, kinds[_i].window, kinds[_i].full_every);
    const int64_t step = test_count(length_steps);
    for (int64_t k = _i % step; k < DT__COUNT_OF(lengths); k += step) {
        const int64_t n = lengths[k], pieces[] = { 1, 61, n };
        float *whole = pass(m, ids, n);
        for (int cache = 0; cache < DT_CACHES; cache++) {
            for (int p = 0; p < DT__COUNT_OF(pieces); p++) {
                logits_behind(m, cache, ids, (const int64_t[]){ n, pieces[p] }, got);
                if (cache == DT_CACHE_F32) memcpy(want, whole + (n - 1) * 40, sizeof want);
                else if (p == 0) memcpy(want, got, sizeof want);
                TEST_EACH(memcmp(got, want, sizeof want) == 0,
                          "window %lld, cache %s, %lld tokens, %lld at a time",
                          (long long)kinds[_i].window, dt_cache_names[cache], (long long)n,
                          (long long)pieces[p]);
            }
        }
        free(whole);
    }
    dt_module_free(m);
}
END_TEST

/* Through two layers with a window of w, a token sees 2 w - 1 tokens and no others. */
START_TEST(windows_hide_what_is_behind_them)
{
    enum { W = 9, SEEN = 2 * W - 1, N = 200 };
    int32_t ids[TEXT];
    float want[40], got[40];
    const int64_t n[] = { N, 1 };
    draw_text(50, ids);
    for (int full = 0; full < 2; full++) {
        dt_module *m = windowed_llama(ctx, TEXT, W, full == 0 ? 0 : 2);
        logits_behind(m, _i, ids, n, want);
        ids[N - SEEN - 1] ^= 1;
        logits_behind(m, _i, ids, n, got);
        ck_assert_int_eq(memcmp(got, want, ROW) == 0, full == 0); /* the second layer sees it */
        ids[N - SEEN] ^= 1;
        logits_behind(m, _i, ids, n, got);
        ck_assert(memcmp(got, want, ROW) != 0);
        dt_module_free(m);
    }
}
END_TEST

/* ---- keys that change in long texts --------------------------------------------------------- */

enum { NEAR_TOKENS = 10 };

/* The logits of each beginning of a text, by one pass over it alone. */
static float *beginnings(dt_module *m, const int32_t *ids, int64_t n)
{
    float *all = malloc((size_t)n * ROW);
    for (int64_t i = 0; i < n; i++) {
        float *one = pass(m, ids, i + 1);
        memcpy(all + i * 40, one + i * 40, ROW);
        free(one);
    }
    return all;
}

START_TEST(longrope_takes_any_pieces)
{
    enum { N = 30 };
    static const int64_t pieces[] = { 1, 3, 9, 10, 11, 30 };
    int32_t ids[TEXT];
    dt_decoder *d;
    draw_text(60, ids);
    dt_module *m = long_llama(ctx, 1200, NEAR_TOKENS);
    float *want = beginnings(m, ids, N), *far = pass(m, ids, N);
    ck_assert(memcmp(far + 40, want + 40, ROW) != 0); /* short factors of a short text */
    if (_i != DT_CACHE_F32) {
        for (int64_t i = 0; i < N; i++) {
            logits_behind(m, _i, ids, (const int64_t[]){ i + 1, i + 1 }, want + i * 40);
        }
    }
    TEST_OK(ctx, dt_decoder_create(m, &(dt_decoder_options){ .cache = _i }, &d));
    for (int p = 0; p < DT__COUNT_OF(pieces); p++) {
        TEST_OK(ctx, dt_decoder_rewind(d, 0));
        for (int64_t at = 0, n; at < N; at += n) {
            n = dt__min_i64(pieces[p], N - at);
            const float *got = feed(d, ids + at, n, n);
            TEST_EACH(memcmp(got, want + (at + n - 1) * 40, ROW) == 0,
                      "%lld at a time: behind token %lld", (long long)pieces[p],
                      (long long)(at + n - 1));
        }
    }
    for (int64_t to = N - 1; to > 0; to--) { /* back across the border, and on */
        TEST_OK(ctx, dt_decoder_rewind(d, to));
        ck_assert_mem_eq(feed(d, ids + to, 1, 1), want + to * 40, ROW);
    }
    dt_decoder_free(d);
    dt_module_free(m);
    free(want);
    free(far);
}
END_TEST

/* Also where passes of one feed are on both sides of the border. */
START_TEST(longrope_is_one_for_all_passes)
{
    int32_t ids[TEXT];
    float got[40];
    draw_text(61, ids);
    dt_module *m = long_llama(ctx, TEXT, 550);
    float *want = pass(m, ids, TEXT), *near = pass(m, ids, 550);
    logits_behind(m, DT_CACHE_F32, ids, (const int64_t[]){ TEXT, TEXT }, got);
    ck_assert_mem_eq(got, want + (TEXT - 1) * 40, ROW);
    logits_behind(m, DT_CACHE_F32, ids, (const int64_t[]){ TEXT, 550 }, got);
    ck_assert_mem_eq(got, want + (TEXT - 1) * 40, ROW);
    logits_behind(m, DT_CACHE_F32, ids, (const int64_t[]){ 550, 550 }, got);
    ck_assert_mem_eq(got, near + 549 * 40, ROW);
    dt_module_free(m);
    free(want);
    free(near);
}
END_TEST

/* Fails the call at which the count reaches 0. */
static dt_tensor *fail_at_0(void *user, dt_tape *t, dt_module *m, dt_tensor *x)
{
    int *left = user;
    (void)m;
    if ((*left)-- == 0) dt_tape_fail(t, DT_ERR_NUMERIC, "refused");
    return x;
}

/* After a feed that fails while tokens are recomputed, or later, the decoder still works. */
START_TEST(longrope_survives_a_failing_feed)
{
    int32_t ids[TEXT];
    dt_decoder *d;
    dt_tensor *logits;
    int left = -1;
    draw_text(62, ids);
    dt_module *m = long_llama(ctx, 64, NEAR_TOKENS);
    float *want = beginnings(m, ids, 12);
    TEST_OK(ctx, dt_decoder_create(m, NULL, &d));
    TEST_OK(ctx, dt_hook_add(dt_module_at(m, "model.layers.1"), DT_SITE_INPUT, fail_at_0, &left,
                             NULL, NULL));
    feed(d, ids, NEAR_TOKENS, 3);
    for (int at = 0; at < 2; at++) {
        for (int64_t n = 1; n < 3; n++) { /* on, or back to a shorter text */
            left = at;
            refused(dt_decoder_feed(d, ids + NEAR_TOKENS, 1, &logits), DT_ERR_NUMERIC, "refused");
            ck_assert_int_eq(dt_decoder_length(d), NEAR_TOKENS);
            left = -1;
            if (n == 2) TEST_OK(ctx, dt_decoder_rewind(d, NEAR_TOKENS - 2));
            const int64_t from = dt_decoder_length(d);
            ck_assert_mem_eq(feed(d, ids + from, n, n), want + (from + n - 1) * 40, ROW);
            TEST_OK(ctx, dt_decoder_rewind(d, 0));
            feed(d, ids, NEAR_TOKENS, NEAR_TOKENS);
        }
    }
    dt_decoder_free(d);
    dt_module_free(m);
    free(want);
}
END_TEST

/* ---- memory --------------------------------------------------------------------------------- */

static void feed_without_allocating(dt_module *m, int cache)
{
    dt_decoder *d;
    dt_tensor *logits;
    const dt_sampling how = { .temperature = 1, .top_p = 0.9 };
    ck_assert_int_eq(dt_decoder_create(m, &(dt_decoder_options){ .cache = cache }, &d), DT_OK);
    const int64_t capacity = dt_decoder_capacity(d);
    int32_t id = 3;
    uint64_t before = 0;
    for (int64_t i = 0; i < capacity; i++) {
        ck_assert_int_eq(dt_decoder_feed(d, &id, 1, &logits), DT_OK);
        if (i == 0) ck_assert_int_eq(dt_sample(ctx, &how, i, logits, &id), DT_OK);
        if (i == 0) before = dt_memory_of(ctx).allocations;
        ck_assert_int_eq(dt_sample(ctx, &how, i, logits, &id), DT_OK);
    }
    ck_assert_uint_eq(dt_memory_of(ctx).allocations, before);
    dt_decoder_free(d);
}

START_TEST(a_token_allocates_nothing)
{
    dt_module *m = small_llama(ctx, 300);
    const dt_qat_options qat = dt_qat_defaults();
    feed_without_allocating(m, DT_CACHE_F32);
    ck_assert_int_eq(dt_prepare(m, &qat), DT_OK);
    feed_without_allocating(m, DT_CACHE_F32);
    ck_assert_int_eq(dt_convert(m, NULL, NULL), DT_OK);
    feed_without_allocating(m, DT_CACHE_F32);
    feed_without_allocating(m, DT_CACHE_INT8);
    feed_without_allocating(m, DT_CACHE_INT4);
    dt_module_free(m);
}
END_TEST

static dt_status feed_some(dt_ctx *c, void *user)
{
    const dt_decoder_options o = { .cache = *(const int *)user };
    dt_decoder *d = NULL;
    dt_tensor *logits;
    int32_t ids[] = { 1, 2, 3 }, id;
    const dt_sampling how = { .temperature = 1, .top_k = 3, .top_p = 0.9 };
    dt_module *m = long_llama(c, 8, 2);
    if (m == NULL) return dt_error_status(c);
    dt_status s = dt_decoder_create(m, &o, &d);
    if (s == DT_OK) s = dt_decoder_feed(d, ids, 3, &logits);
    if (s == DT_OK) s = dt_sample(c, &how, 0, logits, &id);
    dt_decoder_free(d);
    dt_module_free(m);
    return s;
}

START_TEST(every_allocation_may_fail)
{
    for (int cache = 0; cache < DT_CACHES; cache++) {
        ck_assert_int_gt(test_every_allocation(feed_some, &cache), 20);
    }
}
END_TEST

Suite *test_decoder_suite(void);
Suite *test_decoder_suite(void)
{
    Suite *s = suite_create("decoder");
    TCase *c = tcase_create("decoder");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 120);
    tcase_add_test(c, logits_have_the_bits_of_one_pass);
    tcase_add_test(c, long_texts_have_the_bits_of_one_pass);
    tcase_add_test(c, converted_models_give_the_bits_of_prepared_ones);
    tcase_add_loop_test(c, codes_have_one_result, DT_CACHE_INT8, DT_CACHES);
    tcase_add_loop_test(c, codes_take_any_pieces, DT_CACHE_INT8, DT_CACHES);
    tcase_add_loop_test(c, a_cache_holds_the_codes_of_the_formula, DT_CACHE_INT8, DT_CACHES);
    tcase_add_loop_test(c, a_pass_reads_what_the_cache_keeps, DT_CACHE_INT8, DT_CACHES);
    tcase_add_test(c, what_has_no_cache_is_refused);
    tcase_add_test(c, mistakes_are_refused);
    tcase_add_test(c, rewound_tokens_are_forgotten);
    tcase_add_test(c, long_texts_are_cut_into_passes);
    tcase_add_loop_test(c, windows_take_any_pieces, 0, 5);
    tcase_add_loop_test(c, windows_hide_what_is_behind_them, 0, DT_CACHES);
    tcase_add_loop_test(c, longrope_takes_any_pieces, 0, DT_CACHES);
    tcase_add_test(c, longrope_is_one_for_all_passes);
    tcase_add_test(c, longrope_survives_a_failing_feed);
    tcase_add_test(c, a_token_allocates_nothing);
    tcase_add_test(c, every_allocation_may_fail);
    suite_add_tcase(s, c);
    return s;
}
