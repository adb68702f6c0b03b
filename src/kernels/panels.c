/* Packed panels in plain C: layout, pack, unpack, expand. The layout is described in panels.h. */
#include "kernels/kernels.h"

#include "core/half.h"

#include <math.h>
#include <string.h>

bool dt__panel_layout_of(const dt__panel_shape *s, dt__panel_layout *out)
{
    if (s->rows < 0 || s->columns < 0 || s->group < 1) return false;
    if (s->columns > INT64_MAX / 2 || s->rows > INT64_MAX / 2) return false;
    if (s->group < s->columns && s->group % DT__STEP != 0) return false;
    if (s->bits < 2 || s->bits > 8) return false;
    if (s->scale_dtype < DT__SCALE_F32 || s->scale_dtype > DT__SCALE_BF16) return false;
    dt__panel_layout l = { .rows = s->rows, .columns = s->columns };
    l.group = dt__max_i64(dt__min_i64(s->group, s->columns), 1);
    l.groups = dt__ceil_div(s->columns, l.group);
    l.bits = s->bits;
    l.scale_dtype = s->scale_dtype;
    l.nibbles = s->bits <= 4;
    l.panels = dt__ceil_div(s->rows, DT__LANES);
    l.depth = dt__round_up(s->columns, DT__STEP);
    l.pieces_per_group = dt__ceil_div(l.group, DT__PIECE);
    if (l.groups > 0) {
        const int64_t last = s->columns - (l.groups - 1) * l.group;
        l.pieces = (l.groups - 1) * l.pieces_per_group + dt__ceil_div(last, DT__PIECE);
    }
    l.step_bytes = l.nibbles ? DT__LANES * DT__STEP / 2 : DT__LANES * DT__STEP;
    l.scale_bytes = s->scale_dtype == DT__SCALE_F32 ? DT__LANES * 4 : DT__LANES * 2;
    size_t codes, scales;
    const bool fits = dt__mul_size((size_t)(l.depth / DT__STEP), l.step_bytes, &codes) &&
                      dt__mul_size((size_t)l.pieces, l.scale_bytes, &scales) &&
                      dt__add_size(codes, scales, &codes) &&
                      dt__add_size(codes, DT__LANES * sizeof(float), &l.panel_bytes) &&
                      dt__mul_size(l.panel_bytes, (size_t)l.panels, &l.bytes);
    *out = l;
    return fits && l.bytes <= INT64_MAX;
}

/* ---- scales in their dtype ------------------------------------------------------------------ */

static void write_scales(int scale_dtype, const float scale[DT__LANES], uint8_t *to)
{
    for (int j = 0; j < DT__LANES; j++) {
        if (scale_dtype == DT__SCALE_F32) {
            memcpy(to + 4 * j, &scale[j], 4);
            continue;
        }
        const uint16_t half =
            scale_dtype == DT__SCALE_F16 ? dt__f32_to_f16(scale[j]) : dt__f32_to_bf16(scale[j]);
        memcpy(to + 2 * j, &half, 2);
    }
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

/* ---- one step: 8 columns of 32 lanes -------------------------------------------------------- */

typedef int8_t step[DT__LANES][DT__STEP];

static void write_step(bool nibbles, step codes, uint8_t *to)
{
    for (int j = 0; j < DT__LANES; j++) {
        uint8_t *lane = to + j / 16 * (nibbles ? 64 : 128) + j % 16 * 4;
        for (int i = 0; i < 4; i++) {
            const unsigned low = (uint8_t)codes[j][i], high = (uint8_t)codes[j][4 + i];
            lane[i] = (uint8_t)(nibbles ? (low & 15) | (high << 4) : low);
            if (!nibbles) lane[64 + i] = (uint8_t)high;
        }
    }
}

static void read_step(bool nibbles, const uint8_t *from, step codes)
{
    for (int j = 0; j < DT__LANES; j++) {
        const uint8_t *lane = from + j / 16 * (nibbles ? 64 : 128) + j % 16 * 4;
        for (int i = 0; i < 4; i++) {
            codes[j][i] = (int8_t)(nibbles ? ((lane[i] & 15) ^ 8) - 8 : lane[i]);
            codes[j][4 + i] = (int8_t)(nibbles ? (lane[i] >> 4 ^ 8) - 8 : lane[64 + i]);
        }
    }
}

/* ---- pack and unpack ------------------------------------------------------------------------ */

static void pack_piece(const dt__panel_layout *l, const dt__code_matrix *from, int64_t n0,
                       const dt__piece *p, uint8_t *panel)
{
    const int lanes = (int)dt__min_i64(DT__LANES, l->rows - n0);
    int32_t sum[DT__LANES] = { 0 };
    uint8_t *to = panel + p->codes;
    for (int64_t k = 0; k < p->length; k += DT__STEP, to += l->step_bytes) {
        const size_t width = (size_t)dt__min_i64(DT__STEP, p->length - k);
        step codes = { { 0 } };
        for (int j = 0; j < lanes; j++) {
            memcpy(codes[j], from->codes + (n0 + j) * from->ld + p->start + k, width);
            for (int i = 0; i < DT__STEP; i++) sum[j] += codes[j][i];
        }
        write_step(l->nibbles, codes, to);
    }
    float scale[DT__LANES] = { 0 };
    float *ksum = (float *)(void *)panel;
    for (int j = 0; j < lanes; j++) {
        const int64_t at = from->scale_step == 0 ? 0 : (n0 + j) * from->scale_step + p->group;
        scale[j] = from->scales[at];
        ksum[j] = fmaf(scale[j], (float)sum[j], ksum[j]);
    }
    write_scales(l->scale_dtype, scale, panel + p->scales);
}

void dt__panel_pack(const dt__panel_layout *l, const dt__code_matrix *from, void *panels)
{
#pragma omp parallel for schedule(static) if (l->panels > 1)
    for (int64_t panel = 0; panel < l->panels; panel++) {
        uint8_t *to = (uint8_t *)panels + (size_t)panel * l->panel_bytes;
        memset(to, 0, DT__LANES * sizeof(float));
        for (int64_t i = 0; i < l->pieces; i++) {
            const dt__piece piece = dt__piece_of(l, i);
            pack_piece(l, from, panel * DT__LANES, &piece, to);
        }
    }
}

static void unpack_piece(const dt__panel_layout *l, const dt__code_matrix *to, int64_t n0,
                         const dt__piece *p, const uint8_t *panel)
{
    const int lanes = (int)dt__min_i64(DT__LANES, l->rows - n0);
    const uint8_t *from = panel + p->codes;
    for (int64_t k = 0; k < p->length; k += DT__STEP, from += l->step_bytes) {
        const size_t width = (size_t)dt__min_i64(DT__STEP, p->length - k);
        step codes;
        read_step(l->nibbles, from, codes);
        for (int j = 0; j < lanes; j++) {
            memcpy(to->codes + (n0 + j) * to->ld + p->start + k, codes[j], width);
        }
    }
    float scale[DT__LANES];
    dt__panel_scales(l->scale_dtype, panel + p->scales, scale);
    for (int j = 0; j < lanes; j++) to->scales[(n0 + j) * to->scale_step + p->group] = scale[j];
}

void dt__panel_unpack(const dt__panel_layout *l, const void *panels, const dt__code_matrix *to)
{
#pragma omp parallel for schedule(static) if (l->panels > 1)
    for (int64_t panel = 0; panel < l->panels; panel++) {
        const uint8_t *from = (const uint8_t *)panels + (size_t)panel * l->panel_bytes;
        for (int64_t i = 0; i < l->pieces; i++) {
            const dt__piece piece = dt__piece_of(l, i);
            unpack_piece(l, to, panel * DT__LANES, &piece, from);
        }
    }
}

/* ---- expand --------------------------------------------------------------------------------- */

/* The part of one piece of one panel that lies in the tile. */
static void expand_piece(const dt__panel_tile *t, int64_t n0, const dt__piece *p,
                         const uint8_t *panel)
{
    const dt__panel_layout *l = t->layout;
    const int first = (int)dt__max_i64(t->n0 - n0, 0);
    const int last = (int)dt__min_i64(t->n1 - n0, DT__LANES);
    const int64_t begin = dt__max_i64(t->k0, p->start);
    const int64_t end = dt__min_i64(t->k1, p->start + p->length);
    float scale[DT__LANES];
    int zero[DT__LANES] = { 0 };
    dt__panel_scales(l->scale_dtype, panel + p->scales, scale);
    for (int j = first; t->zero != NULL && j < last; j++) {
        zero[j] = t->zero[t->zero_step == 0 ? 0 : (n0 + j) * t->zero_step + p->group];
    }
    for (int64_t k = begin / DT__STEP * DT__STEP; k < end; k += DT__STEP) {
        step codes;
        read_step(l->nibbles,
                  panel + p->codes + (size_t)((k - p->start) / DT__STEP) * l->step_bytes, codes);
        const int from = (int)dt__max_i64(begin - k, 0);
        const int to = (int)dt__min_i64(end - k, DT__STEP);
        for (int j = first; j < last; j++) {
            float *y = t->y + (n0 + j - t->n0) * t->ldy + (k - t->k0);
            for (int i = from; i < to; i++) y[i] = (float)(codes[j][i] - zero[j]) * scale[j];
        }
    }
}

void dt__expand__ref(const dt__panel_tile *t)
{
    const dt__panel_layout *l = t->layout;
    if (t->n0 >= t->n1 || t->k0 >= t->k1) return;
    const int64_t group = t->k0 / l->group;
    const int64_t first = group * l->pieces_per_group + (t->k0 - group * l->group) / DT__PIECE;
    for (int64_t panel = t->n0 / DT__LANES; panel * DT__LANES < t->n1; panel++) {
        const uint8_t *from = (const uint8_t *)t->panels + (size_t)panel * l->panel_bytes;
        for (int64_t i = first; i < l->pieces; i++) {
            const dt__piece piece = dt__piece_of(l, i);
            if (piece.start >= t->k1) break;
            expand_piece(t, panel * DT__LANES, &piece, from);
        }
    }
}

void dt__expand_u8__ref(const dt__u8_tile *t)
{
    for (int64_t m = 0; m < t->rows; m++) {
        const uint8_t *u = t->u + m * t->ldu;
        float *y = t->y + m * t->ldy;
        const float s = t->sx[m];
        const int zero = t->zu[m];
        for (int64_t k = 0; k < t->columns; k++) y[k] = (float)(u[k] - zero) * s;
    }
}
