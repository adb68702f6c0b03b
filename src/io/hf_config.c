/* config.json of a Hugging Face folder as options of family llama. A key that affects what the
 * model computes is used or refused; other keys are skipped; null means absent. Defaults are those
 * of LlamaConfig, Qwen2Config, Qwen3Config, MixtralConfig, Phi3Config, Olmo2Config and
 * SmolLM3Config (transformers 4.57 and 5.23). A GPT-2's is read by hf_config_gpt2.c. */
#include "io/hf_config.h"

#include <stdio.h>
#include <string.h>

/* ---- what it holds --------------------------------------------------------------------------- */

/* rope_scaling of transformers 4, rope_parameters of transformers 5. */
typedef struct rope {
    bool present;
    const char *rope_type, *type; /* two names of one key */
    double theta, factor, low, high, partial;
    int64_t original;
    bool has_theta, has_factor, has_low, has_high, has_original;
    char other[DT__SHOWN]; /* the first unknown key */
} rope;

typedef struct config {
    dt_ctx *ctx;
    const char *path;
    int kind;
    const char *model_type, *hidden_act;
    int64_t vocab, width, hidden, layers, heads, kv_heads, head_width, context;
    int64_t pretraining_tp, window, window_layers, experts, top_k;
    double eps, theta, partial, attention_dropout, balance, jitter, resid_dropout, embed_dropout;
    bool tied, attention_bias, mlp_bias, use_window;
    bool has_vocab, has_width, has_hidden, has_layers, has_heads, has_theta, has_window;
    rope scaling, parameters;
    int64_t n_layer_types, n_sliding; /* -1: absent */
    int64_t n_rope_layers, unrotated; /* -1: absent; every n-th has no rotation, 0: none */
    bool has_quantization, has_code;
} config;

#define MOST 1073741824.0

#define AT(field) .offset = offsetof(config, field)
#define GIVEN(field) .given = offsetof(config, field)

static const dt_key type_keys[] = {
    { "model_type", DT_KEY_STRING, AT(model_type) },
    { 0 },
};

static const dt_key config_keys[] = {
    { "vocab_size", DT_KEY_INT, AT(vocab), .least = 1, .most = MOST, GIVEN(has_vocab) },
    { "hidden_size", DT_KEY_INT, AT(width), .least = 1, .most = MOST, GIVEN(has_width) },
    { "intermediate_size", DT_KEY_INT, AT(hidden), .least = 1, .most = MOST, GIVEN(has_hidden) },
    { "num_hidden_layers", DT_KEY_INT, AT(layers), .least = 1, .most = MOST, GIVEN(has_layers) },
    { "num_attention_heads", DT_KEY_INT, AT(heads), .least = 1, .most = MOST, GIVEN(has_heads) },
    { "num_key_value_heads", DT_KEY_INT, AT(kv_heads), .least = 1, .most = MOST },
    { "head_dim", DT_KEY_INT, AT(head_width), .least = 1, .most = MOST },
    { "max_position_embeddings", DT_KEY_INT, AT(context), .least = 1, .most = MOST },
    { "hidden_act", DT_KEY_STRING, AT(hidden_act) },
    { "rms_norm_eps", DT_KEY_REAL, AT(eps), .most = 1 },
    { "rope_theta", DT_KEY_REAL, AT(theta), .most = DT_NO_LIMIT, GIVEN(has_theta) },
    { "partial_rotary_factor", DT_KEY_REAL, AT(partial), .most = 1 },
    { "tie_word_embeddings", DT_KEY_BOOL, AT(tied) },
    { "attention_bias", DT_KEY_BOOL, AT(attention_bias) },
    { "mlp_bias", DT_KEY_BOOL, AT(mlp_bias) },
    { "attention_dropout", DT_KEY_REAL, AT(attention_dropout), .most = 1 },
    { "pretraining_tp", DT_KEY_INT, AT(pretraining_tp), .least = 1, .most = MOST },
    { "sliding_window", DT_KEY_INT, AT(window), .most = MOST, GIVEN(has_window) },
    { "use_sliding_window", DT_KEY_BOOL, AT(use_window) },
    { "max_window_layers", DT_KEY_INT, AT(window_layers), .most = MOST },
    { "num_local_experts", DT_KEY_INT, AT(experts), .least = 1, .most = MOST },
    { "num_experts_per_tok", DT_KEY_INT, AT(top_k), .least = 1, .most = MOST },
    { "router_aux_loss_coef", DT_KEY_REAL, AT(balance), .most = 1e6 },
    { "resid_pdrop", DT_KEY_REAL, AT(resid_dropout), .most = 1 },
    { "embd_pdrop", DT_KEY_REAL, AT(embed_dropout), .most = 1 },
    { "no_rope_layer_interval", DT_KEY_INT, AT(unrotated), .most = MOST },
    { "router_jitter_noise", DT_KEY_REAL, AT(jitter), .most = DT_NO_LIMIT },
    { 0 },
};

#undef AT
#undef GIVEN
#define AT(field) .offset = offsetof(rope, field)
#define GIVEN(field) .given = offsetof(rope, field)

static const dt_key rope_keys[] = {
    { "rope_type", DT_KEY_STRING, AT(rope_type) },
    { "type", DT_KEY_STRING, AT(type) },
    { "rope_theta", DT_KEY_REAL, AT(theta), .most = DT_NO_LIMIT, GIVEN(has_theta) },
    { "factor", DT_KEY_REAL, AT(factor), .least = 1, .most = DT_NO_LIMIT, GIVEN(has_factor) },
    { "low_freq_factor", DT_KEY_REAL, AT(low), .most = DT_NO_LIMIT, GIVEN(has_low) },
    { "high_freq_factor", DT_KEY_REAL, AT(high), .most = DT_NO_LIMIT, GIVEN(has_high) },
    { "original_max_position_embeddings", DT_KEY_INT, AT(original), .least = 1, .most = MOST,
      GIVEN(has_original) },
    { "partial_rotary_factor", DT_KEY_REAL, AT(partial), .most = 1 },
    { 0 },
};

/* Model classes. Qwen2 has biases whatever attention_bias says; only LlamaConfig reads mlp_bias.
 * The default of num_key_value_heads is num_attention_heads in LlamaConfig. */
typedef struct class
{
    const char *name;
    bool biased; /* q, k, v; never o */
    bool reads_attention_bias, reads_mlp_bias, normed, windowed, mixed;
    int64_t kv_heads, head_width, context; /* defaults; 0: heads, width / heads */
    double theta, eps;
    bool tied;                 /* the default */
    bool after, norm_all;      /* norms of outputs; of all heads together */
    bool drops;                /* reads resid_pdrop and embd_pdrop */
    int64_t unrotated;         /* default of no_rope_layer_interval; 0: it is not read */
    const dt__hf_names *names; /* of its tensors; NULL: those of family llama */
} class;

static const class classes[] = {
    { "llama", .reads_attention_bias = true, .reads_mlp_bias = true, .context = 2048, .theta = 1e4,
      .eps = 1e-6 },
    { "qwen2", .biased = true, .windowed = true, .kv_heads = 32, .context = 32768, .theta = 1e4,
      .eps = 1e-6 },
    { "qwen3", .reads_attention_bias = true, .normed = true, .windowed = true, .kv_heads = 32,
      .head_width = 128, .context = 32768, .theta = 1e4, .eps = 1e-6 },
    { "mixtral", .mixed = true, .kv_heads = 8, .context = 131072, .theta = 1e6, .eps = 1e-5 },
    { "phi3", .context = 4096, .theta = 1e4, .eps = 1e-5, .drops = true,
      .names = &dt__hf_phi3_names },
    { "olmo2", .reads_attention_bias = true, .normed = true, .context = 2048, .theta = 1e4,
      .eps = 1e-5, .after = true, .norm_all = true },
    { "smollm3", .reads_attention_bias = true, .reads_mlp_bias = true, .windowed = true,
      .kv_heads = 4, .context = 32768, .theta = 2e6, .eps = 1e-6, .tied = true, .unrotated = 4 },
};

/* ---- reading --------------------------------------------------------------------------------- */

/* Scans an object: known keys by their table, others by `other`. */
typedef struct reading {
    const dt_key *keys;
    void *options;
    dt_status (*other)(dt__json *j, const char *name, void *options); /* must skip the value */
} reading;

static dt_status read_known(dt__json *j, const reading *r, const char *name, uint64_t *seen)
{
    for (int i = 0; r->keys[i].name != NULL; i++) {
        const dt_key *key = &r->keys[i];
        char what[96];
        if (strcmp(key->name, name) != 0) continue;
        if ((*seen & (uint64_t)1 << i) != 0) return dt__json_fail(j, "'%s' occurs twice", name);
        *seen |= (uint64_t)1 << i;
        if (dt__json_null(j)) return DT_OK;
        if (key->given != 0) *((bool *)r->options + key->given) = true;
        const char *before = j->what;
        snprintf(what, sizeof what, "the file, at '%s'", key->name);
        j->what = what;
        const dt_status s = dt__json_value(j, key, r->options);
        j->what = before;
        return s;
    }
    return dt__json_null(j) ? DT_OK : r->other(j, name, r->options);
}

static dt_status read_object(dt__json *j, const reading *r)
{
    uint64_t seen = 0;
    DT__TRY(dt__json_expect(j, '{'));
    bool more = !dt__json_next(j, '}');
    while (more) {
        const char *name;
        DT__TRY(dt__json_key(j, &name));
        DT__TRY(read_known(j, r, name, &seen));
        DT__TRY(dt__json_more(j, '}', &more));
    }
    return DT_OK;
}

dt_status dt__hf_read_object(dt__json *j, const dt_key *keys, void *options,
                             dt_status (*other)(dt__json *j, const char *name, void *options))
{
    return read_object(j, &(reading){ keys, options, other });
}

static dt_status step_over(dt__json *j, const char *name, void *options)
{
    (void)name;
    (void)options;
    return dt__json_skip(j);
}

static dt_status note_rope_key(dt__json *j, const char *name, void *options)
{
    rope *r = options;
    if (r->other[0] == 0) dt__shown(name, r->other);
    return dt__json_skip(j);
}

static dt_status read_rope(dt__json *j, rope *out)
{
    if (out->present) return dt__json_fail(j, "rope_scaling or rope_parameters occurs twice");
    out->present = true;
    return read_object(j, &(reading){ rope_keys, out, note_rope_key });
}

static dt_status read_layer_types(dt__json *j, config *c)
{
    const char *text;
    char shown[DT__SHOWN];
    if (c->n_layer_types >= 0) return dt__json_fail(j, "'layer_types' occurs twice");
    c->n_layer_types = 0;
    DT__TRY(dt__json_expect(j, '['));
    bool more = !dt__json_next(j, ']');
    while (more) {
        DT__TRY(dt__json_string(j, &text));
        const bool slides = strcmp(text, "sliding_attention") == 0;
        if (!slides && strcmp(text, "full_attention") != 0) {
            return dt__json_fail(j, "layer_types: '%s' is not supported; full_attention is",
                                 dt__shown(text, shown));
        }
        c->n_layer_types++;
        c->n_sliding += slides;
        DT__TRY(dt__json_more(j, ']', &more));
    }
    return DT_OK;
}

/* no_rope_layers: 0 for each layer without rotation, which must be every n-th. */
static dt_status read_rope_layers(dt__json *j, config *c)
{
    int64_t every = 0;
    c->n_rope_layers = 0;
    DT__TRY(dt__json_expect(j, '['));
    bool more = !dt__json_next(j, ']');
    while (more) {
        int64_t rotates;
        DT__TRY(dt__json_integer(j, &rotates));
        const int64_t n = ++c->n_rope_layers;
        if (every == 0 && rotates == 0) every = n;
        if ((every > 0 && n % every == 0) != (rotates == 0)) {
            return dt_fail(c->ctx, DT_ERR_UNSUPPORTED,
                           "%s: no_rope_layers: layer %lld: every n-th layer without rotation is "
                           "supported, no other order",
                           c->path, (long long)n - 1);
        }
        DT__TRY(dt__json_more(j, ']', &more));
    }
    c->unrotated = every;
    return DT_OK;
}

/* compressed-tensors is read by hf_compressed_config.c; weights of other methods are refused. */
static dt_status read_method(dt__json *j, config *c)
{
    const char *method = "";
    dt__json look = *j;
    DT__TRY(dt__json_expect(&look, '{'));
    bool more = !dt__json_next(&look, '}');
    while (more) {
        const char *key;
        DT__TRY(dt__json_key(&look, &key));
        const bool is_method = strcmp(key, "quant_method") == 0 && dt__json_peek(&look) == '"';
        DT__TRY(is_method ? dt__json_string(&look, &method) : dt__json_skip(&look));
        DT__TRY(dt__json_more(&look, '}', &more));
    }
    c->has_quantization |= strcmp(method, "compressed-tensors") != 0;
    return dt__json_skip(j);
}

/* Keys whose values are neither numbers nor words. */
static dt_status read_other(dt__json *j, const char *name, void *options)
{
    config *c = options;
    if (strcmp(name, "rope_scaling") == 0) return read_rope(j, &c->scaling);
    if (strcmp(name, "rope_parameters") == 0) return read_rope(j, &c->parameters);
    if (strcmp(name, "layer_types") == 0) return read_layer_types(j, c);
    if (strcmp(name, "no_rope_layers") == 0 && classes[c->kind].unrotated > 0) {
        return read_rope_layers(j, c);
    }
    const bool quantized = strcmp(name, "quantization_config") == 0;
    if (quantized || strcmp(name, "compression_config") == 0) return read_method(j, c);
    c->has_code |= strcmp(name, "auto_map") == 0;
    return dt__json_skip(j);
}

/* ---- what it means --------------------------------------------------------------------------- */

static dt_status refuse(const config *c, const char *format, ...) DT_PRINTF(2, 3);

static dt_status refuse(const config *c, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return dt_fail(c->ctx, DT_ERR_UNSUPPORTED, "%s: %s", c->path, text);
}

static dt_status find_class(config *c)
{
    char shown[DT__SHOWN];
    if (c->model_type == NULL) {
        return dt_fail(c->ctx, DT_ERR_FORMAT, "%s: model_type is missing", c->path);
    }
    for (c->kind = 0; c->kind < DT__COUNT_OF(classes); c->kind++) {
        if (strcmp(classes[c->kind].name, c->model_type) == 0) return DT_OK;
    }
    return refuse(c,
                  "model_type '%s' is not supported; llama, qwen2, qwen3, mixtral, phi3, olmo2, "
                  "smollm3 and gpt2 are",
                  dt__shown(c->model_type, shown));
}

static dt_status check_missing(const config *c)
{
    const struct {
        bool there;
        const char *name;
    } wanted[] = { { c->has_vocab, "vocab_size" },
                   { c->has_width, "hidden_size" },
                   { c->has_hidden, "intermediate_size" },
                   { c->has_layers, "num_hidden_layers" },
                   { c->has_heads, "num_attention_heads" } };
    char text[256] = "";
    for (int i = 0; i < DT__COUNT_OF(wanted); i++) {
        const size_t used = strlen(text);
        if (wanted[i].there) continue;
        snprintf(text + used, sizeof text - used, "%s%s", used == 0 ? "" : ", ", wanted[i].name);
    }
    if (text[0] == 0) return DT_OK;
    return dt_fail(c->ctx, DT_ERR_FORMAT, "%s: missing: %s", c->path, text);
}

/* As given, or the class's default. */
static int64_t kv_heads_of(const config *c)
{
    const int64_t usual = classes[c->kind].kv_heads;
    if (c->kv_heads != 0) return c->kv_heads;
    return usual != 0 ? usual : c->heads;
}

static dt_status check_heads(const config *c)
{
    const int64_t kv_heads = kv_heads_of(c);
    if (c->heads % kv_heads != 0) {
        return dt_fail(c->ctx, DT_ERR_FORMAT,
                       "%s: num_attention_heads %lld is no multiple of num_key_value_heads %lld%s",
                       c->path, (long long)c->heads, (long long)kv_heads,
                       c->kv_heads == 0 ? ", the default" : "");
    }
    if (c->head_width != 0 || c->width % c->heads == 0) return DT_OK;
    return dt_fail(c->ctx, DT_ERR_FORMAT,
                   "%s: hidden_size %lld is no multiple of num_attention_heads %lld", c->path,
                   (long long)c->width, (long long)c->heads);
}

/* pretraining_tp splits products into slices that are added up: the same result. */
static dt_status check_arithmetic(const config *c)
{
    char shown[DT__SHOWN];
    const char *act = c->hidden_act;
    if (c->has_quantization) {
        return refuse(c, "quantization_config: the weights are quantized by another method than "
                         "compressed-tensors; give the float model");
    }
    if (c->has_code) return refuse(c, "auto_map: the model brings code of its own");
    if (act != NULL && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0) {
        return refuse(c, "hidden_act '%s' is not supported; silu is", dt__shown(act, shown));
    }
    if (c->partial != 1) {
        return refuse(c, "partial_rotary_factor %g is not supported; 1 is", c->partial);
    }
    const struct {
        const char *key;
        double share;
    } dropped[] = { { "attention_dropout", c->attention_dropout },
                    { "resid_pdrop", classes[c->kind].drops ? c->resid_dropout : 0 },
                    { "embd_pdrop", classes[c->kind].drops ? c->embed_dropout : 0 } };
    for (int i = 0; i < DT__COUNT_OF(dropped); i++) {
        if (dropped[i].share == 0) continue;
        return refuse(c,
                      "%s %g is not supported; 0 is, which is the same model wherever it is not "
                      "trained",
                      dropped[i].key, dropped[i].share);
    }
    return DT_OK;
}

/* A window as long as the context has no effect. */
static dt_status check_window(const config *c)
{
    const class *k = &classes[c->kind];
    if (c->n_layer_types >= 0 && c->n_layer_types != c->layers) {
        return dt_fail(c->ctx, DT_ERR_FORMAT,
                       "%s: layer_types has %lld entries, num_hidden_layers is %lld", c->path,
                       (long long)c->n_layer_types, (long long)c->layers);
    }
    const bool on = k->windowed ? c->use_window : c->has_window;
    bool slides = c->window_layers < c->layers;
    if (c->n_layer_types >= 0) slides = c->n_sliding > 0;
    else if (!k->windowed) slides = true;
    if (on && slides && c->window < c->context) {
        return refuse(c,
                      "sliding_window %lld is not supported: it is smaller than "
                      "max_position_embeddings %lld",
                      (long long)c->window, (long long)c->context);
    }
    if (on || c->n_sliding == 0) return DT_OK;
    return refuse(c, "layer_types: sliding_attention without a sliding_window");
}

/* Layers without rotation. */
static dt_status check_rotated(const config *c)
{
    if (c->n_rope_layers < 0 || c->n_rope_layers == c->layers) return DT_OK;
    return dt_fail(c->ctx, DT_ERR_FORMAT,
                   "%s: no_rope_layers has %lld entries, num_hidden_layers is %lld", c->path,
                   (long long)c->n_rope_layers, (long long)c->layers);
}

/* Noise during training: no other implementation draws the same. */
static dt_status check_experts(const config *c)
{
    if (!classes[c->kind].mixed) return DT_OK;
    if (c->jitter != 0) {
        return refuse(c,
                      "router_jitter_noise %g is not supported; 0 is, which is the same model "
                      "wherever it is not trained",
                      c->jitter);
    }
    if (c->top_k <= c->experts) return DT_OK;
    return dt_fail(c->ctx, DT_ERR_FORMAT,
                   "%s: num_experts_per_tok %lld is more than num_local_experts %lld", c->path,
                   (long long)c->top_k, (long long)c->experts);
}

/* ---- rotation -------------------------------------------------------------------------------- */

static const struct scaling_kind {
    const char *name;
    int scaling;
    bool wants_factor, wants_frequencies;
} scalings[] = {
    { "default", DT_ROPE_PLAIN, false, false },
    { "linear", DT_ROPE_LINEAR, true, false },
    { "llama3", DT_ROPE_LLAMA3, true, true },
};

static dt_status lacks(const config *c, const char *name, const char *key)
{
    return dt_fail(c->ctx, DT_ERR_FORMAT, "%s: %s: '%s' is missing", c->path, name, key);
}

static dt_status rope_of(const config *c, const char *name, const rope *r, dt_rope_options *out)
{
    char shown[DT__SHOWN];
    const char *type = r->rope_type != NULL ? r->rope_type : r->type != NULL ? r->type : "default";
    if (r->rope_type != NULL && r->type != NULL && strcmp(r->rope_type, r->type) != 0) {
        return refuse(c, "%s: rope_type and type differ", name);
    }
    const struct scaling_kind *k = scalings, *end = scalings + DT__COUNT_OF(scalings);
    while (k != end && strcmp(k->name, type) != 0) k++;
    if (k == end) {
        return refuse(c, "%s of type '%s' is not supported; linear and llama3 are", name,
                      dt__shown(type, shown));
    }
    if (r->other[0] != 0) return refuse(c, "%s: '%s' is not supported", name, r->other);
    if (r->partial != 1) {
        return refuse(c, "%s: partial_rotary_factor %g is not supported; 1 is", name, r->partial);
    }
    if (k->wants_factor && !r->has_factor) return lacks(c, name, "factor");
    if (k->wants_frequencies && !r->has_low) return lacks(c, name, "low_freq_factor");
    if (k->wants_frequencies && !r->has_high) return lacks(c, name, "high_freq_factor");
    if (k->wants_frequencies && !r->has_original) {
        return lacks(c, name, "original_max_position_embeddings");
    }
    if (k->wants_frequencies && !(r->low > 0 && r->low < r->high)) {
        return refuse(c, "%s: low_freq_factor %g is not between 0 and high_freq_factor %g", name,
                      r->low, r->high);
    }
    out->scaling = k->scaling;
    if (k->wants_factor) out->factor = r->factor;
    if (!k->wants_frequencies) return DT_OK;
    out->low_freq_factor = r->low;
    out->high_freq_factor = r->high;
    out->original_context = r->original;
    return DT_OK;
}

static bool same_rope(const dt_rope_options *a, const dt_rope_options *b)
{
    return a->scaling == b->scaling && a->factor == b->factor &&
           a->low_freq_factor == b->low_freq_factor && a->high_freq_factor == b->high_freq_factor &&
           a->original_context == b->original_context;
}

/* rope_theta may be in three places; repeated values must agree. */
static dt_status find_theta(const config *c, double *theta)
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
            return refuse(c, "rope_theta is %g in one place and %g in another", *theta,
                          place[i].value);
        }
        found = true;
        *theta = place[i].value;
    }
    return *theta > 0 ? DT_OK : refuse(c, "rope_theta %g: it must be above 0", *theta);
}

static dt_status read_rotation(const config *c, dt_llama_options *out)
{
    dt_rope_options five = out->rope;
    if (c->scaling.present) DT__TRY(rope_of(c, "rope_scaling", &c->scaling, &out->rope));
    if (c->parameters.present) DT__TRY(rope_of(c, "rope_parameters", &c->parameters, &five));
    if (c->scaling.present && c->parameters.present && !same_rope(&out->rope, &five)) {
        return refuse(c, "rope_scaling and rope_parameters differ");
    }
    if (c->parameters.present) out->rope = five;
    return find_theta(c, &out->theta);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Values of family llama's rope options without scaling. */
static const dt_rope_options unscaled = { .scaling = DT_ROPE_PLAIN,
                                          .factor = 1,
                                          .low_freq_factor = 1,
                                          .high_freq_factor = 4,
                                          .original_context = 8192 };

static dt_status translate(const config *c, dt_llama_options *out)
{
    const class *k = &classes[c->kind];
    const bool attention_bias = k->reads_attention_bias && c->attention_bias;
    DT__TRY(check_missing(c));
    DT__TRY(check_heads(c));
    DT__TRY(check_arithmetic(c));
    DT__TRY(check_window(c));
    DT__TRY(check_experts(c));
    DT__TRY(check_rotated(c));
    *out = (dt_llama_options){
        .vocab = c->vocab,
        .context = c->context,
        .layers = c->layers,
        .heads = c->heads,
        .width = c->width,
        .hidden = c->hidden,
        .kv_heads = kv_heads_of(c),
        .head_width = c->head_width == 0 ? c->width / c->heads : c->head_width,
        .tied = c->tied,
        .qkv_bias = k->biased || attention_bias,
        .out_bias = attention_bias,
        .mlp_bias = k->reads_mlp_bias && c->mlp_bias,
        .qk_norm = k->normed,
        .theta = k->theta,
        .eps = c->eps,
        .rope = unscaled,
    };
    if (k->mixed) {
        out->moe = (dt_moe_options){ .given = true,
                                     .experts = c->experts,
                                     .top_k = c->top_k,
                                     .normalize = true,
                                     .balance = c->balance };
    }
    const int64_t unrotated = k->unrotated > 0 && c->unrotated <= c->layers ? c->unrotated : 0;
    out->block =
        (dt_block_options){ .given = k->after || k->norm_all || unrotated > 0,
                            .norms = k->after ? DT_BLOCK_NORMS_AFTER : DT_BLOCK_NORMS_BEFORE,
                            .qk_norm_all = k->norm_all,
                            .unrotated = unrotated };
    return read_rotation(c, out);
}

static dt_status read_config(dt__json *j, config *c)
{
    c->context = classes[c->kind].context;
    c->eps = classes[c->kind].eps;
    c->head_width = classes[c->kind].head_width;
    c->tied = classes[c->kind].tied;
    c->unrotated = classes[c->kind].unrotated;
    return read_object(j, &(reading){ config_keys, c, read_other });
}

/* By the class, which is read first. */
static dt_status read_model(dt__json *j, config *c, dt__hf_model *out)
{
    const dt__json begin = *j;
    DT__TRY(read_object(j, &(reading){ type_keys, c, step_over }));
    DT__TRY(dt__json_end(j));
    char *const kept = j->strings;
    *j = begin;
    j->strings = kept;
    if (c->model_type != NULL && strcmp(c->model_type, "gpt2") == 0) {
        out->is_gpt = true;
        out->names = &dt__hf_gpt2_names;
        return dt__hf_config_read_gpt2(j, &out->gpt);
    }
    DT__TRY(find_class(c));
    DT__TRY(read_config(j, c));
    out->names = classes[c->kind].names;
    return translate(c, &out->llama);
}

const void *dt__hf_options_of(const dt__hf_model *m, const dt_key **keys)
{
    *keys = m->is_gpt ? dt_gpt_keys : dt_llama_keys;
    return m->is_gpt ? (const void *)&m->gpt : &m->llama;
}

const char *dt__hf_tokens(bool is_gpt)
{
    return is_gpt ? "tokens.weight" : "model.embed_tokens.weight";
}

const char *dt__hf_head(bool is_gpt) { return is_gpt ? "head.weight" : "lm_head.weight"; }

dt_status dt__hf_config_read(dt_ctx *ctx, const dt__hf_text *text, dt__hf_model *out)
{
    dt__json j;
    char *strings;
    config c = { .ctx = ctx,
                 .path = text->path,
                 .partial = 1,
                 .window = 4096,
                 .window_layers = 28,
                 .experts = 8,
                 .top_k = 2,
                 .balance = 0.001,
                 .scaling.partial = 1,
                 .parameters.partial = 1,
                 .n_layer_types = -1,
                 .n_rope_layers = -1 };
    *out = (dt__hf_model){ .names = NULL };
    DT__TRY(dt__hf_scan(ctx, text, &j, &strings));
    const dt_status s = read_model(&j, &c, out);
    dt__release(ctx, strings);
    return s;
}
