/* Several inputs and outputs: joined arrays, packed examples and answers, runs by recipe and from
 * C, their files, and what is refused. */
#include "array_files.h"
#include "sample.h"

#include <detent/experimental/export.h>
#include <detent/experimental/io.h>
#include <detent/experimental/layers.h>
#include <detent/experimental/sweep.h>
#include <detent/experimental/train.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 96, LEFT = 6, RIGHT = 8, MOST_NAMES = 8 };

/* What the files hold. Both inputs are needed: the class is which of two sums is larger, the level
 * their difference. */
typedef struct sample_rows {
    float left[ROWS][LEFT], right[ROWS][2][4], level[ROWS][2];
    int32_t kind[ROWS];
    uint8_t bits[ROWS][3];
} sample_rows;

static float draw(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U;
    return (float)(*state >> 8) / (float)(1 << 23) - 1;
}

static void fill_rows(sample_rows *s, uint32_t seed)
{
    for (int i = 0; i < ROWS; i++) {
        float a = 0, b = 0;
        for (int k = 0; k < LEFT; k++) a += s->left[i][k] = draw(&seed);
        for (int k = 0; k < RIGHT; k++) b += s->right[i][k / 4][k % 4] = draw(&seed) + 3;
        b -= 3 * RIGHT;
        s->kind[i] = a > b ? 2 : a > b - 1 ? 1 : 0;
        s->level[i][0] = a - b;
        s->level[i][1] = a + b;
        for (int k = 0; k < 3; k++) s->bits[i][k] = a > (float)k - 1;
    }
}

/* ---- files ---------------------------------------------------------------------------------- */

static void put_safetensors(dt_ctx *ctx, const char *path, const sample_rows *s, int rows)
{
    const int64_t shapes[][3] = { { rows, LEFT }, { rows, 2, 4 }, { rows },
                                  { rows, 2 },    { rows, 3 },    { rows / 2, 6 } };
    const dt_file_entry entry[] = {
        { "left", "F32", 2, shapes[0], 0, 0, s->left },
        { "right", "F32", 3, shapes[1], 0, 0, s->right },
        { "kind", "I32", 1, shapes[2], 0, 0, s->kind },
        { "level", "F32", 2, shapes[3], 0, 0, s->level },
        { "bits", "U8", 2, shapes[4], 0, 0, s->bits },
        { "few", "F32", 2, shapes[5], 0, 0, s->left },
        { "negative", "I32", 1, shapes[2], 0, 0, s->left },
        { "floats", "F32", 1, shapes[2], 0, 0, s->left },
    };
    dt_writer *w;
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (size_t i = 0; i < sizeof entry / sizeof entry[0]; i++) {
        TEST_OK(ctx, dt_writer_add_bytes(w, &entry[i]));
    }
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
}

static void put_csv(const char *path, const sample_rows *s)
{
    static const char *const words[] = { "low", "middle", "high" };
    char *text = malloc(ROWS * 512 + 512);
    ck_assert_ptr_nonnull(text);
    char *at = text + sprintf(text, "l0,l1,l2,l3,l4,l5,r0,r1,r2,r3,r4,r5,r6,r7,kind,v,w\n");
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < LEFT; k++) at += sprintf(at, "%.6f,", (double)s->left[i][k]);
        for (int k = 0; k < RIGHT; k++)
            at += sprintf(at, "%.6f,", (double)s->right[i][k / 4][k % 4]);
        at += sprintf(at, "%s,%.6f,%.6f\n", words[s->kind[i]], (double)s->level[i][0],
                      (double)s->level[i][1]);
    }
    test_write_file(path, text, (size_t)(at - text));
    free(text);
}

typedef struct bench {
    char folder[TEST_PATH], train[TEST_PATH], test[TEST_PATH], table[TEST_PATH];
    sample_rows rows, others;
    dt_ctx *ctx;
} bench;

static void open_bench(bench *b)
{
    test_folder(b->folder);
    test_join(b->train, b->folder, "train.safetensors");
    test_join(b->test, b->folder, "test.safetensors");
    test_join(b->table, b->folder, "table.csv");
    b->ctx = sample_context(2);
    fill_rows(&b->rows, 1);
    fill_rows(&b->others, 2);
    put_safetensors(b->ctx, b->train, &b->rows, ROWS);
    put_safetensors(b->ctx, b->test, &b->others, ROWS);
    put_csv(b->table, &b->rows);
}

/* ---- recipes -------------------------------------------------------------------------------- */

#define MODEL                                                                                      \
    "model:\n"                                                                                     \
    "  family: layers\n"                                                                           \
    "  input: {left: [6], right: [2, 4]}\n"                                                        \
    "  layers:\n"                                                                                  \
    "    - {linear: a, from: [left], out: 16, activation: relu}\n"                                 \
    "    - {flatten: flat, from: [right]}\n"                                                       \
    "    - {linear: b, out: 16, activation: relu}\n"                                               \
    "    - {concat: both, from: [a, b], dim: 1}\n"                                                 \
    "    - {linear: kind, out: 3}\n"                                                               \
    "    - {linear: level, from: [both], out: 2}\n"                                                \
    "    - {linear: bits, from: [both], out: 3}\n"                                                 \
    "  output: [kind, level, bits]\n"
#define TRAIN                                                                                      \
    "train: {epochs: 6, batch_size: 16, optimizer: {name: adamw, lr: 3e-3}, "                      \
    "checkpoint: {every_steps: 5}}\n"                                                              \
    "qat: {preset: int8-dynamic-int8-weight, start_step: 12}\n"
#define DATA                                                                                       \
    "data:\n"                                                                                      \
    "  format: tensors\n"                                                                          \
    "  train: {x: train.safetensors}\n"                                                            \
    "  test: {x: test.safetensors}\n"                                                              \
    "  standardize: true\n"                                                                        \
    "  validation: 0.25\n"                                                                         \
    "  inputs: [{name: right}, {name: left}]\n"                                                    \
    "  outputs:\n"                                                                                 \
    "    - {name: bits, task: multi_label, class_weights: [1, 2, 1]}\n"                            \
    "    - {name: level, task: regression, loss: huber, huber_delta: 0.5, weight: 0.5}\n"          \
    "    - {name: kind, class_weights: balanced}\n"

typedef struct job {
    const char *text, *dir, *overrides[6];
    bool resume;
    int64_t stop_at, updates;
    dt_status wanted;
    dt_run_summary summary;
    dt_dataset *train;
} job;

static bool stop(void *user)
{
    job *j = user;
    return j->stop_at > 0 && j->updates++ >= j->stop_at;
}

static void run(bench *b, job *j)
{
    char dir[TEST_PATH + 16], data[TEST_PATH + 16];
    const char *overrides[10] = { dir };
    int n = 1;
    snprintf(dir, sizeof dir, "run.dir=%s/%s", b->folder, j->dir);
    snprintf(data, sizeof data, "data.dir=%s", b->folder);
    if (j->train == NULL) overrides[n++] = data;
    for (int i = 0; i < 6 && j->overrides[i] != NULL; i++) overrides[n++] = j->overrides[i];
    const dt_recipe_source source = { .path = "several.yaml",
                                      .text = j->text,
                                      .bytes = strlen(j->text),
                                      .overrides = overrides,
                                      .n_overrides = n };
    const dt_run_control control = {
        .resume = j->resume, .stop = stop, .user = j, .train = j->train
    };
    dt_recipe *recipe = NULL;
    dt_status s = dt_recipe_read(b->ctx, &source, &recipe);
    if (s == DT_OK) s = dt_run(b->ctx, recipe, &control, &j->summary);
    ck_assert_msg(s == j->wanted, "%s: %s", dt_status_name(s), dt_error(b->ctx));
    dt_recipe_free(recipe);
}

#define RECIPE "run: {dir: unset, seed: 3}\n" MODEL DATA TRAIN

static void same_files(const bench *b, const char *one, const char *two)
{
    char path[TEST_PATH];
    size_t n, m;
    test_join(path, b->folder, one);
    char *first = test_read_file(path, &n);
    test_join(path, b->folder, two);
    char *second = test_read_file(path, &m);
    ck_assert_msg(n == m && memcmp(first, second, n) == 0, "%s differs from %s", one, two);
    free(first);
    free(second);
}

/* ---- runs ----------------------------------------------------------------------------------- */

static const char *const metric_names[] = {
    "kind.accuracy", "kind.macro_f1", "kind.loss",     "level.r2",  "level.mae",
    "level.rmse",    "level.mse",     "bits.macro_f1", "bits.loss", "bits.average_precision",
    "loss",
};

/* A recipe trains, converts with the same bits, and resumes with the same bits. */
START_TEST(trains_and_resumes)
{
    static bench b;
    open_bench(&b);
    job whole = { .text = RECIPE, .dir = "whole" };
    run(&b, &whole);
    ck_assert(whole.summary.same_bits_as_qat);
    const dt_metrics *m = &whole.summary.result[DT_RUN_QAT].metrics;
    ck_assert_int_eq(m->n, 11);
    for (int i = 0; i < 11; i++) {
        ck_assert_msg(isfinite(dt_metric_value(m, metric_names[i])), "%s", metric_names[i]);
    }
    const double parts = dt_metric_value(m, "kind.loss") + 0.5 * dt_metric_value(m, "level.mse") +
                         dt_metric_value(m, "bits.loss");
    TEST_NEAR(m->loss, parts, 1e-12, 0);
    job cut = { .text = RECIPE, .dir = "parts", .stop_at = 17, .wanted = DT_ERR_INTERRUPTED };
    run(&b, &cut);
    job rest = { .text = RECIPE, .dir = "parts", .resume = true };
    run(&b, &rest);
    same_files(&b, "whole/model.safetensors", "parts/model.safetensors");
    same_files(&b, "whole/float.safetensors", "parts/float.safetensors");
    dt_ctx_free(b.ctx);
}
END_TEST

/* Three metrics have this name in front; a checkpoint and metrics.csv tell them apart. */
START_TEST(names_may_be_long)
{
    static bench b;
    char name[181] = "", layer[256], output[256], list[256];
    memset(name, 'k', 180);
    snprintf(layer, sizeof layer, "model.layers.4.linear=%s", name);
    snprintf(output, sizeof output, "data.outputs.2.name=%s", name);
    snprintf(list, sizeof list, "model.output=[%s, level, bits]", name);
    open_bench(&b);
    job whole = { .text = RECIPE,
                  .dir = "whole",
                  .overrides = { layer, output, list, "data.outputs.2.tensor=kind",
                                 "train.log.csv=true" } };
    job cut = whole, rest = whole;
    run(&b, &whole);
    cut.dir = rest.dir = "parts";
    cut.stop_at = 17;
    cut.wanted = DT_ERR_INTERRUPTED;
    run(&b, &cut);
    rest.resume = true;
    run(&b, &rest);
    same_files(&b, "whole/model.safetensors", "parts/model.safetensors");
    dt_ctx_free(b.ctx);
}
END_TEST

/* A larger accuracy of one of several outputs is better, and the sweep may be told to follow it. */
START_TEST(sweeps_follow_a_metric_of_an_output)
{
    static bench b;
    char dir[TEST_PATH + 16], data[TEST_PATH + 16];
    const char *const overrides[] = { dir, data, "train.epochs=2" };
    const char *text = _i == 0 ? "keys: {train.optimizer.lr: [1e-6, 1e-2]}\n"
                               : "metric: level.mae\nkeys: {train.optimizer.lr: [1e-6, 1e-2]}\n";
    dt_sweep *s;
    open_bench(&b);
    snprintf(dir, sizeof dir, "run.dir=%s/run", b.folder);
    snprintf(data, sizeof data, "data.dir=%s", b.folder);
    const dt_sweep_source source = { .recipe = { .path = "several.yaml",
                                                 .text = RECIPE,
                                                 .bytes = strlen(RECIPE),
                                                 .overrides = overrides,
                                                 .n_overrides = 3 },
                                     .path = "s.yaml",
                                     .text = text,
                                     .bytes = strlen(text) };
    TEST_OK(b.ctx, dt_sweep_read(b.ctx, &source, &s));
    TEST_OK(b.ctx, dt_sweep_run(s, NULL));
    const dt_sweep_metric m = dt_sweep_metric_of(s);
    const double best = dt_sweep_row_at(s, 0)->chosen.mean,
                 other = dt_sweep_row_at(s, 1)->chosen.mean;
    ck_assert_str_eq(m.name, _i == 0 ? "kind.accuracy" : "level.mae");
    ck_assert_str_eq(m.unit, _i == 0 ? "%" : "");
    ck_assert(_i == 0 ? best > other : best < other);
    dt_sweep_free(s);
    dt_ctx_free(b.ctx);
}
END_TEST

/* The C file of the model, and answers for a file with both inputs. */
START_TEST(leaves)
{
    static bench b;
    char model[TEST_PATH], out[TEST_PATH];
    size_t n;
    open_bench(&b);
    job j = { .text = RECIPE, .dir = "leaves", .overrides = { "convert.formats=[c, onnx]" } };
    run(&b, &j);
    test_join(model, b.folder, "leaves/model.safetensors");
    test_join(out, b.folder, "leaves_c");
    dt_module *m = NULL;
    dt_model_info info;
    dt_model_data data;
    dt_dataset *d = NULL;
    TEST_OK(b.ctx, dt_model_load(b.ctx, model, &m, &info));
    TEST_OK(b.ctx, dt_export(m, &info, "c", NULL, out, NULL));
    test_join(model, out, "leaves_c.h");
    char *header = test_read_file(model, &n);
    ck_assert_ptr_nonnull(strstr(header, "leaves_c_standardize0(const float *v, float *x)"));
    ck_assert_ptr_nonnull(strstr(header, "leaves_c_standardize1(const float *v, float *x)"));
    free(header);
    test_join(out, b.folder, "leaves.onnx");
    dt_export_difference difference[DT_MAX_OUT];
    int outputs = 0;
    TEST_OK(b.ctx, dt_export(m, &info, "onnx", NULL, out, NULL));
    TEST_OK(b.ctx, dt_export_verify(m, &info, out, difference, &outputs));
    ck_assert_int_eq(outputs, 3);
    for (int i = 0; i < 3; i++) ck_assert(difference[i].equal == difference[i].values);
    TEST_OK(b.ctx, dt_model_data_parse(b.ctx, info.data, "info", &data));
    TEST_OK(b.ctx, dt_model_data_open(b.ctx, &data, b.test, NULL, &d));
    ck_assert(dt_dataset_count(d) == ROWS);
    dt_dataset_free(d);
    d = NULL;
    TEST_FAILS(b.ctx, DT_ERR_FORMAT, "the model has 2 inputs",
               dt_model_data_open(b.ctx, &data, b.table, NULL, &d));
    dt_model_data_free(b.ctx, &data);
    dt_model_info_free(b.ctx, &info);
    dt_module_free(m);
    dt_ctx_free(b.ctx);
}
END_TEST

/* The mean squared error of `level` of the test file, by what the model's file says it reads and
 * gives. */
static double error_by_file(const bench *b, const char *dir)
{
    char model[TEST_PATH];
    dt_module *m;
    dt_model_info info;
    dt_model_data data;
    dt_dataset *d;
    dt_loader *l;
    dt_tape *t;
    dt_tensor *x, *target;
    double sum = 0;
    test_join(model, b->folder, dir);
    TEST_OK(b->ctx, dt_model_load(b->ctx, model, &m, &info));
    dt_train(m, false);
    TEST_OK(b->ctx, dt_model_data_parse(b->ctx, info.data, "info", &data));
    TEST_OK(b->ctx, dt_model_data_open(b->ctx, &data, b->test, NULL, &d));
    dt_loader_options o = dt_loader_defaults();
    o.batch_size = ROWS;
    o.shuffle = false;
    TEST_OK(b->ctx, dt_loader_create(d, &o, &l));
    TEST_OK(b->ctx, dt_loader_next(l, &x, &target));
    TEST_OK(b->ctx, dt_tape_create(b->ctx, &t));
    dt_no_grad(t, true);
    const float *y = dt_data(dt_contiguous(t, dt_forward(t, m, x)));
    int64_t at = 0;
    for (int i = 0; i < 3 && strcmp(data.outputs[i].name, "level") != 0; i++)
        at += data.outputs[i].output.v[0];
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < 2; k++)
            sum += pow((double)y[i * 8 + at + k] - (double)b->others.level[i][k], 2);
    }
    dt_tape_free(t);
    dt_loader_free(l);
    dt_dataset_free(d);
    dt_model_data_free(b->ctx, &data);
    dt_model_info_free(b->ctx, &info);
    dt_module_free(m);
    return sum / (2 * ROWS);
}

/* Inputs and outputs are in an order that is drawn, for the model and for the data. */
START_TEST(files_have_the_order_of_the_model)
{
    static const char *const in[] = { "data.inputs=[{name: left}, {name: right}]",
                                      "data.inputs=[{name: right}, {name: left}]",
                                      "model.input={left: [6], right: [2, 4]}",
                                      "model.input={right: [2, 4], left: [6]}" };
    static const char *const orders[] = { "kind, level, bits", "level, bits, kind",
                                          "bits, kind, level", "level, kind, bits" };
    static bench b;
    open_bench(&b);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t seed = 77 + i;
        char dir[32], out[64];
        for (int k = 0; k < 4; k++) draw(&seed);
        snprintf(dir, sizeof dir, "run%u/float.safetensors", i);
        snprintf(out, sizeof out, "model.output=[%s]", orders[(seed >> 20) % 4]);
        job j = { .text = RECIPE,
                  .dir = dir,
                  .overrides = { in[i % 2], in[2 + i / 2], out, "~qat", "train.epochs=1" } };
        *strchr(dir, '/') = 0;
        run(&b, &j);
        dir[strlen(dir)] = '/';
        TEST_NEAR(error_by_file(&b, dir),
                  dt_metric_value(&j.summary.result[DT_RUN_FLOAT].metrics, "level.mse"), 0, 1e-5);
    }
    dt_ctx_free(b.ctx);
}
END_TEST

/* A teacher reads the batches of the model: with its inputs in another order it would read others,
 * and the model after it. The order of the data does not count. */
START_TEST(teachers_have_the_order_of_the_model)
{
    static const char text[] = "run: {dir: unset, report: false}\n"
                               "model:\n"
                               "  family: layers\n"
                               "  input: {left: [6], right: [6]}\n"
                               "  layers:\n"
                               "    - {concat: both, from: [left, right], dim: 1}\n"
                               "    - {linear: head, out: 3}\n"
                               "data:\n"
                               "  format: tensors\n"
                               "  train: {x: train.safetensors, y: \"train.safetensors:kind\"}\n"
                               "  inputs: [{name: left}, {name: right, tensor: left}]\n"
                               "train: {epochs: 1}\n";
    static const char *const orders[][2] = {
        { "model.input={left: [6], right: [6]}", "model.input={right: [6], left: [6]}" },
        { "data.inputs=[{name: left}, {name: right, tensor: left}]",
          "data.inputs=[{name: right, tensor: left}, {name: left}]" },
    };
    static bench b;
    char teacher[2 * TEST_PATH], dir[32];
    open_bench(&b);
    for (int i = 0; i < 4; i++) {
        const int its = rand() % 2, ours = i % 2 == 0 ? its : 1 - its;
        snprintf(dir, sizeof dir, "teacher%d", i);
        job t = { .text = text,
                  .dir = dir,
                  .overrides = { orders[0][its], orders[1][rand() % 2] } };
        run(&b, &t);
        snprintf(teacher, sizeof teacher,
                 "train.distill={weight: 1, teacher: %s/teacher%d/float.safetensors}", b.folder, i);
        snprintf(dir, sizeof dir, "model%d", i);
        t.overrides[0] = orders[0][ours];
        t.overrides[2] = teacher;
        t.wanted = its == ours ? DT_OK : DT_ERR_CONFIG;
        run(&b, &t);
        ck_assert(its == ours || strstr(dt_error(b.ctx), "must have them in one order") != NULL);
    }
    dt_ctx_free(b.ctx);
}
END_TEST

/* More training makes every output better. */
START_TEST(learns)
{
    static bench b;
    open_bench(&b);
    job j = { .text = RECIPE, .dir = "long", .overrides = { "train.epochs=150", "~qat" } };
    run(&b, &j);
    const dt_metrics *m = &j.summary.result[DT_RUN_FLOAT].metrics;
    printf("joined: accuracy %.3f, r2 %.3f, ap %.3f\n", dt_metric_value(m, "kind.accuracy"),
           dt_metric_value(m, "level.r2"), dt_metric_value(m, "bits.average_precision"));
    ck_assert(dt_metric_value(m, "kind.accuracy") > 0.6);
    ck_assert(dt_metric_value(m, "level.r2") > 0.7);
    ck_assert(dt_metric_value(m, "bits.average_precision") > 0.75);
    dt_ctx_free(b.ctx);
}
END_TEST

#define TABLE_DATA                                                                                 \
    "data:\n"                                                                                      \
    "  format: tensors\n"                                                                          \
    "  train: {x: table.csv}\n"                                                                    \
    "  inputs: [{name: left, columns: \"l*\"}, {name: right, columns: [\"r*\"]}]\n"                \
    "  outputs: [{name: kind}, {name: level, columns: [v, w], task: regression}]\n"
#define TABLE_MODEL                                                                                \
    "model:\n"                                                                                     \
    "  family: layers\n"                                                                           \
    "  input: {left: [6], right: [8]}\n"                                                           \
    "  layers:\n"                                                                                  \
    "    - {concat: both, from: [left, right], dim: 1}\n"                                          \
    "    - {linear: a, out: 16, activation: relu}\n"                                               \
    "    - {linear: kind, out: 4}\n"                                                               \
    "    - {linear: level, from: [a], out: 2}\n"                                                   \
    "  output: [kind, level]\n"

/* The page of a run shows each output: matrices of labels, mistakes, counts of bits, points. */
START_TEST(reports)
{
    static bench b;
    char path[TEST_PATH];
    static const char *const kinds[] = { "classes", "values", "bits" }, *const names[] = { "kind",
                                                                                           "level",
                                                                                           "bits" };
    open_bench(&b);
    job j = { .text = RECIPE, .dir = "shown", .overrides = { "train.epochs=2" } };
    run(&b, &j);
    test_join(path, b.folder, "shown/confusion.json");
    json_t *root = json_load_file(path, 0, NULL);
    const json_t *outputs = json_object_get(root, "outputs"), *one = json_array_get(outputs, 0);
    ck_assert_uint_eq(json_array_size(outputs), 1);
    ck_assert_str_eq(json_string_value(json_object_get(one, "output")), "kind");
    json_int_t all = 0, right = 0;
    for (size_t i = 0; i < 9; i++) {
        const json_t *row = json_array_get(json_object_get(one, "matrix"), i / 3);
        const json_int_t n = json_integer_value(json_array_get(row, i % 3));
        all += n;
        right += i / 3 == i % 3 ? n : 0;
    }
    ck_assert_int_eq(all, ROWS);
    const dt_metrics *m = &j.summary.result[DT_RUN_CONVERTED].metrics;
    TEST_NEAR((double)right / ROWS, dt_metric_value(m, "kind.accuracy"), 0, 1e-12);
    json_decref(root);
    test_join(path, b.folder, "shown/examples.json");
    root = json_load_file(path, 0, NULL);
    outputs = json_object_get(root, "outputs");
    for (size_t i = 0; i < 3; i++) {
        one = json_array_get(outputs, i);
        ck_assert_str_eq(json_string_value(json_object_get(one, "output")), names[i]);
        ck_assert_str_eq(json_string_value(json_object_get(one, "kind")), kinds[i]);
    }
    ck_assert_uint_eq(json_array_size(json_object_get(json_array_get(outputs, 2), "labels")), 3);
    json_decref(root);
    test_join(path, b.folder, "shown/report.html");
    char *page = test_read_file(path, NULL);
    ck_assert_ptr_nonnull(strstr(page, "<h2>kind: Confusion matrix</h2>"));
    ck_assert_ptr_nonnull(strstr(page, "<h2>kind: Worst mistakes</h2>"));
    ck_assert_ptr_nonnull(strstr(page, "<h2>level: Outputs</h2>"));
    ck_assert_ptr_nonnull(strstr(page, "<h2>bits: Labels</h2>"));
    free(page);
    dt_ctx_free(b.ctx);
}
END_TEST

/* Columns of a table; the model may have more classes than the data. */
START_TEST(from_tables)
{
    static bench b;
    open_bench(&b);
    job j = { .text = "run: {dir: unset}\n" TABLE_MODEL TABLE_DATA TRAIN, .dir = "table" };
    run(&b, &j);
    ck_assert(j.summary.same_bits_as_qat);
    ck_assert(isfinite(j.summary.result[DT_RUN_QAT].metrics.loss));
    dt_ctx_free(b.ctx);
}
END_TEST

/* Several inputs and one output is an ordinary task. */
START_TEST(one_output)
{
    static bench b;
    open_bench(&b);
    job j = { .text = "run: {dir: unset}\n"
                      "model:\n"
                      "  family: layers\n"
                      "  input: {left: [6], right: [2, 4]}\n"
                      "  layers:\n"
                      "    - {flatten: flat, from: [right]}\n"
                      "    - {concat: both, from: [left, flat], dim: 1}\n"
                      "    - {linear: head, out: 3}\n"
                      "data:\n"
                      "  format: tensors\n"
                      "  train: {x: train.safetensors, y: \"train.safetensors:kind\"}\n"
                      "  inputs: [{name: left}, {name: right}]\n" TRAIN,
              .dir = "one",
              .overrides = { "train.class_weights=balanced", "train.sampler=balanced" } };
    run(&b, &j);
    const dt_metrics *m = &j.summary.result[DT_RUN_QAT].metrics;
    ck_assert_int_eq(m->n, 3);
    ck_assert(dt_metric_value(m, "accuracy") >= 0 && j.summary.same_bits_as_qat);
    dt_ctx_free(b.ctx);
}
END_TEST

/* ---- from C --------------------------------------------------------------------------------- */

static dt_dataset *arrays(const bench *b, bool right, dt_target target)
{
    const sample_rows *s = &b->rows;
    dt_arrays a = { .count = ROWS, .rank = right ? 2 : 1, .dims = { right ? 2 : LEFT, 4 } };
    dt_dataset *d = NULL;
    a.axis = -1;
    a.x = right ? (const void *)s->right : s->left;
    a.target = target;
    a.y_dtype = target == DT_TARGET_CLASS  ? DT_ARRAY_I32
                : target == DT_TARGET_BITS ? DT_ARRAY_U8
                                           : DT_ARRAY_F32;
    a.y = target == DT_TARGET_CLASS  ? (const void *)s->kind
          : target == DT_TARGET_BITS ? (const void *)s->bits
                                     : s->level;
    a.outputs = target == DT_TARGET_VALUES ? 2 : 3;
    TEST_OK(b->ctx, dt_dataset_from_arrays(b->ctx, &a, &d));
    return d;
}

typedef struct pieces {
    dt_dataset *left, *right, *bits;
    dt_join join;
} pieces;

static void open_pieces(const bench *b, pieces *p)
{
    p->left = arrays(b, false, DT_TARGET_CLASS);
    p->right = arrays(b, true, DT_TARGET_VALUES);
    p->bits = arrays(b, false, DT_TARGET_BITS);
    p->join = (dt_join){ .n_inputs = 2, .n_outputs = 3 };
    p->join.input[0] = (dt_joined_input){ "left", p->left };
    p->join.input[1] = (dt_joined_input){ "right", p->right };
    p->join.output[0] = (dt_joined_output){ .name = "kind", .data = p->left, .weight = 1 };
    p->join.output[1] = (dt_joined_output){ .name = "level", .data = p->right, .weight = 0.25 };
    p->join.output[2] = (dt_joined_output){ .name = "bits", .data = p->bits, .weight = 1 };
    for (int i = 0; i < 3; i++) p->join.output[i].class_weights.n = DT_WEIGHTS_NONE;
}

static void close_pieces(pieces *p)
{
    dt_dataset_free(p->left);
    dt_dataset_free(p->right);
    dt_dataset_free(p->bits);
}

/* A program's own datasets in dt_run, and the model's file. */
START_TEST(from_c)
{
    static bench b;
    pieces p;
    dt_dataset *d = NULL;
    open_bench(&b);
    open_pieces(&b, &p);
    TEST_OK(b.ctx, dt_dataset_join(b.ctx, &p.join, &d));
    close_pieces(&p);
    job j = { .text = "run: {dir: unset}\n" MODEL "data: {format: given}\n" TRAIN,
              .dir = "given",
              .train = d };
    run(&b, &j);
    ck_assert(j.summary.same_bits_as_qat);
    char path[TEST_PATH];
    test_join(path, b.folder, "given/model.safetensors");
    dt_module *m = NULL;
    dt_model_info info;
    dt_metrics metrics;
    TEST_OK(b.ctx, dt_model_load(b.ctx, path, &m, &info));
    TEST_OK(b.ctx, dt_evaluate(m, d, NULL, &metrics, NULL));
    ck_assert_double_eq(metrics.loss, j.summary.result[DT_RUN_CONVERTED].metrics.loss);
    dt_dataset *turned = NULL;
    dt_metrics other;
    pieces q;
    open_pieces(&b, &q);
    const dt_joined_input left = q.join.input[0];
    q.join.input[0] = q.join.input[1];
    q.join.input[1] = left;
    TEST_OK(b.ctx, dt_dataset_join(b.ctx, &q.join, &turned));
    close_pieces(&q);
    TEST_OK(b.ctx, dt_evaluate(m, turned, NULL, &other, NULL));
    ck_assert_double_eq(other.loss, metrics.loss);
    dt_dataset_free(turned);
    dt_model_data data;
    TEST_OK(b.ctx, dt_model_data_parse(b.ctx, info.data, "info", &data));
    ck_assert_str_eq(data.target, "several");
    ck_assert(data.n_inputs == 2 && data.n_outputs == 3 && data.input.v[0] == LEFT + RIGHT);
    ck_assert_str_eq(data.inputs[1].name, "right");
    ck_assert(data.inputs[1].input.n == 2 && data.inputs[1].input.v[1] == 4);
    ck_assert_str_eq(data.outputs[1].name, "level");
    ck_assert_str_eq(data.outputs[1].target, "values");
    ck_assert_str_eq(data.outputs[1].meaning, "values");
    ck_assert_str_eq(data.outputs[0].meaning, "logits");
    dt_model_data_free(b.ctx, &data);
    dt_model_info_free(b.ctx, &info);
    dt_module_free(m);
    dt_dataset_free(d);
    dt_ctx_free(b.ctx);
}
END_TEST

/* What a loader gives, in the order of the join; and both parts of a split. */
START_TEST(packs)
{
    static bench b;
    pieces p;
    dt_dataset *d = NULL, *last = NULL;
    open_bench(&b);
    open_pieces(&b, &p);
    const double mean[] = { 3 }, deviation[] = { 2 };
    TEST_OK(b.ctx, dt_dataset_standardize(p.right, 1, mean, deviation));
    TEST_OK(b.ctx, dt_dataset_join(b.ctx, &p.join, &d));
    close_pieces(&p);
    TEST_OK(b.ctx, dt_dataset_split(d, 10, &last));
    const dt_loader_options order = { .batch_size = 10 };
    dt_loader *l = NULL;
    TEST_OK(b.ctx, dt_loader_create(last, &order, &l));
    dt_tensor *x, *target;
    TEST_OK(b.ctx, dt_loader_next(l, &x, &target));
    const float *value = dt_data(x);
    const int32_t *cell = dt_data(target);
    ck_assert(dt_dim(x, 1) == LEFT + RIGHT && dt_dim(target, 1) == 1 + 2 + 3);
    for (int i = 0; i < 10; i++) {
        const int row = ROWS - 10 + i;
        float level, bit;
        ck_assert_mem_eq(value + i * (LEFT + RIGHT), b.rows.left[row], sizeof b.rows.left[row]);
        const float want = (b.rows.right[row][1][0] - 3) / 2;
        ck_assert(value[i * (LEFT + RIGHT) + LEFT + 4] == want);
        memcpy(&level, cell + i * 6 + 2, sizeof level);
        memcpy(&bit, cell + i * 6 + 5, sizeof bit);
        ck_assert(cell[i * 6] == b.rows.kind[row] && level == b.rows.level[row][1]);
        ck_assert(bit == (float)b.rows.bits[row][2]);
    }
    ck_assert_int_eq(dt_dataset_count(d), ROWS - 10);
    dt_loader_free(l);
    dt_dataset_free(d);
    dt_dataset_free(last);
    ck_assert_uint_eq(dt_memory_of(b.ctx).used, 0);
    dt_ctx_free(b.ctx);
}
END_TEST

enum { BATCH = 16 };

/* x of the first batch of an augmented epoch. */
static void first_batch(dt_ctx *ctx, const dt_dataset *d, const dt_augment_options *a, int64_t each,
                        float *out)
{
    const dt_loader_options o = { .batch_size = BATCH, .shuffle = true, .seed = 5, .augment = *a };
    dt_loader *l = NULL;
    dt_tensor *x, *target;
    TEST_OK(ctx, dt_loader_create(d, &o, &l));
    TEST_OK(ctx, dt_loader_next(l, &x, &target));
    memcpy(out, dt_data(x), (size_t)(BATCH * each) * sizeof *out);
    dt_loader_free(l);
}

/* Inputs of an example change together: each as it would alone, but with noise of its own. */
START_TEST(augments)
{
    enum { BOTH = LEFT + RIGHT };
    static bench b;
    static float both[BATCH * BOTH], quiet[BATCH * BOTH], left[BATCH * LEFT], right[BATCH * RIGHT];
    pieces p;
    dt_dataset *d = NULL;
    open_bench(&b);
    open_pieces(&b, &p);
    TEST_OK(b.ctx, dt_dataset_join(b.ctx, &p.join, &d));
    const dt_augment_options still = { .scale = 0.25, .jitter = 0.5 },
                             moved = { .scale = 0.25, .shift = 1, .time_mask = 1 },
                             all = { .scale = 0.25, .shift = 1, .time_mask = 1, .jitter = 0.5 };
    first_batch(b.ctx, d, &all, BOTH, both);
    first_batch(b.ctx, d, &moved, BOTH, quiet);
    first_batch(b.ctx, p.left, &still, LEFT, left);
    first_batch(b.ctx, p.right, &moved, RIGHT, right);
    int moves = 0, same = 0;
    for (int i = 0; i < BATCH; i++) {
        const float *x = both + i * BOTH, *y = quiet + i * BOTH;
        ck_assert_mem_eq(x, left + i * LEFT, LEFT * sizeof *x);
        ck_assert_mem_eq(y + LEFT, right + i * RIGHT, RIGHT * sizeof *y);
        moves += y[LEFT] == 0 || y[LEFT + 4] == 0;
        for (int k = 0; k < LEFT; k++) same += x[k] - y[k] == x[LEFT + k] - y[LEFT + k];
    }
    ck_assert(moves > 0 && moves < BATCH && same < BATCH);
    dt_dataset_free(d);
    close_pieces(&p);
    ck_assert_uint_eq(dt_memory_of(b.ctx).used, 0);
    dt_ctx_free(b.ctx);
}
END_TEST

#define X50 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static const struct {
    int n_inputs, n_outputs;
    const char *names[5];
    double weight, delta;
    int weights;
    const char *words;
} bad_joins[] = {
    { 0, 3, { "left", "right", "kind", "level", "bits" }, 1, 1, -1, "0 inputs and 3 outputs" },
    { 2, 0, { "left", "right", "kind", "level", "bits" }, 1, 1, -1, "and 1 to 4" },
    { 2, 3, { "left", "left", "kind", "level", "bits" }, 1, 1, -1, "two inputs 'left'" },
    { 2, 3, { "left", "right", "kind", "level", "kind" }, 1, 1, -1, "two outputs 'kind'" },
    { 2, 3, { "left", "", "kind", "level", "bits" }, 1, 1, -1, "input 1 has no name" },
    { 2, 3, { "left", NULL, "kind", "level", "bits" }, 1, 1, -1, "input 1 has no name" },
    { 2, 3, { "left", "right", "kind", X50 X50 X50 X50 "x", "bits" }, 1, 1, -1, "201 bytes" },
    { 2, 3, { "left", "right", "kind", "level", "bits" }, 0, 1, -1, "expected above 0" },
    { 2, 3, { "left", "right", "kind", "level", "bits" }, -1, 1, -1, "weight -1" },
    { 2, 3, { "left", "right", "kind", "level", "bits" }, 1, -1, -1, "huber_delta -1" },
    { 2,
      3,
      { "left", "right", "kind", "level", "bits" },
      1,
      1,
      2,
      "'level' has class weights, but no classes" },
};

START_TEST(refused_joins)
{
    static bench b;
    pieces p;
    dt_dataset *d = NULL;
    open_bench(&b);
    open_pieces(&b, &p);
    p.join.n_inputs = bad_joins[_i].n_inputs;
    p.join.n_outputs = bad_joins[_i].n_outputs;
    for (int i = 0; i < 2; i++) p.join.input[i].name = bad_joins[_i].names[i];
    for (int i = 0; i < 3; i++) p.join.output[i].name = bad_joins[_i].names[2 + i];
    p.join.output[1].weight = bad_joins[_i].weight;
    p.join.output[1].huber_delta = bad_joins[_i].delta;
    p.join.output[1].class_weights.n = bad_joins[_i].weights;
    TEST_FAILS(b.ctx, DT_ERR_ARG, bad_joins[_i].words, dt_dataset_join(b.ctx, &p.join, &d));
    ck_assert_ptr_null(d);
    close_pieces(&p);
    ck_assert_uint_eq(dt_memory_of(b.ctx).used, 0);
    dt_ctx_free(b.ctx);
}
END_TEST

/* Every allocation of joining, loading, a packed network, an evaluation and the text of the data
 * fails once. */
static dt_status put_nowhere(void *user, const char *text, size_t bytes)
{
    (void)text;
    *(size_t *)user += bytes;
    return DT_OK;
}

static const float left_of[4][2] = { { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } };
static const int32_t labels_of[4] = { 0, 1, 1, 0 };

/* Two inputs of two numbers; a class and two values. */
static dt_status make_network(dt_ctx *ctx, dt_module **out)
{
    dt_linear_layer kind = { .head = { .name = "kind", .from = { 1, { "a" } } }, .out = 2 };
    dt_linear_layer level = { .head = { .name = "level", .from = { 1, { "b" } } }, .out = 2 };
    dt_list_item items[] = { { dt_layer_kind("linear"), &kind },
                             { dt_layer_kind("linear"), &level } };
    const dt_layers_options o = { .input = { 2, { "a", "b" }, { { 1, { 2 } }, { 1, { 2 } } } },
                                  .layers = { 2, items },
                                  .output = { 2, { "kind", "level" } } };
    return dt_layers_create(ctx, &o, out);
}

static dt_status whole_life(dt_ctx *ctx, void *user)
{
    dt_arrays a = { .count = 4,
                    .rank = 1,
                    .dims = { 2 },
                    .x = left_of,
                    .y_dtype = DT_ARRAY_I32,
                    .y = labels_of,
                    .outputs = 2 };
    dt_arrays b = a;
    dt_dataset *first = NULL, *second = NULL, *d = NULL;
    dt_module *m = NULL;
    dt_tensor *y = NULL;
    dt_metrics metrics;
    b.target = DT_TARGET_VALUES;
    b.y_dtype = DT_ARRAY_F32;
    b.y = left_of;
    dt_status s = dt_dataset_from_arrays(ctx, &a, &first);
    if (s == DT_OK) s = dt_dataset_from_arrays(ctx, &b, &second);
    dt_join join = { 2, 2, { { "b", second }, { "a", first } }, { { .name = "level" } } };
    for (int i = 0; i < 2; i++) {
        join.output[i] = (dt_joined_output){ .name = i == 0 ? "level" : "kind",
                                             .data = i == 0 ? second : first,
                                             .weight = 1,
                                             .loss = i == 0 ? "mae" : NULL,
                                             .class_weights = { .n = DT_WEIGHTS_NONE } };
    }
    if (s == DT_OK) s = dt_dataset_join(ctx, &join, &d);
    if (s == DT_OK) s = make_network(ctx, &m);
    if (s == DT_OK) s = dt_evaluate(m, d, NULL, &metrics, &y);
    if (s == DT_OK) s = dt_model_data_text(d, put_nowhere, user);
    dt_tensor_free(y);
    dt_module_free(m);
    dt_dataset_free(d);
    dt_dataset_free(first);
    dt_dataset_free(second);
    return s;
}

START_TEST(every_allocation)
{
    size_t bytes = 0;
    const int64_t n = test_every_allocation(whole_life, &bytes);
    ck_assert_int_gt(n, 40);
    printf("joined: %lld allocations failed\n", (long long)n);
}
END_TEST

/* ---- refused recipes ------------------------------------------------------------------------ */

static const struct {
    const char *overrides[3], *words;
} bad[] = {
    /* words that begin with ! are about a file, not about the recipe */
    { { "data.inputs.0.tensor=none" }, "!none" },
    { { "data.inputs.1.tensor=few" }, "!96 targets, but x has 48 examples" },
    { { "data.inputs.1.tensor=level" }, "input 'left' of the model is [6], the data's [2]" },
    { { "data.inputs=[{name: left}, {name: left}]" }, "two inputs 'left'" },
    { { "data.inputs=[{name: left}]" }, "the model has 2 inputs and 3 outputs, the data 1 and 3" },
    { { "data.inputs.0.name=top", "data.inputs.0.tensor=right" },
      "the model has 'right', but no input or output" },
    { { "data.outputs.0.name=other", "data.outputs.0.tensor=bits" }, "the model has 'bits'" },
    { { "data.outputs.2.name=level", "data.outputs.2.tensor=kind" }, "two outputs 'level'" },
    { { "data.outputs.0.weight=0" }, "'data.outputs.0.weight'" },
    { { "data.outputs.0.weight=-1" }, "'data.outputs.0.weight'" },
    { { "data.outputs.0.task=anomaly" }, "classification, regression or multi_label" },
    { { "data.outputs.0.loss=mae" }, "'data.outputs.0.loss' belongs to regression" },
    { { "data.outputs.1={name: level, task: regression, loss: mea}" },
      "there are mse, mae, huber, quantile, focal" },
    { { "data.outputs.1.loss=mse" }, "'data.outputs.1.huber_delta' belongs to huber" },
    { { "data.outputs.0.class_weights=[1, 2]" }, "2 class weights for 3 classes" },
    { { "data.outputs.1.class_weights=balanced" }, "class weights" },
    { { "data.outputs.2.class_weights=[0, 0, 0]" },
      "'data.outputs.2.class_weights' has weights of 0 alone" },
    { { "data.inputs.0.columns=[left]" }, "'data.inputs.0.columns' belongs to tables in .csv" },
    { { "data.outputs.2.columns=[kind]" }, "'data.outputs.2.columns' belongs to tables" },
    { { "data.train.x=table.csv", "data.inputs.0.tensor=a" },
      "'data.inputs.0.tensor' belongs to files .npz" },
    { { "data.outputs.2.tensor=level" }, "!a label for each example" },
    { { "data.outputs.2.tensor=floats" }, "!which is not an integer" },
    { { "data.outputs.2.tensor=negative" }, "!is the label" },
    { { "data.outputs.0.tensor=level" }, "!expected 0 or 1" },
    { { "data.outputs.1.tensor=bits" }, "output 'level' of the model is [2], the data's [3]" },
    { { "train.class_weights=balanced" }, "'train.class_weights' is for one input and output" },
    { { "train.loss=mae" }, "'train.loss' is for one input and output" },
    { { "data.task=regression" }, "'data.task' is for one input and output" },
    { { "train.metrics=[own]" }, "'train.metrics' is for one input and output" },
    { { "train.distill={weight: 0.5}" }, "is for one input and output" },
    { { "data.outputs=[{name: level, task: regression}]", "train.label_smoothing=0.1" },
      "the model has 2 inputs and 3 outputs, the data 2 and 1" },
    { { "train.sampler=balanced" }, "'train.sampler' is for one input and output" },
    { { "data.augment.flip=true" }, "are for images, not for arrays" },
    { { "data.augment.shift=2" }, "augment.shift 2 of signals of 2 time steps" },
    { { "data.augment.jitter=-1" }, "'data.augment.jitter'" },
    { { "data.train.x=table.csv" }, "not a column" },
    { { "data.train.x=[train.safetensors, test.safetensors]" }, "2 files of x; expected one" },
    { { "data.train.x=\"train.safetensors:left\"" }, "names no file that holds several" },
    { { "data.test.x=table.csv" }, "data.test" },
    { { "data.format=table", "~data.train", "~data.test" }, "'data.inputs' belongs to tensors" },
    { {
          "~data.inputs",
          "~data.outputs",
          "data.train.x=\"train.safetensors:left\"",
      },
      "data.train has no targets" },
    { { "~data.inputs", "data.train={x: \"train.safetensors:left\", y: train.safetensors}",
        "~data.test" },
      "the model has 2 inputs and 3 outputs, the data 1 and 3" },
};

START_TEST(refused_recipes)
{
    static bench b;
    char path[TEST_PATH];
    open_bench(&b);
    job j = { .text = RECIPE, .dir = "bad", .wanted = DT_ERR_CONFIG };
    for (int i = 0; i < 3; i++) j.overrides[i] = bad[_i].overrides[i];
    const bool file = bad[_i].words[0] == '!';
    if (file) j.wanted = DT_ERR_FORMAT;
    run(&b, &j);
    ck_assert_msg(strstr(dt_error(b.ctx), bad[_i].words + file) != NULL, "%s", dt_error(b.ctx));
    test_join(path, b.folder, "bad");
    ck_assert(!test_file_exists(path));
    dt_ctx_free(b.ctx);
}
END_TEST

/* ---- packed networks ------------------------------------------------------------------------ */

/* dt_forward of packed inputs gives the bits of dt_forward_n. */
START_TEST(packed_forward)
{
    dt_ctx *ctx = sample_context(1);
    const char *text = "run: {dir: unset}\n" MODEL "data: {format: given}\n";
    const dt_recipe_source source = { .path = "m", .text = text, .bytes = strlen(text) };
    dt_recipe *r = NULL;
    dt_module *m = NULL;
    dt_tape *t = NULL;
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
    const dt_model_options *o = &dt_recipe_get(r)->model;
    TEST_OK(ctx, o->family->create(ctx, o->options, &m));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    float value[3][LEFT + RIGHT], left[3][LEFT], right[3][RIGHT];
    uint32_t seed = 5;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < LEFT + RIGHT; k++) value[i][k] = draw(&seed);
        memcpy(left[i], value[i], sizeof left[i]);
        memcpy(right[i], value[i] + LEFT, sizeof right[i]);
    }
    dt_tensor *x, *in[2], *y[3];
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 2, (const int64_t[]){ 3, 14 }, value, &x));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 2, (const int64_t[]){ 3, 6 }, left, &in[0]));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 3, (const int64_t[]){ 3, 2, 4 }, right, &in[1]));
    const float *packed = dt_data(dt_forward(t, m, x));
    ck_assert_msg(packed != NULL, "%s", dt_error(ctx));
    TEST_OK(ctx, dt_forward_n(t, m, in, 2, y, 3));
    for (int i = 0, at = 0; i < 3; at += (int)dt_dim(y[i], 1), i++) {
        const float *alone = dt_data(y[i]);
        for (int k = 0; k < 3; k++) {
            ck_assert_mem_eq(packed + k * 8 + at, alone + k * dt_dim(y[i], 1),
                             (size_t)dt_dim(y[i], 1) * sizeof *alone);
        }
    }
    dt_tape_reset(t);
    ck_assert_ptr_null(dt_forward(t, m, in[0]));
    ck_assert_msg(strstr(dt_error(ctx), "packed, are [N, 14]") != NULL, "%s", dt_error(ctx));
    dt_tape_free(t);
    for (int i = 0; i < 2; i++) dt_tensor_free(in[i]);
    dt_tensor_free(x);
    dt_module_free(m);
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_joined_suite(void)
{
    Suite *s = suite_create("joined");
    TCase *c = tcase_create("several");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, packs);
    tcase_add_test(c, augments);
    tcase_add_test(c, reports);
    tcase_add_test(c, every_allocation);
    tcase_add_test(c, packed_forward);
    tcase_add_test(c, trains_and_resumes);
    tcase_add_test(c, names_may_be_long);
    tcase_add_loop_test(c, sweeps_follow_a_metric_of_an_output, 0, 2);
    tcase_add_test(c, learns);
    tcase_add_test(c, leaves);
    tcase_add_test(c, files_have_the_order_of_the_model);
    tcase_add_test(c, teachers_have_the_order_of_the_model);
    tcase_add_test(c, from_tables);
    tcase_add_test(c, one_output);
    tcase_add_test(c, from_c);
    tcase_add_loop_test(c, refused_joins, 0, (int)(sizeof bad_joins / sizeof bad_joins[0]));
    tcase_add_loop_test(c, refused_recipes, 0, (int)(sizeof bad / sizeof bad[0]));
    suite_add_tcase(s, c);
    return s;
}
