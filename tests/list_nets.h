/* Networks of lists of layers, as a recipe has them, for suites of exports. */
#ifndef LIST_NETS_H
#define LIST_NETS_H

#include <detent/experimental/io.h>
#include <detent/experimental/qat.h>

/* The model of a recipe's lines below `model:`. */
dt_module *list_net_create(dt_ctx *ctx, const char *model);
/* A batch for input i of the model, uniform in -scale ... scale. */
dt_tensor *list_net_input(const dt_module *m, int i, int64_t batch, double scale);
/* Prepares the model, runs a batch in training mode, which initializes ranges, and converts it; a
 * preset below 0 leaves floats. Returns the status of the first call that fails. */
dt_status list_net_quantize(dt_module *m, int preset, dt_tensor *const *x, int n_in, int n_out);

#endif
