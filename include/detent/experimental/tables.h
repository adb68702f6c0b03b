/* tables.h: what the columns of a CSV file hold, to choose data.columns.types by. */
#ifndef DETENT_EXPERIMENTAL_TABLES_H
#define DETENT_EXPERIMENTAL_TABLES_H

#include <detent/experimental/data.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_LOOK_DIFFERENT 10000 /* different texts that are counted */
#define DT_LOOK_FREQUENT 10     /* rows that make a text frequent */
#define DT_LOOK_ODD 4           /* texts among numbers that are told */

/* What the texts of a column have in common. */
typedef struct dt_column_look {
    const char *name;
    int64_t missing;   /* fields that are empty, NA, NaN, null or ? */
    int64_t different; /* texts that are there, at most DT_LOOK_DIFFERENT */
    int64_t frequent;  /* of these, texts of at least DT_LOOK_FREQUENT rows */
    int type;          /* dt_column_type of all that are there: number, boolean, time or category */
    int64_t numbers;   /* texts that are numbers, also where others are not, */
    const char *odd[DT_LOOK_ODD]; /* and of a category the first others; the last NULL: no more */
    bool is_integer;              /* numbers without fractions */
    bool rises;                   /* numbers and times that never fall */
    int64_t falls;                /* how often they do */
    int64_t blocks;               /* of equal texts, one behind the other */
    double
        step; /* of numbers and times: the median of the first steps upwards; 0: there are none */
    double spread;      /* of nine tenths of these steps, in medians: 0 where all are equal */
    double least, most; /* of numbers, and of times in seconds since 1970 */
    const char *format; /* of times; NULL: ISO 8601 */
    bool is_unsure;     /* another format reads all of them too: 01/02/2024 */
} dt_column_look;

typedef struct dt_table_look {
    int64_t n, rows;
    int64_t files; /* tables that the name means; the first file of the first one was read */
    const dt_column_look *column; /* [n] */
    void *memory;
} dt_table_look;

/* Whether a name is that of a table: FILE.csv, .csv.gz or .csv.zst; several of these with "+"
 * between them, whose rows are joined by their times (dt_series_options); or of a table in a data
 * base of SQLite: FILE.db, .sqlite or .sqlite3, alone where it has one table, or with ":TABLE" or
 * ":SELECT ..." behind it. */
DT_API bool dt_is_table(const char *name);

/* Reads a table; of several that match a name with wildcards the first one. The caller frees it by
 * dt_table_look_free. Errors: IO, FORMAT, NOMEM. */
DT_API dt_status dt_table_look_at(dt_ctx *ctx, const char *path, const dt_csv_options *options,
                                  dt_table_look *out);
DT_API void dt_table_look_free(dt_ctx *ctx, dt_table_look *look); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
