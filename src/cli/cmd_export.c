/* detent export: writes a model in the format of another program. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

enum { FORMAT, OUTPUT, DTYPE, DEQUANTIZE }; /* options, as in main.c */

static const dt_exporter *find_exporter(const char *name)
{
    const dt_exporter *e = NULL;
    for (int i = 0; (e = dt_exporter_at(i)) != NULL; i++) {
        if (strcmp(e->name, name) == 0) break;
        if (e->was == NULL || strcmp(e->was, name) != 0) continue;
        fprintf(stderr, "detent export: --format %s is now called %s\n", name, e->name);
        break;
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

static int read_options(const cli_args *args, dt_hf_options *o)
{
    const char *name = args->option[DTYPE];
    o->dequantize = args->option[DEQUANTIZE] != NULL;
    if (name == NULL) return CLI_DONE;
    for (o->dtype = 0; dt_hf_dtypes[o->dtype] != NULL; o->dtype++) {
        if (strcmp(dt_hf_dtypes[o->dtype], name) == 0) return CLI_DONE;
    }
    return cli_fail(args, CLI_USAGE, "--dtype must be as_read, f32, f16 or bf16, not '%s'", name);
}

static int write(const cli_args *args, dt_ctx *ctx, const dt_exporter *e, const dt_hf_options *o)
{
    dt_module *m = NULL;
    dt_model_info info;
    const char *from = args->words[0], *to = args->option[OUTPUT];
    if (dt_model_load(ctx, from, &m, &info) != DT_OK) return cli_fail_file(args, ctx);
    if (e->floats && dt_is_prepared(m) && !o->dequantize) {
        fprintf(stderr, "detent export: the weights before they are quantized are written; "
                        "--dequantize writes what their integers say\n");
    }
    const dt_status s = e->write(m, &info, o, to);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    if (s == DT_ERR_UNSUPPORTED) return cli_fail(args, CLI_FAILED, "%s: %s", from, dt_error(ctx));
    if (s != DT_OK) return cli_fail_by(args, ctx);
    printf("%s: %s of %s\n", to, e->name, from);
    return CLI_DONE;
}

int cli_export(const cli_args *args)
{
    dt_hf_options options = { .dtype = DT_HF_AS_READ };
    const char *name = args->option[FORMAT];
    const dt_exporter *e = name == NULL ? NULL : find_exporter(name);
    if (e == NULL) return refuse_format(args);
    if (args->option[OUTPUT] == NULL) {
        return cli_fail(args, CLI_USAGE, "-o PATH is missing: the %s to write",
                        e->folder ? "folder" : "file");
    }
    int status = cli_check_apart(args, e->folder ? NULL : args->option[OUTPUT]);
    if (status == CLI_DONE) status = read_options(args, &options);
    if (status != CLI_DONE) return status;
    dt_ctx *ctx = cli_ctx(args, 0);
    if (ctx == NULL) return CLI_FAILED;
    const int written = write(args, ctx, e, &options);
    dt_ctx_free(ctx);
    return written;
}
