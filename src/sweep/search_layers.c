/* The layers of a model whose weights a recipe quantizes, and for each the choices of bits and
 * scales with their bytes. */
#include "sweep/search.h"

#include "core/tensor.h"
#include "nn/module.h"
#include "qat/convert.h"
#include "train/run/run.h"

static const int bits_of[] = { 2, 4, 8 };

/* Group size in choice i of scales; -1: that of the recipe. */
static int64_t group_of(const dt_quant_spec *q, int i)
{
    const int64_t group = q->group_size;
    const int64_t sizes[] = { -1, group / 2, 2 * group, 4 * group, 0 };
    if (i > 0 && (q->granularity != DT_PER_GROUP || q->range != DT_RANGE_DYNAMIC)) return -1;
    return sizes[i];
}

dt_status dt__search_prepare(const dt__search *s, dt_module *m, const dt__search_layer *l,
                             const dt__choice *c, bool plain)
{
    dt_qat_options o = s->o->qat;
    if (o.n_rules >= DT_MAX_RULES) {
        return dt_fail(s->ctx, DT_ERR_CONFIG, "the recipe has %d rules already", DT_MAX_RULES);
    }
    dt_qat_rule *rule = &o.rules[o.n_rules++];
    *rule = (dt_qat_rule){ .match = l->path };
    rule->weight = (dt_quant_patch){ .quant = { .bits = c->bits }, .has_bits = true };
    dt_quant_patch *w = &rule->weight;
    if (plain && l->quant.range != DT_RANGE_DYNAMIC) {
        w->has_range = w->has_granularity = true;
        w->quant.range = DT_RANGE_DYNAMIC;
        w->quant.granularity = l->quant.granularity;
    }
    if (c->group_size >= 0) {
        w->has_granularity = true;
        w->quant.granularity = c->group_size == 0 ? DT_PER_CHANNEL : DT_PER_GROUP;
        w->has_group_size = c->group_size > 0;
        w->quant.group_size = c->group_size;
    }
    return dt_prepare(m, &o);
}

static dt_status add_layer(void *user, const char *path, dt_module *m)
{
    dt__search *s = user;
    const dt__fq *weight = dt__layer_quant(m);
    if (weight == NULL) return DT_OK;
    DT__TRY(DT__RESERVE(s->ctx, s->layer, s->n, s->room));
    dt__search_layer *l = &s->layer[s->n];
    *l = (dt__search_layer){ .quant = weight->quant,
                             .elements = dt__entry_find(m, "weight")->x->count,
                             .path = dt__copy_string(s->ctx, path) };
    if (l->path == NULL) return DT_ERR_NOMEM;
    s->n++;
    return DT_OK;
}

/* Creates a model without weights. */
static dt_status blank_model(const dt__search *s, dt_module **out)
{
    const bool blank = s->ctx->blank;
    s->ctx->blank = true;
    const dt_status status = s->o->model.family->create(s->ctx, s->o->model.options, out);
    s->ctx->blank = blank;
    return status;
}

/* Adds a choice, unless the model cannot be prepared with it. */
static dt_status add_choice(const dt__search *s, dt__search_layer *l, int bits, int64_t group)
{
    dt_module *m;
    dt__choice c = { .bits = bits, .group_size = group };
    DT__TRY(blank_model(s, &m));
    const dt_status status = dt__search_prepare(s, m, l, &c, false);
    if (status == DT_OK) {
        c.bytes = dt__bytes_below(m, l->path, true);
        if (group == -1) l->uniform[bits] = l->n;
        l->choice[l->n++] = c;
    }
    dt_module_free(m);
    return status == DT_ERR_NOMEM ? status : DT_OK;
}

static dt_status add_choices(const dt__search *s, dt__search_layer *l)
{
    for (int bits = 0; bits < 9; bits++) l->uniform[bits] = -1;
    for (int b = 0; b < DT__COUNT_OF(bits_of); b++) {
        for (int i = 0; i < DT__CHOICES / DT__COUNT_OF(bits_of); i++) {
            const int64_t group = group_of(&l->quant, i);
            if (i > 0 && group == -1) continue;
            DT__TRY(add_choice(s, l, bits_of[b], group));
        }
    }
    if (l->n > 0) return DT_OK;
    return dt_fail(s->ctx, DT_ERR_CONFIG, "the weight of %s can have no other bits", l->path);
}

dt_status dt__search_layers(dt__search *s)
{
    dt_module *m;
    DT__TRY(blank_model(s, &m));
    dt_status status = dt_prepare(m, &s->o->qat);
    if (status == DT_OK) status = dt_module_visit_modules(m, add_layer, s);
    s->fixed = status == DT_OK ? dt__module_bytes(m, true) : 0;
    for (int64_t i = 0; i < s->n && status == DT_OK; i++) {
        s->fixed -= dt__bytes_below(m, s->layer[i].path, true);
    }
    dt_module_free(m);
    if (status == DT_OK && s->n == 0) {
        return dt_fail(s->ctx, DT_ERR_CONFIG, "the recipe quantizes no weight");
    }
    if (status == DT_OK && s->n + s->o->qat.n_rules > DT_MAX_RULES) {
        return dt_fail(s->ctx, DT_ERR_CONFIG,
                       "%lld layers and %lld rules of the recipe are more than %d rules",
                       (long long)s->n, (long long)s->o->qat.n_rules, DT_MAX_RULES);
    }
    for (int64_t i = 0; i < s->n && status == DT_OK; i++) {
        status = add_choices(s, &s->layer[i]);
    }
    return status;
}

void dt__search_free(dt__search *s)
{
    for (int64_t i = 0; i < s->n; i++) dt__release(s->ctx, s->layer[i].path);
    dt__release(s->ctx, s->layer);
    *s = (dt__search){ .ctx = s->ctx };
}

int64_t dt__search_uniform(const dt__search *s, int bits)
{
    int64_t bytes = s->fixed;
    for (int64_t i = 0; i < s->n; i++) {
        const int choice = s->layer[i].uniform[bits];
        if (choice < 0) return 0;
        bytes += s->layer[i].choice[choice].bytes;
    }
    return bytes;
}

void dt__search_bounds(const dt__search *s, int64_t *least, int64_t *most)
{
    *least = *most = s->fixed;
    for (int64_t i = 0; i < s->n; i++) {
        const dt__search_layer *l = &s->layer[i];
        int64_t low = l->choice[0].bytes, high = low;
        for (int k = 1; k < l->n; k++) {
            low = dt__min_i64(low, l->choice[k].bytes);
            high = dt__max_i64(high, l->choice[k].bytes);
        }
        *least += low;
        *most += high;
    }
}
