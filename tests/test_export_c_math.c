/* The texts of C exports that compute floats (src/export/c/texts) against detent's ops, bit for
 * bit. All are compiled as one file, by several compilers and with the flags that would fuse
 * products with sums, and loaded into the test. */
#include "testing.h"

#include "core/core.h"
#include "export/c/c_texts.h"
#include "kernels/exp.h"

#include <detent/experimental/ops.h>
#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 4096 /* values of functions of elements */

static dt_ctx *ctx;
static dt_tape *t;

static void setup(void)
{
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
}

static void teardown(void)
{
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

/* ---- values --------------------------------------------------------------------------------- */

typedef enum spread { ANY, USUAL, POSITIVE } spread; /* all bits of floats; -8 ... 8; 0 ... 8 */

static const float special[] = { 0,          -0.0F,     INFINITY, -INFINITY, NAN,    0x1p-149F,
                                 -0x1p-149F, 0x1p-126F, 104,      -104,      88.8F,  -88.8F,
                                 20,         -20,       0.02F,    -0.02F,    10.06F, -14.2F,
                                 FLT_MAX,    -FLT_MAX,  1,        -1 };

static void draw_values(dt__stream *s, spread kind, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)dt__random_below(s, (uint64_t)1 << 32);
        if (kind == ANY && i < DT__COUNT_OF(special)) to[i] = special[i];
        else if (kind == ANY && i % 2 == 0) memcpy(&to[i], &bits, sizeof bits);
        else to[i] = ((float)(bits >> 8) * 0x1p-24F - (kind == POSITIVE ? 0 : 0.5F)) * 16;
    }
}

static bool same(const float *a, const float *b, int64_t n, int64_t *at)
{
    for (*at = 0; *at < n; (*at)++) {
        if (isnan(a[*at]) && isnan(b[*at])) continue;
        if (memcmp(&a[*at], &b[*at], sizeof *a) != 0) return false;
    }
    return true;
}

/* ---- checks: a statement of C, and the op that it stands for -------------------------------- */

#define OPERANDS 6

typedef struct check {
    const char *name;
    const char *body; /* x[i] are the operands, y the result */
    dt_tensor *(*op)(dt_tensor *const *x);
    spread kind;
    int rank[OPERANDS];
    int64_t dims[OPERANDS][4];
    spread other; /* of all operands but the first */
} check;

static dt_tensor *op_exp(dt_tensor *const *x) { return dt_exp(t, x[0]); }
static dt_tensor *op_log(dt_tensor *const *x) { return dt_log(t, x[0]); }
static dt_tensor *op_sqrt(dt_tensor *const *x) { return dt_sqrt(t, x[0]); }
static dt_tensor *op_tanh(dt_tensor *const *x) { return dt_tanh(t, x[0]); }
static dt_tensor *op_sigmoid(dt_tensor *const *x) { return dt_sigmoid(t, x[0]); }
static dt_tensor *op_silu(dt_tensor *const *x) { return dt_silu(t, x[0]); }
static dt_tensor *op_elu(dt_tensor *const *x) { return dt_elu(t, x[0], 0.7); }
static dt_tensor *op_gelu(dt_tensor *const *x) { return dt_gelu(t, x[0], DT_GELU_ERF); }
static dt_tensor *op_gelu_tanh(dt_tensor *const *x) { return dt_gelu(t, x[0], DT_GELU_TANH); }
static dt_tensor *op_swiglu(dt_tensor *const *x) { return dt_swiglu(t, x[0], x[1]); }
static dt_tensor *op_rms(dt_tensor *const *x) { return dt_rms_norm(t, x[0], x[1], 1e-5); }
static dt_tensor *op_softmax(dt_tensor *const *x) { return dt_softmax(t, x[0], 1); }
static dt_tensor *op_log_softmax(dt_tensor *const *x) { return dt_log_softmax(t, x[0], 1); }
static dt_tensor *op_gru(dt_tensor *const *x) { return dt_gru_cell(t, x[0], x[1], x[2]); }
static dt_tensor *op_lstm(dt_tensor *const *x) { return dt_lstm_cell(t, x[0], x[1], x[2]); }
static dt_tensor *op_combine(dt_tensor *const *x) { return dt_moe_combine(t, x[0], x[1]); }

static dt_tensor *op_layer(dt_tensor *const *x) { return dt_layer_norm(t, x[0], x[1], x[2], NULL); }

static dt_tensor *op_group(dt_tensor *const *x)
{
    const dt_group_norm_options o = { 3, 1e-5 };
    return dt_group_norm(t, x[0], x[1], x[2], &o);
}

static dt_tensor *op_router(dt_tensor *const *x)
{
    const dt_moe_router_options o = { 3, true, 0 };
    return dt_moe_router(t, x[0], &o, NULL);
}

static dt_tensor *op_router_all(dt_tensor *const *x)
{
    const dt_moe_router_options o = { 3, false, 0 };
    return dt_moe_router(t, x[0], &o, NULL);
}

/* A head of 12 values, of which 8 are turned, at a position that a float holds. */
static dt_tensor *rotated(dt_tensor *const *x, int pairing)
{
    dt_rotary_options o = dt_rotary_defaults();
    dt_tensor *position, *y;
    const int32_t at = 12345;
    o.pairing = pairing;
    o.rotary_dim = 8;
    o.theta = 16; /* frequencies 1, 1/2, 1/4, 1/8 */
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I32, 1, (const int64_t[]){ 1 }, &at, &position));
    y = dt_rotary(t, x[0], position, &o);
    dt_tensor_free(position);
    return y;
}

static dt_tensor *op_rotary(dt_tensor *const *x) { return rotated(x, DT_ROTARY_HALF); }
static dt_tensor *op_rotary_2(dt_tensor *const *x) { return rotated(x, DT_ROTARY_INTERLEAVED); }

static dt_tensor *op_attention(dt_tensor *const *x)
{
    return dt_attention(t, &(dt_attention_operands){ .q = x[0], .k = x[1], .v = x[2] }, NULL, NULL);
}

static dt_tensor *op_attention_window(dt_tensor *const *x)
{
    return dt_attention(t, &(dt_attention_operands){ .q = x[0], .k = x[1], .v = x[2] },
                        &(dt_attention_options){ .causal = true, .window = 700 }, NULL);
}

#define EACH .rank = { 1 }, .dims = { { COUNT } }
#define TURN                                                                                       \
    "static const double f[4] = { 1, 0.5, 0.25, 0.125 };"                                          \
    "float turn[8]; rotary_turn(12345, f, 4, turn);"
#define CACHE(keys)                                                                                \
    "static float k[300000], v[300000], room[300]; int32_t i;"                                     \
    "for (i = 0; i < " keys "; i++) {"                                                             \
    "attention_keep(x[1] + i * a.kv_heads * a.width, &a, i, k);"                                   \
    "attention_keep(x[2] + i * a.kv_heads * a.width, &a, i, v); }"                                 \
    "attention(&a, x[0], k, v, " keys ", room, y);"

static const check checks[] = {
    { "exp", "map_exp(x[0], 4096, y);", op_exp, ANY, EACH },
    { "log", "map_log(x[0], 4096, y);", op_log, ANY, EACH },
    { "sqrt", "map_sqrt(x[0], 4096, y);", op_sqrt, ANY, EACH },
    { "tanh", "map_tanh(x[0], 4096, y);", op_tanh, ANY, EACH },
    { "sigmoid", "map_sigmoid(x[0], 4096, y);", op_sigmoid, ANY, EACH },
    { "silu", "map_silu(x[0], 4096, y);", op_silu, ANY, EACH },
    { "elu", "map_elu(x[0], 4096, 0.7f, y);", op_elu, ANY, EACH },
    { "gelu", "map_gelu_erf(x[0], 4096, y);", op_gelu, ANY, EACH },
    { "gelu_tanh", "map_gelu_tanh(x[0], 4096, y);", op_gelu_tanh, ANY, EACH },
    { "swiglu", "map_swiglu(x[0], x[1], 4096, y);", op_swiglu, ANY, .rank = { 1, 1 },
      .dims = { { COUNT }, { COUNT } } },
    { "layer_norm", "norm_layer(x[0], 7, 83, x[1], x[2], 1e-5, y);", op_layer, USUAL,
      .rank = { 2, 1, 1 }, .dims = { { 7, 83 }, { 83 }, { 83 } } },
    { "layer_norm_plain", "norm_layer(x[0], 7, 5, 0, 0, 1e-5, y);", op_layer, USUAL, .rank = { 2 },
      .dims = { { 7, 5 } } },
    { "rms_norm", "norm_rms(x[0], 7, 83, x[1], 1e-5, y);", op_rms, USUAL, .rank = { 2, 1 },
      .dims = { { 7, 83 }, { 83 } } },
    { "rms_norm_plain", "norm_rms(x[0], 70, 3, 0, 1e-5, y);", op_rms, USUAL, .rank = { 2 },
      .dims = { { 70, 3 } } },
    { "group_norm", "norm_group(x[0], 3, 2, 35, x[1], x[2], 1e-5, y);", op_group, USUAL,
      .rank = { 4, 1, 1 }, .dims = { { 1, 6, 5, 7 }, { 6 }, { 6 } } },
    { "softmax", "softmax(x[0], 3, 1300, 1, y);", op_softmax, USUAL, .rank = { 2 },
      .dims = { { 3, 1300 } } },
    { "softmax_short", "softmax(x[0], 50, 10, 1, y);", op_softmax, ANY, .rank = { 2 },
      .dims = { { 50, 10 } } },
    { "softmax_apart", "softmax(x[0], 3, 40, 5, y);", op_softmax, USUAL, .rank = { 3 },
      .dims = { { 3, 40, 5 } } },
    { "log_softmax", "log_softmax(x[0], 3, 1300, 1, y);", op_log_softmax, USUAL, .rank = { 2 },
      .dims = { { 3, 1300 } } },
    { "log_softmax_apart", "log_softmax(x[0], 3, 10, 5, y);", op_log_softmax, ANY, .rank = { 3 },
      .dims = { { 3, 10, 5 } } },
    { "gru", "gru_cell(x[0], x[1], x[2], 99, y);", op_gru, USUAL, .rank = { 2, 2, 2 },
      .dims = { { 1, 297 }, { 1, 297 }, { 1, 99 } } },
    { "lstm", "lstm_cell(x[0], x[1], x[2], 99, y);", op_lstm, USUAL, .rank = { 2, 2, 2 },
      .dims = { { 1, 396 }, { 1, 396 }, { 2, 99 } } },
    { "router", "int32_t index[3]; moe_route(x[0], 9, 3, 0, y, index);", op_router, USUAL,
      .rank = { 2 }, .dims = { { 1, 9 } } },
    { "router_all", "int32_t index[3]; moe_route(x[0], 40, 3, 1, y, index);", op_router_all, USUAL,
      .rank = { 2 }, .dims = { { 1, 40 } } },
    { "combine", "moe_combine(x[0], x[1], 3, 77, y);", op_combine, USUAL, .rank = { 3, 2 },
      .dims = { { 1, 3, 77 }, { 1, 3 } } },
    { "rotary", TURN "rotary(x[0], 5, 12, 4, 1, turn, y);", op_rotary, USUAL, .rank = { 4 },
      .dims = { { 1, 1, 5, 12 } } },
    { "rotary_interleaved", TURN "rotary(x[0], 5, 12, 4, 2, turn, y);", op_rotary_2, USUAL,
      .rank = { 4 }, .dims = { { 1, 1, 5, 12 } } },
    { "attention",
      "static const attention_shape a = { 4, 2, 24, 200, 0x1.a20bd8p-3f, 0 };" CACHE("130"),
      op_attention, USUAL, .rank = { 4, 4, 4 },
      .dims = { { 1, 1, 4, 24 }, { 1, 130, 2, 24 }, { 1, 130, 2, 24 } }, .other = USUAL },
    { "attention_parts",
      "static const attention_shape a = { 4, 1, 32, 1300, 0x1.6a09e6p-3f, 0 };" CACHE("1290"),
      op_attention, USUAL, .rank = { 4, 4, 4 },
      .dims = { { 1, 1, 4, 32 }, { 1, 1290, 1, 32 }, { 1, 1290, 1, 32 } } },
    { "attention_grouped",
      "static const attention_shape a = { 10, 2, 13, 600, 0x1.1c01aap-2f, 0 };" CACHE("599"),
      op_attention, USUAL, .rank = { 4, 4, 4 },
      .dims = { { 1, 1, 10, 13 }, { 1, 599, 2, 13 }, { 1, 599, 2, 13 } } },
    { "attention_window",
      "static const attention_shape a = { 4, 2, 24, 1100, 0x1.a20bd8p-3f, 700 };" CACHE("1090"),
      op_attention_window, USUAL, .rank = { 4, 4, 4 },
      .dims = { { 1, 1, 4, 24 }, { 1, 1090, 2, 24 }, { 1, 1090, 2, 24 } }, .other = USUAL },
    { "attention_first",
      "static const attention_shape a = { 4, 4, 7, 600, 0x1.83091ep-2f, 0 };" CACHE("1"),
      op_attention, USUAL, .rank = { 4, 4, 4 },
      .dims = { { 1, 1, 4, 7 }, { 1, 1, 4, 7 }, { 1, 1, 4, 7 } } },
};

/* ---- compiling ------------------------------------------------------------------------------ */

static const char doubles[] =
    "#define EACH(name, call) void name(const double *x, int32_t n, double *y); \\\n"
    "void name(const double *x, int32_t n, double *y) \\\n"
    "{ for (int32_t i = 0; i < n; i++) { call; } }\n"
    "EACH(run_square_root, y[i] = math_sqrt(x[i]))\n"
    "EACH(run_angles, math_sin_cos(x[i], &y[2 * i], &y[2 * i + 1]))\n"
    "void run_fma(const float *x, float *y);\n"
    "void run_fma(const float *x, float *y)\n"
    "{ for (int32_t i = 0; i + 2 < 4096; i++) y[i] = fma32(x[i], x[i + 1], x[i + 2]); }\n";

static void write_source(const char *path)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < dt__c_texts_n; i++) fprintf(f, "%s\n", dt__c_texts[i].text);
    fputs(doubles, f);
    for (int i = 0; i < DT__COUNT_OF(checks); i++) {
        fprintf(f, "void run_%s(const float *const *x, float *y);\n", checks[i].name);
        fprintf(f, "void run_%s(const float *const *x, float *y) { %s }\n", checks[i].name,
                checks[i].body);
    }
    ck_assert_int_eq(fclose(f), 0);
}

static const char *const compilers[] = {
    "cc -O0",
    "cc -O2",
    "cc -O3 -march=native -ffp-contract=fast",
    "cc -O3 -march=native -DFMA_BY_INTEGERS",
    "clang -O3 -march=native -ffp-contract=fast",
};

/* Compiles the library with compiler number i; NULL where it is not installed. */
static void *compiled(int i)
{
    char folder[TEST_PATH], path[TEST_PATH];
    if (!test_has_compiler(compilers[i])) return NULL;
    test_folder(folder);
    test_join(path, folder, "math.c");
    write_source(path);
    const int status = test_shell(NULL,
                                  "cd '%s' && %s -std=c99 -pedantic -Wall -Wextra -Wconversion "
                                  "-Werror -Wno-unused-function -shared -fPIC math.c -o math.so",
                                  folder, compilers[i]);
    ck_assert_msg(status == 0, "%s does not compile the texts", compilers[i]);
    test_join(path, folder, "math.so");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    return library;
}

typedef void any_function(void);

/* A function of the library, converted to a function pointer as POSIX recommends. */
static any_function *function_of(void *library, const char *name)
{
    char symbol[80];
    any_function *f = NULL;
    snprintf(symbol, sizeof symbol, "run_%s", name);
    void *address = dlsym(library, symbol);
    ck_assert_msg(address != NULL, "%s is not there", symbol);
    memcpy(&f, &address, sizeof f);
    return f;
}

/* ---- tests ---------------------------------------------------------------------------------- */

typedef void run_function(const float *const *x, float *y);

static void run_check(const check *c, run_function *run, dt__stream *s, const char *compiler)
{
    dt_tensor *x[OPERANDS] = { NULL };
    const float *data[OPERANDS] = { NULL };
    for (int i = 0; i < OPERANDS && c->rank[i] > 0; i++) {
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, c->rank[i], c->dims[i], &x[i]));
        draw_values(s, c->kind, dt_count(x[i]), dt_data_mut(x[i]));
        data[i] = dt_data(x[i]);
    }
    dt_tensor *y = c->op(x);
    ck_assert_msg(y != NULL, "%s: %s", c->name, dt_error(ctx));
    float *got = calloc((size_t)dt_count(y) + 1, sizeof *got);
    run(data, got);
    int64_t at;
    const float *want = dt_data(y);
    const bool equal = same(got, want, dt_count(y), &at);
    ck_assert_msg(equal, "%s, %s: y[%lld] is %a, not %a (x is %a)", compiler, c->name,
                  (long long)at, (double)got[at], (double)want[at],
                  (double)data[0][at % dt_count(x[0])]);
    free(got);
    dt_tape_reset(t);
    for (int i = 0; i < OPERANDS; i++) dt_tensor_free(x[i]);
}

START_TEST(test_functions)
{
    void *library = compiled(_i);
    if (library == NULL) return;
    dt__stream s = dt__stream_of(71, DT__FOR_USER);
    for (int i = 0; i < DT__COUNT_OF(checks); i++) {
        any_function *f = function_of(library, checks[i].name);
        for (int64_t n = 0;
             n < test_count((test_draws){ .usual = 30, .quick = 10, .sanitized = 2 }); n++) {
            run_check(&checks[i], (run_function *)f, &s, compilers[_i]);
        }
    }
    dlclose(library);
}
END_TEST

typedef void double_function(const double *x, int32_t n, double *y);

START_TEST(test_doubles)
{
    void *library = compiled(_i);
    if (library == NULL) return;
    dt__stream s = dt__stream_of(72, DT__FOR_USER);
    const int64_t draws =
        test_count((test_draws){ .usual = 100000, .quick = 30000, .sanitized = 3000 });
    for (int64_t i = 0; i < draws; i++) {
        uint64_t bits = dt__random_below(&s, (uint64_t)1 << 62) * 2;
        double x, root, turned[2], angle = dt__random_unit(&s) * 0x1p31 - 0x1p30, want[2];
        memcpy(&x, &bits, sizeof x);
        ((double_function *)function_of(library, "square_root"))(&x, 1, &root);
        const double exact = sqrt(x);
        TEST_EACH((isnan(exact) && isnan(root)) || memcmp(&exact, &root, sizeof root) == 0,
                  "%s: the root of %a is %a, not %a", compilers[_i], x, root, exact);
        if (i % 2 == 0) angle *= 0x1p-20;
        ((double_function *)function_of(library, "angles"))(&angle, 1, turned);
        dt__sin_cos(angle, &want[0], &want[1]);
        TEST_EACH(memcmp(want, turned, sizeof want) == 0, "%s: sine and cosine of %a",
                  compilers[_i], angle);
    }
    dlclose(library);
}
END_TEST

typedef void fma_function(const float *x, float *y);

START_TEST(test_fma)
{
    void *library = compiled(_i);
    if (library == NULL) return;
    dt__stream s = dt__stream_of(73, DT__FOR_USER);
    static float x[COUNT], y[COUNT];
    for (int64_t n = 0; n < test_count((test_draws){ .usual = 100, .quick = 30, .sanitized = 3 });
         n++) {
        draw_values(&s, n % 2 == 0 ? ANY : USUAL, COUNT, x);
        ((fma_function *)function_of(library, "fma"))(x, y);
        for (int i = 0; i + 2 < COUNT; i++) {
            const float want = fmaf(x[i], x[i + 1], x[i + 2]);
            TEST_EACH((isnan(want) && isnan(y[i])) || memcmp(&want, &y[i], sizeof want) == 0,
                      "%s: %a * %a + %a is %a, not %a", compilers[_i], (double)x[i],
                      (double)x[i + 1], (double)x[i + 2], (double)y[i], (double)want);
        }
    }
    dlclose(library);
}
END_TEST

Suite *test_export_c_math_suite(void)
{
    Suite *suite = suite_create("export_c_math");
    TCase *tc = tcase_create("texts");
    tcase_add_checked_fixture(tc, setup, teardown);
    /* the texts are compiled without the sanitizer of this program */
    const int n = (int)test_count((test_draws){ .usual = DT__COUNT_OF(compilers), .sanitized = 2 });
    tcase_add_loop_test(tc, test_functions, 0, n);
    tcase_add_loop_test(tc, test_doubles, 0, n);
    tcase_add_loop_test(tc, test_fma, 0, n);
    suite_add_tcase(suite, tc);
    return suite;
}
