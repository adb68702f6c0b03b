/* What the keys of `data:` and their check share. */
#ifndef DT__DATA_OPTIONS_H
#define DT__DATA_OPTIONS_H

#include "data/dataset.h"

#define DT__MOST_VALIDATION 0.9
#define DT__MOST_NOISE 10.0
#define DT__MOST_IMAGES 4294967295.0 /* an IDX header's */

#endif
