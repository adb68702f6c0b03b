/* Format onnx on random networks: the file is read back by protobuf-c and its structure checked;
 * hostile names, failing allocations and writes. With DETENT_EXPORTS=FOLDER the files stay there,
 * N.onnx beside N.in.safetensors and N.out.safetensors, for scripts/exports/onnx_check.py. */
#include "models.h"
#include "random_nets.h"
#include "testing.h"
#include "clipped_norm.h"

#include "core/core.h"
#include "export/exporters.h"
#include "export/trace/trace.h"
#include "io/onnx/interpret/interpret.h"
#include "io/onnx/onnx.h"
#include "qat/schemes/scheme.h"

#include <detent/ops.h>
#include <detent/optim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NEAR                                                                                       \
    1e-4 /* of the largest output, where sums of floats have another order: a code may flip */

static const test_draws draws = { .usual = 60, .quick = 30, .sanitized = 8 };

/* ---- a network, converted -------------------------------------------------------------------- */

static void train_once(dt_module *m, dt_tensor *x)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_optimizer *o;
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    dt_train(m, true);
    dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_backward(t, dt_mean(t, dt_mul(t, y, y), NULL), NULL));
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.01));
    dt_zero_grad(m);
    dt_optimizer_free(o);
    dt_tape_free(t);
}

/* The output in evaluation mode, a copy that the caller frees. */
static dt_tensor *output_of(dt_module *m, dt_tensor *x)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_tape *t;
    dt_tensor *copy;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_train(m, false);
    dt_no_grad(t, true);
    dt_tensor *y = dt_forward(t, m, x);
    ck_assert_msg(y != NULL, "%s", dt_error(ctx));
    TEST_OK(ctx, dt_tensor_from(ctx, y->dtype, y->rank, y->dims, dt_data(y), &copy));
    dt_tape_free(t);
    return copy;
}

/* The trace of one example of x, or of a family. */
static dt_trace *trace_of(dt_module *m, const random_net *d, const dt_tensor *x)
{
    dt_trace *t;
    const dt_model_info info = { .family = d->family, .options = &d->options };
    dt_trace_input in = { .dtype = x->dtype, .rank = x->rank, .dims = { 1 } };
    for (int i = 1; i < x->rank; i++) in.dims[i] = x->dims[i];
    const dt_exporter *e = dt_exporter_named("onnx");
    const dt_trace_options o = { .input = &in, .n_inputs = 1, .becomes = e->becomes };
    const dt_status s =
        d->family != NULL ? dt__trace_for(m, &info, e, false, &t) : dt_trace_create(m, &o, &t);
    ck_assert_msg(s == DT_OK, "network %llu: %s", (unsigned long long)d->seed,
                  dt_error(dt_module_ctx(m)));
    return t;
}

static dt_status export_as(const dt_export_options *o, dt_module *m, const dt_trace *t,
                           const char *path, dt_export_summary *summary)
{
    const dt_export_call call = {
        .ctx = dt_module_ctx(m), .m = m, .trace = t, .options = o, .path = path, .summary = summary
    };
    return dt_exporter_named("onnx")->write(&call);
}

static dt_status export_to(dt_module *m, const dt_trace *t, const char *path,
                           dt_export_summary *summary)
{
    const dt_export_options o = dt_export_defaults();
    return export_as(&o, m, t, path, summary);
}

static void save(const char *folder, uint64_t seed, const char *what, const dt_tensor *x)
{
    char path[TEST_PATH], name[64];
    dt_writer *w;
    snprintf(name, sizeof name, "%llu.%s.safetensors", (unsigned long long)seed, what);
    test_join(path, folder, name);
    TEST_OK(x->ctx, dt_writer_create(x->ctx, &w));
    TEST_OK(x->ctx, dt_writer_add(w, what, x));
    TEST_OK(x->ctx, dt_writer_write(w, path));
    dt_writer_free(w);
}

/* A converted network, an input and its output. */
typedef struct example {
    dt_ctx *ctx;
    dt_module *m;
    dt_tensor *x, *y;
    dt_trace *trace;
} example;

static example example_of(const random_net *d)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.seed = d->seed;
    options.threads = 1;
    example e;
    TEST_OK(NULL, dt_ctx_create(&e.ctx, &options));
    e.m = random_net_create(e.ctx, d);
    e.x = random_net_input(e.ctx, d);
    if (d->float_step) train_once(e.m, e.x);
    TEST_OK(e.ctx, dt_prepare(e.m, &d->qat));
    train_once(e.m, e.x);
    TEST_OK(e.ctx, dt_convert(e.m, NULL, NULL));
    e.y = output_of(e.m, e.x);
    e.trace = trace_of(e.m, d, e.x);
    return e;
}

static void example_free(example *e)
{
    dt_trace_free(e->trace);
    dt_tensor_free(e->x);
    dt_tensor_free(e->y);
    dt_module_free(e->m);
    dt_ctx_free(e->ctx);
}

/* ---- what a file holds ----------------------------------------------------------------------- */

/* Whether an earlier node, an input or a constant makes a value. */
static bool is_made(const DtOnnx__Graph *g, const char *name, size_t node)
{
    for (size_t i = 0; i < g->n_initializer; i++) {
        if (strcmp(g->initializer[i]->name, name) == 0) return true;
    }
    for (size_t i = 0; i < g->n_input; i++) {
        if (strcmp(g->input[i]->name, name) == 0) return true;
    }
    for (size_t i = 0; i < node; i++) {
        for (size_t k = 0; k < g->node[i]->n_output; k++) {
            if (strcmp(g->node[i]->output[k], name) == 0) return true;
        }
    }
    return false;
}

static bool is_printable(const char *name)
{
    for (; *name != 0; name++) {
        if (*name <= ' ' || *name > '~') return false;
    }
    return true;
}

/* onnxruntime makes a Slice of rows by a Range, which takes indices beyond the table in silence. */
static bool is_range(const DtOnnx__Graph *g, const char *name, size_t before)
{
    for (size_t i = 0; i < before; i++) {
        const DtOnnx__Node *n = g->node[i];
        if (strcmp(n->op_type, "Range") == 0 && strcmp(n->output[0], name) == 0) return true;
    }
    return false;
}

static void check_node(const DtOnnx__Graph *g, size_t i)
{
    const DtOnnx__Node *n = g->node[i];
    if (strcmp(n->op_type, "Gather") == 0) ck_assert(!is_range(g, n->input[1], i));
    for (size_t k = 0; k < n->n_input; k++) {
        ck_assert_msg(n->input[k][0] == 0 || is_made(g, n->input[k], i), "%s is not made",
                      n->input[k]);
    }
    for (size_t k = 0; k < n->n_output; k++) {
        ck_assert_msg(!is_made(g, n->output[k], i), "%s is made twice", n->output[k]);
        ck_assert_msg(is_printable(n->output[k]), "a name with strange letters");
    }
}

static void check_file(dt_ctx *ctx, const char *path)
{
    dt__onnx_file f;
    const dt_status s = dt__onnx_open(ctx, path, &f);
    ck_assert_msg(s == DT_OK, "%s", dt_error(ctx));
    const DtOnnx__Graph *g = f.model->graph;
    ck_assert_int_eq(f.opset, 21);
    ck_assert_int_eq(f.model->ir_version, 10);
    ck_assert_str_eq(f.model->producer_name, "detent");
    ck_assert_uint_eq(g->n_input, 1);
    ck_assert_uint_eq(g->n_output, 1);
    ck_assert_str_eq(g->input[0]->type->tensor_type->shape->dim[0]->dim_param, "batch");
    ck_assert_str_eq(g->output[0]->type->tensor_type->shape->dim[0]->dim_param, "batch");
    for (size_t i = 0; i < g->n_node; i++) check_node(g, i);
    dt__onnx_close(&f);
}

/* Runs the file in detent's interpreter: where the summary promises the model's bits, the outputs
 * have them; else they are near. Files with types that the interpreter lacks are left to
 * onnxruntime. */
static void check_outputs(const random_net *d, const example *e, const char *path, bool equal)
{
    dt__verify *v;
    const dt_status s = dt__verify_open(e->ctx, path, NULL, &v);
    if (s == DT_ERR_UNSUPPORTED && strstr(dt_error(e->ctx), "type") != NULL) return;
    TEST_EACH(s == DT_OK, "network %llu: %s", (unsigned long long)d->seed, dt_error(e->ctx));
    const dt_trace_value *in = dt_trace_value_at(e->trace, 0);
    dt__verify_named x = { .name = dt__verify_input_name(v, 0),
                           .value = { .type = dt__verify_input_type(v, 0),
                                      .rank = in->rank,
                                      .dims = { e->x->dims[0] },
                                      .count = e->x->count,
                                      .data = dt_data_mut(e->x) } };
    for (int i = 1; i < in->rank; i++) {
        x.value.dims[i] = dt_extent_at(in->extent[i], 1, i < e->x->rank ? e->x->dims[i] : 1);
    }
    TEST_EACH(dt__verify_run(v, &x, 1) == DT_OK, "network %llu: %s", (unsigned long long)d->seed,
              dt_error(e->ctx));
    const dt__verify_value *y = dt__verify_output(v, 0);
    const float *got = y->data, *want = dt_data(e->y);
    TEST_EACH(y->count == e->y->count, "network %llu: %lld outputs, not %lld",
              (unsigned long long)d->seed, (long long)y->count, (long long)e->y->count);
    double most = 0;
    for (int64_t i = 0; i < y->count; i++) most = fmax(most, fabs((double)want[i]));
    for (int64_t i = 0; i < y->count; i++) {
        const bool same = memcmp(&got[i], &want[i], sizeof *got) == 0;
        const bool near = fabs((double)got[i] - (double)want[i]) <= NEAR * most;
        TEST_EACH(equal ? same : near, "network %llu: output %lld is %.9g in ONNX, %.9g in detent",
                  (unsigned long long)d->seed, (long long)i, (double)got[i], (double)want[i]);
    }
    dt__verify_close(v);
}

static bool expressed(const dt_trace *t, const dt_export_options *o)
{
    char why[200];
    for (int64_t i = 0; i < dt_trace_calls(t); i++) {
        const dt_trace_call *c = dt_trace_call_at(t, i);
        if (!dt_exporter_named("onnx")->expresses(t, c, o, why, sizeof why)) return false;
    }
    return true;
}

/* The other forms of a file: with past keys and values, nbits, qdq, opset 25. */
static void check_forms(const random_net *d, const example *e, const char *folder, bool equal)
{
    static const char *const names[] = { "past", "nbits", "qdq", "int2" };
    static const int ops[] = { DT_ONNX_PLAIN, DT_ONNX_NBITS, DT_ONNX_QDQ, DT_ONNX_PLAIN };
    for (int i = 0; i < 4; i++) {
        char path[TEST_PATH], name[64];
        dt_export_options o = dt_export_defaults();
        dt_export_summary summary;
        o.onnx_ops = ops[i];
        o.past = i == 0;
        o.onnx_opset = i == 3;
        if ((i == 0 && d->vocab == 0) || !expressed(e->trace, &o)) continue;
        snprintf(name, sizeof name, "%llu.%s.onnx", (unsigned long long)d->seed, names[i]);
        test_join(path, folder, name);
        TEST_EACH(export_as(&o, e->m, e->trace, path, &summary) == DT_OK, "network %llu: %s",
                  (unsigned long long)d->seed, dt_error(e->ctx));
        const bool blocks = d->qat.preset >= DT_INT8_BLOCK_INT4_WEIGHT; /* level 4's arithmetic */
        if (i == 1 && !blocks && d->family != NULL && strcmp(d->family->name, "mlp") == 0) {
            ck_assert_int_eq(summary.integer_products, 0); /* activations stay floats */
            ck_assert_int_gt(summary.float_products, 0);
        }
        if (i == 3) check_outputs(d, e, path, equal);
        if (i == 1 && d->qat.preset == DT_INT4_WEIGHT) { /* nothing but weights is quantized */
            check_outputs(d, e, path, false);
        }
        dt__onnx_file f;
        TEST_OK(e->ctx, dt__onnx_open(e->ctx, path, &f));
        for (size_t k = 0; k < f.model->graph->n_node; k++) check_node(f.model->graph, k);
        ck_assert_int_eq(f.opset, i == 3 ? 25 : 21);
        dt__onnx_close(&f);
    }
}

static void check_network(const random_net *d, const char *folder, bool keep)
{
    char path[TEST_PATH], name[64];
    dt_export_summary summary = { .bytes = 0 };
    example e = example_of(d);
    snprintf(name, sizeof name, "%llu.onnx", (unsigned long long)d->seed);
    test_join(path, folder, name);
    const dt_status s = export_to(e.m, e.trace, path, &summary);
    ck_assert_msg(s == DT_OK, "network %llu: %s", (unsigned long long)d->seed, dt_error(e.ctx));
    check_file(e.ctx, path);
    check_outputs(d, &e, path, strstr(summary.promise, "the model's bits") != NULL);
    check_forms(d, &e, folder, strstr(summary.promise, "the model's bits") != NULL);
    if (keep) {
        save(folder, d->seed, "in", e.x);
        save(folder, d->seed, "out", e.y);
        printf("%llu %s %d %s\n", (unsigned long long)d->seed,
               d->family == NULL ? "convolutions" : d->family->name, d->qat.preset,
               summary.promise);
    }
    example_free(&e);
}

static int64_t context_of(const random_net *d)
{
    const bool gpt = strcmp(d->family->name, "gpt") == 0;
    return gpt ? d->options.gpt.context : d->options.llama.context;
}

#define PARTS 4

START_TEST(networks_are_written)
{
    static const char *const families[] = { "mlp", "cnn", "resnet", "unet", "gpt", "llama" };
    char folder[TEST_PATH];
    const char *kept = getenv("DETENT_EXPORTS"), *first = getenv("DETENT_SEED");
    const uint64_t count = (uint64_t)test_networks(draws);
    const uint64_t from = first != NULL ? strtoull(first, NULL, 10) : 1;
    test_folder(folder);
    for (uint64_t i = (uint64_t)_i; i < count; i += PARTS) {
        const random_net d = i % 2 == 0 ? random_net_of(from + i)
                                        : random_net_of_family(from + i, families[i / 2 % 6]);
        if (d.vocab > 0 && context_of(&d) < 5) continue; /* a trace runs 5 tokens */
        check_network(&d, kept != NULL ? kept : folder, kept != NULL);
    }
}
END_TEST

/* Experts of activations in blocks multiply integers: no product of floats has a weight. */
START_TEST(experts_in_blocks)
{
    char folder[TEST_PATH], path[TEST_PATH];
    dt_export_summary summary = { .bytes = 0 };
    dt__onnx_file f;
    int found = 0;
    test_folder(folder);
    test_join(path, folder, "experts.onnx");
    for (uint64_t seed = 1; found < 2 && seed < 400; seed++) {
        random_net d = random_net_of_family(seed, "llama");
        const dt_moe_options *o = &d.options.llama.moe;
        if (!o->given || context_of(&d) < 5 || o->experts < 2) continue;
        d.qat = dt_qat_defaults();
        d.qat.preset = DT_INT8_BLOCK_INT4_WEIGHT + found;
        example e = example_of(&d);
        TEST_OK(e.ctx, export_to(e.m, e.trace, path, &summary));
        check_outputs(&d, &e, path, false);
        TEST_OK(e.ctx, dt__onnx_open(e.ctx, path, &f));
        int64_t integers = 0, floats = 0;
        for (size_t i = 0; i < f.model->graph->n_node; i++) {
            integers += strcmp(f.model->graph->node[i]->op_type, "MatMulInteger") == 0;
            floats += strcmp(f.model->graph->node[i]->op_type, "MatMul") == 0;
        }
        ck_assert_int_ge(integers, d.options.llama.layers * 3 * o->experts);
        ck_assert_int_le(floats, 3 * d.options.llama.layers + 1); /* attention, router, head */
        dt__onnx_close(&f);
        example_free(&e);
        found++;
    }
    ck_assert_int_eq(found, 2);
}
END_TEST

static void norm_two(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                     int n_out)
{
    (void)n_in;
    (void)n_out;
    dt_layer_norm_options o = dt_layer_norm_defaults();
    o.normalized_dims = 2;
    out[0] = dt_layer_norm(t, in[0], dt_param(m, "weight"), dt_param(m, "bias"), &o);
}

static const dt_module_type norm_of_two = { .name = "norm_of_two", .forward = norm_two };

static void multiply(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                     int n_out)
{
    (void)m;
    (void)n_in;
    (void)n_out;
    out[0] = dt_matmul(t, in[0], dt_transpose(t, in[0], 1, 2));
}

static const dt_module_type product_of_two = { .name = "product_of_two", .forward = multiply };

/* Layers of recipes normalize only the last dimension, and multiply by weights; a program's module
 * may do other things. */
START_TEST(modules_of_programs)
{
    const dt_module_type *const types[] = { &norm_of_two, &product_of_two };
    const random_net d = { .seed = 0 };
    const int64_t dims[] = { 5, 3, 4 };
    const dt_trace_input in = { .name = "x", .dtype = DT_F32, .rank = 3, .dims = { 1, 3, 4 } };
    static const char *const names[] = { "weight", "bias" };
    char folder[TEST_PATH], path[TEST_PATH];
    dt_export_summary summary;
    example e = { .ctx = NULL };
    test_folder(folder);
    test_join(path, folder, "norm.onnx");
    TEST_OK(NULL, dt_ctx_create(&e.ctx, NULL));
    TEST_OK(e.ctx, dt_module_create(e.ctx, types[_i], 0, &e.m));
    for (int i = 0; i < 2; i++) {
        dt_tensor *p;
        TEST_OK(e.ctx, dt_tensor_create(e.ctx, DT_F32, 2, dims + 1, &p));
        TEST_OK(e.ctx, dt_fill_uniform(p, -2, 2));
        TEST_OK(e.ctx, dt_module_add_param(e.m, names[i], p));
    }
    TEST_OK(e.ctx, dt_tensor_create(e.ctx, DT_F32, 3, dims, &e.x));
    TEST_OK(e.ctx, dt_fill_uniform(e.x, -3, 5));
    e.y = output_of(e.m, e.x);
    TEST_OK(e.ctx,
            dt_trace_create(e.m,
                            &(dt_trace_options){ .input = &in,
                                                 .n_inputs = 1,
                                                 .becomes = dt_exporter_named("onnx")->becomes },
                            &e.trace));
    TEST_OK(e.ctx, export_to(e.m, e.trace, path, &summary));
    check_outputs(&d, &e, path, false);
    example_free(&e);
}
END_TEST

START_TEST(norms_compute_their_activation)
{
    const random_net d = { .seed = 0 };
    const int64_t dims[] = { 20, 3 };
    const dt_trace_input in = { .name = "x", .dtype = DT_F32, .rank = 2, .dims = { 1, 3 } };
    char folder[TEST_PATH], path[TEST_PATH];
    dt_export_summary summary;
    example e = { .ctx = NULL };
    test_folder(folder);
    test_join(path, folder, "norm.onnx");
    TEST_OK(NULL, dt_ctx_create(&e.ctx, NULL));
    e.m = create_clipped_norm(e.ctx, clipped_activations[_i]);
    TEST_OK(e.ctx, dt_tensor_create(e.ctx, DT_F32, 2, dims, &e.x));
    TEST_OK(e.ctx, dt_fill_normal(e.x, 0, 1));
    e.y = output_of(e.m, e.x);
    TEST_OK(e.ctx,
            dt_trace_create(e.m,
                            &(dt_trace_options){ .input = &in,
                                                 .n_inputs = 1,
                                                 .becomes = dt_exporter_named("onnx")->becomes },
                            &e.trace));
    TEST_OK(e.ctx, export_to(e.m, e.trace, path, &summary));
    check_outputs(&d, &e, path, false);
    example_free(&e);
}
END_TEST

/* Rows and blocks of zeros, of which relu makes many. */
START_TEST(blocks_of_zeros_are_numbers)
{
    static const int presets[] = { DT_INT8_BLOCK_INT4_WEIGHT, DT_INT8_DYNAMIC_INT4_WEIGHT,
                                   DT_INT8_DYNAMIC_INT8_WEIGHT };
    const random_net d = { .seed = 0 };
    const int64_t dims[] = { 3, 64 };
    const dt_trace_input in = { .name = "x", .dtype = DT_F32, .rank = 2, .dims = { 1, 64 } };
    char folder[TEST_PATH], path[TEST_PATH];
    dt_export_summary summary;
    example e = { .ctx = NULL };
    dt_qat_options qat = dt_qat_defaults();
    qat.preset = presets[_i];
    test_folder(folder);
    test_join(path, folder, "zeros.onnx");
    TEST_OK(NULL, dt_ctx_create(&e.ctx, NULL));
    TEST_OK(e.ctx, dt_linear_create(e.ctx, 64, 5, true, &e.m));
    TEST_OK(e.ctx, dt_prepare(e.m, &qat));
    TEST_OK(e.ctx, dt_convert(e.m, NULL, NULL));
    TEST_OK(e.ctx, dt_tensor_create(e.ctx, DT_F32, 2, dims, &e.x));
    TEST_OK(e.ctx, dt_fill_normal(e.x, 0, 1));
    float *x = dt_data_mut(e.x);
    for (int i = 0; i < 64; i++) {
        x[i] = i % 2 == 0 ? -0.0F : 0; /* a row */
        if (i < 32) x[64 + i] = 0;     /* a block */
    }
    e.y = output_of(e.m, e.x);
    const dt_exporter *to = dt_exporter_named("onnx");
    const dt_trace_options o = { .input = &in, .n_inputs = 1, .becomes = to->becomes };
    TEST_OK(e.ctx, dt_trace_create(e.m, &o, &e.trace));
    TEST_OK(e.ctx, export_to(e.m, e.trace, path, &summary));
    check_outputs(&d, &e, path, false);
    example_free(&e);
    test_remove(folder);
}
END_TEST

/* ---- what can go wrong ----------------------------------------------------------------------- */

static const int64_t sizes[] = { 12, 9, 4, 0 };

static dt_status export_small(dt_ctx *ctx, const char *path, const dt_export_options *o)
{
    const dt_mlp_options options = small_options(sizes, DT_NORM_NONE, 0);
    const dt_model_info info = small_info(&options);
    dt_module *m = NULL;
    dt_status s = info.family->create(ctx, &options, &m);
    if (s == DT_OK) s = dt_prepare(m, NULL);
    if (s == DT_OK) s = dt_convert(m, NULL, NULL);
    if (s == DT_OK) s = dt_export(m, &info, "onnx", o, path, NULL);
    dt_module_free(m);
    return s;
}

static dt_status export_default(dt_ctx *ctx, void *path)
{
    test_remove(path);
    const dt_status s = export_small(ctx, path, NULL);
    TEST_EACH((s == DT_OK) == test_file_exists(path), "%s, and a file", dt_status_name(s));
    return s;
}

START_TEST(every_allocation)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "small.onnx");
    ck_assert_int_gt(test_every_allocation(export_default, path), 100);
    char *list;
    test_remove(path);
    ck_assert_int_eq(test_shell(&list, "ls -A %s | wc -l", folder), 0);
    ck_assert_int_eq(atoi(list), 0);
    free(list);
}
END_TEST

static dt_ctx *ctx;
static void open_ctx(void) { TEST_OK(NULL, dt_ctx_create(&ctx, NULL)); }
static void close_ctx(void) { dt_ctx_free(ctx); }

START_TEST(a_full_disk)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "small.onnx");
    if (!test_limit_files(500)) return;
    const dt_status s = export_small(ctx, path, NULL);
    test_limit_files(-1);
    ck_assert_int_eq(s, DT_ERR_IO);
    ck_assert(!test_file_exists(path));
}
END_TEST

START_TEST(what_cannot_be_expressed)
{
    char folder[TEST_PATH], path[TEST_PATH];
    dt_export_options o = dt_export_defaults();
    test_folder(folder);
    test_join(path, folder, "small.onnx");
    o.onnx_ops = DT_ONNX_QDQ;
    ck_assert_int_eq(export_small(ctx, path, &o), DT_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "linear in "));
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "static ranges"));
    ck_assert(!test_file_exists(path));
    o = dt_export_defaults();
    o.past = true;
    ck_assert_int_eq(export_small(ctx, path, &o), DT_ERR_ARG);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "language models"));
    ck_assert(!test_file_exists(path));
}
END_TEST

/* Of all schemes, files compute the dynamic ranges of three, and blocks. A file of another would
 * have other numbers, or C that does not compile. */
START_TEST(dynamic_ranges_of_each_scheme)
{
    static const char *const formats[] = { "onnx", "c", "tflite" };
    char folder[TEST_PATH], path[TEST_PATH], words[80];
    int refused = 0;
    test_folder(folder);
    for (int scheme = 0; scheme < DT_SCHEME_OWN; scheme++) {
        const dt_mlp_options options = small_options(sizes, DT_NORM_NONE, 0);
        const dt_model_info info = small_info(&options);
        dt_qat_options o = dt_qat_defaults();
        dt_module *m;
        if (dt__has_blocks(scheme)) continue;
        TEST_OK(ctx, info.family->create(ctx, &options, &m));
        o.activation.quant.scheme = scheme;
        o.activation.has_scheme = true;
        const bool prepared = dt_prepare(m, &o) == DT_OK && dt_convert(m, NULL, NULL) == DT_OK;
        const bool written = scheme < DT_SCHEME_Q4_0;
        ck_assert(prepared || !written);
        snprintf(words, sizeof words, "dynamic range of scheme %s", dt__scheme_of(scheme)->name);
        for (int k = 0; k < DT__COUNT_OF(formats) && prepared; k++) {
            test_join(path, folder, formats[k]);
            test_remove(path);
            const dt_status s = dt_export(m, &info, formats[k], NULL, path, NULL);
            const char *found = strstr(dt_error(ctx), words);
            TEST_EACH((found != NULL) == !written, "%s: %s: %s", words, formats[k], dt_error(ctx));
            ck_assert(written || s == DT_ERR_UNSUPPORTED);
            refused += !written;
        }
        dt_module_free(m);
    }
    ck_assert_int_gt(refused, 0);
}
END_TEST

static void add_two(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)m;
    (void)n_in;
    (void)n_out;
    out[0] = dt_add(t, in[0], in[1]);
}

static const dt_module_type sum_of_two = { .name = "sum_of_two", .forward = add_two };

/* Two inputs with strange letters, without which their names are the same. */
START_TEST(hostile_names)
{
    static const char *const given[] = { "a:b \"\n", "a_b__\x7f" };
    char folder[TEST_PATH], path[TEST_PATH];
    dt_trace_input in[2];
    dt_export_summary summary;
    dt_module *m = NULL;
    dt_trace *t = NULL;
    test_folder(folder);
    test_join(path, folder, "names.onnx");
    TEST_OK(ctx, dt_module_create(ctx, &sum_of_two, 0, &m));
    for (int i = 0; i < 2; i++) {
        in[i] = (dt_trace_input){ .name = given[i], .dtype = DT_F32, .rank = 2, .dims = { 1, 3 } };
    }
    TEST_OK(ctx,
            dt_trace_create(m,
                            &(dt_trace_options){ .input = in,
                                                 .n_inputs = 2,
                                                 .becomes = dt_exporter_named("onnx")->becomes },
                            &t));
    TEST_OK(ctx, export_to(m, t, path, &summary));
    dt__onnx_file f;
    TEST_OK(ctx, dt__onnx_open(ctx, path, &f));
    ck_assert_str_eq(f.model->graph->input[0]->name, "a_b___");
    ck_assert_str_eq(f.model->graph->input[1]->name, "a_b____1");
    dt__onnx_close(&f);
    dt_trace_free(t);
    dt_module_free(m);
}
END_TEST

Suite *test_export_onnx_suite(void)
{
    Suite *s = suite_create("export_onnx");
    TCase *networks = tcase_create("networks"), *bad = tcase_create("bad");
    tcase_set_timeout(networks, 600);
    tcase_add_loop_test(networks, networks_are_written, 0, PARTS);
    tcase_add_test(networks, experts_in_blocks);
    tcase_add_loop_test(networks, modules_of_programs, 0, 2);
    tcase_add_loop_test(networks, norms_compute_their_activation, 0, 3);
    tcase_add_loop_test(networks, blocks_of_zeros_are_numbers, 0, 3);
    tcase_set_timeout(bad, 300);
    tcase_add_checked_fixture(bad, open_ctx, close_ctx);
    tcase_add_test(bad, every_allocation);
    tcase_add_test(bad, a_full_disk);
    tcase_add_test(bad, what_cannot_be_expressed);
    tcase_add_test(bad, dynamic_ranges_of_each_scheme);
    tcase_add_test(bad, hostile_names);
    suite_add_tcase(s, networks);
    suite_add_tcase(s, bad);
    return s;
}
