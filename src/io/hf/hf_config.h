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

/* A list with an entry for each layer, in which every n-th is marked. */
typedef struct dt__hf_pattern {
    bool given;
    int64_t n, marked; /* entries; those that are marked */
    int64_t every;     /* entries every - 1, 2 every - 1, ... are marked; 0: none is */
    int64_t odd;       /* 1 + the first entry that does not fit this; 0: all fit */
} dt__hf_pattern;

/* What sliding_window does, where layer_types does not say which layers have it. */
enum {
    DT__HF_NO_WINDOW,    /* the class ignores it: refused where it would have an effect */
    DT__HF_WINDOW,       /* all layers have it, where it is given */
    DT__HF_USUAL_WINDOW, /* all layers have it, unless it is null */
    /* Below, of classes that can list which layers have one */
    DT__HF_USED_WINDOW,  /* with use_sliding_window, the layers from max_window_layers on */
    DT__HF_TYPED_WINDOW, /* with use_sliding_window, layers that only layer_types can name */
    DT__HF_GEMMA_WINDOW  /* all but every sliding_window_pattern-th; they rotate by another base */
};

/* Model classes. Qwen2 has biases whatever attention_bias says; only LlamaConfig reads mlp_bias.
 * The default of num_key_value_heads is num_attention_heads in LlamaConfig. */
typedef struct dt__hf_class {
    const char *name;         /* model_type */
    const char *architecture; /* the class */
    bool biased;              /* q, k, v; never o */
    bool reads_attention_bias, reads_mlp_bias, normed, mixed;
    int window;                            /* DT__HF_..._WINDOW */
    int64_t kv_heads, head_width, context; /* defaults; 0: heads, width / heads */
    int64_t
        original; /* default of original_max_position_embeddings; 0: the class has no longrope */
    double theta, eps;
    dt__hf_token_defaults tokens;
    bool tied;                 /* the default */
    bool after, norm_all;      /* norms of outputs; of all heads together */
    bool gemma;                /* as Gemma 3: norms, gate, scales */
    bool drops;                /* reads resid_pdrop and embd_pdrop */
    int64_t unrotated;         /* default of no_rope_layer_interval; 0: it is not read */
    const dt__hf_names *names; /* of its tensors; NULL: those of family llama */
} dt__hf_class;

/* All of them, and one without a name. A new config.json is of the first that has what its model
 * needs. */
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
    /* Keys that are null, which is not their default */
    bool no_window, no_kv_heads;
    dt__hf_rope scaling, parameters;
    dt__hf_rope local;        /* of rope_parameters, by layer: that of layers with a window */
    dt__hf_pattern full;      /* of layer_types: full_attention */
    dt__hf_pattern unrotated; /* of no_rope_layers: 0 */
    int64_t unrotated_every;  /* no_rope_layer_interval */
    int64_t original;         /* original_max_position_embeddings outside of the rotation's map */
    bool has_quantization, has_code;
} dt__hf_config;

#define DT__HF_MOST 1073741824.0

/* UNSUPPORTED, with the path in front. */
dt_status dt__hf_refuse(const dt__hf_config *c, const char *format, ...) DT_PRINTF(2, 3);

/* Read the values of keys. rope_parameters may be a map of maps, by the type of layer. */
dt_status dt__hf_read_layer_types(dt__json *j, dt__hf_config *c);
dt_status dt__hf_read_rope_layers(dt__json *j, dt__hf_config *c);
dt_status dt__hf_read_rope(dt__json *j, dt__hf_rope *out);
dt_status dt__hf_read_rope_parameters(dt__json *j, dt__hf_config *c);
dt_status dt__hf_read_method(dt__json *j, bool *quantized);

/* Set what they mean, after checking it: options of the block that differ by layer, and the
 * rotation. */
dt_status dt__hf_set_layers(dt__hf_config *c, dt_llama_options *out);
dt_status dt__hf_set_rotation(const dt__hf_config *c, dt_llama_options *out);

/* Of the whole config.json of a class that c->model_type names; *found false: there is none. */
dt_status dt__hf_config_read_llama(dt__json *j, dt__hf_config *c, dt_llama_options *out,
                                   bool *found);

/* ---- classes of family gpt: GPT-2, and GPT-NeoX (Pythia) ------------------------------------- */

/* Of the whole config.json. */
dt_status dt__hf_refuse_gpt(const dt__json *j, const char *what); /* UNSUPPORTED */
dt_status dt__hf_config_read_gpt2(dt__json *j, dt_gpt_options *out);
dt_status dt__hf_config_read_neox(dt__json *j, dt_gpt_options *out);
/* Whether an activation is gelu itself (1) or by tanh (0); -1: another one. */
int dt__hf_gelu_of(const char *name);
/* `dtype` as config.json names it. */
dt_status dt__hf_config_put_gpt2(dt__chars *t, const dt_gpt_options *o, const char *dtype);
dt_status dt__hf_config_put_neox(dt__chars *t, const dt_gpt_options *o, const char *dtype);

/* The keys by which a new config.json says which class its model is of. UNSUPPORTED: no class has
 * such options. */
dt_status dt__hf_put_class(dt__chars *t, const dt_llama_options *o, const dt__hf_new *how);
const dt__hf_names *dt__hf_class_names(const dt_llama_options *o, const dt__hf_new *how);

/* `,`, a line, the key and its value; dt__hf_put_key without a value. */
void dt__hf_put_key(dt__chars *t, const char *key);
void dt__hf_put_null(dt__chars *t, const char *key);
void dt__hf_put_bool(dt__chars *t, const char *key, bool value);
void dt__hf_put_int(dt__chars *t, const char *key, int64_t value);
void dt__hf_put_real(dt__chars *t, const char *key, double value);
void dt__hf_put_text(dt__chars *t, const char *key, const char *value);

#endif
