/* Sums, means, maxima and softmax of TFLite. */
#include "io/tflite/lite.h"

#include <math.h>
#include <string.h>

/* Which axes are reduced, and the extents that stay. */
static dt_status find_axes(const dt__vlite_call *c, bool gone[DT__VLITE_RANK])
{
    const dt__vlite_tensor *x = c->in[0];
    int64_t axes[2 * DT__VLITE_RANK], dims[DT__VLITE_RANK];
    int n, rank = 0;
    memset(gone, 0, DT__VLITE_RANK * sizeof *gone);
    DT__TRY(dt__vlite_list(c, 1, &n, axes));
    for (int i = 0; i < n; i++) {
        int axis;
        DT__TRY(dt__vlite_axis(c, axes[i], x->rank, &axis));
        gone[axis] = true;
    }
    for (int d = 0; d < x->rank; d++) {
        if (!gone[d]) dims[rank++] = x->dims[d];
        else if (c->op->option[0] != 0) dims[rank++] = 1;
    }
    return dt__vlite_wants(c, rank, dims);
}

static dt_status run_reduce(dt__vlite_call *c)
{
    bool gone[DT__VLITE_RANK];
    const dt__vlite_tensor *x = c->in[0];
    const bool most = c->op->code == DT__VLITE_REDUCE_MAX, mean = c->op->code == DT__VLITE_MEAN;
    const bool codes = mean && dt__vlite_is_coded(x) && dt__vlite_is_coded(c->y);
    if (!codes && (x->f == NULL || c->y->f == NULL)) {
        return dt__vlite_refuse(c, "its values are not floats");
    }
    DT__TRY(find_axes(c, gone));
    DT__TRY(dt__vlite_work(c, (double)x->count));
    double *sum = dt__vlite_memory(c->v, c->y->count, sizeof *sum);
    if (sum == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < c->y->count; i++) sum[i] = most ? -INFINITY : 0;
    for (int64_t i = 0; i < x->count; i++) {
        int64_t rest = i, at = 0, step = 1;
        for (int d = x->rank - 1; d >= 0; d--) {
            if (!gone[d]) {
                at += rest % x->dims[d] * step;
                step *= x->dims[d];
            }
            rest /= x->dims[d];
        }
        const double v = codes ? (double)(x->q[i] - x->zero[0]) : (double)x->f[i];
        sum[at] = most ? (v > sum[at] || isnan(v) ? v : sum[at]) : sum[at] + v;
    }
    const double n = (double)x->count / (double)dt__max_i64(1, c->y->count);
    for (int64_t i = 0; i < c->y->count && codes; i++) {
        c->y->q[i] = dt__vlite_mean_int8(c, (int64_t)sum[i], (int64_t)n);
    }
    for (int64_t i = 0; i < c->y->count && !codes; i++) {
        c->y->f[i] = (float)(mean ? sum[i] / n : sum[i]);
    }
    return DT_OK;
}

static dt_status run_softmax(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0];
    const bool log_of = c->op->code == DT__VLITE_LOG_SOFTMAX;
    DT__TRY(dt__vlite_wants(c, x->rank, x->dims));
    if (x->q != NULL) return dt__vlite_softmax_int8(c);
    DT__TRY(dt__vlite_floats(c));
    const int64_t n = x->rank == 0 ? 1 : x->dims[x->rank - 1];
    const double beta = log_of ? 1 : (double)c->op->real;
    for (int64_t row = 0; n > 0 && row < x->count / n; row++) {
        const float *v = x->f + row * n;
        float least = INFINITY, most = -INFINITY;
        for (int64_t i = 0; i < n; i++) least = fminf(least, v[i]);
        for (int64_t i = 0; i < n; i++) most = fmaxf(most, v[i]);
        const double largest = beta * (double)(beta < 0 ? least : most);
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += exp(beta * (double)v[i] - largest);
        for (int64_t i = 0; i < n; i++) {
            const double d = beta * (double)v[i] - largest;
            c->y->f[row * n + i] = (float)(log_of ? d - log(sum) : exp(d) / sum);
        }
    }
    return DT_OK;
}

const dt__vlite_operator dt__vlite_sums[] = {
    { DT__VLITE_ROW(SOFTMAX), 1, 1, run_softmax, { 4 }, NULL },
    { DT__VLITE_ROW(MEAN), 2, 2, run_reduce, { 1 }, NULL },
    { DT__VLITE_ROW(LOG_SOFTMAX), 1, 1, run_softmax, { 0 }, NULL },
    { DT__VLITE_ROW(SUM), 2, 2, run_reduce, { 1 }, NULL },
    { DT__VLITE_ROW(REDUCE_MAX), 2, 2, run_reduce, { 1 }, NULL },
    { 0, NULL, 0, 0, NULL, { 0 }, NULL },
};
