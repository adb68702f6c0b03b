/* dt_export_verify: an ONNX file and its model on the same inputs. The files are made by the test,
 * so that faults of the exporter and the interpreter cannot cancel out. */
#include "testing.h"

#include "core/text/byte_order.h"
#include "models.h"
#include "nn/module.h"
#include "onnx_graph.h"

#include <detent/experimental/export.h>

#include <stdio.h>

#define IN 3
#define OUT 2

static dt_ctx *ctx;
static test_memory memory;
static dt_mlp_options options;
static dt_model_info info;
static dt_module *m;
static char folder[TEST_PATH], path[TEST_PATH];
static char weight[400], bias[200];

static void text_of(const char *parameter, const char *extents, char *to, size_t size)
{
    const dt_tensor *p = dt_param(m, parameter);
    const float *x = dt_data(p);
    size_t used = (size_t)snprintf(to, size, "=f32 %s:", extents);
    for (int64_t i = 0; i < dt_count(p); i++) {
        used += (size_t)snprintf(to + used, size - used, " %.9g", (double)x[i]);
    }
}

static void begin(void)
{
    static const int64_t sizes[] = { IN, OUT, 0 };
    dt_ctx_options o = dt_ctx_defaults();
    test_begin();
    memory = (test_memory){ .live = 0 };
    o.allocator = test_allocator(&memory);
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    test_folder(folder);
    test_join(path, folder, "graph.onnx");
    options = small_options(sizes, 0, 0);
    info = small_info(&options);
    m = small_model(ctx, &options);
    text_of("head.weight", "2 3", weight, sizeof weight);
    text_of("head.bias", "2", bias, sizeof bias);
}

static void end(void)
{
    onnx_forget();
    dt_module_free(m);
    dt_ctx_free(ctx);
    ck_assert_int_eq(memory.live, 0);
    test_end();
}

/* y0 = x0 weight' + bias, of any batch size. */
static DtOnnx__Model *gemm(void)
{
    const onnx_case c = { .op = "Gemm",
                          .attributes = "transB=1",
                          .in = { "f32 1 3: 0 0 0", weight, bias },
                          .out = { "f32 1 2: 0 0" } };
    DtOnnx__Model *model = onnx_model(&c);
    DtOnnx__ValueInfo *ends[] = { model->graph->input[0], model->graph->output[0] };
    for (int i = 0; i < 2; i++) {
        DtOnnx__Dimension *batch = ends[i]->type->tensor_type->shape->dim[0];
        batch->dim_value = 0;
        batch->dim_param = "batch";
    }
    return model;
}

static dt_status verify(const DtOnnx__Model *model, dt_export_difference *d)
{
    size_t n;
    int outputs = -1;
    const unsigned char *bytes = onnx_pack(model, &n);
    test_write_file(path, bytes, n);
    const dt_status s = dt_export_verify(m, &info, path, d, &outputs);
    ck_assert_int_eq(outputs, s == DT_OK ? 1 : 0);
    return s;
}

START_TEST(an_export_is_compared)
{
    dt_export_difference d[DT_MAX_OUT];
    dt_train(m, true);
    TEST_OK(ctx, verify(gemm(), d));
    ck_assert(dt_is_training(m));
    ck_assert_str_eq(d[0].output, "y0");
    ck_assert_int_eq(d[0].values, 3 * OUT);
    ck_assert_int_ge(d[0].equal, 1);
    ck_assert(d[0].relative < 1e-6);
    DtOnnx__Model *model = gemm(); /* a bias that differs by 1 in one output */
    uint8_t *first = model->graph->initializer[1]->raw_data.data;
    float b;
    dt__copy_little(&b, first, sizeof b);
    b += 1;
    dt__copy_little(first, &b, sizeof b);
    TEST_OK(ctx, verify(model, d));
    ck_assert_int_le(d[0].equal, 3);
    TEST_NEAR(d[0].absolute, 1, 0, 1e-6);
    ck_assert(d[0].relative > 0.01);
}
END_TEST

typedef struct shares {
    double latest;
    int n;
} shares;

static void told(void *user, const dt_work_state *state)
{
    shares *s = user;
    ck_assert(state->share >= s->latest && state->share <= 1);
    ck_assert(state->seconds_left >= 0 && isfinite(state->seconds_left));
    s->latest = state->share;
    s->n++;
}

/* Progress rises to 1; a file whose saving is announced counts before it is saved. Verification
 * reports after each node; this file has one. */
START_TEST(long_work_tells_its_share)
{
    shares s = { 0, 0 };
    dt_export_difference d[DT_MAX_OUT];
    dt_module *other;
    char saved[TEST_PATH];
    test_join(saved, folder, "model.safetensors");
    dt_set_progress(ctx, told, &s);
    TEST_OK(ctx, verify(gemm(), d));
    ck_assert(s.n > 1 && s.latest == 1);
    s = (shares){ 0, 0 };
    dt_set_progress(ctx, told, &s);
    TEST_OK(ctx, dt_model_save(m, &info, saved));
    ck_assert(s.n > 1 && s.latest == 1);
    s = (shares){ 0, 0 };
    dt_set_progress(ctx, told, &s);
    dt_expect_save(ctx, 1e6);
    TEST_OK(ctx, dt_onnx_import(ctx, path, NULL, &other, NULL));
    ck_assert(s.n > 2 && s.latest < 1);
    s = (shares){ 0, 0 };
    dt_set_progress(ctx, told, &s);
    TEST_OK(ctx, dt_expect_verify(m, &info, "onnx"));
    TEST_OK(ctx, dt_export(m, &info, "onnx", NULL, saved, NULL));
    ck_assert(s.n > 1 && s.latest < 1);
    const int n = s.n;
    dt_set_progress(ctx, NULL, NULL);
    TEST_OK(ctx, dt_model_save(m, &info, saved));
    ck_assert_int_eq(s.n, n);
    dt_module_free(other);
}
END_TEST

START_TEST(other_files_are_refused)
{
    dt_export_difference d[DT_MAX_OUT];
    int n;
    DtOnnx__Model *model = gemm();
    model->graph->output[0]->name = model->graph->node[0]->output[0] = "present.0.key";
    TEST_FAILS(ctx, DT_ERR_FORMAT, "0 outputs, but the model has 1", verify(model, d));
    model = gemm();
    model->graph->input[0]->type->tensor_type->shape->dim[1]->dim_value = 4;
    TEST_FAILS(ctx, DT_ERR_SHAPE, "'x0' is [3,3]", verify(model, d));
    model = gemm();
    model->graph->initializer[0]->dims[0] = 1;
    model->graph->initializer[0]->raw_data.len /= 2;
    model->graph->node[0]->n_input = 2;
    model->graph->output[0]->type->tensor_type->shape->dim[1]->dim_value = 1;
    TEST_FAILS(ctx, DT_ERR_FORMAT, "output 0 is float [3,1], but float [3,2]", verify(model, d));
    model = gemm();
    model->graph->input[1] = model->graph->input[0];
    model->graph->n_input = 2;
    TEST_FAILS(ctx, DT_ERR_FORMAT, "the value 'x0' is made twice", verify(model, d));
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "is a folder", dt_export_verify(m, &info, folder, d, &n));
    TEST_FAILS(ctx, DT_ERR_ARG, "path is NULL", dt_export_verify(m, &info, NULL, d, &n));
    test_write_text(path, "no ONNX");
    TEST_FAILS(ctx, DT_ERR_FORMAT, "not an ONNX file", dt_export_verify(m, &info, path, d, &n));
}
END_TEST

static dt_status verify_one(dt_ctx *own, void *user)
{
    dt_module *model;
    dt_export_difference d[DT_MAX_OUT];
    int n;
    (void)user;
    dt_status s = dt_mlp_create(own, &options, &model);
    if (s == DT_OK) s = dt_export_verify(model, &info, path, d, &n);
    dt_module_free(model);
    return s;
}

START_TEST(every_allocation)
{
    dt_export_difference d[DT_MAX_OUT];
    TEST_OK(ctx, verify(gemm(), d));
    ck_assert_int_gt(test_every_allocation(verify_one, NULL), 10);
}
END_TEST

Suite *test_export_verify_suite(void)
{
    Suite *s = suite_create("export_verify");
    TCase *c = tcase_create("export_verify");
    tcase_add_checked_fixture(c, begin, end);
    tcase_add_test(c, an_export_is_compared);
    tcase_add_test(c, other_files_are_refused);
    tcase_add_test(c, long_work_tells_its_share);
    tcase_add_test(c, every_allocation);
    suite_add_tcase(s, c);
    return s;
}
