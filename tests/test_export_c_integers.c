/* Models of integers alone as C (src/export/c/c_emit_device.c): networks of the ops of
 * detent/device.h are exported, compiled and run; the object file has no arithmetic of floats.
 * With DETENT_EXPORTS=FOLDER the exports stay there, for scripts/exports/cmsis_nn.sh. */
#include "c_folder.h"
#include "core/core.h"
#include "core/tensor.h"
#include "testing.h"

#include <detent/experimental/device.h>
#include <detent/experimental/nn.h>
#include <detent/qat.h>

#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;

static void begin(void)
{
    test_begin();
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
}

static void end(void)
{
    dt_ctx_free(ctx);
    test_end();
}

/* ---- a network ------------------------------------------------------------------------------- */

/* A small network with all kinds of layers: convolution, depthwise, residual sum, concatenation,
 * transposed convolution, padding, both pools, product, flattening, linear layers, softmax. */
enum { RANGES = 12 };

typedef struct net {
    dt_device_range range[RANGES];
    bool softmax;
} net;

static dt_tensor *param(dt_module *m, const char *layer, const char *name)
{
    char path[40];
    snprintf(path, sizeof path, "%s.%s", layer, name);
    return dt_param(m, path);
}

static dt_tensor *conv(dt_tape *t, dt_module *m, dt_tensor *x, const char *name, int range,
                       const dt_device_conv_options *o)
{
    const net *n = dt_module_state(m);
    const bool back = strcmp(name, "up") == 0;
    return (back ? dt_device_conv_transpose2d : dt_device_conv2d)(
        t, x, param(m, name, "weight"), param(m, name, "bias"), &n->range[range], o);
}

static void run(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                int n_out)
{
    const net *n = dt_module_state(m);
    dt_device_conv_options first = { dt_conv_defaults(), DT_ACT_RELU }, each = first, pairs = first,
                           up = first;
    first.conv.stride[0] = 2;
    first.conv.padding[0] = first.conv.padding[1] = 1;
    each.conv.padding[0] = each.conv.padding[1] = 1;
    each.conv.groups = 6;
    each.activation = DT_ACT_RELU6;
    pairs.conv.groups = 2;
    up.conv.stride[0] = up.conv.stride[1] = 2;
    up.conv.padding[0] = up.conv.padding[1] = 1;
    pairs.activation = up.activation = DT_ACT_NONE;
    const dt_device_zip_options zip = { DT_ACT_RELU }, none = { DT_ACT_NONE };
    const dt_pool_options two = { { 2, 2 }, { 2, 1 }, { 1, 0 }, { 0, 0 }, false, false };
    const dt_pad_options pad = { { 4, { 1, 0, 0, 2 } }, DT_PAD_CONSTANT, 0 };
    (void)n_in;
    (void)n_out;
    dt_tensor *x = dt_device_quantize(t, in[0], &n->range[0]);
    dt_tensor *a = conv(t, m, x, "first", 1, &first);
    dt_tensor *b = conv(t, m, a, "each", 2, &each);
    a = dt_device_add(t, a, b, &n->range[3], &zip);
    a = dt_device_concat(t, (dt_tensor *[]){ a, dt_device_add(t, a, b, &n->range[3], &none) }, 2,
                         1);
    a = conv(t, m, a, "pairs", 4, &pairs);
    a = dt_device_max_pool2d(t, dt_device_pad(t, a, &pad), &two);
    a = conv(t, m, a, "up", 5, &up);
    a = dt_device_avg_pool2d(t, a, &two);
    a = dt_device_mul(t, a, a, &n->range[6], &none);
    const int64_t flat[] = { a == NULL ? 1 : a->dims[0], a == NULL ? 1 : a->count / a->dims[0] };
    a = dt_device_reshape(t, a, 2, flat);
    const dt_device_linear_options relu = { DT_ACT_RELU, false }, last = { DT_ACT_NONE, false };
    a = dt_device_linear(t, a, param(m, "hidden", "weight"), param(m, "hidden", "bias"),
                         &n->range[7], &relu);
    a = dt_device_linear(t, a, param(m, "head", "weight"), NULL, &n->range[8], &last);
    if (n->softmax) a = dt_device_softmax(t, a);
    out[0] = dt_device_dequantize(t, a);
}

static void free_net(dt_module *m)
{
    net *n = dt_module_state(m);
    for (int i = 0; i < RANGES; i++) {
        dt_tensor_free(n->range[i].scale);
        dt_tensor_free(n->range[i].zero_point);
    }
}

static const dt_module_type net_type = { .name = "net", .forward = run, .free_state = free_net };

static dt_module *make_net(int bits, bool softmax)
{
    static const float scales[RANGES] = { 0.02F,  0.013F, 0.011F, 0.03F, 0.02F,
                                          0.011F, 0.009F, 0.02F,  0.01F };
    static const int8_t zeros[RANGES] = { -3, -128, -128, -110, 5, -17, 30, -128, 4 };
    dt_module *m, *child = NULL;
    TEST_OK(ctx, dt_module_create(ctx, &net_type, sizeof(net), &m));
    net *n = dt_module_state(m);
    n->softmax = softmax;
    for (int i = 0; i < RANGES; i++) {
        const float scale = scales[i] > 0 ? scales[i] : 1;
        const int64_t one = 1;
        TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 1, &one, &scale, &n->range[i].scale));
        TEST_OK(ctx, dt_tensor_from(ctx, DT_I8, 1, &one, &zeros[i], &n->range[i].zero_point));
    }
    static const struct {
        const char *name;
        int64_t in, out, kernel[2], groups;
    } convs[] = { { "first", 3, 6, { 3, 3 }, 1 },
                  { "each", 6, 6, { 3, 3 }, 6 },
                  { "pairs", 12, 10, { 1, 3 }, 2 },
                  { "up", 10, 4, { 3, 3 }, 1 } };
    for (int i = 0; i < 4; i++) {
        dt_conv_layer l = { .in = convs[i].in, .out = convs[i].out, .bias = true };
        l.conv = dt_conv_defaults();
        l.conv.groups = convs[i].groups;
        l.kernel[0] = convs[i].kernel[0];
        l.kernel[1] = convs[i].kernel[1];
        TEST_OK(ctx, (i == 3 ? dt_conv_transpose2d_create : dt_conv2d_create)(ctx, &l, &child));
        TEST_OK(ctx, dt_module_add(m, convs[i].name, child));
    }
    TEST_OK(ctx, dt_linear_create(ctx, 160, 9, true, &child));
    TEST_OK(ctx, dt_module_add(m, "hidden", child));
    TEST_OK(ctx, dt_linear_create(ctx, 9, 5, false, &child));
    TEST_OK(ctx, dt_module_add(m, "head", child));
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_INT4_WEIGHT;
    o.weight = (dt_quant_patch){ .quant = { .bits = bits, .granularity = DT_PER_CHANNEL },
                                 .has_bits = true,
                                 .has_granularity = true };
    TEST_OK(ctx, dt_prepare(m, &o));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    return m;
}

static dt_tensor *picture(void)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, (const int64_t[]){ 1, 3, 9, 8 }, &x));
    float *v = dt_data_mut(x);
    for (int64_t i = 0; i < x->count; i++) v[i] = (float)((i * 71) % 255 - 125) * 0.02F;
    return x;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static const char *const compilers[] = { "cc " C_STRICT " -O2", "cc " C_STRICT " -O0",
                                         "cc " C_STRICT " -O3 -march=native -DPLAIN_LOOPS" };

START_TEST(networks_have_the_same_codes)
{
    char path[TEST_PATH];
    const int bits = _i & 1 ? 4 : 8;
    dt_module *m = make_net(bits, _i & 2);
    dt_tensor *x = picture();
    const c_subject o = { m, &x, 1, 1, "net" };
    const char *kept = getenv("DETENT_EXPORTS");
    if (kept != NULL) snprintf(path, sizeof path, "%s/net%d", kept, _i);
    else c_new_folder(path);
    TEST_OK(ctx, c_export(&o, NULL, path));
    for (int i = 0; i < DT__COUNT_OF(compilers); i++)
        c_check_folder(path, compilers[i], "integers");
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* The codes of a picture of the test's own, and not only of the self-test. */
START_TEST(a_picture_gives_its_codes)
{
    char path[TEST_PATH];
    int8_t codes[3 * 9 * 8], y[5];
    dt_module *m = make_net(8, false);
    dt_tensor *x = picture(), *out;
    dt_tape *t;
    const c_subject o = { m, &x, 1, 1, "net" };
    c_new_folder(path);
    TEST_OK(ctx, c_export(&o, NULL, path));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    out = dt_forward(t, m, x);
    ck_assert_msg(out != NULL, "%s", dt_error(ctx));
    for (int c = 0; c < 3; c++) {
        for (int k = 0; k < 72; k++) {
            const float v = ((const float *)dt_data(x))[c * 72 + k];
            codes[k * 3 + c] = (int8_t)(v / 0.02F + (v < 0 ? -0.5F : 0.5F) - 3);
        }
    }
    c_loaded l = c_load(path, "cc");
    int (*run_codes)(const int8_t *, int8_t *, void *);
    c_any_function *f = c_function_of(&l, "net_run");
    memcpy(&run_codes, &f, sizeof run_codes);
    ck_assert_int_eq(run_codes(codes, y, l.arena), 0);
    for (int i = 0; i < 5; i++) {
        const float value = (float)(y[i] - 4) * 0.01F;
        ck_assert_msg(value == ((const float *)dt_data(out))[i], "output %d", i);
    }
    c_unload(&l);
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* On a processor without floats the code has no float instruction, and calls no library function
 * for one. */
START_TEST(no_floats)
{
    static const char *const commands[] = {
        /* floats are an error then; not every processor has the option */
        "cc -mgeneral-regs-only -fsyntax-only -x c /dev/null 2> /dev/null || exit 0; "
        "cc -O2 -mgeneral-regs-only -DNET_NO_FLOATS -c net.c -o net.o",
        "arm-none-eabi-gcc -O2 -mcpu=cortex-m0 -mthumb -DNET_NO_FLOATS -c net.c -o net.o && "
        "! arm-none-eabi-nm -u net.o | grep -E '__aeabi_[fd]|__[a-z]*[sd]f[0-9]'",
        "arm-none-eabi-gcc -O2 -mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard "
        "-DNET_NO_FLOATS -c net.c -o net.o && "
        "! arm-none-eabi-objdump -d net.o | grep -E '\\bv[a-z]+[.]f|\\bvldr|\\bvmov'"
    };
    char path[TEST_PATH], *output;
    dt_module *m = make_net(8, true);
    dt_tensor *x = picture();
    const c_subject o = { m, &x, 1, 1, "net" };
    c_new_folder(path);
    TEST_OK(ctx, c_export(&o, NULL, path));
    for (int i = 0; i < DT__COUNT_OF(commands); i++) {
        if (test_shell(NULL, "command -v %.*s > /dev/null", (int)strcspn(commands[i], " "),
                       commands[i]) != 0) {
            continue;
        }
        const int status = test_shell(&output, "cd %s && { %s; } 2>&1", path, commands[i]);
        ck_assert_msg(status == 0, "%s: %s", commands[i], output);
        free(output);
    }
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

Suite *test_export_c_integers_suite(void)
{
    Suite *s = suite_create("export_c_integers");
    TCase *c = tcase_create("integers");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, begin, end);
    tcase_add_loop_test(c, networks_have_the_same_codes, 0, 4);
    tcase_add_test(c, a_picture_gives_its_codes);
    tcase_add_test(c, no_floats);
    suite_add_tcase(s, c);
    return s;
}
