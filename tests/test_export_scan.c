/* Steps that repeat as a Scan of ONNX (onnx_put_scan.c): recurrent networks with all
 * their inputs and outputs, run by detent's interpreter beside the model; what does not repeat in
 * equal steps stays as it is. */
#include "testing.h"

#include "io/onnx/interpret/interpret.h"
#include "io/onnx/onnx.h"

#include <detent/experimental/export.h>
#include <detent/experimental/ops.h>
#include <detent/qat.h>

#include <stdio.h>

#define BATCH 3
#define WIDTH 5
#define HIDDEN 8

static dt_ctx *ctx;
static char folder[TEST_PATH], path[TEST_PATH];

static void begin(void)
{
    test_begin();
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_folder(folder);
    test_join(path, folder, "steps.onnx");
}

static void end(void)
{
    dt_ctx_free(ctx);
    test_end();
}

/* A model with its inputs: dims of one example. */
typedef struct subject {
    dt_module *m;
    dt_trace_input in[3];
    int n_in, n_out;
} subject;

static dt_tensor *input_of(const subject *s, int i, int64_t batch)
{
    dt_tensor *x;
    int64_t dims[DT_MAX_RANK];
    for (int d = 0; d < s->in[i].rank; d++) dims[d] = s->in[i].dims[d];
    dims[0] *= batch;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, s->in[i].rank, dims, &x));
    float *v = dt_data_mut(x);
    for (int64_t k = 0; k < x->count; k++) v[k] = (float)((k * 37 + i * 11) % 101 - 50) / 40;
    return x;
}

static void export_one(const subject *s, dt_export_summary *summary)
{
    dt_trace *t;
    const dt_trace_options o = { .input = s->in,
                                 .n_inputs = s->n_in,
                                 .n_outputs = s->n_out,
                                 .becomes = dt_exporter_named("onnx")->becomes };
    const dt_export_options options = dt_export_defaults();
    TEST_OK(ctx, dt_trace_create(s->m, &o, &t));
    const dt_export_call call = {
        .ctx = ctx, .m = s->m, .trace = t, .options = &options, .path = path, .summary = summary
    };
    TEST_OK(ctx, dt_exporter_named("onnx")->write(&call));
    dt_trace_free(t);
}

/* Outputs of the file that have the bits of the model's. */
static void check_outputs(const subject *s, const char *title)
{
    dt_tape *t;
    dt__verify *v;
    dt_tensor *x[3] = { NULL }, *y[DT_MAX_OUT];
    dt__verify_named in[3];
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt__verify_open(ctx, path, NULL, &v));
    for (int i = 0; i < s->n_in; i++) {
        x[i] = input_of(s, i, BATCH);
        in[i] = (dt__verify_named){ dt__verify_input_name(v, i),
                                    { .type = DT__VERIFY_F32,
                                      .rank = x[i]->rank,
                                      .count = x[i]->count,
                                      .data = dt_data_mut(x[i]) } };
        memcpy(in[i].value.dims, x[i]->dims, sizeof x[i]->dims);
    }
    dt_train(s->m, false);
    TEST_OK(ctx, dt_forward_n(t, s->m, x, s->n_in, y, s->n_out));
    TEST_OK(ctx, dt__verify_run(v, in, s->n_in));
    for (int i = 0; i < s->n_out; i++) {
        dt_tensor *dense;
        const dt__verify_value *got = dt__verify_output(v, i);
        TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, y[i]->rank, y[i]->dims, dt_data(y[i]), &dense));
        TEST_EACH(got->count == dense->count &&
                      memcmp(got->data, dt_data(dense), (size_t)got->count * sizeof(float)) == 0,
                  "%s: output %d", title, i);
        dt_tensor_free(dense);
    }
    for (int i = 0; i < s->n_in; i++) dt_tensor_free(x[i]);
    dt__verify_close(v);
    dt_tape_free(t);
}

/* Nodes of an operator in the file; NULL: of all. */
static int nodes_of(const char *op)
{
    int n = 0;
    dt__onnx_file f;
    TEST_OK(ctx, dt__onnx_open(ctx, path, &f));
    for (size_t i = 0; i < f.model->graph->n_node; i++) {
        n += op == NULL || strcmp(f.model->graph->node[i]->op_type, op) == 0;
    }
    dt__onnx_close(&f);
    return n;
}

/* ---- recurrent networks ---------------------------------------------------------------------- */

static void quantize(dt_module *m, int preset)
{
    if (preset < 0) return;
    dt_qat_options o = dt_qat_defaults();
    o.preset = preset;
    TEST_OK(ctx, dt_prepare(m, &o));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
}

static subject network(bool lstm, const dt_recurrent_layer *o, int64_t steps, bool states)
{
    subject s = { .n_in = 1, .n_out = 1 };
    TEST_OK(ctx, (lstm ? dt_lstm_create : dt_gru_create)(ctx, o, &s.m));
    s.in[0] = (dt_trace_input){ .dtype = DT_F32, .rank = 3, .dims = { 1, steps, WIDTH } };
    if (states) s.n_out = lstm ? 3 : 2;
    return s;
}

START_TEST(recurrent_networks)
{
    static const int presets[] = { -1, DT_INT8_DYNAMIC_INT4_WEIGHT, DT_INT4_WEIGHT };
    for (int i = 0; i < 48; i++) {
        const bool lstm = i & 1, states = i & 2, last = i & 4, both = i & 8;
        const dt_recurrent_layer o = { .in = WIDTH,
                                       .hidden = HIDDEN,
                                       .layers = 1 + (i & 8) / 8,
                                       .bias = (i & 3) != 3,
                                       .bidirectional = both,
                                       .last = last };
        dt_export_summary summary[2] = { { .bytes = 0 } };
        int nodes[2];
        char title[80];
        snprintf(title, sizeof title, "%s %d, preset %d", lstm ? "lstm" : "gru", i,
                 presets[i / 16]);
        for (int k = 0; k < 2; k++) {
            subject s = network(lstm, &o, 9 + 40 * k, states);
            quantize(s.m, presets[i / 16]);
            export_one(&s, &summary[k]);
            if (summary[k].exact) check_outputs(&s, title);
            nodes[k] = nodes_of(NULL);
            TEST_EACH(nodes_of("Scan") == o.layers * (both ? 2 : 1), "%s: Scans", title);
            dt_module_free(s.m);
        }
        /* h of all steps is joined by Concats, sixteen at a time */
        TEST_EACH(nodes[1] <= nodes[0] + 4 * 2 * 2, "%s: %d nodes, then %d", title, nodes[0],
                  nodes[1]);
        TEST_EACH(summary[1].integer_products >= summary[0].integer_products, "%s", title);
    }
}
END_TEST

/* ---- other steps ----------------------------------------------------------------------------- */

/* h = tanh(h + rows of x), by rows in an order: what the file holds is right whether or not the
 * steps become a Scan. */
static const int64_t orders[][8] = {
    { 0, 1, 2, 3, 4, 5, 6, 7 }, { 7, 6, 5, 4, 3, 2, 1, 0 }, { 1, 2, 3, 4, 5, 6, 7, 7 },
    { 0, 2, 4, 6, 1, 3, 5, 7 }, { 3, 3, 3, 3, 3, 3, 3, 3 }, { 5, 0, 1, 2, 3, 4, 7, 6 },
};

typedef struct walk {
    const int64_t *order;
    bool all, twice; /* outputs of all steps; each step reads two states back */
} walk;

static void run_walk(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                     int n_out)
{
    const walk *w = dt_module_state(m);
    const int64_t rows = in[0]->dims[0], all[] = { 8 * rows, WIDTH };
    dt_tensor *h = NULL, *before = NULL, *y = NULL;
    (void)n_in;
    (void)n_out;
    dt_tensor *x = dt_permute(t, in[0], (const int64_t[]){ 1, 0, 2 });
    x = dt_reshape(t, dt_reshape(t, x, 3, (const int64_t[]){ 8, rows, WIDTH }), 2, all);
    for (int i = 0; i < 8; i++) {
        const int64_t at = w->order[i] * rows;
        const dt_slice_options o = {
            { 1, { 0 } }, { 1, { at } }, { 1, { at + rows } }, { 0, { 0 } }
        };
        dt_tensor *now = dt_slice(t, x, &o), *was = h;
        if (w->twice && before != NULL) now = dt_add(t, now, before);
        h = dt_tanh(t, h == NULL ? now : dt_add(t, h, now));
        before = was;
        if (w->all) y = y == NULL ? h : dt_concat(t, (dt_tensor *[]){ y, h }, 2, 1);
    }
    out[0] = w->all ? y : h;
}

static const dt_module_type walk_type = { .name = "walk", .forward = run_walk };

START_TEST(steps_in_any_order)
{
    int scans = 0;
    for (int i = 0; i < 4 * DT__COUNT_OF(orders); i++) {
        subject s = { .n_in = 1, .n_out = 1 };
        dt_export_summary summary;
        char title[40];
        TEST_OK(ctx, dt_module_create(ctx, &walk_type, sizeof(walk), &s.m));
        *(walk *)dt_module_state(s.m) = (walk){ orders[i / 4], i & 1, i & 2 };
        s.in[0] = (dt_trace_input){ .dtype = DT_F32, .rank = 3, .dims = { 1, 8, WIDTH } };
        export_one(&s, &summary);
        snprintf(title, sizeof title, "order %d", i);
        check_outputs(&s, title);
        scans += nodes_of("Scan");
        dt_module_free(s.m);
    }
    ck_assert_int_ge(scans, 8);
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------- */

static dt_status export_gru(dt_ctx *own, void *user)
{
    const dt_recurrent_layer o = { .in = 3, .hidden = 4, .layers = 1, .last = true };
    const dt_trace_input in = { .dtype = DT_F32, .rank = 3, .dims = { 1, 9, 3 } };
    const dt_trace_options trace = { .input = &in,
                                     .n_inputs = 1,
                                     .becomes = dt_exporter_named("onnx")->becomes };
    const dt_export_options options = dt_export_defaults();
    dt_export_summary summary;
    dt_trace *t = NULL;
    dt_module *m = NULL;
    dt__verify *v = NULL;
    dt_status s = dt_gru_create(own, &o, &m);
    if (s == DT_OK) s = dt_trace_create(m, &trace, &t);
    const dt_export_call call = { own, m, NULL, t, &options, user, &summary };
    if (s == DT_OK) s = dt_exporter_named("onnx")->write(&call);
    if (s == DT_OK) s = dt__verify_open(own, user, NULL, &v);
    dt__verify_close(v);
    dt_trace_free(t);
    dt_module_free(m);
    return s;
}

START_TEST(every_allocation)
{
    ck_assert_int_gt(test_every_allocation(export_gru, path), 100);
    ck_assert(test_file_exists(path));
}
END_TEST

Suite *test_export_scan_suite(void)
{
    Suite *s = suite_create("export_scan");
    TCase *c = tcase_create("export_scan");
    tcase_set_timeout(c, 300);
    tcase_add_checked_fixture(c, begin, end);
    tcase_add_test(c, recurrent_networks);
    tcase_add_test(c, steps_in_any_order);
    tcase_add_test(c, every_allocation);
    suite_add_tcase(s, c);
    return s;
}
