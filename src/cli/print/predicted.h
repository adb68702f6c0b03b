/* Prints the predictions of `detent predict` as a table or JSON; writes images. */
#ifndef PREDICTED_H
#define PREDICTED_H

#include "cli/cli.h"
#include "cli/print/text.h"

#include <stdio.h>

enum { PREDICTED_TOP = 16 }; /* most classes or tokens of a prediction */

typedef struct predicted {
    const dt_model_data *data;
    bool json;
    int top;            /* classes of a prediction */
    const char *output; /* for images: a .png file, or a folder; for tables: see csv; NULL: none */
    bool csv;           /* rows of predictions are written to `output`, - is standard output */
    bool probabilities; /* in such rows: those of all classes */
    /* Set by these functions: */
    const struct predicted_kind *kind;
    cli_table table;
    char form[PREDICTED_TOP];
    const char *path; /* the current input file, lent */
    int64_t count;    /* its number of examples */
    int64_t n;        /* predictions so far */
    int64_t crossed;  /* those of them with a quantile above the next one */
    /* the current file's data; texts of its kept columns are printed in front of predictions */
    const dt_dataset *data_at_hand;
    FILE *to;               /* the csv file */
    char **kept;            /* names of the columns that the first file keeps, [n_kept] */
    int64_t n_kept, *place; /* and their places in the current file */
    bool assumed;           /* how pixels are given was printed */
} predicted;

/* A prediction: row i of a batch. */
typedef struct predicted_example {
    const dt_tensor *x, *y; /* [batch, ...] */
    int64_t i;
    int64_t number; /* number of the example in its file */
} predicted_example;

/* Begins the output for the targets of p->data. Errors: FORMAT (unknown targets), CONFIG (p->output
 * is given, and predictions are no images), IO. */
dt_status predicted_begin(dt_ctx *ctx, predicted *p);
/* Begins a file with `count` examples. Errors: CONFIG (p->output is one file for several
 * images). */
dt_status predicted_file(dt_ctx *ctx, predicted *p, const char *path, int64_t count);
/* Prints a prediction. Errors: SHAPE (outputs that do not fit the target), those of writing an
 * image. */
dt_status predicted_add(dt_ctx *ctx, predicted *p, const predicted_example *e);
/* Ends the output; `good`: there was no error. Errors: IO. */
dt_status predicted_end(dt_ctx *ctx, predicted *p, bool good);

/* Predictions as rows of CSV (predicted_csv.c), called by the functions above. */
dt_status predicted_csv_begin(dt_ctx *ctx, predicted *p);
dt_status predicted_csv_add(dt_ctx *ctx, predicted *p, const predicted_example *e);
/* Without `good` removes the file. Errors: IO. */
dt_status predicted_csv_end(dt_ctx *ctx, predicted *p, bool good);

/* The outputs for one example of a batch, *n values; NULL after an error. */
const float *predicted_row(const dt_tensor *x, int64_t i, int64_t *n);
/* The name of a class or number in `text`; its index if it has no name. */
const char *predicted_name(const predicted *p, int64_t i, char text[24]);
/* The probability of class `at`: softmax of the outputs, unless these are probabilities; for bits
 * that of a bit; for anomaly the mean of (y - x)^2. */
double predicted_probability(const predicted *p, const float *v, int64_t n, int64_t at);
double predicted_logistic(float v);
double predicted_error(const float *x, const float *y, int64_t n);

/* The indices of the k largest of n numbers; of equal ones the first comes first. Returns how
 * many. */
int predicted_largest(const float *v, int64_t n, int k, int64_t place[PREDICTED_TOP]);
/* The indices of the most likely classes; of two classes first the one that the model's threshold
 * decides. */
int predicted_classes(const predicted *p, const float *v, int64_t n, int k,
                      int64_t place[PREDICTED_TOP]);
/* exp(v[at]) / sum of exp(v), in double. */
double predicted_share(const float *v, int64_t n, int64_t at);

#endif
