/* Nodes of ONNX that arrange, resample and pool elements: values by hand, files without a batch;
 * random pools, slices and selections of elements compute the same as in the interpreter of ONNX;
 * random interpolations follow the formulas of the specification, also after an export. */
#include "testing.h"

#include "core/core.h"
#include "onnx_graph.h"

#include <detent/experimental/export.h>
#include <detent/experimental/io.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NEAR 1e-6 /* of the largest value */

static dt_ctx *ctx;
static test_memory memory;
static char folder[TEST_PATH], path[TEST_PATH], again[TEST_PATH];

static void begin(void)
{
    dt_ctx_options options = dt_ctx_defaults();
    test_begin();
    memory = (test_memory){ .live = 0 };
    options.allocator = test_allocator(&memory);
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    test_folder(folder);
    test_join(path, folder, "graph.onnx");
    test_join(again, folder, "again.onnx");
}

static void end(void)
{
    onnx_forget();
    dt_ctx_free(ctx);
    ck_assert_int_eq(memory.live, 0);
    test_end();
}

/* With a batch of any size, or as it is. */
static void write_case(const onnx_case *c, bool batch)
{
    size_t n;
    DtOnnx__Model *m = onnx_model(c);
    DtOnnx__Dimension *first = m->graph->input[0]->type->tensor_type->shape->dim[0];
    if (batch) {
        first->dim_value = 0;
        first->dim_param = "batch";
    }
    for (size_t i = 0; i < m->graph->n_output; i++) {
        m->graph->output[i]->type->tensor_type->shape = NULL;
    }
    const unsigned char *bytes = onnx_pack(m, &n);
    test_write_file(path, bytes, n);
}

static uint64_t state = 1;

static int draw(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

/* ---- values by hand -------------------------------------------------------------------------- */

/* Of files without a batch. */
static const onnx_case known[] = {
    { .op = "Reshape",
      .in = { "f32 2 3: 1 2 3 4 5 6", "=i64 2: 3 -1" },
      .out = { "f32 3 2: 1 2 3 4 5 6" } },
    { .op = "Flatten",
      .attributes = "axis=0",
      .in = { "f32 2 2: 1 2 3 4" },
      .out = { "f32 1 4: 1 2 3 4" } },
    { .op = "Flatten",
      .attributes = "axis=2",
      .in = { "f32 2 2: 1 2 3 4" },
      .out = { "f32 4 1: 1 2 3 4" } },
    { .op = "Transpose", .in = { "f32 2 3: 1 2 3 4 5 6" }, .out = { "f32 3 2: 1 4 2 5 3 6" } },
    { .op = "Mul",
      .in = { "f32 2 1: 1 2", "=f32 3: 1 2 -3" },
      .out = { "f32 2 3: 1 2 -3 2 4 -6" } },
    { .op = "Add", .in = { "f32 2 1: 1 2", "=f32 1 2: 10 20" }, .out = { "f32 2 2: 11 21 12 22" } },
    { .op = "Div", .in = { "f32 2 1: 1 2", "=f32 2: 2 4" }, .out = { "f32 2 2: 0.5 0.25 1 0.5" } },
    { .op = "Max", .in = { "f32 2 1: 1 3", "=f32 2: 2 4" }, .out = { "f32 2 2: 2 4 3 4" } },
    { .op = "Concat",
      .attributes = "axis=0",
      .in = { "f32 2: 1 2", "=f32 1: 7", "=f32 2: 8 9" },
      .out = { "f32 5: 1 2 7 8 9" } },
    { .op = "Slice",
      .in = { "f32 5: 1 2 3 4 5", "=i64 1: -1", "=i64 1: -9", "=i64 1: 0", "=i64 1: -2" },
      .out = { "f32 3: 5 3 1" } },
    { .op = "Gather",
      .in = { "f32 4: 1 2 3 4", "=i64 2 2: 3 -4 1 1" },
      .out = { "f32 2 2: 4 1 2 2" } },
    { .op = "Tile",
      .in = { "f32 1 2: 1 2", "=i64 2: 2 2" },
      .out = { "f32 2 4: 1 2 1 2 1 2 1 2" } },
    { .op = "Expand",
      .in = { "f32 2 1: 1 2", "=i64 3: 2 1 2" },
      .out = { "f32 2 2 2: 1 1 2 2 1 1 2 2" } },
    { .op = "Pad",
      .in = { "f32 3: 1 2 3", "=i64 2: -1 2", "=f32: 9" },
      .out = { "f32 4: 2 3 9 9" } },
    { .op = "CenterCropPad", .in = { "f32 4: 1 2 3 4", "=i64 1: 3" }, .out = { "f32 3: 1 2 3" } },
    { .op = "CenterCropPad", .in = { "f32 2: 1 2", "=i64 1: 5" }, .out = { "f32 5: 0 1 2 0 0" } },
    { .op = "GatherElements",
      .attributes = "axis=1",
      .in = { "f32 2 2: 1 2 3 4", "=i64 2 2: 0 0 1 0" },
      .out = { "f32 2 2: 1 1 4 3" } },
    { .op = "GatherND",
      .in = { "f32 2 2: 1 2 3 4", "=i64 2 2: 0 1 1 0" },
      .out = { "f32 2: 2 3" } },
    { .op = "GatherND", .in = { "f32 2 2: 1 2 3 4", "=i64 1 1: 1" }, .out = { "f32 1 2: 3 4" } },
    { .op = "ScatterElements",
      .attributes = "axis=0",
      .in = { "f32 3: 1 2 3", "=i64 2: 2 0", "=f32 2: 8 9" },
      .out = { "f32 3: 9 2 8" } },
    { .op = "ScatterElements",
      .attributes = "reduction=add",
      .in = { "f32 3: 1 2 3", "=i64 2: 2 2", "=f32 2: 8 9" },
      .out = { "f32 3: 1 2 20" } },
    { .op = "ScatterND",
      .in = { "f32 2 2: 1 2 3 4", "=i64 1 1: 1", "=f32 1 2: 8 9" },
      .out = { "f32 2 2: 1 2 8 9" } },
    { .op = "ScatterND",
      .attributes = "reduction=mul",
      .in = { "f32 3: 1 2 3", "=i64 1 1: 1", "=f32 1: 5" },
      .out = { "f32 3: 1 10 3" } },
    { .op = "Compress",
      .attributes = "axis=0",
      .in = { "f32 3: 1 2 3", "=bool 3: 1 0 1" },
      .out = { "f32 2: 1 3" } },
    { .op = "ReverseSequence",
      .attributes = "time_axis=1 batch_axis=0",
      .in = { "f32 2 3: 1 2 3 4 5 6", "=i64 2: 2 3" },
      .out = { "f32 2 3: 2 1 3 6 5 4" } },
    { .op = "DepthToSpace",
      .attributes = "blocksize=2",
      .in = { "f32 1 4 1 1: 1 2 3 4" },
      .out = { "f32 1 1 2 2: 1 2 3 4" } },
    { .op = "DepthToSpace",
      .attributes = "blocksize=2 mode=CRD",
      .in = { "f32 1 8 1 1: 1 2 3 4 5 6 7 8" },
      .out = { "f32 1 2 2 2: 1 2 3 4 5 6 7 8" } },
    { .op = "SpaceToDepth",
      .attributes = "blocksize=2",
      .in = { "f32 1 1 2 2: 1 2 3 4" },
      .out = { "f32 1 4 1 1: 1 2 3 4" } },
    { .op = "CumSum", .in = { "f32 3: 1 2 4", "=i64: 0" }, .out = { "f32 3: 1 3 7" } },
    { .op = "CumSum",
      .attributes = "reverse=1 exclusive=1",
      .in = { "f32 3: 1 2 4", "=i64: 0" },
      .out = { "f32 3: 6 4 0" } },
    { .op = "AveragePool",
      .attributes = "kernel_shape=[2] pads=[1,0]",
      .in = { "f32 1 1 3: 2 4 6" },
      .out = { "f32 1 1 3: 2 3 5" } },
    { .op = "AveragePool",
      .attributes = "kernel_shape=[2] pads=[1,0] count_include_pad=1",
      .in = { "f32 1 1 3: 2 4 6" },
      .out = { "f32 1 1 3: 1 3 5" } },
    { .op = "MaxPool",
      .attributes = "kernel_shape=[2,1,2]",
      .in = { "f32 1 1 2 1 3: 1 5 2 3 4 6" },
      .out = { "f32 1 1 1 1 2: 5 6" } },
    { .op = "Resize",
      .attributes = "mode=linear coordinate_transformation_mode=align_corners",
      .in = { "f32 2: 0 4", "-", "-", "=i64 1: 5" },
      .out = { "f32 5: 0 1 2 3 4" } },
    { .op = "Resize",
      .attributes = "mode=linear coordinate_transformation_mode=tf_crop_and_resize "
                    "extrapolation_value=9f",
      .in = { "f32 2: 0 4", "=f32 2: 0 2", "-", "=i64 1: 3" },
      .out = { "f32 3: 0 4 9" } },
    { .op = "ReduceSum",
      .attributes = "noop_with_empty_axes=1",
      .in = { "f32 2 2: 1 -2 3 4" },
      .out = { "f32 2 2: 1 -2 3 4" } },
    /* a constant of more dimensions than the computed value */
    { .op = "Max", .in = { "f32 2: 1 -2", "=f32 2 1: 0 -1" }, .out = { "f32 2 2: 1 0 1 -1" } },
};

static double largest_of(const float *a, const float *b, int64_t n)
{
    double apart = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        apart = fmax(apart, fabs((double)a[i] - (double)b[i]));
        most = fmax(most, fabs((double)b[i]));
    }
    return most > 0 ? apart / most : apart;
}

/* What an imported file without a batch gives for the case's first input, as a batch of two. */
static void run(const onnx_case *c, const float *wanted, int64_t n, bool exports)
{
    const dt_onnx_options o = { .no_batch = true };
    const DtOnnx__Tensor *from = onnx_tensor(c->in[0], "");
    dt_module *m;
    dt_model_info info;
    dt_tensor *x;
    dt_tape *t;
    int64_t dims[DT_MAX_RANK] = { 2 };
    write_case(c, false);
    ck_assert_msg(dt_onnx_import(ctx, path, &o, &m, &info) == DT_OK, "%s: %s", c->op,
                  dt_error(ctx));
    for (size_t i = 0; i < from->n_dims; i++) dims[i + 1] = from->dims[i];
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, (int)from->n_dims + 1, dims, &x));
    for (int k = 0; k < 2; k++) {
        memcpy((char *)dt_data_mut(x) + (size_t)k * from->raw_data.len, from->raw_data.data,
               from->raw_data.len);
    }
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    const dt_tensor *y = dt_contiguous(t, dt_forward(t, m, x));
    TEST_OK(ctx, dt_tape_status(t));
    ck_assert_msg(dt_count(y) == 2 * n, "%s: %lld values", c->op, (long long)dt_count(y));
    for (int k = 0; k < 2; k++) {
        const double apart = largest_of((const float *)dt_data(y) + k * n, wanted, n);
        ck_assert_msg(apart <= NEAR, "%s %s: %g apart", c->op,
                      c->attributes == NULL ? "" : c->attributes, apart);
    }
    dt_tape_free(t);
    if (exports) {
        dt_export_summary summary;
        dt_export_difference d[DT_MAX_OUT];
        int outputs;
        TEST_OK(ctx, dt_export(m, &info, "onnx", NULL, again, &summary));
        TEST_OK(ctx, dt_export_verify(m, &info, again, d, &outputs));
        ck_assert_msg(d[0].relative <= 1e-5, "%s: %g apart after an export", c->op, d[0].relative);
        remove(again);
    }
    dt_tensor_free(x);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    onnx_forget();
}

START_TEST(known_values)
{
    const onnx_case *c = &known[_i];
    float wanted[64];
    const DtOnnx__Tensor *out = onnx_tensor(c->out[0], "");
    const size_t n = out->raw_data.len / sizeof *wanted;
    ck_assert_uint_le(n, DT__COUNT_OF(wanted));
    memcpy(wanted, out->raw_data.data, out->raw_data.len);
    run(c, wanted, (int64_t)n, true);
}
END_TEST

/* ---- drawn interpolations -------------------------------------------------------------------- */

/* Element o of n_out of a row of n, by the formulas of Resize; NAN: near a tie of roundings. */
static double interpolated(const float *x, int n, int n_out, int o, const int how[3])
{
    const int mode = how[0], way = how[1], rounding = how[2];
    const double scale = (double)n_out / n, half = (o + 0.5) / scale - 0.5;
    const double at = way == 0   ? half
                      : way == 1 ? (n_out == 1 ? 0 : (double)o * (n - 1) / (n_out - 1))
                      : way == 2 ? o / scale
                                 : (o + 0.5) / scale;
    double sum = 0;
    if (mode == 0) {
        const double down = floor(at), rest = at - down, tie = rounding < 2 ? 0.5 : round(rest);
        const bool ceils = rounding == 3 && rest > 0, middle = rest + (rounding == 1) * 1e-9 > 0.5;
        if (fabs(rest - tie) < 1e-3 && (rest != tie || scale != (double)(float)scale)) return NAN;
        const double i = (rounding < 2 ? middle : ceils) ? down + 1 : down;
        return (double)x[i < 0 ? 0 : i > n - 1 ? n - 1 : (int)i];
    }
    for (int i = (int)floor(at) - 2; i <= (int)floor(at) + 3; i++) {
        const double d = fabs(i - at), a = -0.75;
        const double cubic = d <= 1  ? ((a + 2) * d - (a + 3)) * d * d + 1
                             : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
                                     : 0;
        const double k = mode == 1 ? fmax(0, 1 - d) : cubic;
        sum += k * (double)x[i < 0 ? 0 : i > n - 1 ? n - 1 : i];
    }
    return sum;
}

static void draw_interpolation(int k)
{
    static const char *const modes[] = { "nearest", "linear", "cubic" };
    static const char *const ways[] = { "half_pixel", "align_corners", "asymmetric",
                                        "tf_half_pixel_for_nn" };
    static const char *const roundings[] = { "round_prefer_floor", "round_prefer_ceil", "floor",
                                             "ceil" };
    const int n = 2 + draw(5), n_out = 2 + draw(9), how[] = { draw(3), draw(4), draw(4) };
    float x[2][8], wanted[24]; /* of two rows, which stay */
    char in[400], sizes[40], with[200];
    int used = snprintf(in, sizeof in, "f32 2 %d:", n);
    bool clear = n != n_out;
    for (int i = 0; i < 2 * n; i++) {
        float *to = &x[i / n][i % n];
        *to = (float)(draw(1000) / 100.0 - 5);
        used += snprintf(in + used, sizeof in - (size_t)used, " %.9g", (double)*to);
    }
    for (int o = 0; o < 2 * n_out; o++) {
        const double y = interpolated(x[o / n_out], n, n_out, o % n_out, how);
        clear &= !isnan(y);
        wanted[o] = (float)y;
    }
    if (!clear) return;
    snprintf(sizes, sizeof sizes, "=i64 2: 2 %d", n_out);
    snprintf(with, sizeof with, "mode=%s coordinate_transformation_mode=%s nearest_mode=%s",
             modes[how[0]], ways[how[1]], roundings[how[2]]);
    const onnx_case c = {
        .op = "Resize", .attributes = with, .in = { in, "-", "-", sizes }, .out = { "f32 1: 0" }
    };
    run(&c, wanted, 2 * n_out, k % 8 == 0);
}

START_TEST(interpolations)
{
    const int64_t draws = test_count((test_draws){ .usual = 300, .sanitized = 12, .quick = 60 });
    state = 5;
    for (int k = 0; k < draws; k++) draw_interpolation(k);
}
END_TEST

/* ---- drawn pools, cuts and choices ----------------------------------------------------------- */

static void draw_pool(char *with, size_t room)
{
    snprintf(with, room, "kernel_shape=[%d,%d] strides=[%d,%d] pads=[%d,%d,%d,%d] ceil_mode=%d",
             1 + draw(3), 1 + draw(3), 1 + draw(3), 1 + draw(3), draw(3), draw(3), draw(3), draw(3),
             draw(2));
}

/* A node behind an image of 1 x 5 x 6, whose constants are c0, c1, ... */
static const char *draw_case(onnx_case *c, char text[4][100])
{
    const int kind = draw(6);
    const int at = 2 + draw(2), step = draw(2) ? 1 + draw(2) : -1 - draw(2);
    switch (kind) {
    case 0: c->op = "MaxPool"; break;
    case 1:
    case 2: c->op = "AveragePool"; break;
    case 3:
        c->op = "Slice";
        snprintf(text[1], 100, "=i64 1: %d", draw(9) - 4);
        snprintf(text[2], 100, "=i64 1: %d", draw(14) - 7);
        snprintf(text[3], 100, "=i64 1: %d", at);
        snprintf(text[0], 100, "=i64 1: %d", step);
        for (int i = 1; i < 4; i++) c->in[i] = text[i];
        c->in[4] = text[0];
        return c->op;
    case 4:
        c->op = "Gather";
        snprintf(text[0], 100, "axis=%d", at);
        snprintf(text[1], 100, "=i64 3: %d %d %d", draw(9) - 4, draw(9) - 4, draw(9) - 4);
        c->in[1] = text[1];
        break;
    default:
        c->op = "Tile";
        snprintf(text[1], 100, "=i64 4: 1 %d %d %d", 1 + draw(2), 1 + draw(2), 1 + draw(3));
        c->in[1] = text[1];
        return c->op;
    }
    if (kind < 3) draw_pool(text[0], 100);
    if (kind == 2) strcat(text[0], " count_include_pad=1");
    c->attributes = text[0];
    return c->op;
}

START_TEST(drawn_nodes)
{
    static const char image[] = "f32 1 1 5 6: 1 -2 3 4 5 -6 7 8 9 1 -2 3 4 5 6 7 8 -9 -1 -2 -3 -4 "
                                "-5 -6 7 8 9 1 2 3";
    const int64_t draws = test_count((test_draws){ .usual = 600, .sanitized = 24, .quick = 100 });
    int64_t equal = 0, refused = 0;
    state = 11;
    for (int64_t k = 0; k < draws; k++) {
        char text[4][100] = { "" };
        onnx_case c = { .in = { image }, .out = { "f32 1 1 1 1: 0" } };
        dt_module *m;
        dt_model_info info;
        dt_export_difference d[DT_MAX_OUT];
        int n;
        draw_case(&c, text);
        write_case(&c, true);
        if (dt_onnx_import(ctx, path, NULL, &m, &info) != DT_OK) {
            ck_assert_int_eq(dt_error_status(ctx), DT_ERR_UNSUPPORTED);
            refused++;
            onnx_forget();
            continue;
        }
        const dt_status s = dt_export_verify(m, &info, path, d, &n);
        ck_assert_msg(s != DT_OK || d[0].equal == d[0].values || d[0].relative <= NEAR,
                      "draw %lld: %s %s: %g apart", (long long)k, c.op, text[0], d[0].relative);
        equal += s == DT_OK;
        dt_model_info_free(ctx, &info);
        dt_module_free(m);
        onnx_forget();
    }
    printf("onnx_structure: %lld equal, %lld refused\n", (long long)equal, (long long)refused);
    ck_assert_int_gt(equal, draws / 4);
}
END_TEST

/* SAME of a transposed convolution cuts its result to stride times the extent; where it is shorter,
 * programs differ. */
static bool draw_same(void)
{
    const float x[] = { 1, 10, -100, 7 }, w[] = { 2, -3, 5 };
    const int kernel = 1 + draw(3), dilation = 1 + draw(2), stride = 1 + draw(4);
    const bool upper = draw(2);
    const int more = (kernel - 1) * dilation + 1 - stride,
              before = upper ? more / 2 : more - more / 2;
    float wanted[16] = { 0 };
    char with[100], weight[60];
    snprintf(with, sizeof with, "auto_pad=SAME_%s strides=[%d] dilations=[%d]",
             upper ? "UPPER" : "LOWER", stride, dilation);
    snprintf(weight, sizeof weight, "=f32 1 1 %d: 2%s%s", kernel, kernel > 1 ? " -3" : "",
             kernel > 2 ? " 5" : "");
    const onnx_case c = { .op = "ConvTranspose",
                          .attributes = with,
                          .in = { "f32 1 1 4: 1 10 -100 7", weight },
                          .out = { "f32 1 1 1: 0" } };
    if (more < 0) {
        const dt_onnx_options o = { .no_batch = true };
        dt_module *m;
        write_case(&c, false);
        TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "SAME in several ways",
                   dt_onnx_import(ctx, path, &o, &m, NULL));
        onnx_forget();
        return false;
    }
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < kernel; k++) {
            const int at = i * stride + k * dilation - before;
            if (at >= 0 && at < 4 * stride) wanted[at] += x[i] * w[k];
        }
    }
    run(&c, wanted, 4 * stride, false);
    return true;
}

START_TEST(same_of_transposed_convolutions)
{
    const int64_t draws = test_count((test_draws){ .usual = 80, .sanitized = 20 });
    int64_t read = 0;
    state = 13;
    for (int64_t k = 0; k < draws; k++) read += draw_same();
    ck_assert(read > 0 && read < draws);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

static const struct {
    onnx_case c;
    bool no_batch;
    const char *says;
} bad[] = {
    { { .op = "Slice",
        .in = { "f32 2 3: 0 0 0 0 0 0", "=i64 1: 0", "=i64 1: 1", "=i64 1: 0" },
        .out = { "f32 1 3: 0 0 0" } },
      false,
      "it changes the batch dimension, which must stay" },
    { { .op = "Slice",
        .in = { "f32 2: 0 0", "=i64 1: 0", "=i64 1: 2", "=i64 1: 0", "=i64 1: 0" },
        .out = { "f32 2: 0 0" } },
      true,
      "it has a step of 0" },
    { { .op = "Trilu", .in = { "f32 2: 0 0" }, .out = { "f32 2: 0 0" } },
      true,
      "its input has rank 1" },
    { { .op = "GatherElements",
        .in = { "f32 2 2: 0 0 0 0", "=i64 1 2: 0 0" },
        .out = { "f32 1 2: 0 0" } },
      false,
      "--batch none" },
    { { .op = "GatherElements", .in = { "f32 2: 0 0", "=i64 1: 2" }, .out = { "f32 1: 0" } },
      true,
      "index 2 is not one of 2" },
    { { .op = "ScatterElements",
        .in = { "f32 2: 0 0", "=i64 2: 1 1", "=f32 2: 0 0" },
        .out = { "f32 2: 0 0" } },
      true,
      "a place is updated twice" },
    { { .op = "Conv",
        .in = { "f32 2 1 3: 0 0 0 0 0 0", "=f32 1 1 1: 1" },
        .out = { "f32 2 1 3: 0 0 0 0 0 0" } },
      true,
      "read without one" },
    { { .op = "Resize",
        .attributes = "mode=nearest nearest_mode=floor",
        .in = { "f32 10: 0 0 0 0 0 0 0 0 0 0", "-", "=f32 1: 0.7" },
        .out = { "f32 7: 0 0 0 0 0 0 0" } },
      true,
      "no clear number" },
    { { .op = "Resize",
        .attributes = "mode=linear coordinate_transformation_mode=align_corners",
        .in = { "f32 4: 0 0 0 0", "-", "=f32 1: 0.6" },
        .out = { "f32 2: 0 0" } },
      true,
      "in several ways" },
    { { .op = "Resize",
        .attributes = "mode=linear",
        .in = { "f32 3: 0 0 0", "-", "=f32 1: 1.25" },
        .out = { "f32 3: 0 0 0" } },
      true,
      "without a change of extents" },
    { { .op = "Resize",
        .attributes = "nearest_mode=floor coordinate_transformation_mode=half_pixel_symmetric",
        .in = { "f32 3: 0 0 0", "-", "-", "=i64 1: 1" },
        .out = { "f32 1: 0" } },
      true,
      "programs round" },
    { { .op = "Resize",
        .attributes = "mode=linear axes=[-1] keep_aspect_ratio_policy=not_larger",
        .in = { "f32 3: 0 0 0", "-", "-", "=i64 1: 6" },
        .out = { "f32 6: 0 0 0 0 0 0" } },
      true,
      "axes below 0" },
    { { .op = "ReduceL1",
        .attributes = "noop_with_empty_axes=1",
        .in = { "f32 2 2: 0 0 0 0" },
        .out = { "f32 2 2: 0 0 0 0" } },
      true,
      "noop_with_empty_axes" },
    { { .op = "ReduceLogSumExp",
        .attributes = "noop_with_empty_axes=1",
        .in = { "f32 2 2: 0 0 0 0", "=i64 0:" },
        .out = { "f32 2 2: 0 0 0 0" } },
      true,
      "noop_with_empty_axes" },
    { { .op = "MaxPool",
        .attributes = "kernel_shape=[1] pads=[1,0]",
        .in = { "f32 1 1 2: 0 0" },
        .out = { "f32 1 1 3: 0 0 0" } },
      false,
      "covers only padding" },
    { { .op = "DepthToSpace",
        .attributes = "blocksize=2",
        .in = { "f32 1 3 1 1: 0 0 0" },
        .out = { "f32 1 1 1 1: 0" } },
      false,
      "does not divide the channels" },
    { { .op = "Tile", .in = { "f32 2 1: 0 0", "=i64 2: 2 1" }, .out = { "f32 4 1: 0 0 0 0" } },
      false,
      "it changes the batch dimension, which must stay" },
};

START_TEST(refusals)
{
    const dt_onnx_options o = { .no_batch = bad[_i].no_batch };
    dt_module *m;
    write_case(&bad[_i].c, false);
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, bad[_i].says, dt_onnx_import(ctx, path, &o, &m, NULL));
}
END_TEST

Suite *test_onnx_structure_suite(void)
{
    Suite *s = suite_create("onnx_structure");
    TCase *c = tcase_create("onnx_structure");
    tcase_add_checked_fixture(c, begin, end);
    tcase_add_loop_test(c, known_values, 0, DT__COUNT_OF(known));
    tcase_add_test(c, interpolations);
    tcase_add_test(c, drawn_nodes);
    tcase_add_test(c, same_of_transposed_convolutions);
    tcase_add_loop_test(c, refusals, 0, DT__COUNT_OF(bad));
    suite_add_tcase(s, c);
    return s;
}
