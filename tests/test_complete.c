/* Completion and manual pages, which the program makes from its table of commands: nothing of the
 * table is missing, and nothing else is there. */
#include "testing.h"

#include <stdlib.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' "

typedef struct complete_case {
    const char *words;  /* behind `detent complete --` */
    const char *offers; /* a line begins with this, and a tab; NULL: there is no line at all */
    const char * not ;  /* no line begins with this */
} complete_case;

static const complete_case complete_cases[] = {
    { "", "train", "pages" },
    { "tra", "train", "eval" },
    { "--v", "--version", "--help" },
    { "zebra ''", NULL, NULL },
    { "pages --", NULL, NULL },
    { "train ''", NULL, NULL },
    { "train --", "--resume", "--layers" },
    { "train --", "--help", NULL },
    { "train r.yaml train.", "train.optimizer.", "data." },
    { "train r.yaml train.optimizer.l", "train.optimizer.lr=", "train.optimizer.name=" },
    { "train r.yaml train.optimizer.name=ada", "train.optimizer.name=adamw", "sgd" },
    { "train r.yaml ~train.clip_g", "~train.clip_grad_norm", "train" },
    { "train r.yaml train.float_baseline=", "train.float_baseline=true", NULL },
    { "train r.yaml no.such", NULL, NULL },
    { "config ''", "schema", "or" },
    { "config val", "validate", "show" },
    { "tokenize ''", NULL, NULL },
    { "tokenize t --tokenizer ''", "bytes", "FILE" },
    { "export m --format tf", "tflite", "onnx" },
    { "export m -o ''", NULL, NULL },
    { "sample m --cache=", "--cache=int8", "int8" },
    { "sample m --threads ''", NULL, NULL },
    { "cp digits-2", "digits-2bit", "digits-cnn" },
};

/* Whether a line of `text` begins with `word` and a tab. */
static bool has_line(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (const char *line = text; line != NULL && *line != 0;) {
        if (strncmp(line, word, n) == 0 && line[n] == '\t') return true;
        line = strchr(line, '\n');
        if (line != NULL) line++;
    }
    return false;
}

START_TEST(candidates)
{
    const complete_case *c = &complete_cases[_i];
    char *text = NULL;
    ck_assert_int_eq(0, test_shell(&text, DETENT "complete -- %s 2>&1", c->words));
    if (c->offers == NULL) {
        ck_assert_msg(*text == 0, "%s: %s", c->words, text);
    } else {
        ck_assert_msg(has_line(text, c->offers), "%s: no %s in %s", c->words, c->offers, text);
    }
    if (c->not != NULL) ck_assert_msg(!has_line(text, c->not ), "%s: %s", c->words, text);
    free(text);
}
END_TEST

/* Each command of the help has a page, with each option of its own help, which completion offers;
 * the page has as many options as the help, and two more. */
static const test_draws option_steps = { .usual = 1, .sanitized = 4 }; /* completed: of as many */

START_TEST(pages)
{
    char folder[TEST_PATH], *text = NULL;
    test_folder(folder);
    ck_assert_int_eq(0, test_shell(NULL, DETENT "pages '%s'", folder));
    const int status = test_shell(
        &text,
        "cd '%s' && for c in $(" DETENT "--help | sed -n 's/^  \\([a-z]*\\) .*/\\1/p'); do "
        "n=0; for o in $(" DETENT "$c --help | sed -n 's/^  \\(-[a-z-]*\\).*/\\1/p'); do "
        "n=$((n + 1)); grep -q \"^.fB$(echo \" $o\" | sed 's/ //; s/-/.-/g').fR\" detent-$c.1 || "
        "echo \"$c: no $o in its page\"; [ $(((n - 1) %% %d)) -gt 0 ] || " DETENT
        "complete -- $c $o | grep -q -- \"^$o\" || echo \"$c $o: not offered\"; done; "
        "m=$(sed -n '/^.SH OPTIONS/,/^.SH EXIT/p' detent-$c.1 | grep -c '^.TP'); "
        "[ \"$m\" -eq $((n + 2)) ] || echo \"$c: $m options in its page, $n in its help\"; "
        "grep -q \"^.BR detent.-$c (1)\" detent.1 || echo \"$c: not in detent.1\"; "
        "done; echo \"$(ls | wc -l) pages\"",
        folder, (int)test_count(option_steps));
    ck_assert_int_eq(0, status);
    ck_assert_msg(strstr(text, "pages") != NULL && strchr(text, ':') == NULL, "%s", text);
    ck_assert_int_gt(strtol(text, NULL, 10), 20);
    free(text);
    ck_assert_int_eq(1, test_shell(&text, DETENT "pages /nowhere/x 2>&1"));
    ck_assert_msg(strstr(text, "/nowhere/x/detent.1: No such file") != NULL, "%s", text);
    free(text);
}
END_TEST

/* Everything that the build depends on has its version. */
START_TEST(version)
{
    static const char *const names[] = { "compiler", "kernels", "libyaml",    "zlib",   "libpng",
                                         "libjpeg",  "xxhash",  "protobuf-c", "oneDNN", "BLAS" };
    char *text = NULL;
    ck_assert_int_eq(0, test_shell(&text, DETENT "--version --verbose"));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ck_assert_msg(strstr(text, names[i]) != NULL, "no %s in %s", names[i], text);
    }
    free(text);
    ck_assert_int_eq(2, test_shell(NULL, DETENT "--version --zebra 2>/dev/null"));
}
END_TEST

Suite *test_complete_suite(void)
{
    Suite *s = suite_create("complete");
    TCase *t = tcase_create("complete");
    tcase_add_loop_test(t, candidates, 0, sizeof complete_cases / sizeof complete_cases[0]);
    tcase_add_test(t, pages);
    tcase_add_test(t, version);
    suite_add_tcase(s, t);
    return s;
}
