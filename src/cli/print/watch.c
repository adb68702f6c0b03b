/* Progress of a run on stderr (on a terminal one line that is redrawn, elsewhere a line every five
 * seconds and at the beginning and end of phases), and its table of results on stdout. */
#include "cli/print/watch.h"

#include "cli/cli.h"
#include "cli/print/meter.h"
#include "cli/print/screen.h"
#include "cli/print/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MOVING_SECONDS 0.1
#define PLAIN_SECONDS 5.0

/* ---- progress ------------------------------------------------------------------------------- */

watch watch_begin(bool quiet) { return (watch){ .quiet = quiet, .moving = meter_can_move() }; }

enum { FIELD = 64, FIELDS = 11, LINE = 1536, LEAST_BAR = 6, MOST_BAR = 24, GAP = 2 };

/* Fields of the line, the most important first: those that do not fit are left out. */
typedef struct line {
    char field[FIELDS][FIELD];
    int n;
} line;

static void put(line *l, const char *format, ...) DT_PRINTF(2, 3);

static void put(line *l, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(l->field[l->n++], FIELD, format, arguments);
    va_end(arguments);
}

/* Writes "accuracy 97.20 %". */
static void put_metric_of(line *l, const dt_metric *m, double value)
{
    const char *unit = m->unit != NULL ? m->unit : "";
    if (isnan(value)) put(l, "%s -", m->title);
    else
        put(l, "%s %.*f%s%s", m->title, m->decimals, m->scale * value, *unit != 0 ? " " : "", unit);
}

static void fill(line *l, const watch *w, const dt_progress *p)
{
    const bool tokens = p->tokens_per_s > 0;
    char time[32];
    put(l, "%s %lld/%lld", p->phase, (long long)p->step, (long long)p->steps);
    put(l, "loss %.4f", p->loss);
    screen_time(time, p->seconds_left);
    if (p->seconds_left >= 0) put(l, "%s left", time);
    screen_time(time, w->all_left);
    if (w->all_left > 0) put(l, "all %s left", time);
    if (p->doing != NULL) put(l, "%s", p->doing);
    if (p->metric != NULL) put_metric_of(l, p->metric, p->metric_value);
    else if (!isnan(p->validation_loss)) put(l, "validation %.4f", p->validation_loss);
    put(l, "%.0f %s/s", tokens ? p->tokens_per_s : p->samples_per_s, tokens ? "tokens" : "samples");
    put(l, "lr %.2e", p->lr);
    if (p->busiest_expert > 0) {
        put(l, "experts %.1f...%.1f %%", 100 * p->idlest_expert, 100 * p->busiest_expert);
    }
    put(l, "%.0f MB", (double)p->memory / 1e6);
}

/* Writes the fields that fit, with a bar behind the first if there is room. */
static void compose(const line *l, const dt_progress *p, int room, char text[LINE])
{
    char rest[768] = "", bar[SCREEN_BAR] = "";
    int used = cli_columns(l->field[0]);
    size_t at = 0;
    for (int i = 1; i < l->n; i++) {
        const int width = cli_columns(l->field[i]) + GAP;
        const int reserve = i >= 4 ? LEAST_BAR + 1 : 0;
        if (used + width + reserve > room) continue;
        at += (size_t)snprintf(rest + at, sizeof rest - at, "  %s", l->field[i]);
        used += width;
    }
    int wide = room - used - 1;
    if (wide > MOST_BAR) wide = MOST_BAR;
    const double share = p->steps > 0 ? (double)p->step / (double)p->steps : 1;
    if (wide >= LEAST_BAR) screen_bar(bar, wide, share);
    snprintf(text, LINE, "%s%s%s%s%s%s", l->field[0], *bar != 0 ? " " : "",
             screen_style_of(stderr, SCREEN_GREEN), bar, screen_style_of(stderr, SCREEN_PLAIN),
             rest);
}

static void print_plain(const line *l)
{
    const int room = screen_width(stderr);
    for (int i = 0, column = -GAP; i < l->n; i++) {
        column += cli_columns(l->field[i]) + GAP;
        if (column > room) break;
        fprintf(stderr, "%s%s", i == 0 ? "" : "  ", l->field[i]);
    }
    fputc('\n', stderr);
    fflush(stderr);
}

static void show(watch *w, const dt_progress *p)
{
    line l = { .n = 0 };
    char text[LINE];
    fill(&l, w, p);
    w->shown = cli_seconds();
    w->stale = false;
    if (w->moving) {
        compose(&l, p, screen_width(stderr) - 1, text);
        meter_draw(text);
        return;
    }
    print_plain(&l);
}

void watch_step(watch *w, const dt_progress *p)
{
    if (w->quiet) return;
    const bool changed = w->phase == NULL || strcmp(w->phase, p->phase) != 0;
    const bool due = cli_seconds() - w->shown >= (w->moving ? MOVING_SECONDS : PLAIN_SECONDS);
    if (changed && (w->stale || (w->moving && w->latest.doing != NULL))) {
        w->latest.doing = NULL; /* the phase has ended */
        show(w, &w->latest);
    }
    if (changed) meter_keep();
    w->phase = p->phase;
    w->latest = *p;
    w->stale = true;
    if (changed || due || (p->step == p->steps && p->doing == NULL)) show(w, p);
}

/* ---- results -------------------------------------------------------------------------------- */

/* Writes 1234567 as 1,234,567. */
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
    if (isnan(value)) { /* such as recall without positive examples */
        cli_table_put(t, "-");
        return;
    }
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
    const double speed = speed_of(&r->metrics);
    cli_table_put(t, speed > 0 ? grouped((int64_t)speed, text) : "");
}

/* Any result that exists: all have the same metrics. */
static const dt_metrics *metrics_of(const dt_run_summary *s)
{
    int i = 0;
    while (i + 1 < DT_CONTENDERS && !s->result[i].given) i++;
    return &s->result[i].metrics;
}

static bool counts_tokens(const dt_run_summary *s)
{
    bool any = false;
    for (int i = 0; i < DT_CONTENDERS; i++) any |= s->result[i].metrics.tokens_per_s > 0;
    return any;
}

static void print_proof(const dt_run_summary *s)
{
    const dt_metrics *m = &s->result[DT_RUN_CONVERTED].metrics;
    const long long count = (long long)m->examples;
    const char *what = m->tokens_per_s > 0 ? "sequences" : "examples";
    if (strcmp(s->rounder, "nearest") == 0) {
        cli_say("same_bits_as_qat: %s (every output of %lld %s, in memory and from the file)",
                s->same_bits_as_qat ? "true" : "false", count, what);
    } else {
        cli_say("same_bits_from_file: %s (every output of %lld %s); codes by %s, not those trained "
                "with",
                s->same_bits_from_file ? "true" : "false", count, what, s->rounder);
    }
}

#define ROW_NAME 32

/* Names the rows after the weights that they are about. */
static void name_rows(const dt_run_summary *s, char name[DT_CONTENDERS][ROW_NAME])
{
    const int64_t start = s->start_step;
    const long long step = start < s->steps ? start : s->steps;
    char *const given = name[DT_RUN_FLOAT], *const rounded = name[DT_RUN_PTQ];
    switch (s->float_weights) {
    case DT_FLOAT_BASELINE:
        snprintf(given, ROW_NAME, "float baseline");
        snprintf(rounded, ROW_NAME, "ptq of baseline");
        break;
    case DT_FLOAT_AT_START:
        snprintf(given, ROW_NAME, "float, at step %lld", step);
        snprintf(rounded, ROW_NAME, "ptq, at step %lld", step);
        break;
    case DT_FLOAT_INIT:
        snprintf(given, ROW_NAME, "float, model.init");
        snprintf(rounded, ROW_NAME, "ptq, model.init");
        break;
    case DT_FLOAT_ADAPTED: snprintf(given, ROW_NAME, "packed + adapters"); break;
    default: snprintf(given, ROW_NAME, "float"); break;
    }
    snprintf(name[DT_RUN_QAT], ROW_NAME, "qat");
    const bool nearest = s->rounder == NULL || strcmp(s->rounder, "nearest") == 0;
    snprintf(name[DT_RUN_CONVERTED], ROW_NAME, "%s%s", nearest ? "converted" : "qat + ",
             nearest ? "" : s->rounder);
}

/* Whether a column is always shown: the first metric (of several outputs those of the first two),
 * the loss and the bytes. Others are shown where there is room. */
static void form_of(const dt_metrics *m, char form[DT_MAX_METRICS + 5])
{
    const int metrics = m->n;
    memset(form, 'o', DT_MAX_METRICS + 4);
    const size_t first = strcspn(m->metric[0]->name, ".");
    for (int i = 1; i < metrics && m->metric[0]->name[first] == '.'; i++) {
        if (strncmp(m->metric[0]->name, m->metric[i]->name, first + 1) == 0) continue;
        form[1 + i] = 'r';
        break;
    }
    form[0] = 'l';
    form[1] = form[metrics] = form[metrics + 1] = 'r';
    form[metrics + 3 + 1] = 0;
}

/* Prints the metrics of the last model with its decision thresholds. */
static void put_decided(cli_table *t, const dt_run_summary *s)
{
    const int last = s->result[DT_RUN_CONVERTED].given ? DT_RUN_CONVERTED : DT_RUN_FLOAT;
    dt_run_result r = s->result[last];
    char name[ROW_NAME];
    if (s->decided.n == 0) return;
    r.metrics = s->decided;
    if (s->thresholds.n == 1) {
        snprintf(name, sizeof name, "threshold %.4f", 1 / (1 + exp(-s->thresholds.v[0])));
    } else {
        snprintf(name, sizeof name, "%d thresholds", s->thresholds.n);
    }
    put_result(t, name, &r);
}

/* Prints the rows that have a result. */
static void print_results(const dt_run_summary *s)
{
    const dt_metrics *m = metrics_of(s);
    char name[DT_CONTENDERS][ROW_NAME], form[DT_MAX_METRICS + 5];
    cli_table t = { .form = form };
    form_of(m, form);
    name_rows(s, name);
    cli_table_put(&t, s->evaluated_on);
    for (int i = 0; i < m->n; i++) cli_table_put(&t, m->metric[i]->title);
    cli_table_put(&t, "bytes");
    cli_table_put(&t, "bits/weight");
    cli_table_put(&t, counts_tokens(s) ? "tokens/s" : "samples/s");
    for (int i = 0; i < DT_CONTENDERS; i++) {
        if (s->result[i].given) put_result(&t, name[i], &s->result[i]);
    }
    put_decided(&t, s);
    cli_table_print(&t);
}

/* Prints which files the rows are about. */
static void print_files(const dt_recipe_options *o, const dt_run_summary *s)
{
    const dt_run_result *r = &s->result[DT_RUN_CONVERTED];
    char bytes[32], before[32];
    if (s->float_weights == DT_FLOAT_BASELINE) {
        cli_say("float baseline: trained in float for all of its updates, baseline.safetensors");
    }
    if (s->float_weights == DT_FLOAT_AT_START && s->start_step < s->steps) {
        cli_say("float, at step %lld: where QAT began, in the middle of training; "
                "train.float_baseline=true trains another model in float to the end",
                (long long)s->start_step);
    }
    if (r->given && r->bytes > 0) {
        cli_say("%s: %s bytes of tensors, %.1f times fewer than the %s in float", o->convert.output,
                grouped(r->bytes, bytes), (double)s->float_bytes / (double)r->bytes,
                grouped(s->float_bytes, before));
    }
}

void print_table(const dt_recipe_options *o, const dt_run_summary *s)
{
    print_results(s);
    print_files(o, s);
    if (s->result[DT_RUN_CONVERTED].given) print_proof(s);
    if (s->clipped > 0) {
        cli_say("%.2f %% of the quantized weights are cut off by the range of their codes",
                100 * s->clipped);
    }
    if (s->skipped > 0) {
        cli_say("%lld of %lld update%s %s skipped: values were not finite", (long long)s->skipped,
                (long long)s->steps, CLI_S(s->steps), s->skipped == 1 ? "was" : "were");
    }
    if (s->stopped_early)
        cli_say("training ended early, after %lld update%s", (long long)s->steps, CLI_S(s->steps));
    if (s->best_step > 0) {
        cli_say("the best evaluation was after %lld of %lld updates%s", (long long)s->best_step,
                (long long)s->steps, s->ends_with_best ? "; the table is about its weights" : "");
    }
    if (s->trained != s->parameters) {
        cli_say("%lld parameter%s trained, of a model of %lld", (long long)s->trained,
                s->trained == 1 ? " was" : "s were", (long long)s->parameters);
    }
    cli_say("%.1f s, at most %.0f MB of tensors; files in %s", s->seconds,
            (double)s->peak_memory / 1e6, o->run.dir);
}

static void print_parts_json(const dt_step_part *part)
{
    printf("{");
    for (int i = 0; i < DT_STEP_PARTS && part[i].op != NULL; i++) {
        printf("%s\"%s\": %.4g", i == 0 ? "" : ", ", part[i].op, part[i].share);
    }
    printf("}");
}

/* Prints where the time of a phase's update goes, and its speed. */
static void print_speed(const dt_run_summary *s, int phase, const char *name)
{
    const dt_step_part *part = s->step_part[phase];
    for (int i = 0; i < DT_STEP_PARTS && part[i].op != NULL; i++) {
        printf("  of it %-18.18s %11.0f %%\n", part[i].op, 100 * part[i].share);
    }
    printf("G multiply-adds/s, %-7s %13.3g\n", name, 1e-9 * s->step_speed[phase]);
    if (s->product_speed > 0) {
        printf("  of a large product's %17.2g\n", s->step_speed[phase] / s->product_speed);
    }
}

static void print_model_json(const dt_run_summary *s)
{
    printf("{\"parameters\": %lld, \"trained_parameters\": %lld, \"multiply_adds\": %lld, "
           "\"float_bytes\": %lld, "
           "\"quantized_bytes\": %lld, \"activation_bytes\": {\"float\": %zu, \"qat\": %zu}, "
           "\"step_seconds\": {\"float\": %.6g, \"qat\": %.6g}, \"run_seconds\": %.6g, "
           "\"multiply_adds_a_second\": {\"float\": %.6g, \"qat\": %.6g, \"product\": %.6g}",
           (long long)s->parameters, (long long)s->trained, (long long)s->multiply_adds,
           (long long)s->float_bytes, (long long)s->quantized_bytes, s->activation_bytes[0],
           s->activation_bytes[1], s->step_seconds[0], s->step_seconds[1], s->run_seconds,
           s->step_speed[0], s->step_speed[1], s->product_speed);
    printf(", \"step_share\": {\"float\": ");
    print_parts_json(s->step_part[0]);
    printf(", \"qat\": ");
    print_parts_json(s->step_part[1]);
    printf("}}\n");
}

void print_model(const dt_run_summary *s, bool json)
{
    if (json) {
        print_model_json(s);
        return;
    }
    static const char *const phases[] = { "float", "qat" };
    char text[32];
    printf("%-26s %13s\n", "parameters", grouped(s->parameters, text));
    if (s->trained != s->parameters) {
        printf("%-26s %13s\n", "trained parameters", grouped(s->trained, text));
    }
    printf("%-26s %13s\n", "multiply-adds an example", grouped(s->multiply_adds, text));
    printf("%-26s %13s\n", "bytes in float", grouped(s->float_bytes, text));
    if (s->quantized_bytes != s->float_bytes) {
        printf("%-26s %13s\n", "bytes quantized", grouped(s->quantized_bytes, text));
    }
    for (int i = 0; i < 2; i++) {
        if (s->activation_bytes[i] == 0) continue;
        printf("activation bytes, %-8s %13s\n", phases[i],
               grouped((int64_t)s->activation_bytes[i], text));
    }
    for (int i = 0; i < 2; i++) {
        if (s->step_seconds[i] <= 0) continue;
        printf("ms of an update, %-9s %13.3g\n", phases[i], 1e3 * s->step_seconds[i]);
        print_speed(s, i, phases[i]);
    }
    screen_time(text, s->run_seconds);
    printf("%-26s %13s\n", "time of the run, about", text);
    printf("some updates ran; nothing was written\n");
}
