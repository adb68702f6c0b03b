/* Matches the tensors of a file with the parameters of a model. Every mistake is reported as a
 * line. */
#include "core/tensor.h"
#include "core/text/distance.h"
#include "io/differences.h"
#include "io/weights/weights.h"
#include "nn/module.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LISTED 20 /* at most this many mistakes are reported */
/* in the search for the nearest name, another shape counts as this many differing letters */
#define OF_SHAPE 12
#define AT_ONCE ((int64_t)1 << 16) /* elements that are checked at a time */

/* ---- lines ----------------------------------------------------------------------------------- */

static void say_by(dt__weight_match *w, const char *format, va_list arguments)
{
    char text[DT__MESSAGE_SIZE];
    vsnprintf(text, sizeof text, format, arguments);
    if (w->said == DT_OK) w->said = w->say(w->user, text, strlen(text));
}

void dt__weight_say(dt__weight_match *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_by(w, format, arguments);
    va_end(arguments);
}

static void complain(dt__weight_match *w, const char *format, ...) DT_PRINTF(2, 3);
static void complain(dt__weight_match *w, const char *format, ...)
{
    if (++w->n_wrong > LISTED) return;
    va_list arguments;
    va_start(arguments, format);
    say_by(w, format, arguments);
    va_end(arguments);
}

/* "'conv/kernel' (as 'conv.weight')" of entry i of the view. */
static const char *name_of(const dt__weight_match *w, int64_t i, char text[3 * DT__SHOWN])
{
    char is[DT__SHOWN], as[DT__SHOWN];
    const char *before = w->file->entry[w->names->from[i]].name;
    const char *now = w->names->view.entry[i].name;
    snprintf(text, 3 * DT__SHOWN, "'%s'", dt__shown(before, is));
    if (strcmp(before, now) != 0) {
        snprintf(text, 3 * DT__SHOWN, "'%s' (as '%s')", is, dt__shown(now, as));
    }
    return text;
}

/* ---- the nearest ----------------------------------------------------------------------------- */

static bool has_shape(const dt_file_entry *e, const dt_tensor *x)
{
    return e->rank == x->rank && memcmp(e->dims, x->dims, (size_t)x->rank * sizeof *x->dims) == 0;
}

static int apart(const dt_file_entry *e, const dt__weight_target *t)
{
    return dt__distance(e->name, t->path) + (has_shape(e, t->x) ? 0 : OF_SHAPE);
}

static void complain_of_place(dt__weight_match *w, int64_t i)
{
    const dt_file_entry *e = &w->names->view.entry[i];
    const dt__weight_target *best = NULL;
    char name[3 * DT__SHOWN], shown[DT__SHOWN], has[192], wants[192];
    int least = INT_MAX;
    for (int64_t k = 0; k < w->n_targets; k++) {
        const int d = apart(e, &w->target[k]);
        if (d >= least) continue;
        least = d;
        best = &w->target[k];
    }
    if (w->n_wrong >= LISTED || best == NULL) {
        complain(w, "%s: the network has no such parameter", name_of(w, i, name));
        return;
    }
    complain(w, "%s, %s: the network has no such parameter; the nearest is '%s', %s",
             name_of(w, i, name), dt__form_text(e->dtype, e->rank, e->dims, has),
             dt__shown(best->path, shown), dt__form_text("", best->x->rank, best->x->dims, wants));
}

static void complain_of_lack(dt__weight_match *w, const dt__weight_target *t)
{
    int64_t best = -1;
    char name[3 * DT__SHOWN], shown[DT__SHOWN], wants[192], has[192];
    int least = INT_MAX;
    for (int64_t i = 0; w->n_wrong < LISTED && i < w->names->view.count; i++) {
        const dt_file_entry *e = &w->names->view.entry[i];
        const int d = dt__weight_counts(e) ? apart(e, t) : INT_MAX;
        if (d >= least) continue;
        least = d;
        best = i;
    }
    dt__shown(t->path, shown);
    dt__form_text("", t->x->rank, t->x->dims, wants);
    if (best < 0) {
        complain(w, "'%s', %s, of the network is not in the file", shown, wants);
        return;
    }
    const dt_file_entry *e = &w->names->view.entry[best];
    complain(w, "'%s', %s, of the network is not in the file; the nearest there is %s, %s", shown,
             wants, name_of(w, best, name), dt__form_text(e->dtype, e->rank, e->dims, has));
}

/* ---- one tensor ------------------------------------------------------------------------------ */

/* A hint, if only the order of the dimensions differs. */
static const char *hint(const dt_file_entry *e, const dt_tensor *x)
{
    const bool turned =
        e->rank == 2 && x->rank == 2 && e->dims[0] == x->dims[1] && e->dims[1] == x->dims[0];
    if (turned) return "; 'transpose: true' of a rule, or 'layout: keras', turns it";
    return e->count == dt_count(x) ? "; 'permute' and 'shape' of a rule give another order" : "";
}

static bool is_float(const char *dtype)
{
    return strcmp(dtype, "F32") == 0 || strcmp(dtype, "F16") == 0 || strcmp(dtype, "BF16") == 0 ||
           strcmp(dtype, "F64") == 0;
}

/* Loads n elements of an entry as floats. */
static dt_status load_part(const dt__weight_match *w, const dt_file_entry *e, int64_t first,
                           int64_t n, dt_tensor **out)
{
    const size_t each = e->bytes / (size_t)e->count;
    const dt_file_entry part = {
        .name = e->name,
        .dtype = e->dtype,
        .rank = 1,
        .dims = &n,
        .count = n,
        .bytes = each * (size_t)n,
        .data = (const char *)e->data + each * (size_t)first,
    };
    return dt__entry_load(&w->names->view, &part, DT_F32, out);
}

/* Checks that all values are finite floats. Reads them in parts, as a tensor could be as large as
 * the model. */
static dt_status check_values(dt__weight_match *w, int64_t i)
{
    const dt_file_entry *e = &w->names->view.entry[i];
    char name[3 * DT__SHOWN];
    bool good = true;
    for (int64_t first = 0; first < e->count && good; first += AT_ONCE) {
        const int64_t n = dt__min_i64(AT_ONCE, e->count - first);
        dt_tensor *x;
        const dt_status s = load_part(w, e, first, n, &x);
        if (s == DT_ERR_NUMERIC) {
            complain(w, "%s: a number is beyond the range of f32", name_of(w, i, name));
            return DT_OK;
        }
        DT__TRY(s);
        const float *v = dt_data(x);
        int64_t k = 0;
        while (k < n && isfinite(v[k])) k++;
        good = k == n;
        if (!good) {
            complain(w, "%s: element %lld is %g; weights must be finite", name_of(w, i, name),
                     (long long)(first + k), (double)v[k]);
        }
        dt_tensor_free(x);
    }
    return DT_OK;
}

static dt_status place(dt__weight_match *w, int64_t i, const dt__weight_target *t)
{
    dt_file_entry *e = &w->names->view.entry[i];
    const int64_t by = w->names->by[w->names->from[i]];
    const dt_weight_rule *rule = by < 0 ? NULL : &w->map->rule[by];
    char name[3 * DT__SHOWN], has[192], wants[192], now[192] = "", shown[DT__SHOWN];
    dt__weight_order order;
    name_of(w, i, name);
    dt__form_text(e->dtype, e->rank, e->dims, has);
    if (!is_float(e->dtype)) {
        complain(w, "%s is %s; expected F32, F16, BF16 or F64", name, has);
        return DT_OK;
    }
    const char *why = e->rank > DT_MAX_RANK
                          ? "more than 8 dimensions cannot be read"
                          : dt__weight_order_of(rule, w->map->layout, e, t, &order);
    if (why != NULL) {
        complain(w, "%s is %s: %s", name, has, why);
        return DT_OK;
    }
    DT__TRY(dt__weight_turn(w->file->ctx, &w->names->view.arena, &order, e));
    dt__form_text("", t->x->rank, t->x->dims, wants);
    if (!has_shape(e, t->x)) {
        const bool turned = order.turns || order.shape.n > 0;
        complain(w, "%s is %s%s%s; '%s' of the network is %s%s", name, has,
                 turned ? ", turned " : "", turned ? dt__form_text("", e->rank, e->dims, now) : "",
                 dt__shown(t->path, shown), wants, turned ? "" : hint(e, t->x));
        return DT_OK;
    }
    if (order.turns || order.shape.n > 0)
        dt__weight_say(w, "%s: %s is read as %s", name, has, wants);
    return check_values(w, i);
}

bool dt__weight_counts(const dt_file_entry *e)
{
    return strncmp(e->name, DT__OWN_PREFIX, strlen(DT__OWN_PREFIX)) != 0 && !dt__is_batch_count(e);
}

static dt_status match_entry(dt__weight_match *w, int64_t i)
{
    const dt_file_entry *e = &w->names->view.entry[i];
    char name[3 * DT__SHOWN], other[3 * DT__SHOWN];
    dt__weight_target *t = w->target;
    if (!dt__weight_counts(e)) return DT_OK;
    while (t < w->target + w->n_targets && strcmp(t->path, e->name) != 0) t++;
    if (t == w->target + w->n_targets) {
        complain_of_place(w, i);
    } else if (t->from >= 0) {
        complain(w, "%s and %s are both for one parameter", name_of(w, t->from, other),
                 name_of(w, i, name));
    } else {
        t->from = i;
        return place(w, i, t);
    }
    return DT_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

static dt_status add_targets(dt__weight_match *w, dt_module *m)
{
    DT__EACH_ENTRY(holder, e, m) {
        DT__TRY(DT__RESERVE(w->file->ctx, w->target, w->n_targets, w->room_targets));
        w->target[w->n_targets++] =
            (dt__weight_target){ .path = dt__path_within(m, e->path), .x = e->x, .from = -1 };
    }
    return DT_OK;
}

/* Marks weights of embeddings: their rows are looked up, and every program has the same order. */
static void mark_embedding(dt__weight_match *w, const dt_module *m)
{
    const dt__entry *weight = dt__entry_find(m, "weight");
    for (int64_t i = 0; weight != NULL && i < w->n_targets; i++) {
        w->target[i].is_embedding |= w->target[i].x == weight->x;
    }
}

/* Whether a tied parameter is filled under any of its paths. */
static bool is_filled(const dt__weight_match *w, const dt_tensor *x)
{
    for (int64_t i = 0; i < w->n_targets; i++) {
        if (w->target[i].x == x && w->target[i].from >= 0) return true;
    }
    return false;
}

dt_status dt__weight_match_all(dt__weight_match *w, dt_module *m)
{
    DT__TRY(add_targets(w, m));
    DT__EACH_MODULE(each, m) {
        if (strcmp(each->type->name, "embedding") == 0) mark_embedding(w, each);
    }
    for (int64_t i = 0; i < w->map->n; i++) {
        if (dt__renamed_uses(w->names, w->file, i)) continue;
        complain(w, "the rule '%.90s' matches the name of no tensor", w->map->rule[i].from);
    }
    for (int64_t i = 0; i < w->names->view.count; i++) DT__TRY(match_entry(w, i));
    for (int64_t i = 0; i < w->n_targets; i++) {
        if (!is_filled(w, w->target[i].x)) complain_of_lack(w, &w->target[i]);
    }
    if (w->n_wrong > LISTED) {
        dt__weight_say(w, "... and %lld more", (long long)(w->n_wrong - LISTED));
    }
    if (w->said != DT_OK || w->n_wrong == 0) return w->said;
    return dt_fail(w->file->ctx, DT_ERR_FORMAT, "%s: %lld mistake%s between it and the network",
                   w->file->path, (long long)w->n_wrong, w->n_wrong == 1 ? "" : "s");
}
