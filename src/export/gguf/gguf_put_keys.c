/* Metadata of a GGUF file about the model. The architecture is chosen in gguf_put_arch.c. */
#include "core/text/byte_order.h"
#include "export/gguf/gguf_put.h"

#include <stdio.h>
#include <string.h>

static void put_number(dt__chars *t, const void *value, size_t bytes)
{
    char number[8];
    dt__copy_little(number, value, bytes);
    dt__put(t, number, bytes);
}

void dt__gguf_put_u32(dt__chars *t, uint32_t value) { put_number(t, &value, sizeof value); }
void dt__gguf_put_u64(dt__chars *t, uint64_t value) { put_number(t, &value, sizeof value); }
void dt__gguf_put_f32(dt__chars *t, float value) { put_number(t, &value, sizeof value); }

void dt__gguf_put_string(dt__chars *t, const char *bytes, size_t n)
{
    dt__gguf_put_u64(t, n);
    dt__put(t, bytes, n);
}

static void begin(dt__gguf_put *p, const char *key, uint32_t type)
{
    p->n_keys++;
    dt__gguf_put_string(&p->keys, key, strlen(key));
    dt__gguf_put_u32(&p->keys, type);
}

void dt__gguf_key_u32(dt__gguf_put *p, const char *key, uint32_t value)
{
    begin(p, key, DT__GGUF_KEY_U32);
    dt__gguf_put_u32(&p->keys, value);
}

void dt__gguf_key_bool(dt__gguf_put *p, const char *key, bool value)
{
    begin(p, key, DT__GGUF_KEY_BOOL);
    dt__put(&p->keys, value ? "\1" : "\0", 1);
}

void dt__gguf_key_text(dt__gguf_put *p, const char *key, const char *value)
{
    begin(p, key, DT__GGUF_KEY_STRING);
    dt__gguf_put_string(&p->keys, value, strlen(value));
}

void dt__gguf_key_array(dt__gguf_put *p, const char *key, uint32_t type, uint64_t n)
{
    begin(p, key, DT__GGUF_KEY_ARRAY);
    dt__gguf_put_u32(&p->keys, type);
    dt__gguf_put_u64(&p->keys, n);
}

static void key_real(dt__gguf_put *p, const char *key, double value)
{
    begin(p, key, DT__GGUF_KEY_F32);
    dt__gguf_put_f32(&p->keys, (float)value);
}

void dt__gguf_note(const dt__gguf_put *p, const char *line)
{
    const dt_export_options *o = p->call->options;
    if (o->note != NULL) o->note(o->user, line);
}

static void key_of_arch(dt__gguf_put *p, const char *key, int64_t value)
{
    char name[80];
    snprintf(name, sizeof name, "%s.%s", p->g.arch->name, key);
    dt__gguf_key_u32(p, name, (uint32_t)value);
}

static void real_of_arch(dt__gguf_put *p, const char *key, double value)
{
    char name[80];
    snprintf(name, sizeof name, "%s.%s", p->g.arch->name, key);
    key_real(p, name, value);
}

static void put_scaling(dt__gguf_put *p, const char *type)
{
    char name[80];
    snprintf(name, sizeof name, "%s.rope.scaling.type", p->g.arch->name);
    dt__gguf_key_text(p, name, type);
}

static void put_rotation(dt__gguf_put *p)
{
    const dt__gguf_model *g = &p->g;
    key_of_arch(p, "attention.key_length", g->o.head_width);
    key_of_arch(p, "attention.value_length", g->o.head_width);
    key_of_arch(p, "rope.dimension_count", g->o.head_width);
    real_of_arch(p, "rope.freq_base", g->o.theta);
    if (g->o.longrope.given) {
        put_scaling(p, "longrope");
        key_of_arch(p, "rope.scaling.original_context_length", g->o.longrope.original_context);
        real_of_arch(p, "rope.scaling.attn_factor", g->o.longrope.attention_factor);
    } else if (g->o.rope.scaling == DT_ROPE_LINEAR) {
        put_scaling(p, "linear");
        real_of_arch(p, "rope.scaling.factor", g->o.rope.factor);
    }
}

static void put_window(dt__gguf_put *p)
{
    const dt_block_options *b = &p->g.o.block;
    if (b->window == 0) return;
    key_of_arch(p, "attention.sliding_window", b->window);
    key_of_arch(p, "attention.sliding_window_pattern", b->full_every);
    real_of_arch(p, "rope.freq_base_swa", b->local_theta > 0 ? b->local_theta : p->g.o.theta);
}

static void put_neox(dt__gguf_put *p)
{
    char name[80];
    const dt__gguf_model *g = &p->g;
    if (g->rotated == 0) return;
    snprintf(name, sizeof name, "%s.use_parallel_residual", g->arch->name);
    dt__gguf_key_bool(p, name, g->parallel);
    key_of_arch(p, "rope.dimension_count", g->rotated);
    real_of_arch(p, "rope.freq_base", g->o.theta);
    dt__gguf_key_bool(p, DT__GGUF_GELU, g->gelu_erf);
}

void dt__gguf_put_keys(dt__gguf_put *p)
{
    const dt__gguf_model *g = &p->g;
    const bool is_gpt = g->arch->is_gpt;
    dt__gguf_key_text(p, "general.architecture", g->arch->name);
    dt__gguf_key_u32(p, "general.alignment", DT__GGUF_ALIGNMENT);
    dt__gguf_key_u32(p, "general.quantization_version", 2);
    key_of_arch(p, "vocab_size", g->o.vocab);
    key_of_arch(p, "context_length", g->o.context);
    key_of_arch(p, "embedding_length", g->o.width);
    key_of_arch(p, "block_count", g->o.layers);
    key_of_arch(p, "feed_forward_length", g->o.hidden);
    key_of_arch(p, "attention.head_count", g->o.heads);
    key_of_arch(p, "attention.head_count_kv", g->o.kv_heads);
    real_of_arch(p, is_gpt ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
                 g->o.eps);
    if (is_gpt) {
        put_neox(p);
    } else {
        put_rotation(p);
        put_window(p);
    }
    if (g->o.moe.experts == 0) return;
    key_of_arch(p, "expert_count", g->o.moe.experts);
    key_of_arch(p, "expert_used_count", g->o.moe.top_k);
}
