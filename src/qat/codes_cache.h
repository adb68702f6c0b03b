/* The cache of codes. An entry is attached to the tensor whose codes it has, reused (codes_make.c)
 * and renewed in place (codes_renew.c). */
#ifndef DT__QAT_CODES_CACHE_H
#define DT__QAT_CODES_CACHE_H

#include "autograd/tape.h"
#include "qat/quantized.h"

typedef struct dt__cached_codes {
    dt__attachment head;
    dt_ctx *ctx;
    dt__fq how;       /* the settings, with a reference on the static or learned range */
    uint64_t version, /* of the tensor when the codes were made */
        scale_version, zero_version; /* likewise of the range */
    dt__codes *codes;
} dt__cached_codes;

/* The cache entry of x for these settings, of any version; NULL: none. */
dt__cached_codes *dt__codes_find(const dt_tensor *x, const dt__fq *fq);

#endif
