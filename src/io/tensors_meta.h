/* Integer weights of a file without a model: what its metadata say of each. */
#ifndef DT__IO_TENSORS_META_H
#define DT__IO_TENSORS_META_H

#include "io/code_rows.h"
#include "core/json.h"

#include <detent/ops.h>

#define DT__KEY_TENSORS "detent.tensors"
#define DT__KEY_ROUNDING "detent.rounding" /* how the codes were chosen: for people and programs */

enum { DT__CODES_PACKED, DT__CODES_I8 };

/* "linear", "conv1d", ..., as ptq.h numbers them; ended by NULL. */
extern const char *const dt__weight_op_names[];
/* The rank of its weight. */
int dt__weight_op_rank(int op);

typedef struct dt__tensor_weight {
    const char *name;
    dt_quant_spec scheme;
    bool has_range; /* not dynamic */
    int op;
    bool has_conv; /* op is a convolution */
    dt_conv_options conv;
    dt_ints shape; /* as the op has it */
    int codes;     /* DT__CODES_... */
    bool ordered;  /* NAME.g_idx says which group a column is in */
    const char *rounder;
    int64_t samples; /* that it looked at */
} dt__tensor_weight;

/* All of a file, in its order; none where it has none. */
typedef struct dt__tensors {
    dt_ctx *ctx;
    dt__tensor_weight *at;
    int64_t n, room;
    char *strings;
} dt__tensors;

/* FORMAT, saying what is wrong; then there is nothing to free. */
dt_status dt__tensors_read(const dt_file *file, dt__tensors *out);
void dt__tensors_free(dt__tensors *t);
/* The object of one weight, without its name. */
void dt__put_tensor_weight(dt__chars *t, const dt__tensor_weight *w);
/* The rows that a weight has; false where op and shape do not go together. Refers to w->scheme. */
bool dt__tensor_form(const dt__tensor_weight *w, dt__rows_form *out);
/* Checks codes, scales and the rest of every weight: FORMAT. */
dt_status dt__tensors_check(const dt_file *file);

#endif
