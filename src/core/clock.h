/* Monotonic time, for measuring speed; results never depend on it. */
#ifndef DT__CORE_CLOCK_H
#define DT__CORE_CLOCK_H

#include <time.h>

static inline double dt__seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
