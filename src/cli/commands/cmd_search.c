/* detent search RECIPE --budget BYTES: chooses the bits of each layer and trains the result. */
#include "cli/cli.h"
#include "cli/many.h"
#include "cli/print/meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUDGET, SEEDS, DIR, DRY_RUN, JSON, QUIET }; /* options, as in main.c */

/* Reads a number of bytes: digits only. */
static int read_budget(const cli_args *args, int64_t *out)
{
    const char *text = args->option[BUDGET];
    if (text == NULL) {
        return cli_fail(args, CLI_USAGE,
                        "--budget BYTES is missing; --dry-run with any budget "
                        "shows what is possible");
    }
    const size_t digits = strspn(text, "0123456789");
    *out = digits > 0 && digits < 16 && text[digits] == 0 ? strtoll(text, NULL, 10) : 0;
    if (*out > 0) return CLI_DONE;
    return cli_fail(args, CLI_USAGE, "--budget is '%s', and should be a number of bytes", text);
}

static void print_sizes(const dt_search_summary *s)
{
    cli_table t = { .form = "lr" };
    cli_table_put(&t, "choice");
    cli_table_put(&t, "bytes");
    cli_table_put(&t, "the smallest");
    cli_table_format(&t, "%lld", (long long)s->least);
    for (int bits = 2; bits <= 8; bits++) {
        if (s->uniform_bytes[bits] == 0) continue;
        cli_table_format(&t, "%d bits for all layers", bits);
        cli_table_format(&t, "%lld", (long long)s->uniform_bytes[bits]);
    }
    cli_table_put(&t, "the largest");
    cli_table_format(&t, "%lld", (long long)s->most);
    cli_table_print(&t);
    cli_say("%lld layer%s; nothing was written", (long long)s->n_layers, CLI_S(s->n_layers));
}

static void print_layers(const dt_search_summary *s)
{
    cli_table t = { .form = "lrrrror" };
    static const char *const heads[] = { "layer", "weights", "bits",        "scales",
                                         "bytes", "cost",    "uniform cost" };
    for (int i = 0; i < 7; i++) cli_table_put(&t, heads[i]);
    for (int64_t i = 0; i < s->n_layers; i++) {
        const dt_search_layer *l = &s->layer[i];
        cli_table_put(&t, l->path);
        cli_table_format(&t, "%lld", (long long)l->elements);
        cli_table_format(&t, "%d", l->bits);
        if (l->group_size > 0) cli_table_format(&t, "group %lld", (long long)l->group_size);
        else cli_table_put(&t, l->group_size == 0 ? "channel" : "recipe's");
        cli_table_format(&t, "%lld", (long long)l->bytes);
        cli_table_format(&t, "%.4f", l->cost);
        cli_table_format(&t, "%.4f", l->uniform_cost);
    }
    cli_table_print(&t);
    cli_say("cost: what rounding the layer's weight alone adds to the loss of the float model");
}

static void print_results(const dt_search_summary *s, int seeds)
{
    cli_table t = { .form = "lrr" };
    cli_table_put(&t, s->metric.result_on);
    cli_table_put(&t, s->metric.title);
    cli_table_put(&t, "bytes");
    cli_table_format(&t, "uniform, %d bits", s->uniform_bits);
    many_put_spread(&t, &s->metric, s->uniform);
    many_put_bytes(&t, s->uniform_run_bytes);
    cli_table_put(&t, "automatic");
    many_put_spread(&t, &s->metric, s->automatic);
    many_put_bytes(&t, s->automatic_run_bytes);
    cli_table_print(&t);
    if (seeds > 1) cli_say("mean ± standard deviation of the sample, %d seeds each", seeds);
    if (s->error[0] != 0) cli_say("failed: %s", s->error);
    cli_say("%s/best.yaml: the recipe with these bits", s->dir);
    if (s->error[0] == 0) cli_say("%s/report.html: the runs, side by side", s->dir);
}

static int show(const cli_args *args, const dt_search_summary *s, int seeds)
{
    int written = CLI_DONE;
    if (args->option[JSON] != NULL) {
        written = cli_written(dt_search_json(s, cli_stdout, NULL));
    } else if (args->option[DRY_RUN] != NULL) {
        print_sizes(s);
    } else {
        print_layers(s);
        putchar('\n');
        print_results(s, seeds);
    }
    if (written != CLI_DONE) return written;
    return s->error[0] == 0 ? CLI_DONE : CLI_FAILED;
}

static int search(const cli_args *args, dt_ctx *ctx, int64_t budget, int seeds)
{
    many m;
    dt_search_summary s;
    const dt_recipe_source source = { .path = args->words[0],
                                      .overrides = args->words + 1,
                                      .n_overrides = args->n_words - 1 };
    const dt_search_options o = { .budget = budget,
                                  .seeds = seeds,
                                  .dir = args->option[DIR],
                                  .dry_run = args->option[DRY_RUN] != NULL };
    const dt_sweep_control control = many_begin(&m, args->option[QUIET] != NULL);
    const dt_status status = dt_search(ctx, &source, &o, &control, &s);
    meter_keep();
    int result = CLI_INTERRUPTED;
    if (status == DT_OK) result = show(args, &s, seeds);
    else if (status != DT_ERR_INTERRUPTED) result = cli_fail_by(args, ctx);
    else cli_fail(args, CLI_INTERRUPTED, "%s; the same command resumes", dt_error(ctx));
    dt_search_summary_free(&s);
    return result;
}

int cli_search(const cli_args *args, dt_ctx *ctx)
{
    int seeds = 1;
    int64_t budget = 0;
    int status = read_budget(args, &budget);
    if (status == CLI_DONE) status = cli_read_count(args, SEEDS, 100, &seeds);
    if (status != CLI_DONE) return status;
    dt_recipe *recipe = NULL; /* read once before the search, to print all of its errors */
    status = cli_read_recipe(args, ctx, 0, false, &recipe);
    dt_recipe_free(recipe);
    if (status == CLI_DONE) status = search(args, ctx, budget, seeds);
    return status;
}
