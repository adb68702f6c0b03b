/* Opens arrays in files as datasets (format tensors). A part of the data is either arrays [count,
 * shape of an example], joined along their first dimension; or recordings, whose rows are time
 * steps: one per file, or for arrays of rank 3 one per index of the first dimension. */
#include "core/text/ending.h"
#include "core/text/json.h"
#include "core/pace.h"
#include "data/files/array_file.h"
#include "data/data_options.h"
#include "data/index_column.h"
#include "data/label_file.h"
#include "data/series/series.h"
#include "data/tables/csv_types.h"
#include "data/tables/table_cache.h"
#include "data/splits/name_pattern.h"
#include "data/tables/tables.h"

#include <detent/experimental/tables.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

typedef struct opening {
    dt_ctx *ctx;
    const dt_data_options *o;
    dt_target target;
    dt__tables *tables;
    dt__csv *csv;            /* the reading of `tables` for this dataset */
    dt__labels labels;       /* of files of targets */
    dt__words folders;       /* classes, if folders are labels */
    const dt_dataset *train; /* NULL: the training data are being opened */
    dt__series series;       /* if rows are moments of series */
} opening;

/* A part of the data while it is opened. */
typedef struct part {
    opening *all;
    int number;      /* index in dt__tables */
    const char *key; /* "data.train" */
    const dt_strings *names;
    const char *y;  /* NULL: none */
    bool by_folder; /* files are recordings, and their folders labels */
    dt__tensor_names files;
    dt__csv_table *table; /* of each file that is CSV; lent */
    dt__array_store *store;
    int64_t cut;           /* number of recordings that end before their headers say */
    const char *first_cut; /* the first of them */
} part;

/* ---- shapes ------------------------------------------------------------------------------- */

/* The array in a file, or the inputs of a table. */
typedef struct piece {
    const char *name;
    int dtype, rank;
    int64_t dims[DT_MAX_RANK];
    const uint8_t *data;
    int64_t rate;
} piece;

/* Whether examples are windows of recordings. Windows of series are cut later, from rows. */
static bool has_windows(const part *p)
{
    return p->all->o->window.given && !p->all->o->series.given;
}

/* Whether rows are time steps of a recording rather than examples. */
static bool has_recordings(const part *p)
{
    return p->by_folder || has_windows(p) || p->store->rate > 0;
}

static dt_status bad_piece(const part *p, const piece *x, const char *wanted)
{
    char text[160];
    return dt_fail(p->all->ctx, DT_ERR_FORMAT, "'%s': shape %s; %s", x->name,
                   dt__dims_text(x->rank, x->dims, text, sizeof text), wanted);
}

static int axis_of(int axis, int rank)
{
    if (axis == DT_AXIS_AUTO) axis = rank <= 2 ? DT_AXIS_LAST : DT_AXIS_FIRST;
    return axis == DT_AXIS_FIRST ? 0 : rank - 1;
}

/* Sets the shape of examples from the first file. */
static dt_status take_shape(part *p, const piece *x)
{
    dt__array_store *s = p->store;
    const dt_window *w = &p->all->o->window;
    s->dtype = x->dtype;
    s->rate = x->rate;
    s->from_sounds = x->rate > 0;
    if (x->rank < 1) return bad_piece(p, x, "expected at least one dimension");
    if (has_windows(p)) {
        if (x->rank > 3) return bad_piece(p, x, "expected [time], [time, channels] or several");
        s->rank = 2;
        s->dims[0] = s->length = w->length;
        s->dims[1] = s->row = x->rank == 1 ? 1 : x->dims[x->rank - 1];
        s->stride = w->stride == 0 ? w->length : w->stride;
    } else {
        const int skipped = has_recordings(p) ? 0 : 1;
        s->rank = x->rank == 1 ? 1 : x->rank - skipped;
        s->dims[0] = 1;
        if (s->rank > DT_MAX_RANK - 1) return bad_piece(p, x, "expected at most 7 dimensions");
        for (int i = skipped; i < x->rank; i++) s->dims[i - skipped] = x->dims[i];
        s->row = 1;
        for (int i = 1; i < x->rank; i++) s->row *= x->dims[i];
        if (skipped == 0) s->length = s->stride = x->dims[0];
    }
    s->axis = axis_of(p->all->o->standard.axis, s->rank);
    if (p->all->o->layout == DT_LAYOUT_NHWC && s->rank < 2) {
        return dt_fail(p->all->ctx, DT_ERR_CONFIG,
                       "data.layout: nhwc is of examples whose last dimension counts channels, but "
                       "those of '%s' have one dimension",
                       x->name);
    }
    if (p->all->o->layout == DT_LAYOUT_NHWC) {
        dt__array_channels_last(s);
        if (p->all->o->standard.axis == DT_AXIS_AUTO) s->axis = 0;
    }
    const int64_t sizes[] = { s->row, s->length, (int64_t)sizeof(double) };
    int64_t bytes;
    if (s->row >= 1 && s->length >= 1 && dt__product(3, sizes, &bytes)) return DT_OK;
    return bad_piece(p, x, "expected extents of at least 1");
}

/* Refuses a recording of another rate or number of channels, with the advice to convert it. */
static dt_status refuse_sound(const part *p, const piece *x, int64_t channels)
{
    const dt__array_store *s = p->store;
    return dt_fail(p->all->ctx, DT_ERR_FORMAT,
                   "'%s' has %lld samples a second and %lld channel%s, but '%s' %lld and %lld; "
                   "expected recordings alike, as `sox IN -r %lld -c %lld OUT` writes them",
                   x->name, (long long)x->rate, (long long)channels, channels == 1 ? "" : "s",
                   p->files.v[0].path, (long long)s->rate, (long long)s->row, (long long)s->rate,
                   (long long)s->row);
}

/* Checks a file against the first of its part. */
static dt_status check_piece(const part *p, const piece *x)
{
    const dt__array_store *s = p->store;
    const bool windows = has_windows(p);
    int64_t row = 1;
    for (int i = windows && x->rank > 1 ? x->rank - 1 : 1; i < x->rank; i++) row *= x->dims[i];
    /* all sounds have the scale of dt__sound_form, whatever their dtype */
    const bool sounds = x->rate > 0;
    const bool same = (x->dtype == s->dtype || sounds) && x->rate == s->rate && row == s->row &&
                      (windows || s->length == 1 || x->dims[0] == s->length);
    if (same) return DT_OK;
    if (sounds && (x->rate != s->rate || row != s->row)) return refuse_sound(p, x, row);
    char text[160], wanted[160];
    return dt_fail(p->all->ctx, DT_ERR_FORMAT,
                   "'%s' has %s%s, but examples of '%s' have %s%s; expected files alike%s", x->name,
                   dt__array_dtype_of(x->dtype)->name,
                   dt__dims_text(x->rank, x->dims, text, sizeof text), p->files.v[0].path,
                   dt__array_dtype_of(s->dtype)->name,
                   dt__dims_text(s->rank, s->dims, wanted, sizeof wanted),
                   windows || s->length == 1 ? "" : ", or data.window, which cuts them");
}

static dt_status add_piece(part *p, const piece *x)
{
    dt__array_store *s = p->store;
    if (s->rank == 0) DT__TRY(take_shape(p, x));
    DT__TRY(check_piece(p, x));
    const bool several = has_windows(p) && x->rank == 3;
    const int64_t n = several ? x->dims[0] : 1, rows = x->dims[several ? 1 : 0];
    const int64_t bytes = rows * s->row * dt__array_dtype_of(x->dtype)->bytes;
    for (int64_t i = 0; i < n; i++) {
        DT__TRY(dt__array_store_add(s, x->dtype, x->data + i * bytes, rows));
    }
    return DT_OK;
}

/* ---- files -------------------------------------------------------------------------------- */

static dt_status add_array(part *p, const char *name)
{
    dt__array_file a;
    dt_status status = dt__array_file_open(p->all->ctx, name, &a);
    if (status == DT_OK) {
        const dt__array_source source = a.source;
        a.source = (dt__array_source){ 0 };
        status = dt__array_store_keep(p->store, name, source);
    }
    if (a.cut && p->cut++ == 0) p->first_cut = name;
    piece x = { name, a.dtype, a.rank, { 0 }, a.data, a.rate };
    memcpy(x.dims, a.dims, sizeof x.dims);
    if (status == DT_OK) status = add_piece(p, &x);
    dt__array_file_close(&a);
    return status;
}

static dt_status add_table(part *p, const char *name, dt__csv_table *t)
{
    const int dtype = dt__csv_types_of(p->all->csv) == NULL ? DT_ARRAY_F32 : DT_ARRAY_F64;
    const piece x = { name, dtype, 2, { t->rows, p->all->csv->inputs.n }, t->x->data, 0 };
    const dt__array_source source = { .storage = t->x };
    t->x = NULL;
    DT__TRY(dt__array_store_keep(p->store, name, source));
    return add_piece(p, &x);
}

/* Reads all tables before the rest, since their labels define the classes. */
static dt_status read_tables(part *p)
{
    opening *all = p->all;
    if (all->train != NULL && all->csv->inputs.n == 0) {
        return dt_fail(all->ctx, DT_ERR_CONFIG,
                       "%s is of .csv, but data.train is not; expected the same format", p->key);
    }
    for (int64_t i = 0; i < p->files.n; i++) {
        if (dt_is_table(p->files.v[i].path)) continue;
        return dt_fail(
            all->ctx, DT_ERR_CONFIG,
            "%s: '%s' is not a .csv file as the others are; expected files of one format", p->key,
            p->files.v[i].path);
    }
    const int k = (int)(all->csv - all->tables->reading);
    DT__TRY(dt__tables_read(all->tables, p->number, &p->files, k, &p->table));
    if (!all->o->series.given) return DT_OK;
    const char *const *names = (const char *const *)all->tables->part[p->number].name;
    return dt__series_sample(&all->series, p->table, p->files.n, names);
}

/* Warns of inputs that number the rows of each file. */
static dt_status say_index(const part *p)
{
    const dt__csv *csv = p->all->csv;
    char shown[DT__SHOWN];
    for (int64_t k = 0; k < csv->inputs.n && csv->inputs.n > 1; k++) {
        bool counts = true;
        const char *name = csv->inputs.word[k];
        if (!csv->options->header && strcmp(name, "0") != 0) continue;
        for (int64_t i = 0; i < p->store->n_recordings && counts; i++) {
            const dt__recording *r = &p->store->recording[i];
            const dt__column c = { (const float *)r->data + k, r->rows, csv->inputs.n };
            DT__TRY(
                dt__is_index_column(p->all->ctx, csv->options->header ? name : NULL, &c, &counts));
        }
        if (!counts) continue;
        dt__say(p->all->ctx,
                "warning: %s: the input '%s' numbers the rows of '%s': a model learns the order of "
                "the file by it; data.columns.exclude: ['%s'] leaves it out",
                p->key, dt__shown(name, shown), p->files.v[0].path, shown);
    }
    return DT_OK;
}

static dt_status take_form(const part *p)
{
    const dt_csv_form form = dt__csv_form(&p->all->tables->reading[0]);
    return dt__array_store_form(p->store, &form);
}

static dt_status read_files(part *p)
{
    const bool tables = p->files.n > 0 && dt_is_table(p->files.v[0].path);
    if (tables) DT__TRY(read_tables(p));
    dt__pace pace = dt__pace_begin();
    for (int64_t i = 0; i < p->files.n; i++) {
        const char *name = p->files.v[i].path;
        DT__TRY(tables ? add_table(p, name, &p->table[i]) : add_array(p, name));
        if (!dt__pace_is_due(&pace)) continue;
        dt__say(p->all->ctx, "reading %s: %lld of %lld files", p->key, (long long)i + 1,
                (long long)p->files.n);
    }
    const dt__csv *csv = p->all->csv;
    if (tables) DT__TRY(take_form(p));
    p->store->is_table = tables;
    const bool plain = tables && dt__csv_types_of(csv) == NULL;
    if (plain && p->all->train == NULL && csv->x_of == NULL) DT__TRY(say_index(p));
    if (plain && csv->options->header) {
        DT__TRY(dt__array_store_columns(p->store, (const char *const *)csv->inputs.word,
                                        csv->inputs.n));
    }
    return DT_OK;
}

/* ---- targets ------------------------------------------------------------------------------ */

/* The number of targets that x needs. */
static int64_t targets_wanted(const part *p)
{
    const dt__array_store *s = p->store;
    if (s->n_recordings == 0) return 0;
    return has_recordings(p) ? s->n_recordings : s->recording[s->n_recordings - 1].end;
}

/* The training data's number of classes, or of numbers per target; 0: these are the training
 * data. */
static int64_t known_outputs(const part *p)
{
    return p->all->train == NULL ? 0 : p->all->train->arrays->outputs;
}

/* The label of a file, by its folder or its name. */
static dt_status anomaly_of_folder(const part *p, const dt__tensor_name *file, int32_t *label)
{
    const char *name = p->all->folders.word[file->label];
    dt_ctx *ctx = p->all->ctx;
    char shown[DT__SHOWN];
    const dt__label_fault fault = dt__labels_add(ctx, &p->all->labels, name, strlen(name), label);
    if (fault == DT__LABEL_GOOD) return DT_OK;
    if (fault == DT__LABEL_NOMEM) return DT_ERR_NOMEM;
    return dt_fail(ctx, DT_ERR_CONFIG, "'%s': its label '%s' %s", file->path,
                   dt__shown(name, shown), dt__labels_unknown(&p->all->labels));
}

static dt_status targets_of_folders(part *p)
{
    const dt__words *names = &p->all->folders;
    dt__labels *l = &p->all->labels;
    const bool anomaly = l->normal != NULL;
    const int64_t n = p->files.n;
    int32_t *label = dt__alloc_array(p->all->ctx, n, sizeof *label);
    if (label == NULL) return DT_ERR_NOMEM;
    dt_status status = DT_OK;
    for (int64_t i = 0; i < n && status == DT_OK; i++) {
        label[i] = (int32_t)p->files.v[i].label;
        if (anomaly) status = anomaly_of_folder(p, &p->files.v[i], &label[i]);
    }
    const dt__array_view y = { p->key, DT_ARRAY_I32, label, n, anomaly ? l->classes : names->n };
    if (status == DT_OK) status = dt__array_store_targets(p->store, DT_TARGET_CLASS, &y);
    dt__release(p->all->ctx, label);
    if (status != DT_OK || anomaly) return status;
    return dt__array_store_names(p->store, (const char *const *)names->word);
}

/* Joins the targets of tables. */
static dt_status targets_of_tables(part *p)
{
    const dt__csv *own = p->all->csv, *csv = own->y_of == NULL ? own : own->y_of;
    const bool labels = p->all->target == DT_TARGET_CLASS;
    const int64_t n = targets_wanted(p), each = labels ? 1 : csv->targets.n;
    const bool one = p->files.n == 1;
    uint8_t *all = one ? NULL : dt__alloc_array(p->all->ctx, n, (size_t)each * sizeof(float));
    uint8_t *to = all;
    if (all == NULL && !one) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < p->files.n && !one; i++) {
        const size_t bytes = (size_t)(p->table[i].rows * each) * sizeof(float);
        memcpy(to, p->table[i].y->data, bytes);
        to += bytes;
    }
    const dt__array_view y = { p->key, labels ? DT_ARRAY_I32 : DT_ARRAY_F32,
                               one ? p->table[0].y->data : all, n,
                               labels ? csv->labels.classes : each };
    const dt_status status = dt__array_store_targets(p->store, p->all->target, &y);
    dt__release(p->all->ctx, all);
    DT__TRY(status);
    for (int64_t i = 0; i < p->files.n; i++) {
        dt__storage_release(p->table[i].y); /* frees memory: large tables need it */
        p->table[i].y = NULL;
    }
    return dt__array_store_names(p->store, labels ? dt__labels_names(&csv->labels)
                                                  : (const char *const *)csv->targets.word);
}

static dt_status check_y(const part *p, const dt__array_file *a)
{
    dt_ctx *ctx = p->all->ctx;
    const int64_t wanted = targets_wanted(p), k = known_outputs(p);
    const bool labels = p->all->target == DT_TARGET_CLASS;
    char text[160];
    dt__dims_text(a->rank, a->dims, text, sizeof text);
    if (a->rank < 1 || a->rank > 2 || (a->rank == 2 && labels && a->dims[1] != 1)) {
        return dt_fail(ctx, DT_ERR_FORMAT, "'%s': shape %s; expected %s", a->name, text,
                       labels ? "[count], a label for each example" : "[count, numbers]");
    }
    if (a->dims[0] != wanted) {
        return dt_fail(ctx, DT_ERR_FORMAT, "'%s': %lld target%s, but x has %lld %s", a->name,
                       (long long)a->dims[0], DT__S(a->dims[0]), (long long)wanted,
                       has_recordings(p) ? "recordings" : "examples");
    }
    if (!labels && a->text > 0) {
        return dt_fail(ctx, DT_ERR_FORMAT,
                       "'%s': words, which are classes; data.task: classification takes them",
                       a->name);
    }
    const int64_t each = a->rank == 2 ? a->dims[1] : 1;
    if (labels || (each >= 1 && (k == 0 || k == each))) return DT_OK;
    return dt_fail(ctx, DT_ERR_FORMAT, "'%s': %lld number%s for each example; expected %lld",
                   a->name, (long long)each, DT__S(each), (long long)dt__max_i64(k, 1));
}

static dt_status targets_of_file(part *p)
{
    dt__array_file a;
    char *path = dt__data_path(p->all->ctx, p->all->o->dir, p->y);
    if (path == NULL) return DT_ERR_NOMEM;
    dt_status status = dt__array_file_open_any(p->all->ctx, path, &a);
    if (status == DT_OK) status = check_y(p, &a);
    if (status == DT_OK && p->all->target == DT_TARGET_CLASS) {
        status = dt__label_file_targets(p->store, &p->all->labels, &a);
    } else if (status == DT_OK) {
        const dt__array_view y = { path, a.dtype, a.data, a.dims[0], a.rank == 2 ? a.dims[1] : 1 };
        status = dt__array_store_targets(p->store, p->all->target, &y);
    }
    dt__array_file_close(&a);
    dt__release(p->all->ctx, path);
    return status;
}

static dt_status read_targets(part *p)
{
    const bool in_table = p->table != NULL && p->all->csv->targets.n > 0;
    p->store->target_each_recording = has_recordings(p);
    if (in_table && has_recordings(p)) {
        return dt_fail(p->all->ctx, DT_ERR_CONFIG,
                       "data.columns.target labels every row, but a recording has one label: from "
                       "%s.y, or its folder",
                       p->key);
    }
    if (in_table && p->y != NULL) {
        return dt_fail(p->all->ctx, DT_ERR_CONFIG,
                       "%s.y and data.columns.target both give targets; expected one of them",
                       p->key);
    }
    if (p->by_folder) return targets_of_folders(p);
    if (in_table) return targets_of_tables(p);
    if (p->y != NULL) return targets_of_file(p);
    return dt_fail(p->all->ctx, DT_ERR_CONFIG, "%s has no targets: expected %s.y%s", p->key, p->key,
                   p->table != NULL ? ", or data.columns.target" : "");
}

/* ---- a part ------------------------------------------------------------------------------- */

/* Reports how many recordings are shorter than a window. */
static void say_filled(const part *p)
{
    const dt__array_store *s = p->store;
    int64_t n = 0;
    for (int64_t i = 0; i < s->n_recordings; i++) n += s->recording[i].rows < s->length;
    if (n == 0) return;
    dt__say(p->all->ctx,
            "%s: %lld of %lld recordings are shorter than data.window.length, %lld; zeros fill "
            "them up",
            p->key, (long long)n, (long long)s->n_recordings, (long long)s->length);
}

/* Reports how many recordings have another size than their headers give. */
static void say_cut(const part *p)
{
    if (p->cut == 0) return;
    dt__say(p->all->ctx,
            "%s: %lld of %lld recordings were not ended by their writer, or are cut short: their "
            "headers give a size that they do not have; they are read to the end of the file "
            "('%s'%s)",
            p->key, (long long)p->cut, (long long)p->files.n, p->first_cut,
            p->cut > 1 ? " and others" : "");
}

#define SHOWN_LABELS 8

/* Reports which words mean that an example is anomalous. */
static void say_anomalies(const part *p)
{
    const dt__labels *const each[] = { &p->all->labels, &p->all->csv->labels };
    for (int k = 0; k < DT__COUNT_OF(each); k++) {
        const dt__labels *l = each[k];
        char text[SHOWN_LABELS * (DT__SHOWN + 4)] = "", shown[DT__SHOWN];
        int64_t n = 0;
        for (int64_t i = l->normals; l->normal != NULL && i < l->words.n; i++) {
            if (strcmp(l->words.word[i], "1") == 0 || n++ >= SHOWN_LABELS) continue;
            const size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, " '%s'", dt__shown(l->words.word[i], shown));
        }
        if (n == 0) continue;
        dt__say_once(p->all->ctx, "%s: labels that are anomalous, as data.normal has others:%s%s",
                     p->key, text, n > SHOWN_LABELS ? " and more" : "");
    }
}

/* Warns if the order of files matters and a pattern's order may not be the intended one. */
static void say_order(const part *p)
{
    const dt_data_options *o = p->all->o;
    const bool newest = o->split.by == DT_SPLIT_TIME && o->split.column == NULL;
    if (p->files.larger == NULL || (p->y == NULL && !newest)) return;
    dt__say(p->all->ctx,
            "warning: %s: '%s' is read before '%s', as files of a pattern are in the order of "
            "their bytes: %s%s; numbers of equally many digits, or a list of files, set the order",
            p->key, p->files.larger, p->files.smaller,
            p->y != NULL ? "targets belong to examples in this order in "
                         : "the last are held back",
            p->y != NULL ? p->y : "");
}

static dt_status read_part(part *p)
{
    opening *all = p->all;
    const bool anomaly = all->o->task == DT_DATA_ANOMALY;
    DT__TRY(dt__tensor_names_add(all->ctx, p->key, all->o->dir, p->names, &p->files));
    say_order(p);
    if (p->by_folder && all->train != NULL && all->folders.n == 0 && !anomaly) {
        return dt_fail(
            all->ctx, DT_ERR_CONFIG,
            "%s has classes by folders, but data.train has none; {x: FILES, y: expected FILE}",
            p->key);
    }
    if (p->by_folder) {
        const char *names = all->o->file_names;
        const bool label = names != NULL && dt__name_pattern_has(names, "label");
        if (anomaly) dt__words_free(all->ctx, &all->folders); /* each part has its own */
        DT__TRY(dt__tensor_names_label(all->ctx, &p->files, label ? names : NULL, &all->folders));
    }
    p->store = dt__array_store_create(all->ctx);
    if (p->store == NULL) return DT_ERR_NOMEM;
    DT__TRY(read_files(p));
    if (targets_wanted(p) == 0) {
        return dt_fail(all->ctx, DT_ERR_FORMAT, "'%s' holds no examples", p->files.v[0].path);
    }
    say_cut(p);
    say_filled(p);
    DT__TRY(read_targets(p));
    say_anomalies(p);
    return DT_OK;
}

/* Checks that examples have the form of the training data. */
static dt_status check_alike(const part *p, const dt_dataset *d)
{
    const dt__array_store *s = p->all->train->arrays, *own = d->arrays;
    const bool same = own->rank == s->rank && own->rate == s->rate &&
                      memcmp(own->dims, s->dims, sizeof s->dims) == 0;
    if (same) return DT_OK;
    char text[160], wanted[160];
    if (own->rate != s->rate) {
        return dt_fail(d->ctx, DT_ERR_FORMAT,
                       "%s has %lld samples a second, data.train %lld; expected the same", p->key,
                       (long long)own->rate, (long long)s->rate);
    }
    return dt_fail(d->ctx, DT_ERR_FORMAT, "%s has examples of %s, data.train of %s", p->key,
                   dt__dims_text(own->rank, own->dims, text, sizeof text),
                   dt__dims_text(s->rank, s->dims, wanted, sizeof wanted));
}

static dt_status open_part(part *p, dt_dataset **out)
{
    dt_ctx *ctx = p->all->ctx;
    dt_status status = read_part(p);
    dt__tensor_names_free(ctx, &p->files);
    if (status != DT_OK) {
        dt__array_store_release(p->store);
        return status;
    }
    DT__TRY(dt__arrays_wrap(ctx, p->store, p->all->target, out));
    return p->all->train == NULL ? DT_OK : check_alike(p, *out);
}

/* ---- groups and times -------------------------------------------------------------------- */

/* Parses the words of keys as times. */
static dt_status time_keys(const opening *all, dt__split_keys *keys)
{
    const dt__words *words = keys->words;
    keys->time = dt__alloc_array(all->ctx, dt__max_i64(1, words->n), sizeof *keys->time);
    if (keys->time == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt__csv_times(&all->tables->reading[0], 0, NULL, keys->time));
    for (int64_t i = 0; i < words->n; i++) {
        char shown[DT__SHOWN];
        if (!isnan(keys->time[i])) continue;
        return dt_fail(
            all->ctx, DT_ERR_CONFIG,
            "data.split.column: '%s' of '%s' is not a time; expected numbers in all rows, "
            "or times such as 2024-05-31T12:00:00 (data.columns.types gives another form "
            "by type: time and format)",
            dt__shown(words->word[i], shown), all->o->split.column);
    }
    return DT_OK;
}

/* Keys of the rows of tables. */
static dt_status keys_of_tables(const opening *all, dt__split_keys *keys)
{
    const dt__tables *t = all->tables;
    if (t->part[0].v == NULL) {
        return dt_fail(all->ctx, DT_ERR_CONFIG,
                       "data.split.column: '%s' is a column of tables; data.train names no .csv",
                       all->o->split.column);
    }
    for (int64_t i = 0; i < t->part[0].files; i++) keys->n += t->part[0].v[i].rows;
    keys->words = t->reading[0].key_words;
    int64_t *to = keys->code = dt__alloc_array(all->ctx, keys->n, sizeof *to);
    if (to == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < t->part[0].files; i++) {
        const dt__csv_table *table = &t->part[0].v[i];
        const int32_t *code = table->key->data;
        for (int64_t k = 0; k < table->rows; k++) *to++ = code[k * t->reading[0].keys.n];
    }
    return all->o->split.by == DT_SPLIT_TIME ? time_keys(all, keys) : DT_OK;
}

static void free_keys(const opening *all, dt__split_keys *keys)
{
    DT__RELEASE(all->ctx, keys->code, keys->time);
}

/* The groups of recordings, from the names of their files. */
static dt_status keys_of_names(const opening *all, const dt__array_store *s, dt__words *words,
                               dt__split_keys *keys)
{
    keys->of_recordings = true;
    keys->words = words;
    keys->n = s->n_recordings;
    keys->code = dt__alloc_array(all->ctx, keys->n, sizeof *keys->code);
    if (keys->code == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < keys->n; i++) {
        const char *group, *name = s->source[s->recording[i].source].name;
        size_t n;
        if (!dt__name_field(all->o->file_names, name, "group", &group, &n)) {
            return dt_fail(all->ctx, DT_ERR_FORMAT,
                           "'%s': its name is not of the form '%s' of data.file_names", name,
                           all->o->file_names);
        }
        keys->code[i] = dt__words_add(all->ctx, words, group, n);
        if (keys->code[i] < 0) return DT_ERR_NOMEM;
    }
    return DT_OK;
}

static bool holds_back(const dt_data_options *o)
{
    return o->validation > 0 || o->split.test > 0 || o->split.folds > 0;
}

static dt_status check_tests(const opening *all, dt_dataset **const out[3])
{
    const dt_data_options *o = all->o;
    if (*out[2] == NULL || (o->split.test == 0 && o->split.folds == 0)) return DT_OK;
    return dt_fail(all->ctx, DT_ERR_CONFIG,
                   "data.split takes test data from data.train, but data.test names files");
}

static dt_status hold_back(const opening *all, dt_dataset **const out[3])
{
    const dt_data_options *o = all->o;
    dt__split_keys keys = { .n = 0 };
    dt__words words = { .n = 0 };
    dt_status status = DT_OK;
    DT__TRY(check_tests(all, out));
    if (o->split.column != NULL) {
        status = keys_of_tables(all, &keys);
    } else if (o->split.by == DT_SPLIT_GROUP && o->file_names != NULL &&
               dt__name_pattern_has(o->file_names, "group")) {
        status = keys_of_names(all, (*out[0])->arrays, &words, &keys);
    }
    if (status == DT_OK) status = dt__hold_back(o, &keys, &all->tables->held, out);
    free_keys(all, &keys);
    dt__words_free(all->ctx, &words);
    return status;
}

/* ---- windows of series ------------------------------------------------------------------- */

/* Cuts windows of the training rows, divided into parts. */
static dt_status cut_training(const opening *all, const dt__series *s, const dt__series_rows *r,
                              dt_dataset **const out[3])
{
    const dt_data_options *o = all->o;
    dt__split_keys keys = { .n = 0 };
    dt__held_back held = { .n = 0 };
    int64_t count[3];
    dt_status status = check_tests(all, out);
    if (status == DT_OK && o->split.column != NULL) status = keys_of_tables(all, &keys);
    if (status == DT_OK && holds_back(o)) {
        status = dt__series_hold_back(o, r, &keys, *out[0], &held);
    }
    if (status == DT_OK) status = dt__series_cut(s, r, held.part, out[0], count);
    static const char *const names[] = { "data.train", "data.validation", "data.split.test" };
    const bool wanted[] = { true, o->validation > 0, o->split.test > 0 || o->split.folds > 0 };
    for (int i = 2; i >= 0 && status == DT_OK; i--) {
        if (wanted[i] && count[i] == 0) {
            status = dt_fail(all->ctx, DT_ERR_CONFIG,
                             "%s: no window of %lld rows is in this share of the rows", names[i],
                             (long long)s->length);
        } else if (wanted[i] && i > 0) {
            status = dt_dataset_split(*out[0], count[i], out[i]);
        }
    }
    free_keys(all, &keys);
    dt__held_back_free(all->ctx, &held);
    return status;
}

/* Windows of all parts have the length of the training windows. */
static dt_status cut_series(opening *all, dt_dataset **const out[3])
{
    const dt__tables *t = all->tables;
    dt__series *s = &all->series;
    for (int i = 0; i < 3; i++) {
        dt__series_rows r = { .n = 0 };
        int64_t count[3];
        if (t->part[i].v == NULL) {
            if (i > 0) continue;
            return dt_fail(all->ctx, DT_ERR_CONFIG,
                           "data.series: rows of tables; data.train names no .csv");
        }
        if ((*out[i])->arrays->target_each_recording) {
            return dt_fail(all->ctx, DT_ERR_CONFIG,
                           "data.series: every row has a target, and folders label whole files; "
                           "expected {x: FILES}");
        }
        dt_status status = dt__series_read(s, t->part[i].v, t->part[i].files,
                                           (const char *const *)t->part[i].name, &r);
        if (status == DT_OK && i == 0) status = dt__series_measure(s, &r, &all->o->window);
        if (status == DT_OK && i == 0) status = cut_training(all, s, &r, out);
        else if (status == DT_OK) status = dt__series_cut(s, &r, NULL, out[i], count);
        dt__series_rows_free(all->ctx, &r);
        DT__TRY(status);
    }
    return DT_OK;
}

/* ---- all parts ---------------------------------------------------------------------------- */

/* Fits typed columns to the training examples, then encodes all parts. */
static dt_status encode_types(opening *all, dt_dataset **const out[3])
{
    dt__csv_types *types = dt__csv_types_of(all->csv);
    if (types == NULL) return DT_OK;
    DT__TRY(dt__csv_types_fit(types, *out[0]));
    for (int i = 0; i < 3; i++) {
        if (*out[i] != NULL) DT__TRY(dt__csv_types_apply(types, (*out[i])->arrays));
    }
    return DT_OK;
}

static dt_status open_parts(opening *all, dt_dataset **const out[3])
{
    const dt_data_options *o = all->o;
    const struct {
        const char *key;
        const dt_tensor_files *files;
        const dt_strings *recordings;
    } parts[3] = {
        { "data.train", &o->train_tensors, &o->train },
        { "data.validation", &o->validation_tensors, &o->validation_files },
        { "data.test", &o->test_tensors, &o->test },
    };
    for (int i = 0; i < 3; i++) {
        const dt_tensor_files *files = parts[i].files;
        const bool by_folder = !files->given;
        part p = { .all = all,
                   .number = i,
                   .key = parts[i].key,
                   .by_folder = by_folder,
                   .names = by_folder ? parts[i].recordings : &files->x,
                   .y = by_folder ? NULL : files->y };
        if (p.names->n > 0) DT__TRY(open_part(&p, out[i]));
        else if (i == 0) return dt_fail(all->ctx, DT_ERR_CONFIG, "data.train names no files");
        all->train = *out[0];
    }
    if (o->series.given) DT__TRY(cut_series(all, out));
    else if (holds_back(o)) DT__TRY(hold_back(all, out));
    DT__TRY(encode_types(all, out));
    return dt__arrays_finish(o, out);
}

dt_target dt__target_of_task(int task)
{
    static const dt_target targets[] = { [DT_DATA_CLASSIFICATION] = DT_TARGET_CLASS,
                                         [DT_DATA_REGRESSION] = DT_TARGET_VALUES,
                                         [DT_DATA_MULTI_LABEL] = DT_TARGET_BITS,
                                         [DT_DATA_ANOMALY] = DT_TARGET_CLASS };
    return targets[task];
}

/* Labels for a task, of which only the model's classes may be known. */
static dt__labels labels_of(const dt_data_options *o)
{
    return (dt__labels){ .known = o->classes,
                         .normal = o->task == DT_DATA_ANOMALY ? &o->normal : NULL };
}

dt_status dt__open_with_tables(const dt_data_options *o, dt__tables *tables, int reading,
                               dt_dataset **const out[3])
{
    opening all = { .ctx = tables->ctx,
                    .o = o,
                    .target = dt__target_of_task(o->task),
                    .tables = tables,
                    .csv = &tables->reading[reading],
                    .labels = labels_of(o) };
    all.series = (dt__series){
        .ctx = all.ctx, .o = &o->series, .csv = all.csv, .axis = axis_of(o->standard.axis, 2)
    };
    all.csv->cache = dt__cache_folder_of(o);
    dt_status status = dt__labels_begin(all.ctx, &all.labels);
    if (status == DT_OK) status = dt__labels_begin(all.ctx, &all.csv->labels);
    for (int64_t i = 0; status == DT_OK && o->classes.names != NULL && i < o->classes.n; i++) {
        const char *name = o->classes.names[i];
        if (dt__words_add(all.ctx, &all.folders, name, strlen(name)) < 0) status = DT_ERR_NOMEM;
    }
    if (status == DT_OK && reading == 0 && o->split.column != NULL) {
        const char *column = o->split.column;
        if (dt__words_add(all.ctx, &all.csv->keys, column, strlen(column)) < 0) {
            status = DT_ERR_NOMEM;
        }
    }
    if (status == DT_OK && o->series.given) {
        status = dt__series_keys_of(all.csv, &o->series);
    }
    if (status == DT_OK) status = open_parts(&all, out);
    dt__words_free(all.ctx, &all.folders);
    dt__labels_free(all.ctx, &all.labels);
    return status;
}

dt_status dt__open_tensors(dt_ctx *ctx, const dt_data_options *o, dt_dataset **const out[3])
{
    dt__tables tables = { .ctx = ctx, .n = 1 };
    tables.reading[0] = (dt__csv){ .ctx = ctx,
                                   .options = &o->columns,
                                   .target = dt__target_of_task(o->task),
                                   .labels = labels_of(o) };
    const dt_status status = dt__open_with_tables(o, &tables, 0, out);
    dt__tables_free(&tables);
    return status;
}
