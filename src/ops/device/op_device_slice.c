/* Every step-th code from start to below stop of some dimensions (numerics §8): slice, as a copy.
 *     dx = dy there, else 0 */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"
#include "ops/shape/slice.h"

#include <string.h>

static const dt_slice_options defaults = { .dims.n = 0 };

/* x as a tensor whose elements follow each other. */
static dt_status cut_of(const dt_call *c, const dt_tensor *x, dt__slice_cut *out)
{
    dt__borrowed own;
    return dt__slice_of(c, dt__borrow(&own, x, NULL), out);
}

static dt_status shape(dt_call *c)
{
    dt__slice_cut y;
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(cut_of(c, c->in[0], &y));
    if (!c->coded) return dt_result(c, 0, c->in[0]->dtype, c->in[0]->rank, y.dims);
    return dt__result_coded(c, 0, c->in[0]->rank, y.dims, dt__range_of_codes(c->codes[0]));
}

/* Copies elements of `size` bytes from x to y, or back, in the order of y. */
static void copy(const dt_call *c, const dt_tensor *x, const char *from, size_t size, bool back,
                 char *to)
{
    dt__slice_cut cut;
    int64_t at[DT_MAX_RANK] = { 0 };
    if (c->y->count == 0 || cut_of(c, x, &cut) != DT_OK) return;
    int64_t place = cut.offset;
    for (int64_t i = 0; i < c->y->count; i++) {
        const size_t x_at = (size_t)place * size, y_at = (size_t)i * size;
        memcpy(to + (back ? x_at : y_at), from + (back ? y_at : x_at), size);
        for (int d = x->rank - 1; d >= 0; d--) {
            place += cut.strides[d];
            if (++at[d] < cut.dims[d]) break;
            place -= cut.strides[d] * cut.dims[d];
            at[d] = 0;
        }
    }
}

static void forward(const dt_call *c)
{
    copy(c, c->arg[0], dt__data(c->arg[0]), dt_dtype_size(c->y->dtype), false, dt__data_mut(c->y));
}

static void forward_codes(const dt_call *c)
{
    copy(c, c->in[0], (const char *)c->codes[0]->u, 1, false, (char *)dt__coded_codes(c->y)->u);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const size_t size = dt_dtype_size(dy->dtype);
    memset(dt__data_mut(dx[0]), 0, (size_t)dx[0]->count * size);
    copy(c, dx[0], dt__data(dy), size, true, dt__data_mut(dx[0]));
}

const dt_op dt__op_device_slice = {
    .name = "device_slice",
    .text = "codes start, start+step, ... below stop of each dimension",
    .in_name = { "x" },
    .out_name = { "y" },
    .role = { DT_CODES },
    .ungrouped = true,
    DT__OP_OPTIONS(dt_slice_options, defaults, dt__slice_keys),
    .takes_codes = dt__device_takes_codes,
    .shape = shape,
    .forward = forward,
    .forward_codes = forward_codes,
    .backward = backward,
};

dt_tensor *dt_device_slice(dt_tape *t, dt_tensor *x, const dt_slice_options *options)
{
    return dt_apply(t, &dt__op_device_slice, &x, 1, options);
}

#define CUT(...) DT__WITH(dt_slice_options, __VA_ARGS__)

static const dt__case cases[] = {
    { "values", .in = { { { 1, 4 }, .given = true, .values = { 1, 3, -1, 2 } } },
      .options = CUT(.dims = { 1, { 1 } }, .starts = { 1, { 1 } }, .stops = { 1, { 3 } }), .n_y = 2,
      .y = { 3, -1 } },
    { "two dimensions", .in = { { { 2, 5, 7 } } },
      .options = CUT(.dims = { 2, { 2, 1 } }, .starts = { 2, { -6, 0 } }, .stops = { 2, { 6, 4 } },
                     .steps = { 2, { 2, 3 } }) },
    { "nothing", .in = { { { 2, 3 } } },
      .options = CUT(.dims = { 1, { 1 } }, .starts = { 1, { 2 } }, .stops = { 1, { 1 } }) },
    { "empty", .in = { { { 0, 3 } } },
      .options = CUT(.dims = { 1, { 1 } }, .starts = { 1, { 1 } }, .stops = { 1, { 2 } }) },
    { "lists", .in = { { { 2, 3 } } }, .options = CUT(.dims = { 1, { 1 } }), .fails = DT_ERR_ARG,
      .says = "1 dims, 0 starts" },
};
DT__CASES(device_slice, cases)
