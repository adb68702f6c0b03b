/* detent bench: how long a model takes on this machine, by layer. */
#include "cli/cli.h"
#include "cli/print/meter.h"
#include "cli/print/text.h"

#include <detent/experimental/machine.h>

#include <stdio.h>

enum { JSON, THREADS, REPEAT, BATCH, QUIET }; /* options, as in main.c */

typedef struct latency {
    cli_table text;
    bool json, any;
} latency;

static void put_row(void *user, const dt_latency_op *row)
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

static void print_latency(const dt_latency *b, bool json)
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
    dt_latency out;
    latency l = { .text = { .form = "llrr" }, .json = args->option[JSON] != NULL };
    if (dt_model_load(ctx, args->words[0], &m, &info) != DT_OK) return cli_fail_file(args, ctx);
    if (l.json) fputs("{\n  \"ops\": [", stdout);
    for (int i = 0; i < 4 && !l.json; i++) cli_table_put(&l.text, heads[i]);
    const dt_latency_options o = { batch, repeat, put_row, &l };
    meter_begin("bench", args->option[QUIET] != NULL);
    const dt_status s = dt_latency_measure(m, &info, &o, &out);
    meter_end();
    if (s == DT_OK && !l.json) cli_table_print(&l.text);
    else cli_table_free(&l.text);
    if (s == DT_OK) print_latency(&out, l.json);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return s == DT_OK ? CLI_DONE : cli_fail_by(args, ctx);
}

int cli_bench(const cli_args *args)
{
    int threads = 0, batch = 1, repeat = 0;
    int status = cli_read_count(args, THREADS, 1024, &threads);
    if (status == CLI_DONE) status = cli_read_count(args, REPEAT, 1000, &repeat);
    if (status == CLI_DONE) status = cli_read_count(args, BATCH, 1 << 20, &batch);
    if (status != CLI_DONE) return status;
    dt_ctx *ctx;
    const int opened = cli_open(args, threads, &ctx);
    if (opened != CLI_DONE) return opened;
    status = measure(args, ctx, batch, repeat);
    dt_ctx_free(ctx);
    return status;
}
