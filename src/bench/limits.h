/* Loops that run one kind of operation at the processor's full rate, as limits for kernels. They
 * are written so that compilers cannot omit any part. */
#ifndef DT__BENCH_LIMITS_H
#define DT__BENCH_LIMITS_H

#include <stddef.h>
#include <stdint.h>

typedef struct dt__limits {
    const char *name; /* name of the lowest set of kernels (sets.h) that they bound */
    uint64_t needs;   /* bits of DT_CPU_... */
    /* `rounds` times `int8_round` multiply-adds of u8 and s8, `f32_round` of floats, `f64_round` of
     * doubles */
    int64_t int8_round, f32_round, f64_round;
    uint64_t (*int8)(int64_t rounds);
    double (*f32)(int64_t rounds);
    double (*f64)(int64_t rounds);
    /* the sum of the contents of `bytes` bytes, a multiple of 512 */
    uint64_t (*read)(size_t bytes, const void *x);
    /* y = x through the caches, by the loads and stores that a kernel uses */
    void (*copy)(size_t bytes, const void *x, void *y);
} dt__limits;

/* The limits at `index`, from "plain" on; NULL past the last. */
const dt__limits *dt__limits_at(int index);
/* The limits for the set of kernels that needs `offers`, or for the next lower set that has
 * limits. */
const dt__limits *dt__limits_of(uint64_t offers);

extern const dt__limits dt__limits_avx2, dt__limits_avx_vnni, dt__limits_avx512, dt__limits_amx;

/* AMX-INT8: multiply-adds per round, and the function `int8`. */
#define DT__LIMITS_TILES_ROUND (4 * 16 * 16 * 64)
uint64_t dt__limits_tiles(int64_t rounds);

/* A compiler barrier: memory accesses are not moved across it. */
#define DT__BARRIER() __asm__ volatile("" ::: "memory")

#endif
