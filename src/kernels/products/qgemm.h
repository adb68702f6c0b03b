/* How integer products of all instruction sets are divided into parts for threads. */
#ifndef DT__KERNELS_QGEMM_H
#define DT__KERNELS_QGEMM_H

#include "kernels/sets.h"

/* Forms of codes in panels. */
enum {
    DT__NIBBLES,  /* two in a byte, 2 to 4 bits */
    DT__UNPACKED, /* one in a byte, 2 to 4 bits */
    DT__BYTES     /* one in a byte, 5 to 8 bits */
};

/* Rows m0 ... m0 + rows - 1 times one panel, or two. */
typedef struct dt__qgemm_range {
    const dt__qgemm *g;
    int64_t m0;
    int rows, panels;
    int64_t panel[2];
} dt__qgemm_range;

/* These rows times one panel. */
typedef struct dt__qgemm_part {
    const dt__qgemm *g;
    const uint8_t *panel;
    int64_t m0, n0;  /* the first row and output */
    int rows, lanes; /* lanes: outputs, fewer than DT__LANES in the last panel */
} dt__qgemm_part;

static inline dt__qgemm_part dt__qgemm_part_of(const dt__qgemm_range *r, int i)
{
    const dt__panel_layout *l = r->g->layout;
    const int64_t panel = r->panel[i];
    return (dt__qgemm_part){ .g = r->g,
                             .panel =
                                 (const uint8_t *)r->g->panels + (size_t)panel * l->panel_bytes,
                             .m0 = r->m0,
                             .n0 = dt__panel_row(l, panel),
                             .rows = r->rows,
                             .lanes = dt__panel_lanes(l, panel) };
}

/* The scales of the blocks of row m. */
static inline const float *dt__block_scales(const dt__qgemm *g, int64_t m)
{
    return g->block_scale + m * g->layout->groups;
}

/* The initial sums of row m, and the factor of the final sums: 0 and 1 with blocks. */
static inline void dt__qgemm_begin(const dt__qgemm *g, int64_t m, const float *ksum, float *acc)
{
    if (g->block_scale != NULL) {
        for (int j = 0; j < DT__LANES; j++) acc[j] = 0;
        return;
    }
    const float zu = (float)g->zu[m];
    for (int j = 0; j < DT__LANES; j++) acc[j] = -(zu * ksum[j]);
}

static inline float dt__qgemm_scale(const dt__qgemm *g, int64_t m)
{
    return g->block_scale != NULL ? 1 : g->sx[m];
}

/* Calls `run` on threads for all rows and panels of g, at most `most` rows at a time. With many
 * rows, one panel after another is multiplied, so that it stays in cache for all rows; rows of more
 * than `near` bytes are processed in parts, so that they stay in the second cache. Few rows are
 * limited by reading weights: two panels are multiplied at a time, half of all panels apart, so
 * that a thread reads two sequential streams. The division does not change the bits. */
#define DT__QGEMM_NEAR ((int64_t)2 << 20)
void dt__qgemm_share(const dt__qgemm *g, int most, int64_t near,
                     void (*run)(const dt__qgemm_range *range));

/* acc = fmaf((float)sum, scale, acc) for DT__LANES lanes, computed in double unless that may round
 * differently: fmaf is slow where it is not an instruction. */
void dt__add_scaled(const int32_t *sum, const float *scale, float *acc);

#endif
