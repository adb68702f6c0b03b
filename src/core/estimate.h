/* Estimates how long work still takes. Work has several kinds. Each has an amount that is planned,
 * an amount that is done, and the seconds that it took. Amounts are known before the work, from
 * shapes and sizes; the rate of a kind is measured as soon as some of it was done. Before that it
 * is derived, by the kinds' weights, from the rate of the most similar kind, or of all kinds that
 * were timed:
 *
 *     left  = sum over kinds of max(planned - done + expected, 0) * rate
 *     rate  = seconds / timed,  or weight * guess
 *     guess = rate / weight of the similar kind,  or sum of seconds / sum of timed * weight
 *
 * The first piece of a kind also allocates memory and makes plans that later pieces reuse. If it is
 * a small part of what is planned it is not timed; else it is excluded from the rate as soon as
 * another piece of at least a quarter of its amount is done.
 *
 * The time between two reports belongs to the work of the second report, unless dt__ledger_pass is
 * called in between. The caller reads the clock.
 *
 * A large piece of work, such as one matrix of a network, is reported when it is done. Its loops
 * report parts of it before (dt__ledger_part); these are subtracted at the end. */
#ifndef DT__CORE_ESTIMATE_H
#define DT__CORE_ESTIMATE_H

#include <stdbool.h>

/* Kinds of work: a name; about how much longer a unit takes than a multiply-add of floats in fast
 * kernels; and the most similar kind, which must precede it (its own name: none). */
#define DT__WORKS_LIST(X)                                                                          \
    X(TRAIN_FLOAT, 3, TRAIN_FLOAT) /* multiply-adds of a forward pass */                           \
    X(TRAIN_QAT, 3, TRAIN_FLOAT)                                                                   \
    X(EVAL_FLOAT, 1, EVAL_FLOAT)                                                                   \
    X(EVAL_QAT, 1, EVAL_FLOAT)                                                                     \
    X(EVAL_CONVERTED, 1, EVAL_QAT)                                                                 \
    X(FORWARD, 1, EVAL_CONVERTED)    /* calibration passes: multiply-adds */                       \
    X(SUMS, 3, SUMS)                 /* sums of calibration data: multiply-adds in double */       \
    X(FACTOR, 2, SUMS)               /* factors of these sums: about columns^3 */                  \
    X(ROUND, 5, SUMS)                /* choosing codes: multiply-adds in double */                 \
    X(INTERPRET, 20, INTERPRET)      /* a graph by plain loops: multiply-adds, elements */         \
    X(INTERPRET_LITE, 70, INTERPRET) /* a TFLite graph, code by code */                            \
    X(READ, 40, READ)                /* bytes of a file that are read into memory */               \
    X(NODES, 900, READ)              /* numbers of constants that nodes of a graph read */         \
    X(COPY, 10, READ)                /* bytes of weights that a model takes from there */          \
    X(CONVERT, 300, CONVERT)         /* elements of weights brought into another form */           \
    X(PRINT, 5000, PRINT)            /* numbers written as text */                                 \
    X(HASH, 5, HASH)                 /* bytes */                                                   \
    X(WRITE, 50, WRITE)              /* bytes */

typedef enum dt__work_of {
#define DT__WORK_NAME(name, weight, like) DT__##name,
    DT__WORKS_LIST(DT__WORK_NAME)
#undef DT__WORK_NAME
        DT__WORKS
} dt__work_of;

typedef struct dt__work_kind {
    double planned, done;
    double expected;       /* an amount that will be planned later */
    double timed, seconds; /* amounts whose time is known, and that time */
    bool warm;             /* its first piece is no longer part of `timed` and `seconds` */
    double part, counted;  /* of the current piece: done, and already counted above */
} dt__work_kind;

typedef struct dt__ledger {
    dt__work_kind kind[DT__WORKS];
    double mark; /* time up to which everything is counted */
    bool trying; /* the current work was not planned; it is only timed */
} dt__ledger;

static inline void dt__ledger_begin(dt__ledger *e, double now) { *e = (dt__ledger){ .mark = now }; }

static inline void dt__ledger_pass(dt__ledger *e, double now) { e->mark = now; }

/* Adds to the planned amount; reduces the expected amount accordingly. */
static inline void dt__ledger_plan(dt__ledger *e, dt__work_of which, double amount)
{
    dt__work_kind *k = &e->kind[which];
    if (e->trying || !(amount > 0)) return;
    k->planned += amount;
    k->expected = k->expected > amount ? k->expected - amount : 0;
}

/* Cancels the rest of a kind. */
static inline void dt__ledger_cut(dt__ledger *e, dt__work_of which)
{
    dt__work_kind *k = &e->kind[which];
    if (e->trying) return;
    k->planned = k->done;
    k->expected = 0;
}

#define DT__LEDGER_SMALL 50 /* a first piece is small below one part in 50 of what is planned */

static inline void dt__ledger_count(dt__ledger *e, dt__work_of which, double amount, double now)
{
    dt__work_kind *k = &e->kind[which];
    const bool first = !k->warm && k->timed == 0 && !e->trying;
    const bool small = first && amount * DT__LEDGER_SMALL < k->planned;
    const bool second = !k->warm && k->timed > 0 && amount * 4 >= k->timed;
    if (second) k->timed = k->seconds = 0;
    k->warm = k->warm || small || second;
    k->timed += small ? 0 : amount;
    k->seconds += small ? 0 : now - e->mark;
    if (!e->trying) k->done += amount;
    e->mark = now;
}

/* The amount of a piece that ends, without its parts that were counted before. */
static inline double dt__ledger_end_piece(dt__work_kind *k, double amount)
{
    const double rest = amount - k->counted;
    k->part = k->counted = 0;
    return rest;
}

static inline void dt__ledger_did(dt__ledger *e, dt__work_of which, double amount, double now)
{
    dt__ledger_count(e, which, dt__ledger_end_piece(&e->kind[which], amount), now);
}

#define DT__LEDGER_PART 1e7 /* multiply-adds: some milliseconds */
#define DT__WORK_WEIGHT(name, weight, like) weight,
/* Reports a part of the current piece. Returns whether enough has accumulated to read the clock and
 * count it. */
static inline bool dt__ledger_part(dt__ledger *e, dt__work_of which, double amount)
{
    static const double weights[] = { DT__WORKS_LIST(DT__WORK_WEIGHT) };
    dt__work_kind *k = &e->kind[which];
    k->part += amount;
    return (k->part - k->counted) * weights[which] >= DT__LEDGER_PART;
}

/* Counts the parts reported so far. */
static inline void dt__ledger_did_part(dt__ledger *e, dt__work_of which, double now)
{
    dt__work_kind *k = &e->kind[which];
    dt__ledger_count(e, which, k->part - k->counted, now);
    k->counted = k->part;
}

/* All planned work, by weights converted to multiply-adds. */
static inline double dt__ledger_units(const dt__ledger *e)
{
    static const double weights[] = { DT__WORKS_LIST(DT__WORK_WEIGHT) };
    double units = 0;
    for (int i = 0; i < DT__WORKS; i++) units += e->kind[i].planned * weights[i];
    return units;
}
#undef DT__WORK_WEIGHT

/* The seconds left as of the latest mark; negative before anything was timed. */
static inline double dt__ledger_left(const dt__ledger *e)
{
#define DT__WORK_ROW(name, weight, like) { weight, DT__##like },
    static const struct {
        double weight;
        dt__work_of like;
    } of[] = { DT__WORKS_LIST(DT__WORK_ROW) };
#undef DT__WORK_ROW
    double guess[DT__WORKS], seconds = 0, units = 0, left = 0;
    for (int i = 0; i < DT__WORKS; i++) {
        seconds += e->kind[i].seconds;
        units += e->kind[i].timed * of[i].weight;
    }
    for (int i = 0; i < DT__WORKS && units > 0; i++) {
        const dt__work_kind *k = &e->kind[i];
        const double rest = k->planned - k->done + k->expected;
        guess[i] = k->timed > 0          ? k->seconds / k->timed / of[i].weight
                   : (int)of[i].like < i ? guess[of[i].like]
                                         : seconds / units;
        if (rest > 0) left += rest * of[i].weight * guess[i];
    }
    return units > 0 ? left : -1;
}

/* Whether some of the remaining work is of a kind that was not timed yet. */
static inline bool dt__ledger_guesses(const dt__ledger *e)
{
    for (int i = 0; i < DT__WORKS; i++) {
        const dt__work_kind *k = &e->kind[i];
        if (k->timed == 0 && k->planned - k->done + k->expected > 0) return true;
    }
    return false;
}

#endif
