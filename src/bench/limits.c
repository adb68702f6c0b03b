/* The limits of plain C: simple loops, as the compiler vectorizes them for the processors that it
 * builds for; and the table of all limits. Operands change from round to round, so that no product
 * can be hoisted out of the loop; results are returned, so that none is dropped. */
#include "bench/limits.h"

#include "core/core.h"

#define LANES 32
#define DEPTH 64

/* acc[j] += u[k] w[k][j], as in the plain integer product */
static uint64_t int8(int64_t rounds)
{
    int16_t w[DEPTH][LANES];
    uint8_t u[DEPTH];
    int32_t acc[LANES] = { 0 };
    for (int k = 0; k < DEPTH; k++) {
        u[k] = (uint8_t)(37 * k + 1);
        for (int j = 0; j < LANES; j++) w[k][j] = (int16_t)((11 * k + 7 * j) % 16 - 8);
    }
    for (int64_t r = 0; r < rounds; r++) {
        for (int k = 0; k < DEPTH; k += 4) {
            const int16_t a = u[k], b = u[k + 1], c = u[k + 2], d = u[k + 3];
            for (int j = 0; j < LANES; j++) {
                acc[j] += a * w[k][j] + b * w[k + 1][j] + c * w[k + 2][j] + d * w[k + 3][j];
            }
        }
        for (int j = 0; j < LANES; j++) acc[j] &= 0xffff;
        DT__BARRIER();
    }
    uint64_t sum = 0;
    for (int j = 0; j < LANES; j++) sum += (uint64_t)acc[j];
    return sum;
}

/* y[j] = y[j] a + b: rounding prevents combining several rounds. */
static double f32(int64_t rounds)
{
    float y[LANES];
    double sum = 0;
    for (int j = 0; j < LANES; j++) y[j] = (float)j;
    for (int64_t r = 0; r < rounds; r++) {
        for (int j = 0; j < LANES; j++) y[j] = y[j] * 0.999f + 0.5f;
    }
    for (int j = 0; j < LANES; j++) sum += (double)y[j];
    return sum;
}

static double f64(int64_t rounds)
{
    double y[LANES], sum = 0;
    for (int j = 0; j < LANES; j++) y[j] = j;
    for (int64_t r = 0; r < rounds; r++) {
        for (int j = 0; j < LANES; j++) y[j] = y[j] * 0.999 + 0.5;
    }
    for (int j = 0; j < LANES; j++) sum += y[j];
    return sum;
}

static uint64_t read(size_t bytes, const void *x)
{
    const uint64_t *from = x;
    uint64_t sum[8] = { 0 };
    for (size_t i = 0; i + 8 <= bytes / 8; i += 8) {
        for (int j = 0; j < 8; j++) sum[j] += from[i + (size_t)j];
    }
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

static void copy(size_t bytes, const void *x, void *y)
{
    const uint64_t *from = x;
    uint64_t *to = y;
    for (size_t i = 0; i + 8 <= bytes / 8; i += 8) {
        for (size_t j = 0; j < 8; j++) to[i + j] = from[i + j];
        DT__BARRIER(); /* otherwise the loop would become memcpy, which bypasses the caches */
    }
}

static const dt__limits plain = { .name = "plain",
                                  .int8_round = DEPTH * LANES,
                                  .f32_round = LANES,
                                  .f64_round = LANES,
                                  .int8 = int8,
                                  .f32 = f32,
                                  .f64 = f64,
                                  .read = read,
                                  .copy = copy };

static const dt__limits *const all[] = {
    &plain,
#if defined DETENT_SIMD && defined __x86_64__ && !defined DETENT_EMULATE
    &dt__limits_avx2, &dt__limits_avx_vnni, &dt__limits_avx512, &dt__limits_amx,
#endif
};

const dt__limits *dt__limits_at(int index)
{
    return index >= 0 && index < DT__COUNT_OF(all) ? all[index] : NULL;
}

const dt__limits *dt__limits_of(uint64_t offers)
{
    const dt__limits *best = &plain;
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        if ((all[i]->needs & ~offers) == 0) best = all[i];
    }
    return best;
}
