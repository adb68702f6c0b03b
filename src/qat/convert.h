/* Converting layer by layer, for whoever chooses codes with data. */
#ifndef DT__QAT_CONVERT_H
#define DT__QAT_CONVERT_H

#include "qat/derived_quant.h"

/* How the weight of a layer will be quantized that is prepared and not yet packed, by itself or as
 * its layer derives it; NULL where there is none. Lent. */
const dt__fq *dt__weight_to_convert(const dt_module *layer);

/* Packs the weight of one layer of m: `rows` are its codes, by its row map; NULL: those to nearest.
 * A folded norm goes into weight and bias, an adapter into the weight, and the ranges of inputs
 * that meet this weight stand for good. All other layers stay prepared; when none is left, m is
 * what dt_convert makes of it. All or nothing. Errors: STATE (nothing to convert, a tape needs the
 * weight, a range that has seen no batch), NUMERIC, NOMEM. */
dt_status dt__convert_layer(dt_module *m, dt_module *layer, const dt_code_rows *rows);

/* Copies the range of a weight that stands, if one does, for each of its blocks; zero_point may be
 * NULL. */
void dt__give_range(const dt__fq *fq, int64_t blocks, float *scale, int8_t *zero_point);

/* STATE, naming the module, where the range of an input in m has seen no batch. */
dt_status dt__check_ranges(dt_module *m);

#endif
