/* Views as results: everything that reads the elements of a tensor gets them in row-major order, or
 * refuses the tensor. Networks that end with every kind of layer, and views behind it, are compared
 * with plain loops over indices and with the same networks whose results are copied. */
#include "array_files.h"
#include "fault_runs.h"
#include "plain_arrays.h"
#include "run_jobs.h"

#include "core/tensor.h"

#include <detent/experimental/export.h>
#include <detent/experimental/layers.h>
#include <detent/experimental/ops.h>
#include <detent/qat.h>
#include <detent/experimental/text.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static dt_tape *t;
static char folder[TEST_PATH];

static void setup(void)
{
    ctx = sample_context(1);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    test_folder(folder);
}

static void teardown(void)
{
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

static int64_t pick(dt__stream *s, int64_t least, int64_t most)
{
    return least + (int64_t)dt__random_below(s, (uint64_t)(most - least + 1));
}

static void same_values(const char *what, const dt_tensor *x, const plain_array *a)
{
    const float *v = dt_data(x);
    ck_assert_msg(v != NULL, "%s: %s", what, dt_error(dt_ctx_of(x)));
    ck_assert_msg(dt_count(x) == a->count && dt_rank(x) == a->rank, "%s: another shape", what);
    for (int d = 0; d < a->rank; d++) ck_assert_int_eq(dt_dim(x, d), a->dims[d]);
    TEST_EACH(memcmp(v, a->v, (size_t)a->count * sizeof *v) == 0, "%s: other values", what);
}

/* ---- pointers ------------------------------------------------------------------------------- */

/* A tensor of drawn shape with numbers 1, 2, ..., and views of it made by ops. */
static dt_tensor *draw_view(dt__stream *s, dt_tensor **base)
{
    const int rank = (int)pick(s, 1, 4);
    int64_t dims[4], order[4];
    for (int d = 0; d < rank; d++) dims[d] = pick(s, 1, 4);
    for (int d = 0; d < rank; d++) order[d] = (d + rank - 1) % rank;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank, dims, base));
    float *v = dt_data_mut(*base);
    for (int64_t i = 0; i < dt_count(*base); i++) v[i] = (float)(i + 1);
    dt_set_requires_grad(*base, true);
    dt_tensor *y = pick(s, 0, 1) == 0 ? dt_permute(t, *base, order) : *base;
    const int d = (int)pick(s, 0, rank - 1);
    const int64_t first = pick(s, 0, dt_dim(y, d) - 1);
    const dt_slice_options cut = { .dims = { 1, { d } },
                                   .starts = { 1, { first } },
                                   .stops = { 1, { dt_dim(y, d) } },
                                   .steps = { 1, { pick(s, 1, 2) } } };
    return pick(s, 0, 2) > 0 ? dt_slice(t, y, &cut) : y;
}

START_TEST(pointers_are_in_order_or_refused)
{
    static plain_array wanted;
    dt__stream s = dt__stream_of(7, DT__FOR_USER);
    int strided = 0;
    for (int i = 0; i < 200; i++) {
        dt_tensor *base, *copy;
        dt_tape_reset(t);
        dt_tensor *y = draw_view(&s, &base);
        plain_of(y, &wanted);
        if (dt_is_contiguous(y)) {
            ck_assert_ptr_eq(dt_contiguous(t, y), y);
        } else {
            strided++;
            ck_assert_ptr_null(dt_data(y));
            ck_assert_int_eq(dt_error_status(ctx), DT_ERR_STATE);
            ck_assert_ptr_nonnull(strstr(dt_error(ctx), "dt_tensor_contiguous"));
            ck_assert_ptr_null(dt_data_mut(y));
            ck_assert_ptr_nonnull(dt_strided_data_mut(y));
        }
        same_values("dt_contiguous", dt_contiguous(t, y), &wanted);
        TEST_OK(ctx, dt_tensor_contiguous(y, &copy));
        same_values("dt_tensor_contiguous", copy, &wanted);
        dt_tensor_free(copy);
        dt_tensor_free(base);
    }
    ck_assert_int_gt(strided, 50);
}
END_TEST

/* The gradient passes a copy unchanged. */
START_TEST(gradients_pass_copies)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 3, 4 }, &x));
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    TEST_OK(ctx, dt_fill(x, 2));
    dt_tensor *y = dt_contiguous(t, dt_transpose(t, x, 0, 1));
    TEST_OK(ctx, dt_backward(t, dt_sum(t, dt_square(t, y), NULL), NULL));
    const float *g = dt_data(dt_grad(x));
    for (int i = 0; i < 12; i++) ck_assert_float_eq(g[i], 4);
    dt_tensor_free(x);
}
END_TEST

START_TEST(wrappers_and_other_dtypes)
{
    dt_tensor *x, *view, *copy;
    int64_t v[12];
    for (int i = 0; i < 12; i++) v[i] = (int64_t)i << 40;
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I64, 3, (const int64_t[]){ 2, 3, 2 }, v, &x));
    TEST_OK(ctx, dt_tensor_narrow(x, 1, 1, 2, &view));
    TEST_OK(ctx, dt_tensor_contiguous(view, &copy));
    const int64_t wanted[] = { v[2], v[3], v[4], v[5], v[8], v[9], v[10], v[11] };
    ck_assert_mem_eq(dt_data(copy), wanted, sizeof wanted);
    TEST_FAILS(ctx, DT_ERR_ARG, "NULL", dt_tensor_contiguous(view, NULL));
    TEST_FAILS(NULL, DT_ERR_ARG, "", dt_tensor_contiguous(NULL, &x));
    dt_tensor_free(view);
    dt_tensor_free(copy);
    TEST_OK(ctx, dt_tensor_create(ctx, DT_I4, 1, (const int64_t[]){ 2 }, &view));
    TEST_FAILS(ctx, DT_ERR_STATE, "opaque", dt_tensor_contiguous(view, &copy));
    dt_tensor_free(view);
    dt_tensor_free(x);
}
END_TEST

/* A parameter that is a view would be read in memory order by everything that stores or writes
 * models. */
START_TEST(parameters_are_contiguous)
{
    static const dt_module_type type = { .name = "nothing" };
    dt_module *m;
    dt_tensor *x, *view;
    TEST_OK(ctx, dt_module_create(ctx, &type, 0, &m));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 3, 4 }, &x));
    TEST_OK(ctx, dt_tensor_narrow(x, 1, 1, 2, &view));
    TEST_FAILS(ctx, DT_ERR_STATE, "dt_tensor_contiguous", dt_module_add_param(m, "w", view));
    TEST_OK(ctx, dt_tensor_narrow(x, 1, 1, 2, &view));
    TEST_FAILS(ctx, DT_ERR_STATE, "'b' is a view", dt_module_add_buffer(m, "b", view));
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* ---- every kind of layer, with views behind it ---------------------------------------------- */

typedef struct body {
    const char *kind, *input, *layers;
} body;

#define JOINED(kind, more)                                                                         \
    {                                                                                              \
#kind, "[3, 6]",                                                                           \
            "  - {linear: a, out: 5}\n  - {linear: b, from: input, out: 5}\n  - {" #kind           \
            ": j, from: [a, b]" more "}\n"                                                         \
    }
#define IMAGES(kind, more)                                                                         \
    {                                                                                              \
#kind, "[4, 6, 5]", "  - {conv2d: c, out: 4, padding: 1}\n  - {" #kind ": k" more "}\n"    \
    }
#define SIGNALS(kind, more)                                                                        \
    {                                                                                              \
#kind, "[3, 9]", "  - {conv1d: c, out: 4}\n  - {" #kind ": k" more "}\n"                   \
    }
#define ROWS(kind, more)                                                                           \
    {                                                                                              \
#kind, "[4, 6]", "  - {linear: l, out: 5}\n  - {" #kind ": k" more "}\n"                   \
    }

#define POSITIVE(kind)                                                                             \
    {                                                                                              \
#kind, "[4, 6]", "  - {linear: l, out: 5, activation: sigmoid}\n  - {" #kind ": k}\n"      \
    }

static const body bodies[] = {
    ROWS(linear, ", out: 4"),
    SIGNALS(conv1d, ", out: 5"),
    IMAGES(conv2d, ", out: 3"),
    SIGNALS(conv_transpose1d, ", out: 3, stride: 2, output_padding: 1"),
    IMAGES(conv_transpose2d, ", out: 3, stride: 2, padding: 1, output_padding: 1"),
    ROWS(rnn, ", hidden: 3, reverse: true"),
    ROWS(gru, ", hidden: 3, bidirectional: true"),
    ROWS(lstm, ", hidden: 4"),
    SIGNALS(batch_norm1d, ""),
    IMAGES(batch_norm2d, ""),
    IMAGES(group_norm, ", groups: 2"),
    ROWS(layer_norm, ""),
    ROWS(rms_norm, ""),
    IMAGES(prelu, ""),
    ROWS(softmax, ""),
    ROWS(log_softmax, ""),
    { "embedding", "[4, 6]",
      "  - {linear: l, out: 5}\n  - sign\n  - relu\n  - {embedding: k, count: 2, width: 3}\n" },
    ROWS(affine, ""),
    IMAGES(mix, ", dim: 2, out: 5"),
    SIGNALS(max_pool1d, ", kernel: 3, stride: 1"),
    IMAGES(max_pool2d, ", kernel: 2, stride: 1"),
    SIGNALS(avg_pool1d, ", kernel: 2, stride: 1"),
    IMAGES(avg_pool2d, ", kernel: 3, stride: 1"),
    SIGNALS(adaptive_avg_pool1d, ", size: 3"),
    IMAGES(adaptive_avg_pool2d, ", size: [3, 2]"),
    SIGNALS(global_avg_pool1d, ""),
    IMAGES(global_avg_pool2d, ""),
    IMAGES(squeeze_excitation, ", squeeze: 2"),
    IMAGES(upsample_nearest, ""),
    ROWS(dropout, ""),
    IMAGES(fake_quant, ", scale: 0.25"),
    SIGNALS(flatten, ""),
    SIGNALS(reshape, ", shape: [7, 2, 2]"),
    IMAGES(permute, ", dims: [0, 3, 1, 2]"),
    IMAGES(slice, ", dim: 3, start: 1, stop: 4"),
    IMAGES(pad, ", pads: [1, 0, 2, 1]"),
    JOINED(add, ""),
    JOINED(sub, ""),
    JOINED(mul, ""),
    JOINED(concat, ", dim: 2"),
    ROWS(div, ", second: [5]"),
    JOINED(maximum, ""),
    JOINED(minimum, ""),
    JOINED(greater, ""),
    JOINED(equal, ""),
    { "where", "[3, 6]",
      "  - {linear: a, out: 5}\n  - {linear: b, from: input, out: 5}\n"
      "  - {where: j, from: [a, a, b]}\n" },
    ROWS(matmul, ", first: [2, 4]"),
    ROWS(sum, ", dims: [1], keepdim: true"),
    ROWS(mean, ", dims: [-1], keepdim: true"),
    ROWS(amax, ", dims: [1], keepdim: true"),
    ROWS(amin, ", dims: [-1], keepdim: true"),
    ROWS(prod, ", dims: [1], keepdim: true"),
    ROWS(l2_norm, ", dims: [-1], keepdim: true"),
    ROWS(logsumexp, ", dims: [-1], keepdim: true"),
    ROWS(exp, ""),
    POSITIVE(log),
    POSITIVE(sqrt),
    ROWS(square, ""),
    ROWS(neg, ""),
    ROWS(abs, ""),
    POSITIVE(reciprocal),
    ROWS(erf, ""),
    ROWS(sign, ""),
    ROWS(floor, ""),
    ROWS(ceil, ""),
    ROWS(round, ""),
    ROWS(softplus, ""),
    ROWS(softsign, ""),
    ROWS(mish, ""),
    ROWS(clamp, ", min: -0.25"),
    ROWS(pow, ", exponent: 3"),
};

#define BODIES DT__COUNT_OF(bodies)

START_TEST(bodies_are_all_kinds_of_layers)
{
    static const char *const kinds[] = {
#define DT__LAYER(kind) #kind,
#include "nn/lists/layers.inc"
#undef DT__LAYER
    };
    ck_assert_int_eq(DT__COUNT_OF(kinds), BODIES);
    for (int i = 0; i < BODIES; i++) ck_assert_str_eq(kinds[i], bodies[i].kind);
}
END_TEST

typedef struct network {
    dt_recipe *recipe;
    dt_module *m;
    dt_model_info info;
    char what[1 << 13]; /* the recipe */
} network;

/* The network of a body, and of views behind it. */
static network open_network(const body *b, const char *views)
{
    static network net;
    char *text = net.what;
    ck_assert_int_lt(snprintf(text, sizeof net.what,
                              "run: {dir: r}\nmodel:\n  family: layers\n  input: %s\n  layers:\n"
                              "%s%sdata: {format: digits}\ntrain: {epochs: 1}\n",
                              b->input, b->layers, views),
                     (int)sizeof net.what);
    const dt_recipe_source source = {
        .path = "v.yaml", .text = text, .bytes = strlen(text), .leave_files = true
    };
    const dt_status s = dt_recipe_read(ctx, &source, &net.recipe);
    ck_assert_msg(s == DT_OK || s == DT_ERR_CONFIG, "%s", dt_error(ctx));
    const dt_model_options *o = &dt_recipe_get(net.recipe)->model;
    ck_assert_msg(o->family != NULL, "%s\n%s", dt_recipe_error_at(net.recipe, 0), text);
    dt_seed(ctx, 11);
    const dt_status made = o->family->create(ctx, o->options, &net.m);
    ck_assert_msg(made == DT_OK, "%s\n%s", dt_error(ctx), text);
    net.info = (dt_model_info){ .family = o->family, .options = o->options };
    dt_train(net.m, false);
    return net;
}

static void close_network(network *net)
{
    dt_module_free(net->m);
    dt_recipe_free(net->recipe);
}

#define BATCH 3

static dt_tensor *input_of(const body *b)
{
    long long d[3];
    dt_tensor *x;
    const int rank = sscanf(b->input, "[%lld, %lld, %lld]", &d[0], &d[1], &d[2]);
    const int64_t dims[] = { BATCH, d[0], d[1], rank > 2 ? d[2] : 1 };
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank + 1, dims, &x));
    TEST_OK(ctx, dt_fill_uniform(x, -1, 1));
    return x;
}

typedef struct extents {
    int rank;
    int64_t dims[4];
} extents;

/* A .npy of numbers whose dtype ends with their bytes. */
static void write_rows(const char *name, const char *dtype, const void *v, const extents *of)
{
    char header[256], path[TEST_PATH];
    size_t bytes = (size_t)(dtype[2] - '0');
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                     dtype);
    for (int d = 0; d < of->rank; d++) {
        bytes *= (size_t)of->dims[d];
        n += snprintf(header + n, sizeof header - (size_t)n, "%lld, ", (long long)of->dims[d]);
    }
    snprintf(header + n, sizeof header - (size_t)n, "), }");
    file_bytes f = npy_file(1, header, v, bytes);
    test_join(path, folder, name);
    test_write_file(path, f.v, f.n);
    file_free(&f);
}

static void expect(const char *arguments, fault_run *r)
{
    *r = (fault_run){ .folder = folder, .arguments = arguments };
    fault_run_inside(r, NULL);
    ck_assert_msg(r->status == 0, "detent %s: %d: %s", arguments, r->status, r->said);
}

/* predict's numbers, as JSON with all of them, and as a table with the first ones. */
static void check_predict(const network *net, const dt_tensor *x, const plain_array *wanted)
{
    static fault_run r;
    char path[TEST_PATH], number[32];
    const int64_t each = wanted->count / BATCH;
    test_join(path, folder, "m.safetensors");
    TEST_OK(ctx, dt_model_save(net->m, &net->info, path));
    extents of = { .rank = dt_rank(x) };
    for (int d = 0; d < of.rank; d++) of.dims[d] = dt_dim(x, d);
    write_rows("x.npy", "<f4", dt_data(x), &of);
    expect("predict m.safetensors x.npy --quiet", &r);
    snprintf(number, sizeof number, "%.6g", (double)wanted->v[each]);
    const char *at = strstr(r.said, "[1]");
    ck_assert_msg(at != NULL && strstr(at, number) != NULL, "no %s in %s", number, r.said);
    expect("predict m.safetensors x.npy --json --quiet", &r);
    at = r.said;
    for (int64_t i = 0; i < BATCH; i++) {
        at = strstr(at, "\"values\": [");
        if (at == NULL && i > 0 && strlen(r.said) + 64 > sizeof r.said) return;
        ck_assert_msg(at != NULL, "%.900s", r.said);
        at += strlen("\"values\": [");
        for (int64_t k = 0; k < each; k++) {
            char *end;
            if (at + 64 > r.said + sizeof r.said) return; /* it keeps no more of it */
            const float found = (float)strtod(at, &end);
            TEST_EACH(end != at && found == wanted->v[i * each + k], "example %lld, %lld: %g, %g",
                      (long long)i, (long long)k, (double)found, (double)wanted->v[i * each + k]);
            at = end + strspn(end, ", ");
        }
    }
}

static void check_export(const network *net, const char *format, const char *name)
{
    char path[TEST_PATH];
    dt_export_difference d[DT_MAX_OUT];
    int n = 0;
    test_join(path, folder, name);
    const dt_status s = dt_export(net->m, &net->info, format, NULL, path, NULL);
    if (s == DT_ERR_UNSUPPORTED) return;
    ck_assert_msg(s == DT_OK, "%s: %s", format, dt_error(ctx));
    TEST_OK(ctx, dt_export_verify(net->m, &net->info, path, d, &n));
    ck_assert_int_eq(n, 1);
    ck_assert_msg(d[0].relative < 2e-6, "%s: %g: %s", format, d[0].relative, net->what);
}

/* A TFLite file does not say whether the channels of such a result are last. */
static bool is_cube(const plain_array *a)
{
    int d = 2;
    while (d < a->rank && a->dims[d] == a->dims[1]) d++;
    return a->rank > 2 && d == a->rank;
}

static void check_network(dt__stream *s, const body *b, int view)
{
    static plain_array wanted;
    plain_text views = { .n = 0 };
    dt_tensor *x = input_of(b);
    network base = open_network(b, "");
    dt_tape_reset(t);
    dt_no_grad(t, true);
    dt_tensor *y = dt_forward(t, base.m, x);
    ck_assert_msg(y != NULL, "%s: %s", b->kind, dt_error(ctx));
    plain_of(y, &wanted);
    close_network(&base);
    plain_views(s, view, &wanted, &views);
    network net = open_network(b, views.text);
    dt_tape_reset(t);
    y = dt_forward(t, net.m, x);
    ck_assert_msg(y != NULL, "%s: %s", b->kind, dt_error(ctx));
    same_values(b->kind, dt_contiguous(t, y), &wanted);
    check_predict(&net, x, &wanted);
    check_export(&net, "onnx", "m.onnx");
    if (!is_cube(&wanted) && strcmp(b->kind, "lstm") != 0) check_export(&net, "tflite", "m.tflite");
    close_network(&net);
    dt_tensor_free(x);
}

START_TEST(last_layers_with_views)
{
    dt__stream s = dt__stream_of(3, DT__FOR_USER);
    const int64_t draws = test_count((test_draws){ PLAIN_VIEWS, 1, 2 });
    for (int i = 0; i < BODIES; i++) {
        for (int64_t k = 0; k < draws; k++) {
            check_network(&s, &bodies[i], (int)((i + k * 2) % PLAIN_VIEWS));
        }
    }
}
END_TEST

/* ---- runs, beside runs of networks that copy ------------------------------------------------ */

#define EXAMPLES 72

/* Examples [rows, columns] with labels 0 ... 2 and two numbers that depend on them. */
static void write_data(int rows, int columns)
{
    static float x[EXAMPLES * 64], y[EXAMPLES * 2];
    int64_t label[EXAMPLES], odd[EXAMPLES];
    const int each = rows * columns;
    dt__stream s = dt__stream_of(5, DT__FOR_USER);
    for (int i = 0; i < EXAMPLES; i++) {
        label[i] = i % 3;
        odd[i] = i % 6 == 0;
        for (int k = 0; k < each; k++) {
            const double bump = k % 3 == label[i] ? 0.7 : 0;
            x[i * each + k] = (float)(dt__random_unit(&s) - 0.5 + bump);
        }
        y[2 * i] = x[i * each] + x[i * each + 1];
        y[2 * i + 1] = (float)label[i] - x[i * each + 2];
    }
    write_rows("x.npy", "<f4", x, &(extents){ 3, { EXAMPLES, rows, columns } });
    write_rows("y.npy", "<f4", y, &(extents){ 2, { EXAMPLES, 2 } });
    write_rows("label.npy", "<i8", label, &(extents){ 1, { EXAMPLES } });
    write_rows("odd.npy", "<i8", odd, &(extents){ 1, { EXAMPLES } });
}

typedef struct trial {
    const char *what, *input;
    const char *layers; /* $ is a copy of what lies before it, or nothing */
    const char *more;   /* the other sections; @ is the folder */
} trial;

#define CUT "train: {epochs: 6, batch_size: 16, optimizer: {name: adamw, lr: 1e-2}"
#define STOPS                                                                                      \
    CUT ", early_stopping: {patience: 1}, finish_with: best, evaluate: {every_steps: 2}}\n"
#define DATA(task, y)                                                                              \
    "data: {format: tensors, " task "train: {x: @/x.npy, y: @/" y ".npy}, validation: 0.34, "      \
    "validation_order: time}\n"
#define CLASSES DATA("", "label")

static const trial trials[] = {
    { "a slice of classes, with views before each layer", "[6, 4]",
      "  - {permute: p0, dims: [0, 2, 1]}\n$"
      "  - {linear: a, out: 8, activation: relu}\n"
      "  - {permute: p1, dims: [0, 2, 1]}\n$"
      "  - {slice: s1, dim: 1, start: 1, stop: 7, step: 2}\n$"
      "  - {linear: b, out: 4}\n  - flatten\n  - {linear: head, out: 7}\n"
      "  - {slice: s2, dim: 1, start: 1, stop: 6, step: 2}\n$",
      CLASSES STOPS "qat: {preset: int8-dynamic-int8-weight, start_step: 4}\n" },
    { "static ranges behind a permute, codes by gptq", "[6, 4]",
      "  - {permute: p0, dims: [0, 2, 1]}\n$"
      "  - {conv1d: c, out: 6, padding: 1, activation: relu}\n"
      "  - {slice: s1, dim: 2, start: 1, stop: 5}\n$"
      "  - {permute: p1, dims: [0, 2, 1]}\n$"
      "  - {linear: a, out: 5}\n  - flatten\n  - {linear: head, out: 5}\n"
      "  - {slice: s2, dim: 1, start: 2, stop: 5}\n$",
      CLASSES STOPS "qat: {preset: int8-static-int8-weight, start_step: 4}\n"
                    "convert: {rounder: gptq, calibration: {samples: 32}}\n" },
    { "a teacher that ends with a view", "[6, 4]",
      "  - {permute: p0, dims: [0, 2, 1]}\n$"
      "  - {linear: a, out: 3}\n  - flatten\n  - {linear: head, out: 6}\n"
      "  - {slice: s2, dim: 1, start: 0, stop: 6, step: 2}\n$",
      CLASSES CUT ", distill: {teacher: @/view0/float.safetensors}}\n" },
    { "numbers, learned ranges", "[4, 6]",
      "  - {conv_transpose1d: c, out: 5, stride: 2, kernel: 3}\n"
      "  - {slice: s1, dim: 2, start: 1, stop: 12}\n$"
      "  - {permute: p1, dims: [0, 2, 1]}\n$"
      "  - {linear: a, out: 3}\n  - flatten\n  - {linear: head, out: 4}\n"
      "  - {slice: s2, dim: 1, start: 0, stop: 4, step: 2}\n$",
      DATA("task: regression, ", "y") STOPS "qat: {preset: int4-int4, start_step: 4}\n" },
    { "reconstructions, channels last", "[4, 6]",
      "  - {conv1d: c, out: 8, padding: 1}\n"
      "  - {permute: p1, dims: [0, 2, 1]}\n$"
      "  - {linear: a, out: 7}\n"
      "  - {slice: s1, dim: 2, start: 2, stop: 6}\n$"
      "  - {permute: p2, dims: [0, 2, 1]}\n$",
      DATA("task: anomaly, ", "odd") STOPS },
    { "masks, cropped", "[1, 28, 28]",
      "  - {conv2d: c, out: 12, kernel: 3, padding: 3, stride: 1}\n"
      "  - {slice: s1, dim: 2, start: 1, stop: 29}\n$"
      "  - {slice: s2, dim: 3, start: 2, stop: 30}\n$"
      "  - {slice: s3, dim: 1, start: 1, stop: 12}\n$",
      "data: {format: digits, task: segmentation, train_count: 24, test_count: 8}\n"
      "train: {epochs: 1, batch_size: 8}\n" },
    { "images, turned back", "[1, 28, 28]",
      "  - {conv2d: c, out: 2, padding: 1}\n"
      "  - {permute: p1, dims: [0, 2, 3, 1]}\n$"
      "  - {linear: a, out: 2}\n"
      "  - {permute: p2, dims: [0, 3, 1, 2]}\n$"
      "  - {slice: s1, dim: 1, start: 1, stop: 2}\n$",
      "data: {format: digits, task: denoising, train_count: 24, test_count: 8}\n"
      "train: {epochs: 1, batch_size: 8}\n" },
};

/* Views, a layer, views, a head, and a slice of its outputs. */
static void draw_trial(dt__stream *s, trial *k)
{
    static const char *const presets[] = { "int8-dynamic-int4-weight", "int8-static-int8-weight",
                                           "int8-dynamic-int8-weight", "int4-int4" };
    static plain_array shape;
    static plain_text layers;
    static char more[1024];
    const int64_t out = pick(s, 2, 6), step = pick(s, 1, 3);
    shape = (plain_array){ .rank = 3, .dims = { 1, 6, 4 }, .count = 24 };
    layers = (plain_text){ .after = "$" };
    plain_views(s, (int)pick(s, 0, PLAIN_VIEWS - 1), &shape, &layers);
    plain_append(&layers, "  - {linear: a, out: %d, activation: gelu}\n", (int)out);
    shape.count = shape.count / shape.dims[shape.rank - 1] * out;
    shape.dims[shape.rank - 1] = out;
    plain_views(s, (int)pick(s, 0, PLAIN_VIEWS - 1), &shape, &layers);
    plain_append(&layers, "  - flatten\n  - {linear: head, out: %d}\n", (int)(3 * step + 1));
    plain_append(&layers, "  - {slice: end, dim: 1, start: 1, stop: %d, step: %d}\n$",
                 (int)(3 * step + 1), (int)step);
    snprintf(more, sizeof more, "%sqat: {preset: %s, start_step: 4}\n", CLASSES STOPS,
             presets[pick(s, 0, 3)]);
    *k = (trial){ "drawn", "[6, 4]", layers.text, more };
}

/* Appends `from` to `text`: @ becomes the folder, $ a layer that copies, or nothing. */
static void put_recipe(plain_text *text, const char *from, bool copies)
{
    for (; *from != 0; from++) {
        if (*from == '@') plain_append(text, "%s", folder);
        else if (*from != '$') plain_append(text, "%c", *from);
        else if (copies) plain_append(text, "  - {pad: copy%d, pads: [0, 0]}\n", text->n++);
    }
}

/* Runs a trial in folder `dir`, with copies behind its views or without. */
static void run_trial(const trial *k, const char *dir, bool copies, dt_run_summary *out)
{
    char path[TEST_PATH], name[32];
    plain_text text = { .n = 0 };
    put_recipe(&text, "run: {dir: @/", copies);
    plain_append(&text, "%s, seed: 3}\nmodel:\n  family: layers\n  input: %s\n  layers:\n", dir,
                 k->input);
    put_recipe(&text, k->layers, copies);
    put_recipe(&text, k->more, copies);
    snprintf(name, sizeof name, "%s.yaml", dir);
    test_join(path, folder, name);
    test_write_text(path, text.text);
    const dt_recipe_source source = { .path = path, .text = text.text, strlen(text.text) };
    dt_recipe *recipe = NULL;
    const dt_status s = dt_recipe_read(ctx, &source, &recipe);
    ck_assert_msg(s == DT_OK, "%s: %s\n%s", k->what, dt_recipe_error_at(recipe, 0), text.text);
    const dt_status done = dt_run(ctx, recipe, NULL, out);
    ck_assert_msg(done == DT_OK, "%s: %s\n%s", k->what, dt_error(ctx), text.text);
    dt_recipe_free(recipe);
}

static void same_file_if_any(const char *a, const char *b, const char *name)
{
    if (test_file_exists(job_path(b, name))) job_same_files(a, b, name);
}

/* All that the two runs of a trial found and wrote. */
static void check_trial(const trial *k, int i)
{
    static const char *const files[] = { "confusion.json", "examples.json", "sensitivity.json",
                                         "layers-begin.json", "layers-end.json" };
    char a[TEST_PATH], b[TEST_PATH], name[2][16];
    dt_run_summary view, copy;
    int rows, columns;
    ck_assert_int_ge(sscanf(k->input, "[%d, %d]", &rows, &columns), 1);
    if (rows > 1) write_data(rows, columns);
    snprintf(name[0], sizeof name[0], "view%d", i);
    snprintf(name[1], sizeof name[1], "copy%d", i);
    run_trial(k, name[0], false, &view);
    run_trial(k, name[1], true, &copy);
    test_join(a, folder, name[0]);
    test_join(b, folder, name[1]);
    ck_assert_int_eq(view.best_step, copy.best_step);
    ck_assert_int_eq(view.steps, copy.steps);
    ck_assert(view.stopped_early == copy.stopped_early);
    char *x = job_metrics(a), *y = job_metrics(b);
    ck_assert_str_eq(x, y);
    free(x);
    free(y);
    for (int f = 0; f < DT__COUNT_OF(files); f++) same_file_if_any(a, b, files[f]);
    job_same_checkpoints(a, b, "float.safetensors");
    if (test_file_exists(job_path(b, "model.safetensors"))) {
        job_same_checkpoints(a, b, "model.safetensors");
    }
}

START_TEST(runs_are_those_of_networks_that_copy)
{
    for (int i = 0; i < DT__COUNT_OF(trials); i++) check_trial(&trials[i], i);
}
END_TEST

START_TEST(drawn_runs_are_those_of_networks_that_copy)
{
    dt__stream s = dt__stream_of(13, DT__FOR_USER);
    const int64_t draws = test_count((test_draws){ 40, 2, 8 });
    for (int i = 0; i < draws; i++) {
        trial k;
        draw_trial(&s, &k);
        check_trial(&k, i);
    }
}
END_TEST

static int64_t best_of(const float *y, int64_t classes)
{
    int64_t best = 0;
    for (int64_t k = 1; k < classes; k++) best = y[k] > y[best] ? k : best;
    return best;
}

/* ---- losses, metrics and calls of a program -------------------------------------------------- */

/* Reads the outputs by their pointer, as a program may. */
static dt_tensor *own_loss(dt_tape *tape, dt_tensor *y, dt_tensor *target, void *user)
{
    dt_cross_entropy_options sum = dt_cross_entropy_defaults();
    sum.reduction = DT_REDUCE_SUM;
    ck_assert_ptr_nonnull(dt_data(y));
    ++*(int *)user;
    return dt_cross_entropy(tape, y, target, &sum);
}

typedef struct right_ones {
    int64_t n, right;
} right_ones;

static void add_right(void *state, const float *y, int64_t n, const void *target)
{
    right_ones *r = state;
    r->n++;
    r->right += best_of(y, n) == *(const int32_t *)target;
}

static double share_of_right(const void *state)
{
    const right_ones *r = state;
    return (double)r->right / (double)r->n;
}

START_TEST(own_losses_and_metrics)
{
    static const trial plain = { "own", "[6, 4]",
                                 "  - flatten\n  - {linear: head, out: 6}\n"
                                 "  - {slice: s, dim: 1, start: 0, stop: 6, step: 2}\n",
                                 CLASSES CUT ", loss: mine, metrics: [mine]}\n" };
    int calls = 0;
    const dt_loss loss = {
        .name = "mine", .target = DT_TARGET_CLASS, .sum = own_loss, .user = &calls
    };
    const dt_own_metric metric = { .metric = { .name = "mine", .title = "mine" },
                                   .target = DT_TARGET_CLASS,
                                   .state_size = sizeof(right_ones),
                                   .add = add_right,
                                   .value = share_of_right };
    dt_run_summary s;
    write_data(6, 4);
    TEST_OK(ctx, dt_loss_register(ctx, &loss));
    TEST_OK(ctx, dt_metric_register(ctx, &metric));
    run_trial(&plain, "own", false, &s);
    const dt_metrics *m = &s.result[DT_RUN_FLOAT].metrics;
    ck_assert_int_eq(calls, 18);
    ck_assert_double_gt(dt_metric_value(m, "mine"), 0.6);
    ck_assert_double_eq(dt_metric_value(m, "mine"), dt_metric_value(m, "accuracy"));
}
END_TEST

/* Tensors that a program passes may be views, too. */
START_TEST(tensors_that_a_program_gives)
{
    const int64_t label[] = { 0, 1, 2, 1 };
    const float x[] = { 0, 1, 2, 3 },
                scores[4 * 4] = { 9, 2, 1, 0, 9, 0, 3, 1, 9, 5, 0, 1, 9, 0, 7, 6 };
    const dt_arrays arrays = { .count = 4,
                               .rank = 1,
                               .dims = { 1 },
                               .axis = -1,
                               .x = x,
                               .target = DT_TARGET_CLASS,
                               .y_dtype = DT_ARRAY_I64,
                               .y = label };
    dt_dataset *d;
    dt_tensor *all, *y, *matrix;
    int32_t id;
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &arrays, &d));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 2, (const int64_t[]){ 4, 4 }, scores, &all));
    TEST_OK(ctx, dt_tensor_narrow(all, 1, 1, 3, &y));
    TEST_OK(ctx, dt_confusion(d, y, &matrix));
    const int64_t wanted[] = { 1, 0, 0, 0, 2, 0, 1, 0, 0 };
    ck_assert_mem_eq(dt_data(matrix), wanted, sizeof wanted);
    dt_tensor_free(matrix);
    dt_tensor_free(y);
    dt_tape_reset(t);
    dt_tensor *column = dt_reshape(t,
                                   dt_slice(t, dt_transpose(t, all, 0, 1),
                                            &(dt_slice_options){ .dims = { 1, { 0 } },
                                                                 .starts = { 1, { 1 } },
                                                                 .stops = { 1, { 2 } } }),
                                   1, (const int64_t[]){ 4 });
    const dt_sampling greedy = { .temperature = 0, .top_p = 1 };
    TEST_OK(ctx, dt_sample(ctx, &greedy, 0, column, &id));
    ck_assert_int_eq(id, 2);
    dt_tensor_free(all);
    dt_dataset_free(d);
}
END_TEST

/* ---- figures of a run, from its outputs ------------------------------------------------------ */

/* What a model answers to the validation data: the last examples. */
static void answers_of(dt_module *m, const char *recipe, plain_array *y, int *label)
{
    dt_recipe *r = NULL;
    dt_dataset *train, *held, *none;
    dt_loader *loader;
    dt_tensor *x, *target;
    char *text = test_read_file(job_path(folder, recipe), NULL);
    const dt_recipe_source source = { .path = job_path(folder, recipe),
                                      .text = text,
                                      .bytes = strlen(text) };
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
    TEST_OK(ctx, dt_recipe_open_data(r, NULL, &train, &held, &none));
    const int64_t n = dt_dataset_count(held);
    TEST_OK(ctx, dt_loader_create(held, &(dt_loader_options){ .batch_size = n }, &loader));
    TEST_OK(ctx, dt_loader_next(loader, &x, &target));
    dt_tape_reset(t);
    dt_no_grad(t, true);
    dt_train(m, false);
    dt_tensor *found = dt_forward(t, m, x);
    ck_assert_msg(found != NULL, "%s", dt_error(ctx));
    plain_of(found, y);
    memcpy(label, dt_data(target), (size_t)n * sizeof *label);
    dt_tape_reset(t);
    dt_loader_free(loader);
    dt_dataset_free(train);
    dt_dataset_free(held);
    dt_dataset_free(none);
    dt_recipe_free(r);
    free(text);
}

static double plain_loss(const plain_array *y, const int *label, int64_t n)
{
    const int64_t classes = y->dims[1];
    double loss = 0;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < classes; k++) sum += exp((double)y->v[i * classes + k]);
        loss += log(sum) - (double)y->v[i * classes + label[i]];
    }
    return loss / (double)n;
}

static json_t *json_file(const char *dir, const char *name)
{
    json_t *root = json_load_file(job_path(dir, name), 0, NULL);
    ck_assert_msg(root != NULL, "%s", name);
    return root;
}

static dt_module *load(const char *dir, const char *name)
{
    dt_module *m;
    TEST_OK(ctx, dt_model_load(ctx, job_path(dir, name), &m, NULL));
    return m;
}

/* The mistakes with the largest loss, and the model's probability of its prediction. */
static void check_mistakes(const char *dir, const plain_array *y, const int *label)
{
    json_t *root = json_file(dir, "examples.json"), *worst = json_object_get(root, "worst");
    const int64_t mistakes = json_integer_value(json_object_get(root, "mistakes"));
    double last = INFINITY;
    ck_assert_int_gt(mistakes, 0);
    ck_assert_uint_eq(json_array_size(worst), (size_t)(mistakes < 18 ? mistakes : 18));
    for (size_t k = 0; k < json_array_size(worst); k++) {
        json_t *one = json_array_get(worst, k);
        const int64_t i = json_integer_value(json_object_get(one, "index"));
        const int found = (int)best_of(y->v + i * 3, 3);
        const char digit[] = { (char)('0' + label[i]), 0 }, other[] = { (char)('0' + found), 0 };
        plain_array row = { .rank = 2, .dims = { 1, 3 } };
        memcpy(row.v, y->v + i * 3, 3 * sizeof *row.v);
        const double loss = plain_loss(&row, label + i, 1);
        ck_assert_str_eq(json_string_value(json_object_get(one, "label")), digit);
        ck_assert_str_eq(json_string_value(json_object_get(one, "found")), other);
        TEST_NEAR(json_number_value(json_object_get(one, "share")),
                  exp(-plain_loss(&row, &found, 1)), 0, 1e-6);
        ck_assert(found != label[i] && loss <= last);
        last = loss;
    }
    json_decref(root);
}

/* Accuracy, loss and confusion matrix of the converted model, and what eval --outputs writes. */
static void check_answers(const char *dir, const dt_run_summary *summary)
{
    static plain_array y;
    static fault_run r;
    int label[EXAMPLES];
    int64_t right = 0, count[3][3] = { { 0 } };
    dt_module *m = load(dir, "model.safetensors");
    answers_of(m, "figures.yaml", &y, label);
    dt_module_free(m);
    for (int64_t i = 0; i < y.dims[0]; i++) {
        const int64_t found = best_of(y.v + i * 3, 3);
        right += found == label[i];
        count[label[i]][found]++;
    }
    const dt_metrics *metrics = &summary->result[DT_RUN_CONVERTED].metrics;
    TEST_NEAR(dt_metric_value(metrics, "accuracy"), (double)right / (double)y.dims[0], 0, 1e-12);
    TEST_NEAR(metrics->loss, plain_loss(&y, label, y.dims[0]), 0, 1e-6);
    json_t *root = json_file(dir, "confusion.json"), *matrix = json_object_get(root, "matrix");
    for (size_t i = 0; i < 9; i++) {
        ck_assert_int_eq(json_integer_value(json_array_get(json_array_get(matrix, i / 3), i % 3)),
                         count[i / 3][i % 3]);
    }
    json_decref(root);
    check_mistakes(dir, &y, label);
    expect("eval figures --outputs o.safetensors --quiet", &r);
    dt_file *file;
    dt_tensor *outputs;
    TEST_OK(ctx, dt_file_open(ctx, job_path(folder, "o.safetensors"), &file));
    TEST_OK(ctx, dt_file_load(file, "output", DT_F32, &outputs));
    same_values("eval --outputs", outputs, &y);
    dt_tensor_free(outputs);
    dt_file_close(file);
}

/* The loss of the prepared model, and what it is with one layer in float. */
static void check_sensitivity(const char *dir, const char *checkpoint)
{
    static plain_array y;
    int label[EXAMPLES];
    dt_module *m = load(dir, checkpoint);
    json_t *root = json_file(dir, "sensitivity.json"), *layers = json_object_get(root, "layers");
    answers_of(m, "figures.yaml", &y, label);
    const int64_t n = json_integer_value(json_object_get(root, "examples"));
    const double whole = plain_loss(&y, label, n);
    TEST_NEAR(json_number_value(json_object_get(root, "loss")), whole, 0, 1e-6);
    ck_assert_uint_eq(json_array_size(layers), 3);
    for (size_t i = 0; i < json_array_size(layers); i++) {
        json_t *one = json_array_get(layers, i);
        dt_module *layer = dt_module_at(m, json_string_value(json_object_get(one, "path")));
        TEST_OK(ctx, dt_enable(layer, false));
        answers_of(m, "figures.yaml", &y, label);
        TEST_OK(ctx, dt_enable(layer, true));
        TEST_NEAR(json_number_value(json_object_get(one, "gain")), whole - plain_loss(&y, label, n),
                  1e-6, 1e-5);
    }
    json_decref(root);
    dt_module_free(m);
}

/* What a layer is called with. */
typedef struct seen {
    plain_array value, dequantized;
} seen;

static dt_tensor *see(void *user, dt_tape *tape, dt_module *layer, dt_tensor *in)
{
    seen *s = user;
    (void)layer;
    plain_of(dt_inner(in), &s->value);
    plain_of(dt_neg(tape, dt_neg(tape, in)), &s->dequantized);
    return in;
}

static double plain_snr(const plain_array *a, const plain_array *b)
{
    double signal = 0, noise = 0;
    for (int64_t i = 0; i < a->count; i++) {
        const double error = (double)a->v[i] - (double)b->v[i];
        signal += (double)a->v[i] * (double)a->v[i];
        noise += error * error;
    }
    return 10 * log10(signal / noise);
}

static double snr_in(const json_t *layer, const char *what)
{
    return json_number_value(json_object_get(json_object_get(layer, what), "snr"));
}

/* Signal to noise of each layer's weight and input, by the prepared model and the first training
 * examples. */
static void check_layers(const char *dir, const char *checkpoint)
{
    static seen s;
    static plain_array master, dequantized;
    dt_module *m = load(dir, checkpoint);
    json_t *root = json_file(dir, "layers-end.json"), *layers = json_object_get(root, "layers");
    dt_tensor *x;
    const int64_t dims[] = { json_integer_value(json_object_get(root, "examples")), 6, 4 };
    size_t bytes;
    char *file = test_read_file(job_path(folder, "x.npy"), &bytes);
    const float *all = (float *)(void *)(file + bytes - EXAMPLES * 24 * sizeof(float));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 3, dims, all, &x));
    dt_train(m, false);
    ck_assert_uint_eq(json_array_size(layers), 3);
    for (size_t i = 0; i < json_array_size(layers); i++) {
        json_t *layer = json_array_get(layers, i);
        dt_module *at = dt_module_at(m, json_string_value(json_object_get(layer, "path")));
        dt_tensor *w = dt_param(at, "weight"), *codes;
        uint64_t hook;
        TEST_OK(ctx, dt_hook_add(at, DT_SITE_INPUT, see, &s, NULL, &hook));
        dt_tape_reset(t);
        ck_assert_ptr_nonnull(dt_forward(t, m, x));
        TEST_OK(ctx, dt_unhook(at, hook));
        TEST_NEAR(snr_in(layer, "input"), plain_snr(&s.value, &s.dequantized), 1e-5, 0);
        TEST_OK(ctx, dt_dequantize(w, &codes));
        plain_of(dt_inner(w), &master);
        plain_of(codes, &dequantized);
        TEST_NEAR(snr_in(layer, "weight"), plain_snr(&master, &dequantized), 1e-5, 0);
        dt_tensor_free(codes);
    }
    dt_tensor_free(x);
    free(file);
    json_decref(root);
    dt_tape_reset(t);
    dt_module_free(m);
}

START_TEST(figures_of_runs_from_their_outputs)
{
    static const trial own = {
        "figures", "[6, 4]",
        "  - {permute: p0, dims: [0, 2, 1]}\n  - {conv1d: c, out: 6, padding: 1}\n"
        "  - {permute: p1, dims: [0, 2, 1]}\n  - {linear: a, out: 4}\n  - flatten\n"
        "  - {linear: head, out: 7}\n  - {slice: s2, dim: 1, start: 0, stop: 6, step: 2}\n",
        CLASSES "train: {epochs: 1, batch_size: 16, optimizer: {name: adamw, lr: 1e-2}}\n"
                "qat: {preset: int8-static-int8-weight, start_step: 1}\n"
    };
    char dir[TEST_PATH];
    dt_run_summary summary;
    write_data(6, 4);
    run_trial(&own, "figures", false, &summary);
    test_join(dir, folder, "figures");
    check_answers(dir, &summary);
    check_sensitivity(dir, "checkpoints/step-0000000003.safetensors");
    check_layers(dir, "checkpoints/step-0000000003.safetensors");
}
END_TEST

Suite *test_views_suite(void)
{
    Suite *s = suite_create("views");
    TCase *c = tcase_create("views");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, pointers_are_in_order_or_refused);
    tcase_add_test(c, gradients_pass_copies);
    tcase_add_test(c, wrappers_and_other_dtypes);
    tcase_add_test(c, parameters_are_contiguous);
    tcase_add_test(c, bodies_are_all_kinds_of_layers);
    tcase_add_test(c, last_layers_with_views);
    tcase_add_test(c, runs_are_those_of_networks_that_copy);
    tcase_add_test(c, drawn_runs_are_those_of_networks_that_copy);
    tcase_add_test(c, own_losses_and_metrics);
    tcase_add_test(c, tensors_that_a_program_gives);
    tcase_add_test(c, figures_of_runs_from_their_outputs);
    suite_add_tcase(s, c);
    return s;
}
