/* Lists of maps: those whose first key names their kind (layers of a model), and of one kind. */
#include "train/recipe/fill.h"

static void refuse_kind(dt_recipe *r, const dt_key *key, dt__fill_place at, dt__node *name)
{
    const char *names[DT__MOST_KINDS + 1] = { NULL };
    for (int i = 0; i < DT__MOST_KINDS && key->kinds(i) != NULL; i++)
        names[i] = key->kinds(i)->name;
    const char *quoted = dt__recipe_quote(r, name);
    const char *meant = name->text == NULL ? NULL : dt_nearest(names, name->text);
    if (meant != NULL) {
        dt__complain(r, name, "'%s': there is no %s (did you mean '%s'?)" DT__PLUGIN_ADDS, at.path,
                     quoted, meant);
    } else {
        dt__complain(r, name, "'%s': there is no %s; the first key is one of %s" DT__PLUGIN_ADDS,
                     at.path, quoted, dt__choice_list(r, names));
    }
    at.node->bad = true;
}

/* The node as a map, whose first key *name names the kind. */
static dt__node *map_of(dt_recipe *r, dt__fill_place at, dt__node **name)
{
    dt__node *node = at.node;
    *name = node;
    if (node->kind == DT__MAP && node->first != NULL) *name = node->first->key;
    if (node->kind == DT__MAP || node->kind == DT__SEQUENCE) return node;
    dt__node *map = dt__node_create(r, DT__MAP, node->origin);
    if (map == NULL) return node;
    map->line = node->line;
    map->column = node->column;
    return map;
}

/* The name of an item that has none: its kind and place. */
static void set_name(dt_recipe *r, const dt_list_item *item, int i)
{
    const dt_key *first = &item->kind->keys[0];
    const char **name = (const char **)(void *)((char *)item->options + first->offset);
    if (first->type != DT_KEY_STRING || *name != NULL) return;
    *name = dt__recipe_format(r, "%s_%d", item->kind->name, i);
}

static void fill_item(dt_recipe *r, const dt_key *key, dt__fill_place at, dt_list_item *item, int i)
{
    dt__node *name, *map = map_of(r, at, &name);
    if (name->kind != DT__SCALAR) {
        dt__complain(r, at.node, "'%s' requires a name or a map such as {%s: ...}, not %s", at.path,
                     key->kinds(0)->name, dt__recipe_quote(r, at.node));
        return;
    }
    item->kind = name->text == NULL ? NULL : dt__item_kind_named(r->ctx, key, name->text);
    if (item->kind == NULL) {
        refuse_kind(r, key, at, name);
        return;
    }
    item->options = dt__recipe_alloc(r, item->kind->size);
    if (item->options == NULL) return;
    dt__node *first = map->first;
    const bool nameless = first != NULL && first->kind == DT__SCALAR && first->bytes == 0;
    if (nameless) map->first = first->next;
    const dt__fill_part p = { item->kind->keys, item->options };
    dt__fill_map(r, (dt__fill_place){ at.path, map, at.above }, &p, 1);
    if (nameless) map->first = first;
    set_name(r, item, i);
}

void dt__fill_items(dt_recipe *r, const dt_key *key, dt__fill_place at, void *field)
{
    dt_item_list *items = field;
    if (!dt__is_list(r, key, at, DT__RECIPE_CHILDREN)) return;
    items->v = dt__recipe_alloc(r, (size_t)at.node->count * sizeof items->v[0]);
    if (items->v == NULL) return;
    for (dt__node *node = at.node->first; node != NULL && !r->out_of_memory; node = node->next) {
        const int i = (int)items->n++;
        fill_item(r, key, dt__item_of(r, at, node, i), &items->v[i], i);
        if (items->v[i].options == NULL) at.node->bad = true;
    }
}

void dt__fill_list(dt_recipe *r, const dt_key *key, dt__fill_place at, char *base)
{
    int64_t *count = (int64_t *)(void *)(base + key->count);
    if (!dt__is_list(r, key, at, (int)key->most)) return;
    for (dt__node *item = at.node->first; item != NULL; item = item->next, ++*count) {
        const dt__fill_part p = { key->keys, base + key->offset + (size_t)*count * key->size };
        dt__fill_map(r, dt__item_of(r, at, item, (int)*count), &p, 1);
    }
}
