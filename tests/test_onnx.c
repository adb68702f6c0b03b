/* ONNX files: those of tests/onnx (see make.py there) agree with onnxruntime, train quantized and
 * convert; damaged and hostile ones are refused. */
#include "testing.h"

#include "core/core.h"
#include "core/text/json.h"
#include "io/onnx.pb-c.h"
#include "io/onnx/onnx.h"
#include "nn/module.h"

#include <detent/experimental/io.h>
#include <detent/experimental/layers.h>
#include <detent/optim.h>
#include <detent/qat.h>

#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static test_memory memory;

static void begin(void)
{
    dt_ctx_options options = dt_ctx_defaults();
    test_begin();
    memory = (test_memory){ .live = 0 };
    options.allocator = test_allocator(&memory);
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
}

static void end(void)
{
    dt_ctx_free(ctx); /* nothing else is alive, so it frees all */
    ck_assert_int_eq(memory.live, 0);
    test_end();
}

/* ---- good files ------------------------------------------------------------------------------ */

static const char *const files[] = { "cnn",   "folded", "fixed", "tokens", "recurrent", "up",
                                     "keras", "old",    "two",   "cells",  "dynamic" };
#define FLOATS (DT__COUNT_OF(files) - 1) /* the last is quantized already */

static void path_of(char path[TEST_PATH], const char *name, const char *suffix)
{
    char file[64];
    snprintf(file, sizeof file, "%s%s", name, suffix);
    test_join(path, DETENT_SOURCE_DIR "/tests/onnx", file);
}

static void assert_agrees(dt_module *m, const char *name)
{
    char onnx[TEST_PATH], values[TEST_PATH];
    dt_onnx_differences d;
    path_of(onnx, name, ".onnx");
    path_of(values, name, ".safetensors");
    TEST_OK(ctx, dt_onnx_verify(m, onnx, values, NULL, &d));
    ck_assert_int_eq(d.n, strcmp(name, "keras") == 0 ? 2 : 1);
    for (int i = 0; i < d.n; i++) {
        ck_assert_msg(d.output[i].relative <= 1e-5, "%s: %s differs by %g", name,
                      d.output[i].output, d.output[i].relative);
    }
}

/* The model computes the same as onnxruntime, also after it is saved and loaded. */
START_TEST(agree_with_onnxruntime)
{
    char path[TEST_PATH], folder[TEST_PATH], saved[TEST_PATH];
    const char *name = files[_i];
    dt_module *m;
    dt_model_info info;
    path_of(path, name, ".onnx");
    test_folder(folder);
    test_join(saved, folder, "model.safetensors");
    TEST_OK(ctx, dt_onnx_import(ctx, path, NULL, &m, &info));
    assert_agrees(m, name);
    TEST_OK(ctx, dt_model_save(m, &info, saved));
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    TEST_OK(ctx, dt_model_load(ctx, saved, &m, &info));
    ck_assert_str_eq(info.family->name, "layers");
    assert_agrees(m, name);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
}
END_TEST

static dt_tensor *first_input(const dt_layers_options *o)
{
    int64_t dims[DT_MAX_RANK] = { 4 };
    dt_tensor *x;
    const dt_ints *shape = &o->input.shape[0];
    for (int i = 0; i < shape->n; i++) dims[1 + i] = shape->v[i];
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, shape->n + 1, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    return x;
}

/* The mean square of the first output; with a gradient it is trained. */
static double step(dt_module *m, dt_tensor *x, dt_optimizer *o)
{
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, o == NULL);
    dt_tensor *loss = dt_mean(t, dt_square(t, dt_forward(t, m, x)), NULL);
    TEST_OK(ctx, dt_tape_status(t));
    const double value = (double)*(const float *)dt_data(loss);
    if (o != NULL) {
        TEST_OK(ctx, dt_backward(t, loss, NULL));
        TEST_OK(ctx, dt_optimizer_step(o, t, 1e-3));
        dt_zero_grad(m);
    }
    dt_tape_free(t);
    return value;
}

/* Imported networks are as any other: they learn with QAT, and convert to the same results. */
START_TEST(train_and_convert)
{
    char path[TEST_PATH];
    dt_module *m;
    dt_model_info info;
    dt_optimizer *o;
    dt_qat_options qat = dt_qat_defaults();
    path_of(path, files[_i], ".onnx");
    TEST_OK(ctx, dt_onnx_import(ctx, path, NULL, &m, &info));
    if (((const dt_layers_options *)info.options)->input.n > 1 ||
        ((const dt_layers_options *)info.options)->output.n > 1) {
        dt_model_info_free(ctx, &info);
        dt_module_free(m);
        return;
    }
    dt_tensor *x = first_input(info.options);
    qat.preset = DT_INT8_DYNAMIC_INT8_WEIGHT;
    TEST_OK(ctx, dt_prepare(m, &qat));
    ck_assert(dt_is_prepared(m));
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    dt_train(m, true);
    for (int i = 0; i < 4; i++) step(m, x, o);
    dt_optimizer_free(o);
    dt_train(m, false);
    const double prepared = step(m, x, NULL);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    ck_assert(dt_is_converted(m));
    const double converted = step(m, x, NULL);
    ck_assert_double_eq(prepared, converted);
    dt_tensor_free(x);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
}
END_TEST

/* ---- files that are refused ------------------------------------------------------------------ */

/* A graph in the making. Messages are packed by protobuf-c, and nothing is freed before the end. */
typedef struct draft {
    DtOnnx__Node node[8];
    DtOnnx__Node *nodes[8];
    char *name[8][4];
    DtOnnx__Dimension dim[4];
    DtOnnx__Dimension *dims[4];
    DtOnnx__Shape shape;
    DtOnnx__TensorType tensor;
    DtOnnx__Type type;
    DtOnnx__ValueInfo in, out;
    DtOnnx__ValueInfo *ins[1], *outs[1];
    DtOnnx__Tensor weight;
    DtOnnx__Tensor *weights[1];
    int64_t extent[8];
    DtOnnx__OperatorSet opset;
    DtOnnx__OperatorSet *opsets[1];
    DtOnnx__Graph graph;
    DtOnnx__Model model;
} draft;

/* A model without nodes: input x [n, 2, 3, 3], output y. */
static void draft_begin(draft *d)
{
    *d = (draft){ .shape = DT_ONNX__SHAPE__INIT,
                  .tensor = DT_ONNX__TENSOR_TYPE__INIT,
                  .type = DT_ONNX__TYPE__INIT,
                  .in = DT_ONNX__VALUE_INFO__INIT,
                  .out = DT_ONNX__VALUE_INFO__INIT,
                  .weight = DT_ONNX__TENSOR__INIT,
                  .opset = DT_ONNX__OPERATOR_SET__INIT,
                  .graph = DT_ONNX__GRAPH__INIT,
                  .model = DT_ONNX__MODEL__INIT };
    for (int i = 0; i < 4; i++) {
        d->dim[i] = (DtOnnx__Dimension)DT_ONNX__DIMENSION__INIT;
        d->dim[i].dim_value = i == 0 ? 0 : i == 1 ? 2 : 3;
        d->dims[i] = &d->dim[i];
    }
    d->shape.n_dim = 4;
    d->shape.dim = d->dims;
    d->tensor.elem_type = 1;
    d->tensor.shape = &d->shape;
    d->type.tensor_type = &d->tensor;
    d->in.name = "x";
    d->in.type = &d->type;
    d->out.name = "y";
    d->ins[0] = &d->in;
    d->outs[0] = &d->out;
    d->graph.n_input = d->graph.n_output = 1;
    d->graph.input = d->ins;
    d->graph.output = d->outs;
    d->graph.node = d->nodes;
    d->opset.version = 17;
    d->opsets[0] = &d->opset;
    d->model.n_opset_import = 1;
    d->model.opset_import = d->opsets;
    d->model.graph = &d->graph;
}

static void draft_node(draft *d, const char *kind, char *a, char *b, char *y)
{
    const size_t i = d->graph.n_node++;
    d->node[i] = (DtOnnx__Node)DT_ONNX__NODE__INIT;
    d->name[i][0] = a;
    d->name[i][1] = b;
    d->name[i][2] = y;
    d->node[i].op_type = (char *)(uintptr_t)kind;
    d->node[i].n_input = b == NULL ? 1 : 2;
    d->node[i].input = d->name[i];
    d->node[i].n_output = 1;
    d->node[i].output = &d->name[i][2];
    d->nodes[i] = &d->node[i];
}

/* A weight w of float zeros; `bytes` of data. */
static void draft_weight(draft *d, int rank, const int64_t *dims, size_t bytes)
{
    static uint8_t zeros[4096];
    d->weight.name = "w";
    d->weight.data_type = 1;
    d->weight.n_dims = (size_t)rank;
    d->weight.dims = d->extent;
    for (int i = 0; i < rank; i++) d->extent[i] = dims[i];
    d->weight.raw_data = (ProtobufCBinaryData){ bytes, zeros };
    d->weights[0] = &d->weight;
    d->graph.n_initializer = 1;
    d->graph.initializer = d->weights;
}

/* Imports it and expects this status, and this in the message. */
static void refuses(const draft *d, dt_status status, const char *says)
{
    char folder[TEST_PATH], path[TEST_PATH];
    dt_module *m;
    dt_model_info info;
    const size_t n = dt_onnx__model__get_packed_size(&d->model);
    uint8_t *bytes = malloc(n + 1);
    dt_onnx__model__pack(&d->model, bytes);
    test_folder(folder);
    test_join(path, folder, "model.onnx");
    test_write_file(path, bytes, n);
    free(bytes);
    const dt_status is = dt_onnx_import(ctx, path, NULL, &m, &info);
    ck_assert_msg(is == status, "%d: %s", is, dt_error(ctx));
    if (is == DT_OK) dt_model_info_free(ctx, &info);
    else ck_assert_msg(strstr(dt_error(ctx), says) != NULL, "%s", dt_error(ctx));
    dt_module_free(m);
}

/* Without a change the drafts are accepted, so each change is the cause of its error. */
START_TEST(draft_is_good)
{
    draft d;
    draft_begin(&d);
    draft_node(&d, "Conv", "x", "w", "c");
    draft_node(&d, "Relu", "c", NULL, "y");
    draft_weight(&d, 4, (const int64_t[]){ 4, 2, 3, 3 }, 4 * 72);
    refuses(&d, DT_OK, "");
}
END_TEST

START_TEST(unknown_nodes_at_once)
{
    draft d;
    draft_begin(&d);
    draft_node(&d, "NonZero", "x", NULL, "a");
    draft_node(&d, "Relu", "a", NULL, "b");
    draft_node(&d, "Loop", "b", NULL, "y");
    d.node[0].name = "first";
    d.node[2].name = "second";
    refuses(&d, DT_ERR_UNSUPPORTED,
            "2 nodes cannot be read: NonZero 'first': the operator is not known; Loop 'second'");
    d.node[1].domain = "com.microsoft";
    refuses(&d, DT_ERR_UNSUPPORTED, "Relu 'b': an operator outside of the standard");
}
END_TEST

START_TEST(graphs_that_do_not_hang_together)
{
    draft d;
    draft_begin(&d);
    draft_node(&d, "Relu", "b", NULL, "a"); /* a cycle */
    draft_node(&d, "Relu", "a", NULL, "b");
    draft_node(&d, "Add", "x", "a", "y");
    refuses(&d, DT_ERR_UNSUPPORTED, "'b' is made by a later node");
    draft_begin(&d);
    draft_node(&d, "Relu", "y", NULL, "y");
    refuses(&d, DT_ERR_UNSUPPORTED, "'y' is made by a later node");
    draft_begin(&d);
    draft_node(&d, "Conv", "x", "w", "y");
    refuses(&d, DT_ERR_UNSUPPORTED, "its input 1 'w' is nowhere made");
    draft_begin(&d);
    draft_node(&d, "Relu", "x", NULL, "a");
    refuses(&d, DT_ERR_UNSUPPORTED, "the output 'y' is not computed");
    draft_node(&d, "Relu", "x", NULL, "a");
    refuses(&d, DT_ERR_FORMAT, "two values have the name 'a'");
    draft_begin(&d);
    draft_node(&d, "Relu", "x", NULL, "x");
    refuses(&d, DT_ERR_FORMAT, "two values have the name 'x'");
    draft_begin(&d);
    refuses(&d, DT_ERR_FORMAT, "no nodes");
    draft_node(&d, "Relu", "x", NULL, "y");
    d.node[0].n_input = 0;
    refuses(&d, DT_ERR_UNSUPPORTED, "0 inputs; expected 1");
    d.node[0].n_input = 1;
    d.node[0].n_output = 0;
    refuses(&d, DT_ERR_UNSUPPORTED, "the output 'y' is not computed");
}
END_TEST

/* Numbers in the fields of their types: the limits of a type have the bits of raw data, and what
 * is beyond them is refused. */
START_TEST(typed_fields)
{
    static const struct {
        int type, bits;
        int32_t least, most;
    } types[] = {
        { DT__ONNX_U8, 8, 0, 255 },     { DT__ONNX_I8, 8, -128, 127 },
        { DT__ONNX_U16, 16, 0, 65535 }, { DT__ONNX_I16, 16, -32768, 32767 },
        { DT__ONNX_F16, 16, 0, 65535 }, { DT__ONNX_BF16, 16, 0, 65535 },
        { DT__ONNX_U4, 4, -128, 255 },  { DT__ONNX_I4, 4, -128, 255 },
        { DT__ONNX_U2, 2, -128, 255 },  { DT__ONNX_I2, 2, -128, 255 },
    };
    for (int k = 0; k < DT__COUNT_OF(types); k++) {
        const int each = types[k].bits < 8 ? 8 / types[k].bits : 1, wide = types[k].bits > 8;
        int32_t field[3];
        uint8_t raw[6];
        char why[DT__SHOWN];
        for (int i = 0; i < 3; i++) {
            const int64_t span = (int64_t)types[k].most - types[k].least;
            field[i] = i == 0   ? types[k].least
                       : i == 1 ? types[k].most
                                : types[k].least + (int32_t)(rand() % (span + 1));
            raw[i << wide] = (uint8_t)field[i];
            if (wide) raw[2 * i + 1] = (uint8_t)(field[i] >> 8);
        }
        DtOnnx__Tensor typed = DT_ONNX__TENSOR__INIT, bytes = DT_ONNX__TENSOR__INIT;
        typed.data_type = bytes.data_type = types[k].type;
        typed.n_int32_data = 3;
        typed.int32_data = field;
        bytes.raw_data = (ProtobufCBinaryData){ (size_t)3 << wide, raw };
        ck_assert(dt__onnx_tensor_holds(&typed, 3 * each, why, sizeof why));
        ck_assert(dt__onnx_tensor_holds(&bytes, 3 * each, why, sizeof why));
        const uint64_t mask = (UINT64_C(1) << types[k].bits) - 1;
        for (int i = 0; i < 3 * each; i++) {
            ck_assert_uint_eq(dt__onnx_tensor_bits(&typed, i) & mask,
                              dt__onnx_tensor_bits(&bytes, i) & mask);
        }
        for (int below = 0; below < 2; below++) {
            field[1] = below ? types[k].least - 1 : types[k].most + 1;
            ck_assert(!dt__onnx_tensor_holds(&typed, 3 * each, why, sizeof why));
            ck_assert_ptr_nonnull(strstr(why, "at 1, that is beyond its data type"));
        }
    }
}
END_TEST

START_TEST(tensors_that_are_wrong)
{
    static const int64_t good[] = { 4, 2, 3, 3 }, huge[] = { INT64_MAX, 2, 3, 3 },
                         below[] = { -4, 2, 3, 3 }, wide[] = { 4, 1, 3, 3 };
    draft d;
    draft_begin(&d);
    draft_node(&d, "Conv", "x", "w", "y");
    draft_weight(&d, 4, good, 4 * 71);
    refuses(&d, DT_ERR_FORMAT, "'w' has 72 elements by its shape, but data of 71");
    draft_weight(&d, 4, good, 4 * 72 + 1);
    refuses(&d, DT_ERR_FORMAT, "'w' has 72 elements");
    draft_weight(&d, 4, huge, 16);
    refuses(&d, DT_ERR_FORMAT, "'w' has more elements than can be counted");
    draft_weight(&d, 4, below, 4 * 72);
    refuses(&d, DT_ERR_FORMAT, "'w' has -4 as dimension 0");
    draft_weight(&d, 4, wide, 4 * 36);
    refuses(&d, DT_ERR_UNSUPPORTED, ".weight has 36 numbers; expected 72");
    draft_weight(&d, 4, good, 4 * 72);
    d.weight.data_type = 8;
    refuses(&d, DT_ERR_UNSUPPORTED, "'w' has the data type 8");
    static int32_t numbers[72] = { [70] = 128 };
    draft_weight(&d, 4, good, 0);
    d.weight.data_type = DT__ONNX_I8;
    d.weight.n_int32_data = 72;
    d.weight.int32_data = numbers;
    refuses(&d, DT_ERR_FORMAT, "'w' has a number, at 70, that is beyond its data type 3");
    d.weight.n_int32_data = 0;
    draft_weight(&d, 4, good, 0);
    d.weight.data_location = 1;
    refuses(&d, DT_ERR_FORMAT, "'w' is in another file, which it does not name");
}
END_TEST

START_TEST(inputs_that_are_wrong)
{
    draft d;
    draft_begin(&d);
    draft_node(&d, "Relu", "x", NULL, "y");
    d.dim[2].dim_value = 0;
    d.dim[2].dim_param = "height";
    refuses(&d, DT_ERR_UNSUPPORTED, "the input 'x' must have numbers as dimensions");
    draft_begin(&d);
    draft_node(&d, "Relu", "x", NULL, "y");
    d.shape.n_dim = 1;
    refuses(&d, DT_ERR_UNSUPPORTED, "must be a tensor of a batch and");
    d.shape.n_dim = 4;
    d.tensor.elem_type = 7;
    refuses(&d, DT_ERR_UNSUPPORTED, "Relu 'y': it computes with integers of an input");
    d.tensor.elem_type = 6;
    refuses(&d, DT_ERR_UNSUPPORTED, "Relu 'y': it computes with integers of an input");
    d.tensor.elem_type = 9;
    refuses(&d, DT_ERR_UNSUPPORTED, "the input 'x' must have floats, int32 or int64");
    d.tensor.elem_type = 1;
    d.opset.version = 29;
    refuses(&d, DT_ERR_UNSUPPORTED, "operators of version 29");
    d.opset.version = 17;
    d.dim[1].dim_value = d.dim[2].dim_value = d.dim[3].dim_value = INT32_MAX;
    refuses(&d, DT_ERR_UNSUPPORTED, "cannot be read");
}
END_TEST

/* ---- damaged files --------------------------------------------------------------------------- */

/* Imports bytes; whether they are a model. */
static bool imports(const char *path, const char *bytes, size_t n)
{
    dt_module *m;
    test_write_file(path, bytes, n);
    const dt_status s = dt_onnx_import(ctx, path, NULL, &m, NULL);
    TEST_EACH(s == DT_OK || s == DT_ERR_FORMAT || s == DT_ERR_UNSUPPORTED || s == DT_ERR_ARG,
              "%d: %s", s, dt_error(ctx));
    dt_module_free(m);
    return s == DT_OK;
}

START_TEST(truncations)
{
    char path[TEST_PATH], folder[TEST_PATH];
    size_t n;
    path_of(path, files[_i], ".onnx");
    char *bytes = test_read_file(path, &n);
    test_folder(folder);
    test_join(path, folder, "cut.onnx");
    const size_t by =
        (size_t)test_count((test_draws){ .usual = 1, .sanitized = 1 + (int64_t)(n / 400) });
    for (size_t i = 0; i < n; i += by) {
        TEST_EACH(!imports(path, bytes, i), "%zu of %zu bytes are a model", i, n);
    }
    ck_assert(imports(path, bytes, n));
    free(bytes);
}
END_TEST

START_TEST(mutations)
{
    char path[TEST_PATH], folder[TEST_PATH];
    size_t n;
    int good = 0;
    dt__stream s = dt__stream_of((uint64_t)_i, DT__FOR_USER);
    path_of(path, files[_i], ".onnx");
    char *bytes = test_read_file(path, &n), *copy = malloc(n);
    test_folder(folder);
    test_join(path, folder, "changed.onnx");
    const int64_t draws = test_count((test_draws){ .usual = 1000, .sanitized = 300 });
    for (int64_t i = 0; i < draws; i++) {
        memcpy(copy, bytes, n);
        for (uint64_t k = dt__random_below(&s, 3) + 1; k > 0; k--) {
            const uint64_t at = dt__random_below(&s, n);
            copy[at] = (char)(unsigned char)dt__random_below(&s, 256);
        }
        good += imports(path, copy, n);
    }
    printf("onnx: %d of %d changed files %s are models\n", good, (int)draws, files[_i]);
    free(copy);
    free(bytes);
}
END_TEST

static dt_status import_one(dt_ctx *own, void *user)
{
    dt_module *m;
    dt_model_info info;
    DT__TRY(dt_onnx_import(own, user, NULL, &m, &info));
    dt_model_info_free(own, &info);
    dt_module_free(m);
    return DT_OK;
}

START_TEST(every_allocation)
{
    char path[TEST_PATH];
    path_of(path, "keras", ".onnx");
    ck_assert_int_gt(test_every_allocation(import_one, path), 100);
}
END_TEST

START_TEST(other_files)
{
    char folder[TEST_PATH], path[TEST_PATH];
    dt_module *m;
    test_folder(folder);
    ck_assert_int_eq(dt_onnx_import(ctx, folder, NULL, &m, NULL), DT_ERR_IO);
    test_join(path, folder, "none.onnx");
    ck_assert_int_eq(dt_onnx_import(ctx, path, NULL, &m, NULL), DT_ERR_IO);
    test_write_text(path, "");
    ck_assert_int_eq(dt_onnx_import(ctx, path, NULL, &m, NULL), DT_ERR_FORMAT);
    test_write_text(path, "a text");
    ck_assert_int_eq(dt_onnx_import(ctx, path, NULL, &m, NULL), DT_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "not an ONNX file"));
}
END_TEST

/* ---- the program ----------------------------------------------------------------------------- */

typedef struct call {
    const char *arguments; /* F: the folder of the test; O: tests/onnx */
    int status;
    const char *says;
    bool writes;
} call;

static const call calls[] = {
    { "O/cnn.onnx -o F/m.safetensors", 0, "F/m.safetensors: 23 layers, 361 parameters", true },
    { "O/cnn.onnx -o F/m.safetensors --check O/cnn.safetensors", 0, "y: largest difference", true },
    { "O/cnn.onnx -o F/m.safetensors --check F/wrong.safetensors", 1, "nothing was written",
      false },
    { "O/cnn.onnx -o F/m.safetensors --check O/keras.safetensors", 4,
      "does not fit the model: conv2d", false },
    { "O/two.onnx -o F/m.safetensors --check O/cnn.safetensors", 4, "no tensor 'a'", false },
    { "O/cnn.onnx", 2, "-o FILE is missing", false },
    { "O/cnn.onnx --check O/cnn.safetensors", 0, "y: largest difference", false },
    { "O/cnn.onnx --check O/cnn.safetensors --expect F/inside.safetensors", 0,
      "the first that differs by more than 1e-05 of its largest value: '/depthwise/Conv_output_0'",
      false },
    { "O/cnn.onnx --check O/cnn.safetensors --expect F/misshapen.safetensors", 4,
      "'/depthwise/Conv_output_0' is [3,1] there, but", false },
    { "O/cnn.onnx --check O/cnn.safetensors --expect F/wrong.safetensors --tolerance 1", 0,
      "y: largest difference 0.01", false },
    { "O/cnn.onnx --check F/alone.npy --expect O/cnn.safetensors -o F/m.safetensors", 0,
      "y: largest difference", true },
    { "O/cnn.onnx --check O/cnn.safetensors --expect F/alone.npy", 4, "'y' is [", false },
    { "O/cnn.onnx --check O/cnn.safetensors --expect F/net.pt", 4, "net.pt", false },
    { "O/cnn.onnx --check F/short.npy", 4, "short.npy", false },
    { "O/cnn.onnx --check F/fortran.npy", 4, "numpy.ascontiguousarray", false },
    { "O/cnn.onnx --check F", 4, "F", false },
    { "O/cnn.onnx --check O/cnn.safetensors --tolerance x", 2, "--tolerance is 'x'", false },
    { "O/cnn.onnx --check O/cnn.safetensors --tolerance -1", 2, "a number of 0 or more", false },
    { "O/cnn.onnx --check O/cnn.safetensors --tolerance nan", 2, "a number of 0 or more", false },
    { "O/cnn.onnx -o F/m.safetensors --expect O/cnn.safetensors", 2, "--expect requires --check",
      false },
    { "O/cnn.onnx -o F/m.safetensors --tolerance 1", 2, "--tolerance requires --check", false },
    { "O/cnn.onnx -o F/m.safetensors --map O/make.py", 2, "--map requires --network", false },
    { "O/cnn.onnx O/cnn.onnx -o F/m.safetensors", 2, "one file is imported", false },
    { "F/none.onnx -o F/m.safetensors", 4, "none.onnx", false },
    { "O/make.py -o F/m.safetensors", 4, "not an ONNX file", false },
    { "F/net.pt -o F/m.safetensors", 4, "torch.onnx.export(model.eval(), x, 'model.onnx'", false },
    { "F -o F/m.safetensors", 4, "A Hugging Face folder needs no import", false },
    { "O/cnn.onnx -o F/m.safetensors --mean 0.5,x", 2, "--mean is '0.5,x'; expected numbers",
      false },
    { "O/cnn.onnx -o F/m.safetensors --deviation 0", 2, "deviation is 0; it must be above 0",
      false },
    { "O/cnn.onnx -o F/m.safetensors --layout chw", 2, "there are nchw and nhwc", false },
    { "O/cnn.onnx -o F/m.safetensors --shape 1x3xH", 2, "expected NAME:1x3x48x320", false },
    { "O/cnn.onnx -o F/m.safetensors --shape 1x", 2, "expected NAME:1x3x48x320", false },
    { "O/cnn.onnx -o F/m.safetensors --shape x:0x3", 2, "expected NAME:1x3x48x320", false },
    { "O/cnn.onnx -o F/m.safetensors --shape z:1x2", 2, "the file has no such input", false },
    { "O/cnn.onnx -o F/m.safetensors --classes ,", 2, "--classes has no name", false },
    { "O/cnn.onnx -o F/m.safetensors --classes F/none.txt", 2, "which is neither a file", false },
};

/* s with the letters F and O in front of a slash replaced by folders. */
static void expand(char *to, size_t size, const char *s, const char *folder)
{
    size_t n = 0;
    for (; *s != 0; s++) {
        const char *with = s[1] != '/' && s[1] != ' ' ? NULL
                           : *s == 'F'                ? folder
                           : *s == 'O'                ? DETENT_SOURCE_DIR "/tests/onnx"
                                                      : NULL;
        if (with == NULL) to[n++] = *s;
        else n += (size_t)snprintf(to + n, size - n, "%s", with);
    }
    to[n] = 0;
}

/* The outputs y of cnn.onnx, and a value inside that is not of this shape, or not zeros. */
static void write_inside(const char *folder, const char *name, const dt_tensor *y, int rank,
                         const int64_t *dims)
{
    char path[TEST_PATH];
    dt_writer *w;
    dt_tensor *v;
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank, dims, &v));
    memset(dt_data_mut(v), 0, (size_t)dt_count(v) * sizeof(float));
    TEST_OK(ctx, dt_writer_add(w, "y", y));
    TEST_OK(ctx, dt_writer_add(w, "/depthwise/Conv_output_0", v));
    test_join(path, folder, name);
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    dt_tensor_free(v);
}

/* An .npy file, of which some bytes are missing. */
static void write_npy(const char *folder, const char *name, const dt_tensor *x, const char *order,
                      size_t cut)
{
    char path[TEST_PATH], head[129];
    const size_t bytes = (size_t)dt_count(x) * sizeof(float);
    char *file = malloc(128 + bytes);
    snprintf(head, sizeof head,
             "\x93NUMPY\x01%c%c%c{'descr': '<f4', 'fortran_order': %s, 'shape': "
             "(%d, %d, %d, %d), }",
             0, 118, 0, order, (int)dt_dim(x, 0), (int)dt_dim(x, 1), (int)dt_dim(x, 2),
             (int)dt_dim(x, 3));
    memset(file, ' ', 128);
    memcpy(file, head, 10);
    memcpy(file + 10, head + 10, strlen(head + 10));
    file[127] = '\n';
    memcpy(file + 128, dt_data(x), bytes);
    test_join(path, folder, name);
    test_write_file(path, file, 128 + bytes - cut);
    free(file);
}

static void write_arrays(const char *folder, const dt_tensor *x)
{
    write_npy(folder, "alone.npy", x, "False", 0);
    write_npy(folder, "short.npy", x, "False", 7);
    write_npy(folder, "fortran.npy", x, "True", 0);
}

/* Inputs and outputs of cnn.onnx, where one number of the outputs is wrong. */
static void write_wrong(const char *folder)
{
    char path[TEST_PATH];
    dt_file *file;
    dt_writer *w;
    dt_tensor *x, *y;
    path_of(path, "cnn", ".safetensors");
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    TEST_OK(ctx, dt_file_load(file, "x", DT_F32, &x));
    TEST_OK(ctx, dt_file_load(file, "y", DT_F32, &y));
    dt_file_close(file);
    ((float *)dt_data_mut(y))[3] += 0.01f;
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    TEST_OK(ctx, dt_writer_add(w, "x", x));
    TEST_OK(ctx, dt_writer_add(w, "y", y));
    test_join(path, folder, "wrong.safetensors");
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    write_arrays(folder, x);
    ((float *)dt_data_mut(y))[3] -= 0.01f;
    const int64_t good[] = { 3, 8, 6, 5 }, bad[] = { 3, 1 };
    write_inside(folder, "inside.safetensors", y, 4, good);
    write_inside(folder, "misshapen.safetensors", y, 2, bad);
    dt_tensor_free(x);
    dt_tensor_free(y);
}

START_TEST(program)
{
    char folder[TEST_PATH], path[TEST_PATH], arguments[4 * TEST_PATH], says[TEST_PATH + 64];
    char *output = NULL;
    const call *k = &calls[_i];
    test_folder(folder);
    write_wrong(folder);
    test_join(path, folder, "net.pt");
    test_write_text(path, "PK\x03\x04 archive/data.pkl");
    expand(arguments, sizeof arguments, k->arguments, folder);
    expand(says, sizeof says, k->says, folder);
    const int status =
        test_shell(&output, "'%s/detent' import %s 2>&1", DETENT_BINARY_DIR, arguments);
    ck_assert_msg(status == k->status, "%s: %d: %s", k->arguments, status, output);
    ck_assert_msg(strstr(output, says) != NULL, "%s: %s", k->arguments, output);
    free(output);
    test_join(path, folder, "m.safetensors");
    ck_assert_int_eq(test_file_exists(path), k->writes);
}
END_TEST

/* ---- a look at files ------------------------------------------------------------------------- */

/* Every file here can be imported; with one change it is refused. */
START_TEST(looks)
{
    char path[TEST_PATH];
    dt_graph_info info;
    int64_t nodes = 0;
    path_of(path, files[_i], ".onnx");
    TEST_OK(ctx, dt_graph_inspect(ctx, path, &info));
    for (int64_t i = 0; i < info.n_operators; i++) {
        nodes += info.operator_[i].count;
        ck_assert(info.operator_[i].known);
        ck_assert(i == 0 || info.operator_[i - 1].count >= info.operator_[i].count);
    }
    ck_assert_int_eq(nodes, info.nodes);
    ck_assert_int_eq(info.n_refusals, 0);
    ck_assert(info.n_inputs > 0 && info.n_outputs > 0 && info.parameters > 0);
    dt_graph_info_free(ctx, &info);
}
END_TEST

/* Replaces every occurrence of a word by one of its length; how many there were. */
static int replace_all(char *bytes, size_t n, const char *word, const char *with)
{
    int found = 0;
    const size_t m = strlen(word);
    for (size_t i = 0; i + m <= n; i++) {
        if (memcmp(bytes + i, word, m) != 0) continue;
        memcpy(bytes + i, with, m);
        found++;
    }
    return found;
}

START_TEST(all_refusals_are_listed)
{
    char path[TEST_PATH], folder[TEST_PATH];
    size_t n;
    dt_graph_info info;
    path_of(path, "cnn", ".onnx");
    char *bytes = test_read_file(path, &n);
    ck_assert_int_gt(replace_all(bytes, n, "\x09HardSwish", "\x09HardSwash"), 0);
    ck_assert_int_gt(replace_all(bytes, n,
                                 "\x09"
                                 "Transpose",
                                 "\x09"
                                 "Transpoke"),
                     0);
    ck_assert_int_gt(replace_all(bytes, n, "dilations", "dilutions"), 0);
    test_folder(folder);
    test_join(path, folder, "changed.onnx");
    test_write_file(path, bytes, n);
    free(bytes);
    TEST_OK(ctx, dt_graph_inspect(ctx, path, &info));
    static const char *const wanted[] = { "HardSwash", "Transpoke", "dilutions" };
    for (int k = 0; k < 3; k++) {
        int found = 0;
        for (int64_t i = 0; i < info.n_refusals; i++) {
            found += strstr(info.refusal[i], wanted[k]) != NULL;
        }
        TEST_EACH(found > 0, "%s is not refused", wanted[k]);
    }
    dt_graph_info_free(ctx, &info);
}
END_TEST

static dt_status look_at(dt_ctx *own, void *user)
{
    dt_graph_info info;
    DT__TRY(dt_graph_inspect(own, user, &info));
    dt_graph_info_free(own, &info);
    return DT_OK;
}

START_TEST(every_allocation_of_a_look)
{
    char path[TEST_PATH];
    path_of(path, "two", ".onnx");
    ck_assert_int_gt(test_every_allocation(look_at, path), 50);
}
END_TEST

Suite *test_onnx_suite(void)
{
    const int n = DT__COUNT_OF(files);
    Suite *s = suite_create("onnx");
    TCase *c = tcase_create("good");
    tcase_add_checked_fixture(c, begin, end);
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, agree_with_onnxruntime, 0, n);
    tcase_add_loop_test(c, train_and_convert, 0, FLOATS);
    tcase_add_loop_test(c, looks, 0, n);
    suite_add_tcase(s, c);
    TCase *bad = tcase_create("bad");
    tcase_add_checked_fixture(bad, begin, end);
    tcase_set_timeout(bad, 300);
    tcase_add_test(bad, draft_is_good);
    tcase_add_test(bad, unknown_nodes_at_once);
    tcase_add_test(bad, graphs_that_do_not_hang_together);
    tcase_add_test(bad, typed_fields);
    tcase_add_test(bad, tensors_that_are_wrong);
    tcase_add_test(bad, inputs_that_are_wrong);
    tcase_add_loop_test(bad, truncations, 0, n);
    tcase_add_loop_test(bad, mutations, 0, n);
    tcase_add_test(bad, every_allocation);
    tcase_add_test(bad, all_refusals_are_listed);
    tcase_add_test(bad, every_allocation_of_a_look);
    tcase_add_test(bad, other_files);
    suite_add_tcase(s, bad);
    TCase *run = tcase_create("program");
    tcase_add_checked_fixture(run, begin, end);
    tcase_set_timeout(run, 300);
    tcase_add_loop_test(run, program, 0, DT__COUNT_OF(calls));
    suite_add_tcase(s, run);
    return s;
}
