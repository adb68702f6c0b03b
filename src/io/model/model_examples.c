/* Reads examples for a model from files, with the readers of the training data, and brings them to
 * the shape and the features of the metadata detent.data. */
#include "core/text/ending.h"
#include "data/files/array_file.h"
#include "data/tables/csv.h"
#include "data/images/image_file.h"
#include "data/series/series.h"
#include "data/tables/database.h"
#include "data/tables/csv_types.h"
#include "data/tables/tables.h"
#include "io/model/model.h"

#include <detent/experimental/tables.h>

#include <string.h>

typedef struct examples {
    dt_ctx *ctx;
    const char *path;
    const dt_model_data *data;
    int64_t length, channels; /* of the signal for one example; 0: examples are not signals */
} examples;

static const char *wanted_text(const examples *e, char text[160])
{
    return dt__dims_text(e->data->input.n, e->data->input.v, text, 160);
}

/* ---- arrays --------------------------------------------------------------------------------- */

/* An error of a dataset is one of the file. */
static dt_status blame(const examples *e, dt_status s)
{
    char words[DT__MESSAGE_SIZE];
    strcpy(words, dt_error(e->ctx));
    return dt_fail(e->ctx, s == DT_ERR_ARG ? DT_ERR_FORMAT : s, "'%s': %s", e->path, words);
}

/* A dataset of `count` examples, with labels that mean nothing. */
static dt_status make(const examples *e, dt_arrays *a, dt_dataset **out)
{
    int32_t *labels = dt__alloc_zero(e->ctx, (uint64_t)(a->count + 1) * sizeof *labels);
    if (labels == NULL) return DT_ERR_NOMEM;
    a->axis = e->data->channels > 0 && e->length == 0 ? e->data->axis : -1;
    a->target = DT_TARGET_CLASS;
    a->y_dtype = DT_ARRAY_I32;
    a->y = labels;
    a->outputs = 1;
    const dt_status s = dt_dataset_from_arrays(e->ctx, a, out);
    dt__release(e->ctx, labels);
    return s == DT_OK ? s : blame(e, s);
}

/* Whether the array's last dimensions are those of an example. */
static bool ends_alike(const dt__array_file *a, const dt_ints *input)
{
    const int before = a->rank - input->n;
    if (before < 0 || before > 1) return false;
    return memcmp(a->dims + before, input->v, (size_t)input->n * sizeof *a->dims) == 0;
}

/* Whether the array is [..., height, width, channels] and the model reads [channels, height,
 * width]. If the extents fit both orders, the order of the training data decides. */
static bool is_turned(const dt__array_file *a, const dt_model_data *data)
{
    const dt_ints *input = &data->input;
    const int before = a->rank - input->n;
    bool turned = input->n == 3 && (before == 0 || before == 1) &&
                  (data->channels_last || !ends_alike(a, input));
    for (int i = 0; i < 3 && turned; i++) turned = a->dims[before + i] == input->v[(i + 1) % 3];
    return turned;
}

/* A copy with channels first; NULL: NOMEM. */
static uint8_t *turn(const examples *e, const dt__array_file *a, int64_t count)
{
    const int64_t *v = e->data->input.v;
    const size_t width = (size_t)dt__array_dtype_of(a->dtype)->bytes;
    const int64_t channels = v[0], places = v[1] * v[2];
    uint8_t *out = dt__alloc_array(e->ctx, count * channels * places, width);
    for (int64_t i = 0; i < count * channels * places && out != NULL; i++) {
        const int64_t n = i / (channels * places), c = i / places % channels, p = i % places;
        const int64_t from = (n * places + p) * channels + c;
        memcpy(out + (size_t)i * width, a->data + (size_t)from * width, width);
    }
    dt__say(e->ctx, "%s: [height, width, channels] is read as [channels, height, width]", e->path);
    return out;
}

static dt_status bad_shape(const examples *e, const dt__array_file *a)
{
    char has[160], wants[160];
    dt__dims_text(a->rank, a->dims, has, sizeof has);
    return dt_fail(e->ctx, DT_ERR_FORMAT, "'%s': shape %s; the model reads examples of %s%s",
                   e->path, has, wanted_text(e, wants),
                   e->length > 0 ? ", or signals [samples, channels]" : "");
}

/* Finds length and channels of the signals that become examples. */
static dt_status find_signals(examples *e)
{
    const dt_model_data *d = e->data;
    dt_features *f;
    if (d->features.kind == DT_FEATURES_NONE) {
        e->length = d->input.n <= 2 ? d->input.v[0] : 0;
        e->channels = d->input.n == 2 ? d->input.v[1] : 1;
        return DT_OK;
    }
    if (d->input.n != 3) {
        return dt_fail(e->ctx, DT_ERR_FORMAT,
                       "the model has features of signals, but reads no "
                       "[channels, frames, numbers]");
    }
    DT__TRY(dt_features_create(e->ctx, &d->features, &f));
    /* frames grow by at most one a sample: find the shortest signal that has as many as wanted, of
     * a model that does not say how long its signals are */
    int64_t low = 0, high = 1;
    while (dt_features_frames(f, high) < d->input.v[1] && high < INT64_MAX / 4) high *= 2;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (dt_features_frames(f, middle) < d->input.v[1]) low = middle;
        else high = middle;
    }
    const bool fits = d->samples == 0 || dt_features_frames(f, d->samples) == d->input.v[1];
    dt_features_free(f);
    if (!fits) {
        return dt_fail(e->ctx, DT_ERR_FORMAT,
                       "the model has features of signals of %lld samples, which have not its "
                       "%lld frames",
                       (long long)d->samples, (long long)d->input.v[1]);
    }
    e->length = d->samples > 0 ? d->samples : high;
    e->channels = d->input.v[0];
    return DT_OK;
}

/* Cuts a signal [samples] or [samples, channels] into windows. */
static dt_status cut(const examples *e, const dt__array_file *a, dt_dataset **out)
{
    const int64_t channels = a->rank == 2 ? a->dims[1] : 1, rows = a->rank > 0 ? a->dims[0] : 0;
    if (a->rate > 0 && channels != e->channels) {
        return dt_fail(
            e->ctx, DT_ERR_FORMAT,
            "'%s': %lld channel%s; the model was trained on recordings of %lld, as `sox IN "
            "-c %lld OUT` writes them",
            e->path, (long long)channels, channels == 1 ? "" : "s", (long long)e->channels,
            (long long)e->channels);
    }
    if (a->rank < 1 || a->rank > 2 || channels != e->channels || rows < 1) return bad_shape(e, a);
    const int64_t bytes = (int64_t)dt__array_dtype_of(a->dtype)->bytes;
    const int64_t count = dt__max_i64(1, rows / e->length);
    const int64_t sizes[] = { count, e->length, channels, bytes };
    int64_t all;
    if (!dt__product(4, sizes, &all)) return bad_shape(e, a);
    if (rows < e->length) {
        dt__say(e->ctx, "'%s': %lld sample%s; an example has %lld: zeros fill it up", e->path,
                (long long)rows, DT__S(rows), (long long)e->length);
    }
    dt_arrays signals = { .count = count, .x_dtype = (dt_array_dtype)a->dtype };
    signals.rank = e->data->features.kind != DT_FEATURES_NONE ? 2 : e->data->input.n;
    signals.dims[0] = e->length;
    signals.dims[1] = channels;
    const int64_t there = dt__min_i64(all, rows * channels * bytes);
    void *x = dt__alloc_zero(e->ctx, (uint64_t)all);
    if (x == NULL) return DT_ERR_NOMEM;
    memcpy(x, a->data, (size_t)there);
    signals.x = x;
    const dt_status s = make(e, &signals, out);
    dt__release(e->ctx, x);
    return s;
}

static dt_status take_whole(const examples *e, const dt__array_file *a, dt_dataset **out);

static dt_status take_turned(const examples *e, const dt__array_file *a, dt_dataset **out)
{
    dt__array_file turned = *a;
    const int64_t count = a->rank > e->data->input.n ? a->dims[0] : 1;
    uint8_t *own = turn(e, a, count);
    if (own == NULL) return DT_ERR_NOMEM;
    turned.data = own;
    memcpy(turned.dims + (a->rank - 3), e->data->input.v, 3 * sizeof *turned.dims);
    const dt_status s = take_whole(e, &turned, out);
    dt__release(e->ctx, own);
    return s;
}

/* Takes arrays as examples. Bytes are pixels, scaled as such, if the model reads pixels; other
 * numbers are used unchanged. */
static dt_status take_whole(const examples *e, const dt__array_file *a, dt_dataset **out)
{
    const dt_ints *input = &e->data->input;
    const int64_t count = a->rank > input->n ? a->dims[0] : 1;
    if (count < 1) return dt_fail(e->ctx, DT_ERR_FORMAT, "'%s': no examples in it", e->path);
    if (e->data->pixels && a->dtype == DT_ARRAY_U8 && input->n == 3) {
        uint8_t *labels = dt__alloc_zero(e->ctx, (uint64_t)count);
        if (labels == NULL) return DT_ERR_NOMEM;
        const dt_images images = { count,           input->v[0], input->v[1], input->v[2],
                                   DT_TARGET_CLASS, 1,           a->data,     labels };
        const dt_status s = dt_dataset_create(e->ctx, &images, out);
        dt__release(e->ctx, labels);
        return s;
    }
    dt_arrays arrays = { .count = count, .rank = input->n, .x_dtype = (dt_array_dtype)a->dtype };
    memcpy(arrays.dims, input->v, (size_t)input->n * sizeof *arrays.dims);
    arrays.x = a->data;
    return make(e, &arrays, out);
}

static dt_status check_rate(const examples *e, const dt__array_file *a)
{
    const int64_t wanted = e->data->rate;
    if (a->rate == 0 || wanted == 0 || a->rate == wanted) return DT_OK;
    return dt_fail(e->ctx, DT_ERR_FORMAT,
                   "'%s': %lld samples a second; the model was trained with %lld, as `sox IN -r "
                   "%lld OUT` writes",
                   e->path, (long long)a->rate, (long long)wanted, (long long)wanted);
}

static dt_status add_features(const examples *e, dt_dataset *d)
{
    if (e->data->features.kind == DT_FEATURES_NONE) return DT_OK;
    return dt_dataset_features(d, &e->data->features);
}

static dt_status open_array(examples *e, dt_dataset **out)
{
    dt__array_file a;
    dt_status s = dt__array_file_open(e->ctx, e->path, &a);
    if (s == DT_OK) s = check_rate(e, &a);
    if (s == DT_OK && a.cut) {
        dt__say(e->ctx,
                "'%s' was not ended by its writer, or is cut short: its header gives a size that "
                "it does not have; it is read to the end of the file",
                e->path);
    }
    const bool plain = s == DT_OK && e->data->features.kind == DT_FEATURES_NONE;
    if (plain && is_turned(&a, e->data)) {
        s = take_turned(e, &a, out);
    } else if (plain && ends_alike(&a, &e->data->input)) {
        s = take_whole(e, &a, out);
    } else if (s == DT_OK) {
        s = find_signals(e);
        if (s == DT_OK) s = e->length > 0 ? cut(e, &a, out) : bad_shape(e, &a);
        if (s == DT_OK) (*out)->arrays->from_sounds = a.rate > 0;
        if (s == DT_OK) s = add_features(e, *out);
    }
    dt__array_file_close(&a);
    return s;
}

/* ---- images and tables ---------------------------------------------------------------------- */

/* The pixels of an image in the model's size, which the caller frees; NULL: an error. */
static uint8_t *take_pixels(const examples *e, dt__image_file *f)
{
    const int64_t *in = e->data->input.v;
    int64_t bytes;
    if (!dt__product(3, in, &bytes) || in[1] > 65535 || in[2] > 65535) {
        dt_fail(e->ctx, DT_ERR_FORMAT, "'%s': the model reads images of %lld x %lld pixels",
                e->path, (long long)in[2], (long long)in[1]);
        return NULL;
    }
    uint8_t *pixels = dt__alloc(e->ctx, (uint64_t)bytes);
    if (pixels == NULL) return NULL;
    if (dt__image_read_sized(e->ctx, f, in[0], in[1], in[2], pixels) == DT_OK) return pixels;
    dt__release(e->ctx, pixels);
    return NULL;
}

static dt_status open_image(const examples *e, dt_dataset **out)
{
    const dt_ints *in = &e->data->input;
    static const uint8_t label[1] = { 0 };
    dt__image_file f;
    char wants[160];
    dt_status s = dt__image_open(e->ctx, e->path, &f);
    const bool image = in->n == 3 && (in->v[0] == 1 || in->v[0] == 3);
    if (s == DT_OK && !image) {
        s = dt_fail(e->ctx, DT_ERR_FORMAT, "'%s': the model reads examples of %s, no images%s",
                    e->path, wanted_text(e, wants),
                    in->n == 3 && (in->v[2] == 1 || in->v[2] == 3)
                        ? " of [channels, height, width] (detent import has --layout nhwc)"
                        : "");
    } else if (s == DT_OK && !e->data->resized && (f.height != in->v[1] || f.width != in->v[2])) {
        s = dt_fail(e->ctx, DT_ERR_FORMAT,
                    "'%s': %lld x %lld pixels; the model reads images of %lld x %lld (trained with "
                    "data.size it would resize them)",
                    e->path, (long long)f.width, (long long)f.height, (long long)in->v[2],
                    (long long)in->v[1]);
    }
    if (s == DT_OK && f.orientation > DT__UPRIGHT) {
        dt__say(e->ctx, "'%s' is turned upright, as its EXIF data say", e->path);
    }
    uint8_t *pixels = NULL;
    if (s == DT_OK) {
        pixels = take_pixels(e, &f);
        s = pixels == NULL ? dt_error_status(e->ctx) : DT_OK;
    }
    if (s == DT_OK) {
        const dt_images images = { 1, in->v[0], in->v[1], in->v[2], DT_TARGET_CLASS,
                                   1, pixels,   label };
        s = dt_dataset_create(e->ctx, &images, out);
    }
    dt__release(e->ctx, pixels);
    dt__image_close(&f);
    return s;
}

/* Selects the columns that the model was trained on, if the metadata name them. */
static dt_status name_columns(const examples *e, dt__csv *csv)
{
    const dt_columns *typed = csv->options->fitted;
    for (int64_t i = 0; typed != NULL && i < typed->n; i++) {
        const char *name = typed->column[i].name;
        if (typed->column[i].type == DT_COLUMN_IGNORE) continue;
        if (dt__words_add(e->ctx, &csv->inputs, name, strlen(name)) < 0) return DT_ERR_NOMEM;
    }
    if (typed != NULL) return DT_OK;
    for (int64_t i = 0; i < e->data->n_columns; i++) {
        const char *name = e->data->columns[i];
        if (dt__words_add(e->ctx, &csv->inputs, name, strlen(name)) < 0) return DT_ERR_NOMEM;
    }
    return DT_OK;
}

/* Columns of a table without a header are named 0, 1, ...: finds whether this file has no header,
 * too. */
static dt_status find_header(const examples *e, const dt__csv *csv, dt_csv_options *o)
{
    const char *name = csv->inputs.n > 0 ? csv->inputs.word[0] : "";
    const dt_strings names = { 1, { name } };
    dt_first_row row;
    int64_t place, columns;
    if (!o->header || *name == 0 || name[strspn(name, "0123456789")] != 0) return DT_OK;
    DT__TRY(dt_csv_look(e->ctx, e->path, &names, &place, &columns, &row));
    o->header = place >= 0;
    return DT_OK;
}

/* Sorts the rows of series and cuts them into windows. */
static dt_status cut_series(const examples *e, const dt__csv_table *t, const dt__series *s,
                            dt_dataset **d)
{
    dt__series_rows r;
    int64_t count[3];
    dt_status status = dt__series_read(s, t, 1, &e->path, &r);
    if (status == DT_OK) status = dt__series_cut(s, &r, NULL, d, count);
    dt__series_rows_free(e->ctx, &r);
    return status == DT_ERR_CONFIG ? DT_ERR_FORMAT : status;
}

/* Makes a dataset of rows with dummy labels. */
static dt_status wrap_rows(const examples *e, const dt__csv *csv, dt__csv_table *t,
                           dt_dataset **out)
{
    dt__array_store *s = dt__array_store_create(e->ctx);
    if (s == NULL) return DT_ERR_NOMEM;
    const dt__array_source source = { .storage = t->x };
    const uint8_t *x = t->x->data;
    t->x = NULL;
    s->dtype = csv->types != NULL ? DT_ARRAY_F64 : DT_ARRAY_F32;
    s->rank = 1;
    s->dims[0] = s->row = csv->inputs.n;
    s->outputs = 1;
    s->targets = dt__storage_create(e->ctx, (uint64_t)t->rows * sizeof(int32_t));
    dt_status status = dt__array_store_keep(s, e->path, source);
    if (status == DT_OK && s->targets == NULL) status = DT_ERR_NOMEM;
    if (status == DT_OK) status = dt__array_store_add(s, s->dtype, x, t->rows);
    if (status == DT_OK) {
        memset(s->targets->data, 0, (size_t)t->rows * sizeof(int32_t));
        return dt__arrays_wrap(e->ctx, s, DT_TARGET_CLASS, out);
    }
    dt__array_store_release(s);
    return status;
}

static dt_status open_series(const examples *e, dt__csv *csv, dt__csv_table *t, dt_dataset **out)
{
    const dt_model_data *data = e->data;
    dt__series series = { .ctx = e->ctx,
                          .o = &data->series,
                          .csv = csv,
                          .length = data->input.v[0],
                          .stride = data->stride,
                          .gap = data->series.gap,
                          .axis = data->axis,
                          .keeps = true };
    const dt_status sampled = dt__series_sample(&series, t, 1, &e->path);
    if (sampled != DT_OK) return sampled == DT_ERR_CONFIG ? DT_ERR_FORMAT : sampled;
    DT__TRY(wrap_rows(e, csv, t, out));
    DT__TRY(cut_series(e, t, &series, out));
    dt__array_store *s = (*out)->arrays;
    dt__storage *codes = s->kept_codes;
    s->kept_codes = NULL;
    if (codes != NULL) dt__array_store_texts(s, &csv->keys, &csv->key_words, &codes);
    return csv->types == NULL ? DT_OK : dt__csv_types_apply(csv->types, s);
}

/* Opens a table whose rows are examples. */
static dt_status open_rows(const examples *e, dt__csv *csv, dt__csv_table *t, dt_dataset **out)
{
    const dt__array_source raw = { .name = (char *)(uintptr_t)e->path, .storage = t->x };
    dt__storage *x = t->x;
    if (csv->types != NULL) DT__TRY(dt__csv_types_encode(csv->types, &raw, t->rows, &x));
    dt_arrays rows = { .count = t->rows, .rank = 1, .x_dtype = DT_ARRAY_F32, .x = x->data };
    rows.dims[0] = e->data->input.v[0];
    const dt_status s = make(e, &rows, out);
    if (x != t->x) dt__storage_release(x);
    if (s == DT_OK && csv->keys.n > 0) {
        dt__array_store_texts((*out)->arrays, &csv->keys, &csv->key_words, &t->key);
    }
    return s;
}

static dt_status open_table(const examples *e, const dt_csv_options *columns, dt_dataset **out)
{
    const dt_csv_options every = { .header = true };
    dt_csv_options inputs = columns == NULL ? every : *columns;
    inputs.target = (dt_strings){ .n = 0 };
    inputs.types.n = 0;
    inputs.fitted = e->data->table;
    if (dt__database_length(e->path) == 0) dt__csv_take_form(&inputs, &e->data->csv);
    if (inputs.fitted != NULL && inputs.inputs.n > 0) {
        return dt_fail(e->ctx, DT_ERR_FORMAT,
                       "'%s': the model reads columns by its own names and types, which no other "
                       "columns can replace",
                       e->path);
    }
    dt__csv csv = { .ctx = e->ctx, .options = &inputs, .target = DT_TARGET_VALUES };
    dt__csv_table t = { .rows = 0 };
    const dt_ints *in = &e->data->input;
    const bool named = inputs.inputs.n == 0 && (inputs.header || inputs.fitted != NULL);
    dt_status s = named ? name_columns(e, &csv) : DT_OK;
    if (s == DT_OK && e->data->series.given) s = dt__series_keys_of(&csv, &e->data->series);
    csv.names_given = csv.inputs.n > 0;
    if (s == DT_OK && inputs.fitted != NULL) s = find_header(e, &csv, &inputs);
    csv.finds_header = inputs.inputs.n == 0 && csv.inputs.n == 0;
    if (s == DT_OK) s = dt__csv_read(&csv, e->path, &t);
    if (s == DT_OK) s = dt__csv_check(&csv);
    const int last = e->data->series.given ? 1 : 0;
    if (s == DT_OK && csv.types == NULL && (in->n != last + 1 || csv.inputs.n != in->v[last])) {
        char wants[160];
        s = dt_fail(e->ctx, DT_ERR_FORMAT,
                    "'%s': %lld columns of numbers; the model reads examples of %s", e->path,
                    (long long)csv.inputs.n, wanted_text(e, wants));
    }
    if (s == DT_OK) s = (last > 0 ? open_series : open_rows)(e, &csv, &t, out);
    dt__csv_table_free(&t);
    dt__csv_free(&csv);
    return s;
}

/* ---- all ------------------------------------------------------------------------------------ */

static dt_status open_any(examples *e, const dt_csv_options *columns, dt_dataset **out)
{
    static const char *const images[] = { ".png", ".jpg", ".jpeg" };
    for (int i = 0; i < DT__COUNT_OF(images); i++) {
        if (dt__ends_in(e->path, images[i])) return open_image(e, out);
    }
    const bool piped = strcmp(e->path, "-") == 0;
    if (piped) e->path = "/dev/stdin";
    if (piped || dt_is_table(e->path)) return open_table(e, columns, out);
    if (dt__is_array_file(e->path)) return open_array(e, out);
    return dt_fail(e->ctx, DT_ERR_FORMAT,
                   "'%s': expected the name of a file that ends in .png, .jpg, .jpeg, .npy, .npz, "
                   ".safetensors, .csv, .db, .wav, .flac, .ogg, .opus or .aiff; or - for a table",
                   e->path);
}

/* For a model with several inputs: the file has one array for each, under the input's name. */
static dt_status open_several(dt_ctx *ctx, const dt_model_data *data, const char *path,
                              dt_dataset **out)
{
    dt_dataset *part[DT_MAX_SHAPES] = { NULL };
    dt_join join = { .n_inputs = data->n_inputs, .n_outputs = 1 };
    if (!dt__ends_in(path, ".npz") && !dt__ends_in(path, ".safetensors")) {
        return dt_fail(ctx, DT_ERR_FORMAT,
                       "'%s': the model has %d inputs; expected a file .npz or .safetensors with "
                       "an array for each",
                       path, data->n_inputs);
    }
    dt_status s = DT_OK;
    for (int i = 0; i < data->n_inputs && s == DT_OK; i++) {
        char *name = dt__format_string(ctx, "%s:%s", path, data->inputs[i].name);
        if (name == NULL) s = DT_ERR_NOMEM;
        if (s == DT_OK) s = dt_model_data_open(ctx, &data->inputs[i], name, NULL, &part[i]);
        dt__release(ctx, name);
        join.input[i] = (dt_joined_input){ data->inputs[i].name, part[i] };
    }
    join.output[0] = (dt_joined_output){
        .name = "output", .data = part[0], .weight = 1, .class_weights = { .n = DT_WEIGHTS_NONE }
    };
    if (s == DT_OK) s = dt_dataset_join(ctx, &join, out);
    if (s == DT_ERR_ARG) {
        char words[DT__MESSAGE_SIZE];
        strcpy(words, dt_error(ctx));
        s = dt_fail(ctx, DT_ERR_FORMAT, "'%s': %s", path, words);
    }
    for (int i = 0; i < data->n_inputs; i++) dt_dataset_free(part[i]);
    return s;
}

dt_status dt_model_data_open(dt_ctx *ctx, const dt_model_data *data, const char *path,
                             const dt_csv_options *columns, dt_dataset **out)
{
    DT__NEED4(ctx, ctx, data, path, out);
    if (data->n_inputs == 1) data = &data->inputs[0];
    examples e = { .ctx = ctx, .path = path, .data = data };
    *out = NULL;
    if (data->n_inputs > 1) return open_several(ctx, data, path, out);
    dt_status s = open_any(&e, columns, out);
    if (s == DT_OK) {
        s = dt_model_data_standardize(data, *out);
        if (s == DT_ERR_ARG) s = blame(&e, s);
    }
    if (s == DT_OK) return DT_OK;
    dt_dataset_free(*out);
    *out = NULL;
    return s;
}
