/* Learned ranges of integer networks: device_ends.h. */
#include "qat/device/device_ends.h"

#include "qat/schemes/scheme.h"

#include <math.h>

/* Keeps 0 inside of the range: an optimizer's step may move an end past it. */
static void ends_of(const dt__quantizer *q, float *lo, float *hi)
{
    const float *ends = dt__values(q->ends);
    *lo = ends[0] < 0 ? ends[0] : 0;
    *hi = ends[1] > 0 ? ends[1] : 0;
}

dt_status dt__ends_settle(const dt__quantizer *q)
{
    float lo, hi, scale;
    int8_t zero;
    if (q->ends == NULL || q->count == NULL) return DT_OK;
    ends_of(q, &lo, &hi);
    if (!isfinite(lo) || !isfinite(hi) || !dt__range_scale(&q->quant, lo, hi, &scale, &zero)) {
        return dt_fail(q->ends->ctx, DT_ERR_NUMERIC, "%s: %g ... %g is not a range",
                       q->ends->name != NULL ? q->ends->name : "ends", (double)lo, (double)hi);
    }
    float *to = dt__values_mut(q->scale);
    int8_t *to_zero = dt__values_mut(q->zero_point);
    if (*to == scale && *to_zero == zero) return DT_OK;
    *to = scale;
    *to_zero = zero;
    q->scale->storage->version++;
    q->zero_point->storage->version++;
    return DT_OK;
}

dt_status dt__ends_observe(dt_tape *t, dt_tensor *x, const dt__quantizer *q)
{
    dt__cut cut;
    float lo = 0, hi = 0;
    if (dt__quantizer_has_seen(q)) return DT_OK;
    DT__TRY(dt__cut_of(t->ctx, &q->quant, x->rank, x->dims, &cut));
    if (dt__range_of(t->ctx, &cut, dt__values(x), &lo, &hi) >= 0) {
        return dt_fail(t->ctx, DT_ERR_NUMERIC, "%s: a value is not finite",
                       q->ends->name != NULL ? q->ends->name : "ends");
    }
    float *ends = dt__values_mut(q->ends);
    ends[0] = lo;
    ends[1] = hi;
    *(int64_t *)dt__values_mut(q->count) += x->count;
    q->ends->storage->version++;
    q->count->storage->version++;
    return DT_OK;
}
