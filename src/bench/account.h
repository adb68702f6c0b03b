/* Where the time of a training step goes.
 *
 * The calling thread's time is divided among parts, each counted alone: what a part calls is not in
 * it. Parts are the kernels that `account.c` lists (products by kind, quantizing, expanding), what
 * else an op computes, by the op's name, and the rest of each phase: dispatch, tape, modules,
 * memory. What helpers do at the same time is not counted. */
#ifndef DT__BENCH_ACCOUNT_H
#define DT__BENCH_ACCOUNT_H

#include "bench/measure.h"

typedef struct dt__account dt__account;

/* Accounts for the steps of a tape and its context, whose kernels it replaces by such that are
 * timed. There can be one at a time. Both must live until it is freed; memory is b's. */
dt_status dt__account_create(dt__bench *b, dt_ctx *ctx, dt_tape *t, dt__account **out);
void dt__account_free(dt__bench *b, dt__account *a);

/* Begins a phase of a step, the first phase the step itself; NULL ends the step. `a` may be NULL:
 * nothing. */
void dt__account_phase(dt__account *a, const char *phase);

/* Takes steps of two subjects in turn, the `run` of step[0] and of step[1], whose subject keeps the
 * account `a`. Hands on a row for each part, "PREFIX/PHASE/PART", largest first, and one for their
 * sum. Parts are means of the steps whose time lay between the quartiles; ratios are to step[0],
 * and to the sum. */
dt_status dt__account_measure(dt__bench *b, dt__account *a, const char *prefix,
                              const dt__trial step[2]);

#endif
