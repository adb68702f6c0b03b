/* The program's commands on files (inspect, check, convert, eval), and their exit statuses. */
#include "models.h"
#include "testing.h"

#include <detent/train.h>

#include <jansson.h>

#include <math.h>
#include <stdlib.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' "

static dt_ctx *ctx;
static char folder[TEST_PATH], run_folder[TEST_PATH], float_path[TEST_PATH], recipe[TEST_PATH];

static const char recipe_text[] = "run: {dir: r}\n"
                                  "model: {family: mlp, sizes: [784, 12, 10]}\n"
                                  "data: {format: digits, train_count: 100, test_count: 50}\n"
                                  "train: {epochs: 1}\n";

/* A folder with a run (recipe, two checkpoints of a prepared model) and a float model beside it. */
static void setup(void)
{
    static const int64_t sizes[] = { 784, 12, 10, 0 };
    const dt_mlp_options o = small_options(sizes, 0, 0);
    char path[TEST_PATH];
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = 1;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    test_folder(folder);
    test_join(run_folder, folder, "run");
    test_join(float_path, folder, "float.safetensors");
    test_join(recipe, folder, "other.yaml");
    ck_assert_int_eq(test_shell(NULL, "mkdir %s", run_folder), 0);
    test_join(path, run_folder, "recipe.yaml");
    test_write_text(path, recipe_text);
    test_write_text(recipe, recipe_text);
    dt_module *m = small_model(ctx, &o);
    dt_training_state s = { .module = m, .info = small_info(&o) };
    TEST_OK(ctx, dt_model_save(m, &s.info, float_path));
    TEST_OK(ctx, dt_prepare(m, NULL));
    test_join(path, run_folder, "checkpoints");
    TEST_OK(ctx, dt_checkpoint_save_step(&s, path, 10, 0));
    TEST_OK(ctx, dt_fill(dt_inner(dt_param(m, "head.weight")), 0.25));
    TEST_OK(ctx, dt_checkpoint_save_step(&s, path, 20, 0));
    dt_module_free(m);
}

static void teardown(void) { dt_ctx_free(ctx); }

/* Runs `detent ARGUMENTS` in the folder; both streams must hold `words`. */
static void expect(int status, const char *words, const char *arguments)
{
    char *output = NULL;
    const int got = test_shell(&output, "cd %s && " DETENT "%s 2>&1", folder, arguments);
    ck_assert_msg(got == status, "detent %s: %d: %s", arguments, got, output);
    ck_assert_msg(strstr(output, words) != NULL, "detent %s, without '%s': %s", arguments, words,
                  output);
    free(output);
}

/* The JSON that it writes to stdout. */
static json_t *json_of(const char *arguments)
{
    char *output = NULL;
    const int status = test_shell(&output, "cd %s && " DETENT "%s", folder, arguments);
    ck_assert_msg(status == 0, "detent %s: %d", arguments, status);
    json_error_t error;
    json_t *root = json_loads(output, 0, &error);
    ck_assert_msg(root != NULL, "detent %s: %s: %s", arguments, error.text, output);
    free(output);
    return root;
}

static double number(const json_t *root, const char *a, const char *b)
{
    const json_t *v = json_object_get(root, a);
    if (b != NULL) v = json_object_get(v, b);
    ck_assert_msg(json_is_number(v), "%s is not a number", a);
    return json_number_value(v);
}

/* Writes a copy of a file with one byte changed. */
static void damage(const char *from, const char *to, size_t at)
{
    char a[TEST_PATH], b[TEST_PATH];
    size_t n;
    test_join(a, folder, from);
    test_join(b, folder, to);
    char *bytes = test_read_file(a, &n);
    bytes[at < n ? at : n - 1] ^= 1;
    test_write_file(b, bytes, n);
    free(bytes);
}

START_TEST(usage_and_bad_paths)
{
    static const struct {
        int status;
        const char *words, *arguments;
    } cases[] = {
        { 2, "usage: detent inspect FILE", "inspect" },
        { 2, "usage: detent check FILE", "check a b" },
        { 2, "-o FILE is missing", "convert run" },
        { 2, "usage: detent eval", "eval" },
        { 2, "-o needs a value", "convert run -o" },
        { 4, "nowhere.safetensors", "inspect nowhere.safetensors" },
        { 4, "nowhere.safetensors", "check nowhere.safetensors" },
        { 4, "nowhere.safetensors", "convert nowhere.safetensors -o x" },
        { 4, "nowhere.safetensors", "eval nowhere.safetensors" },
        { 4, "other.yaml", "inspect other.yaml" },
        { 4, "other.yaml", "check other.yaml" },
        { 4, "other.yaml", "convert other.yaml -o x" },
        { 4, "a folder that is neither a run", "check ." },
        { 4, "a float model", "convert float.safetensors -o x" },
        { 4, "no-such-folder/x", "convert run -o no-such-folder/x" },
        { 2, "is not in the folder of a run", "eval float.safetensors" },
        { 4, "nowhere.yaml", "eval float.safetensors nowhere.yaml" },
        { 2, "did you mean 'epochs'", "eval float.safetensors other.yaml train.epoch=3" },
        { 2, "no-such-folder",
          "eval float.safetensors other.yaml '~data' 'data={format: idx, dir: "
          "no-such-folder, train: [a, b], test: [c, d]}'" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect(cases[i].status, cases[i].words, cases[i].arguments);
    }
    ck_assert_int_eq(test_shell(NULL, "test ! -e %s/x", folder), 0);
}
END_TEST

/* A run's folder names one of its files, and a message says which. */
START_TEST(a_run_is_a_model)
{
    expect(0, "of the run run: run/checkpoints/step-0000000020.safetensors", "inspect run");
    expect(0, "step-0000000020.safetensors: good", "check run/");
    expect(0, "examples 50", "eval run");
    expect(0, "run/checkpoints/step-0000000020.safetensors", "quantize run -o q.st --quiet");
    expect(4, "step-0000000020.safetensors: none of its layers", "merge run -o m.st");
    expect(2, "step-0000000020.safetensors is not a language model", "sample run --prompt a");
    expect(2, "run/checkpoints/step-0000000020.safetensors would be overwritten",
           "eval run --outputs run/checkpoints/step-0000000020.safetensors");
    expect(2, "run/recipe.yaml would be overwritten", "eval run --outputs run/recipe.yaml");
    ck_assert_int_eq(test_shell(NULL, "cp %s %s/run/float.safetensors", float_path, folder), 0);
    expect(0, "run/float.safetensors", "quantize run -o n.st --quiet");
    expect(0, "run/float.safetensors", "inspect run"); /* its recipe has no `qat` */
    ck_assert_int_eq(test_shell(NULL, "echo 'qat: {}' >> %s/run/recipe.yaml", folder), 0);
    expect(0, "step-0000000020.safetensors", "inspect run");
    expect(0, "", "convert run -o run/model.safetensors");
    expect(0, "of the run run: run/model.safetensors", "inspect run");
    expect(0, "run/model.safetensors: good", "check run");
    expect(0, "stacked of run/model.safetensors", "export run --format stacked -o e.st");
    ck_assert_int_eq(test_shell(NULL, "cd %s/run && rm -r checkpoints *.safetensors", folder), 0);
    expect(4, "the run run has no model yet", "eval run");
}
END_TEST

/* Every command that writes a file replaces one that is there, and says so; a recipe is not. */
START_TEST(replaced_files_are_named)
{
    static const char *const commands[] = {
        "convert run -o x",
        "quantize run -o x --quiet",
        "eval run --outputs x",
        "export float.safetensors --format stacked -o x",
        "tokenize other.yaml --tokenizer bytes -o x",
        "tokenize other.yaml --tokenizer bytes -o y --save-tokenizer x",
    };
    char path[TEST_PATH], *said;
    test_join(path, folder, "x");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        test_write_text(path, "mine");
        expect(0, "x exists and will be replaced", commands[i]);
        char *text = test_read_file(path, NULL);
        ck_assert_msg(strcmp(text, "mine") != 0, "%s", commands[i]);
        free(text);
    }
    test_write_text(path, "mine");
    expect(4, "adapter", "merge float.safetensors -o x");
    expect(4, "x: File exists", "cp digits-mlp x");
    test_shell(&said, "cd %s && " DETENT " export run --format c -o x 2>&1", folder);
    ck_assert_msg(strstr(said, "x: is there, and is not a folder") != NULL, "%s", said);
    ck_assert_msg(strstr(said, "will be replaced") == NULL, "%s", said);
    free(said);
    char *text = test_read_file(path, NULL);
    ck_assert_str_eq(text, "mine");
    free(text);
}
END_TEST

/* Options of exports that do not go together are wrong usage, before anything is written. */
START_TEST(options_of_exports_go_together)
{
    static const struct {
        const char *words, *says;
    } wrong[] = {
        { "--format c --verify", "--verify is an option of --format onnx, tflite, not of c" },
        { "--format c --ops qdq", "--ops is an option of --format onnx, not of c" },
        { "--format onnx --text", "--text is an option of --format c, not of onnx" },
        { "--format onnx --ops int4", "--ops must be one of plain, nbits, qdq, not 'int4'" },
        { "--format c --opset 25", "--opset is an option of --format onnx, not of c" },
        { "--format onnx --opset 24", "--opset must be one of 21, 25, not '24'" },
        { "--format onnx --accuracy-level 4", "is an option of --ops nbits, not of plain" },
        { "--format onnx --ops nbits --accuracy-level 3", "must be one of 0, 4, not '3'" },
        { "--format c --context 0", "--context must be a number above 0, not '0'" },
    };
    char command[200], path[TEST_PATH];
    test_join(path, folder, "wrong");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(command, sizeof command, "export run -o wrong %s", wrong[i].words);
        expect(2, wrong[i].says, command);
        ck_assert(!test_file_exists(path));
    }
    expect(4, "the path of a new folder is empty", "export run -o '' --format c");
    expect(1, "cannot express this model:\n  linear in ",
           "export run -o wrong --format onnx --ops qdq");
    expect(2, "a context is of language models", "export run -o wrong --format c --context 5");
    static const char *const names[][2] = {
        { "9x", "'x' would do" }, { "int", "'int_' would do" },       { "a-b", "'a_b' would do" },
        { "_x", "'x' would do" }, { "string", "'string_' would do" }, { "", "'model' would do" },
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(command, sizeof command, "export run -o wrong --format c --name '%s'",
                 names[i][0]);
        expect(2, names[i][1], command);
    }
    ck_assert(!test_file_exists(path));
}
END_TEST

/* The message about another kind of file names that kind; a truncated file is called truncated. */
START_TEST(wrong_files_are_named)
{
    char path[TEST_PATH];
    size_t n;
    test_join(path, folder, "net.pt");
    test_write_file(path, "PK\x03\x04\0\0\x08\x08\0\0", 10);
    expect(4, "looks like text, a recipe or a table perhaps; give a model's .safetensors",
           "inspect other.yaml");
    expect(4, "net.pt: not a safetensors file: it looks like a .pt file of PyTorch", "eval net.pt");
    expect(2, "looks like a .pt file of PyTorch", "train net.pt");
    test_join(path, folder, "t.db");
    test_write_file(path, "SQLite format 3\0\x10", 17);
    expect(4, "t.db: not a safetensors file: it looks like a database of SQLite", "inspect t.db");
    test_join(path, folder, "net.tflite");
    test_write_file(path, "\x1c\0\0\0TFL3\x14\0\x20\0", 12);
    expect(4, "looks like a TFLite file; detent import makes a model of it", "bench net.tflite");
    test_join(path, folder, "net.lite");
    test_write_file(path, "\x1c\0\0\0TFL3\x14\0\x20\0", 12);
    expect(4, "looks like a TFLite file; its name must end in .tflite", "bench net.lite");
    expect(2, "float.safetensors:1:1: error: it looks like a safetensors file: a model",
           "train float.safetensors");
    char *bytes = test_read_file(float_path, &n);
    test_join(path, folder, "cut.safetensors");
    test_write_file(path, bytes, n - 100);
    expect(4, "the file is cut short", "eval cut.safetensors other.yaml");
    test_write_file(path, bytes, 100);
    expect(4, "the file is cut short", "inspect cut.safetensors");
    free(bytes);
}
END_TEST

/* PyTorch's num_batches_tracked is left out, with one message. */
START_TEST(batch_counts_are_left_out)
{
    char path[TEST_PATH];
    dt_module *m;
    dt_writer *w;
    dt_tensor *count;
    TEST_OK(ctx, dt_model_load(ctx, float_path, &m, NULL));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    static const char *const names[] = { "layers.0.weight", "layers.0.bias", "head.weight",
                                         "head.bias" };
    for (int i = 0; i < 4; i++) TEST_OK(ctx, dt_writer_add(w, names[i], dt_param(m, names[i])));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_I64, 0, NULL, &count));
    TEST_OK(ctx, dt_fill(count, 3));
    TEST_OK(ctx, dt_writer_add(w, "norm.num_batches_tracked", count));
    test_join(path, folder, "torch.safetensors");
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    dt_tensor_free(count);
    dt_module_free(m);
    expect(0, "model.init: num_batches_tracked is left out, 1 tensor\n",
           "train other.yaml model.init=torch.safetensors");
}
END_TEST

START_TEST(nearest_needs_no_data)
{
    expect(0, "q.st: 2 weights", "quantize float.safetensors -o q.st");
    expect(0, "q2.st: 2 weights", "quantize float.safetensors -o q2.st qat.weight.bits=2");
    expect(2, "this rounder needs data",
           "quantize float.safetensors -o g.st quantize.rounder=gptq");
    expect(2, "static ranges need data",
           "quantize float.safetensors -o g.st qat.activation.range=static");
}
END_TEST

START_TEST(mistakes_of_training)
{
    expect(2, "missing 'data'", "train other.yaml '~data'");
    expect(0, "'data.mean' is 128, but bytes are 0 to 1 before it",
           "train other.yaml run.dir=a data.mean=128 data.deviation=64");
    expect(0, "'data.deviation' is 64", "config show other.yaml data.deviation=64");
    ck_assert_int_eq(test_shell(NULL, "mkdir %s/empty", folder), 0);
    expect(2, "'data.dir': no such folder: empty/train",
           "train other.yaml '~data' data.format=png data.dir=empty");
    expect(2, "run.dir=zz: the resumed run stays in 'run'", "train run --resume run.dir=zz");
}
END_TEST

/* The first file opened does not become standard error. */
START_TEST(closed_streams_write_into_no_file)
{
    char *text = NULL;
    ck_assert_int_eq(
        test_shell(NULL, "cd %s && " DETENT "train other.yaml run.dir=closed 0<&- 2>&-", folder),
        0);
    ck_assert_int_eq(test_shell(&text, "grep -cv '^{.*}$' %s/closed/metrics.jsonl", folder), 1);
    ck_assert_str_eq(text, "0\n");
    free(text);
}
END_TEST

/* Text and ids to evaluate need not be in the run's data.dir, and its training text need not
 * exist. */
START_TEST(other_text_is_evaluated)
{
    char path[TEST_PATH];
    char text[401] = "";
    for (int i = 0; i < 400; i++) text[i] = (char)('a' + (i * i + i / 7) % 23);
    ck_assert_int_eq(test_shell(NULL, "mkdir %s/texts", folder), 0);
    test_join(path, folder, "texts/train.txt");
    test_write_text(path, text);
    text[90] = 0;
    test_join(path, folder, "other.txt");
    test_write_text(path, text);
    test_join(path, folder, "lm.yaml");
    test_write_text(path, "run: {dir: lm}\n"
                          "model: {family: gpt, vocab: 23, context: 8, width: 8, heads: 2, "
                          "layers: 1}\n"
                          "data: {format: text, dir: texts, train: [train.txt], tokenizer: chars, "
                          "context: 8, validation: 0.2}\n"
                          "train: {epochs: 1}\n");
    expect(0, "files in lm", "train lm.yaml --quiet");
    expect(0, "", "tokenize texts/train.txt -o ids.bin --tokenizer chars");
    ck_assert_int_eq(test_shell(NULL, "rm -r %s/texts", folder), 0);
    expect(0, "examples ", "eval lm data.format=text data.test=[other.txt]");
    expect(0, "examples ",
           "eval lm data.format=tokens data.test=[ids.bin] data.context=8 "
           "--outputs logits.st");
    expect(0, "the window of 8 tokens slid ", "sample lm --prompt ab");
}
END_TEST

/* A model carries its tokenizer: neither its file nor the training data need exist. */
START_TEST(ids_need_no_tokenizer)
{
    char path[TEST_PATH];
    char text[401] = "";
    for (int i = 0; i < 400; i++) text[i] = (char)('a' + (i * i + i / 7) % 23);
    test_join(path, folder, "train.txt");
    test_write_text(path, text);
    ck_assert_int_eq(test_shell(NULL, "cp %s/tests/golden/tokenizer/gpt2-512/tokenizer.json %s",
                                DETENT_SOURCE_DIR, folder),
                     0);
    test_join(path, folder, "bpe.yaml");
    test_write_text(path, "run: {dir: bpe}\n"
                          "model: {family: gpt, vocab: 512, context: 8, width: 8, heads: 2, "
                          "layers: 1}\n"
                          "data: {format: tokens, train: [ids.bin], tokenizer: tokenizer.json, "
                          "context: 8, validation: 0.2}\n"
                          "train: {epochs: 1}\n");
    expect(0, "", "tokenize train.txt -o ids.bin --tokenizer tokenizer.json");
    expect(0, "files in bpe", "train bpe.yaml --quiet");
    ck_assert_int_eq(test_shell(NULL,
                                "cd %s && mv ids.bin other.bin && mv train.txt other.txt && "
                                "rm tokenizer.json",
                                folder),
                     0);
    expect(0, "examples ", "eval bpe data.test=[other.bin]");
    expect(0, "examples ", "eval bpe data.format=text data.test=[other.txt]");
    expect(2, "ids.bin: cannot open", "eval bpe");
}
END_TEST

START_TEST(adapters_are_merged)
{
    static const int64_t sizes[] = { 784, 12, 10, 0 };
    const dt_mlp_options o = small_options(sizes, 0, 0);
    const dt_model_info info = small_info(&o);
    char path[TEST_PATH];
    dt_module *m = small_model(ctx, &o);
    test_join(path, folder, "adapted.safetensors");
    TEST_OK(ctx, dt_lora_add(m, NULL));
    TEST_OK(ctx, dt_fill(dt_param(m, "layers.0.lora_b"), 0.125));
    TEST_OK(ctx, dt_model_save(m, &info, path));
    expect(2, "-o FILE is missing", "merge adapted.safetensors");
    expect(2, "overwritten", "merge adapted.safetensors -o adapted.safetensors");
    expect(4, "none of its layers has an adapter", "merge float.safetensors -o x");
    expect(0, "9550 parameters", "merge adapted.safetensors -o merged.safetensors");
    dt_module *plain;
    test_join(path, folder, "merged.safetensors");
    TEST_OK(ctx, dt_model_load(ctx, path, &plain, NULL));
    TEST_OK(ctx, dt_lora_merge(m));
    same_models(m, plain);
    dt_module_free(plain);
    dt_module_free(m);
}
END_TEST

/* A file of adapters is used with its base, and merged into a model that needs none. */
START_TEST(adapters_beside_packed_weights)
{
    static const int64_t sizes[] = { 784, 12, 10, 0 };
    const dt_mlp_options o = small_options(sizes, 0, 0);
    dt_model_info info = small_info(&o), of_base;
    char path[TEST_PATH], base[TEST_PATH], text[256];
    dt_module *m = small_model(ctx, &o), *rounded;
    test_join(base, folder, "under.safetensors");
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_OK(ctx, dt_model_save(m, &info, base));
    dt_module_free(m);
    TEST_OK(ctx, dt_model_load(ctx, base, &m, &of_base));
    snprintf(text, sizeof text, "{\"path\": \"under.safetensors\", \"xxh3\": \"%s\"}",
             of_base.hash);
    dt_model_info_free(ctx, &of_base);
    info.base = text;
    TEST_OK(ctx, dt_lora_add(m, NULL));
    TEST_OK(ctx, dt_fill(dt_param(m, "layers.0.lora_b"), 0.125));
    test_join(path, folder, "beside.safetensors");
    TEST_OK(ctx, dt_model_save(m, &info, path));
    expect(0, "under.safetensors", "inspect beside.safetensors");
    expect(0, "good", "check beside.safetensors");
    expect(2, "it holds the weights beside", "merge beside.safetensors -o under.safetensors");
    expect(0, "good", "check beside.safetensors");
    expect(0, "9550 parameters", "merge beside.safetensors -o rounded.safetensors");
    ck_assert_int_eq(remove(base), 0);
    expect(4, "which is not there", "check beside.safetensors");
    test_join(path, folder, "rounded.safetensors");
    TEST_OK(ctx, dt_model_load(ctx, path, &rounded, NULL));
    TEST_OK(ctx, dt_lora_merge(m));
    same_models(m, rounded);
    dt_module_free(rounded);
    dt_module_free(m);
}
END_TEST

START_TEST(a_run_is_converted)
{
    json_t *report = json_of("convert run -o model.safetensors --json");
    ck_assert_int_eq((int)number(report, "converted", NULL), 2);
    ck_assert_int_eq((int)number(report, "enabled", NULL), 0);
    ck_assert_int_eq((int)number(report, "elements", NULL), 784 * 12 + 120);
    ck_assert_str_eq(json_string_value(json_object_get(report, "from")),
                     "run/checkpoints/step-0000000020.safetensors");
    json_decref(report);
    expect(4, "converted already", "convert model.safetensors -o again.safetensors");
    expect(0, "2 weights converted", "convert run/checkpoints/step-0000000010.safetensors -o a.st");
    expect(2, "it is read; give another output",
           "convert run/checkpoints/step-0000000010.safetensors -o "
           "run/../run/checkpoints/step-0000000010.safetensors");
    expect(0, "good: 6 tensors, hash and values verified", "check model.safetensors");
    /* the newest one is damaged: the one before is used, with a message */
    damage("run/checkpoints/step-0000000020.safetensors",
           "run/checkpoints/step-0000000020.safetensors", (size_t)-1);
    expect(0, "damaged or changed", "convert run -o b.st");
    ck_assert_int_eq(test_shell(NULL, "cmp %s/a.st %s/b.st", folder, folder), 0);
    ck_assert_int_eq(test_shell(NULL, "rm %s/run/checkpoints/*", folder), 0);
    expect(4, "no good checkpoint", "convert run -o c.st");
}
END_TEST

START_TEST(inspect_shows_one_row_a_weight)
{
    expect(0, "quantized: 9528 weights", "inspect run/checkpoints/step-0000000020.safetensors");
    expect(0, "state of a run: 4 tensors", "inspect run/checkpoints/step-0000000020.safetensors");
    expect(0, "int4 symmetric group 32, enabled",
           "inspect run/checkpoints/step-0000000010.safetensors");
    expect(0, "", "convert run -o model.safetensors");
    expect(0, "int4 symmetric group 32, packed", "inspect model.safetensors");
    json_t *root = json_of("inspect model.safetensors --json");
    ck_assert_uint_eq(json_array_size(json_object_get(root, "tensors")), 4);
    const int bytes = 12 * 392 + 12 * 25 * 4 + 10 * 6 + 10 * 4;
    ck_assert_int_eq((int)number(root, "quantized", "bytes"), bytes);
    ck_assert_int_eq((int)number(root, "quantized", "weights"), 784 * 12 + 120);
    TEST_NEAR(number(root, "quantized", "bits"), 8.0 * bytes / (784 * 12 + 120), 1e-12, 0);
    ck_assert_int_eq((int)number(root, "total", "values"), 784 * 12 + 120 + 22);
    ck_assert_int_eq((int)number(root, "total", "bytes"), bytes + 88);
    json_decref(root);
    root = json_of("inspect float.safetensors --json");
    ck_assert_int_eq((int)number(root, "quantized", "weights"), 0);
    TEST_NEAR(number(root, "quantized", "bits"), 0, 0, 0);
    json_decref(root);
}
END_TEST

/* Of a converted model and of floats, not of one that is being trained. */
START_TEST(inspect_shows_costs)
{
    expect(0, "", "convert run -o model.safetensors");
    expect(0, "sets the peak with", "inspect model.safetensors --device");
    expect(0, "an arena of", "inspect float.safetensors --device");
    json_t *root = json_of("inspect model.safetensors --device --json");
    ck_assert_uint_eq(json_array_size(json_object_get(root, "layers")), 3);
    ck_assert(json_is_null(json_object_get(root, "cmsis_arena")));
    ck_assert_int_gt(json_integer_value(json_object_get(root, "arena")), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "input")), 784 * 4);
    json_decref(root);
    expect(1, "convert the model first",
           "inspect run/checkpoints/step-0000000020.safetensors "
           "--device");
}
END_TEST

START_TEST(any_file_can_be_inspected)
{
    char path[TEST_PATH], arguments[2 * TEST_PATH];
    if (!test_golden(path, "quant/safetensors")) return;
    snprintf(arguments, sizeof arguments, "inspect '%s/valid/all_dtypes.safetensors' --json", path);
    json_decref(json_of(arguments));
    snprintf(arguments, sizeof arguments, "check '%s/valid/all_dtypes.safetensors'", path);
    expect(0, "it has no hash of detent", arguments);
    snprintf(arguments, sizeof arguments, "inspect '%s/invalid/overlap.safetensors'", path);
    expect(4, "overlap.safetensors", arguments);
}
END_TEST

START_TEST(check_finds_damage)
{
    size_t n;
    char *bytes = test_read_file(float_path, &n);
    free(bytes);
    expect(0, "good: 4 tensors", "check float.safetensors");
    damage("float.safetensors", "bad.safetensors", n - 5);
    expect(4, "damaged or changed", "check bad.safetensors");
    expect(4, "damaged or changed", "eval bad.safetensors other.yaml");
    damage("float.safetensors", "bad.safetensors", 9);
    expect(4, "bad.safetensors", "check bad.safetensors");
    ck_assert_int_eq(
        test_shell(NULL, "head -c %zu %s > %s/cut.safetensors", n - 1, float_path, folder), 0);
    expect(4, "cut.safetensors", "check cut.safetensors");
}
END_TEST

/* A weight of NaN: the metrics are printed, and the exit status says what they are. */
START_TEST(eval_ends_with_3_where_the_loss_is_not_finite)
{
    dt_module *m;
    dt_model_info info;
    char path[TEST_PATH];
    TEST_OK(ctx, dt_model_load(ctx, float_path, &m, &info));
    float *bias = dt_data_mut(dt_param(m, "head.bias"));
    ck_assert_ptr_nonnull(bias);
    bias[3] = NAN;
    test_join(path, folder, "nan.safetensors");
    TEST_OK(ctx, dt_model_save(m, &info, path));
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    expect(3, "the loss is not finite", "eval nan.safetensors other.yaml");
}
END_TEST

/* Data to evaluate on are enough: the format's training data need not be named. */
START_TEST(eval_needs_no_training_data)
{
    char images[TEST_PATH], labels[TEST_PATH];
    uint8_t pixels[6 * 784], targets[6];
    for (int i = 0; i < 6 * 784; i++) pixels[i] = (uint8_t)(i * 7);
    for (int i = 0; i < 6; i++) targets[i] = (uint8_t)i;
    const dt_images six = { .count = 6,
                            .channels = 1,
                            .height = 28,
                            .width = 28,
                            .target = DT_TARGET_CLASS,
                            .classes = 10,
                            .pixels = pixels,
                            .targets = targets };
    dt_dataset *d;
    TEST_OK(ctx, dt_dataset_create(ctx, &six, &d));
    test_join(images, folder, "images");
    test_join(labels, folder, "labels");
    TEST_OK(ctx, dt_idx_write(d, images, labels));
    dt_dataset_free(d);
    expect(0, "examples 6", "eval run '~data' data.format=idx data.test=[images,labels]");
    expect(0, "examples 6", "eval float.safetensors data.format=idx data.test=[images,labels]");
    expect(2, "needs 'data.train'", "eval run '~data' data.format=idx");
}
END_TEST

START_TEST(eval_gives_metrics_and_outputs)
{
    expect(0, "examples 50", "eval float.safetensors other.yaml");
    expect(0, "examples 50", "eval run/checkpoints/step-0000000010.safetensors");
    expect(0, "examples 20", "eval run/checkpoints/step-0000000010.safetensors data.test_count=20");
    expect(0, "", "convert run -o run/model.safetensors");
    json_t *qat = json_of("eval run/checkpoints/step-0000000020.safetensors --json --outputs a.st");
    json_t *packed = json_of("eval run/model.safetensors --outputs b.st --json");
    TEST_NEAR(number(qat, "accuracy", NULL), number(packed, "accuracy", NULL), 0, 0);
    TEST_NEAR(number(qat, "loss", NULL), number(packed, "loss", NULL), 0, 0);
    json_decref(qat);
    json_decref(packed);
    ck_assert_int_eq(test_shell(NULL, "cmp %s/a.st %s/b.st", folder, folder), 0);
    char path[TEST_PATH];
    dt_file *f;
    test_join(path, folder, "a.st");
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    const dt_file_entry *e = dt_file_find(f, "output");
    ck_assert_ptr_nonnull(e);
    ck_assert_str_eq(e->dtype, "F32");
    ck_assert_int_eq(e->rank, 2);
    ck_assert_int_eq(e->dims[0], 50);
    ck_assert_int_eq(e->dims[1], 10);
    ck_assert_int_eq(dt_file_count(f), 1);
    dt_file_close(f);
    expect(4, "no-such-folder", "eval float.safetensors other.yaml --outputs no-such-folder/x");
}
END_TEST

Suite *test_cli_files_suite(void)
{
    Suite *s = suite_create("cli_files");
    TCase *c = tcase_create("cli_files");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, usage_and_bad_paths);
    tcase_add_test(c, a_run_is_a_model);
    tcase_add_test(c, replaced_files_are_named);
    tcase_add_test(c, options_of_exports_go_together);
    tcase_add_test(c, wrong_files_are_named);
    tcase_add_test(c, batch_counts_are_left_out);
    tcase_add_test(c, nearest_needs_no_data);
    tcase_add_test(c, mistakes_of_training);
    tcase_add_test(c, closed_streams_write_into_no_file);
    tcase_add_test(c, other_text_is_evaluated);
    tcase_add_test(c, ids_need_no_tokenizer);
    tcase_add_test(c, adapters_are_merged);
    tcase_add_test(c, adapters_beside_packed_weights);
    tcase_add_test(c, a_run_is_converted);
    tcase_add_test(c, inspect_shows_one_row_a_weight);
    tcase_add_test(c, inspect_shows_costs);
    tcase_add_test(c, any_file_can_be_inspected);
    tcase_add_test(c, check_finds_damage);
    tcase_add_test(c, eval_ends_with_3_where_the_loss_is_not_finite);
    tcase_add_test(c, eval_needs_no_training_data);
    tcase_add_test(c, eval_gives_metrics_and_outputs);
    suite_add_tcase(s, c);
    return s;
}
