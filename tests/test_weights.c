/* Weights of other programs: names by patterns, orders of dimensions, and everything that does not
 * fit. The test writes the files; elements have a formula of their own. */
#include "core/core.h"
#include "core/tensor.h"
#include "random_nets.h"
#include "testing.h"

#include <detent/experimental/train.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const test_draws draws = { .usual = 24, .sanitized = 6 };

static dt_status say_nothing(void *user, const char *text, size_t bytes)
{
    (void)user;
    (void)text;
    (void)bytes;
    return DT_OK;
}

/* ---- drawn networks, names and orders -------------------------------------------------------- */

#define MOST 64

typedef struct drawn {
    dt_ctx *ctx;
    dt__stream stream;
    dt_writer *writer;
    dt_weight_rule rule[MOST];
    char name[MOST][120];
    void *data[MOST];
    int n;
} drawn;

/* The element of x at a place of its permuted form: dimension i of x is dimension order[i]
 * there. */
static float element(const dt_tensor *x, const int64_t *dims, const int64_t *order, int64_t at)
{
    int64_t place[DT_MAX_RANK], index = 0;
    for (int i = x->rank - 1; i >= 0; i--) {
        place[i] = at % dims[i];
        at /= dims[i];
    }
    for (int i = 0; i < x->rank; i++) index = index * x->dims[i] + place[order[i]];
    return ((const float *)dt_data(x))[index];
}

/* A copy of x as floats or doubles in a drawn order, with a rule that turns it back. */
static dt_status write_turned(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    drawn *d = user;
    int64_t dims[DT_MAX_RANK];
    const bool wide = dt__random_below(&d->stream, 2) == 0;
    dt_weight_rule *rule = &d->rule[d->n];
    (void)kind;
    ck_assert_int_lt(d->n, MOST);
    for (int i = 0; i < x->rank; i++) rule->permute.v[i] = i;
    for (int i = x->rank - 1; i > 0; i--) {
        const uint64_t k = dt__random_below(&d->stream, (uint64_t)i + 1);
        const int64_t other = rule->permute.v[k];
        rule->permute.v[k] = rule->permute.v[i];
        rule->permute.v[i] = other;
    }
    rule->permute.n = x->rank;
    for (int i = 0; i < x->rank; i++) dims[rule->permute.v[i]] = x->dims[i];
    snprintf(d->name[d->n], sizeof d->name[0], "ema/%s", path);
    rule->from = d->name[d->n];
    rule->to = d->name[d->n] + strlen("ema/");
    void *data = d->data[d->n] = malloc((size_t)dt_count(x) * 8 + 1);
    for (int64_t i = 0; i < dt_count(x); i++) {
        const float v = element(x, dims, rule->permute.v, i);
        if (wide) ((double *)data)[i] = (double)v;
        else ((float *)data)[i] = v;
    }
    const dt_file_entry e = { .name = d->name[d->n],
                              .dtype = wide ? "F64" : "F32",
                              .rank = x->rank,
                              .dims = dims,
                              .data = data };
    d->n++;
    return dt_writer_add_bytes(d->writer, &e);
}

static dt_status compare(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    const dt_tensor *y = dt_param(user, path);
    (void)kind;
    ck_assert_ptr_nonnull(y);
    TEST_EACH(memcmp(dt_data(x), dt_data(y), (size_t)dt_count(x) * sizeof(float)) == 0,
              "%s differs", path);
    return DT_OK;
}

START_TEST(turned_weights_come_back)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "w.safetensors");
    for (int i = 0; i < test_count(draws); i++) {
        dt_ctx_options options = dt_ctx_defaults();
        drawn d = { .stream = dt__stream_of((uint64_t)i, DT__FOR_USER) };
        options.seed = (uint64_t)i;
        TEST_OK(NULL, dt_ctx_create(&d.ctx, &options));
        random_net net = random_net_of((uint64_t)i);
        dt_module *m = random_net_create(d.ctx, &net), *other = random_net_create(d.ctx, &net);
        TEST_OK(d.ctx, dt_writer_create(d.ctx, &d.writer));
        TEST_OK(d.ctx, dt_module_visit(m, write_turned, &d));
        TEST_OK(d.ctx, dt_writer_write(d.writer, path));
        const dt_weight_map map = { .n = d.n, .rule = d.rule };
        TEST_OK(d.ctx, dt_weights_import(other, path, &map, say_nothing, NULL));
        TEST_OK(d.ctx, dt_module_visit(m, compare, other));
        for (int k = 0; k < d.n; k++) free(d.data[k]);
        dt_writer_free(d.writer);
        dt_module_free(m);
        dt_module_free(other);
        dt_ctx_free(d.ctx);
    }
}
END_TEST

static dt_status import_once(dt_ctx *ctx, void *user)
{
    static const int64_t sizes[] = { 3, 2 };
    const dt_weight_rule rule[] = {
        { .from = "a.{p}", .to = "{p}", .transpose = true },
        { .from = "{all...}", .skip = true },
    };
    const dt_weight_map map = { .n = 2, .rule = rule };
    dt_module *m = NULL;
    DT__TRY(dt_linear_create(ctx, sizes[0], sizes[1], false, &m));
    const dt_status s = dt_weights_import(m, user, &map, say_nothing, NULL);
    dt_module_free(m);
    return s;
}

START_TEST(every_allocation)
{
    static const int64_t dims[] = { 3, 2 };
    static const float v[6] = { 1, 2, 3, 4, 5, 6 };
    char folder[TEST_PATH], path[TEST_PATH];
    dt_ctx *ctx;
    dt_writer *w;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    const dt_file_entry e[] = {
        { .name = "a.weight", .dtype = "F32", .rank = 2, .dims = dims, .data = v },
        { .name = "b", .dtype = "F32", .rank = 2, .dims = dims, .data = v },
    };
    TEST_OK(ctx, dt_writer_add_bytes(w, &e[0]));
    TEST_OK(ctx, dt_writer_add_bytes(w, &e[1]));
    test_folder(folder);
    test_join(path, folder, "w.safetensors");
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    dt_ctx_free(ctx);
    ck_assert_int_gt(test_every_allocation(import_once, path), 20);
}
END_TEST

/* ---- the program ----------------------------------------------------------------------------- */

#define NETWORK                                                                                    \
    "model:\n  family: layers\n  input: [1, 4, 4]\n  layers:\n"                                    \
    "    - {conv2d: stem, out: 2, kernel: 3, norm: batch, bias: true}\n"                           \
    "    - flatten\n    - {linear: head, out: 3}\n"
#define RULES "  'features.0.{p}': 'stem.conv.{p}'\n  'features.1.{p}': 'stem.norm.{p}'\n"
#define MAP "tensors:\n" RULES
#define DATA 228

static const char header[] =
    "{\"features.0.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,3,3],\"data_offsets\":[0,72]},"
    "\"features.0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[72,80]},"
    "\"features.1.weight\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[80,88]},"
    "\"features.1.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[88,96]},"
    "\"features.1.running_mean\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[96,104]},"
    "\"features.1.running_var\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[104,112]},"
    "\"features.1.num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[],"
    "\"data_offsets\":[112,120]},"
    "\"head.weight\":{\"dtype\":\"F32\",\"shape\":[3,8],\"data_offsets\":[120,216]},"
    "\"head.bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[216,228]}}";

typedef struct call {
    const char *map;            /* NULL: no --map */
    const char *find, *replace; /* in the header of the weights; NULL: as it is */
    int status;
    const char *says;
    const char *arguments; /* more of them */
    const char *network;   /* NULL: the usual one */
    float value;           /* of all elements */
    int cut;               /* bytes that the file lacks */
} call;

#define TRANSPOSED .find = "[3,8]", .replace = "[8,3]"

static const call calls[] = {
    { MAP, .says = "num_batches_tracked is left out, 1 time;" },
    { MAP, .says = "51 parameters" },
    { MAP "  'head.weight': {to: head.weight, transpose: true}\n", TRANSPOSED,
      .says = "'head.weight': F32[8,3] is read as [3,8]" },
    { MAP "  'head.weight': {to: head.weight, permute: [1, 0]}\n", TRANSPOSED,
      .says = "is read as [3,8]" },
    { MAP "  'head.weight': {to: head.weight, shape: [3, 8]}\n", .find = "[3,8]", .replace = "[24]",
      .says = "F32[24] is read as [3,8]" },
    { MAP "layout: keras\n  ", .status = 4,
      .says = "turned [8,3]; 'head.weight' of the network is [3,8]" },
    { "tensors:\n  '{all...}.{n}.{p}': 'stem.conv.{p}'\n  'x': y\n", .status = 4,
      .says = "the rule 'x' matches the name of no tensor" },
    { MAP, .find = "\"head.bias\"", .replace = "\"extra.bias\"", .status = 4,
      .says =
          "'extra.bias', F32[3]: the network has no such parameter; the nearest is 'head.bias'" },
    { MAP "  'extra.{p}': {skip: true}\n", .find = "\"head.bias\"", .replace = "\"extra.bias\"",
      .status = 4, .says = "'head.bias', [3], of the network is not in the file" },
    { MAP, TRANSPOSED, .status = 4, .says = "'transpose: true' of a rule, or 'layout: keras'" },
    { MAP, .find = "[3,8]", .replace = "[2,12]", .status = 4, .says = "'permute' and 'shape'" },
    { MAP, .find = "[2,1,3,3]", .replace = "[1,1,1,1,1,1,1,1,18]", .status = 4,
      .says = "more than 8 dimensions" },
    { MAP, .find = "[2,1,3,3]", .replace = "[18]", .status = 4, .says = "is F32[18]" },
    { MAP, .find = "\"F32\",\"shape\":[3]", .replace = "\"I32\",\"shape\":[3]", .status = 4,
      .says = "'head.bias' is I32[3]; expected F32, F16, BF16 or F64" },
    { MAP, .find = "\"F32\",\"shape\":[3]", .replace = "\"U8\",\"shape\":[12]", .status = 4,
      .says = "is U8[12]" },
    { MAP, .find = "\"F32\",\"shape\":[3]", .replace = "\"BOOL\",\"shape\":[12]", .status = 4,
      .says = "is BOOL[12]" },
    { MAP, .find = "\"F32\",\"shape\":[3]", .replace = "\"F8_E4M3\",\"shape\":[12]", .status = 4,
      .says = "is F8_E4M3[12]" },
    { MAP, .find = "\"F32\",\"shape\":[3]", .replace = "\"F16\",\"shape\":[6]", .status = 4,
      .says = "is F16[6]" },
    { MAP, .find = "\"F32\",\"shape\":[3]", .replace = "\"F32\",\"shape\":[4]", .status = 4,
      .says = "head.bias" },
    { MAP, .value = NAN, .status = 4, .says = "element 0 is nan; weights must be finite" },
    { MAP, .value = INFINITY, .status = 4, .says = "element 0 is inf" },
    { MAP, .cut = 5, .status = 4, .says = "w.safetensors" },
    { MAP, .cut = DATA + 30, .status = 4, .says = "cut short" },
    { NULL, .status = 4, .says = "the nearest is 'stem.conv.weight', [2,1,3,3]" },
    { "tensors:\n  '{a}.{b}.bias': stem.conv.bias\n" RULES, .status = 4,
      .says = "are both for one parameter" },
    { "tensors:\n" RULES RULES, .status = 2, .says = "features.0" },
    { "tensors: [a, b]\n", .status = 2, .says = "'tensors' must be a map of patterns" },
    { "tensors: text\n", .status = 2, .says = "'tensors' must be a map of patterns" },
    { "- a\n", .status = 2, .says = "map.yaml:1:1" },
    { "", .status = 2, .says = "map.yaml" },
    { "tensors: {a: b\n", .status = 2, .says = "map.yaml" },
    { "\x01\x02\x03", .status = 2, .says = "map.yaml" },
    { MAP "layuot: keras\n", .status = 2, .says = "did you mean" },
    { MAP "layout: tensorflow\n", .status = 2, .says = "'layout'" },
    { MAP "  'head.bias': {too: head.bias}\n", .status = 2, .says = "too" },
    { MAP "  'head.bias': {to: head.bias, skip: true}\n", .status = 2, .says = "either the new" },
    { MAP "  'head.bias': {skip: false}\n", .status = 2, .says = "either the new name" },
    { MAP "  'head.bias': {}\n", .status = 2, .says = "either the new name" },
    { MAP "  'head.bias': [a]\n", .status = 2, .says = "expected a name, or a map" },
    { MAP "  'head.bias': {skip: true, transpose: true}\n", .status = 2, .says = "leaves tensors" },
    { MAP "  'head.bias': {to: a, transpose: true, permute: [1, 0]}\n", .status = 2,
      .says = "both 'transpose' and 'permute'" },
    { MAP "  'head.bias': {to: a, permute: [0, 2]}\n", .status = 2, .says = "each of 0 to n-1" },
    { MAP "  'head.bias': {to: a, permute: [0, 0]}\n", .status = 2, .says = "each of 0 to n-1" },
    { MAP "  'head.bias': {to: a, permute: [0, -1]}\n", .status = 2, .says = "permute" },
    { MAP "  'head.bias': {to: a, shape: [0]}\n", .status = 2, .says = "shape" },
    { MAP "  'head.bias': {to: a, shape: [x]}\n", .status = 2, .says = "shape" },
    { MAP "  'head.bias': {to: head.bias, transpose: true}\n", .status = 4,
      .says = "'transpose' is for two dimensions" },
    { MAP "  'head.bias': {to: head.bias, permute: [1, 0]}\n", .status = 4,
      .says = "another number of dimensions" },
    { MAP "  'head.bias': {to: head.bias, shape: [2, 2]}\n", .status = 4,
      .says = "another number of elements" },
    { MAP "  'head.{': a\n", .status = 2, .says = "is not a valid pattern" },
    { MAP "  'head.}': a\n", .status = 2, .says = "is not a valid pattern" },
    { MAP "  'head.{a b}': a\n", .status = 2, .says = "is not a valid pattern" },
    { MAP "  '{a}.{a}': b\n", .status = 2, .says = "a placeholder twice" },
    { MAP "  'head.{a}': '{b}'\n", .status = 2, .says = "that the tensor's pattern lacks" },
    { MAP "  '{a}{b}{c}{d}{e}{f}{g}{h}{i}{j}': x\n", .status = 2, .says = "more than 9" },
    { MAP "  '': x\n", .status = 2, .says = "pattern is empty" },
    { MAP "  '(': x\n", .status = 4, .says = "the rule '(' matches the name of no tensor" },
    { MAP, .arguments = "--check F/w.safetensors", .status = 4, .says = "has no tensor 'x'" },
    { MAP, .arguments = "--expect F/w.safetensors", .status = 2, .says = "requires --check" },
    { MAP, .arguments = "--mean 1", .status = 2, .says = "--mean is for ONNX files" },
    { MAP, .arguments = "--map F/none.yaml", .status = 4, .says = "none.yaml" },
    { MAP, .arguments = "--map F", .status = 4, .says = "Is a directory" },
    { MAP, .arguments = "--map F/w.safetensors", .status = 2, .says = "w.safetensors" },
    { MAP, .arguments = "--network F/none.yaml", .status = 4, .says = "none.yaml" },
    { MAP, .arguments = "--network F/map.yaml", .status = 2, .says = "has no 'model'" },
    { MAP, .arguments = "-o F/w.safetensors", .status = 2, .says = "it is read" },
    { MAP, .arguments = "-o F/none/m.safetensors", .status = 4, .says = "none/m.safetensors" },
    { MAP, .network = "model: {family: lairs}\n", .status = 2, .says = "lairs" },
    { MAP, .network = "data: {format: adder}\n", .status = 2, .says = "has no 'model'" },
    { MAP, .network = NETWORK "  init: w.safetensors\n", .status = 2, .says = "init" },
};

/* Writes the weights of a call. */
static void write_weights(const call *k, const char *path)
{
    char text[2000], file[2400];
    const char *at = k->find == NULL ? NULL : strstr(header, k->find);
    if (at == NULL) snprintf(text, sizeof text, "%s", header);
    else
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - header), header, k->replace,
                 at + strlen(k->find));
    ck_assert_int_eq(at == NULL, k->find == NULL);
    const size_t n = strlen(text);
    memset(file, 0, 8);
    file[0] = (char)(unsigned char)(n % 256);
    file[1] = (char)(unsigned char)(n / 256);
    memcpy(file + 8, text, n);
    for (int i = 0; i < DATA / 4; i++) memcpy(file + 8 + n + 4 * i, &k->value, 4);
    test_write_file(path, file, 8 + n + DATA - (size_t)k->cut);
}

/* An option that a call gives itself is not given twice. */
static const char *unless_given(const call *k, const char *option, const char *text)
{
    const bool given = k->arguments != NULL && strstr(k->arguments, option) != NULL;
    return given ? "" : text;
}

START_TEST(program)
{
    char folder[TEST_PATH], path[TEST_PATH];
    const call *k = &calls[_i];
    char *output = NULL;
    test_folder(folder);
    test_join(path, folder, "w.safetensors");
    write_weights(k, path);
    test_join(path, folder, "net.yaml");
    test_write_text(path, k->network == NULL ? NETWORK : k->network);
    test_join(path, folder, "map.yaml");
    if (k->map != NULL) test_write_text(path, k->map);
    const char *map = k->map == NULL ? "" : unless_given(k, "--map", "--map F/map.yaml");
    const int status = test_shell(
        &output,
        "cd '%s' && ln -s . F && '%s/detent' import w.safetensors "
        "%s %s %s %s 2>&1",
        folder, DETENT_BINARY_DIR, unless_given(k, "--network", "--network F/net.yaml"),
        unless_given(k, "-o", "-o F/m.safetensors"), map, k->arguments == NULL ? "" : k->arguments);
    TEST_EACH(status == k->status, "call %d, %s: %d: %s", _i, k->says, status, output);
    TEST_EACH(strstr(output, k->says) != NULL, "call %d, %s: %s", _i, k->says, output);
    free(output);
    test_join(path, folder, "m.safetensors");
    ck_assert_int_eq(test_file_exists(path), k->status == 0);
}
END_TEST

/* Numbers are checked in parts: the last one of many is, and no copy of a tensor is made. */
START_TEST(large_tensors)
{
    enum { WIDTH = 700 };
    char folder[TEST_PATH], path[TEST_PATH];
    dt_ctx *ctx;
    dt_ctx_options options = dt_ctx_defaults();
    dt_module *m, *part;
    dt_writer *writer;
    const int64_t dims[] = { WIDTH, WIDTH };
    const size_t bytes = sizeof(float) * WIDTH * WIDTH;
    float *w = calloc(1, bytes);
    test_folder(folder);
    test_join(path, folder, "w.safetensors");
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    TEST_OK(ctx, dt_linear_create(ctx, WIDTH, WIDTH, false, &part));
    TEST_OK(ctx, dt_module_add(m, "wide", part));
    for (int wrong = 0; wrong < 2; wrong++) {
        if (wrong) w[WIDTH * WIDTH - 1] = NAN;
        const dt_file_entry e = {
            .name = "wide.weight", .dtype = "F32", .rank = 2, .dims = dims, .data = w
        };
        TEST_OK(ctx, dt_writer_create(ctx, &writer));
        TEST_OK(ctx, dt_writer_add_bytes(writer, &e));
        TEST_OK(ctx, dt_writer_write(writer, path));
        dt_writer_free(writer);
        dt_memory_reset_peak(ctx);
        const size_t before = dt_memory_of(ctx).used;
        ck_assert_int_eq(dt_weights_import(m, path, NULL, say_nothing, NULL),
                         wrong ? DT_ERR_FORMAT : DT_OK);
        ck_assert_uint_lt(dt_memory_of(ctx).peak - before, bytes / 2);
    }
    ck_assert_double_eq((double)((const float *)dt_data(dt_param(m, "wide.weight")))[0], 0);
    free(w);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_weights_suite(void)
{
    Suite *s = suite_create("weights");
    TCase *c = tcase_create("drawn");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, turned_weights_come_back);
    tcase_add_test(c, every_allocation);
    tcase_add_test(c, large_tensors);
    suite_add_tcase(s, c);
    c = tcase_create("program");
    tcase_add_loop_test(c, program, 0, DT__COUNT_OF(calls));
    suite_add_tcase(s, c);
    return s;
}
