/* Family layers: lists give the same bits as the families that they can express, through training
 * in float, QAT and conversion; a list's file is complete; every error has its position. */
#include "testing.h"

#include "nn/module.h"

#include <detent/experimental/io.h>
#include <detent/experimental/layers.h>
#include <detent/optim.h>
#include <detent/experimental/train.h>

#include <stdio.h>

#define DATA "data: {format: digits}\ntrain: {epochs: 1}\n"

/* Reads `model: ...` and creates the model. */
static dt_recipe *read_recipe(dt_ctx *ctx, const char *model, char *text, size_t size)
{
    dt_recipe *r = NULL;
    ck_assert_int_lt(snprintf(text, size, "run: {dir: r}\nmodel:\n%s" DATA, model), (int)size);
    const dt_recipe_source source = {
        .path = "list.yaml", .text = text, .bytes = strlen(text), .leave_files = true
    };
    const dt_status s = dt_recipe_read(ctx, &source, &r);
    ck_assert_msg(s == DT_OK || s == DT_ERR_CONFIG, "%s", dt_error(ctx));
    return r;
}

static dt_module *make_model(dt_ctx *ctx, const char *model, dt_recipe **recipe)
{
    static char text[1 << 14];
    dt_module *m;
    *recipe = read_recipe(ctx, model, text, sizeof text);
    ck_assert_msg(dt_recipe_error_count(*recipe) == 0, "%s", dt_recipe_error_at(*recipe, 0));
    const dt_model_options *o = &dt_recipe_get(*recipe)->model;
    TEST_OK(ctx, o->family->create(ctx, o->options, &m));
    return m;
}

/* ---- the same bits as the families ----------------------------------------------------------- */

typedef struct pair {
    const char *name;
    int64_t channels, side; /* of the images */
    const char *family, *list;
} pair;

static const pair pairs[] = {
    { "mlp", 1, 12,
      "  family: mlp\n  sizes: [144, 32, 24, 10]\n  activation: gelu\n  norm: batch\n"
      "  dropout: 0.2\n",
      "  family: layers\n  input: [1, 12, 12]\n  layers:\n  - flatten\n"
      "  - {linear: layers.0, out: 32}\n  - {batch_norm1d: norms.0}\n  - gelu\n"
      "  - {dropout: d0, p: 0.2}\n"
      "  - {linear: layers.1, out: 24}\n  - {batch_norm1d: norms.1}\n  - gelu\n"
      "  - {dropout: d1, p: 0.2}\n  - {linear: head, out: 10}\n" },
    { "cnn", 3, 12,
      "  family: cnn\n  image: [3, 12, 12]\n  blocks:\n"
      "  - {out: 8, pool: max}\n  - {out: 8, groups: 8, norm: group, activation: silu}\n"
      "  - {out: 12, norm: none, kernel: 1, padding: 0, pool: avg}\n  head: average\n"
      "  dropout: 0.1\n  outputs: 10\n",
      "  family: layers\n  input: [3, 12, 12]\n  layers:\n"
      "  - {conv2d: blocks.0, out: 8, padding: 1, norm: batch, activation: relu}\n  - max_pool2d\n"
      "  - {conv2d: blocks.1, out: 8, groups: 8, padding: 1, norm: group, activation: silu}\n"
      "  - {conv2d: blocks.2, out: 12, kernel: 1, activation: relu}\n  - avg_pool2d\n"
      "  - global_avg_pool2d\n  - flatten\n  - {dropout: drop, p: 0.1}\n"
      "  - {linear: head, out: 10}\n" },
    { "resnet", 3, 8,
      "  family: resnet\n  image: [3, 8, 8]\n  depth: 6\n  widths: [8, 12]\n  shortcut: conv\n"
      "  outputs: 10\n",
      "  family: layers\n  input: [3, 8, 8]\n  layers:\n"
      "  - {conv2d: stem, out: 8, padding: 1, norm: batch, activation: relu}\n"
      "  - {conv2d: blocks.0.conv1, out: 8, padding: 1, bias: false}\n"
      "  - {batch_norm2d: blocks.0.norm1}\n  - relu\n"
      "  - {conv2d: blocks.0.conv2, out: 8, padding: 1, bias: false}\n"
      "  - {batch_norm2d: blocks.0.norm2}\n  - {add: sum0, from: [blocks.0.norm2, stem]}\n"
      "  - {relu: out0}\n"
      "  - {conv2d: blocks.1.down, out: 12, kernel: 1, stride: 2, norm: batch}\n"
      "  - {conv2d: blocks.1.conv1, out: 12, padding: 1, stride: 2, bias: false, from: out0}\n"
      "  - {batch_norm2d: blocks.1.norm1}\n  - relu\n"
      "  - {conv2d: blocks.1.conv2, out: 12, padding: 1, bias: false}\n"
      "  - {batch_norm2d: blocks.1.norm2}\n  - {add: sum1, from: [blocks.1.norm2, blocks.1.down]}\n"
      "  - relu\n  - global_avg_pool2d\n  - flatten\n  - {linear: head, out: 10}\n" },
    { "unet", 1, 8, "  family: unet\n  image: [1, 8, 8]\n  widths: [6, 8, 10]\n  outputs: 1\n",
      "  family: layers\n  input: [1, 8, 8]\n  layers:\n"
      "  - {conv2d: down.0, out: 6, padding: 1, norm: batch, activation: relu}\n  - max_pool2d\n"
      "  - {conv2d: down.1, out: 8, padding: 1, norm: batch, activation: relu}\n  - max_pool2d\n"
      "  - {conv2d: down.2, out: 10, padding: 1, norm: batch, activation: relu}\n"
      "  - {conv_transpose2d: up.1.tconv, out: 8, kernel: 2, stride: 2}\n"
      "  - {concat: up.1.join, from: [up.1.tconv, down.1]}\n"
      "  - {conv2d: up.1, out: 8, padding: 1, norm: batch, activation: relu}\n"
      "  - {conv_transpose2d: up.0.tconv, out: 6, kernel: 2, stride: 2}\n"
      "  - {concat: up.0.join, from: [up.0.tconv, down.0]}\n"
      "  - {conv2d: up.0, out: 6, padding: 1, norm: batch, activation: relu}\n"
      "  - {conv2d: out, out: 1, kernel: 1}\n" },
};

#define STEPS 4

/* A model in a context of its own, so that random streams are equal. */
typedef struct side {
    dt_ctx *ctx;
    dt_recipe *recipe;
    dt_module *m;
    dt_optimizer *o;
    dt_tape *t;
    dt_tensor *x;
} side;

static side open_side(const pair *p, const char *model)
{
    side s = { .ctx = NULL };
    const int64_t dims[] = { 5, p->channels, p->side, p->side };
    TEST_OK(NULL, dt_ctx_create(&s.ctx, NULL));
    dt_seed(s.ctx, 3);
    s.m = make_model(s.ctx, model, &s.recipe);
    TEST_OK(s.ctx, dt_tape_create(s.ctx, &s.t));
    TEST_OK(s.ctx, dt_tensor_create(s.ctx, DT_F32, 4, dims, &s.x));
    return s;
}

static void close_side(side *s)
{
    dt_optimizer_free(s->o);
    dt_tape_free(s->t);
    dt_tensor_free(s->x);
    dt_module_free(s->m);
    dt_recipe_free(s->recipe);
    dt_ctx_free(s->ctx);
}

static void train(side *s, uint64_t seed)
{
    if (s->o == NULL) TEST_OK(s->ctx, dt_optimizer_create(s->m, NULL, &s->o));
    dt_seed(s->ctx, seed);
    for (int i = 0; i < STEPS; i++) {
        TEST_OK(s->ctx, dt_fill_uniform(s->x, -1, 1));
        dt_tensor *y = dt_forward(s->t, s->m, s->x);
        dt_tensor *loss = dt_mean(s->t, dt_mul(s->t, y, y), NULL);
        ck_assert_msg(loss != NULL, "%s", dt_error(s->ctx));
        TEST_OK(s->ctx, dt_backward(s->t, loss, NULL));
        dt_tape_reset(s->t);
        TEST_OK(s->ctx, dt_optimizer_step(s->o, s->t, 0.01));
        dt_zero_grad(s->m);
    }
}

static void check_outputs(const pair *p, side *a, side *b, const char *phase)
{
    dt_tensor *y[2];
    side *const both[] = { a, b };
    for (int i = 0; i < 2; i++) {
        dt_train(both[i]->m, false);
        dt_no_grad(both[i]->t, true);
        y[i] = dt_forward(both[i]->t, both[i]->m, both[i]->x);
        ck_assert_msg(y[i] != NULL, "%s: %s", p->name, dt_error(both[i]->ctx));
    }
    ck_assert_int_eq(y[0]->count, y[1]->count);
    ck_assert_msg(memcmp(dt_data(y[0]), dt_data(y[1]), (size_t)y[0]->count * 4) == 0,
                  "%s, %s: other bits than the family's", p->name, phase);
    for (int i = 0; i < 2; i++) {
        dt_tape_reset(both[i]->t);
        dt_no_grad(both[i]->t, false);
        dt_train(both[i]->m, true);
    }
}

/* Loads one file of tensors into both. */
static void copy_state(side *from, side *to)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "state.safetensors");
    TEST_OK(from->ctx, dt_model_save(from->m, NULL, path));
    TEST_OK(to->ctx, dt_model_load_weights(to->m, path));
}

START_TEST(lists_have_the_bits_of_families)
{
    static const int presets[] = { DT_INT8_DYNAMIC_INT4_WEIGHT, DT_INT4_WEIGHT };
    const pair *p = &pairs[_i / 2];
    side a = open_side(p, p->family), b = open_side(p, p->list);
    copy_state(&a, &b);
    train(&a, 11);
    train(&b, 11);
    check_outputs(p, &a, &b, "trained in float");
    dt_qat_options qat = dt_qat_defaults();
    qat.preset = presets[_i % 2];
    TEST_OK(a.ctx, dt_prepare(a.m, &qat));
    TEST_OK(b.ctx, dt_prepare(b.m, &qat));
    train(&a, 12);
    train(&b, 12);
    check_outputs(p, &a, &b, "QAT");
    TEST_OK(a.ctx, dt_convert(a.m, NULL, NULL));
    TEST_OK(b.ctx, dt_convert(b.m, NULL, NULL));
    check_outputs(p, &a, &b, "converted");
    close_side(&a);
    close_side(&b);
}
END_TEST

/* ---- files ---------------------------------------------------------------------------------- */

static const char repeated[] =
    "  family: layers\n  input: {left: [4, 16], right: [4, 16]}\n  layers:\n"
    "  - {add: both, from: [left, right]}\n"
    "  - {conv1d: stem, out: 8, padding: 1, norm: batch, activation: relu}\n"
    "  - repeat: 3\n    name: block\n    layers:\n"
    "    - {conv1d: dw, out: 8, groups: 8, padding: 1}\n    - {conv1d: pw, out: 8, kernel: 1}\n"
    "    - {add: sum, from: [pw, stem]}\n    - silu\n"
    "  - {flatten: flat}\n  - {linear: head, out: 3}\n"
    "  - {linear: side, out: 2, from: flat}\n  output: [head, side]\n";

static void run_both(dt_ctx *ctx, dt_module *m, float *values, int n)
{
    dt_tensor *x[2], *y[2];
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_seed(ctx, 5);
    dt_train(m, false);
    for (int i = 0; i < 2; i++) {
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 3, (const int64_t[]){ 2, 4, 16 }, &x[i]));
        TEST_OK(ctx, dt_fill_uniform(x[i], -1, 1));
    }
    TEST_OK(ctx, dt_forward_n(t, m, x, 2, y, 2));
    ck_assert_int_eq(y[0]->count + y[1]->count, n);
    memcpy(values, dt_data(y[0]), (size_t)y[0]->count * sizeof *values);
    memcpy(values + y[0]->count, dt_data(y[1]), (size_t)y[1]->count * sizeof *values);
    dt_tape_free(t);
    for (int i = 0; i < 2; i++) dt_tensor_free(x[i]);
}

/* A prepared or converted list comes back from its file alone. */
START_TEST(files_need_nothing_else)
{
    char folder[TEST_PATH], path[TEST_PATH];
    float before[10], after[10];
    dt_ctx *ctx;
    dt_recipe *r;
    dt_module *m, *again;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    m = make_model(ctx, repeated, &r);
    const dt_model_options *o = &dt_recipe_get(r)->model;
    const dt_model_info info = { .family = o->family, .options = o->options };
    dt_qat_options qat = dt_qat_defaults();
    TEST_OK(ctx, dt_prepare(m, &qat));
    if (_i == 1) TEST_OK(ctx, dt_convert(m, NULL, NULL));
    run_both(ctx, m, before, 10);
    test_folder(folder);
    test_join(path, folder, "model.safetensors");
    TEST_OK(ctx, dt_model_save(m, &info, path));
    dt_model_info found;
    TEST_OK(ctx, dt_model_load(ctx, path, &again, &found));
    ck_assert_str_eq(found.family->name, "layers");
    run_both(ctx, again, after, 10);
    ck_assert_mem_eq(before, after, sizeof before);
    ck_assert_ptr_nonnull(dt_module_at(again, "block.2.pw"));
    dt_model_info_free(ctx, &found);
    dt_module_free(again);
    dt_module_free(m);
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- layers that no family has --------------------------------------------------------------- */

typedef struct net {
    const char *list;
    int rank;
    int64_t input[3], outputs;
    const char *path; /* of a parameter, with `count` elements */
    int64_t count;
} net;

static const net nets[] = {
    { "  family: layers\n  input: [4, 13, 11]\n  layers:\n"
      "  - {conv2d: stem, out: 8, stride: 2, padding: 1, norm: batch, activation: hardswish}\n"
      "  - {squeeze_excitation: se, squeeze: 3, gate: hardsigmoid}\n"
      "  - {conv2d: dw, out: 8, groups: 8, padding: 1, activation: relu6}\n"
      "  - {prelu: slope}\n  - {max_pool2d: max, ceil_mode: true}\n"
      "  - {adaptive_avg_pool2d: pool, size: [3, 2]}\n  - flatten\n"
      "  - {linear: head, out: 6, activation: elu}\n  - softmax\n",
      3,
      { 4, 13, 11 },
      6,
      "se.fc1.weight",
      24 },
    { "  family: layers\n  input: [3, 40]\n  layers:\n  - {conv1d: conv, out: 4, kernel: 3}\n"
      "  - {max_pool1d: max, kernel: 3, stride: 2, padding: 1, ceil_mode: true}\n"
      "  - {avg_pool1d: mean}\n  - {upsample_nearest: up}\n"
      "  - {adaptive_avg_pool1d: pool, size: 6}\n  - {prelu: slope, shared: true}\n"
      "  - global_avg_pool1d\n  - flatten\n",
      2,
      { 3, 40 },
      4,
      "slope.weight",
      1 },
    { "  family: layers\n  input: [3, 5, 6]\n  layers:\n  - {affine: channels, shape: [3, 1, 1]}\n"
      "  - {affine: plane, shape: [3, 5, 6], bias: false}\n"
      "  - {affine: lines, shape: [5, 1], scale: false}\n  - flatten\n",
      3,
      { 3, 5, 6 },
      90,
      "plane.weight",
      90 },
};

START_TEST(layers_of_networks_for_devices)
{
    const net *n = &nets[_i];
    char folder[TEST_PATH], path[TEST_PATH];
    dt_ctx *ctx;
    dt_tape *t;
    dt_recipe *r;
    dt_tensor *x;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_module *m = make_model(ctx, n->list, &r), *loaded;
    ck_assert_int_eq(dt_count(dt_param(m, n->path)), n->count);
    dt_train(m, false);
    dt_no_grad(t, true);
    int64_t dims[4] = { 2 };
    memcpy(dims + 1, n->input, sizeof n->input);
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 1 + n->rank, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    const dt_tensor *y = dt_forward(t, m, x);
    ck_assert_msg(y != NULL, "%s", dt_error(ctx));
    ck_assert_int_eq(dt_count(y), 2 * n->outputs);
    const dt_model_options *o = &dt_recipe_get(r)->model;
    const dt_model_info info = { .family = o->family, .options = o->options };
    test_folder(folder);
    test_join(path, folder, "model.safetensors");
    TEST_OK(ctx, dt_model_save(m, &info, path));
    TEST_FAILS(ctx, DT_ERR_IO, "none", dt_model_load(ctx, "none", &loaded, NULL));
    TEST_OK(ctx, dt_model_load(ctx, path, &loaded, NULL)); /* whatever failed before */
    dt_train(loaded, false);
    const dt_tensor *again = dt_forward(t, loaded, x);
    ck_assert_msg(again != NULL, "%s", dt_error(ctx));
    ck_assert_mem_eq(dt_data(y), dt_data(again), (size_t)(2 * n->outputs) * sizeof(float));
    dt_tensor_free(x);
    dt_tape_free(t);
    dt_module_free(loaded);
    dt_module_free(m);
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- faults --------------------------------------------------------------------------------- */

typedef struct fault {
    const char *layers;
    const char *says[3]; /* in the order of the file */
} fault;

static const fault faults[] = {
    { "  - {linear: a, out: 3, from: stm}\n",
      { "'model.layers.0.from.0': no layer before this one "
        "is called 'stm' (a layer reads earlier ones: "
        "input)" } },
    { "  - {linear: a, out: 3}\n  - {add: s, from: [a, s]}\n",
      { "'model.layers.1.from.1': no layer before this one is called 's'" } },
    { "  - {linear: a, out: 3}\n  - {linear: b, out: 4, from: input}\n  - {add: s, from: [a, b]}\n",
      { "layer 's' does not fit [4,3] of a and [4,4] of b: add" } },
    { "  - {linear: a, out: 3}\n  - {linear: b, out: 4, from: input}\n", { "nothing reads 'a'" } },
    { "  - {slice: s, dim: 1, start: 2, stop: 2}\n",
      { "layer 's' does not fit [4,6] of input: no element would be left" } },
    { "  - {slice: s, dim: 2, stop: -6}\n", { "no element would be left" } },
    { "  - {linear: a, out: 3}\n  - {linear: a, out: 4}\n",
      { "the name 'a' is taken by 'layers.0'" } },
    { "  - {linear: a, out: 3}\n  - {linear: a.b, out: 4}\n",
      { "the name 'a.b' lies inside of another layer" } },
    { "  - {linear: a..b, out: 3}\n", { "the name 'a..b' must have letters between its dots" } },
    { "  - {conv2d: a, out: 3}\n", { "conv2d reads examples of 3 dimensions, not [4,6]" } },
    { "  - {squeeze_excitation: a, squeeze: 2}\n",
      { "squeeze_excitation reads examples of 3 dimensions, not [4,6]" } },
    { "  - {adaptive_avg_pool1d: a}\n", { "missing key 'model.layers.0.size'" } },
    { "  - {max_pool1d: a, kernel: 7}\n",
      { "layer 'a' does not fit [4,6] of input: max_pool1d: a window of 7 does not fit length "
        "6" } },
    { "  - {softmax: a, dim: 3}\n", { "dimension 3" } },
    { "  - {linear: a, out: 3}\n  - {add: s}\n",
      { "layer 's' (add) reads at least 2 layers, not "
        "1" } },
    { "  - {linear: a, out: 3, from: [input, input]}\n",
      { "layer 'a' (linear) reads 1 layer, not 2" } },
    { "  - {gru: a, hidden: 3, dropout: 0.5}\n", { "gru: dropout 0.5 has no effect" } },
    { "  - {gru: a, hidden: 3, last: true}\n  - {lstm: b, hidden: 2}\n",
      { "layer 'b' does not fit [3] of a: lstm reads examples of 2 dimensions, not [3]" } },
    { "  - {linaer: a, out: 3}\n",
      { "'model.layers.0': there is no 'linaer' (did you mean "
        "'linear'?)" } },
    { "  - rleu\n", { "there is no 'rleu' (did you mean 'relu'?)" } },
    { "  - [linear]\n", { "'model.layers.0' requires a name or a map" } },
    { "  - {linear: a, out: 3, ouput: 3}\n", { "unknown key 'ouput' in 'model.layers.0'" } },
    { "  - {linear: a}\n", { "missing key 'model.layers.0.out'" } },
    { "  - repeat: 2\n    name: r\n    layers:\n    - {linear: a, out: 3, from: x}\n",
      { "'model.layers.0.layers.0.from.0': no layer before this one is called 'x'" } },
    { "  - repeat: 2\n    name: r\n    layers:\n    - {linear: a, out: 3}\n"
      "    - {linear: b, out: 3, from: input}\n",
      { "'model.layers.0.layers.0': nothing reads 'a'" } },
    { "  - {linear: a, out: 3}\n  - {permute: p, dims: [0, 2, 1]}\n  - {conv1d: c, out: 2, "
      "kernel: 9}\n  - {linear: z, out: 2, from: q}\n",
      { "layer 'c' does not fit [3,4] of p", "no layer before this one is called 'q'" } },
    { "  - {linear: a, out: 3}\n  output: [b, a]\n",
      { "'model.output.0': no layer before this one "
        "is called 'b'" } },
};

START_TEST(every_fault_has_its_place)
{
    char model[2048], text[4096];
    const fault *f = &faults[_i];
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    snprintf(model, sizeof model, "  family: layers\n  input: [4, 6]\n  layers:\n%s", f->layers);
    dt_recipe *r = read_recipe(ctx, model, text, sizeof text);
    int n = 0;
    while (n < 3 && f->says[n] != NULL) n++;
    ck_assert_msg(dt_recipe_error_count(r) == n, "%d errors, the first: %s",
                  dt_recipe_error_count(r), dt_recipe_error_at(r, 0));
    for (int i = 0; i < n; i++) {
        const char *line = dt_recipe_error_at(r, i);
        ck_assert_msg(strstr(line, f->says[i]) != NULL, "%s", line);
        ck_assert_msg(strncmp(line, "list.yaml:", 10) == 0 && line[10] > '4', "%s", line);
    }
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

/* An input has at most one dimension less than a tensor: the batch is the first. */
START_TEST(inputs_have_1_to_7_dimensions)
{
    static const char *const inputs[] = { "[2]", "[1, 1, 1, 1, 1, 1, 2]",
                                          "[1, 1, 1, 1, 1, 1, 1, 2]" };
    char model[256], text[512];
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    for (int i = 0; i < 3; i++) {
        snprintf(model, sizeof model, "  family: layers\n  input: %s\n  layers:\n  - relu\n",
                 inputs[i]);
        dt_recipe *r = read_recipe(ctx, model, text, sizeof text);
        ck_assert_int_eq(dt_recipe_error_count(r), i == 2);
        if (i == 2) {
            const char *line = dt_recipe_error_at(r, 0);
            ck_assert_msg(strstr(line, "'input' has 8 dimensions; it can have 1 to 7"), "%s", line);
        }
        dt_recipe_free(r);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* The same list from C. */
START_TEST(lists_can_be_written_in_c)
{
    dt_linear_layer up, down;
    dt_plain_layer relu;
    dt_ctx *ctx;
    dt_module *m;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_layer_defaults(ctx, dt_layer_kind("linear"), &up));
    TEST_OK(ctx, dt_layer_defaults(ctx, dt_layer_kind("relu"), &relu));
    down = up;
    up.out = 8;
    down.out = 2;
    down.head.name = "down";
    dt_list_item list[] = { { dt_layer_kind("linear"), &up },
                            { dt_layer_kind("relu"), &relu },
                            { dt_layer_kind("linear"), &down } };
    dt_layers_options o = { .input = { .n = 1, .shape = { { 1, { 5 } } } }, .layers = { 3, list } };
    TEST_OK(ctx, dt_layers_create(ctx, &o, &m));
    ck_assert_int_eq(dt_param_count(m), 5 * 8 + 8 + 8 * 2 + 2);
    ck_assert_ptr_nonnull(dt_module_at(m, "linear_0"));
    ck_assert_ptr_nonnull(dt_module_at(m, "down"));
    dt_module_free(m);
    down.head.from = (dt_strings){ 1, { "nothing" } };
    TEST_FAILS(ctx, DT_ERR_ARG, "layers.2.from.0: no layer before this one is called 'nothing'",
               dt_layers_create(ctx, &o, &m));
    ck_assert_ptr_null(m);
    down.head.from.n = 0;
    down.after.activation = 99;
    TEST_FAILS(ctx, DT_ERR_ARG, "'activation' is choice 99", dt_layers_create(ctx, &o, &m));
    down.after.activation = up.after.activation;
    down.after.norm = -1;
    TEST_FAILS(ctx, DT_ERR_ARG, "'norm' is choice -1", dt_layers_create(ctx, &o, &m));
    list[2].kind = NULL;
    TEST_FAILS(ctx, DT_ERR_ARG, "layers.2: it has no kind", dt_layers_create(ctx, &o, &m));
    dt_repeat_layers none = { .times = 0, .name = "r", .layers = { 1, list } };
    list[2] = (dt_list_item){ dt_layer_kind("repeat"), &none };
    TEST_FAILS(ctx, DT_ERR_ARG, "repeated 0 times", dt_layers_create(ctx, &o, &m));
    dt_ctx_free(ctx);
}
END_TEST

/* Shapes are inferred without the memory of the activations. */
START_TEST(shapes_need_no_memory)
{
    dt_ctx *ctx;
    dt_recipe *r;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt_module *m = make_model(ctx,
                              "  family: layers\n  input: [1, 1024, 1024]\n  layers:\n"
                              "  - {conv2d: a, out: 64, padding: 1}\n"
                              "  - {permute: p, dims: [0, 2, 3, 1]}\n"
                              "  - {reshape: flat, shape: [1048576, 64]}\n"
                              "  - {linear: b, out: 2}\n",
                              &r);
    ck_assert_uint_lt(dt_memory_of(ctx).peak, (size_t)1 << 20);
    dt_module_free(m);
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

/* Repetitions are units of activation checkpointing: the same gradients. */
START_TEST(repetitions_can_be_recomputed)
{
    const pair p = { "repeated", 4, 0, NULL,
                     "  family: layers\n  input: [4, 16]\n  layers:\n"
                     "  - {conv1d: stem, out: 8, padding: 1, norm: batch, activation: relu}\n"
                     "  - repeat: 3\n    name: block\n    layers:\n"
                     "    - {conv1d: dw, out: 8, groups: 8, padding: 1}\n"
                     "    - {conv1d: pw, out: 8, kernel: 1, norm: batch}\n"
                     "    - {add: sum, from: [pw, stem]}\n    - silu\n"
                     "  - flatten\n  - {linear: head, out: 3}\n" };
    side s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = open_side(&p, p.list);
        dt_tensor_free(s[i].x);
        TEST_OK(s[i].ctx,
                dt_tensor_create(s[i].ctx, DT_F32, 3, (const int64_t[]){ 5, 4, 16 }, &s[i].x));
        ck_assert_int_eq(dt_recompute(s[i].m, i == 1), 3);
        train(&s[i], 11);
    }
    check_outputs(&p, &s[0], &s[1], "recomputed");
    for (int i = 0; i < 2; i++) close_side(&s[i]);
}
END_TEST

static dt_status load_with(dt_ctx *ctx, void *path)
{
    dt_module *m = NULL;
    const dt_status s = dt_model_load(ctx, path, &m, NULL);
    dt_module_free(m);
    return s;
}

START_TEST(failing_allocations_leak_nothing)
{
    char folder[TEST_PATH], path[TEST_PATH];
    dt_ctx *ctx;
    dt_recipe *r;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt_module *m = make_model(ctx, repeated, &r);
    const dt_model_options *o = &dt_recipe_get(r)->model;
    const dt_model_info info = { .family = o->family, .options = o->options };
    test_folder(folder);
    test_join(path, folder, "model.safetensors");
    TEST_OK(ctx, dt_model_save(m, &info, path));
    dt_module_free(m);
    dt_recipe_free(r);
    dt_ctx_free(ctx);
    ck_assert_int_gt(test_every_allocation(load_with, path), 20);
}
END_TEST

Suite *test_layer_lists_suite(void)
{
    Suite *suite = suite_create("layer_lists");
    TCase *c = tcase_create("layer_lists");
    const int n = (int)(sizeof pairs / sizeof pairs[0]);
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, lists_have_the_bits_of_families, 0, 2 * n);
    tcase_add_loop_test(c, files_need_nothing_else, 0, 2);
    tcase_add_loop_test(c, layers_of_networks_for_devices, 0, (int)(sizeof nets / sizeof nets[0]));
    tcase_add_loop_test(c, every_fault_has_its_place, 0, (int)(sizeof faults / sizeof faults[0]));
    tcase_add_test(c, inputs_have_1_to_7_dimensions);
    tcase_add_test(c, lists_can_be_written_in_c);
    tcase_add_test(c, shapes_need_no_memory);
    tcase_add_test(c, repetitions_can_be_recomputed);
    tcase_add_test(c, failing_allocations_leak_nothing);
    suite_add_tcase(suite, c);
    return suite;
}
