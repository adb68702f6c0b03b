/* detent bench: measures the machine's limits, and kernels and training steps as shares of them. */
#include "bench/bench.h"
#include "cli/cli.h"
#include "cli/print/meter.h"
#include "cli/print/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON, ONLY, THREADS, REPEAT, EXPLAIN, QUICK, QUIET }; /* options, as in main.c */

/* ---- options -------------------------------------------------------------------------------- */

/* Adds the part named text[0...length-1]. */
static int add_part(const cli_args *args, const char *text, size_t length, unsigned *parts)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name), text);
    for (int i = 0; dt_bench_parts[i] != NULL; i++) {
        if (strcmp(dt_bench_parts[i], name) != 0) continue;
        *parts |= 1U << i;
        return CLI_DONE;
    }
    const char *meant = dt_nearest(dt_bench_parts, name);
    if (meant == NULL)
        return cli_fail(args, CLI_USAGE, "--only: there is no part '%s'; --help lists them", name);
    return cli_fail(args, CLI_USAGE, "--only: there is no part '%s' (did you mean '%s'?)", name,
                    meant);
}

static int read_parts(const cli_args *args, unsigned *parts)
{
    const char *text = args->option[ONLY];
    if (text == NULL) return CLI_DONE;
    for (*parts = 0;; text++) {
        const size_t length = strcspn(text, ",");
        const int status = add_part(args, text, length, parts);
        if (status != CLI_DONE) return status;
        text += length;
        if (*text == 0) return CLI_DONE;
    }
}

/* Flushes each row, since the next one may take a while. */
static dt_status flush(dt_status s) { return s == DT_OK && fflush(stdout) != 0 ? DT_ERR_IO : s; }

static dt_status print_json(void *user, const char *text, size_t bytes)
{
    meter_remove();
    return flush(cli_stdout(user, text, bytes));
}

/* Prints whole lines. */
static dt_status print_lines(void *user, const char *text, size_t bytes)
{
    char line[1024];
    (void)user;
    meter_remove();
    for (const char *end = text + bytes; text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const int n = (int)((newline == NULL ? end : newline) - text);
        snprintf(line, sizeof line, "%.*s", n, text);
        cli_fold(line);
        text += n + 1;
    }
    return flush(ferror(stdout) ? DT_ERR_IO : DT_OK);
}

/* OpenBLAS reads it when it is loaded, by the first rounding with data, which may then take twice
 * the time. */
static void ignore_core(void)
{
    const char *core = getenv("OPENBLAS_CORETYPE");
    if (core == NULL) return;
    cli_tell(stderr, "detent bench: OPENBLAS_CORETYPE is '%s', which is ignored", core);
    unsetenv("OPENBLAS_CORETYPE");
}

static int run(const cli_args *args, dt_ctx *ctx, const dt_bench_options *options)
{
    meter_begin("bench", args->option[QUIET] != NULL);
    const bool json = args->option[JSON] != NULL;
    const dt_status s = dt_bench_write(ctx, options, json, json ? print_json : print_lines, NULL);
    meter_end();
    if (s == DT_ERR_IO) return CLI_FAILED; /* main says that stdout failed */
    if (s == DT_ERR_ARG) return cli_fail(args, CLI_USAGE, "%s", dt_error(ctx)); /* $DETENT_CPU */
    return s == DT_OK ? CLI_DONE : cli_fail_by(args, ctx);
}

int cli_bench(const cli_args *args)
{
    dt_bench_options options = dt_bench_defaults();
    int threads = 0;
    options.explain = args->option[EXPLAIN] != NULL;
    options.quick = args->option[QUICK] != NULL;
    int status = read_parts(args, &options.parts);
    if (status == CLI_DONE) status = cli_read_count(args, THREADS, 1024, &threads);
    if (status == CLI_DONE) status = cli_read_count(args, REPEAT, 1000, &options.repeat);
    if (status != CLI_DONE) return status;
    ignore_core();
    dt_ctx *ctx;
    const int opened = cli_open(args, threads, &ctx);
    if (opened != CLI_DONE) return opened;
    status = run(args, ctx, &options);
    dt_ctx_free(ctx);
    return status;
}
