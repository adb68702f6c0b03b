/* Checks that the tables cannot express: keys that depend on each other, and files that must exist.
 * check_limited.c, check_train.c, check_data.c and others contain those of one block; here are
 * those across blocks of a recipe.
 *
 * Every error is at a key that was given. A check is skipped if one of its keys has an error
 * already. */
#include "train/recipe/recipe.h"

dt__node *dt__given(const dt_recipe *r, const char *path)
{
    dt__node *node = dt__node_at(r, path, NULL);
    return node == NULL || node->bad ? NULL : node;
}

bool dt__is_bad(const dt_recipe *r, const char *path)
{
    const dt__node *node = dt__node_at(r, path, NULL);
    return node != NULL && node->bad;
}

bool dt__has_bad(const dt_recipe *r, const char *path)
{
    const dt__node *map = dt__node_at(r, path, NULL);
    const dt__node *child = map == NULL ? NULL : map->first;
    while (child != NULL && !child->bad) child = child->next;
    return child != NULL;
}

/* Adds an error in the options of the family, at its key. */
static void add_fault(void *user, const char *path, const char *text)
{
    dt_recipe *r = user;
    const char *key = dt__recipe_format(r, "model.%s", path);
    dt_recipe_refuse(r, key, "'%s': %s", key, text);
}

static void check_family(dt_recipe *r)
{
    const dt_model_options *m = &r->options.model;
    if (m->family == NULL || m->family->check == NULL || dt__has_bad(r, "model")) return;
    if (!dt__recipe_reads(r, "model")) return;
    if (r->model_lacks_key || r->init_unread ||
        (r->only_quantizes && dt__node_at(r, "model", NULL) == NULL))
        return;
    if (m->family->check(r->ctx, m->options, add_fault, r) != DT_OK) r->out_of_memory = true;
}

/* Without a file the teacher is the model itself at qat.start_step. */
static void check_distill(dt_recipe *r)
{
    const dt_recipe_options *o = &r->options;
    dt__node *node = dt__given(r, "train.distill");
    if (node != NULL && o->train.distill.features.n > 0 && o->train.recompute) {
        dt__complain(r, node,
                     "'train.distill.features' and 'train.recompute' exclude each other: outputs "
                     "that are compared would be computed again");
    }
    if (node == NULL || r->only_quantizes || o->train.distill.teacher != NULL) return;
    if (dt__is_bad(r, "train.distill.teacher") || dt__is_bad(r, "qat.start_step") ||
        dt__is_bad(r, "qat.start_share")) {
        return;
    }
    if (!o->qat.given) {
        dt__complain(r, node,
                     "'train.distill' has no teacher: without 'train.distill.teacher' that is the "
                     "model before it is quantized, and there is no 'qat'");
    } else if (!dt__starts_in_float(o) && o->model.init == NULL) {
        dt__complain(r, node,
                     "'train.distill' has no teacher: at 'qat.start_step' 0 the weights are drawn, "
                     "not trained; 'model.init' or 'train.distill.teacher' would give one");
    }
}

static void check_backward(dt_recipe *r)
{
    const dt_recipe_options *o = &r->options;
    dt__node *node = dt__given(r, "train.backward");
    if (node == NULL || r->only_quantizes || o->train.backward == DT_BACKWARD_FLOAT) return;
    if (!o->qat.given) {
        dt__complain(r, node, "'train.backward' is about quantized layers, and there is no 'qat'");
    } else if (o->qat.forward == DT_FORWARD_SIMULATED) {
        dt__complain(r, node,
                     "'train.backward' multiplies the integers of 'qat.forward: integer', "
                     "which here is simulated");
    }
}

static void check_baseline(dt_recipe *r)
{
    dt__node *node = dt__given(r, "train.float_baseline");
    if (node != NULL && r->options.train.float_baseline && dt__node_at(r, "qat", NULL) == NULL) {
        dt__complain(r, node, "'train.float_baseline' compares with 'qat', which is not there");
    }
}

void dt__recipe_check(dt_recipe *r)
{
    static void (*const checks[])(dt_recipe *) = {
        dt__recipe_check_limited,
        check_family,
        dt__recipe_check_train,
        check_baseline,
        dt__recipe_check_ranges,
        dt__recipe_check_quant,
        dt__recipe_check_init,
        dt__recipe_check_pack,
        check_distill,
        check_backward,
        dt__recipe_check_data,
        dt__recipe_remark_idle,
    };
    if (r->root->kind != DT__MAP) return;
    for (int i = 0; i < DT__COUNT_OF(checks) && !r->out_of_memory; i++) checks[i](r);
}
