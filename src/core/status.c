/* Status codes and the context's message. */
#include "core/core.h"

#include <stdio.h>

#define DT__VERSION "0.1.0"

static const char *const names[] = {
    "DT_OK",         "DT_ERR_ARG",     "DT_ERR_SHAPE",       "DT_ERR_DTYPE",
    "DT_ERR_STATE",  "DT_ERR_NOMEM",   "DT_ERR_IO",          "DT_ERR_FORMAT",
    "DT_ERR_CONFIG", "DT_ERR_NUMERIC", "DT_ERR_UNSUPPORTED", "DT_ERR_INTERRUPTED",
};

const char *dt_status_name(dt_status status)
{
    const int i = (int)status;
    return i <= 0 && i > -DT__COUNT_OF(names) ? names[-i] : "unknown status";
}

const char *dt_version(void) { return DT__VERSION; }

const char *dt_error(const dt_ctx *ctx) { return ctx == NULL ? "no context" : ctx->message; }

dt_status dt_error_status(const dt_ctx *ctx) { return ctx == NULL ? DT_ERR_ARG : ctx->status; }

bool dt_error_of_machine(const dt_ctx *ctx) { return ctx != NULL && ctx->of_machine; }

dt_status dt__fail_v(dt_ctx *ctx, dt_status status, const char *format, va_list arguments)
{
    if (ctx == NULL) return status;
    ctx->status = status;
    ctx->of_machine = status == DT_ERR_NOMEM;
    vsnprintf(ctx->message, sizeof ctx->message, format, arguments);
    return status;
}

dt_status dt_fail(dt_ctx *ctx, dt_status status, const char *format, ...)
{
    if (format == NULL) return DT_ERR_ARG;
    va_list arguments;
    va_start(arguments, format);
    dt__fail_v(ctx, status, format, arguments);
    va_end(arguments);
    return status;
}

dt_status dt__is_null(dt_ctx *ctx, const char *function, const char *argument)
{
    return dt_fail(ctx, DT_ERR_ARG, "%s: %s is NULL", function, argument);
}
