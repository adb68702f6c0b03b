/* Makes the layers that nodes become. To infer the shape of a result, the layer's module is created
 * without drawing weights, and freed again. */
#include "core/block_list.h"
#include "io/onnx/onnx.h"
#include "nn/lists/layers_build.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#define MOST_LAYERS 16384

dt__onnx_layer *dt__onnx_maker(const dt__onnx *g, const dt__onnx_value *v)
{
    return g->layer[v->layer];
}

dt__onnx_number dt__onnx_extent(const dt__onnx *g, const dt__onnx_value *v, int i)
{
    const int axis[] = { v->axis[i], v->axis[i] == 0 ? v->outer : 0,
                         v->axis[i] == 0 ? v->inner : 0 };
    dt__onnx_number n = { 1, axis[0] == 0 };
    for (int k = 0; k < DT__COUNT_OF(axis); k++) {
        if (axis[k] != 0) n.value *= (double)dt__onnx_maker(g, v)->shape.dims[axis[k] - 1];
    }
    return n;
}

bool dt__onnx_is(const dt__onnx_layer *l, const char *kind)
{
    return l->type != NULL && strcmp(l->type->item.name, kind) == 0;
}

dt_status dt__onnx_new(dt__onnx *g, const char *kind, dt__onnx_layer **out)
{
    const dt_item_kind *item = dt_layer_kind(kind);
    dt__onnx_layer *l = *out = dt__onnx_memory(g, 1, sizeof *l);
    if (l == NULL) return DT_ERR_NOMEM;
    l->node = g->node;
    l->type = (const dt_layer_type *)((const char *)item - offsetof(dt_layer_type, item));
    l->options = dt__block_list_add(g->ctx, g->arena, item->size);
    return l->options == NULL ? DT_ERR_NOMEM : dt_layer_defaults(g->ctx, item, l->options);
}

void dt__onnx_read_from(dt__onnx_layer *l, const dt__onnx_layer *from)
{
    l->from[l->n_from++] = from->index;
}

dt_status dt__onnx_weigh_floats(dt__onnx *g, dt__onnx_layer *l, const char *path, const float *data,
                                int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(data[i])) return dt__onnx_refuse(g, "a weight is not finite");
    }
    l->weight[l->n_weights++] = (dt__onnx_weight){ path, data, count };
    return DT_OK;
}

dt_status dt__onnx_weigh(dt__onnx *g, dt__onnx_layer *l, const char *path, const dt__onnx_value *v)
{
    const float *data;
    DT__TRY(dt__onnx_floats_of(g, v, "a weight", &data));
    DT__TRY(dt__onnx_weigh_floats(g, l, path, data, v->count));
    return dt__onnx_hint(g, l, v->initializer, false);
}

/* Warns of a weight that is shared in the file by several nodes, or by the iterations of a loop,
 * and copied into each layer here. Not for vectors, as programs merge equal ones of several
 * layers. */
static void say_copied(const dt__onnx *g, dt__onnx_value *v)
{
    char shown[DT__SHOWN];
    if (v->rank < 2 || v->told) return;
    v->told = true;
    dt__say(g->ctx,
            "'%s' is read by %lld nodes: each layer gets a copy of its own, and training changes "
            "them apart",
            dt__shown(v->name, shown), (long long)v->uses);
}

dt_status dt__onnx_hint(dt__onnx *g, dt__onnx_layer *l, const char *initializer, bool whole)
{
    dt__onnx_value *v = initializer == NULL ? NULL : dt__onnx_find(g, initializer);
    const bool joined = v != NULL && v->uses > 1;
    if (joined) say_copied(g, v);
    if (initializer == NULL || joined || l->hint != NULL || strpbrk(initializer, ":/ ") != NULL) {
        return DT_OK;
    }
    const char *dot = strrchr(initializer, '.');
    if (dot == NULL || dot == initializer) return DT_OK;
    const char *end = whole ? initializer + strlen(initializer) : dot;
    if (end - initializer > INT_MAX) return DT_OK;
    l->hint = dt__block_list_text(g->ctx, g->arena, "%.*s", (int)(end - initializer), initializer);
    if (l->hint == NULL) return DT_ERR_NOMEM;
    l->hint = dt__onnx_clean(g, l->hint);
    return l->hint == NULL ? DT_ERR_NOMEM : DT_OK;
}

/* Weights get no memory, as shapes do not depend on them. */
static dt_status infer(dt__onnx *g, dt__onnx_layer *l)
{
    dt_shape in[DT_MAX_IN];
    dt_module *m = NULL;
    for (int i = 0; i < l->n_from; i++) in[i] = g->layer[l->from[i]]->shape;
    g->ctx->hollow = true;
    dt_status s = l->type->create(g->ctx, l->options, in, l->n_from, &m);
    g->ctx->hollow = false;
    if (s == DT_OK) s = dt__layer_shape(g->tape, m, in, l->n_from, &l->shape);
    dt_module_free(m);
    return s;
}

dt_status dt__onnx_add(dt__onnx *g, dt__onnx_layer *l)
{
    if (g->n_layers >= MOST_LAYERS) return dt__onnx_refuse(g, "more than %d layers", MOST_LAYERS);
    DT__TRY(infer(g, l));
    DT__TRY(DT__RESERVE(g->ctx, g->layer, g->n_layers, g->room_layers));
    l->index = g->n_layers;
    g->layer[g->n_layers++] = l;
    return DT_OK;
}

dt_status dt__onnx_add_on(dt__onnx *g, dt__onnx_layer *l, const dt__onnx_layer *from)
{
    dt__onnx_read_from(l, from);
    return dt__onnx_add(g, l);
}

dt_status dt__onnx_simple(dt__onnx *g, const char *kind, const dt__onnx_layer *from,
                          dt__onnx_layer **out)
{
    DT__TRY(dt__onnx_new(g, kind, out));
    return dt__onnx_add_on(g, *out, from);
}

dt_status dt__onnx_permuted(dt__onnx *g, dt__onnx_layer *from, const int *order,
                            dt__onnx_layer **out)
{
    dt__onnx_layer *l;
    *out = from;
    bool moves = false;
    for (int i = 0; i <= from->shape.rank; i++) moves |= order[i] != i;
    if (!moves) return DT_OK;
    DT__TRY(dt__onnx_new(g, "permute", &l));
    dt_ints *dims = &((dt_dims_layer *)l->options)->dims;
    dims->n = from->shape.rank + 1;
    for (int i = 0; i < dims->n; i++) dims->v[i] = order[i];
    dt__onnx_read_from(l, from);
    *out = l;
    return dt__onnx_add(g, l);
}

static bool same_shape(const dt_shape *a, const dt_shape *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0;
}

dt_status dt__onnx_reshaped(dt__onnx *g, dt__onnx_layer *from, const dt_shape *shape,
                            dt__onnx_layer **out)
{
    dt__onnx_layer *l;
    while (dt__onnx_is(from, "reshape")) from = g->layer[from->from[0]];
    *out = from;
    if (same_shape(&from->shape, shape)) return DT_OK;
    DT__TRY(dt__onnx_new(g, "reshape", &l));
    dt_ints *dims = &((dt_dims_layer *)l->options)->dims;
    dims->n = shape->rank;
    memcpy(dims->v, shape->dims, (size_t)shape->rank * sizeof shape->dims[0]);
    dt__onnx_read_from(l, from);
    *out = l;
    return dt__onnx_add(g, l);
}

dt_status dt__onnx_sliced(dt__onnx *g, dt__onnx_layer *from, int dim, const int64_t range[3],
                          dt__onnx_layer **out)
{
    dt__onnx_layer *l;
    *out = from;
    if (range[0] == 0 && range[1] >= from->shape.dims[dim - 1] && range[2] == 1) return DT_OK;
    DT__TRY(dt__onnx_new(g, "slice", &l));
    dt_slice_layer *o = l->options;
    o->dim = dim;
    o->start = range[0];
    o->stop = range[1];
    o->step = range[2];
    dt__onnx_read_from(l, from);
    *out = l;
    return dt__onnx_add(g, l);
}

dt_status dt__onnx_scaled(dt__onnx *g, dt__onnx_layer *from, double scale, double bias,
                          dt__onnx_layer **out)
{
    dt__onnx_layer *l;
    float *number = dt__onnx_memory(g, 2, sizeof *number);
    if (number == NULL) return DT_ERR_NOMEM;
    number[0] = (float)scale;
    number[1] = (float)bias;
    for (int i = 0; i < 2; i++) { /* subnormal floats have fewer bits */
        if (number[i] == 0 ? (i == 0 ? scale : bias) == 0 : isnormal(number[i])) continue;
        return dt__onnx_refuse(g, "a factor of %g or an addend of %g is beyond the range of floats",
                               scale, bias);
    }
    DT__TRY(dt__onnx_new(g, "affine", &l));
    dt_affine_options *o = &((dt_affine_layer *)l->options)->affine;
    o->scale = scale != 1;
    o->bias = bias != 0;
    o->trained = false;
    *out = from;
    if (!o->scale && !o->bias) return DT_OK;
    if (o->scale) DT__TRY(dt__onnx_weigh_floats(g, l, "weight", &number[0], 1));
    if (o->bias) DT__TRY(dt__onnx_weigh_floats(g, l, "bias", &number[1], 1));
    dt__onnx_read_from(l, from);
    *out = l;
    return dt__onnx_add(g, l);
}
