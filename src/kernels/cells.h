/* Gates of recurrent cells. gi and gh are [rows][3 or 4][hidden]: a gate's products with the input
 * and with the hidden state.
 *
 *     gru      r, z = sigmoid(gi + gh)      n = tanh(gi_n + r gh_n)      y = n + z (h - n)
 *     lstm     i, f, o = sigmoid(gi + gh)   g = tanh(gi_g + gh_g)
 *              c' = f c + i g               h' = o tanh(c')
 *
 * The order of gates is r, z, n and i, f, g, o. */
#ifndef DT__KERNELS_CELLS_H
#define DT__KERNELS_CELLS_H

#include "core/core.h"

typedef struct dt__cell {
    int64_t rows, hidden;
    const void *gi, *gh;
    const void *state; /* gru: h [rows][hidden]; lstm: [2][rows][hidden], of which c, the second
                          part, is read */
    void *y;           /* like state: h'; h' and c' */
    /* For backward: gru [rows][4][hidden], r, z, n and gh_n; lstm [rows][5][hidden], i, f, g, o and
     * tanh(c'). NULL in forward if no gradient is needed. */
    void *gates;
} dt__cell;

#endif
