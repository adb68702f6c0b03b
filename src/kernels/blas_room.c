/* Checks that OpenBLAS can allocate its buffers, 128 MiB for each calling thread. If it cannot, it
 * retries for ever instead of failing, so this check comes first. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "kernels/kernels.h"

#include <sys/mman.h>

#define BUFFER ((size_t)129 << 20)

dt_status dt__blas_room(dt_ctx *ctx)
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
