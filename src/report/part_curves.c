/* Curves over updates. With one run, lines are named by the figure; with several, by the run. */
#include "report/page_chart.h"
#include "report/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct curves {
    dt__chars *t;
    const dt__page_run *runs;
    int n;
} curves;

static dt__chart begin(const curves *c, const char *title)
{
    const double qat = dt__page_qat_step(&c->runs[0]);
    return (
        dt__chart){ .title = title, .unit = "", .scale = 1, .qat = c->n == 1 ? qat : (double)NAN };
}

/* Adds float and QAT of each run as one line, its float baseline as a dashed one. */
static void add(const curves *c, dt__chart *chart, const char *name, const char *label, bool dots)
{
    const int first = chart->n;
    for (int i = 0; i < c->n; i++) {
        const dt__page_run *r = &c->runs[i];
        const char letter[] = { (char)('A' + i), 0 };
        const int colour = c->n > 1 ? i % DT__COLOURS : first % DT__COLOURS;
        const dt__series *part[] = { dt__page_series(r, name, NULL, DT__PAGE_FLOAT),
                                     dt__page_series(r, name, NULL, DT__PAGE_QAT) };
        const dt__series *base = dt__page_series(r, name, NULL, DT__PAGE_BASELINE);
        const bool swapped = part[0] == NULL;
        dt__chart_add(chart,
                      (dt__chart_line){ .part = { part[swapped], swapped ? NULL : part[1] },
                                        .colour = colour,
                                        .dots = dots },
                      c->n > 1 ? letter : label);
        dt__chart_add(
            chart,
            (dt__chart_line){ .part = { base }, .colour = c->n > 1 ? colour : 4, .dashed = true },
            c->n > 1 ? letter : "baseline");
    }
}

static void put_one(const curves *c, const char *title, const char *name, bool linear)
{
    dt__chart chart = begin(c, title);
    chart.linear = linear;
    add(c, &chart, name, "", false);
    dt__put_chart(c->t, &chart);
}

static void put_loss(const curves *c)
{
    dt__chart chart = begin(c, "Loss");
    add(c, &chart, "loss", "training", false);
    if (c->n == 1) add(c, &chart, "validation_loss", "validation", true);
    dt__put_chart(c->t, &chart);
}

/* Writes a chart for each validation_..., except for a single run the loss, which is shown with the
 * training loss. */
static void put_validation(const curves *c)
{
    static const char *const names[] = { "accuracy",
                                         "exact_match",
                                         "macro_f1",
                                         "r2",
                                         "dice",
                                         "psnr_mean_of_images",
                                         "recording_auc",
                                         "auc",
                                         "average_precision",
                                         "perplexity",
                                         "loss" };
    char name[64], title[64];
    int shown = 0;
    for (int i = 0; i < DT__COUNT_OF(names) && shown < c->n && shown < 2; i++) {
        const dt__page_metric m = dt__page_metric_of(names[i]);
        if (c->n == 1 && strcmp(names[i], "loss") == 0) continue;
        snprintf(name, sizeof name, "validation_%s", names[i]);
        snprintf(title, sizeof title, "Validation %s", m.title);
        dt__chart chart = begin(c, title);
        chart.unit = m.unit;
        chart.scale = m.scale;
        add(c, &chart, name, "", true);
        shown += chart.n > 0;
        dt__put_chart(c->t, &chart);
    }
}

/* Whether series i is a figure of a layer. */
static bool is_of_layers(const dt__page_run *r, int64_t i, const char *name)
{
    return r->series[i].layer != NULL && strcmp(r->series[i].name, name) == 0;
}

/* Length of the ending that the paths of all layers share, such as ".conv", if they have several
 * parts. */
static size_t common_end(const dt__page_run *r, const char *name)
{
    const char *end = NULL;
    for (int64_t i = 0; i < r->n_series; i++) {
        const char *dot = is_of_layers(r, i, name) ? strrchr(r->series[i].layer, '.') : NULL;
        if (dot == NULL) continue;
        if (end != NULL && strcmp(end, dot) != 0) return 0;
        end = dot;
    }
    return end == NULL ? 0 : strlen(end);
}

#define MOST_LAYERS 12

/* Writes charts of the layers' figures during QAT, one line for each layer. */
static void put_layers(const curves *c, const char *title, const char *name, const char *unit,
                       double scale)
{
    const dt__page_run *r = &c->runs[0];
    dt__chart chart = {
        .title = title, .unit = unit, .scale = scale, .linear = true, .qat = (double)NAN
    };
    const size_t end = common_end(r, name);
    char note[64];
    int64_t layers = 0;
    for (int64_t i = 0; i < r->n_series; i++) {
        const dt__series *s = &r->series[i];
        char label[128];
        if (!is_of_layers(r, i, name) || layers++ >= MOST_LAYERS) continue;
        const size_t cut = strchr(s->layer, '.') != NULL ? end : 0;
        snprintf(label, sizeof label, "%.*s", (int)(strlen(s->layer) - cut), s->layer);
        const dt__chart_line line = { .part = { s },
                                      .colour = chart.n % DT__COLOURS,
                                      .dashed = chart.n >= DT__COLOURS };
        dt__chart_add(&chart, line, label);
    }
    snprintf(note, sizeof note, "the first %d of %lld layers", MOST_LAYERS, (long long)layers);
    if (layers > MOST_LAYERS) chart.note = note;
    dt__put_chart(c->t, &chart);
}

void dt__part_curves(dt__chars *t, const dt__page_run *runs, int n)
{
    const curves c = { t, runs, n };
    int64_t lines = 0;
    for (int i = 0; i < n; i++) lines += runs[i].lines;
    if (lines == 0) return;
    dt__part_begin(t, "curves", "Training");
    dt__put_text(t, "<div class=\"charts\">\n");
    const size_t before = t->used;
    put_loss(&c);
    put_validation(&c);
    put_one(&c, "Learning rate", "lr", true);
    put_one(&c, "Gradient norm", "grad_norm", false);
    if (n == 1) put_layers(&c, "Weights: signal to noise", "weight.snr", "dB", 1);
    if (n == 1) put_layers(&c, "Inputs: signal to noise", "input.snr", "dB", 1);
    put_one(&c, "Examples per second", "samples_per_s", true);
    if (t->used == before) dt__put_text(t, "<p>Too few updates for curves.</p>");
    dt__put_text(t, "</div></section>\n");
}
