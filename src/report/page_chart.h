/* Charts of a page, as SVG. */
#ifndef DT__REPORT_PAGE_CHART_H
#define DT__REPORT_PAGE_CHART_H

#include "report/page_run.h"
#include "report/page_text.h"

#define DT__CHART_LINES 40
#define DT__CHART_LABEL 24
#define DT__COLOURS 8 /* classes c0 ... c7 of the style */

/* A line of a chart, in up to two consecutive parts. */
typedef struct dt__chart_line {
    const dt__series *part[2];   /* NULL: absent */
    char label[DT__CHART_LABEL]; /* printed at its end */
    int colour;
    bool dashed, dots;
} dt__chart_line;

typedef struct dt__chart {
    const char *title;
    const char *note; /* printed below the title; NULL: none */
    const char *unit; /* unit of the numbers shown; "" for none */
    double scale;     /* factor to the numbers shown */
    bool linear;      /* never a logarithmic axis */
    double qat;       /* the update at which QAT begins; NaN: not marked */
    dt__chart_line line[DT__CHART_LINES];
    int n;
} dt__chart;

/* Adds a line, unless it has no points or the chart is full. Long labels are cut. */
void dt__chart_add(dt__chart *c, dt__chart_line line, const char *label);
/* Writes a <figure>; nothing if every line has fewer than two points. */
void dt__put_chart(dt__chars *t, const dt__chart *c);

/* The distance of ticks for about n of them between low and high: 1, 2 or 5 times a power of
 * ten. */
double dt__tick_step(double low, double high, int n);

#endif
