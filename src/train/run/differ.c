/* Compares two recipes key by key, by their tables, to find keys that a resumed run must not
 * change. */
#include "train/recipe/recipe.h"
#include "train/run/run.h"

#include <string.h>

typedef struct comparison {
    dt_recipe *a;
    bool all; /* compare resumable keys too */
} comparison;

static const char *differ_tables(const comparison *c, const char *path, const dt_key *keys,
                                 const char *a, const char *b);

static const char *differ_list(const comparison *c, const char *path, const dt_key *key,
                               const char *a, const char *b)
{
    const int64_t n = *(const int64_t *)(const void *)(a + key->count);
    if (n != *(const int64_t *)(const void *)(b + key->count)) return path;
    for (int64_t i = 0; i < n; i++) {
        const size_t at = key->offset + (size_t)i * key->size;
        const char *item = dt__recipe_format(c->a, "%s.%lld", path, (long long)i);
        const char *found = differ_tables(c, item, key->keys, a + at, b + at);
        if (*found != 0) return found;
    }
    return "";
}

static const char *differ_items(const comparison *c, const char *path, const dt_item_list *a,
                                const dt_item_list *b)
{
    if (a->n != b->n) return path;
    for (int64_t i = 0; i < a->n; i++) {
        const char *item = dt__recipe_format(c->a, "%s.%lld", path, (long long)i);
        if (a->v[i].kind != b->v[i].kind) return item;
        const char *found =
            differ_tables(c, item, a->v[i].kind->keys, a->v[i].options, b->v[i].options);
        if (*found != 0) return found;
    }
    return "";
}

static const char *differ_key(const comparison *c, const char *path, const dt_key *key,
                              const char *a, const char *b)
{
    if (key->resumable && !c->all) return "";
    if (key->given > 0 && *(const bool *)(a + key->given) != *(const bool *)(b + key->given)) {
        return path;
    }
    if (key->type == DT_KEY_LIST) return differ_list(c, path, key, a, b);
    if (key->type == DT_KEY_ITEMS) {
        return differ_items(c, path, (const void *)(a + key->offset),
                            (const void *)(b + key->offset));
    }
    if (key->type == DT_KEY_MAP) {
        return differ_tables(c, path, key->keys, a + key->offset, b + key->offset);
    }
    const char *own = dt__recipe_value(c->a, key, a), *other = dt__recipe_value(c->a, key, b);
    return strcmp(own, other) == 0 ? "" : path;
}

static const char *differ_tables(const comparison *c, const char *path, const dt_key *keys,
                                 const char *a, const char *b)
{
    for (const dt_key *k = keys; k->name != NULL; k++) {
        const char *found = differ_key(c, dt__recipe_join(c->a, path, k->name), k, a, b);
        if (*found != 0) return found;
    }
    return "";
}

const char *dt__recipe_difference(dt_recipe *a, const dt_recipe *b, bool all)
{
    const comparison c = { a, all };
    const dt_model_options *x = &a->options.model, *y = &b->options.model;
    const char *found =
        differ_tables(&c, "", dt_recipe_keys, (const char *)&a->options, (const char *)&b->options);
    if (*found != 0 || x->family != y->family || x->family == NULL) return found;
    return differ_tables(&c, "model", x->family->keys, x->options, y->options);
}

/* ---- resumable keys ------------------------------------------------------------------------ */

static void add_resumable(dt_recipe *r, const dt_key *keys, const char *path, dt_strings *names)
{
    for (const dt_key *k = keys; k->name != NULL && names->n < DT_MAX_LIST; k++) {
        const char *own = dt__recipe_join(r, path, k->name);
        if (k->resumable) names->v[names->n++] = own;
        else if (k->type == DT_KEY_MAP) add_resumable(r, k->keys, own, names);
    }
}

const char *dt__recipe_resumable(dt_recipe *r)
{
    dt_strings names = { 0 };
    const char *all = "";
    add_resumable(r, dt_recipe_keys, "", &names);
    for (int i = 0; i < names.n; i++) {
        const char *before = i == 0 ? "" : i + 1 == names.n ? " and " : ", ";
        all = dt__recipe_format(r, "%s%s%s", all, before, names.v[i]);
    }
    return all;
}
