/* A key-value cache: the keys and values of all earlier tokens, so that a pass computes only its
 * new tokens. A decoder (decoder.c) sets it on the tape. Attention layers call the functions below
 * whether the tape has a cache or not. For each layer the cache holds the values, [heads][capacity]
 * [width], and the keys (after rotation) transposed, [heads][width][pitch] with pitch >= capacity:
 * attention multiplies a query with vectors of keys, and reads both in place.
 *
 * An int8 or int4 cache holds codes of both and a scale for each token and head (docs/numerics.md
 * §2). Codes of 4 bits belong to rotated rows, two in a byte (dt__attention). */
#ifndef DT__NN_CACHE_H
#define DT__NN_CACHE_H

#include "nn/module.h"

typedef struct dt__cache_layer {
    const dt_module *m;
    int64_t width;                /* per head */
    dt_tensor *k, *v;             /* [heads, width, pitch], [heads, capacity, width] */
    dt_tensor *k_scale, *v_scale; /* [heads, capacity]; NULL: k and v are not codes */
} dt__cache_layer;

typedef struct dt__cache {
    int64_t capacity, length; /* most tokens; tokens of completed passes */
    int64_t text;             /* tokens of the whole text that the running pass is a part of */
    int kind;                 /* DT_CACHE_... */
    dt__cache_layer *layer;   /* in the order in which they are called, the same in each pass */
    int64_t n, room;
    int64_t at; /* layers called so far in the running pass */
} dt__cache;

void dt__cache_free(dt_ctx *ctx, dt__cache *cache);
/* ARG, in the name of `what`, unless `kind` is one of DT_CACHE_... */
dt_status dt__cache_check(dt_ctx *ctx, const char *what, int kind);

/* ---- for layers; valid also without a cache on the tape -------------------------------------- */

/* The position of this pass's first token: the length of the cache, 0 without one. */
int64_t dt__cache_start(const dt_tape *t);
/* The tokens of the text that this pass of n tokens is a part of; n without a cache. */
int64_t dt__cache_text(const dt_tape *t, int64_t n);
/* The positions of this pass's n tokens, i32 [n], lent; NULL with the error on the tape. */
dt_tensor *dt__cache_positions(dt_tape *t, int64_t n);
/* Appends the keys kv->k and values kv->v of this pass and layer m, [1, tokens, heads, width], to
 * the cache, and sets kv to the keys, values and scales of all tokens so far, which are lent. Does
 * nothing without a cache. STATE if the batch is not 1, if the pass records, or if layers are
 * called in another order than in the pass before; NUMERIC if a key or value to be quantized is not
 * finite. */
dt_status dt__cache_join(dt_tape *t, const dt_module *m, dt_attention_operands *kv);

/* ---- codes of a cache (cache_codes.c) -------------------------------------------------------- */

/* The destination of codes and scales of a layer's keys or values. */
typedef struct dt__cache_codes {
    /* keys i8 [heads, width, pitch], values i8 [heads, capacity, width]; or u8, with half the
     * width */
    dt_tensor *codes;
    dt_tensor *scale; /* f32 [heads, capacity] */
    bool keys;
    int64_t first; /* the first token */
} dt__cache_codes;

/* Encodes x, f32 [1, tokens, heads, width], as tokens to->first ... NUMERIC if an element, of the
 * row or of the rotated row, is not finite; DTYPE if x is not f32. */
dt_status dt__cache_encode(dt_ctx *ctx, const dt_module *m, const dt_tensor *x,
                           const dt__cache_codes *to);

#endif
