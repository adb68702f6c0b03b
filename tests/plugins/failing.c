/* A plugin that cannot start. */
#include <detent/experimental/plugin.h>

static const dt_loss nameless;

static dt_status start(dt_ctx *ctx) { return dt_loss_register(ctx, &nameless); }

DT_PLUGIN("failing", "a loss without a name", start)
