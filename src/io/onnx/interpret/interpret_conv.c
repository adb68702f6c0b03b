/* Convolutions in one and two dimensions, of reals and of 8-bit integers.
 *
 *     y[n, m, o] = b[m] + sum_{c, t} w[m, c, t] x[n, group c, o stride - before + t dilation]
 *
 * Sums run in double, c and t ascending: those of integers are exact, those of reals are rounded
 * once at their end. Padding is zero; for ConvInteger it is the zero point, which is subtracted
 * from all elements. */
#include "io/onnx/interpret/interpret_window.h"

typedef struct conv {
    const dt__verify_call *c;
    dt__verify_window w;
    int64_t out_channels, group;
    int64_t in_each, out_each; /* channels per group */
    double *x;                 /* planes of one example */
    double *kernel;            /* the whole kernel */
    double *y;                 /* one plane; if transposed: all planes of an example */
} conv;

static int64_t taps(const conv *v) { return v->w.kernel[0] * v->w.kernel[1]; }
static int64_t pixels(const conv *v) { return v->w.in[0] * v->w.in[1]; }
static int64_t results(const conv *v) { return v->w.out[0] * v->w.out[1]; }

/* The extents of the kernel [m, c / group, ...], transposed [c, m / group, ...]. */
static dt_status read_conv(dt__verify_call *c, bool transposed, conv *v)
{
    const dt__verify_value *x = c->in[0], *kernel = c->in[1];
    v->group = dt__onnx_int_of(c->node, "group", 1);
    if (x->rank < 3 || x->rank != kernel->rank || kernel->count == 0 || v->group < 1) {
        return dt__verify_refuse(
            c, "an operand of %d dimensions for a kernel of %d; expected the same", x->rank,
            kernel->rank);
    }
    DT__TRY(dt__verify_window_of(c, kernel->dims + 2, transposed, &v->w));
    const int64_t first = kernel->dims[0], second = kernel->dims[1];
    const bool fits = transposed ? first == v->w.channels && first % v->group == 0
                                 : first % v->group == 0 && v->w.channels % v->group == 0 &&
                                       second == v->w.channels / v->group;
    if (!fits) {
        return dt__verify_refuse(c, "%lld channels in %lld groups do not fit the kernel",
                                 (long long)v->w.channels, (long long)v->group);
    }
    v->in_each = v->w.channels / v->group;
    v->out_each = transposed ? second : first / v->group;
    v->out_channels = v->out_each * v->group;
    return DT_OK;
}

/* Allocates memory for one example, the kernel and `planes` planes of the result. */
static dt_status conv_room(dt__verify_call *c, conv *v, const dt__verify_value *y, int64_t planes)
{
    v->c = c;
    DT__TRY(dt__verify_work(c, (double)y->count * (double)v->in_each, (double)taps(v), 1));
    DT__TRY(dt__verify_scratch(c, v->w.channels * pixels(v), sizeof *v->x, (void **)&v->x));
    DT__TRY(dt__verify_scratch(c, c->in[1]->count, sizeof *v->x, (void **)&v->kernel));
    DT__TRY(dt__verify_scratch(c, planes * results(v), sizeof *v->y, (void **)&v->y));
    dt__verify_load_real(c->in[1], 0, 1, c->in[1]->count, v->kernel);
    return DT_OK;
}

static void load_example(dt__verify_call *c, const conv *v, int64_t n)
{
    const int64_t size = v->w.channels * pixels(v);
    dt__verify_load_real(c->in[0], n * size, 1, size, v->x);
}

/* The results o in *from ... *to - 1 for which o stride - before + shift lies in 0...in - 1. */
static void inside(const dt__verify_window *w, int i, int64_t tap, int64_t *from, int64_t *to)
{
    const int64_t shift = tap * w->dilation[i] - w->before[i];
    *from = shift >= 0 ? 0 : dt__ceil_div(-shift, w->stride[i]);
    *to = shift >= w->in[i] ? 0 : (w->in[i] - 1 - shift) / w->stride[i] + 1;
    *to = dt__min_i64(*to, w->out[i]);
}

/* y += k x for kernel tap (i, j) and one channel x. */
static void add_tap(const conv *v, const double *x, double k, int64_t i, int64_t j, double *y)
{
    const dt__verify_window *w = &v->w;
    int64_t top, bottom, left, right;
    inside(w, 0, i, &top, &bottom);
    inside(w, 1, j, &left, &right);
    for (int64_t h = top; h < bottom; h++) {
        const int64_t row = h * w->stride[0] + i * w->dilation[0] - w->before[0];
        const int64_t start = row * w->in[1] + j * w->dilation[1] - w->before[1];
        for (int64_t o = left; o < right; o++) {
            y[h * w->out[1] + o] += k * x[start + o * w->stride[1]];
        }
    }
}

/* Computes the plane of output channel m in v->y. */
static void convolve(const conv *v, int64_t m)
{
    const int64_t first = m / v->out_each * v->in_each, n = taps(v);
    for (int64_t o = 0; o < results(v); o++) v->y[o] = 0;
    for (int64_t k = 0; k < v->in_each; k++) {
        const double *kernel = v->kernel + (m * v->in_each + k) * n;
        const double *x = v->x + (first + k) * pixels(v);
        for (int64_t t = 0; t < n; t++) {
            add_tap(v, x, kernel[t], t / v->w.kernel[1], t % v->w.kernel[1], v->y);
        }
        dt__verify_did(v->c, (double)(n * results(v)));
    }
}

static dt_status check_bias(const dt__verify_call *c, int64_t n)
{
    const dt__verify_value *bias = dt__verify_in(c, 2);
    if (bias == NULL || (bias->rank == 1 && bias->count == n)) return DT_OK;
    return dt__verify_refuse(c, "a bias of %lld for %lld channels; expected one for each",
                             (long long)bias->count, (long long)n);
}

static dt_status convolution(dt__verify_call *c)
{
    conv v;
    dt__verify_value *y;
    const dt__verify_value *bias = dt__verify_in(c, 2);
    DT__TRY(read_conv(c, false, &v));
    DT__TRY(check_bias(c, v.out_channels));
    DT__TRY(dt__verify_window_make(c, &v.w, v.out_channels, c->in[0]->type, &y));
    DT__TRY(conv_room(c, &v, y, 1));
    for (int64_t i = 0; i < v.w.batch * v.out_channels; i++) {
        const int64_t m = i % v.out_channels;
        if (m == 0) load_example(c, &v, i / v.out_channels);
        convolve(&v, m);
        for (int64_t o = 0; bias != NULL && o < results(&v); o++) {
            v.y[o] += dt__verify_real_at(bias, m);
        }
        dt__verify_store_real(y, i * results(&v), results(&v), v.y);
    }
    return DT_OK;
}

static dt_status convolution_of_integers(dt__verify_call *c)
{
    conv v;
    dt__verify_value *y;
    const dt__verify_value *zero_x = dt__verify_in(c, 2), *zero_w = dt__verify_in(c, 3);
    DT__TRY(read_conv(c, false, &v));
    if ((DT__VERIFY_BYTES >> c->in[1]->type & 1) == 0 ||
        (zero_x != NULL && (zero_x->count != 1 || zero_x->type != c->in[0]->type)) ||
        (zero_w != NULL && zero_w->count != 1 && zero_w->count != v.out_channels) ||
        (zero_w != NULL && zero_w->type != c->in[1]->type)) {
        return dt__verify_refuse(c, "the kernel or zero points do not fit the operand");
    }
    DT__TRY(dt__verify_window_make(c, &v.w, v.out_channels, DT__VERIFY_I32, &y));
    DT__TRY(conv_room(c, &v, y, 1));
    const int64_t each = c->in[1]->count / v.out_channels;
    for (int64_t i = 0; zero_w != NULL && i < c->in[1]->count; i++) {
        v.kernel[i] -= dt__verify_real_at(zero_w, zero_w->count == 1 ? 0 : i / each);
    }
    const double zero = zero_x == NULL ? 0 : dt__verify_real_at(zero_x, 0);
    for (int64_t i = 0; i < v.w.batch * v.out_channels; i++) {
        if (i % v.out_channels == 0) {
            load_example(c, &v, i / v.out_channels);
            for (int64_t k = 0; k < v.w.channels * pixels(&v); k++) v.x[k] -= zero;
        }
        convolve(&v, i % v.out_channels);
        for (int64_t o = 0; o < results(&v); o++) {
            const int64_t sum = (int64_t)v.y[o];
            dt__verify_store_whole(y, i * results(&v) + o, 1, &sum);
        }
    }
    return DT_OK;
}

/* y[o] += k x[i] where o = i stride - before + tap dilation */
static void spread_tap(const conv *v, const double *x, double k, int64_t t, double *y)
{
    const dt__verify_window *w = &v->w;
    const int64_t down = t / w->kernel[1] * w->dilation[0] - w->before[0];
    const int64_t right = t % w->kernel[1] * w->dilation[1] - w->before[1];
    for (int64_t h = 0; h < w->in[0]; h++) {
        const int64_t row = h * w->stride[0] + down;
        if (row < 0 || row >= w->out[0]) continue;
        for (int64_t i = 0; i < w->in[1]; i++) {
            const int64_t column = i * w->stride[1] + right;
            if (column < 0 || column >= w->out[1]) continue;
            y[row * w->out[1] + column] += k * x[h * w->in[1] + i];
        }
    }
}

static dt_status transposed_convolution(dt__verify_call *c)
{
    conv v;
    dt__verify_value *y;
    const dt__verify_value *bias = dt__verify_in(c, 2);
    DT__TRY(read_conv(c, true, &v));
    DT__TRY(check_bias(c, v.out_channels));
    DT__TRY(dt__verify_window_make(c, &v.w, v.out_channels, c->in[0]->type, &y));
    DT__TRY(conv_room(c, &v, y, v.out_channels));
    DT__TRY(dt__verify_work(c, (double)c->in[0]->count * (double)v.out_each, (double)taps(&v), 1));
    const int64_t size = v.out_channels * results(&v), n = taps(&v);
    for (int64_t i = 0; i < v.w.batch; i++) {
        load_example(c, &v, i);
        for (int64_t o = 0; o < size; o++) v.y[o] = 0;
        for (int64_t k = 0; k < v.w.channels * v.out_each; k++) {
            const int64_t from = k / v.out_each;
            const int64_t to = from / v.in_each * v.out_each + k % v.out_each;
            for (int64_t t = 0; t < n; t++) {
                spread_tap(&v, v.x + from * pixels(&v), v.kernel[k * n + t], t,
                           v.y + to * results(&v));
            }
            dt__verify_did(v.c, (double)(n * pixels(&v)));
        }
        for (int64_t o = 0; bias != NULL && o < size; o++) {
            v.y[o] += dt__verify_real_at(bias, o / results(&v));
        }
        dt__verify_store_real(y, i * size, size, v.y);
    }
    return DT_OK;
}

const dt__verify_operator dt__verify_convolutions[] = {
    { "Conv", convolution, 2, 3, 1, 3, DT__VERIFY_FLOATS, DT__VERIFY_WINDOW, NULL, NULL, 0, 0 },
    { "ConvInteger", convolution_of_integers, 2, 4, 1, 1, DT__VERIFY_BYTES, DT__VERIFY_WINDOW, NULL,
      NULL, 0, 0 },
    { "ConvTranspose", transposed_convolution, 2, 3, 1, 3, DT__VERIFY_FLOATS, DT__VERIFY_WINDOW,
      NULL, NULL, 0, 0 },
    { .name = NULL },
};
