/* A trained model to integers without training: a line for each weight as it is done, the totals at
 * the end; or all of it as JSON. */
#include "round_model.h"

#include <stdio.h>
#include <string.h>

/* ---- a line for each weight ---------------------------------------------------------------------- */

#define SHAPE 128

static const char *shape_of(const dt_ints *shape, char text[SHAPE])
{
    int n = 0;
    text[0] = 0;
    for (int i = 0; i < shape->n && n < SHAPE - 24; i++) {
        n += snprintf(text + n, (size_t)(SHAPE - n), "%s%lld", i == 0 ? "" : "x",
                      (long long)shape->v[i]);
    }
    return text;
}

static void print_head(void)
{
    printf("%-24s %-14s %-24s %-9s %10s %8s %8s %6s %6s %7s %5s %8s\n", "weight", "shape", "scheme",
           "method", "error", "/nearest", "damping", "dead", "zeros", "nearest", "bits", "seconds");
}

static void print_weight(const dt_quantized_weight *w)
{
    const dt_round_report *r = &w->report;
    char shape[SHAPE];
    cli_print_name(w->name, 24);
    printf(" %-14s %-24s %-9s %10.4g ", shape_of(&w->shape, shape), w->scheme, r->method, r->error);
    if (r->nearest_error > 0) printf("%8.3f ", r->error / r->nearest_error);
    else printf("%8s ", "-");
    printf("%8.3g %6lld %6lld %7lld %5lld %8.2f%s\n", r->damping_share, (long long)r->dead,
           (long long)r->zeros_kept, (long long)r->kept_nearest, (long long)r->accumulator_bits,
           r->seconds, r->fallback ? "  fell back" : "");
}

/* The first line brings those of an earlier call. */
static void show_weight(void *user, const dt_quantize_summary *s)
{
    const round_model *r = user;
    const bool first = s->n == s->resumed + 1;
    if (r->json || r->quiet) return;
    if (first) print_head();
    for (int64_t i = first ? 0 : s->n - 1; i < s->n; i++) print_weight(&s->weight[i]);
    fflush(stdout);
}

/* ---- the end ---------------------------------------------------------------------------------------- */

static void print_count(int64_t n, const char *one, const char *many)
{
    if (n > 0) printf(", %lld %s", (long long)n, n == 1 ? one : many);
}

static void print_fallbacks(const dt_quantize_summary *s)
{
    const char *before = "fell back to nearest: ";
    for (int64_t i = 0; i < s->n; i++) {
        if (!s->weight[i].report.fallback) continue;
        fputs(before, stdout);
        cli_print_name(s->weight[i].name, 0);
        before = ", ";
    }
    if (s->total.fallbacks > 0) putchar('\n');
}

static void print_total(const round_model *r, const dt_quantize_summary *s)
{
    const dt_ptq_report *t = &s->total;
    print_fallbacks(s);
    if (t->unreached > 0) {
        printf("%lld weights that no example reached were rounded to nearest\n",
               (long long)t->unreached);
    }
    printf("%s: %lld weights of %lld elements, %lld samples", r->output, (long long)s->n,
           (long long)t->elements, (long long)s->samples);
    print_count(t->dead, "dead column", "dead columns");
    print_count(t->zeros_kept, "zero kept", "zeros kept");
    print_count(t->kept_nearest, "row kept nearest", "rows kept nearest");
    if (t->accumulator_bits > 0) {
        printf(", accumulators of %lld bits", (long long)t->accumulator_bits);
    }
    printf("; %.1f s, at most %.0f MB of tensors\n", s->seconds, (double)s->peak_memory / 1e6);
}

static int explain(const cli_args *args, dt_ctx *ctx, const dt_recipe *recipe)
{
    if (dt_error_status(ctx) == DT_ERR_CONFIG && dt_recipe_error_count(recipe) > 0) {
        return cli_print_errors(recipe);
    }
    return cli_fail_file(args, ctx);
}

int round_model_run(const cli_args *args, dt_ctx *ctx, dt_recipe *recipe, const round_model *r)
{
    const dt_quantize_job job = { .model = r->model,
                                  .output = r->output,
                                  .converts = r->converts,
                                  .stop = cli_stopped,
                                  .weight = show_weight,
                                  .user = (void *)(uintptr_t)r };
    dt_quantize_summary summary;
    int status = CLI_DONE;
    cli_catch_signals();
    if (dt_quantize_model(ctx, recipe, &job, &summary) != DT_OK) {
        status = explain(args, ctx, recipe);
    } else if (r->json) {
        status = cli_written(dt_quantize_summary_json(&summary, cli_stdout, NULL));
    } else {
        print_total(r, &summary);
    }
    dt_quantize_summary_free(&summary);
    return status;
}
