/* Means of codes over some dimensions, on a scale of their own (numerics §8), as LiteRT's kernels
 * compute MEAN: S the sum of q - z_x of n codes, m and e the factor s_x / s_y,
 *     y = clamp(requantize(S, m 2^f / n, e - f) + z_y)      f = min(floor(log2 n), 31 + e)
 *     dx = dy / n where y was not clamped, else 0, repeated */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"
#include "ops/reduce/reduce.h"

#include <math.h>

enum { X, SCALE, ZERO, ENDS };
#define MOST 65536 /* codes per sum: floats hold the sum exactly */

/* state[0] and [1] are those of reductions (ops/reduce/reduce.h); the second is n */
static dt_status shape(dt_call *c)
{
    dt__coding_range y;
    DT__TRY(dt__want_operands(c, 3, 4));
    DT__TRY(dt__device_range_of(c, SCALE, &y));
    DT__TRY(dt__reduce_shape(c));
    if (c->state[1] < 1 || c->state[1] > MOST) {
        return dt_refuse(c, DT_ERR_ARG, "a mean of %lld elements; sums of 1 to %d codes fit",
                         (long long)c->state[1], MOST);
    }
    if (!c->coded) return DT_OK;
    const double least = (double)dt__range_of_codes(c->codes[X]).scale * 0x1p-20;
    if ((double)y.scale < least) {
        y = dt__device_coarser(y, least);
        c->state[DT__DEVICE_COARSER] = 1;
    }
    c->scratch_bytes += dt__device_number_bytes(c->in[X]);
    DT__TRY(dt__result_to_coded(c, 0, y));
    if (!c->recording) return DT_OK;
    return dt_result(c, DT__DEVICE_RESIDUAL, DT_I8, c->out[0]->rank, c->out[0]->dims);
}

static void forward(const dt_call *c) { dt__reduce_forward(c, (double)c->state[1]); }

typedef struct mean_args {
    const uint8_t *u;
    const float *sum;
    float *x;
    int zero, to_zero;
    dt__multiplier by;
    double unit;
    uint8_t *y;
    int8_t *residual;
} mean_args;

static void to_numbers(const void *args, const dt__share *s)
{
    const mean_args *of = args;
    for (int64_t i = s->first; i < s->past; i++) of->x[i] = (float)((int)of->u[i] - of->zero);
}

static void to_means(const void *args, const dt__share *s)
{
    const mean_args *of = args;
    for (int64_t i = s->first; i < s->past; i++) {
        const int32_t sum = (int32_t)of->sum[i];
        const int32_t q = dt__requantize(sum, of->by), y = q + of->to_zero;
        of->y[i] = (uint8_t)((y < -128 ? -128 : y > 127 ? 127 : y) + 128);
        if (of->residual == NULL) continue;
        const double error = 254 * ((double)q - sum * of->unit);
        const int inside = (int)rint(fmin(fmax(error, -126), 126));
        of->residual[i] = (int8_t)(y < -128 ? DT__BELOW : y > 127 ? DT__ABOVE : inside);
    }
}

/* Sums of numbers below 2^24 are exact in floats. */
static void forward_codes(const dt_call *c)
{
    const dt__coding_range x = dt__range_of_codes(c->codes[X]);
    const dt__coding_range y = dt__range_of_codes(dt__coded_codes(c->y));
    dt__borrowed numbers;
    dt_call inner = *c;
    inner.arg[X] = dt__borrow(&numbers, c->arg[X], c->scratch);
    mean_args args = { .u = c->codes[X]->u,
                       .x = c->scratch,
                       .sum = dt__data_mut(c->y),
                       .zero = x.zero + 128,
                       .to_zero = y.zero,
                       .by = dt__device_mean_make(x.scale, y.scale, c->state[1]),
                       .unit = (double)x.scale / (double)y.scale / (double)c->state[1],
                       .y = dt__coded_codes(c->y)->u,
                       .residual = dt__device_residual(c) };
    dt__parallel(c->arg[X]->count, 1, to_numbers, &args);
    dt__reduce_forward(&inner, 1);
    dt__parallel(c->y->count, 2, to_means, &args);
    dt__drop_storage(c->y);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__device_back back = { DT_ACT_NONE, ENDS, 127 };
    dt__device_mask(c, &back, dy, c->scratch, dx);
    if (dx[X] == NULL || dy->count == 0) return;
    c->kernels->scale(dy->count, 1 / (double)c->state[1], c->scratch, c->scratch);
    dt__reduce_backward(c, c->scratch, dx[X]);
}

const dt_op dt__op_device_mean = {
    .name = "device_mean",
    .text = "the mean of codes over `dims`, requantized",
    .in_name = { "x", "scale", "zero_point", "ends" },
    .out_name = { "y", "residual" },
    .role = { DT_CODES },
    .optional = { [ENDS] = true },
    .undifferentiable = { [SCALE] = true, [ZERO] = true },
    .ungrouped = true,
    DT__OP_OPTIONS(dt_reduce_options, dt__reduce_defaults, dt__reduce_keys),
    .saves_coded = { .out = { DT_NOTHING, DT_VALUE } },
    DT__DEVICE_FUNCTIONS,
    .scratch = dt__device_mask_bytes,
};

dt_tensor *dt_device_mean(dt_tape *t, dt_tensor *x, const dt_device_range *range,
                          const dt_reduce_options *options)
{
    DT__NEED_OP(t, range);
    dt_tensor *const in[] = { x, range->scale, range->zero_point, range->ends };
    return dt_apply(t, &dt__op_device_mean, in, 4, options);
}

#define RANGED(...) .in = { __VA_ARGS__, DT__CASE_SCALE, DT__CASE_ZERO, DT__CASE_ENDS }

static const dt__case cases[] = {
    { "values", RANGED({ { 2, 2 }, .given = true, .values = { 1, 3, -1, -2 } }),
      .options = DT__OVER(1, { 1 }), .n_y = 2, .y = { 2, -1.5 } },
    { "rows and columns", RANGED({ { 2, 3, 4, 5 } }), .options = DT__KEEP(2, { 2, 3 }) },
    { "every other", RANGED({ { 2, 3, 4, 5 } }), .options = DT__OVER(2, { 3, 1 }) },
    { "empty", RANGED({ { 0, 2 } }), .options = DT__OVER(1, { 1 }) },
    { "of nothing", RANGED({ { 3, 0 }, 2 }), .options = DT__OVER(1, { 1 }), .fails = DT_ERR_ARG,
      .says = "a mean of 0 elements" },
};
DT__CASES(device_mean, cases)
