/* Products of ONNX with random operands: vectors, matrices and stacks of them, computed or
 * constant, of floats or through QuantizeLinear and DequantizeLinear. The imported model computes
 * the same as the interpreter of ONNX. */
#include "testing.h"

#include "core/core.h"
#include "onnx_graph.h"

#include <detent/experimental/export.h>
#include <detent/experimental/io.h>
#include <stdio.h>
#include <string.h>

static dt_ctx *ctx;
static test_memory memory;
static char folder[TEST_PATH], path[TEST_PATH];
static uint64_t state;

static void begin(void)
{
    dt_ctx_options options = dt_ctx_defaults();
    test_begin();
    memory = (test_memory){ .live = 0 };
    options.allocator = test_allocator(&memory);
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    test_folder(folder);
    test_join(path, folder, "graph.onnx");
    state = 3;
}

static void end(void)
{
    onnx_forget();
    dt_ctx_free(ctx);
    ck_assert_int_eq(memory.live, 0);
    test_end();
}

static int draw(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

/* "f32 2 3: ..." of values that are multiples of 1/8; with "=" in front an initializer. */
static void write_tensor(char *text, size_t room, const int *dims, int rank)
{
    int count = 1, at = snprintf(text, room, "f32");
    for (int i = 0; i < rank; i++) {
        count *= dims[i];
        at += snprintf(text + at, room - (size_t)at, " %d", dims[i]);
    }
    at += snprintf(text + at, room - (size_t)at, ":");
    for (int i = 0; i < count; i++) {
        at += snprintf(text + at, room - (size_t)at, " %g", draw(33) / 8.0 - 2);
    }
}

/* Rounds value `name` to codes of int8; `to` becomes its name. */
static void round_value(DtOnnx__Model *m, const char *name, char to[24])
{
    char in[64], q[24];
    snprintf(q, sizeof q, "%s_q", name);
    snprintf(in, sizeof in, "%s scale zero", name);
    onnx_node(m, "QuantizeLinear", NULL, in, q);
    snprintf(in, sizeof in, "%s scale zero", q);
    snprintf(to, 24, "%s_d", name);
    onnx_node(m, "DequantizeLinear", NULL, in, to);
}

/* What stands between a rounded value and a product, which must not round again: the first two keep
 * dimension 1 with one element. */
static const struct {
    const char *op, *attributes, *second;
} between[] = {
    { "ReduceMean", "keepdims=1", "axes" },
    { "ReduceMax", "keepdims=1", "axes" },
    { "Neg", NULL, "" },
    { "LeakyRelu", "alpha=3f", "" },
    { "Softmax", "axis=-1", "" },
    { "Mul", NULL, "scale" },
    { "Identity", NULL, "" },
};

/* y = a b, of which a computed one is relu(x0) or made of it. `text` says what was drawn. */
static DtOnnx__Model *drawn_product(char text[200])
{
    const int more = draw(2 * DT__COUNT_OF(between)); /* that of `between`, if there is one */
    static const char *const orders[] = { "perm=[1,0]", "perm=[0,2,1]", "perm=[0,1,3,2]" };
    const int n = 2 + draw(3), other = 1 + draw(3); /* dimensions of x0 and of the constant */
    const bool left = draw(3) == 0, both = n > 2 && draw(3) == 0, rounds = draw(2);
    int dims[4] = { 2 }, constant[3];
    char x[2000], c[2000], a[24] = "h", in[64];
    for (int i = 1; i < n; i++) dims[i] = 1 + draw(4);
    write_tensor(x, sizeof x, dims, n);
    if (more < 2) dims[1] = 1;
    for (int i = 0; i < other; i++) constant[i] = 1 + draw(3);
    if (other == 3 && n > 2) constant[0] = draw(2) || n == 3 ? 1 : dims[n - 3];
    constant[left || other == 1 ? other - 1 : other - 2] = left ? dims[n - 2] : dims[n - 1];
    write_tensor(c, sizeof c, constant, other);
    const onnx_case relu = { .op = "Relu", .in = { x }, .out = { "f32: 0" } };
    DtOnnx__Model *m = onnx_model(&relu);
    m->graph->node[0]->output[0] = (char *)(uintptr_t) "h";
    onnx_weight(m, "c", c);
    onnx_weight(m, "scale", "f32: 0.3");
    onnx_weight(m, "zero", "i8: -7");
    onnx_weight(m, "axes", "i64 1: 1");
    if (rounds) round_value(m, "h", a);
    if (more < DT__COUNT_OF(between)) {
        snprintf(in, sizeof in, "%s %s", a, between[more].second);
        onnx_node(m, between[more].op, between[more].attributes, in, "b");
        strcpy(a, "b");
    }
    if (both) onnx_node(m, "Transpose", orders[n - 2], a, "t"); /* by its own transpose */
    snprintf(in, sizeof in, "%s %s", left ? "c" : a, left ? a : both ? "t" : "c");
    if (both && left) snprintf(in, sizeof in, "t %s", a);
    snprintf(text, 200, "%.12s..., the constant %.12s..., %s, %s%s%s", x, c, in,
             left ? "on the left" : "on the right", rounds ? ", rounded, " : ", ",
             more < DT__COUNT_OF(between) ? between[more].op : "as it is");
    onnx_node(m, "MatMul", NULL, in, "y");
    m->graph->output[0]->type->tensor_type->shape = NULL;
    m->graph->input[0]->type->tensor_type->shape->dim[0]->dim_value = 0;
    m->graph->input[0]->type->tensor_type->shape->dim[0]->dim_param = (char *)(uintptr_t) "batch";
    return m;
}

/* Compares an import with its file; false: it was refused. */
static bool agrees(void)
{
    char text[200];
    dt_module *m;
    dt_model_info info;
    dt_export_difference d[DT_MAX_OUT];
    int n;
    size_t bytes;
    const unsigned char *packed = onnx_pack(drawn_product(text), &bytes);
    test_write_file(path, packed, bytes);
    onnx_forget();
    if (dt_onnx_import(ctx, path, NULL, &m, &info) != DT_OK) {
        ck_assert_msg(dt_error_status(ctx) == DT_ERR_UNSUPPORTED, "%s: %s", text, dt_error(ctx));
        return false;
    }
    const dt_status s = dt_export_verify(m, &info, path, d, &n);
    ck_assert_msg(s == DT_OK, "%s: %s", text, dt_error(ctx));
    ck_assert_msg(d[0].relative <= 1e-6, "%s: %g apart", text, d[0].relative);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return true;
}

START_TEST(products)
{
    const int64_t draws = test_count((test_draws){ .usual = 400, .sanitized = 40, .quick = 200 });
    int64_t equal = 0;
    for (int64_t k = 0; k < draws; k++) equal += agrees();
    printf("onnx_products: %lld equal, %lld refused\n", (long long)equal,
           (long long)(draws - equal));
    ck_assert_int_gt(equal, draws / 2);
}
END_TEST

Suite *test_onnx_products_suite(void)
{
    Suite *s = suite_create("onnx_products");
    TCase *c = tcase_create("onnx_products");
    tcase_add_checked_fixture(c, begin, end);
    tcase_add_test(c, products);
    suite_add_tcase(s, c);
    return s;
}
