/* Progress on stderr: on a terminal one line that is rewritten, elsewhere a line every five seconds
 * and at the beginning and end of phases; and the table of results on stdout. */
#include "watch.h"
#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define MOVING_SECONDS 0.1
#define PLAIN_SECONDS 5.0

/* ---- progress ------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

watch watch_begin(bool quiet)
{
    return (watch){ .quiet = quiet, .moving = isatty(STDERR_FILENO) != 0 };
}

/* A line of progress under construction. */
typedef struct line {
    char text[256];
    size_t used;
} line;

static void put(line *l, const char *format, ...) DT_PRINTF(2, 3);

static void put(line *l, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(l->text + l->used, sizeof l->text - l->used, format, arguments);
    va_end(arguments);
    if (n > 0) l->used += (size_t)n;
    if (l->used >= sizeof l->text) l->used = sizeof l->text - 1;
}

static void put_left(line *l, double seconds)
{
    const long s = (long)(seconds + 0.5);
    if (s >= 3600) put(l, "%ld:%02ld:%02ld left", s / 3600, s / 60 % 60, s % 60);
    else put(l, "%ld:%02ld left", s / 60, s % 60);
}

/* The most important fields come first, since a narrow terminal shows only the beginning. */
static void put_progress(line *l, const dt_progress *p)
{
    const bool tokens = p->tokens_per_s > 0;
    put(l, "%s %lld/%lld  loss %.4f  ", p->phase, (long long)p->step, (long long)p->steps, p->loss);
    if (!isnan(p->validation_loss)) put(l, "validation %.4f  ", p->validation_loss);
    put_left(l, p->seconds_left);
    put(l, "  %.0f %s/s", tokens ? p->tokens_per_s : p->samples_per_s,
        tokens ? "tokens" : "examples");
    if (p->busiest_expert > 0) {
        put(l, "  experts %.1f...%.1f %%", 100 * p->idlest_expert, 100 * p->busiest_expert);
    }
    put(l, "  lr %.2e  %.0f MB", p->lr, (double)p->memory / 1e6);
}

#define USUAL_COLUMNS 80

/* A line that is rewritten must not reach the last column: there terminals wrap, and \r does not
 * return to its beginning. */
static int room_of_terminal(void)
{
    struct winsize size;
    const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return (known ? size.ws_col : USUAL_COLUMNS) - 1;
}

void watch_step(watch *w, const dt_progress *p)
{
    if (w->quiet) return;
    const double clock = now();
    const bool changed = w->phase == NULL || strcmp(w->phase, p->phase) != 0;
    const bool due = clock - w->shown >= (w->moving ? MOVING_SECONDS : PLAIN_SECONDS);
    if (!changed && !due && p->step != p->steps) return;
    if (changed) watch_end(w);
    w->phase = p->phase;
    w->shown = clock;
    line l = { .used = 0 };
    put_progress(&l, p);
    if (w->moving) fprintf(stderr, "\r%.*s\033[K", room_of_terminal(), l.text);
    else fprintf(stderr, "%s\n", l.text);
    w->drawn = w->moving;
    fflush(stderr);
}

void watch_end(watch *w)
{
    if (w->drawn) fputc('\n', stderr);
    w->drawn = false;
}

/* ---- results -------------------------------------------------------------------------------- */

/* 1234567 as 1,234,567. */
static const char *grouped(int64_t n, char text[32])
{
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%lld", (long long)n);
    char *to = text;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    *to = 0;
    return text;
}

static void put_metric(cli_table *t, const dt_metric *metric, double value)
{
    char text[64];
    const char *unit = metric->unit != NULL ? metric->unit : "";
    snprintf(text, sizeof text, "%.*f%s%s", metric->decimals, metric->scale * value,
             *unit != 0 ? " " : "", unit);
    cli_table_put(t, text);
}

static double speed_of(const dt_metrics *m)
{
    return m->tokens_per_s > 0 ? m->tokens_per_s : m->samples_per_s;
}

static void put_result(cli_table *t, const char *name, const dt_run_result *r)
{
    char text[32];
    cli_table_put(t, name);
    for (int i = 0; i < r->metrics.n; i++) {
        put_metric(t, r->metrics.metric[i], r->metrics.value[i]);
    }
    cli_table_put(t, grouped(r->bytes, text));
    snprintf(text, sizeof text, "%.2f", r->bits_per_weight);
    cli_table_put(t, text);
    cli_table_put(t, grouped((int64_t)speed_of(&r->metrics), text));
}

/* Any result that exists: all have the same metrics. */
static const dt_metrics *metrics_of(const dt_run_summary *s)
{
    int i = 0;
    while (i + 1 < DT_CONTENDERS && !s->result[i].given) i++;
    return &s->result[i].metrics;
}

static void print_proof(const dt_run_summary *s)
{
    const dt_metrics *m = &s->result[DT_RUN_CONVERTED].metrics;
    const long long count = (long long)m->examples;
    const char *what = m->tokens_per_s > 0 ? "sequences" : "examples";
    if (strcmp(s->rounder, "nearest") == 0) {
        printf("same_bits_as_qat: %s (every output of %lld %s, in memory and from the file)\n",
               s->same_bits_as_qat ? "true" : "false", count, what);
    } else {
        printf("same_bits_from_file: %s (every output of %lld %s); codes by %s, not those "
               "trained with\n",
               s->same_bits_from_file ? "true" : "false", count, what, s->rounder);
    }
}

#define ROW_NAME 32

/* Names the rows. Without a baseline the float row is the model at qat.start_step, and not one that
 * was trained in float to the end. */
static void name_rows(const dt_recipe_options *o, const dt_run_summary *s,
                      char name[DT_CONTENDERS][ROW_NAME])
{
    const bool on_the_way = o->qat.given && !o->train.float_baseline;
    const int64_t start = o->qat_schedule.start_step;
    const long long step = start < s->steps ? start : s->steps;
    snprintf(name[DT_RUN_FLOAT], ROW_NAME, "float");
    snprintf(name[DT_RUN_PTQ], ROW_NAME, "ptq (nearest)");
    if (on_the_way) {
        snprintf(name[DT_RUN_FLOAT], ROW_NAME, "float, at step %lld", step);
        snprintf(name[DT_RUN_PTQ], ROW_NAME, "ptq, at step %lld", step);
    }
    snprintf(name[DT_RUN_QAT], ROW_NAME, "qat");
    const bool nearest = s->rounder == NULL || strcmp(s->rounder, "nearest") == 0;
    snprintf(name[DT_RUN_CONVERTED], ROW_NAME, "%s%s", nearest ? "converted" : "qat + ",
             nearest ? "" : s->rounder);
}

/* Omits rows without result. */
static void print_results(const dt_recipe_options *o, const dt_run_summary *s)
{
    const dt_metrics *m = metrics_of(s);
    char name[DT_CONTENDERS][ROW_NAME];
    cli_table t = { .columns = m->n + 4 };
    name_rows(o, s, name);
    cli_table_put(&t, s->evaluated_on);
    for (int i = 0; i < m->n; i++) cli_table_put(&t, m->metric[i]->title);
    cli_table_put(&t, "bytes");
    cli_table_put(&t, "bits/weight");
    cli_table_put(&t, m->tokens_per_s > 0 ? "tokens/s" : "samples/s");
    for (int i = 0; i < DT_CONTENDERS; i++) {
        if (s->result[i].given) put_result(&t, name[i], &s->result[i]);
    }
    cli_table_print(&t);
}

void print_table(const dt_recipe_options *o, const dt_run_summary *s)
{
    print_results(o, s);
    if (s->result[DT_RUN_CONVERTED].given) print_proof(s);
    if (s->clipped > 0) {
        printf("%.2f %% of the quantized weights are cut off by the range of their codes\n",
               100 * s->clipped);
    }
    if (s->skipped > 0) {
        printf("%lld of %lld updates were skipped: values were not finite\n", (long long)s->skipped,
               (long long)s->steps);
    }
    if (s->stopped_early) printf("training ended early, after %lld updates\n", (long long)s->steps);
    if (s->best_step > 0) {
        printf("the best evaluation was after %lld of %lld updates%s\n", (long long)s->best_step,
               (long long)s->steps, s->ends_with_best ? "; the table is about its weights" : "");
    }
    if (s->trained != s->parameters) {
        printf("%lld parameters were trained, of a model of %lld\n", (long long)s->trained,
               (long long)s->parameters);
    }
    printf("%.1f s, at most %.0f MB of tensors; files in %s\n", s->seconds,
           (double)s->peak_memory / 1e6, o->run.dir);
}

static void print_model_json(const dt_run_summary *s)
{
    printf("{\"parameters\": %lld, \"trained_parameters\": %lld, \"multiply_adds\": %lld, "
           "\"float_bytes\": %lld, "
           "\"quantized_bytes\": %lld, \"activation_bytes\": {\"float\": %zu, \"qat\": %zu}}\n",
           (long long)s->parameters, (long long)s->trained, (long long)s->multiply_adds,
           (long long)s->float_bytes, (long long)s->quantized_bytes, s->activation_bytes[0],
           s->activation_bytes[1]);
}

void print_model(const dt_run_summary *s, bool json)
{
    if (json) {
        print_model_json(s);
        return;
    }
    static const char *const phases[] = { "float", "qat" };
    char text[32];
    printf("%-32s %14s\n", "parameters", grouped(s->parameters, text));
    if (s->trained != s->parameters) {
        printf("%-32s %14s\n", "parameters that are trained", grouped(s->trained, text));
    }
    printf("%-32s %14s\n", "multiply-adds of an example", grouped(s->multiply_adds, text));
    printf("%-32s %14s\n", "bytes in float", grouped(s->float_bytes, text));
    if (s->quantized_bytes != s->float_bytes) {
        printf("%-32s %14s\n", "bytes quantized", grouped(s->quantized_bytes, text));
    }
    for (int i = 0; i < 2; i++) {
        if (s->activation_bytes[i] == 0) continue;
        printf("activation bytes of a batch, %-5s %12s\n", phases[i],
               grouped((int64_t)s->activation_bytes[i], text));
    }
    printf("a step ran; nothing was written\n");
}
