/* Pooling layers: create functions, which check the options that do not depend on an image. */
#include "nn/convolution/pool_layers.h"

#include <string.h>

static dt_status check(dt_ctx *ctx, const char *layer, const dt_pool_options *o, int axes)
{
    for (int d = 0; d < axes; d++) {
        DT__TRY(dt__want_extent(ctx, layer, "an extent of the kernel", o->kernel[d]));
        if (o->stride[d] < 0 || o->padding[d] < 0 || o->dilation[d] < 0) {
            return dt_fail(ctx, DT_ERR_ARG, "%s: a stride, padding or dilation is below 0", layer);
        }
    }
    return DT_OK;
}

dt_status dt__pool_create(dt_ctx *ctx, const dt_module_type *type, const dt_pool_options *options,
                          int axes, dt_module **out)
{
    const dt_pool_options o = options != NULL ? *options : dt_pool_defaults();
    *out = NULL;
    DT__TRY(check(ctx, type->name, &o, axes));
    DT__TRY(dt_module_create(ctx, type, sizeof o, out));
    *(dt_pool_options *)dt_module_state(*out) = o;
    return DT_OK;
}

dt_status dt__adaptive_create(dt_ctx *ctx, const dt_module_type *type, int axes,
                              const int64_t *size, dt_module **out)
{
    static const char *const names[2][2] = { { "the length" }, { "the height", "the width" } };
    *out = NULL;
    for (int d = 0; d < axes; d++) {
        DT__TRY(dt__want_extent(ctx, type->name, names[axes - 1][d], size[d]));
    }
    DT__TRY(dt_module_create(ctx, type, (size_t)axes * sizeof *size, out));
    memcpy(dt_module_state(*out), size, (size_t)axes * sizeof *size);
    return DT_OK;
}
