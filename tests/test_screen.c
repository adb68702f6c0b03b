/* Output fits the terminal: no line of a command is wider than COLUMNS, in columns of characters; a
 * progress line fits a pseudo-terminal; colours are used only where they are allowed. */
#include "testing.h"

#include <stdlib.h>
#include <utf8proc.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' "

static char folder[TEST_PATH];

static const char recipe[] =
    "run: {dir: run, seed: 1}\n"
    "model: {family: mlp, sizes: [784, 32, 10]}\n"
    "data: {format: digits, train_count: 200, test_count: 50, validation: 0.2}\n"
    "train:\n"
    "  epochs: 2\n"
    "  float_baseline: true\n"
    "  optimizer: {name: adamw, lr: 1e-3}\n"
    "qat: {preset: int8-dynamic-int4-weight, start_step: 2}\n";

static const char language[] =
    "run: {dir: lm, seed: 1}\n"
    "model: {family: gpt, vocab: 13, context: 12, layers: 1, heads: 2, width: 32}\n"
    "data: {format: adder, train_count: 200, test_count: 20}\n"
    "train: {steps: 4}\n";

static void begin(void)
{
    char path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "r.yaml");
    test_write_text(path, recipe);
    test_join(path, folder, "s.yaml");
    test_write_text(path, "keys:\n  train.optimizer.lr: [1e-3, 1e30]\n"
                          "  model.sizes: [[784, 16, 16, 16, 16, 16, 10], [784, 16, 10]]\n");
    test_join(path, folder, "lm.yaml");
    test_write_text(path, language);
    ck_assert_int_eq(test_shell(NULL,
                                "cd %s && " DETENT "train r.yaml --quiet >/dev/null 2>&1 && " DETENT
                                "train lm.yaml --quiet >/dev/null 2>&1",
                                folder),
                     0);
}

/* ---- widths --------------------------------------------------------------------------------- */

/* Columns of n bytes, without sequences that begin with ESC [ and end in a letter. */
static int columns_of(const char *line, size_t n)
{
    int sum = 0;
    for (size_t i = 0; i < n;) {
        if (line[i] == '\033' && i + 1 < n && line[i + 1] == '[') {
            i += 2;
            while (i < n && (line[i] < '@' || line[i] > '~')) i++;
            i++;
            continue;
        }
        utf8proc_int32_t code;
        const utf8proc_ssize_t bytes =
            utf8proc_iterate((const utf8proc_uint8_t *)line + i, (utf8proc_ssize_t)(n - i), &code);
        sum += bytes > 0 ? utf8proc_charwidth(code) : 1;
        i += bytes > 0 ? (size_t)bytes : 1;
    }
    return sum;
}

/* Whether a line is one word, such as a path, which is never broken. */
static bool is_word(const char *line, size_t n)
{
    while (n > 0 && *line == ' ') {
        line++;
        n--;
    }
    return memchr(line, ' ', n) == NULL;
}

/* Checks all lines of `text`, which end in \n or \r. Returns how many there are. */
static int check_lines(const char *text, int most, const char *command)
{
    int lines = 0;
    while (*text != 0) {
        const size_t n = strcspn(text, "\r\n");
        const bool good = columns_of(text, n) <= most || (most < 80 && is_word(text, n));
        TEST_EACH(good, "%d columns: %s: %.*s", most, command, (int)n, text);
        lines += n > 0;
        text += n + (text[n] != 0);
    }
    return lines;
}

static const char *const commands[] = {
    "",
    "--help",
    "train --help",
    "config --help",
    "eval --help",
    "convert --help",
    "quantize --help",
    "export --help",
    "cp --help",
    "new --help",
    "doctor --help",
    "predict --help",
    "tokenize --help",
    "sample --help",
    "merge --help",
    "import --help",
    "inspect --help",
    "check --help",
    "bench --help",
    "ls --help",
    "ls",
    "doctor",
    "zebra",
    "inspect run",
    "inspect run/float.safetensors",
    "inspect run/baseline.safetensors",
    "inspect run --layers",
    "inspect run --graph table",
    "inspect run --device",
    "inspect run/checkpoints/step-0000000006.safetensors",
    "inspect lm",
    "inspect lm --layers",
    "inspect lm --graph table",
    "check run",
    "eval run",
    "eval lm",
    "convert run -o c.st",
    "merge run -o m.st",
    "quantize run -o q.st quantize.rounder=gptq",
    "quantize run -o q.st quantize.rounder=qronos --quiet",
    "quantize lm -o n.st qat.weight.bits=2",
    "export run --format onnx -o a.onnx --verify",
    "config validate r.yaml",
    "config show r.yaml --summary",
    "train r.yaml --dry-run",
    "train r.yaml",
    "train nothing.yaml",
    "sample lm --prompt 1+2= --max-tokens 0",
    "report run -o r.html",
    "compare run run",
    "compare run run run run run --seeds 1",
    "compare run lm run lm --seeds 2",
    "sweep r.yaml s.yaml --dry-run",
    "sweep r.yaml s.yaml train.epochs=1 --seeds 2",
    "sweep r.yaml r.yaml",
    "search r.yaml --budget 1",
    "search r.yaml --budget 26000 --dry-run",
    "search r.yaml --budget 26000 train.epochs=1 qat.start_step=1",
    "sweep --help",
    "search --help",
    "compare --help",
};

static const test_draws screens = { .usual = 4, .sanitized = 1 };

static const test_draws command_steps = { .usual = 1, .sanitized = 2 }; /* one of as many */

START_TEST(no_line_is_wider_than_the_screen)
{
    static const int widths[] = { 40, 60, 80, 100 };
    begin();
    const size_t step = (size_t)test_count(command_steps);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i += step) {
        char *output = NULL;
        test_shell(&output, "cd %s && COLUMNS=%d " DETENT "%s 2>&1", folder, widths[_i],
                   commands[i]);
        ck_assert_int_gt(check_lines(output, widths[_i], commands[i]), 0);
        free(output);
    }
    /* YAML is for files: at 80 columns it fits */
    char *output = NULL;
    test_shell(&output, "cd %s && COLUMNS=%d " DETENT "config show r.yaml", folder, widths[_i]);
    check_lines(output, widths[_i] < 80 ? 80 : widths[_i], "config show");
    free(output);
}
END_TEST

/* Wider screens are used. */
START_TEST(tables_widen)
{
    char *narrow = NULL, *wide = NULL;
    begin();
    test_shell(&narrow, "cd %s && COLUMNS=80 " DETENT "train r.yaml run.dir=a --quiet", folder);
    test_shell(&wide, "cd %s && COLUMNS=120 " DETENT "train r.yaml run.dir=b --quiet", folder);
    ck_assert_ptr_null(strstr(narrow, "samples/s"));
    ck_assert_ptr_nonnull(strstr(narrow, "bits/weight"));
    ck_assert_ptr_nonnull(strstr(wide, "samples/s"));
    ck_assert_ptr_nonnull(strstr(wide, "ptq of baseline"));
    free(narrow);
    free(wide);
    test_shell(&narrow, "cd %s && COLUMNS=10 " DETENT "inspect run", folder); /* 40 at least */
    check_lines(narrow, 40, "inspect run");
    free(narrow);
}
END_TEST

/* ---- terminals ------------------------------------------------------------------------------ */

/* Runs a command on a pseudo-terminal of so many columns. */
static char *on_terminal(int columns, const char *environment, const char *command)
{
    char *output = NULL;
    const int status = test_shell(&output,
                                  "cd %s && unset COLUMNS && script -qec \"stty cols %d; %s " DETENT
                                  "%s\" /dev/null",
                                  folder, columns, environment, command);
    ck_assert_msg(status == 0, "%s: %d: %s", command, status, output);
    return output;
}

START_TEST(the_moving_line_fits)
{
    static const int widths[] = { 40, 60, 80, 132 };
    begin();
    char *output = on_terminal(widths[_i], "TERM=xterm", "train r.yaml run.dir=t");
    ck_assert_msg(strstr(output, "nan") == NULL, "%s", output); /* what is not known yet */
    /* the last column stays free, so that terminals do not wrap */
    const char *line = output;
    int moving = 0;
    for (; *line != 0; line += strcspn(line, "\r\n") + 1) {
        const size_t n = strcspn(line, "\r\n");
        const bool moves = n > 3 && strstr(line, "\033[K") != NULL;
        if (moves && strstr(line, "\033[K") < line + n) {
            moving++;
            TEST_EACH(columns_of(line, n) < widths[_i], "%d: %.*s", widths[_i], (int)n, line);
        }
        if (line[n] == 0) break;
    }
    ck_assert_int_ge(moving, 3); /* baseline, float, qat */
    check_lines(output, widths[_i], "train on a terminal");
    ck_assert_ptr_nonnull(strstr(output, "accuracy"));
    free(output);
}
END_TEST

/* Colour is for terminals whose owner does not refuse it. */
START_TEST(colours_are_for_terminals)
{
    begin();
    char *output = on_terminal(80, "TERM=xterm", "eval run; true");
    free(output);
    output = on_terminal(80, "TERM=xterm", "inspect run");
    ck_assert_ptr_nonnull(strstr(output, "\033[1m"));
    int bold = 0, plain = 0; /* each that begins, ends */
    for (const char *at = output; (at = strchr(at, '\033')) != NULL; at++) {
        bold += strncmp(at, "\033[1m", 4) == 0;
        plain += strncmp(at, "\033[0m", 4) == 0;
    }
    ck_assert_int_eq(bold, plain);
    free(output);
    output = on_terminal(80, "TERM=xterm NO_COLOR=1", "inspect run");
    ck_assert_ptr_null(strstr(output, "\033["));
    free(output);
    output = on_terminal(80, "TERM=dumb", "inspect run");
    ck_assert_ptr_null(strstr(output, "\033["));
    free(output);
    test_shell(&output, "cd %s && TERM=xterm " DETENT "train r.yaml run.dir=p 2>&1", folder);
    ck_assert_ptr_null(strchr(output, '\033'));
    ck_assert_ptr_null(strchr(output, '\r'));
    ck_assert_ptr_nonnull(strstr(output, "qat 3/6")); /* a phase that begins is said at once */
    free(output);
}
END_TEST

START_TEST(quiet_shows_no_progress)
{
    static const char *const quiet[] = {
        "train r.yaml run.dir=q --quiet",
        "eval run/model.safetensors --quiet",
        "quantize run/float.safetensors -o q.st r.yaml --quiet",
        "export run/model.safetensors --format onnx -o q.onnx --quiet",
        "convert run -o q2.st --quiet",
        "search r.yaml --budget 26000 train.epochs=1 qat.start_step=1 --quiet",
    };
    begin();
    for (size_t i = 0; i < sizeof quiet / sizeof quiet[0]; i++) {
        char *output = on_terminal(80, "TERM=xterm NO_COLOR=1", quiet[i]);
        ck_assert_msg(strstr(output, "\033[K") == NULL, "%s: %s", quiet[i], output);
        free(output);
    }
}
END_TEST

Suite *test_screen_suite(void)
{
    Suite *suite = suite_create("screen");
    TCase *all = tcase_create("terminal");
    tcase_set_timeout(all, 300);
    tcase_add_loop_test(all, no_line_is_wider_than_the_screen, 0, (int)test_count(screens));
    tcase_add_test(all, tables_widen);
    tcase_add_loop_test(all, the_moving_line_fits, 0, 4);
    tcase_add_test(all, colours_are_for_terminals);
    tcase_add_test(all, quiet_shows_no_progress);
    suite_add_tcase(suite, all);
    return suite;
}
