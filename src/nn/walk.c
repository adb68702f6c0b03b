/* Traversal of the tree of modules: lookup by path, visits of every tensor and of every module. A
 * module's parameters and buffers are visited before its children, each in the order of
 * addition. */
#include "nn/module.h"

#include <string.h>

/* ---- by path --------------------------------------------------------------------------------- */

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

static const char *first_path(const dt_module *m, const dt_tensor *x)
{
    for (int64_t i = 0; i < m->n_entries; i++) {
        if (m->entries[i].x == x) return m->entries[i].path;
    }
    for (int64_t i = 0; i < m->n_children; i++) {
        const char *path = first_path(m->children[i], x);
        if (path != NULL) return path;
    }
    return NULL;
}

const char *dt_param_path(const dt_module *m, const dt_tensor *x)
{
    if (m == NULL) return NULL;
    const char *path = first_path(m, x);
    return path == NULL ? NULL : dt__path_within(m, path);
}

/* ---- visiting -------------------------------------------------------------------------------- */

static dt_status visit_tensors(const dt_module *root, const dt_module *m, dt_visit_tensor visit,
                               void *user)
{
    for (int64_t i = 0; i < m->n_entries; i++) {
        const dt__entry *e = &m->entries[i];
        DT__TRY(visit(user, dt__path_within(root, e->path), e->x, e->kind));
    }
    for (int64_t i = 0; i < m->n_children; i++) {
        DT__TRY(visit_tensors(root, m->children[i], visit, user));
    }
    return DT_OK;
}

dt_status dt_module_visit(dt_module *m, dt_visit_tensor visit, void *user)
{
    DT__NEED(dt_module_ctx(m), m);
    DT__NEED(dt_module_ctx(m), visit);
    return visit_tensors(m, m, visit, user);
}

static dt_status visit_modules(const dt_module *root, dt_module *m, dt_visit_module visit,
                               void *user)
{
    DT__TRY(visit(user, dt__path_within(root, m->path), m));
    for (int64_t i = 0; i < m->n_children; i++) {
        DT__TRY(visit_modules(root, m->children[i], visit, user));
    }
    return DT_OK;
}

dt_status dt_module_visit_modules(dt_module *m, dt_visit_module visit, void *user)
{
    DT__NEED(dt_module_ctx(m), m);
    DT__NEED(dt_module_ctx(m), visit);
    return visit_modules(m, m, visit, user);
}

/* ---- the parameters, each once --------------------------------------------------------------- */

static bool listed(const dt_module *m, const dt_tensor *x)
{
    for (int64_t i = 0; i < m->n_params; i++) {
        if (m->params[i].x == x) return true;
    }
    return false;
}

static dt_status list_param(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    dt_module *m = user;
    if (kind != DT_PARAM || listed(m, x)) return DT_OK;
    DT__TRY(DT__RESERVE(m->ctx, m->params, m->n_params, m->room_params));
    m->params[m->n_params++] = (dt__param){ x, path };
    return DT_OK;
}

dt_status dt__module_params(dt_module *m, const dt__param **params, int64_t *n)
{
    if (m->params_changes != m->changes) {
        m->n_params = 0;
        m->params_changes = 0;
        DT__TRY(dt_module_visit(m, list_param, m));
        m->params_changes = m->changes;
    }
    *params = m->params;
    *n = m->n_params;
    return DT_OK;
}

typedef struct counter {
    dt_module *m;
    bool trained; /* count only those that require a gradient */
    int64_t elements;
} counter;

static dt_status count_param(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    counter *c = user;
    /* Paths are texts of the tree, so the first one is the same pointer. */
    if (kind != DT_PARAM || (c->trained && !x->requires_grad)) return DT_OK;
    if (dt_param_path(c->m, x) == path) c->elements += x->count;
    return DT_OK;
}

int64_t dt_param_count(dt_module *m)
{
    if (m == NULL) return 0;
    counter c = { .m = m };
    dt_module_visit(m, count_param, &c);
    return c.elements;
}

int64_t dt_trained_count(dt_module *m)
{
    if (m == NULL) return 0;
    counter c = { .m = m, .trained = true };
    dt_module_visit(m, count_param, &c);
    return c.elements;
}

/* ---- changing all modules -------------------------------------------------------------------- */

void dt_train(dt_module *m, bool on)
{
    if (m == NULL) return;
    m->training = on;
    for (int64_t i = 0; i < m->n_children; i++) dt_train(m->children[i], on);
}

bool dt_is_training(const dt_module *m)
{
    if (m == NULL) return false;
    return m->training;
}

void dt_zero_grad(dt_module *m)
{
    if (m == NULL) return;
    for (int64_t i = 0; i < m->n_entries; i++) dt_grad_clear(m->entries[i].x);
    for (int64_t i = 0; i < m->n_children; i++) dt_zero_grad(m->children[i]);
}
