/* What the kernels of attention and of rotary positions take. */
#ifndef DT__KERNELS_ATTENTION_ARGS_H
#define DT__KERNELS_ATTENTION_ARGS_H

#include "core/core.h"

/* A tensor [batch, time, head, width] where it lies; strides in elements. */
typedef struct dt__heads {
    const void *x;
    int64_t strides[4];
} dt__heads;

/* A [batch, keys] operand where it lies; NULL: none. */
typedef struct dt__of_keys {
    const void *x;
    int64_t strides[2];
} dt__of_keys;

/* y = softmax(scale q k^T) v for each batch and head; head h reads head h / (heads / kv_heads) of k
 * and v. y [batch][queries][heads][width] and lse [batch][queries][heads] are contiguous. Backward
 * writes d = { dq, dk, dv }, contiguous, each of which may be NULL. */
typedef struct dt__attention {
    int64_t batch, queries, keys, heads, kv_heads, width;
    double scale;
    bool causal; /* query r sees keys up to r + keys - queries */
    dt__heads q, k, v;
    dt__of_keys mask; /* u8: 1 = may be seen */
    dt__of_keys
        document; /* i32: query r sees keys of document[r + keys - queries], unless below 0 */
    void *y, *lse;
    /* dt__attention_room, dt__attention_back_room elements of as many threads as will run */
    void *room;
} dt__attention;

#define DT__ATTENTION_TILE 64  /* queries of the heads that share keys, and keys */
#define DT__ATTENTION_LANES 16 /* rows of scratch are padded to a multiple */
#define DT__ATTENTION_ROWS 4   /* so many rows of a tile go through its products together */
#define DT__ATTENTION_PART 512 /* keys that one task sees where queries are few */

/* Whether queries are so few that keys are cut into parts instead. */
static inline bool dt__attention_is_short(const dt__attention *a)
{
    return a->queries * (a->heads / a->kv_heads) <= DT__ATTENTION_ROWS;
}
static inline int64_t dt__attention_parts(const dt__attention *a)
{
    return dt__max_i64(1, dt__ceil_div(a->keys, DT__ATTENTION_PART));
}

int64_t dt__attention_room(const dt__attention *a, int threads);
int64_t dt__attention_back_room(const dt__attention *a, int threads);

/* y: the pairs (u, v) of x turned by position * frequency[j], (u cos - v sin, u sin + v cos), or
 * `back`. Pair j < pairs is (j, j + pairs), or interleaved (2j, 2j + 1); further elements pass. */
typedef struct dt__rotary {
    int64_t batch, time, heads, width, pairs;
    bool interleaved, back;
    const double *frequency;
    const int32_t *position;
    int64_t position_strides[2]; /* 0 where all sequences have the same */
    dt__heads x;
    void *y; /* contiguous */
} dt__rotary;

#endif
