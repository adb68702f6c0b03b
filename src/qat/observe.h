/* Observing: computes a static range from the inputs of a module. */
#ifndef DT__QAT_OBSERVE_H
#define DT__QAT_OBSERVE_H

#include "autograd/tape.h"
#include "qat/quantizer.h"

/* Updates the state of an observer with x, then scale and zero point from the state, by an op of
 * the tape that is not recorded. Errors are on the tape: NUMERIC (a value that is not finite, or
 * too large for a finite scale), DTYPE, STATE (a frozen model). */
dt_status dt__observe(dt_tape *t, dt_tensor *x, const dt__quantizer *q);

/* The quantile `share`, 0...1, of n values or of their magnitudes, by linear interpolation between
 * the two nearest in order: rank share * (n - 1), counted from 0. n is at least 1. */
float dt__quantile(const float *x, int64_t n, double share, bool magnitudes);

/* The range of observer percentile, from the n values that it keeps. */
void dt__percentile_range(const dt_quant_spec *q, const float *values, int64_t n, float *lo,
                          float *hi);

#endif
