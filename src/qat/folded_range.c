/* Static and learned ranges of weights behind a folded norm. Scale s and zero point z belong to the
 * layer's own weight W. With the fold factor f (nn/fold.c) the folded weight W' = W f has
 *     s' = max(s phi, 2^-126)      z' = z, but qmin + qmax - z where f < 0
 * s' is rounded to the scale dtype; phi is |f| of the row, or max |f| where all rows share one
 * scale. So codes do not change when statistics or γ of the norm change, and backward gives ds =
 * phi ds'. (A scale that belonged to W' would not follow f, which halves within a few hundred
 * updates at 2 bits.) */
#include "qat/folded_range.h"

#include "autograd/tape.h"
#include "nn/fold.h"
#include "qat/schemes/scheme.h"

#include <math.h>

#define LEAST_SCALE 0x1p-126

bool dt__range_is_own(const dt_module *layer, const dt__fq *fq)
{
    return fq->scale != NULL && layer->folding != DT__APART;
}

static bool has_one_scale(const dt__fq *fq) { return fq->quant.granularity == DT_PER_TENSOR; }

/* Computes zero points of W' from those of W, or the other way round. */
static void mirror(const dt__fq *fq, const dt_module *layer, const int8_t *from, int8_t *to)
{
    const int64_t rows = dt__fold_channels(layer), each = fq->zero_point->count / rows;
    const int sum = dt__qmin(&fq->quant) + dt__qmax(&fq->quant);
    for (int64_t i = 0; i < rows * each; i++) {
        to[i] = dt__fold_factor_at(layer, i / each) < 0 ? (int8_t)(sum - from[i]) : from[i];
    }
}

static dt_tensor *folded_zeros(dt_tape *t, const dt_module *layer, const dt__fq *fq)
{
    dt_tensor *z = fq->zero_point, *y;
    if (z == NULL || has_one_scale(fq) || dt_tape_status(t) != DT_OK) return z;
    dt_status s = dt_tensor_create(t->ctx, DT_I8, z->rank, z->dims, &y);
    if (s == DT_OK) {
        mirror(fq, layer, dt__values(z), dt__values_mut(y));
        s = dt__tape_lend(t, y);
    }
    if (s == DT_OK) return y;
    dt__tape_adopt(t, s);
    return NULL;
}

/* A copy of static scales, rounded to their dtype as in files; they get no gradient. */
static dt_tensor *stored(dt_tape *t, const dt__fq *fq, const dt_tensor *s)
{
    dt_tensor *y;
    if (s == NULL || dt_tape_status(t) != DT_OK) return NULL;
    dt_status status = dt_tensor_from(t->ctx, DT_F32, s->rank, s->dims, dt__values(s), &y);
    if (status == DT_OK) {
        dt__store_scales(&fq->quant, y->count, dt__values_mut(y));
        status = dt__tape_lend(t, y);
    }
    if (status == DT_OK) return y;
    dt__tape_adopt(t, status);
    return NULL;
}

static dt_tensor *folded_scales(dt_tape *t, const dt_module *layer, const dt__fq *fq)
{
    dt_tensor *phi = dt__fold_size(t, layer, has_one_scale(fq)), *s = fq->scale;
    if (dt_tape_status(t) != DT_OK) return NULL;
    const int64_t count = s->count, rows = phi->count, each = count / rows;
    s = dt_mul(t, dt_reshape(t, s, 2, (const int64_t[]){ rows, each }),
               dt_reshape(t, phi, 2, (const int64_t[]){ rows, 1 }));
    s = dt_clamp(t, dt_reshape(t, s, 1, &count), LEAST_SCALE, INFINITY);
    /* a tape of shapes has no values */
    return fq->quant.scale_dtype == DT_SCALE_F32 || t->shapes_only ? s : stored(t, fq, s);
}

dt__fq dt__range_folded(dt_tape *t, const dt_module *layer, const dt__fq *fq)
{
    dt__fq of = *fq;
    if (!dt__range_is_own(layer, fq)) return of;
    of.scale = folded_scales(t, layer, fq);
    of.zero_point = folded_zeros(t, layer, fq);
    of.count = NULL;
    return of;
}

/* phi of a row, in double. */
static double size_at(const dt_module *layer, int64_t row)
{
    const double size = fabs(dt__fold_factor_at(layer, row));
    return size > 0 && isfinite(size) ? size : 1;
}

void dt__range_unfold(const dt_module *layer, const dt__fq *fq)
{
    const int64_t rows = dt__fold_channels(layer);
    double most = 0;
    float *s = dt_data_mut(fq->scale);
    for (int64_t r = 0; r < rows; r++) most = fmax(most, size_at(layer, r));
    for (int64_t i = 0; i < fq->scale->count; i++) {
        const double phi = has_one_scale(fq) ? most : size_at(layer, i / (fq->scale->count / rows));
        s[i] = fmaxf((float)(s[i] / phi), (float)LEAST_SCALE);
    }
    if (fq->zero_point == NULL || has_one_scale(fq)) return;
    int8_t *zero = dt_data_mut(fq->zero_point);
    mirror(fq, layer, zero, zero);
}

dt_status dt__range_begin(const dt_module *layer, const dt_tensor *derived, const dt__fq *fq)
{
    const dt__quantizer range = {
        .quant = fq->quant, .scale = fq->scale, .zero_point = fq->zero_point, .count = fq->count
    };
    DT__TRY(dt__quantizer_begin(derived, &fq->map, &range));
    if (dt__range_is_own(layer, fq)) dt__range_unfold(layer, fq);
    return DT_OK;
}
