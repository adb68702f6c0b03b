/* The range whose images err least. */
#ifndef DT__QAT_LEAST_ERROR_H
#define DT__QAT_LEAST_ERROR_H

#include <detent/qat.h>

/* Shrinks lo <= 0 <= hi, the range of n values, by the rule `mse` of numerics §1. The number of
 * hundredths by which, 0...19. */
int dt__least_error(const dt_quant *q, int64_t n, const float *x, float *lo, float *hi);

#endif
