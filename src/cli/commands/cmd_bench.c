/* detent bench: measures the machine's limits, and kernels and training steps as shares of them;
 * of a model how long it takes here, by layer. */
#include "bench/bench.h"
#include "cli/cli.h"
#include "cli/print/meter.h"
#include "cli/print/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON, ONLY, THREADS, REPEAT, EXPLAIN, QUICK, BATCH, QUIET }; /* options, as in main.c */

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

typedef struct latency {
    cli_table text;
    bool json, any;
} latency;

static void put_row(void *user, const dt_bench_op *row)
{
    latency *l = user;
    if (l->json) {
        printf("%s\n    {\"layer\": ", l->any ? "," : "");
        cli_json_string(row->module);
        printf(", \"op\": \"%s\", \"seconds\": ", row->op);
        cli_json_number(row->seconds);
        fputs("}", stdout);
    } else {
        cli_table_put(&l->text, row->module[0] != 0 ? row->module : "the model");
        cli_table_put(&l->text, row->op);
        cli_table_format(&l->text, "%.1f", row->seconds * 1e6);
        cli_table_format(&l->text, "%.1f", row->share * 100);
    }
    l->any = true;
}

static void print_latency(const dt_bench_latency *b, bool json)
{
    const double each = b->seconds / (double)b->batch;
    if (!json) {
        cli_say("a pass of %lld example%s: %.4g ms (quartiles %.4g ... %.4g, %d passes), %.4g "
                "examples/s, on %d thread%s; %.0f %% of it in the ops above",
                (long long)b->batch, b->batch == 1 ? "" : "s", b->seconds * 1e3, b->low * 1e3,
                b->high * 1e3, b->repetitions, 1 / each, b->threads, b->threads == 1 ? "" : "s",
                100 * b->in_ops / b->seconds);
        return;
    }
    const double number[] = { b->seconds, b->low, b->high, b->in_ops };
    static const char *const names[] = { "seconds", "low", "high", "in_ops" };
    printf("],\n  \"batch\": %lld, \"threads\": %d, \"repetitions\": %d", (long long)b->batch,
           b->threads, b->repetitions);
    for (int i = 0; i < 4; i++) {
        printf(", \"%s\": ", names[i]);
        cli_json_number(number[i]);
    }
    puts("\n}");
}

static int measure(const cli_args *args, dt_ctx *ctx, int batch, int repeat)
{
    static const char *const heads[] = { "layer", "op", "us", "%" };
    dt_module *m = NULL;
    dt_model_info info;
    dt_bench_latency out;
    latency l = { .text = { .form = "llrr" }, .json = args->option[JSON] != NULL };
    if (dt_model_load(ctx, args->words[0], &m, &info) != DT_OK) return cli_fail_file(args, ctx);
    if (l.json) fputs("{\n  \"ops\": [", stdout);
    for (int i = 0; i < 4 && !l.json; i++) cli_table_put(&l.text, heads[i]);
    const dt_bench_latency_options o = { batch, repeat, put_row, &l };
    meter_begin("bench", args->option[QUIET] != NULL);
    const dt_status s = dt_bench_model(m, &info, &o, &out);
    meter_end();
    if (s == DT_OK && !l.json) cli_table_print(&l.text);
    else cli_table_free(&l.text);
    if (s == DT_OK) print_latency(&out, l.json);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return s == DT_OK ? CLI_DONE : cli_fail_by(args, ctx);
}

/* Options of the machine's figures say nothing of a model, and the other way round. */
static int check_options(const cli_args *args)
{
    static const struct {
        int option;
        const char *name;
    } machine[] = { { ONLY, "--only" }, { EXPLAIN, "--explain" }, { QUICK, "--quick" } };
    if (args->n_words == 0 && args->option[BATCH] != NULL) {
        return cli_fail(args, CLI_USAGE, "--batch is for a MODEL or RUN, which is not given");
    }
    for (int i = 0; i < 3 && args->n_words > 0; i++) {
        if (args->option[machine[i].option] == NULL) continue;
        return cli_fail(args, CLI_USAGE, "%s is for figures of the machine, not of a model",
                        machine[i].name);
    }
    return CLI_DONE;
}

int cli_bench(const cli_args *args)
{
    dt_bench_options options = dt_bench_defaults();
    int threads = 0, batch = 1;
    options.explain = args->option[EXPLAIN] != NULL;
    options.quick = args->option[QUICK] != NULL;
    int status = read_parts(args, &options.parts);
    if (status == CLI_DONE) status = cli_read_count(args, THREADS, 1024, &threads);
    if (status == CLI_DONE) status = cli_read_count(args, REPEAT, 1000, &options.repeat);
    if (status == CLI_DONE) status = cli_read_count(args, BATCH, 1 << 20, &batch);
    if (status == CLI_DONE) status = check_options(args);
    if (status != CLI_DONE) return status;
    ignore_core();
    dt_ctx *ctx;
    const int opened = cli_open(args, threads, &ctx);
    if (opened != CLI_DONE) return opened;
    status =
        args->n_words > 0 ? measure(args, ctx, batch, options.repeat) : run(args, ctx, &options);
    dt_ctx_free(ctx);
    return status;
}
