/* The suites' helpers: paths, folders, whole files, shell commands, a counting allocator,
 * comparison of floats. The runner makes one folder before it forks tests. All other folders are
 * inside it, so the runner can remove the folders of tests that crashed. */
#define _DEFAULT_SOURCE   /* MAP_ANONYMOUS */
#define _XOPEN_SOURCE 700 /* nftw */
#include "testing.h"

#include "core/core.h"

#include <ftw.h>
#include <math.h>
#include <stdarg.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

static char root[TEST_PATH];

/* ---- files ---------------------------------------------------------------------------------- */

bool test_file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

bool test_limit_files(int64_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    limit.rlim_cur = bytes < 0 ? limit.rlim_max : (rlim_t)bytes;
    return signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

void test_join(char path[TEST_PATH], const char *folder, const char *name)
{
    char joined[TEST_PATH];
    const int length = snprintf(joined, sizeof joined, "%s/%s", folder, name);
    ck_assert_msg(length >= 0 && length < TEST_PATH, "too long a path: %s/%s", folder, name);
    memcpy(path, joined, (size_t)length + 1);
}

static const char *shared_folder(void)
{
    const char *folder = getenv("DETENT_SHARED");
    return folder != NULL && folder[0] != '\0' ? folder : DETENT_SOURCE_DIR "/../shared";
}

static bool found(const char *path, const char *name)
{
    if (test_file_exists(path)) return true;
    test_skip("%s is not here", name);
    return false;
}

bool test_golden(char path[TEST_PATH], const char *name)
{
    test_join(path, shared_folder(), "golden");
    test_join(path, path, name);
    if (test_file_exists(path)) return true;
    test_join(path, DETENT_SOURCE_DIR "/tests/golden", name);
    return found(path, name);
}

bool test_shared(char path[TEST_PATH], const char *name)
{
    test_join(path, shared_folder(), name);
    return found(path, name);
}

void test_folder(char path[TEST_PATH])
{
    test_join(path, root, "XXXXXX");
    ck_assert_msg(mkdtemp(path) != NULL, "cannot make a folder in %s", root);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

void test_remove(const char *path) { nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

/* ---- skips and times ------------------------------------------------------------------------- */

static _Atomic int64_t *skips; /* shared with the processes of tests */

void test_skip(const char *format, ...)
{
    static bool counted; /* a test has a process of its own, and is one skip */
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "skipped: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    if (!counted) atomic_fetch_add(skips, 1);
    counted = true;
}

int64_t test_skips(void) { return atomic_exchange(skips, 0); }

static double seconds_of(int whose)
{
    struct rusage used;
    if (getrusage(whose, &used) != 0) return 0;
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* At the end of each test's process. */
static void note_time(void)
{
    FILE *f = fopen(getenv("DETENT_TIMES"), "a");
    if (f == NULL) return;
    fprintf(f, "%.3f %s\n", seconds_of(RUSAGE_SELF) + seconds_of(RUSAGE_CHILDREN), tcase_name());
    fclose(f);
}

static char *read_all(FILE *f, size_t *size)
{
    size_t used = 0, room = 4096;
    char *data = malloc(room);
    while (data != NULL) {
        used += fread(data + used, 1, room - used - 1, f);
        if (used < room - 1) break;
        room *= 2;
        data = realloc(data, room);
    }
    ck_assert_ptr_nonnull(data);
    data[used] = '\0';
    if (size != NULL) *size = used;
    return data;
}

char *test_read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "cannot read %s", path);
    char *data = read_all(f, size);
    fclose(f);
    return data;
}

void test_write_file(const char *path, const void *data, size_t size)
{
    remove(path); /* ext4 waits for the disk where a file is emptied and written again */
    FILE *f = fopen(path, "wb");
    ck_assert_msg(f != NULL, "cannot write %s", path);
    ck_assert_uint_eq(fwrite(data, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);
}

void test_write_text(const char *path, const char *text)
{
    test_write_file(path, text, strlen(text));
}

int test_shell(char **output, const char *format, ...)
{
    char command[4 * TEST_PATH];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    ck_assert_int_lt(length, (int)sizeof command);
    fflush(NULL);
    FILE *f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    char *text = read_all(f, NULL);
    const int status = pclose(f);
    if (output != NULL) {
        *output = text;
    } else {
        free(text);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- numbers of cases ------------------------------------------------------------------------ */

static bool is_all(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && strcmp(text, "all") == 0;
}

bool test_all(void) { return is_all("DETENT_TESTS"); }

int64_t test_count(test_draws draws)
{
    if (test_all()) return draws.usual;
#if defined(TEST_SANITIZED)
    return draws.sanitized;
#else
    return draws.quick > 0 ? draws.quick : draws.usual;
#endif
}

int64_t test_networks(test_draws draws)
{
    const char *text = getenv("DETENT_NETWORKS");
    return text != NULL ? strtoll(text, NULL, 10) : test_count(draws);
}

int64_t test_failures(test_draws draws)
{
    return is_all("DETENT_FAILURES") ? draws.usual : test_count(draws);
}

/* ---- failing allocations -------------------------------------------------------------------- */

/* Allocations with the same callers, as a hash: the numbers of the first and the last one. */
typedef struct chain {
    uint64_t callers;
    int64_t first, last;
} chain;

typedef struct test_chains {
    chain *chain;
    int64_t n, room;
    int base; /* frames of the stack from which the scenario was called */
} test_chains;

#define MOST_FRAMES 256

typedef struct frames {
    uintptr_t at[MOST_FRAMES];
    int n;
} frames;

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *user)
{
    frames *f = user;
    f->at[f->n++] = (uintptr_t)_Unwind_GetIP(context);
    return f->n < MOST_FRAMES ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static int frames_now(void)
{
    frames f = { .n = 0 };
    _Unwind_Backtrace(add_frame, &f);
    return f.n;
}

/* A hash (FNV-1a, by words) of the callers inside of the scenario. One counts once, so that
 * recursion makes few chains. */
static uint64_t callers(int base)
{
    frames f = { .n = 0 };
    uint64_t hash = 14695981039346656037U;
    _Unwind_Backtrace(add_frame, &f);
    for (int i = 0; i < f.n - base; i++) {
        int k = 0;
        while (f.at[k] != f.at[i]) k++;
        if (k == i) hash = (hash ^ f.at[i]) * 1099511628211U;
    }
    return hash;
}

static void record_chain(test_chains *c, int64_t call)
{
    const uint64_t who = callers(c->base);
    int64_t i = 0;
    while (i < c->n && c->chain[i].callers != who) i++;
    if (i == c->room) {
        c->room = c->room == 0 ? 256 : 2 * c->room;
        c->chain = realloc(c->chain, (size_t)c->room * sizeof *c->chain);
        ck_assert_ptr_nonnull(c->chain);
    }
    if (i == c->n) c->chain[c->n++] = (chain){ who, call, call };
    c->chain[i].last = call;
}

/* In front of each block: the size that release must be called with. */
typedef struct front {
    void *start;
    size_t bytes;
} front;

static void *counted_allocate(void *user, size_t bytes, size_t alignment)
{
    test_memory *m = user;
    if (++m->calls == m->fail_at) return NULL;
    if (m->chains != NULL) record_chain(m->chains, m->calls);
    const size_t before = alignment > sizeof(front) ? alignment : sizeof(front);
    void *start = NULL;
    if (posix_memalign(&start, alignment, before + bytes) != 0) return NULL;
    char *block = (char *)start + before;
    const front f = { start, bytes };
    memcpy(block - sizeof f, &f, sizeof f);
    m->live++;
    m->bytes += bytes;
    return block;
}

static void counted_release(void *user, void *pointer, size_t bytes)
{
    test_memory *m = user;
    front f;
    memcpy(&f, (char *)pointer - sizeof f, sizeof f);
    ck_assert_msg(f.bytes == bytes, "a block of %zu bytes released as %zu", f.bytes, bytes);
    m->live--;
    m->bytes -= bytes;
    free(f.start);
}

dt_allocator test_allocator(test_memory *m)
{
    return (dt_allocator){ counted_allocate, counted_release, m };
}

typedef struct scenario {
    dt_status (*run)(dt_ctx *ctx, void *user);
    void *user;
} scenario;

/* Runs it in a context whose allocation `fail_at` fails, where that is not 0. Returns how many
 * allocations there were. */
static int64_t run_scenario(const scenario *s, int64_t fail_at, test_chains *chains)
{
    test_memory m = { .fail_at = fail_at, .chains = chains };
    dt_ctx_options options = dt_ctx_defaults();
    options.allocator = test_allocator(&m);
    options.threads = 2;
    dt_ctx *ctx = NULL;
    dt_status status = dt_ctx_create(&ctx, &options);
    if (status == DT_OK) {
        ctx->pool.keeps_none = true;
        if (chains != NULL) chains->base = frames_now();
        status = s->run(ctx, s->user);
        ck_assert_msg(status == DT_OK || dt_error(ctx)[0] != '\0', "run %lld: no message",
                      (long long)fail_at);
        if (fail_at == 0 || m.calls < fail_at) ck_assert_msg(status == DT_OK, "%s", dt_error(ctx));
        dt_ctx_free(ctx);
    }
    ck_assert_msg(m.live == 0, "run %lld left %lld blocks", (long long)fail_at, (long long)m.live);
    ck_assert_msg(fail_at == 0 || m.calls < fail_at || status == DT_ERR_NOMEM,
                  "allocation %lld failed and gave %s", (long long)fail_at, dt_status_name(status));
    return m.calls;
}

/* The set of chains that failed in this process. A place is empty (0), or holds a hash. */
#define TRIED 65536

static uint64_t *place_of(uint64_t callers)
{
    static uint64_t tried[TRIED];
    uint64_t i = callers % TRIED;
    while (tried[i] != 0 && tried[i] != callers) i = (i + 1) % TRIED;
    return &tried[i];
}

static int by_number(const void *a, const void *b)
{
    const chain *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* The first allocation of chains that did not fail before, with gaps between chains that grow by
 * 1 / share; of all of them also the last. */
static void run_chains(const scenario *s, const test_chains *c, int64_t share)
{
    static int n;
    int64_t at = 0, next = 0;
    for (int64_t i = 0; i < c->n; i++) {
        const chain *k = &c->chain[i];
        uint64_t *place = place_of(k->callers);
        if (*place != 0 || at++ < next) continue;
        run_scenario(s, k->first, NULL);
        if (k->last != k->first && share == INT64_MAX) run_scenario(s, k->last, NULL);
        next = at + (at - 1) / share;
        ck_assert_int_lt(++n, TRIED);
        *place = k->callers;
    }
}

int64_t test_every_allocation(dt_status (*run)(dt_ctx *ctx, void *user), void *user)
{
    static const test_draws shares = { .usual = INT64_MAX, .quick = 8, .sanitized = 3 };
    const int64_t share = is_all("DETENT_FAILURES") ? INT64_MAX : test_count(shares);
    const scenario s = { run, user };
    test_chains c = { .n = 0 };
    const int64_t calls = run_scenario(&s, 0, &c);
    if (c.n > 0) qsort(c.chain, (size_t)c.n, sizeof *c.chain, by_number);
    if (!test_all()) run_chains(&s, &c, share);
    for (int64_t i = 1; test_all() && i <= calls; i++) run_scenario(&s, i, NULL);
    free(c.chain);
    return calls;
}

/* ---- closeness ------------------------------------------------------------------------------ */

bool test_near(double a, double b, double absolute, double relative)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b)) return a == b;
    return fabs(a - b) <= absolute + relative * fabs(b);
}

int64_t test_first_far_f32(const float *a, const float *b, int64_t n, double absolute,
                           double relative)
{
    for (int64_t i = 0; i < n; i++) {
        if (!test_near((double)a[i], (double)b[i], absolute, relative)) return i;
    }
    return -1;
}

int64_t test_first_far_f64(const double *a, const double *b, int64_t n, double absolute,
                           double relative)
{
    for (int64_t i = 0; i < n; i++) {
        if (!test_near(a[i], b[i], absolute, relative)) return i;
    }
    return -1;
}

/* ---- begin and end --------------------------------------------------------------------------- */

void test_begin(void)
{
    const char *base = getenv("TMPDIR");
    if (base == NULL || base[0] == '\0') base = "/tmp";
    const int length = snprintf(root, sizeof root, "%s/detent-test-XXXXXX", base);
    if (length >= TEST_PATH || mkdtemp(root) == NULL) {
        perror(root);
        exit(2);
    }
    skips = mmap(NULL, sizeof *skips, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (skips == MAP_FAILED || (getenv("DETENT_TIMES") != NULL && atexit(note_time) != 0)) {
        perror("test_begin");
        exit(2);
    }
}

void test_end(void) { test_remove(root); }
