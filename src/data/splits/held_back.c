/* The validation and test shares of arrays. Units are rows, or whole recordings. The last or the
 * newest units are held back, or groups are assigned (deal.c; also for test parts and folds of
 * single units), or units are drawn: of W units to hold back among N, class c with n_c units gives
 *
 *     w_c = floor(W A_c / A) - floor(W A_{c-1} / A),   A_c = sum of (n_i - 1) for i <= c, A all
 *
 * so that at least one unit of each class is left to train on. If n_c >= 2 and w_c = 0, another
 * class gives one unit less and class c one, so that every class is validated if W is large enough.
 * The units of a class are drawn by the seed. All parts keep the order of the file. */
#include "data/splits/held_back.h"

#include "core/shuffle.h"
#include "data/splits/deal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- how many of each class ----------------------------------------------------------------- */

typedef struct draw {
    dt_ctx *ctx;
    const dt_dataset *d;
    bool whole;    /* units are recordings */
    uint8_t *part; /* [units]: units of part 0 are drawn from, */
    int64_t n;     /* their number */
    int64_t units;
    int64_t classes; /* 1: units have no classes */
    int64_t *start;  /* [classes + 1]: where the units of each class begin in `unit` */
    int64_t *unit;   /* [n], by class */
    int64_t *quota;  /* [classes]: units to draw */
    int64_t *giving; /* [classes]: classes that can give up one */
} draw;

static int64_t class_of(const draw *w, int64_t unit)
{
    const dt__array_store *s = w->d->arrays;
    if (w->classes == 1) return 0;
    const int64_t example =
        !w->whole || unit == 0 ? (w->whole ? 0 : unit) : s->recording[unit - 1].end;
    return w->d->kind->label(w->d, example);
}

/* Sorts the units by class. */
static void sort_units(draw *w)
{
    memset(w->start, 0, (size_t)(w->classes + 2) * sizeof *w->start);
    for (int64_t i = 0; i < w->units; i++) w->start[class_of(w, i) + 2] += w->part[i] == 0;
    for (int64_t c = 0; c < w->classes; c++) w->start[c + 2] += w->start[c + 1];
    for (int64_t i = 0; i < w->units; i++) {
        if (w->part[i] == 0) w->unit[w->start[class_of(w, i) + 1]++] = i;
    }
}

static int64_t units_of(const draw *w, int64_t c) { return w->start[c + 1] - w->start[c]; }

static int64_t spare_of(const draw *w, int64_t c) { return dt__max_i64(0, units_of(w, c) - 1); }

/* Moves quota from classes with several units held back to those with none. */
static void spread(draw *w)
{
    int64_t givers = 0, turn = 0;
    for (int64_t c = 0; c < w->classes; c++) {
        if (w->quota[c] > 1) w->giving[givers++] = c;
    }
    for (int64_t c = 0; c < w->classes && givers > 0; c++) {
        if (w->quota[c] > 0 || units_of(w, c) < 2) continue;
        turn %= givers;
        const int64_t from = w->giving[turn];
        w->quota[c]++;
        if (--w->quota[from] > 1) turn++;
        else w->giving[turn] = w->giving[--givers];
    }
}

/* False if a class would lose all of its units. */
static bool set_quotas(draw *w, int64_t wanted)
{
    int64_t all = 0, sum = 0;
    for (int64_t c = 0; c < w->classes; c++) all += spare_of(w, c);
    if (wanted > all) return false;
    for (int64_t c = 0, before = 0; c < w->classes; c++) {
        sum += spare_of(w, c);
        const int64_t now = (int64_t)((double)wanted * ((double)sum / (double)all));
        w->quota[c] = (sum == all ? wanted : now) - before;
        before += w->quota[c];
    }
    spread(w);
    return true;
}

static void draw_units(draw *w, int64_t seed, int64_t wanted)
{
    dt__stream s = dt__stream_of((uint64_t)seed, DT__FOR_SHUFFLE);
    const bool by_class = set_quotas(w, wanted);
    if (!by_class) {
        w->classes = 1;
        w->start[0] = 0;
        w->start[1] = w->n;
        w->quota[0] = wanted;
    }
    for (int64_t c = 0; c < w->classes; c++) {
        int64_t *of = w->unit + w->start[c];
        dt__shuffle(&s, units_of(w, c), of);
        for (int64_t i = 0; i < w->quota[c]; i++) w->part[of[i]] = 1;
    }
}

static dt_status draw_validation(draw *w, const dt_data_options *o)
{
    const int64_t wanted = dt__max_i64(w->whole, (int64_t)(o->validation * (double)w->n));
    int64_t *memory = dt__alloc_array(w->ctx, w->n + 3 * w->classes + 2, sizeof *memory);
    if (memory == NULL) return DT_ERR_NOMEM;
    w->unit = memory;
    w->start = w->unit + w->n;
    w->quota = w->start + w->classes + 2;
    w->giving = w->quota + w->classes;
    sort_units(w);
    draw_units(w, o->seed, wanted);
    dt__release(w->ctx, memory);
    return DT_OK;
}

/* ---- dealing -------------------------------------------------------------------------------- */

/* Assigns the units of part 0 to shares; the units of share number `chosen` go to part `to`. */
typedef struct deal_of {
    int parts, chosen, to;
    double share; /* of two shares, the second one's; otherwise shares are equal */
} deal_of;

static void number_groups(const draw *w, const dt__split_keys *keys, int64_t *number,
                          int64_t *memory, dt__dealing *into)
{
    int64_t *group = memory, *label = memory + w->n;
    for (int64_t i = 0; number != NULL && i < keys->words->n; i++) number[i] = -1;
    for (int64_t i = 0; i < w->units; i++) {
        if (w->part[i] != 0) continue;
        int64_t *of = number == NULL ? NULL : &number[keys->code[i]];
        if (of != NULL && *of < 0) *of = into->groups++;
        group[into->n] = of == NULL ? into->groups++ : *of;
        label[into->n++] = class_of(w, i);
    }
    into->group = group;
    into->label = label;
}

/* `keys` NULL: every unit is a group. */
static dt_status deal(const draw *w, const dt_data_options *o, const dt__split_keys *keys,
                      const deal_of *how)
{
    int64_t *memory = dt__alloc_array(w->ctx, 2 * w->n, sizeof *memory), *number = NULL;
    uint8_t *part = dt__alloc(w->ctx, (uint64_t)w->n);
    if (keys != NULL) number = dt__alloc_array(w->ctx, keys->words->n, sizeof *number);
    dt_status status = DT_ERR_NOMEM;
    if (memory != NULL && part != NULL && (keys == NULL || number != NULL)) {
        dt__dealing all = {
            .ctx = w->ctx, .seed = (uint64_t)o->seed, .classes = w->classes, .parts = how->parts
        };
        for (int i = 0; i < how->parts; i++) all.share[i] = 1.0 / how->parts;
        if (how->share > 0) all.share[0] = 1 - (all.share[1] = how->share);
        number_groups(w, keys, number, memory, &all);
        status = dt__deal(&all, part);
        for (int64_t i = 0, k = 0; i < w->units && status == DT_OK; i++) {
            if (w->part[i] == 0 && part[k++] == how->chosen) w->part[i] = (uint8_t)how->to;
        }
    }
    DT__RELEASE(w->ctx, memory, part, number);
    return status;
}

/* ---- by time -------------------------------------------------------------------------------- */

typedef struct timed {
    double time;
    int64_t unit;
} timed;

static int by_time(const void *a, const void *b)
{
    const timed *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return x->unit < y->unit ? -1 : 1;
}

static dt_status hold_newest(const draw *w, const dt_data_options *o, const dt__split_keys *keys)
{
    timed *order = dt__alloc_array(w->ctx, w->units, sizeof *order);
    if (order == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < w->units; i++) order[i] = (timed){ keys->time[keys->code[i]], i };
    qsort(order, (size_t)w->units, sizeof *order, by_time);
    const int64_t tests = (int64_t)(o->split.test * (double)w->units), others = w->units - tests;
    const int64_t first = others - (int64_t)(o->validation * (double)others);
    for (int64_t i = first; i < w->units; i++) w->part[order[i].unit] = i < others ? 1 : 2;
    dt__release(w->ctx, order);
    return DT_OK;
}

/* ---- choosing ------------------------------------------------------------------------------- */

static int64_t count_left(const draw *w)
{
    int64_t n = 0;
    for (int64_t i = 0; i < w->units; i++) n += w->part[i] == 0;
    return n;
}

static dt_status choose(draw *w, const dt_data_options *o, const dt__split_keys *keys)
{
    const dt_split_options *split = &o->split;
    if (split->by == DT_SPLIT_TIME) return hold_newest(w, o, keys);
    if (split->by != DT_SPLIT_GROUP) keys = NULL;
    const deal_of fold = { (int)split->folds, (int)split->fold, 2, 0 };
    const deal_of test = { 2, 1, 2, split->test }, validation = { 2, 1, 1, o->validation };
    if (split->folds > 0) DT__TRY(deal(w, o, keys, &fold));
    else if (split->test > 0) DT__TRY(deal(w, o, keys, &test));
    w->n = count_left(w);
    if (o->validation == 0) return DT_OK;
    return keys == NULL ? draw_validation(w, o) : deal(w, o, keys, &validation);
}

static dt_status choose_held(const dt_dataset *d, bool whole, const dt_data_options *o,
                             const dt__split_keys *keys, dt__held_back *held)
{
    const int64_t units = whole ? d->arrays->n_recordings : d->count;
    draw w = { .ctx = d->ctx, .d = d, .whole = whole, .n = units, .units = units };
    const bool classes = dt__has_label(d) && o->split.by != DT_SPLIT_ROWS;
    w.classes = classes ? dt__max_i64(1, d->classes) : 1;
    held->n = units;
    w.part = held->part = dt__alloc_zero(d->ctx, (size_t)units);
    return held->part == NULL ? DT_ERR_NOMEM : choose(&w, o, keys);
}

void dt__held_back_free(dt_ctx *ctx, dt__held_back *held)
{
    dt__release(ctx, held->part);
    *held = (dt__held_back){ 0 };
}

/* ---- moving them to the end ----------------------------------------------------------------- */

/* Sorts rows or recordings of the store. */
typedef struct sorting {
    dt__array_store *s;
    dt__array_store to; /* only `recording` and its counts are used */
} sorting;

/* Adds rows first ... past-1 of a recording. */
static dt_status add_run(sorting *o, const dt__recording *in, int64_t first, int64_t past)
{
    const int64_t each = o->s->row * dt__array_dtype_of(in->dtype)->bytes;
    DT__TRY(dt__array_store_add(&o->to, in->dtype, in->data + first * each, past - first));
    dt__recording *added = &o->to.recording[o->to.n_recordings - 1];
    added->first = in->first + first;
    added->source = in->source;
    return DT_OK;
}

static dt_status sort_rows(sorting *o, const dt__held_back *held, int wanted)
{
    int64_t unit = 0;
    for (int64_t r = 0; r < o->s->n_recordings; r++) {
        const dt__recording *in = &o->s->recording[r];
        const uint8_t *part = held->part + unit;
        for (int64_t i = 0, past; i < in->rows; i = past) {
            for (past = i + 1; past < in->rows && part[past] == part[i];) past++;
            if (part[i] == wanted) DT__TRY(add_run(o, in, i, past));
        }
        unit += in->rows;
    }
    return DT_OK;
}

static dt_status sort_recordings(sorting *o, const dt__held_back *held, int wanted)
{
    for (int64_t r = 0; r < o->s->n_recordings; r++) {
        const dt__recording *in = &o->s->recording[r];
        if (held->part[r] == wanted) DT__TRY(add_run(o, in, 0, in->rows));
    }
    return DT_OK;
}

typedef struct range {
    int64_t begin, end;
} range;

/* The range of targets of unit i: one, or those of all examples of a recording. */
static range targets_of(const dt__array_store *s, bool whole, int64_t i)
{
    if (!whole || s->target_each_recording) return (range){ i, i + 1 };
    return (range){ i == 0 ? 0 : s->recording[i - 1].end, s->recording[i].end };
}

/* Sorts the targets like the units. */
static dt_status sort_targets(dt__array_store *s, bool whole, const dt__held_back *held)
{
    const dt__storage *from = s->targets;
    dt__storage *to = dt__storage_create(s->ctx, from->bytes);
    if (to == NULL) return DT_ERR_NOMEM;
    const size_t each = (size_t)from->bytes / (size_t)targets_of(s, whole, held->n - 1).end;
    uint8_t *at = to->data;
    for (int part = 0; part < 3; part++) {
        for (int64_t i = 0; i < held->n; i++) {
            if (held->part[i] != part) continue;
            const range own = targets_of(s, whole, i);
            const size_t bytes = (size_t)(own.end - own.begin) * each;
            memcpy(at, (const uint8_t *)from->data + (size_t)own.begin * each, bytes);
            at += bytes;
        }
    }
    dt__storage_release(s->targets);
    s->targets = to;
    return DT_OK;
}

/* Sorts the units of the store by part; count[i]: examples in part i. */
static dt_status sort_parts(dt__array_store *s, bool whole, const dt__held_back *held,
                            int64_t count[3])
{
    sorting o = { s, { .ctx = s->ctx, .length = s->length, .stride = s->stride } };
    dt_status status = DT_OK;
    int64_t before = 0;
    for (int part = 0; part < 3 && status == DT_OK; part++) {
        status = (whole ? sort_recordings : sort_rows)(&o, held, part);
        const int64_t n = o.to.n_recordings;
        count[part] = (n == 0 ? 0 : o.to.recording[n - 1].end) - before;
        before += count[part];
    }
    if (status == DT_OK) status = sort_targets(s, whole, held);
    if (status != DT_OK) {
        dt__release(s->ctx, o.to.recording);
        return status;
    }
    dt__release(s->ctx, s->recording);
    s->recording = o.to.recording;
    s->n_recordings = o.to.n_recordings;
    s->room = o.to.room;
    return DT_OK;
}

/* ---- the shares ----------------------------------------------------------------------------- */

/* The number of last examples in a share; whole recordings, if they are kept together. */
static int64_t last_share(const dt_dataset *d, const dt_data_options *o, double share)
{
    const dt__array_store *s = d->arrays;
    const int64_t wanted = (int64_t)(share * (double)d->count);
    if (o->split.by != DT_SPLIT_FILE || wanted == 0) return wanted;
    int64_t i = s->n_recordings - 1;
    while (i > 0 && s->recording[i - 1].end >= d->count) i--;
    while (i > 0 && d->count - s->recording[i - 1].end < wanted) i--;
    return d->count - (i == 0 ? 0 : s->recording[i - 1].end);
}

static dt_status check_count(const dt_dataset *d, const char *key, double share, int64_t count)
{
    if (count >= 1 && count < d->count) return DT_OK;
    const dt__array_store *s = d->arrays;
    const bool whole = !dt__array_is_rows(s) || s->target_each_recording;
    char in[40] = "";
    if (whole) snprintf(in, sizeof in, " in %lld recordings", (long long)s->n_recordings);
    return dt_fail(
        d->ctx, DT_ERR_CONFIG,
        "data.%s: %g of %lld %s%s is %s; expected a share that leaves some on both sides", key,
        share, (long long)d->count, whole ? "examples" : dt__dataset_examples(d), in,
        count < 1 ? "none" : "all");
}

/* ---- which units ---------------------------------------------------------------------------- */

static dt_status check_keys(const dt_dataset *d, const dt_data_options *o,
                            const dt__split_keys *keys)
{
    if (o->split.by == DT_SPLIT_GROUP && keys->code == NULL) {
        return dt_fail(d->ctx, DT_ERR_CONFIG,
                       "data.split.by: group requires data.split.column, a column of a table, or "
                       "{group} in data.file_names");
    }
    if (o->split.by == DT_SPLIT_STRATIFIED && d->target != DT_TARGET_CLASS &&
        d->target != DT_TARGET_ANOMALY) {
        return dt_fail(d->ctx, DT_ERR_CONFIG,
                       "data.split.by: stratified is of classes, which the targets are not; "
                       "expected rows");
    }
    if (o->split.folds == 0 || o->split.by != DT_SPLIT_TIME) return DT_OK;
    return dt_fail(d->ctx, DT_ERR_CONFIG,
                   "data.split.folds: data in the order of time have one newest part; "
                   "expected data.split.test");
}

/* Whether units are chosen, instead of the last examples; *whole: units are recordings. Windows of
 * a recording may overlap, so they are not drawn one by one. */
static dt_status is_chosen(const dt_dataset *d, const dt_data_options *o,
                           const dt__split_keys *keys, bool *whole, bool *chosen)
{
    const dt__array_store *s = d->arrays;
    const int by = o->split.by, order = o->validation_order;
    const bool rows = dt__array_is_rows(s) && !s->target_each_recording;
    const bool may_order = by == DT_SPLIT_AUTO || by == DT_SPLIT_FILE;
    const bool units = by == DT_SPLIT_FILE || by == DT_SPLIT_GROUP || s->n_recordings == d->count;
    const bool keyed = (by == DT_SPLIT_GROUP || by == DT_SPLIT_TIME) && keys->code != NULL;
    DT__TRY(check_keys(d, o, keys));
    *whole = keyed ? keys->of_recordings : !rows || by == DT_SPLIT_FILE;
    *chosen = by == DT_SPLIT_TIME ? keyed
              : may_order && order != DT_DATA_ORDER_DRAWN
                  ? order == DT_DATA_ORDER_AUTO && (rows || (units && o->train_tensors.given))
                  : true;
    if (!*chosen && o->split.folds > 0) {
        return dt_fail(
            d->ctx, DT_ERR_CONFIG,
            "data.split.folds: these data are taken to be in the order of time; expected "
            "data.split.by: stratified, group or file, or validation_order: drawn");
    }
    if (!*chosen || !*whole || units) return DT_OK;
    return dt_fail(d->ctx, DT_ERR_CONFIG,
                   "data.%s: windows of one recording would be on both sides; data.split: file "
                   "draws whole recordings, time takes the last windows",
                   may_order ? "validation_order" : "split");
}

dt_status dt__hold_back_rows(const dt_data_options *o, const dt__split_keys *keys,
                             const dt_dataset *d, dt__held_back *held)
{
    DT__TRY(check_keys(d, o, keys));
    return choose_held(d, false, o, keys, held);
}

static dt_status split_off(dt_dataset *d, const char *key, double share, int64_t count,
                           dt_dataset **out)
{
    DT__TRY(check_count(d, key, share, count));
    return dt_dataset_split(d, count, out);
}

dt_status dt__hold_back(const dt_data_options *o, const dt__split_keys *keys, dt__held_back *held,
                        dt_dataset **const out[3])
{
    dt_dataset *d = *out[0];
    bool whole, chosen;
    DT__TRY(is_chosen(d, o, keys, &whole, &chosen));
    const bool tests = o->split.test > 0 || o->split.folds > 0;
    const double test = o->split.folds > 0 ? 1.0 / (double)o->split.folds : o->split.test;
    int64_t count[3] = { 0, -1, -1 };
    if (chosen && held->part == NULL) {
        if (o->validation > 0) {
            const int64_t wanted = (int64_t)(o->validation * (double)d->count);
            DT__TRY(check_count(d, "validation", o->validation, wanted));
        }
        DT__TRY(choose_held(d, whole, o, keys, held));
    }
    /* different counts of inputs and outputs are an error when they are joined */
    if (chosen && held->n == (whole ? d->arrays->n_recordings : d->count)) {
        DT__TRY(sort_parts(d->arrays, whole, held, count));
    }
    if (tests) {
        if (count[2] < 0) count[2] = last_share(d, o, test);
        DT__TRY(split_off(d, "split.test", test, count[2], out[2]));
    }
    if (o->validation == 0) return DT_OK;
    if (count[1] < 0) count[1] = last_share(d, o, o->validation);
    return split_off(d, "validation", o->validation, count[1], out[1]);
}
