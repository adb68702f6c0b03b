/* Checks, forward and backward of recurrent cells. */
#include "ops/cells/cell.h"

dt_status dt__cell_shape(dt_call *c, int gates, int kept, int parts)
{
    DT__TRY(dt__want_operands(c, 3, 3));
    for (int i = 0; i < 3; i++) DT__TRY(dt__want_float(c, i));
    DT__TRY(dt__want_rank(c, DT__CELL_GI, 2, 2));
    const dt_tensor *gi = c->in[DT__CELL_GI];
    const int64_t rows = gi->dims[0], hidden = gi->dims[1] / gates;
    if (gi->dims[1] % gates != 0) {
        return dt_refuse(c, DT_ERR_SHAPE, "gi has %lld columns, which %d gates do not divide",
                         (long long)gi->dims[1], gates);
    }
    DT__TRY(dt__want_dims(c, DT__CELL_GH, 2, gi->dims));
    /* Extents of float tensors are at most 2^60, so products with small numbers do not overflow. */
    DT__TRY(dt__want_dims(c, DT__CELL_STATE, 2, (const int64_t[]){ parts * rows, hidden }));
    DT__TRY(dt_result(c, 0, gi->dtype, 2, c->in[DT__CELL_STATE]->dims));
    if (!c->recording) return DT_OK;
    return dt_result(c, 1, gi->dtype, 3, (const int64_t[]){ rows, kept, hidden });
}

void dt__cell_forward(const dt_call *c, int parts, void (*kernel)(const dt__cell *))
{
    kernel(&(dt__cell){ .rows = c->y->dims[0] / parts,
                        .hidden = c->y->dims[1],
                        .gi = dt__data(c->arg[DT__CELL_GI]),
                        .gh = dt__data(c->arg[DT__CELL_GH]),
                        .state = dt__data(c->arg[DT__CELL_STATE]),
                        .y = dt__data_mut(c->y),
                        .gates = c->recording ? dt__data_mut(c->out[1]) : NULL });
}

void dt__cell_backward(const dt_call *c, int parts, const dt_tensor *dy, dt_tensor *const *dx,
                       void (*kernel)(const dt__cell *, const void *dy, void *const *d))
{
    const dt__cell cell = { .rows = dy->dims[0] / parts,
                            .hidden = dy->dims[1],
                            .state = dt__data(c->arg[DT__CELL_STATE]),
                            .gates = dt__data_mut(c->out[1]) };
    void *d[3];
    for (int i = 0; i < 3; i++) d[i] = dx[i] != NULL ? dt__data_mut(dx[i]) : NULL;
    kernel(&cell, dt__data(dy), d);
}
