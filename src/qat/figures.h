/* Figures of one quantized tensor. */
#ifndef DT__QAT_FIGURES_H
#define DT__QAT_FIGURES_H

#include <detent/experimental/figures.h>

/* Measures a FakeQuantTensor that is enabled, or a packed weight, and sets *quant to its spec; for
 * any other tensor `out` and *quant do not change. Errors: NUMERIC, NOMEM. */
dt_status dt__figures_of(dt_tensor *x, dt_quant_spec *quant, dt_quant_figures *out);

#endif
