/* Readers of lite_forms_products.c and lite_shapes.c, for the table of forms, and what they share.
 */
#ifndef DT__IO_LITE_FORMS_H
#define DT__IO_LITE_FORMS_H

#include "io/tflite/lite_nodes.h"

dt__lite_reader dt__form_conv, dt__form_transposed_conv, dt__form_linear, dt__form_matmul,
    dt__form_pool, dt__form_shape, dt__form_fill, dt__form_extents_product;

/* The tensor with the indices of a GATHER; whether the operator is part of making negative indices
 * count from the end, which no layer supports (lite_rows.c). */
int dt__lite_index_of(const dt__lite_nodes *b);
bool dt__lite_wraps(const dt__lite_nodes *b);

#endif
