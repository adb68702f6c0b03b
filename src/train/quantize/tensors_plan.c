/* Plans each tensor of a file, quantized or copied, by its rank and dtype and by the rules that
 * match it. */
#include "core/text/row_named.h"
#include "core/text/glob.h"
#include "core/tensor.h"
#include "io/model/model.h"
#include "ptq/matrix.h"
#include "ptq/unfold.h"
#include "train/quantize/tensors.h"

#include <stdio.h>
#include <string.h>

_Static_assert(DT_WEIGHT_LINEAR == 0 && DT_WEIGHT_CONV1D == 1 && DT_WEIGHT_CONV2D == 2 &&
                   DT_WEIGHT_CONV_TRANSPOSE1D == 3 && DT_WEIGHT_CONV_TRANSPOSE2D == 4 &&
                   DT_WEIGHT_GROUPED_LINEAR == 5,
               "files name ops in this order");
_Static_assert((int)DT_CODES_PACKED == (int)DT__CODES_PACKED &&
                   (int)DT_CODES_I8 == (int)DT__CODES_I8,
               "files name forms of codes in this order");

void dt__add_name(char text[DT__NAMES], int64_t *n, const char *name)
{
    char shown[DT__SHOWN];
    const size_t used = strlen(text);
    dt__shown(name, shown);
    const bool room = used + strlen(shown) + sizeof ", '', ..." <= DT__NAMES;
    if (room) {
        snprintf(text + used, DT__NAMES - used, "%s'%s'", *n > 0 ? ", " : "", shown);
    } else if (strcmp(text + used - 3, "...") != 0) {
        snprintf(text + used, DT__NAMES - used, ", ...");
    }
    ++*n;
}

/* ---- rules ----------------------------------------------------------------------------------- */

bool dt__is_float_entry(const dt_file_entry *e)
{
    static const char *const dtypes[] = { "F32", "F16", "BF16", "F64" };
    return DT__IS_ONE_OF(e->dtype, dtypes);
}

/* For ops with one spatial dimension the second element keeps its default. */
static void take_pair(const dt__tensor_plan *p, bool given, const int64_t from[2], int64_t to[2])
{
    if (!given) return;
    to[0] = from[0];
    if (dt__weight_op_rank(p->op.kind) == 4) to[1] = from[1];
}

static bool has_op_settings(const dt_tensor_rule *rule)
{
    return rule->has_op || rule->has_stride || rule->has_padding || rule->has_output_padding ||
           rule->has_dilation || rule->has_groups;
}

static void take_options(dt__tensor_plan *p, const dt_tensor_rule *rule)
{
    dt_conv_options *c = &p->op.conv;
    take_pair(p, rule->has_stride, rule->stride, c->stride);
    take_pair(p, rule->has_padding, rule->padding, c->padding);
    take_pair(p, rule->has_output_padding, rule->output_padding, c->output_padding);
    take_pair(p, rule->has_dilation, rule->dilation, c->dilation);
    if (rule->has_groups) c->groups = rule->groups;
}

/* Whether a rule's op applies to this tensor: an op of another rank does not. */
static bool concerns(const dt_tensor_rule *rule, const dt_file_entry *e)
{
    return dt__glob_selects(rule->match, e->name) &&
           (!rule->has_op || dt__weight_op_rank(rule->op) == e->rank);
}

static bool is_candidate(const dt_file_entry *e)
{
    return dt__is_float_entry(e) && e->count > 0 &&
           strncmp(e->name, DT__OWN_PREFIX, strlen(DT__OWN_PREFIX)) != 0;
}

/* The op is decided first, since it determines how its keys are read. */
static void decide_op(const dt__tensors_run *r, dt__tensor_plan *p)
{
    const dt_quantize_options *o = r->o;
    const dt_file_entry *e = p->entry;
    int op = e->rank == 2 ? DT_WEIGHT_LINEAR : e->rank == 4 ? DT_WEIGHT_CONV2D : -1;
    for (int64_t i = 0; i < o->n_tensors; i++) {
        if (!concerns(&o->tensors[i], e)) continue;
        if (o->tensors[i].has_op) op = o->tensors[i].op;
        if (has_op_settings(&o->tensors[i])) p->from_op = i;
    }
    p->rounds = op >= 0 && is_candidate(e);
    p->op.kind = op;
    for (int64_t i = 0; i < o->n_tensors && p->rounds; i++) {
        if (concerns(&o->tensors[i], e)) take_options(p, &o->tensors[i]);
    }
}

static void decide(const dt__tensors_run *r, dt__tensor_plan *p)
{
    const dt_quantize_options *o = r->o;
    int rounder = o->rounding.rounder;
    p->meta.scheme = dt_weight_quant_defaults();
    dt_quant_apply(&p->meta.scheme, &o->weight);
    for (int64_t i = 0; i < o->n_tensors; i++) {
        const dt_tensor_rule *rule = &o->tensors[i];
        if (!dt__glob_selects(rule->match, p->entry->name)) continue;
        if (rule->has_skip) p->skipped = rule->skip;
        if (rule->has_rounder) rounder = rule->rounder;
        dt_quant_apply(&p->meta.scheme, &rule->weight);
    }
    dt__find_scheme(r->ctx, &p->meta.scheme);
    decide_op(r, p);
    p->rounds &= !p->skipped;
    p->options = dt__settings_of(&o->rounding, rounder);
}

static void describe(const dt__tensors_run *r, dt__tensor_plan *p)
{
    dt__tensor_weight *m = &p->meta;
    m->name = p->entry->name;
    m->op = p->op.kind;
    m->conv = p->op.conv;
    m->shape.n = p->entry->rank;
    memcpy(m->shape.v, p->entry->dims, (size_t)p->entry->rank * sizeof m->shape.v[0]);
    m->codes = r->job->codes;
    m->ordered = p->options.rounding.order == DT_ORDER_GROUP;
    m->rounder = dt__method_of(p->options.rounder)->name;
}

/* ---- checks of rules ----------------------------------------------------------------------- */

/* The key of a rule's op that a message is about. */
static const char *key_of(const dt__tensors_run *r, int64_t rule)
{
    const dt_tensor_rule *t = &r->o->tensors[rule];
    const char *key = t->has_groups           ? "groups"
                      : t->has_stride         ? "stride"
                      : t->has_output_padding ? "output_padding"
                      : t->has_padding        ? "padding"
                      : t->has_dilation       ? "dilation"
                                              : "op";
    return dt__recipe_format(r->recipe, "quantize.tensors.%lld.%s", (long long)rule, key);
}

static const char *shape_of(const dt__tensors_run *r, const dt_file_entry *e)
{
    char text[160], shown[DT__SHOWN];
    return dt__recipe_format(r->recipe, "'%s' %s", dt__shown(e->name, shown),
                             dt__dims_text(e->rank, e->dims, text, sizeof text));
}

/* Complains about a rule without op that sets keys of convolutions, but matches a linear layer's
 * weight. */
static void check_keys(const dt__tensors_run *r, const dt__tensor_plan *p)
{
    for (int64_t i = 0; i < r->o->n_tensors; i++) {
        const dt_tensor_rule *t = &r->o->tensors[i];
        if (!concerns(t, p->entry)) continue;
        const char *key = key_of(r, i);
        const bool of_conv = t->has_stride || t->has_padding || t->has_dilation || t->has_groups ||
                             t->has_output_padding;
        const bool transposed = dt__is_transposed(&p->op);
        if (dt__is_bad(r->recipe, key)) continue;
        if (of_conv && !dt__is_convolution(&p->op)) {
            dt_recipe_refuse(r->recipe, key, "'%s' is of convolutions; %s is a %s layer's weight",
                             key, shape_of(r, p->entry), dt__weight_op_names[p->op.kind]);
        } else if (t->has_output_padding && !transposed) {
            key =
                dt__recipe_format(r->recipe, "quantize.tensors.%lld.output_padding", (long long)i);
            dt_recipe_refuse(r->recipe, key,
                             "'%s' is of transposed convolutions; %s is the weight of a %s", key,
                             shape_of(r, p->entry), dt__weight_op_names[p->op.kind]);
        }
    }
}

/* Checks op and settings of a plan; errors are reported at the rule that set them. */
static void check_plan(const dt__tensors_run *r, const dt__tensor_plan *p)
{
    dt__unfolding layer;
    check_keys(r, p);
    const char *key = p->from_op < 0 ? "quantize" : key_of(r, p->from_op);
    if (dt__is_bad(r->recipe, key)) return;
    if (dt__unfolding_of(r->ctx, &p->op, p->entry->rank, p->entry->dims, &layer) != DT_OK ||
        dt__rounding_check(r->ctx, &p->options, &p->meta.scheme) != DT_OK) {
        const char *why = dt__recipe_format(r->recipe, "%s", dt_error(r->ctx));
        dt_recipe_refuse(r->recipe, key, "'%s': %s: %s", key, shape_of(r, p->entry), why);
    }
}

static void refuse_rule(const dt__tensors_run *r, int64_t rule, const char *words)
{
    char names[DT__NAMES] = "";
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++) dt__add_name(names, &n, r->plan[i].entry->name);
    const char *path = dt__recipe_format(r->recipe, "quantize.tensors.%lld.match", (long long)rule);
    const char *match = r->o->tensors[rule].match;
    dt_recipe_refuse(r->recipe, path, "'%s': '%s' selects no tensor%s (there are %s)", path,
                     dt__recipe_quote_text(r->recipe, match, strlen(match)), words, names);
}

/* Every rule must match a tensor; a rule with an op must match one that fits the op. */
static void check_rules(const dt__tensors_run *r)
{
    for (int64_t i = 0; i < r->o->n_tensors; i++) {
        const dt_tensor_rule *t = &r->o->tensors[i];
        bool any = false, fits = false;
        for (int64_t k = 0; k < r->n; k++) {
            const dt_file_entry *e = r->plan[k].entry;
            if (!dt__glob_selects(t->match, e->name)) continue;
            any = true;
            fits |= dt__is_float_entry(e) && (!t->has_op || e->rank == dt__weight_op_rank(t->op));
        }
        if (!any) {
            refuse_rule(r, i, "");
        } else if (!fits) {
            refuse_rule(r, i,
                        dt__recipe_format(r->recipe, " of floats of rank %d, as op %s has them",
                                          dt__weight_op_rank(t->op), dt__weight_op_names[t->op]));
        }
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

static dt_status open_weights(dt__tensors_run *r)
{
    const char *path = r->job->weights;
    DT__TRY(dt_file_open(r->ctx, path, &r->weights));
    DT__TRY(dt_file_check(r->weights));
    if (dt_file_meta(r->weights, DT__KEY_MODEL) != NULL) {
        return dt_fail(r->ctx, DT_ERR_FORMAT, "%s: a model of detent, not a file of tensors",
                       r->weights->path);
    }
    if (dt_file_meta(r->weights, DT__KEY_TENSORS) == NULL) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_FORMAT,
                   "%s: its weights are integers already; give the file of floats",
                   r->weights->path);
}

/* Names of a weight's parts must not be names of other tensors. */
static dt_status check_names(const dt__tensors_run *r)
{
    char names[DT__NAMES] = "";
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++) {
        for (int k = 0; k < DT__ROW_PARTS && r->plan[i].rounds; k++) {
            const dt_file_entry *e;
            const char *name = r->plan[i].entry->name;
            DT__TRY(dt__file_part(r->weights, name, dt__row_suffix[k], &e));
            if (e != NULL) dt__add_name(names, &n, e->name);
        }
    }
    if (n == 0) return DT_OK;
    return dt_fail(
        r->ctx, DT_ERR_FORMAT,
        "%s: %s: the codes of other tensors would be named so; rename them, or skip those",
        r->weights->path, names);
}

static dt_status check_some(const dt__tensors_run *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        if (r->plan[i].rounds) return DT_OK;
    }
    return dt_fail(r->ctx, DT_ERR_FORMAT,
                   "%s: nothing to round: none of its %lld tensors is of rank 2 or 4 in F32, F16, "
                   "BF16 or F64, or named with its op by a rule",
                   r->weights->path, (long long)r->n);
}

dt_status dt__tensors_plan(dt__tensors_run *r)
{
    DT__TRY(open_weights(r));
    r->n = dt_file_count(r->weights);
    r->plan = dt__alloc_array(r->ctx, r->n, sizeof *r->plan);
    if (r->plan == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < r->n; i++) {
        dt__tensor_plan *p = &r->plan[i];
        *p = (dt__tensor_plan){ .entry = dt_file_at(r->weights, i), .from_op = -1 };
        p->op.conv = dt_conv_defaults();
        decide(r, p);
        if (p->rounds) describe(r, p);
    }
    check_rules(r);
    for (int64_t i = 0; i < r->n; i++) {
        if (r->plan[i].rounds) check_plan(r, &r->plan[i]);
    }
    DT__TRY(dt__recipe_verdict(r->recipe));
    DT__TRY(check_some(r));
    DT__TRY(check_names(r));
    return dt__tensors_match_inputs(r);
}
