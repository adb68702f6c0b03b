/* Packed panels in plain C: layout, pack, unpack, expand. The layout is described in panels.h. */
#include "kernels/kernels.h"

#include "core/text/half.h"

#include <math.h>
#include <string.h>

bool dt__panel_layout_of(const dt__panel_shape *s, dt__panel_layout *out)
{
    if (s->rows < 0 || s->columns < 0 || s->group < 1) return false;
    if (s->columns > INT64_MAX / 2 || s->rows > INT64_MAX / 2) return false;
    const int64_t experts = dt__max_i64(s->experts, 1);
    if (s->experts < 0 || s->rows % experts != 0) return false;
    if (s->group < s->columns && s->group % DT__STEP != 0) return false;
    if (s->bits < 2 || s->bits > 8) return false;
    if (s->scale_dtype < DT__SCALE_F32 || s->scale_dtype > DT__SCALE_BF16) return false;
    dt__panel_layout l = { .rows = s->rows, .columns = s->columns };
    l.group = dt__max_i64(dt__min_i64(s->group, s->columns), 1);
    l.groups = dt__ceil_div(s->columns, l.group);
    l.bits = s->bits;
    l.scale_dtype = (int16_t)s->scale_dtype;
    l.nibbles = s->bits <= 4;
    l.expert_rows = s->rows / experts;
    l.expert_panels = dt__ceil_div(l.expert_rows, DT__LANES);
    l.panels = experts * l.expert_panels;
    l.depth = dt__round_up(s->columns, DT__STEP);
    l.pieces_per_group = dt__ceil_div(l.group, DT__PIECE);
    if (l.groups > 0) {
        const int64_t last = s->columns - (l.groups - 1) * l.group;
        l.pieces = (l.groups - 1) * l.pieces_per_group + dt__ceil_div(last, DT__PIECE);
    }
    l.step_bytes = l.nibbles ? DT__LANES * DT__STEP / 2 : DT__LANES * DT__STEP;
    l.scale_bytes = s->scale_dtype == DT__SCALE_F32 ? DT__LANES * 4 : DT__LANES * 2;
    size_t codes, scales;
    const bool fits = dt__mul_size((uint64_t)(l.depth / DT__STEP), l.step_bytes, &codes) &&
                      dt__mul_size((uint64_t)l.pieces, l.scale_bytes, &scales) &&
                      dt__add_size(codes, scales, &codes) &&
                      dt__add_size(codes, DT__LANES * sizeof(float), &l.panel_bytes) &&
                      dt__mul_size(l.panel_bytes, (uint64_t)l.panels, &l.bytes);
    *out = l;
    return fits && l.bytes <= PTRDIFF_MAX;
}

/* ---- scales in their dtype ------------------------------------------------------------------ */

void dt__panel_write_scale(int scale_dtype, float scale, int lane, uint8_t *scales)
{
    if (scale_dtype == DT__SCALE_F32) {
        memcpy(scales + 4 * lane, &scale, 4);
        return;
    }
    const uint16_t half =
        scale_dtype == DT__SCALE_F16 ? dt__f32_to_f16(scale) : dt__f32_to_bf16(scale);
    memcpy(scales + 2 * lane, &half, 2);
}

void dt__panel_scales(int scale_dtype, const uint8_t *from, float scale[DT__LANES])
{
    if (scale_dtype == DT__SCALE_F32) {
        memcpy(scale, from, DT__LANES * sizeof(float));
        return;
    }
    for (int j = 0; j < DT__LANES; j++) {
        uint16_t half;
        memcpy(&half, from + 2 * j, 2);
        scale[j] = scale_dtype == DT__SCALE_F16 ? dt__f16_to_f32(half) : dt__bf16_to_f32(half);
    }
}

/* ---- one lane: four codes in a word, so that nothing depends on the order of its bytes ------- */

#define LOW_NIBBLES 0x0f0f0f0fu

static uint32_t load_word(const void *from)
{
    uint32_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

static void store_word(void *to, uint32_t word) { memcpy(to, &word, sizeof word); }

/* Sign-extends four nibbles, each stored in the low half of a byte. */
static uint32_t extend(uint32_t nibbles) { return nibbles | (nibbles & 0x08080808u) * 0x1e; }

static int32_t sum_of(int64_t n, const int8_t *codes)
{
    int32_t sum = 0;
    for (int64_t k = 0; k < n; k++) sum += codes[k];
    return sum;
}

int32_t dt__panel_write(const dt__panel_layout *l, int64_t n, const int8_t *codes, uint8_t *to)
{
    for (int64_t k = 0; k < n; k += DT__STEP, to += l->step_bytes) {
        int8_t last[DT__STEP] = { 0 };
        const int8_t *from = codes + k;
        if (n - k < DT__STEP) {
            memcpy(last, from, (size_t)(n - k));
            from = last;
        }
        const uint32_t low = load_word(from), high = load_word(from + 4);
        if (l->nibbles) {
            store_word(to, (low & LOW_NIBBLES) | (high & LOW_NIBBLES) << 4);
        } else {
            store_word(to, low);
            store_word(to + 64, high);
        }
    }
    return sum_of(n, codes);
}

/* Reads the codes of `steps` steps of one lane. */
static void read_lane(const dt__panel_layout *l, int64_t steps, const uint8_t *from, int8_t *codes)
{
    for (int64_t i = 0; i < steps; i++, from += l->step_bytes, codes += DT__STEP) {
        const uint32_t word = load_word(from);
        store_word(codes, l->nibbles ? extend(word & LOW_NIBBLES) : word);
        store_word(codes + 4, l->nibbles ? extend(word >> 4 & LOW_NIBBLES) : load_word(from + 64));
    }
}

/* ---- pack and unpack ------------------------------------------------------------------------ */

#define AT_ONCE 256 /* codes of a row with an order that are gathered at a time */

/* Writes a piece of a row whose columns have an order: gathers its codes. */
static int32_t write_ordered(const dt__panel_layout *l, const dt__piece *p, const int8_t *row,
                             const int32_t *order, uint8_t *to)
{
    int8_t codes[AT_ONCE];
    int32_t sum = 0;
    order += p->start;
    for (int64_t k = 0; k < p->length; k += AT_ONCE) {
        const int64_t n = dt__min_i64(AT_ONCE, p->length - k);
        for (int64_t i = 0; i < n; i++) codes[i] = row[order[k + i]];
        sum += dt__panel_write(l, n, codes, to + (size_t)(k / DT__STEP) * l->step_bytes);
    }
    return sum;
}

static void pack_piece(const dt__panel_layout *l, const dt__code_matrix *from, int64_t index,
                       const dt__piece *p, uint8_t *panel)
{
    const int lanes = dt__panel_lanes(l, index);
    const int64_t n0 = dt__panel_row(l, index);
    float *ksum = (float *)(void *)panel;
    if (lanes < DT__LANES) memset(panel + p->codes, 0, p->scales + l->scale_bytes - p->codes);
    for (int j = 0; j < lanes; j++) {
        const int8_t *row = from->codes + (n0 + j) * from->ld;
        const int32_t *order = dt__panel_order(l, n0 + j);
        uint8_t *to = panel + p->codes + dt__panel_lane(l, j);
        const int32_t sum = order == NULL ? dt__panel_write(l, p->length, row + p->start, to)
                                          : write_ordered(l, p, row, order, to);
        const int64_t at = from->scale_step == 0 ? 0 : (n0 + j) * from->scale_step + p->group;
        dt__panel_write_scale(l->scale_dtype, from->scales[at], j, panel + p->scales);
        ksum[j] = fmaf(from->scales[at], (float)sum, ksum[j]);
    }
}

DT__EACH(panel_pack, panel, const dt__panel_layout *l; const dt__code_matrix *from;
         uint8_t *const panels;)
{
    uint8_t *to = a.panels + (size_t)panel * a.l->panel_bytes;
    memset(to, 0, DT__LANES * sizeof(float));
    for (int64_t i = 0; i < a.l->pieces; i++) {
        const dt__piece piece = dt__piece_of(a.l, i);
        pack_piece(a.l, a.from, panel, &piece, to);
    }
}

void dt__panel_pack(const dt__panel_layout *l, const dt__code_matrix *from, void *panels)
{
    dt__parallel(l->panels, DT__LANES * l->columns, panel_pack_share,
                 &(panel_pack_args){ l, from, panels });
}

static void read_piece(const dt__panel_layout *l, int64_t n, const uint8_t *from, int8_t *codes)
{
    const int64_t whole = n / DT__STEP, rest = n % DT__STEP;
    int8_t last[DT__STEP];
    read_lane(l, whole, from, codes);
    if (rest == 0) return;
    read_lane(l, 1, from + (size_t)whole * l->step_bytes, last);
    memcpy(codes + whole * DT__STEP, last, (size_t)rest);
}

/* Reads a piece of a row whose columns have an order: scatters its codes. */
static void read_ordered(const dt__panel_layout *l, const dt__piece *p, const uint8_t *from,
                         const int32_t *order, int8_t *row)
{
    int8_t codes[AT_ONCE];
    order += p->start;
    for (int64_t k = 0; k < p->length; k += AT_ONCE) {
        const int64_t n = dt__min_i64(AT_ONCE, p->length - k);
        read_piece(l, n, from + (size_t)(k / DT__STEP) * l->step_bytes, codes);
        for (int64_t i = 0; i < n; i++) row[order[k + i]] = codes[i];
    }
}

static void unpack_piece(const dt__panel_layout *l, const dt__code_matrix *to, int64_t index,
                         const dt__piece *p, const uint8_t *panel)
{
    const int lanes = dt__panel_lanes(l, index);
    const int64_t n0 = dt__panel_row(l, index);
    float scale[DT__LANES];
    dt__panel_scales(l->scale_dtype, panel + p->scales, scale);
    for (int j = 0; j < lanes; j++) {
        const uint8_t *from = panel + p->codes + dt__panel_lane(l, j);
        int8_t *row = to->codes + (n0 + j) * to->ld;
        const int32_t *order = dt__panel_order(l, n0 + j);
        if (order == NULL) read_piece(l, p->length, from, row + p->start);
        else read_ordered(l, p, from, order, row);
        to->scales[(n0 + j) * to->scale_step + p->group] = scale[j];
    }
}

DT__EACH(panel_unpack, panel, const dt__panel_layout *l; const uint8_t *panels;
         const dt__code_matrix *to;)
{
    const uint8_t *from = a.panels + (size_t)panel * a.l->panel_bytes;
    for (int64_t i = 0; i < a.l->pieces; i++) {
        const dt__piece piece = dt__piece_of(a.l, i);
        unpack_piece(a.l, a.to, panel, &piece, from);
    }
}

void dt__panel_unpack(const dt__panel_layout *l, const void *panels, const dt__code_matrix *to)
{
    dt__parallel(l->panels, DT__LANES * l->columns, panel_unpack_share,
                 &(panel_unpack_args){ l, panels, to });
}

/* ---- expand --------------------------------------------------------------------------------- */

#define EXPAND 256 /* codes of a lane that are expanded at a time: a multiple of DT__STEP */

/* Dequantizes columns k0 ... k1-1 of one lane of a piece. */
static void expand_lane(const dt__panel_layout *l, const uint8_t *from, int64_t k0, int64_t k1,
                        const float by[2], float *y)
{
    const float scale = by[0], zero = by[1];
    for (int64_t k = k0 / DT__STEP * DT__STEP; k < k1; k += EXPAND) {
        int8_t codes[EXPAND];
        const int64_t begin = dt__max_i64(k0, k), end = dt__min_i64(k1, k + EXPAND);
        read_lane(l, dt__ceil_div(end - k, DT__STEP), from + (size_t)(k / DT__STEP) * l->step_bytes,
                  codes);
        for (int64_t i = begin; i < end && l->real != NULL; i++) {
            y[i - k0] = dt__small_value(l->real, (uint8_t)codes[i - k]) * scale;
        }
        for (int64_t i = begin; i < end && l->real == NULL; i++) {
            y[i - k0] = ((float)codes[i - k] - zero) * scale;
        }
    }
}

/* Dequantizes the part of one piece of one panel that is in the tile. */
static void expand_piece(const dt__panel_tile *t, const dt__expanded_panel *of, const dt__piece *p)
{
    const dt__panel_layout *l = t->layout;
    const uint8_t *panel = of->panel;
    const int64_t n0 = of->n0;
    const int64_t k0 = dt__max_i64(t->k0, p->start), k1 = dt__min_i64(t->k1, p->start + p->length);
    float scale[DT__LANES];
    dt__panel_scales(l->scale_dtype, panel + p->scales, scale);
    for (int j = of->first; j < of->last; j++) {
        float by[2] = { scale[j], 0 };
        if (t->zero != NULL) {
            by[1] = t->zero[t->zero_step == 0 ? 0 : (n0 + j) * t->zero_step + p->group];
        }
        expand_lane(l, panel + p->codes + dt__panel_lane(l, j), k0 - p->start, k1 - p->start, by,
                    t->y + (n0 + j - t->n0) * t->ldy + (k0 - t->k0));
    }
}

/* Dequantizes the pieces of a panel that overlap columns k0 ... k1-1 of t. */
static void expand_panel(const dt__panel_tile *t, int64_t panel, dt__expand_piece *piece)
{
    const dt__panel_layout *l = t->layout;
    const int64_t n0 = dt__panel_row(l, panel);
    const dt__expanded_panel of = {
        .panel = (const uint8_t *)t->panels + (size_t)panel * l->panel_bytes,
        .n0 = n0,
        .first = (int)dt__max_i64(t->n0 - n0, 0),
        .last = (int)dt__min_i64(t->n1 - n0, dt__panel_lanes(l, panel)),
    };
    const int64_t group = t->k0 / l->group;
    const int64_t first = group * l->pieces_per_group + (t->k0 - group * l->group) / DT__PIECE;
    for (int64_t i = first; i < l->pieces; i++) {
        const dt__piece p = dt__piece_of(l, i);
        if (p.start >= t->k1) break;
        piece(t, &of, &p);
    }
}

void dt__panel_expand(const dt__panel_tile *t, dt__expand_piece *piece)
{
    if (t->n0 >= t->n1 || t->k0 >= t->k1) return;
    if (t->layout->order != NULL) {
        dt__expand_ordered(t);
        return;
    }
    const int64_t last = dt__panel_at(t->layout, t->n1 - 1).panel;
    for (int64_t panel = dt__panel_at(t->layout, t->n0).panel; panel <= last; panel++) {
        expand_panel(t, panel, t->layout->real != NULL ? expand_piece : piece);
    }
}

void dt__expand__ref(const dt__panel_tile *t) { dt__panel_expand(t, expand_piece); }
