/* Runs commands of the program in this process. In each run one call for memory or of the system
 * fails, so that together there is a failure at every call site (failing_calls.h). After it
 *
 *   - the exit status is that of docs/run.md, with a message, or the result is as without it;
 *   - every file has its old bytes, or those of a run without a failure.
 *
 * Suite `faults` does this to the program as a process, which then resumes from the files; this
 * suite has more commands, and also fails calls that the block pool would serve. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "fault_trials.h"

#include "core/core.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

typedef struct command {
    const char *arguments;
    unsigned kinds; /* kinds of calls that fail; 0: all */
    bool varies;    /* messages differ from run to run, or if an old file is not read */
    /* continues with other runs after a failed one, so new files may have any content */
    bool goes_on;
} command;

/* Libraries in C++ and OpenBLAS end the process when a malloc of theirs fails. */
#define NOT_MALLOC (FAILING_MEMORY | FAILING_SYSTEM)

static const command commands[] = {
    { "--help", 0, false, false },
    { "train --help", 0, false, false },
    { "ls", 0, false, false },
    { "ls --json", 0, false, false },
    { "cp digits-mlp own.yaml", 0, false, false },
    { "pages half", 0, false, false },
    { "complete -- train r", 0, false, false },
    { "complete -- config show r.yaml train.opt", 0, false, false },
    { "complete -- export run --format c", 0, false, false },
    { "config show r.yaml", 0, false, false },
    { "config show r.yaml --json", 0, false, false },
    { "config show rows.yaml --summary", 0, false, false },
    { "config validate rows.yaml --json", 0, false, false },
    { "config schema", 0, false, false },
    { "config keys", 0, false, false },
    { "doctor --json", 0, true, false },
    { "doctor", 0, true, false },
    { "inspect run --json", 0, false, false },
    { "inspect run --layers", 0, false, false },
    { "inspect run --graph table", 0, false, false },
    { "inspect run --graph dot", 0, false, false },
    { "inspect run --device --json", 0, false, false },
    { "inspect llama --layers --json", 0, false, false },
    { "inspect adapted/float.safetensors --json", 0, false, false },
    { "check run", 0, false, false },
    { "check llama", 0, false, false },
    { "compare run half", 0, false, false },
    { "new own.yaml --data rows.csv --target kind", 0, false, false },
    { "report run", 0, false, false },
    { "report run of-two -o both.html", 0, false, false },
    { "merge adapted/float.safetensors -o old.st", 0, true, false },
    { "import cnn.onnx -o old.st", 0, true, false },
    { "tokenize text.txt -o old.st --tokenizer chars --save-tokenizer chars.json", 0, true, false },
    { "tokenize text.txt -o old.st --tokenizer bytes --json", 0, true, false },
    { "sample llama --prompt-ids 1,2,3 --print-ids --temperature 0 --max-tokens 3", 0, true,
      false },
    { "sample llama --prompt-ids 1,2 --print-ids --max-tokens 2 --cache int8 --json", 0, true,
      false },
    { "predict of-two rows.csv --columns a,b --json", 0, false, false },
    { "predict of-two rows.csv --columns a,b", 0, false, false },
    { "convert run/checkpoints/step-0000000006.safetensors -o old.st --json", 0, true, false },
    { "quantize llama/model.safetensors -o old.st", 0, true, false },
    { "quantize run/float.safetensors -o old.st", 0, true, false },
    { "quantize run/float.safetensors r.yaml quantize.rounder=gptq -o old.st --json", NOT_MALLOC,
      true, false },
    { "eval run --outputs old.st", 0, true, false },
    { "eval run --json", 0, true, false },
    { "export run --format c -o c", 0, false, false },
    { "export run --format onnx -o old.st --verify", 0, true, false },
    { "export run --format tflite -o old.st", 0, true, false },
    { "export llama --format c -o c", 0, false, false },
    { "export llama --format onnx -o old.st", 0, true, false },
    { "export llama --format hf -o hf", 0, false, false },
    { "export llama --format gguf --type f16 -o old.st", 0, true, false },
    { "train r.yaml --dry-run --json", 0, true, false },
    { "train r.yaml run.dir=new run.report=true --quiet", 0, true, false },
    { "train r.yaml run.dir=new adapters.rank=2 model.init=run/float.safetensors --quiet", 0, true,
      false },
    { "train r.yaml run.dir=new train.average.name=ema train.checkpoint.best=true "
      "train.distill.teacher=run/float.safetensors --quiet",
      0, true, false },
    { "train r.yaml run.dir=new train.shards=2 cluster.sync_norm=true "
      "qat.preset=int8-static-int8-weight qat.activation.observer=percentile --quiet",
      0, true, false },
    { "train half --resume", 0, true, false },
    { "train rows.yaml --json", 0, true, false },
    { "sweep r.yaml sweep.yaml --dry-run", 0, false, false },
    { "sweep r.yaml sweep.yaml --quiet", 0, true, true },
    { "sweep r.yaml sweep.yaml --quiet --json", 0, true, true },
    { "search r.yaml --budget 400 --dry-run --json", 0, false, false },
    { "search r.yaml --budget 400 --quiet", 0, true, true },
    { "search r.yaml --budget 400 --quiet --json", 0, true, true },
    { "bench run --repeat 1 --threads 1 --json", NOT_MALLOC, true, false },
};

static const char sweep[] = "seeds: 2\nkeys: {train.optimizer.lr: [1e-3, 1e-2]}\n";

typedef struct totals {
    _Atomic int64_t found, failed, ended;
} totals;

static totals *all;

static void setup(void)
{
    char path[TEST_PATH];
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) abort();
    fault_folder_make();
    test_join(path, fault_folder, "sweep.yaml");
    test_write_text(path, sweep);
    fault_folder_keep();
}

static void teardown(void)
{
    printf("command_failures: %lld calls found, %lld failed, %lld commands ended with an error\n",
           (long long)all->found, (long long)all->failed, (long long)all->ended);
    fault_folder_free();
}

/* ---- trials ---------------------------------------------------------------------------------- */

static void check_status(fault_trial *t, bool varies)
{
    const fault_run *r = &t->run;
    if (r->status == 0) {
        const bool warned = strstr(r->said, "warning: ") != NULL;
        if (!varies && !warned && strcmp(r->said, t->clean.said) != 0)
            fault_complain(t, "other words", "");
        return;
    }
    if (r->status != 1) fault_complain(t, "another status than 1", "");
    if (strstr(r->said, "detent") == NULL && strstr(r->said, "error") == NULL) {
        fault_complain(t, "no message", "");
    }
}

static void check_old_files(fault_trial *t, const tree *now)
{
    for (int64_t i = 0; i < t->start.n; i++) {
        const tree_file *is = tree_find(now, t->start.file[i].path);
        if (is == NULL || !tree_same_file(is, &t->start.file[i])) {
            fault_complain(t, "it damages ", t->start.file[i].path);
        }
    }
}

static unsigned kinds_of(const command *c)
{
    return c->kinds != 0 ? c->kinds : FAILING_MEMORY | FAILING_MALLOC | FAILING_SYSTEM;
}

static void try_call(fault_trial *t, const command *c, int64_t i)
{
    char what[96];
    tree now;
    const failing_call fails = { i, kinds_of(c), i % 2 == 1, EIO };
    t->run = (fault_run){ .folder = fault_folder, .arguments = c->arguments };
    fault_run_inside(&t->run, &fails);
    if (!t->run.happened) return;
    snprintf(what, sizeof what, "call %lld, %s, %s", (long long)i, failing_name(),
             fails.lasts ? "from then on" : "once");
    t->what = what;
    all->failed++;
    all->ended += t->run.status != 0;
    tree_read(&now, fault_folder);
    check_status(t, c->varies);
    /* a file that cannot be deleted stays, with a message */
    const bool left = strstr(t->run.said, "cannot delete") != NULL;
    if (c->goes_on) check_old_files(t, &now);
    else if (!left) fault_check_files(t, &now, false);
    if (!left && t->run.status == 0) {
        fault_check_done(t, &now, "it said that it succeeded, and ");
    }
    tree_free(&now);
    fault_restore(t);
}

static void begin(fault_trial *t, const command *c)
{
    *t = (fault_trial){ .what = "" };
    t->clean = (fault_run){ .folder = fault_folder, .arguments = c->arguments };
    fault_folder_reset();
    tree_read(&t->start, fault_folder);
    fault_run_inside(&t->clean, NULL); /* initializes what is made once per process */
    fault_restore(t);
    fault_run_inside(&t->clean, &(failing_call){ FAILING_FIND, kinds_of(c), false, 0 });
}

static const test_draws apart = { .usual = 1, .quick = 149, .sanitized = 199 };
/* One of so many commands is tried. */
static const test_draws among = { .usual = 1, .sanitized = 4 };

START_TEST(commands_survive_failures)
{
    const command *c = &commands[_i * test_count(among)];
    const fault_command as_fault = { .arguments = c->arguments };
    const int64_t step = test_every_site() ? 1 : test_count(apart);
    fault_trial t;
    begin(&t, c);
    t.c = &as_fault;
    const int64_t n = failing_found();
    all->found += n;
    ck_assert_msg(t.clean.status == 0, "detent %s: %d: %s", c->arguments, t.clean.status,
                  t.clean.said);
    tree_read(&t.after, fault_folder);
    fault_restore(&t);
    for (int64_t i = step > 1 ? _i % step : 0; i < n; i += step) try_call(&t, c, i);
    fault_trial_end(&t);
}
END_TEST

Suite *test_command_failures_suite(void)
{
    Suite *s = suite_create("command_failures");
    TCase *c = tcase_create("command_failures");
    tcase_set_timeout(c, 3600);
    tcase_add_unchecked_fixture(c, setup, teardown);
    const int tried = (int)((DT__COUNT_OF(commands) - 1) / test_count(among) + 1);
    tcase_add_loop_test(c, commands_survive_failures, 0, tried);
    suite_add_tcase(s, c);
    return s;
}
