/* Draws recipes. Values are drawn by type and range of a key, mostly small ones; the program itself
 * decides whether they fit together, since it reads each attempt like any recipe. So a new layer,
 * key, preset or family is included without a change here. */
#include "draw.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ATTEMPTS 80 /* of one layer */
#define SETTINGS 8  /* of the quantization */
#define LAYERS 3
#define NETWORKS 40   /* attempts for a network of layers */
#define FAMILIES 3000 /* for other families, whose keys are all drawn at once */

/* splitmix64 (Steele, Lea, Flood, 2014) */
static uint64_t next(grid_random *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

int64_t grid_pick(grid_random *r, int64_t least, int64_t most)
{
    return least >= most ? least : least + (int64_t)(next(r) % (uint64_t)(most - least + 1));
}

bool grid_chance(grid_random *r, double p) { return (double)(next(r) >> 11) * 0x1p-53 < p; }

double grid_normal(grid_random *r)
{
    const double u = ((double)(next(r) >> 11) + 1) * 0x1p-53, v = (double)(next(r) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct writer {
    char *text;
    size_t used;
    int64_t inputs; /* of a network of layers: 1, `input`; 2, `a` and `b` */
    int64_t layers;
    int64_t output; /* a layer that is an output beside the last; -1: none */
} writer;

static void put(writer *w, const char *format, ...)
{
    va_list a;
    va_start(a, format);
    const int n = vsnprintf(w->text + w->used, GRID_TEXT - w->used, format, a);
    va_end(a);
    w->used += n > 0 ? (size_t)n : 0;
    if (w->used >= GRID_TEXT) w->used = GRID_TEXT - 1;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* An integer in the key's range: mostly small, sometimes larger. */
static int64_t whole(grid_random *r, const dt_key *k)
{
    const bool bounded = k->least != 0 || k->most != 0;
    const double least = bounded ? fmax(k->least, -3) : -3;
    const double most = bounded ? fmin(k->most, grid_chance(r, 0.15) ? 40 : 6) : 6;
    const int64_t n = grid_pick(r, (int64_t)least, (int64_t)fmax(least, most));
    return k->multiple > 1 ? (n - (int64_t)least + 1) * k->multiple : n;
}

static void put_numbers(writer *w, grid_random *r, const dt_key *k)
{
    const int64_t n = grid_pick(r, k->fewest > 1 ? k->fewest : 1, 4);
    put(w, "[");
    for (int64_t i = 0; i < n; i++) put(w, "%s%lld", i > 0 ? ", " : "", (long long)whole(r, k));
    put(w, "]");
}

static void put_keys(writer *w, grid_random *r, const dt_key *keys, double share);

/* Names of inputs and of the layers before. */
static void put_names(writer *w, grid_random *r, int64_t layers)
{
    const int64_t n = grid_pick(r, 1, 2);
    put(w, "[");
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = grid_pick(r, -1, layers - 1);
        put(w, "%s", i > 0 ? ", " : "");
        if (k < 0 && w->inputs == 1) put(w, "input");
        else if (k < 0) put(w, grid_chance(r, 0.5) ? "a" : "b");
        else put(w, "l%lld", (long long)k);
    }
    put(w, "]");
}

static bool is_drawn(const dt_key *k)
{
    switch (k->type) {
    case DT_KEY_BOOL:
    case DT_KEY_INT:
    case DT_KEY_REAL:
    case DT_KEY_CHOICE:
    case DT_KEY_INTS:
    case DT_KEY_MAP:
    case DT_KEY_PAIR:
    case DT_KEY_LIST:
    case DT_KEY_ITEMS: return true;
    default: return false;
    }
}

static void put_value(writer *w, grid_random *r, const dt_key *k)
{
    int64_t n = 0;
    switch (k->type) {
    case DT_KEY_BOOL: put(w, "%s", grid_chance(r, 0.5) ? "true" : "false"); break;
    case DT_KEY_INT: put(w, "%lld", (long long)whole(r, k)); break;
    case DT_KEY_REAL: {
        const bool bounded = k->least != 0 || k->most != 0;
        const double least = bounded ? fmax(k->least, -2) : -2,
                     most = bounded ? fmin(k->most, 2) : 2;
        put(w, "%.4g", least + (most - least) * (double)grid_pick(r, 1, 98) / 100);
        break;
    }
    case DT_KEY_CHOICE:
        while (k->choices[n] != NULL) n++;
        put(w, "%s", k->choices[grid_pick(r, 0, n - 1)]);
        break;
    case DT_KEY_INTS: put_numbers(w, r, k); break;
    case DT_KEY_ITEMS: /* a list of one or two maps */
        n = grid_pick(r, 1, 2);
        for (int64_t i = 0; i < n; i++) {
            int kinds = 0;
            while (k->kinds(kinds) != NULL) kinds++;
            const dt_item_kind *kind = k->kinds((int)grid_pick(r, 0, kinds - 1));
            put(w, "%s{", i == 0 ? "[" : ", ");
            put_keys(w, r, kind->keys, 0.3);
            put(w, "}");
        }
        put(w, "]");
        break;
    case DT_KEY_LIST:
        n = grid_pick(r, 1, 2);
        for (int64_t i = 0; i < n; i++) {
            put(w, "%s{", i == 0 ? "[" : ", ");
            put_keys(w, r, k->keys, 0.3);
            put(w, "}");
        }
        put(w, "]");
        break;
    case DT_KEY_MAP:
        put(w, "{");
        put_keys(w, r, k->keys, 0.3);
        put(w, "}");
        break;
    default: /* a pair */
        if (grid_chance(r, 0.5)) put(w, "%lld", (long long)whole(r, k));
        else put(w, "[%lld, %lld]", (long long)whole(r, k), (long long)whole(r, k));
    }
}

/* Keys that are required, and `share` of the others. */
static void put_keys(writer *w, grid_random *r, const dt_key *keys, double share)
{
    bool first = w->text[w->used - 1] == '{';
    for (const dt_key *k = keys; k->name != NULL; k++) {
        const bool required = k->fallback != NULL && strcmp(k->fallback, "!") == 0;
        if (!is_drawn(k) || (!required && !grid_chance(r, share))) continue;
        put(w, "%s%s: ", first ? "" : ", ", k->name);
        put_value(w, r, k);
        first = false;
    }
}

/* ---- recipes --------------------------------------------------------------------------------- */

static dt_status read_recipe(dt_ctx *ctx, const char *text, dt_recipe **recipe)
{
    const dt_recipe_source source = {
        .path = "grid", .text = text, .bytes = strlen(text), .leave_files = true
    };
    *recipe = NULL;
    const dt_status s = dt_recipe_read(ctx, &source, recipe);
    if (s != DT_OK) {
        dt_recipe_free(*recipe);
        *recipe = NULL;
    }
    return s;
}

static void put_data(writer *w)
{
    const bool several = w->inputs > 1 || w->output >= 0;
    const char *file = several ? "x: x.npz" : "x: x.npy, y: y.npy";
    put(w, "data: {format: tensors, train: {%s}, test: {%s}", file, file);
    if (w->inputs > 1) put(w, ", inputs: [{name: a}, {name: b}]");
    if (w->output < 0) put(w, ", task: regression}\n");
    else
        put(w, ", outputs: [{name: l%lld, task: regression}, {name: l%lld, task: regression}]}\n",
            (long long)w->output, (long long)w->layers - 1);
}

static void put_rest(writer *w, grid_random *r, const grid_subject *of, bool language)
{
    put(w, "run: {dir: none}\n");
    if (language) put(w, "data: {format: tokens, dir: none, train: [t], test: [t], context: 4}\n");
    else put_data(w);
    if (of->key == NULL) return;
    put(w, "qat: {%s: %s", of->key, of->value);
    if (language && grid_chance(r, 0.5)) { /* as files of other programs have it */
        put(w, ", weight: {%s}}\n", grid_chance(r, 0.5) ? "scheme: q4_0" : "scale_dtype: f16");
        return;
    }
    const dt_key *const keys[] = { dt_weight_quant_keys, dt_activation_quant_keys };
    for (int i = 0; i < 2; i++) { /* of weights more often than of activations */
        if (!grid_chance(r, i == 0 ? 0.4 : 0.2)) continue;
        put(w, ", %s: {", i == 0 ? "weight" : "activation");
        put_keys(w, r, keys[i], 0.12);
        put(w, "}");
    }
    put(w, "}\n");
}

static void put_shape(writer *w, grid_random *r, int64_t rank)
{
    const int64_t most = rank == 1 ? 40 : rank == 2 ? 16 : 9;
    put(w, "[");
    for (int64_t d = 0; d < rank; d++) {
        put(w, "%s%lld", d > 0 ? ", " : "",
            (long long)grid_pick(r, 1, d == 0 && rank > 1 ? 6 : most));
    }
    put(w, "]");
}

static void put_input(writer *w, grid_random *r)
{
    const int64_t rank = grid_pick(r, 1, 3);
    w->inputs = grid_chance(r, 0.15) ? 2 : 1;
    if (w->inputs == 1) {
        put_shape(w, r, rank);
        return;
    }
    char shape[64];
    const size_t before = w->used;
    put_shape(w, r, rank);
    snprintf(shape, sizeof shape, "%s", w->text + before);
    w->used = before;
    put(w, "{a: %s, b: ", shape);
    if (grid_chance(r, 0.7)) put(w, "%s", shape); /* the same shape, so that they can be joined */
    else put_shape(w, r, grid_pick(r, 1, 3));
    put(w, "}");
}

/* Appends a layer to a list that has `n` already: ", {conv2d: l1, out: 4}". */
static void put_layer(writer *w, grid_random *r, const dt_item_kind *kind, int64_t n)
{
    put(w, "%s{%s: l%lld", n > 0 ? ", " : "", kind->name, (long long)n);
    const bool first = n == 0 && w->inputs > 1;
    if (first || grid_chance(r, 0.2) || (grid_chance(r, 0.5) && n > 0 && strlen(kind->name) < 4) ||
        strcmp(kind->name, "concat") == 0) {
        put(w, ", from: ");
        put_names(w, r, n);
    }
    put_keys(w, r, kind->keys + 1, 0.35);
    put(w, "}");
}

static const dt_item_kind *any_kind(grid_random *r)
{
    int n = 0;
    while (dt_layer_kind_at(n) != NULL) n++;
    return dt_layer_kind_at((int)grid_pick(r, 0, n - 1));
}

/* Whether the program accepts the text so far, with an end; `text` of GRID_TEXT bytes. */
static bool is_recipe(dt_ctx *ctx, const writer *list, char *text, const char *end)
{
    dt_recipe *recipe = NULL;
    writer w = *list;
    w.text = text;
    memcpy(text, list->text, list->used + 1);
    put(&w, "%s\nrun: {dir: none}\n", end);
    put_data(&w);
    const bool made = read_recipe(ctx, text, &recipe) == DT_OK;
    dt_recipe_free(recipe);
    return made;
}

/* Layers one by one, each until the program accepts the list. */
static bool draw_layers(dt_ctx *ctx, grid_random *r, const grid_subject *of, writer *list)
{
    const int64_t all = grid_pick(r, 1, LAYERS), place = grid_pick(r, 0, all - 1);
    char text[GRID_TEXT];
    list->output = -1;
    put(list, "model: {family: layers, input: ");
    put_input(list, r);
    put(list, ", layers: [");
    for (int64_t n = 0; n < all; n++) {
        const size_t before = list->used;
        bool made = false;
        for (int i = 0; i < ATTEMPTS && !made; i++) {
            list->used = before;
            list->layers = n + 1;
            put_layer(list, r, n == place ? of->layer : any_kind(r), n);
            made = is_recipe(ctx, list, text, "]}");
        }
        if (!made) return false;
    }
    const size_t before = list->used;
    list->output = all > 1 && grid_chance(r, 0.25) ? grid_pick(r, 0, all - 2) : -1;
    if (list->output >= 0) {
        put(list, "], output: [l%lld, l%lld", (long long)list->output, (long long)all - 1);
        if (!is_recipe(ctx, list, text, "]}")) {
            list->output = -1;
            list->used = before;
            list->text[before] = 0;
        }
    }
    put(list, "]}\n");
    return true;
}

/* A language model: its architecture's keys, sizes, and some of the family's other keys. */
static void put_base(writer *w, grid_random *r, const grid_subject *of)
{
    grid_size size[GRID_SIZES];
    const char *p = of->base->keys;
    put(w, "model: {family: %s", of->family->name);
    grid_base_sizes(of->base, r, size);
    for (int i = 0; i < GRID_SIZES; i++) {
        if (size[i].name != NULL) put(w, ", %s: %lld", size[i].name, (long long)size[i].value);
    }
    while (*p != 0) { /* without keys that stay at their default */
        const char *end = strstr(p, ": ~");
        const size_t n = strcspn(p, ",{");
        if (end != NULL && end < p + n) {
            p += n;
        } else {
            int depth = 0;
            put(w, ", ");
            for (; *p != 0 && (depth > 0 || *p != ','); p++) {
                depth += *p == '{' || *p == '[' ? 1 : *p == '}' || *p == ']' ? -1 : 0;
                put(w, "%c", *p);
            }
        }
        if (*p == ',') p += strlen(", ");
    }
    for (const dt_key *k = of->family->keys; k->name != NULL; k++) {
        if (!is_drawn(k) || !grid_base_leaves(of->base, k->name) || !grid_chance(r, 0.12)) continue;
        put(w, ", %s: ", k->name);
        put_value(w, r, k);
    }
    put(w, "}\n");
}

static bool is_language(const dt_family *f)
{
    for (const dt_key *k = f->keys; k->name != NULL; k++) {
        if (strcmp(k->name, "vocab") == 0) return true;
    }
    return false;
}

/* One attempt: `text` is a recipe, or has a complaint. */
static bool draw_once(dt_ctx *ctx, grid_random *r, const grid_subject *of, char *text,
                      dt_recipe **recipe)
{
    writer w = { .text = text, .inputs = 1, .output = -1 };
    *text = 0;
    if (of->layer != NULL) {
        if (!draw_layers(ctx, r, of, &w)) return false;
    } else if (of->base != NULL) {
        put_base(&w, r, of);
    } else {
        put(&w, "model: {family: %s", of->family->name);
        put_keys(&w, r, of->family->keys, 0.3);
        put(&w, "}\n");
    }
    const size_t model = w.used;
    for (int i = 0; i < SETTINGS; i++) { /* the quantization */
        w.used = model;
        put_rest(&w, r, of, of->layer == NULL && is_language(of->family));
        if (read_recipe(ctx, text, recipe) == DT_OK) return true;
        if (of->layer == NULL && i > 3) return false;
    }
    return false;
}

bool grid_draw(dt_ctx *ctx, grid_random *r, const grid_subject *of, char *text, dt_recipe **recipe)
{
    const int most = of->layer == NULL ? FAMILIES : NETWORKS;
    for (int i = 0; i < most; i++) {
        if (draw_once(ctx, r, of, text, recipe)) return true;
    }
    snprintf(text, GRID_TEXT, "%s", dt_error(ctx));
    return false;
}
