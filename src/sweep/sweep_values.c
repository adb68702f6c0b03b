/* The values of a sweep: lists and ranges of its description, the grid of all combinations, and
 * random draws. Draw k of recipe i is block i * DT_SWEEP_KEYS + k of a stream of Philox
 * (core/random.c), so it depends on the sweep's seed only.
 *
 *     linear: from + u (to - from)      log: from (to / from)^u      u uniform in [0, 1)
 *
 * Integers are drawn with to + 1 in place of to and rounded down; other numbers have six digits. */
#include "sweep/sweep_plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LINEAR, LOG };

static const char *const scale_names[] = { "linear", "log", NULL };

typedef struct bounds {
    double from, to;
    int scale;
} bounds;

#define AT(field) .offset = offsetof(bounds, field)

static const dt_key bounds_keys[] = {
    { "from", DT_KEY_REAL, AT(from), .fallback = "!", .text = "the least value" },
    { "to", DT_KEY_REAL, AT(to), .fallback = "!", .text = "the largest value" },
    { "scale", DT_KEY_CHOICE, AT(scale), .choices = scale_names, .fallback = "linear",
      .text = "log: powers are equally likely" },
    { 0 },
};

/* ---- nodes ---------------------------------------------------------------------------------- */

const dt__node *dt__scalar_at(dt_recipe *memory, const dt__node *where, const char *text)
{
    dt__node *node = dt__node_create(memory, DT__SCALAR, DT__FROM_SWEEP);
    if (node == NULL) return NULL;
    node->line = where->line;
    node->column = where->column;
    node->plain = true;
    node->bytes = strlen(text);
    node->text = dt__recipe_copy(memory, text, node->bytes);
    return node;
}

const char *dt__node_text(dt_recipe *memory, const dt__node *node)
{
    if (node->kind == DT__SCALAR) return dt__recipe_format(memory, "%s", node->text);
    const char *all = node->kind == DT__MAP ? "{" : "[";
    for (const dt__node *child = node->first; child != NULL; child = child->next) {
        const char *text = dt__node_text(memory, child);
        if (child->key != NULL) text = dt__recipe_format(memory, "%s: %s", child->key->text, text);
        all = dt__recipe_format(memory, "%s%s%s", all, child == node->first ? "" : ", ", text);
    }
    return dt__recipe_format(memory, "%s%s", all, node->kind == DT__MAP ? "}" : "]");
}

/* ---- lists and ranges ----------------------------------------------------------------------- */

static bool is_integer(const dt__node *map, const char *name)
{
    int64_t value;
    const dt__node *node = dt__node_child(map, name, strlen(name));
    return node != NULL && dt__parse_int(node->text, &value) == DT__NUMBER;
}

static void read_range(dt_sweep *s, dt__swept *k)
{
    dt_recipe *file = s->file;
    dt__node *root = file->root;
    bounds b = { 0 };
    file->root = k->value;
    dt__recipe_fill_table(file, bounds_keys, &b);
    file->root = root;
    k->is_range = true;
    k->range = (dt__range){ b.from, b.to, b.scale,
                            is_integer(k->value, "from") && is_integer(k->value, "to") };
    if (k->value->bad || file->n_complaints > 0) return;
    if (s->o.method == DT_SWEEP_GRID) {
        dt__complain(
            file, k->value,
            "a grid requires a list of values for '%s'; ranges are for method random or halving",
            k->path);
    } else if (!(b.from < b.to)) {
        dt__complain(file, k->value, "'%s' requires 'from' below 'to'", k->path);
    } else if (b.scale == LOG && !(b.from > 0)) {
        dt__complain(file, k->value, "'%s': a logarithmic scale requires 'from' above 0", k->path);
    } else if (!isfinite(b.to - b.from) || fmax(fabs(b.from), fabs(b.to)) > 1e15) {
        dt__complain(file, k->value, "'%s': bounds beyond 1e15", k->path);
    }
}

/* Whether values of the key set `path`, "block.name": directly, or as maps of the block. */
static bool sets(const dt__swept *k, const char *path)
{
    const char *name = strchr(path, '.') + 1;
    if (strcmp(k->path, path) == 0) return true;
    if (!dt__path_lies_in(path, k->path) || k->value->kind != DT__SEQUENCE) return false;
    for (const dt__node *map = k->value->first; map != NULL; map = map->next) {
        if (map->kind == DT__MAP && dt__node_child(map, name, strlen(name)) != NULL) return true;
    }
    return false;
}

/* Refuses keys that a sweep sets itself, and keys of which one would overwrite the other. */
static void check_key(dt_sweep *s, const dt__swept *k)
{
    static const char *const ours[] = { "run.dir", "run.report", "run.folds" };
    static const char *const halved[] = { "train.epochs", "train.steps" };
    for (size_t i = 0; i < DT__COUNT_OF(ours); i++) {
        if (sets(k, ours[i])) {
            dt__complain(s->file, k->key, "'%s' is set by the sweep itself", ours[i]);
        }
    }
    for (size_t i = 0; i < DT__COUNT_OF(halved); i++) {
        if (s->o.method == DT_SWEEP_HALVING && sets(k, halved[i])) {
            dt__complain(s->file, k->key, "halving changes '%s' itself", halved[i]);
        }
    }
    for (const dt__swept *other = s->key; other < k; other++) {
        if (!dt__path_lies_in(k->path, other->path) && !dt__path_lies_in(other->path, k->path))
            continue;
        dt__complain(s->file, k->key, "'%s' and '%s': a value of one would replace the other's",
                     other->path, k->path);
    }
}

/* Refuses a value that occurs twice, which would train the same recipes twice. */
static void check_apart(dt_sweep *s, const dt__swept *k)
{
    for (dt__node *a = k->value->first; a != NULL; a = a->next) {
        const char *text = dt__node_text(s->file, a);
        for (const dt__node *b = k->value->first; b != a && text != NULL; b = b->next) {
            const char *before = dt__node_text(s->file, b);
            if (before == NULL || strcmp(before, text) != 0) continue;
            dt__complain(s->file, a, "'%s' has the value %s twice", k->path, text);
            return;
        }
    }
}

static void read_key(dt_sweep *s, dt__node *value)
{
    dt__swept *k = &s->key[s->n_keys];
    *k = (dt__swept){ .path = value->key->text, .key = value->key, .value = value };
    s->path[s->n_keys++] = k->path;
    check_key(s, k);
    if (value->kind == DT__MAP) {
        read_range(s, k);
    } else if (value->kind == DT__SCALAR) {
        dt__complain(s->file, value,
                     "'%s' requires a list of values, or a range such as {from: 1e-4, to: 1e-2, "
                     "scale: log}, not %s",
                     k->path, dt__recipe_quote(s->file, value));
    } else if (value->count == 0) {
        dt__complain(s->file, value, "'%s' has no values", k->path);
    } else {
        check_apart(s, k);
    }
}

void dt__sweep_read_keys(dt_sweep *s, dt__node *keys)
{
    if (keys->kind != DT__MAP || keys->count == 0) {
        dt__complain(s->file, keys,
                     "'keys' must be keys of the recipe with their values, such as "
                     "{train.optimizer.lr: [1e-3, 3e-3]}, not %s",
                     keys->kind == DT__MAP ? "none" : dt__recipe_quote(s->file, keys));
        return;
    }
    if (keys->count > DT_SWEEP_KEYS) {
        dt__complain(s->file, keys, "'keys' has %d keys; the most are %d", keys->count,
                     DT_SWEEP_KEYS);
        return;
    }
    for (dt__node *value = keys->first; value != NULL; value = value->next) read_key(s, value);
}

/* ---- trials --------------------------------------------------------------------------------- */

/* Rounds a value to six significant digits, within the range. */
static double rounded(const dt__range *r, double value)
{
    if (value == 0) return value;
    const double unit = pow(10, 5 - floor(log10(fabs(value))));
    const double near = isfinite(unit) && unit > 0 ? round(value * unit) / unit : value;
    return fmin(fmax(near, r->from), r->to);
}

static const dt__node *draw_range(dt_sweep *s, const dt__swept *k, double u)
{
    const dt__range *r = &k->range;
    const double to = r->whole ? r->to + 1 : r->to;
    double value = r->scale == LOG ? r->from * pow(to / r->from, u) : r->from + u * (to - r->from);
    char text[32];
    value = r->whole ? fmin(floor(value), r->to) : rounded(r, value);
    dt__print_real(value, text);
    if (!r->whole) return dt__scalar_at(s->file, k->value, text);
    return dt__scalar_at(s->file, k->value, dt__recipe_format(s->file, "%lld", (long long)value));
}

static const dt__node *draw(dt_sweep *s, int64_t trial, int k)
{
    uint32_t w[4];
    const dt__stream stream = dt__stream_of((uint64_t)s->o.seed, DT__FOR_SWEEPS);
    dt__philox(stream.key, (uint64_t)trial * DT_SWEEP_KEYS + (uint64_t)k, w);
    const double u = dt__unit_f64(w[0], w[1]);
    const dt__swept *key = &s->key[k];
    if (key->is_range) return draw_range(s, key, u);
    return dt__node_item(key->value, (int64_t)(u * (double)key->value->count));
}

/* Sets the values of combination i of the grid: the last key changes fastest. */
static void take_point(dt_sweep *s, dt__trial *t, int64_t i)
{
    for (int k = s->n_keys - 1; k >= 0; k--) {
        const int64_t n = s->key[k].value->count;
        t->value[k] = dt__node_item(s->key[k].value, i % n);
        i /= n;
    }
}

/* Sets the values of a combination, drawn or of the grid. False: out of memory. */
static bool take_values(dt_sweep *s, dt__trial *t, int64_t i)
{
    if (s->o.method == DT_SWEEP_GRID) take_point(s, t, i);
    for (int k = 0; k < s->n_keys; k++) {
        if (s->o.method != DT_SWEEP_GRID) t->value[k] = draw(s, i, k);
        if (t->value[k] == NULL) return false;
        t->text[k] = dt__node_text(s->file, t->value[k]);
    }
    return !s->file->out_of_memory;
}

/* The number of combinations in a grid, at most DT_SWEEP_RUNS + 1. */
static int64_t count_points(const dt_sweep *s)
{
    int64_t n = 1;
    for (int k = 0; k < s->n_keys; k++) {
        const int64_t values = s->key[k].value->count;
        n = n > DT_SWEEP_RUNS / values ? DT_SWEEP_RUNS + 1 : n * values;
    }
    return n;
}

/* Counts runs over all rungs and seeds; more than most_runs are an error. */
static void check_runs(dt_sweep *s, dt__node *keys, int64_t trials)
{
    const int64_t most = s->o.most_runs;
    int64_t n = 0;
    for (int64_t rung = 0; rung < dt__rung_count(s) && n <= most; rung++) {
        n += trials > DT_SWEEP_RUNS ? trials : dt__rung_size(s, rung);
    }
    if (n <= most / s->o.seeds) return;
    dt__complain(s->file, keys, "%s%lld recipes%s: more runs than 'most_runs' allows, %lld",
                 trials > DT_SWEEP_RUNS ? "more than " : "",
                 (long long)dt__min_i64(trials, DT_SWEEP_RUNS),
                 s->o.seeds > 1 ? " of several seeds" : "", (long long)most);
}

#define MOST_DRAWS 100 /* draws for each recipe, if rules exclude some */

void dt__sweep_make_trials(dt_sweep *s, dt__node *keys)
{
    const bool grid = s->o.method == DT_SWEEP_GRID;
    const int64_t wanted = grid ? count_points(s) : s->o.runs;
    const int64_t room = dt__min_i64(wanted, DT_SWEEP_RUNS),
                  tries = grid ? room : room * MOST_DRAWS;
    s->trial = dt__recipe_alloc(s->file, (size_t)room * sizeof *s->trial);
    s->order = dt__recipe_alloc(s->file, (size_t)room * sizeof(dt__trial *));
    for (int64_t i = 0; i < tries && s->n_trials < room && !s->file->out_of_memory; i++) {
        dt__trial *t = &s->trial[s->n_trials];
        *t = (dt__trial){ .row = { .name = t->name, .value = t->text } };
        snprintf(t->name, sizeof t->name, "%03d", (int)(s->n_trials + 1));
        if (!take_values(s, t, i)) return;
        if (dt__sweep_excludes(s, t)) s->excluded++;
        else s->order[s->n_trials++] = t;
    }
    if (s->file->out_of_memory) return;
    if (s->n_trials == 0 || (!grid && s->n_trials < room)) {
        dt__complain(s->file, s->exclude != NULL ? (dt__node *)s->exclude : keys,
                     s->n_trials == 0 ? "the rules exclude all recipes"
                                      : "the rules exclude nearly all recipes that are drawn");
    } else {
        check_runs(s, keys, wanted > room ? wanted : s->n_trials);
    }
}
