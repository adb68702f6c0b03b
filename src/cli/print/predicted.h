/* What `detent predict` shows of a model's answers: a table or JSON; images are written. */
#ifndef PREDICTED_H
#define PREDICTED_H

#include "cli/cli.h"
#include "cli/print/text.h"

#include <stdio.h>

enum { PREDICTED_TOP = 16 }; /* most classes or tokens of an answer */

typedef struct predicted {
    const dt_model_data *data;
    bool json;
    int top;            /* classes of an answer */
    const char *output; /* of images: a .png file, or a folder; of tables: see csv; NULL: none */
    bool csv;           /* rows of answers are written to `output`, - for standard output */
    bool probabilities; /* of all classes, in such rows */
    /* Set by these functions: */
    const struct predicted_kind *kind;
    cli_table table;
    char form[PREDICTED_TOP];
    const char *path;               /* the input at hand, lent */
    int64_t count;                  /* its examples */
    int64_t n;                      /* answers so far */
    int64_t crossed;                /* of them, with a quantile above the next one */
    const dt_dataset *data_at_hand; /* the texts that it keeps stand in front of answers */
    FILE *to;                       /* of csv, */
    char **kept;                    /* names of the columns that its first file keeps, [n_kept], */
    int64_t n_kept, *place;         /* and where they are in the file at hand */
    bool assumed;                   /* it was said how pixels are given */
} predicted;

/* An answer: row i of a batch. */
typedef struct predicted_example {
    const dt_tensor *x, *y; /* [batch, ...] */
    int64_t i;
    int64_t number; /* of the example in its file */
} predicted_example;

/* Begins the output for the targets of p->data. Errors: FORMAT (targets that are not known), CONFIG
 * (p->output is given, and answers are no images), IO. */
dt_status predicted_begin(dt_ctx *ctx, predicted *p);
/* The following answers are about this file, of `count` examples. CONFIG where p->output is one
 * file and there are several images. */
dt_status predicted_file(dt_ctx *ctx, predicted *p, const char *path, int64_t count);
/* Errors: SHAPE (answers that do not fit the target), those of writing an image. */
dt_status predicted_add(dt_ctx *ctx, predicted *p, const predicted_example *e);
/* Prints what has come; `good`: all of it. Errors: IO. */
dt_status predicted_end(dt_ctx *ctx, predicted *p, bool good);

/* Answers as rows of CSV (predicted_csv.c): to be called by the functions above. */
dt_status predicted_csv_begin(dt_ctx *ctx, predicted *p);
dt_status predicted_csv_add(dt_ctx *ctx, predicted *p, const predicted_example *e);
/* Errors: IO. `good`: all answers came; otherwise no file is left. */
dt_status predicted_csv_end(dt_ctx *ctx, predicted *p, bool good);

/* The numbers of the example in a batch, and how many; NULL after an error. */
const float *predicted_row(const dt_tensor *x, int64_t i, int64_t *n);
/* The name of a class or number, else its number, in `text`. */
const char *predicted_name(const predicted *p, int64_t i, char text[24]);
/* The probability of class `at`: softmax of the outputs, if these are no probabilities already; of
 * a bit; the mean of (y - x)^2. */
double predicted_probability(const predicted *p, const float *v, int64_t n, int64_t at);
double predicted_logistic(float v);
double predicted_error(const float *x, const float *y, int64_t n);

/* The places of the k largest of n numbers, the first of equal ones first. Returns how many. */
int predicted_largest(const float *v, int64_t n, int k, int64_t place[PREDICTED_TOP]);
/* The places of the likeliest classes; of two the one that the model's threshold decides first. */
int predicted_classes(const predicted *p, const float *v, int64_t n, int k,
                      int64_t place[PREDICTED_TOP]);
/* exp(v[at]) / sum of exp(v), in double. */
double predicted_share(const float *v, int64_t n, int64_t at);

#endif
