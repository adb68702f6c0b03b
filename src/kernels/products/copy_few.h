/* memcpy of few bytes. */
#ifndef DT__KERNELS_COPY_FEW_H
#define DT__KERNELS_COPY_FEW_H

#include <stdint.h>
#include <string.h>

/* Copies in words, the last of which may overlap the one before. */
static inline void dt__copy_few(void *to, const void *from, int64_t n)
{
    char *y = to;
    const char *x = from;
    if (n > 32) {
        memcpy(y, x, (size_t)n);
    } else if (n >= 16) {
        memcpy(y, x, 16);
        memcpy(y + n - 16, x + n - 16, 16);
    } else if (n >= 8) {
        memcpy(y, x, 8);
        memcpy(y + n - 8, x + n - 8, 8);
    } else if (n >= 4) {
        memcpy(y, x, 4);
        memcpy(y + n - 4, x + n - 4, 4);
    } else {
        for (int64_t i = 0; i < n; i++) y[i] = x[i];
    }
}

#endif
