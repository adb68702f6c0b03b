/* Figures of one quantized tensor. */
#ifndef DT__QAT_FIGURES_H
#define DT__QAT_FIGURES_H

#include <detent/experimental/figures.h>

/* Measures a FakeQuantTensor that is enabled, or a packed weight; for any other tensor `out` stays
 * as it is. *quant, unless x is such a tensor, does not change either. Errors: NUMERIC, NOMEM. */
dt_status dt__figures_of(dt_tensor *x, dt_quant_spec *quant, dt_quant_figures *out);

#endif
