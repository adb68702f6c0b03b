/* Sizes of attention's scratch. plain_attention.inc, plain_attention_back.inc and
 * plain_attention_short.inc divide it accordingly. */
#include "kernels/attention_args.h"

#define TILE DT__ATTENTION_TILE

static int64_t padded(const dt__attention *a)
{
    return dt__round_up(a->width, DT__ATTENTION_LANES);
}

/* Per thread: q, transposed keys and v of a tile, y of a part and of all parts, and four rows of
 * scores. Where threads share keys (dt__attention_is_short): q and a tile of k or v per thread, and
 * the sums of every part of the keys. */
int64_t dt__attention_room(const dt__attention *a, int threads)
{
    if (!dt__attention_is_short(a)) {
        return threads * TILE * (5 * padded(a) + DT__ATTENTION_ROWS);
    }
    const int64_t tasks = a->batch * a->kv_heads * dt__attention_parts(a);
    return threads * (TILE + DT__ATTENTION_ROWS) * padded(a) +
           tasks * DT__ATTENTION_ROWS * (padded(a) + DT__ATTENTION_LANES);
}

/* The sum of dy y of every row; per thread: q, dy, k, transposed k and v, dk, dv, p and ds, and
 * four rows of dq. */
int64_t dt__attention_back_room(const dt__attention *a, int threads)
{
    const int64_t rows = 7 * TILE + DT__ATTENTION_ROWS;
    return dt__round_up(a->batch * a->queries * a->heads, DT__ATTENTION_LANES) +
           threads * (rows * padded(a) + 2 * TILE * TILE);
}
