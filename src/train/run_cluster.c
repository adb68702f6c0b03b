/* The other ranks of a run: joining them, what must agree, work of rank 0 alone, and the weights of
 * all. Files are written by rank 0; the others read what it wrote, so run.dir must be a folder that
 * all of them see. */
#include "cluster/cluster.h"

#include "autograd/kind.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "kernels/machine.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include "train/shards.h"

#include <detent/detent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

enum { DT__FLAG_STOP = 1, DT__FLAG_SAVE = 2 };

bool dt__run_writes(const dt__run *r) { return dt__cluster_rank(r->cluster) == 0; }

bool dt__run_wants_to_stop(dt__run *r)
{
    return r->control.stop != NULL && r->control.stop(r->control.user);
}

int64_t dt__run_flags(dt__run *r)
{
    if (r->cluster == NULL) return 0;
    return (dt__run_wants_to_stop(r) ? DT__FLAG_STOP : 0) |
           (dt__run_is_late(r) ? DT__FLAG_SAVE : 0);
}

void dt__run_take_flags(dt__run *r, int rank, int64_t flags)
{
    if (flags & DT__FLAG_STOP) r->asked_to_stop = true;
    if (rank == 0) r->asked_to_save = (flags & DT__FLAG_SAVE) != 0;
}

/* ---- joining --------------------------------------------------------------------------------- */

static dt_status find_shards(dt__run *r)
{
    const int ranks = dt__cluster_ranks(r->cluster);
    if (r->o->train.shards == 0 && ranks > 1) r->recipe->options.train.shards = ranks;
    r->n_shards = dt__max_i64(1, r->o->train.shards);
    if (r->n_shards % ranks == 0) return DT_OK;
    return dt_recipe_refuse(r->recipe, "train.shards",
                            "'train.shards' is %lld, which %d ranks do not divide",
                            (long long)r->n_shards, ranks);
}

dt_status dt__run_join(dt__run *r)
{
    if (r->control.cluster && !r->control.dry_run) {
        DT__TRY(dt__cluster_open(r->ctx, r->o->cluster.timeout, &r->cluster));
    }
    r->summary->rank = dt__cluster_rank(r->cluster);
    r->summary->ranks = dt__cluster_ranks(r->cluster);
    if (r->cluster == NULL) return find_shards(r);
    if (dt__run_writes(r)) return DT_OK;
    r->control.progress = NULL;
    r->control.evaluated = NULL;
    r->log = r->ctx->log;
    r->ctx->log = NULL; /* rank 0 says what all would say */
    return DT_OK;
}

void dt__run_leave(dt__run *r, dt_status status)
{
    if (r->cluster == NULL) return;
    if (dt__cluster_has_ended(r->cluster)) r->together = true;
    r->summary->by_itself = status != DT_OK && !r->together;
    if (r->log != NULL) r->ctx->log = r->log;
    dt__cluster_close(r->cluster, !r->summary->by_itself);
    r->cluster = NULL;
    /* Launchers end all ranks as soon as one has failed: rank 0 says why before. */
    const struct timespec a_moment = { .tv_nsec = 200000000 };
    if (status != DT_OK && r->together && r->summary->rank > 0) nanosleep(&a_moment, NULL);
}

/* ---- what must agree ------------------------------------------------------------------------- */

/* What a rank says of itself before the run begins. */
typedef struct card {
    char version[32], kernels[32], processor[DT__PROCESSOR];
    uint64_t recipe, data;
    int64_t status, resume;
    char message[DT__MESSAGE_SIZE];
} card;

#define HASHED ((int64_t)64 << 20) /* bytes of examples that are all read; of more, some */

/* Adds examples without augmentation: all, or batches that are evenly spread. */
static dt_status hash_examples(const dt_dataset *d, uint64_t *h)
{
    dt_loader *l;
    dt_tensor *x, *target;
    const dt_loader_options o = { .batch_size = dt__min_i64(dt_dataset_count(d), 64) };
    DT__TRY(dt_loader_create(d, &o, &l));
    const int64_t n = dt_loader_batches(l), count[2] = { dt_dataset_count(d), n };
    *h = XXH3_64bits_withSeed(count, sizeof count, *h);
    int64_t step = 1;
    dt_status s = DT_OK;
    for (int64_t i = 0; i < n && s == DT_OK; i += step) {
        s = dt_loader_seek(l, (dt_position){ .batch = i });
        if (s == DT_OK) s = dt_loader_next(l, &x, &target);
        if (s != DT_OK) break;
        const size_t bytes = (size_t)x->count * dt_dtype_size(x->dtype);
        *h = XXH3_64bits_withSeed(dt_data(x), bytes, *h);
        *h = XXH3_64bits_withSeed(dt_data(target),
                                  (size_t)target->count * dt_dtype_size(target->dtype), *h);
        step = dt__max_i64(1, n * (int64_t)bytes / HASHED);
    }
    dt_loader_free(l);
    return s;
}

static dt_status hash_recipe(dt__run *r, uint64_t *hash)
{
    dt__chars t = { .ctx = r->ctx };
    const dt_status s = dt_recipe_json(r->recipe, dt__run_collect, &t);
    if (s == DT_OK) *hash = XXH3_64bits(t.bytes, t.used);
    dt__release(r->ctx, t.bytes);
    return s;
}

static dt_status hash_data(dt__run *r, uint64_t *hash)
{
    const dt_dataset *const sets[] = { r->train, r->validation, r->test };
    *hash = 0;
    for (int i = 0; i < DT__COUNT_OF(sets); i++) {
        if (sets[i] != NULL) DT__TRY(hash_examples(sets[i], hash));
    }
    return DT_OK;
}

static void fill(dt__run *r, dt_status status, card *c)
{
    *c = (card){ .resume = r->control.resume };
    snprintf(c->version, sizeof c->version, "%s", dt_version());
    snprintf(c->kernels, sizeof c->kernels, "%s", dt_kernels_name(r->ctx));
    dt__processor(c->processor);
    if (status == DT_OK) status = hash_recipe(r, &c->recipe);
    if (status == DT_OK) status = find_shards(r);
    if (status == DT_OK) status = hash_data(r, &c->data);
    c->status = status;
    if (status != DT_OK) snprintf(c->message, sizeof c->message, "%s", dt_error(r->ctx));
}

/* What differs between two ranks; NULL: nothing. */
static const char *difference(const card *a, const card *b)
{
    if (strcmp(a->version, b->version) != 0) return "another version of detent";
    if (strcmp(a->kernels, b->kernels) != 0) return "another instruction set";
    if (strcmp(a->processor, b->processor) != 0) return "another processor";
    if (a->resume != b->resume) return "another opinion of --resume";
    if (a->recipe != b->recipe) return "another recipe";
    return a->data != b->data ? "other data" : NULL;
}

static dt_status compare(dt__run *r, const card *cards)
{
    const int own = dt__cluster_rank(r->cluster);
    for (int k = 0; k < dt__cluster_ranks(r->cluster); k++) {
        const dt_status status = (dt_status)cards[k].status;
        if (status != DT_OK && k == own) return status; /* its own message */
        if (status != DT_OK) return dt_fail(r->ctx, status, "rank %d: %s", k, cards[k].message);
    }
    for (int k = 1; k < dt__cluster_ranks(r->cluster); k++) {
        const char *what = difference(&cards[0], &cards[k]);
        if (what == NULL) continue;
        return dt_fail(r->ctx, DT_ERR_STATE,
                       "rank %d has %s than rank 0 (%s, %s, %s; rank 0: %s, %s, %s): all ranks "
                       "must have the same",
                       k, what, cards[k].version, cards[k].kernels, cards[k].processor,
                       cards[0].version, cards[0].kernels, cards[0].processor);
    }
    return DT_OK;
}

dt_status dt__run_agree(dt__run *r, dt_status status)
{
    if (r->cluster == NULL) return status;
    card *cards = dt__alloc_array(r->ctx, dt__cluster_ranks(r->cluster) + 1, sizeof *cards);
    if (cards == NULL) return DT_ERR_NOMEM;
    card *own = &cards[dt__cluster_ranks(r->cluster)];
    fill(r, status, own);
    status = dt__cluster_gather(r->cluster, "what ranks have", own, sizeof *own, cards);
    if (status == DT_OK) {
        r->together = true;
        status = compare(r, cards);
        r->together = status != DT_OK;
    }
    dt__release(r->ctx, cards);
    return status;
}

/* ---- work of all, and of rank 0 -------------------------------------------------------------- */

static dt_status conclude(dt__run *r, dt_status status)
{
    return dt__cluster_meet(r->cluster, DT__LAST_MEETING, status);
}

dt_status dt__run_together(dt__run *r, dt_status (*work)(dt__run *r))
{
    return conclude(r, work(r));
}

dt_status dt__run_alone(dt__run *r, dt_status (*work)(dt__run *r))
{
    const bool shared = dt__optimizer_is_shared(r->optimizer);
    dt_status status = DT_OK;
    if (r->cluster == NULL) return work(r);
    if (dt__run_writes(r)) {
        status = work(r);
        if (shared) DT__TRY(dt__optimizer_release(r->cluster)); /* it may be freed by now */
    } else if (shared) {
        status = dt__optimizer_serve(r->optimizer);
    }
    return conclude(r, status);
}

dt_status dt__run_first_words(dt__run *r, char words[DT__MESSAGE_SIZE])
{
    const dt__shards *s = r->shards;
    if (s == NULL) return DT_OK;
    const int ranks = dt__cluster_ranks(r->cluster);
    char *all = dt__alloc_array(r->ctx, ranks, DT__MESSAGE_SIZE);
    if (all == NULL) return DT_ERR_NOMEM;
    const dt_status status = dt__cluster_gather(r->cluster, "the values that are not finite",
                                                s->words, DT__MESSAGE_SIZE, all);
    const char *first = all;
    while (first < all + (ranks - 1) * DT__MESSAGE_SIZE && *first == 0) first += DT__MESSAGE_SIZE;
    memcpy(words, first, DT__MESSAGE_SIZE);
    dt__release(r->ctx, all);
    return status;
}

/* ---- the optimizer --------------------------------------------------------------------------- */

#define SHARED_FROM ((int64_t)32 << 20) /* bytes of state that a rank would have alone */

/* With `auto`, where the state takes so much that memory and the time of the update count: results
 * are the same. */
static bool shares_optimizer(const dt__run *r, const dt_optimizer_options *o)
{
    int64_t elements = 0, n;
    const dt__param *params;
    const int choice = r->o->cluster.shard_optimizer;
    if (choice != DT_SHARD_AUTO) return choice == DT_SHARD_ON;
    if (dt__module_params(r->model, &params, &n) != DT_OK) return false;
    for (int64_t i = 0; i < n; i++) {
        if (dt_requires_grad(params[i].x)) elements += params[i].x->count;
    }
    return elements * dt__optimizer_states(o) * (int64_t)sizeof(float) >= SHARED_FROM;
}

dt_status dt__run_optimizer(dt__run *r)
{
    dt_optimizer_options o = r->o->train.optimizer;
    o.average = r->o->train.average.name != DT_AVERAGE_NONE;
    const bool shared = r->cluster != NULL && shares_optimizer(r, &o);
    const dt__optimizer_ranks ranks = { r->cluster, shared };
    return dt__optimizer_create_for(r->model, &o, &ranks, &r->optimizer);
}

/* ---- the weights of all ranks ---------------------------------------------------------------- */

static uint64_t hash_of(const dt_tensor *x)
{
    const dt__kind *kind = dt__kind_of(x);
    const dt_tensor *inner = kind->inner == NULL ? x : kind->inner((dt_tensor *)(uintptr_t)x);
    if (dt__data(inner) == NULL) return 0;
    return XXH3_64bits(dt__data(inner), (size_t)inner->count * dt_dtype_size(inner->dtype));
}

/* all: the hashes of each rank's n tensors. */
static dt_status compare_hashes(dt__run *r, const dt__param *params, int64_t n, const uint64_t *all)
{
    for (int k = 1; k < dt__cluster_ranks(r->cluster); k++) {
        for (int64_t i = 0; i < n; i++) {
            if (all[k * n + i] == all[i]) continue;
            r->together = true;
            return dt_fail(r->ctx, DT_ERR_STATE,
                           "step %lld: the weights of rank %d differ from those of rank 0, first "
                           "in %s: a machine computes wrongly, or differently; the newest "
                           "checkpoint is of an earlier step",
                           (long long)*dt__run_count(r, DT__COUNT_STEP), k, params[i].path);
        }
    }
    return DT_OK;
}

dt_status dt__run_compare_ranks(dt__run *r)
{
    const dt__param *params;
    int64_t n;
    const int64_t every = r->o->cluster.check_steps;
    if (r->cluster == NULL || every == 0) return DT_OK;
    if (*dt__run_count(r, DT__COUNT_STEP) % every != 0) return DT_OK;
    DT__TRY(dt__module_params(r->model, &params, &n));
    const int ranks = dt__cluster_ranks(r->cluster);
    uint64_t *all = dt__alloc_array(r->ctx, n * (ranks + 1), sizeof *all);
    if (all == NULL) return DT_ERR_NOMEM;
    uint64_t *own = all + n * ranks;
    for (int64_t i = 0; i < n; i++) own[i] = hash_of(params[i].x);
    dt_status s =
        dt__cluster_gather(r->cluster, "the hashes of weights", own, (size_t)n * sizeof *own, all);
    if (s == DT_OK) s = compare_hashes(r, params, n, all);
    dt__release(r->ctx, all);
    return s;
}
