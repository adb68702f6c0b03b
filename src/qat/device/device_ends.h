/* Learned ranges of integer networks: both ends are a parameter, from which scale and zero point
 * are computed (numerics §8). */
#ifndef DT__QAT_DEVICE_ENDS_H
#define DT__QAT_DEVICE_ENDS_H

#include "qat/quantizer.h"

/* Initializes ends that have seen no batch to the range of x. Errors: NUMERIC, STATE (frozen). */
dt_status dt__ends_observe(dt_tape *t, dt_tensor *x, const dt__quantizer *q);
/* Computes scale and zero point from the present ends; does nothing where the range is not learned.
 * Errors: NUMERIC (an end that is not finite). */
dt_status dt__ends_settle(const dt__quantizer *q);

#endif
