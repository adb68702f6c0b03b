/* The products of grouped_linear that multiply a weight's codes without dequantizing them: by rows
 * of codes, and by few rows of floats. An expert's rows have the bits of dt_linear on these
 * rows. */
#ifndef DT__OPS_GROUPED_CODES_H
#define DT__OPS_GROUPED_CODES_H

#include "ops/products/grouped_gemm.h"

/* Whether the product is one of codes by codes; whether an expert with so many rows of floats
 * multiplies them by codes. */
bool dt__grouped_multiplies(const dt__grouped *g);
bool dt__grouped_is_few(const dt__grouped *g, int64_t rows);

/* Bytes of workspace; 0 if neither is possible. */
size_t dt__grouped_codes_room(const dt__grouped *g);
/* y_e [rows, out] = x_e W_e^T + b_e for every expert, or, if x is floats, for those with few rows.
 * The lists of g->routing must have been made. */
void dt__grouped_codes_product(const dt__grouped *g, void *room, float *y);

#endif
