/* Reads the values of a resolved recipe by their paths. dt_recipe_show wrote the recipe, so a line
 * is `key: value  # origin`, indented by two more blanks below a map, or an item `- ...` of a
 * list. */
#include "report/page_run.h"

#include <stdio.h>
#include <string.h>

#define DEPTH 16

typedef struct level {
    size_t indent;
    size_t length; /* of the path up to this level */
    int items;     /* number of a list's items so far */
} level;

typedef struct parsing {
    dt__page_run *run;
    char path[160];
    level level[DEPTH];
    int depth;
} parsing;

static void append(parsing *p, size_t at, const char *name, size_t n)
{
    const size_t room = sizeof p->path - 1;
    if (at > 0 && at < room) p->path[at++] = '.';
    if (at > room) at = room;
    if (n > room - at) n = room - at;
    memcpy(p->path + at, name, n);
    p->path[at + n] = 0;
}

/* The end of a value: the blanks before its comment, outside of quotes. */
static size_t value_length(const char *value, size_t n)
{
    bool quoted = false;
    size_t end = 0;
    while (end < n && (quoted || value[end] != '#' || end == 0 || value[end - 1] != ' ')) {
        if (value[end] == '"') quoted = !quoted;
        end += quoted && value[end] == '\\' && end + 1 < n ? 2 : 1;
    }
    while (end > 0 && value[end - 1] == ' ') end--;
    return end;
}

static dt_status add_key(parsing *p, char *value, size_t n)
{
    dt__page_run *r = p->run;
    DT__TRY(DT__RESERVE(r->ctx, r->key, r->n_keys, r->room_keys));
    dt__page_key *k = &r->key[r->n_keys++];
    snprintf(k->path, sizeof k->path, "%s", p->path);
    value[value_length(value, n)] = 0;
    k->value = value;
    return DT_OK;
}

/* Closes levels with at least this indentation. */
static void climb(parsing *p, size_t indent)
{
    while (p->depth > 0 && p->level[p->depth - 1].indent >= indent) p->depth--;
}

static size_t parent_length(const parsing *p)
{
    return p->depth == 0 ? 0 : p->level[p->depth - 1].length;
}

static void descend(parsing *p, size_t indent)
{
    if (p->depth < DEPTH) p->level[p->depth++] = (level){ indent, strlen(p->path), 0 };
}

/* `- ` begins an item: opens a level named by the item's number. */
static void begin_item(parsing *p, size_t indent)
{
    char number[16];
    climb(p, indent);
    const int item = p->depth == 0 ? 0 : p->level[p->depth - 1].items++;
    snprintf(number, sizeof number, "%d", item);
    append(p, parent_length(p), number, strlen(number));
    descend(p, indent);
}

static dt_status read_line(parsing *p, char *line, size_t n)
{
    size_t indent = 0;
    while (indent < n && line[indent] == ' ') indent++;
    if (indent == n || line[indent] == '#') return DT_OK;
    if (n - indent > 2 && line[indent] == '-' && line[indent + 1] == ' ') {
        begin_item(p, indent);
        indent += 2;
    }
    char *colon = memchr(line + indent, ':', n - indent);
    if (colon == NULL) return DT_OK;
    climb(p, indent);
    append(p, parent_length(p), line + indent, (size_t)(colon - line) - indent);
    char *value = colon + 1;
    while (value < line + n && *value == ' ') value++;
    if (value == line + n || *value == '#') {
        descend(p, indent);
        return DT_OK;
    }
    return add_key(p, value, (size_t)(line + n - value));
}

dt_status dt__page_read_recipe(dt__page_run *r)
{
    parsing p = { .run = r };
    r->values = dt__copy_string(r->ctx, r->recipe);
    if (r->values == NULL) return DT_ERR_NOMEM;
    for (char *line = r->values, *next; *line != 0; line = next) {
        const size_t n = strcspn(line, "\n");
        next = line + n + (line[n] != 0);
        DT__TRY(read_line(&p, line, n));
    }
    return DT_OK;
}

const char *dt__page_key_of(const dt__page_run *r, const char *path)
{
    for (int64_t i = 0; i < r->n_keys; i++) {
        if (strcmp(r->key[i].path, path) == 0) return r->key[i].value;
    }
    return "";
}

bool dt__page_key_differs(const dt__page_run *runs, int n, const char *path)
{
    const char *first = dt__page_key_of(&runs[0], path);
    if (strcmp(path, "run.dir") == 0) return false;
    for (int i = 1; i < n; i++) {
        if (strcmp(first, dt__page_key_of(&runs[i], path)) != 0) return true;
    }
    return false;
}

bool dt__page_key_is_new(const dt__page_run *runs, int i, const char *path)
{
    for (int k = 0; k < i; k++) {
        if (*dt__page_key_of(&runs[k], path) != 0) return false;
    }
    return true;
}
