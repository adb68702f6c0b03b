/* Writes config.json: the original text, or a new one like save_pretrained of transformers 4, with
 * every key that detent reads. */
#include "core/text/number.h"
#include "io/hf/hf_config.h"

#include <string.h>

/* How config.json names a dtype of the tensors. */
static const char *dtype_name(const char *dtype)
{
    static const struct {
        const char *dtype, *name;
    } names[] = { { "F32", "float32" }, { "F16", "float16" }, { "BF16", "bfloat16" } };
    int i = 0;
    while (i + 1 < DT__COUNT_OF(names) && strcmp(names[i].dtype, dtype) != 0) i++;
    return names[i].name;
}

dt_status dt__hf_config_again(dt__chars *t, const dt__hf_text *text, const char *dtype)
{
    dt__json j;
    char *strings;
    const char *key;
    DT__TRY(dt__hf_scan(t->ctx, text, &j, &strings));
    const unsigned char *copied = j.begin;
    dt_status s = DT_OK;
    for (bool more = dt__json_open(&j, '{'); more; more = dt__json_more(&j, '}')) {
        s = dt__json_key(&j, &key);
        dt__json_peek(&j); /* skips white space */
        const unsigned char *value = j.at;
        if (s == DT_OK) s = dt__json_skip(&j);
        if (s == DT_OK && (strcmp(key, "dtype") == 0 || strcmp(key, "torch_dtype") == 0)) {
            dt__put(t, (const char *)copied, (size_t)(value - copied));
            dt__put_quoted(t, dtype_name(dtype));
            copied = j.at;
        }
        if (s != DT_OK) break;
    }
    if (s == DT_OK) s = j.status;
    dt__put(t, (const char *)copied, (size_t)(j.end - copied));
    dt__release(t->ctx, strings);
    return s;
}

dt_status dt__hf_put_without(dt__chars *t, const dt__hf_text *text, const char *const *keys,
                             const char *added)
{
    dt__json j;
    char *strings;
    const char *key;
    bool first = true;
    DT__TRY(dt__hf_scan(t->ctx, text, &j, &strings));
    dt_status s = DT_OK;
    dt__put_text(t, "{");
    for (bool more = dt__json_open(&j, '{'); more; more = dt__json_more(&j, '}')) {
        dt__json_peek(&j); /* skips white space */
        const unsigned char *const begin = j.at;
        s = dt__json_key(&j, &key);
        if (s == DT_OK) s = dt__json_skip(&j);
        if (s == DT_OK && !dt__hf_is_in(keys, key)) {
            dt__put_text(t, first ? "\n  " : ",\n  ");
            dt__put(t, (const char *)begin, (size_t)(j.at - begin));
            first = false;
        }
        if (s != DT_OK) break;
    }
    if (s == DT_OK) s = j.status;
    if (added != NULL) dt__put_text(t, added + (first && *added == ','));
    dt__put_text(t, "\n}\n");
    dt__release(t->ctx, strings);
    return s;
}

void dt__hf_put_key(dt__chars *t, const char *key)
{
    DT__PUT_ALL(t, ",\n  ", DT__QUOTED(key), ": ");
}

void dt__hf_put_bool(dt__chars *t, const char *key, bool value)
{
    dt__hf_put_key(t, key);
    dt__put_text(t, value ? "true" : "false");
}

void dt__hf_put_null(dt__chars *t, const char *key)
{
    dt__hf_put_key(t, key);
    dt__put_text(t, "null");
}

void dt__hf_put_int(dt__chars *t, const char *key, int64_t value)
{
    dt__hf_put_key(t, key);
    dt__put_integer(t, value);
}

/* Writes integral values with ".0": transformers 5 refuses integers for most of its floats. */
static void put_float(dt__chars *t, double value)
{
    char text[32];
    dt__print_real(value, text);
    dt__put_text(t, text);
    if (strspn(text, "-0123456789") == strlen(text)) dt__put_text(t, ".0");
}

void dt__hf_put_real(dt__chars *t, const char *key, double value)
{
    dt__hf_put_key(t, key);
    put_float(t, value);
}

void dt__hf_put_text(dt__chars *t, const char *key, const char *value)
{
    dt__hf_put_key(t, key);
    dt__put_quoted(t, value);
}

static void put_factors(dt__chars *t, const char *key, const dt_reals *f)
{
    DT__PUT_ALL(t, ", ", DT__QUOTED(key));
    for (int i = 0; i < f->n; i++) {
        dt__put_text(t, i == 0 ? ": [" : ", ");
        put_float(t, f->v[i]);
    }
    dt__put_text(t, "]");
}

static void put_longrope(dt__chars *t, const dt_longrope_options *l)
{
    dt__hf_put_int(t, "original_max_position_embeddings", l->original_context);
    dt__hf_put_key(t, "rope_scaling");
    dt__put_text(t, "{\"rope_type\": \"longrope\"");
    put_factors(t, "short_factor", &l->short_factor);
    put_factors(t, "long_factor", &l->long_factor);
    if (l->attention_factor > 0) {
        dt__put_text(t, ", \"attention_factor\": ");
        put_float(t, l->attention_factor);
    }
    dt__put_text(t, "}");
}

static void put_rope(dt__chars *t, const dt_rope_options *r)
{
    dt__hf_put_key(t, "rope_scaling");
    if (r->scaling == DT_ROPE_PLAIN) {
        dt__put_text(t, "null");
        return;
    }
    dt__put_text(t, "{\"rope_type\": ");
    dt__put_quoted(t, r->scaling == DT_ROPE_LINEAR ? "linear" : "llama3");
    dt__put_text(t, ", \"factor\": ");
    put_float(t, r->factor);
    if (r->scaling == DT_ROPE_LLAMA3) {
        dt__put_text(t, ", \"low_freq_factor\": ");
        put_float(t, r->low_freq_factor);
        dt__put_text(t, ", \"high_freq_factor\": ");
        put_float(t, r->high_freq_factor);
        DT__PUT_ALL(t, ", \"original_max_position_embeddings\": ", r->original_context);
    }
    dt__put_text(t, "}");
}

static dt_status put_llama(dt__chars *t, const dt_llama_options *o, const dt__hf_new *how)
{
    const int64_t heads = o->kv_heads == 0 ? o->heads : o->kv_heads;
    DT__TRY(dt__hf_put_class(t, o, how));
    dt__hf_put_real(t, "attention_dropout", 0);
    dt__hf_put_int(t, "head_dim", o->head_width == 0 ? o->width / o->heads : o->head_width);
    dt__hf_put_int(t, "hidden_size", o->width);
    dt__hf_put_int(t, "intermediate_size", o->hidden);
    dt__hf_put_int(t, "max_position_embeddings", o->context);
    dt__hf_put_int(t, "num_attention_heads", o->heads);
    dt__hf_put_int(t, "num_hidden_layers", o->layers);
    dt__hf_put_int(t, "num_key_value_heads", heads);
    dt__hf_put_real(t, "rms_norm_eps", o->eps);
    if (o->longrope.given) put_longrope(t, &o->longrope);
    else put_rope(t, &o->rope);
    dt__hf_put_real(t, "rope_theta", o->theta);
    dt__hf_put_bool(t, "tie_word_embeddings", o->tied);
    dt__hf_put_text(t, "torch_dtype", dtype_name(how->dtype));
    dt__hf_put_int(t, "vocab_size", o->vocab);
    dt__put_text(t, "\n}\n");
    return DT_OK;
}

/* Options of family gpt with a rotation are GPT-NeoX; GPT-2 has learned positions. */
static bool is_neox(const dt_gpt_options *o) { return o->rotated > 0; }

static dt_status put_gpt(dt__chars *t, const dt_gpt_options *o, const char *dtype)
{
    return is_neox(o) ? dt__hf_config_put_neox(t, o, dtype) : dt__hf_config_put_gpt2(t, o, dtype);
}

dt_status dt__hf_config_put(dt__chars *t, bool is_gpt, const void *options, const dt__hf_new *how)
{
    return is_gpt ? put_gpt(t, options, dtype_name(how->dtype)) : put_llama(t, options, how);
}

const dt__hf_names *dt__hf_names_for(bool is_gpt, const void *options, const dt__hf_new *how)
{
    if (!is_gpt) return dt__hf_class_names(options, how);
    return is_neox(options) ? &dt__hf_neox_names : &dt__hf_gpt2_names;
}
