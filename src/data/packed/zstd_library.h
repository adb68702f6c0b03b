/* libzstd, loaded when a compressed file first needs it. */
#ifndef DT__DATA_PACKED_ZSTD_LIBRARY_H
#define DT__DATA_PACKED_ZSTD_LIBRARY_H

#include "core/core.h"

#include <zstd.h>

#define DT__ZSTD_FUNCTIONS(F)                                                                      \
    F(createDStream) F(freeDStream) F(decompressStream) F(isError) F(getErrorName)

/* Its functions, by their names without "ZSTD_". */
typedef struct dt__zstd_library {
#define DT__ZSTD_FUNCTION(name) __typeof__(ZSTD_##name) *name;
    DT__ZSTD_FUNCTIONS(DT__ZSTD_FUNCTION)
#undef DT__ZSTD_FUNCTION
} dt__zstd_library;

extern dt__zstd_library dt__zstd; /* after dt__zstd_load */

/* NULL, or why the library cannot be loaded. */
const char *dt__zstd_load(void);

#endif
