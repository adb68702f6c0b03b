/* Shared by the files about columns of tables. */
#ifndef DT__DATA_COLUMNS_H
#define DT__DATA_COLUMNS_H

#include "core/text/json.h"

#include <detent/experimental/columns.h>

/* in a table; also the limit of a column's categories and quantiles */
#define DT__MOST_COLUMNS 65536

/* Names of dt_column_type, dt_column_scale, dt_column_missing, and of the bits of dt_time_part;
 * ended by NULL. */
extern const char *const dt__column_types[], *const dt__column_scales[],
                                                 *const dt__column_fills[], *const dt__time_parts[];
#define DT__TIME_PARTS 9

/* Number of codes of a category column; 0 is unknown. */
static inline int64_t dt__column_codes(const dt_column *c)
{
    return 1 + c->n_categories + (c->missing == DT_MISSING_CODE);
}
/* Whether a text, without blanks at both ends, means a missing field. */
bool dt__column_is_missing(const dt_column *c, const char *text, size_t n);
/* Whether missing fields are replaced by `fill`. */
static inline bool dt__column_fills_in(const dt_column *c)
{
    return c->missing != DT_MISSING_REFUSED && c->missing != DT_MISSING_CODE;
}

/* v transformed by the column's scale. */
double dt__column_scaled(const dt_column *c, double v);

/* Writes and reads the list in a model file. What is read lives as long as *blocks. FORMAT,
 * NOMEM. */
void dt__columns_put(dt__chars *t, const dt_columns *c);
dt_status dt__columns_read(dt__json *j, void **blocks, dt_columns *out);
/* Copies columns; the caller frees the copy. ARG, naming the wrong column; NOMEM. */
dt_status dt__columns_copy(dt_ctx *ctx, const dt_columns *c, dt_columns *out);

/* ---- times -------------------------------------------------------------------------------- */

#define DT__TIME_LEAST (-62135596800.0) /* 0001-01-01T00:00:00, in seconds since 1970 */
#define DT__TIME_END 253402300800.0     /* 10000-01-01T00:00:00 */

/* A moment of the Gregorian calendar. */
typedef struct dt__moment {
    int64_t days;         /* since 0001-01-01, a Monday */
    int year, month, day; /* month 1 ... 12; day: of the year, from 0 */
    int length;           /* of the year, in days */
    double second;        /* of the day */
} dt__moment;

/* For seconds since 1970, from DT__TIME_LEAST to below DT__TIME_END. */
dt__moment dt__moment_of(double seconds);

/* Parses a text to seconds since 1970; `format` as for strptime, or NULL: ISO 8601. FORMAT. */
dt_status dt__time_parse(dt_ctx *ctx, const char *format, const char *text, size_t n, double *out);
/* The first unsupported directive of a format, such as "%Q"; NULL: none. */
const char *dt__time_format_fault(const char *format);

#endif
