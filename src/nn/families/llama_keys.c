/* The keys of family llama's options. */
#include <detent/experimental/nn.h>

static const char *const scaling_names[] = { "none", "linear", "llama3", NULL };

#define ROPE(field) .offset = offsetof(dt_rope_options, field)

static const dt_key rope_keys[] = {
    { "scaling", DT_KEY_CHOICE, ROPE(scaling), .choices = scaling_names, .fallback = "none",
      .text = "scaling of the rotary frequencies for a longer context" },
    { "factor", DT_KEY_REAL, ROPE(factor), .least = 1, .most = 1e6, .fallback = "1",
      .text = "divisor of the frequencies; llama3: of low frequencies" },
    { "low_freq_factor", DT_KEY_REAL, ROPE(low_freq_factor), .least = 1e-6, .most = 1e6,
      .fallback = "1",
      .text = "llama3: frequencies with fewer turns in the original context are divided" },
    { "high_freq_factor", DT_KEY_REAL, ROPE(high_freq_factor), .least = 1e-6, .most = 1e6,
      .fallback = "4",
      .text = "llama3: frequencies with more turns in the original context are not divided" },
    { "original_context", DT_KEY_INT, ROPE(original_context), .least = 1, .most = 1 << 30,
      .fallback = "8192", .text = "llama3: context of the model before scaling, in tokens" },
    { 0 },
};

#define LONG(field) .offset = offsetof(dt_longrope_options, field)

static const dt_key longrope_keys[] = {
    { "original_context", DT_KEY_INT, LONG(original_context), .least = 1, .most = 1 << 30,
      .fallback = "4096", .text = "texts of more tokens are rotated with the long factors" },
    { "short_factor", DT_KEY_REALS, LONG(short_factor), .least = 1e-6, .most = 1e12, .fewest = 1,
      .fallback = "!", .text = "divisors of the frequencies, half a head's width" },
    { "long_factor", DT_KEY_REALS, LONG(long_factor), .least = 1e-6, .most = 1e12, .fewest = 1,
      .fallback = "!", .text = "likewise in longer texts" },
    { "attention_factor", DT_KEY_REAL, LONG(attention_factor), .most = 1e6, .fallback = "0",
      .text = "factor of cosines and sines; 0: sqrt(1 + ln(context / original_context) / "
              "ln(original_context))" },
    { 0 },
};

#define MOE(field) .offset = offsetof(dt_moe_options, field)

static const dt_key moe_keys[] = {
    { "experts", DT_KEY_INT, MOE(experts), .least = 1, .most = 1 << 16, .fallback = "!",
      .text = "experts of each block, each with a hidden layer of width `hidden`" },
    { "top_k", DT_KEY_INT, MOE(top_k), .least = 1, .most = 1 << 16, .fallback = "2",
      .text = "experts per token" },
    { "normalize", DT_KEY_BOOL, MOE(normalize), .fallback = "true",
      .text = "the weights of a token's experts add up to 1" },
    { "balance", DT_KEY_REAL, MOE(balance), .most = 1e6, .fallback = "0.01",
      .text = "factor of the load-balance loss in training" },
    { "z", DT_KEY_REAL, MOE(z), .most = 1e6, .fallback = "0",
      .text = "factor of the router z-loss in training" },
    { 0 },
};

static const char *const norms_names[] = { "before", "after", "both", NULL };
static const char *const gate_names[] = { "silu", "gelu_tanh", NULL };

#define BLOCK(field) .offset = offsetof(dt_block_options, field)

/* Keys for the properties in which blocks of other models differ from Llama's. */
static const dt_key block_keys[] = {
    { "norms", DT_KEY_CHOICE, BLOCK(norms), .choices = norms_names, .fallback = "before",
      .text = "norms of inputs of attention and mlp, of outputs (OLMo 2), or both (Gemma 3)" },
    { "norm_plus_one", DT_KEY_BOOL, BLOCK(norm_plus_one), .fallback = "false",
      .text = "norms multiply by 1 + weight (Gemma 3)" },
    { "qk_norm_all", DT_KEY_BOOL, BLOCK(qk_norm_all), .fallback = "false",
      .text = "norms of `qk_norm` over all heads together (OLMo 2)" },
    { "activation", DT_KEY_CHOICE, BLOCK(activation), .choices = gate_names, .fallback = "silu",
      .text = "function of an mlp's gate" },
    { "scaled_tokens", DT_KEY_BOOL, BLOCK(scaled_tokens), .fallback = "false",
      .text = "embeddings are multiplied by the square root of the width (Gemma 3)" },
    { "query_width", DT_KEY_REAL, BLOCK(query_width), .most = 1e6, .fallback = "0",
      .text = "attention divides scores by this number's square root; 0: the head width" },
    { "unrotated", DT_KEY_INT, BLOCK(unrotated), .most = 1 << 12, .fallback = "0",
      .text = "every n-th block has no rotation (SmolLM3); 0: each has one" },
    { "window", DT_KEY_INT, BLOCK(window), .most = 1 << 30, .fallback = "0",
      .text = "most tokens that a token attends to, itself included; 0: all" },
    { "full_every", DT_KEY_INT, BLOCK(full_every), .most = 1 << 12, .fallback = "0",
      .text = "every n-th block attends without `window`; 0: none does" },
    { "local_theta", DT_KEY_REAL, BLOCK(local_theta), .most = 1e12, .fallback = "0",
      .text = "`theta` of blocks with `window`; 0: as the others" },
    { "hadamard", DT_KEY_INT, BLOCK(hadamard), .most = 1 << 12, .fallback = "0",
      .text = "order of a Hadamard matrix on the inputs of mlps' output layers, a power of two "
              "that divides `hidden`; 0: none" },
    { 0 },
};

#define AT(field) .offset = offsetof(dt_llama_options, field)

const dt_key dt_llama_keys[] = {
    { "vocab", DT_KEY_INT, AT(vocab), .least = 1, .most = 1 << 24, .fallback = "!",
      .text = "size of the vocabulary" },
    { "context", DT_KEY_INT, AT(context), .least = 1, .most = 1 << 24, .fallback = "!",
      .text = "most tokens of a sequence" },
    { "layers", DT_KEY_INT, AT(layers), .least = 1, .most = 1 << 12, .fallback = "!",
      .text = "blocks of attention and mlp" },
    { "heads", DT_KEY_INT, AT(heads), .least = 1, .most = 1 << 16, .fallback = "!",
      .text = "attention heads" },
    { "width", DT_KEY_INT, AT(width), .least = 1, .most = 1 << 20, .fallback = "!",
      .text = "embedding width" },
    { "hidden", DT_KEY_INT, AT(hidden), .least = 1, .most = 1 << 22, .fallback = "!",
      .text = "width of an mlp's hidden layer" },
    { "kv_heads", DT_KEY_INT, AT(kv_heads), .most = 1 << 16, .fallback = "0",
      .text = "heads of keys and values; they divide `heads`; 0: equal to `heads`" },
    { "head_width", DT_KEY_INT, AT(head_width), .most = 1 << 20, .fallback = "0",
      .text = "width of a head; 0: width / heads" },
    { "tied", DT_KEY_BOOL, AT(tied), .fallback = "false",
      .text = "the head uses the weight of the token embedding" },
    { "qkv_bias", DT_KEY_BOOL, AT(qkv_bias), .fallback = "false",
      .text = "queries, keys and values have biases" },
    { "out_bias", DT_KEY_BOOL, AT(out_bias), .fallback = "false",
      .text = "attention's output layer has a bias" },
    { "mlp_bias", DT_KEY_BOOL, AT(mlp_bias), .fallback = "false",
      .text = "the layers of an mlp have biases" },
    { "qk_norm", DT_KEY_BOOL, AT(qk_norm), .fallback = "false",
      .text = "queries and keys have an rms norm before the rotation" },
    { "theta", DT_KEY_REAL, AT(theta), .least = 1, .most = 1e12, .fallback = "10000",
      .text = "base of the rotary frequencies" },
    { "eps", DT_KEY_REAL, AT(eps), .most = 1, .fallback = "1e-5",
      .text = "norms: added to the mean square" },
    { "rope", DT_KEY_MAP, AT(rope), .keys = rope_keys,
      .text = "scaling of the rotary position embedding" },
    { "moe", DT_KEY_MAP, AT(moe), .keys = moe_keys, .given = offsetof(dt_llama_options, moe.given),
      .text = "a mixture of experts in place of each mlp" },
    { "block", DT_KEY_MAP, AT(block), .keys = block_keys,
      .given = offsetof(dt_llama_options, block.given), .text = "how blocks differ from Llama's" },
    { "longrope", DT_KEY_MAP, AT(longrope), .keys = longrope_keys,
      .given = offsetof(dt_llama_options, longrope.given),
      .text = "the rotation of long contexts that Phi-3 has, in place of `rope`" },
    { 0 },
};
