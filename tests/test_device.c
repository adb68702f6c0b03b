/* Integer networks (numerics §8): the golden networks of CMSIS-NN, layer by layer, prepared,
 * converted and loaded; gradients in closed form; what is refused. */
#include "device_golden.h"

#include <detent/experimental/device.h>
#include <detent/experimental/nn.h>
#include <detent/qat.h>

#include "autograd/coded.h"
#include "autograd/tape.h"
#include "core/tensor.h"
#include "kernels/sets.h"
#include "nn/lists/graph.h"
#include "nn/module.h"
#include "qat/device/device_plan.h"
#include "qat/schemes/scheme.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A context with one set of kernels. */
static dt_ctx *context_of(int threads, uint64_t cpu_mask)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    o.cpu_mask = cpu_mask;
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    return ctx;
}

static dt_ctx *context(int threads) { return context_of(threads, UINT64_MAX); }

/* ---- golden networks ------------------------------------------------------------------------- */

#define MOST_LAYERS 16

typedef struct net {
    device_golden g;
    dt_module *m;
    char layer[MOST_LAYERS][32]; /* "input" first */
    int n;
    int64_t size[MOST_LAYERS][4]; /* [n, h, w, c] of each result */
    int64_t value[MOST_LAYERS];
    bool images[MOST_LAYERS];
    int64_t nodes;
} net;

static int index_of(const net *n, const char *name)
{
    for (int i = 0; i < n->n; i++) {
        if (strcmp(n->layer[i], name) == 0) return i;
    }
    ck_abort_msg("no layer %s", name);
    return -1;
}

static int64_t add_node(net *n, const char *name, dt_module *part, int n_in, int64_t a, int64_t b)
{
    dt_ctx *ctx = dt_module_ctx(n->m);
    TEST_OK(ctx, dt_module_add(n->m, name, part));
    const dt__graph_node node = { part, n_in, { a, b }, n_in == 2 };
    TEST_OK(ctx, dt__graph_append(n->m, &node));
    return DT__GRAPH_FIRST + n->nodes++;
}

/* A float weight, from [o][taps][c] to [o][c][taps] (depthwise [taps][o] to [o][taps]). */
static void set_weight(net *n, dt_module *part, int64_t rows, int64_t taps, int64_t channels,
                       bool depthwise)
{
    int64_t count;
    const float *from = device_data(&n->g, "weights_float", DT_F32, &count);
    const float *bias = device_data(&n->g, "bias_float", DT_F32, NULL);
    float *to = dt_data_mut(dt_param(part, "weight"));
    ck_assert_int_eq(count, rows * taps * channels);
    for (int64_t o = 0; o < rows; o++) {
        for (int64_t c = 0; c < channels; c++) {
            for (int64_t t = 0; t < taps; t++) {
                to[(o * channels + c) * taps + t] =
                    depthwise ? from[t * rows + o] : from[(o * taps + t) * channels + c];
            }
        }
    }
    memcpy(dt_data_mut(dt_param(part, "bias")), bias, (size_t)rows * sizeof *bias);
}

static dt_module *convolution(net *n, const int64_t *x, const int64_t *y, bool depthwise,
                              int64_t *value, const char *name)
{
    dt_ctx *ctx = dt_module_ctx(n->m);
    const dt_file_entry *e;
    char entry[64];
    snprintf(entry, sizeof entry, "%s/weights_float", n->g.name);
    e = dt_file_find(n->g.file, entry);
    dt_conv_layer l = { .in = x[3], .out = y[3], .bias = true, .conv = dt_conv_defaults() };
    dt_ints pads = { .n = 4 };
    for (int i = 0; i < 2; i++) {
        l.kernel[i] = e->dims[1 + i];
        l.conv.stride[i] = device_number(&n->g, i == 0 ? "sh" : "sw", 1);
        const int64_t lead = device_number(&n->g, i == 0 ? "ph" : "pw", 0);
        const int64_t all = (y[1 + i] - 1) * l.conv.stride[i] + l.kernel[i] - x[1 + i];
        pads.v[i == 0 ? 2 : 0] = lead;
        pads.v[i == 0 ? 3 : 1] = all > lead ? all - lead : 0;
    }
    if (pads.v[0] == pads.v[1] && pads.v[2] == pads.v[3]) {
        l.conv.padding[0] = pads.v[2];
        l.conv.padding[1] = pads.v[0];
    } else {
        dt_module *pad;
        char pad_name[48];
        snprintf(pad_name, sizeof pad_name, "%s_pad", name);
        const dt_pad_options o = { .pads = pads };
        TEST_OK(ctx, dt_pad_create(ctx, &o, &pad));
        *value = add_node(n, pad_name, pad, 1, *value, 0);
    }
    if (depthwise) l.conv.groups = x[3];
    dt_module *part;
    TEST_OK(ctx, dt_conv2d_create(ctx, &l, &part));
    set_weight(n, part, y[3], l.kernel[0] * l.kernel[1], depthwise ? 1 : x[3], depthwise);
    return part;
}

static dt_module *linear(net *n, const int64_t *x, bool images, int64_t out, int64_t *value,
                         const char *name)
{
    dt_ctx *ctx = dt_module_ctx(n->m);
    dt_module *part;
    const int64_t taps = x[1] * x[2], k = taps * x[3];
    if (images) {
        dt_module *flat;
        char flat_name[48];
        snprintf(flat_name, sizeof flat_name, "%s_flat", name);
        TEST_OK(ctx, dt_flatten_create(ctx, &flat));
        *value = add_node(n, flat_name, flat, 1, *value, 0);
    }
    TEST_OK(ctx, dt_linear_create(ctx, k, out, true, &part));
    set_weight(n, part, out, taps, x[3], false);
    return part;
}

static void add_layer(net *n, int i)
{
    dt_ctx *ctx = dt_module_ctx(n->m);
    device_golden *g = &n->g;
    char from[64], second[64] = "";
    device_at(g, n->layer[i]);
    device_word(g, "input", from);
    char *comma = strchr(from, ',');
    if (comma != NULL) {
        snprintf(second, sizeof second, "%s", comma + 1);
        *comma = '\0';
    }
    const int a = index_of(n, from), b = comma != NULL ? index_of(n, second) : 0;
    int64_t value = n->value[a];
    int64_t size[4], rank = 0;
    char entry[64];
    snprintf(entry, sizeof entry, "%s/output", n->layer[i]);
    const dt_file_entry *e = dt_file_find(g->file, entry);
    rank = e->rank;
    for (int d = 0; d < 4; d++)
        size[d] = rank == 4 ? e->dims[d] : d == 0 ? e->dims[0] : d == 3 ? e->dims[1] : 1;
    memcpy(n->size[i], size, sizeof size);
    n->images[i] = rank == 4;
    dt_module *part = NULL;
    const int64_t *x = n->size[a];
    const dt_pool_options pool = {
        .kernel = { device_number(g, "kh", 1), device_number(g, "kw", 1) },
        .stride = { device_number(g, "sh", 1), device_number(g, "sw", 1) }
    };
    if (device_says(g, "op", "convolution"))
        part = convolution(n, x, size, false, &value, n->layer[i]);
    else if (device_says(g, "op", "depthwise"))
        part = convolution(n, x, size, true, &value, n->layer[i]);
    else if (device_says(g, "op", "fully_connected"))
        part = linear(n, x, n->images[a], size[3], &value, n->layer[i]);
    else if (device_says(g, "op", "max_pool"))
        TEST_OK(ctx, dt_max_pool2d_create(ctx, &pool, &part));
    else if (device_says(g, "op", "avg_pool"))
        TEST_OK(ctx, dt_avg_pool2d_create(ctx, &pool, &part));
    else if (device_says(g, "op", "softmax")) TEST_OK(ctx, dt_softmax_create(ctx, -1, &part));
    else if (device_says(g, "op", "add")) TEST_OK(ctx, dt_add_create(ctx, &part));
    ck_assert_msg(part != NULL, "%s", g->words);
    value = add_node(n, n->layer[i], part, comma != NULL ? 2 : 1, value,
                     comma != NULL ? n->value[b] : 0);
    char act[64], act_name[48];
    device_word(g, "act", act);
    if (act[0] != '\0' && strcmp(act, "none") != 0) {
        snprintf(act_name, sizeof act_name, "%s_act", n->layer[i]);
        TEST_OK(ctx, dt_activation_create(ctx, act, &part));
        value = add_node(n, act_name, part, 1, value, 0);
    }
    n->value[i] = value;
}

static void build(dt_ctx *ctx, net *n)
{
    device_at(&n->g, "order");
    char words[512], *at;
    snprintf(words, sizeof words, "%s", n->g.words);
    for (char *word = strtok_r(words, " ", &at); word != NULL; word = strtok_r(NULL, " ", &at)) {
        snprintf(n->layer[n->n++], sizeof n->layer[0], "%s", word);
    }
    TEST_OK(ctx, dt__graph_create(ctx, &dt__nn_graph, &n->m));
    const dt_file_entry *e = dt_file_find(n->g.file, "input_float");
    for (int d = 0; d < 4; d++)
        n->size[0][d] = e->rank == 4 ? e->dims[d] : d == 0 ? e->dims[0] : d == 3 ? e->dims[1] : 1;
    n->images[0] = e->rank == 4;
    for (int i = 1; i < n->n; i++) add_layer(n, i);
    TEST_OK(ctx, dt__graph_finish(n->m, 1, &n->value[n->n - 1], 1));
}

static dt_module *child(const dt_module *m, const char *name)
{
    for (int64_t i = 0; i < m->n_children; i++) {
        if (strcmp(m->children[i]->name, name) == 0) return m->children[i];
    }
    return NULL;
}

/* Sets a range as the file has it; scale and zero point must follow. */
static void set_range(net *n, int i)
{
    dt_module *holder = i == 0 ? n->m : child(n->m, n->layer[i]);
    dt__quantizer *q = dt__quantizer_of(dt__quantizer_at(holder, i == 0 ? "input" : "output"));
    device_at(&n->g, n->layer[i]);
    const float *low = device_data(&n->g, "low", DT_F32, NULL),
                *high = device_data(&n->g, "high", DT_F32, NULL);
    if (q == NULL) return; /* it shares another one's */
    float *lo = dt_data_mut(q->lo), *hi = dt_data_mut(q->hi);
    ck_assert_msg(low != NULL && high != NULL, "%s", n->layer[i]);
    *lo = low[0];
    *hi = high[0];
    ck_assert(
        dt__range_scale(&q->quant, *lo, *hi, dt_data_mut(q->scale), dt_data_mut(q->zero_point)));
    *(int64_t *)dt_data_mut(q->count) = 1;
    ck_assert(*(const float *)dt_data(q->scale) ==
              *(const float *)device_data(&n->g, "scale", DT_F32, NULL));
    ck_assert_int_eq(*(const int8_t *)dt_data(q->zero_point), device_number(&n->g, "zy", 0));
}

/* Compares results of device ops with the layers in order. */
typedef struct watcher {
    net *n;
    int next;
} watcher;

static void compare_call(void *user, const dt_call *c)
{
    watcher *w = user;
    net *n = w->n;
    const char *const op = c->op->name;
    const bool shape = strcmp(op, "device_reshape") == 0 || strcmp(op, "device_pad") == 0;
    if (!dt_is_coded(c->y) || shape) return;
    ck_assert_int_lt(w->next, n->n);
    device_at(&n->g, n->layer[w->next]);
    const int64_t *s = n->size[w->next++];
    int8_t *codes = malloc((size_t)c->y->count + 1), *nhwc = malloc((size_t)c->y->count + 1);
    TEST_OK(c->ctx, dt_coded_read(c->y, codes));
    ck_assert_int_eq(s[0] * s[1] * s[2] * s[3], c->y->count);
    device_from_planes(codes, s, nhwc);
    device_equal(&n->g, "output", nhwc);
    free(codes);
    free(nhwc);
}

static dt_tensor *input_of(net *n)
{
    dt_tensor *x, *out;
    dt_ctx *ctx = dt_module_ctx(n->m);
    TEST_OK(ctx, dt_file_load(n->g.file, "input_float", DT_F32, &x));
    if (x->rank == 2) return x;
    const int64_t *s = n->size[0], dims[4] = { s[0], s[3], s[1], s[2] };
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, dims, &out));
    const float *from = dt_data(x);
    float *to = dt_data_mut(out);
    for (int64_t b = 0; b < s[0]; b++) {
        for (int64_t i = 0; i < s[1] * s[2]; i++) {
            for (int64_t c = 0; c < s[3]; c++)
                to[(b * s[3] + c) * s[1] * s[2] + i] = from[(b * s[1] * s[2] + i) * s[3] + c];
        }
    }
    dt_tensor_free(x);
    return out;
}

static void run_net(net *n)
{
    dt_ctx *ctx = dt_module_ctx(n->m);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_tensor *x = input_of(n);
    watcher w = { n, 0 };
    t->on_call = compare_call;
    t->on_call_user = &w;
    dt_train(n->m, false);
    dt_forward(t, n->m, x);
    TEST_OK(ctx, dt_tape_status(t));
    ck_assert_int_eq(w.next, n->n);
    dt_tape_free(t);
    dt_tensor_free(x);
}

/* Saves the network and loads it into a plain one, which must compute the same. */
static void check_file(net *n)
{
    dt_ctx *ctx = dt_module_ctx(n->m);
    char path[TEST_PATH];
    net again = { .g = n->g };
    again.g.n_held = 0;
    test_folder(path);
    test_join(path, path, "net.safetensors");
    TEST_OK(ctx, dt_model_save(n->m, NULL, path));
    build(ctx, &again);
    TEST_OK(ctx, dt_model_restore(again.m, path));
    run_net(&again);
    n->g.compared += again.g.compared - n->g.compared;
    dt_module_free(again.m);
    while (again.g.n_held > 0) dt_tensor_free(again.g.held[--again.g.n_held]);
}

static const char *const nets[] = { "net_mlp_w8",   "net_mlp_w8_tensor", "net_mlp_w4",
                                    "net_dscnn_w8", "net_dscnn_w4",      "net_resnet_w8",
                                    "net_resnet_w4" };

/* Prepared, converted, and loaded as both. Returns how many codes were compared; 0: no file. */
static int64_t check_net(const char *name, int threads, const dt__kernel_set *set)
{
    dt_ctx *ctx = context_of(threads, set->needs);
    net n = { .nodes = 0 };
    if (!device_open(ctx, name, &n.g)) {
        dt_ctx_free(ctx);
        return 0;
    }
    build(ctx, &n);
    dt_qat_options o = dt_qat_defaults();
    const int64_t *s = n.size[0];
    const dt_shape in = { s[1] * s[2] == 1 ? 1 : 3, { s[3], s[1], s[2] } };
    o.preset = strstr(name, "w4") != NULL ? DT_DEVICE_INT4 : DT_DEVICE_INT8;
    o.inputs = &in;
    o.n_inputs = 1;
    if (strstr(name, "tensor") != NULL) {
        o.weight.has_granularity = true;
        o.weight.quant.granularity = DT_PER_TENSOR;
    }
    TEST_OK(ctx, dt_prepare(n.m, &o));
    for (int i = 0; i < n.n; i++) set_range(&n, i);
    run_net(&n);
    check_file(&n);
    TEST_OK(ctx, dt_convert(n.m, NULL, NULL));
    run_net(&n);
    check_file(&n);
    dt_module_free(n.m);
    device_close(&n.g);
    dt_ctx_free(ctx);
    return n.g.compared;
}

/* Every set of kernels that runs here, with one to four threads; the first, plain C, with all. */
START_TEST(golden_nets)
{
    const dt__kernel_set *set;
    int64_t codes = 0, sets = 0;
    for (int i = 0; (set = dt__kernel_set_at(i)) != NULL; i++) {
        if (!dt__kernel_set_runs(set)) continue;
        sets++;
        for (int threads = 1; threads <= 4; threads++) {
            if (i > 0 && threads != 1 + i % 4) continue;
            const int64_t equal = check_net(nets[_i], threads, set);
            if (equal == 0) return;
            codes += equal;
        }
    }
    printf("%s: %lld sets, %lld codes equal\n", nets[_i], (long long)sets, (long long)codes);
}
END_TEST

/* ---- gradients in closed form ---------------------------------------------------------------- */

static dt_tensor *leaf(dt_ctx *ctx, int rank, const int64_t *dims, const float *values, bool wants)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, rank, dims, values, &x));
    TEST_OK(ctx, dt_set_requires_grad(x, wants));
    return x;
}

static dt_device_range range_of(dt_ctx *ctx, float scale, int zero)
{
    const int64_t one = 1, two = 2;
    const int8_t z = (int8_t)zero;
    const float ends[2] = { (float)(-128 - zero) * scale, (float)(127 - zero) * scale };
    dt_device_range r = { leaf(ctx, 1, &one, &scale, false), NULL, leaf(ctx, 1, &two, ends, true) };
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I8, 1, &one, &z, &r.zero_point));
    return r;
}

static void free_range(dt_device_range *r)
{
    dt_tensor_free(r->scale);
    dt_tensor_free(r->zero_point);
    dt_tensor_free(r->ends);
}

enum { ROWS = 6, IN = 5, OUT = 4 };

/* y = activation(x w^T + b) of codes: the gradients of x, w, b and of both ends against sums in
 * double of the dequantized operands. */
START_TEST(gradients_of_a_layer)
{
    dt_ctx *ctx = context(2);
    dt_tape *t;
    static const int activations[] = { DT_ACT_NONE, DT_ACT_RELU, DT_ACT_RELU6 };
    const int activation = activations[_i];
    const int64_t x_dims[] = { ROWS, IN }, w_dims[] = { OUT, IN }, b_dims[] = { OUT },
                  y_dims[] = { ROWS, OUT };
    float x[ROWS * IN], w[OUT * IN], b[OUT], dy[ROWS * OUT];
    srand(7);
    for (int i = 0; i < ROWS * IN; i++) x[i] = (float)(rand() % 2001 - 1000) * 0.004f;
    for (int i = 0; i < OUT * IN; i++) w[i] = (float)(rand() % 2001 - 1000) * 0.001f;
    for (int i = 0; i < OUT; i++) b[i] = (float)i * 0.3f - 0.4f;
    for (int i = 0; i < ROWS * OUT; i++) dy[i] = (float)(rand() % 2001 - 1000) * 0.001f;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_quant_spec spec, unused;
    dt_qat_preset(DT_DEVICE_INT8, &spec, &unused);
    dt_device_range of_x = range_of(ctx, 0.03f, 5), of_y = range_of(ctx, 0.02f, -20);
    dt_tensor *lx = leaf(ctx, 2, x_dims, x, true), *lw = leaf(ctx, 2, w_dims, w, true);
    dt_tensor *lb = leaf(ctx, 1, b_dims, b, true), *ldy = leaf(ctx, 2, y_dims, dy, false), *values;
    dt_tensor *q = dt_device_quantize(t, lx, &of_x), *fw = dt_fake_quant(t, lw, &spec, true);
    const dt_device_linear_options o = { activation, false };
    dt_tensor *y = dt_device_linear(t, q, fw, lb, &of_y, &o);
    TEST_OK(ctx, dt_tape_status(t));
    int8_t codes[ROWS * OUT], in[ROWS * IN];
    TEST_OK(ctx, dt_coded_read(y, codes));
    TEST_OK(ctx, dt_coded_read(q, in));
    TEST_OK(ctx, dt_dequantize(fw, &values));
    const float *wv = dt_data(values);
    int clamped = 0;
    double dx[ROWS * IN] = { 0 }, dw[OUT * IN] = { 0 }, db[OUT] = { 0 }, low = 0, high = 0,
                     inside = 0;
    for (int m = 0; m < ROWS; m++) {
        for (int n = 0; n < OUT; n++) {
            double real = (double)b[n];
            for (int k = 0; k < IN; k++)
                real += (in[m * IN + k] - 5) * 0.03 * (double)wv[n * IN + k];
            const double steps = real / 0.02, code = round(steps) - 20, d = (double)dy[m * OUT + n];
            const double least = activation == DT_ACT_NONE ? -128 : -20;
            const double most = activation == DT_ACT_RELU6 ? 127 : 127;
            ck_assert_int_eq(codes[m * OUT + n], (int)(code < least  ? least
                                                       : code > most ? most
                                                                     : code));
            if (code < least || code > most) {
                clamped++;
                if (code < least && activation == DT_ACT_NONE) low += d;
                if (code > most) high += d;
                continue;
            }
            inside += d * (code + 20 - steps) / 255;
            db[n] += d;
            for (int k = 0; k < IN; k++) dx[m * IN + k] += d * (double)wv[n * IN + k];
            for (int k = 0; k < IN; k++) dw[n * IN + k] += d * (in[m * IN + k] - 5) * 0.03;
        }
    }
    ck_assert_int_gt(clamped, 0);
    TEST_OK(ctx, dt_backward(t, y, ldy));
    const float *gw = dt_data(dt_grad(lw)), *gb = dt_data(dt_grad(lb)), *gx = dt_data(dt_grad(lx));
    const float *ends = dt_data(dt_grad(of_y.ends));
    for (int i = 0; i < OUT * IN; i++) ck_assert_double_eq_tol((double)gw[i], dw[i], 1e-4);
    for (int i = 0; i < OUT; i++) ck_assert_double_eq_tol((double)gb[i], db[i], 1e-5);
    for (int i = 0; i < ROWS * IN; i++) {
        const bool cut = roundf(x[i] / 0.03f) + 5 > 127 || roundf(x[i] / 0.03f) + 5 < -128;
        ck_assert_double_eq_tol((double)gx[i], cut ? 0 : dx[i], 1e-4);
    }
    const double g = 1 / sqrt(255.0 * ROWS * OUT), off = g * ROWS * OUT / 254 / 255;
    ck_assert_double_eq_tol((double)ends[0], g * (low - inside), off + 1e-6);
    ck_assert_double_eq_tol((double)ends[1], g * (high + inside), off + 1e-6);
    dt_tape_free(t);
    dt_tensor_free(values);
    dt_tensor_free(lx);
    dt_tensor_free(lw);
    dt_tensor_free(lb);
    dt_tensor_free(ldy);
    free_range(&of_x);
    free_range(&of_y);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------ */

static dt_tensor *coded(dt_tape *t, dt_tensor *x, float scale, int zero)
{
    dt_device_range r = range_of(dt_tape_ctx(t), scale, zero);
    dt_tensor *y = dt_device_quantize(t, x, &r);
    free_range(&r);
    return y;
}

static void expect(dt_tape *t, dt_status status, const char *words)
{
    ck_assert_int_eq(dt_tape_status(t), status);
    ck_assert_msg(strstr(dt_error(dt_tape_ctx(t)), words) != NULL, "%s", dt_error(dt_tape_ctx(t)));
    dt_tape_reset(t);
}

START_TEST(calls_that_would_wrap)
{
    dt_ctx *ctx = context(1);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    const int64_t dims[] = { 1, 2 }, w_dims[] = { 1, 2 }, one = 1;
    const float values[] = { 1, -1 }, huge = 1e9f, nan = NAN;
    dt_tensor *x = leaf(ctx, 2, dims, values, false), *w = leaf(ctx, 2, w_dims, values, false);
    dt_tensor *bias = leaf(ctx, 1, &one, &huge, false), *bad = leaf(ctx, 1, &one, &nan, false);
    dt_quant_spec spec, unused;
    dt_qat_preset(DT_DEVICE_INT8, &spec, &unused);
    dt_device_range fine = range_of(ctx, 1e-9f, 0), usual = range_of(ctx, 0.1f, 0);
    dt_device_linear(t, coded(t, x, 0.01f, 0), dt_fake_quant(t, w, &spec, true), bias, &usual,
                     NULL); /* a bias that requires a larger scale */
    TEST_OK(ctx, dt_tape_status(t));
    dt_device_linear(t, coded(t, x, 0.01f, 0), dt_fake_quant(t, w, &spec, true), bad, &usual, NULL);
    expect(t, DT_ERR_NUMERIC, "output 0: its bias does not fit int32");
    dt_device_linear(t, coded(t, x, 0.5f, 0), w, NULL, &usual, NULL);
    expect(t, DT_ERR_ARG, "the weight is not quantized");
    dt_tensor *const coarser[] = {
        dt_device_linear(t, coded(t, x, 0.5f, 0), dt_fake_quant(t, w, &spec, true), NULL, &fine,
                         NULL),
        dt_device_add(t, coded(t, x, 0.5f, 0), coded(t, x, 0.5f, 0), &fine, NULL),
        dt_device_mul(t, coded(t, x, 0.5f, 0), coded(t, x, 0.5f, 0), &fine, NULL),
    };
    const float most[] = { 0.5f / 127 / 255, 0.5f / 63, 0.25f * 2.001f };
    for (int i = 0; i < 3; i++) {
        float scale;
        TEST_OK(ctx, dt_tape_status(t));
        TEST_OK(ctx, dt_coded_range(coarser[i], &scale, NULL));
        ck_assert_float_gt(scale, 1e-9f);
        ck_assert_float_lt(scale, most[i]);
    }
    dt_tape_reset(t);
    dt_device_add(t, coded(t, x, 0.5f, 0), x, &usual, NULL);
    expect(t, DT_ERR_ARG, "one operand is coded");
    dt_tensor *const both[] = { coded(t, x, 0.5f, 0), coded(t, x, 0.5f, 1) };
    dt_device_concat(t, both, 2, 1);
    expect(t, DT_ERR_ARG, "operand 0 has scale 0.5 and zero point 0, operand 1 0.5 and 1");
    dt_device_quantize(t, bad, &usual);
    expect(t, DT_ERR_NUMERIC, "x is not finite at element 0");
    free_range(&fine);
    free_range(&usual);
    dt_tensor_free(x);
    dt_tensor_free(w);
    dt_tensor_free(bias);
    dt_tensor_free(bad);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

/* Codes and numbers get a shape of three dimensions. */
START_TEST(shapes_are_those_that_were_given)
{
    dt_ctx *ctx = context(1);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    const int64_t dims[] = { 2, 6 }, wanted[] = { 3, 2, 2 };
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, dims, &x));
    dt_tensor *const in[] = { x, coded(t, x, 0.5f, 0) };
    for (int i = 0; i < 2; i++) {
        const dt_tensor *y = dt_device_reshape(t, in[i], 3, wanted);
        TEST_OK(ctx, dt_tape_status(t));
        ck_assert_int_eq(y->rank, 3);
        ck_assert_mem_eq(y->dims, wanted, sizeof wanted);
    }
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_ctx_free(ctx);
}
END_TEST

/* A module behind a linear layer of 4 features, prepared. */
static void refuse_chain(dt_ctx *ctx, dt_module *second, dt_status status, const char *words)
{
    dt_module *m, *first;
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    TEST_OK(ctx, dt_linear_create(ctx, 4, 600, true, &first));
    TEST_OK(ctx, dt_module_add(m, "first", first));
    TEST_OK(ctx, dt_module_add(m, "second", second));
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_DEVICE_INT8;
    const dt_shape in = { 1, { 4 } };
    o.inputs = &in;
    o.n_inputs = words == NULL ? 0 : 1;
    if (words == NULL) o.inputs = NULL;
    ck_assert_int_eq(dt_prepare(m, &o), status);
    words = words == NULL ? "requires the shapes of the model's inputs" : words;
    ck_assert_msg(strstr(dt_error(ctx), words) != NULL, "%s", dt_error(ctx));
    ck_assert(!dt_is_prepared(m));
    dt_module_free(m);
}

START_TEST(models_that_are_refused)
{
    dt_ctx *ctx = context(1);
    dt_module *a;
    TEST_OK(ctx, dt_activation_create(ctx, "silu", &a));
    refuse_chain(ctx, a, DT_ERR_UNSUPPORTED,
                 "silu of second: integers do not compute it; docs/device.md lists");
    TEST_OK(ctx, dt_softmax_create(ctx, -1, &a));
    refuse_chain(ctx, a, DT_ERR_UNSUPPORTED, "softmax of second: a row has more than 511");
    TEST_OK(ctx, dt_activation_create(ctx, "relu", &a));
    refuse_chain(ctx, a, DT_ERR_CONFIG, NULL);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_device_suite(void)
{
    Suite *s = suite_create("device");
    TCase *c = tcase_create("nets");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, golden_nets, 0, (int)(sizeof nets / sizeof nets[0]));
    tcase_add_loop_test(c, gradients_of_a_layer, 0, 3);
    tcase_add_test(c, calls_that_would_wrap);
    tcase_add_test(c, shapes_are_those_that_were_given);
    tcase_add_test(c, models_that_are_refused);
    suite_add_tcase(s, c);
    return s;
}
