/* Windows of tables in long form (data.series): a row is a moment of a series. */
#ifndef DT__DATA_SERIES_H
#define DT__DATA_SERIES_H

#include "data/tables/csv.h"
#include "data/data_options.h"
#include "data/splits/held_back.h"

#define DT__SERIES_GAP 3.003 /* usual steps: three are none, however they were rounded */

typedef struct dt__series_row {
    int64_t at;     /* its place among the rows of all files */
    int64_t series; /* a number of `names` */
    double time;    /* 0 without a column of times */
} dt__series_row;

/* The rows of the files of a part of the data; in each file in the order of series, which is that
 * of their first rows, then of time. */
typedef struct dt__series_rows {
    dt__series_row *row;
    int64_t n;
    const dt__csv_table *table; /* lent */
    int64_t files;
    dt__words names; /* of series: codes of their columns */
} dt__series_rows;

typedef struct dt__series {
    dt_ctx *ctx;
    const dt_series_options *o;
    const dt__csv *csv; /* has the columns as keys; lent */
    int64_t length;     /* rows of a window */
    int64_t stride;
    double step, gap; /* the median of steps; the longest one in a window; 0 without times */
    int axis;         /* of channels, in a window */
    bool keeps;       /* the texts of keys are kept, those of a window's last row */
} dt__series;

/* Names the columns that the series need as keys of a reading. NOMEM. */
dt_status dt__series_keys_of(dt__csv *c, const dt_series_options *o);

/* Where there is a rate, the rows of tables [files], of files `name`, become those of moments at
 * this rate, in the order of series and times, with numbers in all columns that nothing is filled
 * in of. s->gap 0: it is found. FORMAT, as of dt__series_read; CONFIG, NOMEM. */
dt_status dt__series_sample(dt__series *s, dt__csv_table *table, int64_t files,
                            const char *const *name);

/* Finds series and times of the rows of tables that were read, and puts them in order. The caller
 * frees them, also after an error. FORMAT, naming file, column and row: a time that cannot be read,
 * or two rows of a series at one time; NOMEM. */
dt_status dt__series_read(const dt__series *s, const dt__csv_table *table, int64_t files,
                          const char *const *name, dt__series_rows *out);
void dt__series_rows_free(dt_ctx *ctx, dt__series_rows *r);

/* Decides from the rows of the training data how long windows and gaps are, and says so. CONFIG,
 * NOMEM. */
dt_status dt__series_measure(dt__series *s, const dt__series_rows *r, const dt_window *w);

/* Which rows are held back, in `held`: whole series, groups or files, or the newest rows. CONFIG,
 * NOMEM. */
dt_status dt__series_hold_back(const dt_data_options *o, const dt__series_rows *r,
                               const dt__split_keys *keys, const dt_dataset *d,
                               dt__held_back *held);

/* Replaces a dataset of rows by one of windows: those of part 0 first, count[0], then count[1] of
 * part 1 and count[2] of part 2. A window has rows of one part. `part` NULL: all rows are of part
 * 0. CONFIG (no run of rows is long enough), NOMEM. */
dt_status dt__series_cut(const dt__series *s, const dt__series_rows *r, const uint8_t *part,
                         dt_dataset **d, int64_t count[3]);

#endif
