/* The runs of a page or a comparison: folders of runs, and of sweeps, which are replaced by their
 * runs. */
#ifndef DT__REPORT_RUN_LIST_H
#define DT__REPORT_RUN_LIST_H

#include "core/core.h"

/* A recipe of a sweep without results: a failed run, or values that exclude each other. */
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
    int sweeps;     /* how many of the folders are sweeps */
    char *metric;   /* the metric of the first sweep that names one; else NULL */
    int64_t hidden; /* combinations that the sweeps' rules exclude */
} dt__run_list;

/* Replaces each folder that holds plan.json by its runs, sorted by name, except `best`, the run of
 * its best.yaml. The caller closes the list, also after an error. Errors: IO, NOMEM. */
dt_status dt__run_list_open(dt_ctx *ctx, const char *const *dirs, int n, dt__run_list *out);
void dt__run_list_close(dt__run_list *l);

#endif
