/* Modules in double, for checking gradients. */
#ifndef MODULE_TO_H
#define MODULE_TO_H

#include <detent/experimental/nn.h>

/* Gives every parameter and buffer of f32 or f64 the other dtype, on the same handles; a tied one
 * once. They are plain tensors that no tape needs. NOMEM. */
dt_status module_to(dt_module *m, dt_dtype dtype);

#endif
