/* Family resnet: residual networks for small images [He et al. 2016, section 4.2].
 *     x_0 = relu(norm(stem * x))
 *     x_{i+1} = relu(norm2(conv2 * relu(norm1(conv1 * x_i))) + shortcut(x_i))
 *     y = head(mean of each channel of x_n)
 * All convolutions are 3 x 3 and without bias. Each stage has the same number of blocks and a width
 * of the options; each but the first begins with stride 2. If a block changes the shape, its
 * shortcut is a strided slice padded with zero channels (pad), or a 1 x 1 convolution and a norm
 * (conv).
 * Paths: stem.conv, stem.norm, blocks.i.conv1, .norm1, .conv2, .norm2, .down.conv, .down.norm,
 * head. */
#include "nn/lists/layer_type.h"
#include "nn/blocks/blocks.h"
#include "nn/families/family.h"

#include <detent/experimental/ops.h>

enum { SHORTCUT_PAD, SHORTCUT_CONV };

static const char *const shortcut_names[] = { "pad", "conv", NULL };

#define RELU 0 /* in dt_activation_names */

#define AT(field) .offset = offsetof(dt_resnet_options, field)

const dt_key dt_resnet_keys[] = {
    DT__IMAGE_KEY(dt_resnet_options),
    { "depth", DT_KEY_INT, AT(depth), .least = 4, .most = 4096, .fallback = "20",
      .text = "layers: 2, and 2 a block" },
    { "widths", DT_KEY_INTS, AT(widths), .least = 1, .most = 1 << 16, .fallback = "[16, 32, 64]",
      .fewest = 1, .text = "channels of each stage" },
    { "shortcut", DT_KEY_CHOICE, AT(shortcut), .choices = shortcut_names, .fallback = "pad",
      .text = "shortcut where the shape changes: zero channels, or a convolution" },
    { "norm", DT_KEY_CHOICE, AT(norm), .choices = dt_norm_names, .fallback = "batch",
      .text = "normalization after each convolution" },
    { "outputs", DT_KEY_INT, AT(outputs), .least = 1, .most = 1 << 24, .fallback = "!",
      .text = "classes" },
    DT__NORM_KEYS(dt_resnet_options),
    { 0 },
};

typedef struct block {
    dt__unit first, second;
    dt_module *down; /* the shortcut's convolution and norm; NULL: the padded input */
    int64_t stride;  /* stride of the padded shortcut */
    int64_t added;   /* its number of zero channels */
} block;

/* Every stride-th pixel, followed by `added` channels of zeros. */
static dt_tensor *padded_shortcut(dt_tape *t, const block *s, dt_tensor *x)
{
    const dt_slice_options every = { .dims = { 2, { 2, 3 } },
                                     .starts = { 2, { 0, 0 } },
                                     .stops = { 2, { INT64_MAX, INT64_MAX } },
                                     .steps = { 2, { s->stride, s->stride } } };
    const dt_pad_options behind = { .pads = { 6, { 0, 0, 0, 0, 0, s->added } } };
    if (s->stride > 1) x = dt_slice(t, x, &every);
    return s->added > 0 ? dt__then(t, x, dt_pad(t, x, &behind)) : x;
}

static void block_forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                          int n_out)
{
    const block *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    dt_tensor *x = dt__unit_forward(t, &s->first, in[0]);
    dt__unit second = s->second;
    second.residual =
        s->down != NULL ? dt_forward(t, s->down, in[0]) : padded_shortcut(t, s, in[0]);
    out[0] = dt__then(t, x, dt__unit_forward(t, &second, x));
}

static const dt_module_type block_type = { .name = "resnet_block",
                                           .forward = block_forward,
                                           .block = true };

typedef struct resnet {
    dt_module *stem, *blocks, *head;
} resnet;

typedef struct builder {
    const dt_resnet_options *o;
    dt__frame image; /* the image size after the layers built so far */
} builder;

static dt__unit_plan plan_of(const builder *b, int64_t out, int64_t kernel, int64_t stride)
{
    dt__unit_plan plan = {
        "conv",
        "norm",
        dt__square_conv(b->image.channels, out, kernel, stride, kernel / 2),
        b->o->norm,
        &b->o->norms,
    };
    plan.layer.bias = b->o->norm == DT_NORM_NONE;
    return plan;
}

static dt_status build_block(dt_module *m, builder *b, int64_t out, int64_t stride)
{
    block *s = dt_module_state(m);
    dt__unit_plan plan = plan_of(b, out, 3, stride);
    const dt__unit_plan down = plan_of(b, out, 1, stride);
    s->stride = stride;
    s->added = out - b->image.channels;
    plan.conv = "conv1";
    plan.norm = "norm1";
    DT__TRY(dt__add_unit(m, &plan, &s->first));
    DT__TRY(dt__frame_windows(dt_module_ctx(m), "resnet", &plan.layer, &b->image));
    plan = plan_of(b, out, 3, 1);
    plan.conv = "conv2";
    plan.norm = "norm2";
    DT__TRY(dt__add_unit(m, &plan, &s->second));
    DT__TRY(dt__add_activation(m, RELU, &s->first.activation));
    s->second.activation = s->first.activation;
    const bool changes = stride > 1 || s->added != 0;
    if (!changes || b->o->shortcut == SHORTCUT_PAD) return DT_OK;
    DT__TRY(dt__add_child(m, "down", &dt__unit_type, sizeof(dt__unit), &s->down));
    return dt__build_unit(s->down, &down, -1);
}

static dt_status build_stage(dt_module *blocks, builder *b, int stage, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        dt_module *m;
        DT__TRY(dt__add_item(blocks, &block_type, sizeof(block), &m));
        DT__TRY(build_block(m, b, b->o->widths.v[stage], stage > 0 && i == 0 ? 2 : 1));
    }
    return DT_OK;
}

static dt_status build(dt_module *m, const dt_resnet_options *o)
{
    resnet *s = dt_module_state(m);
    dt_ctx *ctx = dt_module_ctx(m);
    builder b = { .o = o };
    dt_module *head = NULL;
    DT__TRY(dt__frame_of(ctx, "resnet", &o->image, &b.image));
    const dt__unit_plan stem = plan_of(&b, o->widths.v[0], 3, 1);
    DT__TRY(dt__add_child(m, "stem", &dt__unit_type, sizeof(dt__unit), &s->stem));
    DT__TRY(dt__build_unit(s->stem, &stem, RELU));
    b.image.channels = o->widths.v[0];
    DT__TRY(dt__add_child(m, "blocks", &dt__nn_list, 0, &s->blocks));
    for (int i = 0; i < o->widths.n; i++) {
        DT__TRY(build_stage(s->blocks, &b, i, (o->depth - 2) / (2 * o->widths.n)));
    }
    const dt_status made = dt_linear_create(ctx, b.image.channels, o->outputs, true, &head);
    return dt__add_made(m, "head", made, head, &s->head);
}

DT__FORWARD(forward)
{
    const resnet *s = dt_module_state(m);
    x = dt_forward(t, s->stem, x);
    for (int64_t i = 0; i < s->blocks->n_children; i++) {
        x = dt__then(t, x, dt_forward(t, s->blocks->children[i], x));
    }
    x = dt__then(t, x, dt_global_avg_pool2d(t, x));
    x = dt__then(t, x, dt_flatten(t, x, 1, -1));
    return dt__then(t, x, dt_forward(t, s->head, x));
}

static const dt_module_type resnet_type = { .name = "resnet", .forward = forward };

static dt_status check(dt_ctx *ctx, const dt_resnet_options *o)
{
    if (o == NULL || o->widths.n < 1 || o->widths.n > DT_MAX_LIST) {
        return dt_fail(ctx, DT_ERR_ARG, "resnet: expected 1 to %d widths", DT_MAX_LIST);
    }
    for (int i = 0; i < o->widths.n; i++) {
        DT__TRY(dt__want_extent(ctx, "resnet", "a width", o->widths.v[i]));
        if (o->shortcut != SHORTCUT_PAD || i == 0 || o->widths.v[i] >= o->widths.v[i - 1]) continue;
        return dt_fail(ctx, DT_ERR_ARG,
                       "resnet: shortcut pad cannot go from %lld channels to %lld; conv can",
                       (long long)o->widths.v[i - 1], (long long)o->widths.v[i]);
    }
    const int64_t each = 2 * o->widths.n;
    if (o->depth < 2 + each || (o->depth - 2) % each != 0) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "resnet: depth %lld does not fit; with %d widths it is %lld n + 2",
                       (long long)o->depth, o->widths.n, (long long)each);
    }
    return dt__want_choice(ctx, "resnet", "shortcut", o->shortcut, shortcut_names);
}

DT__FAMILY_CREATE(resnet, 3, image.v)

DT__FAMILY_END(resnet, "residual blocks of convolutions for small images, then a linear layer",
               dt__frame_example("image", &o->image),
               ((dt_example){ "outputs", -1, 1, { o->outputs }, false }))
