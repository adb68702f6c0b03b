/* Applies `path=value` and `~path` of the command line to the parsed tree.
 *
 * Dots separate the parts of a path; a number is an index into a list. Missing parents are created;
 * unknown keys are found later, when the structs are filled. */
#include "train/recipe/recipe.h"

#include <string.h>

typedef struct path {
    const char *text; /* what remains */
    size_t bytes;     /* of its first part */
} path;

static path first_part(const char *text) { return (path){ text, strcspn(text, ".") }; }

static bool is_index(path p, int64_t *index)
{
    *index = 0;
    for (size_t i = 0; i < p.bytes; i++) {
        if (p.text[i] < '0' || p.text[i] > '9' || *index > DT__RECIPE_CHILDREN) return false;
        *index = *index * 10 + (p.text[i] - '0');
    }
    return p.bytes > 0;
}

/* `where`: gives origin and position of the error. */
static void refuse(dt_recipe *r, const char *text, const dt__node *where, const char *why)
{
    dt__node place = { .origin = where->origin, .line = where->line, .column = where->column };
    dt__complain(r, &place, "'%s': %s", dt__recipe_quote_text(r, text, strlen(text)), why);
}

static const dt__node command_line = { .origin = DT__FROM_COMMAND_LINE, .line = 1, .column = 1 };

static dt__node *create(dt_recipe *r, dt__node_kind kind, const dt__node *where)
{
    dt__node *node = dt__node_create(r, kind, where->origin);
    if (node == NULL) return NULL;
    node->line = where->line;
    node->column = where->column;
    return node;
}

/* Removes a child from its parent. */
static void detach(dt__node *parent, const dt__node *child)
{
    dt__node **place = &parent->first;
    while (*place != child) place = &(*place)->next;
    *place = child->next;
    parent->count--;
}

/* Replaces `old` by `value`; appends it if `old` is NULL. */
static void put(dt__node *parent, dt__node *old, dt__node *value)
{
    if (old == NULL) {
        dt__node_append(parent, value);
        return;
    }
    dt__node **place = &parent->first;
    while (*place != old) place = &(*place)->next;
    value->next = old->next;
    *place = value;
}

static dt__node *create_key(dt_recipe *r, path p, const dt__node *where)
{
    dt__node *key = create(r, DT__SCALAR, where);
    if (key == NULL) return NULL;
    key->bytes = p.bytes;
    key->text = dt__recipe_copy(r, p.text, p.bytes);
    return key;
}

/* The child that `p` names; sets *why if `node` cannot have one. */
static dt__node *step(const dt__node *node, path p, const char **why)
{
    int64_t index;
    if (p.bytes == 0) *why = "a name is missing between the dots";
    if (node->kind == DT__MAP) return dt__node_child(node, p.text, p.bytes);
    if (node->kind == DT__SCALAR) {
        *why = "there is a single value on the way, with no keys below it";
    } else if (!is_index(p, &index) || index > node->count) {
        *why = "a list on the way needs the number of an item, counted from 0, or the next one";
    } else {
        return dt__node_item(node, index);
    }
    return NULL;
}

/* Creates a list if the rest of the path begins with a number, else a map. */
static dt__node *create_parent(dt_recipe *r, const char *rest, const dt__node *where)
{
    int64_t index;
    const bool is_item = is_index(first_part(rest), &index);
    return create(r, is_item ? DT__SEQUENCE : DT__MAP, where);
}

/* `text`: what messages quote. */
static void set(dt_recipe *r, const char *text, const char *full_path, const dt__node *where,
                dt__node *value)
{
    dt__node *node = r->root;
    const char *why = NULL, *rest = full_path;
    while (!r->out_of_memory) {
        const path p = first_part(rest);
        dt__node *child = step(node, p, &why);
        if (why != NULL) {
            refuse(r, text, where, why);
            return;
        }
        rest += p.bytes;
        const bool last = *rest == 0;
        rest += !last;
        if (last || child == NULL) {
            dt__node *made = last ? value : create_parent(r, rest, where);
            if (made == NULL) return;
            made->key = child != NULL ? child->key : create_key(r, p, where);
            put(node, child, made);
            child = made;
        }
        if (last) return;
        node = child;
    }
}

static void remove_key(dt_recipe *r, const char *text)
{
    dt__node *node = r->root;
    const char *rest = dt__recipe_path_now(r, text + 1), *why = NULL;
    for (;;) {
        const path p = first_part(rest);
        dt__node *child = step(node, p, &why);
        if (why == NULL && child == NULL) why = "the recipe has no such key";
        if (why != NULL) {
            refuse(r, text, &command_line, why);
            return;
        }
        rest += p.bytes;
        if (*rest == 0) {
            detach(node, child);
            return;
        }
        rest++;
        node = child;
    }
}

void dt__recipe_override(dt_recipe *r, const char *text)
{
    if (r->root->kind != DT__MAP || r->out_of_memory) return;
    if (*text == '~') {
        remove_key(r, text);
        return;
    }
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        refuse(r, text, &command_line, "expected path=value, or ~path to remove a key");
        return;
    }
    const int before = r->n_complaints;
    r->parsing = dt__recipe_quote_text(r, text, strlen(text));
    dt__node *value = dt__yaml_parse(r, equals + 1, strlen(equals + 1), DT__FROM_COMMAND_LINE);
    r->parsing = NULL;
    if (value == NULL || r->n_complaints > before) return;
    const char *full_path = dt__recipe_copy(r, text, (size_t)(equals - text));
    if (full_path != NULL) {
        set(r, text, dt__recipe_path_now(r, full_path), &command_line, value);
    }
}

/* A copy of a tree, as it was before anything was found wrong with it. */
static dt__node *copy_tree(dt_recipe *r, const dt__node *from)
{
    dt__node *node = create(r, from->kind, from);
    if (node == NULL) return NULL;
    node->plain = from->plain;
    node->bytes = from->bytes;
    node->text = dt__recipe_copy(r, from->text, from->bytes);
    for (const dt__node *child = from->first; child != NULL; child = child->next) {
        dt__node *made = copy_tree(r, child);
        if (made == NULL) return NULL;
        if (child->key != NULL) made->key = copy_tree(r, child->key);
        dt__node_append(node, made);
    }
    return node;
}

void dt__recipe_graft(dt_recipe *r, const dt__graft *graft)
{
    if (r->root->kind != DT__MAP || r->out_of_memory) return;
    dt__node *value = copy_tree(r, graft->value);
    const char *text = dt__recipe_copy(r, graft->path, strlen(graft->path));
    if (value != NULL && text != NULL) {
        set(r, text, dt__recipe_path_now(r, text), graft->key, value);
    }
}
