/* What all schemes share: their list, settings that follow from a spec, how a shape is cut into
 * blocks, limits and rounding of scales. spec_check.c has the errors. */
#include "qat/schemes/scheme.h"

#include "kernels/products/panels.h"
#include "qat/schemes/mx.h"

#include <float.h>
#include <math.h>
#include <string.h>

_Static_assert((int)DT_SCALE_F32 == DT__SCALE_F32 && (int)DT_SCALE_F16 == DT__SCALE_F16 &&
                   (int)DT_SCALE_BF16 == DT__SCALE_BF16,
               "panels name scale dtypes as schemes do");

static const dt__scheme *const schemes[DT__SCHEMES] = {
#define DT__SCHEME(name, number) [number] = &dt__scheme_##name,
#include "qat/schemes/schemes.inc"
#undef DT__SCHEME
};

const dt__scheme *dt__scheme_of(int scheme)
{
    if (scheme == DT_SCHEME_OWN) return &dt__scheme_own;
    return scheme < 0 || scheme >= DT__SCHEMES ? NULL : schemes[scheme];
}

/* ---- settings ------------------------------------------------------------------------------- */

bool dt__has_zero(const dt_quant_spec *q)
{
    return dt__scheme_of(q->scheme)->has_zero || (q->range == DT_RANGE_LEARNED && q->is_unsigned);
}

const dt__levels *dt__levels_of(const dt_quant_spec *q) { return dt__scheme_of(q->scheme)->levels; }

const dt__small_float *dt__real_of(const dt_quant_spec *q)
{
    const dt__levels *levels = dt__levels_of(q);
    return levels == NULL ? NULL : levels->real;
}

int dt__qmin(const dt_quant_spec *q)
{
    const dt__levels *levels = dt__levels_of(q);
    if (dt__real_of(q) != NULL) return -(int)levels->real->most;
    return levels != NULL ? levels->code[0] : -(1 << (q->bits - 1));
}

int dt__qmax(const dt_quant_spec *q)
{
    const dt__levels *levels = dt__levels_of(q);
    if (dt__real_of(q) != NULL) return (int)levels->real->most;
    return levels != NULL ? levels->code[levels->n - 1] : (1 << (q->bits - 1)) - 1;
}

int dt__code_bits(const dt_quant_spec *q)
{
    int bits = 2;
    if (dt__real_of(q) != NULL) return 8;
    if (dt__levels_of(q) == NULL) return (int)q->bits;
    while (dt__qmin(q) < -(1 << (bits - 1)) || dt__qmax(q) >= 1 << (bits - 1)) bits++;
    return bits;
}

bool dt__has_code_zero(const dt_quant_spec *q)
{
    const dt__levels *levels = dt__levels_of(q);
    for (int i = 0; levels != NULL && i < levels->n; i++) {
        if (levels->code[i] == 0) return true;
    }
    return levels == NULL || levels->real != NULL;
}

int dt__scale_dtype(const dt_quant_spec *q)
{
    return dt__scheme_of(q->scheme)->fp16_blocks ? DT_SCALE_F16 : q->scale_dtype;
}

bool dt__is_learnable(int scheme)
{
    const dt__scheme *s = dt__scheme_of(scheme);
    return scheme == DT_SCHEME_SYMMETRIC || (s->levels != NULL && s->group == 0);
}

bool dt__has_blocks(int scheme)
{
    const dt__scheme *s = dt__scheme_of(scheme);
    return s->in_groups || (s->levels != NULL && s->group != 0);
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
    *out = (dt__cut){
        rows, columns, group, dt__ceil_div(columns, group), q->granularity == DT_PER_TENSOR, 0
    };
    return DT_OK;
}

/* ---- scales --------------------------------------------------------------------------------- */

/* x rounded to a float whose fraction is `bits` shorter, ties to even; for normal numbers and
 * infinity. */
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
    const bool rounds = q->activation && scheme->group == 0; /* as torchao limits scales */
    return (dt__scale_limits){ dtype, rounds ? 0x1p-23f : 0x1p-126f,
                               dtype == DT_SCALE_BF16 ? 0x1.fep127f : FLT_MAX };
}

/* Compilers vectorize each of these loops; they matter, since a group of 32 values costs two
 * divisions. A bf16 scale that rounds to infinity is refused later, with its block. */
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

void dt__store_scales(const dt_quant_spec *q, int64_t n, float *scale)
{
    const dt__scale_limits limits = limits_of(dt__scheme_of(q->scheme), q);
    for (int64_t i = 0; i < n; i++) {
        float inverse;
        round_scales(&limits, &(dt__blocks){ 1, NULL, NULL, scale + i, &inverse, NULL, 0 });
    }
}

/* Whether the largest dequantized value of every block is finite. */
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
    if (scheme->rule.most > 0) dt__mx_scales(b, &scheme->rule);
    else if (scheme->scale != NULL) scheme->scale(qmin, qmax, b);
    else q->of->scale(b->n, b->lo, b->hi, qmin, qmax, b->scale);
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

bool dt__choose_scales(const dt_quant_spec *q, const dt__blocks *b)
{
    return dt__scheme_scales(dt__scheme_of(q->scheme), q, b);
}

bool dt__range_scale(const dt_quant_spec *q, float lo, float hi, float *scale, int8_t *zero)
{
    const dt__scheme *scheme = dt__scheme_of(q->scheme);
    float inverse;
    dt__blocks b = { 1, &lo, &hi, scale, &inverse, zero, 0 };
    if (scheme->global == NULL) return dt__choose_scales(q, &b);
    b.global = scheme->global(-lo > hi ? -lo : hi);
    const bool finite = dt__choose_scales(q, &b);
    *scale = b.global;
    return finite;
}

dt__coding dt__coding_of(const dt_quant_spec *q)
{
    const dt__scheme *scheme = dt__scheme_of(q->scheme);
    return (dt__coding){ .choose = dt__choose_scales,
                         .spec = q,
                         .global = scheme->settle != NULL && q->activation ? 1 : 0,
                         .qmin = dt__qmin(q),
                         .qmax = dt__qmax(q),
                         .half_up = scheme->half_up,
                         .extremum = scheme->extremum,
                         .mean = scheme->mean,
                         .levels = scheme->levels };
}

bool dt__can_clip(const dt_quant_spec *q)
{
    return q->range != DT_RANGE_DYNAMIC || !dt__scheme_of(q->scheme)->never_clips ||
           dt__scale_dtype(q) == DT_SCALE_F16;
}
