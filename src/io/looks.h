/* Recognizes files of a wrong kind, for messages. */
#ifndef DT__IO_LOOKS_H
#define DT__IO_LOOKS_H

#include "core/core.h"

/* "a GGUF file", from the first n bytes, for "it looks like ..."; NULL: unknown. */
const char *dt__looks_like(const void *begin, size_t n);

#endif
