/* Batched matrix product.      y = a b      da = dy b^T, db = a^T dy, summed over broadcast batch
 * dimensions */
#include "autograd/op.h"
#include "core/threads.h"
#include "ops/ops_list.h"

static int64_t extent(const dt_tensor *x, int from_end) { return x->dims[x->rank - from_end]; }

/* The batch dimensions of y, and the strides of each operand along them, in matrices. */
typedef struct batch {
    int rank;
    int64_t dims[DT_MAX_RANK], count;
    int64_t step[3][DT_MAX_RANK]; /* a, b, y; 0 where broadcast */
} batch;

static batch batch_of(const dt_tensor *a, const dt_tensor *b, const dt_tensor *y)
{
    const dt_tensor *x[3] = { a, b, y };
    batch out = { .rank = y->rank - 2, .count = 1 };
    for (int d = 0; d < out.rank; d++) {
        out.dims[d] = y->dims[d];
        out.count *= y->dims[d];
    }
    for (int i = 0; i < 3; i++) {
        int64_t step = 1;
        for (int d = out.rank - 1; d >= 0; d--) {
            const int at = d - (y->rank - x[i]->rank);
            if (at < 0 || x[i]->dims[at] == 1) continue;
            out.step[i][d] = step;
            step *= x[i]->dims[at];
        }
    }
    return out;
}

/* The products that make up a result, in order. */
typedef struct job {
    batch all;
    dt__gemm g;   /* the first product */
    int which[3]; /* indices into batch.step for g's a, b, c */
    size_t size;  /* of an element */
} job;

/* Whether threads share the batch: if each product is a single tile, and results are not summed.
 * Otherwise threads share the tiles of each product. */
static bool shares_batch(const dt_call *c, const job *j)
{
    const batch *all = &j->all;
    const dt__gemm *g = &j->g;
    for (int d = 0; d < all->rank; d++) {
        if (all->step[j->which[2]][d] == 0 && all->dims[d] > 1) return false;
    }
    return all->count > 1 && all->count * g->m * g->n * g->k > DT__CHUNK &&
           dt__gemm_grid_of(g, dt_threads(c->ctx)).tiles == 1;
}

/* Workspace of a single product on one thread. */
static size_t room_of(const job *j) { return dt__gemm_scratch(&j->g, j->size, 1); }

static size_t scratch_of(const dt_call *c, const job *j)
{
    const int threads = dt_threads(c->ctx);
    return shares_batch(c, j) ? room_of(j) * (size_t)threads
                              : dt__gemm_scratch(&j->g, j->size, threads);
}

/* Computes the i-th product. If the result is broadcast, the products of a matrix are summed in
 * order. */
static void product(const dt_call *c, const job *j, int64_t i, void *room)
{
    const batch *all = &j->all;
    dt__gemm g = j->g;
    int64_t at[3] = { 0 }, rest = i;
    bool first = true;
    for (int d = all->rank - 1; d >= 0; d--) {
        const int64_t index = rest % all->dims[d];
        rest /= all->dims[d];
        for (int k = 0; k < 3; k++) at[k] += index * all->step[j->which[k]][d];
        if (all->step[j->which[2]][d] == 0 && index > 0) first = false;
    }
    g.a = (const char *)g.a + (size_t)(at[0] * g.m * g.k) * j->size;
    g.b = (const char *)g.b + (size_t)(at[1] * g.k * g.n) * j->size;
    g.c = (char *)g.c + (size_t)(at[2] * g.m * g.n) * j->size;
    g.accumulate = !first;
    g.scratch = room;
    dt__multiply(c, &g);
}

typedef struct work {
    const dt_call *c;
    const job *j;
    size_t room; /* bytes per thread */
} work;

static void share(const void *args, const dt__share *s)
{
    const work *w = args;
    char *room = (char *)w->c->scratch + w->room * (size_t)s->thread;
    for (int64_t i = s->first; i < s->past; i++) product(w->c, w->j, i, room);
}

static void products(const dt_call *c, job *j)
{
    const dt__gemm *g = &j->g;
    if (shares_batch(c, j)) {
        j->g.alone = true;
        const int64_t elements = g->m * g->k + g->k * g->n + g->m * g->n;
        const work w = { c, j, room_of(j) };
        dt__parallel(j->all.count, elements + g->m * g->n * g->k / 16, share, &w);
        return;
    }
    for (int64_t i = 0; i < j->all.count; i++) product(c, j, i, c->scratch);
}

/* y = a b; the operands are set when it runs. */
static job forward_job(const dt_tensor *a, const dt_tensor *b, const dt_tensor *y)
{
    const int64_t m = extent(a, 2), k = extent(a, 1), n = extent(b, 1);
    const dt__gemm g = { .m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n };
    return (job){ batch_of(a, b, y), g, { 0, 1, 2 }, dt_dtype_size(a->dtype) };
}

/* da = dy b^T */
static job job_a(const dt_tensor *a, const dt_tensor *b, const dt_tensor *y)
{
    const int64_t m = extent(a, 2), k = extent(a, 1), n = extent(b, 1);
    const dt__gemm g = { .trans_b = true, .m = m, .n = k, .k = n, .lda = n, .ldb = n, .ldc = k };
    return (job){ batch_of(a, b, y), g, { 2, 1, 0 }, dt_dtype_size(a->dtype) };
}

/* db = a^T dy */
static job job_b(const dt_tensor *a, const dt_tensor *b, const dt_tensor *y)
{
    const int64_t m = extent(a, 2), k = extent(a, 1), n = extent(b, 1);
    const dt__gemm g = { .trans_a = true, .m = k, .n = n, .k = m, .lda = k, .ldb = n, .ldc = n };
    return (job){ batch_of(a, b, y), g, { 0, 2, 1 }, dt_dtype_size(a->dtype) };
}

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 2, 2));
    for (int i = 0; i < 2; i++) {
        DT__TRY(dt__want_float(c, i));
        DT__TRY(dt__want_rank(c, i, 2, DT_MAX_RANK));
    }
    const dt_tensor *a = c->in[0], *b = c->in[1];
    if (extent(a, 1) != extent(b, 2)) {
        return dt_refuse(c, DT_ERR_SHAPE, "a has %lld columns, b has %lld rows",
                         (long long)extent(a, 1), (long long)extent(b, 2));
    }
    const int rank = a->rank > b->rank ? a->rank : b->rank;
    int64_t dims[DT_MAX_RANK];
    DT__TRY(dt__broadcast_batch(c, 0, 1, 2, dims));
    dims[rank - 2] = extent(a, 2);
    dims[rank - 1] = extent(b, 1);
    DT__TRY(dt_result(c, 0, a->dtype, rank, dims));
    const job j = forward_job(a, b, c->y);
    c->scratch_bytes = scratch_of(c, &j);
    return DT_OK;
}

static size_t backward_scratch(const dt_call *c)
{
    const job a = job_a(c->arg[0], c->arg[1], c->y), b = job_b(c->arg[0], c->arg[1], c->y);
    const size_t of_a = scratch_of(c, &a), of_b = scratch_of(c, &b);
    return of_a > of_b ? of_a : of_b;
}

static void forward(const dt_call *c)
{
    job j = forward_job(c->arg[0], c->arg[1], c->y);
    j.g.a = dt__data(c->arg[0]);
    j.g.b = dt__data(c->arg[1]);
    j.g.c = dt__data_mut(c->y);
    products(c, &j);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt_tensor *a = c->arg[0], *b = c->arg[1];
    job of_a = job_a(a, b, dy), of_b = job_b(a, b, dy);
    for (int i = 0; i < 2 && of_a.all.count == 0; i++) {
        if (dx[i] != NULL) c->kernels->fill(dx[i]->count, 0, dt__data_mut(dx[i]));
    }
    if (dx[0] != NULL) {
        of_a.g.a = dt__data(dy);
        of_a.g.b = dt__data(b);
        of_a.g.c = dt__data_mut(dx[0]);
        products(c, &of_a);
    }
    if (dx[1] != NULL) {
        of_b.g.a = dt__data(a);
        of_b.g.b = dt__data(dy);
        of_b.g.c = dt__data_mut(dx[1]);
        products(c, &of_b);
    }
}

static dt_precision precision(const dt_call *c, int i) { return (void)c, (void)i, DT_ROUNDED; }

const dt_op dt__op_matmul = {
    .name = "matmul",
    .text = "y = a b of matrices; batch dimensions broadcast",
    .in_name = { "a", "b" },
    .out_name = { "y" },
    .saves = { .arg = { DT_VALUE, DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .precision = precision,
    .scratch = backward_scratch,
};

dt_tensor *dt_matmul(dt_tape *t, dt_tensor *a, dt_tensor *b)
{
    return dt_apply(t, &dt__op_matmul, DT__CALL(a, b));
}

static const dt__case cases[] = {
    { "values",
      .in = { { { 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } },
              { { 2, 1 }, .given = true, .values = { 5, -1 } } },
      .n_y = 2, .y = { 3, 11 } },
    { "odd", .in = { { { 7, 13 } }, { { 13, 5 } } } },
    { "batches", .in = { { { 2, 3, 4 } }, { { 2, 4, 5 } } } },
    { "batches of two dimensions", .in = { { { 2, 3, 2, 4 } }, { { 2, 3, 4, 2 } } } },
    { "broadcast batches", .in = { { { 2, 1, 3, 4 } }, { { 5, 4, 2 } } } },
    { "one for all", .in = { { { 3, 4 } }, { { 2, 3, 4, 2 } } } },
    { "many", .in = { { { 12, 24, 20 } }, { { 12, 20, 28 } } }, .rough = true },
    { "large", .in = { { { 150, 130 } }, { { 130, 170 } } }, .rough = true },
    { "inner 0", .in = { { { 2, 0 }, 2 }, { { 0, 3 } } } },
    { "no batches", .in = { { { 0, 2, 3 } }, { { 3, 4 } } } },
    { "inner", .in = { { { 2, 3 } }, { { 4, 2 } } }, .fails = DT_ERR_SHAPE,
      .says = "a has 3 columns, b has 4 rows" },
    { "batch", .in = { { { 2, 2, 3 } }, { { 3, 3, 2 } } }, .fails = DT_ERR_SHAPE,
      .says = "broadcast" },
    { "rank", .in = { { { 3 } }, { { 3, 2 } } }, .fails = DT_ERR_SHAPE, .says = "rank 1" },
    { "integers", .in = { { { 2, 3 }, .dtype = DT_I32 }, { { 3, 2 } } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(matmul, cases)
