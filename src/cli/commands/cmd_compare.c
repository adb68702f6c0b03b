/* detent compare: what differs in the recipes and results of runs. */
#include "cli/cli.h"
#include "cli/print/screen.h"

#include <detent/report.h>

enum { SEEDS }; /* options, as in main.c */

int cli_compare(const cli_args *args)
{
    dt_compare_options o = { .columns = screen_width(stdout) };
    int status = cli_read_count(args, SEEDS, DT_MOST_REPORTED, &o.seeds);
    if (status != CLI_DONE) return status;
    dt_ctx *ctx;
    const int opened = cli_open(args, 1, &ctx);
    if (opened != CLI_DONE) return opened;
    const dt_status s = dt_report_compare(ctx, args->words, args->n_words, &o, cli_stdout, NULL);
    const bool wrong = s == DT_ERR_ARG;
    status = s == DT_OK ? cli_written(s)
             : wrong    ? cli_fail(args, CLI_USAGE, "%s", dt_error(ctx))
                        : cli_fail_file(args, ctx);
    dt_ctx_free(ctx);
    return status;
}
