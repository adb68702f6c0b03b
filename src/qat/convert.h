/* Converting layer by layer, for rounders that use calibration data. */
#ifndef DT__QAT_CONVERT_H
#define DT__QAT_CONVERT_H

#include "qat/derived_quant.h"

/* Packs the weight of one layer of m. `rows` are its codes, in the order of its row map; NULL:
 * rounds to nearest. A folded norm is merged into weight and bias, an adapter into the weight, and
 * the input ranges of layers with this weight no longer change. All other layers stay prepared;
 * after the last one m is converted as by dt_convert. All or nothing. Errors: STATE (nothing to
 * convert, a tape needs the weight, a range that has seen no batch), NUMERIC, NOMEM. */
dt_status dt__convert_layer(dt_module *m, dt_module *layer, const dt_code_rows *rows);

/* Copies the scale and zero point of a weight's static or learned range to each of its blocks; a
 * dynamic range leaves the buffers alone. zero_point may be NULL. */
void dt__give_range(const dt__fq *fq, int64_t blocks, float *scale, int8_t *zero_point);

/* Fails with STATE, naming the module, if the range of an input in m has seen no batch. */
dt_status dt__check_ranges(dt_module *m);

#endif
