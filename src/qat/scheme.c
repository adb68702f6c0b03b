/* What all rules share: the list, settings and their errors, how a shape is cut into blocks, limits
 * and rounding of scales. */
#include "qat/scheme.h"

#include "kernels/panels.h"

#include <float.h>
#include <math.h>
#include <string.h>

_Static_assert((int)DT_SCALE_F32 == DT__SCALE_F32 && (int)DT_SCALE_F16 == DT__SCALE_F16 &&
                   (int)DT_SCALE_BF16 == DT__SCALE_BF16,
               "panels name scale dtypes as schemes do");

static const dt__scheme *const schemes[DT__SCHEMES] = {
#define DT__SCHEME(name, number) [number] = &dt__scheme_##name,
#include "qat/schemes.inc"
#undef DT__SCHEME
};

const dt__scheme *dt__scheme_of(int scheme)
{
    return scheme < 0 || scheme >= DT__SCHEMES ? NULL : schemes[scheme];
}

/* ---- settings ------------------------------------------------------------------------------- */

static dt_status check_q4_0(dt_ctx *ctx, const dt_quant_spec *q)
{
    if (q->activation) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "scheme q4_0 is for weights; for activations use "
                       "asymmetric or symmetric");
    }
    if (q->bits != 4) {
        return dt_fail(ctx, DT_ERR_CONFIG, "scheme q4_0 has 4 bits, not %lld", (long long)q->bits);
    }
    if (q->granularity != DT_PER_GROUP || q->group_size != 32) {
        return dt_fail(ctx, DT_ERR_CONFIG, "scheme q4_0 wants granularity group and group_size 32");
    }
    if (q->scale_dtype == DT_SCALE_BF16) {
        return dt_fail(ctx, DT_ERR_CONFIG, "scheme q4_0 holds its scales as f16, not bf16");
    }
    return DT_OK;
}

static dt_status check_granularity(dt_ctx *ctx, const dt_quant_spec *q)
{
    if (q->granularity < DT_PER_TENSOR || q->granularity > DT_PER_SAMPLE) {
        return dt_fail(ctx, DT_ERR_CONFIG, "%d is no granularity", q->granularity);
    }
    if (q->granularity == DT_PER_GROUP && q->group_size < 1) {
        return dt_fail(ctx, DT_ERR_CONFIG, "group_size is %lld; it must be positive",
                       (long long)q->group_size);
    }
    if (q->activation && q->granularity == DT_PER_CHANNEL) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "granularity channel is for weights; activations take "
                       "tensor, token, sample or group");
    }
    if (!q->activation && (q->granularity == DT_PER_TOKEN || q->granularity == DT_PER_SAMPLE)) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "granularity %s is for activations; weights take "
                       "tensor, channel or group",
                       q->granularity == DT_PER_TOKEN ? "token" : "sample");
    }
    return DT_OK;
}

static dt_status check_observer(dt_ctx *ctx, const dt_quant_spec *q)
{
    if (q->observer < DT_OBSERVER_MINMAX || q->observer > DT_OBSERVER_MSE) {
        return dt_fail(ctx, DT_ERR_CONFIG, "%d is no observer", q->observer);
    }
    if (q->observer == DT_OBSERVER_PERCENTILE &&
        !(q->percentile >= 50 && q->percentile <= 100 && q->samples >= 1)) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "observer percentile: %g %% of %lld samples; 50 to 100 of at least 1 wanted",
                       q->percentile, (long long)q->samples);
    }
    const bool averages =
        q->observer == DT_OBSERVER_MOVING_AVERAGE || q->observer == DT_OBSERVER_MSE;
    if (!q->activation || !averages || (q->averaging > 0 && q->averaging <= 1)) return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG, "averaging is %g; above 0 and at most 1 is wanted",
                   q->averaging);
}

static dt_status check_learned(dt_ctx *ctx, const dt_quant_spec *q)
{
    if (!q->activation && q->granularity != DT_PER_TENSOR && q->granularity != DT_PER_CHANNEL) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "a learned range of weights wants granularity tensor or channel");
    }
    if (q->scheme != DT_SCHEME_SYMMETRIC) {
        return dt_fail(ctx, DT_ERR_CONFIG, "a learned range wants scheme symmetric, not %s",
                       dt__scheme_of(q->scheme)->name);
    }
    if (q->scale_dtype != DT_SCALE_F32) {
        return dt_fail(ctx, DT_ERR_CONFIG, "a learned scale is f32; it is not rounded");
    }
    if (q->is_unsigned && !q->activation) {
        return dt_fail(ctx, DT_ERR_CONFIG, "codes of weights with a learned range are signed");
    }
    if (q->save == DT_SAVED_COMPACT || q->save == DT_SAVED_EXACT) return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG, "%d is no way to save an activation", q->save);
}

static dt_status check_range(dt_ctx *ctx, const dt_quant_spec *q)
{
    const bool per_tensor = q->granularity == DT_PER_TENSOR;
    if (q->range < DT_RANGE_DYNAMIC || q->range > DT_RANGE_LEARNED) {
        return dt_fail(ctx, DT_ERR_CONFIG, "%d is no range", q->range);
    }
    if (q->range == DT_RANGE_STATIC && !q->activation &&
        (q->observer != DT_OBSERVER_MSE || dt__scheme_of(q->scheme)->fp16_blocks)) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "a static range of weights is that of observer mse, and not of scheme q4_0");
    }
    if (q->shift && (q->range != DT_RANGE_LEARNED || !q->activation)) {
        return dt_fail(ctx, DT_ERR_CONFIG, "a shift is for activations with a learned range");
    }
    if (q->range != DT_RANGE_DYNAMIC && q->activation && !per_tensor) {
        return dt_fail(ctx, DT_ERR_CONFIG, "a %s range of activations wants granularity tensor",
                       q->range == DT_RANGE_STATIC ? "static" : "learned");
    }
    if (q->range == DT_RANGE_LEARNED) return check_learned(ctx, q);
    return q->range == DT_RANGE_STATIC ? check_observer(ctx, q) : DT_OK;
}

dt_status dt__quant_check(dt_ctx *ctx, const dt_quant_spec *q)
{
    const dt__scheme *scheme = dt__scheme_of(q->scheme);
    if (scheme == NULL)
        return dt_fail(ctx, DT_ERR_CONFIG, "%d is no quantization scheme", q->scheme);
    if (q->bits < 2 || q->bits > 8) {
        return dt_fail(ctx, DT_ERR_CONFIG, "bits is %lld; codes have 2 to 8 bits",
                       (long long)q->bits);
    }
    if (q->scale_dtype < DT_SCALE_F32 || q->scale_dtype > DT_SCALE_BF16) {
        return dt_fail(ctx, DT_ERR_CONFIG, "%d is no scale dtype", q->scale_dtype);
    }
    if (q->ste < DT_STE_DEFAULT || q->ste > DT_STE_CLIPPED) {
        return dt_fail(ctx, DT_ERR_CONFIG, "%d is no straight-through gradient", q->ste);
    }
    if (q->is_unsigned && !scheme->has_zero && q->range != DT_RANGE_LEARNED) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "unsigned codes need a zero point: scheme %s has none, "
                       "asymmetric has",
                       scheme->name);
    }
    DT__TRY(check_granularity(ctx, q));
    DT__TRY(check_range(ctx, q));
    return scheme->fp16_blocks ? check_q4_0(ctx, q) : DT_OK;
}

bool dt__has_zero(const dt_quant_spec *q)
{
    return dt__scheme_of(q->scheme)->has_zero || (q->range == DT_RANGE_LEARNED && q->is_unsigned);
}

int dt__scale_dtype(const dt_quant_spec *q)
{
    return dt__scheme_of(q->scheme)->fp16_blocks ? DT_SCALE_F16 : q->scale_dtype;
}

bool dt__ste_clipped(const dt_quant_spec *q)
{
    return q->ste == DT_STE_DEFAULT ? q->range != DT_RANGE_DYNAMIC : q->ste == DT_STE_CLIPPED;
}

/* ---- blocks --------------------------------------------------------------------------------- */

dt_status dt__cut_of(dt_ctx *ctx, const dt_quant_spec *q, int rank, const int64_t *dims,
                     dt__cut *out)
{
    const bool by_last =
        q->granularity == DT_PER_TOKEN || (q->granularity == DT_PER_GROUP && q->activation);
    const int split = rank == 0 ? 0 : by_last ? rank - 1 : 1;
    int64_t rows, columns, count;
    if (rank < 0 || rank > DT_MAX_RANK || !dt__product(rank, dims, &count) ||
        !dt__product(split, dims, &rows) || !dt__product(rank - split, dims + split, &columns)) {
        return dt_fail(ctx, DT_ERR_SHAPE,
                       "quantize: a shape of rank %d with a negative extent or "
                       "more elements than can be counted",
                       rank);
    }
    const bool grouped = q->granularity == DT_PER_GROUP;
    const int64_t row = dt__max_i64(columns, 1);
    const int64_t group = grouped ? dt__min_i64(q->group_size, row) : row;
    *out = (dt__cut){ rows, columns, group, dt__ceil_div(columns, group),
                      q->granularity == DT_PER_TENSOR };
    return DT_OK;
}

/* ---- scales --------------------------------------------------------------------------------- */

/* The nearest float whose fraction is `bits` shorter, ties to even; for normal numbers and
 * infinity. / */
static inline float shortened(float x, int bits)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    u += (1u << (bits - 1)) - 1 + (u >> bits & 1);
    u &= ~0u << bits;
    memcpy(&x, &u, sizeof x);
    return x;
}

static dt__scale_limits limits_of(const dt__scheme *scheme, const dt_quant_spec *q)
{
    const int dtype = scheme->fp16_blocks ? DT_SCALE_F16 : q->scale_dtype;
    if (dtype == DT_SCALE_F16) return (dt__scale_limits){ dtype, 0x1p-14f, 65504 };
    return (dt__scale_limits){ dtype, q->activation ? 0x1p-23f : 0x1p-126f,
                               dtype == DT_SCALE_BF16 ? 0x1.fep127f : FLT_MAX };
}

/* Every loop is one that compilers vectorize: a group of 32 values costs two divisions. A bf16
 * scale that rounds to infinity is refused later, with the block that it belongs to. */
static void round_scales(const dt__scale_limits *limits, const dt__blocks *b)
{
    const bool f16 = limits->dtype == DT_SCALE_F16;
    const float least = limits->least;
    for (int64_t i = 0; i < b->n; i++) {
        b->scale[i] = b->scale[i] < least ? least : b->scale[i];
    }
    for (int64_t i = 0; f16 && i < b->n; i++) {
        b->scale[i] = shortened(b->scale[i] > 65504 ? 65504 : b->scale[i], 13);
    }
    for (int64_t i = 0; limits->dtype == DT_SCALE_BF16 && i < b->n; i++) {
        b->scale[i] = shortened(b->scale[i], 16);
    }
    for (int64_t i = 0; i < b->n; i++) b->inverse[i] = 1.0f / b->scale[i];
}

/* Whether every scale, times the integer furthest from 0 that it may meet, is finite. */
static bool bounds_are_finite(int qmin, int qmax, const dt__blocks *b)
{
    int bad = 0;
    if (b->zero == NULL) {
        for (int64_t i = 0; i < b->n; i++) bad |= !(fabsf((float)qmin * b->scale[i]) <= FLT_MAX);
        return bad == 0;
    }
    for (int64_t i = 0; i < b->n; i++) {
        const int above = qmax - b->zero[i], below = b->zero[i] - qmin;
        const int most = above > below ? above : below;
        bad |= !(fabsf((float)(most > -qmin ? most : -qmin) * b->scale[i]) <= FLT_MAX);
    }
    return bad == 0;
}

bool dt__scheme_scales(const dt__scheme *scheme, const dt_quant_spec *q, const dt__blocks *b)
{
    const dt__scale_limits limits = limits_of(scheme, q);
    const int qmin = dt__qmin(q), qmax = dt__qmax(q);
    scheme->scale(qmin, qmax, b);
    int bad = 0;
    for (int64_t i = 0; i < b->n; i++) bad |= !(fabsf(b->scale[i]) <= FLT_MAX);
    if (bad != 0) return false;
    if (scheme->round_scales != NULL) scheme->round_scales(&limits, b);
    else round_scales(&limits, b);
    if (b->zero != NULL) {
        if (scheme->zero == NULL) memset(b->zero, 0, (size_t)b->n);
        else scheme->zero(qmin, qmax, b);
    }
    return bounds_are_finite(qmin, qmax, b);
}

bool dt__choose_scales(const void *settings, const dt__blocks *b)
{
    const dt_quant_spec *q = settings;
    return dt__scheme_scales(dt__scheme_of(q->scheme), q, b);
}

dt__coding dt__coding_of(const dt_quant_spec *q)
{
    const dt__scheme *scheme = dt__scheme_of(q->scheme);
    return (dt__coding){ .choose = dt__choose_scales,
                         .settings = q,
                         .qmin = dt__qmin(q),
                         .qmax = dt__qmax(q),
                         .half_up = scheme->half_up,
                         .extremum = scheme->extremum };
}

bool dt__can_clip(const dt_quant_spec *q)
{
    return q->range != DT_RANGE_DYNAMIC || !dt__scheme_of(q->scheme)->never_clips ||
           dt__scale_dtype(q) == DT_SCALE_F16;
}
