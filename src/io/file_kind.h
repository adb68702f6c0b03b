/* Recognizes files of a wrong kind, for messages. */
#ifndef DT__IO_FILE_KIND_H
#define DT__IO_FILE_KIND_H

#include "core/core.h"

/* "a GGUF file", from the first n bytes, for "it looks like ..."; NULL: unknown. */
const char *dt__file_kind_of(const void *begin, size_t n);

#endif
