/* Labels in files of arrays: numbers or words. */
#ifndef DT__DATA_LABEL_FILE_H
#define DT__DATA_LABEL_FILE_H

#include "data/files/array_file.h"
#include "data/labels.h"

/* Sets the targets of a store to the classes of the [count] labels in `a`, and the names of
 * classes; closes the labels if they are open. Errors: FORMAT, naming array and row, NOMEM. */
dt_status dt__label_file_targets(dt__array_store *s, dt__labels *l, const dt__array_file *a);

#endif
