/* Weights of files whose tensors have other names: rules of model.map. */
#include "testing.h"

#include "core/core.h"

#include <detent/experimental/io.h>

#include <stdio.h>

static dt_ctx *ctx;
static dt_module *model, *copy;
static char path[TEST_PATH];

static dt_module *make_mlp(void)
{
    dt_mlp_options o = { .sizes = { 4, { 4, 3, 5, 2 } }, .bias = true };
    dt_module *m;
    TEST_OK(ctx, dt_mlp_create(ctx, &o, &m));
    return m;
}

typedef struct other_names {
    dt_writer *w;
    int64_t steps; /* num_batches_tracked of a batch norm */
} other_names;

/* layers.0.weight as net.features.0.w */
static dt_status add(void *user, const char *name, dt_tensor *x, dt_entry_kind kind)
{
    char text[96];
    int layer;
    char part[16];
    (void)kind;
    const bool hidden = sscanf(name, "layers.%d.%15s", &layer, part) == 2;
    snprintf(text, sizeof text, "%s", name); /* the head keeps its names */
    if (hidden) snprintf(text, sizeof text, "net.features.%d.%c", layer, *part);
    return dt_writer_add(((other_names *)user)->w, text, x);
}

/* Writes the weights of `model` under other names, and two tensors that are none. */
static void begin(void)
{
    char folder[TEST_PATH];
    const int64_t one = 1;
    other_names n = { .steps = 7 };
    const dt_file_entry counter = {
        "net.norm.num_batches_tracked", "I64", 0, NULL, 0, 0, &n.steps
    };
    const dt_file_entry foreign = { "ema.decay", "I64", 1, &one, 0, 0, &n.steps };
    test_begin();
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    model = make_mlp();
    copy = make_mlp();
    test_folder(folder);
    test_join(path, folder, "state.safetensors");
    TEST_OK(ctx, dt_writer_create(ctx, &n.w));
    TEST_OK(ctx, dt_module_visit(model, add, &n));
    TEST_OK(ctx, dt_writer_add_bytes(n.w, &counter));
    TEST_OK(ctx, dt_writer_add_bytes(n.w, &foreign));
    TEST_OK(ctx, dt_writer_write(n.w, path));
    dt_writer_free(n.w);
}

static void end(void)
{
    dt_module_free(model);
    dt_module_free(copy);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
    test_end();
}

static const dt_name_rule good[] = {
    { "net\\.(features|classifier)\\.([0-9]+)\\.w", "layers.\\2.weight", false },
    { "net\\.features\\.([0-9]+)\\.b", "layers.\\1.bias", false },
    { "ema\\..*", NULL, true },
};

START_TEST(renamed)
{
    static const char *const names[] = { "layers.0.weight", "layers.0.bias", "layers.1.weight",
                                         "head.weight", "layers.1.bias" };
    TEST_OK(ctx, dt_model_load_renamed(copy, path, good, 3));
    for (int i = 0; i < DT__COUNT_OF(names); i++) {
        const dt_tensor *a = dt_param(model, names[i]), *b = dt_param(copy, names[i]);
        ck_assert_mem_eq(dt_data(a), dt_data(b), (size_t)dt_count(a) * sizeof(float));
    }
}
END_TEST

static void refuses(const dt_name_rule *rules, int64_t n, dt_status status, const char *says)
{
    const dt_status s = dt_model_load_renamed(copy, path, rules, n);
    ck_assert_msg(s == status, "%d: %s", s, dt_error(ctx));
    ck_assert_msg(strstr(dt_error(ctx), says) != NULL, "%s", dt_error(ctx));
}

START_TEST(wrong_rules)
{
    dt_name_rule rules[3];
    memcpy(rules, good, sizeof rules);
    refuses(good, 2, DT_ERR_FORMAT, "ema.decay");           /* unexpected */
    refuses(good + 1, 2, DT_ERR_FORMAT, "layers.0.weight"); /* missing */
    refuses(NULL, -1, DT_ERR_ARG, "-1 rules");
    rules[1].from = "features\\.([0-9]+)\\.b"; /* a part of the name */
    refuses(rules, 3, DT_ERR_CONFIG, "matches the name of no tensor");
    rules[1] = (dt_name_rule){ "net.(", "x", false };
    refuses(rules, 3, DT_ERR_CONFIG, "'net.(' is not an extended regular expression");
    rules[1] = (dt_name_rule){ "net\\.(.*)", "\\2", false };
    refuses(rules, 3, DT_ERR_CONFIG, "\\0 to \\1, parts of");
    rules[1] = (dt_name_rule){ "net\\.(.*)", "\\1\\", false };
    refuses(rules, 3, DT_ERR_CONFIG, "\\0 to \\1, parts of");
    rules[1] = (dt_name_rule){ "net\\.(.*)", "\\1", true };
    refuses(rules, 3, DT_ERR_CONFIG, "either the new name `to` or `skip`");
    rules[1] = (dt_name_rule){ "net\\.(.*)", NULL, false };
    refuses(rules, 3, DT_ERR_CONFIG, "either the new name `to` or `skip`");
    rules[1] = (dt_name_rule){ "net\\.features\\..\\.b", "layers.0.bias", false };
    refuses(rules, 3, DT_ERR_FORMAT, "occurs twice");
}
END_TEST

Suite *test_name_rules_suite(void)
{
    Suite *s = suite_create("name_rules");
    TCase *c = tcase_create("rules");
    tcase_add_checked_fixture(c, begin, end);
    tcase_add_test(c, renamed);
    tcase_add_test(c, wrong_rules);
    suite_add_tcase(s, c);
    return s;
}
