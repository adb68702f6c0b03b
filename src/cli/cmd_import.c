/* detent import: an ONNX model as a float model of family layers. */
#include "cli.h"
#include "meter.h"
#include "text.h"

#include <detent/export.h>
#include <detent/layers.h>

#include <stdio.h>

enum { OUTPUT, VERIFY, QUIET }; /* options, as in main.c */

#define MOST 1e-5 /* of the largest expected magnitude */

/* Prints how far results are from the expected ones; CLI_FAILED if that is too far. */
static int verify(const cli_args *args, dt_ctx *ctx, dt_module *m)
{
    dt_onnx_difference d[DT_MAX_OUT];
    int n, status = CLI_DONE;
    if (dt_onnx_verify(m, args->words[0], args->option[VERIFY], d, &n) != DT_OK) {
        return cli_fail_file(args, ctx);
    }
    for (int i = 0; i < n; i++) {
        cli_say("%s: " DT_DIFFERENCE_TEXT, d[i].output, d[i].absolute, d[i].relative);
        if (d[i].relative <= MOST) continue;
        status = cli_fail(args, CLI_FAILED,
                          "%s: the output '%s' differs by more than %g of its "
                          "largest value; nothing was written",
                          args->words[0], d[i].output, MOST);
    }
    return status;
}

static int import(const cli_args *args, dt_ctx *ctx)
{
    dt_module *m = NULL;
    dt_model_info info;
    const char *from = args->words[0], *to = args->option[OUTPUT];
    meter_begin("import", args->option[QUIET] != NULL);
    const dt_status s = dt_onnx_import(ctx, from, &m, &info);
    meter_end();
    if (s != DT_OK) return cli_fail_file(args, ctx);
    int status = args->option[VERIFY] == NULL ? CLI_DONE : verify(args, ctx, m);
    if (status == CLI_DONE && dt_model_save(m, &info, to) != DT_OK) {
        status = cli_fail_by(args, ctx);
    } else if (status == CLI_DONE) {
        const dt_layers_options *o = info.options;
        cli_say("%s: %lld layers, %lld parameters", to, (long long)o->layers.n,
                (long long)dt_param_count(m));
    }
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return status;
}

int cli_import(const cli_args *args)
{
    const char *to = args->option[OUTPUT];
    if (to == NULL) {
        return cli_fail(args, CLI_USAGE, "-o FILE is missing: where to write the model");
    }
    const int apart = cli_check_apart(args, to);
    if (apart != CLI_DONE) return apart;
    dt_ctx *ctx = cli_ctx(args, 0);
    if (ctx == NULL) return CLI_FAILED;
    const int status = import(args, ctx);
    dt_ctx_free(ctx);
    return status;
}
