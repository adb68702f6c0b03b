/* Windows of tables in long form (data.series): a row is one time step of a series. */
#ifndef DT__DATA_SERIES_H
#define DT__DATA_SERIES_H

#include "data/tables/csv.h"
#include "data/data_options.h"
#include "data/splits/held_back.h"

/* steps of the usual length: three steps are not a gap, however times were rounded */
#define DT__SERIES_GAP 3.003

typedef struct dt__series_row {
    int64_t at;     /* index among the rows of all files */
    int64_t series; /* index in `names` */
    double time;    /* 0 without a time column */
} dt__series_row;

/* The rows of a part's files; in each file sorted by series, in the order of their first rows, then
 * by time. */
typedef struct dt__series_rows {
    dt__series_row *row;
    int64_t n;
    const dt__csv_table *table; /* lent */
    int64_t files;
    dt__words names; /* of series: codes of their key columns */
} dt__series_rows;

typedef struct dt__series {
    dt_ctx *ctx;
    const dt_series_options *o;
    const dt__csv *csv; /* the reading, whose keys include the columns of series; lent */
    int64_t length;     /* rows per window */
    int64_t stride;
    double step, gap; /* median step; longest step within a window; 0 without times */
    int axis;         /* axis of channels in a window */
    bool keeps;       /* keep the texts of keys, of each window's last row */
} dt__series;

/* Adds the columns that the series need to a reading's keys. NOMEM. */
dt_status dt__series_keys_of(dt__csv *c, const dt_series_options *o);

/* With data.series.rate: resamples the rows of tables [files] to this rate. They are then sorted by
 * series and time, and have a number in every column whose missing values are not filled in. s->gap
 * 0: it is measured. FORMAT, as for dt__series_read; CONFIG, NOMEM. */
dt_status dt__series_sample(dt__series *s, dt__csv_table *table, int64_t files,
                            const char *const *name);

/* Finds series and times of rows, and sorts them. The caller frees *out, also after an error.
 * FORMAT, naming file, column and row: an unreadable time, or two rows of a series at the same
 * time; NOMEM. */
dt_status dt__series_read(const dt__series *s, const dt__csv_table *table, int64_t files,
                          const char *const *name, dt__series_rows *out);
void dt__series_rows_free(dt_ctx *ctx, dt__series_rows *r);

/* Measures the lengths of windows and gaps in the rows of the training data, and reports them.
 * CONFIG, NOMEM. */
dt_status dt__series_measure(dt__series *s, const dt__series_rows *r, const dt_window *w);

/* Chooses the rows that are held back: whole series, groups or files, or the newest rows. CONFIG,
 * NOMEM. */
dt_status dt__series_hold_back(const dt_data_options *o, const dt__series_rows *r,
                               const dt__split_keys *keys, const dt_dataset *d,
                               dt__held_back *held);

/* Replaces a dataset of rows by one of windows: count[0] of part 0, then count[1] of part 1 and
 * count[2] of part 2. All rows of a window are of one part. `part` NULL: all are of part 0. CONFIG
 * (no run of rows is long enough), NOMEM. */
dt_status dt__series_cut(const dt__series *s, const dt__series_rows *r, const uint8_t *part,
                         dt_dataset **d, int64_t count[3]);

#endif
