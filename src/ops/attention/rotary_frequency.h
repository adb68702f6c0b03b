/* Rotary positions: the angle of a pair for each position. */
#ifndef DT__OPS_ROTARY_FREQUENCY_H
#define DT__OPS_ROTARY_FREQUENCY_H

#include <detent/experimental/ops.h>

/* The frequency of pair `pair` of `pairs`, with its scaling; its angle is position * frequency. */
double dt__rotary_frequency(const dt_rotary_options *o, int64_t pair, int64_t pairs);
/* The factor of cosines and sines. */
double dt__rotary_amplitude(const dt_rotary_options *o);

#endif
