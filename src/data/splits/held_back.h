/* Chooses the training examples that are held back for validation and test. */
#ifndef DT__DATA_HELD_BACK_H
#define DT__DATA_HELD_BACK_H

#include "data/arrays.h"
#include "data/labels.h"

/* A choice among n rows or recordings. */
typedef struct dt__held_back {
    uint8_t *part; /* [n]: 0: training, 1: validation, 2: test; NULL: not chosen yet */
    int64_t n;
} dt__held_back;

/* What data.split divides by: for each row or recording the word of its group or time. */
typedef struct dt__split_keys {
    int64_t *code;          /* [n]; NULL: unknown */
    int64_t n;              /* number of rows or, */
    bool of_recordings;     /* if this is set, of recordings */
    const dt__words *words; /* lent */
    double *time;           /* if words are times, the time of each */
} dt__split_keys;

/* Moves examples of *out[0] to out[1] (o->validation) and to out[2] (o->split). The choice is kept
 * in `held`; an earlier choice in it is used again. Errors: CONFIG, NOMEM. */
dt_status dt__hold_back(const dt_data_options *o, const dt__split_keys *keys, dt__held_back *held,
                        dt_dataset **const out[3]);
/* Chooses rows of a dataset in the same way, without moving them. */
dt_status dt__hold_back_rows(const dt_data_options *o, const dt__split_keys *keys,
                             const dt_dataset *d, dt__held_back *held);
void dt__held_back_free(dt_ctx *ctx, dt__held_back *held);

#endif
