/* The cache of codes: attached to the tensor that they were made from, reused (codes_make.c) and
 * renewed in place (codes_renew.c). */
#ifndef DT__QAT_CODES_CACHE_H
#define DT__QAT_CODES_CACHE_H

#include "autograd/tape.h"
#include "qat/quantized.h"

typedef struct dt__cached_codes {
    dt__attachment head;
    dt_ctx *ctx;
    dt__fq how;                      /* the settings; a reference on the static or learned range */
    uint64_t version,                /* of the tensor, */
        scale_version, zero_version; /* and of that range */
    dt__codes *codes;
} dt__cached_codes;

/* The codes on x by these settings, of whatever version; NULL: none. */
dt__cached_codes *dt__codes_find(const dt_tensor *x, const dt__fq *fq);

#endif
