/* Dequantizes panels whose columns have an order (panels.h). The columns of a tile are scattered in
 * memory, so codes are read one by one; their addresses are found once for all rows of a panel. */
#include "kernels/kernels.h"

#define APART 64

/* Addresses of the codes of one panel whose columns are in a tile. */
typedef struct places {
    int n;
    const uint8_t *code[APART]; /* byte of lane 0 with the code, to be shifted left by `shift` */
    int shift[APART];
    int64_t column[APART]; /* column of the tile */
    float scale[APART][DT__LANES], zero[APART][DT__LANES];
} places;

/* Writes the values of one row. `zero`, a compile-time constant, says whether there are zero
 * points. */
static inline void write_row(const places *s, const dt__panel_layout *l, int lane, bool zero,
                             float *y)
{
    const unsigned mask = l->nibbles ? 15 : 255;
    const int sign = l->nibbles ? 8 : 128;
    const size_t at = dt__panel_lane(l, lane);
    for (int i = 0; i < s->n; i++) {
        const int code = (int)((unsigned)s->code[i][at] >> s->shift[i] & mask);
        float q = (float)((code ^ sign) - sign);
        if (l->real != NULL) q = dt__small_value(l->real, (uint8_t)code);
        if (zero) q -= s->zero[i][lane];
        y[s->column[i]] = q * s->scale[i][lane];
    }
}

/* Rows n0 ... n1-1 of one panel with the same order, from a lane on. */
typedef struct row_range {
    int64_t n0, n1, panel;
    int lane;
} row_range;

/* Writes these rows, lane by lane. */
static void write_places(const dt__panel_tile *t, const row_range *r, const places *s)
{
    for (int64_t n = r->n0; n < r->n1; n++) {
        const int lane = r->lane + (int)(n - r->n0);
        float *y = t->y + (n - t->n0) * t->ldy;
        if (t->zero != NULL) write_row(s, t->layout, lane, true, y);
        else write_row(s, t->layout, lane, false, y);
    }
}

static void add_place(const dt__panel_tile *t, const dt__piece *p, const uint8_t *panel, int64_t k,
                      places *s)
{
    const dt__panel_layout *l = t->layout;
    const int in_step = (int)(k % DT__STEP);
    const uint8_t *step = panel + p->codes + (size_t)(k / DT__STEP) * l->step_bytes;
    s->code[s->n] = step + in_step % 4 + (l->nibbles ? 0 : in_step / 4 * 64);
    s->shift[s->n] = l->nibbles ? in_step / 4 * 4 : 0;
    dt__panel_scales(l->scale_dtype, panel + p->scales, s->scale[s->n]);
}

static void add_zeros(const dt__panel_tile *t, const row_range *r, int64_t group, float *zero)
{
    for (int64_t n = r->n0; n < r->n1 && t->zero != NULL; n++) {
        zero[r->lane + (n - r->n0)] = t->zero[t->zero_step == 0 ? 0 : n * t->zero_step + group];
    }
}

/* The first j in j0 ... j1-1 with order[j] >= k; order ascends there. */
static int64_t place_of(const int32_t *order, int64_t j0, int64_t j1, int64_t k)
{
    while (j0 < j1) {
        const int64_t middle = j0 + (j1 - j0) / 2;
        if (order[middle] < k) j0 = middle + 1;
        else j1 = middle;
    }
    return j0;
}

/* Columns ascend within a group, so the tile's columns are contiguous in each piece. */
static void expand_rows(const dt__panel_tile *t, const row_range *r)
{
    const dt__panel_layout *l = t->layout;
    const int32_t *order = dt__panel_order(l, r->n0);
    const uint8_t *panel = (const uint8_t *)t->panels + (size_t)r->panel * l->panel_bytes;
    places s;
    s.n = 0;
    for (int64_t i = 0; i < l->pieces; i++) {
        const dt__piece p = dt__piece_of(l, i);
        int64_t j = place_of(order, p.start, p.start + p.length, t->k0);
        for (; j < p.start + p.length && order[j] < t->k1; j++) {
            add_place(t, &p, panel, j - p.start, &s);
            add_zeros(t, r, p.group, s.zero[s.n]);
            s.column[s.n++] = order[j] - t->k0;
            if (s.n < APART) continue;
            write_places(t, r, &s);
            s.n = 0;
        }
    }
    write_places(t, r, &s);
}

void dt__expand_ordered(const dt__panel_tile *t)
{
    const dt__panel_layout *l = t->layout;
    for (int64_t n0 = t->n0, n1; n0 < t->n1; n0 = n1) {
        const dt__panel_place at = dt__panel_at(l, n0);
        const int64_t of_panel = n0 - at.lane + dt__panel_lanes(l, at.panel);
        const int64_t of_order = (n0 / l->order_rows + 1) * l->order_rows;
        n1 = dt__min_i64(dt__min_i64(of_panel, of_order), t->n1);
        expand_rows(t, &(row_range){ n0, n1, at.panel, at.lane });
    }
}
