/* detent compare: what differs in the recipes and results of runs. */
#include "cli/cli.h"
#include "cli/print/screen.h"

#include <detent/experimental/report.h>

#include <limits.h>

enum { SEEDS, CSV, LATEX, MARKDOWN }; /* options, as in main.c */

/* The output form that an option selects. */
static int read_form(const cli_args *args, int *form)
{
    static const int forms[] = {
        [CSV] = DT_COMPARE_CSV, [LATEX] = DT_COMPARE_LATEX, [MARKDOWN] = DT_COMPARE_MARKDOWN
    };
    int given = args->option[SEEDS] != NULL;
    *form = DT_COMPARE_AUTO;
    for (int i = CSV; i <= MARKDOWN; i++) {
        if (args->option[i] == NULL) continue;
        *form = forms[i];
        given++;
    }
    if (given < 2) return CLI_DONE;
    return cli_fail(args, CLI_USAGE, "--seeds, --csv, --latex and --markdown exclude each other");
}

int cli_compare(const cli_args *args, dt_ctx *ctx)
{
    dt_compare_options o = { .columns = screen_width(stdout) };
    int status = cli_read_count(args, SEEDS, INT_MAX, &o.seeds);
    if (status == CLI_DONE) status = read_form(args, &o.form);
    if (status != CLI_DONE) return status;
    const dt_status s = dt_report_compare(ctx, args->words, args->n_words, &o, cli_stdout, NULL);
    const bool wrong = s == DT_ERR_ARG;
    return s == DT_OK ? cli_written(s)
           : wrong    ? cli_fail(args, CLI_USAGE, "%s", dt_error(ctx))
                      : cli_fail_file(args, ctx);
}
