/* The table of rounded weights: method, error, error relative to nearest, damping used, accumulator
 * bits for worst-case inputs, seconds; then, where there are any, dead columns, kept zeros, and
 * rows that kept nearest. A progress line counts weights while they are rounded. */
#include "cli/print/rounded.h"

#include "cli/print/meter.h"
#include "cli/print/screen.h"
#include "cli/print/text.h"

#include <stdio.h>
#include <stdlib.h>

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

static void put_head(cli_table *t)
{
    static const char *const heads[] = { "weight",   "shape",   "scheme", "method",  "error",
                                         "/nearest", "damping", "bits",   "seconds", "" };
    for (int i = 0; i < 10; i++) cli_table_put(t, heads[i]);
}

/* Writes what is unusual about a weight. */
static void put_notes(cli_table *t, const dt_round_report *r)
{
    const struct {
        const char *name;
        int64_t n;
    } notes[] = { { "dead", r->dead }, { "zeros", r->zeros_kept }, { "nearest", r->kept_nearest } };
    char text[120] = "";
    size_t used = 0;
    for (int i = 0; i < 3; i++) {
        if (notes[i].n == 0) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %lld", used > 0 ? "  " : "",
                                 notes[i].name, (long long)notes[i].n);
    }
    if (r->fallback) snprintf(text + used, sizeof text - used, "%sfell back", used > 0 ? "  " : "");
    cli_table_put(t, text);
}

static void put_weight(cli_table *t, const dt_quantized_weight *w)
{
    const dt_round_report *r = &w->report;
    char shape[SHAPE];
    cli_table_put(t, w->name);
    cli_table_put(t, shape_of(&w->shape, shape));
    cli_table_put(t, w->scheme);
    cli_table_put(t, r->method);
    if (r->samples > 0) cli_table_format(t, "%.3g", r->error);
    else cli_table_put(t, "-");
    if (r->nearest_error > 0) cli_table_format(t, "%.3f", r->error / r->nearest_error);
    else cli_table_put(t, "-");
    cli_table_format(t, "%.3g", r->damping_share);
    cli_table_format(t, "%lld", (long long)r->accumulator_bits);
    cli_table_format(t, "%.2f", r->seconds);
    put_notes(t, r);
}

static void print_weights(const dt_quantize_summary *s)
{
    cli_table t = { .form = "lrlrrroool" };
    if (s->n == 0) return;
    put_head(&t);
    for (int64_t i = 0; i < s->n; i++) put_weight(&t, &s->weight[i]);
    cli_table_print(&t);
}

void rounded_row(void *user, const dt_quantize_summary *s)
{
    (void)user;
    if (s->n > 0) meter_count(s->n, s->wanted, s->weight[s->n - 1].name);
}

static void add_count(cli_text *s, int64_t n, const char *one, const char *many)
{
    if (n > 0) cli_text_add(s, ", %lld %s", (long long)n, n == 1 ? one : many);
}

/* A message followed by names of weights or tensors. They are collected in memory, since there may
 * be many, and then wrapped. */
typedef struct names {
    FILE *to; /* NULL: none so far */
    char *text;
    size_t bytes;
    bool failed;
} names;

static void put_name(names *list, const char *before, const char *name)
{
    const bool first = list->to == NULL;
    if (first) list->to = open_memstream(&list->text, &list->bytes);
    list->failed = list->failed || list->to == NULL;
    if (list->to == NULL) return;
    fputs(first ? before : ", ", list->to);
    for (; *name != 0; name++) {
        const unsigned char c = (unsigned char)*name;
        fputc(c < 0x20 || c == 0x7F ? '?' : c, list->to);
    }
}

static void end_names(names *list)
{
    if (list->to != NULL) {
        const bool whole = ferror(list->to) == 0;
        list->failed = fclose(list->to) != 0 || !whole || list->bytes == 0;
    }
    if (list->failed) cli_leave_out("a list of names");
    else if (list->text != NULL && screen_wraps(stdout)) cli_wrap(stdout, 0, 2, list->text);
    else if (list->text != NULL) puts(list->text);
    free(list->text);
}

static bool fell_back(const dt_round_report *r) { return r->fallback; }
static bool is_unreached(const dt_round_report *r) { return r->unreached; }
static bool is_untreated(const dt_round_report *r) { return r->untreated; }

/* Lists the weights for which a condition is true. */
static void print_those(const dt_quantize_summary *s, const char *what,
                        bool (*is_so)(const dt_round_report *r))
{
    names list = { .to = NULL };
    for (int64_t i = 0; i < s->n; i++) {
        if (is_so(&s->weight[i].report)) put_name(&list, what, s->weight[i].name);
    }
    end_names(&list);
}

/* Prints experts with too few calibration rows, as "NAME 3 5 7 ...". */
static void print_unseen(const dt_quantize_summary *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        const dt_round_report *r = &s->weight[i].report;
        cli_text l = { .used = 0 };
        if (r->unseen == 0) continue;
        cli_text_add(&l, "too few rows, rounded to nearest: experts of ");
        cli_text_add_name(&l, s->weight[i].name);
        for (int k = 0; k < r->unseen_experts.n; k++) {
            cli_text_add(&l, " %lld", (long long)r->unseen_experts.v[k]);
        }
        cli_say("%s%s", l.text, r->unseen > r->unseen_experts.n ? " ..." : "");
    }
}

static void print_copied(const dt_quantize_summary *s)
{
    names list = { .to = NULL };
    for (int64_t i = 0; i < s->n_copied; i++) put_name(&list, "copied: ", s->copied[i]);
    end_names(&list);
}

static void print_total(const rounded_view *v, const dt_quantize_summary *s)
{
    const dt_ptq_report *t = &s->total;
    cli_text l = { .used = 0 };
    if (!v->quiet) print_weights(s);
    print_those(s, "fell back to nearest: ", fell_back);
    print_unseen(s);
    print_copied(s);
    print_those(s, "rounded to nearest, no example reached: ", is_unreached);
    print_those(s, "rounded to nearest, no rounder knows their layers: ", is_untreated);
    cli_text_add(&l, "%lld %s of %lld elements", (long long)s->n, s->n == 1 ? "weight" : "weights",
                 (long long)t->elements);
    add_count(&l, s->samples, "sample", "samples");
    add_count(&l, t->unseen, "expert without enough rows", "experts without enough rows");
    add_count(&l, t->dead, "dead column", "dead columns");
    add_count(&l, t->zeros_kept, "zero kept", "zeros kept");
    add_count(&l, t->kept_nearest, "row kept nearest", "rows kept nearest");
    if (t->accumulator_bits > 0) {
        cli_text_add(&l, ", accumulators of %lld bits", (long long)t->accumulator_bits);
    }
    if (s->bytes > 0) {
        cli_text_add(&l, "; %lld bytes, before %lld", (long long)s->bytes,
                     (long long)s->bytes_before);
    }
    cli_say("%s: %s; %.1f s, at most %.0f MB of tensors", v->output, l.text, s->seconds,
            (double)s->peak_memory / 1e6);
}

int rounded_end(const rounded_view *v, const dt_quantize_summary *s)
{
    if (v->json) return cli_written(dt_quantize_summary_json(s, cli_stdout, NULL));
    print_total(v, s);
    return CLI_DONE;
}
