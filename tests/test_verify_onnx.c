/* The interpreter that reads exports back (interpret.h): values by hand for every
 * operator, graphs that are wrong, damaged files, failing allocations. */
#include "testing.h"

#include "io/onnx/interpret/interpret.h"
#include "onnx_damage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

static const dt__verify_limits limits = { .bytes = (size_t)16 << 20, .work = 1e8 };

/* ---- operators ------------------------------------------------------------------------------- */

/* The inputs of a case that are no initializers. */
static int64_t inputs_of(dt_ctx *own, const onnx_case *c, dt__verify_named *in)
{
    static char names[ONNX_VALUES][16];
    int64_t n = 0;
    for (int i = 0; i < ONNX_VALUES && c->in[i] != NULL; i++) {
        if (*c->in[i] == '=' || *c->in[i] == '-') continue;
        snprintf(names[i], sizeof names[i], "x%d", i);
        in[n].name = names[i];
        if (dt__verify_decode(own, onnx_tensor(c->in[i], names[i]), SIZE_MAX, &in[n].value) !=
            DT_OK) {
            break;
        }
        n++;
    }
    return n;
}

static dt_status run_case(dt_ctx *own, const onnx_case *c, dt__verify **v)
{
    dt__verify_named in[ONNX_VALUES] = { { .name = NULL } };
    dt_status s = dt__verify_open(own, path, &limits, v);
    if (s != DT_OK) return s;
    const int64_t n = inputs_of(own, c, in);
    s = n == dt__verify_inputs(*v) ? dt__verify_run(*v, in, n) : DT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) dt__release(own, in[i].value.data);
    return s;
}

static bool same(const dt__verify_value *a, const dt__verify_value *b, double near)
{
    bool same = a->type == b->type && a->rank == b->rank &&
                memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0;
    for (int64_t i = 0; same && i < a->count; i++) {
        const double p = dt__verify_real_at(a, i), q = dt__verify_real_at(b, i);
        if (dt__verify_is_real(a->type)) {
            same = near > 0 ? test_near(p, q, 0, near)
                            : (p == q && signbit(p) == signbit(q)) || (isnan(p) && isnan(q));
        } else {
            same = dt__verify_whole_at(a, i) == dt__verify_whole_at(b, i);
        }
    }
    return same;
}

static void write_model(const DtOnnx__Model *m)
{
    size_t n;
    const unsigned char *bytes = onnx_pack(m, &n);
    test_write_file(path, bytes, n);
}

static void check_values(const onnx_case *c)
{
    const int at = (int)(c - onnx_cases);
    dt__verify *v;
    write_model(onnx_model(c));
    const dt_status s = run_case(ctx, c, &v);
    if (c->fails != NULL) {
        ck_assert_msg(s == DT_ERR_FORMAT || s == DT_ERR_UNSUPPORTED, "case %d, %s: %d", at, c->op,
                      s);
        ck_assert_msg(strstr(dt_error(ctx), c->fails) != NULL, "%s: %s", c->op, dt_error(ctx));
        dt__verify_close(v);
        return;
    }
    ck_assert_msg(s == DT_OK, "case %d, %s: %s", at, c->op, dt_error(ctx));
    for (int i = 0; i < ONNX_VALUES && c->out[i] != NULL; i++) {
        dt__verify_value wanted;
        TEST_OK(ctx, dt__verify_decode(ctx, onnx_tensor(c->out[i], ""), SIZE_MAX, &wanted));
        const dt__verify_value *is = dt__verify_output(v, i);
        ck_assert_msg(same(is, &wanted, c->near), "case %d, %s: output %d begins %.17g, not %s", at,
                      c->op, i, is->count > 0 ? dt__verify_real_at(is, 0) : 0, c->out[i]);
        dt__release(ctx, wanted.data);
    }
    dt__verify_close(v);
}

/* A process takes every 16th case: under a sanitizer a process costs more than a case. */
enum { PROCESSES = 16 };

START_TEST(values)
{
    for (size_t i = (size_t)_i; i < (size_t)onnx_case_count; i += PROCESSES) {
        check_values(&onnx_cases[i]);
        onnx_forget();
    }
}
END_TEST

/* Every operator of the tables has a case with values. */
START_TEST(all_operators)
{
    static const dt__verify_operator *const tables[] = {
        dt__verify_elementwise, dt__verify_casts,   dt__verify_reductions, dt__verify_shapes,
        dt__verify_selections,  dt__verify_gathers, dt__verify_products,   dt__verify_convolutions,
        dt__verify_pools,       dt__verify_norms,   dt__verify_quantizers, dt__verify_microsoft,
        dt__verify_scans,
    };
    int n = 0;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        for (const dt__verify_operator *op = tables[t]; op->name != NULL; op++, n++) {
            bool found = false;
            for (size_t i = 0; i < (size_t)onnx_case_count; i++) {
                const char *colon = strchr(onnx_cases[i].op, ':');
                const char *name = colon == NULL ? onnx_cases[i].op : colon + 1;
                found = found || (onnx_cases[i].fails == NULL && strcmp(name, op->name) == 0);
            }
            TEST_EACH(found, "no case of %s", op->name);
        }
    }
    printf("verify_onnx: %d operators, %zu cases\n", n, (size_t)onnx_case_count);
}
END_TEST

/* ---- graphs ---------------------------------------------------------------------------------- */

/* y = relu(x0 + x1) of two nodes. */
static DtOnnx__Model *chain(void)
{
    static const onnx_case add = { .op = "Add",
                                   .in = { "f32 2: 1 -2", "=f32 2: 1 1" },
                                   .out = { "f32 2: 2 0" } };
    static DtOnnx__Node relu, *nodes[2];
    static char *in[1], *out[1];
    DtOnnx__Model *m = onnx_model(&add);
    relu = (DtOnnx__Node)DT_ONNX__NODE__INIT;
    relu.op_type = "Relu";
    in[0] = "sum";
    out[0] = "y0";
    relu.input = in;
    relu.output = out;
    relu.n_input = relu.n_output = 1;
    nodes[0] = m->graph->node[0];
    nodes[0]->output[0] = "sum";
    nodes[1] = &relu;
    m->graph->node = nodes;
    m->graph->n_node = 2;
    return m;
}

static void refuses(const DtOnnx__Model *m, dt_status status, const char *says)
{
    dt__verify *v;
    write_model(m);
    TEST_FAILS(ctx, status, says, dt__verify_open(ctx, path, &limits, &v));
    ck_assert_ptr_null(v);
}

START_TEST(graphs_that_are_wrong)
{
    DtOnnx__Model *m = chain();
    m->graph->node[1]->input[0] = "nothing";
    refuses(m, DT_ERR_FORMAT, "(Relu): nothing before it makes its input 'nothing'");
    m = chain();
    m->graph->node[0]->input[0] = "y0";
    refuses(m, DT_ERR_FORMAT, "nothing before it makes its input 'y0'");
    m = chain();
    m->graph->node[1]->output[0] = "sum";
    refuses(m, DT_ERR_FORMAT, "the value 'sum' is made twice");
    m = chain();
    m->graph->output[0]->name = "z";
    refuses(m, DT_ERR_FORMAT, "nothing makes the output 'z'");
    m = chain();
    m->opset_import[0]->version = 20;
    refuses(m, DT_ERR_UNSUPPORTED, "version 20 of the operators of ai.onnx (opset_import)");
    m = chain();
    m->graph->initializer[0]->data_type = 8;
    refuses(m, DT_ERR_UNSUPPORTED, "the tensor 'x1' has the data type 8");
    m = chain();
    m->graph->initializer[0]->raw_data.len = 7;
    refuses(m, DT_ERR_FORMAT, "the tensor 'x1' has 2 elements by its shape");
    m = chain();
    m->graph->initializer[0]->data_location = 1;
    refuses(m, DT_ERR_UNSUPPORTED, "the tensor 'x1' is in another file");
}
END_TEST

START_TEST(inputs_and_outputs)
{
    static float data[3] = { 1, -2, 3 };
    dt__verify *v;
    dt__verify_named in[2] = { { "x0", { DT__VERIFY_F32, 1, { 2 }, 2, data } } };
    DtOnnx__Model *m = chain();
    write_model(m);
    TEST_OK(ctx, dt__verify_open(ctx, path, NULL, &v));
    ck_assert_int_eq(dt__verify_inputs(v), 1);
    ck_assert_str_eq(dt__verify_input_name(v, 0), "x0");
    ck_assert_int_eq(dt__verify_input_type(v, 0), DT__VERIFY_F32);
    ck_assert_str_eq(dt__verify_output_name(v, 0), "y0");
    for (int i = 0; i < 2; i++) { /* a graph runs again */
        TEST_OK(ctx, dt__verify_run(v, in, 1));
        const float *y = dt__verify_output(v, 0)->data;
        ck_assert(y[0] == 2 && y[1] == 0);
    }
    TEST_FAILS(ctx, DT_ERR_SHAPE, "its input 'x0' is missing", dt__verify_run(v, in, 0));
    in[1] = (dt__verify_named){ "x9", in[0].value };
    TEST_FAILS(ctx, DT_ERR_SHAPE, "it has no input 'x9'", dt__verify_run(v, in, 2));
    in[0].value.dims[0] = in[0].value.count = 3;
    TEST_FAILS(ctx, DT_ERR_SHAPE, "'x0' is [3]", dt__verify_run(v, in, 1));
    in[0].value.type = DT__VERIFY_I32;
    TEST_FAILS(ctx, DT_ERR_DTYPE, "'x0' is int32, but declared float", dt__verify_run(v, in, 1));
    dt__verify_close(v);
    m->graph->input[0]->type->tensor_type->shape->dim[0]->dim_value = 0;
    m->graph->input[0]->type->tensor_type->shape->dim[0]->dim_param = "batch";
    m->graph->output[0]->type->tensor_type->shape->dim[0]->dim_param = "batch";
    write_model(m);
    TEST_OK(ctx, dt__verify_open(ctx, path, NULL, &v));
    in[0].value = (dt__verify_value){ DT__VERIFY_F32, 1, { 1 }, 1, data };
    TEST_FAILS(ctx, DT_ERR_SHAPE, "'y0' is [2], but its declared shape", dt__verify_run(v, in, 1));
    dt__verify_close(v);
    TEST_FAILS(ctx, DT_ERR_IO, "cannot open", dt__verify_open(ctx, "/none.onnx", NULL, &v));
}
END_TEST

/* Elements written and read of a pool: 2 + 4; the steps are allowed, one less is not. */
START_TEST(work_is_limited)
{
    static const onnx_case pool = { .op = "GlobalAveragePool",
                                    .in = { "=f32 1 2 2: 1 2 3 5" },
                                    .out = { "f32 1 2 1: 1.5 4" } };
    write_model(onnx_model(&pool));
    for (int less = 0; less < 2; less++) {
        const dt__verify_limits few = { .bytes = 1 << 20, .work = 6 - less };
        dt__verify *v;
        TEST_OK(ctx, dt__verify_open(ctx, path, &few, &v));
        if (less == 0) TEST_OK(ctx, dt__verify_run(v, NULL, 0));
        else TEST_FAILS(ctx, DT_ERR_FORMAT, "5 steps of work", dt__verify_run(v, NULL, 0));
        dt__verify_close(v);
    }
}
END_TEST

/* ---- damaged files --------------------------------------------------------------------------- */

/* Reads and runs bytes as the case: OK, or an error of its own. */
static void survives(const onnx_case *c, const unsigned char *bytes, size_t n)
{
    dt__verify *v = NULL;
    test_write_file(path, bytes, n);
    const dt_status s = run_case(ctx, c, &v);
    dt__verify_close(v);
    TEST_EACH(s == DT_OK || s == DT_ERR_FORMAT || s == DT_ERR_UNSUPPORTED || s == DT_ERR_SHAPE ||
                  s == DT_ERR_DTYPE || (s == DT_ERR_NOMEM && v != NULL),
              "%s: %d: %s", c->op, s, dt_error(ctx));
    TEST_EACH(memory.bytes < (size_t)256 << 20, "%s: %zu bytes are kept", c->op, memory.bytes);
}

/* The file without its end. */
static void truncate_case(const onnx_case *c, const unsigned char *bytes, size_t n, size_t from)
{
    const size_t by = (size_t)test_count((test_draws){ .usual = 3, .quick = 7, .sanitized = 31 });
    for (size_t i = from % by; i < n; i += by) survives(c, bytes, i);
}

/* The file with one to three bytes changed. */
static void mutate_case(const onnx_case *c, const unsigned char *bytes, size_t n, uint64_t seed)
{
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    unsigned char *copy = malloc(n);
    const int64_t draws = test_count((test_draws){ .usual = 150, .quick = 60, .sanitized = 10 });
    for (int64_t i = 0; i < draws; i++) {
        memcpy(copy, bytes, n);
        for (uint64_t k = dt__random_below(&s, 3) + 1; k > 0; k--) {
            static const unsigned char ends[] = { 0, 1, 127, 128, 255 };
            const uint64_t at = dt__random_below(&s, n), kind = dt__random_below(&s, 10);
            copy[at] = kind < 5 ? ends[kind] : (unsigned char)dt__random_below(&s, 256);
        }
        survives(c, copy, n);
    }
    free(copy);
}

START_TEST(damages)
{
    for (size_t i = (size_t)_i; i < (size_t)onnx_case_count; i += PROCESSES) {
        size_t n;
        const unsigned char *bytes = onnx_pack(onnx_model(&onnx_cases[i]), &n);
        if (onnx_cases[i].fails == NULL) truncate_case(&onnx_cases[i], bytes, n, i);
        mutate_case(&onnx_cases[i], bytes, n, i);
        onnx_forget();
    }
}
END_TEST

static dt_status open_and_run(dt_ctx *own, void *user)
{
    dt__verify *v = NULL;
    (void)user;
    dt_status s = dt__verify_open(own, path, &limits, &v);
    if (s == DT_OK) s = dt__verify_run(v, NULL, 0);
    dt__verify_close(v);
    return s;
}

/* Nodes that are wrong, all inputs constant: they run, or end with an error of their own. */
START_TEST(wrong_nodes)
{
    const test_draws draws = { .usual = 1, .quick = 11, .sanitized = 41 };
    int64_t tried = 0;
    for (int i = _i; i < onnx_case_count; i += PROCESSES) {
        for (int64_t k = i % test_failures(draws);; k += test_failures(draws)) {
            const DtOnnx__Model *m = onnx_damaged(&onnx_cases[i], 0, k);
            if (m == NULL) break;
            write_model(m);
            const dt_status s = open_and_run(ctx, NULL);
            TEST_EACH(s == DT_OK || s == DT_ERR_FORMAT || s == DT_ERR_UNSUPPORTED ||
                          s == DT_ERR_SHAPE || s == DT_ERR_DTYPE,
                      "%s, change %lld: %d: %s", onnx_cases[i].op, (long long)k, s, dt_error(ctx));
            tried++;
            if (s == DT_OK) test_new_sites(open_and_run, NULL);
            onnx_forget();
        }
    }
    ck_assert_int_gt(tried, 10);
}
END_TEST

static dt_status run_whole(dt_ctx *own, void *user)
{
    dt__verify *v = NULL;
    const dt_status s = run_case(own, user, &v);
    dt__verify_close(v);
    return s;
}

START_TEST(memory_fails)
{
    const test_draws draws = { .usual = 1, .quick = 16, .sanitized = 48 };
    const int by = (int)test_failures(draws);
    for (int i = 0; i < onnx_case_count; i += by) {
        const onnx_case *c = &onnx_cases[i];
        if (c->fails != NULL) continue;
        write_model(onnx_model(c));
        test_every_allocation(run_whole, (void *)(uintptr_t)c);
        onnx_forget();
    }
}
END_TEST

static dt_status run_chain(dt_ctx *own, void *user)
{
    static float data[2] = { 1, -2 };
    const dt__verify_named in = { "x0", { DT__VERIFY_F32, 1, { 2 }, 2, data } };
    dt__verify *v;
    (void)user;
    dt_status s = dt__verify_open(own, path, NULL, &v);
    if (s == DT_OK) s = dt__verify_run(v, &in, 1);
    dt__verify_close(v);
    return s;
}

START_TEST(every_allocation)
{
    write_model(chain());
    ck_assert_int_gt(test_every_allocation(run_chain, NULL), 3);
}
END_TEST

Suite *test_verify_onnx_suite(void)
{
    Suite *s = suite_create("verify_onnx");
    TCase *c = tcase_create("verify_onnx");
    tcase_set_timeout(c, 300);
    tcase_add_checked_fixture(c, begin, end);
    tcase_add_loop_test(c, values, 0, PROCESSES);
    tcase_add_test(c, all_operators);
    tcase_add_test(c, graphs_that_are_wrong);
    tcase_add_test(c, inputs_and_outputs);
    tcase_add_test(c, work_is_limited);
    tcase_add_loop_test(c, damages, 0, PROCESSES);
    tcase_add_loop_test(c, wrong_nodes, 0, PROCESSES);
    tcase_add_test(c, memory_fails);
    tcase_add_test(c, every_allocation);
    suite_add_tcase(s, c);
    return s;
}
