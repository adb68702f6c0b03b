/* A convolution's weight in the form that tiles multiply (dt__qtile). */
#ifndef DT__KERNELS_QCONV_WEIGHT_H
#define DT__KERNELS_QCONV_WEIGHT_H

#include "kernels/convolution/qconv_gather.h"

/* What the phases of a group share (scales, ksum), and what each phase has (codes). Octets begin
 * with the group's first output. */
typedef struct dt__octets {
    const dt__qconv *q;
    int64_t row, rows; /* outputs of the group */
    float *scale, *ksum;
} dt__octets;

/* Fills one octet's scales and ksum. */
void dt__octet_scales(const dt__octets *o, int64_t octet);
/* Fills one octet's codes of a phase, w [octets][words][DT__OCTET][4]. */
void dt__octet_codes(const dt__octets *o, int64_t octet, const dt__conv_words *words, uint8_t *w);
/* The same where words leave out columns; also computes the sums of each piece's codes that the
 * words contain, [octets][pieces][DT__OCTET]. */
void dt__octet_some_codes(const dt__octets *o, int64_t octet, const dt__conv_words *words,
                          uint8_t *w, int32_t *present);

/* The order of columns in the rows of dt__qtile. */
int dt__tile_row_fill(const dt__panel_layout *l);
int64_t dt__tile_row_bytes(const dt__panel_layout *l, int64_t words);
/* Fills one octet's rows, [DT__OCTET][row], from its codes of a phase. */
void dt__octet_rows(const dt__panel_layout *l, const dt__conv_words *words, const uint8_t *w,
                    int64_t row, uint8_t *to);

#endif
