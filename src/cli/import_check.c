#include "cli/import_parts.h"
#include "cli/print/text.h"

#include <detent/experimental/export.h>

#include <math.h>
#include <stdlib.h>

#define TOLERANCE 1e-5 /* relative to the largest expected magnitude */

typedef struct layers {
    cli_table table;
    double most;
    int64_t n;
    bool differs;
    dt_onnx_difference first; /* the first output that differs */
} layers;

static void put(void *user, const dt_onnx_difference *d)
{
    static const char *const heads[] = { "value", "layer", "operator", "largest difference",
                                         "relative" };
    layers *l = user;
    for (int i = 0; i < 5 && l->n == 0; i++) cli_table_put(&l->table, heads[i]);
    l->n++;
    cli_table_put(&l->table, d->output);
    cli_table_put(&l->table, d->layer);
    cli_table_put(&l->table, d->operator_);
    cli_table_format(&l->table, "%.3g", d->absolute);
    cli_table_format(&l->table, "%.3g", d->relative);
    if (l->differs || d->relative <= l->most) return;
    l->differs = true;
    l->first = *d;
}

static int read_tolerance(const cli_args *args, const char *text, double *out)
{
    char *end = NULL;
    *out = text == NULL ? TOLERANCE : strtod(text, &end);
    if (text == NULL || (*text != 0 && *end == 0 && isfinite(*out) && *out >= 0)) return CLI_DONE;
    return cli_fail(args, CLI_USAGE, "--tolerance is '%s'; expected a number of 0 or more", text);
}

/* Prints differences of values inside the network, if there are any. */
static void print_layers(layers *l)
{
    if (l->n == 0) return;
    cli_table_print(&l->table);
    if (l->differs) {
        cli_say("the first that differs by more than %g of its largest value: '%s', of layer %s "
                "(%s)",
                l->most, l->first.output, l->first.layer, l->first.operator_);
    } else {
        cli_say("none of %lld values inside differs by more than %g of its largest",
                (long long)l->n, l->most);
    }
}

static dt_status verify(const import_check *c, dt_module *m, layers *l, dt_onnx_differences *all)
{
    if (c->kind == IMPORT_WEIGHTS) return dt_weights_verify(m, c->inputs, c->expected, all);
    if (c->kind == IMPORT_TFLITE) return dt_tflite_verify(m, c->from, c->inputs, c->expected, all);
    dt_onnx_options options = *c->options;
    options.expected = c->expected;
    options.layer = put;
    options.user = l;
    return dt_onnx_verify(m, c->from, c->inputs, &options, all);
}

int import_check_run(const cli_args *args, dt_ctx *ctx, const import_check *c, dt_module *m)
{
    dt_onnx_differences all;
    layers l = { .table.form = "lllrr" };
    int status = read_tolerance(args, c->tolerance, &l.most);
    if (status != CLI_DONE) return status;
    const dt_status s = verify(c, m, &l, &all);
    if (s != DT_OK) {
        cli_table_free(&l.table);
        return cli_fail_file(args, ctx);
    }
    print_layers(&l);
    for (int i = 0; i < all.n; i++) {
        const dt_onnx_difference *d = &all.output[i];
        cli_say("%s: " DT_DIFFERENCE_TEXT, d->output, d->absolute, d->relative);
        if (d->relative <= l.most) continue;
        status = cli_fail(args, CLI_FAILED,
                          "%s: the output '%s' differs by more than %g of its largest value; "
                          "nothing was written",
                          c->from, d->output, l.most);
    }
    return status;
}
