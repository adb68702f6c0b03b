/* Elementwise operators: operands broadcast to the result as in numpy, and are processed in parts
 * of rows. */
#include "io/onnx/interpret/interpret.h"

#include <string.h>

dt_status dt__verify_broadcast(const dt__verify_call *c, const dt__verify_value *const *x,
                               int64_t n, int *rank, int64_t dims[DT_MAX_RANK])
{
    *rank = 0;
    for (int64_t k = 0; k < n; k++) {
        if (x[k] != NULL && x[k]->rank > *rank) *rank = x[k]->rank;
    }
    for (int d = 0; d < *rank; d++) dims[d] = 1;
    for (int64_t k = 0; k < n; k++) {
        for (int d = 0; x[k] != NULL && d < x[k]->rank; d++) {
            int64_t *to = &dims[*rank - x[k]->rank + d];
            if (*to == 1) *to = x[k]->dims[d];
            else if (x[k]->dims[d] != 1 && x[k]->dims[d] != *to) {
                return dt__verify_refuse(c,
                                         "operands of %lld and %lld elements along one dimension; "
                                         "expected as many, or 1",
                                         (long long)*to, (long long)x[k]->dims[d]);
            }
        }
    }
    return DT_OK;
}

dt_status dt__verify_spread(const dt__verify_call *c, const dt__verify_value *x, int rank,
                            const int64_t *dims, int64_t stride[DT_MAX_RANK])
{
    int64_t own[DT_MAX_RANK];
    const int lead = rank - x->rank;
    dt__verify_strides(x, own);
    bool fits = lead >= 0;
    for (int d = 0; fits && d < rank; d++) {
        const bool one = d < lead || x->dims[d - lead] == 1;
        stride[d] = one ? 0 : own[d - lead];
        fits = one || x->dims[d - lead] == dims[d];
    }
    return fits ? DT_OK
                : dt__verify_refuse(
                      c, "an operand does not fit the result's extents; expected the same, or 1");
}

/* Processes one row of y, whose operands begin at row->from and are `step` apart. */
static dt_status run_row(dt__verify_row row, int64_t n, dt__verify_row_function *function)
{
    for (int64_t left = n; left > 0; left -= row.n) {
        row.n = dt__min_i64(left, DT__VERIFY_CHUNK);
        DT__TRY(function(&row));
        row.to += row.n;
        for (int k = 0; k < DT__VERIFY_OPERANDS; k++) row.from[k] += row.n * row.step[k];
    }
    return DT_OK;
}

dt_status dt__verify_rows(dt__verify_row *row, dt__verify_row_function *function)
{
    const dt__verify_value *y = row->y;
    dt__verify_walk w = { .rank = y->rank > 0 ? y->rank - 1 : 0 };
    memcpy(w.dims, y->dims, sizeof w.dims);
    for (int k = 0; k < DT__VERIFY_OPERANDS; k++) {
        if (row->x[k] == NULL) continue;
        DT__TRY(dt__verify_spread(row->c, row->x[k], y->rank, y->dims, w.stride[k]));
        row->step[k] = y->rank == 0 ? 0 : w.stride[k][y->rank - 1];
    }
    const int64_t n = y->rank == 0 ? 1 : y->dims[y->rank - 1];
    for (row->to = 0; row->to < y->count; row->to += n) {
        memcpy(row->from, w.offset, sizeof row->from);
        DT__TRY(run_row(*row, n, function));
        dt__verify_step(&w);
    }
    return DT_OK;
}
