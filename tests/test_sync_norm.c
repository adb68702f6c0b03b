/* Batch norms over all shards of a batch (cluster.sync_norm), by the definition in double: results,
 * running statistics and gradients of shards are those of one batch norm of the whole batch. The
 * sums of shards are added here in another order and by other formulas than the run's. */
#include "testing.h"

#include "autograd/tape.h"

#include <detent/experimental/ops.h>

#include <math.h>
#include <string.h>

enum { CHANNELS = 3, SHARDS = 3, CALLS = 2, EXAMPLES = 10 };

static const int64_t first_of[SHARDS + 1] = { 0, 1, 5, EXAMPLES };

/* What the shards gave in an earlier pass: forward, then backward. */
typedef struct record {
    double count[SHARDS], sum[SHARDS][2 * CHANNELS];
} record;

typedef struct exchange {
    record call[CALLS];
    int shard, at;
    int calls; /* whose sums of all shards are known */
} exchange;

/* Of all values: sum and sum of squares from the moments of shards, and back. */
static void put_moments(const record *r, dt__norm_sums *s)
{
    for (int c = 0; c < CHANNELS; c++) {
        double n = 0, sum = 0, squares = 0;
        for (int i = 0; i < SHARDS; i++) {
            const double mean = r->sum[i][c];
            n += r->count[i];
            sum += r->count[i] * mean;
            squares += r->sum[i][CHANNELS + c] + r->count[i] * mean * mean;
        }
        s->all[c] = sum / n;
        s->all[CHANNELS + c] = squares - sum * sum / n;
        s->all_count = n;
    }
}

static void put_sums(const record *r, dt__norm_sums *s)
{
    s->all_count = 0;
    for (int i = 0; i < SHARDS; i++) s->all_count += r->count[i];
    for (int k = 0; k < 2 * CHANNELS; k++) {
        s->all[k] = 0;
        for (int i = 0; i < SHARDS; i++) s->all[k] += r->sum[i][k];
    }
}

static void add(void *user, dt__norm_sums *s)
{
    exchange *e = user;
    record *r = &e->call[e->at];
    ck_assert_int_eq(s->channels, CHANNELS);
    ck_assert_int_eq(s->backward, e->at == 1);
    r->count[e->shard] = s->count;
    memcpy(r->sum[e->shard], s->own, sizeof r->sum[0]);
    if (e->at < e->calls) {
        if (s->backward) put_sums(r, s);
        else put_moments(r, s);
    } else { /* the result is not used */
        memcpy(s->all, s->own, sizeof r->sum[0]);
        s->all_count = s->count;
    }
    ck_assert_mem_eq(s->own, r->sum[e->shard], sizeof r->sum[0]); /* they are apart */
    e->at++;
}

typedef struct norm {
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *x, *residual, *weight, *bias, *factor, *mean, *var;
    dt_tensor *y, *dy;
} norm;

static dt_tensor *make(dt_ctx *ctx, int rank, const int64_t *dims, uint32_t seed, double low)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F64, rank, dims, &x));
    double *v = dt_data_mut(x);
    for (int64_t i = 0; i < x->count; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = low + (double)(seed >> 8) / (1 << 24);
    }
    return x;
}

/* Examples first ... past-1 of the batch. */
static norm open(dt_ctx *ctx, int64_t inner, int64_t first, int64_t past)
{
    const int64_t whole[3] = { EXAMPLES, CHANNELS, inner }, c = CHANNELS;
    const int rank = inner > 1 ? 3 : 2;
    norm n = { .ctx = ctx,
               .weight = make(ctx, 1, &c, 1, 0.5),
               .bias = make(ctx, 1, &c, 2, -0.5),
               .factor = make(ctx, 1, &c, 3, 0.5),
               .mean = make(ctx, 1, &c, 4, -0.5),
               .var = make(ctx, 1, &c, 5, 0.5) };
    dt_tensor *const all[3] = { make(ctx, rank, whole, 6, 3), make(ctx, rank, whole, 7, -0.5),
                                make(ctx, rank, whole, 8, -0.5) };
    dt_tensor **const part[3] = { &n.x, &n.residual, &n.dy };
    TEST_OK(ctx, dt_tape_create(ctx, &n.t));
    for (int i = 0; i < 3; i++) {
        dt_tensor *view;
        TEST_OK(ctx, dt_tensor_narrow(all[i], 0, first, past - first, &view));
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F64, rank, view->dims, part[i]));
        memcpy(dt_data_mut(*part[i]), dt_data(view), (size_t)view->count * sizeof(double));
        dt_tensor_free(view);
        dt_tensor_free(all[i]);
    }
    dt_tensor *const trained[] = { n.x, n.residual, n.weight, n.bias, n.factor };
    for (int i = 0; i < 5; i++) TEST_OK(ctx, dt_set_requires_grad(trained[i], true));
    return n;
}

static void run(norm *n, bool relu)
{
    dt_batch_norm_options o = dt_batch_norm_defaults();
    const dt_batch_norm_operands operands = { n->weight, n->bias,     n->mean,
                                              n->var,    n->residual, n->factor };
    if (relu) o.activation = DT_ACT_RELU;
    dt_tensor *y = dt_batch_norm1d(n->t, n->x, &operands, &o);
    TEST_OK(n->ctx, dt_tape_status(n->t));
    TEST_OK(n->ctx, dt_alias(y, &n->y));
    TEST_OK(n->ctx, dt_backward(n->t, y, n->dy));
}

static void close_norm(norm *n)
{
    dt_tensor *const all[] = { n->x,    n->residual, n->weight, n->bias, n->factor,
                               n->mean, n->var,      n->y,      n->dy };
    dt_tape_free(n->t);
    for (int i = 0; i < 9; i++) dt_tensor_free(all[i]);
}

/* The gradients and the running statistics of a shard, added to what is wanted in the end. */
static void compare_shard(const norm *whole, const norm *n, int64_t first)
{
    const dt_tensor *const pairs[][2] = { { whole->y, n->y },
                                          { dt_grad(whole->x), dt_grad(n->x) },
                                          { dt_grad(whole->residual), dt_grad(n->residual) },
                                          { whole->mean, n->mean },
                                          { whole->var, n->var } };
    const int64_t at = first * (whole->x->count / EXAMPLES);
    for (int i = 0; i < 5; i++) {
        const double *wanted = (const double *)dt_data(pairs[i][0]) + (i < 3 ? at : 0);
        const double *got = dt_data(pairs[i][1]);
        for (int64_t k = 0; k < pairs[i][1]->count; k++) {
            ck_assert_msg(fabs(got[k] - wanted[k]) <= 1e-13 * (1 + fabs(wanted[k])),
                          "tensor %d, element %lld: %.17g, wanted %.17g", i, (long long)k, got[k],
                          wanted[k]);
        }
    }
}

static void compare_sums(const norm *whole, const norm n[SHARDS])
{
    for (int c = 0; c < CHANNELS; c++) {
        double sum[3] = { 0 };
        for (int i = 0; i < SHARDS; i++) {
            const dt_tensor *const of[3] = { n[i].weight, n[i].bias, n[i].factor };
            for (int k = 0; k < 3; k++) sum[k] += ((const double *)dt_data(dt_grad(of[k])))[c];
        }
        const dt_tensor *const of[3] = { whole->weight, whole->bias, whole->factor };
        for (int k = 0; k < 3; k++) {
            const double wanted = ((const double *)dt_data(dt_grad(of[k])))[c];
            ck_assert_msg(fabs(sum[k] - wanted) <= 1e-12 * (1 + fabs(wanted)),
                          "gradient %d of channel %d: %.17g, wanted %.17g", k, c, sum[k], wanted);
        }
    }
}

/* _i: planes or points, with relu or without. A shard of one example has one value a channel. */
START_TEST(shards_give_what_the_whole_batch_gives)
{
    dt_ctx *ctx;
    const int64_t inner = _i % 2 ? 4 : 1;
    const bool relu = _i >= 2;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    norm whole = open(ctx, inner, 0, EXAMPLES), n[SHARDS];
    exchange e = { .calls = 0 };
    run(&whole, relu);
    for (e.calls = 0; e.calls <= CALLS; e.calls++) {
        for (e.shard = 0; e.shard < SHARDS; e.shard++) {
            norm *of = &n[e.shard];
            *of = open(ctx, inner, first_of[e.shard], first_of[e.shard + 1]);
            of->t->add_norms = add;
            of->t->add_norms_user = &e;
            e.at = 0;
            run(of, relu);
            ck_assert_int_eq(e.at, CALLS);
            if (e.calls < CALLS) close_norm(of);
        }
    }
    for (int i = 0; i < SHARDS; i++) compare_shard(&whole, &n[i], first_of[i]);
    compare_sums(&whole, n);
    for (int i = 0; i < SHARDS; i++) close_norm(&n[i]);
    close_norm(&whole);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_sync_norm_suite(void)
{
    Suite *s = suite_create("sync_norm");
    TCase *t = tcase_create("sync_norm");
    tcase_add_loop_test(t, shards_give_what_the_whole_batch_gives, 0, 4);
    suite_add_tcase(s, t);
    return s;
}
