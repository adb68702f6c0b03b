/* Values of one key, by its type: numbers, words and lists of them. The table alone gives the type,
 * not the look of the text: `no` is a string for a string key and an error for a bool. */
#include "train/recipe/fill.h"

#include <string.h>

/* ---- numbers and words ----------------------------------------------------------------------- */

static bool is_bounded(const dt_key *key) { return key->least != 0 || key->most != 0; }

/* The allowed range, as text; DT_NO_LIMIT is mentioned only if the value is above it. */
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

static void check_range(dt_recipe *r, const dt_key *key, dt__fill_place at, double value)
{
    if (at.node->bad || !is_bounded(key) || (value >= key->least && value <= key->most)) return;
    dt__complain(r, at.node, "'%s' must be %s, not %s", at.path, range_of(r, key, value),
                 at.node->text);
}

/* Checks that a node is a scalar without quotes, as numbers and bools must be. */
static bool is_plain(dt_recipe *r, dt__fill_place at, const char *wanted)
{
    if (at.node->kind == DT__SCALAR && at.node->plain && at.node->bytes > 0) return true;
    if (at.node->kind == DT__SCALAR && !at.node->plain) {
        dt__complain(r, at.node, "'%s' requires %s; quotes make a string of %s", at.path, wanted,
                     dt__recipe_quote(r, at.node));
    } else {
        dt__complain(r, at.node, "'%s' requires %s, not %s", at.path, wanted,
                     dt__recipe_quote(r, at.node));
    }
    return false;
}

static void fill_bool(dt_recipe *r, const dt_key *key, dt__fill_place at, void *field)
{
    (void)key;
    const char *wanted = "true or false";
    if (!is_plain(r, at, wanted)) return;
    const bool is_true = strcmp(at.node->text, "true") == 0;
    if (!is_true && strcmp(at.node->text, "false") != 0) {
        dt__complain(r, at.node, "'%s' requires %s, not %s", at.path, wanted,
                     dt__recipe_quote(r, at.node));
    }
    *(bool *)field = is_true;
}

/* Complains about text that is not a number, or a number out of range. */
static bool accept_number(dt_recipe *r, dt__fill_place at, const char *wanted, dt__number found)
{
    if (found == DT__NUMBER) return true;
    dt__complain(r, at.node,
                 found == DT__NO_NUMBER ? "'%s' requires %s, not %s"
                                        : "'%s' requires %s; %s is too large to represent",
                 at.path, wanted, dt__recipe_quote(r, at.node));
    return false;
}

static void fill_int(dt_recipe *r, const dt_key *key, dt__fill_place at, void *field)
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

static void fill_real(dt_recipe *r, const dt_key *key, dt__fill_place at, void *field)
{
    const char *wanted = "a number";
    double *value = field;
    if (!is_plain(r, at, wanted)) return;
    if (!accept_number(r, at, wanted, dt__parse_real(at.node->text, value))) return;
    check_range(r, key, at, *value);
}

static void fill_string(dt_recipe *r, const dt_key *key, dt__fill_place at, void *field)
{
    if (at.node->kind != DT__SCALAR) {
        dt__complain(r, at.node, "'%s' requires a string, not %s", at.path,
                     dt__recipe_quote(r, at.node));
    } else if (at.node->bytes == 0 && (at.node->plain || key->type == DT_KEY_PATH)) {
        dt__complain(r, at.node, "'%s' has no value", at.path);
    }
    *(const char **)field = at.node->text;
}

const char *dt__choice_list(dt_recipe *r, const char *const *choices)
{
    const char *all = *choices;
    while (*++choices != NULL) all = dt__recipe_format(r, "%s, %s", all, *choices);
    return all;
}

void dt__refuse_choice(dt_recipe *r, dt__fill_place at, const char *const *choices)
{
    const char *meant = at.node->kind == DT__SCALAR && at.node->bytes > 0
                            ? dt_nearest(choices, at.node->text)
                            : NULL;
    if (meant != NULL) {
        dt__complain(r, at.node, "'%s' has no choice %s (did you mean '%s'?)", at.path,
                     dt__recipe_quote(r, at.node), meant);
    } else {
        dt__complain(r, at.node, "'%s' requires one of %s, not %s", at.path,
                     dt__choice_list(r, choices), dt__recipe_quote(r, at.node));
    }
}

static void fill_choice(dt_recipe *r, const dt_key *key, dt__fill_place at, void *field)
{
    if (at.node->kind == DT__SCALAR) {
        for (int i = 0; key->choices[i] != NULL; i++) {
            if (strcmp(key->choices[i], at.node->text) != 0) continue;
            *(int *)field = i;
            return;
        }
    }
    dt__refuse_choice(r, at, key->choices);
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

bool dt__is_list(dt_recipe *r, const dt_key *key, dt__fill_place at, int most)
{
    if (at.node->kind != DT__SEQUENCE) {
        dt__complain(r, at.node, "'%s' requires a list such as %s, not %s", at.path,
                     list_such_as(r, key), dt__recipe_quote(r, at.node));
    } else if (at.node->count > most) {
        dt__complain(r, at.node, "'%s' has %d entries; the most are %d", at.path, at.node->count,
                     most);
    } else if (at.node->count < key->fewest) {
        dt__complain(r, at.node, "'%s' needs at least %d %s, not %d", at.path, key->fewest,
                     key->fewest == 1 ? "entry" : "entries", at.node->count);
    }
    return !at.node->bad;
}

dt__fill_place dt__item_of(dt_recipe *r, dt__fill_place at, dt__node *item, int i)
{
    return (dt__fill_place){ dt__recipe_format(r, "%s.%d", at.path, i), item, item };
}

typedef void filler(dt_recipe *r, const dt_key *key, dt__fill_place at, void *field);

/* Entries of `size` bytes, each by `fill`; at most `most` of them. */
static void fill_each(dt_recipe *r, const dt_key *key, dt__fill_place at, filler *fill, int most,
                      int *n, void *to, size_t size)
{
    if (!dt__is_list(r, key, at, most)) return;
    for (dt__node *item = at.node->first; item != NULL; item = item->next, ++*n) {
        fill(r, key, dt__item_of(r, at, item, *n), (char *)to + (size_t)*n * size);
        at.node->bad |= item->bad;
    }
}

static void fill_ints(dt_recipe *r, const dt_key *key, dt__fill_place at, void *field)
{
    dt_ints *list = field;
    fill_each(r, key, at, fill_int, DT_MAX_LIST, &list->n, list->v, sizeof list->v[0]);
}

/* A single number is a list of one element. */
static void fill_reals(dt_recipe *r, const dt_key *key, dt__fill_place at, void *field)
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
    fill_each(r, key, at, fill_real, DT_MAX_REALS, &list->n, list->v, sizeof list->v[0]);
}

/* A single number sets both elements. */
static void fill_pair(dt_recipe *r, const dt_key *key, dt__fill_place at, void *field)
{
    int64_t *pair = field;
    if (at.node->kind == DT__SCALAR) {
        fill_int(r, key, at, &pair[0]);
        pair[1] = pair[0];
        return;
    }
    int n = 0;
    fill_each(r, key, at, fill_int, 2, &n, pair, sizeof *pair);
    if (n == 2 || at.node->bad) return;
    dt__complain(r, at.node, "'%s' requires two integers, or one for both", at.path);
}

static void fill_strings(dt_recipe *r, const dt_key *key, dt__fill_place at, void *field)
{
    dt_strings *list = field;
    if (at.node->kind == DT__SCALAR) {
        list->n = 1;
        fill_string(r, key, at, list->v);
        return;
    }
    fill_each(r, key, at, fill_string, DT_MAX_LIST, &list->n, list->v, sizeof list->v[0]);
}

/* One shape, or a map of named shapes. */
static void fill_shapes(dt_recipe *r, const dt_key *key, dt__fill_place at, void *field)
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
        const dt__fill_place here = { dt__recipe_join(r, at.path, one->key->text), one, one };
        shapes->name[shapes->n] = one->key->text;
        fill_ints(r, key, here, &shapes->shape[shapes->n]);
        at.node->bad |= one->bad;
    }
}

/* ---- all types ------------------------------------------------------------------------------- */

void dt__fill_one(dt_recipe *r, const dt_key *key, dt__fill_place at, void *field)
{
    static filler *const fillers[] = {
        [DT_KEY_BOOL] = fill_bool,     [DT_KEY_INT] = fill_int,
        [DT_KEY_REAL] = fill_real,     [DT_KEY_STRING] = fill_string,
        [DT_KEY_PATH] = fill_string,   [DT_KEY_CHOICE] = fill_choice,
        [DT_KEY_INTS] = fill_ints,     [DT_KEY_STRINGS] = fill_strings,
        [DT_KEY_REALS] = fill_reals,   [DT_KEY_PAIR] = fill_pair,
        [DT_KEY_SHAPES] = fill_shapes, [DT_KEY_ITEMS] = dt__fill_items,
    };
    fillers[key->type](r, key, at, field);
}
