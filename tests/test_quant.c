/* Quantization schemes: the reference values of ../shared/golden/quant (a part of them is in
 * tests/golden), each scheme's own cases, properties on random and edge data, bad settings and
 * values, equal bits on any number of threads. */
#include "schemes.h"
#include "testing.h"

#include <detent/experimental/io.h>

#include "core/text/half.h"
#include "kernels/kernels.h"
#include "qat/quantized.h"
#include "qat/schemes/scheme.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *context(int threads)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    TEST_OK(ctx, dt__kernels_open(ctx));
    return ctx;
}

/* Memory for everything that quantizing gives. */
typedef struct result {
    dt__cut cut;
    dt__quantized q;
    float *image;
    bool *skip; /* rows that are not compared */
} result;

static result result_of(dt_ctx *ctx, const dt_quant_spec *q, int rank, const int64_t *dims)
{
    result r;
    TEST_OK(ctx, dt__cut_of(ctx, q, rank, dims, &r.cut));
    const int64_t n = r.cut.rows * r.cut.columns, blocks = dt__cut_blocks(&r.cut);
    r.q = (dt__quantized){ .codes = malloc((size_t)n + 1), .ld = r.cut.columns };
    r.q.scale = malloc((size_t)(blocks + 1) * sizeof(float));
    r.q.zero = malloc((size_t)blocks + 1);
    r.q.mask = malloc((size_t)(r.cut.rows * dt__mask_bytes(&r.cut)) + 1);
    r.image = malloc((size_t)(n + 1) * sizeof(float));
    r.skip = calloc((size_t)r.cut.rows + 1, sizeof(bool));
    return r;
}

static void discard(result *r)
{
    free(r->q.codes);
    free(r->q.scale);
    free(r->q.zero);
    free(r->q.mask);
    free(r->image);
    free(r->skip);
}

static int64_t block_of(const dt__cut *c, int64_t i)
{
    return c->whole ? 0 : i / c->columns * c->groups + i % c->columns / c->group;
}

static bool skipped(const result *r, int64_t i) { return r->skip[i / r->cut.columns]; }

static bool passes(const result *r, int64_t i)
{
    const int64_t row = i / r->cut.columns, k = i % r->cut.columns;
    return (r->q.mask[row * dt__mask_bytes(&r->cut) + k / 8] >> (k % 8) & 1) != 0;
}

/* ---- reference values ----------------------------------------------------------------------- */

#define WORD 64

/* The word after " key=" in a case's settings; "": there is none. */
static const char *word(const char *settings, const char *key, char out[WORD])
{
    const size_t n = strlen(key);
    out[0] = '\0';
    for (const char *at = settings; (at = strstr(at, key)) != NULL; at += n) {
        if ((at != settings && at[-1] != ' ') || at[n] != '=') continue;
        const size_t length = strcspn(at + n + 1, " ");
        snprintf(out, WORD, "%.*s", (int)length, at + n + 1);
        break;
    }
    return out;
}

static int choice(const char *const *names, const char *name)
{
    int i = 0;
    while (names[i] != NULL && strcmp(names[i], name) != 0) i++;
    ck_assert_msg(names[i] != NULL, "no such setting: '%s'", name);
    return i;
}

static dt_quant_spec settings_of(const char *text)
{
    static const char *const rules[] = { "symmetric", "symmetric_no_clip", "asymmetric", "q4_0",
                                         NULL };
    static const char *const granularities[] = { "tensor", "channel", "group",
                                                 "token",  "sample",  NULL };
    static const char *const scales[] = { "f32", "f16", "bf16", NULL };
    char w[WORD];
    dt_quant_spec q = { .bits = atoi(word(text, "bits", w)) };
    q.scheme = choice(rules, word(text, "rule", w));
    q.granularity = choice(granularities, word(text, "granularity", w));
    q.group_size = atoi(word(text, "group", w));
    q.is_unsigned = word(text, "unsigned", w)[0] == '1';
    if (word(text, "scale_dtype", w)[0] != '\0') q.scale_dtype = choice(scales, w);
    q.activation = strcmp(word(text, "eps", w), "2^-23") == 0;
    return q;
}

/* A tensor NAME/PART of the file as floats or integers, gathered through `index` where a matrix is
 * not the tensor as it lies; NULL where the file has none. */
typedef struct source {
    dt_ctx *ctx;
    dt_file *file;
    const int32_t *index; /* or NULL */
} source;

static void *part(const source *s, const char *name, const char *what, dt_dtype dtype)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", name, what);
    const dt_file_entry *e = dt_file_find(s->file, full);
    if (e == NULL) return NULL;
    dt_tensor *t;
    TEST_OK(s->ctx, dt_file_load(s->file, full, dtype, &t));
    const size_t size = dt_dtype_size(dtype);
    char *out = malloc(size * (size_t)e->count + 1);
    const bool gather = s->index != NULL && strcmp(what, "index") != 0;
    for (int64_t i = 0; i < e->count; i++) {
        const int64_t from = gather ? s->index[i] : i;
        memcpy(out + size * (size_t)i, (const char *)dt_data(t) + size * (size_t)from, size);
    }
    dt_tensor_free(t);
    return out;
}

/* The same for values per block, which are never gathered. */
static void *block_part(const source *s, const char *name, const char *what, dt_dtype dtype)
{
    const source plain = { s->ctx, s->file, NULL };
    return part(&plain, name, what, dtype);
}

typedef struct tally {
    int64_t cases, elements, refused;
} tally;

/* Rows whose qmin * scale is infinite are set to zero and not compared: the reference accepts them,
 * detent refuses them (numerics §1). Returns how many there are. */
static int64_t clear_refused(const source *s, const char *name, const dt_quant_spec *q, result *r,
                             float *x)
{
    float *scale = block_part(s, name, "scale", DT_F32);
    int64_t refused = 0;
    for (int64_t row = 0; scale != NULL && !r->cut.whole && row < r->cut.rows; row++) {
        bool infinite = false;
        for (int64_t g = 0; g < r->cut.groups; g++) {
            infinite |= isinf((float)dt__qmin(q) * scale[row * r->cut.groups + g]);
        }
        if (!infinite) continue;
        refused++;
        r->skip[row] = true;
        memset(x + row * r->cut.columns, 0, (size_t)r->cut.columns * sizeof *x);
    }
    free(scale);
    return refused;
}

static void check_codes(const source *s, const char *name, const dt_quant_spec *q, const result *r)
{
    const int shift = q->is_unsigned ? 1 << (q->bits - 1) : 0;
    const bool zeros = dt__scheme_of(q->scheme)->has_zero;
    const char *codes_part = q->scale_dtype == DT_SCALE_F32 ? "codes"
                             : zeros                        ? "codes_rounded_scale"
                                                            : "codes_f32recip";
    const char *zero_part = q->scale_dtype != DT_SCALE_F32 && zeros ? "zp_rounded_scale" : "zp";
    int32_t *codes = part(s, name, codes_part, DT_I32);
    int32_t *zero = block_part(s, name, zero_part, DT_I32);
    float *scale = block_part(s, name, "scale", DT_F32);
    ck_assert_msg(codes != NULL, "%s has no %s", name, codes_part);
    for (int64_t b = 0; scale != NULL && b < dt__cut_blocks(&r->cut); b++) {
        if (!r->cut.whole && r->skip[b / r->cut.groups]) continue;
        TEST_EACH(scale[b] == r->q.scale[b], "%s: scale %lld is %a, not %a", name, (long long)b,
                  (double)r->q.scale[b], (double)scale[b]);
        TEST_EACH(zero[b] - shift == r->q.zero[b], "%s: zero point %lld is %d, not %d", name,
                  (long long)b, r->q.zero[b], zero[b] - shift);
    }
    for (int64_t i = 0; i < r->cut.rows * r->cut.columns; i++) {
        if (skipped(r, i)) continue;
        TEST_EACH(codes[i] - shift == r->q.codes[i], "%s: code %lld is %d, not %d", name,
                  (long long)i, r->q.codes[i], codes[i] - shift);
    }
    free(codes);
    free(zero);
    free(scale);
}

/* Dequantized values are compared by ==, so that zeros of both signs agree. Those of an asymmetric
 * case with a half scale are given for other codes than detent's. */
static void check_image(const source *s, const char *name, const dt_quant_spec *q, const result *r)
{
    const bool half = q->scale_dtype != DT_SCALE_F32;
    if (half && dt__scheme_of(q->scheme)->has_zero) return;
    float *image = part(s, name, half ? "image_f32recip" : "image", DT_F32);
    for (int64_t i = 0; image != NULL && i < r->cut.rows * r->cut.columns; i++) {
        if (skipped(r, i)) continue;
        TEST_EACH(image[i] == r->image[i], "%s: image %lld is %a, not %a", name, (long long)i,
                  (double)r->image[i], (double)image[i]);
    }
    free(image);
}

/* The reference's dx is (dy * s) * (1/s): its zeros give the mask, if that product neither
 * overflows nor underflows. */
static void check_mask(const source *s, const char *name, const char *input, const result *r)
{
    float *dy = part(s, input, "dy", DT_F32), *dx = part(s, name, "dx", DT_F32);
    int64_t clipped = 0;
    for (int64_t i = 0; i < r->cut.rows * r->cut.columns; i++) {
        clipped += !passes(r, i);
        const float scale = r->q.scale[block_of(&r->cut, i)];
        if (dx == NULL || skipped(r, i) || !isfinite(dx[i]) ||
            !(scale > 0x1p-100f && scale < 0x1p100f))
            continue;
        TEST_EACH((dx[i] != 0) == (passes(r, i) && dy[i] != 0), "%s: mask %lld is %d", name,
                  (long long)i, passes(r, i));
        TEST_EACH(dx[i] == 0 || test_near(dx[i], dy[i], 0, 1.2e-7), "%s: dx %lld", name,
                  (long long)i);
    }
    ck_assert_int_eq(clipped, r->q.clipped);
    free(dy);
    free(dx);
}

/* A dequantized value quantized with its own scale gives the codes it was made from. */
static void check_idempotence(dt_ctx *ctx, const dt_quant_spec *q, const result *r, int rank,
                              const int64_t *dims)
{
    result again = result_of(ctx, q, rank, dims);
    const int64_t blocks = dt__cut_blocks(&r->cut), n = r->cut.rows * r->cut.columns;
    memcpy(again.q.scale, r->q.scale, (size_t)blocks * sizeof(float));
    memcpy(again.q.zero, r->q.zero, (size_t)blocks);
    TEST_OK(ctx, dt__quantize_given(ctx, q, &r->cut, r->image, &again.q, NULL));
    ck_assert_mem_eq(again.q.codes, r->q.codes, (size_t)n);
    ck_assert_int_eq(again.q.clipped, 0);
    discard(&again);
}

static void check_case(source s, const char *name, const char *text, tally *t)
{
    char input[WORD], informative[WORD], full[256];
    const dt_quant_spec q = settings_of(text);
    if (word(text, "input", input)[0] == '\0') snprintf(input, sizeof input, "%s", name);
    int32_t *index = block_part(&s, input, "index", DT_I32);
    s.index = index;
    float *x = part(&s, input, "x", DT_F32);
    snprintf(full, sizeof full, "%s/%s", input, index == NULL ? "x" : "index");
    const dt_file_entry *e = dt_file_find(s.file, full);
    result r = result_of(s.ctx, &q, e->rank, e->dims);
    dt_status status = dt__quantize(s.ctx, &q, &r.cut, x, &r.q, input);
    if (word(text, "informative", informative)[0] == '1') {
        ck_assert_int_eq(status, DT_ERR_NUMERIC); /* rows whose scale or dequantized value is
                                                   * infinite */
    } else {
        const int64_t refused = clear_refused(&s, name, &q, &r, x);
        ck_assert_int_eq(status, refused == 0 ? DT_OK : DT_ERR_NUMERIC);
        status = dt__quantize(s.ctx, &q, &r.cut, x, &r.q, input);
        ck_assert_msg(status == DT_OK, "%s: %s", name, dt_error(s.ctx));
        dt__dequantize(s.ctx, &r.cut, &r.q, r.image);
        check_codes(&s, name, &q, &r);
        check_image(&s, name, &q, &r);
        if (q.scale_dtype == DT_SCALE_F32) check_mask(&s, name, input, &r);
        check_idempotence(s.ctx, &q, &r, e->rank, e->dims);
        t->refused += refused;
    }
    t->cases++;
    t->elements += r.cut.rows * r.cut.columns;
    discard(&r);
    free(x);
    free(index);
}

/* Whether the metadata describe a case of a scheme of detent, made by a torch with the same
 * gradient: from 2.15 on, the gradient of a code at an end of the range is 0. */
static bool has_rule(const dt_file *file, const char *text)
{
    char rule[WORD];
    const char *about = dt_file_meta(file, "about");
    if (about != NULL && strstr(about, "torch 2.15") != NULL) return false;
    for (int i = 0; i < DT__SCHEMES; i++) {
        if (strcmp(word(text, "rule", rule), dt__scheme_of(i)->name) == 0) return true;
    }
    return false;
}

static test_names files; /* golden/quant; those without such cases belong to other tests */

static dt_file *open_golden(dt_ctx *ctx, const char *name)
{
    char path[TEST_PATH], file_name[128];
    snprintf(file_name, sizeof file_name, "quant/%s.safetensors", name);
    if (!test_golden(path, file_name)) return NULL;
    dt_file *file;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    return file;
}

START_TEST(reference_values)
{
    dt_ctx *ctx = context(2);
    source s = { ctx, open_golden(ctx, files.name[_i]), NULL };
    tally t = { 0, 0, 0 };
    for (int64_t i = 0; s.file != NULL && i < dt_file_meta_count(s.file); i++) {
        const char *name, *text;
        ck_assert(dt_file_meta_at(s.file, i, &name, &text));
        if (has_rule(s.file, text)) check_case(s, name, text, &t);
    }
    if (t.cases > 0) {
        printf("  %-28s %4lld cases, %7lld elements, %lld rows refused as too large\n",
               files.name[_i], (long long)t.cases, (long long)t.elements, (long long)t.refused);
    }
    dt_file_close(s.file);
    dt_ctx_free(ctx);
}
END_TEST

/* A block's 18 bytes as GGUF has them: fp16 d, then code j low and code j + 16 high, plus 8. */
static void q4_0_bytes(float scale, const int8_t *codes, uint8_t out[18])
{
    const uint16_t d = dt__f32_to_f16(scale);
    out[0] = (uint8_t)(d & 0xff);
    out[1] = (uint8_t)(d >> 8);
    for (int j = 0; j < 16; j++) out[2 + j] = (uint8_t)((codes[j] + 8) | (codes[j + 16] + 8) << 4);
}

static void check_q4_0(const source *s, const char *name)
{
    const dt_quant_spec q = {
        .scheme = DT_SCHEME_Q4_0, .bits = 4, .granularity = DT_PER_GROUP, .group_size = 32
    };
    char q4_0[WORD];
    snprintf(q4_0, sizeof q4_0, "%s/q4_0", name);
    float *x = part(s, name, "x", DT_F32), *image = part(s, q4_0, "image", DT_F32);
    uint8_t *undefined = part(s, name, "undefined", DT_U8);
    uint8_t *want = part(s, q4_0, "c_ref", DT_U8);
    if (want == NULL) want = part(s, q4_0, "py", DT_U8);
    snprintf(q4_0, sizeof q4_0, "%s/undefined", name);
    const int64_t blocks = dt_file_find(s->file, q4_0)->count, dims[2] = { blocks, 32 };
    result r = result_of(s->ctx, &q, 2, dims), again = result_of(s->ctx, &q, 2, dims);
    TEST_OK(s->ctx, dt__quantize(s->ctx, &q, &r.cut, x, &r.q, name));
    dt__dequantize(s->ctx, &r.cut, &r.q, r.image);
    TEST_OK(s->ctx, dt__quantize(s->ctx, &q, &again.cut, r.image, &again.q, name));
    for (int64_t b = 0; b < blocks; b++) {
        uint8_t bytes[18], bytes_again[18];
        q4_0_bytes(r.q.scale[b], r.q.codes + 32 * b, bytes);
        q4_0_bytes(again.q.scale[b], again.q.codes + 32 * b, bytes_again);
        ck_assert_mem_eq(bytes, bytes_again, 18);
        if (r.q.scale[b] == 0) { /* zeros: -0, and codes of 0 where ggml may leave others */
            ck_assert(bytes[0] == 0 && bytes[1] == 0x80 && bytes[2] == 0x88 && bytes[17] == 0x88);
            ck_assert(want[18 * b] == 0 && (want[18 * b + 1] & 0x7f) == 0);
        } else if (undefined[b] == 0) {
            ck_assert_mem_eq(bytes, want + 18 * b, 18);
        }
        for (int64_t i = 32 * b; undefined[b] == 0 && i < 32 * b + 32; i++) {
            TEST_EACH(image[i] == r.image[i], "%s: image %lld is %a, not %a", name, (long long)i,
                      (double)r.image[i], (double)image[i]);
        }
    }
    discard(&r);
    discard(&again);
    free(x);
    free(image);
    free(undefined);
    free(want);
}

START_TEST(q4_0_blocks_have_ggml_bytes)
{
    static const char *const names[] = { "normal", "heavy", "near", "near8", "edge" };
    dt_ctx *ctx = context(2);
    const source s = { ctx, open_golden(ctx, "ggml"), NULL };
    for (int i = 0; s.file != NULL && i < DT__COUNT_OF(names); i++) check_q4_0(&s, names[i]);
    dt_file_close(s.file);
    dt_ctx_free(ctx);
}
END_TEST

/* The number of bits of the scheme, or else this one. */
static int64_t bits_of(int scheme, int64_t bits)
{
    return dt__scheme_of(scheme)->bits != 0 ? dt__scheme_of(scheme)->bits : bits;
}

START_TEST(bad_values_are_named)
{
    static const int granularities[] = { DT_PER_TENSOR, DT_PER_CHANNEL, DT_PER_GROUP };
    dt_ctx *ctx = context(2);
    const source s = { ctx, open_golden(ctx, "bad_values"), NULL };
    for (int64_t i = 0; s.file != NULL && i < dt_file_count(s.file); i++) {
        const dt_file_entry *e = dt_file_at(s.file, i);
        char first[WORD], want[WORD];
        snprintf(want, sizeof want, "element %s ",
                 word(dt_file_meta(s.file, e->name), "first", first));
        dt_tensor *x;
        TEST_OK(ctx, dt_file_load(s.file, e->name, DT_F32, &x));
        for (int k = 0; k < DT__SCHEMES * DT__COUNT_OF(granularities); k++) {
            const dt_quant_spec q = { .scheme = k % DT__SCHEMES,
                                      .bits = bits_of(k % DT__SCHEMES, 4),
                                      .granularity = granularities[k / DT__SCHEMES],
                                      .group_size = group_of(k % DT__SCHEMES, 32) };
            if (!scheme_takes(ctx, &q)) continue;
            result r = result_of(ctx, &q, e->rank, e->dims);
            TEST_FAILS(ctx, DT_ERR_NUMERIC, want,
                       dt__quantize(ctx, &q, &r.cut, dt_data(x), &r.q, e->name));
            ck_assert(strstr(dt_error(ctx), e->name) != NULL);
            discard(&r);
        }
        dt_tensor_free(x);
    }
    dt_file_close(s.file);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- each scheme's own cases ---------------------------------------------------------------- */

START_TEST(cases_of_the_schemes)
{
    dt_ctx *ctx = context(1);
    const dt__scheme *scheme = dt__scheme_of(_i);
    int cases = 0;
    for (const dt__scheme_case *c = scheme->cases; c->name != NULL; c++, cases++) {
        const dt_quant_spec q = { .scheme = _i,
                                  .bits = c->bits,
                                  .granularity = DT_PER_GROUP,
                                  .group_size = group_of(_i, 32) };
        TEST_OK(ctx, dt__quant_check(ctx, &q, DT__QUANT_TENSOR));
        const int64_t dims[2] = { 1, c->n };
        result r = result_of(ctx, &q, 2, dims);
        TEST_OK(ctx, dt__quantize(ctx, &q, &r.cut, c->x, &r.q, c->name));
        ck_assert_msg(r.q.scale[0] == c->scale && !signbit(r.q.scale[0]) == !signbit(c->scale),
                      "%s, %s: scale %a", scheme->name, c->name, (double)r.q.scale[0]);
        ck_assert_msg(r.q.zero[0] == c->zero, "%s, %s: zero point %d", scheme->name, c->name,
                      r.q.zero[0]);
        for (int k = 0; k < c->n; k++) {
            ck_assert_msg(r.q.codes[k] == c->codes[k], "%s, %s: code %d is %d", scheme->name,
                          c->name, k, r.q.codes[k]);
        }
        discard(&r);
    }
    ck_assert_int_ge(cases, 3);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(the_list_is_in_the_order_of_scheme_numbers)
{
#define DT__SCHEME(name, number) ck_assert_ptr_eq(dt__scheme_of(number), &dt__scheme_##name);
#include "qat/schemes/schemes.inc"
#undef DT__SCHEME
    ck_assert_ptr_null(dt__scheme_of(-1));
    ck_assert_ptr_null(dt__scheme_of(DT_SCHEME_OWN + 1));
    for (const dt_key *k = dt__quant_keys; k->name != NULL; k++) {
        for (int i = 0; strcmp(k->name, "scheme") == 0 && i <= DT__SCHEMES; i++) {
            const dt__scheme *scheme = dt__scheme_of(i);
            if (scheme == NULL) ck_assert_ptr_null(k->choices[i]);
            else ck_assert_str_eq(k->choices[i], scheme->name);
        }
    }
}
END_TEST

/* ---- properties ----------------------------------------------------------------------------- */

enum { ROWS = 12, COLUMNS = 75, COUNT = ROWS * COLUMNS };

/* The edge data of row `row`. Its scales are finite under every scheme but q4_0. */
static float edge_value(int row, int k, dt__stream *s)
{
    const float unit = (float)(2 * dt__random_unit(s) - 1);
    switch (row) {
    case 0: return k % 2 == 0 ? 0.0f : -0.0f;
    case 1: return 3.25f;
    case 2: return -3.25f;
    case 3: return k == 17 ? 1e30f : unit;
    case 4: return unit * 1e37f;
    case 5: return ldexpf(unit, -140);
    case 6: return ldexpf((float)(k - 30), -149);
    case 7: return k == 0 ? FLT_MIN : 0;
    case 8: return fabsf(unit) + 2;
    case 9: return -fabsf(unit) - 2;
    case 10: return (float)k - 37.5f;
    default: return unit * unit * unit;
    }
}

static void fill_data(float *x, bool edge, dt__stream *s)
{
    for (int i = 0; i < COUNT; i++) {
        x[i] = edge ? edge_value(i / COLUMNS, i % COLUMNS, s)
                    : (float)(dt__random_unit(s) + dt__random_unit(s) - 1);
    }
}

/* The difference between a stored scale and the one that made the codes, where a scheme does not
 * compute codes from the stored one, times the largest code. */
static double stored_error(const dt_quant_spec *q, double scale)
{
    const int dtype = dt__scale_dtype(q);
    const double relative = dtype == DT_SCALE_F16 ? 0x1p-11 : dtype == DT_SCALE_BF16 ? 0x1p-8 : 0;
    return -dt__qmin(q) * (scale * relative + (dtype == DT_SCALE_F16 ? 0x1p-25 : 0));
}

/* Half of the step of a float's values at v. */
static double half_step(const dt__small_float *f, double v)
{
    const int least = 1 - f->bias, exponent = v == 0 ? least : ilogb(v);
    return ldexp(1, (exponent < least ? least : exponent) - f->mantissa - 1);
}

/* |x - dequantized| is at most half a step where nothing was clipped, and a step where something
 * was, and what q4_0 and q8_0 lose by storing a scale. Zero stays zero. */
static void check_error(const dt_quant_spec *q, const float *x, const result *r)
{
    for (int i = 0; i < COUNT; i++) {
        const double scale = fabs((double)r->q.scale[block_of(&r->cut, i)]);
        const bool stored = dt__scheme_of(q->scheme)->round_scales != NULL;
        const double slack = 1e-4 * scale + (stored ? stored_error(q, scale) : 0);
        const double rounding = q->scale_dtype == DT_SCALE_F32 ? 0 : ldexp(1, (int)q->bits - 9);
        const dt__levels *levels = dt__levels_of(q);
        const double half = r->q.real != NULL ? half_step(r->q.real, (double)x[i] / scale)
                            : levels != NULL  ? (levels->code[1] - levels->code[0]) / 2.0
                                              : 0.5;
        const double step = (passes(r, i) ? half : 1 + rounding) * scale + slack;
        const bool floored = q->scale_dtype == DT_SCALE_F16 && 2 * scale > 65504; /* at its limit */
        if (scale == 0 || floored || (levels != NULL && !passes(r, i))) continue;
        TEST_EACH(fabs((double)x[i] - (double)r->image[i]) <= step, "%s, %d: %a has image %a",
                  dt__scheme_of(q->scheme)->name, i, (double)x[i], (double)r->image[i]);
        TEST_EACH(x[i] != 0 || r->image[i] == 0 || !dt__has_code_zero(q),
                  "%d: the image of 0 is %a", i, (double)r->image[i]);
        const int code = r->q.codes[i];
        if (r->q.real != NULL) {
            TEST_EACH(dt__small_has(r->q.real, (uint8_t)code), "%d: code %d", i, code);
            continue;
        }
        TEST_EACH(code >= dt__qmin(q) && code <= dt__qmax(q), "%d: code %d", i, code);
    }
}

/* The dequantized value of a code, in scales. */
static float level_of(const result *r, int i)
{
    const int8_t code = r->q.codes[i];
    return r->q.real != NULL ? dt__small_value(r->q.real, (uint8_t)code) : (float)code;
}

/* Larger values of a block have larger codes, or equal ones. */
static void check_monotone(const float *x, const result *r)
{
    for (int i = 0; i < COUNT; i++) {
        for (int j = i + 1; j < COUNT && j < i + 40; j++) {
            const int64_t block = block_of(&r->cut, i);
            if (block_of(&r->cut, j) != block || x[i] == x[j]) continue;
            const float sign = (x[i] < x[j]) == (r->q.scale[block] < 0) ? -1 : 1;
            TEST_EACH(sign * (level_of(r, j) - level_of(r, i)) >= 0, "%d and %d are out of order",
                      i, j);
        }
    }
}

/* -x has the same scale and opposite codes, except for qmin, which has no opposite. */
static void check_negation(dt_ctx *ctx, const dt_quant_spec *q, const float *x, const result *r)
{
    const int64_t dims[2] = { ROWS, COLUMNS };
    float negative[COUNT];
    for (int i = 0; i < COUNT; i++) negative[i] = -x[i];
    result n = result_of(ctx, q, 2, dims);
    TEST_OK(ctx, dt__quantize(ctx, q, &n.cut, negative, &n.q, NULL));
    ck_assert_mem_eq(n.q.scale, r->q.scale, (size_t)dt__cut_blocks(&n.cut) * sizeof(float));
    for (int i = 0; i < COUNT; i++) {
        const int a = r->q.codes[i], b = n.q.codes[i];
        const bool at_end = a + b == -1 && (a == dt__qmin(q) || b == dt__qmin(q));
        TEST_EACH(a == -b || at_end, "%d: codes %d and %d", i, a, b);
    }
    discard(&n);
}

static void check_properties(dt_ctx *ctx, const dt_quant_spec *q, const float *x)
{
    const int64_t dims[2] = { ROWS, COLUMNS };
    result r = result_of(ctx, q, 2, dims);
    TEST_OK(ctx, dt__quantize(ctx, q, &r.cut, x, &r.q, NULL));
    dt__dequantize(ctx, &r.cut, &r.q, r.image);
    check_error(q, x, &r);
    check_monotone(x, &r);
    if (!dt__scheme_of(q->scheme)->fp16_blocks) check_idempotence(ctx, q, &r, 2, dims);
    if (q->scheme == DT_SCHEME_SYMMETRIC) check_negation(ctx, q, x, &r);
    discard(&r);
}

START_TEST(properties)
{
    static const int granularities[] = { DT_PER_TENSOR, DT_PER_CHANNEL, DT_PER_GROUP };
    dt_ctx *ctx = context(2);
    dt__stream s = dt__stream_of((uint64_t)_i, DT__FOR_USER);
    float x[COUNT];
    int tried = 0;
    for (int data = 0; data < 4; data++) {
        fill_data(x, data % 2 == 1, &s);
        /* schemes with rounding of their own refuse scales beyond f16 */
        for (int i = 0; i < COUNT && dt__scheme_of(_i)->round_scales != NULL; i++) {
            x[i] = fminf(fmaxf(x[i], -4e4f), 4e4f);
        }
        for (int k = 0; k < 7 * 3 * 3 * 2; k++) {
            const dt_quant_spec q = { .scheme = _i,
                                      .bits = bits_of(_i, 2 + k % 7),
                                      .scale_dtype = k / 7 % 3,
                                      .granularity = granularities[k / 21 % 3],
                                      .group_size = group_of(_i, 32),
                                      .activation = k / 63 == 1 };
            dt_quant_spec of_weight = q; /* its formulas are those of activations, too */
            of_weight.activation = false;
            if (!scheme_takes(ctx, &of_weight)) continue;
            check_properties(ctx, &q, x);
            tried++;
        }
    }
    ck_assert_int_ge(tried, 8);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- scales that can be stored --------------------------------------------------------------- */

/* A scheme registered by the test: the next power of two. 65504, the largest f16, is none. */
static void power_scale(int qmin, int qmax, const dt__blocks *b)
{
    (void)qmin;
    for (int64_t i = 0; i < b->n; i++) b->scale[i] = fmaxf(-b->lo[i], b->hi[i]) / (float)qmax;
}

static void power_settle(const dt__scale_limits *limits, const dt__blocks *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        int exponent;
        const float least = b->scale[i] < limits->least ? limits->least : b->scale[i];
        const float part = frexpf(least, &exponent);
        b->scale[i] = ldexpf(1, part == 0.5f ? exponent - 1 : exponent);
        while (b->scale[i] > limits->most) b->scale[i] /= 2;
        b->inverse[i] = 1 / b->scale[i];
    }
}

static const dt__scheme power_of_two = { .name = "power_of_two",
                                         .scale = power_scale,
                                         .round_scales = power_settle };

/* As if the block had asked for this scale. */
static void ask(int qmin, int qmax, const dt__blocks *b)
{
    (void)qmin;
    (void)qmax;
    for (int64_t i = 0; i < b->n; i++) b->scale[i] = b->hi[i];
}

static float stored(float scale, int dtype)
{
    return dtype == DT_SCALE_F16    ? dt__round_f16(scale)
           : dtype == DT_SCALE_BF16 ? dt__round_bf16(scale)
                                    : scale;
}

/* A scale is representable in its dtype, and limiting and rounding it again does not change it. */
static void check_stored(const dt__scheme *scheme, const dt_quant_spec *q, float lo, float hi)
{
    float scale, again, inverse;
    int8_t zero = 0;
    dt__scheme asked = *scheme;
    asked.scale = ask;
    asked.rule = (dt__mx_rule){ 0 };
    asked.zero = NULL;
    const int dtype = scheme->fp16_blocks ? DT_SCALE_F16 : q->scale_dtype;
    int8_t *const zeros = scheme->has_zero ? &zero : NULL;
    if (!dt__scheme_scales(scheme, q, &(dt__blocks){ 1, &lo, &hi, &scale, &inverse, zeros, 0 })) {
        return; /* not finite: the block is refused */
    }
    TEST_EACH(stored(scale, dtype) == scale, "%s: %a is not a number of dtype %d", scheme->name,
              (double)scale, dtype);
    dt__scheme_scales(&asked, q, &(dt__blocks){ 1, &lo, &scale, &again, &inverse, NULL, 0 });
    TEST_EACH(again == scale, "%s: %a becomes %a", scheme->name, (double)scale, (double)again);
    int exponent;
    if (scheme != &power_of_two) return;
    TEST_EACH(frexpf(scale, &exponent) == 0.5f, "%a is not a power of two", (double)scale);
}

START_TEST(scales_can_be_stored)
{
    const dt__scheme *scheme = _i < DT__SCHEMES ? dt__scheme_of(_i) : &power_of_two;
    dt__stream s = dt__stream_of((uint64_t)_i, DT__FOR_USER);
    for (int k = 0; k < 3 * 2 * 7; k++) {
        const dt_quant_spec q = { .bits = 2 + k / 6,
                                  .scale_dtype = k % 3,
                                  .activation = k / 3 % 2 };
        if (scheme->settle != NULL && q.scale_dtype != DT_SCALE_F32) continue; /* refused */
        for (int i = 0; i < 600; i++) { /* of all magnitudes, 65504 and more among them */
            const float size = ldexpf(1, i % 270 - 140);
            const float lo = -(float)dt__random_unit(&s) * size;
            check_stored(scheme, &q, i % 3 == 0 ? 0 : lo, (float)dt__random_unit(&s) * size);
        }
    }
}
END_TEST

/* The gradient passes where the mask is set and is 0 elsewhere, also for infinite values. */
START_TEST(gradient_follows_the_mask)
{
    dt_ctx *ctx = context(1);
    const float x[10] = { 7.5f, -7.5f, 7.4f, 1, 7.5f, 0, 2, 3, 7.5f, -1 };
    float dy[10], dx[10];
    for (int i = 0; i < 10; i++) dy[i] = i == 4 ? INFINITY : (float)(i + 1);
    const dt_quant_spec q = { .scheme = DT_SCHEME_SYMMETRIC,
                              .bits = 4,
                              .granularity = DT_PER_TENSOR };
    const int64_t dims[2] = { 1, 10 };
    result r = result_of(ctx, &q, 2, dims);
    TEST_OK(ctx, dt__quantize(ctx, &q, &r.cut, x, &r.q, NULL));
    ck_assert_int_eq(r.q.clipped, 3);
    dt__pass_gradient(ctx, &r.cut, r.q.mask, dy, dx);
    for (int i = 0; i < 10; i++) ck_assert(dx[i] == (x[i] == 7.5f ? 0 : dy[i]));
    const dt_quant_spec standing = { .range = DT_RANGE_STATIC };
    ck_assert(dt__ste_clipped(&standing) && !dt__ste_clipped(&q));
    discard(&r);
    dt_ctx_free(ctx);
}
END_TEST

/* Products read activations as codes plus 128, in rows of any stride. */
START_TEST(biased_codes_are_codes_plus_128)
{
    dt_ctx *ctx = context(1);
    dt__stream s = dt__stream_of(1, DT__FOR_USER);
    float x[COUNT], image[COUNT];
    fill_data(x, false, &s);
    const dt_quant_spec q = dt_activation_quant_defaults();
    const int64_t dims[2] = { ROWS, COLUMNS };
    result r = result_of(ctx, &q, 2, dims);
    TEST_OK(ctx, dt__quantize(ctx, &q, &r.cut, x, &r.q, NULL));
    dt__dequantize(ctx, &r.cut, &r.q, r.image);
    int8_t codes[ROWS * 80];
    dt__quantized b = r.q;
    b.codes = codes;
    b.ld = 80;
    b.biased = true;
    TEST_OK(ctx, dt__quantize(ctx, &q, &r.cut, x, &b, NULL));
    for (int i = 0; i < COUNT; i++) {
        const int got = (uint8_t)codes[i / COLUMNS * 80 + i % COLUMNS];
        TEST_EACH(got == r.q.codes[i] + 128, "code %d is %d", i, got);
    }
    dt__dequantize(ctx, &r.cut, &b, image);
    ck_assert_mem_eq(image, r.image, sizeof image);
    discard(&r);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(same_bits_on_any_number_of_threads)
{
    static const int threads[] = { 1, 2, 3, 4, 8 };
    const int64_t dims[2] = { 301, 333 }, n = 301 * 333;
    float *x = malloc((size_t)n * sizeof *x);
    dt__stream s = dt__stream_of(4, DT__FOR_USER);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(dt__random_unit(&s) - 0.4);
    const dt_quant_spec q = { .scheme = DT_SCHEME_ASYMMETRIC,
                              .bits = 4,
                              .granularity = _i == 0 ? DT_PER_TENSOR : DT_PER_GROUP,
                              .group_size = 40 };
    result r[DT__COUNT_OF(threads)];
    for (int t = 0; t < DT__COUNT_OF(threads); t++) {
        dt_ctx *ctx = context(threads[t]);
        r[t] = result_of(ctx, &q, 2, dims);
        TEST_OK(ctx, dt__quantize(ctx, &q, &r[t].cut, x, &r[t].q, NULL));
        dt__dequantize(ctx, &r[t].cut, &r[t].q, r[t].image);
        ck_assert_mem_eq(r[t].image, r[0].image, (size_t)n * sizeof(float));
        ck_assert_mem_eq(r[t].q.codes, r[0].q.codes, (size_t)n);
        ck_assert_mem_eq(r[t].q.mask, r[0].q.mask, (size_t)(301 * dt__mask_bytes(&r[0].cut)));
        ck_assert_int_eq(r[t].q.clipped, r[0].q.clipped);
        const float last = x[n - 1], middle = x[n / 2];
        x[n - 1] = NAN; /* the first bad element is named on any number of threads */
        x[n / 2] = INFINITY;
        char want[WORD];
        snprintf(want, sizeof want, "weight: element %lld is infinite", (long long)(n / 2));
        TEST_FAILS(ctx, DT_ERR_NUMERIC, want,
                   dt__quantize(ctx, &q, &r[t].cut, x, &r[t].q, "weight"));
        x[n - 1] = last;
        x[n / 2] = middle;
        TEST_OK(ctx, dt__quantize(ctx, &q, &r[t].cut, x, &r[t].q, NULL));
        dt_ctx_free(ctx);
    }
    for (int t = 0; t < DT__COUNT_OF(threads); t++) discard(&r[t]);
    free(x);
}
END_TEST

/* ---- settings, shapes, overflow ------------------------------------------------------------- */

static const struct bad_setting {
    dt_quant_spec q;
    const char *text;
} bad_settings[] = {
    { { .scheme = DT_SCHEME_OWN + 1, .bits = 4 }, "not a quantization scheme" },
    { { .scheme = -1, .bits = 4 }, "not a quantization scheme" },
    { { .bits = 1 }, "bits must be from 2 to 8, not 1" },
    { { .bits = 9 }, "bits must be from 1 to 8, not 9" },
    { { .bits = INT64_C(1) << 40 }, "from 1 to 8" },
    { { .bits = 4, .granularity = 5 }, "not a granularity" },
    { { .bits = 4, .granularity = DT_PER_GROUP }, "group_size must be positive, not 0" },
    { { .bits = 4, .granularity = DT_PER_GROUP, .group_size = -8 }, "positive, not -8" },
    { { .bits = 4, .granularity = DT_PER_TOKEN }, "weights are quantized by tensor" },
    { { .bits = 4, .granularity = DT_PER_SAMPLE }, "weights are quantized by tensor" },
    { { .bits = 4, .granularity = DT_PER_CHANNEL, .activation = true },
      "tensor, token, sample or group" },
    { { .bits = 4, .scale_dtype = 3 }, "not a scale dtype" },
    { { .bits = 4, .ste = 3 }, "not one of the straight-through" },
    { { .bits = 4, .is_unsigned = true }, "symmetric has none" },
    { { .scheme = DT_SCHEME_Q4_0, .bits = 5, .granularity = DT_PER_GROUP, .group_size = 32 },
      "4 bits" },
    { { .scheme = DT_SCHEME_Q4_0, .bits = 4, .granularity = DT_PER_GROUP, .group_size = 64 },
      "groups of 32" },
    { { .scheme = DT_SCHEME_Q4_0, .bits = 4, .granularity = DT_PER_CHANNEL }, "groups of 32" },
    { { .scheme = DT_SCHEME_Q4_0, .bits = 4, .granularity = DT_PER_TENSOR, .activation = true },
      "for weights" },
    { { .scheme = DT_SCHEME_Q4_0,
        .bits = 4,
        .granularity = DT_PER_GROUP,
        .group_size = 32,
        .scale_dtype = DT_SCALE_BF16 },
      "not bf16" },
    { { .scheme = DT_SCHEME_Q4_0,
        .bits = 4,
        .granularity = DT_PER_GROUP,
        .group_size = 32,
        .is_unsigned = true },
      "q4_0 has none" },
};

START_TEST(bad_settings_are_refused)
{
    dt_ctx *ctx = context(1);
    for (int i = 0; i < DT__COUNT_OF(bad_settings); i++) {
        TEST_FAILS(ctx, DT_ERR_CONFIG, bad_settings[i].text,
                   dt__quant_check(ctx, &bad_settings[i].q, DT__QUANT_TENSOR));
    }
    const dt_quant_spec weight = dt_weight_quant_defaults(),
                        activation = dt_activation_quant_defaults();
    TEST_OK(ctx, dt__quant_check(ctx, &weight, DT__QUANT_TENSOR));
    TEST_OK(ctx, dt__quant_check(ctx, &activation, DT__QUANT_TENSOR));
    dt_ctx_free(ctx);
}
END_TEST

static const struct cut_case {
    dt_quant_spec q;
    int rank;
    int64_t dims[4];
    dt__cut cut;
} cuts[] = {
    { { .granularity = DT_PER_TENSOR }, 3, { 2, 3, 5 }, { 2, 15, 15, 1, true, 0 } },
    { { .granularity = DT_PER_CHANNEL }, 4, { 6, 2, 3, 3 }, { 6, 18, 18, 1, false, 0 } },
    { { .granularity = DT_PER_GROUP, .group_size = 8 }, 2, { 6, 27 }, { 6, 27, 8, 4, false, 0 } },
    { { .granularity = DT_PER_GROUP, .group_size = 32 }, 2, { 6, 27 }, { 6, 27, 27, 1, false, 0 } },
    { { .granularity = DT_PER_GROUP, .group_size = 8, .activation = true },
      3,
      { 2, 3, 20 },
      { 6, 20, 8, 3, false, 0 } },
    { { .granularity = DT_PER_TOKEN }, 3, { 2, 3, 5 }, { 6, 5, 5, 1, false, 0 } },
    { { .granularity = DT_PER_TOKEN }, 1, { 5 }, { 1, 5, 5, 1, false, 0 } },
    { { .granularity = DT_PER_TOKEN }, 0, { 0 }, { 1, 1, 1, 1, false, 0 } },
    { { .granularity = DT_PER_SAMPLE }, 4, { 2, 3, 4, 4 }, { 2, 48, 48, 1, false, 0 } },
    { { .granularity = DT_PER_CHANNEL }, 2, { 3, 0 }, { 3, 0, 1, 0, false, 0 } },
    { { .granularity = DT_PER_CHANNEL }, 2, { 0, 3 }, { 0, 3, 3, 1, false, 0 } },
};

START_TEST(shapes_are_cut)
{
    dt_ctx *ctx = context(1);
    for (int i = 0; i < DT__COUNT_OF(cuts); i++) {
        const struct cut_case *c = &cuts[i];
        dt__cut got;
        TEST_OK(ctx, dt__cut_of(ctx, &c->q, c->rank, c->dims, &got));
        ck_assert_msg(got.rows == c->cut.rows && got.columns == c->cut.columns &&
                          got.group == c->cut.group && got.groups == c->cut.groups &&
                          got.whole == c->cut.whole,
                      "case %d: %lld x %lld, group %lld x %lld", i, (long long)got.rows,
                      (long long)got.columns, (long long)got.group, (long long)got.groups);
        dt_quant_spec q = c->q;
        q.bits = 4;
        result r = result_of(ctx, &q, c->rank, c->dims); /* no element: nothing to read */
        if (got.rows * got.columns == 0) {
            TEST_OK(ctx, dt__quantize(ctx, &q, &got, NULL, &r.q, NULL));
        }
        discard(&r);
    }
    dt__cut out;
    const int64_t huge[2] = { INT64_MAX, 2 }, negative[1] = { -1 };
    TEST_FAILS(ctx, DT_ERR_SHAPE, "rank 2", dt__cut_of(ctx, &cuts[0].q, 2, huge, &out));
    TEST_FAILS(ctx, DT_ERR_SHAPE, "negative", dt__cut_of(ctx, &cuts[0].q, 1, negative, &out));
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(infinite_dequantized_values_are_refused)
{
    dt_ctx *ctx = context(1);
    float x[64] = { 0 };
    x[40] = FLT_MAX;
    const int64_t dims[2] = { 2, 32 };
    for (int rule = 0; rule < 4; rule++) {
        dt_quant_spec q = {
            .scheme = rule, .bits = 4, .granularity = DT_PER_GROUP, .group_size = 32
        };
        if (rule == DT_SCHEME_ASYMMETRIC) x[41] = -FLT_MAX;
        result r = result_of(ctx, &q, 2, dims);
        TEST_FAILS(ctx, DT_ERR_NUMERIC, "w: the values of row 1, group 0",
                   dt__quantize(ctx, &q, &r.cut, x, &r.q, "w"));
        dt__quantized codes = r.q;
        codes.zero = NULL; /* as layers make them, where all zero points are 0 */
        if (!dt__has_zero(&q)) {
            TEST_FAILS(ctx, DT_ERR_NUMERIC, "w: the values of row 1, group 0",
                       dt__quantize(ctx, &q, &r.cut, x, &codes, "w"));
        }
        q.scale_dtype = DT_SCALE_F16; /* clamped to 65504: clipped, but finite */
        const dt_status want = rule < 2 ? DT_OK : DT_ERR_NUMERIC;
        ck_assert_int_eq(dt__quantize(ctx, &q, &r.cut, x, &r.q, "w"), want);
        discard(&r);
    }
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_quant_suite(void)
{
    Suite *suite = suite_create("quant");
    TCase *c = tcase_create("reference");
    test_golden_names("quant", ".safetensors", &files);
    tcase_add_loop_test(c, reference_values, 0, files.n);
    tcase_add_test(c, q4_0_blocks_have_ggml_bytes);
    tcase_add_test(c, bad_values_are_named);
    suite_add_tcase(suite, c);
    c = tcase_create("rules");
    tcase_add_loop_test(c, cases_of_the_schemes, 0, DT__SCHEMES);
    tcase_add_test(c, the_list_is_in_the_order_of_scheme_numbers);
    tcase_add_loop_test(c, properties, 0, DT__SCHEMES);
    tcase_add_loop_test(c, scales_can_be_stored, 0, DT__SCHEMES + 1);
    tcase_add_test(c, gradient_follows_the_mask);
    tcase_add_test(c, biased_codes_are_codes_plus_128);
    tcase_add_loop_test(c, same_bits_on_any_number_of_threads, 0, 2);
    suite_add_tcase(suite, c);
    c = tcase_create("refused");
    tcase_add_test(c, bad_settings_are_refused);
    tcase_add_test(c, shapes_are_cut);
    tcase_add_test(c, infinite_dequantized_values_are_refused);
    suite_add_tcase(suite, c);
    return suite;
}
