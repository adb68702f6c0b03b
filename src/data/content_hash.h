/* A hash of a dataset's content, which detects changed files of the same names. */
#ifndef DT__DATA_CONTENT_HASH_H
#define DT__DATA_CONTENT_HASH_H

#include "data/dataset.h"

/* The hash of the numbers, bytes or ids of d as in its files, of their order and of the targets.
 * For arrays it includes examples that were split off from d. Above 256 MiB, evenly spaced blocks
 * and all sizes are hashed. Does not depend on kernels or threads. */
uint64_t dt__content_hash(const dt_dataset *d);

#endif
