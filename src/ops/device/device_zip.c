/* Sums and products of two coded tensors of one shape (numerics §8).
 *     d = dy where y was not clamped, else 0      add: da = db = d      mul: da = d b, db = d a */
#include "ops/device/device_zip.h"

#include "ops/ops_list.h"

#include <string.h>

enum { A, B, SCALE, ZERO, ENDS };

const dt_device_zip_options dt__device_zip_defaults = { DT_ACT_NONE };

const dt_key dt__device_zip_keys[] = {
    { "activation", DT_KEY_CHOICE, .offset = offsetof(dt_device_zip_options, activation),
      .choices = dt__device_activation_names, .fallback = "none",
      .text = "none, relu or relu6: a clamp of the codes" },
    { 0 },
};

static bool adds(const dt_call *c) { return c->op == &dt__op_device_add; }

static int activation_of(const dt_call *c)
{
    return ((const dt_device_zip_options *)c->options)->activation;
}

/* The factors must fit: *y becomes coarser where they would not. */
static dt_status fit_factors(dt_call *c, dt__coding_range *y)
{
    if (!c->coded) return DT_OK;
    if (c->codes[A] == NULL || c->codes[B] == NULL) {
        return dt_refuse(c, DT_ERR_ARG, "one operand is coded, the other is not");
    }
    const float a = dt__range_of_codes(c->codes[A]).scale,
                b = dt__range_of_codes(c->codes[B]).scale;
    const double least = adds(c) ? dt__device_add_scale(a, b) : dt__device_mul_scale(a, b);
    if ((double)y->scale >= least) return DT_OK;
    *y = dt__device_coarser(*y, least);
    c->state[DT__DEVICE_COARSER] = 1;
    if (y->scale <= 0x1p120f) return DT_OK;
    return dt_refuse(c, DT_ERR_NUMERIC, "operands of scales %.9g and %.9g are too large", (double)a,
                     (double)b);
}

dt_status dt__device_zip_shape(dt_call *c)
{
    dt__coding_range y;
    int least, most;
    DT__TRY(dt__want_operands(c, 4, 5));
    DT__TRY(dt__want_float(c, A));
    DT__TRY(dt__want_float(c, B));
    DT__TRY(dt__want_dims(c, B, c->in[A]->rank, c->in[A]->dims));
    DT__TRY(dt__device_check_activation(c, activation_of(c)));
    DT__TRY(dt__device_range_of(c, SCALE, &y));
    DT__TRY(fit_factors(c, &y));
    dt__device_clamps(activation_of(c), y, &least, &most);
    c->state[0] = least;
    c->state[1] = most;
    return dt__device_result(c, c->in[A]->rank, c->in[A]->dims, y);
}

void dt__device_zip_forward(const dt_call *c)
{
    dt__zip z = { .rank = 1,
                  .dims = { c->y->count },
                  .a = dt__data(c->arg[A]),
                  .b = dt__data(c->arg[B]),
                  .y = dt__data_mut(c->y) };
    z.a_strides[0] = z.b_strides[0] = 1;
    if (adds(c)) c->kernels->add(&z);
    else c->kernels->mul(&z);
    dt__device_activate(c, activation_of(c));
}

void dt__device_zip_forward_codes(const dt_call *c)
{
    const dt__codes *y = dt__coded_codes(c->y);
    const dt__coding_range a = dt__range_of_codes(c->codes[A]), b = dt__range_of_codes(c->codes[B]);
    const dt__coding_range to = dt__range_of_codes(y);
    const dt__device_zip z = { .n = c->y->count,
                               .a = c->codes[A]->u,
                               .b = c->codes[B]->u,
                               .zero_a = a.zero,
                               .zero_b = b.zero,
                               .zero = to.zero,
                               .least = (int)c->state[0],
                               .most = (int)c->state[1],
                               .y = y->u,
                               .residual = dt__device_residual(c) };
    dt__device_add add;
    dt__multiplier by;
    if (adds(c)) {
        dt__device_add_make(a.scale, b.scale, to.scale, &add);
        dt__device_add_codes(&z, &add);
    } else {
        dt__device_mul_make(a.scale, b.scale, to.scale, &by);
        dt__device_mul_codes(&z, by);
    }
}

/* Operand i's value: dequantized into `to` where it is coded. */
static const void *value_of(const dt_call *c, int i, void *to)
{
    if (c->codes[i] == NULL) return dt__data(c->arg[i]);
    dt__codes_expand_all(c->codes[i], to);
    return to;
}

static void times(const dt_call *c, const void *d, const void *x, void *to)
{
    dt__zip z = { .rank = 1, .dims = { c->y->count }, .a = d, .b = x, .y = to };
    z.a_strides[0] = z.b_strides[0] = 1;
    c->kernels->mul(&z);
}

void dt__device_zip_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__device_back back = { activation_of(c), ENDS, (int)c->state[1] };
    dt__device_mask(c, &back, dy, c->scratch, dx);
    for (int i = A; i <= B; i++) {
        if (dx[i] == NULL) continue;
        void *to = dt__data_mut(dx[i]);
        if (adds(c)) memcpy(to, c->scratch, (size_t)dy->count * dt_dtype_size(dy->dtype));
        else times(c, c->scratch, value_of(c, i == A ? B : A, to), to);
    }
}

dt_tensor *dt__device_zip_apply(dt_tape *t, const dt_op *op, dt_tensor *a, dt_tensor *b,
                                const dt_device_range *range, const dt_device_zip_options *options)
{
    DT__NEED_OP(t, range);
    dt_tensor *const in[] = { a, b, range->scale, range->zero_point, range->ends };
    return dt_apply(t, op, in, 5, options);
}
