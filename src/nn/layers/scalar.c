/* Ops with a constant number, which is a tensor of rank 0 owned by the tape.
 *     y = factor x      y = x + addend */
#include "nn/layers/scalar.h"

static dt_tensor *scalar_of(dt_tape *t, const dt_tensor *like, double value)
{
    dt_tensor *x;
    if (t->status != DT_OK || like == NULL) return NULL;
    dt_status s = dt__tensor_create_raw(t->ctx, like->dtype, 0, NULL, &x);
    if (s == DT_OK) {
        dt_fill(x, value);
        s = dt__tape_lend(t, x);
    }
    return dt__tape_adopt(t, s) == DT_OK ? x : NULL;
}

dt_tensor *dt__times(dt_tape *t, dt_tensor *x, double factor)
{
    return dt_mul(t, x, scalar_of(t, x, factor));
}

dt_tensor *dt__plus(dt_tape *t, dt_tensor *x, double addend)
{
    return dt_add(t, x, scalar_of(t, x, addend));
}
