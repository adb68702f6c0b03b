/* Every format that holds a trace, on the cases of every layer, as floats and quantized, and of
 * every op: allocations fail while they are exported and read back, which leaves no file; and files
 * of TFLite are damaged. */
#include "ops_run.h"
#include "testing.h"

#include "export/exporters.h"
#include "io/tflite/lite.h"
#include "io/onnx/interpret/interpret.h"
#include "nn/lists/layer_cases.h"

#include <detent/experimental/export.h>
#include <detent/experimental/qat.h>

#include <stdio.h>
#include <stdlib.h>

/* ---- what is exported ------------------------------------------------------------------------ */

enum { FLOATS = -1 }; /* in place of a preset */

/* How the weights of a layer are quantized. */
typedef struct quantized {
    int preset;
    int64_t group; /* 0: the preset's */
    int scales;
} quantized;

typedef struct form {
    const char *format;
    int ops;
} form;

static const form forms[] = {
    { "c", DT_ONNX_PLAIN },  { "onnx", DT_ONNX_PLAIN },   { "onnx", DT_ONNX_NBITS },
    { "onnx", DT_ONNX_QDQ }, { "tflite", DT_ONNX_PLAIN },
};

/* A layer, or an op whose further operands are inputs or constants. */
typedef struct subject {
    const dt__layer_case *layer;
    const dt_op *op;
    dt__case c; /* the op's case; of a layer its inputs */
    bool constants;
    quantized how;
    const form *form;
    char path[TEST_PATH];
} subject;

/* ---- a module of one op ---------------------------------------------------------------------- */

typedef struct one_op {
    const subject *s;
    dt_tensor *constant[DT__CASE_IN];
    int n;
} one_op;

static void run_op(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                   int n_out)
{
    const one_op *o = dt_module_state(m);
    dt_tensor *x[DT__CASE_IN];
    int used = 0;
    (void)n_out;
    for (int i = 0; i < o->n; i++) {
        const bool given = used < n_in && !o->s->c.in[i].absent && o->constant[i] == NULL;
        x[i] = given ? in[used++] : o->constant[i];
    }
    out[0] = dt_apply(t, o->s->op, x, o->n, o->s->c.options);
}

static void free_op(dt_module *m)
{
    one_op *o = dt_module_state(m);
    for (int i = 0; i < o->n; i++) dt_tensor_free(o->constant[i]);
}

static const dt_module_type op_type = { .name = "op", .forward = run_op, .free_state = free_op };

static dt_status make_op(dt_ctx *ctx, const subject *s, dt_module **out)
{
    DT__TRY(dt_module_create(ctx, &op_type, sizeof(one_op), out));
    one_op *o = dt_module_state(*out);
    o->s = s;
    o->n = ops_count(&s->c);
    for (int i = 1; i < o->n && s->constants; i++) {
        if (s->c.in[i].absent) continue;
        o->constant[i] = ops_operand(ctx, &s->c, i, DT_F32);
        if (o->constant[i] == NULL) return dt_error_status(ctx);
    }
    return DT_OK;
}

/* ---- the way of a model ---------------------------------------------------------------------- */

/* Inputs of a batch of one example; returns how many. */
static int inputs_of(const subject *s, dt_trace_input *in)
{
    int n = 0;
    for (int i = 0; i < ops_count(&s->c) && (i == 0 || !s->constants); i++) {
        const dt__case_tensor *x = &s->c.in[i];
        if (x->absent) continue;
        in[n] = (dt_trace_input){ .dtype = x->dtype, .rank = x->r };
        for (int d = 0; x->r == 0 && d < DT_MAX_RANK; d++) {
            if (x->dims[d] != 0) in[n].rank = d + 1;
        }
        memcpy(in[n].dims, x->dims, sizeof x->dims);
        in[n].dims[0] = 1;
        in[n].below = (int64_t)x->high;
        n++;
    }
    return n;
}

/* A pass in training, which initializes ranges. */
static dt_status observe(dt_ctx *ctx, const subject *s, dt_module *m)
{
    dt_tensor *x[DT__CASE_IN] = { NULL }, *y[DT_MAX_OUT];
    dt_tape *t = NULL;
    const int n = ops_count(&s->c), n_out = s->layer->n_out > 0 ? s->layer->n_out : 1;
    dt_status status = dt_tape_create(ctx, &t);
    for (int i = 0; i < n && status == DT_OK; i++) {
        x[i] = ops_operand(ctx, &s->c, i, DT_F32);
        if (x[i] == NULL) status = dt_error_status(ctx);
    }
    dt_train(m, true);
    if (status == DT_OK && dt_is_observed(m)) status = dt_observe(m, true);
    if (status == DT_OK) status = dt_forward_n(t, m, x, n, y, n_out);
    if (status == DT_OK && dt_is_observed(m)) status = dt_observe(m, false);
    for (int i = 0; i < n; i++) dt_tensor_free(x[i]);
    dt_tape_free(t);
    return status;
}

static dt_status make(dt_ctx *ctx, const subject *s, dt_module **out)
{
    if (s->layer == NULL) return make_op(ctx, s, out);
    DT__TRY(s->layer->create(ctx, out));
    if (s->how.preset == FLOATS) return DT_OK;
    dt_qat_options o = dt_qat_defaults();
    o.preset = s->how.preset;
    if (s->how.group > 0) {
        o.weight.quant.group_size = s->how.group;
        o.weight.quant.granularity = DT_PER_GROUP;
        o.weight.quant.scale_dtype = s->how.scales;
        o.weight.has_scale_dtype = o.weight.has_granularity = o.weight.has_group_size = true;
    }
    DT__TRY(dt_prepare(*out, &o));
    DT__TRY(observe(ctx, s, *out));
    return dt_convert(*out, NULL, NULL);
}

static dt_status read_onnx(dt_ctx *ctx, const char *path)
{
    dt__verify *v;
    dt__verify_named in[DT_MAX_IN];
    static double zeros[4096];
    DT__TRY(dt__verify_open(ctx, path, NULL, &v));
    const int64_t n = dt__verify_inputs(v);
    bool small = n <= DT_MAX_IN;
    for (int64_t i = 0; i < n && small; i++) {
        in[i].name = dt__verify_input_name(v, i);
        small = dt__verify_input_dims(v, i, 1, &in[i].value) && in[i].value.count <= 4096;
        in[i].value.data = zeros;
    }
    const dt_status s = small ? dt__verify_run(v, in, n) : DT_OK;
    dt__verify_close(v);
    return s;
}

static dt_status read_tflite(dt_ctx *ctx, const char *path)
{
    dt__vlite *v;
    static double zeros[4096];
    size_t n;
    char *bytes = test_read_file(path, &n);
    dt_status s = dt__vlite_open(ctx, path, &(dt__span){ bytes, n }, NULL, &v);
    for (int i = 0; s == DT_OK && i < dt__vlite_inputs(v); i++) {
        if (dt__vlite_input(v, i)->count <= 4096) s = dt__vlite_give(v, i, zeros);
    }
    if (s == DT_OK) s = dt__vlite_run(v);
    dt__vlite_close(v);
    free(bytes);
    return s;
}

static dt_status read_back(dt_ctx *ctx, const subject *s)
{
    if (strcmp(s->form->format, "onnx") == 0) return read_onnx(ctx, s->path);
    return strcmp(s->form->format, "tflite") == 0 ? read_tflite(ctx, s->path) : DT_OK;
}

static dt_status write_trace(dt_ctx *ctx, const subject *s, dt_module *m, const dt_trace *t)
{
    const dt_exporter *e = dt_exporter_named(s->form->format);
    dt_export_options o = dt_export_defaults();
    dt_export_summary summary;
    o.onnx_ops = s->form->ops;
    DT__TRY(dt__check_calls(e, t, &o));
    const dt_export_call call = {
        .ctx = ctx, .m = m, .trace = t, .options = &o, .path = s->path, .summary = &summary
    };
    const dt_status status = e->write(&call);
    TEST_EACH((status == DT_OK) == test_file_exists(s->path), "%s: %s, and a file", s->form->format,
              dt_status_name(status));
    return status;
}

static dt_status export_one(dt_ctx *ctx, void *user)
{
    const subject *s = user;
    dt_trace_input in[DT_MAX_IN];
    dt_module *m = NULL;
    dt_trace *t = NULL;
    test_remove(s->path);
    dt_status status = make(ctx, s, &m);
    const int n_out = s->layer != NULL && s->layer->n_out > 0 ? s->layer->n_out : 1;
    const dt_trace_options o = { .input = in,
                                 .n_inputs = inputs_of(s, in),
                                 .n_outputs = n_out,
                                 .becomes = dt_exporter_named(s->form->format)->becomes };
    if (status == DT_OK) status = dt_trace_create(m, &o, &t);
    if (status == DT_OK) status = write_trace(ctx, s, m, t);
    if (status == DT_OK) status = read_back(ctx, s);
    dt_trace_free(t);
    dt_module_free(m);
    return status;
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* Opens and runs bytes, which end where memory ends. */
static void survive(dt_ctx *ctx, const char *bytes, size_t n)
{
    static const dt__vlite_limits limits = { .bytes = 1 << 20, .work = 1e6 };
    static double zeros[4096];
    dt__vlite *v;
    char *own = malloc(n);
    memcpy(own, bytes, n);
    dt_status s = dt__vlite_open(ctx, "net.tflite", &(dt__span){ own, n }, &limits, &v);
    for (int i = 0; s == DT_OK && i < dt__vlite_inputs(v); i++) {
        if (dt__vlite_input(v, i)->count <= 4096) s = dt__vlite_give(v, i, zeros);
    }
    if (s == DT_OK) s = dt__vlite_run(v);
    dt__vlite_close(v);
    free(own);
    TEST_EACH(s == DT_OK || s == DT_ERR_FORMAT || s == DT_ERR_UNSUPPORTED || s == DT_ERR_NOMEM,
              "%s", dt_status_name(s));
    TEST_EACH(s == DT_OK || *dt_error(ctx) != 0, "no message");
}

/* Changes numbers of 4, 2 or 1 bytes in the file: 256 of them from `first` on, and with
 * DETENT_TESTS=all every number of a small file. */
static void damage(dt_ctx *ctx, const char *path, size_t first)
{
    static const int32_t numbers[] = { 0, 1, 2, 3, -1, 7, 1 << 20, INT32_MIN };
    size_t n;
    char *bytes = test_read_file(path, &n);
    const size_t step = 1 + n / (test_all() ? 2048 : 1024);
    for (size_t at = 4 * (first % step); at + 4 <= n; at += 4 * step) {
        char was[4];
        memcpy(was, bytes + at, sizeof was);
        for (int k = 0; k < DT__COUNT_OF(numbers); k++) {
            memcpy(bytes + at + k / 4 * 2, &numbers[k], k / 4 == 0 ? 4 : 2);
            survive(ctx, bytes, n);
            memcpy(bytes + at, was, sizeof was);
            bytes[at + (size_t)k % 4] = (char)numbers[k];
            survive(ctx, bytes, n);
            memcpy(bytes + at, was, sizeof was);
        }
    }
    free(bytes);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Exports to the format, if it supports the model, with failing allocations. */
static bool try_one(subject *s)
{
    dt_ctx *ctx;
    char folder[TEST_PATH];
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_folder(folder);
    test_join(s->path, folder, "net");
    const bool fits = export_one(ctx, s) == DT_OK;
    if (fits && strcmp(s->form->format, "tflite") == 0)
        damage(ctx, s->path, strlen(s->layer != NULL ? s->layer->name : s->op->name));
    dt_ctx_free(ctx);
    if (fits) test_every_allocation(export_one, s);
    test_remove(folder);
    return fits;
}

#define DT__NN(name) extern const dt__layer_cases dt__cases_of_layer_##name;
#include "nn/nn.inc"
#undef DT__NN
#define DT__OP(name) extern const dt__op_cases dt__cases_of_##name;
#include "ops/ops.inc"
#undef DT__OP

static const dt__layer_cases *const layers[] = {
#define DT__NN(name) &dt__cases_of_layer_##name,
#include "nn/nn.inc"
#undef DT__NN
};

static const dt__op_cases *const ops[] = {
#define DT__OP(name) &dt__cases_of_##name,
#include "ops/ops.inc"
#undef DT__OP
};

/* One of so many subjects is tried. */
static const test_draws apart = { .usual = 1, .quick = 89, .sanitized = 211 };

static int take_turn(subject *s, int64_t *turn)
{
    int taken = 0;
    for (int f = 0; f < DT__COUNT_OF(forms); f++) {
        s->form = &forms[f];
        if ((*turn)++ % test_failures(apart) == 0) taken += try_one(s);
    }
    return taken;
}

START_TEST(layers_are_exported)
{
    static const quantized ways[] = {
        { .preset = FLOATS },
        { .preset = DT_INT8_DYNAMIC_INT4_WEIGHT },
        { .preset = DT_INT8_STATIC_INT8_WEIGHT },
        { .preset = DT_INT4_WEIGHT },
        { .preset = DT_INT4_INT4 },
        { .preset = DT_INT8_BLOCK_Q4_0_WEIGHT },
        { DT_INT4_WEIGHT, 8, DT_SCALE_F16 }, /* several groups in a row */
        { DT_INT8_DYNAMIC_INT4_WEIGHT, 8, DT_SCALE_F32 },
    };
    int64_t turn = 0;
    int taken = 0;
    for (int l = 0; l < DT__COUNT_OF(layers); l++) {
        for (int k = 0; k < layers[l]->n; k++) {
            const dt__layer_case *layer = &layers[l]->cases[k];
            subject s = { .layer = layer };
            memcpy(s.c.in, layer->in, sizeof layer->in);
            for (int p = 0; layer->fails == DT_OK && p < DT__COUNT_OF(ways); p++) {
                s.how = ways[p];
                taken += take_turn(&s, &turn);
            }
        }
    }
    ck_assert_int_gt(taken, 0);
    printf("export_all: %d exports of layers\n", taken);
}
END_TEST

START_TEST(ops_are_exported)
{
    int64_t turn = 0;
    int taken = 0;
    for (int l = 0; l < DT__COUNT_OF(ops); l++) {
        for (int k = 0; k < ops[l]->n; k++) {
            subject s = { .op = ops[l]->op, .c = ops[l]->cases[k], .how = { .preset = FLOATS } };
            for (int c = 0; s.c.fails == DT_OK && c < 2; c++) {
                s.constants = c == 1;
                if (c == 0 || ops_count(&s.c) > 1) taken += take_turn(&s, &turn);
            }
        }
    }
    ck_assert_int_gt(taken, 0);
    printf("export_all: %d exports of ops\n", taken);
}
END_TEST

/* The scale that the header of a model of C names: "NET_INPUT_SCALE". */
static double scale_of(const char *header, const char *name)
{
    const char *line = strstr(header, name);
    ck_assert_msg(line != NULL, "no %s in %s", name, header);
    return strtod(line + strlen(name), NULL);
}

/* A model in C that only quantizes: its output is the codes of its input, and their scale. */
static void check_scales(const subject *s)
{
    char path[TEST_PATH];
    if (strcmp(s->op->name, "device_quantize") != 0 || strcmp(s->form->format, "c") != 0) return;
    test_join(path, s->path, "net.h");
    char *header = test_read_file(path, NULL);
    const double in = scale_of(header, "NET_INPUT_SCALE");
    ck_assert_double_gt(in, 0);
    ck_assert_double_eq(scale_of(header, "NET_OUTPUT_SCALE"), in);
    free(header);
}

/* Ops of integer networks alone: their results are codes, and their weights floats, which no
 * network of a recipe has. They are written, or refused with a message. */
START_TEST(integers_alone)
{
    dt_ctx *ctx;
    char folder[TEST_PATH];
    int written = 0, floats = 0;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_folder(folder);
    for (int l = 0; l < DT__COUNT_OF(ops); l++) {
        if (strncmp(ops[l]->op->name, "device_", 7) != 0) continue;
        for (int i = 0; i < 2 * ops[l]->n * DT__COUNT_OF(forms); i++) {
            subject s = { .op = ops[l]->op,
                          .c = ops[l]->cases[i / 2 / DT__COUNT_OF(forms)],
                          .constants = i % 2 == 1,
                          .form = &forms[i / 2 % DT__COUNT_OF(forms)] };
            test_join(s.path, folder, "net");
            const dt_status status = export_one(ctx, &s);
            if (status == DT_OK) check_scales(&s);
            written += status == DT_OK;
            floats += status == DT_ERR_STATE;
            if (status == DT_ERR_STATE) ck_assert(strstr(dt_error(ctx), "not converted") != NULL);
        }
    }
    ck_assert_int_gt(written, 20);
    ck_assert_int_gt(floats, 0);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_export_all_suite(void)
{
    Suite *s = suite_create("export_all");
    TCase *c = tcase_create("export_all");
    tcase_set_timeout(c, 1800);
    tcase_add_test(c, integers_alone);
    tcase_add_test(c, layers_are_exported);
    tcase_add_test(c, ops_are_exported);
    suite_add_tcase(s, c);
    return s;
}
