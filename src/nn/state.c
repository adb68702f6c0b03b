/* A module's state dict: parameters and buffers by path. Loading checks every name, shape and dtype
 * before it writes anything, so on an error the model is unchanged. */
#include "autograd/write.h"
#include "nn/module.h"

#include <stdio.h>
#include <string.h>

#define SHOWN 4 /* names listed in a message */

typedef struct names {
    char text[512];
    int n;
} names;

static void list(names *l, const char *name)
{
    const size_t used = strlen(l->text);
    if (l->n < SHOWN) {
        snprintf(l->text + used, sizeof l->text - used, "%s%s", l->n == 0 ? "" : ", ", name);
    } else if (l->n == SHOWN) {
        snprintf(l->text + used, sizeof l->text - used, ", ...");
    }
    l->n++;
}

typedef struct loading {
    dt_module *m;
    const dt_named *from;
    int64_t n;
    names missing, unexpected;
} loading;

static const dt_tensor *named(const loading *l, const char *path)
{
    for (int64_t i = 0; i < l->n; i++) {
        if (strcmp(l->from[i].name, path) == 0) return l->from[i].x;
    }
    return NULL;
}

static dt_status check_writable(dt_tensor *x, const char *path)
{
    char why[DT__WHY_SIZE];
    if (dt__may_write(x, NULL, why) == DT__WRITABLE) return DT_OK;
    return dt_fail(x->ctx, DT_ERR_STATE, "%s %s", path, why);
}

static dt_status check_entry(loading *l, const dt__entry *e)
{
    dt_tensor *x = e->x;
    const char *path = dt__path_within(l->m, e->path);
    const dt_tensor *from = named(l, path);
    if (from == NULL) { /* tied parameters are listed under their first path only */
        if (dt__entry_is_first(l->m, e)) list(&l->missing, path);
        return DT_OK;
    }
    if (from->kind != NULL || from->storage == NULL) {
        return dt_fail(x->ctx, DT_ERR_STATE, "load: '%s' must come from a plain tensor", path);
    }
    if (from->dtype != x->dtype || !dt__same_dims(from, x)) {
        char has[160], wants[160];
        dt_describe(from, has, sizeof has);
        dt_describe(x, wants, sizeof wants);
        return dt_fail(x->ctx, from->dtype != x->dtype ? DT_ERR_DTYPE : DT_ERR_SHAPE,
                       "load: '%s' is %s, the model requires %s", path, has, wants);
    }
    return check_writable(x, path);
}

static dt_status check_names(loading *l)
{
    for (int64_t i = 0; i < l->n; i++) {
        const char *name;
        const dt_module *holder = dt__holder(l->m, l->from[i].name, &name);
        if (holder == NULL || dt__entry_find(holder, name) == NULL) {
            list(&l->unexpected, l->from[i].name);
        }
    }
    if (l->missing.n == 0 && l->unexpected.n == 0) return DT_OK;
    return dt_fail(l->m->ctx, DT_ERR_ARG, "load: %d missing%s%s%s; %d not of this model%s%s%s",
                   l->missing.n, l->missing.n > 0 ? " (" : "", l->missing.text,
                   l->missing.n > 0 ? ")" : "", l->unexpected.n, l->unexpected.n > 0 ? " (" : "",
                   l->unexpected.text, l->unexpected.n > 0 ? ")" : "");
}

dt_status dt_module_load(dt_module *m, const dt_named *from, int64_t n)
{
    DT__NEED(dt_module_ctx(m), m);
    if (n > 0) DT__NEED(dt_module_ctx(m), from);
    loading l = { .m = m, .from = from, .n = n };
    for (int64_t i = 0; i < n; i++) {
        if (from[i].name != NULL && from[i].x != NULL) continue;
        return dt_fail(m->ctx, DT_ERR_ARG, "load: entry %lld has no %s", (long long)i,
                       from[i].name == NULL ? "name" : "tensor");
    }
    DT__EACH_ENTRY(holder, e, m) DT__TRY(check_entry(&l, e));
    DT__TRY(check_names(&l));
    DT__EACH_ENTRY(holder, e, m) {
        const dt_tensor *x =
            dt__entry_is_first(m, e) ? named(&l, dt__path_within(m, e->path)) : NULL;
        if (x != NULL) dt__write_value(e->x, x);
    }
    return DT_OK;
}

static int64_t count_entries(dt_module *m)
{
    int64_t n = 0;
    DT__EACH_MODULE(each, m) n += each->n_entries;
    return n;
}

static dt_status list_values(dt_module *m, dt_named *to)
{
    DT__EACH_ENTRY(holder, e, m) {
        const dt__kind *of = dt__kind_of(e->x);
        dt_tensor *inner = of->inner == NULL ? NULL : of->inner(e->x);
        *to++ = (dt_named){ dt__path_within(m, e->path), inner };
        if (inner != NULL) continue;
        return dt_fail(m->ctx, DT_ERR_STATE, "copy: %s is a %s tensor, which has no float values",
                       dt__path_within(m, e->path), of->name);
    }
    return DT_OK;
}

dt_status dt_module_copy_state(dt_module *to, dt_module *from)
{
    DT__NEED2(dt_module_ctx(to), to, from);
    if (to == from) return DT_OK;
    const int64_t n = count_entries(from);
    dt_named *entry = dt__alloc_array(to->ctx, n, sizeof *entry);
    if (entry == NULL) return DT_ERR_NOMEM;
    dt_status s = list_values(from, entry);
    if (s == DT_OK) s = dt_module_load(to, entry, n);
    dt__release(to->ctx, entry);
    return s;
}
