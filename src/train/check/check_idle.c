/* Warns of keys that have no effect beside another key, and says which one takes effect. A recipe
 * may contain both, for an override to choose. */
#include "ptq/matrix.h"
#include "train/recipe/choices.h"
#include "train/recipe/recipe.h"

#include <stdio.h>
#include <string.h>

static bool epochs(const dt_recipe *r) { return r->options.train.steps > 0; }

static bool dampening(const dt_recipe *r)
{
    const dt_optimizer_options *o = &r->options.train.optimizer;
    return o->name == DT_SGD && o->momentum == 0 && o->dampening > 0;
}

static bool total_steps(const dt_recipe *r)
{
    const int name = r->options.train.schedule.name;
    const unsigned without = DT__BIT(DT_CONSTANT) | DT__BIT(DT_STEP) | DT__BIT(DT_MULTISTEP) |
                             DT__BIT(DT_COSINE_RESTARTS) | DT__BIT(DT_PLATEAU);
    return r->options.train.schedule.total_steps > 0 && (without & DT__BIT(name)) != 0;
}

static bool temperature(const dt_recipe *r) { return r->options.train.distill.weight == 0; }

static bool features(const dt_recipe *r)
{
    return r->options.train.distill.given && r->options.train.distill.features.n == 0;
}

static bool freezing(const dt_recipe *r)
{
    return r->options.qat.given && r->options.qat_schedule.freeze == 0;
}

static bool layer_figures(const dt_recipe *r)
{
    return !r->options.qat.given && r->options.train.log.layers_every_steps > 0;
}

static bool sync_norm(const dt_recipe *r)
{
    return r->options.cluster.sync_norm && r->options.train.shards < 2;
}

static bool no_features(const dt_recipe *r)
{
    return r->options.data.features.kind == DT_FEATURES_NONE;
}

static bool coefficients(const dt_recipe *r)
{
    return r->options.data.features.kind == DT_FEATURES_LOG_MEL;
}

static bool convert_share(const dt_recipe *r)
{
    return r->options.convert.rounding.rounding.damping_absolute > 0;
}

static bool quantize_share(const dt_recipe *r)
{
    return r->options.quantize.rounding.rounding.damping_absolute > 0;
}

static bool kept(const dt_recipe *r)
{
    const dt_checkpoint_options *o = &r->options.train.checkpoint;
    return o->every_steps == 0 && o->every_minutes == 0;
}

static bool decay(const dt_recipe *r) { return r->options.train.optimizer.weight_decay == 0; }

/* Whether the preset leaves this operand float in all layers and no rule quantizes it. */
static bool stays_float(const dt_recipe *r, bool weight)
{
    const dt_qat_options *o = &r->options.qat;
    const dt_quant_patch *all = weight ? &o->weight : &o->activation;
    bool is = all->has_quantize && !all->quantize;
    for (int64_t i = 0; i < o->n_rules; i++) {
        const dt_quant_patch *p = weight ? &o->rules[i].weight : &o->rules[i].activation;
        is = is && !(p->has_quantize && p->quantize);
    }
    return is;
}

static bool weight_float(const dt_recipe *r) { return stays_float(r, true); }
static bool activation_float(const dt_recipe *r) { return stays_float(r, false); }

static bool calibration(const dt_recipe *r)
{
    return !dt__needs_data(dt__method_of(r->options.convert.rounding.rounder));
}

static bool weight_own(const dt_recipe *r)
{
    const dt_quant_patch *p = &r->options.qat.weight;
    return p->has_own && !(p->has_scheme && p->quant.scheme == DT_SCHEME_OWN);
}

static bool activation_own(const dt_recipe *r)
{
    const dt_quant_patch *p = &r->options.qat.activation;
    return p->has_own && !(p->has_scheme && p->quant.scheme == DT_SCHEME_OWN);
}

static const struct {
    /* by: the key that takes effect instead; `path` may end with .*, all keys of that map but
     * `by` */
    const char *path, *by;
    bool (*is_idle)(const dt_recipe *r);
    const char *why;
} idle[] = {
    { "train.epochs", "train.steps", epochs,
      "'train.steps' says how long training is; ~train.steps leaves it out" },
    { "train.optimizer.dampening", "train.optimizer.momentum", dampening,
      "'train.optimizer.momentum' is 0" },
    { "train.schedule.total_steps", "train.schedule.name", total_steps,
      "this 'train.schedule.name' has no end" },
    { "train.distill.temperature", "train.distill.weight", temperature,
      "'train.distill.weight' is 0" },
    { "train.distill.feature_weight", "train.distill.features", features,
      "'train.distill.features' names no layer" },
    { "qat.freeze_from", "qat.freeze", freezing, "'qat.freeze' is 0" },
    { "qat.freeze_momentum", "qat.freeze", freezing, "'qat.freeze' is 0" },
    { "train.log.layers_every_steps", "qat", layer_figures,
      "there is no 'qat', of whose layers it is" },
    { "cluster.sync_norm", "train.shards", sync_norm, "'train.shards' is below 2" },
    { "data.features.*", "data.features.kind", no_features, "'data.features.kind' is none" },
    { "data.features.coefficients", "data.features.kind", coefficients,
      "'data.features.kind' is log_mel" },
    { "convert.calibration", "convert.rounder", calibration,
      "'convert.rounder' is nearest, which reads no data" },
    { "convert.rounding.damping", "convert.rounding.damping_absolute", convert_share,
      "'convert.rounding.damping_absolute' is above 0" },
    { "qat.weight.own", "qat.weight.scheme", weight_own, "'qat.weight.scheme' is not own" },
    { "qat.activation.own", "qat.activation.scheme", activation_own,
      "'qat.activation.scheme' is not own" },
    { "quantize.rounding.damping", "quantize.rounding.damping_absolute", quantize_share,
      "'quantize.rounding.damping_absolute' is above 0" },
    { "train.checkpoint.keep", "train.checkpoint.every_steps", kept,
      "'train.checkpoint.every_steps' and 'every_minutes' are 0, so that one is saved, at the "
      "end" },
    { "train.optimizer.decay", "train.optimizer.weight_decay", decay,
      "'train.optimizer.weight_decay' is 0" },
    { "qat.weight.*", "qat.weight.quantize", weight_float, "'qat.weight.quantize' is false" },
    { "qat.activation.*", "qat.activation.quantize", activation_float,
      "'qat.activation.quantize' is false" },
};

/* Length of the map's path, for a path that stands for all keys of a map; 0: one key. */
static size_t all_of(const char *path)
{
    const size_t n = strlen(path);
    return path[n - 1] == '*' ? n - 2 : 0;
}

static bool is_of(int i, const char *path)
{
    const size_t n = all_of(idle[i].path);
    if (n == 0) return strcmp(idle[i].path, path) == 0;
    return strncmp(idle[i].path, path, n) == 0 && path[n] == '.' && strcmp(idle[i].by, path) != 0;
}

/* Whether an override makes a key of the file idle, which is intended and needs no warning. */
static bool is_meant(const dt__node *node, const dt__node *by)
{
    return by != NULL && by->origin != DT__FROM_FILE && node->origin == DT__FROM_FILE;
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* The norm named in a map of settings; NULL: none. */
static const dt__node *norm_in(const dt__node *map)
{
    const dt__node *norm = map->kind == DT__MAP ? dt__node_child(map, "norm", 4) : NULL;
    return norm == NULL || norm->kind != DT__SCALAR ? NULL : norm;
}

/* Keys that norms read: all read eps, batch norms also momentum. */
static const char *const norm_keys[] = { "momentum", "eps" };

static bool norm_reads(const char *norm, const char *key)
{
    if (strcmp(key, "momentum") == 0) return strcmp(norm, "batch") == 0;
    return strcmp(norm, "none") != 0;
}

bool dt__norm_reads(const dt_key *keys, const char *base, const char *key)
{
    bool is_setting = false;
    for (int i = 0; i < DT__COUNT_OF(norm_keys); i++) is_setting |= strcmp(norm_keys[i], key) == 0;
    for (; is_setting && keys->name != NULL; keys++) {
        if (strcmp(keys->name, "norm") != 0 || keys->type != DT_KEY_CHOICE) continue;
        return norm_reads(keys->choices[*(const int *)(const void *)(base + keys->offset)], key);
    }
    return true;
}

static void remark_norm(dt_recipe *r, const dt__node *map, const char *norm)
{
    for (int i = 0; i < DT__COUNT_OF(norm_keys); i++) {
        const char *key = norm_keys[i];
        const dt__node *node = dt__node_child(map, key, strlen(key));
        if (node == NULL || norm_reads(norm, key) || is_meant(node, norm_in(map))) continue;
        dt__remark(r, node, "'%s' is not read: 'norm' is %s", key, norm);
    }
}

/* Warns for layers of a list, at any depth. */
static void remark_layers(dt_recipe *r, const dt__node *node)
{
    static const char *const kinds[] = { "linear", "conv1d", "conv2d", "conv_transpose1d",
                                         "conv_transpose2d" };
    for (int i = 0; i < DT__COUNT_OF(kinds) && node->kind == DT__MAP; i++) {
        if (dt__node_child(node, kinds[i], strlen(kinds[i])) == NULL) continue;
        const dt__node *norm = norm_in(node);
        remark_norm(r, node, norm == NULL ? "none" : norm->text);
    }
    const dt__node *child = node->kind == DT__SCALAR ? NULL : node->first;
    for (; child != NULL; child = child->next) remark_layers(r, child);
}

/* The norm of the blocks of a cnn: batch norm, if a block has it. */
static const char *norm_of_blocks(const dt__node *blocks)
{
    const char *found = "none";
    const dt__node *block = blocks->kind == DT__SEQUENCE ? blocks->first : NULL;
    for (; block != NULL; block = block->next) {
        const dt__node *norm = norm_in(block);
        if (norm == NULL || strcmp(norm->text, "batch") == 0) return "batch";
        if (strcmp(norm->text, "none") != 0) found = norm->text;
    }
    return found;
}

/* The norm of the family's layers; NULL: no choice, or a list of layers. */
static const char *norm_of_model(const dt_recipe *r)
{
    static const char *const families[][2] = { { "mlp", "none" },
                                               { "resnet", "batch" },
                                               { "unet", "batch" } }; /* with their default norms */
    const dt__node *model = dt__given(r, "model"), *family = dt__given(r, "model.family"),
                   *blocks = dt__given(r, "model.blocks");
    if (model == NULL || family == NULL || family->kind != DT__SCALAR) return NULL;
    const dt__node *norm = norm_in(model);
    for (int i = 0; i < DT__COUNT_OF(families); i++) {
        if (strcmp(family->text, families[i][0]) != 0) continue;
        return norm == NULL ? families[i][1] : norm->text;
    }
    return strcmp(family->text, "cnn") == 0 && blocks != NULL ? norm_of_blocks(blocks) : NULL;
}

static void remark_norms(dt_recipe *r)
{
    const dt__node *model = dt__given(r, "model"), *layers = dt__given(r, "model.layers");
    const char *norm = norm_of_model(r);
    if (norm != NULL) remark_norm(r, model, norm);
    else if (layers != NULL) remark_layers(r, layers);
}

/* ---- all of them ---------------------------------------------------------------------------- */

bool dt__recipe_is_idle(const dt_recipe *r, const char *path)
{
    const char *norm = strncmp(path, "model.", 6) == 0 ? norm_of_model(r) : NULL;
    for (int i = 0; i < DT__COUNT_OF(norm_keys) && norm != NULL; i++) {
        if (strcmp(path + 6, norm_keys[i]) == 0 && !norm_reads(norm, norm_keys[i])) return true;
    }
    for (int i = 0; i < DT__COUNT_OF(idle); i++) {
        if (is_of(i, path) && idle[i].is_idle(r)) return true;
    }
    return false;
}

static void remark_all(dt_recipe *r, int i, const dt__node *by)
{
    char map[64];
    const int n = (int)all_of(idle[i].path);
    snprintf(map, sizeof map, "%.*s", n, idle[i].path);
    const dt__node *all = dt__given(r, map);
    const dt__node *node = all == NULL || all->kind != DT__MAP ? NULL : all->first;
    for (; node != NULL; node = node->next) {
        if (node == by || is_meant(node, by)) continue;
        dt__remark(r, node, "'%s.%s' is not read: %s", map, node->key->text, idle[i].why);
    }
}

void dt__recipe_remark_idle(dt_recipe *r)
{
    for (int i = 0; i < DT__COUNT_OF(idle); i++) {
        const dt__node *by = dt__node_at(r, idle[i].by, NULL);
        if (all_of(idle[i].path) > 0 && idle[i].is_idle(r)) remark_all(r, i, by);
        const dt__node *node = dt__given(r, idle[i].path);
        if (node == NULL || !idle[i].is_idle(r) || is_meant(node, by)) continue;
        dt__remark(r, node, "'%s' is not read: %s", idle[i].path, idle[i].why);
    }
    remark_norms(r);
}
