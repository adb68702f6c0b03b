/* Labels and the classes that they name. The labels of the training data decide:
 *
 *     0, 1, ... n-1, all of them there             are the numbers of n classes
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

/* Words, each with a number in the order of their first occurrence. */
typedef struct dt__words {
    char **word;
    int64_t n, room;
    int64_t *slot; /* a hash table of numbers + 1; 0: free */
    int64_t slots; /* a power of 2 */
} dt__words;

/* The number of a word; -1: there is none. */
int64_t dt__words_find(const dt__words *w, const char *word, size_t bytes);
/* The same; a new word is added. -1: NOMEM. */
int64_t dt__words_add(dt_ctx *ctx, dt__words *w, const char *word, size_t bytes);
typedef int dt__word_order(const void *a, const void *b); /* of two char *, as for qsort */
/* Sorts the words, by bytes if `order` is NULL; to[i] becomes the new number of word i, [n].
 * NOMEM. */
dt_status dt__words_sort(dt_ctx *ctx, dt__words *w, dt__word_order *order, int64_t *to);
void dt__words_free(dt_ctx *ctx, dt__words *w);

typedef struct dt__labels {
    dt__words words;
    dt__words values;     /* of names that are numbers, in their order; none: a name is a word */
    dt_class_names known; /* what is known of the model; lent */
    const dt_strings *normal; /* anomalies: what data.normal says; lent; NULL: classes are named */
    int64_t normals;          /* anomalies: words from here on are anomalous */
    bool is_closed;           /* other labels are errors */
    bool is_numbers;          /* labels are the numbers of classes, 0 to classes - 1 */
    int64_t classes;          /* once closed */
} dt__labels;

/* Closes the labels with the names of the model, if they are known, or those of anomalies.
 * NOMEM. */
dt_status dt__labels_begin(dt_ctx *ctx, dt__labels *l);
/* The number of a label. Before labels are closed it is that of a word, which may be added; after
 * that it is its class. */
typedef enum dt__label_fault {
    DT__LABEL_GOOD,
    DT__LABEL_UNKNOWN, /* is not a class: dt__labels_unknown says which there are */
    DT__LABEL_EXCESS,  /* is one word more than DT__MOST_WORDS */
    DT__LABEL_NOMEM
} dt__label_fault;
dt__label_fault dt__labels_add(dt_ctx *ctx, dt__labels *l, const char *text, size_t bytes,
                               int32_t *out);
const char *dt__labels_unknown(const dt__labels *l);
/* After the training data: decides what the words are; to[i] becomes the class of word i, [n].
 * Nothing happens to labels that are closed. FORMAT: NaN among numbers; NOMEM. */
dt_status dt__labels_close(dt_ctx *ctx, dt__labels *l, int64_t *to);
/* Labels that are numbers 0 to most of classes; `all` occur. False: they name classes. */
bool dt__labels_are_numbers(const dt__labels *l, int64_t most, bool all);
/* The names of the classes; NULL: they are numbers. */
const char *const *dt__labels_names(const dt__labels *l);
void dt__labels_free(dt_ctx *ctx, dt__labels *l);

#endif
