/* Memory that is freed all at once. */
#ifndef DT__IO_KEPT_H
#define DT__IO_KEPT_H

#include "core/core.h"

typedef struct dt__kept dt__kept;

/* A block of so many bytes, freed with the list. NULL: NOMEM. */
void *dt__keep(dt_ctx *ctx, dt__kept **list, size_t bytes);
void dt__kept_free(dt_ctx *ctx, dt__kept **list);

#endif
