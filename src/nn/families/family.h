/* Model families (src/nn/families/family_<name>.c). */
#ifndef DT__NN_FAMILY_H
#define DT__NN_FAMILY_H

#include "core/core.h"

#include <detent/experimental/nn.h>

/* family->create without drawing initial weights, which stay 0; random streams do not change. */
dt_status dt__family_twin(dt_ctx *ctx, const dt_family *family, const void *options,
                          dt_module **out);

#define DT__FAMILY(name) extern const dt_family dt__family_##name;
#include "nn/families/families.inc"
#undef DT__FAMILY

/* Defines dt_<kind>_create for a family whose examples have `rank` extents, given by the field
 * `dims` of its options. Uses the file's `check`, <kind>_type and `build`; the state is a
 * <kind>. */
#define DT__FAMILY_CREATE(kind, rank, dims)                                                        \
    dt_status dt_##kind##_create(dt_ctx *ctx, const dt_##kind##_options *options, dt_module **out) \
    {                                                                                              \
        dt_module *m;                                                                              \
        DT__NEED2(ctx, ctx, out);                                                                  \
        *out = NULL;                                                                               \
        DT__TRY(check(ctx, options));                                                              \
        DT__TRY(dt_module_create(ctx, &kind##_type, sizeof(kind), &m));                            \
        dt__set_example(m, rank, options->dims);                                                   \
        return dt__layer_done(build(m, options), m, out);                                          \
    }

/* Ends a family's file with its table. The examples are expressions of the options `o`. */
#define DT__FAMILY_END(kind, about, in_example, out_example)                                       \
    static dt_status create(dt_ctx *ctx, const void *options, dt_module **out)                     \
    {                                                                                              \
        return dt_##kind##_create(ctx, options, out);                                              \
    }                                                                                              \
    static dt_status shapes(dt_ctx *ctx, const void *options, dt_example *in, dt_example *out)     \
    {                                                                                              \
        const dt_##kind##_options *o = options;                                                    \
        *in = in_example;                                                                          \
        *out = out_example;                                                                        \
        (void)ctx;                                                                                 \
        return DT_OK;                                                                              \
    }                                                                                              \
    const dt_family dt__family_##kind = {                                                          \
        .name = #kind,                                                                             \
        .text = about,                                                                             \
        .keys = dt_##kind##_keys,                                                                  \
        .options_size = sizeof(dt_##kind##_options),                                               \
        .create = create,                                                                          \
        .shapes = shapes,                                                                          \
    };

/* The least dt_block_options.query_width besides 0: scores stay finite. */
#define DT__LEAST_QUERY_WIDTH 1e-6

/* The options of the blocks; the defaults if none are given. */
dt_block_options dt__llama_block(const dt_llama_options *o);

/* The factor of cosines and sines with longrope; computed by its formula if the options give
 * none. */
double dt__longrope_amplitude(const dt_llama_options *o);

#endif
