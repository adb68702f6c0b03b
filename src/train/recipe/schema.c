/* Output generated from the tables: JSON schema (draft 2020-12) for editors, and docs/recipe.md. */
#include "train/out.h"

#include <detent/experimental/layers.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- JSON schema -------------------------------------------------------------------------- */

static void write_key(dt__out *o, const dt_key *key);

static void write_properties(dt__out *o, const dt_key *keys)
{
    dt__out_open(o, "properties", '{');
    for (const dt_key *k = keys; k->name != NULL; k++) {
        if (!k->other_form) write_key(o, k);
    }
    dt__out_close(o, '}');
}

static bool is_required(const dt_key *key)
{
    return key->fallback != NULL && strcmp(key->fallback, "!") == 0;
}

/* Whether a key is required: by itself, or because a key below it is. */
static bool needs_value(const dt_key *key)
{
    if (key->type != DT_KEY_MAP) return is_required(key);
    for (const dt_key *k = key->keys; key->given == 0 && k->name != NULL; k++) {
        if (needs_value(k)) return true;
    }
    return false;
}

static void write_required(dt__out *o, const dt_key *keys)
{
    bool any = false;
    for (const dt_key *k = keys; k->name != NULL; k++) any |= needs_value(k);
    if (!any) return;
    dt__out_open(o, "required", '[');
    for (const dt_key *k = keys; k->name != NULL; k++) {
        if (needs_value(k)) dt__out_field(o, NULL, k->name);
    }
    dt__out_close(o, ']');
}

static void write_object(dt__out *o, const dt_key *keys, const char *closed_by)
{
    dt__out_field(o, "type", "object");
    write_properties(o, keys);
    write_required(o, keys);
    dt__out_name(o, closed_by);
    dt__out_text(o, "false");
}

/* The keys of `model` depend on the family: one alternative each. */
static void write_families(dt__out *o)
{
    dt__out_open(o, "oneOf", '[');
    const dt_family *family;
    for (int i = 0; (family = dt_family_at(i)) != NULL; i++) {
        dt__out_open(o, NULL, '{');
        dt__out_field(o, "description", family->text);
        dt__out_open(o, "properties", '{');
        dt__out_open(o, "family", '{');
        dt__out_field(o, "const", family->name);
        dt__out_close(o, '}');
        for (const dt_key *k = family->keys; k->name != NULL; k++) write_key(o, k);
        dt__out_close(o, '}');
        write_required(o, family->keys);
        dt__out_close(o, '}');
    }
    dt__out_close(o, ']');
}

static void write_bounds(dt__out *o, const dt_key *key)
{
    if (key->least == 0 && key->most == 0) return;
    if (key->least > -DT_NO_LIMIT) {
        dt__out_name(o, "minimum");
        dt__out_real(o, key->least);
    }
    if (key->most < DT_NO_LIMIT) {
        dt__out_name(o, "maximum");
        dt__out_real(o, key->most);
    }
}

static void write_number(dt__out *o, const dt_key *key)
{
    dt__out_field(o, "type", key->type == DT_KEY_REAL ? "number" : "integer");
    write_bounds(o, key);
    if (key->multiple == 0) return;
    dt__out_name(o, "multipleOf");
    dt__out_int(o, key->multiple);
}

static void write_choices(dt__out *o, const dt_key *key)
{
    dt__out_open(o, "enum", '[');
    for (int i = 0; key->choices[i] != NULL; i++) dt__out_field(o, NULL, key->choices[i]);
    dt__out_close(o, ']');
}

static void write_array(dt__out *o, const dt_key *key)
{
    dt__out_field(o, "type", "array");
    const int fewest = key->type == DT_KEY_PAIR ? 2 : key->fewest;
    if (fewest > 0) {
        dt__out_name(o, "minItems");
        dt__out_int(o, fewest);
    }
    dt__out_name(o, "maxItems");
    dt__out_int(o, key->type == DT_KEY_LIST    ? (int64_t)key->most
                   : key->type == DT_KEY_PAIR  ? 2
                   : key->type == DT_KEY_REALS ? DT_MAX_REALS
                                               : DT_MAX_LIST);
    dt__out_open(o, "items", '{');
    if (key->type == DT_KEY_LIST) {
        write_object(o, key->keys, "additionalProperties");
    } else if (key->type != DT_KEY_STRINGS) {
        write_number(o, key);
    } else {
        dt__out_field(o, "type", "string");
    }
    dt__out_close(o, '}');
}

/* A single number, string or choice, or a list with one number or string for each. */
static void write_one_or_all(dt__out *o, const dt_key *key)
{
    dt__out_open(o, "anyOf", '[');
    dt__out_open(o, NULL, '{');
    if (key->choices != NULL) write_choices(o, key);
    else if (key->type == DT_KEY_STRINGS) dt__out_field(o, "type", "string");
    else write_number(o, key);
    dt__out_close(o, '}');
    dt__out_open(o, NULL, '{');
    write_array(o, key);
    dt__out_close(o, '}');
    dt__out_close(o, ']');
}

/* A shape, or a map of shapes. */
static void write_one_or_map(dt__out *o, const dt_key *key)
{
    dt__out_open(o, "anyOf", '[');
    dt__out_open(o, NULL, '{');
    write_array(o, key);
    dt__out_close(o, '}');
    dt__out_open(o, NULL, '{');
    dt__out_field(o, "type", "object");
    dt__out_open(o, "additionalProperties", '{');
    write_array(o, key);
    dt__out_close(o, '}');
    dt__out_close(o, '}');
    dt__out_close(o, ']');
}

/* The list refers to a definition, since layers can hold such lists themselves; maps of one kind
 * alone are written here. */
static void write_items(dt__out *o, const dt_key *key)
{
    dt__out_field(o, "type", "array");
    if (key->fewest > 0) {
        dt__out_name(o, "minItems");
        dt__out_int(o, key->fewest);
    }
    dt__out_open(o, "items", '{');
    if (key->kinds == dt_layer_kind_at) dt__out_field(o, "$ref", "#/$defs/layer");
    else write_object(o, key->kinds(0)->keys, "additionalProperties");
    dt__out_close(o, '}');
}

/* One alternative for each kind of layer: its name alone, or a map. */
static void write_layers(dt__out *o)
{
    const dt_item_kind *kind;
    dt__out_open(o, "$defs", '{');
    dt__out_open(o, "layer", '{');
    dt__out_open(o, "anyOf", '[');
    dt__out_open(o, NULL, '{');
    dt__out_open(o, "enum", '[');
    for (int i = 0; (kind = dt_layer_kind_at(i)) != NULL; i++) dt__out_field(o, NULL, kind->name);
    dt__out_close(o, ']');
    dt__out_close(o, '}');
    for (int i = 0; (kind = dt_layer_kind_at(i)) != NULL; i++) {
        dt__out_open(o, NULL, '{');
        dt__out_field(o, "description", kind->text);
        dt__out_field(o, "type", "object");
        write_properties(o, kind->keys);
        dt__out_open(o, "required", '[');
        dt__out_field(o, NULL, kind->name);
        for (const dt_key *k = kind->keys + 1; k->name != NULL; k++) {
            if (needs_value(k)) dt__out_field(o, NULL, k->name);
        }
        dt__out_close(o, ']');
        dt__out_name(o, "additionalProperties");
        dt__out_text(o, "false");
        dt__out_close(o, '}');
    }
    dt__out_close(o, ']');
    dt__out_close(o, '}');
    dt__out_close(o, '}');
}

static void write_type(dt__out *o, const dt_key *key)
{
    switch (key->type) {
    case DT_KEY_BOOL: dt__out_field(o, "type", "boolean"); break;
    case DT_KEY_INT:
    case DT_KEY_REAL: write_number(o, key); break;
    case DT_KEY_STRING:
    case DT_KEY_PATH: dt__out_field(o, "type", "string"); break;
    case DT_KEY_CHOICE: write_choices(o, key); break;
    case DT_KEY_PAIR:
    case DT_KEY_STRINGS:
    case DT_KEY_REALS: write_one_or_all(o, key); break;
    case DT_KEY_SHAPES: write_one_or_map(o, key); break;
    case DT_KEY_ITEMS: write_items(o, key); break;
    case DT_KEY_MAP:
        if (key->keys != dt_model_keys) {
            write_object(o, key->keys, "additionalProperties");
        } else {
            write_object(o, key->keys, "unevaluatedProperties");
            write_families(o);
        }
        break;
    default: write_array(o, key); break;
    }
}

static void write_default(dt__out *o, const dt_key *key)
{
    const bool quoted =
        key->type == DT_KEY_STRING || key->type == DT_KEY_PATH || key->choices != NULL;
    if (key->fallback == NULL || is_required(key)) return;
    dt__out_name(o, "default");
    (quoted ? dt__out_json : dt__out_text)(o, key->fallback);
}

/* The type, or the types of all forms. */
static void write_forms(dt__out *o, const dt_key *key)
{
    if (!key[1].other_form) {
        write_type(o, key);
        return;
    }
    dt__out_open(o, "anyOf", '[');
    for (const dt_key *k = key; k == key || k->other_form; k++) {
        dt__out_open(o, NULL, '{');
        write_type(o, k);
        dt__out_close(o, '}');
    }
    dt__out_close(o, ']');
}

static void write_named(dt__out *o, const dt_key *key, const char *name)
{
    dt__out_open(o, name, '{');
    dt__out_field(o, "description", key->text);
    if (name == key->was) {
        dt__out_name(o, "deprecated");
        dt__out_text(o, "true");
    }
    write_forms(o, key);
    write_default(o, key);
    dt__out_close(o, '}');
}

static void write_key(dt__out *o, const dt_key *key)
{
    write_named(o, key, key->name);
    if (key->was != NULL) write_named(o, key, key->was);
}

/* A recipe trains, or it only quantizes. */
static void write_uses(dt__out *o)
{
    dt__out_open(o, "anyOf", '[');
    dt__out_open(o, NULL, '{');
    write_required(o, dt_recipe_keys);
    dt__out_close(o, '}');
    dt__out_open(o, NULL, '{');
    dt__out_open(o, "required", '[');
    dt__out_field(o, NULL, "quantize");
    dt__out_close(o, ']');
    dt__out_close(o, '}');
    dt__out_close(o, ']');
}

dt_status dt_recipe_schema(dt_ctx *ctx, dt_sink sink, void *user)
{
    DT__NEED(ctx, sink);
    (void)ctx;
    dt__out o = { .sink = sink, .user = user };
    dt__out_open(&o, NULL, '{');
    dt__out_field(&o, "$schema", "https://json-schema.org/draft/2020-12/schema");
    dt__out_field(&o, "title", "detent recipe");
    dt__out_field(&o, "type", "object");
    write_layers(&o);
    write_properties(&o, dt_recipe_keys);
    write_uses(&o);
    dt__out_name(&o, "additionalProperties");
    dt__out_text(&o, "false");
    dt__out_close(&o, '}');
    return o.status;
}

/* ---- the page ----------------------------------------------------------------------------- */

static const char introduction[] =
    "# Keys of a recipe\n\n"
    "A recipe is one YAML file that holds a whole experiment. `detent config keys` prints this "
    "page.\n\n"
    "- `detent config validate RECIPE` reports every error at once, with line and column. It opens "
    "the\n"
    "  data and builds the model; `--leave-files` does not.\n"
    "- `detent config show RECIPE [key=value ...]` prints the recipe with all defaults, and where\n"
    "  each value comes from. `~key` removes a key; `qat.rules.0.skip=true` reaches into a list.\n"
    "- `detent config schema` prints a JSON schema, by which editors complete and check.\n"
    "- `no` is a string where a string is expected: only `true` and `false` are booleans. Numbers "
    "are\n"
    "  decimal: `64`, `3e-4`.\n"
    "- Duplicate keys, aliases, anchors, tags, merge keys and second documents are errors, and so "
    "are\n"
    "  files above 1 MiB or nested above 64 deep.\n"
    "- `detent train RUN --resume key=value` may change keys that are marked (resumable).\n"
    "- Relative paths are relative to the working directory.\n"
    "- In parentheses: what the key takes, then its default, or *required*; of a bool the "
    "default.\n"
    "  A range alone, as 1…9, is of integers. *strings* and *numbers* are one or a list.\n";

static bool has_least(const dt_key *key) { return key->least > -fmin(FLT_MAX, DT_NO_LIMIT); }

static bool has_most(const dt_key *key) { return key->most < fmin(FLT_MAX, DT_NO_LIMIT); }

static bool has_range(const dt_key *key)
{
    return (key->least != 0 || key->most != 0) && (has_least(key) || has_most(key));
}

/* "1…9"; an end without a limit is left out. */
static void write_range(dt__out *o, const dt_key *key)
{
    if (has_least(key)) dt__out_real(o, key->least);
    dt__out_text(o, "…");
    if (has_most(key)) dt__out_real(o, key->most);
    if (key->multiple > 0) dt__out_format(o, ", multiple of %d", key->multiple);
}

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Whether the page describes both keys in the same way. */
static bool is_same(const dt_key *a, const dt_key *b)
{
    return is_same_text(a->name, b->name) && a->type == b->type && a->least == b->least &&
           a->most == b->most && a->multiple == b->multiple && a->choices == b->choices &&
           is_same_text(a->fallback, b->fallback) && is_same_text(a->text, b->text) &&
           a->resumable == b->resumable && a->fewest == b->fewest && a->kinds == b->kinds;
}

/* Long lists of choices are printed once. */
static bool has_same_choices(const dt_key *a, const dt_key *b)
{
    int n = 0;
    while (b->choices != NULL && b->choices[n] != NULL) n++;
    return n > 5 && a->choices == b->choices;
}

/* Finds the first key below `keys` for which as(that key, key) is true; other forms of keys are
 * skipped. Appends its place to `path`. Returns it, or NULL. */
static const dt_key *find_key(const dt_key *keys, const dt_key *key,
                              bool (*as)(const dt_key *a, const dt_key *b), char path[160])
{
    const size_t n = strlen(path);
    const dt_key *found = NULL;
    for (const dt_key *k = keys; k->name != NULL && found == NULL; k++) {
        if (k->other_form) continue;
        snprintf(path + n, 160 - n, "%s%s", n > 0 ? "." : "", k->name);
        if (as(k, key)) {
            found = k;
        } else if (k->keys != NULL) {
            if (k->type == DT_KEY_LIST) strncat(path, ".N", 159 - strlen(path));
            found = find_key(k->keys, key, as, path);
        }
    }
    if (found == NULL) path[n] = 0;
    return found;
}

static void write_words(dt__out *o, const dt_key *key)
{
    static const char *const words[] = {
        [DT_KEY_BOOL] = "bool",
        [DT_KEY_INT] = "integer",
        [DT_KEY_REAL] = "number",
        [DT_KEY_STRING] = "string",
        [DT_KEY_PATH] = "path",
        [DT_KEY_CHOICE] = "",
        [DT_KEY_INTS] = "integers",
        [DT_KEY_STRINGS] = "strings",
        [DT_KEY_REALS] = "numbers",
        [DT_KEY_PAIR] = "one or two integers",
        [DT_KEY_SHAPES] = "shape or map of shapes",
        [DT_KEY_ITEMS] = "list of layers",
        [DT_KEY_LIST] = "list of maps",
    };
    if (key->choices == dt_activation_names) {
        dt__out_text(o, "[activation](#activations)");
        return;
    }
    char path[160] = "";
    const dt_key *first = find_key(dt_recipe_keys, key, has_same_choices, path);
    const bool elsewhere = first != NULL && first != key;
    if (elsewhere) dt__out_format(o, "as `%s`", path);
    for (int i = 0; !elsewhere && key->choices != NULL && key->choices[i] != NULL; i++) {
        dt__out_format(o, "%s`%s`", i > 0 ? ", " : "", key->choices[i]);
    }
    const bool is_list = key->type == DT_KEY_LIST || key->type == DT_KEY_ITEMS;
    const bool range = has_range(key) && key->type != DT_KEY_CHOICE && !is_list;
    const bool layers = key->type != DT_KEY_ITEMS || key->kinds == dt_layer_kind_at;
    const bool alone = range && key->type == DT_KEY_INT;
    if (key->choices != NULL && key->type == DT_KEY_REALS) dt__out_text(o, ", list of numbers");
    if (key->choices == NULL && !alone) dt__out_text(o, words[layers ? key->type : DT_KEY_LIST]);
    if (range && !alone) dt__out_text(o, " ");
    if (range) write_range(o, key);
}

/* Appends to `path` the first place of a table below `keys`, as "qat.rules.N.weight";
 * `other_forms`: also in other forms of keys (`model.pack` as a map). */
static bool find_table(const dt_key *keys, const dt_key *table, bool other_forms, char path[160])
{
    const size_t n = strlen(path);
    for (const dt_key *k = keys; k->name != NULL; k++) {
        if (k->keys == NULL || (k->other_form && !other_forms)) continue;
        snprintf(path + n, 160 - n, "%s%s%s", n > 0 ? "." : "", k->name,
                 k->type == DT_KEY_LIST ? ".N" : "");
        if (k->keys == table || find_table(k->keys, table, other_forms, path)) return true;
    }
    path[n] = 0;
    return false;
}

/* The place that describes a table of keys: the first one that is not another form of a key, else
 * the first. Empty for a table outside of blocks, such as that of a family. */
static void find_home(const dt_key *table, char path[160])
{
    path[0] = 0;
    if (!find_table(dt_recipe_keys, table, false, path)) {
        find_table(dt_recipe_keys, table, true, path);
    }
}

/* Writes "type; required", "type; default" or "type"; for a bool with a default only the default.
 * */
static void write_takes(dt__out *o, const dt_key *k)
{
    const bool given = k->fallback != NULL && *k->fallback != 0 && !is_required(k);
    if (k->type == DT_KEY_BOOL && given) {
        dt__out_format(o, "`%s`", k->fallback);
        return;
    }
    write_words(o, k);
    if (is_required(k)) dt__out_text(o, "; required");
    else if (given) dt__out_format(o, "; `%s`", k->fallback);
}

/* Whether an earlier place has the same key; `home` is then that place, "qat.weight". */
static bool is_elsewhere(const dt_key *k, char home[160])
{
    home[0] = 0;
    if (k->keys != NULL) return false;
    const dt_key *first = find_key(dt_recipe_keys, k, is_same, home);
    if (first == NULL || first == k) return false;
    *strrchr(home, '.') = 0;
    return true;
}

/* Writes one line for `k` and the keys behind it that one earlier place has, too. Returns their
 * number, perhaps 0. */
static int write_references(dt__out *o, const dt_key *k, const char *prefix, bool resumable)
{
    char home[160], next[160];
    int n = 0;
    if (!is_elsewhere(k, home)) return 0;
    do {
        dt__out_format(o, "%s`%s%s`", n > 0 ? ", " : "- ", prefix, k[n].name);
        n++;
    } while (k[n].name != NULL && k[n].resumable == k->resumable && is_elsewhere(&k[n], next) &&
             strcmp(home, next) == 0);
    const char *also = resumable && !k->resumable ? " (resumable)" : "";
    dt__out_format(o, ": as of [`%s`](#%.*s)%s\n", home, (int)strcspn(home, "."), home, also);
    return n;
}

static void write_line(dt__out *o, const dt_key *k, const char *path, bool resumable)
{
    dt__out_format(o, "- `%s` (", path);
    write_takes(o, k);
    dt__out_text(o, "): ");
    dt__out_text(o, k->text);
    if (k->was != NULL) dt__out_format(o, " (was `%s`)", k->was);
    if (resumable || k->resumable) dt__out_text(o, " (resumable)");
    dt__out_text(o, "\n");
}

static void write_lines(dt__out *o, const dt_key *keys, const char *block, const char *prefix,
                        bool resumable);

/* A line for a key, and those of the keys below it: "optimizer.lr", of lists of maps
 * "rules.N.match". A table of keys in several places is described in one of them, and the others
 * refer to it. `resumable`: a key above is resumable. */
static void write_entry(dt__out *o, const dt_key *k, const char *block, const char *prefix,
                        bool resumable)
{
    char path[96], whole[160], home[160] = "";
    const bool is_list = k->type == DT_KEY_LIST;
    snprintf(path, sizeof path, "%s%s%s", prefix, k->name, is_list ? ".N" : "");
    snprintf(whole, sizeof whole, "%s.%s", block, path);
    if (k->keys != NULL) find_home(k->keys, home);
    if (home[0] != 0 && strcmp(home, whole) != 0) {
        dt__out_format(o, "- `%s`: keys of [`%s`](#%.*s): %s\n", path, home,
                       (int)strcspn(home, "."), home, k->text);
        return;
    }
    snprintf(path, sizeof path, "%s%s", prefix, k->name);
    if (k->type != DT_KEY_MAP) write_line(o, k, path, resumable);
    const bool items = k->type == DT_KEY_ITEMS && k->kinds != dt_layer_kind_at;
    if (k->keys == NULL && !items) return;
    snprintf(path, sizeof path, "%s%s%s", prefix, k->name, is_list || items ? ".N." : ".");
    write_lines(o, items ? k->kinds(0)->keys : k->keys, block, path, resumable || k->resumable);
}

static void write_lines(dt__out *o, const dt_key *keys, const char *block, const char *prefix,
                        bool resumable)
{
    for (const dt_key *k = keys; k->name != NULL;) {
        const int n = write_references(o, k, prefix, resumable);
        if (n == 0) write_entry(o, k, block, prefix, resumable);
        k += n > 0 ? n : 1;
    }
}

/* `family`: of which the keys are, or NULL. */
static void write_title(dt__out *o, const dt_key *block, const char *family, const char *text)
{
    dt__out_format(o, "\n## `%s`", block->name);
    if (family != NULL) dt__out_format(o, " of family `%s`", family);
    const char first = *text;
    dt__out_format(o, "\n\n%c", first >= 'a' && first <= 'z' ? first - 'a' + 'A' : first);
    dt__out_text(o, text + 1);
    dt__out_text(o, ".\n\n");
}

/* The family before number `at` that has the same key, or NULL. */
static const char *earlier_family(int at, const dt_key *key)
{
    for (int i = 0; i < at; i++) {
        const dt_family *family = dt_family_at(i);
        for (const dt_key *k = family->keys; k->name != NULL; k++) {
            if (k->keys == NULL && is_same(k, key)) return family->name;
        }
    }
    return NULL;
}

/* The keys of a family. Those that an earlier family has refer to that family. */
static void write_family(dt__out *o, const dt_key *block, int at)
{
    const dt_family *family = dt_family_at(at);
    write_title(o, block, family->name, family->text);
    for (const dt_key *k = family->keys; k->name != NULL; k++) {
        if (earlier_family(at, k) == NULL) write_entry(o, k, block->name, "", false);
    }
    for (int i = 0; i < at; i++) {
        bool any = false;
        for (const dt_key *k = family->keys; k->name != NULL; k++) {
            const char *name = earlier_family(at, k);
            if (name == NULL || strcmp(name, dt_family_at(i)->name) != 0) continue;
            dt__out_format(o, "%s`%s`", any ? ", " : "- ", k->name);
            any = true;
        }
        if (any) dt__out_format(o, ": as of family `%s`\n", dt_family_at(i)->name);
    }
}

static void write_activations(dt__out *o)
{
    dt__out_text(o, "\n## Activations\n\n");
    for (int i = 0; dt_activation_names[i] != NULL; i++) {
        dt__out_format(o, "%s`%s`", i > 0 ? ", " : "", dt_activation_names[i]);
    }
    dt__out_text(o, ".\n");
}

static bool has_name(const dt_key *a, const dt_key *b) { return strcmp(a->name, b->name) == 0; }

/* Whether both keys are the same, except that one takes a number (signals) and the other two
 * (images). */
static bool is_same_of_images(const dt_key *a, const dt_key *b)
{
    dt_key x = *a, y = *b;
    if (x.type == DT_KEY_PAIR) x.type = DT_KEY_INT;
    if (y.type == DT_KEY_PAIR) y.type = DT_KEY_INT;
    return is_same(&x, &y);
}

static bool has_key(const dt_item_kind *kind, const dt_key *key,
                    bool (*as)(const dt_key *a, const dt_key *b))
{
    const dt_key *k = kind->keys + 1;
    while (k->name != NULL && !as(k, key)) k++;
    return k->name != NULL;
}

/* Whether another kind of layer has a different key of this name. *images: whether the key of a
 * kind of images takes two numbers, where that of signals takes one. */
static bool is_ambiguous(const dt_key *key, bool *images)
{
    bool another = false;
    const dt_item_kind *kind;
    *images = false;
    for (int i = 0; (kind = dt_layer_kind_at(i)) != NULL; i++) {
        if (!has_key(kind, key, has_name)) continue;
        if (!has_key(kind, key, is_same_of_images)) another = true;
        else if (!has_key(kind, key, is_same)) *images = true;
    }
    return another;
}

/* Writes a line for a key of kind `at`, unless an earlier kind has the same key. The line names all
 * kinds with this key if other kinds have a different key of this name. `from` is described in
 * front of the list. */
static void write_layer_key(dt__out *o, int at, const dt_key *key)
{
    bool images;
    const dt_item_kind *kind;
    if (strcmp(key->name, "from") == 0) return;
    for (int i = 0; i < at; i++) {
        if (has_key(dt_layer_kind_at(i), key, is_same_of_images)) return;
    }
    dt__out_format(o, "- `%s`", key->name);
    const char *between = " of";
    for (int i = at; is_ambiguous(key, &images) && (kind = dt_layer_kind_at(i)) != NULL; i++) {
        if (!has_key(kind, key, is_same_of_images)) continue;
        dt__out_format(o, "%s `%s`", between, kind->name);
        between = ",";
    }
    dt__out_text(o, " (");
    write_takes(o, key);
    dt__out_format(o, "%s): %s\n", images ? "; of images also two" : "", key->text);
}

static bool is_activation(const char *kind)
{
    int i = 0;
    while (dt_activation_names[i] != NULL && strcmp(dt_activation_names[i], kind) != 0) i++;
    return dt_activation_names[i] != NULL;
}

/* Whether the page says the same of both kinds: their texts and the names of their keys. */
static bool is_same_kind(const dt_item_kind *a, const dt_item_kind *b)
{
    const dt_key *x = a->keys + 1, *y = b->keys + 1;
    while (x->name != NULL && y->name != NULL && has_name(x, y)) x++, y++;
    return x->name == NULL && y->name == NULL && strcmp(a->text, b->text) == 0;
}

/* Every kind of layer with the names of its keys, then each key once. */
static void write_kinds(dt__out *o)
{
    const dt_item_kind *kind;
    dt__out_text(o, "\n## Layers of `model.layers`\n\n"
                    "A layer is a map whose first key is its kind and whose value is the layer's "
                    "name:\n`{linear: head, out: 10}` ([networks.md](networks.md)). `from` names "
                    "the layers or inputs that it\nreads; without it, it reads the layer before. "
                    "Kinds are the [activations](#activations)\nand these, each with its other "
                    "keys:\n\n");
    for (int i = 0; (kind = dt_layer_kind_at(i)) != NULL; i++) {
        if (is_activation(kind->name)) continue;
        const dt_item_kind *next = dt_layer_kind_at(i + 1);
        const bool joined = next != NULL && is_same_kind(kind, next);
        dt__out_format(o, "- **`%s`**", kind->name);
        if (joined) dt__out_format(o, ", **`%s`**", next->name);
        dt__out_format(o, ": %s", kind->text);
        const char *between = ". ";
        for (const dt_key *k = kind->keys + 1; k->name != NULL; k++) {
            if (strcmp(k->name, "from") == 0) continue;
            dt__out_format(o, "%s`%s`", between, k->name);
            between = ", ";
        }
        dt__out_text(o, "\n");
        if (joined) i++;
    }
    dt__out_text(o, "\n### Keys of layers\n\n");
    for (int i = 0; (kind = dt_layer_kind_at(i)) != NULL; i++) {
        for (const dt_key *k = kind->keys + 1; k->name != NULL; k++) write_layer_key(o, i, k);
    }
}

dt_status dt_recipe_markdown(dt_ctx *ctx, dt_sink sink, void *user)
{
    DT__NEED(ctx, sink);
    (void)ctx;
    dt__out o = { .sink = sink, .user = user };
    dt__out_text(&o, introduction);
    for (const dt_key *k = dt_recipe_keys; k->name != NULL; k++) {
        write_title(&o, k, NULL, k->text);
        write_lines(&o, k->keys, k->name, "", false);
        if (k->keys != dt_model_keys) continue;
        for (int i = 0; dt_family_at(i) != NULL; i++) write_family(&o, k, i);
        write_activations(&o);
        write_kinds(&o);
    }
    return o.status;
}
