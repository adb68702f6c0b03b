/* Pad and CenterCropPad: adds elements around a value, or cuts them off. */
#include "io/onnx/onnx.h"

#include <float.h>
#include <math.h>

/* Mode, value, pads and axes of the node. */
static dt_status read_pad(dt__onnx *g, dt_pad_options *o, dt_ints *pads, dt_ints *axes)
{
    static const char *const names[] = { "constant", "reflect", "edge", "wrap" };
    int mode = 0;
    while (mode < 3 && !dt__onnx_says(g, "mode", names[mode], "constant")) mode++;
    o->mode = mode;
    o->value = dt__onnx_real_attribute(g->node, "value", 0);
    axes->n = 0;
    DT__TRY(dt__onnx_list_or_in(g, "pads", 1, pads));
    if (dt__onnx_in(g, 2) != NULL) {
        DT__TRY(dt__onnx_real_of(g, dt__onnx_in(g, 2), "the value", &o->value));
    }
    if (dt__onnx_in(g, 3) != NULL) {
        DT__TRY(dt__onnx_ints_of(g, dt__onnx_in(g, 3), "axes", axes));
    }
    if (fabs(o->value) <= (double)FLT_MAX) return DT_OK;
    return dt__onnx_refuse(g, "it pads with %g; expected a finite number", o->value);
}

/* Negative pads cut elements off before others are added. */
static dt_status crop(dt__onnx *g, const dt_pad_options *o, int dim, const int64_t pads[2],
                      dt__onnx_layer **l)
{
    const int64_t n = (*l)->shape.dims[dim - 1];
    const int64_t first = pads[0] < 0 ? -pads[0] : 0, last = pads[1] < 0 ? -pads[1] : 0;
    if (first == 0 && last == 0) return DT_OK;
    if (o->mode != DT_PAD_CONSTANT)
        return dt__onnx_refuse(g, "its pads are below 0; expected 0 or more (Slice cuts)");
    if (first >= n || last >= n - first) return dt__onnx_refuse(g, "its result would be empty");
    return dt__onnx_sliced(g, *l, dim, (const int64_t[]){ first, n - last, 1 }, l);
}

static dt_status add_pads(dt__onnx *g, const dt_pad_options *pad, dt__onnx_layer **l)
{
    dt__onnx_layer *from = *l;
    int n = pad->pads.n;
    while (n > 0 && pad->pads.v[n - 1] == 0 && pad->pads.v[n - 2] == 0) n -= 2;
    if (n == 0) return DT_OK;
    DT__TRY(dt__onnx_new(g, "pad", l));
    dt_pad_options *o = &((dt_pad_layer *)(*l)->options)->pad;
    *o = *pad;
    o->pads.n = n;
    dt__onnx_read_from(*l, from);
    return dt__onnx_add(g, *l);
}

dt_status dt__onnx_pad(dt__onnx *g)
{
    const dt__onnx_value v = *dt__onnx_in(g, 0);
    dt_pad_options o = { .value = 0 };
    dt_ints pads, axes;
    int axis;
    bool seen[DT_MAX_RANK] = { false };
    if (v.kind != DT__ONNX_COMPUTED)
        return dt__onnx_refuse(g, "it pads a constant by computed pads; expected a computed value");
    dt__onnx_layer *l = dt__onnx_maker(g, &v);
    DT__TRY(read_pad(g, &o, &pads, &axes));
    const int n = axes.n > 0 ? axes.n : v.rank - g->front, rank = l->shape.rank;
    if (pads.n != 2 * n) return dt__onnx_refuse(g, "%d pads for %d dimensions", pads.n, n);
    o.pads.n = 2 * rank;
    for (int i = 0; i < o.pads.n; i++) o.pads.v[i] = 0;
    for (int i = 0; i < n; i++) {
        const int64_t own[2] = { pads.v[i], pads.v[n + i] };
        DT__TRY(dt__onnx_new_axis(g, axes.n > 0 ? axes.v[i] : i, v.rank, seen, &axis));
        if (v.axis[axis] == 0 && (own[0] != 0 || own[1] != 0)) {
            return dt__onnx_refuse(g, "it changes the batch dimension, which must stay");
        }
        if (v.axis[axis] == 0) continue;
        DT__TRY(crop(g, &o, v.axis[axis], own, &l));
        for (int k = 0; k < 2; k++) {
            o.pads.v[2 * (rank - v.axis[axis]) + k] = dt__max_i64(0, own[k]);
        }
    }
    DT__TRY(add_pads(g, &o, &l));
    dt__onnx_keep(g, 0, &v, l);
    return DT_OK;
}

/* Takes the middle of a dimension, or pads it with zeros; of an odd difference the end gets
 * more. */
dt_status dt__onnx_center(dt__onnx *g)
{
    const dt__onnx_value v = *dt__onnx_in(g, 0);
    dt_ints size, axes;
    int axis;
    bool seen[DT_MAX_RANK] = { false };
    if (v.kind != DT__ONNX_COMPUTED)
        return dt__onnx_refuse(
            g, "its shape is computed; expected a constant, or the size of an input");
    dt__onnx_layer *l = dt__onnx_maker(g, &v);
    DT__TRY(dt__onnx_ints_of(g, dt__onnx_in(g, 1), "the shape", &size));
    DT__TRY(dt__onnx_list(g, "axes", &axes));
    const int n = axes.n > 0 ? axes.n : v.rank - g->front;
    if (size.n != n) return dt__onnx_refuse(g, "%d extents for %d dimensions", size.n, n);
    for (int i = 0; i < n; i++) {
        DT__TRY(dt__onnx_new_axis(g, axes.n > 0 ? axes.v[i] : i, v.rank, seen, &axis));
        const int64_t own = (int64_t)dt__onnx_extent(g, &v, axis).value, to = size.v[i];
        if (v.axis[axis] == 0 && to != own * g->batch)
            return dt__onnx_refuse(g, "it changes the batch dimension, which must stay");
        if (v.axis[axis] == 0) continue;
        if (to < 1 || to > INT32_MAX)
            return dt__onnx_refuse(g, "a dimension would have %lld elements; expected 1 or more",
                                   (long long)to);
        const int64_t less = own > to ? (own - to) / 2 : 0, more = to > own ? to - own : 0;
        const int64_t range[3] = { less, less + dt__min_i64(own, to), 1 };
        DT__TRY(dt__onnx_sliced(g, l, v.axis[axis], range, &l));
        DT__TRY(dt__onnx_padded(g, l, v.axis[axis], more / 2, more - more / 2, 0, &l));
    }
    dt__onnx_keep(g, 0, &v, l);
    return DT_OK;
}
