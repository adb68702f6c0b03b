/* Operands of integer products of gradients. */
#include "ops/back_codes.h"

static void read(const void *from, int64_t r, uint8_t *to)
{
    const dt__back_rows *rows = from;
    dt__codes_row(rows->x, NULL, rows->first + r, to);
}

void dt__back_open(const dt__codes *x, int64_t first, dt__back_rows *rows, dt__q7_layer *to)
{
    *rows = (dt__back_rows){ x, first };
    to->u = x->packed ? NULL : x->u + first * x->stride;
    to->ldu = x->stride;
    to->read = read;
    to->from = rows;
    to->sx = x->scale + first;
    to->zu = x->zero_u + first;
}
