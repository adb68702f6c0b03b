/* The four convolutions. A transposed convolution is the adjoint of a convolution whose x is its y,
 * so three kernels compute all of them:
 *                        conv                     transposed
 *     forward            conv(x)                  conv_backward_x(x)
 *     backward by x      conv_backward_x(dy)      conv(dy)
 *     backward by w      conv_backward_w(x, dy)   conv_backward_w(dy, x)                         */
#include "ops/shape/view.h"
#include "ops/convolution/conv_codes.h"
#include "ops/ops_list.h"

enum { X = DT__CONV_X, WEIGHT = DT__CONV_WEIGHT, BIAS = DT__CONV_BIAS };

const dt_conv_options dt__conv_default = { .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1 };

dt_conv_options dt_conv_defaults(void) { return dt__conv_default; }

bool dt__conv_is_transposed(const dt_call *c)
{
    return c->op == &dt__op_conv_transpose2d || c->op == &dt__op_conv_transpose1d ||
           c->op == &dt__op_device_conv_transpose2d;
}

/* The number of spatial dimensions; a convolution of codes has those of its weight. */
static int axes_of(const dt_call *c)
{
    const dt_tensor *weight = c->in[WEIGHT] != NULL ? c->in[WEIGHT] : c->arg[WEIGHT];
    if (c->op == &dt__op_device_conv2d || c->op == &dt__op_device_conv_transpose2d) {
        return weight != NULL && weight->rank == 3 ? 1 : 2;
    }
    return c->op == &dt__op_conv1d || c->op == &dt__op_conv_transpose1d ? 1 : 2;
}

/* ---- arguments of the kernels --------------------------------------------------------------- */

/* The index of axis i in conv_geometry.h: a 1d x is an image of one row, so its axis is the
 * columns. */
static int place_of(const dt_call *c, int i) { return axes_of(c) == 1 ? 1 : i; }

dt__conv dt__conv_of(const dt_call *c)
{
    const dt_conv_options *o = c->options;
    const bool transposed = dt__conv_is_transposed(c);
    const dt_tensor *x = transposed ? c->y : c->arg[X], *y = transposed ? c->arg[X] : c->y;
    dt__conv p = { .batch = x->dims[0],
                   .in = x->dims[1],
                   .out = y->dims[1],
                   .groups = o->groups,
                   .x_size = { 1, 1 },
                   .y_size = { 1, 1 },
                   .kernel = { 1, 1 },
                   .stride = { 1, 1 },
                   .dilation = { 1, 1 } };
    for (int i = 0; i < axes_of(c); i++) {
        const int at = place_of(c, i);
        p.x_size[at] = x->dims[2 + i];
        p.y_size[at] = y->dims[2 + i];
        p.kernel[at] = c->arg[WEIGHT]->dims[2 + i];
        p.stride[at] = o->stride[i];
        p.padding[at] = o->padding[i];
        p.dilation[at] = o->dilation[i];
    }
    return p;
}

/* Forward's arguments. When a plan is made y has no data yet; only which pointers are NULL
 * matters. */
static dt__conv_work forward_work(const dt_call *c, const dt__conv *p)
{
    const bool transposed = dt__conv_is_transposed(c);
    const void *x = dt__data(c->arg[X]);
    void *y = dt__data_mut(c->y);
    return (dt__conv_work){ .conv = p,
                            .x = transposed ? NULL : x,
                            .y = transposed ? x : NULL,
                            .w = dt__data(c->arg[WEIGHT]),
                            .bias = c->arg[BIAS] != NULL ? dt__data(c->arg[BIAS]) : NULL,
                            .to_x = transposed ? y : NULL,
                            .to_y = transposed ? NULL : y,
                            .ordered = c->y->dtype == DT_F32 && c->tape->no_grad,
                            .products = c->products,
                            .scratch = c->scratch };
}

/* Backward's arguments; dx and dw may be NULL. */
static dt__conv_work backward_work(const dt_call *c, const dt__conv *p, const void *dy, void *dx,
                                   void *dw)
{
    const bool transposed = dt__conv_is_transposed(c);
    const void *x = dt__data(c->arg[X]);
    return (dt__conv_work){ .conv = p,
                            .x = transposed ? dy : x,
                            .y = transposed ? x : dy,
                            .w = dt__data(c->arg[WEIGHT]),
                            .to_x = transposed ? NULL : dx,
                            .to_y = transposed ? dx : NULL,
                            .to_w = dw,
                            .x_halves = c->halves[X],
                            .products = c->products,
                            .scratch = c->scratch };
}

static dt_status backward_scratch(const dt_call *c, const dt__conv *p, size_t *bytes)
{
    char any = 0; /* the plan only tests which pointers are NULL */
    const dt__conv_work w =
        backward_work(c, p, &any, c->wants[X] ? &any : NULL, c->wants[WEIGHT] ? &any : NULL);
    *bytes = 0;
    if (!c->wants[X] && !c->wants[WEIGHT]) return DT_OK;
    return dt__conv_plan(c->ctx, c->kernels, &w, bytes);
}

dt_status dt__conv_float_plan(const dt_call *c, size_t *scratch_bytes)
{
    const dt__conv p = dt__conv_of(c);
    const dt__conv_work w = forward_work(c, &p);
    size_t later;
    DT__TRY(dt__conv_plan(c->ctx, c->kernels, &w, scratch_bytes));
    return c->recording ? backward_scratch(c, &p, &later) : DT_OK;
}

static dt_status plan(dt_call *c)
{
    return c->coded ? dt__conv_codes_plan(c) : dt__conv_float_plan(c, &c->scratch_bytes);
}

/* ---- shape ----------------------------------------------------------------------------------- */

static const char *const axis_name[] = { "rows", "columns" };

static dt_status check_range(const dt_call *c, const char *what, int64_t value, int64_t least)
{
    const int64_t most = (int64_t)DT__CONV_MOST;
    if (value >= least && value <= most) return DT_OK;
    return dt_refuse(c, DT_ERR_ARG, "%s is %lld, outside %lld...%lld", what, (long long)value,
                     (long long)least, (long long)most);
}

static dt_status check_options(const dt_call *c)
{
    const dt_conv_options *o = c->options;
    for (int i = 0; i < axes_of(c); i++) {
        DT__TRY(check_range(c, "stride", o->stride[i], 1));
        DT__TRY(check_range(c, "padding", o->padding[i], 0));
        DT__TRY(check_range(c, "dilation", o->dilation[i], 1));
        DT__TRY(check_range(c, "output_padding", o->output_padding[i], 0));
        const int64_t most = dt__max_i64(o->stride[i], o->dilation[i]) - 1;
        if (dt__conv_is_transposed(c) && o->output_padding[i] > most) {
            return dt_refuse(c, DT_ERR_ARG,
                             "output_padding is %lld; it must be below stride or dilation, "
                             "which are %lld and %lld",
                             (long long)o->output_padding[i], (long long)o->stride[i],
                             (long long)o->dilation[i]);
        }
        if (!dt__conv_is_transposed(c) && o->output_padding[i] != 0) {
            return dt_refuse(c, DT_ERR_ARG, "output_padding is %lld; only a transposed one has it",
                             (long long)o->output_padding[i]);
        }
    }
    return check_range(c, "groups", o->groups, 1);
}

static dt_status check_channels(const dt_call *c)
{
    const dt_tensor *x = c->in[X], *w = c->in[WEIGHT];
    const int64_t groups = ((const dt_conv_options *)c->options)->groups;
    if (x->dims[1] % groups != 0) {
        return dt_refuse(c, DT_ERR_SHAPE, "%lld groups do not divide %lld channels",
                         (long long)groups, (long long)x->dims[1]);
    }
    const bool transposed = dt__conv_is_transposed(c);
    const int64_t want = transposed ? x->dims[1] : x->dims[1] / groups;
    if (w->dims[transposed ? 0 : 1] == want) return DT_OK;
    return dt_refuse(c, DT_ERR_SHAPE, "x has %lld channels%s, weight takes %lld", (long long)want,
                     want == x->dims[1] ? "" : " a group", (long long)w->dims[transposed ? 0 : 1]);
}

/* The extent of y along axis i. All numbers are below 2^31, so nothing overflows in int64. */
static dt_status extent_of(const dt_call *c, int i, int64_t *out)
{
    const dt_conv_options *o = c->options;
    const int64_t x = c->in[X]->dims[2 + i], kernel = c->in[WEIGHT]->dims[2 + i];
    const char *name = axis_name[place_of(c, i)];
    if (kernel < 1)
        return dt_refuse(c, DT_ERR_SHAPE, "the kernel has no %s; expected 1 or more", name);
    if (x > (int64_t)DT__CONV_MOST || kernel > (int64_t)DT__CONV_MOST) {
        return dt_refuse(c, DT_ERR_SHAPE, "there are more than %lld %s", (long long)DT__CONV_MOST,
                         name);
    }
    const int64_t reach = o->dilation[i] * (kernel - 1) + 1;
    if (dt__conv_is_transposed(c)) {
        *out = (x - 1) * o->stride[i] - 2 * o->padding[i] + reach + o->output_padding[i];
        if (x > 0 && *out > 0 && *out <= (int64_t)DT__CONV_MOST) return DT_OK;
        return dt_refuse(c, DT_ERR_SHAPE, "y would have %lld %s", (long long)(x > 0 ? *out : 0),
                         name);
    }
    const int64_t padded = x + 2 * o->padding[i];
    if (reach > padded) {
        return dt_refuse(c, DT_ERR_SHAPE,
                         "the kernel reaches over %lld %s, x has %lld with padding",
                         (long long)reach, name, (long long)padded);
    }
    *out = (padded - reach) / o->stride[i] + 1;
    return DT_OK;
}

dt_status dt__conv_check_weight(const dt_call *c)
{
    const int rank = 2 + axes_of(c);
    DT__TRY(dt__want_rank(c, WEIGHT, rank, rank));
    DT__TRY(check_options(c));
    const int64_t channels = c->in[WEIGHT]->dims[0];
    const int64_t groups = ((const dt_conv_options *)c->options)->groups;
    if (channels % groups == 0) return DT_OK;
    return dt_refuse(c, DT_ERR_SHAPE, "%lld groups do not divide %lld channels", (long long)groups,
                     (long long)channels);
}

dt_status dt__conv_extents(const dt_call *c, int64_t dims[4])
{
    const dt_tensor *x = c->in[X], *w = c->in[WEIGHT];
    const dt_conv_options *o = c->options;
    DT__TRY(dt__want_rank(c, X, 2 + axes_of(c), 2 + axes_of(c)));
    DT__TRY(dt__conv_check_weight(c));
    DT__TRY(check_channels(c));
    dims[0] = x->dims[0];
    dims[1] = w->dims[0];
    if (dt__conv_is_transposed(c) &&
        !dt__product(2, (const int64_t[]){ w->dims[1], o->groups }, &dims[1])) {
        return dt_refuse(c, DT_ERR_SHAPE, "%lld groups of %lld channels are too many",
                         (long long)o->groups, (long long)w->dims[1]);
    }
    for (int i = 0; i < axes_of(c); i++) DT__TRY(extent_of(c, i, &dims[2 + i]));
    return DT_OK;
}

dt_status dt__conv_shape(dt_call *c)
{
    int64_t dims[4];
    DT__TRY(dt__want_operands(c, 2, 3));
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i] != NULL) DT__TRY(dt__want_float(c, i));
    }
    DT__TRY(dt__conv_extents(c, dims));
    if (c->in[BIAS] != NULL) DT__TRY(dt__want_dims(c, BIAS, 1, dims + 1));
    DT__TRY(dt_result(c, 0, c->in[X]->dtype, 2 + axes_of(c), dims));
    return plan(c);
}

/* ---- forward and backward ------------------------------------------------------------------- */

void dt__conv_forward(const dt_call *c)
{
    const dt__conv p = dt__conv_of(c);
    dt__conv_work w = forward_work(c, &p);
    if (dt__conv_precision(c, X) == DT_BF16) w.to_halves = dt__halves_of(c, X);
    dt__conv_compute(c->ctx, c->kernels, &w);
}

/* The bias's gradient: the sum of dy over all dimensions but the channels. */
static void conv_backward_bias(const dt_call *c, const dt_tensor *dy, dt_tensor *db)
{
    dt__reduce r = { .rank = dy->rank, .over = { true, false, true, true }, .divisor = 1 };
    for (int d = 0; d < dy->rank; d++) r.dims[d] = dy->dims[d];
    r.x = dt__data(dy);
    r.y = dt__data_mut(db);
    c->kernels->sum(&r);
}

dt_precision dt__conv_precision(const dt_call *c, int i)
{
    const dt__conv p = dt__conv_of(c);
    if (i == BIAS || !dt__conv_rounds(&p, c->products)) return DT_EXACT;
    return i == X && !dt__conv_is_transposed(c) ? DT_BF16 : DT_ROUNDED;
}

size_t dt__conv_backward_scratch(const dt_call *c)
{
    if (c->coded) return dt__conv_codes_backward_scratch(c);
    const dt__conv p = dt__conv_of(c);
    size_t bytes;
    backward_scratch(c, &p, &bytes);
    return bytes;
}

void dt__conv_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__conv p = dt__conv_of(c);
    if (dx[BIAS] != NULL) conv_backward_bias(c, dy, dx[BIAS]);
    if (c->coded) {
        dt__conv_backward_codes(c, dy, dx);
        return;
    }
    if (dx[X] == NULL && dx[WEIGHT] == NULL) return;
    const dt__conv_work w =
        backward_work(c, &p, dt__data(dy), dx[X] != NULL ? dt__data_mut(dx[X]) : NULL,
                      dx[WEIGHT] != NULL ? dt__data_mut(dx[WEIGHT]) : NULL);
    dt__conv_compute(c->ctx, c->kernels, &w);
}

void dt__conv_lower_line(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out,
                         dt__conv_function *plane)
{
    dt_conv_options o = *(const dt_conv_options *)given;
    o.stride[1] = o.dilation[1] = 1;
    o.padding[1] = o.output_padding[1] = 0;
    dt_tensor *x = dt__line_to_plane(t, in[0]), *weight = dt__line_to_plane(t, in[1]);
    out[0] = dt__plane_to_line(t, plane(t, x, weight, in[DT__CONV_BIAS], &o));
}

dt_tensor *dt__conv_apply(dt_tape *t, const dt_op *op, dt_tensor *const *in,
                          const dt_conv_options *options)
{
    return dt_apply(t, op, in, in[BIAS] != NULL ? 3 : 2, options);
}
