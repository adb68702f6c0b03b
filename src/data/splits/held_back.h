/* Which of the training examples are held back, to validate and to test. */
#ifndef DT__DATA_HELD_BACK_H
#define DT__DATA_HELD_BACK_H

#include "data/arrays.h"
#include "data/labels.h"

/* A choice among n rows or recordings. */
typedef struct dt__held_back {
    uint8_t *part; /* [n]: 0 to train on, 1 to validate, 2 to test; NULL: nothing is chosen yet */
    int64_t n;
} dt__held_back;

/* What data.split divides by: a group or a time of each row or recording, as a word. */
typedef struct dt__split_keys {
    int64_t *code;          /* [n]; NULL: nothing is known */
    int64_t n;              /* rows, or */
    bool of_recordings;     /* recordings */
    const dt__words *words; /* lent */
    double *time;           /* of each word, where they are times */
} dt__split_keys;

/* Moves examples of *out[0] to out[1], o->validation of them, and to out[2], by o->split. What is
 * chosen stays in `held`; where it is there already, it is used again. Errors: CONFIG, NOMEM. */
dt_status dt__hold_back(const dt_data_options *o, const dt__split_keys *keys, dt__held_back *held,
                        dt_dataset **const out[3]);
/* Chooses among the rows of a dataset in the same way, and moves nothing. */
dt_status dt__hold_back_rows(const dt_data_options *o, const dt__split_keys *keys,
                             const dt_dataset *d, dt__held_back *held);
void dt__held_back_free(dt_ctx *ctx, dt__held_back *held);

#endif
