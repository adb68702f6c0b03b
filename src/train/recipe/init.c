/* Options of `model` that a recipe omits come from `model.init`: Hugging Face folders and files of
 * detent describe their model. Options that the recipe gives besides a folder must agree with it:
 * with another rotary base, say, weights would fit in shape but compute wrong results. */
#include "core/system/atomic_file.h"
#include "core/text/json.h"
#include "io/gguf/gguf.h"
#include "io/model/model.h"
#include "train/recipe/recipe.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_MOST 4096

/* Adds those children of `from` that `to` lacks; recurses into maps. */
static void merge(dt__node *to, dt__node *from)
{
    for (dt__node *child = from->first, *next; child != NULL; child = next) {
        next = child->next;
        dt__node *there = dt__node_child(to, child->key->text, child->key->bytes);
        if (there == NULL) {
            child->next = NULL;
            dt__node_append(to, child);
        } else if (there->kind == DT__MAP && child->kind == DT__MAP) {
            merge(there, child);
        }
    }
}

/* A model's options as a tree, as if written in a recipe. */
static dt__node *tree_of(dt_recipe *r, const dt_model_info *info)
{
    dt__chars t = { .ctx = r->ctx };
    dt__put_text(&t, "{family: ");
    dt__put_quoted(&t, info->family->name);
    dt__put_text(&t, "}");
    dt__node *tree = t.failed ? NULL : dt__yaml_parse(r, t.bytes, t.used, DT__FROM_INIT);
    t.used = 0;
    dt__put_options(&t, info->family->keys, info->options);
    dt__node *options = t.failed ? NULL : dt__yaml_parse(r, t.bytes, t.used, DT__FROM_INIT);
    r->out_of_memory |= t.failed;
    dt__release(r->ctx, t.bytes);
    if (tree == NULL || options == NULL) return NULL;
    merge(tree, options);
    return tree;
}

static bool is_of_family(const dt__node *model, const char *name)
{
    const dt__node *node = dt__node_child(model, "family", strlen("family"));
    return node == NULL || (node->kind == DT__SCALAR && strcmp(node->text, name) == 0);
}

static void take(dt_recipe *r, dt__node *model, dt__node *init, const dt_model_info *info,
                 bool is_folder)
{
    if (is_of_family(model, info->family->name)) {
        dt__node *tree = tree_of(r, info);
        if (tree != NULL) merge(model, tree);
        if (is_folder) r->init_family = info->family;
        if (is_folder) r->init_options = info->options;
    } else if (is_folder) {
        dt__complain(r, init, "'model.init': '%s' holds a %s, which 'model.family' is not",
                     dt__recipe_quote_text(r, init->text, init->bytes), info->family->name);
    }
}

/* A folder of a run stands for its weights: float.safetensors, else its newest checkpoint. The path
 * of the file takes the place of the folder in the recipe. */
static dt_status find_of_run(dt_recipe *r, dt__node *node)
{
    struct stat about;
    char newest[PATH_MOST];
    if (node == NULL || node->kind != DT__SCALAR || node->bytes == 0) return DT_OK;
    if (stat(node->text, &about) != 0 || !S_ISDIR(about.st_mode)) return DT_OK;
    const char *recipe = dt__recipe_format(r, "%s/recipe.yaml", node->text);
    const char *weights = dt__recipe_format(r, "%s/float.safetensors", node->text);
    if (stat(dt__recipe_format(r, "%s/config.json", node->text), &about) == 0) return DT_OK;
    if (r->out_of_memory || stat(recipe, &about) != 0) return DT_OK;
    if (stat(weights, &about) != 0) {
        const char *folder = dt__recipe_format(r, "%s/checkpoints", node->text);
        const dt_status s = dt_checkpoint_newest(r->ctx, folder, newest, sizeof newest, NULL);
        if (s != DT_OK && dt_error_of_machine(r->ctx)) return s;
        if (s != DT_OK) {
            dt__complain(r, node, "'%s' is a run without weights so far: no good checkpoint",
                         dt__recipe_quote_text(r, node->text, node->bytes));
            return DT_OK;
        }
        weights = dt__recipe_format(r, "%s", newest);
    }
    dt__say(r->ctx, "of the run %s: %s", node->text, weights);
    node->text = weights;
    node->bytes = strlen(weights);
    return DT_OK;
}

/* Other files, and missing ones, give no options; mistakes in them are reported when weights are
 * loaded. A file that cannot be read now may be readable then, so that is an error here. */
dt_status dt__recipe_take_init(dt_recipe *r)
{
    struct stat about;
    dt_file *file;
    dt__node *model = NULL, *init = dt__node_at(r, "model.init", NULL);
    DT__TRY(find_of_run(r, init));
    DT__TRY(find_of_run(r, dt__node_at(r, "train.distill.teacher", NULL)));
    if (init != NULL && init->bad) return DT_OK;
    if (init == NULL || init->kind != DT__SCALAR || init->bytes == 0) return DT_OK;
    r->init_unread = stat(init->text, &about) != 0;
    if (r->init_unread && errno != ENOENT && errno != ENOTDIR) {
        return dt__file_fail(r->ctx, "read", init->text, errno);
    }
    if (r->init_unread) return DT_OK;
    dt__node_at(r, "model", &model);
    const bool is_folder = S_ISDIR(about.st_mode) || dt__is_gguf(init->text);
    dt_status s = dt_file_open(r->ctx, init->text, &file);
    if (s == DT_OK) {
        if (dt_file_meta(file, DT__KEY_MODEL) != NULL) s = dt__model_info_read(file, &r->init_info);
        else s = DT_ERR_STATE;
        if (s == DT_OK) take(r, model, init, &r->init_info, is_folder);
        dt_file_close(file);
    }
    if (s == DT_ERR_IO && !is_folder) return s;
    r->out_of_memory |= s == DT_ERR_NOMEM;
    if (s == DT_OK || !is_folder || r->out_of_memory) return DT_OK;
    r->init_unread = true;
    dt__complain(r, init, "'model.init': %s", dt_error(r->ctx));
    return DT_OK;
}

/* Whether the option is a factor of an auxiliary loss, which affects training only. */
static bool is_of_training(const char *path)
{
    return strcmp(path, "model.moe.balance") == 0 || strcmp(path, "model.moe.z") == 0;
}

static bool has_map(const dt_key *key, const void *options)
{
    return key->given == 0 || *((const bool *)options + key->given);
}

/* Compares maps key by key, unless only one side has them. */
static void check_key(dt_recipe *r, const char *parent, const dt_key *key, const void *const of[2])
{
    const char *path = dt__recipe_join(r, parent, key->name);
    dt__node *node = dt__given(r, path);
    if (node == NULL || node->origin == DT__FROM_INIT || is_of_training(path)) return;
    if (key->type == DT_KEY_MAP && has_map(key, of[0]) && has_map(key, of[1])) {
        const void *const in[] = { (const char *)of[0] + key->offset,
                                   (const char *)of[1] + key->offset };
        for (const dt_key *k = key->keys; k->name != NULL; k++) check_key(r, path, k, in);
        return;
    }
    const char *own = dt__recipe_value(r, key, of[0]), *wanted = dt__recipe_value(r, key, of[1]);
    if (strcmp(own, wanted) == 0) return;
    dt__complain(r, node, "'%s' is %s, but it is %s in '%s'; it may be left out", path, own,
                 *wanted == 0 ? "not there" : wanted, r->options.model.init);
}

static void check_map(dt_recipe *r)
{
    const dt_model_options *m = &r->options.model;
    if (m->n_map > 0 && m->init == NULL) {
        dt__complain(r, dt__given(r, "model.map"),
                     "'model.map' names tensors of the file of 'model.init', which is not given");
    }
    for (int64_t i = 0; i < m->n_map; i++) {
        if (m->map[i].from == NULL) continue; /* missing, which is an error already */
        const char *path = dt__recipe_format(r, "model.map.%lld", (long long)i);
        if (dt_name_rule_check(r->ctx, &m->map[i]) == DT_OK) continue;
        dt__complain(r, dt__given(r, path), "'%s': %s", path, dt_error(r->ctx));
    }
}

void dt__recipe_check_init(dt_recipe *r)
{
    const dt_model_options *m = &r->options.model;
    check_map(r);
    const void *const of[] = { m->options, r->init_options };
    if (r->init_options == NULL || r->init_family != m->family) return;
    for (const dt_key *k = m->family->keys; k->name != NULL; k++) check_key(r, "model", k, of);
}
