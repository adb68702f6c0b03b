/* Optimizers: a loop of in-place ops over a module's parameters.
 *
 * A slot belongs to a parameter's handle, so its state survives wrapping, unwrapping and tying. The
 * slots follow the module's list of parameters: a new parameter starts with zero state at its own
 * first step, and the state of a removed parameter is freed. A step checks every parameter before
 * it writes the first. */
#include "optim/optimizer.h"

#include "autograd/write.h"
#include "core/glob.h"
#include "nn/module.h"
#include "optim/formulas.h"

#include <math.h>
#include <string.h>

typedef struct slot {
    dt_tensor *p;                      /* a reference */
    const char *path;                  /* lent by the module until its tree changes */
    dt_tensor *state[DT__MOST_STATES]; /* NULL: not made yet */
    dt_tensor *average;                /* with options.average; NULL: not made yet */
    dt_tensor *step; /* i64: updates that this parameter has had; NULL: not made yet */
    double lr_factor, weight_decay;
} slot;

typedef struct group {
    struct group *next; /* in the order in which they were added */
    char *glob;
    double lr_factor, decay_factor;
} group;

struct dt_optimizer {
    dt_ctx *ctx;
    dt_module *m;
    const dt__update_formula *formula;
    dt_optimizer_options options;
    slot *slots;
    int64_t n;
    uint64_t seen; /* the module's number of changes when the slots were made */
    group *groups;
    int64_t updates;
};

dt_optimizer_options dt_optimizer_defaults(void)
{
    return (dt_optimizer_options){ .name = DT_ADAMW,
                                   .lr = 1e-3,
                                   .weight_decay = 0.01,
                                   .decay = DT_DECAY_MATRICES,
                                   .beta1 = 0.9,
                                   .beta2 = 0.999,
                                   .eps = 1e-8 };
}

/* ---- slots follow the parameters ------------------------------------------------------------- */

static void free_state(slot *s)
{
    for (int k = 0; k < DT__MOST_STATES; k++) {
        dt_tensor_free(s->state[k]);
        s->state[k] = NULL;
    }
    dt_tensor_free(s->average);
    dt_tensor_free(s->step);
    s->average = s->step = NULL;
}

static void free_slot(slot *s)
{
    free_state(s);
    dt_tensor_free(s->p);
    *s = (slot){ 0 };
}

/* Factors by the last group whose pattern matches, and whether the parameter decays at all. */
static void set_factors(const dt_optimizer *o, slot *s)
{
    const dt_optimizer_options *options = &o->options;
    const int rank =
        s->p->rank - dt_is_grouped(s->p); /* of an expert: it decays as it would alone */
    const bool decays = !s->p->no_decay && (options->decay == DT_DECAY_ALL || rank >= 2);
    double decay_factor = 1.0;
    s->lr_factor = 1.0;
    for (const group *g = o->groups; g != NULL; g = g->next) {
        if (!dt__glob_match(g->glob, s->path)) continue;
        s->lr_factor = g->lr_factor;
        decay_factor = g->decay_factor;
    }
    s->weight_decay = decays ? options->weight_decay * decay_factor : 0.0;
}

static slot *slot_of(const dt_optimizer *o, const dt_tensor *p)
{
    for (int64_t i = 0; i < o->n; i++) {
        if (o->slots[i].p == p) return &o->slots[i];
    }
    return NULL;
}

/* Allocates the state of a slot. Trained parameters get it with the slot, so that a step does not
 * take pool blocks that the next forward pass needs. */
static dt_status make_state(const dt_optimizer *o, slot *s)
{
    const int states = o->formula->states(&o->options);
    for (int k = 0; k < states; k++) {
        if (s->state[k] != NULL) continue;
        DT__TRY(dt_tensor_create(o->ctx, s->p->dtype, s->p->rank, s->p->dims, &s->state[k]));
    }
    if (o->options.average && s->average == NULL) {
        DT__TRY(dt_tensor_create(o->ctx, s->p->dtype, s->p->rank, s->p->dims, &s->average));
    }
    if (s->step != NULL) return DT_OK;
    return dt_tensor_create(o->ctx, DT_I64, 0, NULL, &s->step);
}

/* A parameter without requires_grad has no state, unless it was trained before. */
static dt_status begin_state(const dt_optimizer *o, slot *s)
{
    if (s->p->requires_grad) return make_state(o, s);
    if (s->step != NULL && *(const int64_t *)dt_data(s->step) == 0) free_state(s);
    return DT_OK;
}

static dt_status follow(dt_optimizer *o)
{
    if (o->seen == dt__module_changes(o->m)) return DT_OK;
    const dt__param *params;
    int64_t n;
    DT__TRY(dt__module_params(o->m, &params, &n));
    slot *slots = dt__alloc_array(o->ctx, n, sizeof *slots);
    if (slots == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) {
        slot *old = slot_of(o, params[i].x);
        slots[i] = old != NULL ? *old : (slot){ .p = params[i].x };
        if (old == NULL) dt__retain(slots[i].p);
        else *old = (slot){ 0 };
        slots[i].path = params[i].path;
        set_factors(o, &slots[i]);
    }
    for (int64_t i = 0; i < o->n; i++) free_slot(&o->slots[i]);
    dt__release(o->ctx, o->slots);
    o->slots = slots;
    o->n = n;
    for (int64_t i = 0; i < n; i++) DT__TRY(begin_state(o, &slots[i]));
    o->seen = dt__module_changes(o->m);
    return DT_OK;
}

/* ---- making and freeing ---------------------------------------------------------------------- */

static bool factor_fits(double v) { return v >= 0.0 && isfinite(v); }

static dt_status check_factors(dt_ctx *ctx, const dt_parameter_group *g)
{
    if (g->match != NULL && factor_fits(g->rate) && factor_fits(g->weight_decay)) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG, "group '%s': factors %g and %g must be finite and at least 0",
                   g->match == NULL ? "(NULL)" : g->match, g->rate, g->weight_decay);
}

static dt_status check_groups(dt_ctx *ctx, const dt_optimizer_options *o)
{
    if (o->n_groups < 0 || o->n_groups > DT_MAX_GROUPS) {
        return dt_fail(ctx, DT_ERR_ARG, "%lld groups of parameters; 0 to %d are wanted",
                       (long long)o->n_groups, DT_MAX_GROUPS);
    }
    for (int64_t i = 0; i < o->n_groups; i++) DT__TRY(check_factors(ctx, &o->groups[i]));
    return DT_OK;
}

/* By the last group that matches. */
static bool is_frozen(const dt_optimizer_options *o, const char *path)
{
    int64_t i = o->n_groups - 1;
    while (i >= 0 && !dt__glob_match(o->groups[i].match, path)) i--;
    return i >= 0 && o->groups[i].frozen;
}

dt_status dt_freeze_groups(dt_module *m, const dt_optimizer_options *options)
{
    DT__NEED(dt_module_ctx(m), m);
    DT__NEED(dt_module_ctx(m), options);
    const dt__param *params;
    int64_t n;
    DT__TRY(check_groups(m->ctx, options));
    DT__TRY(dt__module_params(m, &params, &n));
    for (int64_t i = 0; i < n; i++) {
        if (!is_frozen(options, params[i].path)) continue;
        DT__TRY(dt_set_requires_grad(params[i].x, false));
    }
    return DT_OK;
}

static dt_status check_options(dt_ctx *ctx, const dt_optimizer_options *o)
{
    const dt__update_formula *formula = dt__update_formula_of(o->name);
    if (formula == NULL)
        return dt_fail(ctx, DT_ERR_ARG, "optimizer: there is no optimizer %d", o->name);
    if (!(o->lr >= 0.0) || !isfinite(o->lr) || !(o->weight_decay >= 0.0) ||
        !isfinite(o->weight_decay)) {
        return dt_fail(ctx, DT_ERR_ARG, "%s: lr %g and weight_decay %g must be at least 0",
                       formula->name, o->lr, o->weight_decay);
    }
    if (o->decay != DT_DECAY_MATRICES && o->decay != DT_DECAY_ALL) {
        return dt_fail(ctx, DT_ERR_ARG, "%s: decay %d is neither matrices nor all", formula->name,
                       o->decay);
    }
    return formula->check(ctx, o);
}

/* Copies the glob. */
static dt_status add_group(dt_optimizer *o, const char *glob, double lr_factor, double decay_factor)
{
    group *g = dt__alloc(o->ctx, sizeof *g);
    char *copy = dt__copy_string(o->ctx, glob);
    if (g == NULL || copy == NULL) {
        dt__release(o->ctx, g);
        dt__release(o->ctx, copy);
        return DT_ERR_NOMEM;
    }
    *g = (group){ NULL, copy, lr_factor, decay_factor };
    group **end = &o->groups;
    while (*end != NULL) end = &(*end)->next;
    *end = g;
    return DT_OK;
}

dt_status dt_optimizer_create(dt_module *m, const dt_optimizer_options *options, dt_optimizer **out)
{
    DT__NEED(dt_module_ctx(m), m);
    DT__NEED(dt_module_ctx(m), out);
    *out = NULL;
    const dt_optimizer_options chosen = options != NULL ? *options : dt_optimizer_defaults();
    DT__TRY(check_options(m->ctx, &chosen));
    DT__TRY(dt_freeze_groups(m, &chosen));
    dt_optimizer *o = dt__alloc_zero(m->ctx, sizeof *o);
    if (o == NULL) return DT_ERR_NOMEM;
    o->ctx = m->ctx;
    o->m = m;
    o->formula = dt__update_formula_of(chosen.name);
    o->options = chosen;
    dt__ctx_retain(o->ctx);
    dt_status s = DT_OK;
    for (int64_t i = 0; i < chosen.n_groups && s == DT_OK; i++) {
        const dt_parameter_group *g = &chosen.groups[i];
        s = add_group(o, g->match, g->rate, g->weight_decay);
    }
    if (s == DT_OK) s = follow(o);
    if (s != DT_OK) dt_optimizer_free(o);
    else *out = o;
    return s;
}

void dt_optimizer_free(dt_optimizer *o)
{
    if (o == NULL) return;
    dt_ctx *ctx = o->ctx;
    for (int64_t i = 0; i < o->n; i++) free_slot(&o->slots[i]);
    dt__release(ctx, o->slots);
    while (o->groups != NULL) {
        group *g = o->groups;
        o->groups = g->next;
        dt__release(ctx, g->glob);
        dt__release(ctx, g);
    }
    dt__release(ctx, o);
    dt__ctx_release(ctx);
}

static dt_status check_group(dt_optimizer *o, const char *glob, double lr_factor,
                             double decay_factor)
{
    DT__TRY(check_factors(o->ctx, &(const dt_parameter_group){ glob, lr_factor, decay_factor, 0 }));
    DT__TRY(follow(o));
    for (int64_t i = 0; i < o->n; i++) {
        if (dt__glob_match(glob, o->slots[i].path)) return DT_OK;
    }
    return dt_fail(o->ctx, DT_ERR_ARG, "group '%s' matches no parameter", glob);
}

dt_status dt_optimizer_group(dt_optimizer *o, const char *glob, double lr_factor,
                             double decay_factor)
{
    DT__NEED(NULL, o);
    DT__TRY(check_group(o, glob, lr_factor, decay_factor));
    DT__TRY(add_group(o, glob, lr_factor, decay_factor));
    for (int64_t i = 0; i < o->n; i++) set_factors(o, &o->slots[i]);
    return DT_OK;
}

/* ---- state ----------------------------------------------------------------------------------- */

dt_status dt_optimizer_visit(dt_optimizer *o, dt_visit_slot visit, void *user)
{
    DT__NEED(NULL, o);
    DT__NEED(NULL, visit);
    DT__TRY(follow(o));
    const int states = o->formula->states(&o->options);
    for (int64_t i = 0; i < o->n; i++) {
        slot *s = &o->slots[i];
        if (!s->p->requires_grad && s->step == NULL) continue;
        DT__TRY(make_state(o, s));
        for (int k = 0; k < states; k++) {
            DT__TRY(visit(user, o->formula->state[k], s->path, s->state[k]));
        }
        if (s->average != NULL) DT__TRY(visit(user, "average", s->path, s->average));
        DT__TRY(visit(user, "step", s->path, s->step));
    }
    return DT_OK;
}

dt_status dt__optimizer_want(dt_optimizer *o, const char *path)
{
    DT__TRY(follow(o));
    for (int64_t i = 0; i < o->n; i++) {
        if (strcmp(o->slots[i].path, path) == 0) return make_state(o, &o->slots[i]);
    }
    return DT_OK;
}

int64_t dt_optimizer_updates(const dt_optimizer *o)
{
    if (o == NULL) return 0;
    return o->updates;
}
void dt_optimizer_set_updates(dt_optimizer *o, int64_t updates)
{
    if (o == NULL) return;
    o->updates = updates;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static dt_status find_beside(void *user, const char *path, dt_module *m)
{
    (void)path;
    *(bool *)user |= m->lora.beside;
    return DT_OK;
}

/* Whether the parameter can be written now; also where it has no gradient, since a converted model
 * has none at all. `beside`: adapters are trained beside packed weights, which stay as they are. */
static dt_status check_slot(const dt_optimizer *o, const slot *s, bool beside)
{
    char why[DT__WHY_SIZE];
    const dt__write_bar bar = dt__may_write(s->p, NULL, why);
    const bool stays = bar == DT__BAR_NEEDED || (bar == DT__BAR_READ_ONLY && beside);
    const bool written = !stays || s->p->grad != NULL;
    if (bar != DT__WRITABLE && written) {
        return dt_fail(
            o->ctx, DT_ERR_STATE, "%s: %s %s%s", o->formula->name, s->path, why,
            bar == DT__BAR_READ_ONLY ? "; adapters (dt_lora_add) can be trained beside it" : "");
    }
    if (s->state[0] != NULL && s->state[0]->dtype != s->p->dtype) {
        return dt_fail(o->ctx, DT_ERR_DTYPE, "%s: %s has changed its dtype", o->formula->name,
                       s->path);
    }
    return DT_OK;
}

static dt_status prepare(dt_optimizer *o)
{
    bool beside = false;
    DT__TRY(follow(o));
    DT__TRY(dt_module_visit_modules(o->m, find_beside, &beside));
    for (int64_t i = 0; i < o->n; i++) DT__TRY(check_slot(o, &o->slots[i], beside));
    for (int64_t i = 0; i < o->n; i++) {
        if (o->slots[i].p->grad != NULL) DT__TRY(make_state(o, &o->slots[i]));
    }
    return DT_OK;
}

static void update(const dt_optimizer *o, slot *s, dt_tape *t, double lr, double factor)
{
    int64_t *step = dt_data_mut(s->step);
    const dt__parameter_update u = { .p = s->p,
                                     .g = s->p->grad,
                                     .state = s->state,
                                     .lr = lr * s->lr_factor,
                                     .factor = factor,
                                     .weight_decay = s->weight_decay,
                                     .step = *step + 1 };
    o->formula->apply(t, &o->options, &u);
    if (t->status != DT_OK) return;
    ++*step;
    if (s->p->project != NULL) s->p->project(s->p);
}

dt_status dt_optimizer_step(dt_optimizer *o, dt_tape *t, double lr)
{
    DT__NEED(dt_tape_ctx(t), o);
    DT__NEED(dt_tape_ctx(t), t);
    return dt_optimizer_step_scaled(o, t, lr, 1.0);
}

dt_status dt_optimizer_step_scaled(dt_optimizer *o, dt_tape *t, double lr, double factor)
{
    DT__NEED(dt_tape_ctx(t), o);
    DT__NEED(dt_tape_ctx(t), t);
    if (t->status != DT_OK) return t->status;
    if (!(lr >= 0.0) || !isfinite(lr)) {
        return dt_tape_fail(t, DT_ERR_ARG, "%s: the rate %g must be at least 0", o->formula->name,
                            lr);
    }
    if (!(factor > 0.0) || !isfinite(factor)) {
        return dt_tape_fail(t, DT_ERR_ARG, "%s: the factor %g of gradients must be above 0",
                            o->formula->name, factor);
    }
    const dt_status s = prepare(o);
    if (s != DT_OK) return dt__tape_adopt(t, s);
    for (int64_t i = 0; i < o->n && t->status == DT_OK; i++) {
        if (o->slots[i].p->grad != NULL) update(o, &o->slots[i], t, lr, factor);
    }
    if (t->status == DT_OK) o->updates++;
    return t->status;
}

/* ---- averages -------------------------------------------------------------------------------- */

static dt_status open_averages(dt_optimizer *o, dt_tape *t)
{
    if (t->status != DT_OK) return t->status;
    if (!o->options.average) {
        return dt_tape_fail(t, DT_ERR_STATE, "%s: it was made without averages", o->formula->name);
    }
    const dt_status s = follow(o);
    return s == DT_OK ? DT_OK : dt__tape_adopt(t, s);
}

dt_status dt_optimizer_average(dt_optimizer *o, dt_tape *t, double weight)
{
    DT__NEED(dt_tape_ctx(t), o);
    DT__NEED(dt_tape_ctx(t), t);
    DT__TRY(open_averages(o, t));
    for (int64_t i = 0; i < o->n && t->status == DT_OK; i++) {
        const slot *s = &o->slots[i];
        if (s->average == NULL) continue;
        if (weight == 1.0) dt_copy_(t, s->average, s->p);
        else dt_lerp_(t, s->average, s->p, weight);
    }
    return t->status;
}

static dt_status swap(dt_tape *t, const slot *s)
{
    dt_tensor *kept;
    const dt_status status = dt_tensor_create(t->ctx, s->p->dtype, s->p->rank, s->p->dims, &kept);
    if (status != DT_OK) return dt__tape_adopt(t, status);
    dt_copy_(t, kept, s->p);
    dt_copy_(t, s->p, s->average);
    dt_copy_(t, s->average, kept);
    dt_tensor_free(kept);
    return t->status;
}

dt_status dt_optimizer_swap_average(dt_optimizer *o, dt_tape *t)
{
    DT__NEED(dt_tape_ctx(t), o);
    DT__NEED(dt_tape_ctx(t), t);
    DT__TRY(open_averages(o, t));
    for (int64_t i = 0; i < o->n; i++) {
        if (o->slots[i].average != NULL) DT__TRY(swap(t, &o->slots[i]));
    }
    return DT_OK;
}
