/* The keys of dt_rounding_options, for tables of options that hold them among others. */
#ifndef DT__PTQ_KEYS_H
#define DT__PTQ_KEYS_H

#include <detent/experimental/ptq.h>

extern const char *const dt__rounder_names[];
extern const dt_key dt__rounding_keys[], dt__accumulator_keys[];

/* `at`: offset of the dt_rounding_options in the struct that the table describes. */
#define DT__ROUNDING_OPTIONS_KEYS(at)                                                              \
    { "rounder",                                                                                   \
      DT_KEY_CHOICE,                                                                               \
      .offset = (at) + offsetof(dt_rounding_options, rounder),                                     \
      .choices = dt__rounder_names,                                                                \
      .fallback = "nearest",                                                                       \
      .text = "how codes are chosen (docs/rounding.md); all but nearest require "                  \
              "calibration data" },                                                                \
        { "rounding", DT_KEY_MAP, .offset = (at) + offsetof(dt_rounding_options, rounding),        \
          .keys = dt__rounding_keys, .text = "settings of the rounder" },                          \
    {                                                                                              \
        "accumulator", DT_KEY_MAP, .offset = (at) + offsetof(dt_rounding_options, accumulator),    \
                                   .keys = dt__accumulator_keys,                                   \
                                   .text = "accumulators of the device; read by the a2 rounders"   \
    }

#endif
