/* Operands of products of integers that compute gradients. */
#include "ops/products/back_codes.h"

static void read(const void *from, int64_t r, int64_t rows, uint8_t *to, int64_t stride)
{
    const dt__back_rows *of = from;
    for (int64_t end = r + rows; r < end; r++, to += stride) {
        const int64_t row =
            of->assignment == NULL ? of->first + r : of->assignment[r] / of->per_row;
        dt__codes_row(of->x, NULL, row, to);
    }
}

void dt__back_open_any(const dt__back_rows *rows, dt__q7_layer *to)
{
    to->read = read;
    to->from = rows;
}

void dt__back_open(const dt__codes *x, int64_t first, dt__back_rows *rows, dt__q7_layer *to)
{
    *rows = (dt__back_rows){ .x = x, .first = first };
    dt__back_open_any(rows, to);
    to->u = x->packed ? NULL : x->u + first * x->stride;
    to->ldu = x->stride;
    to->sx = x->scale + first;
    to->zu = x->zero_u + first;
}

static void expand(const void *from, const dt__patch *block)
{
    const dt__back_weight *rows = from;
    dt__patch there = *block;
    there.r0 += rows->first;
    there.r1 += rows->first;
    dt__codes_expand(rows->w, &there);
}

void dt__back_open_weight(const dt__codes *w, int64_t first, dt__back_weight *rows,
                          dt__q7_layer *to)
{
    *rows = (dt__back_weight){ w, first, { expand, rows } };
    to->weight = &rows->source;
}
