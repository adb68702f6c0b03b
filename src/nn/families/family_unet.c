/* Family unet: an encoder and a decoder with skip connections [Ronneberger et al. 2015]. Each level
 * has half the size of the one before and, in the encoder and in the decoder, one unit of 3 x 3
 * convolution, norm and activation.
 *     d_0 = unit(x)      d_{i+1} = unit(maxpool(d_i))                 down.i
 *     u_n = d_n          u_i = unit(concat(upward(u_{i+1}), d_i))     up.i: tconv, then conv, norm
 *     y = out(u_0), 1 x 1
 * Transposed convolutions have a bias; a unit's convolution has one only without a norm. */
#include "nn/lists/layer_type.h"
#include "nn/blocks/blocks.h"
#include "nn/families/family.h"

#include <detent/ops.h>

enum { KERNEL, STRIDE, PADDING, OUTPUT_PADDING, UP_NUMBERS };

#define AT(field) .offset = offsetof(dt_unet_options, field)

const dt_key dt_unet_keys[] = {
    DT__IMAGE_KEY(dt_unet_options),
    { "widths", DT_KEY_INTS, AT(widths), .least = 1, .most = 1 << 16, .fallback = "!", .fewest = 1,
      .text = "channels of each level, which has half the size of the one before" },
    { "up", DT_KEY_INTS, AT(up), .most = 255, .fallback = "[2, 2, 0, 0]", .fewest = UP_NUMBERS,
      .text = "kernel, stride, padding and output padding of the transposed convolutions" },
    { "norm", DT_KEY_CHOICE, AT(norm), .choices = dt_norm_names, .fallback = "batch",
      .text = "normalization after each convolution" },
    { "activation", DT_KEY_CHOICE, AT(activation), .choices = dt_activation_names,
      .fallback = "relu", .text = "activation after the normalization" },
    { "outputs", DT_KEY_INT, AT(outputs), .least = 1, .most = 1 << 16, .fallback = "!",
      .text = "output channels, or the classes of a pixel" },
    DT__NORM_KEYS(dt_unet_options),
    { 0 },
};

typedef struct upward {
    dt_module *tconv;
    dt__unit unit;
} upward;

/* in: the output of the next lower level, and the encoder's output at this level. */
static void up_forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                       int n_out)
{
    const upward *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    dt_tensor *x = dt_forward(t, s->tconv, in[0]);
    x = dt__then(t, x, dt_concat(t, (dt_tensor *const[]){ x, in[1] }, 2, 1));
    out[0] = dt__then(t, x, dt__unit_forward(t, &s->unit, x));
}

static const dt_module_type up_type = { .name = "unet_up", .forward = up_forward };

typedef struct unet {
    dt_module *down, *up, *out;
} unet;

static dt__unit_plan plan_of(const dt_unet_options *o, int64_t in, int64_t out)
{
    dt__unit_plan plan = { "conv", "norm", dt__square_conv(in, out, 3, 1, 1), o->norm, &o->norms };
    plan.layer.bias = o->norm == DT_NORM_NONE;
    return plan;
}

static dt_status build_down(dt_module *list, const dt_unet_options *o)
{
    for (int i = 0; i < o->widths.n; i++) {
        const int64_t in = i == 0 ? o->image.v[0] : o->widths.v[i - 1];
        const dt__unit_plan plan = plan_of(o, in, o->widths.v[i]);
        dt_module *m;
        DT__TRY(dt__add_item(list, &dt__unit_type, sizeof(dt__unit), &m));
        DT__TRY(dt__build_unit(m, &plan, o->activation));
    }
    return DT_OK;
}

static dt_conv_layer up_layer(const dt_unet_options *o, int64_t in, int64_t out)
{
    const int64_t *up = o->up.v;
    dt_conv_layer layer = dt__square_conv(in, out, up[KERNEL], up[STRIDE], up[PADDING]);
    for (int i = 0; i < 2; i++) layer.conv.output_padding[i] = up[OUTPUT_PADDING];
    layer.bias = true;
    return layer;
}

static dt_status build_up(dt_module *list, const dt_unet_options *o)
{
    dt_ctx *ctx = dt_module_ctx(list);
    for (int i = 0; i + 1 < o->widths.n; i++) {
        const int64_t width = o->widths.v[i];
        const dt_conv_layer layer = up_layer(o, o->widths.v[i + 1], width);
        const dt__unit_plan plan = plan_of(o, 2 * width, width);
        dt_module *m, *tconv = NULL;
        DT__TRY(dt__add_item(list, &up_type, sizeof(upward), &m));
        upward *s = dt_module_state(m);
        const dt_status made = dt_conv_transpose2d_create(ctx, &layer, &tconv);
        DT__TRY(dt__add_made(m, "tconv", made, tconv, &s->tconv));
        DT__TRY(dt__add_unit(m, &plan, &s->unit));
        DT__TRY(dt__add_activation(m, o->activation, &s->unit.activation));
    }
    return DT_OK;
}

static dt_status build(dt_module *m, const dt_unet_options *o)
{
    unet *s = dt_module_state(m);
    dt_module *out = NULL;
    DT__TRY(dt__add_child(m, "down", &dt__nn_list, 0, &s->down));
    DT__TRY(build_down(s->down, o));
    DT__TRY(dt__add_child(m, "up", &dt__nn_list, 0, &s->up));
    DT__TRY(build_up(s->up, o));
    dt_conv_layer layer = dt__square_conv(o->widths.v[0], o->outputs, 1, 1, 0);
    layer.bias = true;
    const dt_status made = dt_conv2d_create(dt_module_ctx(m), &layer, &out);
    return dt__add_made(m, "out", made, out, &s->out);
}

static dt_tensor *decode(dt_tape *t, dt_module *m, dt_tensor *x, dt_tensor *skip)
{
    dt_tensor *in[2] = { x, skip }, *y = NULL;
    dt_forward_n(t, m, in, 2, &y, 1);
    dt__drop_step(t, skip, y);
    return dt__then(t, x, y);
}

DT__FORWARD(forward)
{
    const unet *s = dt_module_state(m);
    const dt_pool_options half = dt_pool_defaults(); /* 2 x 2 */
    dt_tensor *level[DT_MAX_LIST];
    const int64_t n = s->down->n_children;
    level[0] = dt_forward(t, s->down->children[0], x);
    for (int64_t i = 1; i < n; i++) {
        x = dt_max_pool2d(t, level[i - 1], &half, NULL);
        level[i] = dt__then(t, x, dt_forward(t, s->down->children[i], x));
    }
    x = level[n - 1];
    for (int64_t i = n - 2; i >= 0; i--) x = decode(t, s->up->children[i], x, level[i]);
    return dt__then(t, x, dt_forward(t, s->out, x));
}

static const dt_module_type unet_type = { .name = "unet", .forward = forward };

/* ARG if a transposed convolution does not restore the extent that pooling halved. */
static dt_status check_side(dt_ctx *ctx, const dt_unet_options *o, int64_t side)
{
    const int64_t *up = o->up.v;
    for (int i = 0; i + 1 < o->widths.n; i++) {
        const int64_t half = side / 2;
        const int64_t back =
            (half - 1) * up[STRIDE] - 2 * up[PADDING] + up[KERNEL] + up[OUTPUT_PADDING];
        if (half < 1 || back != side) {
            return dt_fail(ctx, DT_ERR_ARG,
                           "unet: %lld pixels are halved to %lld at level %d, and come back as "
                           "%lld; [2, 2, 0, 0] for up and sides that are a multiple of %lld fit",
                           (long long)side, (long long)half, i + 1,
                           (long long)(half < 1 ? 0 : back), (long long)1 << (o->widths.n - 1));
        }
        side = half;
    }
    return DT_OK;
}

static dt_status check(dt_ctx *ctx, const dt_unet_options *o)
{
    dt__frame image;
    if (o == NULL || o->widths.n < 1 || o->widths.n > DT_MAX_LIST) {
        return dt_fail(ctx, DT_ERR_ARG, "unet: expected 1 to %d widths", DT_MAX_LIST);
    }
    if (o->up.n != UP_NUMBERS) {
        return dt_fail(
            ctx, DT_ERR_ARG,
            "unet: up requires kernel, stride, padding and output padding, not %d numbers",
            o->up.n);
    }
    DT__TRY(dt__frame_of(ctx, "unet", &o->image, &image));
    for (int i = 0; i < o->widths.n; i++) {
        DT__TRY(dt__want_extent(ctx, "unet", "a width", o->widths.v[i]));
    }
    for (int i = 0; i < UP_NUMBERS; i++) {
        if (o->up.v[i] < 0 || o->up.v[i] > 255) {
            return dt_fail(ctx, DT_ERR_ARG, "unet: %lld in up is outside 0...255",
                           (long long)o->up.v[i]);
        }
    }
    DT__TRY(check_side(ctx, o, image.height));
    return check_side(ctx, o, image.width);
}

DT__FAMILY_CREATE(unet, 3, image.v)

DT__FAMILY_END(unet, "an encoder and decoder of convolutions, with an output of the image's size",
               dt__frame_example("image", &o->image),
               ((dt_example){
                   "outputs", -1, 3, { o->outputs, o->image.v[1], o->image.v[2] }, false }))
