/* Decompresses zstd [RFC 8878]: consecutive frames, each with an optional checksum. */
#ifndef DT__DATA_PACKED_UNZSTD_H
#define DT__DATA_PACKED_UNZSTD_H

#include "core/core.h"

typedef struct dt__unzstd dt__unzstd;

/* Whether a file begins with zstd's magic number. */
bool dt__is_zstd(const uint8_t *bytes, size_t n);
/* `path` is for messages; lent. Errors: UNSUPPORTED (a build without libzstd), NOMEM. */
dt_status dt__unzstd_open(dt_ctx *ctx, const char *path, dt__unzstd **out);
void dt__unzstd_close(dt__unzstd *u); /* NULL is allowed */

/* A block of compressed bytes, and memory for decompressed ones. */
typedef struct dt__unzstd_step {
    const uint8_t *from;
    size_t have, used; /* used: how many were consumed */
    uint8_t *to;
    size_t room, made;
} dt__unzstd_step;

/* Decompresses until `from` or the memory is used up. FORMAT, NOMEM. */
dt_status dt__unzstd_run(dt__unzstd *u, dt__unzstd_step *s);
/* Whether a frame has begun that has not ended. */
bool dt__unzstd_is_within(const dt__unzstd *u);

#endif
