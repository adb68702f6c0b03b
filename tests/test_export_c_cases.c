/* Format c, case by case: the page, schemes of weights and activations, ops, values that are not
 * finite. */
#include "c_folder.h"
#include "models.h"

#include "core/core.h"

#include <detent/export.h>
#include <detent/experimental/layers.h>
#include <detent/experimental/ops.h>
#include <detent/experimental/ptq.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define COMPILER "cc " C_STRICT " -O0"

static dt_ctx *ctx;

static void setup(void)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = 1;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
}

static void teardown(void) { dt_ctx_free(ctx); }

/* ---- the page -------------------------------------------------------------------------------- */

static const char data[] =
    "{\"target\":\"classes\",\"input\":[12],\"axis\":0,"
    "\"mean\":[0.5,0,0,0,0,0,0,0,0,0,0,0],\"deviation\":[1,1,1,1,1,1,1,1,1,1,1,0.25],"
    "\"names\":[\"a|b\",\"<script>\",\"\\n## c*/\",\"\xc3\xa9\"]}";

START_TEST(the_page_says_what_the_file_says)
{
    static const char *const said[] = {
        "| family | mlp |\n",
        "| target | classes |\n",
        "| classes | a\\|b, \\<script\\>, \\\\u000a\\#\\# c\\*/, \xc3\xa9 |\n",
        "| mean | 0.5, 0, ",
        "| layers.0.weight | [9, 12] | int4 symmetric group 32 | int8 asymmetric per token",
        "| head.weight | [4, 9] | ",
        "| multiply-adds | 144 |\n",
        "| value | bytes | offset | from call | to call | of |\n|---|---|---|---|---|---|\n| `",
    };
    const int64_t sizes[] = { 12, 9, 4, 0 };
    const dt_mlp_options o = small_options(sizes, DT_NORM_NONE, 0);
    const dt_qat_options qat = dt_qat_defaults();
    char path[TEST_PATH], file[TEST_PATH], hash[64];
    dt_model_info info = small_info(&o), loaded;
    dt_module *m = small_model(ctx, &o), *again;
    info.data = data;
    test_folder(path);
    test_join(file, path, "model.safetensors");
    TEST_OK(ctx, dt_prepare(m, &qat));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_OK(ctx, dt_model_save(m, &info, file));
    TEST_OK(ctx, dt_model_load(ctx, file, &again, &loaded));
    ck_assert_uint_eq(strlen(loaded.hash), 16);
    test_join(path, path, "net");
    TEST_OK(ctx, dt_export(again, &loaded, "c", NULL, path, NULL));
    test_join(file, path, "README.md");
    char *page = test_read_file(file, NULL);
    snprintf(hash, sizeof hash, "| model file, `detent.xxh3` | %s |\n", loaded.hash);
    ck_assert_msg(strstr(page, hash) != NULL, "%s is not in\n%s", hash, page);
    for (int i = 0; i < DT__COUNT_OF(said); i++) {
        ck_assert_msg(strstr(page, said[i]) != NULL, "%s is not in\n%s", said[i], page);
    }
    free(page);
    dt_model_info_free(ctx, &loaded);
    dt_module_free(again);
    dt_module_free(m);
}
END_TEST

/* ---- layers and schemes ---------------------------------------------------------------------- */

/* Layers of images; of signals, whose linear layers take several rows. */
enum { IMAGES, ROWS };

static void add(dt_module *m, const char *name, dt_status s, dt_module *const *child)
{
    TEST_OK(ctx, s);
    TEST_OK(ctx, dt_module_add(m, name, *child));
}

static dt_module *images(void)
{
    const dt_conv_layer conv = { 4, 6, { 3, 3 }, true, { { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0 }, 2 } };
    const dt_conv_layer up = { 6, 4, { 2, 3 }, true, { { 2, 1 }, { 0, 1 }, { 1, 1 }, { 0 }, 1 } };
    dt_module *m, *child;
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    add(m, "conv", dt_conv2d_create(ctx, &conv, &child), &child);
    add(m, "act", dt_activation_create(ctx, "relu", &child), &child);
    add(m, "up", dt_conv_transpose2d_create(ctx, &up, &child), &child);
    add(m, "flat", dt_flatten_create(ctx, &child), &child);
    add(m, "head", dt_linear_create(ctx, 4 * 10 * 4, 5, true, &child), &child);
    return m;
}

static dt_module *rows(void)
{
    const dt_conv_layer conv = { 8, 5, { 3, 1 }, true, { { 1, 1 }, { 1, 0 }, { 1, 1 }, { 0 }, 1 } };
    dt_module *m, *child;
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    add(m, "conv", dt_conv1d_create(ctx, &conv, &child), &child);
    add(m, "act", dt_activation_create(ctx, "relu", &child), &child);
    add(m, "wide", dt_linear_create(ctx, 20, 37, true, &child), &child);
    add(m, "head", dt_linear_create(ctx, 37, 3, false, &child), &child);
    return m;
}

/* Codes, scales, zero points and, where they may be given, groups of columns at random. */
static dt_status deal(void *user, const char *name, const dt_tensor *master,
                      const dt_quant_spec *quant, const dt_code_rows *to)
{
    dt__stream *s = user;
    const int64_t rows_of = dt_dim(master, 0), columns = dt_count(master) / rows_of;
    const int64_t size = quant->granularity == DT_PER_GROUP ? quant->group_size : columns;
    const int64_t blocks = rows_of * dt__ceil_div(columns, dt__min_i64(size, columns));
    const int least = -(1 << (quant->bits - 1));
    (void)name;
    for (int64_t i = 0; i < rows_of * columns; i++) {
        to->codes[i] = (int8_t)(least + (int)dt__random_below(s, 1ull << quant->bits));
    }
    for (int64_t i = 0; i < blocks; i++) {
        to->scale[i] = (float)(1 + dt__random_below(s, 1000)) * 0x1p-12f;
        if (to->zero_point == NULL) continue;
        to->zero_point[i] = (int8_t)(least + (int)dt__random_below(s, 1ull << quant->bits));
    }
    for (int64_t i = 0; to->group_of != NULL && i < to->op_groups * columns; i++) {
        int32_t *other =
            to->group_of + i / columns * columns + (int64_t)dt__random_below(s, (uint64_t)columns);
        const int32_t swapped = *other;
        *other = to->group_of[i];
        to->group_of[i] = swapped;
    }
    return DT_OK;
}

enum { NEAREST, DEALT, BY_PTQ };

typedef struct scheme {
    const char *name;
    int preset;
    dt_quant_patch weight, activation;
    int rounder;
    bool simulated;
} scheme;

#define BITS(n) .quant.bits = (n), .has_bits = true
#define SCHEME(s) .quant.scheme = DT_SCHEME_##s, .has_scheme = true
#define BY(g) .quant.granularity = DT_PER_##g, .has_granularity = true
#define GROUPS(n) BY(GROUP), .quant.group_size = (n), .has_group_size = true
#define SCALES(s) .quant.scale_dtype = DT_SCALE_##s, .has_scale_dtype = true
#define RANGE(r) .quant.range = DT_RANGE_##r, .has_range = true
#define OBSERVER(o) .quant.observer = DT_OBSERVER_##o, .has_observer = true
#define UNSIGNED .quant.is_unsigned = true, .has_unsigned = true
#define ZEROS(n)                                                                                   \
    {                                                                                              \
        "zero points, " #n " bits", .weight = { SCHEME(ASYMMETRIC), BITS(n), GROUPS(8) }           \
    }

static const scheme schemes[] = {
    ZEROS(2),
    ZEROS(3),
    ZEROS(4),
    ZEROS(5),
    ZEROS(6),
    ZEROS(7),
    ZEROS(8),
    { "q4_0", .weight = { SCHEME(Q4_0), BITS(4), GROUPS(32) } },
    { "no clip, 2 bits", .weight = { SCHEME(SYMMETRIC_NO_CLIP), BITS(2), GROUPS(8) } },
    { "no clip, 8 bits", .weight = { SCHEME(SYMMETRIC_NO_CLIP), BITS(8), BY(TENSOR) } },
    { "f16", .weight = { SCALES(F16) }, .activation = { SCALES(F16) } },
    { "bf16", .weight = { SCALES(BF16) }, .activation = { SCALES(BF16) } },
    { "symmetric, f16", .activation = { SCHEME(SYMMETRIC), SCALES(F16), BITS(6) } },
    { "no clip, bf16", .activation = { SCHEME(SYMMETRIC_NO_CLIP), SCALES(BF16), BITS(3) } },
    { "unsigned inputs", .activation = { UNSIGNED, BITS(4) } },
    { "int4-int4", .preset = DT_INT4_INT4 },
    { "int4-int4, unsigned", .preset = DT_INT4_INT4, .activation = { UNSIGNED } },
    { "int4-int4, unsigned, no shift", .preset = DT_INT4_INT4, .weight = { BY(TENSOR) },
      .activation = { UNSIGNED, .has_shift = true } },
    { "int4-weight", .preset = DT_INT4_WEIGHT },
    { "int4-weight, groups of 8", .preset = DT_INT4_WEIGHT, .weight = { GROUPS(8) } },
    { "int4-weight, zero points", .preset = DT_INT4_WEIGHT,
      .weight = { SCHEME(ASYMMETRIC), GROUPS(8) } },
    { "int4-weight, 2 bits", .preset = DT_INT4_WEIGHT, .weight = { BITS(2), GROUPS(16) } },
    { "int4-weight, 7 bits, f16", .preset = DT_INT4_WEIGHT, .weight = { BITS(7), SCALES(F16) } },
    { "static", .preset = DT_INT8_STATIC_INT8_WEIGHT },
    { "minmax", .preset = DT_INT8_STATIC_INT8_WEIGHT, .activation = { OBSERVER(MINMAX) } },
    { "percentile", .preset = DT_INT8_STATIC_INT8_WEIGHT,
      .activation = { OBSERVER(PERCENTILE), .quant.percentile = 90, .has_percentile = true } },
    { "mse", .preset = DT_INT8_STATIC_INT8_WEIGHT, .activation = { OBSERVER(MSE) } },
    { "static, symmetric, 4 bits", .preset = DT_INT8_STATIC_INT8_WEIGHT,
      .weight = { BITS(3), GROUPS(16) }, .activation = { SCHEME(SYMMETRIC), BITS(4) } },
    { "static weights", .weight = { RANGE(STATIC), BITS(5), GROUPS(8) } },
    { "simulated", .weight = { GROUPS(8) }, .simulated = true },
    { "g_idx", .weight = { GROUPS(8) }, .rounder = DEALT },
    { "g_idx, 8 bits", .weight = { GROUPS(16), BITS(8) }, .rounder = DEALT },
    { "g_idx, 2 bits", .weight = { GROUPS(8), BITS(2) }, .rounder = DEALT },
    { "g_idx, zero points", .weight = { GROUPS(8), SCHEME(ASYMMETRIC) }, .rounder = DEALT },
    { "g_idx, int4-weight", .preset = DT_INT4_WEIGHT, .weight = { GROUPS(8) }, .rounder = DEALT },
    { "g_idx, simulated", .weight = { GROUPS(8) }, .rounder = DEALT, .simulated = true },
    { "gptq, order group", .weight = { GROUPS(8) }, .rounder = BY_PTQ },
};

static dt_status lend(void *user, int64_t i, dt_tensor **x)
{
    (void)i;
    *x = user;
    return DT_OK;
}

static void convert(dt_module *m, const scheme *k, dt_tensor *x)
{
    dt__stream random = dt__stream_of(7, DT__FOR_INIT);
    dt_ptq_options ptq = dt_ptq_defaults();
    if (k->rounder == BY_PTQ) {
        ptq.rounding.rounder = DT_ROUND_GPTQ;
        ptq.rounding.rounding.order = DT_ORDER_GROUP;
        TEST_OK(ctx, dt_ptq(m, NULL, &(dt_calibration){ 1, lend, x }, &ptq, NULL));
        return;
    }
    const dt_rounder dealer = { "dealer", deal, &random };
    TEST_EACH(dt_convert(m, k->rounder == DEALT ? &dealer : NULL, NULL) == DT_OK, "%s: %s", k->name,
              dt_error(ctx));
}

/* A batch in training mode initializes learned ranges and is observed. */
static void observe(dt_module *m, dt_tensor *x)
{
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    dt_train(m, true);
    if (dt_is_observed(m)) TEST_OK(ctx, dt_observe(m, true));
    dt_forward(t, m, x);
    TEST_OK(ctx, dt_tape_status(t));
    if (dt_is_observed(m)) TEST_OK(ctx, dt_observe(m, false));
    dt_train(m, false);
    dt_tape_free(t);
}

static const int64_t extents[][4] = { [IMAGES] = { 3, 4, 5, 4 }, [ROWS] = { 3, 8, 20 } };

static dt_module *quantized(const scheme *k, int layers, dt_tensor **x)
{
    dt_qat_options o = dt_qat_defaults();
    dt_module *m = layers == IMAGES ? images() : rows();
    o.preset = k->preset;
    o.weight = k->weight;
    o.activation = k->activation;
    if (k->simulated) o.forward = DT_FORWARD_SIMULATED;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, layers == IMAGES ? 4 : 3, extents[layers], x));
    TEST_OK(ctx, dt_fill_normal(*x, 0.2, 1));
    TEST_EACH(dt_prepare(m, &o) == DT_OK, "%s: %s", k->name, dt_error(ctx));
    observe(m, *x);
    convert(m, k, *x);
    return m;
}

/* Under a sanitizer each scheme is tried with either images or rows, as many of both. */
static const test_draws kinds_of_layers = { .usual = 1, .sanitized = 2 };

START_TEST(schemes_have_the_same_bits)
{
    const int64_t step = test_count(kinds_of_layers);
    for (int i = _i; i < DT__COUNT_OF(schemes); i += 2) {
        for (int layers = IMAGES; layers <= ROWS; layers++) {
            if ((i / 2 + layers) % step != 0) continue;
            dt_tensor *x;
            dt_module *m = quantized(&schemes[i], layers, &x);
            c_check_model(m, x, COMPILER, schemes[i].name);
            dt_module_free(m);
            dt_tensor_free(x);
        }
    }
}
END_TEST

/* ---- other values than those of the self-test ------------------------------------------------ */

/* NAME_run fails where dt_forward does; else the bits are the same. */
static void compare(dt_module *m, dt_tensor *x, c_loaded *l, const char *what)
{
    dt_tape *t;
    float y[64];
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    dt_train(m, false);
    const dt_tensor *want = dt_forward(t, m, x);
    const dt_status s = dt_tape_status(t);
    ck_assert(s == DT_OK || s == DT_ERR_NUMERIC);
    const int failed = l->run(dt_data(x), y, l->arena);
    TEST_EACH((failed != 0) == (s == DT_ERR_NUMERIC), "%s: run gives %d, dt_forward %s", what,
              failed, s == DT_OK ? "succeeds" : dt_error(ctx));
    for (int64_t i = 0; s == DT_OK && i < dt_count(want); i++) {
        const float v = ((const float *)dt_data(want))[i];
        TEST_EACH((isnan(v) && isnan(y[i])) || memcmp(&v, &y[i], sizeof v) == 0,
                  "%s: output %d is %g, not %g", what, (int)i, (double)y[i], (double)v);
    }
    dt_tape_free(t);
}

/* The self-test's values have few bits, so that sums of many are exact. */
static void check_uneven(dt_module *m, dt_tensor *x, const char *what)
{
    char path[TEST_PATH];
    c_new_folder(path);
    TEST_EACH(c_export(&(c_subject){ m, &x, 1, 1, "net" }, NULL, path) == DT_OK, "%s: %s", what,
              dt_error(ctx));
    c_loaded l = c_load(path, "cc -O1");
    TEST_OK(ctx, dt_fill_normal(x, 0.2, 1));
    compare(m, x, &l, what);
    c_unload(&l);
}

/* ---- long groups ----------------------------------------------------------------------------- */

static dt_module *wide_model(int64_t columns, const dt_quant_patch *weight, int preset)
{
    dt_qat_options o = dt_qat_defaults();
    dt_module *m, *child;
    o.weight = *weight;
    o.preset = preset;
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    add(m, "head", dt_linear_create(ctx, columns, 2, true, &child), &child);
    TEST_OK(ctx, dt_prepare(m, &o));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    return m;
}

START_TEST(long_groups_are_summed_in_pieces)
{
    static const struct {
        int64_t columns;
        dt_quant_patch weight;
        int preset;
        const char *why; /* why it is refused; NULL: it is not */
    } cases[] = {
        { 70000, { BITS(8), BY(CHANNEL) }, 0, NULL },
        { 70001, { BITS(4), BY(TENSOR) }, 0, NULL },
        { 40001, { BITS(2), BY(CHANNEL) }, 0, NULL },
        { 140000, { BITS(8), GROUPS(65536) }, 0, NULL },
        { 70000, { BITS(8), BY(CHANNEL) }, DT_INT4_WEIGHT, NULL },
        { 66000, { BITS(8), BY(CHANNEL), SCHEME(ASYMMETRIC) }, DT_INT4_WEIGHT, NULL },
        { 90000, { BITS(8), GROUPS(40000) }, 0, "groups of 40000 columns, in rows of 90000" },
    };
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        char what[64], path[TEST_PATH];
        dt_module *m = wide_model(cases[i].columns, &cases[i].weight, cases[i].preset);
        const int64_t dims[2] = { 1, cases[i].columns };
        dt_tensor *x;
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, dims, &x));
        snprintf(what, sizeof what, "a row of %lld", (long long)cases[i].columns);
        if (cases[i].why == NULL) {
            check_uneven(m, x, what);
        } else {
            c_new_folder(path);
            TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, cases[i].why,
                       c_export(&(c_subject){ m, &x, 1, 1, "net" }, NULL, path));
        }
        dt_tensor_free(x);
        dt_module_free(m);
    }
}
END_TEST

/* ---- ops ------------------------------------------------------------------------------------- */

/* A module of one op; values are made uneven first, as those of the self-test have few bits. */
typedef struct op_case {
    const char *name;
    int n, rank[2];
    int64_t dims[2][5];
    dt_tensor *(*make)(dt_tape *t, dt_tensor *const *x);
} op_case;

static dt_tensor *matmul(dt_tape *t, dt_tensor *const *x) { return dt_matmul(t, x[0], x[1]); }

static dt_tensor *squared(dt_tape *t, dt_tensor *const *x)
{
    return dt_matmul(t, x[0], dt_transpose(t, x[0], -1, -2));
}

static dt_tensor *sum_of(dt_tape *t, dt_tensor *x, dt_ints dims)
{
    return dt_sum(t, x, &(dt_reduce_options){ .dims = dims });
}

static dt_tensor *sum_last(dt_tape *t, dt_tensor *const *x)
{
    return sum_of(t, x[0], (dt_ints){ 1, { -1 } });
}

static dt_tensor *sum_middle(dt_tape *t, dt_tensor *const *x)
{
    return sum_of(t, x[0], (dt_ints){ 1, { 1 } });
}

static dt_tensor *mean_planes(dt_tape *t, dt_tensor *const *x)
{
    return dt_global_avg_pool2d(t, x[0]);
}

static dt_tensor *cut(dt_tape *t, dt_tensor *x, int64_t dim, int64_t from, int64_t to)
{
    const dt_slice_options o = { { 1, { dim } }, { 1, { from } }, { 1, { to } }, { 0, { 0 } } };
    return dt_slice(t, x, &o);
}

/* The first number of the first column times its last one: a slice from 0 on with gaps between its
 * elements, and a product of one element. */
static dt_tensor *ends(dt_tape *t, dt_tensor *const *x)
{
    dt_tensor *column = cut(t, x[0], 2, 0, 1);
    return dt_mul(t, cut(t, column, 1, 0, 1), cut(t, column, 1, -1, 3));
}

static const op_case op_cases[] = {
    { "ends", 1, { 3 }, { { 1, 3, 2 } }, ends },
    { "matmul", 2, { 3, 3 }, { { 1, 5, 33 }, { 1, 33, 4 } }, matmul },
    { "matmul, broadcast", 2, { 5, 5 }, { { 1, 1, 3, 4, 7 }, { 1, 2, 1, 7, 5 } }, matmul },
    { "matmul of one", 1, { 4 }, { { 1, 2, 3, 17 } }, squared },
    { "a long sum", 1, { 3 }, { { 1, 2, 40001 } }, sum_last },
    { "a tall sum", 1, { 3 }, { { 1, 400, 70 } }, sum_middle },
    { "large planes", 1, { 4 }, { { 1, 3, 150, 120 } }, mean_planes },
};

static void run_op(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                   int n_out)
{
    const op_case *k = *(const op_case *const *)dt_module_state(m);
    dt_tensor *x[2] = { NULL, NULL };
    (void)n_out;
    for (int i = 0; i < n_in; i++) x[i] = dt_exp(t, dt_mul(t, in[i], in[i]));
    out[0] = k->make(t, x);
}

static const dt_module_type op_type = { .name = "op", .forward = run_op };

START_TEST(ops_have_the_same_bits)
{
    for (int i = 0; i < DT__COUNT_OF(op_cases); i++) {
        const op_case *k = &op_cases[i];
        char path[TEST_PATH];
        dt_tensor *x[2] = { NULL, NULL };
        dt_module *m;
        TEST_OK(ctx, dt_module_create(ctx, &op_type, sizeof k, &m));
        *(const op_case **)dt_module_state(m) = k;
        for (int n = 0; n < k->n; n++) {
            TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, k->rank[n], k->dims[n], &x[n]));
        }
        const c_subject o = { m, x, k->n, 1, "net" };
        c_new_folder(path);
        TEST_EACH(c_export(&o, NULL, path) == DT_OK, "%s: %s", k->name, dt_error(ctx));
        c_check_folder(path, "cc " C_STRICT " -O1", k->name);
        for (int n = 0; n < k->n; n++) dt_tensor_free(x[n]);
        dt_module_free(m);
    }
}
END_TEST

/* ---- values that are not finite -------------------------------------------------------------- */

static const float strange[] = { NAN,   INFINITY, -INFINITY, 3.4e38f,   -3.4e38f, 3e38f,
                                 2e38f, -2e38f,   1.7e38f,   -1.69e38f, 1e38f,    3e30f,
                                 9e6f,  1e-38f,   1e-45f,    0 };

static const scheme numeric[] = {
    { "dynamic", .weight = { BITS(4) } },
    { "dynamic, f16", .activation = { SCALES(F16) } },
    { "dynamic, bf16", .activation = { SCALES(BF16) } },
    { "dynamic, symmetric", .activation = { SCHEME(SYMMETRIC) } },
    { "dynamic, no clip, bf16", .activation = { SCHEME(SYMMETRIC_NO_CLIP), SCALES(BF16) } },
    { "dynamic, zero points", .weight = { SCHEME(ASYMMETRIC), GROUPS(8) } },
    { "static", .preset = DT_INT8_STATIC_INT8_WEIGHT },
    { "learned", .preset = DT_INT4_INT4 },
    { "floats times codes", .preset = DT_INT4_WEIGHT },
    { "floats times codes with zero points", .preset = DT_INT4_WEIGHT,
      .weight = { SCHEME(ASYMMETRIC), GROUPS(8) } },
};

START_TEST(numeric_errors_are_reported)
{
    const scheme *k = &numeric[_i];
    char path[TEST_PATH], what[128];
    dt_tensor *batch, *x;
    dt_module *m = quantized(k, ROWS, &batch);
    const int64_t dims[3] = { 1, 8, 20 };
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 3, dims, &x));
    c_new_folder(path);
    TEST_OK(ctx, c_export(&(c_subject){ m, &x, 1, 1, "net" }, NULL, path));
    static const char *const compilers[] = { "cc -O1", "cc -O1 -DFMA_BY_INTEGERS" };
    for (int cc = 0; cc < DT__COUNT_OF(compilers); cc++) {
        c_loaded l = c_load(path, compilers[cc]);
        float y[64];
        ck_assert_int_eq(l.run(dt_data(x), y, (char *)l.arena + 4), 2);
        for (int i = 0; i < 2 * DT__COUNT_OF(strange); i++) {
            const float v = strange[i / 2];
            TEST_OK(ctx, dt_fill_normal(x, 0, 1));
            float *at = dt_data_mut(x);
            at[37] = v;
            if (i % 2 != 0) at[38] = -0.99f * v;
            snprintf(what, sizeof what, "%s, %s, %g%s", k->name, compilers[cc], (double)v,
                     i % 2 != 0 ? " and its negative" : "");
            compare(m, x, &l, what);
        }
        c_unload(&l);
    }
    dt_tensor_free(x);
    dt_tensor_free(batch);
    dt_module_free(m);
}
END_TEST

Suite *test_export_c_cases_suite(void)
{
    Suite *s = suite_create("export_c_cases");
    TCase *c = tcase_create("cases");
    tcase_set_timeout(c, 300);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, the_page_says_what_the_file_says);
    tcase_add_loop_test(c, schemes_have_the_same_bits, 0, 2);
    tcase_add_test(c, long_groups_are_summed_in_pieces);
    tcase_add_test(c, ops_have_the_same_bits);
    tcase_add_loop_test(c, numeric_errors_are_reported, 0, DT__COUNT_OF(numeric));
    suite_add_tcase(s, c);
    return s;
}
