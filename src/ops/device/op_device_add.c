/* y = a + b of coded tensors, which broadcast: numerics §8, device_zip.c. */
#include "ops/device/device_zip.h"

DT__DEVICE_ZIP_OP(device_add, "a + b of int8 codes, requantized", DT__LIST(3, 1),
                  .saves = { .y = DT_VALUE }, .saves_coded = { .out = { DT_NOTHING, DT_VALUE } })
DT__CASES(device_add, cases)
