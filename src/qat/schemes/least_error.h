/* The range whose dequantized values have the least error. */
#ifndef DT__QAT_LEAST_ERROR_H
#define DT__QAT_LEAST_ERROR_H

#include "qat/quantizer.h"

/* Shrinks lo <= 0 <= hi, the range of n values, as observer `mse` of numerics §1 does. Returns by
 * how many hundredths: 0...19, of schemes with levels 0...99. */
int dt__least_error(const dt_quant_spec *q, int64_t n, const float *x, float *lo, float *hi);

/* The range of each block of a weight, whose rows are where `map` says. Errors: NUMERIC (a
 * value or a scale that is not finite), NOMEM, STATE (a frozen model). */
dt_status dt__least_error_observe(const dt_tensor *x, const dt__row_map *map,
                                  const dt__quantizer *range);

#endif
