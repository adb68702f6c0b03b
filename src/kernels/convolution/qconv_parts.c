/* Parts of a convolution of codes in plain C: a line of a depthwise one, and a tile of the others;
 * and a transposition. */
#include "kernels/products/qgemm.h"

#include <math.h>
#include <string.h>

#define ROUND DT__DEPTHWISE_ROUND

typedef int32_t line[ROUND];

/* Adds the products of a word's taps. Loops run over positions, which compilers vectorize. */
static inline void add_word_taps(int64_t step, const uint8_t *u, const dt__taps *w,
                                 const int8_t codes[4], line sum)
{
    for (int k = 0; k < 4; k++) {
        if (codes[k] == 0) continue; /* an absent tap */
        const uint8_t *from = u + w->offset + w->at[k];
        for (int i = 0; i < ROUND; i++) sum[i] += from[i * step] * codes[k];
    }
}

static void add_taps(int64_t step, const uint8_t *u, const dt__taps *w, const int8_t codes[4],
                     line sum)
{
    if (step == 1) add_word_taps(1, u, w, codes, sum);
    else if (step == 2) add_word_taps(2, u, w, codes, sum);
    else add_word_taps(step, u, w, codes, sum);
}

/*     acc = -(zu * ksum);  per group  acc = fmaf((float)sum of u * q, s, acc);  y = sx * acc + bias
 */
static void depthwise_part(const dt__qdepthwise *d, const uint8_t *u, float *y)
{
    float acc[ROUND];
    for (int i = 0; i < ROUND; i++) acc[i] = -(d->zu * d->ksum);
    for (int64_t group = 0, word = 0; group < d->groups; group++) {
        line sum = { 0 };
        for (const int64_t past = word + d->length[group]; word < past; word++) {
            add_taps(d->step, u, &d->word[word], d->codes[word], sum);
        }
        for (int i = 0; i < ROUND; i++) acc[i] = fmaf((float)sum[i], d->scale[group], acc[i]);
    }
    for (int i = 0; i < ROUND; i++) y[i] = d->sx * acc[i];
    for (int i = 0; d->bias != NULL && i < ROUND; i++) y[i] += *d->bias;
}

void dt__qd8_depthwise__ref(const dt__qdepthwise *d)
{
    for (int64_t i = 0; i < d->n; i += ROUND) depthwise_part(d, d->u + i * d->step, d->y + i);
}

#define EACH 2 /* outputs computed at once */
typedef int32_t lanes[EACH][DT__BLOCK];

/* Adds the products of n words with the codes of EACH outputs. */
static void add_words(int64_t n, const uint8_t *u, const uint8_t *w, lanes sum)
{
    for (int64_t i = 0; i < n; i++, u += 4 * DT__BLOCK, w += 4 * DT__OCTET) {
        for (int j = 0; j < EACH; j++) {
            const int a = (int8_t)w[4 * j], b = (int8_t)w[4 * j + 1];
            const int c = (int8_t)w[4 * j + 2], d = (int8_t)w[4 * j + 3];
            for (int m = 0; m < DT__BLOCK; m++) {
                sum[j][m] += u[4 * m] * a + u[4 * m + 1] * b + u[4 * m + 2] * c + u[4 * m + 3] * d;
            }
        }
    }
}

static void store_sums(const dt__qtile *t, int64_t o, int64_t m0, lanes sum)
{
    const int64_t n = dt__min_i64(DT__BLOCK, t->positions - m0);
    for (int j = 0; j < EACH && o + j < t->outputs; j++) {
        memcpy(t->sums + (o + j) * t->ldy + m0, sum[j], (size_t)n * sizeof sum[j][0]);
    }
}

/* Outputs o ... o + EACH - 1 of a block. */
static void tile_part(const dt__qtile *t, int64_t block, int64_t o)
{
    const int64_t octet = o / DT__OCTET, at = o % DT__OCTET, m0 = block * DT__BLOCK;
    const uint8_t *u = t->u + block * t->words * 4 * DT__BLOCK;
    const uint8_t *w = t->w + (octet * t->words * DT__OCTET + at) * 4;
    const int64_t n = dt__min_i64(DT__BLOCK, t->positions - m0);
    float acc[EACH][DT__BLOCK], scale[EACH][DT__BLOCK];
    for (int j = 0; j < EACH; j++) {
        const float ksum = t->ksum[o + j];
        for (int m = 0; m < DT__BLOCK; m++) acc[j][m] = -(t->zu_f[m0 + m] * ksum);
    }
    for (int64_t i = 0; i < t->pieces; i++) {
        const int64_t part = (octet * t->pieces + i) * DT__OCTET + at, length = t->length[i];
        lanes sum = { { 0 } };
        add_words(length, u, w, sum);
        u += length * 4 * DT__BLOCK;
        w += length * 4 * DT__OCTET;
        for (int j = 0; j < EACH; j++) {
            /* u may hold anything behind position n */
            for (int64_t m = n; m < DT__BLOCK; m++) sum[j][m] = 0;
            const int32_t absent = t->absent == NULL ? 0 : t->absent[part + j];
            for (int m = 0; m < DT__BLOCK; m++) sum[j][m] += absent * t->zu[m0 + m];
            for (int m = 0; m < DT__BLOCK; m++) scale[j][m] = t->scale[part + j];
        }
        if (t->sums != NULL) {
            store_sums(t, o, m0, sum);
            return;
        }
        dt__add_scaled(sum[0], scale[0], acc[0]);
    }
    for (int j = 0; j < EACH && o + j < t->outputs; j++) {
        float *y = t->y + (o + j) * t->ldy + m0;
        for (int64_t m = 0; m < n; m++) y[m] = t->sx[m0 + m] * acc[j][m];
        for (int64_t m = 0; t->bias != NULL && m < n; m++) y[m] += t->bias[o + j];
    }
}

void dt__qd8_tile__ref(const dt__qtile *t)
{
    for (int64_t b = 0; b * DT__BLOCK < t->positions; b++) {
        for (int64_t o = 0; o < t->outputs; o += EACH) tile_part(t, b, o);
    }
}

#define BLOCK 8

/* Transposes blocks of 8 x 8, so that whole cache lines of x and of y are used. */
void dt__transpose__ref(const dt__transpose *t)
{
    for (int64_t j0 = 0; j0 < t->columns; j0 += BLOCK) {
        const int64_t past = dt__min_i64(j0 + BLOCK, t->columns);
        for (int64_t i = 0; i < t->rows; i++) {
            for (int64_t j = j0; j < past; j++) t->y[j * t->ldy + i] = t->x[i * t->ldx + j];
        }
    }
}
