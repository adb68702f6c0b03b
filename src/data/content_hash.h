/* A hash of what a dataset was read from, by which other content is found under the same names. */
#ifndef DT__DATA_CONTENT_HASH_H
#define DT__DATA_CONTENT_HASH_H

#include "data/dataset.h"

/* The hash of the numbers, bytes or ids of d, as files have them, of their order and of its
 * targets. Of arrays, what was split off from d counts, too. Of more than 256 MiB, blocks that are
 * evenly spread are read, and every size. Does not depend on kernels or threads. */
uint64_t dt__content_hash(const dt_dataset *d);

#endif
