/* Which element of a weight is row r, column c of its matrix of outputs by inputs.
 *
 * The rows of most weights are their first dimension, as they lie. That of a transposed convolution
 * is [in, out / groups, kernel...], so output channel g * out + o of group g is the row of elements
 *
 *     w[g * in + i][o][k]    in column i * kernel + k,    i < in, o < out, k < kernel,
 *
 * in and out being those of one group. The rows of a grouped weight [experts, out, ...] are those
 * of all experts, one after another, also as they lie. */
#ifndef DT__KERNELS_ROW_MAP_H
#define DT__KERNELS_ROW_MAP_H

#include "core/core.h"

typedef struct dt__row_map {
    int64_t
        groups; /* of a transposed weight; 0: rows lie as they are, as those of the next three */
    int64_t in, out, kernel;
    int64_t experts; /* whose rows these are; 0: the weight is not grouped */
} dt__row_map;

/* The map of a transposed convolution's weight in so many groups; false where they do not divide
 * the first dimension, the rank is below 2, or an extent is negative or too large. groups = 0
 * always is true: no map. */
bool dt__row_map_of(int64_t groups, int rank, const int64_t *dims, dt__row_map *out);
/* That of a grouped weight. */
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

/* rows [rows][columns] of w, and back; for maps that are one. */
void dt__rows_gather(const dt__row_map *m, const float *w, float *rows);
void dt__rows_scatter(const dt__row_map *m, const float *rows, float *w);

#endif
