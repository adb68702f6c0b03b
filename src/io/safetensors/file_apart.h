/* Refuses outputs that would overwrite an input. */
#ifndef DT__IO_FILE_APART_H
#define DT__IO_FILE_APART_H

#include "core/core.h"

/* IO if `to` is the file `from` under any name, or a file of the model in the folder `from`, as the
 * output would overwrite the input. NULL: no file. */
dt_status dt__file_apart(dt_ctx *ctx, const char *to, const char *from);

#endif
