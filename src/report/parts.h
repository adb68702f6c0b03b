/* The parts of a page, in their order. Where a run lacks the data of a part, the part writes
 * nothing, or a sentence that says what is missing. */
#ifndef DT__REPORT_PARTS_H
#define DT__REPORT_PARTS_H

#include "report/page_run.h"
#include "report/page_text.h"

/* How a metric is shown. */
typedef struct dt__page_metric {
    const char *name, *title, *unit; /* unit "%", "dB" or "" */
    double scale;
    int decimals;
    bool larger_is_better;
} dt__page_metric;

/* The metric of a name, which must outlive the result; an unknown one is shown by its name. */
dt__page_metric dt__page_metric_of(const char *name);
bool dt__page_metric_is_known(const char *name);
/* The metric that represents a run: the first of its results; name "" if there is none. */
dt__page_metric dt__page_first_metric(const dt__page_run *r);
/* Writes a value with its unit. */
void dt__put_metric(dt__chars *t, const dt__page_metric *m, double value);

#define DT__ROW_NAME 32

/* The name of a row's model ("float", "ptq", "qat", "converted") in the words of the program's
 * table: "float baseline", "ptq, at step 400", "qat + gptq". */
void dt__page_row_name(const dt__page_run *r, const char *row, char text[DT__ROW_NAME]);

/* Writes title, a sentence about the result, the table of the four models, their sizes. */
/* A number of a row of summary.json; NaN if it is missing. */
double dt__page_row_result(const dt__page_run *r, const char *row, const char *name);
void dt__part_head(dt__chars *t, const dt__page_run *r);
/* Writes several runs as one table. */
void dt__part_overview(dt__chars *t, const dt__page_run *runs, int n);
/* Writes the recipe keys in which the runs differ. */
void dt__part_differences(dt__chars *t, const dt__page_run *runs, int n);
/* Writes the curves of all runs, overlaid. */
void dt__part_curves(dt__chars *t, const dt__page_run *runs, int n);
/* Writes the typed columns of a table. */
void dt__part_columns(dt__chars *t, const dt__page_run *r);
void dt__part_layers(dt__chars *t, const dt__page_run *r);
void dt__part_histograms(dt__chars *t, const dt__page_run *r);
void dt__part_sensitivity(dt__chars *t, const dt__page_run *r);
void dt__part_confusion(dt__chars *t, const dt__page_run *r);
/* Writes mistakes, images, texts or points, by the kind of targets. */
void dt__part_examples(dt__chars *t, const dt__page_run *r);
/* Writes examples from the evaluations during training. */
void dt__part_samples(dt__chars *t, const dt__page_run *r);
/* Writes the scatter plot of regression. */
void dt__put_scatter(dt__chars *t, const dt__branch *examples);
/* Writes recipe, machine, versions, files. */
void dt__part_recipe(dt__chars *t, const dt__page_run *r);

/* Opens a section with a heading; "</section>" closes it. */
void dt__part_begin(dt__chars *t, const char *id, const char *heading);
/* Opens a section about one output, if `root` names it. */
void dt__part_of_output(dt__chars *t, const dt__branch *root, const char *id, const char *heading);

#endif
