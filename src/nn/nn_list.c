/* List: children under numbers, without a forward of their own; the module above runs them. */
#include "nn/module.h"

const dt_module_type dt__nn_list = { .name = "list" };
