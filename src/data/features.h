/* Features of signals within src/data; the public part is in detent/data.h. */
#ifndef DT__DATA_FEATURES_H
#define DT__DATA_FEATURES_H

#include <detent/data.h>

/* The keys of `data.features`. */
extern const dt_key dt__features_keys[];

/* ARG or CONFIG, as `status` says, if the options make no sense; messages begin with `where`. */
dt_status dt__features_check(dt_ctx *ctx, const dt_features_options *o, dt_status status,
                             const char *where);

#endif
