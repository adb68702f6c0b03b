/* Compiles NAME.c as a shared library in a temporary folder, which is removed as soon as the
 * library is loaded. */
#include "export/verify/folder/exported_folder.h"

#include "core/system/atomic_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct building {
    dt_ctx *ctx;
    const char *compiler, *name;
    char folder[PATH_MAX], source[PATH_MAX], library[PATH_MAX];
} building;

static dt_status wait_for(const building *b, pid_t child)
{
    int status;
    pid_t ended;
    do ended = waitpid(child, &status, 0);
    while (ended < 0 && errno == EINTR);
    if (ended < 0) return dt__file_fail(b->ctx, "wait for", b->compiler, errno);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return DT_OK;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        return dt__file_fail(b->ctx, "run the C compiler", b->compiler, ENOENT);
    }
    return dt_fail(b->ctx, DT_ERR_FORMAT, "%s.c: the C compiler '%s' did not compile it", b->name,
                   b->compiler);
}

/* The compiler's messages go to standard error. */
static dt_status compile(const building *b)
{
    char *const words[] = {
        (char *)(uintptr_t)b->compiler, (char *)(uintptr_t) "-std=c99", (char *)(uintptr_t) "-O2",
        (char *)(uintptr_t) "-fPIC",    (char *)(uintptr_t) "-shared",  (char *)(uintptr_t) "-o",
        (char *)(uintptr_t)b->library,  (char *)(uintptr_t)b->source,   NULL
    };
    pid_t child;
    const int error = posix_spawnp(&child, b->compiler, NULL, NULL, words, environ);
    if (error != 0) return dt__file_fail(b->ctx, "run the C compiler", b->compiler, error);
    return wait_for(b, child);
}

static dt_status load(const building *b, void **library)
{
    DT__TRY(compile(b));
    *library = dlopen(b->library, RTLD_NOW | RTLD_LOCAL);
    if (*library != NULL) return DT_OK;
    return dt_fail(b->ctx, DT_ERR_FORMAT, "%s.c: compiled, but not loaded: %s", b->name, dlerror());
}

dt_status dt__folder_compile(dt_ctx *ctx, const char *folder, const dt__folder_about *about,
                             void **library)
{
    const char *root = getenv("TMPDIR"), *compiler = getenv("CC");
    building b = { .ctx = ctx,
                   .compiler = compiler == NULL || *compiler == 0 ? "cc" : compiler,
                   .name = about->name };
    *library = NULL;
    if (snprintf(b.source, sizeof b.source, "%s/%s.c", folder, about->name) >= PATH_MAX ||
        snprintf(b.folder, sizeof b.folder, "%s/detent-XXXXXX",
                 root == NULL || *root == 0 ? "/tmp" : root) >= PATH_MAX - 16) {
        return dt__file_fail(ctx, "open", about->name, ENAMETOOLONG);
    }
    if (mkdtemp(b.folder) == NULL) return dt__file_fail(ctx, "make", b.folder, errno);
    memcpy(b.library, b.folder, strlen(b.folder) + 1);
    memcpy(b.library + strlen(b.folder), "/model.so", sizeof "/model.so");
    const dt_status s = load(&b, library);
    unlink(b.library);
    rmdir(b.folder);
    return s;
}
