/* detent import: reads an ONNX or TFLite model as a model of family layers, or weights alone for
 * the network of a recipe. */
#include "cli/cli.h"
#include "cli/import_parts.h"
#include "cli/print/meter.h"
#include "cli/print/text.h"

#include <detent/experimental/layers.h>
#include <detent/experimental/text.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Options, as in main.c. */
enum {
    OUTPUT,
    CHECK,
    EXPECT,
    TOLERANCE,
    MEAN,
    DEVIATION,
    CLASSES,
    LAYOUT,
    BATCH,
    FLOAT,
    SHAPE,
    NETWORK,
    MAP,
    QUIET
};

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

/* Names of classes; memory holds their text. */
typedef struct names {
    char *text;
    const char **name;
    int64_t n;
} names;

/* Cuts the text at a letter into names. Leaves out blanks around names, and empty lines. */
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

/* Reads names from a file, one per line, or from a list between commas. */
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
                        "--classes is '%s', which is neither a file nor names between commas",
                        text);
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

/* Memory that the options point to. */
typedef struct pointed {
    names classes;
    import_shapes shapes;
} pointed;

static int read_options(const cli_args *args, dt_ctx *ctx, dt_onnx_options *o, pointed *p)
{
    const char *layout = args->option[LAYOUT];
    *o = (dt_onnx_options){ .channels_last = layout != NULL && strcmp(layout, "nhwc") == 0,
                            .floats = args->option[FLOAT] != NULL };
    *p = (pointed){ .classes = { .n = 0 } };
    if (layout != NULL && !o->channels_last && strcmp(layout, "nchw") != 0) {
        return cli_fail(args, CLI_USAGE, "--layout is '%s'; there are nchw and nhwc", layout);
    }
    const char *batch = args->option[BATCH];
    o->no_batch = batch != NULL && strcmp(batch, "none") == 0;
    if (batch != NULL && !o->no_batch && strcmp(batch, "first") != 0) {
        return cli_fail(args, CLI_USAGE, "--batch is '%s'; there are first and none", batch);
    }
    int status = read_reals(args, MEAN, "--mean", &o->mean);
    if (status == CLI_DONE) status = read_reals(args, DEVIATION, "--deviation", &o->deviation);
    if (status == CLI_DONE) status = read_classes(args, ctx, &p->classes);
    if (status == CLI_DONE) {
        status = import_shapes_read(args, args->option[SHAPE], &p->shapes);
    }
    o->names = p->classes.name;
    o->n_names = p->classes.n;
    o->shapes = p->shapes.shape;
    o->n_shapes = p->shapes.n;
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool is_tflite(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL && strcmp(dot, ".tflite") == 0;
}

static int check(const cli_args *args, dt_ctx *ctx, const dt_onnx_options *o, dt_module *m)
{
    const import_check c = { .from = args->words[0],
                             .kind = is_tflite(args->words[0]) ? IMPORT_TFLITE : IMPORT_ONNX,
                             .inputs = args->option[CHECK],
                             .expected = args->option[EXPECT],
                             .tolerance = args->option[TOLERANCE],
                             .options = o };
    return c.inputs == NULL ? CLI_DONE : import_check_run(args, ctx, &c, m);
}

/* Announces the work of saving: the output is about as large as the input. */
static void expect_save(const cli_args *args, dt_ctx *ctx)
{
    struct stat about;
    const bool regular = stat(args->words[0], &about) == 0 && S_ISREG(about.st_mode);
    if (regular && args->option[OUTPUT] != NULL) dt_expect_save(ctx, (double)about.st_size);
}

/* Saves the model. --check has ended the progress line, so it is begun again. */
static dt_status save(const cli_args *args, dt_module *m, const dt_model_info *info)
{
    if (args->option[CHECK] != NULL) meter_begin("import", args->option[QUIET] != NULL);
    const dt_status s = dt_model_save(m, info, args->option[OUTPUT]);
    meter_end();
    return s;
}

/* Writes the model if that is requested, and prints its size. */
static int write(const cli_args *args, dt_ctx *ctx, dt_module *m, const dt_model_info *info)
{
    const dt_layers_options *layers = info->options;
    const char *to = args->option[OUTPUT];
    if (to != NULL && save(args, m, info) != DT_OK) return cli_fail_by(args, ctx);
    cli_say("%s: %lld layer%s, %lld parameter%s", to != NULL ? to : args->words[0],
            (long long)layers->layers.n, CLI_S(layers->layers.n), (long long)dt_param_count(m),
            CLI_S(dt_param_count(m)));
    return CLI_DONE;
}

/* Refuses, for a .tflite file, the options that say what an ONNX file does not contain. */
static int check_tflite(const cli_args *args)
{
    static const int options[] = { MEAN, DEVIATION, CLASSES, LAYOUT, BATCH, FLOAT, SHAPE };
    for (size_t i = 0; i < sizeof options / sizeof *options && is_tflite(args->words[0]); i++) {
        if (args->option[options[i]] == NULL) continue;
        return cli_fail(args, CLI_USAGE,
                        "%s: a .tflite file takes no options but -o, --check, --expect, "
                        "--tolerance and --quiet",
                        args->words[0]);
    }
    return CLI_DONE;
}

static int import(const cli_args *args, dt_ctx *ctx, const dt_onnx_options *o)
{
    dt_module *m = NULL;
    dt_model_info info;
    const char *from = args->words[0];
    meter_begin("import", args->option[QUIET] != NULL);
    dt_set_progress(ctx, meter_told, NULL);
    expect_save(args, ctx);
    const dt_status s = is_tflite(from) ? dt_tflite_import(ctx, from, &m, &info)
                                        : dt_onnx_import(ctx, from, o, &m, &info);
    if (s != DT_OK || args->option[OUTPUT] == NULL || args->option[CHECK] != NULL) meter_end();
    if (s == DT_ERR_ARG) return cli_fail(args, CLI_USAGE, "%s: %s", from, dt_error(ctx));
    if (s != DT_OK) return cli_fail_file(args, ctx);
    int status = check(args, ctx, o, m);
    if (status == CLI_DONE) status = write(args, ctx, m, &info);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return status;
}

/* Refuses a folder: it is no ONNX file, and that of a language model needs no import. */
static int check_folder(const cli_args *args)
{
    struct stat about;
    const char *from = args->words[0];
    if (!cli_is_folder(from)) return CLI_DONE;
    cli_text recipe = { .used = 0 };
    cli_text_add(&recipe, "%s/recipe.yaml", from);
    if (stat(recipe.text, &about) == 0) {
        return cli_fail(args, CLI_BAD_FILE,
                        "%s: a run of detent, not an ONNX file: other commands read it as it is "
                        "(detent eval %s, model.init=%s)",
                        from, from, from);
    }
    return cli_fail(args, CLI_BAD_FILE,
                    "%s: a folder, not an ONNX file. A Hugging Face folder needs no import: other "
                    "commands read it as it is (model.init of a recipe, detent eval, detent "
                    "sample); 'detent export %s --format stacked -o FILE' writes it as one file",
                    from, from);
}

/* Checks that the model is to be written, or its results compared. */
static int check_ends(const cli_args *args)
{
    const bool checks = args->option[CHECK] != NULL;
    if (!checks && (args->option[EXPECT] != NULL || args->option[TOLERANCE] != NULL)) {
        return cli_fail(args, CLI_USAGE, "--%s requires --check FILE, the inputs",
                        args->option[EXPECT] != NULL ? "expect" : "tolerance");
    }
    if (args->option[OUTPUT] != NULL || checks) return CLI_DONE;
    return cli_fail(args, CLI_USAGE, "-o FILE is missing: where to write the model");
}

static int check_graph(const cli_args *args)
{
    if (args->option[MAP] != NULL) {
        return cli_fail(args, CLI_USAGE,
                        "--map requires --network RECIPE, whose 'model' says what the network is");
    }
    if (args->n_words > 1) {
        return cli_fail(args, CLI_USAGE, "'%s': one file is imported; keys are those of --network",
                        args->words[1]);
    }
    int status = check_ends(args);
    if (status == CLI_DONE) status = check_folder(args);
    return status != CLI_DONE ? status : check_tflite(args);
}

/* Refuses options of ONNX files where weights alone are imported. */
static int check_weights(const cli_args *args)
{
    static const struct {
        int option;
        const char *name;
    } of_graphs[] = {
        { MEAN, "mean" },           { LAYOUT, "layout" }, { CLASSES, "classes" },
        { DEVIATION, "deviation" }, { BATCH, "batch" },   { FLOAT, "float" },
        { SHAPE, "shape" },
    };
    for (size_t i = 0; i < sizeof of_graphs / sizeof of_graphs[0]; i++) {
        if (args->option[of_graphs[i].option] == NULL) continue;
        return cli_fail(args, CLI_USAGE, "--%s is for ONNX files; --network is for weights alone",
                        of_graphs[i].name);
    }
    return check_ends(args);
}

static int import_weights_of(const cli_args *args, dt_ctx *ctx)
{
    const import_weights w = { .from = args->words[0],
                               .to = args->option[OUTPUT],
                               .check = { .from = args->words[0],
                                          .inputs = args->option[CHECK],
                                          .expected = args->option[EXPECT],
                                          .tolerance = args->option[TOLERANCE],
                                          .kind = IMPORT_WEIGHTS },
                               .network = args->option[NETWORK],
                               .quiet = args->option[QUIET] != NULL,
                               .map = args->option[MAP] };
    return import_weights_run(args, ctx, &w);
}

static int import_graph(const cli_args *args, dt_ctx *ctx)
{
    dt_onnx_options options;
    pointed p;
    int status = read_options(args, ctx, &options, &p);
    if (status == CLI_DONE) status = import(args, ctx, &options);
    free(p.classes.name);
    free(p.classes.text);
    free(p.shapes.text);
    return status;
}

int cli_import(const cli_args *args, dt_ctx *ctx)
{
    const bool weights = args->option[NETWORK] != NULL;
    int status = weights ? check_weights(args) : check_graph(args);
    if (status == CLI_DONE && args->option[OUTPUT] != NULL) {
        status = cli_check_apart(args, args->option[OUTPUT]);
    }
    if (status != CLI_DONE) return status;
    return weights ? import_weights_of(args, ctx) : import_graph(args, ctx);
}
