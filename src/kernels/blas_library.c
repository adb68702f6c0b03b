#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "kernels/blas_library.h"

#include "core/library.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

#define NAME "libopenblas.so.0"
#define BUFFER ((size_t)129 << 20) /* of address space, for each calling thread */

dt__blas_library dt__blas;

static char why[256]; /* it could not be loaded; "": it is */

static const dt__function functions[] = {
#define FUNCTION(name) { #name, offsetof(dt__blas_library, name) },
    DT__BLAS_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static void load(void)
{
    dt__library_load(NAME, functions, DT__COUNT_OF(functions), &dt__blas, why);
}

/* Without room for its buffers OpenBLAS tries for ever, so this check comes first. */
static dt_status check_room(dt_ctx *ctx)
{
    const size_t bytes = BUFFER * (size_t)ctx->threads;
    void *room = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room != MAP_FAILED) {
        munmap(room, bytes);
        return DT_OK;
    }
    return dt_fail(ctx, DT_ERR_NOMEM,
                   "out of memory: OpenBLAS wants %zu MiB of address space for %d threads",
                   bytes >> 20, ctx->threads);
}

dt_status dt__blas_load(dt_ctx *ctx)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    DT__TRY(check_room(ctx));
    pthread_once(&once, load);
    if (why[0] != 0) {
        return dt_fail(ctx, DT_ERR_STATE,
                       "rounding with data needs OpenBLAS (Debian: libopenblas0): %s", why);
    }
    if (!ctx->leave_blas_threads && dt__blas.openblas_get_num_threads() != 1) {
        dt__blas.openblas_set_num_threads(1);
    }
    return DT_OK;
}
