/* Facts about the machine: processor, caches, kernels, OpenBLAS. */
#define _POSIX_C_SOURCE 200809L
#include "core/core.h"
#include "kernels/machine.h"
#include "kernels/products/blas_library.h"

#include <detent/experimental/machine.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The size of a cache from Linux's sysfs, "1024K"; 0 if there is none, or it is an instruction
 * cache. */
static size_t cache_at(int index)
{
    char path[96], type[32] = "";
    unsigned long kib = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", index);
    FILE *file = fopen(path, "r");
    if (file == NULL) return 0;
    const bool data = fscanf(file, "%31s", type) == 1 && strcmp(type, "Instruction") != 0;
    fclose(file);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    file = data ? fopen(path, "r") : NULL;
    if (file == NULL) return 0;
    if (fscanf(file, "%luK", &kib) != 1) kib = 0;
    fclose(file);
    return (size_t)kib << 10;
}

/* The first, second and last level of data caches; 0 if unknown. */
static void find_caches(size_t cache[3])
{
    int n = 0;
    for (int i = 0; i < 8; i++) {
        const size_t bytes = cache_at(i);
        if (bytes > 0) cache[n < 2 ? n++ : 2] = bytes;
    }
}

dt_status dt_machine_find(dt_ctx *ctx, dt_machine *out)
{
    DT__NEED2(ctx, ctx, out);
    *out = (dt_machine){ .cores = sysconf(_SC_NPROCESSORS_ONLN), .threads = dt_threads(ctx) };
    out->kernels = dt_kernels_name(ctx);
    if (out->kernels == NULL) return dt_error_status(ctx);
    char processor[DT__PROCESSOR];
    snprintf(out->processor, sizeof out->processor, "%s", dt__processor(processor));
    find_caches(out->cache);
    /* "OpenBLAS 0.3.21 and how it was built" */
    DT__TRY(dt__blas_load(ctx));
    const char *config = dt__blas.openblas_get_config();
    const size_t name = strcspn(config, " ");
    const size_t both = name + strspn(config + name, " ");
    snprintf(out->blas, sizeof out->blas, "%.*s", (int)(both + strcspn(config + both, " ")),
             config);
    out->blas_core = dt__blas.openblas_get_corename();
    return DT_OK;
}
