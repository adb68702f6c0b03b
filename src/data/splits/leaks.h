/* Finds data leaks, which make an evaluation of arrays too good. */
#ifndef DT__DATA_LEAKS_H
#define DT__DATA_LEAKS_H

#include "data/dataset.h"

/* Warns of validation and test examples that are also training examples, and of inputs that alone
 * determine the target; d[3]: train, validation and test, the last two may be NULL. Only for
 * arrays, with at least 20 examples and at most 1 GiB. NOMEM. */
dt_status dt__say_leaks(const dt_dataset *const d[3]);

#endif
