/* The validation share of arrays. Units are rows, or whole recordings. The last ones are held back
 * (time), or units are drawn: of W units to hold back among N, class c with n_c of them gives
 *
 *     w_c = floor(W A_c / A) - floor(W A_{c-1} / A),   A_c = sum of (n_i - 1) for i <= c, A all
 *
 * so that at least one unit of each class is left to train on. A class with n_c >= 2 and w_c = 0
 * gets one of another class, by turns, so that every class is validated where W allows it. Which
 * units of a class, is drawn by the seed. Both parts keep the order of the file. */
#include "data/held_back.h"

#include "core/shuffle.h"

#include <stdio.h>
#include <string.h>

/* ---- how many of each class ----------------------------------------------------------------- */

typedef struct draw {
    dt_ctx *ctx;
    const dt_dataset *d;
    bool whole;      /* units are recordings */
    int64_t n;       /* units */
    int64_t classes; /* 1: units have no classes */
    int64_t *start;  /* [classes + 1]: where the units of each class begin in `unit` */
    int64_t *unit;   /* [n], by class */
    int64_t *quota;  /* [classes] */
    int64_t *giving; /* [classes]: classes that can give */
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
    for (int64_t i = 0; i < w->n; i++) w->start[class_of(w, i) + 2]++;
    for (int64_t c = 0; c < w->classes; c++) w->start[c + 2] += w->start[c + 1];
    for (int64_t i = 0; i < w->n; i++) w->unit[w->start[class_of(w, i) + 1]++] = i;
}

static int64_t units_of(const draw *w, int64_t c) { return w->start[c + 1] - w->start[c]; }

static int64_t spare_of(const draw *w, int64_t c) { return dt__max_i64(0, units_of(w, c) - 1); }

/* Classes that hold back several give to those that hold back none. */
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

/* False where a class must give all of its units. */
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

static void draw_units(draw *w, int64_t seed, int64_t wanted, dt__held_back *held)
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
        for (int64_t i = 0; i < w->quota[c]; i++) held->is_held[of[i]] = 1;
    }
    held->n = w->n;
    held->count = wanted;
}

static dt_status draw_held(const dt_dataset *d, bool whole, const dt_data_options *o,
                           dt__held_back *held)
{
    const dt__array_store *s = d->arrays;
    draw w = { .ctx = d->ctx, .d = d, .whole = whole };
    w.n = whole ? s->n_recordings : d->count;
    w.classes = dt__has_label(d) ? dt__max_i64(1, d->classes) : 1;
    const int64_t wanted = dt__max_i64(whole, (int64_t)(o->validation * (double)w.n));
    int64_t *memory = dt__alloc_array(d->ctx, w.n + 3 * w.classes + 2, sizeof *memory);
    held->is_held = dt__alloc_zero(d->ctx, (size_t)w.n);
    const bool good = memory != NULL && held->is_held != NULL;
    w.unit = memory;
    if (good) {
        w.start = w.unit + w.n;
        w.quota = w.start + w.classes + 2;
        w.giving = w.quota + w.classes;
        sort_units(&w);
        draw_units(&w, o->seed, wanted, held);
    }
    dt__release(d->ctx, memory);
    return good ? DT_OK : DT_ERR_NOMEM;
}

void dt__held_back_free(dt_ctx *ctx, dt__held_back *held)
{
    dt__release(ctx, held->is_held);
    *held = (dt__held_back){ 0 };
}

/* ---- moving them to the end ----------------------------------------------------------------- */

/* Rows or recordings of the store in their new order. */
typedef struct sorting {
    dt__array_store *s;
    dt__array_store to; /* of which only `recording` and its counts are used */
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

static dt_status sort_rows(sorting *o, const dt__held_back *held, bool wanted)
{
    int64_t unit = 0;
    for (int64_t r = 0; r < o->s->n_recordings; r++) {
        const dt__recording *in = &o->s->recording[r];
        const uint8_t *is_held = held->is_held + unit;
        for (int64_t i = 0, past; i < in->rows; i = past) {
            for (past = i + 1; past < in->rows && is_held[past] == is_held[i];) past++;
            if (is_held[i] == wanted) DT__TRY(add_run(o, in, i, past));
        }
        unit += in->rows;
    }
    return DT_OK;
}

static dt_status sort_recordings(sorting *o, const dt__held_back *held, bool wanted)
{
    for (int64_t r = 0; r < o->s->n_recordings; r++) {
        const dt__recording *in = &o->s->recording[r];
        if (held->is_held[r] == wanted) DT__TRY(add_run(o, in, 0, in->rows));
    }
    return DT_OK;
}

/* The targets of the units in their new order. */
static dt_status sort_targets(dt__array_store *s, const dt__held_back *held)
{
    const dt__storage *from = s->targets;
    dt__storage *to = dt__storage_create(s->ctx, from->bytes);
    if (to == NULL) return DT_ERR_NOMEM;
    const size_t each = (size_t)from->bytes / (size_t)held->n;
    uint8_t *at = to->data;
    for (int held_now = 0; held_now < 2; held_now++) {
        for (int64_t i = 0; i < held->n; i++) {
            if (held->is_held[i] != held_now) continue;
            memcpy(at, (const uint8_t *)from->data + (size_t)i * each, each);
            at += each;
        }
    }
    dt__storage_release(s->targets);
    s->targets = to;
    return DT_OK;
}

/* Moves the units that are held to the end of the store; *count becomes their examples. */
static dt_status move_to_end(dt__array_store *s, bool whole, const dt__held_back *held,
                             int64_t *count)
{
    sorting o = { s, { .ctx = s->ctx, .length = s->length, .stride = s->stride } };
    dt_status status = DT_OK;
    int64_t kept = 0;
    for (int held_now = 0; held_now < 2 && status == DT_OK; held_now++) {
        status = (whole ? sort_recordings : sort_rows)(&o, held, held_now);
        if (held_now == 0 && o.to.n_recordings > 0) {
            kept = o.to.recording[o.to.n_recordings - 1].end;
        }
    }
    if (status == DT_OK) status = sort_targets(s, held);
    if (status != DT_OK) {
        dt__release(s->ctx, o.to.recording);
        return status;
    }
    dt__release(s->ctx, s->recording);
    s->recording = o.to.recording;
    s->n_recordings = o.to.n_recordings;
    s->room = o.to.room;
    *count = s->recording[s->n_recordings - 1].end - kept;
    return DT_OK;
}

/* ---- the share ------------------------------------------------------------------------------ */

/* How many of the last examples a share holds: whole recordings, if they are kept together. */
static int64_t last_share(const dt_dataset *d, const dt_data_options *o)
{
    const dt__array_store *s = d->arrays;
    const int64_t wanted = (int64_t)(o->validation * (double)d->count);
    if (o->split != DT_SPLIT_RECORDINGS || wanted == 0) return wanted;
    int64_t i = s->n_recordings - 1;
    while (i > 0 && d->count - s->recording[i - 1].end < wanted) i--;
    return d->count - (i == 0 ? 0 : s->recording[i - 1].end);
}

static dt_status check_count(const dt_dataset *d, const dt_data_options *o, int64_t count)
{
    if (count >= 1 && count < d->count) return DT_OK;
    const dt__array_store *s = d->arrays;
    const bool whole = !dt__array_is_rows(s) || s->target_each_recording;
    char in[40] = "";
    if (whole) snprintf(in, sizeof in, " in %lld recordings", (long long)s->n_recordings);
    return dt_fail(d->ctx, DT_ERR_CONFIG, "data.validation: %g of %lld %s%s is %s", o->validation,
                   (long long)d->count, whole ? "examples" : dt__dataset_examples(d), in,
                   count < 1 ? "none" : "all");
}

/* Whether units are drawn; *whole: of recordings. Windows of one recording may overlap, so they are
 * not drawn one by one. */
static dt_status is_drawn(const dt_dataset *d, const dt_data_options *o, bool *whole, bool *drawn)
{
    const dt__array_store *s = d->arrays;
    const bool rows = dt__array_is_rows(s) && !s->target_each_recording;
    const bool units = o->split == DT_SPLIT_RECORDINGS || s->n_recordings == d->count;
    *whole = !rows || o->split == DT_SPLIT_RECORDINGS;
    *drawn =
        o->validation_order == DT_DATA_ORDER_DRAWN ||
        (o->validation_order == DT_DATA_ORDER_AUTO && (rows || (units && o->train_tensors.given)));
    if (!*drawn || !*whole || units) return DT_OK;
    return dt_fail(
        d->ctx, DT_ERR_CONFIG,
        "data.validation_order: windows of one recording would be on both sides; "
        "data.split: recording draws whole recordings, order time takes the last windows");
}

dt_status dt__hold_back(dt_dataset *d, const dt_data_options *o, dt__held_back *held,
                        dt_dataset **out)
{
    bool whole, drawn;
    int64_t count = last_share(d, o);
    DT__TRY(is_drawn(d, o, &whole, &drawn));
    if (drawn && held->is_held == NULL) {
        DT__TRY(check_count(d, o, (int64_t)(o->validation * (double)d->count)));
        DT__TRY(draw_held(d, whole, o, held));
    }
    /* other counts of one part are refused when its inputs and outputs are joined */
    if (drawn && held->n == (whole ? d->arrays->n_recordings : d->count)) {
        DT__TRY(move_to_end(d->arrays, whole, held, &count));
    }
    DT__TRY(check_count(d, o, count));
    return dt_dataset_split(d, count, out);
}
