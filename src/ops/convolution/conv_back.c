/* The gradients of convolutions by products of integers.
 *
 *     dx   the adjoint convolution of codes: those of dy by sample, those of W^ by input channel
 *     dw   the product of a linear layer whose rows are positions and whose columns are taps, a
 *          group at a time; codes of x are read from padded images (kernels/gradients/q7_conv.h)
 *
 * A transposed convolution has dx alone, and groups of one channel have neither. */
#include "ops/convolution/conv_codes.h"

#include "core/threads.h"
#include "kernels/gradients/q7_conv.h"
#include "kernels/convolution/qconv_gather.h"
#include "ops/products/back_codes.h"

#include <math.h>
#include <string.h>

enum { X = DT__CONV_X, WEIGHT = DT__CONV_WEIGHT };

#define MOST_CANVAS ((int64_t)16 << 20) /* bytes of a padded image, at most; beyond, dw is float */

/* Extents of a call: input and output channels per group, taps, positions of the output. */
typedef struct extents {
    dt__conv conv;
    bool transposed;
    int64_t in, out, taps, positions;
} extents;

static extents extents_of(const dt_call *c)
{
    extents e = { .conv = dt__conv_of(c), .transposed = dt__conv_is_transposed(c) };
    const dt__conv *p = &e.conv;
    const int64_t *size = e.transposed ? p->x_size : p->y_size;
    e.in = (e.transposed ? p->out : p->in) / p->groups;
    e.out = (e.transposed ? p->in : p->out) / p->groups;
    e.taps = p->kernel[0] * p->kernel[1];
    e.positions = size[0] * size[1];
    return e;
}

bool dt__conv_integer_x(const dt_call *c)
{
    const extents e = extents_of(c);
    return dt__back_x(c->codes[WEIGHT]) && (e.in > 1 || e.conv.groups == 1);
}

/* A problem whose canvases are the padded images of a group of x. */
static dt__qconv images_of(const extents *e) { return (dt__qconv){ .conv = &e->conv }; }

/* How many inputs all positions of an axis span, padding included. */
static int64_t length_of(const dt__axis *x)
{
    return (x->out - 1) * x->step + x->high - x->low + 1;
}

static double canvas_bytes(const extents *e)
{
    const dt__qconv q = images_of(e);
    const dt__axis rows = dt__axis_of(&q, 0), columns = dt__axis_of(&q, 1);
    return (double)e->in * (double)length_of(&rows) * (double)length_of(&columns);
}

bool dt__conv_integer_w(const dt_call *c)
{
    const extents e = extents_of(c);
    return !e.transposed && dt__conv_integer_x(c) && dt__back_w(c->codes[X], c->codes[WEIGHT]) &&
           canvas_bytes(&e) <= (double)MOST_CANVAS;
}

/* ---- dx -------------------------------------------------------------------------------------- */

/* Scratch of dx: W^ before and after its rows are reordered; its codes and scales by input channel,
 * and their panels; codes of dy; the kernel's own scratch. */
typedef struct room_x {
    float *rows, *weight, *scale;
    int8_t *codes;
    dt__panel_layout layout;
    void *panels;
    uint8_t *u;
    int64_t ldu;
    float *sy;
    int32_t *zy, *unused;
    void *own;
    size_t bytes;
} room_x;

static room_x room_of_x(const dt_call *c, const extents *e)
{
    void *base = c->scratch;
    room_x r = { .bytes = 0 };
    const int64_t channels = e->in * e->conv.groups, count = c->arg[WEIGHT]->count;
    const int64_t batch = e->conv.batch, depth = e->out * e->taps;
    const dt__panel_shape shape = { channels, depth, dt__max_i64(1, depth), 8, DT__SCALE_F32, 0 };
    dt__panel_layout_of(&shape, &r.layout); /* cannot fail, since the weight exists */
    r.ldu = e->out * e->conv.groups * e->positions;
    r.rows = dt__scratch_take(base, &r.bytes, count, sizeof(float));
    r.weight = dt__scratch_take(base, &r.bytes, count, sizeof(float));
    r.codes = dt__scratch_take(base, &r.bytes, count, 1);
    r.scale = dt__scratch_take(base, &r.bytes, channels, sizeof(float));
    r.panels = dt__scratch_take(base, &r.bytes, 1, r.layout.bytes);
    r.u = dt__scratch_take(base, &r.bytes, batch * dt__round_up(r.ldu, DT__Q7_WORD) + DT__STEP, 1);
    r.sy = dt__scratch_take(base, &r.bytes, batch, sizeof(float));
    r.zy = dt__scratch_take(base, &r.bytes, batch, sizeof(int32_t));
    r.unused = dt__scratch_take(base, &r.bytes, batch, sizeof(int32_t));
    r.ldu = dt__round_up(r.ldu, DT__Q7_WORD);
    r.own = dt__scratch_take(base, &r.bytes, 0, 1);
    return r;
}

static dt__qconv adjoint_of(const dt_call *c, const extents *e, const room_x *r)
{
    return (dt__qconv){ .conv = &e->conv,
                        .transposed = !e->transposed,
                        .layout = &r->layout,
                        .panels = r->panels,
                        .u = r->u,
                        .ldu = r->ldu,
                        .sx = r->sy,
                        .zu = r->zy,
                        .threads = dt_threads(c->ctx),
                        .scratch = r->own };
}

/* Element (tap k of output o) of input channel i of W^; all are numbered within group g. */
static float weight_at(const extents *e, const float *w, int64_t g, int64_t i, int64_t o, int64_t k)
{
    const int64_t row = e->transposed ? g * e->in + i : g * e->out + o;
    const int64_t column = e->transposed ? o : i, columns = e->transposed ? e->out : e->in;
    return w[(row * columns + column) * e->taps + k];
}

/* Writes the codes of W^ by input channel c, in the order in which the adjoint reads dy: row c is
 * [out of the group][taps]. */
static void encode_channel(const extents *e, const room_x *r, int64_t c)
{
    const int64_t g = c / e->in, i = c % e->in;
    int8_t *codes = r->codes + c * e->out * e->taps;
    uint32_t most = 0;
    for (int pass = 0; pass < 2; pass++) {
        float inverse = 0;
        if (pass == 1) r->scale[c] = dt__q7_scale(most, 127, &inverse);
        for (int64_t j = 0; j < e->out * e->taps; j++) {
            const float w = weight_at(e, r->weight, g, i, j / e->taps, j % e->taps);
            const float size = fabsf(w), v = w * inverse;
            uint32_t bits;
            memcpy(&bits, &size, sizeof bits);
            most = bits > most ? bits : most;
            codes[j] = (int8_t)lrintf(fminf(fmaxf(v, -127), 127));
        }
    }
}

typedef struct making {
    const dt_call *c;
    const extents *e;
    const room_x *r;
    const float *dy;
} making;

DT__LOOP(encode_channels, making, v, i) { encode_channel(v->e, v->r, i); }

static void make_weight(const dt_call *c, const extents *e, room_x *r)
{
    const dt__codes *codes = c->codes[WEIGHT];
    const bool mapped = dt__is_mapped(&codes->map);
    const int64_t channels = e->in * e->conv.groups, depth = e->out * e->taps;
    dt__codes_expand_all(codes, mapped ? r->rows : r->weight);
    if (mapped) dt__rows_scatter(&codes->map, r->rows, r->weight);
    const making v = { c, e, r, NULL };
    dt__parallel(channels, 8 * depth, encode_channels, &v);
    dt__panel_pack(&r->layout, &(dt__code_matrix){ r->codes, depth, r->scale, 1 }, r->panels);
}

static void encode_samples(const void *args, const dt__share *part)
{
    const making *v = args;
    const room_x *r = v->r;
    const int64_t n = v->e->out * v->e->conv.groups * v->e->positions;
    for (int64_t s = part->first; s < part->past; s++) {
        r->zy[s] = 128;
        v->c->kernels->q7_rows(&(dt__q7_rows){ .rows = 1,
                                               .n = n,
                                               .x = v->dy + s * n,
                                               .ldx = n,
                                               .codes = (int8_t *)r->u + s * r->ldu,
                                               .ld = r->ldu,
                                               .bias = 128,
                                               .scale = r->sy + s,
                                               .sum128 = r->unused + s });
    }
}

void dt__conv_integer_backward_x(const dt_call *c, const float *dy, float *dx)
{
    const extents e = extents_of(c);
    room_x r = room_of_x(c, &e);
    make_weight(c, &e, &r);
    const making v = { c, &e, &r, dy };
    dt__parallel(e.conv.batch, e.out * e.conv.groups * e.positions, encode_samples, &v);
    dt__qconv q = adjoint_of(c, &e, &r);
    q.y = dx;
    dt__qconv_run(c->kernels, &q);
}

/* ---- dw -------------------------------------------------------------------------------------- */

/* The padded images of a group of x. Rows have the phases of dt__canvas, so that neighbouring
 * positions read neighbouring bytes. */
typedef struct images {
    const dt_call *c;
    extents e;
    dt__axis axis[2];
    int64_t group;
    int64_t phases;             /* phases of a canvas row */
    int64_t width, plane, size; /* bytes of a canvas row, of a channel, and of the canvas */
    uint8_t *canvas;            /* [batch][size], followed by bytes that products may read */
    uint8_t *sample;            /* [threads]: a sample's unpacked codes */
    int64_t sample_bytes;       /* 0 if codes are not packed */
    int32_t *offset;            /* [columns]: offset of the column from a position's first input */
    void *own;                  /* scratch of the product */
} images;

static size_t open_images(const dt_call *c, images *im)
{
    size_t bytes = 0;
    *im = (images){ .c = c, .e = extents_of(c) };
    const extents *e = &im->e;
    const dt__qconv q = images_of(e);
    for (int i = 0; i < 2; i++) im->axis[i] = dt__axis_of(&q, i);
    im->phases = im->axis[1].out > 1 ? im->axis[1].step : 1;
    im->width = dt__round_up(length_of(&im->axis[1]), im->phases);
    im->plane = length_of(&im->axis[0]) * im->width;
    im->size = e->in * im->plane;
    const dt__codes *x = c->codes[X];
    im->sample_bytes = x->packed ? dt__round_up(x->columns + DT__STEP, DT__ALIGNMENT) : 0;
    im->canvas =
        dt__scratch_take(c->scratch, &bytes, e->conv.batch * im->size + DT__Q7_CONV_BEHIND, 1);
    im->sample = dt__scratch_take(c->scratch, &bytes, dt_threads(c->ctx) * im->sample_bytes, 1);
    im->offset = dt__scratch_take(c->scratch, &bytes, e->in * e->taps, sizeof *im->offset);
    im->own = dt__scratch_take(c->scratch, &bytes, 0, 1);
    return bytes;
}

static void set_offsets(const images *im)
{
    const dt__axis *rows = &im->axis[0], *columns = &im->axis[1];
    for (int64_t i = 0; i < im->e.in * im->e.taps; i++) {
        const int64_t line = i / columns->taps, channel = line / rows->taps;
        const int64_t row = line % rows->taps * rows->dilation;
        const int64_t column = i % columns->taps * columns->dilation;
        im->offset[i] =
            (int32_t)(channel * im->plane + row * im->width +
                      column % im->phases * (im->width / im->phases) + column / im->phases);
    }
}

static void draw_sample(const images *im, int64_t s, uint8_t *room)
{
    const dt__codes *x = im->c->codes[X];
    const extents *e = &im->e;
    const uint8_t *u = x->u + s * x->stride;
    if (x->packed) {
        dt__codes_row(x, NULL, s, room);
        u = room;
    }
    u += im->group * e->in * im->axis[0].in * im->axis[1].in;
    dt__canvas_draw(im->axis, e->in, u, x->zero_u[s],
                    &(dt__canvas){ .bytes = im->canvas + s * im->size,
                                   .row0 = im->axis[0].low,
                                   .rows = im->plane / im->width,
                                   .width = im->width,
                                   .phases = im->phases });
}

static void draw_samples(const void *args, const dt__share *part)
{
    const images *im = args;
    for (int64_t s = part->first; s < part->past; s++) {
        draw_sample(im, s, im->sample + part->thread * im->sample_bytes);
    }
}

static dt__q7_conv product_of(const images *im, const float *dy, float *dw)
{
    const extents *e = &im->e;
    const dt__codes *x = im->c->codes[X];
    return (dt__q7_conv){ .batch = e->conv.batch,
                          .rows = im->axis[0].out,
                          .across = im->axis[1].out,
                          .n = e->out,
                          .k = e->in * e->taps,
                          .dy = dy + im->group * e->out * e->positions,
                          .dy_sample = e->out * e->conv.groups * e->positions,
                          .images = im->canvas,
                          .sample = im->size,
                          .row = im->axis[0].step * im->width,
                          .offset = im->offset,
                          .sx = x->scale,
                          .zu = x->zero_u,
                          .dw = dw + im->group * e->out * e->in * e->taps,
                          .threads = dt_threads(im->c->ctx),
                          .scratch = im->own };
}

void dt__conv_integer_backward_w(const dt_call *c, const float *dy, float *dw)
{
    images im;
    open_images(c, &im);
    const extents *e = &im.e;
    set_offsets(&im);
    memset(im.canvas + e->conv.batch * im.size, 0, DT__Q7_CONV_BEHIND);
    for (im.group = 0; im.group < e->conv.groups; im.group++) {
        const dt__q7_conv product = product_of(&im, dy, dw);
        dt__parallel(e->conv.batch, im.size, draw_samples, &im);
        dt__q7_conv_run(c->kernels, &product);
    }
}

/* ---- scratch --------------------------------------------------------------------------------- */

size_t dt__conv_integer_scratch(const dt_call *c)
{
    float any = 0;
    size_t x = 0, w = 0;
    if (c->wants[X] && dt__conv_integer_x(c)) {
        const extents e = extents_of(c);
        const room_x r = room_of_x(c, &e);
        const dt__qconv q = adjoint_of(c, &e, &r);
        x = r.bytes + dt__qconv_scratch(&q);
    }
    if (c->wants[WEIGHT] && dt__conv_integer_w(c)) {
        images im;
        w = open_images(c, &im);
        const dt__q7_conv product = product_of(&im, &any, &any);
        w += dt__q7_conv_scratch(&product);
    }
    return x > w ? x : w;
}
