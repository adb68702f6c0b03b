/* A view of a file in the model's names and forms: tensors of experts are stacked if the model has
 * a grouped parameter, a stacked tensor is cut if the model has separate experts, and names of
 * other programs are translated. All readers use this view, so none handles these differences. */
#include "core/block_list.h"
#include "io/model/grouped_files.h"
#include "core/tensor.h"
#include "io/differences.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor that holds one expert of a group. */
typedef struct part {
    const dt_file_entry *from;
    const char *name; /* the group's name */
    int64_t expert;
    int form;
    const dt__group *group;
} part;

typedef struct work {
    const dt_file *file;
    const dt__groups *groups;
    dt__fit *fit;
    part *part;
    int64_t n_parts, room_parts, room;
    dt__differences wrong;
} work;

static char *keep_name(work *w, const dt__place *p, int64_t expert)
{
    char number[32] = "";
    if (expert >= 0) snprintf(number, sizeof number, ".%lld", (long long)expert);
    return dt__block_list_text(w->file->ctx, &w->fit->arena, "%.*s%.*s%s%s", p->slot_n, p->slot,
                               p->path_n, p->path, number, p->suffix);
}

static dt_status add(work *w, const dt_file_entry *e)
{
    dt_file *view = &w->fit->view;
    DT__TRY(DT__RESERVE(w->file->ctx, view->entry, view->count, w->room));
    view->entry[view->count++] = *e;
    return DT_OK;
}

/* ---- what is wrong -------------------------------------------------------------------------- */

/* The name in the file of expert `expert` of the group to which `like` belongs. */
static void name_expert(const work *w, const char *like, int64_t expert, char text[DT__SHOWN])
{
    char path[2 * DT__SHOWN];
    dt__place p;
    dt__place_of(w->file->naming, like, &p);
    snprintf(path, sizeof path, "%.*s", p.path_n, p.path);
    if (p.renamed && w->file->naming->write(path, expert, text)) return;
    snprintf(path, sizeof path, "%.*s%.*s.%lld%s", p.slot_n, p.slot, p.path_n, p.path,
             (long long)expert, p.suffix);
    dt__shown(path, text);
}

/* Notes experts first ... end - 1 as missing. */
static void note_missing(work *w, const char *like, int64_t first, int64_t end)
{
    char name[DT__SHOWN];
    dt__wrong_names *l = &w->wrong.of[DT__MISSING];
    for (; first < end && !dt__wrong_full(l); first++) {
        name_expert(w, like, first, name);
        dt__wrong_add(l, name, "");
    }
    if (first < end) l->n += (int)dt__min_i64(end - first, INT_MAX - l->n);
}

static void note_unexpected(work *w, const char *name)
{
    dt__wrong_add(&w->wrong.of[DT__UNEXPECTED], name, "");
}

static void note_both(work *w, const char *whole, const char *expert)
{
    char text[DT__SHOWN + 48], shown[DT__SHOWN];
    snprintf(text, sizeof text, " is there besides %s", dt__shown(expert, shown));
    dt__wrong_add(&w->wrong.of[DT__MISSHAPEN], whole, text);
}

static void note_form(work *w, const dt_file_entry *e, const char *wanted)
{
    char text[600], has[192];
    snprintf(text, sizeof text, " is %s, not %s", dt__form_text(e->dtype, e->rank, e->dims, has),
             wanted);
    dt__wrong_add(&w->wrong.of[DT__MISSHAPEN], e->name, text);
}

/* ---- expert by expert to stacked ------------------------------------------------------------ */

static bool same_form(const dt_file_entry *a, const dt_file_entry *b)
{
    return strcmp(a->dtype, b->dtype) == 0 && a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0);
}

/* An expert in the file must have the shape of the model's. */
static bool check_shape(work *w, const part *p)
{
    const dt_tensor *x = p->group->x;
    const dt_file_entry *e = p->from;
    char wanted[192];
    dt__place place;
    dt__place_of(w->file->naming, e->name, &place);
    if (x == NULL || e->rank == 0 || *place.suffix != 0) return true;
    const int64_t *dims = x->dims + 1;
    const int rank = x->rank - 1;
    if (e->rank == rank && memcmp(e->dims, dims, (size_t)rank * sizeof dims[0]) == 0) return true;
    note_form(w, e, dt__form_text("", rank, dims, wanted));
    return false;
}

static bool check_part(work *w, const part *p, const part *first)
{
    char wanted[192], text[DT__SHOWN + 256], shown[DT__SHOWN];
    const bool repeated = p->form == DT__AS_REPEATED || p->from->rank == 0;
    if (!check_shape(w, p)) return false;
    if (!same_form(p->from, first->from)) {
        dt__form_text(first->from->dtype, first->from->rank, first->from->dims, wanted);
        snprintf(text, sizeof text, "%s as %s", wanted, dt__shown(first->from->name, shown));
        note_form(w, p->from, text);
        return false;
    }
    if (!repeated || p->from->bytes == 0 ||
        memcmp(p->from->data, first->from->data, p->from->bytes) == 0) {
        return true;
    }
    snprintf(text, sizeof text, " differs from %s", dt__shown(first->from->name, shown));
    dt__wrong_add(&w->wrong.of[DT__MISSHAPEN], p->from->name, text);
    return false;
}

/* Checks that the parts of one tensor are its experts, each exactly once. */
static bool check_parts(work *w, const part *p, int64_t n)
{
    const dt_file_entry *whole = dt_file_find(w->file, p->name);
    bool good = whole == NULL;
    int64_t next = 0;
    if (!good) note_both(w, whole->name, p->from->name);
    for (int64_t i = 0; i < n; i++) {
        if (p[i].expert < 0 || p[i].expert >= p->group->n) {
            note_unexpected(w, p[i].from->name);
            good = false;
            continue;
        }
        if (p[i].expert < next) note_unexpected(w, p[i].from->name);
        if (whole == NULL) note_missing(w, p->from->name, next, p[i].expert);
        good = check_part(w, &p[i], &p[0]) && next == p[i].expert && good;
        next = p[i].expert + 1;
    }
    if (whole == NULL) note_missing(w, p->from->name, next, p->group->n);
    return good && next == p->group->n;
}

static dt_status gather(work *w, const part *p, int64_t n, dt_file_entry *e)
{
    size_t bytes;
    if (!dt__mul_size(e->bytes, (uint64_t)n, &bytes)) return DT_ERR_NOMEM;
    char *to = dt__block_list_add(w->file->ctx, &w->fit->arena, bytes);
    if (to == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < n && e->bytes > 0; i++) {
        memcpy(to + (size_t)i * e->bytes, p[i].from->data, e->bytes);
    }
    e->count *= n; /* does not overflow: the file has as many bytes, or the tensor is empty */
    e->bytes = bytes;
    e->data = to;
    return DT_OK;
}

/* Stacks n parts that were checked: as many as the group has experts, at least one. */
static dt_status join(work *w, const part *p, int64_t n)
{
    dt_file_entry e = *p->from;
    e.name = p->name;
    w->fit->joined++;
    if (e.rank == 0 || p->form == DT__AS_REPEATED) return add(w, &e);
    int64_t *dims =
        dt__block_list_add(w->file->ctx, &w->fit->arena, ((size_t)e.rank + 1) * sizeof *dims);
    if (dims == NULL) return DT_ERR_NOMEM;
    dims[0] = n;
    memcpy(dims + 1, e.dims, (size_t)e.rank * sizeof *dims);
    if (p->form == DT__AS_JOINED) {
        if (dims[1] > INT64_MAX / n) return DT_ERR_NOMEM;
        dims[1] *= n;
        dims++;
    } else {
        e.rank++;
    }
    e.dims = dims;
    return gather(w, p, n, &e) == DT_OK ? add(w, &e) : DT_ERR_NOMEM;
}

static int by_name(const void *left, const void *right)
{
    const part *a = left, *b = right;
    const int order = strcmp(a->name, b->name);
    return order != 0 ? order : a->expert < b->expert ? -1 : a->expert > b->expert;
}

static dt_status join_all(work *w)
{
    if (w->n_parts > 0) qsort(w->part, (size_t)w->n_parts, sizeof *w->part, by_name);
    for (int64_t i = 0, n; i < w->n_parts; i += n) {
        const part *p = &w->part[i];
        for (n = 1; i + n < w->n_parts && strcmp(p[n].name, p->name) == 0;) n++;
        if (check_parts(w, p, n)) DT__TRY(join(w, p, n));
    }
    return DT_OK;
}

static dt_status add_part(work *w, const dt_file_entry *e, const dt__place *place,
                          const dt__group *g)
{
    DT__TRY(DT__RESERVE(w->file->ctx, w->part, w->n_parts, w->room_parts));
    const char *name = keep_name(w, place, DT__WHOLE);
    if (name == NULL) return DT_ERR_NOMEM;
    w->part[w->n_parts++] = (part){ e, name, place->expert, place->form, g };
    return DT_OK;
}

/* ---- stacked to expert by expert ------------------------------------------------------------ */

/* An expert of the group that the file also stores separately; NULL: none. */
static const dt_file_entry *find_expert(work *w, const dt__place *place, const dt__group *g,
                                        dt_status *status)
{
    const dt_file_entry *e = NULL;
    for (int64_t i = 0; i < g->n && e == NULL && *status == DT_OK; i++) {
        const char *name = keep_name(w, place, i);
        if (name == NULL) *status = DT_ERR_NOMEM;
        else e = dt_file_find(w->file, name);
    }
    return e;
}

static dt_status cut(work *w, const dt_file_entry *e, const dt__place *place, const dt__group *g)
{
    dt_status s = DT_OK;
    char text[64];
    const dt_file_entry *expert = find_expert(w, place, g, &s);
    DT__TRY(s);
    if (expert != NULL) {
        note_both(w, e->name, expert->name);
        return DT_OK;
    }
    dt_file_entry share = *e;
    if (e->rank > 0) {
        if (e->dims[0] != g->n || e->bytes % (size_t)g->n != 0) {
            snprintf(text, sizeof text, "the model's %lld tensors", (long long)g->n);
            note_form(w, e, text);
            return DT_OK;
        }
        share.rank--;
        share.dims++;
        share.bytes /= (size_t)g->n;
        share.count /= g->n;
    }
    for (int64_t i = 0; i < g->n; i++) {
        share.name = keep_name(w, place, i);
        if (share.name == NULL) return DT_ERR_NOMEM;
        if (e->rank > 0 && share.bytes > 0) {
            share.data = (const char *)e->data + (size_t)i * share.bytes;
        }
        DT__TRY(add(w, &share));
    }
    return DT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static dt_status take(work *w, const dt_file_entry *e)
{
    dt__place place;
    dt__place_of(w->file->naming, e->name, &place);
    const dt__group *g = dt__group_of(w->groups, &place);
    const bool values = *place.suffix == 0;
    if (g != NULL && !g->apart && place.expert != DT__WHOLE) return add_part(w, e, &place, g);
    if (g != NULL && g->apart && place.expert == DT__WHOLE && values) return cut(w, e, &place, g);
    dt_file_entry as = *e;
    if (place.renamed && place.expert == DT__WHOLE) as.name = keep_name(w, &place, DT__WHOLE);
    return as.name == NULL ? DT_ERR_NOMEM : add(w, &as);
}

/* Several names of another program may mean one tensor; a file must have only one of them. */
static dt_status sort(work *w)
{
    char shown[DT__SHOWN];
    dt_file *view = &w->fit->view;
    view->by_name = dt__alloc_array(w->file->ctx, view->count, sizeof *view->by_name);
    if (view->by_name == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < view->count; i++) view->by_name[i] = &view->entry[i];
    if (view->count > 0) {
        qsort(view->by_name, (size_t)view->count, sizeof *view->by_name, dt__by_entry_name);
    }
    for (int64_t i = 1; i < view->count; i++) {
        const char *name = view->by_name[i]->name;
        if (strcmp(view->by_name[i - 1]->name, name) != 0) continue;
        dt__wrong_add(&w->wrong.of[DT__MISSHAPEN], dt__name_in(w->file, name, shown),
                      " occurs twice");
    }
    return DT_OK;
}

static dt_status fit(work *w)
{
    for (int64_t i = 0; i < w->file->count; i++) DT__TRY(take(w, &w->file->entry[i]));
    DT__TRY(join_all(w));
    DT__TRY(sort(w));
    return dt__differences_report(w->file, &w->wrong);
}

dt_status dt__fit_open(const dt_file *file, const dt__groups *groups, dt__fit *out)
{
    *out = (dt__fit){ .view = *file };
    out->view.entry = NULL;
    out->view.by_name = NULL;
    out->view.count = 0;
    work w = { .file = file, .groups = groups, .fit = out };
    const dt_status s = fit(&w);
    dt__release(file->ctx, w.part);
    return s;
}

void dt__fit_free(dt__fit *fit)
{
    dt_ctx *ctx = fit->view.ctx;
    if (ctx == NULL) return;
    DT__RELEASE(ctx, fit->view.entry, (void *)fit->view.by_name);
    dt__block_list_free(ctx, &fit->arena);
    *fit = (dt__fit){ .view.ctx = NULL };
}
