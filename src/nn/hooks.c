/* Hooks: functions that observe or replace a module's inputs or weight. Quantization of activations
 * and of derived weights is implemented with them. Modules that read the same activation get the
 * same handle, so its codes are computed once. */
#include "nn/derived_weight.h"

dt_status dt_hook_add(dt_module *m, dt_site site, dt_hook hook, void *user,
                      void (*drop)(dt_ctx *ctx, void *user), uint64_t *id)
{
    DT__NEED(dt_module_ctx(m), m);
    if (hook == NULL || (site != DT_SITE_INPUT && site != DT_SITE_WEIGHT)) {
        return dt_fail(m->ctx, DT_ERR_ARG,
                       "hook: expected a function and a site (input or weight)");
    }
    dt__hook *h = dt__alloc(m->ctx, sizeof *h);
    if (h == NULL) return DT_ERR_NOMEM;
    *h = (dt__hook){ .id = ++m->last_hook, .site = site, .call = hook, .user = user, .drop = drop };
    dt__hook **end = &m->hooks;
    while (*end != NULL) end = &(*end)->next;
    *end = h;
    if (id != NULL) *id = h->id;
    return DT_OK;
}

static void free_hook(dt_ctx *ctx, dt__hook *h)
{
    if (h->drop != NULL) h->drop(ctx, h->user);
    dt__release(ctx, h);
}

dt_status dt_unhook(dt_module *m, uint64_t id)
{
    DT__NEED(dt_module_ctx(m), m);
    if (atomic_load(&m->running) > 0) {
        return dt_fail(m->ctx, DT_ERR_STATE, "unhook: the module is running");
    }
    for (dt__hook **at = &m->hooks; *at != NULL; at = &(*at)->next) {
        if ((*at)->id != id) continue;
        dt__hook *h = *at;
        *at = h->next;
        free_hook(m->ctx, h);
        return DT_OK;
    }
    return dt_fail(m->ctx, DT_ERR_ARG, "unhook: module %s has no hook %llu", m->path,
                   (unsigned long long)id);
}

void dt__hooks_free(dt_module *m)
{
    while (m->hooks != NULL) {
        dt__hook *h = m->hooks;
        m->hooks = h->next;
        free_hook(m->ctx, h);
    }
}

dt_tensor *dt__run_hooks(dt_tape *t, dt_module *m, dt_site site, dt_tensor *x)
{
    for (const dt__hook *h = m->hooks; h != NULL && t->status == DT_OK; h = h->next) {
        if (h->site != site) continue;
        x = h->call(h->user, t, m, x);
        if (x == NULL) {
            dt_tape_fail(t, DT_ERR_STATE, "module %s (%s): a hook returned nothing", m->path,
                         m->type->name);
        }
    }
    return t->status == DT_OK ? x : NULL;
}

dt_tensor *dt_module_weight(dt_tape *t, dt_module *m)
{
    if (t == NULL) return NULL;
    DT__NEED_OP(t, m);
    if (t->status != DT_OK) return NULL;
    const dt__open_module *open = t->open;
    while (open != NULL && open->m != m) open = open->caller;
    if (open == NULL) {
        dt_tape_fail(t, DT_ERR_STATE,
                     "module %s (%s): its weight is read outside of its forward, which would "
                     "skip the hooks of its input; run it by dt_forward",
                     m->path, m->type->name);
        return NULL;
    }
    const dt__entry *e = dt__entry_find(m, "weight");
    if (e != NULL) {
        dt_tensor *w = dt__derived_weight(t, m, e->x);
        return w == NULL ? NULL : dt__run_hooks(t, m, DT_SITE_WEIGHT, w);
    }
    dt_tape_fail(t, DT_ERR_ARG, "module %s (%s) has no parameter 'weight'", m->path, m->type->name);
    return NULL;
}

dt_tensor *dt__module_bias(dt_tape *t, dt_module *m)
{
    const dt__entry *e = dt__entry_find(m, "bias");
    return dt__derived_bias(t, m, e == NULL ? NULL : e->x);
}
