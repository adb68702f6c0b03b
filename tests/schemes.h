/* Helpers for tests that run over all schemes of schemes.inc. A new scheme is tested by them
 * without further changes, unless it refuses a setting with an error that names the scheme. */
#ifndef SCHEMES_H
#define SCHEMES_H

#include "testing.h"

#include "qat/schemes/scheme.h"

/* Whether the scheme of q accepts these settings. A refusal must be CONFIG and name the scheme. */
static inline bool scheme_takes(dt_ctx *ctx, const dt_quant_spec *q)
{
    const dt_status s = dt__quant_check(ctx, q, DT__QUANT_TENSOR);
    if (s == DT_OK) return true;
    ck_assert_int_eq(s, DT_ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), dt__scheme_of(q->scheme)->name));
    return false;
}

static inline bool is_plain(int scheme)
{
    const dt__scheme *s = dt__scheme_of(scheme);
    return !s->fp16_blocks && !s->in_groups && s->bits == 0;
}

/* Plain schemes accept every number of bits, granularity and scale dtype: all except the blocks of
 * a file format or a runtime. plain_schemes() counts them; plain_scheme(i) is the number of the
 * i-th, with i modulo their count. */
static inline int plain_schemes(void)
{
    int n = 0;
    for (int scheme = 0; scheme < DT__SCHEMES; scheme++) n += is_plain(scheme);
    return n;
}

static inline int plain_scheme(int i)
{
    int scheme = 0;
    for (i %= plain_schemes(); !is_plain(scheme) || i > 0; scheme++) i -= is_plain(scheme);
    return scheme;
}

static inline bool has_levels(int scheme)
{
    return dt__scheme_of(scheme)->levels != NULL && dt__scheme_of(scheme)->group == 0;
}

/* The schemes that any weight can have: plain ones, and those with a fixed number of bits. */
static inline int weight_schemes(void)
{
    int n = plain_schemes();
    for (int scheme = 0; scheme < DT__SCHEMES; scheme++) {
        n += has_levels(scheme);
    }
    return n;
}

static inline int weight_scheme(int i)
{
    const int plain = plain_schemes();
    int scheme = 0;
    i %= weight_schemes();
    if (i < plain) return plain_scheme(i);
    for (i -= plain; !has_levels(scheme) || i > 0; scheme++) {
        i -= has_levels(scheme);
    }
    return scheme;
}

/* A scheme of any weight by a patch, with the bits that it needs. */
static inline void patch_scheme(dt_quant_patch *w, int i)
{
    w->quant.scheme = weight_scheme(i);
    w->has_scheme = true;
    if (dt__scheme_of(w->quant.scheme)->bits == 0) return;
    w->quant.bits = dt__scheme_of(w->quant.scheme)->bits;
    w->has_bits = true;
}

/* The group size of a scheme, or else this one. */
static inline int64_t group_of(int scheme, int64_t size)
{
    return dt__scheme_of(scheme)->group != 0 ? dt__scheme_of(scheme)->group : size;
}

/* The i-th scheme of blocks of a size of their own by a patch, i modulo their count. */
static inline void patch_blocks(dt_quant_patch *w, int i)
{
    int scheme = DT__SCHEMES - 1;
    for (; i >= 0; i -= group_of(scheme, 0) != 0) scheme = (scheme + 1) % DT__SCHEMES;
    *w = (dt_quant_patch){ .quant.scheme = scheme, .has_scheme = true };
}

#endif
