/* Softmax, computed in double and rounded once.
 *     y[i] = exp(x[i] - max) / sum_k exp(x[k] - max)        log: x[i] - max - log(sum) */
#include "export/verify/onnx/verify_onnx.h"

#include <math.h>

static dt_status soft(dt__verify_call *c, bool logarithm)
{
    const dt__verify_value *x = c->in[0];
    int axis;
    int64_t inner = 1;
    dt__verify_value *y;
    double *row;
    DT__TRY(dt__verify_axis(c, dt__verify_int(c, "axis", -1), x->rank, &axis));
    DT__TRY(dt__verify_make_like(c, 0, x, &y));
    const int64_t n = x->dims[axis];
    DT__TRY(dt__verify_scratch(c, n, sizeof *row, (void **)&row));
    for (int d = axis + 1; d < x->rank; d++) inner *= x->dims[d];
    for (int64_t i = 0; n > 0 && i < x->count / n; i++) {
        const int64_t start = i / inner * inner * n + i % inner;
        double most = -(double)INFINITY, sum = 0;
        dt__verify_load_real(x, start, inner, n, row);
        for (int64_t k = 0; k < n; k++) most = isnan(row[k]) || row[k] > most ? row[k] : most;
        for (int64_t k = 0; k < n; k++) sum += exp(row[k] - most);
        for (int64_t k = 0; k < n; k++) {
            const double a = row[k] - most;
            const double p = logarithm ? a - log(sum) : exp(a) / sum;
            dt__verify_store_real(y, start + k * inner, 1, &p);
        }
    }
    return DT_OK;
}

static dt_status softmax(dt__verify_call *c) { return soft(c, false); }
static dt_status log_softmax(dt__verify_call *c) { return soft(c, true); }

const dt__verify_operator dt__verify_softmaxes[] = {
    { "Softmax", softmax, 1, 1, 1, 1, DT__VERIFY_FLOATS, "axis ", NULL, NULL, 0, 0 },
    { "LogSoftmax", log_softmax, 1, 1, 1, 1, DT__VERIFY_FLOATS, "axis ", NULL, NULL, 0, 0 },
    { .name = NULL },
};
