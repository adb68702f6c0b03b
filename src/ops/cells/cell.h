/* The common part of gru_cell and lstm_cell. Operands: gi and gh, [N, gates H] each, and the old
 * state, [parts N, H]. Results: the new state and, for backward, `kept` values. */
#ifndef DT__OPS_CELL_H
#define DT__OPS_CELL_H

#include "autograd/op.h"

enum { DT__CELL_GI, DT__CELL_GH, DT__CELL_STATE };

dt_status dt__cell_shape(dt_call *c, int gates, int kept, int parts);
void dt__cell_forward(const dt_call *c, int parts, void (*kernel)(const dt__cell *));
void dt__cell_backward(const dt_call *c, int parts, const dt_tensor *dy, dt_tensor *const *dx,
                       void (*kernel)(const dt__cell *, const void *dy, void *const *d));

/* Fields of both ops. */
#define DT__CELL_OPERANDS                                                                          \
    .out_name = { "y", "gates" }, .ungrouped = true,                                               \
    .saves = { .arg = { DT_NOTHING, DT_NOTHING, DT_VALUE }, .out = { DT_NOTHING, DT_VALUE } },     \
    .shape = shape, .forward = forward, .backward = backward, .over_dy = { false, false, true },   \
    .lower = lower

#endif
