/* Products of gradients with matrix tiles (AMX-INT8), by the formula of dt__q7_product: TDPBSUD
 * adds 16 x 16 sums of up to 64 products of s8 and u8.
 *
 * A corner is 32 rows by the 32 lanes of a panel. A panel already has the order of tiles. Rows
 * whose words are not adjacent (blocks of dy by column) are copied to contiguous rows once for all
 * panels. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"
#include "kernels/x86/amx.h"

#define CORNER 32
#define HALF DT__TILE_ROWS
#define LINE (DT__Q7_WORD * DT__LANES) /* bytes of a word of all lanes of a panel */
#define TURNED DT__Q7_BLOCK            /* terms of rows that are copied, at most */
#define FEWEST 16                      /* rows and terms from which on tiles are used */

/* 32 rows, to be multiplied with all panels. */
typedef struct corner {
    const dt__q7_product *p;
    int64_t first; /* the first row */
    int rows;
    const int8_t *a; /* the first word of that row */
    int64_t row_step;
    int64_t whole;                                      /* terms that fill whole tiles */
    _Alignas(64) int8_t rest_a[CORNER][DT__TILE_BYTES]; /* the terms behind these, then zeros */
} corner;

/* Registers 0 to 3 hold sums of rows 0...15 and 16...31 by lanes 0...15 and 16...31; registers 4
 * and 5 the codes of these rows, 6 and 7 the terms of these lanes. */
static void configure(dt__tiles *t, int rows)
{
    const int upper = rows > HALF ? HALF : rows, lower = rows > HALF ? rows - HALF : 1;
    _Alignas(64) dt__tile_shapes shapes = { .palette = 1 };
    for (int i = 0; i < 8; i++) {
        shapes.bytes[i] = DT__TILE_BYTES;
        shapes.rows[i] = DT__TILE_ROWS;
    }
    shapes.rows[0] = shapes.rows[1] = shapes.rows[4] = (uint8_t)upper;
    shapes.rows[2] = shapes.rows[3] = shapes.rows[5] = (uint8_t)lower;
    dt__tiles_configure(t, &shapes);
}

/* Multiplies 64 terms. */
DT__INLINE void multiply_tiles(dt__tiles *t, bool two, const int8_t *a, int64_t row_step,
                               const uint8_t *panel)
{
    (void)t;
    DT__TILE_LOAD(t, 6, panel, LINE);
    DT__TILE_LOAD(t, 4, a, row_step);
    DT__TILE_MULTIPLY_SU(t, 0, 4, 6);
    DT__TILE_LOAD(t, 7, panel + LINE / 2, LINE);
    DT__TILE_MULTIPLY_SU(t, 1, 4, 7);
    if (!two) return;
    DT__TILE_LOAD(t, 5, a + HALF * row_step, row_step);
    DT__TILE_MULTIPLY_SU(t, 2, 5, 6);
    DT__TILE_MULTIPLY_SU(t, 3, 5, 7);
}

static void multiply_panel(dt__tiles *t, const corner *c, const uint8_t *panel,
                           int32_t (*sum)[DT__LANES])
{
    const bool two = c->rows > HALF;
    DT__TILE_ZERO(t, 0);
    DT__TILE_ZERO(t, 1);
    DT__TILE_ZERO(t, 2);
    DT__TILE_ZERO(t, 3);
    for (int64_t d = 0; d < c->whole; d += DT__TILE_BYTES) {
        multiply_tiles(t, two, c->a + d, c->row_step, panel + d * DT__LANES);
    }
    const int64_t left = c->p->depth - c->whole;
    if (left > 0) {
        _Alignas(64) uint8_t rest[DT__TILE_ROWS * LINE] = { 0 };
        memcpy(rest, panel + c->whole * DT__LANES, (size_t)(left * DT__LANES));
        multiply_tiles(t, two, c->rest_a[0], DT__TILE_BYTES, rest);
    }
    DT__TILE_STORE(t, 0, sum[0], sizeof *sum);
    DT__TILE_STORE(t, 1, sum[0] + HALF, sizeof *sum);
    if (!two) return;
    DT__TILE_STORE(t, 2, sum[HALF], sizeof *sum);
    DT__TILE_STORE(t, 3, sum[HALF] + HALF, sizeof *sum);
}

/* Adds the sums to c, for the corner's rows and columns j ... j + 31; `mask` has a bit for each
 * existing column. */
DT__INLINE void add_sums(const corner *of, bool add, int64_t j, const __mmask16 *mask,
                         int32_t (*sum)[DT__LANES])
{
    const dt__q7_product *p = of->p;
    for (int i = 0; i < of->rows; i++) {
        const int64_t r = of->first + i;
        const __m512i minus = _mm512_set1_epi32(p->minus[r]);
        const __m512 row = _mm512_set1_ps(p->row[r]);
        float *c = p->c + r * p->ldc + j;
        for (int v = 0; v < 2; v++, c += HALF) {
            const __m512i s = _mm512_sub_epi32(_mm512_load_si512(sum[i] + HALF * v), minus);
            __m512 y = _mm512_cvtepi32_ps(s);
            if (p->lane != NULL) {
                y = _mm512_mul_ps(y, _mm512_maskz_loadu_ps(mask[v], p->lane + j + HALF * v));
            }
            const __m512 to = add ? _mm512_maskz_loadu_ps(mask[v], c) : _mm512_setzero_ps();
            _mm512_mask_storeu_ps(c, mask[v], _mm512_fmadd_ps(y, row, to));
        }
    }
}

static __mmask16 lanes_of(int64_t n)
{
    return (__mmask16)(n >= HALF ? 0xffff : n <= 0 ? 0 : (1 << n) - 1);
}

static void run_corner(dt__tiles *t, const corner *c)
{
    const dt__q7_product *p = c->p;
    const uint8_t *panel = p->panels;
    _Alignas(64) int32_t sum[2][CORNER][DT__LANES];
    for (int64_t j = 0, i = 0; j < p->columns; j += DT__LANES, panel += p->panel_step, i++) {
        const __mmask16 mask[] = { lanes_of(p->columns - j), lanes_of(p->columns - j - HALF) };
        multiply_panel(t, c, panel, sum[i % 2]);
        if (p->add) add_sums(c, true, j, mask, sum[i % 2]);
        else add_sums(c, false, j, mask, sum[i % 2]);
    }
}

/* Transposes 16 x 16 words: row i of `to` is column i of x. */
DT__INLINE void transpose_words(const __m512i *x, int8_t *to)
{
    __m512i a[HALF], b[HALF];
    DT__UNROLL
    for (int i = 0; i < HALF; i += 2) {
        a[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    DT__UNROLL
    for (int i = 0; i < HALF; i += 4) {
        b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    DT__UNROLL
    for (int i = 0; i < 4; i++, to += TURNED) { /* rows i, 4 + i, 8 + i, 12 + i */
        const __m512i low = _mm512_shuffle_i32x4(b[i], b[4 + i], 0x44);
        const __m512i high = _mm512_shuffle_i32x4(b[i], b[4 + i], 0xee);
        const __m512i low2 = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0x44);
        const __m512i high2 = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0xee);
        _mm512_store_si512(to, _mm512_shuffle_i32x4(low, low2, 0x88));
        _mm512_store_si512(to + 4 * TURNED, _mm512_shuffle_i32x4(low, low2, 0xdd));
        _mm512_store_si512(to + 8 * TURNED, _mm512_shuffle_i32x4(high, high2, 0x88));
        _mm512_store_si512(to + 12 * TURNED, _mm512_shuffle_i32x4(high, high2, 0xdd));
    }
}

/* Copies the words [depth / 4] of the corner's rows, in which rows are adjacent, to rows of TURNED
 * bytes, padded with zeros. */
static void turn(const corner *c, int8_t (*to)[TURNED])
{
    const dt__q7_product *p = c->p;
    const int64_t words = p->depth / DT__Q7_WORD;
    for (int r = 0; r < c->rows; r += HALF) {
        const __mmask16 rows = lanes_of(c->rows - r);
        for (int64_t w = 0; w < words; w += HALF) {
            const int8_t *from = p->a + (c->first + r) * DT__Q7_WORD + w * p->word_step;
            __m512i x[HALF];
            for (int i = 0; i < HALF; i++, from += p->word_step) {
                x[i] = _mm512_setzero_si512();
                if (w + i >= words) continue;
                x[i] = _mm512_castps_si512(
                    _mm512_maskz_loadu_ps(rows, (const float *)(const void *)from));
            }
            transpose_words(x, to[r] + w * DT__Q7_WORD);
        }
    }
}

static void run_rows(dt__tiles *t, const dt__q7_product *p, int64_t first, int rows)
{
    _Alignas(64) int8_t turned[CORNER][TURNED];
    corner c = { .p = p, .first = first, .rows = rows };
    if (p->word_step == DT__Q7_WORD) {
        c.a = p->a + first * p->row_step;
        c.row_step = p->row_step;
        c.whole = p->depth / DT__TILE_BYTES * DT__TILE_BYTES;
        for (int r = 0; r < rows && c.whole < p->depth; r++) {
            memset(c.rest_a[r], 0, DT__TILE_BYTES);
            memcpy(c.rest_a[r], c.a + r * c.row_step + c.whole, (size_t)(p->depth - c.whole));
        }
    } else {
        turn(&c, turned);
        c.a = turned[0];
        c.row_step = TURNED;
        c.whole = p->depth / DT__TILE_BYTES * DT__TILE_BYTES;
        for (int r = 0; r < rows && c.whole < p->depth; r++) {
            memcpy(c.rest_a[r], turned[r] + c.whole, DT__TILE_BYTES);
        }
    }
    run_corner(t, &c);
}

void dt__q7_gemm__amx(const dt__q7_product *p)
{
    const bool rows = p->word_step == DT__Q7_WORD;
    const bool side_by_side = p->row_step == DT__Q7_WORD && p->depth <= TURNED;
    if (p->rows < FEWEST || p->depth < FEWEST || (!rows && !side_by_side)) {
        dt__q7_gemm__avx512(p);
        return;
    }
    dt__tiles t;
    configure(&t, CORNER);
    for (int64_t r = 0; r < p->rows; r += CORNER) {
        const int n = (int)dt__min_i64(CORNER, p->rows - r);
        if (n < CORNER) configure(&t, n);
        run_rows(&t, p, r, n);
    }
    dt__tiles_release(&t);
}
#endif
