/* detent compare: what differs in the recipes and results of runs. */
#include "cli.h"
#include "screen.h"

#include <detent/report.h>

int cli_compare(const cli_args *args)
{
    dt_ctx *ctx = cli_ctx(args, 1);
    if (ctx == NULL) return CLI_FAILED;
    const dt_status s =
        dt_report_compare(ctx, args->words, args->n_words, screen_width(stdout), cli_stdout, NULL);
    const int status = s == DT_OK ? cli_written(s) : cli_fail_file(args, ctx);
    dt_ctx_free(ctx);
    return status;
}
