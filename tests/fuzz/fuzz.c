/* What fuzz targets share: a context whose memory is counted, files in memory, parts of inputs. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_MEMORY ((size_t)512 << 20)

const fuzz_target *const fuzz_targets[] = {
#define TARGET(name) &fuzz_target_##name,
#include "targets.inc"
#undef TARGET
    NULL,
};

void (*fuzz_at_promise)(void);

const fuzz_target *fuzz_target_named(const char *name)
{
    int i = 0;
    while (fuzz_targets[i] != NULL && strcmp(fuzz_targets[i]->name, name) != 0) i++;
    return fuzz_targets[i];
}

void fuzz_abort(const char *condition, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "not so: %s: ", condition);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

/* ---- contexts -------------------------------------------------------------------------------- */

static size_t live; /* bytes; one context at a time allocates */

static void *allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    if (bytes > MOST_MEMORY - live) return NULL;
    void *p = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (p != NULL) live += bytes;
    return p;
}

static void release(void *user, void *pointer, size_t bytes)
{
    (void)user;
    live -= bytes;
    free(pointer);
}

/* DETENT_FUZZ_KERNELS=best in the environment: targets that ask for plain kernels get the
 * processor's best, and with them oneDNN. */
static bool is_best(void)
{
    const char *text = getenv("DETENT_FUZZ_KERNELS");
    return text != NULL && strcmp(text, "best") == 0;
}

dt_ctx *fuzz_ctx(uint64_t cpu)
{
    dt_ctx_options o = dt_ctx_defaults();
    dt_ctx *ctx = NULL;
    o.allocator = (dt_allocator){ .allocate = allocate, .release = release };
    o.threads = 1;
    o.cpu_mask = cpu == DT_CPU_PLAIN && is_best() ? UINT64_MAX : cpu;
    FUZZ_NEEDS(dt_ctx_create(&ctx, &o) == DT_OK, "a context");
    return ctx;
}

void fuzz_end(dt_ctx *ctx)
{
    FUZZ_HOLDS(dt_memory_of(ctx).used == 0, "%zu bytes are left", dt_memory_of(ctx).used);
    dt_ctx_free(ctx);
    FUZZ_HOLDS(live == 0, "%zu bytes are not released", live);
}

void fuzz_refused(const dt_ctx *ctx, bool made)
{
    FUZZ_HOLDS(!made, "a result beside an error: %s", dt_error(ctx));
    FUZZ_HOLDS(dt_error(ctx)[0] != 0, "an error without a message");
}

/* ---- files ----------------------------------------------------------------------------------- */

#define PATH 300
static char root[64];

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

static void remove_root(void) { nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

static const char *folder(void)
{
    static pid_t of;
    if (of == getpid()) return root;
    of = getpid();
    const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(root, sizeof root, "%s/detent-fuzz-XXXXXX", where);
    FUZZ_NEEDS(mkdtemp(root) != NULL, "a folder in %s", where);
    atexit(remove_root);
    return root;
}

const char *fuzz_path(const char *name)
{
    static char paths[8][PATH];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, PATH, "%s/%s", folder(), name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = 0;
        FUZZ_NEEDS(mkdir(path, 0700) == 0 || errno == EEXIST, "a folder %s", path);
        *slash = '/';
    }
    return path;
}

const char *fuzz_file(const char *name, const void *data, size_t n)
{
    const char *path = fuzz_path(name);
    const int d = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    FUZZ_NEEDS(d >= 0, "a file %s", path);
    FUZZ_NEEDS(n == 0 || write(d, data, n) == (ssize_t)n, "%zu bytes into %s", n, path);
    close(d);
    return path;
}

void fuzz_remove(const char *name)
{
    nftw(fuzz_path(name), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_safetensors(const char *name, const uint8_t *data, size_t n)
{
    const uint8_t *end = n == 0 ? NULL : memchr(data, 0, n);
    if (end == NULL || data[0] != '{') return fuzz_file(name, data, n);
    const size_t header = (size_t)(end - data);
    uint8_t *file = malloc(n + 7);
    FUZZ_NEEDS(file != NULL, "memory");
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)(header >> 8 * i);
    memcpy(file + 8, data, header);
    memcpy(file + 8 + header, end + 1, n - header - 1);
    const char *path = fuzz_file(name, file, n + 7);
    free(file);
    return path;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

fuzz_bytes fuzz_part(fuzz_bytes *rest)
{
    if (rest->n < 2) return (fuzz_bytes){ rest->v, 0 };
    size_t n = rest->v[0] | (size_t)rest->v[1] << 8;
    rest->v += 2;
    rest->n -= 2;
    if (n > rest->n) n = rest->n;
    const fuzz_bytes part = { rest->v, n };
    rest->v += n;
    rest->n -= n;
    return part;
}

unsigned fuzz_choice(fuzz_bytes *rest, unsigned below)
{
    if (rest->n == 0) return 0;
    rest->n--;
    return *rest->v++ % below;
}

void fuzz_batches(dt_dataset *d)
{
    dt_loader_options o = dt_loader_defaults();
    dt_loader *l = NULL;
    dt_tensor *x, *y;
    o.batch_size = 3;
    if (d != NULL && dt_loader_create(d, &o, &l) == DT_OK) {
        for (int i = 0; i < 3; i++) (void)dt_loader_next(l, &x, &y);
        dt_loader_free(l);
    }
    dt_dataset_free(d);
}

void fuzz_touch(const void *data, size_t n)
{
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < n; i++) sum = (uint8_t)(sum + ((const uint8_t *)data)[i]);
}
