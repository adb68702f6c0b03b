/* Embedding.      y[i] = W[index[i]]      weight [count, width], initialized normal(0, 1)
 * In a list of layers indices are floats, whole numbers: codes of categories, or tokens. */
#include "nn/layers/embedding.h"
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

DT__LAYER_FORWARD(dt_embedding(t, dt_module_weight(t, m), x))

const dt_module_type dt__nn_embedding = {
    .name = "embedding",
    .forward = forward,
    .quantizable = DT_QUANTIZED_WEIGHT_ONLY,
};

int64_t dt__embedding_rows(const dt_module *m)
{
    int64_t least = m->type == &dt__nn_embedding ? m->entries[0].x->dims[0] : 0;
    for (int64_t i = 0; i < m->n_children; i++) {
        const int64_t rows = dt__embedding_rows(m->children[i]);
        if (rows > 0 && (least == 0 || rows < least)) least = rows;
    }
    return least;
}

static dt_status build(dt_module *m, int64_t count, int64_t width)
{
    dt_tensor *x;
    DT__TRY(dt__new_param(m, "weight", 2, (const int64_t[]){ count, width }, &x));
    return dt__draw_normal(x, DT__FOR_INIT, 0.0, 1.0);
}

dt_status dt_embedding_create(dt_ctx *ctx, int64_t count, int64_t width, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "embedding", "the number of rows", count));
    DT__TRY(dt__want_extent(ctx, "embedding", "the width", width));
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_embedding, 0, &m));
    return dt__layer_done(build(m, count, width), m, out);
}

#define AT(field) .offset = offsetof(dt_embedding_layer, field)

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("embedding", dt_embedding_layer),
    { "count", DT_KEY_INT, AT(count), .least = 1, .most = 1 << 24, .fallback = "!",
      .text = "rows of the table; inputs are 0 to count - 1" },
    { "width", DT_KEY_INT, AT(width), .least = 1, .most = 1 << 20, .fallback = "!",
      .text = "width of a row" },
    { 0 },
};

DT__LAYER_CREATE(dt_embedding_layer, dt_embedding_create(ctx, o->count, o->width, out))

DT__LAYER_TYPE(embedding, "the row of a table for each element, a whole number", dt_embedding_layer,
               layer_keys, 1, 1, .create = layer_create);

DT__MAKE(make, dt_embedding_create(ctx, 4, 2, out))
DT__MAKE(make_large, dt_embedding_create(ctx, 100, 50, out))
DT__MAKE(make_empty, dt_embedding_create(ctx, 0, 2, out))
DT__MAKE(make_flat, dt_embedding_create(ctx, 4, 0, out))

#define ROWS                                                                                       \
    {                                                                                              \
        { 3 }, .dtype = DT_I32, .given = true, .values = { 3, 0, 3 }                               \
    }

static const dt__layer_case cases[] = {
    { "values", make, .in = { ROWS }, .state = "weight",
      .given = { { "weight", { 1, 2, 3, 4, 5, 6, 7, 8 } } }, .n_y = 6, .y = { 7, 8, 1, 2, 7, 8 } },
    { "a batch", make, .in = { { { 2, 5 }, .dtype = DT_I32, .high = 4 } }, .state = "weight" },
    { "first values", make_large, .in = { { { 9 }, .dtype = DT_I32, .high = 100 } },
      .state = "weight", .first = { { "weight", -5.5, 5.5 } }, .rough = true },
    { "no rows", make_empty, .fails = DT_ERR_ARG, .says = "embedding: the number of rows" },
    { "no width", make_flat, .fails = DT_ERR_ARG, .says = "embedding: the width" },
    { "floats", make, .in = { { { 3 }, .given = true, .values = { 3, 0, 3 } } }, .state = "weight",
      .indices = true, .given = { { "weight", { 1, 2, 3, 4, 5, 6, 7, 8 } } }, .n_y = 6,
      .y = { 7, 8, 1, 2, 7, 8 } },
    { "no such row", make, .in = { { { 1 }, .dtype = DT_I32, .given = true, .values = { 4 } } },
      .state = "weight", .fails = DT_ERR_ARG, .says = "embedding" },
};
DT__LAYER_CASES(embedding, cases)
