/* Labels and the classes that they name. The labels of the training data decide:
 *
 *     0, 1, ... n-1, all present                   are the numbers of n classes
 *     integers below the outputs of the model      likewise; some classes may have no example
 *     other numbers (1, 2, 3; 10001, 94110)        name classes, in the order of the numbers
 *     words                                        name classes, in the order of their bytes
 *
 * Labels are numbers if all of them are. Then equal numbers are one class, however they are
 * written: 1, 01, +1, 1.0, 1e0. Its name is the number, or what is written where that is always
 * the same.
 * Other parts of the data, and a model that is evaluated, have the classes that there are then.
 *
 * Of anomalies some labels are normal, class 0, and all others anomalous, class 1. */
#ifndef DT__DATA_LABELS_H
#define DT__DATA_LABELS_H

#include "core/core.h"

#include <detent/experimental/data.h>

#define DT__MOST_WORDS 65536

/* A set of words; each has an index, in the order of first occurrence. */
typedef struct dt__words {
    char **word;
    int64_t n, room;
    int64_t *slot; /* a hash table of index + 1; 0: free */
    int64_t slots; /* a power of 2 */
} dt__words;

/* The index of a word; -1: none. */
int64_t dt__words_find(const dt__words *w, const char *word, size_t bytes);
/* The index of a word, which is added if it is new. -1: NOMEM. */
int64_t dt__words_add(dt_ctx *ctx, dt__words *w, const char *word, size_t bytes);
typedef int dt__word_order(const void *a, const void *b); /* of two char *, as for qsort */
/* Sorts the words, by bytes if `order` is NULL; to[i] receives the new index of word i, [n].
 * NOMEM. */
dt_status dt__words_sort(dt_ctx *ctx, dt__words *w, dt__word_order *order, int64_t *to);
void dt__words_free(dt_ctx *ctx, dt__words *w);

typedef struct dt__labels {
    dt__words words;
    /* if all names are numbers, their values in the same order; empty: a name is a word */
    dt__words values;
    dt_class_names known;     /* class names of the model; lent */
    const dt_strings *normal; /* anomaly detection: data.normal; lent; NULL: classification */
    int64_t normals;          /* anomaly detection: words from this index on are anomalous */
    bool is_closed;           /* no classes can be added */
    bool is_numbers;          /* labels are class indices, 0 to classes - 1 */
    int64_t classes;          /* once closed */
} dt__labels;

/* Closes the labels if the model's class names, or those of normal examples, are known. NOMEM. */
dt_status dt__labels_begin(dt_ctx *ctx, dt__labels *l);
/* Looks up a label. Before closing: the index of its word, which is added if it is new; after
 * closing: its class. */
typedef enum dt__label_fault {
    DT__LABEL_GOOD,
    DT__LABEL_UNKNOWN, /* not a class: dt__labels_unknown lists the classes */
    DT__LABEL_EXCESS,  /* more than DT__MOST_WORDS different words */
    DT__LABEL_NOMEM
} dt__label_fault;
dt__label_fault dt__labels_add(dt_ctx *ctx, dt__labels *l, const char *text, size_t bytes,
                               int32_t *out);
const char *dt__labels_unknown(const dt__labels *l);
/* Closes labels after the training data; to[i] receives the class of word i, [n]. Does nothing if
 * they are closed. FORMAT: NaN among numbers; NOMEM. */
dt_status dt__labels_close(dt_ctx *ctx, dt__labels *l, int64_t *to);
/* Closes labels that are the integers 0 to `most`, if `all` occur or the model has such classes.
 * False: the labels are names. */
bool dt__labels_are_numbers(const dt__labels *l, int64_t most, bool all);
/* The names of the classes; NULL: they are numbered. */
const char *const *dt__labels_names(const dt__labels *l);
void dt__labels_free(dt_ctx *ctx, dt__labels *l);

#endif
