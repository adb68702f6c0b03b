/* Reads tables in CSV files [RFC 4180]: input columns, and columns of targets. */
#ifndef DT__DATA_CSV_H
#define DT__DATA_CSV_H

#include "data/arrays.h"
#include "data/data_options.h"
#include "data/labels.h"
#include "data/tables/merging.h"

typedef struct dt__csv_types dt__csv_types;

/* Where the numbers of large tables are cached (table_cache.h). {0}: nowhere. */
typedef struct dt__cache_folder {
    const char *path;   /* lent */
    int64_t least_file; /* minimum size of a file, in bytes */
} dt__cache_folder;

/* A reading: the columns of an input and an output, in all files of a dataset. The first file that
 * is read decides which columns exist. */
typedef struct dt__csv {
    dt_ctx *ctx;
    const dt_csv_options *options;
    dt_target target;
    dt__words inputs, targets; /* names of columns, in the order of the numbers */
    /* Columns whose texts are kept as codes: groups, series, times. They are also inputs if
     * `inputs` names them. */
    dt__words keys;
    dt__words *key_words; /* [keys.n]: the texts of each; a code is the index of a word */
    /* [keys.n]: the time format of each, from data.columns.types; NULL: none */
    const char **key_form;
    /* of the inputs, unless x_of is set; NULL: they are plain numbers (csv_types.h) */
    dt__csv_types *types;
    dt__labels labels;
    dt__words patterns; /* column names that contain * or ?, as patterns do */
    /* The decimal sign and the thousands separator of all files, once a file has shown them; else
     * 0. */
    char decimal, thousands;
    char *shown; /* the file that showed the decimal sign; owned */
    dt__cache_folder cache;
    const dt_series_options *series; /* settings of series, if rows are time steps; else NULL */
    bool names_given;                /* `inputs` are those of a model */
    bool finds_header;               /* a first row of numbers is not a header */
    /* Another reading of the same files with the same inputs (x_of) or targets and classes (y_of),
     * whose numbers this reading shares; NULL: it has its own. */
    const struct dt__csv *x_of, *y_of;
    dt__merging *merging; /* of the inputs, then of the targets; NULL: nothing was read yet */
    const char *merged;   /* the file that was read last; lent */
} dt__csv;

/* Whether fields may be empty, as another row may have the value: then a number is NaN, a class -1,
 * a key empty. */
static inline bool dt__csv_may_lack(const dt__csv *c)
{
    return c->series != NULL && c->series->rate > 0;
}

/* The table of one file. */
typedef struct dt__csv_table {
    int64_t rows;
    dt__storage *x;   /* f32 [rows, inputs], with spare capacity; for typed inputs raw f64 */
    dt__storage *y;   /* i32 [rows], classes or numbers; or f32 [rows, targets] */
    dt__storage *key; /* i32 [rows, keys]: codes; NULL: no keys */
    /* f64 [rows], replaces the texts of the time key; NULL: those are the times */
    dt__storage *time;
} dt__csv_table;

/* Reads a file, plain or gzip. dt__csv_table_free must be called also after an error. Errors,
 * naming file, line and column: IO, FORMAT, CONFIG (data.columns), NOMEM. */
dt_status dt__csv_read(dt__csv *c, const char *path, dt__csv_table *out);
/* Parses a file once for n readings; out[n]. */
dt_status dt__csv_read_all(dt__csv *const *c, int n, const char *path, dt__csv_table *out);
void dt__csv_table_free(dt__csv_table *t);

/* Called after all files of a part of the data: FORMAT, naming the column, if different numbers are
 * equal as f32. The next files are another part. */
dt_status dt__csv_check(dt__csv *c);

/* The form of the files, as far as it is known. */
dt_csv_form dt__csv_form(const dt__csv *c);
/* Fills options that are AUTO from a form. */
void dt__csv_take_form(dt_csv_options *o, const dt_csv_form *form);

/* Converts the texts of key `key` to times: plain numbers if the first is one; else times in
 * `format` or, if that is NULL, in the column's format, or ISO 8601. NaN: not a time. NOMEM. */
dt_status dt__csv_times(const dt__csv *c, int64_t key, const char *format, double *time);

/* Called after the training files: converts labels in `n` tables to classes. NOMEM. */
dt_status dt__csv_close(dt__csv *c, dt__csv_table *tables, int64_t n);
void dt__csv_free(dt__csv *c);

#endif
