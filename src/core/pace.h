/* When long work reports its progress: after 5 seconds, then each time the elapsed time has
 * doubled. */
#ifndef DT__CORE_PACE_H
#define DT__CORE_PACE_H

#include "core/clock.h"

#include <stdbool.h>

typedef struct dt__pace {
    double began, next; /* seconds */
} dt__pace;

static inline dt__pace dt__pace_begin(void)
{
    const double now = dt__seconds();
    return (dt__pace){ now, now + 5 };
}

static inline bool dt__pace_is_due(dt__pace *p)
{
    const double now = dt__seconds();
    if (now < p->next) return false;
    p->next = now + (now - p->began);
    return true;
}

#endif
