/* A run as a page shows it: the contents of the files in its folder. */
#ifndef DT__REPORT_PAGE_RUN_H
#define DT__REPORT_PAGE_RUN_H

#include "report/page_tree.h"

/* Phases of a run, by their names in metrics.jsonl. */
typedef enum dt__page_phase {
    DT__PAGE_BASELINE,
    DT__PAGE_FLOAT,
    DT__PAGE_QAT,
    DT__PAGE_PHASES
} dt__page_phase;

/* The values of a figure over updates. */
typedef struct dt__series {
    char name[64]; /* field of a line of metrics.jsonl, or of a layer's object in it */
    char *layer;   /* path of the layer; NULL: a figure of the run */
    dt__page_phase phase;
    double *x, *y;
    int64_t n, room, room_y;
} dt__series;

/* A value of recipe.yaml by its path. */
typedef struct dt__page_key {
    char path[160];
    const char *value;
} dt__page_key;

typedef struct dt__page_run {
    dt_ctx *ctx;
    const char *dir;
    const char *name;  /* the last part of the folder's path; more parts where it is not unique */
    char *recipe;      /* text of recipe.yaml */
    char *values;      /* this text, with a NUL behind each value */
    dt__page_key *key; /* paths and values */
    int64_t n_keys, room_keys;
    dt__series *series;
    int64_t n_series, room_series;
    dt__tree *samples; /* lines of metrics.jsonl that have samples */
    int64_t n_samples, room_samples;
    int64_t lines, bad_lines; /* of metrics.jsonl */
    double last_step;         /* update of the latest line */
    dt__page_phase phase;     /* phase of the latest line */
    dt__tree summary, machine, confusion, layers_begin, layers_end, sensitivity, examples, columns;
    char damaged[256]; /* names of damaged files; "": none */
} dt__page_run;

/* The last `parts` names of a path without a trailing slash. */
const char *dt__page_tail(const char *dir, int parts);
/* Reads a folder. Files other than recipe.yaml may be missing. Errors: IO (no recipe.yaml),
 * NOMEM. */
dt_status dt__page_run_open(dt_ctx *ctx, const char *dir, dt__page_run *out);
void dt__page_run_close(dt__page_run *r);
/* Reads n folders, at least 1, into a new array *out: all files of the first `whole`, of the others
 * recipe, summary and machine only. */
dt_status dt__page_runs_open(dt_ctx *ctx, const char *const *dirs, int64_t n, int64_t whole,
                             dt__page_run **out);
void dt__page_runs_close(dt_ctx *ctx, dt__page_run *runs, int64_t n);
/* Whether the values of a key differ between runs; run.dir counts as equal. */
bool dt__page_key_differs(const dt__page_run *runs, int n, const char *path);
/* Whether no run before number i has this key. */
bool dt__page_key_is_new(const dt__page_run *runs, int i, const char *path);

/* Reads the values of a recipe in the form that `detent config show` prints. */
dt_status dt__page_read_recipe(dt__page_run *r);
/* Explains the dash for values that a recipe lacks. */
#define DT__PAGE_LACKS "not in this recipe; its preset or another key decides"
/* The value of a key; "" if the recipe lacks it. */
const char *dt__page_key_of(const dt__page_run *r, const char *path);

/* A series by its name; NULL: there is none. `layer` NULL: a series of the run. */
const dt__series *dt__page_series(const dt__page_run *r, const char *name, const char *layer,
                                  dt__page_phase phase);
/* The update at which QAT begins; NaN: unknown. */
double dt__page_qat_step(const dt__page_run *r);

#endif
