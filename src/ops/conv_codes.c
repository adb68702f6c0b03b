/* Convolutions on codes.
 *
 *     both operands offer codes that an integer product takes    y by numerics §2 (kernels/qconv.h)
 *     else                                                       y = conv(x^, w^) + b, fp32
 *     backward                                                   dx = conv^T(dy, w^)   dw of x^, dy
 *
 * Images of the weight and of a slice of the batch are expanded into scratch just before the product
 * that reads them; how the batch is cut follows from shapes alone. */
#include "ops/conv_codes.h"

#include "kernels/qconv.h"

#include <string.h>

enum { X = DT__CONV_X, WEIGHT = DT__CONV_WEIGHT, BIAS = DT__CONV_BIAS };

#define SLICE ((int64_t)4 << 20) /* floats of x^ at a time, unless a sample has more */

bool dt__conv_takes_codes(const dt_call *c, int i)
{
    const dt_tensor *x = c->in[i];
    const dt__codes *codes = c->codes[i];
    if (i == X) {
        const bool samples = x->rank > 0 && codes->rows == x->dims[0] && codes->groups == 1;
        return codes->u != NULL && samples && codes->rows * codes->columns == x->count;
    }
    const int64_t groups = ((const dt_conv_options *)c->options)->groups;
    return codes->panels != NULL && codes->map.groups == (dt__conv_is_transposed(c) ? groups : 0);
}

/* ---- integers -------------------------------------------------------------------------------- */

static dt__qconv qconv_of(const dt_call *c, const dt__conv *p)
{
    const dt__codes *x = c->codes[X], *w = c->codes[WEIGHT];
    return (dt__qconv){ .conv = p,
                        .transposed = dt__conv_is_transposed(c),
                        .layout = &w->layout,
                        .panels = w->panels,
                        .u = x->u,
                        .ldu = x->stride,
                        .sx = x->scale,
                        .zu = x->zero_u,
                        .threads = dt_threads(c->ctx),
                        .scratch = c->scratch };
}

static bool multiplies(const dt_call *c)
{
    return dt__codes_multiply(c->codes[X], c->codes[WEIGHT]);
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Parts of scratch, in floats. */
typedef struct room {
    int64_t slice;               /* samples of x^ at a time; the whole batch where x is values */
    int64_t weight, rows, x, dw; /* w^, as rows first where they lie otherwise; x^; dw of a slice */
} room;

static room room_of(const dt_call *c, bool weight, bool x, bool dw)
{
    const dt__codes *codes = c->codes[WEIGHT];
    const int64_t batch = c->arg[X]->dims[0];
    room r = { .slice = batch };
    if (weight && codes != NULL) {
        r.weight = c->arg[WEIGHT]->count;
        r.rows = dt__is_mapped(&codes->map) ? r.weight : 0;
    }
    if (!x || c->codes[X] == NULL || batch == 0) return r;
    const int64_t sample = dt__max_i64(1, c->codes[X]->columns);
    const int64_t slices = dt__ceil_div(batch, dt__max_i64(1, SLICE / sample));
    r.slice = dt__ceil_div(batch, slices);
    r.x = r.slice * sample;
    r.dw = dw && slices > 1 ? c->arg[WEIGHT]->count : 0;
    return r;
}

static size_t bytes_of(const room *r)
{
    return (size_t)(r->weight + r->rows + r->x + r->dw) * sizeof(float);
}

static const float *image_of_weight(const dt_call *c, const room *r)
{
    const dt__codes *codes = c->codes[WEIGHT];
    if (codes == NULL) return dt__data(c->arg[WEIGHT]);
    float *image = c->scratch, *rows = r->rows > 0 ? image + r->weight : image;
    const int64_t n = codes->columns, blocks = dt__ceil_div(codes->rows, DT__LANES);
#pragma omp parallel for schedule(static) if (codes->rows * n > DT__CHUNK)
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t r0 = i * DT__LANES, r1 = dt__min_i64(r0 + DT__LANES, codes->rows);
        dt__codes_expand(codes, &(dt__patch){ r0, r1, 0, n, rows + r0 * n, n });
    }
    if (r->rows > 0) dt__rows_scatter(&codes->map, rows, image);
    return image;
}

/* Samples n0 ... n1-1 of x^. */
static const float *image_of_x(const dt_call *c, const room *r, int64_t n0, int64_t n1)
{
    const dt__codes *codes = c->codes[X];
    if (codes == NULL) return dt__data(c->arg[X]);
    float *image = (float *)c->scratch + r->weight + r->rows;
    const int64_t n = codes->columns;
#pragma omp parallel for schedule(static) if ((n1 - n0) * n > DT__CHUNK)
    for (int64_t i = n0; i < n1; i++) {
        dt__codes_expand(codes, &(dt__patch){ i, i + 1, 0, n, image + (i - n0) * n, n });
    }
    return image;
}

/* Elements of a sample. */
static int64_t sample_of(const dt_tensor *x) { return x->dims[0] == 0 ? 0 : x->count / x->dims[0]; }

/* ---- forward --------------------------------------------------------------------------------- */

size_t dt__conv_codes_scratch(const dt_call *c)
{
    if (multiplies(c)) {
        const dt__conv p = dt__conv_of(c);
        const dt__qconv q = qconv_of(c, &p);
        return dt__qconv_scratch(&q);
    }
    const room r = room_of(c, true, true, false);
    return bytes_of(&r);
}

static void forward_images(const dt_call *c, const float *bias)
{
    const room r = room_of(c, true, true, false);
    const float *w = image_of_weight(c, &r);
    const bool transposed = dt__conv_is_transposed(c);
    float *y = dt__data_mut(c->y);
    dt__conv p = dt__conv_of(c);
    const int64_t batch = p.batch;
    for (int64_t n = 0; n < batch; n += r.slice) {
        p.batch = dt__min_i64(r.slice, batch - n);
        const float *x = image_of_x(c, &r, n, n + p.batch);
        if (transposed) c->kernels->conv_backward_x(&p, x, w, bias, y);
        else c->kernels->conv(&p, x, w, bias, y);
        y += p.batch * sample_of(c->y);
    }
}

void dt__conv_forward_codes(const dt_call *c)
{
    const float *bias = c->arg[BIAS] != NULL ? dt__data(c->arg[BIAS]) : NULL;
    if (!multiplies(c)) {
        forward_images(c, bias);
        return;
    }
    const dt__conv p = dt__conv_of(c);
    dt__qconv q = qconv_of(c, &p);
    q.bias = bias;
    q.y = dt__data_mut(c->y);
    dt__qconv_run(c->kernels, &q);
}

/* ---- backward -------------------------------------------------------------------------------- */

size_t dt__conv_codes_backward_scratch(const dt_call *c)
{
    const room r = room_of(c, c->wants[X], c->wants[WEIGHT], true);
    return bytes_of(&r);
}

/* Slices add up in the order of the batch. */
static void backward_w(const dt_call *c, const room *r, const float *dy, float *dw)
{
    const bool transposed = dt__conv_is_transposed(c);
    dt__conv p = dt__conv_of(c);
    const int64_t batch = p.batch;
    float *part = (float *)c->scratch + r->weight + r->rows + r->x;
    for (int64_t n = 0; n == 0 || n < batch; n += r->slice) {
        p.batch = dt__min_i64(r->slice, batch - n);
        const float *x = image_of_x(c, r, n, n + p.batch), *up = dy + n * sample_of(c->y);
        float *to = n == 0 ? dw : part;
        c->kernels->conv_backward_w(&p, transposed ? up : x, transposed ? x : up, to);
        if (n > 0) c->kernels->add_into(c->arg[WEIGHT]->count, part, dw);
        if (batch == 0) return;
    }
}

void dt__conv_backward_codes(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const room r = room_of(c, c->wants[X], c->wants[WEIGHT], true);
    const dt__conv p = dt__conv_of(c);
    const float *up = dt__data(dy);
    if (dx[WEIGHT] != NULL) backward_w(c, &r, up, dt__data_mut(dx[WEIGHT]));
    if (dx[X] == NULL) return;
    const float *w = image_of_weight(c, &r);
    float *to = dt__data_mut(dx[X]);
    if (dt__conv_is_transposed(c)) c->kernels->conv(&p, up, w, NULL, to);
    else c->kernels->conv_backward_x(&p, up, w, NULL, to);
}
