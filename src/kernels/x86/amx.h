/* Matrix tiles (AMX-INT8): eight registers of up to 16 rows of 64 bytes, whose shapes a
 * configuration sets for all of them. Source of the semantics: Intel 64 and IA-32 Architectures
 * Software Developer's Manual, volume 1, chapter 18, and volume 2 (TDPBUSD and its neighbours).
 *
 * A thread configures tiles at the beginning of a piece of work and releases them at its end, so
 * that neither other code nor a context switch has to save their state. The instructions are inline
 * assembly: the intrinsics of gcc 12 do not say which memory they read. An emulating build computes
 * them in plain C, with the registers in a `dt__tiles` on the stack. */
#ifndef DT__KERNELS_X86_AMX_H
#define DT__KERNELS_X86_AMX_H

#include "kernels/products/bf16.h"

#include <stdint.h>
#include <string.h>

#define DT__TILE_ROWS 16
#define DT__TILE_BYTES 64

/* The operand of LDTILECFG: for each register the bytes of a row, and the number of rows. */
typedef struct dt__tile_shapes {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} dt__tile_shapes;

#if defined DETENT_EMULATE

typedef struct dt__tiles {
    dt__tile_shapes shapes;
    uint8_t at[8][DT__TILE_ROWS][DT__TILE_BYTES];
} dt__tiles;

static inline void dt__tiles_configure(dt__tiles *t, const dt__tile_shapes *shapes)
{
    memset(t, 0, sizeof *t);
    t->shapes = *shapes;
}

static inline void dt__tiles_release(dt__tiles *t) { memset(t, 0, sizeof *t); }

static inline void dt__tile_load(dt__tiles *t, int n, const void *from, int64_t stride)
{
    memset(t->at[n], 0, sizeof t->at[n]);
    for (int r = 0; r < t->shapes.rows[n]; r++) {
        memcpy(t->at[n][r], (const uint8_t *)from + r * stride, t->shapes.bytes[n]);
    }
}

static inline void dt__tile_store(const dt__tiles *t, int n, void *to, int64_t stride)
{
    for (int r = 0; r < t->shapes.rows[n]; r++) {
        memcpy((uint8_t *)to + r * stride, t->at[n][r], t->shapes.bytes[n]);
    }
}

static inline int dt__tile_byte(uint8_t byte, int is_signed)
{
    return is_signed ? (int8_t)byte : byte;
}

/* c[r][j] += the sum over k and i of a[r][4 k + i] b[k][4 j + i] */
static inline void dt__tile_multiply(dt__tiles *t, int c, int a, int b, int a_signed)
{
    for (int r = 0; r < t->shapes.rows[c]; r++) {
        int32_t sum[DT__TILE_ROWS];
        memcpy(sum, t->at[c][r], sizeof sum);
        for (int k = 0; k < t->shapes.bytes[a]; k++) {
            const int x = dt__tile_byte(t->at[a][r][k], a_signed);
            for (int j = 0; j < t->shapes.bytes[c] / 4; j++) {
                sum[j] += x * dt__tile_byte(t->at[b][k / 4][4 * j + k % 4], !a_signed);
            }
        }
        memcpy(t->at[c][r], sum, sizeof sum);
    }
}

#define DT__TILE_ZERO(t, n) memset((t)->at[n], 0, sizeof(t)->at[n])
#define DT__TILE_LOAD(t, n, from, stride) dt__tile_load(t, n, from, stride)
#define DT__TILE_STORE(t, n, to, stride) dt__tile_store(t, n, to, stride)
#define DT__TILE_MULTIPLY_US(t, c, a, b) dt__tile_multiply(t, c, a, b, 0)
#define DT__TILE_MULTIPLY_SU(t, c, a, b) dt__tile_multiply(t, c, a, b, 1)

#else

typedef struct dt__tiles {
    char none;
} dt__tiles;

static inline void dt__tiles_configure(dt__tiles *t, const dt__tile_shapes *shapes)
{
    (void)t;
    __asm__ volatile("ldtilecfg %0" ::"m"(*shapes) : "memory");
}

static inline void dt__tiles_release(dt__tiles *t)
{
    (void)t;
    __asm__ volatile("tilerelease" ::: "memory");
}

/* Numbers of registers are literals. US: a is unsigned and b signed; SU: the other way. */
#define DT__TILE_ZERO(t, n) __asm__ volatile("tilezero %%tmm" #n ::: "memory")
#define DT__TILE_LOAD(t, n, from, stride)                                                          \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #n                                               \
                     :                                                                             \
                     : "r"(from), "r"((int64_t)(stride))                                           \
                     : "memory")
#define DT__TILE_STORE(t, n, to, stride)                                                           \
    __asm__ volatile("tilestored %%tmm" #n ", (%0,%1,1)" ::"r"(to), "r"((int64_t)(stride))         \
                     : "memory")
#define DT__TILE_MULTIPLY_US(t, c, a, b)                                                           \
    __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::: "memory")
#define DT__TILE_MULTIPLY_SU(t, c, a, b)                                                           \
    __asm__ volatile("tdpbsud %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::: "memory")

#endif

/* All registers with 16 rows of 64 bytes. */
static inline void dt__tiles_open(dt__tiles *t)
{
    static const _Alignas(64) dt__tile_shapes shapes = {
        .palette = 1,
        .bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
        .rows = { 16, 16, 16, 16, 16, 16, 16, 16 },
    };
    dt__tiles_configure(t, &shapes);
}

/* TDPBF16PS, for processors with AMX-BF16: adds to c[r][j] the products of rows of bf16 pairs, in
 * the order of dt__bf16_join (kernels/products/bf16.h). */
#if defined DETENT_EMULATE
static inline void dt__tile_multiply_bf16(dt__tiles *t, int c, int a, int b)
{
    for (int r = 0; r < t->shapes.rows[c]; r++) {
        float sum[DT__TILE_ROWS], part[2][DT__TILE_ROWS] = { { 0 } };
        uint16_t x[DT__TILE_BYTES / 2], y[DT__TILE_BYTES / 2];
        memcpy(sum, t->at[c][r], sizeof sum);
        memcpy(x, t->at[a][r], sizeof x);
        for (int k = 0; k < t->shapes.bytes[a] / 2; k++) {
            memcpy(y, t->at[b][k / 2], sizeof y);
            const float by = dt__bf16_value(x[k]);
            for (int j = 0; j < t->shapes.bytes[c] / 4; j++) {
                float *to = &part[k % 2][j];
                *to = dt__bf16_fused(by, dt__bf16_value(y[2 * j + k % 2]), *to);
            }
        }
        dt__bf16_join(t->shapes.bytes[c] / 4, part[0], part[1], sum);
        memcpy(t->at[c][r], sum, sizeof sum);
    }
}

#define DT__TILE_MULTIPLY_BF16(t, c, a, b) dt__tile_multiply_bf16(t, c, a, b)
#else
#define DT__TILE_MULTIPLY_BF16(t, c, a, b)                                                         \
    __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::: "memory")
#endif

#endif
