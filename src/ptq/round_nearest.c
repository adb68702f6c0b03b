/* nearest: every element by itself, q = Q(w). */
#include "ptq/matrix.h"

static void round_rows(dt__row_block *s)
{
    double dequantized[DT__BLOCK_ROWS];
    for (int64_t j = 0; j < s->m->columns; j++)
        dt__choose(s, j, s->work + j * s->rows, dequantized);
}

const dt__rounder dt__round_nearest = { .round = round_rows };
