/* `qat.recipe: best`: sets keys of `qat` by the bits of weights, the kind of model, and whether the
 * weights are trained, as measured in docs/qat-guide.md ("What is best at each width"). If half
 * levels are set, rules with other bits get scheme symmetric. Keys in the recipe are kept, as are
 * the schemes of presets and targets with their own arithmetic. */
#include "core/text/row_named.h"
#include "core/text/number.h"
#include "train/recipe/recipe.h"

#include <math.h>
#include <string.h>

typedef struct choice {
    const char *path, *value; /* NULL: computed by rate_of from `lr` */
    double lr;
    bool is_scheme; /* a scheme, not set if the preset's arithmetic has its own */
    int rules;      /* largest change that rules may make to weights; ANYTHING: not limited */
    int where;      /* bit set of required conditions; 0: always */
    /* needs weights without adapters that are whole in each process, and a static or learned
     * range */
    bool freezes;
} choice;

/* Conditions: scales of groups, or of channels if the recipe sets them; QAT from random initial
 * weights, or from trained weights. */
enum { GROUPS = 1, CHANNELS = 2, DRAWN = 4, TRAINED = 8 };
/* rules change nothing relevant but whether weights are quantized (SKIPPED), or also bits (BITS) */
enum { ANYTHING, SKIPPED, BITS };
enum { DENSE, RECURRENT, CONVOLUTIONAL, LANGUAGE, KINDS };
enum { TERNARY = 1, MOST_BITS = 4, CHOICES = 7 }; /* index of the choices: bits, or TERNARY */

#define RATE_OF(rate)                                                                              \
    {                                                                                              \
        "qat.rate", NULL, .lr = (rate)                                                             \
    }
/* For QAT from random initial weights, unless the recipe sets the start. */
#define START(share)                                                                               \
    {                                                                                              \
        "qat.start_share", (share), .where = DRAWN                                                 \
    }
/* `of_range`: an earlier row has made the range static. */
#define FREEZE(of_range, most, place)                                                              \
    { "qat.freeze",    "0.02",           .is_scheme = (of_range),                                  \
      .rules = (most), .where = (place), .freezes = true },                                        \
    {                                                                                              \
        "qat.freeze_from", "0.1", .is_scheme = (of_range), .rules = (most), .where = (place),      \
                                  .freezes = true                                                  \
    }

#define STATIC                                                                                     \
    {                                                                                              \
        "qat.weight.range", "static", .is_scheme = true, .rules = BITS, .where = TRAINED           \
    }

static const choice choices[KINDS][MOST_BITS + 1][CHOICES] = {
    [DENSE] = {
        [TERNARY] = { RATE_OF(0.024), FREEZE(false, SKIPPED, 0), START("0.05") },
        [2] = { { "qat.weight.scheme", "asymmetric", .is_scheme = true, .where = GROUPS },
                { "qat.damping", "1e-3", .where = GROUPS },
                { "qat.weight.range", "static", .is_scheme = true, .where = CHANNELS },
                RATE_OF(0.012), START("0.1") },
        [3] = { { "qat.weight.scheme", "asymmetric", .is_scheme = true }, RATE_OF(0.012),
                START("0.1") },
        [4] = { RATE_OF(0.012), START("0.1") },
    },
    [RECURRENT] = {
        [TERNARY] = { RATE_OF(0.048), START("0.05") },
        [2] = { { "qat.weight.scheme", "asymmetric", .is_scheme = true },
                { "qat.damping", "1e-3" }, RATE_OF(0.012), START("0.1") },
        [3] = { { "qat.weight.scheme", "asymmetric", .is_scheme = true }, RATE_OF(0.012),
                START("0.1") },
        [4] = { RATE_OF(0.012), START("0.1") },
    },
    [CONVOLUTIONAL] = {
        [TERNARY] = { RATE_OF(0.024), FREEZE(false, SKIPPED, 0), START("0.05") },
        [2] = { { "qat.weight.scheme", "half_levels", .is_scheme = true, .rules = SKIPPED },
                { "qat.weight.range", "static", .is_scheme = true },
                { "qat.weight.granularity", "channel", .is_scheme = true },
                RATE_OF(0.012),
                FREEZE(true, SKIPPED, 0), START("0.33") },
        [3] = { { "qat.weight.range", "static", .is_scheme = true },
                { "qat.weight.granularity", "channel", .is_scheme = true },
                RATE_OF(0.012),
                FREEZE(true, SKIPPED, 0), START("0.33") },
        [4] = { { "qat.weight.range", "static", .is_scheme = true },
                { "qat.weight.granularity", "channel", .is_scheme = true },
                RATE_OF(0.012), START("0.33") },
    },
    [LANGUAGE] = {
        [TERNARY] = { STATIC, FREEZE(true, BITS, TRAINED),
                      { "qat.damping", "1e-3", .where = DRAWN } },
        [2] = { { "qat.weight.scheme", "half_levels", .is_scheme = true, .rules = BITS,
                  .where = TRAINED },
                STATIC, FREEZE(true, BITS, TRAINED),
                { "qat.weight.scheme", "asymmetric", .is_scheme = true, .where = DRAWN },
                { "qat.damping", "1e-3", .where = DRAWN } },
        [3] = { { "qat.weight.scheme", "asymmetric", .is_scheme = true } },
    },
};

const char *const dt__best_names[] = { "given", "best", NULL };

static const char *text_at(dt_recipe *r, const char *path, const char *otherwise)
{
    const dt__node *node = dt__node_at(r, path, NULL);
    return node != NULL && node->kind == DT__SCALAR ? node->text : otherwise;
}

static bool is_chosen(const dt__node *node)
{
    return node != NULL && node->origin == DT__FROM_BEST;
}

/* Whether the scheme is fixed: a preset or runtime has its own arithmetic, or the recipe sets a
 * scheme other than ternary. */
static bool has_scheme(dt_recipe *r)
{
    static const char *const free[] = { "int8-dynamic-int4-weight", "int4-weight",
                                        "int8-dynamic-int8-weight", "int8-static-int8-weight" };
    const char *preset = text_at(r, "qat.preset", free[0]);
    if (strcmp(text_at(r, "qat.target", "detent"), "detent") != 0) return true;
    if (strcmp(text_at(r, "qat.weight.scheme", "ternary"), "ternary") != 0) return true;
    return !DT__IS_ONE_OF(preset, free);
}

/* Whether a list of layers contains a layer whose key begins with `kind`. */
static bool has_layer(const dt__node *n, const char *kind)
{
    for (const dt__node *c = n == NULL ? NULL : n->first; c != NULL; c = c->next) {
        if (c->key != NULL && strncmp(c->key->text, kind, strlen(kind)) == 0) return true;
        if (has_layer(c, kind)) return true;
    }
    return false;
}

static bool has_memory(dt_recipe *r)
{
    static const char *const memories[] = { "gru", "lstm", "rnn" };
    for (int i = 0; i < DT__COUNT_OF(memories); i++) {
        if (has_layer(dt__node_at(r, "model.layers", NULL), memories[i])) return true;
    }
    return false;
}

static int where(dt_recipe *r)
{
    const bool channels = strcmp(text_at(r, "qat.weight.granularity", ""), "channel") == 0;
    const bool trained = dt__node_at(r, "model.init", NULL) != NULL ||
                         strcmp(text_at(r, "qat.start_step", "0"), "0") != 0 ||
                         strcmp(text_at(r, "qat.start_share", "0"), "0") != 0;
    return (channels ? CHANNELS : GROUPS) | (trained ? TRAINED : DRAWN);
}

static int kind_of(dt_recipe *r)
{
    static const char *const families[] = { "cnn", "resnet", "unet", "gpt", "llama" };
    const char *family = text_at(r, "model.family", "");
    for (int i = 0; i < DT__COUNT_OF(families); i++) {
        if (strcmp(family, families[i]) == 0) return i < 3 ? CONVOLUTIONAL : LANGUAGE;
    }
    if (has_layer(dt__node_at(r, "model.layers", NULL), "conv")) return CONVOLUTIONAL;
    return has_memory(r) ? RECURRENT : DENSE;
}

static bool is_int4(const char *preset)
{
    return strstr(preset, "int4") != NULL && strncmp(preset, "device", 6) != 0;
}

/* The common bits of all weights that no rule changes: 2 to 4, or TERNARY; else 0. Other schemes of
 * few levels count as 2 bits. */
static int bits_of(dt_recipe *r)
{
    static const char *const few[] = { "half_levels", "binary" };
    const char *preset = text_at(r, "qat.preset", "int8-dynamic-int4-weight");
    const char *scheme = text_at(r, "qat.weight.scheme", "");
    if (strcmp(scheme, "ternary") == 0) return TERNARY;
    if (DT__IS_ONE_OF(scheme, few)) return 2;
    const char *bits = text_at(r, "qat.weight.bits", is_int4(preset) ? "4" : "");
    return bits[0] >= '2' && bits[0] <= '4' && bits[1] == 0 ? bits[0] - '0' : 0;
}

/* The factor, from 1 to 500, that makes the learning rate `wanted`, for optimizers whose updates
 * are as large as the rate; for others 4. */
static const char *rate_of(dt_recipe *r, double wanted)
{
    const char *name = text_at(r, "train.optimizer.name", "adamw");
    if (strncmp(name, "adam", 4) != 0) return "4";
    double lr = 0;
    const dt__number is = dt__parse_real(text_at(r, "train.optimizer.lr", "1e-3"), &lr);
    if (is != DT__NUMBER || lr <= 0) return "1"; /* an error elsewhere, or nothing is trained */
    return dt__recipe_format(r, "%.3g", fmin(500 * wanted, fmax(1, wanted / lr)));
}

/* Whether a key of a rule sets bits, or a preset of integers. */
static bool gives_bits(const dt__node *n)
{
    if (n->key == NULL || n->kind != DT__SCALAR) return false;
    if (strcmp(n->key->text, "scheme") == 0) return strcmp(n->text, "symmetric") == 0;
    return strcmp(n->key->text, "bits") == 0;
}

/* Whether rules change more about weights than `most` allows. */
static bool rules_change_more(dt_recipe *r, int most)
{
    const dt__node *rules = dt__node_at(r, "qat.rules", NULL);
    if (most == ANYTHING || rules == NULL) return false;
    for (const dt__node *rule = rules->first; rule != NULL; rule = rule->next) {
        if (rule->kind != DT__MAP) continue;
        const dt__node *weight = dt__node_child(rule, "weight", strlen("weight"));
        for (const dt__node *c = weight == NULL ? NULL : weight->first; c != NULL; c = c->next) {
            const char *key = c->key == NULL ? "" : c->key->text;
            if (strcmp(key, "quantize") == 0) continue;
            if (most == SKIPPED || !gives_bits(c)) return true;
        }
    }
    return false;
}

/* If other weights get half levels, rules with other bits get scheme symmetric. */
static void give_rules_schemes(dt_recipe *r, const dt__node *at)
{
    const dt__node *scheme = dt__node_at(r, "qat.weight.scheme", NULL);
    const dt__node *rules = dt__node_at(r, "qat.rules", NULL);
    if (!is_chosen(scheme) || strcmp(scheme->text, "half_levels") != 0 || rules == NULL) return;
    for (int i = 0; i < rules->count; i++) {
        const char *bits = dt__recipe_format(r, "qat.rules.%d.weight.bits", i);
        const char *path = dt__recipe_format(r, "qat.rules.%d.weight.scheme", i);
        if (strcmp(text_at(r, bits, "2"), "2") == 0 || dt__node_at(r, path, NULL) != NULL) continue;
        dt__node *value = dt__yaml_parse(r, "symmetric", strlen("symmetric"), DT__FROM_BEST);
        if (value != NULL) dt__recipe_graft(r, &(dt__graft){ path, at, value });
    }
}

/* Whether the recipe's other keys exclude a choice. */
static bool is_excluded(dt_recipe *r, const choice *c)
{
    const char *range = text_at(r, "qat.weight.range", "");
    const bool learned = strcmp(range, "learned") == 0;
    const bool groups = dt__node_at(r, "qat.weight.group_size", NULL) != NULL;
    const dt__node *freeze = dt__node_at(r, "qat.freeze", NULL);
    const bool starts = dt__node_at(r, "qat.start_step", NULL) != NULL;
    if ((c->where & ~where(r)) != 0) return true;
    if (starts && strcmp(c->path, "qat.start_share") == 0) return true;
    if (c->freezes && (dt__node_at(r, "adapters", NULL) != NULL ||
                       strcmp(text_at(r, "cluster.experts", ""), "spread") == 0 ||
                       (freeze != NULL && freeze->origin != DT__FROM_BEST) ||
                       (c->is_scheme && strcmp(range, "dynamic") == 0))) {
        return true;
    }
    return rules_change_more(r, c->rules) ||
           (learned && c->value != NULL && strcmp(c->value, "asymmetric") == 0) ||
           (groups && strcmp(c->path, "qat.weight.granularity") == 0);
}

void dt__recipe_take_best(dt_recipe *r)
{
    const dt__node *node = dt__node_at(r, "qat.recipe", NULL);
    if (strcmp(text_at(r, "qat.recipe", dt__best_names[0]), "best") != 0) return;
    const choice *of = choices[kind_of(r)][bits_of(r)];
    const bool fixed = has_scheme(r);
    for (int i = 0; i < CHOICES && of[i].path != NULL; i++) {
        if (dt__node_at(r, of[i].path, NULL) != NULL || (fixed && of[i].is_scheme)) continue;
        if (is_excluded(r, &of[i])) continue;
        const char *text = of[i].value != NULL ? of[i].value : rate_of(r, of[i].lr);
        dt__node *value = dt__yaml_parse(r, text, strlen(text), DT__FROM_BEST);
        const dt__graft graft = { of[i].path, node, value };
        if (value != NULL) dt__recipe_graft(r, &graft);
    }
    give_rules_schemes(r, node);
}

/* Appends "PATH: VALUE" of a choice that was made to the text. */
static const char *append(dt_recipe *r, const char *text, const char *path)
{
    const dt__node *node = dt__node_at(r, path, NULL);
    if (!is_chosen(node) || strstr(text, path) != NULL) return text;
    return dt__recipe_format(r, "%s%s%s: %s", text, *text != 0 ? ", " : "", path, node->text);
}

const char *dt__recipe_best(dt_recipe *r)
{
    const choice *all = &choices[0][0][0];
    const char *text = "";
    for (int i = 0; i < KINDS * (MOST_BITS + 1) * CHOICES; i++) {
        if (all[i].path != NULL) text = append(r, text, all[i].path);
    }
    return text;
}
