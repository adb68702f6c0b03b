/* List: holds children named by number, as PyTorch's ModuleList. It has no forward; its parent runs
 * them. */
#include "nn/lists/layer_cases.h"
#include "nn/module.h"

const dt_module_type dt__nn_list = { .name = "list" };

DT__MAKE(make, dt_module_create(ctx, &dt__nn_list, 0, out))

static const dt__layer_case cases[] = {
    { "no forward", make, .in = { { { 3 } } }, .fails = DT_ERR_STATE,
      .says = "has no forward of its own" },
};
DT__LAYER_CASES(list, cases)
