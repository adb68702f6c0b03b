/* detent --version, and with --verbose what the program was built with. */
#include "cli/arguments.h"
#include "cli/print/text.h"

#include <string.h>

#define COLUMN 14 /* where facts begin */

/* Receives a line of dt_build_facts, "name\tvalue\n". */
static dt_status print_fact(void *user, const char *text, size_t bytes)
{
    char name[64], value[512];
    (void)user;
    const char *tab = memchr(text, '\t', bytes);
    if (tab == NULL) return DT_OK;
    snprintf(name, sizeof name, "%.*s", (int)(tab - text), text);
    snprintf(value, sizeof value, "%.*s", (int)(text + bytes - tab) - 2, tab + 1);
    cli_entry(stdout, name, COLUMN, value);
    return DT_OK;
}

int cli_print_version(int argc, char **argv)
{
    static const cli_command version = { .name = "--version", .usage = "[--verbose]" };
    const cli_args args = { .command = &version };
    if (argc == 0) {
        printf("detent %s\n", dt_version());
        return CLI_DONE;
    }
    if (argc > 1 || strcmp(argv[0], "--verbose") != 0) {
        return cli_fail(&args, CLI_USAGE, "usage: detent --version [--verbose]");
    }
    dt_ctx *ctx;
    const int opened = cli_open(&args, 0, &ctx);
    if (opened != CLI_DONE) return opened;
    const dt_status s = dt_build_facts(ctx, print_fact, NULL);
    const int status = s == DT_OK ? CLI_DONE : cli_fail_by(&args, ctx);
    dt_ctx_free(ctx);
    return status;
}
