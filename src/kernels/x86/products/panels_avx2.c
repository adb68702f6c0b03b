/* Panels with AVX2: quantizes values into panels in one pass, and dequantizes panels. The bits are
 * those of panels_quantize.c and panels.c.
 *
 * A panel is processed eight rows (neighbouring lanes) at a time, in units of at most 256 columns
 * or one group:
 *
 *     ranges    of each row in a vector; eight rows are then transposed and reduced into one,
 *               so that lane j is row j
 *     scales    by the scheme, for all groups of the unit and all eight rows at once
 *     codes     32 columns of a row in one vector of bytes, eight of these transposed as an 8 x 8
 *               matrix of four codes each: a vector is then four columns of eight lanes, as a step
 *               holds them */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/x86/products/quantize_rows_ymm.inc"

#include <string.h>

#define EIGHT 8
#define UNIT 256 /* columns of a unit, at most */
#define BLOCK 32 /* columns whose codes fill one vector */
#define GROUPS (UNIT / BLOCK)
#define WRITE_AHEAD 2048 /* bytes from a block to the later one that is prefetched */

typedef struct eight {
    const dt__panel_source *source;
    const float *x[EIGHT]; /* rows; missing lanes repeat an existing row */
    uint8_t *mask[EIGHT];  /* rows of the mask; NULL: none */
    uint8_t *panel;
    int first, lanes; /* first lane of the panel; number of lanes */
} eight;

/* lo and hi of columns k ... k + n-1 of each row; false where one is not finite. */
DT__INLINE bool ranges(const eight *e, int64_t k, int64_t n, float lo[EIGHT], float hi[EIGHT])
{
    const float *x[EIGHT];
    for (int j = 0; j < EIGHT; j++) x[j] = e->x[j] + k;
    return eight_ranges(x, n, lo, hi);
}

/* ---- scales --------------------------------------------------------------------------------- */

typedef struct unit {
    int64_t group, groups; /* the first group, number of groups */
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
        const bool finite =
            n == BLOCK ? ranges(e, k, BLOCK, lo[g], hi[g]) : ranges(e, k, n, lo[g], hi[g]);
        if (!finite) return false;
        for (int j = 0; coding->extremum && j < e->lanes; j++) {
            dt__refine_range(coding, n, n, e->x[j] + k, &lo[g][j], &hi[g][j]);
        }
    }
    const dt__blocks blocks = {
        u->groups * EIGHT, lo[0], hi[0], u->scale[0], u->inverse[0], NULL, 0
    };
    if (!coding->choose(coding->spec, &blocks)) return false;
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

/* ---- codes ---------------------------------------------------------------------------------- */

/* The compile-time constants of a loop over blocks. */
typedef struct form {
    bool nibbles, half_up, masked;
} form;

/* The codes of a block of a row, 4 to a dword: dwords 0, 2, 4, 6 in the lower half. `inside` has
 * the same order and is -1 where a code was not clipped. */
DT__INLINE __m256i row_codes(const rounding *r, form f, const float *x, __m256i *inside)
{
    __m256i q[4];
    for (int i = 0; i < 4; i++) {
        const __m256 v = _mm256_loadu_ps(x + 8 * i);
        q[i] = f.half_up ? rounded_up(r, v) : rounded(r, v);
    }
    const __m256i a = _mm256_packs_epi32(q[0], q[1]), b = _mm256_packs_epi32(q[2], q[3]);
    if (f.nibbles) return clamped8(r, _mm256_packs_epi16(a, b), inside);
    __m256i a_inside, b_inside;
    const __m256i low = clamped(r, a, &a_inside), high = clamped(r, b, &b_inside);
    *inside = _mm256_packs_epi16(a_inside, b_inside);
    return _mm256_packs_epi16(low, high);
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

/* The sum of each lane's codes. Eight nibbles fit a byte. */
DT__INLINE __m256i sums(form f, const __m256i column[EIGHT])
{
    const __m256i one = _mm256_set1_epi8(1);
    __m256i sum = f.nibbles ? column[0] : _mm256_maddubs_epi16(one, column[0]);
    for (int i = 1; i < EIGHT; i++) {
        sum = f.nibbles ? _mm256_add_epi8(sum, column[i])
                        : _mm256_add_epi16(sum, _mm256_maddubs_epi16(one, column[i]));
    }
    if (f.nibbles) sum = _mm256_maddubs_epi16(one, sum);
    return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}

DT__INLINE void store(uint8_t *to, __m256i v) { _mm256_storeu_si256((__m256i *)(void *)to, v); }

/* Writes `steps` steps of eight lanes, from `to` on. */
DT__INLINE void write_steps(form f, const __m256i column[EIGHT], int steps, uint8_t *to)
{
    const __m256i low = _mm256_set1_epi8(15);
    for (int i = 0; i < steps; i++) {
        const __m256i a = column[2 * i], b = column[2 * i + 1];
        if (f.nibbles) {
            store(to + 128 * i, _mm256_or_si256(_mm256_and_si256(a, low),
                                                _mm256_andnot_si256(low, _mm256_slli_epi16(b, 4))));
        } else {
            store(to + 256 * i, a);
            store(to + 256 * i + 64, b);
        }
    }
}

/* One group of eight rows: columns from `start` on. */
typedef struct run {
    const eight *e;
    const float *inverse;
    uint8_t *to;
    int64_t start, n;
    int64_t ahead; /* bytes to the values of the next unit, or of the next eight rows */
    __m256i sum;   /* of each lane's codes */
    int64_t clipped;
} run;

/* Encodes n columns from `start` on, at most a block, of rows at x; updates sums and the count of
 * unclipped codes. */
DT__INLINE void encode_block(const run *u, const rounding *like, form f,
                             const float *const x[EIGHT], int64_t k, __m256i total[2])
{
    rounding r = *like;
    const __m256i zero = _mm256_setzero_si256();
    __m256i row[EIGHT], column[EIGHT], inside = zero;
    const int64_t n = dt__min_i64(BLOCK, u->n - k);
    DT__UNROLL
    for (int j = 0; j < EIGHT; j++) {
        __m256i pass;
        r.inverse = _mm256_broadcast_ss(u->inverse + j);
        row[j] = row_codes(&r, f, x[j], &pass);
        inside = _mm256_sub_epi8(inside, pass);
        if (!f.masked || u->e->mask[j] == NULL) continue;
        const uint32_t bits = (uint32_t)_mm256_movemask_epi8(in_order(pass));
        uint8_t *mask = u->e->mask[j] + (u->start + k) / 8;
        if (n == BLOCK) memcpy(mask, &bits, sizeof bits);
        else memcpy(mask, &bits, (size_t)dt__ceil_div(n, 8));
    }
    total[0] = _mm256_add_epi64(total[0], _mm256_sad_epu8(inside, zero));
    transpose(row, column);
    total[1] = _mm256_add_epi32(total[1], sums(f, column));
    uint8_t *to = u->to + (f.nibbles ? 16 : 32) * k;
    if (n == BLOCK) write_steps(f, column, 4, to);
    else write_steps(f, column, (int)dt__ceil_div(n, DT__STEP), to);
}

/* Prefetches the block of a row `ahead` bytes further into the second-level cache, so that memory
 * is read while codes are computed. */
DT__INLINE void fetch(const float *x, int64_t ahead)
{
    const char *at = (const char *)((uintptr_t)x + (uintptr_t)ahead);
    _mm_prefetch(at, _MM_HINT_T1);
    _mm_prefetch(at + 64, _MM_HINT_T1);
}

/* Prefetches steps that will be written some blocks after those at `to`. */
DT__INLINE void fetch_steps(form f, const uint8_t *to)
{
    const char *at = (const char *)((uintptr_t)to + WRITE_AHEAD);
    for (int i = 0; i < (f.nibbles ? 4 : 8); i++) {
        _mm_prefetch(at + (f.nibbles ? 128 : 64) * i, _MM_HINT_T0);
    }
}

DT__INLINE void encode_run(run *u, const rounding *r, form f)
{
    __m256i total[2] = { _mm256_setzero_si256(), _mm256_setzero_si256() };
    const float *x[EIGHT];
    int64_t k = 0;
    for (; k + BLOCK <= u->n; k += BLOCK) {
        for (int j = 0; j < EIGHT; j++) {
            x[j] = u->e->x[j] + u->start + k;
            fetch(x[j], u->ahead);
        }
        fetch_steps(f, u->to + (f.nibbles ? 16 : 32) * k);
        encode_block(u, r, f, x, k, total);
    }
    if (k < u->n) {
        float rest[EIGHT][BLOCK] = { { 0 } };
        for (int j = 0; j < EIGHT; j++) {
            memcpy(rest[j], u->e->x[j] + u->start + k, (size_t)(u->n - k) * sizeof(float));
            x[j] = rest[j];
        }
        encode_block(u, r, f, x, k, total);
    }
    int64_t unclipped[4];
    _mm256_storeu_si256((__m256i *)(void *)unclipped, total[0]);
    u->clipped = EIGHT * dt__round_up(u->n, BLOCK);
    for (int i = 0; i < 4; i++) u->clipped -= unclipped[i];
    u->sum = total[1];
}

#define ENCODE(name, nibbles, half_up, masked)                                                     \
    static void name(run *u, const rounding *r)                                                    \
    {                                                                                              \
        encode_run(u, r, (form){ nibbles, half_up, masked });                                      \
    }
ENCODE(encode_bytes, false, false, false)
ENCODE(encode_bytes_masked, false, false, true)
ENCODE(encode_bytes_up, false, true, true)
ENCODE(encode_nibbles, true, false, false)
ENCODE(encode_nibbles_masked, true, false, true)
ENCODE(encode_nibbles_up, true, true, true)

typedef void encode_function(run *u, const rounding *r);

static encode_function *encode_of(const dt__panel_source *s)
{
    static encode_function *const by[2][2][2] = {
        { { encode_bytes, encode_bytes_masked }, { encode_bytes_up, encode_bytes_up } },
        { { encode_nibbles, encode_nibbles_masked }, { encode_nibbles_up, encode_nibbles_up } }
    };
    return by[s->layout->nibbles][s->coding->half_up][s->mask != NULL];
}

/* Writes codes, scales and ksum of a unit; returns how many codes were clipped. */
static int64_t encode(const eight *e, const unit *u, const rounding *r, encode_function *by)
{
    const dt__panel_layout *l = e->source->layout;
    float *ksum = (float *)(void *)e->panel + e->first;
    __m256 chain = _mm256_loadu_ps(ksum);
    int64_t clipped = 0;
    const int64_t end = end_of(l, u->group + u->groups - 1);
    const int64_t begin = u->group * l->group;
    const int64_t next = end < l->columns ? end - begin : EIGHT * l->columns - begin;
    for (int64_t g = 0; g < u->groups; g++) {
        run of = { .e = e, .inverse = u->inverse[g], .ahead = next * (int64_t)sizeof(float) };
        of.start = (u->group + g) * l->group;
        of.n = end_of(l, u->group + g) - of.start;
        uint8_t *to = e->panel + DT__LANES * sizeof(float) +
                      (size_t)(u->group + g) * l->scale_bytes +
                      (size_t)(of.start / DT__STEP) * l->step_bytes;
        of.to = to + dt__panel_lane(l, e->first);
        by(&of, r);
        clipped += of.clipped;
        write_scales(e, u->scale[g], to + (size_t)dt__ceil_div(of.n, DT__STEP) * l->step_bytes);
        chain = _mm256_fmadd_ps(_mm256_loadu_ps(u->scale[g]), _mm256_cvtepi32_ps(of.sum), chain);
    }
    _mm256_storeu_ps(ksum, chain);
    return clipped;
}

/* ---- a panel -------------------------------------------------------------------------------- */

static eight eight_of(const dt__panel_source *s, int64_t panel, int first)
{
    const dt__panel_layout *l = s->layout;
    const int64_t row = dt__panel_row(l, panel) + first, bytes = dt__ceil_div(l->columns, 8);
    eight e = { .source = s, .first = first };
    e.panel = (uint8_t *)s->panels + (size_t)panel * l->panel_bytes;
    e.lanes = (int)dt__min_i64(EIGHT, dt__panel_lanes(l, panel) - first);
    for (int j = 0; j < EIGHT; j++) {
        e.x[j] = s->x + (j < e.lanes ? row + j : row) * l->columns;
        e.mask[j] = s->mask == NULL || j >= e.lanes ? NULL : s->mask + (row + j) * bytes;
    }
    return e;
}

int64_t dt__quantize_panel__avx2(const dt__panel_source *s, int64_t panel)
{
    const dt__panel_layout *l = s->layout;
    const bool plain = s->coding->levels != NULL || s->coding->mean;
    if (plain || (l->group % BLOCK != 0 && l->groups > 1) || l->pieces_per_group > 1) {
        return dt__quantize_panel_by(s, panel, dt__range__avx2, dt__encode__avx2);
    }
    uint8_t *to = (uint8_t *)s->panels + (size_t)panel * l->panel_bytes;
    const int lanes = dt__panel_lanes(l, panel);
    memset(to, 0, lanes < DT__LANES ? l->panel_bytes : DT__LANES * sizeof(float));
    const rounding r = rounding_of(s->coding->qmin, s->coding->qmax, s->coding->half_up);
    encode_function *by = encode_of(s);
    const int64_t groups = dt__max_i64(1, UNIT / l->group);
    int64_t clipped = 0;
    for (int first = 0; first < lanes; first += EIGHT) {
        eight e = eight_of(s, panel, first);
        for (int64_t g = 0; g < l->groups; g += groups) {
            unit u;
            u.group = g;
            u.groups = dt__min_i64(groups, l->groups - g);
            if (!choose(&e, &u)) return -1;
            clipped += encode(&e, &u, &r, by);
        }
    }
    return clipped;
}

/* ---- expand --------------------------------------------------------------------------------- */

/* One lane of a panel to be dequantized. */
typedef struct dequantizer {
    size_t step_bytes;
    bool nibbles;
    __m256 scale, zero;
} dequantizer;

/* The 8 values of a step: variable shifts move the nibble or byte of element i to the top of its
 * dword. */
DT__INLINE __m256 values(const dequantizer *l, const uint8_t *from)
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

/* Writes columns k0 ... k1-1 of a piece to y. */
DT__INLINE void expand_lane(const dequantizer *l, const uint8_t *from, int64_t k0, int64_t k1,
                            float *y)
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

#define SPAN 256 /* columns of all lanes that are expanded at a time: steps of 4 KiB */

static void expand_piece(const dt__panel_tile *t, const dt__expanded_panel *panel,
                         const dt__piece *p)
{
    const dt__panel_layout *l = t->layout;
    const int64_t n0 = panel->n0;
    const int64_t begin = dt__max_i64(t->k0, p->start);
    const int64_t end = dt__min_i64(t->k1, p->start + p->length);
    float scale[DT__LANES];
    dt__panel_scales(l->scale_dtype, panel->panel + p->scales, scale);
    for (int64_t k = begin; k < end; k += SPAN) {
        const int64_t to = dt__min_i64(k + SPAN, end);
        for (int j = panel->first; j < panel->last; j++) {
            dequantizer of = { .step_bytes = l->step_bytes,
                               .scale = _mm256_broadcast_ss(scale + j) };
            float zero = 0;
            if (t->zero != NULL) {
                zero = t->zero[t->zero_step == 0 ? 0 : (n0 + j) * t->zero_step + p->group];
            }
            of.zero = _mm256_set1_ps(zero);
            of.nibbles = l->nibbles;
            const uint8_t *from = panel->panel + p->codes + dt__panel_lane(l, j);
            float *y = t->y + (n0 + j - t->n0) * t->ldy + (k - t->k0);
            expand_lane(&of, from, k - p->start, to - p->start, y);
        }
    }
}

void dt__expand__avx2(const dt__panel_tile *t) { dt__panel_expand(t, expand_piece); }
#endif
