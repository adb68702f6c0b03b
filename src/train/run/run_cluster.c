/* The other ranks of a run: joining them, work of all ranks and of rank 0 alone, and comparison of
 * weights. Only rank 0 writes files, which others read, so run.dir must be a folder that all ranks
 * share. */
#include "core/ranks.h"

#include "autograd/kind.h"
#include "core/tensor.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include "train/shards/agree.h"
#include "train/shards/shards.h"
#include "autograd/spread.h"

#include <detent/experimental/detent.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

enum { DT__FLAG_STOP = 1, DT__FLAG_SAVE = 2 };

bool dt__run_writes(const dt__run *r) { return dt__cluster_rank(r->ranks.cluster) == 0; }

bool dt__run_wants_to_stop(dt__run *r)
{
    return r->control.stop != NULL && r->control.stop(r->control.user);
}

int64_t dt__run_flags(dt__run *r)
{
    if (r->ranks.cluster == NULL) return 0;
    return (dt__run_wants_to_stop(r) ? DT__FLAG_STOP : 0) |
           (dt__run_is_late(r) ? DT__FLAG_SAVE : 0);
}

void dt__run_take_flags(dt__run *r, int rank, int64_t flags)
{
    if (flags & DT__FLAG_STOP) r->ranks.asked_to_stop = true;
    if (rank == 0) r->ranks.asked_to_save = (flags & DT__FLAG_SAVE) != 0;
}

/* ---- joining --------------------------------------------------------------------------------- */

static dt_status find_shards(dt__run *r)
{
    const int ranks = dt__cluster_ranks(r->ranks.cluster);
    if (r->o->train.shards == 0 && ranks > 1) r->recipe->options.train.shards = ranks;
    r->ranks.n_shards = dt__max_i64(1, r->o->train.shards);
    if (r->ranks.n_shards % ranks == 0) return DT_OK;
    return dt_recipe_refuse(r->recipe, "train.shards",
                            "'train.shards' is %lld, which %d ranks do not divide",
                            (long long)r->ranks.n_shards, ranks);
}

dt_status dt__run_join(dt__run *r)
{
    if (r->control.cluster && !r->control.dry_run) {
        DT__TRY(dt__cluster_open(r->ctx, r->o->cluster.timeout, &r->ranks.cluster));
    }
    r->summary->rank = dt__cluster_rank(r->ranks.cluster);
    r->summary->ranks = dt__cluster_ranks(r->ranks.cluster);
    if (r->ranks.cluster == NULL) return find_shards(r);
    r->ranks.log = r->ctx->log;
    if (dt__run_writes(r)) {
        dt__say(r->ctx, "%d ranks, which %s", r->summary->ranks,
                r->ranks.cluster->intranode ? "read each other's memory"
                                            : "exchange messages of MPI");
        return DT_OK;
    }
    r->control.progress = NULL;
    r->control.evaluated = NULL;
    r->ctx->log = NULL; /* only rank 0 logs, as all would log the same */
    return DT_OK;
}

void dt__run_leave(dt__run *r, dt_status status)
{
    if (r->ranks.cluster == NULL) return;
    if (dt__cluster_has_ended(r->ranks.cluster)) r->ranks.together = true;
    r->summary->by_itself = status != DT_OK && !r->ranks.together;
    r->ctx->log = r->ranks.log;
    dt__cluster_close(r->ranks.cluster, !r->summary->by_itself);
    r->ranks.cluster = NULL;
    /* launchers end all ranks when one has failed, with its status: rank 0 should be the first,
     * even on a busy machine */
    const struct timespec a_moment = { .tv_sec = 2 };
    if (status != DT_OK && r->ranks.together && r->summary->rank > 0) nanosleep(&a_moment, NULL);
}

dt_status dt__run_agree(dt__run *r, dt_status status)
{
    if (r->ranks.cluster == NULL) return status;
    if (status == DT_OK) status = find_shards(r);
    const dt__agreement a = { .cluster = r->ranks.cluster,
                              .recipe = r->recipe,
                              .data = { r->data.train, r->data.validation, r->data.test },
                              .resume = r->control.resume };
    return dt__agree(&a, status);
}

/* ---- work of all, and of rank 0 -------------------------------------------------------------- */

static dt_status conclude(dt__run *r, dt_status status)
{
    return dt__cluster_meet(r->ranks.cluster, DT__LAST_MEETING, status);
}

dt_status dt__run_together(dt__run *r, dt_status (*work)(dt__run *r))
{
    return conclude(r, work(r));
}

dt_status dt__run_alone(dt__run *r, dt_status (*work)(dt__run *r))
{
    const bool parts = dt__optimizer_has_parts(r->stage.optimizer);
    dt_status status = DT_OK;
    if (r->ranks.cluster == NULL) return work(r);
    const dt__optimizer_hooks *hooks = r->ranks.cluster->hooks->optimizer;
    if (dt__run_writes(r)) {
        status = work(r);
        if (parts) DT__TRY(hooks->release(r->ranks.cluster)); /* it may be freed now */
    } else if (parts) {
        status = hooks->serve(r->stage.optimizer);
    }
    return conclude(r, status);
}

dt_status dt__run_first_words(dt__run *r, char words[DT__MESSAGE_SIZE])
{
    const dt__shards *s = r->ranks.shards;
    if (s == NULL) return DT_OK;
    const int ranks = dt__cluster_ranks(r->ranks.cluster);
    char *all = dt__alloc_array(r->ctx, ranks, DT__MESSAGE_SIZE);
    if (all == NULL) return DT_ERR_NOMEM;
    const dt_status status = dt__cluster_gather(r->ranks.cluster, "the values that are not finite",
                                                s->words, DT__MESSAGE_SIZE, all);
    const char *first = all;
    while (first < all + (ranks - 1) * DT__MESSAGE_SIZE && *first == 0) first += DT__MESSAGE_SIZE;
    memcpy(words, first, DT__MESSAGE_SIZE);
    dt__release(r->ctx, all);
    return status;
}

/* ---- experts --------------------------------------------------------------------------------- */

static dt_status fetch(void *run, const dt_tensor *x, const int64_t part[2], void *to)
{
    const dt__run *r = run;
    return r->ranks.cluster->hooks->optimizer->fetch_tensor(r->stage.optimizer, x, part, to);
}

dt_status dt__run_open_spread(dt__run *r)
{
    if (r->ranks.cluster == NULL || r->o->cluster.experts != DT_EXPERTS_SPREAD) return DT_OK;
    const dt__fetching fetching = { fetch, r };
    return r->ranks.cluster->hooks->experts->open(r->ctx, r->ranks.cluster, &fetching);
}

dt_status dt__run_check_spread(dt__run *r)
{
    int64_t fewest = 0;
    const int ranks = dt__cluster_ranks(r->ranks.cluster);
    if (r->o->cluster.experts != DT_EXPERTS_SPREAD) return DT_OK;
    DT__EACH_MODULE(m, r->stage.model) {
        if (m->type != &dt__nn_grouped_linear) continue;
        const int64_t experts = dt__entry_find(m, "weight")->x->dims[0];
        if (fewest == 0 || experts < fewest) fewest = experts;
    }
    if (fewest == 0) {
        return dt_recipe_refuse(r->recipe, "cluster.experts",
                                "'cluster.experts: spread' requires a model with mixtures of "
                                "experts, which this one lacks");
    }
    if (dt__packs(&r->o->model)) {
        return dt_recipe_refuse(r->recipe, "cluster.experts",
                                "'cluster.experts: spread' does not go with 'model.pack', whose "
                                "weights are packed on every rank");
    }
    if (r->o->cluster.sync_norm) {
        return dt_recipe_refuse(r->recipe, "cluster.experts",
                                "'cluster.experts: spread' does not go with 'cluster.sync_norm', "
                                "by which shards run in step");
    }
    if (fewest >= ranks) return DT_OK;
    return dt_recipe_refuse(r->recipe, "cluster.experts",
                            "'cluster.experts: spread' gives each of %d ranks an expert, but a "
                            "mixture has %lld",
                            ranks, (long long)fewest);
}

dt_status dt__run_cut_experts(dt__run *r) { return dt__spread_cut(r->ctx, r->stage.model); }

dt_status dt__run_join_experts(dt__run *r)
{
    if (r->ctx->spread == NULL) return DT_OK;
    dt_tape_reset(r->stage.tape);
    return dt__spread_join(r->ctx, r->stage.model);
}

dt_status dt__run_end_spread(dt__run *r)
{
    if (r->ctx->spread == NULL) return DT_OK;
    dt_zero_grad(r->stage.model);
    dt__shards_close(r);
    dt_optimizer_free(r->stage.optimizer);
    r->stage.optimizer = r->stage.state.optimizer = NULL;
    return dt__run_join_experts(r);
}

/* ---- the optimizer --------------------------------------------------------------------------- */

#define SHARED_FROM ((int64_t)32 << 20) /* bytes of state on one rank from which it is sharded */

/* With `auto`: whether the state is so large that sharding saves memory and time; results are the
 * same. */
static bool shares_optimizer(const dt__run *r, const dt_optimizer_options *o)
{
    int64_t elements = 0, n;
    const dt__param *params;
    const int choice = r->o->cluster.shard_optimizer;
    if (choice != DT_SHARD_AUTO) return choice == DT_SHARD_ON;
    if (dt__module_params(r->stage.model, &params, &n) != DT_OK) return false;
    for (int64_t i = 0; i < n; i++) {
        if (dt__is_spread(params[i].x)) continue;
        if (dt_requires_grad(params[i].x)) elements += params[i].x->count;
    }
    return elements * dt__optimizer_states(r->ctx, o) * (int64_t)sizeof(float) >= SHARED_FROM;
}

dt_status dt__run_optimizer(dt__run *r)
{
    dt_optimizer_options o = r->o->train.optimizer;
    o.average = r->o->train.average.name != DT_AVERAGE_NONE;
    const bool shared = r->ranks.cluster != NULL && shares_optimizer(r, &o);
    const dt__optimizer_ranks ranks = { r->ranks.cluster, shared };
    return dt__optimizer_create_for(r->stage.model, &o, &ranks, &r->stage.optimizer);
}

/* ---- the weights of all ranks ---------------------------------------------------------------- */

static uint64_t hash_of(const dt_tensor *x)
{
    const dt__kind *kind = dt__kind_of(x);
    if (dt__is_spread(x)) return 0; /* other ranks do not have these experts */
    const dt_tensor *inner = kind->inner == NULL ? x : kind->inner((dt_tensor *)(uintptr_t)x);
    if (dt__values(inner) == NULL) return 0;
    return XXH3_64bits(dt__values(inner), dt__bytes_of(inner));
}

/* Compares `all`, the hashes of each rank's n tensors. */
static dt_status compare_hashes(dt__run *r, const dt__param *params, int64_t n, const uint64_t *all)
{
    for (int k = 1; k < dt__cluster_ranks(r->ranks.cluster); k++) {
        for (int64_t i = 0; i < n; i++) {
            if (all[k * n + i] == all[i]) continue;
            r->ranks.together = true;
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
    if (r->ranks.cluster == NULL || every == 0) return DT_OK;
    if (*dt__run_count(r, DT__COUNT_STEP) % every != 0) return DT_OK;
    DT__TRY(dt__module_params(r->stage.model, &params, &n));
    const int ranks = dt__cluster_ranks(r->ranks.cluster);
    uint64_t *all = dt__alloc_array(r->ctx, n * (ranks + 1), sizeof *all);
    if (all == NULL) return DT_ERR_NOMEM;
    uint64_t *own = all + n * ranks;
    for (int64_t i = 0; i < n; i++) own[i] = hash_of(params[i].x);
    dt_status s = dt__cluster_gather(r->ranks.cluster, "the hashes of weights", own,
                                     (size_t)n * sizeof *own, all);
    if (s == DT_OK) s = compare_hashes(r, params, n, all);
    dt__release(r->ctx, all);
    return s;
}
