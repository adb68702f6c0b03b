/* Where the time of a training step goes.
 *
 * The calling thread's time is divided among parts. A part's time excludes that of the parts that
 * it calls. Parts are the kernels that `account.c` lists (products by kind, quantizing, expanding),
 * everything else that an op computes, by the op's name; and the rest of each phase: dispatch,
 * tape, modules, memory. The time of helper threads is not counted. */
#ifndef DT__BENCH_ACCOUNT_H
#define DT__BENCH_ACCOUNT_H

#include "bench/measure.h"

typedef struct dt__account dt__account;

/* Measures the steps of a tape and its context, whose kernels are replaced by timed ones. Only one
 * account can exist at a time. The tape and the context must live until it is freed; memory comes
 * from b. */
dt_status dt__account_create(dt__bench *b, dt_ctx *ctx, dt_tape *t, dt__account **out);
void dt__account_free(dt__bench *b, dt__account *a);

/* Begins a phase of a step; the first phase begins the step, NULL ends it. `a` may be NULL, which
 * does nothing. */
void dt__account_phase(dt__account *a, const char *phase);

/* Runs the steps of two subjects in turn, those of step[0] and of step[1], whose subject has the
 * account `a`. Passes on a row per part, "PREFIX/PHASE/PART", largest first, and a row for their
 * sum. A part's time is the mean over the steps whose time lies between the quartiles; ratios are
 * to step[0], and to the sum. */
dt_status dt__account_measure(dt__bench *b, dt__account *a, const char *prefix,
                              const dt__trial step[2]);

#endif
