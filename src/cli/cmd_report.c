/* detent report: writes a page about runs; with --live again and again while they go on. */
#include "cli.h"

#include <detent/report.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

enum { OUTPUT, LIVE }; /* options, as in main.c */

#define SECONDS 2

/* The size of a run's metrics and whether it has results, which tell whether a page is old. */
typedef struct state {
    long long bytes;
    bool ended;
} state;

static long long size_of(const char *dir, const char *name)
{
    char path[CLI_PATH + 32];
    struct stat found;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return stat(path, &found) == 0 ? (long long)found.st_size : -1;
}

static state state_of(const cli_args *args)
{
    state s = { 0, true };
    for (int i = 0; i < args->n_words; i++) {
        s.bytes += size_of(args->words[i], "metrics.jsonl");
        s.ended = s.ended && size_of(args->words[i], "machine.json") >= 0;
    }
    return s;
}

static void pause_a_while(void)
{
    const struct timespec wait = { .tv_sec = SECONDS };
    nanosleep(&wait, NULL); /* a signal ends it early */
}

static dt_status write_live(const cli_args *args, dt_ctx *ctx, dt_report_options *o)
{
    long long written = -1;
    cli_catch_signals();
    for (;;) {
        const state now = state_of(args);
        o->live = !now.ended && !cli_stopped(NULL);
        if (now.bytes != written || !o->live) {
            const dt_status s = dt_report_write(ctx, args->words, args->n_words, o);
            if (s != DT_OK || !o->live) return s;
            written = now.bytes;
        }
        pause_a_while();
    }
}

int cli_report(const cli_args *args)
{
    dt_report_options o = { .output = args->option[OUTPUT] };
    dt_ctx *ctx = cli_ctx(args, 1);
    if (ctx == NULL) return CLI_FAILED;
    const bool live = args->option[LIVE] != NULL;
    const dt_status s =
        live ? write_live(args, ctx, &o) : dt_report_write(ctx, args->words, args->n_words, &o);
    const int status = s == DT_OK ? CLI_DONE : cli_fail_file(args, ctx);
    if (s == DT_OK && o.output != NULL) printf("%s\n", o.output);
    else if (s == DT_OK) printf("%s/report.html\n", args->words[0]);
    dt_ctx_free(ctx);
    return status;
}
