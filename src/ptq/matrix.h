/* A work matrix of a weight, and the interface of rounders.
 *
 * Rows are independent, so a matrix is rounded in blocks of rows (dt__row_block), each by one
 * thread. The shape alone determines the blocks. A block stores its values as [columns][rows], so
 * that a column is contiguous. Sums, factors and arguments are double. */
#ifndef DT__PTQ_MATRIX_H
#define DT__PTQ_MATRIX_H

#include <detent/experimental/ptq.h>

#include "core/core.h"
#include "ptq/statistics.h"

#define DT__BLOCK_ROWS 192 /* rows at most */
#define DT__METHODS_TEXT 256

/* The range and the scales of a matrix's codes; rows are those of the layer's group. */
typedef struct dt__code_grid {
    int qmin, qmax;
    bool half_up;             /* as in dt__code_row */
    const dt__levels *levels; /* likewise */
    int64_t group, groups;    /* columns that share a scale (the last fewer); scales per row */
    int32_t *group_of;        /* [columns] */
    float *scale;             /* [rows][groups]; refreshed scales are written here */
    float *inverse;           /* [rows][groups]: 1 / scale */
    int8_t *zero;             /* [rows][groups]; NULL: all 0 */
} dt__code_grid;

struct dt__bounds; /* limits of accumulators: bounds.h */

typedef struct dt__matrix {
    dt_ctx *ctx;
    int64_t rows, columns;
    const float *weight; /* W0 [rows][columns] */
    const dt_quant_spec *quant;
    const dt_rounding_options *options;
    dt__moments *moments; /* original column order, undamped; NULL: no data */
    int32_t *order;       /* [columns]: order[j] is processed j-th */
    bool *dead;           /* [columns] */
    bool keep_zeros;      /* elements that are 0 in W0 stay 0 */
    dt__code_grid grid;
    const struct dt__bounds *bounds; /* NULL: none */
    double mean; /* of the diagonal of 2/n H, over the columns of damping_mean */
    /* set by the rounder's prepare: */
    double *factor; /* [columns][columns]: U, upper, in processing order */
    double scale;   /* U is the factor of scale H + damping I */
    double damping, damping_share;
    bool fallback; /* no factor at any damping: rounded to nearest */
} dt__matrix;

/* Rows row ... row+rows-1 of a matrix on one thread; rows <= DT__BLOCK_ROWS. */
typedef struct dt__row_block {
    const dt__matrix *m;
    int64_t row, rows;
    int8_t *codes; /* [columns][rows], columns in the original order */
    double *work; /* [columns][rows]: arguments in processing order; initially W0, dead columns 0 */
    void *scratch;                 /* rounder->scratch bytes */
    int64_t *positive, *negative;  /* with bounds, [tiles][rows]: sums of codes minus zero points */
    const double *target;          /* with `needs_float`, [columns][rows], original order: G W0^T */
    double square[DT__BLOCK_ROWS]; /* set by dt__diffuse: the sum of e^2 of each row */
    bool bad;                      /* a refreshed scale is not finite */
    /* Cache of dt__choose: the rows' scales in group `group`; -1: empty. */
    int64_t group;
    float scale[DT__BLOCK_ROWS], inverse[DT__BLOCK_ROWS], zero[DT__BLOCK_ROWS];
} dt__row_block;

/* Settings that only some methods read. */
enum {
    DT__READS_DATA = 1, /* statistics, hence order, keep_zeros and keep_better */
    DT__READS_DAMPING = 2,
    DT__READS_DAMPING_ABSOLUTE = 4,
    DT__READS_ALPHA = 8,
    DT__READS_BLOCK = 16,
    DT__READS_GROUP_SCALES = 32,
    DT__READS_ACCUMULATOR = 64 /* every bounded method */
};

typedef struct dt__rounder {
    unsigned reads;   /* DT__READS_... */
    bool needs_float; /* also reads G; statistics without G: X is Xq */
    bool diffuses;    /* diffuses every error, from the first column on */
    size_t (*scratch)(const dt__matrix *m, int64_t rows); /* bytes for a block; NULL: none */
    dt_status (*prepare)(dt__matrix *m); /* factor and damping, on all threads; NULL: nothing */
    void (*round)(dt__row_block *s);     /* sets the codes of the rows of the block */
} dt__rounder;

/* s->work = W with column order[j] at position j; order NULL: the original order. Dead columns are
 * set to 0 unless `all`. */
void dt__take_weight(const dt__row_block *s, const int32_t *order, bool all);

/* Chooses the codes of column j of the processing order from its arguments v [rows of the block].
 * Sets v to the values that errors are measured from: the clamped argument, or with DT_DIFFUSE_ALL
 * the argument before clamping; 0 where a zero is kept. Sets `dequantized` to
 * (code - zero) * scale, exactly. */
void dt__choose(dt__row_block *s, int64_t j, double *v, double *dequantized);

/* Dequantizes one column (original order) of codes [columns][rows of the block]. */
void dt__dequantize_column(dt__row_block *s, int64_t column, const int8_t *codes,
                           double *dequantized);

/* Sets m->factor to U with U^T U = (scale H + damping I)^-1 in processing order, where dead columns
 * have 1 on the diagonal; to NULL where the matrix is not positive definite. Errors: NOMEM. */
dt_status dt__make_factor(dt__matrix *m, double scale, double damping);

/* GPTQ's loop over the columns from `first` on, in processing order: chooses the codes of column j,
 * adds -e U[j][...] to the later columns, where e = (argument - dequantized) / U[j][j], and adds
 * e^2 to s->square. s->work holds the arguments before and the errors e afterwards. */
void dt__diffuse(dt__row_block *s, int64_t first);
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
    DT__METHODS /* the number of methods */
};

/* The method of a DT_ROUND_...: a rounder, with accumulator bounds or without. */
typedef struct dt__method {
    const char *name;
    const dt__rounder *rounder;
    bool bounded;
} dt__method;

/* The method of a number; NULL for an unknown number. */
const dt__method *dt__method_of(int rounder);
/* The set of its DT__READS_... flags. */
unsigned dt__method_reads(const dt__method *method);
/* *o with the settings that `rounder` does not read set to their defaults. */
dt_rounding_options dt__settings_of(const dt_rounding_options *o, int rounder);
static inline bool dt__needs_data(const dt__method *method)
{
    return (method->rounder->reads & DT__READS_DATA) != 0;
}
/* Names of the methods that read any of these: "gptq and a2gptq". */
const char *dt__methods_that_read(unsigned reads, char text[DT__METHODS_TEXT]);

/* Checks settings, and that they suit the quantization spec. Errors: CONFIG, naming the setting and
 * its valid values. */
dt_status dt__rounding_check(dt_ctx *ctx, const dt_rounding_options *o, const dt_quant_spec *q);

#endif
