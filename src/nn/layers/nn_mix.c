/* Linear combinations along one dimension with constant weights, such as resampling.
 *     y[..., o, ...] = sum over i of weight[o, i] x[..., i, ...]
 * The weight is a buffer. Initially output o is input floor(o in / out), its nearest neighbour. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

DT__FORWARD(forward)
{
    int64_t dim = *(const int64_t *)dt_module_state(m);
    dt_tensor *weight = dt_module_weight(t, m);
    const int64_t rank = x->rank;
    dim += dim < 0 ? rank : 0;
    if (dim < 1 || dim >= rank) {
        dt_tape_fail(t, DT_ERR_SHAPE, "mix: dimension %lld of %lld; the batch, 0, cannot be mixed",
                     (long long)dim, (long long)rank);
        return NULL;
    }
    if (dim == rank - 1) return dt_linear(t, x, weight, NULL);
    x = dt_transpose(t, x, dim, rank - 1);
    dt_tensor *y = dt__then(t, x, dt_linear(t, x, weight, NULL));
    return dt__then(t, y, dt_transpose(t, y, dim, rank - 1));
}

const dt_module_type dt__nn_mix = { .name = "mix", .forward = forward };

static dt_status build(dt_module *m, const dt_mix_options *o)
{
    dt_tensor *weight;
    DT__TRY(dt__new_buffer(m, "weight", 2, (const int64_t[]){ o->out, o->in }, &weight));
    DT__TRY(dt_fill(weight, 0));
    float *w = dt_data_mut(weight); /* NULL in a model without storage, made for its shapes */
    for (int64_t i = 0; w != NULL && i < o->out; i++) w[i * o->in + i * o->in / o->out] = 1;
    return DT_OK;
}

dt_status dt_mix_create(dt_ctx *ctx, const dt_mix_options *options, dt_module **out)
{
    DT__NEED3(ctx, ctx, options, out);
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "mix", "in", options->in));
    DT__TRY(dt__want_extent(ctx, "mix", "out", options->out));
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_mix, sizeof(int64_t), &m));
    *(int64_t *)dt_module_state(m) = options->dim;
    return dt__layer_done(build(m, options), m, out);
}

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("mix", dt_mix_layer),
    { "dim", DT_KEY_INT, offsetof(dt_mix_layer, dim), .least = -DT_MAX_RANK,
      .most = DT_MAX_RANK - 1, .fallback = "1",
      .text = "dimension; 0 is the batch, 1 the channels, -1 the last" },
    { "out", DT_KEY_INT, offsetof(dt_mix_layer, out), .least = 1, .most = 1 << 24, .fallback = "!",
      .text = "extent of the dimension in the result" },
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    const dt_mix_layer *o = options;
    const int64_t dim = o->dim < 0 ? o->dim + in[0].rank + 1 : o->dim;
    (void)n_in;
    *out = NULL;
    if (dim < 1 || dim > in[0].rank) {
        return dt_fail(ctx, DT_ERR_SHAPE, "mix: dimension %lld of an input of %d, batch included",
                       (long long)o->dim, in[0].rank + 1);
    }
    return dt_mix_create(ctx, &(dt_mix_options){ dim, in[0].dims[dim - 1], o->out }, out);
}

DT__LAYER_TYPE(mix, "sums along a dimension with constant weights, which a file has", dt_mix_layer,
               layer_keys, 1, 1, .create = layer_create);

static dt_status make(dt_ctx *ctx, dt_module **out)
{
    return dt_mix_create(ctx, &(dt_mix_options){ 1, 2, 3 }, out);
}

static dt_status make_last(dt_ctx *ctx, dt_module **out)
{
    return dt_mix_create(ctx, &(dt_mix_options){ -1, 4, 2 }, out);
}

static dt_status make_empty(dt_ctx *ctx, dt_module **out)
{
    return dt_mix_create(ctx, &(dt_mix_options){ 1, 0, 3 }, out);
}

static dt_tensor *plain(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    return dt_matmul(t, dt_param(m, "weight"), in[0]);
}

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } },
      .state = "!weight", .given = { { "weight", { 1, 1, 0.5, 0, 0, -1 } } }, .fixed = true,
      .n_y = 6, .y = { 4, 6, 0.5, 1, -3, -4 } },
    { "a batch", make, .in = { { { 3, 2, 5 } } }, .state = "!weight", .plain = plain, .fixed = true,
      .first = { { "weight", 0, 1 } } },
    { "the last dimension", make_last, .in = { { { 2, 3, 4 } } }, .state = "!weight",
      .fixed = true },
    { "another extent", make, .in = { { { 2, 3, 4 } } }, .state = "!weight", .fails = DT_ERR_SHAPE,
      .says = "linear" },
    { "no such dimension", make, .in = { { { 2 } } }, .state = "!weight", .fails = DT_ERR_SHAPE,
      .says = "mix: dimension 1 of 1" },
    { "no extent", make_empty, .fails = DT_ERR_ARG, .says = "mix: in is 0" },
};
DT__LAYER_CASES(mix, cases)
