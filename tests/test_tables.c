/* Properties of data that they do not state, drawn at random: files that changed during a run,
 * columns that are an index, first rows that are no header, and parts of one class. */
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
    const int found = test_shell(
        &output, "cd %s && D=" DETENT "; { %s ; } </dev/null 2>&1; exit $?", folder, commands);
    ck_assert_msg(found == status, "%s: %d: %s", commands, found, output);
    return output;
}

static void has(const char *output, const char *words)
{
    ck_assert_msg(strstr(output, words) != NULL, "no '%s': %s", words, output);
}

static void lacks(const char *output, const char *words)
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

/* Test data do not affect weights: a message says that they changed. */
START_TEST(resuming_says_that_test_data_are_others)
{
    test_folder(folder);
    write_rows(40);
    shell(0, "cp d.csv t.csv");
    write_text("r.yaml",
               "run: {dir: r}\nmodel: {family: mlp, sizes: [2, 4, 3]}\ndata: {format: tensors, "
               "train: {x: [d.csv]}, test: {x: [t.csv]}, columns: {target: kind}, standardize: "
               "true}\ntrain: {epochs: 1}\n");
    shell(0, "rm -rf r; $D train r.yaml --quiet");
    ck_assert_ptr_null(strstr(shell(0, "$D train r --resume"), "test data have changed"));
    has(shell(0, "sed 9d t.csv > z; mv z t.csv; $D train r --resume"), "test data have changed");
}
END_TEST

/* ---- names that change ----------------------------------------------------------------------- */

static const test_draws renamed = { .usual = 4, .sanitized = 1, .quick = 2 };

/* A drawn column or class has another name, or two columns change places in the recipe: shapes and
 * numbers are as before, but not what the weights were trained on. */
START_TEST(names_are_those_of_the_weights)
{
    char text[700], command[200];
    test_folder(folder);
    for (int64_t i = 0; i < test_count(renamed); i++) {
        const int columns = 2 + below(4), one = below(columns), other = (one + 1) % columns;
        FILE *f = file_of("d.csv");
        for (int c = 0; c < columns; c++) fprintf(f, "c%d,", c);
        fputs("kind\n", f);
        for (int r = 0; r < 40; r++) {
            for (int c = 0; c < columns; c++) fprintf(f, "%d.%d,", below(90), 1 + below(9));
            fprintf(f, "k%d\n", r % 3);
        }
        fclose(f);
        snprintf(text, sizeof text,
                 "run: {dir: r, report: false}\nmodel: {family: mlp, sizes: [%d, 4, 3]}\n"
                 "data: {format: tensors, train: {x: [d.csv]}, test: {x: [d.csv]}, columns: "
                 "{target: kind}, standardize: %s}\ntrain: {epochs: 1}\n",
                 columns, i % 2 ? "true" : "false");
        write_text("r.yaml", text);
        shell(0, "rm -rf r; $D train r.yaml --quiet; cp d.csv keep; $D train r --resume; "
                 "$D eval r r.yaml");
        snprintf(command, sizeof command, "sed 1s/c%d/d%d/ keep > d.csv; $D train r --resume", one,
                 one);
        const char *output = shell(4, command);
        snprintf(text, sizeof text, "column %d of the data is 'd%d', of the model 'c%d'; restore",
                 one, one, one);
        has(output, text);
        has(shell(4, "$D eval r r.yaml"), "the data must have the model's names, in its order");
        snprintf(command, sizeof command, "sed s/k%d/k%dx/ keep > d.csv; $D train r --resume",
                 one % 3, one % 3);
        snprintf(text, sizeof text, "class %d of the data is 'k%dx', of the model 'k%d'; restore",
                 one % 3, one % 3, one % 3);
        has(shell(4, command), text);
        snprintf(text, sizeof text, "cp keep d.csv; $D eval r r.yaml 'data.columns.inputs=[");
        for (int c = 0; c < columns; c++) {
            const int at = c == one ? other : c == other ? one : c;
            snprintf(text + strlen(text), sizeof text - strlen(text), "c%d%s", at,
                     c + 1 < columns ? "," : "]'");
        }
        has(shell(4, text), "the data must have the model's names, in its order");
    }
}
END_TEST

/* ---- what a table is ------------------------------------------------------------------------- */

static const test_draws drawn = { .usual = 12, .sanitized = 2, .quick = 6 };

/* An index column by its name and values, or a column that only looks like one. */
static const struct {
    const char *name, *column; /* as exclude has it */
    int kind; /* 0: first + i; 1: the same in another order; 2: with gaps; 3: others */
    bool found;
} indexes[] = {
    { "", "''", 0, true },
    { "\"\"", "''", 1, true },
    { "Unnamed: 0", "'Unnamed: 0'", 2, true },
    { "id", "'id'", 0, true },
    { "INDEX", "'INDEX'", 1, true },
    { "Row", "'Row'", 0, true },
    { "id", "'id'", 3, false },
    { "", "''", 3, false },
    { "width", "'width'", 0, false },
    { "index", "'index'", 2, false },
};
enum { INDEXES = sizeof indexes / sizeof indexes[0] };

static void write_indexed(int i, int rows, bool last)
{
    FILE *f = file_of("i.csv");
    const int first = i % 3 == 2 ? 17 : below(2), kind = indexes[i].kind;
    fprintf(f, last ? "x,kind,%s\n" : "%s,x,kind\n", indexes[i].name);
    for (int k = 0; k < rows; k++) {
        const int v = first + (kind == 1   ? (k * 7 + 3) % rows
                               : kind == 2 ? 3 * (rows - k)
                               : kind == 3 ? k / 2
                                           : k);
        if (last) fprintf(f, "%d.5,%c,%d\n", below(99), 'a' + k % 3, v);
        else fprintf(f, "%d,%d.5,%c\n", v, below(99), 'a' + k % 3);
    }
    fclose(f);
}

START_TEST(an_index_is_no_input)
{
    test_folder(folder);
    for (int64_t i = 0; i < test_count(drawn) && i < INDEXES; i++) {
        char text[80];
        const int rows = i == 0 ? 72 : 29 + below(60); /* 72: batches of 64 would leave one of 65 */
        write_indexed((int)i, rows % 7 == 0 ? rows + 1 : rows, below(2));
        const char *output =
            shell(0, "rm -f n.yaml; $D new n.yaml --data i.csv --target kind; cat n.yaml");
        lacks(output, "warning: data.train");
        snprintf(text, sizeof text, "exclude: [%s]", indexes[i].column);
        (indexes[i].found ? has : lacks)(output, indexes[i].found ? text : "exclude");
        if (indexes[i].found) has(output, "the rows and is no input");
        if (i > 3) continue;
        write_text("t.yaml",
                   "run: {dir: t}\nmodel: {family: mlp, sizes: [2, 3]}\ntrain: {epochs: 1}\n"
                   "data: {format: tensors, train: {x: [i.csv]}, columns: {target: kind}}\n");
        has(shell(0, "$D train t.yaml --dry-run"), "numbers the rows");
        lacks(shell(0, "$D train n.yaml --dry-run"), "numbers the rows");
        has(shell(2, "$D train t.yaml 'data.columns.exclude=[nowhere]' --dry-run"),
            "'nowhere' is not a column");
    }
}
END_TEST

/* A table whose last column is a class or a number, with or without a header. */
static void write_headless(int columns, bool words, const char *header)
{
    FILE *f = file_of("h.csv");
    if (header != NULL) fprintf(f, "%s\n", header);
    for (int k = 0; k < 40; k++) {
        for (int c = 0; c < columns; c++) fprintf(f, "%d.%02d,", below(20) - 10, below(100));
        if (words) fprintf(f, "%c\n", 'p' + k % 3);
        else fprintf(f, "%d.%d\n", 2 + below(50), below(1000));
    }
    fclose(f);
}

START_TEST(a_first_row_of_numbers_is_data)
{
    char command[200], line[80];
    test_folder(folder);
    for (int64_t i = 0; i < test_count(drawn); i++) {
        const int columns = 2 + below(6);
        const bool words = i % 2;
        write_headless(columns, words, NULL);
        if (i % 3 == 0) snprintf(line, sizeof line, "%d", columns);
        else snprintf(line, sizeof line, "$(head -1 h.csv | sed 's/.*,//')");
        snprintf(command, sizeof command,
                 "rm -rf n.yaml runs; $D new n.yaml --data h.csv --target %s; cat n.yaml", line);
        const char *output = shell(0, command);
        snprintf(line, sizeof line, "{header: false, target: ['%d']}", columns);
        has(output, line);
        has(output, words ? "classification" : "regression");
        has(output, "the first row consists of numbers");
        if (i > 2) continue;
        output =
            shell(0, "$D train n.yaml train.epochs=1 '~qat' '~convert' train.float_baseline=false "
                     "--quiet >&2; sed 's/,[^,]*$//' h.csv > p.csv; $D predict runs/n p.csv");
        has(output, "p.csv [39]"); /* all 40 rows */
        output = shell(
            0, "$D train n.yaml data.columns.header=true \"data.columns.target=$(head -1 h.csv | "
               "sed 's/.*,//')\" --dry-run");
        has(output, "warning: 'h.csv': the first row");
        has(output, "data.columns.header: false");
    }
    static const char *const headers[] = { "400,405,410,kind", "0,1,2,3", "1990,2000,2005,kind",
                                           "a,2,3,kind" };
    for (int i = 0; i < 4; i++) { /* names that are numbers, or one that is not */
        write_headless(3, i != 1, headers[i]);
        snprintf(command, sizeof command,
                 "rm -f n.yaml; $D new n.yaml --data h.csv --target %s; cat n.yaml",
                 i == 1 ? "3" : "kind");
        lacks(shell(0, command), "{header: false");
    }
}
END_TEST

START_TEST(targets_that_are_the_same_are_said)
{
    static const char *const recipe =
        "run: {dir: r}\nmodel: {family: mlp, sizes: [1, 4, %d]}\ndata: {format: tensors, task: %s, "
        "train: {x: [s.csv]}, columns: {inputs: [x], target: %s}}\ntrain: {epochs: 1}\n";
    static const struct {
        const char *task, *target, *words;
        int outputs;
    } cases[] = {
        { "classification", "k", "the class is only in all of", 2 },
        { "regression", "c", "is 7.25 in all of", 1 },
        { "regression", "[x2, c]", "the target 'c' is 7.25 in all of", 2 },
        { "multi_label", "[z, b]", "the target 'z' is 0 in all of", 2 },
        { "multi_label", "[b, o]", "the target 'o' is 1 in all of", 2 },
        { "regression", "x2", NULL, 1 },
        { "classification", "b", NULL, 2 },
    };
    test_folder(folder);
    FILE *f = file_of("s.csv");
    fputs("x,x2,k,c,z,o,b\n", f);
    for (int i = 0; i < 30 + below(30); i++) {
        fprintf(f, "%d.5,%d.25,only,7.25,0,1,%d\n", i, below(99) + i, i % 2);
    }
    fclose(f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[400];
        snprintf(text, sizeof text, recipe, cases[i].outputs, cases[i].task, cases[i].target);
        write_text("s.yaml", text);
        const char *output = shell(0, "rm -rf r; $D train s.yaml --quiet");
        if (cases[i].words == NULL) lacks(output, "says nothing");
        else has(output, cases[i].words);
        if (i != 0) continue;
        output = shell(0, "$D eval r data.test='{x: [s.csv]}'");
        has(output, "warning: data.test: the class is only");
    }
}
END_TEST

/* ---- messages -------------------------------------------------------------------------------- */

START_TEST(messages_name_what_is_wrong)
{
    test_folder(folder);
    write_rows(40);
    write_text("r.yaml",
               "run: {dir: r}\nmodel: {family: mlp, sizes: [2, 4, 3]}\ndata: {format: "
               "tensors, train: {x: [d.csv]}, columns: {target: kind}, standardize: true}\n"
               "train: {epochs: 1}\nqat: {preset: int8-dynamic-int4-weight}\n");
    shell(0, "$D train r.yaml --quiet");
    const char *output = shell(4, "sed 1s/a,b/A,B/ d.csv > u.csv; $D predict r u.csv");
    has(output, "lacks 2 columns that the model reads: a, b; its columns are A, B, kind");
    has(shell(4, "tail -n +2 d.csv | cut -d, -f1,2 > u.csv; $D predict r u.csv"),
        "without a header");
    has(shell(2, "$D train r.yaml data.validation=0.001 --dry-run"), "0.001 of 40 rows is none");
    output = shell(0, "$D eval r data.validation=0.5");
    has(output, "the mean and deviation of r");
    lacks(output, "in whose place");
    shell(0, "sed 's/,/;/g' d.csv > s.csv");
    has(shell(0, "$D new s.yaml --data s.csv --target kind"), "';' separates fields");
    FILE *f = file_of("commas.csv");
    fputs("v,x\n", f);
    for (int i = 1; i < 9; i++) fprintf(f, "\"%d,5\",%d.5\n", i, i);
    fclose(f);
    has(shell(2, "$D new n.yaml --data commas.csv --target v"), "decimal comma");
    output = shell(
        0, "$D train r.yaml 'data.train.x=[commas.csv]' data.columns.target=v data.validation=0.3 "
           "'model.sizes=[1, 8]' --dry-run");
    has(output, "8 of 8 classes, such as '1,5', look like numbers with a decimal comma");
    lacks(output, "has no example");
    /* integers beyond f32 from 0 on: an offset would not help; constant channels are not said */
    write_text("m.csv", "n,k\n0,0\n33554432,1\n33554433,2\n33554434,3\n9,4\n");
    output = shell(4, "$D new n.yaml --data m.csv --target k --task classification");
    has(output, "both 33554432 in f32");
    lacks(output, "offset");
    write_text("m.csv", "n,k\n1700000001,1\n1700000002,2\n1700000003,3\n");
    output = shell(4, "$D new n.yaml --data m.csv --target k --task classification");
    has(output, "subtract an offset, such as 1700000001");
    lacks(output, "constant");
    write_text("b.csv", "n,k,l\n1,1,0.1\n2,0,1\n");
    has(shell(
            4,
            "$D train r.yaml data.train.x=b.csv data.task=multi_label 'data.columns.target=[k, l]' "
            "'model.sizes=[1, 2]' --dry-run"),
        "'0.1' is neither 0 nor 1");
    shell(0, "$D config validate r.yaml data.layout=nchw; $D config validate r.yaml "
             "data.layout=as_it_is");
    /* a key of training that these commands do not read */
    shell(0, "sed -i 's/batch_size: .*/batch_size: 0/' r/recipe.yaml; $D quantize "
             "r/float.safetensors -o "
             "q.safetensors; $D convert r -o c.safetensors");
}
END_TEST

/* `new` opens data several times, and prints each message once. */
START_TEST(new_says_lines_once)
{
    test_folder(folder);
    FILE *f = file_of("o.csv");
    fputs("x,c,y\n", f);
    for (int i = 0; i < 50; i++) fprintf(f, "%d.5,3,%d\n", below(90), i % 2);
    fclose(f);
    const char *output = shell(0, "$D new n.yaml --data o.csv --target y"),
               *line = strstr(output, "always the same");
    ck_assert_ptr_nonnull(line);
    lacks(line + 1, "always the same");
    lacks(output, "channel");
    lacks(shell(0, "$D new m.yaml --data o.csv --target y --task regression"), "in proportion");
}
END_TEST

Suite *test_tables_suite(void)
{
    Suite *suite = suite_create("tables");
    TCase *cases = tcase_create("tables");
    tcase_set_timeout(cases, 300);
    tcase_add_test(cases, resuming_sees_other_data);
    tcase_add_test(cases, resuming_says_that_test_data_are_others);
    tcase_add_test(cases, names_are_those_of_the_weights);
    tcase_add_test(cases, an_index_is_no_input);
    tcase_add_test(cases, a_first_row_of_numbers_is_data);
    tcase_add_test(cases, targets_that_are_the_same_are_said);
    tcase_add_test(cases, messages_name_what_is_wrong);
    tcase_add_test(cases, new_says_lines_once);
    suite_add_tcase(suite, cases);
    return suite;
}
