/* Runs grouped by recipe: a cell is all runs whose recipes differ only in seed, fold and folder. */
#ifndef DT__REPORT_RUN_CELLS_H
#define DT__REPORT_RUN_CELLS_H

#include "report/page_spread.h"
#include "report/run_list.h"

enum { DT__CELL_FLOAT, DT__CELL_PTQ, DT__CELL_FINAL, DT__CELL_MODELS };

typedef struct dt__cell {
    /* name of its runs without the seed; with that of the sweep if there are several */
    char name[96];
    const dt__page_run *run;  /* its first run, lent */
    uint64_t hash;            /* of its recipe */
    int64_t runs, unfinished; /* all; without a result of the final model */
    dt_spread result[DT__CELL_MODELS];
    int64_t bytes; /* of the final model of the first run that has one; 0: none */
} dt__cell;

typedef struct dt__cells {
    dt_ctx *ctx;
    dt__page_metric metric;
    dt__cell *cell; /* in the order of their first runs */
    int64_t n, room;
    const char **key; /* paths of the keys that differ between cells, lent by the runs */
    int64_t n_keys, room_keys;
    bool lacks;     /* a recipe lacks one of these keys */
    int64_t copies; /* runs with recipe and seed of another run, which are not counted */
    /* the cell with the best final result; -1: none, or it is unknown which values are better */
    int64_t best;
    const dt__run_list *list;
} dt__cells;

/* Groups `runs`, those of the list, which are lent until the cells are closed. The caller closes
 * them, also after an error. Errors: NOMEM. */
dt_status dt__cells_open(const dt__run_list *list, const dt__page_run *runs, dt__cells *out);
void dt__cells_close(dt__cells *c);
/* The last part of key k's path; the whole path where two keys end alike. */
const char *dt__cells_heading(const dt__cells *c, int64_t key);
/* The value of key `key` in a cell; "–" where its recipe lacks it. */
const char *dt__cells_value(const dt__cell *cell, const char *path);

#define DT__CELLS_NOTE 512
/* Note i, from 0, on what the table does not show; false behind the last. */
bool dt__cells_note(const dt__cells *c, int64_t i, char text[DT__CELLS_NOTE]);

/* Formats of the table. */
enum { DT__CELLS_TERMINAL, DT__CELLS_CSV, DT__CELLS_LATEX, DT__CELLS_MARKDOWN };
/* Writes the table and, for a terminal of so many columns, what it leaves out. */
void dt__cells_put_text(dt__chars *t, const dt__cells *c, int form, int columns);
/* Writes the section of a page with the table and the plots. */
void dt__part_cells(dt__chars *t, const dt__cells *c);
/* Writes the plots of results over bits and over bytes. */
void dt__cells_put_plots(dt__chars *t, const dt__cells *c);

#endif
