/* The validation share of arrays: which examples are held back. */
#ifndef DT__DATA_HELD_BACK_H
#define DT__DATA_HELD_BACK_H

#include "data/arrays.h"

/* A choice among n rows or recordings. */
typedef struct dt__held_back {
    uint8_t *is_held; /* [n]; NULL: nothing is drawn yet */
    int64_t n, count;
} dt__held_back;

/* Moves o->validation of the examples of d to *out, by o->validation_order. What is drawn stays in
 * `held`; where it is there already, it is used again. Errors: CONFIG, NOMEM. */
dt_status dt__hold_back(dt_dataset *d, const dt_data_options *o, dt__held_back *held,
                        dt_dataset **out);
void dt__held_back_free(dt_ctx *ctx, dt__held_back *held);

#endif
