/* Linear layers with one grouped weight: each row of x is multiplied by its expert's weight.
 *     y[r] = x[r] W[e(r)]^T + bias[e(r)]      0 if r has no expert
 *     dx[r] = sum over r's experts of dy W[e]      dW[e] = dy_e^T x_e      dbias[e] = sum of dy_e
 * over the rows of expert e. Rows without an expert are padding: neither they nor their dy are
 * read. Offsets give the first row of each expert; an index gives each row's expert: routing.h.
 * Where the weight is spread over ranks, its context's dt__spread computes all of this. */
#include "autograd/spread.h"
#include "ops/products/grouped_gemm.h"
#include "ops/ops_list.h"

#include <string.h>

enum { X, WEIGHT, BIAS, OFFSETS, INDEX };

static dt_status check_operands(const dt_call *c)
{
    DT__TRY(dt__want_operands(c, 4, 5));
    DT__TRY(dt__want_float(c, X));
    DT__TRY(dt__want_float(c, WEIGHT));
    DT__TRY(dt__want_rank(c, X, 1, DT_MAX_RANK));
    DT__TRY(dt__want_rank(c, WEIGHT, 3, 3));
    const dt_tensor *x = c->in[X], *w = c->in[WEIGHT];
    if (dt__columns(x) != w->dims[2]) {
        return dt_refuse(c, DT_ERR_SHAPE, "x has %lld features, weight takes %lld",
                         (long long)dt__columns(x), (long long)w->dims[2]);
    }
    if (c->in[BIAS] == NULL) return DT_OK;
    DT__TRY(dt__want_float(c, BIAS));
    return dt__want_dims(c, BIAS, 2, w->dims);
}

static dt__grouped grouped_of(const dt_call *c)
{
    const dt__routing r =
        dt__routing_of(dt__whole_extent(c->in[WEIGHT]), dt__rows(c->arg[X]), c->arg[INDEX]);
    return (dt__grouped){ c, X, WEIGHT, BIAS, OFFSETS, INDEX, r };
}

static dt_status want_spread(const dt_call *c)
{
    if (c->in[INDEX] != NULL && c->in[X]->dtype == DT_F32 && c->ctx->spread != NULL) return DT_OK;
    return dt_refuse(c, DT_ERR_UNSUPPORTED,
                     "experts that are spread over ranks require rows of f32 and an index");
}

static dt_status shape(dt_call *c)
{
    DT__TRY(check_operands(c));
    const dt__grouped g = grouped_of(c);
    DT__TRY(dt__want_routes(c, OFFSETS, INDEX, &g.routing));
    const dt_tensor *x = c->in[X], *w = c->in[WEIGHT];
    int64_t dims[DT_MAX_RANK] = { dt__rows(x), g.routing.per_row, w->dims[1] }, inputs;
    const int rank = g.routing.split ? 3 : x->rank;
    if (!g.routing.split) {
        memcpy(dims, x->dims, sizeof dims);
        dims[rank - 1] = w->dims[1];
    }
    if (!dt__product(3, (int64_t[]){ g.routing.assignments, w->dims[2], 8 }, &inputs)) {
        return dt_refuse(c, DT_ERR_SHAPE, "there are too many assignments of rows to experts");
    }
    DT__TRY(dt_result(c, 0, x->dtype, rank, dims));
    if (dt__is_spread(w)) return want_spread(c);
    c->scratch_bytes = dt__grouped_forward_scratch(&g);
    return DT_OK;
}

/* As for linear, per expert: all rows of an expert must have the same order of columns. */
static bool takes_codes(const dt_call *c, int i)
{
    const dt__codes *codes = c->codes[i];
    const dt_tensor *x = c->in[i];
    if (codes->columns != dt__columns(x) || codes->rows != dt__rows(x)) return false;
    return i == X || codes->order == NULL || codes->layout.order_rows == x->dims[1];
}

static void forward(const dt_call *c)
{
    const dt__spread *spread = c->ctx->spread;
    if (dt__is_spread(c->in[WEIGHT])) {
        spread->forward(spread->user, c);
        return;
    }
    const dt__grouped g = grouped_of(c);
    dt__grouped_forward(&g, dt__data_mut(c->y));
}

static size_t scratch(const dt_call *c)
{
    if (dt__is_spread(c->in[WEIGHT])) return 0;
    const dt__grouped g = grouped_of(c);
    return dt__grouped_backward_scratch(&g);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__spread *spread = c->ctx->spread;
    if (dt__is_spread(c->in[WEIGHT])) {
        spread->backward(spread->user, c, dy, dx);
        return;
    }
    const dt__grouped g = grouped_of(c);
    dt__grouped_backward(&g, dt__data(dy), dx);
}

static dt_precision precision(const dt_call *c, int i)
{
    const bool factor = (i == X || i == WEIGHT) && !c->coded && !dt__is_spread(c->in[WEIGHT]);
    return factor ? DT_ROUNDED : DT_EXACT;
}

const dt_op dt__op_grouped_linear = {
    .name = "grouped_linear",
    .text = "y[r] = x[r] W[e(r)]^T + bias[e(r)]; 0 if row r has no expert",
    .in_name = { "x", "weight", "bias", "offsets", "index" },
    .out_name = { "y" },
    .role = { DT_CODES, DT_CODES, DT_READ, DT_READ, DT_READ },
    .optional = { [BIAS] = true, [OFFSETS] = true, [INDEX] = true },
    .undifferentiable = { [OFFSETS] = true, [INDEX] = true },
    .saves = { .arg = { DT_VALUE, DT_VALUE, DT_NOTHING, DT_VALUE, DT_VALUE } },
    .saves_coded = { .arg = { DT_SAVE_CODES, DT_SAVE_CODES, DT_NOTHING, DT_VALUE, DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .forward_codes = forward,
    .takes_codes = takes_codes,
    .precision = precision,
    .backward = backward,
    .scratch = scratch,
};

dt_tensor *dt_grouped_linear(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                             const dt_routes *routes)
{
    const dt_routes r = routes != NULL ? *routes : (dt_routes){ NULL, NULL };
    return dt_apply(t, &dt__op_grouped_linear, DT__CALL(x, weight, bias, r.offsets, r.index));
}

#define NONE                                                                                       \
    {                                                                                              \
        .absent = true                                                                             \
    }
#define AT(n, ...)                                                                                 \
    {                                                                                              \
        { n }, .given = true, .values = { __VA_ARGS__ }, .dtype = DT_I32                           \
    }
#define CHOICES(rows, k, ...)                                                                      \
    {                                                                                              \
        { rows, k }, .given = true, .values = { __VA_ARGS__ }, .dtype = DT_I64                     \
    }
#define X_VALUES DT__GIVEN(DT__LIST(3, 2), 2, 3, 1, 0, 5, 5)
#define W_VALUES DT__GIVEN(DT__LIST(2, 1, 2), 1, 10, 2, 20)
#define B_VALUES DT__GIVEN(DT__LIST(2, 1), 100, 200)

static const dt__case cases[] = {
    { "offsets", .in = { X_VALUES, W_VALUES, B_VALUES, AT(3, 0, 1, 2) }, .n_y = 3,
      .y = { 132, 202, 0 } },
    { "index", .in = { X_VALUES, W_VALUES, B_VALUES, NONE, AT(3, 1, -1, 0) }, .n_y = 3,
      .y = { 264, 0, 155 } },
    { "several readings",
      .in = { X_VALUES, W_VALUES, NONE, NONE, CHOICES(3, 2, 1, 0, -1, 1, -1, -1) }, .n_y = 6,
      .y = { 64, 32, 0, 2, 0, 0 } },
    { "some experts", .in = { { { 9, 5 } }, { { 4, 3, 5 } }, { { 4, 3 } }, AT(5, 0, 0, 6, 6, 8) } },
    { "rank 3",
      .in = { { { 2, 3, 5 } }, { { 3, 4, 5 } }, NONE, NONE, CHOICES(3, 2, 2, 0, -1, 0, 2, 0) } },
    { "readings of rank 3", .in = { { { 2, 1, 5 } },
                                    { { 3, 4, 5 } },
                                    { { 3, 4 } },
                                    NONE,
                                    CHOICES(2, 3, 2, 0, 1, 0, 2, 0) } },
    { "one row", .in = { { { 5 } }, { { 3, 4, 5 } }, { { 3, 4 } }, NONE, AT(1, 2) } },
    { "many rows",
      .in = { { { 150, 160 } }, { { 3, 140, 160 } }, { { 3, 140 } }, AT(4, 0, 20, 128, 149) },
      .rough = true },
    { "many choices",
      .in = { { { 150, 60 } },
              { { 5, 70, 60 } },
              { { 5, 70 } },
              NONE,
              { { 150, 2 }, .low = -1, .high = 5, .dtype = DT_I32 } },
      .rough = true },
    { "no rows", .in = { { { 0, 6 } }, { { 2, 5, 6 } }, { { 2, 5 } }, AT(3, 0, 0, 0) } },
    { "no readings",
      .in = { { { 3, 6 } }, { { 2, 5, 6 } }, NONE, NONE, { { 3, 0 }, 2, .dtype = DT_I32 } } },
    { "no experts", .in = { { { 3, 6 } }, { { 0, 5, 6 } }, NONE, AT(1, 0) } },
    { "no features", .in = { { { 3, 0 }, 2 }, { { 2, 4, 0 }, 3 }, { { 2, 4 } }, AT(3, 0, 1, 3) } },
    { "no features by index",
      .in = { { { 3, 0 }, 2 }, { { 2, 4, 0 }, 3 }, { { 2, 4 } }, NONE, AT(3, 0, 1, -1) } },
    { "no outputs", .in = { { { 3, 4 } }, { { 2, 0, 4 } }, NONE, NONE, AT(3, 0, 1, 1) } },
    { "features", .in = { { { 2, 3 } }, { { 2, 5, 4 } }, NONE, AT(3, 0, 1, 2) },
      .fails = DT_ERR_SHAPE, .says = "x has 3 features, weight takes 4" },
    { "bias", .in = { { { 2, 3 } }, { { 2, 5, 3 } }, { { 5 } }, AT(3, 0, 1, 2) },
      .fails = DT_ERR_SHAPE, .says = "bias must be [2,5]" },
    { "one weight", .in = { { { 2, 3 } }, { { 5, 3 } }, NONE, AT(3, 0, 1, 2) },
      .fails = DT_ERR_SHAPE, .says = "weight has rank 2" },
    { "integers", .in = { { { 2, 3 }, .dtype = DT_I32 }, { { 2, 5, 3 } }, NONE, AT(3, 0, 1, 2) },
      .fails = DT_ERR_DTYPE },
    { "mixed", .in = { { { 2, 3 } }, { { 2, 5, 3 }, .other = true }, NONE, AT(3, 0, 1, 2) },
      .fails = DT_ERR_DTYPE, .says = "mix" },
    { "mixed bias",
      .in = { { { 2, 3 } }, { { 2, 5, 3 } }, { { 2, 5 }, .other = true }, AT(3, 0, 1, 2) },
      .fails = DT_ERR_DTYPE, .says = "mix" },
    { "neither", .in = { { { 2, 3 } }, { { 2, 5, 3 } }, NONE, NONE, NONE }, .fails = DT_ERR_ARG,
      .says = "neither offsets nor index" },
    { "both", .in = { { { 2, 3 } }, { { 2, 5, 3 } }, NONE, AT(3, 0, 1, 2), AT(2, 0, 1) },
      .fails = DT_ERR_ARG, .says = "both offsets and index" },
    { "float offsets", .in = { { { 2, 3 } }, { { 2, 5, 3 } }, NONE, { { 3 } } },
      .fails = DT_ERR_DTYPE, .says = "offsets must be i32 or i64" },
    { "float index", .in = { { { 2, 3 } }, { { 2, 5, 3 } }, NONE, NONE, { { 2 } } },
      .fails = DT_ERR_DTYPE, .says = "index must be i32 or i64" },
    { "count of offsets", .in = { { { 2, 3 } }, { { 2, 5, 3 } }, NONE, AT(2, 0, 2) },
      .fails = DT_ERR_SHAPE, .says = "offsets must be [3]" },
    { "first offset", .in = { { { 2, 3 } }, { { 2, 5, 3 } }, NONE, AT(3, 1, 1, 2) },
      .fails = DT_ERR_ARG, .says = "offsets[0] is 1, the first must be 0" },
    { "descending offsets", .in = { { { 2, 3 } }, { { 2, 5, 3 } }, NONE, AT(3, 0, 2, 1) },
      .fails = DT_ERR_ARG, .says = "offsets[2] is 1, below 2" },
    { "offsets past the rows", .in = { { { 2, 3 } }, { { 2, 5, 3 } }, NONE, AT(3, 0, 1, 3) },
      .fails = DT_ERR_ARG, .says = "offsets[2] is 3, but x has 2 rows" },
    { "count of index", .in = { { { 2, 3 } }, { { 2, 5, 3 } }, NONE, NONE, AT(3, 0, 1, 1) },
      .fails = DT_ERR_SHAPE,
      .says = "index must have 2 elements, one for a row of x, or be [2, k]" },
    { "index past the experts", .in = { { { 2, 3 } }, { { 2, 5, 3 } }, NONE, NONE, AT(2, 0, 2) },
      .fails = DT_ERR_ARG, .says = "index[1] is 2; an expert is 0...1, and -1 is none" },
    { "index below -1", .in = { { { 2, 3 } }, { { 2, 5, 3 } }, NONE, NONE, AT(2, -2, 1) },
      .fails = DT_ERR_ARG, .says = "index[0] is -2" },
};
DT__CASES(grouped_linear, cases)
