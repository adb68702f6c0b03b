/* Streams of zstd [RFC 8878]: frames behind each other, each with its checksum where it has one. */
#ifndef DT__DATA_PACKED_UNZSTD_H
#define DT__DATA_PACKED_UNZSTD_H

#include "core/core.h"

typedef struct dt__unzstd dt__unzstd;

/* Whether a file begins as zstd's do. */
bool dt__is_zstd(const uint8_t *bytes, size_t n);
/* `path` is for messages; lent. Errors: UNSUPPORTED (a build without libzstd), NOMEM. */
dt_status dt__unzstd_open(dt_ctx *ctx, const char *path, dt__unzstd **out);
void dt__unzstd_close(dt__unzstd *u); /* NULL is allowed */

/* A piece of the packed bytes, and room for what was packed. */
typedef struct dt__unzstd_step {
    const uint8_t *from;
    size_t have, used; /* used: so many are done with */
    uint8_t *to;
    size_t room, made;
} dt__unzstd_step;

/* Unpacks until `from` or the room ends. FORMAT, NOMEM. */
dt_status dt__unzstd_run(dt__unzstd *u, dt__unzstd_step *s);
/* Whether a frame has begun that did not end. */
bool dt__unzstd_is_within(const dt__unzstd *u);

#endif
