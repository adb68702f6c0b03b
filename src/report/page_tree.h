/* JSON as a tree in memory. Look-ups tolerate what is missing: a field of NULL is NULL, its number
 * NaN, its text "". */
#ifndef DT__REPORT_PAGE_TREE_H
#define DT__REPORT_PAGE_TREE_H

#include "core/core.h"

typedef enum dt__branch_type {
    DT__BRANCH_NULL,
    DT__BRANCH_BOOL,
    DT__BRANCH_NUMBER,
    DT__BRANCH_TEXT,
    DT__BRANCH_LIST,
    DT__BRANCH_MAP
} dt__branch_type;

typedef struct dt__branch {
    dt__branch_type type;
    double number;    /* of a bool: 0 or 1 */
    const char *text; /* decoded */
    const char *name; /* its key in a map; elsewhere "" */
    int64_t n;        /* number of children */
    struct dt__branch *first, *next;
} dt__branch;

typedef struct dt__tree {
    dt_ctx *ctx;
    dt__branch *root; /* NULL: empty */
    void *blocks;     /* list of all memory blocks */
    dt__branch *free; /* next free node of the newest block */
    int64_t n_free;
} dt__tree;

/* Parses a text; `path` is for messages. Errors: FORMAT, NOMEM; then the tree is empty. */
dt_status dt__tree_read(dt_ctx *ctx, const char *path, const char *text, size_t bytes,
                        dt__tree *out);
void dt__tree_free(dt__tree *t);

const dt__branch *dt__field(const dt__branch *map, const char *name);
double dt__field_number(const dt__branch *map, const char *name);
const char *dt__field_text(const dt__branch *map, const char *name);
double dt__number_of(const dt__branch *v);
/* A number from a file as an integer: limited to +-9e15; NaN becomes 0. */
int64_t dt__whole(double number);
int64_t dt__field_whole(const dt__branch *map, const char *name);
/* The first child; NULL: none, or v is NULL. */
const dt__branch *dt__children(const dt__branch *v);

#endif
