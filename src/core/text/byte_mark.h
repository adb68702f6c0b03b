/* Byte order marks [Unicode 15, 23.8], with which editors and spreadsheets begin files of text. */
#ifndef DT__CORE_BYTE_MARK_H
#define DT__CORE_BYTE_MARK_H

#include "core/core.h"

/* The number of bytes of UTF-8's mark at the beginning of a text: 3 or 0. */
size_t dt__utf8_mark(const void *text, size_t bytes);

/* "UTF-16" or "UTF-32" if the text begins with such a mark; else NULL. */
const char *dt__foreign_mark(const void *text, size_t bytes);

/* *skipped becomes the number of bytes of UTF-8's mark. FORMAT, naming the file, for a mark of
 * UTF-16 or UTF-32. */
dt_status dt__skip_mark(dt_ctx *ctx, const char *path, const void *text, size_t bytes,
                        size_t *skipped);

#endif
