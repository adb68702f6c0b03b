/* Parts of a convolution of codes in plain C: a line of a depthwise one, and the transposition of a
 * tile [positions][outputs] into images. */
#include "kernels/kernels.h"

#include <math.h>

#define ROUND DT__DEPTHWISE_ROUND

/*     acc = -(zu * ksum);  per group  acc = fmaf((float)sum of u * q, s, acc);  y = sx * acc + bias
 * Loops run over positions, which compilers vectorize. */
static void depthwise_part(const dt__qdepthwise *d, const uint8_t *u, float *y)
{
    float acc[ROUND];
    for (int i = 0; i < ROUND; i++) acc[i] = -(d->zu * d->ksum);
    for (int64_t tap = 0, group = 0; tap < d->taps; group++) {
        const int64_t past = dt__min_i64(d->taps - tap, d->group) + tap;
        int32_t sum[ROUND] = { 0 };
        for (; tap < past; tap++) {
            const uint8_t *from = u + d->offset[tap];
            const int32_t code = d->codes[tap];
            for (int i = 0; i < ROUND; i++) sum[i] += from[i] * code;
        }
        for (int i = 0; i < ROUND; i++) acc[i] = fmaf((float)sum[i], d->scale[group], acc[i]);
    }
    for (int i = 0; i < ROUND; i++) y[i] = d->sx * acc[i];
    for (int i = 0; d->bias != NULL && i < ROUND; i++) y[i] += *d->bias;
}

void dt__qd8_depthwise__ref(const dt__qdepthwise *d)
{
    for (int64_t i = 0; i < d->n; i += ROUND) depthwise_part(d, d->u + i, d->y + i);
}

#define BLOCK 8

/* Works in blocks of 8 x 8, so that cache lines of x and of y are both used completely. */
void dt__transpose__ref(const dt__transpose *t)
{
    for (int64_t j0 = 0; j0 < t->columns; j0 += BLOCK) {
        const int64_t past = dt__min_i64(j0 + BLOCK, t->columns);
        for (int64_t i = 0; i < t->rows; i++) {
            for (int64_t j = j0; j < past; j++) t->y[j * t->ldy + i] = t->x[i * t->ldx + j];
        }
    }
}
