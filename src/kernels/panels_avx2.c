/* Panels with AVX2: made from values in one pass, and expanded to values; the bits are those of
 * panels_quantize.c and panels.c.
 *
 * A panel is made of eights: eight rows, which are eight neighbouring lanes, in units of at most 256
 * columns or one group. Of each unit
 *
 *     ranges    of a row in one vector, those of eight rows transposed into one while the maximum is
 *               taken, so that lane j is row j
 *     scales    by the rule, for all groups of the unit and all eight rows at once
 *     codes     32 columns of a row in one vector of bytes, eight of these transposed as an 8 x 8
 *               matrix of four codes each: a vector is then four columns of eight lanes, as a step
 *               holds them */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/codes_ymm.inc"

#include <string.h>

#define EIGHT 8
#define UNIT 256 /* columns */
#define BLOCK 32 /* columns whose codes are one vector */
#define GROUPS (UNIT / BLOCK)

typedef struct eight {
    const dt__panel_source *source;
    const float *x[EIGHT]; /* of lanes that are missing: of one that is there */
    uint8_t *mask[EIGHT];
    uint8_t *panel;
    int first, lanes; /* of the panel; how many are there */
    rounding rounding;
    int64_t clipped;
} eight;

/* ---- ranges ----------------------------------------------------------------------------------- */

/* Lane j: the signed maximum of v[j]. */
DT__INLINE __m256i maxima(const __m256i v[EIGHT])
{
    __m256i pair[4], four[2];
    for (int i = 0; i < 4; i++) {
        pair[i] = _mm256_max_epi32(_mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                   _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    }
    for (int i = 0; i < 2; i++) {
        four[i] = _mm256_max_epi32(_mm256_unpacklo_epi64(pair[2 * i], pair[2 * i + 1]),
                                   _mm256_unpackhi_epi64(pair[2 * i], pair[2 * i + 1]));
    }
    return _mm256_max_epi32(_mm256_permute2x128_si256(four[0], four[1], 0x20),
                            _mm256_permute2x128_si256(four[0], four[1], 0x31));
}

/* lo and hi of columns k ... k + n-1 of each row; false where one is not finite. */
DT__INLINE bool ranges(const eight *e, int64_t k, int64_t n, float lo[EIGHT], float hi[EIGHT])
{
    const __m256i sign = _mm256_set1_epi32(INT32_MIN);
    __m256i most[EIGHT], least[EIGHT];
    for (int j = 0; j < EIGHT; j++) {
        const extent of = extent_of(n, e->x[j] + k);
        most[j] = of.most;
        least[j] = _mm256_xor_si256(of.least, sign);
    }
    /* with the sign flipped, what was unsigned is signed, and what is negative now was positive */
    const __m256i high = maxima(most), flipped = maxima(least);
    const __m256i limit = _mm256_set1_epi32(0x7f7fffff);
    const __m256i bad =
        _mm256_or_si256(_mm256_cmpgt_epi32(high, limit), _mm256_cmpgt_epi32(flipped, limit));
    const __m256 low = _mm256_castsi256_ps(
        _mm256_andnot_si256(_mm256_srai_epi32(flipped, 31), _mm256_xor_si256(flipped, sign)));
    _mm256_storeu_ps(lo, _mm256_add_ps(low, _mm256_setzero_ps())); /* -0 */
    _mm256_storeu_ps(hi, _mm256_castsi256_ps(high));
    return _mm256_testz_si256(bad, bad) != 0;
}

/* ---- scales ----------------------------------------------------------------------------------- */

typedef struct unit {
    int64_t group, groups; /* the first, how many */
    float scale[GROUPS][EIGHT], inverse[GROUPS][EIGHT];
} unit;

static int64_t end_of(const dt__panel_layout *l, int64_t group)
{
    return dt__min_i64((group + 1) * l->group, l->columns);
}

static bool choose(const eight *e, unit *u)
{
    const dt__panel_layout *l = e->source->layout;
    const dt__coding *coding = e->source->coding;
    float lo[GROUPS][EIGHT], hi[GROUPS][EIGHT];
    for (int64_t g = 0; g < u->groups; g++) {
        const int64_t k = (u->group + g) * l->group, n = end_of(l, u->group + g) - k;
        if (!ranges(e, k, n, lo[g], hi[g])) return false;
        for (int j = 0; coding->extremum && j < e->lanes; j++) {
            dt__keep_extremum(n, n, e->x[j] + k, &lo[g][j], &hi[g][j]);
        }
    }
    const dt__blocks blocks = { u->groups * EIGHT, lo[0], hi[0], u->scale[0], u->inverse[0], NULL };
    if (!coding->choose(coding->settings, &blocks)) return false;
    for (int64_t g = 0; g < u->groups; g++) {
        for (int j = e->lanes; j < EIGHT; j++) u->scale[g][j] = u->inverse[g][j] = 0;
    }
    return true;
}

static void write_scales(const eight *e, const float scale[EIGHT], uint8_t *scales)
{
    const int dtype = e->source->layout->scale_dtype;
    const __m256 s = _mm256_loadu_ps(scale);
    if (dtype == DT__SCALE_F32) {
        _mm256_storeu_ps((float *)(void *)scales + e->first, s);
        return;
    }
    const __m256i upper = _mm256_srli_epi32(_mm256_castps_si256(s), 16);
    const __m128i half =
        dtype == DT__SCALE_F16
            ? _mm256_cvtps_ph(s, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
            : _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
    _mm_storeu_si128((__m128i *)(void *)(scales + 2 * e->first), half);
}

/* ---- codes ------------------------------------------------------------------------------------ */

/* The first n columns of a block, 0 behind them. */
DT__INLINE __m256 load_first(const float *x, int64_t n)
{
    if (n >= 8) return _mm256_loadu_ps(x);
    return n <= 0 ? _mm256_setzero_ps() : _mm256_maskload_ps(x, first_lanes(n));
}

/* The codes of n columns of a row, 4 to a dword: dwords 0, 2, 4, 6 in the lower half. */
DT__INLINE __m256i row_codes(eight *e, int j, int64_t k, int64_t n)
{
    const rounding *r = &e->rounding;
    const float *x = e->x[j] + k;
    __m256i inside[2], q[2];
    for (int i = 0; i < 2; i++) {
        const __m256 low =
            n == BLOCK ? _mm256_loadu_ps(x + 16 * i) : load_first(x + 16 * i, n - 16 * i);
        const __m256 high = n == BLOCK ? _mm256_loadu_ps(x + 16 * i + 8)
                                       : load_first(x + 16 * i + 8, n - 16 * i - 8);
        q[i] = clamped(r, _mm256_packs_epi32(rounded(r, low), rounded(r, high)), &inside[i]);
    }
    const __m256i pass = _mm256_packs_epi16(inside[0], inside[1]);
    const uint32_t outside = ~(uint32_t)_mm256_movemask_epi8(pass);
    e->clipped += __builtin_popcount(outside);
    if (e->mask[j] != NULL) {
        const uint32_t bits = (uint32_t)_mm256_movemask_epi8(in_order(pass));
        memcpy(e->mask[j] + k / 8, &bits, (size_t)dt__ceil_div(n, 8));
    }
    return _mm256_packs_epi16(q[0], q[1]);
}

/* out[d]: dword d of every row, d in the order of columns. */
DT__INLINE void transpose(const __m256i row[EIGHT], __m256i out[EIGHT])
{
    __m256i q[2][4];
    for (int half = 0; half < 2; half++) {
        const __m256i *r = row + 4 * half;
        const __m256i a = _mm256_unpacklo_epi32(r[0], r[1]), b = _mm256_unpacklo_epi32(r[2], r[3]);
        const __m256i c = _mm256_unpackhi_epi32(r[0], r[1]), d = _mm256_unpackhi_epi32(r[2], r[3]);
        q[half][0] = _mm256_unpacklo_epi64(a, b);
        q[half][1] = _mm256_unpackhi_epi64(a, b);
        q[half][2] = _mm256_unpacklo_epi64(c, d);
        q[half][3] = _mm256_unpackhi_epi64(c, d);
    }
    for (int i = 0; i < 4; i++) {
        out[2 * i] = _mm256_permute2x128_si256(q[0][i], q[1][i], 0x20);
        out[2 * i + 1] = _mm256_permute2x128_si256(q[0][i], q[1][i], 0x31);
    }
}

DT__INLINE void store(uint8_t *to, __m256i v) { _mm256_storeu_si256((__m256i *)(void *)to, v); }

/* n columns of the eight rows to the step at `to`; returns the sum of each lane. */
DT__INLINE __m256i write_block(eight *e, const float inverse[EIGHT], int64_t k, int64_t n,
                               uint8_t *to)
{
    const dt__panel_layout *l = e->source->layout;
    const __m256i low = _mm256_set1_epi8(15);
    __m256i row[EIGHT], column[EIGHT], sum = _mm256_setzero_si256();
    for (int j = 0; j < EIGHT; j++) {
        e->rounding.inverse = _mm256_broadcast_ss(inverse + j);
        row[j] = row_codes(e, j, k, n);
    }
    transpose(row, column);
    for (int i = 0; i < EIGHT; i++) {
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(_mm256_set1_epi8(1), column[i]));
    }
    for (int i = 0; 8 * i < n && i < 4; i++, to += l->step_bytes) {
        const __m256i a = column[2 * i], b = column[2 * i + 1];
        if (l->nibbles) {
            store(to, _mm256_or_si256(_mm256_and_si256(a, low),
                                      _mm256_andnot_si256(low, _mm256_slli_epi16(b, 4))));
        } else {
            store(to, a);
            store(to + 64, b);
        }
    }
    return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}

static void encode(eight *e, const unit *u)
{
    const dt__panel_layout *l = e->source->layout;
    float *ksum = (float *)(void *)e->panel + e->first;
    for (int64_t g = 0; g < u->groups; g++) {
        const dt__piece p = dt__piece_of(l, u->group + g);
        uint8_t *to = e->panel + p.codes + dt__panel_lane(l, e->first);
        __m256i sum = _mm256_setzero_si256();
        for (int64_t k = 0; k < p.length; k += BLOCK, to += BLOCK / DT__STEP * l->step_bytes) {
            const int64_t n = dt__min_i64(BLOCK, p.length - k);
            sum = _mm256_add_epi32(sum, write_block(e, u->inverse[g], p.start + k, n, to));
        }
        write_scales(e, u->scale[g], e->panel + p.scales);
        _mm256_storeu_ps(ksum, _mm256_fmadd_ps(_mm256_loadu_ps(u->scale[g]),
                                               _mm256_cvtepi32_ps(sum), _mm256_loadu_ps(ksum)));
    }
}

/* ---- a panel ---------------------------------------------------------------------------------- */

static eight eight_of(const dt__panel_source *s, int64_t panel, int first)
{
    const dt__panel_layout *l = s->layout;
    const int64_t row = panel * DT__LANES + first, bytes = dt__ceil_div(l->columns, 8);
    eight e = { .source = s, .first = first };
    e.panel = (uint8_t *)s->panels + (size_t)panel * l->panel_bytes;
    e.lanes = (int)dt__max_i64(0, dt__min_i64(EIGHT, l->rows - row));
    for (int j = 0; j < EIGHT; j++) {
        e.x[j] = s->x + (j < e.lanes ? row + j : row) * l->columns;
        e.mask[j] = s->mask == NULL || j >= e.lanes ? NULL : s->mask + (row + j) * bytes;
    }
    e.rounding = rounding_of(s->coding->qmin, s->coding->qmax, s->coding->half_up);
    return e;
}

int64_t dt__quantize_panel__avx2(const dt__panel_source *s, int64_t panel)
{
    const dt__panel_layout *l = s->layout;
    if ((l->group % BLOCK != 0 && l->groups > 1) || l->pieces_per_group > 1) {
        return dt__quantize_panel_by(s, panel, dt__range__avx2, dt__encode__avx2);
    }
    uint8_t *to = (uint8_t *)s->panels + (size_t)panel * l->panel_bytes;
    const int64_t lanes = dt__min_i64(DT__LANES, l->rows - panel * DT__LANES);
    memset(to, 0, lanes < DT__LANES ? l->panel_bytes : DT__LANES * sizeof(float));
    const int64_t groups = dt__max_i64(1, UNIT / l->group);
    eight all[DT__LANES / EIGHT];
    int64_t clipped = 0;
    for (int i = 0; i * EIGHT < lanes; i++) all[i] = eight_of(s, panel, i * EIGHT);
    for (int64_t g = 0; g < l->groups; g += groups) {
        unit u = { .group = g, .groups = dt__min_i64(groups, l->groups - g) };
        for (int i = 0; i * EIGHT < lanes; i++) {
            if (!choose(&all[i], &u)) return -1;
            encode(&all[i], &u);
        }
    }
    for (int i = 0; i * EIGHT < lanes; i++) clipped += all[i].clipped;
    return clipped;
}

/* ---- expand ----------------------------------------------------------------------------------- */

/* One lane of a panel on its way to values. */
typedef struct image {
    size_t step_bytes;
    bool nibbles;
    __m256 scale, zero;
} image;

/* The 8 values of a step. Of a dword, element i has the nibble or byte that shift i moves to the top.
 */
DT__INLINE __m256 values(const image *l, const uint8_t *from)
{
    int32_t word, next = 0;
    memcpy(&word, from, sizeof word);
    __m256i q = _mm256_set1_epi32(word);
    if (l->nibbles) {
        q = _mm256_sllv_epi32(q, _mm256_setr_epi32(28, 20, 12, 4, 24, 16, 8, 0));
        q = _mm256_srai_epi32(q, 28);
    } else {
        memcpy(&next, from + 64, sizeof next);
        q = _mm256_blend_epi32(q, _mm256_set1_epi32(next), 0xf0);
        q = _mm256_sllv_epi32(q, _mm256_setr_epi32(24, 16, 8, 0, 24, 16, 8, 0));
        q = _mm256_srai_epi32(q, 24);
    }
    return _mm256_mul_ps(_mm256_sub_ps(_mm256_cvtepi32_ps(q), l->zero), l->scale);
}

/* Columns k0 to k1 of a piece, into y. */
DT__INLINE void expand_lane(const image *l, const uint8_t *from, int64_t k0, int64_t k1, float *y)
{
    from += (size_t)(k0 / DT__STEP) * l->step_bytes;
    int64_t k = k0;
    if (k % DT__STEP != 0) {
        float part[DT__STEP];
        const int64_t skip = k % DT__STEP, n = dt__min_i64(DT__STEP - skip, k1 - k);
        _mm256_storeu_ps(part, values(l, from));
        memcpy(y, part + skip, (size_t)n * sizeof *y);
        k += n;
        from += l->step_bytes;
    }
    for (; k + DT__STEP <= k1; k += DT__STEP, from += l->step_bytes) {
        _mm256_storeu_ps(y + (k - k0), values(l, from));
    }
    if (k < k1) _mm256_maskstore_ps(y + (k - k0), first_lanes(k1 - k), values(l, from));
}

#define SPAN 256 /* columns of all lanes at a time: steps of 4 KiB */

static void expand_piece(const dt__panel_tile *t, int64_t n0, const dt__piece *p,
                         const uint8_t *panel)
{
    const dt__panel_layout *l = t->layout;
    const int64_t first = dt__max_i64(t->n0 - n0, 0), last = dt__min_i64(t->n1 - n0, DT__LANES);
    const int64_t begin = dt__max_i64(t->k0, p->start);
    const int64_t end = dt__min_i64(t->k1, p->start + p->length);
    float scale[DT__LANES];
    dt__panel_scales(l->scale_dtype, panel + p->scales, scale);
    for (int64_t k = begin; k < end; k += SPAN) {
        const int64_t to = dt__min_i64(k + SPAN, end);
        for (int64_t j = first; j < last; j++) {
            image of = { .step_bytes = l->step_bytes, .scale = _mm256_broadcast_ss(scale + j) };
            float zero = 0;
            if (t->zero != NULL) {
                zero = t->zero[t->zero_step == 0 ? 0 : (n0 + j) * t->zero_step + p->group];
            }
            of.zero = _mm256_set1_ps(zero);
            of.nibbles = l->nibbles;
            const uint8_t *from = panel + p->codes + dt__panel_lane(l, (int)j);
            float *y = t->y + (n0 + j - t->n0) * t->ldy + (k - t->k0);
            expand_lane(&of, from, k - p->start, to - p->start, y);
        }
    }
}

void dt__expand__avx2(const dt__panel_tile *t)
{
    const dt__panel_layout *l = t->layout;
    if (t->n0 >= t->n1 || t->k0 >= t->k1) return;
    const int64_t group = t->k0 / l->group;
    const int64_t first = group * l->pieces_per_group + (t->k0 - group * l->group) / DT__PIECE;
    for (int64_t panel = t->n0 / DT__LANES; panel * DT__LANES < t->n1; panel++) {
        const uint8_t *from = (const uint8_t *)t->panels + (size_t)panel * l->panel_bytes;
        for (int64_t i = first; i < l->pieces; i++) {
            const dt__piece piece = dt__piece_of(l, i);
            if (piece.start >= t->k1) break;
            expand_piece(t, panel * DT__LANES, &piece, from);
        }
    }
}
#endif
