/* The files of golden/rounding: one layer each, with many cases. The README there describes
 * them. */
#ifndef ROUNDING_GOLDEN_H
#define ROUNDING_GOLDEN_H

#include "testing.h"

#include <detent/experimental/io.h>
#include <detent/experimental/ptq.h>

#include "ptq/statistics.h"

typedef struct rounding_layer {
    dt_ctx *ctx;
    dt_file *file;
    const char *name;
    dt_weight_op op;
    dt_tensor *w, *x, *xq;            /* x, xq: NULL where the file has none */
    int64_t n, rows, columns, groups; /* rows of all groups */
    double *h, *g, *c;                /* [groups] of moments as dt__moments has them; or NULL */
} rounding_layer;

typedef struct rounding_case {
    const rounding_layer *layer;
    char name[8];     /* "c000" */
    const char *text; /* its settings, "key=value" separated by blanks */
    dt_quant_spec quant;
    dt_rounding_options options;
    int64_t scales;       /* of a row */
    int8_t *codes, *zero; /* [rows][columns], [rows][scales]; zero: NULL where it has none */
    float *scale, *theta; /* theta: NULL likewise, and so are the rest */
    uint8_t *near;
    int32_t *perm, *g_idx;
    double *h; /* in place of the layer's, with n = 2 */
} rounding_case;

/* Opens "rounding/<name>.safetensors"; returns false where it is not found, and prints a line, or
 * has no layer. */
bool rounding_open(dt_ctx *ctx, const char *name, rounding_layer *l);
void rounding_close(rounding_layer *l);

/* The i-th case; false behind the last one. keep_better is off. */
bool rounding_case_at(const rounding_layer *l, int i, rounding_case *c);
void rounding_case_free(rounding_case *c);

/* A number of the case's settings; of one per group the largest. NaN: the case has none. */
double rounding_number(const rounding_case *c, const char *key);
bool rounding_is(const rounding_case *c, const char *key, const char *value);

/* Copies of the sums, since dt_round overwrites its statistics. `differ`: with G and C. */
void rounding_statistics(const rounding_case *c, bool differ, dt_statistics *s);
void rounding_statistics_free(dt_statistics *s);

/* Rounds the layer's weight by the settings of the case. */
dt_status rounding_run(const rounding_case *c, dt_rounded **out, dt_round_report *report);

/* How codes differ from the file's. Rows are walked in processing order to the first difference:
 * within 2^-near of a boundary it is a tie, else wrong. Scales, zero points and g_idx must be
 * equal. */
typedef struct rounding_tally {
    int64_t rows, ties, wrong;
} rounding_tally;
void rounding_compare(const rounding_case *c, const dt_rounded *got, int near,
                      rounding_tally *tally);

#endif
