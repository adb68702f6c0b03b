/* Derives the options of a family from the keys of a GGUF file and the names of its tensors. An
 * unknown key of the architecture is an error, as it may change what the model computes. */
#include "io/gguf/gguf_keys.h"

#include <detent/experimental/nn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MOST 1073741824
#define MOST_AMPLITUDE 1e6 /* the limit of family llama */

typedef struct reading {
    dt__gguf_file *raw;
    dt__gguf_model *g;
} reading;

dt_status dt__gguf_refuse(const dt__gguf_file *raw, const char *format, ...)
{
    char text[512];
    DT__FORMAT(text, sizeof text, format);
    return dt_fail(raw->ctx, DT_ERR_UNSUPPORTED, "%s: %s", raw->file->path, text);
}

/* ---- keys ----------------------------------------------------------------------------------- */

static dt_status find_arch(const reading *r)
{
    const char *text;
    size_t n;
    char shown[DT__SHOWN], name[DT__SHOWN] = "";
    DT__TRY(dt__gguf_text(r->raw, "general.architecture", &text, &n));
    if (text == NULL) return dt__gguf_fail(r->raw, "key 'general.architecture' is missing");
    r->g->arch = dt__gguf_arch_named(text, n);
    if (r->g->arch == NULL) {
        snprintf(name, sizeof name, "%.*s", (int)dt__min_i64((int64_t)n, DT__SHOWN - 1), text);
        return dt__gguf_refuse(r->raw, "architecture '%s' is not supported; " DT__GGUF_ARCHS " are",
                               dt__shown(name, shown));
    }
    return DT_OK;
}

static bool is_arch(const reading *r, const char *name)
{
    return strcmp(r->g->arch->name, name) == 0;
}

/* Keys of the architecture that are read, or have no effect. Each is followed by a blank. */
static const char known[] =
    "vocab_size context_length embedding_length block_count feed_forward_length "
    "attention.head_count attention.head_count_kv attention.key_length "
    "attention.value_length attention.layer_norm_epsilon attention.layer_norm_rms_epsilon "
    "attention.sliding_window attention.sliding_window_pattern use_parallel_residual "
    "rope.freq_base_swa rope.scaling.attn_factor rope.dimension_count rope.freq_base "
    "rope.scaling.type rope.scaling.factor rope.scaling.original_context_length "
    "rope.scaling.finetuned expert_count expert_used_count ";

static dt_status check_known(const reading *r)
{
    const size_t n = strlen(r->g->arch->name);
    for (int64_t i = 0; i < r->raw->n_keys; i++) {
        const dt__gguf_key *k = &r->raw->key[i];
        bool found =
            k->bytes <= n || memcmp(k->name, r->g->arch->name, n) != 0 || k->name[n] != '.';
        for (const char *w = known; *w != 0 && !found; w += strcspn(w, " ") + 1) {
            const size_t length = strcspn(w, " ");
            found = length == k->bytes - n - 1 && memcmp(k->name + n + 1, w, length) == 0;
        }
        if (found) continue;
        return dt__gguf_refuse(
            r->raw, "key '%.*s' is not known here, and may change what the model computes",
            (int)dt__min_i64((int64_t)k->bytes, 100), k->name);
    }
    return DT_OK;
}

/* `missing` -1: the key is required. */
static dt_status read_int(const reading *r, const char *key, int64_t missing, int64_t *out)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s", r->g->arch->name, key);
    DT__TRY(dt__gguf_int(r->raw, name, missing, out));
    if (*out < 0) return dt__gguf_fail(r->raw, "key '%s' is missing", name);
    if (*out <= MOST) return DT_OK;
    return dt__gguf_fail(r->raw, "key '%s' is %lld; %d is the most", name, (long long)*out, MOST);
}

static dt_status read_real(const reading *r, const char *key, double missing, double *out)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s", r->g->arch->name, key);
    DT__TRY(dt__gguf_real(r->raw, name, missing, out));
    if (*out >= 0) return DT_OK;
    return dt__gguf_fail(r->raw, "key '%s' is missing, or negative", name);
}

static dt_status read_sizes(const reading *r)
{
    dt__gguf_model *g = r->g;
    DT__TRY(read_int(r, "context_length", -1, &g->o.context));
    DT__TRY(read_int(r, "embedding_length", -1, &g->o.width));
    DT__TRY(read_int(r, "block_count", -1, &g->o.layers));
    DT__TRY(read_int(r, "feed_forward_length", -1, &g->o.hidden));
    DT__TRY(read_int(r, "attention.head_count", -1, &g->o.heads));
    DT__TRY(read_int(r, "attention.head_count_kv", g->o.heads, &g->o.kv_heads));
    g->o.moe = (dt_moe_options){ .normalize = true, .balance = 0.01 };
    DT__TRY(read_int(r, "expert_count", 0, &g->o.moe.experts));
    g->o.moe.given = g->o.moe.experts > 0;
    DT__TRY(read_int(r, "expert_used_count", g->o.moe.experts > 0 ? -1 : 0, &g->o.moe.top_k));
    if (g->o.heads < 1 || g->o.kv_heads < 1 || g->o.width < 1 || g->o.heads % g->o.kv_heads != 0) {
        return dt__gguf_fail(r->raw, "%lld heads with %lld of keys and values, of width %lld",
                             (long long)g->o.heads, (long long)g->o.kv_heads,
                             (long long)g->o.width);
    }
    DT__TRY(read_int(r, "attention.key_length", g->o.width / g->o.heads, &g->o.head_width));
    if (g->o.head_width >= 1 && g->o.head_width % 2 == 0) return DT_OK;
    return dt__gguf_fail(r->raw, "heads of width %lld; expected an even width of 2 or more",
                         (long long)g->o.head_width);
}

/* Settings for which only one value is supported. */
static dt_status check_settings(const reading *r)
{
    const dt__gguf_model *g = r->g;
    int64_t values, rotated, window;
    DT__TRY(read_int(r, "attention.value_length", g->o.head_width, &values));
    DT__TRY(read_int(r, "rope.dimension_count", g->o.head_width, &rotated));
    DT__TRY(read_int(r, "attention.sliding_window", g->o.context, &window));
    if (values != g->o.head_width)
        return dt__gguf_refuse(r->raw, "heads of values are as wide as those of keys");
    if (!g->arch->is_gpt && rotated != g->o.head_width) {
        return dt__gguf_refuse(r->raw,
                               "%lld of a head's %lld values are rotated; all of them can be",
                               (long long)rotated, (long long)g->o.head_width);
    }
    if (window == 0 || window >= g->o.context || is_arch(r, "gemma3")) return DT_OK;
    return dt__gguf_refuse(r->raw, "attention.sliding_window %lld is smaller than the context",
                           (long long)window);
}

/* ---- rotation ------------------------------------------------------------------------------- */

static dt_status read_factors(const reading *r, const char *label, dt_reals *out)
{
    dt__gguf_raw *t = dt__gguf_tensor_of(r->raw, label);
    const int64_t n = r->g->o.head_width / 2;
    if (t == NULL || t->type->id != DT__GGUF_F32 || t->count != n || n > DT_MAX_REALS) {
        return dt__gguf_fail(r->raw, "tensor '%s' is missing, or not F32[%lld], or longer than %d",
                             label, (long long)n, DT_MAX_REALS);
    }
    t->used = true;
    out->n = (int)n;
    for (int64_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, t->data + (size_t)i * sizeof x, sizeof x);
        out->v[i] = (double)x;
        if (x >= 1e-6F && x <= 1e6F) continue;
        return dt__gguf_fail(r->raw, "tensor '%s': element %lld is %g", label, (long long)i,
                             (double)x);
    }
    return DT_OK;
}

static dt_status read_longrope(const reading *r, double amplitude)
{
    dt_longrope_options *l = &r->g->o.longrope;
    if (!is_arch(r, "llama")) {
        return dt__gguf_refuse(r->raw, "longrope of architecture %s; that of llama is supported",
                               r->g->arch->name);
    }
    if (!(amplitude > 0 &&
          amplitude <= MOST_AMPLITUDE)) { /* 0 would be computed from the factors */
        return dt__gguf_fail(
            r->raw, "key 'llama.rope.scaling.attn_factor' is %g; expected above 0, up to %g",
            amplitude, (double)MOST_AMPLITUDE);
    }
    *l = (dt_longrope_options){ .given = true, .attention_factor = amplitude };
    DT__TRY(
        read_int(r, "rope.scaling.original_context_length", r->g->o.context, &l->original_context));
    if (l->original_context < 1) {
        return dt__gguf_fail(r->raw,
                             "rope.scaling.original_context_length is 0; expected 1 or more");
    }
    DT__TRY(read_factors(r, DT__GGUF_SHORT_FACTORS, &l->short_factor));
    return read_factors(r, DT__GGUF_LONG_FACTORS, &l->long_factor);
}

/* Of gptneox: the rotated share of a head, and the form of the blocks. */
static dt_status read_neox(const reading *r)
{
    dt__gguf_model *g = r->g;
    DT__TRY(read_int(r, "rope.dimension_count", g->o.head_width, &g->rotated));
    if (g->rotated < 2 || g->rotated > g->o.head_width || g->rotated % 2 != 0) {
        return dt__gguf_fail(r->raw, "key 'gptneox.rope.dimension_count' is %lld of %lld",
                             (long long)g->rotated, (long long)g->o.head_width);
    }
    DT__TRY(dt__gguf_bool(r->raw, "gptneox.use_parallel_residual", true, &g->parallel));
    return dt__gguf_bool(r->raw, DT__GGUF_GELU, true, &g->gelu_erf);
}

static dt_status read_rotation(const reading *r)
{
    const char *text;
    size_t n;
    char name[96];
    double amplitude, factor;
    dt_rope_options *o = &r->g->o.rope;
    *o = (dt_rope_options){ DT_ROPE_PLAIN, 1, 1, 4, 8192 };
    r->g->o.theta = 10000;
    if (is_arch(r, "gpt2")) return DT_OK;
    DT__TRY(read_real(r, "rope.freq_base", 10000, &r->g->o.theta));
    DT__TRY(read_real(r, "rope.scaling.attn_factor", 1, &amplitude));
    snprintf(name, sizeof name, "%s.rope.scaling.type", r->g->arch->name);
    DT__TRY(dt__gguf_text(r->raw, name, &text, &n));
    DT__TRY(read_real(r, "rope.scaling.factor", 0, &factor));
    const bool scales = factor != 0 && factor != 1;
    const bool none = text != NULL && dt__gguf_is(text, n, "none");
    const bool longrope = text != NULL && dt__gguf_is(text, n, "longrope");
    dt__gguf_raw *divisors = dt__gguf_tensor_of(r->raw, "rope_freqs.weight");
    if (scales && (longrope || (divisors != NULL && !none))) {
        return dt__gguf_refuse(r->raw, "rope.scaling.factor %g with %s", factor,
                               longrope ? "longrope" : "rope_freqs.weight");
    }
    if (divisors != NULL) {
        divisors->used = true;
        if (text == NULL || none) return dt__gguf_read_divisors(r->raw, r->g, divisors);
        return dt__gguf_refuse(r->raw, "rope.scaling.type and rope_freqs.weight together");
    }
    if (longrope) return read_longrope(r, amplitude);
    if (amplitude != 1) {
        return dt__gguf_refuse(r->raw, "rope.scaling.attn_factor %g without longrope", amplitude);
    }
    if (none || (text == NULL && !scales)) return DT_OK;
    if ((text != NULL && !dt__gguf_is(text, n, "linear")) || r->g->arch->is_gpt) {
        return dt__gguf_refuse(r->raw, "key '%s': %s is supported", name,
                               r->g->arch->is_gpt ? "none" : "linear, longrope and none");
    }
    o->scaling = DT_ROPE_LINEAR; /* llama.cpp's type where the key is missing */
    return read_real(r, "rope.scaling.factor", -1, &o->factor);
}

/* ---- the model ------------------------------------------------------------------------------ */

static dt_status read_gemma3(const reading *r)
{
    dt_block_options *b = &r->g->o.block;
    *b = (dt_block_options){ .given = true,
                             .norms = DT_BLOCK_NORMS_BOTH,
                             .norm_plus_one = true,
                             .activation = DT_GATE_GELU_TANH,
                             .scaled_tokens = true,
                             .query_width = dt__gguf_query_width(r->g) };
    DT__TRY(read_int(r, "attention.sliding_window", 0, &b->window));
    if (b->window == 0) return DT_OK;
    DT__TRY(read_real(r, "rope.freq_base_swa", 10000, &b->local_theta));
    return read_int(r, "attention.sliding_window_pattern", DT__GGUF_FULL_EVERY, &b->full_every);
}

static dt_status read_block(const reading *r)
{
    dt_block_options *b = &r->g->o.block;
    if (is_arch(r, "gptneox")) return read_neox(r);
    if (is_arch(r, "gemma3")) return read_gemma3(r);
    if (is_arch(r, "smollm3") && r->g->o.layers >= DT__GGUF_UNROTATED) {
        *b = (dt_block_options){ .given = true, .unrotated = DT__GGUF_UNROTATED };
    }
    if (is_arch(r, "olmo2")) {
        *b =
            (dt_block_options){ .given = true, .norms = DT_BLOCK_NORMS_AFTER, .qk_norm_all = true };
    }
    return DT_OK;
}

static bool has(const reading *r, const char *name)
{
    return dt__gguf_tensor_of(r->raw, name) != NULL;
}

/* Refuses one of several files of a split model: it has the keys of the whole model, and without
 * its head it would be read as a model with a tied head. */
static dt_status check_whole(const reading *r)
{
    int64_t parts;
    DT__TRY(dt__gguf_int(r->raw, "split.count", 1, &parts));
    if (parts <= 1) return DT_OK;
    return dt__gguf_refuse(r->raw,
                           "one of %lld files of a split model (split.count); llama-gguf-split "
                           "--merge makes one file of them",
                           (long long)parts);
}

static dt_status describe(const reading *r)
{
    dt__gguf_model *g = r->g;
    DT__TRY(check_whole(r));
    DT__TRY(find_arch(r));
    DT__TRY(check_known(r));
    DT__TRY(read_sizes(r));
    DT__TRY(check_settings(r));
    DT__TRY(read_rotation(r));
    DT__TRY(read_block(r));
    DT__TRY(read_real(
        r, g->arch->is_gpt ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
        -1, &g->o.eps));
    const dt__gguf_raw *tokens = dt__gguf_tensor_of(r->raw, "token_embd.weight");
    if (tokens == NULL || tokens->rank != 2) {
        return dt__gguf_fail(r->raw, "tensor 'token_embd.weight' is missing, or no matrix");
    }
    g->o.vocab = tokens->dims[0];
    g->o.tied = !has(r, "output.weight");
    g->o.qkv_bias = has(r, "blk.0.attn_q.bias");
    g->o.out_bias = has(r, "blk.0.attn_output.bias");
    g->o.mlp_bias = has(r, "blk.0.ffn_up.bias");
    g->o.qk_norm = has(r, "blk.0.attn_q_norm.weight");
    g->biased = g->arch->is_gpt && (has(r, "blk.0.attn_qkv.bias") || g->o.mlp_bias);
    return DT_OK;
}

/* The share of a head that family gpt rounds to g->rotated elements. */
static double share_of(const dt__gguf_model *g)
{
    const double width = (double)g->o.head_width, share = (double)g->rotated / width;
    return (int64_t)(width * share) < g->rotated ? nextafter(share, 2) : share;
}

void dt__gguf_put_options(const dt__gguf_model *g, dt__chars *t)
{
    const dt_llama_options *o = &g->o;
    const dt_gpt_options gpt = { .vocab = o->vocab,
                                 .context = o->context,
                                 .layers = o->layers,
                                 .heads = o->heads,
                                 .width = o->width,
                                 .hidden = o->hidden,
                                 .bias = g->biased,
                                 .tied = o->tied,
                                 .eps = o->eps,
                                 .rotated = share_of(g),
                                 .theta = o->theta,
                                 .parallel = g->parallel,
                                 .gelu_erf = g->gelu_erf };
    dt__put_text(t, g->arch->is_gpt ? "{\"gpt\":" : "{\"llama\":");
    dt__put_options(t, g->arch->is_gpt ? dt_gpt_keys : dt_llama_keys,
                    g->arch->is_gpt ? (const void *)&gpt : o);
    dt__put_text(t, "}");
}

dt_status dt__gguf_read_model(dt__gguf_file *raw, dt__gguf_model *g)
{
    return describe(&(reading){ raw, g });
}
