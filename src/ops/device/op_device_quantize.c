/* Codes of a plain tensor, at the input of an integer network (numerics §8).
 *     y = clamp(round(x / scale) + zero, -128, 127)      dx = dy where y was not clamped, else 0
 * In f64, where no codes are made, y = clamp(x, (-128 - zero) scale, (127 - zero) scale). */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"

#include <string.h>

enum { X, SCALE, ZERO, ENDS };

static dt_status check_finite(const dt_call *c)
{
    int64_t bad;
    c->kernels->first_nonfinite(c->arg[X]->count, dt__data(c->arg[X]), &bad);
    if (bad < 0) return DT_OK;
    return dt_refuse(c, DT_ERR_NUMERIC, "x is not finite at element %lld", (long long)bad);
}

static dt_status shape(dt_call *c)
{
    dt__coding_range y;
    DT__TRY(dt__want_operands(c, 3, 4));
    DT__TRY(dt__want_float(c, X));
    DT__TRY(dt__device_range_of(c, SCALE, &y));
    if (c->tape->shapes_only) return dt__shape_like(c, X);
    DT__TRY(check_finite(c));
    if (c->in[X]->dtype == DT_F64) DT__TRY(dt__shape_like(c, X));
    else DT__TRY(dt__result_coded(c, 0, c->in[X]->rank, c->in[X]->dims, y));
    if (!c->recording) return DT_OK;
    return dt_result(c, DT__DEVICE_RESIDUAL, DT_I8, c->in[X]->rank, c->in[X]->dims);
}

static void clamp_doubles(const dt_call *c)
{
    const double *x = dt__data(c->arg[X]), scale = dt__scalar(c->arg[SCALE]);
    const int zero = *(const int8_t *)dt__data(c->arg[ZERO]);
    const double least = (-128 - zero) * scale, most = (127 - zero) * scale;
    int8_t *residual = dt__device_residual(c);
    double *y = dt__data_mut(c->y);
    for (int64_t i = 0; i < c->y->count; i++) {
        y[i] = x[i] < least ? least : x[i] > most ? most : x[i];
        if (residual != NULL) residual[i] = x[i] < least ? DT__BELOW : x[i] > most ? DT__ABOVE : 0;
    }
}

static void forward(const dt_call *c)
{
    if (!dt__is_coded(c->y)) {
        clamp_doubles(c);
        return;
    }
    const dt__codes *y = dt__coded_codes(c->y);
    const dt__coding_range r = dt__range_of_codes(y);
    dt__device_quantize_codes(&(dt__device_quantizing){ .n = c->y->count,
                                                        .x = dt__data(c->arg[X]),
                                                        .scale = r.scale,
                                                        .zero = r.zero,
                                                        .y = y->u,
                                                        .residual = dt__device_residual(c) });
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__device_back back = { DT_ACT_NONE, ENDS, 127 };
    dt__device_mask(c, &back, dy, c->scratch, dx);
    if (dx[X] == NULL) return;
    memcpy(dt__data_mut(dx[X]), c->scratch, dt__bytes_of(dy));
}

const dt_op dt__op_device_quantize = {
    .name = "device_quantize",
    .text = "int8 codes of x, by one scale and zero point",
    .in_name = { "x", "scale", "zero_point", "ends" },
    .out_name = { "y", "residual" },
    .optional = { [ENDS] = true },
    .undifferentiable = { [SCALE] = true, [ZERO] = true },
    .saves = { .out = { DT_NOTHING, DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .scratch = dt__device_mask_bytes,
};

dt_tensor *dt_device_quantize(dt_tape *t, dt_tensor *x, const dt_device_range *range)
{
    DT__NEED_OP(t, range);
    dt_tensor *const in[] = { x, range->scale, range->zero_point, range->ends };
    return dt_apply(t, &dt__op_device_quantize, in, 4, NULL);
}

#define HALF DT__GIVEN(DT__LIST(1), 0.5)
#define ZERO_POINT                                                                                 \
    {                                                                                              \
        { 1 }, .given = true, .values = { -3 }, .dtype = DT_I8                                     \
    }

static const dt__case cases[] = {
    { "codes of their own",
      .in = { { { 2, 2 }, .given = true, .values = { 1, -0.5, 60, 0 } },
              HALF,
              ZERO_POINT,
              { { 2 }, .given = true, .values = { -62.5, 65 } } },
      .n_y = 4, .y = { 1, -0.5, 60, 0 } },
    { "clamped",
      .in = { { { 2, 2 }, .given = true, .values = { 1, -0.5, 70, -63 } }, HALF, ZERO_POINT },
      .n_y = 4, .y = { 1, -0.5, 65, -62.5 } },
    { "empty", .in = { { { 0, 2 } }, HALF, ZERO_POINT } },
    { "scale", .in = { { { 2 } }, { { 2 } }, ZERO_POINT }, .fails = DT_ERR_SHAPE },
    { "integers", .in = { { { 2 }, .dtype = DT_I32 }, HALF, ZERO_POINT }, .fails = DT_ERR_DTYPE },
};
DT__CASES(device_quantize, cases)
