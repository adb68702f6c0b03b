/* Measures of how scores rank examples: average precision, area under the ROC curve. */
#ifndef DT__TRAIN_RANKING_H
#define DT__TRAIN_RANKING_H

#include <stdbool.h>
#include <stdint.h>

/* A score of one label of an example, and whether the example has that label. */
typedef struct dt__scored {
    double score; /* NaN counts as the lowest */
    int32_t column;
    bool positive;
} dt__scored;

/* Sorts by column, then by falling score. */
void dt__rank(dt__scored *s, int64_t n);

/* Of the n scores of one column, sorted. Equal scores are one step of the curve.
 *     average precision = sum over steps of (R_k - R_{k-1}) P_k, NaN without a positive
 *     area = (pairs of a positive above a negative + half of the equal pairs) / all pairs, NaN
 *            without a positive or without a negative */
double dt__average_precision(const dt__scored *s, int64_t n);
double dt__area_under_roc(const dt__scored *s, int64_t n);

#endif
