/* The program: usage and exit statuses, what is written to stdout and to stderr, and commands that
 * need no run. */
#include "testing.h"

#include "cli/cli.h"
#include "cli/print/text.h"

#include <jansson.h>

#include <stdlib.h>
#include <unistd.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' "

typedef struct usage_case {
    const char *arguments;
    int status;
    const char *words; /* among what both streams show */
} usage_case;

static const usage_case usage_cases[] = {
    { "", 2, "detent cp digits-2bit" },
    { "--help", 0, "usage: detent COMMAND" },
    { "--version", 0, "detent " },
    { "confgi", 2, "no command 'confgi' (did you mean 'config'?)" },
    { "zebra", 2, "usage: detent COMMAND" },
    { "config", 2, "usage: detent config" },
    { "config --help", 0, "--leave-files" },
    { "quantize --help", 0, "[key=value ...] -o FILE" },
    { "config validat x", 2, "did you mean 'validate'?" },
    { "config show", 2, "usage: detent config show RECIPE" },
    { "config schema x", 2, "usage: detent config schema" },
    { "config show x --jsno", 2, "no option '--jsno' (did you mean '--json'?)" },
    { "config show x --json=1", 2, "--json takes no value" },
    { "sweep r.yaml s.yaml --resume", 2, "no option '--resume': the same command resumes" },
    { "report /dev/null", 4, "'/dev/null' is not a run: it is not a folder" },
    { "sample x --seed 1 --prompt a --seed=2", 2, "--seed is given twice, as '1' and '2'" },
    { "sample nowhere --json --seed 1 --prompt a --seed 1 --json", 4, "nowhere: cannot open" },
    { "config validate /nowhere.yaml", 4, "/nowhere.yaml: cannot open: No such file" },
    { "config validate /dev/zero", 4, "a device; expected a file" },
    { "config validate /dev/fd/3 3</dev/zero", 4, "a device; expected a file" },
    { "config validate -- --x", 4, "--x: cannot open: No such file" },
    { "ls x", 2, "usage: detent ls" },
    { "cp", 2, "usage: detent cp NAME [FILE]" },
    { "cp mnist-mpl", 4, "no recipe 'mnist-mpl' (did you mean 'mnist-mlp'?)" },
    { "cp zebra", 4, "`detent ls` lists them" },
    { "cp mnist-mlp /nowhere/x", 4, "/nowhere/x: No such file" },
    { "--version 2>&1 >/dev/full #", 1, "standard output cannot be written" },
    { "--help 2>&1 >&- #", 1, "standard output cannot be written" },
    { "cp --help 2>&1 >/dev/full #", 1, "standard output cannot be written" },
    { "config schema 2>&1 >/dev/full #", 1, "standard output cannot be written" },
    { "config zebra", 2, "no 'zebra'; there are: show, validate, schema, keys" },
    { "sample m --temp 2", 2, "no option '--temp' (did you mean '--temperature'?)" },
    { "train r.yaml --temp 2", 2, "no option '--temp'\n" },
    { "train r.yaml --epochs 3", 2, "no option '--epochs'; write train.epochs=3" },
    { "train r.yaml --train.optimizer.lr=0.1", 2, "; write train.optimizer.lr=0.1" },
    { "train r.yaml --lr=1e-3", 2, "write train.optimizer.lr=1e-3" },
    { "train r.yaml --batch-size", 2, "write train.batch_size=VALUE" },
    { "train r.yaml --epohcs 3", 2, "no option '--epohcs' (did you mean train.epochs=VALUE?)" },
    { "train r.yaml --zebra 3", 2, "no option '--zebra'\n" },
    { "train r.yaml --hepl", 2, "did you mean '--help'?" },
    { "inspect m --epochs 3", 2, "no option '--epochs'\n" },
    { "train digits-mlp", 4,
      "digits-mlp: cannot open: No such file or directory; `detent cp digits-mlp`" },
    { "convert runs/a -o -", 2, "-o is -, and this command does not write to standard output" },
    { "report runs/a -o -", 2, "a file of that name is ./-" },
    { "inspect m --device cortex-m7", 2,
      "'cortex-m7' is one argument too many; usage: detent inspect FILE|RUN" },
    { "ls all", 2, "'all' is one argument too many; usage: detent ls\n" },
    { "sweep digits-mlp --folds 2", 4, "; `detent cp digits-mlp`" },
    { "train digits-nlp", 4, "digits-nlp: cannot open: No such file or directory\n" },
    { "bench --help", 0, "examples of a pass" },
    { "compare $(seq 2000)", 4, "'1' is not a run" },
};

START_TEST(usage)
{
    const usage_case *c = &usage_cases[_i];
    char *output = NULL;
    const int status = test_shell(&output, DETENT "%s 2>&1", c->arguments);
    ck_assert_msg(status == c->status, "detent %s: %d: %s", c->arguments, status, output);
    ck_assert_msg(strstr(output, c->words) != NULL, "detent %s: %s", c->arguments, output);
    free(output);
}
END_TEST

/* Help and the list of recipes fit a terminal of 80 columns. */
START_TEST(lines_end_at_80_columns)
{
    static const char *const commands[] = {
        "--help",          "train --help",    "config --help",  "eval --help",
        "convert --help",  "quantize --help", "export --help",  "cp --help",
        "tokenize --help", "sample --help",   "merge --help",   "inspect --help",
        "check --help",    "bench --help",    "ls --help",      "ls",
        "sweep --help",    "search --help",   "compare --help",
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char *output = NULL;
        ck_assert_int_eq(test_shell(&output, DETENT "%s", commands[i]), 0);
        for (const char *line = output; *line != 0; line += strcspn(line, "\n") + 1) {
            TEST_EACH(strcspn(line, "\n") <= 80, "%s: %s", commands[i], line);
        }
        free(output);
    }
}
END_TEST

/* Of several errors that of the command line comes first. */
START_TEST(what_was_typed_comes_first)
{
    char folder[TEST_PATH], path[TEST_PATH], *output = NULL;
    test_folder(folder);
    test_join(path, folder, "r.yaml");
    test_write_text(path, "run: {dir: r}\nmodel: {family: mlp, sizes: [2, 2]}\n"
                          "data: {format: digits}\ntrain: {epochs: 0, steps: -1}\n");
    ck_assert_int_eq(
        test_shell(&output, "cd %s && " DETENT "train r.yaml tran.epochs=3 2>&1", folder), 2);
    const char *typed = strstr(output, "command line: error: unknown key 'tran'");
    ck_assert_msg(typed == output, "%s", output);
    ck_assert_ptr_nonnull(strstr(output, "r.yaml:4:17: error"));
    free(output);
}
END_TEST

/* On a narrow terminal a resolved recipe loses parts of comments, and nothing else. */
START_TEST(recipes_are_narrow)
{
    static const int widths[] = { 40, 60, 80, 200 };
    char *whole = NULL;
    static const char show[] =
        DETENT "config show '" DETENT_SOURCE_DIR "/configs/digits-2bit.yaml' "
               "run.dir=\"a#b ' # c\"";
    ck_assert_int_eq(test_shell(&whole, "unset COLUMNS; %s | sed 's/ *# [^#]*$//'", show), 0);
    for (int i = 0; i < 4; i++) {
        char *output = NULL, *values = NULL;
        ck_assert_int_eq(test_shell(&output, "COLUMNS=%d %s", widths[i], show), 0);
        for (const char *line = output; *line != 0; line += strcspn(line, "\n") + 1) {
            TEST_EACH(strcspn(line, "\n") <= (size_t)widths[i], "%d: %s", widths[i], line);
        }
        ck_assert_ptr_nonnull(strstr(output, i == 0 ? "  # ..." : "digits-2bit.yaml:"));
        ck_assert_int_eq(
            test_shell(&values, "COLUMNS=%d %s | sed 's/ *# [^#]*$//'", widths[i], show), 0);
        ck_assert_str_eq(values, whole);
        free(values);
        free(output);
    }
    free(whole);
}
END_TEST

START_TEST(a_recipe_is_validated)
{
    char folder[TEST_PATH], path[TEST_PATH];
    char *output = NULL;
    test_folder(folder);
    test_join(path, folder, "a.yaml");
    test_write_text(path, "run: {dir: r}\nmodel: {family: mlp, sizes: [4, 2]}\n"
                          "data: {format: digits}\ntrain:\n  epochs: ten\n");
    ck_assert_int_eq(test_shell(&output, DETENT "config validate %s 2>/dev/null", path), 2);
    ck_assert_str_eq(output, "");
    free(output);
    ck_assert_int_eq(test_shell(&output, "cd %s && " DETENT "config validate a.yaml 2>&1", folder),
                     2);
    ck_assert_str_eq(output, "a.yaml:5:11: error: 'train.epochs' requires an integer, not 'ten'\n");
    free(output);
    ck_assert_int_eq(test_shell(&output, DETENT "config validate %s --json 2>/dev/null", path), 2);
    json_t *root = json_loads(output, 0, NULL);
    ck_assert_ptr_nonnull(root);
    ck_assert(json_is_false(json_object_get(root, "valid")));
    ck_assert_uint_eq(json_array_size(json_object_get(root, "errors")), 1);
    json_decref(root);
    free(output);
    ck_assert_int_eq(test_shell(&output, DETENT "config show %s train.epochs=3", path), 0);
    ck_assert_ptr_nonnull(strstr(output, "  epochs: 3 "));
    free(output);
    ck_assert_int_eq(
        test_shell(NULL, DETENT "config validate %s model.sizes=[784,10] '~train' >/dev/null",
                   path),
        0);
    ck_assert_int_eq(test_shell(&output,
                                DETENT "config validate %s '~train' 'qat.rules=[{match: tail, "
                                       "skip: true}]' 2>&1",
                                path),
                     2);
    ck_assert_ptr_nonnull(strstr(output, "'tail' matches no module"));
    free(output);
    ck_assert_int_eq(test_shell(NULL, DETENT "config schema > /dev/full 2>/dev/null"), 1);
}
END_TEST

/* Data that do not fit, are malformed or missing, besides other errors: all are reported at
 * once. */
START_TEST(data_are_validated)
{
    char folder[TEST_PATH], path[TEST_PATH];
    char *output = NULL;
    test_folder(folder);
    test_join(path, folder, "t.csv");
    test_write_text(path, "a,b,kind\n1,2,x\n3,4,y\n5,6,z\n7,8,x\n");
    test_join(path, folder, "bad.csv");
    test_write_text(path, "a,b,kind\n1,2,x\n3,four,y\n");
    test_join(path, folder, "a.yaml");
    test_write_text(path, "run: {dir: r}\nmodel: {family: mlp, sizes: [2, 2]}\n"
                          "data: {format: tensors, train: {x: t.csv}, columns: {target: kind}}\n"
                          "train: {epochs: 1, batch_size: 2, evaluate: {every_steps: 2}}\n"
                          "qat: {preset: int8-dynamic-int4-weight}\n");
    const char *validate = "cd %s && " DETENT "config validate a.yaml%s 2>&1";
    ck_assert_int_eq(test_shell(&output, validate, folder, ""), 2);
    ck_assert_ptr_nonnull(strstr(output, "a.yaml:2:33: error: 'model.sizes.1' is 2, but the labels "
                                         "have 3 classes"));
    ck_assert_ptr_nonnull(strstr(
        output, "a.yaml:4:59: error: 'train.evaluate.every_steps' requires data to evaluate on"));
    free(output);
    ck_assert_int_eq(test_shell(&output, validate, folder, " --leave-files"), 0);
    free(output);
    ck_assert_int_eq(
        test_shell(&output, validate, folder, " model.sizes=[2,3] data.validation=0.5"), 0);
    ck_assert_ptr_nonnull(strstr(output, "warning: data.train has no example of 1 of 3 classes: "));
    ck_assert_ptr_nonnull(strstr(output, "\na.yaml: no errors\n"));
    free(output);
    ck_assert_int_eq(test_shell(&output, validate, folder,
                                " data.train.x=bad.csv 'qat.rules=[{match: tail, skip: true}]'"),
                     2);
    ck_assert_ptr_nonnull(
        strstr(output, "bad.csv': line 3, column 2 ('b'): 'four' is not a number"));
    ck_assert_ptr_nonnull(strstr(output, "'tail' matches no module"));
    free(output);
    ck_assert_int_eq(test_shell(&output, validate, folder, " --json"), 2);
    json_t *root = json_loads(strchr(output, '{'), JSON_DISABLE_EOF_CHECK, NULL);
    ck_assert_uint_eq(json_array_size(json_object_get(root, "errors")), 2);
    json_decref(root);
    free(output);
    test_join(path, folder, "r");
    ck_assert(!test_file_exists(path));
}
END_TEST

START_TEST(recipes_are_listed_and_copied)
{
    char folder[TEST_PATH], path[TEST_PATH];
    char *output = NULL, *from = NULL, *to = NULL;
    ck_assert_int_eq(test_shell(&output, DETENT "ls --json"), 0);
    json_t *list = json_loads(output, 0, NULL);
    ck_assert_ptr_nonnull(list);
    ck_assert_uint_ge(json_array_size(list), 4);
    json_decref(list);
    free(output);
    test_folder(folder);
    test_join(path, folder, "digits-mlp.yaml");
    ck_assert_int_eq(test_shell(&output, "cd %s && " DETENT "cp digits-mlp.yaml", folder), 0);
    ck_assert_str_eq(output, "digits-mlp.yaml\n");
    free(output);
    from = test_read_file(DETENT_SOURCE_DIR "/configs/digits-mlp.yaml", NULL);
    to = test_read_file(path, NULL);
    ck_assert_str_eq(from, to);
    free(to);
    test_write_text(path, "mine");
    ck_assert_int_eq(test_shell(&output, "cd %s && " DETENT "cp digits-mlp 2>&1", folder), 4);
    ck_assert_ptr_nonnull(strstr(output, "File exists"));
    free(output);
    to = test_read_file(path, NULL);
    ck_assert_str_eq(to, "mine");
    free(to);
    test_write_text(path, from);
    free(from);
    ck_assert_int_eq(test_shell(&output, "DETENT_CONFIGS=%s " DETENT "ls", folder), 0);
    ck_assert_int_eq(strncmp(output, "digits-mlp ", 11), 0);
    const size_t length = strlen(output); /* a whole sentence, of however many lines of the file */
    ck_assert_msg(output[length - 2] == '.', "%s", output);
    free(output);
    ck_assert_int_eq(test_shell(&output, "DETENT_CONFIGS=/nowhere " DETENT "ls 2>&1"), 1);
    free(output);
}
END_TEST

/* ---- parts of the output --------------------------------------------------------------------- */

/* What `print` writes to stdout, malloc'ed. */
static char *printed(void (*print)(void))
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "out");
    fflush(stdout);
    const int out = dup(STDOUT_FILENO);
    FILE *file = fopen(path, "w");
    ck_assert(out >= 0 && file != NULL && dup2(fileno(file), STDOUT_FILENO) >= 0);
    print();
    fflush(stdout);
    ck_assert_int_ge(dup2(out, STDOUT_FILENO), 0);
    close(out);
    fclose(file);
    return test_read_file(path, NULL);
}

static void print_numbers(void)
{
    static const double numbers[] = { 0.1, 0.1 + 0.2, -3, 1e300 / 3 };
    for (int i = 0; i < 4; i++) {
        cli_json_number(numbers[i]);
        putchar('\n');
    }
}

/* As many digits as a reader needs to get the same number, up to 17. */
START_TEST(numbers_are_read_back)
{
    char *text = printed(print_numbers);
    ck_assert_str_eq(text, "0.1\n0.30000000000000004\n-3\n3.3333333333333335e+299\n");
    free(text);
}
END_TEST

static void print_table(void)
{
    cli_table t = { .form = "lo" };
    static const char *const cells[] = { "name", "figure",
                                         "a name of 40 letters, more than is least", "1234" };
    for (int i = 0; i < 4; i++) cli_table_put(&t, cells[i]);
    cli_table_print(&t);
}

/* It fits a screen of just its width; on a narrower one it has no optional column. */
START_TEST(tables_fit_the_screen)
{
    setenv("COLUMNS", "100", 1);
    char *wide = printed(print_table);
    const size_t width = strcspn(wide, "\n");
    ck_assert_uint_gt(width, 10);
    for (int less = 0; less < 2; less++) {
        char columns[24];
        snprintf(columns, sizeof columns, "%zu", width - (size_t)less);
        setenv("COLUMNS", columns, 1);
        char *text = printed(print_table);
        ck_assert_msg((strstr(text, "figure") != NULL) == (less == 0), "%s columns: %s", columns,
                      text);
        free(text);
    }
    unsetenv("COLUMNS");
    free(wide);
}
END_TEST

static void print_failed(void)
{
    cli_table t = { .form = "l", .failed = true };
    cli_table_print(&t);
}

/* A command that left something out ends with an error. */
START_TEST(what_is_left_out_is_known)
{
    cli_begin_output();
    ck_assert(!cli_is_incomplete());
    free(printed(print_failed));
    ck_assert(cli_is_incomplete());
    cli_begin_output();
    ck_assert(!cli_is_incomplete());
}
END_TEST

Suite *test_cli_suite(void)
{
    Suite *suite = suite_create("cli");
    TCase *all = tcase_create("program");
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, usage, 0, (int)(sizeof usage_cases / sizeof usage_cases[0]));
    tcase_add_test(all, lines_end_at_80_columns);
    tcase_add_test(all, what_was_typed_comes_first);
    tcase_add_test(all, recipes_are_narrow);
    tcase_add_test(all, a_recipe_is_validated);
    tcase_add_test(all, data_are_validated);
    tcase_add_test(all, recipes_are_listed_and_copied);
    tcase_add_test(all, numbers_are_read_back);
    tcase_add_test(all, tables_fit_the_screen);
    tcase_add_test(all, what_is_left_out_is_known);
    suite_add_tcase(suite, all);
    return suite;
}
