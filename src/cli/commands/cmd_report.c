/* detent report: writes a page about runs; with --live again and again until they end. */
#include "cli/cli.h"

#include <detent/experimental/report.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OUTPUT, LIVE }; /* options, as in main.c */

#define SECONDS 2

/* Size of the runs' metrics, which changes when a page is outdated, and whether all runs ended. */
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

/* Whether a run has ended. While it trains, its process holds a lock of metrics.jsonl, so the
 * answer is right for a killed run, too. Where the file system has no locks, machine.json decides,
 * which is written at the end. */
static bool has_ended(const char *dir)
{
    char path[CLI_PATH + 32];
    struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    const int metrics = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const bool known = metrics >= 0 && fcntl(metrics, F_GETLK, &lock) == 0;
    if (metrics >= 0) close(metrics);
    return known ? lock.l_type == F_UNLCK : size_of(dir, "machine.json") >= 0;
}

static state state_of(const cli_args *args)
{
    state s = { 0, true };
    for (int i = 0; i < args->n_words; i++) {
        s.bytes += size_of(args->words[i], "metrics.jsonl");
        s.ended = s.ended && has_ended(args->words[i]);
    }
    return s;
}

static void pause_a_while(void)
{
    const struct timespec wait = { .tv_sec = SECONDS };
    nanosleep(&wait, NULL); /* a signal ends the wait */
}

static dt_status write_live(const cli_args *args, dt_ctx *ctx, dt_report_options *o)
{
    long long written = 0;
    bool is_written = false;
    cli_catch_signals();
    for (;;) {
        const state now = state_of(args);
        o->live = !now.ended && !cli_stopped(NULL);
        if (!is_written || now.bytes != written || !o->live) {
            const dt_status s = dt_report_write(ctx, args->words, args->n_words, o);
            if (s != DT_OK || !o->live) return s;
            written = now.bytes;
            is_written = true;
        }
        pause_a_while();
    }
}

/* Refuses to overwrite a file that is not a page, such as a file of the run. */
static int check_output(const cli_args *args, const char *path)
{
    static const char begins[] = "<!doctype html>";
    char found[sizeof begins] = "";
    struct stat about;
    const bool is_there = path != NULL && stat(path, &about) == 0 && S_ISREG(about.st_mode);
    FILE *file = is_there ? fopen(path, "rb") : NULL;
    if (file == NULL) return CLI_DONE; /* the writer reports a path that cannot be written */
    const size_t n = fread(found, 1, sizeof begins - 1, file);
    fclose(file);
    if (n == 0 || strcmp(found, begins) == 0) return CLI_DONE;
    return cli_fail(args, CLI_USAGE, "%s exists and is not a page of detent; name another output",
                    path);
}

int cli_report(const cli_args *args, dt_ctx *ctx)
{
    dt_report_options o = { .output = args->option[OUTPUT] };
    const int apart = check_output(args, o.output);
    if (apart != CLI_DONE) return apart;
    const bool live = args->option[LIVE] != NULL;
    const dt_status s =
        live ? write_live(args, ctx, &o) : dt_report_write(ctx, args->words, args->n_words, &o);
    const int status = s == DT_OK ? CLI_DONE : cli_fail_file(args, ctx);
    if (s == DT_OK && o.output != NULL) printf("%s\n", o.output);
    else if (s == DT_OK) printf("%s/report.html\n", args->words[0]);
    return status;
}
