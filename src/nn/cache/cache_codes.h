/* The codes of an int8 key-value cache: cache.h. */
#ifndef DT__NN_CACHE_CODES_H
#define DT__NN_CACHE_CODES_H

#include "nn/module.h"

/* Where codes and scales of a layer's keys or values go. */
typedef struct dt__cache_codes {
    dt_tensor *codes; /* i8, keys [heads, width, pitch], values [heads, capacity, width] */
    dt_tensor *scale; /* f32 [heads, capacity] */
    bool keys;
    int64_t first; /* token */
} dt__cache_codes;

/* Encodes x, f32 [1, tokens, heads, width], as tokens to->first ... NUMERIC if an element is not
 * finite, DTYPE if x is not f32. */
dt_status dt__cache_encode(dt_ctx *ctx, const dt_module *m, dt_tensor *x,
                           const dt__cache_codes *to);

#endif
