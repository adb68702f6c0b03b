/* Checks that ranks agree on what must be the same on all of them. */
#include "cluster/cluster.h"

#include "train/shards/agree.h"

#include "data/content_hash.h"
#include "io/safetensors/safetensors.h"
#include "kernels/machine.h"
#include "train/run/run.h"

#include <detent/detent.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* What a rank sends about itself before the run begins. */
typedef struct card {
    char version[32], kernels[32], processor[DT__PROCESSOR];
    char model[DT__HASH_DIGITS + 1]; /* hash of the file that is quantized */
    uint64_t recipe, data;
    int64_t resume;
} card;

static dt_status hash_recipe(const dt__agreement *a, uint64_t *hash)
{
    dt__chars t = { .ctx = a->cluster->ctx };
    const dt_status s = dt_recipe_json(a->recipe, dt__collect, &t);
    if (s == DT_OK) *hash = XXH3_64bits(t.bytes, t.used);
    dt__release(t.ctx, t.bytes);
    return s;
}

static uint64_t hash_data(const dt__agreement *a)
{
    uint64_t hash = 0;
    for (int i = 0; i < DT__COUNT_OF(a->data); i++) {
        const uint64_t all[2] = { hash, a->data[i] == NULL ? 0 : dt__content_hash(a->data[i]) };
        hash = XXH3_64bits(all, sizeof all);
    }
    return hash;
}

static dt_status fill(const dt__agreement *a, dt_status status, card *c)
{
    *c = (card){ .resume = a->resume };
    snprintf(c->version, sizeof c->version, "%s", dt_version());
    snprintf(c->kernels, sizeof c->kernels, "%s", dt_kernels_name(a->cluster->ctx));
    if (a->model != NULL) snprintf(c->model, sizeof c->model, "%s", a->model);
    dt__processor(c->processor);
    if (status != DT_OK) return status;
    c->data = hash_data(a);
    return hash_recipe(a, &c->recipe);
}

/* The first difference between two ranks; NULL: none. */
static const char *difference(const card *a, const card *b)
{
    if (strcmp(a->version, b->version) != 0) return "another version of detent";
    if (strcmp(a->kernels, b->kernels) != 0) return "another instruction set";
    if (strcmp(a->processor, b->processor) != 0) return "another processor";
    if (strcmp(a->model, b->model) != 0) return "another model";
    if (a->resume != b->resume) return "another setting of --resume";
    if (a->recipe != b->recipe) return "another recipe";
    return a->data != b->data ? "other data" : NULL;
}

static dt_status compare(dt__cluster *c, const card *cards)
{
    for (int k = 1; k < dt__cluster_ranks(c); k++) {
        const char *what = difference(&cards[0], &cards[k]);
        if (what == NULL) continue;
        return dt_fail(c->ctx, DT_ERR_STATE,
                       "rank %d has %s than rank 0 (%s, %s, %s; rank 0: %s, %s, %s): all ranks "
                       "must have the same",
                       k, what, cards[k].version, cards[k].kernels, cards[k].processor,
                       cards[0].version, cards[0].kernels, cards[0].processor);
    }
    return DT_OK;
}

/* Every rank finds a rank that differs, but only the meeting at the end makes all of them fail
 * together. */
static dt_status exchange(const dt__agreement *a, dt_status status, card *cards)
{
    dt__cluster *c = a->cluster;
    card *own = &cards[dt__cluster_ranks(c)];
    status = dt__cluster_meet(c, DT__LAST_MEETING, fill(a, status, own));
    if (status != DT_OK) return status;
    DT__TRY(dt__cluster_gather(c, "what ranks have", own, sizeof *own, cards));
    return dt__cluster_meet(c, DT__LAST_MEETING, compare(c, cards));
}

dt_status dt__ranks_agree(const dt__agreement *a, dt_status status)
{
    dt_ctx *ctx = a->cluster->ctx;
    card *cards = dt__alloc_array(ctx, dt__cluster_ranks(a->cluster) + 1, sizeof *cards);
    if (cards == NULL) return DT_ERR_NOMEM;
    status = exchange(a, status, cards);
    dt__release(ctx, cards);
    return status;
}
