/* Names of experts in files, the grouped parameters of a module, and writing one tensor per
 * expert. */
#include "core/block_list.h"
#include "io/model/grouped_files.h"
#include "autograd/spread.h"
#include "core/tensor.h"
#include "core/text/ending.h"
#include "nn/module.h"

#include <stdlib.h>
#include <string.h>

#define OPTIM "detent.optim."

const char *const dt_grouped_forms[] = { "stacked", "experts", NULL };

/* ---- names ----------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    int form;
} suffixes[] = {
    { ".codes", DT__AS_JOINED }, { ".scale", DT__AS_JOINED },   { ".zero_point", DT__AS_JOINED },
    { ".g_idx", DT__AS_LINES },  { ".count", DT__AS_REPEATED },
};

/* Moves a suffix from the path to p->suffix. */
static void read_suffix(dt__place *p)
{
    p->suffix = p->path + p->path_n;
    p->form = DT__AS_STACKED;
    for (int i = 0; i < DT__COUNT_OF(suffixes); i++) {
        const int n = (int)strlen(suffixes[i].text);
        if (p->path_n <= n || strcmp(p->path + p->path_n - n, suffixes[i].text) != 0) continue;
        p->path_n -= n;
        p->suffix = suffixes[i].text;
        p->form = suffixes[i].form;
        return;
    }
}

int64_t dt__expert_number(const char *digits, int n)
{
    int64_t value = 0;
    if (n > 18 || (n > 1 && digits[0] == '0')) return DT__NO_EXPERT;
    for (int i = 0; i < n; i++) value = 10 * value + (digits[i] - '0');
    return value;
}

/* Moves an expert's number from the path to p->expert. */
static void read_expert(dt__place *p)
{
    int n = 0;
    while (n < p->path_n && dt__is_digit(p->path[p->path_n - 1 - n])) n++;
    p->expert = DT__WHOLE;
    if (n == 0 || n + 2 > p->path_n || p->path[p->path_n - 1 - n] != '.') return;
    p->expert = dt__expert_number(p->path + p->path_n - n, n);
    p->path_n -= n + 1;
}

void dt__place_of(const dt__naming *naming, const char *name, dt__place *out)
{
    *out = (dt__place){ .slot = name, .suffix = "", .expert = DT__WHOLE };
    if (naming != NULL && naming->read(name, out)) {
        out->renamed = true;
        out->path = out->own;
        out->path_n = (int)strlen(out->own);
        return;
    }
    if (strncmp(name, OPTIM, strlen(OPTIM)) == 0) {
        const char *dot = strchr(name + strlen(OPTIM), '.');
        if (dot != NULL) out->slot_n = (int)(dot + 1 - name);
    }
    out->path = name + out->slot_n;
    out->path_n = (int)strlen(out->path);
    read_suffix(out);
    read_expert(out);
}

const char *dt__name_in(const dt_file *file, const char *path, char text[DT__SHOWN])
{
    if (file->naming != NULL && file->naming->write(path, DT__WHOLE, text)) return text;
    return dt__shown(path, text);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static int compare_paths(const dt__group *a, const dt__group *b)
{
    const int n = a->path_n < b->path_n ? a->path_n : b->path_n;
    const int order = memcmp(a->path, b->path, (size_t)n);
    return order != 0 ? order : a->path_n - b->path_n;
}

/* Sorts the experts of one path. */
static int by_path(const void *left, const void *right)
{
    const dt__group *a = left, *b = right;
    const int order = compare_paths(a, b);
    return order != 0 ? order : a->n < b->n ? -1 : a->n > b->n;
}

dt_status dt__groups_add(dt__groups *g, const dt__group *group)
{
    DT__TRY(DT__RESERVE(g->ctx, g->at, g->n, g->room));
    g->at[g->n++] = *group;
    return DT_OK;
}

void dt__groups_sort(dt__groups *g)
{
    if (g->n > 0) qsort(g->at, (size_t)g->n, sizeof *g->at, by_path);
}

void dt__groups_free(dt__groups *g)
{
    dt__release(g->ctx, g->at);
    dt__block_list_free(g->ctx, &g->arena);
    *g = (dt__groups){ .ctx = g->ctx };
}

static const dt__group *find_path(const dt__groups *groups, const dt__place *place)
{
    const dt__group wanted = { .path = place->path, .path_n = place->path_n };
    int64_t low = 0, high = groups->n;
    while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        const int order = compare_paths(&wanted, &groups->at[mid]);
        if (order == 0) return &groups->at[mid];
        if (order < 0) high = mid;
        else low = mid + 1;
    }
    return NULL;
}

const dt__group *dt__group_of(const dt__groups *groups, dt__place *place)
{
    const dt__group *g = find_path(groups, place);
    if (g == NULL || place->form != DT__AS_LINES) return g;
    place->form = g->n == 1 ? DT__AS_REPEATED : DT__AS_STACKED;
    return g;
}

/* Lists a module's grouped parameters, and tensors that may be experts (n is their number). */
typedef struct finding {
    dt__groups *groups, loose;
} finding;

static dt_status find_group(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    finding *f = user;
    dt__place place;
    (void)kind;
    if (dt_is_grouped(x)) {
        return dt__groups_add(f->groups, &(dt__group){ .path = path,
                                                       .path_n = (int)strlen(path),
                                                       .n = dt__whole_extent(x),
                                                       .x = x });
    }
    dt__place_of(NULL, path, &place);
    if (place.expert < 0 || *place.suffix != 0 || place.slot_n > 0) return DT_OK;
    return dt__groups_add(
        &f->loose,
        &(dt__group){
            .path = path, .path_n = place.path_n, .n = place.expert, .x = x, .apart = true });
}

/* Whether P.0 ... P.n-1 all exist, have one shape, and P does not exist. */
static dt_status add_loose(dt_module *m, finding *f)
{
    const dt__groups *l = &f->loose;
    dt__groups_sort(&f->loose);
    for (int64_t i = 0, end; i < l->n; i = end) {
        bool all = true;
        for (end = i; end < l->n && compare_paths(&l->at[i], &l->at[end]) == 0; end++) {
            all = all && l->at[end].n == end - i && dt__same_dims(l->at[i].x, l->at[end].x);
        }
        char *path = dt__format_string(m->ctx, "%.*s", l->at[i].path_n, l->at[i].path);
        if (path == NULL) return DT_ERR_NOMEM;
        const char *name;
        const dt_module *holder = dt__holder(m, path, &name);
        const bool whole = holder != NULL && dt__entry_find(holder, name) != NULL;
        dt__release(m->ctx, path);
        if (!all || whole) continue;
        dt__group g = l->at[i];
        g.n = end - i;
        DT__TRY(dt__groups_add(f->groups, &g));
    }
    return DT_OK;
}

dt_status dt__groups_of(dt_module *m, dt__groups *out)
{
    *out = (dt__groups){ .ctx = m->ctx };
    finding f = { .groups = out, .loose.ctx = m->ctx };
    dt_status s = dt_module_visit(m, find_group, &f);
    if (s == DT_OK) s = add_loose(m, &f);
    dt__groups_free(&f.loose);
    if (s != DT_OK) dt__groups_free(out);
    else dt__groups_sort(out);
    return s;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* *out: the form of one expert of a stacked tensor; false: the tensor is not split. */
static bool form_of_expert(const dt_file_entry *e, const dt__place *place, int64_t n,
                           dt_file_entry *out)
{
    const dt__file_dtype *dtype = dt__file_dtype_of(e->dtype);
    *out = *e;
    if (dtype == NULL || n < 1 || !dt__product(e->rank, e->dims, &out->count)) return false;
    if (e->rank > 0 && place->form != DT__AS_REPEATED) {
        if (e->dims[0] % n != 0 || (place->form == DT__AS_STACKED && e->dims[0] != n)) return false;
        out->count /= n;
    }
    return dt__file_bytes(dtype, out->count, &out->bytes);
}

static dt_status add_cut(dt_ctx *ctx, dt_writer *w, const dt__group *g, const dt__place *place,
                         const dt_file_entry *expert)
{
    int64_t dims[DT_MAX_RANK];
    dt_file_entry part = *expert;
    const bool cut = expert->rank > 0 && place->form != DT__AS_REPEATED;
    const int skip = cut && place->form == DT__AS_STACKED;
    memcpy(dims, expert->dims, (size_t)expert->rank * sizeof dims[0]);
    if (cut && !skip) dims[0] /= g->n;
    part.rank -= skip;
    part.dims = dims + skip;
    for (int64_t i = 0; i < g->n; i++) {
        char *name = dt__format_string(ctx, "%.*s%.*s.%lld%s", place->slot_n, place->slot,
                                       place->path_n, place->path, (long long)i, place->suffix);
        if (name == NULL) return DT_ERR_NOMEM;
        part.name = name;
        if (cut && part.bytes > 0) part.data = (const char *)expert->data + (size_t)i * part.bytes;
        const dt_status s = dt_writer_add_bytes(w, &part);
        dt__release(ctx, name);
        DT__TRY(s);
    }
    return DT_OK;
}

dt_status dt__experts_add(dt_writer *w, const dt__groups *groups, const dt_file_entry *e)
{
    dt__place place;
    dt_file_entry expert;
    if (groups == NULL || groups->n == 0) return dt_writer_add_bytes(w, e);
    dt__place_of(NULL, e->name, &place);
    const dt__group *g = dt__group_of(groups, &place);
    if (g == NULL || g->apart || place.expert != DT__WHOLE || e->rank > DT_MAX_RANK ||
        !form_of_expert(e, &place, g->n, &expert)) {
        return dt_writer_add_bytes(w, e);
    }
    return add_cut(groups->ctx, w, g, &place, &expert);
}
