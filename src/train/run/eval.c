/* Evaluation: runs a model over a dataset, in order, without gradients; task.h has the metrics. The
 * ranks of a cluster run alternate batches. Rank 0 adds up the examples of all ranks in order, so
 * that sums have the same bits as on one rank, and sends the metrics to the others. */
#include "core/ranks.h"
#include "core/clock.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "autograd/spread.h"
#include "nn/cache/cache.h"
#include "train/task/task.h"

#include <detent/ops.h>
#include <string.h>

dt_evaluation dt_evaluation_defaults(void) { return (dt_evaluation){ .batch_size = 256 }; }

typedef struct evaluation {
    const dt__evaluation *o;
    dt_ctx *ctx;
    int64_t examples, batches;
    int rank, ranks;
    dt_loader *loader;
    dt_tape *t;
    dt__cache cache;    /* key-value cache of the running text, unless options->cache is f32 */
    dt_tensor *outputs; /* NULL: not made yet */
    double seconds;     /* time in the model */
    int64_t told;       /* examples reported so far */
    dt__tally tally;
    dt__tensor_list *all; /* [ranks]: results from which metrics are computed */
    dt_status added;      /* status of adding them */
} evaluation;

/* ---- a batch -------------------------------------------------------------------------------- */

/* Copies the outputs for the latest examples into a tensor for the whole dataset. */
static dt_status keep(evaluation *e, const dt_tensor *y)
{
    if (e->o->wanted == DT__WANTS_METRICS) return DT_OK;
    if (e->outputs == NULL) {
        int64_t dims[DT_MAX_RANK];
        memcpy(dims, y->dims, sizeof dims);
        dims[0] = dt_dataset_count(e->o->d);
        DT__TRY(dt_tensor_create(e->ctx, DT_F32, y->rank, dims, &e->outputs));
    }
    const float *from = dt_data(y);
    float *to = dt_data_mut(e->outputs);
    if (from == NULL || to == NULL) return dt_error_status(e->ctx);
    const int64_t n = y->dims[0], each = y->count / n;
    memcpy(to + (e->tally.examples - n) * each, from, (size_t)y->count * sizeof *to);
    return DT_OK;
}

/* Empties the cache before the next pass, over text x. */
static void clear_cache(evaluation *e, const dt_tensor *x)
{
    if (e->t->cache == NULL) return;
    const int64_t n = x->dims[1];
    if (n > e->cache.capacity) dt__cache_free(e->ctx, &e->cache);
    e->cache.kind = e->o->options->cache;
    e->cache.capacity = dt__max_i64(e->cache.capacity, n);
    e->cache.text = n;
    e->cache.at = e->cache.length = 0;
}

/* Runs batch i. */
static dt_status run_batch(evaluation *e, int64_t i, dt_tensor **of)
{
    dt__pass p = { .t = e->t, .m = e->o->m, .d = e->o->d };
    dt_tape_reset(e->t);
    DT__TRY(dt_loader_seek(e->loader, (dt_position){ .batch = i }));
    DT__TRY(dt_loader_next(e->loader, &p.x, &p.target));
    memset(of, 0, DT__ANSWERS * sizeof(dt_tensor *));
    of[DT__ANSWER_TARGET] = p.target;
    const double before = dt__seconds();
    clear_cache(e, p.x);
    DT__TRY(e->tally.task->run(&p, of));
    e->seconds += dt__seconds() - before;
    if (e->o->wanted == DT__WANTS_OUTPUTS && e->tally.task->outputs != NULL) {
        clear_cache(e, p.x);
        of[DT__ANSWER_OUTPUT] = e->tally.task->outputs(&p);
    }
    for (int k = 0; k < DT__ANSWERS; k++) of[k] = dt_contiguous(e->t, of[k]);
    return dt_tape_status(e->t);
}

static dt_status add_batch(evaluation *e, dt_tensor *const *of)
{
    DT__TRY(e->tally.task->add(&e->tally, of));
    return keep(e, of[DT__ANSWER_OUTPUT] != NULL ? of[DT__ANSWER_OUTPUT] : of[DT__ANSWER]);
}

/* ---- all batches ---------------------------------------------------------------------------- */

/* Adds the batches of all ranks, on rank 0. */
static dt_status add_all(evaluation *e)
{
    for (int k = 0; k < e->ranks; k++) {
        if (e->all[k].n > 0) DT__TRY(add_batch(e, e->all[k].x));
    }
    return DT_OK;
}

/* Runs one batch per rank, from batch `first` on. */
static dt_status run_round(evaluation *e, int64_t first)
{
    dt_tensor *of[DT__ANSWERS];
    const bool mine = first + e->rank < e->batches;
    dt__tensor_post post = { .what = "the answers of a batch", .status = e->added };
    if (post.status == DT_OK) post.status = dt__spread_begin(e->ctx, e->o->m);
    if (post.status == DT_OK && mine) post.status = run_batch(e, first + e->rank, of);
    const dt_status served = dt__spread_end(e->ctx, DT_OK); /* also after an error: see below */
    if (post.status == DT_OK) post.status = served;
    post.given = (dt__tensor_list){ of, mine ? DT__ANSWERS : 0 };
    const dt_status status = dt__cluster_tensors(e->o->cluster, &post, e->all);
    if (status == DT_OK && e->rank == 0) e->added = add_all(e);
    dt__tensor_lists_free(e->o->cluster, e->all);
    return status;
}

/* Reports that `batches` batches are done. */
static void tell(evaluation *e, int64_t batches)
{
    const dt_evaluation *o = e->o->options;
    const int64_t done = batches < e->batches ? batches * o->batch_size : e->examples;
    if (e->o->plans) dt__did_work(e->ctx, DT__EVAL_FLOAT, (double)(done - e->told));
    e->told = done;
    if (o->progress != NULL) o->progress(o->user, done, e->examples);
}

#define FEW 10  /* with at most this many batches, some examples are run first */
#define TRIED 8 /* that many examples at most, and a tenth of all */

/* If a batch may take long, first runs a few examples to estimate the time. The very first one also
 * allocates and fills caches. */
static dt_status try_some(evaluation *e)
{
    const int64_t most = dt__min_i64(TRIED, e->examples / 10);
    dt_loader *const all = e->loader;
    dt_tensor *of[DT__ANSWERS];
    dt_status s = DT_OK;
    if (!e->o->plans || e->ctx->told == NULL || e->batches > FEW) return DT_OK;
    for (int64_t n = 1; n <= most && s == DT_OK; n += dt__max_i64(1, most - 1)) {
        const dt_loader_options some = { .batch_size = n };
        s = dt_loader_create(e->o->d, &some, &e->loader);
        if (s == DT_OK) dt__pass_work(e->ctx);
        if (s == DT_OK) s = run_batch(e, 0, of);
        if (s == DT_OK && n == most) dt__tried_work(e->ctx, DT__EVAL_FLOAT, (double)n);
        dt_loader_free(e->loader);
    }
    e->loader = all;
    e->seconds = 0;
    dt__pass_work(e->ctx);
    return s;
}

/* `status`: of opening the evaluation on this rank. */
static dt_status run(evaluation *e, dt_status status)
{
    e->all = dt__alloc_zero(e->ctx, (size_t)e->ranks * sizeof *e->all);
    e->added = status == DT_OK && e->all == NULL ? DT_ERR_NOMEM : status;
    DT__TRY(dt__cluster_meet(e->o->cluster, DT__MEETING, e->added));
    for (int64_t i = 0; i < e->batches; i += e->ranks) {
        DT__TRY(run_round(e, i));
        tell(e, i + e->ranks);
    }
    return dt__cluster_meet(e->o->cluster, DT__MEETING, e->added);
}

/* ---- metrics -------------------------------------------------------------------------------- */

typedef struct told {
    double value[DT_MAX_METRICS], loss, seconds;
    int64_t examples;
} told;

static dt_status put_metrics(evaluation *e, dt_metrics *m)
{
    DT__TRY(dt__cluster_meet(e->o->cluster, DT__MEETING, dt__tally_metrics(&e->tally, m)));
    told t = { .loss = m->loss, .seconds = e->seconds, .examples = m->examples };
    memcpy(t.value, m->value, sizeof t.value);
    DT__TRY(dt__cluster_tell(e->o->cluster, "metrics", &t, sizeof t));
    memcpy(m->value, t.value, sizeof t.value);
    m->loss = t.loss;
    m->examples = t.examples;
    dt__put_speed(m, e->o->d, t.seconds);
    return DT_OK;
}

static dt_status evaluate(evaluation *e, dt_metrics *metrics)
{
    const dt__evaluation *o = e->o;
    const dt_loader_options batches = { .batch_size = o->options->batch_size };
    *metrics = (dt_metrics){ 0 };
    if (dt_dataset_count(o->d) == 0) {
        return dt_fail(e->ctx, DT_ERR_ARG, "evaluate: the dataset is empty");
    }
    const bool was_training = dt_is_training(o->m);
    DT__TRY(dt__arrange(o->m, o->d));
    if (o->plans) dt__plan_work(e->ctx, DT__EVAL_FLOAT, (double)e->examples);
    dt_status status = dt__tally_open(e->ctx, o->d, &e->tally);
    e->tally.m = o->m;
    if (status == DT_OK) {
        status = dt__tally_add_own(&e->tally, "train.metrics", &o->options->metrics);
    }
    if (status == DT_OK) status = dt_loader_create(o->d, &batches, &e->loader);
    if (status == DT_OK) status = dt_tape_create(e->ctx, &e->t);
    if (status == DT_OK) {
        dt__loader_apart(e->loader, e->ranks);
        e->batches = dt__ceil_div(e->examples, o->options->batch_size);
        dt_no_grad(e->t, true);
        if (o->options->cache != DT_CACHE_F32) e->t->cache = &e->cache;
        dt_train(o->m, false);
        status = try_some(e);
    }
    status = run(e, status);
    dt_train(o->m, was_training);
    if (status == DT_OK) status = put_metrics(e, metrics);
    dt__tally_close(&e->tally);
    dt_tape_free(e->t);
    dt__cache_free(e->ctx, &e->cache);
    dt_loader_free(e->loader);
    dt__release(e->ctx, e->all);
    return status;
}

dt_status dt__evaluate(const dt__evaluation *o, dt_metrics *metrics, dt_tensor **out)
{
    evaluation e = { .o = o, .ctx = dt_module_ctx(o->m) };
    e.examples = o->examples > 0 ? o->examples : dt_dataset_count(o->d);
    e.rank = dt__cluster_rank(o->cluster);
    e.ranks = dt__cluster_ranks(o->cluster);
    if (out != NULL) *out = NULL;
    const dt_status status = evaluate(&e, metrics);
    if (status == DT_OK && out != NULL) *out = e.outputs;
    else dt_tensor_free(e.outputs);
    return status;
}

/* A cache holds one text, so the batch size becomes 1. */
static dt_status use_cache(dt_module *m, dt_evaluation *o)
{
    if (o->cache == DT_CACHE_F32) return DT_OK;
    o->batch_size = 1;
    if (m->type->language == NULL) {
        return dt_fail(m->ctx, DT_ERR_ARG, "evaluate: a %s has no cache; language models have",
                       m->type->name);
    }
    return dt__cache_check(m->ctx, "evaluate", o->cache);
}

dt_status dt_evaluate(dt_module *m, const dt_dataset *d, const dt_evaluation *options,
                      dt_metrics *metrics, dt_tensor **outputs)
{
    DT__NEED3(dt_module_ctx(m), m, d, metrics);
    dt_evaluation o = options == NULL ? dt_evaluation_defaults() : *options;
    DT__TRY(use_cache(m, &o));
    const dt__evaluation e = { .m = m,
                               .d = d,
                               .options = &o,
                               .plans = true,
                               .wanted = outputs == NULL ? DT__WANTS_METRICS : DT__WANTS_OUTPUTS };
    return dt__evaluate(&e, metrics, outputs);
}
