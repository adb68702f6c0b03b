/* Compares what must be the same on all ranks, before the first file is written. */
#ifndef DT__TRAIN_AGREE_H
#define DT__TRAIN_AGREE_H

#include "core/ranks.h"

#include <detent/experimental/train.h>

typedef struct dt__agreement {
    dt__cluster *cluster; /* NULL: nothing to compare */
    dt_recipe *recipe;
    const dt_dataset *data[3]; /* NULL: none */
    const char *model;         /* hash of a file; NULL: none */
    bool resume;
} dt__agreement;

/* `status`: this rank's result so far. An error of any rank becomes the error of all; differences
 * are errors (STATE), which name the rank. */
static inline dt_status dt__agree(const dt__agreement *a, dt_status status)
{
    return a->cluster == NULL ? status : a->cluster->hooks->agree(a, status);
}

#endif
