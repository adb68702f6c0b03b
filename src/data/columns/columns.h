/* What files about columns of tables share. */
#ifndef DT__DATA_COLUMNS_H
#define DT__DATA_COLUMNS_H

#include "core/text/json.h"

#include <detent/experimental/columns.h>

#define DT__MOST_COLUMNS 65536 /* of a table; likewise categories and quantiles of one */

/* Names of dt_column_type, dt_column_scale, dt_column_missing, and of dt_time_part by its bit;
 * ended by NULL. */
extern const char *const dt__column_types[], *const dt__column_scales[],
                                                 *const dt__column_fills[], *const dt__time_parts[];
#define DT__TIME_PARTS 9

/* Codes of a category: 0 is unknown. */
static inline int64_t dt__column_codes(const dt_column *c)
{
    return 1 + c->n_categories + (c->missing == DT_MISSING_CODE);
}
/* Whether a text without blanks at its ends means a missing field. */
bool dt__column_is_missing(const dt_column *c, const char *text, size_t n);
/* Whether a missing field becomes `fill`. */
static inline bool dt__column_fills_in(const dt_column *c)
{
    return c->missing != DT_MISSING_REFUSED && c->missing != DT_MISSING_CODE;
}

/* A number by the column's scale. */
double dt__column_scaled(const dt_column *c, double v);

/* Writes the list of a model file, and reads it; what is read lives as long as *blocks. FORMAT,
 * NOMEM. */
void dt__columns_put(dt__chars *t, const dt_columns *c);
dt_status dt__columns_read(dt__json *j, void **blocks, dt_columns *out);
/* The caller frees the copy. ARG, naming the column that is wrong; NOMEM. */
dt_status dt__columns_copy(dt_ctx *ctx, const dt_columns *c, dt_columns *out);

/* ---- times -------------------------------------------------------------------------------- */

#define DT__TIME_LEAST (-62135596800.0) /* 0001-01-01T00:00:00, in seconds since 1970 */
#define DT__TIME_END 253402300800.0     /* 10000-01-01T00:00:00 */

/* A moment of the Gregorian calendar. */
typedef struct dt__moment {
    int64_t days;         /* since 0001-01-01, a Monday */
    int year, month, day; /* month 1 ... 12; day of the year, from 0 */
    int length;           /* of the year, in days */
    double second;        /* of the day */
} dt__moment;

/* Seconds since 1970 from DT__TIME_LEAST to below DT__TIME_END. */
dt__moment dt__moment_of(double seconds);

/* Seconds since 1970 of a text; `format` as strptime's, or NULL: ISO 8601. FORMAT. */
dt_status dt__time_parse(dt_ctx *ctx, const char *format, const char *text, size_t n, double *out);
/* The first directive of a format that is not known, "%Q"; NULL: all are. */
const char *dt__time_format_fault(const char *format);

#endif
