/* Tables in CSV files [RFC 4180]: columns of numbers, and of numbers or words to predict. */
#ifndef DT__DATA_CSV_H
#define DT__DATA_CSV_H

#include "data/arrays.h"
#include "data/merging.h"

#define DT__MOST_WORDS 65536

/* Words, each with a number in the order of their first occurrence. */
typedef struct dt__words {
    char **word;
    int64_t n, room;
    int64_t *slot; /* a hash table of numbers + 1; 0: free */
    int64_t slots; /* a power of 2 */
} dt__words;

/* The number of a word; -1: there is none. */
int64_t dt__words_find(const dt__words *w, const char *word, size_t bytes);
/* The same; a new word is added. -1: NOMEM. */
int64_t dt__words_add(dt_ctx *ctx, dt__words *w, const char *word, size_t bytes);
/* Sorts the words by bytes; to[i] becomes the new number of word i, [n]. NOMEM. */
dt_status dt__words_sort(dt_ctx *ctx, dt__words *w, int64_t *to);
void dt__words_free(dt_ctx *ctx, dt__words *w);

/* What is read of all files of a dataset: the first one that is read decides which columns. */
typedef struct dt__csv {
    dt_ctx *ctx;
    const dt_csv_options *options;
    dt_target target;
    dt__words inputs, targets; /* names of columns, in the order of the numbers */
    dt__words classes;         /* of labels: all words of the training data */
    bool is_closed;            /* other classes are errors */
    bool is_integers;          /* the labels are numbers, 0 to `most` */
    int64_t most;
    /* Of several readings of the same files: another one with the same inputs or targets, whose
     * numbers (and classes) this one shares; NULL: it has its own. */
    const struct dt__csv *x_of, *y_of;
    dt__merging *merging; /* of its own inputs, then of its targets; NULL: nothing was read */
    const char *merged;   /* the file that was read last; lent */
} dt__csv;

/* What one file gave. */
typedef struct dt__csv_table {
    int64_t rows;
    dt__storage *x; /* f32 [rows, inputs], with room for more */
    dt__storage *y; /* i32 [rows], classes or numbers; or f32 [rows, targets] */
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

/* After the training files: labels that are all integers are classes themselves; words become
 * classes in the order of their bytes. Labels of `n` tables are changed accordingly. NOMEM,
 * FORMAT. */
dt_status dt__csv_close(dt__csv *c, dt__csv_table *tables, int64_t n);
void dt__csv_free(dt__csv *c);

#endif
