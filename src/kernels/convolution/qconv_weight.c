/* Unpacks panels to the octets of dt__qtile (qconv_weight.h). */
#include "kernels/convolution/qconv_weight.h"

#include <string.h>

#define WORD (4 * DT__OCTET) /* bytes of a word of an octet */

static const uint8_t *panel_of(const dt__octets *o, int64_t row)
{
    const dt__panel_place at = dt__panel_at(o->q->layout, row);
    return (const uint8_t *)o->q->panels + (size_t)at.panel * o->q->layout->panel_bytes;
}

static int64_t rows_of(const dt__octets *o, int64_t octet)
{
    return dt__min_i64(DT__OCTET, o->rows - octet * DT__OCTET);
}

void dt__octet_scales(const dt__octets *o, int64_t octet)
{
    const dt__panel_layout *l = o->q->layout;
    float *ksum = o->ksum + octet * DT__OCTET, *scale = o->scale + octet * l->pieces * DT__OCTET;
    memset(ksum, 0, DT__OCTET * sizeof *ksum);
    memset(scale, 0, (size_t)l->pieces * DT__OCTET * sizeof *scale);
    for (int64_t j = 0; j < rows_of(o, octet);) {
        const int64_t row = o->row + octet * DT__OCTET + j;
        const int lane = dt__panel_at(l, row).lane;
        const int64_t n = dt__min_i64(rows_of(o, octet) - j, DT__LANES - lane);
        const uint8_t *panel = panel_of(o, row);
        memcpy(ksum + j, panel + (size_t)lane * sizeof *ksum, (size_t)n * sizeof *ksum);
        for (int64_t i = 0; i < l->pieces; i++) {
            float all[DT__LANES];
            dt__panel_scales(l->scale_dtype, panel + dt__piece_of(l, i).scales, all);
            memcpy(scale + i * DT__OCTET + j, all + lane, (size_t)n * sizeof *all);
        }
        j += n;
    }
}

/* The codes of `bytes` / 4 lanes at four places from `place` on, a multiple of four, of a piece. */
static void unpack_lanes(const dt__panel_layout *l, const uint8_t *codes, int64_t place,
                         int64_t bytes, uint8_t *to)
{
    const uint8_t *from = codes + (size_t)(place / DT__STEP) * l->step_bytes;
    const bool second = place % DT__STEP != 0;
    if (!l->nibbles) {
        memcpy(to, from + (second ? 64 : 0), (size_t)bytes);
    } else if (second) {
        for (int64_t i = 0; i < bytes; i++) to[i] = (uint8_t)((from[i] >> 4 ^ 8) - 8);
    } else {
        for (int64_t i = 0; i < bytes; i++) to[i] = (uint8_t)(((from[i] & 15) ^ 8) - 8);
    }
}

void dt__octet_codes(const dt__octets *o, int64_t octet, const dt__conv_words *words, uint8_t *w)
{
    const dt__panel_layout *l = o->q->layout;
    const int64_t first = o->row + octet * DT__OCTET, rows = rows_of(o, octet);
    const bool whole = rows == DT__OCTET && dt__panel_at(l, first).lane % DT__OCTET == 0;
    uint8_t *to = w + octet * words->words * WORD;
    const int32_t *place = words->place;
    if (!whole) memset(to, 0, (size_t)(words->words * WORD));
    for (int64_t i = 0; i < l->pieces; i++) {
        const dt__piece piece = dt__piece_of(l, i);
        for (int32_t k = 0; k < words->length[i]; k++, to += WORD, place += 4) {
            for (int64_t j = 0; j < rows; j += whole ? DT__OCTET : 1) {
                const size_t lane = dt__panel_lane(l, dt__panel_at(l, first + j).lane);
                const uint8_t *codes = panel_of(o, first + j) + piece.codes + lane;
                unpack_lanes(l, codes, place[0] - piece.start, whole ? WORD : 4, to + 4 * j);
            }
        }
    }
}

/* The code of a lane at one place of a piece. */
static int code_of(const dt__panel_layout *l, const uint8_t *codes, int64_t place)
{
    const uint8_t *from = codes + (size_t)(place / DT__STEP) * l->step_bytes + place % 4;
    const bool second = place % DT__STEP >= 4;
    if (!l->nibbles) return (int8_t)from[second ? 64 : 0];
    return ((second ? *from >> 4 : *from & 15) ^ 8) - 8;
}

void dt__octet_some_codes(const dt__octets *o, int64_t octet, const dt__conv_words *words,
                          uint8_t *w, int32_t *present)
{
    const dt__panel_layout *l = o->q->layout;
    const int64_t first = o->row + octet * DT__OCTET;
    uint8_t *to = w + octet * words->words * WORD;
    int32_t *sum = present + octet * l->pieces * DT__OCTET;
    memset(to, 0, (size_t)(words->words * WORD));
    memset(sum, 0, (size_t)(l->pieces * DT__OCTET) * sizeof *sum);
    for (int64_t j = 0; j < rows_of(o, octet); j++) {
        const uint8_t *panel = panel_of(o, first + j);
        const size_t lane = dt__panel_lane(l, dt__panel_at(l, first + j).lane);
        const int32_t *place = words->place;
        uint8_t *word = to + 4 * j;
        for (int64_t i = 0; i < l->pieces; i++) {
            const dt__piece piece = dt__piece_of(l, i);
            for (int32_t k = 0; k < words->length[i]; k++, word += WORD, place += 4) {
                for (int m = 0; m < 4 && place[m] >= 0; m++) {
                    const int code = code_of(l, panel + piece.codes + lane, place[m] - piece.start);
                    word[m] = (uint8_t)code;
                    sum[i * DT__OCTET + j] += code;
                }
            }
        }
    }
}

int dt__tile_row_fill(const dt__panel_layout *l) { return l->group <= 32 ? 8 : 16; }

int64_t dt__tile_row_bytes(const dt__panel_layout *l, int64_t words)
{
    const int64_t fill = dt__tile_row_fill(l);
    return 4 * (words + l->pieces * (fill - 1)) / fill * fill;
}

void dt__octet_rows(const dt__panel_layout *l, const dt__conv_words *words, const uint8_t *w,
                    int64_t row, uint8_t *to)
{
    const int fill = dt__tile_row_fill(l);
    memset(to, 0, (size_t)(DT__OCTET * row));
    for (int64_t i = 0; i < l->pieces; i++) {
        for (int32_t k = 0; k < words->length[i]; k++, w += WORD) {
            for (int64_t j = 0; j < DT__OCTET; j++) memcpy(to + j * row + 4 * k, w + 4 * j, 4);
        }
        to += 4 * dt__round_up(words->length[i], fill);
    }
}
