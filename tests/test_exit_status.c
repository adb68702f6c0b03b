/* Every exit status that docs/run.md lists, by a command that ends so; each command of the program
 * has a row for wrong usage, and one for a file that is not there where it reads one. */
#include "fault_trials.h"

#include "core/core.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct row {
    int status;
    const char *words;   /* among both streams */
    const char *command; /* of the shell, in the folder of tests/fault_trials.c */
} row;

/* A soft limit: a build that counts lines raises it to write its counts (tests/shim/counts.c). */
#define SMALL "ulimit -S -f 1; detent "

static const row rows[] = {
    { 0, "good", "detent check run" },
    { 0, "report.html", "rm -f run/machine.json; timeout 20 detent report run --live" },
    { 0, "report.html", /* goes on as long as the run does */
      "detent train r.yaml run.dir=long train.epochs=100000 --quiet & p=$!; until [ -s "
      "long/metrics.jsonl ]; do sleep 0.02; done; timeout 60 detent report long --live & r=$!; "
      "sleep 0.3; kill -0 $r && kill -KILL $p; wait $r" },
    { 4, "is not a run", "timeout 20 detent report nowhere --live" },
    /* 1: a disk that is full */
    { 1, "cannot write", SMALL "train r.yaml run.dir=full --quiet" },
    { 1, "cannot write", SMALL "train half --resume --quiet" },
    { 1, "cannot write", SMALL "convert run/checkpoints/step-0000000006.safetensors -o x" },
    { 1, "cannot write", SMALL "quantize run/float.safetensors -o x" },
    { 1, "cannot write", SMALL "eval run --outputs x data.test_count=600" },
    { 1, "cannot write", SMALL "export run --format c -o x" },
    { 1, "cannot write", SMALL "export run --format onnx -o x" },
    { 1, "cannot write", SMALL "export llama --format hf -o x" },
    { 1, "cannot write", SMALL "merge adapted/float.safetensors -o x" },
    { 1, "cannot write", SMALL "rotate llama -o x" },
    { 1, "cannot write", SMALL "import cnn.onnx -o x" },
    { 1, "cannot write", SMALL "tokenize cnn.onnx -o x --tokenizer bytes" },
    { 1, "cannot write", SMALL "report run -o x" },
    { 1, "cannot be written", SMALL "new x --data rows.csv --target kind" },
    { 1, "cannot be written", SMALL "cp digits-2bit x" },
    { 1, "standard output", "detent inspect run > /dev/full" },
    { 1, "standard output", "detent config show r.yaml > /dev/full" },
    /* 1: what a format cannot express */
    { 1, "cannot express", "detent export llama --format tflite -o x" },
    /* 2: wrong usage */
    { 2, "no command", "detent zebra" },
    { 2, "usage: detent train", "detent train" },
    { 2, "usage: detent sweep", "detent sweep" },
    { 2, "usage: detent search", "detent search" },
    { 2, "-o FILE is missing", "detent convert run" },
    { 2, "-o FILE is missing", "detent quantize run" },
    { 2, "usage: detent eval", "detent eval" },
    { 2, "is missing", "detent export run --format c" },
    { 2, "--tokenizer is missing", "detent tokenize text.txt -o x" },
    { 2, "usage: detent sample", "detent sample" },
    { 2, "usage: detent predict", "detent predict run" },
    { 2, "-o FILE is missing", "detent merge run" },
    { 2, "-o FILE is missing", "detent rotate llama" },
    { 2, "read with --learn", "detent rotate llama run.seed=3 -o x" },
    { 2, "--hadamard", "detent rotate llama --hadamard 0 -o x" },
    { 2, "-o FILE is missing", "detent import cnn.onnx" },
    { 2, "usage: detent inspect", "detent inspect" },
    { 2, "usage: detent check", "detent check" },
    { 2, "usage: detent report", "detent report" },
    { 2, "usage: detent compare", "detent compare" },
    { 2, "no option", "detent bench a --zebra" },
    { 2, "no option", "detent doctor --zebra" },
    { 2, "no option", "detent new --zebra" },
    { 2, "usage: detent ls", "detent ls zebra" },
    { 2, "usage: detent cp", "detent cp" },
    { 2, "usage: detent config", "detent config" },
    /* 2: an error of the recipe, with its line and column */
    { 2, "bad.yaml:1:9: error: ",
      "echo 'train: {epoch: 3}' > bad.yaml; detent config validate bad.yaml" },
    { 2, "bad.yaml:1:9: error: ", "echo 'train: {epoch: 3}' > bad.yaml; detent train bad.yaml" },
    { 2, "did you mean 'epochs'", "detent train r.yaml train.epoch=3" },
    { 2, "no such file", "detent train rows.yaml run.dir=x data.train.x=nowhere.csv" },
    { 2, "no such file", "detent train r.yaml run.dir=x model.init=nowhere" },
    { 2, "'run' exists", "detent train r.yaml" },
    { 2, "has no run to resume", "detent train r.yaml run.dir=nowhere --resume" },
    /* 3: a value that is not finite */
    { 3, "is not finite",
      "detent train r.yaml run.dir=x 'train.optimizer={name: sgd, lr: 1e38}' --quiet" },
    /* 4: a bad path on the command line */
    { 4, "nowhere", "detent train nowhere" },
    { 4, "nowhere", "detent sweep nowhere nowhere" },
    { 4, "nowhere", "detent search nowhere --budget 1000" },
    { 4, "nowhere", "detent convert nowhere -o x" },
    { 4, "nowhere", "detent quantize nowhere -o x" },
    { 4, "nowhere", "detent eval nowhere r.yaml" },
    { 4, "nowhere", "detent export nowhere --format c -o x" },
    { 4, "nowhere", "detent tokenize nowhere -o x --tokenizer bytes" },
    { 4, "nowhere", "detent sample nowhere --prompt a" },
    { 4, "nowhere", "detent predict run nowhere.csv" },
    { 4, "nowhere", "detent merge nowhere -o x" },
    { 4, "nowhere", "detent rotate nowhere -o x" },
    { 4, "family llama", "detent rotate run -o x" },
    { 4, "nowhere", "detent import nowhere -o x" },
    { 4, "nowhere", "detent inspect nowhere" },
    { 4, "nowhere", "detent check nowhere" },
    { 4, "nowhere", "detent report nowhere" },
    { 4, "nowhere", "detent compare nowhere run" },
    { 4, "nowhere", "detent new x --data nowhere" },
    { 4, "nowhere", "detent cp nowhere x" },
    { 4, "nowhere", "detent config show nowhere" },
    { 4, "nowhere/x", "detent convert run/checkpoints/step-0000000006.safetensors -o nowhere/x" },
    { 4, "has no run to resume", "detent train . --resume" },
    /* 4: malformed, damaged, another model's */
    { 4, "rows.csv", "detent inspect rows.csv" },
    { 4, "damaged",
      "cp run/float.safetensors bad; printf z | dd of=bad bs=1 seek=1700 conv=notrunc 2>/dev/null; "
      "detent check bad" },
    { 4, "cut short", "head -c 900 run/float.safetensors > cut; detent check cut" },
    { 4, "run/float.safetensors",
      "detent train rows.yaml run.dir=x "
      "model.init=run/float.safetensors" },
    { 4, "the model takes", "detent eval run/float.safetensors r.yaml data.format=sounds --quiet" },
    { 4, "the model gives", "detent eval run/float.safetensors r.yaml data.task=regression" },
    { 2, "--cache must be one of f32, int8, int4",
      "detent eval run/float.safetensors r.yaml --cache i4" },
    { 2, "--cache is for language models",
      "detent eval run/float.safetensors r.yaml --cache int4" },
    { 4, "the model takes images or arrays, but the data are tokens",
      "detent eval run/float.safetensors r.yaml data.format=adder" },
    { 4, "cnn.onnx",
      "head -c 99 cnn.onnx > cut.onnx; cp cut.onnx cnn.onnx; detent import cnn.onnx "
      "-o x" },
    { 4, "a pipe into which nobody writes", "mkfifo p; timeout 20 detent config validate p" },
    { 4, "a device", "timeout 20 detent tokenize /dev/zero -o x --tokenizer bytes" },
    { 4, "a device", "timeout 20 detent train /dev/zero" },
    /* names in files of others are printed without control characters; without memory nothing
     * hangs */
    { 0, "?31m?",
      "{ printf '\\104\\0\\0\\0\\0\\0\\0\\0'; printf %s '{\"\\u009b31m\\u202e\":{\"dtype\":"
      "\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}'; } > x; detent inspect x" },
    { 0, "same_bits_as_qat", "ulimit -v 100000; timeout 20 detent train r.yaml run.dir=x --quiet" },
    { 1, "OpenBLAS needs",
      "ulimit -v 100000; timeout 20 detent quantize run/float.safetensors r.yaml -o x "
      "quantize.rounder=gptq" },
    /* 130: interrupted, with a checkpoint saved */
    { 130, "a checkpoint was saved",
      "detent train r.yaml run.dir=long train.epochs=100000 --quiet & p=$!; until [ -s "
      "long/metrics.jsonl ]; do sleep 0.02; done; kill -INT $p; wait $p" },
};

static void teardown(void) { fault_folder_free(); }

START_TEST(commands_end_as_documented)
{
    const row *r = &rows[_i];
    char *said = NULL;
#ifdef TEST_SANITIZED
    if (strstr(r->command, "ulimit -v") != NULL) {
        test_skip("%s: a sanitizer takes the address space for itself", r->words);
        return;
    }
#endif
    const int status = test_shell(&said,
                                  "copy=$(mktemp -d '%s/../status-XXXXXX') && cp -r '%s/.' $copy "
                                  "&& cd $copy && PATH='" DETENT_BINARY_DIR "':$PATH && { %s; } "
                                  "2>&1",
                                  fault_folder, fault_folder, r->command);
    ck_assert_msg(status == r->status, "%s: %d: %s", r->command, status, said);
    ck_assert_msg(strstr(said, r->words) != NULL, "%s: %s", r->command, said);
    free(said);
}
END_TEST

/* The page lists the statuses that the table above has, and no others. */
START_TEST(the_page_lists_them)
{
    char *page = test_read_file(DETENT_SOURCE_DIR "/docs/run.md", NULL);
    char *table = strstr(page, "\n## Exit status\n");
    ck_assert_ptr_nonnull(table);
    bool listed[256] = { false }, tried[256] = { false };
    for (char *line = strstr(table, "\n| "); line != NULL; line = strstr(line + 1, "\n| ")) {
        char *end;
        const long status = strtol(line + 3, &end, 10);
        if (end != line + 3 && status >= 0 && status < 256) listed[status] = true;
    }
    for (int i = 0; i < DT__COUNT_OF(rows); i++) tried[rows[i].status] = true;
    for (int i = 0; i < 256; i++) {
        ck_assert_msg(listed[i] == tried[i], "status %d: listed %d, tried %d", i, listed[i],
                      tried[i]);
    }
    free(page);
}
END_TEST

/* Every command that `detent --help` lists has a row that fails. */
START_TEST(every_command_has_a_row)
{
    char *help = NULL, word[64];
    ck_assert_int_eq(test_shell(&help, "'" DETENT_BINARY_DIR "/detent' --help"), 0);
    int commands = 0;
    for (char *line = strstr(help, "\n  "); line != NULL; line = strstr(line + 1, "\n  ")) {
        if (line[3] == ' ') continue; /* the text of the one before */
        const size_t n = strcspn(line + 3, " ");
        snprintf(word, sizeof word, "detent %.*s", (int)n, line + 3);
        bool found = false;
        for (int i = 0; i < DT__COUNT_OF(rows); i++) {
            found = found || (rows[i].status != 0 && strstr(rows[i].command, word) != NULL);
        }
        ck_assert_msg(found, "no row for '%s'", word);
        commands++;
    }
    ck_assert_int_ge(commands, 20);
    free(help);
}
END_TEST

Suite *test_exit_status_suite(void)
{
    Suite *s = suite_create("exit_status");
    TCase *c = tcase_create("exit_status");
    tcase_set_timeout(c, 120);
    tcase_add_unchecked_fixture(c, fault_folder_make, teardown);
    tcase_add_loop_test(c, commands_end_as_documented, 0, DT__COUNT_OF(rows));
    tcase_add_test(c, the_page_lists_them);
    tcase_add_test(c, every_command_has_a_row);
    suite_add_tcase(s, c);
    return s;
}
