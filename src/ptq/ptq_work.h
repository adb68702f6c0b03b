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

/* Means of a layer's inputs, for its bias (bias.c). */
typedef struct dt__means dt__means;

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
    dt_statistics *statistics;      /* NULL: the rounder reads none */
    dt__means *means;               /* NULL: its bias is not corrected */
    double passed; /* multiply-adds of a batch in the layer before it; 0: there is none */
} dt__ptq_work;

/* Whether the module's weight is prepared and rounders support it. */
bool dt__is_ptq_layer(void *user, const dt_module *m);
dt_status dt__ptq_fetch(const dt__ptq_work *w, int64_t i, dt_tensor **x);

/* Means of the inputs of a layer, for its bias; *out NULL: an expert's, which is not corrected.
 * `differ`: those of the float model are given, too. Errors: SHAPE, ARG, NOMEM. */
dt_status dt__means_create(dt_ctx *ctx, dt_module *layer, bool differ, dt__means **out);
void dt__means_free(dt__means *m);
/* Adds a batch of inputs, as dt_statistics_add. Errors: SHAPE, DTYPE, ARG. */
dt_status dt__means_add(dt__means *m, const dt_tensor *xq, const dt_tensor *x);
/* Adds to the bias of a layer, whose weight is packed and was `before`, what rounding changed of
 * its outputs' means; *corrected is false where it has no bias. Errors: STATE (a frozen model),
 * NUMERIC (a mean that is not finite), NOMEM. */
dt_status dt__bias_correct(const dt__means *m, dt_module *layer, const dt_tensor *before,
                           bool *corrected);

/* Finds the next layer, and its statistics over all batches; w->layer NULL: no batch reaches
 * one. */
dt_status dt__ptq_find_inputs(dt__ptq_work *w);

#endif
