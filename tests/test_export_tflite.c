/* Format tflite: random networks and each op by an interpreter that shares no code with the writer,
 * integer networks bit for bit, what is refused, failing allocations and writes. With
 * DETENT_EXPORTS=FOLDER the files stay there, N.tflite beside N.in.safetensors and
 * N.out.safetensors, for scripts/exports/tflite_check.py. */
#include "models.h"
#include "random_nets.h"
#include "testing.h"
#include "tflite_files.h"

#include "core/tensor.h"
#include "io/tflite/lite.h"

#include <detent/experimental/device.h>
#include <detent/experimental/ops.h>
#include <detent/optim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NEAR 5e-2  /* of the largest output: a code may flip, of few */
#define CLOSE 2e-5 /* without */

static const test_draws draws = { .usual = 60, .sanitized = 8 };

/* ---- random networks ------------------------------------------------------------------------- */

static void train_once(dt_module *m, dt_tensor *x)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_optimizer *o;
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    dt_train(m, true);
    dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_backward(t, dt_mean(t, dt_mul(t, y, y), NULL), NULL));
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.01));
    dt_zero_grad(m);
    dt_optimizer_free(o);
    dt_tape_free(t);
}

/* What LiteRT supports: a scale for each channel, 4 or 7 bits, or 8 without -128; every fourth
 * network stays float. */
static dt_qat_options settings(uint64_t seed)
{
    static const int64_t bits[] = { 7, 4, 4, 8, 4, 4 };
    dt_qat_options o = dt_qat_defaults();
    o.weight.quant.granularity = DT_PER_CHANNEL;
    o.weight.has_granularity = true;
    o.weight.quant.bits = bits[seed % 6];
    o.weight.has_bits = true;
    o.weight.quant.scheme = DT_SCHEME_NARROW;
    o.weight.has_scheme = bits[seed % 6] == 8;
    return o;
}

/* An mlp reads an image as a row. */
static dt_tensor *input_of(dt_ctx *own, const random_net *d)
{
    dt_tensor *x = random_net_input(own, d), *rows;
    if (d->family == NULL || strcmp(d->family->name, "mlp") != 0) return x;
    const int64_t dims[] = { x->dims[0], x->count / x->dims[0] };
    TEST_OK(own, dt_tensor_from(own, DT_F32, 2, dims, dt_data(x), &rows));
    dt_tensor_free(x);
    return rows;
}

/* Whether a code has flipped. */
static bool check_network(const random_net *d, const char *folder, bool keep)
{
    char path[TEST_PATH], name[64];
    dt_ctx_options options = dt_ctx_defaults();
    dt_ctx *ctx;
    options.seed = d->seed;
    options.threads = 1;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    dt_module *m = random_net_create(ctx, d);
    dt_tensor *x = input_of(ctx, d);
    bool coded = d->seed % 4 != 0;
    const dt_qat_options qat = settings(d->seed);
    for (int i = 0; i < d->n && d->family == NULL; i++) { /* those of groups are floats */
        const random_layer *l = &d->layers[i];
        coded = coded && !(l->transposed && l->conv.conv.groups > 1);
    }
    if (d->float_step) train_once(m, x);
    if (coded) {
        TEST_OK(ctx, dt_prepare(m, &qat));
        train_once(m, x);
        TEST_OK(ctx, dt_convert(m, NULL, NULL));
    }
    const dt_model_info info = { .family = d->family, .options = &d->options };
    tflite_subject s = { .m = m, .info = d->family == NULL ? NULL : &info, .x = &x, .n_in = 1 };
    snprintf(name, sizeof name, "%llu", (unsigned long long)d->seed);
    test_join(path, folder, name);
    const double apart = tflite_check(&s, path, keep);
    TEST_EACH(apart <= (coded ? NEAR : CLOSE), "network %llu: %g apart",
              (unsigned long long)d->seed, apart);
    dt_tensor_free(x);
    dt_module_free(m);
    dt_ctx_free(ctx);
    return apart > CLOSE;
}

#define PARTS 4

START_TEST(networks_are_written)
{
    static const char *const families[] = { "mlp", "cnn", "resnet", "unet" };
    char folder[TEST_PATH];
    const char *kept = getenv("DETENT_EXPORTS"), *first = getenv("DETENT_SEED");
    const uint64_t count = (uint64_t)test_networks(draws);
    const uint64_t from = first != NULL ? strtoull(first, NULL, 10) : 1;
    int flipped = 0, all = 0;
    test_folder(folder);
    for (uint64_t i = (uint64_t)_i; i < count; i += PARTS) {
        const random_net d = i % 2 == 0 ? random_net_of(from + i)
                                        : random_net_of_family(from + i, families[i / 2 % 4]);
        flipped += check_network(&d, kept != NULL ? kept : folder, kept != NULL);
        all++;
    }
    TEST_EACH(3 * flipped <= all + 2, "codes flip in %d of %d networks", flipped, all);
}
END_TEST

/* ---- networks of integers -------------------------------------------------------------------- */

static dt_ctx *ctx;
static void open_ctx(void) { TEST_OK(NULL, dt_ctx_create(&ctx, NULL)); }
static void close_ctx(void) { dt_ctx_free(ctx); }

enum { CONV, DEEP, UP, GROUPED, HEAD, LAYERS };
enum { RANGES = 9 };

/* A user-defined module of device ops, whose children hold the weights. */
typedef struct integers {
    dt_module *child[LAYERS];
    dt_tensor *scale[RANGES], *zero[RANGES];
    int n;
} integers;

static dt_device_range next_range(integers *s)
{
    const dt_device_range r = { .scale = s->scale[s->n], .zero_point = s->zero[s->n] };
    s->n++;
    return r;
}

static dt_tensor *conv(dt_tape *t, integers *s, int i, dt_tensor *x, dt_device_conv_options o)
{
    dt_module *m = s->child[i];
    const dt_device_range r = next_range(s);
    dt_tensor *w = dt_param(m, "weight"), *b = dt_param(m, "bias");
    return i == UP ? dt_device_conv_transpose2d(t, x, w, b, &r, &o)
                   : dt_device_conv2d(t, x, w, b, &r, &o);
}

static void run_integers(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                         int n_out)
{
    integers *s = dt_module_state(m);
    dt_device_conv_options o = { .conv = dt_conv_defaults(), .activation = DT_ACT_RELU };
    dt_pool_options window = dt_pool_defaults();
    const dt_device_zip_options clamped = { .activation = DT_ACT_RELU6 }, plain = { 0 };
    const dt_device_linear_options one = { .one_scale = true };
    const int64_t flat[] = { in[0]->dims[0], 0 };
    (void)n_in;
    (void)n_out;
    s->n = 0;
    dt_device_range r = next_range(s);
    dt_tensor *x = dt_device_quantize(t, in[0], &r);
    o.conv.padding[0] = o.conv.padding[1] = 1;
    o.conv.stride[0] = 2; /* SAME has another padding here: a PAD stands in front */
    dt_tensor *a = conv(t, s, CONV, x, o);
    o.conv = dt_conv_defaults();
    o.conv.padding[0] = o.conv.padding[1] = 1;
    o.conv.groups = 4;
    o.activation = DT_ACT_NONE;
    dt_tensor *b = conv(t, s, DEEP, a, o);
    r = next_range(s);
    a = dt_device_add(t, a, b, &r, &clamped);
    o.conv = dt_conv_defaults();
    o.conv.stride[0] = o.conv.stride[1] = 2;
    o.conv.padding[1] = 1;
    a = conv(t, s, UP, a, o);
    o.conv = dt_conv_defaults();
    o.conv.groups = 2;
    o.activation = DT_ACT_RELU6;
    a = conv(t, s, GROUPED, a, o);
    r = next_range(s);
    a = dt_device_mul(t, a, a, &r, &plain);
    a = dt_device_max_pool2d(t, a, &window);
    a = dt_device_concat(t, (dt_tensor *const[]){ a, a }, 2, 1);
    window.kernel[0] = 3;
    window.stride[0] = window.stride[1] = 1;
    a = dt_device_avg_pool2d(t, a, &window);
    if (a != NULL) {
        int64_t dims[] = { flat[0], a->count / flat[0] };
        a = dt_device_reshape(t, a, 2, dims);
    }
    r = next_range(s);
    dt_module *head = s->child[HEAD];
    a = dt_device_linear(t, a, dt_param(head, "weight"), dt_param(head, "bias"), &r, &one);
    out[0] = dt_device_dequantize(t, dt_device_softmax(t, a));
}

static const dt_module_type integers_type = { .name = "integers", .forward = run_integers };

static dt_conv_layer layer_of(int64_t in, int64_t out, int64_t rows, int64_t columns)
{
    return (dt_conv_layer){
        .in = in, .out = out, .kernel = { rows, columns }, .bias = true, .conv = dt_conv_defaults()
    };
}

static void make_children(integers *s)
{
    dt_conv_layer l = layer_of(3, 4, 3, 3);
    TEST_OK(ctx, dt_conv2d_create(ctx, &l, &s->child[CONV]));
    l = layer_of(4, 4, 3, 3);
    l.conv.groups = 4;
    TEST_OK(ctx, dt_conv2d_create(ctx, &l, &s->child[DEEP]));
    l = layer_of(4, 6, 2, 3);
    TEST_OK(ctx, dt_conv_transpose2d_create(ctx, &l, &s->child[UP]));
    l = layer_of(6, 4, 1, 1);
    l.conv.groups = 2;
    TEST_OK(ctx, dt_conv2d_create(ctx, &l, &s->child[GROUPED]));
    TEST_OK(ctx, dt_linear_create(ctx, 8 * 2 * 3, 5, true, &s->child[HEAD]));
}

/* 8 bits, or 4 where they exist; converted. */
static dt_module *make_integers(int64_t bits)
{
    static const float scales[RANGES] = { 0.02F, 0.03F, 0.02F, 0.04F, 0.02F, 0.03F, 0.05F, 0.06F };
    static const int8_t zeros[RANGES] = { 3, -128, -5, -100, -7, -128, -90, 10 };
    static const char *const names[] = { "conv", "deep", "up", "grouped", "head" };
    dt_module *m;
    dt_qat_options o = dt_qat_defaults();
    TEST_OK(ctx, dt_module_create(ctx, &integers_type, sizeof(integers), &m));
    integers *s = dt_module_state(m);
    make_children(s);
    for (int i = 0; i < LAYERS; i++) TEST_OK(ctx, dt_module_add(m, names[i], s->child[i]));
    for (int i = 0; i < RANGES; i++) {
        char name[2][24];
        const int64_t one = 1;
        dt_tensor *scale, *zero;
        snprintf(name[0], sizeof name[0], "scale%d", i);
        snprintf(name[1], sizeof name[1], "zero%d", i);
        TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 1, &one, &scales[i], &scale));
        TEST_OK(ctx, dt_tensor_from(ctx, DT_I8, 1, &one, &zeros[i], &zero));
        TEST_OK(ctx, dt_module_add_buffer(m, name[0], scale));
        TEST_OK(ctx, dt_module_add_buffer(m, name[1], zero));
        s->scale[i] = scale;
        s->zero[i] = zero;
    }
    o.preset = DT_INT4_WEIGHT;
    o.weight.quant.granularity = DT_PER_CHANNEL;
    o.weight.quant.bits = bits;
    o.weight.has_granularity = o.weight.has_bits = true;
    o.n_rules = 1;
    o.rules[0] = (dt_qat_rule){ .match = "head" };
    o.rules[0].weight.quant.granularity = DT_PER_TENSOR;
    o.rules[0].weight.has_granularity = true;
    TEST_OK(ctx, dt_prepare(m, &o));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    return m;
}

/* Inputs and outputs of the file are codes: nobody else reads them as floats. */
static void check_ends(const char *stem)
{
    char path[TEST_PATH + 8];
    dt__vlite *v;
    size_t n;
    snprintf(path, sizeof path, "%s.tflite", stem);
    char *bytes = test_read_file(path, &n);
    TEST_OK(ctx, dt__vlite_open(ctx, path, &(dt__span){ bytes, n }, NULL, &v));
    ck_assert_int_eq(dt__vlite_input(v, 0)->type, DT__VLITE_I8);
    ck_assert_int_eq(dt__vlite_output(v, 0)->type, DT__VLITE_I8);
    dt__vlite_close(v);
    free(bytes);
}

/* The interpreter finds the same bytes; TFLite Micro too, by scripts/exports/tflite_check.py. */
START_TEST(integers_have_the_same_bytes)
{
    static const int64_t dims[] = { 6, 3, 7, 5 };
    char folder[TEST_PATH], path[TEST_PATH];
    const char *kept = getenv("DETENT_EXPORTS");
    dt_module *m = make_integers(_i == 0 ? 7 : 4);
    dt_tensor *x;
    test_folder(folder);
    test_join(path, kept != NULL ? kept : folder, _i == 0 ? "integers8" : "integers4");
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0.1, 1));
    tflite_subject s = { .m = m, .x = &x, .n_in = 1 };
    ck_assert(tflite_check(&s, path, kept != NULL) == 0);
    ck_assert(s.summary.exact);
    check_ends(path);
    ck_assert_int_eq(s.summary.integer_products, LAYERS);
    ck_assert_int_eq(s.summary.float_products, 0);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* ---- what can go wrong ----------------------------------------------------------------------- */

static const int64_t sizes[] = { 12, 9, 4, 0 };

static dt_status export_with(dt_ctx *own, const char *path, const dt_qat_options *qat)
{
    const dt_mlp_options options = small_options(sizes, DT_NORM_NONE, 0);
    const dt_model_info info = small_info(&options);
    dt_module *m = NULL;
    dt_status s = info.family->create(own, &options, &m);
    if (s == DT_OK) s = dt_prepare(m, qat);
    if (s == DT_OK) s = dt_export_check(m, &info, "tflite");
    if (s == DT_OK) s = dt_convert(m, NULL, NULL);
    if (s == DT_OK) s = dt_export(m, &info, "tflite", NULL, path, NULL);
    dt_module_free(m);
    return s;
}

static dt_status export_small(dt_ctx *own, void *path)
{
    const dt_qat_options qat = settings(1);
    test_remove(path);
    const dt_status s = export_with(own, path, &qat);
    TEST_EACH((s == DT_OK) == test_file_exists(path), "%s, and a file", dt_status_name(s));
    return s;
}

START_TEST(every_allocation)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "small.tflite");
    ck_assert_int_gt(test_every_allocation(export_small, path), 100);
}
END_TEST

START_TEST(a_full_disk)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "small.tflite");
    if (!test_limit_files(500)) return;
    const dt_status s = export_small(ctx, path);
    test_limit_files(-1);
    ck_assert_int_eq(s, DT_ERR_IO);
    ck_assert(!test_file_exists(path));
}
END_TEST

/* Each before training. */
START_TEST(what_cannot_be_expressed)
{
    static const struct {
        dt_qat_options qat;
        const char *says;
    } cases[] = {
        { { .preset = DT_INT8_DYNAMIC_INT4_WEIGHT,
            .weight = { .quant.group_size = 8, .has_group_size = true } },
          "groups of 8 columns; LiteRT requires a multiple of 32" },
        { { .preset = DT_INT8_DYNAMIC_INT8_WEIGHT }, "codes of 8 bits may be -128" },
        { { .preset = DT_INT8_STATIC_INT8_WEIGHT }, "(range: dynamic, which qat.target" },
        { { .preset = DT_INT4_INT4 }, "(range: dynamic, which qat.target" },
        { { .preset = DT_INT8_DYNAMIC_INT4_WEIGHT,
            .weight = { .quant.scheme = DT_SCHEME_ASYMMETRIC, .has_scheme = true } },
          "(scheme: symmetric)" },
        { { .preset = DT_INT8_DYNAMIC_INT4_WEIGHT,
            .activation = { .quant.bits = 6, .has_bits = true } },
          "in another way than LiteRT's" },
        { { .preset = DT_NVFP4_NVFP4 }, "in blocks of nvfp4, which LiteRT does not have" },
        { { .preset = DT_MXFP8_MXFP4 }, "in blocks of mxfp" },
    };
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "small.tflite");
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        dt_qat_options o = dt_qat_defaults();
        o.preset = cases[i].qat.preset;
        o.weight = cases[i].qat.weight;
        o.activation = cases[i].qat.activation;
        TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, cases[i].says, export_with(ctx, path, &o));
        ck_assert(!test_file_exists(path));
    }
}
END_TEST

static void run_named(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                      int n_out)
{
    (void)m;
    (void)n_in;
    (void)n_out;
    out[0] = dt_add(t, in[0], in[1]);
}

static const dt_module_type named_type = { .name = "named", .forward = run_named };

START_TEST(hostile_names)
{
    static const char *const given[] = { "a:b \"\n", "a_b__\x7f" };
    char folder[TEST_PATH], path[TEST_PATH];
    dt_trace_input in[2];
    dt_export_summary summary;
    dt_module *m;
    dt_trace *t;
    size_t n;
    test_folder(folder);
    test_join(path, folder, "names.tflite");
    TEST_OK(ctx, dt_module_create(ctx, &named_type, 0, &m));
    for (int i = 0; i < 2; i++) {
        in[i] = (dt_trace_input){ .name = given[i], .dtype = DT_F32, .rank = 2, .dims = { 1, 3 } };
    }
    TEST_OK(ctx,
            dt_trace_create(m,
                            &(dt_trace_options){ .input = in,
                                                 .n_inputs = 2,
                                                 .becomes = dt_exporter_named("tflite")->becomes },
                            &t));
    const dt_export_options o = dt_export_defaults();
    const dt_export_call call = {
        .ctx = ctx, .m = m, .trace = t, .options = &o, .path = path, .summary = &summary
    };
    TEST_OK(ctx, dt_exporter_named("tflite")->write(&call));
    char *bytes = test_read_file(path, &n);
    ck_assert(tflite_has(bytes, n, "a_b___"));
    ck_assert(tflite_has(bytes, n, "a_b____1"));
    ck_assert(!tflite_has(bytes, n, "a:b"));
    free(bytes);
    dt_trace_free(t);
    dt_module_free(m);
}
END_TEST

Suite *test_export_tflite_suite(void)
{
    Suite *s = suite_create("export_tflite");
    TCase *nets = tcase_create("networks"), *c = tcase_create("cases");
    tcase_set_timeout(nets, 600);
    tcase_add_loop_test(nets, networks_are_written, 0, PARTS);
    tcase_set_timeout(c, 600);
    tcase_add_checked_fixture(c, open_ctx, close_ctx);
    tcase_add_loop_test(c, integers_have_the_same_bytes, 0, 2);
    tcase_add_test(c, every_allocation);
    tcase_add_test(c, a_full_disk);
    tcase_add_test(c, what_cannot_be_expressed);
    tcase_add_test(c, hostile_names);
    suite_add_tcase(s, nets);
    suite_add_tcase(s, c);
    return s;
}
