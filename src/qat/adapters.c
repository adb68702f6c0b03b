/* Adapters: chooses the layers that get one, and the other parameters that are trained. The formula
 * is in lora.c. All checks and allocations come before the first layer changes. */
#include "qat/adapters.h"

#include "core/text/glob.h"
#include "qat/derived_quant.h"
#include "qat/device/device_plan.h"
#include "qat/quantizer.h"

#include <math.h>
#include <string.h>

#define AT(field) .offset = offsetof(dt_lora_options, field)

const dt_key dt_lora_keys[] = {
    { "rank", DT_KEY_INT, AT(rank), .least = 1, .most = DT_NO_LIMIT, .fallback = "8",
      .text = "of A and B; at most the shorter side of each weight" },
    { "alpha", DT_KEY_REAL, AT(alpha), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "B A is multiplied by alpha / rank; 0: by 1" },
    { "match", DT_KEY_STRINGS, AT(match),
      .text = "globs over the paths of linear layers; none: all but the head" },
    { "train_rest", DT_KEY_BOOL, AT(train_rest), .fallback = "false",
      .text = "also train all but the weights with an adapter" },
    { 0 },
};

dt_lora_options dt_lora_defaults(void) { return (dt_lora_options){ .rank = 8 }; }

/* ---- the plan: one line a layer that gets an adapter ---------------------------------------- */

typedef struct plan_line {
    dt_module *layer;
    dt_tensor *weight;
    bool attached, derived; /* what dt_lora_add did to this layer, to undo it on an error */
} plan_line;

typedef struct plan {
    dt_ctx *ctx;
    dt_module *m;
    const dt_lora_options *options;
    dt__lora lora;
    plan_line *line;
    int64_t n, room;
    bool matched[DT_MAX_LIST];
    bool selects_experts; /* a glob matches grouped weights */
} plan;

static bool is_head(const char *path)
{
    return strcmp(path, "head") == 0 || strcmp(path, "lm_head") == 0;
}

static bool selects(plan *p, const char *path)
{
    const dt_strings *match = &p->options->match;
    bool any = match->n == 0 && !is_head(path);
    for (int i = 0; i < match->n; i++) {
        if (!dt__glob_selects(match->v[i], path)) continue;
        p->matched[i] = any = true;
    }
    return any;
}

static bool is_named(const plan *p, const char *path)
{
    for (int i = 0; i < p->options->match.n; i++) {
        if (dt__glob_selects(p->options->match.v[i], path)) return true;
    }
    return false;
}

static dt_status add_line(plan *p, dt_module *m)
{
    const char *path = dt__path_within(p->m, m->path);
    if (!dt__can_lora(m)) {
        p->selects_experts |= m->type == &dt__nn_grouped_linear && is_named(p, path);
        return DT_OK;
    }
    if (!selects(p, path)) return DT_OK;
    DT__TRY(DT__RESERVE(p->ctx, p->line, p->n, p->room));
    p->line[p->n++] = (plan_line){ .layer = m, .weight = dt__entry_find(m, "weight")->x };
    return DT_OK;
}

/* ---- checks --------------------------------------------------------------------------------- */

static dt_status check_options(plan *p)
{
    const dt_lora_options *o = p->options;
    if (o->rank < 1) {
        return dt_fail(p->ctx, DT_ERR_CONFIG, "adapters: rank %lld; it must be at least 1",
                       (long long)o->rank);
    }
    if (!isfinite(o->alpha) || o->alpha < 0) {
        return dt_fail(p->ctx, DT_ERR_CONFIG, "adapters: alpha %g; it must be at least 0",
                       o->alpha);
    }
    p->lora = (dt__lora){ .rank = o->rank, .alpha = o->alpha > 0 ? o->alpha : (double)o->rank };
    return DT_OK;
}

static dt_status check_match(const plan *p)
{
    const dt_strings *match = &p->options->match;
    for (int i = 0; i < match->n; i++) {
        if (p->matched[i]) continue;
        return dt_fail(p->ctx, DT_ERR_CONFIG, "adapters: '%s' selects no linear layer%s",
                       match->v[i], p->selects_experts ? "; experts can have no adapters" : "");
    }
    if (p->n > 0) return DT_OK;
    return dt_fail(p->ctx, DT_ERR_CONFIG,
                   "adapters: the model has no linear layer, or none but its head, which `match` "
                   "would have to name");
}

static dt_status check_line(const plan *p, const plan_line *l)
{
    const char *path = dt__path_within(p->m, l->layer->path);
    const dt_tensor *w = l->weight;
    const bool packed = dt_is_packed(w);
    if (dt__has_lora(l->layer) || (w->storage != NULL && w->storage->frozen)) {
        return dt_fail(p->ctx, DT_ERR_STATE, "adapters: %s %s", path,
                       dt__has_lora(l->layer) ? "has an adapter already"
                                              : "belongs to a frozen model");
    }
    if (packed && (is_head(path) || dt__device_of(p->m) != NULL)) {
        return dt_fail(p->ctx, DT_ERR_UNSUPPORTED, "adapters: %s is packed, and %s can have none",
                       path, is_head(path) ? "a packed head" : "an integer network");
    }
    const int64_t least = dt__min_i64(w->dims[0], w->dims[1]);
    if (p->lora.rank <= least) return DT_OK;
    return dt_fail(p->ctx, DT_ERR_CONFIG,
                   "adapters: rank %lld is above the shorter side of %s, whose weight is "
                   "[%lld, %lld]",
                   (long long)p->lora.rank, path, (long long)w->dims[0], (long long)w->dims[1]);
}

/* Refuses a tied weight: an adapter would change it in one layer and not in the other. */
static dt_status check_tie(const plan *p, const dt__entry *e)
{
    const char *path = dt__path_within(p->m, e->path);
    for (int64_t i = 0; i < p->n; i++) {
        const plan_line *l = &p->line[i];
        const char *own = dt__path_within(p->m, dt__entry_find(l->layer, "weight")->path);
        if (l->weight != e->x || strcmp(own, path) == 0) continue;
        return dt_fail(p->ctx, DT_ERR_CONFIG,
                       "adapters: '%s' and '%s' share a weight, which therefore can have none", own,
                       path);
    }
    return DT_OK;
}

static dt_status check_plan(plan *p)
{
    DT__TRY(check_match(p));
    for (int64_t i = 0; i < p->n; i++) DT__TRY(check_line(p, &p->line[i]));
    DT__EACH_ENTRY(layer, e, p->m) DT__TRY(check_tie(p, e));
    return DT_OK;
}

/* ---- acting --------------------------------------------------------------------------------- */

/* Quantizes the sum of weight and adapter from now on, in place of the weight. */
static dt_status derive(plan_line *l)
{
    if (!dt_is_fake_quant(l->weight)) return DT_OK;
    const dt__fq *own = l->weight->ext;
    dt__fq fq = *own;
    fq.inner = NULL;
    DT__TRY(dt__derive(l->layer, &fq));
    dt__derived_quant(l->layer)->enabled = own->enabled;
    l->derived = true;
    return DT_OK;
}

static void change_back(plan_line *l)
{
    if (l->derived) dt__underive(l->layer);
    if (l->attached) dt__lora_remove(l->layer);
}

static dt_status act(plan *p)
{
    dt_status s = DT_OK;
    for (int64_t i = 0; i < p->n && s == DT_OK; i++) {
        p->lora.beside = dt_is_packed(p->line[i].weight);
        s = dt__lora_attach(p->line[i].layer, &p->lora);
        p->line[i].attached = s == DT_OK;
    }
    for (int64_t i = 0; i < p->n && s == DT_OK; i++) s = derive(&p->line[i]);
    for (int64_t i = 0; i < p->n && s != DT_OK; i++) change_back(&p->line[i]);
    if (s != DT_OK) return s;
    for (int64_t i = 0; i < p->n; i++) {
        if (p->line[i].derived) dt__fq_unwrap(p->line[i].weight);
    }
    return dt__lora_set_trainable(p->m, p->options->train_rest);
}

dt_status dt_lora_add(dt_module *m, const dt_lora_options *options)
{
    DT__NEED(dt_module_ctx(m), m);
    const dt_lora_options defaults = dt_lora_defaults();
    plan p = { .ctx = m->ctx, .m = m, .options = options != NULL ? options : &defaults };
    dt_status s = check_options(&p);
    DT__EACH_MODULE(layer, m) {
        if (s == DT_OK) s = add_line(&p, layer);
    }
    if (s == DT_OK) s = check_plan(&p);
    if (s == DT_OK) s = act(&p);
    dt__release(p.ctx, p.line);
    return s;
}

/* ---- what is trained ------------------------------------------------------------------------ */

/* A parameter of an adapter, or a learned scale or shift. */
static bool is_own(const dt_module *holder, const char *name)
{
    const bool adapter = strcmp(name, "lora_a") == 0 || strcmp(name, "lora_b") == 0;
    if (adapter && dt__has_lora(holder)) return true;
    return dt__quantizer_of((dt_module *)(uintptr_t)holder) != NULL;
}

dt_status dt__lora_set_trainable(dt_module *m, bool rest)
{
    DT__EACH_ENTRY(holder, e, m) {
        const bool base = dt__has_lora(holder) && strcmp(e->name, "weight") == 0;
        if (e->kind != DT_PARAM || is_own(holder, e->name) || (rest && !base)) continue;
        dt_grad_clear(e->x);
        if (!dt_is_packed(e->x)) DT__TRY(dt_set_requires_grad(e->x, false));
    }
    return DT_OK;
}

bool dt__lora_trains_rest(dt_module *m)
{
    DT__EACH_ENTRY(holder, e, m) {
        if (e->kind == DT_PARAM && e->x->requires_grad && !is_own(holder, e->name)) return true;
    }
    return false;
}

/* ---- merging -------------------------------------------------------------------------------- */

/* Merging chooses new codes. A weight with a column order or with learned scales would lose these,
 * so it is refused. */
static dt_status check_packed_merge(const dt_module *m, const dt_tensor *w, const char *path)
{
    const dt__packed *packed = w->ext;
    const char *why = packed->quant.range != DT_RANGE_DYNAMIC ? "static or learned scales"
                      : packed->codes->order != NULL          ? "an order of columns"
                                                              : NULL;
    if (why == NULL) return DT_OK;
    return dt_fail(
        m->ctx, DT_ERR_UNSUPPORTED,
        "merge: the packed weight of %s has %s, which rounding anew would lose: keep the "
        "adapters beside it",
        path, why);
}

static dt_status check_merge(dt_module *m, const char *path)
{
    const dt_tensor *w = dt__entry_find(m, "weight")->x;
    if (m->lora.beside) return check_packed_merge(m, w, path);
    if (!w->storage->frozen) return DT_OK;
    return dt_fail(m->ctx, DT_ERR_STATE, "merge: %s belongs to a frozen model", path);
}

dt_status dt_lora_merge(dt_module *m)
{
    DT__NEED(dt_module_ctx(m), m);
    DT__EACH_MODULE(layer, m) {
        if (dt__has_lora(layer)) DT__TRY(check_merge(layer, dt__path_within(m, layer->path)));
    }
    if (!dt_has_lora(m)) return dt_fail(m->ctx, DT_ERR_STATE, "merge: the model has no adapter");
    DT__TRY(dt__merge(m, true));
    DT__EACH_ENTRY(layer, e, m) {
        if (e->kind == DT_PARAM && !dt_is_packed(e->x)) DT__TRY(dt_set_requires_grad(e->x, true));
    }
    return DT_OK;
}

bool dt_has_lora(dt_module *m)
{
    DT__EACH_MODULE(layer, m) {
        if (dt__has_lora(layer)) return true;
    }
    return false;
}
