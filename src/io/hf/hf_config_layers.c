/* Settings of config.json for single layers: which layers have a sliding window (layer_types,
 * sliding_window, max_window_layers, sliding_window_pattern), and which have no rotation
 * (no_rope_layers). Only lists in which every n-th layer differs are supported. */
#include "io/hf/hf_config.h"

#include <string.h>

/* Appends an entry. */
static void mark(dt__hf_pattern *p, bool marked)
{
    p->given = true;
    p->n++;
    p->marked += marked;
    if (p->every == 0 && marked) p->every = p->n;
    const bool fits = (p->every > 0 && p->n % p->every == 0) == marked;
    if (!fits && p->odd == 0) p->odd = p->n;
}

dt_status dt__hf_read_layer_types(dt__json *j, dt__hf_config *c)
{
    const char *text;
    char shown[DT__SHOWN];
    if (c->full.given) return dt__json_fail(j, "'layer_types' occurs twice");
    c->full.given = true;
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']')) {
        DT__TRY(dt__json_string(j, &text));
        const bool full = strcmp(text, "full_attention") == 0;
        if (!full && strcmp(text, "sliding_attention") != 0) {
            return dt__json_fail(j,
                                 "layer_types: '%s' is not supported; full_attention and "
                                 "sliding_attention are",
                                 dt__shown(text, shown));
        }
        mark(&c->full, full);
    }
    return j->status;
}

dt_status dt__hf_read_rope_layers(dt__json *j, dt__hf_config *c)
{
    c->unrotated = (dt__hf_pattern){ .given = true };
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']')) {
        int64_t rotates;
        DT__TRY(dt__json_integer(j, &rotates));
        mark(&c->unrotated, rotates == 0);
    }
    return j->status;
}

static dt_status check_length(const dt__hf_config *c, const dt__hf_pattern *p, const char *name)
{
    if (!p->given || p->n == c->layers) return DT_OK;
    return dt_fail(c->ctx, DT_ERR_FORMAT, "%s: %s has %lld entries, num_hidden_layers is %lld",
                   c->path, name, (long long)p->n, (long long)c->layers);
}

static dt_status refuse_order(const dt__hf_config *c, const dt__hf_pattern *p, const char *name,
                              const char *what)
{
    return dt__hf_refuse(c, "%s: layer %lld: every n-th layer %s is supported, no other order",
                         name, (long long)p->odd - 1, what);
}

static dt_status set_rotated(const dt__hf_config *c, dt_block_options *out)
{
    const dt__hf_pattern *p = &c->unrotated;
    int64_t every = p->given ? p->every : c->unrotated_every;
    DT__TRY(check_length(c, p, "no_rope_layers"));
    if (p->odd > 0) return refuse_order(c, p, "no_rope_layers", "without rotation");
    if (c->of->unrotated == 0 || every > c->layers) every = 0;
    out->unrotated = every;
    out->given |= every > 0;
    return DT_OK;
}

/* Marks the layers without a window by the class's default, if layer_types is absent. */
static dt_status find_full(dt__hf_config *c)
{
    const int64_t every = c->window_pattern > 0 ? c->window_pattern : 6;
    if (c->full.given) return DT_OK;
    if (c->of->window == DT__HF_TYPED_WINDOW) {
        return dt__hf_refuse(c, "use_sliding_window without layer_types is not supported");
    }
    for (int64_t i = 0; i < c->layers; i++) {
        bool full = false;
        if (c->of->window == DT__HF_USED_WINDOW) full = i < c->window_layers;
        if (c->of->window == DT__HF_GEMMA_WINDOW) full = (i + 1) % every == 0;
        mark(&c->full, full);
    }
    return DT_OK;
}

static bool has_window(const dt__hf_config *c)
{
    switch (c->of->window) {
    case DT__HF_USED_WINDOW: return c->use_window && !c->no_window;
    case DT__HF_TYPED_WINDOW: return c->use_window && c->has_window;
    case DT__HF_USUAL_WINDOW: return !c->no_window;
    case DT__HF_GEMMA_WINDOW: return true;
    default: return c->has_window;
    }
}

/* A window as long as the context has no effect, except on the rotation of Gemma 3. */
static bool has_effect(const dt__hf_config *c)
{
    return has_window(c) && (c->of->window == DT__HF_GEMMA_WINDOW || c->window < c->context);
}

static dt_status set_window(dt__hf_config *c, dt_block_options *out)
{
    const dt__hf_pattern *p = &c->full;
    DT__TRY(check_length(c, p, "layer_types"));
    if (!has_window(c) && p->marked < p->n) {
        return dt__hf_refuse(c, "layer_types: sliding_attention without a sliding_window");
    }
    if (!has_effect(c)) return DT_OK;
    if (c->of->window == DT__HF_NO_WINDOW && (!p->given || p->marked < p->n)) {
        return dt__hf_refuse(c,
                             "sliding_window %lld is not supported: it is smaller than "
                             "max_position_embeddings %lld, and the class has no windows",
                             (long long)c->window, (long long)c->context);
    }
    const bool all = c->of->window == DT__HF_WINDOW || c->of->window == DT__HF_USUAL_WINDOW;
    if (all && p->marked > 0) {
        return dt__hf_refuse(c, "layer_types: full_attention, where all layers of the class have "
                                "the sliding_window");
    }
    DT__TRY(find_full(c));
    if (p->marked == p->n) return DT_OK;
    if (p->odd > 0) return refuse_order(c, p, "layer_types", "with full_attention");
    if (c->window < 1) {
        return dt__hf_refuse(c, "sliding_window %lld: it must be above 0", (long long)c->window);
    }
    out->given = true;
    out->window = c->window;
    out->full_every = p->every;
    return DT_OK;
}

dt_status dt__hf_set_layers(dt__hf_config *c, dt_llama_options *out)
{
    DT__TRY(set_window(c, &out->block));
    return set_rotated(c, &out->block);
}
