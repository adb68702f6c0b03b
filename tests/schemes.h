/* Schemes as tests go through them: all of schemes.inc, so that one more is tried wherever the
 * others are, or refused in words that name it. */
#ifndef SCHEMES_H
#define SCHEMES_H

#include "testing.h"

#include "qat/scheme.h"

/* Whether the scheme of q takes these settings; a refusal must be CONFIG and name the scheme. */
static inline bool scheme_takes(dt_ctx *ctx, const dt_quant_spec *q)
{
    const dt_status s = dt__quant_check(ctx, q, DT__QUANT_TENSOR);
    if (s == DT_OK) return true;
    ck_assert_int_eq(s, DT_ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), dt__scheme_of(q->scheme)->name));
    return false;
}

/* Schemes that weights can have in any width, cut and scale dtype: all but those that are the
 * blocks of a file format. How many there are, and the number of the i-th, counting round and
 * round. */
static inline int plain_schemes(void)
{
    int n = 0;
    for (int rule = 0; rule < DT__SCHEMES; rule++) n += !dt__scheme_of(rule)->fp16_blocks;
    return n;
}

static inline int plain_scheme(int i)
{
    int rule = 0;
    for (i %= plain_schemes(); dt__scheme_of(rule)->fp16_blocks || i > 0; rule++) {
        i -= !dt__scheme_of(rule)->fp16_blocks;
    }
    return rule;
}

#endif
