/* Sums over a layer's inputs, H = sum Xq Xq^T, G = sum Xq X^T and C = sum X X^T, in double.
 *
 * Samples are gathered into slices, [columns of all groups][samples of a slice]. A full slice is
 * added to the sums tile by tile, each tile by single-threaded BLAS. Slices are filled across
 * batches, and the layer's shape alone determines the tiles, so the sums have the same bits for any
 * batches and any number of threads. Only the lower triangles of H and C are summed. */
#include "ptq/statistics.h"

#include "core/ranks.h"
#include "ptq/rounding_cost.h"

#include "core/tensor.h"
#include "kernels/products/blas_library.h"
#include "kernels/kernels.h"

#include <string.h>

#define SLICE_ELEMENTS ((int64_t)1 << 21) /* about 16 MiB */
#define PADDING 8 /* avoids cache conflicts of strides that are powers of two */
#define FILLED 16 /* lines that a thread fills at once */

/* Samples of a slice: enough to make products fast and to update the sums rarely. */
static int64_t samples_of_slice(int64_t columns)
{
    const int64_t samples = SLICE_ELEMENTS / dt__max_i64(columns, 1) / 16 * 16;
    return dt__min_i64(1024, dt__max_i64(samples, 64));
}

/* Side of a tile: about eight tiles per side, so that threads share them evenly. */
static int64_t side_of(int64_t columns)
{
    return dt__min_i64(512, dt__max_i64(dt__round_up(dt__ceil_div(columns, 8), 16), 32));
}

/* ---- making and freeing --------------------------------------------------------------------- */

/* a * b; -1 where it overflows: every allocation fails with that. */
static int64_t product(int64_t a, int64_t b)
{
    int64_t out;
    return dt__product(2, (const int64_t[]){ a, b }, &out) ? out : -1;
}

static dt_status allocate(dt_statistics *s)
{
    dt_ctx *ctx = s->ctx;
    const int64_t groups = s->layer.groups, n = s->layer.columns, columns = product(groups, n);
    if (s->layer.op.kind == DT_WEIGHT_GROUPED_LINEAR) {
        s->expert = dt__alloc_zero(ctx, (size_t)groups * sizeof *s->expert);
        return s->expert == NULL ? DT_ERR_NOMEM : DT_OK;
    }
    const int64_t square = product(groups, product(n, n)),
                  packed = product(groups, product(n, n + 1));
    s->side = side_of(n);
    s->capacity = samples_of_slice(columns);
    s->stride = s->capacity + PADDING;
    s->moments = dt__alloc_array(ctx, groups, sizeof *s->moments);
    s->h = dt__alloc_array(ctx, square, sizeof *s->h);
    if (s->moments == NULL || s->h == NULL) return DT_ERR_NOMEM;
    memset(s->h, 0, (size_t)square * sizeof *s->h);
    if (!s->differ) return DT_OK;
    s->g = dt__alloc_array(ctx, square, sizeof *s->g);
    s->c = dt__alloc_array(ctx, packed / 2, sizeof *s->c);
    if (s->g == NULL || s->c == NULL) return DT_ERR_NOMEM;
    memset(s->g, 0, (size_t)square * sizeof *s->g);
    memset(s->c, 0, (size_t)(packed / 2) * sizeof *s->c);
    return DT_OK;
}

dt_status dt_statistics_create(dt_ctx *ctx, const dt_weight_op *op, int rank, const int64_t *dims,
                               bool differ, dt_statistics **out)
{
    DT__NEED2(ctx, ctx, op);
    if (rank > 0) DT__NEED(ctx, dims);
    DT__NEED(ctx, out);
    dt__unfolding layer;
    DT__TRY(dt__unfolding_of(ctx, op, rank, dims, &layer));
    DT__TRY(dt__kernels_open(ctx));
    DT__TRY(dt__blas_load(ctx));
    dt_statistics *s = dt__alloc_zero(ctx, sizeof *s);
    if (s == NULL) return DT_ERR_NOMEM;
    *s = (dt_statistics){ .ctx = ctx, .layer = layer, .differ = differ };
    const dt_status status = allocate(s);
    if (status != DT_OK) {
        dt_statistics_free(s);
        return status;
    }
    const int64_t n = layer.columns;
    for (int64_t g = 0; g < layer.groups && s->moments != NULL; g++) {
        s->moments[g] = (dt__moments){ .size = n,
                                       .h = s->h + g * n * n,
                                       .g = differ ? s->g + g * n * n : NULL,
                                       .c = differ ? s->c + g * (n * (n + 1) / 2) : NULL };
    }
    *out = s;
    return DT_OK;
}

/* Frees the buffers for adding samples; dt__statistics_moments calls it. */
static void free_buffers(dt_statistics *s)
{
    DT__RELEASE(s->ctx, s->slice[0], s->slice[1], s->tiles);
    s->slice[0] = s->slice[1] = s->tiles = NULL;
}

static dt_status make_buffers(dt_statistics *s)
{
    const int64_t columns = product(s->layer.groups, s->layer.columns), tile = s->side * s->side;
    if (s->slice[0] != NULL) return DT_OK;
    bool made = true;
    for (int i = 0; i < (s->differ ? 2 : 1); i++) {
        s->slice[i] = dt__alloc_array(s->ctx, product(columns, s->stride), sizeof *s->slice[i]);
        made = made && s->slice[i] != NULL;
    }
    if (s->differ) s->tiles = dt__alloc_array(s->ctx, s->ctx->threads * tile, sizeof *s->tiles);
    made = made && (s->tiles != NULL || !s->differ);
    if (!made) free_buffers(s);
    return made ? DT_OK : DT_ERR_NOMEM;
}

void dt_statistics_free(dt_statistics *s)
{
    if (s == NULL) return;
    dt_ctx *ctx = s->ctx;
    free_buffers(s);
    for (int64_t e = 0; s->expert != NULL && e < s->layer.groups; e++) {
        dt_statistics_free(s->expert[e]);
    }
    DT__RELEASE(ctx, s->expert, s->moments, s->h, s->g, s->c, s);
}

int64_t dt_statistics_samples(const dt_statistics *s) { return s == NULL ? 0 : s->samples; }

/* ---- sums ----------------------------------------------------------------------------------- */

/* A tile: rows i ... i+m-1 and columns j ... j+n-1 of a group's sums of a b^T. */
typedef struct tile {
    int64_t group, i, j, m, n;
    const double *a, *b; /* slices */
    double *to;
    int64_t ld;
    int thread; /* the thread that computes it */
} tile;

/* to = beta to + a b^T over the samples in the slices; only the lower triangle of a diagonal tile.
 * */
static void add_products(const dt_statistics *s, const tile *t, double beta)
{
    const int64_t line = t->group * s->layer.columns;
    const int m = (int)t->m, n = (int)t->n, k = (int)s->waiting, stride = (int)s->stride;
    const double *a = t->a + (line + t->i) * s->stride, *b = t->b + (line + t->j) * s->stride;
    if (a == b) {
        dt__blas.cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, m, k, 1, a, stride, beta,
                             t->to, (int)t->ld);
    } else {
        dt__blas.cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, a, stride, b,
                             stride, beta, t->to, (int)t->ld);
    }
}

static void add_square(const dt_statistics *s, tile *t, double *sums)
{
    t->ld = s->layer.columns;
    t->to = sums + t->i * t->ld + t->j;
    add_products(s, t, 1);
}

/* Adds a tile of C through a square buffer. */
static void add_packed(const dt_statistics *s, tile *t, double *packed)
{
    t->ld = s->side;
    t->to = s->tiles + t->thread * s->side * s->side;
    add_products(s, t, 0);
    for (int64_t r = 0; r < t->m; r++) {
        const int64_t i = t->i + r, n = dt__min_i64(t->n, i + 1 - t->j);
        double *c = packed + i * (i + 1) / 2 + t->j;
        for (int64_t k = 0; k < n; k++) c[k] += t->to[r * t->ld + k];
    }
}

static void add_tile(const dt_statistics *s, int which, tile *t)
{
    const dt__moments *m = &s->moments[t->group];
    t->a = s->slice[which == DT__OF_C];
    t->b = s->slice[which != DT__OF_H];
    if (which == DT__OF_G) add_square(s, t, m->g);
    else if (which == DT__OF_H) add_square(s, t, m->h);
    else add_packed(s, t, m->c);
}

/* Tiles of a triangle are numbered, and distributed by number. */
int dt__tile_owner(const dt_statistics *s, int which, int64_t i, int64_t j)
{
    const int64_t across = dt__ceil_div(s->layer.columns, s->side);
    if (which != DT__OF_G && i < j) return -1;
    const int64_t number = which == DT__OF_G ? i * across + j : i * (i + 1) / 2 + j;
    return (int)(number % dt__cluster_ranks(s->cluster));
}

DT__SHARE(empty, dt_statistics *s; int64_t n, across, each, kinds;)
{
    for (int64_t item = share->first; item < share->past; item++) {
        tile t = { .group = item / (a.kinds * a.each),
                   .i = item % a.each / a.across * a.s->side,
                   .j = item % a.across * a.s->side,
                   .thread = share->thread };
        t.m = dt__min_i64(a.s->side, a.n - t.i);
        t.n = dt__min_i64(a.s->side, a.n - t.j);
        const int which = (int)(item / a.each % a.kinds);
        const int owner = dt__tile_owner(a.s, which, t.i / a.s->side, t.j / a.s->side);
        if (owner == dt__cluster_rank(a.s->cluster)) add_tile(a.s, which, &t);
    }
}

/* Adds the samples in the slices to the sums. */
static void empty(dt_statistics *s)
{
    const int64_t n = s->layer.columns, across = dt__ceil_div(n, s->side);
    const int64_t each = across * across, kinds = s->differ ? 3 : 1;
    dt__parallel(s->layer.groups * kinds * each, DT__WORTH_A_THREAD, empty_share,
                 &(empty_args){ s, n, across, each, kinds });
    dt__did_work(s->ctx, DT__SUMS,
                 dt__sums_cost(s->layer.groups, n, s->differ, (double)s->waiting));
    s->waiting = 0;
    s->lower = true;
}

DT__EACH(mirror, item, int64_t n; double *h;)
{
    const int64_t i0 = item * FILLED;
    for (int64_t j = i0 + 1; j < a.n; j++) {
        const int64_t past = dt__min_i64(j, i0 + FILLED);
        for (int64_t i = i0; i < past; i++) a.h[i * a.n + j] = a.h[j * a.n + i];
    }
}

/* Copies the lower triangle to the upper one, in blocks of rows, one per thread. */
static void mirror(int64_t n, double *h)
{
    dt__parallel(dt__ceil_div(n, FILLED), FILLED * n, mirror_share, &(mirror_args){ n, h });
}

void dt__statistics_flush(dt_statistics *s)
{
    dt__team *const threads = dt__threads_enter(s->ctx);
    if (s->waiting > 0) empty(s);
    dt__threads_leave(threads);
}

dt__moments *dt__statistics_moments(dt_statistics *s)
{
    dt__statistics_flush(s);
    dt__team *const threads = dt__threads_enter(s->ctx);
    for (int64_t g = 0; s->lower && g < s->layer.groups; g++) {
        mirror(s->layer.columns, s->moments[g].h);
    }
    s->lower = false;
    dt__threads_leave(threads);
    free_buffers(s);
    return s->moments;
}

/* ---- batches -------------------------------------------------------------------------------- */

DT__EACH(fill, item, const dt_statistics *s; const dt__inputs *in; int64_t first, count, columns;
         double *slice;)
{
    const int64_t c = item * FILLED;
    const dt__patch part = { .r0 = c,
                             .r1 = dt__min_i64(c + FILLED, a.columns),
                             .c0 = a.first,
                             .c1 = a.first + a.count,
                             .y = a.slice + c * a.s->stride + a.s->waiting,
                             .ldy = a.s->stride };
    dt__inputs_unfold(a.in, &part);
}

/* Appends `count` samples from `first` on to the slice. */
static void fill(const dt_statistics *s, const dt__inputs *in, int64_t first, int64_t count,
                 double *slice)
{
    const int64_t columns = s->layer.groups * s->layer.columns;
    dt__parallel(dt__ceil_div(columns, FILLED), FILLED * count, fill_share,
                 &(fill_args){ s, in, first, count, columns, slice });
}

static dt_status check(const dt_statistics *s, const dt_tensor *x, const char *name,
                       dt__inputs *out)
{
    int64_t bad = -1;
    DT__TRY(dt__inputs_of(s->ctx, &s->layer, x, out));
    dt__kernels_of(s->ctx, DT_F32)->first_nonfinite(x->count, out->x, &bad);
    if (bad < 0) return DT_OK;
    return dt_fail(s->ctx, DT_ERR_NUMERIC, "statistics: element %lld of %s is %g", (long long)bad,
                   name, (double)out->x[bad]);
}

dt_status dt_statistics_add(dt_statistics *s, const dt_tensor *xq, const dt_tensor *x)
{
    DT__NEED(dt_ctx_of(xq), s);
    dt__inputs in[2];
    if (s->expert != NULL) {
        return dt_fail(s->ctx, DT_ERR_ARG,
                       "statistics: the inputs of a grouped weight require their routes");
    }
    if ((x != NULL) != s->differ) {
        return dt_fail(s->ctx, DT_ERR_ARG, "statistics: the float model's inputs were %s",
                       s->differ ? "announced, and are missing" : "not announced");
    }
    DT__TRY(check(s, xq, "the inputs", &in[0]));
    if (x != NULL) {
        DT__TRY(check(s, x, "the float model's inputs", &in[1]));
        if (!dt__same_dims(x, xq)) {
            char a[160], b[160];
            return dt_fail(s->ctx, DT_ERR_SHAPE, "statistics: inputs are %s, the float model's %s",
                           dt__dims_text(xq->rank, xq->dims, a, sizeof a),
                           dt__dims_text(x->rank, x->dims, b, sizeof b));
        }
    }
    DT__TRY(make_buffers(s));
    dt__team *const threads = dt__threads_enter(s->ctx);
    for (int64_t at = 0, n; at < in[0].samples; at += n) {
        n = dt__min_i64(s->capacity - s->waiting, in[0].samples - at);
        for (int i = 0; i < (s->differ ? 2 : 1); i++) fill(s, &in[i], at, n, s->slice[i]);
        s->waiting += n;
        if (s->waiting == s->capacity) empty(s);
    }
    dt__threads_leave(threads);
    s->samples += in[0].samples;
    for (int64_t g = 0; g < s->layer.groups; g++) s->moments[g].n = s->samples;
    return DT_OK;
}
