/* The model families that recipes and files can name: those of families.inc, and those that a
 * program has registered. */
#include "nn/families/family.h"

#include <string.h>

#define DT__FAMILY(name) &dt__family_##name,
static const dt_family *const families[] = {
#include "nn/families/families.inc"
};
#undef DT__FAMILY

const dt_family *dt_family_at(int i)
{
    return i >= 0 && i < DT__COUNT_OF(families) ? families[i] : NULL;
}

const dt_family *dt_family_named(const dt_ctx *ctx, const char *name)
{
    if (ctx == NULL) return NULL;
    if (name == NULL) return NULL;
    for (int i = 0; i < DT__COUNT_OF(families); i++) {
        if (strcmp(families[i]->name, name) == 0) return families[i];
    }
    return dt__registered_named(ctx, DT__FAMILIES, name);
}

dt_status dt_family_register(dt_ctx *ctx, const dt_family *family)
{
    DT__NEED(NULL, ctx);
    if (family == NULL || family->name == NULL || family->name[0] == 0 || family->keys == NULL ||
        family->create == NULL) {
        return dt_fail(ctx, DT_ERR_ARG, "family: a name, keys and a create function must be given");
    }
    if (dt_family_named(ctx, family->name) != NULL) {
        return dt_fail(ctx, DT_ERR_ARG, "family: there is a family '%s' already", family->name);
    }
    return dt__register(ctx, DT__FAMILIES, family);
}

dt_status dt__family_twin(dt_ctx *ctx, const dt_family *family, const void *options,
                          dt_module **out)
{
    const bool before = ctx->blank;
    dt__stream streams[DT__PURPOSES];
    memcpy(streams, ctx->stream, sizeof streams);
    ctx->blank = true;
    const dt_status s = family->create(ctx, options, out);
    ctx->blank = before;
    memcpy(ctx->stream, streams, sizeof streams);
    return s;
}
