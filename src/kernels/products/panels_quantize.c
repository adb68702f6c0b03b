/* Quantizes values into a packed panel in one pass, plain C: for each of its 32 rows, a few groups
 * at a time,
 *
 *     range of each group -> scales by the scheme -> codes -> bytes of the lane, scales, ksum
 *
 * so that a row is read while it is in cache and no matrix of codes is stored. Gives the same bits
 * as range and encode of whole rows followed by dt__panel_pack. */
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

#define SPAN 256 /* columns of a row that are quantized at a time: a multiple of DT__STEP */
#define GROUPS (SPAN / DT__STEP)

typedef struct lane {
    const dt__panel_source *source;
    int64_t (*range)(int64_t n, int64_t group, const float *x, float *lo, float *hi);
    int64_t (*encode)(const dt__code_row *r, const float *x, int8_t *codes, uint8_t *mask);
    uint8_t *panel;
    int64_t row;
    int index;
    int32_t sum; /* of the codes of the piece so far */
} lane;

/* Consecutive groups of the row: columns k0 ... k1-1. */
typedef struct span {
    int64_t group, k0, k1;
    float scale[GROUPS], inverse[GROUPS];
} span;

static bool choose(const lane *l, span *s, const float *x)
{
    const dt__coding *coding = l->source->coding;
    const int64_t n = s->k1 - s->k0, group = l->source->layout->group;
    float lo[GROUPS], hi[GROUPS];
    if (l->range(n, group, x + s->k0, lo, hi) >= 0) return false;
    dt__refine_range(coding, n, group, x + s->k0, lo, hi);
    const dt__blocks blocks = { dt__ceil_div(n, group), lo, hi, s->scale, s->inverse, NULL, 0 };
    return coding->choose(coding->spec, &blocks);
}

/* Writes the codes of columns k ... k + n-1 into the panel; they may span several pieces, or a part
 * of one. */
static void place(lane *l, const span *s, int64_t k, int64_t n, const int8_t *codes)
{
    const dt__panel_layout *layout = l->source->layout;
    float *ksum = (float *)(void *)l->panel + l->index;
    const int64_t end = k + n;
    while (k < end) {
        const int64_t group = k / layout->group;
        const int64_t piece = group * layout->pieces_per_group + k % layout->group / DT__PIECE;
        const dt__piece p = dt__piece_of(layout, piece);
        const int64_t part = dt__min_i64(p.start + p.length, end) - k;
        const size_t step = (size_t)((k - p.start) / DT__STEP) * layout->step_bytes;
        l->sum += dt__panel_write(layout, part, codes,
                                  l->panel + p.codes + step + dt__panel_lane(layout, l->index));
        k += part;
        codes += part;
        if (k < p.start + p.length) return;
        const float scale = s->scale[group - s->group];
        dt__panel_write_scale(layout->scale_dtype, scale, l->index, l->panel + p.scales);
        *ksum = fmaf(scale, (float)l->sum, *ksum);
        l->sum = 0;
    }
}

static int64_t encode(lane *l, const span *s, const float *x)
{
    const dt__panel_layout *layout = l->source->layout;
    const dt__coding *coding = l->source->coding;
    uint8_t *mask = l->source->mask;
    if (mask != NULL) mask += l->row * dt__ceil_div(layout->columns, 8);
    int64_t clipped = 0;
    for (int64_t k = s->k0; k < s->k1; k += SPAN) {
        int8_t codes[SPAN];
        const int64_t n = dt__min_i64(SPAN, s->k1 - k);
        const dt__code_row r = { .n = n,
                                 .group = dt__min_i64(layout->group, n),
                                 .scale = s->scale,
                                 .inverse = s->inverse,
                                 .qmin = coding->qmin,
                                 .qmax = coding->qmax,
                                 .half_up = coding->half_up,
                                 .levels = coding->levels };
        clipped += l->encode(&r, x + k, codes, mask == NULL ? NULL : mask + k / 8);
        place(l, s, k, n, codes);
    }
    return clipped;
}

int64_t dt__quantize_panel_by(const dt__panel_source *s, int64_t panel,
                              int64_t (*range)(int64_t n, int64_t group, const float *x, float *lo,
                                               float *hi),
                              int64_t (*encode_row)(const dt__code_row *r, const float *x,
                                                    int8_t *codes, uint8_t *mask))
{
    const dt__panel_layout *layout = s->layout;
    lane l = { .source = s, .range = range, .encode = encode_row };
    l.panel = (uint8_t *)s->panels + (size_t)panel * layout->panel_bytes;
    const int lanes = dt__panel_lanes(layout, panel);
    const int64_t row = dt__panel_row(layout, panel);
    memset(l.panel, 0, lanes < DT__LANES ? layout->panel_bytes : DT__LANES * sizeof(float));
    const int64_t groups = dt__max_i64(1, SPAN / layout->group);
    int64_t clipped = 0;
    for (l.index = 0; l.index < lanes; l.index++) {
        l.row = row + l.index;
        const float *x = s->x + l.row * layout->columns;
        for (int64_t g = 0; g < layout->groups; g += groups) {
            span part = { .group = g, .k0 = g * layout->group };
            part.k1 = dt__min_i64(part.k0 + groups * layout->group, layout->columns);
            if (!choose(&l, &part, x)) return -1;
            clipped += encode(&l, &part, x);
        }
    }
    return clipped;
}

int64_t dt__quantize_panel__ref(const dt__panel_source *s, int64_t panel)
{
    return dt__quantize_panel_by(s, panel, dt__range__ref, dt__encode__ref);
}
