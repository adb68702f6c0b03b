/* The table of rounded weights: method, error, error relative to nearest, damping used, accumulator
 * bits for worst-case inputs, seconds; then, where there are any, dead columns, zeros kept, and
 * rows that kept nearest. A row has 100 columns unless its names are long. */
#include "rounded.h"

#include <stdio.h>
#include <string.h>

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
    printf("%-18s %-8s %-24s %-7s %9s %8s %7s %4s %7s\n", "weight", "shape", "scheme", "method",
           "error", "/nearest", "damping", "bits", "seconds");
}

static void print_note(int64_t n, const char *of)
{
    if (n > 0) printf("  %s %lld", of, (long long)n);
}

static void print_weight(const dt_quantized_weight *w)
{
    const dt_round_report *r = &w->report;
    char shape[SHAPE];
    cli_print_name(w->name, 18);
    printf(" %-8s %-24s %-7s ", shape_of(&w->shape, shape), w->scheme, r->method);
    if (r->samples > 0) printf("%9.3g ", r->error);
    else printf("%9s ", "-");
    if (r->nearest_error > 0) printf("%8.3f ", r->error / r->nearest_error);
    else printf("%8s ", "-");
    printf("%7.3g %4lld %7.2f", r->damping_share, (long long)r->accumulator_bits, r->seconds);
    print_note(r->dead, "dead");
    print_note(r->zeros_kept, "zeros");
    print_note(r->kept_nearest, "nearest");
    puts(r->fallback ? "  fell back" : "");
}

void rounded_row(void *user, const dt_quantize_summary *s)
{
    (void)user;
    const bool first = s->n == s->resumed + 1;
    if (first) print_head();
    for (int64_t i = first ? 0 : s->n - 1; i < s->n; i++) print_weight(&s->weight[i]);
    fflush(stdout);
}

/* ---- totals -------------------------------------------------------------------------------- */

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

static bool is_unreached(const dt_round_report *r) { return r->unreached; }
static bool is_untreated(const dt_round_report *r) { return r->untreated; }

/* Prints the weights that were rounded to nearest for one reason. */
static void print_nearest(const dt_quantize_summary *s, const char *why,
                          bool (*is_so)(const dt_round_report *r))
{
    const char *before = why;
    for (int64_t i = 0; i < s->n; i++) {
        if (!is_so(&s->weight[i].report)) continue;
        fputs(before, stdout);
        cli_print_name(s->weight[i].name, 0);
        before = ", ";
    }
    if (before != why) putchar('\n');
}

/* Prints experts with too few calibration rows, as "NAME 3 5 7 ...". */
static void print_unseen(const dt_quantize_summary *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        const dt_round_report *r = &s->weight[i].report;
        if (r->unseen == 0) continue;
        fputs("too few rows, rounded to nearest: experts of ", stdout);
        cli_print_name(s->weight[i].name, 0);
        for (int k = 0; k < r->unseen_experts.n; k++) {
            printf(" %lld", (long long)r->unseen_experts.v[k]);
        }
        puts(r->unseen > r->unseen_experts.n ? " ..." : "");
    }
}

static void print_copied(const dt_quantize_summary *s)
{
    if (s->n_copied > 0) fputs("copied: ", stdout);
    for (int64_t i = 0; i < s->n_copied; i++) {
        if (i > 0) fputs(", ", stdout);
        cli_print_name(s->copied[i], 0);
    }
    if (s->n_copied > 0) putchar('\n');
}

static void print_total(const rounded_view *v, const dt_quantize_summary *s)
{
    const dt_ptq_report *t = &s->total;
    if (s->n > 0 && s->n == s->resumed && !v->quiet) { /* they were not printed yet */
        print_head();
        for (int64_t i = 0; i < s->n; i++) print_weight(&s->weight[i]);
    }
    print_fallbacks(s);
    print_unseen(s);
    print_copied(s);
    print_nearest(s, "rounded to nearest, no example reached: ", is_unreached);
    print_nearest(s, "rounded to nearest, no rounder knows their layers: ", is_untreated);
    printf("%s: %lld %s of %lld elements", v->output, (long long)s->n,
           s->n == 1 ? "weight" : "weights", (long long)t->elements);
    print_count(s->samples, "sample", "samples");
    print_count(t->unseen, "expert without enough rows", "experts without enough rows");
    print_count(t->dead, "dead column", "dead columns");
    print_count(t->zeros_kept, "zero kept", "zeros kept");
    print_count(t->kept_nearest, "row kept nearest", "rows kept nearest");
    if (t->accumulator_bits > 0) {
        printf(", accumulators of %lld bits", (long long)t->accumulator_bits);
    }
    if (s->bytes > 0) {
        printf("; %lld bytes, before %lld", (long long)s->bytes, (long long)s->bytes_before);
    }
    printf("; %.1f s, at most %.0f MB of tensors\n", s->seconds, (double)s->peak_memory / 1e6);
}

int rounded_end(const rounded_view *v, const dt_quantize_summary *s)
{
    if (v->json) return cli_written(dt_quantize_summary_json(s, cli_stdout, NULL));
    print_total(v, s);
    return CLI_DONE;
}
