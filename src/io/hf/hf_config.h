/* What the readers and writers of config.json share. hf_config.c chooses the reader by the class.
 * hf_config_llama.c reads classes of family llama, with the settings of layers
 * (hf_config_layers.c) and of the rotation (hf_config_rope.c). hf_config_gpt2.c and
 * hf_config_neox.c read and write classes of family gpt. hf_config_put.c writes, with the keys of
 * family llama's classes from hf_config_class.c. */
#ifndef DT__IO_HF_CONFIG_H
#define DT__IO_HF_CONFIG_H

#include "io/hf/hf.h"

/* Reads an object: known keys by their table, others by `other`, which must skip the value. null
 * means absent. */
dt_status dt__hf_read_object(dt__json *j, const dt_key *keys, void *options,
                             dt_status (*other)(dt__json *j, const char *name, void *options));

/* ---- classes of family llama ----------------------------------------------------------------- */

/* rope_scaling of transformers 4, rope_parameters of transformers 5. */
typedef struct dt__hf_rope {
    bool present;
    const char *rope_type, *type; /* two names of one key */
    double theta, factor, low, high, partial, attention;
    dt_reals near, far; /* short_factor, long_factor */
    int64_t original;
    bool has_near, has_far, has_attention, has_theta, has_factor, has_low, has_high, has_original,
        has_partial;
    char other[DT__SHOWN]; /* the first unknown key */
} dt__hf_rope;

/* A list with an entry per layer, in which every n-th is marked. */
typedef struct dt__hf_pattern {
    bool given;
    int64_t n, marked; /* number of entries, and of marked ones */
    int64_t every;     /* entries every - 1, 2 every - 1, ... are marked; 0: none is */
    int64_t odd;       /* 1 + the first entry that does not fit `every`; 0: all fit */
} dt__hf_pattern;

/* What sliding_window means, if layer_types does not list the layers with a window. */
enum {
    DT__HF_NO_WINDOW,    /* the class ignores it; detent refuses it if it would have an effect */
    DT__HF_WINDOW,       /* all layers have it, if the key is present */
    DT__HF_USUAL_WINDOW, /* all layers have it, unless the key is null */
    /* The following ones are for classes with layer_types */
    DT__HF_USED_WINDOW,  /* if use_sliding_window, the layers from max_window_layers on */
    DT__HF_TYPED_WINDOW, /* if use_sliding_window, only layers that layer_types lists */
    /* all but every sliding_window_pattern-th; their rotation has another base */
    DT__HF_GEMMA_WINDOW
};

/* Model classes. Qwen2 has biases whatever attention_bias says; only LlamaConfig reads mlp_bias.
 * The default of num_key_value_heads is num_attention_heads in LlamaConfig. */
typedef struct dt__hf_class {
    const char *name;         /* model_type */
    const char *architecture; /* the class */
    bool biased;              /* q, k and v have biases, o never has */
    bool reads_attention_bias, reads_mlp_bias, normed, mixed;
    int window;                            /* DT__HF_..._WINDOW */
    int64_t kv_heads, head_width, context; /* defaults; 0: heads, and width / heads */
    int64_t
        original; /* default of original_max_position_embeddings; 0: the class has no longrope */
    double theta, eps;
    dt__hf_token_defaults tokens;
    bool tied;                 /* default of tie_word_embeddings */
    bool after, norm_all;      /* norms behind sublayers; QK norms over all heads together */
    bool gemma;                /* norms, gate and scales of Gemma 3 */
    bool drops;                /* reads resid_pdrop and embd_pdrop */
    int64_t unrotated;         /* default of no_rope_layer_interval; 0: the key is not read */
    const dt__hf_names *names; /* names of its tensors; NULL: those of family llama */
} dt__hf_class;

/* The list ends with a class without a name. A new config.json uses the first class that supports
 * the model's options. */
extern const dt__hf_class dt__hf_classes[];

typedef struct dt__hf_config {
    dt_ctx *ctx;
    const char *path;
    const dt__hf_class *of;
    const char *model_type, *hidden_act, *hidden_activation;
    int64_t vocab, width, hidden, layers, heads, kv_heads, head_width, context;
    int64_t pretraining_tp, window, window_layers, experts, other_experts, top_k;
    double eps, theta, partial, attention_dropout, balance, jitter, resid_dropout, embed_dropout;
    double query_width, local_theta, soft_scores, soft_logits;
    int64_t window_pattern;
    bool tied, attention_bias, mlp_bias, use_window, bidirectional;
    bool has_vocab, has_width, has_hidden, has_layers, has_heads, has_theta, has_window;
    bool has_local_theta, has_experts, has_soft_scores, has_soft_logits;
    /* Keys that are null where null is not their default */
    bool no_window, no_kv_heads;
    dt__hf_rope scaling, parameters;
    /* rotation of the layers with a window, from rope_parameters by layer type */
    dt__hf_rope local;
    dt__hf_pattern full;      /* layers that are full_attention in layer_types */
    dt__hf_pattern unrotated; /* layers that are 0 in no_rope_layers */
    int64_t unrotated_every;  /* no_rope_layer_interval */
    int64_t original;         /* original_max_position_embeddings beside rope_scaling, not in it */
    bool has_quantization, has_code;
} dt__hf_config;

#define DT__HF_MOST 1073741824.0

/* UNSUPPORTED, with the path in front. */
dt_status dt__hf_refuse(const dt__hf_config *c, const char *format, ...) DT_PRINTF(2, 3);

/* Read the values of keys. rope_parameters may be a map of maps by layer type. */
dt_status dt__hf_read_layer_types(dt__json *j, dt__hf_config *c);
dt_status dt__hf_read_rope_layers(dt__json *j, dt__hf_config *c);
dt_status dt__hf_read_rope(dt__json *j, dt__hf_rope *out);
dt_status dt__hf_read_rope_parameters(dt__json *j, dt__hf_config *c);
dt_status dt__hf_read_method(dt__json *j, bool *quantized);

/* Check the values and set the options that they mean: those of blocks that differ by layer, and
 * the rotation. */
dt_status dt__hf_set_layers(dt__hf_config *c, dt_llama_options *out);
dt_status dt__hf_set_rotation(const dt__hf_config *c, dt_llama_options *out);

/* Reads a config.json whose class is c->model_type; *found false: no class of family llama. */
dt_status dt__hf_config_read_llama(dt__json *j, dt__hf_config *c, dt_llama_options *out,
                                   bool *found);

/* ---- classes of family gpt: GPT-2, and GPT-NeoX (Pythia) ------------------------------------- */

/* Readers of a whole config.json. */
dt_status dt__hf_refuse_gpt(const dt__json *j, const char *what); /* UNSUPPORTED */
dt_status dt__hf_config_read_gpt2(dt__json *j, dt_gpt_options *out);
dt_status dt__hf_config_read_neox(dt__json *j, dt_gpt_options *out);
/* 1: exact gelu, 0: gelu by tanh, -1: another activation. */
int dt__hf_gelu_of(const char *name);
/* `dtype` as config.json names it. */
dt_status dt__hf_config_put_gpt2(dt__chars *t, const dt_gpt_options *o, const char *dtype);
dt_status dt__hf_config_put_neox(dt__chars *t, const dt_gpt_options *o, const char *dtype);

/* Writes the keys that identify the model's class in a new config.json. UNSUPPORTED: no class has
 * such options. */
dt_status dt__hf_put_class(dt__chars *t, const dt_llama_options *o, const dt__hf_new *how);
const dt__hf_names *dt__hf_class_names(const dt_llama_options *o, const dt__hf_new *how);

/* Writes `,`, a newline, the key and its value; dt__hf_put_key writes no value. */
void dt__hf_put_key(dt__chars *t, const char *key);
void dt__hf_put_null(dt__chars *t, const char *key);
void dt__hf_put_bool(dt__chars *t, const char *key, bool value);
void dt__hf_put_int(dt__chars *t, const char *key, int64_t value);
void dt__hf_put_real(dt__chars *t, const char *key, double value);
void dt__hf_put_text(dt__chars *t, const char *key, const char *value);

#endif
