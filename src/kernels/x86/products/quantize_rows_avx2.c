/* Integer codes of rows with AVX2; the formulas and the bits are those of quantize_rows.c.
 *
 * Ranges are computed on the bits of floats. As signed integers, positive floats keep their order;
 * as unsigned integers, negative floats are above all positive ones, the most negative one last. So
 * the signed maximum from 0 on is hi, and the unsigned maximum, if its sign bit is set, is lo; NaN
 * and infinities are the largest in both. */
#if defined DETENT_SIMD && defined __x86_64__
#include "kernels/products/small_rows.inc"
#include "kernels/x86/products/quantize_rows_ymm.inc"

#include <string.h>

/* Maxima of eight lanes each, as bits. */
DT__INLINE void reduce(extent e, uint32_t *low, uint32_t *high)
{
    const __m128i sign = _mm_set1_epi32(INT32_MIN);
    const __m128i most =
        _mm_max_epi32(_mm256_castsi256_si128(e.most), _mm256_extracti128_si256(e.most, 1));
    const __m128i least = _mm_xor_si128(
        sign, _mm_max_epu32(_mm256_castsi256_si128(e.least), _mm256_extracti128_si256(e.least, 1)));
    __m128i both = _mm_max_epi32(_mm_unpacklo_epi64(most, least), _mm_unpackhi_epi64(most, least));
    both = _mm_max_epi32(both, _mm_shuffle_epi32(both, 0xb1));
    *high = (uint32_t)_mm_cvtsi128_si32(both);
    *low = (uint32_t)_mm_extract_epi32(both, 2) ^ UINT32_C(0x80000000);
}

/* lo and hi of eight groups of n values each; false where one is not finite. */
DT__INLINE bool eight_groups(const float *x, int64_t n, float *lo, float *hi)
{
    const float *group[8];
    for (int j = 0; j < 8; j++) group[j] = x + j * n;
    return eight_ranges(group, n, lo, hi);
}

int64_t dt__range__avx2(int64_t n, int64_t group, const float *x, float *lo, float *hi)
{
    int64_t start = 0, g = 0;
    for (; group <= 64 && start + 8 * group <= n; start += 8 * group, g += 8) {
        const bool finite = group == 32 ? eight_groups(x + start, 32, lo + g, hi + g)
                                        : eight_groups(x + start, group, lo + g, hi + g);
        if (!finite) return start + dt__range__ref(8 * group, group, x + start, lo + g, hi + g);
    }
    for (; start < n; start += group, g++) {
        const int64_t length = dt__min_i64(group, n - start);
        uint32_t low, high;
        reduce(extent_of(length, x + start), &low, &high);
        if (high >= 0x7f800000 || low >= 0xff800000) {
            return start + dt__range__ref(length, length, x + start, lo + g, hi + g);
        }
        if (low < 0x80000000) low = 0;
        memcpy(lo + g, &low, sizeof low);
        memcpy(hi + g, &high, sizeof high);
        lo[g] += 0.0f; /* -0 */
    }
    return -1;
}

typedef struct target {
    __m256i to_byte; /* zero point + 128, as 16 bits */
    __m256i flip;    /* the sign bit of every byte, if codes are signed in memory */
} target;

/* 32 codes, in order; `inside` is -1 for codes that were not clipped. */
DT__INLINE __m256i codes_of(const rounding *r, const target *t, const float *x, __m256i *inside)
{
    __m256i low, high, inside_low, inside_high;
    low = clamped(r, rounded16(r, x), &inside_low);
    high = clamped(r, rounded16(r, x + 16), &inside_high);
    *inside = _mm256_packs_epi16(inside_low, inside_high);
    const __m256i bytes =
        _mm256_packus_epi16(_mm256_add_epi16(low, t->to_byte), _mm256_add_epi16(high, t->to_byte));
    return _mm256_xor_si256(in_order(bytes), t->flip);
}

DT__INLINE uint32_t bits_of(__m256i inside)
{
    return (uint32_t)_mm256_movemask_epi8(in_order(inside));
}

DT__INLINE __m256i count(__m256i before, __m256i inside)
{
    const __m256i zero = _mm256_setzero_si256();
    return _mm256_add_epi64(before, _mm256_sad_epu8(_mm256_sub_epi8(zero, inside), zero));
}

/* Codes of fewer than 8 bits without a zero point. */
DT__INLINE __m256i short_codes_of(const rounding *r, const float *x, __m256i *inside)
{
    const __m256i q = _mm256_packs_epi16(rounded16(r, x), rounded16(r, x + 16));
    return in_order(clamped8(r, q, inside));
}

typedef struct encoding {
    rounding rounding;
    target target;
    bool is_short;
    __m256i unclipped; /* number of unclipped codes, in four parts */
} encoding;

/* Encodes 32 columns of a group. */
DT__INLINE void encode_block(encoding *e, const float *x, int8_t *codes, uint8_t *mask)
{
    __m256i inside, q;
    if (e->is_short) q = short_codes_of(&e->rounding, x, &inside);
    else q = codes_of(&e->rounding, &e->target, x, &inside);
    _mm256_storeu_si256((__m256i *)(void *)codes, q);
    e->unclipped = count(e->unclipped, inside);
    if (mask == NULL) return;
    const uint32_t bits = bits_of(inside);
    memcpy(mask, &bits, sizeof bits);
}

/* Encodes fewer than 32 columns. */
static void encode_rest(encoding *e, int64_t n, const float *x, int8_t *codes, uint8_t *mask)
{
    float rest[32] = { 0 };
    int8_t bytes[32];
    uint8_t bits[4];
    memcpy(rest, x, (size_t)n * sizeof *x);
    encode_block(e, rest, bytes, bits);
    memcpy(codes, bytes, (size_t)n);
    if (mask != NULL) memcpy(mask, bits, (size_t)dt__ceil_div(n, 8));
}

static void begin_group(const dt__code_row *row, int64_t g, encoding *e)
{
    const float scale = row->scale[g];
    e->rounding.inverse = _mm256_set1_ps(row->inverse != NULL ? row->inverse[g]
                                         : scale == 0         ? 0
                                                              : 1.0f / scale);
    if (row->zero == NULL) return;
    const __m256 inverse = e->rounding.inverse;
    e->rounding = rounding_of(row->qmin - row->zero[g], row->qmax - row->zero[g], row->half_up);
    e->rounding.inverse = inverse;
    e->target.to_byte = _mm256_set1_epi16((short)(row->zero[g] + 128));
}

/* Rows whose codes are values of small floats. */
static int64_t encode_smalls(const dt__code_row *row, const float *x, int8_t *codes)
{
    int64_t clipped = 0;
    for (int64_t start = 0, i = 0; start < row->n; start += row->group, i++) {
        const float s = row->scale[i], own = s == 0 ? 0 : 1.0f / s;
        const small_group g = { s,         row->inverse != NULL ? row->inverse[i] : own,
                                row->bias, dt__min_i64(row->group, row->n - start),
                                x + start, codes + start };
        clipped += encode_small(row->levels, &g);
    }
    return clipped;
}

int64_t dt__encode__avx2(const dt__code_row *row, const float *x, int8_t *codes, uint8_t *mask)
{
    const bool split = mask != NULL && row->group < row->n && row->group % 8 != 0;
    if (row->levels != NULL && dt__is_small(row->levels) && mask == NULL) {
        return encode_smalls(row, x, codes);
    }
    if (row->levels != NULL || split) {
        return dt__encode__ref(row, x, codes, mask);
    }
    encoding e = { .unclipped = _mm256_setzero_si256() };
    e.rounding = rounding_of(row->qmin, row->qmax, row->half_up);
    e.target = (target){ _mm256_set1_epi16(128), _mm256_set1_epi8(row->bias == 0 ? INT8_MIN : 0) };
    e.is_short = row->zero == NULL && row->bias == 0 && row->qmin > INT8_MIN;
    int64_t filled = 0;
    for (int64_t start = 0, g = 0; start < row->n; start += row->group, g++) {
        const int64_t end = dt__min_i64(start + row->group, row->n);
        begin_group(row, g, &e);
        int64_t k = start;
        for (; k + 32 <= end; k += 32) {
            encode_block(&e, x + k, codes + k, mask == NULL ? NULL : mask + k / 8);
        }
        if (k < end) encode_rest(&e, end - k, x + k, codes + k, mask == NULL ? NULL : mask + k / 8);
        filled += dt__round_up(end - start, 32);
    }
    int64_t part[4];
    _mm256_storeu_si256((__m256i *)(void *)part, e.unclipped);
    return filled - (part[0] + part[1] + part[2] + part[3]);
}

DT__INLINE __m256 dequantized(__m128i bytes, __m256i zero, __m256 scale)
{
    const __m256i steps = _mm256_sub_epi32(_mm256_cvtepi8_epi32(bytes), zero);
    return _mm256_mul_ps(_mm256_cvtepi32_ps(steps), scale);
}

void dt__decode__avx2(const dt__code_row *r, const int8_t *codes, float *y)
{
    const __m128i flip = _mm_set1_epi8(r->bias == 0 ? 0 : INT8_MIN);
    for (int64_t start = 0, g = 0; r->real != NULL && start < r->n; start += r->group, g++) {
        const int64_t n = dt__min_i64(r->group, r->n - start);
        decode_reals(r->real, r->scale[g], r->bias, n, codes + start, y + start);
    }
    if (r->real != NULL) return;
    for (int64_t start = 0, g = 0; start < r->n; start += r->group, g++) {
        const int64_t end = dt__min_i64(start + r->group, r->n);
        const int steps = r->zero == NULL ? 0 : r->zero[g];
        const __m256 scale = _mm256_set1_ps(r->scale[g]);
        const __m256i zero = _mm256_set1_epi32(steps);
        int64_t k = start;
        for (; k + 16 <= end; k += 16) {
            const __m128i bytes =
                _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)(codes + k)), flip);
            _mm256_storeu_ps(y + k, dequantized(bytes, zero, scale));
            _mm256_storeu_ps(y + k + 8, dequantized(_mm_unpackhi_epi64(bytes, bytes), zero, scale));
        }
        for (; k < end; k++) y[k] = (float)((int8_t)(codes[k] - r->bias) - steps) * r->scale[g];
    }
}

void dt__pass__avx2(int64_t n, const uint8_t *mask, const float *dy, float *dx)
{
    const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    int64_t k = 0;
    for (; k + 8 <= n; k += 8) {
        const __m256i byte = _mm256_and_si256(_mm256_set1_epi32(mask[k / 8]), bits);
        const __m256 passes = _mm256_castsi256_ps(_mm256_cmpeq_epi32(byte, bits));
        _mm256_storeu_ps(dx + k, _mm256_and_ps(passes, _mm256_loadu_ps(dy + k)));
    }
    for (; k < n; k++) dx[k] = (mask[k / 8] >> (k % 8)) & 1 ? dy[k] : 0;
}
#endif
