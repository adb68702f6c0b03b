/* dt_quantize_model: post-training quantization of a model. Prepares it by the recipe's `qat`, then
 * converts it layer by layer; a rounder chooses the codes by calibration data (src/ptq).
 *
 * With several ranks each has the whole model; rank 0 writes files.
 *
 * After each layer OUT.partial is rewritten, and a later call with the same file, data and settings
 * continues from it. A packed layer gives the same bits after a round trip through a file, so the
 * result is that of an uninterrupted call. */
#include "core/clock.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "io/safetensors/file_apart.h"
#include "core/text/json.h"
#include "nn/module.h"
#include "ptq/matrix.h"
#include "ptq/positions.h"
#include "ptq/rounding_cost.h"
#include "ptq/target.h"
#include "nn/layers/lora.h"
#include "qat/convert.h"
#include "qat/derived_quant.h"
#include "qat/device/device_plan.h"
#include "train/shards/agree.h"
#include "train/quantize/partial.h"
#include "train/recipe/recipe.h"
#include "train/quantize/quantize_report.h"
#include "train/quantize/rounding.h"
#include "train/run/run.h"

#include <math.h>

typedef struct work {
    dt_ctx *ctx;
    dt_recipe *recipe;
    const dt_recipe_options *o;
    const dt_quantize_job *job;
    dt_recipe_options *usual;     /* for a recipe without `qat`: with defaults of `qat` */
    const dt_recipe_options *how; /* `o` or `usual` */
    dt__rounding rounding;
    dt_quantize_summary *summary;
    dt_dataset *train;
    dt__calibration calibration;
    dt_module *m, *reference; /* model to quantize; its float reference or NULL */
    dt_model_info info;
    dt__partial partial;
    dt__positions positions; /* of an example; none: not counted */
    dt__cluster *cluster;    /* NULL: this process alone */
    dt_logger log;           /* the context's logger, which is unset on all ranks but 0 */
} work;

static bool writes(const work *w) { return dt__cluster_rank(w->cluster) == 0; }

/* ---- inputs -------------------------------------------------------------------------------- */

static bool reads_data(const work *w)
{
    return w->rounding.correct_bias || dt__needs_data(dt__method_of(w->rounding.options.rounder));
}

/* CONFIG if the rounder needs data; nearest needs none. */
static dt_status go_without_data(work *w)
{
    w->rounding = dt__rounding_of(w->o, w->job->converts, 0);
    w->calibration = (dt__calibration){ .ctx = w->ctx };
    if (w->rounding.correct_bias) {
        return dt_recipe_refuse(
            w->recipe, "quantize.correct_bias",
            "'quantize.correct_bias' needs data to calibrate with: give a recipe with 'data'");
    }
    if (!dt__needs_data(dt__method_of(w->rounding.options.rounder))) return DT_OK;
    return dt_recipe_refuse(w->recipe, "quantize.rounder",
                            "this rounder needs data to calibrate with: give a recipe with 'data'");
}

/* Opens the data, as the numbers that the model was trained on. Files missing on the disk are
 * errors of the recipe. */
static dt_status open_data(work *w)
{
    dt_dataset *validation = NULL, *test = NULL;
    if (!w->recipe->needs_data && dt__node_at(w->recipe, "data", NULL) == NULL) {
        return go_without_data(w);
    }
    const dt_status status =
        dt_recipe_open_data(w->recipe, &w->info, &w->train, &validation, &test);
    dt_dataset_free(validation);
    dt_dataset_free(test);
    DT__TRY(dt__recipe_blame(w->recipe, "data", DT_ERR_IO, status));
    DT__TRY(dt__check_examples(w->ctx, w->job->model, &w->info, w->train));
    DT__TRY(dt__give_scaling(w->ctx, w->job->model, w->info.data, w->train));
    w->rounding = dt__rounding_of(w->o, w->job->converts, dt__dataset_epoch(w->train, true));
    if (reads_data(w)) {
        w->summary->samples = w->rounding.choice.samples;
    }
    return dt__recipe_blame(
        w->recipe, "data", DT_ERR_ARG,
        dt__calibration_open(&w->calibration, w->ctx, w->train, &w->rounding.choice));
}

static dt_status check_model(work *w, dt_module *m)
{
    const char *path = w->job->model;
    if (dt_is_converted(m)) {
        return dt_fail(
            w->ctx, DT_ERR_FORMAT,
            "%s: weights of it are integers already; give a float model or a QAT checkpoint", path);
    }
    if (dt_is_prepared(m)) {
        if (w->job->converts) return DT_OK;
        dt__say(w->ctx, "%s is prepared: its own settings are used, 'qat' is not read", path);
        return DT_OK;
    }
    if (w->o->qat.given) return dt_recipe_check_model(w->recipe, m);
    dt__say(w->ctx, "the recipe has no 'qat': what becomes integers is as its defaults say");
    return DT_OK;
}

/* Checks that there are biases, and a float model to compute their correction. */
static dt_status check_bias(const work *w)
{
    const char *key = "quantize.correct_bias";
    if (!w->rounding.correct_bias) return DT_OK;
    if (w->reference == NULL) {
        return dt_recipe_refuse(w->recipe, key,
                                "'%s': %s is prepared: its biases were trained with the codes", key,
                                w->job->model);
    }
    DT__EACH_MODULE(m, w->m) {
        dt_weight_op op;
        if (dt__device_of(m) != NULL) {
            return dt_recipe_refuse(w->recipe, key,
                                    "'%s' is not for networks of integers alone, whose biases are "
                                    "integers of a fixed step",
                                    key);
        }
        if (!dt__weight_op_of(m, &op) || op.kind == DT_WEIGHT_GROUPED_LINEAR) continue;
        const bool folds = dt__derived_quant(m) != NULL && !dt__has_lora(m);
        if (dt__entry_find(m, "bias") != NULL || folds) return DT_OK;
    }
    return dt_recipe_refuse(w->recipe, key,
                            "'%s': no layer of %s has a bias, nor a norm to fold into one", key,
                            w->job->model);
}

/* ---- start --------------------------------------------------------------------------------- */

static dt_status prepare(work *w, dt_module *m)
{
    DT__TRY(dt__recipe_blame(w->recipe, "qat", DT_ERR_CONFIG, dt_prepare(m, &w->how->qat)));
    if (w->o->qat_schedule.cache != DT_CACHE_F32) {
        dt__say(m->ctx, "qat.cache: rounding does not see it; detent eval --cache tells what the "
                        "result loses behind a cache");
    }
    if (!dt_is_observed(m)) return DT_OK;
    if (w->train != NULL) return dt__observe_ranges(m, w->train, w->o);
    return dt_recipe_refuse(w->recipe, "qat",
                            "static ranges need data to be observed on: give a recipe with 'data'");
}

/* Loads the source. A float model becomes the reference; the model to quantize is then a partial
 * result, or the source loaded again and prepared. */
static dt_status begin(work *w)
{
    const char *path = w->job->model;
    DT__TRY(dt__partial_load(&w->partial, &w->m, w->summary));
    w->summary->resumed = w->summary->n;
    if (dt_is_prepared(w->reference)) {
        if (w->m != NULL) dt_module_free(w->reference);
        else w->m = w->reference;
        w->reference = NULL;
    } else if (w->m == NULL) {
        DT__TRY(dt_model_load(w->ctx, path, &w->m, NULL));
        DT__TRY(prepare(w, w->m));
    }
    if (w->summary->resumed == 0) return DT_OK;
    dt__say(w->ctx, "%s: going on behind %lld weight%s", w->partial.path,
            (long long)w->summary->resumed, w->summary->resumed == 1 ? "" : "s");
    return DT_OK;
}

/* The settings that the result depends on besides file and batches, as text to compare. */
static dt_status describe(work *w, char **out)
{
    dt__chars t = { .ctx = w->ctx };
    char *text = dt__rounding_text(w->ctx, &w->rounding);
    if (text == NULL) return DT_ERR_NOMEM;
    dt__put_text(&t, text);
    dt__release(w->ctx, text);
    if (!dt_is_prepared(w->reference)) dt__put_options(&t, dt__qat_block_keys, w->how);
    if (dt__chars_text(&t) == NULL) {
        dt__release(w->ctx, t.bytes);
        return DT_ERR_NOMEM;
    }
    *out = t.bytes;
    return DT_OK;
}

static dt_status open_partial(work *w)
{
    dt__partial *p = &w->partial;
    p->ctx = w->ctx;
    p->path = dt__format_string(w->ctx, "%s.partial", w->job->output);
    if (p->path == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt__file_apart(w->ctx, w->job->output, w->job->model));
    DT__TRY(dt__file_apart(w->ctx, p->path, w->job->model));
    DT__TRY(describe(w, &p->origin.settings));
    DT__TRY(dt__partial_hash(w->ctx, w->job->model, p->origin.source));
    return dt__calibration_hash(&w->calibration, p->origin.calibration);
}

/* ---- layer by layer ------------------------------------------------------------------------- */

static dt_status keep(work *w)
{
    if (!writes(w)) return DT_OK;
    return dt__partial_save(&w->partial, w->m, &w->info, w->summary);
}

/* Adds the cost of rounding a layer's weight. */
static void add_cost(const work *w, const dt_weight_op *op, const dt_module *layer,
                     dt__round_cost *cost)
{
    const dt__method *method = dt__method_of(w->rounding.options.rounder);
    const dt_tensor *x = dt__entry_find(layer, "weight")->x;
    const double counted = dt__positions_of(&w->positions, layer->path);
    const int64_t context = w->train != NULL ? dt_dataset_context(w->train) : 0;
    const double each = counted > 0 ? counted : (double)dt__max_i64(context, 1);
    const bool routed = op->kind == DT_WEIGHT_GROUPED_LINEAR;
    /* each expert gets a part of the rows */
    const double experts = routed ? (double)x->dims[0] : 1;
    const dt__round_case of = { .method = method,
                                .op = op,
                                .rank = x->rank,
                                .dims = x->dims,
                                .differ = method->rounder->needs_float && w->reference != NULL,
                                .samples = (double)w->summary->samples * each / experts };
    dt__round_cost_add(w->ctx, &of, cost);
}

/* Plans progress for all weights that are not rounded yet. */
static dt_status plan_work(const work *w)
{
    dt__round_cost cost = { .codes = 0 };
    DT__EACH_MODULE(m, w->m) {
        dt_weight_op op;
        if (dt__layer_quant(m) == NULL || !dt__weight_op_of(m, &op)) continue;
        add_cost(w, &op, m, &cost);
    }
    dt__plan_rounding(w->ctx, &cost);
    if (w->ctx->told != NULL) return dt__try_rounding(w->ctx, w->rounding.options.rounder, &cost);
    return DT_OK;
}

/* Counts the positions per example at each layer with a batch; for a language model it is the
 * context. */
static dt_status count_positions(work *w)
{
    dt_module *m = w->reference != NULL ? w->reference : w->m;
    dt_tensor *x;
    dt_tape *t = NULL;
    if (w->summary->samples == 0 || dt_module_type_of(m)->language != NULL) return DT_OK;
    DT__TRY(dt__positions_begin(m, &w->positions));
    const bool training = dt_is_training(m);
    dt_train(m, false);
    dt_status s = dt_tape_create(w->ctx, &t);
    if (s == DT_OK) s = dt__calibration_batch(&w->calibration, 0, &x);
    if (s == DT_OK) {
        dt_no_grad(t, true);
        dt__pass_work(w->ctx);
        dt_forward(t, m, x);
        s = dt_tape_status(t);
    }
    dt__tried_work(w->ctx, DT__FORWARD, dt__positions_products(&w->positions));
    dt_tape_free(t);
    dt_train(m, training);
    dt__positions_end(&w->positions);
    return s;
}

/* Plans progress for files: OUT.partial now and after each weight, smaller each time, then OUT. */
static void expect_files(const work *w)
{
    const double before = (double)dt__module_bytes(w->m, false),
                 after = (double)dt__module_bytes(w->m, true);
    const double weights = (double)(w->summary->wanted - w->summary->n);
    if (writes(w)) dt_expect_save(w->ctx, before + weights * (before + after) / 2 + after);
}

static dt_status weight_done(void *user, const char *path, const dt_round_report *report)
{
    work *w = user;
    const dt_quantize_job *job = w->job;
    const dt_quantize_summary *s = w->summary;
    DT__TRY(dt__report_add(w->summary, w->m, path, report));
    DT__TRY(keep(w));
    if (job->weight != NULL && writes(w)) job->weight(job->user, s);
    if (job->stop == NULL || s->n == s->wanted || !job->stop(job->user)) return DT_OK;
    return dt_fail(
        w->ctx, DT_ERR_INTERRUPTED,
        "interrupted behind %s, %lld of %lld weights; %s holds them, and the same command "
        "goes on",
        path, (long long)s->n, (long long)s->wanted, w->partial.path);
}

static dt_status convert(work *w)
{
    dt_quantize_summary *s = w->summary;
    const dt__rounding_job job = { .m = w->m,
                                   .reference = w->reference,
                                   .calibration = &w->calibration,
                                   .cluster = w->cluster,
                                   .done = weight_done,
                                   .user = w };
    DT__TRY(dt__rounding_suits(&w->rounding, w->recipe, w->m));
    DT__TRY(check_bias(w));
    DT__EACH_ENTRY(m, e, w->m) {
        const bool codes = dt_is_fake_quant(e->x) || dt_is_packed(e->x);
        s->wanted += e->kind == DT_PARAM && codes && dt__entry_is_first(w->m, e);
    }
    DT__EACH_MODULE(m, w->m) s->wanted += dt__derived_quant(m) != NULL;
    if (dt_is_prepared(w->m)) DT__TRY(count_positions(w));
    expect_files(w);
    DT__TRY(keep(w)); /* finds an unwritable path before the work */
    if (dt_is_prepared(w->m)) DT__TRY(plan_work(w));
    dt_ptq_report done = { 0 };
    if (dt_is_prepared(w->m)) DT__TRY(dt__rounding_run(&w->rounding, &job, &done));
    if (w->rounding.correct_bias) {
        dt__say(w->ctx, "quantize.correct_bias: the biases of %lld of %lld layers are corrected",
                (long long)done.corrected, (long long)done.layers);
    }
    dt__report_total(s);
    if (!writes(w)) return DT_OK;
    DT__TRY(dt__rounding_save(&w->rounding, w->m, &w->info, w->job->output));
    dt__partial_remove(w->partial.ctx, w->partial.path);
    return DT_OK;
}

static dt_status open_all(work *w)
{
    dt_seed(w->ctx, (uint64_t)w->o->run.seed);
    w->usual = dt__alloc(w->ctx, sizeof *w->usual); /* too large for the stack */
    if (w->usual == NULL) return DT_ERR_NOMEM;
    *w->usual = *w->o;
    w->usual->qat = dt_qat_defaults();
    w->usual->qat_schedule = dt_qat_schedule_defaults();
    w->how = w->o->qat.given ? w->o : w->usual;
    DT__TRY(dt_model_load(w->ctx, w->job->model, &w->reference, &w->info));
    DT__TRY(check_model(w, w->reference));
    DT__TRY(open_data(w));
    return open_partial(w);
}

/* Checks that OUT.partial exists for all ranks or for none, as they process layers together:
 * STATE. */
static dt_status check_begin(const work *w)
{
    const int ranks = dt__cluster_ranks(w->cluster);
    const int64_t own = w->summary->resumed;
    if (w->cluster == NULL) return DT_OK;
    int64_t *all = dt__alloc_array(w->ctx, ranks, sizeof *all);
    if (all == NULL) return DT_ERR_NOMEM;
    dt_status s = dt__cluster_gather(w->cluster, "how much is done", &own, sizeof own, all);
    for (int k = 1; k < ranks && s == DT_OK; k++) {
        if (all[k] == all[0]) continue;
        s = dt_fail(w->ctx, DT_ERR_STATE,
                    "%s: rank %d reads %lld finished weights in it, rank 0 reads %lld: all ranks "
                    "must see the same file; or delete it",
                    w->partial.path, k, (long long)all[k], (long long)all[0]);
    }
    dt__release(w->ctx, all);
    return s;
}

static dt_status quantize(work *w)
{
    const dt_status status = open_all(w);
    const dt__agreement a = {
        .cluster = w->cluster,
        .recipe = w->recipe,
        .data = { w->train },
        .model = w->partial.origin.source,
    };
    DT__TRY(dt__agree(&a, status));
    /* wait for all ranks before the file is written */
    DT__TRY(dt__cluster_meet(w->cluster, DT__MEETING, begin(w)));
    DT__TRY(check_begin(w));
    return convert(w);
}

/* ---- ranks ---------------------------------------------------------------------------------- */

static dt_status join(work *w)
{
    if (w->job->cluster) DT__TRY(dt__cluster_open(w->ctx, w->o->cluster.timeout, &w->cluster));
    if (writes(w)) return DT_OK;
    w->log = w->ctx->log;
    w->ctx->log = NULL; /* only rank 0 logs, as all would log the same */
    return DT_OK;
}

static void leave(work *w, dt_status status)
{
    w->summary->rank = dt__cluster_rank(w->cluster);
    w->summary->by_itself = status != DT_OK && !dt__cluster_has_ended(w->cluster);
    if (w->log != NULL) w->ctx->log = w->log;
    dt__cluster_close(w->cluster, !w->summary->by_itself);
}

static void close_work(work *w)
{
    dt_module_free(w->m);
    dt_module_free(w->reference);
    dt_model_info_free(w->ctx, &w->info);
    dt__calibration_close(&w->calibration);
    dt_dataset_free(w->train);
    DT__RELEASE(w->ctx, w->usual, w->partial.path, w->partial.origin.settings);
    if (w->positions.ctx != NULL) dt__positions_free(&w->positions);
}

dt_status dt_quantize_model(dt_ctx *ctx, dt_recipe *recipe, const dt_quantize_job *job,
                            dt_quantize_summary *summary)
{
    DT__NEED3(ctx, ctx, recipe, job);
    dt_quantize_summary unwanted;
    const dt_recipe_options *o = dt_recipe_get(recipe);
    work w = { .ctx = ctx, .recipe = recipe, .o = o, .job = job };
    w.summary = summary != NULL ? summary : &unwanted;
    *w.summary = (dt_quantize_summary){ .ctx = ctx };
    if (dt_recipe_error_count(recipe) > 0) {
        return dt_fail(ctx, DT_ERR_CONFIG, "%s", dt_recipe_error_at(recipe, 0));
    }
    const int threads = ctx->threads;
    if (o->run.threads > 0) DT__TRY(dt__threads_set(ctx, (int)o->run.threads));
    const double before = dt__seconds();
    dt_memory_reset_peak(ctx);
    dt_status status = join(&w);
    if (status == DT_OK) {
        status = dt__cluster_meet(w.cluster, DT__LAST_MEETING, quantize(&w));
        leave(&w, status);
    }
    w.summary->seconds = dt__seconds() - before;
    w.summary->peak_memory = (int64_t)dt_memory_of(ctx).peak;
    close_work(&w);
    const dt_status back = dt__threads_set(ctx, threads);
    if (summary == NULL) dt_quantize_summary_free(&unwanted);
    return status == DT_OK ? back : status;
}
