/* Packed panels: the memory layout in which kernels multiply integer weights.
 *
 * A weight is a matrix of codes, [rows][columns] = [outputs][inputs], row-major, with a scale per
 * group of consecutive columns. A panel holds 32 rows, its 32 lanes:
 *
 *     float ksum[32]                          sum of scale * codes, by the chain of numerics §2
 *     for each group (piece):
 *         for each 8 consecutive columns k:   one step
 *             lanes 0...15, then lanes 16...31:
 *                 2 to 4 bits ("nibbles"), 64 bytes: byte 4 * lane + i holds the code of k = i in
 *                     its low nibble and of k = 4 + i in its high one, two's complement
 *                 5 to 8 bits ("bytes"), 128 bytes: byte 4 * lane + i of the first 64 holds the
 *                     code of k = i, of the second 64 the code of k = 4 + i
 *         32 scales in the scale's dtype
 *
 * so that lane j of an accumulator is output j, and four activations, broadcast as one dword, are
 * multiplied with four consecutive k of each lane. Missing rows and columns are zeros. A group
 * longer than 32768 is cut into pieces of 32768 with the same scale, so that int32 sums cannot
 * overflow. Every step, row of scales and panel begins at a multiple of 64 bytes.
 *
 * The rows of a grouped weight are those of its experts, one after another. No panel holds rows of
 * two experts: if an expert's rows are not a multiple of 32, its last panel has unused lanes. So an
 * expert's panels equal those of a weight of its own.
 *
 * If groups are not consecutive columns, a layout has an order: panels hold the columns of group 0,
 * then those of group 1, and so on, ascending within each, and activations are gathered in that
 * order before a product. Kernels of products do not use the order. */
#ifndef DT__KERNELS_PANELS_H
#define DT__KERNELS_PANELS_H

#include "kernels/products/quantize_rows.h"

#include <stddef.h>

#define DT__LANES 32
#define DT__STEP 8
#define DT__PIECE ((int64_t)32768)

/* As DT_SCALE_... of detent/qat.h. */
enum { DT__SCALE_F32, DT__SCALE_F16, DT__SCALE_BF16 };

typedef struct dt__panel_shape {
    int64_t rows, columns; /* rows of all experts */
    int64_t group;         /* a positive multiple of 8, or at least `columns`: one group */
    int bits;              /* 2...8 */
    int scale_dtype;
    int64_t experts; /* 0: one */
} dt__panel_shape;

typedef struct dt__panel_layout {
    int64_t rows, columns;
    int64_t group, groups; /* columns of a group; groups of a row */
    int bits;
    int16_t scale_dtype;
    bool nibbles;
    int64_t panels;
    int64_t expert_rows, expert_panels; /* per expert; all rows and panels if there is one expert */
    /* columns, padded to whole steps: the length of a row of activations */
    int64_t depth;
    int64_t pieces;           /* per row */
    int64_t pieces_per_group; /* 1, unless groups are longer than DT__PIECE */
    size_t step_bytes, scale_bytes, panel_bytes;
    size_t bytes; /* of all panels */
    /* NULL: codes are integers; else (set by the caller) they are bytes of this float */
    const dt__small_float *real;
    /* Position j of row r holds column order[r / order_rows][j], [columns] each; lent. NULL: column
     * j. */
    const int32_t *order;
    int64_t order_rows;
} dt__panel_layout;

/* The first row of a panel; for the panel after the last, the number of rows. */
static inline int64_t dt__panel_row(const dt__panel_layout *l, int64_t panel)
{
    if (panel < l->expert_panels) return panel * DT__LANES; /* avoids a division */
    const int64_t expert = l->expert_panels == 0 ? 0 : panel / l->expert_panels;
    return expert * l->expert_rows + (panel - expert * l->expert_panels) * DT__LANES;
}

/* How many of a panel's lanes hold a row. */
static inline int dt__panel_lanes(const dt__panel_layout *l, int64_t panel)
{
    const int64_t within = panel < l->expert_panels ? panel : panel % l->expert_panels;
    return (int)dt__min_i64(DT__LANES, l->expert_rows - within * DT__LANES);
}

/* The position of a row: panel and lane. */
typedef struct dt__panel_place {
    int64_t panel;
    int lane;
} dt__panel_place;

static inline dt__panel_place dt__panel_at(const dt__panel_layout *l, int64_t row)
{
    const int64_t expert = row < l->expert_rows ? 0 : row / l->expert_rows;
    const int64_t within = row - expert * l->expert_rows;
    return (dt__panel_place){ expert * l->expert_panels + within / DT__LANES,
                              (int)(within % DT__LANES) };
}

/* The layout of one expert's first `rows` rows, which begin a panel. */
static inline dt__panel_layout dt__panel_part(const dt__panel_layout *l, int64_t rows)
{
    dt__panel_layout part = *l;
    part.rows = part.expert_rows = rows;
    part.panels = part.expert_panels = dt__ceil_div(rows, DT__LANES);
    part.bytes = (size_t)part.panels * l->panel_bytes;
    return part;
}

/* The order of a row's columns; NULL if columns are in their own order. */
static inline const int32_t *dt__panel_order(const dt__panel_layout *l, int64_t row)
{
    return l->order == NULL ? NULL : l->order + row / l->order_rows * l->columns;
}

/* False if the group is neither a multiple of 8 nor the whole row, bits or scale dtype are unknown,
 * an extent is negative, experts have unequal rows, or the size overflows. */
bool dt__panel_layout_of(const dt__panel_shape *shape, dt__panel_layout *out);

/* A piece: a group, or a part of a group longer than DT__PIECE. */
typedef struct dt__piece {
    int64_t group, start, length; /* in columns */
    size_t codes, scales;         /* offsets in a panel */
} dt__piece;

static inline dt__piece dt__piece_of(const dt__panel_layout *l, int64_t piece)
{
    const bool whole = l->pieces_per_group == 1; /* avoids divisions */
    const int64_t group = whole ? piece : piece / l->pieces_per_group;
    const int64_t part = whole ? 0 : piece % l->pieces_per_group;
    const int64_t start = group * l->group + part * DT__PIECE;
    int64_t end = (group + 1) * l->group;
    if (end > l->columns) end = l->columns;
    if (end > start + DT__PIECE) end = start + DT__PIECE;
    const size_t before = DT__LANES * sizeof(float) + (size_t)piece * l->scale_bytes;
    const size_t codes = before + (size_t)(start / DT__STEP) * l->step_bytes;
    const size_t steps = (size_t)((end - start + DT__STEP - 1) / DT__STEP);
    return (dt__piece){ group, start, end - start, codes, codes + steps * l->step_bytes };
}

/* Row-major codes and scales, columns in their own order. */
typedef struct dt__code_matrix {
    int8_t *codes; /* [rows][ld] */
    int64_t ld;
    float *scales;      /* [rows][scale_step]; representable in the layout's scale dtype */
    int64_t scale_step; /* number of groups; 0: one scale for all rows */
} dt__code_matrix;

/* Writes layout->bytes bytes of panels, aligned to 64. */
void dt__panel_pack(const dt__panel_layout *l, const dt__code_matrix *from, void *panels);
/* The inverse of dt__panel_pack; scale_step is the number of groups. */
void dt__panel_unpack(const dt__panel_layout *l, const void *panels, const dt__code_matrix *to);

/* The 32 scales of a piece as floats. */
void dt__panel_scales(int scale_dtype, const uint8_t *from, float scale[DT__LANES]);

/* Offset of lane j within a step. */
static inline size_t dt__panel_lane(const dt__panel_layout *l, int j)
{
    return (size_t)(j / 16) * (l->step_bytes / 2) + (size_t)(j % 16) * 4;
}

/* Writes n codes of one lane from the step at `to` on, fills the last step with 0, and returns
 * their sum. */
int32_t dt__panel_write(const dt__panel_layout *l, int64_t n, const int8_t *codes, uint8_t *to);
/* Writes one of the 32 scales of a piece. */
void dt__panel_write_scale(int scale_dtype, float scale, int lane, uint8_t *scales);

/* A weight to be quantized into panels. */
typedef struct dt__panel_source {
    const dt__panel_layout *layout;
    const float *x; /* [rows][columns] */
    const dt__coding *coding;
    void *panels;
    uint8_t *mask; /* [rows][ceil(columns / 8)], as in the kernel `encode`; or NULL */
} dt__panel_source;

/* The kernel quantize_panel in terms of the given kernels for ranges and codes. */
int64_t dt__quantize_panel_by(const dt__panel_source *s, int64_t panel,
                              int64_t (*range)(int64_t n, int64_t group, const float *x, float *lo,
                                               float *hi),
                              int64_t (*encode)(const dt__code_row *r, const float *x,
                                                int8_t *codes, uint8_t *mask));

/* y[n - n0][k - k0] = (q - zero) * scale for n0 <= n < n1 and k0 <= k < k1. */
typedef struct dt__panel_tile {
    const dt__panel_layout *layout;
    const void *panels;
    const int8_t *zero; /* [rows][zero_step]; NULL: all 0 */
    int64_t zero_step;  /* groups; 0: one for all */
    int64_t n0, n1, k0, k1;
    float *y;
    int64_t ldy;
} dt__panel_tile;

/* Calls `piece` for each piece of each panel that overlaps the tile; `piece` writes the part inside
 * the tile. Layouts with an order, and float codes, are expanded by plain C instead. */
typedef struct dt__expanded_panel {
    const uint8_t *panel;
    int64_t n0;
    int first, last; /* lanes that lie in the tile */
} dt__expanded_panel;
typedef void dt__expand_piece(const dt__panel_tile *t, const dt__expanded_panel *of,
                              const dt__piece *p);
void dt__panel_expand(const dt__panel_tile *t, dt__expand_piece *piece);
void dt__expand_ordered(const dt__panel_tile *t);

/* The integer product (numerics §2): for each row m and output n
 *     acc = -((float)zu * ksum[n]);  per piece   acc = fmaf((float)sum of u * q_w, s_w, acc)
 *     y = sx * acc;  y = y + bias[n]
 * and for activations in blocks, each with its own scale s_x and zero point 0,
 *     acc = 0;  per piece   acc = fmaf((float)sum of (u - 128) * q_w, s_w * s_x, acc)
 *     y = acc;  y = y + bias[n] */
typedef struct dt__qgemm {
    const dt__panel_layout *layout;
    const void *panels;
    int64_t m;
    const uint8_t *u; /* [m][ldu], ldu >= layout->depth; padding may hold anything */
    int64_t ldu;
    const float *sx;
    const int32_t *zu;
    /* [m][groups]: scales of blocks of activations. The blocks are the weight's groups, of at most
     * DT__PIECE columns; sx and zu are not read. NULL: each row has one scale. */
    const float *block_scale;
    const float *bias; /* [rows of the weight], or NULL */
    float *y;          /* [m][ldy] */
    int64_t ldy;
    const int64_t *place; /* product row i is row place[i] of y; NULL: row i */
    bool alone;           /* runs on the calling thread */
    /* The next product of the same rows, computed by the same kernel in the same parallel region;
     * NULL: none. It has the same m, u, ldu, sx, zu, block_scale and place; its `alone` is not
     * read. */
    const struct dt__qgemm *next;
} dt__qgemm;

static inline float *dt__qgemm_row(const dt__qgemm *g, int64_t m)
{
    return g->y + (g->place == NULL ? m : g->place[m]) * g->ldy;
}

/* Few rows of floats against a weight without zero points (numerics §2): for each row m and output
 * n, over the columns k of a piece ascending, q_w as a float,
 *     part[k / 4 % 2] = fmaf(x[k], q_w, part[k / 4 % 2])          from 0; k from the piece's start
 *     acc = fmaf(part[0] + part[1], s_w, acc)                     from 0, per piece;  y = acc */
typedef struct dt__fgemm {
    const dt__panel_layout *layout;
    const void *panels;
    int64_t m;
    const float *x; /* [m][ldx] */
    int64_t ldx;
    float *y; /* [m][ldy] */
    int64_t ldy;
    bool alone;                   /* runs on the calling thread */
    const struct dt__fgemm *next; /* as in dt__qgemm */
} dt__fgemm;

/* The number of panels of a product and its next ones. */
static inline int64_t dt__fgemm_panels(const dt__fgemm *g)
{
    int64_t panels = 0;
    for (; g != NULL; g = g->next) panels += g->layout->panels;
    return panels;
}

/* The product to which panel *panel, numbered through all products, belongs; *panel becomes its
 * number in that product. */
static inline const dt__fgemm *dt__fgemm_at(const dt__fgemm *g, int64_t *panel)
{
    for (; *panel >= g->layout->panels; g = g->next) *panel -= g->layout->panels;
    return g;
}

/* Largest m of this form; for more rows, gemm multiplies dequantized tiles. */
#define DT__FGEMM_ROWS 16

#endif
