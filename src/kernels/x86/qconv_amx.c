/* The product of a convolution's tile (dt__qtile) with matrix tiles (AMX-INT8): TDPBSUD adds the
 * sums of 16 outputs by 16 positions of up to 64 products of s8 and u8. The words of a block of
 * positions already have the order of tiles.
 *
 * The floats of 16 outputs by a block of positions stay in registers. Four registers of sums are
 * used in turn, one for each piece of each block: while a piece is multiplied, the previous one is
 * stored, and vectors scale and add the one before that. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/intrinsics.h"
#include "kernels/sets.h"
#include "kernels/x86/amx.h"

#define SIDE DT__TILE_ROWS
#define WORD (4 * DT__BLOCK) /* bytes of a block's word */
#define TURNS 4
#define OCTETS (SIDE / DT__OCTET)

/* Up to 16 outputs from `output` on, and the piece and block that are added next. */
typedef struct corner {
    const dt__qtile *t;
    int64_t output;
    int outputs; /* up to 16 */
    int64_t piece, position;
    const uint8_t *w;
    const float *scale[OCTETS]; /* per octet [pieces][DT__OCTET] */
    const int32_t *absent[OCTETS];
    _Alignas(64) int32_t sum[TURNS][SIDE][SIDE];
} corner;

/* Registers 0 to 3 hold sums, 4 and 5 rows of codes, 6 and 7 words of positions. */
static void configure(dt__tiles *t, int rows, int words)
{
    _Alignas(64) dt__tile_shapes shapes = { .palette = 1 };
    for (int i = 0; i < 8; i++) {
        shapes.bytes[i] = (uint16_t)(i == 4 || i == 5 ? 4 * words : DT__TILE_BYTES);
        shapes.rows[i] = (uint8_t)(i < 6 ? rows : words);
    }
    dt__tiles_configure(t, &shapes);
}

/* Multiplies a piece into register `to`, by registers ra and rw. */
#define MULTIPLY(to, ra, rw, length)                                                               \
    do {                                                                                           \
        DT__TILE_ZERO(t, to);                                                                      \
        for (int32_t k_ = 0; k_ < (length); k_ += q->fill, w += 4 * q->fill) {                     \
            DT__TILE_LOAD(t, ra, w, q->row);                                                       \
            DT__TILE_LOAD(t, rw, u + k_ * WORD, WORD);                                             \
            DT__TILE_MULTIPLY_SU(t, to, ra, rw);                                                   \
        }                                                                                          \
        u += (length)*WORD;                                                                        \
    } while (0)

/* The sums of row r, including those of columns that words leave out. */
DT__INLINE __m512i sums_of(bool absent_too, const corner *c, int slot, int r)
{
    const __m512i sum = _mm512_load_si512(c->sum[slot][r]);
    if (!absent_too) return sum;
    const int32_t absent = c->absent[r / DT__OCTET][c->piece * DT__OCTET + r % DT__OCTET];
    const __m512i zu = _mm512_load_si512(c->t->zu + c->position);
    return _mm512_add_epi32(sum, _mm512_mullo_epi32(zu, _mm512_set1_epi32(absent)));
}

static __mmask16 mask_of(const corner *c)
{
    const int64_t left = c->t->positions - c->position;
    return (__mmask16)(left >= SIDE ? 0xffff : (1 << left) - 1);
}

DT__INLINE void begin_block(const corner *c, __m512 *x)
{
    const float *ksum = c->t->ksum + c->output;
    const __m512 zu = _mm512_load_ps(c->t->zu_f + c->position);
    DT__UNROLL
    for (int r = 0; r < SIDE; r++) {
        const __m512 sum = _mm512_set1_ps(ksum[r < c->outputs ? r : 0]);
        x[r] = _mm512_mul_ps(_mm512_set1_ps(-1), _mm512_mul_ps(zu, sum));
    }
}

DT__INLINE void end_block(const corner *c, const __m512 *x)
{
    const dt__qtile *q = c->t;
    const __mmask16 mask = mask_of(c);
    const __m512 sx = _mm512_load_ps(q->sx + c->position);
    float *y = q->y + c->output * q->ldy + c->position;
    DT__UNROLL
    for (int r = 0; r < SIDE; r++, y += q->ldy) {
        if (r >= c->outputs) continue;
        __m512 z = _mm512_mul_ps(sx, x[r]);
        if (q->bias != NULL) z = _mm512_add_ps(z, _mm512_set1_ps(q->bias[c->output + r]));
        _mm512_mask_storeu_ps(y, mask, z);
    }
}

/* x = fmaf((float)sum, scale, x) for the next piece. */
DT__INLINE void add_piece(bool absent_too, corner *c, int slot, __m512 *x)
{
    const float *scale[OCTETS];
    for (int i = 0; i < OCTETS; i++) scale[i] = c->scale[i] + c->piece * DT__OCTET;
    DT__UNROLL
    for (int r = 0; r < SIDE; r++) {
        const __m512 by = _mm512_set1_ps(scale[r / DT__OCTET][r % DT__OCTET]);
        x[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums_of(absent_too, c, slot, r)), by, x[r]);
    }
    if (++c->piece < c->t->pieces) return;
    end_block(c, x);
    c->piece = 0;
    c->position += SIDE;
    if (c->position < c->t->positions) begin_block(c, x);
}

/* Turn i: multiplies a piece, stores the previous one, and adds the one before that. */
#define TURN(slot, before, added, ra, rw, i)                                                       \
    do {                                                                                           \
        if ((i) < turns) {                                                                         \
            MULTIPLY(slot, ra, rw, q->length[piece]);                                              \
            if (++piece == q->pieces) piece = 0, w = c->w;                                         \
        }                                                                                          \
        if ((i) > 0 && (i) <= turns) DT__TILE_STORE(t, before, c->sum[before][0], WORD);           \
        if ((i) > 1 && (i) < turns + 2) add_piece(absent_too, c, added, x);                        \
    } while (0)

DT__INLINE void run_floats(bool absent_too, dt__tiles *t, corner *c)
{
    (void)t;
    const dt__qtile *q = c->t;
    const int64_t turns = dt__ceil_div(q->positions, SIDE) * q->pieces;
    const uint8_t *u = q->u, *w = c->w;
    int64_t piece = 0;
    __m512 x[SIDE];
    begin_block(c, x);
    for (int64_t i = 0; i < turns + 2; i += TURNS) {
        TURN(0, 3, 2, 4, 6, i);
        TURN(1, 0, 3, 5, 7, i + 1);
        TURN(2, 1, 0, 4, 6, i + 2);
        TURN(3, 2, 1, 5, 7, i + 3);
    }
}

/* Writes exact sums of a single piece in place of results. */
static void run_sums(dt__tiles *t, corner *c)
{
    (void)t;
    const dt__qtile *q = c->t;
    const uint8_t *u = q->u;
    for (; c->position < q->positions; c->position += SIDE) {
        const uint8_t *w = c->w;
        MULTIPLY(0, 4, 6, q->length[0]);
        DT__TILE_STORE(t, 0, c->sum[0][0], WORD);
        int32_t *y = q->sums + c->output * q->ldy + c->position;
        for (int r = 0; r < c->outputs; r++, y += q->ldy) {
            _mm512_mask_storeu_ps(y, mask_of(c),
                                  _mm512_castsi512_ps(sums_of(q->absent != NULL, c, 0, r)));
        }
    }
}

/* The scales and absent sums of octet i; if there is no octet i, those of the first. */
static void find_octet(corner *c, int i)
{
    const int64_t octet = c->output / DT__OCTET + (i * DT__OCTET < c->outputs ? i : 0);
    const int64_t at = octet * c->t->pieces * DT__OCTET;
    c->scale[i] = c->t->scale + at;
    c->absent[i] = c->t->absent == NULL ? NULL : c->t->absent + at;
}

void dt__qd8_tile__amx(const dt__qtile *q)
{
    if (q->rows == NULL) {
        dt__qd8_tile__avx512(q);
        return;
    }
    dt__tiles t;
    corner c = { .t = q };
    int rows = 0;
    for (; c.output < q->outputs; c.output += SIDE) {
        c.outputs = (int)dt__min_i64(SIDE, q->outputs - c.output);
        const int needed = c.outputs > DT__OCTET ? SIDE : DT__OCTET;
        if (needed != rows) configure(&t, rows = needed, q->fill);
        c.w = q->rows + c.output * q->row;
        for (int i = 0; i < OCTETS; i++) find_octet(&c, i);
        c.piece = c.position = 0;
        if (q->sums != NULL) run_sums(&t, &c);
        else if (q->absent != NULL) run_floats(true, &t, &c);
        else run_floats(false, &t, &c);
    }
    if (rows > 0) dt__tiles_release(&t);
}
#endif
