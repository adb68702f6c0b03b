/* The program's `quantize` of models, and `convert` by a run's own rounder: exit statuses, output,
 * signals. */
#include "testing.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' "

static const char recipe[] = "run: {dir: run, seed: 1}\n"
                             "model: {family: mlp, sizes: [784, 48, 32, 10]}\n"
                             "data: {format: digits, train_count: 200, test_count: 40}\n"
                             "train: {steps: 6, batch_size: 32}\n"
                             "qat: {start_step: 3}\n"
                             "quantize: {rounder: qronos, calibration: {samples: 96}}\n"
                             "convert: {rounder: gptq, calibration: {samples: 64}}\n";

/* A folder with r.yaml, a run and its float model in it. */
static void begin(char folder[TEST_PATH])
{
    char path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "r.yaml");
    test_write_text(path, recipe);
    ck_assert_int_eq(test_shell(NULL, "cd '%s' && " DETENT "train r.yaml --quiet >table", folder),
                     0);
}

/* Runs a shell command in the folder; both streams come together. */
static void expect(const char *folder, const char *command, int status, const char *words)
{
    char *output = NULL;
    const int found = test_shell(&output, "cd '%s' && { %s; } 2>&1", folder, command);
    ck_assert_msg(found == status, "%s: %d: %s", command, found, output);
    ck_assert_msg(strstr(output, words) != NULL, "%s: %s", command, output);
    free(output);
}

#define FLOAT "run/float.safetensors "

START_TEST(a_report_is_printed)
{
    char folder[TEST_PATH], *output = NULL;
    begin(folder);
    ck_assert_int_eq(
        test_shell(&output, "cd %s && " DETENT "quantize " FLOAT "-o q.safetensors 2>err", folder),
        0);
    const char *const words[] = { "weight ",
                                  "/nearest",
                                  "layers.0.weight",
                                  "head.weight",
                                  "48x784",
                                  "qronos",
                                  "q.safetensors: 3 weights of 39488" };
    for (int i = 0; i < 7; i++) ck_assert_msg(strstr(output, words[i]) != NULL, "%s", output);
    free(output);
    expect(folder, "wc -c < err", 0, "0\n");
    expect(folder, "ls *.partial 2>/dev/null | wc -l", 0, "0\n");
    expect(folder, DETENT "check q.safetensors", 0, "good");
    expect(folder, DETENT "inspect q.safetensors", 0, "int4 symmetric group 32");
    expect(folder, DETENT "eval q.safetensors r.yaml", 0, "accuracy");
    expect(folder, DETENT "quantize " FLOAT "-o n.safetensors --quiet | grep -c .", 0, "1\n");
    expect(folder, "cmp q.safetensors n.safetensors", 0, "");
    /* nearest looks at nothing */
    expect(folder,
           DETENT "quantize " FLOAT "-o n.safetensors --quiet 'quantize={}' | grep -c samples", 1,
           "0\n");
    ck_assert_int_eq(test_shell(&output,
                                "cd %s && " DETENT "quantize " FLOAT
                                "r.yaml quantize.rounder=gptq -o j.safetensors --json",
                                folder),
                     0);
    json_t *root = json_loads(output, 0, NULL);
    ck_assert_msg(root != NULL, "no JSON: %s", output);
    ck_assert_uint_eq(json_array_size(json_object_get(root, "weights")), 3);
    const json_t *first = json_array_get(json_object_get(root, "weights"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(first, "method")), "gptq");
    ck_assert_int_eq(json_integer_value(json_object_get(first, "samples")), 96);
    json_decref(root);
    free(output);
}
END_TEST

static const struct {
    const char *command;
    int status;
    const char *words;
} refused[] = {
    { "quantize " FLOAT, 2, "-o FILE is missing" },
    { "quantize -o q", 2, "usage: detent quantize" },
    { "quantize nothing -o q", 4, "nothing: cannot open" },
    { "quantize alone.safetensors -o q quantize.rounder=gptq", 2, "this rounder needs data" },
    { "quantize alone.safetensors -o q quantize.correct_bias=true", 2,
      "'quantize.correct_bias' needs data" },
    { "quantize " FLOAT "nothing.yaml -o q", 4, "nothing.yaml" },
    { "quantize " FLOAT "-o q quantize.rounder=gtpq", 2, "did you mean 'gptq'?" },
    { "quantize " FLOAT "-o q quantize.weight.bits=2", 2, "'quantize.weight'" },
    { "quantize " FLOAT "-o q 'data={format: idx, dir: none, train: [a, b]}'", 2, "none" },
    { "quantize run/model.safetensors -o q", 4, "integers already" },
    { "quantize damaged.safetensors r.yaml -o q", 4, "damaged" },
    { "quantize " FLOAT "-o q --codes i8", 2, "is a model" },
    { "quantize " FLOAT "-o q --calibration r.yaml", 2, "is a model" },
    { "quantize " FLOAT "-o no/q", 4, "no/q.partial" },
    { "quantize " FLOAT "-o q --json >/dev/full", 1, "standard output" },
};

START_TEST(bad_calls_are_refused)
{
    char folder[TEST_PATH], command[1024];
    begin(folder);
    test_shell(NULL,
               "cd %s/run && cp float.safetensors ../damaged.safetensors && mkdir ../x && cp "
               "float.safetensors ../x/ && cd .. && printf x | dd of=damaged.safetensors bs=1 "
               "seek=9000 conv=notrunc 2>/dev/null && mv x/float.safetensors alone.safetensors",
               folder);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        snprintf(command, sizeof command, DETENT "%s", refused[i].command);
        expect(folder, command, refused[i].status, refused[i].words);
    }
}
END_TEST

/* A signal ends the call after the current weight and keeps finished weights; the same command
 * continues. The signal may also arrive after the last weight. */
START_TEST(a_signal_keeps_finished_weights)
{
    char folder[TEST_PATH];
    begin(folder);
    const char *const signals[] = { "INT", "TERM", "KILL" };
    expect(folder, DETENT "quantize " FLOAT "-o straight.safetensors --quiet", 0, "");
    for (int i = 0; i < 3; i++) {
        char command[1024];
        snprintf(command, sizeof command,
                 "rm -f q.*; " DETENT "quantize " FLOAT "-o q.safetensors --quiet 2>err & pid=$!; "
                 "until [ -e q.safetensors.partial ] || [ -e q.safetensors ]; do :; done; "
                 "kill -%s $pid 2>/dev/null; wait $pid; s=$?; "
                 "if [ -e q.safetensors ]; then [ $s = 0 ]; "
                 "else [ -e q.safetensors.partial ] && { [ $s = 130 ] || [ %s = KILL ]; }; fi && "
                 "{ [ $s != 130 ] || grep -q 'the same command goes on' err; }",
                 signals[i], signals[i]);
        expect(folder, command, 0, "");
        expect(folder, DETENT "quantize " FLOAT "-o q.safetensors --quiet", 0, "");
        expect(folder, "cmp q.safetensors straight.safetensors && ls *.partial 2>/dev/null | wc -l",
               0, "0\n");
    }
}
END_TEST

/* A run's own rounder, at its end and by `convert`; a checkpoint alone is rounded to nearest. */
START_TEST(a_run_is_converted_by_its_recipes_rounder)
{
    char folder[TEST_PATH];
    begin(folder);
    const char *const checkpoint = "run/checkpoints/step-0000000006.safetensors";
    char command[512];
    expect(folder, "cat table", 0, "qat + gptq ");
    expect(folder, "cat table", 0, "same_bits_from_file: true");
    expect(folder, "cat table", 0, "codes by gptq, not those trained with");
    expect(folder, DETENT "convert run -o c.safetensors", 0, "c.safetensors: 3 weights");
    expect(folder, "cmp c.safetensors run/model.safetensors", 0, "");
    snprintf(command, sizeof command, DETENT "convert %s -o n.safetensors", checkpoint);
    expect(folder, command, 0, "3 weights converted");
    expect(folder, "cmp -s n.safetensors c.safetensors", 1, "");
    snprintf(command, sizeof command,
             DETENT "quantize %s -o q.safetensors 'quantize={rounder: nearest}'", checkpoint);
    expect(folder, command, 0, "its own settings are used");
    expect(folder,
           "for f in n q; do " DETENT "eval $f.safetensors r.yaml --outputs $f.out >/dev/null; "
           "done; cmp n.out q.out",
           0, "");
}
END_TEST

#define ACCUMULATORS "'" DETENT_BINARY_DIR "/bench/accumulators' "

/* A program that only reads the codes confirms the bounds of accumulators. */
START_TEST(accumulators_hold)
{
    char folder[TEST_PATH];
    begin(folder);
    expect(folder,
           DETENT "quantize " FLOAT "-o a.safetensors --quiet 'quantize={rounder: a2gptq, "
                  "accumulator: {bits: 14, tile: 16}, calibration: {samples: 64}}'",
           0, "");
    expect(folder, ACCUMULATORS "a.safetensors 14 16", 0, " 0 overflows");
    expect(folder, ACCUMULATORS "a.safetensors 13 16", 1, "14 bits");
    expect(folder, DETENT "quantize " FLOAT "-o n.safetensors --quiet 'quantize={}'", 0, "");
    expect(folder, ACCUMULATORS "n.safetensors 14 32", 1, "overflows");
    expect(folder, ACCUMULATORS "n.safetensors 24 0 -128 127", 0, " 0 overflows");
    expect(folder, ACCUMULATORS "run/nothing 14 16", 1, "nothing");
    expect(folder, ACCUMULATORS "n.safetensors 40 0", 2, "BITS is 2 to 32");
}
END_TEST

Suite *test_quantize_cli_suite(void)
{
    Suite *suite = suite_create("quantize_cli");
    TCase *all = tcase_create("quantize_cli");
    tcase_set_timeout(all, 120);
    tcase_add_test(all, a_report_is_printed);
    tcase_add_test(all, bad_calls_are_refused);
    tcase_add_test(all, a_signal_keeps_finished_weights);
    tcase_add_test(all, a_run_is_converted_by_its_recipes_rounder);
    tcase_add_test(all, accumulators_hold);
    suite_add_tcase(suite, all);
    return suite;
}
