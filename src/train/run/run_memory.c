/* The memory of each rank in training: weights, gradient and optimizer state, which are permanent,
 * and the rest of the peak. */
#include "core/tensor.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include "train/run/run.h"

static dt_status add_state(void *user, const dt__optimizer_state *s)
{
    *(double *)user += (double)s->x->count * (double)dt_dtype_size(s->x->dtype);
    return DT_OK;
}

static dt_status measure(dt__run *r, dt__rank_memory *m)
{
    int64_t gradient;
    DT__TRY(dt__shards_bytes(r, &gradient));
    *m = (dt__rank_memory){ .peak = (double)dt_memory_of(r->ctx).peak,
                            .weights = (double)dt__module_bytes(r->stage.model, false),
                            .gradient = (double)gradient };
    DT__TRY(dt__optimizer_visit(r->stage.optimizer, add_state, &m->optimizer));
    const double rest = m->peak - m->weights - m->gradient - m->optimizer;
    m->activations = rest > 0 ? rest : 0;
    return DT_OK;
}

dt_status dt__run_measure_memory(dt__run *r)
{
    dt__rank_memory own;
    const int ranks = dt__cluster_ranks(r->ranks.cluster);
    DT__TRY(measure(r, &own));
    dt__release(r->ctx, r->ranks.memory);
    r->ranks.memory = dt__alloc_array(r->ctx, ranks, sizeof *r->ranks.memory);
    if (r->ranks.memory == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt__cluster_gather(r->ranks.cluster, "the memory of ranks", &own, sizeof own,
                               r->ranks.memory));
    for (int k = 0; k < ranks && ranks > 1; k++) {
        const dt__rank_memory *m = &r->ranks.memory[k];
        dt__say(r->ctx,
                "rank %d: at most %.1f MB of tensors while training: weights %.1f, gradient %.1f, "
                "optimizer %.1f, activations and all else %.1f",
                k, m->peak / 1e6, m->weights / 1e6, m->gradient / 1e6, m->optimizer / 1e6,
                m->activations / 1e6);
    }
    return DT_OK;
}
