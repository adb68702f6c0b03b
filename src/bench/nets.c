/* The convolutional networks of part `step`: their models, their lists of convolutions, and a
 * subject that runs only these, to show their share of a step. */
#include "bench/nets.h"

#include "kernels/kernels.h"

/* ---- networks ------------------------------------------------------------------------------- */

/* A square convolution of 3 x 3 with padding 1. */
static dt__conv conv_of(int64_t in, int64_t out, int64_t size, int64_t stride)
{
    const int64_t after = dt__ceil_div(size, stride);
    return (dt__conv){ .batch = 1,
                       .in = in,
                       .out = out,
                       .groups = 1,
                       .x_size = { size, size },
                       .y_size = { after, after },
                       .kernel = { 3, 3 },
                       .stride = { stride, stride },
                       .padding = { 1, 1 },
                       .dilation = { 1, 1 } };
}

static const dt_norm_options norms = { .groups = 1, .momentum = 0.1, .eps = 1e-5 };

static const int64_t cnn_out[] = { 16, 32, 32, 48 }, cnn_stride[] = { 1, 2, 1, 2 };

static dt_status create_cnn(dt_ctx *ctx, dt_module **out)
{
    dt_cnn_options o = { .image = { 3, { 1, 28, 28 } },
                         .n_blocks = DT__COUNT_OF(cnn_out),
                         .outputs = 10,
                         .norms = norms };
    for (int i = 0; i < DT__COUNT_OF(cnn_out); i++) {
        o.blocks[i] = (dt_cnn_block){ .out = cnn_out[i],
                                      .kernel = 3,
                                      .stride = cnn_stride[i],
                                      .padding = 1,
                                      .groups = 1,
                                      .norm = DT_NORM_BATCH,
                                      .pool = i + 1 == DT__COUNT_OF(cnn_out) };
    }
    return dt_cnn_create(ctx, &o, out);
}

static int list_cnn(dt__conv *convs)
{
    int64_t in = 1, size = 28;
    for (int i = 0; i < DT__COUNT_OF(cnn_out); i++) {
        convs[i] = conv_of(in, cnn_out[i], size, cnn_stride[i]);
        in = cnn_out[i];
        size = convs[i].y_size[0];
    }
    return DT__COUNT_OF(cnn_out);
}

static dt_status create_resnet20(dt_ctx *ctx, dt_module **out)
{
    const dt_resnet_options o = { .image = { 3, { 3, 32, 32 } },
                                  .depth = 20,
                                  .widths = { 3, { 16, 32, 64 } },
                                  .norm = DT_NORM_BATCH,
                                  .outputs = 10,
                                  .norms = norms };
    return dt_resnet_create(ctx, &o, out);
}

/* A stem, and three stages of three blocks with two convolutions. */
static int list_resnet20(dt__conv *convs)
{
    int n = 0;
    int64_t in = 16, size = 32;
    convs[n++] = conv_of(3, in, size, 1);
    for (int64_t width = 16; width <= 64; width *= 2) {
        for (int i = 0; i < 6; i++) {
            convs[n] = conv_of(in, width, size, in == width ? 1 : 2);
            size = convs[n++].y_size[0];
            in = width;
        }
    }
    return n;
}

const dt__net dt__net_cnn = { "cnn", { 1, 28, 28 }, 10, 48 * 9, create_cnn, list_cnn };
const dt__net dt__net_resnet20 = {
    "resnet20", { 3, 32, 32 }, 10, 64, create_resnet20, list_resnet20
};

static double multiplications(const dt__conv *c)
{
    return (double)(c->out * dt__conv_y_plane(c)) * (double)(c->in / c->groups * dt__conv_taps(c));
}

/* the x of the first convolution needs no gradient */
double dt__net_operations(const dt__net *net, int64_t batch)
{
    dt__conv convs[DT__MOST_CONVS];
    const int n = net->list(convs);
    double sum = 6.0 * (double)(net->features * net->classes);
    for (int i = 0; i < n; i++) sum += (i == 0 ? 4.0 : 6.0) * multiplications(&convs[i]);
    return sum * (double)batch;
}

/* ---- convolutions alone --------------------------------------------------------------------- */

static dt__conv_work forward(const dt__convs *s, int i)
{
    return (dt__conv_work){
        .conv = &s->conv[i], .x = s->x, .w = s->w, .to_y = s->to_y, .scratch = s->scratch
    };
}

static dt__conv_work backward(const dt__convs *s, int i)
{
    return (dt__conv_work){ .conv = &s->conv[i],
                            .x = s->x,
                            .y = s->y,
                            .w = s->w,
                            .to_x = i > 0 ? s->to_x : NULL,
                            .to_w = s->to_w,
                            .scratch = s->scratch };
}

dt_status dt__convs_run(void *convs)
{
    const dt__convs *s = convs;
    const dt__kernels *kernels = s->ctx->kernels[DT_F32];
    dt__team *const threads = dt__threads_enter(s->ctx);
    for (int i = 0; i < s->n; i++) {
        const dt__conv_work work = forward(s, i);
        dt__conv_compute(s->ctx, kernels, &work);
    }
    for (int i = s->n - 1; i >= 0; i--) {
        const dt__conv_work work = backward(s, i);
        dt__conv_compute(s->ctx, kernels, &work);
    }
    dt__threads_leave(threads);
    return DT_OK;
}

static dt_status make_scratch(dt__convs *s)
{
    size_t most = 0;
    for (int i = 0; i < s->n; i++) {
        const dt__conv_work works[] = { forward(s, i), backward(s, i) };
        for (int k = 0; k < 2; k++) {
            size_t bytes;
            DT__TRY(dt__conv_plan(s->ctx, s->ctx->kernels[DT_F32], &works[k], &bytes));
            if (bytes > most) most = bytes;
        }
    }
    s->scratch = dt__alloc(s->ctx, most);
    return s->scratch != NULL ? DT_OK : DT_ERR_NOMEM;
}

static dt_status make_images(dt__convs *s)
{
    int64_t x = 0, y = 0, w = 0;
    for (int i = 0; i < s->n; i++) {
        const dt__conv *c = &s->conv[i];
        x = dt__max_i64(x, c->batch * c->in * dt__conv_x_plane(c));
        y = dt__max_i64(y, c->batch * c->out * dt__conv_y_plane(c));
        w = dt__max_i64(w, c->out * c->in * dt__conv_taps(c));
    }
    const struct {
        float **at;
        int64_t n;
    } wanted[] = { { &s->x, x },    { &s->y, y },    { &s->w, w },
                   { &s->to_x, x }, { &s->to_y, y }, { &s->to_w, w } };
    for (int i = 0; i < DT__COUNT_OF(wanted); i++) {
        float *values = dt__alloc_array(s->ctx, wanted[i].n, sizeof(float));
        if (values == NULL) return DT_ERR_NOMEM;
        for (int64_t k = 0; k < wanted[i].n; k++) values[k] = (float)(k * 37 % 251) / 125 - 1;
        *wanted[i].at = values;
    }
    return DT_OK;
}

dt_status dt__convs_make(dt__bench *b, const dt__net *net, int64_t batch, dt__convs *out)
{
    *out = (dt__convs){ 0 };
    out->n = net->list(out->conv);
    for (int i = 0; i < out->n; i++) out->conv[i].batch = batch;
    DT__TRY(dt__bench_ctx(b, dt_threads(b->ctx), &out->ctx));
    dt_status s = dt__kernels_open(out->ctx);
    if (s == DT_OK) s = make_images(out);
    if (s == DT_OK) s = make_scratch(out);
    if (s != DT_OK) dt_fail(b->ctx, s, "%s", dt_error(out->ctx));
    return s;
}

void dt__convs_free(dt__convs *s)
{
    if (s->ctx == NULL) return;
    float *const images[] = { s->x, s->y, s->w, s->to_x, s->to_y, s->to_w };
    for (int i = 0; i < DT__COUNT_OF(images); i++) dt__release(s->ctx, images[i]);
    dt__release(s->ctx, s->scratch);
    dt_ctx_free(s->ctx);
}
