/* run.plugins: loads the plugins of a recipe before its keys are read, since they add names of
 * kinds, losses and others. Afterwards the list has all plugins of the context with the hashes of
 * their files, so that a saved recipe identifies the files. */
#include "train/recipe/recipe.h"

#include <detent/experimental/plugin.h>
#include <string.h>

#define KEY "run.plugins"

static dt_status load(dt_recipe *r, dt__node *item)
{
    if (item->kind != DT__SCALAR) return DT_OK; /* the table of keys reports it */
    const dt_status s = dt_plugin_load(r->ctx, item->text);
    if (s == DT_OK || s == DT_ERR_NOMEM) return s;
    dt__complain(r, item, "'" KEY "': %s", dt_error(r->ctx));
    return DT_OK;
}

/* Replaces the list by one with hashes. */
static dt_status put_list(dt_recipe *r)
{
    const dt_plugin_info *p = NULL;
    dt__node *list = dt__node_create(r, DT__SEQUENCE, r->root->origin), **last = NULL;
    if (list == NULL) return DT_OK;
    last = &list->first;
    for (int64_t i = 0; (p = dt_plugin_at(r->ctx, i)) != NULL; i++, list->count++) {
        const char *text = dt__recipe_format(r, "%s@xxh3:%s", p->path, p->hash);
        dt__node *item = dt__node_create(r, DT__SCALAR, r->root->origin);
        if (item == NULL) return DT_OK;
        item->text = text;
        item->bytes = strlen(text);
        *last = item;
        last = &item->next;
    }
    dt__recipe_graft(r, &(dt__graft){ KEY, r->root, list });
    return DT_OK;
}

dt_status dt__recipe_take_plugins(dt_recipe *r)
{
    dt__node *list = dt__node_at(r, KEY, NULL);
    const bool is_list = list != NULL && list->kind == DT__SEQUENCE;
    for (dt__node *item = is_list ? list->first : NULL; item != NULL; item = item->next) {
        DT__TRY(load(r, item));
    }
    const bool any = dt_plugin_at(r->ctx, 0) != NULL;
    return r->n_complaints > 0 || !any || (list != NULL && !is_list) ? DT_OK : put_list(r);
}
