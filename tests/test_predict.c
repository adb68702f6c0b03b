/* detent predict, new and doctor: predictions for files of every task; bad inputs are refused by
 * name; a recipe of `new` can be trained. */
#include "testing.h"

#include "array_files.h"
#include "models.h"
#include "png_make.h"

#include <detent/io.h>

#include <jansson.h>

#include <math.h>
#include <stdlib.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' "
#define CONFIGS "'" DETENT_SOURCE_DIR "/configs/"

static char folder[TEST_PATH];

static void write_bytes(const char *name, const void *bytes, size_t n)
{
    char path[TEST_PATH];
    test_join(path, folder, name);
    test_write_file(path, bytes, n);
}

static void expect(int status, const char *words, const char *command)
{
    char *output = NULL;
    const int found = test_shell(&output, "cd %s && " DETENT "%s 2>&1", folder, command);
    ck_assert_msg(found == status, "detent %s: %d: %s", command, found, output);
    ck_assert_msg(strstr(output, words) != NULL, "detent %s: %s", command, output);
    free(output);
}

static json_t *json_of(const char *command)
{
    char *output = NULL;
    const int found = test_shell(&output, "cd %s && " DETENT "%s 2>/dev/null", folder, command);
    json_t *root = json_loads(output, 0, NULL);
    ck_assert_msg(found == 0 && root != NULL, "detent %s: %d: %s", command, found, output);
    free(output);
    return root;
}

/* Trains a shipped recipe for a moment. */
static void train(const char *recipe, const char *changes)
{
    char *output = NULL;
    const int status = test_shell(&output,
                                  "cd %s && " DETENT "train " CONFIGS "%s.yaml' run.dir=%s "
                                  "data.train_count=200 data.test_count=20 train.epochs=1 "
                                  "qat.start_step=1 train.float_baseline=false "
                                  "train.schedule.warmup_steps=0 run.report=false --quiet "
                                  "%s 2>&1",
                                  folder, recipe, recipe, changes);
    ck_assert_msg(status == 0, "%s: %s", recipe, output);
    free(output);
}

static double number_at(const json_t *list, size_t i, const char *key)
{
    return json_number_value(json_object_get(json_array_get(list, i), key));
}

/* ---- images --------------------------------------------------------------------------------- */

enum { SIDE = 28, PIXELS = SIDE * SIDE, IMAGES = 20 };

/* Writes the test digits of a recipe as images.npy, u8, and 1.png; returns the bytes. */
static uint8_t *write_digits(void)
{
    static uint8_t pixels[IMAGES * PIXELS];
    dt_ctx *ctx = NULL;
    dt_dataset *d = NULL;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_digits_create(ctx, IMAGES, ~(uint64_t)1, DT_TARGET_CLASS, &d));
    for (int i = 0; i < IMAGES; i++) memcpy(pixels + i * PIXELS, dt_dataset_image(d, i), PIXELS);
    char path[TEST_PATH];
    test_join(path, folder, "1.png");
    TEST_OK(ctx, dt_png_write(ctx, path, &(dt_png_image){ 1, SIDE, SIDE, pixels + PIXELS }));
    dt_dataset_free(d);
    dt_ctx_free(ctx);
    file_bytes f =
        npy_file(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (20, 1, 28, 28), }", pixels,
                 sizeof pixels);
    write_bytes("images.npy", f.v, f.n);
    file_free(&f);
    return pixels;
}

/* The probabilities are those of the outputs that `eval --outputs` writes. */
START_TEST(images_are_classified)
{
    char path[TEST_PATH];
    test_folder(folder);
    train("digits-2bit", "");
    const uint8_t *pixels = write_digits();
    expect(0, "examples 20", "eval digits-2bit --outputs out.st");
    dt_ctx *ctx = NULL;
    dt_file *file = NULL;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_join(path, folder, "out.st");
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    const float *y = dt_file_at(file, 0)->data;
    json_t *all = json_of("predict digits-2bit images.npy 1.png --top 10 --json");
    ck_assert_uint_eq(json_array_size(all), IMAGES + 1);
    for (size_t i = 0; i <= IMAGES; i++) {
        const float *row = y + 10 * (i == IMAGES ? 1 : i); /* the last is 1.png */
        double sum = 0;
        for (int k = 0; k < 10; k++) sum += exp((double)row[k]);
        const json_t *classes = json_object_get(json_array_get(all, i), "classes");
        ck_assert_uint_eq(json_array_size(classes), 10);
        for (size_t k = 0; k < 10; k++) {
            const int at = (int)number_at(classes, k, "class");
            TEST_NEAR(number_at(classes, k, "probability"), exp((double)row[at]) / sum, 1e-12,
                      1e-9);
        }
        ck_assert(number_at(classes, 0, "probability") >= number_at(classes, 1, "probability"));
    }
    json_decref(all);
    dt_file_close(file);
    dt_ctx_free(ctx);
    float numbers[PIXELS]; /* floats of 0 to 1 are the same image */
    for (int i = 0; i < PIXELS; i++) numbers[i] = (float)pixels[PIXELS + i] / 255.0F;
    file_bytes f = npy_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 28, 28), }",
                            numbers, sizeof numbers);
    write_bytes("f.npy", f.v, f.n);
    file_free(&f);
    json_t *png = json_of("predict digits-2bit 1.png --json"),
           *npy = json_of("predict digits-2bit f.npy --json");
    ck_assert(json_equal(json_object_get(json_array_get(png, 0), "classes"),
                         json_object_get(json_array_get(npy, 0), "classes")));
    json_decref(png);
    json_decref(npy);
    expect(0, "1.png", "predict digits-2bit 1.png");
    char *named, *found;
    ck_assert_int_eq(test_shell(NULL,
                                "cd %s && mkdir -p all/b/.c all/empty && cp 1.png all/b/x.PNG && "
                                "cp 1.png all/a.png && cp 1.png all/b/.c/hidden.png && "
                                "cp 1.png all/.h.png && cp f.npy all",
                                folder),
                     0);
    ck_assert_int_eq(test_shell(&named,
                                "cd %s && " DETENT "predict digits-2bit all/a.png "
                                "all/b/x.PNG 1.png --json 2>&1",
                                folder),
                     0);
    ck_assert_int_eq(test_shell(&found,
                                "cd %s && " DETENT "predict digits-2bit all 1.png --json "
                                "2>&1",
                                folder),
                     0);
    ck_assert_str_eq(named, found); /* a folder is its files */
    free(named);
    free(found);
    expect(0, "it reads pixels as v = p/255", "export digits-2bit --format onnx -o d.onnx");
    expect(0, "examples 20", "eval d.onnx digits-2bit");
    expect(2, "give a recipe or a run for its test data (detent eval d.onnx RECIPE)",
           "eval d.onnx");
    expect(4, "'all/empty': a folder without files *.png, *.jpg, *.jpeg",
           "predict digits-2bit all/empty");
    ck_assert_int_eq(test_shell(NULL, "cd %s && ln -s . all/self", folder), 0);
    expect(4, "levels of symbolic links", "predict digits-2bit all");
}
END_TEST

START_TEST(images_are_answered_with_images)
{
    test_folder(folder);
    train("digits-unet-denoise", "model.widths=[4,8]");
    write_digits();
    expect(0, "clean.png", "predict digits-unet-denoise 1.png -o clean.png");
    expect(0, "-o FILE writes it", "predict digits-unet-denoise 1.png");
    expect(2, "model.safetensors is not a language model",
           "predict digits-unet-denoise 1.png --format");
    expect(2, "give a folder", "predict digits-unet-denoise images.npy -o clean.png");
    expect(0, "many/images-19.png", "predict digits-unet-denoise images.npy -o many");
    expect(0, "many/clean.png", "predict digits-unet-denoise clean.png many/images-3.png -o many");
    expect(0, "will be replaced", "predict digits-unet-denoise 1.png -o clean.png");
}
END_TEST

/* Grey levels of classes: 0 of the first to 255 of the last; their numbers are those of pixels. */
START_TEST(images_are_answered_with_masks)
{
    static const char command[] = "predict digits-unet-denoise images.npy -o masks --json";
    test_folder(folder);
    train("digits-unet-denoise", "model.widths=[4,8] data.task=segmentation '~data.noise' "
                                 "model.outputs=11");
    write_digits();
    json_t *all = json_of(command);
    ck_assert_int_eq((int)json_array_size(all), IMAGES);
    for (size_t i = 0; i < IMAGES; i++) {
        const char *name;
        json_t *share;
        double sum = 0;
        json_object_foreach(json_object_get(json_array_get(all, i), "pixels"), name, share)
        {
            sum += json_number_value(share);
        }
        ck_assert_msg(sum == PIXELS, "image %zu: %g pixels", i, sum);
    }
    json_decref(all);
    /* the image's pixels are the levels whose shares were given */
    dt_ctx *ctx = NULL;
    char path[TEST_PATH];
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_join(path, folder, "masks");
    dt_png_options o = dt_png_defaults();
    dt_dataset *d = NULL;
    ck_assert_int_eq(
        test_shell(NULL, "cd %s && mkdir -p classes/all && cp masks/*.png classes/all", folder), 0);
    test_join(path, folder, "classes");
    TEST_OK(ctx, dt_png_read(ctx, path, &o, &d));
    ck_assert_int_eq((int)dt_dataset_count(d), IMAGES);
    for (int64_t i = 0; i < IMAGES; i++) {
        const uint8_t *pixel = dt_dataset_image(d, i);
        for (int k = 0; k < PIXELS; k++) {
            bool level = false;
            for (int c = 0; c < 11; c++) level = level || abs(pixel[k] - c * 255 / 10) <= 1;
            ck_assert_msg(level, "a pixel of %d", pixel[k]);
        }
    }
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* The outputs that the golden file of the ONNX model names, at the inputs that it names. */
START_TEST(imported_models_answer)
{
    test_folder(folder);
    ck_assert_int_eq(test_shell(NULL,
                                "cd %s && " DETENT "import '" DETENT_SOURCE_DIR
                                "/tests/onnx/cnn.onnx' -o m.safetensors",
                                folder),
                     0);
    expect(4, "no array of this name",
           "predict m.safetensors '" DETENT_SOURCE_DIR "/tests/onnx/cnn.safetensors:zebra'");
    json_t *all = json_of("predict m.safetensors '" DETENT_SOURCE_DIR
                          "/tests/onnx/cnn.safetensors:x' --json");
    size_t n;
    float y[3][5];
    char *file = test_read_file(DETENT_SOURCE_DIR "/tests/onnx/cnn.safetensors", &n);
    memcpy(y, file + n - sizeof y, sizeof y); /* the file's last tensor */
    ck_assert_uint_eq(json_array_size(all), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *values = json_object_get(json_array_get(all, i), "values");
        ck_assert_uint_eq(json_array_size(values), 5);
        for (size_t k = 0; k < 5; k++) {
            const double v = json_number_value(json_array_get(values, k));
            ck_assert_msg(fabs(v - (double)y[i][k]) < 1e-5, "%zu, %zu: %g", i, k, v);
        }
    }
    free(file);
    ck_assert_int_eq(test_shell(NULL,
                                "cd %s && " DETENT "import '" DETENT_SOURCE_DIR
                                "/tests/onnx/two.onnx' -o two",
                                folder),
                     0);
    expect(0, "two.safetensors", "predict two '" DETENT_SOURCE_DIR "/tests/onnx/two.safetensors'");
    json_decref(all);
}
END_TEST

/* ---- tables, signals, text ------------------------------------------------------------------ */

static const char table[] = "a,b,c,d,e,f,g,h,i,j,k,l,extra\n"
                            "1,2,3,4,5,6,7,8,9,10,11,12,99\n"
                            "0,0,0,0,0,0,0,0,0,0,0,0,99\n";

START_TEST(tables_are_answered)
{
    static const char columns[] = "--columns a,b,c,d,e,f,g,h,i,j,k,l";
    char command[256];
    test_folder(folder);
    train("table-values", "");
    train("table-classes", "");
    write_bytes("t.csv", table, sizeof table - 1);
    expect(4, "13 columns of numbers; the model reads examples of [12]",
           "predict table-values t.csv");
    snprintf(command, sizeof command, "predict table-values t.csv %s --json", columns);
    json_t *all = json_of(command);
    ck_assert_uint_eq(json_array_size(all), 2);
    ck_assert_uint_eq(json_array_size(json_object_get(json_array_get(all, 0), "values")), 2);
    json_decref(all);
    snprintf(command, sizeof command, "predict table-values t.csv %s", columns);
    expect(0, "yield", command);
    snprintf(command, sizeof command, "predict table-classes t.csv %s --top 1", columns);
    expect(0, "t.csv [1]", command);
}
END_TEST

static const char csv_recipe[] =
    "run: {dir: leaves, seed: 1}\n"
    "model: {family: mlp, sizes: [2, 8, 3]}\n"
    "data: {format: tensors, train: {x: train.csv}, columns: {target: kind}, "
    "standardize: true}\n"
    "train: {epochs: 1, batch_size: 4}\n"
    "qat: {start_step: 1}\n";

/* The model's file names the columns: additional columns, and another order, do not matter. */
START_TEST(columns_are_found_by_their_names)
{
    static const char rows[] = "x,y,kind\n1,2,a\n2,1,b\n4,4,c\n3,2,a\n5,1,b\n1,1,c\n";
    static const char other[] = "note,y,more,x\n9,2,9,1\n9,1,9,2\n";
    static const char lacking[] = "note,y\n9,2\n";
    test_folder(folder);
    write_bytes("train.csv", rows, sizeof rows - 1);
    write_bytes("other.csv", other, sizeof other - 1);
    write_bytes("lacking.csv", lacking, sizeof lacking - 1);
    write_bytes("r.yaml", csv_recipe, sizeof csv_recipe - 1);
    expect(0, "same_bits_as_qat: true", "train r.yaml --quiet");
    json_t *named = json_of("predict leaves other.csv --json");
    json_t *chosen = json_of("predict leaves train.csv --columns x,y --json");
    ck_assert_uint_eq(json_array_size(named), 2);
    for (size_t i = 0; i < 2; i++) {
        json_t *a = json_object_get(json_array_get(named, i), "classes");
        json_t *b = json_object_get(json_array_get(chosen, i), "classes");
        ck_assert_ptr_nonnull(a);
        ck_assert(json_equal(a, b));
    }
    json_decref(named);
    json_decref(chosen);
    expect(4, "lacks 1 column that the model reads", "predict leaves lacking.csv");
}
END_TEST

/* Predictions as CSV: in front of them the columns that the model does not read, or those of
 * --keep. */
static void compare_csv(const char *command, const char *head, const char *const *rows)
{
    char *output = NULL, *at;
    const int status = test_shell(&output, "cd %s && " DETENT "%s 2>/dev/null", folder, command);
    ck_assert_msg(status == 0, "%s: %s", command, output);
    const size_t n = strlen(head);
    ck_assert_msg(strncmp(output, head, n) == 0 && output[n] == '\n', "%s: %s", command, output);
    at = output + n + 1;
    for (; *rows != NULL; rows++) {
        ck_assert_msg(strncmp(at, *rows, strlen(*rows)) == 0, "%s: %s", command, at);
        at = strchr(at, '\n') + 1;
    }
    ck_assert_msg(*at == 0, "%s: %s", command, at);
    free(output);
}

START_TEST(tables_are_answered_as_csv)
{
    static const char rows[] = "x,y,kind\n1,2,a\n2,1,b\n4,4,c\n3,2,a\n5,1,b\n1,1,c\n";
    static const char other[] = "note,y,id,x\n\"a, \"\"b\"\"\",2,007,1\n,1,8,2\n";
    static const char *const both[] = { "\"a, \"\"b\"\"\",007,", ",8,", NULL };
    static const char *const ids[] = { "007,1,", "8,2,", NULL };
    test_folder(folder);
    write_bytes("train.csv", rows, sizeof rows - 1);
    write_bytes("other.csv", other, sizeof other - 1);
    write_bytes("r.yaml", csv_recipe, sizeof csv_recipe - 1);
    expect(0, "same_bits_as_qat: true", "train r.yaml --quiet");
    compare_csv("predict leaves other.csv -o -", "note,id,predicted,probability", both);
    compare_csv("predict leaves - -o - < other.csv", "note,id,predicted,probability", both);
    compare_csv("predict leaves other.csv -o - --keep id,x --probabilities",
                "id,x,predicted,probability,p_a,p_b,p_c", ids);
    compare_csv("predict leaves other.csv --quiet -o out.csv && cat out.csv",
                "note,id,predicted,probability", both);
    /* the numbers are those of --json */
    json_t *all = json_of("predict leaves - --json --top 3 < other.csv");
    char *output = NULL;
    test_shell(&output,
               "cd %s && " DETENT "predict leaves other.csv -o - --keep id --probabilities",
               folder);
    const char *line = strchr(output, '\n') + 1;
    for (size_t i = 0; i < 2; i++, line = strchr(line, '\n') + 1) {
        const json_t *classes = json_object_get(json_array_get(all, i), "classes");
        double best, p[3];
        char id[8], name[2];
        ck_assert_int_eq(
            sscanf(line, "%7[^,],%1[abc],%lf,%lf,%lf,%lf", id, name, &best, &p[0], &p[1], &p[2]),
            6);
        ck_assert_str_eq(json_string_value(json_object_get(json_array_get(classes, 0), "name")),
                         name);
        TEST_NEAR(best, number_at(classes, 0, "probability"), 0, 1e-8);
        for (size_t k = 0; k < 3; k++) {
            TEST_NEAR(p[(int)number_at(classes, k, "class")], number_at(classes, k, "probability"),
                      0, 1e-8);
        }
    }
    free(output);
    json_decref(all);
    expect(2, "two forms", "predict leaves other.csv -o - --json");
    expect(2, "-o FILE.csv", "predict leaves other.csv --probabilities");
    expect(2, "-o FILE.csv", "predict leaves other.csv --keep id");
    expect(2, "no column 'nothing' to keep; it has note, y, id, x",
           "predict leaves other.csv -o out.csv --keep nothing");
    expect(2, "no column 'n*x' to keep that the model does not read",
           "predict leaves other.csv -o out.csv --keep 'n*x'");
    expect(2, "would be overwritten", "predict leaves other.csv -o other.csv");
    /* columns of several files are kept by their names */
    static const char *const orders[] = { "\"a, \"\"b\"\"\",007,", ",8,", "c,9,", NULL };
    static const char swapped[] = "id,x,y,note\n9,1,2,c\n", without[] = "x,y,note\n1,2,c\n";
    write_bytes("swapped.csv", swapped, sizeof swapped - 1);
    write_bytes("without.csv", without, sizeof without - 1);
    compare_csv("predict leaves other.csv swapped.csv -o -", "note,id,predicted,probability",
                orders);
    expect(4, "has no column 'id', which the first file has",
           "predict leaves other.csv without.csv -o out.csv");
    expect(4, "2 columns that the model does not read, and the first file 1",
           "predict leaves without.csv other.csv -o out.csv");
    expect(4, "/no/folder/out.csv", "predict leaves other.csv -o /no/folder/out.csv");
    expect(0, "", "predict leaves other.csv -o out.csv --quiet && test -z \"$(ls *.part)\"");
}
END_TEST

START_TEST(bits_are_answered)
{
    static const char columns[] = "--columns a,b,c,d,e,f,g,h,i,j,k,l --json";
    char command[256];
    test_folder(folder);
    train("table-values", "data.task=multi_label 'model.layers.2={linear: head, out: 3}'");
    write_bytes("t.csv", table, sizeof table - 1);
    snprintf(command, sizeof command, "predict table-values t.csv %s", columns);
    json_t *all = json_of(command);
    ck_assert_uint_eq(json_array_size(all), 2);
    char *text = json_dumps(all, 0);
    ck_assert_msg(strstr(text, "check_pump") != NULL, "%s", text);
    free(text);
    json_decref(all);
}
END_TEST

/* ---- what a file says ----------------------------------------------------------------------- */

#define READS "\"input\":[2],"
#define ONE(name, target, n)                                                                       \
    "{\"name\":\"" name "\",\"target\":\"" target "\",\"input\":[2],\"output\":[" n "]}"

/* Of a model with 2 inputs and some outputs, which are its biases: 1, -1, 0.5, 2. */
static const struct {
    int outputs;
    const char *data, *options;
    int status;
    const char *words;
} said[] = {
    { 3, "\"target\":\"zebra\"", "", 4, "the target 'zebra' is not known" },
    { 3, "\"target\":\"images\"", "", 1, "does not fit its target, 'images'" },
    { 3, "\"target\":\"masks\"", "", 1, "does not fit its target, 'masks'" },
    { 3, "\"target\":\"anomaly\"", "", 1, "does not fit its target, 'anomaly'" },
    { 2, "\"target\":\"anomaly\"", "", 0, "1" },
    { 2, "\"target\":\"anomaly\"", "--json", 0, "\"error\": 1" },
    { 3, "\"target\":\"classes\",\"names\":[\"p\",\"q\",\"r\"]", "--top 2", 0, "r 34.8 %" },
    { 3, "\"target\":\"classes\",\"names\":[\"\"]", "--top 3", 0, "2 34.8 %, 1 7.8 %" },
    { 3, "\"target\":\"bits\",\"names\":[\"p\",\"q\",\"r\"]", "", 0, "p 73.1 %, r 62.2 %" },
    { 3, "\"target\":\"bits\"", "--json", 0, "\"2\"" },
    { 3, "\"target\":\"values\"", "", 0, "0.5" },
    { 4, "\"target\":\"values\"", "-o out.png", 2, "-o is for models that answer with images" },
    { 4,
      "\"target\":\"several\",\"outputs\":[" ONE("k", "classes", "2") "," ONE(
          "b", "bits", "1") "," ONE("v", "values", "1") "]",
      "", 0, "0 88.1 %" },
    { 4,
      "\"target\":\"several\",\"outputs\":[" ONE("k", "classes", "2") "," ONE(
          "b", "bits", "1") "," ONE("v", "values", "1") "]",
      "--json", 0, "\"v\": {\"values\": [2]}" },
    { 4, "\"target\":\"several\",\"outputs\":[" ONE("k", "classes", "3") "]", "", 1,
      "does not fit its target, 'several'" },
    { 3, "\"target\":\"several\",\"outputs\":[" ONE("k", "zebra", "3") "]", "", 1,
      "does not fit its target, 'several'" },
};

START_TEST(answers_are_what_the_file_says)
{
    static const float bias[] = { 1, -1, 0.5F, 2 };
    const int64_t sizes[] = { 2, said[_i].outputs, 0 };
    const dt_mlp_options o = small_options(sizes, 0, 0);
    char path[TEST_PATH], data[512], command[128];
    dt_ctx *ctx = NULL;
    test_folder(folder);
    test_join(path, folder, "m.st");
    write_bytes("x.csv", "a,b\n0,0\n", 8);
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt_module *m = small_model(ctx, &o);
    dt_tensor *b = dt_param(m, "head.bias");
    ck_assert_ptr_nonnull(b);
    memcpy(dt_data_mut(b), bias, (size_t)said[_i].outputs * sizeof *bias);
    dt_model_info info = small_info(&o);
    snprintf(data, sizeof data, "{" READS "%s}", said[_i].data);
    info.data = data;
    TEST_OK(ctx, dt_model_save(m, &info, path));
    dt_module_free(m);
    dt_ctx_free(ctx);
    snprintf(command, sizeof command, "predict m.st x.csv %s", said[_i].options);
    expect(said[_i].status, said[_i].words, command);
}
END_TEST

/* A recording [n, 1] of 16 bits. */
static void write_recording(const char *name, int rate, int n)
{
    static int16_t samples[40000];
    for (int i = 0; i < n; i++) samples[i] = (int16_t)(8000 * sin(0.3 * i));
    file_bytes f = wav_file(1, rate, samples, n);
    write_bytes(name, f.v, f.n);
    file_free(&f);
}

/* Features are computed as the file says; longer recordings are cut, shorter ones filled up. */
START_TEST(signals_are_answered)
{
    test_folder(folder);
    train("sounds-dscnn", "");
    write_recording("one.wav", 8000, 8000);
    write_recording("long.wav", 8000, 20000);
    write_recording("short.wav", 8000, 100);
    write_recording("other.wav", 16000, 16000);
    expect(0, "one.wav ", "predict sounds-dscnn one.wav");
    expect(0, "long.wav [1]", "predict sounds-dscnn long.wav");
    expect(0, "short.wav ", "predict sounds-dscnn short.wav");
    expect(0, "'short.wav': 100 samples; an example has 8000: zeros fill it up",
           "predict sounds-dscnn short.wav");
    expect(4, "16000 samples a second; the model was trained with 8000",
           "predict sounds-dscnn other.wav");
    static int16_t both[16000];
    file_bytes two = wav_file(2, 8000, both, 8000);
    write_bytes("two.wav", two.v, two.n);
    file_free(&two);
    expect(4, "2 channels; the model was trained on recordings of 1",
           "predict sounds-dscnn two.wav");
    expect(0, "it reads features of signals, standardized to (v - mean) / deviation",
           "export sounds-dscnn --format onnx -o s.onnx");
    json_t *one = json_of("predict sounds-dscnn one.wav --json"),
           *cut = json_of("predict sounds-dscnn long.wav --json");
    ck_assert(json_equal(json_object_get(json_array_get(one, 0), "classes"),
                         json_object_get(json_array_get(cut, 0), "classes")));
    json_decref(one);
    json_decref(cut);
    train("sensors-anomaly", "");
    float x[128 * 6] = { 0 };
    file_bytes f =
        npy_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (128, 6), }", x, sizeof x);
    write_bytes("still.npy", f.v, f.n);
    file_free(&f);
    json_t *all = json_of("predict sensors-anomaly still.npy --json");
    ck_assert(number_at(all, 0, "error") >= 0);
    json_decref(all);
}
END_TEST

START_TEST(texts_are_continued)
{
    test_folder(folder);
    ck_assert_int_eq(test_shell(NULL,
                                "cd %s && seq 400 | tr '\\n' ' ' > text.txt && printf '12 13' > "
                                "p.txt && : > empty.txt && " DETENT
                                "new lm.yaml --data text.txt --float && " DETENT
                                "train lm.yaml train.steps=20 run.dir=lm model.layers=1 "
                                "model.width=32 train.batch_size=4 "
                                "train.schedule.warmup_steps=0 --quiet >/dev/null 2>&1",
                                folder),
                     0);
    json_t *all = json_of("predict lm p.txt text.txt --json --top 2");
    ck_assert_uint_eq(json_array_size(all), 2);
    const json_t *next = json_object_get(json_array_get(all, 0), "next");
    ck_assert_uint_eq(json_array_size(next), 2);
    ck_assert(number_at(next, 0, "probability") >= number_at(next, 1, "probability"));
    json_decref(all);
    expect(0, "probability", "predict lm p.txt");
    expect(4, "empty.txt", "predict lm empty.txt");
    expect(4, "nowhere.txt", "predict lm nowhere.txt");
}
END_TEST

/* ---- bad inputs ----------------------------------------------------------------------------- */

START_TEST(bad_inputs_are_named)
{
    static const struct {
        int status;
        const char *words, *command;
    } cases[] = {
        { 4, "nowhere.png", "predict digits-2bit nowhere.png" },
        { 4, "8 x 8 pixels; the model reads images of 28 x 28", "predict digits-2bit small.png" },
        { 4, "broken.png' is damaged", "predict digits-2bit broken.png" },
        { 4, "text.png", "predict digits-2bit text.png" },
        { 4, "text.npy", "predict digits-2bit text.npy" },
        { 4, "text.wav", "predict digits-2bit text.wav" },
        { 4, "'t.csv': 13 columns of numbers", "predict digits-2bit t.csv" },
        { 4, "expected the name of a file", "predict digits-2bit picture.gif" },
        { 4, "wrong.npy': shape [3,5]; the model reads examples of [1,28,28]",
          "predict digits-2bit wrong.npy" },
        { 4, "nan.npy", "predict digits-2bit nan.npy" },
        { 2, "-o is for models that answer with images", "predict digits-2bit 1.png -o x.png" },
        { 2, "--top is '0'", "predict digits-2bit 1.png --top 0" },
        { 2, "--top is '99'", "predict digits-2bit 1.png --top 99" },
        { 2, "usage: detent predict", "predict digits-2bit" },
        { 4, "nothere", "predict nothere 1.png" },
        { 4, "not a safetensors file", "predict 1.png 1.png" },
        { 4, "the model reads examples of [2,12,10], no images", "predict bare.st 1.png" },
    };
    float x[PIXELS] = { NAN };
    uint8_t png[PNG_MAKE_MOST];
    test_folder(folder);
    train("digits-2bit", "");
    write_digits();
    const png_make_options small = { .type = PNG_GREY, .depth = 8, .width = 8, .height = 8 };
    const size_t n = png_make(&small, png);
    write_bytes("small.png", png, n);
    char path[TEST_PATH];
    size_t whole;
    test_join(path, folder, "1.png");
    char *digit = test_read_file(path, &whole);
    write_bytes("broken.png", digit, whole / 2);
    free(digit);
    write_bytes("text.png", table, sizeof table);
    write_bytes("text.npy", table, sizeof table);
    write_bytes("text.wav", table, sizeof table);
    write_bytes("t.csv", table, sizeof table - 1);
    write_bytes("picture.gif", table, sizeof table);
    file_bytes f = npy_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }", x,
                            15 * sizeof *x);
    write_bytes("wrong.npy", f.v, f.n);
    file_free(&f);
    f = npy_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 28, 28), }", x,
                 sizeof x);
    write_bytes("nan.npy", f.v, f.n);
    file_free(&f);
    ck_assert_int_eq(test_shell(NULL,
                                "cd %s && cp '%s/tests/onnx/cnn.onnx' . && " DETENT
                                "import cnn.onnx -o bare.st >/dev/null 2>&1",
                                folder, DETENT_SOURCE_DIR),
                     0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect(cases[i].status, cases[i].words, cases[i].command);
    }
}
END_TEST

/* ---- new and doctor ------------------------------------------------------------------------- */

/* Folders of images as users have them: with a folder for training and PNG of one size; classes of
 * many sizes; PNG files with the ending .jpg. */
static void write_folders(void)
{
    static const char *const names[] = { "png/train/%d/%d.png", "classes/%d/%d.png",
                                         "split/train/%d/%d.jpg" };
    static const char make[] = "cd %s && for c in 0 1; do mkdir -p png/train/$c classes/$c "
                               "split/train/$c; done";
    static uint8_t pixels[64 * 64];
    char name[64], path[TEST_PATH];
    dt_ctx *ctx = NULL;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    ck_assert_int_eq(test_shell(NULL, make, folder), 0);
    for (int i = 0; i < 3 * 40; i++) {
        const int form = i / 40, side = form == 0 ? 16 : 12 + i % 20;
        for (int k = 0; k < side * side; k++) pixels[k] = (uint8_t)(100 * (i % 2) + (7 * k) % 90);
        snprintf(name, sizeof name, names[form], i % 2, i);
        test_join(path, folder, name);
        TEST_OK(ctx, dt_png_write(ctx, path, &(dt_png_image){ 1, side, side, pixels }));
    }
    dt_ctx_free(ctx);
}

static const test_draws recipe_steps = { .usual = 1, .sanitized = 9 }; /* one of as many */

START_TEST(new_recipes_train)
{
    static const char *const data[] = {
        "digits",
        "digits --bits 2",
        "digits --float",
        "digits --task denoising",
        "table --task regression",
        "table --task multi_label",
        "sensors",
        "sensors --task anomaly",
        "t.csv --target l --task regression",
        "t.csv --target 'k,l' --task regression",
        "t.csv --target m",
        "text.txt",
        "png",
        "classes",
        "split",
    };
    char command[512];
#ifdef TEST_SANITIZED
    static const char small[] = " train.batch_size=2",
                      few[] = " data.train_count=40 data.test_count=20";
#else
    static const char small[] = "", few[] = "";
#endif
    enum { DRAWN = 8 }; /* of the data, those that detent draws */
    static const char make[] =
        "cd %s && seq 400 > text.txt && echo k,l,m > t.csv && "
        "for i in $(seq 40); do echo $i,$((i %% 7)),$((i %% 3)); done >> t.csv";
    test_folder(folder);
    ck_assert_int_eq(test_shell(NULL, make, folder), 0);
    write_folders();
    const size_t step = (size_t)test_count(recipe_steps);
    for (size_t i = 0; i < sizeof data / sizeof data[0]; i += step) {
        snprintf(command, sizeof command, "new %zu.yaml --data %s", i, data[i]);
        expect(0, ".yaml: ", command);
        const char *count = i < DRAWN ? few : "";
        snprintf(command, sizeof command, "config validate %zu.yaml%s", i, count);
        expect(0, "no errors", command);
        snprintf(command, sizeof command, "train %zu.yaml --dry-run%s%s", i, small, count);
        expect(0, "some updates ran", command);
    }
}
END_TEST

START_TEST(new_says_what_is_missing)
{
    test_folder(folder);
    write_bytes("t.csv", table, sizeof table - 1);
    expect(2, "--data PATH is missing", "new a.yaml </dev/null");
    expect(4, "zebra: not data of a known kind", "new a.yaml --data zebra </dev/null");
    expect(2, "did you mean 'regression'", "new a.yaml --data table --task regresion </dev/null");
    expect(2, "--task language: table is", "new a.yaml --data table --task language </dev/null");
    expect(2, "--target is missing", "new a.yaml --data t.csv </dev/null");
    write_bytes("a.npz", "PK", 2);
    expect(2, "--target: 'y' is not a file; array 'y' of a.npz is written a.npz:y",
           "new a.yaml --data a.npz --target y </dev/null");
    expect(2, "array 'y' of a.npz is written a.npz:y",
           "new a.yaml --data a.npz:x --target y </dev/null");
    expect(2, "--bits is '5'", "new a.yaml --data table --bits 5 </dev/null");
    expect(2, "zebra", "new a.yaml --data t.csv --target zebra </dev/null");
    write_bytes("a.yaml", table, 1);
    expect(4, "a.yaml exists; give another name, or remove it",
           "new a.yaml --data table </dev/null");
    /* questions on a terminal */
    char *output = NULL;
    ck_assert_int_eq(
        test_shell(&output,
                   "cd %s && printf 'table\\nregression\\n4\\nb.yaml\\n' | script -qec "
                   "\"" DETENT "new\" /dev/null",
                   folder),
        0);
    ck_assert_msg(strstr(output, "Task (classification") != NULL, "%s", output);
    free(output);
    expect(0, "no errors", "config validate b.yaml");
}
END_TEST

START_TEST(the_machine_is_shown)
{
    test_folder(folder);
    expect(0, "instruction sets", "doctor");
    expect(0, "DETENT_CPU=plain", "doctor; DETENT_CPU=plain " DETENT "doctor");
    json_t *root = json_of("doctor --json");
    if (test_shell(NULL, "grep -q avx2 /proc/cpuinfo") == 0) { /* BLAS without it is slow */
        expect(0, "which OPENBLAS_CORETYPE says",
               "doctor; OPENBLAS_CORETYPE=Nehalem " DETENT "doctor");
    }
    ck_assert_int_ge(json_integer_value(json_object_get(root, "cores")), 1);
    ck_assert(json_is_array(json_object_get(root, "advice")));
    json_decref(root);
}
END_TEST

Suite *test_predict_suite(void)
{
    Suite *suite = suite_create("predict");
    TCase *all = tcase_create("files");
    tcase_set_timeout(all, 300);
    tcase_add_test(all, images_are_classified);
    tcase_add_test(all, images_are_answered_with_images);
    tcase_add_test(all, images_are_answered_with_masks);
    tcase_add_test(all, imported_models_answer);
    tcase_add_test(all, tables_are_answered);
    tcase_add_test(all, columns_are_found_by_their_names);
    tcase_add_test(all, tables_are_answered_as_csv);
    tcase_add_test(all, bits_are_answered);
    tcase_add_loop_test(all, answers_are_what_the_file_says, 0, sizeof said / sizeof *said);
    tcase_add_test(all, signals_are_answered);
    tcase_add_test(all, texts_are_continued);
    tcase_add_test(all, bad_inputs_are_named);
    tcase_add_test(all, new_recipes_train);
    tcase_add_test(all, new_says_what_is_missing);
    tcase_add_test(all, the_machine_is_shown);
    suite_add_tcase(suite, all);
    return suite;
}
