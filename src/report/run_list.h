/* What a page or a comparison is about: folders of runs, and of sweeps, which stand for their
 * runs. */
#ifndef DT__REPORT_RUN_LIST_H
#define DT__REPORT_RUN_LIST_H

#include "core/core.h"

/* A recipe of a sweep without results: a run that failed, or values that do not go together. */
typedef struct dt__left_out {
    char *dir; /* the folder that its run would have */
    char *text;
    bool failed;
} dt__left_out;

typedef struct dt__run_list {
    dt_ctx *ctx;
    char **dir;
    int64_t n, room;
    dt__left_out *left;
    int64_t n_left, room_left;
    int sweeps;     /* how many of the folders were sweeps */
    char *metric;   /* by which the first sweep compares, where it says so; else NULL */
    int64_t hidden; /* combinations that rules of sweeps exclude */
} dt__run_list;

/* Replaces each folder that holds plan.json by its runs, in the order of their names; `best`, which
 * its best.yaml trains, is none. The caller closes it, also after an error. Errors: IO, NOMEM. */
dt_status dt__run_list_open(dt_ctx *ctx, const char *const *dirs, int n, dt__run_list *out);
void dt__run_list_close(dt__run_list *l);

#endif
