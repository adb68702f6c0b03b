/* The program's `train`: its exit statuses, its output, signals, a full disk. */
#include "testing.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' "
#define MOST_COMMAND 4096

/* Nine updates; prepared at the fourth. */
static const char recipe[] = "run: {dir: run, seed: 1}\n"
                             "model: {family: mlp, sizes: [784, 16, 10]}\n"
                             "data: {format: digits, train_count: 90, test_count: 40}\n"
                             "train: {epochs: 3, batch_size: 32, log: {every_steps: 1}}\n"
                             "qat:\n"
                             "  start_step: 4\n";

/* A folder with r.yaml in it. */
static void begin(char folder[TEST_PATH])
{
    char path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "r.yaml");
    test_write_text(path, recipe);
}

/* Runs a shell command in the folder; both streams come together. */
static int shell_in(const char *folder, char **output, const char *command)
{
    return test_shell(output, "cd '%s' && { %s; } 2>&1", folder, command);
}

static void expect(const char *folder, const char *command, int status, const char *words)
{
    char *output = NULL;
    const int found = shell_in(folder, &output, command);
    ck_assert_msg(found == status, "%s: %d: %s", command, found, output);
    ck_assert_msg(strstr(output, words) != NULL, "%s: %s", command, output);
    free(output);
}

START_TEST(a_run_prints_its_table)
{
    char folder[TEST_PATH], *output = NULL;
    begin(folder);
    ck_assert_int_eq(test_shell(&output, "cd %s && " DETENT "train r.yaml 2>err", folder), 0);
    const char *const words[] = { "float, at step ", "ptq, at step ",          "qat ",
                                  "converted ",      "same_bits_as_qat: true", "files in run" };
    for (int i = 0; i < 6; i++) ck_assert_msg(strstr(output, words[i]) != NULL, "%s", output);
    free(output);
    expect(folder, "cat err", 0, "qat 9/9  loss ");
    expect(folder, "cat run/recipe.yaml", 0, "# r.yaml:");
    expect(folder, DETENT "config validate run/recipe.yaml", 0, "no errors");
    expect(folder, DETENT "check run/model.safetensors", 0, "");
    expect(folder, DETENT "check run/float.safetensors", 0, "");
    expect(folder, DETENT "check run/checkpoints/*.safetensors", 0, "");
    expect(folder, DETENT "eval run/model.safetensors", 0, "");
}
END_TEST

/* Without a result there is no row; learned scales are no weights. */
START_TEST(tables_have_what_there_is)
{
    char folder[TEST_PATH], *output = NULL;
    begin(folder);
    ck_assert_int_eq(
        test_shell(&output, "cd %s && " DETENT "train r.yaml '~qat' run.dir=f --quiet", folder), 0);
    ck_assert_msg(strstr(output, "float ") != NULL && strstr(output, "qat") == NULL, "%s", output);
    free(output);
    expect(folder, DETENT "train r.yaml run.dir=l --quiet qat.weight.range=learned", 0, " 32.00\n");
}
END_TEST

START_TEST(results_come_as_json)
{
    char folder[TEST_PATH], *output = NULL;
    begin(folder);
    ck_assert_int_eq(
        test_shell(&output, "cd %s && " DETENT "train r.yaml --json --quiet 2>err", folder), 0);
    json_t *root = json_loads(output, 0, NULL);
    ck_assert_msg(root != NULL, "%s", output);
    const json_t *converted = json_object_get(root, "converted");
    ck_assert(json_is_true(json_object_get(converted, "same_bits_as_qat")));
    json_decref(root);
    free(output);
    expect(folder, "test ! -s err && cat run/summary.json", 0, "\"converted\": {");
    expect(folder, DETENT "train r.yaml run.dir=other > /dev/full", 1, "standard output");
}
END_TEST

START_TEST(a_dry_run_shows_the_model)
{
    char folder[TEST_PATH];
    begin(folder);
    expect(folder, DETENT "train r.yaml --dry-run", 0, "parameters ");
    expect(folder, DETENT "train r.yaml --dry-run --json", 0, "{\"parameters\": 12730, ");
    expect(folder, "ls", 0, "r.yaml\n");
    expect(folder, "ls | wc -l", 0, "1\n");
    expect(folder, "mkdir run && " DETENT "train r.yaml --dry-run 2>&1", 0,
           "an error: 'run' exists; --resume goes on with it");
    expect(folder, "rmdir run", 0, "");
}
END_TEST

typedef struct status_case {
    const char *command; /* behind "detent train" */
    int status;
    const char *words;
} status_case;

static const status_case status_cases[] = {
    { "", 2, "usage: detent train RECIPE" },
    { "r.yaml --resum", 2, "did you mean '--resume'?" },
    { "r.yaml --resume --dry-run", 2, "exclude each other" },
    { "nowhere.yaml", 4, "nowhere.yaml: cannot open: No such file" },
    { ".", 2, "'.' is a folder, and not of a run; expected a recipe" },
    { ". --resume", 4, "has no run to resume" },
    { "r.yaml --resume", 2, "has no run to resume" },
    { "r.yaml train.epoch=3", 2, "did you mean 'epochs'?" },
    { "r.yaml model.sizes=[400,10]", 2, "784 would fit" },
    { "r.yaml 'qat.rules=[{match: tail, skip: true}]'", 2, "command line: error: " },
    { "tail.yaml", 2, "tail.yaml:7:19: error: " },
    { "r.yaml run.dir=full", 2, "command line: error: 'full' exists" },
    { "r.yaml run.dir=/proc/nowhere/run", 1, "/proc/nowhere" },
    { "r.yaml model.init=none.safetensors", 2, "no such file" },
    { "r.yaml model.init=r.yaml", 4, "r.yaml" },
    { "r.yaml model.init=other.safetensors", 4, "other.safetensors" },
    { "idx.yaml", 2, "no such file" },
    { "bad.yaml", 4, "r.yaml" },
    { "r.yaml 'train.optimizer={name: sgd, lr: 1e30}' train.schedule.name=constant", 3,
      "is not finite" },
};

/* Every error in one folder; none of them creates or changes a run. */
START_TEST(mistakes_have_exit_statuses)
{
    const status_case *c = &status_cases[_i];
    char folder[TEST_PATH], command[MOST_COMMAND], path[TEST_PATH];
    begin(folder);
    test_join(path, folder, "tail.yaml");
    char text[sizeof recipe + 64];
    snprintf(text, sizeof text, "%s  rules: [{match: tail, skip: true}]\n", recipe);
    test_write_text(path, text);
    const char *const prepare =
        "mkdir full; sed 's/^data:.*/data: {format: idx, train: [a, b]}/' r.yaml > idx.yaml; "
        "sed 's/^data:.*/data: {format: idx, train: [r.yaml, r.yaml]}/' r.yaml > bad.yaml";
    ck_assert_int_eq(shell_in(folder, NULL, prepare), 0);
    if (strstr(c->command, "other.safetensors") != NULL) {
        expect(folder,
               DETENT "train r.yaml run.dir=o model.sizes='[784, 8, 10]' --quiet && "
                      "mv o/float.safetensors other.safetensors && rm -r o",
               0, "");
    }
    snprintf(command, sizeof command, DETENT "train %s", c->command);
    expect(folder, command, c->status, c->words);
    if (c->status != 3) expect(folder, "ls -A full | wc -l; ls -d run 2>/dev/null; true", 0, "0\n");
    if (c->status != 3) expect(folder, "test ! -e run", 0, "");
}
END_TEST

START_TEST(a_signal_saves_and_stops)
{
    static const char *const signals[] = { "INT", "TERM" };
    char folder[TEST_PATH], command[MOST_COMMAND];
    begin(folder);
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command,
                 "n=$(cat run/metrics.jsonl 2>/dev/null | wc -l); " DETENT
                 "train r.yaml train.epochs=100000 %s & pid=$!; "
                 "until [ $(cat run/metrics.jsonl 2>/dev/null | wc -l) -gt $n ]; do sleep 0.02; "
                 "done; " DETENT "train run --resume > second 2>&1; echo $? >> second; "
                 "kill -%s $pid; wait $pid",
                 i == 0 ? "" : "--resume", signals[i]);
        expect(folder, command, 130, "a checkpoint was saved");
        expect(folder, "cat second", 0,
               "another process trains in 'run'; wait for its end, or give another run.dir\n1\n");
        expect(folder, "ls run/checkpoints | wc -l", 0, i == 0 ? "1\n" : "2\n");
    }
    expect(folder, "ls run | tr '\n' ' '", 0,
           "checkpoints float.safetensors layers-begin.json metrics.jsonl recipe.yaml ");
    expect(folder, DETENT "train run --resume train.optimizer.lr=1", 2,
           "'train.optimizer.lr' differs");
}
END_TEST

/* KILL cannot be handled; the run resumes from the files that exist. */
START_TEST(a_killed_run_resumes)
{
    char folder[TEST_PATH];
    begin(folder);
    const char *const prepare = "sed -i 's/epochs: 3/epochs: 60, checkpoint: {every_steps: 7}/' "
                                "r.yaml && " DETENT "train r.yaml run.dir=straight --quiet";
    expect(folder, prepare, 0, "same_bits_as_qat: true");
    expect(folder,
           DETENT "train r.yaml --quiet & pid=$!; "
                  "until [ $(cat run/metrics.jsonl 2>/dev/null | wc -l) -gt 30 ]; do :; done; "
                  "kill -KILL $pid; wait $pid; " DETENT "train run --resume --quiet",
           0, "same_bits_as_qat: true");
    expect(folder, "cmp run/model.safetensors straight/model.safetensors", 0, "");
    expect(folder, "cmp run/float.safetensors straight/float.safetensors", 0, "");
    expect(folder,
           "for r in run straight; do sed 's/, \"samples_per_s.*//' $r/metrics.jsonl > $r.m; "
           "done; cmp run.m straight.m",
           0, "");
}
END_TEST

/* The shell's limit simulates a full disk: a write fails, existing files stay, and the run resumes
 * from its checkpoint once there is room. */
START_TEST(a_full_disk_ends_the_run)
{
    char folder[TEST_PATH];
    begin(folder);
    expect(folder, DETENT "train r.yaml run.dir=straight --quiet", 0, "");
    expect(folder, "ulimit -S -f 16; " DETENT "train r.yaml --quiet", 1, "cannot write");
    expect(folder, "ls run/checkpoints 2>/dev/null | wc -l", 0, "0\n");
    expect(folder, DETENT "train run --resume --quiet", 0, "same_bits_as_qat: true");
    expect(folder, "cmp run/model.safetensors straight/model.safetensors", 0, "");
    expect(folder,
           "rm run/metrics.jsonl; ln -s /dev/full run/metrics.jsonl; " DETENT "train run --resume",
           1, "it is not a regular file");
    expect(folder, "cmp run/model.safetensors straight/model.safetensors", 0, "");
}
END_TEST

Suite *test_train_suite(void)
{
    Suite *suite = suite_create("train");
    TCase *all = tcase_create("train");
    tcase_set_timeout(all, 120);
    tcase_add_test(all, a_run_prints_its_table);
    tcase_add_test(all, tables_have_what_there_is);
    tcase_add_test(all, results_come_as_json);
    tcase_add_test(all, a_dry_run_shows_the_model);
    tcase_add_loop_test(all, mistakes_have_exit_statuses, 0,
                        (int)(sizeof status_cases / sizeof status_cases[0]));
    tcase_add_test(all, a_signal_saves_and_stops);
    tcase_add_test(all, a_killed_run_resumes);
    tcase_add_test(all, a_full_disk_ends_the_run);
    suite_add_tcase(suite, all);
    return suite;
}
