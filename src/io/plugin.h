/* What model files say of plugins. */
#ifndef DT__IO_PLUGIN_H
#define DT__IO_PLUGIN_H

#include <detent/experimental/io.h>

#define DT__KEY_PLUGINS "detent.plugins"

/* Writes the plugins of the context; nothing where it has none. NOMEM. */
dt_status dt__plugins_put(dt_writer *w, dt_ctx *ctx);
/* FORMAT: a plugin that the file names is not loaded, or is another file. NOMEM. */
dt_status dt__plugins_check(const dt_file *file);

#endif
