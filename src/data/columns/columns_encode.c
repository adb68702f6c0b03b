/* Encodes a row's fields as numbers. All steps are in IEEE double in the written order, and the
 * last rounds to f32. A missing number v is replaced by the fill value:
 *     log         sign(v) ln(1 + |v|), with u = 1 + |v| as ln(u) |v| / (u - 1) [Kahan], within
 *                 1e-15 of itself
 *     robust      (v - offset) / factor
 *     quantile    -1 + 2 (i + (v - q_i) / (q_i+1 - q_i)) / (n - 1), q_i the last quantile <= v;
 *                 -1 below the first and 1 from the last on
 * The angle of a time is 2 pi times the elapsed fraction of the day, week or year; sine and cosine
 * are within 1e-15. A category's code k > 0 sets number k - 1 of a one-hot group to 1; an unknown
 * one leaves all 0. */
#include "data/columns/columns.h"
#include "kernels/exp.h"

#include <float.h>
#include <math.h>

#define MOST_NUMBERS 12 /* per field that is not one-hot: all parts of a time */
#define DAY 86400.0
#define WEEK (7 * DAY)

int64_t dt_column_width(const dt_column *c)
{
    int64_t n = 1;
    if (c == NULL || c->type == DT_COLUMN_IGNORE) return 0;
    if (c->type == DT_COLUMN_CATEGORY && !c->embedded) n = dt__column_codes(c) - 1;
    if (c->type == DT_COLUMN_TIME) {
        n = 0;
        for (int i = 0; i < DT__TIME_PARTS; i++) {
            if ((c->parts >> i & 1) != 0) n += 1U << i >= DT_TIME_OF_DAY ? 2 : 1;
        }
    }
    return n + c->indicator;
}

int64_t dt_columns_width(const dt_columns *c)
{
    int64_t n = 0;
    for (int64_t i = 0; c != NULL && i < c->n; i++) n += dt_column_width(&c->column[i]);
    return n;
}

static double logarithm(double v)
{
    const double size = v < 0 ? -v : v, u = 1 + size;
    const double y = u == 1 ? size : dt__log_series(u) * (size / (u - 1));
    return v < 0 ? -y : y;
}

static double quantile(const dt_column *c, double v)
{
    const double *q = c->quantiles;
    if (q == NULL || c->n_quantiles < 2) return (double)NAN;
    int64_t low = 0, high = c->n_quantiles - 1;
    if (v < q[0]) return -1;
    if (v >= q[high]) return 1;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (q[middle] <= v) low = middle;
        else high = middle;
    }
    const double part = (v - q[low]) / (q[low + 1] - q[low]);
    return 2 * (((double)low + part) / (double)(c->n_quantiles - 1)) - 1;
}

double dt__column_scaled(const dt_column *c, double v)
{
    switch (c->scale) {
    case DT_SCALE_LOG: return logarithm(v);
    case DT_SCALE_ROBUST: return (v - c->offset) / c->factor;
    case DT_SCALE_QUANTILE: return quantile(c, v);
    default: return v;
    }
}

/* Sine and cosine of `share` of a full turn. */
static void put_turn(double share, double y[2])
{
    dt__sin_cos(share * 6.28318530717958647693, &y[0], &y[1]);
}

static int put_parts(const dt_column *c, double v, double y[MOST_NUMBERS])
{
    const dt__moment m = dt__moment_of(v);
    const double weekday = (double)(m.days % 7);
    const double alone[] = { v - c->offset, m.second / 3600, weekday, m.day, m.month, m.year };
    const double share[] = { m.second / DAY, (weekday * DAY + m.second) / WEEK,
                             (m.day * DAY + m.second) / (m.length * DAY) };
    int n = 0;
    for (int i = 0; i < DT__TIME_PARTS; i++) {
        if ((c->parts >> i & 1) == 0) continue;
        if (1U << i < DT_TIME_OF_DAY) {
            y[n++] = alone[i];
        } else {
            put_turn(share[i - 6], &y[n]);
            n += 2;
        }
    }
    return n;
}

static dt_status refuse(dt_ctx *ctx, const dt_column *c, const char *why)
{
    char shown[DT__SHOWN];
    return dt_fail(ctx, DT_ERR_FORMAT, "column '%s': %s",
                   dt__shown(c->name == NULL ? "" : c->name, shown), why);
}

/* Why a finite value cannot be scaled; NULL: it can. */
static const char *fault_of_value(const dt_column *c, double v)
{
    switch (c->type) {
    case DT_COLUMN_CATEGORY:
        return v >= 0 && v < (double)dt__column_codes(c) && v == floor(v)
                   ? NULL
                   : "a code that no category has";
    case DT_COLUMN_BOOLEAN: return v == 0 || v == 1 ? NULL : "a boolean must be 0 or 1";
    case DT_COLUMN_TIME:
        return v >= DT__TIME_LEAST && v < DT__TIME_END ? NULL
                                                       : "a time must be in the years 0001 to 9999";
    default: return isfinite(v) ? NULL : "a number must be finite";
    }
}

static dt_status encode(dt_ctx *ctx, const dt_column *c, double v, float **x)
{
    const bool missing = isnan(v);
    double y[MOST_NUMBERS] = { 0 };
    int n = 1;
    if (missing && c->missing == DT_MISSING_REFUSED) {
        return refuse(ctx, c, "a value is missing (columns.missing)");
    }
    if (missing) v = dt__column_fills_in(c) ? c->fill : (double)(dt__column_codes(c) - 1);
    const char *fault = missing ? NULL : fault_of_value(c, v);
    if (fault != NULL) return refuse(ctx, c, fault);
    if (c->type == DT_COLUMN_CATEGORY && !c->embedded) {
        const int64_t codes = dt__column_codes(c);
        for (int64_t i = 1; i < codes; i++) *(*x)++ = (double)i == v ? 1.0F : 0.0F;
        n = 0;
    } else if (c->type == DT_COLUMN_TIME) {
        n = put_parts(c, v, y);
    } else {
        y[0] = c->type == DT_COLUMN_NUMBER ? dt__column_scaled(c, v) : v;
    }
    for (int i = 0; i < n; i++) {
        if (!(fabs(y[i]) <= (double)FLT_MAX)) return refuse(ctx, c, "beyond the range of f32");
        *(*x)++ = (float)y[i];
    }
    if (c->indicator) *(*x)++ = missing ? 1.0F : 0.0F;
    return DT_OK;
}

dt_status dt_columns_encode(dt_ctx *ctx, const dt_columns *c, const dt_field *row, float *x)
{
    DT__NEED4(ctx, ctx, c, row, x);
    if (c->n > 0) DT__NEED(ctx, c->column);
    for (int64_t i = 0; i < c->n; i++) {
        if (c->column[i].type == DT_COLUMN_IGNORE) continue;
        DT__TRY(encode(ctx, &c->column[i], row[i].number, &x));
    }
    return DT_OK;
}
