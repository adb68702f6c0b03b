/* Evaluates the models that a run compares: float, float rounded to nearest, QAT, converted. All
 * ranks do this together; rank 0 writes files and compares outputs. Checks that the outputs of the
 * QAT model and of the converted model's file are equal bit for bit. A rounder other than nearest
 * chooses other codes than QAT trained with; then the converted model in memory and its file are
 * compared. */
#include "core/ranks.h"
#include "core/clock.h"
#include "core/tensor.h"
#include "core/text/json.h"
#include "data/dataset.h"
#include "nn/families/family.h"
#include "ptq/keys.h"
#include "train/quantize/rounding.h"
#include "train/run/run.h"
#include "autograd/spread.h"

#include <detent/experimental/report.h>
#include <string.h>

static dt_status evaluate(dt__run *r, dt_module *m, dt_metrics *metrics, dt_tensor **answers)
{
    const dt__wanted wanted = answers == NULL ? DT__WANTS_METRICS : DT__WANTS_ANSWERS;
    const dt_evaluation how = { .batch_size = r->o->train.eval_batch_size,
                                .metrics = r->o->train.metrics };
    const dt__evaluation e = { .m = m,
                               .d = r->data.evaluated,
                               .options = &how,
                               .wanted = wanted,
                               .cluster = r->ranks.cluster };
    return dt__run_time_evaluation(r, &e, metrics, answers);
}

/* ---- float and rounded ---------------------------------------------------------------------- */

static void keep(dt__run *r, dt_contender which, const dt_metrics *m)
{
    for (int i = 0; i < m->n; i++) *dt__run_result(r, which, i) = m->value[i];
    r->pace.seconds[which] = m->seconds;
}

/* A copy of the model. */
static dt_status copy_model(dt__run *r, dt_module **out)
{
    DT__TRY(dt__family_twin(r->ctx, r->o->model.family, r->o->model.options, out));
    dt_status status = dt_recipe_adapt(r->recipe, *out);
    if (status == DT_OK && dt__is_cut(r->ctx, r->stage.model))
        status = dt__spread_cut(r->ctx, *out);
    if (status == DT_OK) status = dt_module_copy_state(*out, r->stage.model);
    if (status == DT_OK) return DT_OK;
    dt_module_free(*out);
    *out = NULL;
    return status;
}

/* Evaluates a copy that is rounded to nearest; restores the random streams. */
static dt_status evaluate_rounded(dt__run *r, dt_metrics *m)
{
    dt_module *rounded = NULL;
    dt__stream stream[DT__PURPOSES];
    memcpy(stream, r->ctx->stream, sizeof stream);
    dt_status status = copy_model(r, &rounded);
    if (status == DT_OK) status = dt__run_prepare(r, rounded, true);
    if (status == DT_OK) status = evaluate(r, rounded, m, NULL);
    dt_module_free(rounded);
    dt_memory_trim(r->ctx);
    memcpy(r->ctx->stream, stream, sizeof stream);
    return status;
}

dt_status dt__run_compare_float(dt__run *r)
{
    dt_metrics m;
    dt_tape_reset(r->stage.tape);
    dt_memory_trim(r->ctx);
    if (!r->o->qat.given) {
        dt_tensor *answers;
        DT__TRY(evaluate(r, r->stage.model, &m, &answers));
        dt_status status = dt__run_write_confusion(r, answers);
        if (status == DT_OK) status = dt__run_write_examples(r, r->stage.model, answers);
        dt_tensor_free(answers);
        keep(r, DT_RUN_FLOAT, &m);
        return status;
    }
    DT__TRY(evaluate(r, r->stage.model, &m, NULL));
    keep(r, DT_RUN_FLOAT, &m);
    DT__TRY(evaluate_rounded(r, &m));
    keep(r, DT_RUN_PTQ, &m);
    return DT_OK;
}

/* ---- trained and converted ------------------------------------------------------------------ */

static void show(dt__run *r, dt_contender which, const dt_metrics *m)
{
    dt_run_summary *s = r->summary;
    const bool packed = which == DT_RUN_PTQ || which == DT_RUN_CONVERTED;
    const int64_t bytes = packed ? s->quantized_bytes : s->float_bytes;
    const int64_t weights = s->parameters - r->data.range_params;
    const double bits = 8 * (double)bytes / (double)dt__max_i64(weights, 1);
    s->result[which] = (dt_run_result){ true, *m, bytes, bits };
}

static void show_kept(dt__run *r, dt_contender which)
{
    dt_metrics m = { .examples = dt_dataset_count(r->data.evaluated), .n = r->data.n_metrics };
    for (int i = 0; i < m.n; i++) {
        m.metric[i] = r->data.metric[i];
        m.value[i] = *dt__run_result(r, which, i);
    }
    m.loss = m.value[m.n - 1];
    dt__put_speed(&m, r->data.evaluated, r->pace.seconds[which]);
    show(r, which, &m);
}

static bool same_bits(const dt_tensor *a, const dt_tensor *b)
{
    return a->count == b->count &&
           memcmp(dt_data(a), dt_data(b), (size_t)a->count * sizeof(float)) == 0;
}

/* Loads the converted model's file and compares its outputs with those of the model in memory and
 * of the QAT model. */
static dt_status prove(dt__run *r, const char *path, const dt_tensor *trained)
{
    dt_module *loaded = NULL;
    dt_tensor *here = NULL, *there = NULL;
    dt_metrics m;
    dt_status status = evaluate(r, r->stage.model, &m, &here);
    dt_memory_trim(r->ctx);
    if (status == DT_OK) status = dt_model_load(r->ctx, path, &loaded, NULL);
    if (status == DT_OK) status = dt__run_set_cache(r, loaded);
    if (status == DT_OK) status = evaluate(r, loaded, &m, &there);
    if (status == DT_OK) {
        show(r, DT_RUN_CONVERTED, &m);
        const bool counts = dt__run_writes(r);
        r->summary->same_bits_from_file = !counts || same_bits(here, there);
        r->summary->same_bits_as_qat =
            !counts || (r->summary->same_bits_from_file && same_bits(trained, there));
        status = dt__run_write_confusion(r, there);
        if (status == DT_OK) status = dt__run_write_examples(r, loaded, there);
    }
    dt_tensor_free(here);
    dt_tensor_free(there);
    dt_module_free(loaded);
    return status;
}

/* Stops between layers if requested; the final checkpoint has been saved. */
static dt_status stop_between(void *user, const char *path, const dt_round_report *report)
{
    dt__run *r = user;
    (void)report;
    if (!dt__run_wants_to_stop(r)) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_INTERRUPTED,
                   "interrupted behind the codes of %s; --resume goes on", path);
}

/* Writes the files of rank 0, after thresholds of the converted model have been chosen. */
static dt_status save_codes(dt__run *r, const dt__rounding *p, const char *path)
{
    DT__TRY(dt__run_choose_thresholds(r));
    if (!dt__run_writes(r)) return DT_OK;
    if (p == NULL) return dt_model_save(r->stage.model, &r->stage.state.info, path);
    return dt__rounding_save(p, r->stage.model, &r->stage.state.info, path);
}

/* Converts the model by the recipe's rounder and writes `path`. */
static dt_status choose_codes(dt__run *r, const char *path)
{
    const dt__rounding p = dt__rounding_of(r->o, true, dt__dataset_epoch(r->data.train, true));
    dt__calibration calibration;
    const dt__rounding_job job = { .m = r->stage.model,
                                   .calibration = &calibration,
                                   .cluster = r->ranks.cluster,
                                   .done = stop_between,
                                   .user = r };
    dt_status status = dt__calibration_open(&calibration, r->ctx, r->data.train, &p.choice);
    if (status == DT_OK) status = dt__run_time_rounding(r, &p, &job);
    if (status == DT_OK) status = save_codes(r, &p, path);
    dt__calibration_close(&calibration);
    return status;
}

/* Converts the model with the codes that QAT trained, and writes `path`. */
static dt_status keep_codes(dt__run *r, const char *path)
{
    dt_convert_report report;
    DT__TRY(dt_convert(r->stage.model, NULL, &report));
    if (report.elements > 0) {
        r->summary->clipped = (double)report.clipped / (double)report.elements;
    }
    return save_codes(r, NULL, path);
}

static bool is_nearest(const dt__run *r)
{
    return r->o->convert.rounding.rounder == DT_ROUND_NEAREST;
}

static dt_status convert(dt__run *r)
{
    char path[DT__RUN_PATH];
    dt_tensor *trained = NULL;
    dt_metrics m;
    DT__TRY(dt__run_path(r, r->o->convert.output, path));
    if (dt__run_writes(r)) DT__TRY(dt__run_make_parents(r->ctx, path));
    dt_status status = evaluate(r, r->stage.model, &m, &trained);
    if (status == DT_OK) {
        show(r, DT_RUN_QAT, &m);
        status = dt__run_write_layers(r, "layers-end.json");
    }
    if (status == DT_OK) status = dt__run_write_sensitivity(r);
    if (status == DT_OK) {
        dt_optimizer_free(r->stage.optimizer);
        r->stage.optimizer = NULL;
        dt_memory_trim(r->ctx);
        r->summary->rounder = dt__rounder_names[r->o->convert.rounding.rounder];
        status = (is_nearest(r) ? keep_codes : choose_codes)(r, path);
    }
    if (status == DT_OK) status = dt__cluster_meet(r->ranks.cluster, DT__MEETING, status);
    if (status == DT_OK) status = prove(r, path, trained);
    dt_tensor_free(trained);
    return status;
}

static dt_status write_summary(dt__run *r)
{
    dt__chars t = { .ctx = r->ctx };
    if (!dt__run_writes(r)) return DT_OK;
    dt_status status = dt_run_summary_json(r->ctx, r->summary, dt__collect, &t);
    if (status == DT_OK) status = dt__run_write(r, "summary.json", t.bytes, t.used);
    dt__release(r->ctx, t.bytes);
    return status;
}

dt_status dt__run_finish(dt__run *r)
{
    const bool quantized = r->o->qat.given;
    dt_tape_reset(r->stage.tape);
    dt_memory_trim(r->ctx);
    r->summary->steps = *dt__run_count(r, DT__COUNT_STEP);
    r->summary->start_step = r->data.start;
    r->summary->stopped_early = *dt__run_count(r, DT__COUNT_STOPPED) != 0;
    r->summary->best_step = *dt__run_count(r, DT__COUNT_BEST_STEP);
    r->summary->ends_with_best =
        r->o->train.finish_with == DT_FINISH_BEST && r->summary->best_step > 0;
    r->summary->skipped = *dt__run_count(r, DT__COUNT_SKIPPED);
    r->summary->float_weights = dt__run_float_weights(r);
    if (r->summary->float_weights != DT_FLOAT_NONE) {
        show_kept(r, DT_RUN_FLOAT);
        if (quantized) show_kept(r, DT_RUN_PTQ);
    }
    if (quantized) DT__TRY(convert(r));
    DT__TRY(write_summary(r));
    DT__TRY(dt__run_write_machine(r, dt__seconds() - r->pace.opened));
    DT__TRY(dt__run_write_columns(r));
    if (r->o->run.report && dt__run_writes(r))
        DT__TRY(dt_report_write(r->ctx, &r->o->run.dir, 1, NULL));
    const bool same =
        is_nearest(r) ? r->summary->same_bits_as_qat : r->summary->same_bits_from_file;
    if (!quantized || same) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_STATE,
                   "the converted model does not answer with the bits of the %s one",
                   is_nearest(r) ? "trained" : "saved");
}
