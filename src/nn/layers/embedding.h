/* What drawn inputs of a network must be. */
#ifndef DT__NN_EMBEDDING_H
#define DT__NN_EMBEDDING_H

#include <detent/experimental/nn.h>

/* The least number of rows of an embedding of m, so that whole numbers below it are rows of each;
 * 0: it has none. */
int64_t dt__embedding_rows(const dt_module *m);

#endif
