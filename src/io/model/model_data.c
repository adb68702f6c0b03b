/* Metadata about the data a model was trained on, by which a program can use the model without
 * other files:
 *
 *     detent.data = { "target": "classes", "input": [3, 64], "axis": 0,
 *                     "mean": [0.1, ...], "deviation": [1.2, ...], "names": ["rest", ...],
 *                     "columns": ["age", ...], "table": [{ "name": "age", ... }, ...],
 *                     "csv": { "decimal": ",", ... },
 *                     "pixels": true, "resized": true, "rate": 16000, "channels_last": true,
 *                     "features": { "kind": "mfcc", ... }, "samples": 8000,
 *                     "series": { "by": ["subject"], "time": "when", ... }, "stride": 64,
 *                     "output": [4], "meaning": "logits", "quantiles": [0.1, ...],
 *                     "thresholds": [0.3, ...],
 *                     "inputs": [{ "name": "left", "input": [16], ... }, ...],
 *                     "outputs": [{ "name": "kind", "target": "classes", ... }, ...] }
 *
 *     detent.data = { "target": "tokens", "prompt": "Q: {question}", "completion": "{answer}" }
 *     detent.data = { "target": "tokens", "chat": "chatml", "system": "You answer in verse." }
 *
 * Only target is required and, unless target is tokens, input. A model with several inputs or
 * outputs lists them in `inputs` or `outputs`; `input` and `output` are then the shapes of packed
 * examples and outputs, in this order. */
#include "core/block_list.h"
#include "data/arrays.h"
#include "data/columns/columns.h"
#include "data/data_options.h"
#include "data/joined.h"
#include "data/signals/features.h"
#include "data/text/prompt_format.h"
#include "io/model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const targets[] = {
    [DT_TARGET_CLASS] = "classes",   [DT_TARGET_IMAGE] = "images",    [DT_TARGET_MASK] = "masks",
    [DT_TARGET_TOKENS] = "tokens",   [DT_TARGET_VALUES] = "values",   [DT_TARGET_BITS] = "bits",
    [DT_TARGET_ANOMALY] = "anomaly", [DT_TARGET_SEVERAL] = "several",
};

/* What the numbers of an output mean. */
static const char *const meanings[] = {
    [DT_TARGET_CLASS] = "logits", [DT_TARGET_IMAGE] = "image",
    [DT_TARGET_MASK] = "logits",  [DT_TARGET_VALUES] = "values",
    [DT_TARGET_BITS] = "logits",  [DT_TARGET_ANOMALY] = "reconstruction",
};

/* ---- writing --------------------------------------------------------------------------------- */

static void put_reals(dt__chars *t, const char *name, int64_t n, const double *v)
{
    DT__PUT_ALL(t, ", \"", name);
    dt__put_text(t, "\": [");
    for (int64_t i = 0; dt__put_each(t, i, n); i++) dt__put_real(t, v[i]);
    dt__put_text(t, "]");
}

static void put_axis(dt__chars *t, int axis) { DT__PUT_ALL(t, ", \"axis\": ", axis); }

static void put_standard(dt__chars *t, const dt_dataset *d)
{
    const double *mean, *deviation;
    const dt_reals *pixels[] = { &d->mean, &d->deviation };
    if (dt_dataset_standard(d, &mean, &deviation)) {
        put_axis(t, d->arrays->axis);
        put_reals(t, "mean", dt_dataset_array_channels(d), mean);
        put_reals(t, "deviation", dt_dataset_array_channels(d), deviation);
    } else if (d->mean.n > 0 || d->deviation.n > 0) {
        double v[DT_MAX_REALS];
        const int n = (int)dt__max_i64(d->mean.n, d->deviation.n);
        put_axis(t, 0);
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < n; i++) {
                v[i] = pixels[k]->n == 0 ? k : pixels[k]->v[pixels[k]->n == 1 ? 0 : i];
            }
            put_reals(t, k == 0 ? "mean" : "deviation", n, v);
        }
    }
}

/* Writes the name of quantile i of a target, such as "price q0.9". */
static void put_level(dt__chars *t, const dt_dataset *d, int64_t i)
{
    dt__chars own = { .ctx = d->ctx };
    const int64_t target = i / d->quantiles.n;
    const char *name = dt_dataset_class_name(d, target);
    if (name != NULL) dt__put_text(&own, name);
    else dt__put_integer(&own, target);
    DT__PUT_ALL(&own, " q", d->quantiles.v[i % d->quantiles.n]);
    const char *text = dt__chars_text(&own);
    if (text == NULL) t->failed = true;
    else dt__put_quoted(t, text);
    dt__release(d->ctx, own.bytes);
}

/* Number of the model's outputs. */
static int64_t outputs_of(const dt_dataset *d)
{
    return dt_dataset_outputs(d) * dt__max_i64(1, d->quantiles.n);
}

static void put_names(dt__chars *t, const dt_dataset *d)
{
    if (dt_dataset_class_name(d, 0) == NULL && d->quantiles.n == 0) return;
    dt__put_text(t, ", \"names\": [");
    for (int64_t i = 0; dt__put_each(t, i, outputs_of(d)); i++) {
        const char *name = dt_dataset_class_name(d, i);
        if (d->quantiles.n > 0) put_level(t, d, i);
        else dt__put_quoted(t, name == NULL ? "" : name);
    }
    dt__put_text(t, "]");
}

static void put_columns(dt__chars *t, const dt__array_store *s)
{
    if (s == NULL || s->column_name == NULL) return;
    dt__put_text(t, ", \"columns\": [");
    for (int64_t i = 0; dt__put_each(t, i, s->n_columns); i++) dt__put_quoted(t, s->column_name[i]);
    dt__put_text(t, "]");
}

/* Writes how files are read as examples. */
static void put_reading(dt__chars *t, const dt_dataset *d)
{
    put_columns(t, d->arrays);
    if (dt__array_fields(d) != NULL) {
        dt__put_text(t, ", \"table\": ");
        dt__columns_put(t, dt__array_fields(d));
    }
    if (d->arrays != NULL && d->arrays->is_table) {
        dt__put_text(t, ", \"csv\": ");
        dt__put_options(t, dt__csv_form_keys, &d->arrays->form);
    }
    if (dt_dataset_channels(d) > 0) dt__put_text(t, ", \"pixels\": true");
    if (d->resized) dt__put_text(t, ", \"resized\": true");
    if (d->arrays != NULL && d->arrays->channels_last) {
        dt__put_text(t, ", \"channels_last\": true");
    }
    if (dt_dataset_rate(d) > 0) {
        DT__PUT_ALL(t, ", \"rate\": ", dt_dataset_rate(d));
    }
    if (d->arrays != NULL && d->arrays->series.given) {
        dt__put_text(t, ", \"series\": ");
        dt__put_options(t, dt__series_keys, &d->arrays->series);
        DT__PUT_ALL(t, ", \"stride\": ", d->arrays->stride);
    }
    if (d->arrays == NULL || d->arrays->features.kind == DT_FEATURES_NONE) return;
    dt__put_text(t, ", \"features\": ");
    dt__put_options(t, dt__features_keys, &d->arrays->features);
    DT__PUT_ALL(t, ", \"samples\": ", d->arrays->samples);
}

static void put_dims(dt__chars *t, const char *name, int rank, const int64_t *dims)
{
    DT__PUT_ALL(t, ", \"", name);
    dt__put_text(t, "\": [");
    for (int i = 0; dt__put_each(t, i, rank); i++) dt__put_integer(t, dims[i]);
    dt__put_text(t, "]");
}

static void put_input(dt__chars *t, const dt_dataset *d)
{
    int64_t dims[DT_MAX_RANK - 1];
    const int rank = dt_dataset_input_shape(d, dims);
    put_dims(t, "input", rank, dims);
    put_standard(t, d);
    put_reading(t, d);
}

/* Writes the shape of an output: [classes] or [numbers]; for masks also height and width; else the
 * shape of the example. */
static void put_output(dt__chars *t, const dt_dataset *d)
{
    int64_t dims[DT_MAX_RANK - 1];
    const dt_target target = dt_dataset_target(d);
    int rank = dt_dataset_input_shape(d, dims);
    if (target != DT_TARGET_IMAGE && target != DT_TARGET_ANOMALY) {
        dims[0] = outputs_of(d);
        if (target != DT_TARGET_MASK) rank = 1;
    }
    put_names(t, d);
    put_dims(t, "output", rank, dims);
    DT__PUT_ALL(t, ", \"meaning\": ", DT__QUOTED(meanings[target]));
    if (d->quantiles.n > 0) put_reals(t, "quantiles", d->quantiles.n, d->quantiles.v);
    if (d->thresholds.n > 0) put_reals(t, "thresholds", d->thresholds.n, d->thresholds.v);
}

static void begin_side(dt__chars *t, bool *first, const dt__joined_part *part)
{
    dt__put_text(t, *first ? "{\"name\": " : ", {\"name\": ");
    dt__put_quoted(t, part->name);
    *first = false;
}

static void put_sides(dt__chars *t, const dt__joined *j)
{
    bool first = true;
    dt__put_text(t, ", \"inputs\": [");
    for (int i = 0; i < j->n_inputs; i++) {
        begin_side(t, &first, &j->input[i]);
        put_input(t, &j->input[i].data);
        dt__put_text(t, "}");
    }
    first = true;
    dt__put_text(t, "], \"outputs\": [");
    for (int i = 0; i < j->n_outputs; i++) {
        begin_side(t, &first, &j->output[i]);
        DT__PUT_ALL(t,
                    ", \"target\": ", DT__QUOTED(targets[dt_dataset_target(&j->output[i].data)]));
        put_output(t, &j->output[i].data);
        dt__put_text(t, "}");
    }
    dt__put_text(t, "]");
}

/* Writes how fields were formatted as prompts and completions. */
static void put_formats(dt__chars *t, const dt_dataset *d)
{
    const char *const formats[][2] = { { ", \"prompt\": ", d->prompt },
                                       { ", \"completion\": ", d->completion } };
    for (int i = 0; i < DT__COUNT_OF(formats); i++) {
        if (formats[i][1] == NULL) continue;
        DT__PUT_ALL(t, formats[i][0], DT__QUOTED(formats[i][1]));
    }
    if (d->chat == DT_CHAT_AUTO) return;
    DT__PUT_ALL(t, ", \"chat\": ", DT__QUOTED(dt__chat_names[d->chat]));
    if (d->system != NULL) DT__PUT_ALL(t, ", \"system\": ", DT__QUOTED(d->system));
}

dt_status dt_model_data_text(const dt_dataset *d, dt_sink sink, void *user)
{
    DT__NEED2(NULL, d, sink);
    const bool formatted = d->prompt != NULL || d->completion != NULL || d->chat != DT_CHAT_AUTO;
    if (dt_dataset_target(d) == DT_TARGET_TOKENS && !formatted) return DT_OK;
    dt__chars t = { .ctx = d->ctx };
    dt__put_text(&t, "{\"target\": ");
    dt__put_quoted(&t, targets[dt_dataset_target(d)]);
    if (formatted) put_formats(&t, d);
    else put_input(&t, d);
    if (!formatted && dt_dataset_target(d) != DT_TARGET_SEVERAL) put_output(&t, d);
    if (d->joined != NULL) put_sides(&t, d->joined);
    dt__put_text(&t, "}");
    const dt_status s = t.failed ? DT_ERR_NOMEM : sink(user, t.bytes, t.used);
    dt__release(d->ctx, t.bytes);
    return s;
}

/* ---- reading --------------------------------------------------------------------------------- */

static dt_status read_dims(dt__json *j, const char *name, dt_ints *out)
{
    out->n = 0;
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']'), out->n++) {
        if (out->n == DT_MAX_RANK - 1)
            return dt__json_fail(j, "'%s' has too many dimensions", name);
        DT__TRY(dt__json_integer(j, &out->v[out->n]));
    }
    return j->status;
}

/* The object that is read, and memory for all objects. */
typedef struct reading {
    dt_model_data *out;
    void **memory;
    int64_t n[2]; /* number of means and of deviations */
    bool inner;   /* the object is an entry of `inputs` or `outputs` */
} reading;

static dt_status read_sides(dt__json *j, const reading *r, int most, int *n, dt_model_data **out);

static dt_status read_table(dt__json *j, const reading *r)
{
    dt_columns *table = dt__block_list_add(j->ctx, r->memory, sizeof *table);
    if (table == NULL) return DT_ERR_NOMEM;
    r->out->table = table;
    return dt__columns_read(j, r->memory, table);
}

/* Absent texts are written as empty ones; files of older versions lack rate and method. */
static dt_status read_series(dt__json *j, dt_series_options *out)
{
    DT__TRY(dt__default_options(j->ctx, dt__series_keys, out, sizeof *out));
    DT__TRY(dt__json_given_options(j, dt__series_keys, out));
    out->given = true;
    if (out->time != NULL && *out->time == 0) out->time = NULL;
    if (out->format != NULL && *out->format == 0) out->format = NULL;
    return DT_OK;
}

static dt_status read_form(dt__json *j, dt_csv_form *out)
{
    DT__TRY(dt__json_options(j, dt__csv_form_keys, out));
    if (out->comment != NULL && *out->comment == 0) out->comment = NULL;
    return DT_OK;
}

static dt_status read_chat(dt__json *j, dt_model_data *out)
{
    const char *name;
    char shown[DT__SHOWN];
    DT__TRY(dt__json_string(j, &name));
    for (int i = DT_CHAT_CHATML; dt__chat_names[i] != NULL; i++) {
        if (strcmp(dt__chat_names[i], name) == 0) out->chat = i;
    }
    if (out->chat != DT_CHAT_AUTO) return DT_OK;
    return dt__json_fail(j, "chat is '%s'; expected 'chatml', 'llama3' or 'plain'",
                         dt__shown(name, shown));
}

static dt_status read_field(dt__json *j, const char *name, reading *r)
{
    int64_t axis, *n = r->n;
    dt_model_data *out = r->out;
    if (strcmp(name, "target") == 0) return dt__json_string(j, &out->target);
    if (strcmp(name, "input") == 0) return read_dims(j, name, &out->input);
    if (strcmp(name, "output") == 0) return read_dims(j, name, &out->output);
    if (strcmp(name, "meaning") == 0) return dt__json_string(j, &out->meaning);
    if (strcmp(name, "name") == 0) return dt__json_string(j, &out->name);
    if (strcmp(name, "inputs") == 0 && !r->inner) {
        return read_sides(j, r, DT_MAX_SHAPES, &out->n_inputs, &out->inputs);
    }
    if (strcmp(name, "outputs") == 0 && !r->inner) {
        return read_sides(j, r, DT_MAX_JOINED, &out->n_outputs, &out->outputs);
    }
    if (strcmp(name, "names") == 0) {
        return dt__json_values(j, r->memory, true, &out->n_names, (const void **)&out->names);
    }
    if (strcmp(name, "columns") == 0) {
        return dt__json_values(j, r->memory, true, &out->n_columns, (const void **)&out->columns);
    }
    if (strcmp(name, "table") == 0) return read_table(j, r);
    if (strcmp(name, "csv") == 0) return read_form(j, &out->csv);
    if (strcmp(name, "mean") == 0) {
        return dt__json_values(j, r->memory, false, &n[0], (const void **)&out->mean);
    }
    if (strcmp(name, "deviation") == 0) {
        return dt__json_values(j, r->memory, false, &n[1], (const void **)&out->deviation);
    }
    if (strcmp(name, "quantiles") == 0) {
        return dt__json_values(j, r->memory, false, &out->n_quantiles,
                               (const void **)&out->quantiles);
    }
    if (strcmp(name, "thresholds") == 0) {
        return dt__json_values(j, r->memory, false, &out->n_thresholds,
                               (const void **)&out->thresholds);
    }
    if (strcmp(name, "prompt") == 0) return dt__json_string(j, &out->prompt);
    if (strcmp(name, "completion") == 0) return dt__json_string(j, &out->completion);
    if (strcmp(name, "system") == 0) return dt__json_string(j, &out->system);
    if (strcmp(name, "chat") == 0) return read_chat(j, out);
    if (strcmp(name, "pixels") == 0) return dt__json_bool(j, &out->pixels);
    if (strcmp(name, "resized") == 0) return dt__json_bool(j, &out->resized);
    if (strcmp(name, "channels_last") == 0) return dt__json_bool(j, &out->channels_last);
    if (strcmp(name, "rate") == 0) return dt__json_integer(j, &out->rate);
    if (strcmp(name, "stride") == 0) return dt__json_integer(j, &out->stride);
    if (strcmp(name, "samples") == 0) return dt__json_integer(j, &out->samples);
    if (strcmp(name, "series") == 0) return read_series(j, &out->series);
    if (strcmp(name, "features") == 0)
        return dt__json_options(j, dt__features_keys, &out->features);
    if (strcmp(name, "axis") != 0) return dt__json_skip(j); /* a key of a later version */
    DT__TRY(dt__json_integer(j, &axis));
    if (axis >= DT_MAX_RANK) return dt__json_fail(j, "'axis' is not a dimension");
    out->axis = (int)axis;
    return DT_OK;
}

static dt_status check_scaling(const dt__json *j, const dt_model_data *d, const int64_t n[2])
{
    bool good = n[0] == n[1];
    good = good && (n[0] <= 1 || (d->axis < d->input.n && d->input.v[d->axis] == n[0]));
    for (int64_t i = 0; i < n[0] && good; i++) {
        good = isfinite((float)d->mean[i]) && isfinite((float)d->deviation[i]) &&
               (float)d->deviation[i] > 0;
    }
    const int rank = d->series.given ? 2 : 1;
    /* extent of the last dimension */
    const int64_t row = d->input.n == rank ? d->input.v[rank - 1] : 0;
    const bool strides = d->stride >= 1 && (double)d->stride <= DT__MOST_CONTEXT;
    if (good && d->series.given && (row < 1 || !strides)) {
        return dt__json_fail(j, "windows of series must be [rows, numbers], with a stride");
    }
    if (good && d->n_columns > 0 && row != d->n_columns) {
        return dt__json_fail(j, "columns must be as many as numbers of an example");
    }
    const int64_t width = dt_columns_width(d->table);
    if (good && d->table != NULL && row != width) {
        return dt__json_fail(j, "the table's columns make %lld numbers, and the example has others",
                             (long long)width);
    }
    for (int i = 0; i < d->input.n && good; i++) good = d->input.v[i] >= 1;
    for (int i = 0; i < d->output.n && good; i++) good = d->output.v[i] >= 1;
    if (good) return DT_OK;
    return dt__json_fail(j,
                         "as many means as positive deviations, one or one a channel, and extents "
                         "of at least 1 must be there");
}

/* Levels must ascend within 0...1, and every target has one output per level. */
static dt_status check_levels(const dt__json *j, const dt_model_data *d)
{
    const int64_t n = d->n_quantiles;
    bool good = n == 0 || (n <= DT_MAX_REALS && d->output.n == 1 && d->output.v[0] % n == 0);
    for (int64_t i = 0; i < n && good; i++) {
        good = d->quantiles[i] > (i == 0 ? 0 : d->quantiles[i - 1]) && d->quantiles[i] < 1;
    }
    if (good) return DT_OK;
    return dt__json_fail(j, "quantiles must ascend within 0...1, at most %d, and divide the output",
                         DT_MAX_REALS);
}

/* Floats: one threshold for two classes, or one per bit. */
static dt_status check_thresholds(const dt__json *j, const dt_model_data *d)
{
    const int64_t n = d->n_thresholds, numbers = d->output.n == 1 ? d->output.v[0] : 0;
    const char *target = d->target == NULL ? "" : d->target;
    const bool classes = strcmp(target, "classes") == 0 && numbers == 2;
    const bool bits = strcmp(target, "bits") == 0 && numbers <= DT_MAX_REALS;
    bool good = n == 0 || (classes && n == 1) || (bits && n == numbers);
    for (int64_t i = 0; i < n && good; i++) {
        good = isfinite((float)d->thresholds[i]) &&
               (double)(float)d->thresholds[i] == d->thresholds[i];
    }
    if (good) return DT_OK;
    return dt__json_fail(j, "thresholds must be one float of two classes, or one of each bit");
}

static dt_status read_object(dt__json *j, reading *r)
{
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        const char *name;
        DT__TRY(dt__json_key(j, &name));
        DT__TRY(read_field(j, name, r));
    }
    DT__TRY(j->status);
    r->out->channels = r->n[0];
    DT__TRY(check_levels(j, r->out));
    DT__TRY(check_thresholds(j, r->out));
    return check_scaling(j, r->out, r->n);
}

/* Reads the list of a model's inputs or outputs. */
static dt_status read_sides(dt__json *j, const reading *r, int most, int *n, dt_model_data **out)
{
    dt_model_data *v = dt__block_list_add(j->ctx, r->memory, (size_t)most * sizeof *v);
    if (v == NULL) return DT_ERR_NOMEM;
    *n = 0;
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']'), ++*n) {
        if (*n == most) return dt__json_fail(j, "more than %d inputs or outputs", most);
        reading one = { .out = &v[*n], .memory = r->memory, .inner = true };
        DT__TRY(read_object(j, &one));
        if (v[*n].name == NULL) return dt__json_fail(j, "an input or output has no name");
    }
    DT__TRY(j->status);
    *out = v;
    return DT_OK;
}

static int64_t numbers_of(const dt_ints *dims)
{
    int64_t n = 1, bytes;
    const int64_t extra = (int64_t)sizeof(double);
    for (int i = 0; i < dims->n; i++) {
        const int64_t both[] = { n, dims->v[i], extra };
        if (!dt__product(3, both, &bytes)) return -1;
        n = bytes / extra;
    }
    return n;
}

/* Whether a packed example has as many numbers as all inputs together. */
static bool sides_fit(const dt_model_data *d)
{
    int64_t all = 0;
    for (int i = 0; i < d->n_inputs; i++) {
        const int64_t n = d->inputs[i].input.n == 0 ? -1 : numbers_of(&d->inputs[i].input);
        if (n < 0 || all > INT64_MAX - n) return false;
        all += n;
    }
    for (int i = 0; i < d->n_outputs; i++) {
        if (d->outputs[i].target == NULL || d->outputs[i].output.n == 0) return false;
    }
    return d->n_inputs == 0 || all == numbers_of(&d->input);
}

static dt_status check_formats(const dt__json *j, const dt_model_data *d)
{
    char words[DT__MESSAGE_SIZE / 2];
    const char *const formats[] = { d->prompt, d->completion };
    dt__fields fields = { 0 };
    for (int i = 0; i < DT__COUNT_OF(formats); i++) {
        const dt_status s =
            formats[i] == NULL ? DT_OK : dt__format_fields(j->ctx, formats[i], &fields);
        if (s != DT_ERR_CONFIG) DT__TRY(s);
        if (s == DT_OK) continue;
        snprintf(words, sizeof words, "%s", dt_error(j->ctx));
        return dt__json_fail(j, "the format of %s: %s", i == 0 ? "prompts" : "completions", words);
    }
    return DT_OK;
}

static dt_status read_all(dt__json *j, dt_model_data *out)
{
    reading r = { .out = out, .memory = &out->memory };
    DT__TRY(read_object(j, &r));
    DT__TRY(dt__json_end(j));
    const bool tokens = out->target != NULL && strcmp(out->target, "tokens") == 0;
    if (out->target == NULL || (out->input.n == 0 && !tokens)) {
        return dt__json_fail(j, "target and input must be there");
    }
    if (tokens) return check_formats(j, out);
    if (sides_fit(out)) return DT_OK;
    return dt__json_fail(j, "inputs, outputs and the packed 'input' do not fit");
}

dt_status dt_model_data_parse(dt_ctx *ctx, const char *text, const char *name, dt_model_data *out)
{
    DT__NEED3(ctx, ctx, text, out);
    const size_t n = strlen(text);
    *out = (dt_model_data){ .target = NULL };
    char *strings = dt__block_list_add(ctx, &out->memory, n + 1);
    if (strings == NULL) return DT_ERR_NOMEM;
    dt__json j = { .ctx = ctx, .path = name, .what = DT__KEY_DATA, .strings = strings };
    j.begin = j.at = (const unsigned char *)text;
    j.end = j.begin + n;
    const dt_status s = read_all(&j, out);
    if (s != DT_OK) dt_model_data_free(ctx, out);
    return s;
}

void dt_model_data_free(dt_ctx *ctx, dt_model_data *data)
{
    if (data == NULL) return;
    dt__block_list_free(ctx, &data->memory);
    *data = (dt_model_data){ .target = NULL };
}

/* Standardizes each input of joined arrays with the statistics of the same name. */
static dt_status standardize_joined(const dt_model_data *data, const dt__joined *j)
{
    for (int i = 0; i < j->n_inputs; i++) {
        int k = 0;
        while (k < data->n_inputs && strcmp(data->inputs[k].name, j->input[i].name) != 0) k++;
        if (k == data->n_inputs) {
            return dt_fail(j->ctx, DT_ERR_ARG, "the model was trained without an input '%s'",
                           j->input[i].name);
        }
        /* this is the only reference to the part, so it may be changed */
        dt_dataset *part = (dt_dataset *)(uintptr_t)&j->input[i].data;
        DT__TRY(dt_model_data_standardize(&data->inputs[k], part));
    }
    return DT_OK;
}

/* The model reads numbers as they are; how it reads pixels, its file may not say. */
static dt_status leave_plain(const dt_model_data *data, dt_dataset *d)
{
    static const dt_reals zero = { 1, { 0 } }, one = { 1, { 1 } };
    if (d->scaling != NULL) return dt_dataset_standardize(d, 1, zero.v, one.v);
    return data->pixels && dt_dataset_channels(d) > 0 ? dt_dataset_normalize(d, &zero, &one)
                                                      : DT_OK;
}

dt_status dt_model_data_standardize(const dt_model_data *data, dt_dataset *d)
{
    DT__NEED2(NULL, data, d);
    dt_reals v[2] = { { .n = 0 }, { .n = 0 } };
    if (d->joined != NULL && data->n_inputs > 0) return standardize_joined(data, d->joined);
    if (dt_dataset_target(d) == DT_TARGET_TOKENS) return DT_OK;
    if (data->channels == 0) return leave_plain(data, d);
    if (dt_dataset_array_channels(d) > 0) {
        if (data->channels > 1 && data->axis < d->arrays->rank) d->arrays->axis = data->axis;
        const dt__trained_units trained = { .n = data->channels,
                                            .mean = data->mean,
                                            .deviation = data->deviation,
                                            .pixels = data->pixels };
        DT__TRY(dt__say_far(d, &trained));
        return dt_dataset_standardize(d, data->channels, data->mean, data->deviation);
    }
    if (data->channels > DT_MAX_REALS) {
        return dt_fail(d->ctx, DT_ERR_ARG, "the model has %lld channels, the images %lld",
                       (long long)data->channels, (long long)dt_dataset_channels(d));
    }
    for (int64_t i = 0; i < data->channels; i++) {
        const double mean = data->mean[i], deviation = data->deviation[i];
        const bool columns = data->channels > 1 && data->axis > 0;
        if (!data->pixels && (columns || mean < 0 || mean > 1 || deviation > 1)) {
            return dt_fail(d->ctx, DT_ERR_ARG,
                           "the model was trained on arrays, of numbers with mean %.6g and "
                           "deviation %.6g, and not on pixels from 0 to 1",
                           mean, deviation);
        }
        v[0].v[v[0].n++] = data->mean[i];
        v[1].v[v[1].n++] = data->deviation[i];
    }
    return dt_dataset_normalize(d, &v[0], &v[1]);
}
