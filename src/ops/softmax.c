/* Shape function of ops along one dimension. */
#include "ops/softmax.h"

const dt__dim_options dt__dim_defaults = { .dim = -1 };

const dt_key dt__dim_keys[] = {
    { "dim", DT_KEY_INT, .offset = offsetof(dt__dim_options, dim), .fallback = "-1" },
    { 0 },
};

dt_status dt__along_shape(dt_call *c)
{
    const dt__dim_options *o = c->options;
    int dim;
    DT__TRY(dt__want_dim(c, 0, o->dim, &dim));
    c->state[0] = dim;
    return dt__shape_like(c, 0);
}
