/* Power failures and kills while the program writes. Each command runs once, and its calls are
 * recorded (tests/shim/faults.c). After every call the power may fail: what was not synced is lost,
 * torn, or on the disk in another order (tests/disk_model.h). Then each file has its old bytes or
 * its new ones, and a resumed run ends with the bits of one without a failure. In addition the
 * program is killed (SIGKILL) at random moments. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "disk_model.h"
#include "fault_trials.h"

#include "core/core.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static const fault_command commands[] = {
    { "train r.yaml run.dir=new --quiet", "new", "train r.yaml run.dir=new --resume --quiet",
      false },
    { .arguments = "train half --resume --quiet" },
    { .arguments = "quantize run/float.safetensors -o old.st" },
    { .arguments = "convert run/checkpoints/step-0000000006.safetensors -o old.st" },
    { .arguments = "eval run --outputs old.st" },
    { .arguments = "export run --format c -o c" },
    { .arguments = "export llama --format hf -o hf" },
    { .arguments = "import cnn.onnx -o old.st" },
    { .arguments = "tokenize text.txt -o old.st --tokenizer chars --save-tokenizer chars.json" },
};

typedef struct totals {
    _Atomic int64_t calls, states, resumed, kills;
} totals;

static totals *all;

static void setup(void)
{
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) abort();
    fault_folder_make();
}

static void teardown(void)
{
    printf("power: %lld calls, after which %lld states of the disk; %lld of them went on; %lld "
           "kills\n",
           (long long)all->calls, (long long)all->states, (long long)all->resumed,
           (long long)all->kills);
    fault_folder_free();
}

/* ---- power ----------------------------------------------------------------------------------- */

/* States that were tried, by a hash of all that is in them. */
typedef struct seen {
    uint64_t *hash;
    int64_t n;
} seen;

static uint64_t hash_of(const tree *t)
{
    uint64_t hash = 14695981039346656037u;
    for (int64_t i = 0; i < t->n; i++) {
        const tree_file *f = &t->file[i];
        for (size_t k = 0; k <= strlen(f->path); k++) {
            hash = (hash ^ (unsigned char)f->path[k]) * 1099511628211u;
        }
        for (size_t k = 0; k < f->size; k++) {
            hash = (hash ^ (unsigned char)f->bytes[k]) * 1099511628211u;
        }
    }
    return hash;
}

static bool is_new(seen *s, const tree *t)
{
    const uint64_t hash = hash_of(t);
    for (int64_t i = 0; i < s->n; i++) {
        if (s->hash[i] == hash) return false;
    }
    s->hash = realloc(s->hash, (size_t)(s->n + 1) * sizeof *s->hash);
    ck_assert_ptr_nonnull(s->hash);
    s->hash[s->n++] = hash;
    return true;
}

/* metrics.jsonl is not synced line by line: its end may be anything, and is cut when the run
 * resumes. OUT.partial is checked by its hash. */
static void check_state(fault_trial *t, tree *state)
{
    tree sure = { NULL, 0, 0 };
    for (int64_t i = 0; i < state->n; i++) {
        const tree_file *f = &state->file[i];
        if (fault_ends_in(f->path, "metrics.jsonl") || fault_ends_in(f->path, ".partial")) continue;
        tree_add(&sure, f->path, f->bytes, f->size);
    }
    for (int64_t i = 0; i < t->start.n; i++) { /* not to be missed */
        const tree_file *f = &t->start.file[i];
        if (fault_ends_in(f->path, "metrics.jsonl")) tree_add(&sure, f->path, f->bytes, f->size);
    }
    tree_sort(&sure);
    fault_check_files(t, &sure, true);
    tree_free(&sure);
}

static void go_on_from(fault_trial *t, const tree *state)
{
    tree now;
    tree_read(&now, fault_folder);
    tree_restore(state, &now, fault_folder);
    tree_free(&now);
    if (!fault_is_done(t, state)) fault_go_on(t);
    fault_restore(t);
    all->resumed++;
}

/* One of so many states is resumed. */
static const test_draws states_apart = { .usual = 1, .quick = 40 };

static void try_states(fault_trial *t, const disk *d, int64_t call, seen *s)
{
    char what[96];
    tree state;
    for (int order = 0; order < disk_orders(d); order++) {
        for (int loss = 0; loss < DISK_LOSSES; loss++) {
            disk_state(d, order, (disk_loss)loss, &state);
            if (is_new(s, &state)) {
                snprintf(what, sizeof what, "power fails after call %lld, names %d, contents %d",
                         (long long)call, order, loss);
                t->what = what;
                all->states++;
                check_state(t, &state);
                if (s->n % test_count(states_apart) == 0) go_on_from(t, &state);
            }
            tree_free(&state);
        }
    }
}

START_TEST(power_may_fail_after_each_call)
{
    char log[TEST_PATH];
    size_t bytes;
    fault_trial t;
    seen s = { NULL, 0 };
    int64_t call = 0;
    if (!fault_shim()) return;
    fault_trial_begin(&t, &commands[_i]);
    test_folder(log);
    test_join(log, log, "log");
    fault_run r = { .folder = fault_folder, .arguments = t.c->arguments, .log = log };
    fault_run_program(&r);
    ck_assert_int_eq(r.status, 0);
    fault_restore(&t);
    t.run.status = 1; /* it did not end */
    char *records = test_read_file(log, &bytes);
    disk *d = disk_open(&t.start, fault_folder, records, bytes);
    do try_states(&t, d, call++, &s);
    while (disk_step(d));
    tree last;
    disk_state(d, 0, DISK_NOTHING, &last);
    t.what = "after all calls";
    fault_check_done(&t, &last, "the model of the disk "); /* it replays what happened */
    tree_free(&last);
    all->calls += call - 1;
    printf("detent %s: %lld calls, %lld states\n", t.c->arguments, (long long)call - 1,
           (long long)s.n);
    disk_close(d);
    free(records);
    free(s.hash);
    fault_trial_end(&t);
}
END_TEST

/* ---- kills ----------------------------------------------------------------------------------- */

static int64_t microseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static const test_draws kills = { .usual = 60, .quick = 2 };

/* Kills at moments that are spread over the time of a whole call. */
START_TEST(kills_damage_nothing)
{
    fault_trial t;
    char what[64];
    if (!fault_shim()) return;
    fault_trial_begin(&t, &commands[_i]);
    const int64_t begun = microseconds();
    fault_run_program(&t.clean);
    const int64_t whole = microseconds() - begun + 1;
    fault_restore(&t);
    uint64_t random = (uint64_t)_i * 77 + (uint64_t)begun;
    for (int64_t n = 0, tries = 0; n < test_count(kills) && tries < 40 * test_count(kills);) {
        tree now;
        random = random * 6364136223846793005u + 1442695040888963407u;
        t.run = (fault_run){ .folder = fault_folder, .arguments = t.c->arguments };
        t.run.kill_after = 1 + (int64_t)((random >> 33) % (uint64_t)whole);
        snprintf(what, sizeof what, "killed after %lld us", (long long)t.run.kill_after);
        t.what = what;
        tries++;
        fault_run_program(&t.run);
        tree_read(&now, fault_folder);
        if (t.run.status == 128 + SIGKILL) {
            n++;
            all->kills++;
            fault_check_files(&t, &now, true);
        }
        if (!fault_is_done(&t, &now)) fault_go_on(&t);
        tree_free(&now);
        fault_restore(&t);
    }
    fault_trial_end(&t);
}
END_TEST

Suite *test_power_suite(void)
{
    Suite *s = suite_create("power");
    TCase *states = tcase_create("power failures"), *killed = tcase_create("kills");
    TCase *const both[] = { states, killed };
    for (int i = 0; i < 2; i++) {
        tcase_set_timeout(both[i], 7200);
        tcase_add_unchecked_fixture(both[i], setup, teardown);
        suite_add_tcase(s, both[i]);
    }
    tcase_add_loop_test(states, power_may_fail_after_each_call, 0, DT__COUNT_OF(commands));
    tcase_add_loop_test(killed, kills_damage_nothing, 0, DT__COUNT_OF(commands));
    return s;
}
