/* Embedding: a table read by row numbers.      y[i] = W[index[i]]      weight [count, width], drawn
 * normal(0, 1). */
#include "nn/module.h"

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)n_in;
    (void)n_out;
    out[0] = dt_embedding(t, dt_module_weight(t, m), in[0]);
}

const dt_module_type dt__nn_embedding = {
    .name = "embedding",
    .forward = forward,
    .quantizable = DT_QUANTIZED_WEIGHT_ONLY,
};

static dt_status build(dt_module *m, int64_t count, int64_t width)
{
    dt_tensor *x;
    DT__TRY(dt__new_param(m, "weight", 2, (const int64_t[]){ count, width }, &x));
    return dt__draw_normal(x, DT__FOR_INIT, 0.0, 1.0);
}

dt_status dt_embedding_create(dt_ctx *ctx, int64_t count, int64_t width, dt_module **out)
{
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "embedding", "the number of rows", count));
    DT__TRY(dt__want_extent(ctx, "embedding", "the width", width));
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_embedding, 0, &m));
    return dt__layer_done(build(m, count, width), m, out);
}
