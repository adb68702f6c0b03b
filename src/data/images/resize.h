/* Resizes images of bytes. */
#ifndef DT__DATA_RESIZE_H
#define DT__DATA_RESIZE_H

#include "core/core.h"

typedef struct dt__size {
    int64_t height, width;
} dt__size;

/* Resizes [channels][from] to [channels][to], extents at least 1 and at most 65535. NOMEM. */
dt_status dt__resize(dt_ctx *ctx, int64_t channels, dt__size from, const uint8_t *x, dt__size to,
                     uint8_t *y);

#endif
