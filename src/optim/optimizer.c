/* Optimizers: a loop of in-place ops over a module's parameters.
 *
 * A slot belongs to a parameter's handle, so its state survives wrapping, unwrapping and tying. The
 * slots follow the module's list of parameters: a new parameter starts with zero state at its own
 * first step, and the state of a removed parameter is freed. A step checks every parameter before
 * it writes the first. */
#include "optim/slots.h"

#include "autograd/tape.h"
#include "autograd/write.h"
#include "core/text/glob.h"
#include "nn/module.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

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

static void free_state(dt__slot *s)
{
    for (int k = 0; k < DT__MOST_STATES; k++) {
        dt_tensor_free(s->state[k]);
        s->state[k] = NULL;
    }
    DT__TENSORS_FREE(s->average, s->step);
    s->average = s->step = NULL;
}

static void free_slot(dt__slot *s)
{
    free_state(s);
    dt_tensor_free(s->p);
    *s = (dt__slot){ 0 };
}

/* The factors come from the last group whose pattern matches. Also decides whether the parameter
 * decays at all. */
static void set_factors(const dt_optimizer *o, dt__slot *s)
{
    const dt_optimizer_options *options = &o->options;
    /* an expert of a grouped parameter decays as a single layer's parameter would */
    const int rank = s->p->rank - dt_is_grouped(s->p);
    const bool decays = !s->p->no_decay && (options->decay == DT_DECAY_ALL || rank >= 2);
    double decay_factor = 1.0;
    s->lr_factor = 1.0;
    for (const dt__parameter_factors *g = o->groups; g != NULL; g = g->next) {
        if (!dt__glob_match(g->glob, s->path)) continue;
        s->lr_factor = g->lr_factor;
        decay_factor = g->decay_factor;
    }
    s->weight_decay = decays ? options->weight_decay * decay_factor : 0.0;
}

static dt__slot *slot_of(const dt_optimizer *o, const dt_tensor *p)
{
    for (int64_t i = 0; i < o->n; i++) {
        if (o->slots[i].p == p) return &o->slots[i];
    }
    return NULL;
}

static dt_status make_like(const dt_optimizer *o, const dt__slot *s, dt_tensor **out)
{
    const int64_t n = s->range[1] - s->range[0];
    int64_t dims[DT_MAX_RANK];
    if (o->shared && s->experts == 0) return dt_tensor_create(o->ctx, s->p->dtype, 1, &n, out);
    memcpy(dims, s->p->dims, sizeof dims);
    if (s->experts > 0) dims[0] = n / (s->p->count / s->p->dims[0]);
    return dt_tensor_create(o->ctx, s->p->dtype, s->p->rank, dims, out);
}

/* Allocates the state of a slot. Trained parameters get it with the slot, so that a step does not
 * take pool blocks that the next forward pass needs. */
static dt_status make_state(const dt_optimizer *o, dt__slot *s)
{
    const int states = o->formula.states(&o->options);
    for (int k = 0; k < states; k++) {
        if (s->state[k] != NULL) continue;
        DT__TRY(make_like(o, s, &s->state[k]));
    }
    if (o->options.average && s->average == NULL) {
        DT__TRY(make_like(o, s, &s->average));
    }
    if (s->step != NULL) return DT_OK;
    return dt_tensor_create(o->ctx, DT_I64, 0, NULL, &s->step);
}

/* A parameter without requires_grad has no state, unless it was trained before. */
static dt_status begin_state(const dt_optimizer *o, dt__slot *s)
{
    if (s->p->requires_grad) return make_state(o, s);
    if (s->step != NULL && *(const int64_t *)dt_data(s->step) == 0) free_state(s);
    return DT_OK;
}

/* The turn is a hash of the path, so that all ranks agree. */
static void set_range(const dt_optimizer *o, dt__slot *s)
{
    const dt__spread *spread = o->ctx->spread;
    s->turn = XXH3_64bits(s->path, strlen(s->path));
    s->experts = spread == NULL ? 0 : spread->experts_of(spread->user, o->m, s->p);
    dt__slot_range(o, s, dt__cluster_rank(o->cluster), s->range);
}

bool dt__optimizer_has_parts(const dt_optimizer *o)
{
    if (o == NULL) return false;
    int64_t i = 0;
    while (i < o->n && o->slots[i].experts == 0) i++;
    return o->shared || i < o->n;
}

dt_status dt__optimizer_follow(dt_optimizer *o)
{
    if (o->seen == dt__module_changes(o->m)) return DT_OK;
    const dt__param *params;
    int64_t n;
    DT__TRY(dt__module_params(o->m, &params, &n));
    dt__slot *slots = dt__alloc_array(o->ctx, n, sizeof *slots);
    if (slots == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) {
        dt__slot *old = slot_of(o, params[i].x);
        slots[i] = old != NULL ? *old : (dt__slot){ .p = params[i].x };
        if (old == NULL) dt__retain(slots[i].p);
        else *old = (dt__slot){ 0 };
        slots[i].path = params[i].path;
        if (old == NULL) set_range(o, &slots[i]);
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
    if (g->match != NULL && g->rate == 0.0 && !g->frozen) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "group '%s': rate 0 trains nothing: expected a factor above 0, or frozen",
                       g->match);
    }
    if (g->match != NULL && factor_fits(g->rate) && factor_fits(g->weight_decay)) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG, "group '%s': factors %g and %g must be finite and at least 0",
                   g->match == NULL ? "(NULL)" : g->match, g->rate, g->weight_decay);
}

static dt_status check_groups(dt_ctx *ctx, const dt_optimizer_options *o)
{
    if (o->n_groups < 0 || o->n_groups > DT_MAX_GROUPS) {
        return dt_fail(ctx, DT_ERR_ARG, "%lld groups of parameters; expected 0 to %d",
                       (long long)o->n_groups, DT_MAX_GROUPS);
    }
    for (int64_t i = 0; i < o->n_groups; i++) DT__TRY(check_factors(ctx, &o->groups[i]));
    return DT_OK;
}

/* Finds the last group that matches. */
static bool is_frozen(const dt_optimizer_options *o, const char *path)
{
    int64_t i = o->n_groups - 1;
    while (i >= 0 && !dt__glob_match(o->groups[i].match, path)) i--;
    return i >= 0 && o->groups[i].frozen;
}

dt_status dt_freeze_groups(dt_module *m, const dt_optimizer_options *options)
{
    DT__NEED2(dt_module_ctx(m), m, options);
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
    dt__update_formula of, *const formula = &of;
    dt__update_formula_of(ctx, o, &of);
    if (of.name == NULL && o->name == DT_OWN_OPTIMIZER) {
        return dt_fail(ctx, DT_ERR_ARG, "optimizer: no optimizer '%s' is registered",
                       o->own != NULL ? o->own : "");
    }
    if (of.name == NULL)
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

static dt_status add_group(dt_optimizer *o, const char *glob, double lr_factor, double decay_factor)
{
    dt__parameter_factors *g = dt__alloc(o->ctx, sizeof *g);
    char *copy = dt__copy_string(o->ctx, glob);
    if (g == NULL || copy == NULL) {
        DT__RELEASE(o->ctx, g, copy);
        return DT_ERR_NOMEM;
    }
    *g = (dt__parameter_factors){ NULL, copy, lr_factor, decay_factor };
    dt__parameter_factors **end = &o->groups;
    while (*end != NULL) end = &(*end)->next;
    *end = g;
    return DT_OK;
}

static dt_status create(dt_module *m, const dt_optimizer_options *options,
                        const dt__optimizer_ranks *ranks, dt_optimizer **out)
{
    const dt_optimizer_options chosen = options != NULL ? *options : dt_optimizer_defaults();
    DT__TRY(check_options(m->ctx, &chosen));
    DT__TRY(dt_freeze_groups(m, &chosen));
    dt_optimizer *o = dt__alloc_zero(m->ctx, sizeof *o);
    if (o == NULL) return DT_ERR_NOMEM;
    o->ctx = m->ctx;
    o->m = m;
    dt__update_formula_of(m->ctx, &chosen, &o->formula);
    o->options = chosen;
    o->options.own = NULL; /* lent by the caller */
    o->cluster = ranks->cluster;
    o->hooks = o->cluster == NULL ? NULL : o->cluster->hooks->optimizer;
    o->shared = ranks->shared && o->cluster != NULL;
    dt__ctx_retain(o->ctx);
    dt_status s = DT_OK;
    for (int64_t i = 0; i < chosen.n_groups && s == DT_OK; i++) {
        const dt_parameter_group *g = &chosen.groups[i];
        s = add_group(o, g->match, g->rate, g->weight_decay);
    }
    if (s == DT_OK) s = dt__optimizer_follow(o);
    if (s != DT_OK) dt_optimizer_free(o);
    else *out = o;
    return s;
}

dt_status dt_optimizer_create(dt_module *m, const dt_optimizer_options *options, dt_optimizer **out)
{
    DT__NEED2(dt_module_ctx(m), m, out);
    *out = NULL;
    return create(m, options, &(dt__optimizer_ranks){ 0 }, out);
}

dt_status dt__optimizer_create_for(dt_module *m, const dt_optimizer_options *options,
                                   const dt__optimizer_ranks *ranks, dt_optimizer **out)
{
    *out = NULL;
    return create(m, options, ranks, out);
}

void dt_optimizer_free(dt_optimizer *o)
{
    if (o == NULL) return;
    dt_ctx *ctx = o->ctx;
    for (int64_t i = 0; i < o->n; i++) free_slot(&o->slots[i]);
    dt__release(ctx, o->slots);
    if (o->hooks != NULL) o->hooks->free(o);
    while (o->groups != NULL) {
        dt__parameter_factors *g = o->groups;
        o->groups = g->next;
        DT__RELEASE(ctx, g->glob, g);
    }
    dt__release(ctx, o);
    dt__ctx_release(ctx);
}

static dt_status check_group(dt_optimizer *o, const char *glob, double lr_factor,
                             double decay_factor)
{
    const dt_parameter_group group = { glob, lr_factor, decay_factor, lr_factor == 0.0 };
    DT__TRY(check_factors(o->ctx, &group));
    DT__TRY(dt__optimizer_follow(o));
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

dt_status dt__optimizer_visit(dt_optimizer *o, dt__visit_state *visit, void *user)
{
    DT__TRY(dt__optimizer_follow(o));
    const int states = o->formula.states(&o->options);
    for (int64_t i = 0; i < o->n; i++) {
        dt__slot *s = &o->slots[i];
        if (!s->p->requires_grad && s->step == NULL) continue;
        DT__TRY(make_state(o, s));
        const bool shared = o->shared || s->experts > 0;
        dt__optimizer_state state = { .path = s->path, .p = s->p, .shared = shared };
        memcpy(state.range, s->range, sizeof state.range);
        for (int k = 0; k < states; k++) {
            state.number = i * DT__STATES + k;
            state.slot = o->formula.state[k];
            state.x = s->state[k];
            DT__TRY(visit(user, &state));
        }
        state.number = i * DT__STATES + DT__MOST_STATES;
        state.slot = "average";
        state.x = s->average;
        if (s->average != NULL) DT__TRY(visit(user, &state));
        state = (dt__optimizer_state){ .path = s->path, .slot = "step", .x = s->step, .p = s->p };
        DT__TRY(visit(user, &state));
    }
    return DT_OK;
}

typedef struct visiting {
    dt_visit_slot visit;
    void *user;
} visiting;

static dt_status visit_tensor(void *user, const dt__optimizer_state *s)
{
    const visiting *v = user;
    return v->visit(v->user, s->slot, s->path, s->x);
}

dt_status dt_optimizer_visit(dt_optimizer *o, dt_visit_slot visit, void *user)
{
    DT__NEED2(NULL, o, visit);
    return dt__optimizer_visit(o, visit_tensor, &(visiting){ visit, user });
}

dt_status dt__optimizer_want(dt_optimizer *o, const char *path)
{
    DT__TRY(dt__optimizer_follow(o));
    for (int64_t i = 0; i < o->n; i++) {
        if (strcmp(o->slots[i].path, path) == 0) return make_state(o, &o->slots[i]);
    }
    return DT_OK;
}

int64_t dt_optimizer_updates(const dt_optimizer *o) { return o == NULL ? 0 : o->updates; }
void dt_optimizer_set_updates(dt_optimizer *o, int64_t updates)
{
    if (o == NULL) return;
    o->updates = updates;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Whether the parameter can be written now; checked even if it has no gradient, since the
 * parameters of a converted model have none. `beside`: packed weights are allowed, since adapters
 * beside them are trained and they are not written. */
static dt_status check_slot(const dt_optimizer *o, const dt__slot *s, bool beside)
{
    char why[DT__WHY_SIZE];
    const dt__write_bar bar = dt__may_write(s->p, NULL, why);
    const bool stays = bar == DT__BAR_NEEDED || (bar == DT__BAR_READ_ONLY && beside);
    const bool written = !stays || s->p->grad != NULL;
    if (bar != DT__WRITABLE && written) {
        return dt_fail(
            o->ctx, DT_ERR_STATE, "%s: %s %s%s", o->formula.name, s->path, why,
            bar == DT__BAR_READ_ONLY ? "; adapters (dt_lora_add) can be trained beside it" : "");
    }
    if (s->state[0] != NULL && s->state[0]->dtype != s->p->dtype) {
        return dt_fail(o->ctx, DT_ERR_DTYPE, "%s: %s has changed its dtype", o->formula.name,
                       s->path);
    }
    return DT_OK;
}

static dt_status prepare(dt_optimizer *o)
{
    bool beside = false;
    DT__TRY(dt__optimizer_follow(o));
    DT__EACH_MODULE(m, o->m) beside |= m->lora.beside;
    for (int64_t i = 0; i < o->n; i++) DT__TRY(check_slot(o, &o->slots[i], beside));
    for (int64_t i = 0; i < o->n; i++) {
        if (o->slots[i].p->grad != NULL) DT__TRY(make_state(o, &o->slots[i]));
    }
    return DT_OK;
}

void dt__slot_update(const dt_optimizer *o, dt__slot *s, dt_tape *t, const dt_parameter_update *u)
{
    int64_t *step = dt_data_mut(s->step);
    dt_parameter_update whole = *u;
    whole.state = s->state;
    whole.lr = u->lr * s->lr_factor;
    whole.weight_decay = s->weight_decay;
    whole.step = *step + 1;
    o->formula.apply(t, &o->options, &whole);
    if (t->status == DT_OK) ++*step;
}

void dt__slot_update_whole(const dt_optimizer *o, dt__slot *s, dt_tape *t, double lr, double factor)
{
    dt__slot_update(o, s, t,
                    &(dt_parameter_update){ s->p, s->p->grad, .lr = lr, .factor = factor });
    if (t->status == DT_OK && s->p->project != NULL) s->p->project(s->p);
}

static dt_status step_alone(dt_optimizer *o, dt_tape *t, double lr, double factor)
{
    for (int64_t i = 0; i < o->n && t->status == DT_OK; i++) {
        if (o->slots[i].p->grad != NULL) dt__slot_update_whole(o, &o->slots[i], t, lr, factor);
    }
    return t->status;
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
        return dt_tape_fail(t, DT_ERR_ARG,
                            "%s: the rate %g must be at least 0; that of a schedule whose "
                            "total_steps, every, gamma or power is not set is nan",
                            o->formula.name, lr);
    }
    if (!(factor > 0.0) || !isfinite(factor)) {
        return dt_tape_fail(t, DT_ERR_ARG, "%s: the factor %g of gradients must be above 0",
                            o->formula.name, factor);
    }
    const dt_status s = prepare(o);
    if (s != DT_OK) return dt__tape_adopt(t, s);
    const bool shared = o->shared;
    if ((shared ? o->hooks->step : step_alone)(o, t, lr, factor) == DT_OK) {
        o->updates++;
    }
    return t->status;
}

/* ---- averages -------------------------------------------------------------------------------- */

static dt_status open_averages(dt_optimizer *o, dt_tape *t)
{
    if (t->status != DT_OK) return t->status;
    if (!o->options.average) {
        return dt_tape_fail(
            t, DT_ERR_STATE,
            "%s: the optimizer was made without averages (dt_optimizer_options.average)",
            o->formula.name);
    }
    const dt_status s = dt__optimizer_follow(o);
    return s == DT_OK ? DT_OK : dt__tape_adopt(t, s);
}

static void average(const dt_optimizer *o, const dt__slot *s, dt_tape *t, double weight)
{
    dt_tensor *p = s->p;
    const bool part = o->shared && s->experts == 0;
    const dt_status status = part ? dt__slot_views(s, &p, NULL) : DT_OK;
    if (status != DT_OK) dt__tape_adopt(t, status);
    else if (weight == 1.0) dt_copy_(t, s->average, p);
    else dt_lerp_(t, s->average, p, weight);
    if (part) dt_tensor_free(p);
}

dt_status dt_optimizer_average(dt_optimizer *o, dt_tape *t, double weight)
{
    DT__NEED(dt_tape_ctx(t), o);
    DT__NEED(dt_tape_ctx(t), t);
    DT__TRY(open_averages(o, t));
    for (int64_t i = 0; i < o->n && t->status == DT_OK; i++) {
        const dt__slot *s = &o->slots[i];
        if (s->average != NULL) average(o, s, t, weight);
    }
    return t->status;
}

dt_status dt__average_swap(dt_tape *t, dt_tensor *p, dt_tensor *average)
{
    dt_tensor *kept;
    const dt_status status = dt_tensor_create(t->ctx, p->dtype, p->rank, p->dims, &kept);
    if (status != DT_OK) return dt__tape_adopt(t, status);
    dt_copy_(t, kept, p);
    dt_copy_(t, p, average);
    dt_copy_(t, average, kept);
    dt_tensor_free(kept);
    return t->status;
}

dt_status dt_optimizer_swap_average(dt_optimizer *o, dt_tape *t)
{
    DT__NEED(dt_tape_ctx(t), o);
    DT__NEED(dt_tape_ctx(t), t);
    DT__TRY(open_averages(o, t));
    if (o->shared) return o->hooks->swap_average(o, t);
    for (int64_t i = 0; i < o->n; i++) {
        const dt__slot *s = &o->slots[i];
        if (s->average != NULL) DT__TRY(dt__average_swap(t, s->p, s->average));
    }
    return DT_OK;
}
