/* Matrix tiles of bf16 emulated by AVX-512 BF16, with the names of amx.h: registers 0 ... 3 are
 * sums, which are in memory; registers 4 ... 7 are operands, which are read in place.
 *
 * VDPBF16PS adds to one sum the products of the high halves, then those of the low ones, and
 * flushes both; TDPBF16PS has a sum of high halves and one of low halves, which it joins after 32
 * terms (dt__bf16_join). So pairs of words (h0 l0), (h1 l1) become (h0 h1), (l0 l1) first. */
#ifndef DT__KERNELS_X86_TILES_AVX512_BF16_H
#define DT__KERNELS_X86_TILES_AVX512_BF16_H

#include "kernels/products/bf16.h"

#include <stdint.h>
#include <string.h>

#define DT__TILE_ROWS 16
#define DT__TILE_BYTES 64
#define DT__TILE_SUMS 4

typedef struct dt__tile_operand {
    const char *at;
    int64_t stride;
} dt__tile_operand;

typedef struct dt__tiles {
    _Alignas(64) float sum[DT__TILE_SUMS][DT__TILE_ROWS][DT__TILE_ROWS];
    dt__tile_operand operand[DT__TILE_SUMS];
} dt__tiles;

static inline void dt__tiles_open(dt__tiles *t) { (void)t; }
static inline void dt__tiles_release(dt__tiles *t) { (void)t; }

DT__INLINE_NATIVE __m512 dt__tile_add(__m512 sum, __m512i a, uint32_t b)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)_mm512_set1_epi32((int32_t)b));
}

/* Flushes denormal numbers to zeros of their sign, as the instruction does with all sums. */
DT__INLINE_NATIVE __m512 dt__tile_flushed(__m512 x)
{
    return dt__tile_add(x, _mm512_setzero_si512(), 0x80008000);
}

static inline void dt__tile_load(dt__tiles *t, int n, const void *from, int64_t stride)
{
    if (n >= DT__TILE_SUMS) {
        t->operand[n - DT__TILE_SUMS] = (dt__tile_operand){ from, stride };
        return;
    }
    for (int r = 0; r < DT__TILE_ROWS; r++) {
        const __m512 x = _mm512_loadu_ps((const char *)from + r * stride);
        _mm512_store_ps(t->sum[n][r], dt__tile_flushed(x));
    }
}

static inline void dt__tile_store(const dt__tiles *t, int n, void *to, int64_t stride)
{
    for (int r = 0; r < DT__TILE_ROWS; r++) {
        memcpy((char *)to + r * stride, t->sum[n][r], DT__TILE_BYTES);
    }
}

/* (h0 l0) (h1 l1) of neighbouring words -> (h0 h1) (l0 l1). */
static inline __m512i dt__tile_row(const char *from)
{
    const __m128i places = _mm_setr_epi8(6, 7, 2, 3, 4, 5, 0, 1, 14, 15, 10, 11, 12, 13, 8, 9);
    return _mm512_shuffle_epi8(_mm512_loadu_si512(from), _mm512_broadcast_i32x4(places));
}

#define DT__TILE_TOGETHER 4 /* rows multiplied at once */

static void dt__tile_multiply(float (*sum)[DT__TILE_ROWS], const dt__tile_operand *a,
                              const dt__tile_operand *b)
{
    enum { PAIRS_OF_WORDS = DT__TILE_ROWS / 2 };
    _Alignas(64) uint32_t x[DT__TILE_ROWS][DT__TILE_ROWS];
    __m512i high[PAIRS_OF_WORDS], low[PAIRS_OF_WORDS];
    DT__UNROLL
    for (int k = 0; k < PAIRS_OF_WORDS; k++) {
        const __m512i u = _mm512_loadu_si512(b->at + 2 * k * b->stride);
        const __m512i v = _mm512_loadu_si512(b->at + (2 * k + 1) * b->stride);
        high[k] = _mm512_mask_blend_epi16(0x55555555, u, _mm512_srli_epi32(v, 16));
        low[k] = _mm512_mask_blend_epi16(0xaaaaaaaa, v, _mm512_slli_epi32(u, 16));
    }
    for (int r = 0; r < DT__TILE_ROWS; r++) {
        _mm512_store_si512(x[r], dt__tile_row(a->at + r * a->stride));
    }
    for (int r = 0; r < DT__TILE_ROWS; r += DT__TILE_TOGETHER) {
        __m512 even[DT__TILE_TOGETHER], odd[DT__TILE_TOGETHER];
        DT__UNROLL
        for (int i = 0; i < DT__TILE_TOGETHER; i++) even[i] = odd[i] = _mm512_setzero_ps();
        DT__UNROLL
        for (int k = 0; k < PAIRS_OF_WORDS; k++) {
            DT__UNROLL
            for (int i = 0; i < DT__TILE_TOGETHER; i++) {
                even[i] = dt__tile_add(even[i], high[k], x[r + i][2 * k]);
                odd[i] = dt__tile_add(odd[i], low[k], x[r + i][2 * k + 1]);
            }
        }
        DT__UNROLL
        for (int i = 0; i < DT__TILE_TOGETHER; i++) {
            const __m512 more = dt__tile_flushed(_mm512_add_ps(even[i], odd[i]));
            const __m512 all = _mm512_add_ps(_mm512_load_ps(sum[r + i]), more);
            _mm512_store_ps(sum[r + i], dt__tile_flushed(all));
        }
    }
}

#define DT__TILE_ZERO(t, n) memset((t)->sum[n], 0, sizeof(t)->sum[n])
#define DT__TILE_LOAD(t, n, from, stride) dt__tile_load(t, n, from, stride)
#define DT__TILE_STORE(t, n, to, stride) dt__tile_store(t, n, to, stride)
#define DT__TILE_MULTIPLY_BF16(t, c, a, b)                                                         \
    dt__tile_multiply((t)->sum[c], &(t)->operand[(a)-DT__TILE_SUMS],                               \
                      &(t)->operand[(b)-DT__TILE_SUMS])

#endif
