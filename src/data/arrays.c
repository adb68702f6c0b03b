/* Arrays of numbers with their targets, a kind of dataset. Examples are cut from recordings:
 * consecutive rows in memory or in a mapped file. Numbers are converted when a batch is made. */
#include "data/arrays.h"

#include "core/block_list.h"
#include "data/tables/merging.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

/* ---- the store ---------------------------------------------------------------------------- */

dt__array_store *dt__array_store_create(dt_ctx *ctx)
{
    dt__array_store *s = dt__alloc_zero(ctx, sizeof *s);
    if (s == NULL) return NULL;
    s->ctx = ctx;
    s->refs = 1;
    s->length = s->stride = 1;
    return s;
}

static void drop_source(dt_ctx *ctx, dt__array_source *source)
{
    if (source->map != NULL) munmap(source->map, source->map_bytes);
    dt__storage_release(source->storage);
    dt__storage_release(source->begins);
    dt__release(ctx, source->name);
}

static void drop_names(dt_ctx *ctx, char **name, int64_t n)
{
    for (int64_t i = 0; name != NULL && i < n; i++) dt__release(ctx, name[i]);
    dt__release(ctx, name);
}

static void drop_texts(dt__array_store *s)
{
    for (int64_t i = 0; s->kept_words != NULL && i < s->kept.n; i++) {
        dt__words_free(s->ctx, &s->kept_words[i]);
    }
    dt__release(s->ctx, s->kept_words);
    dt__words_free(s->ctx, &s->kept);
    dt__storage_release(s->kept_codes);
}

void dt__array_store_release(dt__array_store *s)
{
    if (s == NULL || --s->refs > 0) return;
    for (int64_t i = 0; i < s->n_sources; i++) drop_source(s->ctx, &s->source[i]);
    drop_names(s->ctx, s->class_name, s->outputs);
    drop_names(s->ctx, s->column_name, s->n_columns);
    dt_columns_free(s->ctx, &s->fields);
    drop_texts(s);
    dt__block_list_free(s->ctx, &s->texts);
    DT__RELEASE(s->ctx, s->source, s->recording);
    dt__storage_release(s->targets);
    dt__storage_release(s->cut_from);
    dt__release(s->ctx, s);
}

dt_status dt__array_store_keep(dt__array_store *s, const char *name, dt__array_source source)
{
    source.name = dt__copy_string(s->ctx, name);
    const dt_status status = source.name == NULL
                                 ? DT_ERR_NOMEM
                                 : DT__RESERVE(s->ctx, s->source, s->n_sources, s->sources_room);
    if (status == DT_OK) s->source[s->n_sources++] = source;
    else drop_source(s->ctx, &source);
    return status;
}

dt_status dt__array_store_add(dt__array_store *s, int dtype, const uint8_t *data, int64_t rows)
{
    DT__TRY(DT__RESERVE(s->ctx, s->recording, s->n_recordings, s->room));
    const int64_t before = s->n_recordings == 0 ? 0 : s->recording[s->n_recordings - 1].end;
    const int64_t windows = rows == 0 ? 0 : 1 + dt__max_i64(0, rows - s->length) / s->stride;
    s->recording[s->n_recordings++] =
        (dt__recording){ data, rows, before + windows, 0, (int)s->n_sources - 1, dtype };
    return DT_OK;
}

static int64_t index_of(const dt__array_store *s, int64_t example)
{
    int64_t low = 0, high = s->n_recordings - 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (s->recording[middle].end > example) high = middle;
        else low = middle + 1;
    }
    return low;
}

dt__array_place dt__array_place_of(const dt__array_store *s, int64_t example)
{
    const int64_t r = index_of(s, example);
    const dt__recording *in = &s->recording[r];
    const dt__array_dtype *dtype = dt__array_dtype_of(in->dtype);
    const int64_t each = dtype->bytes * s->row;
    const int64_t first = s->stride * (example - (r == 0 ? 0 : in[-1].end));
    return (dt__array_place){ dtype, in->data + first * each,
                              each * dt__min_i64(s->length, in->rows - first),
                              &s->source[in->source] };
}

void dt__array_channels_last(dt__array_store *s)
{
    const int64_t channels = s->dims[s->rank - 1];
    memmove(s->dims + 1, s->dims, (size_t)(s->rank - 1) * sizeof *s->dims);
    s->dims[0] = channels;
    s->channels_last = s->rank > 1;
}

/* Writes an example whose last dimension in memory, the channels, becomes the first. */
static void turn_example(const dt__array_store *s, const dt__array_dtype *dtype,
                         const uint8_t *from, float *x)
{
    const int64_t channels = s->dims[0], places = dt__array_size(s) / channels;
    float some[64];
    for (int64_t p = 0; p < places; p++) {
        for (int64_t c = 0, n; c < channels; c += n) {
            n = dt__min_i64(DT__COUNT_OF(some), channels - c);
            dtype->to_f32(from + (p * channels + c) * dtype->bytes, n, some);
            for (int64_t k = 0; k < n; k++) x[(c + k) * places + p] = some[k];
        }
    }
}

void dt__array_example(const dt__array_store *s, int64_t example, float *x)
{
    const dt__array_place place = dt__array_place_of(s, example);
    const int64_t have = place.bytes / place.dtype->bytes;
    if (s->channels_last) {
        turn_example(s, place.dtype, place.begin, x);
        return;
    }
    place.dtype->to_f32(place.begin, have, x);
    memset(x + have, 0, (size_t)(dt__array_size(s) - have) * sizeof *x);
}

/* Consecutive examples of one row each in a recording are converted together. */
void dt__array_examples(const dt__array_store *s, int64_t first, int64_t n, float *x)
{
    const int64_t size = dt__array_size(s);
    const bool rows = dt__array_is_rows(s) && !s->channels_last;
    for (int64_t done = 0, count; done < n; done += count) {
        float *to = x + done * size;
        count = 1;
        if (rows) {
            const int64_t end = s->recording[index_of(s, first + done)].end;
            count = dt__min_i64(n - done, end - first - done);
            const dt__array_place place = dt__array_place_of(s, first + done);
            place.dtype->to_f32(place.begin, count * size, to);
        } else {
            dt__array_example(s, first + done, to);
        }
    }
}

const float *dt__array_floats(const dt__array_store *s, int64_t first, int64_t n)
{
    const dt__recording *in = &s->recording[index_of(s, first)];
    if (in->dtype != DT_ARRAY_F32 || !dt__array_is_rows(s) || s->channels_last) return NULL;
    if (in->end < first + n) return NULL;
    const void *at = dt__array_place_of(s, first).begin;
    return (uintptr_t)at % sizeof(float) == 0 ? at : NULL;
}

dt__array_channels dt__array_channels_of(const dt__array_store *s)
{
    dt__array_channels c = { 1, s->dims[s->axis], 1 };
    for (int i = 0; i < s->axis; i++) c.outer *= s->dims[i];
    for (int i = s->axis + 1; i < s->rank; i++) c.inner *= s->dims[i];
    return c;
}

/* ---- checks ------------------------------------------------------------------------------- */

/* FORMAT, naming number `at` of a recording, which is not finite. */
static dt_status refuse_number(const dt__array_store *s, const dt__recording *in, int64_t at)
{
    const dt__array_dtype *dtype = dt__array_dtype_of(in->dtype);
    const double value = dtype->at(in->data + at * dtype->bytes);
    return dt_fail(
        s->ctx, DT_ERR_FORMAT,
        "%s: row %lld, column %lld (counted from 0) is %g; expected finite numbers of f32",
        s->source[in->source].name, (long long)(in->first + at / s->row), (long long)(at % s->row),
        value);
}

/* FORMAT if different numbers of a channel are equal as f32. */
static dt_status refuse_merged(const dt__array_store *s)
{
    const dt__array_channels c = dt__array_channels_of(s);
    /* then windows share the statistics of channels */
    const bool is_time = !dt__array_is_rows(s) && s->axis == 0;
    dt__number_run *run = dt__alloc_array(s->ctx, s->n_recordings, sizeof *run);
    if (run == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < s->n_recordings; i++) {
        const dt__recording *in = &s->recording[i];
        run[i] =
            (dt__number_run){ s->source[in->source].name, in->dtype, in->data, in->rows * s->row };
    }
    const dt_status status = dt__refuse_merged(
        s->ctx, run, s->n_recordings, is_time ? s->row : c.channels, is_time ? 1 : c.inner);
    dt__release(s->ctx, run);
    return status;
}

dt_status dt__array_store_check(const dt__array_store *s, int64_t known)
{
    for (int64_t i = 0; i < s->n_recordings; i++) {
        const dt__recording *in = &s->recording[i];
        const int bytes = dt__array_dtype_of(in->dtype)->bytes;
        const int64_t before = i == 0 ? 0 : in[-1].end;
        const int64_t skip = s->row * dt__min_i64(in->rows, dt__max_i64(0, known - before));
        const int64_t bad = dt__first_not_finite(s->ctx, in->dtype, in->data + skip * bytes,
                                                 in->rows * s->row - skip);
        if (bad >= 0) return refuse_number(s, in, skip + bad);
    }
    return refuse_merged(s);
}

static dt_status take_labels(dt__array_store *s, const dt__array_view *y)
{
    const dt__array_dtype *dtype = dt__array_dtype_of(y->dtype);
    const double most = y->outputs == 0 ? (double)INT32_MAX : (double)y->outputs - 1;
    int32_t *label = s->targets->data;
    int64_t largest = -1;
    for (int64_t i = 0; i < y->n; i++) {
        const double value = dtype->at((const uint8_t *)y->data + i * dtype->bytes);
        if (!(value >= 0 && value <= most) || value != floor(value)) {
            return dt_fail(s->ctx, DT_ERR_FORMAT,
                           "%s: row %lld (counted from 0) is the label %.10g; expected 0 to %.0f",
                           y->name, (long long)i, value, most);
        }
        label[i] = (int32_t)value;
        largest = dt__max_i64(largest, label[i]);
    }
    s->outputs = y->outputs == 0 ? largest + 1 : y->outputs;
    return DT_OK;
}

static dt_status take_numbers(dt__array_store *s, const dt__array_view *y, bool bits)
{
    const dt__array_dtype *dtype = dt__array_dtype_of(y->dtype);
    const int64_t n = y->n * y->outputs;
    float *value = s->targets->data;
    dtype->to_f32(y->data, n, value);
    int64_t bad = dt__first_not_finite(s->ctx, DT_ARRAY_F32, s->targets->data, n);
    for (int64_t i = 0; bits && bad < 0 && i < n; i++) {
        if (value[i] != 0 && value[i] != 1) bad = i;
    }
    s->outputs = y->outputs;
    const dt__number_run run = { y->name, y->dtype, y->data, n };
    if (bad < 0) return dt__refuse_merged(s->ctx, &run, 1, y->outputs, 1);
    return dt_fail(s->ctx, DT_ERR_FORMAT, "%s: row %lld, column %lld (counted from 0) is %g; %s",
                   y->name, (long long)(bad / y->outputs), (long long)(bad % y->outputs),
                   dtype->at((const uint8_t *)y->data + bad * dtype->bytes),
                   bits ? "expected 0 or 1" : "expected finite numbers of f32");
}

dt_status dt__array_store_targets(dt__array_store *s, dt_target target, const dt__array_view *y)
{
    const bool labels = target == DT_TARGET_CLASS;
    const int64_t dims[] = { y->n, labels ? 1 : y->outputs, (int64_t)sizeof(float) };
    int64_t bytes;
    if (!dt__product(3, dims, &bytes)) {
        return dt_fail(s->ctx, DT_ERR_NOMEM, "out of memory for %s: %lld targets of %lld numbers",
                       y->name, (long long)y->n, (long long)y->outputs);
    }
    s->targets = dt__storage_create(s->ctx, (uint64_t)bytes);
    if (s->targets == NULL) return DT_ERR_NOMEM;
    return labels ? take_labels(s, y) : take_numbers(s, y, target == DT_TARGET_BITS);
}

/* ---- as a kind ---------------------------------------------------------------------------- */

static void sides(const dt_dataset *d, dt__side *x, dt__side *target)
{
    const dt__array_store *s = d->arrays;
    *x = (dt__side){ .dtype = DT_F32, .rank = s->rank };
    memcpy(x->dims, s->dims, sizeof x->dims);
    *target =
        dt__has_label(d) ? (dt__side){ DT_I32, 0, { 0 } } : (dt__side){ DT_F32, 1, { s->outputs } };
}

static int64_t labels(const dt__batch *b, int64_t example)
{
    const dt_dataset *d = b->d;
    if (d->target == DT_TARGET_ANOMALY) {
        return d->kind->label(d, example) == 0 ? dt__array_size(d->arrays) : 0;
    }
    return d->target == DT_TARGET_CLASS ? 1 : d->arrays->outputs;
}

static int label_of(const dt_dataset *d, int64_t example)
{
    return *(const int32_t *)dt__array_target(d, example);
}

static void split(dt_dataset *d, dt_dataset *last, int64_t count)
{
    d->count -= count;
    last->count = count;
    last->first += d->count;
    d->arrays->refs++;
    if (d->scaling != NULL) dt__storage_retain(d->scaling);
}

static void drop(dt_dataset *d)
{
    dt__array_store_release(d->arrays);
    dt__storage_release(d->scaling);
}

const dt__data_kind dt__data_arrays = {
    .examples = "arrays",
    .check = dt__arrays_check,
    .sides = sides,
    .begin = dt__arrays_begin,
    .end = dt__arrays_end,
    .fill = dt__arrays_fill,
    .expect = dt__arrays_expect,
    .labels = labels,
    .split = split,
    .drop = drop,
    .label = label_of,
};

const void *dt__array_target(const dt_dataset *d, int64_t example)
{
    const dt__array_store *s = d->arrays;
    const int64_t i = d->first + example, at = s->target_each_recording ? index_of(s, i) : i;
    return (const uint8_t *)s->targets->data + at * dt__array_cells(d) * (int64_t)sizeof(float);
}

int64_t dt__dataset_recording(const dt_dataset *d, int64_t example)
{
    const dt__array_store *s = d->arrays;
    if (s == NULL) return -1;
    if (s->cut_from != NULL) return ((const int64_t *)s->cut_from->data)[d->first + example];
    return s->target_each_recording ? index_of(s, d->first + example) : -1;
}

bool dt__dataset_has_windows(const dt_dataset *d)
{
    if (d->count == 0 || dt__dataset_recording(d, 0) < 0) return false;
    for (int64_t i = 1; i < d->count; i++) {
        if (dt__dataset_recording(d, i) == dt__dataset_recording(d, i - 1)) return true;
    }
    return false;
}

dt_status dt__arrays_wrap(dt_ctx *ctx, dt__array_store *s, dt_target target, dt_dataset **out)
{
    const dt_dataset d = {
        .kind = &dt__data_arrays,
        .count = s->n_recordings == 0 ? 0 : s->recording[s->n_recordings - 1].end,
        .target = target,
        .classes = target == DT_TARGET_CLASS ? s->outputs : 0,
        .arrays = s,
    };
    return dt__dataset_make(ctx, &d, out);
}

int64_t dt_dataset_rate(const dt_dataset *d)
{
    if (d == NULL) return 0;
    return d->arrays == NULL ? 0 : d->arrays->rate;
}

int64_t dt_dataset_array_channels(const dt_dataset *d)
{
    if (d == NULL) return 0;
    return d->arrays == NULL ? 0 : d->arrays->dims[d->arrays->axis];
}

/* ---- creation ----------------------------------------------------------------------------- */

static dt_status check_shape(dt_ctx *ctx, const dt_arrays *a, int64_t *count)
{
    int64_t dims[DT_MAX_RANK + 1] = { a->count, (int64_t)sizeof(double) };
    if (a->rank < 1 || a->rank > DT_MAX_RANK - 1 || a->axis < -a->rank || a->axis >= a->rank) {
        return dt_fail(
            ctx, DT_ERR_ARG,
            "arrays: axis %d of examples of rank %d: expected rank 1 to %d, and an axis in it",
            a->axis, a->rank, DT_MAX_RANK - 1);
    }
    bool good = a->count >= 0;
    for (int i = 0; i < a->rank; i++) {
        dims[i + 2] = a->dims[i];
        good = good && a->dims[i] >= 1;
    }
    if (good && dt__product(a->rank + 2, dims, count)) {
        *count /= (int64_t)sizeof(double);
        return DT_OK;
    }
    char text[160];
    return dt_fail(ctx, DT_ERR_ARG,
                   "arrays: %lld examples of shape %s: expected extents of at least 1",
                   (long long)a->count, dt__dims_text(a->rank, a->dims, text, sizeof text));
}

static dt_status check_arrays(dt_ctx *ctx, const dt_arrays *a)
{
    const dt__array_dtype *y = dt__array_dtype_of((int)a->y_dtype);
    if (dt__array_dtype_of((int)a->x_dtype) == NULL || y == NULL) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "arrays: dtypes %d and %d: expected those of dt_array_dtype",
                       (int)a->x_dtype, (int)a->y_dtype);
    }
    if (a->target == DT_TARGET_CLASS) {
        if (y->is_integer && a->outputs >= 0 && a->outputs <= INT32_MAX) return DT_OK;
        return dt_fail(ctx, DT_ERR_ARG,
                       "arrays: labels %s of %lld classes: expected integers, 0 (found) to %d",
                       y->name, (long long)a->outputs, INT32_MAX);
    }
    if (a->target != DT_TARGET_VALUES && a->target != DT_TARGET_BITS) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "arrays: targets of kind %d: expected labels, values or bits",
                       (int)a->target);
    }
    if (a->outputs >= 1) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG, "arrays: targets of %lld numbers: expected at least 1",
                   (long long)a->outputs);
}

/* Copies n names into a new array. */
static dt_status copy_names(dt_ctx *ctx, const char *const *names, int64_t n, char ***out)
{
    char **copy = *out = dt__alloc_array(ctx, n, sizeof *copy);
    if (copy == NULL) return DT_ERR_NOMEM;
    memset(copy, 0, (size_t)n * sizeof *copy);
    for (int64_t i = 0; i < n; i++) {
        copy[i] = dt__copy_string(ctx, names[i]);
        if (copy[i] == NULL) return DT_ERR_NOMEM;
    }
    return DT_OK;
}

dt_status dt__array_store_names(dt__array_store *s, const char *const *names)
{
    return names == NULL ? DT_OK : copy_names(s->ctx, names, s->outputs, &s->class_name);
}

dt_status dt__array_store_columns(dt__array_store *s, const char *const *names, int64_t n)
{
    s->n_columns = n;
    return copy_names(s->ctx, names, n, &s->column_name);
}

dt_status dt__array_store_fields(dt__array_store *s, const dt_columns *c)
{
    dt_columns_free(s->ctx, &s->fields);
    return dt__columns_copy(s->ctx, c, &s->fields);
}

static dt_status copy_text(dt__array_store *s, const char **text)
{
    if (*text == NULL) return DT_OK;
    *text = dt__block_list_text(s->ctx, &s->texts, "%s", *text);
    return *text != NULL ? DT_OK : DT_ERR_NOMEM;
}

dt_status dt__array_store_series(dt__array_store *s, const dt_series_options *o)
{
    s->series = *o;
    DT__TRY(copy_text(s, &s->series.time));
    DT__TRY(copy_text(s, &s->series.format));
    for (int i = 0; i < o->by.n; i++) DT__TRY(copy_text(s, &s->series.by.v[i]));
    return DT_OK;
}

dt_status dt__array_store_form(dt__array_store *s, const dt_csv_form *form)
{
    s->form = *form;
    return copy_text(s, &s->form.comment);
}

void dt__array_store_texts(dt__array_store *s, dt__words *names, dt__words **words,
                           dt__storage **codes)
{
    drop_texts(s);
    s->kept = *names;
    s->kept_words = *words;
    s->kept_codes = *codes;
    *names = (dt__words){ 0 };
    *words = NULL;
    *codes = NULL;
}

int64_t dt_dataset_kept(const dt_dataset *d)
{
    return d == NULL || d->arrays == NULL || d->arrays->kept_words == NULL ? 0 : d->arrays->kept.n;
}

const char *dt_dataset_kept_name(const dt_dataset *d, int64_t column)
{
    return column >= 0 && column < dt_dataset_kept(d) ? d->arrays->kept.word[column] : NULL;
}

const char *dt_dataset_kept_text(const dt_dataset *d, int64_t column, int64_t example)
{
    if (dt_dataset_kept_name(d, column) == NULL || example < 0 || example >= d->count) return NULL;
    const dt__array_store *s = d->arrays;
    const int32_t *codes = s->kept_codes->data;
    return s->kept_words[column].word[codes[(d->first + example) * s->kept.n + column]];
}

const dt_columns *dt__array_fields(const dt_dataset *d)
{
    return d->arrays != NULL && d->arrays->fields.n > 0 ? &d->arrays->fields : NULL;
}

/* Adds the rows of x, `count` numbers: copied or, if the caller keeps them, in place. */
static dt_status take_x(dt__array_store *s, const dt_arrays *a, int64_t count)
{
    dt__array_source source = { 0 };
    const uint8_t *data = a->x;
    const size_t bytes = (size_t)(count * dt__array_dtype_of(s->dtype)->bytes);
    if (!a->borrow) {
        source.storage = dt__storage_create(s->ctx, bytes);
        if (source.storage == NULL) return DT_ERR_NOMEM;
        if (bytes > 0) memcpy(source.storage->data, a->x, bytes);
        data = source.storage->data;
    }
    DT__TRY(dt__array_store_keep(s, "arrays: x", source));
    return dt__array_store_add(s, s->dtype, data, a->count);
}

static dt_status fill_store(dt__array_store *s, const dt_arrays *a, int64_t count)
{
    const dt__array_view y = { "arrays: y", (int)a->y_dtype, a->y, a->count, a->outputs };
    s->dtype = (int)a->x_dtype;
    s->rank = a->rank;
    memcpy(s->dims, a->dims, sizeof s->dims);
    s->axis = a->axis < 0 ? a->axis + a->rank : a->axis;
    s->row = 1;
    for (int i = 0; i < a->rank; i++) s->row *= a->dims[i];
    DT__TRY(take_x(s, a, count));
    DT__TRY(dt__array_store_check(s, 0));
    DT__TRY(dt__array_store_targets(s, a->target, &y));
    return dt__array_store_names(s, a->names);
}

dt_status dt_dataset_from_arrays(dt_ctx *ctx, const dt_arrays *arrays, dt_dataset **out)
{
    DT__NEED3(ctx, ctx, arrays, out);
    int64_t count;
    *out = NULL;
    DT__TRY(check_shape(ctx, arrays, &count));
    DT__TRY(check_arrays(ctx, arrays));
    dt__array_store *s = dt__array_store_create(ctx);
    if (s == NULL) return DT_ERR_NOMEM;
    const dt_status status = fill_store(s, arrays, count);
    if (status == DT_OK) return dt__arrays_wrap(ctx, s, arrays->target, out);
    dt__array_store_release(s);
    return status;
}
