/* Sums, differences, products and prelu of two coded tensors, which broadcast (numerics §8).
 *     d = dy where y was not clamped, else 0      add: da = db = d      sub: da = d, db = -d
 *     mul: da = d b, db = d a      prelu: da = a > 0 ? d : d b, db = a > 0 ? 0 : d a
 * Gradients are summed over broadcast dimensions. */
#include "ops/device/device_zip.h"

#include "ops/elementwise/binary.h"
#include "ops/ops_list.h"

enum { A, B, SCALE, ZERO, ENDS };

const dt_device_zip_options dt__device_zip_defaults = { DT_ACT_NONE };

const dt_key dt__device_zip_keys[] = {
    { "activation", DT_KEY_CHOICE, .offset = offsetof(dt_device_zip_options, activation),
      .choices = dt__device_activation_names, .fallback = "none" },
    { 0 },
};

static bool subtracts(const dt_call *c) { return c->op == &dt__op_device_sub; }
static bool adds(const dt_call *c) { return c->op == &dt__op_device_add || subtracts(c); }
static bool is_prelu(const dt_call *c) { return c->op == &dt__op_device_prelu; }

static int activation_of(const dt_call *c)
{
    return ((const dt_device_zip_options *)c->options)->activation;
}

/* Makes *y coarser if the factors would not fit. */
static dt_status fit_factors(dt_call *c, dt__coding_range *y)
{
    if (!c->coded) return DT_OK;
    if (c->codes[A] == NULL || c->codes[B] == NULL) {
        return dt_refuse(c, DT_ERR_ARG, "one operand is coded, the other is not");
    }
    const float a = dt__range_of_codes(c->codes[A]).scale,
                b = dt__range_of_codes(c->codes[B]).scale;
    const double least = adds(c)       ? dt__device_add_scale(a, b)
                         : is_prelu(c) ? dt__device_prelu_scale(a, b)
                                       : dt__device_mul_scale(a, b);
    if ((double)y->scale >= least) return DT_OK;
    *y = dt__device_coarser(*y, least);
    c->state[DT__DEVICE_COARSER] = 1;
    if (y->scale <= 0x1p120f) return DT_OK;
    return dt_refuse(c, DT_ERR_NUMERIC, "operands of scales %.9g and %.9g are too large", (double)a,
                     (double)b);
}

/* Bytes for an operand's codes repeated to the dimensions of y; 0: it has these dimensions. */
static size_t spread_bytes(const dt_call *c, int i, int rank, const int64_t *dims)
{
    int64_t n = 1;
    bool same = c->in[i]->rank == rank;
    for (int d = 0; d < rank; d++) {
        n *= dims[d];
        same = same && c->in[i]->dims[d] == dims[d];
    }
    return same ? 0 : dt__scratch_part((size_t)n);
}

/* The slopes of prelu broadcast; the elements must have the dimensions of y. */
static dt_status check_prelu(const dt_call *c, int rank, const int64_t *dims)
{
    bool same = c->in[A]->rank == rank;
    if (activation_of(c) != DT_ACT_NONE) {
        return dt_refuse(c, DT_ERR_ARG, "an activation cannot be fused behind it");
    }
    for (int d = 0; d < rank && same; d++) same = c->in[A]->dims[d] == dims[d];
    return same ? DT_OK
                : dt_refuse(c, DT_ERR_SHAPE, "the slopes have more dimensions or elements than a");
}

dt_status dt__device_zip_shape(dt_call *c)
{
    dt__coding_range y;
    int least, most, rank;
    int64_t dims[DT_MAX_RANK];
    DT__TRY(dt__want_operands(c, 4, 5));
    DT__TRY(dt__want_float(c, A));
    DT__TRY(dt__want_float(c, B));
    DT__TRY(dt__broadcast(c, A, B, &rank, dims));
    DT__TRY(dt__device_check_activation(c, activation_of(c)));
    if (is_prelu(c)) DT__TRY(check_prelu(c, rank, dims));
    DT__TRY(dt__device_range_of(c, SCALE, &y));
    DT__TRY(fit_factors(c, &y));
    dt__device_clamps(activation_of(c), y, &least, &most);
    c->state[0] = least;
    c->state[1] = most;
    if (c->coded) {
        c->scratch_bytes += spread_bytes(c, A, rank, dims) + spread_bytes(c, B, rank, dims);
    }
    return dt__device_result(c, rank, dims, y);
}

/* to = above where a > 0, or 0 where `above` is NULL; other elements are unchanged. All have the
 * shape of y. */
static void choose(const dt_tensor *a, const void *above, const dt_tensor *y, void *to)
{
    const bool wide = y->dtype == DT_F64;
    const void *from = dt__data(a);
    for (int64_t i = 0; i < y->count; i++) {
        if (wide) {
            if (!(((const double *)from)[i] > 0)) continue;
            ((double *)to)[i] = above == NULL ? 0 : ((const double *)above)[i];
        } else {
            if (!(((const float *)from)[i] > 0)) continue;
            ((float *)to)[i] = above == NULL ? 0 : ((const float *)above)[i];
        }
    }
}

void dt__device_zip_forward(const dt_call *c)
{
    void *y = dt__data_mut(c->y);
    dt__zip_run(!adds(c)       ? c->kernels->mul
                : subtracts(c) ? c->kernels->sub
                               : c->kernels->add,
                c->arg[A], c->arg[B], c->y, y);
    if (is_prelu(c)) choose(c->arg[A], dt__data(c->arg[A]), c->y, y);
    dt__device_activate(c, activation_of(c));
}

/* The codes of operand i in the dimensions of y: its own, or repeated at *at, which is advanced. */
static const uint8_t *spread_codes(const dt_call *c, int i, char **at)
{
    const dt_tensor *y = c->y;
    const size_t bytes = spread_bytes(c, i, y->rank, y->dims);
    const uint8_t *from = c->codes[i]->u;
    uint8_t *to = (uint8_t *)*at;
    dt__borrowed own;
    if (bytes == 0) return from;
    *at += bytes;
    const dt_tensor *x = dt__borrow(&own, c->in[i], NULL);
    const dt__zip z = dt__zip_of(x, x, y, NULL);
    int64_t index[DT_MAX_RANK] = { 0 }, place = 0;
    for (int64_t k = 0; k < y->count; k++) {
        to[k] = from[place];
        for (int d = y->rank - 1; d >= 0; d--) {
            place += z.a_strides[d];
            if (++index[d] < y->dims[d]) break;
            place -= z.a_strides[d] * index[d];
            index[d] = 0;
        }
    }
    return to;
}

void dt__device_zip_forward_codes(const dt_call *c)
{
    const dt__codes *y = dt__coded_codes(c->y);
    const dt__coding_range a = dt__range_of_codes(c->codes[A]), b = dt__range_of_codes(c->codes[B]);
    const dt__coding_range to = dt__range_of_codes(y);
    char *at = c->scratch;
    dt__device_zip z = { .n = c->y->count,
                         .zero_a = a.zero,
                         .zero_b = b.zero,
                         .zero = to.zero,
                         .least = (int)c->state[0],
                         .most = (int)c->state[1],
                         .y = y->u,
                         .residual = dt__device_residual(c) };
    z.a = spread_codes(c, A, &at);
    z.b = spread_codes(c, B, &at);
    dt__device_add add;
    dt__device_prelu slopes;
    dt__multiplier by;
    if (is_prelu(c)) {
        dt__device_prelu_make(a.scale, b.scale, to.scale, &slopes);
        dt__device_prelu_codes(&z, &slopes);
    } else if (adds(c)) {
        dt__device_add_make(a.scale, b.scale, to.scale, &add);
        add.minus = subtracts(c);
        dt__device_add_codes(&z, &add);
    } else {
        dt__device_mul_make(a.scale, b.scale, to.scale, &by);
        dt__device_mul_codes(&z, by);
    }
}

size_t dt__device_zip_scratch(const dt_call *c)
{
    return (adds(c) ? 1 : is_prelu(c) ? 4 : 3) * dt__device_mask_bytes(c);
}

/* Operand i as floats: dequantized to `to` if it is coded. */
static const dt_tensor *value_of(const dt_call *c, int i, void *to, dt__borrowed *b)
{
    if (c->codes[i] == NULL) return c->arg[i];
    dt__codes_expand_all(c->codes[i], to);
    return dt__borrow(b, c->arg[i], to);
}

/* Writes d times the other operand to `to`, the gradient of a product. For prelu the gradient where
 * a > 0 is d (of a) or 0 (of the slopes). */
static void multiplied(const dt_call *c, int i, const dt_tensor *d, const dt_tensor *dy, char *to)
{
    const size_t step = dt__device_mask_bytes(c);
    dt__borrowed other_of, a_of;
    const dt_tensor *other = value_of(c, i == A ? B : A, to + step, &other_of);
    dt__zip_run(c->kernels->mul, d, other, dy, to);
    if (!is_prelu(c)) return;
    const dt_tensor *a = i == B ? other : value_of(c, A, to + 2 * step, &a_of);
    choose(a, i == A ? dt__data(d) : NULL, dy, to);
}

void dt__device_zip_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__device_back back = { activation_of(c), ENDS, (int)c->state[1] };
    const size_t step = dt__device_mask_bytes(c);
    char *const product = (char *)c->scratch + step;
    dt__borrowed d_of;
    dt__device_mask(c, &back, dy, c->scratch, dx);
    const dt_tensor *d = dt__borrow(&d_of, dy, c->scratch);
    for (int i = A; i <= B; i++) {
        if (dx[i] == NULL) continue;
        const bool minus = i == B && subtracts(c);
        if (!adds(c)) multiplied(c, i, d, dy, product);
        dt__sum_to(c, adds(c) ? c->scratch : product, dy, minus ? -1 : 1, dx[i]);
    }
}

dt_tensor *dt__device_zip_apply(dt_tape *t, const dt_op *op, dt_tensor *a, dt_tensor *b,
                                const dt_device_range *range, const dt_device_zip_options *options)
{
    DT__NEED_OP(t, range);
    dt_tensor *const in[] = { a, b, range->scale, range->zero_point, range->ends };
    return dt_apply(t, op, in, 5, options);
}
