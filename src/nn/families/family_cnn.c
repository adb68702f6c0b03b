/* Family cnn: blocks of convolution, norm, activation and pooling, then a linear head.
 *     x_{i+1} = pool_i(activation_i(norm_i(W_i * x_i + b_i)))
 *     y = head(dropout(flatten(x_n))), or head(dropout(mean of each channel of x_n))
 * A convolution has a bias b if no norm follows. Paths: blocks.i.conv, blocks.i.norm,
 * blocks.i.activation, dropout, head. */
#include "nn/lists/layer_type.h"
#include "nn/blocks/blocks.h"
#include "nn/families/family.h"

#include <detent/experimental/ops.h>

enum { POOL_NONE, POOL_MAX, POOL_AVG };
enum { HEAD_FLATTEN, HEAD_AVERAGE };

static const char *const pool_names[] = { "none", "max", "avg", NULL };
static const char *const head_names[] = { "flatten", "average", NULL };

#define AT(field) .offset = offsetof(dt_cnn_block, field)

static const dt_key block_keys[] = {
    { "out", DT_KEY_INT, AT(out), .least = 1, .most = 1 << 16, .fallback = "!",
      .text = "output channels" },
    { "kernel", DT_KEY_INT, AT(kernel), .least = 1, .most = 255, .fallback = "3",
      .text = "rows and columns of the kernel" },
    { "stride", DT_KEY_INT, AT(stride), .least = 1, .most = 255, .fallback = "1",
      .text = "step of the kernel, in pixels" },
    { "padding", DT_KEY_INT, AT(padding), .most = 255, .fallback = "1",
      .text = "zeros around the image, on each side" },
    { "groups", DT_KEY_INT, AT(groups), .least = 1, .most = 1 << 16, .fallback = "1",
      .text = "groups of channels; as many as channels: depthwise" },
    { "norm", DT_KEY_CHOICE, AT(norm), .choices = dt_norm_names, .fallback = "batch",
      .text = "normalization after the convolution" },
    { "activation", DT_KEY_CHOICE, AT(activation), .choices = dt_activation_names,
      .fallback = "relu", .text = "activation after the normalization" },
    { "pool", DT_KEY_CHOICE, AT(pool), .choices = pool_names, .fallback = "none",
      .text = "pooling of 2 x 2 pixels at the end" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_cnn_options, field)

const dt_key dt_cnn_keys[] = {
    DT__IMAGE_KEY(dt_cnn_options),
    { "blocks", DT_KEY_LIST, AT(blocks), .keys = block_keys, .most = DT_MAX_BLOCKS, .fallback = "!",
      .fewest = 1, .size = sizeof(dt_cnn_block), .count = offsetof(dt_cnn_options, n_blocks),
      .text = "the convolution blocks, in sequence" },
    { "head", DT_KEY_CHOICE, AT(head), .choices = head_names, .fallback = "flatten",
      .text = "input of the last layer: all values, or each channel's mean" },
    { "dropout", DT_KEY_REAL, AT(dropout), .most = 0.9999, .fallback = "0",
      .text = "share of the head's inputs that training drops" },
    { "outputs", DT_KEY_INT, AT(outputs), .least = 1, .most = 1 << 24, .fallback = "!",
      .text = "classes" },
    DT__NORM_KEYS(dt_cnn_options),
    { 0 },
};

typedef struct block {
    dt__unit unit;
    int pool;
} block;

static dt_tensor *pooled(dt_tape *t, int pool, dt_tensor *x)
{
    const dt_pool_options options = dt_pool_defaults(); /* 2 x 2 */
    if (pool == POOL_MAX) return dt_max_pool2d(t, x, &options, NULL);
    return pool == POOL_AVG ? dt_avg_pool2d(t, x, &options) : x;
}

static void block_forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                          int n_out)
{
    const block *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    dt_tensor *x = dt__unit_forward(t, &s->unit, in[0]);
    out[0] = pooled(t, s->pool, x);
    dt__drop_step(t, x, out[0]);
}

static const dt_module_type block_type = { .name = "cnn_block", .forward = block_forward };

static dt_status build_block(dt_module *m, const dt_cnn_block *b, const dt_norm_options *norms,
                             dt__frame *image)
{
    block *s = dt_module_state(m);
    dt_ctx *ctx = dt_module_ctx(m);
    dt__unit_plan plan = {
        "conv",  "norm", dt__square_conv(image->channels, b->out, b->kernel, b->stride, b->padding),
        b->norm, norms,
    };
    plan.layer.conv.groups = b->groups;
    plan.layer.bias = b->norm == DT_NORM_NONE;
    DT__TRY(dt__add_unit(m, &plan, &s->unit));
    DT__TRY(dt__add_activation(m, b->activation, &s->unit.activation));
    s->pool = b->pool;
    DT__TRY(dt__frame_windows(ctx, "cnn", &plan.layer, image));
    if (b->pool == POOL_NONE) return DT_OK;
    const dt_conv_layer window = dt__square_conv(b->out, b->out, 2, 2, 0);
    return dt__frame_windows(ctx, "cnn: pool", &window, image);
}

typedef struct cnn {
    dt_module *blocks, *dropout, *head; /* dropout or NULL */
    int head_kind;
} cnn;

DT__FORWARD(forward)
{
    const cnn *s = dt_module_state(m);
    for (int64_t i = 0; i < s->blocks->n_children; i++) {
        x = dt__then(t, x, dt_forward(t, s->blocks->children[i], x));
    }
    if (s->head_kind == HEAD_AVERAGE) x = dt__then(t, x, dt_global_avg_pool2d(t, x));
    x = dt__then(t, x, dt_flatten(t, x, 1, -1));
    if (s->dropout != NULL) x = dt__then(t, x, dt_forward(t, s->dropout, x));
    return dt__then(t, x, dt_forward(t, s->head, x));
}

static const dt_module_type cnn_type = { .name = "cnn", .forward = forward };

static dt_status build_blocks(dt_module *m, const dt_cnn_options *o, dt__frame *image)
{
    cnn *s = dt_module_state(m);
    dt_module *part;
    DT__TRY(dt__add_child(m, "blocks", &dt__nn_list, 0, &s->blocks));
    for (int64_t i = 0; i < o->n_blocks; i++) {
        DT__TRY(dt__add_item(s->blocks, &block_type, sizeof(block), &part));
        DT__TRY(build_block(part, &o->blocks[i], &o->norms, image));
    }
    return DT_OK;
}

static dt_status build(dt_module *m, const dt_cnn_options *o)
{
    cnn *s = dt_module_state(m);
    dt_ctx *ctx = dt_module_ctx(m);
    dt_module *part = NULL;
    dt__frame image;
    int64_t features = 0;
    DT__TRY(dt__frame_of(ctx, "cnn", &o->image, &image));
    DT__TRY(build_blocks(m, o, &image));
    s->head_kind = o->head;
    if (o->head == HEAD_AVERAGE) image.height = image.width = 1;
    const int64_t sides[] = { image.channels, image.height, image.width };
    if (!dt__product(3, sides, &features)) {
        return dt_fail(ctx, DT_ERR_ARG, "cnn: the head would have too many inputs");
    }
    dt_status made = DT_OK;
    if (o->dropout > 0) {
        made = dt_dropout_create(ctx, o->dropout, &part);
        DT__TRY(dt__add_made(m, "dropout", made, part, &s->dropout));
    }
    made = dt_linear_create(ctx, features, o->outputs, true, &part);
    return dt__add_made(m, "head", made, part, &s->head);
}

static dt_status check(dt_ctx *ctx, const dt_cnn_options *o)
{
    if (o == NULL || o->n_blocks < 1 || o->n_blocks > DT_MAX_BLOCKS) {
        return dt_fail(ctx, DT_ERR_ARG, "cnn: expected 1 to %d blocks", DT_MAX_BLOCKS);
    }
    DT__TRY(dt__want_choice(ctx, "cnn", "head", o->head, head_names));
    for (int64_t i = 0; i < o->n_blocks; i++) {
        const dt_cnn_block *b = &o->blocks[i];
        DT__TRY(dt__want_choice(ctx, "cnn", "pool", b->pool, pool_names));
        DT__TRY(dt__want_extent(ctx, "cnn", "the stride of a block", b->stride));
    }
    return dt__want_share(ctx, "cnn", "dropout", o->dropout);
}

DT__FAMILY_CREATE(cnn, 3, image.v)

DT__FAMILY_END(cnn, "a sequence of convolution blocks, then a linear layer",
               dt__frame_example("image", &o->image),
               ((dt_example){ "outputs", -1, 1, { o->outputs }, false }))
