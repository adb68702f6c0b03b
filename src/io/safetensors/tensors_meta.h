/* Integer weights in a file without a model: their metadata. */
#ifndef DT__IO_TENSORS_META_H
#define DT__IO_TENSORS_META_H

#include "io/model/code_rows.h"
#include "core/text/json.h"

#include <detent/experimental/ops.h>

#define DT__KEY_TENSORS "detent.tensors"
#define DT__KEY_ROUNDING "detent.rounding" /* how the codes were chosen; for information only */

enum { DT__CODES_PACKED, DT__CODES_I8 };

/* "linear", "conv1d", ..., numbered as in ptq.h; ended by NULL. */
extern const char *const dt__weight_op_names[];
/* The rank of an op's weight. */
int dt__weight_op_rank(int op);

typedef struct dt__tensor_weight {
    const char *name;
    dt_quant_spec scheme;
    bool has_range; /* static or learned range */
    int op;
    bool has_conv; /* op is a convolution */
    dt_conv_options conv;
    dt_ints shape; /* in the op's order of dimensions */
    int codes;     /* DT__CODES_... */
    bool ordered;  /* NAME.g_idx exists: the group of each column */
    const char *rounder;
    int64_t samples; /* calibration samples */
} dt__tensor_weight;

/* All weights of a file, in its order; an empty list if it has none. */
typedef struct dt__tensors {
    dt_ctx *ctx;
    dt__tensor_weight *at;
    int64_t n, room;
    char *strings;
} dt__tensors;

/* FORMAT, saying what is wrong; after an error there is nothing to free. */
dt_status dt__tensors_read(const dt_file *file, dt__tensors *out);
void dt__tensors_free(dt__tensors *t);
/* The JSON object of one weight, without its name. */
void dt__put_tensor_weight(dt__chars *t, const dt__tensor_weight *w);
/* *out: the form of a weight's rows, which refers to w->scheme; false: op and shape do not fit
 * together. */
bool dt__tensor_form(const dt__tensor_weight *w, dt__rows_form *out);
/* Checks codes, scales and the other parts of every weight: FORMAT. */
dt_status dt__tensors_check(const dt_file *file);

#endif
