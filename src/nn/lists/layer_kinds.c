/* The kinds of layers of family `layers`. */
#include "core/text/json.h"
#include "nn/lists/layer_type.h"

#include <string.h>

const char *const dt_layer_norm_names[] = { "none", "batch", "group", "layer", NULL };

#define DT__LAYER(kind) extern const dt_layer_type dt__layer_##kind;
#include "nn/lists/layers.inc"
#undef DT__LAYER

#define DT__LAYER(kind) &dt__layer_##kind.item,
static const dt_item_kind *const kinds[] = {
#include "nn/lists/layers.inc"
    &dt__repeat_kind,
};
#undef DT__LAYER

const dt_item_kind *dt_layer_kind_at(int i)
{
    if (i < 0) return NULL;
    if (i < DT__COUNT_OF(kinds)) return kinds[i];
    const dt_layer_type *activation = dt__activation_layer_at(i - DT__COUNT_OF(kinds));
    return activation == NULL ? NULL : &activation->item;
}

const dt_item_kind *dt_layer_kind(const char *name)
{
    if (name == NULL) return NULL;
    const dt_item_kind *kind = NULL;
    for (int i = 0; (kind = dt_layer_kind_at(i)) != NULL; i++) {
        if (strcmp(kind->name, name) == 0) break;
    }
    return kind;
}

const dt_item_kind *dt_layer_kind_in(const dt_ctx *ctx, const char *name)
{
    const dt_item_kind *kind = dt_layer_kind(name);
    if (kind != NULL || ctx == NULL || name == NULL) return kind;
    const dt_layer_type *own = dt__registered_named(ctx, DT__LAYERS, name);
    return own == NULL ? NULL : &own->item;
}

dt_status dt_layer_register(dt_ctx *ctx, const dt_layer_type *type)
{
    DT__NEED2(ctx, ctx, type);
    if (type->item.name == NULL || *type->item.name == 0 || type->item.keys == NULL ||
        type->create == NULL) {
        return dt_fail(ctx, DT_ERR_ARG, "layer: a name, keys and a function must be given");
    }
    if (dt_layer_kind_in(ctx, type->item.name) != NULL) {
        return dt_fail(ctx, DT_ERR_ARG, "layer: there is a kind '%s' already", type->item.name);
    }
    return dt__register(ctx, DT__LAYERS, type);
}

dt_status dt_layer_defaults(dt_ctx *ctx, const dt_item_kind *kind, void *options)
{
    DT__NEED4(ctx, ctx, kind, kind->keys, options);
    return dt__default_options(ctx, kind->keys, options, kind->size);
}

dt_status dt__want_example_rank(dt_ctx *ctx, const char *kind, const dt_shape *in, int rank)
{
    char text[160];
    if (in->rank == rank) return DT_OK;
    return dt_fail(ctx, DT_ERR_SHAPE, "%s reads examples of %d dimension%s, not %s", kind, rank,
                   rank == 1 ? "" : "s", dt__dims_text(in->rank, in->dims, text, sizeof text));
}
