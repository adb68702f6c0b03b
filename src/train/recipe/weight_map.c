/* Reads a map of weights:
 *
 *     layout: keras
 *     tensors:
 *       'features.{i}.conv.weight': 'layers.{i}.weight'
 *       'head.kernel': {to: head.weight, transpose: true}
 *       'ema.{rest...}': {skip: true}
 *
 * The order of `tensors` is that in which the patterns are tried. */
#include "train/recipe/recipe.h"

#include <string.h>

#define AT(field) .offset = offsetof(dt_weight_rule, field)

static const dt_key rule_keys[] = {
    { "to", DT_KEY_STRING, AT(to), .text = "name in the network" },
    { "skip", DT_KEY_BOOL, AT(skip), .fallback = "false", .text = "such tensors are left out" },
    { "transpose", DT_KEY_BOOL, AT(transpose), .fallback = "false",
      .text = "two dimensions the other way round" },
    { "permute", DT_KEY_INTS, AT(permute), .least = 0, .most = DT_MAX_RANK - 1,
      .text = "which dimension of the file each dimension of the network is" },
    { "shape", DT_KEY_INTS, AT(shape), .least = 1, .most = DT_NO_LIMIT,
      .text = "shape after that, with as many elements" },
    { 0 },
};

#undef AT

typedef struct head {
    int layout;
    const char *tensors; /* in the table for messages */
} head;

static const dt_key head_keys[] = {
    { "layout", DT_KEY_CHOICE, .offset = offsetof(head, layout), .choices = dt_weight_layouts,
      .fallback = "pytorch",
      .text = "keras: kernels [height, width, in, out], matrices [in, out]" },
    { "tensors", DT_KEY_STRING, .offset = offsetof(head, tensors),
      .text = "names in the network by patterns of names in the file" },
    { 0 },
};

/* Removes `tensors` from the tree, as the table describes only the other keys. */
static dt__node *take_tensors(dt__node *root)
{
    dt__node **place = &root->first;
    while (*place != NULL && strcmp((*place)->key->text, "tensors") != 0) place = &(*place)->next;
    dt__node *tensors = *place;
    if (tensors == NULL) return NULL;
    *place = tensors->next;
    tensors->next = NULL;
    root->count--;
    return tensors;
}

static void read_rule(dt_recipe *r, dt__node *node, dt_weight_rule *rule)
{
    if (node->kind == DT__MAP) {
        dt__node *root = r->root;
        r->root = node;
        dt__recipe_fill_table(r, rule_keys, rule);
        r->root = root;
    } else if (node->kind == DT__SCALAR) {
        rule->to = node->text;
    } else {
        dt__complain(r, node,
                     "'%.80s': expected a name, or a map such as {to: NAME, transpose: "
                     "true}",
                     node->key->text);
    }
    rule->from = node->key->text;
    if (node->bad || r->n_complaints > 0) return;
    if (dt_weight_rule_check(r->ctx, rule) == DT_OK) return;
    dt__complain(r, node, "%s", dt_error(r->ctx));
}

static void read_rules(dt_recipe *r, dt__node *tensors, dt_weight_map *map)
{
    if (tensors->kind != DT__MAP) {
        dt__complain(r, tensors, "'tensors' must be a map of patterns: NAME: NAME, a line each");
        return;
    }
    dt_weight_rule *rule = dt__recipe_alloc(r, (size_t)tensors->count * sizeof *rule + 1);
    if (rule == NULL) return;
    for (dt__node *node = tensors->first; node != NULL; node = node->next) {
        read_rule(r, node, &rule[map->n++]);
    }
    map->rule = rule;
}

static dt_status read(dt_recipe *r, dt_weight_map *map)
{
    head h = { 0 };
    DT__TRY(dt__recipe_parse_file(r));
    if (r->root == NULL || r->out_of_memory) return DT_OK;
    dt__node *tensors = r->root->kind == DT__MAP ? take_tensors(r->root) : NULL;
    dt__recipe_fill_table(r, head_keys, &h);
    map->layout = h.layout;
    if (tensors != NULL) read_rules(r, tensors, map);
    return DT_OK;
}

dt_status dt_weight_map_read(dt_ctx *ctx, const char *path, dt_weight_map *map, dt_recipe **out)
{
    DT__NEED4(ctx, ctx, path, map, out);
    *out = NULL;
    *map = (dt_weight_map){ .n = 0 };
    dt_recipe *r = dt__recipe_empty(ctx, path, "map");
    if (r == NULL) return DT_ERR_NOMEM;
    dt_status s = r->out_of_memory ? DT_OK : read(r, map);
    if (s == DT_OK) s = dt__recipe_verdict(r);
    if (s == DT_OK || s == DT_ERR_CONFIG) *out = r;
    else dt_recipe_free(r);
    return s;
}
