/* Coded tensors (detent/device.h): results of ops that are int8 codes of one scale and zero point.
 * A handle has the shape and no storage; its codes are dt__codes whose rows are samples,
 * contiguous.
 * Its value is dequantized for each op that reads it. Gradients add up in its slot as in a dense
 * tensor's. */
#ifndef DT__AUTOGRAD_CODED_H
#define DT__AUTOGRAD_CODED_H

#include "autograd/codes.h"

typedef struct dt__coding_range {
    float scale;
    int zero; /* of the stored codes, -128 ... 127 */
} dt__coding_range;

extern const dt__kind dt__coded_kind;

/* For shape functions: makes result i a coded tensor, whose codes forward writes. */
dt_status dt__result_coded(dt_call *c, int i, int rank, const int64_t *dims, dt__coding_range r);
/* Turns a result that is still dense and has a storage into a coded tensor. */
dt_status dt__result_to_coded(dt_call *c, int i, dt__coding_range r);
/* The codes of a coded tensor. Lent. */
dt__codes *dt__coded_codes(const dt_tensor *x);

static inline bool dt__is_coded(const dt_tensor *x) { return x->kind == &dt__coded_kind; }
static inline dt__coding_range dt__range_of_codes(const dt__codes *codes)
{
    return (dt__coding_range){ codes->scale[0], codes->zero[0] };
}

#endif
