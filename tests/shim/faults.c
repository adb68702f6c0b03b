/* A library for LD_PRELOAD: the n-th call of a kind fails, among all calls of a program and its
 * libraries from main on. System files (/proc, /sys, /dev, /etc, /usr, /lib) and descriptors 0 to 2
 * are exempt. Environment:
 *
 *   FAULT_KIND   open read write fsync rename close mmap mkdir ftruncate memory
 *   FAULT_AT     the call of that kind that fails, from 1 on
 *   FAULT_ERROR  errno; "short" halves the count of a read or write instead
 *   FAULT_LASTS  set: all later calls of the kind fail, too
 *   FAULT_COUNTS a file: how many calls of each kind there were, "KIND COUNT" a line
 *   FAULT_LOG    a file: every call that changes a file, for tests/disk_model.h
 *
 * The real functions are found by dlsym; glibc has those of malloc as __libc_*. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OPEN, READ, WRITE, FSYNC, RENAME, CLOSE, MMAP, MKDIR, FTRUNCATE, MEMORY, KINDS };

static const char *const kind_name[KINDS] = { "open",  "read", "write", "fsync",     "rename",
                                              "close", "mmap", "mkdir", "ftruncate", "memory" };

static atomic_bool counting; /* between the begin of main and its end */
static atomic_long calls[KINDS];
static int kind = -1, error;
static long at;
static bool lasts, is_short;

/* ---- what was asked for -------------------------------------------------------------------- */

#define SEEN 1024 /* descriptors that are known */
static _Atomic(char *) path_of[SEEN];
static int log_file = -1;

static void read_wishes(void)
{
    const char *name = getenv("FAULT_KIND"), *number = getenv("FAULT_AT");
    const char *how = getenv("FAULT_ERROR"), *record = getenv("FAULT_LOG");
    for (int i = 0; name != NULL && i < KINDS; i++) {
        if (strcmp(name, kind_name[i]) == 0) kind = i;
    }
    at = number == NULL ? 0 : atol(number);
    is_short = how != NULL && strcmp(how, "short") == 0;
    error = how == NULL || is_short ? EIO : atoi(how);
    lasts = getenv("FAULT_LASTS") != NULL;
    if (record != NULL) {
        log_file = (int)syscall(SYS_openat, AT_FDCWD, record,
                                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    }
}

static void write_counts(void)
{
    const char *name = getenv("FAULT_COUNTS");
    char text[512];
    int n = 0;
    if (name == NULL) return;
    for (int i = 0; i < KINDS; i++) {
        n += snprintf(text + n, sizeof text - (size_t)n, "%s %ld\n", kind_name[i], calls[i]);
    }
    const int file = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file >= 0 && syscall(SYS_write, file, text, (size_t)n) != n) _exit(99);
    if (file >= 0) syscall(SYS_close, file);
}

static bool fails(int k)
{
    if (!counting) return false;
    const long n = ++calls[k];
    if (k != kind || at <= 0 || (lasts ? n < at : n != at)) return false;
    if (is_short && k != READ && k != WRITE) return false;
    errno = error;
    return true;
}

/* main, with counting switched on. */
static int (*real_main)(int, char **, char **);

static int counted_main(int argc, char **argv, char **environment)
{
    read_wishes();
    counting = true;
    const int status = real_main(argc, argv, environment);
    counting = false;
    write_counts();
    return status;
}

typedef int start_main(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void),
                       void (*)(void), void *);

start_main __libc_start_main;

int __libc_start_main(int (*entry)(int, char **, char **), int argc, char **argv,
                      void (*begin)(void), void (*end)(void), void (*loader_end)(void), void *stack)
{
    start_main *real;
    *(void **)&real = dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = entry;
    return real(counted_main, argc, argv, begin, end, loader_end, stack);
}

#define REAL(result, name, ...)                                                                    \
    static result (*real)(__VA_ARGS__);                                                            \
    if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, #name)

/* ---- memory -------------------------------------------------------------------------------- */

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

void *malloc(size_t n) { return fails(MEMORY) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return fails(MEMORY) ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return fails(MEMORY) ? NULL : __libc_realloc(p, n); }
void *memalign(size_t alignment, size_t n)
{
    return fails(MEMORY) ? NULL : __libc_memalign(alignment, n);
}
void *aligned_alloc(size_t alignment, size_t n) { return memalign(alignment, n); }

int posix_memalign(void **p, size_t alignment, size_t n)
{
    void *block = memalign(alignment, n);
    if (block == NULL) return ENOMEM;
    *p = block;
    return 0;
}

/* ---- the log ------------------------------------------------------------------------------- */

/* A record: a letter, three numbers, two lengths, then two pieces of bytes. */
static void record(char letter, const int64_t number[3], const void *a, size_t n_a, const char *b)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (log_file < 0 || !counting) return;
    const int kept = errno;
    const int64_t head[6] = { letter,    number[0],    number[1],
                              number[2], (int64_t)n_a, b == NULL ? 0 : (int64_t)strlen(b) };
    pthread_mutex_lock(&lock);
    if (syscall(SYS_write, log_file, head, sizeof head) != (long)sizeof head) _exit(99);
    if (n_a > 0 && syscall(SYS_write, log_file, a, n_a) != (long)n_a) _exit(99);
    if (head[5] > 0 && syscall(SYS_write, log_file, b, (size_t)head[5]) != head[5]) _exit(99);
    pthread_mutex_unlock(&lock);
    errno = kept;
}

static void record_paths(char letter, int64_t number, const char *a, const char *b)
{
    record(letter, (const int64_t[3]){ number, 0, 0 }, a, strlen(a), b);
}

/* The path from the working folder; `folder` is a descriptor. */
static void full_path(char out[PATH_MAX], int folder, const char *name)
{
    const char *base = folder >= 0 && folder < SEEN ? path_of[folder] : NULL;
    if (*name == '/' || base == NULL) snprintf(out, PATH_MAX, "%s", name);
    else snprintf(out, PATH_MAX, "%s/%s", base, name);
}

/* ---- files --------------------------------------------------------------------------------- */

static bool is_watched(const char *path)
{
    static const char *const others[] = { "/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const bool in_memory = strncmp(path, "/dev/shm/", 9) == 0;
        if (strncmp(path, others[i], strlen(others[i])) == 0 && !in_memory) return false;
    }
    return true;
}

static bool is_known(int file) { return file > 2 && file < SEEN && path_of[file] != NULL; }

static void note(int file, const char *path, int flags)
{
    if (file <= 2 || file >= SEEN) return;
    char *copy = __libc_malloc(strlen(path) + 1);
    if (copy == NULL) _exit(99);
    strcpy(copy, path);
    path_of[file] = copy; /* one before it was closed, and stays for other threads */
    record('o', (const int64_t[3]){ file, (flags & O_CREAT) != 0, (flags & O_TRUNC) != 0 }, path,
           strlen(path), NULL);
}

static int open_file(int folder, const char *name, int flags, mode_t mode)
{
    char path[PATH_MAX];
    full_path(path, folder, name);
    if (is_watched(path) && fails(OPEN)) return -1;
    const int file = (int)syscall(SYS_openat, folder, name, flags, mode);
    if (file >= 0 && is_watched(path)) note(file, path, flags);
    else if (file >= 0 && file < SEEN) path_of[file] = NULL; /* closed inside of the C library */
    return file;
}

#define WITH_MODE(mode, flags)                                                                     \
    mode_t mode = 0;                                                                               \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                       \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode = va_arg(rest, mode_t);                                                               \
        va_end(rest);                                                                              \
    }

int open(const char *path, int flags, ...)
{
    WITH_MODE(mode, flags)
    return open_file(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...)
{
    WITH_MODE(mode, flags)
    return open_file(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}
int openat(int folder, const char *path, int flags, ...)
{
    WITH_MODE(mode, flags)
    return open_file(folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...)
{
    WITH_MODE(mode, flags)
    return open_file(folder, path, flags | O_LARGEFILE, mode);
}

DIR *opendir(const char *path)
{
    REAL(DIR *, opendir, const char *);
    return is_watched(path) && fails(OPEN) ? NULL : real(path);
}

/* Streams of the C library open and read files without calling open and read. */
FILE *fopen(const char *path, const char *mode)
{
    REAL(FILE *, fopen, const char *, const char *);
    if (is_watched(path) && fails(OPEN)) return NULL;
    FILE *f = real(path, mode);
    if (f != NULL && is_watched(path)) {
        note(fileno(f), path, *mode == 'r' ? 0 : *mode == 'a' ? O_CREAT : O_CREAT | O_TRUNC);
    }
    return f;
}

size_t fread(void *to, size_t size, size_t n, FILE *f)
{
    REAL(size_t, fread, void *, size_t, size_t, FILE *);
    const bool failed = is_known(fileno(f)) && fails(READ);
    if (!failed || is_short) return real(to, size, n, f);
    f->_flags |= 0x20; /* what ferror reads */
    return 0;
}

static size_t halved(size_t n) { return n > 1 ? n / 2 : n; }

#define READS(name, arguments, call)                                                               \
    ssize_t name arguments                                                                         \
    {                                                                                              \
        const bool failed = is_known(file) && fails(READ);                                         \
        if (failed && !is_short) return -1;                                                        \
        if (failed) n = halved(n);                                                                 \
        return call;                                                                               \
    }
READS(read, (int file, void *to, size_t n), syscall(SYS_read, file, to, n))
READS(pread, (int file, void *to, size_t n, off_t from), syscall(SYS_pread64, file, to, n, from))
READS(pread64, (int file, void *to, size_t n, off64_t from),
      syscall(SYS_pread64, file, to, n, from))

ssize_t write(int file, const void *data, size_t n)
{
    if (!is_known(file)) return syscall(SYS_write, file, data, n);
    if (fails(WRITE)) {
        if (!is_short) return -1;
        n = halved(n);
    }
    const bool appends = (fcntl(file, F_GETFL) & O_APPEND) != 0;
    const off_t from = lseek(file, 0, appends ? SEEK_END : SEEK_CUR);
    const ssize_t done = syscall(SYS_write, file, data, n);
    if (done > 0) {
        record('w', (const int64_t[3]){ file, from, 0 }, data, (size_t)done, NULL);
    }
    return done;
}

int fsync(int file)
{
    if (is_known(file) && fails(FSYNC)) return -1;
    const int status = (int)syscall(SYS_fsync, file);
    if (status == 0 && is_known(file)) record('s', (const int64_t[3]){ file, 0, 0 }, "", 0, NULL);
    return status;
}

static int truncate_to(int file, off_t length)
{
    if (is_known(file) && fails(FTRUNCATE)) return -1;
    const int status = (int)syscall(SYS_ftruncate, file, length);
    if (status == 0 && is_known(file)) {
        record('t', (const int64_t[3]){ file, length, 0 }, "", 0, NULL);
    }
    return status;
}
int ftruncate(int file, off_t length) { return truncate_to(file, length); }
int ftruncate64(int file, off64_t length) { return truncate_to(file, length); }

/* A descriptor is closed even where close fails, as on Linux. */
static bool forget(int file)
{
    const bool known = is_known(file);
    if (!known) return false;
    record('c', (const int64_t[3]){ file, 0, 0 }, "", 0, NULL);
    path_of[file] = NULL;
    return true;
}

int close(int file)
{
    const bool known = forget(file);
    const int status = (int)syscall(SYS_close, file);
    return known && fails(CLOSE) ? -1 : status;
}

int fclose(FILE *f)
{
    REAL(int, fclose, FILE *);
    const bool known = forget(fileno(f));
    const int status = real(f);
    return known && fails(CLOSE) ? EOF : status;
}

static void *map(void *where, size_t n, int protection, int flags, int file, off_t from)
{
    if (is_known(file) && fails(MMAP)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, where, n, protection, flags, file, from);
}
void *mmap(void *where, size_t n, int protection, int flags, int file, off_t from)
{
    return map(where, n, protection, flags, file, from);
}
void *mmap64(void *where, size_t n, int protection, int flags, int file, off64_t from)
{
    return map(where, n, protection, flags, file, from);
}

static int rename_file(int a, const char *from, int b, const char *to)
{
    char old[PATH_MAX], new[PATH_MAX];
    full_path(old, a, from);
    full_path(new, b, to);
    if (is_watched(new) && fails(RENAME)) return -1;
    const int status = (int)syscall(SYS_renameat, a, from, b, to);
    if (status == 0) record_paths('r', 0, old, new);
    return status;
}
int rename(const char *from, const char *to) { return rename_file(AT_FDCWD, from, AT_FDCWD, to); }
int renameat(int a, const char *from, int b, const char *to) { return rename_file(a, from, b, to); }

int mkdir(const char *path, mode_t mode)
{
    if (is_watched(path) && fails(MKDIR)) return -1;
    const int status = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (status == 0) record_paths('m', 0, path, NULL);
    return status;
}

int unlinkat(int folder, const char *name, int flags)
{
    char path[PATH_MAX];
    full_path(path, folder, name);
    const int status = (int)syscall(SYS_unlinkat, folder, name, flags);
    if (status == 0) record_paths('u', 0, path, NULL);
    return status;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
