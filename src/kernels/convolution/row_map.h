/* The map from row r and column c of a weight's matrix [outputs][inputs] to its element.
 *
 * The rows of most weights are their first dimension, contiguous. The weight of a transposed
 * convolution is [in, out / groups, kernel...], so output channel g * out + o of group g is the row
 *
 *     w[g * in + i][o][k]    in column i * kernel + k,    i < in, o < out, k < kernel,
 *
 * where in and out are those of one group. The rows of a grouped weight [experts, out, ...] are
 * those of all experts, one after another, contiguous. */
#ifndef DT__KERNELS_ROW_MAP_H
#define DT__KERNELS_ROW_MAP_H

#include "core/core.h"

typedef struct dt__row_map {
    int64_t groups; /* of a transposed convolution; 0: rows are contiguous */
    int64_t in, out, kernel;
    int64_t experts; /* 0: the weight is not grouped */
} dt__row_map;

/* The map of a transposed convolution's weight; false if groups do not divide the first dimension,
 * the rank is below 2, or an extent is negative or too large. groups = 0: no map, always true. */
bool dt__row_map_of(int64_t groups, int rank, const int64_t *dims, dt__row_map *out);
/* The map of a grouped weight. */
static inline dt__row_map dt__row_map_of_experts(int64_t experts)
{
    return (dt__row_map){ .experts = experts };
}

/* Whether rows must be gathered. */
static inline bool dt__is_mapped(const dt__row_map *m) { return m->groups > 0; }
static inline bool dt__same_map(const dt__row_map *a, const dt__row_map *b)
{
    return a->groups == b->groups && a->experts == b->experts;
}
static inline int64_t dt__mapped_rows(const dt__row_map *m) { return m->groups * m->out; }
static inline int64_t dt__mapped_columns(const dt__row_map *m) { return m->in * m->kernel; }

/* Copies w to rows [rows][columns], and back; dt__is_mapped must hold. */
void dt__rows_gather(const dt__row_map *m, const float *w, float *rows);
void dt__rows_scatter(const dt__row_map *m, const float *rows, float *w);

#endif
