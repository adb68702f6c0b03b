/* Files of weights without a model: reference values through files and through the program, rules,
 * inputs, dtypes, interrupted calls, damaged files, memory that fails. */
#include "testing.h"

#include "core/core.h"
#include "io/safetensors/tensors_meta.h"
#include "ptq/keys.h"
#include "rounding_golden.h"
#include "train/quantize/tensors.h"

#include <detent/experimental/train.h>

#include <jansson.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' "

static dt_ctx *ctx;
static char folder[TEST_PATH], weights[TEST_PATH], inputs[TEST_PATH], output[TEST_PATH];
static char log_lines[4096];

static void take_line(void *user, const char *line)
{
    (void)user;
    const size_t used = strlen(log_lines);
    snprintf(log_lines + used, sizeof log_lines - used, "%s\n", line);
}

static dt_ctx *context(int threads)
{
    dt_ctx *made = NULL;
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = threads;
    options.log = take_line;
    TEST_OK(NULL, dt_ctx_create(&made, &options));
    return made;
}

static void setup(void)
{
    ctx = context(2);
    log_lines[0] = 0;
    test_folder(folder);
    test_join(weights, folder, "w.safetensors");
    test_join(inputs, folder, "x.safetensors");
    test_join(output, folder, "out.safetensors");
}

static void teardown(void) { dt_ctx_free(ctx); }

/* ---- files ---------------------------------------------------------------------------------- */

typedef struct sample {
    const char *name, *dtype;
    int rank;
    int64_t dims[4];
} sample;

/* Numbers without repetition in any row or column, so that codes depend on all of them. */
static float value(int64_t i, int seed)
{
    uint32_t words[4];
    dt__philox((uint64_t)seed, (uint64_t)i, words);
    return 2 * dt__unit_f32(words[0]) - 1;
}

static void store(const char *dtype, float x, unsigned char *to)
{
    const double wide = (double)x;
    const int64_t whole = (int64_t)(x * 100);
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint16_t half = (uint16_t)(bits >> 16);
    if (strcmp(dtype, "F64") == 0) memcpy(to, &wide, 8);
    else if (strcmp(dtype, "BF16") == 0) memcpy(to, &half, 2);
    else if (strcmp(dtype, "I64") == 0) memcpy(to, &whole, 8);
    else memcpy(to, &x, 4);
}

static size_t size_of(const char *dtype)
{
    return strcmp(dtype, "F32") == 0 ? 4 : strcmp(dtype, "BF16") == 0 ? 2 : 8;
}

/* All values are representable in bf16, so that a file's dtype changes none. */
static void write_samples(const char *path, const sample *s, int n, int seed)
{
    dt_writer *w = NULL;
    void *data[16];
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (int i = 0; i < n; i++) {
        int64_t count = 1;
        for (int k = 0; k < s[i].rank; k++) count *= s[i].dims[k];
        unsigned char *bytes = data[i] = malloc((size_t)count * 8 + 1);
        for (int64_t k = 0; k < count; k++) {
            float x = value(k, seed + i);
            uint32_t bits;
            memcpy(&bits, &x, sizeof bits);
            bits &= 0xFFFF0000u;
            memcpy(&x, &bits, sizeof bits);
            store(s[i].dtype, x, bytes + (size_t)k * size_of(s[i].dtype));
        }
        const dt_file_entry e = { .name = s[i].name,
                                  .dtype = s[i].dtype,
                                  .rank = s[i].rank,
                                  .dims = s[i].dims,
                                  .data = bytes };
        TEST_OK(ctx, dt_writer_add_bytes(w, &e));
    }
    TEST_OK(ctx, dt_writer_meta(w, "format", "pt"));
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    for (int i = 0; i < n; i++) free(data[i]);
}

static const sample small_weights[] = {
    { "a.weight", "F32", 2, { 6, 20 } },      { "a.bias", "F32", 1, { 6 } },
    { "b.weight", "F32", 4, { 4, 3, 3, 3 } }, { "up.weight", "F32", 4, { 4, 3, 2, 2 } },
    { "table", "I64", 2, { 5, 2 } },
};
static const sample small_inputs[] = {
    { "a.weight", "F32", 3, { 5, 7, 20 } },
    { "b.weight", "F32", 4, { 3, 3, 6, 5 } },
    { "b.weight.float", "F32", 4, { 3, 3, 6, 5 } },
    { "up.weight", "F32", 4, { 3, 4, 4, 5 } },
};

static const char small_recipe[] =
    "quantize:\n"
    "  rounder: gptq\n"
    "  weight: {bits: 3, group_size: 5}\n"
    "  tensors:\n"
    "    - {match: b, stride: [2, 1], padding: 1}\n"
    "    - {match: up, op: conv_transpose2d, stride: 2, output_padding: [0, 1], groups: 2}\n";

static void write_small(void)
{
    write_samples(weights, small_weights, DT__COUNT_OF(small_weights), 1);
    write_samples(inputs, small_inputs, DT__COUNT_OF(small_inputs), 11);
}

/* ---- calls ---------------------------------------------------------------------------------- */

typedef struct call {
    const char *recipe, *override;
    const char *calibration; /* "": none */
    const char *to;
    int codes;
    int stop_after; /* weights; 0: never */
    int64_t done;
    dt_quantize_summary *summary;
} call;

static bool stop(void *user)
{
    const call *c = user;
    return c->stop_after > 0 && c->done >= c->stop_after;
}

static void count(void *user, const dt_quantize_summary *s) { ((call *)user)->done = s->n; }

static dt_status run_with(dt_ctx *with, call *c)
{
    const char *calibration = c->calibration == NULL ? inputs : c->calibration;
    const dt_recipe_source source = { .path = "r.yaml",
                                      .text = c->recipe == NULL ? small_recipe : c->recipe,
                                      .bytes = strlen(c->recipe == NULL ? small_recipe : c->recipe),
                                      .overrides = &c->override,
                                      .n_overrides = c->override != NULL,
                                      .use = DT_RECIPE_TO_QUANTIZE };
    const dt_tensors_job job = { .weights = weights,
                                 .calibration = *calibration == 0 ? NULL : calibration,
                                 .output = c->to == NULL ? output : c->to,
                                 .codes = c->codes,
                                 .stop = stop,
                                 .weight = count,
                                 .user = c };
    dt_recipe *recipe = NULL;
    dt_status s = dt_recipe_read(with, &source, &recipe);
    if (s == DT_OK) s = dt_quantize_tensors(with, recipe, &job, c->summary);
    dt_recipe_free(recipe);
    return s;
}

static dt_status run(call c) { return run_with(ctx, &c); }

/* One weight of a file as a rounder gives it; to be freed. */
static dt_rounded *read_weight(const char *path, const char *name)
{
    dt_file *file = NULL;
    dt__tensors all;
    dt__rows_form form;
    dt_code_rows rows;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    TEST_OK(ctx, dt_model_check(file));
    TEST_OK(ctx, dt__tensors_read(file, &all));
    int64_t i = 0;
    while (i < all.n && strcmp(all.at[i].name, name) != 0) i++;
    ck_assert_msg(i < all.n, "%s is not there", name);
    ck_assert(dt__tensor_form(&all.at[i], &form));
    TEST_OK(ctx, dt__rows_read(file, name, &form, &rows));
    dt_rounded *r = dt__alloc_zero(ctx, sizeof *r);
    *r = (dt_rounded){ form.rows,  form.columns,    form.groups,  rows.codes,
                       rows.scale, rows.zero_point, rows.group_of };
    dt__tensors_free(&all);
    dt_file_close(file);
    return r;
}

static bool same_file(const char *a, const char *b)
{
    size_t n, m;
    char *x = test_read_file(a, &n), *y = test_read_file(b, &m);
    const bool same = n == m && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return same;
}

/* ---- reference values ----------------------------------------------------------------------- */

static const char *const golden[] = {
    "a2_conv",       "a2_s8",          "a2_tconv",        "a2_u8",
    "conv_6x4x3x3",  "conv_depthwise", "conv_grouped",    "conv_strided",
    "dead",          "equal_norm",     "lin_16x96",       "lin_48x128",
    "lin_8x32",      "lin_lowrank",    "tconv_depthmult", "tconv_depthwise",
    "tconv_dilated", "tconv_groups2",  "tconv_nooverlap", "tconv_plain",
    "tconv_stride2", "zeros_05",       "zeros_60",        "zeros_few",
};

static const char *choice(const dt_key *keys, const char *name, int i)
{
    while (strcmp(keys->name, name) != 0) keys++;
    return keys->choices[i];
}

static size_t add(char *text, size_t used, const char *format, ...) DT_PRINTF(3, 4);

static size_t add(char *text, size_t used, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(text + used, 2048 - used, format, arguments);
    va_end(arguments);
    return used + (size_t)n;
}

/* The settings of a case as a recipe; keys that its rounder does not read are left out. */
static void write_recipe(const rounding_case *c, char text[2048])
{
    const dt_rounding *o = &c->options.rounding;
    const dt_accumulator *a = &c->options.accumulator;
    const dt_weight_op *op = &c->layer->op;
    const dt_conv_options *v = &op->conv;
    const char *rounder = dt__rounder_names[c->options.rounder];
    const bool gptq = strstr(rounder, "gptq") != NULL, qronos = strstr(rounder, "qronos") != NULL;
    size_t n = add(text, 0, "quantize:\n  rounder: %s\n", rounder);
    if (c->options.rounder != DT_ROUND_NEAREST) {
        n = add(text, n, "  rounding: {order: %s, keep_zeros: %s, keep_better: false",
                choice(dt__rounding_keys, "order", o->order), o->keep_zeros ? "true" : "false");
    }
    if (gptq || qronos) {
        n = add(text, n, ", block: %d, damping_absolute: %.17g", (int)o->block,
                o->damping_absolute);
    }
    if (gptq) {
        n = add(text, n, ", damping: %.17g, damping_mean: %s, group_scales: %s", o->damping,
                choice(dt__rounding_keys, "damping_mean", o->damping_mean),
                choice(dt__rounding_keys, "group_scales", o->group_scales));
    }
    if (qronos) n = add(text, n, ", alpha: %.17g", o->alpha);
    if (c->options.rounder != DT_ROUND_NEAREST) n = add(text, n, "}\n");
    if (strncmp(rounder, "a2", 2) == 0) {
        n = add(text, n,
                "  accumulator: {bits: %d, tile: %d, input: [%d, %d], soft_threshold: %s, "
                "diffuse: %s}\n",
                (int)a->bits, (int)a->tile, (int)a->input.v[0], (int)a->input.v[1],
                a->soft_threshold ? "true" : "false",
                choice(dt__accumulator_keys, "diffuse", a->diffuse));
    }
    n = add(text, n, "  weight: {scheme: %s, bits: %d, granularity: %s",
            choice(dt_tensor_quant_keys, "scheme", c->quant.scheme), (int)c->quant.bits,
            choice(dt_tensor_quant_keys, "granularity", c->quant.granularity));
    if (c->quant.granularity == DT_PER_GROUP) {
        n = add(text, n, ", group_size: %d", (int)c->quant.group_size);
    }
    n = add(text, n, "}\n");
    if (op->kind == DT_WEIGHT_LINEAR) return;
    n = add(text, n,
            "  tensors:\n    - {match: layer, op: %s, stride: [%d, %d], padding: [%d, %d], "
            "dilation: [%d, %d], groups: %d",
            dt__weight_op_names[op->kind], (int)v->stride[0], (int)v->stride[1], (int)v->padding[0],
            (int)v->padding[1], (int)v->dilation[0], (int)v->dilation[1], (int)v->groups);
    if (op->kind == DT_WEIGHT_CONV_TRANSPOSE2D) {
        n = add(text, n, ", output_padding: [%d, %d]", (int)v->output_padding[0],
                (int)v->output_padding[1]);
    }
    add(text, n, "}\n");
}

static void write_layer(const rounding_layer *l)
{
    dt_writer *w = NULL;
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    TEST_OK(ctx, dt_writer_add(w, "layer.weight", l->w));
    TEST_OK(ctx, dt_writer_write(w, weights));
    dt_writer_free(w);
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    TEST_OK(ctx, dt_writer_add(w, "layer.weight", l->xq));
    TEST_OK(ctx, dt_writer_add(w, "layer.weight.float", l->x));
    TEST_OK(ctx, dt_writer_write(w, inputs));
    dt_writer_free(w);
}

/* Through the program where `shell`, else by the function that it calls. */
static void compare_case(const rounding_case *c, bool shell, rounding_tally *tally)
{
    char text[2048], recipe[TEST_PATH];
    write_recipe(c, text);
    if (shell) {
        char *words = NULL;
        test_join(recipe, folder, "r.yaml");
        test_write_text(recipe, text);
        const int status = test_shell(&words,
                                      "cd %s && " DETENT "quantize w.safetensors r.yaml -o "
                                      "out.safetensors --calibration x.safetensors --codes i8 2>&1",
                                      folder);
        ck_assert_msg(status == 0, "%s %s: %s", c->layer->name, c->name, words);
        free(words);
    } else {
        const dt_status s = run((call){ .recipe = text });
        TEST_EACH(s == DT_OK, "%s %s: %s\n%s", c->layer->name, c->name, dt_error(ctx), text);
    }
    dt_rounded *got = read_weight(output, "layer.weight");
    rounding_compare(c, got, 19, tally);
    dt_rounded_free(ctx, got);
}

static const test_draws shell_steps = { .usual = 16, .sanitized = 64 }; /* by the program */

START_TEST(codes_of_reference_files)
{
    rounding_layer l;
    rounding_case c;
    rounding_tally tally = { 0, 0, 0 };
    int cases = 0;
    if (!rounding_open(ctx, golden[_i], &l)) return;
    write_layer(&l);
    for (int i = 0; rounding_case_at(&l, i, &c); i++, cases++) {
        compare_case(&c, i % test_count(shell_steps) == 3, &tally);
        rounding_case_free(&c);
    }
    ck_assert_msg(tally.wrong == 0 && tally.ties * 100 <= tally.rows,
                  "%s: of %d rows %d are wrong, %d ties", golden[_i], (int)tally.rows,
                  (int)tally.wrong, (int)tally.ties);
    ck_assert_int_gt(cases, 0);
    rounding_close(&l);
}
END_TEST

/* ---- results -------------------------------------------------------------------------------- */

START_TEST(tensors_of_all_kinds)
{
    dt_quantize_summary s;
    dt_file *file = NULL;
    write_small();
    TEST_OK(ctx, run((call){ .summary = &s }));
    ck_assert(s.n == 3 && s.wanted == 3 && s.resumed == 0 && s.n_copied == 2);
    ck_assert_int_eq(s.total.elements, 120 + 108 + 48);
    ck_assert_int_eq(s.samples, 3 * 8 * 11); /* positions of the transposed convolution's output */
    for (int i = 0; i < 3; i++) {
        const dt_quantized_weight *w = &s.weight[i];
        ck_assert_str_eq(w->report.method, "gptq");
        ck_assert_str_eq(w->scheme, "int3 symmetric group 5");
        ck_assert(w->report.error > 0 && w->report.error <= w->report.nearest_error);
    }
    TEST_OK(ctx, dt_file_open(ctx, output, &file));
    ck_assert_int_eq(dt_file_count(file), 3 * 2 + 2);
    const dt_file_entry *bias = dt_file_find(file, "a.bias");
    const dt_file_entry *up = dt_file_find(file, "up.weight.codes");
    ck_assert(bias != NULL && strcmp(bias->dtype, "F32") == 0 && bias->dims[0] == 6);
    ck_assert(up->dims[0] == 6 && up->dims[1] == 4); /* 2 * 4 columns of 4 bits */
    ck_assert_str_eq(dt_file_meta(file, "format"), "pt");
    ck_assert_ptr_nonnull(strstr(dt_file_meta(file, "detent.tensors"), "\"stride\":[2,1]"));
    ck_assert_ptr_nonnull(strstr(dt_file_meta(file, "detent.rounding"), "\"damping\":0.01"));
    int64_t bytes = 0;
    for (int64_t i = 0; i < dt_file_count(file); i++) bytes += (int64_t)dt_file_at(file, i)->bytes;
    ck_assert_int_eq(bytes, s.bytes);
    ck_assert_int_eq(s.bytes_before, 4 * (120 + 6 + 108 + 48) + 80);
    dt_file_close(file);
    dt_quantize_summary_free(&s);
    ck_assert_ptr_null(strstr(log_lines, "partial"));
}
END_TEST

START_TEST(forms_hold_the_same)
{
    char bytes[TEST_PATH];
    write_small();
    test_join(bytes, folder, "i8.safetensors");
    const char *const orders[] = { "quantize.rounding.order=weight",
                                   "quantize.rounding.order=group" };
    for (int i = 0; i < 2; i++) {
        TEST_OK(ctx, run((call){ .override = orders[i] }));
        TEST_OK(ctx, run((call){ .override = orders[i], .codes = DT_CODES_I8, .to = bytes }));
        for (int k = 0; k < 4; k++) {
            if (k == 1 || k == 4) continue;
            dt_rounded *a = read_weight(output, small_weights[k].name);
            dt_rounded *b = read_weight(bytes, small_weights[k].name);
            ck_assert_mem_eq(a->codes, b->codes, (size_t)(a->rows * a->columns));
            ck_assert_mem_eq(a->scale, b->scale, (size_t)(a->rows * a->groups) * 4);
            ck_assert((a->group_of != NULL) == (i == 1) && (b->group_of != NULL) == (i == 1));
            const size_t lines = k == 3 ? 2 : 1;
            if (i == 1) ck_assert_mem_eq(a->group_of, b->group_of, lines * (size_t)a->columns * 4);
            dt_rounded_free(ctx, a);
            dt_rounded_free(ctx, b);
        }
    }
}
END_TEST

/* Dtypes that hold the values give the codes of F32. */
START_TEST(dtypes_of_the_input_change_no_code)
{
    sample w[DT__COUNT_OF(small_weights)], x[DT__COUNT_OF(small_inputs)];
    memcpy(w, small_weights, sizeof w);
    memcpy(x, small_inputs, sizeof x);
    write_small();
    TEST_OK(ctx, run((call){ .summary = NULL }));
    dt_rounded *wanted = read_weight(output, "b.weight");
    for (int i = 0; i < 2; i++) {
        const char *dtype = i == 0 ? "BF16" : "F64";
        for (int k = 0; k < 4; k++) w[k].dtype = x[k].dtype = dtype;
        write_samples(weights, w, DT__COUNT_OF(w), 1);
        write_samples(inputs, x, DT__COUNT_OF(x), 11);
        TEST_OK(ctx, run((call){ .summary = NULL }));
        dt_rounded *got = read_weight(output, "b.weight");
        ck_assert_mem_eq(got->codes, wanted->codes, 108);
        dt_rounded_free(ctx, got);
        dt_file *file = NULL;
        TEST_OK(ctx, dt_file_open(ctx, output, &file));
        ck_assert_str_eq(dt_file_find(file, "a.bias")->dtype, dtype);
        dt_file_close(file);
    }
    dt_rounded_free(ctx, wanted);
}
END_TEST

START_TEST(bytes_depend_on_the_recipe_alone)
{
    static const char *const overrides[] = { "quantize.calibration.batch_size=1",
                                             "quantize.calibration.batch_size=2",
                                             "quantize.calibration.samples=99", "run.threads=3" };
    char other[TEST_PATH];
    write_small();
    test_join(other, folder, "other.safetensors");
    TEST_OK(ctx, run((call){ .summary = NULL }));
    for (int i = 0; i < 4; i++) {
        TEST_OK(ctx, run((call){ .override = overrides[i], .to = other }));
        ck_assert_msg(same_file(output, other), "%s", overrides[i]);
    }
    dt_ctx *one = context(1);
    call c = { .to = other };
    TEST_OK(one, run_with(one, &c));
    ck_assert(same_file(output, other));
    dt_ctx_free(one);
    TEST_OK(ctx, run((call){ .override = "quantize.calibration.samples=2", .to = other }));
    ck_assert(!same_file(output, other));
}
END_TEST

/* ---- resuming ------------------------------------------------------------------------------- */

START_TEST(an_interrupted_call_resumes)
{
    char whole[TEST_PATH], partial[TEST_PATH];
    dt_quantize_summary s;
    write_small();
    test_join(whole, folder, "whole.safetensors");
    test_join(partial, folder, "out.safetensors.partial");
    TEST_OK(ctx, run((call){ .to = whole }));
    for (int n = 1; n < 3; n++) {
        TEST_FAILS(ctx, DT_ERR_INTERRUPTED, "goes on from", run((call){ .stop_after = n }));
        ck_assert(test_file_exists(partial) && !test_file_exists(output));
        TEST_OK(ctx, run((call){ .summary = &s }));
        ck_assert(s.resumed == n && s.n == 3 && s.weight[0].report.error > 0);
        ck_assert(same_file(output, whole));
        ck_assert(!test_file_exists(partial));
        ck_assert_str_eq(log_lines, "");
        dt_quantize_summary_free(&s);
        unlink(output);
    }
    /* twice interrupted */
    TEST_FAILS(ctx, DT_ERR_INTERRUPTED, "after 1 of 3", run((call){ .stop_after = 1 }));
    TEST_FAILS(ctx, DT_ERR_INTERRUPTED, "after 2 of 3", run((call){ .stop_after = 2 }));
    TEST_OK(ctx, run((call){ .summary = NULL }));
    ck_assert(same_file(output, whole));
}
END_TEST

START_TEST(partial_results_of_other_settings_are_redone)
{
    char whole[TEST_PATH], partial[TEST_PATH];
    dt_quantize_summary s;
    size_t n;
    write_small();
    test_join(whole, folder, "whole.safetensors");
    test_join(partial, folder, "out.safetensors.partial");
    const char *const bits = "quantize.weight.bits=4";
    TEST_OK(ctx, run((call){ .to = whole, .override = bits }));
    TEST_FAILS(ctx, DT_ERR_INTERRUPTED, "", run((call){ .stop_after = 2 }));
    TEST_OK(ctx, run((call){ .summary = &s, .override = bits }));
    ck_assert_int_eq(s.resumed, 0);
    dt_quantize_summary_free(&s);
    ck_assert_ptr_nonnull(strstr(log_lines, "2 of its 2 weights are of other"));
    ck_assert(same_file(output, whole) && !test_file_exists(partial));
    /* one rule of the recipe changed: the other weight is kept */
    TEST_FAILS(ctx, DT_ERR_INTERRUPTED, "", run((call){ .stop_after = 2, .override = bits }));
    write_samples(inputs, small_inputs, DT__COUNT_OF(small_inputs), 12);
    TEST_OK(ctx, run((call){ .summary = &s, .override = bits }));
    ck_assert_int_eq(s.resumed, 0);
    dt_quantize_summary_free(&s);
    /* damaged */
    for (int i = 0; i < 40; i++) {
        TEST_FAILS(ctx, DT_ERR_INTERRUPTED, "", run((call){ .stop_after = 2, .to = whole }));
        strcat(strcpy(partial, whole), ".partial");
        char *bytes = test_read_file(partial, &n);
        bytes[(size_t)i * n / 40] ^= 4;
        test_write_file(partial, bytes, n);
        free(bytes);
        log_lines[0] = 0;
        TEST_OK(ctx, run((call){ .summary = &s, .to = whole }));
        ck_assert_msg(s.resumed == 0 && strstr(log_lines, "begun anew") != NULL, "%s", log_lines);
        dt_quantize_summary_free(&s);
    }
}
END_TEST

/* ---- experts -------------------------------------------------------------------------------- */

#define EXPERTS 3
#define EXPERT_ROWS 90

static void add_tensor(dt_writer *w, const char *name, dt_dtype dtype, int rank,
                       const int64_t *dims, const void *data)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_from(ctx, dtype, rank, dims, data, &x));
    TEST_OK(ctx, dt_writer_add(w, name, x));
    dt_tensor_free(x);
}

/* A weight of experts [3, 8, 16] and 90 sorted rows: 40 for the first, none for the second, 30 for
 * the third, and the rest for no expert; or the first expert alone. */
static void write_experts(const char *routes, bool alone)
{
    const int64_t w_dims[] = { EXPERTS, 8, 16 }, x_dims[] = { alone ? 40 : EXPERT_ROWS, 16 };
    const int64_t offsets[] = { 0, 40, 40, 70 }, slots[] = { EXPERT_ROWS, 2 };
    float w[EXPERTS * 8 * 16], x[EXPERT_ROWS * 16];
    int64_t index[2 * EXPERT_ROWS];
    dt_writer *to;
    for (int i = 0; i < EXPERTS * 8 * 16; i++) w[i] = value(i, 3);
    for (int i = 0; i < EXPERT_ROWS * 16; i++) {
        x[i] = value(i, 4) + (i % 16 > 0 ? 0.8f * x[i - 1] : 0);
    }
    for (int i = 0; i < EXPERT_ROWS; i++) {
        index[2 * i] = i < 40 ? 0 : i < 70 ? 2 : -1;
        index[2 * i + 1] = -1;
    }
    TEST_OK(ctx, dt_writer_create(ctx, &to));
    add_tensor(to, "w", DT_F32, alone ? 2 : 3, w_dims + alone, w);
    TEST_OK(ctx, dt_writer_write(to, weights));
    dt_writer_free(to);
    TEST_OK(ctx, dt_writer_create(ctx, &to));
    add_tensor(to, "w", DT_F32, 2, x_dims, x);
    if (strstr(routes, "index") != NULL) add_tensor(to, "w.index", DT_I64, 2, slots, index);
    if (strstr(routes, "offsets") != NULL) {
        add_tensor(to, "w.offsets", DT_I64, 1, (int64_t[]){ EXPERTS + 1 }, offsets);
    }
    TEST_OK(ctx, dt_writer_write(to, inputs));
    dt_writer_free(to);
}

#define EXPERTS_RECIPE                                                                             \
    "quantize:\n  rounder: gptq\n  rounding: {order: group}\n  weight: {group_size: 8}\n"          \
    "  calibration: {batch_size: 32}\n"
#define GROUPED "  tensors:\n    - {match: w, op: grouped_linear}\n"

START_TEST(experts_are_weights_of_their_own)
{
    static const char *const routes[] = { "index", "offsets" };
    write_experts("", true);
    TEST_OK(ctx, run((call){ .recipe = EXPERTS_RECIPE }));
    dt_rounded *alone = read_weight(output, "w");
    for (int i = 0; i < 2; i++) {
        dt_quantize_summary s;
        write_experts(routes[i], false);
        TEST_OK(ctx, run((call){ .recipe = EXPERTS_RECIPE GROUPED, .summary = &s }));
        const dt_round_report *r = &s.weight[0].report;
        ck_assert(r->samples == 70 && r->groups == EXPERTS && s.total.unseen == 1);
        ck_assert(r->unseen_experts.n == 1 && r->unseen_experts.v[0] == 1);
        dt_rounded *all = read_weight(output, "w");
        ck_assert(all->rows == EXPERTS * 8 && all->columns == 16 && all->groups == 2);
        ck_assert_mem_eq(all->codes, alone->codes, 8 * 16);
        ck_assert_mem_eq(all->scale, alone->scale, 8 * 2 * sizeof(float));
        ck_assert_mem_eq(all->group_of, alone->group_of, 16 * sizeof(int32_t));
        dt_rounded_free(ctx, all);
        dt_quantize_summary_free(&s);
    }
    dt_rounded_free(ctx, alone);
    write_experts("", false);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "missing", run((call){ .recipe = EXPERTS_RECIPE GROUPED }));
    write_experts("index offsets", false);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "not both", run((call){ .recipe = EXPERTS_RECIPE GROUPED }));
    write_experts("index", true);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "w.index", run((call){ .recipe = EXPERTS_RECIPE }));
}
END_TEST

/* Granularity tensor applies to each expert; such a file can be written and read. */
START_TEST(experts_by_tensor)
{
    write_experts("", false);
    TEST_OK(ctx, run((call){ .calibration = "",
                             .recipe = "quantize:\n  weight: {granularity: tensor}\n" GROUPED }));
    dt_rounded *all = read_weight(output, "w");
    for (int row = 1; row < EXPERTS * 8; row++) {
        ck_assert((all->scale[row] == all->scale[row - 1]) == (row % 8 != 0));
    }
    dt_rounded_free(ctx, all);
}
END_TEST

/* ---- refused calls -------------------------------------------------------------------------- */

START_TEST(bad_rules_are_refused)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "quantize: {tensors: [{match: nose, skip: true}]}",
          "r.yaml:1:30: error: 'quantize.tensors.0.match': 'nose' selects no tensor (there are '" },
        { "quantize: {tensors: [{match: a, op: conv2d}]}",
          "selects no tensor of floats of rank 4" },
        { "quantize: {tensors: [{match: table, weight: {bits: 3}}]}", "'table' selects no tensor" },
        { "quantize: {tensors: [{match: '*', op: conv1d, stride: 2}]}",
          "selects no tensor of floats of rank 3, as op conv1d has them" },
        { "quantize: {tensors: [{match: '*', stride: 2}]}",
          "1:43: error: 'quantize.tensors.0.stride' is of convolutions; 'a.weight' [6,20] is a "
          "linear" },
        { "quantize: {tensors: [{match: b, output_padding: 1}]}",
          "'quantize.tensors.0.output_padding' is of transposed convolutions; 'b.weight' "
          "[4,3,3,3]" },
        { "quantize: {tensors: [{match: b, groups: 3}]}",
          "1:41: error: 'quantize.tensors.0.groups': 'b.weight' [4,3,3,3]: " },
        { "quantize: {tensors: [{match: up, op: conv_transpose2d, output_padding: 1}]}",
          "'quantize.tensors.0.output_padding': 'up.weight' [4,3,2,2]: " },
        { "quantize: {rounder: gptq}", "1:21: error: the rounder needs the inputs of 3 weights, "
                                       "and there is no calibration file (--calibration): "
                                       "'a.weight', " },
        { "quantize: {tensors: [{match: '*', skip: true}]}", "nothing to round" },
    };
    write_small();
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        const dt_status s = run((call){ .recipe = cases[i].text, .calibration = "" });
        ck_assert_msg(s == (i == DT__COUNT_OF(cases) - 1 ? DT_ERR_FORMAT : DT_ERR_CONFIG),
                      "%s: %s: %s", cases[i].text, dt_status_name(s), dt_error(ctx));
        ck_assert_msg(strstr(dt_error(ctx), cases[i].words) != NULL, "%s", dt_error(ctx));
    }
    /* all at once */
    dt_recipe *r = NULL;
    const char *text = "quantize: {tensors: [{match: x, skip: true}, {match: y, op: linear}]}";
    const dt_recipe_source source = {
        .path = "r.yaml", .text = text, .bytes = strlen(text), .use = DT_RECIPE_TO_QUANTIZE
    };
    const dt_tensors_job job = { .weights = weights, .output = output };
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
    TEST_FAILS(ctx, DT_ERR_CONFIG, "(and 1 more)", dt_quantize_tensors(ctx, r, &job, NULL));
    ck_assert_int_eq(dt_recipe_error_count(r), 2);
    TEST_FAILS(ctx, DT_ERR_CONFIG, "'x' selects", dt_quantize_tensors(ctx, r, &job, NULL));
    dt_recipe_free(r);
    ck_assert(!test_file_exists(output));
}
END_TEST

/* The file's names are listed as far as an error has room for them. */
START_TEST(names_are_listed_as_far_as_they_fit)
{
    enum { EACH = 75, FITS = DT__NAMES - 4 * (EACH + 4) + 2 - (int)sizeof ", '', ..." };
    static const char match[] = "quantize: {tensors: [{match: nose, skip: true}]}";
    char names[6][EACH + 8], said[2 * DT__NAMES] = "(there are ";
    sample s[6];
    for (int i = 0; i < 6; i++) {
        const size_t n = i == 4 ? FITS : EACH;
        memset(names[i], 'a' + i, n);
        names[i][n] = 0;
        s[i] = (sample){ names[i], "F32", 1, { 1 } };
        if (i < 5) strcat(strcat(strcat(said, i == 0 ? "'" : ", '"), names[i]), "'");
    }
    for (int n = 5; n <= 6; n++) {
        const size_t used = strlen(said);
        write_samples(weights, s, n, 1);
        strcpy(said + used, n == 5 ? ")" : ", ...)");
        TEST_FAILS(ctx, DT_ERR_CONFIG, said, run((call){ .recipe = match, .calibration = "" }));
        said[used] = 0;
    }
    strcpy(names[4] + FITS, "e");
    write_samples(weights, s, 5, 1);
    snprintf(said, sizeof said, "'%s', ...)", names[3]);
    TEST_FAILS(ctx, DT_ERR_CONFIG, said, run((call){ .recipe = match, .calibration = "" }));
}
END_TEST

/* An op over one extent equals the one over two with an extent of 1; an op of another rank is
 * refused. */
START_TEST(ops_of_one_extent)
{
    static const char one[] =
        "quantize:\n  rounder: qronos\n  weight: {bits: 3, group_size: 7}\n  tensors:\n"
        "    - {match: '*', op: conv1d, stride: 2, padding: 3, dilation: 2}\n"
        "    - {match: u, op: conv_transpose1d, stride: 3, padding: 0, dilation: 1, "
        "output_padding: 1, "
        "groups: 2}\n";
    static const char two[] =
        "quantize:\n  rounder: qronos\n  weight: {bits: 3, group_size: 7}\n  tensors:\n"
        "    - {match: c, stride: [1, 2], padding: [0, 3], dilation: [1, 2]}\n"
        "    - {match: u, op: conv_transpose2d, stride: [1, 3], output_padding: [0, 1], groups: "
        "2}\n";
    const sample w[2][3] = { { { "c", "F32", 3, { 6, 4, 5 } },
                               { "u", "F32", 3, { 4, 3, 4 } },
                               { "a", "F32", 2, { 3, 9 } } },
                             { { "c", "F32", 4, { 6, 4, 1, 5 } },
                               { "u", "F32", 4, { 4, 3, 1, 4 } },
                               { "a", "F32", 2, { 3, 9 } } } };
    const sample x[2][3] = { { { "c", "F32", 3, { 3, 4, 11 } },
                               { "u", "F32", 3, { 2, 4, 9 } },
                               { "a", "F32", 2, { 20, 9 } } },
                             { { "c", "F32", 4, { 3, 4, 1, 11 } },
                               { "u", "F32", 4, { 2, 4, 1, 9 } },
                               { "a", "F32", 2, { 20, 9 } } } };
    dt_rounded *got[2][3];
    for (int i = 0; i < 2; i++) {
        write_samples(weights, w[i], 3, 1);
        write_samples(inputs, x[i], 3, 11);
        TEST_OK(ctx, run((call){ .recipe = i == 0 ? one : two }));
        for (int k = 0; k < 3; k++) got[i][k] = read_weight(output, w[i][k].name);
    }
    for (int k = 0; k < 3; k++) {
        const size_t n = (size_t)(got[0][k]->rows * got[0][k]->columns);
        ck_assert_mem_eq(got[0][k]->codes, got[1][k]->codes, n);
        dt_rounded_free(ctx, got[0][k]);
        dt_rounded_free(ctx, got[1][k]);
    }
}
END_TEST

START_TEST(rules_change_the_rounder)
{
    dt_quantize_summary s;
    static const char text[] =
        "quantize:\n  rounder: a2gptq\n  weight: {granularity: channel, bits: 8}\n"
        "  accumulator: {bits: 18}\n  rounding: {order: weight}\n"
        "  tensors:\n    - {match: a, rounder: nearest}\n"
        "    - {match: b, rounder: gptq, stride: [2, 1], padding: 1}\n    - {match: up, skip: "
        "true}\n";
    write_small();
    TEST_OK(ctx, run((call){ .recipe = text, .summary = &s }));
    ck_assert_int_eq(s.n, 2);
    ck_assert_str_eq(s.weight[0].report.method, "nearest");
    ck_assert_str_eq(s.weight[1].report.method, "gptq");
    ck_assert_int_eq(s.n_copied, 3);
    dt_quantize_summary_free(&s);
}
END_TEST

/* Each a change to one sample of the inputs. */
START_TEST(bad_inputs_are_refused)
{
    static const struct {
        int at;
        sample changed;
        const char *words;
    } cases[] = {
        { 0,
          { "a.weihgt", "F32", 2, { 5, 20 } },
          "'a.weihgt': inputs of no weight that is rounded" },
        { 0, { "table", "F32", 2, { 5, 20 } }, "'table': inputs of no weight" },
        { 0,
          { "a.weight", "F32", 2, { 5, 19 } },
          "inputs 'a.weight': linear: x is [5,19], weight" },
        { 0, { "a.weight", "F32", 1, { 20 } }, "it must be [samples, in] or [n, channels, ...]" },
        { 0, { "a.weight", "F32", 2, { 0, 20 } }, "inputs 'a.weight': there are none" },
        { 0, { "a.weight", "I64", 2, { 5, 20 } }, "it must be F32, F16, BF16 or F64" },
        { 1, { "b.weight", "F32", 4, { 3, 4, 6, 5 } }, "x has 4 channels, weight takes 3" },
        { 1, { "b.weight", "F32", 3, { 3, 3, 6 } }, "inputs 'b.weight': conv2d: x has rank 3" },
        { 1, { "x.float", "F32", 2, { 1, 1 } }, "'x.float': inputs of no weight" },
        { 2, { "b.weight.float", "F32", 4, { 2, 3, 6, 5 } }, "of another shape than those" },
        { 3,
          { "up.weight", "I64", 4, { 3, 4, 4, 5 } },
          "'up.weight': it must be F32, F16, BF16 or F64" },
        { 3, { "up.weight", "F32", 4, { 3, 2, 4, 5 } }, "x has 2 channels, weight takes 4" },
        { 3,
          { "a.weight.float", "F32", 3, { 5, 7, 20 } },
          "the rounder needs the inputs of 1 weight, and not in" },
    };
    write_small();
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        sample x[DT__COUNT_OF(small_inputs)];
        memcpy(x, small_inputs, sizeof x);
        x[cases[i].at] = cases[i].changed;
        write_samples(inputs, x, DT__COUNT_OF(x), 11);
        dt_quantize_summary summary;
        const dt_status s = run((call){ .summary = &summary });
        ck_assert_msg(s == DT_ERR_FORMAT || s == DT_ERR_CONFIG, "%s: %s", cases[i].words,
                      dt_status_name(s));
        ck_assert_msg(strstr(dt_error(ctx), cases[i].words) != NULL, "%s", dt_error(ctx));
        ck_assert_int_eq(summary.n, 0);
        dt_quantize_summary_free(&summary);
    }
    sample x[DT__COUNT_OF(small_inputs)];
    memcpy(x, small_inputs, sizeof x);
    x[1].name = "lost.float"; /* only the float model's */
    x[2] = (sample){ "b.weight.float", "F32", 4, { 3, 3, 6, 5 } };
    x[1] = (sample){ "up.weight.float", "F32", 4, { 3, 4, 4, 5 } };
    write_samples(inputs, x, DT__COUNT_OF(x), 11);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "the float model's inputs alone",
               run((call){ .summary = NULL }));
    ck_assert(!test_file_exists(output));
}
END_TEST

/* Overwrites float i of a tensor, and leaves the hash's key out. */
static void poison(const char *path, const char *name, int64_t i, float x)
{
    dt_file *file = NULL;
    dt_writer *w = NULL;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    unsigned char *changed = NULL;
    for (int64_t k = 0; k < dt_file_count(file); k++) {
        dt_file_entry e = *dt_file_at(file, k);
        if (strcmp(e.name, name) == 0) {
            changed = malloc(e.bytes);
            memcpy(changed, e.data, e.bytes);
            memcpy(changed + 4 * i, &x, 4);
            e.data = changed;
        }
        TEST_OK(ctx, dt_writer_add_bytes(w, &e));
    }
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    dt_file_close(file);
    free(changed);
}

START_TEST(biases_are_of_models)
{
    write_small();
    TEST_FAILS(ctx, DT_ERR_CONFIG, "'quantize.correct_bias' is of models",
               run((call){ .override = "quantize.correct_bias=true" }));
}
END_TEST

START_TEST(nan_and_infinity_are_refused)
{
    write_small();
    poison(weights, "b.weight", 7, (float)NAN);
    TEST_FAILS(ctx, DT_ERR_NUMERIC, "b.weight", run((call){ .summary = NULL }));
    write_small();
    poison(inputs, "up.weight", 100, (float)INFINITY);
    TEST_FAILS(ctx, DT_ERR_NUMERIC,
               "inputs 'up.weight', from example 0 on: ", run((call){ .summary = NULL }));
    TEST_FAILS(ctx, DT_ERR_NUMERIC, "from example 1 on: ",
               run((call){ .override = "quantize.calibration.batch_size=1" }));
    ck_assert(!test_file_exists(output));
}
END_TEST

START_TEST(bad_files_are_refused)
{
    char other[TEST_PATH];
    write_small();
    test_join(other, folder, "w.safetensors.partial");
    TEST_FAILS(ctx, DT_ERR_IO, "it is read; give another output", run((call){ .to = weights }));
    TEST_FAILS(ctx, DT_ERR_IO, "it is read; give another output", run((call){ .to = inputs }));
    TEST_FAILS(ctx, DT_ERR_IO, "no-such", run((call){ .to = "/no-such/folder/x" }));
    TEST_FAILS(ctx, DT_ERR_IO, "not a regular file", run((call){ .to = folder }));
    TEST_FAILS(ctx, DT_ERR_IO, "not a regular file", run((call){ .to = "/dev/null" }));
    TEST_FAILS(ctx, DT_ERR_IO, "nowhere", run((call){ .calibration = "/nowhere" }));
    test_shell(NULL, "cp %s %s/out.safetensors.partial", inputs, folder);
    test_join(other, folder, "out.safetensors.partial");
    TEST_FAILS(ctx, DT_ERR_IO, "it is read", run((call){ .calibration = other }));
    unlink(other);
    /* rounded already, or a model */
    TEST_OK(ctx, run((call){ .summary = NULL }));
    ck_assert_int_eq(test_shell(NULL, "mv %s %s", output, weights), 0);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "integers already", run((call){ .summary = NULL }));
    sample w[DT__COUNT_OF(small_weights)];
    memcpy(w, small_weights, sizeof w);
    w[1].name = "a.weight.scale";
    write_samples(weights, w, DT__COUNT_OF(w), 1);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "'a.weight.scale': the codes of other tensors would be named so",
               run((call){ .summary = NULL }));
    test_write_text(weights, "not a safetensors file");
    TEST_FAILS(ctx, DT_ERR_FORMAT, "w.safetensors", run((call){ .summary = NULL }));
}
END_TEST

/* ---- damaged files -------------------------------------------------------------------------- */

/* A file as it is, with one pair of metadata or one tensor's bytes changed. */
static void change_file(const char *key, const char *from, const char *to, const char *tensor)
{
    dt_file *file = NULL;
    dt_writer *w = NULL;
    char *text = NULL;
    const char *k, *value_of;
    unsigned char *bytes = NULL;
    TEST_OK(ctx, dt_file_open(ctx, output, &file));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (int64_t i = 0; dt_file_meta_at(file, i, &k, &value_of); i++) {
        if (strcmp(k, "detent.version") == 0 || strcmp(k, "detent.xxh3") == 0) continue;
        if (key != NULL && strcmp(k, key) == 0) {
            const char *at = strstr(value_of, from);
            ck_assert_msg(at != NULL, "%s is not in %s", from, value_of);
            text = malloc(strlen(value_of) + strlen(to) + 1);
            sprintf(text, "%.*s%s%s", (int)(at - value_of), value_of, to, at + strlen(from));
            value_of = text;
        }
        TEST_OK(ctx, dt_writer_meta(w, k, value_of));
    }
    for (int64_t i = 0; i < dt_file_count(file); i++) {
        dt_file_entry e = *dt_file_at(file, i);
        if (tensor != NULL && strcmp(e.name, tensor) == 0) {
            if (from == NULL) continue;
            bytes = malloc(e.bytes);
            memcpy(bytes, e.data, e.bytes);
            memset(bytes, *from, 4);
            e.data = bytes;
        }
        TEST_OK(ctx, dt_writer_add_bytes(w, &e));
    }
    char changed[TEST_PATH];
    test_join(changed, folder, "changed.safetensors");
    TEST_OK(ctx, dt_writer_write(w, changed));
    dt_writer_free(w);
    dt_file_close(file);
    free(text);
    free(bytes);
}

START_TEST(check_finds_mistakes_in_tensor_files)
{
    static const struct {
        const char *key, *from, *to, *tensor, *words;
    } cases[] = {
        { "detent.tensors", "\"linear\"", "\"lineal\"", NULL, "'op' must be one of " },
        { "detent.tensors", "\"linear\"", "\"conv1d\"", NULL, "op conv1d requires its conv" },
        { "detent.tensors", "[6,20]", "[6,21]", NULL, "its codes is [6,10]; it must be [6,11]" },
        { "detent.tensors", "[6,20]", "[20]", NULL, "'shape' must have 2" },
        { "detent.tensors", "[6,20]", "[2,3,20]", NULL, "its shape is none of op linear" },
        { "detent.tensors", "\"bits\":3", "\"bits\":2", NULL, "its codes is" },
        { "detent.tensors", "\"bits\":3", "\"bits\":9", NULL, "'bits' must be from 1 to 8" },
        { "detent.tensors", "\"group_size\":5", "\"group_size\":0", NULL, "group_size" },
        { "detent.tensors", "\"group_size\":5", "\"group_size\":7", NULL, "its scale is [6,4]" },
        { "detent.tensors", "\"packed\"", "\"i8\"", NULL,
          "its codes is U8; the scheme requires I8" },
        { "detent.tensors", "\"g_idx\":true", "\"g_idx\":false", NULL, "a g_idx, of which" },
        { "detent.tensors", "\"groups\":2", "\"groups\":3", NULL,
          "is none of op conv_transpose2d" },
        { "detent.tensors", "\"a.weight\"", "\"b.weight\"", NULL, "occurs twice" },
        { "detent.tensors", "\"a.weight\"", "\"up.weight\"", NULL, "occurs twice" },
        { "detent.tensors", "\"a.weight\"", "\"a.bias\"", NULL, "holds it unquantized, too" },
        { "detent.tensors", "\"a.weight\"", "\"c.weight\"", NULL, "its codes is missing" },
        { NULL, NULL, NULL, "up.weight.scale", "its scale is missing" },
        { NULL, NULL, NULL, "a.weight.g_idx", "its g_idx is missing" },
        { NULL, "\x77", NULL, "a.weight.codes", "code 7 is none of 3 bits" },
        { NULL, "\xFF", NULL, "b.weight.scale", "its scale gives no finite values" },
        { NULL, "\x7F", NULL, "a.weight.g_idx", "g_idx of column 0" },
        { NULL, "\x00", NULL, "a.weight.scale", "at least" },
    };
    char changed[TEST_PATH];
    write_small();
    TEST_OK(ctx, run((call){ .override = "quantize.rounding.order=group" }));
    test_join(changed, folder, "changed.safetensors");
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        dt_file *file = NULL;
        change_file(cases[i].key, cases[i].from, cases[i].to, cases[i].tensor);
        TEST_OK(ctx, dt_file_open(ctx, changed, &file));
        const dt_status s = dt_model_check(file);
        ck_assert_msg(s == DT_ERR_FORMAT && strstr(dt_error(ctx), cases[i].words) != NULL,
                      "%s: %s: %s", cases[i].words, dt_status_name(s), dt_error(ctx));
        dt_file_close(file);
    }
}
END_TEST

/* As many weights as a mixture of experts has: copies of one rounded weight. */
START_TEST(many_weights)
{
    enum { MANY = 17000, EACH = 512 };
    static const sample one = { "w", "F32", 2, { 1, 2 } };
    static char names[MANY][2][16];
    dt_writer *w = NULL;
    dt_file *file = NULL, *many = NULL;
    char *text = malloc(MANY * (size_t)EACH);
    write_samples(weights, &one, 1, 1);
    TEST_OK(ctx, run((call){ .recipe = "quantize: {}", .calibration = "" }));
    TEST_OK(ctx, dt_file_open(ctx, output, &file));
    const char *about = strchr(dt_file_meta(file, "detent.tensors"), ':'); /* ":{...}}" */
    ck_assert_uint_lt(strlen(about), EACH - 32);
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    size_t n = 0;
    for (int i = 0; i < MANY; i++) {
        n += (size_t)sprintf(text + n, "%s\"w%d\"%.*s", i == 0 ? "{" : ",", i,
                             (int)strlen(about) - 1, about);
        for (int k = 0; k < 2; k++) {
            static const char *const parts[] = { "codes", "scale" };
            snprintf(names[i][k], sizeof names[i][k], "w%d.%s", i, parts[k]);
            dt_file_entry e = *dt_file_find(file, k == 0 ? "w.codes" : "w.scale");
            e.name = names[i][k];
            TEST_EACH(dt_writer_add_bytes(w, &e) == DT_OK, "%s", dt_error(ctx));
        }
    }
    strcpy(text + n, "}");
    TEST_OK(ctx, dt_writer_meta(w, "detent.tensors", text));
    test_join(output, folder, "many.safetensors");
    TEST_OK(ctx, dt_writer_write(w, output));
    TEST_OK(ctx, dt_file_open(ctx, output, &many));
    TEST_OK(ctx, dt_model_check(many));
    dt_writer_free(w);
    dt_file_close(many);
    dt_file_close(file);
    free(text);
}
END_TEST

/* After a change of any byte of any file there is a result or an error, and no partial output. */
START_TEST(damaged_files_survive)
{
    char clean[2][TEST_PATH];
    int answers = 0;
    write_small();
    for (int f = 0; f < 2; f++) {
        size_t n;
        snprintf(clean[f], TEST_PATH, "%s", f == 0 ? weights : inputs);
        char *bytes = test_read_file(clean[f], &n);
        for (int i = 0; i < 300; i++) {
            const size_t at = i < 150 ? (size_t)i * 5 % n : (size_t)i * 7919 % n;
            const char was = bytes[at];
            bytes[at] = (char)(was ^ (1 << i % 8));
            test_write_file(clean[f], bytes, n);
            const dt_status s = run((call){ .summary = NULL });
            TEST_EACH(s == DT_OK || s == DT_ERR_FORMAT || s == DT_ERR_CONFIG ||
                          s == DT_ERR_NUMERIC || s == DT_ERR_UNSUPPORTED || s == DT_ERR_DTYPE,
                      "%s: %s", dt_status_name(s), dt_error(ctx));
            TEST_EACH(test_file_exists(output) == (s == DT_OK), "byte %zu: %s", at, dt_error(ctx));
            answers += s == DT_OK;
            unlink(output);
            bytes[at] = was;
        }
        test_write_file(clean[f], bytes, n);
        free(bytes);
    }
    printf("quantize_tensors: 600 changed bytes, %d files rounded all the same\n", answers);
}
END_TEST

static dt_status all_of_it(dt_ctx *with, void *user)
{
    char partial[TEST_PATH];
    dt_quantize_summary s = { .ctx = with };
    call c = { .summary = &s, .override = user };
    test_join(partial, folder, "out.safetensors.partial");
    unlink(partial);
    const dt_status status = run_with(with, &c);
    dt_quantize_summary_free(&s);
    return status;
}

static dt_status interrupted_and_on(dt_ctx *with, void *user)
{
    char partial[TEST_PATH];
    (void)user;
    call c = { .stop_after = 2 };
    test_join(partial, folder, "out.safetensors.partial");
    unlink(partial);
    const dt_status status = run_with(with, &c);
    if (status != DT_ERR_INTERRUPTED) return status;
    c = (call){ .summary = NULL };
    return run_with(with, &c);
}

START_TEST(every_allocation_may_fail)
{
    char override[] = "quantize.rounding.order=group";
    write_small();
    printf("quantize_tensors: %d allocations failed\n",
           (int)test_every_allocation(all_of_it, override));
    printf("quantize_tensors: %d allocations failed in calls that go on\n",
           (int)test_every_allocation(interrupted_and_on, NULL));
}
END_TEST

/* ---- the program ---------------------------------------------------------------------------- */

static void expect(int status, const char *words, const char *arguments)
{
    char *text = NULL;
    const int got = test_shell(&text, "cd %s && " DETENT "%s 2>&1", folder, arguments);
    ck_assert_msg(got == status, "detent %s: %d: %s", arguments, got, text);
    ck_assert_msg(strstr(text, words) != NULL, "detent %s: %s", arguments, text);
    free(text);
}

START_TEST(the_program)
{
    char recipe[TEST_PATH];
    write_small();
    test_join(recipe, folder, "r.yaml");
    test_write_text(recipe, small_recipe);
    expect(2, "-o FILE is missing", "quantize w.safetensors");
    expect(2, "usage: detent quantize", "quantize -o x");
    expect(4, "nowhere: cannot open", "quantize nowhere -o x");
    expect(4, "nowhere.yaml: cannot open: No such file",
           "quantize w.safetensors nowhere.yaml -o x");
    expect(4, "r.yaml", "quantize r.yaml -o x");
    expect(2, "--codes must be packed or i8, not 'i4'", "quantize w.safetensors -o x --codes i4");
    expect(2, "command line: error: unknown key 'round'",
           "quantize w.safetensors -o x "
           "quantize.round=gptq");
    expect(2, "r.yaml:2:12: error: the rounder needs the inputs of 3 weights, and there is no",
           "quantize w.safetensors r.yaml -o x");
    expect(4, "it is read", "quantize w.safetensors -o w.safetensors");
    expect(4, "cannot write", "quantize w.safetensors -o no-such-folder/x");
    expect(4, "nowhere: cannot open", "quantize w.safetensors -o x --calibration nowhere");
    ck_assert_int_eq(test_shell(NULL, "test ! -e %s/x", folder), 0);
    expect(0, "x: 3 weights of 276 elements", "quantize w.safetensors -o x");
    expect(0, "x: 1 weight of 120 elements",
           "quantize w.safetensors -o x 'quantize.tensors=[{match: \"*\", skip: true}, {match: a, "
           "skip: false}]'");
    expect(0, "copied: ", "quantize w.safetensors -o x quantize.weight.bits=8");
    expect(0, "good: 8 tensors, hash and values verified", "check x");
    expect(0, "int8 symmetric group 32, nearest", "inspect x");
    expect(0, "gptq", "quantize w.safetensors r.yaml -o y --calibration x.safetensors");
    expect(0, "quantized: 276 weights", "inspect y");
    expect(4, "integers already", "quantize y -o z");
    char *text = NULL;
    ck_assert_int_eq(
        test_shell(&text, "cd %s && " DETENT "quantize w.safetensors -o x --quiet 2>&1", folder),
        0);
    ck_assert(strstr(text, "seconds") == NULL && strstr(text, "x: 3 weights") != NULL);
    free(text);
    ck_assert_int_eq(test_shell(&text,
                                "cd %s && " DETENT "quantize w.safetensors r.yaml -o y "
                                "--calibration x.safetensors --json",
                                folder),
                     0);
    json_error_t error;
    json_t *root = json_loads(text, 0, &error);
    ck_assert_msg(root != NULL, "%s: %s", error.text, text);
    const json_t *list = json_object_get(root, "weights"), *one = json_array_get(list, 0);
    ck_assert_uint_eq(json_array_size(list), 3);
    ck_assert_uint_eq(json_array_size(json_object_get(root, "copied")), 2);
    static const char *const fields[] = {
        "name",    "scheme",        "shape",      "method",        "fallback",
        "samples", "dead",          "zeros_kept", "kept_nearest",  "damping",
        "error",   "nearest_error", "seconds",    "damping_share", "accumulator_bits",
        "changed", "loss",          "sum_bits",
    };
    for (int i = 0; i < DT__COUNT_OF(fields); i++) {
        ck_assert_msg(json_object_get(one, fields[i]) != NULL, "no %s", fields[i]);
    }
    const json_t *total = json_object_get(root, "total");
    ck_assert_int_eq(json_integer_value(json_object_get(total, "elements")), 276);
    json_decref(root);
    free(text);
}
END_TEST

/* A signal after the first row. If the program was faster, it has ended normally. */
START_TEST(a_signal_keeps_finished_weights)
{
    static const sample w[] = { { "a", "F32", 2, { 300, 400 } },
                                { "b", "F32", 2, { 300, 400 } },
                                { "c", "F32", 2, { 300, 400 } },
                                { "d", "F32", 2, { 300, 400 } } };
    static const sample x[] = { { "a", "F32", 2, { 500, 400 } },
                                { "b", "F32", 2, { 500, 400 } },
                                { "c", "F32", 2, { 500, 400 } },
                                { "d", "F32", 2, { 500, 400 } } };
    static const char command[] =
        "cd %s && rm -f rc && { " DETENT "quantize w.safetensors -o out.safetensors --calibration "
        "x.safetensors quantize.rounder=gptq 2>/dev/null & echo $! > pid; wait $!; echo $? > rc; } "
        "| "
        "{ read head; read row; kill -INT $(cat pid) 2>/dev/null; cat >/dev/null; }; exit $(cat "
        "rc)";
    char whole[TEST_PATH];
    write_samples(weights, w, DT__COUNT_OF(w), 1);
    write_samples(inputs, x, DT__COUNT_OF(x), 11);
    test_join(whole, folder, "whole.safetensors");
    TEST_OK(ctx, run((call){ .recipe = "quantize: {rounder: gptq}", .to = whole }));
    int status = test_shell(NULL, command, folder);
    ck_assert(status == 130 || status == 0);
    ck_assert(test_file_exists(output) == (status == 0));
    for (int i = 0; i < 4 && status == 130; i++) status = test_shell(NULL, command, folder);
    ck_assert_int_eq(status, 0);
    ck_assert(same_file(output, whole));
}
END_TEST

Suite *test_quantize_tensors_suite(void)
{
    Suite *suite = suite_create("quantize_tensors");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 120);
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_loop_test(all, codes_of_reference_files, 0, DT__COUNT_OF(golden));
    tcase_add_test(all, tensors_of_all_kinds);
    tcase_add_test(all, many_weights);
    tcase_add_test(all, forms_hold_the_same);
    tcase_add_test(all, experts_are_weights_of_their_own);
    tcase_add_test(all, experts_by_tensor);
    tcase_add_test(all, dtypes_of_the_input_change_no_code);
    tcase_add_test(all, bytes_depend_on_the_recipe_alone);
    tcase_add_test(all, an_interrupted_call_resumes);
    tcase_add_test(all, partial_results_of_other_settings_are_redone);
    tcase_add_test(all, bad_rules_are_refused);
    tcase_add_test(all, names_are_listed_as_far_as_they_fit);
    tcase_add_test(all, ops_of_one_extent);
    tcase_add_test(all, rules_change_the_rounder);
    tcase_add_test(all, bad_inputs_are_refused);
    tcase_add_test(all, biases_are_of_models);
    tcase_add_test(all, nan_and_infinity_are_refused);
    tcase_add_test(all, bad_files_are_refused);
    tcase_add_test(all, check_finds_mistakes_in_tensor_files);
    tcase_add_test(all, damaged_files_survive);
    tcase_add_test(all, every_allocation_may_fail);
    tcase_add_test(all, the_program);
    tcase_add_test(all, a_signal_keeps_finished_weights);
    suite_add_tcase(suite, all);
    return suite;
}
