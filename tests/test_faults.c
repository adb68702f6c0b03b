/* System faults while commands of the program run: the n-th open, read, write, fsync, rename,
 * close, mmap, mkdir, ftruncate or allocation fails, among all calls of the program and its
 * libraries (tests/shim/faults.c), once or from then on. After each fault
 *
 *   - the exit status is that of docs/run.md, with a message; interruptions and short counts are
 *     no errors;
 *   - every file has the bytes that it had before, or those of a run without a fault: none is
 *     damaged, partial, or left over;
 *   - the same command, or the run's resumption, then gives the bits of a run without a fault.
 *
 * Excluded are commands that load OpenBLAS or oneDNN, which end the process when an allocation of
 * theirs fails (one throws C++ exceptions that nothing can catch, the other does not check), and
 * reading of directories once they are open. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "fault_trials.h"

#include "core/core.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static const fault_command commands[] = {
    { "train r.yaml run.dir=new --quiet", "new", "train r.yaml run.dir=new --resume --quiet",
      false },
    { .arguments = "train half --resume --quiet" },
    { "train rows.yaml --quiet", "of-rows", "train rows.yaml --resume --quiet", false },
    { .arguments = "train r.yaml --dry-run --json" }, /* which says times */
    { .arguments = "quantize llama/model.safetensors -o old.st" },
    { .arguments = "quantize run/float.safetensors -o old.st" },
    { "convert run/checkpoints/step-0000000006.safetensors -o old.st --json", .says_it = true },
    { .arguments = "eval run --outputs old.st" },
    { "export run --format c -o c", .says_it = true },
    { "export run --format onnx -o old.st --verify", .says_it = true },
    { "export llama --format hf -o hf", .says_it = true },
    { "export llama --format gguf --type f16 -o old.st", .says_it = true },
    { "merge adapted/float.safetensors -o old.st", .says_it = true },
    { "import cnn.onnx -o old.st", .says_it = true },
    { "inspect run --json", .says_it = true },
    { "check run", .says_it = true },
    { "config show r.yaml", .says_it = true },
    { "config validate rows.yaml", .says_it = true },
    { "tokenize text.txt -o old.st --tokenizer chars --save-tokenizer chars.json",
      .says_it = true },
    { .arguments = "sample llama --prompt-ids 1,2,3 --print-ids --temperature 0 --max-tokens 3" },
    { "predict of-two rows.csv --columns a,b --json", .says_it = true },
    { .arguments = "report run" },
    { .arguments = "compare run half" },
    { "new own.yaml --data rows.csv --target kind", .says_it = true },
};

typedef struct totals {
    _Atomic int64_t faults[FAULT_KINDS]; /* injected */
    _Atomic int64_t ended[FAULT_KINDS];  /* after which the program failed */
    _Atomic int64_t went_on;             /* from a folder that had changed */
} totals;

static totals *all;

/* Once for all tests. */
static void setup(void)
{
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) abort();
    fault_folder_make();
}

static void teardown(void)
{
    int64_t io = 0, failed = 0;
    printf("faults:");
    for (int k = 0; k < FAULT_KINDS; k++) {
        const bool memory = strcmp(fault_kinds[k], "memory") == 0;
        if (!memory) io += all->faults[k];
        failed += all->ended[k];
        printf("%s %lld of %s", k == 0 ? "" : ",", (long long)all->faults[k], fault_kinds[k]);
    }
    printf(": %lld I/O faults, %lld failed allocations; the program ended with an error after %lld "
           "of them, and went on from %lld folders that had changed\n",
           (long long)io, (long long)all->faults[FAULT_KINDS - 1], (long long)failed,
           (long long)all->went_on);
    fault_folder_free();
}

/* ---- trials ---------------------------------------------------------------------------------- */

/* Errors of the machine end with 1, and a message. Interruptions and short counts are no errors. */
static void check_status(fault_trial *t)
{
    const fault_run *r = &t->run;
    const bool harmless = r->fault.error == EINTR || r->fault.error == FAULT_SHORT;
    if (r->status == 0) {
        if (t->c->says_it && strcmp(r->said, t->clean.said) != 0) {
            fault_complain(t, "other words", "");
        }
        return;
    }
    if (harmless) fault_complain(t, "this is not an error", "");
    if (r->status != 1) fault_complain(t, "another status than 1", "");
    if (strstr(r->said, "detent") == NULL && strstr(r->said, "error") == NULL) {
        fault_complain(t, "no message", "");
    }
}

/* From a changed folder; from an unchanged one the command would do what t->clean did. */
static void go_on(fault_trial *t)
{
    all->went_on++;
    fault_go_on(t);
}

static void try_fault(fault_trial *t, int kind, const fault *f)
{
    char what[64];
    tree now;
    snprintf(what, sizeof what, "%s %lld, error %d, %s", f->kind, (long long)f->at, f->error,
             f->lasts ? "from then on" : "once");
    t->what = what;
    t->run = (fault_run){ .folder = fault_folder, .arguments = t->c->arguments, .fault = *f };
    fault_run_program(&t->run);
    all->faults[kind]++;
    all->ended[kind] += t->run.status != 0;
    tree_read(&now, fault_folder);
    const bool touched = !fault_is_untouched(t, &now);
    check_status(t);
    fault_check_files(t, &now, false);
    if (t->run.status == 0) fault_check_done(t, &now, "it said that it succeeded, and ");
    else if (touched && !fault_is_done(t, &now)) go_on(t); /* done, but not sure that it lasts */
    if (touched) fault_restore(t);
    tree_free(&now);
}

/* One of so many I/O calls fails, at a place that differs from error to error; gaps between failed
 * allocations grow by this share, and the last but one always fails: results are being written. */
static const test_draws calls_apart = { .usual = 1, .quick = 31 };
static const test_draws share = { .usual = INT64_MAX, .quick = 2 };

static int64_t next_allocation(int64_t at, int64_t n)
{
    const int64_t next = at + 1 + at / test_count(share);
    return at < n - 1 && next > n - 1 ? n - 1 : next;
}

static void try_kind(fault_trial *t, int kind)
{
    static const int errors[FAULT_KINDS][5] = {
        { EIO, ENOSPC, EMFILE, EINTR },
        { EIO, EINTR, FAULT_SHORT },
        { EIO, ENOSPC, EINTR, FAULT_SHORT },
        { EIO, ENOSPC, EINTR },
        { EIO, ENOSPC },
        { EIO, ENOSPC, EINTR },
        { EIO, ENOMEM },
        { EIO, ENOSPC },
        { EIO, EINTR },
        { ENOMEM },
    };
    const bool memory = kind == FAULT_KINDS - 1;
    const int64_t apart = test_count(calls_apart);
    static int64_t turn;
    for (int e = 0; errors[kind][e] != 0; e++) {
        for (int lasts = 0; lasts <= (errors[kind][e] != EINTR); lasts++) {
            const int64_t n = t->clean.calls[kind], among = n < apart ? n : apart;
            for (int64_t at = memory || n == 0 ? 1 : 1 + turn++ % among; at <= n;) {
                const fault f = { fault_kinds[kind], at, errors[kind][e], lasts == 1 };
                try_fault(t, kind, &f);
                at = memory ? next_allocation(at, n) : at + apart;
            }
        }
    }
}

static void report(const fault_trial *t)
{
    printf("detent %s:", t->c->arguments);
    for (int k = 0; k < FAULT_KINDS; k++) {
        if (t->clean.calls[k] > 0) {
            printf(" %lld %s", (long long)t->clean.calls[k], fault_kinds[k]);
        }
    }
    printf("\n");
}

/* DETENT_FAULTS=N in the environment: command N alone, counted from 0. */
static bool is_left_out(int command)
{
    const char *text = getenv("DETENT_FAULTS");
    return text != NULL && atoi(text) != command;
}

START_TEST(commands_survive_faults)
{
    if (!fault_shim() || is_left_out(_i)) return;
    fault_trial t;
    fault_trial_begin(&t, &commands[_i]);
    report(&t);
    ck_assert_int_gt(t.clean.calls[0], 0);               /* the shim is in use */
    ck_assert_int_gt(t.clean.calls[FAULT_KINDS - 1], 0); /* of memory, too */
    for (int k = 0; k < FAULT_KINDS; k++) try_kind(&t, k);
    fault_trial_end(&t);
}
END_TEST

Suite *test_faults_suite(void)
{
    Suite *s = suite_create("faults");
    TCase *c = tcase_create("faults");
    tcase_set_timeout(c, 3600);
    tcase_add_unchecked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, commands_survive_faults, 0, DT__COUNT_OF(commands));
    suite_add_tcase(s, c);
    return s;
}
