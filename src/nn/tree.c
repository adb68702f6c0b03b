/* Building the tree of modules: adding children, parameters, buffers and ties, and updating paths.
 *
 * Paths start at the root, so all paths of a subtree are recomputed when it is added to a parent.
 * Tensors share the text of their path as their name, for messages; the text is reference-counted,
 * so it outlives the module while a tape uses it. A tied parameter is named by the first of its
 * paths in the order of visiting. */
#include "core/text/row_named.h"
#include "nn/module.h"

#include <string.h>

void dt__module_changed(dt_module *m)
{
    for (; m != NULL; m = m->parent) m->changes++;
}

/* ---- names and paths ------------------------------------------------------------------------- */

dt__entry *dt__entry_find(const dt_module *m, const char *name)
{
    return dt__row_named(m->entries, m->n_entries, sizeof *m->entries, name);
}

static bool has_child(const dt_module *m, const char *name)
{
    return dt__child_of(m, name, strlen(name)) != NULL;
}

static const char *shown(const dt_module *m) { return m->path[0] != '\0' ? m->path : "the root"; }

static dt_status check_text(const dt_module *m, const char *name)
{
    if (name == NULL || name[0] == '\0' || strchr(name, '.') != NULL) {
        return dt_fail(
            m->ctx, DT_ERR_ARG,
            "module %s: '%s' is not a name; expected one that is not empty and has no dot",
            shown(m), name == NULL ? "(NULL)" : name);
    }
    return DT_OK;
}

static dt_status check_name(const dt_module *m, const char *name)
{
    DT__TRY(check_text(m, name));
    if (dt__entry_find(m, name) != NULL || has_child(m, name)) {
        return dt_fail(m->ctx, DT_ERR_ARG, "module %s (%s): the name '%s' is taken", shown(m),
                       m->type->name, name);
    }
    return DT_OK;
}

static const char *join(dt_ctx *ctx, const char *above, const char *name)
{
    return dt__text(ctx, "%s%s%s", above, above[0] != '\0' ? "." : "", name);
}

static void forget_names(dt_module *m)
{
    for (int64_t i = 0; i < m->n_entries; i++) dt__set_name(m->entries[i].x, NULL);
    for (int64_t i = 0; i < m->n_children; i++) forget_names(m->children[i]);
}

static dt_status place_entry(dt_module *m, dt__entry *e)
{
    const char *path = join(m->ctx, m->path, e->name);
    if (path == NULL) return DT_ERR_NOMEM;
    dt__text_release(e->path);
    e->path = path;
    if (e->x->name == NULL) dt__set_name(e->x, dt__text_retain(path));
    return DT_OK;
}

/* Sets the paths of m, whose parent has the path `above`, and of everything below m. */
static dt_status place(dt_module *m, const char *above)
{
    const char *path = join(m->ctx, above, m->name);
    if (path == NULL) return DT_ERR_NOMEM;
    dt__text_release(m->path);
    m->path = path;
    m->changes++;
    for (int64_t i = 0; i < m->n_entries; i++) DT__TRY(place_entry(m, &m->entries[i]));
    for (int64_t i = 0; i < m->n_children; i++) DT__TRY(place(m->children[i], m->path));
    return DT_OK;
}

/* ---- adding ---------------------------------------------------------------------------------- */

static dt_status given_nothing(const dt_module *m, const char *what)
{
    const dt_status s = dt_error_status(m->ctx);
    return s != DT_OK ? s : dt_fail(m->ctx, DT_ERR_ARG, "module %s: no %s given", shown(m), what);
}

static dt_status check_child(dt_module *m, const char *name, const dt_module *child)
{
    if (child->ctx != m->ctx) {
        return dt_fail(m->ctx, DT_ERR_ARG, "module %s: the child '%s' is of another context",
                       shown(m), name == NULL ? "(NULL)" : name);
    }
    return check_name(m, name);
}

#define FEW_CHILDREN 32 /* up to this number names are compared one by one */

/* Adds the name of the next child to the index of m, and those of all earlier children if it is
 * empty. */
static dt_status index_child(dt_module *m, const char *name)
{
    const int64_t n = m->n_children;
    if (n < FEW_CHILDREN) return DT_OK;
    for (int64_t i = m->names.room > 0 ? n : 0; i <= n; i++) {
        const char *own = i < n ? m->children[i]->name : name;
        const dt_status s = dt__names_add(m->ctx, &m->names, dt__hash_name(own, strlen(own)), i);
        if (s == DT_OK) continue;
        dt__names_free(m->ctx, &m->names);
        return s;
    }
    return DT_OK;
}

static dt_status place_child(dt_module *m, const char *name, dt_module *child)
{
    DT__TRY(DT__RESERVE(m->ctx, m->children, m->n_children, m->room_children));
    child->name = dt__text(m->ctx, "%s", name);
    if (child->name == NULL) return DT_ERR_NOMEM;
    forget_names(child);
    DT__TRY(place(child, m->path));
    return index_child(m, name);
}

static const dt_module *root_of(const dt_module *m)
{
    while (m->parent != NULL) m = m->parent;
    return m;
}

static dt_status add_child(dt_module *m, const char *name, dt_module *child)
{
    DT__TRY(place_child(m, name, child));
    child->place = m->n_children;
    m->children[m->n_children++] = child;
    child->parent = m;
    if (m->type == &dt__nn_sequential) dt__sequential_added(m);
    dt__module_changed(m);
    return DT_OK;
}

dt_status dt__module_attach(dt_module *m, const char *name, dt_module *child)
{
    DT__TRY(check_text(m, name));
    if (!has_child(m, name)) return add_child(m, name, child);
    return dt_fail(m->ctx, DT_ERR_ARG, "module %s (%s): it has a child '%s' already", shown(m),
                   m->type->name, name);
}

dt_status dt_module_add(dt_module *m, const char *name, dt_module *child)
{
    DT__NEED(dt_module_ctx(m), m);
    if (child == NULL) return given_nothing(m, "child");
    if (child->parent != NULL || child == root_of(m)) {
        return dt_fail(m->ctx, DT_ERR_STATE, "module %s: the child '%s' is already in %s", shown(m),
                       name == NULL ? "(NULL)" : name,
                       child->parent != NULL ? "a tree" : "this one");
    }
    dt_status s = check_child(m, name, child);
    if (s == DT_OK) s = add_child(m, name, child);
    if (s != DT_OK) dt_module_free(child);
    return s;
}

/* The entries of the tree that hold x, each with a reference; and the path of one of them. */
static int count_entries(const dt_module *m, const dt_tensor *x, const char **path)
{
    int n = 0;
    for (const dt_module *each = m; each != NULL; each = dt__module_next(m, each)) {
        for (int64_t i = 0; i < each->n_entries; i++) {
            if (each->entries[i].x != x) continue;
            *path = each->entries[i].path;
            n++;
        }
    }
    return n;
}

static dt_status check_tensor(const dt_module *m, const char *name, const dt_tensor *x)
{
    DT__TRY(check_name(m, name));
    if (x->ctx != m->ctx) {
        return dt_fail(m->ctx, DT_ERR_ARG, "module %s: '%s' is of another context", shown(m), name);
    }
    if (x->tape != NULL) {
        return dt_fail(m->ctx, DT_ERR_STATE,
                       "module %s: '%s' is lent by a tape; expected a tensor of one's own",
                       shown(m), name);
    }
    if (dt_is_contiguous(x)) return DT_OK;
    return dt_fail(m->ctx, DT_ERR_STATE,
                   "module %s: '%s' is a view that is not contiguous; dt_tensor_contiguous copies "
                   "it",
                   shown(m), name);
}

static dt_status place_tensor(dt_module *m, const char *name, dt_tensor *x, dt_entry_kind kind)
{
    DT__TRY(DT__RESERVE(m->ctx, m->entries, m->n_entries, m->room_entries));
    dt__entry e = { .name = dt__text(m->ctx, "%s", name), .x = x, .kind = kind };
    dt_status s = e.name == NULL ? DT_ERR_NOMEM : place_entry(m, &e);
    if (s == DT_OK && kind == DT_PARAM) s = dt_set_requires_grad(x, true);
    if (s != DT_OK) {
        dt__text_release(e.name);
        dt__text_release(e.path);
        return s;
    }
    m->entries[m->n_entries++] = e;
    dt__module_changed(m);
    return DT_OK;
}

dt_status dt__module_add_tensor(dt_module *m, const char *name, dt_tensor *x, dt_entry_kind kind)
{
    if (x == NULL) return given_nothing(m, "tensor");
    const char *path = NULL;
    if (count_entries(root_of(m), x, &path) == atomic_load(&x->refs)) {
        return dt_fail(
            m->ctx, DT_ERR_STATE,
            "module %s: the tensor is '%s' already; dt_module_tie gives it a second name", shown(m),
            path);
    }
    dt_status s = check_tensor(m, name, x);
    if (s == DT_OK) s = place_tensor(m, name, x, kind);
    if (s != DT_OK) dt_tensor_free(x);
    return s;
}

dt_status dt_module_add_param(dt_module *m, const char *name, dt_tensor *x)
{
    DT__NEED(dt_module_ctx(m), m);
    return dt__module_add_tensor(m, name, x, DT_PARAM);
}

dt_status dt_module_add_buffer(dt_module *m, const char *name, dt_tensor *x)
{
    DT__NEED(dt_module_ctx(m), m);
    return dt__module_add_tensor(m, name, x, DT_BUFFER);
}

/* ---- tying ----------------------------------------------------------------------------------- */

/* The entry at `path`; NULL, with ARG, if it is not a parameter. */
static dt__entry *param_at(dt_module *m, const char *path, dt_module **holder)
{
    if (dt_param(m, path) == NULL) return NULL;
    const char *name;
    *holder = dt__holder(m, path, &name);
    dt__entry *e = dt__entry_find(*holder, name);
    if (e->kind == DT_PARAM) return e;
    dt_fail(m->ctx, DT_ERR_ARG, "tie: '%s' is a buffer; only parameters can be tied", path);
    return NULL;
}

dt_status dt_module_tie(dt_module *m, const char *path, const char *to)
{
    DT__NEED(dt_module_ctx(m), m);
    dt_module *holder, *other_holder;
    dt__entry *e = param_at(m, path, &holder);
    dt__entry *other = e == NULL ? NULL : param_at(m, to, &other_holder);
    if (other == NULL) return DT_ERR_ARG;
    if (e->x == other->x) return DT_OK;
    if (holder->lora.rank > 0 || other_holder->lora.rank > 0) {
        return dt_fail(m->ctx, DT_ERR_ARG,
                       "tie: '%s' and '%s': one belongs to a layer with an adapter", path, to);
    }
    if (!dt__same_dims(e->x, other->x) || e->x->dtype != other->x->dtype) {
        char a[160], b[160];
        dt_describe(e->x, a, sizeof a);
        dt_describe(other->x, b, sizeof b);
        return dt_fail(m->ctx, DT_ERR_SHAPE, "tie: '%s' is %s and '%s' is %s; expected one shape",
                       path, a, to, b);
    }
    dt__retain(other->x);
    dt_tensor_free(e->x);
    e->x = other->x;
    const char *first = dt_param_path(m, e->x);
    dt__set_name(e->x, dt__text_retain(strcmp(first, path) == 0 ? e->path : other->path));
    dt__module_changed(holder);
    return DT_OK;
}
