/* A network of family layers: bytes choose layers, their options, and how weights and inputs are
 * quantized. A refused recipe has a message. An accepted one has, with every set of kernels, the
 * same bits when prepared, converted and loaded, and is saved as the same bytes. */
#include "fuzz.h"

#include <detent/io.h>
#include <detent/ops.h>
#include <detent/experimental/train.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- recipes --------------------------------------------------------------------------------- */

#define MOST_LAYERS 6

/* In texts of layers: ! is the layer's name, @ a name before it, +N a number 1 ... N, #N a number 0
 * ... N, ^ an activation, & a norm, ~ true or false. */
static const char *const layers[] = {
    "{conv2d: !, out: +9, kernel: +4, norm: &, activation: ^}",
    "{conv2d: !, out: +8, kernel: [+4, +3], stride: [+3, +2], padding: [#2, #3], dilation: +2, "
    "groups: +4, bias: ~}",
    "{conv_transpose2d: !, out: +8, kernel: [+4, +3], stride: +2, padding: #2, dilation: +2, "
    "output_padding: #1, groups: +3, norm: &, activation: ^}",
    "{linear: !, out: +9, norm: &, activation: ^}",
    "{linear: !, out: +9, bias: ~}",
    "flatten",
    "{max_pool2d: !, kernel: +3, stride: #2, padding: #1, ceil_mode: ~, dilation: #2}",
    "{avg_pool2d: !, kernel: +3, stride: #2, padding: #1, ceil_mode: ~, count_include_pad: ~}",
    "{adaptive_avg_pool2d: !, size: [+4, +4]}",
    "global_avg_pool2d",
    "{batch_norm2d: !}",
    "{group_norm: !, norm_groups: +4}",
    "{layer_norm: !}",
    "{rms_norm: !}",
    "{prelu: !, shared: ~}",
    "{softmax: !, dim: +3}",
    "{log_softmax: !, dim: +3}",
    "{squeeze_excitation: !, squeeze: +4, activation: ^, gate: ^}",
    "{upsample_nearest: !, factor: +2}",
    "{dropout: !, p: 0.#9}",
    "{pad: !, pads: [#2, #2, #2, #2], value: #3}",
    "{permute: !, dims: [0, +3, +3, +3]}",
    "{slice: !, dim: +3, start: #2, stop: +6, step: +2}",
    "{reshape: !, shape: [+9, -1]}",
    "{add: !, from: [@, @]}",
    "{sub: !, from: [@, @]}",
    "{mul: !, from: [@, @]}",
    "{concat: !, dim: +3, from: [@, @]}",
    "{gru: !, hidden: +6, layers: +2, bias: ~, bidirectional: ~, last: ~}",
    "{lstm: !, hidden: +6, bidirectional: ~, last: ~}",
    "{conv1d: !, out: +9, kernel: +4, stride: +2, padding: #2, groups: +3, norm: &, activation: ^}",
    "{conv_transpose1d: !, out: +9, kernel: +4, stride: +2, padding: #2}",
    "{max_pool1d: !, kernel: +3, stride: #2, padding: #1}",
    "{avg_pool1d: !, kernel: +3, stride: #2, padding: #1}",
    "{batch_norm1d: !}",
    "global_avg_pool1d",
    "{repeat: +3, name: !, layers: [{linear: a, out: +9, activation: ^}, {linear: b, out: +9}]}",
    "{repeat: +2, name: !, layers: [{conv2d: a, out: +6, padding: 1, norm: &}, "
    "{add: s, from: [a, input]}, ^]}",
};

/* Texts of `qat`, with these marks; the last one is for none. */
static const char *const weights[] = {
    "",
    "bits: +7",
    "granularity: channel",
    "granularity: tensor, bits: 8",
    "granularity: group, group_size: 8",
    "group_size: 16, scale_dtype: f16",
    "scheme: asymmetric",
    "scheme: symmetric_no_clip, bits: +7",
    "range: static",
    "range: learned, granularity: channel",
    "ste: clipped, scale_dtype: bf16",
    "scheme: narrow",
};
static const char *const activations[] = {
    "",
    "",
    "bits: +7",
    "scheme: symmetric",
    "range: static, observer: mse",
    "range: learned",
    "range: static, observer: minmax",
    "granularity: sample",
    "granularity: token",
    "quantize: false",
};
static const char *const presets[] = {
    "int8-dynamic-int4-weight", "int4-weight", "int8-dynamic-int8-weight",
    "int8-static-int8-weight",  "int4-int4",   "int8-block-int4-weight",
    "int8-block-q4_0-weight",   "device-int8", "device-int4",
};
static const char *const norms[] = { "none", "batch", "group", "layer" };

#define COUNT(list) (unsigned)(sizeof(list) / sizeof(list)[0])

typedef struct writing {
    fuzz_bytes in;
    char text[4096];
    size_t n;
    int layer;
} writing;

static void put(writing *w, const char *text)
{
    const size_t n = strlen(text);
    FUZZ_NEEDS(w->n + n < sizeof w->text, "room for %s", text);
    memcpy(w->text + w->n, text, n + 1);
    w->n += n;
}

static void put_number(writing *w, const char *format, unsigned value)
{
    char text[32];
    snprintf(text, sizeof text, "%s%u", format, value);
    put(w, text);
}

static void put_earlier(writing *w)
{
    const unsigned i = fuzz_choice(&w->in, (unsigned)w->layer + 1);
    if (i == 0) put(w, "input");
    else put_number(w, "n", i - 1);
}

static int activations_there_are(void)
{
    int n = 0;
    while (dt_activation_names[n] != NULL) n++;
    return n;
}

static void put_mark(writing *w, char mark, unsigned digit)
{
    switch (mark) {
    case '!': put_number(w, "n", (unsigned)w->layer); break;
    case '@': put_earlier(w); break;
    case '+': put_number(w, "", 1 + fuzz_choice(&w->in, digit)); break;
    case '#': put_number(w, "", fuzz_choice(&w->in, digit + 1)); break;
    case '^':
        put(w, dt_activation_names[fuzz_choice(&w->in, (unsigned)activations_there_are())]);
        break;
    case '&': put(w, norms[fuzz_choice(&w->in, COUNT(norms))]); break;
    default: put(w, fuzz_choice(&w->in, 2) ? "true" : "false"); break;
    }
}

static void put_marked(writing *w, const char *text)
{
    for (; *text != 0; text++) {
        const char one[2] = { *text, 0 };
        if (strchr("!@+#^&~", *text) == NULL) put(w, one);
        else if (*text != '+' && *text != '#') put_mark(w, *text, 0);
        else put_mark(w, *text, (unsigned)(text[1] - '0')), text++;
    }
}

static void put_recipe(writing *w)
{
    static const char *const inputs[] = { "[+9, +9, +9]", "[+4, +6, +6]", "[+9, +9]", "[+9]" };
    put(w, "run: {dir: r}\ndata: {format: digits}\nmodel:\n  family: layers\n  input: ");
    put_marked(w, inputs[fuzz_choice(&w->in, COUNT(inputs))]);
    put(w, "\n  layers:\n");
    const int n = 1 + (int)fuzz_choice(&w->in, MOST_LAYERS);
    for (w->layer = 0; w->layer < n; w->layer++) {
        put(w, "  - ");
        put_marked(w, layers[fuzz_choice(&w->in, COUNT(layers))]);
        put(w, "\n");
    }
    put(w, "qat: {preset: ");
    put(w, presets[fuzz_choice(&w->in, COUNT(presets))]);
    put_marked(w, ", fold_norm: ~, weight: {");
    put_marked(w, weights[fuzz_choice(&w->in, COUNT(weights))]);
    put(w, "}, activation: {");
    put_marked(w, activations[fuzz_choice(&w->in, COUNT(activations))]);
    put(w, "}}\n");
}

/* ---- the model ------------------------------------------------------------------------------- */

typedef struct graph {
    dt_ctx *ctx;
    const char *text; /* of the recipe */
    dt_tensor *x;
    float *y;
    int64_t n;
} graph;

/* The outputs of a batch, to be freed; NULL: an error with a message. */
static float *outputs(const graph *g, dt_module *m, bool train, int64_t *n)
{
    dt_tape *t = NULL;
    float *y = NULL;
    FUZZ_HOLDS(dt_tape_create(g->ctx, &t) == DT_OK, "a tape");
    dt_train(m, train);
    dt_no_grad(t, true);
    dt_tensor *out = dt_contiguous(t, dt_forward(t, m, g->x));
    if (out == NULL) {
        FUZZ_HOLDS(dt_error(g->ctx)[0] != 0, "no message:\n%s", g->text);
    } else {
        *n = dt_count(out);
        y = malloc((size_t)*n * sizeof *y + 1);
        FUZZ_NEEDS(y != NULL, "memory");
        memcpy(y, dt_data(out), (size_t)*n * sizeof *y);
    }
    dt_train(m, false);
    dt_tape_free(t);
    return y;
}

static void compare(const graph *g, dt_module *m, const char *what)
{
    int64_t n = 0;
    float *y = outputs(g, m, false, &n);
    FUZZ_HOLDS(y != NULL && n == g->n, "%s: %s\n%s", what, dt_error(g->ctx), g->text);
    for (int64_t i = 0; i < n; i++) {
        FUZZ_HOLDS(memcmp(&y[i], &g->y[i], sizeof *y) == 0 || (isnan(y[i]) && isnan(g->y[i])),
                   "%s: output %lld is %.9g, prepared %.9g\n%s", what, (long long)i, (double)y[i],
                   (double)g->y[i], g->text);
    }
    free(y);
}

static size_t read_all(const char *path, uint8_t **bytes)
{
    FILE *f = fopen(path, "rb");
    FUZZ_NEEDS(f != NULL && fseek(f, 0, SEEK_END) == 0, "%s", path);
    const size_t n = (size_t)ftell(f);
    rewind(f);
    *bytes = malloc(n + 1);
    FUZZ_NEEDS(*bytes != NULL && fread(*bytes, 1, n, f) == n, "%s", path);
    fclose(f);
    return n;
}

static void check_file(const graph *g, dt_module *m, const dt_model_info *info)
{
    const char *path = fuzz_path("graph"), *again = fuzz_path("graph-again");
    dt_module *loaded = NULL;
    dt_model_info its = { 0 };
    uint8_t *a, *b;
    FUZZ_HOLDS(dt_model_save(m, info, path) == DT_OK, "%s\n%s", dt_error(g->ctx), g->text);
    FUZZ_HOLDS(dt_model_load(g->ctx, path, &loaded, &its) == DT_OK, "%s\n%s", dt_error(g->ctx),
               g->text);
    dt_train(loaded, false);
    compare(g, loaded, "loaded");
    FUZZ_HOLDS(dt_model_save(loaded, &its, again) == DT_OK, "%s\n%s", dt_error(g->ctx), g->text);
    const size_t n = read_all(path, &a);
    FUZZ_HOLDS(n == read_all(again, &b) && memcmp(a, b, n) == 0, "other bytes\n%s", g->text);
    free(a);
    free(b);
    dt_module_free(loaded);
    dt_model_info_free(g->ctx, &its);
}

static bool make_input(graph *g, const dt_layers_options *o)
{
    const dt_ints *shape = &o->input.shape[0];
    int64_t dims[DT_MAX_RANK] = { 2 };
    for (int i = 0; i < shape->n; i++) dims[1 + i] = shape->v[i];
    return dt_tensor_create(g->ctx, DT_F32, shape->n + 1, dims, &g->x) == DT_OK &&
           dt_fill_normal(g->x, 0.1, 1) == DT_OK;
}

/* Whether it can be prepared, and has seen a batch. */
static bool prepare(graph *g, dt_module *m, const dt_qat_options *qat)
{
    int64_t n = 0;
    free(outputs(g, m, true, &n));
    if (dt_prepare(m, qat) != DT_OK) return false;
    if (dt_is_observed(m) && dt_observe(m, true) != DT_OK) return false;
    float *y = outputs(g, m, true, &n);
    if (dt_is_observed(m) && y != NULL) (void)dt_observe(m, false);
    free(y);
    g->y = outputs(g, m, false, &g->n);
    return g->y != NULL;
}

static void check(graph *g, const dt_recipe_options *o)
{
    dt_module *m = NULL;
    if (o->model.family->create(g->ctx, o->model.options, &m) != DT_OK) {
        fuzz_refused(g->ctx, m != NULL);
        return;
    }
    const dt_model_info info = { .family = o->model.family, .options = o->model.options };
    if (!make_input(g, o->model.options) || !prepare(g, m, &o->qat)) {
        fuzz_refused(g->ctx, false);
    } else if (dt_convert(m, NULL, NULL) == DT_OK) {
        compare(g, m, "converted");
        check_file(g, m, &info);
    } else {
        fuzz_refused(g->ctx, false);
    }
    dt_tensor_free(g->x);
    dt_module_free(m);
    free(g->y);
}

static void run(const uint8_t *data, size_t n)
{
    static const uint64_t sets[] = { DT_CPU_PLAIN, UINT64_MAX, DT_CPU_AVX2,
                                     DT_CPU_AVX2 | DT_CPU_AVX_VNNI };
    writing w = { .in = { data, n } };
    graph g = { .ctx = fuzz_ctx(sets[fuzz_choice(&w.in, 4)]), .text = w.text };
    put_recipe(&w);
    const dt_recipe_source s = {
        .path = "g.yaml", .text = w.text, .bytes = w.n, .leave_files = true
    };
    dt_recipe *r = NULL;
    if (dt_recipe_read(g.ctx, &s, &r) == DT_OK) check(&g, dt_recipe_get(r));
    else fuzz_refused(g.ctx, r != NULL && dt_recipe_error_count(r) == 0);
    dt_recipe_free(r);
    fuzz_end(g.ctx);
}

/* Seeds that build networks: a set, an input, a number of layers, then layers with their
 * options. */
static void seeds(const fuzz_seeds *s)
{
    static const struct {
        const char *name;
        uint8_t v[48];
    } all[] = {
        { "conv", { 1, 0, 2, 7, 7, 2, 0, 5, 2, 1, 0, 6, 1, 0, 0, 5, 3, 4, 0, 0 } },
        { "linear", { 0, 3, 7, 1, 3, 5, 0, 1, 4, 4, 1, 0, 0, 1, 1 } },
        { "joined", { 2, 1, 2, 4, 4, 3, 0, 5, 0, 0, 0, 24, 0, 1, 5, 4, 3, 0, 2, 1, 2, 3, 4 } },
        { "recurrent", { 3, 2, 5, 6, 1, 28, 4, 0, 1, 1, 0, 3, 4, 0, 0, 3, 1, 5, 3 } },
        { "device", { 1, 1, 2, 4, 4, 2, 0, 5, 2, 0, 0, 9, 5, 3, 4, 0, 0, 7, 1, 0, 0 } },
        { "transposed", { 1, 1, 2, 4, 4, 1, 2, 3, 2, 1, 1, 1, 0, 0, 0, 1, 3, 0, 0, 1, 4, 5 } },
    };
    for (unsigned i = 0; i < COUNT(all); i++) fuzz_seed(s, all[i].name, all[i].v, sizeof all[i].v);
}

const fuzz_target fuzz_target_graph = { "graph", "a network of layers, quantized", run, seeds };
