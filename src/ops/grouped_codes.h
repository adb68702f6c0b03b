/* The products of grouped_linear that read a weight's codes as they are: of rows of codes, and of
 * few rows of floats. An expert's rows have the bits that linear gives them alone. */
#ifndef DT__OPS_GROUPED_CODES_H
#define DT__OPS_GROUPED_CODES_H

#include "ops/grouped_gemm.h"

/* Whether rows of codes meet codes; and else whether so many rows of floats, an expert's, meet
 * codes. */
bool dt__grouped_multiplies(const dt__grouped *g);
bool dt__grouped_is_few(const dt__grouped *g, int64_t rows);

/* Bytes that the product takes; 0 where neither may be. */
size_t dt__grouped_codes_room(const dt__grouped *g);
/* y_e [rows, out] = x_e W_e^T + b_e for every expert, or for those with few rows where x is floats;
 * the routing has its lists. */
void dt__grouped_codes_product(const dt__grouped *g, void *room, float *y);

#endif
