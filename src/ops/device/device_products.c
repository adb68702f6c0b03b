/* device_linear and the device convolutions. A linear layer is a convolution of images of one
 * pixel.
 *
 *     coded      y = clamp(requantize(offset + sum of u w))     kernels/convolution/qconv.h
 *     floats     y = activation(x * w + b)                      the op of floats, `base`
 *     backward   d = dy where y was not clamped, else 0; then that of the op of floats: dx of d and
 *                the dequantized w, dw of d and the dequantized x, dbias the sum of d */
#include "ops/device/device_products.h"

#include "kernels/convolution/qconv.h"
#include "ops/convolution/conv_codes.h"
#include "ops/products/linear_codes.h"
#include "ops/ops_list.h"

#include <string.h>

enum { X, WEIGHT, BIAS, SCALE = DT__DEVICE_SCALE, ENDS = DT__DEVICE_ENDS, INTEGERS = 2 };

static bool is_linear(const dt_call *c) { return c->op == &dt__op_device_linear; }

static int activation_of(const dt_call *c)
{
    return is_linear(c) ? ((const dt_device_linear_options *)c->options)->activation
                        : ((const dt_device_conv_options *)c->options)->activation;
}

/* ---- the integers ---------------------------------------------------------------------------- */

/* Result 2 carries the integers from the shape function to forward: [rows] offsets, then [rows]
 * multipliers. */
static dt_status keep_integers(dt_call *c, const dt__device_layer *l)
{
    int64_t n;
    if (!dt__product(2, (const int64_t[]){ 3, l->rows }, &n)) return DT_ERR_NOMEM;
    if (c->n_out < INTEGERS) DT__TRY(dt_result(c, DT__DEVICE_RESIDUAL, DT_I8, 1, (int64_t[]){ 0 }));
    DT__TRY(dt_result(c, INTEGERS, DT_I32, 1, &n));
    int32_t *to = dt__data_mut(c->out[INTEGERS]);
    memcpy(to, l->offset, (size_t)l->rows * sizeof *to);
    memcpy(to + l->rows, l->by, (size_t)l->rows * sizeof *l->by);
    c->state[0] = l->least;
    c->state[1] = l->most;
    return DT_OK;
}

/* Replaces the weight's codes in the call by those of the layer, for backward too. */
static dt_status use_codes(dt_call *c, const dt__device_layer *l)
{
    dt__codes *made;
    const dt__codes *w = c->codes[WEIGHT];
    const dt__code_matrix from = { l->codes, l->columns, l->scale, 1 };
    c->state[DT__DEVICE_WIDENED] = l->widened;
    if (l->widened == 0) return DT_OK;
    DT__TRY(dt__codes_create(c->ctx, &made));
    made->rows = w->rows;
    made->columns = w->columns;
    made->group = w->group;
    made->groups = w->groups;
    made->bits = w->bits;
    made->integer = w->integer;
    made->int8_backward = w->int8_backward;
    made->layout = w->layout;
    made->map = w->map;
    made->panels = dt__alloc(c->ctx, w->layout.bytes);
    if (made->panels != NULL) dt__panel_pack(&w->layout, &from, made->panels);
    dt__codes_release(c->codes[WEIGHT]);
    c->codes[WEIGHT] = made;
    return made->panels != NULL ? DT_OK : DT_ERR_NOMEM;
}

/* Computes integers that fit; *y becomes coarser if necessary. */
static dt_status make_layer(dt_call *c, dt__coding_range *y, dt__device_layer *l)
{
    char why[DT__DEVICE_WHY];
    dt__device_operands of = {
        .x = dt__range_of_codes(c->codes[X]),
        .y = *y,
        .w = c->codes[WEIGHT],
        .bias = c->in[BIAS] == NULL ? NULL : dt__data(c->arg[BIAS]),
        .one_scale = is_linear(c) && ((const dt_device_linear_options *)c->options)->one_scale,
        .activation = activation_of(c),
    };
    const dt_status s = dt__device_layer_fit(c->ctx, &of, l, why);
    c->state[DT__DEVICE_COARSER] = of.y.scale > y->scale;
    *y = of.y;
    return s == DT_OK || s == DT_ERR_NOMEM ? s : dt_refuse(c, s, "%s", why);
}

/* ---- shape ----------------------------------------------------------------------------------- */

static dt__conv geometry_of(const dt_call *c)
{
    if (!is_linear(c)) return dt__conv_of(c);
    return (dt__conv){ .batch = c->arg[X]->dims[0],
                       .in = c->arg[X]->dims[1],
                       .out = c->arg[WEIGHT]->dims[0],
                       .groups = 1,
                       .x_size = { 1, 1 },
                       .y_size = { 1, 1 },
                       .kernel = { 1, 1 },
                       .stride = { 1, 1 },
                       .dilation = { 1, 1 } };
}

static dt__qconv qconv_of(const dt_call *c, const dt__conv *p, const dt__qconv_codes *to)
{
    const dt__codes *x = c->codes[X], *w = c->codes[WEIGHT];
    return (dt__qconv){ .conv = p,
                        .transposed = c->op == &dt__op_device_conv_transpose2d,
                        .layout = &w->layout,
                        .panels = w->panels,
                        .u = x->u,
                        .ldu = x->stride,
                        .sx = x->scale,
                        .zu = x->zero_u,
                        .codes = to,
                        .threads = dt_threads(c->ctx),
                        .scratch = c->scratch };
}

static dt_status check_operands(dt_call *c, dt__coding_range *y)
{
    DT__TRY(dt__want_operands(c, 5, 6));
    for (int i = X; i <= BIAS; i++) {
        if (c->in[i] != NULL) DT__TRY(dt__want_float(c, i));
    }
    DT__TRY(dt__device_check_activation(c, activation_of(c)));
    DT__TRY(dt__device_range_of(c, SCALE, y));
    if (!c->coded || c->codes[WEIGHT] != NULL) return DT_OK;
    return dt_refuse(c, DT_ERR_ARG, "x is coded, and the weight is not quantized");
}

static dt_status extents(const dt_call *c, int64_t dims[4])
{
    if (!is_linear(c)) return dt__conv_extents(c, dims);
    DT__TRY(dt__want_rank(c, X, 2, 2));
    DT__TRY(dt__want_rank(c, WEIGHT, 2, 2));
    dims[0] = c->in[X]->dims[0];
    dims[1] = c->in[WEIGHT]->dims[0];
    if (c->in[X]->dims[1] == c->in[WEIGHT]->dims[1]) return DT_OK;
    return dt_refuse(c, DT_ERR_SHAPE, "x has %lld columns, the weight %lld",
                     (long long)c->in[X]->dims[1], (long long)c->in[WEIGHT]->dims[1]);
}

/* Plans of the float op, for forward without codes, and for backward, which cannot fail. */
static dt_status plan_floats(dt_call *c)
{
    size_t later = 0;
    if (is_linear(c)) {
        const dt__linear_part whole = dt__linear_whole(c, X, WEIGHT);
        if (!c->coded) c->scratch_bytes = dt__linear_forward_scratch(&whole);
        return DT_OK;
    }
    if (c->coded) return c->recording ? dt__conv_codes_backward_plan(c, &later) : DT_OK;
    return dt__conv_float_plan(c, &c->scratch_bytes);
}

dt_status dt__device_conv_shape(dt_call *c)
{
    int64_t dims[4];
    dt__coding_range y;
    DT__TRY(check_operands(c, &y));
    DT__TRY(extents(c, dims));
    if (c->in[BIAS] != NULL) DT__TRY(dt__want_dims(c, BIAS, 1, dims + 1));
    dt__device_layer l = { 0 };
    dt_status s = c->coded ? make_layer(c, &y, &l) : DT_OK;
    if (s == DT_OK) s = dt__device_result(c, c->in[X]->rank, dims, y);
    if (s == DT_OK) s = plan_floats(c);
    if (s == DT_OK && c->coded) s = keep_integers(c, &l);
    if (s == DT_OK && c->coded) s = use_codes(c, &l);
    dt__device_layer_free(c->ctx, &l);
    if (s != DT_OK || !c->coded) return s;
    const dt__conv p = geometry_of(c);
    const dt__qconv_codes to = { 0 };
    const dt__qconv q = qconv_of(c, &p, &to);
    c->scratch_bytes = dt__qconv_scratch(&q);
    return DT_OK;
}

/* ---- forward --------------------------------------------------------------------------------- */

static void add_bias(const dt_call *c)
{
    c->kernels->after(&(dt__after){ .rows = c->y->dims[0],
                                    .n = c->y->dims[1],
                                    .x = dt__data_mut(c->y),
                                    .bias = dt__data(c->arg[BIAS]),
                                    .y = dt__data_mut(c->y) });
}

void dt__device_conv_forward(const dt_call *c)
{
    if (is_linear(c)) {
        const dt__linear_part whole = dt__linear_whole(c, X, WEIGHT);
        const void *bias = c->arg[BIAS] == NULL ? NULL : dt__data(c->arg[BIAS]);
        const bool done = dt__linear_product(&whole, bias, dt__data_mut(c->y));
        if (!done && bias != NULL) add_bias(c);
    } else {
        dt__conv_forward(c);
    }
    dt__device_activate(c, activation_of(c));
}

void dt__device_conv_forward_codes(const dt_call *c)
{
    const int64_t rows = c->codes[WEIGHT]->rows;
    const int32_t *integers = dt__data(c->out[INTEGERS]);
    const dt__codes *y = dt__coded_codes(c->y);
    const dt__conv p = geometry_of(c);
    const dt__qconv_codes to = {
        .offset = integers,
        .by = (const dt__multiplier *)(const void *)(integers + rows),
        .zero = dt__range_of_codes(y).zero,
        .least = (int)c->state[0],
        .most = (int)c->state[1],
        .u = y->u,
        .ldu = y->stride,
        .residual = c->recording ? dt__device_residual(c) : NULL,
    };
    const dt__qconv q = qconv_of(c, &p, &to);
    if (c->y->count > 0) dt__qconv_run(c->kernels, &q);
}

/* ---- backward -------------------------------------------------------------------------------- */

size_t dt__device_conv_scratch(const dt_call *c)
{
    size_t bytes = 0;
    if (is_linear(c)) {
        const dt__linear_part whole = dt__linear_whole(c, X, WEIGHT);
        bytes = dt__linear_backward_scratch(&whole);
    } else {
        bytes = dt__conv_backward_scratch(c);
    }
    return dt__device_mask_bytes(c) + bytes;
}

static void sum_rows(const dt_call *c, const dt_tensor *d, dt_tensor *db)
{
    dt__reduce r = { .rank = 2, .over = { true }, .divisor = 1 };
    r.dims[0] = d->dims[0];
    r.dims[1] = d->dims[1];
    r.x = dt__data(d);
    r.y = dt__data_mut(db);
    c->kernels->sum(&r);
}

void dt__device_conv_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    dt__borrowed masked;
    dt_tensor *d = dt__borrow(&masked, dy, c->scratch);
    const dt__device_back back = { .activation = activation_of(c),
                                   .ends = ENDS,
                                   .most = (int)c->state[1] };
    dt__device_mask(c, &back, dy, c->scratch, dx);
    dt_call inner = *c;
    inner.scratch = (char *)c->scratch + dt__device_mask_bytes(c);
    if (!is_linear(c)) {
        dt__conv_backward(&inner, d, dx);
        return;
    }
    const dt__linear_part whole = dt__linear_whole(&inner, X, WEIGHT);
    if (dx[BIAS] != NULL) sum_rows(c, d, dx[BIAS]);
    dt__linear_backward(&whole, dt__data(d), dx[X] == NULL ? NULL : dt__data_mut(dx[X]),
                        dx[WEIGHT] == NULL ? NULL : dt__data_mut(dx[WEIGHT]));
}

/* ---- applying -------------------------------------------------------------------------------- */

dt_tensor *dt__device_apply(dt_tape *t, const dt_op *op, dt_tensor *x, dt_tensor *weight,
                            dt_tensor *bias, const dt_device_range *range, const void *options)
{
    DT__NEED_OP(t, range);
    dt_tensor *const in[] = { x, weight, bias, range->scale, range->zero_point, range->ends };
    return dt_apply(t, op, in, 6, options);
}
