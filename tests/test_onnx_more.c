/* Operators that the import of ONNX folds or expands, in graphs made here: the imported model
 * computes the same as the interpreter of ONNX. */
#include "testing.h"

#include "core/text/byte_order.h"
#include "core/core.h"
#include "onnx_damage.h"

#include <detent/experimental/export.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static test_memory memory;
static char folder[TEST_PATH], path[TEST_PATH], said[1024];

static void listen(void *user, const char *line)
{
    (void)user;
    const size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

static void begin(void)
{
    dt_ctx_options options = dt_ctx_defaults();
    test_begin();
    memory = (test_memory){ .live = 0 };
    options.allocator = test_allocator(&memory);
    options.log = listen;
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

static void write_model(const DtOnnx__Model *m)
{
    size_t n;
    const unsigned char *bytes = onnx_pack(m, &n);
    test_write_file(path, bytes, n);
}

/* Imports the graph, and compares model and file on random inputs. */
static void agrees(const DtOnnx__Model *m)
{
    dt_module *imported;
    dt_model_info info;
    dt_export_difference d[DT_MAX_OUT];
    int n;
    write_model(m);
    TEST_OK(ctx, dt_onnx_import(ctx, path, NULL, &imported, &info));
    TEST_OK(ctx, dt_export_verify(imported, &info, path, d, &n));
    ck_assert_int_eq(n, 1);
    ck_assert_msg(d[0].relative <= 1e-6, "they differ by %g", d[0].relative);
    dt_model_info_free(ctx, &info);
    dt_module_free(imported);
}

static void refuses(const DtOnnx__Model *m, const char *says)
{
    dt_module *imported;
    write_model(m);
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, says, dt_onnx_import(ctx, path, NULL, &imported, NULL));
}

/* A constant behind a product is the layer's bias, unless another node reads the product too. */
START_TEST(a_row_behind_a_product_is_its_bias)
{
    for (int readers = 1; readers <= 2; readers++) {
        DtOnnx__Model *m = onnx_start("f32 1 3: 0 0 0");
        dt_module *imported;
        dt_model_info info;
        onnx_weight(m, "w", "f32 4 3: 1 2 3 4 5 6 7 8 9 10 11 12");
        onnx_weight(m, "c", "f32 3: 1 2 3");
        onnx_node(m, "MatMul", NULL, "h w", "p");
        onnx_node(m, "Add", NULL, "p c", readers == 1 ? "y" : "s");
        if (readers == 2) onnx_node(m, "Mul", NULL, "s p", "y");
        agrees(m);
        TEST_OK(ctx, dt_onnx_import(ctx, path, NULL, &imported, &info));
        const dt_layers_options *o = info.options;
        ck_assert_int_eq(o->layers.n, readers == 1 ? 2 : 4); /* relu, linear; affine, mul */
        dt_model_info_free(ctx, &info);
        dt_module_free(imported);
    }
}
END_TEST

/* A constant [rows, columns] of drawn numbers, as bytes, which lie anywhere in the file. */
static void put_drawn(DtOnnx__Model *m, char *name, int64_t rows, int64_t columns, float *data)
{
    onnx_weight(m, name, "f32 1 1: 0");
    DtOnnx__Tensor *t = m->graph->initializer[m->graph->n_initializer - 1];
    for (int64_t i = 0; i < rows * columns; i++) data[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
    t->dims[0] = rows;
    t->dims[1] = columns;
    t->raw_data = (ProtobufCBinaryData){ (size_t)(rows * columns) * sizeof *data, (uint8_t *)data };
}

/* Large weights are read from the file (onnx_large.c): as they are, transposed, and read twice. */
START_TEST(weights_of_many_bytes)
{
    enum { WIDE = 5600 };
    static float turned[4 * WIDE], plain[3 * WIDE];
    for (int more = 0; more < 4; more++) { /* letters, which move the bytes */
        char name[2][8] = { "w", "v" };
        DtOnnx__Model *m = onnx_start("f32 1 3: 0 0 0");
        for (int i = 0; i < more; i++) strcat(name[0], "w");
        put_drawn(m, name[0], 4, WIDE, turned);
        put_drawn(m, name[1], 3, WIDE, plain);
        char in[16];
        snprintf(in, sizeof in, "h %s", name[0]);
        onnx_node(m, "MatMul", NULL, in, "p");
        onnx_node(m, "Gemm", "transB=1", "p v", "a");
        onnx_node(m, "Relu", NULL, "p", "r");
        onnx_node(m, "Gemm", "transB=1", "r v", "b");
        onnx_node(m, "Add", NULL, "a b", "y");
        agrees(m);
    }
}
END_TEST

/* A name of folders is the module's path; a part that would make it longer than 160 letters, and
 * what is behind it, is left out. The last part is the node's own. */
START_TEST(names_are_paths)
{
    char a[101], b[61], name[200], wanted[3][200];
    memset(a, 'a', 100);
    memset(b, 'b', 60);
    a[100] = b[60] = 0;
    snprintf(wanted[0], sizeof wanted[0], "block.fc.weight");
    snprintf(wanted[1], sizeof wanted[1], "%s.%s.weight", a, b + 1);
    snprintf(wanted[2], sizeof wanted[2], "%s.weight", a);
    for (int i = 0; i < 3; i++) {
        DtOnnx__Model *m = onnx_start("f32 1 3: 0 0 0");
        dt_module *imported;
        onnx_weight(m, "w", "f32 4 3: 1 2 3 4 5 6 7 8 9 10 11 12");
        onnx_node(m, "MatMul", NULL, "h w", "y");
        if (i == 0) snprintf(name, sizeof name, "/block/fc/MatMul");
        else snprintf(name, sizeof name, "/%s/%s/MatMul", a, i == 1 ? b + 1 : b);
        m->graph->node[1]->name = name;
        write_model(m);
        TEST_OK(ctx, dt_onnx_import(ctx, path, NULL, &imported, NULL));
        ck_assert_msg(dt_param(imported, wanted[i]) != NULL, "no %s", wanted[i]);
        dt_module_free(imported);
    }
}
END_TEST

/* C of Gemm is one row, with one dimension or two, or one number. */
START_TEST(rows_of_gemm)
{
    static const char *const rows[] = { "f32 3: 1 2 3", "f32 1 3: 1 2 3", "f32: 2" };
    for (int i = 0; i < 3; i++) {
        DtOnnx__Model *m = onnx_start("f32 1 3: 0 0 0");
        onnx_weight(m, "w", "f32 4 3: 1 2 3 4 5 6 7 8 9 10 11 12");
        onnx_weight(m, "c", rows[i]);
        onnx_node(m, "Gemm", "alpha=0.5f beta=2f", "h w c", "y");
        agrees(m);
    }
    DtOnnx__Model *m = onnx_start("f32 1 3: 0 0 0");
    onnx_weight(m, "w", "f32 4 3: 1 2 3 4 5 6 7 8 9 10 11 12");
    onnx_weight(m, "c", "f32 3 1: 1 2 3");
    onnx_node(m, "Gemm", NULL, "h w c", "y");
    refuses(m, "C must be a row of 3 numbers");
}
END_TEST

START_TEST(powers)
{
    static const char *const exponents[] = { "f32: 1",   "f32: 2",   "f32: 3",   "f32: 5",
                                             "i64: 16",  "f32: 0.5", "f32: 0.3", "f32: 0",
                                             "f32: 2.6", "f32: 1.25" };
    for (int i = 0; i < DT__COUNT_OF(exponents); i++) {
        DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
        onnx_weight(m, "n", exponents[i]);
        onnx_node(m, "Pow", NULL, "h n", "y");
        agrees(m);
    }
    DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
    onnx_weight(m, "n", "f32: 17");
    onnx_node(m, "Pow", NULL, "h n", "y");
    refuses(m, "its exponent is 17; expected -16 to 16");
    m = onnx_start("f32 1 4: 0 0 0 0");
    onnx_weight(m, "n", "i64: 2");
    onnx_weight(m, "w", "f32 4: 1 -2 3 0.5");
    onnx_node(m, "Pow", NULL, "w n", "squares"); /* of a constant */
    onnx_node(m, "Mul", NULL, "h squares", "y");
    agrees(m);
}
END_TEST

/* Two products with one matrix: two layers with a copy each, and a line that says so. */
START_TEST(shared_weights)
{
    DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
    said[0] = 0;
    onnx_weight(m, "w", "f32 4 4: 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7");
    onnx_node(m, "MatMul", NULL, "h w", "once");
    onnx_node(m, "MatMul", NULL, "once w", "y");
    agrees(m);
    ck_assert_msg(strstr(said, "'w' is read by 2 nodes") != NULL, "said: %s", said);
    said[0] = 0; /* once for all nodes, and whatever its name is */
    m = onnx_start("f32 1 4: 0 0 0 0");
    onnx_weight(m, "a/w:0", "f32 4 4: 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7");
    onnx_node(m, "MatMul", NULL, "h a/w:0", "once");
    onnx_node(m, "MatMul", NULL, "once a/w:0", "twice");
    onnx_node(m, "MatMul", NULL, "twice a/w:0", "y");
    agrees(m);
    const char *line = "'a/w:0' is read by 3 nodes", *first = strstr(said, line);
    ck_assert_msg(first != NULL && strstr(first + 1, line) == NULL, "said: %s", said);
}
END_TEST

/* As torch.Tensor.expand exports it: -1 in a shape means the extent that is there. */
START_TEST(where_of_shapes)
{
    DtOnnx__Model *m = onnx_start("f32 1 2 2: 0 0 0 0");
    onnx_weight(m, "given", "i64 3: -1 2 2");
    onnx_weight(m, "none", "i64: -1");
    onnx_weight(m, "whole", "i64 1: 4");
    onnx_node(m, "Shape", "end=1", "h", "batch");
    onnx_node(m, "Equal", NULL, "given none", "open");
    onnx_node(m, "Where", NULL, "open batch given", "shape");
    onnx_node(m, "Reshape", NULL, "h shape", "y");
    agrees(m);
    m = onnx_start("f32 1 4: 0 0 0 0");
    onnx_weight(m, "one", "i64: 1");
    onnx_node(m, "Shape", "end=1", "h", "batch");
    onnx_node(m, "Equal", NULL, "batch one", "is");
    onnx_node(m, "Where", NULL, "is one batch", "y");
    refuses(m, "Equal");
}
END_TEST

/* Constants that are joined in their second dimension. */
START_TEST(joined_constants)
{
    DtOnnx__Model *m = onnx_start("f32 1 3: 0 0 0");
    onnx_weight(m, "u", "f32 4 1: 1 2 3 4");
    onnx_weight(m, "v", "f32 4 2: 5 6 7 8 9 10 11 12");
    onnx_node(m, "Concat", "axis=1", "u v", "w");
    onnx_node(m, "MatMul", NULL, "h w", "y");
    agrees(m);
}
END_TEST

START_TEST(ranges)
{
    DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
    onnx_weight(m, "a", "f32: 0.5");
    onnx_weight(m, "b", "f32: 2.5");
    onnx_weight(m, "c", "f32: 0.5");
    onnx_node(m, "Range", NULL, "a b c", "r");
    onnx_node(m, "Add", NULL, "h r", "y");
    agrees(m);
    m = onnx_start("f32 1 2: 0 0");
    onnx_weight(m, "a", "i64: 2");
    onnx_weight(m, "b", "i64: -2");
    onnx_weight(m, "c", "i64: -2");
    onnx_weight(m, "w", "f32 4 3: 1 2 3 4 5 6 7 8 9 1 2 3");
    onnx_node(m, "Range", NULL, "a b c", "columns"); /* 2, 0 */
    onnx_node(m, "Gather", "axis=1", "w columns", "part");
    onnx_node(m, "MatMul", NULL, "h part", "y");
    agrees(m);
    m = onnx_start("f32 1 4: 0 0 0 0");
    onnx_weight(m, "a", "i64: 0");
    onnx_weight(m, "b", "i64: 1000000");
    onnx_weight(m, "c", "i64: 1");
    onnx_node(m, "Range", NULL, "a b c", "r");
    onnx_node(m, "Add", NULL, "h r", "y");
    refuses(m, "its result has more than 65536 elements");
}
END_TEST

/* Constants joined along their last dimension, and one number everywhere. */
START_TEST(joined_and_filled)
{
    DtOnnx__Model *m = onnx_start("f32 1 3: 0 0 0");
    onnx_weight(m, "a", "f32 4 1: 1 2 3 4");
    onnx_weight(m, "b", "f32 4 2: 5 6 7 8 9 10 11 12");
    onnx_weight(m, "three", "i64 1: 3");
    onnx_node(m, "Concat", "axis=1", "a b", "w");
    onnx_node(m, "MatMul", NULL, "h w", "product");
    onnx_node(m, "ConstantOfShape", "value={f32 1: 0.5}", "three", "c");
    onnx_node(m, "Add", NULL, "product c", "y");
    agrees(m);
}
END_TEST

/* The batch as the second dimension of a reshape, whose extents before it must stay. */
START_TEST(a_batch_may_be_second)
{
    static const char *const shapes[] = { "i64 3: 4 -1 1", "i64 3: 0 -1 1", "i64 3: 2 -1 2" };
    for (int i = 0; i < 3; i++) {
        DtOnnx__Model *m = onnx_start("f32 1 4 1: 0 0 0 0");
        onnx_weight(m, "shape", shapes[i]);
        onnx_node(m, "Transpose", "perm=[1,0]", "h", "turned");
        onnx_node(m, "Reshape", NULL, "turned shape", "longer");
        onnx_node(m, "Transpose", "perm=[1,0,2]", "longer", "y");
        if (i < 2) agrees(m);
        else refuses(m, "the new shape does not fit examples of 4 elements, of which 4 are before");
    }
}
END_TEST

/* ---- loops ----------------------------------------------------------------------------------- */

/* A model that begins as onnx_start with constants that a loop reads. */
static DtOnnx__Model *start_loop(const char *out, const char *turns, const char *yes)
{
    DtOnnx__Model *m = onnx_start(out);
    onnx_weight(m, "turns", turns);
    onnx_weight(m, "yes", yes);
    onnx_weight(m, "last", "i64: 1");
    onnx_weight(m, "rows", "f32 3 4: 1 -2 3 4 0.5 1 -1 2 3 -1 -2 1");
    onnx_weight(m, "w", "f32 4 4: 0.1 0.2 -0.3 0.4 0.5 -0.6 0.7 0.8 -0.9 1 1.1 0.2 0.3 0.4 0 1");
    return m;
}

/* Compares the model of a file that has a loop with one whose nodes are those of all turns. */
static void agrees_with(const DtOnnx__Model *looped, const DtOnnx__Model *spelled)
{
    dt_module *imported;
    dt_model_info info;
    dt_export_difference d[DT_MAX_OUT];
    int n;
    write_model(looped);
    TEST_OK(ctx, dt_onnx_import(ctx, path, NULL, &imported, &info));
    write_model(spelled);
    TEST_OK(ctx, dt_export_verify(imported, &info, path, d, &n));
    ck_assert_int_eq(n, 1);
    ck_assert_msg(d[0].relative <= 1e-6, "they differ by %g", d[0].relative);
    dt_model_info_free(ctx, &info);
    dt_module_free(imported);
}

START_TEST(a_loop_of_states)
{
    DtOnnx__Model *m = start_loop("f32 1 4: 0 0 0 0", "i64: 3", "bool: 1");
    DtOnnx__Model *s = start_loop("f32 1 4: 0 0 0 0", "i64: 3", "bool: 1");
    const char *state = "h";
    char name[2][16], index[8];
    onnx_node(m, "Loop",
              "body=(i c s > d t | d=Identity c | p=MatMul s w | q=Tanh p | a=Gather rows i "
              "| t=Add q a)",
              "turns yes h", "y");
    for (int i = 0; i < 3; i++) {
        char value[16], in[32];
        snprintf(index, sizeof index, "i%d", i);
        snprintf(value, sizeof value, "i64: %d", i);
        onnx_weight(s, index, value);
        snprintf(name[0], sizeof name[0], "p%d", i);
        snprintf(name[1], sizeof name[1], "q%d", i);
        snprintf(in, sizeof in, "%s w", state);
        onnx_node(s, "MatMul", NULL, in, name[0]);
        onnx_node(s, "Tanh", NULL, name[0], name[1]);
        snprintf(in, sizeof in, "rows i%d", i);
        snprintf(name[0], sizeof name[0], "a%d", i);
        onnx_node(s, "Gather", NULL, in, name[0]);
        snprintf(in, sizeof in, "%s %s", name[1], name[0]);
        state = i == 0 ? "s0" : i == 1 ? "s1" : "y";
        onnx_node(s, "Add", NULL, in, state);
    }
    said[0] = 0;
    agrees_with(m, s);
    ck_assert_msg(strstr(said, "the 3 turns of the loop") != NULL, "said: %s", said);
}
END_TEST

START_TEST(a_loop_of_results)
{
    DtOnnx__Model *m = start_loop("f32 1 3 4: 0 0 0 0 0 0 0 0 0 0 0 0", "i64: 3", "bool: 1");
    DtOnnx__Model *s = start_loop("f32 1 3 4: 0 0 0 0 0 0 0 0 0 0 0 0", "i64: 3", "bool: 1");
    onnx_node(m, "Loop", "body=(i c > d r | d=Identity c | a=Gather rows i | r=Mul h a)",
              "turns yes", "stacked");
    onnx_node(m, "Transpose", "perm=[1,0,2]", "stacked", "y");
    onnx_weight(s, "one", "i64 1: 1");
    onnx_node(s, "Unsqueeze", NULL, "h one", "wide");
    onnx_node(s, "Mul", NULL, "wide rows", "y");
    agrees_with(m, s);
}
END_TEST

START_TEST(loops_that_are_refused)
{
    static const struct {
        const char *turns, *yes, *body, *says;
    } bad[] = {
        { "i64: 3", "bool: 0", "body=(i c s > d t | d=Identity c | t=Tanh s)", "before its last" },
        { "i64: 3", "bool: 1", "body=(i c s > d t | d=Less i last | t=Tanh s)", "before its last" },
        { "i64: 0", "bool: 1", "body=(i c s > d t | d=Identity c | t=Tanh s)", "from 1 to 1024" },
        { "i64: 1025", "bool: 1", "body=(i c s > d t | d=Identity c | t=Tanh s)", "1 to 1024" },
        { "f32: 3", "bool: 1", "body=(i c s > d t | d=Identity c | t=Tanh s)", "from 1 to 1024" },
        { "i64: 3", "bool: 1", "body=(i c > d t | d=Identity c | t=Tanh h)", "from 1 to 1024" },
        { "i64: 3", "bool: 1", "body=(i c s > d | d=Identity c | t=Tanh s)", "from 1 to 1024" },
        { "i64: 3", "bool: 1", "axis=1", "from 1 to 1024" },
        { "i64: 3", "bool: 1", "body=(i c s > d t | d=Identity c | t=Odd s)", "is not known" },
        { "i64: 3", "bool: 1", "body=(i c s > d t | d=Identity c | t=Add s u)", "nowhere made" },
        { "i64: 3", "bool: 1", "body=(i c s > d t | d=Equal s s | t=Tanh s)", "from the inputs" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        DtOnnx__Model *m = start_loop("f32 1 4: 0 0 0 0", bad[i].turns, bad[i].yes);
        onnx_node(m, "Loop", bad[i].body, "turns yes h", "y");
        refuses(m, bad[i].says);
    }
}
END_TEST

START_TEST(large_broadcasts)
{
    DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
    onnx_weight(m, "one", "f32: 1");
    onnx_weight(m, "rows", "i64 2: 60000 1");
    onnx_weight(m, "columns", "i64 2: 1 60000");
    onnx_node(m, "Expand", NULL, "one rows", "a");
    onnx_node(m, "Expand", NULL, "one columns", "b");
    onnx_node(m, "Add", NULL, "a b", "c");
    onnx_node(m, "Add", NULL, "h c", "y");
    refuses(m, "its result has more than 65536 elements");
}
END_TEST

/* Makes x1 of the sum a tensor in another file. */
static DtOnnx__Model *outside(const char *location, const char *offset, const char *length)
{
    static DtOnnx__Property property[3], *properties[3];
    const char *const keys[] = { "location", "offset", "length" };
    const char *const values[] = { location, offset, length };
    DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
    onnx_weight(m, "w", "f32 4: 1 2 3 4");
    onnx_node(m, "Add", NULL, "h w", "y");
    DtOnnx__Tensor *w = m->graph->initializer[0];
    w->n_external_data = 0;
    w->external_data = properties;
    for (int i = 0; i < 3; i++) {
        property[i] = (DtOnnx__Property)DT_ONNX__PROPERTY__INIT;
        property[i].key = (char *)(uintptr_t)keys[i];
        property[i].value = (char *)(uintptr_t)values[i];
        if (values[i] != NULL) properties[w->n_external_data++] = &property[i];
    }
    w->raw_data.len = 0;
    w->data_location = 1;
    return m;
}

/* Unknown keys are refused, since they may move the data. */
START_TEST(keys_of_data_in_other_files)
{
    static char *const keys[] = { "basepath", "Offset", "prepacked", "sha1", "" };
    static const float values[4] = { 1, 2, 3, 4 };
    char file[TEST_PATH];
    dt_module *imported;
    DtOnnx__Model *m;
    test_join(file, folder, "keys.bin");
    test_write_file(file, values, sizeof values);
    for (int i = 0; i < 6; i++) {
        m = outside("keys.bin", "0", "16");
        DtOnnx__Tensor *w = m->graph->initializer[0];
        w->external_data[i % 3 == 0 ? 1 : 2]->key = i < 5 ? keys[i] : "checksum";
        if (i < 5) {
            refuses(m, "of its data in another file is not supported");
            continue;
        }
        w->external_data[2]->value = "da39a3ee5e6b4b0d3255bfef95601890afd80709";
        write_model(m);
        TEST_OK(ctx, dt_onnx_import(ctx, path, NULL, &imported, NULL));
        dt_module_free(imported);
    }
}
END_TEST

START_TEST(data_in_other_files)
{
    static const float values[] = { 9, 1, 2, 3, 4 };
    uint8_t data[sizeof values];
    for (int i = 0; i < 5; i++) dt__copy_little(data + 4 * i, &values[i], sizeof values[i]);
    char file[TEST_PATH];
    dt_module *imported, *plain;
    dt_model_info info;
    dt_export_difference d[DT_MAX_OUT];
    int n;
    test_join(file, folder, "weights.bin");
    test_write_file(file, data, sizeof data);
    write_model(outside("weights.bin", "4", "16"));
    TEST_OK(ctx, dt_onnx_import(ctx, path, NULL, &imported, &info));
    DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0"); /* the same in one file */
    onnx_weight(m, "w", "f32 4: 1 2 3 4");
    onnx_node(m, "Add", NULL, "h w", "y");
    write_model(m);
    TEST_OK(ctx, dt_export_verify(imported, &info, path, d, &n));
    ck_assert_int_eq(d[0].equal, d[0].values);
    dt_model_info_free(ctx, &info);
    dt_module_free(imported);
    write_model(outside("weights.bin", NULL, NULL));
    TEST_OK(ctx, dt_onnx_import(ctx, path, NULL, &plain, NULL));
    dt_module_free(plain);
    write_model(outside("weights.bin", "8", NULL));
    TEST_FAILS(ctx, DT_ERR_FORMAT, "'w' expects 16 bytes from 8 on, but",
               dt_onnx_import(ctx, path, NULL, &plain, NULL));
    write_model(outside("weights.bin", "8", "12"));
    TEST_FAILS(ctx, DT_ERR_FORMAT, "'w' has 16 bytes by its shape, but data of 12",
               dt_onnx_import(ctx, path, NULL, &plain, NULL));
    write_model(outside("weights.bin", "-4", NULL));
    TEST_FAILS(ctx, DT_ERR_FORMAT, "'offset' of its data is not a number",
               dt_onnx_import(ctx, path, NULL, &plain, NULL));
    write_model(outside("nothing.bin", NULL, NULL));
    TEST_FAILS(ctx, DT_ERR_IO, "nothing.bin: cannot open",
               dt_onnx_import(ctx, path, NULL, &plain, NULL));
    refuses(outside("../weights.bin", NULL, NULL), "outside of the model's folder");
    refuses(outside("/etc/passwd", NULL, NULL), "outside of the model's folder");
    refuses(outside("a/..", NULL, NULL), "outside of the model's folder");
}
END_TEST

/* ---- one node of any kind -------------------------------------------------------------------- */

/* The node with constants alone stands beside another one, which makes the output. */
static void beside(DtOnnx__Model *m)
{
    const DtOnnx__Graph *other = onnx_start("f32 1 4: 0 0 0 0")->graph;
    other->input[0]->name = "input";
    m->graph->input[m->graph->n_input++] = other->input[0];
    m->graph->output[0] = other->output[0];
    m->graph->n_output = 1;
    onnx_node(m, "Relu", NULL, "input", "y");
}

/* Dimension 0 of its input is the batch. */
static void open_batch(DtOnnx__Model *m)
{
    if (m->graph->n_input == 0) {
        beside(m);
        return;
    }
    const DtOnnx__Shape *shape = m->graph->input[0]->type->tensor_type->shape;
    if (shape->n_dim == 0) return;
    shape->dim[0]->dim_value = 0;
    shape->dim[0]->dim_param = "batch";
}

static dt_status import_one(dt_ctx *own, void *user)
{
    dt_module *m;
    dt_model_info info;
    (void)user;
    DT__TRY(dt_onnx_import(own, path, NULL, &m, &info));
    dt_model_info_free(own, &info);
    dt_module_free(m);
    return DT_OK;
}

/* A pool whose attributes are drawn; the text of them. */
static DtOnnx__Model *drawn_pool(uint64_t *state, char attributes[200])
{
    static const int least[] = { 4, 4, 2, 2, 1, 1, 0, 0, 0, 0, 0 };
    static const int most[] = { 9, 9, 3, 3, 3, 3, 2, 2, 2, 2, 12 };
    int v[11]; /* rows, columns; kernel, stride; pads before and after; the kind */
    for (int k = 0; k < 11; k++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        v[k] = least[k] + (int)((*state >> 33) % (uint64_t)most[k]);
    }
    char x[512], pads[64];
    int at = snprintf(x, sizeof x, "f32 1 1 %d %d:", v[0], v[1]);
    for (int k = 0; k < v[0] * v[1]; k++) at += snprintf(x + at, sizeof x - (size_t)at, " 0");
    snprintf(pads, sizeof pads, "pads=[%d,%d,%d,%d]", v[6], v[7], v[8], v[9]);
    snprintf(attributes, 200, "kernel_shape=[%d,%d] strides=[%d,%d] %s%s", v[2], v[3], v[4], v[5],
             v[10] >= 6  ? pads
             : v[10] < 3 ? "auto_pad=SAME_UPPER"
                         : "auto_pad=SAME_LOWER",
             v[10] % 4 == 1 ? " count_include_pad=1" : "");
    const onnx_case relu = { .op = "Relu", .in = { x }, .out = { "f32 1 1 1 1: 0" } };
    DtOnnx__Model *m = onnx_model(&relu);
    m->graph->node[0]->output[0] = "h";
    onnx_node(m, v[10] % 2 == 0 ? "MaxPool" : "AveragePool", attributes, "h", "y");
    open_batch(m);
    const DtOnnx__Shape *y = m->graph->output[0]->type->tensor_type->shape;
    for (size_t d = 0; d < y->n_dim; d++) {
        y->dim[d]->dim_value = 0;
        y->dim[d]->dim_param = (char *[]){ "batch", "channels", "rows", "columns" }[d];
    }
    return m;
}

/* Pools whose windows onnxruntime computes otherwise than the specification says. */
START_TEST(pools_that_runtimes_compute_otherwise)
{
    static const char *const ops[] = { "MaxPool", "AveragePool" };
    int refused = 0, read = 0;
    for (int i = 0; i < 120; i++) {
        char x[512], attributes[160];
        const int n = 4 + rand() % 9, kernel = 1 + rand() % 4, stride = 1 + rand() % 4;
        const int dilation = 1 + rand() % 2;
        const bool upper = rand() % 2;
        int at = snprintf(x, sizeof x, "f32 1 1 %d %d:", n, n);
        for (int k = 0; k < n * n; k++) at += snprintf(x + at, sizeof x - (size_t)at, " 0");
        snprintf(attributes, sizeof attributes,
                 "kernel_shape=[%d,%d] strides=[%d,%d] dilations=[%d,%d] auto_pad=SAME_%s", kernel,
                 kernel, stride, stride, dilation, dilation, upper ? "UPPER" : "LOWER");
        const int windows = (n + stride - 1) / stride, pads = (windows - 1) * stride + kernel - n;
        const bool other = (dilation > 1 && kernel > 1) || pads < (upper ? -1 : -2);
        const onnx_case relu = { .op = "Relu", .in = { x }, .out = { "f32 1 1 1 1: 0" } };
        DtOnnx__Model *m = onnx_model(&relu);
        m->graph->node[0]->output[0] = "h";
        if (i % 2 == 1 && dilation > 1) m->opset_import[0]->version = 19;
        onnx_node(m, ops[i % 2], attributes, "h", "y");
        open_batch(m);
        const DtOnnx__Shape *y = m->graph->output[0]->type->tensor_type->shape;
        for (size_t d = 0; d < y->n_dim; d++) {
            y->dim[d]->dim_value = 0;
            y->dim[d]->dim_param = (char *[]){ "batch", "channels", "rows", "columns" }[d];
        }
        write_model(m);
        const bool is_read = import_one(ctx, NULL) == DT_OK;
        const bool named = strstr(dt_error(ctx), "onnxruntime computes other windows") != NULL;
        ck_assert_msg(other ? !is_read && (named || i % 2 == 1) : is_read || !named, "%d: %s: %s",
                      n, attributes, dt_error(ctx));
        is_read ? read++ : refused++;
        onnx_forget();
    }
    ck_assert(read > 10 && refused > 10);
}
END_TEST

/* SAME of pools, and pads of two sizes, also where a mean does not count its padding. */
START_TEST(pools_with_padding)
{
    const test_draws draws = { .usual = 400, .quick = 120, .sanitized = 30 };
    uint64_t state = 7;
    int64_t means = 0;
    for (int64_t i = 0; i < test_count(draws); i++) {
        char attributes[200];
        const DtOnnx__Model *m = drawn_pool(&state, attributes);
        const bool mean = strcmp(m->graph->node[1]->op_type, "AveragePool") == 0;
        write_model(m);
        ck_assert_msg(import_one(ctx, NULL) == DT_OK, "%s: %s", attributes, dt_error(ctx));
        means += mean && strstr(attributes, "SAME") != NULL;
        agrees(m);
        onnx_forget();
    }
    ck_assert_int_gt(means, 0);
}
END_TEST

enum { PROCESSES = 8 };

/* Cases of the interpreter with one thing changed, all inputs constant or all but the first: they
 * are imported, or refused with a message. */
START_TEST(wrong_nodes)
{
    const test_draws draws = { .usual = 1, .quick = 11, .sanitized = 41 };
    int64_t tried = 0, good = 0;
    for (int i = _i; i < onnx_case_count; i += PROCESSES) {
        for (int constant = 0; constant < 2; constant++) {
            for (int64_t k = i % test_failures(draws);; k += test_failures(draws)) {
                DtOnnx__Model *m = onnx_damaged(&onnx_cases[i], constant, k);
                if (m == NULL) break;
                open_batch(m);
                write_model(m);
                const dt_status s = import_one(ctx, NULL);
                TEST_EACH(
                    s == DT_OK || s == DT_ERR_FORMAT || s == DT_ERR_UNSUPPORTED || s == DT_ERR_ARG,
                    "%s, change %lld: %d: %s", onnx_cases[i].op, (long long)k, s, dt_error(ctx));
                tried++;
                good += s == DT_OK;
                if (s == DT_OK) test_new_sites(import_one, NULL);
                onnx_forget();
            }
        }
    }
    ck_assert_int_gt(tried, 10);
    printf("onnx_more: %lld of %lld changed nodes are imported\n", (long long)good,
           (long long)tried);
}
END_TEST

START_TEST(memory_fails)
{
    const test_draws draws = { .usual = 1, .quick = 16, .sanitized = 48 };
    for (int i = 0; i < onnx_case_count; i += (int)test_failures(draws)) {
        for (int constant = 0; constant < 2; constant++) {
            DtOnnx__Model *m = onnx_damaged(&onnx_cases[i], constant, -1);
            open_batch(m);
            write_model(m);
            if (import_one(ctx, NULL) == DT_OK) test_every_allocation(import_one, NULL);
            onnx_forget();
        }
    }
}
END_TEST

Suite *test_onnx_more_suite(void)
{
    Suite *s = suite_create("onnx_more");
    TCase *c = tcase_create("onnx_more");
    tcase_add_checked_fixture(c, begin, end);
    tcase_set_timeout(c, 600);
    tcase_add_loop_test(c, wrong_nodes, 0, PROCESSES);
    tcase_add_test(c, memory_fails);
    tcase_add_test(c, a_row_behind_a_product_is_its_bias);
    tcase_add_test(c, weights_of_many_bytes);
    tcase_add_test(c, names_are_paths);
    tcase_add_test(c, rows_of_gemm);
    tcase_add_test(c, powers);
    tcase_add_test(c, shared_weights);
    tcase_add_test(c, where_of_shapes);
    tcase_add_test(c, joined_constants);
    tcase_add_test(c, ranges);
    tcase_add_test(c, joined_and_filled);
    tcase_add_test(c, a_batch_may_be_second);
    tcase_add_test(c, large_broadcasts);
    tcase_add_test(c, a_loop_of_states);
    tcase_add_test(c, a_loop_of_results);
    tcase_add_test(c, loops_that_are_refused);
    tcase_add_test(c, pools_with_padding);
    tcase_add_test(c, pools_that_runtimes_compute_otherwise);
    tcase_add_test(c, data_in_other_files);
    tcase_add_test(c, keys_of_data_in_other_files);
    suite_add_tcase(s, c);
    return s;
}
