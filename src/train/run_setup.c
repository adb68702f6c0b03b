/* Before the first update: data, model, optimizer. All that can be wrong with a recipe is found here,
 * before a file is written: a trial model is built, fed with one image and prepared. */
#include "core/tensor.h"
#include "train/run.h"

#include <string.h>
#include <unistd.h>

/* ---- the model ---------------------------------------------------------------------------------- */

dt_status dt__run_model(dt__run *r, dt_module **out)
{
    const dt_model_options *m = &r->o->model;
    DT__TRY(m->family->create(r->ctx, m->options, out));
    if (m->init == NULL) return DT_OK;
    const dt_status status = dt_model_load_weights(*out, m->init);
    if (status == DT_OK) return DT_OK;
    dt_module_free(*out);
    *out = NULL;
    return status;
}

/* ---- whether data and model fit ------------------------------------------------------------------ */

/* Of a family whose first size is the number of pixels and whose last that of the classes. */
static dt_status check_sizes(dt__run *r, const dt_ints *sizes)
{
    const dt_dataset *d = r->train;
    const int64_t height = dt_dataset_height(d), width = dt_dataset_width(d);
    const int64_t classes = dt_dataset_classes(d), last = sizes->v[sizes->n - 1];
    if (sizes->v[0] != height * width) {
        return dt_recipe_refuse(r->recipe, "model.sizes.0",
                                "'model.sizes' begins with %lld, but the images have %lld x %lld "
                                "pixels; %lld would fit",
                                (long long)sizes->v[0], (long long)height, (long long)width,
                                (long long)(height * width));
    }
    if (last >= classes) return DT_OK;
    char path[32] = "model.sizes";
    if (sizes->n < 100) {
        const int i = sizes->n - 1;
        const char digits[] = { '.', (char)('0' + i / 10), (char)('0' + i % 10), 0 };
        if (i >= 10) strcat(path, digits);
        else strcat(strcat(path, "."), digits + 2);
    }
    return dt_recipe_refuse(r->recipe, path,
                            "'model.sizes' ends with %lld, but the labels have %lld classes; at "
                            "least %lld outputs are wanted",
                            (long long)last, (long long)classes, (long long)classes);
}

static dt_status check_family(dt__run *r)
{
    const dt_model_options *m = &r->o->model;
    if (strcmp(m->family->name, "mlp") != 0) return DT_OK;
    return check_sizes(r, &((const dt_mlp_options *)m->options)->sizes);
}

/* ---- quantization ------------------------------------------------------------------------------ */

static dt_status check_rules(dt__run *r, dt_module *trial)
{
    int64_t rule;
    DT__TRY(dt_qat_unmatched_rule(trial, &r->o->qat, &rule));
    if (rule < 0) return DT_OK;
    return dt_recipe_refuse(r->recipe, dt__recipe_format(r->recipe, "qat.rules.%lld.match",
                                                         (long long)rule),
                            "the rule '%s' matches no module that can be quantized",
                            r->o->qat.rules[rule].match);
}

static dt_status check_qat(dt__run *r, dt_module *trial)
{
    if (!r->o->qat.given) return DT_OK;
    DT__TRY(check_rules(r, trial));
    const dt_status status = dt_prepare(trial, &r->o->qat);
    if (status == DT_ERR_CONFIG) {
        char words[DT__MESSAGE_SIZE];
        strcpy(words, dt_error(r->ctx));
        return dt_recipe_refuse(r->recipe, "qat", "%s", words);
    }
    DT__TRY(status);
    if (dt_is_prepared(trial)) return DT_OK;
    return dt_recipe_refuse(r->recipe, "qat", "nothing is quantized: the rules skip every module");
}

static dt_status check_all(dt__run *r)
{
    dt_module *trial = NULL;
    DT__TRY(check_family(r));
    DT__TRY(dt__run_model(r, &trial));
    const dt_status status = check_qat(r, trial);
    if (status == DT_OK) dt__run_describe(r, trial);
    dt_module_free(trial);
    return status;
}

/* ---- data -------------------------------------------------------------------------------------- */

static void count_updates(dt__run *r)
{
    const dt_train_options *t = &r->o->train;
    r->batches = dt__ceil_div(dt_dataset_count(r->train), t->batch_size);
    r->per_epoch = dt__ceil_div(r->batches, t->accumulate);
    r->steps = t->steps > 0 ? t->steps : t->epochs * r->per_epoch;
    r->start = r->o->qat.given ? dt__min_i64(r->o->qat.start_step, r->steps) : r->steps;
    r->schedule = t->schedule;
    if (r->schedule.total_steps == 0) r->schedule.total_steps = r->steps;
}

/* Like those of a wrong key: the recipe names them. */
static dt_status blame_data(dt__run *r, dt_status status)
{
    if (status != DT_ERR_CONFIG) return status;
    char words[DT__MESSAGE_SIZE];
    strcpy(words, dt_error(r->ctx));
    return dt_recipe_refuse(r->recipe, "data", "%s", words);
}

static dt_status check_epochs(dt__run *r)
{
    int64_t most;
    const int64_t dims[] = { r->o->train.epochs, r->per_epoch };
    if (dt__product(2, dims, &most)) return DT_OK;
    return dt_recipe_refuse(r->recipe, "train.epochs", "%lld epochs are more than can be counted",
                            (long long)r->o->train.epochs);
}

dt_status dt__run_open(dt__run *r)
{
    dt_dataset **test = &r->test, **validation = &r->validation;
    DT__TRY(blame_data(r, dt_data_open(r->ctx, &r->o->data, &r->train, validation, test)));
    r->judged = r->test != NULL ? r->test : r->validation != NULL ? r->validation : r->train;
    r->summary->evaluated_on = r->judged == r->test         ? "test"
                               : r->judged == r->validation ? "validation"
                                                            : "train";
    count_updates(r);
    DT__TRY(check_epochs(r));
    if (r->o->qat.given && r->o->qat.start_step >= r->steps) {
        dt__say(r->ctx, "qat.start_step is %lld, but training ends after %lld updates: the float "
                        "weights are rounded and converted as they are",
                (long long)r->o->qat.start_step, (long long)r->steps);
    }
    dt_seed(r->ctx, (uint64_t)r->o->run.seed);
    return check_all(r);
}

/* ---- a stage ----------------------------------------------------------------------------------- */

static dt_status open_loader(dt__run *r)
{
    const dt_data_options *d = &r->o->data;
    const dt_loader_options options = { .batch_size = r->o->train.batch_size,
                                        .shuffle = true,
                                        .seed = (uint64_t)r->o->run.seed,
                                        .mean = d->mean,
                                        .deviation = d->deviation,
                                        .augment = d->augment };
    const dt_status status = dt_loader_create(r->train, &options, &r->loader);
    if (status != DT_ERR_ARG) return status;
    char words[DT__MESSAGE_SIZE];
    strcpy(words, dt_error(r->ctx));
    return dt_recipe_refuse(r->recipe, "data", "%s", words);
}

dt_status dt__run_begin_stage(dt__run *r, dt__stage stage)
{
    dt_seed(r->ctx, (uint64_t)r->o->run.seed);
    for (int i = 0; i < DT__COUNTS; i++) r->count[i].value = 0;
    if (stage == DT__BASELINE) {
        for (int i = 0; i < DT__VALUES; i++) r->value[i].value = 0;
    }
    *dt__run_count(r, DT__COUNT_STAGE) = stage;
    DT__TRY(dt__run_model(r, &r->model));
    DT__TRY(dt_optimizer_create(r->model, &r->o->train.optimizer, &r->optimizer));
    DT__TRY(open_loader(r));
    DT__TRY(dt_tape_create(r->ctx, &r->tape));
    DT__TRY(dt_tensor_create(r->ctx, DT_F32, 0, NULL, &r->share));
    dt_train(r->model, true);
    dt__run_name_state(r);
    return DT_OK;
}

void dt__run_end_stage(dt__run *r)
{
    dt_tape_free(r->tape);
    dt_optimizer_free(r->optimizer);
    dt_loader_free(r->loader);
    dt_tensor_free(r->share);
    dt_module_free(r->model);
    r->tape = NULL;
    r->optimizer = NULL;
    r->loader = NULL;
    r->share = NULL;
    r->model = NULL;
}

void dt__run_close(dt__run *r)
{
    dt__run_end_stage(r);
    dt_dataset_free(r->train);
    dt_dataset_free(r->validation);
    dt_dataset_free(r->test);
    for (int i = 0; i < 2; i++) dt__release(r->ctx, r->checkpoints[i]);
    dt__release(r->ctx, r->resolved);
    if (r->metrics >= 0) close(r->metrics);
}
