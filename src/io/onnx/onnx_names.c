/* Names of layers. PyTorch names initializers and nodes by modules:
 *     features.0.0.weight                       the layer features.0.0
 *     /features/features.0/features.0.2/Relu    the layer features.0.2
 * Other programs name nodes by paths, or not at all. No layer's path may be inside of another
 * layer's. */
#include "core/block_list.h"
#include "io/onnx/onnx.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MOST_NAME 160

const char *dt__onnx_clean(dt__onnx *g, const char *name)
{
    char text[MOST_NAME + 1];
    size_t n = 0;
    for (const char *at = name; *at != 0 && n < MOST_NAME; at++) {
        const bool dot = *at == '/' || *at == '.' || *at == ':';
        if (dot && (n == 0 || text[n - 1] == '.')) continue;
        const bool good = isalnum((unsigned char)*at) || *at == '-' || *at == '_';
        text[n++] = dot ? '.' : '_';
        if (good) text[n - 1] = *at;
    }
    while (n > 0 && text[n - 1] == '.') n--;
    text[n] = 0;
    if (strncmp(text, "detent.", 7) == 0) text[6] = '_'; /* this prefix is reserved in files */
    return dt__block_list_text(g->ctx, g->arena, "%s", n == 0 ? "layer" : text);
}

/* The module path in a node's name; NULL: none. */
static const char *module_of(dt__onnx *g, const dt__onnx_node *n)
{
    char path[MOST_NAME + 1] = "";
    const char *before = "";
    size_t used = 0, before_n = 0;
    const char *name = strncmp(n->name, "node_", 5) == 0 ? n->name + 5 : n->name;
    if (strchr(name, '/') == NULL) return dt__onnx_clean(g, *name == 0 ? n->op_type : name);
    for (const char *at = name + (*name == '/'), *end; (end = strchr(at, '/')) != NULL;
         at = end + 1) {
        size_t length = (size_t)(end - at);
        const char *part = at;
        const bool inside = before_n > 0 && length > before_n && at[before_n] == '.' &&
                            strncmp(at, before, before_n) == 0;
        before = at;
        before_n = length;
        if (inside) {
            part = strchr(at, 0) > at + length ? at + length : at;
            while (part > at && part[-1] != '.') part--;
            length = (size_t)(end - part);
        }
        if (used + length + 2 > sizeof path) break;
        if (used > 0) path[used++] = '.';
        memcpy(path + used, part, length);
        used += length;
        path[used] = 0;
    }
    return dt__onnx_clean(g, used == 0 ? n->op_type : path);
}

enum { FREE, TAKEN, HOLDS, INSIDE };

/* An entry of a hash table with open addressing: a layer's name, or a module that contains given or
 * wanted names. */
typedef struct entry {
    const char *text; /* its first n characters; NULL: empty */
    size_t n;
    bool given;   /* a layer's name, not only a module */
    int64_t next; /* the first numeric suffix that may be free; 0: no suffix was needed */
} entry;

typedef struct names {
    dt__onnx *g;
    entry *at;
    size_t size; /* a power of two, more than twice the entries */
} names;

static entry *find(const names *t, const char *text, size_t n)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < n; i++) hash = (hash ^ (uint8_t)text[i]) * 1099511628211u;
    size_t at = (size_t)hash & (t->size - 1);
    while (t->at[at].text != NULL && (t->at[at].n != n || memcmp(t->at[at].text, text, n) != 0)) {
        at = (at + 1) & (t->size - 1);
    }
    return &t->at[at];
}

static void note(names *t, const char *text, size_t n, bool given)
{
    entry *e = find(t, text, n);
    if (e->text == NULL) *e = (entry){ text, n, given, 0 };
    e->given |= given;
}

/* Adds the modules that contain a name. */
static void note_around(names *t, const char *name)
{
    for (const char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        note(t, name, (size_t)(dot - name), false);
    }
}

static size_t parts_of(const char *name)
{
    size_t n = 1;
    for (; name != NULL && *name != 0; name++) n += *name == '.';
    return n;
}

/* Makes an empty table large enough for all names; each may get one more module. */
static dt_status make_names(dt__onnx *g, names *t)
{
    size_t n = 1;
    for (int64_t i = 0; i < g->n_layers; i++) {
        n += 2 * (1 + parts_of(g->layer[i]->wanted) + parts_of(g->layer[i]->name));
    }
    *t = (names){ .g = g, .size = 4 };
    while (t->size < 2 * n) t->size *= 2;
    t->at = dt__onnx_memory(g, (int64_t)t->size, sizeof *t->at);
    if (t->at == NULL) return DT_ERR_NOMEM;
    memset(t->at, 0, t->size * sizeof *t->at);
    for (int64_t i = 0; i < g->n_layers; i++) {
        const dt__onnx_layer *l = g->layer[i];
        const char *name = l->name != NULL ? l->name : l->wanted;
        if (name != NULL) note_around(t, name);
        if (l->name != NULL) note(t, name, strlen(name), true);
    }
    return DT_OK;
}

/* Compares a name with the given ones. INSIDE: the first *at characters are a layer's name. HOLDS:
 * it is a module of other names. */
static int look(const names *t, const char *name, size_t *at)
{
    const entry *own = find(t, name, strlen(name));
    if (own->text != NULL && own->given) return TAKEN;
    for (const char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        *at = (size_t)(dot - name);
        const entry *e = find(t, name, *at);
        if (e->text != NULL && e->given) return INSIDE;
    }
    return own->text != NULL ? HOLDS : FREE;
}

static dt_status give(names *t, dt__onnx_layer *l, const char *wanted)
{
    size_t at = 0;
    const char *kind = l->type->item.name;
    char name[MOST_NAME + 64];
    snprintf(name, sizeof name, "%s", wanted);
    int state = look(t, name, &at);
    if (state == HOLDS) snprintf(name, sizeof name, "%s.%s", wanted, kind);
    if (state == TAKEN) snprintf(name, sizeof name, "%s_%s", wanted, kind);
    const size_t base = strlen(name);
    entry *same = find(t, name, base);
    int64_t i = same->text != NULL && same->next > 0 ? same->next : 2;
    for (; (state = look(t, name, &at)) != FREE; i++) {
        if (state == INSIDE) name[at] = '_';
        else snprintf(name + base, sizeof name - base, "_%lld", (long long)i);
    }
    if (same->text != NULL) same->next = i;
    l->name = dt__block_list_text(t->g->ctx, t->g->arena, "%s", name);
    if (l->name == NULL) return DT_ERR_NOMEM;
    note_around(t, l->name);
    note(t, l->name, strlen(l->name), true);
    return DT_OK;
}

/* Layers with parameters are named first. */
dt_status dt__onnx_name_layers(dt__onnx *g)
{
    for (int64_t i = 0; i < g->n_layers; i++) {
        dt__onnx_layer *l = g->layer[i];
        if (!l->live || l->name != NULL) continue;
        l->wanted = l->hint != NULL ? l->hint : module_of(g, l->node);
        if (l->wanted == NULL) return DT_ERR_NOMEM;
    }
    names given;
    DT__TRY(make_names(g, &given));
    for (int claim = 0; claim < 3; claim++) {
        for (int64_t i = 0; i < g->n_layers; i++) {
            dt__onnx_layer *l = g->layer[i];
            const int own = l->hint != NULL ? 0 : l->n_weights > 0 ? 1 : 2;
            if (!l->live || l->name != NULL || own != claim) continue;
            DT__TRY(give(&given, l, l->wanted));
        }
    }
    return DT_OK;
}
