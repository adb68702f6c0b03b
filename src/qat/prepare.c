/* Prepare: which modules are quantized and how, by preset and rules; then the weight of each becomes a
 * FakeQuantTensor on the same handle and its input gets a hook. Everything is checked, and everything
 * that can fail is made, before the first module changes. */
#include "core/glob.h"
#include "nn/module.h"
#include "qat/observe.h"
#include "qat/prepare.h"
#include "qat/scheme.h"

#include <stdio.h>
#include <string.h>

/* ---- the plan: one line a quantizable module ---------------------------------------------------- */

typedef struct dt__plan_line {
    const char *path; /* owned */
    dt_module *module;
    dt_tensor *weight;
    bool selected; /* and not skipped */
    bool skipped;  /* by an explicit `skip` */
    bool quantize_weight, quantize_input;
    dt_quant weight_quant, input_quant;
    dt__row_map map;      /* of the weight */
    dt__input_hook *hook; /* made, not yet added */
    dt_module *input;     /* the quantizer of a range that is not dynamic */
    bool attached;        /* and the module owns it */
} plan_line;

typedef struct dt__plan {
    dt_ctx *ctx;
    const dt_qat_options *options;
    plan_line *line;
    int64_t n, room;
    bool matched[DT_MAX_RULES];
} plan;

/* A glob selects a module by its path or by that of any module above it. */
static bool selects(const char *glob, const char *path)
{
    char above[DT__MESSAGE_SIZE];
    size_t end = strlen(path);
    if (end >= sizeof above) return dt__glob_match(glob, path);
    memcpy(above, path, end + 1);
    while (!dt__glob_match(glob, above)) {
        if (end == 0) return false;
        while (end > 0 && above[end - 1] != '.') end--;
        if (end > 0) end--;
        above[end] = '\0';
    }
    return true;
}

static void apply_patch(const dt_quant_patch *patch, dt_quant *quant, bool *on)
{
    dt_quant_apply(quant, patch);
    if (patch->has_quantize) *on = patch->quantize;
}

/* Preset, then the recipe's head, then every rule that matches, in order: the last wins key by key. */
static void decide(plan *p, plan_line *l)
{
    const dt_qat_options *o = p->options;
    l->quantize_weight = true;
    l->quantize_input = dt_qat_preset(o->preset, &l->weight_quant, &l->input_quant);
    const dt_module_type *type = dt_module_type_of(l->module);
    if (type->samples && l->input_quant.granularity == DT_PER_TOKEN) {
        l->input_quant.granularity = DT_PER_SAMPLE;
    }
    apply_patch(&o->weight, &l->weight_quant, &l->quantize_weight);
    apply_patch(&o->activation, &l->input_quant, &l->quantize_input);
    const dt_quantizable how = type->quantizable;
    l->selected = how == DT_QUANTIZED_BY_PRESET;
    for (int64_t r = 0; r < o->n_rules; r++) {
        const dt_qat_rule *rule = &o->rules[r];
        if (!selects(rule->match, l->path)) continue;
        p->matched[r] = true;
        l->selected = true;
        if (rule->has_skip) l->skipped = rule->skip;
        apply_patch(&rule->weight, &l->weight_quant, &l->quantize_weight);
        apply_patch(&rule->activation, &l->input_quant, &l->quantize_input);
    }
    if (l->skipped) l->selected = false;
    if (how == DT_QUANTIZED_WEIGHT_ONLY) l->quantize_input = false;
    l->weight_quant.activation = false;
    l->input_quant.activation = true;
}

static dt_status add_line(void *user, const char *path, dt_module *m)
{
    plan *p = user;
    if (dt_module_type_of(m)->quantizable == DT_NOT_QUANTIZED) return DT_OK;
    if (p->n == p->room) {
        const int64_t room = p->room == 0 ? 16 : 2 * p->room;
        plan_line *grown =
            dt__grow(p->ctx, p->line, (size_t)p->n * sizeof *grown, (size_t)room * sizeof *grown);
        if (grown == NULL) return DT_ERR_NOMEM;
        p->line = grown;
        p->room = room;
    }
    const char *copy = dt__copy_string(p->ctx, path);
    if (copy == NULL) return DT_ERR_NOMEM;
    p->line[p->n] = (plan_line){ .path = copy, .module = m };
    plan_line *l = &p->line[p->n++];
    l->weight = dt_param(m, "weight");
    if (l->weight == NULL) return dt_error_status(p->ctx);
    decide(p, l);
    return DT_OK;
}

static void free_plan(plan *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        dt__release(p->ctx, (void *)(uintptr_t)p->line[i].path);
        dt__release(p->ctx, p->line[i].hook);
        if (!p->line[i].attached) dt_module_free(p->line[i].input);
    }
    dt__release(p->ctx, p->line);
}

/* ---- checks ----------------------------------------------------------------------------------- */

static int64_t unmatched_rule(const plan *p)
{
    for (int64_t r = 0; r < p->options->n_rules; r++) {
        if (!p->matched[r]) return r;
    }
    return -1;
}

static dt_status check_group(plan *p, const plan_line *l)
{
    const dt_quant *q = &l->weight_quant;
    if (q->granularity == DT_PER_GROUP && (q->group_size < 8 || q->group_size % 8 != 0)) {
        return dt_fail(p->ctx, DT_ERR_CONFIG,
                       "prepare: %s: group size %lld; a positive multiple of 8 is wanted", l->path,
                       (long long)q->group_size);
    }
    if (q->granularity == DT_PER_TOKEN || q->granularity == DT_PER_SAMPLE) {
        return dt_fail(p->ctx, DT_ERR_CONFIG,
                       "prepare: %s: weights are quantized per tensor, channel or group", l->path);
    }
    return DT_OK;
}

dt_status dt__check_input_quant(const dt_module *m, const dt_quant *quant)
{
    DT__TRY(dt__quant_check(m->ctx, quant));
    const bool fits = quant->granularity == DT_PER_SAMPLE || quant->granularity == DT_PER_TENSOR;
    if (!m->type->samples || fits) return DT_OK;
    return dt_fail(m->ctx, DT_ERR_CONFIG,
                   "the input of a %s is quantized per sample or per tensor, not per %s",
                   m->type->name, quant->granularity == DT_PER_TOKEN ? "token" : "group");
}

dt_status dt__weight_map(const dt_module *m, const dt_tensor *w, dt__row_map *out)
{
    const dt_module_type *type = m->type;
    const int64_t groups = type->transposed_groups == NULL ? 0 : type->transposed_groups(m);
    if (dt__row_map_of(groups, w->rank, w->dims, out)) return DT_OK;
    return dt_fail(m->ctx, DT_ERR_SHAPE, "the weight of a %s does not have %lld groups", type->name,
                   (long long)groups);
}

/* The message of a scheme's own check, with the module's path in front. */
static dt_status blame(plan *p, const plan_line *l, dt_status s)
{
    if (s == DT_OK) return s;
    char text[DT__MESSAGE_SIZE];
    snprintf(text, sizeof text, "%s", dt_error(p->ctx));
    return dt_fail(p->ctx, s, "prepare: %s: %s", l->path, text);
}

static dt_status check_weight(plan *p, plan_line *l)
{
    dt__panel_layout layout;
    int64_t dims[DT_MAX_RANK];
    DT__TRY(dt__quant_check(p->ctx, &l->weight_quant));
    DT__TRY(dt__weight_map(l->module, l->weight, &l->map));
    const int rank = dt__matrix_dims(&l->map, l->weight->rank, l->weight->dims, dims);
    return dt__weight_layout(p->ctx, &l->weight_quant, rank, dims, &layout);
}

static dt_status check_line(plan *p, plan_line *l)
{
    if (l->weight->kind != NULL || dt__input_hook_of(l->module) != NULL) {
        return dt_fail(p->ctx, DT_ERR_STATE, "prepare: %s is %s already", l->path,
                       dt_is_packed(l->weight) ? "converted" : "prepared");
    }
    if (!l->selected) return DT_OK;
    if (l->weight->dtype != DT_F32) {
        return dt_fail(p->ctx, DT_ERR_DTYPE, "prepare: %s: schemes take f32 weights, not %s",
                       l->path, dt_dtype_name(l->weight->dtype));
    }
    if (l->quantize_input) {
        DT__TRY(blame(p, l, dt__check_input_quant(l->module, &l->input_quant)));
    }
    if (!l->quantize_weight) return DT_OK;
    DT__TRY(check_group(p, l));
    return blame(p, l, check_weight(p, l));
}

/* Tied weights: one handle, one scheme; `skip` on one path only is no decision. */
static dt_status check_tie(plan *p, const plan_line *a, const plan_line *b)
{
    if (a->weight != b->weight) return DT_OK;
    if (a->skipped != b->skipped) {
        return dt_fail(p->ctx, DT_ERR_CONFIG,
                       "prepare: %s and %s share a weight, but only %s is skipped", a->path,
                       b->path, a->skipped ? a->path : b->path);
    }
    const bool both = a->selected && b->selected;
    if (both && (a->quantize_weight != b->quantize_weight || a->map.groups != b->map.groups ||
                 !dt__same_quant(&a->weight_quant, &b->weight_quant))) {
        return dt_fail(p->ctx, DT_ERR_CONFIG,
                       "prepare: %s and %s share a weight, but are given two schemes", a->path,
                       b->path);
    }
    return DT_OK;
}

static dt_status check_plan(plan *p)
{
    const int64_t lost = unmatched_rule(p);
    if (lost >= 0) {
        return dt_fail(p->ctx, DT_ERR_CONFIG,
                       "prepare: rule %lld: '%s' matches no quantizable module", (long long)lost,
                       p->options->rules[lost].match);
    }
    bool some = false;
    for (int64_t i = 0; i < p->n; i++) {
        DT__TRY(check_line(p, &p->line[i]));
        some = some || (p->line[i].selected && p->line[i].quantize_weight);
        for (int64_t k = 0; k < i; k++) DT__TRY(check_tie(p, &p->line[k], &p->line[i]));
    }
    if (!some) return dt_fail(p->ctx, DT_ERR_CONFIG, "prepare: no weight is left to quantize");
    return DT_OK;
}

/* ---- hooks on inputs ------------------------------------------------------------------------------ */

/* A range that stands, brought up to date with x where that is to be observed. */
static dt_status stand(const dt__input_hook *hook, dt_tape *t, const dt_module *m, dt_tensor *x)
{
    const bool trains = dt_is_training(m) && hook->enabled;
    if (hook->range->lo != NULL && !hook->frozen && (trains || hook->observing)) {
        DT__TRY(dt__observe(t, x, hook->range));
    }
    if (!hook->enabled || dt__quantizer_has_seen(hook->range)) return DT_OK;
    return dt_tape_fail(
        t, DT_ERR_STATE,
        "module %s: the range of its input has seen no batch; train, or run batches "
        "under dt_observe",
        m->path);
}

static dt_tensor *quantize_input(void *user, dt_tape *t, dt_module *m, dt_tensor *x)
{
    const dt__input_hook *hook = user;
    dt__fq fq = { .quant = hook->quant,
                  .enabled = hook->enabled,
                  .simulated = hook->simulated,
                  .samples = m->type->samples };
    if (hook->range != NULL) {
        if (stand(hook, t, m, x) != DT_OK) return NULL;
        fq.scale = hook->range->scale;
        fq.zero_point = hook->range->zero_point;
    }
    return dt__fake_quant_as(t, x, &fq);
}

static void drop_hook(dt_ctx *ctx, void *user) { dt__release(ctx, user); }

dt_status dt__hook_input(dt_module *m, dt__input_hook *hook)
{
    uint64_t id;
    return dt_hook_add(m, DT_SITE_INPUT, quantize_input, hook, drop_hook, &id);
}

static const dt__hook *find_hook(const dt_module *m)
{
    const dt__hook *h = m->hooks;
    while (h != NULL && h->call != quantize_input) h = h->next;
    return h;
}

dt__input_hook *dt__input_hook_of(const dt_module *m)
{
    const dt__hook *h = find_hook(m);
    return h == NULL ? NULL : h->user;
}

/* ---- acting ----------------------------------------------------------------------------------- */

static dt_status make_hook(plan *p, plan_line *l)
{
    if (!l->selected || !l->quantize_input) return DT_OK;
    l->hook = dt__alloc(p->ctx, sizeof *l->hook);
    if (l->hook == NULL) return DT_ERR_NOMEM;
    *l->hook = (dt__input_hook){ .quant = l->input_quant,
                                 .enabled = true,
                                 .simulated = p->options->forward == DT_FORWARD_SIMULATED };
    if (l->input_quant.range == DT_RANGE_DYNAMIC) return DT_OK;
    DT__TRY(dt__quantizer_create(p->ctx, &l->input_quant, 1, false, &l->input));
    l->hook->range = dt__quantizer_of(l->input);
    return DT_OK;
}

static dt_status attach(plan_line *l)
{
    if (l->input == NULL) return DT_OK;
    DT__TRY(dt__module_attach(l->module, "input", l->input));
    l->attached = true;
    return DT_OK;
}

static dt_status change(plan *p, plan_line *l)
{
    if (!l->selected) return DT_OK;
    if (l->quantize_weight && l->weight->kind == NULL) {
        const dt__fq fq = { .quant = l->weight_quant,
                            .simulated = p->options->forward == DT_FORWARD_SIMULATED,
                            .map = l->map };
        DT__TRY(dt__fq_wrap(l->weight, &fq));
    }
    if (l->hook == NULL) return DT_OK;
    DT__TRY(attach(l));
    DT__TRY(dt__hook_input(l->module, l->hook));
    l->hook = NULL; /* the module owns it */
    return DT_OK;
}

static void change_back(plan_line *l)
{
    if (dt_is_fake_quant(l->weight)) dt__fq_unwrap(l->weight);
    const dt__hook *h = find_hook(l->module);
    if (h != NULL) dt_unhook(l->module, h->id);
    if (l->attached) dt_module_free(l->input);
    if (l->attached) l->input = NULL;
}

static dt_status act(plan *p)
{
    dt_status s = DT_OK;
    for (int64_t i = 0; i < p->n && s == DT_OK; i++) s = make_hook(p, &p->line[i]);
    for (int64_t i = 0; i < p->n && s == DT_OK; i++) s = change(p, &p->line[i]);
    for (int64_t i = 0; i < p->n && s != DT_OK; i++) change_back(&p->line[i]);
    return s;
}

static dt_status make_plan(dt_module *m, plan *p)
{
    const dt_qat_options *o = p->options;
    const int64_t rules = o->n_rules;
    if (o->preset < DT_INT8_DYNAMIC_INT4_WEIGHT || o->preset > DT_INT8_STATIC_INT8_WEIGHT) {
        return dt_fail(p->ctx, DT_ERR_ARG, "prepare: %d is no preset", o->preset);
    }
    if (o->forward != DT_FORWARD_INTEGER && o->forward != DT_FORWARD_SIMULATED) {
        return dt_fail(p->ctx, DT_ERR_ARG, "prepare: %d is no forward", o->forward);
    }
    if (rules < 0 || rules > DT_MAX_RULES) {
        return dt_fail(p->ctx, DT_ERR_ARG, "prepare: %lld rules; 0...%d can be", (long long)rules,
                       DT_MAX_RULES);
    }
    return dt_module_visit_modules(m, add_line, p);
}

dt_status dt_prepare(dt_module *m, const dt_qat_options *options)
{
    const dt_qat_options defaults = dt_qat_defaults();
    plan p = { .ctx = dt_module_ctx(m), .options = options != NULL ? options : &defaults };
    dt_status s = make_plan(m, &p);
    if (s == DT_OK) s = check_plan(&p);
    if (s == DT_OK) s = act(&p);
    free_plan(&p);
    return s;
}

dt_status dt_qat_unmatched_rule(dt_module *m, const dt_qat_options *options, int64_t *rule)
{
    const dt_qat_options defaults = dt_qat_defaults();
    plan p = { .ctx = dt_module_ctx(m), .options = options != NULL ? options : &defaults };
    const dt_status s = make_plan(m, &p);
    *rule = s == DT_OK ? unmatched_rule(&p) : -1;
    free_plan(&p);
    return s;
}

/* ---- the model's state ---------------------------------------------------------------------------- */

static dt_status enable_one(void *user, const char *path, dt_module *m)
{
    (void)path;
    const bool on = *(const bool *)user;
    dt__input_hook *hook = dt__input_hook_of(m);
    if (hook != NULL) hook->enabled = on;
    if (dt_module_type_of(m)->quantizable == DT_NOT_QUANTIZED) return DT_OK;
    dt_tensor *w = dt_param(m, "weight");
    return w != NULL && dt_is_fake_quant(w) ? dt_fake_quant_enable(w, on) : DT_OK;
}

dt_status dt_enable(dt_module *m, bool on)
{
    if (!dt_is_prepared(m)) {
        return dt_fail(dt_module_ctx(m), DT_ERR_STATE, "enable: the model is not prepared");
    }
    return dt_module_visit_modules(m, enable_one, &on);
}

typedef struct watching {
    bool on, freezes, found;
} watching;

static dt_status watch_one(void *user, const char *path, dt_module *m)
{
    watching *w = user;
    (void)path;
    dt__input_hook *hook = dt__input_hook_of(m);
    if (hook == NULL || hook->range == NULL || hook->range->lo == NULL) return DT_OK;
    w->found = true;
    if (w->freezes) hook->frozen = w->on;
    else hook->observing = w->on;
    return DT_OK;
}

static dt_status watch(dt_module *m, watching w)
{
    DT__TRY(dt_module_visit_modules(m, watch_one, &w));
    if (w.found) return DT_OK;
    return dt_fail(dt_module_ctx(m), DT_ERR_STATE, "observe: the model has no range to observe");
}

dt_status dt_observe(dt_module *m, bool on) { return watch(m, (watching){ .on = on }); }

dt_status dt_observers_freeze(dt_module *m, bool on)
{
    return watch(m, (watching){ .on = on, .freezes = true });
}

static dt_status find_prepared(void *user, const char *path, dt_tensor *x, dt_member member)
{
    (void)path;
    if (member == DT_PARAM && dt_is_fake_quant(x)) *(bool *)user = true;
    return DT_OK;
}

static dt_status find_converted(void *user, const char *path, dt_tensor *x, dt_member member)
{
    (void)path;
    if (member == DT_PARAM && dt_is_packed(x)) *(bool *)user = true;
    return DT_OK;
}

bool dt_is_prepared(dt_module *m)
{
    bool found = false;
    dt_module_visit(m, find_prepared, &found);
    return found;
}

bool dt_is_converted(dt_module *m)
{
    bool found = false;
    dt_module_visit(m, find_converted, &found);
    return found;
}
