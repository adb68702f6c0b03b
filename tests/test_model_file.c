/* Model files: saved models load with the same bits, whether float, prepared or converted, with
 * every scheme; the bytes of a small converted model are those of docs/format.md; a save that fails
 * leaves the old file. test_model_file_bad.c has damaged files. */
#include "schemes.h"
#include "models.h"
#include "testing.h"

#include "core/core.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static char folder[TEST_PATH], path[TEST_PATH];

static void setup(void)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = 1;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    test_folder(folder);
    test_join(path, folder, "model.safetensors");
}

static void teardown(void) { dt_ctx_free(ctx); }

/* Saves m, loads it, and compares everything. */
static void round_trip(dt_module *m, const dt_mlp_options *o)
{
    const dt_model_info info = small_info(o);
    const int64_t columns = o->sizes.v[0], classes = o->sizes.v[o->sizes.n - 1];
    dt__stream before[DT__PURPOSES];
    memcpy(before, ctx->stream, sizeof before);
    TEST_OK(ctx, dt_model_save(m, &info, path));
    dt_module *again;
    dt_model_info read;
    TEST_OK(ctx, dt_model_load(ctx, path, &again, &read));
    ck_assert_mem_eq(before, ctx->stream, sizeof before);
    ck_assert_ptr_eq(read.family, info.family);
    ck_assert_mem_eq(read.options, o, sizeof *o);
    same_models(m, again);
    float *a = outputs_of(m, 9, columns), *b = outputs_of(again, 9, columns);
    ck_assert_mem_eq(a, b, (size_t)(9 * classes) * sizeof(float));
    free(a);
    free(b);
    dt_model_info_free(ctx, &read);
    dt_module_free(again);
}

START_TEST(float_models_come_back)
{
    static const int64_t sizes[][5] = { { 7, 3 }, { 9, 5, 4 }, { 33, 17, 12, 10 } };
    for (int i = 0; i < 3; i++) {
        for (int norm = 0; norm < 3; norm++) {
            dt_mlp_options o = small_options(sizes[i], norm, norm == 1 ? 0.25 : 0);
            o.bias = norm != 2;
            o.activation = i + norm;
            dt_module *m = small_model(ctx, &o);
            dt_freeze(m); /* reading is all that a save does */
            round_trip(m, &o);
            dt_module_free(m);
        }
    }
}
END_TEST

/* ---- every scheme --------------------------------------------------------------------------- */

/* Saved prepared, enabled or not, and converted. */
static void round_trips(const dt_mlp_options *o, const dt_qat_options *options, bool enabled)
{
    dt_module *m = small_model(ctx, o);
    TEST_OK(ctx, dt_prepare(m, options));
    if (!enabled) TEST_OK(ctx, dt_enable(m, false));
    round_trip(m, o);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    round_trip(m, o);
    dt_module_free(m);
}

static const dt_quant_spec cuts[] = {
    { .granularity = DT_PER_TENSOR },
    { .granularity = DT_PER_CHANNEL },
    { .granularity = DT_PER_GROUP, .group_size = 8 },
    { .granularity = DT_PER_GROUP, .group_size = 32 },
    { .granularity = DT_PER_GROUP, .group_size = 64 },
    { .granularity = DT_PER_GROUP, .group_size = 128 },
};

/* One model for each scheme, scale dtype, granularity and preset; its seven layers have 2 to 8 bits
 * where the scheme accepts them. */
START_TEST(every_scheme_comes_back)
{
    static const int64_t sizes[] = { 37, 70, 33, 40, 21, 130, 29, 11, 0 };
    static const char *const paths[] = { "layers.0", "layers.1", "layers.2", "layers.3",
                                         "layers.4", "layers.5", "head" };
    const dt_mlp_options o = small_options(sizes, 0, 0);
    const int cut = _i % 6, rule = _i / 6 % DT__SCHEMES, dtype = _i / 6 / DT__SCHEMES;
    const bool blocks =
        dt__scheme_of(rule)->fp16_blocks || dt__scheme_of(rule)->bits != 0; /* of one width only */
    for (int preset = 0; preset <= DT_INT8_DYNAMIC_INT8_WEIGHT; preset++) {
        dt_quant_spec q = cuts[cut];
        q.scheme = rule;
        q.bits = dt__scheme_of(rule)->bits != 0 ? dt__scheme_of(rule)->bits : 4;
        q.scale_dtype = dtype;
        q.ste = preset;
        q.is_unsigned = dt__scheme_of(rule)->has_zero && cut % 2 == 0;
        if (!scheme_takes(ctx, &q) || dt__scheme_of(rule)->in_groups) continue;
        dt_qat_options options = small_qat(preset, &q);
        options.weight.has_bits = blocks;
        options.forward = cut == preset ? DT_FORWARD_SIMULATED : DT_FORWARD_INTEGER;
        options.n_rules = blocks ? 0 : 7;
        for (int i = 0; i < options.n_rules; i++) {
            options.rules[i] = (dt_qat_rule){ .match = paths[i],
                                              .weight = { .quant.bits = 2 + i, .has_bits = true } };
        }
        round_trips(&o, &options, (cut + preset) % 4 != 0);
    }
}
END_TEST

START_TEST(rules_and_norms_come_back)
{
    static const int64_t sizes[] = { 20, 24, 16, 6, 0 };
    for (int norm = 0; norm < 3; norm++) {
        const dt_mlp_options o = small_options(sizes, norm, 0.1);
        dt_qat_options options = dt_qat_defaults();
        options.n_rules = 2;
        options.rules[0] = (dt_qat_rule){ .match = "head", .skip = true, .has_skip = true };
        options.rules[1] = (dt_qat_rule){ .match = "layers.1",
                                          .weight = { .quantize = false, .has_quantize = true } };
        round_trips(&o, &options, true);
    }
}
END_TEST

/* ---- the bytes of the format ---------------------------------------------------------------- */

static void check_part(const dt_file *f, const char *name, const char *dtype, int64_t columns,
                       const void *bytes)
{
    const dt_file_entry *e = dt_file_find(f, name);
    ck_assert_msg(e != NULL, "%s is missing", name);
    ck_assert_str_eq(e->dtype, dtype);
    ck_assert_int_eq(e->rank, 2);
    ck_assert_int_eq(e->dims[0], 2);
    ck_assert_int_eq(e->dims[1], columns);
    ck_assert_mem_eq(e->data, bytes, e->bytes);
}

/* A model of one linear layer [2, 11] with this weight, converted and saved. */
static dt_file *save_tiny(const dt_quant_spec *q, const float *weight)
{
    static const int64_t sizes[] = { 11, 2, 0 };
    const dt_mlp_options o = small_options(sizes, 0, 0);
    const dt_model_info info = small_info(&o);
    const dt_qat_options options = small_qat(DT_INT8_DYNAMIC_INT4_WEIGHT, q);
    dt_module *m = small_model(ctx, &o);
    memcpy(dt_data_mut(dt_param(m, "head.weight")), weight, 22 * sizeof *weight);
    TEST_OK(ctx, dt_fill(dt_param(m, "head.bias"), 0.5));
    TEST_OK(ctx, dt_prepare(m, &options));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_OK(ctx, dt_model_save(m, &info, path));
    dt_module_free(m);
    dt_file *f;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    return f;
}

/* By hand: 4 bits, groups of 8 and 3, scale = max / 7.5, f16. Row 0 has scales 1 and 2, row 1 has
 * 0.5 and the smallest normal f16 for its zeros. */
START_TEST(four_bits_by_hand)
{
    const dt_quant_spec q = { .scheme = DT_SCHEME_SYMMETRIC,
                              .bits = 4,
                              .granularity = DT_PER_GROUP,
                              .group_size = 8,
                              .scale_dtype = DT_SCALE_F16 };
    static const float weight[22] = { 7.5f,   -7.5f, 1,    2,     3, -1, -2, 0,    15, -4, 2,
                                      -3.75f, 1,     0.5f, -0.5f, 0, 0,  0,  3.5f, 0,  0,  0 };
    /* codes 7(8 clipped) -8 1 2 3 -1 -2 0 | 7 -2 1;   -8(-7.5 to even) 2 1 -1 0 0 0 7 | 0 0 0 */
    static const uint8_t codes[12] = { 0x87, 0x21, 0xf3, 0x0e, 0xe7, 0x01,
                                       0x28, 0xf1, 0x00, 0x70, 0x00, 0x00 };
    static const uint16_t scales[4] = { 0x3c00, 0x4000, 0x3800, 0x0400 };
    static const char model[] =
        "{\"mlp\":{\"sizes\":[11,2],\"activation\":\"relu\","
        "\"norm\":\"none\",\"dropout\":0,\"bias\":true,\"momentum\":0.1,\"eps\":1e-5}}";
    static const char quant[] =
        "{\"head\":{\"simulated\":false,\"weight\":{\"scheme\":{\"scheme\":\"symmetric\",\"bits\":"
        "4,"
        "\"granularity\":\"group\",\"group_size\":8,\"scale_dtype\":\"f16\",\"ste\":\"default\","
        "\"unsigned\":false},\"state\":\"packed\",\"shape\":[2,11]},\"input\":{\"scheme\":{"
        "\"scheme\":\"asymmetric\",\"bits\":8,\"granularity\":\"token\",\"group_size\":0,"
        "\"scale_dtype\":\"f32\",\"ste\":\"default\",\"unsigned\":false},\"enabled\":true}}}";
    dt_file *f = save_tiny(&q, weight);
    ck_assert_int_eq(dt_file_count(f), 3);
    check_part(f, "head.weight.codes", "U8", 6, codes);
    check_part(f, "head.weight.scale", "F16", 2, scales);
    ck_assert_int_eq(dt_file_find(f, "head.bias")->count, 2);
    ck_assert_str_eq(dt_file_meta(f, "detent.model"), model);
    ck_assert_str_eq(dt_file_meta(f, "detent.quant"), quant);
    ck_assert_str_eq(dt_file_meta(f, "detent.version"), dt_version());
    ck_assert_int_eq(dt_file_meta_count(f), 4);
    dt_file_close(f);
}
END_TEST

/* 2 bits, one scale a row: four codes a byte. Codes of 3 bits are stored in 4. */
START_TEST(two_and_three_bits_by_hand)
{
    dt_quant_spec q = { .scheme = DT_SCHEME_SYMMETRIC_NO_CLIP,
                        .bits = 2,
                        .granularity = DT_PER_CHANNEL };
    static const float weight[22] = { -2, 1,  0,  -1, 1, 1, 1, 1, 0, -2, 1,
                                      4,  -4, -8, 4,  0, 0, 0, 0, 4, -4, 4 };
    static const uint8_t two[6] = { 0xc6, 0x55, 0x18, 0x6d, 0x00, 0x1d };
    static const float scales[2] = { 1, 4 };
    dt_file *f = save_tiny(&q, weight);
    check_part(f, "head.weight.codes", "U8", 3, two);
    check_part(f, "head.weight.scale", "F32", 1, scales);
    dt_file_close(f);
    q.bits = 3;
    q.scheme = DT_SCHEME_ASYMMETRIC;
    /* row 0: lo -2, hi 1, scale 3/7: no round numbers; row 1 alone is by hand below */
    static const float more[22] = { -4, 3, 0, -1, 1, 2, 3, -4, 0, 0, 0,
                                    0,  7, 1, 2,  3, 4, 5, 6,  7, 0, 0 };
    static const uint8_t three[12] = { 0x3c, 0xf0, 0x21, 0xc3, 0x00, 0x00,
                                       0x3c, 0xed, 0x0f, 0x21, 0xc3, 0x0c };
    static const float ones[2] = { 1, 1 };
    static const int8_t zeros[2] = { 0, -4 };
    f = save_tiny(&q, more);
    check_part(f, "head.weight.codes", "U8", 6, three);
    check_part(f, "head.weight.scale", "F32", 1, ones);
    check_part(f, "head.weight.zero_point", "I8", 1, zeros);
    dt_file_close(f);
}
END_TEST

/* Files from before 0.1.0, whose metadata have "rule" for "scheme" and "members" for "experts":
 * saved again they hold the same tensors and the new keys. */
START_TEST(files_with_old_words_can_be_read)
{
    static const char *const names[] = { "scheme_was_rule", "experts_were_members" };
    static const char *const old[] = { "\"rule\":", "\"members\":" };
    char from[TEST_PATH];
    snprintf(from, sizeof from, "%s/tests/golden/models/%s.safetensors", DETENT_SOURCE_DIR,
             names[_i]);
    dt_module *m;
    dt_model_info info;
    dt_file *a, *b;
    TEST_OK(ctx, dt_model_load(ctx, from, &m, &info));
    TEST_OK(ctx, dt_model_save(m, &info, path));
    TEST_OK(ctx, dt_file_open(ctx, from, &a));
    TEST_OK(ctx, dt_file_open(ctx, path, &b));
    TEST_OK(ctx, dt_model_check(a));
    ck_assert_ptr_nonnull(strstr(dt_file_meta(a, "detent.quant"), old[_i]));
    ck_assert_ptr_null(strstr(dt_file_meta(b, "detent.quant"), old[_i]));
    ck_assert_int_eq(dt_file_count(a), dt_file_count(b));
    for (int64_t i = 0; i < dt_file_count(a); i++) {
        const dt_file_entry *e = dt_file_at(a, i), *f = dt_file_find(b, e->name);
        ck_assert_msg(f != NULL && f->bytes == e->bytes, "%s", e->name);
        ck_assert_mem_eq(e->data, f->data, e->bytes);
    }
    dt_file_close(b);
    dt_file_close(a);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
}
END_TEST

START_TEST(equal_models_give_equal_bytes)
{
    static const int64_t sizes[] = { 12, 9, 3, 0 };
    const dt_mlp_options o = small_options(sizes, 1, 0);
    const dt_model_info info = small_info(&o);
    char *bytes[2];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        dt_seed(ctx, 5);
        dt_module *m = small_model(ctx, &o);
        TEST_OK(ctx, dt_prepare(m, NULL));
        TEST_OK(ctx, dt_convert(m, NULL, NULL));
        TEST_OK(ctx, dt_model_save(m, &info, path));
        bytes[i] = test_read_file(path, &n[i]);
        dt_module_free(m);
    }
    ck_assert_uint_eq(n[0], n[1]);
    ck_assert_mem_eq(bytes[0], bytes[1], n[0]);
    free(bytes[0]);
    free(bytes[1]);
}
END_TEST

/* ---- weights of other programs -------------------------------------------------------------- */

START_TEST(weights_of_any_file)
{
    static const int64_t sizes[] = { 4, 3, 0 };
    const dt_mlp_options o = small_options(sizes, 0, 0);
    dt_module *m = small_model(ctx, &o);
    static const uint16_t halves[12] = { 0x3c00, 0xc000, 0x3800 }; /* 1, -2, 0.5 in F16 */
    static const uint16_t bias[3] = { 0x3f80, 0x4000, 0xbf80 };    /* 1, 2, -1 in BF16 */
    const int64_t dims[2] = { 3, 4 };
    dt_writer *w;
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    TEST_OK(ctx, dt_writer_add_bytes(w, &(dt_file_entry){ .name = "head.weight",
                                                          .dtype = "F16",
                                                          .rank = 2,
                                                          .dims = dims,
                                                          .data = halves }));
    TEST_OK(
        ctx,
        dt_writer_add_bytes(
            w, &(dt_file_entry){
                   .name = "head.bias", .dtype = "BF16", .rank = 1, .dims = dims, .data = bias }));
    TEST_OK(ctx, dt_writer_write(w, path));
    TEST_OK(ctx, dt_model_load_weights(m, path));
    const float *weight = dt_data(dt_param(m, "head.weight"));
    const float *b = dt_data(dt_param(m, "head.bias"));
    ck_assert(weight[0] == 1 && weight[1] == -2 && weight[2] == 0.5f && weight[3] == 0);
    ck_assert(b[0] == 1 && b[1] == 2 && b[2] == -1);
    /* into masters: the wrapper stays, and its codes follow */
    TEST_OK(ctx, dt_fill(dt_param(m, "head.weight"), 3));
    TEST_OK(ctx, dt_prepare(m, NULL));
    free(outputs_of(m, 2, 4));
    TEST_OK(ctx, dt_model_load_weights(m, path));
    ck_assert(dt_is_fake_quant(dt_param(m, "head.weight")));
    ck_assert(((const float *)dt_data(dt_inner(dt_param(m, "head.weight"))))[1] == -2);
    dt_module *module;
    TEST_FAILS(ctx, DT_ERR_FORMAT, "detent.model", dt_model_load(ctx, path, &module, NULL));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_FAILS(ctx, DT_ERR_STATE, "head.weight", dt_model_load_weights(m, path));
    dt_writer_free(w);
    dt_module_free(m);
}
END_TEST

START_TEST(a_file_of_another_model_names_all)
{
    static const int64_t sizes[] = { 6, 5, 4, 0 }, others[] = { 6, 7, 5, 4, 0 };
    const dt_mlp_options o = small_options(sizes, 0, 0), other = small_options(others, 1, 0);
    const dt_model_info info = small_info(&other);
    dt_module *m = small_model(ctx, &o), *n = small_model(ctx, &other);
    float *before = outputs_of(m, 3, 6);
    TEST_OK(ctx, dt_model_save(n, &info, path));
    const dt_status s = dt_model_load_weights(m, path);
    ck_assert_int_eq(s, DT_ERR_FORMAT);
    const char *text = dt_error(ctx);
    ck_assert_msg(strstr(text, "layers.1.weight") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "layers.0.weight is F32[7,6], not [5,6]") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "10 not of this model") != NULL, "%s", text);
    float *after = outputs_of(m, 3, 6);
    ck_assert_mem_eq(before, after, 12 * sizeof(float));
    /* the other way round, something is missing */
    const dt_model_info own = small_info(&o);
    TEST_OK(ctx, dt_model_save(m, &own, path));
    TEST_FAILS(ctx, DT_ERR_FORMAT, "missing (layers.1.weight", dt_model_load_weights(n, path));
    free(before);
    free(after);
    dt_module_free(m);
    dt_module_free(n);
}
END_TEST

/* Two modules that share a weight. */
static dt_module *tied_model(void)
{
    dt_module *m, *a, *b;
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    TEST_OK(ctx, dt_linear_create(ctx, 6, 6, true, &a));
    TEST_OK(ctx, dt_module_add(m, "a", a));
    TEST_OK(ctx, dt_linear_create(ctx, 6, 6, true, &b));
    TEST_OK(ctx, dt_module_add(m, "b", b));
    TEST_OK(ctx, dt_module_tie(m, "b.weight", "a.weight"));
    return m;
}

START_TEST(tied_weights_are_saved_once)
{
    dt_module *m = tied_model(), *n = tied_model();
    TEST_OK(ctx, dt_model_save(m, NULL, path));
    dt_file *f;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    ck_assert_int_eq(dt_file_count(f), 3);
    ck_assert_str_eq(dt_file_meta(f, "detent.tied"), "{\"b.weight\":\"a.weight\"}");
    TEST_OK(ctx, dt_model_check(f));
    dt_file_close(f);
    TEST_OK(ctx, dt_model_load_weights(n, path));
    same_models(m, n);
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_OK(ctx, dt_model_save(m, NULL, path));
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    dt_file_weights *list;
    TEST_OK(ctx, dt_file_weights_read(f, &list));
    ck_assert_int_eq(dt_file_weights_count(list), 1);
    const dt_file_weight *w = dt_file_weights_at(list, 0);
    ck_assert_str_eq(w->name, "a.weight");
    ck_assert_str_eq(w->scheme, "int4 symmetric group 32");
    ck_assert_int_eq(w->count, 36);
    ck_assert_uint_eq(w->bytes, 6 * 3 + 6 * 4);
    ck_assert_ptr_null(dt_file_weights_at(list, 1));
    dt_file_weights_free(list);
    TEST_OK(ctx, dt_model_check(f));
    dt_file_close(f);
    dt_module_free(m);
    dt_module_free(n);
}
END_TEST

/* ---- failures ------------------------------------------------------------------------------- */

static dt_status look_at(dt_ctx *failing)
{
    dt_file *f;
    dt_file_weights *list = NULL;
    DT__TRY(dt_file_open(failing, path, &f));
    dt_status s = dt_model_check(f);
    if (s == DT_OK) s = dt_file_weights_read(f, &list);
    dt_file_weights_free(list);
    dt_file_close(f);
    return s;
}

static dt_status save_and_load(dt_ctx *failing, void *user)
{
    static const int64_t sizes[] = { 10, 9, 3, 0 };
    const dt_mlp_options o = small_options(sizes, 1, 0);
    const dt_model_info info = small_info(&o);
    const bool convert = *(const bool *)user;
    dt_module *m, *again = NULL;
    dt_model_info read = { .family = NULL };
    DT__TRY(dt_mlp_create(failing, &o, &m));
    dt_status s = dt_prepare(m, NULL);
    if (s == DT_OK && convert) s = dt_convert(m, NULL, NULL);
    if (s == DT_OK) s = dt_model_save(m, &info, path);
    if (s == DT_OK) s = dt_model_load(failing, path, &again, &read);
    if (s == DT_OK && !convert) s = dt_model_load_weights(again, path);
    if (s == DT_OK) s = look_at(failing);
    dt_model_info_free(failing, &read);
    dt_module_free(again);
    dt_module_free(m);
    return s;
}

START_TEST(every_allocation_fails_once)
{
    bool convert = _i == 1;
    const int64_t runs = test_every_allocation(save_and_load, &convert);
    printf("model_file: %lld allocations failed\n", (long long)runs - 1);
}
END_TEST

/* The disk is full: the old file stays complete, and no other file is left. */
START_TEST(a_failing_write_keeps_the_old_file)
{
    static const int64_t small[] = { 8, 4, 0 }, large[] = { 200, 100, 10, 0 };
    const dt_mlp_options o = small_options(small, 0, 0), p = small_options(large, 0, 0);
    dt_model_info info = small_info(&o);
    dt_module *m = small_model(ctx, &o), *n = small_model(ctx, &p);
    TEST_OK(ctx, dt_model_save(m, &info, path));
    size_t before, after;
    char *old = test_read_file(path, &before);
    info.options = &p;
    const bool limited = test_limit_files(16384);
    const dt_status status = dt_model_save(n, &info, path);
    ck_assert(test_limit_files(-1) && limited);
    ck_assert_int_eq(status, DT_ERR_IO);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "model.safetensors"));
    char *now = test_read_file(path, &after);
    ck_assert_uint_eq(before, after);
    ck_assert_mem_eq(old, now, before);
    ck_assert_int_eq(test_shell(NULL, "test \"$(ls -A %s)\" = model.safetensors", folder), 0);
    free(old);
    free(now);
    dt_module_free(m);
    dt_module_free(n);
}
END_TEST

START_TEST(names_of_our_own_are_refused)
{
    dt_module *m, *a;
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    TEST_OK(ctx, dt_linear_create(ctx, 2, 2, true, &a));
    TEST_OK(ctx, dt_module_add(m, "detent", a));
    TEST_FAILS(ctx, DT_ERR_ARG, "detent.weight", dt_model_save(m, NULL, path));
    dt_module_free(m);
    ck_assert(!test_file_exists(path));
}
END_TEST

START_TEST(options_that_no_reader_takes_are_not_written)
{
    static const int64_t sizes[] = { 3, 2, 0 };
    dt_mlp_options o = small_options(sizes, 0, 0);
    const dt_model_info info = small_info(&o);
    dt_module *m = small_model(ctx, &o);
    o.eps = -1;
    TEST_FAILS(ctx, DT_ERR_ARG, "eps", dt_model_save(m, &info, path));
    o.eps = 0;
    o.activation = 99;
    TEST_FAILS(ctx, DT_ERR_ARG, "activation", dt_model_save(m, &info, path));
    o.activation = 0;
    o.dropout = NAN;
    TEST_FAILS(ctx, DT_ERR_ARG, "a number is expected", dt_model_save(m, &info, path));
    dt_module_free(m);
    ck_assert(!test_file_exists(path));
}
END_TEST

Suite *test_model_file_suite(void)
{
    Suite *s = suite_create("model_file");
    TCase *c = tcase_create("model_file");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, float_models_come_back);
    tcase_add_loop_test(c, every_scheme_comes_back, 0, 6 * DT__SCHEMES * 3);
    tcase_add_test(c, rules_and_norms_come_back);
    tcase_add_test(c, four_bits_by_hand);
    tcase_add_test(c, two_and_three_bits_by_hand);
    tcase_add_loop_test(c, files_with_old_words_can_be_read, 0, 2);
    tcase_add_test(c, equal_models_give_equal_bytes);
    tcase_add_test(c, weights_of_any_file);
    tcase_add_test(c, a_file_of_another_model_names_all);
    tcase_add_test(c, tied_weights_are_saved_once);
    tcase_add_loop_test(c, every_allocation_fails_once, 0, 2);
    tcase_add_test(c, a_failing_write_keeps_the_old_file);
    tcase_add_test(c, names_of_our_own_are_refused);
    tcase_add_test(c, options_that_no_reader_takes_are_not_written);
    suite_add_tcase(s, c);
    return s;
}
