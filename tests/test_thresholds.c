/* Thresholds (train.threshold): against all possible cuts, in a model's file, in evaluations, in
 * exported C, and what is refused. Quantiles: training and names. */
#include "c_folder.h"
#include "sample.h"

#include "data/dataset.h"
#include "train/task/thresholds.h"

#include <detent/experimental/io.h>
#include <detent/experimental/nn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;

static void open_ctx(void) { ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK); }

static void close_ctx(void)
{
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

static uint32_t state;

static double uniform(void)
{
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / 16777216;
}

/* ---- choosing -------------------------------------------------------------------------------- */

enum { MOST = 64, COLUMNS = 4 };

typedef struct drawn {
    int n, columns; /* columns 0: two classes */
    float y[MOST][COLUMNS], bits[MOST][COLUMNS];
    int32_t label[MOST];
} drawn;

static void draw(drawn *d, unsigned seed)
{
    state = seed * 2654435761u + 1;
    d->n = 1 + (int)(uniform() * (MOST - 1));
    d->columns = (int)(uniform() * (COLUMNS + 1));
    const double grid = uniform() < 0.5 ? 4 : 1e6, share = uniform();
    for (int i = 0; i < d->n; i++) {
        d->label[i] = uniform() < share;
        for (int k = 0; k < COLUMNS; k++) {
            d->bits[i][k] = uniform() < share;
            const double shift =
                (d->columns == 0 ? (float)((k == 1) * d->label[i]) : d->bits[i][k]);
            d->y[i][k] = (float)(round((2 * uniform() - 1 + shift) * grid) / grid);
        }
    }
}

/* Arrays of the drawn targets, and outputs [n, columns]. */
static dt_tensor *open_drawn(const drawn *d, dt_dataset **out)
{
    const bool classes = d->columns == 0;
    const int64_t width = classes ? 2 : d->columns;
    float x[MOST] = { 0 }, bits[MOST * COLUMNS];
    dt_tensor *y;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ d->n, width }, &y));
    float *to = dt_data_mut(y);
    for (int i = 0; i < d->n; i++) {
        for (int k = 0; k < width; k++) {
            to[i * width + k] = d->y[i][k];
            bits[i * width + k] = d->bits[i][k];
        }
    }
    const dt_arrays arrays = { .count = d->n,
                               .rank = 1,
                               .dims = { 1 },
                               .axis = -1,
                               .x = x,
                               .target = classes ? DT_TARGET_CLASS : DT_TARGET_BITS,
                               .y_dtype = classes ? DT_ARRAY_I32 : DT_ARRAY_F32,
                               .y = classes ? (const void *)d->label : bits,
                               .outputs = width };
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &arrays, out));
    return y;
}

static float logit(const drawn *d, int i, int k)
{
    return d->columns == 0 ? d->y[i][1] - d->y[i][0] : d->y[i][k];
}

static bool wanted(const drawn *d, int i, int k)
{
    return d->columns == 0 ? d->label[i] == 1 : d->bits[i][k] == 1;
}

/* What is maximized, of column k with this threshold, by its definition. */
static double measure(const drawn *d, int k, double t, int what)
{
    double tp = 0, fp = 0, fn = 0, tn = 0;
    for (int i = 0; i < d->n; i++) {
        const bool found = (double)logit(d, i, k) > t, is = wanted(d, i, k);
        tp += found && is;
        fp += found && !is;
        fn += !found && is;
        tn += !found && !is;
    }
    if (what == DT_THRESHOLD_BALANCED) return 0.5 * (tp / (tp + fn) + tn / (tn + fp));
    const double precision = tp + fp == 0 ? 1 : tp / (tp + fp), recall = tp / (tp + fn);
    return tp == 0 ? 0 : 2 * precision * recall / (precision + recall);
}

static bool same_everywhere(const drawn *d, int k)
{
    int labelled = 0;
    for (int i = 0; i < d->n; i++) labelled += wanted(d, i, k);
    return labelled == 0 || labelled == d->n;
}

/* The best of all cuts: above each logit, and below all of them. */
static void compare_cuts(const drawn *d, int k, double t, int what)
{
    const double got = measure(d, k, t, what);
    for (int i = -1; i < d->n; i++) {
        const double cut = i < 0 ? -1e9 : (double)logit(d, i, k);
        const double value = measure(d, k, cut, what);
        ck_assert_msg(value <= got + 1e-12, "cut %.9g: %.9g above %.9g of %.9g", cut, value, got,
                      t);
        if (i < 0 || fabs(value - got) > 1e-12) continue;
        double next = INFINITY; /* as good: a threshold of that cut is not nearer to 0 */
        for (int j = 0; j < d->n; j++) {
            const double other = (double)logit(d, j, k);
            if (other > cut && other < next) next = other;
        }
        const double middle = cut <= 0 && next > 0 ? 0
                              : isinf(next)        ? cut
                                                   : (double)(float)(0.5 * cut + 0.5 * next);
        ck_assert_msg(fabs(t) <= fabs(middle) + 1e-12, "%.9g is nearer than %.9g", middle, t);
    }
}

START_TEST(best_of_all_cuts)
{
    drawn d;
    dt_dataset *data;
    dt__thresholds t;
    open_ctx();
    for (int what = DT_THRESHOLD_F1; what <= DT_THRESHOLD_BALANCED; what++) {
        draw(&d, (unsigned)_i);
        dt_tensor *y = open_drawn(&d, &data);
        TEST_OK(ctx, dt__choose_thresholds(data, y, what, &t));
        const int columns = d.columns == 0 ? 1 : d.columns;
        double with = 0, half = 0, n = 0;
        ck_assert_int_eq(t.logit.n, columns);
        for (int k = 0; k < columns; k++) {
            const double at = t.logit.v[k];
            ck_assert((double)(float)at == at);
            if (same_everywhere(&d, k)) {
                ck_assert(at == 0 && t.first_same >= 0 && t.first_same <= k);
                continue;
            }
            compare_cuts(&d, k, at, what);
            with += measure(&d, k, at, what);
            half += measure(&d, k, 0, what);
            n++;
        }
        ck_assert_int_eq(t.chosen, (int)n);
        if (n > 0) TEST_NEAR(t.with, with / n, 0, 1e-12);
        if (n > 0) TEST_NEAR(t.without, half / n, 0, 1e-12);
        dt_tensor_free(y);
        dt_dataset_free(data);
    }
    close_ctx();
}
END_TEST

START_TEST(outputs_that_are_not_finite)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    drawn d = { .n = 3, .columns = 1, .y = { { 1 }, { 2 }, { 3 } }, .bits = { { 0 }, { 1 } } };
    dt_dataset *data;
    dt__thresholds t;
    open_ctx();
    d.y[_i % 3][0] = bad[_i / 3];
    dt_tensor *y = open_drawn(&d, &data);
    TEST_OK(ctx, dt__choose_thresholds(data, y, DT_THRESHOLD_F1, &t));
    ck_assert(t.logit.n == 1 && t.logit.v[0] == 0 && t.chosen == 0 && t.first_same == 0);
    dt_tensor_free(y);
    dt_dataset_free(data);
    close_ctx();
}
END_TEST

/* ---- runs ------------------------------------------------------------------------------------ */

#define RUN(outputs, task)                                                                         \
    "run: {dir: unset, seed: 3}\n"                                                                 \
    "model: {family: mlp, sizes: [12, 16, " outputs "]}\n"                                         \
    "data: {format: table, task: " task                                                            \
    ", standardize: true, train_count: 300, test_count: 60, validation: 0.3}\n"                    \
    "train: {epochs: 4, batch_size: 16, optimizer: {name: adamw, lr: 3e-3}}\n"

static dt_recipe *read_run(const char *text, const char *const *overrides, int n)
{
    dt_recipe *recipe;
    const dt_recipe_source source = { .path = "run.yaml",
                                      .text = text,
                                      .bytes = strlen(text),
                                      .overrides = overrides,
                                      .n_overrides = n };
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &recipe));
    return recipe;
}

/* The model of a run, and the validation data as the model reads them. */
typedef struct ended {
    char dir[TEST_PATH], path[TEST_PATH];
    dt_run_summary summary;
    dt_module *m;
    dt_model_info info;
    dt_model_data data;
    dt_dataset *validation, *test;
} ended;

/* An exported file has no family, and uses the same thresholds. */
static void compare_exported(const ended *e, dt_recipe *recipe)
{
    const dt_model_info file = { .data = e->info.data };
    dt_dataset *validation, *test;
    TEST_OK(ctx, dt_recipe_open_data(recipe, &file, NULL, &validation, &test));
    ck_assert_int_eq(validation->thresholds.n, e->data.n_thresholds);
    for (int i = 0; i < e->data.n_thresholds; i++) {
        ck_assert_double_eq(validation->thresholds.v[i], e->data.thresholds[i]);
    }
    dt_dataset_free(validation);
    dt_dataset_free(test);
}

static void run(ended *e, const char *text, const char *first, const char *second)
{
    char folder[TEST_PATH], dir[TEST_PATH + 16];
    const char *overrides[] = { dir, first, second };
    const int n = first == NULL ? 1 : second == NULL ? 2 : 3;
    test_folder(folder);
    test_join(e->dir, folder, "run");
    snprintf(dir, sizeof dir, "run.dir=%s", e->dir);
    dt_recipe *recipe = read_run(text, overrides, n);
    TEST_OK(ctx, dt_run(ctx, recipe, NULL, &e->summary));
    const bool converted = e->summary.result[DT_RUN_CONVERTED].given;
    test_join(e->path, e->dir, converted ? "model.safetensors" : "float.safetensors");
    TEST_OK(ctx, dt_model_load(ctx, e->path, &e->m, &e->info));
    TEST_OK(ctx, dt_model_data_parse(ctx, e->info.data, "model", &e->data));
    TEST_OK(ctx, dt_recipe_open_data(recipe, &e->info, NULL, &e->validation, &e->test));
    TEST_OK(ctx, dt_model_data_standardize(&e->data, e->validation));
    compare_exported(e, recipe);
    dt_recipe_free(recipe);
}

static void end(ended *e)
{
    dt_dataset_free(e->validation);
    dt_dataset_free(e->test);
    dt_model_data_free(ctx, &e->data);
    dt_model_info_free(ctx, &e->info);
    dt_module_free(e->m);
}

static void compare_file(const ended *e, int n)
{
    ck_assert_int_eq(e->summary.thresholds.n, n);
    ck_assert_int_eq(e->data.n_thresholds, n);
    for (int i = 0; i < n; i++) {
        ck_assert_double_eq(e->data.thresholds[i], e->summary.thresholds.v[i]);
    }
    ck_assert(e->summary.with_thresholds >= e->summary.without_thresholds);
}

START_TEST(bits_of_a_converted_model)
{
    ended e;
    dt_metrics m;
    char path[TEST_PATH];
    open_ctx();
    run(&e, RUN("3", "multi_label") "qat: {start_step: 8}\n", "train.threshold=f1", NULL);
    ck_assert(e.summary.same_bits_as_qat);
    compare_file(&e, 3);
    TEST_OK(ctx, dt_evaluate(e.m, e.validation, NULL, &m, NULL));
    TEST_NEAR(dt_metric_value(&m, "macro_f1"), e.summary.with_thresholds, 0, 1e-12);
    e.validation->thresholds.n = 0;
    TEST_OK(ctx, dt_evaluate(e.m, e.validation, NULL, &m, NULL));
    TEST_NEAR(dt_metric_value(&m, "macro_f1"), e.summary.without_thresholds, 0, 1e-12);
    test_join(path, e.dir, "summary.json");
    char *text = test_read_file(path, NULL);
    ck_assert_ptr_nonnull(strstr(text, "\"threshold\": {\"probabilities\": ["));
    free(text);
    end(&e);
    close_ctx();
}
END_TEST

/* A table of two classes, of which the second is rare. */
static void write_table(const char *path)
{
    char text[400 * 40];
    size_t n = (size_t)snprintf(text, sizeof text, "a,b,kind\n");
    state = 5;
    for (int i = 0; i < 400; i++) {
        const bool rare = uniform() < 0.15;
        const double u = uniform() + rare, v = uniform() - 0.5 * rare;
        n += (size_t)snprintf(text + n, sizeof text - n, "%.4f,%.4f,%s\n", u, v,
                              rare ? "rare" : "common");
    }
    test_write_file(path, text, n);
}

/* Balanced accuracy of a float model's confusion matrix, which goes by the threshold. */
START_TEST(two_classes)
{
    ended e;
    dt_metrics m;
    dt_tensor *y, *matrix;
    char folder[TEST_PATH], path[TEST_PATH], dir[TEST_PATH + 16];
    open_ctx();
    test_folder(folder);
    test_join(path, folder, "table.csv");
    write_table(path);
    snprintf(dir, sizeof dir, "data.dir=%s", folder);
    run(&e,
        "run: {dir: unset, seed: 3}\n"
        "model: {family: mlp, sizes: [2, 4, 2]}\n"
        "data: {format: tensors, dir: unset, train: {x: table.csv}, split: {by: rows, test: 0.2}, "
        "validation: 0.3, columns: {inputs: [a, b], target: [kind]}}\n"
        "train: {epochs: 2, batch_size: 16, optimizer: {name: adamw, lr: 3e-3}}\n",
        "train.threshold=balanced", dir);
    compare_file(&e, 1);
    TEST_OK(ctx, dt_evaluate(e.m, e.validation, NULL, &m, &y));
    TEST_OK(ctx, dt_confusion(e.validation, y, &matrix));
    const int64_t *n = dt_data(matrix);
    const double right = (double)(n[0] + n[3]), all = (double)(n[0] + n[1] + n[2] + n[3]);
    const double balanced =
        0.5 * ((double)n[0] / (double)(n[0] + n[1]) + (double)n[3] / (double)(n[2] + n[3]));
    TEST_NEAR(balanced, e.summary.with_thresholds, 0, 1e-12);
    TEST_NEAR(dt_metric_value(&m, "accuracy"), right / all, 0, 1e-12);
    dt_tensor_free(y);
    dt_tensor_free(matrix);
    end(&e);
    close_ctx();
}
END_TEST

static const struct {
    const char *text, *overrides[3], *words;
} bad[] = {
    { RUN("4", "classification"), { "train.threshold=f1" }, "requires a model of two classes" },
    { RUN("2", "regression"), { "train.threshold=f1" }, "classification or multi_label" },
    { RUN("3", "multi_label"),
      { "train.threshold=f1", "data.validation=0" },
      "requires validation data" },
    { RUN("3", "multi_label"), { "train.threshold=half" }, "'train.threshold'" },
};

START_TEST(refused)
{
    dt_recipe *recipe = NULL;
    char folder[TEST_PATH], dir[TEST_PATH + 16], path[TEST_PATH];
    open_ctx();
    test_folder(folder);
    test_join(path, folder, "run");
    snprintf(dir, sizeof dir, "run.dir=%s", path);
    const char *const overrides[] = { dir, bad[_i].overrides[0], bad[_i].overrides[1] };
    const dt_recipe_source source = { .path = "run.yaml",
                                      .text = bad[_i].text,
                                      .bytes = strlen(bad[_i].text),
                                      .overrides = overrides,
                                      .n_overrides = bad[_i].overrides[1] == NULL ? 2 : 3 };
    dt_status s = dt_recipe_read(ctx, &source, &recipe);
    if (s == DT_OK) s = dt_run(ctx, recipe, NULL, NULL);
    ck_assert_int_eq(s, DT_ERR_CONFIG);
    ck_assert_msg(strstr(dt_error(ctx), bad[_i].words) != NULL, "%s", dt_error(ctx));
    ck_assert(!test_file_exists(path));
    dt_recipe_free(recipe);
    close_ctx();
}
END_TEST

/* ---- files ----------------------------------------------------------------------------------- */

static const char *const damaged[] = {
    "{\"target\": \"classes\", \"input\": [2], \"output\": [2], \"thresholds\": [0.5, 1]}",
    "{\"target\": \"classes\", \"input\": [2], \"output\": [3], \"thresholds\": [0.5]}",
    "{\"target\": \"bits\", \"input\": [2], \"output\": [3], \"thresholds\": [0.5]}",
    "{\"target\": \"bits\", \"input\": [2], \"output\": [1], \"thresholds\": [0.1]}",
    "{\"target\": \"bits\", \"input\": [2], \"output\": [1], \"thresholds\": [1e300]}",
    "{\"target\": \"values\", \"input\": [2], \"output\": [1], \"thresholds\": [0.5]}",
    "{\"target\": \"values\", \"input\": [2], \"output\": [3], \"quantiles\": [0.5, 0.9]}",
    "{\"target\": \"values\", \"input\": [2], \"output\": [2], \"quantiles\": [0.9, 0.5]}",
    "{\"target\": \"values\", \"input\": [2], \"output\": [2], \"quantiles\": [0, 0.5]}",
    "{\"target\": \"values\", \"input\": [2], \"output\": [2], \"quantiles\": [0.5, 1]}",
    "{\"target\": \"values\", \"input\": [2], \"quantiles\": [0.5]}",
};

START_TEST(damaged_files)
{
    dt_model_data data;
    open_ctx();
    TEST_FAILS(ctx, DT_ERR_FORMAT, _i < 6 ? "thresholds" : "quantiles",
               dt_model_data_parse(ctx, damaged[_i], "file", &data));
    close_ctx();
}
END_TEST

/* ---- exported C ------------------------------------------------------------------------------ */

static const struct {
    int64_t outputs;
    const char *data, *program;
} programs[] = {
    { 2, "{\"target\": \"classes\", \"input\": [2], \"output\": [2], \"thresholds\": [0.5]}",
      "const float y[][2] = {{1, 1.5f}, {1, 1.75f}, {1, 0}};\n"
      "if (NET_THRESHOLD != 0.5f || net_classify(y[0], &s) != 0 || s != 1) return 1;\n"
      "if (net_classify(y[1], &s) != 1 || s != 1.75f || net_classify(y[2], 0) != 0) return 2;\n" },
    { 3, "{\"target\": \"classes\", \"input\": [2], \"output\": [3]}",
      "const float y[][3] = {{1, 2, 2}, {1, 0, 3}};\n"
      "if (net_classify(y[0], &s) != 1 || s != 2 || net_classify(y[1], 0) != 2) return 1;\n" },
    { 2, "{\"target\": \"bits\", \"input\": [2], \"output\": [2], \"thresholds\": [-0.25, 3]}",
      "if (NET_THRESHOLD[0] != -0.25f || NET_THRESHOLD[1] != 3) return 1;\n(void)s;\n" },
};

START_TEST(exported_c)
{
    const dt_mlp_options options = { .sizes = { 2, { 2, programs[_i].outputs } },
                                     .eps = 1e-5,
                                     .momentum = 0.1 };
    const dt_model_info info = { .data = programs[_i].data };
    char path[TEST_PATH], file[TEST_PATH], program[800], *output;
    dt_module *m;
    dt_tensor *x;
    open_ctx();
    TEST_OK(ctx, dt_mlp_create(ctx, &options, &m));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 1, 2 }, &x));
    const c_subject o = { m, &x, 1, 1, "net" };
    c_new_folder(path);
    TEST_OK(ctx, c_export(&o, &info, path));
    const int n = snprintf(program, sizeof program,
                           "#include \"net.h\"\nint main(void)\n{\nfloat s = 0;\n%sreturn 0;\n}\n",
                           programs[_i].program);
    test_join(file, path, "main.c");
    test_write_file(file, program, (size_t)n);
    const int status = test_shell(
        &output, "cd %s && cc " C_STRICT " net.c main.c -o main 2>&1 && ./main 2>&1", path);
    ck_assert_msg(status == 0, "%d: %s", status, output);
    free(output);
    dt_tensor_free(x);
    dt_module_free(m);
    close_ctx();
}
END_TEST

START_TEST(inspect_shows_how_a_model_reads_and_decides)
{
    static const struct {
        const char *data, *line;
    } all[] = {
        { "{\"target\": \"classes\", \"input\": [2], \"output\": [2], \"thresholds\": [0.5]}",
          "thresholds      0.5\n" },
        { "{\"target\": \"values\", \"input\": [2], \"output\": [2], \"quantiles\": [0.1, 0.9]}",
          "quantiles       0.1, 0.9\n" },
        { "{\"target\": \"classes\", \"input\": [2], \"output\": [2], \"csv\": {\"decimal\": "
          "\",\", \"thousands\": \".\", \"encoding\": \"auto\", \"comment\": \"\"}}",
          "numbers         decimal commas, points between thousands\n" },
        { "{\"target\": \"classes\", \"input\": [4, 2], \"output\": [2], \"stride\": 3, "
          "\"series\": "
          "{\"by\": [\"who\"], \"time\": \"when\", \"format\": \"\", \"gap\": 1.5, \"label\": "
          "\"last\"}}",
          "series          windows of 4 rows, 3 apart, of one who, in the order of when," },
    };
    const dt_mlp_options options = { .sizes = { 2, { 2, 2 } }, .eps = 1e-5, .momentum = 0.1 };
    char path[TEST_PATH], *output;
    dt_module *m;
    open_ctx();
    const dt_model_info info = { .family = dt_family_named(ctx, "mlp"),
                                 .options = (void *)(uintptr_t)&options,
                                 .data = all[_i].data };
    test_folder(path);
    test_join(path, path, "m.safetensors");
    TEST_OK(ctx, dt_mlp_create(ctx, &options, &m));
    TEST_OK(ctx, dt_model_save(m, &info, path));
    ck_assert_int_eq(test_shell(&output, "'" DETENT_BINARY_DIR "/detent' inspect '%s'", path), 0);
    ck_assert_msg(strstr(output, all[_i].line) != NULL, "%s", output);
    free(output);
    dt_module_free(m);
    close_ctx();
}
END_TEST

/* ---- quantiles ------------------------------------------------------------------------------- */

/* Of metrics, by the outputs. */
static void compare_quantiles(const ended *e)
{
    static const double level[] = { 0.2, 0.5, 0.7 };
    dt_metrics m;
    dt_tensor *outputs, *x, *target;
    dt_loader *loader;
    dt_loader_options order = { .batch_size = dt_dataset_count(e->validation) };
    double loss = 0, covered = 0, crossed = 0;
    TEST_OK(ctx, dt_evaluate(e->m, e->validation, NULL, &m, &outputs));
    TEST_OK(ctx, dt_loader_create(e->validation, &order, &loader));
    TEST_OK(ctx, dt_loader_next(loader, &x, &target));
    const float *y = dt_data(outputs), *t = dt_data(target);
    const int64_t n = dt_count(target);
    ck_assert_int_eq(dt_count(outputs), 3 * n);
    for (int64_t i = 0; i < n; i++, y += 3) {
        for (int q = 0; q < 3; q++) {
            const double gap = fabs((double)t[i] - (double)y[q]);
            loss += gap * (t[i] < y[q] ? 1 - level[q] : level[q]) / 3;
        }
        covered += t[i] >= y[0] && t[i] <= y[2];
        crossed += y[0] > y[1] || y[1] > y[2];
    }
    TEST_NEAR(dt_metric_value(&m, "pinball"), loss / (double)n, 1e-9, 0);
    TEST_NEAR(m.loss, loss / (double)n, 1e-9, 0);
    TEST_NEAR(dt_metric_value(&m, "coverage"), covered / (double)n, 0, 1e-12);
    TEST_NEAR(dt_metric_value(&m, "crossings"), crossed / (double)n, 0, 1e-12);
    dt_loader_free(loader);
    dt_tensor_free(outputs);
}

START_TEST(quantiles)
{
    ended e;
    open_ctx();
    run(&e, RUN("6", "regression") "qat: {start_step: 20}\n", "train.loss=quantile",
        "train.quantiles=[0.2, 0.5, 0.7]");
    ck_assert(e.summary.same_bits_as_qat);
    ck_assert_int_eq(e.data.n_quantiles, 3);
    ck_assert_int_eq(e.data.output.v[0], 6);
    ck_assert_int_eq(e.data.n_names, 6);
    ck_assert_msg(strstr(e.data.names[0], " q0.2") != NULL, "%s", e.data.names[0]);
    ck_assert_msg(strstr(e.data.names[5], " q0.7") != NULL, "%s", e.data.names[5]);
    compare_quantiles(&e);
    end(&e);
    close_ctx();
}
END_TEST

/* A model that ignores its inputs, since softmax makes them 1, learns the quantiles of the
 * targets. */
START_TEST(quantiles_are_learned)
{
    ended e;
    open_ctx();
    run(&e,
        "run: {dir: unset, seed: 3}\n"
        "model: {family: layers, input: [12], layers: [{linear: a, out: 1}, {softmax: one}, "
        "{linear: b, out: 6}]}\n"
        "data: {format: table, task: regression, train_count: 400, test_count: 60, validation: "
        "0.1}\n"
        "train: {epochs: 200, batch_size: 36, loss: quantile, optimizer: {name: adam, lr: 0.02}, "
        "schedule: {name: linear}}\n",
        NULL, NULL);
    dt_tensor *outputs, *x, *target;
    dt_metrics m;
    dt_loader *loader;
    dt_recipe *recipe =
        read_run("run: {dir: unset, seed: 3}\nmodel: {family: mlp, sizes: [12, 6]}\n"
                 "data: {format: table, task: regression, train_count: 400, "
                 "test_count: 60, validation: 0.1}\n",
                 NULL, 0);
    dt_dataset *train, *validation, *test;
    TEST_OK(ctx, dt_recipe_open_data(recipe, NULL, &train, &validation, &test));
    dt_loader_options order = { .batch_size = dt_dataset_count(train) };
    TEST_OK(ctx, dt_loader_create(train, &order, &loader));
    TEST_OK(ctx, dt_loader_next(loader, &x, &target));
    TEST_OK(ctx, dt_evaluate(e.m, e.validation, NULL, &m, &outputs));
    const float *y = dt_data(outputs), *t = dt_data(target);
    const int64_t n = dt_dataset_count(train);
    static const double level[] = { 0.1, 0.5, 0.9 };
    for (int k = 0; k < 6; k++) {
        double below = 0;
        for (int64_t i = 0; i < n; i++) below += t[2 * i + k / 3] <= y[k];
        TEST_NEAR(below / (double)n, level[k % 3], 0, 0.03);
    }
    dt_tensor_free(outputs);
    dt_loader_free(loader);
    dt_dataset_free(train);
    dt_dataset_free(validation);
    dt_dataset_free(test);
    dt_recipe_free(recipe);
    end(&e);
    close_ctx();
}
END_TEST

Suite *test_thresholds_suite(void)
{
    Suite *s = suite_create("thresholds");
    TCase *c = tcase_create("thresholds");
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, best_of_all_cuts, 0, 200);
    tcase_add_loop_test(c, outputs_that_are_not_finite, 0, 9);
    tcase_add_test(c, bits_of_a_converted_model);
    tcase_add_test(c, two_classes);
    tcase_add_loop_test(c, refused, 0, (int)(sizeof bad / sizeof bad[0]));
    tcase_add_loop_test(c, damaged_files, 0, (int)(sizeof damaged / sizeof damaged[0]));
    tcase_add_loop_test(c, inspect_shows_how_a_model_reads_and_decides, 0, 4);
    tcase_add_loop_test(c, exported_c, 0, (int)(sizeof programs / sizeof programs[0]));
    tcase_add_test(c, quantiles);
    tcase_add_test(c, quantiles_are_learned);
    suite_add_tcase(s, c);
    return s;
}
