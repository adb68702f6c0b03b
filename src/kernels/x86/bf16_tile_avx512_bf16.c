/* Kernels of bf16 convolutions with AVX-512 BF16: tiles of up to 14 x 32 sums. Words of one operand
 * are broadcast from memory and multiplied by vectors of the other: vectors of positions in
 * bf16_lines, of outputs in bf16_sums. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"

#include <string.h>

#include "kernels/x86/bf16_vectors.inc"
#include "kernels/x86/products/gemm_rows.inc"

DT__INLINE floats word(const void *at)
{
    uint32_t bits;
    memcpy(&bits, at, sizeof bits);
    return _mm512_castsi512_ps(_mm512_set1_epi32((int)bits));
}

static __mmask16 first(int64_t n) { return (__mmask16)(n < 16 ? (1U << n) - 1 : 0xffff); }

/* Computes the rows of a strip for positions i ...; both counts are compile-time constants. */
DT__INLINE void line_tile(const dt__bf16_lines *l, int rows, int vectors, int64_t row, int64_t i)
{
    const uint32_t *w = l->w + row * l->words, *x = l->x + i;
    floats sum[DT__BF16_STRIP][2];
    DT__UNROLL
    for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = zero();
    for (int64_t p = 0; p < l->words; p++, w += rows) {
        floats b[2];
        DT__UNROLL
        for (int v = 0; v < vectors; v++) {
            b[v] = load((const float *)(const void *)(x + l->offset[p] + v * VECTOR));
        }
        DT__UNROLL
        for (int r = 0; r < rows; r++) {
            const floats a = word(w + r);
            DT__UNROLL
            for (int v = 0; v < vectors; v++) sum[r][v] = fused(a, b[v], sum[r][v]);
        }
    }
    float *y = l->y + row * l->ldy + i;
    DT__UNROLL
    for (int r = 0; r < rows; r++) {
        DT__UNROLL
        for (int v = 0; v < vectors; v++) {
            const int64_t left = l->n - i - v * VECTOR;
            _mm512_mask_storeu_ps(y + r * l->ldy + v * VECTOR, first(left), sum[r][v]);
        }
    }
}

/* Computes columns k ... times 16 or 32 lanes. */
DT__INLINE void sum_tile(const dt__bf16_sums *s, int rows, int vectors, int64_t k)
{
    float *dw = s->dw + k * s->lanes;
    floats sum[DT__BF16_STRIP][2];
    const uint16_t *x[DT__BF16_STRIP];
    DT__UNROLL
    for (int r = 0; r < rows; r++) {
        x[r] = s->x + s->offset[k + r];
        DT__UNROLL
        for (int v = 0; v < vectors; v++) sum[r][v] = load(dw + r * s->lanes + v * VECTOR);
    }
    const uint32_t *dy = s->dy;
    for (int64_t i = 0; i < s->rows; i++) {
        int64_t at = i * s->x_row;
        for (int64_t p = 0; p < s->words; p++, dy += s->lanes, at += 2) {
            floats b[2];
            DT__UNROLL
            for (int v = 0; v < vectors; v++) {
                b[v] = load((const float *)(const void *)(dy + v * VECTOR));
            }
            DT__UNROLL
            for (int r = 0; r < rows; r++) {
                const floats a = word(x[r] + at);
                DT__UNROLL
                for (int v = 0; v < vectors; v++) sum[r][v] = fused(a, b[v], sum[r][v]);
            }
        }
    }
    DT__UNROLL
    for (int r = 0; r < rows; r++) {
        DT__UNROLL
        for (int v = 0; v < vectors; v++) store(dw + r * s->lanes + v * VECTOR, sum[r][v]);
    }
}

typedef void run_lines(const dt__bf16_lines *l, int64_t row, int64_t i);
typedef void run_sums(const dt__bf16_sums *s, int64_t k);

#define HEIGHTS(TILE)                                                                              \
    TILE(1)                                                                                        \
    TILE(2)                                                                                        \
    TILE(3)                                                                                        \
    TILE(4) TILE(5) TILE(6) TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12) TILE(13) TILE(14)
#define TILE(rows)                                                                                 \
    static void lines_##rows##_1(const dt__bf16_lines *l, int64_t row, int64_t i)                  \
    {                                                                                              \
        line_tile(l, rows, 1, row, i);                                                             \
    }                                                                                              \
    static void lines_##rows##_2(const dt__bf16_lines *l, int64_t row, int64_t i)                  \
    {                                                                                              \
        line_tile(l, rows, 2, row, i);                                                             \
    }                                                                                              \
    static void sums_##rows##_1(const dt__bf16_sums *s, int64_t k) { sum_tile(s, rows, 1, k); }    \
    static void sums_##rows##_2(const dt__bf16_sums *s, int64_t k) { sum_tile(s, rows, 2, k); }
HEIGHTS(TILE)
#undef TILE

#define TILE(rows) { lines_##rows##_1, lines_##rows##_2 },
static run_lines *const line_tiles[DT__BF16_STRIP][2] = { HEIGHTS(TILE) };
#undef TILE
#define TILE(rows) { sums_##rows##_1, sums_##rows##_2 },
static run_sums *const sum_tiles[DT__BF16_STRIP][2] = { HEIGHTS(TILE) };
#undef TILE

void dt__bf16_lines__avx512_bf16(const dt__bf16_lines *l)
{
    const int64_t strips = dt__bf16_strips(l->outputs);
    for (int64_t i = 0; i < l->n; i += 2 * VECTOR) {
        for (int64_t s = 0; s < strips; s++) {
            const int64_t row = s * l->outputs / strips;
            const int64_t rows = (s + 1) * l->outputs / strips - row;
            line_tiles[rows - 1][l->n - i > VECTOR](l, row, i);
        }
    }
}

void dt__bf16_sums__avx512_bf16(const dt__bf16_sums *s)
{
    const int64_t strips = dt__bf16_strips(s->columns);
    for (int64_t i = 0; i < strips; i++) {
        const int64_t k = i * s->columns / strips, past = (i + 1) * s->columns / strips;
        sum_tiles[past - k - 1][s->lanes > VECTOR](s, k);
    }
}

/* Loads up to 16 elements; the others are 0. */
DT__INLINE floats elements(const float *x, int64_t step, int64_t n)
{
    if (step == 1) return _mm512_maskz_loadu_ps(first(n), x);
    if (step == 2) {
        const __m512i even =
            _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
        const floats low = _mm512_maskz_loadu_ps(first(2 * n - 1), x);
        const floats high = _mm512_maskz_loadu_ps(first(dt__max_i64(0, 2 * n - 17)), x + 16);
        return _mm512_permutex2var_ps(low, even, high);
    }
    float y[VECTOR] = { 0 };
    for (int64_t i = 0; i < n && i < VECTOR; i++) y[i] = x[i * step];
    return load(y);
}

/* Rows whose step is a compile-time constant. */
DT__INLINE void put_pairs(const dt__bf16_rows *r, int64_t step, const float *second, uint32_t *to)
{
    const float *x = r->x;
    for (int64_t k = 0; k < r->rows; k++, x += r->ldx, to += r->ldy) {
        for (int64_t i = 0; i < r->n; i += VECTOR) {
            const int64_t n = r->n - i;
            const floats high = elements(x + i * step, step, n);
            const floats low = second != NULL ? elements(second + i * step, step, n) : zero();
            _mm512_mask_storeu_ps(to + i, first(n), paired(high, low));
        }
        if (second != NULL) second += r->ldx;
    }
}

/* Up to 16 elements that are rounded; the others are 0. */
DT__INLINE __m256i halves(const uint16_t *x, int64_t step, int64_t n)
{
    if (step == 1) return _mm256_maskz_loadu_epi16(first(n), x);
    if (step == 2) { /* the low halves of words, which are floats of no more bits */
        const __m512i words = _mm512_castps_si512(_mm512_maskz_loadu_ps(first(n), x));
        return (__m256i)_mm512_cvtneps_pbh(_mm512_castsi512_ps(_mm512_slli_epi32(words, 16)));
    }
    uint16_t y[VECTOR] = { 0 };
    for (int64_t i = 0; i < n && i < VECTOR; i++) y[i] = x[i * step];
    return _mm256_loadu_si256((const __m256i *)(const void *)y);
}

DT__INLINE void put_halves(const dt__bf16_rows *r, int64_t step, uint16_t *to)
{
    for (int64_t k = 0; k < r->rows; k++, to += r->ldy) {
        for (int64_t i = 0; i < r->n; i += VECTOR) {
            const int64_t n = r->n - i, at = k * r->ldx + i * step;
            const __m256i half = r->halves != NULL
                                     ? halves(r->halves + at, step, n)
                                     : (__m256i)_mm512_cvtneps_pbh(elements(r->x + at, step, n));
            _mm256_mask_storeu_epi16(to + i, first(n), half);
        }
    }
}

void dt__bf16_pairs__avx512_bf16(const dt__bf16_rows *r, const float *second, uint32_t *to)
{
    if (r->step == 1) put_pairs(r, 1, second, to);
    else if (r->step == 2) put_pairs(r, 2, second, to);
    else put_pairs(r, r->step, second, to);
}

void dt__bf16_row__avx512_bf16(const dt__bf16_rows *r, uint16_t *to)
{
    if (r->step == 1) put_halves(r, 1, to);
    else if (r->step == 2) put_halves(r, 2, to);
    else put_halves(r, r->step, to);
}

void dt__bf16_panel__avx512_bf16(const dt__bf16_panel *p)
{
    enum { ROWS = 32, WORDS = 32 };
    float words[ROWS][WORDS], *to = (float *)(void *)p->to;
    if (p->rows < p->lanes) memset(to, 0, (size_t)((p->n + 1) / 2 * p->lanes) * sizeof *to);
    for (int64_t k = 0; k < p->n; k += 2 * WORDS) {
        const int64_t n = dt__min_i64(2 * WORDS, p->n - k);
        for (int64_t l = 0; l < p->rows; l++) {
            for (int64_t i = 0; i < n; i += VECTOR) {
                const floats x = elements(p->x + l * p->ldx + k + i, 1, n - i);
                _mm256_storeu_si256((__m256i *)(void *)(words[l] + i / 2),
                                    (__m256i)_mm512_cvtneps_pbh(x));
            }
        }
        gemm_pack_rows(p->rows, (n + 1) / 2, words[0], WORDS, p->lanes, to + k / 2 * p->lanes);
    }
    for (int64_t k = 0; k < (p->n + 1) / 2; k++) { /* fewer than 8 rows were written as 8 */
        for (int64_t l = p->rows; l < 8; l++) to[k * p->lanes + l] = 0;
    }
}
#endif
