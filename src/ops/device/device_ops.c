/* The common part of the ops of integer networks: device_ops.h. */
#include "ops/device/device_ops.h"

#include <math.h>
#include <string.h>

bool dt__device_takes_codes(const dt_call *c, int i)
{
    return i == 0 || dt__is_coded(c->in[i]) ? dt__is_coded(c->in[i]) : c->codes[0] != NULL;
}

const char *const dt__device_activation_names[] = { "none",    "relu", "gelu",  "gelu_tanh", "tanh",
                                                    "sigmoid", "silu", "relu6", NULL };

/* ---- ranges ---------------------------------------------------------------------------------- */

static dt_status check_one(const dt_call *c, int i, int64_t n)
{
    return dt__want_dims(c, i, 1, &n);
}

dt_status dt__device_range_of(const dt_call *c, int at, dt__coding_range *out)
{
    *out = (dt__coding_range){ 1, 0 };
    DT__TRY(check_one(c, at, 1));
    DT__TRY(check_one(c, at + 1, 1));
    DT__TRY(dt__want_float(c, at));
    DT__TRY(dt__want_dtype(c, at + 1, DT_I8));
    if (at + 2 < c->n_in && c->in[at + 2] != NULL) {
        DT__TRY(check_one(c, at + 2, 2));
        DT__TRY(dt__want_float(c, at + 2));
    }
    if (c->tape->shapes_only) return DT_OK;
    out->scale = (float)dt__scalar(c->arg[at]);
    out->zero = *(const int8_t *)dt__data(c->arg[at + 1]);
    if (out->scale >= 0x1p-126f && out->scale <= 0x1p120f) return DT_OK;
    return dt_refuse(c, DT_ERR_NUMERIC, "scale %g is not a positive normal number",
                     (double)out->scale);
}

dt_status dt__device_result(dt_call *c, int rank, const int64_t *dims, dt__coding_range r)
{
    if (!c->coded) return dt_result(c, 0, c->in[0]->dtype, rank, dims);
    DT__TRY(dt__result_coded(c, 0, rank, dims, r));
    return c->recording ? dt_result(c, DT__DEVICE_RESIDUAL, DT_I8, rank, dims) : DT_OK;
}

int8_t *dt__device_residual(const dt_call *c)
{
    return c->n_out > DT__DEVICE_RESIDUAL ? dt__data_mut(c->out[DT__DEVICE_RESIDUAL]) : NULL;
}

/* ---- activations ----------------------------------------------------------------------------- */

dt_status dt__device_check_activation(const dt_call *c, int activation)
{
    if (activation == DT_ACT_NONE || activation == DT_ACT_RELU || activation == DT_ACT_RELU6) {
        return DT_OK;
    }
    return dt_refuse(c, DT_ERR_ARG, "activation %d is not none, relu or relu6", activation);
}

void dt__device_activate(const dt_call *c, int activation)
{
    void *y = dt__data_mut(c->y);
    if (activation == DT_ACT_RELU) c->kernels->relu(c->y->count, y, y, NULL);
    if (activation == DT_ACT_RELU6) c->kernels->relu6(c->y->count, y, y);
}

/* ---- backward -------------------------------------------------------------------------------- */

size_t dt__device_mask_bytes(const dt_call *c) { return dt__scratch_part(dt__bytes_of(c->y)); }

/* Masks d by the sign of relu's result, for floats. */
static void mask_floats(const dt_call *c, int activation, const dt_tensor *dy, void *to)
{
    const bool wide = dy->dtype == DT_F64;
    memcpy(to, dt__data(dy), dt__bytes_of(dy));
    if (activation == DT_ACT_NONE) return;
    const double most = activation == DT_ACT_RELU6 ? 6 : (double)INFINITY;
    const void *y = dt__data(c->y);
    for (int64_t i = 0; i < dy->count; i++) {
        const double v = wide ? ((const double *)y)[i] : (double)((const float *)y)[i];
        if (v > 0 && v < most) continue;
        if (wide) ((double *)to)[i] = 0;
        else ((float *)to)[i] = 0;
    }
}

typedef struct mask_args {
    const void *dy;
    const int8_t *residual;
    void *to;
} mask_args;

static void mask_share(const void *args, const dt__share *s)
{
    const mask_args *of = args;
    for (int64_t i = s->first; i < s->past; i++) {
        const int r = of->residual[i];
        const bool in = r != DT__BELOW && r != DT__ABOVE;
        ((float *)of->to)[i] = in ? ((const float *)of->dy)[i] : 0;
    }
}

static void mask_doubles(const void *args, const dt__share *s)
{
    const mask_args *of = args;
    for (int64_t i = s->first; i < s->past; i++) {
        const int r = of->residual[i];
        const bool in = r != DT__BELOW && r != DT__ABOVE;
        ((double *)of->to)[i] = in ? ((const double *)of->dy)[i] : 0;
    }
}

/* The gradient of both ends (numerics §8), summed in the order of elements. */
static void differentiate_ends(const dt_call *c, const dt__device_back *b, const dt_tensor *dy,
                               dt_tensor *dends)
{
    const bool wide = dy->dtype == DT_F64;
    const int8_t *residual = dt__device_residual(c);
    const bool ends_low = b->activation == DT_ACT_NONE;
    const bool ends_high = b->activation != DT_ACT_RELU6 || b->most == 127;
    double low = 0, high = 0, inside = 0;
    const int64_t n = c->y->count;
    for (int64_t i = 0; i < n; i++) {
        const int r = residual[i];
        const double d =
            wide ? ((const double *)dt__data(dy))[i] : (double)((const float *)dt__data(dy))[i];
        if (r == DT__BELOW) low += d;
        else if (r == DT__ABOVE) high += d;
        else inside += d * r;
    }
    inside /= 254.0 * 255;
    const double g = 1 / sqrt(255 * (double)dt__max_i64(1, n));
    const double d[2] = { g * ((ends_low ? low : 0) - inside),
                          g * ((ends_high ? high : 0) + inside) };
    for (int i = 0; i < 2; i++) {
        if (wide) ((double *)dt__data_mut(dends))[i] = d[i];
        else ((float *)dt__data_mut(dends))[i] = (float)d[i];
    }
}

void dt__device_mask(const dt_call *c, const dt__device_back *b, const dt_tensor *dy, void *to,
                     dt_tensor *const *dx)
{
    dt_tensor *ends = b->ends < c->n_in ? dx[b->ends] : NULL;
    if (dt__device_residual(c) == NULL) {
        mask_floats(c, b->activation, dy, to);
        if (ends != NULL) memset(dt__data_mut(ends), 0, 2 * dt_dtype_size(ends->dtype));
        return;
    }
    dt__parallel(dy->count, 1, dy->dtype == DT_F64 ? mask_doubles : mask_share,
                 &(mask_args){ dt__data(dy), dt__device_residual(c), to });
    if (ends != NULL) differentiate_ends(c, b, dy, ends);
}

/* ---- by an op of floats ---------------------------------------------------------------------- */

dt_tensor *dt__borrow(dt__borrowed *b, const dt_tensor *like, void *data)
{
    memset(b, 0, sizeof *b);
    b->storage.data = data;
    b->storage.ctx = like->ctx;
    b->x.ctx = like->ctx;
    b->x.dtype = like->dtype;
    b->x.rank = like->rank;
    b->x.count = like->count;
    memcpy(b->x.dims, like->dims, sizeof b->x.dims);
    dt__contiguous_strides(like->rank, like->dims, b->x.strides);
    b->x.storage = &b->storage;
    return &b->x;
}

size_t dt__device_number_bytes(const dt_tensor *x)
{
    return dt__scratch_part((size_t)x->count * sizeof(float));
}

static dt_status check_zeros(const dt_call *c)
{
    const dt__coding_range first = dt__range_of_codes(c->codes[0]);
    for (int i = 1; i < c->n_in; i++) {
        if (c->codes[i] == NULL) {
            return dt_refuse(c, DT_ERR_ARG, "operand 0 is coded, operand %d is not", i);
        }
        const dt__coding_range r = dt__range_of_codes(c->codes[i]);
        if (r.scale == first.scale && r.zero == first.zero) continue;
        return dt_refuse(c, DT_ERR_ARG,
                         "operand 0 has scale %.9g and zero point %d, operand %d %.9g and %d",
                         (double)first.scale, first.zero, i, (double)r.scale, r.zero);
    }
    return DT_OK;
}

dt__coding_range dt__device_range_of_x(const dt_call *c)
{
    return c->coded ? dt__range_of_codes(c->codes[0]) : (dt__coding_range){ 1, 0 };
}

dt_status dt__device_through_shape(dt_call *c, const dt_op *base, dt__coding_range r)
{
    if (c->coded) DT__TRY(check_zeros(c));
    DT__TRY(base->shape(c));
    if (!c->coded) return DT_OK;
    for (int i = 0; i < c->n_in; i++) c->scratch_bytes += dt__device_number_bytes(c->in[i]);
    return dt__result_to_coded(c, 0, r);
}

typedef struct numbers_args {
    const uint8_t *u;
    uint8_t *to_u;
    float *x;
    int zero;
    float scale;
} numbers_args;

static void to_numbers(const void *args, const dt__share *s)
{
    const numbers_args *of = args;
    for (int64_t i = s->first; i < s->past; i++) of->x[i] = (float)((int)of->u[i] - of->zero);
}

static void to_codes(const void *args, const dt__share *s)
{
    const numbers_args *of = args;
    for (int64_t i = s->first; i < s->past; i++) {
        of->to_u[i] = (uint8_t)((int)rintf(of->x[i] * of->scale) + of->zero);
    }
}

void dt__device_through_scaled(const dt_call *c, const dt_op *base, double scale)
{
    dt__borrowed numbers[DT_MAX_IN];
    dt_call inner = *c;
    char *at = c->scratch;
    const int zero = dt__range_of_codes(c->codes[0]).zero + 128;
    for (int i = 0; i < c->n_in; i++) {
        inner.arg[i] = dt__borrow(&numbers[i], c->arg[i], at);
        const numbers_args args = { .u = c->codes[i]->u, .x = (float *)(void *)at, .zero = zero };
        dt__parallel(c->arg[i]->count, 1, to_numbers, &args);
        at += dt__device_number_bytes(c->arg[i]);
    }
    inner.scratch = at;
    base->forward(&inner);
    const numbers_args args = { .to_u = dt__coded_codes(c->y)->u,
                                .x = dt__data_mut(c->y),
                                .zero = zero,
                                .scale = (float)scale };
    dt__parallel(c->y->count, 1, to_codes, &args);
    dt__drop_storage(c->y);
}

void dt__device_through(const dt_call *c, const dt_op *base)
{
    dt__device_through_scaled(c, base, 1);
}

void dt__device_copy_forward(const dt_call *c)
{
    memcpy(dt__data_mut(c->y), dt__data(c->arg[0]), dt__bytes_of(c->y));
}

/* ---- views ----------------------------------------------------------------------------------- */

dt_status dt__device_view_shape(dt_call *c, dt__view_part_of *of)
{
    const dt_tensor *x = c->in[0];
    dt__borrowed own;
    dt__view_part y;
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(of(c, dt__borrow(&own, x, NULL), &y));
    if (!c->coded) return dt_result(c, 0, x->dtype, x->rank, y.dims);
    return dt__result_coded(c, 0, x->rank, y.dims, dt__range_of_codes(c->codes[0]));
}

/* Copies elements of `size` bytes from a tensor like x to its view, or back. */
static void copy_view(const dt_call *c, dt__view_part_of *of, const dt_tensor *x, size_t size,
                      bool back, const char *from, char *to)
{
    dt__borrowed own;
    dt__view_part y;
    if (of(c, dt__borrow(&own, x, NULL), &y) != DT_OK) return;
    dt__copy copy = { .rank = x->rank, .x = from, .y = to };
    memcpy(copy.dims, y.dims, sizeof copy.dims);
    memcpy(back ? copy.y_strides : copy.x_strides, y.strides, sizeof y.strides);
    dt__contiguous_strides(x->rank, y.dims, back ? copy.x_strides : copy.y_strides);
    if (back) copy.y = to + (size_t)y.offset * size;
    else copy.x = from + (size_t)y.offset * size;
    dt__copy_bytes(&copy, size);
}

void dt__device_view_forward(const dt_call *c, dt__view_part_of *of)
{
    const dt_tensor *x = c->arg[0];
    copy_view(c, of, x, dt_dtype_size(x->dtype), false, dt__data(x), dt__data_mut(c->y));
}

void dt__device_view_codes(const dt_call *c, dt__view_part_of *of)
{
    copy_view(c, of, c->in[0], 1, false, (const char *)c->codes[0]->u,
              (char *)dt__coded_codes(c->y)->u);
}

void dt__device_view_backward(const dt_call *c, dt__view_part_of *of, const dt_tensor *dy,
                              dt_tensor *dx)
{
    const size_t size = dt_dtype_size(dy->dtype);
    memset(dt__data_mut(dx), 0, (size_t)dx->count * size);
    copy_view(c, of, dx, size, true, dt__data(dy), dt__data_mut(dx));
}
