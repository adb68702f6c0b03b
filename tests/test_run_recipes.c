/* Every recipe in configs/ runs on small data. */
#include "run_jobs.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- shipped recipes ------------------------------------------------------------------------ */

/* What a recipe's data is: drawn, or files that the test makes. */
enum { DRAWN, MNIST, CIFAR, TEXT, ORDERS, IMAGES, SPEECH, WAKEWORD, CARS };

static const struct {
    const char *name;
    int data;
} shipped[] = {
    { "digits-mlp", DRAWN },          { "digits-cnn", DRAWN },
    { "digits-unet-denoise", DRAWN }, { "digits-2bit", DRAWN },
    { "mnist-mlp", MNIST },           { "mnist-mlp-int8", MNIST },
    { "mnist-mlp-finetune", MNIST },  { "mnist-cnn", MNIST },
    { "mnist-cnn-w4a4", MNIST },      { "mnist-tfc-w2a2", MNIST },
    { "cifar10-resnet20", CIFAR },    { "adder", DRAWN },
    { "shakespeare-char-gpt", TEXT }, { "shakespeare-llama", TEXT },
    { "shakespeare-moe", TEXT },      { "names-bytes-tiny", TEXT },
    { "sounds-dscnn", DRAWN },        { "sensors-conv1d", DRAWN },
    { "sensors-gru", DRAWN },         { "sensors-anomaly", DRAWN },
    { "table-classes", DRAWN },       { "table-values", DRAWN },
    { "digits-mobilenet", DRAWN },    { "table-columns", ORDERS },
    { "mlperf-resnet8", CIFAR },      { "mlperf-mobilenet", IMAGES },
    { "mlperf-dscnn", SPEECH },       { "mlperf-wakeword", WAKEWORD },
    { "mlperf-autoencoder", CARS },
};

/* Of MLPerf Tiny: the folder of drawn data that a recipe reads. */
static const char *const drawn_folders[] = {
    [IMAGES] = "vww", [SPEECH] = "speech", [WAKEWORD] = "wakeword", [CARS] = "ToyCar"
};

#define SHIPPED ((int)(sizeof shipped / sizeof shipped[0]))

static const test_draws recipe_steps = { .usual = 1, .sanitized = 9 }; /* one of as many */
static const test_draws report_steps = { .usual = 1, .sanitized = 4 }; /* those with a report */

static const test_draws updates = { .usual = 6, .quick = 4, .sanitized = 4 };
static const test_draws batches = { .usual = 16,
                                    .quick = 4,
                                    .sanitized = 2 }; /* examples in each */
static const test_draws trained = { .usual = 200, .quick = 60, .sanitized = 30 };
static const test_draws tested = { .usual = 50, .quick = 16, .sanitized = 8 };

/* The four files of MNIST, drawn by detent. */
static void write_images(const char *folder)
{
    dt_ctx *ctx = sample_context(2);
    dt_dataset *train = sample_digits(ctx, test_count(trained), 1),
               *test = sample_digits(ctx, test_count(tested), 2);
    TEST_OK(ctx, dt_idx_write(train, job_path(folder, "train-images-idx3-ubyte.gz"),
                              job_path(folder, "train-labels-idx1-ubyte.gz")));
    TEST_OK(ctx, dt_idx_write(test, job_path(folder, "t10k-images-idx3-ubyte.gz"),
                              job_path(folder, "t10k-labels-idx1-ubyte.gz")));
    dt_dataset_free(train);
    dt_dataset_free(test);
    dt_ctx_free(ctx);
}

/* The six files of CIFAR-10, 24 noisy images each. */
static void write_cifar(const char *folder)
{
    static uint8_t records[24 * 3073];
    static const char *const names[] = { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                         "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin" };
    uint32_t x = 1;
    for (int file = 0; file < 6; file++) {
        for (size_t i = 0; i < sizeof records; i++) {
            x = x * 1664525U + 1013904223U;
            records[i] = (uint8_t)(i % 3073 == 0 ? (x >> 24) % 10 : x >> 24);
        }
        test_write_file(job_path(folder, names[file]), records, sizeof records);
    }
}

/* Both files of text: 65 different characters, and few of them. */
static void write_texts(const char *folder)
{
    char text[3 * 1000 + 1] = "";
    for (int i = 0; i < 3000; i++) text[i] = (char)('!' + (i < 65 ? i : i * i % 65));
    test_write_text(job_path(folder, "tinyshakespeare.txt"), text);
    test_write_text(job_path(folder, "names.txt"), text);
}

/* A table of typed columns, as its recipe says how to draw it. */
static void write_orders(const char *folder)
{
    char *said;
    const int status = test_shell(&said, "'%s/scripts/draw-table' %d >%s/orders.csv",
                                  DETENT_SOURCE_DIR, (int)test_count(trained), folder);
    ck_assert_msg(status == 0, "%s", said);
    free(said);
}

/* Data of the shapes of MLPerf Tiny. */
static void write_tiny(const char *folder, const char *name)
{
    char *said;
    const int status = test_shell(&said, "'%s/scripts/mlperf-tiny-data' draw %s 6 %s 2>&1",
                                  DETENT_SOURCE_DIR, folder, name);
    ck_assert_msg(status == 0, "%s", said);
    free(said);
}

static void run_shipped(const char *name, const char *const *overrides, int n)
{
    char path[TEST_PATH];
    snprintf(path, sizeof path, "%s/configs/%s.yaml", DETENT_SOURCE_DIR, name);
    dt_ctx *ctx = sample_context(2);
    const dt_recipe_source source = { .path = path, .overrides = overrides, .n_overrides = n };
    dt_recipe *recipe = NULL;
    dt_run_summary summary;
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &recipe));
    TEST_OK(ctx, dt_run(ctx, recipe, NULL, &summary));
    ck_assert_msg(summary.same_bits_as_qat, "%s", name);
    const char *model = job_path(overrides[0] + strlen("run.dir="), "model.safetensors");
    ck_assert_int_eq(job_bytes(ctx, model), summary.result[DT_RUN_CONVERTED].bytes);
    dt_recipe_free(recipe);
    dt_ctx_free(ctx);
}

/* A few updates of a recipe, on small data. */
static void run_short(const char *folder, int i, const char *init)
{
    char dir[TEST_PATH + 16], data[TEST_PATH + 16], batch[40], train[40], test[40], steps[24],
        every[40];
    const char *overrides[10] = { dir, steps, "qat.start_step=2", "train.schedule.warmup_steps=2",
                                  batch };
    int n = 5;
    snprintf(steps, sizeof steps, "train.steps=%d", (int)test_count(updates));
    snprintf(every, sizeof every, "train.evaluate.every_steps=%d", (int)test_count(updates) / 2);
    snprintf(batch, sizeof batch, "train.batch_size=%d", (int)test_count(batches));
    snprintf(dir, sizeof dir, "run.dir=%s/%s", folder, shipped[i].name);
    const char *own = shipped[i].data < IMAGES ? "" : drawn_folders[shipped[i].data];
    snprintf(data, sizeof data, "data.dir=%s/%s", folder, own);
    snprintf(train, sizeof train, "data.train_count=%d", (int)test_count(trained));
    snprintf(test, sizeof test, "data.test_count=%d", (int)test_count(tested));
    overrides[n++] = shipped[i].data == DRAWN ? train : data;
    if (shipped[i].data == DRAWN) overrides[n++] = test;
    if (init != NULL) overrides[n++] = init;
    if (i % test_count(report_steps) != 0) overrides[n++] = "run.report=false";
    /* check_routing wants two evaluations, however small the batches are */
    if (strcmp(shipped[i].name, "shakespeare-moe") == 0) {
        overrides[n++] = every;
    }
    run_shipped(shipped[i].name, overrides, n);
}

static int find_shipped(const char *name)
{
    int i = 0;
    while (strcmp(shipped[i].name, name) != 0) i++;
    return i;
}

/* Validation reports the routing of rows: of 8 experts in each layer, whose shares add up to 1. */
static void check_routing(const char *run)
{
    char *metrics = job_metrics(run);
    double busiest = 0, idlest = 0;
    const char *most = strstr(metrics, "busiest_expert"), *least = strstr(metrics, "idlest_expert");
    ck_assert(most != NULL && least != NULL && strstr(most + 1, "busiest_expert") != NULL);
    sscanf(strchr(most, ':'), ": %lf", &busiest);
    sscanf(strchr(least, ':'), ": %lf", &idlest);
    ck_assert(busiest > 0.125 && busiest < 0.5 && idlest >= 0 && idlest < 0.125);
    free(metrics);
}

START_TEST(every_shipped_recipe_runs)
{
    char folder[TEST_PATH], init[TEST_PATH + 64];
    const int r = _i * (int)test_count(recipe_steps);
    const bool tunes = strcmp(shipped[r].name, "mnist-mlp-finetune") == 0;
    test_folder(folder);
    if (shipped[r].data == MNIST) write_images(folder);
    if (shipped[r].data == CIFAR) write_cifar(folder);
    if (shipped[r].data == TEXT) write_texts(folder);
    if (shipped[r].data == ORDERS) write_orders(folder);
    if (shipped[r].data >= IMAGES) write_tiny(folder, drawn_folders[shipped[r].data]);
    if (tunes) run_short(folder, find_shipped("mnist-mlp"), NULL);
    snprintf(init, sizeof init, "model.init=%s/mnist-mlp/float.safetensors", folder);
    run_short(folder, r, tunes ? init : NULL);
    if (strcmp(shipped[r].name, "shakespeare-moe") == 0) {
        check_routing(job_path(folder, "shakespeare-moe"));
    }
}
END_TEST

/* Runs the program in the folder; its output must contain a text. */
static void says(const char *folder, const char *words, const char *command)
{
    char *said;
    const int status =
        test_shell(&said, "cd %s && D='%s/detent' && %s 2>&1", folder, DETENT_BINARY_DIR, command);
    ck_assert_msg(status == 0 && strstr(said, words) != NULL, "%s: %s", command, said);
    free(said);
}

/* Words, dates and holes by the same bits everywhere: a code that chooses the row of an embedding
 * is trained, answered with, and exported. */
START_TEST(typed_columns_reach_devices)
{
    char folder[TEST_PATH];
    test_folder(folder);
    write_orders(folder);
    run_short(folder, find_shipped("table-columns"), NULL);
    test_write_text(job_path(folder, "new.csv"),
                    "order,town,age,ordered,member,amount\n"
                    "1,nowhere,?,2031-02-03T04:05:06,no,12\n2,,33,2025-07-08T00:00:00,yes,0.5\n");
    says(folder, "average_precision", "$D eval table-columns");
    says(folder, "'nowhere'; they are unknown", "$D predict table-columns new.csv");
    says(folder, "m: 0 wrong",
         "$D export table-columns --format c -o m && cc -o m/run m/m.c m/m_test.c && m/run");
    says(folder, "values have the model's bits; largest difference 0 ",
         "$D export table-columns --format onnx -o m.onnx --verify");
    says(folder, "largest difference",
         "$D export table-columns --format tflite -o m.tflite --verify");
}
END_TEST

/* The table's row of the threshold is what `eval` finds by the file. */
START_TEST(thresholds_have_a_row)
{
    char folder[TEST_PATH];
    test_folder(folder);
    write_orders(folder);
    says(folder, "\nthreshold 0.",
         "$D train '" DETENT_SOURCE_DIR "/configs/table-columns.yaml' data.dir=. run.dir=t "
         "train.steps=8 train.float_baseline=false qat.start_step=4 train.threshold=f1 --quiet");
    says(folder, "class 1 is found above a probability of 0.", "$D eval t");
    says(folder, "equal",
         "$D eval t --json 2>/dev/null | sed 's/, \"loss.*//' >e && sed -n "
         "'s/.*\"results\": \\({.*\\), \"loss.*/\\1/p' t/summary.json >s && grep accuracy s && "
         "cmp e s && echo equal");
}
END_TEST

/* The page says how windows were made: the columns, the rate, and the gap that was found. */
START_TEST(reports_have_series)
{
    char folder[TEST_PATH];
    test_folder(folder);
    says(folder, "",
         "awk 'BEGIN { print \"who,t,x,kind\"; for (s = 0; s < 6; s++) for (i = 0; i < 60; i++) "
         "printf \"p%d,%.3f,%.3f,%s\\n\", s, i * 0.02, sin(i * (0.1 + 0.1 * s)), "
         "s % 2 ? \"fast\" : \"<b>\" }' >s.csv && "
         "printf '%s\\n' 'run: {dir: r}' 'model: {family: layers, input: [8, 1], layers: [flatten, "
         "{linear: a, out: 2}]}' 'data: {format: tensors, train: {x: s.csv}, columns: {target: "
         "kind}, window: {length: 8, stride: 4}, series: {by: who, time: t, rate: 40, method: "
         "nearest}, validation: 0.3}' 'train: {epochs: 1}' >r.yaml && $D train r.yaml --quiet");
    static const char *const rows[] = { "<th scope=\"row\">by</th><td>who<",
                                        "<th scope=\"row\">rate</th><td>40<",
                                        "<th scope=\"row\">method</th><td>nearest<",
                                        "<th scope=\"row\">gap</th><td>0.0",
                                        "<th scope=\"row\">stride</th><td>4<" };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        says(folder, rows[i], "sed -n '/id=\"series\"/,/section>/p' r/report.html");
    }
}
END_TEST

Suite *test_run_recipes_suite(void)
{
    Suite *suite = suite_create("run_recipes");
    TCase *all = tcase_create("run_recipes");
    tcase_set_timeout(all, 300);
    const int step = (int)test_count(recipe_steps);
    tcase_add_loop_test(all, every_shipped_recipe_runs, 0, (SHIPPED + step - 1) / step);
    tcase_add_test(all, typed_columns_reach_devices);
    tcase_add_test(all, thresholds_have_a_row);
    tcase_add_test(all, reports_have_series);
    suite_add_tcase(suite, all);
    return suite;
}
