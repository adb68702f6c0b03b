/* y = f(x) of each code, by a table (numerics §8, device_functions.c).
 *     dx = f'(x) dy where y was not clamped, else 0 */
#include "ops/device/device_ops.h"
#include "ops/device/device_functions.h"
#include "ops/ops_list.h"

#include <math.h>

enum { X, SCALE, ZERO, ENDS };

static const dt_device_table_options defaults = { .function = DT_TABLE_SIGMOID, .slope = 0.01 };

static const dt_key keys[] = {
    { "function", DT_KEY_CHOICE, .offset = offsetof(dt_device_table_options, function),
      .choices = dt__device_function_names, .fallback = "sigmoid" },
    { "slope", DT_KEY_REAL, .offset = offsetof(dt_device_table_options, slope),
      .fallback = "0.01" },
    { 0 },
};

static const dt_device_table_options *options_of(const dt_call *c) { return c->options; }

/* ---- the op of floats ------------------------------------------------------------------------ */

static const struct {
    const dt_op *op;
    const void *options;
} bases[] = {
    { &dt__op_sigmoid, NULL },
    { &dt__op_tanh, NULL },
    { &dt__op_elu, &(const double){ 1 } },
    { &dt__op_gelu, &(const int){ DT_GELU_ERF } },
    { &dt__op_gelu, &(const int){ DT_GELU_TANH } },
    { &dt__op_leaky_relu, NULL },
    { &dt__op_hardswish, NULL },
    { &dt__op_relu, NULL },
    { &dt__op_relu6, NULL },
};

/* Whether the base op's backward reads bits that its forward kept: functions with slope `below` for
 * x < 0 and slope 1 between 0 and `most`. */
static bool is_broken_line(const dt_device_table_options *o, double *below, double *most)
{
    *below = o->function == DT_TABLE_LEAKY_RELU ? o->slope : 0;
    *most = o->function == DT_TABLE_RELU6 ? 6 : (double)INFINITY;
    return o->function == DT_TABLE_LEAKY_RELU || o->function == DT_TABLE_RELU ||
           o->function == DT_TABLE_RELU6;
}

/* A call of the base op with x and y as floats. */
static dt_call base_call(const dt_call *c, dt_tensor *x, dt_tensor *y)
{
    dt_call inner = *c;
    const int function = options_of(c)->function;
    inner.op = bases[function].op;
    inner.options =
        function == DT_TABLE_LEAKY_RELU ? &options_of(c)->slope : bases[function].options;
    inner.coded = inner.recording = false;
    inner.arg[X] = x;
    inner.y = inner.out[0] = y;
    inner.n_in = inner.n_out = 1;
    return inner;
}

/* ---- the op ---------------------------------------------------------------------------------- */

static dt_status check_options(const dt_call *c)
{
    const dt_device_table_options *o = c->options;
    if (o->function < 0 || o->function > DT_TABLE_RELU6) {
        return dt_refuse(c, DT_ERR_ARG, "function is %d; expected 0 to %d (DT_TABLE_...)",
                         o->function, DT_TABLE_RELU6);
    }
    if (isfinite(o->slope) && fabs(o->slope) <= 256) return DT_OK;
    return dt_refuse(c, DT_ERR_ARG, "slope is %g; it must be at most 256", o->slope);
}

/* Sets the result's range, made coarser if the numbers in the kernels would not fit. */
static dt_status choose_range(dt_call *c, dt__coding_range *y)
{
    const int function = options_of(c)->function;
    *y = dt__device_table_range(function);
    if (y->scale > 0) {
        return c->n_in == 1 ? DT_OK
                            : dt_refuse(c, DT_ERR_ARG, "the result of %s has a range of its own",
                                        dt__device_function_names[function]);
    }
    DT__TRY(dt__want_operands(c, 3, 4));
    DT__TRY(dt__device_range_of(c, SCALE, y));
    if (!c->coded) return DT_OK;
    const double least = dt__device_table_scale(function, dt__range_of_codes(c->codes[X]).scale);
    if ((double)y->scale >= least) return DT_OK;
    *y = dt__device_coarser(*y, least);
    c->state[DT__DEVICE_COARSER] = 1;
    return DT_OK;
}

static dt_status shape(dt_call *c)
{
    dt__coding_range y;
    DT__TRY(dt__want_float(c, X));
    DT__TRY(check_options(c));
    DT__TRY(choose_range(c, &y));
    return dt__device_result(c, c->in[X]->rank, c->in[X]->dims, y);
}

static void forward(const dt_call *c)
{
    const dt_call inner = base_call(c, c->arg[X], c->y);
    inner.op->forward(&inner);
}

typedef struct look_args {
    const dt__device_table *table;
    const uint8_t *x;
    uint8_t *y;
    int8_t *residual;
} look_args;

static void look_up(const void *args, const dt__share *s)
{
    const look_args *of = args;
    for (int64_t i = s->first; i < s->past; i++) {
        of->y[i] = (uint8_t)(of->table->code[of->x[i]] + 128);
        if (of->residual != NULL) of->residual[i] = of->table->residual[of->x[i]];
    }
}

static void forward_codes(const dt_call *c)
{
    const dt__codes *y = dt__coded_codes(c->y);
    dt__device_table table;
    dt__device_table_make(c->options, dt__range_of_codes(c->codes[X]), dt__range_of_codes(y),
                          &table);
    const look_args args = { &table, c->codes[X]->u, y->u, dt__device_residual(c) };
    dt__parallel(c->y->count, 1, look_up, &args);
}

/* Scratch: d, then x and y as floats. */
static size_t scratch(const dt_call *c) { return 3 * dt__device_mask_bytes(c); }

static void slopes(const dt_call *c, const dt_tensor *d, dt_tensor *dx)
{
    dt__borrowed x, y;
    const size_t step = dt__device_mask_bytes(c);
    char *const at = (char *)c->scratch + step;
    dt_call inner = base_call(c, c->arg[X], dt__borrow(&y, d, at + step));
    if (c->codes[X] != NULL) {
        inner.arg[X] = dt__borrow(&x, d, at);
        dt__codes_expand_all(c->codes[X], (float *)(void *)at);
    }
    double below, most;
    if (!is_broken_line(options_of(c), &below, &most)) {
        inner.op->forward(&inner);
        inner.op->backward(&inner, d, (dt_tensor *[]){ dx });
        return;
    }
    const bool wide = d->dtype == DT_F64;
    const void *from = dt__data(inner.arg[X]), *up = dt__data(d);
    void *to = dt__data_mut(dx);
    for (int64_t i = 0; i < d->count; i++) {
        const double v = wide ? ((const double *)from)[i] : (double)((const float *)from)[i];
        const double slope = v > 0 ? v < most : below;
        if (wide) ((double *)to)[i] = ((const double *)up)[i] * slope;
        else ((float *)to)[i] = ((const float *)up)[i] * (float)slope;
    }
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    dt__borrowed d;
    const dt__device_back back = { DT_ACT_NONE, ENDS, 127 };
    dt__device_mask(c, &back, dy, c->scratch, dx);
    if (dx[X] != NULL) slopes(c, dt__borrow(&d, dy, c->scratch), dx[X]);
}

const dt_op dt__op_device_table = {
    .name = "device_table",
    .text = "a function of each code, by a table",
    .in_name = { "x", "scale", "zero_point", "ends" },
    .out_name = { "y", "residual" },
    .role = { DT_CODES },
    .optional = { [SCALE] = true, [ZERO] = true, [ENDS] = true },
    .undifferentiable = { [SCALE] = true, [ZERO] = true },
    .ungrouped = true,
    DT__OP_OPTIONS(dt_device_table_options, defaults, keys),
    .saves = { .arg = { DT_VALUE } },
    .saves_coded = { .arg = { DT_SAVE_CODES }, .out = { DT_NOTHING, DT_VALUE } },
    DT__DEVICE_FUNCTIONS,
    .scratch = scratch,
};

dt_tensor *dt_device_table(dt_tape *t, dt_tensor *x, const dt_device_range *range,
                           const dt_device_table_options *options)
{
    if (range == NULL) return dt_apply(t, &dt__op_device_table, &x, 1, options);
    dt_tensor *const in[] = { x, range->scale, range->zero_point, range->ends };
    return dt_apply(t, &dt__op_device_table, in, 4, options);
}

#define FUNCTION(f) DT__WITH(dt_device_table_options, f, 0.01)
#define LEAKY(slope) DT__WITH(dt_device_table_options, DT_TABLE_LEAKY_RELU, slope)
#define RANGED(...) .in = { __VA_ARGS__, DT__CASE_SCALE, DT__CASE_ZERO, DT__CASE_ENDS }

static const dt__case cases[] = {
    { "sigmoid", .in = { { { 3 }, .given = true, .values = { -1, 0, 2 } } }, .n_y = 3,
      .y = { 0.2689414213699951, 0.5, 0.8807970779778823 } },
    { "tanh", .in = { { { 2, 3, 4 } } }, .options = FUNCTION(DT_TABLE_TANH) },
    { "elu", RANGED({ { 2, 3, 4 } }), .options = FUNCTION(DT_TABLE_ELU), .rough = true },
    { "gelu", RANGED({ { 2, 3, 4 } }), .options = FUNCTION(DT_TABLE_GELU) },
    { "gelu_tanh", RANGED({ { 2, 3, 4 } }), .options = FUNCTION(DT_TABLE_GELU_TANH) },
    { "leaky_relu", RANGED({ { 5 }, .given = true, .values = { -2, -1, 1, 0.5, 3 } }),
      .options = LEAKY(0.25), .n_y = 5, .y = { -0.5, -0.25, 1, 0.5, 3 }, .rough = true },
    { "hardswish", RANGED({ { 2, 3, 4 }, .low = -4, .high = 4 }),
      .options = FUNCTION(DT_TABLE_HARDSWISH), .rough = true },
    { "relu", RANGED({ { 4 }, .given = true, .values = { -2, -1, 7, 0.5 } }),
      .options = FUNCTION(DT_TABLE_RELU), .n_y = 4, .y = { 0, 0, 7, 0.5 }, .rough = true },
    { "relu6", RANGED({ { 4 }, .given = true, .values = { -2, -1, 7, 0.5 } }),
      .options = FUNCTION(DT_TABLE_RELU6), .n_y = 4, .y = { 0, 0, 6, 0.5 }, .rough = true },
    { "empty", .in = { { { 0, 3 } } } },
    { "a range of its own", RANGED({ { 2 } }), .fails = DT_ERR_ARG, .says = "of its own" },
    { "function", .in = { { { 2 } } }, .options = FUNCTION(99), .fails = DT_ERR_ARG,
      .says = "function is 99" },
    { "slope", RANGED({ { 2 } }), .options = LEAKY(DT__NAN), .fails = DT_ERR_ARG,
      .says = "slope is nan" },
};
DT__CASES(device_table, cases)
