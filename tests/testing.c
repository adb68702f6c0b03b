/* The suites' helpers: paths, folders, whole files, shell commands, a counting allocator,
 * comparison of floats. The runner makes one folder before it forks tests. All other folders are
 * inside it, so the runner can remove the folders of tests that crashed. */
#define _DEFAULT_SOURCE   /* MAP_ANONYMOUS */
#define _XOPEN_SOURCE 700 /* nftw */
#include "failing_calls.h"
#include "testing.h"

#include <dirent.h>
#include <errno.h>
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

#ifdef TEST_MSAN
#include <sanitizer/msan_interface.h>
#endif

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

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

static void add_name(test_names *all, const char *text, size_t n)
{
    char name[sizeof all->name[0]];
    if (n >= sizeof name) return;
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    for (int i = 0; i < all->n; i++) {
        if (strcmp(all->name[i], name) == 0) return;
    }
    if (all->n < TEST_NAMES) memcpy(all->name[all->n++], name, sizeof name);
}

static void add_names(test_names *all, const char *folder, const char *end)
{
    DIR *d = opendir(folder);
    const size_t m = strlen(end);
    while (d != NULL) {
        char name[300];
        struct stat about;
        const struct dirent *e = readdir(d);
        if (e == NULL) break;
        const bool is_folder =
            fstatat(dirfd(d), e->d_name, &about, 0) == 0 && S_ISDIR(about.st_mode);
        snprintf(name, sizeof name, "%s%s", e->d_name, is_folder ? "/" : "");
        const size_t n = strlen(name);
        if (name[0] == '.' || n <= m || strcmp(name + n - m, end) != 0) continue;
        add_name(all, name, n - m);
    }
    if (d != NULL) closedir(d);
}

void test_golden_names(const char *folder, const char *end, test_names *out)
{
    char path[TEST_PATH];
    out->n = 0;
    snprintf(path, sizeof path, "%s/golden/%s", shared_folder(), folder);
    add_names(out, path, end);
    snprintf(path, sizeof path, DETENT_SOURCE_DIR "/tests/golden/%s", folder);
    add_names(out, path, end);
    qsort(out->name, (size_t)out->n, sizeof out->name[0], by_name);
}

void test_list(const char *text, test_names *out)
{
    out->n = 0;
    for (const char *at = text; at != NULL && *at != 0;) {
        const size_t n = strcspn(at, ",");
        add_name(out, at, n);
        at += n + (at[n] == ',');
    }
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
static bool counted;           /* of this test, which is one skip */

static bool share_process;

void test_share_process(void) { share_process = setenv("CK_FORK", "no", 1) == 0; }

/* Check ends a test that takes too long only if it has a process of its own. */
static void begin_test(void)
{
    counted = false;
    if (share_process) alarm(test_all() ? 7200 : 600);
}

TCase *test_case_create(const char *name)
{
    TCase *c = (tcase_create)(name);
    tcase_add_checked_fixture(c, begin_test, NULL);
    return c;
}

/* ---- choice of tests ------------------------------------------------------------------------- */

static test_choice *chosen;

void test_choose(test_choice *choice) { chosen = choice; }

/* The first index from `from` on whose case is called so, or `to`. "test:3" is the test's index. */
static int named_case(const char *wanted, const TTest *test, int from, int to,
                      const char *(*name)(int))
{
    const size_t n = strlen(test->name);
    int i = from;
    if (strncmp(wanted, test->name, n) == 0 && wanted[n] == ':') {
        char number[16];
        for (; i < to; i++) {
            snprintf(number, sizeof number, "%d", i);
            if (strcmp(number, wanted + n + 1) == 0) break;
        }
        return i;
    }
    if (name == NULL) return to;
    while (i < to && strcmp(name(i), wanted) != 0) i++;
    return i;
}

static void list_cases(const TTest *test, int from, int to, const char *(*name)(int))
{
    static const char *(*listed)(int);
    puts(test->name);
    if (name == NULL || name == listed) return; /* several tests may run over one list */
    for (int i = from; i < to; i++) printf("    %s\n", name(i));
    listed = name;
}

void test_add(TCase *c, const TTest *test, int signal, int exit, int from, int to,
              const char *(*name)(int))
{
    if (chosen == NULL) {
        (_tcase_add_test)(c, test, signal, exit, from, to);
        return;
    }
    if (chosen->list) list_cases(test, from, to, name);
    for (int k = 0; k < chosen->n; k++) {
        const char *wanted = chosen->name[k];
        const bool whole = strcmp(wanted, test->name) == 0;
        for (int i = from; i < to; i++) {
            if (!whole) i = named_case(wanted, test, i, to, name);
            if (i == to) break;
            (_tcase_add_test)(c, test, signal, exit, i, i + 1);
            chosen->added++;
        }
    }
}

void test_skip(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "skipped: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    if (!counted) atomic_fetch_add(skips, 1);
    counted = true;
}

bool test_parsers(void)
{
#ifdef TEST_MSAN
    test_skip("libyaml and jansson have no sanitizer of uninitialized memory");
    return false;
#else
    return true;
#endif
}

#ifdef TEST_MSAN
/* This sanitizer takes what Check's own code writes for uninitialized, since it does not see that
 * code: it does not look at calls of Check's function that sends messages
 * (tests/CMakeLists.txt). */
void __real_ppack(FILE *to, int type, void *message);
void __wrap_ppack(FILE *to, int type, void *message);
void __wrap_ppack(FILE *to, int type, void *message)
{
    __msan_scoped_disable_interceptor_checks();
    __real_ppack(to, type, message);
    __msan_scoped_enable_interceptor_checks();
}
#endif

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

bool test_has_compiler(const char *command)
{
    const int n = (int)strcspn(command, " ");
#ifdef TEST_COMPILERS
    return test_shell(NULL, "test -x '" TEST_COMPILERS "/%.*s'", n, command) == 0;
#else
    return test_shell(NULL, "command -v %.*s > /dev/null", n, command) == 0;
#endif
}

#ifdef TEST_COVERAGE
void __gcov_dump(void);
#endif

void test_leave(int status)
{
    fflush(NULL);
#ifdef TEST_COVERAGE
    __gcov_dump();
#endif
    _exit(status);
}

/* ---- numbers of cases ------------------------------------------------------------------------ */

bool test_all(void)
{
    const char *text = getenv("DETENT_TESTS");
    return text != NULL && strcmp(text, "all") == 0;
}

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
    return test_every_site() ? draws.usual : test_count(draws);
}

/* ---- failing allocations -------------------------------------------------------------------- */

/* In front of each block: the size that release must be called with. */
typedef struct front {
    void *start;
    size_t bytes;
} front;

static void *counted_allocate(void *user, size_t bytes, size_t alignment)
{
    test_memory *m = user;
    if (++m->calls == m->fail_at) return NULL;
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

/* The scenario in a context whose allocation `run` fails. False where it makes fewer. */
static bool with_failure(int64_t run, dt_status (*scenario)(dt_ctx *ctx, void *user), void *user)
{
    test_memory m = { .fail_at = run };
    dt_ctx_options options = dt_ctx_defaults();
    options.allocator = test_allocator(&m);
    options.threads = 2;
    dt_ctx *ctx = NULL;
    dt_status status = dt_ctx_create(&ctx, &options);
    if (status == DT_OK) {
        status = scenario(ctx, user);
        ck_assert_msg(status == DT_OK || dt_error(ctx)[0] != '\0', "run %lld: no message",
                      (long long)run);
        if (m.calls < run) ck_assert_msg(status == DT_OK, "%s", dt_error(ctx));
        dt_ctx_free(ctx);
    }
    ck_assert_msg(m.live == 0, "run %lld left %lld blocks", (long long)run, (long long)m.live);
    if (m.calls < run) return false;
    ck_assert_msg(status == DT_ERR_NOMEM, "allocation %lld failed and gave %s", (long long)run,
                  dt_status_name(status));
    return true;
}

bool test_every_site(void)
{
    const char *text = getenv("DETENT_FAILURES");
    return test_all() || (text != NULL && strcmp(text, "all") == 0);
}

/* A scenario of test_every_allocation in a new context, where a call fails. */
typedef struct failing_pass {
    dt_status (*scenario)(dt_ctx *ctx, void *user);
    void *user;
    failing_call call;
    bool happened;
} failing_pass;

static dt_status run_pass(failing_pass *p)
{
    test_memory m = { 0 };
    dt_ctx_options options = dt_ctx_defaults();
    options.allocator = test_allocator(&m);
    options.threads = 2;
    dt_ctx *ctx = NULL;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    failing_begin(p->call);
    const dt_status status = p->scenario(ctx, p->user);
    p->happened = failing_end();
    const bool silent = status != DT_OK && dt_error(ctx)[0] == 0;
    dt_ctx_free(ctx);
    ck_assert_msg(!silent, "%s fails, and there is no message", failing_name());
    ck_assert_msg(m.live == 0, "%s fails, and %lld blocks are left", failing_name(),
                  (long long)m.live);
    return status;
}

/* Fails allocations that the block pool would serve, too. */
void test_new_sites(dt_status (*scenario)(dt_ctx *ctx, void *user), void *user)
{
    if (!test_every_site()) return;
    failing_pass p = { scenario, user, { FAILING_FIND, FAILING_MEMORY, false, ENOMEM }, false };
    const dt_status first = run_pass(&p);
    const int64_t n = failing_found();
    ck_assert_int_eq(first, DT_OK);
    for (p.call.i = 0; p.call.i < n; p.call.i++) {
        p.call.lasts = p.call.i % 2 == 1;
        const dt_status status = run_pass(&p);
        if (!p.happened) continue; /* a loop that the clock ends was shorter */
        if (failing_is_forgiven() && status == DT_OK) continue;
        ck_assert_msg(status == DT_ERR_NOMEM, "%s fails at site %lld of %lld, and gives %s",
                      failing_name(), (long long)p.call.i, (long long)n, dt_status_name(status));
    }
}

int64_t test_every_allocation(dt_status (*scenario)(dt_ctx *ctx, void *user), void *user)
{
    static const test_draws shares = { .usual = INT64_MAX, .quick = 8, .sanitized = 3 };
    const int64_t share = test_count(shares);
    int64_t run = 1;
    while (with_failure(run, scenario, user)) run += 1 + run / share;
    test_new_sites(scenario, user);
    return run;
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

#ifdef TEST_COMPILERS
static void prefer_compilers(void)
{
    char path[4 * TEST_PATH];
    const char *before = getenv("PATH");
    const int n = snprintf(path, sizeof path, TEST_COMPILERS ":%s", before == NULL ? "" : before);
    if (n < (int)sizeof path && setenv("PATH", path, 1) == 0) return;
    fputs("test_begin: PATH is too long\n", stderr);
    exit(2);
}
#else
static void prefer_compilers(void) {}
#endif

void test_begin(void)
{
    const char *base = getenv("TMPDIR");
    if (base == NULL || base[0] == '\0') base = "/tmp";
    const int length = snprintf(root, sizeof root, "%s/detent-test-XXXXXX", base);
    if (length >= TEST_PATH || mkdtemp(root) == NULL) {
        perror(root);
        exit(2);
    }
    prefer_compilers();
    skips = mmap(NULL, sizeof *skips, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (skips == MAP_FAILED || (getenv("DETENT_TIMES") != NULL && atexit(note_time) != 0)) {
        perror("test_begin");
        exit(2);
    }
}

void test_end(void) { test_remove(root); }
