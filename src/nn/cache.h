/* A key-value cache: what attention layers keep of the tokens of earlier passes, so that a pass
 * computes its own tokens alone. A decoder (decoder.c) hangs it on the tape; layers ask here and
 * need no rule for whether there is one. Of each layer it holds the keys as they meet queries
 * (rotated) and the values, [heads][capacity][width] each, so that the keys of a head lie one
 * behind the other. */
#ifndef DT__NN_CACHE_H
#define DT__NN_CACHE_H

#include "nn/module.h"

typedef struct dt__cache_layer {
    const dt_module *m;
    dt_tensor *k, *v; /* [heads, capacity, width] */
} dt__cache_layer;

typedef struct dt__cache {
    int64_t capacity, length; /* tokens that fit, and that passes have left */
    dt__cache_layer *layer;   /* in the order of calls, which is the same in each pass */
    int64_t n, room;
    int64_t at; /* layers met in the present pass */
} dt__cache;

void dt__cache_free(dt_ctx *ctx, dt__cache *cache);

/* ---- for layers: all of them also without a cache on the tape ------------------------------- */

/* The place of the first token of this pass: so many came before. */
int64_t dt__cache_start(const dt_tape *t);
/* The places of this pass's n tokens, i32 [n], lent; NULL with the error on the tape. */
dt_tensor *dt__cache_places(dt_tape *t, int64_t n);
/* *k and *v, [1, tokens, heads, width] of this pass and layer m, are kept, and become those of all
 * tokens so far, lent. Without a cache they stay as they are. STATE where the batch is not 1, in a
 * pass that records, and where the layer is not the one that stood here in the pass before. */
dt_status dt__cache_join(dt_tape *t, const dt_module *m, dt_tensor **k, dt_tensor **v);

#endif
