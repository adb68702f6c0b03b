/* Renamed keys and choices: replaces old names in recipes and overrides by the new ones, with a
 * warning that names them. */
#include "train/recipe/recipe.h"

#include <string.h>

static const dt_key *find_in(const dt_key *keys, const char *name, size_t bytes)
{
    for (const dt_key *k = keys; k != NULL && k->name != NULL; k++) {
        const char *const names[] = { k->name, k->was };
        for (int i = 0; i < 2 && names[i] != NULL; i++) {
            if (strlen(names[i]) == bytes && memcmp(names[i], name, bytes) == 0) return k;
        }
    }
    return NULL;
}

/* The key with this new or old name. `model` also has the keys of its family. */
static const dt_key *find(const dt_recipe *r, const dt_key *keys, const char *name, size_t bytes)
{
    const dt_key *key = find_in(keys, name, bytes);
    if (key != NULL || keys != dt_model_keys) return key;
    const dt__node *node = dt__node_at(r, "model.family", NULL);
    const dt_family *family = node == NULL || node->kind != DT__SCALAR || node->text == NULL
                                  ? NULL
                                  : dt_family_named(r->ctx, node->text);
    return family == NULL ? NULL : find_in(family->keys, name, bytes);
}

static void rename_map(dt_recipe *r, dt__node *map, const dt_key *keys, const char *path);

static void rename_choice(dt_recipe *r, dt__node *node, const dt_key *key, const char *path)
{
    if (node->kind != DT__SCALAR || node->text == NULL) return;
    const char *now = dt__choice_now(key, node->text);
    if (now == node->text) return;
    dt__remark(r, node, "'%s': %s is now called %s", path, node->text, now);
    node->text = now;
    node->bytes = strlen(now);
}

/* The table for an element of a list of maps; NULL: unknown. */
static const dt_key *keys_of(const dt_recipe *r, const dt_key *key, const dt__node *item)
{
    if (item->kind != DT__MAP || key->type == DT_KEY_LIST) return key->keys;
    const char *name = item->first == NULL ? NULL : item->first->key->text;
    const dt_item_kind *kind = name == NULL ? NULL : dt__item_kind_named(r->ctx, key, name);
    return kind == NULL ? NULL : kind->keys;
}

static void rename_value(dt_recipe *r, dt__node *node, const dt_key *key, const char *path)
{
    if (key->type == DT_KEY_CHOICE) rename_choice(r, node, key, path);
    if (key->type == DT_KEY_MAP && node->kind == DT__MAP) rename_map(r, node, key->keys, path);
    const bool is_list = key->type == DT_KEY_LIST || key->type == DT_KEY_ITEMS;
    if (!is_list || node->kind != DT__SEQUENCE) return;
    int i = 0;
    for (dt__node *item = node->first; item != NULL; item = item->next, i++) {
        const dt_key *keys = keys_of(r, key, item);
        if (item->kind != DT__MAP || keys == NULL) continue;
        rename_map(r, item, keys, dt__recipe_format(r, "%s.%d", path, i));
    }
}

static void rename_key(dt_recipe *r, const dt__node *map, dt__node *name, const dt_key *key,
                       const char *path)
{
    const char *old = dt__recipe_join(r, path, key->was);
    if (dt__node_child(map, key->name, strlen(key->name)) != NULL) {
        dt__complain(r, name, "'%s' is now called '%s', which is given as well", old, key->name);
        return;
    }
    dt__remark(r, name, "'%s' is now called '%s'", old, key->name);
    name->text = key->name;
    name->bytes = strlen(key->name);
}

static void rename_map(dt_recipe *r, dt__node *map, const dt_key *keys, const char *path)
{
    for (dt__node *child = map->first; child != NULL && !r->out_of_memory; child = child->next) {
        dt__node *name = child->key;
        if (name->bad) continue;
        const dt_key *key = find(r, keys, name->text, name->bytes);
        if (key == NULL) continue;
        if (strcmp(name->text, key->name) != 0) rename_key(r, map, name, key, path);
        rename_value(r, child, key, dt__recipe_join(r, path, key->name));
    }
}

void dt__recipe_rename(dt_recipe *r)
{
    if (r->root->kind == DT__MAP) rename_map(r, r->root, dt_recipe_keys, "");
}

const char *dt__recipe_path_now(dt_recipe *r, const char *path)
{
    const dt_key *keys = dt_recipe_keys;
    const char *now = "";
    bool is_index = false, changed = false;
    for (const char *part = path;; part++) {
        const size_t n = strcspn(part, ".");
        const dt_key *key = is_index ? NULL : find(r, keys, part, n);
        const char *name = key != NULL ? key->name : dt__recipe_copy(r, part, n);
        if (name == NULL) return path;
        changed |= key != NULL && (strlen(name) != n || memcmp(name, part, n) != 0);
        now = dt__recipe_format(r, "%s%s%s", now, part == path ? "" : ".", name);
        if (!is_index) keys = key == NULL ? NULL : key->keys;
        is_index = key != NULL && (key->type == DT_KEY_LIST || key->type == DT_KEY_ITEMS);
        part += n;
        if (*part == 0) break;
    }
    if (!changed) return path;
    const dt__node place = { .origin = DT__FROM_COMMAND_LINE };
    dt__remark(r, &place, "'%s' is now called '%s'", path, now);
    return now;
}
