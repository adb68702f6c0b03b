/* Softmax and normalizations, computed in double and rounded once. */
#include "io/onnx/interpret/interpret.h"

#include <math.h>

/* ---- softmax ---------------------------------------------------------------------------------
 *
 *     y[i] = exp(x[i] - max) / sum_k exp(x[k] - max)        log: x[i] - max - log(sum) */

static dt_status soft(dt__verify_call *c, bool logarithm)
{
    const dt__verify_value *x = c->in[0];
    int axis;
    int64_t inner = 1;
    dt__verify_value *y;
    double *row;
    DT__TRY(dt__verify_axis(c, dt__onnx_int_of(c->node, "axis", -1), x->rank, &axis));
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

/* ---- norms -----------------------------------------------------------------------------------
 *
 *     y = (x - mean) / sqrt(var + epsilon) * scale + bias */

/* Mean and 1 / sqrt(var + epsilon) of n elements. */
static void moments(const double *x, int64_t n, double epsilon, double *mean, double *inverse)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) squares += (x[i] - *mean) * (x[i] - *mean);
    *inverse = 1 / sqrt(squares / (double)n + epsilon);
}

/* Results 1 and 2 of LayerNormalization have extent 1 for each normalized dimension. */
static dt_status make_moments(dt__verify_call *c, int axis, dt__verify_value *out[2])
{
    const dt__verify_value *x = c->in[0];
    int64_t dims[DT_MAX_RANK];
    for (int d = 0; d < x->rank; d++) dims[d] = d < axis ? x->dims[d] : 1;
    for (int64_t k = 0; k < 2; k++) {
        out[k] = NULL;
        if (k + 1 >= c->n_out || c->out[k + 1] == NULL) continue;
        DT__TRY(dt__verify_make(c, k + 1, DT__VERIFY_F32, x->rank, dims, &out[k]));
    }
    return DT_OK;
}

static dt_status layer_norm(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0], *scale = c->in[1], *bias = dt__verify_in(c, 2);
    int axis;
    int64_t n = 1;
    dt__verify_value *y, *moment[2];
    double *row;
    dt__verify_walk w = { .rank = x->rank };
    DT__TRY(dt__verify_axis(c, dt__onnx_int_of(c->node, "axis", -1), x->rank, &axis));
    DT__TRY(dt__verify_make_like(c, 0, x, &y));
    DT__TRY(make_moments(c, axis, moment));
    for (int d = 0; d < x->rank; d++) {
        w.dims[d] = x->dims[d];
        if (d >= axis) n *= x->dims[d];
    }
    DT__TRY(dt__verify_spread(c, scale, x->rank, x->dims, w.stride[0]));
    if (bias != NULL) DT__TRY(dt__verify_spread(c, bias, x->rank, x->dims, w.stride[1]));
    DT__TRY(dt__verify_scratch(c, n, sizeof *row, (void **)&row));
    const double epsilon = dt__onnx_real_attribute(c->node, "epsilon", (double)1e-5f);
    for (int64_t i = 0; n > 0 && i < x->count / n; i++) {
        double m[2];
        dt__verify_load_real(x, i * n, 1, n, row);
        moments(row, n, epsilon, &m[0], &m[1]);
        for (int k = 0; k < 2; k++) {
            if (moment[k] != NULL) dt__verify_store_real(moment[k], i, 1, &m[k]);
        }
        for (int64_t k = 0; k < n; k++, dt__verify_step(&w)) {
            double a = (row[k] - m[0]) * m[1] * dt__verify_real_at(scale, w.offset[0]);
            if (bias != NULL) a += dt__verify_real_at(bias, w.offset[1]);
            dt__verify_store_real(y, i * n + k, 1, &a);
        }
    }
    return DT_OK;
}

/* Checks operands [n, c, ...]: inputs 1...end - 1 must have one element per channel. */
static dt_status planes_of(const dt__verify_call *c, int64_t end, int64_t *size)
{
    const dt__verify_value *x = c->in[0];
    *size = 1;
    if (x->rank < 2)
        return dt__verify_refuse(c, "an operand of %d dimensions; expected [batch, channels, ...]",
                                 x->rank);
    for (int d = 2; d < x->rank; d++) *size *= x->dims[d];
    for (int64_t k = 1; k < end; k++) {
        if (c->in[k]->count == x->dims[1] && dt__verify_is_real(c->in[k]->type)) continue;
        return dt__verify_refuse(c, "input %lld is not %lld floats", (long long)k,
                                 (long long)x->dims[1]);
    }
    return DT_OK;
}

static dt_status batch_norm(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    int64_t size;
    dt__verify_value *y;
    if (dt__onnx_int_of(c->node, "training_mode", 0) != 0) {
        return dt__verify_refuse(c, "training_mode is not known here");
    }
    DT__TRY(planes_of(c, 5, &size));
    DT__TRY(dt__verify_make_like(c, 0, x, &y));
    const double epsilon = dt__onnx_real_attribute(c->node, "epsilon", (double)1e-5f);
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t k = i / size % x->dims[1];
        const double scale = dt__verify_real_at(c->in[1], k),
                     bias = dt__verify_real_at(c->in[2], k);
        const double mean = dt__verify_real_at(c->in[3], k), var = dt__verify_real_at(c->in[4], k);
        const double a = (dt__verify_real_at(x, i) - mean) / sqrt(var + epsilon) * scale + bias;
        dt__verify_store_real(y, i, 1, &a);
    }
    return DT_OK;
}

/* Normalizes each group of channels of each example. */
static dt_status norm_groups(dt__verify_call *c, int64_t groups)
{
    const dt__verify_value *x = c->in[0];
    int64_t size;
    dt__verify_value *y;
    double *row;
    DT__TRY(planes_of(c, 3, &size));
    if (groups < 1 || x->dims[1] % groups != 0) {
        return dt__verify_refuse(c,
                                 "%lld channels in %lld groups; expected groups that divide them",
                                 (long long)x->dims[1], (long long)groups);
    }
    DT__TRY(dt__verify_make_like(c, 0, x, &y));
    const int64_t n = x->dims[1] / groups * size;
    DT__TRY(dt__verify_scratch(c, n, sizeof *row, (void **)&row));
    const double epsilon = dt__onnx_real_attribute(c->node, "epsilon", (double)1e-5f);
    for (int64_t i = 0; n > 0 && i < x->count / n; i++) {
        double mean, inverse;
        dt__verify_load_real(x, i * n, 1, n, row);
        moments(row, n, epsilon, &mean, &inverse);
        for (int64_t k = 0; k < n; k++) {
            const int64_t channel = (i * n + k) / size % x->dims[1];
            const double a = (row[k] - mean) * inverse * dt__verify_real_at(c->in[1], channel) +
                             dt__verify_real_at(c->in[2], channel);
            dt__verify_store_real(y, i * n + k, 1, &a);
        }
    }
    return DT_OK;
}

static dt_status group_norm(dt__verify_call *c)
{
    return norm_groups(c, dt__onnx_int_of(c->node, "num_groups", 0));
}

static dt_status instance_norm(dt__verify_call *c)
{
    return norm_groups(c, c->in[0]->rank < 2 ? 0 : c->in[0]->dims[1]);
}

const dt__verify_operator dt__verify_norms[] = {
    { "Softmax", softmax, 1, 1, 1, 1, DT__VERIFY_FLOATS, "axis ", NULL, NULL, 0, 0 },
    { "LogSoftmax", log_softmax, 1, 1, 1, 1, DT__VERIFY_FLOATS, "axis ", NULL, NULL, 0, 0 },
    { "LayerNormalization", layer_norm, 2, 3, 3, 3, DT__VERIFY_FLOATS, "axis epsilon stash_type ",
      NULL, NULL, 0, 0 },
    { "BatchNormalization", batch_norm, 5, 5, 1, 1, DT__VERIFY_FLOATS,
      "epsilon momentum training_mode ", NULL, NULL, 0, 0 },
    { "GroupNormalization", group_norm, 3, 3, 1, 3, DT__VERIFY_FLOATS,
      "epsilon num_groups stash_type ", NULL, NULL, 0, 0 },
    { "InstanceNormalization", instance_norm, 3, 3, 1, 3, DT__VERIFY_FLOATS, "epsilon ", NULL, NULL,
      0, 0 },
    { .name = NULL },
};
