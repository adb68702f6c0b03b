/* One work matrix of a weight, and what a rounder is.
 *
 * Rows are independent of each other, so a matrix is rounded in strips of rows, each by one thread;
 * strips are cut by the shape alone. Within a strip values are held by columns, [columns][rows of
 * the strip], so that a column is contiguous. Sums, factors and arguments are double. */
#ifndef DT__PTQ_MATRIX_H
#define DT__PTQ_MATRIX_H

#include <detent/ptq.h>

#include "core/core.h"
#include "ptq/statistics.h"

#define DT__STRIP 192 /* rows at most */
#define DT__METHODS_TEXT 256

/* The codes of a matrix and their scales; rows of the layer that belong to this group. */
typedef struct dt__code_grid {
    int qmin, qmax;
    bool half_up;          /* as dt__code_row has it */
    int64_t group, groups; /* columns that share a scale (the last fewer); scales of a row */
    int32_t *group_of;     /* [columns] */
    float *scale;          /* [rows][groups]; refreshed scales are written here */
    float *inverse;        /* likewise: what arguments are multiplied by */
    int8_t *zero;          /* likewise; NULL: all 0 */
} dt__code_grid;

struct dt__bounds; /* what accumulators allow: bounds.h */

typedef struct dt__matrix {
    dt_ctx *ctx;
    int64_t rows, columns;
    const float *weight; /* W0 [rows][columns] */
    const dt_quant_spec *quant;
    const dt_rounding_options *options;
    dt__moments *moments; /* as collected: original order, undamped, dead 0; NULL: no data */
    int32_t *order;       /* [columns]: order[j] is processed j-th */
    bool *dead;           /* [columns] */
    bool keep_zeros;      /* elements that are 0 in W0 stay so */
    dt__code_grid grid;
    const struct dt__bounds *bounds; /* NULL: none */
    double mean;                     /* of the diagonal of 2/n H, as damping_mean has it */
    /* by the rounder's prepare: */
    double *factor; /* [columns][columns]: U, upper, of the processing order */
    double scale;   /* it is the factor of scale H + damping I */
    double damping, damping_share;
    bool fallback; /* no factor at any damping: nearest */
} dt__matrix;

/* Rows row ... row+rows-1 of a matrix on one thread; rows <= DT__STRIP. */
typedef struct dt__strip {
    const dt__matrix *m;
    int64_t row, rows;
    int8_t *codes; /* [columns][rows], columns in the original order */
    double *work; /* [columns][rows]: arguments, in processing order; at first W0, dead columns 0 */
    void *scratch;                /* rounder->scratch bytes */
    int64_t *positive, *negative; /* [tiles][rows]: sums of codes less zero point, of bounds */
    const double *target;     /* [columns][rows], in the original order: G W0^T, of `needs_float` */
    double square[DT__STRIP]; /* of dt__diffuse: the sum of e^2 of each row */
    bool bad;                 /* a refreshed scale is not finite */
    /* Of choose: what the rows have for scale group `group`; -1: nothing yet. */
    int64_t group;
    float scale[DT__STRIP], inverse[DT__STRIP], zero[DT__STRIP];
} dt__strip;

/* Settings that not every method reads. */
enum {
    DT__READS_DATA = 1, /* statistics, and so order, keep_zeros and keep_better */
    DT__READS_DAMPING = 2,
    DT__READS_DAMPING_ABSOLUTE = 4,
    DT__READS_ALPHA = 8,
    DT__READS_BLOCK = 16,
    DT__READS_GROUP_SCALES = 32,
    DT__READS_ACCUMULATOR = 64 /* of bounded methods, whatever their rounder */
};

typedef struct dt__rounder {
    unsigned reads;   /* DT__READS_... */
    bool needs_float; /* G as well: where the statistics have none, X is Xq */
    bool diffuses;    /* every error, from the first column on */
    size_t (*scratch)(const dt__matrix *m, int64_t rows); /* bytes for a strip; NULL: none */
    dt_status (*prepare)(dt__matrix *m); /* factor and damping, on all threads; NULL: nothing */
    void (*round)(dt__strip *s);         /* codes of all columns of these rows */
} dt__rounder;

/* s->work = W, column `order[j]` as the j-th; order NULL: the original one. Dead columns as 0
 * unless `all`. */
void dt__take_weight(const dt__strip *s, const int32_t *order, bool all);

/* Column j of the processing order: codes of its arguments v [rows of the strip]. Afterwards v is
 * what an error is counted from (the argument as bounds left it, or as it came with DT_DIFFUSE_ALL;
 * 0 where a zero is kept) and `dequantized` the dequantized values, (code - zero) * scale,
 * exact. */
void dt__choose(dt__strip *s, int64_t j, double *v, double *dequantized);

/* The dequantized values of codes [columns][rows of the strip] in a column of the original
 * order. */
void dt__dequantize_column(dt__strip *s, int64_t column, const int8_t *codes, double *dequantized);

/* Makes m->factor, U with U^T U = (scale H + damping I)^-1 in the processing order, dead entries of
 * the diagonal as 1; NULL where that is not positive definite. Errors: NOMEM. */
dt_status dt__make_factor(dt__matrix *m, double scale, double damping);

/* GPTQ's loop, for columns first ... of the processing order: column j gets its codes, its error
 * e = (argument - dequantized) / U[j][j] reaches the columns behind it by -e U[j][...], and
 * s->square the sums of e^2. s->work holds arguments before and errors afterwards. */
void dt__diffuse(dt__strip *s, int64_t first);
size_t dt__diffuse_scratch(const dt__matrix *m, int64_t rows);

#define DT__ROUNDER(name, number) extern const dt__rounder dt__round_##name;
#define DT__BOUNDED(name, number)
#include "ptq/rounders.inc"
#undef DT__ROUNDER
#undef DT__BOUNDED

enum {
#define DT__ROUNDER(name, number) DT__COUNTS_##name,
#define DT__BOUNDED(name, number) DT__COUNTS_A2##name,
#include "ptq/rounders.inc"
#undef DT__ROUNDER
#undef DT__BOUNDED
    DT__METHODS /* how many */
};

/* A DT_ROUND_...: a rounder, with bounds or without. */
typedef struct dt__method {
    const char *name;
    const dt__rounder *rounder;
    bool bounded;
} dt__method;

/* NULL for a number that is none. */
const dt__method *dt__method_of(int rounder);
/* All of its DT__READS_.... */
unsigned dt__method_reads(const dt__method *method);
/* The settings for this rounder: *o, but defaults where they are of others. */
dt_rounding_options dt__settings_of(const dt_rounding_options *o, int rounder);
static inline bool dt__needs_data(const dt__method *method)
{
    return (method->rounder->reads & DT__READS_DATA) != 0;
}
/* Names of the methods that read any of these: "gptq and a2gptq". */
const char *dt__methods_that_read(unsigned reads, char text[DT__METHODS_TEXT]);

/* Settings by themselves, and with a scheme: CONFIG, with a message that says which setting and
 * what would be right. */
dt_status dt__rounding_check(dt_ctx *ctx, const dt_rounding_options *o, const dt_quant_spec *q);

#endif
