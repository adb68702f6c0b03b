/* Format tflite, op by op: a module of each op is written, and an interpreter that shares no code
 * with the writer computes the same values. */
#include "testing.h"
#include "clipped_norm.h"
#include "tflite_files.h"

#include "core/tensor.h"
#include "export/tflite/tflite_put_model.h"

#include <detent/experimental/nn.h>
#include <detent/experimental/ops.h>

#include <string.h>

#define CLOSE 2e-5 /* of the largest output */

static dt_ctx *ctx;
static void open_ctx(void) { TEST_OK(NULL, dt_ctx_create(&ctx, NULL)); }
static void close_ctx(void) { dt_ctx_free(ctx); }

/* ---- each op --------------------------------------------------------------------------------- */

/* A module of one call or a few; `image`: a pool stands in front, so that channels are last. */
typedef struct op_case {
    const char *op;
    int n, rank[3];
    int64_t dims[3][5];
    dt_tensor *(*make)(dt_tape *t, dt_tensor *const *x);
} op_case;

#define ONE(name) static dt_tensor *name##_of(dt_tape *t, dt_tensor *const *x)
#define MAP(name)                                                                                  \
    ONE(name) { return dt_##name(t, x[0]); }
#define TWO(name)                                                                                  \
    ONE(name) { return dt_##name(t, x[0], x[1]); }

MAP(neg)
MAP(abs)
MAP(exp)
MAP(square)
MAP(tanh)
MAP(sigmoid)
MAP(silu)
MAP(relu)
MAP(relu6)
MAP(hardswish)
MAP(hardsigmoid)
TWO(add)
TWO(sub)
TWO(mul)
TWO(maximum)
TWO(swiglu)
TWO(matmul)
ONE(greater) { return dt_greater(t, x[0], x[1], false); }
ONE(not_below) { return dt_greater(t, x[0], x[0], true); }
ONE(where) { return dt_where(t, x[0], x[1], dt_neg(t, x[1])); }
ONE(image_where) { return dt_where(t, dt_max_pool2d(t, x[0], NULL, NULL), x[1], x[2]); }
ONE(log) { return dt_log(t, dt_exp(t, x[0])); }
ONE(sqrt) { return dt_sqrt(t, dt_square(t, x[0])); }
ONE(div) { return dt_div(t, x[0], dt_exp(t, x[1])); }
ONE(leaky_relu) { return dt_leaky_relu(t, x[0], 0.1); }
ONE(elu) { return dt_elu(t, x[0], 1); }
ONE(elu2) { return dt_elu(t, x[0], 0.5); }
ONE(gelu) { return dt_gelu(t, x[0], DT_GELU_ERF); }
ONE(gelu_tanh) { return dt_gelu(t, x[0], DT_GELU_TANH); }
ONE(clamp) { return dt_clamp(t, x[0], -0.5, 0.7); }
ONE(image_add)
{
    return dt_add(t, dt_max_pool2d(t, x[0], NULL, NULL), dt_max_pool2d(t, x[1], NULL, NULL));
}
ONE(softmax) { return dt_softmax(t, x[0], -1); }
ONE(softmax_rows) { return dt_softmax(t, x[0], 1); }
ONE(log_softmax) { return dt_log_softmax(t, x[0], -1); }
ONE(softmax_channels) { return dt_softmax(t, dt_max_pool2d(t, x[0], NULL, NULL), 1); }
ONE(sum) { return dt_sum(t, x[0], &(dt_reduce_options){ .dims = { 1, { -1 } }, .keepdim = true }); }
ONE(mean_pixels)
{
    dt_tensor *y = dt_max_pool2d(t, x[0], NULL, NULL);
    return dt_mean(t, y, &(dt_reduce_options){ .dims = { 2, { 2, 3 } } });
}
ONE(mean_channels)
{
    dt_tensor *y = dt_max_pool2d(t, x[0], NULL, NULL);
    return dt_mean(t, y, &(dt_reduce_options){ .dims = { 1, { 1 } } });
}
ONE(max) { return dt_max(t, x[0], 1, false, NULL); }
ONE(flatten) { return dt_flatten(t, dt_max_pool2d(t, x[0], NULL, NULL), 1, -1); }
ONE(reshape)
{
    return dt_reshape(t, dt_max_pool2d(t, x[0], NULL, NULL), 3,
                      (const int64_t[]){ x[0]->dims[0], 4, 6 });
}
ONE(transpose) { return dt_neg(t, dt_transpose(t, x[0], 1, 2)); }
ONE(permute) { return dt_neg(t, dt_permute(t, x[0], (const int64_t[]){ 0, 3, 1, 2 })); }
ONE(slice)
{
    const dt_slice_options o = {
        { 2, { 1, -1 } }, { 2, { 1, 0 } }, { 2, { -1, 99 } }, { 2, { 1, 2 } }
    };
    return dt_neg(t, dt_slice(t, dt_max_pool2d(t, x[0], NULL, NULL), &o));
}
ONE(concat)
{
    dt_tensor *y = dt_max_pool2d(t, x[0], NULL, NULL);
    return dt_concat(t, (dt_tensor *const[]){ y, dt_relu(t, y) }, 2, 1);
}
ONE(pad)
{
    dt_pad_options o = { { 4, { 1, 2, 0, 1 } }, DT_PAD_CONSTANT, 0.5 };
    return dt_pad(t, dt_max_pool2d(t, x[0], NULL, NULL), &o);
}
ONE(reflect)
{
    dt_pad_options o = { { 4, { 1, 0, 2, 1 } }, DT_PAD_REFLECT, 0 };
    return dt_pad(t, dt_max_pool2d(t, x[0], NULL, NULL), &o);
}
ONE(layer_norm) { return dt_layer_norm(t, x[0], NULL, NULL, NULL); }
ONE(rms_norm) { return dt_rms_norm(t, x[0], NULL, 1e-5); }
ONE(group_norm)
{
    const dt_group_norm_options o = { 2, 1e-5 };
    return dt_group_norm(t, x[0], NULL, NULL, &o);
}
ONE(max_pool2d)
{
    dt_pool_options o = dt_pool_defaults();
    o.kernel[0] = o.kernel[1] = 3;
    o.stride[0] = o.stride[1] = 2;
    o.padding[0] = o.padding[1] = 1;
    return dt_max_pool2d(t, x[0], &o, NULL);
}
ONE(max_pool_gaps)
{
    dt_pool_options o = dt_pool_defaults();
    o.kernel[0] = 2;
    o.kernel[1] = 3;
    o.stride[0] = o.stride[1] = 2;
    o.padding[1] = 1;
    o.dilation[0] = 3;
    o.ceil_mode = true;
    return dt_max_pool2d(t, x[0], &o, NULL);
}
ONE(avg_pool2d)
{
    dt_pool_options o = dt_pool_defaults();
    o.kernel[0] = o.kernel[1] = 3;
    o.stride[0] = o.stride[1] = 2;
    o.padding[0] = o.padding[1] = 1;
    o.count_include_pad = false;
    return dt_avg_pool2d(t, x[0], &o);
}
ONE(avg_pool_all)
{
    dt_pool_options o = dt_pool_defaults();
    o.kernel[0] = o.kernel[1] = 3;
    o.stride[0] = 1;
    o.padding[0] = o.padding[1] = 1;
    o.ceil_mode = true;
    return dt_avg_pool2d(t, x[0], &o);
}
ONE(max_pool1d) { return dt_max_pool1d(t, x[0], NULL, NULL); }
ONE(avg_pool1d) { return dt_avg_pool1d(t, x[0], NULL); }
MAP(global_avg_pool2d)
MAP(global_avg_pool1d)
ONE(adaptive_avg_pool2d) { return dt_adaptive_avg_pool2d(t, x[0], 4, 3); }
ONE(adaptive_even) { return dt_adaptive_avg_pool2d(t, x[0], 3, 2); }
ONE(adaptive_avg_pool1d) { return dt_adaptive_avg_pool1d(t, x[0], 2); }
ONE(upsample_nearest) { return dt_upsample_nearest(t, x[0], 12, 12); }
ONE(upsample_odd) { return dt_upsample_nearest(t, x[0], 7, 9); }
ONE(upsample_nearest1d) { return dt_upsample_nearest1d(t, x[0], 14); }
ONE(gru_cell) { return dt_gru_cell(t, x[0], x[1], x[2]); }
ONE(lstm_cell)
{
    dt_tensor *h = dt_tanh(t, x[2]);
    dt_tensor *state = dt_concat(t, (dt_tensor *const[]){ h, x[2] }, 2, 0);
    dt_tensor *y = dt_lstm_cell(t, x[0], x[1], state); /* [2 batch, 4]: the batch comes first */
    y = dt_reshape(t, y, 3, (const int64_t[]){ 2, x[0]->dims[0], 4 });
    return dt_neg(t, dt_permute(t, y, (const int64_t[]){ 1, 0, 2 }));
}

#define IMAGE                                                                                      \
    1, { 4 },                                                                                      \
    {                                                                                              \
        {                                                                                          \
            1, 4, 6, 4                                                                             \
        }                                                                                          \
    }
#define LINE                                                                                       \
    1, { 3 },                                                                                      \
    {                                                                                              \
        {                                                                                          \
            1, 4, 7                                                                                \
        }                                                                                          \
    }
#define ROWS                                                                                       \
    1, { 2 },                                                                                      \
    {                                                                                              \
        {                                                                                          \
            1, 9                                                                                   \
        }                                                                                          \
    }
#define PAIR                                                                                       \
    2, { 3, 3 },                                                                                   \
    {                                                                                              \
        { 1, 5, 8 }, { 1, 5, 8 }                                                                   \
    }

static const op_case op_cases[] = {
    { "neg", ROWS, neg_of },
    { "abs", ROWS, abs_of },
    { "exp", ROWS, exp_of },
    { "log", ROWS, log_of },
    { "sqrt", IMAGE, sqrt_of },
    { "square", ROWS, square_of },
    { "tanh", ROWS, tanh_of },
    { "sigmoid", ROWS, sigmoid_of },
    { "silu", IMAGE, silu_of },
    { "relu", IMAGE, relu_of },
    { "relu6", IMAGE, relu6_of },
    { "hardswish", IMAGE, hardswish_of },
    { "hardsigmoid", IMAGE, hardsigmoid_of },
    { "leaky_relu", IMAGE, leaky_relu_of },
    { "elu", IMAGE, elu_of },
    { "elu", ROWS, elu2_of },
    { "gelu", ROWS, gelu_of },
    { "gelu", IMAGE, gelu_tanh_of },
    { "clamp", IMAGE, clamp_of },
    { "add", PAIR, add_of },
    { "add", 2, { 4, 4 }, { { 1, 4, 6, 4 }, { 1, 4, 6, 4 } }, image_add_of },
    { "add", 2, { 3, 3 }, { { 1, 5, 8 }, { 1, 1, 8 } }, add_of },
    { "sub", PAIR, sub_of },
    { "mul", PAIR, mul_of },
    { "div", PAIR, div_of },
    { "maximum", PAIR, maximum_of },
    { "greater", PAIR, greater_of },
    { "greater", 2, { 3, 3 }, { { 1, 5, 8 }, { 1, 1, 8 } }, greater_of },
    { "greater", IMAGE, not_below_of },
    { "where", PAIR, where_of },
    { "where", 2, { 3, 3 }, { { 1, 5, 1 }, { 1, 5, 8 } }, where_of },
    { "where", 3, { 4, 4, 4 }, { { 1, 4, 6, 4 }, { 1, 4, 3, 2 }, { 1, 1, 3, 2 } }, image_where_of },
    { "swiglu", PAIR, swiglu_of },
    { "matmul", 2, { 3, 3 }, { { 1, 5, 8 }, { 1, 8, 3 } }, matmul_of },
    { "matmul", 2, { 4, 4 }, { { 1, 2, 5, 8 }, { 1, 1, 8, 3 } }, matmul_of },
    { "softmax", PAIR, softmax_of },
    { "softmax", IMAGE, softmax_channels_of },
    { "softmax", PAIR, softmax_rows_of },
    { "log_softmax", PAIR, log_softmax_of },
    { "sum", PAIR, sum_of },
    { "mean", IMAGE, mean_pixels_of },
    { "mean", IMAGE, mean_channels_of },
    { "max", PAIR, max_of },
    { "flatten", IMAGE, flatten_of },
    { "reshape", IMAGE, reshape_of },
    { "transpose", PAIR, transpose_of },
    { "permute", IMAGE, permute_of },
    { "slice", IMAGE, slice_of },
    { "concat", IMAGE, concat_of },
    { "pad", IMAGE, pad_of },
    { "pad", IMAGE, reflect_of },
    { "layer_norm", PAIR, layer_norm_of },
    { "rms_norm", PAIR, rms_norm_of },
    { "group_norm", IMAGE, group_norm_of },
    { "group_norm", LINE, group_norm_of },
    { "max_pool2d", IMAGE, max_pool2d_of },
    { "max_pool2d", IMAGE, max_pool_gaps_of },
    { "max_pool1d", LINE, max_pool1d_of },
    { "avg_pool2d", IMAGE, avg_pool2d_of },
    { "avg_pool2d", IMAGE, avg_pool_all_of },
    { "avg_pool1d", LINE, avg_pool1d_of },
    { "global_avg_pool2d", IMAGE, global_avg_pool2d_of },
    { "global_avg_pool1d", LINE, global_avg_pool1d_of },
    { "adaptive_avg_pool2d", IMAGE, adaptive_avg_pool2d_of },
    { "adaptive_avg_pool2d", IMAGE, adaptive_even_of },
    { "adaptive_avg_pool1d", LINE, adaptive_avg_pool1d_of },
    { "upsample_nearest", IMAGE, upsample_nearest_of },
    { "upsample_nearest", IMAGE, upsample_odd_of },
    { "upsample_nearest1d", LINE, upsample_nearest1d_of },
    { "gru_cell", 3, { 2, 2, 2 }, { { 1, 12 }, { 1, 12 }, { 1, 4 } }, gru_cell_of },
    { "lstm_cell", 3, { 2, 2, 2 }, { { 1, 16 }, { 1, 16 }, { 1, 4 } }, lstm_cell_of },
};

static void run_op(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                   int n_out)
{
    const op_case *k = *(const op_case *const *)dt_module_state(m);
    (void)n_in;
    (void)n_out;
    out[0] = k->make(t, in);
}

static const dt_module_type op_type = { .name = "op", .forward = run_op };

/* Those whose cases are networks of random_nets.h, of layers, and of the test above. */
static const char *const elsewhere[] = { "linear",
                                         "linears",
                                         "conv2d",
                                         "conv1d",
                                         "conv_transpose2d",
                                         "conv_transpose1d",
                                         "batch_norm1d",
                                         "batch_norm2d",
                                         "embedding",
                                         "prelu",
                                         "device_quantize",
                                         "device_dequantize",
                                         "device_linear",
                                         "device_conv2d",
                                         "device_conv_transpose2d",
                                         "device_add",
                                         "device_mul",
                                         "device_sub",
                                         "device_table",
                                         "device_mean",
                                         "device_slice",
                                         "device_max_pool2d",
                                         "device_avg_pool2d",
                                         "device_softmax",
                                         "device_pad",
                                         "device_concat",
                                         "device_reshape",
                                         "device_permute",
                                         "device_prelu",
                                         "device_upsample_nearest" };

static bool has_case(const char *op)
{
    for (int i = 0; i < DT__COUNT_OF(op_cases); i++) {
        if (strcmp(op_cases[i].op, op) == 0) return true;
    }
    for (int i = 0; i < DT__COUNT_OF(elsewhere); i++) {
        if (strcmp(elsewhere[i], op) == 0) return true;
    }
    return false;
}

START_TEST(each_op_has_its_values)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "op");
    for (int i = 0; dt__lite_emitter_at(i) != NULL; i++) {
        TEST_EACH(has_case(dt__lite_emitter_at(i)->op), "%s has no case",
                  dt__lite_emitter_at(i)->op);
    }
    for (int i = 0; i < DT__COUNT_OF(op_cases); i++) {
        const op_case *k = &op_cases[i];
        dt_tensor *x[3];
        dt_module *m;
        for (int j = 0; j < k->n; j++) {
            TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, k->rank[j], k->dims[j], &x[j]));
            TEST_OK(ctx, dt_fill_normal(x[j], 0, 1));
        }
        TEST_OK(ctx, dt_module_create(ctx, &op_type, sizeof k, &m));
        *(const op_case **)dt_module_state(m) = k;
        tflite_subject s = { .m = m, .x = x, .n_in = k->n };
        const double apart = tflite_check(&s, path, false);
        TEST_EACH(apart <= CLOSE, "case %d, %s: %g apart", i, k->op, apart);
        dt_module_free(m);
        for (int j = 0; j < k->n; j++) dt_tensor_free(x[j]);
    }
}
END_TEST

/* ---- layers with parameters of channels ------------------------------------------------------ */

static void add_layer(dt_module *m, const char *name, dt_status made, dt_module *const *child)
{
    TEST_OK(ctx, made);
    TEST_OK(ctx, dt_module_add(m, name, *child));
}

/* Norms that no convolution is in front of, and slopes; drawn, as fresh ones do nothing. */
START_TEST(channels_keep_their_parameters)
{
    static const char *const drawn[] = { "norm.weight", "norm.bias", "slope.weight", "last.weight",
                                         "last.bias" };
    static const int64_t dims[][4] = { { 3, 4, 5, 3 }, { 3, 4 } };
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "layers");
    for (int i = 0; i < 2; i++) {
        dt_module *m, *child = NULL;
        dt_tensor *x;
        TEST_OK(ctx, dt_sequential_create(ctx, &m));
        if (i == 0) add_layer(m, "norm", dt_batch_norm2d_create(ctx, 4, 0.1, 1e-5, &child), &child);
        else add_layer(m, "norm", dt_batch_norm1d_create(ctx, 4, 0.1, 1e-5, &child), &child);
        add_layer(m, "slope", dt_prelu_create(ctx, 4, 0.25, &child), &child);
        if (i == 0) add_layer(m, "last", dt_group_norm_create(ctx, 2, 4, 1e-5, &child), &child);
        else add_layer(m, "last", dt_layer_norm_create(ctx, 4, 1e-5, &child), &child);
        for (int k = 0; k < DT__COUNT_OF(drawn); k++) {
            dt_tensor *p = dt_param(m, drawn[k]);
            TEST_OK(ctx, dt_fill_normal(p, 0.3, 1));
        }
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, i == 0 ? 4 : 2, dims[i], &x));
        TEST_OK(ctx, dt_fill_normal(x, 0.2, 1));
        tflite_subject s = { .m = m, .x = &x, .n_in = 1 };
        const double apart = tflite_check(&s, path, false);
        TEST_EACH(apart <= CLOSE, "layers %d: %g apart", i, apart);
        dt_tensor_free(x);
        dt_module_free(m);
    }
}
END_TEST

START_TEST(norms_compute_their_activation)
{
    char folder[TEST_PATH], path[TEST_PATH];
    dt_module *m = create_clipped_norm(ctx, clipped_activations[_i]);
    dt_tensor *x;
    test_folder(folder);
    test_join(path, folder, "norm");
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 20, 3 }, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    tflite_subject s = { .m = m, .x = &x, .n_in = 1 };
    const double apart = tflite_check(&s, path, false);
    ck_assert_msg(apart <= CLOSE, "%g apart", apart);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

Suite *test_tflite_ops_suite(void)
{
    Suite *s = suite_create("tflite_ops");
    TCase *c = tcase_create("cases");
    tcase_add_checked_fixture(c, open_ctx, close_ctx);
    tcase_add_test(c, each_op_has_its_values);
    tcase_add_test(c, channels_keep_their_parameters);
    tcase_add_loop_test(c, norms_compute_their_activation, 0, 3);
    suite_add_tcase(s, c);
    return s;
}
