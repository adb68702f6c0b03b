/* Damaged model files: every value is checked, each error names the mistake, nothing leaks, and the
 * model that should have been filled is unchanged. */
#include "models.h"
#include "testing.h"

#include "core/text/byte_order.h"
#include "core/core.h"
#include "qat/quantized.h"

#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static test_memory memory;
static char folder[TEST_PATH], good_path[TEST_PATH], bad_path[TEST_PATH];

/* ---- editing -------------------------------------------------------------------------------- */

typedef enum edit_kind {
    SET,     /* metadata `name` becomes `to`; NULL: is left out */
    REPLACE, /* in metadata `name`, `from` becomes `to` */
    DROP,    /* tensor `name` is left out */
    FORM,    /* tensor `name` gets dtype `to` and `dims`, filled with the bytes it had */
    BYTES    /* in tensor `name`, at byte `at`, the element `value` of `n` bytes */
} edit_kind;

typedef struct edit {
    edit_kind kind;
    const char *name, *from, *to;
    int rank;
    int64_t dims[3];
    size_t at, n;
    uint32_t value;
    const char *words; /* in the message */
} edit;

static char *replaced(const char *text, const edit *e)
{
    const char *at = strstr(text, e->from);
    ck_assert_msg(at != NULL, "'%s' is not in %s", e->from, text);
    char *out = malloc(strlen(text) + strlen(e->to) + 1);
    sprintf(out, "%.*s%s%s", (int)(at - text), text, e->to, at + strlen(e->from));
    return out;
}

static void copy_meta(dt_writer *w, const dt_file *f, const edit *e)
{
    const char *key, *value;
    bool there = false;
    for (int64_t i = 0; dt_file_meta_at(f, i, &key, &value); i++) {
        const bool own = strcmp(key, "detent.version") == 0 || strcmp(key, "detent.xxh3") == 0;
        const bool edited = strcmp(key, e->name) == 0 && (e->kind == SET || e->kind == REPLACE);
        there = there || edited;
        if (own || (edited && e->kind == SET)) continue;
        char *text = edited ? replaced(value, e) : NULL;
        TEST_OK(ctx, dt_writer_meta(w, key, text != NULL ? text : value));
        free(text);
    }
    if (e->kind == SET && e->to != NULL) TEST_OK(ctx, dt_writer_meta(w, e->name, e->to));
    ck_assert(there || e->kind != REPLACE);
}

/* The low bytes of the value, in the machine's order, which entries have, too. */
static void put_element(char *to, const edit *e)
{
    const size_t from = DT__BIG_ENDIAN ? sizeof e->value - e->n : 0;
    memcpy(to, (const char *)&e->value + from, e->n);
}

/* The writer borrows the memory that is allocated here. */
static void *copy_tensors(dt_writer *w, const dt_file *f, const edit *e)
{
    char *made = NULL;
    for (int64_t i = 0; i < dt_file_count(f); i++) {
        dt_file_entry t = *dt_file_at(f, i);
        if (strcmp(t.name, e->name) == 0 && e->kind >= DROP) {
            made = calloc(1, t.bytes + 4096);
            memcpy(made, t.data, t.bytes);
            if (e->kind == DROP) continue;
            if (e->kind == BYTES) put_element(made + e->at, e);
            if (e->kind == FORM) {
                t.dtype = e->to;
                t.rank = e->rank;
                t.dims = e->dims;
            }
            t.data = made;
        }
        TEST_OK(ctx, dt_writer_add_bytes(w, &t));
    }
    ck_assert(made != NULL || e->kind < DROP || e->kind == FORM);
    if (made != NULL || e->kind < DROP) return made;
    made = calloc(1, 4096); /* a tensor that was not there */
    TEST_OK(ctx, dt_writer_add_bytes(w, &(dt_file_entry){ .name = e->name,
                                                          .dtype = e->to,
                                                          .rank = e->rank,
                                                          .dims = e->dims,
                                                          .data = made }));
    return made;
}

static void write_edited(const edit *e)
{
    dt_file *f;
    dt_writer *w;
    TEST_OK(ctx, dt_file_open(ctx, good_path, &f));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    copy_meta(w, f, e);
    void *made = copy_tensors(w, f, e);
    TEST_OK(ctx, dt_writer_write(w, bad_path));
    dt_writer_free(w);
    dt_file_close(f);
    free(made);
}

/* ---- the good file -------------------------------------------------------------------------- */

/* Nearest, but groups of layers.0 are columns 5 k mod 19, in turns of eight. */
static dt_status round_apart(void *user, const char *path, const dt_tensor *master,
                             const dt_quant_spec *quant, const dt_code_rows *to)
{
    dt__codes *codes;
    (void)user;
    DT__TRY(dt__codes_make(master, &(dt__fq){ .quant = *quant }, path, &codes));
    dt__codes_to_rows(codes, to);
    dt__codes_release(codes);
    for (int k = 0; strcmp(path, "layers.0.weight") == 0 && k < 19; k++) {
        to->group_of[k] = 5 * k % 19 / 8;
    }
    return DT_OK;
}

/* layers.0: 3 bits, symmetric, groups of 8 of 19 columns. layers.1: 4 bits, asymmetric, a channel,
 * its input float. layers.2: q4_0. layers.3: float. head: 8 bits, one scale. */
enum {
    PREPARED,
    CONVERTED,
    APART, /* groups of layers.0 are not consecutive columns */
    FLOATS /* codes of layers.0 are floats: of this scheme and the next ones from mxfp8 on */
};

static dt_module *good_model(int how)
{
    static const int64_t sizes[] = { 19, 6, 5, 4, 3, 7, 0 };
    const dt_mlp_options o = small_options(sizes, 2, 0);
    const dt_model_info info = small_info(&o);
    dt_qat_options q = dt_qat_defaults();
    q.n_rules = 5;
    q.rules[0] = (dt_qat_rule){ .match = "layers.0",
                                .weight = { .quant = { .bits = 3, .group_size = 8 },
                                            .has_bits = true,
                                            .has_group_size = true } };
    q.rules[1] = (dt_qat_rule){ .match = "layers.1",
                                .weight = { .quant = { .scheme = DT_SCHEME_ASYMMETRIC,
                                                       .granularity = DT_PER_CHANNEL,
                                                       .scale_dtype = DT_SCALE_BF16 },
                                            .has_scheme = true,
                                            .has_granularity = true,
                                            .has_scale_dtype = true },
                                .activation = { .has_quantize = true, .quantize = false } };
    q.rules[2] =
        (dt_qat_rule){ .match = "layers.2",
                       .weight = { .quant = { .scheme = DT_SCHEME_Q4_0 }, .has_scheme = true } };
    q.rules[3] = (dt_qat_rule){ .match = "layers.3", .skip = true, .has_skip = true };
    q.rules[4] = (dt_qat_rule){ .match = "head",
                                .weight = { .quant = { .bits = 8,
                                                       .granularity = DT_PER_TENSOR,
                                                       .scale_dtype = DT_SCALE_F16 },
                                            .has_bits = true,
                                            .has_granularity = true,
                                            .has_scale_dtype = true } };
    if (how >= FLOATS) {
        q.rules[0].weight =
            (dt_quant_patch){ .quant.scheme = DT_SCHEME_MXFP8 + how - FLOATS, .has_scheme = true };
    }
    dt_module *m = small_model(ctx, &o);
    TEST_OK(ctx, dt_prepare(m, &q));
    const dt_rounder rounder = { "apart", round_apart, NULL };
    if (how != PREPARED) TEST_OK(ctx, dt_convert(m, how == APART ? &rounder : NULL, NULL));
    TEST_OK(ctx, dt_model_save(m, &info, good_path));
    return m;
}

static void setup(void)
{
    memory = (test_memory){ .calls = 0 };
    dt_ctx_options options = dt_ctx_defaults();
    options.allocator = test_allocator(&memory);
    options.threads = 1;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    test_folder(folder);
    test_join(good_path, folder, "good.safetensors");
    test_join(bad_path, folder, "bad.safetensors");
}

static void teardown(void)
{
    dt_ctx_free(ctx);
    ck_assert_int_eq(memory.live, 0);
}

static void refused(dt_status status, const char *words)
{
    dt_module *m;
    dt_model_info info;
    dt_file *f;
    TEST_FAILS(ctx, status, words, dt_model_load(ctx, bad_path, &m, &info));
    ck_assert_ptr_null(m);
    ck_assert_ptr_null(info.memory);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "bad.safetensors"));
    if (dt_file_open(ctx, bad_path, &f) != DT_OK) return;
    TEST_FAILS(ctx, status, words, dt_model_check(f));
    dt_file_close(f);
}

/* ---- converted ------------------------------------------------------------------------------ */

#define MODEL "detent.model"
#define QUANT "detent.quant"
#define TIED "detent.tied"
#define W0 "layers.0.weight"
#define W1 "layers.1.weight"
#define W2 "layers.2.weight"
#define HEAD "head.weight"

static const edit packed_edits[] = {
    /* how the model is built */
    { SET, MODEL, .to = "", .words = "the text ends where '{' is expected" },
    { SET, MODEL, .to = "{", .words = "a string is expected here" },
    { SET, MODEL, .to = "{}", .words = "a string is expected here" },
    { SET, MODEL, .to = "[]", .words = "'{' is expected here" },
    { SET, MODEL, .to = "null", .words = "'{' is expected here" },
    { SET, MODEL, .to = "{\"mlp\"}", .words = "':' is expected here" },
    { SET, MODEL, .to = "{\"mlp\":{}}", .words = "'sizes' is missing" },
    { SET, MODEL, .to = "{\"tower\":{}}",
      .words = "there is no family of models 'tower'; there are mlp, " },
    { REPLACE, MODEL, "}}", "}},", .words = "nothing may follow" },
    { REPLACE, MODEL, "}}", "}}}", .words = "nothing may follow" },
    { REPLACE, MODEL, "}}", "},\"mlp\":{}}", .words = "'}' is expected here" },
    { REPLACE, MODEL, "}}", "}", .words = "the text ends where '}' is expected" },
    { REPLACE, MODEL, "}}", "", .words = "the text ends" },
    { REPLACE, MODEL, "\"bias\":true", "\"bias\":1", .words = "true or false" },
    { REPLACE, MODEL, "\"bias\":true", "\"bias\":\"true\"", .words = "true or false" },
    { REPLACE, MODEL, "\"bias\":true", "\"bias\":true,\"bias\":true", .words = "occurs twice" },
    { REPLACE, MODEL, "\"bias\":true", "\"bias\":True", .words = "true or false" },
    { REPLACE, MODEL, "\"bias\":true,", "", .words = "'bias' is missing" },
    { REPLACE, MODEL, "\"bias\":true", "\"bias\":true,\"depth\":3",
      .words = "unknown key 'depth'" },
    { REPLACE, MODEL, "\"relu\"", "\"rule\"", .words = "not 'rule'" },
    { REPLACE, MODEL, "\"relu\"", "0", .words = "a string is expected here" },
    { REPLACE, MODEL, "\"relu\"", "\"tanh", .words = "'activation' must be one of" },
    { REPLACE, MODEL, "\"dropout\":0", "\"dropout\":1", .words = "'dropout' must be from" },
    { REPLACE, MODEL, "\"dropout\":0", "\"dropout\":-0.5", .words = "'dropout' must be from" },
    { REPLACE, MODEL, "\"dropout\":0", "\"dropout\":1e999", .words = "'dropout' must be a number" },
    { REPLACE, MODEL, "\"dropout\":0", "\"dropout\":00", .words = "a number is expected here" },
    { REPLACE, MODEL, "\"dropout\":0", "\"dropout\":.5", .words = "a number is expected here" },
    { REPLACE, MODEL, "\"dropout\":0", "\"dropout\":0.", .words = "a number is expected here" },
    { REPLACE, MODEL, "\"dropout\":0", "\"dropout\":NaN", .words = "a number is expected here" },
    { REPLACE, MODEL, "\"dropout\":0", "\"dropout\":+0", .words = "a number is expected here" },
    { REPLACE, MODEL, "\"dropout\":0",
      "\"dropout\":0.00000000000000000000000000000000000000000000000000000001",
      .words = "a number of more than" },
    { REPLACE, MODEL, "[19,6,5,4,3,7]", "[]", .words = "'sizes' must have 2 to 32" },
    { REPLACE, MODEL, "[19,6,5,4,3,7]", "[19]", .words = "'sizes' must have 2 to 32" },
    { REPLACE, MODEL, "[19,6,5,4,3,7]", "[19,6,5,4,3,0]", .words = "'sizes' must be from 1" },
    { REPLACE, MODEL, "[19,6,5,4,3,7]", "[19,6,5,4,3,-7]", .words = "'sizes' must be from 1" },
    { REPLACE, MODEL, "[19,6,5,4,3,7]", "[19,6,5,4,3,7.5]", .words = "a whole number" },
    { REPLACE, MODEL, "[19,6,5,4,3,7]", "[19,6,5,4,3,1e1]", .words = "a whole number" },
    { REPLACE, MODEL, "[19,6,5,4,3,7]", "[19,6,5,4,3,9999999999999999999]", .words = "below 2^63" },
    { REPLACE, MODEL, "[19,6,5,4,3,7]", "[19,6,5,4,3,7,]", .words = "a number is expected here" },
    { REPLACE, MODEL, "[19,6,5,4,3,7]", "[19,6,5,4,3 7]", .words = "']' is expected here" },
    { REPLACE, MODEL, "[19,6,5,4,3,7]", "19", .words = "'[' is expected here" },
    { REPLACE, MODEL, "[19,6,5,4,3,7]",
      "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
      .words = "'sizes' must have 2 to 32" },
    { REPLACE, MODEL, "[19,6,5,4,3,7]", "[19,6,5,4,7]", .words = "not that of the model's" },
    { REPLACE, MODEL, "[19,6,5,4,3,7]", "[8192,8192,7]", .words = "many times as large" },
    { REPLACE, MODEL, "[19,6,5,4,3,7]", "[10000,10000,7]", .words = "many times as large" },
    { REPLACE, MODEL, "[19,6,5,4,3,7]", "[18,6,5,4,3,7]", .words = "not that of the model's" },
    { REPLACE, MODEL, "\"norm\":\"layer\"", "\"norm\":\"none\"", .words = "8 not of this model" },
    { REPLACE, MODEL, "\"norm\":\"layer\"", "\"norm\":\"batch\"", .words = "running_mean" },

    /* the quantized tensors */
    { SET, QUANT, .to = NULL, .words = "not of this model" },
    { SET, QUANT, .to = "", .words = "the text ends where '{' is expected" },
    { SET, QUANT, .to = "{}", .words = "missing (layers.0.weight" },
    { SET, QUANT, .to = "{\"head\":{}}", .words = "'simulated' is missing" },
    { SET, QUANT, .to = "{\"head\":{\"simulated\":false}}", .words = "neither weight nor input" },
    { SET, QUANT, .to = "{\"head\":7}", .words = "'{' is expected here" },
    { REPLACE, QUANT, "\"head\"", "\"tail\"", .words = "no such module" },
    { REPLACE, QUANT, "\"head\"", "\"layers.1\"", .words = "occurs twice" },
    { REPLACE, QUANT, "\"head\"", "\"norms.0\"", .words = "can be quantized" },
    { REPLACE, QUANT, "\"head\"", "\"\"", .words = "can be quantized" },
    { REPLACE, QUANT, "\"simulated\":false", "\"simulated\":0", .words = "true or false" },
    { REPLACE, QUANT, "\"bits\":3", "\"bits\":0", .words = "'bits' must be from 1 to 8" },
    { REPLACE, QUANT, "\"bits\":3", "\"bits\":9", .words = "'bits' must be from 1 to 8" },
    { REPLACE, QUANT, "\"bits\":3", "\"bits\":\"3\"", .words = "a number is expected here" },
    { REPLACE, QUANT, "\"bits\":3", "\"bits\":2",
      .words = "its codes is [6,10]; it must be [6,5]" },
    { REPLACE, QUANT, "\"bits\":3", "\"bits\":6",
      .words = "its codes is [6,10]; it must be [6,19]" },
    { REPLACE, QUANT, "\"bits\":3,", "", .words = "'bits' is missing" },
    { REPLACE, QUANT, "\"group_size\":8", "\"group_size\":0", .words = "group_size" },
    { REPLACE, QUANT, "\"group_size\":8", "\"group_size\":12", .words = "multiple of 8" },
    { REPLACE, QUANT, "\"group_size\":8", "\"group_size\":-8", .words = "group_size" },
    { REPLACE, QUANT, "\"group_size\":8", "\"group_size\":16",
      .words = "its scale is [6,3]; it must be [6,2]" },
    { REPLACE, QUANT, "\"granularity\":\"channel\",\"group_size\":0",
      "\"granularity\":\"channel\",\"group_size\":32", .words = "it must be 0" },
    { REPLACE, QUANT, "\"granularity\":\"channel\"", "\"granularity\":\"token\"",
      .words = "weights are quantized by tensor, channel or group" },
    { REPLACE, QUANT, "\"granularity\":\"channel\"", "\"granularity\":\"column\"",
      .words = "'granularity' must be one of tensor, " },
    { REPLACE, QUANT, "\"granularity\":\"token\"", "\"granularity\":\"channel\"",
      .words = "activations are quantized by tensor, token, sample or group" },
    { REPLACE, QUANT, "\"asymmetric\",\"bits\":4", "\"symmetric\",\"bits\":4",
      .words = "its rule has none" },
    { REPLACE, QUANT, "\"scheme\":\"symmetric\"", "\"scheme\":\"asymmetric\"",
      .words = "its zero_point is missing" },
    { REPLACE, QUANT, "\"scheme\":\"symmetric\"", "\"scheme\":\"q4_0\"",
      .words = "q4_0 is for weights of 4 bits" },
    { REPLACE, QUANT, "\"scheme\":\"symmetric\"", "\"scheme\":\"best\"",
      .words = "'scheme' must be one of " },
    { REPLACE, QUANT, "\"scale_dtype\":\"bf16\"", "\"scale_dtype\":\"f16\"",
      .words = "its scale is BF16; the scheme requires F16" },
    { REPLACE, QUANT, "\"scale_dtype\":\"bf16\"", "\"scale_dtype\":\"f64\"",
      .words = "'scale_dtype' must be one of " },
    { REPLACE, QUANT, "\"ste\":\"default\"", "\"ste\":\"none\"", .words = "'ste' must be one of " },
    { REPLACE, QUANT, "\"unsigned\":false", "\"unsigned\":true", .words = "need a zero point" },
    { REPLACE, QUANT, "\"state\":\"packed\"", "\"state\":\"enabled\"",
      .words = "missing (layers.0.weight" },
    { REPLACE, QUANT, "\"state\":\"packed\"", "\"state\":\"open\"",
      .words = "'state' must be one of " },
    { REPLACE, QUANT, "\"shape\":[6,19]", "\"shape\":[6]", .words = "'shape' must have 2 to" },
    { REPLACE, QUANT, "\"shape\":[6,19]", "\"shape\":[19,6]", .words = "not that of the model's" },
    { REPLACE, QUANT, "\"shape\":[6,19]", "\"shape\":[6,19,1]",
      .words = "not that of the model's" },
    { REPLACE, QUANT, "\"shape\":[6,19]", "\"shape\":[-6,19]", .words = "'shape' must be" },
    { REPLACE, QUANT, "\"shape\":[6,19]", "\"shape\":[4611686018427387904,4611686018427387904]",
      .words = "too large" },
    { REPLACE, QUANT, "\"shape\":[6,19]", "\"shape\":[1,1,1,1,1,1,1,1,1]", .words = "9 extents" },
    { REPLACE, QUANT, "\"enabled\":true", "\"enabled\":null", .words = "true or false" },
    { REPLACE, QUANT, "\"enabled\":true", "\"enabled\":true,\"x\":1", .words = "unknown key 'x'" },
    { REPLACE, QUANT, "\"simulated\"", "\"simulate\\u0064x\"",
      .words = "unknown key 'simulatedx'" },
    { REPLACE, QUANT, "\"simulated\"", "\"simul\\u00zzated\"", .words = "hexadecimal" },
    { SET, TIED, .to = "[]", .words = "'{' is expected here" },
    { SET, TIED, .to = "{\"head.weight\":7}", .words = "a string is expected here" },
    { SET, TIED, .to = "{\"head.weight\":\"head.bias\"}", .words = "does not tie 'head.weight'" },
    { SET, TIED, .to = "{\"a\":\"b\",\"a\":\"b\"}", .words = "occurs twice" },
    { SET, TIED, .to = "{\"a\":\"b\"} x", .words = "nothing may follow" },

    /* tensors */
    { DROP, "head.bias", .words = "1 missing (head.bias)" },
    { DROP, "layers.3.weight", .words = "1 missing (layers.3.weight)" },
    { DROP, W0 ".codes", .words = "its codes is missing" },
    { DROP, W0 ".scale", .words = "its scale is missing" },
    { DROP, W1 ".zero_point", .words = "its zero_point is missing" },
    { FORM, "extra", .to = "F32", .words = "1 not of this model (extra)" },
    { FORM, W0, .to = "F32", .rank = 2, .dims = { 6, 19 }, .words = "not of this model (" W0 ")" },
    { FORM, W0 ".zero_point", .to = "I8", .rank = 2, .dims = { 6, 3 },
      .words = "its rule has none" },
    { FORM, "head.bias", .to = "F32", .rank = 1, .dims = { 6 },
      .words = "head.bias is F32[6], not [7]" },
    { FORM, "head.bias", .to = "F32", .rank = 2, .dims = { 7, 1 }, .words = "F32[7,1], not [7]" },
    { FORM, "head.bias", .to = "I32", .rank = 1, .dims = { 7 },
      .words = "head.bias is I32, not f32" },
    { FORM, W0 ".codes", .to = "I8", .rank = 2, .dims = { 6, 10 }, .words = "its codes is I8" },
    { FORM, W0 ".codes", .to = "U8", .rank = 1, .dims = { 60 }, .words = "its codes is [60]" },
    { FORM, W0 ".codes", .to = "U8", .rank = 2, .dims = { 6, 9 }, .words = "its codes is [6,9]" },
    { FORM, W0 ".codes", .to = "U8", .rank = 2, .dims = { 7, 10 }, .words = "its codes is [7,10]" },
    { FORM, W0 ".scale", .to = "F32", .rank = 2, .dims = { 6, 2 }, .words = "its scale is [6,2]" },
    { FORM, W0 ".scale", .to = "F32", .rank = 1, .dims = { 18 }, .words = "its scale is [18]" },
    { FORM, W0 ".scale", .to = "F16", .rank = 2, .dims = { 6, 3 }, .words = "its scale is F16" },
    { FORM, W1 ".zero_point", .to = "U8", .rank = 2, .dims = { 5, 1 },
      .words = "zero_point is U8" },
    { FORM, W1 ".zero_point", .to = "I8", .rank = 2, .dims = { 5, 2 },
      .words = "zero_point is [5,2]" },

    /* values: 3-bit codes lie in nibbles, -4...3; the last byte of a row holds one code */
    { BYTES, W0 ".codes", .at = 0, .n = 1, .value = 0x04, .words = "row 0, column 0: code 4" },
    { BYTES, W0 ".codes", .at = 0, .n = 1, .value = 0x50, .words = "row 0, column 1: code 5" },
    { BYTES, W0 ".codes", .at = 12, .n = 1, .value = 0x08, .words = "row 1, column 4: code -8" },
    { BYTES, W0 ".codes", .at = 9, .n = 1, .value = 0x10, .words = "row 0: the bits behind" },
    { BYTES, W0 ".codes", .at = 59, .n = 1, .value = 0xf0, .words = "row 5: the bits behind" },
    { BYTES, W0 ".scale", .at = 0, .n = 4, .value = 0x7fc00000,
      .words = "row 0, group 0: its scale" },
    { BYTES, W0 ".scale", .at = 4, .n = 4, .value = 0x7f800000,
      .words = "row 0, group 1: its scale" },
    { BYTES, W0 ".scale", .at = 12, .n = 4, .value = 0xff800000,
      .words = "row 1, group 0: its scale" },
    { BYTES, W0 ".scale", .at = 0, .n = 4, .value = 0x7f7fffff, .words = "no finite values" },
    { BYTES, W0 ".scale", .at = 0, .n = 4, .value = 0, .words = "scale 0; it must be at least" },
    { BYTES, W0 ".scale", .at = 0, .n = 4, .value = 0x80000000,
      .words = "scale -0; it must be at least" },
    { BYTES, W0 ".scale", .at = 0, .n = 4, .value = 0xbf800000,
      .words = "scale -1; it must be at least" },
    { BYTES, W0 ".scale", .at = 0, .n = 4, .value = 0x00000001, .words = "at least" },
    { BYTES, W1 ".scale", .at = 2, .n = 2, .value = 0x7fc0, .words = "row 1, group 0: its scale" },
    { BYTES, W1 ".scale", .at = 2, .n = 2, .value = 0xbf80, .words = "row 1, group 0: scale -1" },
    { BYTES, W2 ".scale", .at = 0, .n = 2, .value = 0x7c00, .words = "row 0, group 0: its scale" },
    { BYTES, W2 ".scale", .at = 0, .n = 2, .value = 0, .words = "a code in a group of scale 0" },
    { BYTES, HEAD ".scale", .at = 0, .n = 2, .value = 0x03ff, .words = "row 0, group 0: scale" },
    { BYTES, HEAD ".scale", .at = 6, .n = 2, .value = 0x3c00,
      .words = "row 3: granularity tensor" },
    { BYTES, W1 ".zero_point", .at = 0, .n = 1, .value = 8, .words = "row 0: zero point 8" },
    { BYTES, W1 ".zero_point", .at = 4, .n = 1, .value = 0xf7, .words = "row 4: zero point -9" },
};

START_TEST(a_wrong_file_is_refused)
{
    const edit *e = &packed_edits[_i];
    dt_module_free(good_model(CONVERTED));
    write_edited(e);
    refused(DT_ERR_FORMAT, e->words);
}
END_TEST

/* Of a weight whose groups are not consecutive columns. */
static const edit apart_edits[] = {
    { REPLACE, QUANT, ",\"g_idx\":1", "", .words = W0 "': a g_idx, of which its metadata" },
    { REPLACE, QUANT, "\"state\":\"packed\"", "\"state\":\"packed\",\"range_of\":\"own\"",
      .words = "range_of is of a range behind a norm that is folded" },
    { REPLACE, QUANT, "\"g_idx\":1", "\"g_idx\":0", .words = "'g_idx' must be" },
    { REPLACE, QUANT, "\"g_idx\":1", "\"g_idx\":true", .words = "a number is expected here" },
    { REPLACE, QUANT, "\"g_idx\":1", "\"g_idx\":4",
      .words = "g_idx 4; it must be the number of groups" },
    { REPLACE, QUANT, "\"g_idx\":1", "\"g_idx\":2", .words = "as many groups as the model" },
    { REPLACE, QUANT, "\"group\",\"group_size\":8", "\"channel\",\"group_size\":0",
      .words = "g_idx is of packed weights of granularity group" },
    { REPLACE, QUANT, "\"state\":\"packed\",\"shape\":[6,19]",
      "\"state\":\"enabled\",\"shape\":[6,19]", .words = "g_idx is of packed weights" },
    { DROP, W0 ".g_idx", .words = "weight '" W0 "': its g_idx is missing" },
    { FORM, W0 ".g_idx", .to = "U32", .rank = 1, .dims = { 19 }, .words = "its g_idx is U32" },
    { FORM, W0 ".g_idx", .to = "I32", .rank = 1, .dims = { 18 }, .words = "[18]; it must be [19]" },
    { FORM, W0 ".g_idx", .to = "I32", .rank = 2, .dims = { 1, 19 },
      .words = "[1,19]; it must be [19]" },
    { FORM, W0 ".g_idx", .to = "I32", .rank = 1, .dims = { 19 }, .words = NULL },
    { FORM, HEAD ".g_idx", .to = "I32", .rank = 1, .dims = { 3 }, .words = "a g_idx, of which" },
    { BYTES, W0 ".g_idx", .at = 0, .n = 4, .value = 3,
      .words = "g_idx of column 0 is 3; there are 3 groups" },
    { BYTES, W0 ".g_idx", .at = 72, .n = 4, .value = 0xffffffff,
      .words = "g_idx of column 18 is -1" },
    { BYTES, W0 ".g_idx", .at = 4, .n = 4, .value = 0x7fffffff, .words = "column 1 is 2147483647" },
    { BYTES, W0 ".g_idx", .at = 0, .n = 4, .value = 1,
      .words = "g_idx puts 7 columns into group 0" },
    { BYTES, W0 ".g_idx", .at = 0, .n = 4, .value = 2, .words = "into group 0; there must be 8" },
};

START_TEST(wrong_groups_are_refused)
{
    const edit *e = &apart_edits[_i];
    dt_module_free(good_model(APART));
    write_edited(e);
    if (e->words != NULL) {
        refused(DT_ERR_FORMAT, e->words);
        return;
    }
    dt_module *m; /* the same once more */
    TEST_OK(ctx, dt_model_load(ctx, bad_path, &m, NULL));
    dt_module_free(m);
}
END_TEST

/* Bytes that are infinity, NaN, or of more bits than the float has. */
START_TEST(floats_that_are_none)
{
    static const struct {
        int how;
        uint32_t byte;
        const char *words; /* NULL: it is a value */
    } bytes[] = {
        { FLOATS, 0x7f, "row 0, column 3: code 127 is none of 8 bits of scheme mxfp8" },
        { FLOATS, 0xff, "row 0, column 3: code -1 is none of 8 bits of scheme mxfp8" },
        { FLOATS, 0xfe, NULL },
        { FLOATS + 1, 0x7f, "scheme mxfp8_up" },
        { FLOATS + 2, 0x7c, "scheme mxfp8_e5m2" },
        { FLOATS + 2, 0x7b, NULL },
        { FLOATS + 3, 0x20, "code 32 is none of 6 bits of scheme mxfp6_e3m2" },
        { FLOATS + 3, 0x9f, NULL },
    };
    dt_module *m;
    for (int i = 0; i < DT__COUNT_OF(bytes); i++) {
        dt_module_free(good_model(bytes[i].how));
        write_edited(&(edit){ BYTES, W0 ".codes", .at = 3, .n = 1, .value = bytes[i].byte });
        if (bytes[i].words != NULL) {
            refused(DT_ERR_FORMAT, bytes[i].words);
            continue;
        }
        TEST_OK(ctx, dt_model_load(ctx, bad_path, &m, NULL));
        dt_module_free(m);
    }
}
END_TEST

/* Edits that keep the file valid: it is accepted, so the other edits are refused for their own
 * reasons. */
START_TEST(a_harmless_change_is_not)
{
    static const edit edits[] = {
        { SET, "license", .to = "none" },
        { REPLACE, MODEL, ",", .to = " ,\n\t" },
        { REPLACE, MODEL, "\"dropout\":0", .to = "\"dropout\":0.0e-1" },
        { REPLACE, QUANT, "\"head\"", .to = "\"h\\u0065ad\"" },
        { BYTES, W0 ".codes", .at = 0, .n = 1, .value = 0xc3 },
        { BYTES, W0 ".scale", .at = 0, .n = 4, .value = 0x00800000 },
        { BYTES, W2 ".scale", .at = 0, .n = 2, .value = 0xbc00 },
        { BYTES, W1 ".zero_point", .at = 0, .n = 1, .value = 0xf8 },
        { FORM, "detent.note", .to = "U8", .rank = 1, .dims = { 3 } },
    };
    dt_module *m;
    dt_module_free(good_model(CONVERTED));
    for (int i = 0; i < DT__COUNT_OF(edits); i++) {
        write_edited(&edits[i]);
        TEST_OK(ctx, dt_model_load(ctx, bad_path, &m, NULL));
        dt_module_free(m);
    }
}
END_TEST

/* ---- prepared ------------------------------------------------------------------------------- */

static const edit prepared_edits[] = {
    { REPLACE, QUANT, "\"state\":\"enabled\"", "\"state\":\"packed\"",
      .words = "its codes is missing" },
    { DROP, W0, .words = "1 missing (" W0 ")" },
    { FORM, W0, .to = "F32", .rank = 2, .dims = { 19, 6 },
      .words = W0 " is F32[19,6], not [6,19]" },
    { FORM, W0, .to = "I32", .rank = 2, .dims = { 6, 19 }, .words = W0 " is I32, not f32" },
    { FORM, W0 ".codes", .to = "U8", .words = "not of this model (" W0 ".codes)" },
    { FORM, "layers.0.input.scale", .to = "F32",
      .words = "not of this model (layers.0.input.scale)" },
    { REPLACE, QUANT, "\"shape\":[6,19]", "\"shape\":[6,20]", .words = "not that of the model's" },
};

START_TEST(a_wrong_checkpoint_is_refused)
{
    const edit *e = &prepared_edits[_i];
    dt_module_free(good_model(PREPARED));
    write_edited(e);
    refused(DT_ERR_FORMAT, e->words);
}
END_TEST

/* ---- the bytes ------------------------------------------------------------------------------ */

/* Replaces the first `from` in a copy of the good file; the lengths are equal. */
static void patch(const char *from, const char *to)
{
    size_t n;
    char *bytes = test_read_file(good_path, &n);
    char *at = NULL;
    for (size_t i = 0; at == NULL && i + strlen(from) <= n; i++) {
        if (memcmp(bytes + i, from, strlen(from)) == 0) at = bytes + i;
    }
    ck_assert_ptr_nonnull(at);
    memcpy(at, to, strlen(to));
    test_write_file(bad_path, bytes, n);
    free(bytes);
}

START_TEST(other_versions_and_hashes_are_refused)
{
    char version[64], newer[64];
    dt_module_free(good_model(CONVERTED));
    snprintf(version, sizeof version, "\"detent.version\":\"%s", dt_version());
    snprintf(newer, sizeof newer, "\"detent.version\":\"9%s", dt_version() + 1);
    patch(version, newer);
    refused(DT_ERR_UNSUPPORTED, "written by detent 9");
    snprintf(newer, sizeof newer, "\"detent.version\":\"x%s", dt_version() + 1);
    patch(version, newer);
    refused(DT_ERR_FORMAT, "is not a version");
    patch("\"detent.version\":\"", "\"detent.version\":\"1234567890.0\",\"");
    refused(DT_ERR_FORMAT, "is not a version");
    snprintf(version, sizeof version, "\"detent.version\":\"%s", dt_version());
    snprintf(newer, sizeof newer, "\"detent.version\":\"%.*s", (int)strlen(dt_version()),
             "99999999999");
    patch(version, newer);
    refused(DT_ERR_FORMAT, "is not a version");
    patch("\"detent.xxh3\":\"", "\"detent.xxh3\":\"");
    dt_module *m;
    TEST_OK(ctx, dt_model_load(ctx, bad_path, &m, NULL));
    dt_module_free(m);
    size_t n;
    char *bytes = test_read_file(good_path, &n);
    char *digits = strstr(bytes + 8, "\"detent.xxh3\":\"") + 15;
    *digits = *digits == '0' ? '1' : '0';
    test_write_file(bad_path, bytes, n);
    refused(DT_ERR_FORMAT, "damaged or changed");
    *digits = 'G';
    test_write_file(bad_path, bytes, n);
    refused(DT_ERR_FORMAT, "16 digits");
    free(bytes);
}
END_TEST

START_TEST(every_truncation_and_changed_byte_is_refused)
{
    size_t n;
    dt_module *m;
    dt_module_free(good_model(CONVERTED));
    char *bytes = test_read_file(good_path, &n);
    for (size_t size = 0; size < n; size += size < 64 ? 1 : 13) {
        test_write_file(bad_path, bytes, size);
        ck_assert_int_eq(dt_model_load(ctx, bad_path, &m, NULL), DT_ERR_FORMAT);
    }
    /* After a change that hides the key of the hash, only the checks of values remain. */
    int64_t loaded = 0;
    for (size_t at = 0; at < n; at += 3) {
        bytes[at] = (char)(bytes[at] ^ 1 << at % 8);
        test_write_file(bad_path, bytes, n);
        const dt_status s = dt_model_load(ctx, bad_path, &m, NULL);
        ck_assert_msg(s == DT_OK || s == DT_ERR_FORMAT || s == DT_ERR_UNSUPPORTED, "byte %zu: %s",
                      at, dt_status_name(s));
        loaded += s == DT_OK;
        dt_module_free(m);
        bytes[at] = (char)(bytes[at] ^ 1 << at % 8);
    }
    ck_assert_int_le(loaded, 12);
    free(bytes);
}
END_TEST

/* A bad file changes nothing in the model that was to be loaded. */
START_TEST(a_wrong_file_leaves_the_model)
{
    static const int64_t sizes[] = { 19, 6, 5, 4, 3, 7, 0 };
    const dt_mlp_options o = small_options(sizes, 2, 0);
    dt_module_free(good_model(CONVERTED));
    dt_module *m = small_model(ctx, &o);
    float *before = outputs_of(m, 2, 19);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "a converted model", dt_model_load_weights(m, good_path));
    dt_module_free(good_model(PREPARED));
    const edit e = { .kind = DROP, .name = "head.bias" };
    write_edited(&e);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "head.bias", dt_model_load_weights(m, bad_path));
    float *after = outputs_of(m, 2, 19);
    ck_assert_mem_eq(before, after, 14 * sizeof(float));
    dt_freeze(m);
    TEST_FAILS(ctx, DT_ERR_STATE, "frozen", dt_model_load_weights(m, good_path));
    TEST_FAILS(ctx, DT_ERR_IO, "nowhere", dt_model_load_weights(m, "/nowhere/x"));
    free(before);
    free(after);
    dt_module_free(m);
}
END_TEST

START_TEST(count_the_files)
{
    printf("model_file_bad: %d wrong files, %d harmless ones\n",
           DT__COUNT_OF(packed_edits) + DT__COUNT_OF(apart_edits) - 1 +
               DT__COUNT_OF(prepared_edits) + 4,
           10);
}
END_TEST

Suite *test_model_file_bad_suite(void)
{
    Suite *s = suite_create("model_file_bad");
    TCase *c = tcase_create("model_file_bad");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, a_wrong_file_is_refused, 0, DT__COUNT_OF(packed_edits));
    tcase_add_loop_test(c, wrong_groups_are_refused, 0, DT__COUNT_OF(apart_edits));
    tcase_add_test(c, floats_that_are_none);
    tcase_add_test(c, a_harmless_change_is_not);
    tcase_add_loop_test(c, a_wrong_checkpoint_is_refused, 0, DT__COUNT_OF(prepared_edits));
    tcase_add_test(c, other_versions_and_hashes_are_refused);
    tcase_add_test(c, every_truncation_and_changed_byte_is_refused);
    tcase_add_test(c, a_wrong_file_leaves_the_model);
    tcase_add_test(c, count_the_files);
    suite_add_tcase(s, c);
    return s;
}
