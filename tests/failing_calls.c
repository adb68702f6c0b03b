/* Calls that fail in place of the library's and the system's (failing_calls.h). */
#define _GNU_SOURCE /* realpath, openat, flock, pthread_create */
#include "failing_calls.h"

#include "core/core.h"
#include "qat/quantized.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unwind.h>

#define DEPTH 128        /* return addresses of a call that are looked at */
#define OWN 1            /* of the function that asks for them */
#define SITES (1U << 17) /* a power of two */
#define MOST_CALLS 65536

/* ---- call sites ------------------------------------------------------------------------------ */

static void *site[SITES]; /* those found, by a hash of their address */
static int64_t n_sites;
static uint64_t found[MOST_CALLS]; /* hashes of the call stacks of calls that are to fail */
static int64_t n_found;

static _Thread_local unsigned kinds; /* kinds of calls that count in this thread */
static int outside;                  /* frames of the caller of failing_begin, and above */
static bool happened, forgiven;
static failing_call chosen;
static unsigned chosen_kind;
static const char *name;

static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15u;
    return x ^ (x >> 29);
}

/* Adds a site; false where it is known, or there is no more room. */
static bool add_site(void *address)
{
    size_t at = (size_t)mixed((uintptr_t)address) & (SITES - 1);
    while (site[at] != NULL && site[at] != address) at = (at + 1) & (SITES - 1);
    if (site[at] == address || n_sites >= SITES / 2) return false;
    site[at] = address;
    n_sites++;
    return true;
}

/* Return addresses, innermost first, by the compiler's library: musl has no backtrace. */
typedef struct return_addresses {
    void *at[DEPTH];
    int n;
} return_addresses;

static _Unwind_Reason_Code take_address(struct _Unwind_Context *frame, void *user)
{
    return_addresses *r = user;
    const _Unwind_Ptr address = _Unwind_GetIP(frame);
    if (address == 0 || r->n == DEPTH) return _URC_END_OF_STACK;
    r->at[r->n++] = (void *)(uintptr_t)address;
    return _URC_NO_REASON;
}

static bool decide(unsigned kind, const char *what)
{
    return_addresses way = { .n = 0 };
    const bool finding = chosen.i == FAILING_FIND;
    _Unwind_Backtrace(take_address, &way);
    const int all = way.n, n = all < DEPTH ? all - outside : all;
    uint64_t hash = kind;
    bool is_new = false;
    for (int i = OWN; i < n; i++) hash = mixed(hash ^ (uintptr_t)way.at[i]) + hash;
    for (int i = OWN; i < n && finding; i++) is_new = add_site(way.at[i]) || is_new;
    if (is_new && n_found < MOST_CALLS) found[n_found++] = hash;
    if (finding) return false;
    if (happened) {
        const bool same = kind != FAILING_SYSTEM || strcmp(what, name) == 0;
        return chosen.lasts && kind == chosen_kind && same;
    }
    if (hash != found[chosen.i]) return false;
    happened = true;
    chosen_kind = kind;
    return true;
}

static bool fails(unsigned kind, const char *what)
{
    const unsigned counted = kinds;
    const int before = errno;
    if ((counted & kind) == 0) return false;
    kinds = 0; /* calls from here on do not count */
    const bool now = decide(kind, what);
    kinds = counted;
    errno = now ? chosen.error : before;
    if (now && name == NULL) name = what;
    return now;
}

bool failing_now(unsigned kind) { return fails(kind, "malloc"); }

void failing_begin(failing_call c)
{
    return_addresses way = { .n = 0 };
    _Unwind_Backtrace(take_address, &way); /* the first time it may load a library */
    outside = way.n - 1;
    chosen = c;
    happened = forgiven = false;
    name = NULL;
    if (c.i == FAILING_FIND) n_found = 0;
    kinds = c.kinds;
}

bool failing_end(void)
{
    kinds = 0;
    return happened;
}

bool failing_is_forgiven(void) { return forgiven; }

int64_t failing_found(void) { return n_found; }

const char *failing_name(void)
{
    static const char prefix[] = "__wrap_";
    if (name == NULL) return "nothing";
    return strncmp(name, prefix, strlen(prefix)) == 0 ? name + strlen(prefix) : name;
}

/* ---- memory of the library ------------------------------------------------------------------- */

/* Defines `name` in place of the library's function, which is __real_name. It is visible, since ld
 * also binds other libraries' calls to it where the C library's symbols have no versions, as in
 * musl. */
#define STAND_IN(result, name, ...)                                                                \
    __typeof__(name) __real_##name, __wrap_##name;                                                 \
    DT_API result __wrap_##name(__VA_ARGS__);                                                      \
    result __wrap_##name(__VA_ARGS__)

static bool no_memory(dt_ctx *ctx, const char *what)
{
    if (!fails(FAILING_MEMORY, what)) return false;
    dt_fail(ctx, DT_ERR_NOMEM, "out of memory: a test lets %s fail", what);
    return true;
}

STAND_IN(void *, dt__alloc, dt_ctx *ctx, uint64_t bytes)
{
    return no_memory(ctx, __func__) ? NULL : __real_dt__alloc(ctx, bytes);
}

STAND_IN(void *, dt__alloc_zero, dt_ctx *ctx, uint64_t bytes)
{
    return no_memory(ctx, __func__) ? NULL : __real_dt__alloc_zero(ctx, bytes);
}

STAND_IN(void *, dt__alloc_array, dt_ctx *ctx, int64_t count, size_t size)
{
    return no_memory(ctx, __func__) ? NULL : __real_dt__alloc_array(ctx, count, size);
}

STAND_IN(void *, dt__grow, dt_ctx *ctx, void *old, size_t old_bytes, size_t new_bytes)
{
    return no_memory(ctx, __func__) ? NULL : __real_dt__grow(ctx, old, old_bytes, new_bytes);
}

STAND_IN(dt_status, dt__reserve, dt_ctx *ctx, void *array, int64_t n, int64_t *room, size_t size)
{
    if (n >= *room && no_memory(ctx, __func__)) return DT_ERR_NOMEM;
    return __real_dt__reserve(ctx, array, n, room, size);
}

STAND_IN(char *, dt__copy_string, dt_ctx *ctx, const char *text)
{
    return no_memory(ctx, __func__) ? NULL : __real_dt__copy_string(ctx, text);
}

char *__wrap_dt__format_string(dt_ctx *ctx, const char *format, ...) DT_PRINTF(2, 3);
char *__wrap_dt__format_string(dt_ctx *ctx, const char *format, ...)
{
    va_list a, b;
    if (no_memory(ctx, __func__)) return NULL;
    va_start(a, format);
    va_copy(b, a);
    const int n = vsnprintf(NULL, 0, format, a);
    char *text = n < 0 ? NULL : __real_dt__alloc(ctx, (size_t)n + 1);
    if (text != NULL) vsnprintf(text, (size_t)n + 1, format, b);
    va_end(b);
    va_end(a);
    return text;
}

/* A block of a context that has no allocator of its own, the context itself among them. */
STAND_IN(int, posix_memalign, void **out, size_t alignment, size_t bytes)
{
    return fails(FAILING_MEMORY, __func__) ? ENOMEM : __real_posix_memalign(out, alignment, bytes);
}

/* If memory for renewing codes is short, the next pass makes them, so no error is expected. */
STAND_IN(const dt__panel_layout *, dt__fq_write_begin, dt_tensor *x)
{
    const bool before = happened;
    const dt__panel_layout *layout = __real_dt__fq_write_begin(x);
    forgiven = forgiven || (happened && !before);
    return layout;
}

/* ---- the system ------------------------------------------------------------------------------ */

static bool no_call(const char *what) { return fails(FAILING_SYSTEM, what); }

int __real_open(const char *path, int flags, ...);
DT_API int __wrap_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode)
{
    return no_call(__func__) ? -1 : __real_open(path, flags, mode);
}

int __real_openat(int folder, const char *path, int flags, ...);
DT_API int __wrap_openat(int folder, const char *path, int flags, mode_t mode);
int __wrap_openat(int folder, const char *path, int flags, mode_t mode)
{
    return no_call(__func__) ? -1 : __real_openat(folder, path, flags, mode);
}

STAND_IN(FILE *, fopen, const char *path, const char *mode)
{
    return no_call(__func__) ? NULL : __real_fopen(path, mode);
}

STAND_IN(ssize_t, read, int file, void *to, size_t n)
{
    return no_call(__func__) ? -1 : __real_read(file, to, n);
}

STAND_IN(ssize_t, pread, int file, void *to, size_t n, off_t from)
{
    return no_call(__func__) ? -1 : __real_pread(file, to, n, from);
}

STAND_IN(ssize_t, write, int file, const void *from, size_t n)
{
    return no_call(__func__) ? -1 : __real_write(file, from, n);
}

STAND_IN(int, fsync, int file) { return no_call(__func__) ? -1 : __real_fsync(file); }

STAND_IN(int, ftruncate, int file, off_t size)
{
    return no_call(__func__) ? -1 : __real_ftruncate(file, size);
}

STAND_IN(int, close, int file) /* which always succeeds */
{
    const bool fail = no_call(__func__);
    const int status = __real_close(file);
    if (fail) errno = chosen.error;
    return fail ? -1 : status;
}

STAND_IN(int, rename, const char *from, const char *to)
{
    return no_call(__func__) ? -1 : __real_rename(from, to);
}

STAND_IN(int, renameat, int old_folder, const char *from, int new_folder, const char *to)
{
    return no_call(__func__) ? -1 : __real_renameat(old_folder, from, new_folder, to);
}

STAND_IN(int, mkdir, const char *path, mode_t mode)
{
    return no_call(__func__) ? -1 : __real_mkdir(path, mode);
}

STAND_IN(DIR *, opendir, const char *path)
{
    return no_call(__func__) ? NULL : __real_opendir(path);
}

STAND_IN(DIR *, fdopendir, int file) { return no_call(__func__) ? NULL : __real_fdopendir(file); }

STAND_IN(struct dirent *, readdir, DIR *folder)
{
    return no_call(__func__) ? NULL : __real_readdir(folder);
}

STAND_IN(void *, mmap, void *at, size_t n, int protection, int flags, int file, off_t from)
{
    if (no_call(__func__)) return MAP_FAILED;
    return __real_mmap(at, n, protection, flags, file, from);
}

STAND_IN(int, stat, const char *path, struct stat *out)
{
    return no_call(__func__) ? -1 : __real_stat(path, out);
}

STAND_IN(int, fstat, int file, struct stat *out)
{
    return no_call(__func__) ? -1 : __real_fstat(file, out);
}

STAND_IN(int, lstat, const char *path, struct stat *out)
{
    return no_call(__func__) ? -1 : __real_lstat(path, out);
}

STAND_IN(int, fstatat, int folder, const char *path, struct stat *out, int flags)
{
    return no_call(__func__) ? -1 : __real_fstatat(folder, path, out, flags);
}

STAND_IN(char *, realpath, const char *path, char *out)
{
    return no_call(__func__) ? NULL : __real_realpath(path, out);
}

STAND_IN(char *, getcwd, char *out, size_t n)
{
    return no_call(__func__) ? NULL : __real_getcwd(out, n);
}

STAND_IN(int, unlink, const char *path) { return no_call(__func__) ? -1 : __real_unlink(path); }

STAND_IN(int, rmdir, const char *path) { return no_call(__func__) ? -1 : __real_rmdir(path); }

STAND_IN(int, flock, int file, int how) { return no_call(__func__) ? -1 : __real_flock(file, how); }

int __real_fcntl(int file, int command, ...);
DT_API int __wrap_fcntl(int file, int command, void *with);
int __wrap_fcntl(int file, int command, void *with)
{
    return no_call(__func__) ? -1 : __real_fcntl(file, command, with);
}

STAND_IN(FILE *, open_memstream, char **text, size_t *bytes)
{
    return no_call(__func__) ? NULL : __real_open_memstream(text, bytes);
}

STAND_IN(int, pthread_create, pthread_t *out, const pthread_attr_t *how, void *(*begin)(void *),
         void *user)
{
    return no_call(__func__) ? EAGAIN : __real_pthread_create(out, how, begin, user);
}
