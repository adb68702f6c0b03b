/* Traversal of the tree of modules: lookup by path, visits of every tensor and of every module. A
 * module's parameters and buffers are visited before its children, each in the order of
 * addition. */
#include "nn/module.h"

#include <string.h>

static bool is_called(const dt_module *m, const char *name, size_t n)
{
    return strncmp(m->name, name, n) == 0 && m->name[n] == '\0';
}

dt_module *dt__child_of(const dt_module *m, const char *name, size_t n)
{
    const uint64_t hash = m->names.room > 0 ? dt__hash_name(name, n) : 0;
    int64_t probe = 0, at = m->names.room > 0 ? 0 : -1;
    for (int64_t i = 0; i < m->n_children && at < 0; i++) {
        if (is_called(m->children[i], name, n)) return m->children[i];
    }
    while (at >= 0 && (at = dt__names_next(&m->names, hash, &probe)) >= 0) {
        if (at < m->n_children && is_called(m->children[at], name, n)) return m->children[at];
    }
    return NULL;
}

dt_module *dt__holder(dt_module *m, const char *path, const char **name)
{
    while (m != NULL) {
        const size_t length = strcspn(path, ".");
        *name = path;
        if (path[length] == '\0') return m;
        m = dt__child_of(m, path, length);
        path += length + 1;
    }
    return NULL;
}

dt_module *dt_module_at(dt_module *m, const char *path)
{
    if (m == NULL) return NULL;
    if (path != NULL && path[0] == '\0') return m;
    const char *name;
    const dt_module *holder = path == NULL ? NULL : dt__holder(m, path, &name);
    dt_module *found = holder == NULL ? NULL : dt__child_of(holder, name, strlen(name));
    if (found == NULL) {
        dt_fail(m->ctx, DT_ERR_ARG, "there is no module '%s'", path == NULL ? "(NULL)" : path);
    }
    return found;
}

dt_tensor *dt_param(dt_module *m, const char *path)
{
    if (m == NULL) return NULL;
    const char *name;
    const dt_module *holder = path == NULL ? NULL : dt__holder(m, path, &name);
    const dt__entry *e = holder == NULL ? NULL : dt__entry_find(holder, name);
    if (e != NULL) return e->x;
    dt_fail(m->ctx, DT_ERR_ARG, "there is no parameter or buffer '%s'",
            path == NULL ? "(NULL)" : path);
    return NULL;
}

const char *dt__path_within(const dt_module *m, const char *path)
{
    const size_t above = strlen(m->path);
    return path[above] == '.' && above > 0 ? path + above + 1 : path + above;
}

const char *dt_param_path(const dt_module *m, const dt_tensor *x)
{
    for (const dt_module *each = m; each != NULL; each = dt__module_next(m, each)) {
        for (int64_t i = 0; i < each->n_entries; i++) {
            if (each->entries[i].x == x) return dt__path_within(m, each->entries[i].path);
        }
    }
    return NULL;
}

dt_module *dt__module_next(const dt_module *root, const dt_module *m)
{
    if (m->n_children > 0) return m->children[0];
    for (; m != root; m = m->parent) {
        const dt_module *above = m->parent;
        if (m->place + 1 < above->n_children) return above->children[m->place + 1];
    }
    return NULL;
}

bool dt__entry_is_first(const dt_module *root, const dt__entry *e)
{
    /* Paths are shared strings of the tree, so equal paths are equal pointers. */
    return dt_param_path(root, e->x) == dt__path_within(root, e->path);
}

dt_status dt_module_visit(dt_module *m, dt_visit_tensor visit, void *user)
{
    DT__NEED2(dt_module_ctx(m), m, visit);
    DT__EACH_ENTRY(holder, e, m) {
        DT__TRY(visit(user, dt__path_within(m, e->path), e->x, e->kind));
    }
    return DT_OK;
}

dt_status dt_module_visit_modules(dt_module *m, dt_visit_module visit, void *user)
{
    DT__NEED2(dt_module_ctx(m), m, visit);
    DT__EACH_MODULE(each, m) DT__TRY(visit(user, dt__path_within(m, each->path), each));
    return DT_OK;
}

static bool listed(const dt_module *m, const dt_tensor *x)
{
    for (int64_t i = 0; i < m->n_params; i++) {
        if (m->params[i].x == x) return true;
    }
    return false;
}

dt_status dt__module_params(dt_module *m, const dt__param **params, int64_t *n)
{
    if (m->params_changes != m->changes) {
        m->n_params = 0;
        m->params_changes = 0;
        DT__EACH_ENTRY(holder, e, m) {
            if (e->kind != DT_PARAM || listed(m, e->x)) continue;
            DT__TRY(DT__RESERVE(m->ctx, m->params, m->n_params, m->room_params));
            m->params[m->n_params++] = (dt__param){ e->x, dt__path_within(m, e->path) };
        }
        m->params_changes = m->changes;
    }
    *params = m->params;
    *n = m->n_params;
    return DT_OK;
}

/* The number of elements of all parameters, or of those that require a gradient. */
static int64_t count_params(dt_module *m, bool trained)
{
    int64_t n = 0;
    DT__EACH_ENTRY(holder, e, m) {
        if (e->kind != DT_PARAM || (trained && !e->x->requires_grad)) continue;
        if (dt__entry_is_first(m, e)) n += e->x->count;
    }
    return n;
}

int64_t dt_param_count(dt_module *m) { return count_params(m, false); }

int64_t dt_trained_count(dt_module *m) { return count_params(m, true); }

void dt_train(dt_module *m, bool on)
{
    DT__EACH_MODULE(each, m) each->training = on;
}

bool dt_is_training(const dt_module *m) { return m == NULL ? false : m->training; }

void dt_zero_grad(dt_module *m)
{
    DT__EACH_ENTRY(holder, e, m) dt_grad_clear(e->x);
}
