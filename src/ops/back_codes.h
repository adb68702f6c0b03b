/* Gradients of a product of codes as products of integers (numerics, "Integer backward"): which
 * ones, and their operands. */
#ifndef DT__OPS_BACK_CODES_H
#define DT__OPS_BACK_CODES_H

#include "autograd/codes.h"

/* Whether dx = dy W^ is a product of integers: the weight's layer was chosen for it. */
static inline bool dt__back_x(const dt__codes *w) { return w != NULL && w->int8_backward; }

/* Whether dw = dy^T x^ is: besides, x has codes with one scale a row. */
static inline bool dt__back_w(const dt__codes *x, const dt__codes *w)
{
    return dt__back_x(w) && x != NULL && x->integer && x->u != NULL;
}

/* Rows of x from row `first` on. */
typedef struct dt__back_rows {
    const dt__codes *x;
    int64_t first;
} dt__back_rows;

/* Sets what a layer reads of x; `rows` lives as long as `to` is used. */
void dt__back_open(const dt__codes *x, int64_t first, dt__back_rows *rows, dt__q7_layer *to);

#endif
