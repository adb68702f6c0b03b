/* The plan of an integer network: which device op computes each result of a model, and which range
 * it has. dt_prepare records one pass of the model in evaluation, op by op, and turns it into
 * nodes; from then on the nodes run in place of the model's forward (dt_module.form):
 *
 *     device      enabled: codes from node to node (device.h), values at the ends
 *     floats      disabled, and to observe: the ops that were recorded
 *
 * Values have numbers: input i is i, the result of node i is DT__PLAN_FIRST + i. */
#ifndef DT__QAT_DEVICE_PLAN_H
#define DT__QAT_DEVICE_PLAN_H

#include "nn/module.h"
#include "qat/quantizer.h"

#include <detent/experimental/qat.h>

#define DT__PLAN_FIRST DT_MAX_IN

typedef struct dt__plan_node {
    const dt_op *op;      /* of floats; NULL: quantization of an input or a constant, dropout */
    const void *options;  /* its own copy, or NULL */
    const char *constant; /* the entry of m that is the result; NULL: none */
    dt_module *m;         /* that made the call; of a product its layer; of dropout the dropout */
    int activation;       /* DT_ACT_..., behind it */
    int n_in;
    int64_t in[DT_MAX_IN];
    int64_t last; /* the last node that reads the result; INT64_MAX: an output */
    int rank;
    int64_t dims[DT_MAX_RANK]; /* of an example: dims[0] is 1 */
    int64_t shares;            /* the value whose range the result has; its own: it has a range */
    dt_module *range;          /* a quantizer, where it has one of its own */
    bool joined;               /* a concatenation shares it, whose result is observed */
    bool told;                 /* dt__device_tell has named its module */
} dt__plan_node;

typedef struct dt__device {
    dt_ctx *ctx;
    dt_module *m;
    dt__plan_node *node;
    int64_t n, room;
    int n_in, n_out;
    int64_t out[DT_MAX_OUT];
    bool enabled, observing, frozen; /* as of dt__input_hook */
} dt__device;

/* Records m on inputs of these shapes. Nodes have no ranges yet. Errors: UNSUPPORTED, naming all
 * ops and modules that no device op computes, or a concatenation whose operands disagree; those of
 * the forward pass, NOMEM. */
dt_status dt__device_record(dt_module *m, const dt_shape *in, int n_in, dt__device **out);
/* Its pass: appends nodes to d (device_record.c). */
dt_status dt__device_run_shapes(dt__device *d, const dt_shape *in, int n_in);
/* A module's path for messages. */
const char *dt__plan_path(const dt_module *m);
void dt__device_free(dt_ctx *ctx, void *device);

/* Gives each result that needs one a range, a child `output` (`output2`, ...) of the module that
 * makes it, or `input` (`input2`, ...) of m: the child that exists, else a new one by the settings
 * of `spec_of`, which gets the module's path and the child's name (*fixed: as of
 * dt__quantizer_size). Errors: NOMEM. */
typedef dt_status dt__spec_of(void *user, const char *path, const char *name, dt_quant_spec *spec,
                              bool *fixed);
dt_status dt__device_ranges(dt__device *d, dt__spec_of *spec_of, void *user);
/* CONFIG, naming two modules, where results that a concatenation joins are given different
 * settings. */
dt_status dt__device_check_joined(const dt__device *d, dt__spec_of *spec_of, void *user);
/* Calls `visit` with the path of the module and the name of each range, before or after it is
 * made. */
typedef void dt__visit_range(void *user, const char *path, const char *name);
void dt__device_visit_ranges(const dt__device *d, dt__visit_range *visit, void *user);
/* Removes the ranges that were made. */
void dt__device_unrange(dt__device *d);

/* Folded norms are computed with their running statistics from now on (device_norms.c). */
void dt__device_plan_norms(const dt__device *d);
/* Computes each node whose operands and result have ranges that are known already, on zeros, by
 * itself: NUMERIC, naming all modules whose sums or multipliers do not fit. NOMEM. `tells`: by
 * dt__device_tell, too. */
dt_status dt__device_probe(const dt__device *d, bool tells);
/* on_call of a tape: names each layer with a scale that its bias enlarges, once. */
void dt__device_tell(void *device, const dt_call *c);
/* From now on the plan runs in place of m's forward, and belongs to m. */
void dt__device_install(dt__device *d);
/* The plan of m; NULL where it has none. */
dt__device *dt__device_of(const dt_module *m);

/* The weights of a layer by preset `device-int4` in place of 4 bits by channel, where that cannot
 * be: one scale in linear layers, else 8 bits. */
void dt__device_weight_spec(const dt_module *m, dt_quant_spec *spec);
/* Whether CMSIS-NN computes with such a weight of m; if not, why. */
#define DT__DEVICE_BAR 160
bool dt__device_takes(const dt_module *m, const dt_quant_spec *spec, char why[DT__DEVICE_BAR]);
/* Whether m is a layer of the plan. */
bool dt__device_holds(const dt__device *d, const dt_module *m);
/* Whether a range still follows from batches. */
bool dt__device_observes(const dt__device *d);
/* Frees the state of observers; ranges no longer change. */
void dt__device_fix(const dt__device *d);

/* The node whose range a value has. */
const dt__plan_node *dt__device_holder(const dt__device *d, int64_t value);
/* Runs node i alone, whose operands are in `value`. Lent by the tape. */
dt_tensor *dt__device_run_node(const dt__device *d, dt_tape *t, dt_tensor **value, int64_t i);
/* Runs the plan (dt__form). */
void dt__device_run(void *device, dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                    dt_tensor **out, int n_out);

/* Whether a layer's folded norm learns its running statistics from batches: in training, until
 * dt_norms_freeze. */
bool dt__device_warms(const dt__plan_node *node);
/* The layer in floats with its norm, by the batch's statistics, which update the running ones
 * (device_norms.c). */
dt_tensor *dt__device_warm(dt_tape *t, const dt__plan_node *node, dt_tensor *x);

/* Brings learned ranges up to date with their ends. STATE where a range has seen no batch, naming
 * the module; NUMERIC. */
dt_status dt__device_check_ranges(const dt__device *d, const char *what);

#endif
