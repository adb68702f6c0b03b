/* Layer `affine`, as training uses it. */
#ifndef DT__NN_AFFINE_H
#define DT__NN_AFFINE_H

#include <detent/experimental/nn.h>

/* Whether its scale and bias are initialized from the training targets (dt_affine_options). */
bool dt__affine_of_targets(const dt_module *m);

#endif
