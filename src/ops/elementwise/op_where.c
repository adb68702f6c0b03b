/* One of two values, element by element, broadcasting.
 *     y = cond > 0 ? a : b; NaN is not above 0
 *     da = cond > 0 ? dy : 0      db = cond > 0 ? 0 : dy, summed over broadcast dimensions */
#include "ops/elementwise/binary.h"
#include "ops/ops_list.h"

enum { COND, A, B };

/* Computes the dims of three operands that broadcast pairwise. */
static dt_status shape(dt_call *c)
{
    static const int pair[3][2] = { { COND, A }, { COND, B }, { A, B } };
    int64_t dims[DT_MAX_RANK], two[DT_MAX_RANK];
    int rank = 0, n;
    DT__TRY(dt__want_operands(c, 3, 3));
    if (c->in[COND]->dtype != DT_U8) DT__TRY(dt__want_float(c, COND));
    for (int i = A; i <= B; i++) DT__TRY(dt__want_float(c, i));
    for (int i = 0; i < 3; i++) rank = c->in[i]->rank > rank ? c->in[i]->rank : rank;
    for (int d = 0; d < rank; d++) dims[d] = 1;
    for (int i = 0; i < 3; i++) {
        DT__TRY(dt__broadcast(c, pair[i][0], pair[i][1], &n, two));
        for (int d = 0; d < n; d++) {
            if (two[d] != 1) dims[rank - n + d] = two[d];
        }
    }
    return dt_result(c, 0, c->in[A]->dtype, rank, dims);
}

/* to = x where (cond > 0) == above, in the dims of `like`; other elements are unchanged. */
static void put(const dt_call *c, bool above, const dt_tensor *x, const dt_tensor *like, void *to)
{
    const dt_tensor *cond = c->arg[COND];
    const dt__zip z = dt__zip_of(cond, x, like, to);
    c->kernels->put_where(&z, cond->dtype == DT_U8, above);
}

static void forward(const dt_call *c)
{
    put(c, true, c->arg[A], c->y, dt__data_mut(c->y));
    put(c, false, c->arg[B], c->y, dt__data_mut(c->y));
}

static size_t scratch(const dt_call *c)
{
    const dt_tensor *y = c->out[0];
    const bool broadcasts = !dt__same_dims(c->arg[A], y) || !dt__same_dims(c->arg[B], y);
    return broadcasts ? dt__bytes_of(y) : 0;
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    for (int i = A; i <= B; i++) {
        if (dx[i] == NULL) continue;
        void *to = dt__binary_target(c, dy, dx[i]);
        c->kernels->fill(dy->count, 0, to);
        put(c, i == A, dy, dy, to);
        dt__binary_finish(c, dy, dx[i]);
    }
}

const dt_op dt__op_where = {
    .name = "where",
    .text = "y = a where cond > 0, else b, broadcasting",
    .in_name = { "cond", "a", "b" },
    .out_name = { "y" },
    .undifferentiable = { true },
    .strided = true,
    .saves = { .arg = { DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .scratch = scratch,
};

dt_tensor *dt_where(dt_tape *t, dt_tensor *cond, dt_tensor *a, dt_tensor *b)
{
    return dt_apply(t, &dt__op_where, DT__CALL(cond, a, b));
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
    { "all broadcast", .in = { { { 3, 1 } }, { { 2, 1, 4 } }, { .r = DT__SCALAR } } },
    { "a condition over all", .in = { { { 2, 3, 4 } }, { { 4 } }, { { 3, 1 } } } },
    { "bytes",
      .in = { { { 2, 1 }, .dtype = DT_U8, .given = true, .values = { 0, 3 } },
              { { 2 }, .given = true, .values = { 1, 2 } },
              { { 2 }, .given = true, .values = { 5, 6 } } },
      .n_y = 4, .y = { 5, 6, 1, 2 } },
    { "long", .in = { { { 40003 } }, { { 40003 } }, { { 1 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 0, 3 } }, { { 1 } } } },
    { "misfit", .in = { { { 2, 3 } }, { { 2 } }, { { 1 } } }, .fails = DT_ERR_SHAPE,
      .says = "broadcast" },
    { "misfit of the values", .in = { { { 1 } }, { { 2 } }, { { 3 } } }, .fails = DT_ERR_SHAPE },
    { "integers", .in = { { { 3 } }, { { 3 } }, { { 3 }, .dtype = DT_I32 } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(where, cases)
