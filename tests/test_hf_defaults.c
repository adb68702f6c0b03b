/* Settings that a config.json leaves out are the defaults of its model class in transformers
 * (configuration_llama.py, _qwen2.py, _qwen3.py, _mixtral.py,
 * _gemma3.py). */
#include "testing.h"

#include "io/hf/hf.h"

#include <detent/experimental/nn.h>

#include <stdio.h>

static const struct {
    const char *class;
    double eps, theta;
    int64_t context, kv_heads;
    const char *more; /* keys that have no default here */
} defaults[] = {
    { "llama", 1e-6, 1e4, 2048, 64, "" },
    { "qwen2", 1e-6, 1e4, 32768, 32, "" },
    { "qwen3", 1e-6, 1e4, 32768, 32, ", \"head_dim\": 8" },
    { "phi3", 1e-5, 1e4, 4096, 64, "" },
    { "olmo2", 1e-5, 1e4, 2048, 64, "" },
    { "smollm3", 1e-6, 2e6, 32768, 4, "" },
    { "gemma3_text", 1e-6, 1e6, 131072, 4, "" },
    { "mixtral", 1e-5, 1e6, 131072, 8, ", \"num_local_experts\": 4, \"num_experts_per_tok\": 2" },
};

/* `heads` are those of keys and values; "": none are given. */
static void read_with(int i, const char *heads, const char *more, dt_llama_options *out)
{
    char text[1024];
    dt_ctx *ctx = NULL;
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    const int n = snprintf(text, sizeof text,
                           "{\"model_type\": \"%s\", \"vocab_size\": 32, \"hidden_size\": 512, "
                           "\"intermediate_size\": 24, \"num_hidden_layers\": 1, "
                           "\"num_attention_heads\": 64%s%s%s}",
                           defaults[i].class, heads, defaults[i].more, more);
    const dt__hf_text config = { .path = "config.json", .text = text, .bytes = (size_t)n };
    dt__hf_model model;
    TEST_OK(ctx, dt__hf_config_read(ctx, &config, &model));
    *out = model.llama;
    dt_ctx_free(ctx);
}

START_TEST(absent_settings_are_those_of_the_class)
{
    dt_llama_options o;
    read_with(_i, "", "", &o);
    ck_assert_int_eq(o.kv_heads, defaults[_i].kv_heads);
    ck_assert_double_eq(o.eps, defaults[_i].eps);
    ck_assert_double_eq(o.theta, defaults[_i].theta);
    ck_assert_int_eq(o.context, defaults[_i].context);
    read_with(_i, ", \"num_key_value_heads\": 2",
              ", \"rms_norm_eps\": 0.125, \"rope_theta\": 512, \"max_position_embeddings\": 64",
              &o);
    ck_assert_int_eq(o.kv_heads, 2);
    ck_assert_double_eq(o.eps, 0.125);
    ck_assert_double_eq(o.theta, 512);
    ck_assert_int_eq(o.context, 64);
}
END_TEST

/* Qwen2 and Qwen3: null is no window, and not the default of 4096. */
START_TEST(no_window_is_not_the_default)
{
    dt_llama_options o;
    static const char used[] = ", \"use_sliding_window\": true, \"max_window_layers\": 0";
    char text[256];
    read_with(1 + _i, "", used, &o);
    ck_assert(o.block.given && o.block.window == 4096);
    snprintf(text, sizeof text, "%s, \"sliding_window\": null", used);
    read_with(1 + _i, "", text, &o);
    ck_assert(!o.block.given && o.block.window == 0);
    snprintf(text, sizeof text, "%s, \"sliding_window\": 9", used);
    read_with(1 + _i, "", text, &o);
    ck_assert(o.block.given && o.block.window == 9);
}
END_TEST

Suite *test_hf_defaults_suite(void)
{
    Suite *suite = suite_create("hf_defaults");
    TCase *c = tcase_create("hf_defaults");
    tcase_add_loop_test(c, absent_settings_are_those_of_the_class, 0,
                        (int)(sizeof defaults / sizeof *defaults));
    tcase_add_loop_test(c, no_window_is_not_the_default, 0, 2);
    suite_add_tcase(suite, c);
    return suite;
}
