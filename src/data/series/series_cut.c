/* Windows of rows that are in order. A run is a maximal sequence of rows of one series, one file
 * and one part without a gap; its window w has the rows w stride ... w stride + length - 1. If
 * windows with mixed labels are left out, consecutive windows form runs of their own. */
#include "data/series/series.h"

#include <stdio.h>
#include <string.h>

typedef struct cutting {
    const dt__series *s;
    const dt__series_rows *r;
    const uint8_t *part;         /* NULL: all rows are of part 0 */
    const dt__array_store *from; /* the store of rows */
    const dt_dataset *rows;
    dt__array_store *to;
    int64_t runs, short_runs, longest, mixed; /* for messages */
    uint8_t *target;                          /* targets of the windows so far */
    int32_t *kept;                            /* their codes of keys */
    int64_t *count, *seen;                    /* [outputs]: per label */
} cutting;

/* ---- labels --------------------------------------------------------------------------------- */

static int32_t label_of(const cutting *c, const dt__series_row *row)
{
    return ((const int32_t *)c->from->targets->data)[row->at];
}

/* The most frequent label of a window; of equally frequent ones the one that occurs last. */
static int32_t majority(const cutting *c, const dt__series_row *row)
{
    const int64_t n = c->s->length;
    int32_t best = label_of(c, &row[n - 1]);
    for (int64_t i = 0; i < n; i++) c->count[label_of(c, &row[i])] = 0;
    for (int64_t i = 0; i < n; i++) {
        const int32_t label = label_of(c, &row[i]);
        c->count[label]++;
        c->seen[label] = i;
    }
    for (int64_t i = 0; i < n; i++) {
        const int32_t label = label_of(c, &row[i]);
        const int64_t more = c->count[label] - c->count[best];
        if (more > 0 || (more == 0 && c->seen[label] > c->seen[best])) best = label;
    }
    return best;
}

static bool is_mixed(const cutting *c, const dt__series_row *row)
{
    if (!dt__has_label(c->rows) || c->s->o->label != DT_SERIES_PURE) return false;
    int64_t i = 1;
    while (i < c->s->length && label_of(c, &row[i]) == label_of(c, row)) i++;
    return i < c->s->length;
}

/* Stores target and keys of the window that begins at a row. */
static void put_window(cutting *c, const dt__series_row *row)
{
    const dt__series_row *last = &row[c->s->length - 1];
    const size_t bytes = (size_t)dt__array_cells(c->rows) * sizeof(float);
    if (dt__has_label(c->rows) && c->s->o->label == DT_SERIES_MAJORITY) {
        const int32_t label = majority(c, row);
        memcpy(c->target, &label, sizeof label);
    } else {
        memcpy(c->target, (const uint8_t *)c->from->targets->data + (size_t)last->at * bytes,
               bytes);
    }
    c->target += bytes;
    if (c->kept == NULL) return;
    int64_t file = 0, before = 0;
    for (; before + c->r->table[file].rows <= last->at; before += c->r->table[file++].rows) {
    }
    const int64_t n = c->s->csv->keys.n;
    const int32_t *code = c->r->table[file].key->data;
    memcpy(c->kept, code + (last->at - before) * n, (size_t)n * sizeof *code);
    c->kept += n;
}

/* ---- runs ----------------------------------------------------------------------------------- */

static int part_of(const cutting *c, const dt__series_row *row)
{
    return c->part == NULL ? 0 : c->part[row->at];
}

/* Whether a step of time is not a gap. */
static bool is_step(const dt__series *s, double step)
{
    const double most = s->o->rate > 0 ? 1.5 / s->o->rate : s->gap;
    return !(most > 0 && step > most);
}

/* The length of the run that begins with the first of n sorted rows. */
static int64_t run_of(const cutting *c, const dt__series_row *row, int64_t n)
{
    int64_t i = 1;
    while (i < n && row[i].series == row->series && part_of(c, &row[i]) == part_of(c, row) &&
           is_step(c->s, row[i].time - row[i - 1].time)) {
        i++;
    }
    return i;
}

/* Adds the windows of `rows` rows from index `first` of a file on. */
static dt_status add_windows(cutting *c, int64_t file, int64_t first, int64_t rows)
{
    const dt__recording *in = &c->from->recording[file];
    const int64_t each = c->from->row * dt__array_dtype_of(in->dtype)->bytes;
    const uint8_t *data = c->to->source[file].storage->data;
    DT__TRY(dt__array_store_add(c->to, in->dtype, data + first * each, rows));
    dt__recording *added = &c->to->recording[c->to->n_recordings - 1];
    added->first = first;
    added->source = (int)file;
    return DT_OK;
}

static dt_status add_run(cutting *c, int64_t file, const dt__series_row *row, int64_t first,
                         int64_t n)
{
    const int64_t length = c->s->length, stride = c->s->stride;
    int64_t begin = -1, end = 0; /* rows of consecutive windows */
    c->runs++;
    c->short_runs += n < length;
    c->longest = dt__max_i64(c->longest, n);
    for (int64_t i = 0; i + length <= n; i += stride) {
        const bool mixed = is_mixed(c, row + i);
        c->mixed += mixed;
        if (mixed && begin >= 0) DT__TRY(add_windows(c, file, first + begin, end - begin));
        if (mixed) begin = -1;
        if (mixed) continue;
        if (begin < 0) begin = i;
        end = i + length;
        put_window(c, row + i);
    }
    return begin < 0 ? DT_OK : add_windows(c, file, first + begin, end - begin);
}

static dt_status add_part(cutting *c, int part)
{
    const dt__series_row *row = c->r->row;
    for (int64_t file = 0; file < c->r->files; row += c->r->table[file++].rows) {
        const int64_t n = c->r->table[file].rows;
        for (int64_t i = 0, rows; i < n; i += rows) {
            rows = run_of(c, row + i, n - i);
            if (part_of(c, row + i) == part) DT__TRY(add_run(c, file, row + i, i, rows));
        }
    }
    return DT_OK;
}

/* ---- stores --------------------------------------------------------------------------------- */

/* Adds the rows of a file in sorted order, and marks where runs begin; rows that are sorted already
 * are not copied. */
static dt_status add_source(cutting *c, int64_t file, const dt__series_row *row, int64_t before)
{
    const dt__recording *in = &c->from->recording[file];
    const dt__array_source *of = &c->from->source[in->source];
    const int64_t n = in->rows, each = c->from->row * dt__array_dtype_of(in->dtype)->bytes;
    int64_t i = 0;
    while (i < n && row[i].at == before + i) i++;
    dt__array_source source = { .storage = of->storage };
    if (i == n) dt__storage_retain(of->storage);
    else source.storage = dt__storage_create(c->s->ctx, (uint64_t)(n * each));
    if (source.storage == NULL) return DT_ERR_NOMEM;
    for (int64_t k = 0; k < n && i < n; k++) {
        memcpy((uint8_t *)source.storage->data + k * each, in->data + (row[k].at - before) * each,
               (size_t)each);
    }
    source.begins = dt__storage_create(c->s->ctx, (uint64_t)n);
    if (source.begins != NULL) {
        uint8_t *begins = source.begins->data;
        memset(begins, 0, (size_t)n);
        for (int64_t k = 0; k < n; k += run_of(c, row + k, n - k)) begins[k] = 1;
    }
    const bool failed = source.begins == NULL;
    const dt_status s = dt__array_store_keep(c->to, of->name, source);
    return failed ? DT_ERR_NOMEM : s;
}

static dt_status fill_shape(const dt__series *s, const dt__array_store *from, dt__array_store *to)
{
    to->dtype = from->dtype;
    to->rank = 2;
    to->dims[0] = to->length = s->length;
    to->dims[1] = to->row = from->row;
    to->stride = s->stride;
    to->axis = s->axis;
    to->outputs = from->outputs;
    to->is_table = true;
    const int64_t sizes[] = { to->row, to->length, (int64_t)sizeof(double) };
    int64_t bytes;
    if (!dt__product(3, sizes, &bytes)) {
        return dt_fail(s->ctx, DT_ERR_CONFIG, "data.window.length: %lld rows of %lld numbers",
                       (long long)s->length, (long long)from->row);
    }
    if (from->column_name != NULL) {
        DT__TRY(
            dt__array_store_columns(to, (const char *const *)from->column_name, from->n_columns));
    }
    DT__TRY(dt__array_store_names(to, (const char *const *)from->class_name));
    dt_series_options series = *s->o;
    if (series.time != NULL && series.format == NULL) {
        series.format =
            s->csv->key_form[dt__words_find(&s->csv->keys, series.time, strlen(series.time))];
    }
    DT__TRY(dt__array_store_series(to, &series));
    DT__TRY(dt__array_store_form(to, &from->form));
    to->series.gap = s->gap;
    return DT_OK;
}

/* Allocates for as many windows as rows, the largest possible number. */
static dt_status make_room(cutting *c, dt__storage **codes)
{
    const int64_t n = c->r->n, cells = dt__array_cells(c->rows);
    const int64_t targets[] = { n, cells, (int64_t)sizeof(float) };
    const int64_t kept[] = { n, c->s->csv->keys.n, (int64_t)sizeof(int32_t) };
    int64_t bytes, more;
    if (!dt__product(3, targets, &bytes) || !dt__product(3, kept, &more)) return DT_ERR_NOMEM;
    c->to->targets = dt__storage_create(c->s->ctx, (uint64_t)bytes);
    const bool keeps = c->s->keeps && c->s->csv->keys.n > 0;
    if (keeps) *codes = dt__storage_create(c->s->ctx, (uint64_t)more);
    const int64_t labels = dt__max_i64(1, c->from->outputs);
    c->count = dt__alloc_array(c->s->ctx, 2 * labels, sizeof *c->count);
    if (c->to->targets == NULL || c->count == NULL) return DT_ERR_NOMEM;
    if (keeps && *codes == NULL) return DT_ERR_NOMEM;
    c->seen = c->count + labels;
    c->target = c->to->targets->data;
    c->kept = *codes == NULL ? NULL : (*codes)->data;
    return DT_OK;
}

static dt_status fill(cutting *c, int64_t count[3])
{
    int64_t before = 0;
    DT__TRY(fill_shape(c->s, c->from, c->to));
    for (int64_t file = 0; file < c->r->files; before += c->r->table[file++].rows) {
        DT__TRY(add_source(c, file, c->r->row + before, before));
    }
    int64_t done = 0;
    for (int part = 0; part < 3; part++) {
        DT__TRY(add_part(c, part));
        const int64_t n = c->to->n_recordings;
        count[part] = (n == 0 ? 0 : c->to->recording[n - 1].end) - done;
        done += count[part];
    }
    return DT_OK;
}

/* ---- messages ------------------------------------------------------------------------------- */

static dt_status check_windows(const cutting *c, const int64_t count[3])
{
    char file[DT__MESSAGE_SIZE / 2];
    const int64_t others = c->to->n_sources - 1;
    int n = snprintf(file, sizeof file, "'%s'", c->to->source[0].name);
    if (others > 0 && n > 0 && (size_t)n < sizeof file) {
        snprintf(file + n, sizeof file - (size_t)n, " and %lld other files", (long long)others);
    }
    if (count[0] + count[1] + count[2] == 0) {
        return dt_fail(c->s->ctx, DT_ERR_CONFIG,
                       "data.window.length: %lld row%s, but in %s the longest run of rows of one "
                       "series without a gap has %lld%s",
                       (long long)c->s->length, DT__S(c->s->length), file, (long long)c->longest,
                       c->mixed > 0 ? ", and no window has one label (data.series.label: pure)"
                                    : "");
    }
    if (c->short_runs > 0) {
        dt__say(c->s->ctx,
                "%s: %lld of %lld runs of rows without a gap are shorter than a window, %lld "
                "rows, and left out",
                file, (long long)c->short_runs, (long long)c->runs, (long long)c->s->length);
    }
    if (c->mixed > 0) {
        dt__say(c->s->ctx, "%s: %lld window%s several labels, and %s left out", file,
                (long long)c->mixed, c->mixed == 1 ? " has" : "s have",
                c->mixed == 1 ? "is" : "are");
    }
    return DT_OK;
}

/* Replaces the dataset. The texts of keys are kept if there is one file only. */
static dt_status replace(const cutting *c, dt__storage **codes, dt_dataset **d)
{
    dt_dataset *made = NULL;
    dt__storage *kept = *codes;
    *codes = NULL;
    const dt_status s = dt__arrays_wrap(c->s->ctx, c->to, c->rows->target, &made);
    if (s != DT_OK) {
        dt__storage_release(kept);
        return s;
    }
    made->arrays->kept_codes = kept;
    dt_dataset_free(*d);
    *d = made;
    return DT_OK;
}

dt_status dt__series_cut(const dt__series *s, const dt__series_rows *r, const uint8_t *part,
                         dt_dataset **d, int64_t count[3])
{
    cutting c = { .s = s, .r = r, .part = part, .from = (*d)->arrays, .rows = *d };
    dt__storage *codes = NULL;
    c.to = dt__array_store_create(s->ctx);
    if (c.to == NULL) return DT_ERR_NOMEM;
    dt_status status = make_room(&c, &codes);
    if (status == DT_OK) status = fill(&c, count);
    if (status == DT_OK) status = check_windows(&c, count);
    dt__release(s->ctx, c.count);
    if (status == DT_OK) return replace(&c, &codes, d);
    dt__storage_release(codes);
    dt__array_store_release(c.to);
    return status;
}
