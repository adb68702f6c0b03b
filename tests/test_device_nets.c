/* Whole integer networks from lists of layers: prepared, converted and loaded give the same bits on
 * any number of threads and any set of kernels, with and without activation checkpointing; several
 * outputs, layers that run twice, rounding with data, folded norms that follow batches, ranges that
 * a recipe gives, and what prepare refuses. */
#include "testing.h"

#include "core/tensor.h"
#include "kernels/sets.h"
#include "nn/lists/graph.h"
#include "nn/module.h"
#include "qat/device/device_plan.h"

#include <detent/experimental/device.h>
#include <detent/experimental/export.h>
#include <detent/experimental/io.h>
#include <detent/experimental/layers.h>
#include <detent/experimental/ops.h>
#include <detent/experimental/ptq.h>
#include <detent/optim.h>
#include <detent/experimental/qat.h>
#include <detent/experimental/train.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAIL "data: {format: digits}\ntrain: {epochs: 1}\n"

typedef struct net {
    const char *name, *layers; /* a recipe's model */
    int64_t channels, side, outputs;
} net;

static const net nets[] = {
    { "residual",
      "  family: layers\n  input: [2, 9, 9]\n  layers:\n"
      "  - {conv2d: stem, out: 6, padding: 1, norm: batch, activation: relu}\n"
      "  - {conv2d: deep, out: 6, groups: 6, padding: 1, norm: batch, activation: relu6}\n"
      "  - {conv2d: point, out: 6, kernel: 1, norm: batch}\n"
      "  - {add: sum, from: [point, stem]}\n  - {relu: rest}\n  - max_pool2d\n"
      "  - {dropout: drop, p: 0.2}\n  - flatten\n  - {linear: head, out: 5}\n  - softmax\n",
      2, 9, 5 },
    { "joined",
      "  family: layers\n  input: [3, 8, 8]\n  layers:\n"
      "  - {conv2d: left, out: 4, padding: 1, stride: 2, activation: relu}\n"
      "  - {conv2d: right, out: 3, kernel: 3, padding: 1, stride: 2, from: input}\n"
      "  - {concat: both, from: [left, right]}\n"
      "  - {conv_transpose2d: up, out: 4, kernel: 2, stride: 2}\n"
      "  - {pad: edge, pads: [1, 0, 0, 1]}\n  - {avg_pool2d: pool, kernel: 3, stride: 3}\n"
      "  - {conv2d: gate, out: 4, kernel: 1}\n  - {mul: product, from: [gate, pool]}\n"
      "  - flatten\n  - {linear: head, out: 4}\n",
      3, 8, 4 },
    { "two outputs",
      "  family: layers\n  input: [1, 6, 6]\n  layers:\n"
      "  - {conv2d: stem, out: 4, padding: 1, activation: relu}\n  - global_avg_pool2d\n"
      "  - {flatten: features}\n  - {linear: class, out: 3}\n"
      "  - {linear: size, out: 2, from: features}\n  output: [class, size]\n",
      1, 6, 5 },
    { "gated",
      "  family: layers\n  input: [2, 8, 8]\n  layers:\n"
      "  - {conv2d: stem, out: 6, padding: 1}\n  - {hardswish: bent}\n"
      "  - {mean: pooled, dims: [2, 3], keepdim: true, from: bent}\n"
      "  - {conv2d: narrow, out: 3, kernel: 1, activation: relu}\n"
      "  - {conv2d: wide, out: 6, kernel: 1}\n  - {sigmoid: gate}\n"
      "  - {mul: scaled, from: [bent, gate]}\n"
      "  - {slice: cut, dim: 2, start: 1, stop: 7}\n"
      "  - {slice: inner, dim: 3, start: 1, stop: 7}\n"
      "  - {conv2d: point, out: 4, kernel: 1, dilation: 2}\n  - {gelu: bell}\n"
      "  - {mean: features, dims: [2, 3]}\n  - {linear: hidden, out: 8}\n  - {tanh: curve}\n"
      "  - {linear: other, out: 8, from: features}\n  - {elu: soft}\n"
      "  - {sub: rest, from: [curve, soft]}\n  - {leaky_relu: leak}\n"
      "  - {linear: head, out: 3}\n",
      2, 8, 3 },
    { "constants",
      "  family: layers\n  input: [2, 6, 6]\n  layers:\n"
      "  - {affine: scaled, shape: [1], trained: false}\n"
      "  - {conv2d: stem, out: 4, padding: 1}\n  - {affine: shift, shape: [4, 1, 1]}\n"
      "  - {relu: clamp}\n  - {affine: plane, shape: [4, 6, 6], bias: false}\n"
      "  - {affine: row, shape: [6], scale: false}\n"
      "  - flatten\n  - {linear: hidden, out: 6}\n  - {affine: each, shape: [6]}\n"
      "  - {linear: head, out: 3}\n  - {affine: all, shape: [1], bias: false}\n",
      2, 6, 3 },
    { "sloped",
      "  family: layers\n  input: [2, 6, 6]\n  layers:\n"
      "  - {conv2d: stem, out: 4, padding: 1}\n  - {prelu: slopes, init: -0.5}\n"
      "  - {max_pool2d: pool, kernel: 2}\n  - {relu: above}\n"
      "  - {upsample_nearest: larger, factor: 2}\n  - {concat: both, from: [larger, slopes]}\n"
      "  - {prelu: one, shared: true, init: 2}\n  - {reshape: lines, shape: [8, 36]}\n"
      "  - {upsample_nearest: longer, factor: 2}\n  - {relu6: cut}\n  - flatten\n"
      "  - {linear: head, out: 3}\n",
      2, 6, 3 },
    { "bins as channels",
      "  family: layers\n  input: [1, 7, 7]\n  layers:\n  - {permute: turn, dims: [0, 3, 2, 1]}\n"
      "  - {conv2d: dw, out: 7, groups: 7, kernel: [3, 1], bias: false}\n"
      "  - {conv2d: pw, out: 4, kernel: 1, norm: batch, activation: relu}\n  - flatten\n"
      "  - {linear: head, out: 3}\n",
      1, 7, 3 },
    { "autoencoder",
      "  family: layers\n  input: [1, 3, 3]\n  layers:\n  - flatten\n"
      "  - {linear: a, out: 7, bias: true, norm: batch, activation: relu}\n"
      "  - {linear: b, out: 4, norm: batch}\n  - {relu6: cut}\n"
      "  - {linear: c, out: 9, norm: batch}\n",
      1, 3, 9 },
};

/* ---- making ---------------------------------------------------------------------------------- */

typedef struct scene {
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    dt_tensor *x, *y;
} scene;

static dt_recipe *read_model(dt_ctx *ctx, const char *model)
{
    char text[2048];
    dt_recipe *r = NULL;
    ck_assert_int_lt(snprintf(text, sizeof text, "run: {dir: r}\nmodel:\n%s" TAIL, model),
                     (int)sizeof text);
    const dt_recipe_source source = {
        .path = "net.yaml", .text = text, .bytes = strlen(text), .leave_files = true
    };
    const dt_status s = dt_recipe_read(ctx, &source, &r);
    ck_assert_msg(s == DT_OK, "%s", dt_error(ctx));
    return r;
}

static dt_module *make_model(dt_ctx *ctx, const char *model)
{
    dt_module *m;
    dt_recipe *r = read_model(ctx, model);
    const dt_model_options *o = &dt_recipe_get(r)->model;
    TEST_OK(ctx, o->family->create(ctx, o->options, &m));
    dt_recipe_free(r);
    return m;
}

static void open_scene(scene *s, const net *n, int threads, uint64_t cpu_mask)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    o.seed = 5;
    o.cpu_mask = cpu_mask;
    ck_assert_int_eq(dt_ctx_create(&s->ctx, &o), DT_OK);
    TEST_OK(s->ctx, dt_tape_create(s->ctx, &s->t));
    s->m = make_model(s->ctx, n->layers);
    const int64_t dims[] = { 7, n->channels, n->side, n->side }, wanted[] = { 7, n->outputs };
    TEST_OK(s->ctx, dt_tensor_create(s->ctx, DT_F32, 4, dims, &s->x));
    TEST_OK(s->ctx, dt_fill_uniform(s->x, -1, 1));
    TEST_OK(s->ctx, dt_tensor_create(s->ctx, DT_F32, 2, wanted, &s->y));
    TEST_OK(s->ctx, dt_fill_uniform(s->y, -0.5, 0.5));
}

static void close_scene(scene *s)
{
    dt_tensor_free(s->x);
    dt_tensor_free(s->y);
    dt_tape_free(s->t);
    dt_module_free(s->m);
    dt_ctx_free(s->ctx);
}

/* Some updates in training. */
static void train(scene *s, int steps)
{
    dt_optimizer *o;
    TEST_OK(s->ctx, dt_optimizer_create(s->m, NULL, &o));
    dt_train(s->m, true);
    for (int i = 0; i < steps; i++) {
        dt_zero_grad(s->m);
        dt_tensor *loss = dt_mse(s->t, dt_forward(s->t, s->m, s->x), s->y, DT_REDUCE_MEAN);
        TEST_OK(s->ctx, dt_backward(s->t, loss, NULL));
        TEST_OK(s->ctx, dt_optimizer_step(o, s->t, 1e-2));
        dt_tape_reset(s->t);
    }
    dt_optimizer_free(o);
}

/* Values in evaluation; the caller frees them. */
static float *answers(scene *s, dt_module *m, int64_t *n)
{
    dt_train(m, false);
    const dt_tensor *y = dt_forward(s->t, m, s->x);
    TEST_OK(s->ctx, dt_tape_status(s->t));
    *n = y->count;
    float *values = malloc((size_t)y->count * sizeof *values);
    memcpy(values, dt_data(y), (size_t)y->count * sizeof *values);
    dt_tape_reset(s->t);
    return values;
}

static void same(const net *n, const char *what, scene *s, dt_module *m, const float *want)
{
    int64_t count;
    float *got = answers(s, m, &count);
    ck_assert_msg(memcmp(got, want, (size_t)count * sizeof *got) == 0, "%s, %s: other bits",
                  n->name, what);
    free(got);
}

/* A plain model of the same list, from the file of m. */
static void same_from_file(const net *n, const char *what, scene *s, const float *want)
{
    char path[TEST_PATH];
    test_folder(path);
    test_join(path, path, "m.safetensors");
    TEST_OK(s->ctx, dt_model_save(s->m, NULL, path));
    dt_module *m = make_model(s->ctx, n->layers);
    TEST_OK(s->ctx, dt_model_restore(m, path));
    same(n, what, s, m, want);
    dt_module_free(m);
}

/* ---- the forms ------------------------------------------------------------------------------- */

static float *prepared_answers(scene *s, int preset, bool recomputed, int64_t *n)
{
    dt_qat_options o = dt_qat_defaults();
    o.preset = preset;
    TEST_OK(s->ctx, dt_prepare(s->m, &o));
    s->m->recomputed = recomputed;
    train(s, 4);
    return answers(s, s->m, n);
}

START_TEST(forms_agree)
{
    const net *n = &nets[_i / 2];
    const int preset = _i % 2 == 0 ? DT_DEVICE_INT8 : DT_DEVICE_INT4;
    scene s, other;
    int64_t count;
    open_scene(&s, n, 1, UINT64_MAX);
    float *want = prepared_answers(&s, preset, false, &count);
    open_scene(&other, n, 3, DT_CPU_PLAIN);
    float *got = prepared_answers(&other, preset, true, &count);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += fabs((double)want[i]);
    ck_assert_msg(sum > 0, "%s: all outputs are 0", n->name);
    /* fp32 gradients of another set may differ in the last bits: codes of a step do not */
    for (int64_t i = 0; i < count; i++) {
        ck_assert_msg(fabsf(got[i] - want[i]) <= 0.1f, "%s: %g, %g", n->name, (double)got[i],
                      (double)want[i]);
    }
    close_scene(&other);
    same_from_file(n, "prepared, loaded", &s, want);
    TEST_OK(s.ctx, dt_convert(s.m, NULL, NULL));
    same(n, "converted", &s, s.m, want);
    same_from_file(n, "converted, loaded", &s, want);
    free(want);
    free(got);
    close_scene(&s);
}
END_TEST

/* ---- rounding with data ---------------------------------------------------------------------- */

static dt_status fetch(void *user, int64_t i, dt_tensor **out)
{
    (void)i;
    *out = user;
    return DT_OK;
}

/* Results of layers are coded tensors: kept between layers, or computed again, they give the same
 * codes. */
START_TEST(rounding_keeps_codes)
{
    const net *n = &nets[_i / 2];
    float *want = NULL;
    for (int kept = 0; kept < 2; kept++) {
        scene s;
        dt_ptq_options o = dt_ptq_defaults();
        dt_ptq_report report;
        int64_t count;
        open_scene(&s, n, 2, UINT64_MAX);
        free(prepared_answers(&s, _i % 2 == 0 ? DT_DEVICE_INT8 : DT_DEVICE_INT4, false, &count));
        o.rounding.rounder = DT_ROUND_GPTQ;
        if (kept == 0) o.cache = 0;
        TEST_OK(s.ctx, dt_ptq(s.m, NULL, &(dt_calibration){ 2, fetch, s.x }, &o, &report));
        if (kept == 0) want = answers(&s, s.m, &count);
        else same(n, "activations kept", &s, s.m, want);
        close_scene(&s);
    }
    free(want);
}
END_TEST

/* dt_alias and dt_detach of a coded tensor have its codes when it is gone. */
START_TEST(a_coded_tensor_has_copies)
{
    scene s;
    dt_device_range range = { NULL };
    dt_tensor *x, *alias;
    int8_t codes[16], copied[16];
    open_scene(&s, &nets[0], 1, UINT64_MAX);
    TEST_OK(s.ctx, dt_tensor_create(s.ctx, DT_F32, 1, (const int64_t[]){ 16 }, &x));
    TEST_OK(s.ctx, dt_fill_uniform(x, -1, 1));
    TEST_OK(s.ctx, dt_tensor_create(s.ctx, DT_F32, 1, (const int64_t[]){ 1 }, &range.scale));
    TEST_OK(s.ctx, dt_tensor_create(s.ctx, DT_I8, 1, (const int64_t[]){ 1 }, &range.zero_point));
    *(float *)dt_data_mut(range.scale) = 0.01f;
    dt_tensor *y = dt_device_quantize(s.t, x, &range);
    TEST_OK(s.ctx, dt_coded_read(y, codes));
    TEST_OK(s.ctx, dt_alias(y, &alias));
    TEST_OK(s.ctx, dt_coded_read(dt_detach(s.t, y), copied));
    ck_assert_mem_eq(copied, codes, sizeof codes);
    dt_drop(s.t, y);
    TEST_OK(s.ctx, dt_coded_read(alias, copied));
    ck_assert_mem_eq(copied, codes, sizeof codes);
    dt_tensor_free(alias);
    dt_tensor_free(x);
    dt_tensor_free(range.scale);
    dt_tensor_free(range.zero_point);
    close_scene(&s);
}
END_TEST

/* ---- channels that are nearly dead ----------------------------------------------------------- */

static double drawn(uint64_t *state, double least, double most)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return least + (most - least) * (double)(*state >> 40) * 0x1p-24;
}

/* Makes rows of weights and channels of norms small, or 0, and biases large. */
static dt_status deaden(void *user, const char *path, dt_tensor *x, dt_entry_kind entry)
{
    uint64_t *state = user;
    float *v = dt_data_mut(x);
    const int64_t rows = x->dims[0], columns = x->count / rows;
    const bool bias = strstr(path, ".bias") != NULL;
    if (entry != DT_PARAM) return DT_OK;
    for (int64_t r = 0; r < rows; r++) {
        const double kind = drawn(state, 0, 4);
        double by = kind < 1 ? pow(10, drawn(state, -12, 0)) : kind < 1.3 && x->rank > 1 ? 0 : 1;
        if (bias) by = kind < 1 ? pow(10, drawn(state, -2, 5)) : 1;
        for (int64_t k = 0; k < columns; k++) v[r * columns + k] *= (float)by;
    }
    return DT_OK;
}

/* They train, and have the same bits in every form. */
START_TEST(nearly_dead_channels)
{
    const net *n = &nets[_i];
    for (uint64_t seed = 0; seed < 4; seed++) {
        uint64_t state = 4 * (uint64_t)_i + seed;
        scene s;
        int64_t count;
        char text[64];
        open_scene(&s, n, 1, UINT64_MAX);
        TEST_OK(s.ctx, dt_module_visit(s.m, deaden, &state));
        const int preset = seed % 2 == 0 ? DT_DEVICE_INT8 : DT_DEVICE_INT4;
        float *want = prepared_answers(&s, preset, false, &count);
        snprintf(text, sizeof text, "seed %d, prepared, loaded", (int)seed);
        same_from_file(n, text, &s, want);
        TEST_OK(s.ctx, dt_convert(s.m, NULL, NULL));
        same(n, "nearly dead, converted", &s, s.m, want);
        same_from_file(n, "nearly dead, converted, loaded", &s, want);
        free(want);
        close_scene(&s);
    }
}
END_TEST

/* Data that are all 0, all one number, or tiny: results have tiny ranges, and the bits of all forms
 * and of a TFLite file are still the same (the interpreter refuses what LiteRT's kernels do not
 * support). */
START_TEST(constant_data)
{
    const net *n = &nets[_i];
    for (uint64_t seed = 0; seed < 4; seed++) {
        uint64_t state = 4 * (uint64_t)_i + seed;
        char path[TEST_PATH];
        scene s;
        int64_t count;
        int outs = 0;
        dt_export_difference d[DT_MAX_OUT];
        open_scene(&s, n, 1, UINT64_MAX);
        if (seed < 2) TEST_OK(s.ctx, dt_fill(s.x, seed == 0 ? 0 : drawn(&state, -3, 3)));
        else TEST_OK(s.ctx, dt_fill_uniform(s.x, -pow(10, drawn(&state, -9, -2)), 0));
        if (seed % 2 == 0) TEST_OK(s.ctx, dt_module_visit(s.m, deaden, &state));
        float *want =
            prepared_answers(&s, _i % 2 == 0 ? DT_DEVICE_INT8 : DT_DEVICE_INT4, false, &count);
        TEST_OK(s.ctx, dt_convert(s.m, NULL, NULL));
        same(n, "constant data, converted", &s, s.m, want);
        dt_recipe *r = read_model(s.ctx, n->layers);
        const dt_model_options *o = &dt_recipe_get(r)->model;
        const dt_model_info info = { .family = o->family, .options = o->options };
        test_folder(path);
        test_join(path, path, "m.tflite");
        TEST_OK(s.ctx, dt_export(s.m, &info, "tflite", NULL, path, NULL));
        TEST_OK(s.ctx, dt_export_verify(s.m, &info, path, d, &outs));
        for (int i = 0; i < outs; i++) {
            ck_assert_msg(d[i].equal == d[i].values, "%s, seed %d: %lld of %lld equal", n->name,
                          (int)seed, (long long)d[i].equal, (long long)d[i].values);
        }
        dt_recipe_free(r);
        free(want);
        close_scene(&s);
    }
}
END_TEST

/* All parameters have the same bits after training with any number of threads, and where backward
 * runs the network again. */
START_TEST(threads_and_checkpointing)
{
    const net *n = &nets[_i];
    const struct {
        int threads;
        bool recomputed;
    } ways[] = { { 1, false }, { 3, false }, { 1, true }, { 2, true } };
    float *want = NULL;
    for (int w = 0; w < DT__COUNT_OF(ways); w++) {
        scene s;
        int64_t count;
        open_scene(&s, n, ways[w].threads, UINT64_MAX);
        float *got = prepared_answers(&s, DT_DEVICE_INT8, ways[w].recomputed, &count);
        if (want == NULL) want = got;
        ck_assert_msg(memcmp(got, want, (size_t)count * sizeof *got) == 0,
                      "%s: %d threads, checkpointing %d: other bits", n->name, ways[w].threads,
                      (int)ways[w].recomputed);
        if (got != want) free(got);
        close_scene(&s);
    }
    free(want);
}
END_TEST

/* A converted network has the same codes on every set of kernels. */
START_TEST(sets_agree)
{
    const net *n = &nets[_i];
    const dt__kernel_set *set;
    char path[TEST_PATH];
    scene s;
    int64_t count;
    open_scene(&s, n, 1, UINT64_MAX);
    float *want = prepared_answers(&s, DT_DEVICE_INT4, false, &count);
    test_folder(path);
    test_join(path, path, "m.safetensors");
    TEST_OK(s.ctx, dt_convert(s.m, NULL, NULL));
    TEST_OK(s.ctx, dt_model_save(s.m, NULL, path));
    close_scene(&s);
    for (int i = 0; (set = dt__kernel_set_at(i)) != NULL; i++) {
        if (!dt__kernel_set_runs(set)) continue;
        open_scene(&s, n, 2, set->needs);
        TEST_OK(s.ctx, dt_model_restore(s.m, path));
        same(n, set->name, &s, s.m, want);
        close_scene(&s);
    }
    free(want);
}
END_TEST

/* ---- what it costs --------------------------------------------------------------------------- */

typedef struct told {
    int64_t rows, peaks, products;
    size_t flash, ram;
} told;

static void tell(void *user, const dt_cost_row *row)
{
    told *t = user;
    t->rows++;
    t->peaks += row->peak;
    t->products += row->multiply_adds;
    t->flash += row->flash;
    if (row->ram > t->ram) t->ram = row->ram;
    ck_assert(row->op[0] != '\0' && row->output.rank > 0);
}

/* The number behind a text in a file. */
static size_t number_behind(const char *text, const char *words)
{
    const char *at = strstr(text, words);
    ck_assert_msg(at != NULL, "no '%s'", words);
    return (size_t)strtoull(at + strlen(words), NULL, 10);
}

/* They are those of the exported file. */
START_TEST(costs_are_those_of_the_export)
{
    scene s;
    int64_t count;
    char folder[TEST_PATH], path[TEST_PATH];
    dt_costs costs;
    told t = { 0 };
    const net *n = &nets[_i];
    open_scene(&s, n, 1, UINT64_MAX);
    free(prepared_answers(&s, DT_DEVICE_INT4, false, &count));
    dt_recipe *r = read_model(s.ctx, n->layers);
    const dt_model_options *o = &dt_recipe_get(r)->model;
    const dt_model_info info = { .family = o->family, .options = o->options };
    ck_assert_int_eq(dt_export_costs(s.m, &info, tell, &t, &costs), DT_ERR_STATE);
    TEST_OK(s.ctx, dt_convert(s.m, NULL, NULL));
    TEST_OK(s.ctx, dt_export_costs(s.m, &info, tell, &t, &costs));
    test_folder(folder);
    test_join(folder, folder, "net");
    TEST_OK(s.ctx, dt_export(s.m, &info, "c", NULL, folder, NULL));
    test_join(path, folder, "net.h");
    char *header = test_read_file(path, NULL);
    ck_assert_uint_eq(number_behind(header, "#else\n#define NET_ARENA_BYTES "), costs.arena);
    ck_assert_uint_eq(number_behind(header, "#define NET_ARENA_BYTES "), costs.cmsis_arena);
    test_join(path, folder, "README.md");
    char *page = test_read_file(path, NULL);
    ck_assert_uint_eq(number_behind(page, "| flash | "), costs.flash);
    ck_assert_uint_eq(number_behind(page, "| multiply-adds | "), (size_t)t.products);
    ck_assert(costs.integers && t.products > 0);
    ck_assert_uint_eq(t.flash, costs.flash);
    ck_assert_int_eq(t.peaks, 1);
    ck_assert(t.ram <= costs.arena && 2 * t.ram > costs.arena);
    ck_assert_uint_eq(costs.input, (size_t)(n->channels * n->side * n->side));
    ck_assert_uint_eq(costs.output, (size_t)n->outputs);
    free(header);
    free(page);
    dt_recipe_free(r);
    close_scene(&s);
}
END_TEST

/* ---- layers that run twice ------------------------------------------------------------------- */

/* input -> a linear layer -> relu -> the same layer. */
static dt_module *make_twice(dt_ctx *ctx)
{
    dt_module *m, *layer, *act;
    TEST_OK(ctx, dt__graph_create(ctx, &dt__nn_graph, &m));
    TEST_OK(ctx, dt_linear_create(ctx, 6, 6, true, &layer));
    TEST_OK(ctx, dt_module_add(m, "layer", layer));
    TEST_OK(ctx, dt_activation_create(ctx, "relu", &act));
    TEST_OK(ctx, dt_module_add(m, "act", act));
    dt_module *const parts[] = { layer, act, layer };
    for (int i = 0; i < 3; i++) {
        const dt__graph_node node = {
            parts[i], 1, { i == 0 ? 0 : DT__GRAPH_FIRST + i - 1 }, false
        };
        TEST_OK(ctx, dt__graph_append(m, &node));
    }
    const int64_t last = DT__GRAPH_FIRST + 2;
    TEST_OK(ctx, dt__graph_finish(m, 1, &last, 1));
    return m;
}

START_TEST(a_layer_may_run_twice)
{
    scene s = { 0 };
    int64_t count;
    char path[TEST_PATH];
    const net n = { .name = "twice" };
    const int64_t dims[] = { 5, 6 };
    const dt_shape in = { 1, { 6 } };
    dt_qat_options o = dt_qat_defaults();
    ck_assert_int_eq(dt_ctx_create(&s.ctx, NULL), DT_OK);
    TEST_OK(s.ctx, dt_tape_create(s.ctx, &s.t));
    s.m = make_twice(s.ctx);
    TEST_OK(s.ctx, dt_tensor_create(s.ctx, DT_F32, 2, dims, &s.x));
    TEST_OK(s.ctx, dt_fill_uniform(s.x, -1, 1));
    TEST_OK(s.ctx, dt_tensor_create(s.ctx, DT_F32, 2, dims, &s.y));
    o.preset = DT_DEVICE_INT8;
    o.inputs = &in;
    o.n_inputs = 1;
    TEST_OK(s.ctx, dt_prepare(s.m, &o));
    ck_assert_ptr_nonnull(dt_module_at(s.m, "layer.output"));
    ck_assert_ptr_nonnull(dt_module_at(s.m, "layer.output2"));
    train(&s, 3);
    float *want = answers(&s, s.m, &count);
    TEST_OK(s.ctx, dt_convert(s.m, NULL, NULL));
    same(&n, "converted", &s, s.m, want);
    test_folder(path);
    test_join(path, path, "m.safetensors");
    TEST_OK(s.ctx, dt_model_save(s.m, NULL, path));
    dt_module *again = make_twice(s.ctx);
    TEST_OK(s.ctx, dt_model_restore(again, path));
    same(&n, "loaded", &s, again, want);
    dt_module_free(again);
    free(want);
    close_scene(&s);
}
END_TEST

/* ---- norms ----------------------------------------------------------------------------------- */

/* The running mean of the first channel. */
static float mean_of(const scene *s)
{
    const dt_tensor *mean = dt_param(s->m, "stem.norm.running_mean");
    ck_assert_ptr_nonnull(mean);
    return ((const float *)dt_data(mean))[0];
}

/* In training norms follow batches as ranges do: until they are frozen, not in evaluation, and not
 * where ranges alone are calibrated. */
START_TEST(folded_norms_follow_batches)
{
    scene s;
    int64_t count;
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_DEVICE_INT8;
    open_scene(&s, &nets[0], 1, UINT64_MAX);
    TEST_OK(s.ctx, dt_prepare(s.m, &o));
    ck_assert(mean_of(&s) == 0.0f);
    TEST_OK(s.ctx, dt_observe(s.m, true));
    dt_train(s.m, false);
    free(answers(&s, s.m, &count));
    TEST_OK(s.ctx, dt_observe(s.m, false));
    ck_assert(mean_of(&s) == 0.0f);
    train(&s, 1);
    const float one = mean_of(&s);
    ck_assert(one < 0.0f || one > 0.0f);
    free(answers(&s, s.m, &count));
    ck_assert(mean_of(&s) == one);
    train(&s, 1);
    const float two = mean_of(&s);
    ck_assert(two < one || two > one);
    dt_norms_freeze(s.m, true);
    train(&s, 1);
    ck_assert(mean_of(&s) == two);
    dt_norms_freeze(s.m, false);
    train(&s, 1);
    const float three = mean_of(&s);
    ck_assert(three < two || three > two);
    TEST_OK(s.ctx, dt_observers_freeze(s.m, true));
    train(&s, 1);
    ck_assert(mean_of(&s) == three);
    close_scene(&s);
}
END_TEST

/* The statistics of a network in float, which sees the same batch, with weights as they are. */
START_TEST(norms_are_those_of_float)
{
    scene s, plain;
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_DEVICE_INT8;
    open_scene(&s, &nets[0], 1, UINT64_MAX);
    open_scene(&plain, &nets[0], 1, UINT64_MAX);
    TEST_OK(s.ctx, dt_prepare(s.m, &o));
    for (int i = 0; i < 30; i++) {
        for (int k = 0; k < 2; k++) {
            scene *of = k == 0 ? &s : &plain;
            dt_train(of->m, true);
            dt_forward(of->t, of->m, of->x);
            TEST_OK(of->ctx, dt_tape_status(of->t));
            dt_tape_reset(of->t);
        }
    }
    const dt_tensor *a = dt_param(s.m, "stem.norm.running_var");
    const dt_tensor *b = dt_param(plain.m, "stem.norm.running_var");
    for (int64_t i = 0; i < a->count; i++) {
        const double got = (double)((const float *)dt_data(a))[i];
        const double want = (double)((const float *)dt_data(b))[i];
        ck_assert_msg(fabs(got - want) <= 0.03 * want, "channel %d: %g, not %g", (int)i, got, want);
    }
    close_scene(&plain);
    close_scene(&s);
}
END_TEST

/* ---- ranges that a recipe gives ------------------------------------------------------------- */

static dt_qat_rule give(const char *match, double low, double high)
{
    dt_qat_rule r = { .match = match };
    r.activation.quant.range = DT_RANGE_FIXED;
    r.activation.quant.low = low;
    r.activation.quant.high = high;
    r.activation.has_range = r.activation.has_low = r.activation.has_high = true;
    return r;
}

static void check_range(const scene *s, const char *path, double scale, int zero)
{
    const dt__quantizer *q = dt__quantizer_of(dt_module_at(s->m, path));
    ck_assert_msg(q != NULL, "no range %s", path);
    ck_assert_msg(*(const float *)dt_data(q->scale) == (float)scale, "%s: %g, not %g", path,
                  (double)*(const float *)dt_data(q->scale), scale);
    ck_assert_int_eq(*(const int8_t *)dt_data(q->zero_point), zero);
}

START_TEST(fixed_ranges_stay)
{
    scene s;
    int64_t count;
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_DEVICE_INT8;
    o.rules[0] = give("input", -1, 1);
    o.rules[1] = give("stem", 0, 6);
    o.rules[2] = give("sum", -2, 3);
    o.n_rules = 3;
    open_scene(&s, &nets[0], 1, UINT64_MAX);
    TEST_OK(s.ctx, dt_prepare(s.m, &o));
    for (int i = 0; i < 2; i++) {
        check_range(&s, "input", 2.0 / 255, 0);
        check_range(&s, "stem.conv.output", 6.0 / 255, -128);
        check_range(&s, "sum.output", 5.0 / 255, -26);
        train(&s, 2);
    }
    float *want = answers(&s, s.m, &count);
    same_from_file(&nets[0], "prepared, loaded", &s, want);
    TEST_OK(s.ctx, dt_convert(s.m, NULL, NULL));
    same(&nets[0], "converted", &s, s.m, want);
    same_from_file(&nets[0], "converted, loaded", &s, want);
    free(want);
    close_scene(&s);
}
END_TEST

static void refuse(const net *n, const dt_qat_options *o, dt_status status, const char *words)
{
    scene s;
    open_scene(&s, n, 1, UINT64_MAX);
    const dt_status got = dt_prepare(s.m, o);
    ck_assert_msg(got == status, "'%s' expected, status is %d", words, got);
    ck_assert_msg(strstr(dt_error(s.ctx), words) != NULL, "%s", dt_error(s.ctx));
    ck_assert(!dt_is_prepared(s.m));
    train(&s, 1); /* it is as before */
    close_scene(&s);
}

START_TEST(ranges_that_do_not_fit)
{
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_DEVICE_INT8;
    o.n_rules = 3;
    o.rules[0] = give("input", 0, 1);
    o.rules[1] = give("left", 0, 1e-12);
    o.rules[2] = give("right", 0, 1);
    refuse(&nets[1], &o, DT_ERR_CONFIG, "left"); /* the operands of a concatenation disagree */
    o.n_rules = 2;
    o.rules[0] = give("input", 0, 1e6);
    o.rules[1] = give("stem", 0, 1e-6);
    refuse(&nets[0], &o, DT_ERR_NUMERIC, "in stem.conv");
    o.n_rules = 4;
    o.rules[1] = give("stem", 0, 1e6);
    o.rules[2] = give("point", 0, 1e6);
    o.rules[3] = give("sum", 0, 1e-3);
    refuse(&nets[0], &o, DT_ERR_NUMERIC, "in sum");
    o.n_rules = 1;
    o.rules[0] = give("stem", 1, 2);
    refuse(&nets[0], &o, DT_ERR_CONFIG,
           "stem.conv.output: a fixed range requires low <= 0 <= high");
    o.rules[0] = give("stem", 0, INFINITY);
    refuse(&nets[0], &o, DT_ERR_CONFIG, "low <= 0 <= high");
    o.rules[0] = give("nothing", 0, 1);
    refuse(&nets[0], &o, DT_ERR_CONFIG, "'nothing' matches no");
    o.rules[0] = give("stem", 0, 1);
    o.preset = DT_INT8_STATIC_INT8_WEIGHT;
    refuse(&nets[0], &o, DT_ERR_CONFIG, "a fixed range is for activations of presets device-int8");
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

START_TEST(one_error_names_all)
{
    static const char *const lists[] = {
        "  family: layers\n  input: [2, 8, 8]\n  layers:\n"
        "  - {conv2d: stem, out: 4, padding: 1}\n  - {hardsigmoid: smooth}\n"
        "  - {conv2d: next, out: 4, padding: 1, norm: group, activation: silu}\n  - flatten\n"
        "  - {linear: wide, out: 600}\n  - {softmax: shares}\n",
        "  family: layers\n  input: [12, 3]\n  layers:\n"
        "  - {conv1d: front, out: 4}\n  - {gru: cells, hidden: 5}\n  - {linear: head, out: 2}\n",
        "  family: layers\n  input: [7]\n  layers:\n"
        "  - {linear: first, out: 9}\n  - {relu: cut}\n  - {batch_norm1d: late}\n"
        "  - {linear: head, out: 2}\n",
    };
    static const char *const words[][4] = {
        { "hardsigmoid of smooth", "group_norm of next.norm", "silu of next.activation",
          "softmax of shares: a row has more than 511 elements" },
        { "recurrent_layer of cells.layers.0: its gates", "linear of head: its input must be", "",
          "" },
        { "batch_norm1d of late: a batch norm", "convolution or linear layer before it", "", "" },
    };
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_DEVICE_INT4;
    for (int i = 0; i < DT__COUNT_OF(lists); i++) {
        dt_ctx *ctx;
        ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
        dt_module *m = make_model(ctx, lists[i]);
        ck_assert_int_eq(dt_prepare(m, &o), DT_ERR_UNSUPPORTED);
        for (int k = 0; k < 4; k++) {
            ck_assert_msg(strstr(dt_error(ctx), words[i][k]) != NULL, "no '%s': %s", words[i][k],
                          dt_error(ctx));
        }
        ck_assert(!dt_is_prepared(m));
        dt_module_free(m);
        dt_ctx_free(ctx);
    }
}
END_TEST

/* Functions and means have integers without any weight. */
START_TEST(no_weights)
{
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    dt_module *m = make_model(ctx, "  family: layers\n  input: [2, 6, 6]\n  layers:\n"
                                   "  - {hardswish: bent}\n  - {mean: all, dims: [2, 3]}\n");
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_DEVICE_INT8;
    TEST_OK(ctx, dt_prepare(m, &o));
    ck_assert(dt__device_of(m) != NULL);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(language_models_are_refused)
{
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    dt_module *m = make_model(ctx, "  family: gpt\n  vocab: 11\n  context: 8\n  layers: 1\n"
                                   "  heads: 2\n  width: 8\n");
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_DEVICE_INT8;
    ck_assert_int_eq(dt_prepare(m, &o), DT_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(dt_error(ctx), "a language model (gpt) cannot be computed by integers "
                                        "alone") != NULL,
                  "%s", dt_error(ctx));
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_device_nets_suite(void)
{
    Suite *s = suite_create("device_nets");
    TCase *c = tcase_create("nets");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, forms_agree, 0, 2 * DT__COUNT_OF(nets));
    tcase_add_loop_test(c, rounding_keeps_codes, 0, 2 * DT__COUNT_OF(nets));
    tcase_add_test(c, a_coded_tensor_has_copies);
    tcase_add_loop_test(c, nearly_dead_channels, 0, DT__COUNT_OF(nets));
    tcase_add_loop_test(c, constant_data, 0, DT__COUNT_OF(nets));
    tcase_add_loop_test(c, threads_and_checkpointing, 0, DT__COUNT_OF(nets));
    tcase_add_loop_test(c, sets_agree, 0, DT__COUNT_OF(nets));
    tcase_add_loop_test(c, costs_are_those_of_the_export, 0, DT__COUNT_OF(nets));
    tcase_add_test(c, a_layer_may_run_twice);
    tcase_add_test(c, folded_norms_follow_batches);
    tcase_add_test(c, norms_are_those_of_float);
    tcase_add_test(c, fixed_ranges_stay);
    tcase_add_test(c, ranges_that_do_not_fit);
    tcase_add_test(c, one_error_names_all);
    tcase_add_test(c, no_weights);
    tcase_add_test(c, language_models_are_refused);
    suite_add_tcase(s, c);
    return s;
}
