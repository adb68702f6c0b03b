/* Keys that a command reads. Other keys of the file are removed before checks, so that a run can be
 * evaluated on other data for which its training keys are invalid. Keys on the command line are
 * kept, and checked as usual. */
#include "train/recipe/recipe.h"

#include <string.h>

bool dt__path_lies_in(const char *path, const char *key)
{
    const size_t n = strlen(key);
    return strncmp(path, key, n) == 0 && (path[n] == 0 || path[n] == '.');
}

/* Whether `key` is `path` or below it. */
static bool holds(const char *path, const char *key) { return dt__path_lies_in(key, path); }

/* The longest matching row decides; a row "!data.augment" means not read. */
bool dt__recipe_reads(const dt_recipe *r, const char *path)
{
    size_t longest = 0;
    bool reads = r->reads == NULL;
    for (const char *const *row = r->reads; row != NULL && *row != NULL; row++) {
        const char *key = *row + (**row == '!');
        if (strlen(key) < longest || !dt__path_lies_in(path, key)) continue;
        longest = strlen(key);
        reads = **row != '!';
    }
    return reads;
}

static bool reads_part(const dt_recipe *r, const char *path)
{
    for (const char *const *row = r->reads; *row != NULL; row++) {
        if (**row != '!' && holds(path, *row)) return true;
    }
    return false;
}

/* Whether a value is kept: of the file, if it is read; of the command line, always. */
static bool stays(dt_recipe *r, const char *path, dt__node *node);

static void leave_out(dt_recipe *r, const char *path, dt__node *map)
{
    for (dt__node **place = &map->first; *place != NULL;) {
        const dt__node *child = *place;
        const char *below =
            map->kind == DT__MAP ? dt__recipe_join(r, path, child->key->text) : path;
        if (stays(r, below, *place)) {
            place = &(*place)->next;
        } else {
            *place = child->next;
            map->count--;
        }
    }
}

static bool is_typed(const dt__node *node)
{
    if (node->kind == DT__SCALAR) return node->origin == DT__FROM_COMMAND_LINE;
    const dt__node *child = node->first;
    while (child != NULL && !is_typed(child)) child = child->next;
    return child != NULL || node->origin == DT__FROM_COMMAND_LINE;
}

static bool stays(dt_recipe *r, const char *path, dt__node *node)
{
    const bool reads = dt__recipe_reads(r, path);
    if (node->kind != DT__MAP) return reads || is_typed(node);
    if (!reads && !reads_part(r, path) && !is_typed(node)) return false;
    leave_out(r, path, node);
    return reads || node->first != NULL || is_typed(node);
}

static int choice_of(const char *name, const dt__node *node)
{
    const dt_key *key = dt_data_keys;
    while (key->name != NULL && strcmp(key->name, name) != 0) key++;
    if (key->name == NULL || node == NULL || node->kind != DT__SCALAR) return -1;
    for (int i = 0; key->choices[i] != NULL; i++) {
        if (strcmp(key->choices[i], node->text) == 0) return i;
    }
    return -1;
}

static void drop(dt_recipe *r, const char *path)
{
    dt__node *map, *node = dt__node_at(r, path, NULL);
    const char *dot = strrchr(path, '.');
    if (node == NULL || is_typed(node)) return;
    map = dt__node_at(r, dt__recipe_format(r, "%.*s", (int)(dot - path), path), NULL);
    if (map == NULL || map->kind != DT__MAP) return;
    dt__node **place = &map->first;
    while (*place != node) place = &(*place)->next;
    *place = node->next;
    map->count--;
}

/* If the command line changes the data format, the file's data names, and its keys for the old
 * format, are removed. */
static void change_format(dt_recipe *r)
{
    static const char *const files[] = { "data.train", "data.validation", "data.test" };
    const dt__node *node = dt__node_at(r, "data.format", NULL);
    if (node == NULL || node->origin != DT__FROM_COMMAND_LINE || r->file_format == NULL) return;
    const int format = choice_of("format", node);
    if (format < 0 || strcmp(r->file_format, node->text) == 0) return;
    for (int i = 0; i < DT__COUNT_OF(files); i++) drop(r, files[i]);
    const char *path;
    for (int i = 0; (path = dt__recipe_limited_by_format(i, format)) != NULL; i++) {
        if (*path != 0) drop(r, path);
    }
}

void dt__recipe_leave_out(dt_recipe *r)
{
    if (r->reads == NULL || r->root->kind != DT__MAP) return;
    leave_out(r, "", r->root);
    change_format(r);
}
