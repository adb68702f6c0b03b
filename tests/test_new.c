/* What `detent new` decides about random files, that all of its recipes are valid; and that
 * commands check only the keys that they read. */
#include "array_files.h"
#include "core/text/utf8.h"
#include "png_make.h"
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' "

static char folder[TEST_PATH];
static const test_draws draws = { .usual = 60, .sanitized = 2, .quick = 8 };

static int below(int n) { return rand() % n; }

static void run(int status, const char *words, const char *command)
{
    char *output;
    const int found = test_shell(&output, "cd %s && " DETENT "%s </dev/null 2>&1", folder, command);
    ck_assert_msg(found == status, "detent %s: %d: %s", command, found, output);
    ck_assert_msg(strstr(output, words) != NULL, "detent %s: no '%s': %s", command, words, output);
    free(output);
}

static FILE *file_of(const char *name)
{
    char path[TEST_PATH + 40];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    return f;
}

/* Kinds of targets, and what they are. */
static const struct {
    const char *task, *said;
} kinds[] = {
    { "regression", "different numbers" },      { "classification", "different integers" },
    { "classification", "has words" },          { "regression", "different integers" },
    { "classification", "different integers" },
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* The target of row i: with decimals; integers far apart; words; many integers; 0, 1, ... */
static void put_target(FILE *f, int kind, int i, int classes)
{
    static const char *const words[] = { "rest", "walk", "run fast", "\"a,b\"", "7 up" };
    const int c = i % classes;
    if (kind == 0) fprintf(f, "%d.%04d\n", below(50), i);
    else if (kind == 1) fprintf(f, "%d\n", 100 + 977 * c);
    else if (kind == 2) fprintf(f, "%s\n", words[c % 5]);
    else if (kind == 3) fprintf(f, "%d\n", 3 * i + 11);
    else fprintf(f, "%d\n", c);
}

START_TEST(tables_get_recipes_that_run)
{
    test_folder(folder);
    for (int64_t i = 0; i < test_count(draws); i++) {
        const int kind = (int)(i % KINDS), classes = 2 + below(4), rows = 21 + below(120);
        const bool timed = below(3) == 0;
        char command[200];
        FILE *f = file_of("t.csv");
        fprintf(f, "%s,b,target\n", timed ? "time_s" : "a");
        for (int k = 0; k < rows; k++) {
            fprintf(f, "%d,%d.5,", timed ? 10 * k : below(1000), below(90));
            put_target(f, kind, k, classes);
        }
        fclose(f);
        test_shell(NULL, "rm -rf %s/n.yaml %s/runs", folder, folder);
        run(0, kinds[kind].said, "new n.yaml --data t.csv --target target");
        test_shell(NULL, "rm -f %s/n.yaml", folder);
        snprintf(command, sizeof command, "n.yaml: a table, %s", kinds[kind].task);
        run(0, command, "new n.yaml --data t.csv --target target");
        run(0, "no errors", "config validate n.yaml");
        char *text;
        test_shell(&text, "cat %s/n.yaml", folder);
        ck_assert_ptr_nonnull(
            strstr(text, timed ? "validation_order: time" : "validation_order: drawn"));
        int epochs = 0, updates = 0; /* what the recipe says of itself */
        const char *said = strstr(text, "epochs: ");
        ck_assert(said != NULL && sscanf(said, "epochs: %d # %d updates", &epochs, &updates) == 2);
        free(text);
        if (i >= KINDS) continue;
        snprintf(command, sizeof command, "float 1/%d ", updates / epochs);
        run(0, command, "train n.yaml train.epochs=1 '~qat' '~convert' train.float_baseline=false");
    }
}
END_TEST

/* A row for each moment of subjects, one after the other, who do something for a while; `often`:
 * each of them everything several times. */
static void write_moments(int subjects, int stretch, bool often)
{
    const int rows = subjects * 12 * stretch;
    FILE *f = file_of("t.csv");
    fprintf(f, "%s,who,a,b,does\n", often ? "when" : "row_id");
    for (int i = 0; i < rows; i++) {
        const int kind = often ? i / stretch % 3 : i / (rows / 3 + 1);
        if (often) fprintf(f, "2026-01-01T00:%02d:%02d.%02d", i / 3000, i / 50 % 60, i % 50 * 2);
        else fprintf(f, "%d", i + 1);
        fprintf(f, ",s%d,%d.5,%d.25,%s\n", i * subjects / rows, below(90), below(90),
                kind == 0   ? "rest"
                : kind == 1 ? "walk"
                            : "run");
    }
    fclose(f);
}

static void expect_lines(const char *there, const char *absent)
{
    char *text;
    test_shell(&text, "cat %s/n.yaml && rm %s/n.yaml", folder, folder);
    ck_assert_msg(strstr(text, there) != NULL, "no '%s': %s", there, text);
    ck_assert_msg(strstr(text, absent) == NULL, "'%s': %s", absent, text);
    free(text);
}

/* A path without data is described. */
START_TEST(other_paths_are_described)
{
    static const char *const made[][2] = {
        { "mkdir d", "d: not data of a known kind (it is empty)" },
        { "mkdir d && touch d/b.bmp d/a.bmp d/.x", "(it holds files, such as d/a.bmp)" },
        { "mkdir -p d/u d/v && touch d/u/1.bmp", "folders, such as d/u, which holds files, such as "
                                                 "d/u/1.bmp)" },
        { "mkdir -p d/u/v/w", "(it holds folders, such as d/u, which holds folders)" },
        { "mkdir -p d/u", "(it holds folders, such as d/u, which is empty)" },
        { "true", "d: not data of a known kind, and no file or folder" },
        { "echo '[]' > d", "d: not data of a known kind; these" },
    };
    test_folder(folder);
    for (int i = 0; i < 7; i++) {
        test_shell(NULL, "cd %s && rm -rf d && %s", folder, made[i][0]);
        run(4, made[i][1], "new n.yaml --data d");
    }
    test_shell(NULL, "cd %s && echo '[]' > d.json", folder);
    run(4, "(of JSON an object a line is read: jq -c '.[]'", "new n.yaml --data d.json");
}
END_TEST

/* A table without rows, or without inputs, is reported as such; a column that numbers the rows is
 * an input neither in the recipe nor in the table of columns. */
START_TEST(columns_that_are_no_inputs)
{
    static const char *const tables[][2] = {
        { "printf 'a,b,k\\n'", "t.csv: a head without rows; expected at least 2" },
        { "printf 'a,b,k\\n1,2,x\\n'", "t.csv: one row; expected at least 2" },
        { "printf 'a,k\\n1,x\\n1,y\\n1,x\\n'", "t.csv: no input is left" },
    };
    char *text;
    test_folder(folder);
    for (int i = 0; i < 3; i++) {
        test_shell(NULL, "cd %s && %s > t.csv", folder, tables[i][0]);
        run(i < 2 ? 4 : 2, tables[i][1], "new n.yaml --data t.csv --target k");
    }
    FILE *f = file_of("t.csv");
    fprintf(f, "id,town,k\n");
    for (int i = 0; i < 60; i++)
        fprintf(f, "%d,%s,%c\n", i, i % 7 < 3 ? "Ulm" : "Jena", 'a' + i % 2);
    fclose(f);
    run(0, "index: 'id' numbers the rows", "new n.yaml --data t.csv --target k");
    test_shell(&text, "cd %s && rm n.yaml && " DETENT "new n.yaml --data t.csv --target k 2>&1",
               folder);
    const char *row = strstr(text, "\nid ");
    ck_assert_msg(row != NULL && strstr(row, "left out") < strchr(row + 1, '\n'), "%s", text);
    free(text);
}
END_TEST

/* An error in the texts themselves is reported, not that of the last context tried. */
START_TEST(mistakes_in_texts_are_told)
{
    test_folder(folder);
    FILE *f = file_of("t.jsonl");
    const int n = 20 + below(20), bad = below(n);
    for (int i = 0; i < n; i++) {
        fprintf(f, "{\"prompt\": \"%d\", \"completion\": \"%s\"}\n", i, i == bad ? "" : "7");
    }
    fclose(f);
    char words[80];
    snprintf(words, sizeof words, "example %d of it has no completion", bad + 1);
    run(2, words, "new n.yaml --data t.jsonl");
}
END_TEST

/* If exactly one bit is set in every row, the bits may be classes; a message says so, and only
 * then. */
START_TEST(classes_that_are_one_hot)
{
    test_folder(folder);
    for (int hot = 0; hot < 2; hot++) {
        const int rows = 40 + below(60), other = below(rows);
        FILE *f = file_of("t.csv");
        fputs("a,p,q,r\n", f);
        for (int k = 0; k < rows; k++) {
            const int one = k < 3 ? k : below(3);
            fprintf(f, "%d.5,%d,%d,%d\n", below(90), one == 0, one == 1,
                    one == 2 || (!hot && k == other));
        }
        if (!hot) fputs("1.5,0,0,0\n", f);
        fclose(f);
        char *text;
        test_shell(&text,
                   "cd %s && '" DETENT_BINARY_DIR "/detent' new n.yaml --data t.csv --target "
                   "p,q,r 2>&1 && rm n.yaml",
                   folder);
        ck_assert_ptr_nonnull(strstr(text, "a table, multi_label"));
        ck_assert_msg((strstr(text, "Every row has one 1") != NULL) == (hot == 1), "%s", text);
        free(text);
    }
}
END_TEST

/* A number column with a few marks has missing numbers there; with many marks it is a text
 * column. */
START_TEST(marks_among_numbers)
{
    static const char *const marks[] = { "inf", "error", "n.v.", "-" };
    test_folder(folder);
    for (int64_t i = 0; i < test_count(draws); i++) {
        const int odd = 1 + below(4), rows = 130 + below(100), every = 12 + below(20);
        int first = below(4), there[4] = { 0 };
        char rule[160] = "missing: median, indicator: true, words: [";
        FILE *f = file_of("t.csv");
        fputs("a,b,target\n", f);
        for (int k = 0; k < rows; k++) {
            const int mark = (first + k / every) % 4;
            if (k % every == 0 && k / every < odd) {
                fprintf(f, "%s,", marks[mark]);
                snprintf(rule + strlen(rule), sizeof rule - strlen(rule), "%s'%s'",
                         k > 0 ? ", " : "", marks[mark]);
                there[mark]++;
            } else {
                fprintf(f, "%d.%03d,", below(100), k);
            }
            fprintf(f, "%d.5,%s\n", below(90), k % 2 == 0 ? "on" : "off");
        }
        fclose(f);
        strcat(rule, "]");
        run(0, "n.yaml: a table", "new n.yaml --data t.csv --target target");
        run(0, "no errors", "config validate n.yaml");
        const bool many = odd == 4;
        expect_lines(many ? "{columns: ['a'], type: ignore}" : rule, many ? "words: [" : "ignore");
    }
}
END_TEST

START_TEST(moments_get_windows)
{
    test_folder(folder);
    for (int64_t i = 0; i < 4; i++) {
        const int subjects = i % 2 == 0 ? 5 + below(3) : 2 + below(2), stretch = 40 + below(100);
        write_moments(subjects, stretch, true);
        run(0, "an example is a window of", "new n.yaml --data t.csv --target does");
        run(0, "no errors", "config validate n.yaml");
        if (i == 0) {
            run(0, "test",
                "train n.yaml train.epochs=1 '~qat' '~convert' run.dir=r "
                "train.float_baseline=false train.schedule.warmup_steps=0");
            run(0, "accuracy", "eval r"); /* the recipe in it has every default */
        }
        expect_lines(subjects >= 5 ? "split: {by: group, column: 'who', test: 0.2}"
                                   : "split: {by: time, test: 0.2}",
                     "validation_order");
        run(0, "each is a class", "new n.yaml --data t.csv --target does --rows");
        expect_lines("validation_order", "series:");
    }
    write_moments(3, 50, false); /* sorted by the target, as examples are that were collected so */
    run(0, "each is a class", "new n.yaml --data t.csv --target does");
    expect_lines("validation_order", "series:");
}
END_TEST

/* Whole groups are held back, a number that depends on how many there are; an invalid group is
 * reported. */
START_TEST(groups_of_tables)
{
    static const struct {
        const char *options, *words;
    } bad[] = {
        { "--group whom", "'whom' is not a column of t.csv" },
        { "--group kind", "'kind' is a column of --target" },
        { "--group who --inputs who,b", "'who' is a column of --inputs" },
        { "--group one", "'one' has one value" },
    };
    test_folder(folder);
    for (int64_t i = 0; i < test_count(draws) / 6 + 1; i++) {
        const int groups = 2 + below(9), rows = 60 + below(100);
        const bool words = below(2) == 0;
        char line[120];
        FILE *f = file_of("t.csv");
        fputs("who,one,b,kind\n", f);
        for (int k = 0; k < rows; k++) {
            fprintf(f, words ? "s%d" : "%d", k % groups);
            fprintf(f, ",1,%d.%04d,%s\n", below(90), k, below(2) == 0 ? "yes" : "no");
        }
        fclose(f);
        snprintf(line, sizeof line, "split: 'who' has %d values, which are held back whole%s",
                 groups, groups > 4 ? ": a fifth" : " (data.split)");
        run(0, line, "new n.yaml --data t.csv --target kind --group who");
        run(0, "some updates ran", "train n.yaml --dry-run");
        expect_lines(groups > 4 ? "split: {by: group, column: 'who', test: 0.2}"
                                : "split: {by: group, column: 'who'}",
                     "validation_order");
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char command[120];
        snprintf(command, sizeof command, "new n.yaml --data t.csv --target kind %s",
                 bad[i].options);
        run(2, bad[i].words, command);
    }
    run(2, "drawn digits, which has no columns", "new n.yaml --data digits --group who");
}
END_TEST

START_TEST(texts_get_a_context_that_fits)
{
    test_folder(folder);
    for (int64_t i = 0; i < test_count(draws); i++) {
        const int form = (int)(i % 3), lines = 2 + below(30), most = 1 + below(300);
        const char *name = form == 2 ? "t.txt" : "t.jsonl";
        FILE *f = file_of(name);
        for (int k = 0; k < lines; k++) {
            const int n = 1 + below(most);
            if (form == 0) fprintf(f, "{\"prompt\": \"%0*d\", \"completion\": \"%d\"}\n", n, k, k);
            else if (form == 1) fprintf(f, "{\"text\": \"some %0*d\"}\n", n, k);
            else fprintf(f, "a line %0*d\n", n, k);
        }
        fclose(f);
        char command[80];
        snprintf(command, sizeof command, "new n.yaml --data %s --bits %s", name,
                 below(2) ? "8" : "4");
        test_shell(NULL, "rm -f %s/n.yaml", folder);
        run(0, "language", command);
        run(0, "no errors", "config validate n.yaml");
    }
}
END_TEST

/* Folders in which every class has files of drawn endings; what is chosen reads all of them. */
static const struct {
    const char *ending, *pattern; /* pattern NULL: an image */
} endings[] = { { "png", NULL },  { "PNG", NULL },      { "jpg", NULL },     { "JPG", NULL },
                { "jpeg", NULL }, { "wav", "*/*.wav" }, { "WAV", "*/*.wav" } };

/* IDX files as MNIST's, in a folder whose name has signs of patterns, are named in the recipe. */
START_TEST(idx_files_are_found)
{
    static const char *const names[] = { "train", "t10k" };
    uint8_t images[16 + 40 * 16] = { 0, 0, 8, 3, 0, 0, 0, 40, 0, 0, 0, 4, 0, 0, 0, 4 };
    uint8_t labels[8 + 40] = { 0, 0, 8, 1, 0, 0, 0, 40 };
    char path[TEST_PATH + 80], *text;
    for (int i = 0; i < 40; i++) labels[8 + i] = (uint8_t)(i % 4);
    for (int i = 0; i < 640; i++) images[16 + i] = (uint8_t)below(256);
    test_folder(folder);
    test_shell(NULL, "mkdir '%s/m [1]*'", folder);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/m [1]*/%s-images-idx3-ubyte", folder, names[i]);
        test_write_file(path, images, sizeof images);
        snprintf(path, sizeof path, "%s/m [1]*/%s-labels-idx1-ubyte", folder, names[i]);
        test_write_file(path, labels, sizeof labels);
    }
    run(0, "n.yaml: images of IDX files", "new n.yaml --data 'm [1]*'");
    run(0, "no errors", "config validate n.yaml");
    test_shell(&text, "cat %s/n.yaml", folder);
    ck_assert_msg(strstr(text, "test: ['t10k-images-idx3-ubyte', 't10k-labels-idx1-ubyte']") !=
                      NULL,
                  "%s", text);
    free(text);
}
END_TEST

static void put_class(const char *class, unsigned chosen, bool images)
{
    static const png_make_options o = { PNG_GREY, 8, .width = 8, .height = 8 };
    static uint8_t file[PNG_MAKE_MOST];
    static const int16_t samples[64] = { 1 };
    char path[TEST_PATH + 64];
    const size_t n = png_make(&o, file); /* the first bytes decide what it is, not the name */
    file_bytes wav = wav_file(1, 8000, samples, 64);
    for (int i = 0; i < (int)(sizeof endings / sizeof endings[0]); i++) {
        if (images != (endings[i].pattern == NULL) || !(chosen >> i & 1)) continue;
        for (int k = 0; k < 3; k++) {
            snprintf(path, sizeof path, "%s/d/%s/%d.%s", folder, class, k, endings[i].ending);
            if (images) test_write_file(path, file, n);
            else test_write_file(path, wav.v, wav.n);
        }
    }
    file_free(&wav);
}

static bool is_chosen(unsigned chosen, int first, int last)
{
    return (chosen >> first & ((2U << (last - first)) - 1)) != 0;
}

START_TEST(folders_get_a_format_that_reads_them)
{
    test_folder(folder);
    for (int64_t k = 0; k < test_count(draws) / 4; k++) {
        const bool images = k % 3 != 0, train = images && below(3) != 0;
        const unsigned chosen = images ? 1U + (unsigned)below(31) : 32U << below(2);
        const char *const at = train ? "train/" : "";
        static const char *const parts[] = { "val", "valid", "validation" };
        char *text, class[40], words[40];
        test_shell(NULL, "rm -rf %s/d %s/n.yaml && mkdir -p %s/d/%sa %s/d/%sb", folder, folder,
                   folder, at, folder, at);
        for (int c = 0; c < 2; c++) {
            snprintf(class, sizeof class, "%s%c", at, "ab"[c]);
            put_class(class, chosen, images);
        }
        if (!images) test_shell(NULL, "touch %s/d/a/x.mp3", folder);
        if (train) test_shell(NULL, "cp -r %s/d/train %s/d/%s", folder, folder, parts[k % 3]);
        snprintf(words, sizeof words, "d: %s is not read", parts[k % 3]);
        run(0,
            !images ? "recordings in .mp3 are not read"
            : train ? words
                    : "folders of images",
            "new n.yaml --data d");
        test_shell(&text, "cat %s/n.yaml", folder);
        const bool png = train && !is_chosen(chosen, 2, 4);
        const char *wanted = !images ? "train: ['*/*.wav']"
                             : png   ? "format: png\n"
                                     : "format: folder\n";
        ck_assert_msg(strstr(text, wanted) != NULL, "%s", text);
        free(text);
    }
}
END_TEST

/* Recordings of drawn lengths in one folder: names tell classes and speakers, lengths a window. */
START_TEST(recordings_in_one_folder)
{
    static int16_t samples[16000];
    static const char *const speakers[] = { "anna", "bo", "cy", "dee", "eve" };
    test_folder(folder);
    for (int64_t k = 0; k < test_count(draws) / 10 + 1; k++) {
        char path[TEST_PATH + 64], separator = below(2) == 0 ? '_' : '-', *text, names[80];
        const int n = 3 + below(3); /* groups are held back whole where there are four */
        const bool alike = below(3) == 0;
        test_shell(NULL, "rm -rf %s/d %s/n.yaml && mkdir -p %s/d", folder, folder, folder);
        for (int i = 0; i < 12 * n; i++) {
            for (int t = 0; t < 16000; t++) samples[t] = (int16_t)below(2000);
            file_bytes wav = wav_file(1, 8000, samples, alike ? 8000 : 2000 + below(8000));
            snprintf(path, sizeof path, "%s/d/%s%c%s%c%d.wav", folder,
                     (const char *[]){ "yes", "no", "7" }[i % 3], separator, speakers[i / 12],
                     separator, i);
            test_write_file(path, wav.v, wav.n);
            file_free(&wav);
        }
        snprintf(names, sizeof names,
                 "names are {label}%c{group}%c{part3}.wav: 3 classes, %d "
                 "groups",
                 separator, separator, n);
        run(0, names, "new n.yaml --data d --float");
        test_shell(&text, "cat %s/n.yaml", folder);
        ck_assert_msg((strstr(text, "window: {length: ") == NULL) == alike, "%s", text);
        ck_assert_msg((strstr(text, "features: {kind: mfcc}") == NULL) == alike, "%s", text);
        ck_assert_msg((strstr(text, "split: {by: group") != NULL) == (n > 3), "%s", text);
        free(text);
        run(0, "macro f1", "train n.yaml train.epochs=1");
        test_shell(NULL, "rm -rf %s/runs %s/n.yaml", folder, folder);
        run(0, "groups", "new n.yaml --data d --float --group part2");
        test_shell(NULL, "cd %s && rm -rf n.yaml 'e [1]*' && cp -r d 'e [1]*'", folder);
        run(0, names, "new n.yaml --data 'e [1]*' --float");
        run(2, "'part9' is not a part", "new m.yaml --data d --float --group part9");
    }
    test_shell(NULL, "rm -rf %s/d/*-* %s/d/*_* %s/n.yaml && cp '%s' %s/d/0.wav", folder, folder,
               folder, "/dev/null", folder);
    run(4, "0.wav", "new n.yaml --data d");
}
END_TEST

/* A Git LFS pointer in place of a file is neither data nor a model. */
START_TEST(pointers_of_lfs_are_no_data)
{
    static const char *const names[] = { "p.csv", "p.txt",         "p.jsonl",   "p.npy",
                                         "p.npz", "p.safetensors", "d/a/0.png", "d/a/0.jpg",
                                         "m",     "q.gguf" };
    test_folder(folder);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char command[120];
        const bool columns = strstr("p.npy p.npz p.safetensors p.csv", names[i]) != NULL;
        const bool model = *names[i] == 'm' || *names[i] == 'q';
        test_shell(NULL, "rm -rf %s/d && mkdir -p %s/d/a", folder, folder);
        FILE *f = file_of(names[i]);
        fprintf(f, "version https://git-lfs.github.com/spec/v1\noid sha256:%064x\nsize %d\n",
                (unsigned)rand(), 1 + below(100000));
        fclose(f);
        if (model) snprintf(command, sizeof command, "inspect %s", names[i]);
        else {
            snprintf(command, sizeof command, "new n.yaml --data %s%s",
                     *names[i] == 'd' ? "d" : names[i], columns ? " --target p.csv" : "");
        }
        run(4, "pointer of Git LFS", command);
    }
}
END_TEST

static const char *const activities[] = { "rest", "walk", "run" };

/* g.npz as NumPy writes it: x, and y of words or numbers. */
static void draw_arrays(int rows)
{
    static float x[120 * 40 * 3];
    static uint32_t words[120][4]; /* <U4 */
    static int64_t numbers[120];
    const int steps = 1 + below(40);
    char head[120], path[TEST_PATH + 40];
    for (int i = 0; i < rows * steps * 3; i++) x[i] = (float)below(1000) / 100;
    for (int i = 0; i < rows; i++) {
        numbers[i] = i % 3;
        const char *word = activities[i % 3];
        for (int k = 0; k < 4; k++) words[i][k] = k < (int)strlen(word) ? (uint32_t)word[k] : 0;
    }
    zip_member m[] = { { .name = "x.npy" }, { .name = "words.npy" }, { .name = "numbers.npy" } };
    snprintf(head, sizeof head, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, 3), }",
             rows, steps);
    m[0].bytes = npy_file(1, head, x, (size_t)(rows * steps * 3) * sizeof *x);
    snprintf(head, sizeof head, "{'descr': '<U4', 'fortran_order': False, 'shape': (%d,), }", rows);
    m[1].bytes = npy_file(1, head, words, (size_t)rows * sizeof *words);
    snprintf(head, sizeof head, "{'descr': '<i8', 'fortran_order': False, 'shape': (%d,), }", rows);
    m[2].bytes = npy_file(1, head, numbers, (size_t)rows * sizeof *numbers);
    file_bytes zip = zip_file(m, 3, 0);
    snprintf(path, sizeof path, "%s/g.npz", folder);
    test_write_file(path, zip.v, zip.n);
    file_free(&zip);
    for (int i = 0; i < 3; i++) file_free(&m[i].bytes);
}

/* Files of the grid below, drawn anew. */
static void draw_grid(void)
{
    const int rows = 90 + below(30); /* so many of each of seven that all are categories */
    FILE *csv = file_of("g.csv"), *lines = file_of("g.jsonl"), *text = file_of("g.txt");
    FILE *chats = file_of("chat.jsonl");
    const bool listed = below(2) == 0;
    fputs("who,a,b,kind\n", csv);
    for (int i = 0; i < rows; i++) {
        fprintf(csv, "s%d,%d.%04d,%d.5,%s\n", i % 7, below(90), i, below(50), activities[i % 3]);
        fprintf(lines, "{\"prompt\": \"%d + %d\", \"completion\": \"%d\"}\n", i, i, 2 * i);
        if (listed) {
            fprintf(chats,
                    "{\"messages\": [{\"role\": \"user\", \"content\": \"%d\"}, {\"role\": "
                    "\"assistant\", \"content\": \"%d\"}]}\n",
                    i, 2 * i);
        } else {
            fprintf(chats, "{\"instruction\": \"%d\", \"output\": \"%d\"}\n", i, 2 * i);
        }
        fprintf(text, "line %d of a text that goes on\n", below(1000));
    }
    fclose(csv);
    fclose(lines);
    fclose(text);
    fclose(chats);
    draw_arrays(rows);
}

/* Kinds of data by options: every recipe trains, and its command ends with what it assumes. */
START_TEST(a_grid_of_recipes_runs)
{
    static const char *const data[] = {
        "g.csv --target kind --group who",
        "g.csv --target kind",
        "g.csv --target b",
        "g.npz:x --target g.npz:words",
        "g.npz:x --target g.npz:numbers",
        "g.jsonl",
        "chat.jsonl",
        "g.txt",
        "digits",
        "digits --task denoising",
        "sounds",
        "sensors",
        "table",
    };
    static const char *const options[] = { "--bits 2", "--bits 3", "--bits 4", "--bits 8",
                                           "--float" };
    enum { DATA = sizeof data / sizeof data[0], OPTIONS = sizeof options / sizeof options[0] };
    const int64_t tries = test_count(draws);
    const int first = below(DATA * OPTIONS);
    test_folder(folder);
    for (int64_t i = 0; i < tries; i++) {
        const int cell = (int)((first + 7 * i) % (DATA * OPTIONS));
        char command[120];
        draw_grid();
        snprintf(command, sizeof command, "new n.yaml --data %s %s", data[cell % DATA],
                 options[cell / DATA]);
        run(0, "assumed", command);
        run(0, "some updates ran", "train n.yaml --dry-run");
        test_shell(NULL, "rm %s/n.yaml", folder);
    }
}
END_TEST

/* Lines of messages are chats, which the model is asked as. */
START_TEST(chats_are_found)
{
    test_folder(folder);
    draw_grid();
    FILE *asked = file_of("asked.txt");
    fprintf(asked, "%d", below(10));
    fclose(asked);
    run(0, "messages as plain text (data.chat); answers are learned",
        "new n.yaml --data chat.jsonl");
    run(0, "converted",
        "train n.yaml train.steps=4 qat.start_step=2 train.schedule.warmup_steps=0 "
        "train.float_baseline=false train.batch_size=2 model.width=32 model.layers=1");
    run(0, "chats           plain", "inspect runs/n/model.safetensors");
    run(0, "", "sample runs/n --format --prompt 7 --max-tokens 3");
    run(0, "probability", "predict runs/n --format asked.txt");
    run(0, "loss", "eval runs/n");
    /* more of them: with the model's tokenizer and form */
    run(0, "messages as the model has them", "new more.yaml --data chat.jsonl --init runs/n");
    run(0, "converted",
        "train more.yaml train.steps=4 qat.start_step=2 train.schedule.warmup_steps=0 "
        "train.float_baseline=false train.batch_size=2");
    run(2, "runs/n is a language model, but g.csv is a table",
        "new t.yaml --data g.csv --target kind --init runs/n");
    run(4, "nowhere: cannot open", "new t.yaml --data chat.jsonl --init nowhere");
    run(0, "assumed", "new asked.yaml --data g.jsonl");
    run(0, "warning: data.system does nothing", "train asked.yaml --dry-run data.system=Hi");
    run(0, "warning: data.chat does nothing", "train asked.yaml --dry-run data.chat=plain");
}
END_TEST

/* A table, and a model that was trained on such a one. */
START_TEST(trained_models_are_trained_on)
{
    char *text;
    test_folder(folder);
    draw_grid();
    run(0, "assumed", "new n.yaml --data g.csv --target kind");
    run(0, "converted",
        "train n.yaml train.epochs=2 qat.start_step=1 train.schedule.warmup_steps=0");
    draw_grid();
    run(0, "assumed", "new more.yaml --data g.csv --target kind --init runs/n --bits 8");
    test_shell(&text, "cat %s/more.yaml", folder);
    ck_assert_ptr_nonnull(strstr(text, "init: 'runs/n'"));
    ck_assert_ptr_null(strstr(text, "family"));
    free(text);
    run(0, "of the run runs/n: runs/n/float.safetensors",
        "train more.yaml train.epochs=1 qat.start_step=1 train.schedule.warmup_steps=0");
    run(2, "--init: runs/n is no language model, but g.txt is text",
        "new t.yaml --data g.txt --init runs/n");
}
END_TEST

/* Words of an array are the classes of the C code. */
START_TEST(words_of_arrays_reach_c)
{
    char *text;
    test_folder(folder);
    draw_arrays(60 + below(60));
    run(0, "has words", "new n.yaml --data g.npz:x --target g.npz:words");
    run(0, "converted",
        "train n.yaml train.epochs=2 qat.start_step=1 train.schedule.warmup_steps=0");
    run(0, "the same bits", "export runs/n --format c -o c");
    test_shell(&text, "cat %s/c/c.c", folder);
    for (int i = 0; i < 3; i++) {
        char quoted[16];
        snprintf(quoted, sizeof quoted, "\"%s\"", activities[i]);
        ck_assert_msg(strstr(text, quoted) != NULL, "no %s", quoted);
    }
    free(text);
}
END_TEST

/* The example in the README of an export compiles, and reads what is measured: numbers, a signal, a
 * row of a table, or rows that make a window. */
static const struct {
    const char *data, *keys;
    const char *floats, *codes; /* lines for floats, and for integers alone */
} exported[] = {
    { "g.npz:x --target g.npz:words", "", "c_standardize(v, x);",
      "c_encode(v, codes); /* or c_encode_int16 */" },
    { NULL, "data.train_count=60 data.test_count=12", "c_features(samples, x, arena);",
      "`v` are the features below" },
    { "k.csv --target k", "", "c_row(row, x) != 0", "c_quantize(x, codes);" },
    { "t.csv --target does", "", "c_row(&rows[i], x + i * ", "c_encode(x, codes);" },
};

START_TEST(examples_of_exports_compile)
{
    char command[400], *text;
    const bool device = _i % 2 == 1;
    if (_i % test_count((test_draws){ 1, 3, 1 }) != 0) return;
    test_folder(folder);
    if (_i / 2 == 0) draw_arrays(60);
    if (_i / 2 == 3) { /* with holes, so that columns have types */
        write_moments(5, 40, true);
        test_shell(NULL, "cd %s && awk -F, -v OFS=, 'NR %% 50 == 7 { $3 = \"\" } 1' t.csv > h.csv",
                   folder);
        test_shell(NULL, "mv %s/h.csv %s/t.csv", folder, folder);
    }
    FILE *f = file_of("k.csv");
    fprintf(f, "town,size,k\n");
    for (int i = 0; i < 60; i++)
        fprintf(f, "%s,%d.5,%c\n", i % 7 < 3 ? "Ulm" : "Jena", i % 9, 'a' + i % 2);
    fclose(f);
    if (exported[_i / 2].data == NULL) {
        test_shell(NULL, "cp " DETENT_SOURCE_DIR "/configs/sounds-dscnn.yaml %s/n.yaml", folder);
    } else {
        snprintf(command, sizeof command, "new n.yaml --data %s", exported[_i / 2].data);
        run(0, "n.yaml", command);
    }
    snprintf(command, sizeof command,
             "train n.yaml train.epochs=1 qat.start_step=1 train.schedule.warmup_steps=0 "
             "train.float_baseline=false run.report=false run.dir=r %s%s",
             exported[_i / 2].keys, device ? " 'qat={preset: device-int8, start_step: 1}'" : "");
    run(0, "converted", command);
    run(0, "c: c of", "export r --format c -o c");
    ck_assert_int_eq(test_shell(&text,
                                "cd %s/c && awk '/^```c/ { on = 1; next } /^```/ { on = 0 } on' "
                                "README.md > use.c && ${CC:-cc} -std=c99 -Wall -Wextra -Werror -c "
                                "use.c -o use.o 2>&1 && cat README.md",
                                folder),
                     0);
    const char *line = device ? exported[_i / 2].codes : exported[_i / 2].floats;
    ck_assert_msg(strstr(text, line) != NULL, "no '%s': %s", line, text);
    free(text);
}
END_TEST

START_TEST(eight_bits_are_a_preset)
{
    char *text;
    test_folder(folder);
    run(0, "n.yaml", "new n.yaml --data table --bits 8");
    test_shell(&text, "cat %s/n.yaml", folder);
    ck_assert_ptr_nonnull(strstr(text, "preset: int8-dynamic-int8-weight"));
    ck_assert_ptr_null(strstr(text, "weight: {bits"));
    free(text);
}
END_TEST

/* ---- keys that a command reads -------------------------------------------------------------- */

/* Lines of a recipe's blocks that are wrong for the data, or invalid, and that only train reads. */
static const char *const wrong[] = {
    "loss: of_a_program",
    "mask: all",
    "sampler: balanced\n  class_weights: balanced",
    "steps: 5\n  schedule: {warmup_steps: 9}",
    "optimizer: {momentum: 0.5}",
    "schedule: {patience: 3}",
    "distill: {weight: 0.5}",
    "huber_delta: 2",
    "no_such_key: 1",
    "batch_sizes: [1, 2]",
};
enum { WRONG = sizeof wrong / sizeof wrong[0] };

static void write_recipe(const char *name, const char *train, bool augmented)
{
    FILE *f = file_of(name);
    fprintf(f,
            "run: {dir: runs/r}\nmodel: {family: mlp, sizes: [12, 8, 2]}\n"
            "data: {format: table, task: regression, train_count: 200, test_count: 50%s}\n"
            "train:\n  epochs: 1\n%s%s\nqat: {preset: int8-dynamic-int4-weight, start_step: 1}\n",
            augmented ? ", augment: {flip: true, crop: 3}" : "", train[0] == 0 ? "" : "  ", train);
    fclose(f);
}

START_TEST(commands_judge_what_they_read)
{
    static const char *const commands[] = {
        "eval runs/r/model.safetensors r.yaml",
        "eval runs/r",
        "predict runs/r rows.csv",
        "inspect runs/r",
        "export runs/r --format onnx -o e.onnx",
        "convert runs/r -o c.safetensors",
        "quantize runs/r/float.safetensors r.yaml -o q.safetensors quantize.rounder=gptq",
        "report runs/r",
    };
    enum { COMMANDS = sizeof commands / sizeof commands[0] };
    const int first = below(COMMANDS);
    test_folder(folder);
    FILE *f = file_of("rows.csv");
    fputs("a,b,c,d,e,f,g,h,i,j,k,l\n1,2,3,4,5,6,7,8,9,10,11,12\n", f);
    fclose(f);
    write_recipe("good.yaml", "", false);
    run(0, "converted", "train good.yaml");
    for (int i = 0; i < WRONG; i++) {
        write_recipe("r.yaml", wrong[i], i % 2 == 0);
        test_shell(NULL, "cp %s/r.yaml %s/runs/r/recipe.yaml", folder, folder);
        run(2, "r.yaml:", "config validate r.yaml");
        for (int k = 0; k < 3; k++) run(0, "", commands[(first + 3 * i + k) % COMMANDS]);
        test_shell(NULL, "rm -f %s/?.safetensors %s/e.onnx", folder, folder);
    }
    run(2, "unknown key 'mosk'", "eval runs/r train.mosk=all");
    run(2, "'train.mask' belongs to", "eval runs/r train.mask=all");
    run(2, "unknown key 'tain_count'", "eval runs/r data.tain_count=7");
}
END_TEST

/* A run's folder can be given in place of its weights. */
START_TEST(a_run_is_retrained)
{
    test_folder(folder);
    write_recipe("good.yaml", "", false);
    run(0, "converted", "train good.yaml");
    run(0, "of the run runs/r: runs/r/float.safetensors",
        "train good.yaml model.init=runs/r run.dir=runs/again");
    test_shell(NULL, "rm %s/runs/r/float.safetensors", folder);
    run(0, "of the run runs/r: runs/r/checkpoints/",
        "config validate good.yaml model.init=runs/r run.dir=runs/third");
}
END_TEST

/* The last line of each phase shows where it ended. */
START_TEST(phases_end_with_a_whole_line)
{
    char end[40], command[80];
    const int start = 2 + below(4);
    test_folder(folder);
    write_recipe("good.yaml", "", false);
    snprintf(end, sizeof end, "float %d/", start);
    snprintf(command, sizeof command, "train good.yaml train.epochs=3 qat.start_step=%d", start);
    run(0, end, command);
    char *output; /* on a terminal, too, the line that is left says nothing of what was done last */
    test_shell(&output,
               "cd %s && rm -rf good && COLUMNS=100 script -qec '" DETENT
               "%s data.validation=0.2 run.dir=seen' /dev/null | tr '\\r' '\\n'",
               folder, command);
    const char *last = output;
    for (const char *at = output; (at = strstr(at, end)) != NULL; at++) last = at;
    const char *doing = strstr(last, "evaluating");
    ck_assert_msg(last > output && (doing == NULL || doing > strchr(last, '\n')), "%s", output);
    free(output);
}
END_TEST

/* ---- the environment ------------------------------------------------------------------------ */

START_TEST(wrong_variables_are_named)
{
    char *output;
    test_folder(folder);
    static const char *const tries[][2] = {
        { "DETENT_CPU=avx3", "it can be plain, avx2" },
        { "DETENT_BLAS=mkl", "it can be system" },
        { "OMP_NUM_THREADS=many", "it can be a number" },
    };
    static const char *const commands[] = { "config show r.yaml --summary", "inspect r.yaml",
                                            "ls --json; exit 1", "train r.yaml --dry-run" };
    write_recipe("r.yaml", "", false);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 4; k++) {
            const int status = test_shell(&output, "cd %s && %s " DETENT "%s 2>&1", folder,
                                          tries[i][0], commands[k]);
            ck_assert_int_ne(status, 0);
            const bool is_list = k == 2; /* which needs no kernels */
            ck_assert_msg(is_list || strstr(output, tries[i][1]) != NULL, "%s", output);
            ck_assert_ptr_null(strstr(output, "out of memory"));
            free(output);
        }
    }
}
END_TEST

/* A stack that may be too small is refused at the start; the least one suffices. */
START_TEST(small_stacks_are_refused)
{
#ifdef TEST_SANITIZED
    test_skip("the least stack: a sanitizer needs more");
#else
    char *output;
    test_folder(folder);
    write_recipe("r.yaml", "", false);
    for (int i = 0; i < 4; i++) {
        const int status =
            test_shell(&output, "cd %s && ulimit -s %d && " DETENT "train r.yaml 2>&1", folder,
                       96 + below(400));
        ck_assert_int_eq(status, 1);
        ck_assert_msg(strstr(output, "the stack is limited to") != NULL, "%s", output);
        free(output);
    }
    ck_assert_int_eq(test_shell(NULL,
                                "cd %s && ulimit -s 512 && " DETENT "train r.yaml --quiet >&2 && "
                                "" DETENT "quantize runs/r/float.safetensors -o q.safetensors "
                                "r.yaml quantize.rounder=gptq >&2",
                                folder),
                     0);
#endif
}
END_TEST

static const unsigned hidden[] = { 0x07,   0x1B,   0x7F,   0x80,   0x9B,   0x9F,
                                   0x61C,  0x200E, 0x200F, 0x2028, 0x2029, 0x202A,
                                   0x202E, 0x2066, 0x2069, 0xFEFF, 0xE0001 };
enum { HIDDEN = sizeof hidden / sizeof hidden[0] };

/* No page, source, table or line contains a character of a class's name that would have an effect
 * there. */
START_TEST(names_are_shown_and_not_obeyed)
{
    static const char *const shown[] = {
        "new n.yaml --data d",
        "train n.yaml train.epochs=1 run.dir=r '~qat' '~convert' train.float_baseline=false",
        "predict r d/train/*/0.png",
        "predict r --json d/train/*/0.png",
        "export r --format c -o x",
        "compare r r",
        "inspect r",
    };
    char class[64], path[TEST_PATH + 80], *all, text[DT__UTF8_BYTES + 1];
    test_folder(folder);
    test_shell(NULL, "mkdir -p %s/d/train", folder);
    for (int c = 0; c < HIDDEN; c++) {
        text[dt__utf8_put(hidden[c], text)] = 0;
        snprintf(class, sizeof class, "train/%c%s%c", 'a' + below(26), text, 'a' + below(26));
        snprintf(path, sizeof path, "%s/d/%s", folder, class);
        ck_assert_int_eq(mkdir(path, 0777), 0);
        put_class(class, 1, true);
    }
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        test_shell(NULL, "cd %s && " DETENT "%s </dev/null >>all 2>&1", folder, shown[i]);
    }
    test_shell(&all, "cd %s && cat all r/report.html x/README.md x/x.c x/x.h", folder);
    ck_assert_ptr_nonnull(strstr(all, "\\u202e"));
    ck_assert_ptr_nonnull(strstr(all, "x_class_name"));
    ck_assert_ptr_nonnull(strstr(all, "</html>"));
    for (int c = 0; c < HIDDEN; c++) {
        text[dt__utf8_put(hidden[c], text)] = 0;
        const char *at = strstr(all, text);
        ck_assert_msg(at == NULL, "U+%04X: %.60s", hidden[c], at == NULL ? "" : at);
    }
    free(all);
}
END_TEST

/* JSON has no character that a terminal interprets or hides, and parses to the same text. */
START_TEST(json_shows_every_character)
{
    char out[DT_TEXT_JSON];
    for (int i = 0; i < HIDDEN; i++) {
        const unsigned c = hidden[i];
        char text[5] = { 0 }, wanted[DT_TEXT_JSON];
        size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        static const unsigned char head[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
        for (size_t k = n; k-- > 0;) {
            const unsigned bits = c >> 6 * (n - 1 - k);
            text[k] = (char)(n == 1 ? c : k == 0 ? head[n] | bits : 0x80 | (bits & 0x3F));
        }
        if (c < 0x10000) snprintf(wanted, sizeof wanted, "\\u%04x", c);
        else snprintf(wanted, sizeof wanted, "\\udb40\\udc01");
        ck_assert_uint_eq(dt_text_json(text, n, out), n);
        ck_assert_str_eq(out, wanted);
    }
    for (int c = 0x80; c < 0x100; c++) { /* bytes that are no UTF-8 */
        const char text[] = { (char)c, 'a', 0 };
        ck_assert_uint_eq(dt_text_json(text, 2, out), 1);
        ck_assert_str_eq(out, "\\ufffd");
    }
    static const char *const shown[] = { "a", "~", "\xc3\xa9", "\xe6\xb0\xb4", "\xf0\x9f\x98\x80" };
    for (int i = 0; i < 5; i++) {
        ck_assert_uint_eq(dt_text_json(shown[i], strlen(shown[i]), out), strlen(shown[i]));
        ck_assert_str_eq(out, shown[i]);
    }
    ck_assert_uint_eq(dt_text_json("\"", 1, out), 1);
    ck_assert_str_eq(out, "\\\"");
    ck_assert_uint_eq(dt_text_json("", 0, out), 0);
}
END_TEST

Suite *test_new_suite(void)
{
    Suite *suite = suite_create("new");
    TCase *cases = tcase_create("new");
    tcase_set_timeout(cases, 300);
    tcase_add_test(cases, tables_get_recipes_that_run);
    tcase_add_test(cases, classes_that_are_one_hot);
    tcase_add_test(cases, marks_among_numbers);
    tcase_add_test(cases, other_paths_are_described);
    tcase_add_test(cases, columns_that_are_no_inputs);
    tcase_add_test(cases, mistakes_in_texts_are_told);
    tcase_add_test(cases, moments_get_windows);
    tcase_add_test(cases, groups_of_tables);
    tcase_add_test(cases, texts_get_a_context_that_fits);
    tcase_add_test(cases, idx_files_are_found);
    tcase_add_test(cases, folders_get_a_format_that_reads_them);
    tcase_add_test(cases, recordings_in_one_folder);
    tcase_add_test(cases, pointers_of_lfs_are_no_data);
    tcase_add_test(cases, a_grid_of_recipes_runs);
    tcase_add_test(cases, chats_are_found);
    tcase_add_test(cases, trained_models_are_trained_on);
    tcase_add_test(cases, words_of_arrays_reach_c);
    tcase_add_loop_test(cases, examples_of_exports_compile, 0, 2 * 4);
    tcase_add_test(cases, eight_bits_are_a_preset);
    tcase_add_test(cases, commands_judge_what_they_read);
    tcase_add_test(cases, a_run_is_retrained);
    tcase_add_test(cases, phases_end_with_a_whole_line);
    tcase_add_test(cases, wrong_variables_are_named);
    tcase_add_test(cases, small_stacks_are_refused);
    tcase_add_test(cases, names_are_shown_and_not_obeyed);
    tcase_add_test(cases, json_shows_every_character);
    suite_add_tcase(suite, cases);
    return suite;
}
