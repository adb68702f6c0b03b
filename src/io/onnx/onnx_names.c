/* Names of layers. PyTorch names initializers and nodes by modules:
 *     features.0.0.weight                       the layer features.0.0
 *     /features/features.0/features.0.2/Relu    the layer features.0.2
 * Other programs name nodes by paths, or not at all. No layer may lie inside of another one. */
#include "io/onnx/onnx.h"

#include <ctype.h>
#include <limits.h>
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
    if (strncmp(text, "detent.", 7) == 0) text[6] = '_'; /* files reserve it */
    return dt__onnx_text(g, "%s", n == 0 ? "layer" : text);
}

/* The path of a node's module from its name; NULL: it has none. */
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

/* ---- no layer inside of another -------------------------------------------------------------- */

enum { FREE, TAKEN, HOLDS, INSIDE };

/* Whether `path` is a module around `name`. */
static bool is_around(const char *path, const char *name)
{
    const size_t n = strlen(path);
    return strncmp(path, name, n) == 0 && name[n] == '.';
}

/* How a name fits those that are given or wanted. INSIDE: *at is the length of the one around. */
static int look(const dt__onnx *g, const char *name, size_t *at)
{
    int result = FREE;
    for (int64_t i = 0; i < g->n_layers; i++) {
        const char *other = g->layer[i]->name;
        if (other == NULL) other = g->layer[i]->wanted;
        if (other == NULL) continue;
        if (g->layer[i]->name == NULL) {
            if (is_around(name, other)) result = HOLDS; /* a module with layers to come */
            continue;
        }
        if (strcmp(other, name) == 0) return TAKEN;
        if (is_around(name, other)) result = HOLDS;
        if (!is_around(other, name)) continue;
        *at = strlen(other);
        return INSIDE;
    }
    return result;
}

static dt_status give(dt__onnx *g, dt__onnx_layer *l, const char *wanted)
{
    size_t at = 0;
    const char *kind = l->type->item.name;
    char name[MOST_NAME + 64];
    snprintf(name, sizeof name, "%s", wanted);
    int state = look(g, name, &at);
    if (state == HOLDS) snprintf(name, sizeof name, "%s.%s", wanted, kind);
    if (state == TAKEN) snprintf(name, sizeof name, "%s_%s", wanted, kind);
    const size_t base = strlen(name);
    for (int64_t i = 2; (state = look(g, name, &at)) != FREE; i++) {
        if (state == INSIDE) name[at] = '_';
        else snprintf(name + base, sizeof name - base, "_%lld", (long long)i);
    }
    l->name = dt__onnx_text(g, "%s", name);
    return l->name == NULL ? DT_ERR_NOMEM : DT_OK;
}

/* A layer of parameters has the first claim to a name. */
dt_status dt__onnx_name_layers(dt__onnx *g)
{
    for (int64_t i = 0; i < g->n_layers; i++) {
        dt__onnx_layer *l = g->layer[i];
        if (!l->live || l->name != NULL) continue;
        l->wanted = l->hint != NULL ? l->hint : module_of(g, l->node);
        if (l->wanted == NULL) return DT_ERR_NOMEM;
    }
    for (int claim = 0; claim < 3; claim++) {
        for (int64_t i = 0; i < g->n_layers; i++) {
            dt__onnx_layer *l = g->layer[i];
            const int own = l->hint != NULL ? 0 : l->n_weights > 0 ? 1 : 2;
            if (!l->live || l->name != NULL || own != claim) continue;
            DT__TRY(give(g, l, l->wanted));
        }
    }
    return DT_OK;
}
