/* What a file of the wrong kind looks like. */
#ifndef DT__IO_LOOKS_H
#define DT__IO_LOOKS_H

#include "core/core.h"

/* "a GGUF file", by the first n bytes, for "it looks like ..."; NULL: like nothing that is
 * known. */
const char *dt__looks_like(const void *begin, size_t n);

#endif
