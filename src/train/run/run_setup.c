/* Before the first update: data, model, optimizer, loader. */
#include "core/text/json.h"
#include "core/system/system_calls.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "data/text/tokenizer.h"
#include "io/model/model.h"
#include "train/run/run.h"
#include "autograd/spread.h"

#include <math.h>

/* ---- the model ------------------------------------------------------------------------------ */

/* Weights that a file has are not drawn, but the random stream advances as if they were. */
static dt_status create_model(dt__run *r, dt_module **out)
{
    const dt_model_options *m = &r->o->model;
    const bool before = r->ctx->blank;
    r->ctx->blank = m->init != NULL && m->n_map == 0;
    const dt_status status = m->family->create(r->ctx, m->options, out);
    r->ctx->blank = before;
    return status;
}

static dt_status make_model(dt__run *r, dt_module **out)
{
    const dt_model_options *m = &r->o->model;
    DT__TRY(create_model(r, out));
    const dt_status status = m->init == NULL
                                 ? dt__run_set_affine(r, *out)
                                 : dt_model_load_renamed(*out, m->init, m->map, m->n_map);
    if (status == DT_OK) return DT_OK;
    dt_module_free(*out);
    *out = NULL;
    return status;
}

dt_status dt__run_plain_model(dt__run *r, dt_module **out)
{
    return dt__packs(&r->o->model) ? dt__run_packed_model(r, out) : make_model(r, out);
}

dt_status dt__run_model(dt__run *r, dt_module **out)
{
    DT__TRY(dt__run_plain_model(r, out));
    dt_status status = dt_recipe_adapt(r->recipe, *out);
    if (status == DT_OK) status = dt_freeze_groups(*out, &r->o->train.optimizer);
    if (status == DT_OK) return DT_OK;
    dt_module_free(*out);
    *out = NULL;
    return status;
}

/* ---- data ----------------------------------------------------------------------------------- */

/* The update at which QAT begins. */
static int64_t start_of(const dt__run *r)
{
    const dt_qat_schedule *q = &r->o->qat_schedule;
    const int64_t share = llround(q->start_share * (double)r->data.steps);
    if (!r->o->qat.given) return r->data.steps;
    return dt__min_i64(q->start_share > 0 ? dt__max_i64(1, share) : q->start_step, r->data.steps);
}

static dt_status count_updates(dt__run *r)
{
    int64_t most;
    const dt_train_options *t = &r->o->train;
    r->data.batches = dt__ceil_div(dt__dataset_epoch(r->data.train, true), t->batch_size);
    r->data.per_epoch = dt__ceil_div(r->data.batches, t->accumulate);
    const int64_t passes[] = { t->epochs, r->data.per_epoch };
    if (!dt__product(2, passes, &most)) {
        return dt_recipe_refuse(r->recipe, "train.epochs",
                                "%lld epochs are more than can be counted", (long long)t->epochs);
    }
    r->data.steps = t->steps > 0 ? t->steps : most;
    r->data.start = start_of(r);
    r->stage.schedule = t->schedule;
    if (r->stage.schedule.total_steps == 0) r->stage.schedule.total_steps = r->data.steps;
    return DT_OK;
}

static dt_status keep_text(const dt_file *file, const char *key, char **out)
{
    const char *text = dt_file_meta(file, key);
    if (text != NULL) *out = dt__copy_string(file->ctx, text);
    return text == NULL || *out != NULL ? DT_OK : DT_ERR_NOMEM;
}

/* Logs tensors of model.init that are not loaded. */
static void log_left_out(const dt__run *r, const dt_file *file)
{
    int64_t n = 0;
    for (int64_t i = 0; i < dt_file_count(file); i++) n += dt__is_batch_count(dt_file_at(file, i));
    if (n == 0) return;
    dt__say(r->ctx, "model.init: num_batches_tracked is left out, %lld %s", (long long)n,
            n == 1 ? "tensor" : "tensors");
}

/* Keeps metadata of model.init for the model's files: its tokenizer, unless the data have one, the
 * tokens that begin and end its texts, and a Hugging Face folder's config. */
static dt_status keep_origin(dt__run *r)
{
    dt_file *file;
    if (r->o->model.init == NULL) return DT_OK;
    DT__TRY(dt_file_open(r->ctx, r->o->model.init, &file));
    log_left_out(r, file);
    r->files.describes_init = dt_file_meta(file, DT__KEY_MODEL) != NULL;
    dt_status status = keep_text(file, DT__KEY_HF, &r->files.hf);
    if (status == DT_OK) status = keep_text(file, DT__KEY_TOKENS, &r->files.tokens);
    if (status == DT_OK) status = keep_text(file, DT__KEY_DATA, &r->files.init_data);
    if (status == DT_OK) status = keep_text(file, DT__KEY_TOKENIZER, &r->files.init_tokenizer);
    if (status == DT_OK && r->o->data.tokenizer == NULL) {
        status = keep_text(file, DT__KEY_TOKENIZER, &r->files.tokenizer);
    }
    dt_file_close(file);
    return status;
}

/* Stores the model's special tokens that the data's tokenizer has. */
static dt_status keep_tokens(dt__run *r, const dt_tokenizer *k)
{
    const dt_text_tokens tokens = dt_tokenizer_tokens(k);
    dt__chars t = { .ctx = r->ctx };
    if (r->files.tokens == NULL && dt__text_tokens_none(&tokens))
        return DT_OK; /* metadata without tokens */
    dt__release(r->ctx, r->files.tokens);
    r->files.tokens = NULL;
    dt__text_tokens_put(&t, &tokens);
    if (dt__chars_text(&t) == NULL) {
        dt__release(r->ctx, t.bytes);
        return DT_ERR_NOMEM;
    }
    r->files.tokens = t.bytes;
    return DT_OK;
}

/* Stores the data's tokenizer for the model's files. */
static dt_status keep_tokenizer(dt__run *r)
{
    const dt_tokenizer *k = dt_dataset_tokenizer(r->data.train);
    dt__chars t = { .ctx = r->ctx };
    if (k == NULL) return DT_OK;
    DT__TRY(keep_tokens(r, k));
    dt__release(r->ctx, r->files.tokenizer);
    r->files.tokenizer = NULL;
    dt_status status = dt_tokenizer_text(k, dt__collect, &t);
    if (status == DT_OK && dt__chars_text(&t) == NULL) status = DT_ERR_NOMEM;
    if (status == DT_OK) r->files.tokenizer = t.bytes;
    else dt__release(r->ctx, t.bytes);
    return status;
}

/* Stores metadata about the training examples for the model's files. */
dt_status dt__run_keep_data(dt__run *r)
{
    dt__chars t = { .ctx = r->ctx };
    dt__release(r->ctx, r->files.data);
    r->files.data = NULL;
    dt_status status = dt_model_data_text(r->data.train, dt__collect, &t);
    if (status == DT_OK && t.used > 0 && dt__chars_text(&t) == NULL) status = DT_ERR_NOMEM;
    if (status == DT_OK) r->files.data = t.bytes;
    else dt__release(r->ctx, t.bytes);
    return status;
}

/* Opens the datasets of the recipe, or takes those that the program passes. */
static dt_status open_any(dt__run *r)
{
    const dt_run_control *c = &r->control;
    const bool given = c->train != NULL || c->validation != NULL || c->test != NULL;
    if (r->o->data.format != DT_DATA_GIVEN || r->o->data.source != NULL) {
        if (given) {
            return dt_recipe_refuse(r->recipe, "data.format",
                                    "dt_run was given datasets, which 'data.format' does not "
                                    "choose: it must be 'given', without 'data.source'");
        }
        /* lines may be chats, formatted as for the model */
        const bool lines = r->o->data.format == DT_DATA_JSONL;
        const dt_model_info model = { .tokenizer = r->files.tokenizer,
                                      .tokens = r->files.tokens,
                                      .hf = r->files.hf,
                                      .data = lines ? r->files.init_data : NULL };
        return dt_recipe_open_data(r->recipe, &model, &r->data.train, &r->data.validation,
                                   &r->data.test);
    }
    if (c->train == NULL) {
        return dt_recipe_refuse(r->recipe, "data.format",
                                "'data.format' given: a program gives the datasets to dt_run; "
                                "here there are none");
    }
    r->data.train = c->train;
    r->data.validation = c->validation;
    r->data.test = c->test;
    return DT_OK;
}

static dt_status open_data(dt__run *r)
{
    static const dt_reals none = { .n = 0 };
    const dt_train_options *t = &r->o->train;
    DT__TRY(open_any(r));
    const bool any = t->loss != NULL && dt__loss_kind(t->loss) == DT__LOSS_QUANTILE;
    dt_dataset *const data[] = { r->data.train, r->data.validation, r->data.test };
    for (int i = 0; i < 3; i++) {
        if (data[i] == NULL) continue;
        data[i]->quantiles =
            any && dt_dataset_target(data[i]) == DT_TARGET_VALUES ? t->quantiles : none;
    }
    return DT_OK;
}

static dt_status check_sides(dt__run *r)
{
    const dt_model_options *m = &r->o->model;
    const dt_dataset *const data[] = { r->data.train, r->data.validation, r->data.test };
    for (int i = 0; i < 3; i++) {
        if (data[i] == NULL) continue;
        DT__TRY(dt__recipe_blame(r->recipe, "data", DT_ERR_FORMAT,
                                 dt__check_joined(m->family, m->options, data[i])));
    }
    return DT_OK;
}

static void say_chats(const dt__run *r)
{
    const dt_data_options *o = &r->o->data;
    if (r->data.train->chat != DT_CHAT_AUTO) return;
    if (o->chat == DT_CHAT_AUTO && o->system == NULL) return;
    dt__say(r->ctx,
            "warning: data.%s does nothing: it is of lines of messages, and the data have none",
            o->system != NULL ? "system" : "chat");
}

static dt_status find_metrics(dt__run *r)
{
    return dt__recipe_blame(r->recipe, "train.metrics", DT_ERR_CONFIG,
                            dt__task_metrics(r->data.evaluated, &r->o->train.metrics,
                                             r->data.metric, &r->data.n_metrics));
}

/* What files of the model say of its data; inputs and outputs are in the model's order by now. */
static dt_status keep_said(dt__run *r)
{
    DT__TRY(dt__run_keep_data(r));
    if (!r->files.describes_init) return DT_OK;
    return dt__say_scaling(r->ctx, r->o->model.init, r->files.init_data, r->data.train, true);
}

/* What the run is evaluated on, and its tokens. */
static dt_status take_data(dt__run *r)
{
    DT__TRY(keep_tokenizer(r));
    DT__TRY(dt__say_tokens(r->ctx, r->o->model.init, r->files.init_tokenizer,
                           dt_dataset_tokenizer(r->data.train)));
    r->data.evaluated = r->data.test != NULL         ? r->data.test
                        : r->data.validation != NULL ? r->data.validation
                                                     : r->data.train;
    r->summary->evaluated_on = r->data.evaluated == r->data.test         ? "test"
                               : r->data.evaluated == r->data.validation ? "validation"
                                                                         : "train";
    r->data.task = dt__task_of(r->data.train);
    return DT_OK;
}

static void say_start(const dt__run *r)
{
    const dt_qat_schedule *q = &r->o->qat_schedule;
    dt__run_say_best(r);
    if (q->start_share > 0) {
        dt__say(r->ctx, "qat.start_share is %g: QAT begins at update %lld of %lld", q->start_share,
                (long long)r->data.start, (long long)r->data.steps);
    } else if (q->start_step >= r->data.steps) {
        dt__say(r->ctx,
                "qat.start_step is %lld, but training ends after %lld updates: the float "
                "weights are rounded and converted as they are",
                (long long)q->start_step, (long long)r->data.steps);
    }
}

dt_status dt__run_open(dt__run *r)
{
    static dt__run_test *const tests[] = { check_sides, keep_said, find_metrics,
                                           dt__run_find_objectives, count_updates };
    DT__TRY(keep_origin(r));
    DT__TRY(open_data(r));
    dt__say_layout(r->data.train);
    DT__TRY(dt__say_targets("train", r->data.train));
    DT__TRY(dt__say_targets("validation", r->data.validation));
    DT__TRY(dt__say_targets("test", r->data.test));
    DT__TRY(take_data(r));
    DT__TRY(dt__run_collect_errors(r, tests, DT__COUNT_OF(tests)));
    const bool counted = r->recipe->n_complaints == 0;
    if (counted && r->o->qat.given) say_start(r);
    if (counted) {
        dt__say_length(r);
        say_chats(r);
    }
    dt_seed(r->ctx, (uint64_t)r->o->run.seed);
    return dt__run_check(r);
}

/* ---- a stage -------------------------------------------------------------------------------- */

dt_status dt__run_loader(dt__run *r)
{
    const dt_loader_options options = { .batch_size = r->o->train.batch_size,
                                        .shuffle = true,
                                        .balanced = r->o->train.sampler == DT_SAMPLER_BALANCED,
                                        .seed = (uint64_t)r->o->run.seed,
                                        .augment = r->o->data.augment,
                                        .prompts = r->o->train.mask == DT_MASK_ALL };
    return dt__recipe_blame(r->recipe, options.balanced ? "train.sampler" : "data", DT_ERR_ARG,
                            dt_loader_create(r->data.train, &options, &r->stage.loader));
}

dt_status dt__run_begin_stage(dt__run *r, dt__stage stage)
{
    dt_seed(r->ctx, (uint64_t)r->o->run.seed);
    for (int i = 0; i < DT__COUNTS; i++) r->stage.count[i].value = 0;
    if (stage == DT__BASELINE) {
        for (int i = 0; i < (int)DT__VALUES; i++) r->stage.value[i].value = 0;
    }
    for (int i = 0; i < DT__VALUE_RESULTS; i++) *dt__run_value(r, i) = 0;
    *dt__run_count(r, DT__COUNT_STAGE) = stage;
    DT__TRY(dt__run_model(r, &r->stage.model));
    DT__TRY(dt__run_cut_experts(r));
    DT__TRY(dt__run_optimizer(r));
    if (r->o->qat.given && r->o->qat_schedule.freeze > 0) {
        DT__TRY(dt_freezer_create(r->stage.model, &r->stage.freezer));
    }
    DT__TRY(dt__run_loader(r));
    DT__TRY(dt_tape_create(r->ctx, &r->stage.tape));
    DT__TRY(dt_tensor_create(r->ctx, DT_F32, 0, NULL, &r->stage.share));
    for (int i = 0; i < DT__PARTS; i++) {
        DT__TRY(dt_tensor_create(r->ctx, DT_F32, 0, NULL, &r->stage.part[i]));
    }
    DT__TRY(dt__run_open_weights(r));
    DT__TRY(dt__run_open_buffers(r));
    dt_train(r->stage.model, true);
    dt__run_name_state(r);
    DT__TRY(dt__shards_open(r));
    return dt__run_open_teacher(r, r->stage.model, false);
}

void dt__run_end_stage(dt__run *r)
{
    dt_tape_free(r->stage.tape);
    dt__shards_close(r);
    dt__run_close_buffers(r);
    dt_optimizer_free(r->stage.optimizer);
    dt_freezer_free(r->stage.freezer);
    dt_loader_free(r->stage.loader);
    dt_tensor_free(r->stage.share);
    for (int i = 0; i < DT__PARTS; i++) {
        dt_tensor_free(r->stage.part[i]);
        r->stage.part[i] = NULL;
    }
    dt__run_close_weights(r);
    dt_module_free(r->stage.model);
    dt_module_free(r->stage.teacher);
    r->stage.teacher = NULL;
    r->stage.tape = NULL;
    r->stage.optimizer = NULL;
    r->stage.freezer = NULL;
    r->stage.frozen = (dt_frozen){ 0 };
    r->stage.loader = NULL;
    r->stage.share = NULL;
    r->stage.model = NULL;
}

void dt__run_close(dt__run *r)
{
    dt__release(r->ctx, r->ranks.memory);
    r->ranks.memory = NULL;
    dt__run_end_stage(r);
    dt__spread_close(r->ctx);
    dt_dataset *const data[] = { r->data.train, r->data.validation, r->data.test };
    for (int i = 0; i < 3 && r->control.train == NULL; i++) dt_dataset_free(data[i]);
    for (int i = 0; i < 2; i++) dt__release(r->ctx, r->files.checkpoints[i]);
    DT__RELEASE(r->ctx, r->files.resolved, r->files.base, r->files.hf, r->files.init_data,
                r->files.init_tokenizer, r->files.tokenizer, r->files.tokens, r->files.data);
    if (r->files.metrics >= 0) dt__sys_close(r->files.metrics);
}
