/* Opens arrays with several inputs and outputs (data.inputs, data.outputs). Each input is read
 * together with the targets of the first output, and each further output with the x of the first
 * input, so that the readers check that numbers of examples agree. Then they are joined. */
#include "core/block_list.h"
#include "core/text/ending.h"
#include "data/joined.h"
#include "data/tables/tables.h"

#include <detent/experimental/tables.h>

#include <stdio.h>
#include <string.h>

typedef struct opening {
    dt_ctx *ctx;
    const dt_data_options *o;
    void *names;             /* memory of FILE:TENSOR */
    int n_inputs, n_outputs; /* at least 1 */
    dt_dataset *input[DT_MAX_SHAPES][3], *output[DT_MAX_JOINED][3];
    dt__tables tables; /* readings for all pairs: inputs, then further outputs */
    dt_csv_options columns[DT__MOST_READINGS];
} opening;

/* Makes the name FILE:TENSOR; the file's format must allow several tensors. */
static dt_status name_tensor(opening *a, const char *key, const char *file, const char *tensor,
                             const char **out)
{
    if (!dt__ends_in(file, ".npz") && !dt__ends_in(file, ".safetensors")) {
        return dt_fail(
            a->ctx, DT_ERR_CONFIG,
            "%s: '%s' names no file that holds several arrays; .npz, .safetensors (without :NAME, "
            "which data.inputs and data.outputs give) or .csv is required",
            key, file);
    }
    const size_t n = strlen(file) + strlen(tensor) + 2;
    char *name = dt__block_list_add(a->ctx, &a->names, n);
    if (name == NULL) return DT_ERR_NOMEM;
    snprintf(name, n, "%s:%s", file, tensor);
    *out = name;
    return DT_OK;
}

/* The files of a part, for one input and one output. */
static dt_status name_files(opening *a, const char *key, const dt_data_input *in,
                            const dt_data_output *out, dt_tensor_files *f)
{
    const dt_tensor_files all = *f;
    if (!all.given) return DT_OK;
    const bool table = dt_is_table(all.x.v[0]);
    if (out != NULL && all.y == NULL && !table && all.x.n != 1) {
        return dt_fail(a->ctx, DT_ERR_CONFIG,
                       "%s: %d files of x; expected one, which holds the outputs too, or %s.y", key,
                       all.x.n, key);
    }
    for (int i = 0; i < all.x.n && in != NULL && !table; i++) {
        const char *tensor = in->tensor == NULL ? in->name : in->tensor;
        DT__TRY(name_tensor(a, key, all.x.v[i], tensor, &f->x.v[i]));
    }
    if (out == NULL || (table && all.y == NULL)) return DT_OK;
    const char *tensor = out->tensor == NULL ? out->name : out->tensor;
    const char *file = all.y != NULL ? all.y : all.x.v[0];
    return name_tensor(a, key, file, tensor, &f->y);
}

static void name_columns(const char *name, const dt_strings *given, dt_strings *columns)
{
    *columns = given->n > 0 ? *given : (dt_strings){ 1, { name } };
}

/* An input (NULL: data.train.x) and an output (NULL: its targets), read together. */
typedef struct pair {
    const dt_data_input *in;
    const dt_data_output *out;
} pair;

static int count_pairs(const opening *a) { return a->n_inputs + a->n_outputs - 1; }

static pair pair_of(const opening *a, int i)
{
    const dt_data_options *o = a->o;
    const int in = i < a->n_inputs ? i : 0, out = i < a->n_inputs ? 0 : i - a->n_inputs + 1;
    return (pair){ o->n_inputs > 0 ? &o->inputs[in] : NULL,
                   o->n_outputs > 0 ? &o->outputs[out] : NULL };
}

/* The columns of a table that a pair uses. */
static dt_csv_options columns_of(const opening *a, const pair *p)
{
    dt_csv_options c = a->o->columns;
    if (p->in != NULL) name_columns(p->in->name, &p->in->columns, &c.inputs);
    if (p->out == NULL) return c;
    name_columns(p->out->name, &p->out->columns, &c.target);
    const dt_tensor_files *train = &a->o->train_tensors;
    if (train->y != NULL || !dt_is_table(train->x.v[0])) c.target = (dt_strings){ .n = 0 };
    return c;
}

/* Lets pairs share the inputs or the targets of the first pair. */
static void plan_tables(opening *a)
{
    a->tables = (dt__tables){ .ctx = a->ctx, .n = count_pairs(a) };
    for (int i = 0; i < a->tables.n; i++) {
        const pair p = pair_of(a, i);
        const dt__csv *first = i == 0 ? NULL : &a->tables.reading[0];
        a->columns[i] = columns_of(a, &p);
        a->tables.reading[i] = (dt__csv){
            .ctx = a->ctx,
            .options = &a->columns[i],
            .target = dt__target_of_task(p.out == NULL ? a->o->task : p.out->task),
            .labels = { .known = p.out == NULL ? a->o->classes : p.out->classes },
            .x_of = i >= a->n_inputs ? first : NULL,
            .y_of = i < a->n_inputs ? first : NULL,
        };
    }
}

static dt_status open_pair(opening *a, int i, dt_dataset *data[3])
{
    dt_data_options o = *a->o;
    const pair p = pair_of(a, i);
    dt_tensor_files *const files[] = { &o.train_tensors, &o.validation_tensors, &o.test_tensors };
    static const char *const keys[] = { "data.train", "data.validation", "data.test" };
    dt_dataset **const to[] = { &data[0], &data[1], &data[2] };
    o.n_inputs = o.n_outputs = 0;
    for (int k = 0; k < 3; k++) DT__TRY(name_files(a, keys[k], p.in, p.out, files[k]));
    if (p.out != NULL) o.task = p.out->task;
    if (p.out != NULL) o.classes = p.out->classes;
    if (i >= a->n_inputs) o.standardize = o.standard.given = false; /* its x is not used */
    o.columns = a->columns[i];
    return dt__open_with_tables(&o, &a->tables, i, to);
}

static dt_status open_pairs(opening *a)
{
    plan_tables(a);
    for (int i = 0; i < count_pairs(a); i++) {
        const int output = i - a->n_inputs + 1;
        DT__TRY(open_pair(a, i, i < a->n_inputs ? a->input[i] : a->output[output]));
    }
    return DT_OK;
}

static dt_status join_part(const opening *a, int which, dt_dataset **out)
{
    dt_join j = { .n_inputs = a->n_inputs, .n_outputs = a->n_outputs };
    const dt_data_options *o = a->o;
    if (a->input[0][which] == NULL) return DT_OK;
    for (int i = 0; i < j.n_inputs; i++) {
        j.input[i] =
            (dt_joined_input){ o->n_inputs > 0 ? o->inputs[i].name : "input", a->input[i][which] };
    }
    for (int i = 0; i < j.n_outputs; i++) {
        const dt_data_output *from = &o->outputs[i];
        j.output[i] = (dt_joined_output){ .name = "output",
                                          .weight = 1,
                                          .class_weights = { .n = DT_WEIGHTS_NONE } };
        if (o->n_outputs > 0) {
            j.output[i] = (dt_joined_output){ from->name,        NULL,
                                              from->weight,      from->loss,
                                              from->huber_delta, from->class_weights };
        }
        j.output[i].data = i == 0 ? a->input[0][which] : a->output[i][which];
        if (which != 0) j.output[i].class_weights.n = DT_WEIGHTS_NONE; /* for training only */
    }
    const dt_status s = dt_dataset_join(a->ctx, &j, out);
    if (s != DT_ERR_ARG) return s;
    char words[DT__MESSAGE_SIZE];
    strcpy(words, dt_error(a->ctx));
    return dt_fail(a->ctx, DT_ERR_CONFIG, "data.%s: %s", o->n_inputs > 0 ? "inputs" : "outputs",
                   words);
}

static dt_status check(const opening *a)
{
    const dt_data_options *o = a->o;
    if (!o->train_tensors.given || o->train_tensors.x.n < 1) {
        return dt_fail(a->ctx, DT_ERR_CONFIG,
                       "data.train: expected files {x: FILE} with the arrays that data.inputs and "
                       "data.outputs name");
    }
    for (int64_t i = 0; i < o->n_outputs; i++) {
        const int task = o->outputs[i].task;
        if (task == DT_DATA_CLASSIFICATION || task == DT_DATA_REGRESSION ||
            task == DT_DATA_MULTI_LABEL) {
            continue;
        }
        return dt_fail(a->ctx, DT_ERR_CONFIG,
                       "data.outputs.%lld.task: expected classification, regression or multi_label",
                       (long long)i);
    }
    const bool table = dt_is_table(o->train_tensors.x.v[0]);
    if (!table || o->n_inputs > 0 || o->columns.inputs.n > 0) return DT_OK;
    return dt_fail(a->ctx, DT_ERR_CONFIG,
                   "data.columns.inputs: with data.outputs it must say which columns are inputs");
}

dt_status dt__open_joined(dt_ctx *ctx, const dt_data_options *o, dt_dataset **const out[3])
{
    opening a = { .ctx = ctx,
                  .o = o,
                  .n_inputs = (int)dt__max_i64(1, o->n_inputs),
                  .n_outputs = (int)dt__max_i64(1, o->n_outputs) };
    dt_status s = check(&a);
    if (s == DT_OK) s = open_pairs(&a);
    for (int i = 0; i < 3 && s == DT_OK; i++) s = join_part(&a, i, out[i]);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < a.n_inputs; k++) dt_dataset_free(a.input[k][i]);
        for (int k = 1; k < a.n_outputs; k++) dt_dataset_free(a.output[k][i]);
    }
    dt__tables_free(&a.tables);
    dt__block_list_free(ctx, &a.names);
    return s;
}
