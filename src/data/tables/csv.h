/* Tables in CSV files [RFC 4180]: columns of numbers, and of numbers or words to predict. */
#ifndef DT__DATA_CSV_H
#define DT__DATA_CSV_H

#include "data/arrays.h"
#include "data/data_options.h"
#include "data/labels.h"
#include "data/tables/merging.h"

typedef struct dt__csv_types dt__csv_types;

/* Where the numbers of tables are kept, and of which files (table_cache.h). {0}: nowhere. */
typedef struct dt__cache_folder {
    const char *path;   /* lent */
    int64_t least_file; /* bytes of a file at least */
} dt__cache_folder;

/* What is read of all files of a dataset: the first one that is read decides which columns. */
typedef struct dt__csv {
    dt_ctx *ctx;
    const dt_csv_options *options;
    dt_target target;
    dt__words inputs, targets; /* names of columns, in the order of the numbers */
    /* Columns whose texts are kept as codes, whatever else they are: of groups, series, times. They
     * are inputs only where `inputs` names them. */
    dt__words keys;
    dt__words *key_words;  /* [keys.n]: the texts of each; a code is the number of a word */
    const char **key_form; /* [keys.n]: the form of times that rules give a key; NULL: none */
    dt__csv_types *types;  /* of its own inputs; NULL: they are numbers as they are (csv_types.h) */
    dt__labels labels;
    dt__words patterns; /* names of columns that have * or ?, as patterns have */
    /* The decimal sign and thousands of all files, as one of them showed; 0: none did. */
    char decimal, thousands;
    char *shown; /* the file that showed the decimal sign; owned */
    dt__cache_folder cache;
    const dt_series_options *series; /* of which rows are moments; NULL: none */
    bool names_given;                /* `inputs` are those of a model */
    bool finds_header;               /* a first row of numbers is not a header */
    /* Of several readings of the same files: another one with the same inputs or targets, whose
     * numbers (and classes) this one shares; NULL: it has its own. */
    const struct dt__csv *x_of, *y_of;
    dt__merging *merging; /* of its own inputs, then of its targets; NULL: nothing was read */
    const char *merged;   /* the file that was read last; lent */
} dt__csv;

/* Whether a row may have nothing in a column: it is of another moment. A number is NaN then, a
 * class -1, a key empty. */
static inline bool dt__csv_may_lack(const dt__csv *c)
{
    return c->series != NULL && c->series->rate > 0;
}

/* What one file gave. */
typedef struct dt__csv_table {
    int64_t rows;
    dt__storage *x;    /* f32 [rows, inputs], with room for more; of typed inputs raw f64 */
    dt__storage *y;    /* i32 [rows], classes or numbers; or f32 [rows, targets] */
    dt__storage *key;  /* i32 [rows, keys]: codes; NULL: there are no keys */
    dt__storage *time; /* f64 [rows], in place of the texts of a key; NULL: these tell the time */
} dt__csv_table;

/* Reads a file, plain or gzip. dt__csv_table_free must be called also after an error. Errors,
 * naming file, line and column: IO, FORMAT, CONFIG (data.columns), NOMEM. */
dt_status dt__csv_read(dt__csv *c, const char *path, dt__csv_table *out);
/* The same for n readings of one file, which is parsed once; out[n]. */
dt_status dt__csv_read_all(dt__csv *const *c, int n, const char *path, dt__csv_table *out);
void dt__csv_table_free(dt__csv_table *t);

/* After the files of a part of the data: FORMAT, naming the column, if f32 merges its numbers. The
 * next files are another part. */
dt_status dt__csv_check(dt__csv *c);

/* What is known of the form of the files. */
dt_csv_form dt__csv_form(const dt__csv *c);
/* Sets what options leave open to a form. */
void dt__csv_take_form(dt_csv_options *o, const dt_csv_form *form);

/* Times of the texts of key number `key`, [its words]: numbers in the form of the files if the
 * first is one, else times of `format`, or if that is NULL of the column's rule, or ISO 8601. NaN:
 * neither. NOMEM. */
dt_status dt__csv_times(const dt__csv *c, int64_t key, const char *format, double *time);

/* After the training files: labels become classes, in `n` tables. NOMEM. */
dt_status dt__csv_close(dt__csv *c, dt__csv_table *tables, int64_t n);
void dt__csv_free(dt__csv *c);

#endif
