/* Warns of names of classes and categories that look like the same name, such as "yes" and "Yes ",
 * or like a missing value, such as "N/A". */
#ifndef DT__DATA_ALIKE_H
#define DT__DATA_ALIKE_H

#include "core/core.h"

typedef struct dt__name_list {
    const char *where;       /* begins the messages, "data.train" */
    const char *what;        /* "classes" */
    const char *instead;     /* advice: how to write a missing value */
    const char *const *name; /* NULL: a number, which is not compared */
    int64_t n;
} dt__name_list;

/* Warns of names that are alike, and of those that look like a missing value. NOMEM. */
dt_status dt__say_alike(dt_ctx *ctx, const dt__name_list *list);

#endif
