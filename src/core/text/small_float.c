/* Floats of at most 8 bits (small_float.h). */
#include "core/text/small_float.h"

const dt__small_float dt__e2m1 = { 4, 1, 1, 6, 7 };
const dt__small_float dt__e2m3 = { 6, 3, 1, 7.5f, 7.75f };
const dt__small_float dt__e3m2 = { 8, 2, 3, 28, 30 };
const dt__small_float dt__e4m3 = { 8, 3, 7, 448, 464 };
const dt__small_float dt__e5m2 = { 8, 2, 15, 57344, 61440 };
