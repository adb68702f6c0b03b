/* How long work still takes: several kinds of it, of each an amount that is planned and how much of
 * that is done in how many seconds. A kind that was not timed yet takes as long as its weight says
 * beside those that were:
 *
 *     left = sum over kinds of (planned - done) * rate
 *     rate = (seconds + doubt * guess) / (timed + doubt)
 *     guess = weight * sum of seconds / sum of timed * weight */
#ifndef DT__CORE_ESTIMATE_H
#define DT__CORE_ESTIMATE_H

typedef struct dt__work_kind {
    double weight; /* of a unit, beside those of other kinds */
    double planned, done;
    double timed, seconds; /* amounts of which the time is known */
    double doubt;          /* an amount up to which the guess counts, too, where units are uneven */
} dt__work_kind;

/* `seconds` below 0: the time is not typical, and not counted. */
static inline void dt__work_did(dt__work_kind *k, double amount, double seconds)
{
    k->done += amount;
    if (seconds < 0) return;
    k->timed += amount;
    k->seconds += seconds;
}

/* 0 before anything was timed. */
static inline double dt__work_left(const dt__work_kind *kind, int n)
{
    double seconds = 0, units = 0, left = 0;
    for (int i = 0; i < n; i++) {
        seconds += kind[i].seconds;
        units += kind[i].timed * kind[i].weight;
    }
    for (int i = 0; i < n && units > 0; i++) {
        const dt__work_kind *k = &kind[i];
        const double guess = k->weight * seconds / units, known = k->timed + k->doubt;
        const double rate = known > 0 ? (k->seconds + k->doubt * guess) / known : guess;
        if (k->planned > k->done) left += (k->planned - k->done) * rate;
    }
    return left;
}

#endif
