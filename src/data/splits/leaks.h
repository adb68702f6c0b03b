/* What makes an evaluation of arrays too good. */
#ifndef DT__DATA_LEAKS_H
#define DT__DATA_LEAKS_H

#include "data/dataset.h"

/* Says, with numbers, which examples to validate and to test are training examples, too, and which
 * inputs of rows determine the target alone; d[3]: train, validation and test, the last two may be
 * NULL. Nothing is said of other data than arrays, of fewer than 20 examples, and of more than
 * 1 GiB. NOMEM. */
dt_status dt__say_leaks(const dt_dataset *const d[3]);

#endif
