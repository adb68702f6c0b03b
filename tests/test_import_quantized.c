/* Quantized files of other programs: an ONNX file with QuantizeLinear and DequantizeLinear, or with
 * operators of codes, becomes a prepared model with the file's codes and ranges, and computes what
 * the file computes; so does an int8 TFLite file, code by code. */
#include "list_nets.h"
#include "onnx_graph.h"
#include "testing.h"

#include "core/tensor.h"
#include "nn/module.h"
#include "qat/quantized.h"

#include <detent/experimental/export.h>
#include <detent/experimental/io.h>
#include <detent/experimental/layers.h>
#include <detent/train.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_ctx *ctx;
static test_memory memory;
static char folder[TEST_PATH], path[TEST_PATH], saved[TEST_PATH];

static int between; /* number of messages about layers that compute floats between codes */

/* A log function: messages name everything they are about, and no import changes a scale. */
static void check_line(void *user, const char *line)
{
    (void)user;
    between += strstr(line, "not a network of integers alone") != NULL;
    ck_assert_msg(strstr(line, "(null)") == NULL, "%s", line);
    ck_assert_msg(strstr(line, "its scale becomes larger") == NULL, "%s", line);
}

static void begin(void)
{
    dt_ctx_options o = dt_ctx_defaults();
    test_begin();
    o.log = check_line;
    memory = (test_memory){ .live = 0 };
    o.allocator = test_allocator(&memory);
    o.threads = 1;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    test_folder(folder);
    test_join(path, folder, "net.onnx");
    test_join(saved, folder, "model.safetensors");
}

static void end(void)
{
    onnx_forget();
    dt_ctx_free(ctx);
    ck_assert_int_eq(memory.live, 0);
    test_end();
}

/* ---- ONNX ------------------------------------------------------------------------------------ */

static void write_model(const DtOnnx__Model *m)
{
    size_t n;
    const unsigned char *bytes = onnx_pack(m, &n);
    test_write_file(path, bytes, n);
}

/* How far the model is from the file, relative to the largest output. */
static double difference(dt_module *m, const dt_model_info *info)
{
    dt_export_difference d[DT_MAX_OUT];
    int n;
    TEST_OK(ctx, dt_export_verify(m, info, path, d, &n));
    ck_assert_int_eq(n, 1);
    return d[0].relative;
}

/* Imports the graph: it computes what the file does, also saved and loaded. */
static dt_module *imports(const DtOnnx__Model *graph, dt_model_info *info, const char *name)
{
    dt_module *m, *again;
    dt_model_info info_again;
    write_model(graph);
    const dt_status s = dt_onnx_import(ctx, path, NULL, &m, info);
    ck_assert_msg(s == DT_OK, "%s: %s", name, dt_error(ctx));
    ck_assert(dt_is_prepared(m));
    ck_assert_msg(difference(m, info) <= 1e-6, "%s: %g", name, difference(m, info));
    TEST_OK(ctx, dt_model_save(m, info, saved));
    TEST_OK(ctx, dt_model_load(ctx, saved, &again, &info_again));
    ck_assert_msg(difference(again, &info_again) <= 1e-6, "%s, loaded", name);
    dt_model_info_free(ctx, &info_again);
    dt_module_free(again);
    return m;
}

/* A matrix of codes [3, 4] and how the file has it. */
static const struct weight {
    const char *name, *codes, *scale, *zero, *attributes;
    bool transposed; /* [4, 3], for MatMul */
    bool zeros;      /* it has zero points */
} weights[] = {
    { "int8 by channel", "i8 3 4: 1 -128 3 4 127 6 -7 8 9 -10 11 -12", "f32 3: 0.013 0.021 0.034",
      "i8 3: 0 0 0", "axis=0", false, false },
    { "int8, one scale", "i8 3 4: 1 -128 3 4 127 6 -7 8 9 -10 11 -12", "f32: 0.013", "i8: 0", NULL,
      false, false },
    { "uint8 around 128", "u8 3 4: 1 200 3 128 255 6 7 8 90 10 110 0", "f32: 0.013", "u8: 128",
      NULL, false, false },
    { "uint8 with a zero point", "u8 3 4: 1 200 3 128 255 6 7 8 90 10 110 0", "f32: 0.013",
      "u8: 119", NULL, false, true },
    { "int8, zero points by channel", "i8 3 4: 1 -128 3 4 127 6 -7 8 9 -10 11 -12",
      "f32 3: 0.013 0.021 0.034", "i8 3: 3 0 -5", "axis=0", false, true },
    { "int8 by column", "i8 4 3: 1 -128 3 4 127 6 -7 8 9 -10 11 -12", "f32 3: 0.013 0.021 0.034",
      "i8 3: 0 0 0", "axis=1", true, false },
    { "int2 by channel", "i2 3 4: 1 -2 0 -1 1 0 -1 0 -2 -2 1 0", "f32 3: 0.13 0.21 0.34",
      "i2 3: 0 0 0", "axis=0", false, false },
    { "uint2 with a zero point", "u2 3 4: 1 3 0 2 1 0 3 0 2 2 1 0", "f32: 0.13", "u2: 1", NULL,
      false, true },
};

/* h -> codes -> y = codes W^T -> codes */
static DtOnnx__Model *graph_of(const struct weight *w)
{
    DtOnnx__Model *m = onnx_start("f32 1 3: 0 0 0");
    onnx_weight(m, "hs", "f32: 0.0173");
    onnx_weight(m, "hz", "u8: 3");
    onnx_weight(m, "ys", "f32: 0.0311");
    onnx_weight(m, "yz", "u8: 120");
    onnx_weight(m, "w", w->codes);
    onnx_weight(m, "ws", w->scale);
    onnx_weight(m, "wz", w->zero);
    onnx_node(m, "QuantizeLinear", NULL, "h hs hz", "hq");
    return m;
}

static void finish(DtOnnx__Model *m) { onnx_node(m, "DequantizeLinear", NULL, "yq ys yz", "y"); }

static void assert_codes(dt_module *m, const struct weight *w)
{
    int64_t i = 0;
    while (i < m->n_children && strcmp(m->children[i]->type->name, "linear") != 0) i++;
    ck_assert_int_lt(i, m->n_children);
    dt_module *layer = m->children[i];
    dt_tensor *x = dt_param(layer, "weight"), *values;
    ck_assert(dt_is_fake_quant(x));
    TEST_OK(ctx, dt_dequantize(x, &values));
    const float *dequantized = dt_data(values), *master = dt_data(dt_inner(x));
    for (i = 0; i < 12; i++) {
        ck_assert_msg(dequantized[i] == master[i], "%s: element %lld is %g, its codes' is %g",
                      w->name, (long long)i, (double)master[i], (double)dequantized[i]);
    }
    ck_assert_int_eq(dt__has_zero(dt__quant_of(x)), w->zeros);
    dt_tensor_free(values);
}

START_TEST(weights_keep_their_codes)
{
    const struct weight *w = &weights[_i];
    dt_model_info info;
    DtOnnx__Model *g = graph_of(w);
    onnx_node(g, "DequantizeLinear", NULL, "hq hs hz", "hd");
    onnx_node(g, "DequantizeLinear", w->attributes, "w ws wz", "wd");
    if (w->transposed) onnx_node(g, "MatMul", NULL, "hd wd", "p");
    else onnx_node(g, "Gemm", "transB=1", "hd wd", "p");
    onnx_node(g, "QuantizeLinear", NULL, "p ys yz", "yq");
    finish(g);
    dt_module *m = imports(g, &info, w->name);
    assert_codes(m, w);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    ck_assert(difference(m, &info) <= 1e-6);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
}
END_TEST

/* --float leaves ranges out. */
START_TEST(as_floats)
{
    dt_module *m;
    const dt_onnx_options o = { .floats = true };
    DtOnnx__Model *g = graph_of(&weights[0]);
    onnx_node(g, "DequantizeLinear", NULL, "hq hs hz", "hd");
    onnx_node(g, "DequantizeLinear", "axis=0", "w ws wz", "wd");
    onnx_node(g, "Gemm", "transB=1", "hd wd", "y");
    write_model(g);
    TEST_OK(ctx, dt_onnx_import(ctx, path, &o, &m, NULL));
    ck_assert(!dt_is_prepared(m));
    dt_module_free(m);
}
END_TEST

/* Values between layers are rounded, too: sums, means, and constants of the file. */
START_TEST(results_between_layers_are_rounded)
{
    dt_model_info info;
    DtOnnx__Model *g = graph_of(&weights[0]);
    onnx_node(g, "DequantizeLinear", NULL, "hq hs hz", "hd");
    onnx_node(g, "DequantizeLinear", "axis=0", "w ws wz", "wd");
    onnx_node(g, "Gemm", "transB=1", "hd wd", "p");
    onnx_node(g, "QuantizeLinear", NULL, "p ys yz", "pq");
    onnx_node(g, "DequantizeLinear", NULL, "pq ys yz", "pd");
    onnx_node(g, "Sigmoid", NULL, "pd", "s");
    onnx_node(g, "Add", NULL, "s pd", "t");
    onnx_node(g, "QuantizeLinear", NULL, "t ys yz", "yq");
    finish(g);
    dt_module *m = imports(g, &info, "a sum");
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
}
END_TEST

static dt_tensor *output_of(dt_module *m, dt_tape *t, dt_tensor *x)
{
    dt_no_grad(t, true);
    dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_tape_status(t));
    return y;
}

#define ROWS 9
#define OUTPUTS (3 * ROWS)

/* The outputs of two networks for the same rows; frees the networks. */
static void run_pair(dt_module *const pair[2], float y[2][OUTPUTS])
{
    dt_tape *t;
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ ROWS, 4 }, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 2));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    for (int i = 0; i < 2; i++) {
        const dt_tensor *out = output_of(pair[i], t, x);
        ck_assert_int_eq(dt_count(out), OUTPUTS);
        memcpy(y[i], dt_data(out), sizeof y[i]);
    }
    dt_tape_free(t);
    dt_tensor_free(x);
    for (int i = 0; i < 2; i++) dt_module_free(pair[i]);
}

/* An operator of codes is the operator of floats between DequantizeLinear and QuantizeLinear. */
START_TEST(operators_of_codes)
{
    const struct weight *w = &weights[5]; /* [in, out] */
    dt_module *pair[2];
    for (int codes = 0; codes < 2; codes++) {
        DtOnnx__Model *g = graph_of(w);
        if (codes == 1) {
            onnx_node(g, "QLinearMatMul", NULL, "hq hs hz w ws wz ys yz", "yq");
        } else {
            onnx_node(g, "DequantizeLinear", NULL, "hq hs hz", "hd");
            onnx_node(g, "DequantizeLinear", w->attributes, "w ws wz", "wd");
            onnx_node(g, "MatMul", NULL, "hd wd", "p");
            onnx_node(g, "QuantizeLinear", NULL, "p ys yz", "yq");
        }
        finish(g);
        write_model(g);
        TEST_OK(ctx, dt_onnx_import(ctx, path, NULL, &pair[codes], NULL));
    }
    float y[2][OUTPUTS];
    run_pair(pair, y);
    ck_assert_mem_eq(y[0], y[1], sizeof y[0]);
}
END_TEST

/* QGemm: its bias has the scale alpha s_x s_w. */
START_TEST(biases_of_qgemm)
{
    static const int of[] = { 0, 1, 5 };
    static const char *const alphas[] = { "", " alpha=1f", " alpha=0.5f", " alpha=-3f" };
    static const char *const reals[] = { "f32: 1", "f32: 1", "f32: 0.5", "f32: -3" };
    const struct weight *w = &weights[of[_i % 3]];
    char with[40];
    dt_module *pair[2];
    snprintf(with, sizeof with, "transB=%d%s", w->transposed ? 0 : 1, alphas[_i / 3]);
    for (int codes = 0; codes < 2; codes++) {
        DtOnnx__Model *g = graph_of(w);
        onnx_weight(g, "c", "i32 3: 700 -900 45");
        onnx_weight(g, "alpha", reals[_i / 3]);
        if (codes == 1) {
            onnx_node(g, "QGemm", with, "hq hs hz w ws wz c ys yz", "yq");
            g->graph->node[g->graph->n_node - 1]->domain = (char *)(uintptr_t) "com.microsoft";
        } else {
            onnx_node(g, "DequantizeLinear", NULL, "hq hs hz", "hd");
            onnx_node(g, "DequantizeLinear", w->attributes, "w ws wz", "wd");
            onnx_node(g, "Mul", NULL, "hs ws", "s");
            onnx_node(g, "Mul", NULL, "s alpha", "bs");
            onnx_node(g, "Cast", "to=1", "c", "cf");
            onnx_node(g, "Mul", NULL, "cf bs", "b");
            onnx_node(g, "Gemm", with, "hd wd b", "p");
            onnx_node(g, "QuantizeLinear", NULL, "p ys yz", "yq");
        }
        finish(g);
        write_model(g);
        TEST_OK(ctx, dt_onnx_import(ctx, path, NULL, &pair[codes], NULL));
    }
    float y[2][OUTPUTS];
    run_pair(pair, y);
    for (int i = 0; i < OUTPUTS; i++) {
        ck_assert_msg(fabsf(y[0][i] - y[1][i]) <= 1e-6f, "%s: output %d is %g, expected %g", with,
                      i, (double)y[1][i], (double)y[0][i]);
    }
}
END_TEST

static const struct refusal {
    const char *op, *attributes, *in, *says;
} refused[] = {
    { "Relu", NULL, "hq", "reads codes; a DequantizeLinear must come before it" },
    { "DequantizeLinear", NULL, "hq ys yz", "must be those of the QuantizeLinear before it" },
    { "DequantizeLinear", NULL, "h hs hz", "its input must come from a QuantizeLinear" },
    { "QuantizeLinear", NULL, "h none hz", "its scale is 0; it must be a positive normal number" },
    { "QuantizeLinear", NULL, "h two hz", "it has 2 scales of a computed value; expected one" },
    { "QuantizeLinear", NULL, "h hs wide", "its data type is 7; expected int8" },
};

START_TEST(refusals)
{
    const struct refusal *r = &refused[_i];
    dt_module *m;
    DtOnnx__Model *g = graph_of(&weights[0]);
    onnx_weight(g, "none", "f32: 0");
    onnx_weight(g, "two", "f32 2: 1 1");
    onnx_weight(g, "wide", "i64: 0");
    onnx_node(g, r->op, r->attributes, r->in, "y");
    write_model(g);
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, r->says, dt_onnx_import(ctx, path, NULL, &m, NULL));
}
END_TEST

/* ---- TFLite ---------------------------------------------------------------------------------- */

#define WITH_CONSTANTS                                                                             \
    "  input: [2, 5, 6]\n  layers:\n  - {conv2d: stem, out: 3, padding: 1}\n"                      \
    "  - {affine: shift, shape: [3, 1, 1]}\n  - {affine: plane, shape: [3, 5, 6], bias: false}\n"  \
    "  - {affine: row, shape: [6], scale: false}\n  - {relu6: cut}\n"                              \
    "  - {affine: lines, shape: [5, 1], bias: false}\n  - global_avg_pool2d\n  - flatten\n"        \
    "  - {linear: head, out: 4}\n  - {affine: end, shape: [4]}\n"

static const char *const nets[] = {
    "  input: [11]\n  layers:\n  - {linear: a, out: 9, activation: relu}\n"
    "  - {linear: b, out: 7, activation: relu6}\n  - {linear: c, out: 5}\n  - softmax\n",
    "  input: [2, 9, 9]\n  layers:\n"
    "  - {conv2d: stem, out: 6, padding: 1, activation: relu}\n"
    "  - {conv2d: deep, out: 6, groups: 6, padding: 1, activation: relu6}\n"
    "  - {conv2d: point, out: 6, kernel: 1}\n  - {add: sum, from: [point, stem]}\n"
    "  - {relu: rest}\n  - max_pool2d\n  - flatten\n  - {linear: head, out: 5}\n  - softmax\n",
    "  input: [3, 8, 8]\n  layers:\n"
    "  - {conv2d: left, out: 4, padding: 1, stride: 2, activation: relu}\n"
    "  - {conv2d: right, out: 3, kernel: 3, padding: 1, stride: 2, from: input}\n"
    "  - {concat: both, from: [left, right]}\n"
    "  - {conv_transpose2d: up, out: 4, kernel: 2, stride: 2}\n"
    "  - {pad: edge, pads: [1, 0, 0, 1]}\n  - {avg_pool2d: pool, kernel: 3, stride: 3}\n"
    "  - {conv2d: gate, out: 4, kernel: 1}\n  - {mul: product, from: [gate, pool]}\n"
    "  - flatten\n  - {linear: head, out: 4}\n",
    "  input: [4, 7, 10]\n  layers:\n"
    "  - {conv2d: wide, out: 8, kernel: [2, 3], stride: [2, 1], dilation: [1, 2]}\n"
    "  - {conv2d: deep, out: 16, groups: 8, kernel: 3, padding: 1}\n"
    "  - {conv2d: grouped, out: 6, kernel: 1, activation: relu}\n  - global_avg_pool2d\n"
    "  - {conv2d: last, out: 3, kernel: 1}\n  - flatten\n",
    "  input: [2, 7, 9]\n  layers:\n  - {conv2d: stem, out: 5, padding: 1}\n"
    "  - {avg_pool2d: pool, kernel: [2, 4], stride: 2, padding: [0, 1], ceil_mode: true,\n"
    "     count_include_pad: false}\n"
    "  - {conv2d: last, out: 3, kernel: 1}\n  - global_avg_pool2d\n  - flatten\n",
    WITH_CONSTANTS,
    "  input: [2, 9, 8]\n  layers:\n  - {conv2d: stem, out: 6, kernel: 1}\n"
    "  - {avg_pool2d: pool, kernel: [3, 2], stride: [3, 2]}\n  - flatten\n",
};

/* Their results have the dimensions of the layer before in another order. */
static const char *const ends[] = {
    "  input: [2, 5, 4]\n  layers:\n  - {conv2d: stem, out: 3, kernel: 1}\n"
    "  - {permute: turned, dims: [0, 3, 1, 2]}\n",
    "  input: [2, 5, 4]\n  layers:\n  - {conv2d: stem, out: 3, kernel: 1}\n"
    "  - {permute: turned, dims: [0, 2, 3, 1]}\n",
    "  input: [2, 4, 3]\n  layers:\n  - {conv2d: stem, out: 3, kernel: 1}\n"
    "  - {mean: rows, dims: [2]}\n",
    "  input: [2, 4, 3]\n  layers:\n  - {conv2d: stem, out: 3, kernel: 1}\n"
    "  - {mean: lines, dims: [1]}\n",
};

static const char *const affines[] = { "shift", "plane", "row", "lines", "end" };

/* Writes the network of a recipe's lines as int8 TFLite. */
static void write_lite(const char *net, uint64_t seed)
{
    dt_export_summary summary;
    dt_module *m = list_net_create(ctx, net);
    dt_tensor *x = list_net_input(m, 0, 8, 1 + (double)seed);
    for (int i = 0; i < 5; i++) {
        dt_module *affine = dt_module_at(m, affines[i]);
        dt_tensor *w = affine == NULL ? NULL : dt_param(affine, "weight");
        dt_tensor *b = affine == NULL ? NULL : dt_param(affine, "bias");
        if (w != NULL) TEST_OK(ctx, dt_fill_uniform(w, -1, 2));
        if (b != NULL) TEST_OK(ctx, dt_fill_uniform(b, -1, 0.5));
    }
    TEST_OK(ctx, list_net_quantize(m, DT_DEVICE_INT8, &x, 1, 1));
    TEST_OK(ctx, dt_export(m, NULL, "tflite", NULL, path, &summary));
    dt_tensor_free(x);
    dt_module_free(m);
}

static void assert_equal(dt_module *m, const dt_model_info *info, int net, const char *what)
{
    dt_export_difference d[DT_MAX_OUT];
    int n;
    TEST_OK(ctx, dt_export_verify(m, info, path, d, &n));
    ck_assert_int_eq(n, 1);
    ck_assert_msg(d[0].equal == d[0].values, "network %d, %s: %lld of %lld values differ by %g",
                  net, what, (long long)(d[0].values - d[0].equal), (long long)d[0].values,
                  d[0].absolute);
}

enum { N_NETS = sizeof nets / sizeof *nets };

/* The model computes the file's codes: as it is imported, saved and loaded, and converted. */
START_TEST(lite_codes_are_the_same)
{
    dt_module *m, *again;
    dt_model_info info, info_again;
    test_join(path, folder, "net.tflite");
    for (uint64_t seed = 0; seed < 3; seed++) {
        write_lite(_i < N_NETS ? nets[_i] : ends[_i - N_NETS], seed);
        TEST_OK(ctx, dt_tflite_import(ctx, path, &m, &info));
        ck_assert(dt_is_prepared(m));
        assert_equal(m, &info, _i, "imported");
        TEST_OK(ctx, dt_model_save(m, &info, saved));
        TEST_OK(ctx, dt_model_load(ctx, saved, &again, &info_again));
        assert_equal(again, &info_again, _i, "loaded");
        TEST_OK(ctx, dt_convert(m, NULL, NULL));
        assert_equal(m, &info, _i, "converted");
        dt_model_info_free(ctx, &info_again);
        dt_module_free(again);
        dt_model_info_free(ctx, &info);
        dt_module_free(m);
    }
}
END_TEST

/* A scale that kernels for devices do not support is not changed: the file is refused, or its
 * layers compute floats between codes. */
START_TEST(lite_scales_are_kept)
{
    static const char net[] = "  input: [6]\n  layers:\n  - {linear: a, out: 7}\n"
                              "  - {linear: b, out: 7, from: input}\n"
                              "  - {mul: product, from: [a, b]}\n";
    dt_module *m;
    size_t n;
    int imported = 0;
    test_join(path, folder, "net.tflite");
    write_lite(net, 0);
    char *bytes = test_read_file(path, &n);
    between = 0;
    for (size_t i = 0; i + 4 <= n; i += 4) {
        float scale;
        memcpy(&scale, bytes + i, 4);
        if (!(scale > 1e-5f && scale < 1)) continue;
        const float less = scale / 64;
        memcpy(bytes + i, &less, 4);
        test_write_file(path, bytes, n);
        memcpy(bytes + i, &scale, 4);
        if (dt_tflite_import(ctx, path, &m, NULL) != DT_OK) continue;
        imported++;
        dt_module_free(m);
    }
    ck_assert(between > 0 && imported > between);
    free(bytes);
}
END_TEST

/* A look names what import refuses, and nothing else. */
static int64_t assert_looks_alike(dt_status imported)
{
    dt_graph_info info;
    char said[4096];
    snprintf(said, sizeof said, "%s", dt_error(ctx));
    const dt_status s = dt_graph_inspect(ctx, path, &info);
    ck_assert_msg((imported == DT_OK) == (s == DT_OK && info.n_refusals == 0),
                  "import: %s; a look: %s", imported == DT_OK ? "OK" : said,
                  s != DT_OK            ? dt_error(ctx)
                  : info.n_refusals > 0 ? info.refusal[0]
                                        : "OK");
    const int64_t n = s == DT_OK ? info.n_refusals : 0;
    for (int64_t i = 0; i < n; i++) {
        ck_assert_msg(strstr(said, info.refusal[i]) != NULL, "'%s' is not in '%s'", info.refusal[i],
                      said);
    }
    dt_graph_info_free(ctx, &info);
    return n;
}

/* Bytes of a file that change end in an error or in a model. */
START_TEST(lite_damage)
{
    size_t n;
    int64_t bad = 0, tried = 0;
    dt__stream random = dt__stream_of(11 + (uint64_t)_i, DT__FOR_USER);
    test_join(path, folder, "net.tflite");
    write_lite(_i < 4 ? nets[1] : WITH_CONSTANTS, 0);
    char *bytes = test_read_file(path, &n);
    for (size_t i = (size_t)_i; i < n; i += 41) {
        dt_module *m;
        const char was = bytes[i];
        bytes[i] = (char)dt__random_below(&random, 256);
        test_write_file(path, bytes, n);
        const dt_status s = dt_tflite_import(ctx, path, &m, NULL);
        ck_assert(s == DT_OK || strlen(dt_error(ctx)) > 0);
        assert_looks_alike(s);
        bad += s != DT_OK;
        tried++;
        dt_module_free(m);
        bytes[i] = was;
    }
    ck_assert_int_gt(bad, tried / 50);
    free(bytes);
}
END_TEST

/* Networks of which devices have no operators. */
static const char *const others[] = {
    "  input: [6]\n  layers:\n  - {linear: a, out: 8, activation: tanh}\n  - gelu\n"
    "  - {linear: b, out: 8}\n  - {elu: c}\n  - {mul: d, from: [c, a]}\n  - sigmoid\n"
    "  - {layer_norm: e}\n  - {linear: f, out: 3}\n",
    "  input: [3, 9, 8]\n  layers:\n  - {conv2d: a, out: 6, padding: 1, activation: hardswish}\n"
    "  - {conv2d: b, out: 6, kernel: 3, padding: 1, stride: 2}\n  - leaky_relu\n"
    "  - {conv_transpose2d: c, out: 4, kernel: 2, stride: 2}\n  - silu\n"
    "  - {avg_pool2d: d, kernel: 2}\n  - global_avg_pool2d\n  - flatten\n"
    "  - {linear: e, out: 5}\n",
};

/* Writes inputs and outputs of a model; nhwc: images have their channels last. */
static void write_values(dt_module *m, dt_tensor *x, bool nhwc, const char *to)
{
    dt_writer *w;
    dt_tape *t;
    dt_tensor *turned = NULL;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_tensor *y = output_of(m, t, x);
    if (nhwc && x->rank == 4) {
        const int64_t *d = x->dims, pixels = d[2] * d[3];
        const int64_t dims[] = { d[0], d[2], d[3], d[1] };
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, dims, &turned));
        const float *from = dt_data(x);
        float *out = dt_data_mut(turned);
        for (int64_t i = 0; i < dt_count(x); i++) { /* i: of x */
            const int64_t c = i / pixels % d[1], n = i / pixels / d[1];
            out[(n * pixels + i % pixels) * d[1] + c] = from[i];
        }
    }
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    TEST_OK(ctx, dt_writer_add(w, "x", turned != NULL ? turned : x));
    TEST_OK(ctx, dt_writer_add(w, "y", y));
    TEST_OK(ctx, dt_writer_write(w, to));
    dt_writer_free(w);
    dt_tensor_free(turned);
    dt_tape_free(t);
}

START_TEST(lite_of_floats)
{
    dt_export_summary summary;
    dt_onnx_differences d;
    dt_model_info info;
    char values[TEST_PATH];
    const int n_nets = (int)(sizeof nets / sizeof *nets);
    test_join(path, folder, "net.tflite");
    test_join(values, folder, "values.safetensors");
    dt_module *m = list_net_create(ctx, _i < n_nets ? nets[_i] : others[_i - n_nets]), *imported;
    dt_tensor *x = list_net_input(m, 0, 4, 1);
    dt_train(m, false);
    TEST_OK(ctx, dt_export(m, NULL, "tflite", NULL, path, &summary));
    TEST_OK(ctx, dt_tflite_import(ctx, path, &imported, &info));
    ck_assert(!dt_is_prepared(imported));
    write_values(m, x, true, values);
    TEST_OK(ctx, dt_tflite_verify(imported, path, values, NULL, &d));
    ck_assert(d.n == 1 && d.output[0].relative <= 2e-6);
    write_values(m, x, false, values);
    TEST_OK(ctx, dt_weights_verify(imported, values, NULL, &d));
    ck_assert(d.n == 1 && d.output[0].relative <= 2e-6);
    TEST_FAILS(ctx, DT_ERR_IO, "cannot open", dt_tflite_verify(imported, path, saved, NULL, &d));
    dt_tensor_free(x);
    dt_model_info_free(ctx, &info);
    dt_module_free(imported);
    dt_module_free(m);
}
END_TEST

/* Makes all operators of one kind those of another. */
static void become(char *bytes, size_t n, unsigned char from, unsigned char to)
{
    const char was[] = { (char)from, 0, 0, 0 };
    for (size_t i = 0; i + 4 <= n; i += 4) {
        if (memcmp(bytes + i, was, 4) == 0) bytes[i] = (char)to;
    }
}

/* All operators that are not read are in one error, and in a look. */
START_TEST(lite_refusals)
{
    enum { ELU = 111, GELU = 150, L2_NORMALIZATION = 11, ARG_MAX = 56 };
    dt_export_summary summary;
    size_t n;
    test_join(path, folder, "net.tflite");
    dt_module *m = list_net_create(ctx, "  input: [6]\n  layers:\n"
                                        "  - {linear: a, out: 4}\n  - {gelu: first}\n"
                                        "  - {elu: second, from: a}\n"
                                        "  - {add: sum, from: [first, second]}\n"),
              *imported;
    TEST_OK(ctx, dt_export(m, NULL, "tflite", NULL, path, &summary));
    TEST_OK(ctx, dt_tflite_import(ctx, path, &imported, NULL));
    dt_module_free(imported);
    char *bytes = test_read_file(path, &n);
    become(bytes, n, GELU, ARG_MAX);
    become(bytes, n, ELU, L2_NORMALIZATION);
    test_write_file(path, bytes, n);
    free(bytes);
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "ARG_MAX: the operator is not read",
               dt_tflite_import(ctx, path, &imported, NULL));
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "L2_NORMALIZATION: the operator is not read"));
    ck_assert_int_eq(assert_looks_alike(DT_ERR_UNSUPPORTED), 2);
    dt_module_free(m);
    test_write_text(path, "no model");
    TEST_FAILS(ctx, DT_ERR_FORMAT, "not a TFLite model",
               dt_tflite_import(ctx, path, &imported, NULL));
    TEST_FAILS(ctx, DT_ERR_IO, "not a regular file",
               dt_tflite_import(ctx, folder, &imported, NULL));
    test_join(path, folder, "missing.tflite");
    TEST_FAILS(ctx, DT_ERR_IO, "cannot open", dt_tflite_import(ctx, path, &imported, NULL));
}
END_TEST

/* Every activation that an operator may include is computed, or refused. */
START_TEST(lite_activations)
{
    enum { RELU6 = 3, ACTIVATIONS = 6 };
    static const char net[] =
        "  input: [6]\n  layers:\n"
        "  - {linear: a, out: 8, activation: relu6}\n  - {linear: b, out: 3}\n";
    dt_export_summary summary;
    dt_export_difference d[DT_MAX_OUT];
    dt_model_info info;
    size_t n;
    int outputs, equal = 0, left_out = 0;
    test_join(path, folder, "net.tflite");
    dt_module *m = list_net_create(ctx, net), *imported;
    TEST_OK(ctx, dt_export(m, NULL, "tflite", NULL, path, &summary));
    char *bytes = test_read_file(path, &n);
    for (size_t i = 0; i < n; i++) {
        for (char k = 0; bytes[i] == RELU6 && k < ACTIVATIONS; k++) {
            bytes[i] = k;
            test_write_file(path, bytes, n);
            bytes[i] = RELU6;
            if (dt_tflite_import(ctx, path, &imported, &info) != DT_OK) {
                left_out += strstr(dt_error(ctx), "which LiteRT leaves out") != NULL;
                continue;
            }
            if (dt_export_verify(imported, &info, path, d, &outputs) == DT_OK) {
                ck_assert_msg(d[0].relative <= 1e-5, "byte %zu is %d: %g apart", i, k,
                              d[0].relative);
                equal++;
            }
            dt_model_info_free(ctx, &info);
            dt_module_free(imported);
        }
    }
    ck_assert(equal >= RELU6 + 1 && left_out > 0);
    free(bytes);
    dt_module_free(m);
}
END_TEST

/* Means of codes between floats: halves are rounded away from zero, as in TFLite. A half in each
 * second window would make a tenth of the outputs differ; what remains is rounding of the
 * convolution's products. */
START_TEST(lite_means_of_others)
{
    static const char net[] =
        "  input: [2, 9, 8]\n  layers:\n  - {conv2d: a, out: 6, kernel: 1}\n"
        "  - {avg_pool2d: pool, kernel: [3, 2]}\n  - flatten\n"; /* pixels change their order */
    dt_export_difference d[DT_MAX_OUT];
    dt_module *m;
    dt_model_info info;
    int n;
    int64_t values = 0, equal = 0;
    test_join(path, folder, "net.tflite");
    for (uint64_t seed = 0; seed < 5; seed++) {
        write_lite(net, seed);
        TEST_OK(ctx, dt_tflite_import(ctx, path, &m, &info));
        TEST_OK(ctx, dt_export_verify(m, &info, path, d, &n));
        values += d[0].values;
        equal += d[0].equal;
        dt_model_info_free(ctx, &info);
        dt_module_free(m);
    }
    ck_assert_msg(values > 300 && equal >= values - values / 50, "%lld of %lld are equal",
                  (long long)equal, (long long)values);
}
END_TEST

static dt_status import_lite(dt_ctx *own, void *user)
{
    dt_module *m = NULL;
    const dt_status s = dt_tflite_import(own, path, &m, NULL);
    (void)user;
    dt_module_free(m);
    return s;
}

/* Codes of an operator that devices do not have: floats between codes. */
START_TEST(lite_codes_of_others)
{
    enum { SOFTMAX = 25, LOGISTIC = 14 };
    dt_module *m;
    dt_model_info info;
    size_t n;
    test_join(path, folder, "net.tflite");
    write_lite(nets[0], 3);
    char *bytes = test_read_file(path, &n);
    become(bytes, n, SOFTMAX, LOGISTIC);
    test_write_file(path, bytes, n);
    free(bytes);
    TEST_OK(ctx, dt_tflite_import(ctx, path, &m, &info));
    ck_assert(dt_is_prepared(m));
    TEST_OK(ctx, dt_model_save(m, &info, saved));
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    test_every_allocation(import_lite, NULL);
}
END_TEST

START_TEST(lite_constants_without_memory)
{
    test_join(path, folder, "net.tflite");
    write_lite(WITH_CONSTANTS, 1);
    test_every_allocation(import_lite, NULL);
}
END_TEST

#define COUNT(list) ((int)(sizeof list / sizeof *list))

Suite *test_import_quantized_suite(void)
{
    Suite *s = suite_create("import_quantized");
    TCase *c = tcase_create("all");
    tcase_add_checked_fixture(c, begin, end);
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, weights_keep_their_codes, 0, COUNT(weights));
    tcase_add_test(c, as_floats);
    tcase_add_test(c, results_between_layers_are_rounded);
    tcase_add_test(c, operators_of_codes);
    tcase_add_loop_test(c, biases_of_qgemm, 0, 12);
    tcase_add_loop_test(c, refusals, 0, COUNT(refused));
    tcase_add_loop_test(c, lite_codes_are_the_same, 0, COUNT(nets) + COUNT(ends));
    tcase_add_test(c, lite_scales_are_kept);
    tcase_add_loop_test(c, lite_damage, 0, 8);
    tcase_add_loop_test(c, lite_of_floats, 0, COUNT(nets) + COUNT(others));
    tcase_add_test(c, lite_codes_of_others);
    tcase_add_test(c, lite_constants_without_memory);
    tcase_add_test(c, lite_means_of_others);
    tcase_add_test(c, lite_refusals);
    tcase_add_test(c, lite_activations);
    suite_add_tcase(s, c);
    return s;
}
