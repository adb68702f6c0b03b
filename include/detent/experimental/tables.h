/* tables.h: analysis of the columns of a CSV file, for choosing data.columns.types. */
#ifndef DETENT_EXPERIMENTAL_TABLES_H
#define DETENT_EXPERIMENTAL_TABLES_H

#include <detent/experimental/data.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_LOOK_DIFFERENT 10000 /* different texts that are counted, at most */
#define DT_LOOK_FREQUENT 10     /* rows with a text that make it frequent */
#define DT_LOOK_ODD 4           /* texts among numbers that are reported, at most */

/* The common properties of the texts of a column. */
typedef struct dt_column_look {
    const char *name;
    int64_t missing;   /* fields that are empty, NA, NaN, null or ? */
    int64_t different; /* different texts, at most DT_LOOK_DIFFERENT */
    int64_t frequent;  /* texts of these that at least DT_LOOK_FREQUENT rows have */
    int type;          /* dt_column_type that all texts have: number, boolean, time or category */
    int64_t numbers;   /* texts that are numbers, even if others are not */
    /* category: the first texts that are not numbers; NULL: no more */
    const char *odd[DT_LOOK_ODD];
    bool is_integer; /* numbers without fractions */
    bool rises;      /* numbers or times never fall from row to row */
    int64_t falls;   /* how often they fall */
    int64_t blocks;  /* runs of equal texts in consecutive rows */
    double step;   /* numbers and times: the median of the first rising steps; 0: there are none */
    double spread; /* range of nine tenths of these steps, in medians: 0 if all are equal */
    double least, most; /* for numbers, and for times in seconds since 1970 */
    const char *format; /* format of times; NULL: ISO 8601 */
    bool is_unsure;     /* another format also reads all of them: 01/02/2024 */
} dt_column_look;

typedef struct dt_table_look {
    int64_t n, rows;
    int64_t files; /* tables that match the name; the first file of the first was read */
    const dt_column_look *column; /* [n] */
    void *memory;
} dt_table_look;

/* Whether a name is that of a table: FILE.csv, .csv.gz or .csv.zst; several of these joined by "+",
 * whose rows are joined by their times (dt_series_options); or a table in an SQLite database:
 * FILE.db, .sqlite or .sqlite3, without more if it has one table, or followed by ":TABLE" or
 * ":SELECT ...". */
DT_API bool dt_is_table(const char *name);

/* Reads a table; if several match a name with wildcards, the first. The caller frees the result by
 * dt_table_look_free. Errors: IO, FORMAT, NOMEM. */
DT_API dt_status dt_table_look_at(dt_ctx *ctx, const char *path, const dt_csv_options *options,
                                  dt_table_look *out);
DT_API void dt_table_look_free(dt_ctx *ctx, dt_table_look *look); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
