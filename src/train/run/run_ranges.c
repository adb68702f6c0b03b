/* Preparing a model in a run, and its ranges after that: freezing observers and folded norms, and
 * recomputing static ranges of weights. Static activation ranges of a trained model are observed on
 * some training batches, in float, before its first quantized pass. */
#include "core/tensor.h"
#include "io/model/model.h"
#include "train/quantize/calibration.h"
#include "train/run/run.h"
#include "autograd/spread.h"
#include "nn/fold.h"

#include <stdio.h>
#include <string.h>

static dt_status create_only(void *user, const char *slot, const char *path, dt_tensor *x)
{
    (void)user;
    (void)slot;
    (void)path;
    (void)x;
    return DT_OK;
}

/* Allocates now the state of new parameters (learned ranges, shifts) in the optimizer, and of the
 * freezer, so that the first update allocates nothing, on which the memory plan of the next forward
 * pass relies. */
static dt_status make_state(dt__run *r, const dt_module *m)
{
    if (m != r->stage.model) return DT_OK;
    DT__TRY(dt_optimizer_visit(r->stage.optimizer, create_only, NULL));
    return r->stage.freezer == NULL ? DT_OK : dt_freezer_visit(r->stage.freezer, create_only, NULL);
}

/* If model.init is a folder of integers, or prepared with frozen ranges, copies its scales. */
static dt_status take_scales(dt__run *r, dt_module *m)
{
    int64_t taken, all;
    if (r->o->model.init == NULL || r->o->model.n_map > 0) return DT_OK;
    DT__TRY(dt__ranges_take(m, r->o->model.init, &taken, &all));
    if (all == 0) return DT_OK;
    dt__say(r->ctx, "model.init: the scales of %lld of %lld weights and ranges are taken%s",
            (long long)taken, (long long)all,
            taken == all ? ""
                         : "; others follow from the values (qat.weight: {range: static}, with "
                           "the file's bits and groups, takes them)");
    return DT_OK;
}

/* Warns of norms that dt_prepare could fold if their weight did not have only one scale. */
static void say_apart(dt__run *r, dt_module *m)
{
    int64_t n = 0;
    DT__EACH_MODULE(layer, m) {
        if (!dt__can_fold(layer, false) || layer->folding != DT__APART) continue;
        n += dt_is_fake_quant(dt_param(layer, "weight"));
    }
    if (n == 0 || !r->o->qat.fold_norm) return;
    dt__say(r->ctx,
            "the norms of %lld layer%s stay apart: too few bits for one scale of all channels",
            (long long)n, n == 1 ? "" : "s");
}

dt_status dt__run_set_cache(const dt__run *r, dt_module *m)
{
    const int cache = r->o->qat_schedule.cache;
    return cache == DT_CACHE_F32 ? DT_OK : dt_set_cache(m, cache);
}

dt_status dt__run_prepare(dt__run *r, dt_module *m, bool trained)
{
    DT__TRY(dt_prepare(m, &r->o->qat));
    DT__TRY(dt__run_set_cache(r, m));
    if (dt__is_cut(r->ctx, m)) DT__TRY(dt__spread_cut(r->ctx, m));
    DT__TRY(take_scales(r, m));
    DT__TRY(make_state(r, m));
    const int64_t zeros = dt_unfolded_channels(m);
    if (zeros > 0) {
        dt__say(r->ctx, "the norm of %lld channel%s has weight 0: training does not fold %s",
                (long long)zeros, zeros == 1 ? "" : "s", zeros == 1 ? "it" : "them");
    }
    say_apart(r, m);
    if (!trained || !dt_is_observed(m)) return DT_OK;
    DT__TRY(dt__spread_begin(r->ctx, m));
    return dt__spread_end(r->ctx, dt__observe_ranges(m, r->data.train, r->o));
}

/* Layers that do not get integers, for the log. */
typedef struct layers {
    int64_t integers, dx_alone, others;
    char names[160]; /* names of these layers */
} layers;

static void count_layer(layers *l, const char *path, const dt_module *m)
{
    const int how = dt_gradients_of(m);
    l->integers += how == DT_GRADIENTS_INT8;
    l->dx_alone += how == DT_GRADIENTS_INT8_DX;
    if (how != DT_GRADIENTS_FLOAT || m->type->quantizable == DT_NOT_QUANTIZED) return;
    const size_t used = strlen(l->names);
    const bool fits = used + strlen(path) + 8 < sizeof l->names;
    if (fits) snprintf(l->names + used, sizeof l->names - used, "%s%s", used > 0 ? ", " : "", path);
    else if (used > 4 && l->names[used - 1] != '.') memcpy(l->names + used, ", ...", 6);
    l->others++;
}

dt_status dt__run_set_backward(dt__run *r)
{
    layers l = { 0 };
    if (r->o->train.backward == DT_BACKWARD_FLOAT) return DT_OK;
    DT__TRY(dt_set_backward(r->stage.model, r->o->train.backward));
    DT__EACH_MODULE(m, r->stage.model) count_layer(&l, m->path, m);
    dt__say(r->ctx,
            "gradients are multiplied as integers in %lld layer%s%s%.0lld, in float in %lld%s%s",
            (long long)l.integers, l.integers == 1 ? "" : "s",
            l.dx_alone > 0 ? ", those of inputs alone in " : "", (long long)l.dx_alone,
            (long long)l.others, l.others > 0 ? ": " : "", l.names);
    return DT_OK;
}

/* Whether a freezing step is due; one before qat.start_step is due at qat.start_step. */
static bool is_due(dt__run *r, int64_t wanted)
{
    return wanted > 0 && *dt__run_count(r, DT__COUNT_STEP) == dt__max_i64(wanted, r->data.start);
}

/* The step at which folded norms freeze; 0: never. On integers there are no batch statistics, so
 * gradients ignore that a norm's statistics depend on its input: in networks for devices norms are
 * updated until 1/200 of their initial statistics is left (momentum 0.1), and no longer. */
static int64_t norm_step(const dt__run *r)
{
    const int64_t given = r->o->qat_schedule.freeze_norm_step;
    return given == 0 && dt_is_device_preset(r->o->qat.preset) ? r->data.start + 50 : given;
}

dt_status dt__run_update_ranges(dt__run *r)
{
    const int64_t refresh = r->o->qat_schedule.refresh_steps;
    const int64_t since = *dt__run_count(r, DT__COUNT_STEP) - r->data.start;
    if (*dt__run_count(r, DT__COUNT_PREPARED) == 0) return DT_OK;
    if (refresh > 0 && since > 0 && since % refresh == 0) DT__TRY(dt_refresh(r->stage.model));
    if (is_due(r, norm_step(r))) dt_norms_freeze(r->stage.model, true);
    DT__TRY(dt__run_quantize_more(r));
    return is_due(r, r->o->qat_schedule.freeze_observer_step)
               ? dt_observers_freeze(r->stage.model, true)
               : DT_OK;
}
