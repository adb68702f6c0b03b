/* Parts of a convolution of codes in plain C: the depthwise row, and the transposition of a tile
 * [positions][outputs] into images. */
#include "kernels/kernels.h"

#define SET ref
#include "kernels/qconv_depthwise.inc"

#define BLOCK 8

/* Works in blocks of 8 x 8, so that cache lines of x and of y are both used completely. */
void dt__transpose__ref(const dt__transpose *t)
{
    for (int64_t j0 = 0; j0 < t->columns; j0 += BLOCK) {
        const int64_t past = dt__min_i64(j0 + BLOCK, t->columns);
        for (int64_t i = 0; i < t->rows; i++) {
            for (int64_t j = j0; j < past; j++) t->y[j * t->ldy + i] = t->x[i * t->ldx + j];
        }
    }
}
