/* Format onnx with --ops: each form of each preset computes the model, says by how much its
 * arithmetic differs, or is refused. */
#include "random_nets.h"
#include "testing.h"

#include <detent/experimental/export.h>

#include <stdio.h>
#include <string.h>

#define NEAR 5e-2 /* of the largest output: a code may flip, of few */

static const test_draws draws = { .usual = 36, .sanitized = 9 };

typedef struct subject {
    dt_ctx *ctx;
    dt_module *m;
    dt_model_info info;
    int preset;
    char path[TEST_PATH];
    char said[2000];
} subject;

static void take_note(void *user, const char *line)
{
    subject *s = user;
    const size_t used = strlen(s->said);
    snprintf(s->said + used, sizeof s->said - used, "%s\n", line);
}

/* Whether inputs of products have ranges that training found. */
static bool has_ranges(int preset)
{
    dt_quant_spec w, a;
    return dt_qat_preset(preset, &w, &a) && a.range != DT_RANGE_DYNAMIC;
}

static double largest(const dt_export_difference *d, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) most = d[i].relative > most ? d[i].relative : most;
    return most;
}

static void check_form(subject *s, int ops, uint64_t seed)
{
    dt_export_options o = dt_export_defaults();
    dt_export_summary summary;
    dt_export_difference d[DT_MAX_OUT];
    int n = 0;
    char told[80];
    o.onnx_ops = ops;
    o.note = take_note;
    o.user = s;
    *s->said = 0;
    const dt_status status = dt_export(s->m, &s->info, "onnx", &o, s->path, &summary);
    const char *name = dt_onnx_ops[ops];
    if (ops == DT_ONNX_NBITS && has_ranges(s->preset)) {
        TEST_EACH(status == DT_ERR_UNSUPPORTED && strstr(dt_error(s->ctx), "--ops nbits") != NULL,
                  "network %d, preset %d: nbits is written", (int)seed, s->preset);
        return;
    }
    if (status == DT_ERR_UNSUPPORTED && ops == DT_ONNX_QDQ) return;
    TEST_EACH(status == DT_OK, "network %d, %s: %s", (int)seed, name, dt_error(s->ctx));
    TEST_OK(s->ctx, dt_export_verify(s->m, &s->info, s->path, d, &n));
    snprintf(told, sizeof told, "(relative to the largest output: %.3g)", largest(d, n));
    const bool says = strstr(s->said, told) != NULL;
    TEST_EACH(says == summary.changed, "network %d, %s: '%s', without '%s'", (int)seed, name,
              s->said, told);
    TEST_EACH(summary.changed || largest(d, n) <= NEAR, "network %d, preset %d, %s: %g", (int)seed,
              s->preset, name, largest(d, n));
    TEST_EACH(!summary.changed || ops != DT_ONNX_PLAIN, "network %d: plain changes", (int)seed);
}

START_TEST(each_form_is_the_model_or_says_so)
{
    char folder[TEST_PATH];
    test_folder(folder);
    for (int i = 0; i < test_count(draws); i++) {
        random_net net = random_net_of_family((uint64_t)i + 1, "mlp");
        dt_ctx_options options = dt_ctx_defaults();
        subject s = { .preset = i % DT_INT8_BLOCK_Q4_0_WEIGHT };
        options.seed = (uint64_t)i;
        options.threads = 1;
        TEST_OK(NULL, dt_ctx_create(&s.ctx, &options));
        net.qat = dt_qat_defaults();
        net.qat.preset = s.preset;
        s.m = random_net_create(s.ctx, &net);
        s.info = (dt_model_info){ .family = net.family, .options = &net.options };
        TEST_OK(s.ctx, dt_prepare(s.m, &net.qat));
        random_net_observe(s.ctx, &net, s.m);
        TEST_OK(s.ctx, dt_convert(s.m, NULL, NULL));
        test_join(s.path, folder, "model.onnx");
        for (int ops = 0; dt_onnx_ops[ops] != NULL; ops++) check_form(&s, ops, net.seed);
        dt_module_free(s.m);
        dt_ctx_free(s.ctx);
    }
}
END_TEST

Suite *test_onnx_forms_suite(void)
{
    Suite *s = suite_create("onnx_forms");
    TCase *c = tcase_create("forms");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, each_form_is_the_model_or_says_so);
    suite_add_tcase(s, c);
    return s;
}
