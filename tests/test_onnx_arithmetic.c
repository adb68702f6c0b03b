/* Arithmetic between layers, imported from ONNX: random graphs compute the same as in the
 * interpreter of ONNX, also after they are exported again; functions that the interpreter lacks
 * have the values of their formulas; and what would mix examples is refused. */
#include "testing.h"

#include "core/core.h"
#include "onnx_graph.h"

#include <detent/experimental/export.h>
#include <detent/experimental/io.h>
#include <math.h>
#include <stdio.h>

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

static void write_model(const DtOnnx__Model *m)
{
    size_t n;
    m->graph->output[0]->type->tensor_type->shape = NULL;
    const unsigned char *bytes = onnx_pack(m, &n);
    test_write_file(path, bytes, n);
}

static void refuses(const DtOnnx__Model *m, const char *says)
{
    dt_module *imported;
    write_model(m);
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, says, dt_onnx_import(ctx, path, NULL, &imported, NULL));
    onnx_forget();
}

/* ---- drawn graphs ---------------------------------------------------------------------------- */

static uint64_t state = 1;

static int draw(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

typedef struct value {
    char name[16];
    int rank, dims[2]; /* behind the batch; of rank 2 the last one */
    bool exact;        /* not rounded: comparisons with it, and steps, cannot flip */
    bool truth;
} value;

#define VALUES 14

typedef struct drawing {
    DtOnnx__Model *m;
    value v[VALUES];
    int n, constants;
    char text[1000]; /* what was drawn */
} drawing;

static value *last(drawing *d) { return &d->v[d->n - 1]; }

/* Adds a node of these inputs, and its result, which is like a value. */
static value *add(drawing *d, const char *op, const char *with, const char *in, const value *like)
{
    value *y = &d->v[d->n];
    const value own = *like;
    ck_assert_int_lt(d->n, VALUES);
    *y = own;
    y->exact = false;
    snprintf(y->name, sizeof y->name, "v%d", d->n++);
    onnx_node(d->m, op, with, in, y->name);
    const size_t used = strlen(d->text);
    snprintf(d->text + used, sizeof d->text - used, "%s=%s(%s %s) ", y->name, op, in,
             with == NULL ? "" : with);
    return y;
}

static double draw_real(void) { return draw(4000) / 1000.0 - 2; }

/* A constant of a shape that broadcasts to x and leaves its extents. */
static const char *constant(drawing *d, const value *x)
{
    static char name[16], text[400];
    const int last_one = draw(2) ? x->dims[1] : 1, before = draw(2) ? x->dims[0] : 1;
    const int rank = draw(x->rank == 3 ? 3 : 2), n = rank == 0   ? 1
                                                     : rank == 1 ? last_one
                                                                 : before * last_one;
    int used = snprintf(text, sizeof text, "f32");
    if (rank == 2) used += snprintf(text + used, sizeof text - (size_t)used, " %d", before);
    if (rank >= 1) used += snprintf(text + used, sizeof text - (size_t)used, " %d", last_one);
    used += snprintf(text + used, sizeof text - (size_t)used, ":");
    for (int i = 0; i < n; i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, " %.3f", draw_real());
    }
    snprintf(name, sizeof name, "c%d", d->constants++);
    onnx_weight(d->m, name, text);
    return name;
}

static const char *pair(const char *a, const char *b)
{
    static char text[64];
    snprintf(text, sizeof text, "%s %s", a, b);
    return text;
}

/* Whether two values are numeric and broadcast without combining a batch with another dimension. */
static bool fit(const value *a, const value *b)
{
    bool fits = a->rank == b->rank && !a->truth && !b->truth;
    for (int i = 0; i < 2; i++) {
        fits = fits && (a->dims[i] == b->dims[i] || a->dims[i] == 1 || b->dims[i] == 1);
    }
    return fits;
}

/* Another value that fits x; x itself if there is none. */
static const value *beside(drawing *d, const value *x)
{
    for (int i = 0; i < 8; i++) {
        const value *v = &d->v[draw(d->n)];
        if (fit(v, x)) return v;
    }
    return x;
}

static value joined(const value *a, const value *b)
{
    value y = *a;
    for (int i = 0; i < 2; i++) y.dims[i] = a->dims[i] > b->dims[i] ? a->dims[i] : b->dims[i];
    return y;
}

static void draw_function(drawing *d)
{
    static const char *const op[] = { "Tanh", "Sigmoid",   "Abs", "Neg",  "Softplus",   "HardSwish",
                                      "Erf",  "LeakyRelu", "Elu", "Clip", "HardSigmoid" };
    static const char *const steps[] = { "Floor", "Ceil", "Round", "Sign", "Relu" };
    const value *x = last(d);
    if (x->exact && draw(2)) {
        add(d, steps[draw(5)], NULL, x->name, x)->exact = true;
        return;
    }
    const int i = draw(DT__COUNT_OF(op));
    const char *with = i == 7    ? "alpha=0.3f"
                       : i == 8  ? "alpha=1.7f"
                       : i == 10 ? "alpha=0.4f"
                                 : NULL;
    char in[32];
    snprintf(in, sizeof in, i == 9 ? "%s low high" : "%s", x->name);
    value *y = add(d, op[i], with, in, x);
    y->exact = d->v[d->n - 2].exact && (i == 2 || i == 3 || i == 9);
}

/* f(|x| + 0.5), which is far from the ends of f. */
static void draw_positive(drawing *d)
{
    static const char *const op[] = { "Log", "Sqrt", "Reciprocal", "Pow", "Div" };
    const int i = draw(5);
    add(d, "Abs", NULL, last(d)->name, last(d));
    add(d, "Add", NULL, pair(last(d)->name, "half"), last(d));
    const value *x = last(d), *a = beside(d, x);
    if (i == 4) {
        const value y = joined(a, x);
        add(d, op[i], NULL, pair(a->name, x->name), &y);
    } else {
        add(d, op[i], NULL, i == 3 ? pair(x->name, draw(2) ? "third" : "half") : x->name, x);
    }
}

static void draw_pair(drawing *d)
{
    static const char *const op[] = { "Add", "Sub", "Mul", "Max", "Min", "Sum" };
    const int i = draw(6);
    const value *x = last(d), *b = beside(d, x);
    const bool exact = i == 3 || i == 4;
    if (draw(2)) {
        const char *c = constant(d, x);
        const bool first = draw(2);
        const bool was = x->exact;
        add(d, op[i], NULL, pair(first ? c : x->name, first ? x->name : c), x)->exact =
            exact && was;
        return;
    }
    const bool was = x->exact && b->exact;
    const value y = joined(x, b);
    add(d, op[i], NULL, pair(x->name, b->name), &y)->exact = exact && was;
}

/* Where(a comparison, x, b) of what is exact. */
static void draw_choice(drawing *d)
{
    static const char *const op[] = { "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal" };
    value x = *last(d);
    const value *cond = NULL;
    for (int i = 0; i < d->n; i++) {
        if (d->v[i].exact && fit(&d->v[i], &x) && (cond == NULL || draw(2))) cond = &d->v[i];
    }
    if (cond == NULL) return;
    const value own = *cond;
    char in[64];
    value *c = add(d, op[draw(5)], NULL, pair(own.name, constant(d, &own)), &own);
    c->truth = true;
    if (draw(3) == 0) c = add(d, "Not", NULL, c->name, c);
    const value y = joined(&own, &x);
    snprintf(in, sizeof in, "%s %s %s", c->name, x.name, draw(2) ? "half" : x.name);
    add(d, "Where", NULL, in, &y)->truth = false;
}

static void draw_reduction(drawing *d)
{
    static const char *const op[] = { "ReduceSum", "ReduceMean", "ReduceMax",       "ReduceMin",
                                      "ReduceL1",  "ReduceProd", "ReduceSumSquare", "ReduceL2" };
    const value x = *last(d);
    value y = x;
    const int i = draw(DT__COUNT_OF(op)), axis = x.rank == 3 ? draw(2) : 1;
    const bool keep = x.rank == 2 || draw(2);
    if (i == 7) { /* the square root of a sum near 0 has no precision */
        add(d, "Abs", NULL, x.name, &x);
        add(d, "Add", NULL, pair(last(d)->name, "half"), &x);
    }
    y.dims[axis] = 1;
    if (!keep) y = (value){ .rank = 2, .dims = { 1, axis == 1 ? x.dims[0] : x.dims[1] } };
    add(d, op[i], keep ? NULL : "keepdims=0",
        pair(last(d)->name, x.rank == 2 || axis == 0 ? "first" : "behind"), &y);
}

static void draw_rank(drawing *d)
{
    const value x = *last(d);
    value y = { .rank = 3, .dims = { 1, x.dims[1] } };
    if (x.rank == 3) return;
    add(d, "Unsqueeze", NULL, pair(x.name, "first"), &y)->exact = x.exact;
    y.dims[0] = 3;
    const bool was = last(d)->exact;
    add(d, "Max", NULL, pair(last(d)->name, "column"), &y)->exact = was;
}

static void draw_graph(drawing *d)
{
    static void (*const parts[])(drawing *) = { draw_function,  draw_function, draw_positive,
                                                draw_pair,      draw_pair,     draw_choice,
                                                draw_reduction, draw_rank };
    *d = (drawing){ .m = onnx_start("f32 1 4: 0 0 0 0") };
    onnx_weight(d->m, "half", "f32: 0.5");
    onnx_weight(d->m, "third", "f32: -1.3");
    onnx_weight(d->m, "first", "i64 1: 1");
    onnx_weight(d->m, "behind", "i64 1: 2");
    onnx_weight(d->m, "low", "f32: -0.75");
    onnx_weight(d->m, "high", "f32: 0.75");
    onnx_weight(d->m, "column", "f32 3 1: -1 0 0.25");
    d->v[d->n++] = (value){ .name = "h", .rank = 2, .dims = { 1, 4 }, .exact = true };
    add(d, "Sub", NULL, "h half", last(d));
    while (d->n < VALUES - 5) parts[draw(DT__COUNT_OF(parts))](d);
}

#define NEAR 5e-6

static void compare(dt_module *m, const dt_model_info *info, const char *file, const drawing *d)
{
    dt_export_difference apart[DT_MAX_OUT];
    int n;
    TEST_OK(ctx, dt_export_verify(m, info, file, apart, &n));
    ck_assert_msg(apart[0].relative <= NEAR, "%g apart in %s: %s", apart[0].relative, file,
                  d->text);
}

/* Each graph is imported, and compared; then exported, which is compared too. */
START_TEST(drawn_graphs)
{
    const int64_t draws = test_count((test_draws){ .usual = 150, .sanitized = 8, .quick = 30 });
    dt_export_summary summary;
    state = (uint64_t)_i + 1;
    for (int64_t k = 0; k < draws; k++) {
        static drawing d;
        dt_module *m;
        dt_model_info info;
        draw_graph(&d);
        write_model(d.m);
        const dt_status s = dt_onnx_import(ctx, path, NULL, &m, &info);
        ck_assert_msg(s == DT_OK, "%s\n%s", dt_error(ctx), d.text);
        compare(m, &info, path, &d);
        if (k % 4 == 0) {
            TEST_OK(ctx, dt_export(m, &info, "onnx", NULL, again, &summary));
            compare(m, &info, again, &d);
            remove(again);
        }
        dt_model_info_free(ctx, &info);
        dt_module_free(m);
        onnx_forget();
    }
}
END_TEST

/* ---- formulas -------------------------------------------------------------------------------- */

static double selu(double x)
{
    return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * expm1(x));
}
static double steep_selu(double x) { return 3 * (x > 0 ? x : 2 * expm1(x)); }
static double celu(double x) { return x > 0 ? x : 0.5 * expm1(x / 0.5); }
static double elu(double x) { return x > 0 ? x : -2 * expm1(x); }
static double thresholded(double x) { return x > 1 ? x : 0; }
static double shrink(double x) { return x < -0.5 ? x + 0.25 : x > 0.5 ? x - 0.25 : 0; }
static double softsign(double x) { return x / (1 + fabs(x)); }
static double mish(double x) { return x * tanh(log1p(exp(x))); }
static double mean(double x) { return (x + x * x + 3) / 3; }
static double above(double x) { return fmax(x, 0.25); }
static double crossed(double x) { return x == x ? -1 : x; }
static double inverse(double x) { return 2 / (x - 0.125); }
static double is_any(double x) { return x > 0.5 || x < -0.5 ? 1 : 0; }
static double is_one(double x) { return (x > 0.5) != (x > -0.5) ? 1 : 0; }

static const struct formula {
    const char *op, *attributes, *in;
    double (*f)(double x);
    int opset;
} formulas[] = {
    { "Selu", NULL, "h", selu, 21 },
    { "Selu", "alpha=2f gamma=3f", "h", steep_selu, 21 },
    { "Celu", "alpha=0.5f", "h", celu, 21 },
    { "Elu", "alpha=-2f", "h", elu, 21 },
    { "ThresholdedRelu", NULL, "h", thresholded, 21 },
    { "Shrink", "bias=0.25f", "h", shrink, 21 },
    { "Softsign", NULL, "h", softsign, 21 },
    { "Mish", NULL, "h", mish, 21 },
    { "Mean", NULL, "h square three", mean, 21 },
    { "Clip", NULL, "h quarter", above, 21 },
    { "Clip", NULL, "h three minus", crossed, 21 },
    { "Div", NULL, "two less", inverse, 21 },
    { "Or", NULL, "high low", is_any, 21 },
    { "Xor", NULL, "high middle", is_one, 21 },
};

static DtOnnx__Model *formula_model(const struct formula *f)
{
    DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
    m->graph->node[0]->op_type = "Identity";
    onnx_weight(m, "three", "f32: 3");
    onnx_weight(m, "two", "f32 4: 2 2 2 2");
    onnx_weight(m, "quarter", "f32: 0.25");
    onnx_weight(m, "minus", "f32: -1");
    onnx_weight(m, "half", "f32: 0.5");
    onnx_weight(m, "other", "f32: -0.5");
    onnx_weight(m, "eighth", "f32: 0.125");
    onnx_node(m, "Mul", NULL, "h h", "square");
    onnx_node(m, "Sub", NULL, "h eighth", "less");
    onnx_node(m, "Greater", NULL, "h half", "high");
    onnx_node(m, "Less", NULL, "h other", "low");
    onnx_node(m, "Greater", NULL, "h other", "middle");
    onnx_node(m, f->op, f->attributes, f->in, "y");
    m->opset_import[0]->version = f->opset;
    return m;
}

START_TEST(functions_have_their_values)
{
    static const float x[] = { -20, -1.5F, -0.5F, -0.25F, 0, 0.5F, 1, 30 };
    const struct formula *f = &formulas[_i];
    const int64_t dims[] = { 2, 4 };
    dt_module *m;
    dt_tape *t;
    dt_tensor *in;
    write_model(formula_model(f));
    TEST_OK(ctx, dt_onnx_import(ctx, path, NULL, &m, NULL));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, dims, &in));
    memcpy(dt_data_mut(in), x, sizeof x);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_train(m, false);
    dt_tensor *y = dt_contiguous(t, dt_forward(t, m, in));
    TEST_OK(ctx, dt_tape_status(t));
    for (int i = 0; i < DT__COUNT_OF(x); i++) {
        const double got = (double)((const float *)dt_data(y))[i], want = f->f((double)x[i]);
        ck_assert_msg(fabs(got - want) <= 1e-6 * fmax(1, fabs(want)), "%s of %g is %.9g, not %.9g",
                      f->op, (double)x[i], got, want);
    }
    dt_tape_free(t);
    dt_tensor_free(in);
    dt_module_free(m);
}
END_TEST

/* ---- what mixes examples --------------------------------------------------------------------- */

static const struct wrong {
    const char *op, *attributes, *in, *says;
} wrong[] = {
    { "ReduceSum", NULL, "h", "over all dimensions, the batch among them" },
    { "ReduceMax", NULL, "h zero", "over the batch dimension; expected others" },
    { "Add", NULL, "h image", "the batches of its inputs are dimensions 1 and 0" },
    { "Where", NULL, "image h h", "the batches of its inputs are dimensions 1 and 0" },
    { "Max", NULL, "h rows", "its constant has 2 elements along the batch dimension" },
    { "MatMul", NULL, "h h", "over the batch dimension; expected others" },
    { "LpNormalization", "axis=0", "h", "over the batch dimension; expected others" },
    { "Pow", NULL, "h h", "its exponent is computed" },
    { "Celu", "alpha=-1f", "h", "it must be above 0" },
};

START_TEST(the_batch_is_not_mixed)
{
    for (int i = 0; i < DT__COUNT_OF(wrong); i++) {
        DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
        onnx_weight(m, "zero", "i64 1: 0");
        onnx_weight(m, "one", "i64 1: 1");
        onnx_weight(m, "rows", "f32 2 4: 1 2 3 4 5 6 7 8");
        onnx_node(m, "Unsqueeze", NULL, "h one", "image");
        onnx_node(m, wrong[i].op, wrong[i].attributes, wrong[i].in, "y");
        refuses(m, wrong[i].says);
    }
}
END_TEST

Suite *test_onnx_arithmetic_suite(void);
Suite *test_onnx_arithmetic_suite(void)
{
    Suite *s = suite_create("onnx_arithmetic");
    TCase *c = tcase_create("onnx_arithmetic");
    tcase_add_checked_fixture(c, begin, end);
    tcase_set_timeout(c, 600);
    tcase_add_loop_test(c, drawn_graphs, 0, 4);
    tcase_add_loop_test(c, functions_have_their_values, 0, DT__COUNT_OF(formulas));
    tcase_add_test(c, the_batch_is_not_mixed);
    suite_add_tcase(s, c);
    return s;
}
