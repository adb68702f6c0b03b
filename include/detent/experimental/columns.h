/* Columns of tables: how the fields of a row become the numbers that a network reads.
 *
 * A dt_columns is fitted to the rows that a network is trained on and saved in its file. It
 * computes the same bits in training, evaluation, detent predict and C exports: all steps are in
 * IEEE double, in the order written here, and the last one rounds to f32. */
#ifndef DETENT_EXPERIMENTAL_COLUMNS_H
#define DETENT_EXPERIMENTAL_COLUMNS_H

#include <detent/experimental/detent.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dt_column_type {
    DT_COLUMN_NUMBER, /* one number */
    /* a word or an integer of a list: one-hot without a place for code 0, or its code for an
     * embedding */
    DT_COLUMN_CATEGORY,
    DT_COLUMN_BOOLEAN, /* 0 or 1: false/true, no/yes, off/on, f/t, n/y, 0/1, in any case */
    DT_COLUMN_TIME,    /* a date or time: the parts that `parts` selects */
    DT_COLUMN_IGNORE
} dt_column_type;

/* How a number v that is not missing is scaled. */
typedef enum dt_column_scale {
    DT_SCALE_NONE,    /* v */
    DT_SCALE_LOG,     /* sign(v) ln(1 + |v|) */
    DT_SCALE_ROBUST,  /* (v - offset) / factor: the median, and the distance of the quartiles */
    DT_SCALE_QUANTILE /* piecewise linear between `quantiles`, which become -1 ... 1 evenly */
} dt_column_scale;

/* Bits of the parts of a time, which become numbers in this order. */
typedef enum dt_time_part {
    DT_TIME_SECONDS = 1, /* seconds since `offset`, the first moment of the training rows */
    DT_TIME_HOUR = 2,    /* 0 ... 24, with fractions */
    DT_TIME_WEEKDAY = 4, /* 0 Monday ... 6 Sunday */
    DT_TIME_DAY = 8,     /* day of the year, from 0 */
    DT_TIME_MONTH = 16,  /* 1 ... 12 */
    DT_TIME_YEAR = 32,
    DT_TIME_OF_DAY = 64,   /* sine and cosine of the hour's angle: two numbers */
    DT_TIME_OF_WEEK = 128, /* likewise */
    DT_TIME_OF_YEAR = 256
} dt_time_part;

/* What a missing field becomes. */
typedef enum dt_column_missing {
    DT_MISSING_REFUSED, /* an error that names file, line and column */
    DT_MISSING_MEAN,
    DT_MISSING_MEDIAN,
    DT_MISSING_FREQUENT, /* the most frequent value; ties: the smallest, or the first in order */
    DT_MISSING_CONSTANT, /* `fill`, which the recipe gives */
    DT_MISSING_LAST,     /* the last earlier value of the series; without one `fill`, the median */
    DT_MISSING_CODE      /* category: a separate category */
} dt_column_missing;

typedef struct dt_column {
    const char *name;
    int type, scale, missing; /* dt_column_type, dt_column_scale, dt_column_missing */
    unsigned parts;           /* times: dt_time_part */
    const char *format;       /* times: a format as in strptime; NULL: the forms of ISO 8601 */
    bool indicator;           /* one more number after the others: 1 if the field is missing */
    bool embedded;            /* category: one number, its code, in place of one-hot */
    double fill;              /* a number, seconds since 1970, 0 or 1, or the code of a category */
    double offset, factor;
    int64_t n_quantiles;
    const double *quantiles; /* ascending; of equal ones the last counts */
    int64_t n_categories;    /* code 0 is unknown, word[i] has i + 1, missing (`code`) the last */
    const char *const *category;
    int64_t n_words; /* words that mean missing, besides an empty field, NA, NaN, null and ? */
    const char *const *word;
} dt_column;

/* Columns, in the order of the numbers that they become. */
typedef struct dt_columns {
    int64_t n;
    const dt_column *column;
    void *memory; /* owned by the function that made it */
} dt_columns;

/* A field of a row. */
typedef struct dt_field {
    double number; /* NaN: missing. A category: its code. A boolean: 0 or 1. A time: seconds since
                    * 1970-01-01T00:00:00, without a zone as if in UTC */
} dt_field;

/* How many numbers a column becomes. */
DT_API int64_t dt_column_width(const dt_column *c);
/* The sum over all of them. */
DT_API int64_t dt_columns_width(const dt_columns *c);

/* x[dt_columns_width] of a row of c->n fields (those of ignored columns are not read). Errors:
 * FORMAT, naming the column: a missing field of a column that refuses it, a code beyond the
 * categories, a number beyond the range of f32. */
DT_API dt_status dt_columns_encode(dt_ctx *ctx, const dt_columns *c, const dt_field *row, float *x);

/* Parses the text of a field, without blanks at its ends; an unknown word becomes code 0. FORMAT,
 * with what would be valid; the caller adds the position. */
DT_API dt_status dt_column_parse(dt_ctx *ctx, const dt_column *c, const char *text, size_t n,
                                 dt_field *out);

/* The text that a model file keeps (JSON). Errors: ARG, naming a column with an invalid setting;
 * those of the sink; NOMEM. */
DT_API dt_status dt_columns_text(dt_ctx *ctx, const dt_columns *c, dt_sink sink, void *user);
/* Reads such a text; `name` stands for the file in messages. The caller frees the columns. Errors:
 * FORMAT, NOMEM. */
DT_API dt_status dt_columns_parse(dt_ctx *ctx, const char *text, const char *name, dt_columns *out);
/* NULL is allowed. */
DT_API void dt_columns_free(dt_ctx *ctx, dt_columns *c);

/* The cells of a table that describes columns to people. */
typedef enum dt_column_about {
    DT_COLUMN_ITS_TYPE,  /* "number" */
    DT_COLUMN_BECOMES,   /* "(v - 38) / 20" */
    DT_COLUMN_IF_MISSING /* "median 38, and an indicator" */
} dt_column_about;
#define DT_COLUMN_TEXT 160
/* Writes such a cell to `text`, and returns `text`. */
DT_API const char *dt_column_describe(const dt_column *c, dt_column_about about,
                                      char text[DT_COLUMN_TEXT]);

#ifdef __cplusplus
}
#endif
#endif
