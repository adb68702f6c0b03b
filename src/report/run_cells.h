/* Runs by recipe: a cell is all runs whose recipes differ in nothing but seed, fold and folder. */
#ifndef DT__REPORT_RUN_CELLS_H
#define DT__REPORT_RUN_CELLS_H

#include "report/page_spread.h"
#include "report/run_list.h"

enum { DT__CELL_FLOAT, DT__CELL_PTQ, DT__CELL_FINAL, DT__CELL_MODELS };

typedef struct dt__cell {
    char name[96]; /* of its runs without seed; with the sweep's where there are several */
    const dt__page_run *run;  /* its first, lent */
    uint64_t hash;            /* of its recipe */
    int64_t runs, unfinished; /* all; those without a result of the final model */
    dt_spread result[DT__CELL_MODELS];
    int64_t bytes; /* of the final model of the first run that has one; 0: none */
} dt__cell;

typedef struct dt__cells {
    dt_ctx *ctx;
    dt__page_metric metric;
    dt__cell *cell; /* in the order of their first runs */
    int64_t n, room;
    const char **key; /* paths that differ between cells, lent by the runs */
    int64_t n_keys, room_keys;
    bool lacks;     /* a recipe does not have one of them */
    int64_t copies; /* runs with recipe and seed of another, which are not counted */
    int64_t best; /* the cell with the best final result; -1: none, or what is better is unknown */
    const dt__run_list *list;
} dt__cells;

/* `runs`: those of the list, lent until the cells are closed. The caller closes it, also after an
 * error. Errors: NOMEM. */
dt_status dt__cells_open(const dt__run_list *list, const dt__page_run *runs, dt__cells *out);
void dt__cells_close(dt__cells *c);
/* The last parts of keys' paths, or whole paths where two end alike. */
const char *dt__cells_heading(const dt__cells *c, int64_t key);
/* The value of key `key` in a cell; "–" where its recipe lacks it. */
const char *dt__cells_value(const dt__cell *cell, const char *path);

#define DT__CELLS_NOTE 512
/* Line i, from 0, of what the table does not say; false behind the last. */
bool dt__cells_note(const dt__cells *c, int64_t i, char text[DT__CELLS_NOTE]);

/* Forms of the table, for people and for papers. */
enum { DT__CELLS_TERMINAL, DT__CELLS_CSV, DT__CELLS_LATEX, DT__CELLS_MARKDOWN };
/* Writes the table, and for a terminal of so many columns what it leaves out. */
void dt__cells_put_text(dt__chars *t, const dt__cells *c, int form, int columns);
/* Section of a page with the table and the plots. */
void dt__part_cells(dt__chars *t, const dt__cells *c);
/* Results over bits and over bytes, as figures with bars of one standard deviation. */
void dt__cells_put_plots(dt__chars *t, const dt__cells *c);

#endif
