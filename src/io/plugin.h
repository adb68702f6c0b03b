/* Metadata of model files about plugins. */
#ifndef DT__IO_PLUGIN_H
#define DT__IO_PLUGIN_H

#include <detent/experimental/io.h>

#define DT__KEY_PLUGINS "detent.plugins"

/* Writes the plugins of the context, if it has any. NOMEM. */
dt_status dt__plugins_put(dt_writer *w, dt_ctx *ctx);
/* FORMAT: a plugin in the file's metadata is not loaded, or has another hash. NOMEM. */
dt_status dt__plugins_check(const dt_file *file);

#endif
