/* A plugin built with unknown headers. */
#include <detent/experimental/plugin.h>

static dt_status start(dt_ctx *ctx)
{
    (void)ctx;
    return DT_OK;
}

extern const dt_plugin dt_this_plugin;
DT_PLUGIN_VISIBLE const dt_plugin dt_this_plugin = { 999, DT_PLUGIN_LAYOUT, "other", "", start };
