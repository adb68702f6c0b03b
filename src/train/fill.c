/* Fills the structs from the tree, by the tables: types, ranges, defaults, unknown and missing
 * keys.
 *
 * The table alone gives a key's type, not the look of its text: `no` is a string for a string key
 * and an error for a bool. */
#include "train/recipe.h"

#include <string.h>

#define MOST_PARTS 2

/* A map may fill two structs: `model` has its own keys and those of the family. */
typedef struct part {
    const dt_key *keys;
    char *base;
} part;

typedef struct place {
    const char *path;
    dt__node *node;  /* NULL: not given */
    dt__node *above; /* nearest node above that is given */
} place;

static void fill_map(dt_recipe *r, place at, const part *parts, int n_parts);

/* ---- numbers and words ----------------------------------------------------------------------- */

static bool is_bounded(const dt_key *key) { return key->least != 0 || key->most != 0; }

/* What a value outside may be; DT_NO_LIMIT is told to those alone who are above it. */
static const char *range_of(dt_recipe *r, const dt_key *key, double value)
{
    char least[32], most[32];
    dt__print_real(key->least, least);
    dt__print_real(key->most, most);
    if (key->most >= DT_NO_LIMIT && value < key->least) {
        return dt__recipe_format(r, "at least %s", least);
    }
    return dt__recipe_format(r, "from %s to %s", least, most);
}

static void check_range(dt_recipe *r, const dt_key *key, place at, double value)
{
    if (at.node->bad || !is_bounded(key) || (value >= key->least && value <= key->most)) return;
    dt__complain(r, at.node, "'%s' must be %s, not %s", at.path, range_of(r, key, value),
                 at.node->text);
}

/* Checks that a node is a scalar without quotes, as numbers and bools must be. */
static bool is_plain(dt_recipe *r, place at, const char *wanted)
{
    if (at.node->kind == DT__SCALAR && at.node->plain && at.node->bytes > 0) return true;
    if (at.node->kind == DT__SCALAR && !at.node->plain) {
        dt__complain(r, at.node, "'%s' wants %s; quotes make a string of %s", at.path, wanted,
                     dt__recipe_quote(r, at.node));
    } else {
        dt__complain(r, at.node, "'%s' wants %s, not %s", at.path, wanted,
                     dt__recipe_quote(r, at.node));
    }
    return false;
}

static void fill_bool(dt_recipe *r, const dt_key *key, place at, void *field)
{
    (void)key;
    const char *wanted = "true or false";
    if (!is_plain(r, at, wanted)) return;
    const bool is_true = strcmp(at.node->text, "true") == 0;
    if (!is_true && strcmp(at.node->text, "false") != 0) {
        dt__complain(r, at.node, "'%s' wants %s, not %s", at.path, wanted,
                     dt__recipe_quote(r, at.node));
    }
    *(bool *)field = is_true;
}

/* Complains about text that is not a number, or a number out of range. */
static bool accept_number(dt_recipe *r, place at, const char *wanted, dt__number found)
{
    if (found == DT__NUMBER) return true;
    dt__complain(r, at.node,
                 found == DT__NO_NUMBER ? "'%s' wants %s, not %s"
                                        : "'%s' wants %s; %s is too large to represent",
                 at.path, wanted, dt__recipe_quote(r, at.node));
    return false;
}

static void fill_int(dt_recipe *r, const dt_key *key, place at, void *field)
{
    const char *wanted = "an integer";
    int64_t *value = field;
    if (!is_plain(r, at, wanted)) return;
    if (!accept_number(r, at, wanted, dt__parse_int(at.node->text, value))) return;
    if (key->multiple > 0 && (*value <= 0 || *value % key->multiple != 0)) {
        dt__complain(r, at.node, "'%s' must be a positive multiple of %d, not %s", at.path,
                     key->multiple, at.node->text);
    }
    check_range(r, key, at, (double)*value);
}

static void fill_real(dt_recipe *r, const dt_key *key, place at, void *field)
{
    const char *wanted = "a number";
    double *value = field;
    if (!is_plain(r, at, wanted)) return;
    if (!accept_number(r, at, wanted, dt__parse_real(at.node->text, value))) return;
    check_range(r, key, at, *value);
}

static void fill_string(dt_recipe *r, const dt_key *key, place at, void *field)
{
    if (at.node->kind != DT__SCALAR) {
        dt__complain(r, at.node, "'%s' wants a string, not %s", at.path,
                     dt__recipe_quote(r, at.node));
    } else if (at.node->bytes == 0 && (at.node->plain || key->type == DT_KEY_PATH)) {
        dt__complain(r, at.node, "'%s' has no value", at.path);
    }
    *(const char **)field = at.node->text;
}

static const char *list_of(dt_recipe *r, const char *const *choices)
{
    const char *all = *choices;
    while (*++choices != NULL) all = dt__recipe_format(r, "%s, %s", all, *choices);
    return all;
}

static void refuse_choice(dt_recipe *r, place at, const char *const *choices)
{
    const char *meant = at.node->kind == DT__SCALAR && at.node->bytes > 0
                            ? dt_nearest(choices, at.node->text)
                            : NULL;
    if (meant != NULL) {
        dt__complain(r, at.node, "'%s' has no choice %s (did you mean '%s'?)", at.path,
                     dt__recipe_quote(r, at.node), meant);
    } else {
        dt__complain(r, at.node, "'%s' wants one of %s, not %s", at.path, list_of(r, choices),
                     dt__recipe_quote(r, at.node));
    }
}

static void fill_choice(dt_recipe *r, const dt_key *key, place at, void *field)
{
    if (at.node->kind == DT__SCALAR) {
        for (int i = 0; key->choices[i] != NULL; i++) {
            if (strcmp(key->choices[i], at.node->text) != 0) continue;
            *(int *)field = i;
            return;
        }
    }
    refuse_choice(r, at, key->choices);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static const char *list_such_as(dt_recipe *r, const dt_key *key)
{
    if (key->type == DT_KEY_LIST) return dt__recipe_format(r, "[{%s: ...}]", key->keys[0].name);
    if (key->type == DT_KEY_ITEMS) return dt__recipe_format(r, "[{%s: ...}]", key->kinds(0)->name);
    return key->type == DT_KEY_INTS    ? "[784, 10]"
           : key->type == DT_KEY_PAIR  ? "[2, 2]"
           : key->type == DT_KEY_REALS ? "[0.5, 0.5, 0.4]"
                                       : "[one, two]";
}

static bool is_list(dt_recipe *r, const dt_key *key, place at, int most)
{
    if (at.node->kind != DT__SEQUENCE) {
        dt__complain(r, at.node, "'%s' wants a list such as %s, not %s", at.path,
                     list_such_as(r, key), dt__recipe_quote(r, at.node));
    } else if (at.node->count > most) {
        dt__complain(r, at.node, "'%s' has %d entries; the most are %d", at.path, at.node->count,
                     most);
    } else if (at.node->count < key->fewest) {
        dt__complain(r, at.node, "'%s' needs at least %d entries, not %d", at.path, key->fewest,
                     at.node->count);
    }
    return !at.node->bad;
}

static place item_of(dt_recipe *r, place at, dt__node *item, int i)
{
    return (place){ dt__recipe_format(r, "%s.%d", at.path, i), item, item };
}

static void fill_ints(dt_recipe *r, const dt_key *key, place at, void *field)
{
    dt_ints *list = field;
    if (!is_list(r, key, at, DT_MAX_LIST)) return;
    for (dt__node *item = at.node->first; item != NULL; item = item->next, list->n++) {
        fill_int(r, key, item_of(r, at, item, list->n), &list->v[list->n]);
        at.node->bad |= item->bad;
    }
}

/* A single number is a list of one element. */
static void fill_reals(dt_recipe *r, const dt_key *key, place at, void *field)
{
    dt_reals *list = field;
    if (at.node->kind == DT__SCALAR) {
        if (key->choices != NULL) {
            int choice = -1;
            fill_choice(r, key, at, &choice);
            list->n = -1 - choice;
            return;
        }
        list->n = 1;
        fill_real(r, key, at, list->v);
        return;
    }
    if (!is_list(r, key, at, DT_MAX_REALS)) return;
    for (dt__node *item = at.node->first; item != NULL; item = item->next, list->n++) {
        fill_real(r, key, item_of(r, at, item, list->n), &list->v[list->n]);
        at.node->bad |= item->bad;
    }
}

/* A single number sets both elements. */
static void fill_pair(dt_recipe *r, const dt_key *key, place at, void *field)
{
    int64_t *pair = field;
    if (at.node->kind == DT__SCALAR) {
        fill_int(r, key, at, &pair[0]);
        pair[1] = pair[0];
        return;
    }
    if (!is_list(r, key, at, 2)) return;
    int n = 0;
    for (dt__node *item = at.node->first; item != NULL; item = item->next, n++) {
        fill_int(r, key, item_of(r, at, item, n), &pair[n]);
        at.node->bad |= item->bad;
    }
    if (n == 2 || at.node->bad) return;
    dt__complain(r, at.node, "'%s' wants two integers, or one for both", at.path);
}

static void fill_strings(dt_recipe *r, const dt_key *key, place at, void *field)
{
    dt_strings *list = field;
    if (at.node->kind == DT__SCALAR) {
        list->n = 1;
        fill_string(r, key, at, list->v);
        return;
    }
    if (!is_list(r, key, at, DT_MAX_LIST)) return;
    for (dt__node *item = at.node->first; item != NULL; item = item->next, list->n++) {
        fill_string(r, key, item_of(r, at, item, list->n), &list->v[list->n]);
        at.node->bad |= item->bad;
    }
}

/* One shape, or a map of named shapes. */
static void fill_shapes(dt_recipe *r, const dt_key *key, place at, void *field)
{
    dt_shapes *shapes = field;
    if (at.node->kind != DT__MAP) {
        shapes->n = 1;
        fill_ints(r, key, at, &shapes->shape[0]);
        return;
    }
    if (at.node->count < 1 || at.node->count > DT_MAX_SHAPES) {
        dt__complain(r, at.node, "'%s' has %d entries; it can have 1 to %d", at.path,
                     at.node->count, DT_MAX_SHAPES);
        return;
    }
    for (dt__node *one = at.node->first; one != NULL; one = one->next, shapes->n++) {
        const place here = { dt__recipe_join(r, at.path, one->key->text), one, one };
        shapes->name[shapes->n] = one->key->text;
        fill_ints(r, key, here, &shapes->shape[shapes->n]);
        at.node->bad |= one->bad;
    }
}

/* ---- items: maps whose first key names their kind -------------------------------------------- */

#define MOST_KINDS 255

static const dt_item_kind *kind_named(const dt_key *key, const char *name)
{
    const dt_item_kind *kind = NULL;
    for (int i = 0; name != NULL && (kind = key->kinds(i)) != NULL; i++) {
        if (strcmp(kind->name, name) == 0) break;
    }
    return name == NULL ? NULL : kind;
}

static void refuse_kind(dt_recipe *r, const dt_key *key, place at, dt__node *name)
{
    const char *names[MOST_KINDS + 1] = { NULL };
    for (int i = 0; i < MOST_KINDS && key->kinds(i) != NULL; i++) names[i] = key->kinds(i)->name;
    const char *quoted = dt__recipe_quote(r, name);
    const char *meant = name->text == NULL ? NULL : dt_nearest(names, name->text);
    if (meant != NULL) {
        dt__complain(r, name, "'%s': there is no %s (did you mean '%s'?)", at.path, quoted, meant);
    } else {
        dt__complain(r, name, "'%s': there is no %s; the first key is one of %s", at.path, quoted,
                     list_of(r, names));
    }
    at.node->bad = true;
}

/* The node as a map, whose first key *name names the kind. */
static dt__node *map_of(dt_recipe *r, place at, dt__node **name)
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

static void fill_item(dt_recipe *r, const dt_key *key, place at, dt_list_item *item, int i)
{
    dt__node *name, *map = map_of(r, at, &name);
    if (name->kind != DT__SCALAR) {
        dt__complain(r, at.node, "'%s' wants a name or a map such as {%s: ...}, not %s", at.path,
                     key->kinds(0)->name, dt__recipe_quote(r, at.node));
        return;
    }
    item->kind = kind_named(key, name->text);
    if (item->kind == NULL) {
        refuse_kind(r, key, at, name);
        return;
    }
    item->options = dt__recipe_alloc(r, item->kind->size);
    if (item->options == NULL) return;
    dt__node *first = map->first;
    const bool nameless = first != NULL && first->kind == DT__SCALAR && first->bytes == 0;
    if (nameless) map->first = first->next;
    const part p = { item->kind->keys, item->options };
    fill_map(r, (place){ at.path, map, at.above }, &p, 1);
    if (nameless) map->first = first;
    set_name(r, item, i);
}

static void fill_items(dt_recipe *r, const dt_key *key, place at, void *field)
{
    dt_item_list *items = field;
    if (!is_list(r, key, at, DT__RECIPE_CHILDREN)) return;
    items->v = dt__recipe_alloc(r, (size_t)at.node->count * sizeof items->v[0]);
    if (items->v == NULL) return;
    for (dt__node *node = at.node->first; node != NULL && !r->out_of_memory; node = node->next) {
        const int i = (int)items->n++;
        fill_item(r, key, item_of(r, at, node, i), &items->v[i], i);
        if (items->v[i].options == NULL) at.node->bad = true;
    }
}

static void fill_list(dt_recipe *r, const dt_key *key, place at, char *base)
{
    int64_t *count = (int64_t *)(void *)(base + key->count);
    if (!is_list(r, key, at, (int)key->most)) return;
    for (dt__node *item = at.node->first; item != NULL; item = item->next, ++*count) {
        const part p = { key->keys, base + key->offset + (size_t)*count * key->size };
        fill_map(r, item_of(r, at, item, (int)*count), &p, 1);
    }
}

/* ---- maps ------------------------------------------------------------------------------------ */

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
static int add_family(dt_recipe *r, place at, part parts[MOST_PARTS])
{
    const dt__node *name = dt__node_child(at.node, "family", strlen("family"));
    const dt_family *family = name != NULL && name->kind == DT__SCALAR && name->text != NULL
                                  ? dt_family_named(r->ctx, name->text)
                                  : NULL;
    char *options = family == NULL ? NULL : dt__recipe_alloc(r, family->options_size);
    if (options == NULL) return 1;
    r->options.model.family = family;
    r->options.model.options = options;
    parts[1] = (part){ family->keys, options };
    return 2;
}

static void fill_submap(dt_recipe *r, const dt_key *key, place at, char *base)
{
    part parts[MOST_PARTS] = { { key->keys, base + key->offset } };
    const int n = key->keys == dt_model_keys ? add_family(r, at, parts) : 1;
    fill_map(r, at, parts, n);
}

static void fill_value(dt_recipe *r, const dt_key *key, place at, char *base)
{
    typedef void filler(dt_recipe *, const dt_key *, place, void *);
    static filler *const fillers[] = {
        [DT_KEY_BOOL] = fill_bool,     [DT_KEY_INT] = fill_int,
        [DT_KEY_REAL] = fill_real,     [DT_KEY_STRING] = fill_string,
        [DT_KEY_PATH] = fill_string,   [DT_KEY_CHOICE] = fill_choice,
        [DT_KEY_INTS] = fill_ints,     [DT_KEY_STRINGS] = fill_strings,
        [DT_KEY_REALS] = fill_reals,   [DT_KEY_PAIR] = fill_pair,
        [DT_KEY_SHAPES] = fill_shapes, [DT_KEY_ITEMS] = fill_items,
    };
    if (at.node->bad) return;
    if (key->type == DT_KEY_LIST) {
        fill_list(r, key, at, base);
    } else {
        fillers[key->type](r, key, at, base + key->offset);
    }
}

/* Whether a required key is missing. Recipes that only quantize need neither the blocks of training
 * nor run.dir; if model.init could not be read, keys of `model` are not required. */
static bool is_missed(const dt_recipe *r, place at)
{
    char block[16] = "";
    if (r->init_unread && strncmp(at.path, "model.", strlen("model.")) == 0) return false;
    if (!r->only_quantizes) return true;
    const size_t n = strcspn(at.path, ".");
    if (n < sizeof block) memcpy(block, at.path, n);
    if (r->needs_data && strcmp(block, "data") == 0) return true;
    return strcmp(at.path, "run.dir") != 0 && dt__node_at(r, block, NULL) != NULL;
}

static void fill_fallback(dt_recipe *r, const dt_key *key, place at, char *base)
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

static void fill_key(dt_recipe *r, const dt_key *key, place map, char *base)
{
    place at = { dt__recipe_join(r, map.path, key->name), NULL, map.above };
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

static const char *list_keys(dt_recipe *r, const part *parts, int n_parts)
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

static void refuse_key(dt_recipe *r, place map, dt__node *key, const part *parts, int n_parts)
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

static bool is_known(const dt__node *key, const part *parts, int n_parts)
{
    for (int i = 0; i < n_parts; i++) {
        for (const dt_key *k = parts[i].keys; k->name != NULL; k++) {
            if (strcmp(k->name, key->text) == 0) return true;
        }
    }
    return false;
}

static void fill_map(dt_recipe *r, place at, const part *parts, int n_parts)
{
    if (at.node != NULL && at.node->bad) return;
    if (at.node != NULL && at.node->kind != DT__MAP) {
        dt__complain(r, at.node, "'%s' wants a map of keys (%s), not %s", at.path,
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

/* ---- recipe ---------------------------------------------------------------------------------- */

static void check_family(dt_recipe *r)
{
    dt__node *node = dt__node_at(r, "model.family", NULL);
    const char *names[MOST_KINDS + 1] = { NULL };
    if (node == NULL || node->bad || r->options.model.family != NULL) return;
    int n = 0;
    for (; dt_family_at(n) != NULL; n++) names[n] = dt_family_at(n)->name;
    const dt__registry *own = &r->ctx->registry[DT__FAMILIES];
    for (int64_t i = 0; i < own->n && n < MOST_KINDS; i++) {
        names[n++] = ((const dt_family *)own->item[i])->name;
    }
    refuse_choice(r, (place){ "model.family", node, node }, names);
}

void dt__recipe_fill_table(dt_recipe *r, const dt_key *keys, void *options)
{
    const part all = { keys, options };
    if (r->root->kind == DT__MAP) {
        fill_map(r, (place){ "", r->root, r->root }, &all, 1);
    } else if (!r->root->bad) {
        dt__complain(r, r->root, "a %s is a map with keys such as `%s:` and `%s:`, not %s", r->what,
                     keys[0].name, keys[1].name, dt__recipe_quote(r, r->root));
    }
}

void dt__recipe_fill(dt_recipe *r)
{
    dt__recipe_fill_table(r, dt_recipe_keys, &r->options);
    if (r->root->kind == DT__MAP) check_family(r);
}
