/* detent sweep RECIPE FILE: trains a recipe with many values of its keys, and compares them. */
#include "cli/cli.h"
#include "cli/many.h"
#include "cli/print/meter.h"
#include "cli/print/screen.h"

#include <stdio.h>
#include <string.h>

enum { SEEDS, FOLDS, DRY_RUN, JSON, QUIET }; /* options, as in main.c */

/* The last part of a key's path; the whole path where two keys have the same last part. */
static const char *heading(const dt_sweep *s, int key)
{
    const char *path = dt_sweep_key_at(s, key), *dot = strrchr(path, '.');
    const char *last = dot == NULL ? path : dot + 1;
    for (int i = 0; i < dt_sweep_key_count(s); i++) {
        const char *other = dt_sweep_key_at(s, i), *behind = strrchr(other, '.');
        if (i != key && strcmp(behind == NULL ? other : behind + 1, last) == 0) return path;
    }
    return last;
}

#define WIDEST 24 /* columns of a value */

/* Cuts a value to the width of a column. */
static void put_value(cli_table *t, const char *value)
{
    if (screen_columns(value, strlen(value)) <= WIDEST) cli_table_put(t, value);
    else cli_table_format(t, "%.*s…", (int)screen_fitting(value, WIDEST - 1), value);
}

static void put_values(cli_table *t, const dt_sweep *s, const dt_sweep_row *row)
{
    for (int k = 0; k < dt_sweep_key_count(s); k++) {
        put_value(t, row == NULL ? heading(s, k) : row->value[k]);
    }
}

/* Whether selection and reporting use different data splits. */
static bool is_apart(const dt_sweep_metric *m) { return strcmp(m->chosen_on, m->result_on) != 0; }

/* Sets up the columns: run and values; with `m` results on the data that recipes are selected by,
 * and on those that are reported if they differ; bytes; and for halving the rung. */
static void form_of(const dt_sweep *s, const dt_sweep_metric *m, char form[DT_SWEEP_KEYS + 8])
{
    const bool halving = dt_sweep_get(s)->method == DT_SWEEP_HALVING;
    char *to = form;
    *to++ = 'l';
    for (int k = 0; k < dt_sweep_key_count(s); k++) *to++ = 'r';
    if (m != NULL && is_apart(m)) *to++ = 'r';
    strcpy(to, m == NULL ? "" : halving ? "roo" : "ro");
}

/* Prints the recipes without a run: those whose values exclude each other, and how many rules
 * excluded. */
static void print_left_out(const dt_sweep *s)
{
    for (int64_t i = 0; i < dt_sweep_row_count(s); i++) {
        const dt_sweep_row *row = dt_sweep_row_at(s, i);
        if (row->refused != NULL) cli_say("%s is not a valid recipe: %s", row->name, row->refused);
    }
    const long long excluded = dt_sweep_excluded(s);
    if (excluded > 0) {
        cli_say("%lld %s of values left out by exclude", excluded,
                excluded == 1 ? "combination" : "combinations");
    }
}

static void print_runs(const dt_sweep *s)
{
    char form[DT_SWEEP_KEYS + 8];
    cli_table t = { .form = form };
    form_of(s, NULL, form);
    cli_table_put(&t, "run");
    put_values(&t, s, NULL);
    int64_t recipes = 0;
    for (int64_t i = 0; i < dt_sweep_row_count(s); i++) {
        const dt_sweep_row *row = dt_sweep_row_at(s, i);
        if (row->refused != NULL) continue;
        cli_table_put(&t, row->name);
        put_values(&t, s, row);
        recipes++;
    }
    cli_table_print(&t);
    print_left_out(s);
    cli_say("%lld run%s of %lld recipe%s in %s; nothing was written",
            (long long)dt_sweep_run_count(s), CLI_S(dt_sweep_run_count(s)), (long long)recipes,
            CLI_S(recipes), dt_sweep_get(s)->dir);
}

static void print_head(cli_table *t, const dt_sweep *s, const dt_sweep_metric *m)
{
    cli_table_put(t, "run");
    put_values(t, s, NULL);
    if (is_apart(m)) cli_table_put(t, m->chosen_on);
    cli_table_put(t, *m->result_on != 0 ? m->result_on : m->title);
    cli_table_put(t, "bytes");
    if (dt_sweep_get(s)->method == DT_SWEEP_HALVING) cli_table_put(t, "rung");
}

/* Returns how many recipes have a failed run. */
static int64_t print_rows(const dt_sweep *s, const dt_sweep_metric *m)
{
    const bool halving = dt_sweep_get(s)->method == DT_SWEEP_HALVING;
    char form[DT_SWEEP_KEYS + 8];
    int64_t failed = 0;
    cli_table t = { .form = form };
    form_of(s, m, form);
    print_head(&t, s, m);
    for (int64_t i = 0; i < dt_sweep_row_count(s); i++) {
        const dt_sweep_row *row = dt_sweep_row_at(s, i);
        failed += row->error != NULL;
        if (row->refused != NULL) continue;
        cli_table_put(&t, row->name);
        put_values(&t, s, row);
        if (is_apart(m)) many_put_spread(&t, m, row->chosen);
        if (row->error != NULL && row->result.n == 0) cli_table_put(&t, "failed");
        else many_put_spread(&t, m, row->result);
        many_put_bytes(&t, row->bytes);
        if (halving) cli_table_format(&t, "%lld", (long long)row->rung);
    }
    cli_table_print(&t);
    return failed;
}

static void print_results(const dt_sweep *s)
{
    const dt_sweep_options *o = dt_sweep_get(s);
    const dt_sweep_metric m = dt_sweep_metric_of(s);
    const int64_t failed = print_rows(s, &m);
    for (int64_t i = 0; i < dt_sweep_row_count(s) && failed > 0; i++) {
        const dt_sweep_row *row = dt_sweep_row_at(s, i);
        if (row->error != NULL) cli_say("%s failed: %s", row->name, row->error);
    }
    print_left_out(s);
    if (dt_sweep_row_at(s, 0)->chosen.n == 0) return;
    const bool apart = is_apart(&m), validated = strcmp(m.chosen_on, "validation") == 0;
    cli_say("%s, best first by %s data%s%s%s", m.title, m.chosen_on, apart ? "" : "; with ",
            apart       ? ""
            : validated ? "data.test"
                        : "data.validation",
            apart ? "" : " they would be chosen apart from what they are shown on");
    if (o->seeds > 1) {
        cli_say("mean ± standard deviation of the sample, %lld %s each", (long long)o->seeds,
                o->folds > 0 ? "folds" : "seeds");
    }
    cli_say("%s/best.yaml: the recipe of %s", o->dir, dt_sweep_row_at(s, 0)->name);
    cli_say("%s/report.html: all runs, with plots", o->dir);
}

static int run(const cli_args *args, dt_ctx *ctx, dt_sweep *s)
{
    many m;
    if (args->option[DRY_RUN] != NULL) {
        if (args->option[JSON] != NULL) return cli_written(dt_sweep_json(s, cli_stdout, NULL));
        print_runs(s);
        return CLI_DONE;
    }
    const dt_sweep_control control = many_begin(&m, args->option[QUIET] != NULL);
    const dt_status status = dt_sweep_run(s, &control);
    meter_keep();
    if (status == DT_ERR_INTERRUPTED) {
        return cli_fail(args, CLI_INTERRUPTED, "%s; the same command resumes", dt_error(ctx));
    }
    if (status != DT_OK) return cli_fail_by(args, ctx);
    int written = CLI_DONE;
    if (args->option[JSON] != NULL) written = cli_written(dt_sweep_json(s, cli_stdout, NULL));
    else print_results(s);
    if (written != CLI_DONE) return written;
    for (int64_t i = 0; i < dt_sweep_row_count(s); i++) {
        if (dt_sweep_row_at(s, i)->error != NULL) return CLI_FAILED;
    }
    return CLI_DONE;
}

int cli_sweep(const cli_args *args, dt_ctx *ctx)
{
    int seeds = 0, folds = 0;
    int status = cli_read_count(args, SEEDS, 100, &seeds);
    if (status == CLI_DONE) status = cli_read_count(args, FOLDS, 100, &folds);
    if (status == CLI_DONE && folds == 1) {
        return cli_fail(args, CLI_USAGE, "--folds is 1, and should be 2 to 100");
    }
    /* with --folds the description is optional */
    const bool described = args->n_words > 1 && strchr(args->words[1], '=') == NULL;
    if (status == CLI_DONE && !described && folds == 0) {
        return cli_fail(args, CLI_USAGE, "expected FILE, which names keys and values, or --folds");
    }
    const int words = described ? 2 : 1;
    if (status != CLI_DONE) return status;
    const dt_sweep_source source = { .recipe = { .path = args->words[0],
                                                 .overrides = args->words + words,
                                                 .n_overrides = args->n_words - words },
                                     .path = described ? args->words[1] : "--folds",
                                     .text = described ? NULL : "{}",
                                     .bytes = described ? 0 : 2,
                                     .seeds = seeds,
                                     .folds = folds };
    dt_sweep *s;
    const dt_status read = dt_sweep_read(ctx, &source, &s);
    if (read == DT_OK) {
        status = run(args, ctx, s);
    } else if (read == DT_ERR_CONFIG) {
        const int n = dt_sweep_error_count(s);
        for (int i = 0; i < n; i++) cli_tell(stderr, "%s", dt_sweep_error_at(s, i));
        status = CLI_USAGE;
    } else {
        status = cli_fail_source(args, ctx, args->words[0]);
    }
    dt_sweep_free(s);
    return status;
}
