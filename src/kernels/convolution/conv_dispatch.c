/* Dispatches a convolution: to oneDNN for floats, if the context's kernels are not plain C and the
 * work is large enough; else to the kernel table. For given kernels the shape alone decides. */
#include "kernels/kernels.h"
#include "kernels/convolution/float_convs.h"

static int64_t x_count(const dt__conv *c) { return c->batch * c->in * dt__conv_x_plane(c); }
static int64_t y_count(const dt__conv *c) { return c->batch * c->out * dt__conv_y_plane(c); }

/* Bytes of scratch for one image of each source. */
static size_t plain_scratch(const dt__conv_work *w)
{
    const int64_t x = w->x_source != NULL ? x_count(w->conv) : 0;
    const int64_t y = w->y_source != NULL ? y_count(w->conv) : 0;
    return (size_t)(x + y) * sizeof(float);
}

static bool takes_bf16(const dt__conv_work *w)
{
    return w->products != DT_PRODUCTS_F32 && dt__bf16_conv_takes(w);
}

bool dt__conv_rounds(const dt__conv *conv, int products)
{
    float any = 0;
    const dt__conv_work by_w = { .conv = conv, .to_w = &any, .products = products };
    dt__conv_work by_x = by_w;
    by_x.to_x = &any;
    return takes_bf16(&by_w) && takes_bf16(&by_x);
}

dt_status dt__conv_plan(dt_ctx *ctx, const dt__kernels *kernels, const dt__conv_work *work,
                        size_t *scratch)
{
    if (work->ordered) {
        *scratch = plain_scratch(work) +
                   (size_t)dt__ordered_conv_room(work, dt_threads(ctx)) * sizeof(float);
        return DT_OK;
    }
    if (takes_bf16(work)) {
        *scratch = plain_scratch(work) + dt__bf16_conv_scratch(work, dt_threads(ctx));
        return DT_OK;
    }
    *scratch = SIZE_MAX;
    if (kernels->vectors) DT__TRY(dt__onednn_open(ctx, work, scratch));
    const size_t plain = plain_scratch(work);
    if (*scratch == SIZE_MAX || *scratch < plain) *scratch = plain; /* oneDNN may still fail */
    return DT_OK;
}

DT__EACH(read_images, i, const dt__source *source; int64_t elements; float *to;)
{
    a.source->fill(a.source->from,
                   &(dt__patch){ i, i + 1, 0, a.elements, a.to + i * a.elements, a.elements });
}

static const void *read_images(const dt__source *source, int64_t images, int64_t elements,
                               const void *data, float **room)
{
    if (source == NULL) return data;
    float *to = *room;
    *room += images * elements;
    dt__parallel(images, elements, read_images_share, &(read_images_args){ source, elements, to });
    return to;
}

void dt__conv_compute(dt_ctx *ctx, const dt__kernels *kernels, const dt__conv_work *w)
{
    const bool bf16 = !w->ordered && takes_bf16(w);
    if (!w->ordered && !bf16 && kernels->vectors && dt__onednn_run(ctx, w)) return;
    const dt__conv *c = w->conv;
    float *room = w->scratch;
    const void *x = read_images(w->x_source, c->batch, c->in * dt__conv_x_plane(c), w->x, &room);
    const void *y = read_images(w->y_source, c->batch, c->out * dt__conv_y_plane(c), w->y, &room);
    if (bf16) {
        dt__bf16_conv(kernels, w, x, y, room, dt_threads(ctx));
        return;
    }
    if (w->ordered) {
        dt__ordered_conv(kernels, w, w->to_x != NULL ? y : x, room);
        return;
    }
    if (w->to_y != NULL) kernels->conv(c, x, w->w, w->bias, w->to_y);
    if (w->to_x != NULL) kernels->conv_backward_x(c, y, w->w, w->bias, w->to_x);
    if (w->to_w != NULL) kernels->conv_backward_w(c, x, y, w->to_w);
}
