/* Biases of static int8 models as int32 (--ops qdq): layers whose weights are small or 0 beside
 * their biases, and biases of any size. The file is within the bound of docs/export.md of the
 * model, and names each layer whose weights it writes with a larger scale. */
#include "testing.h"

#include "core/tensor.h"
#include "export/exporters.h"
#include "io/onnx/interpret/interpret.h"

#include <detent/experimental/nn.h>
#include <detent/ops.h>
#include <detent/qat.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const test_draws draws = { .usual = 300, .quick = 100, .sanitized = 12 };

static int64_t below(uint64_t *state, int64_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*state >> 33) % (uint64_t)n);
}

static double real(uint64_t *state, double least, double most)
{
    return least + (most - least) * (double)below(state, 1 << 24) * 0x1p-24;
}

typedef struct layer {
    int kind; /* linear, conv2d, conv1d, conv_transpose2d */
    int64_t in, out, kernel, columns;
    dt_module *m; /* a sequence of it alone */
    dt_tensor *x;
} layer;

static layer layer_of(dt_ctx *ctx, uint64_t *state)
{
    layer l = { .kind = (int)below(state, 4) };
    dt_module *part;
    l.in = 1 + below(state, 5);
    l.out = 1 + below(state, 5);
    l.kernel = l.kind == 0 ? 1 : 1 + below(state, 3);
    dt_conv_layer conv = { l.in, l.out, { l.kernel, l.kernel }, true, dt_conv_defaults() };
    const int64_t dims[] = { 3, l.in, 4, 5 };
    TEST_OK(ctx, l.kind == 0   ? dt_linear_create(ctx, l.in, l.out, true, &part)
                 : l.kind == 1 ? dt_conv2d_create(ctx, &conv, &part)
                 : l.kind == 2 ? dt_conv1d_create(ctx, &conv, &part)
                               : dt_conv_transpose2d_create(ctx, &conv, &part));
    TEST_OK(ctx, dt_sequential_create(ctx, &l.m));
    TEST_OK(ctx, dt_module_add(l.m, "layer", part));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, l.kind == 0 ? 2 : l.kind == 2 ? 3 : 4, dims, &l.x));
    float *x = dt_data_mut(l.x); /* values of codes: none lies between two */
    for (int64_t i = 0; i < dt_count(l.x); i++) {
        x[i] = (float)((i == 0 ? 0 : i == 1 ? 255 : below(state, 256)) - 102) / 255;
    }
    const int64_t taps = l.kind == 0 ? 1 : l.kind == 2 ? l.kernel : l.kernel * l.kernel;
    l.columns = l.in * taps;
    float *w = dt_data_mut(dt_param(part, "weight")), *b = dt_data_mut(dt_param(part, "bias"));
    for (int64_t o = 0; o < l.out; o++) {
        const int64_t kind = below(state, 3);
        const double by = kind == 0 ? 0 : kind == 1 ? pow(10, real(state, -37, 0)) : 1;
        for (int64_t k = 0; k < l.columns; k++) {
            const int64_t at =
                l.kind < 3 ? o * l.columns + k : (k / taps * l.out + o) * taps + k % taps;
            w[at] = (float)(by * real(state, -1, 1));
        }
        const double size = below(state, 3) == 0 ? pow(10, real(state, -9, 6)) : 1;
        b[o] = (float)(size * real(state, -1, 1));
    }
    return l;
}

static void prepare(dt_ctx *ctx, const layer *l)
{
    dt_qat_options o = dt_qat_defaults();
    dt_tape *t;
    o.preset = DT_INT8_STATIC_INT8_WEIGHT;
    o.weight.quant.scheme = DT_SCHEME_NARROW; /* no codes of -128, which the file has not */
    o.weight.has_scheme = true;
    TEST_OK(ctx, dt_prepare(l->m, &o));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_train(l->m, true);
    dt_forward(t, l->m, l->x);
    TEST_OK(ctx, dt_tape_status(t));
    dt_tape_free(t);
    TEST_OK(ctx, dt_convert(l->m, NULL, NULL));
}

static void count_note(void *user, const char *line)
{
    if (strstr(line, "larger scale") != NULL) ++*(int64_t *)user;
}

static void write_file(dt_ctx *ctx, const layer *l, const char *path, int64_t *notes)
{
    dt_trace_input in = { .dtype = DT_F32, .rank = dt_rank(l->x), .dims = { 1 } };
    dt_export_options o = dt_export_defaults();
    dt_export_summary summary;
    dt_trace *t;
    for (int d = 1; d < in.rank; d++) in.dims[d] = l->x->dims[d];
    TEST_OK(ctx,
            dt_trace_create(l->m,
                            &(dt_trace_options){ .input = &in,
                                                 .n_inputs = 1,
                                                 .becomes = dt_exporter_named("onnx")->becomes },
                            &t));
    o.onnx_ops = DT_ONNX_QDQ;
    o.note = count_note;
    o.user = notes;
    const dt_export_call call = {
        .ctx = ctx, .m = l->m, .trace = t, .options = &o, .path = path, .summary = &summary
    };
    TEST_OK(ctx, dt_exporter_named("onnx")->write(&call));
    dt_trace_free(t);
}

/* Of each output s_x s_w / 2 by rounding its bias, and C |b| 2^-22 where its scale is enlarged. */
static void compare(const layer *l, const float *got, const dt_tensor *y, const float *w,
                    const float *b)
{
    const int64_t pixels = y->count / y->dims[0] / l->out;
    const float *want = dt_data(y);
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t o = i / pixels % l->out;
        double largest = 0, sum = fabs((double)b[o]);
        for (int64_t k = 0; k < l->columns; k++) {
            const double v = fabs((double)w[o * l->columns + k]);
            largest = fmax(largest, v);
            sum += v;
        }
        const double bound = (double)l->columns * fabs((double)b[o]) * 0x1p-22 +
                             1.01 / 255 * largest / 127 / 2 + 1e-6 * sum;
        const double off = fabs((double)got[i] - (double)want[i]);
        TEST_EACH(off <= bound, "kind %d, output %lld: %g off, %g allowed (weights %g, bias %g)",
                  l->kind, (long long)o, off, bound, largest, (double)b[o]);
    }
}

static void check(dt_ctx *ctx, uint64_t *state, const char *path, int64_t *notes)
{
    dt_tape *t;
    dt__verify *v;
    layer l = layer_of(ctx, state);
    const dt_tensor *weight = dt_param(l.m, "layer.weight");
    const int64_t n = l.out * l.columns, taps = l.columns / l.in;
    float *w = malloc((size_t)n * sizeof *w), *b = malloc((size_t)l.out * sizeof *b);
    for (int64_t i = 0; i < n; i++) { /* rows first */
        const int64_t o = i / l.columns, k = i % l.columns;
        const int64_t turned = (k / taps * l.out + o) * taps + k % taps;
        w[i] = ((const float *)dt_data(weight))[l.kind < 3 ? i : turned];
    }
    memcpy(b, dt_data(dt_param(l.m, "layer.bias")), (size_t)l.out * sizeof *b);
    prepare(ctx, &l);
    write_file(ctx, &l, path, notes);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_train(l.m, false);
    const dt_tensor *y = dt_forward(t, l.m, l.x);
    TEST_OK(ctx, dt_tape_status(t));
    TEST_OK(ctx, dt__verify_open(ctx, path, NULL, &v));
    dt__verify_named x = {
        dt__verify_input_name(v, 0),
        { .type = DT__VERIFY_F32, .rank = l.x->rank, .count = l.x->count, .data = dt_data_mut(l.x) }
    };
    memcpy(x.value.dims, l.x->dims, sizeof x.value.dims);
    TEST_OK(ctx, dt__verify_run(v, &x, 1));
    compare(&l, dt__verify_output(v, 0)->data, y, w, b);
    dt__verify_close(v);
    dt_tape_free(t);
    dt_tensor_free(l.x);
    dt_module_free(l.m);
    free(w);
    free(b);
}

START_TEST(files_are_near)
{
    char path[TEST_PATH];
    dt_ctx *ctx;
    uint64_t state = 21;
    int64_t notes = 0;
    test_folder(path);
    test_join(path, path, "layer.onnx");
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    for (int64_t i = 0; i < test_count(draws); i++) check(ctx, &state, path, &notes);
    ck_assert_int_gt(notes, 0);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_qdq_biases_suite(void)
{
    Suite *s = suite_create("qdq_biases");
    TCase *c = tcase_create("biases");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, files_are_near);
    suite_add_tcase(s, c);
    return s;
}
