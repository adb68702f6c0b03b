/* One of two values, element by element.      y = x > 0 ? a : b; NaN is not above 0
 *     da = x > 0 ? dy : 0      db = x > 0 ? 0 : dy; x has no gradient
 * a and b have x's dims, or one element, which is for all. */
#include "autograd/op.h"
#include "ops/ops_list.h"

enum { X, A, B };

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 3, 3));
    DT__TRY(dt__shape_like(c, X));
    for (int i = A; i <= B; i++) {
        DT__TRY(dt__want_float(c, i));
        if (c->in[i]->count == 1 && c->in[i]->rank <= c->in[X]->rank) continue;
        DT__TRY(dt__want_dims(c, i, c->in[X]->rank, c->in[X]->dims));
    }
    return DT_OK;
}

static int64_t step_of(const dt_call *c, int i) { return c->arg[i]->count == 1 ? 0 : 1; }

static void forward(const dt_call *c)
{
    const dt__where w = { dt__count(c->y),     dt__data(c->arg[X]), dt__data(c->arg[A]),
                          dt__data(c->arg[B]), step_of(c, A),       step_of(c, B) };
    c->kernels->where(&w, dt__data_mut(c->y));
}

/* A zero, and a value for each element of the result. */
static size_t scratch(const dt_call *c)
{
    return (size_t)(c->out[0]->count + 1) * dt_dtype_size(c->out[0]->dtype);
}

/* dy where the operand was chosen, else 0; of one element for all the sum. */
static void pass(const dt_call *c, const dt_tensor *dy, int i, dt_tensor *dx)
{
    const bool summed = dx->count != dy->count;
    const void *zero = c->scratch;
    void *to = summed ? (char *)c->scratch + dt_dtype_size(dy->dtype) : dt__data_mut(dx);
    c->kernels->fill(1, 0, c->scratch);
    const dt__where w = { dy->count,
                          dt__data(c->arg[X]),
                          i == A ? dt__data(dy) : zero,
                          i == A ? zero : dt__data(dy),
                          i == A,
                          i == B };
    c->kernels->where(&w, to);
    if (!summed) return;
    c->kernels->sum(&(dt__reduce){ .rank = 1,
                                   .dims = { dy->count },
                                   .over = { true },
                                   .divisor = 1,
                                   .x = to,
                                   .y = dt__data_mut(dx) });
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    for (int i = A; i <= B; i++) {
        if (dx[i] != NULL) pass(c, dy, i, dx[i]);
    }
}

const dt_op dt__op_where = {
    .name = "where",
    .text = "y = a where x > 0, else b",
    .in_name = { "x", "a", "b" },
    .out_name = { "y" },
    .undifferentiable = { true },
    .saves = { .arg = { DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .scratch = scratch,
};

dt_tensor *dt_where(dt_tape *t, dt_tensor *x, dt_tensor *a, dt_tensor *b)
{
    return dt_apply(t, &dt__op_where, DT__CALL(x, a, b));
}

static const dt__case cases[] = {
    { "values",
      .in = { { { 4 }, .given = true, .values = { -1, 0, 0.5, DT__NAN } },
              { { 4 }, .given = true, .values = { 1, 2, 3, 4 } },
              { { 4 }, .given = true, .values = { 5, 6, 7, 8 } } },
      .n_y = 4, .y = { 5, 6, 3, 8 } },
    { "random", .in = { { { 2, 3, 4 } }, { { 2, 3, 4 } }, { { 2, 3, 4 } } } },
    { "one for all", .in = { { { 2, 3 } }, { { 2, 3 } }, { .r = DT__SCALAR } } },
    { "two for all", .in = { { { 2, 3 } }, { { 1 } }, { { 1, 1 } } } },
    { "long", .in = { { { 40003 } }, { { 40003 } }, { { 1 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 0, 3 } }, { { 1 } } } },
    { "misfit", .in = { { { 2, 3 } }, { { 3 } }, { { 1 } } }, .fails = DT_ERR_SHAPE },
    { "integers", .in = { { { 3 } }, { { 3 } }, { { 3 }, .dtype = DT_I32 } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(where, cases)
