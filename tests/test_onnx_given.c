/* ONNX files as other programs write them: dimensions that are no numbers, which the caller gives;
 * branches whose condition depends on sizes; integers that select rows of a table. */
#include "testing.h"

#include "core/core.h"
#include "onnx_graph.h"

#include <detent/experimental/io.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 4 /* of onnx_start */

static dt_ctx *ctx;
static test_memory memory;
static char folder[TEST_PATH], path[TEST_PATH];

static void begin(void)
{
    dt_ctx_options options = dt_ctx_defaults();
    test_begin();
    memory = (test_memory){ .live = 0 };
    options.allocator = test_allocator(&memory);
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    test_folder(folder);
    test_join(path, folder, "graph.onnx");
}

static void end(void)
{
    onnx_forget();
    dt_ctx_free(ctx);
    ck_assert_int_eq(memory.live, 0);
    test_end();
}

static uint64_t state = 1;

static int draw(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

static void write_model(DtOnnx__Model *m)
{
    size_t n;
    for (size_t i = 0; i < m->graph->n_output; i++) {
        m->graph->output[i]->type->tensor_type->shape = NULL;
    }
    const unsigned char *bytes = onnx_pack(m, &n);
    test_write_file(path, bytes, n);
}

/* The model's answer for one batch, n numbers of it. */
static void run(dt_module *m, int rank, const int64_t *dims, const float *x, int64_t n, float *y)
{
    dt_tensor *in;
    dt_tape *t;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank, dims, &in));
    memcpy(dt_data_mut(in), x, (size_t)dt_count(in) * sizeof *x);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    const dt_tensor *out = dt_contiguous(t, dt_forward(t, m, in));
    TEST_OK(ctx, dt_tape_status(t));
    ck_assert_int_eq(dt_count(out), n);
    memcpy(y, dt_data(out), (size_t)n * sizeof *y);
    dt_tape_free(t);
    dt_tensor_free(in);
}

/* ---- dimensions ------------------------------------------------------------------------------ */

static DtOnnx__Dimension *width_of(DtOnnx__Model *m)
{
    return m->graph->input[0]->type->tensor_type->shape->dim[1];
}

/* "width", or the -1 that Paddle writes, of the batch as well. */
static void write_open(bool minus)
{
    DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
    onnx_node(m, "Neg", NULL, "h", "y");
    DtOnnx__Dimension *width = width_of(m);
    width->dim_value = minus ? -1 : 0;
    width->dim_param = minus ? "" : "width";
    if (minus) m->graph->input[0]->type->tensor_type->shape->dim[0]->dim_value = -1;
    write_model(m);
}

START_TEST(open_dimensions)
{
    for (int k = 0; k < 16; k++) {
        const int64_t width = 1 + draw(9), dims[] = { 2, width };
        const dt_onnx_shape shape = { k % 2 == 0 ? NULL : "x0", { 2, { draw(3), width } } };
        const dt_onnx_options o = { .shapes = &shape, .n_shapes = 1 };
        float x[18], y[18];
        dt_module *m;
        write_open(k % 4 >= 2);
        TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "must have numbers as dimensions",
                   dt_onnx_import(ctx, path, NULL, &m, NULL));
        TEST_OK(ctx, dt_onnx_import(ctx, path, &o, &m, NULL));
        for (int i = 0; i < 2 * width; i++) x[i] = (float)(draw(9) - 4);
        run(m, 2, dims, x, 2 * width, y);
        for (int i = 0; i < 2 * width; i++) {
            ck_assert_float_eq(y[i], x[i] > 0 ? -x[i] : 0);
        }
        dt_module_free(m);
    }
}
END_TEST

static const struct {
    dt_onnx_shape shape;
    bool open;
    const char *says;
} wrong[] = {
    { { NULL, { 3, { 1, 4, 4 } } }, true, "'x0': 3 dimensions are given; the file has 2" },
    { { NULL, { 1, { 4 } } }, true, "'x0': 1 dimensions are given; the file has 2" },
    { { "z", { 2, { 1, 4 } } }, true, "'z': the file has no such input" },
    { { NULL, { 2, { 1, 5 } } }, false, "dimension 1 is given as 5; the file has 4" },
    { { NULL, { 2, { 1, -4 } } }, true, "dimension 1 is given as -4" },
    { { NULL, { 2, { 1, INT64_MAX } } }, true, "dimension 1 is given as 9223372036854775807" },
};

START_TEST(wrong_shapes)
{
    const dt_onnx_options o = { .shapes = &wrong[_i].shape, .n_shapes = 1 };
    DtOnnx__Model *closed = onnx_start("f32 1 4: 0 0 0 0");
    dt_module *m;
    onnx_node(closed, "Neg", NULL, "h", "y");
    if (wrong[_i].open) write_open(false);
    else write_model(closed);
    TEST_FAILS(ctx, DT_ERR_ARG, wrong[_i].says, dt_onnx_import(ctx, path, &o, &m, NULL));
}
END_TEST

/* ---- branches -------------------------------------------------------------------------------- */

#define THEN "then_branch=( > t%d | a%d=Neg h | t%d=Add a%d a%d)"
#define ELSE "else_branch=( > e%d | e%d=Add h h)"

/* A chain of Ifs whose conditions depend on the width of h, and the sum of their results. */
static void write_branches(int n, const bool *taken)
{
    DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
    char with[200], in[40], out[20];
    onnx_weight(m, "one", "i64: 1");
    onnx_weight(m, "same", "i64: 4");
    onnx_weight(m, "other", "i64: 5");
    onnx_node(m, "Shape", NULL, "h", "shape");
    onnx_node(m, "Gather", NULL, "shape one", "width");
    onnx_node(m, "Equal", NULL, "width same", "yes");
    onnx_node(m, "Equal", NULL, "width other", "no");
    onnx_node(m, "Identity", NULL, "h", "s0");
    for (int i = 0; i < n; i++) {
        snprintf(with, sizeof with, THEN " " ELSE, i, i, i, i, i, i, i);
        snprintf(out, sizeof out, "b%d", i);
        onnx_node(m, "If", with, taken[i] ? "yes" : "no", out);
        snprintf(in, sizeof in, "s%d b%d", i, i);
        snprintf(out, sizeof out, "s%d", i + 1);
        onnx_node(m, "Add", NULL, in, out);
    }
    write_model(m);
}

START_TEST(branches)
{
    for (int k = 0; k < 24; k++) {
        const int n = 1 + draw(4);
        const int64_t dims[] = { 1, WIDTH };
        const float x[WIDTH] = { 1, -2, 3, 0.5f };
        float y[WIDTH], factor = 1;
        bool taken[4];
        dt_module *m;
        for (int i = 0; i < n; i++) {
            taken[i] = draw(2) == 1;
            factor += taken[i] ? -2 : 2;
        }
        write_branches(n, taken);
        TEST_OK(ctx, dt_onnx_import(ctx, path, NULL, &m, NULL));
        run(m, 2, dims, x, WIDTH, y);
        for (int i = 0; i < WIDTH; i++) {
            ck_assert_float_eq(y[i], x[i] > 0 ? factor * x[i] : 0);
        }
        dt_module_free(m);
        onnx_forget();
    }
}
END_TEST

static const struct {
    const char *with, *says;
} bodies[] = {
    { "else_branch=( > e | e=Neg h)", "If '': then_branch is missing" },
    { "then_branch=( > t z | t=Neg h | z=Abs h) else_branch=( > e | e=Neg h)",
      "If '': then_branch has another number of outputs" },
    { "then_branch=1 else_branch=( > e | e=Neg h)", "the body of a node is not a graph" },
};

START_TEST(bad_branches)
{
    DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
    dt_module *to;
    onnx_weight(m, "yes", "bool 1: 1");
    onnx_node(m, "If", bodies[_i].with, "yes", "y");
    write_model(m);
    TEST_FAILS(ctx, DT_ERR_FORMAT, bodies[_i].says, dt_onnx_import(ctx, path, NULL, &to, NULL));
}
END_TEST

START_TEST(computed_condition)
{
    DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
    dt_module *to;
    onnx_weight(m, "axes", "i64 2: 0 1");
    onnx_weight(m, "zero", "f32: 0");
    onnx_node(m, "ReduceMax", "keepdims=0", "h axes", "most");
    onnx_node(m, "Greater", NULL, "most zero", "some");
    onnx_node(m, "If", "then_branch=( > t | t=Neg h) else_branch=( > e | e=Abs h)", "some", "y");
    write_model(m);
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "its condition must be known from the sizes of the inputs",
               dt_onnx_import(ctx, path, NULL, &to, NULL));
}
END_TEST

/* ---- integers -------------------------------------------------------------------------------- */

static const dt_onnx_options alone = { .no_batch = true };

START_TEST(rows_of_a_table)
{
    const onnx_case c = { .op = "Gather",
                          .in = { "=f32 3 2: 1 2 3 4 5 6", _i == 0 ? "i64 2: 0 0" : "i32 2: 0 0" },
                          .out = { "f32 2 2: 0 0 0 0" } };
    const int64_t dims[] = { 2, 2 };
    const float x[] = { 2, 0, 1, 1 }, wanted[] = { 5, 6, 1, 2, 3, 4, 3, 4 };
    float y[8];
    dt_module *m;
    write_model(onnx_model(&c));
    TEST_OK(ctx, dt_onnx_import(ctx, path, &alone, &m, NULL));
    run(m, 2, dims, x, 8, y);
    ck_assert_mem_eq(y, wanted, sizeof wanted);
    dt_module_free(m);
}
END_TEST

static const struct {
    onnx_case c;
    const char *says;
} bad[] = {
    { { .op = "Add", .in = { "i64 2: 0 0", "=i64 2: 1 1" }, .out = { "i64 2: 0 0" } },
      "computes with integers of an input" },
    { { .op = "Gather",
        .attributes = "axis=1",
        .in = { "=f32 3 2: 1 2 3 4 5 6", "i64 2: 0 0" },
        .out = { "f32 3 2: 0 0 0 0 0 0" } },
      "[rows, width], of which it takes rows" },
    { { .op = "Relu", .in = { "u8 2: 0 0" }, .out = { "u8 2: 0 0" } },
      "must have floats, int32 or int64" },
};

START_TEST(refusals)
{
    dt_module *m;
    write_model(onnx_model(&bad[_i].c));
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, bad[_i].says, dt_onnx_import(ctx, path, &alone, &m, NULL));
}
END_TEST

Suite *test_onnx_given_suite(void)
{
    Suite *s = suite_create("onnx_given");
    TCase *c = tcase_create("onnx_given");
    tcase_add_checked_fixture(c, begin, end);
    tcase_add_test(c, open_dimensions);
    tcase_add_loop_test(c, wrong_shapes, 0, DT__COUNT_OF(wrong));
    tcase_add_test(c, branches);
    tcase_add_loop_test(c, bad_branches, 0, DT__COUNT_OF(bodies));
    tcase_add_test(c, computed_condition);
    tcase_add_loop_test(c, rows_of_a_table, 0, 2);
    tcase_add_loop_test(c, refusals, 0, DT__COUNT_OF(bad));
    suite_add_tcase(s, c);
    return s;
}
