/* Gradients of a product of codes as products of integers (numerics, "Integer backward"): which
 * gradients, and their operands. */
#ifndef DT__OPS_BACK_CODES_H
#define DT__OPS_BACK_CODES_H

#include "autograd/codes.h"

/* Whether dx = dy W^ is a product of integers: the weight's layer was chosen for it. */
static inline bool dt__back_x(const dt__codes *w) { return w != NULL && w->int8_backward; }

/* Whether dw = dy^T x^ is one too: x must also have codes with one scale per row. */
static inline bool dt__back_w(const dt__codes *x, const dt__codes *w)
{
    return dt__back_x(w) && x != NULL && x->integer && x->u != NULL && !x->blocks;
}

/* Rows of x: consecutive rows from row `first` on; or with `assignment` row r is row assignment[r]
 * / per_row. */
typedef struct dt__back_rows {
    const dt__codes *x;
    int64_t first;
    const int64_t *assignment; /* NULL: consecutive */
    int64_t per_row;
} dt__back_rows;

/* Rows of W^ from row `first` on, as a source of floats. */
typedef struct dt__back_weight {
    const dt__codes *w;
    int64_t first;
    dt__source source;
} dt__back_weight;

/* Set the operands of a layer: consecutive rows of x; any rows of x (without their scales and zero
 * points); a weight. The operands must live as long as `to` is used. */
void dt__back_open(const dt__codes *x, int64_t first, dt__back_rows *rows, dt__q7_layer *to);
void dt__back_open_any(const dt__back_rows *rows, dt__q7_layer *to);
void dt__back_open_weight(const dt__codes *w, int64_t first, dt__back_weight *rows,
                          dt__q7_layer *to);

#endif
