/* The plan of an integer network (device_plan.h): finds the results that share a range, and makes
 * the ranges as children of modules. */
#include "qat/device/device_plan.h"

#include "ops/ops_list.h"
#include "qat/device/device_becomes.h"
#include "qat/device/device_ends.h"
#include "qat/quantized.h"

#include <stdio.h>

const char *dt__plan_path(const dt_module *m) { return m->path[0] != '\0' ? m->path : "the model"; }

/* ---- ranges are shared ----------------------------------------------------------------------- */

static int64_t root_of(const dt__device *d, int64_t value)
{
    while (d->node[value - DT__PLAN_FIRST].shares != value) {
        value = d->node[value - DT__PLAN_FIRST].shares;
    }
    return value;
}

const dt__plan_node *dt__device_holder(const dt__device *d, int64_t value)
{
    return &d->node[root_of(d, value) - DT__PLAN_FIRST];
}

static bool is_fixed(const dt__device *d, int64_t value)
{
    return dt__has_fixed_range(d->node[value - DT__PLAN_FIRST].op);
}

/* Decides whose range each result has: its own, that of its operand, or one shared by all operands
 * of a concatenation. */
static dt_status share(dt__device *d)
{
    for (int64_t i = 0; i < d->n; i++) {
        dt__plan_node *node = &d->node[i];
        const dt__becomes *b = node->op == NULL ? NULL : dt__becomes_of(node->op);
        const bool own = node->in[0] < DT__PLAN_FIRST || (b != NULL && b->ranged) ||
                         dt__has_fixed_range(node->op);
        node->shares = own ? DT__PLAN_FIRST + i : root_of(d, node->in[0]);
        for (int k = 1; node->op == &dt__op_concat && k < node->n_in; k++) {
            const int64_t other = root_of(d, node->in[k]);
            d->node[node->shares - DT__PLAN_FIRST].joined = true;
            if (other == node->shares) continue;
            if (is_fixed(d, other) || is_fixed(d, node->shares)) {
                const dt__plan_node *of = &d->node[other - DT__PLAN_FIRST];
                if (!is_fixed(d, other)) of = &d->node[node->shares - DT__PLAN_FIRST];
                return dt_fail(d->ctx, DT_ERR_UNSUPPORTED,
                               "prepare: concat of %s reads %s of %s, whose scale is fixed, "
                               "and other results",
                               dt__plan_path(node->m), of->op->name, dt__plan_path(of->m));
            }
            d->node[other - DT__PLAN_FIRST].shares = node->shares;
        }
    }
    return DT_OK;
}

static dt_status check_inputs(const dt_module *m, int n_in)
{
    if (m->type->language != NULL) {
        return dt_fail(m->ctx, DT_ERR_UNSUPPORTED,
                       "prepare: a language model (%s) cannot be computed by integers alone; "
                       "presets device-int8 and device-int4 are for networks of images, signals "
                       "and tables",
                       m->type->name);
    }
    if (n_in >= 1 && n_in <= DT_MAX_IN) return DT_OK;
    return dt_fail(m->ctx, DT_ERR_CONFIG,
                   "prepare: a preset for devices requires the shapes of the model's inputs "
                   "(dt_qat_options.inputs)");
}

dt_status dt__device_record(dt_module *m, const dt_shape *in, int n_in, dt__device **out)
{
    *out = NULL;
    DT__TRY(check_inputs(m, n_in));
    dt__device *d = dt__alloc_zero(m->ctx, sizeof *d);
    if (d == NULL) return DT_ERR_NOMEM;
    d->ctx = m->ctx;
    d->m = m;
    d->enabled = true;
    dt_status s = dt__device_run_shapes(d, in, n_in);
    if (s == DT_OK) s = share(d);
    if (s == DT_OK) *out = d;
    else dt__device_free(m->ctx, d);
    return s;
}

void dt__device_free(dt_ctx *ctx, void *device)
{
    dt__device *d = device;
    if (d == NULL) return;
    for (int64_t i = 0; i < d->n; i++) dt__release(ctx, (void *)(uintptr_t)d->node[i].options);
    DT__RELEASE(ctx, d->node, d);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Whether the result of node i has a range of its own that is not fixed. */
static bool has_range(const dt__device *d, int64_t i)
{
    return d->node[i].shares == DT__PLAN_FIRST + i && !dt__has_fixed_range(d->node[i].op);
}

/* The name of a range's kind. Each kind is numbered on its own within a module. */
static const char *kind_of(const dt__plan_node *node)
{
    return node->constant != NULL ? "constant" : node->in[0] < DT__PLAN_FIRST ? "input" : "output";
}

static void range_name(const dt__device *d, int64_t i, char name[24])
{
    const dt__plan_node *node = &d->node[i];
    const char *kind = kind_of(node);
    int before = 1;
    for (int64_t k = 0; k < i; k++) {
        const dt__plan_node *other = &d->node[k];
        const bool ranged = has_range(d, k);
        before += ranged && other->m == node->m && kind_of(other) == kind;
    }
    snprintf(name, 24, before == 1 ? "%s" : "%s%d", kind, before);
}

static dt_status give_range(dt__device *d, int64_t i, dt__spec_of *spec_of, void *user)
{
    dt__plan_node *node = &d->node[i];
    char name[24];
    dt_quant_spec spec;
    if (!has_range(d, i)) return DT_OK;
    range_name(d, i, name);
    node->range = dt__quantizer_at(node->m, name);
    if (node->range != NULL) return DT_OK;
    dt_module *made;
    dt__quantizer_size size = { .scales = 1 };
    DT__TRY(spec_of(user, node->m->path, name, &spec, &size.fixed));
    DT__TRY(dt__quantizer_create(d->ctx, &spec, &size, &made));
    const dt_status s = dt__module_attach(node->m, name, made);
    if (s == DT_OK) node->range = made;
    else dt_module_free(made);
    return s;
}

void dt__device_visit_ranges(const dt__device *d, dt__visit_range *visit, void *user)
{
    char name[24];
    for (int64_t i = 0; i < d->n; i++) {
        if (!has_range(d, i)) continue;
        range_name(d, i, name);
        visit(user, d->node[i].m->path, name);
    }
}

/* Whether node i shares a range only because of a concatenation. */
static bool is_joined(const dt__device *d, int64_t i)
{
    const dt__plan_node *node = &d->node[i];
    const dt__becomes *b = node->op == NULL ? NULL : dt__becomes_of(node->op);
    const bool ranged = node->in[0] < DT__PLAN_FIRST || (b != NULL && b->ranged);
    return ranged && node->shares != DT__PLAN_FIRST + i;
}

dt_status dt__device_check_joined(const dt__device *d, dt__spec_of *spec_of, void *user)
{
    char name[24], holder_name[24];
    dt_quant_spec own, shared;
    bool fixed;
    for (int64_t i = 0; i < d->n; i++) {
        if (!is_joined(d, i)) continue;
        const dt__plan_node *node = &d->node[i];
        const dt__plan_node *holder = dt__device_holder(d, node->shares);
        range_name(d, i, name);
        range_name(d, holder - d->node, holder_name);
        DT__TRY(spec_of(user, node->m->path, name, &own, &fixed));
        DT__TRY(spec_of(user, holder->m->path, holder_name, &shared, &fixed));
        if (dt__same_quant(&own, &shared)) continue;
        return dt_fail(d->ctx, DT_ERR_CONFIG,
                       "prepare: results of %s and %s are concatenated and share a range, but are "
                       "given two",
                       dt__plan_path(holder->m), dt__plan_path(node->m));
    }
    return DT_OK;
}

dt_status dt__device_ranges(dt__device *d, dt__spec_of *spec_of, void *user)
{
    for (int64_t i = 0; i < d->n; i++) DT__TRY(give_range(d, i, spec_of, user));
    return DT_OK;
}

void dt__device_unrange(dt__device *d)
{
    for (int64_t i = 0; i < d->n; i++) {
        dt_module_free(d->node[i].range);
        d->node[i].range = NULL;
    }
}

void dt__device_plan_norms(const dt__device *d)
{
    for (int64_t i = 0; i < d->n; i++) {
        if (d->node[i].m->folding == DT__FOLDED) d->node[i].m->folding = DT__FOLDED_PLANNED;
    }
}

void dt__device_install(dt__device *d)
{
    dt__device_plan_norms(d);
    d->m->form = (dt__form){ dt__device_run, dt__device_free, d };
}

dt__device *dt__device_of(const dt_module *m)
{
    return m->form.run == dt__device_run ? m->form.user : NULL;
}

dt_status dt__device_check_ranges(const dt__device *d, const char *what)
{
    for (int64_t i = 0; i < d->n; i++) {
        const dt__plan_node *node = &d->node[i];
        if (node->range == NULL) continue;
        const dt__quantizer *q = dt__quantizer_of(node->range);
        if (dt__quantizer_has_seen(q)) {
            DT__TRY(dt__ends_settle(q));
            continue;
        }
        return dt_fail(d->ctx, DT_ERR_STATE,
                       "%s: %s: its range has seen no batch; train, or run batches under "
                       "dt_observe",
                       what, node->range->path);
    }
    return DT_OK;
}
