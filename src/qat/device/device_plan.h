/* The plan of an integer network: which device op computes each result of a model, and which range
 * the result has. dt_prepare records one evaluation pass of the model, op by op, and turns it into
 * nodes; from then on the nodes run in place of the model's forward (dt_module.form):
 *
 *     integers    while enabled: codes from node to node (device.h), floats at inputs and outputs
 *     floats      while disabled, and to observe: the float ops that were recorded
 *
 * Values have numbers: input i is i, the result of node i is DT__PLAN_FIRST + i. */
#ifndef DT__QAT_DEVICE_PLAN_H
#define DT__QAT_DEVICE_PLAN_H

#include "nn/module.h"
#include "qat/quantizer.h"

#include <detent/experimental/qat.h>

#define DT__PLAN_FIRST DT_MAX_IN

typedef struct dt__plan_node {
    const dt_op *op;      /* the float op; NULL: an input or constant to quantize, or dropout */
    const void *options;  /* a copy of the call's options, or NULL */
    const char *constant; /* the name of the entry of m that is the result; NULL: none */
    dt_module *m;         /* the module that made the call; for a product the layer */
    int activation;       /* DT_ACT_... fused behind the op */
    int n_in;
    int64_t in[DT_MAX_IN];
    int64_t last; /* the last node that reads the result; INT64_MAX: an output */
    int rank;
    int64_t dims[DT_MAX_RANK]; /* the result's extents for one example: dims[0] is 1 */
    int64_t shares;   /* the value whose range the result has; the result itself: its own */
    dt_module *range; /* its quantizer, where it has a range of its own */
    bool joined;      /* a concatenation shares the range: only the result of that is observed */
    bool told;        /* dt__device_tell has named its module */
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

/* Records m on inputs of these shapes; nodes have no ranges yet. Errors: UNSUPPORTED (names all ops
 * and modules that no device op computes, or a concatenation whose operands disagree), NOMEM, those
 * of the forward pass. */
dt_status dt__device_record(dt_module *m, const dt_shape *in, int n_in, dt__device **out);
/* The recording pass: appends nodes to d (device_record.c). */
dt_status dt__device_run_shapes(dt__device *d, const dt_shape *in, int n_in);
/* A module's path for messages. */
const char *dt__plan_path(const dt_module *m);
void dt__device_free(dt_ctx *ctx, void *device);

/* Gives each result that needs one a range: a child `output` (`output2`, ...) of the module that
 * makes it, or `input` (`input2`, ...) of m. A child that exists is used; a new one gets the
 * settings that `spec_of` returns for the module's path and the child's name (*fixed: as of
 * dt__quantizer_size). Errors: NOMEM. */
typedef dt_status dt__spec_of(void *user, const char *path, const char *name, dt_quant_spec *spec,
                              bool *fixed);
dt_status dt__device_ranges(dt__device *d, dt__spec_of *spec_of, void *user);
/* Fails with CONFIG, naming two modules, where concatenated results are given different
 * settings. */
dt_status dt__device_check_joined(const dt__device *d, dt__spec_of *spec_of, void *user);
/* Calls `visit` with the module's path and the name of each range, made or not. */
typedef void dt__visit_range(void *user, const char *path, const char *name);
void dt__device_visit_ranges(const dt__device *d, dt__visit_range *visit, void *user);
/* Removes the ranges that were made. */
void dt__device_unrange(dt__device *d);

/* Makes folded norms use their running statistics from now on (device_norms.c). */
void dt__device_plan_norms(const dt__device *d);
/* Runs each node whose operands and result have known ranges by itself, on zeros. `tells`: reports
 * enlarged scales (dt__device_tell). Errors: NUMERIC (names all modules whose sums or multipliers
 * do not fit), NOMEM. */
dt_status dt__device_probe(const dt__device *d, bool tells);
/* on_call of a tape: reports, once, each layer with a scale that was enlarged. */
void dt__device_tell(void *device, const dt_call *c);
/* Installs the plan, which then belongs to m and runs in place of its forward. */
void dt__device_install(dt__device *d);
/* The plan of m; NULL where it has none. */
dt__device *dt__device_of(const dt_module *m);

/* Changes the spec of a layer that cannot have 4 bits by channel under preset `device-int4`: one
 * scale in linear layers, else 8 bits. */
void dt__device_weight_spec(const dt_module *m, dt_quant_spec *spec);
/* Whether CMSIS-NN supports a weight of m by this spec; if not, `why` says why. */
#define DT__DEVICE_BAR 160
bool dt__device_takes(const dt_module *m, const dt_quant_spec *spec, char why[DT__DEVICE_BAR]);
/* Whether m is a layer of the plan. */
bool dt__device_holds(const dt__device *d, const dt_module *m);
/* Whether batches still update a range. */
bool dt__device_observes(const dt__device *d);
/* Frees the state of all observers; ranges no longer change. */
void dt__device_fix(const dt__device *d);

/* The node whose range a value has. */
const dt__plan_node *dt__device_holder(const dt__device *d, int64_t value);
/* Runs node i alone, with the operands in `value`. The result is lent by the tape. */
dt_tensor *dt__device_run_node(const dt__device *d, dt_tape *t, dt_tensor **value, int64_t i);
/* Runs the plan (dt__form). */
void dt__device_run(void *device, dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                    dt_tensor **out, int n_out);

/* Whether batches update the running statistics of a layer's folded norm: in training, until
 * dt_norms_freeze. */
bool dt__device_warms(const dt__plan_node *node);
/* Runs the layer and its norm in floats, with the batch's statistics, which update the running ones
 * (device_norms.c). */
dt_tensor *dt__device_warm(dt_tape *t, const dt__plan_node *node, dt_tensor *x);

/* Computes scales and zero points of learned ranges from their ends. Errors: STATE (names the
 * module of a range that has seen no batch), NUMERIC. */
dt_status dt__device_check_ranges(const dt__device *d, const char *what);

#endif
