/* Pools: the largest element or the mean of each window. */
#include "io/onnx/interpret/interpret_window.h"

#include <math.h>

/* One window of a plane: the number of elements, their sum and the largest. */
typedef struct window_sum {
    double sum, largest;
    int64_t inside, padded; /* elements in the operand; elements including pads */
} window_sum;

static window_sum sum_window(const dt__verify_window *w, const double *x, int64_t o)
{
    window_sum s = { .largest = -(double)INFINITY };
    for (int64_t t = 0; t < w->kernel[0] * w->kernel[1]; t++) {
        const int64_t at[2] = { t / w->kernel[1], t % w->kernel[1] };
        const int64_t result[2] = { o / w->out[1], o % w->out[1] };
        int64_t place[2];
        bool in = true, padded = true;
        for (int i = 0; i < 2; i++) {
            place[i] = result[i] * w->stride[i] + at[i] * w->dilation[i] - w->before[i];
            in = in && place[i] >= 0 && place[i] < w->in[i];
            padded = padded && place[i] < w->in[i] + w->after[i];
        }
        s.padded += padded;
        if (!in) continue;
        const double a = x[place[0] * w->in[1] + place[1]];
        s.inside++;
        s.sum += a;
        if (isnan(a) || a > s.largest) s.largest = a;
    }
    return s;
}

static dt_status pool(dt__verify_call *c, bool mean)
{
    dt__verify_window w;
    dt__verify_value *y;
    double *plane;
    const dt__verify_value *x = c->in[0];
    const bool pads_count = dt__onnx_int_of(c->node, "count_include_pad", 0) != 0;
    if (dt__onnx_attribute_of(c->node, "kernel_shape") == NULL) {
        return dt__verify_refuse(c, "kernel_shape is missing");
    }
    DT__TRY(dt__verify_window_of(c, NULL, false, &w));
    DT__TRY(dt__verify_window_make(c, &w, w.channels, x->type, &y));
    const int64_t size = w.in[0] * w.in[1], results = w.out[0] * w.out[1];
    DT__TRY(dt__verify_scratch(c, size, sizeof *plane, (void **)&plane));
    DT__TRY(dt__verify_work(c, (double)y->count, (double)w.kernel[0], (double)w.kernel[1]));
    for (int64_t i = 0; i < y->count; i++) {
        if (i % results == 0) dt__verify_load_real(x, i / results * size, 1, size, plane);
        const window_sum s = sum_window(&w, plane, i % results);
        if (!mean && s.inside == 0) return dt__verify_refuse(c, "a window covers only padding");
        const double a = mean ? s.sum / (double)(pads_count ? s.padded : s.inside) : s.largest;
        dt__verify_store_real(y, i, 1, &a);
    }
    return DT_OK;
}

static dt_status max_pool(dt__verify_call *c) { return pool(c, false); }
static dt_status average_pool(dt__verify_call *c) { return pool(c, true); }

static dt_status global_pool(dt__verify_call *c, bool mean)
{
    const dt__verify_value *x = c->in[0];
    int64_t dims[DT_MAX_RANK], size = 1;
    dt__verify_value *y;
    if (x->rank < 3)
        return dt__verify_refuse(c, "an operand of %d dimensions, which is not run", x->rank);
    for (int d = 0; d < x->rank; d++) {
        dims[d] = d < 2 ? x->dims[d] : 1;
        if (d >= 2) size *= x->dims[d];
    }
    DT__TRY(dt__verify_make(c, 0, x->type, x->rank, dims, &y));
    DT__TRY(dt__verify_work(c, (double)x->count, 1, 1));
    for (int64_t i = 0; i < y->count; i++) {
        double sum = 0, largest = -(double)INFINITY;
        for (int64_t k = 0; k < size; k++) {
            const double a = dt__verify_real_at(x, i * size + k);
            sum += a;
            if (isnan(a) || a > largest) largest = a;
        }
        const double a = mean ? sum / (double)size : largest;
        dt__verify_store_real(y, i, 1, &a);
    }
    return DT_OK;
}

static dt_status global_max_pool(dt__verify_call *c) { return global_pool(c, false); }
static dt_status global_average_pool(dt__verify_call *c) { return global_pool(c, true); }

const dt__verify_operator dt__verify_pools[] = {
    { "MaxPool", max_pool, 1, 1, 2, 1, DT__VERIFY_FLOATS | DT__VERIFY_BYTES, DT__VERIFY_WINDOW,
      NULL, NULL, 0, 0 },
    { "AveragePool", average_pool, 1, 1, 1, 1, DT__VERIFY_FLOATS, DT__VERIFY_WINDOW, NULL, NULL, 0,
      0 },
    { "GlobalMaxPool", global_max_pool, 1, 1, 1, 1, DT__VERIFY_FLOATS, NULL, NULL, NULL, 0, 0 },
    { "GlobalAveragePool", global_average_pool, 1, 1, 1, 1, DT__VERIFY_FLOATS, NULL, NULL, NULL, 0,
      0 },
    { .name = NULL },
};
