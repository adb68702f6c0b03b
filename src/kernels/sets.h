/* Tables of kernels for instruction sets, best last. All give the bits of plain C. */
#ifndef DT__KERNELS_SETS_H
#define DT__KERNELS_SETS_H

#include "kernels/kernels.h"

typedef struct dt__kernel_set {
    const char *name;       /* as DETENT_CPU has it */
    uint64_t needs;         /* bits of DT_CPU_... */
    const dt__kernels *f32; /* no entry is NULL */
} dt__kernel_set;

#define DT__MOST_SETS 6 /* of a build */

/* The set at `index`, from "plain" on; NULL past the last. */
const dt__kernel_set *dt__kernel_set_at(int index);
/* The DT_CPU_... bits of vectors and tiles that the processor and the system support. */
uint64_t dt__cpu_has(void);
/* The bits that kernels of this build may use: those above, and plain C; in an emulating build all
 * bits of x86. */
uint64_t dt__cpu_offers(void);
/* Whether the processor can run the set's kernels. */
bool dt__kernel_set_runs(const dt__kernel_set *set);
/* The set of a context, after dt__kernels_open. */
const dt__kernel_set *dt__kernel_set_of(const dt_ctx *ctx);

/* Prototypes of kernels written by hand, dt__<name>__<set>. */
#define DT__KERNEL_F32(name, result, arguments)                                                    \
    result dt__##name##__avx2 arguments;                                                           \
    result dt__##name##__avx_vnni arguments;                                                       \
    result dt__##name##__avx512 arguments;                                                         \
    result dt__##name##__avx512_bf16 arguments;                                                    \
    result dt__##name##__amx arguments;                                                            \
    result dt__##name##__neon_dot arguments;
#define DT__KERNEL(name, arguments) DT__KERNEL_F32(name, void, arguments)
#include "kernels/kernels.inc"
#undef DT__KERNEL
#undef DT__KERNEL_F32

extern const dt__kernels dt__kernels_avx2, dt__kernels_avx_vnni, dt__kernels_avx512,
    dt__kernels_avx512_bf16, dt__kernels_amx, dt__kernels_neon_dot;

#endif
