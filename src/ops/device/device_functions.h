/* Functions of one code, as tables of all codes (numerics §8): what device_table computes with and
 * an exporter writes. */
#ifndef DT__OPS_DEVICE_FUNCTIONS_H
#define DT__OPS_DEVICE_FUNCTIONS_H

#include "ops/device/device_layer.h"

#include <detent/experimental/device.h>

typedef struct dt__device_table {
    int8_t code[256];     /* of codes -128 ... 127 */
    int8_t residual[256]; /* as of dt__requantizing */
} dt__device_table;

extern const char *const dt__device_function_names[]; /* by DT_TABLE_... */

/* The range that results of a function always have in LiteRT; scale 0: they have any. */
dt__coding_range dt__device_table_range(int function);
/* The least scale of results with which the kernels' numbers fit. */
double dt__device_table_scale(int function, float x);
/* The codes of a function's results, as LiteRT's reference kernels compute them. */
void dt__device_table_make(const dt_device_table_options *o, dt__coding_range x, dt__coding_range y,
                           dt__device_table *out);

#endif
