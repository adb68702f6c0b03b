/* A run from its recipe to its results: the float baseline, if train.float_baseline; float
 * training; dt_prepare at qat.start_step; QAT; conversion; comparison of outputs. */
#include "core/clock.h"
#include "kernels/sets.h"
#include "train/run/run.h"

#include <math.h>
#include <stdio.h>

dt_status dt__run_path(dt__run *r, const char *name, char path[DT__RUN_PATH])
{
    const int n = snprintf(path, DT__RUN_PATH, "%s/%s", r->o->run.dir, name);
    if (n > 0 && n < DT__RUN_PATH) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_IO, "the path of '%s' in run.dir is too long", name);
}

const char *dt__run_phase(const dt__run *r)
{
    if (r->stage.count[DT__COUNT_STAGE].value == DT__BASELINE) return "baseline";
    return r->stage.count[DT__COUNT_PREPARED].value ? "qat" : "float";
}

bool dt__run_trains_in_float(const dt__run *r) { return r->data.start > 0; }

bool dt__run_prepares_trained(const dt__run *r)
{
    return dt__run_trains_in_float(r) || r->o->model.init != NULL;
}

dt_float_weights dt__run_float_weights(const dt__run *r)
{
    if (dt__packs(&r->o->model)) return DT_FLOAT_ADAPTED;
    if (!r->o->qat.given) return DT_FLOAT_TRAINED;
    if (r->o->train.float_baseline) return DT_FLOAT_BASELINE;
    if (dt__run_trains_in_float(r)) return DT_FLOAT_AT_START;
    return r->o->model.init != NULL ? DT_FLOAT_INIT : DT_FLOAT_NONE;
}

static dt_status save_model(dt__run *r, const char *name)
{
    char path[DT__RUN_PATH];
    DT__TRY(dt__run_path(r, name, path));
    return dt_model_save(r->stage.model, &r->stage.state.info, path);
}

static dt_status write_baseline(dt__run *r) { return save_model(r, "baseline.safetensors"); }
static dt_status write_float(dt__run *r)
{
    return save_model(r, dt__packs(&r->o->model) ? "adapters.safetensors" : "float.safetensors");
}

/* The baseline trains like the main stage, but is never prepared. */
static dt_status run_baseline(dt__run *r)
{
    DT__TRY(dt__run_until(r, r->data.steps));
    DT__TRY(dt__run_take_best(r));
    DT__TRY(dt__run_take_average(r));
    DT__TRY(dt__run_alone(r, write_baseline));
    DT__TRY(dt__run_together(r, dt__run_compare_float));
    const int64_t lines = *dt__run_count(r, DT__COUNT_LINES),
                  skipped = *dt__run_count(r, DT__COUNT_SKIPPED);
    dt__run_end_stage(r);
    DT__TRY(dt__run_begin_stage(r, DT__MAIN));
    *dt__run_count(r, DT__COUNT_LINES) = lines;
    *dt__run_count(r, DT__COUNT_SKIPPED) = skipped;
    *dt__run_count(r, DT__COUNT_BASELINE_STEPS) = r->data.steps;
    return dt__run_save(r);
}

/* Before the model is prepared, or at the end of training without `qat`: writes float.safetensors
 * and evaluates the weights, unless the float baseline is the reference. */
static dt_status save_float(dt__run *r)
{
    const dt_float_weights weights = dt__run_float_weights(r);
    if (dt__run_trains_in_float(r) || dt__run_teaches_itself(r)) {
        DT__TRY(dt__run_alone(r, write_float));
    }
    const bool compared = weights != DT_FLOAT_BASELINE && weights != DT_FLOAT_NONE;
    return compared ? dt__run_together(r, dt__run_compare_float) : DT_OK;
}

/* Trains the last phase of the main stage. The checkpoint has the weights of the last update; the
 * model gets the final ones (an average or the best). */
static dt_status end_training(dt__run *r)
{
    DT__TRY(dt__run_open_teacher(r, r->stage.model, true));
    DT__TRY(dt__run_until(r, r->data.steps));
    dt__run_say_frozen(r);
    DT__TRY(dt__run_measure_memory(r));
    DT__TRY(dt__run_save(r));
    DT__TRY(dt__run_take_best(r));
    DT__TRY(dt__run_take_average(r));
    DT__TRY(dt__run_follow_norms(r));
    return dt__run_end_spread(r);
}

static dt_status begin_qat(dt__run *r)
{
    if (*dt__run_count(r, DT__COUNT_PREPARED)) return dt__run_set_backward(r);
    DT__TRY(dt__run_until(r, r->data.start));
    DT__TRY(dt__run_take_average(r));
    DT__TRY(save_float(r));
    DT__TRY(dt__run_leave_average(r));
    *dt__run_count(r, DT__COUNT_AVERAGED) = 0;
    dt_tape_reset(r->stage.tape);
    DT__TRY(dt__run_prepare(r, r->stage.model, dt__run_prepares_trained(r)));
    *dt__run_count(r, DT__COUNT_PREPARED) = 1;
    dt__run_forget_plateau(r);
    dt__run_forget_spikes(r);
    return dt__run_set_backward(r);
}

static dt_status run_main(dt__run *r)
{
    if (r->o->qat.given) DT__TRY(begin_qat(r));
    DT__TRY(end_training(r));
    if (!r->o->qat.given) {
        DT__TRY(dt__run_together(r, dt__run_choose_thresholds));
        DT__TRY(save_float(r));
    }
    return dt__run_together(r, dt__run_finish);
}

static dt_status train(dt__run *r)
{
    bool found = false;
    DT__TRY(dt__run_open_spread(r));
    DT__TRY(dt__run_name_folders(r));
    DT__TRY(dt__run_alone(r, dt__run_folder));
    if (r->control.resume) DT__TRY(dt__run_forget_machine(r));
    if (r->control.resume) DT__TRY(dt__run_resume(r, &found));
    if (!found) {
        DT__TRY(dt__run_begin_stage(r, r->o->train.float_baseline ? DT__BASELINE : DT__MAIN));
    }
    DT__TRY(dt__run_keep_recipe(r));
    DT__TRY(dt__run_truncate(r, *dt__run_count(r, DT__COUNT_LINES)));
    DT__TRY(dt__run_begin_mirror(r));
    DT__TRY(dt__run_plan(r));
    r->pace.began = r->pace.line_clock = r->pace.saved_clock = dt__seconds();
    if (*dt__run_count(r, DT__COUNT_STAGE) == DT__BASELINE) DT__TRY(run_baseline(r));
    return run_main(r);
}

/* Sets train.float, and reports it if it is not the default. */
static dt_status set_products(dt__run *r)
{
    static const char *const names[] = {
        [DT_PRODUCTS_BF16] = "bf16", [DT_PRODUCTS_BF16_TILES] = "bf16-tiles"
    };
    const int products = r->o->train.products;
    DT__TRY(dt_set_products(r->ctx, products));
    if (products == DT_PRODUCTS_F32) return DT_OK;
    DT__TRY(dt__kernels_open(r->ctx));
    const dt__kernel_set *set = dt__kernel_set_of(r->ctx);
    const bool fast = (set->needs & DT_CPU_AVX512_BF16) != 0;
    dt__say(r->ctx, "floats are multiplied as %s in training (%s%s)", names[products], set->name,
            fast ? "" : ": without AVX-512 BF16 this is slower than train.float: f32");
    return DT_OK;
}

static dt_status open_run(dt__run *r)
{
    DT__TRY(set_products(r));
    return dt__run_open(r);
}

typedef dt_status run_part(dt__run *r);

/* The steps after the run is opened. */
static dt_status run_it(dt__run *r, run_part *part)
{
    dt_ctx *ctx = r->ctx;
    dt_recipe *recipe = r->recipe;
    if (dt_recipe_error_count(recipe) > 0) {
        return dt_fail(ctx, DT_ERR_CONFIG, "%s", dt_recipe_error_at(recipe, 0));
    }
    if (recipe->only_quantizes) {
        return dt_fail(ctx, DT_ERR_CONFIG, "recipe %s was not read as one to train by",
                       recipe->file);
    }
    if (r->o->run.folds > 0) {
        return dt_recipe_refuse(recipe, "run.folds",
                                "'run.folds' asks for %lld runs, which detent train or a sweep "
                                "trains; expected run.folds=0, or data.split.folds for one of them",
                                (long long)r->o->run.folds);
    }
    const int threads = ctx->threads;
    const int products = ctx->products;
    if (r->o->run.threads > 0) DT__TRY(dt__threads_set(ctx, (int)r->o->run.threads));
    r->pace.opened = dt__seconds();
    dt_memory_reset_peak(ctx);
    dt_status status = dt__run_join(r);
    if (status == DT_OK) status = dt__run_agree(r, open_run(r));
    if (status == DT_OK && part != NULL) status = part(r);
    r->summary->seconds = dt__seconds() - r->pace.opened;
    r->summary->peak_memory = dt_memory_of(ctx).peak;
    dt__run_leave(r, status);
    dt__run_close(r);
    ctx->products = products;
    const dt_status back = dt__threads_set(ctx, threads);
    return status == DT_OK ? back : status;
}

static dt__run run_of(dt_ctx *ctx, dt_recipe *recipe, dt_run_summary *summary)
{
    dt__run r = { .ctx = ctx, .recipe = recipe, .o = dt_recipe_get(recipe), .files.metrics = -1 };
    r.pace.validated = NAN;
    r.summary = summary;
    *summary = (dt_run_summary){ 0 };
    return r;
}

dt_status dt_run(dt_ctx *ctx, dt_recipe *recipe, const dt_run_control *control,
                 dt_run_summary *summary)
{
    DT__NEED2(ctx, ctx, recipe);
    dt_run_summary unwanted;
    dt__run r = run_of(ctx, recipe, summary != NULL ? summary : &unwanted);
    if (control != NULL) r.control = *control;
    return run_it(&r, r.control.check_only ? NULL : r.control.dry_run ? dt__run_dry : train);
}

static dt_status plan_alone(dt__run *r)
{
    *dt__run_count(r, DT__COUNT_STAGE) = r->o->train.float_baseline ? DT__BASELINE : DT__MAIN;
    return dt__run_plan(r);
}

/* Messages are suppressed, as the sweep or the run gives them. */
dt_status dt__run_units(dt_ctx *ctx, dt_recipe *recipe, double *units)
{
    dt_run_summary unwanted;
    dt__run r = run_of(ctx, recipe, &unwanted);
    const dt_logger log = ctx->log;
    ctx->log = NULL;
    const dt_status s = run_it(&r, plan_alone);
    ctx->log = log;
    *units = dt__ledger_units(&ctx->work);
    return s;
}
