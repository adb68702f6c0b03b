/* Plots of results over weight bits and over bytes: a mark at the mean of each cell, a bar of one
 * standard deviation to each side, and a line through cells that differ only in bits. Lines and
 * marks differ in shape as well as colour; a list below the plot names them. */
#include "report/run_cells.h"
#include "report/page_chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 360.0
#define HEIGHT 220.0
#define LEFT 46.0
#define RIGHT 344.0
#define TOP 12.0
#define BOTTOM 182.0
#define MOST_TICKS 12
#define MOST_SERIES 40
#define SHAPES 5

static const char bits_key[] = "qat.weight.bits";

typedef struct plot {
    const dt__cells *c;
    bool bits;                   /* x is bits; else bytes */
    int64_t series[MOST_SERIES]; /* the first cell of each series */
    int64_t n;                   /* number of series */
    double x0, x1, y0, y1, step; /* the axes; y in the metric's unit */
    bool log;                    /* the x axis is logarithmic */
} plot;

/* ---- series --------------------------------------------------------------------------------- */

/* Whether two cells differ in nothing but bits. */
static bool same_series(const dt__cells *c, int64_t a, int64_t b)
{
    for (int64_t k = 0; k < c->n_keys; k++) {
        if (strcmp(c->key[k], bits_key) == 0) continue;
        const char *one = dt__cells_value(&c->cell[a], c->key[k]);
        if (strcmp(one, dt__cells_value(&c->cell[b], c->key[k])) != 0) return false;
    }
    return true;
}

static double x_of(const plot *p, int64_t i)
{
    const dt__cell *cell = &p->c->cell[i];
    if (p->bits) return strtod(dt__page_key_of(cell->run, bits_key), NULL);
    return (double)cell->bytes;
}

static bool is_shown(const plot *p, int64_t i)
{
    return p->c->cell[i].result[DT__CELL_FINAL].n > 0 && x_of(p, i) > 0;
}

static int64_t series_of(const plot *p, int64_t i)
{
    int64_t k = 0;
    while (k < p->n && !same_series(p->c, p->series[k], i)) k++;
    return k;
}

static void find_series(plot *p)
{
    for (int64_t i = 0; i < p->c->n && p->n < MOST_SERIES; i++) {
        if (is_shown(p, i) && series_of(p, i) == p->n) p->series[p->n++] = i;
    }
}

/* ---- axes ----------------------------------------------------------------------------------- */

static double mean_of(const plot *p, int64_t i)
{
    return p->c->cell[i].result[DT__CELL_FINAL].mean * p->c->metric.scale;
}

static double bar_of(const plot *p, int64_t i)
{
    const dt_spread *s = &p->c->cell[i].result[DT__CELL_FINAL];
    return s->n > 1 ? s->deviation * p->c->metric.scale : 0;
}

static bool find_range(plot *p)
{
    p->x0 = p->y0 = INFINITY;
    p->x1 = p->y1 = -INFINITY;
    for (int64_t i = 0; i < p->c->n; i++) {
        if (!is_shown(p, i) || series_of(p, i) == p->n) continue;
        p->x0 = fmin(p->x0, x_of(p, i));
        p->x1 = fmax(p->x1, x_of(p, i));
        p->y0 = fmin(p->y0, mean_of(p, i) - bar_of(p, i));
        p->y1 = fmax(p->y1, mean_of(p, i) + bar_of(p, i));
    }
    if (!(p->x1 > p->x0)) return false;
    p->log = p->x1 / p->x0 >= 4;
    if (!(p->y1 > p->y0)) p->y1 = p->y0 + fmax(fabs(p->y0) / 10, 1e-6);
    p->step = dt__tick_step(p->y0, p->y1, 5);
    p->y0 = floor(p->y0 / p->step) * p->step;
    p->y1 = ceil(p->y1 / p->step) * p->step;
    const bool share = strcmp(p->c->metric.unit, "%") == 0;
    if (share && p->y1 > 100) p->y1 = 100; /* a bar may extend beyond 100 %, the axis does not */
    if (share && p->y0 < 0) p->y0 = 0;
    return true;
}

static double place_x(const plot *p, double x)
{
    const double part =
        p->log ? log(x / p->x0) / log(p->x1 / p->x0) : (x - p->x0) / (p->x1 - p->x0);
    return LEFT + 12 + part * (RIGHT - LEFT - 24);
}

static double place_y(const plot *p, double y)
{
    const double part = (fmin(fmax(y, p->y0), p->y1) - p->y0) / (p->y1 - p->y0);
    return BOTTOM - part * (BOTTOM - TOP);
}

static void put_rules(dt__chars *t, const plot *p)
{
    for (int i = 0; i <= MOST_TICKS; i++) {
        const double y = p->y0 + i * p->step;
        if (!(y <= p->y1 + p->step * 1e-6)) break;
        dt__page(t, "<path class=\"rule\" d=\"M%f %fH%f\"/>", LEFT, place_y(p, y), RIGHT);
        dt__page(t, "<text class=\"tick\" x=\"%f\" y=\"%f\" text-anchor=\"end\">%g</text>",
                 LEFT - 6, place_y(p, y) + 4, fabs(y) < p->step * 1e-6 ? 0 : y);
    }
}

static void put_tick(dt__chars *t, const plot *p, double x)
{
    dt__page(t, "<text class=\"tick\" x=\"%f\" y=\"%f\" text-anchor=\"middle\">", place_x(p, x),
             BOTTOM + 17);
    if (p->bits) dt__page(t, "%g</text>", x);
    else dt__page(t, "%b</text>", dt__whole(x));
}

/* Writes a tick for each number of bits that occurs; for bytes at both ends and the middle. */
static void put_ticks(dt__chars *t, const plot *p)
{
    double done = -1;
    if (!p->bits) {
        put_tick(t, p, p->x0);
        put_tick(t, p, p->log ? sqrt(p->x0 * p->x1) : (p->x0 + p->x1) / 2);
        put_tick(t, p, p->x1);
        return;
    }
    for (;;) {
        double next = INFINITY;
        for (int64_t i = 0; i < p->c->n; i++) {
            if (is_shown(p, i) && x_of(p, i) > done) next = fmin(next, x_of(p, i));
        }
        if (!isfinite(next)) return;
        put_tick(t, p, next);
        done = next;
    }
}

/* ---- marks ---------------------------------------------------------------------------------- */

/* Writes a circle, square, triangle, diamond or cross of radius 4. */
static void put_mark(dt__chars *t, int64_t series, double x, double y)
{
    static const char *const shapes[SHAPES] = { "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
                                                "m-3.6-3.6h7.2v7.2h-7.2z", "m0-4.6l4.6 8h-9.2z",
                                                "m0-5l5 5l-5 5l-5-5z", "m-4-4l8 8m0-8l-8 8" };
    const int64_t shape = series % SHAPES;
    dt__page(t, "<path class=\"%r c%d\" d=\"M%f %f%r\"/>", shape == SHAPES - 1 ? "line" : "dot",
             series % DT__COLOURS, x, y, shapes[shape]);
}

/* The x of a cell. Many cells have the same bits or bytes, so series are shifted. */
static double place_cell(const plot *p, int64_t i, int64_t series)
{
    const double apart = fmin(5, 24 / (double)p->n);
    return place_x(p, x_of(p, i)) + ((double)series - (double)(p->n - 1) / 2) * apart;
}

static void put_bar(dt__chars *t, const plot *p, int64_t i, int64_t series)
{
    const double x = place_cell(p, i, series), mean = mean_of(p, i), bar = bar_of(p, i);
    if (bar > 0) {
        dt__page(t, "<path class=\"line c%d\" d=\"M%f %fV%fM%f %fh6M%f %fh6\"/>",
                 series % DT__COLOURS, x, place_y(p, mean - bar), place_y(p, mean + bar), x - 3,
                 place_y(p, mean - bar), x - 3, place_y(p, mean + bar));
    }
    put_mark(t, series, x, place_y(p, mean));
}

/* The cell of a series with the next larger x; -1: none. */
static int64_t next_of(const plot *p, int64_t series, double after)
{
    int64_t next = -1;
    for (int64_t i = 0; i < p->c->n; i++) {
        if (!is_shown(p, i) || series_of(p, i) != series || x_of(p, i) <= after) continue;
        if (next < 0 || x_of(p, i) < x_of(p, next)) next = i;
    }
    return next;
}

static void put_series(dt__chars *t, const plot *p, int64_t series)
{
    bool begun = false;
    dt__page(t, "<path class=\"line%r c%d\" d=\"", series / DT__COLOURS % 2 == 1 ? " dashed" : "",
             series % DT__COLOURS);
    for (int64_t i = next_of(p, series, 0); i >= 0; i = next_of(p, series, x_of(p, i))) {
        dt__page(t, begun ? "L%f %f" : "M%f %f", place_cell(p, i, series),
                 place_y(p, mean_of(p, i)));
        begun = true;
    }
    dt__put_text(t, "\"/>");
    for (int64_t i = 0; i < p->c->n; i++) {
        if (is_shown(p, i) && series_of(p, i) == series) put_bar(t, p, i, series);
    }
}

/* ---- the legend ----------------------------------------------------------------------------- */

static void put_legend(dt__chars *t, const plot *p)
{
    dt__put_text(t, "<ul class=\"legend\">\n");
    for (int64_t s = 0; s < p->n; s++) {
        const dt__cell *cell = &p->c->cell[p->series[s]];
        bool any = false;
        dt__put_text(t, "<li><svg viewBox=\"0 0 14 14\" aria-hidden=\"true\">");
        put_mark(t, s, 7, 7);
        dt__put_text(t, "</svg>");
        for (int64_t k = 0; k < p->c->n_keys; k++) {
            if (strcmp(p->c->key[k], bits_key) == 0) continue;
            dt__page(t, "%r%s %s", any ? ", " : "", dt__cells_heading(p->c, k),
                     dt__cells_value(cell, p->c->key[k]));
            any = true;
        }
        dt__page(t, "%s</li>\n", any ? "" : cell->name);
    }
    dt__put_text(t, "</ul>\n");
}

static void put_plot(dt__chars *t, const dt__cells *c, bool bits)
{
    plot p = { .c = c, .bits = bits };
    find_series(&p);
    if (p.n == 0 || !find_range(&p)) return;
    const char *over = bits ? "bits of a weight" : "bytes of the model";
    dt__page(t,
             "<figure class=\"chart\"><figcaption>%s <span>%s</span> <span>over %r</span>"
             "</figcaption><svg viewBox=\"0 0 %f %f\" role=\"img\" aria-label=\"%s over %r\">",
             c->metric.title, c->metric.unit, over, WIDTH, HEIGHT, c->metric.title, over);
    put_rules(t, &p);
    put_ticks(t, &p);
    for (int64_t s = 0; s < p.n; s++) put_series(t, &p, s);
    dt__put_text(t, "</svg>\n");
    put_legend(t, &p);
    int64_t hidden = 0;
    for (int64_t i = 0; i < c->n; i++) hidden += is_shown(&p, i) && series_of(&p, i) == p.n;
    if (hidden > 0) {
        dt__page(t, "<p class=\"note\">Not drawn, beside %i lines: %i recipes of the table.</p>\n",
                 p.n, hidden);
    }
    dt__put_text(t, "</figure>\n");
}

void dt__cells_put_plots(dt__chars *t, const dt__cells *c)
{
    if (*c->metric.name == 0) return;
    dt__part_begin(t, "plots", "Results");
    dt__put_text(t, "<div class=\"charts\">\n");
    const size_t before = t->used;
    put_plot(t, c, true);
    put_plot(t, c, false);
    if (t->used == before) dt__put_text(t, "<p>All recipes have one size.</p>");
    dt__put_text(t, "</div></section>\n");
}
