/* detent import: an ONNX or TFLite model as a model of family layers. */
#include "cli/cli.h"
#include "cli/print/meter.h"
#include "cli/print/text.h"

#include <detent/export.h>
#include <detent/layers.h>
#include <detent/text.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { OUTPUT, VERIFY, MEAN, DEVIATION, CLASSES, LAYOUT, FLOAT, QUIET }; /* options, as in main.c */

#define MOST 1e-5 /* of the largest expected magnitude */

/* ---- options --------------------------------------------------------------------------------- */

/* "0.485,0.456,0.406" */
static int read_reals(const cli_args *args, int option, const char *name, dt_reals *out)
{
    const char *text = args->option[option];
    out->n = 0;
    for (const char *at = text; at != NULL; at = *at == ',' ? at + 1 : NULL) {
        char *end;
        const double v = strtod(at, &end);
        if (end == at || (*end != ',' && *end != 0) || out->n == DT_MAX_REALS) {
            return cli_fail(args, CLI_USAGE,
                            "%s is '%s'; expected numbers between commas, at most %d", name, text,
                            DT_MAX_REALS);
        }
        out->v[out->n++] = v;
        at = end;
    }
    return CLI_DONE;
}

/* The names of classes, and their memory. */
typedef struct names {
    char *text;
    const char **name;
    int64_t n;
} names;

/* Cuts the text at a letter. Blanks around names, and empty lines, are left out. */
static bool cut_names(names *c, char at)
{
    size_t most = 1;
    for (const char *p = c->text; *p != 0; p++) most += *p == at;
    c->name = malloc(most * sizeof *c->name);
    if (c->name == NULL) return false;
    for (char *next = c->text; next != NULL;) {
        char *name = next + strspn(next, " \t\r");
        next = strchr(name, at);
        if (next != NULL) *next++ = 0;
        size_t n = strlen(name);
        while (n > 0 && isspace((unsigned char)name[n - 1])) name[--n] = 0;
        if (n > 0) c->name[c->n++] = name;
    }
    return true;
}

/* A file with a name a line, or names between commas. */
static int read_classes(const cli_args *args, dt_ctx *ctx, names *c)
{
    const char *text = args->option[CLASSES];
    struct stat about;
    *c = (names){ .n = 0 };
    if (text == NULL) return CLI_DONE;
    const bool file = stat(text, &about) == 0 && S_ISREG(about.st_mode);
    char *whole = NULL;
    size_t bytes = 0;
    if (!file && strchr(text, ',') == NULL) {
        return cli_fail(args, CLI_USAGE,
                        "--classes is '%s', which is no file, and no names between commas", text);
    }
    if (file && dt_text_read(ctx, text, &whole, &bytes) != DT_OK) return cli_fail_by(args, ctx);
    c->text = strdup(file ? whole : text);
    if (whole != NULL) dt_text_free(ctx, whole);
    if (c->text == NULL || !cut_names(c, file ? '\n' : ',')) {
        return cli_fail(args, CLI_FAILED, "out of memory");
    }
    if (c->n > 0) return CLI_DONE;
    return cli_fail(args, CLI_USAGE, "--classes has no name in it");
}

static int read_options(const cli_args *args, dt_ctx *ctx, dt_onnx_options *o, names *c)
{
    const char *layout = args->option[LAYOUT];
    *o = (dt_onnx_options){ .channels_last = layout != NULL && strcmp(layout, "nhwc") == 0,
                            .floats = args->option[FLOAT] != NULL };
    *c = (names){ .n = 0 };
    if (layout != NULL && !o->channels_last && strcmp(layout, "nchw") != 0) {
        return cli_fail(args, CLI_USAGE, "--layout is '%s'; there are nchw and nhwc", layout);
    }
    int status = read_reals(args, MEAN, "--mean", &o->mean);
    if (status == CLI_DONE) status = read_reals(args, DEVIATION, "--deviation", &o->deviation);
    if (status == CLI_DONE) status = read_classes(args, ctx, c);
    o->names = c->name;
    o->n_names = c->n;
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Prints how far results are from the expected ones; CLI_FAILED if that is too far. */
static int verify(const cli_args *args, dt_ctx *ctx, const dt_onnx_options *o, dt_module *m)
{
    dt_onnx_differences all;
    int status = CLI_DONE;
    if (dt_onnx_verify(m, args->words[0], args->option[VERIFY], o, &all) != DT_OK) {
        return cli_fail_file(args, ctx);
    }
    for (int i = 0; i < all.n; i++) {
        const dt_onnx_difference *d = &all.output[i];
        cli_say("%s: " DT_DIFFERENCE_TEXT, d->output, d->absolute, d->relative);
        if (d->relative <= MOST) continue;
        status = cli_fail(args, CLI_FAILED,
                          "%s: the output '%s' differs by more than %g of its "
                          "largest value; nothing was written",
                          args->words[0], d->output, MOST);
    }
    return status;
}

static bool is_tflite(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL && strcmp(dot, ".tflite") == 0;
}

/* Options that say what an ONNX file does not. */
static int check_tflite(const cli_args *args)
{
    static const int options[] = { VERIFY, MEAN, DEVIATION, CLASSES, LAYOUT, FLOAT };
    for (size_t i = 0; i < sizeof options / sizeof *options && is_tflite(args->words[0]); i++) {
        if (args->option[options[i]] == NULL) continue;
        return cli_fail(args, CLI_USAGE, "%s: a .tflite file takes no option but -o and --quiet",
                        args->words[0]);
    }
    return CLI_DONE;
}

static int import(const cli_args *args, dt_ctx *ctx, const dt_onnx_options *o)
{
    dt_module *m = NULL;
    dt_model_info info;
    const char *from = args->words[0], *to = args->option[OUTPUT];
    meter_begin("import", args->option[QUIET] != NULL);
    const dt_status s = is_tflite(from) ? dt_tflite_import(ctx, from, &m, &info)
                                        : dt_onnx_import(ctx, from, o, &m, &info);
    meter_end();
    if (s == DT_ERR_ARG) return cli_fail(args, CLI_USAGE, "%s: %s", from, dt_error(ctx));
    if (s != DT_OK) return cli_fail_file(args, ctx);
    int status = args->option[VERIFY] == NULL ? CLI_DONE : verify(args, ctx, o, m);
    if (status == CLI_DONE && dt_model_save(m, &info, to) != DT_OK) {
        status = cli_fail_by(args, ctx);
    } else if (status == CLI_DONE) {
        const dt_layers_options *layers = info.options;
        cli_say("%s: %lld layers, %lld parameters", to, (long long)layers->layers.n,
                (long long)dt_param_count(m));
    }
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return status;
}

/* A folder is no ONNX file; that of a language model needs no import. */
static int check_folder(const cli_args *args)
{
    struct stat about;
    const char *from = args->words[0];
    if (stat(from, &about) != 0 || !S_ISDIR(about.st_mode)) return CLI_DONE;
    return cli_fail(args, CLI_BAD_FILE,
                    "%s: a folder, and no ONNX file. A Hugging Face folder needs no import: other "
                    "commands read it as it is (model.init of a recipe, detent eval, detent "
                    "sample); 'detent export %s --format stacked -o FILE' writes it as one file",
                    from, from);
}

int cli_import(const cli_args *args)
{
    const char *to = args->option[OUTPUT];
    if (to == NULL) {
        return cli_fail(args, CLI_USAGE, "-o FILE is missing: where to write the model");
    }
    int status = cli_check_apart(args, to);
    if (status == CLI_DONE) status = check_folder(args);
    if (status == CLI_DONE) status = check_tflite(args);
    if (status != CLI_DONE) return status;
    dt_ctx *ctx;
    const int opened = cli_open(args, 0, &ctx);
    if (opened != CLI_DONE) return opened;
    dt_onnx_options options;
    names classes;
    status = read_options(args, ctx, &options, &classes);
    if (status == CLI_DONE) status = import(args, ctx, &options);
    free(classes.name);
    free(classes.text);
    dt_ctx_free(ctx);
    return status;
}
