/* y = a * b of coded tensors, which broadcast: numerics §8, device_zip.c. */
#include "ops/device/device_zip.h"

DT__DEVICE_ZIP_OP(device_mul, "a * b of int8 codes, requantized", DT__LIST(2, -2),
                  .saves = { .arg = { DT_VALUE, DT_VALUE }, .y = DT_VALUE },
                  .saves_coded = { .arg = { DT_SAVE_CODES, DT_SAVE_CODES },
                                   .out = { DT_NOTHING, DT_VALUE } })
DT__CASES(device_mul, cases)
