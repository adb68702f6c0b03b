/* The valid range of random inputs for a network. */
#ifndef DT__NN_EMBEDDING_H
#define DT__NN_EMBEDDING_H

#include <detent/experimental/nn.h>

/* The smallest number of rows of any embedding in m: integers below it are valid for all of them;
 * 0: m has no embedding. */
int64_t dt__embedding_rows(const dt_module *m);

#endif
