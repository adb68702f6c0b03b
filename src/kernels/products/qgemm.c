/* The integer product of u8 activations and packed weights in plain C, by the formula of dt__qgemm
 * in panels.h (numerics §2). Faster kernels must give the same bits.
 *
 * Lanes are outputs, so the inner loops run over 32 independent lanes, which a compiler vectorizes.
 * A block of a panel is unpacked once to int16 and multiplied with all rows of a chunk. Panels and
 * chunks of rows are shared among threads; each output is computed by one. */
#include "kernels/products/qgemm.h"

#include <math.h>
#include <string.h>

#define ROWS 64   /* rows of activations per chunk */
#define DEPTH 256 /* columns unpacked at a time */

typedef int16_t lanes16[DT__LANES];
typedef int32_t lanes32[DT__LANES];
typedef void multiply(int64_t depth, const uint8_t *u, lanes16 *w, int32_t *sum);
typedef void unpack(const uint8_t *from, lanes16 *to);

static void unpack_nibbles(const uint8_t *from, lanes16 *to)
{
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 4; i++) {
            for (int j = 0; j < 16; j++) {
                const int byte = from[64 * half + 4 * j + i];
                to[i][16 * half + j] = (int16_t)(((byte & 15) ^ 8) - 8);
                to[4 + i][16 * half + j] = (int16_t)((byte >> 4 ^ 8) - 8);
            }
        }
    }
}

static void unpack_bytes(const uint8_t *from, lanes16 *to)
{
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 4; i++) {
            for (int j = 0; j < 16; j++) {
                to[i][16 * half + j] = (int8_t)from[128 * half + 4 * j + i];
                to[4 + i][16 * half + j] = (int8_t)from[128 * half + 64 + 4 * j + i];
            }
        }
    }
}

/* The sum of sixteen products of u8 and a nibble fits int16: 16 * 255 * 8 = 32640. */
static void multiply_nibbles(int64_t depth, const uint8_t *u, lanes16 *w, int32_t *sum)
{
    for (int64_t start = 0; start < depth; start += 16) {
        const int64_t end = dt__min_i64(start + 16, depth);
        lanes16 part = { 0 };
        for (int64_t k = start; k < end; k += 4) {
            const int16_t a = u[k], b = u[k + 1], c = u[k + 2], d = u[k + 3];
            for (int j = 0; j < DT__LANES; j++) {
                part[j] = (int16_t)(part[j] + a * w[k][j] + b * w[k + 1][j] + c * w[k + 2][j] +
                                    d * w[k + 3][j]);
            }
        }
        for (int j = 0; j < DT__LANES; j++) sum[j] += part[j];
    }
}

static void multiply_bytes(int64_t depth, const uint8_t *u, lanes16 *w, int32_t *sum)
{
    for (int64_t k = 0; k < depth; k += 4) {
        const int16_t a = u[k], b = u[k + 1], c = u[k + 2], d = u[k + 3];
        for (int j = 0; j < DT__LANES; j++) {
            sum[j] += a * w[k][j] + b * w[k + 1][j] + c * w[k + 2][j] + d * w[k + 3][j];
        }
    }
}

/* Whether rounding s to float may differ from rounding the exact sum once: s lies midway between
 * two floats, or below the normal ones. Tests the bits, for all lanes at once. */
static int is_unsure(const double s[DT__LANES])
{
    uint64_t bits[DT__LANES];
    memcpy(bits, s, sizeof bits);
    int unsure = 0;
    for (int j = 0; j < DT__LANES; j++) {
        const int32_t low = (int32_t)(bits[j] & 0x1fffffff);
        const int32_t high = (int32_t)(bits[j] >> 32 & 0x7fffffff);
        unsure |= low == 0x10000000;
        unsure |= (high > 0) & (high < 0x38200000); /* 0 < |s| < 2^-125 */
    }
    return unsure;
}

/* A double holds the product of two floats exactly, so only the rounding of the sum, first to
 * double and then to float, may differ from fmaf. */
void dt__add_scaled(const int32_t *sum, const float *scale, float *acc)
{
    double s[DT__LANES];
    for (int j = 0; j < DT__LANES; j++) {
        s[j] = (double)(float)sum[j] * (double)scale[j] + (double)acc[j];
    }
    if (is_unsure(s)) {
        for (int j = 0; j < DT__LANES; j++) acc[j] = fmaf((float)sum[j], scale[j], acc[j]);
    } else {
        for (int j = 0; j < DT__LANES; j++) acc[j] = (float)s[j];
    }
}

typedef struct tile {
    const dt__qgemm_part *part;
    multiply *multiply;
    unpack *unpack;
    float (*acc)[DT__LANES];
} tile;

/* Adds the codes of `depth` columns. */
static void add_codes(int64_t depth, lanes16 *w, int32_t *sum)
{
    for (int64_t k = 0; k < depth; k++) {
        for (int j = 0; j < DT__LANES; j++) sum[j] += w[k][j];
    }
}

/* With activations in blocks: sum becomes that of (u - 128) q_w, and scale s_w s_x. */
static void take_block(float block_scale, const int32_t *codes, int32_t *sum, float *scale)
{
    for (int j = 0; j < DT__LANES; j++) {
        sum[j] -= 128 * codes[j];
        scale[j] *= block_scale;
    }
}

static void add_piece(tile *t, const dt__piece *p)
{
    const dt__qgemm *g = t->part->g;
    const int rows = t->part->rows;
    lanes16 w[DEPTH];
    lanes32 sum[ROWS], codes = { 0 };
    float scale[DT__LANES], of_block[DT__LANES];
    memset(sum, 0, (size_t)rows * sizeof sum[0]);
    const uint8_t *from = t->part->panel + p->codes;
    for (int64_t start = 0; start < p->length; start += DEPTH) {
        const int64_t depth = dt__round_up(dt__min_i64(DEPTH, p->length - start), DT__STEP);
        for (int64_t k = 0; k < depth; k += DT__STEP, from += g->layout->step_bytes) {
            t->unpack(from, w + k);
        }
        const uint8_t *u = g->u + t->part->m0 * g->ldu + p->start + start;
        for (int m = 0; m < rows; m++) t->multiply(depth, u + m * g->ldu, w, sum[m]);
        if (g->block_scale != NULL) add_codes(depth, w, codes);
    }
    dt__panel_scales(g->layout->scale_dtype, t->part->panel + p->scales, scale);
    for (int m = 0; m < rows && g->block_scale == NULL; m++) {
        dt__add_scaled(sum[m], scale, t->acc[m]);
    }
    for (int m = 0; m < rows && g->block_scale != NULL; m++) {
        memcpy(of_block, scale, sizeof scale);
        take_block(dt__block_scales(g, t->part->m0 + m)[p->group], codes, sum[m], of_block);
        dt__add_scaled(sum[m], of_block, t->acc[m]);
    }
}

static void run_panel(const dt__qgemm_part *p, multiply *by, unpack *from)
{
    const dt__qgemm *g = p->g;
    const float *ksum = (const float *)(const void *)p->panel;
    float acc[ROWS][DT__LANES];
    tile t = { .part = p, .multiply = by, .unpack = from, .acc = acc };
    for (int m = 0; m < p->rows; m++) {
        dt__qgemm_begin(g, p->m0 + m, ksum, acc[m]);
    }
    for (int64_t i = 0; i < g->layout->pieces; i++) {
        const dt__piece piece = dt__piece_of(g->layout, i);
        add_piece(&t, &piece);
    }
    for (int m = 0; m < p->rows; m++) {
        float *y = dt__qgemm_row(g, p->m0 + m) + p->n0;
        const float sx = dt__qgemm_scale(g, p->m0 + m);
        for (int j = 0; j < p->lanes; j++) y[j] = sx * acc[m][j];
        for (int j = 0; g->bias != NULL && j < p->lanes; j++) y[j] += g->bias[p->n0 + j];
    }
}

static void run_nibbles(const dt__qgemm_range *r)
{
    for (int i = 0; i < r->panels; i++) {
        const dt__qgemm_part p = dt__qgemm_part_of(r, i);
        run_panel(&p, multiply_nibbles, unpack_nibbles);
    }
}

static void run_bytes(const dt__qgemm_range *r)
{
    for (int i = 0; i < r->panels; i++) {
        const dt__qgemm_part p = dt__qgemm_part_of(r, i);
        run_panel(&p, multiply_bytes, unpack_bytes);
    }
}

void dt__qd8_qb4_gemm__ref(const dt__qgemm *g)
{
    dt__qgemm_share(g, ROWS, DT__QGEMM_NEAR, run_nibbles);
}
void dt__qd8_qb8_gemm__ref(const dt__qgemm *g)
{
    dt__qgemm_share(g, ROWS, DT__QGEMM_NEAR, run_bytes);
}
