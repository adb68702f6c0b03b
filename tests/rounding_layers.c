/* Random layers of all kinds, unfolded element by element. */
#include "rounding_reference.h"

#include "core/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int64_t draw(dt__stream *s, int64_t least, int64_t most)
{
    return least + (int64_t)dt__random_below(s, (uint64_t)(most - least + 1));
}

static double normal(dt__stream *s)
{
    const double u = 1 - dt__random_unit(s), v = dt__random_unit(s);
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

/* ---- shapes --------------------------------------------------------------------------------- */

typedef struct shapes {
    int weight_rank, input_rank;
    int64_t weight[4], input[4];
} shapes;

/* Leading dimensions of any number in front of the channels. */
static void linear_shapes(dt__stream *s, shapes *out)
{
    out->weight_rank = 2;
    out->weight[0] = draw(s, 1, 12);
    out->weight[1] = draw(s, 2, 40);
    out->input_rank = (int)draw(s, 2, 4);
    int64_t left = draw(s, 1, 4) * 24;
    for (int d = 0; d < out->input_rank - 2; d++) {
        out->input[d] = draw(s, 1, 3);
        left = dt__max_i64(1, left / out->input[d]);
    }
    out->input[out->input_rank - 2] = left;
    out->input[out->input_rank - 1] = out->weight[1];
}

static void conv_options(dt__stream *s, const int64_t *kernel, bool transposed, dt_conv_options *o)
{
    for (int d = 0; d < 2; d++) {
        o->stride[d] = draw(s, 1, 3);
        o->dilation[d] = kernel[d] > 1 ? draw(s, 1, 2) : 1;
        o->padding[d] = draw(s, 0, dt__min_i64(1, kernel[d] - 1));
        const int64_t most = dt__max_i64(o->stride[d], o->dilation[d]) - 1;
        o->output_padding[d] = transposed ? draw(s, 0, most) : 0;
    }
}

static void conv_shapes(dt__stream *s, bool transposed, int spatial, shapes *out,
                        dt_conv_options *o)
{
    *o = dt_conv_defaults();
    const int64_t kernel[2] = { draw(s, 1, 3), spatial == 2 ? draw(s, 1, 3) : 1 };
    conv_options(s, kernel, transposed, o);
    const bool depthwise = draw(s, 0, 3) == 0;
    o->groups = depthwise ? draw(s, 2, 4) : draw(s, 1, 3);
    const int64_t in = depthwise ? 1 : draw(s, 1, 4), each = draw(s, 1, 4);
    out->weight_rank = out->input_rank = 2 + spatial;
    out->weight[0] = transposed ? o->groups * in : o->groups * each;
    out->weight[1] = transposed ? each : in;
    out->input[0] = draw(s, 2, 4);
    out->input[1] = o->groups * in;
    for (int d = 0; d < spatial; d++) {
        out->weight[2 + d] = kernel[d];
        out->input[2 + d] = draw(s, 5, spatial == 1 ? 16 : 7);
    }
}

/* ---- values --------------------------------------------------------------------------------- */

static dt_tensor *tensor_of(dt_ctx *ctx, int rank, const int64_t *dims)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank, dims, &x));
    return x;
}

static void fill_weight(dt__stream *s, const layer_wish *wish, dt_tensor *w)
{
    float *to = dt__data_mut(w);
    for (int64_t i = 0; i < w->count; i++) {
        const double large = dt__random_unit(s) < 0.02 ? 4 : 1;
        to[i] = (float)(0.2 * large * normal(s));
        if (dt__random_unit(s) < wish->zeros) to[i] = 0;
    }
}

/* Channels are mixtures of some independent ones, of uneven sizes. */
typedef struct mixture {
    int64_t channels, sources;
    double mix[64][64], size[64];
    bool dead[64], dead_both[64];
} mixture;

static void draw_mixture(dt__stream *s, const layer_wish *wish, int64_t channels, mixture *m)
{
    ck_assert_int_le(channels, 64);
    m->channels = channels;
    m->sources = wish->rank > 0 ? dt__min_i64(wish->rank, channels) : channels;
    for (int64_t c = 0; c < channels; c++) {
        m->size[c] = exp(0.7 * normal(s)) / sqrt((double)m->sources);
        for (int64_t i = 0; i < m->sources; i++) m->mix[c][i] = normal(s);
        m->dead[c] = dt__random_unit(s) < wish->dead;
        m->dead_both[c] = m->dead[c] && dt__random_unit(s) < 0.5;
    }
}

static double on_grid(double x, double step) { return step > 0 ? rint(x / step) * step : x; }

/* One position: its channels lie `apart`. */
static void fill_position(dt__stream *s, const layer_wish *wish, const mixture *m, float *x,
                          float *xq, int64_t apart)
{
    double source[64];
    for (int64_t i = 0; i < m->sources; i++) source[i] = normal(s);
    for (int64_t c = 0; c < m->channels; c++) {
        double sum = 0;
        for (int64_t i = 0; i < m->sources; i++) sum += m->mix[c][i] * source[i];
        const double value = sum * m->size[c], noise = wish->noise * normal(s);
        xq[c * apart] = m->dead[c] ? 0 : (float)on_grid(value + noise, wish->step);
        if (x != NULL) x[c * apart] = m->dead_both[c] ? 0 : (float)value;
    }
}

static void fill_inputs(dt__stream *s, const layer_wish *wish, layer *l)
{
    const dt_tensor *t = l->xq;
    const bool linear = l->op.kind == DT_WEIGHT_LINEAR;
    const int64_t channels = t->dims[linear ? t->rank - 1 : 1];
    const int64_t apart = linear ? 1 : t->count / t->dims[0] / channels; /* positions of an image */
    mixture m;
    draw_mixture(s, wish, channels, &m);
    float *xq = dt__data_mut(l->xq), *x = l->x == NULL ? NULL : dt__data_mut(l->x);
    for (int64_t i = 0; i < t->count / channels; i++) {
        const int64_t at = i / apart * apart * channels + i % apart;
        fill_position(s, wish, &m, x == NULL ? NULL : x + at, xq + at, apart);
    }
}

static bool is_transposed(const layer *l)
{
    return l->op.kind == DT_WEIGHT_CONV_TRANSPOSE1D || l->op.kind == DT_WEIGHT_CONV_TRANSPOSE2D;
}

void layer_create(dt_ctx *ctx, dt__stream *random, const layer_wish *wish, layer *out)
{
    static const char *const names[] = { "linear", "conv1d", "conv2d", "conv_transpose1d",
                                         "conv_transpose2d" };
    *out = (layer){ .op = { .kind = wish->kind, .conv = dt_conv_defaults() } };
    snprintf(out->name, sizeof out->name, "%s", names[wish->kind]);
    shapes s = { 0 };
    const bool flat = wish->kind == DT_WEIGHT_CONV1D || wish->kind == DT_WEIGHT_CONV_TRANSPOSE1D;
    if (wish->kind == DT_WEIGHT_LINEAR) linear_shapes(random, &s);
    else conv_shapes(random, is_transposed(out), flat ? 1 : 2, &s, &out->op.conv);
    out->weight = tensor_of(ctx, s.weight_rank, s.weight);
    out->xq = tensor_of(ctx, s.input_rank, s.input);
    if (wish->noise > 0) out->x = tensor_of(ctx, s.input_rank, s.input);
    fill_weight(random, wish, out->weight);
    fill_inputs(random, wish, out);
    layer_unfold(out);
}

void layer_free(layer *l)
{
    dt_tensor_free(l->weight);
    dt_tensor_free(l->xq);
    dt_tensor_free(l->x);
    if (l->xs != l->xqs) free(l->xs);
    free(l->xqs);
    free(l->w);
    *l = (layer){ 0 };
}

/* ---- matrices ------------------------------------------------------------------------------- */

/* A convolution's extents; a signal is an image of one column. */
typedef struct extents {
    int64_t n, channels, in[2], kernel[2], out[2];
} extents;

static int64_t extent(const dt_tensor *t, int d) { return d < t->rank ? t->dims[d] : 1; }

static extents extents_of(const layer *l)
{
    const dt_conv_options *o = &l->op.conv;
    extents e = { .n = l->xq->dims[0], .channels = l->xq->dims[1] };
    for (int d = 0; d < 2; d++) {
        const bool is_there = 2 + d < l->xq->rank;
        const int64_t stride = is_there ? o->stride[d] : 1, pad = is_there ? o->padding[d] : 0;
        e.in[d] = extent(l->xq, 2 + d);
        e.kernel[d] = extent(l->weight, 2 + d);
        const int64_t reach = (is_there ? o->dilation[d] : 1) * (e.kernel[d] - 1) + 1;
        e.out[d] = is_transposed(l) ? (e.in[d] - 1) * stride - 2 * pad + reach +
                                          (is_there ? o->output_padding[d] : 0)
                                    : (e.in[d] + 2 * pad - reach) / stride + 1;
    }
    return e;
}

/* The index in the input that tap k of output o reads along dimension d; -1: none. */
static int64_t place(const layer *l, const extents *e, int d, int64_t o, int64_t k)
{
    if (2 + d >= l->xq->rank) return 0;
    const dt_conv_options *c = &l->op.conv;
    int64_t at = o * c->stride[d] - c->padding[d] + k * c->dilation[d];
    if (is_transposed(l)) {
        at = o + c->padding[d] - k * c->dilation[d];
        if (at % c->stride[d] != 0) return -1;
        at /= c->stride[d];
    }
    return at >= 0 && at < e->in[d] ? at : -1;
}

static float *unfold_linear(const layer *l, const dt_tensor *t)
{
    const float *from = dt__data(t);
    float *to = malloc((size_t)t->count * sizeof *to);
    for (int64_t n = 0; n < l->samples; n++) {
        for (int64_t k = 0; k < l->columns; k++) {
            to[k * l->samples + n] = from[n * l->columns + k];
        }
    }
    return to;
}

static float *unfold_conv(const layer *l, const dt_tensor *t)
{
    const extents e = extents_of(l);
    const float *from = dt__data(t);
    const int64_t taps = e.kernel[0] * e.kernel[1], positions = e.out[0] * e.out[1];
    const int64_t lines = l->groups * l->columns; /* channels by taps */
    float *to = calloc((size_t)(lines * l->samples), sizeof *to);
    for (int64_t i = 0; i < lines * l->samples; i++) {
        const int64_t line = i / l->samples, n = i % l->samples / positions, o = i % positions;
        const int64_t channel = line / taps, tap = line % taps;
        const int64_t y = place(l, &e, 0, o / e.out[1], tap / e.kernel[1]);
        const int64_t x = place(l, &e, 1, o % e.out[1], tap % e.kernel[1]);
        if (y < 0 || x < 0) continue;
        to[i] = from[((n * e.channels + channel) * e.in[0] + y) * e.in[1] + x];
    }
    return to;
}

static void unfold_weight(layer *l)
{
    const float *from = dt__data(l->weight);
    const int64_t all = l->groups * l->rows,
                  taps =
                      l->weight->rank == 2 ? 1 : extents_of(l).kernel[0] * extents_of(l).kernel[1];
    const int64_t in = l->columns / taps;
    l->w = malloc((size_t)(all * l->columns) * sizeof *l->w);
    for (int64_t i = 0; i < all * l->columns; i++) {
        const int64_t row = i / l->columns, column = i % l->columns;
        const int64_t g = row / l->rows, o = row % l->rows, c = column / taps, k = column % taps;
        l->w[i] = from[is_transposed(l) ? ((g * in + c) * l->rows + o) * taps + k : i];
    }
}

void layer_unfold(layer *l)
{
    if (l->xs != l->xqs) free(l->xs);
    free(l->xqs);
    free(l->w);
    const bool linear = l->op.kind == DT_WEIGHT_LINEAR;
    l->groups = linear ? 1 : l->op.conv.groups;
    l->rows = is_transposed(l) ? l->weight->dims[1] : l->weight->dims[0] / l->groups;
    l->columns = l->weight->count / l->groups / l->rows;
    if (linear) {
        l->samples = l->xq->count / l->columns;
    } else {
        const extents e = extents_of(l);
        l->samples = e.n * e.out[0] * e.out[1];
    }
    unfold_weight(l);
    l->xqs = linear ? unfold_linear(l, l->xq) : unfold_conv(l, l->xq);
    l->xs = l->x == NULL ? l->xqs : linear ? unfold_linear(l, l->x) : unfold_conv(l, l->x);
}

/* ---- layers of layers ----------------------------------------------------------------------- */

static dt_tensor *copy_of(const dt_tensor *like, int rank, const int64_t *dims, const float *from)
{
    dt_tensor *x = tensor_of(dt_ctx_of(like), rank, dims);
    memcpy(dt__data_mut(x), from, (size_t)x->count * sizeof *from);
    return x;
}

/* Channels of one group of an input [N, C, ...]. */
static dt_tensor *channels_of(const layer *l, const dt_tensor *t, int64_t group)
{
    int64_t dims[DT_MAX_RANK];
    memcpy(dims, t->dims, sizeof dims);
    dims[1] /= l->groups;
    dt_tensor *x = tensor_of(dt_ctx_of(t), t->rank, dims);
    const int64_t image = t->count / t->dims[0], part = image / l->groups;
    const float *from = dt__data(t);
    float *to = dt__data_mut(x);
    for (int64_t n = 0; n < t->dims[0]; n++) {
        memcpy(to + n * part, from + n * image + group * part, (size_t)part * sizeof *to);
    }
    return x;
}

void layer_group(const layer *l, int64_t group, layer *out)
{
    int64_t dims[DT_MAX_RANK];
    memcpy(dims, l->weight->dims, sizeof dims);
    dims[0] /= l->groups;
    const float *w = (const float *)dt__data(l->weight) + group * l->rows * l->columns;
    *out = (layer){ .op = l->op };
    memcpy(out->name, l->name, sizeof out->name);
    out->op.conv.groups = 1;
    out->weight = copy_of(l->weight, l->weight->rank, dims, w);
    out->xq = channels_of(l, l->xq, group);
    if (l->x != NULL) out->x = channels_of(l, l->x, group);
    layer_unfold(out);
}

/* [samples][columns] of unfolded inputs. */
static dt_tensor *samples_of(const layer *l, const float *unfolded)
{
    dt_tensor *x = tensor_of(dt_ctx_of(l->weight), 2, (int64_t[]){ l->samples, l->columns });
    float *to = dt__data_mut(x);
    for (int64_t i = 0; i < x->count; i++) {
        to[i] = unfolded[i % l->columns * l->samples + i / l->columns];
    }
    return x;
}

void layer_flat(const layer *l, int64_t group, layer *out)
{
    const int64_t dims[2] = { l->rows, l->columns };
    *out = (layer){ .op = { .kind = DT_WEIGHT_LINEAR, .conv = dt_conv_defaults() } };
    memcpy(out->name, l->name, sizeof out->name);
    out->weight = copy_of(l->weight, 2, dims, l->w + group * l->rows * l->columns);
    out->xq = samples_of(l, l->xqs + group * l->columns * l->samples);
    if (l->x != NULL) out->x = samples_of(l, l->xs + group * l->columns * l->samples);
    layer_unfold(out);
}

/* ---- sums ----------------------------------------------------------------------------------- */

dt_statistics *layer_statistics(dt_ctx *ctx, const layer *l, bool differ)
{
    dt_statistics *s;
    TEST_OK(ctx, dt_statistics_create(ctx, &l->op, l->weight->rank, l->weight->dims, differ, &s));
    TEST_OK(ctx, dt_statistics_add(s, l->xq, differ ? l->x : NULL));
    return s;
}
