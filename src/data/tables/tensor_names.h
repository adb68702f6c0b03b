/* The files of a part of the data: patterns expanded, labels by folders. */
#ifndef DT__DATA_TENSOR_NAMES_H
#define DT__DATA_TENSOR_NAMES_H

#include "data/tables/csv.h"

typedef struct dt__tensor_name {
    char *path;       /* with ":part", if given */
    int64_t label;    /* from its folder or name */
    int64_t position; /* 2 j + 1 for file j of its class, */
    int64_t others;   /* the number of files of its class */
} dt__tensor_name;

typedef struct dt__tensor_names {
    dt__tensor_name *v;
    int64_t n, room;
    /* The first two files of a pattern of which the one with the larger number comes first, such as
     * x10 before x2; NULL: none. Lent by v. */
    const char *larger, *smaller;
} dt__tensor_names;

/* Adds the files named in `names` of `key` ("data.train"). Files of a pattern are in byte order.
 * Errors: CONFIG (no file matches), IO, NOMEM. */
dt_status dt__tensor_names_add(dt_ctx *ctx, const char *key, const char *dir,
                               const dt_strings *names, dt__tensor_names *out);

/* Labels each file by {label} of `pattern` in its name or, if that is NULL, by its folder, and
 * sorts files so that any part at either end has every class in proportion, as for folders of PNG
 * files. Folders become `classes` in byte order of their names; if `classes` is not empty, a new
 * folder is an error. Errors: FORMAT, NOMEM. */
dt_status dt__tensor_names_label(dt_ctx *ctx, dt__tensor_names *names, const char *pattern,
                                 dt__words *classes);

void dt__tensor_names_free(dt_ctx *ctx, dt__tensor_names *names);

#endif
