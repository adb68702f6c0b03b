/* Parses YAML into a tree of nodes with line and column, from libyaml's events.
 *
 * Recipes use maps, lists and scalars, in block or flow style. YAML that can be read in two ways
 * (duplicate keys, aliases, tags, merge keys, several documents) is refused. */
#include "core/text/byte_mark.h"
#include "train/recipe/recipe.h"

#include <string.h>
#include <yaml.h>

typedef struct reader {
    dt_recipe *r;
    yaml_parser_t parser;
    dt__origin origin;
    bool stopped; /* after an error that ends parsing */
} reader;

/* ---- nodes -------------------------------------------------------------------------------- */

dt__node *dt__node_create(dt_recipe *r, dt__node_kind kind, dt__origin origin)
{
    dt__node *node = dt__recipe_alloc(r, sizeof *node);
    if (node == NULL) return NULL;
    *node = (dt__node){ .kind = kind, .origin = origin, .line = 1, .column = 1, .text = "" };
    return node;
}

void dt__node_append(dt__node *parent, dt__node *child)
{
    dt__node **place = &parent->first;
    while (*place != NULL) place = &(*place)->next;
    *place = child;
    parent->count++;
}

dt__node *dt__node_child(const dt__node *map, const char *name, size_t bytes)
{
    if (map == NULL || map->kind != DT__MAP) return NULL;
    dt__node *child = map->first;
    while (child != NULL &&
           (child->key->bytes != bytes || memcmp(child->key->text, name, bytes) != 0)) {
        child = child->next;
    }
    return child;
}

dt__node *dt__node_item(const dt__node *sequence, int64_t i)
{
    if (sequence == NULL || sequence->kind != DT__SEQUENCE || i < 0) return NULL;
    dt__node *child = sequence->first;
    for (; child != NULL && i > 0; i--) child = child->next;
    return child;
}

dt__node *dt__node_at(const dt_recipe *r, const char *path, dt__node **above)
{
    dt__node *node = r->root;
    while (node != NULL) {
        if (above != NULL) *above = node;
        if (*path == 0) break;
        const size_t bytes = strcspn(path, ".");
        int64_t index = 0;
        if (node->kind == DT__SEQUENCE) {
            for (size_t i = 0; i < bytes && index < DT__RECIPE_CHILDREN; i++) {
                index = index * 10 + (path[i] - '0');
            }
            node = dt__node_item(node, index);
        } else {
            node = dt__node_child(node, path, bytes);
        }
        path += bytes;
        if (*path == '.') path++;
    }
    return node;
}

/* ---- errors ------------------------------------------------------------------------------- */

static dt__node place_of(const reader *p, yaml_mark_t mark)
{
    return (dt__node){ .origin = p->origin,
                       .line = (int)mark.line + 1,
                       .column = (int)mark.column + 1 };
}

#define COMPLAIN(p, mark, ...)                                                                     \
    do {                                                                                           \
        dt__node place_ = place_of(p, mark);                                                       \
        dt__complain((p)->r, &place_, __VA_ARGS__);                                                \
    } while (0)

static void stop_by_parser(reader *p)
{
    p->stopped = true;
    const yaml_parser_t *y = &p->parser;
    if (y->error == YAML_MEMORY_ERROR) {
        p->r->out_of_memory = true;
        return;
    }
    const char *problem = y->problem == NULL ? "malformed YAML" : y->problem;
    const bool at_tab = y->buffer.pointer < y->buffer.last && *y->buffer.pointer == '\t';
    if (at_tab && strstr(problem, "cannot start any token") != NULL) {
        COMPLAIN(p, y->problem_mark, "a tab; YAML is indented by spaces");
    } else if (y->context == NULL) {
        COMPLAIN(p, y->problem_mark, "%s", problem);
    } else {
        COMPLAIN(p, y->problem_mark, "%s %s", y->context, problem);
    }
}

static bool next_event(reader *p, yaml_event_t *event)
{
    if (p->stopped || p->r->out_of_memory) return false;
    if (yaml_parser_parse(&p->parser, event)) return true;
    stop_by_parser(p);
    return false;
}

/* ---- nodes from events -------------------------------------------------------------------- */

static dt__node *parse_value(reader *p, yaml_event_t *event, int depth);

/* Refuses anchors and tags, which change a text's meaning, and still reads the value. */
static void refuse_decoration(reader *p, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    if (anchor != NULL) {
        COMPLAIN(p, event->start_mark,
                 "anchors are not supported; quote a text that starts with &");
    }
    if (tag != NULL) {
        COMPLAIN(p, event->start_mark, "tags are not supported; quote a text that starts with !");
    }
}

static dt__node *create_at(reader *p, const yaml_event_t *event, dt__node_kind kind)
{
    dt__node *node = dt__node_create(p->r, kind, p->origin);
    if (node == NULL) return NULL;
    node->line = (int)event->start_mark.line + 1;
    node->column = (int)event->start_mark.column + 1;
    return node;
}

static dt__node *parse_scalar(reader *p, const yaml_event_t *event)
{
    dt__node *node = create_at(p, event, DT__SCALAR);
    if (node == NULL) return NULL;
    if (event->type == YAML_ALIAS_EVENT) {
        dt__complain(p->r, node, "aliases are not supported; quote a text that starts with *");
        return node;
    }
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->bytes = event->data.scalar.length;
    node->text = dt__recipe_copy(p->r, (const char *)event->data.scalar.value, node->bytes);
    if (node->text != NULL && strlen(node->text) != node->bytes) {
        dt__complain(p->r, node, "a text with a NUL character");
    }
    return node;
}

/* The value of the next event. NULL at the end of the collection, or after an error. */
static dt__node *parse_next(reader *p, int depth)
{
    yaml_event_t event;
    if (!next_event(p, &event)) return NULL;
    dt__node *node = NULL;
    if (event.type != YAML_SEQUENCE_END_EVENT && event.type != YAML_MAPPING_END_EVENT) {
        node = parse_value(p, &event, depth);
    }
    yaml_event_delete(&event);
    return node;
}

static bool is_full(reader *p, const dt__node *parent, int n)
{
    if (n < DT__RECIPE_CHILDREN) return false;
    dt__node place = *parent;
    dt__complain(p->r, &place, "more than %d entries", DT__RECIPE_CHILDREN);
    p->stopped = true;
    return true;
}

static bool accept_key(reader *p, const dt__node *map, dt__node *key)
{
    if (key->kind != DT__SCALAR) {
        dt__complain(p->r, key, "a key must be a word, not %s", dt__recipe_quote(p->r, key));
    } else if (key->plain && strcmp(key->text, "<<") == 0) {
        dt__complain(p->r, key, "merge keys (<<) are not supported");
    } else if (!key->bad) {
        const dt__node *twin = dt__node_child(map, key->text, key->bytes);
        if (twin == NULL) return true;
        dt__complain(p->r, key, "duplicate key '%s' (first in line %d)",
                     dt__recipe_quote_text(p->r, key->text, key->bytes), twin->key->line);
    }
    return false;
}

static void parse_map(reader *p, dt__node *map, int depth)
{
    for (int n = 0; !is_full(p, map, n); n++) {
        dt__node *key = parse_next(p, depth + 1);
        if (key == NULL) return;
        const bool accepted = accept_key(p, map, key);
        dt__node *value = parse_next(p, depth + 1);
        if (value == NULL) return;
        value->key = key;
        if (accepted) dt__node_append(map, value);
    }
}

static void parse_sequence(reader *p, dt__node *sequence, int depth)
{
    for (int n = 0; !is_full(p, sequence, n); n++) {
        dt__node *item = parse_next(p, depth + 1);
        if (item == NULL) return;
        dt__node_append(sequence, item);
    }
}

static dt__node *parse_value(reader *p, yaml_event_t *event, int depth)
{
    refuse_decoration(p, event);
    const bool is_map = event->type == YAML_MAPPING_START_EVENT;
    if (!is_map && event->type != YAML_SEQUENCE_START_EVENT) return parse_scalar(p, event);
    dt__node *node = create_at(p, event, is_map ? DT__MAP : DT__SEQUENCE);
    if (node == NULL) return NULL;
    if (depth > DT__RECIPE_DEPTH) {
        dt__complain(p->r, node, "nested deeper than %d", DT__RECIPE_DEPTH);
        p->stopped = true;
    } else if (is_map) {
        parse_map(p, node, depth);
    } else {
        parse_sequence(p, node, depth);
    }
    return node;
}

static dt__node *parse_stream(reader *p)
{
    dt__node *root = NULL;
    int documents = 0;
    for (bool end = false; !end;) {
        yaml_event_t event;
        if (!next_event(p, &event)) break;
        if (event.type == YAML_DOCUMENT_START_EVENT) {
            if (documents++ > 0) {
                COMPLAIN(p, event.start_mark, "a second document; a recipe is one");
                p->stopped = true;
            }
        } else if (event.type == YAML_STREAM_END_EVENT) {
            end = true;
        } else if (event.type != YAML_STREAM_START_EVENT && event.type != YAML_DOCUMENT_END_EVENT) {
            root = parse_value(p, &event, 1);
        }
        yaml_event_delete(&event);
    }
    if (p->stopped || p->r->out_of_memory) return NULL;
    if (root == NULL) root = dt__node_create(p->r, DT__SCALAR, p->origin);
    if (root != NULL && documents == 0) root->plain = true;
    return root;
}

/* ---- characters --------------------------------------------------------------------------- */

int32_t dt__utf8_decode(const char *text, size_t left, size_t *bytes)
{
    static const int32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *at = (const unsigned char *)text, c = at[0];
    const size_t n = c < 0x80 ? 1 : c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    *bytes = 1;
    if (n == 1) return c;
    if (c < 0xC2 || c > 0xF4 || n > left) return -1;
    int32_t value = c & (0x7F >> n);
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xC0) != 0x80) return -1;
        value = (value << 6) | (at[i] & 0x3F);
    }
    if (value < least[n] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return -1;
    *bytes = n;
    return value;
}

static bool is_allowed(int32_t c)
{
    if (c < 0x20) return c == '\t' || c == '\n' || c == '\r';
    return (c < 0x7F || c >= 0xA0 || c == 0x85) && c != 0xFEFF && c != 0xFFFE && c != 0xFFFF;
}

/* Finds characters that libyaml refuses without a position. */
static bool check_characters(dt_recipe *r, const char *text, size_t bytes, dt__origin origin)
{
    dt__node place = { .origin = origin, .line = 1, .column = 1 };
    for (size_t i = 0, n = 1; i < bytes; i += n) {
        const int32_t value = dt__utf8_decode(text + i, bytes - i, &n);
        if (value < 0) {
            dt__complain(r, &place, "byte 0x%02x is not UTF-8", (unsigned char)text[i]);
            return false;
        }
        if (!is_allowed(value)) {
            dt__complain(r, &place, "control character U+%04X", (unsigned)value);
            return false;
        }
        const bool breaks =
            value == '\n' || (value == '\r' && (i + 1 == bytes || text[i + 1] != '\n'));
        place.line += breaks;
        place.column = breaks ? 1 : place.column + 1;
    }
    return true;
}

dt__node *dt__yaml_parse(dt_recipe *r, const char *text, size_t bytes, dt__origin origin)
{
    dt__node start = { .origin = origin, .line = 1, .column = 1 };
    if (bytes > DT__RECIPE_BYTES) {
        dt__complain(r, &start, "longer than %zu bytes", DT__RECIPE_BYTES);
        return NULL;
    }
    const size_t mark = dt__utf8_mark(text, bytes);
    text += mark;
    bytes -= mark;
    if (!check_characters(r, text, bytes, origin)) return NULL;
    reader p = { .r = r, .origin = origin };
    if (!yaml_parser_initialize(&p.parser)) {
        r->out_of_memory = true;
        return NULL;
    }
    yaml_parser_set_encoding(&p.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p.parser, (const unsigned char *)text, bytes);
    dt__node *root = parse_stream(&p);
    yaml_parser_delete(&p.parser);
    return root;
}
