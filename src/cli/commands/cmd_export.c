/* detent export: writes a model in the format of another program. */
#include "cli/cli.h"
#include "cli/print/meter.h"
#include "cli/print/screen.h"
#include "cli/print/text.h"

#include <detent/experimental/export.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { /* options, as in main.c */
       FORMAT,
       OUTPUT,
       VERIFY,
       QUIET,
       NAME,
       CONTEXT,
       TEXT,
       OPS,
       OPSET,
       PAST,
       ACCURACY,
       DTYPE,
       DEQUANTIZE,
       TYPE
};

/* The options of each format. */
static const struct {
    int option;
    const char *name, *format;
} belongs[] = {
    { NAME, "--name", "c" },
    { CONTEXT, "--context", "c" },
    { TEXT, "--text", "c" },
    { OPS, "--ops", "onnx" },
    { OPSET, "--opset", "onnx" },
    { PAST, "--past", "onnx" },
    { ACCURACY, "--accuracy-level", "onnx" },
    { DTYPE, "--dtype", "hf" },
    { DEQUANTIZE, "--dequantize", "hf" },
    { VERIFY, "--verify", "onnx" },
    { VERIFY, "--verify", "tflite" },
    { TYPE, "--type", "gguf" },
};

static const dt_exporter *find_exporter(const char *name)
{
    const dt_exporter *e = dt_exporter_named(name);
    if (e != NULL && strcmp(e->name, name) != 0) {
        fprintf(stderr, "detent export: --format %s is now called %s\n", name, e->name);
    }
    return e;
}

static int refuse_format(const cli_args *args)
{
    char names[256] = "";
    const dt_exporter *e;
    for (int i = 0; (e = dt_exporter_at(i)) != NULL; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ", e->name);
    }
    const char *name = args->option[FORMAT];
    if (name == NULL)
        return cli_fail(args, CLI_USAGE, "--format NAME is missing: one of %s", names);
    return cli_fail(args, CLI_USAGE, "no format '%s'; there are: %s", name, names);
}

/* ---- options --------------------------------------------------------------------------------- */

static int read_count(const cli_args *args, int option, const char *name, int64_t *out)
{
    const char *value = args->option[option];
    char *end;
    if (value == NULL) return CLI_DONE;
    *out = strtoll(value, &end, 10);
    if (end != value && *end == 0 && *out > 0 && *out <= INT32_MAX) return CLI_DONE;
    return cli_fail(args, CLI_USAGE, "%s must be a number above 0, not '%s'", name, value);
}

static bool is_of(int option, const char *format)
{
    for (size_t i = 0; i < sizeof belongs / sizeof belongs[0]; i++) {
        if (belongs[i].option == option && strcmp(belongs[i].format, format) == 0) return true;
    }
    return false;
}

static int check_belongs(const cli_args *args, const dt_exporter *e)
{
    for (size_t i = 0; i < sizeof belongs / sizeof belongs[0]; i++) {
        if (args->option[belongs[i].option] == NULL) continue;
        if (is_of(belongs[i].option, e->name)) continue;
        char formats[120] = "";
        for (size_t k = 0; k < sizeof belongs / sizeof belongs[0]; k++) {
            const size_t used = strlen(formats);
            if (belongs[k].option != belongs[i].option) continue;
            snprintf(formats + used, sizeof formats - used, "%s%s", used > 0 ? ", " : "",
                     belongs[k].format);
        }
        return cli_fail(args, CLI_USAGE, "%s is an option of --format %s, not of %s",
                        belongs[i].name, formats, e->name);
    }
    return CLI_DONE;
}

static int read_options(const cli_args *args, const dt_exporter *e, dt_export_options *o)
{
    static const char *const levels[] = { "0", "4", NULL };
    int level = 0;
    int status = check_belongs(args, e);
    o->hf.dequantize = args->option[DEQUANTIZE] != NULL;
    o->past = args->option[PAST] != NULL;
    o->text = args->option[TEXT] != NULL;
    o->name = args->option[NAME];
    if (status == CLI_DONE) {
        status = cli_read_choice(args, DTYPE, dt_hf_dtypes, &o->hf.dtype);
    }
    if (status == CLI_DONE) status = cli_read_choice(args, TYPE, dt_gguf_types, &o->gguf_type);
    if (status == CLI_DONE) status = cli_read_choice(args, OPS, dt_onnx_ops, &o->onnx_ops);
    if (status == CLI_DONE) {
        status = cli_read_choice(args, OPSET, dt_onnx_opsets, &o->onnx_opset);
    }
    if (status == CLI_DONE) {
        status = cli_read_choice(args, ACCURACY, levels, &level);
    }
    if (status == CLI_DONE) status = read_count(args, CONTEXT, "--context", &o->context);
    o->accuracy = level == 1 ? 4 : 0;
    if (status != CLI_DONE || level == 0 || o->onnx_ops == DT_ONNX_NBITS) return status;
    return cli_fail(args, CLI_USAGE, "--accuracy-level is an option of --ops nbits, not of %s",
                    dt_onnx_ops[o->onnx_ops]);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void print_indented(const char *text)
{
    fputs("  ", stdout);
    if (screen_wraps(stdout)) cli_wrap(stdout, 2, 2, text);
    else puts(text);
}

static void print_note(void *user, const char *line)
{
    (void)user;
    meter_remove();
    print_indented(line);
}

static void print_summary(const dt_export_summary *s)
{
    cli_text l = { .used = 0 };
    if (s->promise == NULL) return;
    cli_text_add(&l, "%zu bytes; %lld product%s of integers, %lld of floats", s->bytes,
                 (long long)s->integer_products, CLI_S(s->integer_products),
                 (long long)s->float_products);
    print_indented(l.text);
    print_indented(s->promise);
}

static bool is_scaled(const dt_model_data *data)
{
    for (int64_t i = 0; i < data->channels; i++) {
        if (data->mean[i] != 0 || data->deviation[i] != 1) return true;
    }
    return false;
}

/* Says what a caller must do before the network: files of these formats have the model's inputs,
 * without the steps before them. A caller that gives raw numbers would silently get wrong
 * answers. */
static void print_reading(dt_ctx *ctx, const dt_exporter *e, const dt_model_info *info)
{
    dt_model_data data;
    const bool bare = strcmp(e->name, "onnx") == 0 || strcmp(e->name, "tflite") == 0;
    if (!bare || info->data == NULL) return;
    if (dt_model_data_parse(ctx, info->data, e->name, &data) != DT_OK) return;
    bool scaled = is_scaled(&data), typed = data.table != NULL;
    const bool features = data.features.kind != DT_FEATURES_NONE;
    for (int i = 0; i < data.n_inputs; i++) {
        scaled = scaled || is_scaled(&data.inputs[i]);
        typed = typed || data.inputs[i].table != NULL;
    }
    if (scaled || typed || features || data.pixels) {
        cli_text l = { .used = 0 };
        cli_text_add(&l, "it reads %s%s, which the caller computes by detent.data in its metadata",
                     features      ? "features of signals"
                     : typed       ? "columns as the numbers that they became"
                     : data.pixels ? "pixels as v = p/255"
                                   : "numbers",
                     scaled ? ", standardized to (v - mean) / deviation" : "");
        print_indented(l.text);
    }
    dt_model_data_free(ctx, &data);
}

/* Reports the verification. Where the format promises the model's bits, any difference is a
 * failure; NaN always is. *failed: the file itself is wrong. */
static int verify(const cli_args *args, dt_ctx *ctx, const char *path, dt_module *m,
                  const dt_model_info *info, bool exact, bool *failed)
{
    int64_t wrong = 0;
    bool finite = true;
    dt_export_difference d[DT_MAX_OUT];
    int n = 0;
    meter_name("verify");
    const dt_status s = dt_export_verify(m, info, path, d, &n);
    meter_end();
    *failed = s == DT_ERR_FORMAT || s == DT_ERR_UNSUPPORTED;
    if (s != DT_OK) return cli_fail_by(args, ctx);
    for (int i = 0; i < n; i++) {
        cli_text l = { .used = 0 };
        cli_text_add(&l, "%s: %lld of %lld values have the model's bits; " DT_DIFFERENCE_TEXT,
                     d[i].output, (long long)d[i].equal, (long long)d[i].values, d[i].absolute,
                     d[i].relative);
        print_indented(l.text);
        wrong += d[i].values - d[i].equal;
        finite = finite && d[i].absolute < HUGE_VAL;
    }
    *failed = !finite || (exact && wrong > 0);
    if (exact && wrong > 0) {
        return cli_fail(args, CLI_FAILED, "%s: %lld values differ, though all should be equal",
                        path, (long long)wrong);
    }
    return finite
               ? CLI_DONE
               : cli_fail(args, CLI_FAILED,
                          "%s: what the file computes is infinite or NaN, and was not kept", path);
}

/* A file is written and verified as PATH.bad, then renamed; it keeps that name if it is wrong, and
 * an older file at PATH stays. A failure of the system leaves no file. */
static int verify_and_rename(const cli_args *args, dt_ctx *ctx, const char *bad, dt_module *m,
                             const dt_model_info *info, bool exact)
{
    const char *to = args->option[OUTPUT];
    bool failed = false;
    int status = verify(args, ctx, bad, m, info, exact, &failed);
    if (status == CLI_DONE && rename(bad, to) != 0) {
        status = cli_fail(args, CLI_FAILED, "%s: cannot rename %s: %s", to, bad, strerror(errno));
    }
    if (failed) {
        cli_tell(stderr, "detent export: the file that failed is %s; %s was not written", bad, to);
    } else if (status != CLI_DONE) {
        unlink(bad);
    }
    return status;
}

/* A sentence about the form that is written in place of the model's own; NULL: none. */
static const char *form_written(const dt_exporter *e, const dt_export_options *o, dt_module *m)
{
    if ((e->traced || e->integers) && dt_is_prepared(m)) {
        return "is prepared, not converted; its converted form was written";
    }
    if (e->floats && dt_is_prepared(m) && !o->hf.dequantize) {
        return "is prepared; the weights before they are quantized were written, --dequantize "
               "writes what their integers say";
    }
    if (e->floats && dt_is_converted(m)) {
        return "is converted; the values of its integers were written";
    }
    return NULL;
}

static int write_model(const cli_args *args, dt_ctx *ctx, const dt_exporter *e,
                       const dt_export_options *o, dt_module *m, const dt_model_info *info)
{
    dt_export_summary summary;
    const char *from = args->words[0], *to = args->option[OUTPUT];
    const bool verified = args->option[VERIFY] != NULL;
    cli_text bad = { .used = 0 };
    cli_text_add(&bad, "%s.bad", to);
    const char *form = form_written(e, o, m);
    if ((e->traced || e->integers) && dt_is_prepared(m) && dt_convert(m, NULL, NULL) != DT_OK) {
        return cli_fail_by(args, ctx);
    }
    meter_begin("export", args->option[QUIET] != NULL);
    dt_set_progress(ctx, meter_told, NULL);
    dt_status s = verified ? dt_expect_verify(m, info, e->name) : DT_OK;
    if (s == DT_OK) s = dt_export(m, info, e->name, o, verified ? bad.text : to, &summary);
    if (s != DT_OK || !verified) meter_end();
    if (verified && (s == DT_ERR_IO || s == DT_ERR_NOMEM)) unlink(bad.text);
    if (s == DT_ERR_UNSUPPORTED) return cli_fail(args, CLI_FAILED, "%s: %s", from, dt_error(ctx));
    if (s == DT_ERR_ARG) return cli_fail(args, CLI_USAGE, "%s", dt_error(ctx));
    if (s != DT_OK) return cli_fail_by(args, ctx);
    if (form != NULL) cli_tell(stderr, "detent export: %s %s", from, form);
    cli_say("%s: %s of %s", to, e->name, from);
    if (args->option[QUIET] == NULL) print_summary(&summary);
    if (args->option[QUIET] == NULL) print_reading(ctx, e, info);
    return verified ? verify_and_rename(args, ctx, bad.text, m, info, summary.exact) : CLI_DONE;
}

static int load_and_write(const cli_args *args, dt_ctx *ctx, const dt_exporter *e,
                          const dt_export_options *o)
{
    dt_module *m = NULL;
    dt_model_info info;
    if (dt_model_load(ctx, args->words[0], &m, &info) != DT_OK) return cli_fail_file(args, ctx);
    const int status = write_model(args, ctx, e, o, m, &info);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return status;
}

int cli_export(const cli_args *args, dt_ctx *ctx)
{
    dt_export_options options = dt_export_defaults();
    const char *name = args->option[FORMAT];
    const dt_exporter *e = name == NULL ? NULL : find_exporter(name);
    if (e == NULL) return refuse_format(args);
    if (args->option[OUTPUT] == NULL) {
        return cli_fail(args, CLI_USAGE, "-o PATH is missing: the %s to write",
                        e->folder ? "folder" : "file");
    }
    int status = cli_check_apart(args, e->folder ? NULL : args->option[OUTPUT]);
    if (status == CLI_DONE) status = read_options(args, e, &options);
    if (status != CLI_DONE) return status;
    if (!e->folder) cli_say_replaced(args, args->option[OUTPUT]);
    if (args->option[VERIFY] != NULL) {
        cli_text bad = { .used = 0 };
        cli_text_add(&bad, "%s.bad", args->option[OUTPUT]);
        cli_say_replaced(args, bad.text);
    }
    if (args->option[QUIET] == NULL) options.note = print_note;
    return load_and_write(args, ctx, e, &options);
}
