/* The classes of a model, by which labels are read; warnings for classes that a part of the data
 * lacks, and for constant targets. */
#include "core/text/json.h"
#include "core/text/number.h"
#include "data/alike.h"
#include "data/joined.h"
#include "data/splits/leaks.h"
#include "data/tables/csv.h"
#include "data/tables/database.h"
#include "io/hf/hf.h"
#include "train/recipe/recipe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what a model tells apart --------------------------------------------------------------- */

static int64_t first_of(const dt_example *e) { return e->rank >= 1 ? e->dims[0] : 0; }

/* The numbers of classes, by the shapes of outputs. */
static dt_status count_classes(dt_ctx *ctx, const dt_family *family, const void *options,
                               dt_data_options *o)
{
    dt_example in, out;
    dt_model_sides sides = { .n_out = 0 };
    if (family == NULL) return DT_OK;
    if (o->n_outputs > 0 && family->sides != NULL) {
        DT__TRY(family->sides(ctx, options, &sides));
        for (int64_t i = 0; i < o->n_outputs; i++) {
            for (int k = 0; k < sides.n_out; k++) {
                const char *name = sides.out_name[k];
                if (name == NULL || strcmp(name, o->outputs[i].name) != 0) continue;
                o->outputs[i].classes.n = first_of(&sides.out[k]);
            }
        }
    } else if (family->shapes != NULL) {
        DT__TRY(family->shapes(ctx, options, &in, &out));
        o->classes.n = first_of(&out);
        if (o->n_outputs == 1) o->outputs[0].classes.n = o->classes.n;
    }
    return DT_OK;
}

static void name_classes(dt_class_names *c, const dt_model_data *of)
{
    if (of->target == NULL || strcmp(of->target, "classes") != 0 || of->n_names == 0) return;
    *c = (dt_class_names){ of->n_names, of->names };
}

/* Whether the data are tables with a CSV form; databases have a fixed form. */
static bool has_forms(const dt_data_options *o)
{
    const dt_strings *x = o->test_tensors.x.n > 0 ? &o->test_tensors.x : &o->train_tensors.x;
    return x->n > 0 && dt__database_length(x->v[0]) == 0;
}

/* Takes class names, and columns of tables, from `data`, which owns them. */
static void take_names(const dt_model_data *data, dt_data_options *o)
{
    name_classes(&o->classes, data);
    o->columns.fitted = data->table;
    const dt_csv_form *form = data->n_inputs > 0 ? &data->inputs[0].csv : &data->csv;
    if (has_forms(o)) dt__csv_take_form(&o->columns, form);
    if (o->n_outputs == 1) name_classes(&o->outputs[0].classes, data);
    for (int64_t i = 0; i < o->n_outputs; i++) {
        for (int k = 0; k < data->n_outputs; k++) {
            if (strcmp(data->outputs[k].name, o->outputs[i].name) != 0) continue;
            name_classes(&o->outputs[i].classes, &data->outputs[k]);
        }
    }
}

/* ---- opening -------------------------------------------------------------------------------- */

/* The index of a class of the model; -1: no class with this name. */
static int64_t named(const dt_model_data *m, const char *name)
{
    int64_t k = 0;
    while (k < m->n_names && strcmp(m->names[k], name) != 0) k++;
    return k < m->n_names ? k : -1;
}

/* Folders define the class indices: FORMAT if the model's are different, and a warning for a class
 * that the model does not have. */
static dt_status compare_names(const dt_dataset *d, const dt_model_data *m)
{
    if (d == NULL || d->joined != NULL || d->target != DT_TARGET_CLASS || m->n_names == 0) {
        return DT_OK;
    }
    for (int64_t c = 0; c < d->classes; c++) {
        char shown[DT__SHOWN], other[DT__SHOWN];
        const char *name = dt_dataset_class_name(d, c);
        if (name == NULL) return DT_OK;
        const int64_t k = named(m, name);
        if (k == c || (c < m->n_names && strcmp(m->names[c], name) == 0)) continue;
        if (k >= 0) {
            return dt_fail(d->ctx, DT_ERR_FORMAT,
                           "'%s' is class %lld of the data, but class %lld of the model: the data "
                           "must have a folder for each class of the model, in its order",
                           dt__shown(name, shown), (long long)c, (long long)k);
        }
        dt__say(d->ctx, "warning: class %lld of the data is '%s', of the model '%s'", (long long)c,
                dt__shown(name, shown), c < m->n_names ? dt__shown(m->names[c], other) : "none");
    }
    return DT_OK;
}

/* The chat format of the model's training data, or its chat template, which the caller frees. */
static dt_status ask_chats(dt_recipe *r, const dt_model_info *model, const dt_model_data *data,
                           dt_data_options *o)
{
    char *text = NULL;
    if (o->chat != DT_CHAT_AUTO) return DT_OK;
    if (data->chat != DT_CHAT_AUTO) {
        o->chat = data->chat;
        if (o->system == NULL) o->system = data->system;
        return DT_OK;
    }
    if (model->hf != NULL) DT__TRY(dt__hf_chat_template(r->ctx, model->hf, &text));
    o->given_template = text;
    return DT_OK;
}

/* Takes settings from the metadata of a model that is read from a file, to `data` and o. */
static dt_status ask_model(dt_recipe *r, const dt_model_info *model, dt_model_data *data,
                           dt_data_options *o)
{
    const bool tensors = o->format == DT_DATA_TENSORS;
    o->given = model->tokenizer;
    o->given_tokens = model->tokens;
    if (tensors) DT__TRY(count_classes(r->ctx, model->family, model->options, o));
    if (model->data != NULL) {
        DT__TRY(dt_model_data_parse(r->ctx, model->data, "the model", data));
        take_names(data, o);
    }
    return o->format == DT_DATA_JSONL ? ask_chats(r, model, data, o) : DT_OK;
}

static void take_reals(int64_t n, const double *v, dt_reals *out)
{
    out->n = (int)n;
    for (int i = 0; i < out->n; i++) out->v[i] = v[i];
}

/* Reports that an evaluation decides by thresholds instead of the largest output. */
static void say_thresholds(dt_ctx *ctx, const dt_model_data *m)
{
    if (m->n_thresholds == 1) {
        dt__say(ctx,
                "class 1 is found above a probability of %.4f, the model's threshold "
                "(train.threshold)",
                1 / (1 + exp(-(double)m->thresholds[0])));
    } else if (m->n_thresholds > 1) {
        dt__say(ctx, "what is found is decided by the model's thresholds (train.threshold)");
    }
}

/* Sets quantiles and thresholds of the model. */
static void take_decisions(const dt_model_data *m, dt_dataset *d)
{
    if (d == NULL || d->joined != NULL) return;
    const bool labels = d->target == DT_TARGET_CLASS || d->target == DT_TARGET_BITS;
    take_reals(d->target == DT_TARGET_VALUES ? m->n_quantiles : 0, m->quantiles, &d->quantiles);
    take_reals(labels ? m->n_thresholds : 0, m->thresholds, &d->thresholds);
}

/* Warns of classes of the model that the data lack. */
static dt_status compare_classes(const dt_model_data *m, bool trains, const dt_dataset *validation,
                                 const dt_dataset *test)
{
    if (!trains) DT__TRY(compare_names(test != NULL ? test : validation, m));
    return test != NULL ? dt__say_targets("test", test) : dt__say_targets("validation", validation);
}

dt_status dt_recipe_open_data(dt_recipe *r, const dt_model_info *model, dt_dataset **train,
                              dt_dataset **validation, dt_dataset **test)
{
    DT__NEED3(NULL, r, validation, test);
    dt_model_data data = { .target = NULL };
    dt_data_options o = r->options.data;
    const dt_model_options *own = &r->options.model;
    const bool read = model != NULL && model->family != NULL;
    const bool told = model != NULL && model->data != NULL; /* exported files have no family */
    dt_status s = model == NULL ? DT_OK : ask_model(r, model, &data, &o);
    if (s == DT_OK && !read && !r->only_quantizes && o.format == DT_DATA_TENSORS) {
        s = count_classes(r->ctx, own->family, own->options, &o);
    }
    if (s == DT_OK) s = dt__recipe_open_options(r, &o, train, validation, test);
    if (s == DT_OK && told) {
        if (train == NULL) say_thresholds(r->ctx, &data);
        take_decisions(&data, *validation);
        take_decisions(&data, *test);
    }
    if (s == DT_OK && told) s = compare_classes(&data, train != NULL, *validation, *test);
    if (s == DT_OK && train != NULL && !r->only_quantizes) {
        s = dt__say_leaks((const dt_dataset *const[]){ *train, *validation, *test });
    }
    dt_model_data_free(r->ctx, &data);
    dt__release(r->ctx, (void *)(uintptr_t)o.given_template);
    return s;
}

/* ---- classes without examples --------------------------------------------------------------- */

#define SHOWN 8 /* classes named in a warning */

static void add_name(const dt_dataset *d, int64_t c, bool first, char *text, size_t size)
{
    char shown[DT__SHOWN];
    const char *name = dt_dataset_class_name(d, c);
    const size_t used = strlen(text);
    const char *comma = first ? "" : ", ";
    if (name == NULL) snprintf(text + used, size - used, "%s%lld", comma, (long long)c);
    else snprintf(text + used, size - used, "%s%s", comma, dt__shown(name, shown));
}

static dt_status say_missing(const char *part, const char *output, const dt_dataset *d)
{
    char names[SHOWN * (DT__SHOWN + 4)] = "";
    int64_t missing = 0;
    if (d->target != DT_TARGET_CLASS || d->kind->label == NULL || d->count == 0) return DT_OK;
    uint8_t *seen = dt__alloc_zero(d->ctx, (size_t)dt__max_i64(1, d->classes));
    if (seen == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < d->count; i++) seen[d->kind->label(d, i)] = 1;
    for (int64_t c = 0; c < d->classes; c++) {
        if (seen[c]) continue;
        if (missing < SHOWN) add_name(d, c, missing == 0, names, sizeof names);
        missing++;
    }
    dt__release(d->ctx, seen);
    if (missing == 0) return DT_OK;
    dt__say(d->ctx, "warning: data.%s%s%s has no example of %lld of %lld classes: %s%s", part,
            output == NULL ? "" : ", output ", output == NULL ? "" : output, (long long)missing,
            (long long)d->classes, names, missing > SHOWN ? ", ..." : "");
    return DT_OK;
}

/* ---- targets that are always the same ------------------------------------------------------- */

static bool has_labels(const dt_dataset *d)
{
    return d->target == DT_TARGET_CLASS && d->kind->label != NULL;
}

/* Number k of the target of example i, or its class. */
static double target_of(const dt_dataset *d, int64_t i, int64_t k)
{
    return has_labels(d) ? d->kind->label(d, i)
                         : (double)((const float *)dt__array_target(d, i))[k];
}

static bool is_same(const dt_dataset *d, int64_t k)
{
    int64_t i = 1;
    while (i < d->count && target_of(d, i, k) == target_of(d, 0, k)) i++;
    return i >= d->count && d->count > 1;
}

/* Formats "the target 'b' is 0" and the like. */
static void describe_same(const dt_dataset *d, int64_t k, char *text, size_t size)
{
    char value[DT__SHOWN + 4] = "", shown[DT__SHOWN];
    const char *name = has_labels(d) ? NULL : dt_dataset_class_name(d, k);
    if (has_labels(d)) add_name(d, d->kind->label(d, 0), true, value, sizeof value);
    else dt__print_real(target_of(d, 0, k), value);
    snprintf(text, size, "%s%s%s%s is %s", has_labels(d) ? "the class" : "the target",
             name == NULL ? "" : " '", name == NULL ? "" : dt__shown(name, shown),
             name == NULL ? "" : "'", value);
}

/* Warns that all targets are the same value or class; false if they are not. */
static bool say_same(const char *part, const char *output, const dt_dataset *d)
{
    char text[2 * DT__SHOWN + 60], others[60] = "";
    const bool numbers = d->target == DT_TARGET_VALUES || d->target == DT_TARGET_BITS;
    const int64_t columns = has_labels(d)                  ? 1
                            : numbers && d->arrays != NULL ? d->arrays->outputs
                                                           : 0;
    int64_t same = 0;
    for (int64_t k = 0; k < columns; k++) {
        if (is_same(d, k) && same++ == 0) describe_same(d, k, text, sizeof text);
    }
    if (same == 0) return false;
    if (same > 1) {
        snprintf(others, sizeof others, " (%lld more are the same everywhere)",
                 (long long)same - 1);
    }
    dt__say(d->ctx,
            "warning: data.%s%s%s: %s in all of %lld %s%s: a model that ignores its input is right "
            "there, so its results say nothing",
            part, output == NULL ? "" : ", output ", output == NULL ? "" : output, text,
            (long long)d->count, dt__dataset_examples(d), others);
    return true;
}

void dt__say_layout(const dt_dataset *d)
{
    const dt__array_store *s = d->arrays;
    if (s == NULL || s->rank != 3 || s->channels_last || s->dims[2] > 4) return;
    if (s->dims[0] <= 4 || s->dims[1] <= 4) return;
    char text[160];
    dt__say(d->ctx,
            "data.train: examples %s are read as %lld channels; data.layout: nhwc reads [height, "
            "width, channels]",
            dt__dims_text(s->rank, s->dims, text, sizeof text), (long long)s->dims[0]);
}

/* Whether a name is a number such as 3,14. */
static bool has_decimal_comma(const char *name)
{
    const char *c = name + (*name == '-' || *name == '+');
    const size_t whole = strspn(c, "0123456789");
    return whole > 0 && c[whole] == ',' && c[whole + 1] != 0 &&
           strspn(c + whole + 1, "0123456789") == strlen(c + whole + 1);
}

/* Warns that most classes look like numbers with a decimal comma; false if they do not. */
static bool say_commas(const char *part, const dt_dataset *d)
{
    int64_t n = 0;
    const char *one = NULL;
    for (int64_t c = 0; d->target == DT_TARGET_CLASS && c < d->classes; c++) {
        const char *name = dt_dataset_class_name(d, c);
        if (name == NULL || !has_decimal_comma(name)) continue;
        if (n == 0) one = name;
        n++;
    }
    if (one == NULL || 2 * n < d->classes) return false;
    if (strcmp(part, "train") != 0) return true; /* warned already */
    char shown[DT__SHOWN];
    dt__say(d->ctx,
            "warning: data.train: %lld of %lld classes, such as '%s', look like numbers with a "
            "decimal comma; numbers to predict (data.task: regression) are written with a point",
            (long long)n, (long long)d->classes, dt__shown(one, shown));
    return true;
}

/* Warns of similar class names, for the training data only: other parts have the same classes. */
static dt_status say_alike(const char *part, const dt_dataset *d)
{
    if (!has_labels(d) || strcmp(part, "train") != 0) return DT_OK;
    const char **name = dt__alloc_zero(d->ctx, (size_t)dt__max_i64(1, d->classes) * sizeof *name);
    if (name == NULL) return DT_ERR_NOMEM;
    for (int64_t c = 0; c < d->classes; c++) name[c] = dt_dataset_class_name(d, c);
    const dt__name_list list = { "data.train", "classes",
                                 "examples without a class are to be left out", name, d->classes };
    const dt_status s = dt__say_alike(d->ctx, &list);
    dt__release(d->ctx, name);
    return s;
}

static dt_status say_targets(const char *part, const char *output, const dt_dataset *d)
{
    DT__TRY(say_alike(part, d));
    const bool one_class = say_same(part, output, d) && has_labels(d);
    return one_class || say_commas(part, d) ? DT_OK : say_missing(part, output, d);
}

dt_status dt__say_targets(const char *part, const dt_dataset *d)
{
    if (d == NULL) return DT_OK;
    const dt__joined *j = d->joined;
    if (j == NULL) return say_targets(part, NULL, d);
    for (int i = 0; i < j->n_outputs; i++) {
        const dt_dataset view = dt__joined_view(d, &j->output[i]);
        DT__TRY(say_targets(part, j->n_outputs > 1 ? j->output[i].name : NULL, &view));
    }
    return DT_OK;
}
