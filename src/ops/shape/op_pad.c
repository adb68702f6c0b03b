/* Padding.
 *     y[.., i, ..] = x[.., s(i - before), ..]
 *         dx[k] = sum of dy[i] over the i with s(i - before) = k
 * s is the identity inside 0 ... n-1. Outside, reflect mirrors at the first and the last element,
 * which are not repeated; replicate repeats the first or last element; circular continues at the
 * other end; constant sets y to a value. */
#include "autograd/op.h"
#include "ops/ops_list.h"

#include <string.h>

static const dt_pad_options defaults = { .mode = DT_PAD_CONSTANT };
static const char *const modes[] = { "constant", "reflect", "replicate", "circular", NULL };

#define AT(field) .offset = offsetof(dt_pad_options, field)

static const dt_key keys[] = {
    { "pads", DT_KEY_INTS, AT(pads), .least = 0, .most = DT_NO_LIMIT, .fallback = "!" },
    { "mode", DT_KEY_CHOICE, AT(mode), .choices = modes, .fallback = "constant" },
    { "value", DT_KEY_REAL, AT(value), .fallback = "0" },
    { 0 },
};

static int64_t before(const dt_pad_options *o, int rank, int d)
{
    return o->pads.v[2 * (rank - 1 - d)];
}
static int64_t after(const dt_pad_options *o, int rank, int d)
{
    return o->pads.v[2 * (rank - 1 - d) + 1];
}

/* The largest pad for a dimension of n elements. */
static int64_t most(int mode, int64_t n)
{
    switch (mode) {
    case DT_PAD_REFLECT: return dt__max_i64(n - 1, 0);
    case DT_PAD_CIRCULAR: return n;
    case DT_PAD_REPLICATE: return n > 0 ? INT64_MAX : 0;
    default: return INT64_MAX;
    }
}

static dt_status padded(const dt_call *c, const dt_pad_options *o, int d, int64_t *extent)
{
    const dt_tensor *x = c->in[0];
    const int64_t first = before(o, x->rank, d), last = after(o, x->rank, d), n = x->dims[d];
    if (first < 0 || last < 0) {
        return dt_refuse(c, DT_ERR_ARG, "pads %lld, %lld of dimension %d; dt_slice cuts",
                         (long long)first, (long long)last, d);
    }
    if (dt__max_i64(first, last) > most(o->mode, n)) {
        return dt_refuse(c, DT_ERR_SHAPE,
                         "pads %lld, %lld of dimension %d are too large for %s of %lld",
                         (long long)first, (long long)last, d, modes[o->mode], (long long)n);
    }
    if (__builtin_add_overflow(n, first, extent) || __builtin_add_overflow(*extent, last, extent)) {
        return dt_refuse(c, DT_ERR_SHAPE, "dimension %d becomes too large", d);
    }
    return DT_OK;
}

static dt_status shape(dt_call *c)
{
    const dt_pad_options *o = c->options;
    const dt_tensor *x = c->in[0];
    DT__TRY(dt__want_operands(c, 1, 1));
    DT__TRY(dt__want_float(c, 0));
    if (o->mode < DT_PAD_CONSTANT || o->mode > DT_PAD_CIRCULAR) {
        return dt_refuse(c, DT_ERR_ARG, "mode is %d; expected %d to %d (DT_PAD_...)", o->mode,
                         DT_PAD_CONSTANT, DT_PAD_CIRCULAR);
    }
    if (o->pads.n < 0 || o->pads.n % 2 != 0 || o->pads.n > 2 * x->rank) {
        return dt_refuse(c, DT_ERR_ARG, "%d pads for %d dimensions; two for each, from the last on",
                         o->pads.n, x->rank);
    }
    int64_t dims[DT_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    for (int d = x->rank - o->pads.n / 2; d < x->rank; d++) DT__TRY(padded(c, o, d, &dims[d]));
    return dt_result(c, 0, x->dtype, x->rank, dims);
}

/* Leading dimensions without pads are merged into one. */
static dt__pad pad_of(const dt_call *c)
{
    const dt_pad_options *o = c->options;
    const dt_tensor *x = c->in[0], *y = c->y;
    dt__pad p = { .planes = 1, .mode = (dt__border)o->mode, .value = o->value };
    int d = 0;
    for (; d < x->rank - dt__max_i64(o->pads.n / 2, 1); d++) p.planes *= x->dims[d];
    for (; d < x->rank; d++, p.rank++) {
        p.in[p.rank] = x->dims[d];
        p.out[p.rank] = y->dims[d];
        p.before[p.rank] = o->pads.n > 0 ? before(o, x->rank, d) : 0;
    }
    if (p.rank == 0) { /* a scalar */
        p.rank = 1;
        p.in[0] = p.out[0] = 1;
    }
    return p;
}

static void forward(const dt_call *c)
{
    const dt__pad p = pad_of(c);
    c->kernels->pad(&p, dt__data(c->arg[0]), dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__pad p = pad_of(c);
    c->kernels->pad_backward(&p, dt__data(dy), dt__data_mut(dx[0]));
}

const dt_op dt__op_pad = {
    .name = "pad",
    .text = "adds elements before and after those of x",
    .in_name = { "x" },
    .out_name = { "y" },
    .ungrouped = true,
    DT__OP_OPTIONS(dt_pad_options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_pad(dt_tape *t, dt_tensor *x, const dt_pad_options *options)
{
    return dt_apply(t, &dt__op_pad, DT__CALL_WITH(options, x));
}

#define PADS(mode_, n, ...)                                                                        \
    DT__WITH(dt_pad_options, .pads = { n, { __VA_ARGS__ } }, .mode = mode_, .value = 0.5)

static const dt__case cases[] = {
    { "constant", .in = { { { 1, 2 }, .given = true, .values = { 1, 2 } } },
      .options = PADS(DT_PAD_CONSTANT, 4, 1, 0, 0, 1), .n_y = 6,
      .y = { 0.5, 1, 2, 0.5, 0.5, 0.5 } },
    { "reflect", .in = { { { 3 }, .given = true, .values = { 1, 2, 3 } } },
      .options = PADS(DT_PAD_REFLECT, 2, 2, 1), .n_y = 6, .y = { 3, 2, 1, 2, 3, 2 } },
    { "replicate", .in = { { { 2 }, .given = true, .values = { 1, 2 } } },
      .options = PADS(DT_PAD_REPLICATE, 2, 3, 1), .n_y = 6, .y = { 1, 1, 1, 1, 2, 2 } },
    { "circular", .in = { { { 3 }, .given = true, .values = { 1, 2, 3 } } },
      .options = PADS(DT_PAD_CIRCULAR, 2, 3, 1), .n_y = 7, .y = { 1, 2, 3, 1, 2, 3, 1 } },
    { "channels", .in = { { { 2, 3, 2, 2 } } },
      .options = PADS(DT_PAD_CONSTANT, 6, 0, 0, 0, 0, 1, 2) },
    { "every dimension", .in = { { { 2, 3, 4 } } },
      .options = PADS(DT_PAD_REFLECT, 6, 3, 0, 1, 2, 1, 1) },
    { "all around, circular", .in = { { { 2, 2, 3, 4 } } },
      .options = PADS(DT_PAD_CIRCULAR, 4, 4, 2, 1, 3) },
    { "all around, replicate", .in = { { { 2, 2, 3, 4 } } },
      .options = PADS(DT_PAD_REPLICATE, 4, 4, 2, 1, 3) },
    { "nothing", .in = { { { 2, 3 } } } },
    { "a scalar", .in = { { .r = DT__SCALAR } } },
    { "threads", .in = { { { 16, 33, 61 } } }, .options = PADS(DT_PAD_REFLECT, 4, 4, 2, 1, 3),
      .rough = true },
    { "empty", .in = { { { 2, 0, 3 } } }, .options = PADS(DT_PAD_CONSTANT, 4, 1, 0, 1, 1) },
    { "empty, circular", .in = { { { 2, 0, 3 } } }, .options = PADS(DT_PAD_CIRCULAR, 2, 1, 0) },
    { "of nothing", .in = { { { 2, 0 }, 2 } }, .options = PADS(DT_PAD_REPLICATE, 2, 1, 0),
      .fails = DT_ERR_SHAPE, .says = "too large for replicate of 0" },
    { "a long mirror", .in = { { { 2, 3 } } }, .options = PADS(DT_PAD_REFLECT, 2, 3, 0),
      .fails = DT_ERR_SHAPE, .says = "pads 3, 0 of dimension 1 are too large for reflect of 3" },
    { "more than a turn", .in = { { { 2, 3 } } }, .options = PADS(DT_PAD_CIRCULAR, 2, 0, 4),
      .fails = DT_ERR_SHAPE, .says = "too large for circular of 3" },
    { "cut", .in = { { { 2, 3 } } }, .options = PADS(DT_PAD_CONSTANT, 2, 0, -1),
      .fails = DT_ERR_ARG, .says = "dt_slice cuts" },
    { "odd", .in = { { { 2, 3 } } }, .options = PADS(DT_PAD_CONSTANT, 3, 0, 1, 1),
      .fails = DT_ERR_ARG, .says = "3 pads for 2 dimensions" },
    { "too many", .in = { { { 3 } } }, .options = PADS(DT_PAD_CONSTANT, 4, 0, 1, 1, 0),
      .fails = DT_ERR_ARG, .says = "4 pads for 1 dimensions" },
    { "overflow", .in = { { { 2, 3 } } }, .options = PADS(DT_PAD_CONSTANT, 2, INT64_MAX, 1),
      .fails = DT_ERR_SHAPE, .says = "becomes too large" },
    { "mode", .in = { { { 2, 3 } } }, .options = PADS(4, 2, 1, 1), .fails = DT_ERR_ARG,
      .says = "mode is 4" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(pad, cases)
