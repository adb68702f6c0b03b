/* Mean and spread of results. */
#ifndef DT__REPORT_PAGE_SPREAD_H
#define DT__REPORT_PAGE_SPREAD_H

#include "report/parts.h"

#include <detent/experimental/report.h>

/* Mean and deviation of those values that are finite. */
dt_spread dt__page_spread_of(const double *value, int64_t n);

/* A run's result of a metric: of the converted model or, without `qat`, of the float one. */
double dt__page_result(const dt__page_run *r, const char *metric);
/* This result on validation data, at the end of training or at the update whose weights were kept;
 * NaN: there is none, or the result is of a quantized model and all evaluations of float ones. */
double dt__page_validated(const dt__page_run *r, const char *metric);
/* Bytes of the model of dt__page_result; 0: there is none. */
int64_t dt__page_bytes(const dt__page_run *r);
/* Writes `mean ± deviation unit`; for one run only the value. */
void dt__put_spread(dt__chars *t, const dt__page_metric *m, dt_spread s);

#endif
