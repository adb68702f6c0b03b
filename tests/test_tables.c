/* Data that do not say what they are, drawn at random: files that changed under a run, columns that
 * are an index, first rows that are no header, and parts of one class. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' "

static char folder[TEST_PATH];

static int below(int n) { return rand() % n; }

/* Runs commands in the folder, where $D is the program. The output is freed by the next call. */
static const char *shell(int status, const char *commands)
{
    static char *output;
    free(output);
    const int found =
        test_shell(&output, "cd %s && D=" DETENT "; { %s ; } </dev/null 2>&1", folder, commands);
    ck_assert_msg(found == status, "%s: %d: %s", commands, found, output);
    return output;
}

static void has(const char *output, const char *words)
{
    ck_assert_msg(strstr(output, words) != NULL, "no '%s': %s", words, output);
}

__attribute__((unused)) static void lacks(const char *output, const char *words)
{
    ck_assert_msg(strstr(output, words) == NULL, "'%s': %s", words, output);
}

static FILE *file_of(const char *name)
{
    char path[TEST_PATH + 40];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    return f;
}

static void write_text(const char *name, const char *text)
{
    FILE *f = file_of(name);
    fputs(text, f);
    fclose(f);
}

/* ---- data that change under a run ------------------------------------------------------------ */

static const test_draws changes = { .usual = 10, .sanitized = 2, .quick = 5 };

/* Commands that change a file: rows in another order, one number, one row more, one less. */
static const struct {
    const char *command, *words;
} edits[] = {
    { "(head -1 FILE; tail -n +2 FILE | tac) > z", "other content, or in another order" },
    { "sed '7s/1/2/' FILE > z", "other content, or in another order" },
    { "(cat FILE; tail -1 FILE) > z", "the training data have changed: it was trained on" },
    { "sed 9d FILE > z", "the training data have changed: it was trained on" },
    { "cat FILE > z", NULL }, /* the same content in a new file */
};
enum { EDITS = sizeof edits / sizeof edits[0] };

static void write_rows(int rows)
{
    FILE *f = file_of("d.csv");
    fputs("a,b,kind\n", f);
    for (int i = 0; i < rows; i++)
        fprintf(f, "1%d.5,1%d,%c\n", below(900), below(900), 'p' + i % 3);
    fclose(f);
    f = file_of("d.jsonl");
    for (int i = 0; i < rows; i++) {
        fprintf(f, "{\"prompt\": \"1%d+\", \"completion\": \"1%d\"}\n", i, below(90));
    }
    fclose(f);
}

START_TEST(resuming_sees_other_data)
{
    static const char *const forms[][2] = {
        { "d.csv",
          "model: {family: mlp, sizes: [2, 4, 3]}\ndata: {format: tensors, train: {x: "
          "[d.csv]}, columns: {target: kind}, standardize: true%s}\ntrain: {epochs: 1}\n" },
        { "d.csv", "model: {family: mlp, sizes: [1, 4, 1]}\ndata: {format: tensors, task: "
                   "regression, train: {x: [d.csv]}, columns: {inputs: [a], target: b}%s}\n"
                   "train: {epochs: 1}\n" },
        { "d.jsonl", "model: {family: gpt, vocab: 256, context: 16, layers: 1, heads: 1, width: "
                     "8}\ndata: {format: jsonl, train: [d.jsonl], tokenizer: bytes, context: "
                     "16%s}\ntrain: {steps: 1}\n" },
    };
    char text[700], command[400];
    test_folder(folder);
    for (int64_t i = 0; i < test_count(changes); i++) {
        const int form = (int)(i % 3), edit = (int)(i % EDITS);
        snprintf(text, sizeof text, "run: {dir: r}\n");
        snprintf(text + strlen(text), sizeof text - strlen(text), forms[form][1],
                 i % 2 ? ", validation: 0.2" : "");
        write_rows(30 + below(30));
        write_text("r.yaml", text);
        shell(0, "rm -rf r; $D train r.yaml --quiet");
        snprintf(command, sizeof command, "F=%s; %s; cmp -s z %s; mv z %s; $D train r --resume",
                 forms[form][0], edits[edit].command, forms[form][0], forms[form][0]);
        for (char *at; (at = strstr(command, "FILE")) != NULL;) memcpy(at, "$F  ", 4);
        const char *output = shell(edits[edit].words == NULL ? 0 : 4, command);
        if (edits[edit].words == NULL) continue;
        has(output, edits[edit].words);
        has(output, "model.init");
    }
}
END_TEST

Suite *test_tables_suite(void)
{
    Suite *suite = suite_create("tables");
    TCase *cases = tcase_create("tables");
    tcase_set_timeout(cases, 300);
    tcase_add_test(cases, resuming_sees_other_data);
    suite_add_tcase(suite, cases);
    return suite;
}
