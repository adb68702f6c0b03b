/* Attention in ONNX as programs write it: the batch is the first dimension or behind time, alone or
 * merged with the heads, of any size or a fixed one. Random graphs compute the same as in the
 * interpreter of ONNX, also after an export; masks of minus infinity; the operators Attention and
 * Trilu by their formulas. */
#include "testing.h"

#include "core/core.h"
#include "onnx_graph.h"

#include <detent/experimental/export.h>
#include <detent/experimental/io.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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

static uint64_t state = 1;

static int draw(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* The random choices of a graph, and the graph. */
typedef struct drawing {
    int time, heads, width, batch; /* batch 0: of any size */
    bool second;                   /* the batch is behind time */
    bool merged;                   /* heads are one dimension with the batch */
    DtOnnx__Model *m;
    char text[6000];
    int values;
} drawing;

/* A tensor of drawn numbers. */
static const char *numbers(const char *shape, int n)
{
    static char text[4000];
    int used = snprintf(text, sizeof text, "f32 %s:", shape);
    for (int i = 0; i < n; i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, " %.4g", draw(2001) / 1e3 - 1);
    }
    return text;
}

/* Adds a node that reads `in`; the name of its result. */
static const char *node(drawing *d, const char *op, const char *attributes, const char *in)
{
    static char names[64][8];
    char *name = names[d->values % 64];
    snprintf(name, sizeof names[0], "v%d", d->values++);
    onnx_node(d->m, op, attributes, in, name);
    const size_t used = strlen(d->text);
    snprintf(d->text + used, sizeof d->text - used, "%s = %s %s (%s)\n", name, op,
             attributes == NULL ? "" : attributes, in);
    return name;
}

static const char *with(drawing *d, const char *op, const char *x, const char *tensor)
{
    char name[16], in[40];
    snprintf(name, sizeof name, "w%d", d->values);
    onnx_weight(d->m, name, tensor);
    snprintf(in, sizeof in, "%s %s", x, name);
    const size_t used = strlen(d->text);
    snprintf(d->text + used, sizeof d->text - used, "   %s = %.60s\n", name, tensor);
    return node(d, op, NULL, in);
}

static const char *both(drawing *d, const char *op, const char *a, const char *b)
{
    char in[40];
    snprintf(in, sizeof in, "%s %s", a, b);
    return node(d, op, NULL, in);
}

/* A shape in which -1 is the batch, times `factor`, if the file fixes the batch. */
static const char *shaped(drawing *d, const char *x, int n, const int *dims, int factor)
{
    char text[60];
    int used = snprintf(text, sizeof text, "i64 %d:", n);
    for (int i = 0; i < n; i++) {
        const int own = dims[i] >= 0 || d->batch == 0 ? dims[i] : d->batch * factor;
        used += snprintf(text + used, sizeof text - (size_t)used, " %d", own);
    }
    return with(d, "Reshape", x, text);
}

static const char *linear(drawing *d, const char *x, int n_in, int n_out)
{
    char shape[30];
    snprintf(shape, sizeof shape, "%d %d", n_in, n_out);
    x = with(d, "MatMul", x, numbers(shape, n_in * n_out));
    snprintf(shape, sizeof shape, "%d", n_out);
    return draw(2) ? with(d, "Add", x, numbers(shape, n_out)) : x;
}

/* A projection with separate heads: [.., time, width] behind the batch and heads. */
static const char *projected(drawing *d, const char *x)
{
    const int c = d->heads * d->width;
    x = linear(d, x, c, c);
    if (d->second && d->merged) {
        x = shaped(d, x, 3, (int[]){ d->time, -1, d->width }, d->heads);
        return node(d, "Transpose", "perm=[1,0,2]", x);
    }
    if (d->second) {
        x = shaped(d, x, 4, (int[]){ d->time, -1, d->heads, d->width }, 1);
        return node(d, "Transpose", "perm=[1,2,0,3]", x);
    }
    x = shaped(d, x, 4, (int[]){ -1, d->time, d->heads, d->width }, 1);
    x = node(d, "Transpose", "perm=[0,2,1,3]", x);
    return d->merged ? shaped(d, x, 3, (int[]){ -1, d->time, d->width }, d->heads) : x;
}

/* A random step between the products of attention, of [.., time, time]. */
static const char *softened(drawing *d, const char *x)
{
    char text[400];
    const int t = d->time, kind = draw(4);
    int used = snprintf(text, sizeof text, kind == 0 ? "f32 %d %d:" : "f32 1 %d %d:", t, t);
    for (int i = 0; i < t * t; i++) {
        const bool hidden = kind == 0 ? i % t > i / t : i % t != 0 && draw(3) == 0;
        used +=
            snprintf(text + used, sizeof text - (size_t)used, hidden ? " -inf" : " %d", draw(3));
    }
    x = with(d, "Mul", x, "f32: 0.5");
    if (kind < 2) x = with(d, "Add", x, text);
    return node(d, "Softmax", draw(2) ? NULL : "axis=-1", x);
}

/* Joins the heads: x [batch, time, c], or with time first. */
static const char *joined(drawing *d, const char *x)
{
    const int c = d->heads * d->width, rows[] = { -1, c };
    if (d->second && d->merged) {
        x = node(d, "Transpose", "perm=[1,0,2]", x);
    } else {
        if (d->merged) x = shaped(d, x, 4, (int[]){ -1, d->heads, d->time, d->width }, 1);
        x = node(d, "Transpose", d->second ? "perm=[2,0,1,3]" : "perm=[0,2,1,3]", x);
    }
    const int last[] = { d->second ? d->time : -1, d->second ? -1 : d->time, c };
    if (draw(2)) return linear(d, shaped(d, x, 3, last, 1), c, c);
    x = linear(d, shaped(d, x, 2, rows, d->time), c, c); /* of [batch * time, c] */
    return shaped(d, x, 3, last, 1);
}

/* Of a batch that the file fixes, or of any size where it is 0. */
static void draw_graph(drawing *d, int batch)
{
    *d = (drawing){ .time = 2 + draw(3),
                    .heads = 2 + draw(2),
                    .width = 1 + draw(3),
                    .batch = batch,
                    .second = draw(2),
                    .merged = draw(2) };
    const int c = d->heads * d->width;
    snprintf(d->text, sizeof d->text, "batch %d, %s%s\n", d->batch, d->second ? "second " : "",
             d->merged ? "merged" : "");
    d->m = onnx_start("f32 1 4: 0 0 0 0");
    DtOnnx__Dimension *first = d->m->graph->input[0]->type->tensor_type->shape->dim[0];
    if (d->batch > 0) first->dim_value = d->batch, first->dim_param = "";
    const char *x = linear(d, "h", 4, d->time * c);
    x = shaped(d, x, 3, (int[]){ -1, d->time, c }, 1);
    if (d->second) x = node(d, "Transpose", "perm=[1,0,2]", x);
    const char *q = projected(d, x), *k = projected(d, x), *v = projected(d, x);
    k = node(d, "Transpose", d->merged ? "perm=[0,2,1]" : "perm=[0,1,3,2]", k);
    const char *y = both(d, "MatMul", softened(d, both(d, "MatMul", q, k)), v);
    if (draw(3) == 0) y = node(d, "Relu", NULL, y);
    y = joined(d, y);
    if (draw(2)) y = both(d, "Add", y, x);
    if (draw(3) == 0)
        y = both(d, "Add", with(d, "ReduceMean", y, d->second ? "i64 1: 0" : "i64 1: 1"), y);
    if (d->second) y = node(d, "Transpose", "perm=[1,0,2]", y);
    d->m->graph->output[0]->type->tensor_type->shape = NULL;
}

static void write_model(const DtOnnx__Model *m)
{
    size_t n;
    const unsigned char *bytes = onnx_pack(m, &n);
    test_write_file(path, bytes, n);
}

static void compare(dt_module *m, const dt_model_info *info, const char *file, const char *text)
{
    dt_export_difference d[DT_MAX_OUT];
    int n;
    ck_assert_msg(dt_export_verify(m, info, file, d, &n) == DT_OK, "%s\n%s", dt_error(ctx), text);
    ck_assert_msg(d[0].relative <= 1e-5, "they differ by %g:\n%s", d[0].relative, text);
}

/* What an imported graph gives for a batch of two. */
static void run(const DtOnnx__Model *m, const float *x, float *y, int64_t n)
{
    dt_module *imported;
    dt_tensor *in;
    dt_tape *t;
    write_model(m);
    ck_assert_msg(dt_onnx_import(ctx, path, NULL, &imported, NULL) == DT_OK, "%s", dt_error(ctx));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (int64_t[]){ 2, 4 }, &in));
    memcpy(dt_data_mut(in), x, 8 * sizeof *x);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    const dt_tensor *out = dt_contiguous(t, dt_forward(t, imported, in));
    TEST_OK(ctx, dt_tape_status(t));
    ck_assert_int_eq(dt_count(out), n);
    memcpy(y, dt_data(out), (size_t)n * sizeof *y);
    dt_tape_free(t);
    dt_tensor_free(in);
    dt_module_free(imported);
}

START_TEST(drawn_attention)
{
    const int64_t draws = test_count((test_draws){ .usual = 150, .sanitized = 6, .quick = 30 });
    dt_export_summary summary;
    state = (uint64_t)_i + 1;
    for (int64_t k = 0; k < draws; k++) {
        static drawing d;
        dt_module *m;
        dt_model_info info;
        draw_graph(&d, k % 2 == 0 ? 0 : 3); /* as many as the comparison has */
        write_model(d.m);
        const dt_status s = dt_onnx_import(ctx, path, NULL, &m, &info);
        ck_assert_msg(s == DT_OK, "%s\n%s", dt_error(ctx), d.text);
        compare(m, &info, path, d.text);
        if (k % 8 == 0) {
            TEST_OK(ctx, dt_export(m, &info, "onnx", NULL, again, &summary));
            compare(m, &info, again, d.text);
            remove(again);
        }
        dt_model_info_free(ctx, &info);
        dt_module_free(m);
        onnx_forget();
    }
}
END_TEST

/* A file for one example becomes the model of the file for any number of them. */
START_TEST(one_example)
{
    const int64_t draws = test_count((test_draws){ .usual = 60, .sanitized = 4, .quick = 10 });
    for (int64_t k = 0; k < draws; k++) {
        static drawing d;
        float x[8], y[2][2 * 4 * 9];
        int64_t n = 0;
        for (int batch = 0; batch < 2; batch++) {
            state = (uint64_t)k + 100;
            for (int i = 0; i < 8; i++) x[i] = (float)draw(100) / 50;
            draw_graph(&d, batch);
            n = 2 * d.time * d.heads * d.width;
            ck_assert_int_le(n, DT__COUNT_OF(y[0]));
            run(d.m, x, y[batch], n);
            onnx_forget();
        }
        ck_assert_msg(memcmp(y[0], y[1], (size_t)n * sizeof(float)) == 0, "%s", d.text);
    }
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

static const struct wrong {
    const char *op, *attributes, *in, *says;
} wrong[] = {
    { "Softmax", NULL, "masked", "hides a whole row" },
    { "Relu", NULL, "masked", "that another node than Softmax reads" },
    { "LogSoftmax", NULL, "masked", "that another node than Softmax reads" },
    { "Softmax", "axis=1", "lower", "hides a whole row" },
    { "Softmax", "axis=1", "turned", "over the batch dimension; expected others" },
    { "Reshape", NULL, "h shape", "dimension 0 is the batch, merged with others" },
    { "Reshape", NULL, "h twice", "the new shape does not fit" },
    { "MatMul", NULL, "turned h", "over the batch dimension; expected others" },
    { "LayerNormalization", "axis=0", "turned scale", "over the batch dimension; expected others" },
    { "Concat", "axis=0", "turned square", "the batches of its inputs are dimensions 1 and 0" },
    { "Attention", NULL, "h h h", "has 2 dimensions; expected 4" },
    { "Attention", "q_num_heads=3 kv_num_heads=3", "row row row", "3 heads do not divide" },
    { "Attention", "softcap=2f", "row row row", "softcap" },
};

START_TEST(what_is_refused)
{
    for (int i = 0; i < DT__COUNT_OF(wrong); i++) {
        DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
        dt_module *imported;
        m->opset_import[0]->version = 23;
        onnx_weight(m, "mask", "f32 4: -inf -inf -inf -inf");
        onnx_weight(m, "half", "f32 4 4: 0 -inf 0 0 0 -inf 0 0 0 -inf 0 0 0 -inf 0 0");
        onnx_weight(m, "shape", "i64 2: -1 2");
        onnx_weight(m, "twice", "i64 2: 3 -1");
        onnx_weight(m, "one", "i64 1: 1");
        onnx_weight(m, "scale", "f32 1: 1");
        onnx_weight(m, "square", "i64 2: 4 -1");
        onnx_node(m, "Transpose", "perm=[1,0]", "h", "turned");
        onnx_node(m, "Unsqueeze", NULL, "h one", "row");
        if (strcmp(wrong[i].in, "masked") == 0) onnx_node(m, "Add", NULL, "h mask", "masked");
        if (strcmp(wrong[i].in, "lower") == 0) onnx_node(m, "Add", NULL, "row half", "lower");
        if (strstr(wrong[i].in, " square") != NULL) {
            onnx_node(m, wrong[i].op, wrong[i].attributes, "turned h", "y");
        } else {
            onnx_node(m, wrong[i].op, wrong[i].attributes, wrong[i].in, "y");
        }
        m->graph->output[0]->type->tensor_type->shape = NULL;
        write_model(m);
        TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, wrong[i].says,
                   dt_onnx_import(ctx, path, NULL, &imported, NULL));
        onnx_forget();
    }
}
END_TEST

/* ---- operators ------------------------------------------------------------------------------- */

/* softmax(scale q k^T + mask) v of heads that keys share, in double. */
static void attend(const float *q, int heads, int shared, int time, int width, bool causal,
                   float *y)
{
    for (int h = 0; h < heads; h++) {
        const float *own = q + h * time * width, *other = q + h / (heads / shared) * time * width;
        for (int t = 0; t < time; t++) {
            double p[8], sum = 0, scores[8];
            for (int s = 0; s < time; s++) {
                scores[s] = 0;
                for (int i = 0; i < width; i++) {
                    scores[s] += (double)own[t * width + i] * (double)other[s * width + i];
                }
                p[s] = causal && s > t ? 0 : exp(scores[s] / sqrt(width));
                sum += p[s];
            }
            for (int i = 0; i < width; i++) {
                double x = 0;
                for (int s = 0; s < time; s++) x += p[s] / sum * (double)other[s * width + i];
                y[(h * time + t) * width + i] = (float)x;
            }
        }
    }
}

START_TEST(attention_has_its_values)
{
    state = 3;
    for (int k = 0; k < 24; k++) {
        DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
        const int heads = 2 + 2 * (k % 2), shared = 2, time = 2, width = 1 + draw(3);
        const int n = heads * time * width, few = shared * time * width;
        const bool causal = k % 3 == 0;
        char text[60], with_causal[60];
        float x[8], w[4 * 4 * 2 * 3], flat[4 * 2 * 3], wanted[48], y[48];
        m->opset_import[0]->version = 23;
        for (int i = 0; i < 8; i++) x[i] = (float)draw(100) / 50;
        snprintf(text, sizeof text, "4 %d", n);
        const char *tensor = numbers(text, 4 * n);
        onnx_weight(m, "w", tensor);
        memcpy(w, onnx_tensor(tensor, "")->raw_data.data, (size_t)(4 * n) * sizeof *w);
        snprintf(text, sizeof text, "i64 4: -1 %d %d %d", heads, time, width);
        onnx_weight(m, "shape", text);
        onnx_weight(m, "zero", "i64 1: 0");
        snprintf(text, sizeof text, "i64 1: %d", shared);
        onnx_weight(m, "end", text);
        onnx_weight(m, "one", "i64 1: 1");
        onnx_node(m, "MatMul", NULL, "h w", "p");
        onnx_node(m, "Reshape", NULL, "p shape", "q");
        onnx_node(m, "Slice", NULL, "q zero end one", "k");
        snprintf(with_causal, sizeof with_causal, "is_causal=%d", causal);
        onnx_node(m, "Attention", with_causal, "q k k", "y");
        m->graph->output[0]->type->tensor_type->shape = NULL;
        ck_assert_int_le(few, n);
        for (int b = 0; b < 2; b++) {
            for (int o = 0; o < n; o++) {
                double sum = 0;
                for (int i = 0; i < 4; i++) sum += (double)x[b * 4 + i] * (double)w[i * n + o];
                flat[o] = (float)sum;
            }
            attend(flat, heads, shared, time, width, causal, wanted + b * n);
        }
        run(m, x, y, 2 * n);
        for (int i = 0; i < 2 * n; i++) {
            ck_assert_msg(fabsf(y[i] - wanted[i]) < 1e-5F, "%d: %g, not %g", i, (double)y[i],
                          (double)wanted[i]);
        }
        onnx_forget();
    }
}
END_TEST

START_TEST(triangles)
{
    const float x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    for (int i = 0; i < 8; i++) {
        DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
        const int upper = i % 2, k = i / 2 - 1;
        char text[40];
        float y[8];
        m->opset_import[0]->version = 14;
        onnx_weight(m, "shape", "i64 3: -1 2 2");
        snprintf(text, sizeof text, "i64: %d", k);
        onnx_weight(m, "k", text);
        snprintf(text, sizeof text, "upper=%d", upper);
        onnx_node(m, "Reshape", NULL, "h shape", "square");
        onnx_node(m, "Trilu", text, "square k", "y");
        m->graph->output[0]->type->tensor_type->shape = NULL;
        run(m, x, y, 8);
        for (int n = 0; n < 8; n++) {
            const int at = n % 2 - n / 2 % 2;
            ck_assert(y[n] == (upper ? (at >= k ? x[n] : 0) : at <= k ? x[n] : 0));
        }
        onnx_forget();
    }
}
END_TEST

Suite *test_onnx_attention_suite(void);
Suite *test_onnx_attention_suite(void)
{
    Suite *s = suite_create("onnx_attention");
    TCase *c = tcase_create("onnx_attention");
    tcase_add_checked_fixture(c, begin, end);
    tcase_set_timeout(c, 600);
    tcase_add_loop_test(c, drawn_attention, 0, 4);
    tcase_add_test(c, one_example);
    tcase_add_test(c, what_is_refused);
    tcase_add_test(c, attention_has_its_values);
    tcase_add_test(c, triangles);
    suite_add_tcase(s, c);
    return s;
}
