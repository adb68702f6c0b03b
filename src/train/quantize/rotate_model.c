/* dt_rotate_model: dt_rotate of a file, with calibration batches of a recipe's data. */
#include "data/dataset.h"
#include "io/safetensors/file_apart.h"
#include "train/quantize/rounding.h"
#include "train/run/run.h"

typedef struct work {
    dt_ctx *ctx;
    dt_recipe *recipe; /* NULL: nothing is learned */
    const dt_rotate_job *job;
    dt_module *from, *m;
    dt_model_info info;
    dt_dataset *train;
    dt__calibration calibration;
} work;

static dt_status open_data(work *w)
{
    dt_dataset *validation = NULL, *test = NULL;
    const dt_recipe_options *o = dt_recipe_get(w->recipe);
    const dt_status status =
        dt_recipe_open_data(w->recipe, &w->info, &w->train, &validation, &test);
    dt_dataset_free(validation);
    dt_dataset_free(test);
    DT__TRY(dt__recipe_blame(w->recipe, "data", DT_ERR_IO, status));
    DT__TRY(dt__check_examples(w->ctx, w->job->model, &w->info, w->train));
    const dt__rounding how = dt__rounding_of(o, false, dt__dataset_epoch(w->train, true));
    return dt__recipe_blame(w->recipe, "data", DT_ERR_ARG,
                            dt__calibration_open(&w->calibration, w->ctx, w->train, &how.choice));
}

static dt_status rotate(work *w)
{
    dt_llama_options rotated;
    dt_calibration data = { .batch = dt__calibration_batch, .user = &w->calibration };
    dt_rotate_options how = { .hadamard = w->job->hadamard };
    DT__TRY(dt__file_apart(w->ctx, w->job->output, w->job->model));
    DT__TRY(dt_model_load(w->ctx, w->job->model, &w->from, &w->info));
    if (w->recipe != NULL) {
        DT__TRY(open_data(w));
        data.batches = w->calibration.batches;
        how.seed = (uint64_t)dt_recipe_get(w->recipe)->run.seed;
        how.data = &data;
    }
    DT__TRY(dt_rotate(w->from, w->info.options, &how, &w->m, &rotated));
    w->info.options = &rotated;
    return dt_model_save(w->m, &w->info, w->job->output);
}

dt_status dt_rotate_model(dt_ctx *ctx, dt_recipe *recipe, const dt_rotate_job *job)
{
    DT__NEED2(ctx, ctx, job);
    work w = { .ctx = ctx, .recipe = recipe, .job = job };
    const dt_status s = rotate(&w);
    dt_module_free(w.m);
    dt_module_free(w.from);
    dt__calibration_close(&w.calibration);
    dt_dataset_free(w.train);
    dt_model_info_free(ctx, &w.info);
    return s;
}
