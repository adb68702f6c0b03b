/* Fills the structs from the tree, by the tables: maps and their defaults, unknown and missing
 * keys. */
#include "train/recipe/fill.h"

#include <string.h>

#define MOST_PARTS 2

static bool reads(const dt_key *key, dt__node_kind kind)
{
    const bool one = key->type == DT_KEY_REALS || key->type == DT_KEY_PAIR;
    const bool list =
        one || key->type == DT_KEY_INTS || key->type == DT_KEY_STRINGS || key->type == DT_KEY_LIST;
    if (kind == DT__MAP) return key->type == DT_KEY_MAP;
    if (kind == DT__SEQUENCE) return list;
    return key->type != DT_KEY_MAP && (!list || one || key->type == DT_KEY_STRINGS);
}

const dt_key *dt__form_of(const dt_key *key, const dt__node *node)
{
    while (key->other_form) key--;
    const dt_key *first = key;
    while (!reads(key, node->kind) && key[1].other_form) key++;
    return reads(key, node->kind) ? key : first;
}

/* For `model`: finds the family, and allocates its options. */
static int add_family(dt_recipe *r, dt__fill_place at, dt__fill_part parts[MOST_PARTS])
{
    const dt__node *name = dt__node_child(at.node, "family", strlen("family"));
    const dt_family *family = name != NULL && name->kind == DT__SCALAR && name->text != NULL
                                  ? dt_family_named(r->ctx, name->text)
                                  : NULL;
    char *options = family == NULL ? NULL : dt__recipe_alloc(r, family->options_size);
    if (options == NULL) return 1;
    r->options.model.family = family;
    r->options.model.options = options;
    parts[1] = (dt__fill_part){ family->keys, options };
    return 2;
}

static void fill_submap(dt_recipe *r, const dt_key *key, dt__fill_place at, char *base)
{
    dt__fill_part parts[MOST_PARTS] = { { key->keys, base + key->offset } };
    const int n = key->keys == dt_model_keys ? add_family(r, at, parts) : 1;
    dt__fill_map(r, at, parts, n);
}

static void fill_value(dt_recipe *r, const dt_key *key, dt__fill_place at, char *base)
{
    if (at.node->bad) return;
    if (key->type == DT_KEY_LIST) {
        dt__fill_list(r, key, at, base);
    } else {
        dt__fill_one(r, key, at, base + key->offset);
    }
}

/* Whether a required key is missing. Recipes that only quantize need neither the blocks of training
 * nor run.dir; if model.init could not be read, keys of `model` are not required. */
static bool is_missed(const dt_recipe *r, dt__fill_place at)
{
    char block[16] = "";
    if (r->init_unread && strncmp(at.path, "model.", strlen("model.")) == 0) return false;
    if (!dt__recipe_reads(r, at.path)) return false;
    if (!r->only_quantizes) return true;
    const size_t n = strcspn(at.path, ".");
    if (n < sizeof block) memcpy(block, at.path, n);
    if (r->needs_data && strcmp(block, "data") == 0) return true;
    return strcmp(at.path, "run.dir") != 0 && dt__node_at(r, block, NULL) != NULL;
}

static void fill_fallback(dt_recipe *r, const dt_key *key, dt__fill_place at, char *base)
{
    if (key->fallback == NULL) return;
    if (strcmp(key->fallback, "!") == 0) {
        if (!is_missed(r, at)) return;
        dt__node where = *at.above;
        r->model_lacks_key |= strncmp(at.path, "model.", strlen("model.")) == 0;
        dt__complain(r, &where, "missing key '%s' (%s)", at.path, key->text);
        return;
    }
    at.node = dt__yaml_parse(r, key->fallback, strlen(key->fallback), DT__FROM_TABLE);
    if (at.node != NULL) fill_value(r, key, at, base);
}

static void fill_key(dt_recipe *r, const dt_key *key, dt__fill_place map, char *base)
{
    dt__fill_place at = { dt__recipe_join(r, map.path, key->name), NULL, map.above };
    at.node = dt__node_child(map.node, key->name, strlen(key->name));
    if (at.node != NULL && dt__form_of(key, at.node) != key) at.node = NULL;
    if (at.node != NULL) at.above = at.node;
    if (key->given > 0) *(bool *)(base + key->given) = at.node != NULL;
    if (key->type == DT_KEY_MAP) {
        const bool wanted = r->only_quantizes && key->keys == dt_quantize_keys;
        if (at.node != NULL || key->given == 0 || wanted) fill_submap(r, key, at, base);
    } else if (at.node != NULL) {
        fill_value(r, key, at, base);
    } else {
        fill_fallback(r, key, at, base);
    }
}

static const char *list_keys(dt_recipe *r, const dt__fill_part *parts, int n_parts)
{
    const char *all = "";
    for (int i = 0; i < n_parts; i++) {
        for (const dt_key *k = parts[i].keys; k->name != NULL; k++) {
            if (k->other_form) continue;
            all = dt__recipe_format(r, "%s%s%s", all, *all == 0 ? "" : ", ", k->name);
        }
    }
    return all;
}

static void refuse_key(dt_recipe *r, dt__fill_place map, dt__node *key, const dt__fill_part *parts,
                       int n_parts)
{
    const dt_key *tables[MOST_PARTS];
    for (int i = 0; i < n_parts; i++) tables[i] = parts[i].keys;
    const char *meant = dt__suggest_key(r, map.path, tables, n_parts, key->text);
    const char *name = dt__recipe_quote_text(r, key->text, key->bytes);
    const char *in = *map.path == 0 ? dt__recipe_format(r, "the %s", r->what)
                                    : dt__recipe_format(r, "'%s'", map.path);
    if (meant != NULL) {
        dt__complain(r, key, "unknown key '%s' in %s (did you mean '%s'?)", name, in, meant);
    } else {
        dt__complain(r, key, "unknown key '%s' in %s (its keys: %s)", name, in,
                     list_keys(r, parts, n_parts));
    }
}

static bool is_known(const dt__node *key, const dt__fill_part *parts, int n_parts)
{
    for (int i = 0; i < n_parts; i++) {
        for (const dt_key *k = parts[i].keys; k->name != NULL; k++) {
            if (strcmp(k->name, key->text) == 0) return true;
        }
    }
    return false;
}

void dt__fill_map(dt_recipe *r, dt__fill_place at, const dt__fill_part *parts, int n_parts)
{
    if (at.node != NULL && at.node->bad) return;
    if (at.node != NULL && at.node->kind != DT__MAP) {
        dt__complain(r, at.node, "'%s' requires a map of keys (%s), not %s", at.path,
                     list_keys(r, parts, n_parts), dt__recipe_quote(r, at.node));
        return;
    }
    for (int i = 0; i < n_parts && !r->out_of_memory; i++) {
        for (const dt_key *k = parts[i].keys; k->name != NULL && !r->out_of_memory; k++) {
            fill_key(r, k, at, parts[i].base);
        }
    }
    const bool any_key =
        parts[0].keys == dt_model_keys && n_parts == 1; /* no family: accept any key */
    const dt__node *child = at.node == NULL || any_key ? NULL : at.node->first;
    for (; child != NULL && !r->out_of_memory; child = child->next) {
        if (!child->key->bad && !is_known(child->key, parts, n_parts)) {
            refuse_key(r, at, child->key, parts, n_parts);
        }
    }
}

static void check_family(dt_recipe *r)
{
    dt__node *node = dt__node_at(r, "model.family", NULL);
    const char *names[DT__MOST_KINDS + 1] = { NULL };
    if (node == NULL || node->bad || r->options.model.family != NULL) return;
    int n = 0;
    for (; dt_family_at(n) != NULL; n++) names[n] = dt_family_at(n)->name;
    const dt__registry *own = &r->ctx->registry[DT__FAMILIES];
    for (int64_t i = 0; i < own->n && n < DT__MOST_KINDS; i++) {
        names[n++] = ((const dt_family *)own->item[i])->name;
    }
    dt__refuse_choice(r, (dt__fill_place){ "model.family", node, node }, names);
}

void dt__recipe_fill_table(dt_recipe *r, const dt_key *keys, void *options)
{
    const dt__fill_part all = { keys, options };
    if (r->root->kind == DT__MAP) {
        dt__fill_map(r, (dt__fill_place){ "", r->root, r->root }, &all, 1);
    } else if (!r->root->bad) {
        dt__complain(r, r->root, "a %s is a map with keys such as `%s:` and `%s:`, not %s", r->what,
                     keys[0].name, keys[1].name, dt__recipe_quote(r, r->root));
    }
}

void dt__recipe_fill(dt_recipe *r)
{
    dt__recipe_fill_table(r, dt_recipe_keys, &r->options);
    r->options.qat.litert = r->options.qat_schedule.target == DT_RUNTIME_LITERT;
    if (r->root->kind == DT__MAP) check_family(r);
}
