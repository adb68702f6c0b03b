/* The import of ONNX ignores nothing silently: random attributes are read, or refused; constants of
 * any magnitude keep the results; the parts of a file besides its nodes are read, or refused; and
 * what the model reads is recorded. Results are compared with the interpreter of ONNX. */
#include "testing.h"

#include "core/core.h"
#include "io/onnx/onnx.h"
#include "onnx_damage.h"
#include "png_make.h"

#include <detent/experimental/export.h>
#include <detent/experimental/train.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static dt_ctx *ctx;
static test_memory memory;
static char folder[TEST_PATH], path[TEST_PATH], said[1024];

static void listen(void *user, const char *line)
{
    (void)user;
    snprintf(said, sizeof said, "%s", line);
}

static void begin(void)
{
    dt_ctx_options options = dt_ctx_defaults();
    test_begin();
    memory = (test_memory){ .live = 0 };
    options.allocator = test_allocator(&memory);
    options.log = listen;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    test_folder(folder);
    test_join(path, folder, "graph.onnx");
    said[0] = 0;
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
    const unsigned char *bytes = onnx_pack(m, &n);
    test_write_file(path, bytes, n);
}

/* Numbers that are drawn here, apart from those of the context. */
static uint64_t state = 1;

static int draw(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

static double draw_real(void) { return draw(1 << 20) / (double)(1 << 19) - 1; }

/* A number of a magnitude from 10^-most to 10^most. */
static double draw_wide(int most) { return draw_real() * pow(10, draw(2 * most + 1) - most); }

/* ---- one node -------------------------------------------------------------------------------- */

enum { REFUSED, EQUAL, WRONG, UNCOMPARED };

/* Imports a file and compares it with the interpreter; a NaN of both is equal. */
static int result_of(const DtOnnx__Model *m, double *apart)
{
    dt_module *imported;
    dt_model_info info;
    dt_export_difference d[DT_MAX_OUT];
    int n, result = EQUAL;
    write_model(m);
    *apart = 0;
    if (dt_onnx_import(ctx, path, NULL, &imported, &info) != DT_OK) return REFUSED;
    if (dt_export_verify(imported, &info, path, d, &n) != DT_OK) result = UNCOMPARED;
    for (int i = 0; i < n && result == EQUAL; i++) {
        *apart = d[i].relative;
        if (d[i].equal < d[i].values && !(d[i].relative <= 1e-6)) result = WRONG;
    }
    dt_model_info_free(ctx, &info);
    dt_module_free(imported);
    return result;
}

static void refuses(const DtOnnx__Model *m, const char *says)
{
    dt_module *imported;
    write_model(m);
    const dt_status s = dt_onnx_import(ctx, path, NULL, &imported, NULL);
    ck_assert_msg(s == DT_ERR_UNSUPPORTED || s == DT_ERR_FORMAT, "%d: %s", s, dt_error(ctx));
    ck_assert_msg(strstr(dt_error(ctx), says) != NULL, "%s", dt_error(ctx));
}

/* The attribute of a node with a name; a new one if it has none. */
static DtOnnx__Attribute *attribute_of(DtOnnx__Node *n, const char *name)
{
    static DtOnnx__Attribute more;
    for (size_t i = 0; i < n->n_attribute; i++) {
        if (strcmp(n->attribute[i]->name, name) == 0) return n->attribute[i];
    }
    more = (DtOnnx__Attribute)DT_ONNX__ATTRIBUTE__INIT;
    more.name = (char *)(uintptr_t)name;
    ck_assert_uint_lt(n->n_attribute, 16); /* the room of onnx_model */
    if (n->attribute == NULL) n->attribute = calloc(16, sizeof *n->attribute);
    n->attribute[n->n_attribute++] = &more;
    return &more;
}

/* Gives an attribute a value that is drawn. False: values of its type are not drawn. */
static bool draw_value(DtOnnx__Attribute *a, const dt__onnx_attribute_row *row)
{
    static const char *const words[] = { "NOTSET",  "VALID",         "SAME_UPPER", "SAME_LOWER",
                                         "forward", "bidirectional", "reverse",    "constant",
                                         "edge",    "reflect",       "wrap",       "tanh",
                                         "nearest", "linear",        "floor",      "asymmetric" };
    static const double reals[] = { 0, 1, -1, 0.5, 0.01, 1e-3, 1.5, 1e6, 1e-6 };
    static int64_t whole[8];
    const char *word = words[draw(DT__COUNT_OF(words))];
    const size_t n = a->n_ints > 0 && a->n_ints <= 8 ? a->n_ints : (size_t)1 << draw(3);
    a->type = row->type;
    switch (row->type) {
    case 1: a->f = (float)reals[draw(DT__COUNT_OF(reals))]; return true;
    case 2: a->i = draw(6) - 2; return true;
    case 3: a->s = (ProtobufCBinaryData){ strlen(word), (uint8_t *)(uintptr_t)word }; return true;
    case 7:
        for (size_t i = 0; i < n; i++) whole[i] = draw(4) - (draw(4) == 0);
        a->ints = whole;
        a->n_ints = n;
        return true;
    default: return false;
    }
}

/* The node of case i, whose first input is computed and the others constant; NULL: import refuses
 * it in this form. */
static DtOnnx__Model *case_of(int i)
{
    double apart;
    DtOnnx__Model *m = onnx_damaged(&onnx_cases[i], 1, -1);
    if (onnx_cases[i].fails != NULL || m->graph->n_input != 1) return NULL;
    DtOnnx__Shape *shape = m->graph->input[0]->type->tensor_type->shape;
    if (m->graph->input[0]->type->tensor_type->elem_type != 1 || shape->n_dim < 2) return NULL;
    shape->dim[0]->dim_value = 0;
    shape->dim[0]->dim_param = "batch";
    for (size_t k = 0; k < m->graph->n_output; k++) { /* which attributes change */
        m->graph->output[k]->type->tensor_type->shape = NULL;
    }
    return result_of(m, &apart) == EQUAL ? m : NULL;
}

enum { PARTS = 4 };

/* Every attribute of the table, on the interpreter's cases of its operator. */
START_TEST(attributes_are_read_or_refused)
{
    const int64_t draws = test_count((test_draws){ .usual = 100, .sanitized = 4, .quick = 20 });
    int64_t count[4] = { 0 };
    double apart;
    state = (uint64_t)_i + 1;
    for (int i = _i; i < onnx_case_count; i += PARTS) {
        if (case_of(i) == NULL) continue;
        for (const dt__onnx_attribute_row *row = dt__onnx_attributes; row->op != NULL; row++) {
            if (strcmp(row->op, onnx_cases[i].op) != 0 || row->until != 0) continue;
            for (int k = 0; k < draws; k++) {
                DtOnnx__Model *m = case_of(i);
                DtOnnx__Attribute *a = attribute_of(m->graph->node[0], row->name);
                if (!draw_value(a, row)) break;
                const int result = result_of(m, &apart);
                ck_assert_msg(result != WRONG, "%s, case %d, %s: %g apart", row->op, i, row->name,
                              apart);
                count[result]++;
                onnx_forget();
            }
        }
    }
    printf("onnx_nodes: drawn attributes: %lld equal, %lld refused, %lld not compared\n",
           (long long)count[EQUAL], (long long)count[REFUSED], (long long)count[UNCOMPARED]);
    ck_assert_int_gt(count[EQUAL], 5);
    ck_assert_int_gt(count[REFUSED], 5);
}
END_TEST

/* An attribute that the operator does not have, one of another type, one twice. */
START_TEST(attributes_that_are_wrong)
{
    int64_t tried = 0;
    for (int i = 0; i < onnx_case_count; i++) {
        if (case_of(i) == NULL) continue;
        for (int type = 0; type <= 8; type++) {
            DtOnnx__Model *m = case_of(i);
            attribute_of(m->graph->node[0], "coefficients")->type = type;
            refuses(m, "the attribute 'coefficients' is not known");
        }
        DtOnnx__Model *m = case_of(i);
        DtOnnx__Node *node = m->graph->node[0];
        if (node->n_attribute > 0) {
            node->attribute[0]->type = 9;
            refuses(m, "it must be");
            m = case_of(i);
            node = m->graph->node[0];
            node->attribute[node->n_attribute++] = node->attribute[0];
            refuses(m, "an attribute occurs twice");
        }
        onnx_forget();
        tried++;
    }
    ck_assert_int_gt(tried, 20);
}
END_TEST

/* ---- magnitudes ------------------------------------------------------------------------------ */

/* A node with drawn constants behind y = x0 scale, for x0 [batch, 4]; `%a` in its inputs and
 * attributes are numbers of these magnitudes (10^-k to 10^k). */
typedef struct drawn_node {
    const char *op, *attributes, *c[4];
    int most;
    bool positive; /* its numbers */
} drawn_node;

static const drawn_node drawn_nodes[] = {
    { "Clip", NULL, { "f32: %a", "f32: %a" }, .most = 9 },
    { "Clip", NULL, { "f32: %a", "f32: %a" }, .most = 9, .positive = true },
    { "Clip", NULL, { "f32: 0", "f32: %a" }, .most = 20, .positive = true },
    { "Clip", NULL, { "f32: -10000", "f32: 10000" }, .most = 1 },
    { "HardSigmoid", "alpha=%af", { NULL }, .most = 6 },
    { "LeakyRelu", "alpha=%af", { NULL }, .most = 15 },
    { "LeakyRelu", "alpha=0.0100000001f", { NULL }, .most = 1 },
    { "PRelu", NULL, { "f32 4: %a %a %a %a" }, .most = 12 },
    { "Add", NULL, { "f32 4: %a %a %a %a" }, .most = 12 },
    { "Sub", NULL, { "f32 4: %a %a %a %a" }, .most = 12 },
    { "Mul", NULL, { "f32 4: %a %a %a %a" }, .most = 30 },
    { "Div", NULL, { "f32 4: %a %a %a %a" }, .most = 30 },
    { "Gemm", "alpha=%af beta=%af", { "f32 4 2: %a 1 2 3 %a 5 6 7", "f32 2: %a %a" }, .most = 12 },
    { "Gemm", "alpha=%af", { "f32 4 2: 1e-30 1e-30 0 0 0 0 0 0" }, .most = 15 },
    { "BatchNormalization",
      "epsilon=1e-5f",
      { "f32 4: %a %a %a %a", "f32 4: %a %a %a %a", "f32 4: %a %a %a %a", "f32 4: %a %a %a %a" },
      .most = 8,
      .positive = true },
    { "Pow", NULL, { "f32: 5" }, .most = 1 },
    { "Elu", "alpha=%af", { NULL }, .most = 6 },
    { "Max", NULL, { "f32 4: %a %a %a %a", "f32: %a" }, .most = 20 },
    { "Min", NULL, { "f32 4: %a %a %a %a", "f32: %a" }, .most = 20 },
    { "Sum", NULL, { "f32 4: %a %a %a %a", "f32: %a" }, .most = 6, .positive = true },
};

/* The text with drawn numbers for %a. */
static char *filled(const drawn_node *d, const char *text, char to[400])
{
    size_t n = 0;
    for (; *text != 0; text++) {
        if (text[0] != '%') to[n++] = *text;
        else {
            const double v = draw_wide(d->most);
            n += (size_t)snprintf(to + n, 400 - n, "%.9g", d->positive ? fabs(v) : v);
            text++;
        }
    }
    to[n] = 0;
    return to;
}

static DtOnnx__Model *draw_node(const drawn_node *d)
{
    char text[400], inputs[64] = "h";
    DtOnnx__Model *m = onnx_start(strcmp(d->op, "Gemm") == 0 ? "f32 1 2: 0 0" : "f32 1 4: 0 0 0 0");
    m->graph->node[0]->op_type = "Mul";
    static char *mul[] = { "x0", "scale" };
    m->graph->node[0]->input = mul;
    m->graph->node[0]->n_input = 2;
    snprintf(text, sizeof text, "f32: %.9g", pow(10, draw(13) - 6));
    onnx_weight(m, "scale", text);
    for (int i = 0; i < 4 && d->c[i] != NULL; i++) {
        static const char *const names[] = { "a", "b", "c", "d" };
        onnx_weight(m, names[i], filled(d, d->c[i], text));
        snprintf(inputs + strlen(inputs), sizeof inputs - strlen(inputs), " %s", names[i]);
    }
    onnx_node(m, d->op, d->attributes == NULL ? NULL : filled(d, d->attributes, text), inputs, "y");
    return m;
}

START_TEST(constants_of_any_magnitude)
{
    const int64_t draws = test_count((test_draws){ .usual = 1000, .sanitized = 20, .quick = 120 });
    const drawn_node *d = &drawn_nodes[_i];
    int count[4] = { 0 };
    double apart;
    state = (uint64_t)_i + 77;
    for (int k = 0; k < draws; k++) {
        const int result = result_of(draw_node(d), &apart);
        ck_assert_msg(result != WRONG && result != UNCOMPARED, "%s, draw %d: %g apart %s", d->op, k,
                      apart, result == UNCOMPARED ? dt_error(ctx) : "");
        count[result]++;
        onnx_forget();
    }
    ck_assert_int_gt(count[EQUAL], 0);
}
END_TEST

/* ---- the file -------------------------------------------------------------------------------- */

static DtOnnx__Model *plain(void)
{
    DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
    onnx_weight(m, "w", "f32 4: 1 2 3 4");
    onnx_node(m, "Add", NULL, "h w", "y");
    return m;
}

START_TEST(files_that_say_more)
{
    double apart;
    static ProtobufCBinaryData bytes = { 1, (uint8_t *)"" };
    ck_assert_int_eq(result_of(plain(), &apart), EQUAL);
    DtOnnx__Model *m = plain();
    m->graph->n_sparse_initializer = 1;
    m->graph->sparse_initializer = &bytes;
    refuses(m, "sparse initializers");
    m = plain();
    m->graph->n_quantization_annotation = 1;
    m->graph->quantization_annotation = &bytes;
    ck_assert_int_eq(result_of(m, &apart), EQUAL);
    ck_assert_msg(strstr(said, "notes on quantization") != NULL, "%s", said);
    m = plain();
    m->n_opset_import = 0;
    refuses(m, "one version of the operators");
    m = plain();
    DtOnnx__OperatorSet *twice[] = { m->opset_import[0], m->opset_import[0] };
    m->opset_import = twice;
    m->n_opset_import = 2;
    refuses(m, "one version of the operators of ONNX (opset_import), not 2");
    m = plain();
    m->graph->node[1]->overload = "2";
    refuses(m, "overload");
    m = plain();
    m->graph->node[1]->domain = "local";
    refuses(m, "outside of the standard");
    m = plain();
    m->graph->initializer[0]->segment = bytes;
    refuses(m, "segment");
    m = plain();
    static float more[4];
    m->graph->initializer[0]->n_float_data = 4;
    m->graph->initializer[0]->float_data = more;
    refuses(m, "two places");
    m = plain();
    m->graph->input[0]->type->tensor_type->elem_type = 10;
    refuses(m, "floats of 16 bits");
    m = plain();
    onnx_node(m, "Cast", "to=10", "y", "z");
    refuses(m, "float16, which rounds");
    m = plain();
    m->graph->input[0]->type->tensor_type->shape->dim[0]->dim_param = "";
    m->graph->input[0]->type->tensor_type->shape->dim[0]->dim_value = 4;
    onnx_weight(m, "one", "i64 2: 1 -1"); /* the batch becomes a part of the row */
    onnx_node(m, "Reshape", NULL, "y one", "z");
    refuses(m, "dimension 1 is the batch, merged with others");
}
END_TEST

/* Arithmetic of constants in their own types. */
START_TEST(types_of_constants)
{
    static const struct {
        const char *a, *b, *op, *with; /* with: an attribute of a Cast behind it */
        const char *says;
    } rows[] = {
        { "i64: 9007199254740993", "i64: 1", "Add", "to=1", "of these numbers" },
        { "i32: 2147483647", "i32: 1", "Add", "to=1", "of these numbers" },
        { "u8: 200", "u8: 100", "Add", "to=1", "of these numbers" },
        { "i64: 1", "f32: 1", "Add", "to=1", "two types" },
        { "f64: 1.0000000001", "f64: 1", "Sub", "to=1", NULL },
        { "f32: 16777216", "f32: 1", "Add", "to=1", NULL },
        { "i64: 16777216", "i64: 1", "Add", "to=1", NULL },
    };
    double apart;
    for (int i = 0; i < DT__COUNT_OF(rows); i++) {
        DtOnnx__Model *m = onnx_start("f32 1 4: 0 0 0 0");
        onnx_weight(m, "a", rows[i].a);
        onnx_weight(m, "b", rows[i].b);
        onnx_node(m, rows[i].op, NULL, "a b", "c");
        onnx_node(m, "Cast", rows[i].with, "c", "d");
        onnx_node(m, "Mul", NULL, "h d", "y");
        if (rows[i].says != NULL) refuses(m, rows[i].says);
        else ck_assert_msg(result_of(m, &apart) == EQUAL, "%d: %g: %s", i, apart, dt_error(ctx));
    }
}
END_TEST

/* The tensor w of plain() in another file. */
static DtOnnx__Model *outside(const char *location)
{
    static DtOnnx__Property property, *properties[1] = { &property };
    DtOnnx__Model *m = plain();
    DtOnnx__Tensor *w = m->graph->initializer[0];
    property = (DtOnnx__Property)DT_ONNX__PROPERTY__INIT;
    property.key = "location";
    property.value = (char *)(uintptr_t)location;
    w->n_external_data = 1;
    w->external_data = properties;
    w->raw_data.len = 0;
    w->data_location = 1;
    return m;
}

static void link_to(const char *target, const char *name)
{
    char file[TEST_PATH];
    test_join(file, folder, name);
    ck_assert_int_eq(symlink(target, file), 0);
}

START_TEST(links_and_nul)
{
    static const uint8_t data[16];
    char other[TEST_PATH], file[TEST_PATH];
    double apart;
    dt_module *imported;
    test_folder(other);
    test_join(file, other, "secret.bin");
    test_write_file(file, data, sizeof data);
    link_to(file, "link.bin");
    link_to(other, "sub");
    refuses(outside("link.bin"), "leads out of the folder");
    refuses(outside("sub/secret.bin"), "leads out of the folder");
    test_join(file, folder, "w.bin");
    test_write_file(file, data, sizeof data);
    link_to("w.bin", "alias.bin");
    write_model(outside("alias.bin"));
    TEST_OK(ctx, dt_onnx_import(ctx, path, NULL, &imported, NULL));
    dt_module_free(imported);
    size_t n;
    static const char *const texts[] = { "w.bin?x", "h?", "Ad?" };
    for (int i = 0; i < 3; i++) { /* a name of the file, of a value, of an operator */
        DtOnnx__Model *m = i == 0 ? outside(texts[0]) : plain();
        if (i == 1) m->graph->node[0]->output[0] = (char *)(uintptr_t)texts[1];
        if (i == 2) m->graph->node[1]->op_type = (char *)(uintptr_t)texts[2];
        unsigned char *bytes = onnx_pack(m, &n);
        for (size_t k = 0; k < n; k++) {
            if (bytes[k] == '?') bytes[k] = 0;
        }
        test_write_file(path, bytes, n);
        TEST_FAILS(ctx, DT_ERR_FORMAT, "has a NUL inside",
                   dt_onnx_import(ctx, path, NULL, &imported, NULL));
    }
    (void)apart;
}
END_TEST

/* ---- what the model reads -------------------------------------------------------------------- */

static dt_model_data import_data(const DtOnnx__Model *m, const dt_onnx_options *o, bool *known)
{
    dt_module *imported;
    dt_model_info info;
    dt_model_data data = { .target = NULL };
    write_model(m);
    TEST_OK(ctx, dt_onnx_import(ctx, path, o, &imported, &info));
    *known = info.data != NULL;
    if (*known) TEST_OK(ctx, dt_model_data_parse(ctx, info.data, "a.onnx", &data));
    dt_model_info_free(ctx, &info);
    dt_module_free(imported);
    return data;
}

static void add_property(DtOnnx__Model *m, char *key, char *value)
{
    static DtOnnx__Property property[4], *properties[4];
    const size_t i = m->n_metadata_props++;
    property[i] = (DtOnnx__Property)DT_ONNX__PROPERTY__INIT;
    property[i].key = key;
    property[i].value = value;
    properties[i] = &property[i];
    m->metadata_props = properties;
}

START_TEST(options_are_recorded)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    dt_onnx_options o = { .mean = { 4, { 1, 2, 3, 4 } }, .deviation = { 1, { 0.5 } } };
    dt_module *imported;
    bool known;
    dt_model_data data = import_data(plain(), NULL, &known);
    ck_assert(!known);
    data = import_data(plain(), &o, &known);
    ck_assert(known && data.channels == 4 && data.n_names == 0);
    ck_assert_str_eq(data.target, "values");
    ck_assert(data.mean[2] == 3 && data.deviation[3] == 0.5);
    dt_model_data_free(ctx, &data);
    o.names = names;
    o.n_names = 4;
    data = import_data(plain(), &o, &known);
    ck_assert_str_eq(data.target, "classes");
    ck_assert_str_eq(data.meaning, "logits");
    ck_assert(data.n_names == 4 && strcmp(data.names[3], "d") == 0);
    dt_model_data_free(ctx, &data);
    DtOnnx__Model *m = plain();
    m->graph->node[1]->output[0] = "s";
    onnx_node(m, "Softmax", NULL, "s", "y");
    data = import_data(m, &o, &known);
    ck_assert_str_eq(data.meaning, "probabilities");
    dt_model_data_free(ctx, &data);
    write_model(plain());
    o.n_names = 3;
    TEST_FAILS(ctx, DT_ERR_ARG, "classes: 3 names; the model has 4",
               dt_onnx_import(ctx, path, &o, &imported, NULL));
    o.n_names = 4;
    o.mean.n = 2;
    TEST_FAILS(ctx, DT_ERR_ARG, "of 4 channels", dt_onnx_import(ctx, path, &o, &imported, NULL));
    o.mean.n = 1;
    o.deviation.v[0] = 0;
    TEST_FAILS(ctx, DT_ERR_ARG, "deviation is 0; it must be above 0",
               dt_onnx_import(ctx, path, &o, &imported, NULL));
    static const double bad[] = { NAN, INFINITY, -INFINITY, 1e39, -1e39, 1e300 };
    static const double bad_deviation[] = {
        NAN, INFINITY, 0, -0.0, -1, 1e39, 1e-39, 1e-60, 1e-300
    };
    static const double good[] = { 1e-37, 3e38, 1, 255 };
    for (int i = 0; i < 19; i++) {
        const bool mean = i < 6, is_good = i >= 15;
        o.mean.v[0] = mean ? bad[i] : 0;
        o.deviation.v[0] = mean ? 1 : is_good ? good[i - 15] : bad_deviation[i - 6];
        const dt_status s = dt_onnx_import(ctx, path, &o, &imported, NULL);
        ck_assert_msg(s == (is_good ? DT_OK : DT_ERR_ARG), "%d: %s", i, dt_error(ctx));
        if (is_good) dt_module_free(imported);
        else ck_assert_ptr_nonnull(strstr(dt_error(ctx), mean ? "mean is " : "deviation is "));
    }
    static const char *const not_utf8[] = { "\xff", "caf\xe9", "\xc3", "\xed\xa0\x80", "a\x80z" };
    const char *named[4] = { "a", "b", "c", "d" };
    o = (dt_onnx_options){ .names = named, .n_names = 4 };
    for (int i = 0; i < 5; i++) {
        named[i % 4] = not_utf8[i];
        TEST_FAILS(ctx, DT_ERR_ARG, "is not valid UTF-8",
                   dt_onnx_import(ctx, path, &o, &imported, NULL));
        named[i % 4] = "\xc3\xa9";
    }
    o = (dt_onnx_options){ .channels_last = true };
    TEST_FAILS(ctx, DT_ERR_ARG, "three dimensions", dt_onnx_import(ctx, path, &o, &imported, NULL));
}
END_TEST

START_TEST(metadata_are_read)
{
    static char *const lists[] = { "{0: 'p', 1: \"it's\", 2: 'r', 3: 's'}",
                                   "{\"0\": \"p\", \"1\": \"it's\", \"2\": \"r\", \"3\": \"s\"}",
                                   "['p', \"it's\", 'r', 's']", "p, it's,r,s" };
    bool known;
    for (int i = 0; i < 4; i++) {
        DtOnnx__Model *m = plain();
        add_property(m, "names", lists[i]);
        add_property(m, "mean_values", "51 102 0 0");
        add_property(m, "scale_values", "25.5");
        dt_model_data data = import_data(m, NULL, &known);
        ck_assert(known && data.n_names == 4 && data.channels == 4);
        ck_assert_str_eq(data.names[1], "it's");
        ck_assert_double_eq_tol(data.mean[1], 0.4, 1e-12);
        ck_assert_double_eq_tol(data.deviation[0], 0.1, 1e-12);
        dt_model_data_free(ctx, &data);
    }
    static char *const bad[] = { "a,b", "{0: 'p'}", "", "{", "['" };
    for (int i = 0; i < 5; i++) {
        DtOnnx__Model *m = plain();
        said[0] = 0;
        add_property(m, "classes", bad[i]);
        import_data(m, NULL, &known);
        ck_assert(!known);
        ck_assert_msg(strstr(said, "'classes' are not used") != NULL, "%s", said);
    }
    DtOnnx__Model *m = plain();
    add_property(m, "detent.data", "{\"target\": \"classes\", \"input\": [4], \"rate\": 9}");
    dt_model_data data = import_data(m, NULL, &known);
    ck_assert(known && data.rate == 9);
    dt_model_data_free(ctx, &data);
    m = plain();
    add_property(m, "detent.data", "{\"target\": \"classes\", \"input\": [5]}");
    import_data(m, NULL, &known);
    ck_assert(!known);
    ck_assert_msg(strstr(said, "do not fit the model") != NULL, "%s", said);
}
END_TEST

/* y = relu(x0 [batch, 4, 5, 3] with channels first) */
START_TEST(channels_last)
{
    const dt_onnx_options o = { .channels_last = true };
    const int64_t file_dims[] = { 2, 4, 5, 3 }, dims[] = { 2, 3, 4, 5 };
    char zeros[400] = "f32 1 4 5 3:", out[400] = "f32 1 3 4 5:", values[TEST_PATH];
    dt_tensor *x, *y;
    dt_writer *w;
    dt_module *m;
    dt_model_info info;
    dt_onnx_differences d;
    for (int i = 0; i < 60; i++) {
        strcat(zeros, " 0");
        strcat(out, " 0");
    }
    const onnx_case turn = {
        .op = "Transpose", .attributes = "perm=[0,3,1,2]", .in = { zeros }, .out = { out }
    };
    write_model(onnx_model(&turn));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, file_dims, &x));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, dims, &y));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    const float *a = dt_data(x);
    float *b = dt_data_mut(y);
    for (int i = 0; i < 120; i++) { /* i: of y */
        const int at = i % 20, c = i / 20 % 3, n = i / 60;
        b[i] = a[(n * 20 + at) * 3 + c];
    }
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    TEST_OK(ctx, dt_writer_add(w, "x0", x));
    TEST_OK(ctx, dt_writer_add(w, "y0", y));
    test_join(values, folder, "values.safetensors");
    TEST_OK(ctx, dt_writer_write(w, values));
    TEST_OK(ctx, dt_onnx_import(ctx, path, &o, &m, &info));
    const dt_layers_options *layers = info.options;
    ck_assert(layers->input.shape[0].v[0] == 3 && layers->input.shape[0].v[2] == 5);
    TEST_OK(ctx, dt_onnx_verify(m, path, values, &o, &d));
    ck_assert(d.n == 1 && d.output[0].absolute == 0);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    dt_writer_free(w);
    dt_tensor_free(x);
    dt_tensor_free(y);
}
END_TEST

/* y = the pixels of an image [1, 2, 2] in a row */
static void write_flat(void)
{
    const onnx_case flat = { .op = "Flatten",
                             .in = { "f32 1 1 2 2: 0 0 0 0" },
                             .out = { "f32 1 4: 0 0 0 0" } };
    write_model(onnx_model(&flat));
}

/* What dt_model_check_data says of images that are given with this mean; "" if nothing. */
static const char *said_of(const dt_onnx_options *o, double mean)
{
    static const uint8_t pixels[16], labels[4];
    const dt_images images = { 4, 1, 2, 2, DT_TARGET_CLASS, 4, pixels, labels };
    const dt_reals own[2] = { { 1, { mean } }, { 1, { 1 } } };
    dt_module *m;
    dt_model_info info;
    dt_dataset *d;
    write_flat();
    TEST_OK(ctx, dt_onnx_import(ctx, path, o, &m, &info));
    TEST_OK(ctx, dt_dataset_create(ctx, &images, &d));
    if (mean != 0) TEST_OK(ctx, dt_dataset_normalize(d, &own[0], &own[1]));
    said[0] = 0;
    TEST_OK(ctx, dt_model_check_data(ctx, "m.safetensors", &info, d));
    dt_dataset_free(d);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return said;
}

START_TEST(data_that_are_not_what_it_reads)
{
    const dt_onnx_options half = { .mean = { 1, { 0.5 } } };
    ck_assert_ptr_nonnull(strstr(said_of(NULL, 0), "does not say what numbers it reads"));
    ck_assert_str_eq(said_of(NULL, 0.25), ""); /* the recipe does */
    ck_assert_str_eq(said_of(&half, 0.5), "");
    ck_assert_str_eq(said_of(&half, 0), ""); /* the model's are used */
    const char *wanted =
        "reads numbers with mean 0.5, deviation 1; the recipe gives it numbers with "
        "mean 0.25";
    ck_assert_ptr_nonnull(strstr(said_of(&half, 0.25), wanted));
}
END_TEST

/* predict says once what it assumes, and nothing where the model says what it reads. */
START_TEST(predict_says_what_it_assumes)
{
    static uint8_t bytes[PNG_MAKE_MOST];
    const png_make_options grey = { .type = PNG_GREY, .depth = 8, .width = 2, .height = 2 };
    static const char *const options[] = { "", "--mean 0.5 --classes p,q,r,s" };
    const char *wanted = "does not say what numbers it reads";
    char file[TEST_PATH];
    write_flat();
    test_join(file, folder, "a.png");
    test_write_file(file, bytes, png_make(&grey, bytes));
    for (int i = 0; i < 2; i++) {
        char *output = NULL;
        const int status =
            test_shell(&output,
                       "cd '%s' && '%s/detent' import graph.onnx -o m%d.safetensors %s 2>&1 && "
                       "'%s/detent' predict m%d.safetensors a.png a.png 2>&1",
                       folder, DETENT_BINARY_DIR, i, options[i], DETENT_BINARY_DIR, i);
        ck_assert_msg(status == 0, "%s", output);
        const char *once = strstr(output, wanted);
        ck_assert_msg((once != NULL) == (i == 0), "%s", output);
        ck_assert_msg(once == NULL || strstr(once + 1, wanted) == NULL, "%s", output);
        ck_assert_msg(i == 0 || strstr(output, "class") != NULL, "%s", output);
        free(output);
    }
}
END_TEST

Suite *test_onnx_nodes_suite(void)
{
    Suite *s = suite_create("onnx_nodes");
    TCase *c = tcase_create("onnx_nodes");
    tcase_add_checked_fixture(c, begin, end);
    tcase_set_timeout(c, 600);
    tcase_add_loop_test(c, attributes_are_read_or_refused, 0, PARTS);
    tcase_add_test(c, attributes_that_are_wrong);
    tcase_add_loop_test(c, constants_of_any_magnitude, 0, DT__COUNT_OF(drawn_nodes));
    tcase_add_test(c, files_that_say_more);
    tcase_add_test(c, types_of_constants);
    tcase_add_test(c, links_and_nul);
    tcase_add_test(c, options_are_recorded);
    tcase_add_test(c, metadata_are_read);
    tcase_add_test(c, channels_last);
    tcase_add_test(c, data_that_are_not_what_it_reads);
    tcase_add_test(c, predict_says_what_it_assumes);
    suite_add_tcase(s, c);
    return s;
}
