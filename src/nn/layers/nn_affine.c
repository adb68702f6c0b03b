/* A scale and an addend for each element, or for each channel.      y = x * weight + bias Both have
 * the same shape, which broadcasts to an example: [channels, 1, 1] for images. Either may be
 * absent. They are parameters or, if not trained, buffers. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/layers/affine.h"
#include "nn/module.h"

typedef struct affine {
    bool of_targets;
} affine;

bool dt__affine_of_targets(const dt_module *m)
{
    return m->type == &dt__nn_affine && ((const affine *)m->state)->of_targets;
}

DT__FORWARD(forward)
{
    const dt__entry *weight = dt__entry_find(m, "weight"), *bias = dt__entry_find(m, "bias");
    dt_tensor *y = x;
    if (weight != NULL) y = dt_mul(t, y, dt_module_weight(t, m));
    if (bias != NULL) {
        dt_tensor *sum = dt_add(t, y, bias->x);
        y = y == x ? sum : dt__then(t, y, sum);
    }
    if (y != NULL && (y->rank != x->rank || dt_count(y) != dt_count(x))) {
        dt_tape_fail(t, DT_ERR_SHAPE, "affine: its shape does not broadcast to that of x");
        y = NULL;
    }
    return y;
}

const dt_module_type dt__nn_affine = { .name = "affine", .forward = forward };

static dt_status build(dt_module *m, const dt_affine_options *o)
{
    dt_status (*const add)(dt_module *, const char *, int, const int64_t *, dt_tensor **) =
        o->trained ? dt__new_param : dt__new_buffer;
    dt_tensor *x;
    ((affine *)m->state)->of_targets = o->of_targets;
    if (o->scale) DT__TRY(add(m, "weight", o->shape.n, o->shape.v, &x));
    if (o->scale) DT__TRY(dt_fill(x, 1.0));
    return o->bias ? add(m, "bias", o->shape.n, o->shape.v, &x) : DT_OK;
}

dt_status dt_affine_create(dt_ctx *ctx, const dt_affine_options *options, dt_module **out)
{
    DT__NEED3(ctx, ctx, options, out);
    *out = NULL;
    if (options->shape.n < 0 || options->shape.n >= DT_MAX_RANK) {
        return dt_fail(ctx, DT_ERR_ARG, "affine: a shape of %d extents; 0...%d can be",
                       options->shape.n, DT_MAX_RANK - 1);
    }
    for (int i = 0; i < options->shape.n; i++) {
        DT__TRY(dt__want_extent(ctx, "affine", "an extent of the shape", options->shape.v[i]));
    }
    if (!options->scale && !options->bias) {
        return dt_fail(ctx, DT_ERR_ARG, "affine: neither a scale nor a bias");
    }
    if (options->of_targets && (options->trained || !options->scale || !options->bias)) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "affine: of_targets requires a scale and a bias that are not trained");
    }
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_affine, sizeof(affine), &m));
    return dt__layer_done(build(m, options), m, out);
}

#define AT(field) .offset = offsetof(dt_affine_layer, affine.field)

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("affine", dt_affine_layer),
    { "shape", DT_KEY_INTS, AT(shape), .least = 1, .most = 1 << 24, .fallback = "[1]",
      .text = "of scale and bias, broadcast to an example: [channels, 1, 1]" },
    { "scale", DT_KEY_BOOL, AT(scale), .fallback = "true", .text = "it has a factor, initially 1" },
    { "bias", DT_KEY_BOOL, AT(bias), .fallback = "true", .text = "it has an addend, initially 0" },
    { "trained", DT_KEY_BOOL, AT(trained), .fallback = "true",
      .text = "scale and bias are trained" },
    { "of_targets", DT_KEY_BOOL, AT(of_targets), .fallback = "false",
      .text = "regression: scale and bias begin as deviation and mean of the targets; needs "
              "trained: false" },
    { 0 },
};

DT__LAYER_CREATE(dt_affine_layer, dt_affine_create(ctx, &o->affine, out))

DT__LAYER_TYPE(affine, "y = x scale + bias, for each element or channel", dt_affine_layer,
               layer_keys, 1, 1, .create = layer_create);

#define MAKE(name, ...)                                                                            \
    static dt_status make_##name(dt_ctx *ctx, dt_module **out)                                     \
    {                                                                                              \
        return dt_affine_create(ctx, &(dt_affine_options){ __VA_ARGS__ }, out);                    \
    }
MAKE(both, .shape = { 2, { 2, 1 } }, .scale = true, .bias = true, .trained = true)
MAKE(scale, .shape = { 1, { 3 } }, .scale = true, .trained = true)
MAKE(bias, .shape = { 1, { 1 } }, .bias = true, .trained = true)
MAKE(fixed, .shape = { 1, { 1 } }, .scale = true, .bias = true)
MAKE(neither, .shape = { 1, { 1 } })
MAKE(of_targets, .shape = { 1, { 3 } }, .scale = true, .bias = true, .of_targets = true)
MAKE(trained_targets, .shape = { 1, { 3 } }, .scale = true, .bias = true, .trained = true,
     .of_targets = true)
MAKE(empty, .shape = { 1, { 0 } }, .scale = true)
MAKE(long, .shape = { 8, { 1, 1, 1, 1, 1, 1, 1, 1 } }, .scale = true)

static dt_tensor *plain(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    return dt_add(t, dt_mul(t, in[0], dt_param(m, "weight")), dt_param(m, "bias"));
}

static const dt__layer_case cases[] = {
    { "values", make_both, .in = { { { 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } },
      .state = "weight bias", .given = { { "weight", { 2, -1 } }, { "bias", { 1, 0.5 } } },
      .n_y = 4, .y = { 3, 5, -2.5, -3.5 } },
    { "a batch", make_both, .in = { { { 3, 2, 5 } } }, .state = "weight bias", .plain = plain,
      .first = { { "weight", 1, 1 }, { "bias", 0, 0 } } },
    { "a scale", make_scale, .in = { { { 2, 4, 3 } } }, .state = "weight" },
    { "one addend", make_bias, .in = { { { 2, 4, 3 } } }, .state = "bias" },
    { "not trained", make_fixed, .in = { { { 2, 3 } } }, .state = "!weight !bias", .fixed = true },
    { "of targets", make_of_targets, .in = { { { 2, 3 } } }, .state = "!weight !bias",
      .fixed = true },
    { "of targets, trained", make_trained_targets, .fails = DT_ERR_ARG,
      .says = "affine: of_targets requires" },
    { "another width", make_scale, .in = { { { 2, 4 } } }, .state = "weight", .fails = DT_ERR_SHAPE,
      .says = "mul" },
    { "a larger result", make_both, .in = { { { 2, 1, 3 } } }, .state = "weight bias",
      .fails = DT_ERR_SHAPE, .says = "affine: its shape" },
    { "neither", make_neither, .fails = DT_ERR_ARG, .says = "affine: neither" },
    { "no extent", make_empty, .fails = DT_ERR_ARG, .says = "affine: an extent" },
    { "too many extents", make_long, .fails = DT_ERR_ARG, .says = "affine: a shape of 8" },
};
DT__LAYER_CASES(affine, cases)
