/* Which keys of a Hugging Face folder's files are known. A key is used (by the readers of
 * config.json, by hf_tokens.c), has no effect here, or must have its neutral value; for any other
 * key a warning says that it is not used. The tables of values that are read are in
 * hf_config_llama.c, _gpt2.c, _neox.c; docs/format.md says what each does. */
#include "data/text/tokenizer.h"
#include "io/hf/hf_config.h"

#include <stdlib.h>
#include <string.h>

/* Classes of models, in the order of names[]. */
enum {
    LLAMA = 1,
    MISTRAL = 2,
    QWEN2 = 4,
    QWEN3 = 8,
    MIXTRAL = 16,
    PHI3 = 32,
    OLMO2 = 64,
    SMOLLM3 = 128,
    GEMMA3 = 256,
    GPT2 = 512,
    NEOX = 1024,
    ROTATED = LLAMA | MISTRAL | QWEN2 | QWEN3 | MIXTRAL | PHI3 | OLMO2 | SMOLLM3 | GEMMA3,
    ALL = ROTATED | GPT2 | NEOX
};

static const char *const names[] = { "llama", "mistral", "qwen2",       "qwen3", "mixtral",  "phi3",
                                     "olmo2", "smollm3", "gemma3_text", "gpt2",  "gpt_neox", NULL };

typedef struct row {
    const char *key;
    unsigned classes;
    const char *only; /* allowed values besides null, separated by |; NULL: any */
} row;

/* ---- config.json ----------------------------------------------------------------------------- */

/* Keys of all classes, with any value. */
static const char *const config_keys[] = {
    /* used */
    "model_type", "vocab_size", "tie_word_embeddings", "bos_token_id", "eos_token_id",
    "pad_token_id", "auto_map", "quantization_config", "hidden_size", "num_hidden_layers",
    "num_attention_heads", "max_position_embeddings",
    /* no effect: training, other programs, other tasks */
    "_name_or_path", "name_or_path", "architectures", "transformers_version",
    "transformers.js_config", "unsloth_version", "unsloth_fixed", "torch_dtype", "dtype",
    "use_cache", "cache_implementation", "initializer_range", "attn_implementation",
    "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
    "experts_implementation", "_experts_implementation", "_experts_implementation_internal",
    "gradient_checkpointing", "pretraining_tp", "chunk_size_feed_forward", "return_dict",
    "output_attentions", "output_hidden_states", "output_router_logits", "output_past",
    "torchscript", "use_bfloat16", "use_flash_attention", "use_flash_attn", "tf_legacy_loss",
    "problem_type", "finetuning_task", "num_labels", "_num_labels", "id2label", "label2id",
    "classifier_dropout", "task_specific_params", "tokenizer_class", "prefix", "sep_token_id",
    "cls_token_id", "unk_token_id", "decoder_start_token_id", "is_decoder",
    "cross_attention_hidden_size", "tie_encoder_decoder", "ignore_keys_at_rope_validation", NULL
};

static const row config_rows[] = {
    /* used */
    { "compression_config", ROTATED, NULL },
    { "intermediate_size", ROTATED | NEOX, NULL },
    { "num_key_value_heads", ROTATED, NULL },
    { "head_dim", ROTATED | NEOX, NULL },
    { "hidden_act", (ROTATED & ~GEMMA3) | NEOX, NULL },
    { "rms_norm_eps", ROTATED, NULL },
    { "rope_theta", ROTATED, NULL },
    { "rope_scaling", ROTATED, NULL },
    { "rope_parameters", ROTATED | NEOX, NULL },
    { "partial_rotary_factor", ROTATED, NULL },
    { "attention_dropout", ROTATED | NEOX, NULL },
    { "attention_bias", LLAMA | QWEN3 | OLMO2 | SMOLLM3 | GEMMA3 | NEOX, NULL },
    { "mlp_bias", LLAMA | SMOLLM3, NULL },
    { "sliding_window", ROTATED, NULL },
    { "layer_types", ROTATED, NULL },
    { "use_sliding_window", QWEN2 | QWEN3 | SMOLLM3, NULL },
    { "max_window_layers", QWEN2 | QWEN3 | SMOLLM3, NULL },
    { "num_local_experts", MIXTRAL, NULL },
    { "num_experts", MIXTRAL, NULL },
    { "num_experts_per_tok", MIXTRAL, NULL },
    { "router_aux_loss_coef", MIXTRAL, NULL },
    { "router_jitter_noise", MIXTRAL, NULL },
    { "resid_pdrop", PHI3 | GPT2, NULL },
    { "embd_pdrop", PHI3 | GPT2, NULL },
    { "original_max_position_embeddings", ROTATED, NULL },
    { "no_rope_layers", SMOLLM3, NULL },
    { "no_rope_layer_interval", SMOLLM3, NULL },
    { "hidden_activation", GEMMA3, NULL },
    { "query_pre_attn_scalar", GEMMA3, NULL },
    { "rope_local_base_freq", GEMMA3, NULL },
    { "sliding_window_pattern", GEMMA3, NULL },
    { "attn_logit_softcapping", GEMMA3, NULL },
    { "final_logit_softcapping", GEMMA3, NULL },
    { "use_bidirectional_attention", GEMMA3, NULL },
    { "n_positions", GPT2, NULL },
    { "n_embd", GPT2, NULL },
    { "n_layer", GPT2, NULL },
    { "n_head", GPT2, NULL },
    { "n_inner", GPT2, NULL },
    { "layer_norm_epsilon", GPT2, NULL },
    { "activation_function", GPT2, NULL },
    { "scale_attn_weights", GPT2, NULL },
    { "scale_attn_by_inverse_layer_idx", GPT2, NULL },
    { "layer_norm_eps", NEOX, NULL },
    { "rotary_pct", NEOX, NULL },
    { "rotary_emb_base", NEOX, NULL },
    { "use_parallel_residual", NEOX, NULL },

    /* must have the value that has no effect */
    { "is_encoder_decoder", ALL, "false" },
    { "add_cross_attention", ALL, "false" },
    { "pruned_heads", ALL, "{}" },
    { "attn_logit_softcapping", ALL & ~GEMMA3, "" },
    { "final_logit_softcapping", ALL & ~GEMMA3, "" },
    { "query_pre_attn_scalar", ALL & ~GEMMA3, "" },
    { "use_bidirectional_attention", ALL & ~GEMMA3, "false" },
    { "attention_multiplier", ALL, "1" },
    { "embedding_multiplier", ALL, "1" },
    { "residual_multiplier", ALL, "1" },
    { "logits_scaling", ALL, "1" },
    { "logit_scale", ALL, "1" },
    { "clip_qkv", ALL, "" },
    { "qk_layernorm", ALL, "false" },
    { "use_qk_norm", ALL & ~(QWEN3 | OLMO2 | GEMMA3), "false" },
    { "use_mrope", ALL, "false" },
    { "lm_head_bias", ALL, "false" },
    { "alibi", ALL, "false" },
    { "is_causal", ALL, "true" },
    { "rope_theta", NEOX, "" },
    { "partial_rotary_factor", NEOX, "" },
    { "rope_scaling", NEOX, "" },
    { "num_nextn_predict_layers", ALL, "0" },

    /* no effect: ignored by the class, or of training */
    { "attention_bias", QWEN2 | PHI3 | MISTRAL | MIXTRAL, NULL },
    { "mlp_bias", ROTATED & ~(LLAMA | SMOLLM3), NULL },
    { "use_sliding_window", LLAMA | MISTRAL | MIXTRAL | PHI3 | OLMO2 | GEMMA3, NULL },
    { "max_window_layers", LLAMA | MISTRAL | MIXTRAL | PHI3 | OLMO2 | GEMMA3, NULL },
    { "_sliding_window_pattern", GEMMA3, NULL },
    { "hidden_dropout", NEOX, NULL },
    { "attn_pdrop", GPT2, NULL },
    { "n_ctx", GPT2, NULL },
    { "reorder_and_upcast_attn", GPT2, NULL }, /* the same product, in another order */
    { "summary_type", GPT2, NULL },
    { "summary_use_proj", GPT2, NULL },
    { "summary_activation", GPT2, NULL },
    { "summary_proj_to_labels", GPT2, NULL },
    { "summary_first_dropout", GPT2, NULL },
    { NULL, 0, NULL },
};

/* ---- generation_config.json ------------------------------------------------------------------ */

/* Keys with any value. */
static const char *const generation_keys[] = {
    /* lengths, other sampling methods */
    "max_length", "max_new_tokens", "do_sample", "early_stopping", "length_penalty",
    "renormalize_logits", "remove_invalid_values",
    /* speed, returned data */
    "low_memory", "num_return_sequences", "output_scores", "output_logits",
    "return_dict_in_generate", "cache_config", "max_cache_len", "assistant_ensemble_weight",
    "speculation_type", "return_legacy_cache", "prefill_chunk_size", "is_assistant",
    "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold",
    "prompt_lookup_num_tokens", "max_matching_ngram_size", "assistant_early_exit",
    "assistant_lookbehind", "target_lookbehind", "use_mtp", "compile_config",
    "continuous_batching_config", "disable_compile", "generation_kwargs", "_from_model_config",
    "chat_format", NULL
};

/* For other values than `only` a warning says that `detent sample` does not use them. These keys
 * may also be in config.json, where transformers 4 wrote them. */
static const row generation_rows[] = {
    { "min_length", ALL, "0" },
    { "min_new_tokens", ALL, "0" },
    { "max_time", ALL, "" },
    { "stop_strings", ALL, "" },
    { "num_beams", ALL, "1" },
    { "num_beam_groups", ALL, "1" },
    { "diversity_penalty", ALL, "0" },
    { "penalty_alpha", ALL, "0" },
    { "dola_layers", ALL, "" },
    { "temperature", ALL, "1" },
    { "top_k", ALL, "0|50" }, /* 50: the default of transformers */
    { "top_p", ALL, "1" },
    { "min_p", ALL, "0" },
    { "top_h", ALL, "" },
    { "typical_p", ALL, "1" },
    { "epsilon_cutoff", ALL, "0" },
    { "eta_cutoff", ALL, "0" },
    { "repetition_penalty", ALL, "1" },
    { "encoder_repetition_penalty", ALL, "1" },
    { "no_repeat_ngram_size", ALL, "0" },
    { "encoder_no_repeat_ngram_size", ALL, "0" },
    { "bad_words_ids", ALL, "" },
    { "force_words_ids", ALL, "" },
    { "constraints", ALL, "" },
    { "forced_bos_token_id", ALL, "" },
    { "forced_eos_token_id", ALL, "" },
    { "exponential_decay_length_penalty", ALL, "" },
    { "suppress_tokens", ALL, "[]" },
    { "begin_suppress_tokens", ALL, "[]" },
    { "sequence_bias", ALL, "" },
    { "token_healing", ALL, "false" },
    { "guidance_scale", ALL, "1" },
    { "watermarking_config", ALL, "" },
    { NULL, 0, NULL },
};

/* Keys of config.json that generation_config.json has too. */
static const char *const also_generation[] = { "bos_token_id",         "eos_token_id",
                                               "pad_token_id",         "decoder_start_token_id",
                                               "transformers_version", "use_cache",
                                               "cache_implementation", "output_attentions",
                                               "output_hidden_states", NULL };

/* ---- tokenizer_config.json ------------------------------------------------------------------- */

static const char *const tokenizer_keys[] = {
    /* used */
    "bos_token", "eos_token", "pad_token", "add_bos_token", "add_eos_token", "add_prefix_space",
    "tokenizer_class", "added_tokens_decoder",
    /* no effect on ids: chat templates, lengths, decoding for display, other programs */
    "chat_template", "response_template", "response_schema", "unk_token", "sep_token", "cls_token",
    "mask_token", "additional_special_tokens", "extra_special_tokens",
    "model_specific_special_tokens", "clean_up_tokenization_spaces",
    "spaces_between_special_tokens", "split_special_tokens", "model_max_length", "max_length",
    "max_len", "padding_side", "padding", "pad_to_multiple_of", "pad_token_type_id", "pad_token_id",
    "bos_token_id", "eos_token_id", "unk_token_id", "truncation_side", "truncation_strategy",
    "truncation", "stride", "errors", "legacy", "use_default_system_prompt", "use_fast",
    "from_slow", "backend", "is_local", "local_files_only", "fix_mistral_regex", "sp_model_kwargs",
    "model_input_names", "name_or_path", "_name_or_path", "tokenizer_file",
    "special_tokens_map_file", "processor_class", "trim_offsets", "vocab_file", "merges_file",
    "vocab_size", "transformers_version", "add_dummy_prefix_space", "unsloth_version",
    "_commit_hash", "tokenize_chinese_chars", "tokenizer_type", "model_type", "return_tensors",
    "image_token", "boi_token", "eoi_token", NULL
};

static const char *const map_keys[] = {
    /* as in tokenizer_config.json */
    "bos_token", "eos_token", "pad_token",
    /* no effect on ids */
    "unk_token", "sep_token", "cls_token", "mask_token", "additional_special_tokens",
    "extra_special_tokens", NULL
};

/* ---- values ---------------------------------------------------------------------------------- */

/* The text of a JSON value, without white space between its parts. */
typedef struct value {
    char text[64]; /* truncated */
    bool is_null;
} value;

static void take_value(const unsigned char *at, const unsigned char *end, value *out)
{
    size_t n = 0;
    for (; at < end && n + 1 < sizeof out->text; at++) {
        if (*at > ' ') out->text[n++] = (char)*at;
    }
    out->text[n] = 0;
    out->is_null = strcmp(out->text, "null") == 0;
}

static bool is_same(const char *text, const char *wanted, size_t n)
{
    char *end, *wanted_end;
    char copy[16];
    if (strlen(text) == n && strncmp(text, wanted, n) == 0) return true;
    if (n == 0 || n >= sizeof copy) return false;
    memcpy(copy, wanted, n);
    copy[n] = 0;
    const double a = strtod(text, &end), b = strtod(copy, &wanted_end);
    return end != text && *end == 0 && wanted_end != copy && *wanted_end == 0 && a == b;
}

static bool is_neutral(const row *r, const value *v)
{
    const char *at = r->only;
    if (r->only == NULL || v->is_null) return true;
    for (;;) {
        const size_t n = strcspn(at, "|");
        if (is_same(v->text, at, n)) return true;
        if (at[n] == 0) return false;
        at += n + 1;
    }
}

/* ---- checks ---------------------------------------------------------------------------------- */

static const row *row_of(const row *rows, const char *key, unsigned class)
{
    while (rows->key != NULL && ((rows->classes & class) == 0 || strcmp(rows->key, key) != 0)) {
        rows++;
    }
    return rows->key == NULL ? NULL : rows;
}

typedef struct checking {
    dt_ctx *ctx;
    const char *path;
    unsigned class;
    const char *class_name;
    char unused[DT__MESSAGE_SIZE / 2]; /* unused settings of generation, with commas */
} checking;

static void say_unknown(const checking *c, const char *key)
{
    char shown[DT__SHOWN];
    dt__say_once(c->ctx, "warning: %s: key '%s' is not known here, and is not used", c->path,
                 dt__shown(key, shown));
}

static void note_unused(checking *c, const row *r, const value *v)
{
    const size_t used = strlen(c->unused);
    if (is_neutral(r, v) || used + strlen(r->key) + 3 > sizeof c->unused) return;
    if (used > 0) strcat(c->unused, ", ");
    strcat(c->unused, r->key);
}

static dt_status check_config(checking *c, const char *key, const value *v)
{
    char shown[DT__SHOWN];
    if (dt__hf_is_in(config_keys, key) || dt__hf_is_in(generation_keys, key)) return DT_OK;
    const row *r = row_of(config_rows, key, c->class);
    const row *g = r == NULL ? row_of(generation_rows, key, c->class) : NULL;
    if (r == NULL && g == NULL) say_unknown(c, key);
    if (g != NULL) note_unused(c, g, v);
    if (r == NULL || is_neutral(r, v)) return DT_OK;
    return dt_fail(c->ctx, DT_ERR_UNSUPPORTED, "%s: %s %s is not supported in class %s; %s%s%s",
                   c->path, key, dt__shown(v->text, shown), c->class_name, r->only,
                   *r->only == 0 ? "" : " or ", "null is");
}

bool dt__hf_is_in(const char *const *list, const char *name)
{
    while (*list != NULL && strcmp(*list, name) != 0) list++;
    return *list != NULL;
}

static dt_status check_generation(checking *c, const char *key, const value *v)
{
    const row *g = row_of(generation_rows, key, ALL);
    if (g != NULL) note_unused(c, g, v);
    const bool known = dt__hf_is_in(generation_keys, key) || dt__hf_is_in(also_generation, key);
    if (g == NULL && !known) say_unknown(c, key);
    return DT_OK;
}

static dt_status check_tokenizer(checking *c, const char *key, const value *v)
{
    (void)v;
    if (!dt__hf_is_in(tokenizer_keys, key)) say_unknown(c, key);
    return DT_OK;
}

static dt_status check_map(checking *c, const char *key, const value *v)
{
    (void)v;
    if (!dt__hf_is_in(map_keys, key)) say_unknown(c, key);
    return DT_OK;
}

typedef dt_status check_key(checking *c, const char *key, const value *v);

static dt_status check_object(checking *c, dt__json *j, check_key *check)
{
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        const char *key;
        value v;
        char *const strings = j->strings;
        DT__TRY(dt__json_key(j, &key));
        dt__json_peek(j); /* skips white space */
        const unsigned char *const at = j->at;
        DT__TRY(dt__json_skip(j));
        take_value(at, j->at, &v);
        DT__TRY(check(c, key, &v));
        j->strings = strings;
    }
    DT__TRY(j->status);
    return dt__json_end(j);
}

static dt_status check_text(checking *c, const dt__hf_text *text, check_key *check)
{
    dt__json j;
    char *strings;
    DT__TRY(dt__hf_scan(c->ctx, text, &j, &strings));
    c->path = j.path;
    c->unused[0] = 0;
    const dt_status s = check_object(c, &j, check);
    if (s == DT_OK && c->unused[0] != 0) {
        dt__say_once(c->ctx,
                     "%s: not used: %s; how tokens are drawn is said by the options of detent "
                     "sample",
                     c->path, c->unused);
    }
    dt__release(c->ctx, strings);
    return s;
}

static const struct {
    const char *name;
    check_key *check;
} files[] = {
    { "generation_config.json", check_generation },
    { "tokenizer_config.json", check_tokenizer },
    { "special_tokens_map.json", check_map },
};

dt_status dt__hf_check_keys(const dt__hf_place *p, const char *class)
{
    checking c = { .ctx = p->ctx, .class_name = class };
    int i = 0;
    while (names[i] != NULL && strcmp(names[i], class) != 0) i++;
    c.class = 1U << i;
    DT__TRY(check_text(&c, p->config, check_config));
    for (int f = 0; f < DT__COUNT_OF(files); f++) {
        dt__hf_extra text;
        dt_status s = dt__hf_extra_read(p, files[f].name, &text);
        if (s == DT_OK && text.it.text != NULL) s = check_text(&c, &text.it, files[f].check);
        dt__hf_extra_free(p, &text);
        DT__TRY(s);
    }
    return DT_OK;
}
