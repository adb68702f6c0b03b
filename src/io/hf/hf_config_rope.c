/* Rotary position embeddings of config.json: rope_scaling of transformers 4, or rope_parameters of
 * transformers 5, and rope_theta. */
#include "io/hf/hf_config.h"

#include <string.h>

#define MOST DT__HF_MOST
#define AT(field) .offset = offsetof(dt__hf_rope, field)
#define GIVEN(field) .given = offsetof(dt__hf_rope, field)

static const dt_key rope_keys[] = {
    { "rope_type", DT_KEY_STRING, AT(rope_type) },
    { "type", DT_KEY_STRING, AT(type) },
    { "rope_theta", DT_KEY_REAL, AT(theta), .most = DT_NO_LIMIT, GIVEN(has_theta) },
    { "factor", DT_KEY_REAL, AT(factor), .least = 1, .most = DT_NO_LIMIT, GIVEN(has_factor) },
    { "low_freq_factor", DT_KEY_REAL, AT(low), .most = DT_NO_LIMIT, GIVEN(has_low) },
    { "high_freq_factor", DT_KEY_REAL, AT(high), .most = DT_NO_LIMIT, GIVEN(has_high) },
    { "original_max_position_embeddings", DT_KEY_INT, AT(original), .least = 1, .most = MOST,
      GIVEN(has_original) },
    { "short_factor", DT_KEY_REALS, AT(near), .most = 1e12, GIVEN(has_near) },
    { "long_factor", DT_KEY_REALS, AT(far), .most = 1e12, GIVEN(has_far) },
    { "attention_factor", DT_KEY_REAL, AT(attention), .most = 1e6, GIVEN(has_attention) },
    { "partial_rotary_factor", DT_KEY_REAL, AT(partial), .most = 1, GIVEN(has_partial) },
    { 0 },
};

static dt_status note_rope_key(dt__json *j, const char *name, void *options)
{
    dt__hf_rope *r = options;
    if (r->other[0] == 0) dt__shown(name, r->other);
    return dt__json_skip(j);
}

dt_status dt__hf_read_rope(dt__json *j, dt__hf_rope *out)
{
    if (out->present) return dt__json_fail(j, "rope_scaling or rope_parameters occurs twice");
    out->present = true;
    return dt__hf_read_object(j, rope_keys, out, note_rope_key);
}

static dt_status read_by_layer(dt__json *j, const char *name, void *options)
{
    dt__hf_config *c = options;
    if (strcmp(name, "full_attention") == 0) return dt__hf_read_rope(j, &c->parameters);
    if (strcmp(name, "sliding_attention") == 0) return dt__hf_read_rope(j, &c->local);
    return note_rope_key(j, name, &c->parameters);
}

dt_status dt__hf_read_rope_parameters(dt__json *j, dt__hf_config *c)
{
    static const dt_key none[] = { { 0 } };
    if (!c->of->gemma) return dt__hf_read_rope(j, &c->parameters);
    c->parameters.present = c->local.present = false; /* the second scan reads these keys again */
    return dt__hf_read_object(j, none, c, read_by_layer);
}

/* ---- what it means --------------------------------------------------------------------------- */

static dt_status lacks(const dt__hf_config *c, const char *name, const char *key)
{
    return dt_fail(c->ctx, DT_ERR_FORMAT, "%s: %s: '%s' is missing", c->path, name, key);
}

static bool is_longrope(const char *type)
{
    /* "su": in the first versions */
    return strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0;
}

static dt_status check_factors(const dt__hf_config *c, const char *name, const char *key,
                               const dt_reals *f)
{
    const int64_t width = c->head_width == 0 ? c->width / c->heads : c->head_width;
    if (f->n != width / 2) {
        return dt_fail(c->ctx, DT_ERR_FORMAT, "%s: %s: %s has %d entries; half of a head is %lld",
                       c->path, name, key, f->n, (long long)(width / 2));
    }
    for (int i = 0; i < f->n; i++) {
        if (f->v[i] >= 1e-6) continue;
        return dt__hf_refuse(c, "%s: %s: entry %d is %g; 1e-6 is the least", name, key, i, f->v[i]);
    }
    return DT_OK;
}

/* transformers 5 prefers the original context outside of the map. */
static dt_status check_original(const dt__hf_config *c, const char *name, const dt__hf_rope *r)
{
    if (c->original == 0 || !r->has_original || r->original == c->original) return DT_OK;
    return dt__hf_refuse(c,
                         "original_max_position_embeddings is %lld, and %lld in %s: transformers "
                         "reads the first",
                         (long long)c->original, (long long)r->original, name);
}

/* If attention_factor is absent, transformers 5 computes it from `factor`, version 4 from the
 * contexts. */
static dt_status check_contexts(const dt__hf_config *c, const char *name, const dt__hf_rope *r)
{
    const double ratio = (double)c->context / (double)c->original;
    DT__TRY(check_original(c, name, r));
    if (r->has_attention ? !(r->attention > 0) : c->original == 1) {
        return dt__hf_refuse(c, "%s: attention_factor %g: it must be above 0", name, r->attention);
    }
    if (!r->has_factor || r->has_attention || r->factor == ratio) return DT_OK;
    return dt__hf_refuse(c,
                         "%s: factor %g without attention_factor is supported where it is "
                         "max_position_embeddings / original_max_position_embeddings, %g",
                         name, r->factor, ratio);
}

static dt_status longrope_of(const dt__hf_config *c, const char *name, const dt__hf_rope *r,
                             dt_longrope_options *out)
{
    if (c->of->original == 0) {
        return dt__hf_refuse(c, "%s of type longrope is supported in class phi3, not in %s", name,
                             c->of->name);
    }
    if (r->other[0] != 0) return dt__hf_refuse(c, "%s: '%s' is not supported", name, r->other);
    if (!r->has_near || !r->has_far) {
        return lacks(c, name, r->has_near ? "long_factor" : "short_factor");
    }
    DT__TRY(check_factors(c, name, "short_factor", &r->near));
    DT__TRY(check_factors(c, name, "long_factor", &r->far));
    DT__TRY(check_contexts(c, name, r));
    *out = (dt_longrope_options){ .given = true,
                                  .original_context = c->original,
                                  .short_factor = r->near,
                                  .long_factor = r->far,
                                  .attention_factor = r->has_attention ? r->attention : 0 };
    return DT_OK;
}

static const struct scaling_kind {
    const char *name;
    int scaling;
    bool wants_factor, wants_frequencies;
} scalings[] = {
    { "default", DT_ROPE_PLAIN, false, false },
    { "linear", DT_ROPE_LINEAR, true, false },
    { "llama3", DT_ROPE_LLAMA3, true, true },
};

/* What the rotations of layers with and without a window share. */
typedef struct rotation {
    dt_rope_options rope;
    dt_longrope_options longrope;
} rotation;

static dt_status rope_of(const dt__hf_config *c, const char *name, const dt__hf_rope *r,
                         rotation *to)
{
    dt_rope_options *out = &to->rope;
    char shown[DT__SHOWN];
    const char *type = r->rope_type != NULL ? r->rope_type : r->type != NULL ? r->type : "default";
    if (r->rope_type != NULL && r->type != NULL && strcmp(r->rope_type, r->type) != 0) {
        return dt__hf_refuse(c, "%s: rope_type and type differ", name);
    }
    if (r->partial != 1) {
        return dt__hf_refuse(c, "%s: partial_rotary_factor %g is not supported; 1 is", name,
                             r->partial);
    }
    if (is_longrope(type)) return longrope_of(c, name, r, &to->longrope);
    const struct scaling_kind *k = scalings, *end = scalings + DT__COUNT_OF(scalings);
    while (k != end && strcmp(k->name, type) != 0) k++;
    if (k == end) {
        return dt__hf_refuse(c, "%s of type '%s' is not supported; linear, llama3 and longrope are",
                             name, dt__shown(type, shown));
    }
    if (r->other[0] == 0 && (r->has_near || r->has_far || r->has_attention)) {
        return dt__hf_refuse(c, "%s: %s is of longrope, and the type is %s", name,
                             r->has_near  ? "short_factor"
                             : r->has_far ? "long_factor"
                                          : "attention_factor",
                             k->name);
    }
    if (r->other[0] != 0) return dt__hf_refuse(c, "%s: '%s' is not supported", name, r->other);
    if (k->wants_factor && !r->has_factor) return lacks(c, name, "factor");
    if (k->wants_frequencies && !r->has_low) return lacks(c, name, "low_freq_factor");
    if (k->wants_frequencies && !r->has_high) return lacks(c, name, "high_freq_factor");
    if (k->wants_frequencies && !r->has_original) {
        return lacks(c, name, "original_max_position_embeddings");
    }
    if (k->wants_frequencies && !(r->low > 0 && r->low < r->high)) {
        return dt__hf_refuse(c, "%s: low_freq_factor %g is not between 0 and high_freq_factor %g",
                             name, r->low, r->high);
    }
    out->scaling = k->scaling;
    if (k->wants_factor) out->factor = r->factor;
    if (!k->wants_frequencies) return DT_OK;
    DT__TRY(check_original(c, name, r));
    out->low_freq_factor = r->low;
    out->high_freq_factor = r->high;
    out->original_context = r->original;
    return DT_OK;
}

static bool same_factors(const dt_reals *a, const dt_reals *b)
{
    return a->n == b->n && memcmp(a->v, b->v, (size_t)a->n * sizeof a->v[0]) == 0;
}

static bool same_rope(const rotation *x, const rotation *y)
{
    const dt_longrope_options *l = &x->longrope, *m = &y->longrope;
    const dt_rope_options *a = &x->rope, *b = &y->rope;
    if (l->given != m->given || l->attention_factor != m->attention_factor ||
        !same_factors(&l->short_factor, &m->short_factor) ||
        !same_factors(&l->long_factor, &m->long_factor)) {
        return false;
    }
    return a->scaling == b->scaling && a->factor == b->factor &&
           a->low_freq_factor == b->low_freq_factor && a->high_freq_factor == b->high_freq_factor &&
           a->original_context == b->original_context;
}

/* rope_theta may be in three places; all that are present must agree. */
static dt_status find_theta(const dt__hf_config *c, double *theta)
{
    const struct {
        bool there;
        double value;
    } place[] = { { c->has_theta, c->theta },
                  { c->parameters.has_theta, c->parameters.theta },
                  { c->scaling.has_theta, c->scaling.theta } };
    bool found = false;
    for (int i = 0; i < DT__COUNT_OF(place); i++) {
        if (!place[i].there) continue;
        if (found && *theta != place[i].value) {
            return dt__hf_refuse(c, "rope_theta is %g in one place and %g in another", *theta,
                                 place[i].value);
        }
        found = true;
        *theta = place[i].value;
    }
    return *theta > 0 ? DT_OK : dt__hf_refuse(c, "rope_theta %g: it must be above 0", *theta);
}

/* The rotation's base for layers with a window, which have no scaling. */
static dt_status set_local(const dt__hf_config *c, dt_llama_options *out)
{
    rotation local = { .rope.scaling = DT_ROPE_PLAIN };
    double theta = c->local_theta;
    if (!c->of->gemma || out->block.window == 0) return DT_OK;
    if (c->local.present) {
        DT__TRY(rope_of(c, "rope_parameters: sliding_attention", &c->local, &local));
        if (local.rope.scaling != DT_ROPE_PLAIN) {
            return dt__hf_refuse(c, "rope_parameters: sliding_attention with scaling is not "
                                    "supported; default is");
        }
    }
    if (c->local.has_theta && c->has_local_theta && theta != c->local.theta) {
        return dt__hf_refuse(c,
                             "rope_local_base_freq is %g, and rope_theta of sliding_attention %g",
                             theta, c->local.theta);
    }
    if (c->local.has_theta) theta = c->local.theta;
    if (!(theta > 0)) return dt__hf_refuse(c, "rope_local_base_freq %g: it must be above 0", theta);
    out->block.local_theta = theta;
    return DT_OK;
}

/* Refuses rope_scaling of a Gemma with the old key `type`, which only transformers 4 reads. */
static dt_status check_name(const dt__hf_config *c)
{
    const dt__hf_rope *r = &c->scaling;
    const bool old = c->of->gemma && r->rope_type == NULL && r->type != NULL;
    if (!old || strcmp(r->type, "default") == 0) return DT_OK;
    return dt__hf_refuse(c, "rope_scaling: 'type' without 'rope_type', which versions of "
                            "transformers read in two ways");
}

dt_status dt__hf_set_rotation(const dt__hf_config *c, dt_llama_options *out)
{
    rotation four = { .rope = out->rope }, five = four;
    DT__TRY(check_name(c));
    if (c->scaling.present) DT__TRY(rope_of(c, "rope_scaling", &c->scaling, &four));
    if (c->parameters.present || c->parameters.other[0] != 0) {
        DT__TRY(rope_of(c, "rope_parameters", &c->parameters, &five));
    }
    if (c->scaling.present && c->parameters.present && !same_rope(&four, &five)) {
        return dt__hf_refuse(c, "rope_scaling and rope_parameters differ");
    }
    if (c->parameters.present) four = five;
    out->rope = four.rope;
    out->longrope = four.longrope;
    DT__TRY(set_local(c, out));
    return find_theta(c, &out->theta);
}
