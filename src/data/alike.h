/* Names of classes and categories that a reader takes for one, such as "yes" and "Yes ", or for
 * none, such as "N/A". */
#ifndef DT__DATA_ALIKE_H
#define DT__DATA_ALIKE_H

#include "core/core.h"

typedef struct dt__name_list {
    const char *where;       /* begins the lines, "data.train" */
    const char *what;        /* "classes" */
    const char *instead;     /* what a missing value should be in place of such a name */
    const char *const *name; /* NULL: a number, which is like no other */
    int64_t n;
} dt__name_list;

/* Says which names are alike, and which look like a missing value. NOMEM. */
dt_status dt__say_alike(dt_ctx *ctx, const dt__name_list *list);

#endif
