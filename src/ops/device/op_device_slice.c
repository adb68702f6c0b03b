/* Every step-th code from start to below stop of some dimensions (numerics §8): slice, as a copy.
 *     dx = dy there, else 0 */
#include "ops/device/device_ops.h"
#include "ops/ops_list.h"

static const dt_slice_options defaults = { .dims.n = 0 };

DT__DEVICE_VIEW(dt__slice_of)

const dt_op dt__op_device_slice = {
    .name = "device_slice",
    .text = "codes start, start+step, ... below stop of each dimension",
    .in_name = { "x" },
    .out_name = { "y" },
    .role = { DT_CODES },
    .ungrouped = true,
    DT__OP_OPTIONS(dt_slice_options, defaults, dt__slice_keys),
    DT__DEVICE_FUNCTIONS,
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
