/* nearest: every element by itself, q = Q(w). */
#include "ptq/matrix.h"

static void round_strip(dt__strip *s)
{
    double dequantized[DT__STRIP];
    for (int64_t j = 0; j < s->m->columns; j++)
        dt__choose(s, j, s->work + j * s->rows, dequantized);
}

const dt__rounder dt__round_nearest = { .round = round_strip };
