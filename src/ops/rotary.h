/* The angles of rotary positions (op_rotary.c). */
#ifndef DT__OPS_ROTARY_H
#define DT__OPS_ROTARY_H

#include <detent/ops.h>

/* What position p turns pair `pair` of `pairs` by: p times this. */
double dt__rotary_frequency(const dt_rotary_options *o, int64_t pair, int64_t pairs);

#endif
