/* The state of dt_ptq while it converts a model, for ptq.c and ptq_inputs.c. */
#ifndef DT__PTQ_PTQ_WORK_H
#define DT__PTQ_PTQ_WORK_H

#include "core/ranks.h"
#include "nn/cache/calib_cache.h"
#include "ptq/matrix.h"
#include "ptq/ptq_job.h"

enum { DT__QUANTIZED, DT__FLOAT };

typedef struct dt__ptq_batch {
    dt__calib_cache cache[2]; /* for the model and for the float model */
    bool ended;               /* the batch reaches no further layer */
} dt__ptq_batch;

/* Mean inputs of a layer, for the correction of its bias (bias.c). */
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
    dt__ptq_batch *batch; /* [batches] */
    /* The layer that is rounded next: */
    dt_module *layer, *float_layer; /* in the model and in the float model */
    dt_statistics *statistics;      /* NULL: the rounder reads none */
    dt__means *means;               /* NULL: its bias is not corrected */
    double passed; /* multiply-adds of a batch in the layer rounded last; 0: none yet */
} dt__ptq_work;

/* Whether the module's weight is prepared and rounders support it. */
bool dt__is_ptq_layer(void *user, const dt_module *m);
dt_status dt__ptq_fetch(const dt__ptq_work *w, int64_t i, dt_tensor **x);

/* Creates sums for the mean inputs of a layer; *out NULL for a grouped weight, whose layer has no
 * bias to correct. `differ`: the float model's inputs are given, too. Errors: SHAPE, ARG, NOMEM. */
dt_status dt__means_create(dt_ctx *ctx, dt_module *layer, bool differ, dt__means **out);
void dt__means_free(dt__means *m);
/* Adds a batch of inputs, as dt_statistics_add. Errors: SHAPE, DTYPE, ARG. */
dt_status dt__means_add(dt__means *m, const dt_tensor *xq, const dt_tensor *x);
/* Corrects the bias of a layer whose weight is packed and was `before` (bias.c); *corrected is
 * false where it has no bias. Errors: STATE (a frozen model), NUMERIC (a mean that is not finite),
 * NOMEM. */
dt_status dt__bias_correct(const dt__means *m, dt_module *layer, const dt_tensor *before,
                           bool *corrected);

/* Finds the next layer and computes its statistics over all batches; w->layer NULL: no batch
 * reaches one. */
dt_status dt__ptq_find_inputs(dt__ptq_work *w);

#endif
