/* Kernels of bf16 convolutions with matrix tiles (AMX-BF16): 32 x 32 sums in four registers. A tile
 * is loaded fast where its rows are cache lines, which rows of a canvas are not. So vectors copy
 * what a block of sums needs to a buffer on the stack first:
 *     tile_lines   words of 32 positions, as the second operand
 *     tile_sums    words of 32 columns, as the first operand */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"
#include "kernels/x86/amx.h"

#include <string.h>

#define SIDE DT__BF16_TILE_SIDE
#define LANES (2 * SIDE)
#define TILE_BYTES DT__TILE_BYTES

typedef __m512 vector;
DT__INLINE vector load(const void *from) { return _mm512_loadu_ps(from); }
DT__INLINE void store(void *to, vector x) { _mm512_storeu_ps(to, x); }

/* Sums of up to 2 x 2 tiles, which continue what is in memory, `ld` elements apart; fewer rows or
 * lanes than tiles have go through a block. */
typedef struct corner {
    bool add, lower, right; /* whether sums exist; rows and lanes from 16 on */
    int64_t rows, lanes;
    float *at;
    int64_t ld;
} corner;

typedef float block[LANES][LANES];

DT__INLINE bool is_whole(const corner *c)
{
    return c->rows == (c->lower ? 2 : 1) * SIDE && c->lanes == (c->right ? 2 : 1) * SIDE;
}

DT__INLINE void begin_tiles(dt__tiles *t, const corner *c, const float *from, int64_t bytes)
{
    (void)t;
    if (!c->add) {
        DT__TILE_ZERO(t, 0);
        DT__TILE_ZERO(t, 1);
        DT__TILE_ZERO(t, 2);
        DT__TILE_ZERO(t, 3);
        return;
    }
    const float *lower = (const float *)(const void *)((const char *)from + SIDE * bytes);
    DT__TILE_LOAD(t, 0, from, bytes);
    if (c->right) DT__TILE_LOAD(t, 1, from + SIDE, bytes);
    if (c->lower) DT__TILE_LOAD(t, 2, lower, bytes);
    if (c->lower && c->right) DT__TILE_LOAD(t, 3, lower + SIDE, bytes);
}

DT__INLINE void end_tiles(dt__tiles *t, const corner *c, float *to, int64_t bytes)
{
    float *lower = (float *)(void *)((char *)to + SIDE * bytes);
    (void)t;
    DT__TILE_STORE(t, 0, to, bytes);
    if (c->right) DT__TILE_STORE(t, 1, to + SIDE, bytes);
    if (c->lower) DT__TILE_STORE(t, 2, lower, bytes);
    if (c->lower && c->right) DT__TILE_STORE(t, 3, lower + SIDE, bytes);
}

static void begin_sums(dt__tiles *t, const corner *c, block room)
{
    if (is_whole(c) || !c->add) {
        begin_tiles(t, c, c->at, c->ld * (int64_t)sizeof(float));
        return;
    }
    for (int64_t r = 0; r < c->rows; r++) {
        memcpy(room[r], c->at + r * c->ld, (size_t)c->lanes * sizeof(float));
    }
    begin_tiles(t, c, room[0], sizeof room[0]);
}

static void end_sums(dt__tiles *t, const corner *c, block room)
{
    if (is_whole(c)) {
        end_tiles(t, c, c->at, c->ld * (int64_t)sizeof(float));
        return;
    }
    end_tiles(t, c, room[0], sizeof room[0]);
    for (int64_t r = 0; r < c->rows; r++) {
        memcpy(c->at + r * c->ld, room[r], (size_t)c->lanes * sizeof(float));
    }
}

/* Both operands of a corner: tiles of 16 words, `next` bytes apart, of rows `row` bytes apart. The
 * lower tile of a and the right tile of b lie `other` bytes behind. */
typedef struct operand {
    const char *at;
    int64_t row, next, other;
} operand;

DT__INLINE void add_words(dt__tiles *t, bool lower, bool right, int64_t tiles, const operand *a,
                          const operand *b)
{
    const char *x = a->at, *y = b->at;
    (void)t;
    for (int64_t i = 0; i < tiles; i++, x += a->next, y += b->next) {
        DT__TILE_LOAD(t, 4, x, a->row);
        DT__TILE_LOAD(t, 6, y, b->row);
        DT__TILE_MULTIPLY_BF16(t, 0, 4, 6);
        if (right) {
            DT__TILE_LOAD(t, 7, y + b->other, b->row);
            DT__TILE_MULTIPLY_BF16(t, 1, 4, 7);
        }
        if (lower) {
            DT__TILE_LOAD(t, 5, x + a->other, a->row);
            DT__TILE_MULTIPLY_BF16(t, 2, 5, 6);
            if (right) DT__TILE_MULTIPLY_BF16(t, 3, 5, 7);
        }
    }
}

static void add_corner(dt__tiles *t, const corner *c, int64_t tiles, const operand *a,
                       const operand *b)
{
    _Alignas(64) block room;
    begin_sums(t, c, room);
    if (c->lower && c->right) add_words(t, true, true, tiles, a, b);
    else if (c->lower) add_words(t, true, false, tiles, a, b);
    else if (c->right) add_words(t, false, true, tiles, a, b);
    else add_words(t, false, false, tiles, a, b);
    end_sums(t, c, room);
}

/* ---- lines ----------------------------------------------------------------------------------- */

#define SEGMENT 256 /* words that are copied at once, at most */

/* Copies `words` words from `first` on of 32 positions; zeros complete the last tile. */
static void copy_words(const dt__bf16_lines *l, int64_t first, int64_t words, int64_t i,
                       uint32_t (*to)[LANES])
{
    const uint32_t *x = l->x + i;
    const int32_t *offset = l->offset + first;
    for (int64_t p = 0; p < words; p++) {
        const vector left = load(x + offset[p]), right = load(x + offset[p] + SIDE);
        store(to[p], left);
        store(to[p] + SIDE, right);
    }
    for (int64_t p = words; p % SIDE != 0; p++) memset(to[p], 0, sizeof to[p]);
}

void dt__tile_lines__amx(const dt__bf16_lines *l)
{
    _Alignas(64) uint32_t copy[SEGMENT][LANES];
    const int64_t rows = dt__round_up(l->outputs, SIDE), tile = SIDE * TILE_BYTES;
    const int64_t segments = dt__max_i64(1, dt__ceil_div(l->words, SEGMENT));
    dt__tiles t;
    dt__tiles_open(&t);
    for (int64_t i = 0; i < l->n; i += LANES) {
        for (int64_t s = 0; s < segments; s++) {
            const int64_t words = dt__min_i64(SEGMENT, l->words - s * SEGMENT);
            copy_words(l, s * SEGMENT, words, i, copy);
            const operand b = { (const char *)copy, sizeof copy[0], SIDE * sizeof copy[0],
                                TILE_BYTES };
            for (int64_t o = 0; o < l->outputs; o += LANES) {
                const operand a = { (const char *)(l->w + (s * SEGMENT * rows + o * SIDE)),
                                    TILE_BYTES, rows * TILE_BYTES, tile };
                corner c = { .add = s > 0, .at = l->y + o * l->ldy + i, .ld = l->ldy };
                c.rows = dt__min_i64(LANES, l->outputs - o);
                c.lanes = dt__min_i64(LANES, l->n - i);
                c.lower = c.rows > SIDE;
                c.right = c.lanes > SIDE;
                add_corner(&t, &c, dt__ceil_div(words, SIDE), &a, &b);
            }
        }
    }
    dt__tiles_release(&t);
}

/* ---- sums ------------------------------------------------------------------------------------ */

#define CHUNK 128 /* words of a column that are copied at once, at most */

/* Rows an odd number of cache lines apart, and room for a vector behind the last word. */
typedef uint32_t copied[LANES][CHUNK + SIDE];

/* Copies words first ... past-1 of a column, which lie in pieces; zeros complete the last tile. */
static void copy_column(const dt__bf16_sums *s, int64_t first, int64_t past, int64_t k,
                        uint32_t *to)
{
    int64_t r = first / s->words, p = first % s->words;
    for (int64_t at = first; at < past; r++, p = 0) {
        const int64_t piece = dt__min_i64(s->words - p, past - at);
        const uint16_t *x = s->x + s->offset[k] + r * s->x_row + 2 * p;
        uint32_t *here = to + (at - first);
        int64_t i = 0;
        for (; i + SIDE <= piece; i += SIDE) store(here + i, load(x + 2 * i));
        const __mmask16 some = (__mmask16)((1U << (piece - i)) - 1);
        if (i < piece) store(here + i, _mm512_maskz_loadu_ps(some, x + 2 * i));
        at += piece;
    }
    store(to + (past - first), _mm512_setzero_ps());
}

/* Words first ... past-1 of all columns. */
static void add_chunk(dt__tiles *t, const dt__bf16_sums *s, int64_t first, int64_t past,
                      const uint32_t *dy)
{
    _Alignas(64) copied copy;
    const int64_t row = s->lanes * (int64_t)sizeof *dy;
    const operand a = { (const char *)copy, sizeof copy[0], TILE_BYTES, SIDE * sizeof copy[0] };
    const operand b = { (const char *)dy, row, SIDE * row, TILE_BYTES };
    for (int64_t k = 0; k < s->columns; k += LANES) {
        corner c = { .add = true, .lanes = s->lanes, .at = s->dw + k * s->lanes, .ld = s->lanes };
        c.rows = dt__min_i64(LANES, s->columns - k);
        c.lower = c.rows > SIDE;
        c.right = c.lanes > SIDE;
        for (int64_t i = 0; i < c.rows; i++) copy_column(s, first, past, k + i, copy[i]);
        add_corner(t, &c, dt__ceil_div(past - first, SIDE), &a, &b);
    }
}

void dt__tile_sums__amx(const dt__bf16_sums *s)
{
    const int64_t words = s->rows * s->words, whole = words / SIDE * SIDE;
    _Alignas(64) uint32_t last[SIDE][LANES];
    dt__tiles t;
    dt__tiles_open(&t);
    for (int64_t p = 0; p < whole; p += CHUNK) {
        add_chunk(&t, s, p, dt__min_i64(p + CHUNK, whole), s->dy + p * s->lanes);
    }
    if (whole < words) {
        memset(last, 0, sizeof last);
        memcpy(last, s->dy + whole * s->lanes,
               (size_t)((words - whole) * s->lanes) * sizeof last[0][0]);
        add_chunk(&t, s, whole, words, last[0]);
    }
    dt__tiles_release(&t);
}
#endif
