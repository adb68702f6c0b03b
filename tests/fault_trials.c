/* Commands in one prepared folder, and what they may leave in it if they do not finish. */
#include "fault_trials.h"

#include <stdio.h>
#include <stdlib.h>

static const char recipe[] =
    "run: {dir: run, seed: 1, threads: 2, report: false}\n"
    "model:\n"
    "  family: layers\n"
    "  input: [12]\n"
    "  layers:\n"
    "    - {linear: l1, out: 8, norm: batch, activation: relu}\n"
    "    - {linear: head, out: 4}\n"
    "data: {format: table, train_count: 64, test_count: 32, validation: 0.25}\n"
    "train: {epochs: 2, batch_size: 16, log: {every_steps: 1}, checkpoint: {every_steps: 2, keep: "
    "9}, optimizer: {name: adamw, lr: 1e-3}}\n"
    "qat: {preset: int8-dynamic-int4-weight, start_step: 3}\n";

static const char of_rows[] =
    "run: {dir: of-rows, seed: 1, threads: 2}\n"
    "model: {family: mlp, sizes: [2, 4, 2]}\n"
    "data: {format: tensors, train: {x: rows.csv}, columns: {inputs: [a, b], target: kind}, "
    "validation: 0.25}\n"
    "train: {epochs: 1, batch_size: 8, float_baseline: true, checkpoint: {every_steps: 1, keep: "
    "9}}\n"
    "qat: {preset: int8-dynamic-int4-weight, start_step: 1}\n";

static const char prepare[] =
    "cd '%s' && PATH='" DETENT_BINARY_DIR "':$PATH && "
    "awk 'BEGIN { print \"a,b,kind\"; for (i = 0; i < 24; i++) "
    "print i %% 7 \",\" i %% 5 / 4 \",\" (i %% 7 > 3 ? \"x\" : \"y\") }' > rows.csv && "
    "printf 'a text of some letters, again and again\\n' > text.txt && "
    "cp '" DETENT_SOURCE_DIR "/tests/onnx/cnn.onnx' . && "
    "cp -r '" DETENT_SOURCE_DIR "/tests/golden/hf/tiny' llama && "
    "detent train r.yaml --quiet && detent train r.yaml run.dir=half --quiet && "
    "rm half/model.safetensors half/summary.json half/checkpoints/*6.safetensors && "
    "detent train rows.yaml run.dir=of-two run.report=false --quiet && "
    "detent train r.yaml run.dir=adapted 'adapters={rank: 2}' '~qat' --quiet && "
    "printf 'an older file' > old.st";

/* ---- the folder ------------------------------------------------------------------------------ */

char fault_folder[TEST_PATH];
static tree before;

void fault_folder_make(void)
{
    char path[TEST_PATH], *said;
    test_folder(fault_folder);
    test_join(path, fault_folder, "r.yaml");
    test_write_text(path, recipe);
    test_join(path, fault_folder, "rows.yaml");
    test_write_text(path, of_rows);
    const int status = test_shell(&said, prepare, fault_folder);
    if (status != 0) printf("no folder: %d: %s\n", status, said);
    free(said);
    tree_read(&before, fault_folder);
}

void fault_folder_keep(void)
{
    tree_free(&before);
    tree_read(&before, fault_folder);
}

void fault_folder_free(void) { tree_free(&before); }

static void make_again(const tree *t)
{
    tree now;
    tree_read(&now, fault_folder);
    tree_restore(t, &now, fault_folder);
    tree_free(&now);
}

void fault_folder_reset(void) { make_again(&before); }

void fault_restore(const fault_trial *t) { make_again(&t->start); }

void fault_trial_begin(fault_trial *t, const fault_command *c)
{
    *t = (fault_trial){ .c = c, .what = "" };
    t->clean = (fault_run){ .folder = fault_folder, .arguments = c->arguments };
    fault_folder_reset(); /* as the test before left it */
    tree_read(&t->start, fault_folder);
    fault_run_program(&t->clean);
    ck_assert_msg(t->clean.status == 0, "detent %s: %d: %s", c->arguments, t->clean.status,
                  t->clean.said);
    tree_read(&t->after, fault_folder);
    fault_restore(t);
}

void fault_trial_end(fault_trial *t)
{
    ck_assert_msg(t->wrong == 0, "detent %s: %d complaints above", t->c->arguments, t->wrong);
    tree_free(&t->start);
    tree_free(&t->after);
}

/* ---- what is allowed ------------------------------------------------------------------------- */

void fault_complain(fault_trial *t, const char *what, const char *which)
{
    if (++t->wrong > 10) return;
    printf("detent %s: %s: %s%s; status %d: %.300s\n", t->c->arguments, t->what, what, which,
           t->run.status, t->run.said);
}

bool fault_ends_in(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* machine.json contains the number of calls of a run, their time and memory, so it only has to be
 * complete. */
static bool is_same(const tree_file *a, const tree_file *b)
{
    if (strcmp(a->path, b->path) != 0) return false;
    if (!fault_ends_in(a->path, "/machine.json")) return tree_same_file(a, b);
    return fault_ends_in(a->bytes, "}\n") && fault_ends_in(b->bytes, "}\n");
}

/* metrics.jsonl grows line by line: its content must be a prefix of the final content. */
static bool is_begin(const tree_file *now, const tree_file *whole)
{
    tree_file cut = *whole;
    if (!fault_ends_in(now->path, "metrics.jsonl")) return false;
    for (cut.size = 0; cut.size <= whole->size; cut.size++) {
        if (tree_same_file(now, &cut)) return true;
    }
    return false;
}

static bool is_temporary(const char *path)
{
    return strstr(path, ".detent-") != NULL || strstr(path, ".tmp-") != NULL;
}

static bool is_allowed(const fault_trial *t, const tree_file *f, bool killed)
{
    const tree_file *old = tree_find(&t->start, f->path), *new = tree_find(&t->after, f->path);
    if (old != NULL && is_same(f, old)) return true;
    if (new != NULL && (is_same(f, new) || is_begin(f, new))) return true;
    if (t->run.status != 0 && fault_ends_in(f->path, ".partial")) return true; /* to resume from */
    return killed && is_temporary(f->path);
}

void fault_check_files(fault_trial *t, const tree *now, bool killed)
{
    for (int64_t i = 0; i < now->n; i++) {
        const tree_file *f = &now->file[i];
        if (is_allowed(t, f, killed)) continue;
        const bool known =
            tree_find(&t->start, f->path) != NULL || tree_find(&t->after, f->path) != NULL;
        fault_complain(t, known ? "it damages " : "it leaves ", f->path);
    }
    for (int64_t i = 0; i < t->start.n; i++) {
        const char *path = t->start.file[i].path;
        if (tree_find(now, path) == NULL && tree_find(&t->after, path) != NULL) {
            fault_complain(t, "it lost ", path);
        }
    }
}

bool fault_is_done(const fault_trial *t, const tree *now)
{
    bool same = now->n == t->after.n;
    for (int64_t i = 0; i < now->n && same; i++) {
        same = is_same(&now->file[i], &t->after.file[i]);
    }
    return same;
}

bool fault_is_untouched(const fault_trial *t, const tree *now)
{
    bool same = now->n == t->start.n;
    for (int64_t i = 0; i < now->n && same; i++) {
        const tree_file *a = &now->file[i], *b = &t->start.file[i];
        same = strcmp(a->path, b->path) == 0 && a->size == b->size &&
               memcmp(a->bytes, b->bytes, a->size) == 0;
    }
    return same;
}

void fault_check_done(fault_trial *t, const tree *now, const char *when)
{
    char text[512];
    for (int64_t i = 0; i < t->after.n; i++) {
        const tree_file *f = tree_find(now, t->after.file[i].path);
        if (f != NULL && is_same(f, &t->after.file[i])) continue;
        snprintf(text, sizeof text, "%s %s", f == NULL ? "lacks" : "differs in",
                 t->after.file[i].path);
        fault_complain(t, when, text);
    }
    for (int64_t i = 0; i < now->n; i++) {
        const char *path = now->file[i].path;
        if (tree_find(&t->after, path) == NULL) fault_complain(t, when, "has more files");
    }
}

void fault_go_on(fault_trial *t)
{
    fault_run again = { .folder = fault_folder, .arguments = t->c->arguments };
    char path[TEST_PATH];
    tree now;
    if (t->c->run != NULL) {
        test_join(path, fault_folder, t->c->run);
        if (test_file_exists(path)) again.arguments = t->c->resume;
    }
    fault_run_program(&again);
    if (again.status != 0) {
        fault_complain(t, "it does not go on: ", again.said);
        return;
    }
    tree_read(&now, fault_folder);
    fault_check_done(t, &now, "when it went on it ");
    tree_free(&now);
}
