/* Instruction sets that the processor has and whose registers the system saves. x86: cpuid leaves 1
 * and 7, XCR0; source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1,
 * chapters 14, 15. AArch64: AT_HWCAP of the auxiliary vector; source: Linux's documentation,
 * arm64/elf_hwcaps. */
#define _DEFAULT_SOURCE /* syscall */
#include "kernels/sets.h"

#if defined __x86_64__
#include <cpuid.h>
#include <stddef.h>
#if defined __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { EAX, EBX, ECX, EDX };
enum { LEAF_1, LEAF_7, LEAF_7_1, LEAVES };

typedef struct need {
    int leaf, word;
    unsigned bits;
} need;

/* osxsave, avx, fma, f16c */
static const need avx2_needs[] = { { LEAF_1, ECX, 1U << 27 | 1U << 28 | 1U << 12 | 1U << 29 },
                                   { LEAF_7, EBX, 1U << 5 } };
static const need avx_vnni_needs[] = { { LEAF_7_1, EAX, 1U << 4 } };
/* f, dq, bw, vl; vnni */
static const need avx512_needs[] = { { LEAF_7, EBX, 1U << 16 | 1U << 17 | 1U << 30 | 1U << 31 },
                                     { LEAF_7, ECX, 1U << 11 } };
static const need bf16_needs[] = { { LEAF_7_1, EAX, 1U << 5 } };
/* amx-bf16, amx-tile, amx-int8 */
static const need amx_needs[] = { { LEAF_7, EDX, 1U << 22 | 1U << 24 | 1U << 25 } };

/* Reads each leaf once: in a virtual machine every cpuid exits to the host, which takes
 * microseconds. */
static void read_leaves(unsigned words[LEAVES][4])
{
    unsigned *w = words[LEAF_1];
    const unsigned last = (unsigned)__get_cpuid_max(0, NULL); /* an int in clang */
    if (last < 7) return;
    __cpuid(1, w[EAX], w[EBX], w[ECX], w[EDX]);
    w = words[LEAF_7];
    __cpuid_count(7, 0, w[EAX], w[EBX], w[ECX], w[EDX]);
    if (w[EAX] < 1) return; /* the last subleaf */
    w = words[LEAF_7_1];
    __cpuid_count(7, 1, w[EAX], w[EBX], w[ECX], w[EDX]);
}

static bool has(unsigned words[LEAVES][4], const need *needs, int n)
{
    for (int i = 0; i < n; i++) {
        if ((words[needs[i].leaf][needs[i].word] & needs[i].bits) != needs[i].bits) return false;
    }
    return true;
}

/* XCR0: the registers that the system saves for a thread. */
static unsigned kept(void)
{
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Linux lets a process use tiles only after a request, since they enlarge the signal frame; it
 * refuses if a signal stack is too small for that. Source: Linux's documentation, x86/xstate. */
static bool may_use_tiles(void)
{
#if defined __linux__
    const int request_permission = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}

uint64_t dt__cpu_has(void)
{
    const unsigned ymm = 0x6, zmm = 0xe6, tiles = 0x60000;
    unsigned words[LEAVES][4] = { { 0 } };
    read_leaves(words);
    if (!has(words, avx2_needs, DT__COUNT_OF(avx2_needs)) || (kept() & ymm) != ymm) return 0;
    uint64_t offers = DT_CPU_AVX2;
    if (has(words, avx_vnni_needs, DT__COUNT_OF(avx_vnni_needs))) offers |= DT_CPU_AVX_VNNI;
    if (has(words, avx512_needs, DT__COUNT_OF(avx512_needs)) && (kept() & zmm) == zmm) {
        offers |= DT_CPU_AVX512_VNNI;
        if (has(words, bf16_needs, DT__COUNT_OF(bf16_needs))) offers |= DT_CPU_AVX512_BF16;
    }
    if (has(words, amx_needs, DT__COUNT_OF(amx_needs)) && (kept() & tiles) == tiles &&
        may_use_tiles()) {
        offers |= DT_CPU_AMX_INT8;
    }
    return offers;
}
#elif defined __aarch64__ && defined __linux__
#include <sys/auxv.h>

uint64_t dt__cpu_has(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0 ? DT_CPU_NEON_DOT : 0;
}
#else
uint64_t dt__cpu_has(void) { return 0; }
#endif

uint64_t dt__cpu_offers(void)
{
#if defined DETENT_EMULATE
    return DT_CPU_PLAIN | DT_CPU_AVX2 | DT_CPU_AVX_VNNI | DT_CPU_AVX512_VNNI | DT_CPU_AVX512_BF16 |
           DT_CPU_AMX_INT8;
#else
    return DT_CPU_PLAIN | dt__cpu_has();
#endif
}
