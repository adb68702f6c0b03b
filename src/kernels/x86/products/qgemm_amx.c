/* The integer product with matrix tiles (AMX-INT8), by the formula of dt__qgemm in panels.h
 * (numerics §2): TDPBUSD adds 16 x 16 sums of up to 64 products of u8 and s8.
 *
 * A corner is 32 rows of activations by the 32 lanes of a panel: four registers of sums, two of
 * activations, two of codes. A block of a panel is unpacked to the order of tiles once for all rows
 * of a chunk. Sums of a segment go to memory, and are scaled and added by vectors while the next
 * segment's products run. A corner initializes its floats and writes its results while they are in
 * the first cache. Fewer than 16 rows, and groups that do not fit tiles, are multiplied by AVX-512
 * VNNI. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/products/qgemm.h"
#include "kernels/x86/amx.h"

#include <limits.h>
#include <string.h>

#define LANES_OF_VECTOR 16
#define VECTORS (DT__LANES / LANES_OF_VECTOR)
#define DEPTH 64                /* steps per block */
#define CHUNK 256               /* rows for which a block is unpacked once, at most */
#define NEAR ((int64_t)1 << 20) /* bytes of rows that are multiplied with one panel after another */
#define CORNER 32               /* rows of a corner */
#define FEWEST 16               /* rows from which on tiles are used */
#define SEGMENT INT_MAX

#include "kernels/x86/products/qgemm_block.inc"
#include "kernels/x86/products/qgemm_zmm.inc"

/* Codes in the order of tiles: tiles[v] holds, for each four columns, 64 bytes of the lanes of
 * vector v. Zeros fill up a segment's columns to whole tiles. */
#define MOST_COLUMNS (DEPTH * DT__STEP + DT__TILE_BYTES)

typedef struct unpacked {
    _Alignas(64) int8_t codes[VECTORS][MOST_COLUMNS * LANES_OF_VECTOR];
    /* For activations in blocks: 128 times the sum of the codes, as in segment.zero, of the piece
     * up to and including each segment. */
    _Alignas(64) int32_t zero[DEPTH][DT__LANES];
    _Alignas(64) int32_t before[DT__LANES]; /* the last element of `zero` in the previous block */
} unpacked;

/* A block of the panel, to be multiplied with all rows. */
typedef struct layer {
    const dt__qgemm_part *part;
    bool first, last; /* the first, the last block of the panel */
    block b;
    int columns; /* columns per tile: 32 or 64 */
    const unpacked *w;
} layer;

/* Columns per tile for such a weight; 0: tiles do not fit. */
static int columns_of(const dt__panel_layout *l)
{
    if (l->pieces == 0) return 0;
    if (l->group == DT__TILE_BYTES / 2) return DT__TILE_BYTES / 2;
    if (l->depth < DT__TILE_BYTES) return 0;
    return l->groups == 1 || l->group % DT__TILE_BYTES == 0 ? DT__TILE_BYTES : 0;
}

/* ---- unpacking ------------------------------------------------------------------------------ */

DT__INLINE void unpack_step(bool nibbles, const uint8_t *from, int8_t *const *to)
{
    for (int v = 0; v < VECTORS; v++) {
        ints low, high;
        if (nibbles) {
            const ints packed = load(from + 64 * v);
            low = signed_nibbles(packed, 0);
            high = signed_nibbles(packed, 1);
        } else {
            low = load(from + 128 * v);
            high = load(from + 128 * v + 64);
        }
        store(to[v], low);
        store(to[v] + 64, high);
    }
}

/* Computes what the 128 in u adds to a piece's sums up to the end of a segment; `before` is that of
 * the previous segment. */
DT__INLINE void find_zero(int columns, bool first, const unpacked *w, int at, const int32_t *before,
                          int32_t *zero)
{
    const ints by = _mm512_set1_epi8((char)128);
    for (int v = 0; v < VECTORS; v++) {
        ints sum = first ? _mm512_setzero_si512() : load(before + v * LANES_OF_VECTOR);
        for (int k = at; k < at + columns; k += 4) {
            sum = _mm512_dpbusd_epi32(sum, by, load(w->codes[v] + k * LANES_OF_VECTOR));
        }
        store(zero + v * LANES_OF_VECTOR, sum);
    }
}

DT__INLINE void unpack_block(bool nibbles, bool zeros, int columns, const block *b, segment *s,
                             unpacked *w)
{
    int at = 0;
    for (int i = 0; i < b->segments; i++) {
        const int width = s[i].steps * DT__STEP;
        const int whole = (width + columns - 1) / columns * columns;
        const uint8_t *from = s[i].codes;
        for (int k = at; k < at + width; k += DT__STEP, from += nibbles ? 128 : 256) {
            int8_t *to[VECTORS];
            for (int v = 0; v < VECTORS; v++) to[v] = w->codes[v] + k * LANES_OF_VECTOR;
            unpack_step(nibbles, from, to);
        }
        for (int v = 0; v < VECTORS && whole > width; v++) {
            memset(w->codes[v] + (at + width) * LANES_OF_VECTOR, 0,
                   (size_t)((whole - width) * LANES_OF_VECTOR));
        }
        if (zeros) {
            find_zero(whole, s[i].first, w, at, i == 0 ? w->before : w->zero[i - 1], w->zero[i]);
            s[i].zero = w->zero[i];
        }
        at += whole;
    }
    if (zeros) memcpy(w->before, w->zero[b->segments - 1], sizeof w->before);
}

/* ---- a corner ------------------------------------------------------------------------------- */

/* Sums of 32 rows and lanes that are not yet scaled. */
typedef struct waiting {
    _Alignas(64) int32_t sum[CORNER][DT__LANES];
    const segment *of; /* NULL: none */
} waiting;

/* acc = fmaf((float)sum, scale, acc); with activations in blocks the scale is s_w times that of
 * the row's block. */
DT__INLINE void scale_sums(bool blocks, const block *b, int rows, const waiting *from)
{
    const segment *s = from->of;
    floats scale[VECTORS];
    for (int v = 0; v < VECTORS; v++) scale[v] = load_scales(b->scale_dtype, s->scales, v);
    float *acc = b->row.acc[0];
    const int32_t *at = from->sum[0];
    for (int r = 0; r < rows; r++, acc += DT__LANES, at += DT__LANES) {
        floats by = all_lanes(1);
        if (blocks) by = all_lanes(b->block_scale[r * b->block_step + s->group]);
        DT__UNROLL
        for (int v = 0; v < VECTORS; v++) {
            ints sum = load(at + v * LANES_OF_VECTOR);
            if (blocks) sum = _mm512_sub_epi32(sum, load(s->zero + v * LANES_OF_VECTOR));
            const floats times = blocks ? multiply_floats(scale[v], by) : scale[v];
            store_floats(
                acc + v * LANES_OF_VECTOR,
                add_product(to_floats(sum), times, load_floats(acc + v * LANES_OF_VECTOR)));
        }
    }
}

static void scale_waiting(const block *b, int rows, waiting *from)
{
    if (from->of == NULL) return;
    if (b->block_scale != NULL) scale_sums(true, b, rows, from);
    else scale_sums(false, b, rows, from);
    from->of = NULL;
}

/* Registers 0 to 3 hold sums of rows 0...15 and 16...31 by vectors 0 and 1; registers 4 and 5 the
 * activations of these rows, 6 and 7 the codes of these vectors. */
static void configure(dt__tiles *t, int rows, int columns)
{
    const int upper = rows > 16 ? 16 : rows, lower = rows > 16 ? rows - 16 : 1;
    _Alignas(64) dt__tile_shapes shapes = { .palette = 1 };
    for (int i = 0; i < 4; i++) {
        shapes.bytes[i] = DT__TILE_BYTES;
        shapes.rows[i] = (uint8_t)(i < 2 ? upper : lower);
    }
    shapes.bytes[4] = shapes.bytes[5] = (uint16_t)columns;
    shapes.rows[4] = (uint8_t)upper;
    shapes.rows[5] = (uint8_t)lower;
    shapes.bytes[6] = shapes.bytes[7] = DT__TILE_BYTES;
    shapes.rows[6] = shapes.rows[7] = (uint8_t)(columns / 4);
    dt__tiles_configure(t, &shapes);
}

DT__INLINE void begin_sums(dt__tiles *t, const segment *s, bool two, int32_t (*piece)[DT__LANES])
{
    (void)t;
    if (s->first) {
        DT__TILE_ZERO(t, 0);
        DT__TILE_ZERO(t, 1);
        DT__TILE_ZERO(t, 2);
        DT__TILE_ZERO(t, 3);
        return;
    }
    DT__TILE_LOAD(t, 0, piece[0], sizeof *piece);
    DT__TILE_LOAD(t, 1, piece[0] + LANES_OF_VECTOR, sizeof *piece);
    if (!two) return;
    DT__TILE_LOAD(t, 2, piece[16], sizeof *piece);
    DT__TILE_LOAD(t, 3, piece[16] + LANES_OF_VECTOR, sizeof *piece);
}

DT__INLINE void store_sums(dt__tiles *t, bool two, int32_t (*to)[DT__LANES])
{
    (void)t;
    DT__TILE_STORE(t, 0, to[0], sizeof *to);
    DT__TILE_STORE(t, 1, to[0] + LANES_OF_VECTOR, sizeof *to);
    if (!two) return;
    DT__TILE_STORE(t, 2, to[16], sizeof *to);
    DT__TILE_STORE(t, 3, to[16] + LANES_OF_VECTOR, sizeof *to);
}

/* Multiplies one tile of columns. */
DT__INLINE void multiply_tiles(dt__tiles *t, bool two, const uint8_t *u, int64_t ldu,
                               const unpacked *w, int at)
{
    (void)t;
    DT__TILE_LOAD(t, 6, w->codes[0] + at * LANES_OF_VECTOR, 64);
    DT__TILE_LOAD(t, 4, u, ldu);
    DT__TILE_MULTIPLY_US(t, 0, 4, 6);
    DT__TILE_LOAD(t, 7, w->codes[1] + at * LANES_OF_VECTOR, 64);
    DT__TILE_MULTIPLY_US(t, 1, 4, 7);
    if (!two) return;
    DT__TILE_LOAD(t, 5, u + 16 * ldu, ldu);
    DT__TILE_MULTIPLY_US(t, 2, 5, 6);
    DT__TILE_MULTIPLY_US(t, 3, 5, 7);
}

/* The last columns of a row, fewer than a tile, are copied first, since nothing behind them may be
 * read. */
DT__INLINE void multiply_rest(dt__tiles *t, const layer *l, int rows, int left, const uint8_t *u,
                              int at)
{
    _Alignas(64) uint8_t rest[CORNER][DT__TILE_BYTES];
    for (int r = 0; r < rows; r++) memcpy(rest[r], u + r * l->b.ldu, (size_t)left);
    multiply_tiles(t, rows > 16, rest[0], DT__TILE_BYTES, l->w, at);
}

/* Initializes the sums of a corner's rows: -(zu * ksum), or 0 with blocks. */
static void begin_corner(const layer *l, int64_t m, int rows)
{
    const float *ksum = (const float *)(const void *)l->part->panel;
    for (int r = 0; r < rows; r++) dt__qgemm_begin(l->part->g, m + r, ksum, l->b.row.acc[r]);
}

/* Writes the corner's rows of y. */
static void end_corner(const layer *l, int64_t m, int rows)
{
    const dt__qgemm_part *p = l->part;
    for (int r = 0; r < rows; r++) {
        if (p->lanes == DT__LANES) end_row(p, DT__LANES, m + r, l->b.row.acc[r]);
        else end_row(p, p->lanes, m + r, l->b.row.acc[r]);
    }
}

static void run_corner(dt__tiles *t, const layer *l, int64_t m, int rows)
{
    const block *b = &l->b;
    const bool two = rows > 16;
    waiting waits[2];
    waits[0].of = waits[1].of = NULL;
    const uint8_t *u = b->u;
    int at = 0;
    if (l->first) begin_corner(l, m, rows);
    for (int i = 0; i < b->segments; i++) {
        const segment *s = &b->segment[i];
        begin_sums(t, s, two, b->row.piece);
        int left = s->steps * DT__STEP;
        for (; left >= l->columns; left -= l->columns, at += l->columns, u += l->columns) {
            multiply_tiles(t, two, u, b->ldu, l->w, at);
        }
        if (left > 0) {
            multiply_rest(t, l, rows, left, u, at);
            at += l->columns;
            u += left;
        }
        scale_waiting(b, rows, &waits[(i + 1) % 2]);
        if (s->scales == NULL) {
            store_sums(t, two, b->row.piece);
            continue;
        }
        store_sums(t, two, waits[i % 2].sum);
        waits[i % 2].of = s;
    }
    scale_waiting(b, rows, &waits[(b->segments + 1) % 2]);
    if (l->last) end_corner(l, m, rows);
}

/* ---- a panel -------------------------------------------------------------------------------- */

static void run_block(dt__tiles *t, layer l, int64_t m, int rows)
{
    for (int n; rows > 0; rows -= n) {
        n = rows < CORNER ? rows : CORNER;
        if (n < CORNER) configure(t, n, l.columns);
        run_corner(t, &l, m, n);
        if (n < CORNER) configure(t, CORNER, l.columns);
        m += n;
        l.b.u += n * l.b.ldu;
        l.b.row.acc += n;
        l.b.row.piece += n;
        if (l.b.block_scale != NULL) l.b.block_scale += n * l.b.block_step;
    }
}

static void run_panel(dt__tiles *t, const dt__qgemm_part *p)
{
    const dt__qgemm *g = p->g;
    const bool nibbles = g->layout->nibbles, zeros = g->block_scale != NULL;
    _Alignas(64) float acc[CHUNK][DT__LANES];
    _Alignas(64) int32_t piece[CHUNK][DT__LANES];
    unpacked w;
    segment segments[DEPTH];
    walk at = { .part = p };
    layer l = { .part = p, .columns = columns_of(g->layout), .w = &w, .first = true };
    l.b = (block){ .segment = segments,
                   .scale_dtype = g->layout->scale_dtype,
                   .row = { acc, piece } };
    l.b.u = g->u + p->m0 * g->ldu;
    l.b.ldu = g->ldu;
    if (zeros) {
        l.b.block_scale = dt__block_scales(g, p->m0);
        l.b.block_step = g->layout->groups;
    }
    while ((l.b.segments = next_block(&at, segments)) > 0) {
        if (nibbles) unpack_block(true, zeros, l.columns, &l.b, segments, &w);
        else unpack_block(false, zeros, l.columns, &l.b, segments, &w);
        l.last = at.done == at.steps && at.piece == g->layout->pieces;
        run_block(t, l, p->m0, p->rows);
        l.b.u += DEPTH * DT__STEP;
        l.first = false;
    }
}

static void run_range(const dt__qgemm_range *r)
{
    dt__tiles tiles;
    configure(&tiles, CORNER, columns_of(r->g->layout));
    for (int i = 0; i < r->panels; i++) {
        const dt__qgemm_part p = dt__qgemm_part_of(r, i);
        run_panel(&tiles, &p);
    }
    dt__tiles_release(&tiles);
}

/* Whether tiles fit the product and its next ones, which have different weights. */
static bool fits(const dt__qgemm *g)
{
    if (g->m < FEWEST) return false;
    for (; g != NULL; g = g->next) {
        if (columns_of(g->layout) == 0) return false;
    }
    return true;
}

void dt__qd8_qb4_gemm__amx(const dt__qgemm *g)
{
    if (fits(g)) dt__qgemm_share(g, CHUNK, NEAR, run_range);
    else dt__qd8_qb4_gemm__avx512(g);
}

void dt__qd8_qb8_gemm__amx(const dt__qgemm *g)
{
    if (fits(g)) dt__qgemm_share(g, CHUNK, NEAR, run_range);
    else dt__qd8_qb8_gemm__avx512(g);
}
#endif
