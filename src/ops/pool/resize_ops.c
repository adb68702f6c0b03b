/* Ops whose result has planes of a given size: their options, shape functions, and extents. */
#include "ops/pool/resize_ops.h"
#include "ops/shape/view.h"

const dt__size_options dt__size_defaults = { { 0, 0 } };

#define SIZE(type, text_)                                                                          \
    {                                                                                              \
        "size", type, .offset = offsetof(dt__size_options, size), .fallback = "!", .text = text_   \
    }

const dt_key dt__size_keys2d[] = { SIZE(DT_KEY_PAIR, "height and width of the result"), { 0 } };
const dt_key dt__size_keys1d[] = { SIZE(DT_KEY_INT, "length of the result"), { 0 } };

static dt_status refuse_size(const dt_call *c, int axes)
{
    const int64_t *size = ((const dt__size_options *)c->options)->size;
    if (axes == 1) {
        return dt_refuse(c, DT_ERR_ARG,
                         "a length of %lld; expected 1 or more, and one that fits memory",
                         (long long)size[0]);
    }
    return dt_refuse(c, DT_ERR_ARG,
                     "a size of %lld x %lld; expected 1 or more each, and one that fits memory",
                     (long long)size[0], (long long)size[1]);
}

static dt_status shape(dt_call *c, int axes)
{
    const dt__size_options *o = c->options;
    const dt_tensor *x = c->in[0];
    DT__TRY(dt__want_operands(c, 1, 1));
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(dt__want_rank(c, 0, 2 + axes, 2 + axes));
    int64_t dims[4] = { x->dims[0], x->dims[1] };
    for (int d = 0; d < axes; d++) {
        int64_t most; /* the largest product of extents in a kernel */
        const int64_t in = x->dims[2 + d], out = o->size[d];
        if (out < 1 || __builtin_mul_overflow(in, out, &most)) return refuse_size(c, axes);
        if (in == 0)
            return dt_refuse(c, DT_ERR_SHAPE,
                             "the input has no pixel to resize; expected extents of 1 or more");
        dims[2 + d] = out;
    }
    return dt_result(c, 0, x->dtype, x->rank, dims);
}

dt_status dt__size_shape2d(dt_call *c) { return shape(c, 2); }
dt_status dt__size_shape1d(dt_call *c) { return shape(c, 1); }

dt__resize dt__resize_of(const dt_call *c)
{
    const dt_tensor *x = c->in[0], *y = c->y;
    const int axes = x->rank - 2;
    dt__resize r = { .planes = x->dims[0] * x->dims[1], .in = { 1 }, .out = { 1 } };
    for (int d = 0; d < axes; d++) {
        r.in[2 - axes + d] = x->dims[2 + d];
        r.out[2 - axes + d] = y->dims[2 + d];
    }
    return r;
}

void dt__resize_lower_line(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out,
                           dt__resize_function *plane)
{
    const int64_t length = ((const dt__size_options *)given)->size[0];
    out[0] = dt__plane_to_line(t, plane(t, dt__line_to_plane(t, in[0]), length, 1));
}
