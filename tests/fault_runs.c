/* Runs the program with a fault; reads, compares and restores folders. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "fault_runs.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char *const fault_kinds[FAULT_KINDS] = { "open",  "read", "write", "fsync",     "rename",
                                               "close", "mmap", "mkdir", "ftruncate", "memory" };

#ifdef DETENT_FAULTS
#define SHIM DETENT_FAULTS
#define MESSAGES DETENT_MESSAGES
#else
#define SHIM ""
#define MESSAGES ""
#endif

const char *fault_library(void) { return SHIM; }
const char *fault_messages(void) { return MESSAGES; }

bool fault_shim(void)
{
    if (*SHIM != 0) return true;
    test_skip("faults are injected by a library that a sanitizer does not take");
    return false;
}

/* ---- runs ------------------------------------------------------------------------------------ */

#define MOST_WORDS 32
#define PATIENCE 60 /* seconds */

static void set_fault(const fault_run *r, const char *counts)
{
    char text[32];
    setenv("LD_PRELOAD", SHIM, 1);
    setenv("FAULT_COUNTS", counts, 1);
    if (r->log != NULL) setenv("FAULT_LOG", r->log, 1);
    if (r->fault.kind == NULL) return;
    setenv("FAULT_KIND", r->fault.kind, 1);
    snprintf(text, sizeof text, "%lld", (long long)r->fault.at);
    setenv("FAULT_AT", text, 1);
    snprintf(text, sizeof text, "%d", r->fault.error);
    setenv("FAULT_ERROR", r->fault.error == FAULT_SHORT ? "short" : text, 1);
    if (r->fault.lasts) setenv("FAULT_LASTS", "1", 1);
}

/* In the child. */
static void become_program(const fault_run *r, const char *streams, const char *counts)
{
    static char program[] = DETENT_BINARY_DIR "/detent", text[2048];
    char *words[MOST_WORDS] = { program }, *rest = NULL;
    int n = 1;
    snprintf(text, sizeof text, "%s", r->arguments);
    for (char *w = strtok_r(text, " ", &rest); w != NULL && n < MOST_WORDS - 1; n++) {
        words[n] = w;
        w = strtok_r(NULL, " ", &rest);
    }
    const int to = open(streams, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const int from = open("/dev/null", O_RDONLY);
    if (to < 0 || from < 0 || dup2(from, 0) < 0 || dup2(to, 1) < 0 || dup2(to, 2) < 0 ||
        chdir(r->folder) != 0) {
        _exit(98);
    }
    close(to);
    close(from);
    set_fault(r, counts);
    alarm(PATIENCE);
    execv(program, words);
    _exit(97);
}

static void read_counts(fault_run *r, const char *path)
{
    FILE *f = fopen(path, "r");
    char name[16];
    long long n;
    memset(r->calls, 0, sizeof r->calls);
    while (f != NULL && fscanf(f, "%15s %lld", name, &n) == 2) {
        for (int i = 0; i < FAULT_KINDS; i++) {
            if (strcmp(name, fault_kinds[i]) == 0) r->calls[i] = n;
        }
    }
    if (f != NULL) fclose(f);
}

void fault_run_program(fault_run *r)
{
    static char aside[TEST_PATH];
    char streams[TEST_PATH], counts[TEST_PATH];
    int status;
    if (*aside == 0) test_folder(aside);
    test_join(streams, aside, "streams");
    test_join(counts, aside, "counts");
    unlink(counts);
    fflush(NULL);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) become_program(r, streams, counts);
    if (r->kill_after > 0) {
        nanosleep(&(struct timespec){ .tv_sec = r->kill_after / 1000000,
                                      .tv_nsec = (long)(r->kill_after % 1000000 * 1000) },
                  NULL);
        kill(child, SIGKILL);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    r->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    size_t n;
    char *said = test_read_file(streams, &n);
    snprintf(r->said, sizeof r->said, "%s", said);
    free(said);
    read_counts(r, counts);
}

/* ---- folders --------------------------------------------------------------------------------- */

void tree_add(tree *t, const char *path, const void *bytes, size_t size)
{
    if (t->n == t->room) {
        t->room = t->room == 0 ? 32 : 2 * t->room;
        t->file = realloc(t->file, (size_t)t->room * sizeof *t->file);
        ck_assert_ptr_nonnull(t->file);
    }
    tree_file *f = &t->file[t->n++];
    *f = (tree_file){ .size = size, .bytes = malloc(size + 1) };
    TEST_EACH(f->bytes != NULL, "memory");
    TEST_EACH(snprintf(f->path, sizeof f->path, "%s", path) < (int)sizeof f->path, "%s", path);
    if (size > 0) memcpy(f->bytes, bytes, size);
    f->bytes[size] = 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const tree_file *)a)->path, ((const tree_file *)b)->path);
}

void tree_sort(tree *t)
{
    if (t->n > 0) qsort(t->file, (size_t)t->n, sizeof *t->file, by_path);
}

/* The previous snapshot. Most trials change few of many files, and reading all of them again took
 * three quarters of a trial. Change times have ticks of up to 10 ms, so a file that was changed
 * shortly before the snapshot may have changed again since with the same time. */
#define TICKS 20000000 /* ns */
static tree last;
static char last_folder[TEST_PATH];
static int64_t last_at; /* when it began, in ns */

static int64_t nanoseconds(struct timespec t) { return t.tv_sec * 1000000000LL + t.tv_nsec; }

static bool is_unchanged(const tree_file *f, const struct stat *about)
{
    return f != NULL && f->node == about->st_ino && f->size == (size_t)about->st_size &&
           f->changed == nanoseconds(about->st_ctim) && f->changed + TICKS < last_at;
}

static tree *filled; /* nftw passes no argument to its function */
static size_t skipped;

static int add_entry(const char *path, const struct stat *about, int type, struct FTW *place)
{
    char name[256];
    if (place->level == 0) return 0;
    if (type == FTW_D) {
        snprintf(name, sizeof name, "%s/", path + skipped);
        tree_add(filled, name, "", 0);
        return 0;
    }
    if (!S_ISREG(about->st_mode)) return 0;
    const tree_file *known = tree_find(&last, path + skipped);
    if (is_unchanged(known, about)) {
        tree_add(filled, known->path, known->bytes, known->size);
    } else {
        size_t n;
        char *bytes = test_read_file(path, &n);
        tree_add(filled, path + skipped, bytes, n);
        free(bytes);
    }
    tree_file *f = &filled->file[filled->n - 1];
    f->node = about->st_ino;
    f->changed = nanoseconds(about->st_ctim);
    return 0;
}

static void keep(const tree *t, const char *folder, int64_t at)
{
    tree_free(&last);
    for (int64_t i = 0; i < t->n; i++) {
        const tree_file *f = &t->file[i];
        tree_add(&last, f->path, f->bytes, f->size);
        last.file[i].node = f->node;
        last.file[i].changed = f->changed;
    }
    snprintf(last_folder, sizeof last_folder, "%s", folder);
    last_at = at;
}

void tree_read(tree *t, const char *folder)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *t = (tree){ NULL, 0, 0 };
    filled = t;
    skipped = strlen(folder) + 1;
    if (strcmp(folder, last_folder) != 0) tree_free(&last);
    ck_assert_int_eq(nftw(folder, add_entry, 16, FTW_PHYS), 0);
    tree_sort(t);
    keep(t, folder, nanoseconds(now));
}

void tree_free(tree *t)
{
    for (int64_t i = 0; i < t->n; i++) free(t->file[i].bytes);
    free(t->file);
    *t = (tree){ NULL, 0, 0 };
}

tree_file *tree_find(const tree *t, const char *path)
{
    tree_file key;
    snprintf(key.path, sizeof key.path, "%s", path);
    return t->n == 0 ? NULL : bsearch(&key, t->file, (size_t)t->n, sizeof key, by_path);
}

static bool ends_in(const char *text, size_t n, const char *end)
{
    return n >= strlen(end) && memcmp(text + n - strlen(end), end, strlen(end)) == 0;
}

#define TOKENS ", \"tokens_per_s\": "

/* Copies the text without numbers that depend on time; returns the new length. A resumed run may
 * lack the speed of tokens. */
static size_t timeless(const tree_file *f, char *to)
{
    size_t n = 0;
    for (size_t i = 0; i < f->size;) {
        to[n++] = f->bytes[i++];
        if (ends_in(to, n, TOKENS)) {
            n -= strlen(TOKENS);
            i += strspn(f->bytes + i, "0123456789.eE+-naul");
            continue;
        }
        if (!ends_in(to, n, "per_s\": ") && !ends_in(to, n, "seconds\": ")) continue;
        i += strspn(f->bytes + i, "0123456789.eE+-naul");
    }
    return n;
}

bool tree_same_file(const tree_file *a, const tree_file *b)
{
    static const char *const ends[] = { ".json", ".jsonl" }, page[] = "</html>\n";
    if (a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0) return true;
    if (ends_in(a->path, strlen(a->path), ".html")) {
        return ends_in(a->bytes, a->size, page) && ends_in(b->bytes, b->size, page);
    }
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (!ends_in(a->path, strlen(a->path), ends[i])) continue;
        char *x = malloc(a->size + 1), *y = malloc(b->size + 1);
        const size_t n = timeless(a, x), m = timeless(b, y);
        const bool same = n == m && memcmp(x, y, n) == 0;
        free(x);
        free(y);
        return same;
    }
    return false;
}

static void put_back(const tree_file *f, const char *folder)
{
    char path[TEST_PATH];
    test_join(path, folder, f->path);
    if (!ends_in(path, strlen(path), "/")) test_write_file(path, f->bytes, f->size);
    else if (mkdir(path, 0777) != 0) ck_assert(test_file_exists(path));
}

void tree_restore(const tree *t, const tree *now, const char *folder)
{
    char path[TEST_PATH];
    for (int64_t i = now->n - 1; i >= 0; i--) { /* what is in a folder before it */
        if (tree_find(t, now->file[i].path) != NULL) continue;
        test_join(path, folder, now->file[i].path);
        ck_assert_msg(remove(path) == 0, "%s", path);
    }
    for (int64_t i = 0; i < t->n; i++) {
        const tree_file *f = &t->file[i], *is = tree_find(now, f->path);
        const bool same =
            is != NULL && is->size == f->size && memcmp(is->bytes, f->bytes, f->size) == 0;
        if (!same) put_back(f, folder);
    }
}
