/* Imported models stay the same, byte for byte: tests/golden/imported.txt has a hash of every
 * layer's cases and of networks, exported and read again, and of the files and folders of other
 * programs in tests. DETENT_UPDATE=1 detent-test imported writes it anew, after a change that is
 * meant to change what is read.
 *
 * Nothing here depends on the processor: weights are drawn or read, their codes follow from them
 * alone, and ranges of activations are given. */
#include "list_nets.h"
#include "testing.h"

#include "export/exporters.h"
#include "nn/lists/layer_cases.h"

#include <detent/experimental/export.h>
#include <detent/experimental/io.h>
#include <detent/experimental/qat.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#define HASHES "tests/golden/imported.txt"

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct report {
    dt_ctx *ctx;
    const char *wanted; /* the present file */
    FILE *text;         /* and the expected one */
    char folder[TEST_PATH], source[TEST_PATH], saved[TEST_PATH];
    XXH3_state_t *hash; /* of a line */
    int parts;          /* that it has */
    int64_t turn;
    int lines, wrong;
} report;

static const test_draws apart = { .usual = 1, .sanitized = 13 };

static bool begin_line(report *r)
{
    r->parts = 0;
    XXH3_64bits_reset(r->hash);
    return getenv("DETENT_UPDATE") != NULL || r->turn++ % test_count(apart) == 0;
}

static void end_line(report *r, const char *name, const char *form)
{
    char line[200];
    if (r->parts == 0) return;
    snprintf(line, sizeof line, "%s %s %016" PRIx64 "\n", name, form,
             (uint64_t)XXH3_64bits_digest(r->hash));
    fputs(line, r->text);
    r->lines++;
    if (strstr(r->wanted, line) != NULL) return;
    fprintf(stderr, "imported: %s, %s: other bytes\n", name, form);
    r->wrong++;
}

static void add_bytes(report *r, const void *bytes, size_t n)
{
    XXH3_64bits_update(r->hash, bytes, n);
    r->parts++;
}

/* Adds a model that was read, or that reading refuses it. */
static void add_model(report *r, dt_status s, dt_module *m, dt_model_info *info)
{
    if (s == DT_OK) {
        size_t n;
        TEST_OK(r->ctx, dt_model_save(m, info, r->saved));
        char *bytes = test_read_file(r->saved, &n);
        add_bytes(r, bytes, n);
        free(bytes);
    } else {
        add_bytes(r, dt_status_name(s), strlen(dt_status_name(s)));
    }
    dt_model_info_free(r->ctx, info);
    dt_module_free(m);
}

/* The file at r->source. */
static void add_imported(report *r, const char *format)
{
    dt_module *m = NULL;
    dt_model_info info = { .family = NULL };
    const dt_status s = strcmp(format, "tflite") == 0
                            ? dt_tflite_import(r->ctx, r->source, &m, &info)
                            : dt_onnx_import(r->ctx, r->source, NULL, &m, &info);
    add_model(r, s, m, &info);
}

/* ---- what is exported ------------------------------------------------------------------------ */

enum { FLOATS = -1 }; /* in place of a preset */

typedef struct form {
    const char *name, *format;
    int preset, ops;
} form;

static const form forms[] = {
    { "onnx", "onnx", FLOATS, DT_ONNX_PLAIN },
    { "onnx-int4", "onnx", DT_INT8_DYNAMIC_INT4_WEIGHT, DT_ONNX_PLAIN },
    { "onnx-nbits", "onnx", DT_INT4_WEIGHT, DT_ONNX_NBITS },
    { "tflite", "tflite", FLOATS, DT_ONNX_PLAIN },
    { "tflite-int8", "tflite", DT_INT8_DYNAMIC_INT8_WEIGHT, DT_ONNX_PLAIN },
    { "tflite-device", "tflite", DT_DEVICE_INT8, DT_ONNX_PLAIN },
};

static dt_status quantize(dt_module *m, const form *f, const dt_shape *inputs, int n)
{
    dt_qat_options o = dt_qat_defaults();
    if (f->preset == FLOATS) return DT_OK;
    o.preset = f->preset;
    if (f->preset == DT_DEVICE_INT8) {
        o.inputs = inputs;
        o.n_inputs = n;
        o.activation.quant.range = DT_RANGE_FIXED;
        o.activation.quant.low = -3;
        o.activation.quant.high = 5;
        o.activation.has_range = o.activation.has_low = o.activation.has_high = true;
    } else if (f->preset == DT_INT8_DYNAMIC_INT8_WEIGHT) {
        o.weight.quant.scheme = DT_SCHEME_NARROW;
        o.weight.has_scheme = true;
    }
    DT__TRY(dt_prepare(m, &o));
    return dt_convert(m, NULL, NULL);
}

/* Inputs of a batch of one example. */
static int inputs_of(const dt__layer_case *c, dt_trace_input in[DT__LAYER_IN])
{
    int n = 0;
    for (int i = 0; i < DT__LAYER_IN; i++) {
        const dt__case_tensor *x = &c->in[i];
        int rank = x->r;
        for (int d = 0; rank == 0 && d < DT_MAX_RANK && x->dims[d] != 0; d++) in[n].rank = d + 1;
        if (rank == 0) rank = in[n].rank;
        if (rank == 0) break;
        in[n] = (dt_trace_input){ .dtype = x->dtype, .rank = rank, .below = (int64_t)x->high };
        memcpy(in[n].dims, x->dims, sizeof x->dims);
        in[n++].dims[0] = 1;
    }
    return n;
}

/* Writes a case of a layer to r->source, where the format has it. */
static dt_status write_case(const report *r, const dt__layer_case *c, const form *f)
{
    dt_trace_input in[DT__LAYER_IN] = { { .rank = 0 } };
    dt_module *m = NULL;
    dt_trace *t = NULL;
    const dt_exporter *e = dt_exporter_named(f->format);
    dt_export_options o = dt_export_defaults();
    dt_export_summary summary;
    o.onnx_ops = f->ops;
    const int n = inputs_of(c, in);
    dt_shape shapes[DT__LAYER_IN];
    for (int i = 0; i < n; i++) {
        shapes[i].rank = in[i].rank - 1;
        for (int d = 1; d < in[i].rank; d++) shapes[i].dims[d - 1] = in[i].dims[d];
    }
    const dt_trace_options how = {
        .input = in, .n_inputs = n, .n_outputs = c->n_out > 0 ? c->n_out : 1, .becomes = e->becomes
    };
    dt_status s = c->create(r->ctx, &m);
    if (s == DT_OK) s = quantize(m, f, shapes, n);
    if (s == DT_OK) s = dt_trace_create(m, &how, &t);
    if (s == DT_OK) s = dt__check_calls(e, t, &o);
    const dt_export_call call = {
        .ctx = r->ctx, .m = m, .trace = t, .options = &o, .path = r->source, .summary = &summary
    };
    if (s == DT_OK) s = e->write(&call);
    dt_trace_free(t);
    dt_module_free(m);
    return s;
}

static void layer_lines(report *r, const dt__layer_cases *layer)
{
    for (int f = 0; f < DT__COUNT_OF(forms); f++) {
        if (!begin_line(r)) continue;
        for (int k = 0; k < layer->n; k++) {
            if (layer->cases[k].fails != DT_OK) continue;
            dt_seed(r->ctx, 1 + (uint64_t)k);
            if (write_case(r, &layer->cases[k], &forms[f]) != DT_OK) continue;
            add_imported(r, forms[f].format);
        }
        end_line(r, layer->name, forms[f].name);
    }
}

/* Networks whose layers meet: images that become rows, several outputs, branches, gates. */
static const char *const nets[][2] = {
    { "net-rows", "  input: [11]\n  layers:\n  - {linear: a, out: 9, activation: relu}\n"
                  "  - {linear: b, out: 7, activation: relu6}\n  - {linear: c, out: 5}\n"
                  "  - softmax\n" },
    { "net-residual",
      "  input: [2, 9, 9]\n  layers:\n"
      "  - {conv2d: stem, out: 6, padding: 1, norm: batch, activation: relu}\n"
      "  - {conv2d: deep, out: 6, groups: 6, padding: 1, activation: relu6}\n"
      "  - {conv2d: point, out: 6, kernel: 1}\n  - {add: sum, from: [point, stem]}\n"
      "  - {relu: rest}\n  - max_pool2d\n  - flatten\n  - {linear: head, out: 5}\n  - softmax\n" },
    { "net-joined",
      "  input: [3, 8, 8]\n  layers:\n"
      "  - {conv2d: left, out: 4, padding: 1, stride: 2, activation: relu}\n"
      "  - {conv2d: right, out: 3, kernel: 3, padding: 1, stride: 2, from: input}\n"
      "  - {concat: both, from: [left, right]}\n"
      "  - {conv_transpose2d: up, out: 4, kernel: 2, stride: 2}\n"
      "  - {pad: edge, pads: [1, 0, 0, 1]}\n  - {avg_pool2d: pool, kernel: 3, stride: 3}\n"
      "  - {conv2d: gate, out: 4, kernel: 1}\n  - {mul: product, from: [gate, pool]}\n"
      "  - flatten\n  - {linear: head, out: 4}\n" },
    { "net-windows",
      "  input: [4, 7, 10]\n  layers:\n"
      "  - {conv2d: wide, out: 8, kernel: [2, 3], stride: [2, 1], dilation: [1, 2]}\n"
      "  - {conv2d: deep, out: 16, groups: 8, kernel: 3, padding: 1}\n"
      "  - {conv2d: grouped, out: 6, kernel: 1, activation: relu}\n"
      "  - {avg_pool2d: pool, kernel: [2, 4], stride: 2, padding: [0, 1], ceil_mode: true,\n"
      "     count_include_pad: false}\n"
      "  - global_avg_pool2d\n  - {conv2d: last, out: 3, kernel: 1}\n  - flatten\n" },
    { "net-two-ends", "  input: [1, 6, 6]\n  layers:\n"
                      "  - {conv2d: stem, out: 4, padding: 1, activation: relu}\n"
                      "  - global_avg_pool2d\n  - {flatten: features}\n"
                      "  - {linear: class, out: 3}\n  - {linear: size, out: 2, from: features}\n"
                      "  output: [class, size]\n" },
    { "net-gated",
      "  input: [2, 8, 8]\n  layers:\n"
      "  - {conv2d: stem, out: 6, padding: 1}\n  - {hardswish: bent}\n"
      "  - {mean: pooled, dims: [2, 3], keepdim: true, from: bent}\n"
      "  - {conv2d: narrow, out: 3, kernel: 1, activation: relu}\n"
      "  - {conv2d: wide, out: 6, kernel: 1}\n  - {sigmoid: gate}\n"
      "  - {mul: scaled, from: [bent, gate]}\n"
      "  - {slice: cut, dim: 2, start: 1, stop: 7}\n"
      "  - {slice: inner, dim: 3, start: 1, stop: 7}\n"
      "  - {conv2d: point, out: 4, kernel: 1, dilation: 2}\n  - {gelu: bell}\n"
      "  - {mean: features, dims: [2, 3]}\n  - {linear: hidden, out: 8}\n  - {tanh: curve}\n"
      "  - {linear: other, out: 8, from: features}\n  - {elu: soft}\n"
      "  - {sub: rest, from: [curve, soft]}\n  - {leaky_relu: leak}\n"
      "  - {linear: head, out: 3}\n" },
    { "net-constants", "  input: [2, 5, 6]\n  layers:\n  - {conv2d: stem, out: 3, padding: 1}\n"
                       "  - {affine: shift, shape: [3, 1, 1], scale: false}\n"
                       "  - {affine: plane, shape: [3, 5, 6], bias: false}\n"
                       "  - {affine: row, shape: [6], scale: false}\n  - {relu6: cut}\n"
                       "  - {affine: lines, shape: [5, 1], bias: false}\n  - flatten\n"
                       "  - {linear: head, out: 4}\n  - {affine: end, shape: [4]}\n" },
    { "net-sloped",
      "  input: [2, 6, 6]\n  layers:\n"
      "  - {conv2d: stem, out: 4, padding: 1}\n  - {prelu: slopes, init: -0.5}\n"
      "  - {max_pool2d: pool, kernel: 2}\n  - {relu: above}\n"
      "  - {upsample_nearest: larger, factor: 2}\n  - {concat: both, from: [larger, slopes]}\n"
      "  - {prelu: one, shared: true, init: 2}\n  - {reshape: lines, shape: [8, 36]}\n"
      "  - {upsample_nearest: longer, factor: 2}\n  - {relu6: cut}\n  - flatten\n"
      "  - {linear: head, out: 3}\n" },
    { "net-turned", "  input: [1, 7, 7]\n  layers:\n  - {permute: turn, dims: [0, 3, 2, 1]}\n"
                    "  - {conv2d: dw, out: 7, groups: 7, kernel: [3, 1], bias: false}\n"
                    "  - {conv2d: pw, out: 4, kernel: 1, norm: batch, activation: relu}\n"
                    "  - flatten\n  - {linear: head, out: 3}\n" },
    { "net-shaped",
      "  input: [6, 4, 5]\n  layers:\n  - {conv2d: a, out: 6, padding: 1}\n"
      "  - {reshape: halves, shape: [3, 8, 5]}\n  - {conv2d: b, out: 4, kernel: 2}\n"
      "  - {reshape: lines, shape: [4, 28]}\n  - {permute: turn, dims: [0, 2, 1]}\n"
      "  - flatten\n  - {linear: c, out: 12}\n  - {reshape: image, shape: [3, 2, 2]}\n"
      "  - {conv2d: d, out: 2, kernel: 1}\n" },
    { "net-flat-end", "  input: [2, 9, 8]\n  layers:\n  - {conv2d: stem, out: 6, kernel: 1}\n"
                      "  - {avg_pool2d: pool, kernel: [3, 2], stride: [3, 2]}\n  - flatten\n" },
    { "net-signals",
      "  input: [3, 16]\n  layers:\n  - {conv1d: a, out: 6, padding: 1, activation: relu}\n"
      "  - {max_pool1d: p, kernel: 2}\n  - {conv1d: b, out: 4, kernel: 3, stride: 2}\n"
      "  - {mean: m, dims: [2]}\n  - {linear: head, out: 3}\n  - softmax\n" },
};

static void net_lines(report *r, const char *const net[2])
{
    for (int f = 0; f < DT__COUNT_OF(forms); f++) {
        if (!begin_line(r)) continue;
        dt_export_options o = dt_export_defaults();
        o.onnx_ops = forms[f].ops;
        dt_seed(r->ctx, 7);
        dt_module *m = list_net_create(r->ctx, net[1]);
        dt_status s = quantize(m, &forms[f], NULL, 0);
        if (s == DT_OK) s = dt_export(m, NULL, forms[f].format, &o, r->source, NULL);
        if (s == DT_OK) add_imported(r, forms[f].format);
        dt_module_free(m);
        end_line(r, net[0], forms[f].name);
    }
}

/* ---- files of other programs ----------------------------------------------------------------- */

static void file_line(report *r, const char *name)
{
    if (!begin_line(r)) return;
    test_join(r->source, DETENT_SOURCE_DIR "/tests/onnx", name);
    add_imported(r, "onnx");
    test_join(r->source, r->folder, "source");
    end_line(r, name, "onnx");
}

/* A folder of transformers, and its model as GGUF, compressed-tensors and torchao. */
static void folder_lines(report *r, const char *name)
{
    static const char *const formats[] = { "hf", "gguf", "compressed-tensors", "torchao" };
    char path[TEST_PATH];
    test_join(path, DETENT_SOURCE_DIR "/tests/golden/hf", name);
    for (int f = 0; f < DT__COUNT_OF(formats); f++) {
        dt_module *m = NULL, *again = NULL;
        dt_model_info info = { .family = NULL }, info_again = { .family = NULL };
        const form int8 = { .preset = DT_INT8_DYNAMIC_INT8_WEIGHT };
        if (!begin_line(r)) continue;
        test_remove(r->source);
        TEST_OK(r->ctx, dt_hf_load(r->ctx, path, &m, &info));
        dt_status s = f < 2 ? DT_OK : quantize(m, &int8, NULL, 0);
        if (s == DT_OK) s = dt_export(m, &info, formats[f], NULL, r->source, NULL);
        if (s == DT_OK) {
            s = f == 1 ? dt_model_load(r->ctx, r->source, &again, &info_again)
                       : dt_hf_load(r->ctx, r->source, &again, &info_again);
            add_model(r, s, again, &info_again);
        }
        dt_model_info_free(r->ctx, &info);
        dt_module_free(m);
        end_line(r, name, formats[f]);
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

#define DT__NN(name) extern const dt__layer_cases dt__cases_of_layer_##name;
#include "nn/nn.inc"
#undef DT__NN

static const dt__layer_cases *const layers[] = {
#define DT__NN(name) &dt__cases_of_layer_##name,
#include "nn/nn.inc"
#undef DT__NN
};

static void all_lines(report *r)
{
    static const char *const files[] = { "cells.onnx", "cnn.onnx",    "dynamic.onnx",  "fixed.onnx",
                                         "keras.onnx", "old.onnx",    "tokens.onnx",   "two.onnx",
                                         "up.onnx",    "folded.onnx", "recurrent.onnx" };
    static const char *const folders[] = { "tiny",
                                           "tiny-tied",
                                           "tiny-mixtral",
                                           "families/gpt2",
                                           "families/phi3",
                                           "families/olmo2",
                                           "families/gemma3",
                                           "families/smollm3",
                                           "families/pythia",
                                           "families/phi3-long",
                                           "families/mistral" };
    for (int i = 0; i < DT__COUNT_OF(layers); i++) layer_lines(r, layers[i]);
    for (int i = 0; i < DT__COUNT_OF(nets); i++) net_lines(r, nets[i]);
    for (int i = 0; i < DT__COUNT_OF(files); i++) file_line(r, files[i]);
    for (int i = 0; i < DT__COUNT_OF(folders); i++) folder_lines(r, folders[i]);
}

START_TEST(imported_models_have_the_bytes_they_had)
{
    char path[TEST_PATH], *text = NULL;
    size_t n;
    report r = { .hash = XXH3_createState() };
    test_join(path, DETENT_SOURCE_DIR, HASHES);
    char *now = test_file_exists(path) ? test_read_file(path, NULL) : strdup("");
    r.wanted = now;
    r.text = open_memstream(&text, &n);
    ck_assert(r.hash != NULL && now != NULL && r.text != NULL);
    TEST_OK(NULL, dt_ctx_create(&r.ctx, NULL));
    test_folder(r.folder);
    test_join(r.source, r.folder, "source");
    test_join(r.saved, r.folder, "saved.safetensors");
    all_lines(&r);
    ck_assert_int_eq(fclose(r.text), 0);
    if (getenv("DETENT_UPDATE") != NULL) test_write_text(path, text);
    else if (test_count(apart) == 1)
        ck_assert_msg(strcmp(text, now) == 0, "lines differ from " HASHES);
    else
        ck_assert_msg(r.wrong == 0 && r.lines > 15,
                      "%d of %d lines differ from " HASHES
                      "; DETENT_UPDATE=1 detent-test imported writes it, where that is meant",
                      r.wrong, r.lines);
    printf("imported: %d lines\n", r.lines);
    dt_ctx_free(r.ctx);
    XXH3_freeState(r.hash);
    free(text);
    free(now);
}
END_TEST

Suite *test_imported_suite(void)
{
    Suite *s = suite_create("imported");
    TCase *c = tcase_create("imported");
    tcase_set_timeout(c, 600);
    tcase_add_test(c, imported_models_have_the_bytes_they_had);
    suite_add_tcase(s, c);
    return s;
}
