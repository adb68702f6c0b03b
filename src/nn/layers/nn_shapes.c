/* Layers that rearrange the elements of an example, or of several. */
#include "nn/layers/op_layer.h"

/* ---- functions ------------------------------------------------------------------------------- */

static dt_tensor *flatten_of(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    (void)options;
    (void)n_in;
    return dt_flatten(t, in[0], 1, -1);
}

static const dt_ints *dims_of(const void *options)
{
    return &((const dt_dims_layer *)options)->dims;
}

static dt_tensor *reshape_of(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    const dt_ints *dims = dims_of(options);
    int64_t whole[DT_MAX_RANK] = { in[0]->rank > 0 ? in[0]->dims[0] : 1 };
    (void)n_in;
    for (int i = 0; i < dims->n; i++) whole[1 + i] = dims->v[i];
    return dt_reshape(t, in[0], 1 + dims->n, whole);
}

static dt_status check_reshape(dt_ctx *ctx, const char *name, const void *options)
{
    if (dims_of(options)->n < DT_MAX_RANK) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG, "%s: %d extents; at most %d fit beside the batch", name,
                   dims_of(options)->n, DT_MAX_RANK - 1);
}

static dt_tensor *permute_of(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    const dt_ints *dims = dims_of(options);
    (void)n_in;
    if (dims->n == in[0]->rank) return dt_permute(t, in[0], dims->v);
    dt_tape_fail(t, DT_ERR_SHAPE, "permute: %d dimensions in the order, but x has %d", dims->n,
                 in[0]->rank);
    return NULL;
}

static dt_status check_permute(dt_ctx *ctx, const char *name, const void *options)
{
    const dt_ints *dims = dims_of(options);
    if (dims->n >= 1 && dims->n <= DT_MAX_RANK && dims->v[0] == 0) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG,
                   "%s: an order of 1 to %d dimensions that begins with 0, the batch, must be "
                   "given",
                   name, DT_MAX_RANK);
}

/* The state of a slice: a recipe gives one dimension, a program any number. */
typedef struct slice_options {
    dt_layer_head head;
    dt_slice_options slice;
} slice_options;

static dt_tensor *slice_of(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    (void)n_in;
    return dt_slice(t, in[0], &((const slice_options *)options)->slice);
}

static dt_tensor *pad_of(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    (void)n_in;
    return dt_pad(t, in[0], &((const dt_pad_layer *)options)->pad);
}

static dt_tensor *concat_of(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    return dt_concat(t, in, n_in, ((const dt_concat_layer *)options)->dim);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

DT__PLAIN_OP_LAYER(flatten, "all dimensions of an example as one", 1, 1, .apply = flatten_of,
                   .operands = 1);

static const dt_key reshape_keys[] = {
    DT__LAYER_HEAD("reshape", dt_dims_layer),
    { "shape", DT_KEY_INTS, offsetof(dt_dims_layer, dims), .least = -1, .most = 1 << 30,
      .fallback = "!", .text = "of one example; one extent may be -1 and is inferred" },
    { 0 },
};
DT__OP_LAYER(reshape, "the elements of each example in another shape", dt_dims_layer, reshape_keys,
             1, 1, .apply = reshape_of, .check = check_reshape, .operands = 1);

static const dt_key permute_keys[] = {
    DT__LAYER_HEAD("permute", dt_dims_layer),
    { "dims", DT_KEY_INTS, offsetof(dt_dims_layer, dims), .least = 0, .most = DT_MAX_RANK - 1,
      .fallback = "!", .text = "the order, beginning with 0, the batch: [0, 2, 1]" },
    { 0 },
};
DT__OP_LAYER(permute, "dimensions in another order", dt_dims_layer, permute_keys, 1, 1,
             .apply = permute_of, .check = check_permute, .operands = 1);

static const char *const modes[] = { "constant", "reflect", "replicate", "circular", NULL };

static const dt_key pad_keys[] = {
    DT__LAYER_HEAD("pad", dt_pad_layer),
    { "pads", DT_KEY_INTS, offsetof(dt_pad_layer, pad.pads), .least = 0, .most = 1 << 30,
      .fallback = "!",
      .text = "elements before and after, in pairs from the last dimension backwards" },
    { "mode", DT_KEY_CHOICE, offsetof(dt_pad_layer, pad.mode), .choices = modes,
      .fallback = "constant", .text = "values of the padding" },
    { "value", DT_KEY_REAL, offsetof(dt_pad_layer, pad.value), .fallback = "0",
      .text = "of mode constant" },
    { 0 },
};
DT__OP_LAYER(pad, "elements added before and after", dt_pad_layer, pad_keys, 1, 1, .apply = pad_of,
             .operands = 1);

static const dt_key concat_keys[] = {
    DT__LAYER_HEAD("concat", dt_concat_layer),
    { "dim", DT_KEY_INT, offsetof(dt_concat_layer, dim), .least = -DT_MAX_RANK,
      .most = DT_MAX_RANK - 1, .fallback = "1",
      .text = "dimension; 0 is the batch, 1 the channels, -1 the last" },
    { 0 },
};
DT__OP_LAYER(concat, "its inputs one after the other along a dimension", dt_concat_layer,
             concat_keys, 2, DT_MAX_IN, .apply = concat_of);

/* ---- slice ----------------------------------------------------------------------------------- */

extern const dt_module_type dt__nn_slice;
const dt_module_type dt__nn_slice = { .name = "slice", .forward = dt__op_forward };
static const dt__op_layer slice_op = {
    .module = &dt__nn_slice, .size = sizeof(slice_options), .apply = slice_of, .operands = 1
};

#define AT(field) .offset = offsetof(dt_slice_layer, field)

static const dt_key slice_keys[] = {
    DT__LAYER_HEAD("slice", dt_slice_layer),
    { "dim", DT_KEY_INT, AT(dim), .least = -DT_MAX_RANK, .most = DT_MAX_RANK - 1, .fallback = "1",
      .text = "dimension; 0 is the batch, 1 the channels, -1 the last" },
    { "start", DT_KEY_INT, AT(start), .fallback = "0",
      .text = "first index; below 0: counted from the end" },
    { "stop", DT_KEY_INT, AT(stop), .fallback = "0",
      .text = "index behind the last; below 0: counted from the end; 0: up to the end" },
    { "step", DT_KEY_INT, AT(step), .least = 1, .most = DT_NO_LIMIT, .fallback = "1",
      .text = "distance of the indices" },
    { 0 },
};

static dt_status slice_in_list(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                               dt_module **out)
{
    const dt_slice_layer *o = options;
    const dt_slice_options slice = {
        .dims = { 1, { o->dim } },
        .starts = { 1, { o->start } },
        .stops = { 1, { o->stop == 0 ? INT64_MAX : o->stop } },
        .steps = { 1, { o->step } },
    };
    (void)in;
    (void)n_in;
    return dt_slice_create(ctx, &slice, out);
}

DT__LAYER_TYPE(slice, "a range of a dimension", dt_slice_layer, slice_keys, 1, 1,
               .create = slice_in_list);

/* ---- create functions ------------------------------------------------------------------------ */

#define CREATE(kind, options_type, ...)                                                            \
    dt__op_layer_create(ctx, &kind##_op, &(const options_type){ __VA_ARGS__ }, out)

dt_status dt_flatten_create(dt_ctx *ctx, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    return CREATE(flatten, dt_plain_layer, .head.name = NULL);
}

dt_status dt_reshape_create(dt_ctx *ctx, const dt_ints *dims, dt_module **out)
{
    DT__NEED3(ctx, ctx, dims, out);
    return CREATE(reshape, dt_dims_layer, .dims = *dims);
}

dt_status dt_permute_create(dt_ctx *ctx, const dt_ints *dims, dt_module **out)
{
    DT__NEED3(ctx, ctx, dims, out);
    return CREATE(permute, dt_dims_layer, .dims = *dims);
}

dt_status dt_slice_create(dt_ctx *ctx, const dt_slice_options *options, dt_module **out)
{
    DT__NEED3(ctx, ctx, options, out);
    return CREATE(slice, slice_options, .slice = *options);
}

dt_status dt_pad_create(dt_ctx *ctx, const dt_pad_options *options, dt_module **out)
{
    DT__NEED3(ctx, ctx, options, out);
    return CREATE(pad, dt_pad_layer, .pad = *options);
}

dt_status dt_concat_create(dt_ctx *ctx, int64_t dim, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    return CREATE(concat, dt_concat_layer, .dim = dim);
}

DT__OP_MAKE(reshape, reshape, dt_dims_layer, .dims = { 2, { -1, 2 } })
DT__OP_MAKE(long, reshape, dt_dims_layer, .dims = { DT_MAX_RANK, { 1, 1, 1, 1, 1, 1, 1, 1 } })
DT__OP_MAKE(permute, permute, dt_dims_layer, .dims = { 3, { 0, 2, 1 } })
DT__OP_MAKE(mixed, permute, dt_dims_layer, .dims = { 2, { 1, 0 } })
DT__OP_MAKE(slice, slice, slice_options,
            .slice = { { 1, { 1 } }, { 1, { 1 } }, { 1, { 4 } }, { 1, { 2 } } })
DT__OP_MAKE(pad, pad, dt_pad_layer, .pad = { .pads = { 2, { 1, 2 } }, .value = 5 })
DT__OP_MAKE(odd, pad, dt_pad_layer, .pad = { .pads = { 1, { 1 } } })
DT__OP_MAKE(concat, concat, dt_concat_layer, .dim = 1)

#define FOUR .in = { { { 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } }, .n_y = 4

static const dt__layer_case cases[] = {
    { "flatten", dt_flatten_create, FOUR, .y = { 1, 2, 3, 4 } },
    { "flatten an image", dt_flatten_create, .in = { { { 2, 3, 4, 2 } } } },
    { "flatten one dimension", dt_flatten_create, .in = { { { 3 } } }, .fails = DT_ERR_ARG,
      .says = "flatten" },
    { "reshape", made_reshape_reshape,
      .in = { { { 1, 4 }, .given = true, .values = { 1, 2, 3, 4 } } }, .n_y = 4,
      .y = { 1, 2, 3, 4 } },
    { "reshape a batch", made_reshape_reshape, .in = { { { 3, 2, 4 } } } },
    { "reshape an odd number", made_reshape_reshape, .in = { { { 2, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "reshape" },
    { "reshape to too many dimensions", made_reshape_long, .fails = DT_ERR_ARG,
      .says = "reshape: 8 extents" },
    { "permute", made_permute_permute, FOUR, .y = { 1, 3, 2, 4 } },
    { "permute a batch", made_permute_permute, .in = { { { 3, 2, 4 } } } },
    { "permute another rank", made_permute_permute, .in = { { { 2, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "permute: 3" },
    { "permute the batch", made_permute_mixed, .fails = DT_ERR_ARG, .says = "the batch" },
    { "slice", made_slice_slice, .in = { { { 1, 5 }, .given = true, .values = { 1, 2, 3, 4, 5 } } },
      .n_y = 2, .y = { 2, 4 } },
    { "slice a batch", made_slice_slice, .in = { { { 2, 4, 3 } } } },
    { "slice no such dimension", made_slice_slice, .in = { { { 4 } } }, .fails = DT_ERR_ARG,
      .says = "slice" },
    { "pad", made_pad_pad, .in = { { { 1, 2 }, .given = true, .values = { 1, 2 } } }, .n_y = 5,
      .y = { 5, 1, 2, 5, 5 } },
    { "pad a batch", made_pad_pad, .in = { { { 2, 3, 4 } } } },
    { "pad by one number", made_pad_odd, .in = { { { 2, 3 } } }, .fails = DT_ERR_ARG,
      .says = "pad" },
    { "concat", made_concat_concat,
      .in = { { { 1, 2 }, .given = true, .values = { 1, 2 } },
              { { 1, 1 }, .given = true, .values = { 3 } } },
      .n_y = 3, .y = { 1, 2, 3 } },
    { "concat of three", made_concat_concat,
      .in = { { { 2, 2, 3 } }, { { 2, 1, 3 } }, { { 2, 4, 3 } } } },
    { "concat of shapes that do not join", made_concat_concat,
      .in = { { { 2, 2, 3 } }, { { 2, 2, 4 } } }, .fails = DT_ERR_SHAPE, .says = "concat" },
};
DT__OP_LAYER_CASES(shapes, cases)
