/* A model while dt_ptq converts it, for ptq.c and ptq_inputs.c. */
#ifndef DT__PTQ_PTQ_WORK_H
#define DT__PTQ_PTQ_WORK_H

#include "core/ranks.h"
#include "nn/cache/calib_cache.h"
#include "ptq/matrix.h"
#include "ptq/ptq_job.h"

enum { DT__QUANTIZED, DT__FLOAT };

typedef struct dt__ptq_batch {
    dt__calib_cache cache[2]; /* of the model, and of the float model */
    bool ended;               /* it reaches no further layer */
} dt__ptq_batch;

typedef struct dt__ptq_work {
    dt_ctx *ctx;
    dt_module *m, *reference; /* reference NULL: not needed, or not given */
    const dt_calibration *data;
    const dt_ptq_options *options;
    dt__cluster *cluster; /* NULL: this process alone */
    const dt__method *method;
    dt_ptq_report report;
    dt_tape *tape;
    dt__calib_budget budget;
    dt__ptq_batch *batch; /* one each */
    /* The layer that is next: */
    dt_module *layer, *float_layer; /* in the model and in the float model */
    dt_statistics *statistics;
    double passed; /* multiply-adds of a batch in the layer before it; 0: there is none */
} dt__ptq_work;

/* Whether the module's weight is prepared and rounders support it. */
bool dt__is_ptq_layer(void *user, const dt_module *m);
dt_status dt__ptq_fetch(const dt__ptq_work *w, int64_t i, dt_tensor **x);

/* Finds the next layer, and its statistics over all batches; w->layer NULL: no batch reaches
 * one. */
dt_status dt__ptq_find_inputs(dt__ptq_work *w);

#endif
