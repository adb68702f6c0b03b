/* Operands of the kernels of attention and of rotary positions. */
#ifndef DT__KERNELS_ATTENTION_ARGS_H
#define DT__KERNELS_ATTENTION_ARGS_H

#include "core/core.h"

/* A strided tensor [batch, time, head, width]; strides in elements. */
typedef struct dt__heads {
    const void *x;
    int64_t strides[4];
} dt__heads;

/* A strided operand [batch, keys]; NULL: none. */
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
    bool causal;    /* query r attends to keys 0 ... r + keys - queries */
    int64_t window; /* with `causal`: how many of the latest keys a query attends to; 0: all */
    dt__heads q, k, v;
    /* Scales [batch, time, head] of int8 keys and values, whose last stride is unused: the value of
     * a code is code * scale, with one scale per key and head. Without masks, forward only. x NULL:
     * k and v are floats. */
    dt__heads k_scale, v_scale;
    /* k and v are u8 with two 4-bit codes per byte, of rows that the kernel `hadamard` has rotated:
     * byte i of a row holds the codes of elements i (lower half) and i + dt__half_row(width). */
    bool packed;
    dt__of_keys mask; /* u8: 1 = visible */
    /* i32: query r attends to keys of document[r + keys - queries]; negative: not a query */
    dt__of_keys document;
    void *y, *lse;
    /* dt__attention_room or dt__attention_back_room elements, for the number of threads */
    void *room;
} dt__attention;

#define DT__ATTENTION_TILE 64  /* queries of the heads that share keys, and keys, of a tile */
#define DT__ATTENTION_LANES 16 /* rows of scratch are padded to a multiple */
#define DT__ATTENTION_ROWS 4   /* rows of a tile that are multiplied together */
#define DT__ATTENTION_PART 512 /* keys of a part, whose sums are joined to those of earlier parts */

/* The bytes of a row of 4-bit codes. */
static inline int64_t dt__half_row(int64_t width) { return (width + 1) / 2; }
/* The order of the Hadamard matrices that rotate a row: the largest power of two that divides
 * width. */
static inline int64_t dt__hadamard_order(int64_t width) { return width & -width; }

/* Whether queries are so few that threads share keys instead of queries. */
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

/* y: the pairs (u, v) of x rotated by the angle position * frequency[j], (u cos - v sin, u sin + v
 * cos), or with `back` by its negative. Pair j < pairs is (j, j + pairs), or interleaved (2j, 2j +
 * 1); further elements are copied. Cosines and sines are multiplied by the amplitude. */
typedef struct dt__rotary {
    int64_t batch, time, heads, width, pairs;
    bool interleaved, back;
    double amplitude;
    const double *frequency;
    const int32_t *position;
    int64_t position_strides[2]; /* 0: all sequences have the same positions */
    dt__heads x;
    void *y; /* contiguous */
} dt__rotary;

#endif
