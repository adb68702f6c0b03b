#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "kernels/products/blas_library.h"

#include "core/system/library.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NAME "libopenblas.so.0"
#define MEGABYTES 129 /* MiB of address space per calling thread */
#define BUFFER ((uint64_t)MEGABYTES << 20)

dt__blas_library dt__blas;

static char why[256]; /* why the library could not be loaded; "": it was loaded */
static bool own;      /* the library is OpenBLAS */

#define FUNCTION(name) { #name, offsetof(dt__blas_library, name) },
static const dt__function blas[] = { DT__BLAS_FUNCTIONS(FUNCTION) };
static const dt__function lapack[] = { DT__LAPACK_FUNCTIONS(FUNCTION) };
static const dt__function openblas[] = { DT__BLAS_FUNCTIONS(FUNCTION) DT__LAPACK_FUNCTIONS(FUNCTION)
                                             DT__OPENBLAS_FUNCTIONS(FUNCTION) };
#undef FUNCTION

static char *no_config(void) { return (char *)(uintptr_t) "the system's libblas.so.3"; }

static char *no_corename(void) { return (char *)(uintptr_t) "unknown"; }

static int one_thread(void) { return 1; }

static void no_threads(int n) { (void)n; }

static bool load_system(void)
{
    if (dt__library_load("libblas.so.3", blas, DT__COUNT_OF(blas), &dt__blas, why) == NULL ||
        dt__library_load("liblapack.so.3", lapack, DT__COUNT_OF(lapack), &dt__blas, why) == NULL) {
        return false;
    }
    dt__blas.openblas_get_config = no_config;
    dt__blas.openblas_get_corename = no_corename;
    dt__blas.openblas_get_num_threads = one_thread;
    dt__blas.openblas_set_num_threads = no_threads;
    why[0] = 0;
    return true;
}

static bool wants_system(void)
{
    const char *wanted = getenv("DETENT_BLAS");
    return wanted != NULL && strcmp(wanted, "system") == 0;
}

/* Loads OpenBLAS; if that is missing, or DETENT_BLAS is "system", the system's libraries of the
 * common names: the reference BLAS, BLIS, or another. */
static void load(void)
{
    char reason[256];
    own = !wants_system() &&
          dt__library_load(NAME, openblas, DT__COUNT_OF(openblas), &dt__blas, why) != NULL;
    if (own) return;
    memcpy(reason, why, sizeof reason);
    if (!load_system() && reason[0] != 0) memcpy(why, reason, sizeof why);
}

/* Without room for its buffers OpenBLAS retries for ever, so this is checked first. */
static dt_status check_room(dt_ctx *ctx)
{
    size_t bytes;
    if (dt__mul_size(BUFFER, (uint64_t)ctx->threads, &bytes)) {
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void *room = mmap(NULL, bytes, PROT_NONE, flags, -1, 0);
        if (room != MAP_FAILED) {
            munmap(room, bytes);
            return DT_OK;
        }
    }
    return dt_fail(ctx, DT_ERR_NOMEM,
                   "out of memory: OpenBLAS needs %d MiB of address space for %d threads",
                   MEGABYTES * ctx->threads, ctx->threads);
}

dt_status dt__blas_load(dt_ctx *ctx)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!wants_system()) DT__TRY(check_room(ctx));
    pthread_once(&once, load);
    if (why[0] != 0) {
        return dt_fail(ctx, DT_ERR_STATE,
                       "rounding with data needs OpenBLAS (Debian: libopenblas0): %s", why);
    }
    if (own && !ctx->leave_blas_threads && dt__blas.openblas_get_num_threads() != 1) {
        dt__blas.openblas_set_num_threads(1);
    }
    return DT_OK;
}
