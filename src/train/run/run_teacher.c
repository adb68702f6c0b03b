/* train.distill: distillation from a teacher [Hinton et al. 2015],
 *     loss = (1 - weight) CE(labels) + weight T^2 KL(teacher || model)      (at temperature T)
 *     loss = (1 - weight) distance(target) + weight distance(teacher)       (regression)
 *     + feature_weight sum over layers of mean (output - teacher's)^2   (distill_features.c)
 * The teacher is another model, used from the first update on; or the float weights at
 * qat.start_step. The run writes those to float.safetensors before it prepares the model and loads
 * them from there, so that a resumed run has the same teacher. A checkpoint keeps a hash of it. */
#include "core/tensor.h"
#include "nn/module.h"
#include "train/run/run.h"

#include <detent/experimental/qat.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

bool dt__run_teaches_itself(const dt__run *r)
{
    const dt_distill_settings *d = &r->o->train.distill;
    return d->given && d->teacher == NULL && r->o->qat.given;
}

static dt_status check_language(dt__run *r, const dt_module *m, const char *path)
{
    const dt_language *own = m->type->language, *other = r->stage.teacher->type->language;
    if (own == NULL || other == NULL) {
        return dt_recipe_refuse(r->recipe, "train.distill", "'%s' is not a language model",
                                own == NULL ? "model" : path);
    }
    const int64_t vocab = own->vocab(m), tokens = dt_dataset_context(r->data.train);
    if (other->vocab(r->stage.teacher) != vocab) {
        return dt_recipe_refuse(r->recipe, "train.distill.teacher",
                                "'%s' has a vocabulary of %lld, the model one of %lld", path,
                                (long long)other->vocab(r->stage.teacher), (long long)vocab);
    }
    if (other->context(r->stage.teacher) >= tokens) return DT_OK;
    return dt_recipe_refuse(r->recipe, "train.distill.teacher",
                            "'%s' takes %lld token%s, but examples have %lld", path,
                            (long long)other->context(r->stage.teacher),
                            DT__S(other->context(r->stage.teacher)), (long long)tokens);
}

/* Batches have the inputs and targets of the model one behind the other, in its order. */
static dt_status check_order(dt__run *r, const char *path, const char *what, int n,
                             const char *const *its, const char *const *ours)
{
    for (int i = 0; i < n && n > 1; i++) {
        if (its[i] == NULL || ours[i] == NULL || strcmp(its[i], ours[i]) == 0) continue;
        return dt_recipe_refuse(r->recipe, "train.distill.teacher",
                                "%s %d of '%s' is '%s', of the model '%s': both must have them in "
                                "one order",
                                what, i, path, its[i], ours[i]);
    }
    return DT_OK;
}

static dt_status check_sides(dt__run *r, const dt_model_info *info, const char *path)
{
    const dt_model_options *m = &r->o->model;
    dt_model_sides its, ours;
    if (m->family->sides == NULL || info->family->sides == NULL) return DT_OK;
    DT__TRY(m->family->sides(r->ctx, m->options, &ours));
    DT__TRY(info->family->sides(r->ctx, info->options, &its));
    if (its.n_in != ours.n_in || its.n_out != ours.n_out) return DT_OK; /* refused by the data */
    DT__TRY(check_order(r, path, "input", its.n_in, its.in_name, ours.in_name));
    return check_order(r, path, "output", its.n_out, its.out_name, ours.out_name);
}

/* Checks that the teacher reads the examples and has the outputs of the model. */
static dt_status check_shapes(dt__run *r, const dt_model_info *info, const char *path)
{
    char its[160], ours[160];
    dt_example in, wanted, found;
    const dt_model_options *m = &r->o->model;
    DT__TRY(check_sides(r, info, path));
    DT__TRY(dt__recipe_blame(r->recipe, "train.distill.teacher", DT_ERR_FORMAT,
                             dt__check_examples(r->ctx, path, info, r->data.train)));
    if (m->family->shapes == NULL || info->family->shapes == NULL) return DT_OK;
    DT__TRY(m->family->shapes(r->ctx, m->options, &in, &wanted));
    DT__TRY(info->family->shapes(r->ctx, info->options, &in, &found));
    dt__dims_text(wanted.rank, wanted.dims, ours, sizeof ours);
    dt__dims_text(found.rank, found.dims, its, sizeof its);
    if (strcmp(its, ours) == 0) return DT_OK;
    return dt_recipe_refuse(r->recipe, "train.distill.teacher",
                            "'%s' has outputs %s, the model has %s", path, its, ours);
}

dt_status dt__run_check_features(dt__run *r, dt_module *m, const char *whose)
{
    const dt_strings *names = &r->o->train.distill.features;
    for (int i = 0; i < names->n; i++) {
        const char *name = names->v[i], *words = NULL;
        const dt_module *layer = dt_module_at(m, name);
        if (layer == NULL) words = "there is no such layer";
        else if (layer->folding != DT__APART) {
            words = "its norm is folded into it: name the norm, or the block of both";
        } else if (m->form.run != NULL) words = "its network runs as a whole, as integers alone";
        if (words == NULL) continue;
        char key[48];
        snprintf(key, sizeof key, "train.distill.features.%d", i);
        return dt_recipe_refuse(r->recipe, key, "'%s': '%s' of %s: %s", key, name, whose, words);
    }
    return DT_OK;
}

static dt_status load(dt__run *r, const dt_module *m, const char *path)
{
    dt_model_info info;
    DT__TRY(dt_model_load(r->ctx, path, &r->stage.teacher, &info));
    dt_train(r->stage.teacher, false);
    dt_status status = r->data.task == &dt__task_tokens ? check_language(r, m, path)
                                                        : check_shapes(r, &info, path);
    if (status == DT_OK) status = dt__run_check_features(r, r->stage.teacher, "the teacher");
    if (status == DT_OK && info.data != NULL && r->stage.tape == NULL) { /* once, before training */
        status = dt__say_scaling(r->ctx, path, info.data, r->data.train, true);
    }
    if (status == DT_OK && r->stage.tape == NULL) {
        status = dt__say_tokens(r->ctx, path, info.tokenizer, dt_dataset_tokenizer(r->data.train));
    }
    dt_model_info_free(r->ctx, &info);
    return status;
}

/* Hash of the values of parameters and buffers; positive, as all counters are. */
static dt_status hash_of(dt_module *teacher, int64_t *out)
{
    uint64_t hash = 0;
    dt_status s = DT_OK;
    DT__EACH_ENTRY(m, e, teacher) {
        dt_tensor *values = NULL;
        if (s == DT_OK && (dt_is_packed(e->x) || dt_is_fake_quant(e->x))) {
            s = dt_dequantize(e->x, &values);
        }
        const dt_tensor *x = values == NULL ? e->x : values;
        if (s == DT_OK) hash = XXH3_64bits_withSeed(dt__values(x), dt__bytes_of(x), hash);
        dt_tensor_free(values);
    }
    *out = (int64_t)(hash >> 2) + 1;
    return s;
}

dt_status dt__run_check_teacher(dt__run *r)
{
    int64_t hash, *was = dt__run_count(r, DT__COUNT_TEACHER_HASH);
    if (r->stage.teacher == NULL) return DT_OK;
    DT__TRY(hash_of(r->stage.teacher, &hash));
    if (*was == 0) *was = hash;
    if (*was == hash) return DT_OK;
    const char *path = r->o->train.distill.teacher;
    return dt_fail(r->ctx, DT_ERR_FORMAT,
                   "%s: the teacher is another one than before the run was interrupted; restore "
                   "it, or begin a new run, which may take the weights of this one by model.init",
                   path == NULL ? "float.safetensors in run.dir" : path);
}

static dt_status open_teacher(dt__run *r, const dt_module *m, bool prepared)
{
    char path[DT__RUN_PATH];
    const dt_distill_settings *d = &r->o->train.distill;
    if (!d->given || r->stage.teacher != NULL) return DT_OK;
    if (d->teacher != NULL) return load(r, m, d->teacher);
    if (!prepared || !dt__run_teaches_itself(r)) return DT_OK;
    DT__TRY(dt__run_path(r, "float.safetensors", path));
    return load(r, m, path);
}

dt_status dt__run_open_teacher(dt__run *r, const dt_module *m, bool prepared)
{
    DT__TRY(open_teacher(r, m, prepared));
    return dt__run_check_teacher(r);
}
