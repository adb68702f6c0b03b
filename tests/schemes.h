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
    return !dt__scheme_of(scheme)->fp16_blocks && !dt__scheme_of(scheme)->in_groups;
}

/* Plain schemes accept every number of bits, granularity and scale dtype: all except those that are
 * the blocks of a file format or a runtime. plain_schemes() counts them; plain_scheme(i) returns
 * the number of the i-th, with i modulo their count. */
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

#endif
