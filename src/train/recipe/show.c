/* Prints a recipe with every value: as YAML, with origins in comments, that can be read again; or
 * as JSON. */
#include "train/out.h"

#include <stdio.h>
#include <string.h>

#define ORIGIN_COLUMN 44

typedef struct shower {
    dt__out out;
    const dt_recipe *r;
    bool json;
    bool dash;       /* the next line begins an item of a list */
    bool only_given; /* no defaults */
} shower;

/* A value to print: the struct that holds it, its node in the file, its path. */
typedef struct spot {
    const char *path;
    const char *base;
    const dt__node *node; /* NULL: not given */
} spot;

static void show_table(shower *s, const dt_key *keys, spot at);

static void start_line(shower *s, const char *name)
{
    const int indent = s->out.indent - (s->dash ? 2 : 0);
    dt__out_format(&s->out, "%*s%s%s:", indent, "", s->dash ? "- " : "", name);
    s->dash = false;
}

static void show_origin(shower *s, const dt__node *node)
{
    dt__out *o = &s->out;
    do dt__out_text(o, " ");
    while (o->column < ORIGIN_COLUMN && o->status == DT_OK);
    if (node == NULL) {
        dt__out_text(o, "# default");
    } else if (node->origin == DT__FROM_COMMAND_LINE) {
        dt__out_text(o, "# command line");
    } else if (node->origin == DT__FROM_INIT) {
        dt__out_text(o, "# model.init");
    } else if (node->origin == DT__FROM_TARGET) {
        dt__out_text(o, "# qat.target");
    } else if (node->origin == DT__FROM_BEST) {
        dt__out_text(o, "# qat.recipe");
    } else {
        const bool swept = node->origin == DT__FROM_SWEEP;
        dt__out_text(o, "# ");
        for (const char *c = swept ? s->r->sweep_file : s->r->file; *c != 0; c++) {
            dt__out_bytes(o, (unsigned char)*c < 0x20 || *c == 0x7F ? "?" : c, 1);
        }
        dt__out_format(o, ":%d", node->line);
    }
    dt__out_text(o, "\n");
}

static dt_status collect(void *to, const char *bytes, size_t n)
{
    dt__put(to, bytes, n);
    return DT_OK;
}

static void put_yaml(dt__chars *t, const char *text)
{
    dt__out_yaml(&(dt__out){ .sink = collect, .user = t }, text);
}

static void put_json(dt__chars *t, const char *text)
{
    dt__out_json(&(dt__out){ .sink = collect, .user = t }, text);
}

/* Maps and lists of maps are printed by show_key. */
static void show_value(shower *s, const dt_key *key, const char *base)
{
    dt__chars t = { .ctx = s->r->ctx, .word = s->json ? put_json : put_yaml };
    dt__put_value(&t, key, base);
    if (t.failed) s->out.status = DT_ERR_NOMEM;
    dt__out_bytes(&s->out, t.bytes, t.used);
    dt__release(t.ctx, t.bytes);
}

/* The path of a child, in a buffer of the caller: printing must not allocate in the recipe. */
#define PATH_BYTES 256

static void join(char path[PATH_BYTES], const char *above, const char *name)
{
    const size_t n = strlen(above), m = strlen(name);
    path[0] = 0;
    if (n + m + 2 > PATH_BYTES) return;
    memcpy(path, above, n);
    if (n > 0) path[n] = '.';
    memcpy(path + n + (n > 0), name, m + 1);
}

static void show_rule(shower *s, const dt_key *key, spot at)
{
    dt__out *o = &s->out;
    if (s->json) {
        dt__out_open(o, NULL, '{');
        show_table(s, key->keys, at);
        dt__out_close(o, '}');
        return;
    }
    o->indent += 2;
    s->dash = true;
    show_table(s, key->keys, at);
    o->indent -= 2;
}

/* The first key of an item names its kind, so it is printed also if it was not given. */
static void show_item(shower *s, const dt_list_item *item, spot at)
{
    dt__out *o = &s->out;
    const dt_key *first = &item->kind->keys[0];
    const dt__node *name = dt__node_child(at.node, first->name, strlen(first->name));
    if (s->json) {
        dt__out_open(o, NULL, '{');
        dt__out_name(o, first->name);
        show_value(s, first, at.base);
        show_table(s, first + 1, at);
        dt__out_close(o, '}');
        return;
    }
    o->indent += 2;
    s->dash = true;
    start_line(s, first->name);
    dt__out_text(o, " ");
    show_value(s, first, at.base);
    show_origin(s, name != NULL ? name : at.node);
    show_table(s, first + 1, at);
    o->indent -= 2;
}

static void show_structs(shower *s, const dt_key *key, spot at)
{
    dt__out *o = &s->out;
    const dt_item_list *items = (const void *)(at.base + key->offset);
    const bool is_items = key->type == DT_KEY_ITEMS;
    const int64_t count =
        is_items ? items->n : *(const int64_t *)(const void *)(at.base + key->count);
    if (s->json) {
        dt__out_open(o, key->name, '[');
    } else {
        start_line(s, key->name);
        if (count == 0) {
            dt__out_text(o, " []");
            show_origin(s, at.node);
            return;
        }
        dt__out_text(o, "\n");
        o->indent += 2;
    }
    for (int64_t i = 0; i < count; i++) {
        const dt__node *node = dt__node_item(at.node, i);
        const char *base = at.base + key->offset + (size_t)i * key->size;
        char path[PATH_BYTES], place[24];
        snprintf(place, sizeof place, "%lld", (long long)i);
        join(path, at.path, place);
        if (is_items) show_item(s, &items->v[i], (spot){ at.path, items->v[i].options, node });
        else show_rule(s, key, (spot){ path, base, node });
    }
    if (s->json) {
        dt__out_close(o, ']');
    } else {
        o->indent -= 2;
    }
}

static void show_map(shower *s, const dt_key *key, spot at)
{
    dt__out *o = &s->out;
    if (s->json) {
        dt__out_open(o, key->name, '{');
    } else {
        start_line(s, key->name);
        dt__out_text(o, "\n");
        o->indent += 2;
    }
    at.base += key->offset;
    show_table(s, key->keys, at);
    if (key->keys == dt_model_keys && s->r->options.model.family != NULL) {
        at.base = s->r->options.model.options;
        s->only_given = s->r->init_unread; /* what is not given comes from that file */
        show_table(s, s->r->options.model.family->keys, at);
        s->only_given = false;
    }
    if (s->json) {
        dt__out_close(o, '}');
    } else {
        o->indent -= 2;
    }
}

/* Whether to print a key; not a map without defaults of which no key is given. */
static bool is_shown(const dt_key *key, const dt__node *node)
{
    if (node != NULL) return key->type != DT_KEY_MAP || node->count > 0 || key->given > 0;
    if (key->type == DT_KEY_LIST) return key->given == 0;
    if (key->type != DT_KEY_MAP) return key->fallback != NULL && key->fallback[0] != '!';
    if (key->given > 0) return false;
    for (const dt_key *k = key->keys; k->name != NULL; k++) {
        if (is_shown(k, NULL)) return true;
    }
    return false;
}

static void show_key(shower *s, const dt_key *key, spot at)
{
    char path[PATH_BYTES];
    join(path, at.path, key->name);
    at.path = path;
    at.node = dt__node_child(at.node, key->name, strlen(key->name));
    const bool block = at.base == (const char *)&s->r->options;
    if (at.node == NULL ? key->other_form : dt__form_of(key, at.node) != key) return;
    if (at.node == NULL && s->only_given) return;
    if (!is_shown(key, at.node) || !dt__recipe_applies(s->r, path)) return;
    if (block && at.node == NULL && s->r->only_quantizes) return;
    if (key->type == DT_KEY_MAP) {
        show_map(s, key, at);
    } else if (key->type == DT_KEY_LIST || key->type == DT_KEY_ITEMS) {
        show_structs(s, key, at);
    } else if (s->json) {
        dt__out_name(&s->out, key->name);
        show_value(s, key, at.base);
    } else {
        start_line(s, key->name);
        dt__out_text(&s->out, " ");
        show_value(s, key, at.base);
        show_origin(s, at.node);
    }
}

static void show_table(shower *s, const dt_key *keys, spot at)
{
    for (const dt_key *k = keys; k->name != NULL && s->out.status == DT_OK; k++) {
        if (dt__norm_reads(keys, at.base, k->name)) show_key(s, k, at);
    }
}

static dt_status show(const dt_recipe *r, bool json, dt_sink sink, void *user)
{
    if (r->n_complaints > 0) {
        return dt_fail(r->ctx, DT_ERR_STATE, "recipe %s has errors, there is nothing to show",
                       r->file);
    }
    shower s = { .out = { .sink = sink, .user = user }, .r = r, .json = json };
    if (json) dt__out_open(&s.out, NULL, '{');
    show_table(&s, dt_recipe_keys, (spot){ "", (const char *)&r->options, r->root });
    if (json) dt__out_close(&s.out, '}');
    return s.out.status;
}

dt_status dt_recipe_show(const dt_recipe *r, dt_sink sink, void *user)
{
    DT__NEED2(NULL, r, sink);
    return show(r, false, sink, user);
}

dt_status dt_recipe_json(const dt_recipe *r, dt_sink sink, void *user)
{
    DT__NEED2(NULL, r, sink);
    return show(r, true, sink, user);
}
