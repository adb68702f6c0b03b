/* dt_ptq on several ranks: each runs some of the batches, sums its tiles of the inputs' products
 * and rounds its blocks of rows. Every rank gets all codes, bit for bit those of a single
 * process. */
#ifndef DT__PTQ_PTQ_JOB_H
#define DT__PTQ_PTQ_JOB_H

#include <detent/experimental/ptq.h>

struct dt__cluster;

typedef struct dt__ptq_job {
    dt_module *m, *reference;
    const dt_calibration *data;
    const dt_ptq_options *options;
    struct dt__cluster *cluster; /* NULL: this process alone */
} dt__ptq_job;

dt_status dt__ptq(const dt__ptq_job *job, dt_ptq_report *report);

#endif
