/* Creating and freeing modules. A module owns its children and its state, and holds a reference to
 * each of its parameters and buffers. */
#include "nn/module.h"

#include <string.h>

dt_status dt_module_create(dt_ctx *ctx, const dt_module_type *type, size_t state_bytes,
                           dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    if (type == NULL || type->name == NULL) {
        return dt_fail(ctx, DT_ERR_ARG, "module: expected a type with a name");
    }
    dt_module *m = dt__alloc_zero(ctx, sizeof *m);
    if (m == NULL) return DT_ERR_NOMEM;
    m->ctx = ctx;
    m->type = type;
    m->training = true;
    m->changes = 1;
    m->path = dt__text(ctx, "%s", "");
    m->state = m->path == NULL ? NULL : dt__alloc_zero(ctx, state_bytes);
    if (m->state == NULL) {
        dt__text_release(m->path);
        dt__release(ctx, m);
        return DT_ERR_NOMEM;
    }
    dt__ctx_retain(ctx);
    *out = m;
    return DT_OK;
}

static void leave_parent(dt_module *m)
{
    dt_module *p = m->parent;
    if (p == NULL) return;
    p->n_children--;
    for (int64_t i = m->place; i < p->n_children; i++) {
        p->children[i] = p->children[i + 1];
        p->children[i]->place = i;
    }
    m->parent = NULL;
    dt__names_free(p->ctx, &p->names);
    dt__module_changed(p);
}

static void free_entry(dt__entry *e)
{
    dt_tensor_free(e->x);
    dt__text_release(e->name);
    dt__text_release(e->path);
}

void dt__module_remove(dt_module *m, const char *name)
{
    dt__entry *e = dt__entry_find(m, name);
    if (e == NULL) return;
    free_entry(e);
    const int64_t behind = m->entries + --m->n_entries - e;
    memmove(e, e + 1, (size_t)behind * sizeof *e);
    dt__module_changed(m);
}

void dt__entries_free(dt_ctx *ctx, dt__entry *entries, int64_t n)
{
    for (int64_t i = 0; i < n; i++) free_entry(&entries[i]);
    dt__release(ctx, entries);
}

/* Whether a forward pass of m, or of a module below it, is running: then a hook is freeing m. */
static bool is_running(dt_module *m)
{
    DT__EACH_MODULE(each, m) {
        if (atomic_load(&each->running) > 0) return true;
    }
    return false;
}

void dt_module_free(dt_module *m)
{
    if (m == NULL) return;
    dt_ctx *ctx = m->ctx;
    if (is_running(m)) {
        dt_fail(ctx, DT_ERR_STATE, "module %s (%s): it runs, so it is not freed", m->path,
                m->type->name);
        dt__say(ctx, "%s", dt_error(ctx));
        return;
    }
    leave_parent(m);
    if (m->norm != NULL) m->norm->normed = NULL;
    if (m->normed != NULL) m->normed->norm = NULL;
    if (m->type->free_state != NULL) m->type->free_state(m);
    dt__hooks_free(m);
    if (m->form.free != NULL) m->form.free(ctx, m->form.user);
    for (int64_t i = 0; i < m->n_children; i++) {
        m->children[i]->parent = NULL;
        dt_module_free(m->children[i]);
    }
    dt__entries_free(ctx, m->entries, m->n_entries);
    dt__release(ctx, m->children);
    dt__names_free(ctx, &m->names);
    dt__release(ctx, m->params);
    dt__text_release(m->name);
    dt__text_release(m->path);
    DT__RELEASE(ctx, m->state, m);
    dt__ctx_release(ctx);
}

void *dt_module_state(dt_module *m) { return m == NULL ? NULL : m->state; }
const dt_module_type *dt_module_type_of(const dt_module *m) { return m == NULL ? NULL : m->type; }
dt_ctx *dt_module_ctx(const dt_module *m) { return m == NULL ? NULL : m->ctx; }

static dt_status new_tensor(dt_module *m, const char *name, int rank, const int64_t *dims,
                            dt_entry_kind kind, dt_tensor **x)
{
    dt_ctx *ctx = m->ctx;
    if (ctx->hollow && rank > 1) DT__TRY(dt__tensor_create_hollow(ctx, DT_F32, rank, dims, x));
    else DT__TRY(dt_tensor_create(ctx, DT_F32, rank, dims, x));
    return dt__module_add_tensor(m, name, *x, kind);
}

dt_status dt__new_param(dt_module *m, const char *name, int rank, const int64_t *dims,
                        dt_tensor **x)
{
    return new_tensor(m, name, rank, dims, DT_PARAM, x);
}

dt_status dt__new_scale_and_shift(dt_module *m, int64_t n)
{
    dt_tensor *x;
    DT__TRY(dt__new_param(m, "weight", 1, &n, &x));
    DT__TRY(dt_fill(x, 1.0));
    return dt__new_param(m, "bias", 1, &n, &x);
}

dt_status dt__new_buffer(dt_module *m, const char *name, int rank, const int64_t *dims,
                         dt_tensor **x)
{
    return new_tensor(m, name, rank, dims, DT_BUFFER, x);
}

dt_status dt__layer_done(dt_status status, dt_module *m, dt_module **out)
{
    if (status == DT_OK) {
        *out = m;
    } else {
        dt_module_free(m);
    }
    return status;
}

dt_status dt__add_made(dt_module *m, const char *name, dt_status made, dt_module *child,
                       dt_module **lent)
{
    DT__TRY(made);
    DT__TRY(dt_module_add(m, name, child));
    *lent = child;
    return DT_OK;
}

dt_status dt__want_extent(dt_ctx *ctx, const char *layer, const char *what, int64_t extent)
{
    if (extent >= 1) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG, "%s: %s is %lld, expected at least 1", layer, what,
                   (long long)extent);
}

dt_status dt__want_share(dt_ctx *ctx, const char *layer, const char *what, double share)
{
    if (share >= 0.0 && share <= 1.0) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG, "%s: %s is %g, expected 0...1", layer, what, share);
}

void dt__set_example(dt_module *m, int rank, const int64_t *dims)
{
    m->example_rank = rank;
    memcpy(m->example, dims, (size_t)rank * sizeof *dims);
}
