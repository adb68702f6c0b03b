/* The families of src/nn/family_<name>.c. */
#ifndef DT__NN_FAMILY_H
#define DT__NN_FAMILY_H

#include "core/core.h"

#include <detent/nn.h>

#define DT__FAMILY(name) extern const dt_family dt__family_##name;
#include "nn/families.inc"
#undef DT__FAMILY

#endif
