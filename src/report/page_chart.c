/* Line charts over updates: axes with round numbers, labels at the ends of lines, the phase of QAT
 * shaded. A long line is drawn with at most POINTS points, each the mean of its neighbours. An axis
 * is logarithmic where all values are positive and span a factor of 20 or more. */
#include "report/page_chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 360.0
#define HEIGHT 206.0
#define LEFT 46.0
#define RIGHT 290.0
#define TOP 12.0
#define BOTTOM 182.0
#define POINTS 240
#define LABEL_GAP 13.0
#define MOST_LABEL 13 /* characters that fit beside a chart */
#define MOST_TICKS 12

typedef struct axes {
    double x0, x1, y0, y1; /* ranges of the values; y in the unit of the axis */
    bool log;
} axes;

double dt__tick_step(double low, double high, int n)
{
    const double raw = (high - low) / n;
    const double power = pow(10, floor(log10(raw > 0 ? raw : 1)));
    const double share = raw / power;
    return power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
}

static double place_x(const axes *a, double x)
{
    return a->x1 > a->x0 ? LEFT + (x - a->x0) / (a->x1 - a->x0) * (RIGHT - LEFT) : LEFT;
}

static double on_axis(const axes *a, double y) { return a->log ? log10(y) : y; }

static double place_y(const axes *a, double y)
{
    return BOTTOM - (on_axis(a, y) - a->y0) / (a->y1 - a->y0) * (BOTTOM - TOP);
}

static int64_t find_range(const dt__chart *c, axes *a)
{
    double low = INFINITY, high = -INFINITY;
    int64_t most = 0;
    *a = (axes){ .x0 = INFINITY, .x1 = -INFINITY };
    for (int i = 0; i < c->n; i++) {
        int64_t n = 0;
        for (int p = 0; p < 2; p++) {
            const dt__series *s = c->line[i].part[p];
            for (int64_t k = 0; s != NULL && k < s->n; k++, n++) {
                a->x0 = fmin(a->x0, s->x[k]);
                a->x1 = fmax(a->x1, s->x[k]);
                low = fmin(low, s->y[k] * c->scale);
                high = fmax(high, s->y[k] * c->scale);
            }
        }
        if (n > most) most = n;
    }
    a->log = !c->linear && low > 0 && high / low >= 20;
    a->y0 = on_axis(a, low);
    a->y1 = on_axis(a, high);
    return most;
}

static void round_range(const dt__chart *c, axes *a)
{
    a->x0 = fmin(a->x0, 0);
    if (!(a->y1 > a->y0)) {
        const double half = a->y0 == 0 ? 1 : fabs(a->y0) / 10;
        a->y0 -= half;
        a->y1 += half;
    }
    if (a->log) return;
    const double step = dt__tick_step(a->y0, a->y1, 4);
    const bool shares = strcmp(c->unit, "%") == 0 && a->y1 <= 100;
    a->y0 = floor(a->y0 / step) * step;
    a->y1 = ceil(a->y1 / step) * step;
    if (shares) a->y1 = fmin(a->y1, 100);
}

static void put_rule(dt__chars *t, double y, double value)
{
    dt__page(t, "<path class=\"rule\" d=\"M%f %fH%f\"/>", LEFT, y, RIGHT);
    dt__page(t, "<text class=\"tick\" x=\"%f\" y=\"%f\" text-anchor=\"end\">%g</text>", LEFT - 6,
             y + 4, value);
}

/* Ticks at powers of ten, and at 2 and 5 times these where there are few. */
static void put_log_rules(dt__chars *t, const axes *a)
{
    static const double factors[] = { 1, 2, 5 };
    const int n = a->y1 - a->y0 > 2.2 ? 1 : 3;
    for (int power = (int)floor(a->y0); power <= (int)ceil(a->y1); power++) {
        for (int i = 0; i < n; i++) {
            const double value = factors[i] * pow(10, power), at = log10(value);
            if (at >= a->y0 - 1e-9 && at <= a->y1 + 1e-9) put_rule(t, place_y(a, value), value);
        }
    }
}

static void put_rules(dt__chars *t, const axes *a)
{
    const double step = dt__tick_step(a->y0, a->y1, 4);
    if (a->log) {
        put_log_rules(t, a);
        return;
    }
    const double first = ceil(a->y0 / step - 1e-9) * step;
    for (int i = 0; i <= MOST_TICKS; i++) {
        const double y = first + i * step;
        if (!(y <= a->y1 + step * 1e-6)) break;
        put_rule(t, place_y(a, y), fabs(y) < step * 1e-6 ? 0 : y);
    }
}

static void put_updates(dt__chars *t, const axes *a)
{
    const double step = dt__tick_step(a->x0, a->x1, 4);
    const double first = ceil(a->x0 / step) * step;
    for (int i = 0; i <= MOST_TICKS; i++) {
        const double x = first + i * step;
        if (!(x <= a->x1 + step * 1e-6)) break;
        dt__page(t, "<text class=\"tick\" x=\"%f\" y=\"%f\" text-anchor=\"middle\">%g</text>",
                 place_x(a, x), BOTTOM + 17, x);
    }
}

static void put_phase(dt__chars *t, const dt__chart *c, const axes *a)
{
    if (!isfinite(c->qat) || c->qat >= a->x1) return;
    const double x = place_x(a, fmax(c->qat, a->x0));
    dt__page(t, "<rect class=\"qat\" x=\"%f\" y=\"%f\" width=\"%f\" height=\"%f\"/>", x, TOP,
             RIGHT - x, BOTTOM - TOP);
    dt__page(t, "<text class=\"phase\" x=\"%f\" y=\"%f\">QAT</text>", x + 5, TOP + 12);
}

static void put_points(dt__chars *t, const dt__series *s, const dt__chart *c, const axes *a,
                       bool *begun)
{
    const int64_t each = s->n / POINTS + 1;
    for (int64_t k = 0; k < s->n; k += each) {
        double x = 0, y = 0, n = 0;
        for (int64_t i = k; i < k + each && i < s->n; i++, n++) {
            x += s->x[i];
            y += s->y[i];
        }
        dt__page(t, *begun ? "L%f %f" : "M%f %f", place_x(a, x / n), place_y(a, y / n * c->scale));
        *begun = true;
    }
}

static void put_line(dt__chars *t, const dt__chart *c, const dt__chart_line *l, const axes *a)
{
    bool begun = false;
    dt__page(t, "<path class=\"line c%d%r\" d=\"", (int64_t)l->colour, l->dashed ? " dashed" : "");
    for (int p = 0; p < 2; p++) {
        if (l->part[p] != NULL) put_points(t, l->part[p], c, a, &begun);
    }
    dt__put_text(t, "\"/>");
    for (int p = 0; p < 2 && l->dots; p++) {
        const dt__series *s = l->part[p];
        for (int64_t k = 0; s != NULL && k < s->n && s->n <= 40; k++) {
            dt__page(t, "<circle class=\"dot c%d\" cx=\"%f\" cy=\"%f\" r=\"2.2\"/>",
                     (int64_t)l->colour, place_x(a, s->x[k]), place_y(a, s->y[k] * c->scale));
        }
    }
}

static double last_value(const dt__chart_line *l)
{
    const dt__series *s = l->part[1] != NULL ? l->part[1] : l->part[0];
    return s->y[s->n - 1];
}

typedef struct end {
    double y;
    int line;
} end;

/* Places labels in the order of the lines' ends: pushes them apart, then back up where they leave
 * the chart. */
static void place_labels(const dt__chart *c, const axes *a, end *at)
{
    for (int i = 0; i < c->n; i++) {
        const end new = { place_y(a, last_value(&c->line[i]) * c->scale), i };
        int k = i;
        for (; k > 0 && at[k - 1].y > new.y; k--) at[k] = at[k - 1];
        at[k] = new;
    }
    for (int i = 1; i < c->n; i++) at[i].y = fmax(at[i].y, at[i - 1].y + LABEL_GAP);
    double limit = BOTTOM;
    for (int i = c->n - 1; i >= 0; i--, limit -= LABEL_GAP) at[i].y = fmin(at[i].y, limit);
}

static void put_labels(dt__chars *t, const dt__chart *c, const axes *a)
{
    end at[DT__CHART_LINES];
    place_labels(c, a, at);
    for (int i = 0; i < c->n; i++) {
        const dt__chart_line *l = &c->line[at[i].line];
        const dt__series *s = l->part[0] != NULL ? l->part[0] : l->part[1];
        dt__page(t, "<text class=\"end c%d\" x=\"%f\" y=\"%f\">", (int64_t)l->colour, RIGHT + 6,
                 at[i].y + 4);
        if (s->layer != NULL) dt__page(t, "<title>%s</title>", s->layer);
        dt__page(t, "%s</text>", l->label);
    }
}

/* The numbers in a path, "0.11" of "layers.0.blocks.11.q_proj"; "" if they are long. */
static void numbers_of(const char *path, char out[MOST_LABEL])
{
    const int most = MOST_LABEL / 2;
    int used = 0;
    out[0] = 0;
    for (const char *part = path; *part != 0; part += part[0] == '.') {
        const int n = (int)strcspn(part, ".");
        if (n > 0 && (int)strspn(part, "0123456789") == n) {
            used += snprintf(out + used, (size_t)(MOST_LABEL - used), "%s%.*s", used > 0 ? "." : "",
                             n > most ? most : n, part);
        }
        if (used > most) out[used = 0] = 0;
        part += n;
    }
}

/* Shortens a long path to its numbers and its end, which identify a layer: "0…q_proj". */
static void put_label(const char *path, char out[DT__CHART_LABEL])
{
    char numbers[MOST_LABEL] = "";
    const size_t n = strlen(path);
    const char *last = strrchr(path, '.'), *tail = path;
    if (n > MOST_LABEL) {
        numbers_of(path, numbers);
        const size_t room = MOST_LABEL - 1 - strlen(numbers);
        const bool fits = *numbers != 0 && last != NULL && strlen(last + 1) <= room;
        tail = fits ? last + 1 : path + (n - room);
        while (((unsigned char)*tail & 0xc0) == 0x80) tail++; /* not within a character */
    }
    snprintf(out, DT__CHART_LABEL, "%s%s%s", numbers, tail > path ? "…" : "", tail);
}

void dt__chart_add(dt__chart *c, dt__chart_line line, const char *label)
{
    const bool any = (line.part[0] != NULL && line.part[0]->n > 0) ||
                     (line.part[1] != NULL && line.part[1]->n > 0);
    if (!any || c->n == DT__CHART_LINES) return;
    put_label(label, line.label);
    c->line[c->n++] = line;
}

void dt__put_chart(dt__chars *t, const dt__chart *c)
{
    axes a;
    if (find_range(c, &a) < 2) return;
    round_range(c, &a);
    dt__page(t, "<figure class=\"chart\"><figcaption>%s", c->title);
    if (*c->unit != 0) dt__page(t, " <span>%s</span>", c->unit);
    if (c->note != NULL) dt__page(t, " <span>%s</span>", c->note);
    dt__page(t,
             "</figcaption><svg viewBox=\"0 0 %f %f\" role=\"img\" aria-label=\"%s over updates\">",
             WIDTH, HEIGHT, c->title);
    put_phase(t, c, &a);
    put_rules(t, &a);
    put_updates(t, &a);
    for (int i = 0; i < c->n; i++) put_line(t, c, &c->line[i], &a);
    put_labels(t, c, &a);
    dt__put_text(t, "</svg></figure>\n");
}
