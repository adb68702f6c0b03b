/* Chooses the kernels of a context: the best set that the processor supports, the context's mask
 * allows, and that is not above the set named by the environment's DETENT_CPU. */
#include "kernels/sets.h"

#include <stdlib.h>
#include <string.h>

static const dt__kernel_set sets[] = {
    { "plain", DT_CPU_PLAIN, &dt__kernels_ref_f32 },
#if defined DETENT_SIMD && defined __x86_64__
    { "avx2", DT_CPU_AVX2, &dt__kernels_avx2 },
    { "avx-vnni", DT_CPU_AVX2 | DT_CPU_AVX_VNNI, &dt__kernels_avx_vnni },
    { "avx512-vnni", DT_CPU_AVX2 | DT_CPU_AVX512_VNNI, &dt__kernels_avx512 },
    { "avx512-bf16", DT_CPU_AVX2 | DT_CPU_AVX512_VNNI | DT_CPU_AVX512_BF16,
      &dt__kernels_avx512_bf16 },
    { "amx-int8", DT_CPU_AVX2 | DT_CPU_AVX512_VNNI | DT_CPU_AVX512_BF16 | DT_CPU_AMX_INT8,
      &dt__kernels_amx },
#elif defined DETENT_SIMD && defined __aarch64__ && !defined DETENT_EMULATE
    { "neon-dot", DT_CPU_NEON_DOT, &dt__kernels_neon_dot },
#endif
};

const dt__kernel_set *dt__kernel_set_at(int index)
{
    return index >= 0 && index < DT__COUNT_OF(sets) ? &sets[index] : NULL;
}

bool dt__kernel_set_runs(const dt__kernel_set *set)
{
    return (set->needs & ~dt__cpu_offers()) == 0;
}

const dt__kernel_set *dt__kernel_set_of(const dt_ctx *ctx)
{
    for (int i = 0; i < DT__COUNT_OF(sets); i++) {
        if (sets[i].f32 == ctx->kernels[DT_F32]) return &sets[i];
    }
    return NULL;
}

/* The values of DETENT_CPU: the sets of all builds, so that scripts work with every build. A name
 * of another architecture is accepted and limits nothing. */
static const char *const names[] = { "plain",       "avx2",     "avx-vnni", "avx512-vnni",
                                     "avx512-bf16", "amx-int8", "neon-dot" };

/* The number of sets that the environment allows. */
static dt_status allowed(dt_ctx *ctx, int *count)
{
    *count = DT__COUNT_OF(sets);
    const char *name = getenv("DETENT_CPU");
    if (name == NULL || *name == 0) return DT_OK;
    for (int i = 0; i < DT__COUNT_OF(sets); i++) {
        if (strcmp(name, sets[i].name) == 0) *count = i + 1;
    }
    for (int i = 0; i < DT__COUNT_OF(names); i++) {
        if (strcmp(name, names[i]) == 0) return DT_OK;
    }
    return dt_fail(
        ctx, DT_ERR_ARG,
        "DETENT_CPU is '%s'; it can be plain, avx2, avx-vnni, avx512-vnni, avx512-bf16, amx-int8 "
        "or neon-dot",
        name);
}

dt_status dt__kernels_open(dt_ctx *ctx)
{
    if (ctx->kernels[DT_F32] != NULL) return DT_OK;
    int count;
    DT__TRY(allowed(ctx, &count));
    const uint64_t usable = (ctx->cpu_mask & dt__cpu_offers()) | DT_CPU_PLAIN;
    for (int i = 0; i < count; i++) {
        if ((sets[i].needs & ~usable) != 0) continue;
        ctx->kernels[DT_F32] = sets[i].f32;
    }
    ctx->kernels[DT_F64] = &dt__kernels_ref_f64;
    return DT_OK;
}

const char *dt_kernels_name(dt_ctx *ctx)
{
    if (ctx == NULL) return NULL;
    return dt__kernels_open(ctx) == DT_OK ? dt__kernel_set_of(ctx)->name : NULL;
}
