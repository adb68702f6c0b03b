/* The plan of dt_prepare: for each quantizable module, whether its weight and its input are
 * quantized, and by which specs. prepare_plan.c makes it, prepare_check.c (for device presets also
 * prepare_device.c) checks it, and prepare.c carries it out. */
#ifndef DT__QAT_PREPARE_PLAN_H
#define DT__QAT_PREPARE_PLAN_H

#include "kernels/convolution/row_map.h"
#include "qat/device/device_plan.h"
#include "qat/prepare.h"

typedef struct dt__plan_line {
    const char *path; /* owned */
    dt_module *module;
    dt_tensor *weight;
    bool selected; /* a rule or the preset selects it, and it is not skipped */
    bool skipped;  /* a rule sets `skip` */
    bool quantize_weight, quantize_input;
    bool sizes_blocks; /* the input's group size is given; else it is the weight's */
    /* the quantized weight is derived: the layer folds a norm, or has an adapter */
    bool derived;
    dt_quant_spec weight_quant, input_quant;
    dt__row_map map;      /* of the weight */
    dt__input_hook *hook; /* created, not yet added to the module */
    struct {
        dt_module *range; /* the quantizer of a static or learned range */
        bool attached;    /* the module owns the quantizer */
    } input, scale;       /* scale: of the weight */
} dt__plan_line;

typedef struct dt__plan {
    dt_ctx *ctx;
    dt_module *m;
    const dt_qat_options *options;
    dt__plan_line *line;
    int64_t n, room;
    bool matched[DT_MAX_RULES];
    dt__device *device; /* of presets for devices, until it is installed */
} dt__plan;

/* One line for each quantizable module. Errors: ARG, NOMEM. */
dt_status dt__plan_make(dt_module *m, dt__plan *p);
void dt__plan_free(dt__plan *p);
/* The index of the first rule that matches nothing; -1: there is none. */
int64_t dt__plan_unmatched(const dt__plan *p);

/* Makes all checks, before the first module changes. */
dt_status dt__plan_check(dt__plan *p);

/* For presets for devices: records the ops of the model and marks the rules that match ranges. */
dt_status dt__plan_record_device(dt__plan *p);
dt_status dt__plan_check_device(dt__plan *p, const dt__plan_line *l);
/* A dt__spec_of: the settings of the range of a result or an input. */
dt_status dt__plan_device_spec(void *user, const char *path, const char *name, dt_quant_spec *spec,
                               bool *fixed);

#endif
