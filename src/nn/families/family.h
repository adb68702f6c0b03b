/* The families of src/nn/family_<name>.c. */
#ifndef DT__NN_FAMILY_H
#define DT__NN_FAMILY_H

#include "core/core.h"

#include <detent/nn.h>

/* family->create without drawing initial weights, which stay 0; the random streams do not
 * change. */
dt_status dt__family_twin(dt_ctx *ctx, const dt_family *family, const void *options,
                          dt_module **out);

#define DT__FAMILY(name) extern const dt_family dt__family_##name;
#include "nn/families/families.inc"
#undef DT__FAMILY

/* The least dt_block_options.query_width but 0: scores stay finite. */
#define DT__LEAST_QUERY_WIDTH 1e-6

/* The options of its blocks: defaults where none are given. */
dt_block_options dt__llama_block(const dt_llama_options *o);

/* The factor of cosines and sines with longrope, by its formula where none is given. */
double dt__longrope_amplitude(const dt_llama_options *o);

#endif
