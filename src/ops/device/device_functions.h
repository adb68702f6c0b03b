/* Functions of one code, as tables over all codes (numerics §8): the op device_table and exporters
 * use them. */
#ifndef DT__OPS_DEVICE_FUNCTIONS_H
#define DT__OPS_DEVICE_FUNCTIONS_H

#include "ops/device/device_layer.h"

#include <detent/experimental/device.h>

typedef struct dt__device_table {
    int8_t code[256];     /* of codes -128 ... 127 */
    int8_t residual[256]; /* as in dt__requantizing */
} dt__device_table;

extern const char *const dt__device_function_names[]; /* indexed by DT_TABLE_... */

/* The fixed range that LiteRT gives the results of a function; scale 0: the range is free. */
dt__coding_range dt__device_table_range(int function);
/* The least scale of results with which the numbers in the kernels fit. */
double dt__device_table_scale(int function, float x);
/* The codes of a function's results, as LiteRT's reference kernels compute them. */
void dt__device_table_make(const dt_device_table_options *o, dt__coding_range x, dt__coding_range y,
                           dt__device_table *out);

#endif
