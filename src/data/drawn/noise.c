/* Random numbers for augmentation: offsets, and noise as the sum of eight uniform bytes, centred
 * and divided by its deviation [Irwin-Hall distribution: nearly normal]. */
#include "data/dataset.h"

#define DEVIATION_OF_8_BYTES 209.02153f /* sqrt(8 (256^2 - 1) / 12) */

int64_t dt__random_offset(uint32_t word, int64_t most)
{
    const uint64_t range = 2 * (uint64_t)most + 1;
    return (int64_t)((word * range) >> 32) - most;
}

/* The sum of the bytes of two words, centred, with deviation 1: nearly normal. */
static inline float draw_noise(uint32_t v, uint32_t w)
{
    const uint32_t ones = 0x00ff00ff;
    const uint32_t pair = (v & ones) + (v >> 8 & ones) + (w & ones) + (w >> 8 & ones);
    return (float)((int32_t)((pair & 65535) + (pair >> 16)) - 4 * 255) * (1 / DEVIATION_OF_8_BYTES);
}

void dt__add_noise(uint64_t key, uint64_t first, int64_t n, float scale, float *x)
{
    uint32_t word[4][DT__PHILOX_RUN];
    float z[2 * DT__PHILOX_RUN];
    for (; n > 0; n -= 2 * DT__PHILOX_RUN, x += 2 * DT__PHILOX_RUN, first += DT__PHILOX_RUN) {
        dt__philox_run(key, first, word);
        for (int i = 0; i < DT__PHILOX_RUN; i++) {
            z[i] = draw_noise(word[0][i], word[1][i]);
            z[DT__PHILOX_RUN + i] = draw_noise(word[2][i], word[3][i]);
        }
        const int64_t end = dt__min_i64(n, 2 * DT__PHILOX_RUN);
        for (int64_t i = 0; i < end; i++) x[i] += scale * z[i];
    }
}
