/* The state of a freezer, for checkpoints. */
#ifndef DT__QAT_FREEZE_H
#define DT__QAT_FREEZE_H

#include <detent/experimental/qat.h>

/* Whether n elements of a slot, read from a file, are values that dt_freezer_step can write. */
bool dt__frozen_is_sound(const char *slot, int64_t n, const void *data);

#endif
