/* Int8 pools of TFLite: elements outside of the image are not counted. */
#include "io/tflite/lite.h"

/* Windows of an image. */
typedef struct windows {
    int64_t kernel[2], stride[2], lead[2];
} windows;

static dt_status find(const dt__vlite_call *c, windows *w)
{
    const dt__vlite_tensor *x = c->in[0], *y = c->y;
    const int64_t *option = c->op->option;
    *w = (windows){ .kernel = { option[4], option[3] }, .stride = { option[2], option[1] } };
    bool fits = x->rank == 4 && y->rank == 4 && x->dims[3] == y->dims[3];
    if (fits) {
        const int64_t dims[] = { x->dims[0], y->dims[1], y->dims[2], y->dims[3] };
        DT__TRY(dt__vlite_wants(c, 4, dims));
    }
    for (int d = 0; d < 2 && fits; d++) {
        const int64_t in = x->dims[1 + d], k = w->kernel[d], s = w->stride[d];
        if (k <= 0 || s <= 0 || k > INT32_MAX || s > INT32_MAX) {
            return dt__vlite_refuse(c, "its windows have no extent");
        }
        const int64_t out = option[0] == 0 ? dt__ceil_div(in, s) : in < k ? 0 : (in - k) / s + 1;
        const int64_t all = (out - 1) * s + k - in;
        w->lead[d] = option[0] == 0 && all > 0 ? all / 2 : 0;
        fits = out == y->dims[1 + d];
    }
    return fits ? DT_OK : dt__vlite_refuse(c, "its result is declared with other extents");
}

/* The part of a window that is in the image, along dimension d. */
static void inside(const windows *w, int d, int64_t at, int64_t in, int64_t range[2])
{
    const int64_t from = at * w->stride[d] - w->lead[d];
    range[0] = dt__max_i64(from, 0);
    range[1] = dt__min_i64(from + w->kernel[d], in);
}

/* TFLite's division: to nearest, ties away from zero. */
static int32_t divided(int64_t sum, int64_t n)
{
    return (int32_t)(sum > 0 ? (sum + n / 2) / n : (sum - n / 2) / n);
}

static void pool(const dt__vlite_call *c, const windows *w, int64_t i, bool most)
{
    const dt__vlite_tensor *x = c->in[0];
    dt__vlite_tensor *y = c->y;
    const int64_t channels = y->dims[3], columns = y->dims[2], o = i % channels;
    const int64_t pixel = i / channels % (y->dims[1] * columns);
    const int64_t image = i / channels / (y->dims[1] * columns);
    int64_t rows[2], range[2], n = 0, sum = 0;
    int32_t largest = -128, low, high;
    inside(w, 0, pixel / columns, x->dims[1], rows);
    inside(w, 1, pixel % columns, x->dims[2], range);
    for (int64_t r = rows[0]; r < rows[1]; r++) {
        for (int64_t s = range[0]; s < range[1]; s++) {
            const int32_t q = x->q[((image * x->dims[1] + r) * x->dims[2] + s) * channels + o];
            sum += q;
            largest = q > largest ? q : largest;
            n++;
        }
    }
    const int32_t code = n == 0 ? 0 : most ? largest : divided(sum, n);
    dt__vlite_clamps((int)c->op->option[5], y, &low, &high);
    y->q[i] = code < low ? low : code > high ? high : code;
}

dt_status dt__vlite_pool_int8(dt__vlite_call *c)
{
    windows w;
    DT__TRY(find(c, &w));
    DT__TRY(dt__vlite_same_codes(c));
    const double area = (double)dt__min_i64(w.kernel[0], c->in[0]->dims[1]) *
                        (double)dt__min_i64(w.kernel[1], c->in[0]->dims[2]);
    DT__TRY(dt__vlite_work(c, (double)c->y->count * area));
    for (int64_t i = 0; i < c->y->count; i++) pool(c, &w, i, c->op->code == DT__VLITE_MAX_POOL_2D);
    return DT_OK;
}
