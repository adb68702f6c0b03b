/* Charts of a page, as SVG. */
#ifndef DT__REPORT_PAGE_CHART_H
#define DT__REPORT_PAGE_CHART_H

#include "report/page_run.h"
#include "report/page_text.h"

#define DT__CHART_LINES 40
#define DT__CHART_LABEL 24
#define DT__COLOURS 8 /* classes c0 ... c7 of the style */

/* A line of a chart: parts one after the other. */
typedef struct dt__chart_line {
    const dt__series *part[2];   /* NULL: absent */
    char label[DT__CHART_LABEL]; /* at its end */
    int colour;
    bool dashed, dots;
} dt__chart_line;

typedef struct dt__chart {
    const char *title;
    const char *note; /* below the title; NULL: none */
    const char *unit; /* of the numbers shown; "" */
    double scale;     /* factor to the numbers shown */
    bool linear;      /* never a logarithmic axis */
    double qat;       /* the update from which on quantization is trained; NaN: not marked */
    dt__chart_line line[DT__CHART_LINES];
    int n;
} dt__chart;

/* Adds a line, unless it has no points or there are too many. The label is cut if it is long. */
void dt__chart_add(dt__chart *c, dt__chart_line line, const char *label);
/* A <figure>; nothing where no line has two points or more. */
void dt__put_chart(dt__chars *t, const dt__chart *c);

/* Steps for about n ticks between low and high: 1, 2 or 5 times a power of ten. */
double dt__tick_step(double low, double high, int n);

#endif
