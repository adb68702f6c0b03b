/* Small language models of each architecture that files of other programs have. */
#include "draw.h"

#include <string.h>

/* `keys` make the architecture; sizes and the other keys are drawn. */
static const grid_base bases[] = {
    { "Llama", "llama", "" },
    { "Llama 3", "llama",
      "rope: {scaling: llama3, factor: 8, low_freq_factor: 1, high_freq_factor: 4, "
      "original_context: 8192}, block: {window: 0}" },
    { "Mistral", "llama", "tied: false, qkv_bias: false" },
    { "Qwen2", "llama", "qkv_bias: true, out_bias: false, mlp_bias: false, moe: ~, block: ~" },
    { "Qwen3", "llama",
      "qk_norm: true, qkv_bias: false, out_bias: false, mlp_bias: false, moe: ~, block: ~" },
    { "Mixtral", "llama",
      "moe: {experts: 3, top_k: 2}, qk_norm: false, mlp_bias: false, tied: false, block: ~" },
    { "OLMo 2", "llama",
      "qk_norm: true, qkv_bias: false, out_bias: false, mlp_bias: false, moe: ~, "
      "block: {norms: after, qk_norm_all: true}" },
    { "SmolLM3", "llama",
      "layers: 5, qk_norm: false, out_bias: false, mlp_bias: false, moe: ~, block: {unrotated: "
      "4}" },
    { "Gemma 3", "llama",
      "layers: 3, qk_norm: true, qkv_bias: false, out_bias: false, mlp_bias: false, moe: ~, "
      "rope: ~, block: {norms: both, norm_plus_one: true, activation: gelu_tanh, "
      "scaled_tokens: true, window: 3, full_every: 3, local_theta: 500}" },
    { "Phi-3", "llama",
      "heads: 4, width: 32, head_width: 8, kv_heads: 2, qk_norm: false, moe: ~, rope: ~, block: ~, "
      "longrope: {original_context: 4096, short_factor: [1, 1.1, 1.3, 2], long_factor: [1, 2, 4, "
      "8]}" },
    { "GPT-2", "gpt", "rotated: 0, parallel: false, gelu_erf: false, theta: 10000" },
    { "Pythia", "gpt", "rotated: 0.5, parallel: true, theta: 10000, tied: false, bias: true" },
};

const grid_base *grid_base_at(int i)
{
    return i < (int)(sizeof bases / sizeof bases[0]) ? &bases[i] : NULL;
}

bool grid_is_base(const char *family)
{
    const grid_base *b;
    for (int i = 0; (b = grid_base_at(i)) != NULL; i++) {
        if (strcmp(b->family, family) == 0) return true;
    }
    return false;
}

/* Whether the base says `name: ...` itself. */
static bool says(const grid_base *b, const char *name)
{
    const size_t n = strlen(name);
    int depth = 0;
    for (const char *p = b->keys; *p != 0; p++) {
        depth += *p == '{' ? 1 : *p == '}' ? -1 : 0;
        const bool begins = p == b->keys || p[-1] == ' ';
        if (begins && depth == 0 && strncmp(p, name, n) == 0 && p[n] == ':') return true;
    }
    return false;
}

bool grid_base_leaves(const grid_base *b, const char *name)
{
    static const char *const sizes[] = { "vocab", "context", "layers",   "heads",
                                         "width", "hidden",  "kv_heads", "head_width" };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (strcmp(name, sizes[i]) == 0) return false;
    }
    return !says(b, name) && strcmp(name, "longrope") != 0;
}

/* Sizes: mostly rows of whole blocks of llama.cpp, of 32 or of 256 values; else any. */
void grid_base_sizes(const grid_base *b, grid_random *r, grid_size out[GRID_SIZES])
{
    const bool whole = grid_chance(r, 0.85), large = whole && grid_chance(r, 0.15);
    const int64_t unit = large ? 256 : whole ? 32 : 2, heads = (int64_t)1 << grid_pick(r, 0, 2);
    const int64_t times = large ? 1 : grid_pick(r, 1, 2),
                  width = unit * times * (whole ? 1 : heads);
    const grid_size all[GRID_SIZES] = {
        { "vocab", grid_pick(r, 3, 70) },
        { "context", grid_pick(r, 6, 12) },
        { "layers", grid_pick(r, 1, 2) },
        { "heads", heads },
        { "width", width },
        { "hidden", unit * grid_pick(r, 1, large ? 1 : 3) },
        { "kv_heads",
          strcmp(b->family, "llama") != 0 ? 0 : heads / ((int64_t)1 << grid_pick(r, 0, 1)) },
    };
    for (int i = 0; i < GRID_SIZES; i++) {
        out[i] = all[i];
        if (says(b, all[i].name) || all[i].value == 0) out[i].name = NULL;
    }
}
