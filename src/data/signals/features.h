/* Features of signals, internal part; the public part is in detent/data.h. */
#ifndef DT__DATA_FEATURES_H
#define DT__DATA_FEATURES_H

#include <detent/experimental/data.h>

/* The keys of `data.features`. */
extern const dt_key dt__features_keys[];

/* Returns `status` (ARG or CONFIG) if the options are invalid; messages begin with `where`. */
dt_status dt__features_check(dt_ctx *ctx, const dt_features_options *o, dt_status status,
                             const char *where);

/* A mel filter: the powers first ... first + n - 1. */
typedef struct dt__mel_filter {
    int first, n;
} dt__mel_filter;

/* Precomputed tables; a C export contains the same. */
typedef struct dt__features_tables {
    int64_t frame, step;     /* in samples */
    int size;                /* of the Fourier transform */
    float *window;           /* [frame] */
    float *turns, *joins;    /* of the transform (fourier.h) */
    dt__mel_filter *filters; /* [bins] */
    float *weights;          /* [n_weights], filter after filter */
    int64_t n_weights;
    float *cosines; /* [coefficients, bins]; NULL: log mel */
} dt__features_tables;

const dt__features_tables *dt__features_tables_of(const dt_features *f);

#endif
